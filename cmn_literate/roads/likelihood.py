# Tangled from book/roads/likelihood.ipynb by tools/tangle.py; edit the notebook, not this file.
r"""One log likelihood

Only one number deserves the name "log likelihood" of the network: the logarithm of the probability
of the labels, with the experts summed and the latent vectors integrated out. It has an integral of
dimension $\min(h, L-1)$ at most, and it has an exact gradient.
"""

__all__ = ["log_likelihood", "explicit_log_joint", "log_posterior"]


# book/roads/likelihood.ipynb, cell likelihood-02
import autograd.numpy as anp
import numpy as np

from cmn_literate.road_checks import check_data
from cmn_literate.checks import check_X, check_y
from cmn_literate.engineering.coordinates import (
    Shapes, from_white, log_prior_white, theta_shapes, unpack)
from cmn_literate.engineering.nodes import mean_maps, spread_maps
from cmn_literate.ideas.expfam import pad
from cmn_literate.ideas.stick_breaking import stick_log_probs
from cmn_literate.special import logsumexp


# book/roads/likelihood.ipynb, cell likelihood-11
def log_likelihood(theta, X, y, nodes):
    """ln p(y_n | x_n, Theta) of every row, nats.  [eq-lik, eq-lik-nodes]

    theta Theta, X (N,d), y (N,) classes from 0, nodes Nodes -> (N,)
    Differentiable by autograd in theta; holds N x K x Q x L numbers.
    """
    shapes = theta_shapes(theta)
    X, y, z, w = check_data(X, y, shapes, nodes)
    Xt, L = pad(X), shapes.n_classes
    mean = anp.einsum("jkd,nd->nkj", mean_maps(theta), Xt)
    noise = anp.einsum("jkr,qr->kqj", spread_maps(theta), z)
    log_probs = stick_log_probs(mean[:, :, None] + noise)          # (N,K,Q,L)
    seen = anp.sum(log_probs * np.eye(L)[y][:, None, None], -1)
    log_gate = stick_log_probs(anp.dot(Xt, anp.transpose(theta.beta0)))
    return logsumexp(log_gate[:, :, None] + np.log(w) + seen, axis=(1, 2))


# book/roads/likelihood.ipynb, cell likelihood-20
def explicit_log_joint(q, X, y, shapes, priors):
    """ln p(u, eps, y | X), nats: one eps_n for all experts.
    [eq-lik-explicit, eq-lik-joint]

    q = [u (P,), eps (N h,)] -> float; differentiable
    """
    shapes = Shapes(*shapes)
    h, L, P = shapes.latent_dim, shapes.n_classes, shapes.n_params
    X = check_X(X, n_features=shapes.input_dim)
    y, Xt, u = check_y(y, len(X), L), pad(X), q[:P]
    theta = unpack(from_white(u, shapes, priors), shapes)
    eps = anp.reshape(q[P:], (len(X), 1, h))
    x1 = anp.einsum("kid,nd->nki", theta.A, Xt) + eps / anp.sqrt(theta.tau)
    psi = anp.dot(x1, anp.transpose(theta.beta1[:, :-1])) + theta.beta1[:, -1]
    seen = anp.sum(stick_log_probs(psi) * np.eye(L)[y][:, None], -1)
    log_gate = stick_log_probs(anp.dot(Xt, anp.transpose(theta.beta0)))
    normal = -0.5 * anp.sum(eps**2) - 0.5 * h * len(X) * np.log(2 * np.pi)
    return (anp.sum(logsumexp(log_gate + seen, axis=1)) + normal
            + log_prior_white(u, shapes, priors))


# book/roads/likelihood.ipynb, cell likelihood-23
def log_posterior(u, X, y, shapes, priors, nodes, count=1.0):
    """Log posterior density of u up to the evidence, nats.  [eq-lik-posterior]

    u (P,) white coordinates, X (N,d), y (N,), nodes Nodes, count (N,) how often each
    row counts, or a number -> float; differentiable
    """
    theta = unpack(from_white(u, shapes, priors), shapes)
    return (anp.sum(count * log_likelihood(theta, X, y, nodes))
            + log_prior_white(u, shapes, priors))
