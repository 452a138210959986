"""Centred sticks and learned scales in the other methods: the gains against scipy's densities and quadrature, the sampler against its prior, its joint and networks of the prior, the learners."""
import pickle
import re
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracle import posterior
from scipy import integrate, stats
from scipy.special import digamma

from cmn_literate import CMNClassifier
from cmn_literate.beyond.learned_draws import (
    LearnedPrior, LearnedState, coefficient_gain, draw_centred_axes, draw_scales, expert_gain, learned_chains, learned_log_joint, learned_model, learned_start,
    learned_sweep, learned_term, misfits, priors_at, scale_rule)
from cmn_literate.beyond.shared_draws import SharedPrior, shared_gain, shared_model
from cmn_literate.beyond.shared_means import Above
from cmn_literate.engineering.coordinates import Shapes, pack, theta_shapes, to_white
from cmn_literate.engineering.runs import drive
from cmn_literate.ideas.expfam import pad
from cmn_literate.network.simulate import Priors, Theta, sample_data, sample_sticks, sample_theta
from cmn_literate.roads.diagnostics import draw_log_probs, mcse_mean
from cmn_literate.roads.gibbs import draw_coefficients, draw_omega, gibbs_work
from cmn_literate.roads.mle import mle_objective
from cmn_literate.roads.one_table import training_log_likelihoods
from cmn_literate.roads.posterior import posterior_target, posterior_work

PRIORS, ABOVE = Priors(v0=0.7, a0=2.5, b0=1.5, sigma0=1.4, sigma1=1.2), Above(1.9, True, 2.5)
VARIANCES = np.array([0.7, 1.4**2, 1.2**2])
SIZES = [(3, 2, 3, 2), (1, 1, 2, 1), (4, 3, 3, 2), (2, 1, 4, 3)]
METHODS = {"shared-map": {"n_steps": 12}, "shared-bbvi": {"n_steps": 12}, "shared-nuts": {"n_chains": 1, "n_warmup": 6, "n_draws": 5, "max_depth": 3},
           "shared-gibbs": {"n_chains": 2, "n_warmup": 5, "n_draws": 8}}
each_size = pytest.mark.parametrize("sizes", SIZES, ids=str)
each_method = pytest.mark.parametrize("method", METHODS)
KINDS = [Above(0.0, True), Above(0.0, False, 3.0), Above(0.0, True, 3.0), Above(1.9, True), Above(1.9, False, 3.0), Above(1.9, True, 3.0)]
each_kind = pytest.mark.parametrize("above", KINDS, ids=str)


def theta_of(sizes, seed=0, priors=PRIORS):
    return sample_theta(priors, *sizes, np.random.default_rng([seed, *sizes]))


def centre(J, m, centred=True):
    """Prior means with equal chances for J + 1 ends, from the odds."""
    return np.array([[0.0] * (m - 1) + [centred * np.log((1 / (J + 1 - j)) / (1 - 1 / (J + 1 - j)))] for j in range(J)]).reshape(J, m)


# ---- the prior

@pytest.mark.parametrize("J, m", [(3, 2), (1, 4), (5, 1), (0, 3)])
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("strength", [None, 0.3, 4.0])
def test_gain_of_a_block_of_sticks(J, m, centred, strength):
    sigma, beta = 1.7, np.random.default_rng([J, m]).normal(size=(J, m)) * 2
    value, slope = coefficient_gain(beta, sigma, centred, strength)
    if J == 0:
        assert value == 0 and slope.shape == (0, m)
        return

    def density(flat):
        off, cov = flat - centre(J, m, centred).ravel(), sigma**2 * np.eye(J * m)
        new = stats.multivariate_normal.logpdf(off, cov=cov) if strength is None else stats.multivariate_t.logpdf(off, shape=cov, df=2 * strength)
        return new - stats.multivariate_normal.logpdf(flat, cov=cov)

    assert_allclose(value, density(beta.ravel()), rtol=1e-10, atol=1e-11)
    steps = 1e-5 * np.eye(J * m)
    by_steps = [(density(beta.ravel() + step) - density(beta.ravel() - step)) / 2e-5 for step in steps]
    assert_allclose(slope.ravel(), by_steps, rtol=1e-6, atol=1e-7)
    many = np.stack([beta, -0.4 * beta])
    for s in range(2):
        for whole, one in zip(coefficient_gain(many, sigma, centred, strength), coefficient_gain(many[s], sigma, centred, strength)):
            assert_allclose(whole[s], one, rtol=1e-12)


def test_gain_by_integrating_the_scale_out():
    beta, sigma, c = np.array([[0.4, -1.1], [1.3, 0.2]]), 1.3, 1.7
    joint = lambda lam: stats.norm.pdf(beta, centre(2, 2), lam**-0.5).prod() * stats.gamma.pdf(lam, c, scale=1 / (c * sigma**2))
    mass = integrate.quad(joint, 0, np.inf, epsabs=0, epsrel=1e-10)[0]
    assert_allclose(coefficient_gain(beta, sigma, True, c)[0], np.log(mass) - stats.norm.logpdf(beta, 0, sigma).sum(), rtol=1e-9)


@each_size
@pytest.mark.parametrize("v00", [0.0, 1.9, 40.0])
@pytest.mark.parametrize("strength", [0.4, 3.0])
def test_gain_of_the_experts_by_dense_densities_and_quadrature(sizes, v00, strength):
    theta, v0 = theta_of(sizes, 1), 0.7
    theta = theta._replace(A=theta.A + 1.0)

    def log_joint(x):
        total = stats.gamma.logpdf(np.exp(x), strength, scale=1 / (strength * v0)) + x
        for i in range(sizes[1]):
            cov = np.diag(1 / (np.exp(x) * theta.tau[:, i])) + v00
            total += stats.multivariate_normal.logpdf(theta.A[:, i].T, cov=cov, allow_singular=True).sum()
        return total

    grid = np.linspace(-8, 5, 100)
    heights = [log_joint(x) for x in grid]
    top, at = max(heights), grid[int(np.argmax(heights))]
    parts = [integrate.quad(lambda x: np.exp(log_joint(x) - top), a, b, epsabs=0, epsrel=1e-9, limit=200)[0]
             for a, b in zip((at - 60, at - 12, at - 3, at), (at - 12, at - 3, at, at + 4))]
    old = sum(stats.norm.logpdf(theta.A[k, i], 0, np.sqrt(v0 / theta.tau[k, i])).sum() for k in range(sizes[0]) for i in range(sizes[1]))
    assert_allclose(expert_gain(theta, v0, v00, strength)[0], np.log(sum(parts)) + top - old, rtol=1e-7, atol=1e-8)


@each_size
@each_kind
def test_slopes_of_the_term(sizes, above):
    theta, term = theta_of(sizes, 2), LearnedPrior(PRIORS, above)
    value, bar = term(theta)
    for field, slope in bar._asdict().items():
        part = getattr(theta, field)
        slope, rng = slope + np.zeros(part.shape), np.random.default_rng(3)
        for _ in range(2):
            way = rng.normal(size=part.shape)
            step = 1e-5 * (part.min() if field == "tau" else 1.0)
            up, down = (term(theta._replace(**{field: part + t * way}))[0] for t in (step, -step))
            assert_allclose((up - down) / (2 * step), (slope * way).sum(), rtol=2e-5, atol=2e-5)
    many = Theta(*(np.stack([part, 1.5 * part, 0.5 * part]) for part in theta))
    values, bars = term(many)
    for s in range(3):
        one, own = term(Theta(*(part[s] for part in many)))
        assert_allclose(values[s], one, rtol=1e-10, atol=1e-11)
        for a, b in zip(bars, own):
            if np.ndim(a):
                assert_allclose(a[s], b, rtol=1e-9, atol=1e-10)


def test_a_known_scale_is_a_strong_prior_and_no_node_is_missing():
    theta = theta_of((3, 2, 3, 2), 3)
    assert_allclose(expert_gain(theta, 0.7, 1.9, 1e6)[0], shared_gain(theta, 0.7, 1.9), atol=1e-3)
    assert_allclose(LearnedPrior(PRIORS, Above(1.9))(theta)[0], shared_gain(theta, 0.7, 1.9), rtol=1e-12)
    for strength in (0.05, 2.0, 300.0):
        few, many = scale_rule(theta, 0.7, 1.9, strength), scale_rule(theta, 0.7, 1.9, strength, fall=60.0)
        assert_allclose(few.total, many.total, rtol=1e-11)
        assert_allclose(few.weight.sum(), 1, rtol=1e-12)
        assert (few.weight[[0, -1]] < 1e-13).all()


def test_numbers_that_overflow_have_no_density_and_no_warning():
    shapes, priors = Shapes(2, 1, 2, 1), PRIORS
    X, y = np.array([[0.1], [-0.3], [1.0]]), np.array([0, 1, 0])
    target, _ = posterior_target(X, y, shapes, priors, "marginal", 5, term=LearnedPrior(priors, ABOVE))
    u = np.zeros(shapes.n_params)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for bad in (1e200, 2000.0, np.nan):
            v = u.copy()
            v[-1] = bad
            value, slope = target(v)
            assert value == -np.inf and not slope.any()
    assert np.isfinite(target(u)[0])


def test_map_climbs_the_prior_with_the_scales_out():
    shapes, theta, term = Shapes(3, 2, 3, 2), theta_of((3, 2, 3, 2), 3), LearnedPrior(PRIORS, ABOVE)
    rng = np.random.default_rng(3)
    X, y, phi = rng.normal(size=(9, 2)), rng.integers(3, size=9), pack(theta)
    (value, slope), (old, plain) = (mle_objective(X, y, shapes, "network", PRIORS, term=t)(phi) for t in (term, None))
    more, bar = term(theta)
    assert_allclose(value - old, more, rtol=1e-9)
    assert_allclose(slope - plain, np.concatenate([part.ravel() for part in bar._replace(tau=bar.tau * theta.tau)]), rtol=1e-7, atol=1e-9)
    assert pickle.loads(pickle.dumps(term)) == term


# ---- the sampler

def begun(sizes=(3, 2, 3, 2), n=7, seed=0, above=ABOVE):
    rng = np.random.default_rng([seed, *sizes])
    X, y = rng.normal(size=(n, sizes[3])), rng.integers(sizes[2], size=n)
    return learned_start(X, y, sizes[:3], PRIORS, rng, above=above), X, y, rng


def test_sticks_about_a_centre_are_those_about_zero_with_a_further_pull():
    rng, sigma = np.random.default_rng(5), 1.3
    inputs, choice, beta, mean = rng.normal(size=(9, 2)), rng.integers(4, size=9), rng.normal(size=(3, 3)), rng.normal(size=(3, 3))
    omega = draw_omega(choice, inputs, beta, rng)
    draws = np.stack([draw_coefficients(choice, inputs, omega, sigma, rng, mean) for _ in range(4000)])
    kappa = np.where(choice[:, None] == np.arange(3), 0.5, np.where(choice[:, None] > np.arange(3), -0.5, 0.0))
    for j in range(3):
        P = np.eye(3) / sigma**2 + (pad(inputs) * omega[:, j:j + 1]).T @ pad(inputs)
        best = np.linalg.solve(P, kappa[:, j] @ pad(inputs) + mean[j] / sigma**2)
        white = (draws[:, j] - best) @ np.linalg.cholesky(P)
        assert np.abs(white.mean(0)).max() < 5 / 4000**0.5
        assert_allclose(white.T @ white / 4000, np.eye(3), atol=0.12)


@each_kind
def test_log_joint_by_loops(above):
    s, X, y, _ = begun(above=above)
    centres = [centre(*beta.shape, above.centred) for beta in s.theta[:2]]
    total = posterior.log_joint(s.theta, s.z, s.x1, X, y, s.A0, s.scales, centres, 2.5, 1.5)
    if above.strength is not None:
        total += stats.gamma.logpdf(s.scales, above.strength, scale=1 / (above.strength * VARIANCES)).sum()
    else:
        assert_array_equal(s.scales, 1 / VARIANCES)
    if above.v00:
        total += stats.norm.logpdf(s.A0, 0, above.v00**0.5).sum()
    else:
        assert not s.A0.any()
    assert_allclose(learned_log_joint(s, X, y, PRIORS, above), total, rtol=1e-10)


def test_scales_are_drawn_from_the_joint_along_them():
    s, X, y, rng = begun()
    Q, counts = misfits(s.theta, s.A0, True)
    assert list(counts) == [18, 6, 6]
    assert_allclose(Q[0], sum(s.theta.tau[k, i] * ((s.theta.A[k, i] - s.A0[i])**2).sum() for k in range(3) for i in range(2)))
    draws = np.stack([draw_scales(s.theta, s.A0, PRIORS, ABOVE, rng) for _ in range(600)])
    grid = np.geomspace(0.01, 20, 900)
    for b in range(3):
        heights = [learned_log_joint(s._replace(scales=np.where(np.arange(3) == b, v, s.scales)), X, y, PRIORS, ABOVE) for v in grid]
        cdf = np.cumsum(np.exp(heights - np.max(heights)) * grid)
        place = np.interp(draws[:, b], grid, cdf / cdf[-1])
        assert stats.kstest(place, "uniform").pvalue > 1e-3
    assert_array_equal(draw_scales(s.theta, s.A0, PRIORS, Above(1.9, True), rng), 1 / VARIANCES)
    assert priors_at(s.scales, PRIORS, Above(1.9)) is PRIORS
    force = priors_at(s.scales, PRIORS, ABOVE)
    assert_allclose([force.v0, force.sigma0**2, force.sigma1**2], 1 / s.scales)
    assert (force.a0, force.b0) == (2.5, 1.5)


@pytest.mark.parametrize("v00", [0.0, 1.9])
def test_shift_of_the_axes_sees_the_centred_biases(v00):
    s, X, _, rng = begun()
    mean, W, shifts = centre(2, 3), s.theta.beta1[:, :2], []
    for _ in range(1500):
        theta, x1, A0 = draw_centred_axes(s.theta, s.x1, s.A0 * (v00 > 0), PRIORS, v00, mean, rng)
        stretch = theta.beta1[:, :2][0] / W[0]
        c, w = x1[0] - s.x1[0] / stretch, W * stretch
        if v00:
            own, pull = np.eye(2) / v00, s.A0[:, -1] / stretch / v00
        else:
            tau = s.theta.tau * stretch**2
            own, pull = np.diag(tau.sum(0)) / PRIORS.v0, (tau * s.theta.A[:, :, -1] / stretch).sum(0) / PRIORS.v0
        P = w.T @ w / PRIORS.sigma1**2 + own
        best = np.linalg.solve(P, (s.theta.beta1[:, 2] - mean[:, 2]) @ w / PRIORS.sigma1**2 - pull)
        shifts.append(np.linalg.cholesky(P).T @ (c - best))
    shifts = np.array(shifts)
    assert np.abs(shifts.mean(0)).max() < 4.5 / 1500**0.5
    assert_allclose(shifts.T @ shifts / 1500, np.eye(2), atol=0.17)
    assert_allclose(pad(x1) @ theta.beta1.T, pad(s.x1) @ s.theta.beta1.T, rtol=1e-9, atol=1e-9)


def test_the_mean_is_drawn_at_the_scale_in_force():
    """With next to no prior of its own, A_0 is about the weighted mean of the experts with precision lambda times theirs; no axis move changes that."""
    wide, (s, X, y, rng), found = Above(1e6, True, 2.5), begun(above=Above(1e6, True, 2.5)), []
    s = s._replace(scales=np.array([60.0, 1.0, 1.0]))
    for _ in range(80):
        after = learned_sweep(s, X, y, PRIORS, rng, wide)
        T = after.theta.tau.sum(0)[:, None]
        middle = (after.theta.tau[..., None] * after.theta.A).sum(0) / T
        found.append(((after.A0 - middle) * np.sqrt(60.0 * T)).ravel())
    found = np.array(found)
    assert np.abs(found.mean()) < 5 / found.size**0.5
    assert_allclose((found**2).mean(), 1, atol=5 * (2 / found.size)**0.5)


def geweke(n_sweeps, above, seed=0, K=3, h=2, L=3):
    tame, rng, c = Priors(v0=1.0, a0=3.0, b0=3.0, sigma0=1.0, sigma1=1.0), np.random.default_rng(seed), above.strength or 1.0
    scales = np.ones(3) if above.strength is None else rng.gamma(c, 1 / c, 3)
    X, A0 = np.random.default_rng(0).normal(size=(4, 1)), rng.normal(size=(h, 2)) * above.v00**0.5
    theta = sample_theta(priors_at(scales, tame, above), K, h, L, 1, rng)
    c1, c0 = (centre(*beta.shape, above.centred) for beta in theta[:2])
    theta = Theta(theta.beta1 + c1, theta.beta0 + c0, theta.A + A0, theta.tau)
    z, x1, y = sample_data(theta, X, rng)
    s, rows = LearnedState(theta, z, x1, None, None, A0, scales), []
    for _ in range(n_sweeps):
        s = learned_sweep(s, X, y, tame, rng, above)
        y, (v, g, o) = sample_sticks(pad(s.x1) @ s.theta.beta1.T, rng), np.sqrt(s.scales)
        parts = [o * (s.theta.beta1 - c1), g * (s.theta.beta0 - c0), v * (s.theta.A - s.A0) * np.sqrt(s.theta.tau)[..., None]]
        parts += [s.A0 / above.v00**0.5] if above.v00 else []
        w = np.concatenate([part.ravel() for part in parts])
        more = [np.log(s.theta.tau).ravel() - digamma(3.0) + np.log(3.0)] + ([np.log(s.scales) - digamma(c) + np.log(c)] if above.strength else [])
        rows.append(np.concatenate([w, w**2 - 1, *more]))
    rows = np.array(rows).reshape(4, -1, len(rows[0]))
    return np.abs(rows.mean((0, 1)) / mcse_mean(rows)).max()


@pytest.mark.parametrize("above", [Above(0.0, True, 3.0), Above(1.5, True, 3.0)], ids=str)
def test_the_sweep_visits_the_prior(above):
    assert geweke(1000, above) < 5


@pytest.mark.slow
@each_kind
def test_the_sweep_visits_the_prior_at_length(above):
    assert geweke(5000, above, 1) < 5


# ---- three ways to one posterior

FOUR_X, FOUR_y = np.array([[-1.5], [-0.5], [0.5], [1.5]]), np.array([0, 2, 2, 1])


def weighted_networks(above, S, rng, K=3):
    """Networks drawn from the extended prior, scales first, and their weights: no chain and no gradient."""
    c = above.strength
    lam = np.broadcast_to(1 / VARIANCES, (S, 3)) if c is None else rng.gamma(c, 1 / (c * VARIANCES), size=(S, 3))
    tau = rng.gamma(PRIORS.a0, 1 / PRIORS.b0, size=(S, K, 1))
    A = above.v00**0.5 * rng.normal(size=(S, 1, 1, 2)) + rng.normal(size=(S, K, 1, 2)) / np.sqrt(lam[:, :1, None] * tau)[..., None]
    beta1 = rng.normal(size=(S, 2, 2)) / np.sqrt(lam[:, 2, None, None]) + centre(2, 2, above.centred)
    beta0 = rng.normal(size=(S, K - 1, 2)) / np.sqrt(lam[:, 1, None, None]) + centre(K - 1, 2, above.centred)
    weight, s = np.ones(S), np.arange(S)
    for x, label in zip(pad(FOUR_X), FOUR_y):
        gate = np.stack([posterior.sigmoid(psi) for psi in (beta0 @ x).T])
        k = (rng.random(S) > gate[0]).astype(int)
        k[(k == 1) & (rng.random(S) > gate[1])] = 2
        x1 = (A[s, k] @ x)[:, 0] + rng.normal(size=S) / np.sqrt(tau[s, k, 0])
        stop = posterior.sigmoid(beta1[..., 0] * x1[:, None] + beta1[..., 1])
        weight *= [stop[:, 0], (1 - stop[:, 0]) * stop[:, 1], (1 - stop[:, 0]) * (1 - stop[:, 1])][label]
    return Theta(beta1, beta0, A, tau), lam * VARIANCES, weight / weight.sum()


def functions(theta, scales):
    psi = [theta.beta1[..., 0] * (theta.A[..., 0, 0, :] @ x)[..., None] + theta.beta1[..., 1] for x in ([-1, 1], [2, 1])]
    return np.concatenate([*np.tanh(psi), *(np.tanh(theta.beta0 @ x) for x in ([-1, 1], [1, 1])), np.log(theta.tau[..., 0, :]), scales], -1)


def mean_scales(theta, above):
    """E[scale | Theta] over its prior mean."""
    if above.strength is None:
        return np.ones(theta.tau.shape[:-2] + (3,))
    rule, means = scale_rule(theta, PRIORS.v0, above.v00, above.strength), []
    for beta, variance in ((theta.beta0, VARIANCES[1]), (theta.beta1, VARIANCES[2])):
        off = beta - centre(*beta.shape[-2:], above.centred)
        means.append((above.strength + off[0, 0].size / 2) / (above.strength + (off**2).sum((-2, -1)) / (2 * variance)))
    return np.stack([(rule.scale * rule.weight).sum(-1), *means], -1)


@pytest.mark.parametrize("above", [Above(0.0, True, 3.0), pytest.param(Above(1.9, True, 3.0), marks=pytest.mark.slow), pytest.param(Above(1.9, True), marks=pytest.mark.slow)], ids=str)
def test_gibbs_agrees_with_weighted_networks_of_the_prior(above):
    theta, scales, weight = weighted_networks(above, 120_000, np.random.default_rng(0))
    exact, error = posterior.weighted_mean(functions(theta, scales), weight)
    work = gibbs_work(FOUR_X, FOUR_y, 3, 1, 3, PRIORS, 2, 60, 700, rng=1, model=learned_model(above))
    draws = work.finish(drive(work))
    f = functions(draws.theta, draws.stats["scales"] * VARIANCES)
    assert np.abs((f.mean((0, 1)) - exact) / np.hypot(error, mcse_mean(f) + 1e-12)).max() < 5


@pytest.mark.slow
@pytest.mark.parametrize("above", [Above(0.0, True, 3.0), Above(1.9, True, 3.0), Above(1.9, True)], ids=str)
def test_nuts_agrees_with_weighted_networks_of_the_prior(above):
    theta, scales, weight = weighted_networks(above, 120_000, np.random.default_rng(0))
    exact, error = posterior.weighted_mean(functions(theta, scales), weight)
    work = posterior_work(FOUR_X, FOUR_y, 3, 1, 3, PRIORS, n_chains=2, n_warmup=150, n_draws=250, rng=2, max_depth=6, n_nodes=8, term=LearnedPrior(PRIORS, above))
    draws = work.finish(drive(work))
    f = functions(draws.theta, mean_scales(draws.theta, above))
    assert np.abs((f.mean((0, 1)) - exact) / np.hypot(error, mcse_mean(f) + 1e-12)).max() < 5


def test_white_coordinates_stay_those_of_the_fixed_scales():
    theta, term = theta_of((2, 1, 3, 1), 4), LearnedPrior(PRIORS, ABOVE)
    shapes = theta_shapes(theta)
    u = to_white(pack(theta), shapes, PRIORS)
    values = [posterior_target(FOUR_X, FOUR_y, shapes, PRIORS, "marginal", 6, term=t)[0](u)[0] for t in (term, None)]
    assert_allclose(values[0] - values[1], term(theta)[0], rtol=1e-9)


# ---- learners

def data():
    rng = np.random.default_rng(6)
    X = rng.normal(3.0, 2.0, size=(24, 2))
    return X, np.where(X[:, 0] + rng.normal(size=24) > 3, "right", np.where(X[:, 1] > 3, "middle", "left"))


def fitted(method, seed=0, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return CMNClassifier.paper(n_experts=3, method=method, random_state=seed, method_options={**METHODS[method], **more}).fit(*data())


@each_method
def test_each_option_changes_the_fit_and_none_changes_nothing(method):
    X, _ = data()
    plain = fitted(method).predict_log_proba(X)
    assert_array_equal(fitted(method, centred=False, strength=None).predict_log_proba(X), plain)
    found = [fitted(method, **more).predict_log_proba(X) for more in ({"centred": True}, {"strength": 3.0}, {"strength": 3.0, "v00": 0.0}, {"centred": True, "v00": 0.0})]
    for i, one in enumerate(found):
        assert all(np.abs(one - other).max() > 1e-7 for other in (plain, *found[:i]))


@each_method
@pytest.mark.parametrize("more", [{"centred": True, "strength": 3.0}, {"v00": 0.0, "strength": 0.5}], ids=str)
def test_a_model_is_kept_and_asked(method, more, tmp_path):
    X, y = data()
    net = fitted(method, **more)
    net.save(tmp_path / "net.npz")
    again = CMNClassifier.load(tmp_path / "net.npz")
    assert_array_equal(again.predict_log_proba(X), net.predict_log_proba(X))
    assert_allclose(net.predict_proba(X).sum(1), 1, rtol=1e-9)
    rows = training_log_likelihoods(net, X, y, 6)
    assert rows is None if method == "shared-map" else rows.shape[1] == 24 and np.isfinite(rows).all()
    if method == "shared-gibbs":
        kept = net.fits_[0].draws
        assert kept.stats["A0"].shape == (2, 8, 2, 3) and kept.stats["scales"].shape == (2, 8, 3)
        for name in ("A0", "scales"):
            assert_array_equal(again.fits_[0].draws.stats[name], kept.stats[name])
        logs = np.stack(list(draw_log_probs(kept, net.inputs(X))))
        assert_allclose(np.log(np.exp(logs).mean(0)), net.predict_log_proba(X), rtol=1e-6)


def test_chains_are_those_by_hand_with_scales_of_the_columns():
    net, (X, y) = fitted("shared-gibbs", centred=True, strength=3.0), data()
    Z, codes = (X - X.mean(0)) / X.std(0), np.unique(y, return_inverse=True)[1]
    work = gibbs_work(Z, codes, 3, 2, 3, Priors(v0=10 / 3, sigma0=5 / 3**0.5), n_chains=2, n_warmup=5, n_draws=8, rng=np.random.default_rng(0).spawn(1)[0],
                      model=learned_model(Above(10 / 3, True, 3.0)))
    by_hand = work.finish(drive(work))
    assert_allclose(by_hand.phi, net.fits_[0].draws.phi, rtol=1e-6, atol=1e-8)
    assert_allclose(by_hand.stats["scales"], net.fits_[0].draws.stats["scales"], rtol=1e-6, atol=1e-8)


def test_without_options_the_chains_are_those_of_the_chapters_before():
    X, y = data()
    codes = np.unique(y, return_inverse=True)[1]
    for above, model in ((Above(), None), (Above(1.9), shared_model(1.9))):
        one, two = (w.finish(drive(w)) for w in (gibbs_work(X, codes, 3, 2, 3, PRIORS, 2, 4, 6, rng=3, model=m) for m in (learned_model(above), model)))
        assert_array_equal(one.phi, two.phi)
        assert_array_equal(one.log_joint, two.log_joint)
    assert learned_term(PRIORS, Above(1.9)) == {"term": SharedPrior(0.7, 1.9)}
    assert learned_chains(PRIORS, Above(1.9))["model"].problem == ("shared", 1.9)
    assert learned_term(PRIORS, ABOVE) == {"term": LearnedPrior(PRIORS, ABOVE)}
    assert learned_chains(PRIORS, ABOVE)["model"].problem == ("learned", 1.9, True, 2.5)


def test_processes_and_checkpoints_change_nothing(tmp_path):
    X, y = data()
    codes = np.unique(y, return_inverse=True)[1]
    make = lambda n, above=ABOVE: gibbs_work(X, codes, 2, 1, 3, PRIORS, n_chains=2, n_warmup=3, n_draws=n, rng=2, model=learned_model(above))
    straight = make(9).finish(drive(make(9)))
    drive(make(4), checkpoint=tmp_path / "run.npz")
    resumed = make(9).finish(drive(make(9), checkpoint=tmp_path / "run.npz", n_jobs=2))
    assert_array_equal(resumed.phi, straight.phi)
    assert_array_equal(resumed.stats["scales"], straight.stats["scales"])
    for other in (Above(1.9, False, 2.5), Above(1.9, True, 2.0), Above(1.8, True, 2.5)):
        with pytest.raises(ValueError, match="^checkpoint: expected a run of this problem"):
            drive(make(9, other), checkpoint=tmp_path / "run.npz")


def test_one_expert_has_no_gate_and_its_scale_is_the_prior():
    X, y = data()
    codes = np.unique(y, return_inverse=True)[1]
    work = gibbs_work(X, codes, 1, 2, 3, PRIORS, 1, 5, 400, rng=1, model=learned_model(Above(0.0, True, 3.0)))
    scale = work.finish(drive(work)).stats["scales"][0, :, 1] * VARIANCES[1]
    assert stats.kstest(scale, stats.gamma(3.0, scale=1 / 3.0).cdf).pvalue > 1e-3


@each_method
@pytest.mark.parametrize("option, value", [("centred", 3), ("strength", 0.0), ("strength", "weak"), ("v00", -1.0)])
def test_a_bad_option_is_named(method, option, value):
    with pytest.raises(ValueError, match=rf"^{re.escape(option)}: expected "):
        fitted(method, **{option: value})
