"""fit, which works block by block from sums, against explicit sweeps of the seven updates; starts, stopping, bad input."""
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracle import cmn
from problems import PRIORS, as_dict

from cmn_literate import cavi
from cmn_literate.cavi import UPDATES, Parameters, State, fit, init_state, sweep
from cmn_literate.elbo import elbo
from cmn_literate.simulate import Priors

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
    monkeypatch.setattr(cavi, "block_size", lambda *args, **kwargs: 16)
    result = fit(X, y, n_experts=K, latent_dim=h, n_classes=L, priors=PRIORS, rng=3, max_sweeps=5, tol=-np.inf, inner=inner, omega1=omega1)
    assert result.n_sweeps == 5 and len(result.elbo) == 5
    state = init_state(X, y, K, h, L, PRIORS, np.random.default_rng(3), shared=omega1 == "shared")
    for number in range(5):
        state = sweep(state, X, y, PRIORS, inner=inner)
        assert_allclose(result.elbo[number], elbo(state, X, y, PRIORS), rtol=1e-10)
    for field in Parameters._fields:
        assert_allclose(getattr(result.parameters, field), getattr(state, field), rtol=1e-8, atol=1e-10, err_msg=field)
    assert_allclose(result.elbo[-1], cmn.elbo(as_dict(state), X, y, PRIORS), rtol=1e-9)


@pytest.mark.parametrize("omega1", OMEGA1)
def test_block_size_does_not_matter(omega1, monkeypatch):
    X, y = data(SIZES[0])
    fits = []
    for rows in (16, 17, 1000):
        monkeypatch.setattr(cavi, "block_size", lambda *args, rows=rows, **kwargs: rows)
        fits.append(fit(X, y, n_experts=3, priors=PRIORS, max_sweeps=20, tol=-np.inf, omega1=omega1))
    for other in fits[1:]:
        assert_allclose(other.elbo, fits[0].elbo, rtol=1e-11)
        for field in Parameters._fields:
            assert_allclose(getattr(other.parameters, field), getattr(fits[0].parameters, field), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize("omega1", OMEGA1)
@each_size
def test_trace_is_monotone_and_below_zero(size, omega1, accelerate):
    X, y = data(size, seed=1)
    for init in ("class-code", "random"):
        result = fit(X, y, n_experts=size[2], latent_dim=size[4], n_classes=size[3], priors=PRIORS, rng=1, init=init, max_sweeps=60, tol=0,
                     omega1=omega1, accelerate=accelerate)
        assert np.all(np.diff(result.elbo) >= -1e-9 * np.abs(result.elbo[:-1]))
        assert result.elbo[-1] <= 0 and np.isfinite(result.elbo).all()


@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize("omega1", OMEGA1)
def test_rebuilt_state_gives_at_least_the_bound_of_the_fit(omega1, accelerate):
    """.state iterates the local factors to their optimum under the fitted parameters: at or above the last bound, locally fixed."""
    X, y = data(SIZES[0])
    result = fit(X, y, n_experts=3, priors=PRIORS, max_sweeps=300, tol=1e-9, omega1=omega1, accelerate=accelerate)
    state = result.state(X, y)
    assert isinstance(state, State)
    assert state.xi1.shape == ((40, 2) if omega1 == "shared" else (40, 3, 2))
    for field in Parameters._fields:
        assert np.array_equal(getattr(state, field), getattr(result.parameters, field))
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
    state = init_state(X, y, K, h, L, PRIORS, np.random.default_rng(0))
    for _ in range(2):
        state = sweep(state, X, y, PRIORS)
    expected = cmn.expand(as_dict(state), PRIORS)
    got = cavi.expand(Parameters(*(getattr(state, f) for f in Parameters._fields)), PRIORS)
    for field in Parameters._fields:
        assert_allclose(getattr(got, field), expected[field], rtol=1e-9, atol=1e-11, err_msg=field)
    gain = cmn.elbo(expected, X, y, PRIORS) - elbo(state, X, y, PRIORS)
    assert gain > 0


def test_accelerated_bound_is_the_bound():
    """The trace of an accelerated fit, against explicit sweeps with the oracle's expansion of the whole state in between."""
    X, y = data(SIZES[0])
    result = fit(X, y, n_experts=3, priors=PRIORS, rng=5, max_sweeps=4, tol=-np.inf, accelerate=True)
    state = init_state(X, y, 3, 2, 3, PRIORS, np.random.default_rng(5))
    for number in range(4):
        state = State(**cmn.expand(as_dict(sweep(state, X, y, PRIORS)), PRIORS))
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
    kicked = state._replace(M=state.M + 1e-3 * rng.normal(size=state.M.shape))
    for _ in range(40):
        state, kicked = sweep(state, X, y, paper), sweep(kicked, X, y, paper)
    assert elbo(kicked, X, y, paper) > elbo(state, X, y, paper) + 10


@pytest.mark.parametrize("omega1", OMEGA1)
def test_a_fit_goes_on_where_it_stopped(omega1):
    X, y = data(SIZES[0])
    args = dict(n_experts=3, priors=PRIORS, tol=-np.inf, omega1=omega1)
    whole = fit(X, y, max_sweeps=8, **args)
    half = fit(X, y, max_sweeps=4, **args)
    assert_allclose(fit(X, y, max_sweeps=8, start=half, **args).elbo, whole.elbo, rtol=1e-13)
    assert len(half.elbo) == 4                                   # the earlier result is not changed


def test_states_are_complete_and_valid():
    for size in SIZES:
        N, d, K, L, h = size
        X, y = data(size)
        for method in ("class-code", "random", "prior"):
            for shared in (False, True):
                s = init_state(X, y, K, h, L, PRIORS, np.random.default_rng(0), method=method, shared=shared)
                arrays = as_dict(s)
                assert list(arrays) == cmn.FIELDS
                shapes = dict(beta1_mu=(L - 1, h + 1), beta1_S=(L - 1, h + 1, h + 1), beta0_mu=(K - 1, d + 1), beta0_S=(K - 1, d + 1, d + 1),
                              M=(K, h, d + 1), V=(K, d + 1, d + 1), a=(K,), b=(K, h), gamma=(N, K), mu=(N, K, h), Sigma=(N, K, h, h),
                              xi1=(N, L - 1) if shared else (N, K, L - 1), xi0=(N, K - 1))
                assert {f: v.shape for f, v in arrays.items()} == shapes
                assert all(np.isfinite(v).all() and v.dtype == np.float64 for v in arrays.values())
                assert_allclose(s.gamma.sum(1), 1, rtol=1e-12)
                assert State(**arrays)._asdict().keys() == arrays.keys()
                value = elbo(s, X, y, PRIORS)
                assert np.isfinite(value) and elbo(sweep(s, X, y, PRIORS), X, y, PRIORS) > value - 1e-9 * abs(value)


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
    (dict(omega1="both"), "omega1")], ids=lambda v: "" if isinstance(v, str) else ",".join(v))
def test_bad_input_is_named(change, message):
    X, y = data((20, 2, 2, 2, 1))
    with pytest.raises(ValueError, match=message), warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(**{**dict(X=X, y=y, n_experts=2, max_sweeps=2), **change})
