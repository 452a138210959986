"""The network with any output: every update and the bound against loops, slopes zero, never downhill, limits, starts, bad input."""
import re

import numpy as np
import pytest
from autograd import grad
from numpy.testing import assert_allclose, assert_array_equal
from oracle import cmn
from oracle import regression as loops
from problems import PRIORS, random_spd
from scipy import stats

from cmn_literate.beyond.outputs import Coins, Line, Pull, count_output, gaussian_output, known_output, latent_posterior, sticks_output
from cmn_literate.beyond.regression import (
    NETWORK_UPDATES, Globals, Hidden, Model, Whole, fit_network, network_elbo, network_kl, network_scores, network_start, network_sweep, predict_log_density)
from cmn_literate.ideas.expfam import pad
from cmn_literate.network.cavi import init_state, sweep
from cmn_literate.network.elbo import elbo
from cmn_literate.network.experts import regression_log_evidence

OWN = {"gaussian": (0.8, 2.2, 0.7), "counts": (2.5,)}
# (kind, N, d, K, h, m, v00): ordinary; one expert; more numbers than latents; one of everything; counts
CASES = [("gaussian", 5, 2, 3, 2, 2, 0.9), ("gaussian", 4, 1, 1, 2, 1, 0.0), ("gaussian", 4, 2, 2, 1, 3, 0.4), ("gaussian", 3, 1, 1, 1, 1, 0.0),
         ("counts", 5, 2, 3, 2, 1, 0.9), ("counts", 3, 1, 2, 1, 1, 0.0)]
each = pytest.mark.parametrize("case", CASES, ids=lambda c: "-".join(map(str, c)))
OLD = ("beta0_mu", "beta0_S", "M", "V", "a", "b")


def problem(case, seed=0):
    """(Whole far from any optimum, X, y, Model, the same as a dict for the oracle)."""
    kind, N, d, K, h, m, v00 = case
    rng, D = np.random.default_rng([7, seed, N, K, h]), d + 1
    m = m if kind == "gaussian" else 1
    spd = lambda *shape: random_spd(rng, *shape) / 4 + 0.1 * np.eye(shape[-1])
    mean, var = rng.normal(size=(h, D)) * (v00 > 0), rng.uniform(0.2, 1, h) * (v00 > 0)
    if kind == "gaussian":
        F, out = Line(rng.normal(size=(1, m, h + 1)), spd(1, h + 1), np.array([3.1]), rng.uniform(1, 3, (1, m))), gaussian_output(*OWN[kind])
        y, memory = rng.normal(size=(N, m)), np.zeros((N, 0))
    else:
        F, out = Coins(rng.normal(size=(1, h + 1)), spd(1, h + 1)), count_output(*OWN[kind])
        y, memory = rng.poisson(3.0, N).astype(float), rng.uniform(0.1, 3, (N, K, 1))
    g = Globals(F, rng.normal(size=(K - 1, D)), spd(K - 1, D) if K > 1 else np.zeros((0, D, D)), rng.normal(size=(K, h, D)), spd(K, D),
                rng.uniform(2, 5, K), rng.uniform(1, 3, (K, h)), mean, var)
    q = Hidden(rng.dirichlet(np.ones(K), N), rng.normal(size=(N, K, h)), spd(N, K, h), memory, rng.uniform(0.1, 3, (N, K - 1)))
    s = Whole(g, q)
    return s, rng.normal(size=(N, d)), y, Model(out, PRIORS, v00), as_dict(s)


def as_dict(s):
    g, q = s
    F, h = g.output, g.M.shape[1]
    d = {name: getattr(g, name) for name in OLD} | {"A0_mean": g.mean, "A0_var": g.var}
    d |= {name: getattr(q, name) for name in ("gamma", "mu", "Sigma", "xi0")}
    if isinstance(F, Line):
        return d | {"map_M": F.M[0], "map_V": F.V[0], "map_a": F.a[0], "map_b": F.b[0], "beta1_mu": np.zeros((0, h + 1)), "beta1_S": np.zeros((0, h + 1, h + 1))}
    return d | {"beta1_mu": F.mu, "beta1_S": F.S, "xi1": q.memory}


@each
def test_updates_scores_and_bound_agree_with_the_loops(case):
    s, X, y, model, d = problem(case)
    own, (N, K) = OWN[case[0]], s.hidden.gamma.shape
    assert set(NETWORK_UPDATES) == set(loops.UPDATES)
    assert_allclose(network_elbo(s, X, y, model), loops.elbo(d, X, y, PRIORS, model.v00, own), rtol=1e-8)
    assert_allclose(network_scores(s, X, y, model), [[loops.score(d, X, y, n, k, own) for k in range(K)] for n in range(N)], rtol=1e-9, atol=1e-9)
    assert_allclose(model.output.kl(s.globals.output, PRIORS), loops.kl_output(d, PRIORS, own), rtol=1e-7)
    for name, update in NETWORK_UPDATES.items():
        new, expected = as_dict(update(s, X, y, model)), loops.UPDATES[name](d, X, y, PRIORS, model.v00, own)
        for field, value in new.items():
            assert_allclose(value, expected[field], rtol=1e-8, atol=1e-9, err_msg=f"{name} {field}")


FIELDS = {"x": ("mu", "Sigma"), "memory": ("memory",), "omega0": ("xi0",), "beta0": ("beta0_mu", "beta0_S"), "experts": ("M", "V", "a", "b"),
          "shared": ("mean", "var")}


@each
def test_slope_is_zero_after_each_update(case):
    s, X, y, model, _ = problem(case, 1)
    for name, update in NETWORK_UPDATES.items():
        after = update(s, X, y, model)
        F = after.globals.output
        inner = name == "output"
        for field in F._fields if inner else FIELDS.get(name, ()):
            part = F if inner else next(p for p in (after.globals, after.hidden) if field in p._fields)
            at = getattr(part, field)
            if not at.size or name == "shared" and model.v00 == 0:
                continue
            put = lambda v: after.replace(output=F._replace(**{field: v}) if inner else F, **({} if inner else {field: v}))
            steep = grad(lambda v: network_elbo(put(v), X, y, model))(at)
            if field in ("V", "S", "Sigma", "beta0_S"):
                steep = steep + np.swapaxes(steep, -1, -2)
            assert np.abs(steep).max() < 1e-8, f"{name} {field}"


@pytest.mark.parametrize("case", [CASES[0], CASES[2], CASES[4]], ids=lambda c: c[0] + str(c[5]))
def test_bound_never_falls_in_two_hundred_random_orders(case):
    s, X, y, model, _ = problem(case, 2)
    rng, value = np.random.default_rng(3), -np.inf
    for number in range(200):
        for at, name in enumerate(rng.permutation(list(NETWORK_UPDATES)), 1):
            s = NETWORK_UPDATES[name](s, X, y, model)
            if number < 10 or at == len(NETWORK_UPDATES):
                new = float(network_elbo(s, X, y, model))
                assert new > value - 1e-9 * abs(value), (number, name)
                value = new


@each
def test_weights_of_rows(case):
    """Whole weights are copies, and the bound is linear in any weights and rises."""
    s, X, y, model, _ = problem(case, seed=2)
    N, rng = len(X), np.random.default_rng(6)
    times = np.arange(N) % 3
    some = np.repeat(np.arange(N), times)
    copies = Whole(s.globals, Hidden(*(part[some] for part in s.hidden)))
    assert_allclose(network_elbo(s, X, y, model, times), network_elbo(copies, X[some], y[some], model), rtol=1e-11)
    one, other = network_sweep(s, X, y, model, times), network_sweep(copies, X[some], y[some], model)
    for u, v in zip((*one.globals[1:], *one.globals.output), (*other.globals[1:], *other.globals.output)):
        assert_allclose(u, v, rtol=1e-8, atol=1e-10)
    weight = rng.uniform(0.2, 2.5, N)
    nothing, rows = network_elbo(s, X, y, model, np.zeros(N)), np.array([network_elbo(s, X, y, model, row) for row in np.eye(N)])
    assert_allclose(network_elbo(s, X, y, model, weight), nothing + weight @ (rows - nothing), rtol=1e-10)
    value = -np.inf
    for _ in range(6):
        s = network_sweep(s, X, y, model, weight)
        assert network_elbo(s, X, y, model, weight) >= value - 1e-9 * abs(value)
        value = network_elbo(s, X, y, model, weight)


def test_a_weighted_fit_is_the_fit_of_copies():
    X, rng = np.random.default_rng(0).normal(size=(40, 2)), np.random.default_rng(1)
    times = 3 * rng.integers(0, 3, 40)
    some = np.repeat(np.arange(40), times)
    for output, y in ((gaussian_output(), X @ [[1.0], [0.5]] + 0.1 * rng.normal(size=(40, 1))), (count_output(2.0), rng.poisson(3.0, 40).astype(float))):
        model = Model(output, PRIORS, 0.5)
        one, other = (fit_network(*rows, model, 3, rng=2, max_sweeps=60, tol=3e-3, sample_weight=w) for *rows, w in ((X, y, times), (X[some], y[some], None)))
        assert one.converged and one.n_sweeps == other.n_sweeps > 3
        assert_allclose(one.elbo, other.elbo, rtol=1e-9)
        with pytest.raises(ValueError, match="^sample_weight: expected"):
            fit_network(X, y, model, 3, sample_weight=times[:5])


def test_sticks_are_the_classifier():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(30, 3)), rng.integers(0, 4, 30)
    state, model = init_state(X, y, 3, 2, 4, PRIORS, 5), Model(sticks_output(4), PRIORS)
    p, q = state.parameters, state.local
    s = Whole(Globals(Coins(p.beta1_mu, p.beta1_S), *p[2:], np.zeros((2, 4)), np.zeros(2)), Hidden(q.gamma, q.mu, q.Sigma, q.xi1, q.xi0))
    for _ in range(4):
        state, s = sweep(state, X, y, PRIORS), network_sweep(s, X, y, model)
        assert_allclose(network_elbo(s, X, y, model), elbo(state, X, y, PRIORS), rtol=1e-12)
    for one, two in zip((*s.globals.output, *s.globals[1:7], *s.hidden), (*state.parameters, *state.local)):
        assert_allclose(one, two, rtol=1e-10, atol=1e-12)


def test_one_expert_and_a_known_map_is_bayesian_regression():
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(30, 2)), rng.normal(size=(30, 1))
    found = fit_network(X, y, Model(known_output([[1.0, 0.0]]), PRIORS), 1, max_sweeps=30, tol=1e-12)
    P = np.eye(3) / PRIORS.v0 + pad(X).T @ pad(X)
    M = np.linalg.solve(P, pad(X).T @ y)[:, 0]
    assert_allclose(found.elbo[-1], regression_log_evidence(pad(X), y, PRIORS.v0, PRIORS.a0, PRIORS.b0), atol=1e-5)
    assert_allclose(found.globals.M[0, 0], M, atol=1e-6)
    assert_allclose(found.globals.a, PRIORS.a0 + 15)
    rate = PRIORS.b0 + 0.5 * (((y[:, 0] - pad(X) @ M) ** 2).sum() + M @ M / PRIORS.v0)
    assert_allclose(found.globals.b, [[rate]], rtol=1e-6)


def test_duplicated_columns_of_y_and_no_rows():
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=(20, 2)), rng.normal(size=(20, 1))
    two = fit_network(X, np.hstack([y, y]), Model(gaussian_output(), PRIORS), 2, max_sweeps=20).globals.output
    assert_allclose(two.M[0, 0], two.M[0, 1], rtol=1e-9) if two.M.shape[-1] > 2 else assert_allclose(two.b[0, 0], two.b[0, 1], rtol=1e-6)
    s, _, _, model, _ = problem(CASES[1])
    s = s._replace(hidden=Hidden(*(v[:0] for v in s.hidden)))
    empty = network_sweep(s, np.zeros((0, 1)), np.zeros((0, 1)), model)
    assert_allclose(network_elbo(empty, np.zeros((0, 1)), np.zeros((0, 1)), model), 0, atol=1e-10)
    assert_allclose(network_kl(empty.globals, model), 0, atol=1e-10)
    assert_allclose(empty.globals.output.b[0], OWN["gaussian"][2])


def test_pull_of_all_rows_is_the_sum_of_its_parts():
    """Two outputs of the same latent: their pulls, put side by side, add."""
    rng = np.random.default_rng(7)
    g = problem(CASES[0])[0].globals
    one, two = (Pull(rng.normal(size=(1, 3)), random_spd(rng, 1, 3), rng.normal(size=(5, 1)), np.ones((1, 1, 1))) for _ in range(2))
    both = Pull(*(np.concatenate([a, b], axis) for a, b, axis in zip(one, two, (0, 0, 1, 2))))
    X = rng.normal(size=(5, 2))
    mu, Sigma = latent_posterior(X, g, both)
    P = [np.linalg.inv(latent_posterior(X, g, pull)[1]) for pull in (one, two)]
    assert_allclose(np.linalg.inv(Sigma), P[0] + P[1] - np.eye(2) * (g.a[:, None] / g.b)[:, :, None], rtol=1e-9)


def test_start_and_its_seeds():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(40, 2))
    y = X[:, :1] + 0.1 * rng.normal(size=(40, 1))
    model = Model(gaussian_output(), PRIORS, 0.5)
    s = network_start(X, y, model, 3, 2, np.random.default_rng(1))
    F = s.globals.output
    assert_allclose(F.M, [[[1 / 3, 0, 0]]])
    assert_allclose(F.b[0] / F.a, [0.01])
    assert_allclose(s.globals.var, 0.5) and not s.globals.mean.any()
    assert_allclose(s.hidden.gamma, 1 / 3)
    assert np.abs(s.hidden.mu[:, :, 0] - 3 * y).max() < 2
    a, b, c = (fit_network(X, y[:, 0], model, 3, rng=seed, max_sweeps=5) for seed in (1, np.random.default_rng(1), 2))
    assert_array_equal(a.elbo, b.elbo)
    assert (a.elbo != c.elbo).any()
    one, two = (network_start(X, y, model, 1, 1, np.random.default_rng(seed)).globals.M for seed in (1, 2))
    assert 1e-6 < np.abs(one - two).max() < 0.2                                          # the noise that leaves the saddle
    wide, target = gaussian_output().start(np.column_stack([y, 2 * y, -y]), 1)          # one direction holds all three
    assert_allclose(target @ wide.M[0, :, :1].T, np.column_stack([y, 2 * y, -y]), atol=1e-12)
    count, logit = count_output(4.0).start(np.array([0.0, 4.0]), 2)
    assert_allclose(logit, [[np.log(0.5 / 4), 0], [np.log(4.5 / 4), 0]])
    assert_allclose(count.mu, [[1, 0, 0]])


def test_a_fit_goes_on_from_its_file(tmp_path):
    rng = np.random.default_rng(9)
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    model, path = Model(gaussian_output(), PRIORS), tmp_path / "run.npz"
    whole = fit_network(X, y, model, 2, max_sweeps=6, tol=1e-12)
    fit_network(X, y, model, 2, max_sweeps=2, tol=1e-12, checkpoint=path)
    again = fit_network(X, y, model, 2, max_sweeps=6, tol=1e-12, checkpoint=path)
    assert_array_equal(whole.elbo, again.elbo)
    for one, two in zip((*whole.globals.output, *whole.globals[1:]), (*again.globals.output, *again.globals[1:])):
        assert_array_equal(one, two)
    for other in (model._replace(output=gaussian_output(v1=2.0)), model._replace(v00=1.0), model._replace(priors=PRIORS(v0=1.0))):
        with pytest.raises(ValueError, match="^checkpoint: expected a run of this problem"):
            fit_network(X, y, other, 2, max_sweeps=6, tol=1e-12, checkpoint=path)
    with pytest.raises(ValueError, match="^checkpoint: expected a run of this problem"):
        fit_network(X, y, model, 2, max_sweeps=6, tol=1e-12, checkpoint=path, sample_weight=np.full(len(X), 2.0))


def test_it_stops_where_a_sweep_gains_little_per_row():
    rng = np.random.default_rng(10)
    X, y = rng.normal(size=(50, 2)), rng.normal(size=50)
    found = fit_network(X, y, Model(gaussian_output(), PRIORS), 2, tol=1e-3)
    gains = np.diff(found.elbo)
    assert found.converged and gains[-1] < 1e-3 * 50 <= gains[:-1].min()


def test_interrupt_keeps_what_is_done():
    rng = np.random.default_rng(11)
    X, y = rng.normal(size=(20, 2)), rng.normal(size=20)

    def stop(n, value):
        if n == 3:
            raise KeyboardInterrupt
    with pytest.warns(UserWarning, match="^interrupted: this is the fit after 3 whole sweeps"):
        found = fit_network(X, y, Model(gaussian_output(), PRIORS), 2, callback=stop)
    assert found.n_sweeps == 3 and not found.converged


def test_float32_and_lists_are_float64_inside():
    rng = np.random.default_rng(12)
    X, y = rng.normal(size=(20, 2)).astype(np.float32), rng.normal(size=20).astype(np.float32)
    model = Model(gaussian_output(), PRIORS)
    one, two = fit_network(X, y, model, 2, max_sweeps=3), fit_network(X.tolist(), y.tolist(), model, 2, max_sweeps=3)
    assert_array_equal(one.elbo, two.elbo)
    assert one.globals.M.dtype == np.float64


@pytest.mark.parametrize("change, message", [
    ({"X": [[np.nan]]}, "X: expected"), ({"X": np.zeros((0, 1)), "y": []}, "X: expected at least one row"), ({"y": [1.0, 2.0]}, "y: expected 1 rows"),
    ({"y": [[np.inf]]}, "y: expected"), ({"y": np.zeros((1, 0))}, "y: expected"), ({"model": None}, "model: expected Model"),
    ({"n_experts": 0}, "n_experts: expected"), ({"latent_dim": 0}, "latent_dim: expected"), ({"rng": "a"}, "rng: expected"),
    ({"tol": np.nan}, "tol: expected"), ({"callback": 3}, "callback: expected"), ({"max_sweeps": 1.5}, "max_sweeps: expected")])
def test_bad_arguments_are_named(change, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        fit_network(**{"X": [[1.0]], "y": [0.5], "model": Model(gaussian_output(), PRIORS)} | change)


@pytest.mark.parametrize("y", [[0.5], [-1.0], [np.nan], [[1.0]], [1.0, 2.0]])
def test_counts_are_whole_numbers(y):
    with pytest.raises(ValueError, match="^y: expected 1 whole numbers >= 0"):
        fit_network([[1.0]], y, Model(count_output(2.0), PRIORS))


def test_forecast_of_one_expert_is_students_t():
    """A known map without noise leaves the expert's own t, here made smooth by a little noise."""
    rng = np.random.default_rng(13)
    X, y = rng.normal(size=(12, 1)), rng.normal(size=12)
    g = fit_network(X, y, Model(known_output([[1.0, 0.0]], noise=1e-3), PRIORS), 1, max_sweeps=50).globals
    at = np.array([-1.5, 0.2, 2.0])
    found = predict_log_density(g, known_output([[1.0, 0.0]], noise=1e-3), np.zeros((3, 1)), at, 4000)
    scale = np.sqrt((1 + g.V[0, 1, 1]) * g.b[0, 0] / g.a[0])
    assert_allclose(found, stats.t.logpdf(at, 2 * g.a[0], g.M[0, 0, 1], scale), atol=5e-3)
    with pytest.raises(ValueError, match="1 columns, got 2"):
        predict_log_density(g, gaussian_output(), np.zeros((3, 2)), at)


def test_counts_are_learned():
    rng = np.random.default_rng(14)
    X = rng.uniform(-2, 2, (150, 1))
    y = rng.negative_binomial(5, 1 / (1 + np.exp(np.sin(2 * X[:, 0]) - 0.3)))
    out = count_output(5.0)
    g = fit_network(X, y, Model(out, PRIORS), 4, max_sweeps=40).globals
    at, counts = np.repeat([-0.8, 0.8], 60)[:, None], np.tile(np.arange(60.0), 2)
    mean = (counts * np.exp(predict_log_density(g, out, at, counts, 20))).reshape(2, 60).sum(1)
    assert_allclose(mean, 5 * np.exp(np.sin([-1.6, 1.6]) - 0.3), rtol=0.6)
    assert mean[1] > 3 * mean[0]


def test_oracle_and_package_disagree_where_a_fault_is_planted():
    s, X, y, model, d = problem(CASES[0])
    wrong = s.replace(output=s.globals.output._replace(b=2 * s.globals.output.b))
    assert abs(network_elbo(wrong, X, y, model) - loops.elbo(d, X, y, PRIORS, model.v00, OWN["gaussian"])) > 1e-2
    assert cmn.sizes({**d, "xi1": np.zeros((5, 3, 0))})[1] == 3
