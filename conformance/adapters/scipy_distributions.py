"""Level 1 from SciPy's distributions: what scipy.stats and scipy.special have to say about Gaussians, Gammas and categories.

    python -m cmn_conformance run --level 1 --adapter conformance/adapters/scipy_distributions.py

SciPy has no divergences. Each is written here as KL[q || p] = -H[q] - E_q[ln p] with SciPy's entropy of q, and with SciPy's density of p
at the mean of q where ln p is a parabola. Polya-Gamma variables, and so stick_log_bound, are not in SciPy.
"""

import numpy as np
import scipy
from scipy.special import entr, gammaln
from scipy.stats import gamma as Gamma
from scipy.stats import loggamma, multivariate_normal

NAME, VERSION = "scipy.stats", scipy.__version__


def pad(x):
    return np.concatenate([x, np.ones(x.shape[:-1] + (1,))], -1)


def second_moment(mu, S):
    q = multivariate_normal(mu, S, allow_singular=True)
    return q.cov + np.outer(q.mean, q.mean)


def padded_second_moment(mu, S):
    return np.block([[second_moment(mu, S), mu[:, None]], [mu[None], np.ones((1, 1))]])


def gaussian_entropy(S):
    return multivariate_normal(cov=S).entropy()


def gaussian_kl(mu, S, sigma):
    q, p = multivariate_normal(mu, S), multivariate_normal(np.zeros(len(mu)), sigma**2 * np.eye(len(mu)))
    return np.trace(S) / (2 * sigma**2) - p.logpdf(mu) - q.entropy()


def gamma_mean_log(a, b):
    return loggamma(a, loc=-np.log(b)).mean()                             # the logarithm of a Gamma variable is SciPy's loggamma


def gamma_kl(a, b, a0, b0):
    q = Gamma(a, scale=1 / b)
    mean_log_p = a0 * np.log(b0) - gammaln(a0) + (a0 - 1) * gamma_mean_log(a, b) - b0 * q.mean()
    return -q.entropy() - mean_log_p


def mng_kl(M, V, a, b, v0, a0, b0):
    D = M.shape[-1]
    columns = np.array([gaussian_kl(np.zeros(D), Vk, np.sqrt(v0)) for Vk in V])           # of a row, in units of its noise
    rows = columns[:, None] + Gamma(a[:, None], scale=1 / b).mean() * (M**2).sum(-1) / (2 * v0)
    return (rows + gamma_kl(a[:, None], b, a0, b0)).sum(-1)


def categorical_entropy(gamma):
    return entr(gamma).sum(-1)


def gate_logits(X, beta0_mu, beta0_S):
    Xt = pad(X)
    psi = Xt @ beta0_mu.T
    return psi, psi**2 + np.einsum("nd,jde,ne->nj", Xt, beta0_S, Xt)


def output_logits(mu, Sigma, beta1_mu, beta1_S):
    x, B = pad(mu), beta1_S + beta1_mu[:, :, None] * beta1_mu[:, None, :]
    h = mu.shape[-1]
    spread = np.einsum("nkij,lij->nkl", Sigma, B[:, :h, :h])
    return x @ beta1_mu.T, spread + np.einsum("nkd,lde,nke->nkl", x, B, x)
