"""Networks of several layers: every update right (loops), stationary (autograd), never downhill in any order; the bound below exact evidence; one layer is the old fit."""
import itertools

import numpy as np
import pytest
from autograd import grad
from numpy.testing import assert_allclose, assert_array_equal
from oracle import deep as loops
from problems import CASES, PRIORS, name, problem

from cmn_literate.beyond.deep import (
    DEEP_UPDATES, Sticks, DeepState, Experts, Mixture, Network, choice_logits, choice_table, choice_update, deep_elbo, deep_kl, deep_order, deep_sweep,
    exact, expert_table, experts_pull, layer_update, level, link_table, mean_inputs, network_of, parameters_of, weights_of)
from cmn_literate.beyond.depth import fit_deep
from cmn_literate.engineering.fit import fit
from cmn_literate.network.cavi import UPDATES
from cmn_literate.network.elbo import elbo, global_kl
from cmn_literate.network.simulate import Priors
from cmn_literate.use.datasets import make_pinwheels

# N, (columns, latents of each layer), experts of each layer, classes: two layers; three, one of them with one expert; one latent each; wide on top; one layer
SIZES = [(4, (2, 3, 2), (3, 2), 3), (3, (1, 2, 1, 2), (2, 1, 3), 2), (4, (2, 1, 1), (2, 2), 2), (3, (1, 2, 4), (2, 3), 4), (4, (3, 2), (3,), 3)]
OWN = {"x": ("mu", "Sigma"), "z": ("gamma",), "omega": (None,), "beta": ("mu", "cov"), "experts": ("M", "V", "a", "b")}
each_size = pytest.mark.parametrize("sizes", SIZES, ids=lambda s: "-".join(map(str, s[1])))


def deep_state(d):
    """The package's state of the oracle's."""
    network = Network(tuple(map(Sticks, d["beta_mu"], d["beta_cov"])), tuple(map(Experts, d["M"], d["V"], d["a"], d["b"])))
    return DeepState(network, tuple(map(Mixture, d["gamma"], d["mu"], d["Sigma"])), tuple(d["tilts"]))


def as_lists(state):
    lists = {"tilts": list(state.tilts)}
    for parts, names in ((state.network.choices, ("beta_mu", "beta_cov")), (state.network.experts, "MVab"), (state.hidden, Mixture._fields)):
        lists |= {name: [part[i] for part in parts] for i, name in enumerate(names)}
    return lists


def random_problem(sizes, seed=0):
    d, X, y = loops.random_state_and_data(np.random.default_rng([seed, len(sizes[1])]), *sizes)
    return deep_state(d), X, y, d


@each_size
def test_updates_and_bound_agree_with_the_loops(sizes):
    state, X, y, d = random_problem(sizes)
    assert_allclose(deep_elbo(state, X, y, PRIORS), loops.elbo(d, X, y, PRIORS), rtol=1e-10)
    assert set(deep_order(len(sizes[2]))) == {(name, s) for name in loops.UPDATES for s in range(name in ("x", "z", "experts"), len(sizes[2]) + 1)}
    for update, s in deep_order(len(sizes[2])):
        new, right = as_lists(DEEP_UPDATES[update](state, X, y, PRIORS, s)), loops.UPDATES[update](d, X, y, PRIORS, s)
        for field, arrays in new.items():
            for at, array in enumerate(arrays):
                if field in loops.CHANGES[update] and at == s - (update in ("x", "z", "experts")):
                    assert_allclose(array, right[field][at], rtol=1e-8, atol=1e-9, err_msg=f"{update} {s} {field}")
                else:
                    assert_array_equal(array, d[field][at], err_msg=f"{update} {s} {field} {at}")


def part_of(state, update, s):
    return {"omega": state.tilts, "beta": state.network.choices}.get(update, (state.hidden, state.network.experts)[update == "experts"])[
        s - (update in ("x", "z", "experts"))]


def slope(state, X, y, update, s, field):
    part = part_of(state, update, s)

    def bound(value):
        new = value if field is None else part._replace(**{field: value})
        swap = lambda parts: tuple(new if p is part else p for p in parts)
        return deep_elbo(DeepState(Network(*map(swap, state.network)), swap(state.hidden), swap(state.tilts)), X, y, PRIORS)
    found = grad(bound)(1.0 * (part if field is None else getattr(part, field)))
    found = found + np.swapaxes(found, -1, -2) if field in ("cov", "V", "Sigma") else found
    return np.abs(found - found.mean(-1, keepdims=True) if field == "gamma" else found).max(initial=0.0)


@pytest.mark.parametrize("sizes", SIZES[:3], ids=lambda s: "-".join(map(str, s[1])))
def test_bound_is_stationary_right_after_each_update(sizes):
    state, X, y, _ = random_problem(sizes, seed=1)
    for update, s in deep_order(len(sizes[2])):
        after = DEEP_UPDATES[update](state, X, y, PRIORS, s)
        for field in OWN[update]:
            before = slope(state, X, y, update, s, field)
            assert slope(after, X, y, update, s, field) < 1e-10 * max(before, 1.0), (update, s, field)
            assert before > 1e-4 or 1 in sizes[2], (update, s, field)


@pytest.mark.parametrize("sizes", [SIZES[0], SIZES[1]], ids=("two", "three"))
def test_bound_never_falls_in_two_hundred_random_orders(sizes):
    state, X, y, _ = random_problem(sizes, seed=2)
    rng, value, updates = np.random.default_rng(3), -np.inf, deep_order(len(sizes[2]))
    for number in range(200):
        for done, at in enumerate(rng.permutation(len(updates)), 1):
            update, s = updates[at]
            state = DEEP_UPDATES[update](state, X, y, PRIORS, s)
            if number < 10 or done == len(updates):
                new = float(deep_elbo(state, X, y, PRIORS))
                assert new >= value - 1e-9 * abs(value), (number, update, s)
                value = new
    assert value < 0


# ---- rows that count more than once, or less

@pytest.mark.parametrize("sizes", [SIZES[0], SIZES[1]], ids=("two", "three"))
def test_weights_of_rows(sizes):
    """Whole weights are copies, the bound is linear in any weights, and what the updates find is stationary in it."""
    state, X, y, _ = random_problem(sizes, seed=4)
    N, rng = len(X), np.random.default_rng(5)
    times = np.arange(N) % 3
    some = np.repeat(np.arange(N), times)
    copies = DeepState(state.network, tuple(Mixture(*(part[some] for part in x)) for x in state.hidden), tuple(t[some] for t in state.tilts))
    assert_allclose(deep_elbo(state, X, y, PRIORS, times), deep_elbo(copies, X[some], y[some], PRIORS), rtol=1e-12)
    one, other = deep_sweep(state, X, y, PRIORS, 2, times), deep_sweep(copies, X[some], y[some], PRIORS, 2)
    for a, b in zip((*one.network.choices, *one.network.experts), (*other.network.choices, *other.network.experts)):
        for u, v in zip(a, b):
            assert_allclose(u, v, rtol=1e-8, atol=1e-10)
    weight = rng.uniform(0.2, 2.5, N)
    nothing, each = deep_elbo(state, X, y, PRIORS, np.zeros(N)), [deep_elbo(state, X, y, PRIORS, row) for row in np.eye(N)]
    assert_allclose(deep_elbo(state, X, y, PRIORS, weight), nothing + weight @ (np.array(each) - nothing), rtol=1e-11)
    assert_allclose(nothing, -deep_kl(state.network, PRIORS), rtol=1e-12)
    value = -np.inf
    for _ in range(6):
        state = deep_sweep(state, X, y, PRIORS, weight=weight)
        assert deep_elbo(state, X, y, PRIORS, weight) >= value
        value = deep_elbo(state, X, y, PRIORS, weight)
    again = np.full(N, 1.0)
    plain = deep_sweep(state, X, y, PRIORS)
    assert all((u == v).all() for a, b in zip(plain.network.experts, deep_sweep(state, X, y, PRIORS, weight=again).network.experts) for u, v in zip(a, b))


# ---- one layer

@pytest.mark.parametrize("case", [case for case in CASES if not case[-1]], ids=name)
def test_one_layer_is_the_network_of_the_book(case):
    old, X, y, _ = problem(case)
    new = DeepState(network_of(old.parameters), (Mixture(*old.local[:3]),), (old.local.xi0[:, None], old.local.xi1))
    assert_allclose(deep_elbo(new, X, y, PRIORS), elbo(old, X, y, PRIORS), rtol=1e-12)
    assert_allclose(deep_kl(new.network, PRIORS), sum(global_kl(old.parameters, PRIORS).values()), rtol=1e-12)
    for one, two in zip(old.parameters, parameters_of(new.network)):
        assert one is two
    for before, (update, s) in {"x": ("x", 1), "omega1": ("omega", 1), "omega0": ("omega", 0), "z": ("z", 1), "beta1": ("beta", 1),
                                "beta0": ("beta", 0), "experts": ("experts", 1)}.items():
        old, new = UPDATES[before](old, X, y, PRIORS), DEEP_UPDATES[update](new, X, y, PRIORS, s)
        found = (*parameters_of(new.network), *new.hidden[0], new.tilts[1], new.tilts[0][:, 0])
        for one, two in zip((*old.parameters, *old.local), found):
            assert_allclose(two, one, rtol=1e-10, atol=1e-10, err_msg=before)


@pytest.mark.parametrize("inner, init", [(1, "class-code"), (3, "hyperplanes"), (1, "random")])
def test_one_layer_is_the_fast_fit(inner, init):
    X, y = make_pinwheels(60, np.random.default_rng(0))
    options = {"rng": 1, "max_sweeps": 20, "tol": 0.0, "inner": inner, "init": init}
    old, new = fit(X, y, 4, **options), fit_deep(X, y, 4, layers=1, **options)
    assert np.abs(old.elbo - new.elbo).max() < 1e-10 * max(np.abs(old.elbo).max() / 100, 1)
    for one, two in zip(old.parameters, parameters_of(new.network)):
        assert_allclose(two, one, rtol=1e-10, atol=1e-10)


# ---- the pieces

def test_exact_rows_are_a_mixture_of_one():
    X = np.random.default_rng(0).normal(size=(5, 2))
    x = exact(X.astype(np.float32))
    assert x.mu.dtype == float and x.gamma.shape == (5, 1) and x.Sigma is None
    assert_array_equal(mean_inputs(exact(X))[:, 0], np.column_stack([X, np.ones(5)]))
    state, X, y, _ = random_problem(SIZES[0])
    assert_array_equal(level(state, X, 0).mu[:, 0], X)
    assert level(state, X, 2) is state.hidden[1]
    assert_array_equal(weights_of(state, y, 1), state.hidden[0].gamma)
    assert_array_equal(weights_of(state, y, 3), np.eye(3)[y])


def test_inputs_without_spread_are_exact_inputs():
    state, X, y, d = random_problem(SIZES[0], seed=4)
    x, out = Mixture(np.ones((4, 1)), state.hidden[0].mu[:, :1], 1e-14 * state.hidden[0].Sigma[:, :1]), state.hidden[1]
    known, choice, experts = exact(x.mu[:, 0]), state.network.choices[1], state.network.experts[1]
    tilt = state.tilts[1][:, :1]
    pairs = [(choice_logits(x, choice), choice_logits(known, choice)), (choice_update(x, out.gamma, tilt, 1.3), choice_update(known, out.gamma, tilt, 1.3)),
             (layer_update(x, out, PRIORS), layer_update(known, out, PRIORS)),
             ([choice_table(x, choice, tilt), expert_table(x, out, experts)], [choice_table(known, choice, tilt), expert_table(known, out, experts)])]
    for one, two in itertools.chain(*(zip(*pair) for pair in pairs)):
        assert_allclose(one, two, rtol=1e-8, atol=1e-9)


def test_link_is_choice_and_expert_and_the_pull_is_its_curvature():
    state, X, y, d = random_problem(SIZES[0], seed=5)
    table = link_table(state, X, 1)
    for n, c, k in np.ndindex(*table.shape):
        assert_allclose(table[n, c, k], loops.log_choice(d, X, n, 1, c, k) + loops.log_expert(d, X, n, 1, c, k), rtol=1e-9)
    moved = state.hidden[0]._replace(Sigma=state.hidden[0].Sigma + np.eye(3))
    fall = expert_table(state.hidden[0], state.hidden[1], state.network.experts[1]) - expert_table(moved, state.hidden[1], state.network.experts[1])
    assert_allclose(fall, np.broadcast_to(0.5 * np.trace(experts_pull(state.network.experts[1])[:, :3, :3], axis1=1, axis2=2), fall.shape), rtol=1e-9)


def test_a_sweep_is_its_order():
    state, X, y, _ = random_problem(SIZES[1])
    by_hand = state
    for update, s in deep_order(3, inner=2):
        by_hand = DEEP_UPDATES[update](by_hand, X, y, PRIORS, s)
    again = deep_sweep(state, X, y, PRIORS, inner=2)
    for field, arrays in as_lists(again).items():
        for one, two in zip(arrays, as_lists(by_hand)[field]):
            assert_array_equal(one, two)
    assert deep_order(2) == [("omega", 0), ("x", 1), ("omega", 1), ("z", 1), ("x", 2), ("omega", 2), ("z", 2), ("beta", 2), ("beta", 1), ("beta", 0),
                             ("experts", 1), ("experts", 2)]


# ---- against the exact evidence

SMALL = Priors(v0=1.2, a0=3.0, b0=2.0, sigma0=0.9, sigma1=0.7)
ROWS = np.array([[-1.0], [0.2], [1.3]])


@pytest.mark.parametrize("layers, R, Q", [(2, 12_000, 9), (3, 1500, 7)])
def test_bound_is_below_the_evidence(layers, R, Q):
    y = np.array([0, 1, 0])
    exact_value, error = loops.evidence(ROWS, y, SMALL, 2, layers, R, np.random.default_rng(0), Q)
    best = max(fit_deep(ROWS, y, 2, 1, 2, layers, 1, SMALL, seed, max_sweeps=60, hidden="code").elbo[-1] for seed in range(2))
    assert error < 0.05 and exact_value - 8 < best < exact_value - 3 * error


def test_bounds_of_all_labelings_leave_room():
    total = sum(np.exp(fit_deep(ROWS, np.array(y), 2, 1, 2, 2, 1, SMALL, max_sweeps=40, hidden="code").elbo[-1]) for y in itertools.product((0, 1), repeat=3))
    assert 0 < total < 1


@pytest.mark.parametrize("L, c", [(2, 0), (2, 1), (4, 1), (4, 3)])
def test_one_row_alone_has_a_known_evidence(L, c):
    for layers in (2, 3):
        found = fit_deep(ROWS[:1], np.array([c]), 2, 1, L, layers, 1, SMALL, max_sweeps=30, hidden="code")
        assert found.elbo[-1] < -min(c + 1, L - 1) * np.log(2)


def test_bound_is_tight_where_nothing_is_unknown():
    """Narrow priors everywhere: every class is a fair coin, and what is lost is the coins of the gates and of the latents."""
    narrow = Priors(1e-4, 200.0, 200.0, 0.02, 0.02)
    y = np.array([0, 1, 0])
    found = fit_deep(ROWS, y, 2, 1, 2, 2, 1, narrow, max_sweeps=100, hidden="code")
    assert -3 * np.log(2) - 0.2 < found.elbo[-1] < -3 * np.log(2)
