# Tangled from book/engineering/coordinates.ipynb by tools/tangle.py; edit the notebook, not this file.
r"""One vector for all parameters

All parameters $\Theta$ of a network fit into one vector of $\mathbb R^P$ without constraints, in
two ways: $\phi$, in which $\tau$ becomes $\ln\tau$, and white coordinates $u$, in which every
coefficient is $\mathcal N(0,1)$ a priori. The prior has a density in each of them, the two differ
by a Jacobian, and both have a gradient in closed form.
"""

__all__ = ["Shapes", "theta_shapes", "split_fields", "join_fields", "pack", "unpack", "to_white",
           "from_white", "log_prior_white", "log_prior", "log_prior_grad", "log_prior_white_grad",
           "white_grad"]


# book/engineering/coordinates.ipynb, cell coordinates-02
from functools import lru_cache
from math import prod
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np
from scipy.special import gammaln

from cmn_literate.network.simulate import Theta


# book/engineering/coordinates.ipynb, cell coordinates-06
class Shapes(NamedTuple):
    """Sizes of a network: n_experts K, latent_dim h, n_classes L, input_dim d.
    [eq-lik-phi]"""
    n_experts: int
    latent_dim: int
    n_classes: int
    input_dim: int

    @property
    def fields(self):
        """Shapes of beta1, beta0, A and tau."""
        K, h, L, d = self
        return (L - 1, h + 1), (K - 1, d + 1), (K, h, d + 1), (K, h)

    @property
    def n_params(self):
        """P, how many numbers a Theta holds."""
        K, h, L, d = self
        return (L - 1) * (h + 1) + (K - 1) * (d + 1) + K * h * (d + 2)

    @property
    def rank(self):
        """r = min(h, L-1), dimension of the integral over the latent vector."""
        return min(self.latent_dim, self.n_classes - 1)


def theta_shapes(theta):
    """Sizes of the network that a Theta belongs to; leading axes are ignored.
    [eq-lik-phi]   ValueError, naming the field, if the fields do not fit together.
    """
    ends = [anp.shape(part)[-n:] for part, n in zip(theta, (2, 2, 3, 2))]
    if [len(end) for end in ends] != [2, 2, 3, 2]:
        raise ValueError("theta: expected beta1, beta0, A, tau with 2, 2, 3 and 2 "
                         f"axes, got shapes {[anp.shape(part) for part in theta]}")
    (K, h, D), L = ends[2], ends[0][0] + 1
    shapes = Shapes(K, h, L, D - 1)
    for name, end, expected in zip(Theta._fields, ends, shapes.fields):
        if end != expected:
            raise ValueError(f"{name}: expected shape {expected} for K={K}, "
                             f"h={h}, L={L}, d={D - 1}, got {end}")
    return shapes


# book/engineering/coordinates.ipynb, cell coordinates-07
@lru_cache(maxsize=256)
def _cuts(shapes):
    """Where the blocks stand in a flat vector: (slice, shape) of each.  [eq-lik-phi]"""
    start, cuts = 0, []
    for shape in shapes.fields:
        cuts.append((slice(start, start + prod(shape)), shape))
        start += prod(shape)
    return cuts


def split_fields(vector, shapes):
    """A flat vector as its four blocks, values unchanged.  [eq-lik-phi]

    vector (..., P) -> beta1, beta0, A, ln tau, each with the leading axes (...)
    ValueError unless the last axis holds shapes.n_params numbers.
    """
    shapes, size = Shapes(*shapes), np.shape(vector)
    if size[-1:] != (shapes.n_params,):
        raise ValueError(f"parameter vector: expected {shapes.n_params} numbers "
                         f"for {shapes}, got shape {size}")
    return [vector[..., cut].reshape(size[:-1] + shape) for cut, shape in _cuts(shapes)]


def join_fields(blocks):
    """Inverse of split_fields.  [eq-lik-phi]   four blocks -> (..., P)"""
    lead = np.shape(blocks[3])[:-2]
    flat = [block.reshape(lead + (prod(np.shape(block)[len(lead):]),))
            for block in blocks]
    return anp.concatenate(flat, axis=-1)


# book/engineering/coordinates.ipynb, cell coordinates-08
def pack(theta):
    """Theta as one unconstrained vector [beta1, beta0, A, ln tau].  [eq-lik-phi]

    Leading axes that the four fields share are kept; differentiable -> (..., P)
    """
    theta_shapes(theta)
    return join_fields((theta[0], theta[1], theta[2], anp.log(theta[3])))


def unpack(phi, shapes):
    """Inverse of pack.  [eq-lik-phi]

    phi (..., P), shapes Shapes -> Theta; differentiable
    ValueError unless the last axis holds shapes.n_params numbers.
    """
    beta1, beta0, A, log_tau = split_fields(phi, shapes)
    return Theta(beta1, beta0, A, anp.exp(log_tau))


# book/engineering/coordinates.ipynb, cell coordinates-12
def to_white(phi, shapes, priors):
    """White coordinates: a priori every coefficient is N(0, 1).  [eq-lik-white]

    phi (..., P) -> u (..., P); differentiable
    """
    beta1, beta0, A, s = split_fields(phi, shapes)
    A = A * anp.exp(0.5 * s)[..., None] / priors.v0**0.5
    return join_fields((beta1 / priors.sigma1, beta0 / priors.sigma0, A, s))


# book/engineering/coordinates.ipynb, cell coordinates-13
def from_white(u, shapes, priors):
    """Inverse of to_white.  [eq-lik-white]   u (..., P) -> phi; differentiable"""
    beta1, beta0, A, s = split_fields(u, shapes)
    A = A * anp.exp(-0.5 * s)[..., None] * priors.v0**0.5
    return join_fields((beta1 * priors.sigma1, beta0 * priors.sigma0, A, s))


# book/engineering/coordinates.ipynb, cell coordinates-14
def log_prior_white(u, shapes, priors):
    """ln of the prior density of white coordinates.  [eq-lik-white-prior]

    u (P,) -> float, nats; differentiable
    """
    s = split_fields(u, shapes)[3]
    n_normal = np.shape(u)[-1] - np.size(s)
    constant = priors.a0 * np.log(priors.b0) - gammaln(priors.a0)
    return (-0.5 * anp.sum(u[:n_normal]**2) - 0.5 * n_normal * np.log(2 * np.pi)
            + anp.sum(priors.a0 * s - priors.b0 * anp.exp(s) + constant))


def log_prior(phi, shapes, priors):
    """ln of the prior density of phi: ln p(Theta) + sum ln tau.  [eq-lik-prior]

    Computed as {white density} x {Jacobian} [eq-lik-jacobian];
    phi (P,) -> float, nats; differentiable
    """
    K, h, L, d = shapes
    log_jacobian = (
        0.5 * (d + 1) * anp.sum(split_fields(phi, shapes)[3] - np.log(priors.v0))
        - (L - 1) * (h + 1) * np.log(priors.sigma1)
        - (K - 1) * (d + 1) * np.log(priors.sigma0))
    u = to_white(phi, shapes, priors)
    return log_prior_white(u, shapes, priors) + log_jacobian


# book/engineering/coordinates.ipynb, cell coordinates-18
def log_prior_grad(phi, shapes, priors):
    """Gradient of log_prior, plain numpy.  [eq-lik-prior-grad] phi (P,) -> (P,)"""
    beta1, beta0, A, s = split_fields(np.asarray(phi, dtype=float), shapes)
    tau = np.exp(s)
    energy = priors.b0 + (A**2).sum(-1) / (2 * priors.v0)
    return join_fields((
        -beta1 / priors.sigma1**2, -beta0 / priors.sigma0**2,
        -A * tau[..., None] / priors.v0,
        priors.a0 + A.shape[-1] / 2 - tau * energy))


def log_prior_white_grad(u, shapes, priors):
    """Gradient of log_prior_white.  [eq-lik-white-prior]   u (P,) -> (P,)"""
    slope = -np.asarray(u, dtype=float)
    s = split_fields(slope, shapes)[3]                     # a view, minus ln tau
    s[...] = priors.a0 - priors.b0 * np.exp(-s)
    return slope


# book/engineering/coordinates.ipynb, cell coordinates-19
def white_grad(phi, slope, shapes, priors):
    """Gradient in white coordinates, from the one in phi.  [eq-lik-white-grad]

    phi, slope (P,) -> (P,), plain numpy
    """
    A, s = split_fields(phi, shapes)[2:]
    beta1, beta0, A_bar, s_bar = split_fields(slope, shapes)
    scale = np.exp(-0.5 * s)[..., None] * priors.v0**0.5
    return join_fields((beta1 * priors.sigma1, beta0 * priors.sigma0,
                        A_bar * scale, s_bar - 0.5 * (A_bar * A).sum(-1)))
