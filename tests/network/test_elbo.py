"""The complete bound: every term against the oracle, its definition by draws, the exact evidence above it, its limits."""
import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracle import cmn, evidence, montecarlo
from problems import CASES, PRIORS, as_dict, name, problem

from cmn_literate.network.cavi import UPDATES, sweep
from cmn_literate.network.latents import State
from cmn_literate.network.elbo import elbo, elbo_terms
from cmn_literate.network.simulate import Priors

each_case = pytest.mark.parametrize("case", CASES, ids=name)
SOFT = Priors(v0=1.0, a0=3.0, b0=2.0, sigma0=1.0, sigma1=1.0)
PAPER = Priors()


# ---- against the oracle -----------------------------------------------------------------------------------------------
@each_case
def test_bound_agrees_with_the_oracle(case):
    for seed in (0, 1):
        state, X, y, arrays = problem(case, seed)
        value = elbo(state, X, y, PRIORS)
        assert np.ndim(value) == 0
        assert_allclose(value, cmn.elbo(arrays, X, y, PRIORS), rtol=1e-9)


@each_case
def test_every_term_agrees_with_the_oracle(case):
    state, X, y, arrays = problem(case, seed=2)
    got, t = elbo_terms(state, X, y, PRIORS), cmn.elbo_terms(arrays, X, y, PRIORS)
    expected = {"output": t["output"] + t["pg1"], "expert": t["latent"], "latent entropy": t["entropy_x"],
                "gate": t["gate"] + t["pg0"], "assignment entropy": t["entropy_z"], "beta1": t["beta1"], "beta0": t["beta0"],
                "experts": t["rows"] + t["precisions"]}
    assert set(got) == set(expected)
    for term, value in expected.items():
        assert_allclose(got[term], value, rtol=1e-9, atol=1e-11, err_msg=term)
    assert_allclose(sum(got.values()), elbo(state, X, y, PRIORS), rtol=1e-13)


def test_tilts_of_unreached_sticks_do_not_count():
    for case in (CASES[0], CASES[1]):
        state, X, y, _ = problem(case, seed=3)
        unreached = np.broadcast_to(np.arange(case[3] - 1) > y[:, None], (len(y), case[3] - 1))
        xi1 = state.local.xi1.copy()
        (xi1 if xi1.ndim == 2 else xi1.swapaxes(0, 1).swapaxes(0, 1).transpose(0, 2, 1))[unreached] = 77.0
        assert np.any(xi1 == 77.0)
        assert_allclose(elbo(state.replace(xi1=xi1), X, y, PRIORS), elbo(state, X, y, PRIORS), rtol=1e-13)


def test_zero_responsibilities_are_harmless():
    state, X, y, arrays = problem(CASES[0], seed=4)
    hard = np.eye(case_K(CASES[0]))[np.arange(len(y)) % 3]
    value = elbo(state.replace(gamma=hard), X, y, PRIORS)
    assert_allclose(value, cmn.elbo({**arrays, "gamma": hard}, X, y, PRIORS), rtol=1e-9)


def case_K(case):
    return case[2]


@pytest.mark.parametrize("case", [CASES[0], CASES[1], CASES[2], CASES[4], CASES[9], CASES[10]], ids=name)
def test_bound_is_the_mean_of_log_p_minus_log_q(case):
    state, X, y, _ = problem(case, seed=5)
    for _ in range(2):                                           # near an optimum the draws scatter little
        state = sweep(state, X, y, PRIORS)
    mean, error = montecarlo.elbo(as_dict(state), X, y, PRIORS, np.random.default_rng(6), n_draws=3000)
    assert error < 0.15
    assert abs(elbo(state, X, y, PRIORS) - mean) < 5 * error


# ---- the evidence above it --------------------------------------------------------------------------------------------
def fitted_bound(X, y, K, L, priors, seed=0, sweeps=60, h=1, shared=False):
    """The bound after some sweeps from a random state."""
    arrays, _, _ = cmn.random_state_and_data(np.random.default_rng(seed), len(y), X.shape[1], K, L, h, shared)
    state = State.of(**arrays)
    for _ in range(sweeps):
        state = sweep(state, X, y, priors)
    return float(elbo(state, X, y, priors))


def require_below(bound, log_evidence, slack=0.0):
    assert bound <= log_evidence + slack, f"bound {bound} above the log evidence {log_evidence}"


@pytest.mark.parametrize("priors", [PAPER, PRIORS, SOFT], ids=["paper", "middle", "soft"])
def test_one_row_has_known_evidence_and_ten_nats_more_would_show(priors):
    X = np.array([[0.8]])
    for L in (2, 3, 4):
        for c in range(L):
            exact = evidence.one_row(c, L)
            for K, shared in ((1, False), (2, True)):
                bound = fitted_bound(X, np.array([c]), K, L, priors, seed=c, sweeps=30, shared=shared)
                require_below(bound, exact)
                with pytest.raises(AssertionError):              # the check can fail
                    require_below(bound + 10, exact)


@pytest.mark.parametrize("L,K,h", [(2, 1, 1), (2, 2, 1), (3, 2, 2)])
def test_labelings_sum_to_at_most_one(L, K, h):
    X = np.array([[0.9], [-0.6]])
    labelings = [np.array([i, j]) for i in range(L) for j in range(L)]
    bounds = [max(fitted_bound(X, y, K, L, SOFT, seed=s, sweeps=40, h=h) for s in range(2)) for y in labelings]
    total = np.exp(bounds).sum()
    assert 0.01 < total <= 1
    assert total * np.exp(10) > 1                                # a constant of ten nats too many would show


@pytest.mark.parametrize("labels", [(0, 0), (0, 1), (1, 0), (0, 1, 1)], ids=str)
def test_bound_below_evidence_by_quadrature(labels):
    X, y = np.array([[0.7], [-0.4], [1.3]])[:len(labels)], np.array(labels)
    exact = evidence.by_quadrature(X, y, SOFT, nodes=9)
    best = max(fitted_bound(X, y, 1, 2, SOFT, seed=s) for s in range(3))
    require_below(best, exact)
    assert best > exact - 1.5


@pytest.mark.parametrize("K,L,labels", [(2, 2, (0, 1)), (2, 3, (2, 0, 1)), (1, 3, (1, 1, 2))], ids=str)
def test_bound_below_evidence_by_qmc(K, L, labels):
    X, y = np.array([[0.7], [-0.4], [1.3]])[:len(labels)], np.array(labels)
    exact, error = evidence.by_qmc(X, y, K, L, SOFT, log2_draws=12)
    assert error < 0.01
    best = max(fitted_bound(X, y, K, L, SOFT, seed=s) for s in range(3))
    require_below(best, exact, 5 * error)
    assert best > exact - 3


def test_bound_is_tight_when_nothing_is_uncertain():
    """Priors that shrink to points: bound and evidence (here of one row: known) meet."""
    gaps = []
    for s in (1.0, 0.3, 0.1, 0.03):
        priors = Priors(v0=s**2, a0=1 / s**2, b0=1 / s**2, sigma0=s, sigma1=s)
        gaps.append(evidence.one_row(1, 3) - fitted_bound(np.array([[0.8]]), np.array([1]), 2, 3, priors, sweeps=150))
    assert all(left > right > 0 for left, right in zip(gaps, gaps[1:]))
    assert gaps[-1] < 5e-3


# ---- shared against per component -------------------------------------------------------------------------------------
@pytest.mark.parametrize("case", [c for c in CASES if not c[-1]], ids=name)
def test_gap_between_shared_and_per_component(case):
    state, X, y, arrays = problem(case, seed=7)
    per = UPDATES["omega1"](state, X, y, PRIORS)
    shared = UPDATES["omega1"](state.replace(xi1=np.ones((len(y), case[3] - 1))), X, y, PRIORS)
    assert shared.local.xi1.shape == (len(y), case[3] - 1)
    gap = elbo(per, X, y, PRIORS) - elbo(shared, X, y, PRIORS)
    if case_K(case) == 1:
        assert_allclose(gap, 0, atol=1e-10)
    else:
        assert gap > 1e-6
    assert_allclose(gap, cmn.sharing_gap(arrays, y), rtol=1e-8, atol=1e-10)
    tied = np.broadcast_to(shared.local.xi1[:, None, :], per.local.xi1.shape).copy()     # shared = per component, tied
    assert_allclose(elbo(per.replace(xi1=tied), X, y, PRIORS), elbo(shared, X, y, PRIORS), rtol=1e-12)


# ---- limits -----------------------------------------------------------------------------------------------------------
def at_the_prior(state, priors):
    """The same state with every global factor at its prior."""
    K, h, D = state.parameters.M.shape
    J = len(state.parameters.beta1_mu)
    return state.replace(
        beta1_mu=np.zeros((J, h + 1)), beta1_S=np.tile(priors.sigma1**2 * np.eye(h + 1), (J, 1, 1)),
        beta0_mu=np.zeros((K - 1, D)), beta0_S=np.tile(priors.sigma0**2 * np.eye(D), (K - 1, 1, 1)),
        M=np.zeros((K, h, D)), V=np.tile(priors.v0 * np.eye(D), (K, 1, 1)), a=np.full(K, priors.a0), b=np.full((K, h), priors.b0))


@pytest.mark.parametrize("case", [CASES[0], CASES[3], CASES[6], CASES[14]], ids=name)
def test_no_data_gives_the_prior_and_a_bound_of_zero(case):
    state, X, y, _ = problem(case, seed=8)
    local = {f: state.flat()[f][:0] for f in ("gamma", "mu", "Sigma", "xi1", "xi0")}
    empty, X, y = state.replace(**local), X[:0], y[:0]
    prior = at_the_prior(empty, PRIORS)
    for update in ("beta1", "beta0", "experts"):
        empty = UPDATES[update](empty, X, y, PRIORS)
    for field in cmn.FIELDS:
        assert_allclose(empty.flat()[field], prior.flat()[field], rtol=1e-12, atol=1e-14, err_msg=field)
    assert_allclose(elbo(empty, X, y, PRIORS), 0, atol=1e-10)


@pytest.mark.parametrize("case", [CASES[0], CASES[5]], ids=name)
def test_an_expert_without_rows_returns_to_the_prior(case):
    state, X, y, _ = problem(case, seed=9)
    gamma = state.local.gamma.copy()
    gamma[:, 1] = 0
    new, prior = UPDATES["experts"](state.replace(gamma=gamma / gamma.sum(1, keepdims=True)), X, y, PRIORS), at_the_prior(state, PRIORS)
    for field in ("M", "V", "a", "b"):
        assert_allclose(new.flat()[field][1], prior.flat()[field][1], rtol=1e-12, atol=1e-14)
        assert np.abs(new.flat()[field][0] - prior.flat()[field][0]).max() > 1e-3


@pytest.mark.parametrize("case", [CASES[0], CASES[1], CASES[7], CASES[8]], ids=name)
def test_duplicated_rows_count_twice(case):
    """Data terms double, divergences do not; the M-step adds the same statistics once more."""
    state, X, y, _ = problem(case, seed=10)
    twice = state.replace(**{f: np.concatenate([state.flat()[f]] * 2) for f in ("gamma", "mu", "Sigma", "xi1", "xi0")})
    X2, y2 = np.concatenate([X, X]), np.concatenate([y, y])
    t, t2 = elbo_terms(state, X, y, PRIORS), elbo_terms(twice, X2, y2, PRIORS)
    for term in t:
        assert_allclose(t2[term], t[term] * (1 if term in ("beta1", "beta0", "experts") else 2), rtol=1e-12, atol=1e-12)
    for update, S, sigma in (("beta1", "beta1_S", PRIORS.sigma1), ("beta0", "beta0_S", PRIORS.sigma0), ("experts", "V", PRIORS.v0**0.5)):
        once, double = (UPDATES[update](s, a, b, PRIORS).flat()[S] for s, a, b in ((state, X, y), (twice, X2, y2)))
        if once.size:
            prior = np.eye(once.shape[-1]) / sigma**2
            assert_allclose(np.linalg.inv(double) - prior, 2 * (np.linalg.inv(once) - prior), rtol=1e-8, atol=1e-8)
    once, double = UPDATES["experts"](state, X, y, PRIORS), UPDATES["experts"](twice, X2, y2, PRIORS)
    assert_allclose(double.parameters.a - PRIORS.a0, 2 * (once.parameters.a - PRIORS.a0), rtol=1e-12)
    for update in ("x", "omega1", "omega0", "z"):                # local factors of the copies are copies
        a, b = as_dict(UPDATES[update](state, X, y, PRIORS)), as_dict(UPDATES[update](twice, X2, y2, PRIORS))
        for field in cmn.CHANGES[update]:
            assert_allclose(b[field], np.concatenate([a[field]] * 2), rtol=1e-12, atol=1e-13)


def test_one_expert_has_no_gate():
    state, X, y, _ = problem(CASES[2], seed=11)
    t = elbo_terms(state.replace(gamma=np.ones((len(y), 1))), X, y, PRIORS)
    assert t["gate"] == 0 and t["beta0"] == 0 and t["assignment entropy"] == 0


def test_permuted_rows_give_the_same_bound():
    state, X, y, _ = problem(CASES[0], seed=12)
    p = np.random.default_rng(0).permutation(len(y))
    shuffled = state.replace(**{f: state.flat()[f][p] for f in ("gamma", "mu", "Sigma", "xi1", "xi0")})
    assert_allclose(elbo(shuffled, X[p], y[p], PRIORS), elbo(state, X, y, PRIORS), rtol=1e-12)


def test_last_two_experts_may_swap():
    """Their sticks coincide but for the sign: relabelling them is an exact symmetry, of no other pair."""
    state, X, y, arrays = problem((7, 3, 3, 3, 2, False), seed=13)
    swap = [0, 2, 1]
    mirrored = state.replace(
        beta0_mu=state.parameters.beta0_mu * np.array([[1.0], [-1.0]]), gamma=state.local.gamma[:, swap], mu=state.local.mu[:, swap], Sigma=state.local.Sigma[:, swap],
        xi1=state.local.xi1[:, swap], M=state.parameters.M[swap], V=state.parameters.V[swap], a=state.parameters.a[swap], b=state.parameters.b[swap])
    assert_allclose(elbo(mirrored, X, y, PRIORS), elbo(state, X, y, PRIORS), rtol=1e-12)
