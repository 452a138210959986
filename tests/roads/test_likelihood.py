"""The likelihood against adaptive quadrature and plain Monte Carlo of the oracle, at its edges, and with bad input."""
import math
import warnings

import autograd.numpy as anp
import numpy as np
import pytest
from autograd import grad
from numpy.testing import assert_allclose
from oracle import likelihood as oracle

from cmn_literate.roads.likelihood import (
    Nodes,
    Shapes,
    class_log_probs,
    explicit_log_joint,
    explicit_value_and_grad,
    from_white,
    latent_nodes,
    likelihood_value_and_grad,
    log_likelihood,
    log_prior,
    log_prior_white,
    marginal_value_and_grad,
    pack,
    theta_shapes,
    to_white,
    unpack,
)
from cmn_literate.network.simulate import Priors, Theta, sample_theta

MODERATE = Priors(v0=2.0, a0=4.0, b0=3.0, sigma0=1.0, sigma1=1.2)
ALL_SIZES = [(1, 1, 2, 1), (3, 1, 2, 2), (2, 4, 2, 1), (3, 2, 3, 2), (1, 5, 3, 2), (3, 1, 5, 1), (2, 3, 5, 2), (2, 6, 4, 1)]


def case(size, seed=0, N=40):
    """Theta, inputs, labels and nodes of a network with moderate logits."""
    rng = np.random.default_rng([seed, *size])
    shapes = Shapes(*size)
    theta = sample_theta(MODERATE, *size, rng)
    nodes = latent_nodes(shapes, {1: 24, 2: 9}.get(shapes.rank, 32), rng=0)
    return shapes, theta, rng.normal(size=(N, size[3])), rng.integers(0, size[2], N), nodes


# ---- the number itself

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


@pytest.mark.parametrize("size", ALL_SIZES, ids=str)
@pytest.mark.parametrize("scale", [1.0, 40.0, 1e3])
def test_probabilities_add_up_to_one_and_agree_with_one_label_at_a_time(size, scale):
    _, theta, X, y, nodes = case(size, N=7)
    theta = theta._replace(beta1=scale * theta.beta1, beta0=scale * theta.beta0)
    table = class_log_probs(theta, X, nodes)
    assert np.all(np.isfinite(table)) and np.all(table <= 1e-12)
    assert_allclose(np.exp(table).sum(1), 1, rtol=1e-12)
    assert_allclose(table[np.arange(7), y], log_likelihood(theta, X, y, nodes), rtol=1e-9, atol=1e-12)


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


def test_quadrature_error_is_what_the_docstring_says():
    rng = np.random.default_rng(0)
    for size, sharpness, tol in (((1, 1, 2, 1), 5.0, 1e-6), ((1, 2, 3, 1), 3.0, 3e-7)):
        shapes, (h, L) = Shapes(*size), size[1:3]
        for _ in range(20):
            B = rng.normal(size=(L - 1, h))
            B *= sharpness / np.linalg.norm(B, axis=1)[:, None]
            theta = Theta(np.hstack([B, sharpness * rng.normal(size=(L - 1, 1))]), np.zeros((0, 2)), np.zeros((1, h, 2)),
                          np.ones((1, h)))
            rules = latent_nodes(shapes), latent_nodes(shapes, {1: 300, 2: 80}[shapes.rank])
            coarse, fine = (np.exp(class_log_probs(theta, np.zeros((1, 1)), rule)) for rule in rules)
            assert np.abs(coarse - fine).max() < tol


# ---- gradients

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
        (marginal_value_and_grad(u, X, y, shapes, priors, nodes),
         lambda p: anp.sum(log_likelihood(unpack(from_white(p, shapes, priors), shapes), X, y, nodes))
         + log_prior_white(p, shapes, priors), u),
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


# ---- coordinates

@pytest.mark.parametrize("size", ALL_SIZES, ids=str)
def test_prior_against_a_loop(size):
    priors = Priors(v0=0.5, a0=1.5, b0=2.0, sigma0=0.7, sigma1=3.0)
    theta, shapes = sample_theta(priors, *size, np.random.default_rng(2)), Shapes(*size)
    expected = oracle.log_prior(theta, priors.v0, priors.a0, priors.b0, priors.sigma0, priors.sigma1)
    assert_allclose(log_prior(pack(theta), shapes, priors), expected, rtol=1e-11)
    assert pack(theta).shape == (shapes.n_params,)


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


# ---- edges

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


def test_random_nodes_are_repeatable_and_even():
    shapes = Shapes(2, 5, 5, 1)
    one, other = latent_nodes(shapes, rng=1), latent_nodes(shapes, rng=np.random.default_rng(1))
    assert_allclose(one.z, other.z, rtol=0)
    assert one.z.shape == (64, 4) and np.all(np.isfinite(one.z)) and np.abs(one.z - latent_nodes(shapes, rng=2).z).max() > 0.1
    cells = np.array([[int(32 * (1 + math.erf(v / 2**0.5))) for v in row] for row in one.z])
    assert all(len(set(column)) == 64 for column in cells.T), "each coordinate has one point in each of 64 equal cells"


def test_bad_input_is_named():
    shapes, theta, X, y, nodes = case((2, 3, 4, 2))
    phi, priors = pack(theta), Priors()
    for message, call in (
            ("X: expected 2 columns", lambda: log_likelihood(theta, X[:, :1], y, nodes)),
            ("y: expected labels", lambda: log_likelihood(theta, X, np.full(40, 4), nodes)),
            ("y: expected one label", lambda: likelihood_value_and_grad(phi, X, y[:3], shapes, nodes)),
            ("y: expected one label", lambda: log_likelihood(theta, X, None, nodes)),
            ("y: expected one label", lambda: likelihood_value_and_grad(phi, X, None, shapes, nodes)),
            ("nodes: expected", lambda: class_log_probs(theta, X, latent_nodes(Shapes(2, 1, 2, 2)))),
            ("nodes: expected", lambda: class_log_probs(theta, X, Nodes(nodes.z, nodes.w[:3]))),
            ("parameter vector: expected", lambda: unpack(phi[1:], shapes)),
            ("parameter vector: expected", lambda: likelihood_value_and_grad(phi[1:], X, y, shapes, nodes)),
            ("beta0: expected shape", lambda: pack(theta._replace(beta0=theta.beta0[:, 1:]))),
            ("q: expected", lambda: explicit_value_and_grad(phi, X, y, shapes, priors)),
            ("seed", lambda: latent_nodes(shapes)),
            ("power of 2", lambda: latent_nodes(shapes, 50, 0)),
            ("seed", lambda: latent_nodes(shapes, rng=1j)),
            ("seed", lambda: latent_nodes(shapes, rng=True)),
            ("seed", lambda: latent_nodes(shapes, rng=-1)),
            ("n_nodes: expected", lambda: latent_nodes(Shapes(2, 1, 2, 2), 0)),
            ("n_nodes: expected", lambda: latent_nodes(Shapes(2, 1, 2, 2), 10.5)),
            ("X: expected finite", lambda: class_log_probs(theta, X * np.nan, nodes))):
        with pytest.raises(ValueError, match=message):
            call()
