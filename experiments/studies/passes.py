"""Passes over the rows until the bound has reached its plateau: sweeps, accelerated, memoized, stochastic, and streams (an hour).

The problems are those of the study of restarts: eight data sets at the rows and experts of the grid, one test set each.  The plateau of a
data set and a seed is the bound after 10,000 sweeps; a run has reached it when NEAR nats a row are missing.  Every way of climbing is
to have three starts on each data set, and the chapter counts the starts that are whole; a method halves the passes on a data set if the
mean over the starts says so, and a start that never arrives counts as one that does not.  Steps and streams have one start.
"""

from typing import NamedTuple

import numpy as np

from cmn_literate.beyond.streaming import (
    begin_relaxation, begin_memo, cut_blocks, memo_axes, memo_pass, relaxed_pass, stochastic_pass)
from cmn_literate.engineering.fit import expand
from cmn_literate.engineering.quadrature import predict_log_proba
from cmn_literate.engineering.starts import init_parameters
from cmn_literate.engineering.streams import absorb, combine, prior_sums, seen_sums
from cmn_literate.engineering.sums import block_sweep, make_blocks
from cmn_literate.network.elbo import global_kl
from cmn_literate.network.simulate import Priors
from cmn_literate.use.metrics import log_scores
from experiments.grid import experts
from experiments.studies.restarts import ROWS, problem

METHODS = ("batch", "axes", "relaxed", "relaxed axes", "memoized", "memoized axes")
CHUNKS = (2, 8, 32)                                     # streams: so many chunks
DELAYS, FORGETS = (1.0, 16.0, 64.0), (0.5, 0.6, 0.7, 0.9)
BEGUN = False
SEEDS, FEW = range(3), range(1)              # starts of climbs; of steps and streams
PLATEAU, LIMIT, MEMO_LIMIT, STOCHASTIC = 10_000, 10_000, 3000, 100       # passes
NEAR, N_BLOCKS = 1e-3, 8                                # nats a row; blocks of memoized and stochastic passes
REST, SMALL = 300, 1e-4                                 # a run rests when so many passes gain less than SMALL nats a row
PRIORS = Priors()
TOLERANCE = 1e-3


class Cell(NamedTuple):
    """One run.  method: one of METHODS, "stochastic <delay> <exponent>" or "stream <chunks>"."""
    dataset: str
    method: str
    seed: int


def plan():
    seeds = [Cell(d, m, s) for m in METHODS for d in ROWS for s in SEEDS]
    steps = [Cell(d, f"stochastic {delay:g} {forget:g}", s) for delay in DELAYS for forget in FORGETS for d in ROWS for s in FEW]
    return [*seeds, *steps, *(Cell(d, f"stream {n}", s) for n in CHUNKS for d in ROWS for s in FEW)]


def needs(cell):
    """The plateau comes first."""
    return () if cell.method == "batch" or cell.method.startswith("st") else (cell._replace(method="batch"),)


def begun(cell, data_home=None):
    """Standardised rows and labels, those of the test, and the parameters that all runs of a seed begin with."""
    X, y, X_test, y_test = problem(cell.dataset, ROWS[cell.dataset], data_home)
    L = int(y.max()) + 1
    p = init_parameters(X, y, experts(cell.dataset), L - 1, L, PRIORS, np.random.default_rng(cell.seed))
    return X, y, X_test, y_test, p


def sizes_of(p):
    return *p.M.shape[:2], len(p.beta1_mu) + 1


def climbing(method, X, y, p):
    """Parameters and bound after each pass of a method, without an end."""
    if method in ("batch", "axes"):
        blocks = make_blocks(X, y, *sizes_of(p))
        while True:
            blocks, p, bound = block_sweep(blocks, p, PRIORS)
            if method == "axes":
                bound += sum(global_kl(p, PRIORS).values())
                p = expand(p, PRIORS)
                bound -= sum(global_kl(p, PRIORS).values())
            yield p, bound
    elif method.startswith("relaxed"):
        climb = begin_relaxation(make_blocks(X, y, *sizes_of(p)), p)
        while True:
            climb = relaxed_pass(climb, PRIORS, axes=method.endswith("axes"))
            yield climb.parameters, climb.bound
    else:
        memo = begin_memo(cut_blocks(X, y, N_BLOCKS, *sizes_of(p)), p, PRIORS)
        while True:
            if method.endswith("axes"):
                memo = memo_axes(memo, PRIORS)
            yield memo.parameters, memo.bound
            memo = memo_pass(memo, PRIORS)


def passes(cell, plateau, data_home=None):
    """A run of METHODS until it is near the plateau, or rests, or has come to its limit."""
    X, y, X_test, y_test, p = begun(cell, data_home)
    trace, near = [], NEAR * len(X)
    limit = PLATEAU if cell.method == "batch" else MEMO_LIMIT if cell.method.startswith("memoized") else LIMIT
    for now in climbing(cell.method, X, y, p):          # parameters, bound
        trace.append(float(now[1]))
        rests = len(trace) > REST and trace[-1] - trace[-REST] < SMALL * len(X)
        if len(trace) == limit or plateau is not None and (trace[-1] >= plateau - near or rests):
            break
    goal = trace[-1] if plateau is None else plateau
    reached = np.flatnonzero(np.array(trace) >= goal - near)
    return {"passes": int(reached[0]) + 1 if reached.size else None, "ran": len(trace), "bound": round(trace[-1], 4),
            "lpd": lpd(now[0], X_test, y_test), "fell": round(float(max(-np.diff(trace).min(), 0.0)), 6)}


def lpd(p, X, y):
    return round(float(log_scores(y, predict_log_proba(p, X), log=True).mean()), 6)


def stochastic(cell, data_home=None):
    """The bound of one sweep from where STOCHASTIC passes lead to."""
    X, y, X_test, y_test, p = begun(cell, data_home)
    _, delay, forget = cell.method.split()
    blocks, t, rng = cut_blocks(X, y, N_BLOCKS, *sizes_of(p)), 0, np.random.default_rng(cell.seed)
    for _ in range(STOCHASTIC):
        blocks, p, t = stochastic_pass(blocks, p, PRIORS, rng, t, float(delay), float(forget))
    return {"passes": STOCHASTIC, "bound": round(float(block_sweep(blocks, p, PRIORS)[2]), 4), "lpd": lpd(p, X_test, y_test)}


def stream(cell, data_home=None):
    """Rows in chunks that come once; the start sees the first chunk alone.  Every chunk may have 500 sweeps."""
    X, y, X_test, y_test, p = begun(cell, data_home)
    chunks = np.array_split(np.random.default_rng(cell.seed).permutation(len(X)), int(cell.method.split()[1]))
    p = init_parameters(X[chunks[0]], y[chunks[0]], *sizes_of(p), PRIORS, np.random.default_rng(cell.seed))
    share, M, n_sweeps = combine((0.0, prior_sums(PRIORS, p))), p.M, 0
    for chunk in chunks:
        result = absorb(combine((1, prior_sums(PRIORS, p, M)), (1, share)), M, p, X[chunk], y[chunk], PRIORS, tol=1e-5)
        p, share, M, n_sweeps = result.parameters, seen_sums(result), result.parameters.M, n_sweeps + result.n_sweeps
    return {"passes": round(n_sweeps / len(chunks)), "bound": round(float(result.elbo[-1]), 4), "lpd": lpd(p, X_test, y_test)}


def run(cell, records=None, data_home=None, models=None):
    if cell.method.startswith("stochastic"):
        metrics = stochastic(cell, data_home)
    elif cell.method.startswith("stream"):
        metrics = stream(cell, data_home)
    else:
        plateau = None if cell.method == "batch" else records[cell._replace(method="batch")]["metrics"]["bound"]
        metrics = passes(cell, plateau, data_home)
    return {"setting": {"rows": ROWS[cell.dataset], "experts": experts(cell.dataset)}, "metrics": metrics}
