"""The Gibbs sampler at length: what its chapter quotes.

Four parts: iris at the paper's setting (R-hat, ESS, seconds), with and without the two steps that speed the chain up;
Geweke's test and simulation-based calibration, each for the sampler and for three planted faults; milliseconds per sweep.
Seconds are processor seconds of one core.
"""

import time
from contextlib import ExitStack
from typing import NamedTuple
from unittest import mock

import numpy as np
from scipy.special import digamma
from scipy.stats import chi2

from cmn_literate.ideas.expfam import pad
from cmn_literate.ideas.logistic import coefficients_from_sums
from cmn_literate.network.experts import weighted_gram
from cmn_literate.network.simulate import Priors, sample_data, sample_sticks, sample_theta
from cmn_literate.roads import gibbs as module
from cmn_literate.roads.diagnostics import draw_log_probs, ess_bulk, ess_tail, mcse_mean, split_rhat
from cmn_literate.engineering.gradients import class_log_probs
from cmn_literate.engineering.nodes import latent_nodes
from cmn_literate.engineering.coordinates import pack, to_white
from cmn_literate.use.datasets import stratified_split
from experiments.run import load_set

TAME = Priors(v0=1.0, a0=3.0, b0=3.0, sigma0=1.0, sigma1=1.0)
TIMED = ("seconds", "ms_per_sweep")


class Cell(NamedTuple):
    """One of the parts speed, iris and tests, and what is run of it."""
    part: str
    name: str


# ---- three faults

_coefficients, _omega = module.draw_coefficients, module.draw_omega


def no_prior(choice, inputs, omega, sigma, rng, mean=0.0):
    """beta as if its prior were flat."""
    return _coefficients(choice, inputs, omega, 100 * sigma, rng)


def wrong_kappa(choice, inputs, omega, sigma, rng, mean=0.0):
    """kappa without the minus one half of the coins that were passed."""
    kappa = 0.5 * np.eye(omega.shape[1] + 1)[choice, :-1]
    mu, S, _ = coefficients_from_sums(weighted_gram(inputs, omega), kappa.T @ pad(inputs), sigma)
    return module.draw_gaussian(mu, S, rng)


def wrong_shape(*args):
    """PG(2, psi) in the place of PG(1, psi)."""
    return _omega(*args) + _omega(*args)


FAULTS = {"none": {}, "missing prior": {"draw_coefficients": no_prior}, "wrong kappa": {"draw_coefficients": wrong_kappa},
          "wrong shape": {"draw_omega": wrong_shape}}


def planted(changes):
    """The module with some of its functions replaced."""
    stack = ExitStack()
    for name, function in changes.items():
        stack.enter_context(mock.patch.object(module, name, function))
    return stack


# ---- two tests that need no posterior

def geweke(n_sweeps, seed, K=2, h=2, L=3, N=4, d=1):
    """z-scores of the successive-conditional simulator against moments of the prior."""
    rng, X = np.random.default_rng(seed), np.random.default_rng(0).normal(size=(N, d))
    theta = sample_theta(TAME, K, h, L, d, rng)
    z, x1, y = sample_data(theta, X, rng)
    state, rows = module.GibbsState(theta, z, x1, None, None), []
    for _ in range(n_sweeps):
        state = module.gibbs_sweep(state, X, y, TAME, rng)
        y = sample_sticks(pad(state.x1) @ state.theta.beta1.T, rng)
        u = to_white(pack(state.theta), (K, h, L, d), TAME)
        w, log_tau = u[:-K * h], u[-K * h:] - digamma(TAME.a0) + np.log(TAME.b0)
        classes = [(y == c).mean() - 0.5 ** (c + 1) for c in range(L - 1)]
        rows.append(np.concatenate([w, w**2 - 1, log_tau, classes]))
    rows = np.array(rows).reshape(4, -1, len(rows[0]))
    return rows.mean((0, 1)) / mcse_mean(rows)


def sbc(replicates, seed, n_ranks=15, thin=4, warmup=30):
    """Ranks (replicates, 4) of the true value among n_ranks draws of its posterior."""
    X, at, nodes = np.random.default_rng(1).normal(size=(8, 1)), np.array([[0.5]]), latent_nodes((2, 1, 2, 1))

    def summary(theta):
        log_p = class_log_probs(theta, at, nodes)[0]
        return np.array([abs(theta.beta1[0, 0]), theta.beta0[0, 0], np.log(theta.tau[0, 0]), log_p[0] - log_p[1]])

    ranks = []
    for r in range(replicates):
        rng = np.random.default_rng([seed, r])
        truth = sample_theta(TAME, 2, 1, 2, 1, rng)
        y = sample_data(truth, X, rng).y
        state, draws = module.start_state(X, y, (2, 1, 2), TAME, rng), []
        for sweep in range(1, warmup + n_ranks * thin + 1):
            state = module.gibbs_sweep(state, X, y, TAME, rng)
            if sweep > warmup and (sweep - warmup) % thin == 0:
                draws.append(summary(state.theta))
        ranks.append((np.array(draws) < summary(truth)).sum(0))
    return np.array(ranks)


def one_test(name):
    """Both tests with that fault planted."""
    with planted(FAULTS[name]):
        z = geweke(10_000 if name == "none" else 1500, seed=0)
        ranks = sbc(240 if name == "none" else 80, seed=1)
    counts = np.array([np.bincount(r // 2, minlength=8) for r in ranks.T])
    expected = len(ranks) / 8
    p = chi2.sf(((counts - expected) ** 2 / expected).sum(1), 7)
    return {"geweke_largest_z": round(float(abs(z).max()), 2), "geweke_functions": len(z),
            "sbc_replicates": len(ranks), "sbc_counts": counts.tolist(), "sbc_p": [float(f"{v:.3g}") for v in p]}


# ---- iris

def iris(changes, n_warmup, n_draws, thin, init="prior", data_home=None):
    """A long run on iris: how it mixes, and how its draws predict."""
    data = load_set("iris", data_home)
    train, test = stratified_split(data.y, 100, 50, np.random.default_rng(0))
    centre, scale = data.X[train].mean(0), data.X[train].std(0)
    X, y, X_test, y_test = (data.X[train] - centre) / scale, data.y[train], (data.X[test] - centre) / scale, data.y[test]
    start = time.process_time()
    with planted(changes):
        draws = module.gibbs(X, y, n_experts=20, n_classes=3, n_chains=4, n_warmup=n_warmup, n_draws=n_draws, thin=thin,
                             rng=0, init=init)
    seconds = time.process_time() - start
    log_p = np.stack(list(draw_log_probs(draws, np.concatenate([X_test, X]), latent_nodes(draws.shapes, 14))))
    log_p = log_p.reshape(4, n_draws, 150, 3)
    p = np.exp(log_p[:, :, :50])
    true = p[:, :, np.arange(50), y_test]
    fit = log_p[:, :, 50 + np.arange(100), y].sum(-1)
    mean = p.mean((0, 1))
    row = {"seconds": round(seconds, 1), "accuracy": round(float((mean.argmax(1) == y_test).mean()), 4),
           "lpd": round(float(np.log(mean[np.arange(50), y_test]).mean()), 4),
           "occupied": round(float(draws.stats["occupied"].mean()), 2),
           "occupied_by_chain": np.round(draws.stats["occupied"].mean(1), 2).tolist(),
           "occupied_rhat": round(float(split_rhat(draws.stats["occupied"].astype(float))), 3)}
    for what, value in (("log_joint", draws.log_joint), ("train_log_likelihood", fit), ("predictive", true)):
        bulk, tail, rhat = ess_bulk(value), ess_tail(value), split_rhat(value)
        row[what] = {"mean": round(float(value.mean()), 3), "rhat": round(float(np.max(rhat)), 3),
                     "ess_bulk": round(float(np.min(bulk))), "ess_tail": round(float(np.min(tail))),
                     "ess_bulk_per_second": round(float(np.min(bulk)) / seconds, 2)}
    row["predictive"]["ess_bulk_median"] = round(float(np.median(ess_bulk(true))))
    return row


def keep_maps(X, z, theta, *args):
    return theta.A


def keep_axes(theta, x1, *args):
    return theta, x1


def sweep_time(N, d, K, h, L):
    """Median milliseconds of a sweep on a problem of that size."""
    rng = np.random.default_rng(0)
    X, truth = rng.normal(size=(N, d)), sample_theta(Priors(), K, h, L, d, rng)
    y = sample_data(truth, X, rng).y
    state = module.start_state(X, y, (K, h, L), Priors(), rng)
    batches = []
    for _ in range(12):
        start = time.process_time()
        for _ in range(50):
            state = module.gibbs_sweep(state, X, y, Priors(), rng)
        batches.append((time.process_time() - start) / 50)
    return round(1e3 * float(np.median(batches[2:])), 2)


LONG, SHORT = {"n_warmup": 500, "n_draws": 500, "thin": 8}, {"n_warmup": 250, "n_draws": 250, "thin": 4}
NO_AXES, NO_MAPS = {"draw_axes": keep_axes}, {"draw_maps": keep_maps}
IRIS = {"all steps": ({}, LONG, "prior"), "all steps, start by CAVI": ({}, LONG, "cavi"), "all steps, short": ({}, SHORT, "prior"),
        "no draw_axes": (NO_AXES, SHORT, "prior"), "no draw_maps": (NO_MAPS, SHORT, "prior"),
        "neither": (NO_AXES | NO_MAPS, SHORT, "prior")}
SPEED = {"400 x 2": (400, 2, 10, 4, 5), "100 x 4": (100, 4, 20, 2, 3), "4 x 1": (4, 1, 2, 1, 2)}


def plan():
    return [Cell(part, name) for part, names in (("speed", SPEED), ("iris", IRIS), ("tests", FAULTS)) for name in names]


def run(cell, records=None, data_home=None, models=None):
    if cell.part == "speed":
        return {"setting": dict(zip("NdKhL", SPEED[cell.name])), "metrics": {"ms_per_sweep": sweep_time(*SPEED[cell.name])}}
    if cell.part == "tests":
        return {"setting": {}, "metrics": one_test(cell.name)}
    changes, settings, init = IRIS[cell.name]
    return {"setting": {"init": init, "chains": 4, **settings, "seed": 0}, "metrics": iris(changes, init=init, data_home=data_home, **settings)}
