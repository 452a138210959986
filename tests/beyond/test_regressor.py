"""The regressor: scikit-learn's own checks, forecasts against integrals and draws, units, files, options, the study's scores."""
import json
import re
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from cmn_literate import CMNRegressor
from cmn_literate.beyond.outputs import Line, gaussian_output, known_output, line_log_density
from cmn_literate.beyond.regression import Globals, Model, fit_network
from cmn_literate.beyond.regressor import (
    NormalMixture, forecast_mixture, forecast_moments, forecast_nodes, mixture_cdf, mixture_log_density, mixture_quantile, scale_nodes)
from cmn_literate.beyond.shared_means import scaled_priors
from cmn_literate.ideas.expfam import pad
from cmn_literate.ideas.logistic import stick_log_means
from cmn_literate.network.experts import row_quadratic
from cmn_literate.network.predict import logit_moments
from cmn_literate.network.simulate import Priors

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, (70, 2))
Y = np.sin(2 * X[:, 0]) + np.where(X[:, 1] < 0, 0.1, 0.4) * rng.normal(size=70)
QUICK = {"n_experts": 3, "max_sweeps": 25, "random_state": 1}
LINKS = pytest.mark.parametrize("link", ["identity", "learned"])


# shuffles the copied rows; regions and latents of the start are drawn row by row, so rows in another order are another start
ANOTHER_START = {"check_sample_weight_equivalence_on_dense_data": "rows in another order are another start"}


@parametrize_with_checks([CMNRegressor(n_experts=2, max_sweeps=15, random_state=0)], expected_failed_checks=lambda estimator: ANOTHER_START)
def test_scikit_learn(estimator, check):
    check(estimator)


def test_scikit_learn_on_weights_where_the_start_does_not_matter():
    model = CMNRegressor(n_experts=1, max_sweeps=200, tol=1e-12, random_state=0)
    found = [(estimator, check) for estimator, check in estimator_checks_generator(model) if check.func.__name__ in ANOTHER_START]
    assert len(found) == 1
    for estimator, check in found:
        check(estimator)


@LINKS
def test_weights_are_copies_and_zeros_are_no_rows(link):
    count = rng.integers(0, 4, len(X))
    some = np.repeat(np.arange(len(X)), count)
    one = CMNRegressor(link=link, **QUICK).fit(X, Y, sample_weight=count)
    other = CMNRegressor(link=link, **QUICK).fit(X[some], Y[some])
    np.testing.assert_allclose(one.predict(X), other.predict(X), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(one.elbo_, other.elbo_, rtol=1e-9)
    np.testing.assert_allclose(one.target_scale_, Y[some].std(), rtol=1e-12)
    once, plain = (CMNRegressor(link=link, **QUICK).fit(X, Y, sample_weight=w) for w in (np.ones(len(X)), None))
    assert (once.predict(X) == plain.predict(X)).all()


@pytest.mark.parametrize("weight, words", [(np.ones(3), "one weight for each of 70 rows"), (-np.ones(70), "finite numbers >= 0"), (np.zeros(70), "a positive weight"),
                                           (np.arange(70) == 3, "two rows or more of a positive weight")])
def test_bad_weights_are_named(weight, words):
    with pytest.raises(ValueError, match=f"^sample_weight: expected {words}"):
        CMNRegressor(**QUICK).fit(X, Y, sample_weight=weight)


def network(kind, h=1, m=1, K=3, seed=2):
    """Globals of a Gaussian output, with few rows behind them."""
    rng, D = np.random.default_rng([seed, h, m]), 3
    spd = lambda count, size: np.stack([(r @ r.T) / 40 + 0.01 * np.eye(size) for r in rng.normal(size=(count, size, size))])
    F = known_output(np.eye(m, h + 1)).start(np.zeros((1, m)), h)[0] if kind == "known" else Line(
        rng.normal(size=(1, m, h + 1)), spd(1, h + 1), np.array([6.0]), rng.uniform(1, 3, (1, m)))
    return Globals(F, rng.normal(size=(K - 1, D)), spd(K - 1, D), rng.normal(size=(K, h, D)), spd(K, D), rng.uniform(2.5, 9, K),
                   rng.uniform(1, 3, (K, h)), np.zeros((h, D)), np.zeros(h))


def exact_log_density(g, row, value):
    """The integral over x1, for one latent and one number."""
    w = np.exp(stick_log_means(*logit_moments(row, g.beta0_mu, g.beta0_S)))[0]
    scale, total = np.sqrt((1 + row_quadratic(row, g.V)[0]) * g.b[:, 0] / g.a), 0.0
    wide = np.sinh(np.linspace(-9, 9, 8001)) * 0.2
    for k in range(len(g.M)):
        x1 = g.M[k, 0] @ pad(row)[0] + scale[k] * wide
        p = stats.t.pdf(scale[k] * wide, 2 * g.a[k], 0, scale[k])
        total += w[k] * np.trapezoid(p * np.exp(line_log_density(np.array([[value]]), x1[None, :, None], g.output)[0]), x1)
    return np.log(total)


@pytest.mark.parametrize("value", [-8.0, -1.0, 0.3, 6.0])
def test_density_is_the_integral_over_the_latent(value):
    g, row = network("learned"), np.array([[0.4, -1.1]])
    found = mixture_log_density(forecast_mixture(g, row), np.array([value]))
    assert_allclose(found, exact_log_density(g, row, value), atol=2e-2)


def test_density_of_a_known_map_is_students_t():
    g, row = network("known"), np.array([[0.4, -1.1]])
    w = np.exp(stick_log_means(*logit_moments(row, g.beta0_mu, g.beta0_S)))[0]
    scale, values = np.sqrt((1 + row_quadratic(row, g.V)[0]) * g.b[:, 0] / g.a), np.linspace(-4, 6, 9)
    exact = np.log((w * stats.t.pdf(values[:, None], 2 * g.a, g.M[:, 0] @ pad(row)[0], scale)).sum(1))
    assert_allclose(mixture_log_density(forecast_mixture(g, row.repeat(9, 0)), values), exact, atol=1e-3)
    two = network("known", 2, 2)                                   # the second column reads the second latent alone
    scale = np.sqrt((1 + row_quadratic(row, two.V)[0])[:, None] * two.b / two.a[:, None])[:, 1]
    w = np.exp(stick_log_means(*logit_moments(row, two.beta0_mu, two.beta0_S)))[0]
    exact = np.log((w * stats.t.pdf(values[:, None], 2 * two.a, two.M[:, 1] @ pad(row)[0], scale)).sum(1))
    assert_allclose(mixture_log_density(forecast_mixture(two, row.repeat(9, 0), 1), values), exact, atol=1e-3)


@pytest.mark.parametrize("kind, h, m", [("known", 1, 1), ("learned", 1, 1), ("learned", 2, 2), ("known", 2, 2), ("learned", 2, 1)])
def test_moments_agree_with_draws(kind, h, m):
    g, row, S, r = network(kind, h, m), np.array([[0.7, 0.2]]), 200_000, np.random.default_rng(3)
    w = np.exp(stick_log_means(*logit_moments(row, g.beta0_mu, g.beta0_S)))[0]
    z = r.choice(len(w), p=w / w.sum(), size=S)
    tau = r.gamma(g.a[z][:, None], 1 / g.b[z])
    x1 = g.M[z] @ pad(row)[0] + np.sqrt(1 + row_quadratic(row, g.V)[0][z])[:, None] / np.sqrt(tau) * r.normal(size=(S, h))
    mean, variance = forecast_moments(g, row)
    for j in range(m):
        rho = r.gamma(g.output.a[0], 1 / g.output.b[0, j], size=S) if kind == "learned" else np.full(S, 1e8)
        y = pad(x1) @ g.output.M[0, j]
        if kind == "learned":
            beta = g.output.M[0, j] + r.multivariate_normal(np.zeros(h + 1), g.output.V[0], size=S) / np.sqrt(rho)[:, None]
            y = (beta * pad(x1)).sum(1) + r.normal(size=S) / np.sqrt(rho)
        assert abs(y.mean() - mean[0, j]) < 4 * y.std() / S**0.5
        assert_allclose(y.var(), variance[0, j], rtol=0.05)
        mix = forecast_mixture(g, row, j)
        for level in (0.1, 0.5, 0.8):
            at = mixture_quantile(mix, level)[0]
            assert abs((y <= at).mean() - level) < 4 * 0.5 / S**0.5 + (2e-3 if h > 1 else 0)


def test_scale_nodes():
    for a, size in ((2.0, 25), (7.0, 15), (500.0, 11), (1e8, 11)):
        tau, p = scale_nodes(a, size)
        assert_allclose(p.sum(), 1)
        assert_allclose((p * tau).sum(), a, rtol=1e-4)
        assert_allclose((p * (tau - a) ** 2).sum(), a, rtol=2e-3)
    tau, p = scale_nodes(np.array([2.0, 9.0]), 25)
    assert tau.shape == p.shape == (2, 25) and (np.diff(np.log(tau), axis=1).std(1) < 1e-9).all()
    tau, rho, z, p = forecast_nodes(np.array([3.0, 8.0]), 6.0, 3)
    assert tau.shape == (2, 2048, 3) and z.shape == (2048, 3)
    for found, exact in (((p[0] * tau[0, :, 2]).sum(), 3), ((p[1] * tau[1, :, 0] * rho).sum(), 48), ((p[0] * z[:, 1] * z[:, 2]).sum(), 0)):
        assert abs(found - exact) < 0.01 * max(exact, 3)


def test_mixture_of_two():
    mix = NormalMixture(*(np.tile(part, (3, 1)) for part in ([0.25, 0.75], [-1.0, 2.0], [0.5, 1.5])))
    y = np.array([-2.0, 0.0, 3.0])
    assert_allclose(mixture_log_density(mix, y), np.log(0.25 * stats.norm.pdf(y, -1, 0.5) + 0.75 * stats.norm.pdf(y, 2, 1.5)), rtol=1e-12)
    assert_allclose(mixture_cdf(mix, y), 0.25 * stats.norm.cdf(y, -1, 0.5) + 0.75 * stats.norm.cdf(y, 2, 1.5), rtol=1e-12)
    for level in (1e-6, 0.3, 1 - 1e-6):
        assert_allclose(mixture_cdf(mix, mixture_quantile(mix, level)), level, rtol=1e-8)


@LINKS
def test_the_estimator_is_fit_network_in_units(link):
    est = CMNRegressor(link=link, **QUICK).fit(X, Y)
    centre, width = X.mean(0), X.std(0)
    default, out = CMNRegressor(), gaussian_output() if link == "learned" else known_output(np.eye(1, 2))
    priors, v00 = scaled_priors(default.priors, 3), default.v00 / 3
    again = fit_network((X - centre) / width, (Y - Y.mean()) / Y.std(), Model(out, priors, v00), 3, rng=np.random.default_rng(1).spawn(1)[0], max_sweeps=25)
    assert_allclose(est.trace_, again.elbo, rtol=1e-12)
    mean, variance = forecast_moments(again.globals, (X - centre) / width)
    found, sd = est.predict(X, return_std=True)
    assert_allclose(found, Y.mean() + Y.std() * mean[:, 0], rtol=1e-9)
    assert_allclose(sd, Y.std() * np.sqrt(variance[:, 0]), rtol=1e-9)
    mix = forecast_mixture(again.globals, (X - centre) / width)
    assert_allclose(est.predict_density(X, Y, log=True), mixture_log_density(mix, (Y - Y.mean()) / Y.std()) - np.log(Y.std()), rtol=1e-8, atol=1e-8)
    assert_allclose(est.predict_quantiles(X, [0.2])[:, 0], Y.mean() + Y.std() * mixture_quantile(mix, 0.2), rtol=1e-8, atol=1e-9)
    assert_allclose(est.predict_cdf(X, Y), mixture_cdf(mix, (Y - Y.mean()) / Y.std()), rtol=1e-9)
    assert est.elbo_ == est.trace_[-1] and est.n_sweeps_ == 25 and not est.converged_


@LINKS
def test_starts_are_averaged_as_densities(link):
    three = CMNRegressor(link=link, n_init=3, **QUICK).fit(X, Y)
    singles = [CMNRegressor(link=link, **QUICK).fit(X, Y) for _ in range(3)]
    for one, kept in zip(singles, three.fits_):
        one.fits_ = [kept]
    assert len({float(f.elbo[-1]) for f in three.fits_}) > 1
    assert_allclose(three.predict_density(X, Y), np.mean([one.predict_density(X, Y) for one in singles], 0), rtol=1e-9)
    means, sds = zip(*(one.predict(X, return_std=True) for one in singles))
    mean, sd = three.predict(X, return_std=True)
    assert_allclose(mean, np.mean(means, 0), rtol=1e-9)
    assert_allclose(sd**2, np.mean(np.square(sds) + np.square(means), 0) - mean**2, rtol=1e-7)
    assert three.elbo_ == max(f.elbo[-1] for f in three.fits_)


@LINKS
def test_file(link, tmp_path):
    frame = pd.DataFrame(X, columns=["a", "b"])
    est = CMNRegressor(link=link, **QUICK).fit(frame, np.column_stack([Y, X[:, 0]]))
    est.save(tmp_path / "m.npz")
    back = CMNRegressor.load(tmp_path / "m.npz")
    assert back.get_params() == est.get_params() and list(back.feature_names_in_) == ["a", "b"] and back.n_features_in_ == 2
    for name in ("predict", "predict_quantiles"):
        assert_array_equal(getattr(back, name)(frame[:2]), getattr(est, name)(frame[:2]))
    assert_array_equal(back.trace_, est.trace_)
    assert back.converged_ == est.converged_ and back.elbo_ == est.elbo_
    assert not any(len(X) in np.shape(value) for value in np.load(tmp_path / "m.npz").values())
    with pytest.raises(FileNotFoundError):
        CMNRegressor.load(tmp_path / "none.npz")
    (tmp_path / "bad.npz").write_bytes(b"no zip")
    with pytest.raises(ValueError, match="damaged file"):
        CMNRegressor.load(tmp_path / "bad.npz")
    from cmn_literate import CMNClassifier
    CMNClassifier(2, max_sweeps=2).fit(X, X[:, 0] > 0).save(tmp_path / "other.npz")
    with pytest.raises(ValueError, match="expected a file written by CMNRegressor.save"):
        CMNRegressor.load(tmp_path / "other.npz")
    with zipfile.ZipFile(tmp_path / "m.npz") as z:
        header = json.loads(np.load(z.open("header.npy")).tobytes())
    assert header["options"]["link"] == link and header["schema"] == 1
    with pytest.raises(NotFittedError):
        CMNRegressor().save(tmp_path / "x.npz")


@pytest.mark.parametrize("option, value", [
    ("n_experts", 0), ("link", "log"), ("latent_dim", 0), ("latent_dim", 3), ("priors", None), ("v00", -1.0), ("v00", np.inf), ("v00", "a"), ("scaled", 1.5),
    ("n_init", 0), ("max_sweeps", 0), ("tol", 0.0), ("standardize", "no")])
def test_bad_option_is_named_and_nothing_changes(option, value):
    est = CMNRegressor(**QUICK).fit(X, Y)
    before = est.predict(X)
    with pytest.raises(ValueError, match=f"^{option}: expected"):
        est.set_params(**{option: value}).fit(X, Y)
    assert_array_equal(est.predict(X), before)


@pytest.mark.parametrize("call, message", [
    (lambda est: est.predict_quantiles(X, [1.0]), "levels: expected numbers between 0 and 1"), (lambda est: est.predict_quantiles(X, 0.5), "levels: expected"),
    (lambda est: est.predict_density(X, Y[:3]), "y: expected shape (70,), got (3,)"), (lambda est: est.predict_cdf(X, Y[:, None]), "y: expected shape"),
    (lambda est: est.predict(X[:, :1]), "X has 1 features"), (lambda est: est.fit(X, Y[:5]), "inconsistent"), (lambda est: est.fit(X, Y * np.nan), "y contains NaN"),
    (lambda est: est.fit([["a"], ["b"]], [1, 2]), "X: expected"), (lambda est: est.fit(X[:1], Y[:1]), "1 sample")])
def test_bad_argument_is_named(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call(CMNRegressor(**QUICK).fit(X, Y))


def test_options():
    est = CMNRegressor().set_params(priors__v0=3.0, n_experts=2)
    assert est.priors.v0 == 3.0 and clone(est).get_params() == est.get_params()
    plain = CMNRegressor(scaled=False, **QUICK).fit(X, Y)
    by_hand = CMNRegressor(priors=scaled_priors(CMNRegressor().priors, 3), v00=CMNRegressor().v00 / 3, scaled=False, **QUICK).fit(X, Y)
    scaled = CMNRegressor(**QUICK).fit(X, Y)
    assert_allclose(by_hand.trace_, scaled.trace_, rtol=1e-12)
    assert (plain.trace_ != scaled.trace_).any()
    raw = CMNRegressor(standardize=False, **QUICK).fit(X, Y)
    assert_array_equal(raw.mean_, [0, 0])
    assert raw.target_scale_ == pytest.approx(Y.std())
    wide = CMNRegressor(link="learned", latent_dim=2, **QUICK).fit(X, Y)
    assert wide.fits_[0].globals.M.shape[1] == 2
    assert np.isfinite(cross_val_score(CMNRegressor(**QUICK), X, Y, cv=3)).all()
    same = CMNRegressor(**QUICK).fit(X.astype(np.float32), Y.astype(np.float32))
    assert same.predict(X).dtype == np.float64
    constant = CMNRegressor(**QUICK).fit(X, np.full(70, 4.0))
    assert_allclose(constant.predict(X), 4.0, atol=0.5)


def test_warning_of_a_fit_that_was_cut_short():
    with pytest.warns(ConvergenceWarning, match=r"^not converged after 2 sweeps \(ELBO -.*\): raise max_sweeps or tol"):
        CMNRegressor(2, max_sweeps=2, random_state=0).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert CMNRegressor(1, random_state=0).fit(X, Y).converged_


def test_one_expert_is_bayesian_regression():
    est = CMNRegressor(1, v00=0.0, scaled=False, priors=Priors(0.7, 2.5, 0.8), tol=1e-12).fit(X, Y)
    design, target = np.column_stack([(X - X.mean(0)) / X.std(0), np.ones(70)]), (Y - Y.mean()) / Y.std()
    P = np.eye(3) / 0.7 + design.T @ design
    M = np.linalg.solve(P, design.T @ target)
    shape, rate = 2.5 + 35, 0.8 + 0.5 * (((target - design @ M) ** 2).sum() + M @ M / 0.7)
    spread = 1 + np.einsum("nd,de,ne->n", design, np.linalg.inv(P), design)
    mean, sd = est.predict(X, return_std=True)
    assert_allclose(mean, Y.mean() + Y.std() * design @ M, rtol=1e-5, atol=1e-6)
    assert_allclose(sd, Y.std() * np.sqrt(spread * rate / (shape - 1)), rtol=1e-5)
    closed = stats.t(2 * shape, design @ M, np.sqrt(spread * rate / shape))
    assert_allclose(est.predict_density(X, Y, log=True), closed.logpdf(target) - np.log(Y.std()), atol=1e-5)


def test_noise_follows_the_rows():
    """Two lines, one of them noisy: the gate tells them apart."""
    r = np.random.default_rng(5)
    x = r.uniform(-2, 2, (150, 1))
    y = np.where(x[:, 0] < 0, -1 + 0.1 * r.normal(size=150), 1 + x[:, 0] + 0.6 * r.normal(size=150))
    sd = CMNRegressor(4, random_state=0, max_sweeps=80).fit(x, y).predict([[-1.2], [1.2]], return_std=True)[1]
    assert sd[0] < 0.3 and 0.45 < sd[1] < 0.8
