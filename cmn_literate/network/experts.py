# Tangled from book/network/experts.ipynb by tools/tangle.py; edit the notebook, not this file.
"""The experts: linear regression with unknown noise

Bayesian linear regression with unknown noise has a posterior and an evidence in closed form;
replace each count by a soft count, and you hold the update of the experts.
"""

__all__ = ["experts_from_sums", "experts_from_inverse", "two_pass_update",
           "regression_log_evidence", "mng_log_evidence", "weighted_gram", "expert_update",
           "row_quadratic", "expert_log_density"]


# book/network/experts.ipynb, cell experts-02
import math

import autograd.numpy as anp
import numpy as np
from scipy.special import gammaln

from cmn_literate.ideas.expfam import gamma_mean_log, spd_inverse
from cmn_literate.network.simulate import Priors
from cmn_literate.checks import check_X, plain_array
from cmn_literate.ideas.expfam import pad


# book/network/experts.ipynb, cell experts-08
def experts_from_sums(n_k, gram, cross, squares, M_ref, priors):
    """q(A_k, tau_k) of every expert from sums.  [eq-mng-bowl, eq-expert-sums]

    M_ref (K,h,D) reference means; residuals are r = mu - M_ref x~
    n_k (K,) = sum gamma;  gram (K,D,D) = sum gamma x~ x~^T
    cross (K,h,D) = sum gamma r x~^T;  squares (K,h) = sum gamma (r^2 + Sigma_ii)
    -> (M (K,h,D), V (K,D,D) covariance, a (K,), b (K,h) rate), log_normaliser (K,)
       the maximum of the bound, without -(h/2) n_k ln 2 pi  [eq-expert-maximum]
    """
    V, log_det_P = spd_inverse(gram + np.eye(M_ref.shape[-1]) / priors.v0)
    return experts_from_inverse(n_k, V, log_det_P, cross, squares, M_ref, priors)


# book/network/experts.ipynb, cell experts-09
def experts_from_inverse(n_k, V, log_det_P, cross, squares, M_ref, priors):
    """experts_from_sums, if V_k and log |V_k^-1| (K,) are known already.
    [eq-mng-bowl, eq-expert-sums, eq-expert-maximum]"""
    (h, D), p = M_ref.shape[-2:], priors
    at_zero = M_ref / p.v0                          # pull of the prior to M = 0
    pull = cross - at_zero
    shift = pull @ V
    a = p.a0 + n_k / 2
    energy = squares + (M_ref * at_zero - shift * pull).sum(-1)
    b = p.b0 + 0.5 * np.maximum(energy, 0.0)
    prior = math.lgamma(p.a0) - p.a0 * math.log(p.b0) + 0.5 * D * math.log(p.v0)
    log_normaliser = h * (gammaln(a) - 0.5 * log_det_P - prior)
    return (M_ref + shift, V, a, b), log_normaliser - a * np.log(b).sum(-1)


# book/network/experts.ipynb, cell experts-12
def two_pass_update(Xt, gram, gamma, mu, spread, priors):
    """q(A_k, tau_k) from sums about 0, then about that M.  [eq-expert-update]

    Xt (N,D) design; gram (K,D,D) = sum_n gamma Xt Xt^T; gamma (N,K) weights;
    mu (N,K,h) means of x1; spread (N,K,h) its variances Sigma_ii
    -> (M, V, a, b), log_normaliser (K,) as from experts_from_sums
    """
    arrays = Xt, gamma, mu, spread
    Xt, gamma, mu, spread = (np.asarray(v, float) for v in arrays)
    M = np.zeros((mu.shape[1], mu.shape[2], Xt.shape[1]))
    for _ in range(2):
        r = mu - np.einsum("kid,nd->nki", M, Xt)
        cross = np.einsum("nk,nki,nd->kid", gamma, r, Xt, optimize=True)
        squares = np.einsum("nk,nki->ki", gamma, r ** 2 + spread)
        sums = gamma.sum(0), gram, cross, squares
        factor, log_normaliser = experts_from_sums(*sums, M, priors)
        M = factor[0]
    return factor, log_normaliser


# book/network/experts.ipynb, cell experts-14
def regression_log_evidence(design, targets, v0, a0, b0, M0=0.0):
    """ln p(targets) of linear regression on a design, nats.  [eq-mng-evidence]

    design (N,D) used as it stands, no column added; targets (N,h), independent
    v0 variance scale, a0 shape, b0 rate; M0 prior mean, number or (h,D)  -> float
    ValueError if a shape does not fit or an entry is not finite.
    """
    design, targets = check_X(design, "design"), check_X(targets, "targets")
    (N, D), h = design.shape, targets.shape[1]
    if len(targets) != N:
        raise ValueError(f"targets: expected {N} rows, got {len(targets)}")
    M0 = plain_array(M0, "M0")
    if M0.shape not in ((), (h, D)):
        raise ValueError(f"M0: expected a number or shape {(h, D)}, got {M0.shape}")
    M0 = check_X(np.atleast_2d(M0), "M0")
    rest = (targets - design @ np.broadcast_to(M0, (h, D)).T)[:, None]
    known = (design.T @ design)[None], np.ones((N, 1)), rest, np.zeros((N, 1, h))
    _, log_normaliser = two_pass_update(design, *known, Priors(v0, a0, b0))
    return float(log_normaliser[0] - 0.5 * h * N * np.log(2 * np.pi))


# book/network/experts.ipynb, cell experts-15
def mng_log_evidence(X, x1, v0, a0, b0, M0=0.0):
    """ln p(x1 | X) of an expert that has seen its outputs.  [eq-mng-evidence]

    X (N,d) unpadded inputs, x1 (N,h) outputs, M0 a number or (h,d+1)  -> nats
    ValueError as from regression_log_evidence.
    """
    X, x1 = check_X(X), check_X(x1, "x1")
    if len(x1) != len(X):
        raise ValueError(f"x1: expected {len(X)} rows, got {len(x1)}")
    return regression_log_evidence(pad(X), x1, v0, a0, b0, M0)


# book/network/experts.ipynb, cell experts-20
def weighted_gram(X, weights):
    """sum_n w_nk x~_n x~_n^T of every k.  [eq-expert-sums]

    X (N,d) unpadded, weights (N,K) -> (K,D,D), D = d+1
    """
    Xt, D = pad(X), X.shape[1] + 1
    return np.array([(w * Xt.T) @ Xt for w in weights.T]).reshape(-1, D, D)


# book/network/experts.ipynb, cell experts-21
def expert_update(X, gamma, mu, Sigma, priors):
    """q(A_k, tau_k) given q(x1, z).  [eq-expert-update]

    X (N,d) unpadded, gamma (N,K), mu (N,K,h), Sigma (N,K,h,h)
    -> M (K,h,D), V (K,D,D) covariance, a (K,) shape, b (K,h) rate;  D = d+1
    """
    gram, spread = weighted_gram(X, gamma), np.diagonal(Sigma, axis1=-1, axis2=-2)
    return two_pass_update(pad(X), gram, gamma, mu, spread, priors)[0]


# book/network/experts.ipynb, cell experts-27
def row_quadratic(X, S):
    """x~_n^T S_k x~_n of all rows and matrices.  [eq-expert-density]

    X (N,d) unpadded, S (K,D,D) -> (N,K)
    """
    Xt = pad(X)
    return anp.sum(anp.tensordot(Xt, S, axes=(1, 1)) * Xt[:, None, :], -1)


# book/network/experts.ipynb, cell experts-28
def expert_log_density(X, mu, Sigma, M, V, a, b):
    """E[ln N(x1; A_k x~, diag(1/tau_k))] over x1, A and tau.  [eq-expert-density]

    X (N,d) unpadded; mu (N,K,h), Sigma (N,K,h,h) of q(x1|z=k)
    M (K,h,D), V (K,D,D), a (K,), b (K,h) of q(A_k, tau_k)   -> (N,K) nats
    """
    r = mu - anp.einsum("kid,nd->nki", M, pad(X))
    square = r ** 2 + anp.diagonal(Sigma, axis1=-1, axis2=-2)
    log_scale = gamma_mean_log(a[:, None], b) - anp.log(2 * anp.pi)
    per_row = 0.5 * anp.sum(log_scale - a[:, None] / b * square, -1)
    return per_row - 0.5 * mu.shape[-1] * row_quadratic(X, V)
