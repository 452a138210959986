"""When may coordinate ascent stop, and what does a forecast lose by it?

Protocol, written before the first record.
    Question    A default must end by a rule that its user can trust.  For each rule: after how many sweeps it is met, and how far the test log
                score then is from that of the same climb after 1,000 sweeps.
    Rules       sweep t: the bound gained less than t nats per row in the last sweep, t = 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 1e-6 (the last: the
                rule of the package so far).  window w: less than w nats per row in the last 20 sweeps together, w = 3e-3, 1e-3.
                doubling d: less than d nats per row in the second half of all sweeps so far, d = 1e-2, 3e-3, 1e-3, not before sweep 20.
                A rule that is not met by sweep 1,000 has stopped there, and the record says so.
    Sets        The eight of the grid at one middle size each, and wine, breast cancer, two moons, two circles and digits of 8 x 8, whose default
                fits are known to end with a warning; splits 26 to 29, which no study has seen; at most 300 test rows.
    Fits        paper: the paper's priors; shared: the method "shared-means".  Both from hyperplanes with seed 0, ten experts.  Then paper with
                accelerated axes (tol as before), which makes other steps of the same climb; digits are left out of it, for their cost.
    Criterion   The cheapest rule whose mean loss, score after 1,000 sweeps less score at the stop, is below .005 nats over the sets for both
                models, whose largest mean loss on a set is below .02, and that is met within 500 sweeps in nineteen fits of twenty.
A record holds all rules on one climb, in the order of RULES.
"""
import time
from typing import NamedTuple

import numpy as np

from experiments.grid import DATA
from experiments.run import plain
from experiments.studies import defaults
from experiments.tables import Table

BEGUN = False
TOLERANCE = 2e-3
TIMED = ("seconds",)
SPLITS, LAST, LIMIT, TEST_ROWS, EXPERTS = range(26, 30), 1000, 500, 300, 10
RULES = (*(("sweep", t) for t in (1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 1e-6)), ("window", 3e-3), ("window", 1e-3),
         *(("doubling", d) for d in (1e-2, 3e-3, 1e-3)))
SIZES = {"iris": 100, "pinwheels": 400, "banknote": 200, "wine": 90, "moons": 300, "circles": 300, "rice": 320, "vehicle": 320, "waveform": 240,
         "wdbc": 200, "breast_cancer": 300, "sonar": 128, "digits": 400}
MODELS = ("paper", "shared", "accelerated")


class Cell(NamedTuple):
    """A climb of a model on a split of a data set."""
    dataset: str
    model: str
    split: int


def plan():
    """A split of all sets at a time; the accelerated climbs last."""
    first = [Cell(d, m, s) for s in SPLITS for d in SIZES for m in MODELS[:2]]
    return first + [Cell(d, MODELS[2], s) for s in SPLITS for d in SIZES if d != "digits"]


def met(rule, trace):
    """Whether the climb with these bounds, nats per row, one per sweep so far, may stop by the rule.  A bound that falls, as that of a
    climb with accelerated axes may not, gains less than anything."""
    kind, most = rule
    n = len(trace)
    back = {"sweep": 1, "window": 20, "doubling": n - n // 2 if n >= 20 else n}[kind]
    return n > back and trace[-1] - trace[-1 - back] < most


def climb(cell, Z, y, n_classes):
    """An endless iterator over (Parameters, bound per row), a sweep each."""
    from cmn_literate.beyond.shared_means import Above, higher_start, higher_sweep, scaled_priors
    from cmn_literate.engineering.fit import begin, step
    from cmn_literate.network.simulate import Priors

    priors = Priors(**DATA["priors"])
    setting = {"n_experts": EXPERTS, "n_classes": n_classes, "rng": 0, "init": "hyperplanes"}
    if cell.model == "shared":
        above, priors = Above(v00=priors.v0 / (Z.shape[1] + 1)), scaled_priors(priors, Z.shape[1] + 1)
        r = begin(Z, y, priors=priors, **setting)
        blocks, p, g = r.blocks, r.parameters, higher_start(*r.parameters.M.shape[1:], priors, above)
        while True:
            blocks, p, g, bound = higher_sweep(blocks, p, g, priors, above)
            yield p, bound / len(Z)
    r = begin(Z, y, priors=priors, **setting)
    while True:
        r = step(r, accelerate=cell.model == "accelerated")
        yield r.parameters, r.elbo[-1] / len(Z)


def run(cell, records=None, data_home=None, models=None):
    """A climb of 1,000 sweeps, scored where each rule is first met."""
    from cmn_literate.engineering.quadrature import predict_log_proba

    Z, y, Z_new, truth, origin = defaults.rows_of(defaults.Cell(cell.dataset, SIZES[cell.dataset], cell.split), data_home)
    Z_new, truth = Z_new[:TEST_ROWS], truth[:TEST_ROWS]
    L, trace, stops, known, clock = int(max(y.max(), truth.max())) + 1, [], {}, {}, time.process_time()
    scored = lambda p: float(predict_log_proba(p, Z_new)[np.arange(len(truth)), truth].mean())
    for n, (p, bound) in zip(range(1, LAST + 1), climb(cell, Z, y, L)):
        trace.append(bound)
        for rule in RULES:
            if rule not in stops and met(rule, trace):
                stops[rule] = n
        if n in stops.values() or n in (LIMIT, LAST):
            known[n] = scored(p)
    at = [stops.get(rule, LAST) for rule in RULES]
    return {"setting": {"n_experts": EXPERTS, "sweeps": LAST},
            "metrics": {"stops": at, "met": [rule in stops for rule in RULES], "lpd": [plain(known[n], 5) for n in at],
                        "lpd_500": plain(known[LIMIT], 5), "lpd_end": plain(known[LAST], 5),
                        "left": [plain(trace[-1] - trace[n - 1], 5) for n in at], "seconds": round(time.process_time() - clock, 3)},
            "provenance": {"sha256": origin}}


# ---- reading the records

def name_of(rule):
    """A rule as the tables call it."""
    return f"{rule[0]} {rule[1]:g}"


def numbers(records, model, name):
    """{set: (splits, rules)} of a metric, of the splits that are stored."""
    found = {}
    for d in SIZES:
        rows = [records[c]["metrics"] for c in (Cell(d, model, s) for s in SPLITS) if c in records]
        if rows:
            found[d] = np.array([row[name] for row in rows], float)
    return found


def losses(records, model):
    """{set: (splits, rules)} of what the stop costs: score after 1,000 sweeps less score at the stop, nats."""
    ends, at = numbers(records, model, "lpd_end"), numbers(records, model, "lpd")
    return {d: ends[d][:, None] - at[d] for d in at}


def mean_loss(records, model, i):
    """Mean over sets of the loss of rule i, its standard error over splits and sets, the set with the largest mean and that mean."""
    each = {d: v[:, i] for d, v in losses(records, model).items()}
    means = {d: float(v.mean()) for d, v in each.items()}
    worst = max(means, key=means.get)
    error = np.sqrt(sum(v.var(ddof=1) / len(v) for v in each.values() if len(v) > 1)) / len(each)
    return float(np.mean(list(means.values()))), float(error), worst, means[worst]


def in_time(records, model, i, limit=LIMIT):
    """Share of the climbs in which rule i is met within so many sweeps."""
    stops, met_ = numbers(records, model, "stops"), numbers(records, model, "met")
    return float(np.mean(np.concatenate([(stops[d][:, i] <= limit) & (met_[d][:, i] > 0) for d in stops])))


def trusted(records):
    """The rules that the protocol's criterion admits, the cheapest first."""
    fine = []
    for i, rule in enumerate(RULES):
        looks = [mean_loss(records, m, i) for m in MODELS[:2]]
        if all(look[0] < 5e-3 and look[3] < 2e-2 for look in looks) and min(in_time(records, m, i) for m in MODELS[:2]) >= 0.95:
            sweeps = np.mean([v[:, i].mean() for m in MODELS[:2] for v in numbers(records, m, "stops").values()])
            fine.append((float(sweeps), rule))
    return [rule for _, rule in sorted(fine)]


def rule_table(records, model):
    """A Table: each rule, its sweeps, how often it is met in time, its loss and its worst set."""
    rows, sweeps = [], numbers(records, model, "stops")
    for i, rule in enumerate(RULES):
        mean, error, worst, most = mean_loss(records, model, i)
        counts = np.concatenate([v[:, i] for v in sweeps.values()])
        rows.append([name_of(rule), f"{np.median(counts):.0f}", f"{counts.max():.0f}", f"{in_time(records, model, i):.0%}",
                     f"{1000 * mean:+.1f} ± {1000 * error:.1f}", f"{1000 * most:+.0f} ({worst})"])
    return Table(["rule", "sweeps, median", "most", f"met within {LIMIT}", "loss, thousandths", "largest mean"], rows, "lrrrrr",
                 f"{model}: {len(sweeps)} sets; loss in thousandths of a nat, ± standard error")


def report(records):
    """Lines: how far it is, and for each model the table of rules."""
    yield f"{len(records)} of {len(plan())} climbs"
    for model in MODELS:
        if any(c.model == model for c in records):
            yield from (*repr(rule_table(records, model)).splitlines(), "")
    if {m for m in MODELS[:2] if any(c.model == m for c in records)} == set(MODELS[:2]):
        yield "trusted: " + (", ".join(map(name_of, trusted(records))) or "none")
