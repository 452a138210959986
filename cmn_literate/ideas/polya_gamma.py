# Tangled from book/ideas/polya_gamma.ipynb by tools/tangle.py; edit the notebook, not this file.
"""The Pólya-Gamma trick

The log likelihood of a coin toss is not a parabola in its logit, but it becomes one as soon as one
more random variable joins the model. That variable is Pólya-Gamma distributed, and all that
inference asks of it, its mean and a divergence, has a closed form.
"""

__all__ = ["pg_mean", "pg_var", "log_cosh_half", "pg_kl", "tilt_moments", "toss_moments"]


# book/ideas/polya_gamma.ipynb, cell polya_gamma-15
import math

import autograd.numpy as anp
import numpy as np

from cmn_literate.checks import check_not_negative

# sinh(x)/x in powers of x^2
_SINH = [1 / math.factorial(2 * m + 1) for m in range(9)]
_KL = [(m - 1) / (2 * m * (2 * m - 1)) for m in range(2, 26)]  # see eq-pg-kl-near


def _split(c, edge):
    """(|c| < edge, |c| for that branch, |c| for the other), harmless if unused."""
    c = anp.abs(c)
    near = c < edge
    return near, anp.where(near, c, 0.0), anp.where(near, edge, c)


def _even_series(coefficients, square):
    """sum_m coefficients[m] square^m, by Horner's rule."""
    total = 0.0
    for coefficient in reversed(coefficients):
        total = coefficient + total * square
    return total


# book/ideas/polya_gamma.ipynb, cell polya_gamma-16
def pg_mean(b, c):
    """E[omega] for omega ~ PG(b, c).  [eq-pg-mean]

    b (...) >= 0, c (...) of any sign, broadcast against each other -> (...)
    b / 4 at c = 0. ValueError if b is negative.
    """
    check_not_negative(b, "b")
    near, x, y = _split(c, 1.0)
    e = anp.exp(-y)
    series = _even_series(_SINH, x**2 / 4) / (4 * anp.cosh(x / 2))
    return b * anp.where(near, series, (1 - e) / (2 * y * (1 + e)))


# book/ideas/polya_gamma.ipynb, cell polya_gamma-20
def pg_var(b, c):
    """Var[omega] for omega ~ PG(b, c).  [eq-pg-var]

    b (...) >= 0, c (...) of any sign, broadcast against each other -> (...)
    b / 24 at c = 0. ValueError if b is negative.
    """
    check_not_negative(b, "b")
    near, x, y = _split(c, 1.0)
    e = anp.exp(-y)
    series = _even_series(_SINH[1:], x**2) / (4 * anp.cosh(x / 2) ** 2)
    far = (1 - e**2 - 2 * y * e) / (2 * y**3 * (1 + e) ** 2)
    return b * anp.where(near, series, far)


# book/ideas/polya_gamma.ipynb, cell polya_gamma-22
def log_cosh_half(c):
    """log cosh(c/2), no overflow, all digits near 0.  [eq-log-cosh, eq-pg-far]

    c (...) of any sign -> (...)
    """
    near, x, y = _split(c, 2.0)
    far = y / 2 + anp.log1p(anp.exp(-y)) - math.log(2.0)
    return anp.where(near, anp.log1p(2 * anp.sinh(x / 4) ** 2), far)


# book/ideas/polya_gamma.ipynb, cell polya_gamma-23
def pg_kl(b, c):
    """KL[PG(b, c) || PG(b, 0)] in nats.  [eq-pg-kl]

    b (...) >= 0, c (...) of any sign, broadcast against each other -> (...)
    0 where b = 0 or c = 0. ValueError if b is negative.
    """
    check_not_negative(b, "b")
    near, x, y = _split(c, 1.0)
    e, t2 = anp.exp(-y), anp.tanh(x / 2) ** 2
    far = log_cosh_half(y) - y / 4 * (1 - e) / (1 + e)
    return b * anp.where(near, t2**2 * _even_series(_KL, t2), far)


# book/ideas/polya_gamma.ipynb, cell polya_gamma-43
def _root_and_tanh(square, least):
    """h and tanh(h), h^2 = max(square, least); h in the memory of square."""
    h = np.maximum(square, least, out=square)
    np.sqrt(h, out=h)
    return h, np.tanh(h)


def _theta_in_place(tanh, h):
    """theta(2 h), in the memory of tanh = tanh(h); h is used up."""
    h *= 4.0
    tanh /= h
    return tanh


def tilt_moments(square):
    """E[omega] of PG(1, xi) and log cosh(xi/2), in few passes.  [eq-tilt-moments]

    square (...)    (xi/2)^2; below 0 by rounding counts as 0; used up
    -> theta (...), log_cosh (...)
    """
    h, tanh = _root_and_tanh(square, 1e-300)
    log_cosh = tanh + 1.0
    np.log(log_cosh, out=log_cosh)
    np.subtract(h, log_cosh, out=log_cosh)
    return _theta_in_place(tanh, h), log_cosh


# book/ideas/polya_gamma.ipynb, cell polya_gamma-45
def toss_moments(square, b):
    """E[omega] of PG(b, xi), and sum over coins of b log(2 cosh(xi/2)).
    [eq-toss-moments, eq-tilt-moments]

    square (J,K,B)  (xi/2)^2 of each coin; below 0 counts as 0; used up
    b (J,B)         1 if it is tossed, else 0
    -> omega (J,K,B), where 2.5e-31 stands for 0; cost (K,B)
    """
    least = 1e60 * (1 - b) + 1e-300
    h, tanh = _root_and_tanh(square, least[:, None])
    cost = np.einsum("jb,jkb->kb", b, h)
    for first in range(0, len(b), 1000):
        factors = tanh[first:first + 1000] + 1
        cost -= np.log(np.multiply.reduce(factors, initial=0.5**len(factors)))
    return _theta_in_place(tanh, h), cost
