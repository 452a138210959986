"""Linear algebra of the blocks over many shapes, types and condition numbers; gradients of stacks."""
import numpy as np
import pytest
from autograd import grad
from numpy.testing import assert_allclose, assert_array_equal

from cmn_literate.ideas.expfam import (gamma_kl, gaussian_entropy, gaussian_kl, log_det, mng_kl, padded_second_moment,
                                 spd_inverse, spd_inverse_stacked)


def random_spd(rng, *shape, condition=None):
    """Positive definite matrices (..., m, m), with a prescribed condition number if asked."""
    m = shape[-1]
    if condition is None:
        roots = rng.normal(size=(*shape, m + 3))
        return roots @ roots.swapaxes(-1, -2)
    Q = np.linalg.qr(rng.normal(size=(*shape, m)))[0]
    P = (Q * np.geomspace(1, condition, m)) @ Q.swapaxes(-1, -2)
    return (P + P.swapaxes(-1, -2)) / 2


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
    assert log_det(np.zeros((0, 3, 3))).shape == (0,) and gaussian_kl(np.zeros((0, 3)), np.zeros((0, 3, 3)), 5.0).shape == (0,)
    wide = np.array([1e-200, 1e190, 1e190])[:, None, None] * np.eye(3)[..., None]
    assert_allclose(spd_inverse_stacked(wide)[1], np.log([1e-200, 1e190, 1e190]).sum(), rtol=1e-14)


def test_gradients_of_stacks_by_finite_differences():
    rng = np.random.default_rng(6)
    K, h, D = 2, 3, 4
    M, V = rng.normal(size=(K, h, D)), random_spd(rng, K, D)
    a, b = rng.uniform(2, 9, size=K), rng.uniform(0.5, 3, size=(K, h))
    mu, S = rng.normal(size=(K, D)), random_spd(rng, K, D)
    scalars = {
        "mng_kl": (lambda *v: mng_kl(*v, 3.0, 2.5, 0.7)[1], (M, V, a, b)),
        "gaussian_kl": (lambda *v: gaussian_kl(*v, 1.3)[0], (mu, S)),
        "gaussian_entropy": (lambda *v: gaussian_entropy(*v)[1], (S,)),
        "gamma_kl": (lambda *v: gamma_kl(*v, 2.0, 1.0)[1], (a, b[:, 0])),
        "padded_second_moment": (lambda *v: (padded_second_moment(*v)[1] ** 2).sum(), (mu, S)),
    }
    for name, (f, args) in scalars.items():
        for block, value in enumerate(args):
            direction = rng.normal(size=value.shape)
            if name != "padded_second_moment" and value.shape[-1:] == value.shape[-2:-1] and value.ndim == 3:
                direction = direction + direction.swapaxes(1, 2)
            move = lambda t: f(*args[:block], value + t * direction, *args[block + 1:])
            slope = (move(1e-6) - move(-1e-6)) / 2e-6
            assert_allclose((grad(f, block)(*args) * direction).sum(), slope, rtol=2e-6, atol=1e-7, err_msg=f"{name}, {block}")


def test_divergences_are_never_negative_and_zero_only_at_the_prior():
    rng = np.random.default_rng(7)
    for _ in range(200):
        a, b, a0, b0, sigma = np.exp(rng.normal(size=5) * 2)
        assert gamma_kl(a, b, a0, b0) > 0
        assert gaussian_kl(rng.normal(size=3) * sigma, random_spd(rng, 3), sigma) > 0
        assert abs(gamma_kl(a, b, a, b)) < 1e-9
