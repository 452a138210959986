# Tangled from book/roads/one_table.ipynb by tools/tangle.py; edit the notebook, not this file.
"""One table

Five ways of learning the same network from the same rows answer the same question,
`predict_proba`, and so they can be compared in one table: what each of them costs, and what the
reader of its probabilities gets for it.
"""

__all__ = ["Factors", "BBVI", "training_log_likelihoods"]


# book/roads/one_table.ipynb, cell one_table-03
from typing import NamedTuple

import numpy as np

from cmn_literate.checks import check_count, check_rng, plain_array
from cmn_literate.engineering.nodes import latent_nodes
from cmn_literate.engineering.quadrature import (
    predict_log_proba as predict_from_factors)
from cmn_literate.inputs import encode_labels
from cmn_literate.learners import Learner, learner_options
from cmn_literate.network.latents import Parameters
from cmn_literate.network.predict import sample_parameters
from cmn_literate.network.simulate import Theta
from cmn_literate.roads.bbvi import bbvi_work
from cmn_literate.roads.diagnostics import PosteriorDraws, draw_log_probs


# book/roads/one_table.ipynb, cell one_table-06
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


def _begin(Z, y, n_classes, settings, rng):
    s, options = settings, learner_options(settings)
    del options["checkpoint"]
    work = bbvi_work(Z, y, s.n_experts, s.latent_dim, n_classes, priors=s.priors,
                     rng=rng, **options)

    def finish(run):
        end = work.finish(run)
        return Factors(end.parameters, end.elbo, end.converged)

    return work._replace(finish=finish)


# book/roads/one_table.ipynb, cell one_table-07
def _predict(factors, Z):
    return predict_from_factors(factors.parameters, Z)


def _pack(factors):
    return {**factors.parameters._asdict(), "elbo": factors.elbo,
            "converged": np.array(bool(factors.converged))}


def _unpack(arrays, settings):
    return Factors(Parameters(*(arrays[name] for name in Parameters._fields)),
                   arrays["elbo"], bool(arrays["converged"]))


BBVI = Learner(
    _begin, _predict, _pack, _unpack,
    options={"objective": "elbo", "n_particles": 8, "n_steps": 20_000, "lr": 5e-3,
             "checkpoint": None},
    steps=lambda settings: learner_options(settings)["n_steps"],
    objective="ELBO", step="step", advice="raise n_steps in method_options")


# book/roads/one_table.ipynb, cell one_table-09
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
