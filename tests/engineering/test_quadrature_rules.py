"""The rules of the predictive integral, its pieces, extremes and bad input (test_quadrature.py holds the oracle comparisons)."""
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from cmn_literate.checks import check_parameters
from cmn_literate.engineering.quadrature import (
    RULES,
    class_probs_by_expert,
    node_counts,
    predict_log_proba,
    predict_proba,
    sobol_rule,
    stick_means,
    stretch_normal,
)
from cmn_literate.engineering.row_tables import shared_integrals, twin_experts
from cmn_literate.ideas.logistic import log_sigmoid_normal
from cmn_literate.network.predict import gate_probs, latent_t, point_posterior, sample_parameters
from cmn_literate.network.simulate import Theta

SHAPES = [(1, 1, 2), (1, 2, 3), (3, 1, 2), (3, 1, 5), (2, 2, 2), (3, 4, 2), (2, 3, 5), (2, 8, 3)]   # (K, h, L): one expert, h > L-1, h < L-1


def posterior(K, h, L, d=2, seed=0):
    rng, D = default_rng([seed, K, h, L]), d + 1

    def spread(count, size, scale):
        root = rng.normal(size=(count, size, size + 2))
        return scale * root @ root.swapaxes(1, 2) / (size + 2)
    p = SimpleNamespace(beta1_mu=rng.normal(size=(L - 1, h + 1)), beta1_S=spread(L - 1, h + 1, 0.05),
                        beta0_mu=rng.normal(size=(K - 1, D)), beta0_S=spread(K - 1, D, 0.1),
                        M=rng.normal(size=(K, h, D)), V=spread(K, D, 0.05), a=rng.uniform(3, 40, K))
    p.b = p.a[:, None] * rng.uniform(0.1, 0.6, (K, h))
    return p


def changed(p, **fields):
    return SimpleNamespace(**{**vars(p), **fields})


X4 = default_rng(1).normal(size=(4, 2))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes_and_sums(shape):
    K, h, L = shape
    p = posterior(*shape)
    for method in RULES:
        got = predict_proba(p, X4, method=method, n_nodes=3 if method == "quadrature" and h > 2 else None)
        assert got.shape == (4, L) and got.dtype == float
        assert_allclose(got.sum(1), 1, rtol=1e-12)
    assert gate_probs(p, X4).shape == (4, K)
    location, scale, dof = latent_t(p, X4)
    assert location.shape == scale.shape == (4, K, h) and dof.shape == (K,)
    assert class_probs_by_expert(p, X4).shape == (4, K, L)
    assert predict_log_proba(p, X4[:0]).shape == (0, L) and class_probs_by_expert(p, X4[:0]).shape == (0, K, L)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_methods_agree(shape):
    """Different point sets, one integral; a fine Sobol set is good to a few 1e-4 in every dimension here."""
    h, p = shape[1], posterior(*shape)
    reference = predict_proba(p, X4, method="sobol", n_nodes=2**13)
    assert_allclose(predict_proba(p, X4), reference, atol=1e-2 if h > 5 else 2e-3)
    assert_allclose(predict_proba(p, X4, method="monte-carlo", n_draws=20_000, rng=5), reference, atol=0.02)
    assert_allclose(predict_proba(p, X4, method="cubature"), reference, atol=0.05)
    if h <= 4:
        nodes = {1: 60, 2: 30, 3: 13, 4: 9}[h]
        assert_allclose(predict_proba(p, X4, method="gauss-hermite", n_nodes=nodes), reference, atol=2e-3)
        assert_allclose(predict_proba(p, X4, method="quadrature", n_nodes=nodes), reference, atol=2e-3)
    assert np.abs(predict_proba(p, X4, method="plug-in") - reference).max() > 1e-3


def test_auto_keeps_its_promise_near_the_data():
    for seed in range(3):
        for h, nodes, bound in ((1, 601, 1e-8), (2, 101, 2e-6)):
            p = posterior(3, h, 3, seed=seed)
            assert_allclose(predict_proba(p, X4), predict_proba(p, X4, method="quadrature", n_nodes=nodes), atol=bound)


def test_log_probabilities_survive_extremes():
    for h in (1, 2, 3):
        p = posterior(3, h, 4, seed=3)
        for case in (changed(p, beta1_mu=1e3 * p.beta1_mu), changed(p, beta0_mu=1e3 * p.beta0_mu), changed(p, M=1e4 * p.M),
                     changed(p, a=np.full(3, 0.03)), changed(p, beta1_S=0 * p.beta1_S, V=0 * p.V, b=1e-30 * p.b),
                     changed(p, beta1_S=1e6 * p.beta1_S, V=1e6 * p.V)):
            for X in (X4, 1e6 * X4, 0 * X4):
                log_p = predict_log_proba(case, X)
                assert np.isfinite(log_p).all()
                assert_allclose(np.exp(log_p).sum(1), 1, rtol=1e-12)


def test_certain_logits_of_a_thousand():
    p = point_posterior(Theta(np.array([[0.0, -1000.0]]), np.zeros((0, 2)), np.zeros((1, 1, 2)), np.ones((1, 1))))
    assert_allclose(predict_log_proba(p, np.array([[0.3]])), [[-1000, 0]], rtol=1e-12)


def test_rows_do_not_see_each_other_across_blocks():
    p, X = posterior(2, 1, 3), default_rng(0).normal(size=(4100, 2))
    whole = predict_proba(p, X)
    pick = [0, 4095, 4096, 4099]
    assert_allclose(predict_proba(p, X[pick]), whole[pick], rtol=0, atol=1e-8)        # the many have tables
    assert_allclose(predict_proba(p, X4[[2, 2, 0]])[1], predict_proba(p, X4)[2], rtol=1e-12)


def test_float32_dataframes_and_lists():
    p = posterior(2, 2, 3)
    expected = predict_proba(p, X4)
    assert_allclose(predict_proba(p, X4.astype(np.float32)), expected, atol=1e-5)
    assert_allclose(predict_proba(p, X4.tolist()), expected, rtol=1e-12)
    pandas = pytest.importorskip("pandas")
    assert_allclose(predict_proba(p, pandas.DataFrame(X4, columns=["u", "v"])), expected, rtol=1e-12)


def test_accuracy_follows_the_weight():
    p = posterior(3, 1, 3)
    p.beta0_mu[:], p.beta0_S[:] = [[0, 0, 40.0], [0, 0, 0]], 0                    # expert 0 takes all
    full = class_probs_by_expert(p, X4, method="quadrature", n_nodes=301, weight=1.0)
    assert_allclose(class_probs_by_expert(p, X4, weight=1.0), full, atol=1e-8)
    crude = class_probs_by_expert(p, X4)
    assert_allclose(crude[:, 0], full[:, 0], atol=1e-8)
    assert np.abs(crude[:, 1] - full[:, 1]).max() > 1e-4
    assert_allclose(predict_proba(p, X4), full[:, 0], atol=1e-8)


@pytest.mark.parametrize("digits", [9, 12])
def test_means_of_sigmoids_in_every_region(digits):
    """Narrow and wide laws, in the middle, reflected and far from both, alone and in blocks: both sides to their own digits."""
    rng = default_rng(digits)
    for n in (7, 2500):
        v = np.concatenate([10.0 ** rng.uniform(-4, 5, n), [0.0, 4.0, 25.0, 95.0, 1e4]])
        m = np.concatenate([rng.choice([-1, 1], n) * v[:n] ** rng.uniform(0, 1, n) * rng.uniform(0, 1.5, n), [3.0, -2.0, 12.5, 47.0, 4e3]])
        m = np.clip(m, -600, 600)
        low, high = stick_means(m, v, digits)
        assert_allclose(low, np.exp(log_sigmoid_normal(m, v)), rtol=max(300 * 0.1**digits, 5e-9), atol=1e-300)
        assert_allclose(high, np.exp(log_sigmoid_normal(-m, v)), rtol=max(300 * 0.1**digits, 5e-9), atol=1e-300)


def test_twins_are_found_and_change_nothing():
    p = posterior(4, 2, 3)
    assert_array_equal(twin_experts(p), [0, 1, 2, 3])
    for name in ("M", "V", "a", "b"):
        getattr(p, name)[2:] = getattr(p, name)[0]
    assert_array_equal(twin_experts(p), [0, 1, 0, 0])
    apart = changed(p, b=p.b * (1 + 1e-6 * np.arange(4))[:, None])
    assert_array_equal(twin_experts(apart), [0, 1, 2, 3])
    assert_allclose(predict_proba(p, X4), predict_proba(apart, X4), atol=3e-6)
    assert_allclose(class_probs_by_expert(p, X4)[:, 3], class_probs_by_expert(p, X4)[:, 0], rtol=1e-14)


def test_likelihood_of_a_theta_is_the_mixture_integral():
    """p(y | x, Theta) written out: sum over experts, adaptive quadrature over one latent."""
    theta = Theta(*(part[0] for part in sample_parameters(posterior(2, 1, 3), default_rng(4), 1)))
    x = np.array([0.3, -0.8, 1.0])
    gate = expit(theta.beta0[0] @ x)
    expected = np.zeros(3)
    for k, weight in enumerate((gate, 1 - gate)):
        mean, sd = theta.A[k, 0] @ x, theta.tau[k, 0]**-0.5

        def classes(u):
            s0, s1 = (expit(w * u + c) for w, c in theta.beta1)
            return np.array([s0, (1 - s0) * s1, (1 - s0) * (1 - s1)])
        expected += [weight * quad(lambda u: norm.pdf(u, mean, sd) * classes(u)[c], mean - 9 * sd, mean + 9 * sd, epsabs=1e-11)[0]
                     for c in range(3)]
    assert_allclose(predict_proba(point_posterior(theta), x[None, :2])[0], expected, atol=1e-8)


def test_monte_carlo_randomness_comes_in_as_rng():
    p = posterior(2, 3, 3)

    def run(rng):
        return predict_proba(p, X4, method="monte-carlo", n_draws=50, rng=rng)
    assert_array_equal(run(3), run(default_rng(3)))
    assert_array_equal(run(None), run(0))
    rng = default_rng(3)
    assert np.abs(run(rng) - run(rng)).max() > 0


def test_rules():
    assert sobol_rule(3, 100)[0].shape == (64, 3)                               # rounded down to a power of two
    for dof in (0.01, 0.5, 3.0, 1e15):
        t = stretch_normal(np.array([-30.0, -1.0, 0.0, 1.0, 30.0]), dof)
        assert np.isfinite(t).all() and np.all(np.diff(t) > 0) and t[2] == 0
        assert_allclose(t, -t[::-1], rtol=1e-15)
    counts = node_counts(np.array([[1.0, 3.0]] * 4), np.array([1.0, 1e-2, 1e-4, 0.0]))
    assert np.all(np.diff(counts, axis=0) <= 0) and np.all(np.diff(counts[:2], axis=1) > 0) and np.all(counts[3] == 1)


def test_hermite_points_for_the_nearly_normal_only():
    for h in (1, 2):
        one = np.ones((1, h)), np.ones(1)
        assert (node_counts(*one, 100.0) < 0).all() and (node_counts(*one, 99.0) > 0).all() and (node_counts(*one) > 0).all()
        assert (node_counts(1.01 * one[0], one[1], 1e6) > 0).all() and (node_counts(one[0], 1e-12 * one[1], 1e6) == 1).all()
    p, X = posterior(3, 2, 3, seed=5), default_rng(4).normal(size=(12, 2))
    p.a, p.b, p.beta1_mu = p.a + 100, 0.2 * (p.a + 100)[:, None] * np.ones(2), 0.7 * p.beta1_mu
    assert_allclose(predict_proba(p, X), predict_proba(p, X, method="quadrature", n_nodes=81), rtol=0, atol=6e-7)


@pytest.mark.parametrize("h", [1, 2, 4])
def test_who_shares_an_integral(h):
    """One change at a time: allowed just below the bound, not just above."""
    equal, tol = posterior(1, h, 2), 1e-10 if h == 1 else 3e-9
    equal = changed(equal, **{name: np.repeat(getattr(equal, name), 2, 0) for name in ("M", "V", "a", "b")})
    location, scale, dof, step = np.zeros((1, 2, h)), np.full((1, 2, h), 3.0), np.full(2, 8.0), 1e-5
    shifted, wider, heavier = location.copy(), scale.copy(), dof.copy()
    shifted[0, 1, -1], wider[0, 1, 0], heavier[1] = 3 * step, 3 * np.exp(-step), 8 * np.exp(step)
    for arrays, bound in (((shifted, scale, dof), 0.4 * step), ((location, wider, dof), 0.5 * step), ((location, scale, heavier), 0.5 * h * step)):
        for factor in (0.99, 1.01):
            close, near = shared_integrals(equal, *arrays, np.full((1, 2), factor * tol / bound))
            assert list(near) == [0, 0] and close.tolist() == [[False, factor < 1]]


def test_the_heavy_twin_of_a_light_expert_keeps_its_accuracy():
    p = posterior(4, 1, 3)
    for name in ("M", "V", "a", "b"):
        getattr(p, name)[3] = getattr(p, name)[1]
    p.beta0_mu[:], p.beta0_S[:] = [[0, 0, -30.0]] * 3, 0                         # expert 3 takes all, expert 1 has its integral
    fine = predict_proba(p, X4, method="quadrature", n_nodes=301)
    assert_allclose(predict_proba(p, X4), fine, atol=1e-8)
    assert_array_equal(class_probs_by_expert(p, X4)[:, 3], class_probs_by_expert(p, X4)[:, 1])


@pytest.mark.parametrize("field, value", [
    ("beta1_mu", np.ones((2, 2))), ("beta1_S", np.ones((2, 2, 2))), ("beta0_mu", np.ones((2, 2))), ("beta0_S", np.ones((1, 2, 2))),
    ("M", np.ones((2, 6))), ("V", np.ones((3, 3))), ("a", np.array([1.0, 0.0])), ("b", -np.ones((2, 2))), ("b", np.ones(2)),
    ("a", np.array([np.inf, 1.0])), ("V", np.full((2, 3, 3), np.nan)), ("beta1_mu", np.ones((0, 3))), ("M", "text"), ("a", ["2", "3"]), ("b", np.ones((2, 2), complex)),
    ("a", np.ma.array([1.0, 2.0], mask=[0, 1])), ("V", {1.0}), ("a", None), ("M", [[[1.0], [1.0, 2.0]]])], ids=str)
def test_bad_parameters_are_named(field, value):
    p = changed(posterior(2, 2, 3), **{field: value})
    with pytest.raises(ValueError, match=rf"^(M, )?{field}(, beta1_mu)?: expected"):
        predict_proba(p, X4)
    p = posterior(2, 2, 3)
    delattr(p, field)
    with pytest.raises(ValueError, match=field):
        check_parameters(p)


@pytest.mark.parametrize("options, name", [
    (dict(method="exact"), "method"), (dict(method="quadrature", n_nodes=0), "n_nodes"), (dict(method="auto", n_nodes=5), "n_nodes"),
    (dict(method="gauss-hermite", n_nodes=2.5), "n_nodes"), (dict(method="quadrature", n_nodes=1000), "n_nodes"),
    (dict(method="plug-in", n_nodes=5), "n_nodes"), (dict(method="gauss-hermite", n_nodes=301), "n_nodes"), (dict(method="exact", n_nodes=5), "method"),
    (dict(method="monte-carlo", n_draws=-1), "n_draws"), (dict(method="sobol", n_nodes=-4), "n_nodes")], ids=str)
def test_bad_options_are_named(options, name):
    with pytest.raises(ValueError, match=f"^{name}"):
        predict_proba(posterior(2, 2, 3), X4, **options)


def test_the_largest_rules_are_finite():
    p = posterior(2, 1, 3)
    for method, n_nodes in (("gauss-hermite", 300), ("quadrature", 1025)):
        assert_allclose(predict_proba(p, X4, method=method, n_nodes=n_nodes), predict_proba(p, X4), atol=1e-4)
        with pytest.raises(ValueError, match="^n_nodes"):
            predict_proba(p, X4, method=method, n_nodes=2049)


def test_quadrature_without_a_number_of_nodes_needs_few_dimensions():
    with pytest.raises(ValueError, match="n_nodes"):
        predict_proba(posterior(2, 3, 3), X4, method="quadrature")
    assert predict_proba(posterior(2, 3, 3), X4, method="quadrature", n_nodes=5).shape == (4, 3)


@pytest.mark.parametrize("X", [np.ones((2, 3)), np.ones(2), np.array([[1.0, np.nan]]), [["u", "v"]]], ids=["columns", "axes", "nan", "text"])
def test_bad_inputs_are_named(X):
    for function in (predict_proba, gate_probs, latent_t, class_probs_by_expert):
        with pytest.raises(ValueError, match="X"):
            function(posterior(2, 2, 3), X)
