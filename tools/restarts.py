"""Fit the paper's data sets from many starts and store what the chapter on restarts quotes in results/restarts.json.

    python tools/restarts.py            fits that are in build/restarts are not made again; Ctrl-C loses the fit in hand
    python tools/restarts.py --list     how many fits there are, and how many are done

Needs the data ($CMN_DATA). The split, the number of experts and the priors are those of `python -m cmn_literate experiments`:
one test set per data set. A start with seed s is the one of cavi.fit(rng=s); predictions of single fits stay in build/restarts.
"""

import argparse
import datetime
import itertools
import json
import os
import sys
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from cmn_literate.engineering.sums import block_sweep, make_blocks
from cmn_literate.engineering.starts import init_parameters
from cmn_literate.use.classifier import PAPER_RUNS, average_log_proba, column_scale, holdout_rows
from cmn_literate.experiments.grid import Cell
from cmn_literate.experiments.run import split, versions
from cmn_literate.use.metrics import accuracy, expected_calibration_error, log_scores
from cmn_literate.network.predict import predict_log_proba
from cmn_literate.network.simulate import Priors

ROOT = Path(__file__).resolve().parent.parent
STORE, OUT = ROOT / "build" / "restarts", ROOT / "results" / "restarts.json"
ROWS = {"pinwheels": 400, "waveform": 480, "vehicle": 640, "wdbc": 400, "sonar": 128, "banknote": 800, "rice": 640, "iris": 100}
STARTS = ("class-code", "random 3", "random 1")
SEEDS, FEW = range(16), range(4)
MAX_SWEEPS, TOL, HOLDOUT = 500, 1e-6, 0.2
EXPERTS = (2, 5, 10, 20, 40)
EXPERT_SETS = ("pinwheels", "waveform", "vehicle", "wdbc", "iris")
SNAPSHOTS = (10, 20, 50, 100, 200, 500, 1000, 2000)
WARM = ("class-code", 4)            # the groups whose winner on held-out rows goes on with all rows
PRIORS = Priors()


class Job(NamedTuple):
    """One fit."""
    dataset: str
    n_train: int
    start: str
    seed: int
    n_experts: int
    order: tuple = ()               # classes in the order of the sticks; () as they are
    part: int | None = None         # seed of a held-out fifth of the rows; None: all rows
    snapshots: tuple = (MAX_SWEEPS,)
    go_on: bool = False             # after the fit to the part, climb on from there with all rows

    @property
    def file(self):
        order = "".join(map(str, self.order)) or "-"
        sweeps = "sweeps" if len(self.snapshots) > 1 else "-"
        part = f"{self.part}on" if self.go_on else self.part
        name = (self.dataset, self.n_train, self.start.replace(" ", ""), self.n_experts, order, part, sweeps, self.seed)
        return STORE / ("_".join(map(str, name)) + ".npz")


def class_orders(dataset):
    """All six orders of three classes; of vehicle's four the twelve that differ in more than their last two classes."""
    orders = list(itertools.permutations(range(4 if dataset == "vehicle" else 3)))
    return [o for o in orders if o[-2] < o[-1]] if dataset == "vehicle" else orders


def plan():
    """{part of the record: its jobs}"""
    paper = lambda dataset, start, seed, **more: Job(dataset, ROWS[dataset], start, seed, PAPER_RUNS[dataset][2])._replace(**more)
    jobs = {"starts": [paper(d, "class-code", s) for d in ROWS for s in SEEDS]}
    jobs["starts"] += [paper(d, "random 3", s) for d in ROWS for s in SEEDS]
    jobs["holdout"] = [paper(d, start, s, part=s // 8) for start in STARTS[:2] for d in ROWS for s in SEEDS]
    jobs["orders"] = [paper(d, "class-code", s, order=o) for d, seeds in (("waveform", range(8)), ("iris", range(8)), ("vehicle", FEW))
                      for o in class_orders(d) for s in seeds]
    jobs["starts"] += [paper(d, "random 1", s) for d in ROWS for s in SEEDS]
    jobs["experts"] = [paper(d, start, s, n_experts=k) for d in EXPERT_SETS for start in STARTS[:2] for k in EXPERTS for s in FEW]
    jobs["sweeps"] = [paper(d, "class-code", s, snapshots=SNAPSHOTS) for d in ROWS if d != "sonar" for s in FEW]
    jobs["large"] = [Job("waveform", 3840, start, s, 20) for start in STARTS[:2] for s in FEW]
    return jobs


@cache
def problem(dataset, n_train):
    """Standardised training rows and their labels, test rows and their labels."""
    data, train, test = split(Cell(dataset, n_train, "cavi", 0))
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


def run(job):
    """Fit and predict.   -> arrays by name, one entry of each per snapshot"""
    X, y, X_test, _ = problem(job.dataset, job.n_train)
    L = int(y.max()) + 1
    back = np.argsort(job.order or range(L))                # number of the stick that stands for each class
    y, kept, trace, found = back[y], np.arange(len(y)), [], {}
    if job.part is not None:
        kept, held = holdout_rows(y, round(HOLDOUT * len(y)), np.random.default_rng(job.part))
    p = first_parameters(X[kept], y[kept], job.n_experts, L, job.start, job.seed)

    def note(converged):
        now = {"elbo": trace[-1], "sweeps": len(trace), "converged": converged, "rows": 2 * (p.a - PRIORS.a0),
               "log_p": predict_log_proba(p, X_test)[:, back]}
        if job.part is not None:
            now["held"] = log_scores(y[held], predict_log_proba(p, X[held]), log=True).mean()
        for name, value in now.items():
            found.setdefault(name, []).append(value)

    for until in job.snapshots:
        p, small = climb(p, X[kept], y[kept], L, trace, until, stop=len(job.snapshots) == 1)
        note(small)
    if job.go_on:
        trace = []
        p, small = climb(p, X, y, L, trace, MAX_SWEEPS)
        note(small)
    return {name: np.array(v) for name, v in found.items()}


def save(job):
    clock = time.process_time()
    with threadpool_limits(1):
        arrays = run(job)
    part = job.file.with_suffix(".part")
    with part.open("wb") as file:
        np.savez_compressed(file, cpu=time.process_time() - clock, **arrays)
    os.replace(part, job.file)


@cache
def result(job):
    with np.load(job.file) as file:
        return {name: file[name] for name in file}


def fit_all(jobs):
    for i, job in enumerate(jobs):
        if not job.file.exists():
            save(job)
            print(f"{i + 1:4d} of {len(jobs)}  {job.file.stem}", file=sys.stderr, flush=True)


# ---- the record

def scores(y, log_p):
    """Accuracy, LPD, ECE."""
    p = np.exp(log_p)
    return [round(float(v), 6) for v in (accuracy(y, p), log_scores(y, log_p, log=True).mean(), expected_calibration_error(y, p))]


def table(jobs, at=-1):
    """Columns of numbers, one entry per job."""
    columns = {}
    for job in jobs:
        r, y = result(job), problem(job.dataset, job.n_train)[3]
        rows = np.maximum(r["rows"][at], 0.0)
        share = rows[rows > 0] / rows.sum()
        acc, lpd, ece = scores(y, r["log_p"][at])
        row = {"elbo": round(float(r["elbo"][at]), 4), "used": int((rows >= 1).sum()),
               "effective": round(float(np.exp(-(share * np.log(share)).sum())), 3), "accuracy": acc, "lpd": lpd, "ece": ece,
               "sweeps": int(r["sweeps"][at]), "converged": bool(r["converged"][at])}
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    return columns


def grouped(jobs, key):
    """{key(job): its jobs}, in order."""
    found = {}
    for job in jobs:
        found.setdefault(key(job), []).append(job)
    return found


def nested(flat):
    """{(a, b): v} -> {a: {b: v}}"""
    out = {}
    for (a, b), value in flat.items():
        out.setdefault(a, {})[b] = value
    return out


def members(jobs, dataset, start, size):
    """Groups of `size` fits of a data set from one start, or half from each of the first two ("mixed"); a seed is in one group only."""
    pick = lambda s, first, n: [result(j) for j in jobs if (j.dataset, j.start) == (dataset, s)][first:first + n]
    if start == "mixed":
        return [pick(STARTS[0], g, size // 2) + pick(STARTS[1], g, size // 2) for g in range(0, len(SEEDS), size)]
    return [pick(start, g, size) for g in range(0, len(SEEDS), size)]


def winners(jobs, dataset, start, size):
    """Of each group the fit with the best score on the rows it did not see, to go on from with all rows."""
    mine = [j for j in jobs["holdout"] if (j.dataset, j.start) == (dataset, start)]
    groups = [mine[g:g + size] for g in range(0, len(mine), size)]
    return [max(group, key=lambda j: result(j)["held"][-1])._replace(go_on=True) for group in groups]


def strategies(jobs, dataset, start, size):
    """What becomes of groups of starts: scores of each group by strategy, and the standard error, over the test rows, of the gain in LPD
    of a strategy over one start."""
    y, found, gains = problem(dataset, ROWS[dataset])[3], {}, {}
    row_scores = lambda log_p: log_scores(y, log_p, log=True)
    going_on = winners(jobs, dataset, start, size) if (start, size) == WARM else []
    groups = [members(jobs[part], dataset, start, size) for part in ("starts", "holdout")]
    for g, (full, parts) in enumerate(zip(*groups)):
        logs = [r["log_p"][-1] for r in full]
        best, chosen = int(np.argmax([r["elbo"][-1] for r in full])), int(np.argmax([r["held"][-1] for r in parts]))
        single = np.mean([row_scores(log_p) for log_p in logs], axis=0)
        found.setdefault("one", []).append(np.mean([scores(y, log_p) for log_p in logs], axis=0).round(6).tolist())
        forecasts = {"elbo": logs[best], "holdout": logs[chosen], "holdout, not refitted": parts[chosen]["log_p"][-1],
                     "average": average_log_proba(logs)}
        if going_on:
            forecasts["holdout, gone on"] = result(going_on[g])["log_p"][-1]
        for name, log_p in forecasts.items():
            found.setdefault(name, []).append(scores(y, log_p))
            gains.setdefault(name, []).append(row_scores(log_p) - single)
    se = {name: round(float(np.mean(v, axis=0).std(ddof=1) / np.sqrt(len(y))), 6) for name, v in gains.items()}
    return {"scores": found, "se_rows": se}


def averages(jobs, dataset, start):
    """{size: LPD of the averaged forecast of each group of so many starts}"""
    y = problem(dataset, ROWS[dataset])[3]
    return {str(size): [scores(y, average_log_proba([r["log_p"][-1] for r in group]))[1]
                        for group in members(jobs["starts"], dataset, start, size)]
            for size in (1, 2, 4, 8, 16) if size > 1 or start != "mixed"}


def averaged_orders(jobs):
    """LPD of averages of several starts: all in one order ("same", by order), and each in another order ("mixed")."""
    y, by_order = problem(jobs[0].dataset, jobs[0].n_train)[3], list(grouped(jobs, lambda j: j.order).values())
    n_seeds, n_orders = len(by_order[0]), len(by_order)
    size = min(n_seeds, n_orders)
    stride = n_orders // size
    lpd = lambda chosen: scores(y, average_log_proba([result(j)["log_p"][-1] for j in chosen]))[1]
    mixed = [lpd([by_order[o][(s + i) % n_seeds] for i, o in enumerate(range(first, n_orders, stride))])
             for first in range(stride) for s in range(n_seeds)]
    return {"size": size, "same": [lpd(mine[:size]) for mine in by_order], "mixed": mixed}


def record(jobs):
    from cmn_literate.use.datasets import FILES, load

    every = {j for part in jobs.values() for j in part} | {j for d in ROWS for j in winners(jobs, d, *WARM)}
    by_start, by_set = lambda j: (j.dataset, j.start), lambda j: j.dataset
    sets = {}
    for d, n in ROWS.items():
        _, y, _, y_test = problem(d, n)
        data = load(d)
        sets[d] = {"n_train": n, "n_test": len(y_test), "n_experts": PAPER_RUNS[d][2], "class_names": [str(c) for c in data.class_names],
                   "class_rows": np.bincount(y).tolist(), "sha256": data.sha256, "doi": FILES[d].doi if d in FILES else None}
    return {
        "what": "coordinate ascent from many starts: bound, experts used, scores on one test set per data set",
        "command": "make results-restarts", "date": datetime.datetime.now(datetime.UTC).date().isoformat(), "versions": versions(),
        "fits": len(every), "cpu_seconds": round(sum(float(result(j)["cpu"]) for j in every)),
        "settings": {"max_sweeps": MAX_SWEEPS, "tol": TOL, "holdout": HOLDOUT, "seeds": "0, 1, ... in the order of the columns",
                     "priors": "Priors()", "used": "experts with at least one expected row", "effective": "exp of the entropy of the shares"},
        "sets": sets,
        "starts": nested({k: table(v) for k, v in grouped(jobs["starts"], by_start).items()}),
        "holdout": nested({k: {"held": [round(float(result(j)["held"][-1]), 6) for j in v], "lpd": table(v)["lpd"]}
                           for k, v in grouped(jobs["holdout"], by_start).items()}),
        "strategies": {str(size): {d: {start: strategies(jobs, d, start, size) for start in (*STARTS[:2], "mixed")} for d in ROWS}
                       for size in (4, 8)},
        "averages": {d: {start: averages(jobs, d, start) for start in (*STARTS, "mixed")} for d in ROWS},
        "experts": {d: {start: {str(k): table([j for j in jobs["experts"] if (j.dataset, j.start, j.n_experts) == (d, start, k)])
                                for k in EXPERTS} for start in STARTS[:2]} for d in EXPERT_SETS},
        "orders": nested({k: table(v) for k, v in grouped(jobs["orders"], lambda j: (j.dataset, "".join(map(str, j.order)))).items()}),
        "order_averages": {d: averaged_orders(v) for d, v in grouped(jobs["orders"], by_set).items()},
        "sweeps": {d: {str(s): table(v, at) for at, s in enumerate(SNAPSHOTS)} for d, v in grouped(jobs["sweeps"], by_set).items()},
        "sweeps_averages": {d: {str(s): scores(problem(d, ROWS[d])[3], average_log_proba([result(j)["log_p"][at] for j in v]))
                                for at, s in enumerate(SNAPSHOTS)} for d, v in grouped(jobs["sweeps"], by_set).items()},
        "large": {s: table(v) for s, v in grouped(jobs["large"], lambda j: j.start).items()},
    }


def text(value, indent=0):
    """JSON with short lists on one line."""
    if isinstance(value, dict) and value:
        inner = ",\n".join(" " * (indent + 1) + f"{json.dumps(k)}: {text(v, indent + 1)}" for k, v in value.items())
        return "{\n" + inner + "\n" + " " * indent + "}"
    return json.dumps(value)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="only say how many fits there are")
    args = parser.parse_args(argv)
    STORE.mkdir(parents=True, exist_ok=True)
    jobs = plan()
    if args.list:
        for name, part in jobs.items():
            print(f"{name:10s}{len(part):5d} fits, {sum(j.file.exists() for j in part):5d} done")
        return
    every = sorted(dict.fromkeys(j for part in jobs.values() for j in part), key=lambda j: j.start == STARTS[2])
    fit_all(every)
    fit_all([job for d in ROWS for job in winners(jobs, d, *WARM)])
    part = OUT.with_suffix(".part")
    part.write_text(text(record(jobs)) + "\n")
    os.replace(part, OUT)
    print(f"wrote {OUT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
