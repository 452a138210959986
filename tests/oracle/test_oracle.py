"""The oracle proves itself before it judges the package: definitions, finite differences, draws, exact evidence."""
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.stats import gamma as gamma_law

from oracle import OraclePriors, blocks, cmn, evidence, montecarlo, predict, random_state_and_data, special

PRIORS = OraclePriors(v0=3.0, a0=2.5, b0=1.5, sigma0=2.0, sigma1=1.7)
PROBLEMS = [dict(N=4, d=2, K=3, L=3, h=2), dict(N=3, d=1, K=1, L=2, h=1), dict(N=4, d=2, K=2, L=4, h=1),
            dict(N=3, d=1, K=3, L=2, h=3)]


def label(p):
    return "-".join(f"{k}{v}" for k, v in p.items())


def problem(p, shared=False, seed=0):
    return random_state_and_data(np.random.default_rng(seed), shared=shared, **p)


# ---- scalar functions -------------------------------------------------------------------------------------------------
def test_polya_gamma_moments_are_those_of_the_sum_of_gammas():
    for b, c in [(1.0, 0.0), (2.7, 1.0), (0.3, 6.0), (1.0, 40.0)]:
        mean, var = special.pg_moments_by_summation(b, c)
        assert_allclose(special.pg_mean(b, c), mean, rtol=1e-12)
        assert_allclose(special.pg_var(b, c), var, rtol=1e-12)


def test_tilt_normaliser_and_divergence_by_draws():
    rng = np.random.default_rng(1)
    base = special.pg_draw(np.zeros(60_000), rng)                      # PG(1, 0)
    for xi in (0.7, 2.0):
        w = np.exp(-base * xi**2 / 2)
        assert abs(w.mean() - np.exp(-special.log_cosh_half(xi))) < 5 * w.std() / np.sqrt(len(w))
        draws = special.pg_draw(np.full(60_000, xi), rng)
        log_ratio = -draws * xi**2 / 2 + special.log_cosh_half(xi)
        assert abs(log_ratio.mean() - special.pg_kl_one(xi)) < 5 * log_ratio.std() / np.sqrt(len(draws))


def test_sticks_and_inverse():
    for psi in ([0.3, -1.2, 2.0], [1000.0, -1000.0], [-1000.0, 0.0, 3.0], []):
        lp = special.stick_log_probs(psi)
        assert_allclose(np.exp(lp).sum(), 1, rtol=1e-14)
        if len(psi) and np.abs(psi).max() < 100:
            assert_allclose(special.stick_logits(lp), psi, rtol=1e-12)
    weights = np.random.default_rng(0).dirichlet(np.ones(4))
    b, kappa = special.stick_counts(weights)
    assert_allclose(b, [weights[j:].sum() for j in range(3)])
    assert_allclose(kappa, weights[:3] - b / 2)
    for c in range(4):                                                  # (D.2) for every hard label
        psi = np.array([0.4, -1.0, 2.2])
        b, kappa = special.stick_counts(np.eye(4)[c])
        value = sum(-b[j] * np.log(2) + kappa[j] * psi[j] - b[j] * special.log_cosh_half(psi[j]) for j in range(3))
        assert_allclose(value, special.stick_log_probs(psi)[c], rtol=1e-13)


def test_gaussian_sigmoid_integrals():
    for m, v in [(1.0, 4.0), (3.0, 9.0), (-2.0, 400.0), (0.3, 1e-4), (-5.0, 25.0)]:
        assert_allclose(special.mean_sigmoid(m, v), 1 - special.mean_sigmoid(-m, v), rtol=1e-12)
        assert_allclose(predict.sigmoid_integral(m, v), special.mean_sigmoid(m, v), rtol=1e-10)
        assert_allclose(predict.sigmoid_integrals(m, v), special.mean_sigmoid(m, v), rtol=1e-12)


# ---- blocks -----------------------------------------------------------------------------------------------------------
def test_blocks_against_quadrature_and_closed_forms():
    rng = np.random.default_rng(2)
    mu, S = rng.normal(size=3), cmn.random_spd(rng, 3)
    assert_allclose(blocks.gaussian_kl(mu, S, 1.7), cmn.kl_beta(mu, S, 1.7), rtol=1e-12)
    assert_allclose(blocks.gaussian_entropy(S), 1.5 * (1 + np.log(2 * np.pi)) + 0.5 * blocks.log_det(S), rtol=1e-12)
    assert_allclose(blocks.second_moment(mu, S), S + np.outer(mu, mu), rtol=1e-12)
    assert_allclose(blocks.padded_second_moment(mu, S)[3], [*mu, 1], rtol=1e-12)
    a, b, a0, b0 = 3.3, 0.7, 2.0, 1.4
    q, p = gamma_law(a, scale=1 / b), gamma_law(a0, scale=1 / b0)
    by_quadrature = quad(lambda t: q.pdf(t) * (q.logpdf(t) - p.logpdf(t)), 0, np.inf, epsabs=1e-12)[0]
    assert_allclose(blocks.gamma_kl(a, b, a0, b0), by_quadrature, rtol=1e-8)
    assert_allclose(blocks.gamma_mean_log(a, b), quad(lambda t: q.pdf(t) * np.log(t), 0, np.inf, epsabs=1e-12)[0], rtol=1e-8)
    assert_allclose(blocks.gamma_entropy(a, b), q.entropy(), rtol=1e-10)
    m, V = rng.normal(size=2), cmn.random_spd(rng, 2)
    nodes = np.linspace(0.01, 40, 4000)                                 # the mean over tau really is an integral
    weights = gamma_law.pdf(nodes, a, scale=1 / b) * (nodes[1] - nodes[0])
    by_quadrature = sum(w * blocks.row_kl(t, m, V, 3.0) for t, w in zip(nodes, weights) if w > 1e-9)
    assert_allclose(blocks.mean_row_kl(m, V, a, b, 3.0), by_quadrature, rtol=1e-4)


def test_divergences_of_the_bound_are_the_definitions():
    s, X, y = problem(PROBLEMS[0])
    rows = [cmn.kl_rows(s, k, i, PRIORS) for k in range(3) for i in range(2)]
    both = [cmn.kl_rows(s, k, i, PRIORS) + cmn.kl_precision(s, k, i, PRIORS) for k in range(3) for i in range(2)]
    assert_allclose(rows, [blocks.mean_row_kl(s["M"][k, i], s["V"][k], s["a"][k], s["b"][k, i], PRIORS.v0)
                           for k in range(3) for i in range(2)], rtol=1e-11)
    assert_allclose(np.reshape(both, (3, 2)).sum(1),
                    blocks.mng_kl(s["M"], s["V"], s["a"], s["b"], PRIORS.v0, PRIORS.a0, PRIORS.b0), rtol=1e-11)


# ---- the bound --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("shared", [False, True], ids=["per-component", "shared"])
@pytest.mark.parametrize("p", PROBLEMS, ids=label)
def test_bound_is_the_mean_of_log_p_minus_log_q(p, shared):
    s, X, y = problem(p, shared)
    s = cmn.sweep(s, X, y, PRIORS)                                      # near an optimum the variance is small
    mean, error = montecarlo.elbo(s, X, y, PRIORS, np.random.default_rng(3), n_draws=3000)
    assert error < 0.15
    assert abs(mean - cmn.elbo(s, X, y, PRIORS)) < 5 * error


@pytest.mark.parametrize("shared", [False, True], ids=["per-component", "shared"])
@pytest.mark.parametrize("p", PROBLEMS, ids=label)
def test_every_update_is_a_stationary_maximum_of_the_bound(p, shared):
    """Finite differences along random directions through the block just updated (gamma: tangent to the simplex)."""
    rng = np.random.default_rng(4)
    s, X, y = problem(p, shared, seed=5)
    for name in cmn.ORDER:
        before = cmn.elbo(s, X, y, PRIORS)
        new = cmn.UPDATES[name](s, X, y, PRIORS)
        assert [f for f in cmn.FIELDS if not np.array_equal(s[f], new[f])] in ([*cmn.CHANGES[name]], [])
        best = cmn.elbo(new, X, y, PRIORS)
        assert best >= before - 1e-9 * abs(before)
        for field in cmn.CHANGES[name]:
            if new[field].size == 0:
                continue
            direction = rng.normal(size=new[field].shape)
            if field in ("Sigma", "V", "beta1_S", "beta0_S"):
                direction = direction + np.swapaxes(direction, -1, -2)
            if field == "gamma":
                direction = new[field] * (direction - (new[field] * direction).sum(1, keepdims=True))
            if field in ("a", "b", "xi0", "xi1"):
                direction = direction * new[field]
            e = 1e-4
            up, down = (cmn.elbo({**new, field: new[field] + sign * e * direction}, X, y, PRIORS) for sign in (1, -1))
            slope, bend = (up - down) / (2 * e), (up + down - 2 * best) / e**2
            if p["K"] > 1 or field != "gamma":
                assert bend < 0, (name, field)
            assert abs(slope) < 1e-5 * (1 + abs(bend)), (name, field)
        s = new


def test_parameter_expansion_is_the_best_scale_and_shift():
    s, X, y = problem(PROBLEMS[0], seed=6)
    for n_steps in (0, 2):
        for _ in range(n_steps):
            s = cmn.sweep(s, X, y, PRIORS)
        value = lambda scale, shift: cmn.elbo(cmn.rescale_latents(s, scale, shift), X, y, PRIORS)
        one, zero, scale = np.ones(2), np.zeros(2), cmn.best_scale(s, PRIORS)
        for i in range(2):
            at = lambda u, i=i: -value(np.where(np.arange(2) == i, np.exp(u), scale), zero)
            assert_allclose(minimize_scalar(at, bracket=(-1, 1), tol=1e-10).x, np.log(scale[i]), atol=1e-5)
        shift = cmn.best_shift(s, PRIORS)
        for i in range(2):
            at = lambda u, i=i: -value(one, np.where(np.arange(2) == i, u, shift))
            assert_allclose(minimize_scalar(at, bracket=(-1, 1), tol=1e-10).x, shift[i], atol=1e-5)
        t, t0 = cmn.elbo_terms(cmn.rescale_latents(s, scale, shift), X, y, PRIORS), cmn.elbo_terms(s, X, y, PRIORS)
        for term in ("output", "pg1", "gate", "pg0", "entropy_z", "beta0"):     # only priors and Jacobians move
            assert_allclose(t[term], t0[term], rtol=1e-10, atol=1e-12)
        assert_allclose(t["latent"] + t["entropy_x"], t0["latent"] + t0["entropy_x"], rtol=1e-10)
        better = cmn.elbo(cmn.expand(s, PRIORS), X, y, PRIORS)
        assert better >= cmn.elbo(s, X, y, PRIORS)


def test_sharing_gap():
    s, X, y = problem(PROBLEMS[2], seed=7)
    s = cmn.update_omega1(s, X, y)
    pooled = cmn.update_omega1({**s, "xi1": np.zeros((len(y), 3))}, X, y)
    gap = cmn.elbo(s, X, y, PRIORS) - cmn.elbo(pooled, X, y, PRIORS)
    assert gap > 0
    assert_allclose(gap, cmn.sharing_gap(s, y), rtol=1e-9)


# ---- evidence and prediction ------------------------------------------------------------------------------------------
def test_evidence_of_one_row_by_three_routes():
    X = np.array([[0.7]])
    for L in (2, 3, 4):
        for c in range(L):
            value, error = evidence.by_qmc(X, [c], 2, L, PRIORS, log2_draws=11)
            assert abs(value - evidence.one_row(c, L)) < 5 * error + 1e-12
    assert_allclose(evidence.by_quadrature(X, [0], PRIORS, nodes=7), -np.log(2), rtol=1e-10)


def test_evidence_of_two_rows_quadrature_agrees_with_qmc():
    X, y = np.array([[0.7], [-0.4]]), [0, 1]
    soft = OraclePriors(v0=1.0, a0=3.0, b0=2.0, sigma0=1.0, sigma1=0.7)
    value, error = evidence.by_qmc(X, y, 1, 2, soft)
    assert error < 2e-3
    assert abs(value - evidence.by_quadrature(X, y, soft, nodes=9)) < 5 * error
    total = sum(np.exp(evidence.by_quadrature(X, [i, j], soft, nodes=7)) for i in (0, 1) for j in (0, 1))
    assert_allclose(total, 1, rtol=1e-10)


@pytest.mark.parametrize("p", [dict(N=3, d=2, K=2, L=3, h=1), dict(N=3, d=1, K=2, L=3, h=2)], ids=label)
def test_predictive_routes_agree(p):
    s, X, y = problem(p, seed=8)
    x = X[0]
    by_grid = predict.product_quadrature(s, x)
    assert_allclose(by_grid.sum(), 1, rtol=1e-9)
    if p["h"] == 1:
        assert_allclose(predict.quadrature_1d(s, x), by_grid, rtol=1e-8)
    mean, error = predict.monte_carlo(s, x, np.random.default_rng(9), n_draws=40_000)
    assert np.all(np.abs(mean - by_grid) < 5 * error)
