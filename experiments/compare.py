"""A stored record against a run of the same cell."""

import numpy as np

from experiments.report import value, whole_cost

# how far a repeated run may be from the stored one: a climb is the same arithmetic again, and errors of rounding grow
# with the steps; a run that draws random numbers repeats its path too, unless rounding made it take another one, or the
# rule that turns random numbers into its start: then the stored run and the repeated one are two independent draws, and
# their Monte Carlo error is what the spread over seeds shows
TOLERANCE = {"cavi": 1e-6, "mle-network": 1e-3, "mle-exact": 1e-3}
SAME_PATH = 1e-6
COMPARED = ("accuracy", "lpd", "ece", "train_lpd")


def compare(stored, again, others=()):
    """Names of the numbers by which a repeated run of a cell of the grid differs from the stored one.

    others: siblings; a method without a tolerance may be off by 5 of their standard deviations.
    Scores and the end of the trace are compared, and of a climb its whole trace.
    """
    method, bad = stored["cell"]["method"], []
    seeds = [stored] * all(r["cell"]["method"] == method for r in others) + list(others)
    pairs = [(name, value(stored, name), value(again, name), [value(r, name) for r in seeds]) for name in COMPARED]
    ends = [r["trace"]["value"] for r in (stored, again, *seeds) if r.get("trace")]
    if len(ends) == 2 + len(seeds):
        pairs.append(("end of trace", ends[0][-1], ends[1][-1], [e[-1] for e in ends[2:]]))
        if method in TOLERANCE:
            if len(ends[0]) != len(ends[1]):
                bad.append(f"points of trace {len(ends[0])} -> {len(ends[1])}")
            else:
                at = int(np.argmax(np.abs(np.subtract(ends[0], ends[1]))))
                pairs.append(("trace", ends[0][at], ends[1][at], []))
    for name, a, b, known in pairs:
        if method in TOLERANCE:
            slack = TOLERANCE[method] * max(1.0, abs(a))
        else:
            slack = 5 * np.std(known, ddof=1) if others else SAME_PATH
        if not (abs(a - b) <= slack or (np.isnan(a) and np.isnan(b))):
            bad.append(f"{name} {a:.6g} -> {b:.6g}")
    return bad


def compare_metrics(stored, again, tolerance, timed=()):
    """Names of the metrics, those of lists and objects too, by which a repeated run of a study differs; timed: names left out."""
    bad = []
    for name, a in stored["metrics"].items():
        b = again["metrics"].get(name)
        if name in timed:
            continue
        if isinstance(a, float) and isinstance(b, (int, float)):
            same = abs(a - b) <= tolerance * max(1.0, abs(a))
        elif isinstance(a, list) and isinstance(b, list) and a and isinstance(a[0], (int, float)):
            same = np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=tolerance, atol=tolerance)
        else:
            same = a == b
        if not same:
            bad.append(f"{name} {a!r:.40} -> {b!r:.40}")
    return bad


def siblings(cell, records):
    """Records of the same cell from other seeds.

    NUTS with a single seed borrows those of the Gibbs sampler, which draws from the same posterior: where both have several
    seeds, their scores spread about as much.
    """
    def seeds(method):
        return [record for other, record in records.items()
                if other != cell and other._replace(seed=cell.seed) == cell._replace(method=method)]
    return seeds(cell.method) or (seeds("gibbs") if cell.method == "nuts" else [])


def sample(records, cells, limit, rng):
    """So many stored cells that took at most `limit` CPU seconds, at random, one of each method in turn."""
    piles = []
    for method in dict.fromkeys(getattr(cell, "method", None) for cell in records):
        mine = [cell for cell, record in records.items() if getattr(cell, "method", None) == method and whole_cost(record) <= limit]
        piles.append([mine[i] for i in rng.permutation(len(mine))])
    turns = [pile[turn] for turn in range(max(map(len, piles), default=0)) for pile in piles if turn < len(pile)]
    return turns[:cells]
