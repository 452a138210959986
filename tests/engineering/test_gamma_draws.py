"""The slope of a Gamma draw against differences of scipy's inverse distribution function."""
import numpy as np
import pytest
from autograd import grad
from numpy.testing import assert_allclose
from scipy.special import gammainc, gammaincinv

from cmn_literate.engineering.gamma_draws import gamma_draw, gamma_slope


@pytest.mark.parametrize("a", [0.05, 0.7, 1.0, 3.3, 40.0, 2000.0])
def test_gamma_slope_is_that_of_the_inverse(a):
    """Against differences of scipy's inverse distribution function."""
    u = np.array([1e-4, 0.01, 0.2, 0.5, 0.8, 0.99, 0.9999])
    x, e = gammaincinv(a, u), 1e-4 * a
    near = [(gammaincinv(a + m * e, u) - gammaincinv(a - m * e, u)) / (2 * m * e) for m in (1, 2)]
    assert_allclose(gamma_slope(a, x), (4 * near[0] - near[1]) / 3, rtol=1e-5)
    assert gamma_slope(np.full((2, 1), a), x).shape == (2, 7)


def test_gamma_slope_of_small_shapes_beside_the_mean():
    """Worst where the two tails meet.  E[dx/da] = 1 does not see it; differences of scipy's inverse do."""
    a = np.array([0.05, 0.1, 0.3])
    for x in (0.999 * a, 1.001 * a):
        u, e = gammainc(a, x), 1e-4 * a
        near = [(gammaincinv(a + m * e, u) - gammaincinv(a - m * e, u)) / (2 * m * e) for m in (1, 2)]
        assert_allclose(gamma_slope(a, x), (4 * near[0] - near[1]) / 3, rtol=1e-4)


def test_autograd_is_told_and_values_are_untouched():
    a, g = np.array([[0.4], [3.0]]), np.random.default_rng(0).gamma(2.0, size=(5, 2, 3))
    assert gamma_draw(a, g) is g
    slope = grad(lambda a: (gamma_draw(a, g) ** 2).sum())(a)
    assert_allclose(slope, (2 * g * gamma_slope(a, g)).sum((0, 2))[:, None], rtol=1e-12)
