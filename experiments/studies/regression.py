"""Is the network's density of a measured number worth having?  Against a Gaussian process, Bayesian ridge and boosted quantiles.

Protocol, written before the first record.
    Question    Log score and CRPS of the forecast of a number, coverage of the intervals of 50 % and 90 %, and what it costs.
    Methods     cmn: CMNRegressor as it comes; gp: a Gaussian process, constant times squared exponential with a length for each column, plus white
                noise, y normalised, lengths found by the marginal likelihood from one start; ridge: BayesianRidge; boosting: HistGradientBoosting with the quantile loss at
                the nineteen levels 0.05, 0.10 ... 0.95, quantiles sorted.  All see standardised columns; nothing is tuned on test rows.
    Rows        diabetes (442 rows, 10 columns); wine, its alcohol from the other twelve columns (178); iris, its petal width from the other three
                (150): real sets that scikit-learn ships.  friedman (make_friedman1, ten columns of which five matter, noise 1) and waves (a sine
                in the first of two columns, whose noise is five times larger on one side) are generated anew for each split, 500 rows.
                Splits 0 to 7: two thirds of the rows, at most 300, to learn from, at most 250 of the rest to forecast.
    Numbers     Log score: mean log density of the standardised y (by mean and deviation of the training rows).  The nineteen quantiles of
                boosting become a density by a piecewise linear distribution function, gaps widened to 0.01 where they are smaller, with
                exponential tails that begin with the density of the outermost gap.  CRPS: twice the mean pinball loss over the nineteen levels,
                for every method.  RMSE of the mean (of boosting, of the median).  CPU seconds of the fit and of all forecasts together.
    Verdict     Paired by split: a method is better than another on a set if its mean difference is above twice its standard error over eight
                splits, worse if below minus twice.  Splits share rows, so that these errors are too small rather than too large.
    Known       The defaults of CMNRegressor (ten experts, v0 = 1, b0 = 0.2, a shared mean, a known map) were chosen among seven settings by the mean
                log score on splits 100 and 101 of these sets.  Splits 0 to 7 were not looked at; the real sets have the same rows in them.
"""
import time
import warnings
from typing import NamedTuple

import numpy as np
from scipy import stats

from cmn_literate.storage import fingerprint
from experiments.run import plain
from experiments.tables import Table

SPLITS = range(8)
SETS = ("diabetes", "wine", "iris", "friedman", "waves")
METHODS = ("cmn", "gp", "ridge", "boosting")
LEVELS = np.arange(1, 20) / 20
NARROW = 0.01                                             # the least gap between two quantiles of boosting
TOLERANCE = 1e-3
NAMES = {"lpd": "log score", "crps": "CRPS", "rmse": "RMSE", "cover50": "in 50 %", "cover90": "in 90 %", "seconds": "CPU seconds"}
BEGUN = False


class Cell(NamedTuple):
    """A method on a split of a data set."""
    dataset: str
    method: str
    split: int


def plan():
    """Split by split, so that a part of the study is a study; boosting, which is dear, last."""
    return [Cell(d, m, s) for some in (METHODS[:3], METHODS[3:]) for s in SPLITS for d in SETS for m in some]


def load(name, split):
    """X (N,d), y (N,) of a set; the generated ones are drawn for the split."""
    from sklearn import datasets

    rng = np.random.default_rng([20, split])
    if name == "friedman":
        return datasets.make_friedman1(500, noise=1.0, random_state=split)
    if name == "waves":
        X = rng.uniform(-3, 3, (500, 2))
        return X, np.sin(2 * X[:, 0]) + np.where(X[:, 0] < 0, 0.08, 0.4) * rng.normal(size=500)
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    column = {"wine": 0, "iris": 3}.get(name)
    return (X, y) if column is None else (np.delete(X, column, 1), X[:, column])


def rows(name, split):
    """Standardised X and y of the training rows, those of the test rows, and a fingerprint of the data."""
    X, y = load(name, split)
    order = np.random.default_rng([21, split]).permutation(len(y))
    n = min(300, 2 * len(y) // 3)
    train, test = order[:n], order[n:n + 250]
    centre, width = X[train].mean(0), X[train].std(0)
    X, y = (X - centre) / np.where(width > 0, width, 1.0), (y - y[train].mean()) / y[train].std()
    return X[train], y[train], X[test], y[test], fingerprint(X, y)


# ---- methods: each gives mean, quantiles (n, 19) and log density at y

def by_normal(mean, sd, y):
    """The three of a normal forecast."""
    quantiles = mean[:, None] + sd[:, None] * stats.norm.ppf(LEVELS)
    return mean, quantiles, stats.norm.logpdf(y, mean, sd)


def by_quantiles(quantiles, y):
    """The three of sorted quantiles (n, 19): see the protocol."""
    q = np.sort(quantiles, axis=1)
    gaps = np.maximum(np.diff(q, axis=1), NARROW)
    middle = q[:, 9]
    q = np.concatenate([np.zeros((len(q), 1)), np.cumsum(gaps, 1)], 1)
    q += (middle - q[:, 9])[:, None]
    step = LEVELS[1] - LEVELS[0]
    height = step / gaps
    place = (y[:, None] >= q).sum(1)                      # 0: below the first, 19: above the last
    inside = np.clip(place - 1, 0, 17)
    log_p = np.log(height[np.arange(len(y)), inside])
    for at, edge, first in ((place == 0, q[:, 0] - y, height[:, 0]), (place == 19, y - q[:, -1], height[:, -1])):
        log_p = np.where(at, np.log(first) - edge * first / LEVELS[0], log_p)      # a tail of mass 0.05 that begins with that density
    return middle, q, log_p


def forecast(method, X, y, X_new, y_new, seed):
    """-> mean, quantiles, log densities, seconds of fit and forecast, notes"""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
    from sklearn.linear_model import BayesianRidge

    from cmn_literate.beyond.regressor import CMNRegressor

    clock, notes = [time.process_time()], {}
    if method == "cmn":
        model = CMNRegressor(random_state=seed).fit(X, y)
        clock.append(time.process_time())
        found = model.predict(X_new), model.predict_quantiles(X_new, LEVELS), model.predict_density(X_new, y_new, log=True)
        notes = {"elbo": plain(model.elbo_), "steps": int(model.n_sweeps_), "converged": bool(model.converged_)}
    elif method == "boosting":
        models = [HistGradientBoostingRegressor(loss="quantile", quantile=level, random_state=seed).fit(X, y) for level in LEVELS]
        clock.append(time.process_time())
        found = by_quantiles(np.stack([m.predict(X_new) for m in models], 1), y_new)
    else:
        kernel = ConstantKernel(1.0, (1e-2, 1e3)) * RBF(np.ones(X.shape[1]), (1e-1, 1e3)) + WhiteKernel(0.1, (1e-4, 1e1))
        model = BayesianRidge() if method == "ridge" else GaussianProcessRegressor(kernel, normalize_y=True, random_state=seed)
        model.fit(X, y)
        clock.append(time.process_time())
        found = by_normal(*model.predict(X_new, return_std=True), y_new)
    return *found, np.diff([*clock, time.process_time()]), notes


def scores(mean, quantiles, log_p, y):
    """The numbers of the protocol."""
    gap = y[:, None] - quantiles
    pinball = np.maximum(LEVELS * gap, (LEVELS - 1) * gap)
    inside = lambda low, high: float(((y >= quantiles[:, low]) & (y <= quantiles[:, high])).mean())
    return {"lpd": float(log_p.mean()), "crps": float(2 * pinball.mean()), "rmse": float(np.sqrt(((mean - y) ** 2).mean())),
            "cover50": inside(4, 14), "cover90": inside(0, 18)}


def run(cell, records=None, data_home=None, models=None):
    """One fit and its scores."""
    X, y, X_new, y_new, sha256 = rows(cell.dataset, cell.split)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")                   # the record says whether it converged
        *found, spent, notes = forecast(cell.method, X, y, X_new, y_new, cell.split)
    metrics = {name: plain(number) for name, number in scores(*found, y_new).items()} | notes
    return {"setting": {}, "metrics": metrics,
            "provenance": {"cpu_seconds": float(spent[0]), "scoring_cpu_seconds": float(spent[1]), "sha256": sha256}}


# ---- reading the records

def value(record, name):
    """A number of a record; seconds are those of fit and forecasts together."""
    p = record["provenance"]
    return p["cpu_seconds"] + p["scoring_cpu_seconds"] if name == "seconds" else record["metrics"][name]


def present(records):
    """The methods that are stored on two splits or more of every set, in their order."""
    return [m for m in METHODS if all(sum(Cell(d, m, s) in records for s in SPLITS) > 1 for d in SETS)]


def n_splits(records):
    """How many splits are whole: all methods that are present, on all sets."""
    return sum(all(Cell(d, m, s) in records for d in SETS for m in present(records)) for s in SPLITS)


def level(records, dataset, method, name):
    """Mean and standard error over the splits that are stored."""
    found = [value(records[cell], name) for cell in (Cell(dataset, method, s) for s in SPLITS) if cell in records]
    return float(np.mean(found)), float(np.std(found, ddof=1) / np.sqrt(len(found)))


def difference(records, dataset, method, base="cmn", name="lpd"):
    """Mean and standard error of method less base, paired by split."""
    pairs = [(records.get(Cell(dataset, method, s)), records.get(Cell(dataset, base, s))) for s in SPLITS]
    gaps = [value(a, name) - value(b, name) for a, b in pairs if a and b]
    return float(np.mean(gaps)), float(np.std(gaps, ddof=1) / np.sqrt(len(gaps)))


def verdict(records, method="cmn", base="ridge", name="lpd"):
    """(better, worse, sets) by the rule of the protocol; of CRPS the smaller is the better."""
    sign = 1 if name == "lpd" else -1
    gaps = [difference(records, d, method, base, name) for d in SETS]
    return sum(sign * m > 2 * e for m, e in gaps), sum(sign * m < -2 * e for m, e in gaps), len(gaps)


def score_table(records, name="lpd", digits=2):
    """A Table: a number of every method on every set, with its standard error over splits."""
    methods = present(records)
    cells = [[d, *(f"{m:.{digits}f} ± {e:.{digits}f}" for m, e in (level(records, d, v, name) for v in methods))] for d in SETS]
    return Table(["data", *methods], cells, "l" + "r" * len(methods), f"{NAMES[name]}, mean ± standard error over {n_splits(records)} splits")


def cover_table(records):
    """A Table: which share of the test rows the intervals of 50 % and 90 % hold."""
    methods = present(records)
    cells = [[d, *(f"{100 * level(records, d, v, 'cover50')[0]:.0f} / {100 * level(records, d, v, 'cover90')[0]:.0f}" for v in methods)] for d in SETS]
    return Table(["data", *methods], cells, "l" + "r" * len(methods), "Test rows inside the intervals of 50 % / 90 %, in per cent, mean over splits")


def report(records):
    """Lines of all tables."""
    for table in (score_table(records), score_table(records, "crps", 3), score_table(records, "rmse", 3), cover_table(records), score_table(records, "seconds", 1)):
        yield from (*repr(table).split("\n"), "")
    for base in present(records)[1:]:
        yield f"cmn less {base}: log score better at {verdict(records, 'cmn', base)}, CRPS {verdict(records, 'cmn', base, 'crps')} (better, worse, sets)"
