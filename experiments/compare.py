"""A stored record against a run of the same cell."""

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma, polygamma
from scipy.stats import t as student

from experiments.report import value, whole_cost

# how far a repeated run may be from the stored one: a climb is the same arithmetic again, and errors of rounding grow
# with the steps: 20,000 of them end within 2e-4 of the stored objective with weights of hundreds, and the scores of a forecast
# that is sure everywhere show that a hundred times larger: of such a climb the trace is held to the tolerance, the scores to
# what another start would change; a run that draws random numbers repeats its path too, unless rounding made it take another one, or the
# rule that turns random numbers into its start or into draws: then the stored run and the repeated one are two independent
# draws, and in one comparison of a thousand they may lie further apart than `slacks` says
TOLERANCE = {"cavi": 1e-6, "mle-network": 1e-3, "mle-exact": 1e-3}
LONG_CLIMBS = ("mle-network", "mle-exact")
SAME_PATH = 1e-6
# forecasts are integrals, promised to 1e-6 in a probability p: to 1e-6 / p in its logarithm, and exp(-score) is the geometric mean of 1 / p;
# forecasts by tables moved stored scores by 2e-6, towards a rule with 151 nodes a dimension, from which they are 1e-7 away
PROMISED = 1e-6
RARE = 1e-3
COMPARED = ("accuracy", "lpd", "ece", "train_lpd")
END = "end of trace"


def number(record, name):
    """A score of a record by its name, or the end of its trace; nan where there is none."""
    if name == END:
        return record["trace"]["value"][-1] if record.get("trace") else np.nan
    return value(record, name)


def compare(stored, again, slack=None):
    """Names of the numbers by which a repeated run of a cell of the grid differs from the stored one.

    slack: how far a number of a method without a tolerance, or a score of a long climb, may be off, by its name (`slacks`).
    Scores and the end of the trace are compared, and of a climb its whole trace.
    """
    method, bad = stored["cell"]["method"], []
    pairs = [(name, number(stored, name), number(again, name)) for name in (*COMPARED, END)]
    if method in TOLERANCE and stored.get("trace") and again.get("trace"):
        ends = [r["trace"]["value"] for r in (stored, again)]
        if len(ends[0]) != len(ends[1]):
            bad.append(f"points of trace {len(ends[0])} -> {len(ends[1])}")
        else:
            at = int(np.argmax(np.abs(np.subtract(*ends))))
            pairs.append(("trace", ends[0][at], ends[1][at]))
    for name, a, b in pairs:
        most, spread = TOLERANCE.get(method, 0.0) * max(1.0, abs(a)), (slack or {}).get(name, SAME_PATH)
        if method == "cavi" and name in ("lpd", "train_lpd"):
            most += PROMISED * np.exp(-a)
        if method not in TOLERANCE or method in LONG_CLIMBS and name in COMPARED:
            most = max(most, spread)
        if not (abs(a - b) <= most or (np.isnan(a) and np.isnan(b))):
            bad.append(f"{name} {a:.6g} -> {b:.6g}")
    return bad


def prior_of_variances(variances, degrees):
    """Degrees of freedom and scale of the scaled inverse chi-square that sample variances of so many degrees share (Smyth 2004).

    By the moments of their logarithms; zeros say nothing there; no degrees where fewer than two are left.
    """
    v, nu = np.asarray(variances, float), np.asarray(degrees, float)
    v, nu = v[v > 0], nu[v > 0]
    if len(v) < 2:
        return 0.0, 1.0
    e = np.log(v) - digamma(nu / 2) + np.log(nu / 2)
    excess = np.clip(e.var(ddof=1) - polygamma(1, nu / 2).mean(), 1e-2, 1e2)
    half = brentq(lambda x: polygamma(1, x) - excess, 1e-3, 1e3)
    return 2 * half, float(np.exp(e.mean() + digamma(half) - np.log(half)))


def slacks(cell, records):
    """{name: how far apart two independent runs of this cell may be}; None where no other seed is stored.

    Student's quantile for the difference of two draws, at RARE; their variance is that of the cell's seeds, of which there are
    four or five, held to the relative variances of all cells of the method.
    """
    others = siblings(cell, records)
    if not others:
        return None
    method, groups = others[0]["cell"]["method"], {}
    for other, record in records.items():
        if other.method == method:
            groups.setdefault(other._replace(seed=0), []).append(record)
    seeds, out = [records[cell]] * (cell.method == method) + others, {}
    for name in (*COMPARED, END):
        tables = [np.array([number(r, name) for r in group]) for group in groups.values() if len(group) > 1]
        tables = [t for t in tables if np.isfinite(t).all() and t.mean()]
        nu0, s0 = prior_of_variances([t.var(ddof=1) / t.mean()**2 for t in tables], [len(t) - 1 for t in tables])
        mine = np.array([number(r, name) for r in seeds])
        nu = len(mine) - 1
        if nu + nu0 and np.isfinite(mine).all():
            known = nu * mine.var(ddof=1) if nu else 0.0
            variance = (known + nu0 * s0 * mine.mean()**2) / (nu + nu0)
            out[name] = float(student.isf(RARE / 2, nu + nu0) * np.sqrt(2 * variance))
    return out


def close(a, b, tolerance):
    """Whether two metrics are the same up to the tolerance: numbers, and what holds them in lists and objects; all else is equal or not."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(close(a[key], b[key], tolerance) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(close, a, b, [tolerance] * len(a)))
    if isinstance(a, float) and isinstance(b, (int, float)):
        return abs(a - b) <= tolerance * max(1.0, abs(a))
    return a == b


def compare_metrics(stored, again, tolerance, timed=()):
    """Names of the metrics, those of lists and objects too, by which a repeated run of a study differs; timed: names left out."""
    pairs = [(name, a, again["metrics"].get(name)) for name, a in stored["metrics"].items() if name not in timed]
    return [f"{name} {a!r:.40} -> {b!r:.40}" for name, a, b in pairs if not close(a, b, tolerance)]


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
