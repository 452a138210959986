"""What do the paper's four proposals for a cheaper q(x_1 | z) cost in bound and forecast, and what do they save?

Protocol, written before the first record.
    Proposals   of section 4.3, each in the best form that beyond/structured derives: diagonal; low rank (a block of rank 2 and a diagonal along axes of the expert's
                own); shared (one covariance for an expert's rows, or for those of a class: class-shared); mean-field (one Gaussian a row), also with a diagonal or a
                shared covariance.  The base is full.  All from the same start (class code, seed 0), paired by split.
    Scores      the eight sets of the grid at their middle size, splits 30 to 33, which no other study has seen; experts of the grid; at most 100 sweeps, tol 1e-6; at
                most the first 250 test rows.  Where h = 1 (two classes) a covariance is a number: diagonal and low rank are full there and are not fitted.  With the
                base: what each covariance would lose at the base's own fit, all else fixed (eq-lean-loss), a prediction made before the fit.
    Many        two made problems with L = 17 and L = 33 classes, h = L - 1: "blobs" (two round Gaussians for each class in eight dimensions) and "pinwheels" (L arms
                in two dimensions); 1,600 rows to learn, 50 to forecast, K = 10, four draws, 30 sweeps.  For L = 17 also diagonal covariances of the output's
                coefficients.  The pinwheels of 33 arms come last and decide nothing.
    Wide        "blobs" with L = 3 in 100 dimensions, 400 rows, K = 5, four draws, 30 sweeps: diagonal covariances of the experts' and of the gate's coefficients.
    Time        CPU microseconds of a sweep for a row, the least of five, variants in turns, on normal inputs (d = 16, N = 1,600 but 400 at h = 64, K = 10, L = h + 1)
                for h = 2, 4, ..., 64; and bytes a row: the largest that a sweep holds at once, and what is kept from one sweep to the next.
    Numbers     bound a row and log score less those of the base, mean and standard error over four splits or draws.
    Verdict     A proposal pays at h = 32 if a sweep is at least 8 times faster than full and, on the blobs with L = 33, its mean loss is at most .02 nats a row, in
                the bound and in the log score.  It is safe at small h if it is worse than full in log score (by twice the standard error) at no pair of the eight
                sets.  No variant is left out.
"""
import time
import tracemalloc
import warnings
from typing import NamedTuple

import numpy as np

from experiments.run import estimator, held_out, plain, split
from experiments.studies.splits import sizes_of
from experiments.tables import Table

SPLITS, DRAWS = range(30, 34), range(4)
TEST_ROWS, MAX_SWEEPS = 250, 100
BEGUN = False
TOLERANCE, TIMED = 2e-3, ("seconds", "peak")
RANK = 2
VARIANTS = ("full", "diagonal", "low-rank", "shared", "class-shared", "mean-field", "mean-field-diagonal", "mean-field-shared")
OF_NUMBERS = ("full", "shared", "class-shared", "mean-field")                     # where h = 1
CHEAP_FIRST = ("iris", "pinwheels", "vehicle", "sonar", "wdbc", "banknote", "waveform", "rice")
TWO_CLASSES = ("rice", "wdbc", "sonar", "banknote")
MANY, MANY_ROWS, MANY_TEST, MANY_SWEEPS = (33, 17), 1600, 50, 30
WIDE = (100,)
HEIGHTS = (2, 4, 8, 16, 32, 64)


class Cell(NamedTuple):
    """A variant on a split of a data set or a draw of a made problem; part time: all variants in turns at h = size."""
    part: str                       # scores, many, wide or time
    dataset: str
    size: int                       # training rows, classes, columns or h
    variant: str
    split: int


def variants_of(dataset):
    return OF_NUMBERS if dataset in TWO_CLASSES else VARIANTS


def plan():
    """What decides first: time, and what is fast enough on the blobs of 33 classes; then the eight sets; then the rest."""
    def many(dataset, L, variants=VARIANTS):
        return [Cell("many", dataset, L, v, s) for s in DRAWS for v in variants]

    quick = ("full", "mean-field", "mean-field-diagonal", "mean-field-shared")
    cells = [Cell("time", "normal", h, "all", 0) for h in HEIGHTS] + [c for c in many("blobs", 33, quick) if c.split < 2]
    cells += [Cell("scores", d, sizes_of(d)[1], v, s) for d in CHEAP_FIRST for s in SPLITS for v in variants_of(d)]
    cells += many("blobs", 17, (*VARIANTS, "diagonal-output")) + many("blobs", 33, quick)
    cells += [Cell("wide", "blobs", d, v, s) for d in WIDE for s in DRAWS for v in ("full", "diagonal-inputs")]
    cells += many("blobs", 33) + many("pinwheels", 17, (*VARIANTS, "diagonal-output")) + many("pinwheels", 33)
    return list(dict.fromkeys(cells))


# ---- problems and fits

def blobs(n, L, d, rng):
    """n rows of L classes in d dimensions: each class is two round Gaussians of deviation 1."""
    centres = rng.normal(size=(L, 2, d)) * 6 / d**0.5
    y = rng.permutation(np.arange(n) % L)
    return centres[y, rng.integers(0, 2, n)] + rng.normal(size=(n, d)), y


def problem(cell, data_home=None):
    """(training X, y, test X, y, number of classes)"""
    from cmn_literate.use.datasets import make_pinwheels

    if cell.part == "scores":
        data, train, test = split(_Rows(cell.dataset, cell.size), data_home, cell.split)
        y = np.unique(data.y, return_inverse=True)[1]
        return data.X[train], y[train], data.X[test[:TEST_ROWS]], y[test[:TEST_ROWS]], int(y.max()) + 1
    L, d, n, rest = (cell.size, 8, MANY_ROWS, MANY_TEST) if cell.part == "many" else (3, cell.size, 400, TEST_ROWS)
    rng = np.random.default_rng([7, L, d, cell.split])
    X, y = make_pinwheels(n + rest, rng, L) if cell.dataset == "pinwheels" else blobs(n + rest, L, d, rng)
    return X[:n], y[:n], X[n:], y[n:], L


class _Rows(NamedTuple):
    """What `split` reads of a cell."""
    dataset: str
    n_train: int


def options(variant):
    """Options of the method "structured"."""
    if variant.startswith("diagonal-"):
        return {"coefficients": variant}
    return {"latent_posterior": variant, "rank": RANK}


def losses_at(model, X, y):
    """Nats a row that a covariance would lose at this fit, all else fixed, if each row of y had it.  [eq-lean-loss]"""
    from cmn_literate.beyond.structured import LATENT_POSTERIORS, structured_latents
    from cmn_literate.ideas.expfam import log_det

    Z = (X - model.mean_) / model.scale_
    s = model.fits_[0].state(Z, y, rounds=200, tol=1e-9)
    whole, found = log_det(s.local.Sigma), {}
    for name in ("diagonal", "shared", "class-shared"):
        lean = log_det(structured_latents(Z, y, s, LATENT_POSTERIORS[name])[1])
        found[name] = float(0.5 * (s.local.gamma * (whole - lean)).sum() / len(y))
    return found


def run(cell, records=None, data_home=None, models=None):
    """One fit and its scores, or the times at one h."""
    if cell.part == "time":
        return timed(cell.size, 1600 if cell.size < 64 else 400)
    X, y, test_X, test_y, L = problem(cell, data_home)
    own = {"scores": {"max_sweeps": MAX_SWEEPS}, "many": {"max_sweeps": MANY_SWEEPS, "n_experts": 10, "latent_dim": L - 1, "tol": 1e-9},
           "wide": {"max_sweeps": 30, "n_experts": 5, "tol": 1e-9}}[cell.part]
    est = estimator(cell.dataset if cell.part == "scores" else "iris", "structured", options(cell.variant), classes=range(L), **own)
    spent = [time.process_time()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")                     # the record says whether it converged
        est.fit(X, y)
    spent += [time.process_time()]
    scores = {name: plain(number) for name, number in held_out(test_y, est.predict_log_proba(test_X)).items()}
    spent += [time.process_time()]
    found = {"bound": plain(est.elbo_ / len(y)), "steps": int(est.n_sweeps_), "converged": bool(est.converged_)}
    if cell.part == "scores" and cell.variant == "full" and cell.dataset not in TWO_CLASSES:
        found |= {f"loss {name}": plain(v) for name, v in losses_at(est, X, y).items()}
    return {"setting": {"options": options(cell.variant), **own}, "metrics": {**scores, **found},
            "provenance": {"cpu_seconds": spent[1] - spent[0], "scoring_cpu_seconds": spent[2] - spent[1]}}


def timed(h, n_rows=1600, n_experts=10, rounds=5):
    """Seconds and bytes of a sweep for every variant, in turns."""
    from cmn_literate.beyond.lean import lean_blocks, lean_start, lean_sweep
    from cmn_literate.beyond.structured import LATENT_POSTERIORS, Thrift
    from cmn_literate.engineering.starts import init_parameters
    from cmn_literate.engineering.sums import block_sweep, make_blocks
    from cmn_literate.network.simulate import Priors

    rng, L, priors = np.random.default_rng(h), h + 1, Priors()
    X, y = rng.normal(size=(n_rows, 16)), rng.permutation(np.arange(n_rows) % L)
    p = init_parameters(X, y, n_experts, h, L, priors, np.random.default_rng(0))
    sweeps, states = {}, {}
    for name in VARIANTS:
        if name == "full":                                   # the package's own
            states[name] = make_blocks(X, y, n_experts, h, L), p, None
            sweeps[name] = lambda s: (*block_sweep(s[0], s[1], priors)[:2], None)
        else:
            thrift = Thrift(LATENT_POSTERIORS[name], min(RANK, h) if name == "low-rank" else 0)
            states[name] = lean_blocks(X, y, n_experts, h, L, thrift), p, lean_start(p, thrift)
            sweeps[name] = lambda s, thrift=thrift: lean_sweep(*s, priors, thrift)[:3]
    seconds = {name: [] for name in VARIANTS}
    for _ in range(rounds + 1):                              # the first has no means yet: it does not count
        for name in VARIANTS:
            clock = time.process_time()
            states[name] = sweeps[name](states[name])
            seconds[name].append(time.process_time() - clock)
    metrics = {"seconds": {name: min(times[1:]) / n_rows for name, times in seconds.items()}, "peak": {}, "kept": {}}
    for name in VARIANTS:
        tracemalloc.start()
        sweeps[name](states[name])
        metrics["peak"][name] = tracemalloc.get_traced_memory()[1] / n_rows
        tracemalloc.stop()
        kept = sum(part.nbytes for block in states[name][0] for part in (block.omega, block.gamma) if part is not None)
        metrics["kept"][name] = kept / n_rows
    return {"setting": {"rows": n_rows, "experts": n_experts, "rounds": rounds}, "metrics": metrics, "provenance": {}}


# ---- reading the records

def losses(records, part, dataset, size, variant, name, base="full"):
    """(mean, standard error) over splits of the base's number less the variant's; None where fewer than two splits have both."""
    pairs = [[records.get(Cell(part, dataset, size, v, s)) for v in (base, variant)] for s in (SPLITS if part == "scores" else DRAWS)]
    gaps = [a["metrics"][name] - b["metrics"][name] for a, b in pairs if a and b]
    return (float(np.mean(gaps)), float(np.std(gaps, ddof=1) / len(gaps)**0.5)) if len(gaps) > 1 else None


def pairs_of(part):
    """The (set, size) of a part, in the order of the plan."""
    return list(dict.fromkeys((c.dataset, c.size) for c in plan() if c.part == part))


def _entry(found, scale=100):
    return None if found is None else f"{scale * found[0]:+.1f} ± {scale * found[1]:.1f}"


def loss_table(records, part, name, variants):
    """A Table: what each variant loses, in hundredths of a nat a row."""
    rows = []
    for d, n in pairs_of(part):
        base = [r["metrics"][name] for c, r in records.items() if c[:4] == (part, d, n, "full")]
        if base:
            rows.append([d, n, f"{np.mean(base):.2f}", *(_entry(losses(records, part, d, n, v, name)) for v in variants)])
    words = {"bound": "Bound a row", "lpd": "Log score"}[name]
    size = {"scores": "rows", "many": "classes", "wide": "columns"}[part]
    return Table(["data", size, "full, nats", *variants], rows, "lr" + "r" * (1 + len(variants)),
                 f"{words} of full less that of the variant, in hundredths of a nat, ± standard error over {'splits' if part == 'scores' else 'draws'}")


def predicted_table(records):
    """A Table: the loss predicted at the fit of full by eq-lean-loss, and the loss of the bound after a fit of its own, hundredths of a nat."""
    names, rows = ("diagonal", "shared", "class-shared"), []
    for d, n in pairs_of("scores"):
        some = [r["metrics"] for c, r in records.items() if c[:4] == ("scores", d, n, "full") and "loss shared" in r["metrics"]]
        if some:
            found = [losses(records, "scores", d, n, v, "bound") for v in names]
            rows.append([d, n, *(t for v, f in zip(names, found) for t in (f"{100 * np.mean([m[f'loss {v}'] for m in some]):.1f}", f and f"{100 * f[0]:+.1f}"))])
    return Table(["data", "rows", *(f"{v}{w}" for v in names for w in (", predicted", ", found"))], rows, "lr" + "rr" * len(names),
                 "Loss of the bound in hundredths of a nat a row: predicted at the fit of full, and found after a fit of its own")


def time_table(records, name="seconds"):
    """A Table: microseconds of a sweep for a row (or kilobytes) at every h."""
    rows, (scale, what) = [], {"seconds": (1e6, "Microseconds of processor time of a sweep for a row, ten experts, the least of five"),
                               "peak": (1e-3, "Kilobytes a row that a sweep holds at once"), "kept": (1e-3, "Kilobytes a row kept from one sweep to the next")}[name]
    for h in HEIGHTS:
        record = records.get(Cell("time", "normal", h, "all", 0))
        if record:
            rows.append([h, *(f"{record['metrics'][name][v] * scale:.1f}" for v in VARIANTS)])
    return Table(["h", *VARIANTS], rows, "r" * (1 + len(VARIANTS)), what)


def speedup(records, variant, h=32):
    """How many times faster than full a sweep is."""
    seconds = records[Cell("time", "normal", h, "all", 0)]["metrics"]["seconds"]
    return seconds["full"] / seconds[variant]


def verdict(records, variant):
    """By the protocol: (times faster at h = 32, mean loss at L = 33 in the bound, in log score, pairs of the eight sets at which it is worse, pairs)."""
    worst = [(losses(records, "many", "blobs", 33, variant, name) or (np.nan,))[0] for name in ("bound", "lpd")]
    found = [f for d, n in pairs_of("scores") if (f := losses(records, "scores", d, n, variant, "lpd"))]
    return speedup(records, variant), *worst, sum(m > 2 * e for m, e in found), len(found)


def verdict_table(records):
    """A Table: the verdict on each proposal with the numbers that decide; what is not fast enough needs no other number."""
    rows = []
    for v in VARIANTS[1:]:
        times, bound, lpd, worse, pairs = verdict(records, v)
        asked = not np.isnan(bound)
        rows.append([v, f"{times:.1f}", f"{bound:+.3f}" if asked else None, f"{lpd:+.3f}" if asked else None, f"{worse} of {pairs}" if pairs else None,
                     "no" if times < 8 else None if not asked else "yes" if max(bound, lpd) <= 0.02 else "no"])
    return Table(["variant", "times faster, h = 32", "loss of bound, L = 33", "loss of log score, L = 33", "worse at small h", "pays"], rows, "lrrrrr",
                 "Losses in nats a row, blobs; worse at small h: in log score by twice the standard error, of the sets at their middle size")


def report(records):
    """Lines: the tables."""
    small = tuple(v for v in VARIANTS[1:])
    tables = [loss_table(records, "scores", name, small) for name in ("bound", "lpd")] + [predicted_table(records)]
    tables += [loss_table(records, "many", name, (*small, "diagonal-output")) for name in ("bound", "lpd")]
    tables += [loss_table(records, "wide", name, ("diagonal-inputs",)) for name in ("bound", "lpd")]
    tables += [time_table(records, name) for name in ("seconds", "peak", "kept")]
    for table in tables:
        yield from (*repr(table).splitlines(), "")
    yield from repr(verdict_table(records)).splitlines()
