"""Held-out calibration on data drawn from the prior, and how far a mean field may be off.  numpy alone, none of the package."""

from types import SimpleNamespace

import numpy as np

SETS, TRAIN, TEST = 16, 40, 200
K, D_IN, SPREAD, V0, A0, B0 = 3, 2, 5.0, 10.0, 2.0, 1.0   # experts, columns, sigma0 = sigma1, v0, a0, b0; one latent dimension, two classes


def sigmoid(t):
    return 0.5 * (1 + np.tanh(t / 2))


def draw_measured(rng, rows):
    """X and y of a network drawn from the prior, its latent value measured: sticks of the gate, expert k, value."""
    X = rng.normal(size=(rows, D_IN))
    padded = np.hstack([X, np.ones((rows, 1))])
    stop = sigmoid(padded @ rng.normal(0, SPREAD, size=(D_IN + 1, K - 1)))
    uniform, z, waiting = rng.random((rows, K - 1)), np.full(rows, K - 1), np.ones(rows, bool)
    for j in range(K - 1):
        here = waiting & (uniform[:, j] < stop[:, j])
        z[here], waiting = j, waiting & ~here
    tau = rng.gamma(A0, 1 / B0, size=K)
    A = rng.normal(size=(K, D_IN + 1)) * np.sqrt(V0 / tau)[:, None]
    return X, (A[z] * padded).sum(1) + rng.normal(size=rows) / np.sqrt(tau[z])


def draw_network(rng, rows):
    """X and y of a network drawn from the prior, y a label."""
    X, x1 = draw_measured(rng, rows)
    w, bias = rng.normal(0, SPREAD, size=2)
    return X, (rng.random(rows) >= sigmoid(w * x1 + bias)).astype(int)      # class 0 stops at the only stick


def mean_field_gap(rng, sets=20, grid=81):
    """E|p_mean_field - p_exact| of logistic regression, y ~ sigma(w x + b), w and b ~ N(0, SPREAD^2), with q by the Polya-Gamma updates.

    Exact by summing over a grid of (w, b) out to 4 standard deviations; E sigma(psi) under N(m, v) by 40 Gauss-Hermite nodes.
    """
    axis = np.linspace(-4 * SPREAD, 4 * SPREAD, grid)
    w, b = (a.ravel() for a in np.meshgrid(axis, axis))
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    gaps = []
    for _ in range(sets):
        truth, x, new = rng.normal(0, SPREAD, 2), rng.normal(size=TRAIN), rng.normal(size=20)
        sign = np.where(rng.random(TRAIN) < sigmoid(truth[0] * x + truth[1]), 1.0, -1.0)
        log_post = -(w**2 + b**2) / (2 * SPREAD**2)
        log_post = log_post - np.logaddexp(0, -sign * (np.outer(w, x) + b[:, None])).sum(1)
        posterior = np.exp(log_post - log_post.max())
        exact = posterior @ sigmoid(np.outer(w, new) + b[:, None]) / posterior.sum()
        design, tilt = np.stack([x, np.ones(TRAIN)], 1), np.zeros(TRAIN)
        for _ in range(300):
            half = np.where(tilt > 1e-6, np.tanh(tilt / 2) / (2 * np.maximum(tilt, 1e-6)), 0.25)
            S = np.linalg.inv((design * half[:, None]).T @ design + np.eye(2) / SPREAD**2)
            m = S @ (design.T @ sign) / 2
            tilt = np.sqrt((design @ m) ** 2 + np.einsum("ni,ij,nj->n", design, S, design))
        query = np.stack([new, np.ones(20)], 1)
        spread = np.sqrt(np.einsum("ni,ij,nj->n", query, S, query))
        mean_field = sigmoid((query @ m)[:, None] + spread[:, None] * nodes) @ weights / weights.sum()
        gaps.append(np.abs(mean_field - exact).mean())
    return float(np.mean(gaps))


def nearest_accuracy(X, y, query, truth):
    """Share of queries whose nearest training row has their label."""
    nearest = ((query[:, None] - X) ** 2).sum(-1).argmin(1)
    return np.mean(y[nearest] == truth)


def calibration_of(lab):
    """Averages over data sets drawn from the prior, each fitted on TRAIN rows and judged on TEST new ones; remembered by the lab."""
    if "calibration" not in lab.known:
        rng, over, memory, balance = lab.rng(10), [], [], []
        while len(over) < SETS:
            X, y = draw_network(rng, TRAIN + TEST)
            if len(set(y[:TRAIN])) < 2:                  # given the data the exact predictive is calibrated: choosing data sets by them is fair
                continue
            p = lab.ask(X[:TRAIN], y[:TRAIN].tolist(), X[TRAIN:]).proba[0]
            truth = y[TRAIN:]
            over.append(np.mean(p.max(1) - (p.argmax(1) == truth)))
            balance.append(np.mean((truth == 0) - p[:, 0]))
            memory.append(1 - nearest_accuracy(X[:TRAIN], y[:TRAIN], X[TRAIN:], truth))
        error = lambda values: float(np.std(values, ddof=1) / np.sqrt(SETS))
        lab.known["calibration"] = SimpleNamespace(over=float(np.mean(over)), over_error=error(over), gap=mean_field_gap(rng),
                                                   memory=float(np.mean(memory)),
                                                   memory_error=error(np.subtract(over, memory)), balance=float(np.mean(balance)),
                                                   balance_error=error(balance))
    return lab.known["calibration"]
