"""Numbers that are known from elsewhere, typed in: publicly reported inputs with their right values, and exact special cases."""
import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracle import special
from scipy.stats import multivariate_t

from cmn_literate.network.latents import Parameters
from cmn_literate.network.experts import mng_log_evidence, regression_log_evidence
from cmn_literate.ideas.logistic import fit_multinomial, predict_multinomial, sigmoid_normal, stick_log_means
from cmn_literate.ideas.polya_gamma import pg_mean, pg_var
from cmn_literate.engineering.quadrature import predict_proba
from cmn_literate.ideas.stick_breaking import stick_log_probs


def test_polya_gamma_moments():
    assert_allclose([pg_mean(1.0, 0.0), pg_var(1.0, 0.0)], [1 / 4, 1 / 24], rtol=1e-15)
    assert_allclose([pg_mean(2.7, 0.0), pg_var(2.7, 0.0)], [0.675, 0.1125], rtol=1e-14)
    assert_allclose([pg_mean(2.7, 1.0), pg_var(2.7, 1.0)], [0.623858162301013, 0.0930059425490122], rtol=1e-14)


def test_sticks_far_out():
    assert_allclose(stick_log_probs(np.array([20.0, 20.0])), [-2.06115362031438e-9, -20.0000000041223, -40.0000000041223], rtol=1e-14)
    assert_allclose(stick_log_probs(np.array([40.0, 40.0])), [-4.24835425529159e-18, -40.0, -80.0], rtol=1e-14)


def test_gaussian_sigmoid_integrals():
    assert_allclose(sigmoid_normal(1.0, 4.0), 0.6477264385258671, rtol=1e-12)
    assert_allclose(sigmoid_normal(3.0, 9.0), 0.8056142639116093, rtol=1e-12)
    assert_allclose(np.exp(stick_log_means(np.zeros(2), np.full(2, 4.0))), [1 / 2, 1 / 4, 1 / 4], rtol=1e-12)


@pytest.mark.parametrize("m,v", [(0.0, 0.0), (0.3, 1e-8), (-2.0, 1.0), (5.0, 24.9), (5.0, 25.1), (-30.0, 4.0), (1.0, 400.0), (-300.0, 1e4),
                                 (80.0, 2.0), (-80.0, 900.0)])
def test_sigmoid_integrals_against_25_digits(m, v):
    assert_allclose(sigmoid_normal(m, v), special.mean_sigmoid(m, v), rtol=1e-9)
    assert_allclose(sigmoid_normal(m, v) + sigmoid_normal(-m, v), 1, rtol=1e-12)


T, ANSWERS = np.array([-2.0, -1.0, 0.0, 1.0, 2.0]), np.array([0, 0, 1, 0, 1])


def test_logistic_regression_of_five_points():
    """P(y = 1) = sigma(beta . (1, t)), prior covariance I/4.  Stick 0 is the log odds of class 0: hand the answer 1 over as class 0."""
    fitted = fit_multinomial(T[:, None], 1 - ANSWERS, prior_scale=0.5, tol=0.0, max_sweeps=5000)
    slope, intercept = fitted.mu[0]                              # the padded 1 stands last
    assert_allclose([intercept, slope], [-0.097147708013, 0.317739661275], atol=1e-8)
    assert_allclose(fitted.elbo[-1], -3.4962167089, atol=1e-9)
    log_evidence = -3.4722258088                                 # from a two-dimensional integral
    assert fitted.elbo[-1] < log_evidence < fitted.elbo[-1] + 0.03
    # the other coding: same slope and intercept with the other sign, same bound
    mirrored = fit_multinomial(T[:, None], ANSWERS, prior_scale=0.5, tol=0.0, max_sweeps=5000)
    assert_allclose(mirrored.mu, -fitted.mu, atol=1e-10)
    assert_allclose(mirrored.elbo[-1], fitted.elbo[-1], rtol=1e-12)


def test_logistic_log_evidence_by_quadrature():
    """The number in the test above, once more: product trapezoid over both weights."""
    w = np.linspace(-6, 6, 601)
    b0, b1 = np.meshgrid(w, w, indexing="ij")
    log_joint = -(b0**2 + b1**2) / (2 * 0.25) - np.log(2 * np.pi * 0.25)
    for t, answer in zip(T, ANSWERS):
        log_joint = log_joint - np.logaddexp(0, -(2 * answer - 1) * (b0 + b1 * t))
    assert_allclose(np.log(np.exp(log_joint).sum() * (w[1] - w[0]) ** 2), -3.4722258088, atol=1e-10)


def test_multinomial_regression_without_rows_is_the_prior():
    fitted = fit_multinomial(np.zeros((0, 2)), np.zeros(0, int), n_classes=3, prior_scale=2.0)
    assert_allclose(fitted.mu, np.zeros((2, 3)), atol=1e-15)
    assert_allclose(fitted.S, np.tile(4 * np.eye(3), (2, 1, 1)), rtol=1e-14)
    assert_allclose(predict_multinomial(fitted, np.array([[0.3, -1.0]])), [[1 / 2, 1 / 4, 1 / 4]], rtol=1e-12)


def test_regression_evidence_of_four_points():
    """One weight, no intercept: x = 1..4, y = 1.1, 1.9, 3.2, 3.9; w given tau ~ N(0, 1/tau), tau ~ Gamma(1, 1)."""
    x, y = np.array([[1.0], [2.0], [3.0], [4.0]]), np.array([[1.1], [1.9], [3.2], [3.9]])
    assert_allclose(regression_log_evidence(x, y, v0=1.0, a0=1.0, b0=1.0), -5.959549162984466, rtol=1e-13)
    assert_allclose(mng_log_evidence(x, y, v0=1.0, a0=1.0, b0=1.0), -6.16037209606097, rtol=1e-13)      # with an intercept


def test_regression_evidence_is_a_multivariate_t():
    """The marginal of the outputs, scipy's density; a shape whose Gamma function is not 1, two outputs, a prior mean."""
    rng = np.random.default_rng(0)
    X, v0, a0, b0 = rng.normal(size=(5, 2)), 3.0, 2.5, 0.7
    design = np.hstack([X, np.ones((5, 1))])
    targets, M0 = rng.normal(size=(5, 2)), rng.normal(size=(2, 3))
    shape = b0 / a0 * (np.eye(5) + v0 * design @ design.T)
    by_scipy = sum(multivariate_t(design @ M0[i], shape, df=2 * a0).logpdf(targets[:, i]) for i in range(2))
    assert_allclose(mng_log_evidence(X, targets, v0, a0, b0, M0), by_scipy, rtol=1e-12)
    assert_allclose(regression_log_evidence(design, targets, v0, a0, b0, M0), by_scipy, rtol=1e-12)


def certain_latent(logit_mean, logit_var):
    """Parameters whose latent is 1 for certain, so that the output logits are N(logit_mean, logit_var) exactly."""
    J = len(logit_mean)
    return Parameters(
        beta1_mu=np.stack([np.zeros(J), logit_mean], 1), beta1_S=np.stack([np.diag([1e-12, v]) for v in logit_var]),
        beta0_mu=np.zeros((0, 2)), beta0_S=np.zeros((0, 2, 2)), M=np.zeros((1, 1, 2)), V=1e-12 * np.eye(2)[None], a=np.array([1e6]),
        b=np.array([[1e-3]]))


def test_predictions_of_known_logits():
    X = np.array([[0.4]])
    for m, v, p in ((1.0, 4.0, 0.6477264385258671), (3.0, 9.0, 0.8056142639116093)):
        assert_allclose(predict_proba(certain_latent([m], [v]), X), [[p, 1 - p]], rtol=1e-7)
    assert_allclose(predict_proba(certain_latent([0.0, 0.0], [4.0, 4.0]), X), [[1 / 2, 1 / 4, 1 / 4]], rtol=1e-7)
