# Tangled from book/engineering/packed.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Packed algebra: symmetric matrices by the thousand

Half of a symmetric matrix says it all, one matrix product makes all Gram matrices of a sweep, and
a loop over $h$ inverts a hundred thousand small matrices at once.
"""

__all__ = ["lower_triangle", "outer_features", "unpack_symmetric", "pack_quadratic", "packed_gram",
           "spd_inverse_stacked"]


# book/engineering/packed.ipynb, cell packed-02
from functools import lru_cache

import numpy as np

from cmn_literate.ideas.expfam import pad


# book/engineering/packed.ipynb, cell packed-05
@lru_cache(maxsize=64)
def lower_triangle(m):
    """How a symmetric (m,m) matrix is packed: i >= j by rows.  [eq-outer-features]

    -> row i and column j of each of the m(m+1)/2 entries;
       its weight in a quadratic form: 1 if i = j, else 2  [eq-pack-quadratic];
       place (m, m): where entry (i, j) of the matrix is packed;
       entry: m i + j, where the flattened matrix has it
    """
    i, j = np.tril_indices(m)
    place = np.zeros((m, m), int)
    place[i, j] = place[j, i] = np.arange(i.size)
    parts = i, j, np.where(i == j, 1.0, 2.0), place, m * i + j
    for array in parts:                      # one copy serves every call
        array.flags.writeable = False
    return parts


# book/engineering/packed.ipynb, cell packed-08
def outer_features(XtT):
    """Distinct entries of x~ x~^T for many rows, rows last.  [eq-outer-features]

    XtT (D,B) -> (D(D+1)/2, B) in lower_triangle order
    """
    D, B = XtT.shape
    F, start = np.empty((D * (D + 1) // 2, B)), 0
    for i in range(D):
        np.multiply(XtT[i], XtT[:i + 1], out=F[start:start + i + 1])
        start += i + 1
    return F


# book/engineering/packed.ipynb, cell packed-09
def unpack_symmetric(packed, m):
    """Packed (..., m(m+1)/2) -> symmetric (..., m, m).  [eq-outer-features]"""
    return packed.take(lower_triangle(m)[3], -1)


def pack_quadratic(S):
    """Weights s with s . outer_features(x) = x^T S x.  [eq-pack-quadratic]

    S (..., m, m) symmetric -> (..., m(m+1)/2)
    """
    m = S.shape[-1]
    _, _, weight, _, entry = lower_triangle(m)
    return S.reshape(S.shape[:-2] + (m * m,)).take(entry, -1) * weight


# book/engineering/packed.ipynb, cell packed-10
def packed_gram(X, weights, block_rows=None):
    """weighted_gram by one matrix product for all k.  [eq-outer-features]

    X (N,d) unpadded, weights (N,K) -> (K,D,D).  Memory: block_rows x D(D+1)/2
    """
    D = X.shape[1] + 1
    packed = np.zeros((weights.shape[1], D * (D + 1) // 2))
    if block_rows is None:
        block_rows = max(min(512, (1 << 21) // (D * (D + 1))), 1)
    for s in range(0, len(X), block_rows):
        F = outer_features(np.ascontiguousarray(pad(X[s:s + block_rows]).T))
        packed += weights[s:s + block_rows].T @ F.T
    return unpack_symmetric(packed, D)


# book/engineering/packed.ipynb, cell packed-13
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


# book/engineering/packed.ipynb, cell packed-17
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


# book/engineering/packed.ipynb, cell packed-18
def _log_pivots(minus_r):
    """Sum of log d over axis 0, from -1/d; one log if products stay in range."""
    product = np.multiply.reduce(minus_r, axis=0, initial=(-1.0)**len(minus_r))
    logs = np.log(product)
    if not (np.vdot(logs, logs) < 600**2 or abs(logs).max() < 600):
        logs = np.log(-minus_r).sum(axis=0)
        _check_definite(np.isfinite(logs).all())        # no pivot is 0
    return -logs


# book/engineering/packed.ipynb, cell packed-19
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
