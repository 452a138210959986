"""Coordinate ascent from many starts: what the chapter on restarts quotes (half an hour).

The split, the number of experts and the priors are those of the grid: one test set per data set. A start with seed s is the one of
cavi.fit(rng=s). Fits come first; then what becomes of groups of them, which reads the forecasts that the fits have kept.
"""

import itertools
from functools import cache
from typing import NamedTuple

import numpy as np

from cmn_literate.engineering.sums import block_sweep, make_blocks
from cmn_literate.engineering.starts import init_parameters
from cmn_literate.engineering.quadrature import predict_log_proba
from cmn_literate.network.simulate import Priors
from cmn_literate.use.uncertainty import average_log_proba
from cmn_literate.engineering.sources import column_scale
from cmn_literate.use.datasets import holdout_rows
from cmn_literate.use.metrics import accuracy, expected_calibration_error, log_scores
from experiments import grid, store
from experiments.grid import experts
from experiments.run import split

ROWS = {"pinwheels": 400, "waveform": 480, "vehicle": 640, "wdbc": 400, "sonar": 128, "banknote": 800, "rice": 640, "iris": 100}
STARTS = ("class-code", "random 3", "random 1")
SEEDS, FEW = range(16), range(4)
MAX_SWEEPS, TOL, HOLDOUT = 500, 1e-6, 0.2
EXPERTS = (2, 5, 10, 20, 40)
EXPERT_SETS = ("pinwheels", "waveform", "vehicle", "wdbc", "iris")
ORDER_SETS = {"waveform": range(8), "iris": range(8), "vehicle": FEW}
SWEEP_SETS = tuple(d for d in ROWS if d != "sonar")
SNAPSHOTS = (10, 20, 50, 100, 200, 500, 1000, 2000)
WARM = ("class-code", 4)            # the groups whose winner on held-out rows goes on with all rows
PRIORS = Priors()
TOLERANCE = 1e-3


class Cell(NamedTuple):
    """One fit, or what becomes of several: strategies, averages, order averages, sweeps averages; or sets, what the data are."""
    part: str                       # of a fit: fit, holdout (to all but a fifth), orders (of the classes), sweeps (many), gone on
    dataset: str
    n_train: int | None = None
    start: str | None = None
    n_experts: int | None = None
    order: str | None = None        # classes in the order of the sticks
    seed: int | None = None         # of the start; of "gone on" the group of holdout fits whose best one goes on
    size: int | None = None         # starts in a group


def fit_cell(dataset, start, seed, part="fit", **more):
    """A fit at the paper's setting, or with what differs from it."""
    return Cell(part, dataset, ROWS[dataset], start, experts(dataset), seed=seed)._replace(**more)


def class_orders(dataset):
    """All six orders of three classes; of vehicle's four the twelve that differ in more than their last two classes."""
    orders = ["".join(o) for o in itertools.permutations("0123" if dataset == "vehicle" else "012")]
    return [o for o in orders if o[-2] < o[-1]] if dataset == "vehicle" else orders


def parts():
    """{part of the record: its fits}"""
    found = {"starts": [fit_cell(d, start, s) for start in STARTS for d in ROWS for s in SEEDS]}
    found["holdout"] = [fit_cell(d, start, s, "holdout") for start in STARTS[:2] for d in ROWS for s in SEEDS]
    found["orders"] = [fit_cell(d, "class-code", s, "orders", order=o) for d, seeds in ORDER_SETS.items() for o in class_orders(d) for s in seeds]
    found["experts"] = [fit_cell(d, start, s, n_experts=k) for d in EXPERT_SETS for start in STARTS[:2] for k in EXPERTS for s in FEW]
    found["sweeps"] = [fit_cell(d, "class-code", s, "sweeps") for d in SWEEP_SETS for s in FEW]
    found["large"] = [fit_cell("waveform", start, s, n_train=3840) for start in STARTS[:2] for s in FEW]
    return found


def groups():
    """What becomes of several fits."""
    starts = (*STARTS[:2], "mixed")
    return [*(Cell("sets", d) for d in ROWS),
            *(Cell("strategies", d, start=start, size=size) for size in (4, 8) for d in ROWS for start in starts),
            *(Cell("averages", d, start=start) for d in ROWS for start in (*STARTS, "mixed")),
            *(Cell("order averages", d) for d in ORDER_SETS), *(Cell("sweeps averages", d) for d in SWEEP_SETS)]


def plan():
    fits = dict.fromkeys(cell for cells in parts().values() for cell in cells)
    return [*sorted(fits, key=lambda cell: cell.start == STARTS[2]), *groups()]


def going_on(dataset):
    """The fits that go on with all rows, one for each group of holdout fits."""
    return [fit_cell(dataset, WARM[0], group, "gone on") for group in range(len(SEEDS) // WARM[1])]


def holdout_group(cell):
    """The holdout fits of which one goes on as this cell."""
    return [fit_cell(cell.dataset, cell.start, s, "holdout") for s in SEEDS[cell.seed * WARM[1]:][:WARM[1]]]


def members(dataset, start, size, part="fit"):
    """Groups of `size` fits of a data set from one start, or half from each of the first two ("mixed"); a seed is in one group only."""
    pick = lambda s, first, n: [fit_cell(dataset, s, seed, part) for seed in SEEDS[first:first + n]]
    if start == "mixed":
        return [pick(STARTS[0], g, size // 2) + pick(STARTS[1], g, size // 2) for g in range(0, len(SEEDS), size)]
    return [pick(start, g, size) for g in range(0, len(SEEDS), size)]


def needs(cell):
    """Fits that must be stored before this cell is run."""
    flat = lambda nested: [one for group in nested for one in group]
    if cell.part == "strategies":
        warm = going_on(cell.dataset) if (cell.start, cell.size) == WARM else []
        return [*flat(members(cell.dataset, cell.start, cell.size)), *flat(members(cell.dataset, cell.start, cell.size, "holdout")), *warm]
    if cell.part == "averages":
        return flat(members(cell.dataset, cell.start, 2))
    if cell.part == "gone on":
        return holdout_group(cell)
    return [one for one in parts().get({"order averages": "orders", "sweeps averages": "sweeps"}.get(cell.part), ())
            if one.dataset == cell.dataset]


@cache
def problem(dataset, n_train, data_home=None):
    """Standardised training rows and their labels, test rows and their labels."""
    data, train, test = split(grid.Cell(dataset, n_train, "cavi", 0), data_home)
    mean, scale = column_scale(data.X[train])
    return (data.X[train] - mean) / scale, data.y[train], (data.X[test] - mean) / scale, data.y[test]


def first_parameters(X, y, n_experts, n_classes, start, seed):
    """Global factors of a start; "random s" has means of standard deviation s."""
    kind, _, scale = start.partition(" ")
    p = init_parameters(X, y, n_experts, n_classes - 1, n_classes, PRIORS, np.random.default_rng(seed), kind)
    if kind == "class-code":
        return p
    shrink = float(scale) / 3.0                             # init_parameters draws them with 3
    return p._replace(**{name: shrink * getattr(p, name) for name in ("beta1_mu", "beta0_mu", "M")})


def climb(p, X, y, n_classes, trace, until, stop=True):
    """Sweeps from the parameters p until the trace has so many, or one gains less than TOL per row.   -> Parameters, whether one did"""
    blocks, small = make_blocks(X, y, *p.M.shape[:2], n_classes), False
    while len(trace) < until and not (small and stop):
        blocks, p, bound = block_sweep(blocks, p, PRIORS)
        small = bool(trace) and bound - trace[-1] < TOL * len(X)
        trace.append(bound)
    return p, small


def scores(y, log_p):
    """Accuracy, LPD, ECE."""
    p = np.exp(log_p)
    return [round(float(v), 6) for v in (accuracy(y, p), log_scores(y, log_p, log=True).mean(), expected_calibration_error(y, p))]


def numbers(p, trace, converged, y, log_p):
    """What is stored of a fit that has come so far."""
    rows = np.maximum(2 * (p.a - PRIORS.a0), 0.0)
    share = rows[rows > 0] / rows.sum()
    acc, lpd, ece = scores(y, log_p)
    return {"elbo": round(float(trace[-1]), 4), "used": int((rows >= 1).sum()),
            "effective": round(float(np.exp(-(share * np.log(share)).sum())), 3), "accuracy": acc, "lpd": lpd, "ece": ece,
            "sweeps": len(trace), "converged": bool(converged)}


def run_fit(cell, seed, data_home=None):
    """Fit and predict; of the part sweeps every number is a list, one entry for each of SNAPSHOTS."""
    X, y, X_test, y_test = problem(cell.dataset, cell.n_train, data_home)
    L, many = int(y.max()) + 1, cell.part == "sweeps"
    back = np.argsort([int(c) for c in cell.order] if cell.order else range(L))       # number of the stick that stands for each class
    y, kept, trace, found, held = back[y], np.arange(len(y)), [], [], {}
    if cell.part in ("holdout", "gone on"):
        kept, out = holdout_rows(y, round(HOLDOUT * len(y)), np.random.default_rng(seed // 8))
    p = first_parameters(X[kept], y[kept], cell.n_experts, L, cell.start, seed)
    for until in SNAPSHOTS if many else (MAX_SWEEPS,):
        p, small = climb(p, X[kept], y[kept], L, trace, until, stop=not many)
        log_p = predict_log_proba(p, X_test)[:, back]
        found.append((numbers(p, trace, small, y_test, log_p), log_p))
    if cell.part == "holdout":
        held = {"held": round(float(log_scores(y[out], predict_log_proba(p, X[out]), log=True).mean()), 6)}
    if cell.part == "gone on":
        trace = []
        p, small = climb(p, X, y, L, trace, MAX_SWEEPS)
        log_p = predict_log_proba(p, X_test)[:, back]
        found = [(numbers(p, trace, small, y_test, log_p), log_p)]
    if many:
        return {name: [one[name] for one, _ in found] for name in found[0][0]}, [log_p for _, log_p in found]
    return found[0][0] | held, found[0][1]


def forecast(records, cell):
    """Log probabilities of the test rows of a stored fit."""
    kept = store.log_p(records[cell])
    if kept is None:
        raise ValueError(f"{store.key(cell)}: expected a fit that has kept its forecasts; run it with --again")
    return kept


def strategies(records, cell, data_home=None):
    """What becomes of groups of starts: scores of each group by strategy, and the standard error, over the test rows, of the gain in LPD
    of a strategy over one start."""
    d, start, size = cell.dataset, cell.start, cell.size
    y, found, gains = problem(d, ROWS[d], data_home)[3], {}, {}
    row_scores = lambda log_p: log_scores(y, log_p, log=True)
    warm = going_on(d) if (start, size) == WARM else []
    for g, (full, part) in enumerate(zip(members(d, start, size), members(d, start, size, "holdout"))):
        logs = [forecast(records, one) for one in full]
        best = int(np.argmax([records[one]["metrics"]["elbo"] for one in full]))
        chosen = int(np.argmax([records[one]["metrics"]["held"] for one in part]))
        single = np.mean([row_scores(log_p) for log_p in logs], axis=0)
        found.setdefault("one", []).append(np.mean([scores(y, log_p) for log_p in logs], axis=0).round(6).tolist())
        forecasts = {"elbo": logs[best], "holdout": logs[chosen], "holdout, not refitted": forecast(records, part[chosen]),
                     "average": average_log_proba(logs)}
        if warm:
            forecasts["holdout, gone on"] = forecast(records, warm[g])
        for name, log_p in forecasts.items():
            found.setdefault(name, []).append(scores(y, log_p))
            gains.setdefault(name, []).append(row_scores(log_p) - single)
    se = {name: round(float(np.mean(v, axis=0).std(ddof=1) / np.sqrt(len(y))), 6) for name, v in gains.items()}
    return {"scores": found, "se_rows": se}


def averages(records, cell, y):
    """{size: LPD of the averaged forecast of each group of so many starts}"""
    return {str(size): [scores(y, average_log_proba([forecast(records, one) for one in group]))[1]
                        for group in members(cell.dataset, cell.start, size)]
            for size in (1, 2, 4, 8, 16) if size > 1 or cell.start != "mixed"}


def averaged_orders(records, cell, y):
    """LPD of averages of several starts: all in one order ("same", by order), and each in another order ("mixed")."""
    by_order = [[one for one in needs(cell) if one.order == o] for o in class_orders(cell.dataset)]
    n_seeds, n_orders = len(by_order[0]), len(by_order)
    size = min(n_seeds, n_orders)
    stride = n_orders // size
    lpd = lambda chosen: scores(y, average_log_proba([forecast(records, one) for one in chosen]))[1]
    mixed = [lpd([by_order[o][(s + i) % n_seeds] for i, o in enumerate(range(first, n_orders, stride))])
             for first in range(stride) for s in range(n_seeds)]
    return {"size": size, "same": [lpd(mine[:size]) for mine in by_order], "mixed": mixed}


def described(cell, data_home=None):
    """Sizes, classes and origin of a data set."""
    from cmn_literate.use.datasets import FILES

    data, train, test = split(grid.Cell(cell.dataset, ROWS[cell.dataset], "cavi", 0), data_home)
    return {"n_train": len(train), "n_test": len(test), "n_experts": experts(cell.dataset), "class_names": list(map(str, data.class_names)),
            "class_rows": np.bincount(data.y[train]).tolist(), "sha256": data.sha256,
            "doi": FILES[cell.dataset].doi if cell.dataset in FILES else None}


def run(cell, records, data_home=None, models=None):
    setting = {"max_sweeps": MAX_SWEEPS, "tol": TOL, "holdout": HOLDOUT, "priors": grid.DATA["priors"]}
    if cell.start and cell.n_experts:
        seed = cell.seed
        if cell.part == "gone on":
            seed = max(holdout_group(cell), key=lambda one: records[one]["metrics"]["held"]).seed
        metrics, log_p = run_fit(cell, seed, data_home)
        return {"setting": setting, "metrics": metrics, "log_p": store.packed(log_p)}
    if cell.part == "sets":
        return {"setting": {}, "metrics": described(cell, data_home)}
    y = problem(cell.dataset, ROWS[cell.dataset], data_home)[3]
    if cell.part == "strategies":
        metrics = strategies(records, cell, data_home)
    elif cell.part == "averages":
        metrics = {"lpd": averages(records, cell, y)}
    elif cell.part == "order averages":
        metrics = averaged_orders(records, cell, y)
    else:
        forecasts = [forecast(records, one) for one in needs(cell)]
        metrics = {"scores": {str(s): scores(y, average_log_proba([f[at] for f in forecasts])) for at, s in enumerate(SNAPSHOTS)}}
    return {"setting": setting, "metrics": metrics}


# ---- what the chapter reads

def columns(records, cells, at=None, names=None):
    """Columns of numbers, one entry per cell; at: which of the snapshots."""
    found = [records[cell]["metrics"] for cell in cells]
    return {name: [one[name] if at is None else one[name][at] for one in found] for name in names or found[0]}


def tables(records):
    """All of it by part, data set, start and so on: columns of numbers over the seeds 0, 1, ..."""
    fits, of = parts(), {}
    for cell in groups():
        of.setdefault(cell.part, {})[cell] = records[cell]["metrics"]
    pick = lambda part, **wanted: [c for c in fits[part] if all(getattr(c, name) == v for name, v in wanted.items())]
    by_start = lambda part, starts, make: {d: {s: make(pick(part, dataset=d, start=s)) for s in starts} for d in ROWS}
    return {
        "fits": len(set().union(*fits.values())) + sum(len(going_on(d)) for d in ROWS),
        "sets": {cell.dataset: found for cell, found in of["sets"].items()},
        "starts": by_start("starts", STARTS, lambda cells: columns(records, cells)),
        "holdout": by_start("holdout", STARTS[:2], lambda cells: columns(records, cells, names=("held", "lpd"))),
        "strategies": {str(size): {d: {s: of["strategies"][Cell("strategies", d, start=s, size=size)] for s in (*STARTS[:2], "mixed")}
                                   for d in ROWS} for size in (4, 8)},
        "averages": {d: {s: of["averages"][Cell("averages", d, start=s)]["lpd"] for s in (*STARTS, "mixed")} for d in ROWS},
        "experts": {d: {s: {str(k): columns(records, pick("experts", dataset=d, start=s, n_experts=k)) for k in EXPERTS}
                        for s in STARTS[:2]} for d in EXPERT_SETS},
        "orders": {d: {o: columns(records, pick("orders", dataset=d, order=o)) for o in class_orders(d)} for d in ORDER_SETS},
        "order_averages": {cell.dataset: found for cell, found in of["order averages"].items()},
        "sweeps": {d: {str(s): columns(records, pick("sweeps", dataset=d), at) for at, s in enumerate(SNAPSHOTS)} for d in SWEEP_SETS},
        "sweeps_averages": {cell.dataset: found["scores"] for cell, found in of["sweeps averages"].items()},
        "large": {s: columns(records, pick("large", start=s)) for s in STARTS[:2]}}
