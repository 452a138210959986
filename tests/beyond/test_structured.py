"""Leaner posteriors: every update right (loops), stationary (autograd), never downhill; below the exact evidence; limits; the fast sweep; the estimator."""
import itertools
import re
from functools import cache

import numpy as np
import pytest
from autograd import grad
from numpy.testing import assert_allclose, assert_array_equal
from oracle import cmn, evidence, lean
from problems import CASES, PRIORS, as_dict, name, problem, random_spd

from cmn_literate import CMNClassifier
from cmn_literate.beyond.lean import lean_blocks, lean_estep, lean_start, lean_sweep, lean_tables, mean_precisions
from cmn_literate.beyond.structured import (
    COEFFICIENTS, LATENT_POSTERIORS, Family, Thrift, conjugate_steps, diagonal_mstep, framed_inverse, noise_frames, shared_inverse,
    structured_latents, structured_updates)
from cmn_literate.engineering.starts import init_parameters
from cmn_literate.engineering.sums import block_sweep, make_blocks, prepare
from cmn_literate.network.cavi import init_state, local_factors
from cmn_literate.network.elbo import elbo
from cmn_literate.network.simulate import Priors
from cmn_literate.use.datasets import make_pinwheels

each_family = pytest.mark.parametrize("family", LATENT_POSTERIORS)
QUICK = ("low-rank", "class-shared", "mean-field-diagonal")
some_families = pytest.mark.parametrize("family", [f if f in QUICK else pytest.param(f, marks=pytest.mark.slow) for f in LATENT_POSTERIORS])
RANKS = {"low-rank": 1}
COVARIANCES = ("V", "beta1_S", "beta0_S")


def frames_of(state, seed=3):
    K, h, _ = state.parameters.M.shape
    return np.random.default_rng(seed).normal(size=(K, h, h)) + np.eye(h)


def started(family, N=9, K=3, L=4, h=3, d=2, seed=0):
    """State with the tilts of the family, X, y."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(N, d)), rng.permutation(np.arange(N) % L)
    return init_state(X, y, K, h, L, PRIORS, seed, shared=not LATENT_POSTERIORS[family].own), X, y


def small(n=60, L=5, seed=0):
    X, y = make_pinwheels(n, np.random.default_rng(seed), L)
    order = np.argsort(y, kind="stable")
    return X[order] / X.std(), y[order]


def fast(family, X, y, K=3, h=3, L=5, sweeps=3, steps=3, rank=1, weight=None, fields=(), inner=1, priors=PRIORS, n_jobs=1):
    """Blocks, parameters, frame and bounds of some sweeps."""
    thrift = Thrift(LATENT_POSTERIORS[family], rank if LATENT_POSTERIORS[family].shape == "framed" else 0, steps, fields)
    p = init_parameters(X, y, K, h, L, priors, np.random.default_rng(0))
    blocks, frame, bounds = lean_blocks(X, y, K, h, L, thrift, weight), lean_start(p, thrift), []
    for _ in range(sweeps):
        blocks, p, frame, bound = lean_sweep(blocks, p, frame, priors, thrift, inner, n_jobs)
        bounds.append(bound)
    return blocks, p, frame, np.array(bounds)


def test_the_table_says_what_the_names_do():
    assert {f: tuple(row) for f, row in LATENT_POSTERIORS.items()} == {
        "full": (True, "free"), "diagonal": (True, "axes"), "low-rank": (True, "framed"), "shared": (True, "shared"), "class-shared": (True, "by-class"),
        "mean-field": (False, "free"), "mean-field-diagonal": (False, "axes"), "mean-field-shared": (False, "by-class")}


# ---- the updates

@each_family
@pytest.mark.parametrize("case", [c for c in CASES if c[:5] in {(7, 3, 3, 3, 2), (6, 2, 2, 2, 3), (7, 2, 3, 5, 2), (3, 1, 1, 2, 1)}], ids=name)
def test_latents_agree_with_the_loops(family, case):
    s, X, y, arrays = problem(case)
    own, shape = f = LATENT_POSTERIORS[family]
    frame, rank = frames_of(s), RANKS.get(family, 0)
    expected = lean.update_x(arrays, X, y, own, shape, frame, rank)
    new = as_dict(structured_updates(f, frame, rank)["x"](s, X, y, PRIORS))
    for field, value in new.items():
        assert_allclose(value, expected[field], rtol=1e-8, atol=1e-9, err_msg=field)
    assert_allclose(elbo(s.replace(mu=new["mu"], Sigma=new["Sigma"]), X, y, PRIORS), cmn.elbo(expected, X, y, PRIORS), rtol=1e-9)


def slopes(s, X, y):
    """Slopes of the bound in every array, the covariances' symmetrised."""
    found = {f: grad(lambda v, f=f: elbo(s.replace(**{f: v}), X, y, PRIORS))(1.0 * v) for f, v in s.flat().items()}
    return {f: v + np.swapaxes(v, -1, -2) if f in (*COVARIANCES, "Sigma") else v for f, v in found.items()}


@each_family
def test_bound_is_stationary_right_after_each_update(family):
    s, X, y = started(family)
    f, frame, rank = LATENT_POSTERIORS[family], frames_of(s), RANKS.get(family, 0)
    updates = structured_updates(f, frame, rank)
    for update in cmn.ORDER:
        s = updates[update](s, X, y, PRIORS)
    own = {"experts": ("M", "V", "a", "b"), "beta1": ("beta1_mu", "beta1_S"), "beta0": ("beta0_mu", "beta0_S")}
    for update, fields in own.items():
        found = slopes(updates[update](s, X, y, PRIORS), X, y)
        assert max(np.abs(found[field]).max() for field in fields) < 1e-8, update
    before, after = slopes(s, X, y), slopes(updates["x"](s, X, y, PRIORS), X, y)
    tie = (lambda v: v) if f.own else lambda v: v.sum(1, keepdims=True)
    assert np.abs(tie(after["mu"])).max() < 1e-8 < 1e-4 < np.abs(tie(before["mu"])).max()
    along, was = tie(after["Sigma"]), tie(before["Sigma"])
    if f.shape == "framed":
        keep = np.eye(3, dtype=bool)
        along, was = ((np.swapaxes(frame, 1, 2) @ v @ frame)[..., keep] for v in (along, was))
    elif f.shape == "axes":
        along, was = (np.diagonal(v, axis1=-2, axis2=-1) for v in (along, was))
    elif f.shape != "free":
        groups = y if f.shape == "by-class" else 0 * y
        along, was = (np.array([v[groups == g].sum(0) for g in np.unique(groups)]) for v in (along, was))
    assert np.abs(along).max() < 1e-8 < 1e-5 < np.abs(was).max()


@some_families
def test_bound_never_falls_in_two_hundred_random_orders(family):
    s, X, y = started(family, N=6, K=2, L=3, h=2, seed=2)
    updates = structured_updates(LATENT_POSTERIORS[family], frames_of(s), RANKS.get(family, 0))
    # what is shared by rows is a factor of its own: until it has been updated once, the state is not in the family
    s = updates["x"](s, X, y, PRIORS)
    rng, value = np.random.default_rng(3), -np.inf
    for number in range(200):
        for done, update in enumerate(rng.permutation(cmn.ORDER), 1):
            s = updates[update](s, X, y, PRIORS)
            if number < 20 or done == len(cmn.ORDER):
                new = float(elbo(s, X, y, PRIORS))
                assert new >= value - 1e-9 * abs(value), (number, update)
                value = new
    assert value < 0


# ---- against the exact evidence

@some_families
def test_bound_is_below_the_exact_evidence_of_a_row(family):
    """Zero-mean priors: the sticks of a single row are fair coins, whatever h, K and L."""
    for K, L, h in ((1, 2, 1), (2, 3, 2)):
        for c in range(L):
            _, _, _, bounds = fast(family, np.array([[0.7, -1.2]]), np.array([c]), K, h, L, sweeps=12)
            assert bounds[-1] < evidence.one_row(c, L), (K, c)


@some_families
def test_bounds_of_all_labellings_sum_to_less_than_one(family):
    """And to nearly one where nothing is unknown but the label."""
    X, narrow, total = np.array([[-1.0], [1.0]]), Priors(1e-3, 50.0, 50.0, 0.03, 0.03), 0.0
    for labels in itertools.product(range(2), repeat=2):
        total += np.exp(fast(family, X, np.array(labels), 2, 2, 2, sweeps=15, priors=narrow)[3][-1])
    assert 0.7 < total < 1


@cache
def evidence_of_four(priors):
    return evidence.by_qmc(*four_rows(), 2, 3, priors, log2_draws=11)


def four_rows():
    return np.array([[-1.0], [0.0], [1.0], [1.4]]), np.array([0, 1, 2, 2])


@pytest.mark.parametrize("family", ["shared", "class-shared", "mean-field", "mean-field-shared"])
def test_bound_is_below_the_evidence_of_four_rows(family):
    priors = Priors(1.2, 3.0, 2.0, 0.9, 0.7)
    exact, error = evidence_of_four(priors)
    bound = fast(family, *four_rows(), 2, 1, 3, sweeps=60, priors=priors)[3][-1]
    assert error < 0.02 and exact - 5 < bound < exact - 3 * error


# ---- limits

def test_families_meet_where_they_must():
    s, X, y, _ = problem((7, 3, 3, 3, 2, False))
    at = lambda family, frame=None, rank=0, s=s: structured_latents(X, y, s, LATENT_POSTERIORS[family], frame, rank)
    mu, Sigma = at("full")
    frame = frames_of(s)
    assert_allclose(at("low-rank", frame, 2)[1], Sigma, rtol=1e-9)              # a block of everything
    assert_allclose(at("low-rank", np.eye(2))[1], at("diagonal")[1], rtol=1e-12)
    for family in ("diagonal", "low-rank", "shared", "class-shared"):
        assert_allclose(at(family, frame)[0], mu, rtol=1e-9)                    # the means are the old ones
    one = s.replace(gamma=np.eye(3)[np.arange(7) % 3])                           # z is known: mean field is the expert's own
    assert_allclose(at("mean-field", s=one)[0][:, 0], mu[np.arange(7), np.arange(7) % 3], rtol=1e-8)
    narrow, X, y, _ = problem((6, 2, 3, 2, 1, False))                           # h = 1
    for family in ("diagonal", "low-rank"):
        assert_allclose(structured_latents(X, y, narrow, LATENT_POSTERIORS[family], np.full((3, 1, 1), -2.0))[1],
                        structured_latents(X, y, narrow, LATENT_POSTERIORS["full"])[1], rtol=1e-12)
    alone, X, y, _ = problem((6, 2, 1, 3, 2, True))                             # K = 1
    for one, two in zip(structured_latents(X, y, alone, LATENT_POSTERIORS["mean-field"]), structured_latents(X, y, alone, LATENT_POSTERIORS["full"])):
        assert_allclose(one, two, rtol=1e-10)


def test_shared_covariance_is_an_inverse_of_means_and_no_mean_of_inverses():
    P, weight = random_spd(np.random.default_rng(0), 5, 2, 3), np.random.default_rng(1).uniform(size=(5, 2))
    groups = np.array([0, 1, 0, 1, 1])
    found = shared_inverse(P, weight, groups)
    for g, k in itertools.product((0, 1), (0, 1)):
        at = groups == g
        mean = np.average(P[at, k], axis=0, weights=weight[at, k])
        assert_allclose(found[at, k], np.tile(np.linalg.inv(mean), (at.sum(), 1, 1)), rtol=1e-10)
        assert np.linalg.slogdet(found[at, k][0])[1] < np.linalg.slogdet(np.average(np.linalg.inv(P[at, k]), axis=0, weights=weight[at, k]))[1]

    weight[groups == 1, 0] = 0.0                                               # an expert without rows of this group
    again = shared_inverse(P, weight, groups)
    assert_allclose(again[groups == 1, 0], np.tile(np.linalg.inv(P[groups == 1, 0].mean(0)), (3, 1, 1)), rtol=1e-10)
    assert_allclose(again[:, 1], found[:, 1], rtol=1e-12)
    assert_allclose(again[groups == 0], found[groups == 0], rtol=1e-12)


def test_the_frame_of_noise_and_evidence_loses_nothing_for_evidence_in_proportion():
    rng = np.random.default_rng(2)
    tau, E = rng.uniform(0.5, 3, (2, 4)), random_spd(rng, 2, 4)
    R = noise_frames(tau, E)
    P = tau[:, :, None] * np.eye(4) + 3.7 * E
    assert_allclose(framed_inverse(P, R), np.linalg.inv(P), rtol=1e-9)
    e = np.diagonal(np.swapaxes(R, 1, 2) @ E @ R, axis1=1, axis2=2)
    assert (np.diff(e) < 0).all()
    other = random_spd(rng, 2, 4)
    dets = [np.linalg.slogdet(framed_inverse(other, R, rank))[1] for rank in range(5)]
    assert (np.diff(dets, axis=0) > -1e-12).all()                               # a larger block never loses
    assert_allclose(dets[-1], -np.linalg.slogdet(other)[1], rtol=1e-9)


def test_conjugate_gradients_never_lose_and_end_at_the_solution():
    rng = np.random.default_rng(4)
    P = np.moveaxis(random_spd(rng, 8, 5), 0, -1)
    eta, mu = rng.normal(size=(2, 5, 8))
    exact = np.linalg.solve(np.moveaxis(P, -1, 0), eta.T[..., None])[..., 0].T
    product = lambda v: np.einsum("ijn,jn->in", P, v)
    guess = rng.uniform(0.2, 2, 5)[:, None]
    off = []
    for steps in range(1, 6):
        gap = conjugate_steps(product, eta, mu, lambda r: guess * r, steps) - exact
        off.append((gap * product(gap)).sum(0))
    assert (np.diff(off, axis=0) <= 1e-9).all() and (off[0] < ((mu - exact) * product(mu - exact)).sum(0)).all()
    assert np.abs(gap).max() < 1e-6
    assert_allclose(conjugate_steps(product, eta, exact, lambda r: guess * r, 3), exact, rtol=1e-9)      # nothing to do


# ---- the fast sweep

@each_family
def test_fast_sweep_is_the_updates_in_their_order(family):
    X, y = small()
    f = LATENT_POSTERIORS[family]
    thrift = Thrift(f, RANKS.get(family, 0), 3)
    p = init_parameters(X, y, 3, 3, 5, PRIORS, np.random.default_rng(0))
    s = local_factors(p, X, y, shared=not f.own, rounds=0)
    blocks, frame = lean_blocks(X, y, 3, 3, 5, thrift), lean_start(p, thrift)
    for _ in range(4):
        blocks, p, frame, bound = lean_sweep(blocks, p, frame, PRIORS, thrift)
        updates = structured_updates(f, frame, thrift.rank)
        for update in cmn.ORDER:
            s = updates[update](s, X, y, PRIORS)
        assert_allclose(bound, elbo(s, X, y, PRIORS), rtol=1e-11)
    for one, two in zip(p, s.parameters):
        assert_allclose(one, two, rtol=1e-7, atol=1e-9)
    if f.shape == "framed":
        assert np.abs(frame - np.eye(3)).max() > 0.1


@some_families
def test_fast_sweep_of_few_steps_and_more_rounds_never_falls(family):
    X, y = small(150, 9)
    for steps, inner in ((1, 1), (2, 2)):
        bounds = fast(family, X, y, 4, 8, 9, sweeps=12, steps=steps, rank=3, inner=inner)[3]
        assert np.diff(bounds).min() > -1e-9 * abs(bounds[-1]), (steps, inner)
        assert bounds[-1] > bounds[0] + 10


@pytest.mark.parametrize("family", ["diagonal", "class-shared", "mean-field-diagonal"])
def test_one_step_a_sweep_gets_where_six_do(family):
    """The means of the last visit are where the next one begins."""
    X, y = small(40, 4)
    ends = []
    for steps in (1, 6):
        thrift = Thrift(LATENT_POSTERIORS[family], steps=steps)
        blocks, p, frame, _ = fast(family, X, y, h=6, L=4, steps=6)
        lean, (block,) = lean_tables(p, blocks, frame, thrift)[0], blocks
        omega, gamma = block.omega[:3], block.gamma
        for _ in range(80):
            _, omega, gamma = lean_estep(prepare(p), block.rows, omega, 1, gamma, lean=lean)
        ends.append(omega)
    assert_allclose(ends[0], ends[1], rtol=1e-6, atol=1e-7)


@some_families
def test_order_and_number_of_blocks_and_threads_do_not_matter(family):
    X, y = small(90, 5)
    whole = fast(family, X, y)
    shuffled = np.random.default_rng(5).permutation(90)
    thrift = Thrift(LATENT_POSTERIORS[family], RANKS.get(family, 0), 3)
    p = init_parameters(X, y, 3, 3, 5, PRIORS, np.random.default_rng(0))
    blocks, frame = [], lean_start(p, thrift)
    for part in (shuffled[:20], shuffled[20:], shuffled[:0]):
        rows = make_blocks(X[part], y[part], 3, 3, 5)[0].rows             # unsorted rows
        one = lean_blocks(X[part], y[part], 3, 3, 5, thrift)
        if one:
            omega = np.repeat(0.25 * rows.b[:, None, :], one[0].omega.shape[1], axis=1)
            blocks.append(one[0]._replace(rows=rows, omega=omega))
    blocks, bounds = tuple(blocks), []
    for _ in range(3):
        blocks, p, frame, bound = lean_sweep(blocks, p, frame, PRIORS, thrift, n_jobs=2)
        bounds.append(bound)
    assert_allclose(bounds, whole[3], rtol=1e-9)
    for one, two in zip(p, whole[1]):
        assert_allclose(one, two, rtol=1e-6, atol=1e-8)


@some_families
def test_weights_are_repeated_rows(family):
    X, y = small(40, 4)
    weight = np.random.default_rng(6).integers(1, 4, 40).astype(float)
    thrift = Thrift(LATENT_POSTERIORS[family], RANKS.get(family, 0), 3)
    p0, many = init_parameters(X, y, 3, 3, 4, PRIORS, np.random.default_rng(0)), np.repeat(np.arange(40), weight.astype(int))
    results = []
    for rows, w in ((np.arange(40), weight), (many, None)):
        blocks, p, frame = lean_blocks(X[rows], y[rows], 3, 3, 4, thrift, w), p0, lean_start(p0, thrift)
        for _ in range(4):
            blocks, p, frame, bound = lean_sweep(blocks, p, frame, PRIORS, thrift)
        results.append((bound, *p))
    for one, two in zip(*results):
        assert_allclose(one, two, rtol=1e-8, atol=1e-10)


def test_an_expert_without_rows_has_the_covariance_of_its_noise():
    X, y = small(30, 3)
    family = LATENT_POSTERIORS["class-shared"]
    blocks, p, frame, _ = fast("class-shared", X, y, L=3)
    empty = tuple(b._replace(gamma=b.gamma * np.array([[1.0], [0.0], [1.0]])) for b in blocks)
    (C, dets), _ = lean_tables(p, empty, frame, Thrift(family))[0].shared, None
    assert_allclose(C[:, 1], np.tile(np.diag(p.b[1] / p.a[1]), (3, 1, 1)), rtol=1e-12)
    assert np.isfinite(dets).all()
    lone = LATENT_POSTERIORS["mean-field-shared"]
    blocks = lean_blocks(X[y < 2], y[y < 2], 3, 3, 3, Thrift(lone))          # a class without rows
    omega, tau = mean_precisions(p, blocks, lone)
    assert not omega[2].any()
    assert_allclose(tau[2, 0], (p.a[:, None] / p.b).mean(0), rtol=1e-12)


def test_each_expert_has_the_better_of_two_frames():
    X, y = small(80, 5)
    thrift = Thrift(LATENT_POSTERIORS["low-rank"])
    blocks, p, frame, _ = fast("low-rank", X, y, rank=0, sweeps=8)
    rng, tau, J = np.random.default_rng(0), p.a[:, None] / p.b, len(p.beta1_mu)
    p = p._replace(beta1_mu=2 * rng.normal(size=p.beta1_mu.shape))
    blocks = tuple(b._replace(omega=0.25 * b.rows.b[:, None] * rng.uniform(size=b.omega[:J].shape)**3) for b in blocks)
    B = (p.beta1_S + p.beta1_mu[:, :, None] * p.beta1_mu[:, None, :])[:, :3, :3]
    omega, gamma = (np.concatenate(parts, -1) for parts in ([b.omega[:J] for b in blocks], [b.gamma for b in blocks]))
    P = np.einsum("lkn,lij->nkij", omega, B) + tau[:, :, None] * np.eye(3)
    value = lambda R: (gamma.T * np.linalg.slogdet(framed_inverse(P, R))[1]).sum(0)
    share = gamma.T / gamma.sum(1)
    frames = lean_start(p, thrift), noise_frames(tau, np.einsum("nk,nkij->kij", share, P) - tau[:, :, None] * np.eye(3))
    better = value(frames[1]) > value(frames[0])
    assert 0 < better.sum() < 3                                                 # one way and the other
    for old in frames:
        found = lean_tables(p, blocks, old, thrift)[1]
        assert_allclose(value(found)[better], value(frames[1])[better], rtol=1e-9)
        assert_allclose(value(found)[~better], value(old)[~better], rtol=1e-9)


@pytest.mark.parametrize("choice", COEFFICIENTS)
def test_restricted_coefficients_have_their_bound_and_are_stationary(choice):
    X, y = small(40, 4)
    fields = COEFFICIENTS[choice]
    thrift = Thrift(Family(True, "free"), fields=fields)
    p = init_parameters(X, y, 3, 3, 4, PRIORS, np.random.default_rng(0))
    s, blocks, frame = local_factors(p, X, y, rounds=0), lean_blocks(X, y, 3, 3, 4, thrift), lean_start(p, thrift)
    updates, value = structured_updates(LATENT_POSTERIORS["full"]), -np.inf
    for _ in range(5):
        blocks, p, frame, bound = lean_sweep(blocks, p, frame, PRIORS, thrift)
        for update in ("x", "omega1", "omega0", "z"):
            s = updates[update](s, X, y, PRIORS)
        best = s
        for update in ("beta1", "beta0", "experts"):
            best = updates[update](best, X, y, PRIORS)
        s = s.replace(**p._asdict())
        assert_allclose(bound, elbo(s, X, y, PRIORS), rtol=1e-11)
        assert bound >= value and (bound < elbo(best, X, y, PRIORS) - 1e-3 if fields else True)
        value = bound
    for field in COVARIANCES:
        found, S = slopes(s, X, y)[field], getattr(p, field)
        if field in fields:
            assert np.abs(np.diagonal(found, axis1=1, axis2=2)).max() < 1e-8
            assert np.count_nonzero(S) == S.shape[0] * S.shape[1]
        else:
            assert np.abs(found).max() < 1e-7
    assert_array_equal(diagonal_mstep.__defaults__, ((),))


def test_estep_of_free_gaussians_is_the_estep_of_the_package():
    X, y = small(50, 4)
    p = init_parameters(X, y, 3, 3, 4, PRIORS, np.random.default_rng(0))
    blocks, p1, bound = block_sweep(make_blocks(X, y, 3, 3, 4), p, PRIORS)
    thrift = Thrift(LATENT_POSTERIORS["full"])
    lean, frame = lean_tables(p, (), lean_start(p, thrift), thrift)
    (block,) = lean_blocks(X, y, 3, 3, 4, thrift)
    sums, omega, gamma = lean_estep(prepare(p), block.rows, block.omega, 1, block.gamma, lean=lean)
    assert omega.shape == blocks[0].omega.shape and gamma.shape == (3, 50)
    tossed = np.broadcast_to(block.rows.b[:, None, :] > 0, omega.shape)
    assert_allclose(omega[tossed], blocks[0].omega[tossed], rtol=1e-10)
    _, p2, _, same = lean_sweep((block,), p, frame, PRIORS, thrift)
    assert_allclose(same, bound, rtol=1e-12)
    for one, two in zip(p1, p2):
        assert_allclose(one, two, rtol=1e-9, atol=1e-11)


# ---- the estimator

def data():
    X, y = make_pinwheels(90, np.random.default_rng(4))
    return X, np.array(list("abcde"))[y]


def model(family="diagonal", **options):
    own = {k: options.pop(k) for k in ("rank", "steps", "coefficients", "checkpoint") if k in options}
    return CMNClassifier.paper(**{"n_experts": 4, "max_sweeps": 12, "tol": 1e-12, "random_state": 0, "method": "structured",
                            "method_options": {"latent_posterior": family, **own}, **options})


@pytest.mark.filterwarnings("ignore:.*not converged")
@pytest.mark.parametrize("omega1", ["per-component", "shared"])
def test_full_is_coordinate_ascent_to_the_bit(omega1):
    X, y = data()
    new = model("full", omega1=omega1, accelerate=True).fit(X, y)
    old = model("full", method="cavi", method_options=None, omega1=omega1, accelerate=True).fit(X, y)
    for one, two in zip((*old.fits_[0].parameters, old.trace_), (*new.fits_[0].parameters, new.trace_)):
        assert_array_equal(one, two)
    assert_array_equal(old.predict_log_proba(X), new.predict_log_proba(X))


@pytest.mark.filterwarnings("ignore:.*not converged")
@some_families
def test_estimator_saves_loads_and_goes_on(family, tmp_path):
    X, y = data()
    est = model(family, coefficients="diagonal-output").fit(X, y)
    est.save(tmp_path / "model.npz")
    again = CMNClassifier.load(tmp_path / "model.npz")
    assert_array_equal(again.predict_log_proba(X), est.predict_log_proba(X))
    assert again.fits_[0].shared == est.fits_[0].shared == (not LATENT_POSTERIORS[family].own)
    assert est.gate(X).shape == (90, 4) and est.experts_.weight.shape == (4,) and not est.converged_
    path = tmp_path / "run.npz"
    model(family, checkpoint=path, max_sweeps=5).fit(X, y)
    rest, whole = model(family, checkpoint=path).fit(X, y), model(family).fit(X, y)
    assert_array_equal(rest.trace_, whole.trace_)
    assert_array_equal(rest.predict_log_proba(X), whole.predict_log_proba(X))
    with pytest.raises(ValueError, match="^checkpoint: expected a run of this problem"):
        model("class-shared" if family == "diagonal" else "diagonal", checkpoint=path).fit(X, y)


@pytest.mark.filterwarnings("ignore:.*not converged")
def test_estimator_by_hand_with_weights():
    X, y = data()
    weight = np.random.default_rng(8).uniform(0.5, 2, 90)
    est = model("mean-field-diagonal", steps=3).fit(X, y, sample_weight=weight)
    Z, codes = (X - est.mean_) / est.scale_, np.unique(y, return_inverse=True)[1]
    thrift = Thrift(LATENT_POSTERIORS["mean-field-diagonal"], steps=3)
    p = init_parameters(Z, codes, 4, 4, 5, Priors(), np.random.default_rng(0).spawn(1)[0], "class-code", weight)
    blocks, frame = lean_blocks(Z, codes, 4, 4, 5, thrift, weight), lean_start(p, thrift)
    for t in range(12):
        blocks, p, frame, bound = lean_sweep(blocks, p, frame, Priors(), thrift)
        assert_allclose(est.trace_[t], bound, rtol=1e-12)


def test_it_stops_when_a_sweep_gains_little():
    X, y = data()
    est = model("class-shared", max_sweeps=300, tol=1e-2).fit(X, y)
    gains = np.diff(est.trace_) / len(X)
    assert est.converged_ and est.n_sweeps_ < 300 and gains[-1] < 1e-2 <= gains[:-1].min()


@pytest.mark.filterwarnings("ignore:.*not converged")
def test_the_saddle_has_not_converged_and_a_wide_block_is_everything():
    X, y = data()
    assert not model("diagonal", init="prior", max_sweeps=60, tol=1e-3).fit(X, y).converged_
    wide, full = model("low-rank", rank=99, steps=9).fit(X, y), model("full").fit(X, y)
    assert_allclose(wide.trace_, full.trace_, rtol=1e-9)


@pytest.mark.parametrize("options, word", [({"family": "thin"}, "latent_posterior"), ({"family": "low-rank", "rank": -1}, "rank"), ({"steps": 0}, "steps"),
                                           ({"coefficients": "round"}, "coefficients"), ({"accelerate": True}, "accelerate, omega1"),
                                           ({"omega1": "shared"}, "accelerate, omega1")])
def test_a_bad_option_is_named(options, word):
    X, y = data()
    with pytest.raises(ValueError, match=rf"^{re.escape(word)}: expected "):
        model(**options).fit(X, y)
    with pytest.raises(ValueError, match="^method_options: expected "):
        model(method_options={"thin": 1}).fit(X, y)
