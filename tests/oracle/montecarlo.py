"""The bound as it is defined: the average of ln p(everything) - ln q(everything) over draws from q, scipy.stats densities.

Only the ratio of Polya-Gamma densities enters: PG(w; b, 0)/PG(w; b, xi) = exp(w xi^2/2) / cosh(xi/2)^b, and w = 0 where b = 0.
"""
import numpy as np
from scipy.stats import gamma as gamma_law, multivariate_normal, norm

from .cmn import padded, sizes
from .special import log_cosh_half, pg_draw, stick_b, stick_kappa


def pg_ratio(omega, xi, b):
    return omega * xi**2 / 2 - b * np.vectorize(log_cosh_half, otypes=[float])(xi)


def elbo(s, X, y, priors, rng, n_draws=2000):
    """Mean and standard error."""
    N, K, n_sticks, h, D = sizes(s)
    diff = np.zeros(n_draws)                                           # ln p - ln q of each draw
    beta1, beta0 = [], []
    for mus, covs, sigma, out in ((s["beta1_mu"], s["beta1_S"], priors.sigma1, beta1), (s["beta0_mu"], s["beta0_S"], priors.sigma0, beta0)):
        for m, S in zip(mus, covs):
            draw = rng.multivariate_normal(m, S, n_draws)
            diff += norm.logpdf(draw, 0, sigma).sum(1) - multivariate_normal(m, S).logpdf(draw)
            out.append(draw)
    tau, A = np.zeros((n_draws, K, h)), np.zeros((n_draws, K, h, D))
    for k in range(K):
        shape_law = multivariate_normal(np.zeros(D), s["V"][k])
        for i in range(h):
            t = tau[:, k, i] = rng.gamma(s["a"][k], 1 / s["b"][k, i], n_draws)
            diff += gamma_law.logpdf(t, priors.a0, scale=1 / priors.b0) - gamma_law.logpdf(t, s["a"][k], scale=1 / s["b"][k, i])
            e = np.atleast_2d(shape_law.rvs(n_draws, random_state=rng)).reshape(n_draws, D)
            A[:, k, i] = s["M"][k, i] + e / np.sqrt(t)[:, None]
            diff += norm.logpdf(A[:, k, i], 0, np.sqrt(priors.v0 / t)[:, None]).sum(1)
            diff -= shape_law.logpdf(e) + 0.5 * D * np.log(t)          # density of M + e/sqrt(t)
    every = np.arange(n_draws)
    for n in range(N):
        x = padded(X[n])
        z = rng.choice(K, size=n_draws, p=s["gamma"][n])
        diff -= np.log(s["gamma"][n][z])
        x1 = np.ones((n_draws, h + 1))
        for k in range(K):
            of_k = np.flatnonzero(z == k)
            if len(of_k):
                law = multivariate_normal(s["mu"][n, k], s["Sigma"][n, k])
                draw = np.asarray(law.rvs(len(of_k), random_state=rng)).reshape(len(of_k), h)
                x1[of_k, :h] = draw
                diff[of_k] -= law.logpdf(draw)
        mean = np.einsum("shd,d->sh", A[every, z], x)
        diff += norm.logpdf(x1[:, :h], mean, 1 / np.sqrt(tau[every, z])).sum(1)
        for j in range(K - 1):
            psi, xi = beta0[j] @ x, np.full(n_draws, s["xi0"][n, j])
            b = np.array([stick_b(j, k) for k in range(K)])[z]
            omega = b * pg_draw(xi, rng)
            diff += np.array([stick_kappa(j, k) for k in range(K)])[z] * psi - b * np.log(2) - omega * psi**2 / 2 + pg_ratio(omega, xi, b)
        for l in range(n_sticks):
            psi = (beta1[l] * x1).sum(1)
            xi = s["xi1"][n, z, l] if s["xi1"].ndim == 3 else np.full(n_draws, s["xi1"][n, l])
            b = stick_b(l, y[n])
            omega = b * pg_draw(xi, rng)
            diff += stick_kappa(l, y[n]) * psi - b * np.log(2) - omega * psi**2 / 2 + pg_ratio(omega, xi, b)
    return diff.mean(), diff.std() / np.sqrt(n_draws)
