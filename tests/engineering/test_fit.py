"""fit, which works block by block from sums, against explicit sweeps of the seven updates; starts, stopping, bad input."""
import pickle
import tracemalloc
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracle import cmn, special
from problems import PRIORS, as_dict
from scipy.special import logsumexp

from cmn_literate.engineering import sums
from cmn_literate.engineering.fit import begin, expand, finish, fit, step
from cmn_literate.engineering.starts import class_code, cluster_labels, code_experts, code_gate, complete_start, init_parameters, soften
from cmn_literate.engineering.sums import Sums, estep, make_rows, prepare
from cmn_literate.ideas.polya_gamma import pg_mean
from cmn_literate.ideas.stick_breaking import stick_counts
from cmn_literate.network.cavi import UPDATES, init_state, sweep
from cmn_literate.network.elbo import elbo, global_kl
from cmn_literate.network.latents import Parameters, State
from cmn_literate.network.simulate import Priors

# (N, d, K, L, h)
SIZES = [(40, 2, 3, 3, 2), (30, 1, 1, 2, 1), (35, 3, 2, 2, 3), (40, 2, 4, 5, 2), (25, 4, 2, 4, 4), (20, 2, 3, 4, 1)]
OMEGA1 = ("per-component", "shared")
each_size = pytest.mark.parametrize("size", SIZES, ids=str)


def data(size, seed=0):
    """Inputs in loose clusters, labels that depend on them with noise."""
    N, d, K, L, h = size
    rng = np.random.default_rng([seed, *size])
    X = rng.normal(size=(N, d)) + 2 * rng.integers(-1, 2, size=(N, 1))
    y = (np.floor(X[:, 0] + 0.3 * rng.normal(size=N)).astype(int)) % L
    return X, y


@pytest.mark.parametrize("inner", [1, 2])
@pytest.mark.parametrize("omega1", OMEGA1)
@each_size
def test_fit_is_the_explicit_sweeps(size, omega1, inner, monkeypatch):
    """Parameters and bound after each of five sweeps, from blocks of 16 rows, against one update after the other."""
    N, d, K, L, h = size
    X, y = data(size)
    monkeypatch.setattr(sums, "block_size", lambda *args, **kwargs: 16)
    result = fit(X, y, n_experts=K, latent_dim=h, n_classes=L, priors=PRIORS, rng=3, max_sweeps=5, tol=-np.inf, inner=inner, omega1=omega1)
    assert result.n_sweeps == 5 and len(result.elbo) == 5
    state = complete_start(X, y, K, h, L, PRIORS, np.random.default_rng(3), shared=omega1 == "shared")
    for number in range(5):
        state = sweep(state, X, y, PRIORS, inner=inner)
        assert_allclose(result.elbo[number], elbo(state, X, y, PRIORS), rtol=1e-10)
    for field in Parameters._fields:
        assert_allclose(getattr(result.parameters, field), state.flat()[field], rtol=1e-8, atol=1e-10, err_msg=field)
    assert_allclose(result.elbo[-1], cmn.elbo(as_dict(state), X, y, PRIORS), rtol=1e-9)


@pytest.mark.parametrize("omega1", OMEGA1)
@each_size
def test_sums_of_an_estep_are_the_loops(size, omega1):
    """Every statistic that one E-step returns, against loops over rows of the oracle's local factors."""
    N, d, K, L, h = size
    X, y = data(size, seed=3)
    X, y = X[:6], y[:6]
    state = init_state(X, y, K, h, L, PRIORS, np.random.default_rng(4), method="random", shared=omega1 == "shared")
    parameters = state.parameters
    start = np.random.default_rng(5).dirichlet(np.ones(K), size=len(y))
    shape = (len(y), 1, L - 1) if omega1 == "shared" else (len(y), K, L - 1)
    xi1 = np.random.default_rng(6).uniform(0.2, 3, size=shape)
    b, kappa = (table[y] for table in stick_counts(np.eye(L)))
    omega = np.moveaxis(b[:, None, :] * pg_mean(1.0, xi1), (0, 2), (2, 0))
    total, omega, gamma = estep(prepare(parameters), make_rows(X, y, L), omega, gamma=start.T if omega1 == "shared" else None)

    s = as_dict(state.replace(gamma=start, xi1=xi1[:, 0] if omega1 == "shared" else xi1))
    for update in ("x", "omega1", "omega0", "z"):
        s = cmn.UPDATES[update](s, X, y, PRIORS)
    assert_allclose(gamma.T, s["gamma"], rtol=1e-9, atol=1e-12)
    scores = np.array([[cmn.score(s, X, y, n, k) for k in range(K)] for n in range(len(y))])
    assert_allclose(total.bound, logsumexp(scores, axis=1).sum(), rtol=1e-10)
    pack = lambda P: np.array([P[i, j] for i in range(len(P)) for j in range(i + 1)])
    expected = Sums(0.0, *(np.zeros(getattr(total, f).shape) for f in Sums._fields[1:]))
    for n in range(len(y)):
        x = cmn.padded(X[n])
        for k in range(K):
            g, r = s["gamma"][n, k], s["mu"][n, k] - s["M"][k] @ x
            expected.n_k[k] += g
            expected.gram[k] += g * pack(np.outer(x, x))
            expected.cross[k] += g * np.outer(r, x)
            expected.squares[k] += g * (r**2 + np.diag(s["Sigma"][n, k]))
            for l in range(L - 1):
                weight = g * special.stick_b(l, y[n]) * special.theta(cmn.tilt1(s, n, k, l))
                expected.output_gram[l] += weight * pack(cmn.latent_moment(s, n, k))
                expected.output_linear[l] += g * special.stick_kappa(l, y[n]) * cmn.padded(s["mu"][n, k])
            for j in range(K - 1):
                expected.gate_gram[j] += g * special.stick_b(j, k) * special.theta(float(s["xi0"][n, j])) * pack(np.outer(x, x))
                expected.gate_linear[j] += g * special.stick_kappa(j, k) * x
    for field in Sums._fields[1:]:
        assert_allclose(getattr(total, field), getattr(expected, field), rtol=1e-9, atol=1e-11, err_msg=field)


@pytest.mark.parametrize("omega1", OMEGA1)
def test_block_size_does_not_matter(omega1, monkeypatch):
    X, y = data(SIZES[0])
    fits = []
    for rows in (16, 17, 1000):
        monkeypatch.setattr(sums, "block_size", lambda *args, rows=rows, **kwargs: rows)
        fits.append(fit(X, y, n_experts=3, priors=PRIORS, max_sweeps=20, tol=-np.inf, omega1=omega1))
    for other in fits[1:]:
        assert_allclose(other.elbo, fits[0].elbo, rtol=1e-11)
        for field in Parameters._fields:
            assert_allclose(getattr(other.parameters, field), getattr(fits[0].parameters, field), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("accelerate", [False, True, "relaxed"])
@pytest.mark.parametrize("omega1", OMEGA1)
@each_size
def test_trace_is_monotone_and_below_zero(size, omega1, accelerate):
    X, y = data(size, seed=1)
    for init in ("class-code", "random"):
        result = fit(X, y, n_experts=size[2], latent_dim=size[4], n_classes=size[3], priors=PRIORS, rng=1, init=init, max_sweeps=60, tol=0,
                     omega1=omega1, accelerate=accelerate)
        assert np.all(np.diff(result.elbo) >= -1e-9 * np.abs(result.elbo[:-1]))
        assert result.elbo[-1] <= 0 and np.isfinite(result.elbo).all()


@pytest.mark.parametrize("accelerate", [False, True, "relaxed"])
@pytest.mark.parametrize("omega1", OMEGA1)
def test_rebuilt_state_gives_at_least_the_bound_of_the_fit(omega1, accelerate):
    """.state iterates the local factors to their optimum under the fitted parameters: at or above the last bound, locally fixed."""
    X, y = data(SIZES[0])
    result = fit(X, y, n_experts=3, priors=PRIORS, max_sweeps=300, tol=1e-9, omega1=omega1, accelerate=accelerate)
    state = result.state(X, y)
    assert isinstance(state, State)
    assert state.local.xi1.shape == ((40, 2) if omega1 == "shared" else (40, 3, 2))
    for field in Parameters._fields:
        assert np.array_equal(state.flat()[field], getattr(result.parameters, field))
    value = elbo(state, X, y, PRIORS)
    assert_allclose(value, cmn.elbo(as_dict(state), X, y, PRIORS), rtol=1e-9)
    assert value >= result.elbo[-1] - 1e-9 * abs(value)
    assert value <= result.elbo[-1] + 1e-3                       # the fit had converged
    for update in ("x", "omega1", "omega0", "z"):
        assert_allclose(elbo(UPDATES[update](state, X, y, PRIORS), X, y, PRIORS), value, rtol=1e-10)


@each_size
def test_expansion_is_the_oracles(size):
    N, d, K, L, h = size
    X, y = data(size, seed=2)
    state = complete_start(X, y, K, h, L, PRIORS, np.random.default_rng(0))
    for _ in range(2):
        state = sweep(state, X, y, PRIORS)
    expected = cmn.expand(as_dict(state), PRIORS)
    got = expand(state.parameters, PRIORS)
    for field in Parameters._fields:
        assert_allclose(getattr(got, field), expected[field], rtol=1e-9, atol=1e-11, err_msg=field)
    gain = cmn.elbo(expected, X, y, PRIORS) - elbo(state, X, y, PRIORS)
    assert gain > 0


def test_accelerated_bound_is_the_bound():
    """The trace of an accelerated fit, against explicit sweeps with the oracle's expansion of the whole state in between."""
    X, y = data(SIZES[0])
    result = fit(X, y, n_experts=3, priors=PRIORS, rng=5, max_sweeps=4, tol=-np.inf, accelerate=True)
    state = complete_start(X, y, 3, 2, 3, PRIORS, np.random.default_rng(5))
    for number in range(4):
        state = State.of(**cmn.expand(as_dict(sweep(state, X, y, PRIORS)), PRIORS))
        assert_allclose(result.elbo[number], cmn.elbo(as_dict(state), X, y, PRIORS), rtol=1e-9)
    plain = fit(X, y, n_experts=3, priors=PRIORS, rng=5, max_sweeps=4, tol=-np.inf)
    assert result.elbo[-1] > plain.elbo[-1]


def test_stopping():
    X, y = data(SIZES[0])
    result = fit(X, y, n_experts=3, priors=PRIORS, max_sweeps=2000, tol=1e-6)
    assert result.converged and result.n_sweeps == len(result.elbo) < 2000
    gains = np.diff(result.elbo)
    assert gains[-1] < 1e-6 * len(X) and np.all(gains[:-1] >= 1e-6 * len(X))
    short = fit(X, y, n_experts=3, priors=PRIORS, max_sweeps=3, tol=1e-6)
    assert not short.converged and short.n_sweeps == 3
    assert_allclose(short.elbo, result.elbo[:3], rtol=1e-13)


def test_same_seed_same_fit_other_seed_other_fit():
    X, y = data(SIZES[0])
    run = lambda seed: fit(X, y, n_experts=3, priors=PRIORS, rng=seed, init="random", max_sweeps=5).elbo[-1]
    assert run(1) == run(1) != run(2)


def test_prior_start_is_the_saddle():
    """Zero means never move although a kick of a thousandth gains more than ten nats."""
    rng = np.random.default_rng(0)
    X, paper = rng.normal(size=(60, 2)), Priors()
    y = (X[:, 0] > 0).astype(int)
    p = fit(X, y, n_experts=2, priors=paper, init="prior", max_sweeps=30).parameters
    assert np.abs(p.M).max() < 1e-12 and np.abs(p.beta1_mu[:, :-1]).max() < 1e-12
    state = init_state(X, y, 2, 1, 2, paper, rng, method="prior")
    kicked = state.replace(M=state.parameters.M + 1e-3 * rng.normal(size=state.parameters.M.shape))
    for _ in range(40):
        state, kicked = sweep(state, X, y, paper), sweep(kicked, X, y, paper)
    assert elbo(kicked, X, y, paper) > elbo(state, X, y, paper) + 10


def assert_same_bits(one, two):
    assert np.array_equal(one.elbo, two.elbo) and one.n_sweeps == two.n_sweeps and one.converged == two.converged
    for field in Parameters._fields:
        assert np.array_equal(getattr(one.parameters, field), getattr(two.parameters, field)), field


def steps(resume, n_sweeps, **how):
    """The same fit after so many sweeps in all."""
    while len(resume.elbo) < n_sweeps:
        resume = step(resume, **how)
    return resume


@pytest.mark.parametrize("accelerate", [False, True, "relaxed"])
@pytest.mark.parametrize("omega1", OMEGA1)
def test_a_fit_goes_on_where_it_stopped(omega1, accelerate, monkeypatch):
    monkeypatch.setattr(sums, "block_size", lambda *args, **kwargs: 16)
    X, y = data(SIZES[0])
    problem, how = dict(n_experts=3, priors=PRIORS, omega1=omega1), dict(tol=-np.inf, accelerate=accelerate)
    whole = fit(X, y, max_sweeps=8, **problem, **how)
    half = steps(begin(X, y, **problem), 4, **how)
    for _ in range(2):                                           # the earlier value is not used up
        assert_same_bits(fit(X, y, max_sweeps=8, start=half, **problem, **how), whole)
        assert_same_bits(finish(steps(half, 8, **how)), whole)
    assert len(half.elbo) == 4
    assert_same_bits(fit(X, y, max_sweeps=4, start=half, **problem, **how), finish(half))
    assert_same_bits(finish(half), fit(X, y, max_sweeps=4, **problem, **how))


def pressed_at(module, name, call, monkeypatch):
    """Somebody presses Ctrl-C in the given call of a function.  -> the calls so far"""
    original, calls = getattr(module, name), []

    def interrupted(*args):
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        return original(*args)

    monkeypatch.setattr(module, name, interrupted)
    return calls


@pytest.mark.parametrize("omega1", OMEGA1)
@pytest.mark.parametrize("name, call, whole_sweeps", [("latent_moments", 1, 0), ("collect", 1, 0), ("collect", 2, 0), ("collect", 3, 0), ("collect", 4, 1),
                                                      ("collect", 8, 2), ("collect", 9, 2), ("mstep", 3, 2), ("expected_log_joint", 3, 2)])
def test_interrupt_in_a_sweep_leaves_no_trace(name, call, whole_sweeps, omega1, monkeypatch):
    """Ctrl-C in any of the three blocks or after the last: what is left is the last whole sweep, and going on is exact."""
    monkeypatch.setattr(sums, "block_size", lambda *args, **kwargs: 16)
    X, y = data(SIZES[0])
    problem, how = dict(n_experts=3, priors=PRIORS, omega1=omega1), dict(tol=-np.inf, accelerate=True)
    whole = fit(X, y, max_sweeps=6, **problem, **how)
    with monkeypatch.context() as patch:
        calls = pressed_at(sums, name, call, patch)
        with pytest.warns(UserWarning, match=f"after {whole_sweeps} whole sweeps"):
            cut = fit(X, y, max_sweeps=6, **problem, **how)
        assert len(calls) == call
    resume = begin(X, y, **problem)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        pressed_at(sums, name, call, patch)
        while True:
            resume = step(resume, **how)
    assert_same_bits(cut, finish(resume))
    assert cut.n_sweeps == whole_sweeps and not cut.converged
    if whole_sweeps:
        assert_same_bits(cut, fit(X, y, max_sweeps=whole_sweeps, **problem, **how))
    for copy in (resume, pickle.loads(pickle.dumps(resume))):
        assert_same_bits(fit(X, y, max_sweeps=6, start=copy, **problem, **how), whole)


def test_interrupt_in_a_callback_keeps_that_sweep():
    X, y = data(SIZES[0])
    seen = []

    def callback(n_sweeps, elbo):
        seen.append((n_sweeps, elbo))
        if n_sweeps == 3:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="after 3 whole sweeps"):
        cut = fit(X, y, n_experts=3, priors=PRIORS, tol=-np.inf, callback=callback)
    assert seen == list(zip((1, 2, 3), cut.elbo))


def test_memory_beyond_inputs_and_tilts_does_not_grow(monkeypatch):
    """Numbers per further row: tilts (old and new), inputs and tosses, a few for the start; not the K h (h + 1) of mu and Sigma."""
    monkeypatch.setattr(sums, "block_size", lambda *args, **kwargs: 200)
    d, K, L, h, peak = 3, 12, 5, 4, {}
    for N in (2000, 6000):
        X, y = data((N, d, K, L, h))
        tracemalloc.start()
        fit(X, y, n_experts=K, n_classes=L, max_sweeps=3)
        peak[N] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    per_row = (peak[6000] - peak[2000]) / 8 / 4000
    assert per_row < 2 * K * (L - 1) + (d + 1) + 2 * (L - 1) + 15


@pytest.mark.parametrize("omega1", OMEGA1)
@pytest.mark.parametrize("what", ["one row", "fewer rows than experts", "duplicated rows", "one point", "constant column",
                                  "huge units", "tiny units", "many experts, d = 1"])
def test_odd_data_fit_and_climb(what, omega1):
    X, y = data((24, 2, 3, 3, 2), seed=4)
    K = 3
    if what == "one row":
        X, y = X[:1], y[:1]
    elif what == "fewer rows than experts":
        X, y, K = X[:4], y[:4], 7
    elif what == "duplicated rows":
        X, y = np.repeat(X[:3], 8, axis=0), np.repeat(y[:3], 8)
    elif what == "one point":
        X = np.repeat(X[:1], 24, axis=0)
    elif what == "constant column":
        X = np.column_stack([X, np.full(24, 7.0)])
    elif what in ("huge units", "tiny units"):
        X = X * (1e6 if what == "huge units" else 1e-6)
    else:
        X, K = X[:, :1], 20
    for init in ("class-code", "random"):
        if what == "huge units" and init == "random":
            continue                                             # means of size 3 times inputs of size 1e6: no sensible start
        result = fit(X, y, n_experts=K, n_classes=3, rng=1, init=init, max_sweeps=40, tol=-np.inf, omega1=omega1)
        assert result.n_sweeps == 40 and np.isfinite(result.elbo).all() and result.elbo[-1] <= 0
        assert np.all(np.diff(result.elbo) >= -1e-9 * np.abs(result.elbo[:-1]))
        for field in Parameters._fields:
            assert np.isfinite(getattr(result.parameters, field)).all()
        assert np.isfinite(elbo(result.state(X, y), X, y, Priors()))


def test_states_are_complete_and_valid():
    for size in SIZES:
        N, d, K, L, h = size
        X, y = data(size)
        for method in ("class-code", "random", "prior"):
            for shared in (False, True):
                s = complete_start(X, y, K, h, L, PRIORS, np.random.default_rng(0), method=method, shared=shared)
                arrays = as_dict(s)
                assert list(arrays) == cmn.FIELDS
                shapes = dict(beta1_mu=(L - 1, h + 1), beta1_S=(L - 1, h + 1, h + 1), beta0_mu=(K - 1, d + 1), beta0_S=(K - 1, d + 1, d + 1),
                              M=(K, h, d + 1), V=(K, d + 1, d + 1), a=(K,), b=(K, h), gamma=(N, K), mu=(N, K, h), Sigma=(N, K, h, h),
                              xi1=(N, L - 1) if shared else (N, K, L - 1), xi0=(N, K - 1))
                assert {f: v.shape for f, v in arrays.items()} == shapes
                assert all(np.isfinite(v).all() and v.dtype == np.float64 for v in arrays.values())
                assert_allclose(s.local.gamma.sum(1), 1, rtol=1e-12)
                assert State.of(**arrays).flat().keys() == arrays.keys()
                value = elbo(s, X, y, PRIORS)
                assert np.isfinite(value) and elbo(sweep(s, X, y, PRIORS), X, y, PRIORS) > value - 1e-9 * abs(value)


def test_class_code():
    """Stick l of class y must be pushed up if y = l, down if y > l, and left alone if y < l."""
    for L in (2, 3, 5):
        for h in (L - 1, L + 1):
            code, weights = class_code(L, h)
            assert code.shape == (L, h) and weights.shape == (L - 1, h)
            for y in range(L):
                for l in range(L - 1):
                    assert np.sign(weights[l] @ code[y]) == (1 if y == l else -1 if y > l else 0)
        if L > 2:                                                # fewer latents: the best approximation of the same logits
            full, few = (np.array([[w @ c for w in weights] for c in code])
                         for code, weights in (class_code(L, L - 1), class_code(L, L - 2)))
            assert 0 < np.linalg.norm(full - few) <= np.linalg.svd(full)[1][-1] + 1e-9


def test_clusters_come_largest_first_and_soften_to_distributions():
    rng = np.random.default_rng(3)
    X = np.concatenate([rng.normal(size=(n, 2)) * 0.1 + centre for n, centre in ((5, [5.0, 0.0]), (40, [0.0, 5.0]), (15, [-5.0, 0.0]))])
    label = cluster_labels(X, 3, np.random.default_rng(0))
    assert np.bincount(label).tolist() == [40, 15, 5] and len(set(label[5:45])) == 1
    gamma = soften(label, 3)
    assert_allclose(gamma.sum(1), 1, rtol=1e-14)
    assert np.array_equal(gamma.argmax(1), label) and gamma.min() > 0
    scaled = cluster_labels(X * [1000.0, 1.0] + [0.0, 7.0], 3, np.random.default_rng(0))
    assert np.array_equal(scaled, label)                         # units do not matter


@each_size
def test_prior_start_is_the_prior_and_random_start_surrounds_it(size):
    N, d, K, L, h = size
    X, y = data(size)
    start = init_parameters(X, y, K, h, L, PRIORS, np.random.default_rng(0), method="prior")
    assert_allclose(list(global_kl(start, PRIORS).values()), 0, atol=1e-10)     # zero divergence: each factor is its prior
    other = init_parameters(X, y, K, h, L, PRIORS, np.random.default_rng(0), method="random")
    for field in ("beta1_mu", "beta0_mu", "M"):
        assert not np.any(getattr(start, field)) and np.all(getattr(other, field))
    for field in ("beta1_S", "beta0_S", "V"):
        S = getattr(other, field)
        assert S.shape == getattr(start, field).shape and np.all(np.linalg.eigvalsh(S) > 1e-6)


@each_size
def test_class_code_start_is_the_oracles_updates_under_soft_labels(size):
    """q(A, tau) and q(beta_0) of the start, from the loops: gamma softened clusters, x1 its target for certain."""
    N, d, K, L, h = size
    X, y = data(size, seed=4)
    rng = np.random.default_rng(1)
    label, target = rng.integers(0, K, size=N), rng.normal(size=(N, h))
    s = dict(gamma=soften(label, K), mu=np.repeat(target[:, None], K, axis=1), Sigma=np.zeros((N, K, h, h)),
             beta1_mu=np.zeros((L - 1, h + 1)), M=np.zeros((K, h, d + 1)), beta0_mu=np.zeros((K - 1, d + 1)),
             beta0_S=np.tile(np.eye(d + 1), (K - 1, 1, 1)))
    expected = cmn.update_experts(s, X, y, PRIORS)
    for block_rows in (7, 512):
        got = code_experts(X, label, target, K, PRIORS, block_rows=block_rows)
        for field, value in zip(("M", "V", "a", "b"), got):
            assert_allclose(value, expected[field], rtol=1e-9, atol=1e-10, err_msg=field)
        once = s
        for _ in range(3):
            once = cmn.update_beta0(cmn.update_omega0(once, X, y), X, y, PRIORS)
        for field, value in zip(("beta0_mu", "beta0_S"), code_gate(X, label, K, PRIORS, rounds=3, block_rows=block_rows)):
            assert_allclose(value, once[field], rtol=1e-9, atol=1e-10, err_msg=field)


def test_one_class_missing_from_the_rows():
    """n_classes may exceed the labels seen; a class never seen keeps finite factors."""
    X, y = data((30, 2, 2, 2, 1))
    result = fit(X, y, n_experts=2, n_classes=4, priors=PRIORS, max_sweeps=20)
    assert result.parameters.beta1_mu.shape == (3, 4) and np.isfinite(result.elbo).all()


@pytest.mark.parametrize("change,message", [
    (dict(X=np.zeros(5)), "X"), (dict(X=np.full((20, 2), np.nan)), "X"), (dict(X=np.full((20, 2), np.inf)), "X"),
    (dict(X=np.array([["a", "b"]] * 20)), "X"), (dict(X=np.zeros((20, 0))), "X"), (dict(y=np.zeros(19, int)), "y"),
    (dict(y=-np.ones(20, int)), "y"), (dict(y=np.full(20, 0.5)), "y"), (dict(y=np.full(20, 7), n_classes=3), "y"),
    (dict(y=np.array(["0"] * 20)), "y"), (dict(n_experts=0), "n_experts"), (dict(n_experts=2.5), "n_experts"), (dict(latent_dim=0), "latent_dim"),
    (dict(n_classes=1), "n_classes"), (dict(inner=0), "inner"), (dict(max_sweeps=0), "max_sweeps"), (dict(init="warm"), "class-code"),
    (dict(omega1="both"), "omega1"), (dict(init=None), "init"), (dict(tol="small"), "tol"), (dict(tol=np.nan), "tol"), (dict(tol=None), "tol"),
    (dict(tol=True), "tol"), (dict(max_sweeps=2.0), "max_sweeps"), (dict(rng="seed"), "rng"), (dict(rng=-1), "rng"), (dict(rng=None), "rng"),
    (dict(rng=1.5), "rng"), (dict(rng=np.random.RandomState(0)), "rng"), (dict(priors=None), "priors"), (dict(X=np.zeros((0, 2)), y=np.zeros(0, int)), "X"),
    (dict(y=np.zeros(20, int)), "two classes"), (dict(start=3), "start"),
    (dict(callback="print"), "callback: expected"), (dict(accelerate="no"), "accelerate: expected"), (dict(accelerate=None), "accelerate: expected"),
    (dict(X=np.ma.array(np.zeros((20, 2)), mask=np.eye(20, 2))), "X: expected every entry"),
    (dict(y=np.ma.array(np.arange(20) % 2, mask=np.arange(20) == 3)), "y: expected every entry")], ids=lambda v: "" if isinstance(v, str) else ",".join(v))
def test_bad_input_is_named(change, message):
    X, y = data((20, 2, 2, 2, 1))
    with pytest.raises(ValueError, match=message), warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(**{**dict(X=X, y=y, n_experts=2, max_sweeps=2), **change})


@pytest.mark.parametrize("change", [
    "other inputs", "other labels", "fewer rows", "more rows", "other columns", "n_experts", "latent_dim", "n_classes", "omega1", "priors", "a fit"])
def test_start_from_another_problem_is_refused(change):
    X, y = data((20, 2, 2, 3, 2))
    args = dict(n_experts=2, n_classes=3, priors=PRIORS, max_sweeps=2)
    problem = {name: args[name] for name in ("n_experts", "n_classes", "priors")}
    start = steps(begin(X, y, **problem), 2)
    assert fit(X.copy(), y.copy(), **{**args, "max_sweeps": 3}, start=start).n_sweeps == 3
    moved = X.copy()
    moved[-1, 0] += 1e-9
    X, y = {"other inputs": (moved, y), "other labels": (X, (y + 1) % 3), "fewer rows": (X[:-1], y[:-1]), "more rows": (X[[*range(20), 0]], y[[*range(20), 0]]),
            "other columns": (X[:, :1], y)}.get(change, (X, y))
    args |= {"n_experts": dict(n_experts=3), "latent_dim": dict(latent_dim=1), "n_classes": dict(n_classes=4), "omega1": dict(omega1="shared"),
             "priors": dict(priors=Priors())}.get(change, {})
    if change == "a fit":
        start = finish(start)
    with pytest.raises(ValueError, match="start"):
        fit(X, y, **args, start=start)


def test_a_converged_fit_stays_or_goes_on():
    X, y = data(SIZES[0])
    args = dict(n_experts=3, priors=PRIORS)
    done = begin(X, y, **args)
    while not done.converged:
        done = step(done, tol=1e-3)
    again = fit(X, y, tol=1e-3, start=done, max_sweeps=len(done.elbo), **args)
    assert again.converged and again.n_sweeps == len(done.elbo)
    assert_same_bits(again, fit(X, y, tol=1e-3, **args))
    further = fit(X, y, tol=1e-5, start=done, **args)
    assert further.converged and further.n_sweeps > again.n_sweeps
    assert np.array_equal(further.elbo, fit(X, y, tol=1e-5, **args).elbo)


def copied(value):
    """An array, a nested tuple of arrays or anything else, every array copied."""
    return value.copy() if isinstance(value, np.ndarray) else tuple(map(copied, value)) if isinstance(value, tuple) else value


def same(one, two):
    return np.array_equal(one, two) if isinstance(one, np.ndarray) else all(map(same, one, two)) if isinstance(one, tuple) else one is two or one == two


@pytest.mark.parametrize("omega1", OMEGA1)
def test_a_step_changes_nothing_that_it_is_given(omega1, monkeypatch):
    """Neither the Resume nor X, y, NumPy's buffers or error states; and another kernel may take the place of the E-step."""
    monkeypatch.setattr(sums, "block_size", lambda *args, **kwargs: 16)
    X, y = data(SIZES[0])
    resume = begin(X, y, n_experts=3, priors=PRIORS, omega1=omega1)
    before, given, settings = copied(tuple(resume)), (X.copy(), y.copy()), (np.getbufsize(), np.geterr())
    seen = []
    after = step(resume, accelerate=True, estep=lambda *args: (seen.append(1), estep(*args))[1])
    assert same(before, tuple(resume)) and same(given, (X, y)) and settings == (np.getbufsize(), np.geterr())
    assert len(seen) == len(resume.blocks) == 3 and not same(before, tuple(after))
    assert same(tuple(after), tuple(step(resume, accelerate=True)))


def test_a_fit_holds_no_row():
    """The size of a pickled Fit does not depend on N, and no value of the data is in its bytes; a Resume does hold them."""
    X, y = data((40_000, 3, 4, 3, 2))
    large, small = (fit(X[:n], y[:n], n_experts=4, n_classes=3, max_sweeps=2) for n in (40_000, 500))
    stored = pickle.dumps(large)
    assert len(stored) == len(pickle.dumps(small)) < 64_000
    assert not any(value.tobytes() in stored for value in X[::20].ravel())
    resume = begin(X, y, n_experts=4)
    assert X[7, 1].tobytes() in pickle.dumps(resume) and len(pickle.dumps(finish(resume))) < 64_000
