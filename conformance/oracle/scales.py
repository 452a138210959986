"""Scales that the rows choose: one precision lambda for each block of coefficients, 1/v0, 1/sigma0^2 and 1/sigma1^2 in this order.

A priori lambda is a Gamma of shape `strength` whose mean the values v0, sigma0, sigma1 say; q(lambda) is a Gamma of mean lam_mean and shape lam_shape.
Straight from the equations: each coefficient has a Gaussian term of precision lambda (experts: tau lambda), and lambda is averaged wherever it stands.
"""

from loops import dot, trace
from mpmath import mpf
from special import digamma, log, log_gamma, sqrt
import shared


def learned(s):
    return "lam_mean" in s


def in_force(s):
    """The same state with the scales that the other factors meet: 1/E[lambda] for the variances."""
    if not learned(s):
        return s
    experts, gate, output = s["lam_mean"]
    return {**s, "v0": 1 / experts, "sigma0": sqrt(1 / gate), "sigma1": sqrt(1 / output)}


def variances(s):
    """What the priors of the three blocks say a variance is."""
    return [s["v0"], s["sigma0"] ** 2, s["sigma1"] ** 2]


def of_experts(s):
    """E[sum_ki tau_ki |A_ki - A_0i|^2], and how many entries the A_k have: the covariance V/tau of a row has lost its tau."""
    total, n = mpf(0), 0
    for k, M in enumerate(s["M"]):
        for i, m in enumerate(M):
            total += s["a"][k] / s["b"][k][i] * shared.misfit(s, i, m) + trace(s["V"][k])
            n += len(m)
    return total, n


def of_sticks(s, name, centres):
    """E[sum_j |beta_j - its prior mean|^2], and how many coefficients there are, biases and all."""
    total, n = mpf(0), 0
    for mu, S, centre in zip(s[f"{name}_mu"], s[f"{name}_S"], centres, strict=True):
        gap = mu if centre is None else [x - y for x, y in zip(mu, centre, strict=True)]
        total += dot(gap, gap) + trace(S)
        n += len(mu)
    return total, n


def misfits(s, centres0, centres1):
    return [of_experts(s), of_sticks(s, "beta0", centres0), of_sticks(s, "beta1", centres1)]


def update(s, centres0, centres1):
    """Best q(lambda) of each block; centres0, centres1: prior means of beta_0 and beta_1, None for 0."""
    c0, mean, shape = s["strength"], [], []
    for v, (Q, n) in zip(variances(s), misfits(s, centres0, centres1), strict=True):
        shape.append(c0 + mpf(n) / 2)
        mean.append(shape[-1] / (c0 * v + Q / 2))
    return {"lam_mean": mean, "lam_shape": shape}


def sizes(s):
    """How many coefficients each block has."""
    count = lambda table: sum(len(row) for row in table)
    return [sum(count(M) for M in s["M"]), count(s["beta0_mu"]), count(s["beta1_mu"])]


def kl(s):
    """E ln q(lambda) - E ln p(lambda) of each block, less n/2 (E ln lambda - ln E lambda): the other divergences go by E lambda, where E ln lambda is meant."""
    total, c0 = mpf(0), s["strength"]
    for mean, c, v, n in zip(s["lam_mean"], s["lam_shape"], variances(s), sizes(s), strict=True):
        rate, rate0 = c / mean, c0 * v
        mean_log = digamma(c) - log(rate)
        total += c * log(rate) - log_gamma(c) + (c - 1) * mean_log - c
        total -= c0 * log(rate0) - log_gamma(c0) + (c0 - 1) * mean_log - rate0 * mean
        total -= mpf(n) / 2 * (digamma(c) - log(c))
    return total
