"""Scalar functions at the working precision of mpmath, correctly rounded: each is computed with more digits than it returns."""

from contextlib import contextmanager
from functools import wraps

from mpmath import mp, mpf

INF = mpf("inf")


@contextmanager
def digits(*arguments):
    """Enough further bits for the cancellation that arguments near 0 bring."""
    small = max([0] + [-mp.mag(x) for x in arguments if x and mp.isfinite(x)])
    with mp.workprec(mp.prec + 30 + 6 * small):
        yield


def rounded(function):
    @wraps(function)
    def wrapped(*arguments):
        with digits(*arguments):
            value = function(*arguments)
        return +value
    return wrapped


@rounded
def log_sigmoid(t):
    if mp.isinf(t):
        return mpf(0) if t > 0 else -INF
    return -mp.log1p(mp.exp(-t)) if t > 0 else t - mp.log1p(mp.exp(t))


@rounded
def sigmoid(t):
    return 1 / (1 + mp.exp(-t)) if t > 0 else mp.exp(t) / (1 + mp.exp(t))


@rounded
def log_cosh_half(c):
    c = abs(c)
    return c / 2 + mp.log1p(mp.exp(-c)) - mp.log(2)


@rounded
def theta(c):
    """E[omega] of PG(1, c)."""
    return mpf(1) / 4 if c == 0 else mp.tanh(c / 2) / (2 * c)


@rounded
def theta_var(c):
    """Var[omega] of PG(1, c)."""
    if c == 0:
        return mpf(1) / 24
    c = abs(c)
    e = mp.exp(-c)                          # sinh c / cosh^2(c/2) without overflow
    return (2 * (1 - e * e) - 4 * c * e) / (4 * c ** 3 * (1 + e) ** 2)


@rounded
def tilt_kl(c):
    """KL[PG(1, c) || PG(1, 0)]."""
    return mpf(0) if c == 0 else log_cosh_half(c) - c / 4 * mp.tanh(c / 2)


@rounded
def digamma(a):
    return mp.digamma(a)


@rounded
def log_gamma(a):
    return mp.loggamma(a)


@rounded
def log(x):
    return -INF if x == 0 else mp.log(x)


def log_sum(values):
    """ln sum exp; -inf of nothing or of zeros."""
    top = max(values, default=-INF)
    if mp.isinf(top):
        return top
    total = mpf(0)
    for v in values:
        total += mp.exp(v - top) if not mp.isinf(v) else 0
    return top + mp.log(total)


@rounded
def log_sigmoid_normal(m, v):
    """ln E sigma(psi), psi ~ N(m, v), by trapezoids in t = (psi - m)/sqrt(v).

    sigma has poles at distance pi / sqrt(v) of the real axis, the Gaussian grows like exp(r^2/2) off it: with step
    2 pi r / (cut + r^2/2) the error is exp(-cut).  For m < 0 sigma(psi) = e^psi sigma(-psi) moves the peak to m + v:
    the sum runs over both places.
    """
    if v == 0:
        return log_sigmoid(m)
    if m > 0:                                             # the complement is the small one
        return mp.log1p(-mp.exp(log_sigmoid_normal(-m, v)))
    s = mp.sqrt(v)
    cut = mp.prec * mp.log(2) + 5
    wide = mp.sqrt(2 * cut)
    r = min(mp.pi / s, wide)
    step = 2 * mp.pi * r / (cut + r * r / 2)
    first, last = int(-wide / step) - 1, int((s + wide) / step) + 1
    total = mpf(0)
    for i in range(first, last + 1):
        t = i * step
        psi = m + s * t
        # the e^m in front keeps everything of order one
        total += mp.exp(psi - m - t * t / 2) / (1 + mp.exp(psi))
    return m + mp.log(total * step / mp.sqrt(2 * mp.pi))
