"""The predictive distribution against nested quadrature, a product grid and plain Monte Carlo of the oracle."""
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracle import predict as oracle, random_state_and_data
from scipy.special import ndtr

from cmn_literate.engineering import quadrature as rules
from cmn_literate.engineering.quadrature import predict_proba
from cmn_literate.network.latents import State


def parameters_of(arrays):
    return State.of(**arrays).parameters


def case(N, d, K, L, h, seed=0):
    arrays, X, _ = random_state_and_data(np.random.default_rng([seed, N, d, K, L, h]), N, d, K, L, h)
    arrays["a"] = arrays["a"] + 1.0
    return parameters_of(arrays), X, arrays


@pytest.mark.parametrize("size", [(1, 2, 2, 3, 1), (2, 1, 1, 2, 1), (1, 2, 3, 2, 1)], ids=str)
def test_one_latent_against_nested_adaptive_quadrature(size):
    parameters, X, arrays = case(*size)
    got = predict_proba(parameters, X, method="quadrature")
    for n in range(len(X)):
        expected = oracle.quadrature_1d(arrays, X[n])
        assert_allclose(got[n], expected, rtol=0, atol=1e-8)
        assert_allclose(oracle.product_quadrature(arrays, X[n]), expected, rtol=1e-7)


@pytest.mark.parametrize("size", [(1, 2, 2, 3, 2), (1, 1, 3, 4, 2), (2, 2, 1, 2, 2)], ids=str)
def test_two_latents_against_a_product_grid(size):
    parameters, X, arrays = case(*size)
    got = predict_proba(parameters, X, method="quadrature")
    for n in range(len(X)):
        assert_allclose(got[n], oracle.product_quadrature(arrays, X[n], n_nodes=101), rtol=0, atol=2e-6)


@pytest.mark.parametrize("size", [(1, 2, 3, 3, 1), (1, 2, 2, 4, 3), (1, 3, 2, 3, 4)], ids=str)
def test_every_method_against_plain_monte_carlo(size):
    parameters, X, arrays = case(*size, seed=1)
    mean, error = oracle.monte_carlo(arrays, X[0], np.random.default_rng(2), n_draws=60_000)
    for method in ("auto", "gauss-hermite", *(["quadrature"] if size[-1] <= 2 else [])):
        got = predict_proba(parameters, X, method=method)[0]
        slack = 5 * error + (0.01 if method == "gauss-hermite" or size[-1] > 2 else 0)
        assert np.all(np.abs(got - mean) < slack), method
    got = predict_proba(parameters, X, method="monte-carlo")[0]
    assert np.all(np.abs(got - mean) < 5 * error + 0.02)


@pytest.mark.parametrize("method", ["auto", "quadrature", "gauss-hermite", "monte-carlo", "plug-in"])
def test_rows_are_distributions_whatever_the_input(method):
    parameters, X, _ = case(4, 2, 3, 3, 2)
    for scale in (1.0, 30.0, 1e4):
        p = predict_proba(parameters, scale * X, method=method)
        assert p.shape == (4, 3) and np.all((p >= 0) & (p <= 1))
        assert_allclose(p.sum(1), 1, rtol=1e-6)
    assert predict_proba(parameters, X[:0], method=method).shape == (0, 3)


def test_any_object_with_the_eight_fields_will_do_and_rows_are_independent():
    parameters, X, _ = case(4, 2, 3, 3, 2)
    whole = predict_proba(parameters, X)
    assert_allclose(predict_proba(SimpleNamespace(**parameters._asdict()), X), whole, rtol=1e-12)
    assert_allclose(np.concatenate([predict_proba(parameters, X[:1]), predict_proba(parameters, X[1:])]), whole, rtol=1e-10)


def test_plug_in_is_the_naive_rule_and_differs():
    """Means in place of distributions: mixture of sticks at the means, overconfident far out."""
    parameters, X, arrays = case(3, 2, 2, 3, 2)
    expected = np.zeros((3, 3))

    def sticks(psi):
        out, left = [], 1.0
        for p in psi:
            out.append(left / (1 + np.exp(-p)))
            left = left / (1 + np.exp(p))
        return np.array([*out, left])
    for n in range(3):
        x = np.append(X[n], 1)
        for w, M in zip(sticks(arrays["beta0_mu"] @ x), arrays["M"]):
            expected[n] += w * sticks(arrays["beta1_mu"] @ np.append(M @ x, 1))
    got = predict_proba(parameters, X, method="plug-in")
    assert_allclose(got, expected, rtol=1e-10)
    assert np.abs(got - predict_proba(parameters, X)).max() > 0.01


@pytest.mark.parametrize("h", [1, 3, 6])
def test_rules_have_the_moments_of_a_standard_normal(h):
    """Every rule: weights sum to 1, mean 0, unit covariance (sampling rules: nearly, but the Sobol points are centred exactly)."""
    exact = [rules.cubature_rule(h), rules.grid_rule([rules.hermite_rule(4)] * min(h, 3))]
    for z, w in exact:
        assert_allclose([w.sum(), *(w @ z)], [1, *np.zeros(z.shape[1])], atol=1e-13)
        assert_allclose(np.einsum("q,qi,qj->ij", w, z, z), np.eye(z.shape[1]), atol=1e-12)
    z, w = rules.sobol_rule(h, 256)
    assert z.shape == (256, h)
    assert_allclose(w @ ndtr(z), np.full(h, 0.5), rtol=1e-12)
    assert_allclose(np.einsum("q,qi,qj->ij", w, z, z), np.eye(h), atol=0.06)
    z, w = rules.antithetic_rule(h, 4000, np.random.default_rng(0))
    assert_allclose([w.sum(), *(w @ z)], [1, *np.zeros(h)], atol=1e-12)
    assert_allclose(np.einsum("q,qi,qj->ij", w, z, z), np.eye(h), atol=0.15)


@pytest.mark.parametrize("field", ["M", "V", "a", "b"])
def test_experts_alike_but_for_one_field_are_told_apart(field):
    """Work is shared among equal experts only: whichever field differs, the answer is that of two experts."""
    _, X, arrays = case(1, 2, 2, 3, 1, seed=3)
    for name in ("M", "V", "a", "b"):
        if name != field:
            arrays[name][1] = arrays[name][0]
    arrays["b"][1] *= 9.0 if field == "b" else 1.0
    got = predict_proba(parameters_of(arrays), X)
    assert_allclose(got[0], oracle.product_quadrature(arrays, X[0]), atol=1e-7)
    for name in ("M", "V", "a", "b"):
        arrays[name][1] = arrays[name][0]
    alike = predict_proba(parameters_of(arrays), X)
    assert_allclose(alike[0], oracle.product_quadrature(arrays, X[0]), atol=1e-7)
    assert np.abs(got - alike).max() > 1e-4


def test_bad_input_is_named():
    parameters, X, _ = case(4, 2, 3, 3, 2)
    with pytest.raises(ValueError, match="method"):
        predict_proba(parameters, X, method="guess")
    for bad in (X[:, :1], X[0], np.full_like(X, np.nan)):
        with pytest.raises(ValueError, match="X"):
            predict_proba(parameters, bad)
