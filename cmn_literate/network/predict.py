# Tangled from book/network/predict.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Prediction: integrate everything that is uncertain

A prediction of the fitted network integrates over the weights, the expert, the noise and the
latent vector, nearly all of it in closed form or in one-dimensional integrals; only the latent
vector needs a quadrature rule. Plugging in the means instead is overconfident where rows are few
or far away.
"""

__all__ = ["logit_moments", "gate_log_probs", "gate_probs", "latent_t", "output_log_probs",
           "slices", "predict_by_slices", "sample_parameters", "point_posterior"]


# book/network/predict.ipynb, cell predict-02
from types import SimpleNamespace

import numpy as np
from scipy.special import stdtrit

from cmn_literate.checks import check_count, check_parameters, check_X
from cmn_literate.ideas.expfam import pad
from cmn_literate.ideas.logistic import stick_log_means
from cmn_literate.network.experts import row_quadratic
from cmn_literate.network.simulate import Theta


# book/network/predict.ipynb, cell predict-09
def logit_moments(X, mu, S):
    """Mean and variance of every logit beta_j . x~, beta_j ~ N(mu_j, S_j).
    [eq-pred-logit]   X (n,D-1) unpadded, mu (J,D), S (J,D,D) -> (n,J), (n,J)"""
    return pad(X) @ mu.T, np.maximum(row_quadratic(X, S), 0.0)


# book/network/predict.ipynb, cell predict-10
def gate_log_probs(parameters, X):
    """ln w_k(x): log-probability of each expert at a row, beta_0 integrated out.
    [eq-pred-gate]   X (n,d) -> (n,K) nats"""
    p = check_parameters(parameters)
    X = check_X(X, n_features=p.M.shape[2] - 1)
    return stick_log_means(*logit_moments(X, p.beta0_mu, p.beta0_S))


def gate_probs(parameters, X):
    """w_k(x): probability of each expert at each row, beta_0 integrated out.
    [eq-pred-gate]   X (n,d) -> (n,K), rows sum to 1"""
    return np.exp(gate_log_probs(parameters, X))


# book/network/predict.ipynb, cell predict-13
def latent_t(parameters, X):
    """Law of x1 given each expert, A and tau integrated out: independent Student t
    per coordinate.  [eq-pred-t]

    X (n,d) -> location (n,K,h), scale (n,K,h), degrees of freedom (K,)
    """
    p = check_parameters(parameters)
    X = check_X(X, n_features=p.M.shape[2] - 1)
    location = np.einsum("kid,nd->nki", p.M, pad(X))
    spread = 1 + np.maximum(row_quadratic(X, p.V), 0.0)
    return location, np.sqrt(spread[:, :, None] * p.b / p.a[:, None]), 2 * p.a


# book/network/predict.ipynb, cell predict-16
def output_log_probs(parameters, x1):
    """ln G_c(x1): log class probabilities for given x1, beta_1 integrated out.
    [eq-pred-output]   x1 (..., h) -> (..., L) nats"""
    rows = x1.reshape(-1, x1.shape[-1])
    log_probs = stick_log_means(
        *logit_moments(rows, parameters.beta1_mu, parameters.beta1_S))
    return log_probs.reshape(x1.shape[:-1] + log_probs.shape[1:])


# book/network/predict.ipynb, cell predict-19
def slices(h, m):
    """Medians of m slices of equal probability, for h uniform variables: all
    combinations.  [eq-pred-slices]   -> (m**h, h) in (0, 1)"""
    u = (np.arange(m) + 0.5) / m
    return np.stack(np.meshgrid(*[u] * h, indexing="ij"), -1).reshape(-1, h)


def predict_by_slices(parameters, X, m):
    """p(y = c | x, data), everything uncertain integrated out, by the plain rule.
    [eq-predict, eq-pred-slices]

    X (n,d) unpadded, m points per latent coordinate -> (n,L), rows sum to 1
    Evaluates n K m**h points at once: for reading and for checking.
    """
    location, scale, dof = latent_t(parameters, X)
    u = slices(location.shape[2], m)
    t = np.stack([stdtrit(nu, u) for nu in dof])                 # (K, Q, h)
    x1 = location[:, :, None] + scale[:, :, None] * t            # (n, K, Q, h)
    by_expert = np.exp(output_log_probs(parameters, x1)).mean(2)
    return np.einsum("nk,nkc->nc", gate_probs(parameters, X), by_expert)


# book/network/predict.ipynb, cell predict-22
def sample_parameters(parameters, rng, n_draws):
    """Independent draws of Theta from q.  [eq-mng]

    -> Theta with a leading axis S = n_draws: beta1 (S,L-1,h+1), beta0 (S,K-1,d+1),
       A (S,K,h,d+1), tau (S,K,h) precisions
    """
    p, S = check_parameters(parameters), check_count(n_draws, "n_draws")

    def noise(covariance, *rows):           # N(0, covariance_j), (S, J, *rows, D)
        values, vectors = np.linalg.eigh(covariance)
        scaled = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        root = scaled @ vectors.swapaxes(1, 2)       # signs of vectors cancel
        z = rng.normal(size=(S, len(root), *rows, root.shape[-1]))
        for j, part in enumerate(root):              # symmetric: z_j part = part z_j
            z[:, j] = z[:, j] @ part
        return z
    tau = rng.gamma(p.a[:, None], 1 / p.b, size=(S, *p.b.shape))
    A = p.M + noise(p.V, p.M.shape[1]) / np.sqrt(tau)[..., None]
    beta1 = p.beta1_mu + noise(p.beta1_S)
    return Theta(beta1, p.beta0_mu + noise(p.beta0_S), A, tau)


# book/network/predict.ipynb, cell predict-28
def point_posterior(theta):
    """A single Theta as parameters of q without uncertainty: predict_proba of it
    is the likelihood p(y|x,Theta).  [eq-pred-likelihood]

    theta: beta1 (L-1,h+1), beta0 (K-1,d+1), A (K,h,d+1), tau (K,h)
    -> namespace with the eight fields
    """
    beta1, beta0, A, tau = (np.asarray(part, dtype=float) for part in theta)
    zeros = [np.zeros(part.shape + part.shape[-1:]) for part in (beta1, beta0)]
    a = np.full(len(A), 1e12)
    return SimpleNamespace(
        beta1_mu=beta1, beta1_S=zeros[0], beta0_mu=beta0, beta0_S=zeros[1], M=A,
        V=np.zeros((len(A),) + A.shape[2:] * 2), a=a, b=a[:, None] / tau)
