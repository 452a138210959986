"""Every coordinate update: right (against the oracle), stationary (autograd), local (one factor), never lowers the bound."""
import autograd.numpy as anp
import numpy as np
import pytest
from autograd import grad
from numpy.testing import assert_allclose
from oracle import cmn
from problems import CASES, PRIORS, as_dict, name, problem

from cmn_literate.network.cavi import UPDATES, sweep
from cmn_literate.network.latents import Local, Parameters
from cmn_literate.network.elbo import elbo

COVARIANCES = ("Sigma", "V", "beta1_S", "beta0_S")
each_case = pytest.mark.parametrize("case", CASES, ids=name)
each_update = pytest.mark.parametrize("update", cmn.ORDER)


def test_the_updates_are_the_seven_of_the_contract():
    assert set(UPDATES) == set(cmn.ORDER)
    assert [*Parameters._fields, *Local._fields] == cmn.FIELDS


@each_update
@each_case
def test_agrees_with_the_oracle_and_changes_only_its_own_factor(case, update):
    for seed in (0, 1):
        state, X, y, arrays = problem(case, seed)
        untouched = as_dict(state)
        new, expected = as_dict(UPDATES[update](state, X, y, PRIORS)), cmn.UPDATES[update](arrays, X, y, PRIORS)
        for field in cmn.FIELDS:
            assert new[field].dtype == np.float64 and new[field].shape == expected[field].shape, field
            if field in cmn.CHANGES[update]:
                assert_allclose(new[field], expected[field], rtol=1e-9, atol=1e-9, err_msg=field)
            else:
                assert np.array_equal(new[field], untouched[field]), field
            assert np.array_equal(state.flat()[field], untouched[field]), f"{field} of the argument was overwritten"
        for field in set(COVARIANCES) & set(cmn.CHANGES[update]):
            assert_allclose(new[field], np.swapaxes(new[field], -1, -2), rtol=0, atol=1e-12)


def block_gradients(state, X, y, fields):
    """The gradient of the complete bound in every array of a factor, in the directions the factor may move."""
    out = {}
    for field in fields:
        if state.flat()[field].size == 0:                      # K = 1 has no gate
            continue
        g = grad(lambda v, field=field: elbo(state.replace(**{field: v}), X, y, PRIORS))(1.0 * state.flat()[field])
        if field in COVARIANCES:
            g = g + np.swapaxes(g, -1, -2)                       # a symmetric matrix moves symmetrically
        if field == "gamma":                                     # softmax coordinates: the simplex's tangent
            g = state.local.gamma * (g - (state.local.gamma * g).sum(1, keepdims=True))
        if field == "xi1":                                       # sticks that row n never reached do not count
            active = np.arange(g.shape[-1]) <= y[:, None]
            g = g * (active if g.ndim == 2 else active[:, None, :])
        out[field] = g
    return out


@each_update
@each_case
def test_bound_is_stationary_right_after_the_update(case, update):
    """d ELBO / d block = 0 after, and not before: the test can fail."""
    state, X, y, _ = problem(case, seed=2)
    fields = cmn.CHANGES[update]
    before = block_gradients(state, X, y, fields)
    after = block_gradients(UPDATES[update](state, X, y, PRIORS), X, y, fields)
    for field, g in after.items():
        size = np.abs(before[field]).max()
        if not (field == "gamma" and case[2] == 1):
            assert size > 1e-3, field
        assert np.abs(g).max() < 1e-9 * max(1.0, size), field


def test_softmax_coordinates_agree_with_the_tangent():
    """The stationarity of gamma once more, through an explicit softmax."""
    state, X, y, _ = problem(CASES[0], seed=3)

    def through_softmax(u):
        e = anp.exp(u)
        return elbo(state.replace(gamma=e / anp.sum(e, 1, keepdims=True)), X, y, PRIORS)
    g = grad(through_softmax)
    assert_allclose(g(np.log(state.local.gamma)), block_gradients(state, X, y, ["gamma"])["gamma"], rtol=1e-9, atol=1e-12)
    assert np.abs(g(np.log(UPDATES["z"](state, X, y, PRIORS).local.gamma))).max() < 1e-10


@pytest.mark.parametrize("numbers", [pytest.param((80, 30), id="short"), pytest.param((200, 40), id="long", marks=pytest.mark.slow)])
@each_case
def test_bound_never_falls_over_random_sweeps(case, numbers):
    """Every single update: five sweeps in the canonical order, then each sweep in an order of its own.

    numbers: sweeps of the first two problems, and of the fourteen others.
    """
    state, X, y, _ = problem(case, seed=4)
    rng, value = np.random.default_rng(5), -np.inf
    for number in range(numbers[case not in CASES[:2]]):
        order = list(cmn.ORDER) if number < 5 else list(rng.permutation(cmn.ORDER))
        for update in order:
            state = UPDATES[update](state, X, y, PRIORS)
            new = float(elbo(state, X, y, PRIORS))
            assert new >= value - 1e-9 * abs(value), (number, update, value, new)
            value = new
    assert value <= 0                                            # below ln p(y | X), which is at most 0


def test_each_update_gains_from_a_random_state():
    """A do-nothing update is monotone too; from a random state each of the seven must move the bound up."""
    for case in CASES:
        state, X, y, _ = problem(case, seed=6)
        for update in cmn.ORDER:
            if case[2] == 1 and update in ("z", "omega0", "beta0"):
                continue                                         # K = 1: nothing to choose
            gain = elbo(UPDATES[update](state, X, y, PRIORS), X, y, PRIORS) - elbo(state, X, y, PRIORS)
            assert gain > 1e-6, (case, update, gain)


@pytest.mark.parametrize("inner", [1, 3])
@pytest.mark.parametrize("case", [CASES[0], CASES[1], CASES[9]], ids=name)
def test_sweep_is_the_canonical_order(case, inner):
    state, X, y, arrays = problem(case, seed=7)
    got = as_dict(sweep(state, X, y, PRIORS, inner=inner))
    by_hand, by_oracle = state, cmn.sweep(arrays, X, y, PRIORS, inner=inner)
    for update in ["x", "omega1"] * inner + ["omega0", "z", "beta1", "beta0", "experts"]:
        by_hand = UPDATES[update](by_hand, X, y, PRIORS)
    for field in cmn.FIELDS:
        assert_allclose(got[field], by_hand.flat()[field], rtol=1e-12, atol=1e-12, err_msg=field)
        assert_allclose(got[field], by_oracle[field], rtol=1e-8, atol=1e-8, err_msg=field)
    other = state
    for update in reversed(cmn.ORDER):
        other = UPDATES[update](other, X, y, PRIORS)
    assert np.abs(other.local.gamma - got["gamma"]).max() > 1e-3       # the order shows


def test_inner_defaults_to_one():
    state, X, y, _ = problem(CASES[0], seed=8)
    a, b = sweep(state, X, y, PRIORS), sweep(state, X, y, PRIORS, inner=1)
    assert all(np.array_equal(value, b.flat()[field]) for field, value in a.flat().items())
