"""Three questions to the candidates for a default that no grid of data sets asks: pure noise, digits, and many rows.

Protocol, written before the first record.
    Candidates  Of the study of defaults: paper, shared, hyperplanes x 4, shared hyperplanes x 4, mix, ridge; their fits are made by its code, at
                most 200 sweeps, tol 1e-6.
    noise       Labels that are independent of the inputs: 100 rows of 20 normal columns and two classes, 300 rows of 30 and three; numbers 0 to 7,
                ten experts, 300 test rows.  Goal: no worse than ridge by more than .05 nats, in the mean over the numbers.
    digits      8 x 8, 1,297 training and 500 test rows, splits 0 to 3, without the two dearest candidates (paper, hyperplanes x 4); ten experts,
                and five on splits 0 to 2.  Goal: accuracy .965 and log score -.12.
    large       50,000 rows of 54 columns and seven unequal classes (`many_rows`), 5,000 test rows, numbers 0 to 2.  Here mix is the method "several"
                of the estimator: it begins on a part of the rows, visits each twenty times and ends at a gain below 3e-5; two threads.  Boosting
                beside it, no other candidate.  Goal: 60 seconds of a clock on two cores.
A record holds all candidates of a cell, in the order of ASKED; what a part leaves out is empty.
"""
import time
import warnings
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from experiments.run import held_out, plain
from experiments.studies import defaults
from experiments.studies.others import forecast, standardised
from experiments.tables import Table

BEGUN = False
TOLERANCE = 2e-3
TIMED = ("seconds", "clock")
NOISE = {"noise 2": (100, 20, 2), "noise 3": (300, 30, 3)}
ASKED = ("paper", "shared", "hyperplanes x 4", "shared hyperplanes x 4", "mix", "ridge", "boosting")
DIGITS, LARGE = (1297, 500), (50_000, 5000)
SHARES = (0.365, 0.488, 0.062, 0.005, 0.016, 0.03, 0.034)             # of the classes of many rows, as unequal as those of forest covers
NAMES = ("lpd", "accuracy", "ece")


class Cell(NamedTuple):
    """All candidates on one draw of a part, with so many experts."""
    part: str
    experts: int
    number: int


def plan():
    """Noise first, then many rows, then digits."""
    cells = [Cell(part, 10, i) for i in range(8) for part in NOISE] + [Cell("large", 10, i) for i in range(3)]
    return cells + [Cell("digits", 10, i) for i in range(4)] + [Cell("digits", 5, i) for i in range(3)]


def many_rows(n, rng):
    """Rows of 54 columns in seven unequal classes: three clusters a class in 16 dimensions, then half of a product of two columns on each."""
    from sklearn.datasets import make_classification

    X, y = make_classification(n, n_features=54, n_informative=16, n_redundant=8, n_classes=7, n_clusters_per_class=3, class_sep=1.5,
                               flip_y=0.02, weights=list(SHARES), random_state=int(rng.integers(2**31)))
    X = (X - X.mean(0)) / X.std(0)
    return X + 0.5 * X[:, rng.permutation(54)] * X[:, rng.permutation(54)], y


def rows_of(cell):
    """Training and test rows of a cell, standardised by the training rows: Z, y, Z, y, number of classes."""
    from cmn_literate.use.datasets import stratified_split

    if cell.part == "digits":
        X, y = defaults.draw("digits", 0)
        train, test = stratified_split(y, *DIGITS, np.random.default_rng(200 + cell.number))
        L = 10
    elif cell.part == "large":
        X, y = many_rows(sum(LARGE), np.random.default_rng(400 + cell.number))
        train, test, L = np.arange(LARGE[0]), np.arange(LARGE[0], sum(LARGE)), 7
    else:
        (n, d, L), rng = NOISE[cell.part], np.random.default_rng(300 + cell.number)
        X, y = rng.normal(size=(n + 300, d)), rng.integers(0, L, n + 300)
        train, test = np.arange(n), np.arange(n, n + 300)
    Z = standardised(X, train)
    return Z[train], y[train], Z[test], y[test], L


def asked(cell):
    """The candidates of a cell."""
    left_out = {"digits": ("paper", "hyperplanes x 4", "boosting"), "large": ASKED[:4] + ("ridge",)}
    return tuple(name for name in ASKED if name not in left_out.get(cell.part, ("boosting",)))


def run(cell, records=None, data_home=None, models=None):
    """All fits of a cell, and the scores of the candidates."""
    from cmn_literate.engineering.quadrature import predict_log_proba

    Z, y, Z_new, truth, L = rows_of(cell)
    if cell.part == "large":
        return large(cell, Z, y, Z_new, truth)
    log_p, spent = {}, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in dict.fromkeys(f for candidate in asked(cell) for f in defaults.CANDIDATES[candidate]):
            clock = time.process_time()
            if name[0] == "ridge":
                log_p[name], _ = forecast("logistic", Z, y, Z_new, 0, cell.part)
            else:
                log_p[name] = predict_log_proba(defaults.fit_one(name, Z, y, L, cell.experts).parameters, Z_new)
            spent[name] = time.process_time() - clock
    fits = {name: defaults.CANDIDATES[name] for name in asked(cell)}
    mixed = {name: logsumexp([log_p[f] for f in of], axis=0) - np.log(len(of)) for name, of in fits.items()}
    return {"setting": {"max_sweeps": defaults.SWEEPS}, "metrics": scored(truth, mixed, {name: sum(spent[f] for f in of) for name, of in fits.items()})}


def scored(truth, log_p, seconds):
    """Metrics in the order of ASKED from {candidate: log probabilities} and {candidate: CPU seconds}."""
    scores = {name: [None] * len(ASKED) for name in (*NAMES, "seconds")}
    for candidate in log_p:
        found, i = held_out(truth, log_p[candidate]), ASKED.index(candidate)
        for name in NAMES:
            scores[name][i] = plain(found[name], 5)
        scores["seconds"][i] = round(seconds[candidate], 3)
    return scores


def large(cell, Z, y, Z_new, truth):
    """The record of a cell of many rows."""
    from cmn_literate import CMNClassifier

    est = CMNClassifier.paper(n_experts=cell.experts, method="several", init="hyperplanes", tol=3e-5, random_state=cell.number, n_jobs=2,
                              method_options={"plain": 2, "shared": 2})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clock, spent = time.perf_counter(), time.process_time()
        est.fit(Z, y)
        clock, spent = time.perf_counter() - clock, time.process_time() - spent
        middle = time.process_time()
        boosted, _ = forecast("boosting", Z, y, Z_new, cell.number, cell.part)
    seconds = {"mix": spent, "boosting": time.process_time() - middle}
    sweeps = [one.n_sweeps for one in est.fits_[0].members]
    metrics = scored(truth, {"mix": est.predict_log_proba(Z_new), "boosting": boosted}, seconds)
    return {"setting": {"n_jobs": 2}, "metrics": metrics | {"clock": round(clock, 3), "sweeps": sweeps, "converged": bool(est.converged_)}}


# ---- reading the records

def values(records, part, n_experts, name):
    """(numbers, candidates) of a metric, of what is stored; nan where a candidate is left out."""
    found = [r["metrics"][name] for c, r in sorted(records.items()) if (c.part, c.experts) == (part, n_experts)]
    return np.array(found, float).reshape(len(found), len(ASKED))


def part_table(records, part, n_experts):
    """A Table: score of every candidate, and the difference to ridge, paired by number, with its standard error."""
    lpd, rows, rival = values(records, part, n_experts, "lpd"), [], "boosting" if part == "large" else "ridge"
    mean_of, ridge = lambda name, i: values(records, part, n_experts, name)[:, i].mean(), ASKED.index(rival)
    for i, name in enumerate(ASKED):
        if np.isnan(lpd[:, i]).any():
            continue
        gap = lpd[:, i] - lpd[:, ridge]
        error = f" ± {gap.std(ddof=1) / len(gap) ** 0.5:.3f}" if len(gap) > 1 else ""
        rows.append([name, f"{lpd[:, i].mean():.3f}", None if i == ridge else f"{gap.mean():+.3f}{error}",
                     None if i == ridge else f"{gap.min():+.3f}", f"{mean_of('accuracy', i):.3f}", f"{mean_of('ece', i):.3f}", f"{mean_of('seconds', i):.1f}"])
    return Table(["candidate", "log score", f"less {rival}", "worst", "accuracy", "ECE", "CPU s"], rows, "lrrrrrr",
                 f"{part}, {n_experts} experts, " + (f"{len(lpd)} draws; ± standard error over draws" if len(lpd) > 1 else "1 draw"))


def report(records):
    """Lines: how far it is, and a table for each part."""
    yield f"{len(records)} of {len(plan())} cells"
    for part, n_experts in dict.fromkeys((c.part, c.experts) for c in plan()):
        if len(values(records, part, n_experts, "lpd")):
            yield from (*repr(part_table(records, part, n_experts)).splitlines(), "")
