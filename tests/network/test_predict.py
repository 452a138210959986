"""The plain prediction against nested quadrature of the oracle, the draws from q, and the fast prediction on the same points."""
import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from oracle import predict as oracle, random_state_and_data
from scipy.special import ndtri

from cmn_literate.engineering.quadrature import integrate_latents, predict_proba
from cmn_literate.network.latents import State
from cmn_literate.network.predict import gate_probs, latent_t, point_posterior, predict_by_slices, sample_parameters, slices
from cmn_literate.network.simulate import Theta


def case(N, d, K, L, h, seed=0):
    arrays, X, _ = random_state_and_data(default_rng([seed, N, d, K, L, h]), N, d, K, L, h)
    arrays["a"] = arrays["a"] + 1.0
    return State.of(**arrays).parameters, X, arrays


@pytest.mark.parametrize("size, m, atol", [
    ((2, 2, 2, 3, 1), 2000, 1e-5), pytest.param((1, 1, 3, 4, 2), 150, 5e-4, marks=pytest.mark.slow), ((1, 2, 1, 2, 2), 150, 5e-4)], ids=str)
def test_plain_rule_against_the_oracle(size, m, atol):
    parameters, X, arrays = case(*size)
    got = predict_by_slices(parameters, X, m)
    assert_allclose(got.sum(1), 1, rtol=1e-12)
    for n in range(len(X)):
        assert_allclose(got[n], oracle.product_quadrature(arrays, X[n]), rtol=0, atol=atol)


@pytest.mark.parametrize("size", [(30, 2, 2, 3, 1), (0, 2, 2, 3, 1), (3, 1, 1, 2, 2), (2, 3, 4, 5, 3), (1, 2, 2, 2, 5)], ids=str)
def test_fast_way_equals_the_plain_one_on_the_same_points(size):
    parameters, X, _ = case(*size)
    N, K, h = len(X), size[2], size[4]
    m = {1: 1500, 2: 30, 3: 9, 5: 4}[h]
    location, scale, dof = latent_t(parameters, X)
    by_expert = integrate_latents(parameters, location.reshape(-1, h), scale.reshape(-1, h), dof, np.tile(np.arange(K), N),
                                  [(ndtri(slices(h, m)), np.full(m**h, 1 / m**h))], np.zeros(N * K, int))
    fast = np.einsum("nk,nkc->nc", gate_probs(parameters, X), np.exp(by_expert).reshape(N, K, size[3]))
    assert_allclose(fast, predict_by_slices(parameters, X, m), rtol=0, atol=1e-12)


def test_plain_rule_and_estimator_agree():
    parameters, X, _ = case(5, 2, 3, 3, 1)
    assert_allclose(predict_by_slices(parameters, X, 4000), predict_proba(parameters, X), atol=1e-5)


def test_slices_are_medians():
    assert_array_equal(slices(1, 2)[:, 0], [0.25, 0.75])
    assert slices(3, 4).shape == (64, 3) and len(np.unique(slices(3, 4), axis=0)) == 64


def test_a_point_posterior_is_one_theta():
    parameters, X, _ = case(3, 2, 3, 2, 1)
    theta = Theta(*(part[0] for part in sample_parameters(parameters, default_rng(0), 1)))
    location, scale, dof = latent_t(point_posterior(theta), X)
    for k in range(3):
        for n, x in enumerate(X):
            assert_allclose(location[n, k], theta.A[k] @ np.append(x, 1), rtol=1e-12)
            assert_allclose(scale[n, k], theta.tau[k]**-0.5, rtol=1e-6)
    assert np.all(dof > 1e11)


def test_draws():
    p, _, _ = case(1, 2, 3, 4, 2)
    theta = sample_parameters(p, default_rng(0), 5)
    assert [part.shape for part in theta] == [(5, 3, 3), (5, 2, 3), (5, 3, 2, 3), (5, 3, 2)]
    again = sample_parameters(p, default_rng(0), 5)
    assert all(np.array_equal(u, v) for u, v in zip(theta, again))
    still = sample_parameters(p._replace(beta1_S=0 * p.beta1_S, beta0_S=0 * p.beta0_S, V=0 * p.V), default_rng(0), 2)
    assert_array_equal(still.beta1[0], p.beta1_mu)
    assert_array_equal(still.A[1], p.M)
    assert sample_parameters(case(1, 2, 1, 2, 1)[0], default_rng(0), 2).beta0.shape == (2, 0, 3)
    with pytest.raises(ValueError, match="n_draws"):
        sample_parameters(p, default_rng(0), 0)
