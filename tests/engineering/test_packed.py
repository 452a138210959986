"""Packed symmetric algebra: memory and blocks of rows; inverses over many shapes, types and condition numbers."""
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from oracle import blocks, cmn
from problems import peak_bytes, random_spd

from cmn_literate.engineering.packed import (
    lower_triangle, outer_features, pack_quadratic, packed_gram, spd_inverse_stacked, unpack_symmetric)
from cmn_literate.ideas.expfam import spd_inverse
from cmn_literate.network.experts import weighted_gram


# ---- blocks of rows

def test_gram_needs_no_memory_that_grows_with_the_rows():
    rng, d, K = default_rng(0), 20, 3
    peaks = []
    for N in (2_000, 100_000):
        X, weights = rng.normal(size=(N, d)), rng.uniform(size=(N, K))
        peaks.append(peak_bytes(lambda: packed_gram(X, weights)))
    assert peaks[1] < 1.05 * peaks[0] + 10_000
    assert peaks[1] < 512 * ((d + 1) * (d + 2) // 2) * 8 * 3                 # a few blocks of features


@settings(max_examples=40)
@given(N=st.integers(0, 30), d=st.integers(1, 5), K=st.integers(1, 4), block_rows=st.integers(1, 40), seed=st.integers(0, 2**32 - 1))
def test_block_size_changes_nothing(N, d, K, block_rows, seed):
    rng = default_rng(seed)
    X, weights = rng.normal(size=(N, d)), rng.uniform(size=(N, K))
    assert_allclose(packed_gram(X, weights, block_rows), packed_gram(X, weights, 10**6), rtol=1e-12, atol=1e-13)


def test_gram_is_exactly_symmetric_and_blocks_of_rows_add():
    X, weights = default_rng(1).normal(size=(700, 4)), default_rng(2).uniform(size=(700, 2))
    G = packed_gram(X, weights)
    assert_array_equal(G, np.swapaxes(G, 1, 2))
    assert_allclose(packed_gram(X[:301], weights[:301]) + packed_gram(X[301:], weights[301:]), G, rtol=1e-12, atol=1e-11)


def test_feature_order_is_that_of_numpy():
    XtT = default_rng(3).normal(size=(5, 7))
    i, j = np.tril_indices(5)
    assert_array_equal(lower_triangle(5)[:2], (i, j))
    assert not any(part.flags.writeable for part in lower_triangle(5))        # shared by all later calls
    assert_array_equal(outer_features(XtT), XtT[i] * XtT[j])
    S = default_rng(4).normal(size=(2, 5, 5))
    S += np.swapaxes(S, 1, 2)
    assert_array_equal(unpack_symmetric(S[:, i, j], 5), S)
    assert_allclose(pack_quadratic(S) @ outer_features(XtT), np.einsum("db,kde,eb->kb", XtT, S, XtT), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("N", [0, 1, 511, 512, 513, 1500])
@pytest.mark.parametrize("K", [0, 1, 4])
def test_packed_gram_is_the_readable_one(N, K):
    X, weights = default_rng(N).normal(size=(N, 3)), default_rng(1).uniform(size=(N, K))
    G = weighted_gram(X, weights)
    assert_allclose(packed_gram(X, weights), G, rtol=1e-12, atol=1e-12 * np.abs(G).max(initial=0))


# ---- inverses

def side_by_side(P):
    return np.ascontiguousarray(np.moveaxis(P, (-2, -1), (0, 1)))


@pytest.mark.parametrize("m", range(1, 17))
@pytest.mark.parametrize("trailing", [(), (1,), (7,), (3, 4), (2, 0, 3)], ids=str)
def test_stacked_inverse_against_numpy(m, trailing):
    P = random_spd(np.random.default_rng(m), *trailing, m)
    inverse, log_det_P = spd_inverse_stacked(side_by_side(P))
    assert inverse.shape == (m, m, *trailing) and log_det_P.shape == trailing
    assert_allclose(np.moveaxis(inverse, (0, 1), (-2, -1)), np.linalg.inv(P), rtol=1e-6, atol=1e-7)
    assert_allclose(log_det_P, np.linalg.slogdet(P)[1], rtol=1e-9, atol=1e-8)
    assert_array_equal(inverse, inverse.swapaxes(0, 1))


@pytest.mark.parametrize("m", [1, 2, 3, 6])
def test_stacked_inverse_reads_the_lower_triangle_only_and_changes_nothing(m):
    P = side_by_side(random_spd(np.random.default_rng(0), 5, m))
    poisoned = P.copy()
    poisoned[np.triu_indices(m, 1)] = np.nan
    before = poisoned.copy()
    for ours, clean in zip(spd_inverse_stacked(poisoned), spd_inverse_stacked(P)):
        assert_array_equal(ours, clean)
    assert_array_equal(poisoned, before)


@pytest.mark.parametrize("inverse_of", [spd_inverse, lambda P: spd_inverse_stacked(side_by_side(P))], ids=["dense", "stacked"])
@pytest.mark.parametrize("m", [2, 3, 5, 10])
@pytest.mark.parametrize("condition", [1e4, 1e8, 1e12])
def test_ill_conditioned_matrices(inverse_of, m, condition):
    """Errors of a backward stable inverse: a few units of rounding times the condition number."""
    P = random_spd(np.random.default_rng(m), 20, m, condition=condition)
    inverse, log_det_P = inverse_of(P)
    if inverse.shape != P.shape:
        inverse = np.moveaxis(inverse, (0, 1), (-2, -1))
    residual = np.abs(inverse @ P - np.eye(m)).max()
    assert residual < 100 * m * np.finfo(float).eps * condition
    diagonal = np.diagonal(inverse, axis1=1, axis2=2)
    assert (diagonal > 0).all()                                       # variances stay variances
    assert_allclose(log_det_P, np.log(np.geomspace(1, condition, m)).sum(), atol=100 * m * np.finfo(float).eps * condition)


@pytest.mark.parametrize("m", [1, 2, 3, 8, 16])
@pytest.mark.parametrize("scale", [1e-200, 1e-140, 1e-40, 1e40, 1e140, 1e200])
def test_scale_of_the_matrices_does_not_matter(m, scale):
    P = random_spd(np.random.default_rng(m), 6, m)
    for inverse_of, layout in ((spd_inverse, lambda v: v), (spd_inverse_stacked, side_by_side)):
        inverse, log_det_P = inverse_of(layout(P))
        scaled, log_det_scaled = inverse_of(layout(scale * P))
        assert_allclose(scaled * scale, inverse, rtol=1e-6, atol=1e-9)
        assert_allclose(log_det_scaled, log_det_P + m * np.log(scale), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_inverses_compute_in_float64(dtype):
    P = np.array([[4, 1, 0], [1, 3, 1], [0, 1, 2]], dtype=dtype)
    for inverse, log_det_P in (spd_inverse(P), spd_inverse_stacked(P[..., None])):
        assert inverse.dtype == np.float64 and log_det_P.dtype == np.float64
        assert_allclose(np.squeeze(inverse), np.linalg.inv(P.astype(float)), rtol=1e-13, atol=1e-14)


def test_strided_input_is_fine():
    P = random_spd(np.random.default_rng(5), 12, 4)
    view = np.moveaxis(P[::2], 0, -1)
    assert not view.flags.c_contiguous
    assert_allclose(spd_inverse_stacked(view)[0], np.moveaxis(np.linalg.inv(P[::2]), 0, -1), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("m", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("poison", [0.0, -1.0, np.nan, np.inf, -np.inf], ids=str)
@pytest.mark.parametrize("where", ["first", "last"])
def test_one_bad_matrix_is_found(m, poison, where):
    P = np.tile(np.eye(m), (50, 1, 1))
    i = 0 if where == "first" else m - 1
    P[33, i, i] = poison
    for inverse_of, layout in ((spd_inverse, lambda v: v), (spd_inverse_stacked, side_by_side)):
        with pytest.raises(ValueError, match="^P: expected symmetric positive definite"):
            inverse_of(layout(P))


def test_two_negative_pivots_do_not_hide_each_other():
    bad = np.diag([-1.0, -2.0, 3.0])
    for inverse_of, P in ((spd_inverse, bad), (spd_inverse_stacked, bad[..., None]),
                          (spd_inverse, bad[:2, :2]), (spd_inverse_stacked, bad[:2, :2, None])):
        with pytest.raises(ValueError, match="^P: expected"):
            inverse_of(P)


@pytest.mark.filterwarnings("error")
def test_no_warning_for_bad_or_empty_input():
    with pytest.raises(ValueError):
        spd_inverse_stacked(np.zeros((3, 3, 4)))
    for m in (1, 2, 3):
        assert spd_inverse_stacked(np.zeros((m, m, 0)))[0].shape == (m, m, 0)
    wide = np.array([1e-200, 1e190, 1e190])[:, None, None] * np.eye(3)[..., None]
    assert_allclose(spd_inverse_stacked(wide)[1], np.log([1e-200, 1e190, 1e190]).sum(), rtol=1e-14)


@pytest.mark.parametrize("m", [1, 2, 3, 4, 7])
def test_stacked_inverse_is_the_oracles(m):
    P = cmn.random_spd(np.random.default_rng(m), 3, m, scale=4.0)
    P[0] *= 1e-6
    stacked, log_det_stacked = spd_inverse_stacked(np.moveaxis(P, 0, -1).copy())
    for n in range(3):
        assert_allclose(stacked[..., n], blocks.inverse(P[n]), rtol=1e-10, atol=1e-10 * np.abs(blocks.inverse(P[n])).max())
        assert_allclose(log_det_stacked[n], blocks.log_det(P[n]), rtol=1e-12, atol=1e-12)
