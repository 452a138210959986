"""Exact ln p(y | X) of tiny problems: closed form for one row, Gauss quadrature and scrambled-Sobol integration beyond.

The global parameters are drawn from the prior; given them the rows are independent, the experts are summed out and the one
latent (h = 1) is integrated by Gauss-Hermite. None of it knows about Polya-Gamma variables or variational factors.
"""
import numpy as np
from scipy.special import expit, gammainccinv, ndtri, roots_genlaguerre, roots_hermitenorm
from scipy.stats import qmc

from .cmn import padded


def one_row(c, L):
    """N = 1, zero-mean priors: each stick is a fair coin."""
    return -min(c + 1, L - 1) * np.log(2)


def sticks(psi):
    """(..., J) -> list of J + 1 arrays."""
    left, out = 1.0, []
    for j in range(psi.shape[-1]):
        out.append(left * expit(psi[..., j]))
        left = left * expit(-psi[..., j])
    return [*out, left]


def likelihood(X, y, beta1, beta0, A, tau, nodes=24):
    """p(y | X, Theta) for S parameter draws at once, h = 1: beta1 (S, L-1, 2), beta0 (S, K-1, D), A (S, K, D), tau (S, K)."""
    t, w = roots_hermitenorm(nodes)
    w = w / w.sum()
    out = np.ones(len(A))
    for x, label in zip(X, y):
        x = padded(x)
        pi, row = sticks(beta0 @ x), 0.0
        for k in range(A.shape[1]):
            x1 = (A[:, k] @ x)[:, None] + t / np.sqrt(tau[:, k])[:, None]                       # (S, nodes)
            psi = beta1[:, None, :, 0] * x1[:, :, None] + beta1[:, None, :, 1]                  # (S, nodes, L-1)
            row = row + pi[k] * (sticks(psi)[label] @ w)
        out *= row
    return out


def by_qmc(X, y, K, L, priors, seed=0, log2_draws=13, replicates=8):
    """(ln evidence, standard error) from independently scrambled Sobol sequences; h = 1, any d, K, L."""
    D = X.shape[1] + 1
    dims, means = 2 * (L - 1) + D * (K - 1) + K * (D + 1), []
    for r in range(replicates):
        u = qmc.Sobol(dims, scramble=True, rng=np.random.default_rng([seed, r])).random_base2(log2_draws)
        u = np.clip(u, 1e-12, 1 - 1e-12)
        g, at = ndtri(u), 0
        beta1 = priors.sigma1 * g[:, :2 * (L - 1)].reshape(len(g), L - 1, 2)
        at = 2 * (L - 1)
        beta0 = priors.sigma0 * g[:, at:at + D * (K - 1)].reshape(len(g), K - 1, D)
        at += D * (K - 1)
        tau = gammainccinv(priors.a0, u[:, at:at + K]) / priors.b0
        at += K
        A = np.sqrt(priors.v0 / tau)[:, :, None] * g[:, at:].reshape(len(g), K, D)
        means.append(likelihood(X, y, beta1, beta0, A, tau).mean())
    means = np.array(means)
    return float(np.log(means.mean())), float(means.std(ddof=1) / np.sqrt(replicates) / means.mean())


def by_quadrature(X, y, priors, nodes=15, v00=0.0, centre=0.0):
    """K = 1, L = 2, h = 1, d = 1: Gauss product rule over (weight, bias, slope, intercept, tau).

    v00: variance of a mean of the map's entries, which is integrated out; centre (2): prior mean of the stick's weight and bias.
    """
    t, w = roots_hermitenorm(nodes)
    w = w / w.sum()
    g, wg = roots_genlaguerre(nodes, priors.a0 - 1)
    wg = wg / wg.sum()
    b1, b0, a1, a0, tau = (m.ravel() for m in np.meshgrid(t, t, t, t, g / priors.b0, indexing="ij"))
    weight = np.einsum("i,j,k,l,m->ijklm", w, w, w, w, wg).ravel()
    total = 0.0
    for part in np.array_split(np.arange(len(weight)), max(1, len(weight) // 50_000)):
        scale = np.sqrt(priors.v0 / tau[part] + v00)
        beta1 = (priors.sigma1 * np.stack([b1[part], b0[part]], 1) + centre)[:, None, :]
        A = (scale[:, None] * np.stack([a1[part], a0[part]], 1))[:, None, :]
        total += weight[part] @ likelihood(X, y, beta1, np.zeros((len(part), 0, 2)), A, tau[part][:, None])
    return float(np.log(total))
