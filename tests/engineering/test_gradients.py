"""The slopes by hand against autograd, in blocks of any size, at the edges, and with bad input."""
import math
import warnings

import autograd.numpy as anp
import numpy as np
import pytest
from autograd import grad
from networks import ALL_SIZES, case
from numpy.testing import assert_allclose

from cmn_literate.engineering.coordinates import Shapes, log_prior_white, pack, to_white, unpack
from cmn_literate.engineering.gradients import class_log_probs, explicit_value_and_grad, likelihood_value_and_grad, marginal_value_and_grad
from cmn_literate.engineering.nodes import Nodes, latent_nodes
from cmn_literate.network.simulate import Priors, Theta
from cmn_literate.roads.likelihood import explicit_log_joint, log_likelihood, log_posterior


@pytest.mark.parametrize("size", ALL_SIZES, ids=str)
@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_gradients_agree_with_autograd(size, scale):
    shapes, theta, X, y, nodes = case(size, N=9)
    theta = theta._replace(beta1=scale * theta.beta1, beta0=scale * theta.beta0)
    phi, priors = pack(theta), Priors()
    u = to_white(phi, shapes, priors)
    q = np.append(u, np.random.default_rng(0).normal(size=9 * shapes.latent_dim))
    pairs = [
        (likelihood_value_and_grad(phi, X, y, shapes, nodes), lambda p: anp.sum(log_likelihood(unpack(p, shapes), X, y, nodes)), phi),
        (marginal_value_and_grad(u, X, y, shapes, priors, nodes), lambda p: log_posterior(p, X, y, shapes, priors, nodes), u),
        (explicit_value_and_grad(q, X, y, shapes, priors), lambda p: explicit_log_joint(p, X, y, shapes, priors), q)]
    for (value, slope), plain, at in pairs:
        assert_allclose(value, plain(at), rtol=1e-10)
        expected = grad(plain)(at)
        assert np.isfinite(value) and np.all(np.isfinite(slope))
        assert_allclose(slope, expected, rtol=1e-6, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("size, n_nodes", [((3, 1, 2, 2), 300), ((2, 2, 4, 1), 40), ((12, 4, 5, 2), 64)], ids=str)
def test_blocks_of_rows_experts_and_nodes_do_not_matter(size, n_nodes):
    """More rows, experts and nodes than one block holds: the sum is that of single rows."""
    shapes, theta, X, y, _ = case(size, N=700)
    nodes = latent_nodes(shapes, n_nodes, rng=3)
    value, slope = likelihood_value_and_grad(pack(theta), X, y, shapes, nodes)
    assert_allclose(value, log_likelihood(theta, X, y, nodes).sum(), rtol=1e-11)
    order = np.random.default_rng(0).permutation(700)
    parts = [likelihood_value_and_grad(pack(theta), X[some], y[some], shapes, nodes) for some in np.array_split(order, 5)]
    assert_allclose(value, sum(v for v, _ in parts), rtol=1e-11)
    assert_allclose(slope, sum(g for _, g in parts), rtol=1e-9, atol=1e-9 * np.abs(slope).max())
    table = class_log_probs(theta, X, nodes)
    assert_allclose(table[np.arange(700), y].sum(), value, rtol=1e-11)
    assert_allclose(class_log_probs(theta, X[650:], nodes), table[650:], rtol=1e-11, atol=1e-14)


def test_explicit_rows_may_come_in_any_order():
    shapes, theta, X, y, _ = case((3, 2, 4, 2), N=600)
    u, eps = to_white(pack(theta), shapes, Priors()), np.random.default_rng(0).normal(size=(600, 2))
    order = np.random.default_rng(1).permutation(600)
    value, slope = explicit_value_and_grad(np.append(u, eps), X, y, shapes, Priors())
    again, moved = explicit_value_and_grad(np.append(u, eps[order]), X[order], y[order], shapes, Priors())
    assert_allclose(value, again, rtol=1e-12)
    assert_allclose(value, explicit_log_joint(np.append(u, eps), X, y, shapes, Priors()), rtol=1e-12)
    P = shapes.n_params
    assert_allclose(moved[:P], slope[:P], rtol=1e-9, atol=1e-9)
    assert_allclose(moved[P:].reshape(-1, 2), slope[P:].reshape(-1, 2)[order], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("size", [(2, 2, 2, 1), (2, 2, 3, 1)], ids=str)
def test_shared_noise_integrates_out(size):
    """Two rows with two latents each: the integral over a row's noise is a product over rows."""
    shapes, theta, X, y, _ = case(size)
    u, priors = to_white(pack(theta), shapes, Priors()), Priors()
    step = 0.4
    ticks = np.arange(-6.4, 6.5, step)
    lattice = np.stack(np.meshgrid(ticks, ticks), -1).reshape(-1, 2)
    prior, apart = log_prior_white(u, shapes, priors), 0.0
    for n in range(2):
        joint = [explicit_value_and_grad(np.append(u, e), X[n:n + 1], y[n:n + 1], shapes, priors)[0] for e in lattice]
        apart += np.logaddexp.reduce(joint) + 2 * np.log(step) - prior
    nodes = latent_nodes(shapes, {1: 100, 2: 40}[shapes.rank])
    value, _ = marginal_value_and_grad(u, X[:2], y[:2], shapes, priors, nodes)
    assert_allclose(apart + prior, value, rtol=0, atol=1e-6)


@pytest.mark.parametrize("size", ALL_SIZES, ids=str)
@pytest.mark.parametrize("scale", [1.0, 40.0, 1e3])
def test_probabilities_add_up_to_one_and_agree_with_one_label_at_a_time(size, scale):
    _, theta, X, y, nodes = case(size, N=7)
    theta = theta._replace(beta1=scale * theta.beta1, beta0=scale * theta.beta0)
    table = class_log_probs(theta, X, nodes)
    assert np.all(np.isfinite(table)) and np.all(table <= 1e-12)
    assert_allclose(np.exp(table).sum(1), 1, rtol=1e-12)
    assert_allclose(table[np.arange(7), y], log_likelihood(theta, X, y, nodes), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n_classes", [900, 1300])
@pytest.mark.parametrize("logit", [0.0, 0.6])
def test_hundreds_of_classes_do_not_underflow(n_classes, logit):
    shapes = Shapes(1, 1, n_classes, 1)
    theta = Theta(np.tile([0.0, logit], (n_classes - 1, 1)), np.zeros((0, 2)), np.zeros((1, 1, 2)), np.ones((1, 1)))
    X, y, nodes = np.zeros((1, 1)), [n_classes - 1], latent_nodes(shapes)
    expected = -(n_classes - 1) * math.log1p(math.exp(logit))        # the last class walks past every stick
    value, slope = likelihood_value_and_grad(pack(theta), X, y, shapes, nodes)
    assert_allclose(value, expected, rtol=1e-12)
    assert_allclose(slope[:2 * (n_classes - 1)].reshape(-1, 2)[:, 1], -1 / (1 + math.exp(-logit)), rtol=1e-10)
    assert_allclose(class_log_probs(theta, X, nodes)[0, -1], expected, rtol=1e-12)


@pytest.mark.parametrize("size", [(4, 2, 3, 2), (3, 1, 2, 2), (4, 4, 5, 3)])
def test_experts_out_of_reach_stand_beside_moderate_ones(size):
    """Logits of thousands in one expert, of hundreds in the next: the classes and the slopes are those of sums of logarithms."""
    shapes, theta, X, y, nodes = case(size, N=40)
    theta = theta._replace(A=theta.A * np.array([1.0, 3000.0, 150.0, 1.0])[:shapes.n_experts, None, None])
    table = class_log_probs(theta, X, nodes)
    dense = np.stack([log_likelihood(theta, X, np.full(len(X), c), nodes) for c in range(shapes.n_classes)], axis=1)
    assert_allclose(table, dense, rtol=1e-10, atol=1e-12)
    value, slope = likelihood_value_and_grad(pack(theta), X, y, shapes, nodes)
    assert_allclose(value, dense[np.arange(len(X)), y].sum(), rtol=1e-12)
    by_autograd = grad(lambda phi: log_likelihood(unpack(phi, shapes), X, y, nodes).sum())(pack(theta))
    assert_allclose(slope, by_autograd, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("logit", [-2000.0, 2000.0])
def test_a_lone_expert_far_to_one_side_keeps_both_classes(logit):
    shapes = Shapes(1, 1, 2, 1)
    theta = Theta(np.array([[1e-3, logit]]), np.zeros((0, 2)), np.zeros((1, 1, 2)), np.ones((1, 1)))
    expected = -np.logaddexp(0, [-logit, logit])                     # x1 moves the logit by a thousandth
    assert_allclose(class_log_probs(theta, np.zeros((3, 1)), latent_nodes(shapes)), [expected] * 3, rtol=1e-6, atol=1e-15)


@pytest.mark.parametrize("size", [(2, 1, 2, 1), (2, 4, 3, 2), (3, 3, 4, 1)], ids=str)
def test_overflow_is_minus_infinity_without_a_warning(size):
    shapes, theta, X, y, nodes = case(size, N=5)
    u = to_white(pack(theta), shapes, Priors())
    q = np.append(u, np.zeros(5 * shapes.latent_dim))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        last = shapes.n_params - 1
        for index, value in ((last, 2000.0), (last, -2000.0), (0, np.nan), (last, np.inf),
                             (slice(0, shapes.n_params), 1e160), (slice(0, 2), 1e308)):
            wrong, wrong_q = u.copy(), q.copy()
            wrong[index] = wrong_q[index] = value
            for result, slope in (marginal_value_and_grad(wrong, X, y, shapes, Priors(), nodes),
                                  explicit_value_and_grad(wrong_q, X, y, shapes, Priors())):
                assert result == -np.inf and not slope.any()
        phi = pack(theta)
        phi[0] = np.nan
        value, slope = likelihood_value_and_grad(phi, X, y, shapes, nodes)
        assert np.isnan(value) and np.all(np.isnan(slope))


def test_zero_weights_and_parallel_weights_have_gradients():
    for size in ((2, 3, 2, 1), (2, 4, 3, 1), (2, 2, 4, 1)):
        shapes, theta, X, y, nodes = case(size)
        for B in (np.zeros((size[2] - 1, size[1])), np.ones((size[2] - 1, size[1]))):
            beta1 = np.hstack([B, theta.beta1[:, -1:]])
            value, slope = likelihood_value_and_grad(pack(theta._replace(beta1=beta1)), X, y, shapes, nodes)
            assert np.isfinite(value) and np.all(np.isfinite(slope))
            step, expected = 1e-5, []
            for sign in (1, -1):
                moved = beta1 + sign * step * np.outer(np.arange(1, size[2]), np.arange(size[1] + 1))
                expected.append(likelihood_value_and_grad(pack(theta._replace(beta1=moved)), X, y, shapes, nodes)[0])
            along = np.outer(np.arange(1, size[2]), np.arange(size[1] + 1)).ravel()
            if np.any(B) and size[1] > size[2] - 1 > 1:      # a grid turns with the factor, which is not smooth here
                continue
            assert_allclose(slope[:along.size] @ along, (expected[0] - expected[1]) / (2 * step), rtol=1e-4, atol=1e-4)


def test_bad_input_is_named():
    shapes, theta, X, y, nodes = case((2, 3, 4, 2))
    phi, priors = pack(theta), Priors()
    for message, call in (
            ("y: expected one label", lambda: likelihood_value_and_grad(phi, X, y[:3], shapes, nodes)),
            ("y: expected one label", lambda: likelihood_value_and_grad(phi, X, None, shapes, nodes)),
            ("nodes: expected", lambda: class_log_probs(theta, X, latent_nodes(Shapes(2, 1, 2, 2)))),
            ("nodes: expected", lambda: class_log_probs(theta, X, Nodes(nodes.z, nodes.w[:3]))),
            ("parameter vector: expected", lambda: likelihood_value_and_grad(phi[1:], X, y, shapes, nodes)),
            ("q: expected", lambda: explicit_value_and_grad(phi, X, y, shapes, priors)),
            ("X: expected finite", lambda: class_log_probs(theta, X * np.nan, nodes))):
        with pytest.raises(ValueError, match=message):
            call()
