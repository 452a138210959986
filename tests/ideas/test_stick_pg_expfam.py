"""The scalar and Gaussian building blocks against 50-digit numbers and definitions, extremes and gradients included."""
import numpy as np
import pytest
from autograd import elementwise_grad, grad, jacobian
from numpy.testing import assert_allclose
from oracle import blocks, cmn, special
from scipy.special import digamma

from cmn_literate.ideas import expfam
from cmn_literate.ideas.polya_gamma import log_cosh_half, pg_kl, pg_mean, pg_var, tilt_moments, toss_moments
from cmn_literate.network.simulate import Priors, sample_network, sample_sticks, sample_theta
from cmn_literate.ideas.expfam import pad
from cmn_literate.ideas.stick_breaking import stick_counts, stick_log_probs, stick_logits

TILTS = [0.0, 1e-300, 1e-12, 1e-6, 1e-4, 3e-3, 9.9e-3, 1.01e-2, 0.02, 0.049, 0.051, 0.1, 0.3, 0.7, 0.99, 1.01, 2.0, 5.0, 20.0,
         36.0, 40.0, 100.0, 700.0, 745.0, 800.0, 1500.0]
LOGITS = [[0.3, -1.2, 2.0], [0.0], [1000.0, -1000.0, 0.5], [-1000.0, 1000.0], [-1000.0, -1000.0, -1000.0], [1000.0, 1000.0],
          [40.0, -40.0, 37.0], [1e-9, -1e-9], []]


# ---- sticks -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("psi", LOGITS, ids=str)
def test_stick_log_probs(psi):
    got = stick_log_probs(np.array(psi))
    assert_allclose(got, special.stick_log_probs(psi), rtol=1e-14, atol=1e-300)
    assert_allclose(np.exp(got).sum(), 1, rtol=1e-14)


def test_sticks_broadcast_and_differentiate():
    psi = np.random.default_rng(0).normal(size=(2, 3, 4)) * 3
    got = stick_log_probs(psi)
    assert got.shape == (2, 3, 5)
    for i in range(2):
        for j in range(3):
            assert_allclose(got[i, j], special.stick_log_probs(psi[i, j]), rtol=1e-13)
    J, e = jacobian(stick_log_probs)(psi[0, 0]), 1e-6
    for j in range(4):
        step = e * np.eye(4)[j]
        assert_allclose(J[:, j], (stick_log_probs(psi[0, 0] + step) - stick_log_probs(psi[0, 0] - step)) / (2 * e), atol=1e-8)
    assert np.isfinite(jacobian(stick_log_probs)(np.array([1000.0, -1000.0, 0.0]))).all()


def test_stick_logits_invert():
    rng = np.random.default_rng(1)
    psi = rng.normal(size=(5, 3)) * 4
    assert_allclose(stick_logits(stick_log_probs(psi)), psi, rtol=1e-10, atol=1e-12)
    for p in rng.dirichlet(np.ones(4), size=5):
        assert_allclose(stick_logits(np.log(p)), special.stick_logits(np.log(p)), rtol=1e-11, atol=1e-13)
    assert_allclose(stick_logits(np.log(np.full(5, 0.2))), -np.log([4, 3, 2, 1]), atol=1e-14)


def test_stick_counts():
    weights = np.random.default_rng(2).dirichlet(np.ones(4), size=(2, 3))
    b, kappa = stick_counts(weights)
    for i in range(2):
        for j in range(3):
            expected = special.stick_counts(weights[i, j])
            assert_allclose(b[i, j], expected[0], rtol=1e-13)
            assert_allclose(kappa[i, j], expected[1], rtol=1e-13, atol=1e-16)
    b, kappa = stick_counts(np.eye(3))
    assert b.tolist() == [[1, 0], [1, 1], [1, 1]]
    assert kappa.tolist() == [[0.5, 0], [-0.5, 0.5], [-0.5, -0.5]]
    b, kappa = stick_counts(np.ones((4, 1)))                     # one category: no stick
    assert b.shape == kappa.shape == (4, 0)
    for c in range(4):                                           # counts and bound terms give back the log-probability
        psi = np.array([0.4, -1.0, 2.2])
        b, kappa = stick_counts(np.eye(4)[c])
        assert_allclose((kappa * psi - b * np.log(2) - b * log_cosh_half(psi)).sum(), stick_log_probs(psi)[c], rtol=1e-13)


# ---- Polya-Gamma ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("c", TILTS, ids=str)
def test_polya_gamma_functions(c):
    for sign in (1, -1):
        for b in (1.0, 0.3, 2.7, 0.0):
            assert_allclose(pg_mean(b, sign * c), special.pg_mean(b, c), rtol=1e-13)
            assert_allclose(pg_var(b, sign * c), special.pg_var(b, c), rtol=1e-11)
            assert_allclose(pg_kl(b, sign * c), special.pg_kl(b, c), rtol=1e-9, atol=1e-22)
        assert_allclose(log_cosh_half(sign * c), special.log_cosh_half(c), rtol=1e-14, atol=1e-300)
    mean, log_cosh = tilt_moments((np.array([c, c]) / 2)**2)
    assert_allclose(mean, special.theta(c), rtol=1e-14)
    assert_allclose(log_cosh, special.log_cosh_half(c), rtol=1e-12, atol=2e-16)


def test_tossed_coins_add_up_and_the_others_have_no_weight():
    tilts = np.array([[0.0, 1e-160, 0.3, 2.0, 40.0, 2000.0], [2000.0, 0.0, 1.0, 1e-3, 7.0, 0.5], [1.0, 5.0, 0.0, 900.0, 1e-8, 3.0]])
    tossed = np.array([[1.0] * 6, [1.0, 0.0, 1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0, 0.0, 1.0]])
    omega, cost = toss_moments(np.stack([tilts**2, tilts[:, ::-1]**2], 1) / 4, tossed)
    for k, xi in enumerate((tilts, tilts[:, ::-1])):
        for (j, n), b in np.ndenumerate(tossed):
            assert_allclose(omega[j, k, n], b * special.theta(xi[j, n]), rtol=1e-14, atol=1e-30)
        expected = [sum(np.log(2) + special.log_cosh_half(xi[j, n]) for j in range(3) if tossed[j, n]) for n in range(6)]
        assert_allclose(cost[k], expected, rtol=1e-14)


def test_polya_gamma_is_the_sum_of_gammas():
    for b, c in [(1.0, 0.5), (2.7, 3.0), (0.4, 0.0)]:
        mean, var = special.pg_moments_by_summation(b, c)
        assert_allclose([pg_mean(b, c), pg_var(b, c)], [mean, var], rtol=1e-11)


def test_polya_gamma_broadcasts():
    c = np.array(TILTS)
    for f in (pg_mean, pg_var, pg_kl):
        grid = f(np.array([[1.0], [2.0]]), c)
        assert grid.shape == (2, len(c))
        assert_allclose(grid[1], 2 * grid[0], rtol=1e-14)


def test_polya_gamma_gradients():
    """d ln cosh(c/2)/dc = c E[omega]; d E[omega]/dc = -c Var[omega]; d KL/dc = c^2/2 * c Var: finite at 0 and at +-1500."""
    c = np.array([*TILTS, *(-np.array(TILTS))])
    mean = np.array([special.theta(abs(v)) for v in c])
    var = np.array([special.pg_var(1, abs(v)) for v in c])
    assert_allclose(elementwise_grad(log_cosh_half)(c), c * mean, rtol=1e-11, atol=1e-300)
    assert_allclose(elementwise_grad(lambda v: pg_mean(1.0, v))(c), -c * var, rtol=1e-8, atol=1e-17)
    assert_allclose(elementwise_grad(lambda v: pg_kl(1.0, v))(c), c**3 / 2 * var, rtol=1e-7, atol=1e-17)


# ---- Gaussians and Gammas ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("m", [1, 2, 3, 5])
def test_gaussian_blocks(m):
    rng = np.random.default_rng(m)
    mu, S = rng.normal(size=(2, 3, m)), cmn.random_spd(rng, 2, 3, m)
    for i in range(2):
        for j in range(3):
            a, B = mu[i, j], S[i, j]
            assert_allclose(expfam.log_det(S)[i, j], blocks.log_det(B), rtol=1e-12, atol=1e-13)
            assert_allclose(expfam.gaussian_entropy(S)[i, j], blocks.gaussian_entropy(B), rtol=1e-12)
            assert_allclose(expfam.gaussian_kl(mu, S, 1.7)[i, j], blocks.gaussian_kl(a, B, 1.7), rtol=1e-11)
            assert_allclose(expfam.second_moment(mu, S)[i, j], blocks.second_moment(a, B), rtol=1e-12, atol=1e-14)
            assert_allclose(expfam.padded_second_moment(mu, S)[i, j], blocks.padded_second_moment(a, B), rtol=1e-12, atol=1e-14)
    assert_allclose(expfam.gaussian_kl(np.zeros(m), 2.89 * np.eye(m), 1.7), 0, atol=1e-14)


def test_gamma_blocks():
    for a, b, a0, b0 in [(3.3, 0.7, 2.0, 1.4), (0.4, 5.0, 1.0, 1.0), (502.0, 30.0, 2.0, 1.0), (2.0, 1.0, 2.0, 1.0)]:
        assert_allclose(expfam.gamma_mean_log(a, b), blocks.gamma_mean_log(a, b), rtol=1e-13)
        assert_allclose(expfam.gamma_kl(a, b, a0, b0), blocks.gamma_kl(a, b, a0, b0), rtol=1e-11, atol=1e-13)
    assert_allclose(blocks.gamma_mean_log(3.3, 0.7), digamma(3.3) - np.log(0.7))


def test_matrix_normal_gamma_divergence():
    rng = np.random.default_rng(5)
    for K, h, D in [(3, 2, 4), (1, 1, 2), (2, 3, 2)]:
        M, V = rng.normal(size=(K, h, D)), cmn.random_spd(rng, K, D)
        a, b = rng.uniform(1.5, 9, size=K), rng.uniform(0.5, 4, size=(K, h))
        got = expfam.mng_kl(M, V, a, b, 3.0, 2.5, 1.5)
        assert got.shape == (K,)
        assert_allclose(got, blocks.mng_kl(M, V, a, b, 3.0, 2.5, 1.5), rtol=1e-11)
        prior = np.zeros((K, h, D)), np.tile(3.0 * np.eye(D), (K, 1, 1)), np.full(K, 2.5), np.full((K, h), 1.5)
        assert_allclose(expfam.mng_kl(*prior, 3.0, 2.5, 1.5), 0, atol=1e-13)


def test_divergences_differentiate():
    """Autograd against finite differences in every argument that the bound differentiates."""
    rng = np.random.default_rng(6)
    mu, S = rng.normal(size=(2, 3)), cmn.random_spd(rng, 2, 3)
    M, V, a, b = rng.normal(size=(2, 2, 3)), cmn.random_spd(rng, 2, 3), np.array([3.0, 4.0]), rng.uniform(1, 2, size=(2, 2))
    for f, args in [(lambda mu, S: np.sum(expfam.gaussian_kl(mu, S, 1.7)), (mu, S)), (lambda S: np.sum(expfam.gaussian_entropy(S)), (S,)),
                    (lambda mu, S: np.sum(expfam.padded_second_moment(mu, S) ** 2), (mu, S)),
                    (lambda M, V, a, b: np.sum(expfam.mng_kl(M, V, a, b, 3.0, 2.5, 1.5)), (M, V, a, b))]:
        for i, value in enumerate(args):
            direction = rng.normal(size=value.shape)
            if value.ndim == 3 and value.shape[-1] == value.shape[-2]:
                direction = direction + np.swapaxes(direction, -1, -2)
            along = lambda t, i=i, v=value, d=direction, f=f, args=args: f(*args[:i], v + t * d, *args[i + 1:])
            slope = np.sum(grad(f, i)(*args) * direction)
            assert_allclose(slope, (along(1e-5) - along(-1e-5)) / 2e-5, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("m", [1, 2, 3, 4, 7])
def test_spd_inverses(m):
    P = cmn.random_spd(np.random.default_rng(m), 3, m, scale=4.0)
    P[0] *= 1e-6
    inv, log_det_P = expfam.spd_inverse(P)
    for n in range(3):
        assert_allclose(inv[n], blocks.inverse(P[n]), rtol=1e-10, atol=1e-10 * np.abs(blocks.inverse(P[n])).max())
        assert_allclose(log_det_P[n], blocks.log_det(P[n]), rtol=1e-12, atol=1e-12)
    with pytest.raises((ValueError, np.linalg.LinAlgError)):
        expfam.spd_inverse(-P)


# ---- the sampler ------------------------------------------------------------------------------------------------------
def test_pad_puts_the_one_last():
    assert pad([[2.0, 3.0]]).tolist() == [[2.0, 3.0, 1.0]]
    assert pad(np.zeros((0, 2))).shape == (0, 3)


def within(sample, mean, n_se=5):
    sample = np.asarray(sample, float)
    return np.all(np.abs(sample.mean(0) - mean) < n_se * sample.std(0) / np.sqrt(len(sample)) + 1e-12)


def test_theta_has_the_prior_moments():
    rng, priors = np.random.default_rng(7), Priors(v0=2.0, a0=6.0, b0=3.0, sigma0=0.5, sigma1=2.0)
    draws = [sample_theta(priors, 3, 2, 4, 2, rng) for _ in range(4000)]
    tau, A = np.array([t.tau for t in draws]), np.array([t.A for t in draws])
    beta0, beta1 = np.array([t.beta0 for t in draws]), np.array([t.beta1 for t in draws])
    assert tau.shape[1:] == (3, 2) and A.shape[1:] == (3, 2, 3) and beta0.shape[1:] == (2, 3) and beta1.shape[1:] == (3, 3)
    assert within(tau, 2.0) and within((tau - 2) ** 2, 6 / 9)             # a/b, a/b^2
    for sample, var in ((A * np.sqrt(tau)[..., None], 2.0), (beta0, 0.25), (beta1, 4.0)):
        assert within(sample, 0) and within(sample**2, var)
    assert within(A**2, 2.0 * 3 / (6 - 1))                                # v0 E[1/tau]
    assert within(beta0[:, 0, 0] * beta0[:, 1, 0], 0)


def test_sticks_and_data_have_the_model_frequencies():
    rng = np.random.default_rng(8)
    psi = np.array([0.7, -0.4])
    draws = sample_sticks(np.tile(psi, (40_000, 1)), rng)
    assert within(draws[:, None] == np.arange(3), np.exp(special.stick_log_probs(psi)))
    theta = sample_theta(Priors(v0=2.0, sigma0=0.7, sigma1=0.7), 3, 2, 3, 2, rng)
    X = np.tile([[0.4, -0.9]], (40_000, 1))
    z, x1, y = sample_network(theta, X, rng)
    assert within(z[:, None] == np.arange(3), np.exp(special.stick_log_probs(theta.beta0 @ [0.4, -0.9, 1.0])))
    for k in range(3):
        of_k = x1[z == k]
        if len(of_k) > 100:
            mean = theta.A[k] @ [0.4, -0.9, 1.0]
            assert within(of_k, mean) and within((of_k - mean) ** 2, 1 / theta.tau[k])
    near = np.argsort(((x1 - x1.mean(0)) ** 2).sum(1))[:4000]
    expected = np.mean([np.exp(special.stick_log_probs(theta.beta1 @ [*v, 1.0])) for v in x1[near]], 0)
    assert within(y[near, None] == np.arange(3), expected)


def test_bad_priors_are_refused():
    for bad in (0.0, -1.0, np.nan, np.inf, "1", True):
        with pytest.raises(ValueError, match="sigma1"):
            Priors(sigma1=bad)
