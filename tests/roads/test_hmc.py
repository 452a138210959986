"""Hamiltonian Monte Carlo on targets whose answer is known, and its promises."""

import warnings

import autograd.numpy as anp
import numpy as np
import pytest
from autograd import jacobian
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest, norm

from cmn_literate.roads import hmc as module
from cmn_literate.roads.diagnostics import bfmi, mcse_mean, split_rhat
from cmn_literate.roads.hmc import HMCState, draw_momentum, hamiltonian, hmc, hmc_step, leapfrog
from cmn_literate.engineering.coordinates import Shapes, from_white, unpack
from cmn_literate.engineering.gradients import class_log_probs, marginal_value_and_grad
from cmn_literate.engineering.nodes import latent_nodes
from cmn_literate.network.simulate import Priors, Theta


def gaussian(mean, cov):
    precision = np.linalg.inv(np.atleast_2d(cov))
    return lambda q: (-0.5 * anp.sum((q - mean) @ precision * (q - mean), -1), -(q - mean) @ precision)


def within(draws, mean, cov):
    """Means and second moments of (chains, draws, P) within 5 Monte Carlo standard errors."""
    centred = draws - mean
    squares = centred[..., :, None] * centred[..., None, :]
    assert np.all(np.abs(centred.mean((0, 1))) < 5 * mcse_mean(draws))
    assert np.all(np.abs(squares.mean((0, 1)) - cov) < 5 * mcse_mean(squares))


STANDARD = gaussian(np.zeros(1), np.eye(1))


# ---- known answers

def test_standard_normal_with_a_heavy_ball():
    """Inverse mass 0.1, step 0.01, 100 steps: variance 1."""
    out = hmc(STANDARD, default_rng(0).normal(size=(256, 1)), 200, 0.01, 100, inv_mass=0.1, rng=1)
    within(out.draws, 0.0, np.eye(1))
    assert mcse_mean(out.draws**2)[0] < 0.05 and out.stats.accept.min() > 0.99


def test_a_wrong_momentum_scale_is_seen(monkeypatch):
    """Momenta with half their variance give variance 0.5, ten standard errors away: the test above can fail."""
    monkeypatch.setattr(module, "draw_momentum", lambda inv_mass, shape, rng: draw_momentum(inv_mass, shape, rng) * 0.5**0.5)
    out = hmc(STANDARD, default_rng(0).normal(size=(256, 1)) * 0.5**0.5, 200, 0.01, 100, inv_mass=0.1, rng=1)
    assert abs(out.draws.var() - 0.5) < 5 * mcse_mean(out.draws**2)[0] and abs(out.draws.var() - 1) > 10 * mcse_mean(out.draws**2)[0]


def test_ten_dimensions():
    mean, cov = np.full(10, 2.0), 3 * np.eye(10)
    out = hmc(gaussian(mean, cov), mean + default_rng(0).normal(size=(8, 10)), 1000, 0.8, 4, rng=2, n_warmup=30, jitter=0.3)
    within(out.draws, mean, cov)
    assert mcse_mean(out.draws[..., 0] ** 2) < 0.3 and split_rhat(out.draws).max() < 1.02


@pytest.mark.parametrize("inv_mass", [1.0, [0.5, 1.0, 4.0]])
def test_correlated_gaussian(inv_mass):
    mean, cov = np.array([1.0, -2.0, 0.5]), np.array([[1.0, 0.8, 0.3], [0.8, 1.0, 0.0], [0.3, 0.0, 2.0]])
    out = hmc(gaussian(mean, cov), mean + np.zeros((4, 3)), 3000, 0.35, 6, inv_mass=inv_mass, rng=3, n_warmup=50, jitter=0.4)
    within(out.draws, mean, cov)
    assert out.stats.accept.mean() < 0.99                # Metropolis has something to do


def test_law_of_a_lopsided_target():
    """A large step, many rejections: the law is right as a whole (Kolmogorov-Smirnov on independent chains)."""
    def target(q):                                       # a Gumbel density: exp(-x - exp(-x))
        with np.errstate(over="ignore"):
            e = np.exp(-q[..., 0])
        return -q[..., 0] - e, (e - 1)[..., None]
    start = -np.log(default_rng(0).exponential(size=(20_000, 1)))
    out = hmc(target, start, 6, 1.2, 3, inv_mass=1.5, rng=4)
    assert 0.4 < out.stats.accept.mean() < 0.9
    assert kstest(out.draws[:, -1, 0], lambda x: np.exp(-np.exp(-x))).pvalue > 1e-4
    forward, back = start[:, 0] < 0.2, out.draws[:, -1, 0] < 0.2
    there, here = np.sum(forward & ~back), np.sum(~forward & back)
    assert abs(there - here) < 5 * np.sqrt(there + here)


def test_a_small_network_against_importance_sampling():
    """K = 2, h = 1, N = 6: predictive probabilities within 5 combined standard errors of weighted prior draws."""
    shapes, priors = Shapes(2, 1, 2, 1), Priors(v0=2.0, a0=3.0, sigma0=2.0, sigma1=2.0)
    X, y, nodes = np.linspace(-2, 2, 6)[:, None], np.array([0, 0, 1, 1, 0, 0]), latent_nodes(shapes, 10)
    places, rng, S = np.array([[-3.0], [0.0], [1.5]]), default_rng(5), 5000
    u = rng.normal(size=(S, 10))
    u[:, -2:] = np.log(rng.gamma(priors.a0, 1 / priors.b0, size=(S, 2)))
    theta = unpack(from_white(u, shapes, priors), shapes)
    logs = np.stack([class_log_probs(Theta(*(x[s] for x in theta)), np.vstack([X, places]), nodes) for s in range(S)])
    w = np.exp(logs[:, range(6), y].sum(1))
    w /= w.sum()
    p = np.exp(logs[:, 6:, 0])
    expected = w @ p
    error = np.sqrt(w**2 @ (p - expected) ** 2)
    starts = rng.normal(size=(4, 10)) * 0.5
    runs = [hmc(lambda u: marginal_value_and_grad(u, X, y, shapes, priors, nodes), start, 150, 0.3, 5, rng=c, n_warmup=20,
                jitter=0.3) for c, start in enumerate(starts)]
    draws = unpack(from_white(np.stack([r.draws for r in runs]), shapes, priors), shapes)
    got = np.exp(np.stack([[class_log_probs(Theta(*(x[c, s] for x in draws)), places, nodes)[:, 0] for s in range(150)]
                           for c in range(4)]))
    combined = np.sqrt(error**2 + mcse_mean(got) ** 2)
    assert combined.max() < 0.06
    assert np.all(np.abs(got.mean((0, 1)) - expected) < 5 * combined)


def test_bimodal_target_has_a_large_rhat():
    def target(q):
        a, b = (-0.5 * np.sum((q - s * 4) ** 2, -1) for s in (1, -1))
        t = 1 / (1 + np.exp(np.clip(b - a, -700, 700)))[..., None]
        return np.logaddexp(a, b), -t * (q - 4) - (1 - t) * (q + 4)
    out = hmc(target, np.array([[4.0, 4], [4, 4], [-4, -4], [-4, -4]]), 500, 0.3, 6, rng=0, jitter=0.3)
    assert split_rhat(out.draws).min() > 1.1 and split_rhat(out.draws[:2]).max() < 1.05


def test_energy_fraction_of_a_gaussian_is_one():
    out = hmc(gaussian(np.zeros(10), np.eye(10)), default_rng(0).normal(size=(20, 10)), 1000, 0.4, 4, rng=0, jitter=0.3)
    assert_allclose(bfmi(out.stats.energy).mean(), 1, atol=0.05)


# ---- the integrator

def test_leapfrog_by_hand():
    q, p, value, grad = leapfrog(STANDARD, np.array([2.0]), np.array([1.0]), np.array([-2.0]), 0.1, 0.5)
    half = 1.0 + 0.05 * -2.0
    new = 2.0 + 0.1 * 0.5 * half
    assert_allclose([q[0], p[0], value, grad[0]], [new, half - 0.05 * new, -0.5 * new**2, -new], rtol=1e-14)
    assert_allclose(hamiltonian(value, p, 0.5), 0.5 * new**2 + 0.25 * p[0] ** 2, rtol=1e-14)


def test_leapfrog_forgets_nothing():
    """Jacobian of 10 steps by autograd: determinant 1; back again by turning round."""
    cov = np.array([[1.0, 0.5], [0.5, 2.0]])
    target, inv_mass = gaussian(np.ones(2), cov), np.array([0.3, 2.0])

    def run(x, n=10):
        q, p, grad = x[:2], x[2:], target(x[:2])[1]
        for _ in range(n):
            q, p, _, grad = leapfrog(target, q, p, grad, 0.5, inv_mass)
        return anp.concatenate([q, p])
    x = default_rng(1).normal(size=4)
    assert abs(np.linalg.det(jacobian(run)(x)) - 1) < 1e-12
    back = run(run(x) * [1, 1, -1, -1]) * [1, 1, -1, -1]
    assert_allclose(back, x, atol=1e-12)


@pytest.mark.parametrize("inv_mass", [0.25, 4.0])
def test_stability_limit(inv_mass):
    """A standard normal is stable below a step of 2 / sqrt(inv_mass)."""
    for step, stable in ((1.99, True), (2.01, False)):
        q = p = np.ones(1)
        grad = -q
        for _ in range(500):
            q, p, _, grad = leapfrog(STANDARD, q, p, grad, step / inv_mass**0.5, inv_mass)
        assert (abs(q[0]) < 100) == stable


def test_momenta():
    p = draw_momentum(np.array([0.1, 1.0, 25.0]), (100_000, 3), default_rng(0))
    assert_allclose(p.var(0) * [0.1, 1, 25], 1, atol=5 * (2 / 100_000) ** 0.5)
    assert kstest(p[:, 0] * 0.1**0.5, norm.cdf).pvalue > 1e-4


# ---- promises

def test_rejected_states_are_kept_whole():
    """After any transition value and gradient belong to the position."""
    target, rng = gaussian(np.zeros(2), np.diag([1.0, 0.1])), default_rng(0)
    state = HMCState(np.ones((50, 2)), *target(np.ones((50, 2))))
    for _ in range(20):
        old, (state, stats) = state, hmc_step(target, state, 0.5, 3, 1.0, rng)
        assert_allclose(state.value, target(state.q)[0], rtol=1e-13)
        assert_allclose(state.grad, target(state.q)[1], rtol=1e-13)
        assert_array_equal(state.q[~stats.moved], old.q[~stats.moved])
        assert np.all(state.q[stats.moved] != old.q[stats.moved])
        assert_array_equal(stats.log_density, state.value)
        assert 0 < stats.moved.mean() < 1


def test_divergences_are_reported_and_rejected():
    steep = gaussian(np.zeros(1), 1e-4 * np.eye(1))
    out = hmc(steep, np.full((5, 1), 0.01), 10, 1.0, 20, rng=0)
    assert out.stats.divergent.all() and not out.stats.moved.any() and np.all(out.draws == 0.01)
    assert not hmc(steep, np.full((5, 1), 0.01), 10, 0.005, 20, rng=0).stats.divergent.any()


def test_a_target_that_is_not_a_number_is_rejected():
    def half_line(q):
        with np.errstate(invalid="ignore"):
            return np.where(q[..., 0] > 0, np.log(q[..., 0]) - q[..., 0], np.nan), 1 / q - 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = hmc(half_line, np.full((200, 1), 2.0), 100, 0.5, 4, rng=0, n_warmup=20)
    assert np.all(out.draws > 0) and out.stats.divergent.any()
    assert abs(out.draws.mean() - 2) < 5 * mcse_mean(out.draws)[0]           # Gamma(2, 1)


def test_same_seed_same_draws():
    start, options = np.zeros(2), dict(n_draws=20, step=0.5, n_leapfrog=3, jitter=0.2, n_warmup=3)
    target = gaussian(np.zeros(2), np.eye(2))
    a, b = (hmc(target, start, rng=7, **options) for _ in range(2))
    c, d = (hmc(target, start, rng=rng, **options) for rng in (default_rng(7), 8))
    assert_array_equal(a.draws, b.draws)
    assert_array_equal(a.draws, c.draws)
    assert np.any(a.draws != d.draws) and np.all(start == 0)
    assert a.draws.shape == (20, 2) and a.stats.energy.shape == (20,)


def test_warmup_is_dropped():
    options = dict(step=0.5, n_leapfrog=3, rng=7)
    long, short = hmc(STANDARD, [0.0], 30, **options), hmc(STANDARD, [0.0], 20, n_warmup=10, **options)
    assert_array_equal(long.draws[10:], short.draws)


def test_a_chain_goes_on_where_it_stopped():
    target, options = gaussian(np.zeros(3), np.eye(3)), dict(step=0.6, n_leapfrog=4, jitter=0.2)
    whole, rng = hmc(target, np.ones(3), 30, rng=5, **options), default_rng(5)
    first = hmc(target, np.ones(3), 12, rng=rng, **options)
    second = hmc(target, first.draws[-1], 18, rng=rng, **options)
    assert_array_equal(np.concatenate([first.draws, second.draws]), whole.draws)
    assert_array_equal(np.concatenate([first.stats.energy, second.stats.energy]), whole.stats.energy)


def test_callback_and_interrupt():
    seen = []

    def stop(done, value):
        seen.append((done, float(value)))
        if done == 5:
            raise KeyboardInterrupt
    with pytest.warns(RuntimeWarning, match="5 of 50"):
        out = hmc(STANDARD, [0.3], 50, 0.5, 3, rng=0, callback=stop)
    assert [done for done, _ in seen] == [1, 2, 3, 4, 5] and out.draws.shape == (5, 1)
    assert_array_equal(out.stats.log_density, [value for _, value in seen])
    assert_array_equal(out.draws, hmc(STANDARD, [0.3], 50, 0.5, 3, rng=0).draws[:5])

    def at_once(q):
        if np.any(q != 0.3):
            raise KeyboardInterrupt
        return STANDARD(q)
    with pytest.raises(KeyboardInterrupt):
        hmc(at_once, [0.3], 50, 0.5, 3, rng=0)


@pytest.mark.parametrize("change, words", [
    (dict(q=0.0), "^q.*P"), (dict(q=[np.inf]), "^q"), (dict(n_draws=0), "n_draws"), (dict(n_draws=2.5), "n_draws"),
    (dict(step=0), "^step"), (dict(step=np.nan), "^step"), (dict(n_leapfrog=0), "n_leapfrog"), (dict(inv_mass=-1), "^inv_mass.*positive"),
    (dict(step="a"), "^step"), (dict(step=None), "^step"), (dict(jitter="a"), "^jitter"), (dict(rng="a"), "^rng"), (dict(rng=True), "^rng"),
    (dict(rng=np.random.RandomState(0)), "^rng"), (dict(inv_mass=[1, 2]), r"^inv_mass.*\(1,\)"), (dict(jitter=1.0), "^jitter"), (dict(n_warmup=-1), "n_warmup"),
    (dict(value_and_grad=lambda q: (-np.inf, -q)), "^q: no finite"), (dict(value_and_grad=lambda q: (0.0, 0.0)), "^value_and_grad"),
    (dict(q="abc"), "^q: expected"), (dict(q=[[1.0, 2.0], [3.0]]), "^q: expected"), (dict(q=[1j]), "^q: expected"), (dict(q=None), "^q: expected real"),
    (dict(inv_mass="a"), "^inv_mass: expected"), (dict(inv_mass=[[1.0], []]), "^inv_mass: expected"),
])
def test_bad_input(change, words):
    good = dict(value_and_grad=STANDARD, q=[0.0], n_draws=5, step=0.1, n_leapfrog=2, rng=0)
    with pytest.raises(ValueError, match=words):
        hmc(**{**good, **change})


def test_start_is_a_copy():
    q = np.zeros(1)

    def moves_its_argument(place):
        value, grad = STANDARD(place)
        q[0] = 5
        return value, grad

    draws = hmc(moves_its_argument, q, 1, 0.1, 1, rng=0).draws
    assert q[0] == 5 and abs(draws[0, 0]) < 1 and np.array_equal(draws, hmc(STANDARD, np.zeros(1), 1, 0.1, 1, rng=0).draws)
