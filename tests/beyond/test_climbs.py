"""Ways to climb, averages of ends, and what q is worth: by other routes than the chapter's."""
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

from cmn_literate.beyond import climbs as ways
from cmn_literate.engineering.fit import begin, fit
from cmn_literate.engineering.starts import hyperplane_labels
from cmn_literate.engineering.sums import block_sweep
from cmn_literate.network.cavi import UPDATES, local_factors, prior_start, random_start
from cmn_literate.network.elbo import elbo
from cmn_literate.network.experts import expert_update
from cmn_literate.network.gate import gate_tilt, gate_update
from cmn_literate.network.latents import Parameters
from cmn_literate.network.predict import sample_parameters
from cmn_literate.network.simulate import Priors, Theta, sample_theta

PRIORS = Priors(v0=3.0, a0=2.5, b0=0.7, sigma0=2.0, sigma1=1.5)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    return X, (X[:, 0] + 0.5 * rng.normal(size=40) > 0).astype(int) + (np.abs(X[:, 1]) > 1)


def test_near_has_the_mean_and_the_variance_it_says():
    theta = sample_theta(PRIORS, 3, 2, 4, 2, np.random.default_rng(1))
    q = ways.near(theta, variance=0.04, a=25.0)
    draws = sample_parameters(q, np.random.default_rng(2), 4000)
    for name in Theta._fields:
        got, want = getattr(draws, name), getattr(theta, name)
        np.testing.assert_allclose(got.mean(0), want, atol=0.03 + 0.03 * np.abs(want).max())
    np.testing.assert_allclose(draws.beta1.std(0), 0.2, rtol=0.08)
    np.testing.assert_allclose(draws.tau.std(0) / theta.tau, 0.2, rtol=0.08)
    np.testing.assert_allclose((draws.A.std(0) * np.sqrt(theta.tau)[..., None]), 0.2, rtol=0.1)


def test_tempered_rows_count_less_and_come_back(rows):
    X, y = rows
    one = begin(X, y, 3, n_classes=3, priors=PRIORS)
    thrice = begin(np.repeat(X, 3, 0), np.repeat(y, 3), 3, n_classes=3, priors=PRIORS)._replace(parameters=one.parameters)
    for u, v in zip(ways.tempered(thrice, hot=3.0, sweeps=1).parameters, block_sweep(one.blocks, one.parameters, PRIORS)[1]):
        np.testing.assert_allclose(u, v, rtol=1e-8, atol=1e-10)
    p, blocks = one.parameters, one.blocks                      # T = 9, 3
    for share in (1 / 9, 1 / 3):
        light = tuple(b._replace(rows=b.rows._replace(weight=np.full(40, share))) for b in blocks)
        blocks, p, _ = block_sweep(light, p, PRIORS)
    found = ways.tempered(one._replace(elbo=(1.0,)), hot=9.0, sweeps=2)
    for u, v in zip(found.parameters, p):
        np.testing.assert_allclose(u, v, rtol=1e-10, atol=1e-12)
    assert found.elbo == () and not found.converged and found.blocks[0].rows.weight is None
    np.testing.assert_allclose(found.blocks[0].omega, blocks[0].omega, rtol=1e-12)
    weighted = begin(X, y, 3, n_classes=3, priors=PRIORS, sample_weight=np.full(40, 3.0))._replace(parameters=one.parameters)
    for u, v in zip(ways.tempered(weighted, hot=3.0, sweeps=1).parameters, block_sweep(one.blocks, one.parameters, PRIORS)[1]):
        np.testing.assert_allclose(u, v, rtol=1e-8, atol=1e-10)
    assert (ways.tempered(weighted, sweeps=2).blocks[0].rows.weight == 3).all()
    for bad in (dict(hot=0.5), dict(hot=np.inf), dict(sweeps=0), dict(inner=0)):
        with pytest.raises(ValueError, match=next(iter(bad))):
            ways.tempered(one, **bad)
    cold = fit(X, y, 3, n_classes=3, priors=PRIORS, start=found, max_sweeps=5)
    assert len(cold.elbo) == 5 and np.diff(cold.elbo).min() > -1e-9


def test_a_merged_expert_has_the_rows_of_both():
    rng, (K, h, N) = np.random.default_rng(3), (5, 2, 25)
    X, gamma, mu = rng.normal(size=(N, 3)), rng.dirichlet(np.ones(K), N), rng.normal(size=(N, K, h))
    root = rng.normal(size=(N, K, h, h))
    Sigma = root @ np.swapaxes(root, 2, 3)
    experts = expert_update(X, gamma, mu, Sigma, PRIORS)
    gate = rng.normal(size=(K - 1, 4)), np.tile(np.eye(4), (K - 1, 1, 1))
    q = Parameters(np.zeros((1, h + 1)), np.eye(h + 1)[None], *gate, *experts)
    before = [np.copy(field) for field in (*q, gamma)]
    found, new = ways.merge_experts(q, X, gamma, 4, 2, PRIORS, rounds=2)
    both = lambda field: np.concatenate([field[:, 2], field[:, 4]])[:, None]
    want = expert_update(np.tile(X, (2, 1)), both(gamma), both(mu), both(Sigma), PRIORS)
    empty = prior_start(K, h, 2, 4, PRIORS)
    for name, u in zip(("M", "V", "a", "b"), want):
        field = getattr(found, name)
        np.testing.assert_allclose(field[4], u[0], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(field[2], getattr(empty, name)[2], rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(field[[0, 1, 3]], getattr(q, name)[[0, 1, 3]])
    np.testing.assert_allclose(new[:, 4], gamma[:, 2] + gamma[:, 4], rtol=1e-12)
    assert not new[:, 2].any()
    np.testing.assert_array_equal(new[:, [0, 1, 3]], gamma[:, [0, 1, 3]])
    for _ in range(2):
        gate = gate_update(X, new, gate_tilt(X, *gate), PRIORS)
    np.testing.assert_allclose(found.beta0_mu, gate[0], rtol=1e-12)
    np.testing.assert_allclose(found.beta0_S, gate[1], rtol=1e-12)
    for u, v in zip(before, (*q, gamma)):                      # nothing was written into
        np.testing.assert_array_equal(u, v)


def test_merging_takes_the_best_pair_and_asks_the_bound(rows, monkeypatch):
    X, y = rows
    start = fit(X, y, 5, n_classes=3, max_sweeps=20)

    def climb(p, sweeps):
        blocks = begin(X, y, 5, n_classes=3).blocks
        for _ in range(sweeps):
            blocks, p, bound = block_sweep(blocks, p, Priors())
        return p, bound

    p = climb(start.parameters, 15)[0]
    gamma = local_factors(p, X, y, rounds=20).local.gamma
    tried = {(i, j): climb(ways.merge_experts(p, X, gamma, i, j, Priors())[0], 2)[1]
             for i in range(5) for j in range(i + 1, 5) if min(gamma.sum(0)[[i, j]]) >= 1}
    assert len(tried) > 1
    assert ways.climb_by_merging(X, y, start, sweeps=15, look=2, rounds=1)[2] == [max(tried, key=tried.get)]
    plain = climb(p, 15)
    monkeypatch.setattr(ways, "merge_experts", lambda *_: (random_start(5, 2, 3, 3, Priors(), np.random.default_rng(0), 50.0), gamma))
    kept, bound, pairs = ways.climb_by_merging(X, y, start, sweeps=15, look=2)
    assert pairs == [] and abs(bound - plain[1]) < 1e-9
    np.testing.assert_allclose(kept.M, plain[0].M, rtol=1e-9)


def test_merging_never_ends_below_the_plain_climb(rows):
    X, y = rows
    start = fit(X, y, 5, n_classes=3, max_sweeps=20)
    p, bound, pairs = ways.climb_by_merging(X, y, start, sweeps=15, look=2)
    plain = ways.climb_by_merging(X, y, start, sweeps=15, look=2, rounds=0)
    assert plain[2] == [] and pairs and bound > plain[1]
    used = lambda q: (2 * (q.a - 2.0) >= 1).sum()
    assert used(p) < used(plain[0])
    blocks = begin(X, y, 5, n_classes=3).blocks
    again, after, next_bound = block_sweep(blocks, p, Priors())
    assert next_bound > bound - 5.0                            # the bound is of these factors
    one = fit(X, y, 1, n_classes=3, max_sweeps=5)
    assert ways.climb_by_merging(X, y, one, sweeps=3)[2] == []
    for bad in ("sweeps", "look"):
        with pytest.raises(ValueError, match=bad):
            ways.climb_by_merging(X, y, start, **{bad: 0})


@pytest.mark.parametrize("i, j", [(1, 4), (4, 0)])
def test_a_birth_moves_the_marked_rows_and_nothing_else(i, j):
    rng, (K, h, N) = np.random.default_rng(4), (5, 2, 25)
    X, y, p = rng.normal(size=(N, 3)), np.arange(N) % 3, random_start(K, h, 3, 4, PRIORS, rng)
    local, first = local_factors(p, X, y, rounds=20).local, rng.uniform(size=N) < 0.4
    local = local._replace(gamma=rng.dirichlet(np.ones(K), N))
    before = [np.copy(field) for field in (*p, *local, first)]
    found, gamma = ways.split_expert(p, X, local, i, j, first, PRIORS, rounds=2)
    np.testing.assert_array_equal(gamma[~first], local.gamma[~first])
    assert not gamma[first, i].any()
    np.testing.assert_allclose(gamma[first, j], local.gamma[first, i] + local.gamma[first, j], rtol=1e-12)
    others = [k for k in range(K) if k not in (i, j)]
    np.testing.assert_array_equal(gamma[:, others], local.gamma[:, others])
    for k, weight in ((i, np.where(first, 0, local.gamma[:, i])), (j, local.gamma[:, j] + first * local.gamma[:, i])):
        P, Xt = np.eye(4) / PRIORS.v0 + 0.0, np.column_stack([X, np.ones(N)])
        linear, square = np.zeros((h, 4)), np.full(h, 2 * PRIORS.b0)
        for n in range(N):                                     # one row after the other, with the moments under i
            mu, Sigma = local.mu[n, i], local.Sigma[n, i]
            P = P + weight[n] * np.outer(Xt[n], Xt[n])
            linear = linear + weight[n] * np.outer(mu, Xt[n])
            square = square + weight[n] * (mu**2 + np.diag(Sigma))
        M = linear @ np.linalg.inv(P)
        np.testing.assert_allclose(found.V[k], np.linalg.inv(P), rtol=1e-8)
        np.testing.assert_allclose(found.M[k], M, rtol=1e-7, atol=1e-10)
        np.testing.assert_allclose(found.a[k], PRIORS.a0 + weight.sum() / 2, rtol=1e-12)
        np.testing.assert_allclose(found.b[k], 0.5 * (square - np.einsum("hd,de,he->h", M, P, M)), rtol=1e-7)
    for name in ("M", "V", "a", "b"):
        np.testing.assert_array_equal(getattr(found, name)[others], getattr(p, name)[others])
    gate = p.beta0_mu, p.beta0_S
    for _ in range(2):
        gate = gate_update(X, gamma, gate_tilt(X, *gate), PRIORS)
    np.testing.assert_allclose(found.beta0_mu, gate[0], rtol=1e-12)
    np.testing.assert_array_equal(found.beta1_mu, p.beta1_mu)
    for u, v in zip(before, (*p, *local, first)):              # nothing was written into
        np.testing.assert_array_equal(u, v)


@pytest.fixture(scope="module")
def line():
    """Rows whose middle is a class of its own, and a fit with one expert in use of three."""
    X = np.random.default_rng(4).uniform(-2, 2, size=(120, 1))
    y = (np.abs(X[:, 0]) > 1).astype(int)
    f = fit(X, y, 3, 1, n_classes=2, max_sweeps=40)
    p, gamma = f.parameters, local_factors(f.parameters, X, y).local.gamma
    for j in (1, 2):
        p, gamma = ways.merge_experts(p, X, gamma, 0, j, Priors())
    return X, y, replace(f, parameters=p)


def test_births_cut_experts_in_use_and_ask_the_bound(line, monkeypatch):
    X, y, lone = line
    asked, split = [], ways.split_expert

    def spy(p, X, local, i, j, first, priors):
        asked.append((p, local, i, j, first))
        return split(p, X, local, i, j, first, priors)

    monkeypatch.setattr(ways, "split_expert", spy)
    p, bound, births = ways.climb_by_births(X, y, lone, sweeps=20, cuts=4, rng=3)
    plain = ways.climb_by_births(X, y, lone, sweeps=20, rounds=0)
    used = lambda q: int((2 * (q.a - 2.0) >= 1).sum())
    assert used(plain[0]) == 1 and plain[2] == [] and used(p) == 2 and bound > plain[1] + 20 and len(births) == 1
    first = asked[:4]                                          # one expert in use, four cuts
    rows = first[0][1].gamma.sum(0)
    rng = np.random.default_rng(3)
    for _, local, i, j, marked in first:
        assert i == 0 == rows.argmax() and j == rows.argmin() and rows[j] < 1
        own = np.flatnonzero(local.gamma.argmax(1) == i)
        np.testing.assert_array_equal(np.flatnonzero(marked), own[hyperplane_labels(X[own], 2, rng) == 0])
        assert marked.sum() == round(len(own) / 2)
    assert {(i, j) for _, _, i, j, _ in asked[4:]} and all(local.gamma.sum(0)[i] >= 1 > local.gamma.sum(0)[j] for _, local, i, j, _ in asked)
    again = ways.climb_by_births(X, y, lone, sweeps=20, cuts=4, rng=3)
    np.testing.assert_array_equal(again[0].M, p.M)
    assert again[2] == births and all(0 <= cut < 4 for *_, cut in births)


def test_nothing_is_born_where_all_are_in_use(rows):
    X, y = rows
    full = fit(X, y, 2, n_classes=3, max_sweeps=5)
    assert local_factors(full.parameters, X, y).local.gamma.sum(0).min() >= 1
    p, bound, births = ways.climb_by_births(X, y, full, sweeps=3)
    plain = ways.climb_by_merging(X, y, full, sweeps=3, rounds=0)
    assert births == [] and bound == plain[1]
    np.testing.assert_array_equal(p.M, plain[0].M)
    for bad in ({"sweeps": 0}, {"look": 0}, {"cuts": 0}, {"rng": -1}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            ways.climb_by_births(X, y, full, **bad)
    with pytest.raises(ValueError, match="fitted"):
        ways.climb_by_births(X, y, full.parameters)


def natural(p):
    """Natural parameters of the global factors, one inverse after the other."""
    inv = np.linalg.inv
    gate_out = [(inv(S[k]), inv(S[k]) @ mu[k]) for mu, S in ((p.beta0_mu, p.beta0_S), (p.beta1_mu, p.beta1_S)) for k in range(len(mu))]
    experts = [(inv(p.V[k]), p.M[k] @ inv(p.V[k]), p.a[k], 2 * p.b[k] + np.diag(p.M[k] @ inv(p.V[k]) @ p.M[k].T)) for k in range(len(p.M))]
    return np.concatenate([np.ravel(x) for parts in (*gate_out, *experts) for x in parts])


@pytest.mark.parametrize("shared", [False, True])
def test_a_damped_sweep_goes_a_part_of_the_way(rows, shared):
    X, y = rows
    begun = begin(X, y, 4, n_classes=3, priors=PRIORS, omega1="shared" if shared else "per-component")
    blocks, p = begun.blocks, begun.parameters
    for _ in range(2):
        blocks, p, last = block_sweep(blocks, p, PRIORS)
    plain_blocks, best, highest = block_sweep(blocks, p, PRIORS)
    for rho in (0.2, 0.5, 0.9):
        renewed, after, bound = ways.damped(blocks, p, PRIORS, rho)
        np.testing.assert_allclose(natural(after), (1 - rho) * natural(p) + rho * natural(best), rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(renewed[0].omega, plain_blocks[0].omega, rtol=1e-12)
        assert last < bound < highest
    again = ways.damped(blocks, p, PRIORS, 1)
    for u, v in zip(again[1], best):
        np.testing.assert_array_equal(u, v)
    assert again[2] == highest
    path = []
    for _ in range(30):
        blocks, p, bound = ways.damped(blocks, p, PRIORS)
        path.append(bound)
    assert np.diff(path).min() > 0
    for bad in (0, -1, 1.01, np.nan, True):
        with pytest.raises(ValueError, match="rho"):
            ways.damped(blocks, p, PRIORS, bad)
    with pytest.raises(ValueError, match="inner"):
        ways.damped(blocks, p, PRIORS, 0.5, inner=0)


def test_the_bound_of_a_damped_sweep_is_the_bound(rows):
    X, y = rows
    p = random_start(3, 2, 3, 3, PRIORS, np.random.default_rng(5))
    state = local_factors(p, X, y, rounds=0)
    for name in ("x", "omega1", "x", "omega1", "omega0", "z"):
        state = UPDATES[name](state, X, y, PRIORS)
    begun = begin(X, y, 3, 2, n_classes=3, priors=PRIORS)
    _, after, bound = ways.damped(begun.blocks, p, PRIORS, 0.4, inner=2)
    np.testing.assert_allclose(bound, elbo(state.replace(**after._asdict()), X, y, PRIORS), rtol=1e-10)


@pytest.mark.parametrize("S, N", [(2, 40), (5, 60), (3, 2)])
def test_stacking_is_the_best_mixture(S, N):
    logs = np.log(np.random.default_rng(S).beta(1.5, 1, size=(S, N)))
    f = lambda w: np.log(w @ np.exp(logs)).mean()
    w = ways.stacking_weights(logs)
    best = minimize(lambda v: -f(v), np.full(S, 1 / S), method="SLSQP", bounds=[(0, 1)] * S,
                    constraints={"type": "eq", "fun": lambda v: v.sum() - 1}, options={"ftol": 1e-13, "maxiter": 500})
    assert f(w) + best.fun > -1e-7 and abs(w.sum() - 1) < 1e-12 and w.min() >= 0
    np.testing.assert_allclose(ways.stacking_weights(logs - 3000), w, rtol=1e-6, atol=1e-9)
    slope = (np.exp(logs) / (w @ np.exp(logs))).mean(1)
    assert slope.max() - 1 < 1e-8                              # what is left to gain


def test_stacking_refuses_and_averages_average():
    for bad in ([[0.0, np.nan]], [0.0, 1.0], [[-np.inf, 0.0]]):
        with pytest.raises(ValueError, match="log_scores"):
            ways.stacking_weights(bad)
    np.testing.assert_allclose(ways.bound_weights([5000.0, 5000 + np.log(4)]), [0.2, 0.8], rtol=1e-9)
    p = np.array([[[0.1, 0.9]], [[0.5, 0.5]]])
    np.testing.assert_allclose(np.exp(ways.average_forecasts(np.log(p), np.array([0.25, 0.75]))), [[0.4, 0.6]], rtol=1e-12)
    np.testing.assert_allclose(np.exp(ways.average_forecasts(np.log(p), np.array([0.0, 1.0]))), p[1], rtol=1e-12)


def test_log_ratio_is_that_of_the_densities():
    rng = np.random.default_rng(6)
    q = ways.near(sample_theta(PRIORS, 3, 2, 3, 1, rng), variance=0.3, a=4.0)
    draws, normal = sample_parameters(q, rng, 5), stats.multivariate_normal.logpdf
    for s, found in enumerate(ways.log_ratio(q, draws, PRIORS)):
        t, total = Theta(*(field[s] for field in draws)), 0.0
        for beta, mu, S, sigma in ((t.beta1, q.beta1_mu, q.beta1_S, 1.5), (t.beta0, q.beta0_mu, q.beta0_S, 2.0)):
            total += sum(normal(b, cov=sigma**2 * np.eye(len(b))) - normal(b, m, C) for b, m, C in zip(beta, mu, S))
        for k, i in np.ndindex(3, 2):
            tau = t.tau[k, i]
            total += normal(t.A[k, i], cov=3 / tau * np.eye(2)) - normal(t.A[k, i], q.M[k, i], q.V[k] / tau)
            total += stats.gamma.logpdf(tau, 2.5, scale=1 / 0.7) - stats.gamma.logpdf(tau, q.a[k], scale=1 / q.b[k, i])
        np.testing.assert_allclose(found, total, rtol=1e-9)


def test_tail_index_tells_a_wide_q_from_a_narrow_one():
    X = np.linspace(-1, 1, 6)[:, None]
    y = (X[:, 0] > 0).astype(int)
    loose = prior_start(2, 1, 2, 2, Priors())
    theta, rows = ways.draw_scores(loose, X, y, 50, rng=0)
    assert rows.shape == (50, 6) and theta.tau.shape == (50, 2, 1) and (rows < 0).all()
    np.testing.assert_array_equal(rows, ways.draw_scores(loose, X, y, 50, rng=0)[1])
    narrow = ways.near(Theta(*(field[0] for field in theta)), variance=0.05)
    assert ways.tail_index(loose, X, y, Priors(), 1000) < 0.5 < 0.7 < ways.tail_index(narrow, X, y, Priors(), 1000)


def test_linear_response_of_a_normal_is_its_covariance():
    import autograd.numpy as anp

    C = np.array([[1.0, 0.7], [0.7, 2.0]])
    P = np.linalg.inv(C)
    bound = lambda v: -0.5 * anp.dot(v[:2], anp.dot(P, v[:2])) + 0 * v[2]
    J = np.array([[1.0, 0.0], [1.0, -2.0], [0.3, 0.4]])
    found = ways.linear_response(bound, lambda v: anp.dot(J, v[:2]), np.array([0.0, 0.0, 5.0]))
    np.testing.assert_allclose(found, J @ C @ J.T, rtol=1e-9)
    for moments in (lambda v: v[2:], lambda v: anp.array([v[0] + 0.1 * v[2]])):
        with pytest.raises(ValueError, match="at: expected a maximum"):
            ways.linear_response(bound, moments, np.zeros(3))
    for saddle in (lambda v: -bound(v), lambda v: bound(v) + v[2] ** 2):
        with pytest.raises(ValueError, match="at: expected a maximum"):
            ways.linear_response(saddle, lambda v: v[:2], np.zeros(3))


def test_what_is_no_pair_no_weight_no_fit_is_named(rows):
    X, y = rows
    theta = sample_theta(PRIORS, 3, 2, 3, 2, np.random.default_rng(0))
    q, gamma = ways.near(theta), np.full((40, 3), 1 / 3)
    for name, call in (("variance", lambda: ways.near(theta, variance=0)), ("a:", lambda: ways.near(theta, a=-1.0)),
                       ("i, j", lambda: ways.merge_experts(q, X, gamma, 1, 1, PRIORS)), ("i, j", lambda: ways.merge_experts(q, X, gamma, 0, 3, PRIORS)),
                       ("fitted", lambda: ways.climb_by_merging(X, y, q)),
                       ("i, j", lambda: ways.split_expert(q, X, local_factors(q, X, np.zeros(40, int)).local, 2, 2, X[:, 0] > 0, PRIORS)),
                       ("first", lambda: ways.split_expert(q, X, local_factors(q, X, np.zeros(40, int)).local, 0, 2, X[:, 0], PRIORS)), ("bounds", lambda: ways.bound_weights([1.0, np.nan])),
                       ("bounds", lambda: ways.bound_weights([])), ("weights", lambda: ways.average_forecasts(np.zeros((2, 3, 2)), [0.5, 0.6])),
                       ("weights", lambda: ways.average_forecasts(np.zeros((2, 3, 2)), [1.0])),
                       ("weights", lambda: ways.average_forecasts(np.zeros((2, 3, 2)), [1.5, -0.5]))):
        with pytest.raises(ValueError, match=name):
            call()
