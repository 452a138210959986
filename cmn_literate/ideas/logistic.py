# Tangled from book/ideas/logistic.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Mean field, where quadrature knows the answer

Mean-field coordinate ascent turns Bayesian logistic regression into weighted least squares, solved
again and again, without a gradient and without a step size. On problems small enough for
quadrature we can see exactly what that gains and what it loses.
"""

__all__ = ["coefficients_from_sums", "coefficients_from_inverse", "regression_update",
           "regression_moments", "stick_log_bound", "regression_bound", "MultinomialFit",
           "fit_multinomial", "log_sigmoid_normal", "sigmoid_normal", "stick_log_means",
           "predict_multinomial"]


# book/ideas/logistic.ipynb, cell logistic-02
import math
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np
from scipy.special import erfcx

from cmn_literate.checks import (
    check_digits, check_instance, check_normal, check_regression, check_X)
from cmn_literate.ideas.expfam import gaussian_kl, pad, second_moment, spd_inverse
from cmn_literate.ideas.polya_gamma import pg_kl, pg_mean
from cmn_literate.ideas.stick_breaking import stick_counts


# book/ideas/logistic.ipynb, cell logistic-06
def coefficients_from_sums(gram, linear, sigma):
    """q(beta_j) = N(mu_j, S_j) of each stick from its sums over rows.
    [eq-mr-beta, eq-mr-normaliser]

    gram (J,D,D) = sum_n E[omega_nj] x~ x~^T,  linear (J,D) = sum_n kappa_nj x~, sigma > 0
    -> mu (J,D), S (J,D,D): S_j^-1 = I/sigma^2 + gram_j, mu_j = S_j linear_j
       log_normaliser (J,), nats: the maximum over q(beta_j) of
       E[linear . beta - beta^T gram beta / 2] - KL[q || N(0, sigma^2 I)]
    """
    S, log_det_P = spd_inverse(gram + np.eye(gram.shape[-1]) / sigma**2)
    return coefficients_from_inverse(S, log_det_P, linear, sigma)


# book/ideas/logistic.ipynb, cell logistic-07
def coefficients_from_inverse(S, log_det_P, linear, sigma):
    """coefficients_from_sums, if S_j and log |S_j^-1| (J,) are known already.
    [eq-mr-beta, eq-mr-normaliser]"""
    mu, D = (S @ linear[:, :, None])[:, :, 0], S.shape[-1]
    return mu, S, 0.5 * ((linear * mu).sum(-1) - log_det_P) - D * math.log(sigma)


# book/ideas/logistic.ipynb, cell logistic-08
def regression_update(design, b, kappa, xi, sigma):
    """Optimal q(beta) given q(omega) = PG(b, xi).  [eq-mr-beta]

    design (N,D) inputs, padded if there is an intercept; b, kappa, xi (N,J); sigma > 0
    -> mu (J,D), S (J,D,D).   D x D solves only; no step size.
    """
    omega = b * pg_mean(1.0, xi)
    gram = np.stack([(design * w[:, None]).T @ design for w in omega.T])
    return coefficients_from_sums(gram, kappa.T @ design, sigma)[:2]


# book/ideas/logistic.ipynb, cell logistic-13
def regression_moments(design, mu, S):
    """E[psi] and E[psi^2] of psi_nj = beta_j . x~_n under q(beta).  [eq-mr-omega]

    design (N,D), mu (J,D), S (J,D,D) -> (N,J), (N,J)
    The optimal tilt of omega_nj is the root of the second.
    """
    B = second_moment(mu, S)
    return design @ mu.T, anp.sum(anp.tensordot(design, B, axes=(1, 1)) * design[:, None, :], -1)


# book/ideas/logistic.ipynb, cell logistic-17
def stick_log_bound(psi, psi2, xi, b, kappa):
    """E[ln p(y, omega | psi) - ln q(omega)] of a choice by sticks.  [eq-mr-bound]

    psi, psi2 = E[psi], E[psi^2]; omega_j ~ PG(b_j, xi_j); b, kappa of stick_counts
    all (..., J), broadcast -> (...) nats
    """
    cost = anp.log(2.0) + 0.5 * pg_mean(1.0, xi) * psi2 + pg_kl(1.0, xi)
    return anp.sum(kappa * psi - b * cost, -1)


# book/ideas/logistic.ipynb, cell logistic-18
def regression_bound(design, b, kappa, mu, S, xi, sigma):
    """Complete ELBO of the regression, at most ln p(y | X).  [eq-mr-bound]

    design (N,D); b, kappa, xi (N,J); mu (J,D), S (J,D,D); sigma > 0 -> nats
    Differentiable in mu, S, xi.
    """
    psi, psi2 = regression_moments(design, mu, S)
    rows = anp.sum(stick_log_bound(psi, psi2, xi, b, kappa))
    return rows - anp.sum(gaussian_kl(mu, S, sigma))


# book/ideas/logistic.ipynb, cell logistic-24
class MultinomialFit(NamedTuple):
    """q(beta) and q(omega) of a regression; J = L - 1 sticks, D = d + intercept.

    mu (J,D), S (J,D,D)  q(beta_l) = N(mu_l, S_l); the intercept, if any, is last
    xi (N,J)             q(omega_nl) = PG(b_nl, xi_nl)
    elbo (n_sweeps,)     bound after each sweep, nats
    n_sweeps, converged  sweeps done; whether the last gained at most tol a row
    intercept            whether a 1 was appended to the inputs
    """
    mu: np.ndarray
    S: np.ndarray
    xi: np.ndarray
    elbo: np.ndarray
    n_sweeps: int
    converged: bool
    intercept: bool


# book/ideas/logistic.ipynb, cell logistic-25
def fit_multinomial(X, y, n_classes=None, prior_scale=5.0, intercept=True,
                    max_sweeps=2000, tol=1e-7):
    """Bayesian stick-breaking multinomial regression by coordinate ascent.
    [eq-mr-beta, eq-mr-omega, eq-mr-bound]

    X (N,d) inputs; y (N,) classes 0..L-1; prior_scale > 0 deviation of every coefficient
    tol >= 0: stop when a sweep gains at most this many nats per row
    -> MultinomialFit. For two classes psi is the log odds of class 0.
    """
    X, y, n_classes, max_sweeps = check_regression(
        X, y, n_classes, prior_scale, intercept, max_sweeps, tol)
    Xt = pad(X) if intercept else X
    b, kappa = stick_counts(np.eye(n_classes)[y])
    xi, trace, converged = np.zeros(b.shape), [], False
    while len(trace) < max_sweeps and not converged:
        mu, S = regression_update(Xt, b, kappa, xi, prior_scale)
        xi = np.sqrt(regression_moments(Xt, mu, S)[1])
        trace.append(float(regression_bound(Xt, b, kappa, mu, S, xi, prior_scale)))
        converged = len(trace) > 1 and trace[-1] - trace[-2] <= tol * len(X)
    return MultinomialFit(mu, S, xi, np.array(trace), len(trace), converged, bool(intercept))


# book/ideas/logistic.ipynb, cell logistic-42
def _log_tail_trapezoid(m, v, digits):
    """ln E sigma(psi), m <= 0, moderate v: trapezoids in t = (psi - m)/sqrt(v).
    [eq-sn-pair, eq-sn-step]"""
    s, cut = np.sqrt(v), (digits + 1.5) * np.log(10)
    s_max = max(s.max(), 1e-6)
    r = min(np.pi / s_max, np.sqrt(2 * cut))
    h = 2 * np.pi * r / (cut + r**2 / 2)
    q = np.exp(m)
    step, C, C_before = 2 * np.cosh(s * h), np.ones_like(s), np.cosh(s * h)
    base = 1 + q**2
    total = np.zeros_like(s)
    top = np.empty_like(s)
    below = np.empty_like(s)
    for i in range(int((s_max + np.sqrt(2 * cut)) / h) + 2):
        np.add(C, q, out=top)  # in place: no temporary arrays in the loop
        np.multiply(q, C, out=below)
        below *= 2
        below += base
        top /= below
        top *= ((2 if i else 1) * h
                * np.exp(-(i * h) ** 2 / 2) / np.sqrt(2 * np.pi))
        total += top
        np.multiply(step, C, out=below)
        below -= C_before
        C_before, C, below = C, below, C_before
    return m + np.log(total)


# book/ideas/logistic.ipynb, cell logistic-43
def _alternating_weights(n):
    """w_k with sum_{k<n} w_k a_k = sum_k (-1)^k a_k up to a factor 1 +- 1/T_n(3).
    [eq-sn-accelerate]"""
    scale, p, w, weights = np.cosh(n * np.arccosh(3.0)), 1.0, 0.0, []
    for k in range(n):
        w = (k == 0) - p / scale - w
        weights.append(w)
        p *= (k + n) * (k - n) / ((k + 0.5) * (k + 1))
    return weights


def _log_tail_series(m, v, digits):
    """ln E sigma(psi) for m <= 0 and v > 25: two accelerated alternating series.
    [eq-sn-halves, eq-sn-reflect]"""
    n = int(np.ceil(((digits + 1) * np.log(10) + np.log(2)) / np.arccosh(3.0)))
    deep = m < -v / 2
    lift, m = np.where(deep, m + v / 2, 0.0), np.where(deep, -m - v, m)
    # both over sqrt 2, as erfcx wants them
    a, s = np.minimum(m / np.sqrt(2 * v), 26.0), np.sqrt(v / 2)
    total = sum(w * (erfcx((k + 1) * s + a) + erfcx(k * s - a))
                for k, w in enumerate(_alternating_weights(n)))
    return lift - a**2 + np.log(total / 2)


# book/ideas/logistic.ipynb, cell logistic-44
def _log_sigmoid_normal_both(m, v, digits):
    """ln E sigma(psi) and ln E sigma(-psi), psi ~ N(m, v).  [eq-sigmoid-normal]"""
    (m, v), digits = check_normal(m, v), check_digits(digits)
    order = np.argsort(v, axis=None)
    v_sorted, m_sorted = v.ravel()[order], -np.abs(m.ravel()[order])
    split = int(np.searchsorted(v_sorted, 25.0, side="right"))
    tail = np.empty(v.size)
    for rule, start, stop in ((_log_tail_trapezoid, 0, split),
                              (_log_tail_series, split, v.size)):
        for i in range(start, stop, 8192):
            block = slice(i, min(i + 8192, stop))
            tail[order[block]] = rule(m_sorted[block], v_sorted[block], digits)
    low = tail.reshape(m.shape)
    high = np.log1p(-np.exp(low))
    return np.where(m < 0, low, high), np.where(m < 0, high, low)


# book/ideas/logistic.ipynb, cell logistic-45
def log_sigmoid_normal(m, v, digits=12):
    """ln E sigma(psi), psi ~ N(m, v).  [eq-sigmoid-normal]

    m, v (...) broadcast, v >= 0 variances -> (...) nats, at most 0
    Relative error of the mean: below 10^-digits, plus (1 + |log|) x 1e-15 by
    rounding; fewer digits are faster. Plain numpy, not differentiable.
    """
    return _log_sigmoid_normal_both(m, v, digits)[0]


def sigmoid_normal(m, v, digits=12):
    """E sigma(psi), psi ~ N(m, v).  [eq-sigmoid-normal]

    m, v (...) broadcast, v >= 0 variances -> (...) in [0, 1], with relative
    accuracy in the lower tail too
    """
    return np.exp(_log_sigmoid_normal_both(m, v, digits)[0])


# book/ideas/logistic.ipynb, cell logistic-49
def stick_log_means(m, v, digits=12):
    """ln E pi_c of sticks with independent psi_l ~ N(m_l, v_l).  [eq-mr-predict]

    m, v (..., J) -> (..., J+1) nats; logsumexp over the last axis is 0.
    """
    log_stop, log_pass = _log_sigmoid_normal_both(m, v, digits)
    one = np.zeros(log_stop.shape[:-1] + (1,))
    log_reach = np.concatenate([one, np.cumsum(log_pass, -1)], -1)
    return log_reach + np.concatenate([log_stop, one], -1)


# book/ideas/logistic.ipynb, cell logistic-50
def predict_multinomial(fit, X, digits=12):
    """Predictive class probabilities, weights integrated out.  [eq-mr-predict]

    fit from fit_multinomial, X (n, d) -> (n, L), rows add up to 1
    ValueError on the wrong number of columns.
    """
    check_instance(fit, "fit", MultinomialFit, "what fit_multinomial returns")
    X = check_X(X, n_features=fit.mu.shape[1] - fit.intercept)
    Xt = pad(X) if fit.intercept else X
    variance = np.sum(np.tensordot(Xt, fit.S, axes=(1, 1)) * Xt[:, None, :], -1)
    return np.exp(stick_log_means(Xt @ fit.mu.T, variance, digits))
