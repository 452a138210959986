"""What the chapter mean_field cannot check about itself: loops, edge cases, limits, scikit-learn, bad input."""
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad

from cmn_literate.ideas.logistic import (
    MultinomialFit,
    coefficients_from_sums,
    fit_multinomial,
    log_sigmoid_normal,
    predict_multinomial,
    regression_bound,
    regression_moments,
    regression_update,
    sigmoid_normal,
    stick_log_bound,
    stick_log_means,
)

# ---------------------------------------------------------------- an oracle in loops, numbers and scalars only


def theta(xi):
    return 0.25 if xi == 0 else math.tanh(xi / 2) / (2 * xi)


def loop_update(X, y, xi, sigma, n_classes):
    mus, Ss = [], []
    for l in range(n_classes - 1):
        P, g = np.eye(X.shape[1]) / sigma**2, np.zeros(X.shape[1])
        for n in range(len(X)):
            if y[n] >= l:
                P += theta(xi[n][l]) * np.outer(X[n], X[n])
                g += (0.5 if y[n] == l else -0.5) * X[n]
        Ss.append(np.linalg.inv(P))
        mus.append(np.linalg.solve(P, g))
    return np.array(mus), np.array(Ss)


def loop_bound(X, y, mu, S, xi, sigma):
    total = 0.0
    for l, (m, C) in enumerate(zip(mu, S)):
        D = len(m)
        total -= 0.5 * ((np.trace(C) + m @ m) / sigma**2 - D + D * math.log(sigma**2) - math.log(np.linalg.det(C)))
        for n in range(len(X)):
            if y[n] >= l:
                mean, square, t = m @ X[n], X[n] @ C @ X[n] + (m @ X[n]) ** 2, xi[n][l]
                kl = math.log(math.cosh(t / 2)) - t / 4 * math.tanh(t / 2)
                total += (0.5 if y[n] == l else -0.5) * mean - math.log(2) - 0.5 * theta(t) * square - kl
    return total


def counts(y, n_classes):
    b = (np.arange(n_classes - 1) <= np.asarray(y)[:, None]).astype(float)
    return b, (np.arange(n_classes - 1) == np.asarray(y)[:, None]) - b / 2


@pytest.mark.parametrize("N,D,L", [(1, 1, 2), (7, 2, 2), (6, 3, 4), (5, 1, 6), (0, 2, 3)])
def test_update_and_bound_against_loops(N, D, L):
    rng = np.random.default_rng([N, D, L])
    X, y, xi = rng.normal(size=(N, D)), rng.integers(L, size=N), np.abs(rng.normal(size=(N, L - 1))) * 3
    xi[:1] = 0.0
    b, kappa = counts(y, L)
    mu, S = regression_update(X, b, kappa, xi, 1.7)
    for one, two in zip((mu, S), loop_update(X, y, xi, 1.7, L)):
        assert_allclose(one, two, rtol=1e-11, atol=1e-13)
    assert_allclose(regression_bound(X, b, kappa, mu, S, xi, 1.7), loop_bound(X, y, mu, S, xi, 1.7), rtol=1e-11, atol=1e-12)
    psi, psi2 = regression_moments(X, mu, S)
    for n in range(N):
        assert_allclose(psi2[n], [X[n] @ C @ X[n] + (m @ X[n]) ** 2 for m, C in zip(mu, S)], rtol=1e-12)


def test_log_normaliser_is_the_sum_of_its_bound_terms():
    """Right after the beta update: bound = normaliser - what q(omega) and the ln 2 cost."""
    rng = np.random.default_rng(0)
    X, y, xi = rng.normal(size=(8, 3)), rng.integers(3, size=8), np.abs(rng.normal(size=(8, 2)))
    b, kappa = counts(y, 3)
    gram = np.einsum("nj,nd,ne->jde", b * np.vectorize(theta)(xi), X, X)
    mu, S, log_normaliser = coefficients_from_sums(gram, kappa.T @ X, 0.9)
    cost = stick_log_bound(np.zeros((8, 2)), np.zeros((8, 2)), xi, b, kappa).sum()
    assert_allclose(regression_bound(X, b, kappa, mu, S, xi, 0.9), log_normaliser.sum() + cost, rtol=1e-12)


def test_inactive_sticks_do_not_matter():
    X, xi = np.ones((2, 1)), np.full((2, 3), 0.7)
    b, kappa = counts([0, 1], 4)
    other = np.where(b == 0, 50.0, xi)
    for one, two in zip(regression_update(X, b, kappa, xi, 2.0), regression_update(X, b, kappa, other, 2.0)):
        assert_array_equal(one, two)
    mu, S = regression_update(X, b, kappa, xi, 2.0)
    assert regression_bound(X, b, kappa, mu, S, xi, 2.0) == regression_bound(X, b, kappa, mu, S, other, 2.0)
    assert_allclose(mu[2], 0)                                    # nobody tosses coin 2: the prior
    assert_allclose(S[2], [[4.0]])


# ---------------------------------------------------------------- the fit

def toy(seed=0, N=60, d=2, L=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, d))
    return X, np.argmax(X @ rng.normal(size=(d, L)) * 2 + rng.gumbel(size=(N, L)), axis=1)


@pytest.mark.parametrize("seed", range(5))
def test_bound_rises_and_stays_below_zero(seed):
    X, y = toy(seed)
    fit = fit_multinomial(X, y, tol=0.0, max_sweeps=200)
    assert np.diff(fit.elbo).min() > -1e-9 * abs(fit.elbo[-1]) and fit.elbo[-1] < 0
    assert len(fit.elbo) == fit.n_sweeps and isinstance(fit, MultinomialFit)
    b, kappa = counts(y, 3)
    Xt = np.column_stack([X, np.ones(len(X))])
    assert_allclose(regression_bound(Xt, b, kappa, fit.mu, fit.S, fit.xi, 5.0), fit.elbo[-1], rtol=1e-12)


def test_fit_is_a_fixed_point_wherever_it_starts():
    X, y = toy(1)
    fit = fit_multinomial(X, y, tol=1e-13, max_sweeps=20000)
    assert fit.converged
    Xt, (b, kappa) = np.column_stack([X, np.ones(len(X))]), counts(y, 3)
    for scale in (0.01, 30.0):
        xi = np.abs(np.random.default_rng(2).normal(size=b.shape)) * scale
        for _ in range(1500):
            mu, S = regression_update(Xt, b, kappa, xi, 5.0)
            xi = np.sqrt(regression_moments(Xt, mu, S)[1])
        assert_allclose(mu, fit.mu, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("c", range(4))
def test_one_row_stays_below_its_exact_evidence(c):
    fit = fit_multinomial([[0.7, -1.0]], [c], n_classes=4, tol=0.0, prior_scale=2.0)
    assert fit.elbo[-1] <= -min(c + 1, 3) * np.log(2)


def test_tight_as_the_posterior_concentrates():
    X, y = toy(3, N=20)
    exact = -np.minimum(y + 1, 2).sum() * np.log(2)              # at beta = 0
    gaps = [exact - fit_multinomial(X, y, prior_scale=s, tol=0.0).elbo[-1] for s in (1e-2, 1e-3, 1e-4)]
    assert all(abs(g) < 10 * s for g, s in zip(gaps, (1e-2, 1e-3, 1e-4)))


def test_last_two_classes_may_be_swapped():
    X, y = toy(4)
    swapped = np.array([0, 2, 1])[y]
    one, two = fit_multinomial(X, y), fit_multinomial(X, swapped)
    assert_allclose(one.elbo, two.elbo, rtol=1e-12)
    assert_allclose(one.mu[1], -two.mu[1], rtol=1e-9)
    assert_allclose(predict_multinomial(one, X), predict_multinomial(two, X)[:, [0, 2, 1]], rtol=1e-9)


def test_sklearn_oracle_in_the_limit_of_many_data():
    """With the data repeated 2000 times the mean is the posterior mode; a prior 2000 times narrower keeps the mode in place."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    X, y = toy(5, L=2)
    Xt, (b, kappa) = np.column_stack([X, np.ones(len(X))]), counts(y, 2)
    xi, copies = np.zeros(b.shape), 2000
    for _ in range(300):
        mu, S = regression_update(Xt, copies * b, copies * kappa, xi, 5.0 / np.sqrt(copies))
        xi = np.sqrt(regression_moments(Xt, mu, S)[1])
    mode = linear_model.LogisticRegression(C=25.0, fit_intercept=False, tol=1e-12, max_iter=10000).fit(Xt, 1 - y).coef_
    assert_allclose(mu, mode, rtol=2e-3)
    once = fit_multinomial(X, y)                                 # the real posterior is near the mode, in units of its spread
    assert np.all(np.abs(once.mu - mode) < np.sqrt(np.diagonal(once.S, axis1=1, axis2=2)))


def test_held_out_iris_beats_guessing():
    data = pytest.importorskip("sklearn.datasets").load_iris()
    order = np.random.default_rng(0).permutation(150)
    X = (data.data - data.data[order[:100]].mean(0)) / data.data[order[:100]].std(0)
    fit = fit_multinomial(X[order[:100]], data.target[order[:100]])
    p = predict_multinomial(fit, X[order[100:]])
    y = data.target[order[100:]]
    assert fit.converged and np.mean(p.argmax(1) == y) > 0.9 and np.mean(np.log(p[np.arange(50), y])) > -0.25


def test_intercept_and_labels():
    X, y = toy(6)
    inside = fit_multinomial(X, y)
    outside = fit_multinomial(np.column_stack([X, np.ones(len(X))]), y, intercept=False)
    assert_array_equal(inside.mu, outside.mu)
    assert inside.intercept and not outside.intercept
    assert_array_equal(predict_multinomial(inside, X), predict_multinomial(outside, np.column_stack([X, np.ones(len(X))])))
    assert_array_equal(fit_multinomial(X.tolist(), y.astype(float)).mu, inside.mu)
    unseen = fit_multinomial(X, np.minimum(y, 1), n_classes=4)   # classes 2 and 3 never occur
    p = predict_multinomial(unseen, X)
    assert p.shape == (60, 4) and np.isfinite(unseen.elbo).all() and p[:, 2:].max() < 0.5
    stopped = fit_multinomial(X, y, max_sweeps=2, tol=0.0)
    assert stopped.n_sweeps == 2 and not stopped.converged


def test_the_stopping_rule_counts_nats_per_row():
    X, y = toy(8)
    fit = fit_multinomial(X, y, tol=1e-5)
    gains = np.diff(fit.elbo)
    assert fit.converged and gains[-1] <= 1e-5 * 60 < gains[-2]


def test_far_out_inputs_stay_finite():
    fit = fit_multinomial([[-1e4], [1e4], [-9e3], [8e3]], [0, 1, 0, 1])
    assert np.isfinite(fit.mu).all() and np.isfinite(fit.elbo).all()
    p = predict_multinomial(fit, [[-1e6], [0.0], [1e6]])
    assert np.isfinite(p).all() and p[0, 0] > 0.9 and p[2, 1] > 0.9
    assert_allclose(p.sum(1), 1, rtol=1e-12)


X0, Y0 = np.zeros((3, 2)), [0, 1, 0]


@pytest.mark.parametrize("call,message", [
    (lambda: fit_multinomial([1.0, 2.0], [0, 1]), "X: "),
    (lambda: fit_multinomial([[np.nan, 0.0]], [0], n_classes=2), "X: .*nan"),
    (lambda: fit_multinomial([["a"]], [0], n_classes=2), "X: "),
    (lambda: fit_multinomial(X0, [0, 1]), "y: "),
    (lambda: fit_multinomial(X0, [0, 1, -1]), "y: "),
    (lambda: fit_multinomial(X0, [0.0, 1.0, 0.5]), "y: "),
    (lambda: fit_multinomial(X0, [0, 1, 2], n_classes=2), "y: "),
    (lambda: fit_multinomial(X0, [0, 0, 0]), "y: .*two classes"),
    (lambda: fit_multinomial(np.zeros((0, 2)), []), "y: "),
    (lambda: fit_multinomial(X0, Y0, n_classes=1), "n_classes: "),
    (lambda: fit_multinomial(X0, Y0, n_classes=2.5), "n_classes: "),
    (lambda: fit_multinomial(X0, Y0, prior_scale=0.0), "prior_scale: "),
    (lambda: fit_multinomial(X0, Y0, prior_scale=-1.0), "prior_scale: "),
    (lambda: fit_multinomial(X0, Y0, prior_scale="wide"), "prior_scale: "),
    (lambda: fit_multinomial(X0, Y0, prior_scale=np.inf), "prior_scale: "),
    (lambda: fit_multinomial(X0, Y0, tol=-1.0), "tol: "),
    (lambda: fit_multinomial(X0, Y0, tol=np.nan), "tol: "),
    (lambda: fit_multinomial(X0, Y0, max_sweeps=0), "max_sweeps: "),
    (lambda: predict_multinomial(fit_multinomial(X0, Y0), np.zeros((1, 3))), "X: expected 2"),
    (lambda: predict_multinomial(fit_multinomial(X0, Y0, intercept=False), np.zeros((1, 1))), "X: expected 2"),
    (lambda: sigmoid_normal(0.0, -1e-3), "v: "),
    (lambda: sigmoid_normal(0.0, np.nan), "v: "),
    (lambda: sigmoid_normal(np.inf, 1.0), "v: .*m"),
    (lambda: log_sigmoid_normal(0.0, 1.0, digits=0), "digits: "),
    (lambda: log_sigmoid_normal(0.0, 1.0, digits=17), "digits: "),
    (lambda: log_sigmoid_normal(0.0, 1.0, digits=None), "digits: "),
    (lambda: log_sigmoid_normal(0.0, 1.0, digits="12"), "digits: "),
    (lambda: log_sigmoid_normal(0.0, 1.0, digits=True), "digits: "),
    (lambda: sigmoid_normal(["1", "2"], 1.0), "m: .*text"),
    (lambda: sigmoid_normal([[1.0, 2.0], [3.0]], 1.0), "m: .*one length"),
    (lambda: sigmoid_normal(None, 1.0), "m: .*real"),
    (lambda: sigmoid_normal(0.0, np.array([1j, 2.0])), "v: .*real"),
    (lambda: stick_log_means(np.zeros(2), np.ma.masked_array([1.0, 2.0], [0, 1])), "v: .*masked"),
    (lambda: stick_log_means(np.zeros(1), np.array(["2020-01-01"], "M8[D]")), "v: .*dates"),
    (lambda: fit_multinomial(X0, Y0, intercept="no"), "intercept: "),
    (lambda: fit_multinomial(X0, Y0, intercept=None), "intercept: "),
    (lambda: predict_multinomial(None, X0), "fit: "),
])
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        call()


# ---------------------------------------------------------------- the logistic-normal integral

@pytest.mark.parametrize("m", [-4.0, -0.3, 0.0, 2.5, 9.0])
@pytest.mark.parametrize("v", [0.01, 1.0, 6.0, 24.0, 26.0, 90.0])
def test_sigmoid_normal_against_adaptive_quadrature(m, v):
    s = math.sqrt(v)

    def integrand(t):
        psi = m + s * t
        return math.exp(-t * t / 2) / math.sqrt(2 * math.pi) / (1 + math.exp(-psi)) if psi > -700 else 0.0

    value = quad(integrand, -10, 10, points=[0, max(-9.9, min(9.9, -m / s))], epsabs=1e-14, epsrel=1e-13, limit=400)[0]
    assert_allclose(sigmoid_normal(m, v), value, rtol=1e-11)
    assert_allclose(np.exp(log_sigmoid_normal(m, v)), value, rtol=1e-11)


def test_sigmoid_normal_without_variance_is_the_sigmoid():
    m = np.concatenate([-np.geomspace(1e-3, 1e3, 30), [0.0], np.geomspace(1e-3, 1e3, 30)])
    assert_allclose(log_sigmoid_normal(m, 0.0), -np.logaddexp(0, -m), rtol=1e-12)
    assert_allclose(log_sigmoid_normal(m, 1e-14), -np.logaddexp(0, -m), rtol=1e-11)


def test_sigmoid_normal_in_the_tails():
    m = np.array([-1000.0, -300.0, -50.0])
    for v in (1e-3, 0.1, 1.0, 20.0):                             # deep on the left: E e^psi (1 - e^psi ...) = e^(m + v/2)
        assert_allclose(log_sigmoid_normal(m, v), m + v / 2 + np.log1p(-np.exp(m + 1.5 * v)), rtol=1e-12)
    assert_allclose(log_sigmoid_normal(-m[2], 1.0), -np.exp(m[2] + 0.5), rtol=1e-11)    # the mirror image: a tiny log
    assert_array_equal(log_sigmoid_normal(1000.0, 1.0), 0.0)
    assert np.isfinite(log_sigmoid_normal(-1e6, np.array([0.0, 1.0, 1e3, 1e8]))).all()


@pytest.mark.parametrize("digits", [3, 6, 9, 12, 15])
def test_digits_are_kept(digits):
    rng = np.random.default_rng(digits)
    m, v = rng.normal(size=3000) * 10 ** rng.uniform(-2, 2.5, 3000), 10 ** rng.uniform(-4, 4, 3000)
    best = log_sigmoid_normal(-np.abs(m), v, digits=15)
    assert np.all(np.abs(log_sigmoid_normal(-np.abs(m), v, digits) - best) < 10.0**-digits + 2e-14 + 1e-15 * np.abs(best))


def test_sigmoid_normal_shapes_order_and_symmetry():
    rng = np.random.default_rng(0)
    m, v = rng.normal(size=(50, 1, 3)) * 4, rng.exponential(20.0, size=(7, 3))          # both rules, many blocks, shuffled
    p = sigmoid_normal(m, v)
    assert p.shape == (50, 7, 3)
    for i in ((0, 0, 0), (31, 4, 2), (49, 6, 1)):
        assert_allclose(p[i], sigmoid_normal(m[i[0], 0, i[2]], v[i[1], i[2]]), rtol=1e-12)
    assert_allclose(p + sigmoid_normal(-m, v), 1, rtol=1e-13)
    assert np.shape(sigmoid_normal(0.3, 2.0)) == () and sigmoid_normal(0.0, 123.0) == pytest.approx(0.5, rel=1e-12)
    assert sigmoid_normal(np.zeros((0, 2)), 1.0).shape == (0, 2)
    many = rng.normal(size=20_000)
    assert_allclose(sigmoid_normal(many, 3.0)[::997], sigmoid_normal(many[::997], 3.0), rtol=1e-12)
    rising = sigmoid_normal(np.linspace(-40, 40, 401), 9.0)
    assert np.all(np.diff(rising) >= 0) and rising[0] > 0


def test_stick_log_means_are_a_distribution():
    rng = np.random.default_rng(1)
    m, v = rng.normal(size=(40, 5)) * 10, rng.exponential(30.0, size=(40, 5))
    log_p = stick_log_means(m, v)
    assert log_p.shape == (40, 6)
    assert_allclose(np.exp(log_p).sum(1), 1, rtol=1e-12)
    assert_allclose(log_p[:, 1], log_sigmoid_normal(-m[:, 0], v[:, 0]) + log_sigmoid_normal(m[:, 1], v[:, 1]), rtol=1e-12)
    assert_array_equal(stick_log_means(np.zeros((3, 0)), np.zeros((3, 0))), np.zeros((3, 1)))


def test_prediction_far_away_is_less_certain_than_the_plug_in():
    X, y = toy(7, N=12, L=2)
    fit = fit_multinomial(X, y)
    far = 50 * X[:3]
    integrated = predict_multinomial(fit, far).max(1)
    plug_in = 1 / (1 + np.exp(-np.abs(np.column_stack([far, np.ones(3)]) @ fit.mu[0])))
    assert np.all(integrated < plug_in) and integrated.max() < 1 - 1e-6
