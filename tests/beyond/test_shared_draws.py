"""The extended model on the other roads: its prior against dense normals, its slopes against autograd, its sampler against its prior and an exact judge, the learners."""
import pickle
import re
import warnings

import autograd.numpy as anp
import numpy as np
import pytest
from autograd import grad
from numpy.testing import assert_allclose, assert_array_equal
from oracle import posterior, shared
from scipy import stats
from scipy.special import digamma

from cmn_literate import CMNClassifier
from cmn_literate.beyond.shared_draws import (
    SharedPrior, SharedState, draw_common_axes, draw_shared, keep_axes, shared_gain, shared_log_joint, shared_model, shared_start, shared_sweep)
from cmn_literate.beyond.shared_means import Above, fit_shared
from cmn_literate.engineering.coordinates import Shapes, log_prior, pack, unpack
from cmn_literate.engineering.gamma_draws import draw_noise
from cmn_literate.engineering.runs import drive
from cmn_literate.engineering.starts import complete_start
from cmn_literate.engineering.sums import make_rows
from cmn_literate.ideas.expfam import pad
from cmn_literate.network.simulate import Priors, Theta, sample_data, sample_sticks, sample_theta
from cmn_literate.roads.bbvi import bound_and_grad
from cmn_literate.roads.diagnostics import draw_log_probs, mcse_mean
from cmn_literate.roads.gibbs import draw_experts, draw_maps, gibbs_sweep, gibbs_work, label_parabola
from cmn_literate.roads.mle import mle_objective
from cmn_literate.roads.one_table import training_log_likelihoods
from cmn_literate.roads.particles import free_of, pack_free, particles, unpack_free
from cmn_literate.roads.posterior import posterior_target

V0, V00 = 0.7, 1.9
PRIORS = Priors(v0=V0, a0=2.5, b0=1.5, sigma0=1.4, sigma1=1.2)
SIZES = [(3, 2, 3, 2), (1, 1, 2, 1), (4, 3, 3, 2), (2, 1, 4, 3)]
METHODS = {"shared-map": {"n_steps": 12}, "shared-bbvi": {"n_steps": 12}, "shared-nuts": {"n_chains": 1, "n_warmup": 6, "n_draws": 5, "max_depth": 3},
           "shared-gibbs": {"n_chains": 2, "n_warmup": 5, "n_draws": 8}}
each_size = pytest.mark.parametrize("sizes", SIZES, ids=str)
each_method = pytest.mark.parametrize("method", METHODS)


def theta_of(sizes, seed=0, priors=PRIORS):
    return sample_theta(priors, *sizes, np.random.default_rng([seed, *sizes]))


def begun(sizes=(3, 2, 3, 2), n=7, seed=0):
    rng = np.random.default_rng([seed, *sizes])
    X, y = rng.normal(size=(n, sizes[3])), rng.integers(sizes[2], size=n)
    return shared_start(X, y, sizes[:3], PRIORS, rng, v00=V00), X, y, rng


# ---- the prior

@each_size
def test_gain_is_a_ratio_of_dense_normal_densities(sizes):
    theta, total = theta_of(sizes), 0.0
    for i in range(sizes[1]):
        noise = np.diag(V0 / theta.tau[:, i])
        for column in theta.A[:, i].T:
            total += stats.multivariate_normal.logpdf(column, cov=noise + V00) - stats.multivariate_normal.logpdf(column, cov=noise)
    assert_allclose(shared_gain(theta, V0, V00), total, rtol=1e-9, atol=1e-11)
    assert shared_gain(theta, V0, 0.0) == 0
    assert_allclose(shared_gain(theta, V0, 1e-9), 0, atol=1e-5)


@each_size
def test_gain_by_integrating_the_mean_out_draw_by_draw(sizes):
    """Bayes' rule at any A_0: prior of A about it, times its own, over its law given A."""
    theta, rng = theta_of(sizes, 1), np.random.default_rng(1)
    A0 = rng.normal(size=theta.A.shape[1:])
    joint = log_prior(pack(theta._replace(A=theta.A - A0)), sizes, PRIORS) + stats.norm.logpdf(A0, 0, V00**0.5).sum()
    precision = 1 / V00 + theta.tau.sum(0)[:, None] / V0
    mean = (theta.tau[..., None] * theta.A).sum(0) / V0 / precision
    law = stats.norm.logpdf(A0, mean, precision**-0.5).sum()
    assert_allclose(joint - law, log_prior(pack(theta), sizes, PRIORS) + shared_gain(theta, V0, V00), rtol=1e-10)


@each_size
def test_slopes_of_the_gain(sizes):
    theta, term = theta_of(sizes, 2), SharedPrior(V0, V00)
    value, (none, nothing, A_bar, tau_bar) = term(theta)
    assert none == nothing == 0
    assert value == shared_gain(theta, V0, V00)
    assert_allclose(A_bar, grad(lambda A: shared_gain(theta._replace(A=A), V0, V00))(theta.A), rtol=1e-9, atol=1e-12)
    assert_allclose(tau_bar, grad(lambda tau: shared_gain(theta._replace(tau=tau), V0, V00))(theta.tau), rtol=1e-9, atol=1e-12)
    many = Theta(*(np.stack([part, 1.5 * part, 0.5 * part]) for part in theta))
    values, bar = term(many)
    for s in range(3):
        value, own = term(Theta(*(part[s] for part in many)))
        for a, b in ((values, value), (bar.A, own.A), (bar.tau, own.tau)):
            assert_allclose(a[s], b, rtol=1e-12)


@pytest.mark.parametrize("objective", ["network", "exact"])
def test_map_climbs_the_prior_without_the_mean(objective):
    shapes, theta = Shapes(3, 2, 3, 2), theta_of((3, 2, 3, 2), 3)
    rng = np.random.default_rng(3)
    X, y, phi = rng.normal(size=(9, 2)), rng.integers(3, size=9), pack(theta)
    nodes = None
    if objective == "exact":
        from cmn_literate.engineering.nodes import latent_nodes
        nodes = latent_nodes(shapes, 6)
    (value, slope), (old, plain) = (mle_objective(X, y, shapes, objective, PRIORS, nodes, term=t)(phi) for t in (SharedPrior(V0, V00), None))
    gain = lambda phi: shared_gain(unpack(phi, shapes), V0, V00)
    assert_allclose(value - old, gain(phi), rtol=1e-8)
    assert_allclose(slope - plain, grad(gain)(phi), rtol=1e-7, atol=1e-9)


def test_black_box_slopes_go_through_the_draws():
    sizes, rng = (3, 2, 3, 2), np.random.default_rng(7)
    X, y = rng.normal(size=(9, 2)), rng.integers(3, size=9)
    free = free_of(complete_start(X, y, *sizes[:3], PRIORS, rng))
    noise, rows, at = draw_noise(free, 3, rng), make_rows(X, y, 3), pack_free(free)
    (value, slopes), (old, plain) = (bound_and_grad(free, noise, rows, PRIORS, term=t) for t in (SharedPrior(V0, V00), None))
    gain = lambda v: anp.mean(shared_gain(particles(unpack_free(v, sizes, 9), noise)[0], V0, V00))
    assert_allclose(value - old, gain(at), rtol=1e-8)
    assert_allclose(pack_free(slopes) - pack_free(plain), grad(gain)(at), rtol=1e-6, atol=1e-8)
    with pytest.raises(ValueError, match="^gradient: expected"):
        bound_and_grad(free, noise, rows, PRIORS, gradient="autograd", term=SharedPrior(V0, V00))


def test_a_term_needs_a_prior_and_fast_slopes():
    shapes, X, y = Shapes(2, 1, 2, 1), np.zeros((3, 1)), np.array([0, 1, 0])
    for wrong in ({"priors": None}, {"priors": PRIORS, "gradient": "autograd"}):
        with pytest.raises(ValueError, match="^term: expected None"):
            mle_objective(X, y, shapes, "network", term=SharedPrior(V0, V00), **wrong)
    with pytest.raises(ValueError, match="^gradient: expected"):
        posterior_target(X, y, shapes, PRIORS, gradient="autograd", term=SharedPrior(V0, V00))
    assert pickle.loads(pickle.dumps(SharedPrior(V0, V00))) == SharedPrior(V0, V00)


# ---- the sampler

def test_mean_is_drawn_from_its_law_for_one_theta_and_for_many():
    theta = theta_of((3, 2, 3, 2), 4)
    many = Theta(*(np.repeat(part[None], 30_000, 0) for part in theta))
    draws = draw_shared(many, V0, V00, np.random.default_rng(4))
    precision = 1 / V00 + theta.tau.sum(0)[:, None] / V0
    mean = (theta.tau[..., None] * theta.A).sum(0) / V0 / precision
    assert (np.abs(draws.mean(0) - mean) < 5 * np.sqrt(1 / precision / 30_000)).all()
    assert_allclose(draws.var(0), np.broadcast_to(1 / precision, mean.shape), rtol=0.06)


def test_maps_about_the_mean_are_those_about_zero_shifted():
    s, X, y, _ = begun()
    (Q, g0), offset = label_parabola(y, s.theta.beta1, s.omega1), pad(X) @ s.A0.T
    about = draw_maps(X, s.z, s.theta, Q, g0, PRIORS, np.random.default_rng(1), s.A0)
    zero = draw_maps(X, s.z, s.theta, Q, g0 - np.einsum("nij,nj->ni", Q, offset), PRIORS, np.random.default_rng(1))
    assert_allclose(about, zero + s.A0, rtol=1e-9, atol=1e-11)
    about = draw_experts(X, s.z, s.x1, s.theta.A, PRIORS, np.random.default_rng(1), s.A0)
    zero = draw_experts(X, s.z, s.x1 - offset, s.theta.A - s.A0, PRIORS, np.random.default_rng(1))
    assert_allclose(about[0], zero[0] + s.A0, rtol=1e-9, atol=1e-11)
    assert_allclose(about[1], zero[1], rtol=1e-9)


def test_a_sweep_draws_its_axes_once_and_with_the_mean():
    s, X, y, _ = begun(seed=1)
    swept, rng = shared_sweep(s, X, y, PRIORS, np.random.default_rng(3), V00), np.random.default_rng(3)
    inner = gibbs_sweep(s, X, y, PRIORS, rng, s.A0, lambda theta, x1, *_: (theta, x1))
    A0 = draw_shared(inner.theta, V0, V00, rng)
    theta, x1, A0 = draw_common_axes(inner.theta, inner.x1, A0, PRIORS, V00, rng)
    for one, two in zip((*swept.theta, swept.x1, swept.A0), (*theta, x1, A0)):
        assert_array_equal(one, two)


def test_log_joint_by_loops():
    s, X, y, _ = begun()
    total = posterior.log_joint(s.theta, s.z, s.x1, X, y, s.A0, (1 / V0, 1.4**-2, 1.2**-2), (0.0, 0.0), 2.5, 1.5)
    total += stats.norm.logpdf(s.A0, 0, V00**0.5).sum()
    assert_allclose(shared_log_joint(s, X, y, PRIORS, V00), total, rtol=1e-10)


def test_axes_move_no_logit_and_obey_their_law():
    s, X, y, rng = begun()
    old = shared_log_joint(s, X, y, PRIORS, V00)
    rate = PRIORS.b0 * s.theta.tau.sum(0) + (s.theta.beta1[:, :2]**2).sum(0) / (2 * PRIORS.sigma1**2)
    wall, p, scales = (s.A0**2).sum(1) / (2 * V00), 3 * PRIORS.a0 + (2 - 3) / 2, []
    for _ in range(400):
        theta, x1, A0 = draw_common_axes(s.theta, s.x1, s.A0, PRIORS, V00, rng)
        scales.append(np.sqrt(s.theta.tau[0] / theta.tau[0])**-2)
    for before, after in ((pad(s.x1) @ s.theta.beta1.T, pad(x1) @ theta.beta1.T), (pad(pad(X) @ s.A0.T) @ s.theta.beta1.T, pad(pad(X) @ A0.T) @ theta.beta1.T),
                          (pad(pad(X) @ s.theta.A[1].T) @ s.theta.beta1.T, pad(pad(X) @ theta.A[1].T) @ theta.beta1.T)):
        assert_allclose(after, before, rtol=1e-9, atol=1e-9)
    stretch = np.sqrt(s.theta.tau / theta.tau)
    assert_allclose(np.abs(theta.A - A0)[..., :-1], np.abs(s.theta.A - s.A0)[..., :-1] * stretch[..., None], rtol=1e-9)
    assert old == shared_log_joint(s, X, y, PRIORS, V00)                     # nothing is changed in place
    for i in range(2):
        law = stats.geninvgauss(p, 2 * np.sqrt(rate[i] * wall[i]), scale=np.sqrt(wall[i] / rate[i]))
        assert stats.kstest(np.array(scales)[:, i], law.cdf).pvalue > 1e-3
    assert keep_axes(theta, x1, PRIORS, rng) == (theta, x1)


def test_shift_of_the_axes_obeys_its_law():
    s, _, _, rng = begun()
    W, bias, shifts = s.theta.beta1[:, :2], s.theta.beta1[:, 2], []
    for _ in range(1500):
        theta, x1, A0 = draw_common_axes(s.theta, s.x1, s.A0, PRIORS, V00, rng)
        stretch = theta.beta1[:, :2][0] / W[0]                               # one over s, with its sign
        c = x1[0] - s.x1[0] / stretch
        P = (W * stretch).T @ (W * stretch) / PRIORS.sigma1**2 + np.eye(2) / V00
        best = np.linalg.solve(P, bias @ (W * stretch) / PRIORS.sigma1**2 - s.A0[:, -1] / stretch / V00)
        shifts.append(np.linalg.cholesky(P).T @ (c - best))
    shifts = np.array(shifts)
    assert np.abs(shifts.mean(0)).max() < 4.5 / 1500**0.5
    assert_allclose(shifts.T @ shifts / 1500, np.eye(2), atol=0.17)


def geweke(n_sweeps, seed=0, K=2, h=2, L=3, v00=1.5):
    tame, rng = Priors(v0=1.0, a0=3.0, b0=3.0, sigma0=1.0, sigma1=1.0), np.random.default_rng(seed)
    X, theta, A0 = np.random.default_rng(0).normal(size=(4, 1)), sample_theta(tame, K, h, L, 1, rng), rng.normal(size=(h, 2)) * v00**0.5
    theta = theta._replace(A=theta.A + A0)
    z, x1, y = sample_data(theta, X, rng)
    s, rows = SharedState(theta, z, x1, None, None, A0), []
    for _ in range(n_sweeps):
        s = shared_sweep(s, X, y, tame, rng, v00)
        y = sample_sticks(pad(s.x1) @ s.theta.beta1.T, rng)
        off = (s.theta.A - s.A0) * np.sqrt(s.theta.tau)[..., None]
        w = np.concatenate([part.ravel() for part in (s.theta.beta1, s.theta.beta0, off, s.A0 / v00**0.5)])
        rows.append(np.concatenate([w, w**2 - 1, np.log(s.theta.tau).ravel() - digamma(3.0) + np.log(3.0), [(y == 0).mean() - 1 / 2]]))
    rows = np.array(rows).reshape(4, -1, len(rows[0]))
    return np.abs(rows.mean((0, 1)) / mcse_mean(rows)).max()


def test_the_sweep_visits_the_prior():
    assert geweke(1200) < 5


@pytest.mark.slow
def test_posterior_means_agree_with_weighted_networks_of_the_prior():
    """No chain and no gradient: networks drawn from the extended prior, weighed by the labels."""
    X, y, S, rng = np.array([[-1.5], [-0.5], [0.5], [1.5]]), np.array([0, 0, 1, 0]), 120_000, np.random.default_rng(5)
    A0 = V00**0.5 * rng.normal(size=(S, 2))
    tau = rng.gamma(PRIORS.a0, 1 / PRIORS.b0, size=(S, 2))
    A = A0[:, None] + rng.normal(size=(S, 2, 2)) * np.sqrt(V0 / tau)[..., None]
    beta1, beta0 = PRIORS.sigma1 * rng.normal(size=(S, 2)), PRIORS.sigma0 * rng.normal(size=(S, 2))
    weight = np.ones(S)
    for x, c in zip(X[:, 0], y):
        k = (rng.random(S) > posterior.sigmoid(beta0 @ [x, 1.0])).astype(int)
        x1 = A[np.arange(S), k] @ [x, 1.0] + rng.normal(size=S) / np.sqrt(tau[np.arange(S), k])
        stop = posterior.sigmoid(beta1[:, 0] * x1 + beta1[:, 1])
        weight *= stop if c == 0 else 1 - stop
    line = lambda beta1, A0, x: beta1[..., 0] * (A0[..., 0] * x + A0[..., 1]) + beta1[..., 1]
    functions = lambda beta1, A0, tau: np.tanh(np.stack([line(beta1, A0, x) for x in (-1.0, 0.0, 2.0)] + [np.log(tau[..., 0]), np.abs(A0[..., 0])], -1))
    exact, error = posterior.weighted_mean(functions(beta1, A0, tau), weight / weight.sum())
    work = gibbs_work(X, y, 2, 1, 2, PRIORS, n_chains=2, n_warmup=60, n_draws=700, rng=1, model=shared_model(V00))
    draws = work.finish(drive(work))
    f = functions(draws.theta.beta1[:, :, 0], draws.stats["A0"][:, :, 0], draws.theta.tau[..., 0])
    assert np.abs((f.mean((0, 1)) - exact) / np.hypot(error, mcse_mean(f))).max() < 5


# ---- learners

def data():
    rng = np.random.default_rng(6)
    X = rng.normal(3.0, 2.0, size=(24, 2))
    return X, np.where(X[:, 0] + rng.normal(size=24) > 3, "right", "left")


def fitted(method, seed=0, **more):
    X, y = data()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return CMNClassifier.paper(n_experts=3, method=method, random_state=seed, method_options={**METHODS.get(method, {}), **more}).fit(X, y)


@each_method
def test_without_a_mean_and_unscaled_it_is_the_method(method):
    X, _ = data()
    old = CMNClassifier.paper(n_experts=3, method=method.removeprefix("shared-"), random_state=0, method_options=METHODS[method])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        old.fit(*data())
    assert_array_equal(fitted(method, v00=0.0, scaled=False).predict_log_proba(X), old.predict_log_proba(X))
    scaled, wide = (fitted(method, v00=v00).predict_log_proba(X) for v00 in (0.0, 30.0))
    assert np.abs(scaled - old.predict_log_proba(X)).max() > 1e-6 < np.abs(scaled - wide).max()


@each_method
def test_a_model_is_kept_and_asked(method, tmp_path):
    X, y = data()
    net = fitted(method)
    net.save(tmp_path / "net.npz")
    again = CMNClassifier.load(tmp_path / "net.npz")
    assert_array_equal(again.predict_log_proba(X), net.predict_log_proba(X))
    assert_allclose(net.predict_proba(X).sum(1), 1, rtol=1e-9)
    rows = training_log_likelihoods(net, X, y, 6)
    assert rows is None if method == "shared-map" else rows.shape[1] == 24 and np.isfinite(rows).all()
    if method == "shared-gibbs":
        kept = net.fits_[0].draws
        assert kept.stats["A0"].shape == (2, 8, 1, 3)
        assert_array_equal(again.fits_[0].draws.stats["A0"], kept.stats["A0"])


def test_chains_are_those_by_hand_with_scales_of_the_columns():
    net = fitted("shared-gibbs")
    X, y = data()
    Z, codes = (X - X.mean(0)) / X.std(0), np.unique(y, return_inverse=True)[1]
    work = gibbs_work(Z, codes, 3, 1, 2, Priors(v0=10 / 3, sigma0=5 / 3**0.5), n_chains=2, n_warmup=5, n_draws=8,
                      rng=np.random.default_rng(0).spawn(1)[0], model=shared_model(10 / 3))
    by_hand = work.finish(drive(work))
    assert_allclose(by_hand.phi, net.fits_[0].draws.phi, rtol=1e-6, atol=1e-8)
    assert_allclose(by_hand.stats["A0"], net.fits_[0].draws.stats["A0"], rtol=1e-6, atol=1e-8)


def test_processes_and_checkpoints_change_nothing(tmp_path):
    X, y = data()
    codes = np.unique(y, return_inverse=True)[1]
    make = lambda n: gibbs_work(X, codes, 2, 1, 2, PRIORS, n_chains=2, n_warmup=3, n_draws=n, rng=2, model=shared_model(V00))
    straight = make(9).finish(drive(make(9)))
    drive(make(4), checkpoint=tmp_path / "run.npz")
    resumed = make(9).finish(drive(make(9), checkpoint=tmp_path / "run.npz", n_jobs=2))
    assert_array_equal(resumed.phi, straight.phi)
    assert_array_equal(resumed.stats["A0"], straight.stats["A0"])
    with pytest.raises(ValueError, match="^checkpoint: expected a run of this problem"):
        drive(make(9)._replace(problem=make(9).problem[:-1] + (2 * V00,)), checkpoint=tmp_path / "run.npz")


@each_method
@pytest.mark.parametrize("option, value", [("v00", -1.0), ("v00", "wide"), ("scaled", 3)])
def test_a_bad_option_is_named(method, option, value):
    with pytest.raises(ValueError, match=rf"^{re.escape(option)}: expected "):
        fitted(method, **{option: value})


# ---- the gap of mean field

def test_coordinate_ascent_is_too_sure_of_the_mean_and_knows_less_with_more_experts():
    X, y = np.zeros((2, 1)), np.array([0, 1])                # next to no rows: the posterior of A_0 is nearly its prior
    shares = [fit_shared(X, y, K, 1, 2, Priors(v0=5.0), Above(5.0), rng=0, max_sweeps=200).higher.var[0] / 5.0 for K in (2, 6, 12)]
    assert shares[0] < 0.5 and shares[2] < shares[1] < shares[0]
    assert set(shared.FIELDS) >= {"A0_mean", "A0_var"}


def test_draws_of_the_classes_come_from_theta_alone():
    net, (X, _) = fitted("shared-gibbs"), data()
    kept = net.fits_[0].draws
    logs = np.stack(list(draw_log_probs(kept, net.inputs(X))))
    assert_allclose(np.log(np.exp(logs).mean(0)), net.predict_log_proba(X), rtol=1e-6)
