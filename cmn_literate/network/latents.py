# Tangled from book/network/latents.ipynb by tools/tangle.py; edit the notebook, not this file.
"""The E-step: every row is an island

Given the factors that all rows share, every row is an island: a Gaussian for its latent vector
under each expert, a tilt for each coin, and a weight for each expert, each the exact maximiser of
the bound, and none depends on another row.
"""

__all__ = ["Parameters", "Local", "State", "output_logits", "per_component", "output_log_bound",
           "latent_update", "output_tilt", "row_scores", "responsibilities"]


# book/network/latents.ipynb, cell latents-02
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np

from cmn_literate.ideas.expfam import (
    gaussian_entropy, pad, padded_second_moment, second_moment, spd_inverse)
from cmn_literate.ideas.logistic import stick_log_bound
from cmn_literate.ideas.polya_gamma import pg_mean
from cmn_literate.ideas.stick_breaking import stick_counts
from cmn_literate.network.experts import expert_log_density
from cmn_literate.network.gate import gate_log_bound


# book/network/latents.ipynb, cell latents-06
class Parameters(NamedTuple):
    """The global factors of q, which all rows share.  [eq-cmn-family]

    beta1_mu (L-1,h+1), beta1_S (L-1,h+1,h+1)
             output coefficients: q(beta_1l) = N(beta1_mu[l], beta1_S[l])
    beta0_mu (K-1,D), beta0_S (K-1,D,D), D = d+1
             gate coefficients: q(beta_0j) = N(beta0_mu[j], beta0_S[j])
    M (K,h,D), V (K,D,D)
             experts: row i of A_k, given tau_ki, is N(M[k,i], V[k] / tau_ki)
    a (K,), b (K,h)
             noise precisions: q(tau_ki) = Gamma(shape a[k], rate b[k,i])
    """
    beta1_mu: anp.ndarray
    beta1_S: anp.ndarray
    beta0_mu: anp.ndarray
    beta0_S: anp.ndarray
    M: anp.ndarray
    V: anp.ndarray
    a: anp.ndarray
    b: anp.ndarray


# book/network/latents.ipynb, cell latents-07
class Local(NamedTuple):
    """The local factors of q, those of N rows.  [eq-cmn-family]

    gamma (N,K)      responsibilities: q(z_n = k) = gamma[n,k]
    mu (N,K,h), Sigma (N,K,h,h)
                     latent vectors: q(x1_n | z_n = k) = N(mu[n,k], Sigma[n,k])
    xi1 (N,K,L-1)    tilts: q(omega_1nl | z_n = k) = PG(b_l,y, xi1[n,k,l]);
                     shape (N,L-1) if all experts share them
    xi0 (N,K-1)      tilts: q(omega_0nj | z_n = k) = PG(b_j,k, xi0[n,j])
    """
    gamma: anp.ndarray
    mu: anp.ndarray
    Sigma: anp.ndarray
    xi1: anp.ndarray
    xi0: anp.ndarray


# book/network/latents.ipynb, cell latents-08
class State(NamedTuple):
    """Every factor of q, the global and the local ones.  [eq-cmn-family]"""
    parameters: Parameters
    local: Local

    @classmethod
    def of(cls, **arrays):
        """The State of its thirteen arrays by name; TypeError if the names differ."""
        rest = dict(arrays)
        shared = {name: rest.pop(name) for name in Parameters._fields if name in rest}
        return cls(Parameters(**shared), Local(**rest))

    def flat(self):
        """{name: array} of all thirteen, the global ones first."""
        return {**self.parameters._asdict(), **self.local._asdict()}

    def replace(self, **arrays):
        """The State with some of the thirteen arrays exchanged."""
        return State.of(**{**self.flat(), **arrays})


# book/network/latents.ipynb, cell latents-10
def output_logits(mu, Sigma, beta1_mu, beta1_S):
    """E[psi_1l] and E[psi_1l^2] under q(x1|z=k) q(beta_1).  [eq-output-logits]

    mu (N,K,h), Sigma (N,K,h,h), beta1_mu (L-1,h+1), beta1_S (L-1,h+1,h+1)
    -> (N,K,L-1), (N,K,L-1)
    """
    psi = anp.tensordot(mu, beta1_mu[:, :-1], axes=(2, 1)) + beta1_mu[:, -1]
    moments, B = padded_second_moment(mu, Sigma), second_moment(beta1_mu, beta1_S)
    return psi, anp.tensordot(moments, B, axes=((2, 3), (1, 2)))


# book/network/latents.ipynb, cell latents-11
def per_component(xi1):
    """Tilts with an expert axis: (N,K,L-1) stays, (N,L-1) -> (N,1,L-1).
    [eq-output-tilt, eq-output-tilt-shared]"""
    return xi1 if xi1.ndim == 3 else xi1[:, None, :]


def output_log_bound(y, mu, Sigma, beta1_mu, beta1_S, xi1):
    """O_nk = E[ln p(y, omega_1 | x1, beta_1) - ln q(omega_1 | z=k)], nats.
    [eq-output-bound]

    y (N,) in 0..L-1, mu (N,K,h), Sigma (N,K,h,h), beta1_mu (L-1,h+1),
    beta1_S (L-1,h+1,h+1), xi1 (N,K,L-1) or (N,L-1), any tilts -> (N,K)
    """
    tables = stick_counts(np.eye(beta1_mu.shape[0] + 1))
    b, kappa = (table[y][:, None, :] for table in tables)
    psi, psi2 = output_logits(mu, Sigma, beta1_mu, beta1_S)
    return stick_log_bound(psi, psi2, per_component(xi1), b, kappa)


# book/network/latents.ipynb, cell latents-16
def latent_update(X, y, parameters, xi1):
    """q(x1|z=k) given q(omega_1), q(beta_1) and q(A, tau).
    [eq-latent-natural, eq-latent-x]

    X (N,d) unpadded, y (N,), parameters, xi1 (N,K,L-1) or (N,L-1)
    -> mu (N,K,h), Sigma (N,K,h,h)
    """
    p, h = parameters, parameters.M.shape[1]
    b, kappa = (table[y] for table in stick_counts(np.eye(len(p.beta1_mu) + 1)))
    omega = per_component(pg_mean(1.0, xi1)) * b[:, None, :]
    tau, B = p.a[:, None] / p.b, second_moment(p.beta1_mu, p.beta1_S)
    Lambda = tau[:, :, None] * np.eye(h)
    Lambda = Lambda + np.tensordot(omega, B[:, :h, :h], axes=1)
    guess = np.einsum("kid,nd->nki", p.M, pad(X))
    eta = (tau * guess + (kappa @ p.beta1_mu[:, :h])[:, None, :]
           - omega @ B[:, :h, h])
    Sigma = spd_inverse(Lambda)[0]
    return np.einsum("nkij,nkj->nki", Sigma, eta), Sigma


# book/network/latents.ipynb, cell latents-20
def output_tilt(mu, Sigma, beta1_mu, beta1_S, gamma=None):
    """xi_1 of q(omega_1): one per expert, or shared if gamma (N,K) is given.
    [eq-output-tilt, eq-output-tilt-shared]

    mu (N,K,h), Sigma (N,K,h,h) -> (N,K,L-1), with gamma (N,L-1)
    Sticks that were not tossed get the root mean square of their logit as well.
    """
    psi2 = output_logits(mu, Sigma, beta1_mu, beta1_S)[1]
    if gamma is not None:
        psi2 = np.einsum("nk,nkl->nl", gamma, psi2)
    return np.sqrt(psi2)


# book/network/latents.ipynb, cell latents-27
def row_scores(state, X, y):
    """s_nk: everything the bound says about row n if expert k made it, nats.
    [eq-row-score]

    Reads the factors as they are, fresh or stale, so it is always right.
    state any State, X (N,d), y (N,) -> (N,K)
    """
    p, q = state.parameters, state.local
    return (output_log_bound(y, q.mu, q.Sigma, p.beta1_mu, p.beta1_S, q.xi1)
            + expert_log_density(X, q.mu, q.Sigma, p.M, p.V, p.a, p.b)
            + gaussian_entropy(q.Sigma)
            + gate_log_bound(X, p.beta0_mu, p.beta0_S, q.xi0))


# book/network/latents.ipynb, cell latents-28
def responsibilities(scores, axis=-1):
    """Softmax of the scores over the experts, and its log normaliser.
    [eq-row-gamma, eq-row-max]

    scores (N,K), or (K,B) with axis=0
    -> gamma like scores, summing to 1; ln sum_k e^score without that axis
    The largest score is subtracted first, so nothing overflows.
    """
    top = scores.max(axis, keepdims=True)
    gamma = np.exp(scores - top)
    total = gamma.sum(axis, keepdims=True)
    gamma /= total
    return gamma, np.squeeze(top + np.log(total), axis)
