"""Merges, births, half steps and blocks one by one: what a climb gains from moves that the bound accepts, and from another order or length of its steps.

Protocol, written before the first record.
    Question    Do births of experts, accepted by the bound, gain what merges gain? Does the end of a climb depend on the length of its steps, or on the
                order in which it reads the rows?
    Rows        Six pairs (set, size), splits 26 to 29; at most the first 500 test rows. The study `climbs` has used these rows: its class code and its
                merged climb are made again here, and every other way is new.
    Fits        Experts, latent dimension and priors of the grid. All ways begin at the class code with seed 0.
    Ways        class code: at most 200 sweeps, tol 1e-6.  births: from its end, three random cuts of every expert in use, 3 sweeps to look, 50 to
                decide, at most ten births.  merged: from its end, pairs of experts merged as long as the bound rises.  merged, births: births from the
                end of the merges.  half steps: 400 damped sweeps with rho 0.5.  half steps first: 50 of them, then 175 sweeps.  block by block:
                memoized ascent, 8 blocks in random order (seed: the split), 200 passes, without the step of the latent axes.
    Numbers     Test log score, bound and experts with a row or more of each; accepted births and merges. Mean difference to the class code, paired over
                pairs and splits; its standard error over the four splits, each the mean over the six pairs.
No way is left out of the table. Four splits and six sets are few: a mean less than two standard errors from zero says nothing.
"""
import time
import warnings
from dataclasses import replace

import numpy as np

from experiments.grid import DATA, experts
from experiments.run import held_out, plain, split
from experiments.studies import climbs as before
from experiments.studies.others import standardised
from experiments.tables import Table

TOLERANCE, Cell, PAIRS, SPLITS, plan, complete = before.TOLERANCE, before.Cell, before.PAIRS, before.SPLITS, before.plan, before.complete
SWEEPS, HALF, BLOCKS = 200, 0.5, 8
WAYS = ("class code", "births", "merged", "merged, births", "half steps", "half steps first", "block by block")


def moves(Z, y, L, K, priors, seed):
    """The end of every way on these rows.   -> {way: (Parameters, bound)}, {numbers}"""
    from cmn_literate.beyond import climbs as ways
    from cmn_literate.beyond.streaming import begin_memo, cut_blocks, memo_pass
    from cmn_literate.engineering.fit import begin, fit
    from cmn_literate.engineering.sums import block_sweep

    model = dict(n_experts=K, n_classes=L, priors=priors)
    plain_climb, begun = fit(Z, y, max_sweeps=SWEEPS, **model), begin(Z, y, **model)
    ends = {"class code": (plain_climb.parameters, float(plain_climb.elbo[-1]))}
    *ends["births"], born = ways.climb_by_births(Z, y, plain_climb)
    *ends["merged"], merges = ways.climb_by_merging(Z, y, plain_climb)
    *ends["merged, births"], later = ways.climb_by_births(Z, y, replace(plain_climb, parameters=ends["merged"][0]))
    for way, half in (("half steps", 2 * SWEEPS), ("half steps first", SWEEPS // 4)):
        blocks, p = begun.blocks, begun.parameters
        for _ in range(half):
            blocks, p, bound = ways.damped(blocks, p, priors, HALF)
        for _ in range(SWEEPS - half // 2):
            blocks, p, bound = block_sweep(blocks, p, priors)
        ends[way] = p, float(bound)
    sizes = K, begun.parameters.M.shape[1], L, begun.shared
    memo = begin_memo(cut_blocks(Z, y, BLOCKS, *sizes[:3], rng=seed, shared=sizes[3]), begun.parameters, priors)
    for _ in range(SWEEPS - 1):
        memo = memo_pass(memo, priors)
    ends["block by block"] = memo.parameters, memo.bound
    return {way: tuple(ends[way]) for way in WAYS}, {"births": len(born), "merges": len(merges), "births after merges": len(later)}


def run(cell, records=None, data_home=None, models=None):
    """All ways on a cell, and their scores."""
    from cmn_literate.engineering.quadrature import predict_log_proba
    from cmn_literate.network.simulate import Priors

    data, train, test = split(cell, data_home, cell.split)
    y, test, Z = np.unique(data.y, return_inverse=True)[1], test[:before.TEST_ROWS], standardised(data.X, train)
    clock, priors = time.process_time(), Priors(**DATA["priors"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ends, accepted = moves(Z[train], y[train], int(y.max()) + 1, experts(cell.dataset), priors, cell.split)
        scores = {way: plain(float(held_out(y[test], predict_log_proba(p, Z[test]))["lpd"]), 6) for way, (p, _) in ends.items()}
    return {"setting": {"max_sweeps": SWEEPS},
            "metrics": {"lpd": scores, "bounds": {way: plain(bound) for way, (_, bound) in ends.items()},
                        "in_use": {way: before.in_use(p, priors.a0) for way, (p, _) in ends.items()}, "accepted": accepted},
            "provenance": {"cpu_seconds": time.process_time() - clock, "sha256": data.sha256}}


# ---- reading the records

def scores(records, what="lpd"):
    """(splits, pairs, ways) log scores of the complete splits, or another number of every way."""
    table = [[[records[Cell(d, n, s)]["metrics"][what][way] for way in WAYS] for d, n in PAIRS] for s in complete(records)]
    return np.array(table, float).reshape(-1, len(PAIRS), len(WAYS))


def gains(records, base="class code"):
    """{way: (mean difference to base, standard error over splits, mean of each pair)}, nats a row; no error (NaN) from less than three splits."""
    gap = scores(records)
    gap = gap - gap[..., [WAYS.index(base)]]
    error = gap.mean(1).std(0, ddof=1) / len(gap) ** 0.5 if len(gap) > 2 else np.full(len(WAYS), np.nan)
    return {way: (float(gap[..., i].mean()), float(error[i]), gap[..., i].mean(0)) for i, way in enumerate(WAYS)}


def move_table(records):
    """A Table: of every way the log score, its gain over the class code, the bound less the class code's, and experts in use."""
    found, levels, rows = gains(records), scores(records).mean((0, 1)), []
    bounds, used = scores(records, "bounds"), scores(records, "in_use").mean((0, 1))
    lift = np.median(bounds - bounds[..., :1], axis=(0, 1))
    for i, (way, (mean, error, each)) in enumerate(found.items()):
        gain = f"{100 * mean:+.1f}" + (f" ± {100 * error:.1f}" if np.isfinite(error) else "")
        rows.append([way, f"{levels[i]:.3f}", gain if i else None, *(f"{100 * gap:+.0f}" for gap in each), f"{lift[i]:+.0f}", f"{used[i]:.1f}"])
    return Table(["way", "log score", "gain", *(f"{d} {n}" for d, n in PAIRS), "bound", "experts"], rows, "l" + "r" * (4 + len(PAIRS)),
                 "Log score, gain over the class code in hundredths of a nat (± standard error), bound less the class code's (nats, median), experts with a "
                 f"row or more (mean); {len(complete(records))} of {len(SPLITS)} splits")


def accepted(records):
    """{"births", "merges", "births after merges": mean number over all complete cells}."""
    cells = [records[Cell(d, n, s)]["metrics"]["accepted"] for s in complete(records) for d, n in PAIRS]
    return {name: float(np.mean([cell[name] for cell in cells])) for name in cells[0]}


def report(records):
    """Lines: how many splits are complete, and the table of one or more."""
    yield f"{len(complete(records))} of {len(SPLITS)} splits have all {len(PAIRS)} pairs"
    if complete(records):
        yield from (*repr(move_table(records)).splitlines(), ", ".join(f"{name} {mean:.1f}" for name, mean in accepted(records).items()))
