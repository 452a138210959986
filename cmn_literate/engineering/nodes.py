# Tangled from book/engineering/nodes.ipynb by tools/tangle.py; edit the notebook, not this file.
r"""Few dimensions, few nodes

A class sees the latent vector through $L-1$ logits only. So given the expert, the integral of the
likelihood has dimension $\min(h, L-1)$ instead of $h$, the noise of the logits is one linear map
for all rows, and where logits are moderate 32 fixed nodes in one dimension, or 20 per coordinate
in two, give six digits.
"""

__all__ = ["mean_maps", "spread_maps", "Nodes", "latent_nodes"]


# book/engineering/nodes.ipynb, cell nodes-02
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np
from scipy.special import ndtri

from cmn_literate.checks import check_count, is_seed
from cmn_literate.engineering.coordinates import Shapes
from cmn_literate.engineering.quadrature import grid_rule, smoothstep_rule


# book/engineering/nodes.ipynb, cell nodes-06
def mean_maps(theta):
    """W_k = B A_k + c e^T: mean of the output logits as a linear map of x~.
    [eq-lik-maps]   theta Theta -> (L-1, K, d+1); differentiable"""
    weights, bias = theta.beta1[:, :-1], theta.beta1[:, -1]
    last = np.eye(anp.shape(theta.A)[-1])[-1]
    return anp.einsum("ji,kid->jkd", weights, theta.A) + bias[:, None, None] * last


def spread_maps(theta):
    """C_k: the noise of the output logits as a linear map of r normal numbers.
    [eq-lik-maps, eq-lik-root]   theta Theta -> (L-1, K, r); differentiable"""
    weights = theta.beta1[:, :-1]
    J, h = anp.shape(weights)
    if h <= J:
        return weights[:, None, :] / anp.sqrt(theta.tau)
    cov = anp.einsum("ji,ki,li->kjl", weights, 1 / theta.tau, weights)
    if J == 1:
        return anp.transpose(anp.sqrt(cov + 1e-300), (1, 0, 2))
    trace = anp.dot(1 / theta.tau, anp.sum(weights**2, 0))[:, None, None]
    root = anp.linalg.cholesky(cov + (1e-13 * trace + 1e-300) * np.eye(J))
    return anp.transpose(root, (1, 0, 2))


# book/engineering/nodes.ipynb, cell nodes-16
class Nodes(NamedTuple):
    """Nodes z (Q, r) and weights w (Q,) for a mean over N(0, I_r); the weights are
    positive and add up to 1.  [eq-lik-nodes]"""
    z: np.ndarray
    w: np.ndarray


def latent_nodes(shapes, n_nodes=None, rng=None):
    """Nodes for the latent integral of a network, r = min(h, L-1) dimensions.
    [eq-lik-nodes, eq-lik-simulated]

    r = 1   n_nodes (32) smoothstep points: error 1e-6 up to sharpness 5
    r = 2   a grid, n_nodes (20) per coordinate: error 1e-7 up to sharpness 3
    r > 2   n_nodes (64, a power of 2) scrambled Sobol points, common to all rows,
            experts and calls; rng, a seed or a Generator, has to be given
    Sharpness: standard deviation of an output logit given the expert.
    """
    r = Shapes(*shapes).rank
    if r <= 2:
        n = {1: 32, 2: 20}[r] if n_nodes is None else n_nodes
        rule = smoothstep_rule(check_count(n, "n_nodes", 3))
        return Nodes(*grid_rule([rule] * r))
    n = check_count(64 if n_nodes is None else n_nodes, "n_nodes")
    if n & (n - 1) or not is_seed(rng):
        raise ValueError("n_nodes, rng: expected a power of 2 and a seed >= 0 or "
                         f"a Generator for {r} dimensions, got {n} and {rng!r}")
    from scipy.stats import qmc                  # here: it is slow to import
    sobol = qmc.Sobol(r, rng=np.random.default_rng(rng))
    cube = sobol.random_base2(n.bit_length() - 1) + 0.5**31       # never 0
    return Nodes(ndtri(cube), np.full(n, 1 / n))
