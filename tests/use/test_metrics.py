"""Metrics: values known by hand, scikit-learn as an oracle, promises under random input, and every kind of bad input."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from cmn_literate.use.datasets import make_waveform, waveform_proba
from cmn_literate.use.metrics import (
    accuracy,
    brier,
    check_proba,
    decay_steps,
    ece_if_calibrated,
    expected_calibration_error,
    log_predictive_density,
    log_scores,
    plot_reliability,
    psis_loo,
    reliability,
    smooth_tail,
    steps_within,
    waic,
)

METRICS = [accuracy, log_scores, log_predictive_density, brier, reliability, expected_calibration_error]


def forecasts(seed, n=300, L=4):
    rng = default_rng(seed)
    return rng.integers(L, size=n), rng.dirichlet(np.ones(L), size=n)


# ---- values known beforehand

@pytest.mark.parametrize("p, y, options, right", [
    ([0.95, 1.0], [1, 0], dict(n_bins=10), 0.475),
    ([1, 1, 1, 1, 0], [0, 0, 1, 1, 1], dict(n_bins=2), 0.6),
    ([0.01, 0.001, 0.005], [1, 1, 1], {}, 0.9946666666666667),
    ([0.01, 0.001, 0.005], [1, 1, 1], dict(n_bins=10), 0.9946666666666667),
    ([0.7] * 4, [0, 1, 0, 1], dict(bins="mass"), 0.2),
    ([0.7] * 4, [0, 1, 0, 1], dict(bins="mass", n_bins=2), 0.2),
    ([[0.3, 0.7]] * 4, [0, 1, 0, 1], {}, 0.2),
    ([[0.3, 0.7]] * 4, [0, 1, 0, 1], dict(kind="class-wise"), 0.2),
    ([[0.3, 0.7], [0.3, 0.7], [0.4, 0.6], [0.4, 0.6]], [0, 1, 0, 1], dict(kind="class-wise", bins="mass", n_bins=2), 0.15),
    ([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]], [1, 2], dict(n_bins=1), 0.05),
    ([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]], [1, 2], dict(n_bins=1, kind="class-wise"), (0.4 + 0.2 + 0.2) / 3)])
def test_ece_by_hand(p, y, options, right):
    assert_allclose(expected_calibration_error(y, p, **options), right, rtol=1e-13)


@pytest.mark.parametrize("bins", ["width", "mass"])
@pytest.mark.parametrize("p", [0.0, 0.05, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("y", [0, 1])
def test_ece_of_one_row_is_its_absolute_error(p, y, bins):
    assert_allclose(expected_calibration_error([y], [p], bins=bins), abs(y - p), atol=1e-15)


def test_bins_are_closed_below_and_the_last_one_above():
    edges = np.arange(21) / 20
    r = reliability(np.zeros(21, int), edges)                       # every value on an edge belongs to the bin above
    assert r.count.tolist() == [1] * 19 + [2]
    assert_array_equal(r.edges, edges)
    for k, B in ((3, 20), (7, 10), (29, 100), (1, 3)):
        assert np.flatnonzero(reliability([0], [k / B], n_bins=B).count).tolist() == [k]


def test_empty_bins_are_nan_and_do_not_count():
    r = reliability([0, 1], [0.1, 0.9], n_bins=5)
    assert r.count.tolist() == [1, 0, 0, 0, 1] and np.isnan(r.confidence[1:4]).all() and np.isnan(r.accuracy[1:4]).all()
    assert_allclose(expected_calibration_error([0, 1], [0.1, 0.9], n_bins=5), 0.1)


def test_equal_mass_bins():
    c = default_rng(1).permutation(np.arange(1, 101) / 100)
    r = reliability(np.zeros(100, int), c, n_bins=8, bins="mass")
    assert set(r.count) <= {12, 13} and r.count.sum() == 100 and r.edges[0] == 0.01 and r.edges[-1] == 1.0
    assert reliability([0, 1], [0.2, 0.4], n_bins=20, bins="mass").count.tolist() == [1, 1]          # more bins than rows
    assert reliability([0, 1, 1], [0.7, 1.0, 1.0], n_bins=2, bins="mass").count.tolist() == [1, 2]   # ties at the top


def test_log_density_by_hand():
    assert_allclose(log_predictive_density([0, 1], [[0.5, 0.5], [0.75, 0.25]]), (np.log(0.5) + np.log(0.25)) / 2, rtol=1e-15)
    assert_allclose(log_predictive_density([1, 0], [0.5, 0.75]), (np.log(0.5) + np.log(0.25)) / 2, rtol=1e-15)
    assert log_predictive_density([2], [[0.0, 0.0, 1.0]]) == 0.0


def test_brier_by_hand():
    assert_allclose(brier([0, 2], [[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]), (0.25 + 0.09 + 0.04 + 0.01 + 0.01 + 0.04) / 2, rtol=1e-14)
    assert brier([1], [1.0]) == 0 and brier([0], [1.0]) == 2


# ---- probability zero

def test_impossible_events_are_named():
    p = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    with pytest.warns(RuntimeWarning, match=r"exactly 0 in 2 row\(s\): 0, 2;"):
        assert log_predictive_density([1, 1, 0], p) == -np.inf
    assert_array_equal(log_scores([1, 1, 0], p), [-np.inf, np.log(0.5), -np.inf])
    with pytest.warns(RuntimeWarning, match=r"7 row\(s\): 0, 1, 2, 3, 4, \.\.\.;"):
        log_predictive_density([1] * 7, [0.0] * 7)
    with pytest.warns(RuntimeWarning, match="log=True"):
        assert log_predictive_density([0], [[-np.inf, 0.0]], log=True) == -np.inf


def test_no_warning_without_cause():
    y, p = forecasts(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for metric in METRICS:
            metric(y, p)
        log_predictive_density([0, 1], [[1.0, 0.0], [0.0, 1.0]])
        log_predictive_density([0], [[0.0, -np.inf]], log=True)


def test_logarithms_do_not_underflow():
    assert log_predictive_density([0], [[-800.0, 0.0]], log=True) == -800.0


# ---- scikit-learn

def test_against_scikit_learn():
    oracle = pytest.importorskip("sklearn.metrics")
    for L in (2, 3, 5):
        y, p = forecasts(3, L=L)
        assert_allclose(accuracy(y, p), oracle.accuracy_score(y, p.argmax(1)), rtol=1e-14)
        assert_allclose(log_predictive_density(y, p), -oracle.log_loss(y, p, labels=range(L)), rtol=1e-12)
    assert_allclose(brier(*forecasts(4, L=2)), 2 * oracle.brier_score_loss(forecasts(4, L=2)[0], forecasts(4, L=2)[1][:, 1]), rtol=1e-12)


@pytest.mark.parametrize("bins, strategy, n_bins", [("width", "uniform", 10), ("width", "uniform", 7), ("mass", "quantile", 10)])
def test_reliability_against_scikit_learn(bins, strategy, n_bins):
    curve = pytest.importorskip("sklearn.calibration").calibration_curve
    rng = default_rng(5)
    p = rng.beta(2, 3, size=1001)
    y = (rng.uniform(size=1001) < p**1.3).astype(int)
    share, mean = curve(y, p, n_bins=n_bins, strategy=strategy)
    r = reliability(y, p, n_bins=n_bins, bins=bins)
    assert_allclose(r.accuracy, share, rtol=1e-12 if bins == "width" else 0.1)       # quantiles are interpolated there
    assert_allclose(r.confidence, mean, rtol=1e-12 if bins == "width" else 0.02)


# ---- promises

@settings(max_examples=80)
@given(st.integers(1, 60), st.integers(2, 5), st.integers(1, 30), st.sampled_from(["width", "mass"]), st.integers(0, 2**32 - 1))
def test_promises_under_random_input(n, L, n_bins, bins, seed):
    y, p = forecasts(seed, n, L)
    if seed % 2:
        p = np.round(10 * p) / 10                                                    # ties and edges
        p[:, -1] = 1 - p[:, :-1].sum(1)
        p = np.abs(p) / np.abs(p).sum(1, keepdims=True)
    r = reliability(y, p, n_bins, bins)
    used = r.count > 0
    assert r.count.sum() == n and len(r.edges) == len(r.count) + 1 and (np.diff(r.edges) >= 0).all()
    assert_allclose(r.confidence[used] @ r.count[used], p.max(1).sum(), rtol=1e-12)
    assert_allclose(r.accuracy[used] @ r.count[used], n * accuracy(y, p), rtol=1e-12, atol=1e-12)
    assert (r.confidence[used] >= r.edges[:-1][used] - 1e-12).all() and (r.confidence[used] <= r.edges[1:][used] + 1e-12).all()
    by_class = [expected_calibration_error(y == c, p[:, c], n_bins, bins=bins) for c in range(L)]
    assert_allclose(expected_calibration_error(y, p, n_bins, "class-wise", bins), np.mean(by_class), rtol=1e-12, atol=1e-15)
    for kind in ("top-label", "class-wise"):
        value = expected_calibration_error(y, p, n_bins, kind, bins)
        assert 0 <= value <= 1
        order = default_rng(seed).permutation(n)
        assert_allclose(expected_calibration_error(y[order], p[order], n_bins, kind, bins), value, rtol=1e-10, atol=1e-12)
    assert expected_calibration_error(y, p, n_bins, "top-label", bins) >= abs(accuracy(y, p) - p.max(1).mean()) - 1e-12
    relabel = default_rng(seed).permutation(L)
    assert_allclose(brier(relabel[y], p[:, np.argsort(relabel)]), brier(y, p), rtol=1e-12)
    assert_array_equal(log_scores(relabel[y], p[:, np.argsort(relabel)]), log_scores(y, p))
    assert 0 <= brier(y, p) <= 2 and (log_scores(y, p) <= 0).all()


def test_one_number_is_the_second_of_two_columns():
    y, p = forecasts(6, L=2)
    for metric in (accuracy, log_predictive_density, brier):
        assert_allclose(metric(y, p[:, 1]), metric(y, p), rtol=1e-12)
    assert_allclose(expected_calibration_error(y, p[:, 1], kind="class-wise"), expected_calibration_error(y, p[:, 1]), rtol=1e-15)


def test_input_types():
    y, p = forecasts(7, L=3)
    pandas = pytest.importorskip("pandas")
    for given_y, given_p in ((y.tolist(), p.tolist()), (y.astype(float), p), (y.astype(np.int8), p),
                             (pandas.Series(y), pandas.DataFrame(p, columns=list("abc")))):
        assert log_predictive_density(given_y, given_p) == log_predictive_density(y, p)
    assert_allclose(log_predictive_density(y, p.astype(np.float32)), log_predictive_density(y, p), rtol=1e-5)
    before = p.copy()
    for metric in METRICS:
        metric(y, p)
    assert_array_equal(p, before)


def test_rounding_errors_are_forgiven_and_faults_are_not():
    assert check_proba([0], [[1 + 1e-9, -1e-9]])[1].tolist() == [[1.0, 0.0]]
    with pytest.raises(ValueError, match="^proba:"):
        check_proba([0], [[1 + 1e-5, -1e-5]])
    with pytest.raises(ValueError, match="^proba:"):
        check_proba([0], [[0.5, 0.5 + 1e-5]])


# ---- what chance gives

def test_the_exact_law_has_an_ece_that_chance_explains():
    X, y = make_waveform(800, default_rng(8))
    p = waveform_proba(X)
    for options in ({}, dict(kind="class-wise"), dict(bins="mass"), dict(n_bins=5)):
        draws = ece_if_calibrated(p, default_rng(9), n_draws=200, **options)
        assert draws.shape == (200,) and (draws > 0).all()
        assert draws.min() * 0.9 < expected_calibration_error(y, p, **options) < draws.max() * 1.1
        boast = p**4 / (p**4).sum(1, keepdims=True)
        assert expected_calibration_error(y, boast, **options) > ece_if_calibrated(boast, default_rng(9), **options).max()
    assert_array_equal(ece_if_calibrated(p, default_rng(9), 3), ece_if_calibrated(p, default_rng(9), 3))


def test_chance_of_a_certain_forecast_is_zero():
    assert (ece_if_calibrated(np.eye(3), default_rng(10), n_draws=20) == 0).all()
    assert (ece_if_calibrated([0.0, 1.0], default_rng(10), n_draws=20) == 0).all()


# ---- drawing

def test_plot_reliability():
    pytest.importorskip("matplotlib").use("Agg")
    import matplotlib.pyplot as plt

    r = reliability(*forecasts(11))
    fig, ax = plt.subplots()
    before = len(plt.get_fignums())
    assert plot_reliability(r, ax=ax, label="a", color="C3", marker="s") is ax and len(plt.get_fignums()) == before
    assert len(ax.collections[-1].get_offsets()) == (r.count > 0).sum() and ax.collections[-1].get_label() == "a"
    plot_reliability(r, ax=ax, edgecolors="k", linewidths=2.0, zorder=5)
    assert ax.collections[-1].get_zorder() == 5 and ax.collections[-1].get_linewidths().tolist() == [2.0]
    new = plot_reliability(r)
    assert new is not ax and new.get_xlabel() == "confidence"
    plt.close("all")


# ---- bad input

BAD = {"a row that sums to 0.9": ([0], [[0.4, 0.5]], "proba:"), "a negative number": ([0], [[1.2, -0.2]], "proba:"),
       "a NaN": ([0], [[np.nan, 1.0]], "proba:"), "an infinity": ([0], [[np.inf, 0.0]], "proba:"), "words": ([0], [["a", "b"]], "proba:"),
       "nothing": ([0], None, "proba:"), "one column": ([0], [[1.0]], "proba:"), "no rows": ([], np.empty((0, 2)), "proba:"),
       "three dimensions": ([0], [[[0.5, 0.5]]], "proba:"), "a single number": (0, 0.5, "proba:"), "P(y=1) = 1.1": ([1], [1.1], "proba:"),
       "P(y=1) NaN": ([1], [np.nan], "proba:"), "logits": ([0], [[2.0, -1.0]], "proba:"),
       "a label without a column": ([2], [[0.5, 0.5]], "y:"), "a label below 0": ([-1], [[0.5, 0.5]], "y:"), "a label 0.5": ([0.5], [[0.5, 0.5]], "y:"),
       "a NaN label": ([np.nan], [[0.5, 0.5]], "y:"), "a word as label": (["a"], [[0.5, 0.5]], "y:"), "labels missing": ([0], [[0.5, 0.5]] * 2, "y:"),
       "labels in a column": ([[0], [1]], [[0.5, 0.5]] * 2, "y:"), "one-hot labels": ([[1, 0]], [[0.5, 0.5]], "y:"),
       "label 2 for P(y=1)": ([2], [0.5], "y:"), "a masked row": ([0, 1], np.ma.array([[0.5, 0.5]] * 2, mask=[[0, 0], [1, 1]]), "proba:"),
       "a masked P(y=1)": ([0, 1], np.ma.array([0.5, 0.5], mask=[0, 1]), "proba:"), "a number as text": ([0], [["0.5", "0.5"]], "proba:"),
       "ragged rows": ([0, 1], [[0.5, 0.5], [1.0]], "proba: expected rows"), "a number too large": ([0], [[10**400, 0]], "proba:"),
       "complex numbers": ([0], np.array([[0.5 + 0.1j, 0.5]]), "proba:"), "a set": ([0], {0.5}, "proba:"),
       "a masked label": (np.ma.array([0, 1], mask=[0, 1]), [[0.5, 0.5]] * 2, "y:")}


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(metric, case):
    y, p, named = BAD[case]
    with pytest.raises(ValueError, match=f"^{named}"):
        metric(y, p)


def test_the_first_bad_row_is_shown():
    with pytest.raises(ValueError, match=r"\[0\.5, 0\.6\] in row 1"):
        accuracy([0, 0, 0], [[0.5, 0.5], [0.5, 0.6], [0.1, 0.1]])


@pytest.mark.parametrize("p", [[[0.5, 0.5]], [[0.0, 0.0]], [[np.nan, 0.0]], [[0.1, -np.inf]], [-0.5], [[-np.inf, -np.inf]], [[np.inf, 0.0]]])
def test_bad_log_probabilities(p):
    with pytest.raises(ValueError, match="^proba:"):
        log_predictive_density([0], p, log=True)


@pytest.mark.parametrize("options, named", [
    (dict(n_bins=0), "n_bins:"), (dict(n_bins=2.5), "n_bins:"), (dict(n_bins="ten"), "n_bins:"), (dict(bins="quantile"), "bins:"), (dict(kind="top"), "kind:")])
def test_bad_options(options, named):
    with pytest.raises(ValueError, match=f"^{named}"):
        expected_calibration_error([0, 1], [0.2, 0.7], **options)


def test_bad_number_of_draws():
    with pytest.raises(ValueError, match="^n_draws:"):
        ece_if_calibrated([0.5], default_rng(0), n_draws=0)
    with pytest.raises(ValueError, match="^proba:"):
        ece_if_calibrated([[0.5, 0.6]], default_rng(0))


# ---- WAIC and PSIS-LOO

def log_lik_draws(seed=0, S=400, N=30, spread=1.0):
    rng = np.random.default_rng(seed)
    return spread * rng.gumbel(size=(4, S // 4, N)) * rng.uniform(0.1, 1, N) - 1.5


@pytest.mark.parametrize("spread", [0.2, 1.0, 3.0])
def test_waic_and_loo_agree_with_arviz(spread):
    az = pytest.importorskip("arviz", minversion="0.17", reason="arviz is not installed: no oracle for WAIC and LOO")
    if not hasattr(az, "from_dict"):
        pytest.skip("this arviz has no from_dict: no oracle for WAIC and LOO")
    log_lik = log_lik_draws(spread=spread)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, loo = waic(log_lik), psis_loo(log_lik)
        weights, k = az.psislw(-log_lik.reshape(-1, log_lik.shape[-1]).T, reff=1.0)
        theirs = az.loo(az.from_dict(posterior={"x": log_lik[:, :, 0]}, log_likelihood={"y": log_lik}), pointwise=True, reff=1.0)
    assert_allclose(loo.rows, theirs.loo_i, rtol=1e-10)
    assert_allclose(loo.k, theirs.pareto_k, rtol=1e-8)
    assert_allclose([loo.elpd, loo.se], [theirs.elpd_loo, theirs.se], rtol=1e-10)
    for n in range(log_lik.shape[-1]):
        mine, index = smooth_tail(-log_lik.reshape(-1, log_lik.shape[-1])[:, n])
        assert_allclose(mine - logsumexp(mine), weights[n], atol=1e-10)
        assert_allclose(index, k[n], rtol=1e-8)
    flat = log_lik.reshape(-1, log_lik.shape[-1])
    by_hand = [np.log(np.mean(np.exp(column))) - np.var(column, ddof=1) for column in flat.T]
    assert_allclose(ours.rows, by_hand, rtol=1e-10)


def test_waic_names_the_wild_rows_and_the_impossible_ones():
    log_lik = log_lik_draws(spread=0.1)
    log_lik[:, :, 7] *= 10
    with pytest.warns(RuntimeWarning, match=r"over 0.4 in 1 of 30 rows \(7\)"):
        waic(log_lik)
    log_lik[0, 0, 3] = -np.inf
    for rule in (waic, psis_loo):
        with pytest.warns(RuntimeWarning, match=r"probability 0 to row\(s\) 3"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "the (variance|tail)")
            result = rule(log_lik)
        assert result.elpd == -np.inf and result.rows[3] == -np.inf and np.isfinite(np.delete(result.rows, 3)).all()


@pytest.mark.parametrize("rule", [waic, psis_loo])
@pytest.mark.parametrize("bad, message", [(np.zeros(5), "shape"), (np.zeros((0, 3)), "shape"), (np.zeros((1, 5)), "at least 2 draws"),
                                          (np.array([[0.0, np.nan], [0, 0]]), r"row\(s\) 1"),
                                          (np.array([[np.inf, 0.0], [0, 0]]), r"row\(s\) 0"),
                                          ([["-1", "-2"]] * 2, "numbers"), ("words", "numbers"), (np.full((2, 2), 1j), "numbers"), ({-1.0}, "numbers"),
                                          (np.ma.array(np.zeros((2, 2)), mask=np.eye(2)), "masked"), ([[0.0, 0.0], [0.0]], "one length")])
def test_log_likelihoods_are_checked(rule, bad, message):
    with pytest.raises(ValueError, match=f"log_lik: expected .*{message}"):
        rule(bad)


def test_draws_that_do_not_vary_leave_the_training_score():
    log_lik = np.tile([-0.5, -1.0, -2.0], (50, 1))
    w = waic(log_lik)
    assert_allclose(w.rows, [-0.5, -1.0, -2.0], rtol=1e-14)
    with pytest.warns(RuntimeWarning, match=r"tail index is unknown in 3 of 3 rows \(0, 1, 2\): too few weights differ") as said:
        loo = psis_loo(log_lik)
    assert_allclose(loo.rows, w.rows, rtol=1e-14)
    assert np.isnan(loo.k).all() and len(said) == 1             # and nobody is told to leave rows out


@pytest.mark.parametrize("column", [
    np.linspace(-3, -1, 20), np.where(np.arange(200) < 10, -4.0, -1.0), np.where(np.arange(200) < 3, -4.0, -1.0),
    np.where(np.arange(4000) < 100, -2.0, -1.0), np.where(np.arange(200) < 10, -1.1e-16, 0.0)],
    ids=["20 draws", "a tail of equals", "a tail of three", "a long tail of equals", "equals at the last bit"])
def test_a_tail_that_cannot_be_fitted_is_unknown_and_leaves_the_weights(column):
    """The estimate is the harmonic mean of the draws; k is unknown, neither infinite nor the fit of a single point."""
    with pytest.warns(RuntimeWarning, match="tail index is unknown in 1 of 1 rows") as said:
        loo = psis_loo(column[:, None])
    assert_allclose(loo.rows[0], -np.log(np.mean(np.exp(-column))), rtol=1e-13, atol=1e-14)
    assert np.isnan(loo.k[0]) and len(said) == 1


def test_a_tail_that_varies_is_fitted_beside_one_that_does_not():
    log_lik = np.random.default_rng(0).normal(-1, 0.1, (400, 3))
    log_lik[:, 1] = -0.7
    with pytest.warns(RuntimeWarning, match=r"unknown in 1 of 3 rows \(1\)"):
        k = psis_loo(log_lik).k
    assert np.isnan(k).tolist() == [False, True, False] and np.nanmax(k) < 0.7


def test_convergence_rules_on_short_and_noisy_traces():
    assert steps_within([3.0]) == 1 and steps_within([0.0, 5.0, 9.5, 10.0]) == 3
    assert np.isnan(decay_steps([1.0, 2.0, 3.0])) and np.isnan(decay_steps(np.zeros(10)))
    t = np.arange(20_000)
    assert_allclose(decay_steps(-np.exp(-t / 900.0)), 900 * np.log(20), rtol=1e-4)
    assert decay_steps(np.arange(100.0)) <= 20 * 100 + 1e-6    # a straight line: never done, cut at 20 times the run
    for bad in ([], [[1.0, 2.0]], 3.0, None, ["1", "2"], [1j, 2j], np.ma.array([1.0, 2.0], mask=[0, 1]), {1.0}):
        for rule in (steps_within, decay_steps):
            with pytest.raises(ValueError, match="^trace:"):
                rule(bad)
    for bad in ([1.0, np.nan], [np.nan, 1.0], [0.0, np.inf]):
        with pytest.raises(ValueError, match="^trace:"):
            steps_within(bad)
        assert np.isnan(decay_steps(bad * 3))
    assert steps_within([-np.inf, 1.0, 1.2]) == 2
    for bad in (-1.0, np.nan, "1", None, True, [1.0]):
        with pytest.raises(ValueError, match="^gap:"):
            steps_within([0.0, 1.0], bad)
