"""Gate: what a notebook cell cannot check about itself. Memory, extremes, number types, properties that hold for every input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from problems import peak_bytes
from scipy.special import logsumexp

from cmn_literate.network.gate import gate_logits, gate_log_bound, gate_tilt, gate_update
from cmn_literate.ideas.logistic import stick_log_bound
from cmn_literate.network.simulate import Priors
from cmn_literate.ideas.stick_breaking import stick_counts


def problem(rng, N=30, d=2, K=4, scale=1.0):
    C = rng.normal(size=(K - 1, d + 1, d + 1))
    return (rng.normal(size=(N, d)), scale * rng.normal(size=(K - 1, d + 1)), scale**2 * C @ np.swapaxes(C, -1, -2),
            rng.dirichlet(np.ones(K), size=N))


def test_bound_of_many_experts_needs_no_table_of_experts_by_sticks():
    N, d, K = 500, 2, 200
    X, mu, S, _ = problem(default_rng(0), N, d, K)
    xi0 = gate_tilt(X, mu, S)
    assert peak_bytes(lambda: gate_log_bound(X, mu, S, xi0)) < 20 * N * K * 8 < N * K * (K - 1) * 8 / 9


def test_update_works_in_blocks_of_rows():
    d, K, peaks = 20, 3, []
    for N in (4_000, 40_000):
        X, gamma = default_rng(1).normal(size=(N, d)), default_rng(2).dirichlet(np.ones(K), size=N)
        xi0 = np.ones((N, K - 1))
        peaks.append(peak_bytes(lambda: gate_update(X, gamma, xi0, Priors())))
    features = (d + 1) * (d + 2) // 2
    assert peaks[1] - peaks[0] < 36_000 * features * 8 / 4              # rows cost their inputs, not their outer products


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), K=st.integers(1, 7), d=st.integers(1, 4), scale=st.sampled_from([1e-8, 0.1, 1.0, 30.0, 1e3]),
       stretch=st.floats(0.01, 100))
def test_bound_is_below_a_distribution(seed, K, d, scale, stretch):
    """A lower bound of E ln p(z = k): never positive, and sum_k exp(bound) <= 1, whatever the tilt; the fresh tilt is the best."""
    X, mu, S, _ = problem(default_rng(seed), 8, d, K, scale)
    xi0 = gate_tilt(X, mu, S)
    fresh, other = gate_log_bound(X, mu, S, xi0), gate_log_bound(X, mu, S, stretch * xi0)
    assert fresh.shape == (8, K) and np.isfinite(fresh).all() and (fresh <= 0).all()
    assert (other <= fresh + 1e-9 * (1 + abs(fresh))).all()
    assert (logsumexp(fresh, axis=1) <= 1e-12).all() and (logsumexp(other, axis=1) <= 1e-12).all()


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), K=st.integers(1, 6))
def test_running_sum_is_the_table(seed, K):
    X, mu, S, _ = problem(default_rng(seed), 8, 2, K)
    xi0 = default_rng(seed).gamma(1.0, size=(8, K - 1))
    psi, psi2 = gate_logits(X, mu, S)
    b, kappa = stick_counts(np.eye(K))
    table = stick_log_bound(psi[:, None, :], psi2[:, None, :], xi0[:, None, :], b, kappa)
    assert_allclose(gate_log_bound(X, mu, S, xi0), table, rtol=1e-12, atol=1e-14)


def test_extreme_logits_and_hundreds_of_experts_stay_finite():
    mu = np.array([[1500.0, 0.0], [-1500.0, 0.0], [0.0, 0.0]])
    S = np.zeros((3, 2, 2))
    X = np.array([[1.0], [-1.0], [0.0]])
    bound = gate_log_bound(X, mu, S, gate_tilt(X, mu, S))
    assert_allclose(bound[0], [0.0, -3000.0, -1500.0 - np.log(2), -1500.0 - np.log(2)], atol=1e-9)
    assert_allclose(bound[2], np.log([1 / 2, 1 / 4, 1 / 8, 1 / 8]), rtol=1e-14)
    X, mu, S, gamma = problem(default_rng(3), 20, 2, 300)
    assert np.isfinite(gate_log_bound(X, mu, S, gate_tilt(X, mu, S))).all()
    mu, S = gate_update(X, gamma, gate_tilt(X, mu, S), Priors())
    assert np.isfinite(mu).all() and (np.linalg.eigvalsh(S) > 0).all()


def test_labels_that_underflow_leave_the_prior():
    X, mu, S, _ = problem(default_rng(4))
    gamma = np.tile([1.0 - 2e-300, 1e-300, 1e-300, 0.0], (30, 1))
    mu, S = gate_update(X, gamma, gate_tilt(X, mu, S), Priors(sigma0=3.0))
    assert_allclose(S[1:], np.stack([9 * np.eye(3)] * 2), rtol=1e-14, atol=1e-280)
    assert np.abs(mu[1:]).max() < 1e-290 and np.abs(mu[0]).max() > 0.1


def test_single_precision_comes_out_as_float64_and_inputs_are_left_alone():
    X, mu, S, gamma = problem(default_rng(5))
    xi0 = gate_tilt(X, mu, S)
    before = [v.copy() for v in (X, gamma, xi0)]
    wide = gate_update(X, gamma, xi0, Priors())
    for now, then in zip((X, gamma, xi0), before):
        assert_array_equal(now, then)
    narrow = gate_update(*(v.astype(np.float32) for v in (X, gamma, xi0)), Priors())
    for one, two in zip(wide, narrow):
        assert two.dtype == np.float64
        assert_allclose(two, one, rtol=1e-4, atol=1e-5)


def test_a_stick_reads_its_own_label_and_those_behind_it():
    """Moving weight between experts in front of a stick, or between experts behind it, does not move the stick."""
    X, mu, S, gamma = problem(default_rng(6), K=5)
    xi0 = gate_tilt(X, mu, S)
    shuffled = gamma.copy()
    shuffled[:, [0, 1]] = gamma[:, [1, 0]]                             # in front of stick 2
    shuffled[:, [3, 4]] = gamma[:, [4, 3]]                             # behind it
    (mu_1, S_1), (mu_2, S_2) = gate_update(X, gamma, xi0, Priors()), gate_update(X, shuffled, xi0, Priors())
    assert_allclose(mu_2[2], mu_1[2], rtol=1e-11)
    assert_allclose(S_2[2], S_1[2], rtol=1e-11)
    assert np.abs(mu_2[[0, 1, 3]] - mu_1[[0, 1, 3]]).max() > 1e-3
    assert_allclose(S_2[[0, 3]], S_1[[0, 3]], rtol=1e-11)               # the last two experts toss the same coins
    assert_allclose(mu_2[3], -mu_1[3], rtol=1e-10)                     # and exchanging them turns the last coin round


@pytest.mark.parametrize("rows", [1, 7, 29])
def test_rows_are_independent_and_their_sums_add(rows):
    X, mu, S, gamma = problem(default_rng(7))
    xi0 = gate_tilt(X, mu, S)
    whole = gate_log_bound(X, mu, S, xi0)
    assert_allclose(gate_log_bound(X[:rows], mu, S, xi0[:rows]), whole[:rows], rtol=1e-13)
    precision = [np.linalg.inv(gate_update(X[s], gamma[s], xi0[s], Priors())[1]) - np.eye(3) / 25
                 for s in (slice(0, rows), slice(rows, 30), slice(0, 30))]
    assert_allclose(precision[0] + precision[1], precision[2], rtol=1e-9, atol=1e-10)


def test_alternating_tilt_and_update_never_loses():
    from cmn_literate.ideas.expfam import gaussian_kl
    X, mu, S, gamma = problem(default_rng(8), N=60)
    priors, trace = Priors(), []
    for _ in range(40):
        xi0 = gate_tilt(X, mu, S)
        trace.append(np.sum(gamma * gate_log_bound(X, mu, S, xi0)) - gaussian_kl(mu, S, priors.sigma0).sum())
        mu, S = gate_update(X, gamma, xi0, priors)
        trace.append(np.sum(gamma * gate_log_bound(X, mu, S, xi0)) - gaussian_kl(mu, S, priors.sigma0).sum())
    steps = np.diff(trace)
    assert (steps >= -1e-9 * abs(np.array(trace[1:]))).all() and trace[-1] - trace[0] > 10
