"""Memoized ascent, stochastic steps and over-relaxed sweeps, against sweeps and against the bound from scratch."""
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from cmn_literate.beyond.streaming import (
    begin_relaxation, begin_memo, best_axes, cut_blocks, fit_in_blocks, memo_axes, memo_pass, move_axes, natural_step, overshoot, relaxed_pass,
    replace_share, robbins_monro, stochastic_pass)
from cmn_literate.engineering import sums
from cmn_literate.engineering.fit import begin, expand, fit, step
from cmn_literate.engineering.out_of_core import fit_source
from cmn_literate.engineering.starts import init_parameters
from cmn_literate.engineering.streams import combine, factor_sums, factors_from_sums, gather, prior_sums, rebase
from cmn_literate.engineering.sums import block_sweep, make_blocks
from cmn_literate.network.simulate import Priors
from cmn_literate.row_sources import ArraySource
from cmn_literate.use.classifier import CMNClassifier
from cmn_literate.use.datasets import make_pinwheels

PRIORS = Priors()
X, Y = make_pinwheels(240, np.random.default_rng(0))
X = (X - X.mean(0)) / X.std(0)
START = init_parameters(X, Y, 6, 4, 5, PRIORS, np.random.default_rng(0))


def blocks_of(n, shared=False, rng=0):
    return cut_blocks(X, Y, n, 6, 4, 5, rng, shared)


def assert_same(left, right, rtol):
    for u, v in zip(left, right):
        assert_allclose(u, v, rtol=rtol, atol=rtol * max(np.abs(v).max(initial=0.0), 1e-300))


# ---- blocks

def test_blocks_hold_every_row_once():
    blocks = blocks_of(7, rng=np.random.default_rng(3))
    rows = np.concatenate([block.rows.XtT[:2].T for block in blocks])
    assert sorted(map(tuple, rows)) == sorted(map(tuple, X)) and not np.array_equal(rows, X)
    assert {block.omega.shape[-1] for block in blocks} == {34, 35}
    whole, = blocks_of(1)
    assert whole.rows.F is None or whole.rows.F.shape[-1] == 240


def test_a_block_larger_than_the_cache_stays_one():
    rng = np.random.default_rng(0)
    wide, labels = rng.normal(size=(3000, 30)), rng.integers(0, 3, 3000)
    assert len(make_blocks(wide, labels, 20, 2, 3)) > 2
    for shared in (False, True):
        one, two = cut_blocks(wide, labels, 2, 20, 2, 3, shared=shared)
        assert one.omega.shape == (2, 1 if shared else 20, 1500) and one.rows.XtT.shape == (31, 1500)
        assert (one.gamma is not None) == shared
        p = init_parameters(wide, labels, 20, 2, 3, PRIORS, rng)
        assert_allclose(block_sweep((one, two), p, PRIORS)[2], block_sweep(make_blocks(wide, labels, 20, 2, 3, shared), p, PRIORS)[2], rtol=1e-11)


def test_more_blocks_than_rows_is_an_error():
    for n in (241, 0, 2.5):
        with pytest.raises(ValueError, match="n_blocks"):
            blocks_of(n)


# ---- stochastic steps

def test_one_block_and_a_full_step_is_the_sweep():
    blocks, p = blocks_of(1), START
    mine = blocks, p, 0
    for t in range(4):
        mine = stochastic_pass(*mine[:2], PRIORS, np.random.default_rng(t), 0, delay=0.5)
        blocks, p, _ = block_sweep(blocks, p, PRIORS)
        assert_same(mine[1], p, 1e-12)


def test_full_steps_count_all_rows_whatever_the_block():
    _, p, t = stochastic_pass(blocks_of(5), START, PRIORS, np.random.default_rng(0), 0, delay=1.0, forget=0.0)
    assert t == 5
    assert_allclose(2 * (p.a - PRIORS.a0).sum(), 240, rtol=1e-10)


def test_steps_shrink_and_are_those_of_t():
    assert robbins_monro(0, 0.25) == 1.0
    assert_allclose([robbins_monro(t, 2.0, 0.75) for t in (0, 8)], [2**-0.75, 10**-0.75])
    rng, slow, fast = np.random.default_rng(0), START, START
    blocks = blocks_of(4)
    slow = stochastic_pass(blocks, START, PRIORS, np.random.default_rng(1), t=10**6)[1]
    fast = stochastic_pass(blocks, START, PRIORS, np.random.default_rng(1), t=0)[1]
    assert np.abs(slow.M - START.M).max() < 0.05 * np.abs(fast.M - START.M).max()
    del rng


def test_a_step_lies_on_the_line_of_natural_parameters():
    share = gather(blocks_of(1), START)[1]
    base, eta = prior_sums(PRIORS, START), factor_sums(START, START.M)
    p = natural_step(START, base, share, 0.3, weight=2.0)
    want = combine((0.7, eta), (0.3, base), (0.6, share))
    assert_same(factor_sums(p, START.M)[1:], want[1:], 1e-8)


# ---- memoized ascent

@pytest.mark.parametrize("shared", [False, True])
def test_the_bound_never_falls_and_one_block_is_the_sweep(shared):
    memo, bounds = begin_memo(blocks_of(6, shared), START, PRIORS), []
    assert_allclose(memo.bound, block_sweep(blocks_of(6, shared), START, PRIORS)[2], rtol=1e-11)
    for i in np.random.default_rng(0).integers(6, size=60):             # blocks in any order
        memo = replace_share(memo, i, PRIORS)
        bounds.append(memo.bound)
    assert np.diff(bounds).min() > -1e-10 * abs(bounds[-1])
    one, blocks, p = begin_memo(blocks_of(1, shared), START, PRIORS), blocks_of(1, shared), START
    for _ in range(4):
        blocks, p, bound = block_sweep(blocks, p, PRIORS)
        assert_allclose(one.bound, bound, rtol=1e-10)
        one = memo_pass(one, PRIORS)


def test_a_thousand_replacements_lose_no_digits():
    memo = begin_memo(blocks_of(5), START, PRIORS)
    for t in range(1000):
        memo = replace_share(memo, t % 5, PRIORS)
    p = memo.parameters
    fresh = combine(*((1, rebase(s, p.M - M)) for s, M in zip(memo.shares, memo.references)))
    for name, u, v in zip(fresh._fields, memo.total, fresh):
        assert np.abs(u - v).max() <= 1e-9 * np.abs(v).max(), name
    after, bound = factors_from_sums(combine((1, prior_sums(PRIORS, p)), (1, fresh)), p.M)
    assert_allclose(bound, memo.bound, rtol=1e-10)
    assert_same(after, p, 1e-6)


def test_more_m_steps_in_a_pass_go_farther():
    memo, blocks, p = begin_memo(blocks_of(8), START, PRIORS), blocks_of(8), START
    for _ in range(20):
        memo, (blocks, p, bound) = memo_pass(memo, PRIORS), block_sweep(blocks, p, PRIORS)
    assert memo.bound > bound + 1


def test_moved_axes_are_no_other_model():
    memo = memo_pass(begin_memo(blocks_of(4), START, PRIORS), PRIORS)
    moved = memo_axes(memo, PRIORS)
    by_expand = expand(memo.parameters, PRIORS)
    assert moved.bound > memo.bound
    assert_same((moved.parameters.M[:1] * 0,), (by_expand.M[:1] * 0,), 1e-12)
    s, c = best_axes(memo.parameters, PRIORS)
    assert_allclose(memo.parameters.b * s**2, by_expand.b, rtol=1e-10)
    shifted = memo.parameters.M * s[:, None]
    shifted[:, :, -1] += c
    assert_allclose(shifted, by_expand.M, rtol=1e-10, atol=1e-12)
    share = memo.shares[0]
    back = move_axes(move_axes(share, s, c), 1 / s, -c / s)
    assert_same(back, share, 1e-9)
    for _ in range(5):
        before, moved = moved.bound, memo_axes(memo_pass(moved, PRIORS), PRIORS)
        assert moved.bound > before


# ---- over-relaxed sweeps

def test_without_growth_it_is_the_sweep():
    climb, blocks, p = begin_relaxation(blocks_of(2), START), blocks_of(2), START
    for _ in range(5):
        climb = relaxed_pass(climb, PRIORS, grow=1.0, axes=False)
        blocks, p, bound = block_sweep(blocks, p, PRIORS)
        assert_allclose(climb.bound, bound, rtol=1e-11)


@pytest.mark.parametrize("axes", [False, True])
def test_kept_passes_never_fall_and_a_refused_one_leaves_no_trace(axes):
    climb, refused = begin_relaxation(blocks_of(1), START), 0
    for _ in range(120):
        before, climb = climb, relaxed_pass(climb, PRIORS, grow=1.3, axes=axes)
        assert climb.bound >= before.bound
        if climb.refused > before.refused:
            refused += 1
            assert climb.stride == 1.0 and climb.blocks is before.blocks and climb.parameters is before.parameters
    assert refused == climb.refused


def test_guard_refuses_and_a_plain_sweep_is_never_refused():
    climb = begin_relaxation(blocks_of(1), START)
    for _ in range(3):
        climb = relaxed_pass(climb, PRIORS)
    high = climb._replace(bound=climb.bound + 1000, stride=1.5)
    refused = relaxed_pass(high, PRIORS)
    assert refused == high._replace(stride=1.0, refused=1)
    assert_array_equal(refused.blocks[0].omega, climb.blocks[0].omega)
    assert relaxed_pass(high._replace(stride=1.0), PRIORS).refused == 0


def test_overshoot_stops_where_densities_end():
    near = relaxed_pass(begin_relaxation(blocks_of(1), START), PRIORS)
    p, stride = overshoot(near.behind, near.parameters, 1e6)
    assert 1 <= stride < 1e6 and p.b.min() > 0
    assert overshoot(near.behind, near.parameters, 1.0) == (near.parameters, 1.0)


@pytest.mark.parametrize("method", ["relaxed", "memoized"])
def test_one_call_gets_farther_than_sweeps(method):
    result = fit_in_blocks(X, Y, 6, method=method, n_blocks=8, max_passes=40, tol=1e-9)
    plain = fit(X, Y, 6, max_sweeps=40, tol=1e-9)
    assert result.elbo[-1] > plain.elbo[-1] and len(result.elbo) == 40
    again = fit_in_blocks(X, Y, 6, method=method, n_blocks=8, max_passes=5, tol=1e-9)
    assert_array_equal(again.elbo, result.elbo[:5])


def test_a_refusal_does_not_end_the_fit():
    """Iris, where over-relaxed passes are refused again and again."""
    from sklearn.datasets import load_iris
    flowers, labels = load_iris(return_X_y=True)
    flowers = (flowers - flowers.mean(0)) / flowers.std(0)
    result = fit_in_blocks(flowers, labels, 6, max_passes=200, tol=1e-7)
    flat = np.flatnonzero(np.diff(result.elbo) == 0)
    assert flat.size and flat[0] < len(result.elbo) - 2


@pytest.mark.parametrize("omega1", ["per-component", "shared"])
def test_the_option_of_a_fit_is_the_relaxed_pass(omega1, monkeypatch):
    """Pass by pass, on one block and on several, on one thread and on two; plain sweeps in between begin a new pace."""
    monkeypatch.setattr(sums, "block_size", lambda *args, **kwargs: 100)
    result = fit(X, Y, 6, max_sweeps=25, tol=-np.inf, accelerate="relaxed", omega1=omega1)
    assert_array_equal(fit_in_blocks(X, Y, 6, max_passes=25, tol=-np.inf, omega1=omega1).elbo, result.elbo)
    assert_array_equal(fit(X, Y, 6, max_sweeps=25, tol=-np.inf, accelerate="relaxed", omega1=omega1, n_jobs=2).elbo, result.elbo)
    assert np.diff(result.elbo).min() >= 0 and result.elbo[-1] > fit(X, Y, 6, max_sweeps=25, tol=-np.inf, accelerate=True, omega1=omega1).elbo[-1]
    begun = step(begin(X, Y, 6, omega1=omega1), accelerate="relaxed")
    behind, stride, refused = begun.pace
    assert (stride, refused) == (1.1, 0) and behind.M.shape == begun.parameters.M.shape
    assert step(begun, accelerate=True).pace is None
    for _ in range(30):
        begun = step(begun, accelerate="relaxed")
    high = begun._replace(elbo=(begun.elbo[-1] + 100,), pace=(begun.pace[0], 1.5, 0))           # more than a pass can reach
    back = step(high, accelerate="relaxed")
    assert back.pace[1:] == (1.0, 1) and not back.converged and back.elbo == 2 * high.elbo and back.parameters is high.parameters


def test_a_relaxed_fit_is_one_of_the_estimator_and_refused_by_name_where_rows_pass_by(tmp_path):
    est = CMNClassifier(n_experts=4, max_sweeps=30, tol=1e-12, accelerate="relaxed", random_state=0)
    with pytest.warns(ConvergenceWarning):
        one = est.fit(X, Y).elbo_
    with pytest.warns(ConvergenceWarning):
        assert CMNClassifier(**est.get_params(deep=False) | {"accelerate": True}).fit(X, Y).elbo_ < one
    est.save(tmp_path / "model.npz")
    assert CMNClassifier.load(tmp_path / "model.npz").accelerate == "relaxed"
    with pytest.raises(ValueError, match="^accelerate: expected True or False"):
        fit_source(ArraySource(X, Y), 4, accelerate="relaxed")
    many = np.tile(X, (100, 1)), np.tile(Y, 100)
    with pytest.raises(ValueError, match="^accelerate: expected True or False"):
        CMNClassifier(**est.get_params(deep=False) | {"memory": "100KB"}).fit(ArraySource(*many))
    for wrong in ("fast", 1, None):
        with pytest.raises(ValueError, match="^accelerate: expected True, False or"):
            CMNClassifier(accelerate=wrong).fit(X, Y)
