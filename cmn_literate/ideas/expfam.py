# Tangled from book/ideas/expfam.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Building blocks

Apart from choices, and the coins behind them, four distributions and their expectations are all
that coordinate ascent will ever ask for.
"""

__all__ = ["second_moment", "pad", "padded_second_moment", "log_det", "gaussian_entropy",
           "gaussian_kl", "gamma_mean_log", "gamma_kl", "mng_kl", "spd_inverse"]


# book/ideas/expfam.ipynb, cell expfam-05
import autograd.numpy as anp
import numpy as np
from cmn_literate.special import digamma, gammaln


def second_moment(mu, S):
    """E[x x^T] of N(mu, S).  [eq-second-moment]

    mu (..., m), S (..., m, m) -> (..., m, m)
    """
    return S + mu[..., :, None] * mu[..., None, :]


# book/ideas/expfam.ipynb, cell expfam-07
def pad(X):
    """Padded inputs [x; 1], the 1 last.  [eq-pad]

    X (..., d) -> (..., d+1) float64
    """
    X = np.asarray(X, dtype=float)
    return np.concatenate([X, np.ones(X.shape[:-1] + (1,))], axis=-1)


# book/ideas/expfam.ipynb, cell expfam-08
def padded_second_moment(mu, S):
    """E[x~ x~^T] of x ~ N(mu, S), x~ = [x; 1].  [eq-padded-moment]

    mu (..., m), S (..., m, m) -> (..., m+1, m+1)
    """
    top = anp.concatenate([second_moment(mu, S), mu[..., :, None]], axis=-1)
    bottom = anp.concatenate([mu, anp.ones(mu.shape[:-1] + (1,))], axis=-1)
    return anp.concatenate([top, bottom[..., None, :]], axis=-2)


# book/ideas/expfam.ipynb, cell expfam-13
def _trace(S):
    """Trace over the last two axes, in a form that autograd can differentiate."""
    return anp.sum(S * np.eye(S.shape[-1]), axis=(-2, -1))


def log_det(S):
    """log |S| of symmetric positive definite S.  [eq-gaussian]

    S (..., m, m) -> (...)

    Differentiable; positive definiteness is *not* checked (spd_inverse does).
    """
    return anp.linalg.slogdet(S)[1]


# book/ideas/expfam.ipynb, cell expfam-14
def gaussian_entropy(S):
    """Entropy of N(mu, S) in nats, for any mu.  [eq-gaussian-entropy]

    S (..., m, m) -> (...)
    """
    m = S.shape[-1]
    return 0.5 * m * (1 + anp.log(2 * anp.pi)) + 0.5 * log_det(S)


# book/ideas/expfam.ipynb, cell expfam-15
def gaussian_kl(mu, S, sigma):
    """KL[N(mu, S) || N(0, sigma^2 I)] in nats.  [eq-gaussian-kl]

    mu (..., m), S (..., m, m), sigma > 0 a standard deviation -> (...)
    """
    m = mu.shape[-1]
    spread = _trace(S) + anp.sum(mu ** 2, axis=-1)
    return 0.5 * (spread / sigma ** 2 - m + m * anp.log(sigma ** 2) - log_det(S))


# book/ideas/expfam.ipynb, cell expfam-19
def gamma_mean_log(a, b):
    """E[log tau], tau ~ Gamma(shape a, rate b).  [eq-gamma-mean-log]

    a, b > 0 (...) -> (...)
    """
    return digamma(a) - anp.log(b)


# book/ideas/expfam.ipynb, cell expfam-21
def gamma_kl(a, b, a0, b0):
    """KL[Gamma(a, b) || Gamma(a0, b0)] in nats.  [eq-gamma-kl]

    shapes a, a0 > 0 and rates b, b0 > 0 (...) -> (...)
    """
    return ((a - a0) * digamma(a) - gammaln(a) + gammaln(a0)
            + a0 * (anp.log(b) - anp.log(b0)) + a * (b0 - b) / b)


# book/ideas/expfam.ipynb, cell expfam-32
def mng_kl(M, V, a, b, v0, a0, b0):
    """KL of each expert's matrix-normal-gamma from its prior, nats.  [eq-mng-kl]

    M (K, h, D), V (K, D, D) column covariance, a (K,), b (K, h) rates;
    the prior is M = 0, V = v0 I, a0, b0  -> (K,)
    """
    h, D = M.shape[-2:]
    rows = h * (_trace(V) / v0 - D + D * anp.log(v0) - log_det(V))
    means = anp.sum(a[:, None] / b * anp.sum(M ** 2, axis=-1), axis=-1) / v0
    return 0.5 * (rows + means) + anp.sum(gamma_kl(a[:, None], b, a0, b0), axis=-1)


# book/ideas/expfam.ipynb, cell expfam-36
def _triangle_inverse(C):
    """C^-1 of lower triangular C (..., m, m).  [eq-triangle-inverse]"""
    m = C.shape[-1]
    if m <= 16:
        return np.linalg.inv(C)
    k, out = m // 2, np.zeros_like(C)
    F, H = _triangle_inverse(C[..., :k, :k]), _triangle_inverse(C[..., k:, k:])
    out[..., :k, :k], out[..., k:, k:] = F, H
    np.negative(H @ (C[..., k:, :k] @ F), out=out[..., k:, :k])
    return out


def spd_inverse(P):
    """Inverse and log determinant of positive definite matrices.  [eq-cholesky]

    P (..., m, m) symmetric, only the lower triangle is read
    -> inverse (..., m, m), log |P| (...), float64
    ValueError if a matrix is not positive definite or not finite.
    """
    P = np.asarray(P, dtype=float)
    try:
        C = np.linalg.cholesky(P)
        log_det_P = 2 * np.log(C.diagonal(0, -2, -1)).sum(axis=-1)
        if not np.isfinite(log_det_P).all():            # LAPACK may let NaN pass
            raise np.linalg.LinAlgError
    except np.linalg.LinAlgError:
        raise ValueError("P: expected symmetric positive definite matrices, "
                         "got one that is not") from None
    W = _triangle_inverse(C)
    return np.swapaxes(W, -1, -2) @ W, log_det_P
