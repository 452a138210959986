# Tangled from book/engineering/gamma_draws.ipynb by tools/tangle.py; edit the notebook, not this file.
"""The slope of a Gamma draw

A draw from a Gamma distribution moves with the shape of the distribution in a definite way,
although it was made by throwing darts. One integral, with positive weight and a scale that is
known, gives the slope to eight digits from the draw and the shape alone.
"""

__all__ = ["gamma_slope", "gamma_draw"]


# book/engineering/gamma_draws.ipynb, cell gamma_draws-02
import numpy as np
from autograd.tracer import getval
from scipy.special import digamma


# book/engineering/gamma_draws.ipynb, cell gamma_draws-05
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


# book/engineering/gamma_draws.ipynb, cell gamma_draws-07
def gamma_draw(a, g):
    """The draw g of Gamma(a, 1), which moves with a as gamma_slope says when
    autograd asks.  [eq-gamma-implicit]   a, g (...) broadcast -> g"""
    fixed = getval(a)
    return g if fixed is a else g + gamma_slope(fixed, g) * (a - fixed)
