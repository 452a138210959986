"""Scalar functions in 50 digits: sticks, Polya-Gamma moments, one-dimensional Gaussian-sigmoid integrals."""
from functools import lru_cache

import mpmath as mp
import numpy as np

DIGITS = 50


def digits_for(xi):
    """Working digits that leave DIGITS after the cancellation of small tilts."""
    return DIGITS if xi == 0 or abs(xi) > 1 else DIGITS + int(4 * -np.log10(abs(float(xi)))) + 1


def exact(x):
    """The very number the float64 holds, as an mpf."""
    return mp.mpf(float(x))


def sigmoid(x):
    """1/(1+e^-x) for an mpf; no cancellation for either sign."""
    return 1 / (1 + mp.exp(-x)) if x >= 0 else mp.exp(x) / (1 + mp.exp(x))


# ---- sticks -----------------------------------------------------------------------------------------------------------
def stick_log_probs(psi):
    """ln p(c | psi) for c = 0..J: walk along the stick, break off what is taken, in logarithms of 50-digit numbers."""
    with mp.workdps(DIGITS):
        left, out = mp.mpf(0), []                                # ln of what is left
        for p in np.ravel(psi):
            out.append(left + mp.log(sigmoid(exact(p))))
            left += mp.log(sigmoid(-exact(p)))
        return np.array([float(v) for v in [*out, left]])


def stick_logits(log_probs):
    """The inverse: psi_j = ln p_j - ln(p_{j+1} + ... + p_J)."""
    with mp.workdps(DIGITS):
        lp = [exact(v) for v in np.ravel(log_probs)]
        return np.array([float(lp[j] - mp.log(sum(mp.exp(v) for v in lp[j + 1:]))) for j in range(len(lp) - 1)])


def stick_b(j, c):
    """b_{j,c}: did the walk of a point of category c reach stick j?"""
    return 1.0 if j <= c else 0.0


def stick_kappa(j, c):
    return (1.0 if j == c else 0.0) - stick_b(j, c) / 2


def stick_counts(weights):
    """b and kappa of soft labels, as averages of the hard ones."""
    n_categories = len(weights)
    b, kappa = np.zeros(n_categories - 1), np.zeros(n_categories - 1)
    for j in range(n_categories - 1):
        for c in range(n_categories):
            b[j] += weights[c] * stick_b(j, c)
            kappa[j] += weights[c] * stick_kappa(j, c)
    return b, kappa


# ---- Polya-Gamma ------------------------------------------------------------------------------------------------------
@lru_cache(maxsize=100_000)
def theta(xi):
    """E omega for PG(1, xi)."""
    with mp.workdps(DIGITS):
        x = exact(xi)
        return 0.25 if x == 0 else float(mp.tanh(x / 2) / (2 * x))


@lru_cache(maxsize=100_000)
def log_cosh_half(xi):
    with mp.workdps(digits_for(xi)):
        x = abs(exact(xi))
        return float(x / 2 + mp.log((1 + mp.exp(-x)) / 2))


@lru_cache(maxsize=100_000)
def pg_kl_one(xi):
    """KL[PG(1, xi) || PG(1, 0)] = E ln(dPG(1,xi)/dPG(1,0)) = ln cosh(xi/2) - E omega xi^2/2."""
    with mp.workdps(digits_for(xi)):
        x = abs(exact(xi))
        return float(x / 2 + mp.log((1 + mp.exp(-x)) / 2) - x / 4 * mp.tanh(x / 2))


def pg_mean(b, c):
    return float(b) * theta(float(c))


def pg_var(b, c):
    with mp.workdps(digits_for(c)):
        x = exact(c)
        if x == 0:
            return float(b) / 24
        return float(exact(b) * (mp.sinh(x) - x) / (4 * x**3 * mp.cosh(x / 2) ** 2))


def pg_kl(b, c):
    return float(b) * pg_kl_one(float(c))


def pg_moments_by_summation(b, c):
    """Mean and variance straight from omega = sum_m g_m / (2 pi^2 [(m-1/2)^2 + c^2/(4 pi^2)]), g_m ~ Gamma(b, 1)."""
    with mp.workdps(30):
        b, c = exact(b), exact(c)
        rate = lambda m: 2 * mp.pi**2 * ((m - mp.mpf(1) / 2) ** 2 + c**2 / (4 * mp.pi**2))
        return float(mp.nsum(lambda m: b / rate(m), [1, mp.inf])), float(mp.nsum(lambda m: b / rate(m) ** 2, [1, mp.inf]))


def pg_draw(xi, rng, terms=100):
    """One draw of PG(1, xi) for every entry of xi, from the series; the tail is put at its mean, so the mean is exact."""
    xi = np.asarray(xi, float)
    m = np.arange(1, terms + 1) - 0.5
    rates = 2 * np.pi**2 * (m**2 + (xi[..., None] / (2 * np.pi)) ** 2)
    tail = np.vectorize(lambda v: theta(float(v)), otypes=[float])(xi) - (1 / rates).sum(-1)
    return (rng.standard_exponential(rates.shape) / rates).sum(-1) + tail


# ---- one-dimensional integrals ----------------------------------------------------------------------------------------
@lru_cache(maxsize=10_000)
def mean_sigmoid(m, v):
    """E sigma(psi), psi ~ N(m, v), by 25-digit quadrature in the standardised variable, cut where the sigmoid bends."""
    with mp.workdps(25):
        m, s = exact(m), mp.sqrt(exact(v))
        if s == 0:
            return float(sigmoid(m))
        bend = -m / s
        cuts = sorted({mp.mpf(-14), mp.mpf(14), mp.mpf(0), *(c for c in (bend - 8 / s, bend, bend + 8 / s) if -14 < c < 14)})
        density = lambda t: mp.exp(-t * t / 2) / mp.sqrt(2 * mp.pi)
        return float(mp.quad(lambda t: density(t) * sigmoid(m + s * t), cuts))
