"""Thin adapters around code that others wrote for other purposes, where it overlaps with the suite.

    python -m cmn_conformance run --adapter tests/conformance/conformance_third_party.py:numpyro_sticks       (and the other names below)
"""

from types import SimpleNamespace

import numpy as np


def adapter(name, **operations):
    return SimpleNamespace(NAME=name, OPS=operations)


# ---- SciPy: special functions and distributions

def scipy_log_probs(psi):
    from scipy.special import log_expit
    zero = np.zeros(psi.shape[:-1] + (1,))
    return np.concatenate([zero, np.cumsum(log_expit(-psi), -1)], -1) + np.concatenate([log_expit(psi), zero], -1)


def scipy_entropy(S):
    from scipy.stats import multivariate_normal
    return multivariate_normal(cov=S).entropy()


def scipy_mean_log(a, b):
    from scipy.special import digamma
    return digamma(a) - np.log(b)


def scipy_categorical_entropy(gamma):
    from scipy.special import entr
    return entr(gamma).sum(-1)


def scipy_log_sigmoid_normal(m, v):
    """Adaptive quadrature over fifty deviations, as one would write it first."""
    from scipy.integrate import quad
    from scipy.special import expit
    from scipy.stats import norm
    def one(mean, variance):
        s = np.sqrt(variance)
        return quad(lambda t: norm.pdf(t) * expit(mean + s * t), -12, 12, epsabs=1e-14, epsrel=1e-13, limit=400)[0]
    with np.errstate(divide="ignore"):
        return np.log([one(*pair) for pair in zip(m, v)])


scipy_pieces = adapter("scipy", stick_log_probs=scipy_log_probs, gaussian_entropy=scipy_entropy, gamma_mean_log=scipy_mean_log,
                       categorical_entropy=scipy_categorical_entropy, log_sigmoid_normal=scipy_log_sigmoid_normal)

# ---- NumPyro: its stick-breaking bijection shifts the logits, so that zeros are the uniform distribution


def transform():
    import jax
    jax.config.update("jax_enable_x64", True)
    from numpyro.distributions.transforms import StickBreakingTransform
    return StickBreakingTransform()


def shift(J):
    return np.log(J - np.arange(J))


def numpyro_as_it_is(psi):
    with np.errstate(divide="ignore"):
        return np.log(np.asarray(transform()(psi)))


def numpyro_log_probs(psi):
    return numpyro_as_it_is(psi + shift(psi.shape[-1]))


def numpyro_logits(log_probs):
    return np.asarray(transform().inv(np.exp(log_probs - np.logaddexp.reduce(log_probs, axis=-1, keepdims=True)))) - shift(log_probs.shape[-1] - 1)


numpyro_unshifted = adapter("numpyro, as it is", stick_log_probs=numpyro_as_it_is)
numpyro_sticks = adapter("numpyro, shift undone", stick_log_probs=numpyro_log_probs, stick_logits=numpyro_logits)

# ---- polyagamma: it draws and has a density; moments by integrating that


def density_moments(h, z):
    from polyagamma import polyagamma_pdf
    from scipy.integrate import quad
    mean = h * np.tanh(max(abs(z), 1e-8) / 2) / (2 * max(abs(z), 1e-8))      # where to look; no part of the result
    points = mean * np.array([0.0, 0.05, 0.25, 0.5, 1.0, 2.0, 4.0, 12.0, 60.0, 200.0])
    return [sum(quad(lambda x: x**p * polyagamma_pdf(x, h, z), a, b, epsrel=1e-11, limit=200)[0] for a, b in zip(points, points[1:]))
            for p in (0, 1, 2)]


def polyagamma_mean(b, c):
    return np.array([density_moments(h, z)[1] if h else 0.0 for h, z in zip(b, c)])


def polyagamma_var(b, c):
    moments = [density_moments(h, z) if h else (1.0, 0.0, 0.0) for h, z in zip(b, c)]
    return np.array([second - first**2 for _, first, second in moments])


polyagamma_density = adapter("polyagamma", pg_mean=polyagamma_mean, pg_var=polyagamma_var)

# ---- scikit-learn: BayesianRidge with its two precisions pinned by enormous hyper-parameters is one row of one expert


def sklearn_experts(X, gamma, mu, Sigma, v0, a0, b0, **_):
    from sklearn.linear_model import BayesianRidge
    Xt = np.concatenate([X, np.ones((len(X), 1))], 1)
    (_, K, h), D, pin = mu.shape, Xt.shape[1], 1e18
    M, V, b = np.zeros((K, h, D)), np.zeros((K, D, D)), np.zeros((K, h))
    for k in range(K):
        for i in range(h):
            model = BayesianRidge(fit_intercept=False, alpha_init=1.0, lambda_init=1 / v0, alpha_1=pin, alpha_2=pin, lambda_1=pin / v0,
                                  lambda_2=pin)
            model.fit(Xt, mu[:, k, i], sample_weight=gamma[:, k])
            M[k, i], V[k] = model.coef_, model.sigma_
        r = mu[:, k] - Xt @ M[k].T                                           # the noise is ours: scikit-learn has a point estimate
        b[k] = b0 + (gamma[:, k] @ (r**2 + np.einsum("nii->ni", Sigma[:, k])) + (M[k] ** 2).sum(-1) / v0) / 2
    return M, V, a0 + gamma.sum(0) / 2, b


sklearn_ridge = adapter("scikit-learn BayesianRidge", update_experts=sklearn_experts)
