"""The network with a measured output, or with counts, in loops; written apart from the package.

A state is the dict of `cmn` with the mean of the experts, `A0_mean` (h, D) and `A0_var` (h,), and with the output's own entries: of a measured
output `map_M` (m, h+1), `map_V` (h+1, h+1), `map_a`, `map_b` (m,), with no stick (beta1_mu has no row); of counts beta1_mu, beta1_S and xi1 with
one row.  `own` is (v1, a1, b1) of a measured output, or (r,) of counts.  Averages over the map are rules that are exact: given rho the map is
normal, and what is averaged is linear in rho.
"""
import numpy as np
from scipy.special import digamma, gammaln

from . import blocks, cmn, shared
from .special import pg_kl_one, theta


class Above:
    """The model with a mean of the experts alone."""
    centred, strength = False, None

    def __init__(self, v00):
        self.v00 = v00


def over_map(s, j, f):
    """E[rho f(w)] of row j of the map, f at most quadratic: two points of rho, symmetric points of w."""
    mean, found = s["map_a"] / s["map_b"][j], []
    for rho in (0.5 * mean, 1.5 * mean):
        found.append(rho * np.mean([f(w) for w in blocks.symmetric_points(s["map_M"][j], s["map_V"] / rho)], axis=0))
    return np.mean(found, axis=0)


def over_latent(s, n, k, f):
    """E[f(x1~)] of q(x1 | z = k), f at most quadratic."""
    return np.mean([f(cmn.padded(x)) for x in blocks.symmetric_points(s["mu"][n, k], s["Sigma"][n, k])], axis=0)


def term_output(s, y, n, k, own):
    """E ln p(y | x1) of row n under expert k, for counts less the divergence of omega."""
    if "map_M" not in s:
        (r,), b = own, y[n] + own[0]
        xi, kappa = cmn.tilt1(s, n, k, 0), 0.5 * (y[n] - own[0])
        total = gammaln(y[n] + r) - gammaln(r) - gammaln(y[n] + 1) + kappa * cmn.mean_psi1(s, n, k, 0) - b * np.log(2)
        return total - 0.5 * b * theta(xi) * cmn.mean_square_psi1(s, n, k, 0) - b * pg_kl_one(xi)
    total = 0.0
    for j in range(y.shape[1]):
        total += 0.5 * (digamma(s["map_a"]) - np.log(s["map_b"][j]) - np.log(2 * np.pi))
        total -= 0.5 * over_latent(s, n, k, lambda x, j=j: over_map(s, j, lambda w: (y[n, j] - w @ x) ** 2))
    return float(total)


def score(s, X, y, n, k, own):
    return (term_output(s, y, n, k, own) + cmn.term_latent(s, X, n, k) + cmn.term_entropy(s, n, k) + cmn.term_gate(s, X, n, k)
            - cmn.term_pg0(s, n, k))


def kl_output(s, priors, own):
    """Divergence of the output's own factors: the map is one more expert."""
    if "map_M" not in s:
        return cmn.kl_beta(s["beta1_mu"][0], s["beta1_S"][0], priors.sigma1)
    as_expert = {"M": s["map_M"][None], "V": s["map_V"][None], "a": [s["map_a"]], "b": s["map_b"][None]}
    prior = cmn.OraclePriors(*own)
    return float(sum(cmn.kl_rows(as_expert, 0, j, prior) + cmn.kl_precision(as_expert, 0, j, prior) for j in range(len(s["map_M"]))))


def elbo(s, X, y, priors, v00, own):
    N, K = s["gamma"].shape
    total = -sum(part for name, part in shared.divergences(s, priors, Above(v00)).items() if name != "beta1")
    for n in range(N):
        for k in range(K):
            g = s["gamma"][n, k]
            total += g * (score(s, X, y, n, k, own) - np.log(g))
    return float(total - kl_output(s, priors, own))


# ---- the updates
def update_x(s, X, y, priors, v00, own):
    (N, K), h = s["gamma"].shape, s["mu"].shape[2]
    mu, Sigma = np.zeros((N, K, h)), np.zeros((N, K, h, h))
    for n in range(N):
        for k in range(K):
            tau = s["a"][k] / s["b"][k]
            precision, linear = np.diag(tau), tau * (s["M"][k] @ cmn.padded(X[n]))
            if "map_M" in s:
                for j in range(y.shape[1]):
                    precision = precision + over_map(s, j, lambda w: np.outer(w[:h], w[:h]))
                    linear = linear + over_map(s, j, lambda w, j=j: w[:h] * (y[n, j] - w[h]))
            else:
                B, omega = cmn.outer_moment(s["beta1_mu"][0], s["beta1_S"][0]), (y[n] + own[0]) * theta(cmn.tilt1(s, n, k, 0))
                precision = precision + omega * B[:h, :h]
                linear = linear + 0.5 * (y[n] - own[0]) * s["beta1_mu"][0, :h] - omega * B[:h, h]
            Sigma[n, k], mu[n, k] = np.linalg.inv(precision), np.linalg.solve(precision, linear)
    return {**s, "mu": mu, "Sigma": Sigma}


def update_z(s, X, y, priors, v00, own):
    N, K = s["gamma"].shape
    gamma = np.zeros((N, K))
    for n in range(N):
        scores = np.array([score(s, X, y, n, k, own) for k in range(K)])
        gamma[n] = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
    return {**s, "gamma": gamma}


def update_output(s, X, y, priors, v00, own):
    (N, K), h = s["gamma"].shape, s["mu"].shape[2]
    if "map_M" not in s:
        precision, linear = np.eye(h + 1) / priors.sigma1**2, np.zeros(h + 1)
        for n in range(N):
            for k in range(K):
                g = s["gamma"][n, k]
                precision = precision + g * (y[n] + own[0]) * theta(cmn.tilt1(s, n, k, 0)) * cmn.latent_moment(s, n, k)
                linear = linear + g * 0.5 * (y[n] - own[0]) * cmn.padded(s["mu"][n, k])
        return {**s, "beta1_mu": np.linalg.solve(precision, linear)[None], "beta1_S": np.linalg.inv(precision)[None]}
    v1, a1, b1 = own
    precision, cross = np.eye(h + 1) / v1, np.zeros((y.shape[1], h + 1))
    for n in range(N):
        for k in range(K):
            precision = precision + s["gamma"][n, k] * cmn.latent_moment(s, n, k)
            cross = cross + s["gamma"][n, k] * np.outer(y[n], cmn.padded(s["mu"][n, k]))
    V = np.linalg.inv(precision)
    M, b = cross @ V, np.zeros(y.shape[1])
    for j in range(y.shape[1]):
        b[j] = b1 + M[j] @ M[j] / (2 * v1)
        for n in range(N):
            for k in range(K):
                b[j] += 0.5 * s["gamma"][n, k] * over_latent(s, n, k, lambda x, n=n, j=j: (y[n, j] - M[j] @ x) ** 2)
    return {**s, "map_M": M, "map_V": V, "map_a": a1 + s["gamma"].sum() / 2, "map_b": b}



def _old(update):
    return lambda s, X, y, priors, v00, own: {**s, **update(s, X, y, priors, Above(v00))}


UPDATES = {"shared": _old(shared.update_shared), "x": update_x, "memory": lambda s, *rest: s if "map_M" in s else cmn.update_omega1(s, None, None),
           "omega0": lambda s, X, *rest: cmn.update_omega0(s, X, None), "z": update_z, "output": update_output,
           "beta0": lambda s, X, y, priors, v00, own: cmn.update_beta0(s, X, y, priors), "experts": _old(shared.update_experts)}
