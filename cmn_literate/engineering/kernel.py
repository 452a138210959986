# Tangled from book/engineering/kernel.ipynb by tools/tangle.py; edit the notebook, not this file.
"""A compiled kernel: the E-step in one piece

The E-step of a block as one compiled function, some two hundred rows at a time, gives the sums of
the NumPy E-step to $10^{-12}$; its exponentials and logarithms are polynomials with a proved
error, because without a vector library those are what keeps a compiler from working on eight rows
at once.
"""

__all__ = ["CHUNK", "MAGIC", "MAGIC_BITS", "LOG2E", "LN2_HIGH", "LN2_LOW", "expm1_negative",
           "log_positive", "SQUARE", "PRODUCT", "HEIGHT", "COST", "ONE", "SHARE", "rows_estep",
           "compiled_estep"]


# book/engineering/kernel.ipynb, cell kernel-02
import math
import threading

import numpy as np

from cmn_literate.compiled import bit_casts, jit
from cmn_literate.engineering.packed import outer_features
from cmn_literate.engineering.sums import Sums
from cmn_literate.ideas.stick_breaking import stick_counts


# book/engineering/kernel.ipynb, cell kernel-07
CHUNK = 224                               # rows at a time, at most
MAGIC, MAGIC_BITS = 6755399441055744.0, 0x4338000000000000            # 1.5 * 2^52
LOG2E, LN2_HIGH, LN2_LOW = 1.4426950408889634, 0.6931471803691238, 1.9082149292705877e-10

_to_bits, _from_bits = bit_casts()


# book/engineering/kernel.ipynb, cell kernel-08
@jit(exact=True)
def expm1_negative(x):
    """e^x - 1 for -700 <= x <= 0.  [eq-kernel-exp]"""
    t = x * LOG2E + MAGIC
    k = t - MAGIC
    r = (x - k * LN2_HIGH) - k * LN2_LOW
    p = ((1 / 6227020800.0 * r + 1 / 479001600.0) * r + 1 / 39916800.0) * r + 1 / 3628800.0
    p = (((p * r + 1 / 362880.0) * r + 1 / 40320.0) * r + 1 / 5040.0) * r + 1 / 720.0
    p = (((p * r + 1 / 120.0) * r + 1 / 24.0) * r + 1 / 6.0) * r + 0.5
    p = p * r * r + r
    two = _from_bits((_to_bits(t) << 52) + 0x3FF0000000000000)        # 2^k
    return two * p + (two - 1.0)


@jit(exact=True)
def log_positive(x):
    """ln x for normal x > 0.  [eq-kernel-log]"""
    bits = _to_bits(x)
    k = (bits - 0x3FE6A09E667F3BCD) >> 52                # that is 1/sqrt 2
    m = _from_bits(bits - (k << 52))
    f = (m - 1.0) / (m + 1.0)
    s = f * f
    p = ((1 / 23.0 * s + 1 / 21.0) * s + 1 / 19.0) * s + 1 / 17.0
    p = (((p * s + 1 / 15.0) * s + 1 / 13.0) * s + 1 / 11.0) * s + 1 / 9.0
    p = ((p * s + 1 / 7.0) * s + 1 / 5.0) * s + 1 / 3.0
    k = _from_bits(k + MAGIC_BITS) - MAGIC
    return k * LN2_HIGH + (2.0 * f * s * p + (k * LN2_LOW + 2.0 * f))


# book/engineering/kernel.ipynb, cell kernel-11
@jit()
def _load(source, row, start, size, target, i):
    """A chunk of a row of source; past the end the last one again."""
    for n in range(size):
        target[i, n] = source[row, start + n]
    for n in range(size, target.shape[1]):
        target[i, n] = source[row, start + size - 1]


@jit()
def _store(source, i, start, size, target, row):
    for n in range(size):
        target[row, start + n] = source[i, n]


@jit()
def _fill(value, y, i):
    for n in range(y.shape[1]):
        y[i, n] = value


@jit()
def _add_rows(factors, f, x, first, count, y, i):
    """y[i] += sum_j factors[f, j] x[first + j], four rows of x in one pass."""
    j = 0
    while j + 4 <= count:
        f0, f1, f2, f3 = factors[f, j], factors[f, j + 1], factors[f, j + 2], factors[f, j + 3]
        e = first + j
        for n in range(y.shape[1]):
            y[i, n] += (f0 * x[e, n] + f1 * x[e + 1, n]) + (f2 * x[e + 2, n] + f3 * x[e + 3, n])
        j += 4
    while j < count:
        f0, e = factors[f, j], first + j
        for n in range(y.shape[1]):
            y[i, n] += f0 * x[e, n]
        j += 1


@jit()
def _add_dots(w, i, x, first, total, t):
    """total[t, j] += w[i] . x[first + j], four rows of x in one pass."""
    j, J = 0, total.shape[1]
    while j + 4 <= J:
        t0 = t1 = t2 = t3 = 0.0
        e = first + j
        for n in range(w.shape[1]):
            t0 += w[i, n] * x[e, n]
            t1 += w[i, n] * x[e + 1, n]
            t2 += w[i, n] * x[e + 2, n]
            t3 += w[i, n] * x[e + 3, n]
        total[t, j] += t0
        total[t, j + 1] += t1
        total[t, j + 2] += t2
        total[t, j + 3] += t3
        j += 4
    while j < J:
        t0, e = 0.0, first + j
        for n in range(w.shape[1]):
            t0 += w[i, n] * x[e, n]
        total[t, j] += t0
        j += 1


@jit(exact=True)
def _add_log(factor, x, i, y, j):
    for n in range(y.shape[1]):
        y[j, n] += factor * log_positive(x[i, n])


# book/engineering/kernel.ipynb, cell kernel-12
SQUARE, PRODUCT, HEIGHT, COST, ONE, SHARE = range(6)             # rows of spare memory


@jit(exact=True)
def _tilts(spare, tossed, j, omega, row):
    """omega of tilts (xi/2)^2 = spare[SQUARE]; PRODUCT *= 1/(1+e^-2h), HEIGHT += h of
    the tossed.  [eq-tilt-moments, eq-kernel-exp]"""
    for n in range(spare.shape[1]):
        h = math.sqrt(spare[SQUARE, n])
        x = -2.0 * h
        e = expm1_negative(x if x > -700.0 else -700.0)
        d = 1.0 / (2.0 + e)
        omega[row, n] = -e * d / (4.0 * h)
        spare[PRODUCT, n] *= d
        spare[HEIGHT, n] += tossed[j, n] * h


@jit()
def _place(i, j):
    """Where entry (i, j) of a packed symmetric matrix is."""
    return i * (i + 1) // 2 + j if i >= j else j * (j + 1) // 2 + i


@jit()
def _invert(A, h, scores, k, spare, row):
    """Packed matrices of a chunk (h(h+1)/2, CHUNK), inverted in their place; half
    their log determinant is taken off scores[k].  [eq-kernel-sweep]
    -> whether all are positive definite; row (h, CHUNK) is memory to work in"""
    bad = 0
    for p in range(h):
        pp = _place(p, p)
        if p % 4 == 0:
            _fill(1.0, spare, PRODUCT)
        for n in range(A.shape[1]):
            spare[PRODUCT, n] *= A[pp, n]
            spare[SHARE, n] = 1.0 / A[pp, n]
            bad += not 0.0 < A[pp, n] < 1e75
        if p % 4 == 3 or p == h - 1:
            _add_log(-0.5, spare, PRODUCT, scores, k)
        for i in range(h):
            ip = _place(i, p)
            for n in range(A.shape[1]):
                row[i, n] = A[ip, n] * spare[SHARE, n]
        for i in range(h):
            ip = _place(i, p)
            for j in range(i + 1):
                if i != p and j != p:
                    ij = _place(i, j)
                    for n in range(A.shape[1]):
                        A[ij, n] -= A[ip, n] * row[j, n]
        for i in range(h):
            ip = _place(i, p)
            for n in range(A.shape[1]):
                A[ip, n] = row[i, n]
        for n in range(A.shape[1]):
            A[pp, n] = -spare[SHARE, n]
    for e in range(h * (h + 1) // 2):
        for n in range(A.shape[1]):
            A[e, n] = -A[e, n]
    return bad == 0


# book/engineering/kernel.ipynb, cell kernel-13
@jit()
def _latents(k, tau, bend, pull, mean, omega, moments, scores, A, eta, spare, row):
    """q(x1|z=k) of a chunk: moments as in latent_moments, Sigma packed in A; the score
    begins with log |Sigma| / 2.  [eq-latent-natural, eq-latent-x]"""
    h, J, e = len(mean), len(omega), 0
    T = (h + 1) * (h + 2) // 2
    base = k * T
    mu = base + T - h - 1
    _fill(0.0, scores, k)
    for i in range(h):
        for j in range(i + 1):
            _fill(tau[k, i] if i == j else 0.0, A, e)
            _add_rows(bend, i * h + j, omega, 0, J, A, e)
            e += 1
        _fill(0.0, eta, i)
        _add_rows(bend, h * h + i, omega, 0, J, eta, i)
        for n in range(A.shape[1]):
            eta[i, n] = pull[i, n] + tau[k, i] * mean[i, n] - eta[i, n]
    fine = _invert(A, h, scores, k, spare, row)
    for i in range(h):
        _fill(0.0, moments, mu + i)
        for j in range(h):
            ij = _place(i, j)
            for n in range(A.shape[1]):
                moments[mu + i, n] += A[ij, n] * eta[j, n]
        for j in range(i + 1):
            e = _place(i, j)
            for n in range(A.shape[1]):
                moments[base + e, n] = moments[mu + i, n] * moments[mu + j, n] + A[e, n]
    _fill(1.0, moments, base + T - 1)
    return fine


@jit()
def _output_tilts(k, square, moments, tossed, omega, scores, spare):
    """Fresh tilts of one expert; their cost is taken off its score.
    [eq-output-tilt, eq-output-bound, eq-toss-moments]"""
    J, T = square.shape
    _fill(1.0, spare, PRODUCT)
    _fill(0.0, spare, HEIGHT)
    for j in range(J):
        _fill(0.0, spare, SQUARE)
        _add_rows(square, j, moments, k * T, T, spare, SQUARE)
        for n in range(spare.shape[1]):
            least = 1e60 * (1.0 - tossed[j, n]) + 1e-300
            s = spare[SQUARE, n]
            spare[SQUARE, n] = s if s > least else least
        _tilts(spare, tossed, j, omega, j)
        if j % 500 == 499 or j == J - 1:
            _add_log(1.0, spare, PRODUCT, scores, k)
            _fill(1.0, spare, PRODUCT)
    for n in range(spare.shape[1]):
        scores[k, n] -= spare[HEIGHT, n]


# book/engineering/kernel.ipynb, cell kernel-14
@jit()
def _expert(k, start, size, mean, half_tau, pull, forms, moments, A, scores, energy,
            residual):
    """Score of one expert, but for the gate's tilts; residual mu - M x~ and energy.
    [eq-expert-density, eq-row-score]"""
    h, K = len(mean), len(scores)
    mu = (k + 1) * ((h + 1) * (h + 2) // 2) - h - 1
    for i in range(h):
        ii, e, tau = _place(i, i), k * h + i, half_tau[k, i]
        for n in range(A.shape[1]):
            d = moments[mu + i, n] - mean[i, n]
            energy[e, n] = d * d + A[ii, n]
            scores[k, n] += pull[i, n] * moments[mu + i, n] - tau * energy[e, n]
            mean[i, n] = d
        _store(mean, i, start, size, residual, i * K + k)
    _load(forms, k, start, size, A, 0)
    for n in range(A.shape[1]):
        scores[k, n] += pull[h, n] + A[0, n]


@jit()
def _gate(forms, start, size, scores, gate, spare, row):
    """theta(xi_0) of a chunk; what the gate's tilts cost is taken off the scores.
    [eq-gate-fresh]"""
    K = len(scores)
    _fill(0.0, spare, COST)
    _fill(1.0, spare, ONE)
    for k in range(K):
        if k < K - 1:
            _load(forms, K + k, start, size, spare, SQUARE)
            _fill(1.0, spare, PRODUCT)
            _fill(-0.6931471805599453, spare, HEIGHT)    # ln cosh h = h - ln 2 - ln d
            for n in range(spare.shape[1]):
                s = spare[SQUARE, n]
                spare[SQUARE, n] = s if s > 1e-300 else 1e-300
            _tilts(spare, spare, ONE, row, 0)
            _store(row, 0, start, size, gate, k)
            _add_log(1.0, spare, PRODUCT, spare, COST)
            for n in range(spare.shape[1]):
                spare[COST, n] -= spare[HEIGHT, n]
        for n in range(spare.shape[1]):
            scores[k, n] += spare[COST, n]


@jit()
def _softmax(scores, spare):
    """Responsibilities in the place of the scores; ln of the sum in spare[SQUARE].
    [eq-row-gamma, eq-row-max]"""
    K = len(scores)
    for n in range(spare.shape[1]):
        spare[SQUARE, n] = scores[0, n]
    for k in range(1, K):
        for n in range(spare.shape[1]):
            s, top = scores[k, n], spare[SQUARE, n]
            spare[SQUARE, n] = s if s > top else top
    _fill(0.0, spare, PRODUCT)
    for k in range(K):
        for n in range(spare.shape[1]):
            d = scores[k, n] - spare[SQUARE, n]
            s = 1.0 + expm1_negative(d if d > -700.0 else -700.0)
            scores[k, n] = s
            spare[PRODUCT, n] += s
    for k in range(K):
        for n in range(spare.shape[1]):
            scores[k, n] /= spare[PRODUCT, n]
    _add_log(1.0, spare, PRODUCT, spare, SQUARE)


@jit()
def _collect(k, start, size, gamma, weight, moments, energy, omega, residual, out,
             squares, output_gram, mean1, spare):
    """Add what expert k of a chunk gives to the sums.  [eq-block-sums]"""
    h, (J, T), K = squares.shape[1], output_gram.shape, len(gamma)
    _store(gamma, k, start, size, out, k)
    for n in range(spare.shape[1]):
        spare[SHARE, n] = gamma[k, n] * weight[0, n]
    _add_dots(spare, SHARE, energy, k * h, squares, k)
    for i in range(h):
        r = i * K + k
        for n in range(size):
            residual[r, start + n] *= spare[SHARE, n]
    for i in range(h + 1):
        e = k * T + T - h - 1 + i
        for n in range(size):
            mean1[i, start + n] += spare[SHARE, n] * moments[e, n]
    for j in range(J):
        _load(omega, j * K + k, start, size, spare, COST)
        for n in range(spare.shape[1]):
            spare[COST, n] *= spare[SHARE, n]
        _add_dots(spare, COST, moments, k * T, output_gram, j)


# book/engineering/kernel.ipynb, cell kernel-15
@jit(nogil=True, cache=True)
def rows_estep(mean, pull, tossed, forms, tau, half_tau, bend, square, omega, inner,
               weight, new_omega, gamma, residual, gate, mean1, squares, output_gram,
               bound):
    """The E-step of a block, chunk by chunk, into the last eight arguments.
    [eq-latent-x, eq-output-tilt, eq-row-gamma, eq-block-sums]

    mean (h*K,B), pull (h+1,B), tossed (J,B), forms (2K-1,B), tau and half_tau (K,h),
    bend, square as in Prepared, omega (J*K,B), weight (1,B)
    -> whether all precisions were positive definite
    """
    (K, h), (J, B), fine = tau.shape, tossed.shape, True
    T = (h + 1) * (h + 2) // 2
    C = 8 * -(-B // (8 * -(-B // CHUNK)))               # chunks of one size
    moments, energy = np.empty((K * T, C)), np.empty((K * h, C))
    scores, spare, row = np.empty((K, C)), np.empty((6, C)), np.empty((h, C))
    A, eta, m = np.empty((T, C)), np.empty((h, C)), np.empty((h, C))
    W, b, p = np.empty((J, C)), np.empty((J, C)), np.empty((h + 1, C))
    w = np.empty((1, C))
    for start in range(0, B, C):
        size = min(C, B - start)
        for j in range(J):
            _load(tossed, j, start, size, b, j)
        for i in range(h + 1):
            _load(pull, i, start, size, p, i)
        _load(weight, 0, start, size, w, 0)
        for n in range(size, C):
            w[0, n] = 0.0                               # the rows past the end
        for k in range(K):
            for i in range(h):
                _load(mean, i * K + k, start, size, m, i)
            for j in range(J):
                _load(omega, j * K + k, start, size, W, j)
            for _ in range(inner):
                fine = _latents(k, tau, bend, p, m, W, moments, scores, A, eta, spare,
                                row) and fine
                _output_tilts(k, square, moments, b, W, scores, spare)
            for j in range(J):
                _store(W, j, start, size, new_omega, j * K + k)
            _expert(k, start, size, m, half_tau, p, forms, moments, A, scores, energy,
                    residual)
        _gate(forms, start, size, scores, gate, spare, row)
        _softmax(scores, spare)
        _add_dots(w, 0, spare, SQUARE, bound, 0)
        for k in range(K):
            _collect(k, start, size, scores, w, moments, energy, new_omega, residual,
                     gamma, squares, output_gram, mean1, spare)
    return fine


# book/engineering/kernel.ipynb, cell kernel-17
_memory = threading.local()


def _scratch(**shapes):
    """Arrays of these shapes that the next call in this thread uses again."""
    kept = _memory.__dict__.setdefault("arrays", {})
    for name, shape in shapes.items():
        if name not in kept or kept[name].shape != shape:
            kept[name] = np.empty(shape)
    return [kept[name] for name in shapes]


def compiled_estep(prep, rows, omega, inner=1, gamma=None):
    """estep of a block with tilts of its own for each expert, compiled where numba is
    there.  [eq-latent-x, eq-output-tilt, eq-row-gamma, eq-block-sums]

    arguments and result as in estep; gamma, for shared tilts, has to be None
    ValueError if a precision is not positive definite or beyond 1e75
    """
    XtT, b, kappa, F, weight = rows
    (h, K, _), (J, B) = prep.tau.shape, b.shape
    if gamma is not None:
        raise ValueError("gamma: the kernel knows no shared tilts, expected None")
    F = outer_features(XtT) if F is None else F
    mean, forms, residual, gate, mean1 = _scratch(
        mean=(h * K, B), forms=(2 * K - 1, B), residual=(h * K, B), gate=(K - 1, B),
        mean1=(h + 1, B))
    np.matmul(prep.mean_map, XtT, out=mean)
    np.matmul(prep.forms, F, out=forms)
    mean1[:] = 0.0
    new, gamma, bound = np.empty((J, K, B)), np.empty((K, B)), np.zeros((1, 1))
    weights = np.ones((1, B)) if weight is None else weight[None]
    squares, output_gram = np.zeros((K, h)), np.zeros(prep.square.shape)
    if not rows_estep(
            mean, prep.beta1_mu.T @ kappa, b, forms,
            np.ascontiguousarray(prep.tau[:, :, 0].T), prep.half_tau[:, 0], prep.bend,
            prep.square, omega.reshape(J * K, B), inner, weights,
            new.reshape(J * K, B), gamma, residual, gate, mean1, squares, output_gram,
            bound):
        raise ValueError("P: expected symmetric positive definite matrices, got one "
                         "that is not, or that is beyond 1e75")
    share = gamma if weight is None else gamma * weight
    b0, kappa0 = stick_counts(np.eye(K))
    gram = share @ F.T
    cross = (residual @ XtT.T).reshape(h, K, -1)
    return Sums(bound[0, 0], gram[:, -1], gram, cross.transpose(1, 0, 2), squares,
                output_gram, kappa @ mean1.T, (b0.T @ share * gate) @ F.T,
                kappa0.T @ gram[:, -len(XtT):]), new, gamma
