"""What does a further layer buy, and from which start does it not collapse?

Protocol, written before the first record.
    Question    Difference of the test log score to that of one layer, paired by split, for two and three layers.
    Networks    six experts in every layer, the output's latents one less than the classes, two latents in the other layers or as many as the
                output's if that is more, the default priors, at most 100 sweeps, tol 1e-6, seed 0.  One layer is coordinate ascent as it is.
                One layer of twelve experts is asked too: two layers have more of everything, and depth should beat width.
    Starts      "greedy", the default: each layer below the top is a fitted network of one layer.  On five sets two layers are also started
                from "code", from "input" and from "random": see deep_start; the last has random means in all layers.
    Collapsed   The forecast of the training rows (by moments) has a log score less than half as far above the class frequencies' as that of
                one layer on the same rows.
    Rows        the eight sets of the grid at one of their smaller sizes (splits 40 to 43, which no study before this one has seen);
                spirals, checkerboards and the 8 x 8 digits of scikit-learn, 200 rows each (here the split is the seed of the rows).
                At most the first 200 test rows.
    Numbers     log score, accuracy, ECE, Brier score of the forecast by 512 paths, the largest standard error of its probabilities, and the log
                score of the forecast by moments; the bound; experts in use in each layer, exp of the entropy of the gate's mean.
    Verdict     two (three) layers are better than one on a set if the mean difference is above twice its standard error over the
                four splits, worse if below minus twice.  No network is left out, none was tried on these rows before; what was tried on
                spirals and checkerboards of another seed, to choose two latents and the greedy start, had 150 rows and six experts.
"""
import time
import warnings
from typing import NamedTuple

import numpy as np
from scipy.stats import qmc  # noqa: F401  imported here once, and not in the process of every cell
from sklearn.datasets import load_digits

from cmn_literate import CMNClassifier
from cmn_literate.beyond.deep import network_of
from cmn_literate.beyond.depth import deep_log_proba, forward_moments, moments_log_proba
from cmn_literate.network.simulate import Priors
from experiments.grid import DATA
from experiments.run import held_out, plain, split
from experiments.tables import Table

SPLITS = range(40, 44)
TEST_ROWS, MAX_SWEEPS, EXPERTS = 200, 100, 6
TOLERANCE = 1e-3
ROWS = {"pinwheels": 100, "waveform": 120, "rice": 80, "wdbc": 50, "vehicle": 80, "sonar": 32, "banknote": 50, "iris": 50,    # set: training rows
        "spirals": 200, "checkerboard": 200, "digits": 200}
STARTED = ("pinwheels", "vehicle", "iris", "spirals", "checkerboard")            # where the starts are compared
ASKED = ("1 layer", "2 layers", "3 layers", "1 layer, 12 experts")
STARTS = ("code", "input", "random")                                            # of two layers, beside "greedy"
BEGUN = False


class Cell(NamedTuple):
    """A network on a split of a data set; variant: of ASKED, or "from <start>"."""
    dataset: str
    n_train: int
    variant: str
    split: int


def plan():
    """Part by part and split by split: one layer and two, the starts, three layers, and the dear digits."""
    cheap, starts = [d for d in ROWS if d != "digits"], [f"from {start}" for start in STARTS]
    parts = [((ASKED[0], ASKED[1], ASKED[3]), cheap), (starts, STARTED), (ASKED[2:3], cheap), (ASKED, ["digits"])]
    return [Cell(d, ROWS[d], v, s) for variants, sets in parts for s in SPLITS for v in variants for d in sets]


# ---- rows

def make_spirals(n, rng, turns=1.5, noise=0.08):
    """Two arms that wind about each other.   -> X (n,2), y (n,)"""
    y, t = rng.integers(0, 2, n), np.sqrt(rng.uniform(0.05, 1.0, n))
    angle = 2 * np.pi * turns * t + np.pi * y
    return 2 * t[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]) + noise * rng.normal(size=(n, 2)), y


def make_checkerboard(n, rng, squares=4):
    """Points of a board of squares x squares fields, the class is the colour.   -> X (n,2), y (n,)"""
    X = rng.uniform(0, squares, (n, 2))
    return X, np.floor(X).astype(int).sum(1) % 2


def rows_of(cell, data_home=None):
    """(X, y of training, X, y of test rows)"""
    if cell.dataset in ("spirals", "checkerboard"):
        make, rng = (make_spirals, make_checkerboard)[cell.dataset == "checkerboard"], np.random.default_rng([7, cell.split])
        return *make(cell.n_train, rng), *make(TEST_ROWS, rng)
    if cell.dataset == "digits":
        X, y = load_digits(return_X_y=True)
        order = np.random.default_rng([7, cell.split]).permutation(len(X))
        train, test = order[:cell.n_train], order[cell.n_train:cell.n_train + TEST_ROWS]
        return X[train], y[train], X[test], y[test]
    data, train, test = split(cell, data_home, cell.split)
    y, test = np.unique(data.y, return_inverse=True)[1], test[:TEST_ROWS]
    return data.X[train], y[train], data.X[test], y[test]


# ---- one cell

def model(cell, n_classes):
    """The estimator of a cell, not fitted."""
    more = {"classes": range(n_classes), "max_sweeps": MAX_SWEEPS, "random_state": 0, "priors": Priors(**DATA["priors"])}
    if cell.variant.startswith("1 layer"):
        return CMNClassifier.paper(n_experts=2 * EXPERTS if "12" in cell.variant else EXPERTS, **more)
    hidden = cell.variant.removeprefix("from ") if cell.variant.startswith("from") else "greedy"
    options = {"layers": 3 if cell.variant == "3 layers" else 2, "hidden": "code" if hidden == "random" else hidden}
    return CMNClassifier.paper(n_experts=EXPERTS, method="deep", method_options=options, init="random" if hidden == "random" else "class-code", **more)


def run(cell, records=None, data_home=None, models=None):
    """One fit and its scores."""
    X, y, X_test, y_test = rows_of(cell, data_home)
    spent, L = [time.process_time()], int(max(y.max(), y_test.max())) + 1
    est = model(cell, L)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")                     # the record says whether it converged
        est.fit(X, y)
    spent += [time.process_time()]
    network = est.fits_[0].network if est.method == "deep" else network_of(est.fits_[0].parameters)
    Z = est.inputs(X_test)
    log_p, error = deep_log_proba(network, Z)
    spent += [time.process_time()]
    at, of_train = np.arange(len(y)), moments_log_proba(network, est.inputs(X))
    share = np.bincount(y, minlength=L) / len(y)
    found = {name: plain(number) for name, number in held_out(y_test, log_p).items()}
    found |= {"moments_lpd": held_out(y_test, moments_log_proba(network, Z))["lpd"], "path_error": float(error.max()),
              "train_lpd": float(of_train[at, y].mean()), "frequencies_lpd": float(np.log(share[y]).mean()),
              "elbo": plain(est.elbo_), "steps": int(est.n_sweeps_), "converged": bool(est.converged_)}
    for s, x in enumerate(forward_moments(network, est.inputs(X)), 1):
        mean = x.gamma.mean(0)
        found[f"in_use_{s}"] = float(np.exp(-(mean * np.log(np.maximum(mean, 1e-300))).sum()))
    return {"setting": {"options": est.method_options, "init": est.init, "n_experts": est.n_experts, "max_sweeps": MAX_SWEEPS}, "metrics": found,
            "provenance": {"cpu_seconds": spent[1] - spent[0], "scoring_cpu_seconds": spent[2] - spent[1]}}


# ---- reading the records

def differences(records, variant, base="1 layer", name="lpd"):
    """{set: (mean, standard error) of variant less base over the splits that both have}"""
    found = {}
    for d, n in ROWS.items():
        both = [tuple(records.get(Cell(d, n, v, s)) for v in (variant, base)) for s in SPLITS]
        gaps = [a["metrics"][name] - b["metrics"][name] for a, b in both if a and b]
        if len(gaps) > 1:
            found[d] = float(np.mean(gaps)), float(np.std(gaps, ddof=1) / len(gaps) ** 0.5)
    return found


def verdict(records, variant, base="1 layer"):
    """(better, worse, sets) by the rule of the protocol."""
    gaps = differences(records, variant, base).values()
    return sum(m > 2 * e for m, e in gaps), sum(m < -2 * e for m, e in gaps), len(gaps)


def collapsed(records, cell):
    """Whether the fit of a cell has collapsed, by the rule of the protocol; None if one of the two records is missing."""
    one, fit = (records.get(cell._replace(variant=v)) for v in ("1 layer", cell.variant))
    if not one or not fit:
        return None
    gains = [r["metrics"]["train_lpd"] - r["metrics"]["frequencies_lpd"] for r in (one, fit)]
    return gains[1] < 0.5 * gains[0]


def gap_table(records):
    """A Table: log score less that of one layer, in hundredths of a nat."""
    gaps, rows = {v: differences(records, v) for v in ASKED[1:]}, []
    levels = {d: np.mean([records[c]["metrics"]["lpd"] for s in SPLITS if (c := Cell(d, ROWS[d], "1 layer", s)) in records]) for d in gaps["2 layers"]}
    for d, level in levels.items():
        cells = [gaps[v].get(d) for v in ASKED[1:]]
        rows.append([d, ROWS[d], f"{level:.2f}", *(c and f"{100 * c[0]:+.0f} ± {100 * c[1]:.0f}" for c in cells)])
    rows.append(["mean", None, written(levels.values(), ".2f"), *(written((100 * m for m, _ in gaps[v].values()), "+.1f") for v in ASKED[1:])])
    return Table(["data", "rows", "1 layer, nats", *ASKED[1:]], rows, "lrrrrr",
                 "Log score less that of one layer, in hundredths of a nat, ± standard error over four splits")


def written(numbers, how):
    """The mean of numbers as text, None without any."""
    numbers = list(numbers)
    return f"{np.mean(numbers):{how}}" if numbers else None


def mean_of(records, variant, name, some=tuple(ROWS)):
    """The mean of a number over the cells of a variant on some sets; None without one."""
    found = [r["metrics"][name] for c, r in records.items() if c.variant == variant and c.dataset in some and name in r["metrics"]]
    return float(np.mean(found)) if found else None


def used(records, variant, some=tuple(ROWS)):
    """Experts in use in each layer, as text."""
    found = [mean_of(records, variant, f"in_use_{s}", some) for s in (1, 2, 3)]
    return " / ".join(f"{number:.1f}" for number in found if number is not None)


def common(records, variants):
    """The records of the sets and splits that all variants have."""
    whole = {(c.dataset, c.split) for c in records if all(c._replace(variant=v) in records for v in variants)}
    return {c: r for c, r in records.items() if c.variant in variants and (c.dataset, c.split) in whole}


def level_table(records):
    """A Table: means over the sets and splits that all networks have, three layers aside while most of theirs are missing."""
    shown = [v for v in ASKED if v != "3 layers" or len(differences(records, v)) == len(differences(records, "2 layers"))]
    records, rows = common(records, shown), []
    for v in shown:
        numbers = [mean_of(records, v, name) for name in ("lpd", "moments_lpd", "accuracy", "ece")]
        better, worse, count = verdict(records, v)
        rows.append([v, *(number and f"{number:.3f}" for number in numbers), written((m for m, _ in differences(records, v, name="elbo").values()), "+.0f"),
                     used(records, v) or None, None if v == "1 layer" else f"{better} / {worse} of {count}"])
    return Table(["network", "log score", "by moments", "accuracy", "ECE", "bound less that of 1 layer", "experts in use", "better / worse than 1 layer"],
                 rows, "lrrrrrrr", "Means over the sets and splits that all of these networks have")


def start_table(records):
    """A Table: how often two layers collapse, by start."""
    rows = []
    for v in ("2 layers", *(f"from {s}" for s in STARTS)):
        fates = [f for f in (collapsed(records, c) for c in records if c.variant == v and c.dataset in STARTED) if f is not None]
        gaps, bounds = ([m for d, (m, _) in differences(records, v, base, name).items() if d in STARTED] for base, name in (("1 layer", "lpd"), ("2 layers", "elbo")))
        rows.append([v.replace("2 layers", "greedy").removeprefix("from "), f"{sum(fates)} of {len(fates)}",
                     written((100 * gap for gap in gaps), "+.1f"), written(bounds, "+.0f"), used(records, v, STARTED) or None])
    return Table(["start", "collapsed", "log score less 1 layer's, hundredths", "bound less greedy's", "experts in use"], rows, "lrrrr",
                 "Two layers by their start, on five sets and four splits")


def report(records):
    """Lines: the tables."""
    for table in (gap_table(records), level_table(records), start_table(records)):
        yield from (*repr(table).splitlines(), "")
    better, worse, count = verdict(records, "2 layers", "1 layer, 12 experts")
    yield f"two layers less one of twelve experts: better at {better}, worse at {worse} of {count}"
