"""Experts: what a notebook cell cannot check about itself. Memory, blocks, number types, inputs far from the origin, bad input."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

from cmn_literate.network.experts import (
    expert_log_density, expert_update, experts_from_sums, mng_log_evidence, regression_log_evidence, row_quadratic,
    weighted_gram)
from cmn_literate.network.simulate import Priors
from cmn_literate.ideas.expfam import pad


def problem(rng, N=40, d=2, K=3, h=2):
    C = rng.normal(size=(N, K, h, h))
    return (rng.normal(size=(N, d)), rng.dirichlet(np.ones(K), size=N), rng.normal(size=(N, K, h)),
            C @ np.swapaxes(C, -1, -2) + 0.1 * np.eye(h))


@pytest.mark.parametrize("sizes", [{}, {"K": 1, "h": 1, "d": 1}, {"h": 4, "d": 1}, {"N": 3, "d": 6}])
def test_sums_of_two_blocks_are_the_sums_of_all_rows(sizes):
    X, gamma, mu, Sigma = problem(default_rng(5), **sizes)
    N, K, h = mu.shape
    M_ref, priors = default_rng(6).normal(size=(K, h, X.shape[1] + 1)), Priors(v0=3.0, a0=1.5, b0=0.5)

    def sums(rows):
        r = mu[rows] - np.einsum("kid,nd->nki", M_ref, pad(X[rows]))
        spread = np.diagonal(Sigma[rows], axis1=2, axis2=3)
        return (gamma[rows].sum(0), weighted_gram(X[rows], gamma[rows]), np.einsum("nk,nki,nd->kid", gamma[rows], r, pad(X[rows])),
                np.einsum("nk,nki->ki", gamma[rows], r**2 + spread))

    halves = [p + q for p, q in zip(sums(slice(0, N // 2)), sums(slice(N // 2, N)))]
    (whole, evidence), (added, evidence_added) = (experts_from_sums(*s, M_ref, priors) for s in (sums(slice(0, N)), halves))
    for one, two, direct in zip(whole, added, expert_update(X, gamma, mu, Sigma, priors)):
        assert_allclose(two, one, rtol=1e-12, atol=1e-13)
        assert_allclose(direct, one, rtol=1e-10, atol=1e-12)
    assert_allclose(evidence_added, evidence, rtol=1e-12)


# ---- numbers

def test_single_precision_and_integers_come_out_as_float64():
    X, gamma, mu, Sigma = problem(default_rng(7))
    X = np.round(X * 4)
    narrow = expert_update(X.astype(int), *(v.astype(np.float32) for v in (gamma, mu, Sigma)), Priors())
    wide = expert_update(X, *(v.astype(np.float32).astype(float) for v in (gamma, mu, Sigma)), Priors())
    for one, two in zip(narrow, wide):
        assert one.dtype == np.float64
        assert_allclose(one, two, rtol=1e-5, atol=1e-6)


def test_inputs_are_left_alone_and_may_be_views():
    arrays = problem(default_rng(8))
    copies = [v.copy() for v in arrays]
    result = expert_update(*arrays, Priors())
    for now, before in zip(arrays, copies):
        assert_array_equal(now, before)
    strided = [np.repeat(v, 2, axis=0)[::2] for v in arrays]
    strided[0] = np.asfortranarray(strided[0])
    for one, two in zip(result, expert_update(*strided, Priors())):
        assert_allclose(two, one, rtol=1e-12, atol=1e-14)


def exact_expert(X, gamma, mu, spread, priors):
    """m, b of one row of one expert, 60 digits."""
    with mp.workdps(60):
        rows = [[mp.mpf(float(v)) for v in x] + [mp.mpf(1)] for x in X]
        g, t, s = ([mp.mpf(float(v)) for v in column] for column in (gamma, mu, spread))
        D = len(rows[0])
        P, c = mp.eye(D) / mp.mpf(priors.v0), mp.matrix(D, 1)
        for x, g_n, t_n in zip(rows, g, t):
            for i in range(D):
                c[i] += g_n * t_n * x[i]
                for j in range(D):
                    P[i, j] += g_n * x[i] * x[j]
        m = mp.lu_solve(P, c)
        fit = [sum(m[i] * x[i] for i in range(D)) for x in rows]
        height = sum(g_n * ((t_n - f) ** 2 + s_n) for g_n, t_n, f, s_n in zip(g, t, fit, s))
        penalty = sum(m[i] ** 2 for i in range(D)) / mp.mpf(priors.v0)
        return [float(f) for f in fit], float(mp.mpf(priors.b0) + (height + penalty) / 2)


@pytest.mark.parametrize("offset, tolerance", [(0.0, 1e-13), (1e3, 1e-10), (1e6, 1e-5)])
def test_three_columns_far_from_the_origin(offset, tolerance):
    """Columns at a million with unit spread: b stays positive and right, and so do the fitted values."""
    rng, priors = default_rng(9), Priors()
    N, K = 60, 2
    centred = rng.normal(size=(N, 3))
    X = offset + centred
    target = centred @ [0.8, -0.5, 0.3]
    gamma = rng.dirichlet(np.ones(K), size=N)
    mu = np.repeat(target[:, None, None], K, axis=1) + 0.1 * rng.normal(size=(N, K, 1))
    Sigma = np.full((N, K, 1, 1), 0.01)
    M, V, a, b = expert_update(X, gamma, mu, Sigma, priors)
    for k in range(K):
        fit, b_exact = exact_expert(X, gamma[:, k], mu[:, k, 0], Sigma[:, k, 0, 0], priors)
        assert b[k, 0] > priors.b0
        assert_allclose(b[k, 0], b_exact, rtol=tolerance)
        assert_allclose(pad(X) @ M[k, 0], fit, atol=max(tolerance, 1e-12) * 10)


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([1e-6, 1.0, 1e6]), shift=st.sampled_from([0.0, 1e2, 1e4]))
def test_b_never_falls_below_b0(seed, scale, shift):
    X, gamma, mu, Sigma = problem(default_rng(seed), N=12)
    M, V, a, b = expert_update(X + shift, gamma, scale * mu, 0 * Sigma, Priors(b0=0.3))
    assert (b >= 0.3).all() and np.isfinite(M).all() and (np.linalg.eigvalsh(V) > 0).all()


def test_vanishing_weights_are_the_prior():
    X, gamma, mu, Sigma = problem(default_rng(10))
    priors = Priors()
    M, V, a, b = expert_update(X, 1e-300 * gamma, mu, Sigma, priors)
    assert_allclose(V, np.broadcast_to(priors.v0 * np.eye(3), V.shape), rtol=1e-14, atol=1e-290)
    assert np.abs(M).max() < 1e-290 and (a == priors.a0).all() and (b == priors.b0).all()


# ---- symmetries of the density and the evidence

def test_density_of_rows_and_experts_is_independent_of_their_neighbours():
    X, _, mu, Sigma = problem(default_rng(11))
    factors = expert_update(X, np.full((40, 3), 1 / 3), mu, Sigma, Priors())
    whole = expert_log_density(X, mu, Sigma, *factors)
    part = expert_log_density(X[5:9], mu[5:9, 1:2], Sigma[5:9, 1:2], *(f[1:2] for f in factors))
    assert_allclose(part, whole[5:9, 1:2], rtol=1e-13)
    assert_allclose(row_quadratic(X[5:9], factors[1][1:2]), row_quadratic(X, factors[1])[5:9, 1:2], rtol=1e-13)


def test_evidence_knows_its_units():
    """x1 -> c x1 with b0 -> c^2 b0 is a change of units: the density changes by its Jacobian alone."""
    rng = default_rng(12)
    X, x1, c = rng.normal(size=(9, 2)), rng.normal(size=(9, 3)), 7.0
    plain = mng_log_evidence(X, x1, 10.0, 2.0, 1.5)
    assert_allclose(mng_log_evidence(X, c * x1, 10.0, 2.0, 1.5 * c**2), plain - x1.size * np.log(c), rtol=1e-12)
    order = rng.permutation(9)
    assert_allclose(mng_log_evidence(X[order], x1[order], 10.0, 2.0, 1.5), plain, rtol=1e-12)
    assert_allclose(sum(mng_log_evidence(X, x1[:, i:i + 1], 10.0, 2.0, 1.5) for i in range(3)), plain, rtol=1e-12)
    assert_allclose(regression_log_evidence(pad(X), x1, 10.0, 2.0, 1.5), plain, rtol=1e-14)


def test_prior_mean_is_a_shift_and_a_number_fills_the_matrix():
    rng = default_rng(13)
    X, x1, M0 = rng.normal(size=(9, 2)), rng.normal(size=(9, 2)), rng.normal(size=(2, 3))
    shifted = mng_log_evidence(X, x1 - pad(X) @ M0.T, 10.0, 2.0, 1.0)
    assert_allclose(mng_log_evidence(X, x1, 10.0, 2.0, 1.0, M0), shifted, rtol=1e-12)
    assert_allclose(mng_log_evidence(X, x1, 10.0, 2.0, 1.0, 0.4), mng_log_evidence(X, x1, 10.0, 2.0, 1.0, np.full((2, 3), 0.4)))


def test_evidence_integrates_to_one():
    """exp(evidence) of one point is a density in its target."""
    u = np.arange(-9, 9, 0.05)                                              # t = sinh u: trapezoid for heavy tails
    density = [np.exp(mng_log_evidence(np.array([[0.7]]), np.array([[np.sinh(v)]]), 10.0, 2.0, 1.0)) for v in u]
    assert_allclose(0.05 * (density * np.cosh(u)).sum(), 1.0, rtol=1e-8)


@pytest.mark.parametrize("change, words", [
    ({"x1": np.zeros((4, 2))}, "x1: expected 5 rows"),
    ({"x1": np.zeros(5)}, "x1: expected a"),
    ({"x1": np.full((5, 2), np.nan)}, "x1: expected finite"),
    ({"X": np.full((5, 2), np.inf)}, "X: expected finite"),
    ({"X": np.zeros(5)}, "X: expected a"),
    ({"v0": 0.0}, "v0: expected a positive"),
    ({"a0": -1.0}, "a0: expected a positive"),
    ({"b0": np.nan}, "b0: expected a positive"),
])
def test_bad_input_is_named(change, words):
    good = {"X": np.zeros((5, 2)), "x1": np.zeros((5, 2)), "v0": 1.0, "a0": 1.0, "b0": 1.0}
    with pytest.raises(ValueError, match=words):
        mng_log_evidence(**{**good, **change})


def test_prior_mean_of_a_wrong_shape_is_refused():
    with pytest.raises(ValueError, match="M0: expected"):
        mng_log_evidence(np.zeros((5, 2)), np.zeros((5, 2)), 1.0, 1.0, 1.0, M0=np.zeros((3, 2)))


@pytest.mark.parametrize("M0, words", [
    (np.nan, "finite"), ([[0.0, np.inf]], "finite"), (None, "finite"), ("0", "text"), ([["0", "1"]], "text"), ([[1j, 0.0]], "real"),
    (np.ma.masked_array([[0.0, 1.0]], [[True, False]]), "masked"), ([[0.0, 1.0], [0.0]], "one length"),
])
def test_prior_mean_that_is_no_finite_number_is_refused(M0, words):
    with pytest.raises(ValueError, match="^M0: expected.*" + words):
        regression_log_evidence(np.ones((3, 2)), np.ones((3, 1)), 1.0, 1.0, 1.0, M0)
