"""Scalar functions at the working precision of mpmath, correctly rounded: each is computed with more digits than it returns."""

from functools import partial, wraps

from mpmath import mp, mpf

from sized import Sized, plain

INF = mpf("inf")


def rounded(function, cancels=0):
    """The function with 30 further bits inside, and `cancels` more for each binary place of an argument below 1."""
    @wraps(function)
    def wrapped(*arguments):
        bare = [plain(x) for x in arguments]
        small = max([0] + [-mp.mag(x) for x in bare if x and mp.isfinite(x)]) if cancels else 0
        with mp.workprec(mp.prec + 30 + cancels * small):
            value = function(*bare)
        return Sized(+value) if any(isinstance(x, Sized) for x in arguments) else +value
    return wrapped


@rounded
def log_sigmoid(t):
    if mp.isinf(t):
        return mpf(0) if t > 0 else -INF
    return -mp.log1p(mp.exp(-t)) if t > 0 else t - mp.log1p(mp.exp(t))


@rounded
def sigmoid(t):
    return 1 / (1 + mp.exp(-t)) if t > 0 else mp.exp(t) / (1 + mp.exp(t))


@partial(rounded, cancels=2)
def log_cosh_half(c):
    c = abs(c)
    return c / 2 + mp.log1p(mp.exp(-c)) - mp.log(2)


@rounded
def theta(c):
    """E[omega] of PG(1, c)."""
    return mpf(1) / 4 if c == 0 else mp.tanh(c / 2) / (2 * c)


@partial(rounded, cancels=3)
def theta_var(c):
    """Var[omega] of PG(1, c)."""
    if c == 0:
        return mpf(1) / 24
    c = abs(c)
    e = mp.exp(-c)                          # sinh c / cosh^2(c/2) without overflow
    return (2 * (1 - e * e) - 4 * c * e) / (4 * c ** 3 * (1 + e) ** 2)


@partial(rounded, cancels=4)
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


@rounded
def sqrt(x):
    return mp.sqrt(x)


def log_sum(values):
    """ln sum exp; -inf of nothing or of zeros."""
    top = max(values, default=-INF)
    if mp.isinf(top):
        return top
    total = mpf(0)
    for v in values:
        total += mp.exp(v - top) if not mp.isinf(v) else 0
    return top + mp.log(total)


def _narrow(m, v):
    """ln E sigma(psi) for m <= 0, by trapezoids in t = (psi - m)/sqrt(v).

    sigma has poles at distance pi / sqrt(v) of the real axis, the Gaussian grows like exp(r^2/2) off it: with the step
    2 pi r / (cut + r^2/2) the error is exp(-cut).  Far below 0 sigma(psi) is e^psi, which moves the peak from t = 0 to
    sqrt(v): the sum covers both.
    """
    s, cut = mp.sqrt(v), mp.prec * mp.log(2) + 5
    wide = mp.sqrt(2 * cut)
    r = min(mp.pi / s, wide)
    step = 2 * mp.pi * r / (cut + r * r / 2)
    first, last = int(-wide / step) - 1, int((s + wide) / step) + 2
    t, total = first * step, mpf(0)
    # e^-m sigma(psi) phi(t) = exp(s t - t^2/2) / (1 + exp(m + s t)): both exponentials by multiplication
    top, bottom = mp.exp(s * t - t * t / 2), mp.exp(m + s * t)
    factor, shrink, grow = mp.exp(s * step - t * step - step * step / 2), mp.exp(-step * step), mp.exp(s * step)
    for _ in range(first, last):
        total += top / (1 + bottom)
        top *= factor
        factor *= shrink
        bottom *= grow
    return m + mp.log(total * step / mp.sqrt(2 * mp.pi))


def _broad(m, v):
    """The same for large v: E sigma(psi) = E Phi((m - e)/sqrt(v)) over a logistic e, by trapezoids in e."""
    s, cut = mp.sqrt(v), mp.prec * mp.log(2) + 5
    if m < -s * mp.sqrt(2 * cut):                # less than the last digit of any sum that it is part of
        return mp.log(mp.ncdf(m / s))
    end, total = cut + (m / s) ** 2 / 2 + 3, mpf(0)
    step = 2 * mp.pi * 3 / cut
    for i in range(-int(end / step), int(end / step) + 1):
        x = mp.exp(-abs(i * step))
        total += x / (1 + x) ** 2 * mp.ncdf((m - i * step) / s)
    return mp.log(total * step)


def log_sigmoid_normal_pair(m, v):
    """ln E sigma(psi) and ln E sigma(-psi), psi ~ N(m, v)."""
    if v == 0:
        return log_sigmoid(m), log_sigmoid(-m)
    with mp.workprec(mp.prec + 20):
        low = (_broad if v > (2000 if mp.prec > 120 else 200) else _narrow)(-abs(m), v)
        high = mp.log1p(-mp.exp(low))                      # the complement of the small one
    return (+high, +low) if m > 0 else (+low, +high)
