"""Inputs made from a seed: tables for levels 0 and 1, and whole states.  Every number is one of float32."""

import numpy as np

LARGEST = {"N": 200, "K": 12, "L": 8, "h": 7, "d": 5}
FIRST = {"N": 7, "K": 3, "L": 3, "h": 2, "d": 2}
EPS = 2.0 ** -53
LOCAL, GLOBAL = ("gamma", "mu", "Sigma", "xi1", "xi0"), ("beta1_mu", "beta1_S", "beta0_mu", "beta0_S", "M", "V", "a", "b")
PRIORS = ("v0", "a0", "b0", "sigma0", "sigma1")
STATE = ("X", "y", *GLOBAL, *LOCAL, *PRIORS)


def single(values):
    """Rounded to float32, as float64."""
    return np.asarray(values, np.float32).astype(float)


def covariance(rng, count, m):
    """count symmetric matrices C C^T of triangular C, rounded, condition about 10 to 1000."""
    C = np.tril(rng.uniform(-0.5, 0.5, size=(*count, m, m)), -1) / np.sqrt(max(m - 1, 1)) + np.eye(m) * rng.uniform(0.4, 1.0, size=(*count, m, 1))
    S = np.einsum("...ij,...kj->...ik", C, C) / 2
    return single((S + np.swapaxes(S, -1, -2)) / 2)


class Problem:
    """A state, its data and priors: arrays by name in .given; .sizes; .tag says which it is."""

    def __init__(self, seed, number, shared=False):
        rng = np.random.default_rng([seed, number])
        low = {"N": 2, "K": 1, "L": 2, "h": 1, "d": 1}
        highs = {**LARGEST, "N": 60, "K": 8}
        self.sizes = [FIRST, LARGEST][number] if number < 2 else {k: int(rng.integers(low[k], highs[k], endpoint=True)) for k in low}
        self.tag, self.shared = ",".join(f"{k}={v}" for k, v in self.sizes.items()), shared
        N, K, L, h, d = (self.sizes[k] for k in "NKLhd")
        D, J = d + 1, L - 1
        positive = lambda *shape: single(rng.uniform(0.3, 3.0, size=shape))
        self.given = {
            "X": single(rng.normal(size=(N, d))), "y": rng.permutation(np.arange(N) % L),
            "beta1_mu": single(rng.normal(size=(J, h + 1))), "beta1_S": covariance(rng, (J,), h + 1),
            "beta0_mu": single(rng.normal(size=(K - 1, D))), "beta0_S": covariance(rng, (K - 1,), D),
            "M": single(rng.normal(size=(K, h, D))), "V": covariance(rng, (K,), D), "a": positive(K) + 1.5, "b": positive(K, h),
            "gamma": rng.dirichlet(np.ones(K), size=N), "mu": single(rng.normal(size=(N, K, h))), "Sigma": covariance(rng, (N, K), h),
            "xi1": positive(N, J) if shared else positive(N, K, J), "xi0": positive(N, K - 1),
            "v0": 3.0, "a0": 1.5, "b0": 0.75, "sigma0": 2.0, "sigma1": 1.25}

    @property
    def tolerance(self):
        """Relative to the largest entry of an answer: rounding of a sum over rows and experts, times the worst condition number there is."""
        worst = max(float(np.linalg.cond(self.given[name]).max(initial=1.0)) for name in ("beta1_S", "beta0_S", "V", "Sigma"))
        P = np.hstack([self.given["X"], np.ones((self.sizes["N"], 1))])
        worst = max(worst, float(np.linalg.cond(P.T @ P + np.eye(P.shape[1]) / self.given["v0"])))
        return 32 * EPS * (1 + worst) * np.sqrt(self.sizes["N"] * self.sizes["K"] + self.sizes["d"])

    def full_tilts(self):
        """xi1 for every expert, (N, K, L-1)."""
        xi1 = self.given["xi1"]
        return np.repeat(xi1[:, None], self.sizes["K"], 1) if self.shared else xi1


def tables(seed):
    """{operation: inputs} of levels 0 and 1, more than 64 entries each, close where a series may be cut."""
    rng, n = np.random.default_rng([seed, 1000]), 300
    c = np.concatenate([10.0 ** rng.uniform(-6, 1.6, n), rng.uniform(0.05, 4.0, n), [0.0, 0.37, 0.48, 0.5, 0.99, 1.0, 1.01, 2.0, 2.01]])
    c = single(c * rng.choice([-1.0, 1.0], len(c)))
    b = single(rng.uniform(0.0, 4.0, len(c)))
    psi = single(rng.normal(0, 3, size=(150, 7)))
    weights = np.concatenate([np.eye(8)[rng.integers(0, 8, 100)], single(rng.uniform(0, 2, size=(100, 8)))])
    a, rate = single(10.0 ** rng.uniform(-1, 2.5, 150)), single(10.0 ** rng.uniform(-2, 2, 150))
    tossed, excess = stickless(weights)
    first = single(rng.normal(size=(200, 7)))
    return {"psi": psi, "weights": weights, "b": b, "c": c, "m": single(rng.normal(0, 3, 120)), "v": single(rng.uniform(0, 9, 120)),
            "a": a, "rate": rate, "mu": single(rng.normal(size=7)), "S": covariance(rng, (), 7), "gamma": rng.dirichlet(np.full(12, 0.3), size=200),
            "first": first, "second": first**2 + single(rng.uniform(0.1, 2, size=(200, 7))), "xi": single(rng.uniform(0, 5, size=(200, 7))),
            "tossed": tossed, "excess": excess}


def stickless(weights):
    b = np.cumsum(weights[:, ::-1], 1)[:, ::-1][:, :-1]
    return b, weights[:, :-1] - b / 2
