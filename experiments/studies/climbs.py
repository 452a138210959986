"""Where a climb ends from other starts, and what averages of several ends are worth.

Protocol, written before the first record.
    Question    What makes the end of a climb better: where it starts, how it goes, or what is made of several ends?
    Rows        Six pairs (set, size), splits 26 to 29, which no other study has seen; at most the first 500 test rows.
    Fits        Experts, latent dimension and priors of the grid, at most 200 sweeps, tol 1e-6.
    Ways        class code: the default start.  gibbs: the Gibbs sampler's own forecast, one chain, 300 + 200 sweeps.  from gibbs: coordinate
                ascent from narrow factors about the chain's last state.  tempered: 100 sweeps with T from 20 to 1, then 100.  merged: the
                class code's end, pairs of experts merged as long as the bound rises.  hyperplanes: four such starts, averaged plainly; by
                bound; by stacking of PSIS-LOO scores, 200 draws a fit; the one with the best bound; the first alone.
    Numbers     Test log score of each, bound of each fit, experts in use, k of q from 400 draws for the class code and the first hyperplanes,
                the share of LOO rows with k over 0.7.  Mean difference to the class code, paired over pairs and splits; its standard error
                over the four splits, each the mean over the six pairs.
    Spread      Of 50 test rows: standard deviation of the first class's logit over draws of the parameters, under q of the class code and
                under Gibbs; median over rows, and the median ratio.
No way was tried on these rows before; none is left out of the table.
"""
import time
import warnings
from typing import NamedTuple

import numpy as np

from experiments.grid import DATA, experts
from experiments.run import held_out, plain, split
from experiments.studies.others import standardised
from experiments.tables import Table

TOLERANCE = 2e-3
PAIRS = (("pinwheels", 100), ("iris", 50), ("wdbc", 50), ("sonar", 64), ("waveform", 120), ("vehicle", 80))
SPLITS = range(26, 30)
SWEEPS, TEST_ROWS = 200, 500
WAYS = ("class code", "gibbs", "from gibbs", "tempered", "merged", "one hyperplanes", "plain", "by bound", "stacked", "best bound")


class Cell(NamedTuple):
    """All ways on a split of a data set, so many of its training rows."""
    dataset: str
    n_train: int
    split: int


def plan():
    """Split by split."""
    return [Cell(d, n, s) for s in SPLITS for d, n in PAIRS]


def spread(logs):
    """Standard deviation over draws of the first class's logit.   logs (S,n,L) -> (n,)"""
    first = logs[..., 0]
    return (first - np.log1p(-np.exp(np.minimum(first, -1e-12)))).std(0)


def in_use(parameters, a0):
    """Experts with a row or more."""
    return int((2 * (parameters.a - a0) >= 1).sum())


def climbs(Z, y, Z_new, L, K, priors):
    """Every way on these rows.   -> {way: log probabilities}, {numbers}"""
    from cmn_literate.beyond import climbs as ways
    from cmn_literate.engineering.fit import begin, fit
    from cmn_literate.engineering.nodes import latent_nodes
    from cmn_literate.engineering.quadrature import predict_log_proba
    from cmn_literate.network.predict import sample_parameters
    from cmn_literate.network.simulate import Theta
    from cmn_literate.roads.diagnostics import PosteriorDraws, draw_log_probs, predict_from_draws
    from cmn_literate.roads.gibbs import gibbs
    from cmn_literate.use.metrics import psis_loo

    model = dict(n_experts=K, n_classes=L, priors=priors)
    climb = lambda **more: fit(Z, y, max_sweeps=SWEEPS, **model, **more)
    begun = begin(Z, y, **model)
    fits = {"class code": climb()}
    fits["tempered"] = fit(Z, y, max_sweeps=SWEEPS // 2, start=ways.tempered(begun, sweeps=SWEEPS // 2), **model)
    draws = gibbs(Z, y, n_chains=1, n_warmup=300, n_draws=200, rng=1, **model)
    last = Theta(*(x[0, -1] for x in draws.theta))
    fits["from gibbs"] = climb(start=begun._replace(parameters=ways.near(last)))
    several = [climb(rng=s, init="hyperplanes") for s in range(4)]
    forecasts = {way: predict_log_proba(found.parameters, Z_new) for way, found in fits.items()}
    merged, bound, pairs = ways.climb_by_merging(Z, y, fits["class code"])
    forecasts |= {"gibbs": predict_from_draws(draws, Z_new, rng=0), "merged": predict_log_proba(merged, Z_new)}
    logs = np.array([predict_log_proba(found.parameters, Z_new) for found in several])
    bounds = [float(found.elbo[-1]) for found in several]
    loo = [psis_loo(ways.draw_scores(found.parameters, Z, y)[1]) for found in several]
    stack, by_bound = ways.stacking_weights([one.rows for one in loo]), ways.bound_weights(bounds)
    forecasts |= {"one hyperplanes": logs[0], "plain": ways.average_forecasts(logs, np.full(4, 0.25)),
                  "by bound": ways.average_forecasts(logs, by_bound), "stacked": ways.average_forecasts(logs, stack),
                  "best bound": logs[int(np.argmax(bounds))]}
    own = fits["class code"].parameters
    some, nodes = Z_new[:50], latent_nodes(draws.shapes, 256 if draws.shapes.rank > 2 else None, rng=0)
    of_q = sample_parameters(own, np.random.default_rng(0), 200)
    of_q = PosteriorDraws(Theta(*(x[None] for x in of_q)), np.zeros((1, 200)))
    wide = [spread(np.array(list(draw_log_probs(d, some, nodes)))) for d in (of_q, draws)]
    tail = [ways.tail_index(p, Z, y, priors, 400) for p in (own, several[0].parameters)]
    return forecasts, {
        "bounds": {**{way: plain(float(found.elbo[-1])) for way, found in fits.items()}, "merged": plain(bound),
                   "hyperplanes": [plain(b) for b in bounds]},
        "in_use": {**{way: in_use(found.parameters, priors.a0) for way, found in fits.items()}, "merged": in_use(merged, priors.a0),
                   "gibbs": float(draws.stats["occupied"].mean())},
        "merges": len(pairs), "weights": {"by bound": [plain(w, 3) for w in by_bound.tolist()], "stacked": [plain(w, 3) for w in stack.tolist()]},
        "tail_index": [plain(k, 4) for k in tail], "loo_over": plain(float(np.mean([np.mean(~(one.k <= 0.7)) for one in loo])), 4),
        "spread": [plain(float(np.median(w)), 4) for w in wide] + [plain(float(np.median(wide[0] / wide[1])), 4)]}


def run(cell, records=None, data_home=None, models=None):
    """All ways on a cell, and their scores."""
    from cmn_literate.network.simulate import Priors

    data, train, test = split(cell, data_home, cell.split)
    y, test, Z = np.unique(data.y, return_inverse=True)[1], test[:TEST_ROWS], standardised(data.X, train)
    clock = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")                     # tail indices are in the record
        forecasts, found = climbs(Z[train], y[train], Z[test], int(y.max()) + 1, experts(cell.dataset), Priors(**DATA["priors"]))
    scores = {way: plain(float(held_out(y[test], forecasts[way])["lpd"]), 6) for way in WAYS}
    return {"setting": {"max_sweeps": SWEEPS}, "metrics": {"lpd": scores, **found},
            "provenance": {"cpu_seconds": time.process_time() - clock, "sha256": data.sha256}}


# ---- reading the records

def complete(records):
    """The splits that have all pairs."""
    return [s for s in SPLITS if all(Cell(d, n, s) in records for d, n in PAIRS)]


def scores(records):
    """(splits, pairs, ways) log scores of the complete splits."""
    table = [[[records[Cell(d, n, s)]["metrics"]["lpd"][way] for way in WAYS] for d, n in PAIRS] for s in complete(records)]
    return np.array(table, float).reshape(-1, len(PAIRS), len(WAYS))


def gains(records, base="class code"):
    """{way: (mean difference to base, standard error over splits, mean of each pair)}, nats a row; no error (NaN) from less than three splits."""
    values = scores(records)
    gap = values - values[..., [WAYS.index(base)]]
    error = gap.mean(1).std(0, ddof=1) / len(gap) ** 0.5 if len(gap) > 2 else np.full(len(WAYS), np.nan)
    return {way: (float(gap[..., i].mean()), float(error[i]), gap[..., i].mean(0)) for i, way in enumerate(WAYS)}


def way_table(records):
    """A Table: log score of every way less that of the class code."""
    found, levels, rows = gains(records), scores(records).mean((0, 1)), []
    for level, (way, (mean, error, each)) in zip(levels, found.items()):
        gain = f"{100 * mean:+.1f}" + (f" ± {100 * error:.1f}" if np.isfinite(error) else "")
        rows.append([way, f"{level:.3f}", None if way == WAYS[0] else gain, *(f"{100 * gap:+.0f}" for gap in each)])
    return Table(["way", "log score", "gain", *(f"{d} {n}" for d, n in PAIRS)], rows, "l" + "r" * (2 + len(PAIRS)),
                 f"Log score, and gain over the class code in hundredths of a nat (± standard error); {len(complete(records))} of {len(SPLITS)} splits")


def number_table(records):
    """A Table: per pair the bound less the class code's, experts in use, k of q, and the spread of a logit; medians over splits."""
    rows = []
    for d, n in PAIRS:
        some = [records[Cell(d, n, s)]["metrics"] for s in complete(records)]
        middle = lambda pick: float(np.median([pick(m) for m in some]))
        lift = {way: middle(lambda m: m["bounds"][way] - m["bounds"]["class code"]) for way in ("from gibbs", "tempered", "merged")}
        used = {way: middle(lambda m: m["in_use"][way]) for way in ("class code", "from gibbs", "tempered", "merged", "gibbs")}
        rows.append([d, n, *(f"{lift[way]:+.0f}" for way in lift), *(f"{used[way]:.0f}" for way in used),
                     f"{middle(lambda m: float(m['tail_index'][0])):.1f}", f"{middle(lambda m: m['loo_over']):.0%}",
                     *(f"{middle(lambda m: float(m['spread'][i])):.1f}" for i in (0, 1))])
    return Table(["data", "rows", *(f"bound, {way}" for way in ("from gibbs", "tempered", "merged")),
                  *(f"experts, {way}" for way in ("class code", "from gibbs", "tempered", "merged", "gibbs")), "k of q", "LOO rows over 0.7",
                  "spread, q", "spread, Gibbs"], rows, "lr" + 12 * "r",
                 f"Bound less the class code's (nats), experts with a row or more, tail index; medians over {len(complete(records))} of {len(SPLITS)} splits")


def report(records):
    """Lines: how many splits are complete, and the tables of one or more."""
    yield f"{len(complete(records))} of {len(SPLITS)} splits have all {len(PAIRS)} pairs"
    if not complete(records):
        return
    for table in (way_table(records), number_table(records)):
        yield from (*repr(table).splitlines(), "")
