"""Divergences and entropies by their definition E_q[ln q - ln p], with rules that are exact for the integrand at hand.

ln of a Gaussian density is quadratic, so 2D symmetric points give its mean under another Gaussian exactly.
A row's divergence given tau is linear in tau, so any rule with the right mean averages it exactly over a Gamma.
"""
import mpmath as mp
import numpy as np
from scipy.stats import multivariate_normal

from .special import DIGITS, exact


def symmetric_points(mu, S):
    """2D equally weighted points whose mean is mu and whose covariance is S."""
    D = len(mu)
    root = np.linalg.cholesky(S)
    points = []
    for i in range(D):
        points.append(mu + np.sqrt(D) * root[:, i])
        points.append(mu - np.sqrt(D) * root[:, i])
    return points


def log_normal(x, mu, S):
    """ln N(x; mu, S), dense."""
    return multivariate_normal(mu, S, allow_singular=False).logpdf(x)


def log_det(S):
    """From the determinant itself, in 50 digits."""
    with mp.workdps(DIGITS):
        return float(mp.log(mp.det(mp.matrix([[exact(v) for v in row] for row in S]))))


def inverse(S):
    with mp.workdps(DIGITS):
        inv = mp.inverse(mp.matrix([[exact(v) for v in row] for row in S]))
        return np.array([[float(inv[i, j]) for j in range(inv.cols)] for i in range(inv.rows)])


def gaussian_entropy(S):
    mu = np.zeros(len(S))
    return -float(np.mean(log_normal(symmetric_points(mu, S), mu, S)))


def gaussian_kl_between(mu, S, mu0, S0):
    """KL[N(mu, S) || N(mu0, S0)] by definition."""
    points = symmetric_points(mu, S)
    return float(np.mean(log_normal(points, mu, S) - log_normal(points, mu0, S0)))


def gaussian_kl(mu, S, sigma):
    """KL[N(mu, S) || N(0, sigma^2 I)]."""
    return gaussian_kl_between(mu, S, np.zeros(len(mu)), sigma**2 * np.eye(len(mu)))


def second_moment(mu, S):
    out = np.zeros_like(S)
    for x in symmetric_points(mu, S):
        out += np.outer(x, x) / (2 * len(mu))
    return out


def padded_second_moment(mu, S):
    out = np.zeros((len(mu) + 1, len(mu) + 1))
    for x in symmetric_points(mu, S):
        x1 = np.append(x, 1.0)
        out += np.outer(x1, x1) / (2 * len(mu))
    return out


def gamma_log_density(t, a, b):
    """ln Gamma(t; shape a, rate b) for mpf arguments."""
    return a * mp.log(b) - mp.loggamma(a) + (a - 1) * mp.log(t) - b * t


def gamma_expectation(f, a, b):
    """E f(tau), tau ~ Gamma(a, rate b), by quadrature in u = ln tau."""
    with mp.workdps(25):
        a, b = exact(a), exact(b)
        centre, width = mp.log(a / b), 1 / mp.sqrt(a)
        g = lambda u: mp.exp(gamma_log_density(mp.exp(u), a, b) + u) * f(mp.exp(u))
        cuts = [centre + width * c for c in (-60, -30, -15, -7, -3, 0, 2, 4, 8)]
        return float(mp.quad(g, cuts))


def gamma_mean_log(a, b):
    with mp.workdps(DIGITS):
        return float(mp.digamma(exact(a)) - mp.log(exact(b)))


def gamma_entropy(a, b):
    with mp.workdps(DIGITS):
        a, b = exact(a), exact(b)
        return float(a - mp.log(b) + mp.loggamma(a) + (1 - a) * mp.digamma(a))


def gamma_kl(a, b, a0, b0):
    """KL[Gamma(a, rate b) || Gamma(a0, rate b0)] = -entropy - E ln p."""
    with mp.workdps(DIGITS):
        a, b, a0, b0 = exact(a), exact(b), exact(a0), exact(b0)
        minus_entropy = -(a - mp.log(b) + mp.loggamma(a) + (1 - a) * mp.digamma(a))
        mean_log_p = a0 * mp.log(b0) - mp.loggamma(a0) + (a0 - 1) * (mp.digamma(a) - mp.log(b)) - b0 * a / b
        return float(minus_entropy - mean_log_p)


def row_kl(tau, m, V, v0):
    """KL[N(m, V/tau) || N(0, v0 I/tau)], dense Gaussians."""
    return gaussian_kl_between(m, V / tau, np.zeros(len(m)), v0 * np.eye(len(m)) / tau)


def mean_row_kl(m, V, a, b, v0):
    """The mean of row_kl over tau ~ Gamma(a, rate b): it is linear in tau, two points with mean a/b do."""
    return 0.5 * (row_kl(0.5 * a / b, m, V, v0) + row_kl(1.5 * a / b, m, V, v0))


def mng_kl(M, V, a, b, v0, a0, b0):
    """Per expert: sum over output rows of the row divergence and the precision's divergence."""
    K, h = b.shape
    out = np.zeros(K)
    for k in range(K):
        for i in range(h):
            out[k] += mean_row_kl(M[k, i], V[k], a[k], b[k, i], v0) + gamma_kl(a[k], b[k, i], a0, b0)
    return out
