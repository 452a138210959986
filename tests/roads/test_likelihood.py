"""The likelihood against adaptive quadrature and plain Monte Carlo of the oracle, its limits, and bad input."""
import numpy as np
import pytest
from networks import case
from numpy.testing import assert_allclose
from oracle import likelihood as oracle

from cmn_literate.engineering.coordinates import theta_shapes
from cmn_literate.engineering.gradients import class_log_probs
from cmn_literate.engineering.nodes import latent_nodes
from cmn_literate.network.simulate import Theta
from cmn_literate.roads.likelihood import log_likelihood


@pytest.mark.parametrize("size", [(2, 1, 2, 2), (3, 1, 4, 1), (1, 2, 2, 2), (2, 2, 3, 1), (1, 2, 4, 1)], ids=str)
def test_against_adaptive_quadrature_over_all_latents(size):
    shapes, theta, X, _, _ = case(size)
    got = class_log_probs(theta, X[:1], latent_nodes(shapes, {1: 64, 2: 30}[shapes.rank]))[0]
    for c in range(size[2]):
        expected = np.log(oracle.probability(theta, X[0], c))
        assert_allclose(got[c], expected, rtol=0, atol=2e-7)
        assert_allclose(log_likelihood(theta, X[:1], [c], latent_nodes(shapes, 30))[0], expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("size", [(3, 3, 4, 2), (2, 4, 5, 2), (2, 4, 3, 1), (2, 3, 2, 1)], ids=str)
def test_against_a_million_draws(size):
    shapes, theta, X, _, _ = case(size)
    mean, error = oracle.monte_carlo(theta, X[0], np.random.default_rng(1), 1_000_000)
    by_seed = np.exp([class_log_probs(theta, X[:1], latent_nodes(shapes, None if shapes.rank < 3 else 4096, seed))[0]
                      for seed in range(4)])
    slack = 5 * np.sqrt(error**2 + by_seed.var(0) / 4)
    assert np.all(np.abs(by_seed.mean(0) - mean) < slack)
    assert np.all(error < 1e-3) and np.all(by_seed.std(0) < 1e-3)


def test_three_objectives_of_the_same_parameters():
    """E52: exact, plug-in and Jensen differ by a dozen nats."""
    theta = Theta(np.array([[4.0, 0.0]]), np.zeros((1, 2)), np.array([[[0.0, -2.825]], [[0.0, -5.0]]]), np.full((2, 1), 0.22))
    x = np.zeros((1, 1))
    exact = log_likelihood(theta, x, [0], latent_nodes(theta_shapes(theta), 200))[0]
    assert_allclose(exact, np.log(oracle.probability(theta, [0.0], 0)), atol=1e-8)
    precise = theta._replace(tau=np.full((2, 1), 1e12))
    plug_in = log_likelihood(precise, x, [0], latent_nodes(theta_shapes(theta)))[0]
    z = np.random.default_rng(0).normal(size=200_000)
    jensen = np.mean([-np.logaddexp(0, -(4 * m + 4 * z / 0.22**0.5)) for m in (-2.825, -5.0)])
    assert_allclose([exact, plug_in, jensen], [-2.92, -11.99, -15.87], atol=0.05)


def test_one_expert_without_noise_is_a_logistic_regression():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), rng.integers(0, 2, 30)
    A, theta_beta = rng.normal(size=(1, 1, 3)), np.array([[1.7, -0.4]])
    theta = Theta(theta_beta, np.zeros((0, 3)), A, np.array([[1e14]]))
    psi = 1.7 * (X @ A[0, 0, :2] + A[0, 0, 2]) - 0.4
    expected = -np.logaddexp(0, np.where(y == 0, -psi, psi))
    assert_allclose(log_likelihood(theta, X, y, latent_nodes(theta_shapes(theta))), expected, atol=1e-11)


def test_bad_input_is_named():
    _, theta, X, y, nodes = case((2, 3, 4, 2))
    for message, call in (
            ("X: expected 2 columns", lambda: log_likelihood(theta, X[:, :1], y, nodes)),
            ("y: expected labels", lambda: log_likelihood(theta, X, np.full(40, 4), nodes)),
            ("y: expected one label", lambda: log_likelihood(theta, X, None, nodes))):
        with pytest.raises(ValueError, match=message):
            call()
