"""NUTS on iris at the paper's setting, four chains (about 20 minutes of one core).

100 training rows, K = 20 experts, h = 2, the paper's priors, 800 + 64 transitions of each chain, explicit latent vectors.
The seconds are processor time, so that other work on the machine does not count.
"""

import time
from typing import NamedTuple

import numpy as np

from experiments.provenance import Clock
from experiments.run import load_set

SETTING = {"n_experts": 20, "n_chains": 4, "n_warmup": 800, "n_draws": 64, "target": "explicit", "init": "cavi", "rng": 0}
TIMED = ("seconds", "gradient_ms", "probabilities")


class Cell(NamedTuple):
    """The data set."""
    dataset: str


def plan():
    return [Cell("iris")]


def milliseconds(function, repeats=200):
    """The best time of one call."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return round(1000 * best, 3)


def gradient_times(X, y, u):
    """What a gradient of each target costs, at the same place."""
    from cmn_literate.engineering.coordinates import Shapes
    from cmn_literate.roads.posterior import posterior_target
    from cmn_literate.network.simulate import Priors

    shapes, times = Shapes(20, 2, 3, X.shape[1]), {}
    for name, target, nodes in (("explicit", "explicit", None), ("marginal, 20 x 20 nodes", "marginal", None), ("marginal, 8 x 8 nodes", "marginal", 8)):
        density, n_eps = posterior_target(X, y, shapes, Priors(), target, nodes)
        q = np.concatenate([u, np.zeros(n_eps)])
        times[name] = milliseconds(lambda: density(q))
    return times


def run(cell, records=None, data_home=None, models=None):
    """The run and its numbers."""
    from cmn_literate.network.simulate import Priors
    from cmn_literate.roads.diagnostics import bfmi, draw_log_probs, ess_bulk, ess_tail, split_rhat
    from cmn_literate.engineering.coordinates import Shapes, to_white
    from cmn_literate.roads.posterior import sample_posterior
    from cmn_literate.engineering.sources import column_scale
    from cmn_literate.use.datasets import stratified_split
    from cmn_literate.use.metrics import accuracy, expected_calibration_error, log_predictive_density

    data = load_set(cell.dataset, data_home)
    train, test = stratified_split(data.y, 100, 50, np.random.default_rng(0))
    mean, scale = column_scale(data.X[train])
    Z = (data.X - mean) / scale
    clock = Clock()
    draws = sample_posterior(Z[train], data.y[train], **SETTING)
    took = clock.read()[1]
    stats, lead = draws.stats, draws.log_joint.shape
    p = np.exp(np.stack(list(draw_log_probs(draws, Z[test])))).reshape(*lead, len(test), 3)
    forecast = p.mean((0, 1))
    log_p, y = np.log(forecast), data.y[test]
    free = p[..., :2].reshape(*lead, -1)                                     # the third probability follows from two
    rhat, bulk, tail = split_rhat(free), ess_bulk(free), ess_tail(free)
    digits = lambda value, n=4: float(f"{float(value):.{n}g}")
    metrics = {
        "n_train": len(train), "n_test": len(test), "seconds": round(took), "draws": int(np.prod(lead)),
        "divergent": int(stats["divergent"].sum()), "at_max_depth": int((stats["depth"] >= 10).sum()),
        "gradients_per_draw": digits(stats["n_leapfrog"].mean()), "accept": digits(stats["accept"].mean()),
        "step": [digits(v, 3) for v in stats["step"][:, 0]], "bfmi": [digits(v, 3) for v in bfmi(stats["energy"])],
        "log_density": {"rhat": digits(split_rhat(draws.log_joint)), "ess_bulk": digits(ess_bulk(draws.log_joint)),
                        "ess_tail": digits(ess_tail(draws.log_joint))},
        "probabilities": {"rhat_median": digits(np.median(rhat)), "rhat_max": digits(rhat.max()),
                          "ess_bulk_median": digits(np.median(bulk)), "ess_bulk_min": digits(bulk.min()),
                          "ess_tail_median": digits(np.median(tail)), "ess_tail_min": digits(tail.min()),
                          "ess_per_second_median": digits(np.median(bulk) / took, 3), "ess_per_second_min": digits(bulk.min() / took, 3)},
        "accuracy": digits(accuracy(y, forecast)), "lpd": digits(log_predictive_density(y, log_p, log=True)),
        "ece": digits(expected_calibration_error(y, forecast)),
        "gradient_ms": gradient_times(Z[train], data.y[train], to_white(draws.phi[0, -1], Shapes(20, 2, 3, 4), Priors())),
    }
    return {"setting": SETTING, "metrics": metrics, "provenance": {"sha256": data.sha256}}
