"""Tables of the class probabilities: forecasts of many rows against the oracle, against rows alone, and where a table must not be made."""
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from oracle import predict as oracle, random_state_and_data
from scipy.special import expit
from scipy.stats import t as student

from cmn_literate.engineering import quadrature, row_tables
from cmn_literate.engineering.quadrature import predict_log_proba, predict_proba
from cmn_literate.engineering.row_tables import among_others, fill_by_scales, fill_by_tables, integrate_by_table, sinh_axis, steep_slopes, table_axes, table_weights, widest_step
from cmn_literate.network.latents import State
from cmn_literate.network.predict import gate_probs, latent_t, point_posterior, sample_parameters
from cmn_literate.network.simulate import Theta


def case(h, K=3, N=60, L=3, a=None, seed=0):
    """Parameters whose last expert is near the prior, inputs, and the arrays for the oracle."""
    arrays, X, _ = random_state_and_data(default_rng([seed, h]), N, 2, K, L, h)
    arrays["a"] = arrays["a"] + 1.0 if a is None else np.full(K, a)
    arrays["M"][-1], arrays["V"][-1] = 0.01 * arrays["M"][-1], 3 * np.eye(3)
    return State.of(**arrays).parameters, X, arrays


def used(monkeypatch):
    """How many pairs got their integrals from tables."""
    seen, fill = [], quadrature.fill_by_tables
    monkeypatch.setattr(quadrature, "fill_by_tables", lambda *arguments: (lambda out: (seen.append(out[1].sum()), out)[1])(fill(*arguments)))
    return seen


@pytest.mark.parametrize("h, bound", [(1, 1e-8), (2, 1e-6)])
@pytest.mark.parametrize("a", [None, 0.8, 60.0])
def test_many_rows_against_the_oracle(h, bound, a, monkeypatch):
    parameters, X, arrays = case(h, a=a)
    seen = used(monkeypatch)
    got = predict_proba(parameters, X)
    rare = (h, a) == (2, 0.8)                                 # few rows and heavy tails: a table is dearer than points, which are less exact
    assert seen[0] == 0 if rare else seen[0] > 50
    assert_allclose(got.sum(1), 1, rtol=1e-12)
    for n in (0, 17, 42):
        fine = predict_proba(parameters, X[n:n + 1], method="quadrature", n_nodes=1201 if h == 1 else 151)[0]
        assert_allclose(got[n], fine, rtol=0, atol=1e-5 if rare else bound / 5)
        if n == 17 and a is None:
            assert_allclose(got[n], oracle.product_quadrature(arrays, X[n], n_nodes=101), rtol=0, atol=2e-6)


@pytest.mark.parametrize("h, bound", [(1, 2e-8), (2, 1e-5)])
def test_rows_together_are_rows_alone(h, bound):
    parameters, X, _ = case(h, K=5, N=90, seed=1)
    alone = np.concatenate([predict_proba(parameters, x[None]) for x in X])
    assert_allclose(predict_proba(parameters, X), alone, rtol=0, atol=bound)
    assert_array_equal(predict_proba(parameters, X[:31]), np.concatenate([predict_proba(parameters, X[:31])]))
    assert_allclose(predict_proba(parameters, X[::-1])[::-1], predict_proba(parameters, X), rtol=0, atol=1e-12)


def test_a_row_far_out_leaves_the_others_their_table(monkeypatch):
    parameters, X, _ = case(2, N=80)
    seen = used(monkeypatch)
    whole = predict_proba(parameters, X)
    X = np.concatenate([X, [[1e6, -1e6]]])
    more = predict_proba(parameters, X)
    assert seen[1] == seen[0] > 0
    assert_allclose(more[:-1], whole, rtol=0, atol=1e-12)
    assert_allclose(more[-1], predict_proba(parameters, X[-1:])[0], rtol=0, atol=1e-6)


def test_no_table_for_single_points_nor_for_few_rows(monkeypatch):
    """A single Theta has laws without width; the grid of all would be without end."""
    parameters, X, _ = case(2)
    seen = used(monkeypatch)
    predict_proba(parameters, X[:31])
    assert seen == []
    theta = Theta(*(part[0] for part in sample_parameters(parameters, default_rng(0), 1)))
    theta = theta._replace(tau=1e18 * theta.tau)
    got = predict_proba(point_posterior(theta), X)
    assert sum(seen) == 0 and np.isfinite(got).all()
    assert_allclose(got, predict_proba(point_posterior(theta), X, method="plug-in"), atol=1e-6)


def test_heavy_tails_and_underflow():
    for a in (0.06, 0.3):
        parameters, X, _ = case(1, a=a, N=40)
        got = predict_proba(parameters, X)
        assert_allclose(got, predict_proba(parameters, X, method="quadrature", n_nodes=1501), atol=2e-5)
    parameters, X, _ = case(2, N=40)
    steep = SimpleNamespace(**{**parameters._asdict(), "beta1_mu": 400 * parameters.beta1_mu, "b": 1e-9 * parameters.b})
    assert np.isfinite(predict_log_proba(steep, X)).all()


def test_options_that_choose_their_own_points_get_no_table(monkeypatch):
    parameters, X, _ = case(2)
    seen = used(monkeypatch)
    for method in ("gauss-hermite", "cubature", "sobol", "monte-carlo", "plug-in"):
        predict_proba(parameters, X, method=method)
    predict_proba(parameters, X, method="quadrature", n_nodes=5)
    assert seen == []
    assert_allclose(predict_proba(parameters, X, method="quadrature"), predict_proba(parameters, X), rtol=0, atol=1e-6)
    assert len(seen) == 2


def test_step_by_hand():
    """A normal law without a slope: the best a is that of 2 exp(a^2/2 - 2 pi a/eta), and the step 2 pi^2 / (digits ln 10 + ln 2) for its square."""
    for digits in (4.0, 8.0):
        exact = np.pi * np.sqrt(2 / (digits * np.log(10) + np.log(2)))
        assert_allclose(widest_step(np.zeros((1, 1)), 1e12, np.array([digits]))[0], exact, rtol=3e-3)
    steps = widest_step(np.array([[0.1, 0.1], [3.0, 0.1], [3.0, 3.0], [30.0, 0.1]]), 50.0, np.full(4, 6.0))
    assert np.all(np.diff(steps) < 0) and steps[3] > 0.2 * np.pi / 30
    assert np.all(np.diff([widest_step(np.ones((1, 1)), nu, np.array([6.0]))[0] for nu in (1.0, 4.0, 16.0, 64.0)]) > 0)


def test_axis_reaches_and_is_dense_enough():
    rng = default_rng(3)
    location, scale, step = rng.normal(size=50), rng.uniform(0.1, 0.5, 50), rng.uniform(0.4, 0.9, 50)
    reach = rng.uniform(5, 9, 50)
    for dof in (3.0, 200.0):
        x, spacing = sinh_axis(location, scale, step, reach, dof)
        assert x[0] <= (location - reach * scale).min() * (1 - 1e-12) and x[-1] >= (location + reach * scale).max() * (1 - 1e-12)
        gap = np.diff(x)[np.clip(np.searchsorted(x, location) - 1, 0, len(x) - 2)]
        assert np.all(gap <= 1.02 * step * scale)
        assert_allclose(spacing[1:-1] / spacing[1], (x[2:] - x[:-2]) / (x[2] - x[0]), rtol=1e-9)
    assert sinh_axis(location, 1e-6 * scale, step, reach, 5.0) is None and sinh_axis(location, 1e-3 * scale, step, reach, 5.0) is None
    w = table_weights(x, spacing, location, scale, 7.0)
    mean = np.array([(u * (x - m) / s).sum() for u, m, s in zip(w, location, scale)])
    square = np.array([(u * (x - m)**2 / s**2).sum() for u, m, s in zip(w, location, scale)])
    assert_allclose(w.sum(1), 1, rtol=1e-14)
    assert np.abs(mean).max() < 0.02 and np.abs(square - 7 / 5).max() < 0.3


def test_one_table_by_the_density_of_scipy():
    slopes = np.array([[1.5, -0.5], [0.3, 2.0]])
    G = lambda x: np.stack([expit(slopes[0] @ x), expit(-slopes[0] @ x)])
    location, scale = default_rng(1).normal(size=(40, 2)), default_rng(2).uniform(0.3, 0.6, (40, 2))
    axes = table_axes(np.abs(slopes[:1]), location, scale, 9.0, np.ones(40), 1e-8)
    got = integrate_by_table(G, axes, location, scale, 9.0)
    x = np.linspace(-60, 60, 6001)
    for n in (0, 39):
        u = [student.pdf(x, 9.0, m, s) * (x[1] - x[0]) for m, s in zip(location[n], scale[n])]
        first = np.array([expit(slopes[0, 0] * a + slopes[0, 1] * x) @ u[1] for a in x]) @ u[0]
        assert_allclose(got[n], [first, 1 - first], atol=1e-7)


def test_what_is_not_asked_for_is_not_done():
    parameters, X, _ = case(2, N=70)
    location, scale, dof = latent_t(parameters, X)
    weight, points = gate_probs(parameters, X), np.full((70, 3), 400)
    points[:40, 0] = 0
    weight[5, 1] = 1e-12
    slope = steep_slopes(parameters)
    G = lambda x1: quadrature.output_probs(parameters, x1)
    P, done = fill_by_tables(G, slope, location, scale, dof, weight, points, 3e-7)
    assert not done[:, 0].any() and not done[5, 1] and done[6:, 1].mean() > 0.8 and (P[~done] == 0).all()
    cheap = fill_by_tables(G, slope, location, scale, dof, weight, np.minimum(points, 3), 3e-7)[1]
    assert not cheap.any()
    assert among_others(np.zeros((5, 2))).all()
    assert_array_equal(among_others(np.append(np.arange(9.0), 60)[:, None]), [True] * 9 + [False])
    assert row_tables.fill_by_tables(G, slope, location[:0], scale[:0], dof, weight[:0], points[:0], 3e-7)[1].shape == (0, 3)


@pytest.mark.parametrize("h, L", [(1, 2), (2, 3), (3, 2)])
def test_experts_that_have_returned_to_the_prior(h, L, monkeypatch):
    """Centred at 0 for every row: a function of the scale, in one dimension and in two; off the centre, and beyond, nothing is interpolated."""
    parameters, X, _ = case(h, K=4, N=80, L=L, seed=3)
    for k in (2, 3):
        parameters.M[k], parameters.V[k], parameters.a[k], parameters.b[k] = 0, (k + 1) * np.eye(3), 2.0, np.arange(1.0, h + 1)
    seen, fill = [], quadrature.fill_by_scales
    monkeypatch.setattr(quadrature, "fill_by_scales", lambda *arguments: (lambda out: (seen.append(out[1].sum(0)), out)[1])(fill(*arguments)))
    got = predict_proba(parameters, X)
    if h == 3:
        assert seen == []
        return
    assert list(seen[0]) == [0, 0, 80, 80]
    assert_allclose(got.sum(1), 1, rtol=1e-12)
    alone = np.concatenate([predict_proba(parameters, x[None]) for x in X])
    assert_allclose(got, alone, rtol=0, atol={1: 1e-8, 2: 1e-5}[h])
    for n in (3, 50):
        fine = predict_proba(parameters, X[n:n + 1], method="quadrature", n_nodes=1201 if h == 1 else 121)[0]
        assert_allclose(got[n], fine, rtol=0, atol=1e-8 if h == 1 else 2e-6)
    parameters.M[3] = 1e-3
    predict_proba(parameters, X)
    assert list(seen[-1]) == [0, 0, 80, 0]


def test_polynomial_through_the_values():
    scale = np.exp(default_rng(0).uniform(-1, 1, 60))
    unit = np.array([3.0, 0.5])
    exact = lambda s: np.stack([1 / (1 + s), s / (1 + s)], 1)                    # analytic for |Im ln s| < pi
    asked = []

    def integrate(k, scales, weight):
        asked.append((k, weight))
        assert_allclose(scales[:, 0] / scales[:, 1], 6, rtol=1e-12)
        return exact(scales[:, 0] / 3)
    arrays = np.zeros((60, 2, 2)), np.stack([np.ones((60, 2)), scale[:, None] * unit], 1)
    weight = np.stack([np.zeros(60), np.linspace(0.1, 0.9, 60)], 1)
    weight[0] = 0                                                                # the first row wants none
    P, done = fill_by_scales(integrate, *arrays, weight, 1e-9)
    assert asked == [(1, 0.9)] and not done[:, 0].any() and list(np.flatnonzero(~done[:, 1])) == [0]
    assert_allclose(P[1:, 1], exact(scale[1:]), rtol=0, atol=1e-9)
    off = arrays[0].copy()
    off[7, 1, 1] = 1e-6                                                          # one row off the centre
    done = fill_by_scales(integrate, off, arrays[1], weight, 1e-9)[1]
    assert done[:, 1].sum() == 58 and not done[7, 1]
