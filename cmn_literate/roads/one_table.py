# Tangled from book/roads/one_table.ipynb by tools/tangle.py; edit the notebook, not this file.
"""One table

Five ways of learning the same network from the same rows answer the same question,
`predict_proba`, and so they can be compared in one table: what each of them costs, and what the
reader of its probabilities gets for it.
"""

__all__ = ["Method", "Point", "Factors", "worst_rhat", "Sampled", "METHODS", "MLE", "MAP", "BBVI",
           "NUTS", "GIBBS", "training_log_likelihoods"]


# book/roads/one_table.ipynb, cell one_table-03
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cmn_literate.checks import check_count, check_rng, check_X, plain_array
from cmn_literate.inputs import encode_labels
from cmn_literate.learners import learner_options
from cmn_literate.network.latents import Parameters
from cmn_literate.engineering.quadrature import (
    predict_log_proba as predict_from_factors)
from cmn_literate.network.predict import sample_parameters
from cmn_literate.network.simulate import Theta
from cmn_literate.roads.bbvi import fit_bbvi
from cmn_literate.roads.diagnostics import (
    PosteriorDraws, convergence, draw_log_probs, predict_from_draws)
from cmn_literate.roads.gibbs import gibbs
from cmn_literate.engineering.nodes import Nodes, latent_nodes
from cmn_literate.engineering.gradients import class_log_probs
from cmn_literate.roads.mle import fit_mle, network_log_probs
from cmn_literate.roads.posterior import sample_posterior


class Method(NamedTuple):
    """A Learner that runs by itself: fit(Z, y, n_classes, settings, rng, callback)
    -> result.  [eq-table-average]"""
    fit: Callable
    predict_log_proba: Callable
    pack: Callable
    unpack: Callable
    options: dict
    steps: Callable
    objective: str = "ELBO"
    step: str = "sweep"
    advice: str = ""


# book/roads/one_table.ipynb, cell one_table-06
class Point(NamedTuple):
    """A point estimate, as the estimator keeps it.  [eq-table-average]

    theta; nodes of the latent integral, of size 0 for the deterministic network;
    trace (n_steps,) objective before each step; converged
    """
    theta: Theta
    nodes: Nodes
    trace: np.ndarray
    converged: bool

    @property
    def n_sweeps(self):
        """Steps taken."""
        return len(self.trace)


def _fit_point(Z, y, n_classes, e, rng, callback, priors=None):
    run = fit_mle(Z, y, e.n_experts, e.latent_dim, n_classes, priors=priors, rng=rng,
                  callback=callback, **learner_options(e))
    nodes = run.nodes or Nodes(np.empty((0, 1)), np.empty(0))
    return Point(run.theta, nodes, run.trace, run.converged)


def _fit_map(Z, y, n_classes, e, rng, callback):
    return _fit_point(Z, y, n_classes, e, rng, callback, e.priors)


# book/roads/one_table.ipynb, cell one_table-07
def _predict_point(point, Z):
    if not point.nodes.w.size:
        return network_log_probs(point.theta, Z)
    return class_log_probs(point.theta, Z, point.nodes)


def _pack_point(point):
    return {**point.theta._asdict(), **point.nodes._asdict(), "trace": point.trace,
            "converged": np.array(bool(point.converged))}


def _unpack_point(arrays, e):
    return Point(Theta(*(arrays[name] for name in Theta._fields)),
                 Nodes(arrays["z"], arrays["w"]), arrays["trace"],
                 bool(arrays["converged"]))


# book/roads/one_table.ipynb, cell one_table-09
class Factors(NamedTuple):
    """Factors of q, as the estimator keeps them.  [eq-table-average]

    parameters Parameters; elbo (n_steps,) bound per step; converged
    """
    parameters: Parameters
    elbo: np.ndarray
    converged: bool

    @property
    def n_sweeps(self):
        """Steps taken."""
        return len(self.elbo)


def _fit_factors(Z, y, n_classes, e, rng, callback):
    run = fit_bbvi(Z, y, e.n_experts, e.latent_dim, n_classes, priors=e.priors,
                   rng=rng, callback=callback, **learner_options(e))
    return Factors(run.parameters, run.elbo, run.converged)


def _predict_factors(factors, Z):
    return predict_from_factors(factors.parameters, Z)


def _pack_factors(factors):
    return {**factors.parameters._asdict(), "elbo": factors.elbo,
            "converged": np.array(bool(factors.converged))}


def _unpack_factors(arrays, e):
    return Factors(Parameters(*(arrays[name] for name in Parameters._fields)),
                   arrays["elbo"], bool(arrays["converged"]))


# book/roads/one_table.ipynb, cell one_table-11
def worst_rhat(draws, X, n_rows=20):
    """Largest split R-hat of the log density and of ln p of the classes at n_rows
    rows of X (N,d).  [eq-table-rhat]

    -> float; inf where it cannot be known: below 4 draws per chain, if a number is
    not finite, or if the log density or all ln p never vary
    ValueError names a bad argument.
    """
    X, n_rows = check_X(X), check_count(n_rows, "n_rows")
    if not len(X):
        raise ValueError("X: expected at least one row, got none")
    if draws.n_draws < 4 or not np.isfinite(draws.log_joint).all():
        return np.inf
    rows = np.unique(np.linspace(0, len(X) - 1, n_rows).round().astype(int))
    found = convergence(draws, X[rows])
    rhat = np.max([1.0, found["probabilities"].rhat, found["log joint"].rhat])
    return np.inf if np.isnan(rhat) else float(rhat)


# book/roads/one_table.ipynb, cell one_table-14
class Sampled(NamedTuple):
    """Draws, as the estimator keeps them.  [eq-table-average]

    draws PosteriorDraws; trace (n_draws,) log density, mean over chains;
    n_sweeps transitions made, warm-up included (after an interrupt: draws of each
    chain); rhat see worst_rhat; converged
    """
    draws: PosteriorDraws
    trace: np.ndarray
    n_sweeps: int
    rhat: float
    converged: bool


def _sampled(draws, Z, expected, steps):
    rhat = worst_rhat(draws, Z)
    whole = draws.n_draws == expected
    return Sampled(draws, draws.log_joint.mean(0), steps if whole else draws.n_draws,
                   rhat, bool(whole and rhat < 1.05))


def _fit_gibbs(Z, y, n_classes, e, rng, callback):
    options = learner_options(e)
    draws = gibbs(Z, y, e.n_experts, e.latent_dim, n_classes, e.priors, rng=rng,
                  callback=callback, **options)
    return _sampled(draws, Z, options["n_draws"], _gibbs_steps(e))


def _gibbs_steps(e):
    options = learner_options(e)
    return options["n_warmup"] + options["n_draws"] * options["thin"]


# book/roads/one_table.ipynb, cell one_table-15
def _fit_nuts(Z, y, n_classes, e, rng, callback):
    options = learner_options(e)
    draws = sample_posterior(Z, y, e.n_experts, e.latent_dim, n_classes, e.priors,
                             rng=rng, callback=callback, **options)
    return _sampled(draws, Z, options["n_draws"], _nuts_steps(e))


def _nuts_steps(e):
    options = learner_options(e)
    return options["n_chains"] * (options["n_warmup"] + options["n_draws"])


def _predict_sampled(sampled, Z):
    return predict_from_draws(sampled.draws, Z)


def _pack_sampled(sampled):
    numbers = {"n_sweeps": sampled.n_sweeps, "rhat": sampled.rhat,
               "converged": sampled.converged, "log_joint": sampled.draws.log_joint}
    return {**sampled.draws.theta._asdict(), **{k: np.array(v)
                                                for k, v in numbers.items()}}


def _unpack_sampled(arrays, e):
    theta = Theta(*(arrays[name] for name in Theta._fields))
    draws = PosteriorDraws(theta, arrays["log_joint"])
    return Sampled(draws, draws.log_joint.mean(0), int(arrays["n_sweeps"]),
                   float(arrays["rhat"]), bool(arrays["converged"]))


# book/roads/one_table.ipynb, cell one_table-17
_CLIMB = {"objective": "exact", "n_steps": 20_000, "lr": 1e-3, "n_nodes": None,
          "checkpoint": None}
_POINT = dict(predict_log_proba=_predict_point, pack=_pack_point, unpack=_unpack_point,
              options=_CLIMB, steps=lambda e: learner_options(e)["n_steps"],
              step="step", advice="raise n_steps in method_options")
_DRAWS = dict(predict_log_proba=_predict_sampled, pack=_pack_sampled,
              unpack=_unpack_sampled, objective="log density",
              advice="raise n_warmup and n_draws in method_options")
METHODS = {
    "mle": Method(_fit_point, objective="log likelihood", **_POINT),
    "map": Method(_fit_map, objective="log density", **_POINT),
    "bbvi": Method(
        _fit_factors, _predict_factors, _pack_factors, _unpack_factors,
        options={"objective": "elbo", "n_particles": 8, "n_steps": 20_000,
                 "lr": 5e-3, "checkpoint": None},
        steps=lambda e: learner_options(e)["n_steps"], step="step",
        advice="raise n_steps in method_options"),
    "nuts": Method(
        _fit_nuts, options={"n_chains": 16, "n_warmup": 800, "n_draws": 64,
                            "target": "auto", "init": "cavi", "max_depth": 10,
                            "target_accept": 0.8, "n_jobs": 1, "checkpoint": None},
        steps=_nuts_steps, step="transition", **_DRAWS),
    "gibbs": Method(
        _fit_gibbs, options={"n_chains": 4, "n_warmup": 1000, "n_draws": 1000,
                             "thin": 1, "init": "prior", "n_jobs": 1,
                             "checkpoint": None},
        steps=_gibbs_steps, step="sweep", **_DRAWS),
}
MLE, MAP, BBVI, NUTS, GIBBS = METHODS.values()


# book/roads/one_table.ipynb, cell one_table-19
def training_log_likelihoods(model, X, y, n_draws=200, rng=0):
    """ln p(y_n | x_n, Theta_s) of draws of a fitted estimator, for waic and psis_loo.
    [eq-table-average]

    model fitted CMNClassifier; X (N,d), y (N,) labels; n_draws in all, shared evenly
    by the kept starts -> (S,N) nats; None for a point estimate, which has no draws
    ValueError names a bad argument.
    """
    Z, rng = model.inputs(X), check_rng(rng)
    if plain_array(y, "y", labels=True).shape != (len(Z),):
        raise ValueError(f"y: expected one label for each of {len(Z)} rows, got "
                         f"shape {np.shape(y)}")
    _, codes = encode_labels(y, model.classes_)
    each, tables = -(-check_count(n_draws, "n_draws") // len(model.fits_)), []
    for result in model.fits_:
        if hasattr(result, "theta"):                     # a point
            return None
        if hasattr(result, "draws"):
            draws = result.draws
        else:
            theta = Theta(*sample_parameters(result.parameters, rng, each))
            theta = Theta(*(x[None] for x in theta))
            draws = PosteriorDraws(theta, np.zeros((1, each)))
        many = 256 if min(draws.shapes[1], draws.shapes[2] - 1) > 2 else None
        nodes = latent_nodes(draws.shapes, many, rng=0)
        tables.append([log_p[np.arange(len(codes)), codes]
                       for log_p in draw_log_probs(draws, Z, nodes, each)])
    return np.concatenate(tables)
