# Tangled from book/roads/one_table.ipynb by tools/tangle.py; edit the notebook, not this file.
"""One table

Five methods, one of them with two likelihoods, learn from the same rows and answer the same
question, `predict_proba`, and so they can be compared in one table of six rows: what each of them
costs, and what the reader of its probabilities gets for it.
"""

__all__ = ["training_log_likelihoods"]


# book/roads/one_table.ipynb, cell one_table-02
import numpy as np

from cmn_literate.checks import check_count, check_rng, plain_array
from cmn_literate.engineering.nodes import latent_nodes
from cmn_literate.inputs import encode_labels
from cmn_literate.learners import members_of
from cmn_literate.network.predict import sample_parameters
from cmn_literate.network.simulate import Theta
from cmn_literate.roads.diagnostics import PosteriorDraws, draw_log_probs


# book/roads/one_table.ipynb, cell one_table-12
def training_log_likelihoods(model, X, y, n_draws=200, rng=0):
    """ln p(y_n | x_n, Theta_s) of draws of a fitted estimator, for waic and psis_loo.
    [eq-table-average]

    model fitted CMNClassifier; X (N,d), y (N,) labels; n_draws in all, shared evenly
    by the kept fits -> (S,N) nats; None for a point estimate, which has no draws
    ValueError names a bad argument.
    """
    Z, rng = model.inputs(X), check_rng(rng)
    if plain_array(y, "y", labels=True).shape != (len(Z),):
        raise ValueError(f"y: expected one label for each of {len(Z)} rows, got "
                         f"shape {np.shape(y)}")
    _, codes = encode_labels(y, model.classes_)
    fits = members_of(model.fits_)
    each, tables = -(-check_count(n_draws, "n_draws") // len(fits)), []
    for result in fits:
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
