"""p(y | x, Theta) with the experts summed and the latent vector integrated out, from the definition: adaptive quadrature over
all h coordinates of x1 (h = 1, 2), or plain Monte Carlo over x1. A theta is (beta1, beta0, A, tau)."""
import math

import numpy as np
from scipy.integrate import nquad
from scipy.special import expit


def sigma(t):
    return 1 / (1 + math.exp(-t)) if t > 0 else math.exp(t) / (1 + math.exp(t))


def walk(coefficients, x, c):
    """Probability of category c of a stick-breaking logit with inputs x, one coin at a time."""
    p = 1.0
    for j, row in enumerate(coefficients):
        psi = sum(b * v for b, v in zip(row, [*x, 1.0]))
        if j == c:
            return p * sigma(psi)
        p *= sigma(-psi)
    return p


def probability(theta, x, c, reach=9.0):
    """p(y = c | x, Theta) by nquad, standardised coordinates within +-reach; h = 1 or 2."""
    beta1, beta0, A, tau = (np.asarray(part).tolist() for part in theta)
    total = 0.0
    for k, (rows, precisions) in enumerate(zip(A, tau)):
        mean = [sum(a * v for a, v in zip(row, [*x, 1.0])) for row in rows]
        sd = [p**-0.5 for p in precisions]

        def integrand(*e):
            x1 = [m + s * v for m, s, v in zip(mean, sd, e)]
            return math.exp(-0.5 * sum(v * v for v in e)) * walk(beta1, x1, c)
        norm = (2 * math.pi) ** (-len(rows) / 2)
        value = nquad(integrand, [(-reach, reach)] * len(rows), opts={"epsabs": 1e-9, "epsrel": 1e-8, "limit": 100})[0]
        total += walk(beta0, x, k) * norm * value
    return total


def monte_carlo(theta, x, rng, n_draws):
    """Mean and standard error of p(y | x1) over draws of z and x1: (L,), (L,)."""
    beta1, beta0, A, tau = (np.asarray(part) for part in theta)
    gate = np.array([walk(beta0, x, k) for k in range(len(A))])
    z = rng.choice(len(A), size=n_draws, p=gate / gate.sum())
    x1 = (A @ np.append(x, 1.0))[z] + rng.normal(size=(n_draws, A.shape[1])) / np.sqrt(tau[z])
    left, out = np.ones(n_draws), []
    for row in beta1:
        stop = expit(x1 @ row[:-1] + row[-1])
        out.append(left * stop)
        left = left * (1 - stop)
    p = np.stack([*out, left], 1)
    return p.mean(0), p.std(0) / np.sqrt(n_draws)


def normal_logpdf(x, mean, var):
    return -0.5 * math.log(2 * math.pi * var) - (x - mean) ** 2 / (2 * var)


def log_prior(theta, v0, a0, b0, sigma0, sigma1):
    """ln p(Theta) + sum ln tau, number by number."""
    beta1, beta0, A, tau = theta
    total = 0.0
    for b in np.ravel(beta1):
        total += normal_logpdf(b, 0, sigma1**2)
    for b in np.ravel(beta0):
        total += normal_logpdf(b, 0, sigma0**2)
    for k in range(len(A)):
        for i in range(len(A[k])):
            t = tau[k][i]
            total += a0 * math.log(b0) - math.lgamma(a0) + (a0 - 1) * math.log(t) - b0 * t + math.log(t)
            for a in A[k][i]:
                total += normal_logpdf(a, 0, v0 / t)
    return total
