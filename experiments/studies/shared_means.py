"""Do scales that know the number of columns, and a mean that the experts share, cure what few rows do to coordinate ascent?

Protocol, written before the first record.
    Question    Difference of the test log score to the default's, paired by split; the default is the paper's model and priors.
    Variants    default; scaled: v0 = 10 / D, sigma0 = 5 / sqrt(D); shared: scaled, and A_0 with v00 = v0.  These three are the question.
                Four more are asked on the same rows, to know what the answer hangs on: shared narrow, v00 = v0 / 10; shared centred, prior means
                of the sticks' biases -ln(C-1-j); shared learned, Gamma priors of shape 1 on 1/v0, 1/sigma0^2, 1/sigma1^2; learned, such priors
                over the default's scales and no A_0.  Ridge logistic regression is the yardstick from outside.
    Rows        the eight sets of the grid, each at its smallest and its middle size, splits 6 to 9: no study before this one has seen them.
                At most the first 250 test rows.
    Fits        experts and latent dimension of the grid, one start with seed 0, at most 200 sweeps, tol 1e-6.
    Numbers     log score, accuracy, ECE, Brier score; the share of test rows for which the first class is predicted.  Mean and standard error
                of a difference over four splits.  No variant is left out of the report, none was tried on these rows before.
    Verdict     "shared" is better than the default at a pair (set, size) if its mean difference is above twice its standard error, worse if
                below minus twice; counted over the sixteen pairs, and likewise against "scaled".
    Orders      every order of the three classes of iris (100 rows) and waveform (60 rows), split 6: how far bound and log score move with it,
                for the default, the default with centred sticks, shared, and shared centred.
"""
import itertools
import time
import warnings
from typing import NamedTuple

import numpy as np

from experiments.grid import DATA, DATASETS
from experiments.run import estimator, held_out, plain, split
from experiments.studies.others import forecast, standardised
from experiments.studies.splits import sizes_of
from experiments.tables import Table

SPLITS = range(6, 10)
TEST_ROWS, MAX_SWEEPS = 250, 200
TOLERANCE = 1e-3
ASKED = ("default", "scaled", "shared")
MORE = ("shared narrow", "shared centred", "shared learned", "learned", "ridge")
ORDERED = ("default", "centred", "shared", "shared centred")
ORDER_SETS = {"iris": 100, "waveform": 60}
# options of the method "shared-means"
OPTIONS = {"shared": {}, "shared narrow": {"v00": 1.0}, "shared centred": {"centred": True}, "shared learned": {"strength": 1.0},
           "learned": {"v00": 0.0, "scaled": False, "strength": 1.0}, "centred": {"v00": 0.0, "scaled": False, "centred": True}}


class Cell(NamedTuple):
    """A variant on a split of a data set; order: the classes in the order of the sticks, in the part orders."""
    part: str                       # scores or orders
    dataset: str
    n_train: int
    variant: str
    split: int
    order: str | None = None


def plan():
    """What is asked first, then what it hangs on, then the orders."""
    pairs = [(d, n) for d in DATASETS for n in sizes_of(d)[:2]]
    cells = [Cell("scores", d, n, v, s) for variants in (ASKED, MORE) for d, n in pairs for s in SPLITS for v in variants]
    return cells + [Cell("orders", d, n, v, SPLITS[0], "".join(map(str, o))) for d, n in ORDER_SETS.items()
                    for v in ORDERED for o in itertools.permutations(range(3))]


def model(variant, dataset, n_columns, n_classes):
    """The estimator of a variant, not fitted."""
    from cmn_literate.beyond.shared_means import scaled_priors
    from cmn_literate.network.simulate import Priors

    more = {"max_sweeps": MAX_SWEEPS, "classes": range(n_classes)}
    if variant == "scaled":
        more["priors"] = scaled_priors(Priors(**DATA["priors"]), n_columns + 1)
    if variant in OPTIONS:
        return estimator(dataset, "shared-means", OPTIONS[variant], **more)
    return estimator(dataset, **more)


def run(cell, records=None, data_home=None, models=None):
    """One fit and its scores."""
    data, train, test = split(cell, data_home, cell.split)
    test = test[:TEST_ROWS]
    y, spent = np.unique(data.y, return_inverse=True)[1], [time.process_time()]
    L, found = int(y.max()) + 1, {}
    back = np.argsort([int(c) for c in cell.order] if cell.order else range(L))        # the stick of each class
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")                     # the record says whether it converged
        if cell.variant == "ridge":
            Z = standardised(data.X, train)
            log_p, _ = forecast("logistic", Z[train], y[train], Z[test], 0, cell.dataset)
            spent += [time.process_time()]
        else:
            est = model(cell.variant, cell.dataset, data.X.shape[1], L).fit(data.X[train], back[y[train]])
            spent += [time.process_time()]
            log_p = est.predict_log_proba(data.X[test])[:, back]
            found = {"elbo": plain(est.elbo_), "steps": int(est.n_sweeps_), "converged": bool(est.converged_)}
    spent += [time.process_time()]
    scores = {name: plain(number) for name, number in held_out(y[test], log_p).items()}
    first = float((log_p.argmax(1) == np.argmin(back)).mean())
    return {"setting": {"options": OPTIONS.get(cell.variant), "max_sweeps": MAX_SWEEPS}, "metrics": {**scores, "first_stick": first, **found},
            "provenance": {"cpu_seconds": spent[1] - spent[0], "scoring_cpu_seconds": spent[2] - spent[1], "sha256": data.sha256}}


# ---- reading the records

def differences(records, variant, base="default", name="lpd"):
    """{(set, size): (mean, standard error) of variant less base over the splits that both have}"""
    found = {}
    for d in DATASETS:
        for n in sizes_of(d)[:2]:
            pairs = [tuple(records.get(Cell("scores", d, n, v, s)) for v in (variant, base)) for s in SPLITS]
            gaps = [a["metrics"][name] - b["metrics"][name] for a, b in pairs if a and b]
            if len(gaps) > 1:
                found[d, n] = float(np.mean(gaps)), float(np.std(gaps, ddof=1) / np.sqrt(len(gaps)))
    return found


def verdict(records, variant, base="default"):
    """(better, worse, pairs) by the rule of the protocol."""
    gaps = differences(records, variant, base).values()
    return sum(m > 2 * e for m, e in gaps), sum(m < -2 * e for m, e in gaps), len(gaps)


def means(records, variant, name):
    """The mean of a number over all pairs and splits."""
    return float(np.mean([r["metrics"][name] for c, r in records.items() if c.part == "scores" and c.variant == variant]))


def gap_table(records, variants=("scaled", "shared", *MORE)):
    """A Table: log score less the default's, in hundredths of a nat."""
    gaps, rows = {v: differences(records, v) for v in variants}, []
    base = {(d, n): np.mean([records[Cell("scores", d, n, "default", s)]["metrics"]["lpd"] for s in SPLITS]) for d, n in gaps["shared"]}
    for (d, n), level in base.items():
        rows.append([d, n, f"{level:.2f}"] + [f"{100 * gaps[v][d, n][0]:+.0f} ± {100 * gaps[v][d, n][1]:.0f}" for v in variants])
    mean = [100 * float(np.mean([m for m, _ in gaps[v].values()])) for v in variants]
    rows.append(["mean", None, f"{np.mean(list(base.values())):.2f}", *(f"{m:+.1f}" for m in mean)])
    return Table(["data", "rows", "default, nats", *variants], rows, "lr" + "r" * (1 + len(variants)),
                 "Log score less that of the default, in hundredths of a nat, ± standard error over four splits")


def level_table(records, variants=(*ASKED, *MORE)):
    """A Table: means of the scores over all pairs and splits, the share of the first stick, and the verdict."""
    rows = []
    for v in variants:
        better, worse, pairs = verdict(records, v)
        rows.append([v, *(f"{means(records, v, name):.3f}" for name in ("lpd", "accuracy", "ece", "brier", "first_stick")),
                     None if v == "default" else f"{better} / {worse} of {pairs}"])
    return Table(["variant", "log score", "accuracy", "ECE", "Brier", "first class predicted", "better / worse than the default"], rows, "lrrrrrr",
                 "Means over eight sets, two sizes and four splits")


def order_table(records):
    """A Table: what the order of the classes does."""
    rows = []
    for d, n in ORDER_SETS.items():
        for v in ORDERED:
            some = [r["metrics"] for c, r in records.items() if c[:4] == ("orders", d, n, v)]
            spans = [(max(values), min(values)) for values in ([m[name] for m in some] for name in ("elbo", "lpd"))]
            rows.append([d, n, v, *(f"{high:.{digits}f}" for (high, _), digits in zip(spans, (1, 3))),
                         *(f"{high - low:.{digits}f}" for (high, low), digits in zip(spans, (1, 3)))])
    return Table(["data", "rows", "variant", "best bound", "best log score", "spread of the bound", "spread of the log score"], rows, "lrlrrrr",
                 "All six orders of three classes: spread is the largest less the smallest")


def report(records):
    """Lines: the tables."""
    for table in (gap_table(records), level_table(records), order_table(records)):
        yield from (*repr(table).splitlines(), "")
    better, worse, pairs = verdict(records, "shared", "scaled")
    yield f"shared less scaled: better at {better}, worse at {worse} of {pairs}"
