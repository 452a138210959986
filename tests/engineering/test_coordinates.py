"""The vector of all parameters: its prior against a loop, its density, leading axes, and bad input."""
import numpy as np
import pytest
from networks import ALL_SIZES, case
from numpy.testing import assert_allclose
from oracle import likelihood as oracle

from cmn_literate.engineering.coordinates import Shapes, from_white, log_prior, log_prior_white, pack, theta_shapes, to_white, unpack
from cmn_literate.network.simulate import Priors, Theta, sample_theta


@pytest.mark.parametrize("size", ALL_SIZES, ids=str)
def test_prior_against_a_loop(size):
    priors = Priors(v0=0.5, a0=1.5, b0=2.0, sigma0=0.7, sigma1=3.0)
    theta, shapes = sample_theta(priors, *size, np.random.default_rng(2)), Shapes(*size)
    expected = oracle.log_prior(theta, priors.v0, priors.a0, priors.b0, priors.sigma0, priors.sigma1)
    assert_allclose(log_prior(pack(theta), shapes, priors), expected, rtol=1e-11)
    assert pack(theta).shape == (shapes.n_params,)


@pytest.mark.parametrize("latent_dim, n_classes, rank", [(1, 2, 1), (4, 2, 1), (2, 3, 2), (5, 3, 2), (2, 6, 2), (1, 6, 1)])
def test_the_integral_has_no_more_dimensions_than_logits_or_latents(latent_dim, n_classes, rank):
    assert Shapes(3, latent_dim, n_classes, 2).rank == rank


def test_prior_of_phi_is_a_density():
    """P = 5, integrated over the coefficients by white draws and over ln tau by a grid; without the Jacobian it is E[1/tau]."""
    shapes, priors = Shapes(1, 1, 2, 1), Priors(a0=2.0, b0=1.0)
    s = np.linspace(-14, 5, 400)
    u = np.zeros(5)
    total = 0.0
    for value in s:
        u[-1] = value
        total += np.exp(log_prior_white(u, shapes, priors)) * (2 * np.pi) ** 2 * (s[1] - s[0])
    assert_allclose(total, 1, atol=1e-6)


def test_leading_axes_and_single_expert():
    shapes, priors = Shapes(1, 2, 3, 2), Priors()
    draws = [sample_theta(priors, *shapes, np.random.default_rng(i)) for i in range(6)]
    stacked = Theta(*(np.stack(parts).reshape(2, 3, *parts[0].shape) for parts in zip(*draws)))
    phi = pack(stacked)
    assert phi.shape == (2, 3, shapes.n_params)
    assert_allclose(phi[1, 0], pack(draws[3]), rtol=0)
    u = to_white(phi, shapes, priors)
    assert_allclose(u[0, 2], to_white(pack(draws[2]), shapes, priors), rtol=1e-14)
    assert_allclose(from_white(u, shapes, priors), phi, rtol=1e-12, atol=1e-14)
    assert unpack(phi, shapes).beta0.shape == (2, 3, 0, 3) and theta_shapes(stacked) == shapes


def test_bad_input_is_named():
    shapes, theta, *_ = case((2, 3, 4, 2))
    phi = pack(theta)
    for message, call in (
            ("parameter vector: expected", lambda: unpack(phi[1:], shapes)),
            ("beta0: expected shape", lambda: pack(theta._replace(beta0=theta.beta0[:, 1:])))):
        with pytest.raises(ValueError, match=message):
            call()
