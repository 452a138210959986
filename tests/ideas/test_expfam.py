"""Distributions of the blocks: gradients of stacks, signs of divergences."""
import numpy as np
from autograd import grad
from numpy.testing import assert_allclose
from problems import random_spd

from cmn_literate.ideas.expfam import (
    gamma_kl, gaussian_entropy, gaussian_kl, log_det, mng_kl, padded_second_moment)


def test_empty_stacks_have_empty_answers():
    assert log_det(np.zeros((0, 3, 3))).shape == (0,) and gaussian_kl(np.zeros((0, 3)), np.zeros((0, 3, 3)), 5.0).shape == (0,)


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
