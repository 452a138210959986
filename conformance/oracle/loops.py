"""Linear algebra in loops over nested lists of mpmath numbers: no library, no order of axes to get wrong."""

from mpmath import mpf

from special import log, sqrt


def zeros(*shape):
    return mpf(0) if not shape else [zeros(*shape[1:]) for _ in range(shape[0])]


def dot(u, v):
    total = mpf(0)
    for a, b in zip(u, v, strict=True):
        total += a * b
    return total


def times(A, v):
    return [dot(row, v) for row in A]


def quadratic(A, v):
    return dot(v, times(A, v))


def trace_product(A, B):
    """tr(A B^T) = sum_ij A_ij B_ij."""
    total = mpf(0)
    for a, b in zip(A, B, strict=True):
        total += dot(a, b)
    return total


def cholesky(P):
    m = len(P)
    C = zeros(m, m)
    for i in range(m):
        for j in range(i + 1):
            rest = P[i][j]
            for k in range(j):
                rest -= C[i][k] * C[j][k]
            C[i][j] = sqrt(rest) if i == j else rest / C[j][j]
    return C


def log_det(P):
    total = mpf(0)
    for i, row in enumerate(cholesky(P)):
        total += 2 * log(row[i])
    return total


def inverse(P):
    """Inverse of a positive definite matrix: C^-1 of its Cholesky factor, then C^-T C^-1."""
    m, C = len(P), cholesky(P)
    W = zeros(m, m)
    for j in range(m):
        W[j][j] = 1 / C[j][j]
        for i in range(j + 1, m):
            rest = mpf(0)
            for k in range(j, i):
                rest -= C[i][k] * W[k][j]
            W[i][j] = rest / C[i][i]
    out = zeros(m, m)
    for i in range(m):
        for j in range(i + 1):
            total = mpf(0)
            for k in range(i, m):
                total += W[k][i] * W[k][j]
            out[i][j] = out[j][i] = total
    return out


def diagonal(m, value):
    out = zeros(m, m)
    for i in range(m):
        out[i][i] = mpf(value)
    return out


def trace(A):
    total = mpf(0)
    for i, row in enumerate(A):
        total += row[i]
    return total
