"""Experts with a full precision of the noise: Lambda_k ~ Wishart(nu_k, U_k), U the inverse of the scale matrix, E[Lambda_k] = nu_k U_k^-1.

Density proportional to |Lambda|^((nu - h - 1)/2) exp(-tr(U Lambda)/2).  A_k given Lambda_k is matrix normal with row covariance Lambda_k^-1 and column
covariance V_k; the prior has mean 0, v0 I, nu0 and U0.  For h = 1 this is Gamma(nu/2, U/2).
"""

from loops import dot, inverse, log_det, quadratic, times, trace, trace_product
from mpmath import mp, mpf
from special import digamma, log, log_gamma

LOG2, LOG2PI, LOGPI = (lambda: mp.log(2)), (lambda: mp.log(2 * mp.pi)), (lambda: mp.log(mp.pi))


def mean(nu, U):
    return [[nu * v for v in row] for row in inverse(U)]


def mean_log_det(nu, U):
    """E ln|Lambda|."""
    total = len(U) * LOG2() - log_det(U)
    for i in range(len(U)):
        total += digamma((nu - i) / 2)
    return total


def log_gamma_h(x, h):
    """ln of the multivariate gamma function."""
    total = mpf(h * (h - 1)) / 4 * LOGPI()
    for i in range(h):
        total += log_gamma(x - mpf(i) / 2)
    return total


def kl(nu, U, nu0, U0):
    h = len(U)
    total = (nu - nu0) * mean_log_det(nu, U) / 2 - nu * h / 2 + nu * trace_product(U0, inverse(U)) / 2
    total += (nu * log_det(U) - nu0 * log_det(U0) - (nu - nu0) * h * LOG2()) / 2
    return total - log_gamma_h(nu / 2, h) + log_gamma_h(nu0 / 2, h)


def expert_kl(M, V, nu, U, v0, nu0, U0):
    """KL of one expert: its rows given Lambda, averaged over Lambda, then Lambda."""
    h, D, P = len(U), len(V), mean(nu, U)
    total = h * (trace(V) / v0 - D + D * log(v0) - log_det(V)) / 2
    for p in range(D):
        total += quadratic(P, [row[p] for row in M]) / v0 / 2
    return total + kl(nu, U, nu0, U0)


def expert_bounds(s):
    """E[ln N(x1; A x~, Lambda^-1)] of each row and expert."""
    out, h = [], len(s["M"][0])
    fixed = [(mean(nu, U), mean_log_det(nu, U)) for nu, U in zip(s["nu"], s["U"], strict=True)]
    for n, x in enumerate(s["X"]):
        xt, row = [*x, mpf(1)], []
        for k, M in enumerate(s["M"]):
            P, log_det_mean = fixed[k]
            r = [a - b for a, b in zip(s["mu"][n][k], times(M, xt), strict=True)]
            square = quadratic(P, r) + trace_product(P, s["Sigma"][n][k])
            row.append((log_det_mean - h * LOG2PI() - square - h * quadratic(s["V"][k], xt)) / 2)
        out.append(row)
    return out


def spread(s, k, M):
    """U of expert k about its new means."""
    h = len(M)
    U = [[s["U0"][i][j] + dot(M[i], M[j]) / s["v0"] for j in range(h)] for i in range(h)]
    for n, x in enumerate(s["X"]):
        g, S = s["gamma"][n][k], s["Sigma"][n][k]
        r = [a - b for a, b in zip(s["mu"][n][k], times(M, [*x, mpf(1)]), strict=True)]
        for i in range(h):
            for j in range(h):
                U[i][j] += g * (r[i] * r[j] + S[i][j])
    return U


