"""A network of several layers in loops over rows, experts, sticks and output rows; written apart from the package.

A state is a dict of lists: beta_mu, beta_cov, tilts (one per link 0 .. S), M, V, a, b, gamma, mu, Sigma (one per layer 1 .. S, at index s - 1).
"""
import itertools

import numpy as np
from scipy.special import digamma

from . import cmn
from .cmn import kl_beta, kl_precision, kl_rows, outer_moment, padded
from .special import pg_kl_one, stick_b, stick_kappa, theta


def layers(d):
    return len(d["M"])


def mixture(d, X, n, s):
    """[(weight, E x~, E x~ x~^T)] of x_s of row n."""
    if s == 0:
        x = padded(X[n])
        return [(1.0, x, np.outer(x, x))]
    found = []
    for c, weight in enumerate(d["gamma"][s - 1][n]):
        m, G = padded(d["mu"][s - 1][n, c]), np.zeros((d["mu"][s - 1].shape[2] + 1,) * 2)
        G[:-1, :-1] = d["Sigma"][s - 1][n, c]
        found.append((weight, m, G + np.outer(m, m)))
    return found


def weights(d, y, n, s):
    """q(z_s) of row n; a one at the class above the top."""
    if s <= layers(d):
        return d["gamma"][s - 1][n]
    return np.eye(len(d["beta_mu"][-1]) + 1)[y[n]]


def log_choice(d, X, n, s, c, k):
    _, m, G = mixture(d, X, n, s)[c]
    total = 0.0
    for j, (mu, cov) in enumerate(zip(d["beta_mu"][s], d["beta_cov"][s])):
        xi, b = float(d["tilts"][s][n, c, j]), stick_b(j, k)
        total += stick_kappa(j, k) * (mu @ m) - b * (np.log(2) + pg_kl_one(xi))
        total -= 0.5 * b * theta(xi) * np.trace(outer_moment(mu, cov) @ G)
    return total


def log_expert(d, X, n, s, c, k):
    """Of x_(s+1) under expert k of layer s + 1; squares written out."""
    _, m, G = mixture(d, X, n, s)[c]
    total, tau = 0.0, d["a"][s][k] / d["b"][s][k]
    for i, M in enumerate(d["M"][s][k]):
        out, var = d["mu"][s][n, k, i], d["Sigma"][s][n, k, i, i]
        total += 0.5 * (digamma(d["a"][s][k]) - np.log(d["b"][s][k, i]) - np.log(2 * np.pi))
        total -= 0.5 * (tau[i] * (out**2 + var - 2 * out * (M @ m)) + np.trace(G @ (tau[i] * np.outer(M, M) + d["V"][s][k])))
    return total


def entropy(d, n, s, k):
    return 0.5 * np.log(np.linalg.det(2 * np.pi * np.e * d["Sigma"][s - 1][n, k]))


def pairs(d, X, y, n, s):
    """(c, weight, k, weight, what the bound says) of the link at x_s."""
    below, above = mixture(d, X, n, s), weights(d, y, n, s + 1)
    for (c, (g, _, _)), (k, w) in itertools.product(enumerate(below), enumerate(above)):
        yield c, g, k, w, log_choice(d, X, n, s, c, k) + (log_expert(d, X, n, s, c, k) if s < layers(d) else 0.0)


def elbo(d, X, y, priors):
    total, S = 0.0, layers(d)
    for n in range(len(X)):
        for s in range(S + 1):
            total += sum(g * w * said for _, g, _, w, said in pairs(d, X, y, n, s))
        for s in range(1, S + 1):
            for k, g in enumerate(d["gamma"][s - 1][n]):
                total += g * (entropy(d, n, s, k) - np.log(g))
    for s in range(S + 1):
        sigma = priors.sigma1 if s == S else priors.sigma0
        total -= sum(kl_beta(mu, cov, sigma) for mu, cov in zip(d["beta_mu"][s], d["beta_cov"][s]))
    for s in range(S):
        one = {name: d[name][s] for name in "MVab"}
        K, h, _ = one["M"].shape
        total -= sum(kl_rows(one, k, i, priors) + kl_precision(one, k, i, priors) for k in range(K) for i in range(h))
    return float(total)


def _with(d, s, **arrays):
    """d with entry s of some lists exchanged."""
    return {**d, **{name: [*d[name][:s], array, *d[name][s + 1:]] for name, array in arrays.items()}}


def update_omega(d, X, y, priors, s):
    tilts = np.zeros_like(d["tilts"][s])
    for n, c, j in np.ndindex(*tilts.shape):
        tilts[n, c, j] = np.sqrt(np.trace(outer_moment(d["beta_mu"][s][j], d["beta_cov"][s][j]) @ mixture(d, X, n, s)[c][2]))
    return _with(d, s, tilts=tilts)


def update_beta(d, X, y, priors, s):
    sigma = priors.sigma1 if s == layers(d) else priors.sigma0
    mean, cov = np.zeros_like(d["beta_mu"][s]), np.zeros_like(d["beta_cov"][s])
    for j in range(len(mean)):
        P, linear = np.eye(mean.shape[1]) / sigma**2, np.zeros(mean.shape[1])
        for n in range(len(X)):
            for (c, (g, m, G)), (k, w) in itertools.product(enumerate(mixture(d, X, n, s)), enumerate(weights(d, y, n, s + 1))):
                P = P + g * w * stick_b(j, k) * theta(float(d["tilts"][s][n, c, j])) * G
                linear = linear + g * w * stick_kappa(j, k) * m
        mean[j], cov[j] = np.linalg.solve(P, linear), np.linalg.inv(P)
    return _with(d, s, beta_mu=mean, beta_cov=cov)


def update_experts(d, X, y, priors, s):
    """Layer s; the rate by completing the square."""
    K, h, D = d["M"][s - 1].shape
    M, V, a, b = np.zeros((K, h, D)), np.zeros((K, D, D)), np.zeros(K), np.zeros((K, h))
    for k in range(K):
        P, cross, squares, a[k] = np.eye(D) / priors.v0, np.zeros((h, D)), np.zeros(h), priors.a0
        for n in range(len(X)):
            w, out, var = d["gamma"][s - 1][n, k], d["mu"][s - 1][n, k], np.diag(d["Sigma"][s - 1][n, k])
            a[k] += w / 2
            squares = squares + w * (out**2 + var)
            for g, m, G in mixture(d, X, n, s - 1):
                P, cross = P + w * g * G, cross + w * g * np.outer(out, m)
        V[k], M[k] = np.linalg.inv(P), np.linalg.solve(P, cross.T).T
        for i in range(h):
            b[k, i] = priors.b0 + 0.5 * (squares[i] - M[k, i] @ P @ M[k, i])
    return _with(d, s - 1, M=M, V=V, a=a, b=b)


def update_x(d, X, y, priors, s):
    """q(x_s | z_s), from the terms of the log joint that hold x_s."""
    mu, Sigma = np.zeros_like(d["mu"][s - 1]), np.zeros_like(d["Sigma"][s - 1])
    N, K, h = mu.shape
    for n, k in np.ndindex(N, K):
        tau = d["a"][s - 1][k] / d["b"][s - 1][k]
        P, eta = np.diag(tau), tau * sum(g * (d["M"][s - 1][k] @ m) for g, m, _ in mixture(d, X, n, s - 1))
        for k2, w in enumerate(weights(d, y, n, s + 1)):
            for j, (m, cov) in enumerate(zip(d["beta_mu"][s], d["beta_cov"][s])):
                B, omega = outer_moment(m, cov), stick_b(j, k2) * theta(float(d["tilts"][s][n, k, j]))
                P, eta = P + w * omega * B[:h, :h], eta + w * (stick_kappa(j, k2) * m[:h] - omega * B[:h, h])
            if s < layers(d):
                for i, M in enumerate(d["M"][s][k2]):
                    t = d["a"][s][k2] / d["b"][s][k2, i]
                    B = t * np.outer(M, M) + d["V"][s][k2]
                    P, eta = P + w * B[:h, :h], eta + w * (t * d["mu"][s][n, k2, i] * M[:h] - B[:h, h])
        Sigma[n, k], mu[n, k] = np.linalg.inv(P), np.linalg.solve(P, eta)
    return _with(d, s - 1, mu=mu, Sigma=Sigma)


def update_z(d, X, y, priors, s):
    gamma = np.zeros_like(d["gamma"][s - 1])
    for n in range(len(X)):
        score = np.array([entropy(d, n, s, k) for k in range(gamma.shape[1])])
        for _, g, k, _, said in pairs(d, X, y, n, s - 1):
            score[k] += g * said
        for c, _, _, w, said in pairs(d, X, y, n, s):
            score[c] += w * said
        gamma[n] = np.exp(score - score.max())
        gamma[n] /= gamma[n].sum()
    return _with(d, s - 1, gamma=gamma)


UPDATES = {"x": update_x, "omega": update_omega, "z": update_z, "beta": update_beta, "experts": update_experts}
CHANGES = {"x": ("mu", "Sigma"), "omega": ("tilts",), "z": ("gamma",), "beta": ("beta_mu", "beta_cov"), "experts": ("M", "V", "a", "b")}


def random_state_and_data(rng, N, widths, experts, L):
    """A random valid state far from any optimum, rows and labels; widths = (d, h_1, .., h_S)."""
    ks, S = (*experts, L), len(experts)
    d = {name: [] for name in ("beta_mu", "beta_cov", "tilts", "M", "V", "a", "b", "gamma", "mu", "Sigma")}
    for s in range(S + 1):
        d["beta_mu"].append(rng.normal(size=(ks[s] - 1, widths[s] + 1)))
        d["beta_cov"].append(cmn.random_spd(rng, ks[s] - 1, widths[s] + 1, scale=0.4))
        d["tilts"].append(rng.uniform(0.1, 3.0, (N, experts[s - 1] if s else 1, ks[s] - 1)))
    for s in range(S):
        K, h, D = experts[s], widths[s + 1], widths[s] + 1
        d["M"].append(rng.normal(size=(K, h, D)))
        d["V"].append(cmn.random_spd(rng, K, D, scale=0.3))
        d["a"].append(rng.uniform(1.5, 5.0, K))
        d["b"].append(rng.uniform(0.5, 3.0, (K, h)))
        d["gamma"].append(rng.dirichlet(np.ones(K), N))
        d["mu"].append(rng.normal(size=(N, K, h)))
        d["Sigma"].append(cmn.random_spd(rng, N, K, h, scale=0.4))
    return d, rng.normal(size=(N, widths[0])), rng.integers(0, L, N)


# ---- exact evidence

def zero_class_probs(X, priors, K, S, R, rng, Q=9):
    """p(y = 0 | Theta) of R draws of the prior, one latent a layer, two classes, K experts a layer, latents on grids.   -> (R, N)"""
    node, mass = np.polynomial.hermite_e.hermegauss(Q)
    mass = mass / mass.sum()
    tau = rng.gamma(priors.a0, 1 / priors.b0, (S, K, R))
    A = rng.normal(size=(S, K, 2, R)) * np.sqrt(priors.v0 / tau)[:, :, None]
    gate, output = priors.sigma0 * rng.normal(size=(S, K - 1, 2, R)), priors.sigma1 * rng.normal(size=(2, R))
    sigmoid = lambda u: 1 / (1 + np.exp(-u))

    def ahead(x, s):
        """p(y = 0) given x_s = x (R, ...)."""
        shape = (R,) + (1,) * (x.ndim - 1)
        if s == S:
            return sigmoid(output[0].reshape(shape) * x + output[1].reshape(shape))
        left, total = 1.0, 0.0
        for k in range(K):
            stop = 1.0 if k == K - 1 else sigmoid(gate[s, k, 0].reshape(shape) * x + gate[s, k, 1].reshape(shape))
            out = (A[s, k, 0].reshape(shape) * x + A[s, k, 1].reshape(shape))[..., None] + node / np.sqrt(tau[s, k].reshape(shape + (1,)))
            total, left = total + left * stop * (ahead(out, s + 1) @ mass), left * (1 - stop)
        return total
    return ahead(np.broadcast_to(X[:, 0], (R, len(X))), 0)


def evidence(X, y, priors, K, S, R, rng, Q=9):
    """(ln evidence, its standard error) from R draws."""
    p = zero_class_probs(X, priors, K, S, R, rng, Q)
    rows = np.where(np.asarray(y) == 0, p, 1 - p).prod(1)
    return float(np.log(rows.mean())), float(rows.std() / R**0.5 / rows.mean())
