# Tangled from book/engineering/gamma_draws.ipynb by tools/tangle.py; edit the notebook, not this file.
"""The slope of a Gamma draw

A draw from a Gamma distribution moves with the shape of the distribution in a definite way,
although it was made by rejection. One integral, with positive weight and a scale that is known,
gives the slope to eight digits from the draw and the shape alone.
"""

__all__ = ["gamma_slope", "gamma_draw", "Noise", "draw_noise"]


# book/engineering/gamma_draws.ipynb, cell gamma_draws-02
from typing import NamedTuple

import numpy as np
from autograd.tracer import getval
from scipy.special import digamma


# book/engineering/gamma_draws.ipynb, cell gamma_draws-06
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(40)


def _reach(a, x, side, nats=38.0):
    """v at which E(v) = -nats, or beyond it.  [eq-gamma-slope]"""
    drop, double = np.abs(x - a), 2 * nats
    upper = double / (drop + np.sqrt(drop**2 + double * x))
    lower = (nats / 3 + np.sqrt(nats**2 / 9 + double * x)) / x
    v = np.where(side > 0, upper, np.minimum((nats + x) / a, lower))
    for _ in range(4):
        top = np.exp(np.minimum(side * v, 700.0))
        E = side * a * v - x * (top - 1)
        v = v - (E + nats) / (side * (a - x * top))
    return v


# book/engineering/gamma_draws.ipynb, cell gamma_draws-07
def gamma_slope(a, x):
    """dx/da of a draw x of Gamma(a, 1) whose quantile is held.
    [eq-gamma-implicit, eq-gamma-slope]

    a, x > 0 (...) broadcast -> (...) > 0.  Relative error below 1e-8 for a >= 1,
    1e-4 for a >= 0.05.
    """
    a, x = np.broadcast_arrays(np.asarray(a, float), np.asarray(x, float))
    side = np.where(x >= a, 1.0, -1.0)
    reach = 0.5 * _reach(a, x, side)
    v = reach * (1 + _NODES.reshape((-1,) + (1,) * a.ndim))
    height = side * (np.log(x) - digamma(a)) + v
    height *= np.exp(side * a * v - x * np.expm1(side * v))
    return x * reach * np.tensordot(_WEIGHTS, height, 1)


# book/engineering/gamma_draws.ipynb, cell gamma_draws-13
def gamma_draw(a, g):
    """The draw g of Gamma(a, 1), which moves with a as gamma_slope says when
    autograd asks.  [eq-gamma-implicit]   a, g (...) broadcast -> g"""
    fixed = getval(a)
    return g if fixed is a else g + gamma_slope(fixed, g) * (a - fixed)


# book/engineering/gamma_draws.ipynb, cell gamma_draws-16
class Noise(NamedTuple):
    """What S particles are made of.  [eq-bb-draw]

    beta1 (S,L-1,h+1), beta0 (S,K-1,D), A (S,K,h,D), x1 (S,h,K,N)  standard normal
    g (S,K,h)  draws of Gamma(a_k, 1): not free of q, hence gamma_slope
    """
    beta1: np.ndarray
    beta0: np.ndarray
    A: np.ndarray
    x1: np.ndarray
    g: np.ndarray


def draw_noise(free, n_particles, rng):
    """Noise of n_particles particles.  [eq-bb-draw]   rng Generator -> Noise"""
    f, S = free, n_particles
    (J, m), (K, h, D), N = f.beta1_mu.shape, f.M.shape, f.logits.shape[1]
    normal, a = rng.standard_normal, np.exp(f.log_a)[:, None]
    shapes = (S, J, m), (S, K - 1, D), (S, K, h, D), (S, h, K, N)
    g = rng.standard_gamma(a, size=(S, K, h))
    return Noise(*map(normal, shapes), np.maximum(g, 1e-100))
