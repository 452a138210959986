"""Diagnostics: arviz as an oracle, closed forms, promises under transformation, and every kind of bad input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

from cmn_literate.roads.diagnostics import (
    PosteriorDraws, autocovariance, bfmi, convergence, draw_log_probs, effective_size, ess_bulk, ess_mean, ess_tail,
    mcse_mean, normal_scores, pointwise_log_likelihood, predict_from_draws, rhat, split_chains, split_rhat, worst)
from cmn_literate.road_checks import check_draws
from cmn_literate.engineering.gradients import class_log_probs
from cmn_literate.engineering.nodes import latent_nodes
from cmn_literate.engineering.coordinates import unpack
from cmn_literate.network.simulate import Priors, Theta, sample_data, sample_theta

FUNCTIONS = [split_rhat, lambda x: split_rhat(x, "plain"), ess_bulk, ess_tail, ess_mean, mcse_mean]


def ar1(rho, chains, draws, seed):
    noise = default_rng(seed).normal(size=(draws, chains))
    x = np.empty((draws, chains))
    x[0] = noise[0]
    for i in range(1, draws):
        x[i] = rho * x[i - 1] + np.sqrt(1 - rho**2) * noise[i]
    return x.T


def some_chains(seed):
    """Chains of all kinds: correlated, heavy-tailed, rounded (ties), apart, drifting."""
    rng = default_rng(seed)
    x = ar1(rng.uniform(-0.9, 0.99), int(rng.integers(1, 6)), int(rng.integers(6, 250)), seed)
    if x.size % 20 == 1:                               # there the 5 percent quantile is a draw: arviz depends on rounding
        x = x[:, :-1]
    kind = seed % 5
    return [x, np.exp(3 * x), np.round(x), x + 2 * rng.normal(size=(len(x), 1)), x + np.linspace(0, 3, x.shape[1])][kind]


# ---- arviz

@pytest.fixture(scope="module")
def az():
    return pytest.importorskip("arviz", reason="arviz (0.23), the oracle of the diagnostics, is not installed")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("start", range(0, 200, 40))
def test_agrees_with_arviz(az, start):
    if not hasattr(az, "ess"):
        pytest.skip("this arviz has no arviz.ess")
    for seed in range(start, start + 40):
        x = some_chains(seed)
        for ours, method in ((ess_bulk, "bulk"), (ess_tail, "tail"), (ess_mean, "mean")):
            assert_allclose(ours(x), az.ess(x, method=method), rtol=1e-10, err_msg=f"seed {seed}, {method}")
        assert_allclose(mcse_mean(x), az.mcse(x, method="mean"), rtol=1e-10)
        if len(x) > 1:
            for ours, method in (("rank", "rank"), ("plain", "split")):
                assert_allclose(split_rhat(x, ours), az.rhat(x, method=method), rtol=1e-10)
            assert_allclose(rhat(x), az.rhat(x, method="identity"), rtol=1e-10)
        if np.all(np.ptp(x, axis=1) > 0):
            assert_allclose(bfmi(x), az.bfmi(x), rtol=1e-10)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("places", [[0, 1], [0.1, 0.2], [0, 1, 2], [0, 0, 1], [0, 0, 1, 1], [0.1, 0.3, 0.3, 0.1], [5, 5, 5, 7]])
@pytest.mark.parametrize("n", [20, 21])
def test_chains_that_stand_still(az, places, n):
    """At different values nothing is more wrong; the folds, which may be constant, must not hide it."""
    x = np.repeat(np.array(places, float)[:, None], n, axis=1)
    assert split_rhat(x) == split_rhat(x, "plain") == rhat(x) == np.inf
    assert not az.rhat(x, method="rank") < 1e6             # rounding within the chains, or nan where its loops are compiled
    assert_allclose(ess_bulk(x), az.ess(x, method="bulk"), rtol=1e-10)
    noise = default_rng(0).normal(size=(*x.shape, 2))
    assert worst(np.concatenate([noise, x[..., None]], axis=2)).rhat == np.inf
    lame = x + 1e-3 * noise[..., 0] * (np.arange(n) == 4)         # one move is no cure
    assert split_rhat(lame) > 2
    assert_allclose(split_rhat(lame), az.rhat(lame, method="rank"), rtol=1e-10)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("chains", [2, 3, 4])
def test_two_values(az, chains):
    """0, 1, 0, 1: all draws are equally far from the median. And fair coins, whose median may be 0, 1/2 or 1."""
    x = np.resize([0.0, 1.0], (chains, 40))
    assert_allclose(split_rhat(x), np.sqrt(0.95), rtol=1e-12)
    coins = default_rng(chains).integers(0, 2, (chains, 40, 30)).astype(float)
    for column in (x, *np.moveaxis(coins, 2, 0)):
        assert_allclose(split_rhat(column), az.rhat(column, method="rank"), rtol=1e-10)
    assert np.isfinite(worst(np.dstack([coins, x])).rhat)


def test_to_arviz(az):
    draws = random_draws(0, 2, 8, 2, 1, 2, 2)
    data = draws.to_arviz()
    assert_array_equal(data.posterior["A"].values, draws.theta.A)
    assert_array_equal(data.sample_stats["lp"].values, draws.log_joint)
    assert_array_equal(data.sample_stats["energy"].values, draws.stats["energy"])
    assert data.posterior.sizes["chain"] == 2 and data.posterior.sizes["draw"] == 8


# ---- what is known beforehand

@pytest.mark.parametrize("rho", [-0.5, 0.0, 0.6, 0.95])
def test_ess_of_an_autoregression(rho):
    x = np.moveaxis(ar1(rho, 200, 2000, 3).reshape(50, 4, 2000), 0, 2)
    truth = 8000 * (1 - rho) / (1 + rho)
    for ess in (ess_mean, ess_bulk):
        got = ess(x)
        assert abs(np.log(got / truth).mean()) < 5 * np.log(got).std() / 50**0.5 + 0.05


def test_standard_error_covers():
    x = np.moveaxis(ar1(0.7, 800, 500, 5).reshape(200, 4, 500), 0, 2)
    score = x.mean((0, 1)) / mcse_mean(x)
    assert abs((score**2).mean() - 1) < 5 * (2 / 200) ** 0.5


def test_tail_of_a_chain_whose_tails_are_sticky():
    """Independent but for the upper tail, which comes in runs of ten: only the tail ESS sees it."""
    rng = default_rng(0)
    x = np.where(np.repeat(rng.random((4, 200)) < 0.06, 10, axis=1), 3.0, 0.0) + rng.uniform(-0.5, 0.5, (4, 2000))
    assert ess_tail(x) < 1500 and ess_tail(-x) < 1500      # 8000 draws, runs of ten
    assert abs(ess_tail(x) / ess_tail(-x) - 1) < 0.1


def test_bimodal_target_is_reported():
    """Metropolis with small steps, two chains in each of two far modes."""
    rng = default_rng(0)
    log_p = lambda x: np.logaddexp(-0.5 * (x - 5) ** 2, -0.5 * (x + 5) ** 2)
    x, out = np.array([-5.0, -5.0, 5.0, 5.0]), []
    for _ in range(1000):
        new = x + rng.normal(size=4)
        x = np.where(np.log(rng.random(4)) < log_p(new) - log_p(x), new, x)
        out.append(x)
    draws = np.stack(out, 1)
    assert split_rhat(draws) > 1.1 and split_rhat(draws, "plain") > 1.1 and ess_bulk(draws) < 20
    assert split_rhat(draws[:2]) < 1.05                 # chains in one mode cannot know


def test_rhat_of_known_chains():
    base = np.resize([-1.0, 1.0], 100)
    x = np.stack([base, base + 2])
    assert_allclose(rhat(x), np.sqrt(0.99 + 2 / (100 / 99)), rtol=1e-13)
    assert_allclose(rhat(x[:1]), np.sqrt(0.99), rtol=1e-13)      # one chain has nobody to disagree with
    drift = np.arange(100.0)[None]
    assert rhat(drift) < 1 and split_rhat(drift) > 1.5


def test_bfmi_by_hand():
    assert_allclose(bfmi([[1.0, 2.0, 4.0, 1.0], [0.0, 1.0, 0.0, 1.0]]), [(1 + 4 + 9) / 3 / 2, 3.0], rtol=1e-14)


# ---- promises

@settings(max_examples=25, derandomize=True)
@given(seed=st.integers(0, 10_000), scale=st.floats(0.01, 100), shift=st.floats(-100, 100))
def test_invariances(seed, scale, shift):
    x = some_chains(5 * seed)
    for f in FUNCTIONS[:-1]:
        if f is not split_rhat:                        # the two draws next to the median are tied, up to rounding
            assert_allclose(f(scale * x + shift), f(x), rtol=1e-6)
        assert_allclose(f(4 * x), f(x), rtol=1e-8)
        assert_allclose(f(x[::-1]), f(x), rtol=1e-8)
    assert_allclose(mcse_mean(scale * x), scale * mcse_mean(x), rtol=1e-8)
    assert_allclose(ess_bulk(np.exp(x)), ess_bulk(x), rtol=1e-8)       # ranks do not notice
    assert_allclose(ess_tail(np.exp(x)), ess_tail(x), rtol=1e-8)
    assert_allclose(split_rhat(-x), split_rhat(x), rtol=1e-8)


def test_trailing_axes_are_elementwise():
    x = np.moveaxis(default_rng(0).normal(size=(2, 3, 4, 50)), (2, 3), (0, 1))
    for f in FUNCTIONS:
        got = f(x)
        assert got.shape == (2, 3)
        for i in range(2):
            for j in range(3):
                assert_allclose(got[i, j], f(x[:, :, i, j]), rtol=1e-10)
    assert autocovariance(x).shape == x.shape and normal_scores(x).shape == x.shape


def test_scores_are_nearly_normal_and_share_ties():
    z = normal_scores(default_rng(1).standard_cauchy((4, 500)))
    assert abs(z.mean()) < 1e-12 and abs(z.std() - 1) < 0.01
    z = normal_scores(np.array([[3.0, 1.0, 1.0, 1.0, 7.0]]))
    assert z[0, 1] == z[0, 2] == z[0, 3] < z[0, 0] < z[0, 4]


def test_halves():
    assert_array_equal(split_chains(np.arange(7.0)[None]), [[0, 1, 2], [4, 5, 6]])
    assert split_chains(np.ones((3, 8, 2))).shape == (6, 4, 2)


def test_constants_and_holes():
    same = np.ones((4, 20))
    assert ess_bulk(same) == ess_tail(same) == ess_mean(same) == 80 and mcse_mean(same) == 0
    for level in (1.0, 3.7, 0.1, -1e9 / 3):             # whose means and deviations are rounded
        for x in (level * same, level * same[:3, :7], level * same[:1]):
            assert np.isnan([split_rhat(x), split_rhat(x, "plain"), rhat(x)]).all()
    assert rhat(np.stack([same[0], 2 * same[0]])) == np.inf
    hole = default_rng(0).normal(size=(4, 20, 2))
    hole[1, 3, 0] = np.nan
    for f in FUNCTIONS:
        assert np.isnan(f(hole)[0]) and np.isfinite(f(hole)[1])
    middle = default_rng(0).normal(size=(4, 21))
    middle[1, 10] = np.nan                              # the draw that the halves drop
    assert all(np.isnan(f(middle)) for f in FUNCTIONS)
    assert all(np.isnan(worst(hole))) and np.isfinite(worst(hole[..., 1]).rhat)
    assert all(np.isnan(worst(same)))
    blink = np.zeros((4, 21, 1))
    blink[0, 10] = 1.0                                  # only the draw in the middle, which the halves drop
    assert worst(np.dstack([hole[:, 3:, 1:].repeat(2, axis=1)[:, :21], blink])).rhat > 0


@pytest.mark.parametrize("x", [np.ones(8), np.ones((4, 3)), np.ones((0, 9)), 1.0, [["a", "b", "c", "d"]], [[1j] * 4], [[1, 2, 3, 4], [1, 2]],
                               [np.ma.masked_equal([1, 2, 3, 4], 3)]])
def test_bad_draws(x):
    with pytest.raises(ValueError, match="^draws: expected"):
        check_draws(x)
    if not isinstance(x, list):
        for f in (*FUNCTIONS, bfmi):
            with pytest.raises(ValueError, match="draws|energy"):
                f(x)


def test_bad_method():
    with pytest.raises(ValueError, match="method.*'folded'"):
        split_rhat(np.ones((2, 8)), method="folded")


# ---- draws of a network

def random_draws(seed, chains, draws, K, h, L, d):
    rng = default_rng(seed)
    many = [sample_theta(Priors(v0=1.0, a0=3.0, sigma0=1.0, sigma1=1.5), K, h, L, d, rng) for _ in range(chains * draws)]
    theta = Theta(*(np.stack(x).reshape((chains, draws) + x[0].shape) for x in zip(*many)))
    return PosteriorDraws(theta, rng.normal(size=(chains, draws)), {"energy": rng.normal(size=(chains, draws))})


@pytest.mark.parametrize("K, h, L, d", [(2, 1, 2, 1), (3, 2, 3, 2), (1, 3, 2, 1), (2, 3, 5, 2)])
def test_predictions_are_frequencies(K, h, L, d):
    """Labels simulated from every draw, 4000 times, are distributed as predict_from_draws says."""
    draws, n = random_draws(1, 2, 5, K, h, L, d), 4000
    X = default_rng(2).normal(size=(3, d))
    theta, rng = draws.flatten(), default_rng(3)
    counts = np.zeros((3, L))
    for s in range(10):
        y = sample_data(Theta(*(x[s] for x in theta)), np.repeat(X, n, axis=0), rng).y.reshape(3, n)
        counts += [np.bincount(row, minlength=L) for row in y]
    p = np.exp(predict_from_draws(draws, X))
    assert_allclose(p.sum(1), 1, rtol=1e-10)
    assert np.all(np.abs(counts / (10 * n) - p) < 5 * np.sqrt(p * (1 - p) / (10 * n)) + (0.003 if min(h, L - 1) > 2 else 1e-5))


def test_pointwise_is_the_label_of_every_draw():
    draws, X, y = random_draws(4, 3, 4, 3, 2, 3, 2), default_rng(5).normal(size=(6, 2)), np.array([0, 1, 2, 2, 1, 0])
    nodes, theta = latent_nodes(draws.shapes), draws.flatten()
    each = np.stack([class_log_probs(Theta(*(x[s] for x in theta)), X, nodes) for s in range(12)])
    assert_array_equal(np.stack(list(draw_log_probs(draws, X))), each)
    got = pointwise_log_likelihood(draws, X, y)
    assert got.shape == (3, 4, 6)
    assert_allclose(got[2, 1], each[9, np.arange(6), y], rtol=1e-14)
    assert_allclose(predict_from_draws(draws, X), np.log(np.exp(each).mean(0)), rtol=1e-12)


def test_views():
    draws = random_draws(6, 2, 3, 2, 1, 3, 2)
    assert draws.n_chains == 2 and draws.n_draws == 3 and draws.phi.shape == (2, 3, draws.shapes.n_params)
    for a, b in zip(unpack(draws.phi, draws.shapes), draws.theta):
        assert_allclose(a, b, rtol=1e-14)
    assert_array_equal(draws.flatten().A[4], draws.theta.A[1, 1])


def test_some_of_the_draws():
    draws, X = random_draws(7, 2, 10, 2, 1, 2, 1), np.array([[0.3], [-2.0]])
    each = np.exp(np.stack(list(draw_log_probs(draws, X))))
    assert_array_equal(np.exp(np.stack(list(draw_log_probs(draws, X, max_draws=4)))), each[[2, 7, 12, 17]])
    assert_array_equal(np.exp(np.stack(list(draw_log_probs(draws, X, max_draws=99)))), each)
    assert_allclose(np.exp(predict_from_draws(draws, X, max_draws=1)), each[10], rtol=1e-14)
    with pytest.raises(ValueError, match="max_draws"):
        predict_from_draws(draws, X, max_draws=0)


def test_probabilities_that_would_underflow():
    draws = random_draws(8, 1, 4, 1, 1, 2, 1)
    far = draws.theta._replace(beta1=np.tile([900.0, 0.0], (1, 4, 1, 1)), A=np.tile([[0.0, 1.0]], (1, 4, 1, 1, 1)),
                               tau=np.full((1, 4, 1, 1), 1e8))
    log_p = predict_from_draws(PosteriorDraws(far, draws.log_joint), np.zeros((1, 1)))
    assert_allclose(log_p[0, 1], -900, atol=0.5)


def test_report():
    draws, X = random_draws(9, 4, 50, 2, 1, 2, 1), np.linspace(-2, 2, 5)[:, None]
    report = convergence(draws, X)
    p = np.stack(list(draw_log_probs(draws, X))).reshape(4, 50, 5, 2)
    assert report["probabilities"].rhat == split_rhat(p).max() and report["probabilities"].ess_tail == ess_tail(p).min()
    assert report["parameters"].ess_bulk == ess_bulk(draws.phi).min()
    assert report["log joint"] == worst(draws.log_joint)
    last = convergence(draws, X, max_draws_each=20)
    assert last["parameters"] == worst(draws.phi[:, -20:])


@pytest.mark.parametrize("change, name", [
    (dict(tau=np.ones((2, 3, 2))), "tau"), (dict(beta0=np.ones((3, 2, 1, 2))), "beta0"), (dict(A=np.ones((2, 2, 2, 1, 2))), "A"),
])
def test_bad_theta(change, name):
    draws = random_draws(10, 2, 3, 2, 1, 2, 1)
    with pytest.raises(ValueError, match=f"^{name}"):
        PosteriorDraws(draws.theta._replace(**change), draws.log_joint)
    with pytest.raises(ValueError, match="stats"):
        PosteriorDraws(draws.theta, draws.log_joint, {"energy": np.ones(2)})


def test_bad_inputs_of_a_prediction():
    draws = random_draws(11, 2, 3, 2, 1, 2, 2)
    with pytest.raises(ValueError, match="X.*2 columns"):
        predict_from_draws(draws, np.ones((3, 1)))
    with pytest.raises(ValueError, match="y"):
        pointwise_log_likelihood(draws, np.ones((3, 2)), [0, 1, 2])


def test_effective_size_is_capped():
    x = np.resize([1.0, -1.0], (4, 100)) + 1e-3 * default_rng(0).normal(size=(4, 100))
    assert_allclose(effective_size(x), 400 * np.log10(400), rtol=1e-12)
