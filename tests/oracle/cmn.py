"""The conditional mixture network in loops over rows n, experts k, sticks l or j, and output rows i.

One function per update, one per term of the bound. A state is a dict of arrays; priors are anything with the attributes
v0, a0, b0, sigma0, sigma1. `shared` omega1 is told from `per component` by the number of axes of xi1.
"""
from collections import namedtuple

import numpy as np
from scipy.special import digamma, gammaln

from .special import log_cosh_half, pg_kl_one, stick_b, stick_kappa, theta

OraclePriors = namedtuple("OraclePriors", "v0 a0 b0 sigma0 sigma1", defaults=(10.0, 2.0, 1.0, 5.0, 5.0))
FIELDS = "beta1_mu beta1_S beta0_mu beta0_S M V a b gamma mu Sigma xi1 xi0".split()
ORDER = ("x", "omega1", "omega0", "z", "beta1", "beta0", "experts")
CHANGES = dict(x=("mu", "Sigma"), omega1=("xi1",), omega0=("xi0",), z=("gamma",), beta1=("beta1_mu", "beta1_S"),
               beta0=("beta0_mu", "beta0_S"), experts=("M", "V", "a", "b"))


def sizes(s):
    """N, K, number of output sticks, h, padded input dimension."""
    N, K, h = s["mu"].shape
    return N, K, len(s["beta1_mu"]), h, s["M"].shape[2]


def padded(v):
    return np.append(v, 1.0)


def tilt1(s, n, k, l):
    """xi1 of row n, expert k, stick l, whichever way it is stored."""
    return float(s["xi1"][n, l] if s["xi1"].ndim == 2 else s["xi1"][n, k, l])


def outer_moment(mu, S):
    """E[v v^T]."""
    return S + np.outer(mu, mu)


def latent_moment(s, n, k):
    """E[x~1 x~1^T | z_n = k], the 1 last."""
    mu, h = s["mu"][n, k], s["mu"].shape[2]
    out = np.ones((h + 1, h + 1))
    out[:h, :h] = s["Sigma"][n, k] + np.outer(mu, mu)
    out[:h, h] = out[h, :h] = mu
    return out


def mean_psi1(s, n, k, l):
    return float(s["beta1_mu"][l] @ padded(s["mu"][n, k]))


def mean_square_psi1(s, n, k, l):
    return float(np.trace(outer_moment(s["beta1_mu"][l], s["beta1_S"][l]) @ latent_moment(s, n, k)))


def mean_psi0(s, X, n, j):
    return float(s["beta0_mu"][j] @ padded(X[n]))


def mean_square_psi0(s, X, n, j):
    x = padded(X[n])
    return float(x @ outer_moment(s["beta0_mu"][j], s["beta0_S"][j]) @ x)


# ---- the terms of the bound -------------------------------------------------------------------------------------------
def term_output(s, y, n, k):
    total = 0.0
    for l in range(len(s["beta1_mu"])):
        b = stick_b(l, y[n])
        total += stick_kappa(l, y[n]) * mean_psi1(s, n, k, l) - b * np.log(2)
        total -= 0.5 * b * theta(tilt1(s, n, k, l)) * mean_square_psi1(s, n, k, l)
    return total


def term_pg1(s, y, n, k):
    return sum(stick_b(l, y[n]) * pg_kl_one(tilt1(s, n, k, l)) for l in range(len(s["beta1_mu"])))


def term_latent(s, X, n, k):
    x, total = padded(X[n]), 0.0
    for i in range(s["mu"].shape[2]):
        tau, log_tau = s["a"][k] / s["b"][k, i], digamma(s["a"][k]) - np.log(s["b"][k, i])
        residual = s["mu"][n, k, i] - s["M"][k, i] @ x
        total += 0.5 * log_tau - 0.5 * np.log(2 * np.pi) - 0.5 * tau * (residual**2 + s["Sigma"][n, k, i, i])
        total -= 0.5 * x @ s["V"][k] @ x
    return float(total)


def term_entropy(s, n, k):
    h = s["mu"].shape[2]
    return 0.5 * h * (1 + np.log(2 * np.pi)) + 0.5 * np.log(np.linalg.det(s["Sigma"][n, k]))


def term_gate(s, X, n, k):
    total = 0.0
    for j in range(len(s["beta0_mu"])):
        b = stick_b(j, k)
        total += stick_kappa(j, k) * mean_psi0(s, X, n, j) - b * np.log(2)
        total -= 0.5 * b * theta(float(s["xi0"][n, j])) * mean_square_psi0(s, X, n, j)
    return total


def term_pg0(s, n, k):
    return sum(stick_b(j, k) * pg_kl_one(float(s["xi0"][n, j])) for j in range(len(s["beta0_mu"])))


def kl_beta(mu, S, sigma):
    D = len(mu)
    return 0.5 * ((np.trace(S) + mu @ mu) / sigma**2 - D + D * np.log(sigma**2) - np.log(np.linalg.det(S)))


def kl_rows(s, k, i, priors):
    V, m, D = s["V"][k], s["M"][k, i], s["M"].shape[2]
    tau = s["a"][k] / s["b"][k, i]
    return 0.5 * (np.trace(V) / priors.v0 - D + D * np.log(priors.v0) - np.log(np.linalg.det(V)) + tau * (m @ m) / priors.v0)


def kl_precision(s, k, i, priors):
    a, b, a0, b0 = s["a"][k], s["b"][k, i], priors.a0, priors.b0
    return (a - a0) * digamma(a) - gammaln(a) + gammaln(a0) + a0 * (np.log(b) - np.log(b0)) + a * (b0 - b) / b


def score(s, X, y, n, k):
    """What q(z_n = k) is proportional to, in logarithms; always right, whatever was updated last."""
    return (term_output(s, y, n, k) - term_pg1(s, y, n, k) + term_latent(s, X, n, k) + term_entropy(s, n, k)
            + term_gate(s, X, n, k) - term_pg0(s, n, k))


def elbo_terms(s, X, y, priors):
    """Every term of the bound, with the sign it enters with; their sum is the bound."""
    N, K, n_sticks, h, _ = sizes(s)
    t = dict.fromkeys("output pg1 latent entropy_x gate pg0 entropy_z beta1 beta0 rows precisions".split(), 0.0)
    for n in range(N):
        for k in range(K):
            g = s["gamma"][n, k]
            if g > 0:
                t["output"] += g * term_output(s, y, n, k)
                t["pg1"] -= g * term_pg1(s, y, n, k)
                t["latent"] += g * term_latent(s, X, n, k)
                t["entropy_x"] += g * term_entropy(s, n, k)
                t["gate"] += g * term_gate(s, X, n, k)
                t["pg0"] -= g * term_pg0(s, n, k)
                t["entropy_z"] -= g * np.log(g)
    for l in range(n_sticks):
        t["beta1"] -= kl_beta(s["beta1_mu"][l], s["beta1_S"][l], priors.sigma1)
    for j in range(K - 1):
        t["beta0"] -= kl_beta(s["beta0_mu"][j], s["beta0_S"][j], priors.sigma0)
    for k in range(K):
        for i in range(h):
            t["rows"] -= kl_rows(s, k, i, priors)
            t["precisions"] -= kl_precision(s, k, i, priors)
    return t


def elbo(s, X, y, priors):
    return float(sum(elbo_terms(s, X, y, priors).values()))


# ---- the updates: each returns a new state in which only its own factor differs ----------------------------------------
def update_x(s, X, y, priors=None):
    N, K, n_sticks, h, _ = sizes(s)
    mu, Sigma = np.zeros((N, K, h)), np.zeros((N, K, h, h))
    for n in range(N):
        for k in range(K):
            tau = s["a"][k] / s["b"][k]
            precision, linear = np.diag(tau), tau * (s["M"][k] @ padded(X[n]))
            for l in range(n_sticks):
                B = outer_moment(s["beta1_mu"][l], s["beta1_S"][l])
                omega = stick_b(l, y[n]) * theta(tilt1(s, n, k, l))
                precision = precision + omega * B[:h, :h]
                linear = linear + stick_kappa(l, y[n]) * s["beta1_mu"][l, :h] - omega * B[:h, h]
            Sigma[n, k] = np.linalg.inv(precision)
            mu[n, k] = np.linalg.solve(precision, linear)
    return {**s, "mu": mu, "Sigma": Sigma}


def update_omega1(s, X, y, priors=None):
    N, K, n_sticks, _, _ = sizes(s)
    xi1 = np.zeros_like(s["xi1"])
    for n in range(N):
        for l in range(n_sticks):
            if xi1.ndim == 3:
                for k in range(K):
                    xi1[n, k, l] = np.sqrt(mean_square_psi1(s, n, k, l))
            else:
                xi1[n, l] = np.sqrt(sum(s["gamma"][n, k] * mean_square_psi1(s, n, k, l) for k in range(K)))
    return {**s, "xi1": xi1}


def update_omega0(s, X, y, priors=None):
    N, K = s["gamma"].shape
    xi0 = np.zeros((N, K - 1))
    for n in range(N):
        for j in range(K - 1):
            xi0[n, j] = np.sqrt(mean_square_psi0(s, X, n, j))
    return {**s, "xi0": xi0}


def update_z(s, X, y, priors=None):
    N, K = s["gamma"].shape
    gamma = np.zeros((N, K))
    for n in range(N):
        scores = np.array([score(s, X, y, n, k) for k in range(K)])
        weights = np.exp(scores - scores.max())
        gamma[n] = weights / weights.sum()
    return {**s, "gamma": gamma}


def update_beta1(s, X, y, priors):
    N, K, n_sticks, h, _ = sizes(s)
    mean, cov = np.zeros((n_sticks, h + 1)), np.zeros((n_sticks, h + 1, h + 1))
    for l in range(n_sticks):
        precision, linear = np.eye(h + 1) / priors.sigma1**2, np.zeros(h + 1)
        for n in range(N):
            for k in range(K):
                g = s["gamma"][n, k]
                precision = precision + g * stick_b(l, y[n]) * theta(tilt1(s, n, k, l)) * latent_moment(s, n, k)
                linear = linear + g * stick_kappa(l, y[n]) * padded(s["mu"][n, k])
        cov[l], mean[l] = np.linalg.inv(precision), np.linalg.solve(precision, linear)
    return {**s, "beta1_mu": mean, "beta1_S": cov}


def update_beta0(s, X, y, priors):
    N, K = s["gamma"].shape
    D = X.shape[1] + 1
    mean, cov = np.zeros((K - 1, D)), np.zeros((K - 1, D, D))
    for j in range(K - 1):
        precision, linear = np.eye(D) / priors.sigma0**2, np.zeros(D)
        for n in range(N):
            x = padded(X[n])
            for k in range(K):
                g = s["gamma"][n, k]
                precision = precision + g * stick_b(j, k) * theta(float(s["xi0"][n, j])) * np.outer(x, x)
                linear = linear + g * stick_kappa(j, k) * x
        cov[j], mean[j] = np.linalg.inv(precision), np.linalg.solve(precision, linear)
    return {**s, "beta0_mu": mean, "beta0_S": cov}


def update_experts(s, X, y, priors, centre=None, doubt=None):
    """centre (h, D), doubt (h): mean and, of each entry of a row, variance of the prior mean of the maps; None: zeros."""
    N, K, _, h, D = sizes(s)
    centre, doubt = (np.zeros((h, D)), np.zeros(h)) if centre is None else (centre, doubt)
    M, V, a, b = np.zeros((K, h, D)), np.zeros((K, D, D)), np.zeros(K), np.zeros((K, h))
    for k in range(K):
        precision, cross = np.eye(D) / priors.v0, centre / priors.v0
        a[k] = priors.a0
        for n in range(N):
            g, x = s["gamma"][n, k], padded(X[n])
            precision = precision + g * np.outer(x, x)
            cross = cross + g * np.outer(s["mu"][n, k], x)
            a[k] += g / 2
        V[k] = np.linalg.inv(precision)
        M[k] = cross @ V[k]
        for i in range(h):
            off = M[k, i] - centre[i]
            b[k, i] = priors.b0 + (off @ off + D * doubt[i]) / (2 * priors.v0)
            for n in range(N):
                residual = s["mu"][n, k, i] - M[k, i] @ padded(X[n])
                b[k, i] += 0.5 * s["gamma"][n, k] * (s["Sigma"][n, k, i, i] + residual**2)
    return {**s, "M": M, "V": V, "a": a, "b": b}


UPDATES = dict(x=update_x, omega1=update_omega1, omega0=update_omega0, z=update_z, beta1=update_beta1, beta0=update_beta0,
               experts=update_experts)


def sweep(s, X, y, priors, inner=1):
    for name in ("x", "omega1") * inner + ORDER[2:]:
        s = UPDATES[name](s, X, y, priors)
    return s


# ---- identities around the updates ------------------------------------------------------------------------------------
def sharing_gap(s, y):
    """Bound with xi1 per component minus bound with xi1 shared, every xi1 at its optimum, all else equal."""
    N, K, n_sticks, _, _ = sizes(s)
    gap = 0.0
    for n in range(N):
        for l in range(n_sticks):
            squares = [mean_square_psi1(s, n, k, l) for k in range(K)]
            pooled = np.sqrt(sum(s["gamma"][n, k] * squares[k] for k in range(K)))
            inside = log_cosh_half(float(pooled))
            for k in range(K):
                inside -= s["gamma"][n, k] * log_cosh_half(float(np.sqrt(squares[k])))
            gap += stick_b(l, y[n]) * inside
    return gap


def rescale_latents(s, scale, shift):
    """The state of x1 -> scale * x1 + shift (per coordinate): the same predictions in other coordinates."""
    h = s["mu"].shape[2]
    M = s["M"] * scale[None, :, None]
    M[:, :, -1] += shift
    T = np.eye(h + 1)
    T[:h, :h] = np.diag(1 / scale)
    T[h, :h] = -shift / scale
    out = dict(s, M=M, b=s["b"] * scale**2, mu=s["mu"] * scale + shift, Sigma=s["Sigma"] * np.outer(scale, scale))
    out["beta1_mu"] = np.array([T @ m for m in s["beta1_mu"]])
    out["beta1_S"] = np.array([T @ S @ T.T for S in s["beta1_S"]])
    return out


def best_scale(s, priors):
    """The scale (shift 0) that maximises the bound along rescale_latents; M0 = 0."""
    K, h = s["b"].shape
    scale = np.zeros(h)
    for i in range(h):
        numerator = sum(outer_moment(m, S)[i, i] for m, S in zip(s["beta1_mu"], s["beta1_S"])) / priors.sigma1**2
        numerator += 2 * priors.b0 * sum(s["a"][k] / s["b"][k, i] for k in range(K))
        scale[i] = np.sqrt(numerator / (len(s["beta1_mu"]) + 2 * K * priors.a0))
    return scale


def best_shift(s, priors):
    """The shift (scale 1) that maximises the bound along rescale_latents; M0 = 0."""
    K, h = s["b"].shape
    precision, linear = np.zeros((h, h)), np.zeros(h)
    for m, S in zip(s["beta1_mu"], s["beta1_S"]):
        B = outer_moment(m, S)
        precision += B[:h, :h] / priors.sigma1**2
        linear += B[:h, h] / priors.sigma1**2
    for k in range(K):
        tau = s["a"][k] / s["b"][k]
        precision += np.diag(tau) / priors.v0
        linear -= tau * s["M"][k, :, -1] / priors.v0
    return np.linalg.solve(precision, linear)


def expand(s, priors):
    """Parameter expansion: first the best scale, then the best shift of the rescaled state."""
    h = s["mu"].shape[2]
    s = rescale_latents(s, best_scale(s, priors), np.zeros(h))
    return rescale_latents(s, np.ones(h), best_shift(s, priors))


# ---- random problems --------------------------------------------------------------------------------------------------
def random_spd(rng, *shape, scale=1.0):
    """Well-conditioned random covariances, shape (..., m, m)."""
    m = shape[-1]
    A = rng.normal(size=(*shape, m)) * 0.5
    return scale * (np.einsum("...ij,...kj->...ik", A, A) + 0.3 * np.eye(m))


def random_state_and_data(rng, N, d, K, L, h, shared=False):
    """A random valid state, far from any optimum, with data: (state dict, X (N, d), y (N,)); y holds every class if N >= L."""
    X = rng.normal(size=(N, d))
    y = rng.permutation(np.concatenate([np.arange(L), rng.integers(0, L, size=max(N - L, 0))])[:N] if N >= L
                        else rng.integers(0, L, size=N)).astype(np.int64)
    gamma = rng.gamma(1.0, size=(N, K)) + 1e-3
    state = dict(
        beta1_mu=rng.normal(size=(L - 1, h + 1)), beta1_S=random_spd(rng, L - 1, h + 1),
        beta0_mu=rng.normal(size=(K - 1, d + 1)), beta0_S=random_spd(rng, K - 1, d + 1),
        M=rng.normal(size=(K, h, d + 1)), V=random_spd(rng, K, d + 1, scale=0.5),
        a=rng.uniform(1.5, 6.0, size=K), b=rng.uniform(0.5, 4.0, size=(K, h)),
        gamma=gamma / gamma.sum(1, keepdims=True), mu=rng.normal(size=(N, K, h)), Sigma=random_spd(rng, N, K, h),
        xi1=rng.uniform(0.05, 4.0, size=(N, L - 1) if shared else (N, K, L - 1)), xi0=rng.uniform(0.05, 4.0, size=(N, K - 1)))
    return state, X, y
