"""Starts, forecasts and the learner of networks of several layers."""
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import stdtrit

from cmn_literate import CMNClassifier
from cmn_literate.beyond.deep import Sticks, Experts, Mixture, Network, exact, network_of, parameters_of
from cmn_literate.beyond.depth import (
    choice_log_probs, complete_deep, deep_log_proba, deep_start, draw_paths, fit_deep, forward_moments, moments_log_proba, principal_axes)
from cmn_literate.engineering.fit import fit
from cmn_literate.engineering.quadrature import predict_log_proba
from cmn_literate.engineering.starts import cluster_labels, code_experts, code_gate, init_parameters
from cmn_literate.network.predict import gate_probs, latent_t
from cmn_literate.network.simulate import Priors
from cmn_literate.use.datasets import make_pinwheels

RNG = np.random.default_rng


def network(widths=(2, 2, 1), experts=(3, 2), L=3, seed=0):
    """A Network of moderate weights and few degrees of freedom."""
    rng = RNG(seed)
    spd = lambda K, m: np.tile(0.1 * np.eye(m), (K, 1, 1)) + 0.02
    choices = [Sticks(rng.normal(size=(K - 1, m + 1)), spd(K - 1, m + 1)) for m, K in zip(widths, (*experts, L))]
    made = [Experts(rng.normal(size=(K, h, m + 1)), spd(K, m + 1), rng.uniform(2, 5, K), rng.uniform(0.5, 2, (K, h)))
            for m, h, K in zip(widths, widths[1:], experts)]
    return Network(tuple(choices), tuple(made))


def by_slices(net, X, m=1500):
    """Forecast of two layers whose first has one latent: slices of x_1, above them the exact forecast of one layer."""
    lower = Network(net.choices[:2], net.experts[:1])
    upper, total = parameters_of(Network(net.choices[1:], net.experts[1:])), 0.0
    location, scale, dof = latent_t(parameters_of(lower), X)
    gate, u = gate_probs(parameters_of(lower), X), (np.arange(m) + 0.5) / m
    for k in range(len(dof)):
        x1 = location[:, k] + scale[:, k] * stdtrit(dof[k], u)
        total = total + gate[:, k:k + 1] * np.exp(predict_log_proba(upper, x1.reshape(-1, 1))).reshape(len(X), m, -1).mean(1)
    return total


def test_paths_agree_with_slices_within_their_error():
    net, X = network((2, 1, 1), (3, 2), 3), RNG(1).normal(size=(5, 2))
    log_p, error = deep_log_proba(net, X, 128, 8)
    off = np.abs(np.exp(log_p) - by_slices(net, X))
    assert (off < 5 * error + 5e-4).all() and error.max() < 0.01
    assert_allclose(np.exp(log_p).sum(1), 1, rtol=1e-9)
    coarse = deep_log_proba(net, X, 16, 8)[1]
    assert coarse.mean() > 1.5 * error.mean() > 0


def test_the_stated_error_is_the_scatter():
    net, X = network(), RNG(1).normal(size=(3, 2))
    runs = [deep_log_proba(net, X, 16, 8, rng=seed) for seed in range(40)]
    scatter = np.std([np.exp(log_p) for log_p, _ in runs], axis=0)
    stated = np.mean([error**2 for _, error in runs], axis=0) ** 0.5
    assert 0.7 < (stated / scatter).min() and (stated / scatter).max() < 1.4


def test_a_forecast_does_not_depend_on_the_other_rows():
    net, X = network(), RNG(2).normal(size=(7, 2))
    whole = deep_log_proba(net, X, 32, 4)[0]
    assert_allclose(np.concatenate([deep_log_proba(net, part, 32, 4)[0] for part in (X[:3], X[3:])]), whole, rtol=1e-12)


def test_one_layer_is_forecast_exactly():
    X, y = make_pinwheels(60, RNG(0))
    p = fit(X, y, 3, max_sweeps=10).parameters
    log_p, error = deep_log_proba(network_of(p), X)
    assert_array_equal(log_p, predict_log_proba(p, X))
    assert not error.any()
    paths = draw_paths(network_of(p), X[:4], RNG(1).random((4000, 5)))
    location, scale, dof = latent_t(p, X[:4])
    gate, draws = gate_probs(p, X[:4]), paths.mean(1)
    assert_allclose(draws, np.einsum("nk,nki->ni", gate, location), atol=5 * paths.std(1).max() / 4000**0.5)


def test_moments_are_those_of_draws():
    net, X, rng, R = network(), RNG(3).normal(size=(2, 2)), RNG(4), 100_000
    first, second = forward_moments(net, X)
    gate = np.exp(choice_log_probs(exact(X), net.choices[0]))[:, 0]
    assert_allclose(first.gamma, gate, rtol=1e-12)
    location, scale, dof = latent_t(parameters_of(Network(net.choices[:2], net.experts[:1])), X)
    assert_allclose(first.mu, location, rtol=1e-12)
    assert_allclose(np.diagonal(first.Sigma, axis1=2, axis2=3), scale**2 * (dof / (dof - 2))[:, None], rtol=1e-10)
    z = rng.choice(3, size=R, p=gate[0])
    x1 = np.column_stack([location[0, z] + scale[0, z] * rng.standard_t(dof[z][:, None], (R, 2)), np.ones(R)])
    for k, (M, V, a, b) in enumerate(zip(*net.experts[1])):
        x2 = x1 @ M[0] + np.sqrt(b[0] / a * (1 + np.einsum("rd,de,re->r", x1, V, x1))) * rng.standard_t(2 * a, R)
        square = (x2 - second.mu[0, k, 0]) ** 2
        assert abs(x2.mean() - second.mu[0, k, 0]) < 4 * x2.std() / R**0.5
        assert abs(square.mean() - second.Sigma[0, k, 0, 0]) < 5 * square.std() / R**0.5
    assert_allclose(second.gamma, np.einsum("nc,nck->nk", first.gamma, np.exp(choice_log_probs(first, net.choices[1]))), rtol=1e-12)
    assert_allclose(np.exp(moments_log_proba(net, X)).sum(1), 1, rtol=1e-9)


def test_moments_are_near_the_paths():
    X, y = make_pinwheels(80, RNG(0))
    found = fit_deep(X, y, 4, layers=2, max_sweeps=10)
    log_p, error = deep_log_proba(found.network, X[:20])
    gap = np.abs(np.exp(log_p) - np.exp(moments_log_proba(found.network, X[:20])))
    assert error.max() < 0.02 and gap.mean() < 0.03


# ---- starts

def test_a_greedy_start_is_fits_of_one_layer():
    X, y = make_pinwheels(60, RNG(0))
    made, rng, R = deep_start(X, y, (3, (2, 3, 4), 5), Priors(), RNG(5)), RNG(5), X
    for s, m in enumerate((2, 3)):
        p = fit(R, y, 3, m, 5, Priors(), rng, max_sweeps=100).parameters
        for one, two in zip((*made.choices[s], *made.experts[s]), (p.beta0_mu, p.beta0_S, p.M, p.V, p.a, p.b)):
            assert_array_equal(one, two)
        R = np.einsum("nc,nch->nh", *forward_moments(Network(made.choices[:s + 1], made.experts[:s + 1]), X)[-1][:2])
    p = init_parameters(R, y, 3, 4, 5, Priors(), rng)
    for one, two in zip((*made.choices[2], *made.experts[2], *made.choices[3]), (p.beta0_mu, p.beta0_S, p.M, p.V, p.a, p.b, p.beta1_mu, p.beta1_S)):
        assert_array_equal(one, two)


def test_other_starts_ask_for_codes_or_for_the_inputs():
    X, y = make_pinwheels(60, RNG(0))
    code, rng = deep_start(X, y, (3, (2, 4), 5), Priors(), RNG(5), hidden="code"), RNG(5)
    assert_array_equal(code.experts[0].M, init_parameters(X, y, 3, 2, 5, Priors(), rng).M)
    inputs, rng = deep_start(X, y, (3, (2, 4), 5), Priors(), RNG(5), hidden="input"), RNG(5)
    label = cluster_labels(X, 3, rng)
    target = principal_axes(X, 2) + 0.1 * rng.normal(size=(60, 2))
    assert_array_equal(inputs.experts[0].M, code_experts(X, label, target, 3, Priors())[0])
    assert_array_equal(inputs.choices[0].mu, code_gate(X, label, 3, Priors())[0])
    axes = principal_axes(RNG(1).normal(size=(50, 3)) * [3, 2, 1] + 5, 4)
    assert_allclose(axes.T @ axes / 50, np.diag([1, 1, 1, 0]), atol=1e-12)
    assert_allclose(axes.mean(0), 0, atol=1e-12)


def test_a_complete_start_has_the_moments_and_no_tilts():
    X, y = make_pinwheels(30, RNG(0))
    made = deep_start(X, y, (3, (2, 4), 5), Priors(), RNG(5), hidden="code")
    state = complete_deep(made, X)
    for one, two in zip(state.hidden, forward_moments(made, X)):
        assert_array_equal(one.mu, two.mu)
    assert [t.shape for t in state.tilts] == [(30, 1, 2), (30, 3, 2), (30, 3, 4)] and not any(t.any() for t in state.tilts)


# ---- the learner

def data():
    X, y = make_pinwheels(60, RNG(4))
    return X, np.array(list("abcde"))[y]


def make(sweeps=8, **options):
    return CMNClassifier.paper(n_experts=3, method="deep", max_sweeps=sweeps, tol=1e-12, random_state=0, method_options={"points": 64, **options})


def test_estimator_fits_remembers_and_forecasts(tmp_path):
    X, y = data()
    with pytest.warns(match="deep has not converged"):
        est = make().fit(X, y)
    Z, codes = (X - X.mean(0)) / X.std(0), np.unique(y, return_inverse=True)[1]
    by_hand = fit_deep(Z, codes, 3, rng=RNG(0).spawn(1)[0], max_sweeps=8, tol=1e-12)
    assert_allclose(by_hand.elbo, est.trace_, rtol=1e-9)
    assert [e.M.shape for e in est.fits_[0].network.experts] == [(3, 4, 3), (3, 4, 5)] and (np.diff(est.trace_) > -1e-8).all()
    assert_allclose(est.predict_log_proba(X), deep_log_proba(est.fits_[0].network, Z, 8, 8)[0], rtol=1e-9)
    est.save(tmp_path / "model.npz")
    again = CMNClassifier.load(tmp_path / "model.npz")
    assert_array_equal(again.predict_log_proba(X), est.predict_log_proba(X))
    assert again.fits_[0].points == 64 and again.elbo_ == est.elbo_
    with pytest.raises(AttributeError, match="keeps no factors"):
        est.gate(X)


def test_a_run_goes_on_from_its_checkpoint_bit_for_bit(tmp_path):
    X, y = data()
    with pytest.warns(match="not converged"):
        whole = make(6, layers=3).fit(X, y)
    path = tmp_path / "run.npz"
    with pytest.warns(match="not converged"):
        make(2, layers=3, checkpoint=path).fit(X, y)
    with pytest.warns(match="not converged"):
        rest = make(6, layers=3, checkpoint=path).fit(X, y)
    assert_array_equal(rest.trace_, whole.trace_)
    assert_array_equal(rest.predict_log_proba(X), whole.predict_log_proba(X))
    with pytest.raises(ValueError, match="checkpoint: expected a run of this problem"):
        make(6, layers=2, checkpoint=path).fit(X, y)
    with pytest.raises(ValueError, match="checkpoint: expected a run of this problem"):
        make(6, layers=3, checkpoint=path).fit(X, y, np.full(len(X), 2.0))


def test_weights_are_copies_in_start_climb_and_stop():
    X, y = data()
    y = np.unique(y, return_inverse=True)[1]
    times = 3 * (np.arange(len(X)) % 3)
    some = np.repeat(np.arange(len(X)), times)
    options = {"n_experts": 3, "layers": 2, "max_sweeps": 60, "tol": 3e-3, "rng": 1}
    one, other = fit_deep(X, y, **options, sample_weight=times), fit_deep(X[some], y[some], **options)
    assert one.converged and one.n_sweeps == other.n_sweeps > 3
    assert_allclose(one.elbo, other.elbo, rtol=1e-9)
    with pytest.raises(ValueError, match="^sample_weight: expected"):
        fit_deep(X, y, **options, sample_weight=times[:4])


def test_it_stops_when_a_sweep_gains_little():
    X, y = data()
    codes = np.unique(y, return_inverse=True)[1]
    found = fit_deep(X, codes, 3, max_sweeps=100, tol=0.05, hidden="code")
    gains = np.diff(found.elbo) / len(X)
    assert found.converged and found.n_sweeps == len(found.elbo) < 100 and gains[-1] < 0.05 <= gains[:-1].min()


def test_width_is_two_or_that_of_the_output():
    X, y = data()
    codes = np.unique(y, return_inverse=True)[1]
    sizes = lambda f: [e.M.shape[1] for e in f.network.experts]
    assert sizes(fit_deep(X, codes % 2, 2, layers=3, max_sweeps=1, hidden="code")) == [2, 2, 1]
    assert sizes(fit_deep(X, codes, 2, layers=2, max_sweeps=1, hidden="code")) == [4, 4]
    assert sizes(fit_deep(X, codes, 2, 1, layers=2, width=3, max_sweeps=1, hidden="code")) == [3, 1]


@pytest.mark.parametrize("options, word", [({"layers": 0}, "layers"), ({"layers": 1.5}, "layers"), ({"width": 0}, "width"), ({"hidden": "deep"}, "hidden"),
                                           ({"points": 8}, "points"), ({"depth": 2}, "method_options")])
def test_a_bad_option_is_named(options, word):
    with pytest.raises(ValueError, match=rf"^{re.escape(word)}: expected "):
        CMNClassifier(method="deep", method_options=options).fit(*data())


@pytest.mark.parametrize("option, value", [("accelerate", True), ("omega1", "shared"), ("priors", Priors(a0=1.0))])
def test_what_has_no_deep_version_is_refused(option, value):
    with pytest.raises(ValueError, match=f"^{option}: expected "):
        CMNClassifier(method="deep", **{option: value}).fit(*data())


@pytest.mark.parametrize("option, value", [("rng", -1), ("init", "best"), ("max_sweeps", 0), ("tol", "small"), ("inner", 0), ("priors", 3.0), ("n_experts", 0),
                                           ("latent_dim", 0), ("X", np.full((4, 2), np.nan)), ("y", np.array([0, 1, -1, 0]))])
def test_an_argument_of_the_fit_is_named(option, value):
    arguments = {"X": np.zeros((4, 2)), "y": np.array([0, 1, 0, 1])} | {option: value}
    with pytest.raises(ValueError, match=rf"^{option}: expected "):
        fit_deep(**arguments)


def test_rows_of_a_forecast_are_checked():
    net = network()
    for rule in (deep_log_proba, moments_log_proba):
        with pytest.raises(ValueError, match="^X: expected"):
            rule(net, np.zeros((3, 5)))
    for option in ("points", "replicates"):
        with pytest.raises(ValueError, match=f"^{option}: expected"):
            deep_log_proba(net, np.zeros((3, 2)), **{option: 0})


def test_single_precision_is_double_inside():
    X, y = make_pinwheels(30, RNG(0))
    one = fit_deep(X.astype(np.float32), y, 2, max_sweeps=2)
    assert {part.dtype for factors in one.network for factor in factors for part in factor} == {np.dtype(float)}
    assert isinstance(complete_deep(one.network, X).hidden[0], Mixture)
