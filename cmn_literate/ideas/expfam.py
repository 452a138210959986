# Tangled from book/ideas/expfam.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Building blocks

Four distributions and their expectations are all that coordinate ascent will ever ask for.
"""

__all__ = ["second_moment", "pad", "padded_second_moment", "log_det", "gaussian_entropy",
           "gaussian_kl", "gamma_mean_log", "gamma_kl", "mng_kl", "spd_inverse",
           "spd_inverse_stacked"]


# book/ideas/expfam.ipynb, cell expfam-05
import autograd.numpy as anp
import numpy as np
from autograd.scipy.special import digamma, gammaln


def second_moment(mu, S):
    """E[x x^T] of N(mu, S).  [eq-second-moment]

    mu (..., m), S (..., m, m) -> (..., m, m)
    """
    return S + mu[..., :, None] * mu[..., None, :]


# book/ideas/expfam.ipynb, cell expfam-06
def pad(X):
    """Padded inputs [x; 1], the 1 last.  [eq-pad]

    X (..., d) -> (..., d+1) float64
    """
    X = np.asarray(X, dtype=float)
    return np.concatenate([X, np.ones(X.shape[:-1] + (1,))], axis=-1)


# book/ideas/expfam.ipynb, cell expfam-07
def padded_second_moment(mu, S):
    """E[x~ x~^T] of x ~ N(mu, S), x~ = [x; 1].  [eq-padded-moment]

    mu (..., m), S (..., m, m) -> (..., m+1, m+1)
    """
    top = anp.concatenate([second_moment(mu, S), mu[..., :, None]], axis=-1)
    bottom = anp.concatenate([mu, anp.ones(mu.shape[:-1] + (1,))], axis=-1)
    return anp.concatenate([top, bottom[..., None, :]], axis=-2)


# book/ideas/expfam.ipynb, cell expfam-15
def _trace(S):
    """Trace over the last two axes, in a form that autograd can differentiate."""
    return anp.sum(S * np.eye(S.shape[-1]), axis=(-2, -1))


def log_det(S):
    """log |S| of symmetric positive definite S.  [eq-gaussian]

    S (..., m, m) -> (...)

    Differentiable; positive definiteness is *not* checked (spd_inverse does).
    """
    return anp.linalg.slogdet(S)[1]


# book/ideas/expfam.ipynb, cell expfam-16
def gaussian_entropy(S):
    """Entropy of N(mu, S) in nats, for any mu.  [eq-gaussian-entropy]

    S (..., m, m) -> (...)
    """
    m = S.shape[-1]
    return 0.5 * m * (1 + anp.log(2 * anp.pi)) + 0.5 * log_det(S)


# book/ideas/expfam.ipynb, cell expfam-17
def gaussian_kl(mu, S, sigma):
    """KL[N(mu, S) || N(0, sigma^2 I)] in nats.  [eq-gaussian-kl]

    mu (..., m), S (..., m, m), sigma > 0 a standard deviation -> (...)
    """
    m = mu.shape[-1]
    spread = _trace(S) + anp.sum(mu ** 2, axis=-1)
    return 0.5 * (spread / sigma ** 2 - m + m * anp.log(sigma ** 2) - log_det(S))


# book/ideas/expfam.ipynb, cell expfam-21
def gamma_mean_log(a, b):
    """E[log tau], tau ~ Gamma(shape a, rate b).  [eq-gamma-mean-log]

    a, b > 0 (...) -> (...)
    """
    return digamma(a) - anp.log(b)


# book/ideas/expfam.ipynb, cell expfam-22
def gamma_kl(a, b, a0, b0):
    """KL[Gamma(a, b) || Gamma(a0, b0)] in nats.  [eq-gamma-kl]

    shapes a, a0 > 0 and rates b, b0 > 0 (...) -> (...)
    """
    return ((a - a0) * digamma(a) - gammaln(a) + gammaln(a0)
            + a0 * (anp.log(b) - anp.log(b0)) + a * (b0 - b) / b)


# book/ideas/expfam.ipynb, cell expfam-30
def mng_kl(M, V, a, b, v0, a0, b0):
    """KL of each expert's matrix-normal-gamma from its prior, nats.  [eq-mng-kl]

    M (K, h, D), V (K, D, D) column covariance, a (K,), b (K, h) rates;
    the prior is M = 0, V = v0 I, a0, b0  -> (K,)
    """
    h, D = M.shape[-2:]
    rows = h * (_trace(V) / v0 - D + D * anp.log(v0) - log_det(V))
    means = anp.sum(a[:, None] / b * anp.sum(M ** 2, axis=-1), axis=-1) / v0
    return 0.5 * (rows + means) + anp.sum(gamma_kl(a[:, None], b, a0, b0), axis=-1)


# book/ideas/expfam.ipynb, cell expfam-39
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


# book/ideas/expfam.ipynb, cell expfam-42
def _check_definite(is_so):
    if not is_so:
        raise ValueError("P: expected symmetric positive definite matrices, got "
                         "one that is not")


def _inverse_two(P):
    """spd_inverse_stacked for m = 2; None if a determinant is out of range or not
    positive.  [eq-inverse-two]"""
    with np.errstate(over="ignore", invalid="ignore"):
        det = P[0, 0] * P[1, 1]
        det -= P[1, 0] * P[1, 0]
    in_range = det.min(initial=1.0) > 1e-300 and det.max(initial=1.0) < 1e300
    if not (in_range and P[0, 0].min(initial=1.0) > 0):
        return None
    inverse, r = np.empty_like(P), 1 / det
    np.multiply(P[1, 1], r, out=inverse[0, 0, ...])
    np.multiply(P[0, 0], r, out=inverse[1, 1, ...])
    np.multiply(P[1, 0], -r, out=inverse[1, 0, ...])
    inverse[0, 1] = inverse[1, 0]
    return inverse, np.log(det)


# book/ideas/expfam.ipynb, cell expfam-43
def _ldl_in_place(A):
    """P = L diag(d) L^T of matrices side by side, in the memory of P.  [eq-ldl]

    A (m, m, ...) holds P in its lower triangle; afterwards d on the diagonal,
    u below it (transposed) and minus L^T above it   -> -1/d (m, ...)
    """
    minus_r = np.empty_like(A[0])
    for j in range(A.shape[0]):
        if j:
            A[j:, j] += np.einsum("ki...,k...->i...", A[:j, j:], A[j, :j])
        np.divide(-1, A[j, j], out=minus_r[j, ...])
        np.multiply(A[j + 1:, j], minus_r[j], out=A[j, j + 1:])
    return minus_r


def _log_pivots(minus_r):
    """Sum of log d over axis 0, from -1/d; one log if products stay in range."""
    product = np.multiply.reduce(minus_r, axis=0, initial=(-1.0)**len(minus_r))
    logs = np.log(product)
    if not (np.vdot(logs, logs) < 600**2 or abs(logs).max() < 600):
        logs = np.log(-minus_r).sum(axis=0)
        _check_definite(np.isfinite(logs).all())        # no pivot is 0
    return -logs


# book/ideas/expfam.ipynb, cell expfam-44
def spd_inverse_stacked(P, overwrite=False):
    """Inverse and log determinant of many small positive definite matrices.
    [eq-inverse-row]

    P (m, m, ...) symmetric, side by side in the trailing axes, lower triangle read
    -> inverse (m, m, ...), log |P| (...), float64.  Loops over m only.
    overwrite=True may work in the memory of P, a float64 array.
    ValueError if one of the matrices is not positive definite or not finite.
    """
    A = P if overwrite else np.array(P, dtype=float)
    if A.shape[0] == 1:
        _check_definite(A.min(initial=1.0) > 0 and A.max(initial=1.0) < np.inf)
        return 1 / A, np.log(A[0, 0])
    if A.shape[0] == 2 and (two := _inverse_two(A)):
        return two
    with np.errstate(all="ignore"):                     # reported two lines on
        minus_r = _ldl_in_place(A)
        _check_definite(minus_r.max(initial=-1.0) < 0)
        log_det_P = _log_pivots(minus_r)
    np.negative(minus_r[-1], out=A[-1, -1, ...])
    for i in range(A.shape[0] - 2, -1, -1):  # the block below is Z already
        row, column = A[i, i + 1:], A[i + 1:, i]         # row: minus L^T
        np.einsum("jk...,k...->j...", A[i + 1:, i + 1:], row, out=column)
        corner = np.einsum("k...,k...->...", row, column)
        np.subtract(corner, minus_r[i], out=A[i, i, ...])
        A[i, i + 1:] = column
    return A, log_det_P
