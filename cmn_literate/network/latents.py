# Tangled from book/network/latents.ipynb by tools/tangle.py; edit the notebook, not this file.
"""The E-step: every row is an island

Given the global factors every row is an island: a Gaussian for its latent vector under each
expert, a tilt for each coin, and a weight for each expert, each the exact maximiser of the bound.
"""

__all__ = ["Parameters", "State", "parameters_of", "output_logits", "per_component",
           "output_log_bound", "Prepared", "prepare", "latent_moments", "Rows", "make_rows",
           "latent_update", "output_tilt", "row_scores", "responsibilities", "Sums", "add_sums",
           "collect", "gate_rows", "estep"]


# book/network/latents.ipynb, cell latents-02
from functools import lru_cache
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np
from scipy.special import digamma

from cmn_literate.network.experts import (
    expert_log_density, outer_features, pack_quadratic)
from cmn_literate.ideas.expfam import (
    gaussian_entropy, padded_second_moment, second_moment, spd_inverse_stacked)
from cmn_literate.network.gate import gate_log_bound
from cmn_literate.ideas.logistic import stick_log_bound
from cmn_literate.ideas.polya_gamma import pg_mean, tilt_moments, toss_moments
from cmn_literate.ideas.expfam import pad
from cmn_literate.ideas.stick_breaking import stick_counts


# book/network/latents.ipynb, cell latents-05
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


# book/network/latents.ipynb, cell latents-06
class State(NamedTuple):
    """Every factor of q: the eight of Parameters, then the local ones.
    [eq-cmn-family]

    gamma (N,K)      responsibilities: q(z_n = k) = gamma[n,k]
    mu (N,K,h), Sigma (N,K,h,h)
                     latent vectors: q(x1_n | z_n = k) = N(mu[n,k], Sigma[n,k])
    xi1 (N,K,L-1)    tilts: q(omega_1nl | z_n = k) = PG(b_l,y, xi1[n,k,l]);
                     shape (N,L-1) if all experts share them
    xi0 (N,K-1)      tilts: q(omega_0nj | z_n = k) = PG(b_j,k, xi0[n,j])
    """
    beta1_mu: anp.ndarray
    beta1_S: anp.ndarray
    beta0_mu: anp.ndarray
    beta0_S: anp.ndarray
    M: anp.ndarray
    V: anp.ndarray
    a: anp.ndarray
    b: anp.ndarray
    gamma: anp.ndarray
    mu: anp.ndarray
    Sigma: anp.ndarray
    xi1: anp.ndarray
    xi0: anp.ndarray


# book/network/latents.ipynb, cell latents-07
def parameters_of(state):
    """The eight global factors of a State (or of Parameters).  [eq-cmn-family]"""
    return Parameters(*(getattr(state, name) for name in Parameters._fields))


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


# book/network/latents.ipynb, cell latents-17
class Prepared(NamedTuple):
    """Parameters laid out for matrix products over rows.
    [eq-latent-natural, eq-pack-quadratic]   J = L-1

    mean_map (h*K,D)            M, latent dimension first
    tau (h,K,1), half_tau (K,1,h)   E[tau] = a / b, and half of it
    forms (2K-1,D(D+1)/2)       for outer_features; K rows: -h/2 x~^T V_k x~,
                                sum_j kappa_jk <psi_0j> - b_jk ln 2, and the
                                constants of T + H, sum_i E[ln tau_i] / 2 + h/2;
                                K-1 rows: E[beta_0 beta_0^T] / 4
    constants (K,)              h/2 - sum_j b_jk ln 2: what forms contain that no
                                factor of q(Theta) has a part in
    bend (h*h+h,J)              E[beta_1 beta_1^T]: block ww, then column wc
    square (J,(h+1)(h+2)/2)     E[beta_1 beta_1^T] / 4, for the packed E[x~1 x~1^T]
    beta1_mu (J,h+1)
    """
    mean_map: anp.ndarray
    tau: anp.ndarray
    half_tau: anp.ndarray
    forms: anp.ndarray
    constants: anp.ndarray
    bend: anp.ndarray
    square: anp.ndarray
    beta1_mu: anp.ndarray


# book/network/latents.ipynb, cell latents-18
@lru_cache(maxsize=64)
def _coins(K):
    """b_jk and kappa_jk of a choice among K, each (K,K-1), and sum_j b_jk ln 2 (K,).
    [eq-kappa]"""
    b, kappa = stick_counts(np.eye(K))
    return b, kappa, np.log(2.0) * b.sum(1)


def prepare(parameters):
    """Lay the global factors out for the E-step.  [eq-latent-natural]

    Parameters or State -> Prepared
    """
    p, (K, h, D) = parameters, parameters.M.shape
    B, B0 = (second_moment(p.beta1_mu, p.beta1_S),
             second_moment(p.beta0_mu, p.beta0_S))
    _, kappa0, ln2 = _coins(K)
    tau, constants = p.a[:, None] / p.b, 0.5 * h - ln2
    forms = pack_quadratic(np.concatenate([-0.5 * h * p.V, 0.25 * B0]))
    forms[:K, -D:] += kappa0 @ p.beta0_mu
    forms[:K, -1] += 0.5 * (h * digamma(p.a) - np.log(p.b).sum(1)) + constants
    return Prepared(
        mean_map=p.M.transpose(1, 0, 2).reshape(h * K, D),
        tau=tau.T[:, :, None],
        half_tau=0.5 * tau[:, None],
        forms=forms,
        constants=constants,
        bend=B[:, :, :h].transpose(1, 2, 0).reshape(h * h + h, -1),
        square=0.25 * pack_quadratic(B),
        beta1_mu=p.beta1_mu)


# book/network/latents.ipynb, cell latents-20
def _latent_natural(prep, mean, pull, omega):
    """Lambda (h,h,K,B) and eta (h,K,B).  [eq-latent-natural]"""
    h, K, B = mean.shape
    tilted = prep.bend @ omega.reshape(len(omega), -1)
    tilted = tilted.reshape((h * h + h,) + omega.shape[1:])
    if omega.shape[1] != K:                            # one omega for all experts
        tilted = np.repeat(tilted, K, axis=1)
    P, eta = tilted[:h * h].reshape(h, h, K, B), tilted[h * h:]
    np.subtract(pull[:, None, :], eta, out=eta)
    eta += prep.tau * mean
    tilted[:h * h:h + 1] += prep.tau                       # the diagonal of P
    return P, eta


# book/network/latents.ipynb, cell latents-21
def latent_moments(prep, mean, pull, omega):
    """q(x1|z=k) of a block of B rows: moments, covariances, log |Sigma|.
    [eq-latent-x, eq-latent-natural]

    mean (h,K,B) = M_k x~0, pull (h,B) = sum_l kappa_l [mu_1l]_w,
    omega (J,K,B), or (J,1,B) if shared: E[omega_1], 0 where a coin is not tossed
    -> moments ((h+1)(h+2)/2, K, B): lower triangle of E[x~1 x~1^T], row by row,
       so the last h + 1 are E[x1] and 1; Sigma (h,h,K,B); log |Sigma| (K,B)
    """
    h, K, B = mean.shape
    P, eta = _latent_natural(prep, mean, pull, omega)
    Sigma, log_det_P = spd_inverse_stacked(P.reshape(h, h, K * B), True)
    moments = np.empty(((h + 1) * (h + 2) // 2, K * B))
    mu, start = moments[-h - 1:-1], 0
    moments[-1] = 1.0
    np.einsum("ijn,jn->in", Sigma, eta.reshape(h, K * B), out=mu)
    for i in range(h):
        block = moments[start:start + i + 1]
        np.multiply(mu[i], mu[:i + 1], out=block)
        block += Sigma[i, :i + 1]
        start += i + 1
    moments, Sigma = moments.reshape(-1, K, B), Sigma.reshape(h, h, K, B)
    return moments, Sigma, -log_det_P.reshape(K, B)


# book/network/latents.ipynb, cell latents-23
class Rows(NamedTuple):
    """A block of B rows, rows last.  [eq-kappa]

    XtT (D,B) padded inputs; b, kappa (J,B) coins tossed and excess of heads by y;
    F (D(D+1)/2,B) outer_features(XtT) if they are kept, else None
    """
    XtT: anp.ndarray
    b: anp.ndarray
    kappa: anp.ndarray
    F: anp.ndarray = None


def make_rows(X, y, n_classes, features=False):
    """Lay a block of rows out.  [eq-kappa]   X (B,d), y (B,) -> Rows, which keeps
    its outer features if features is true"""
    tables = stick_counts(np.eye(n_classes))
    b, kappa = (np.ascontiguousarray(table[y].T) for table in tables)
    XtT = np.ascontiguousarray(pad(X).T)
    return Rows(XtT, b, kappa, outer_features(XtT) if features else None)


# book/network/latents.ipynb, cell latents-24
def latent_update(X, y, parameters, xi1):
    """q(x1|z=k) given q(omega_1), q(beta_1) and q(A, tau).  [eq-latent-x]

    X (N,d) unpadded, y (N,), parameters (or a State), xi1 (N,K,L-1) or (N,L-1)
    -> mu (N,K,h), Sigma (N,K,h,h)
    """
    prep = prepare(parameters)
    h, K, _ = prep.tau.shape
    XtT, b, kappa, _ = make_rows(X, y, len(prep.beta1_mu) + 1)
    mean = (prep.mean_map @ XtT).reshape(h, K, len(X))
    pull = prep.beta1_mu[:, :h].T @ kappa
    omega = np.moveaxis(per_component(pg_mean(1.0, xi1)), (0, 2), (2, 0))
    omega = np.ascontiguousarray(omega * b[:, None, :])
    moments, Sigma, _ = latent_moments(prep, mean, pull, omega)
    rows_first = np.moveaxis(moments[-h - 1:-1], (0, 2), (2, 0)).copy()
    return rows_first, np.moveaxis(Sigma, (0, 1, 3), (2, 3, 0)).copy()


# book/network/latents.ipynb, cell latents-30
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


# book/network/latents.ipynb, cell latents-39
def row_scores(state, X, y):
    """s_nk: everything the bound says about row n if expert k made it, nats.
    [eq-row-score]

    Reads the factors as they are, fresh or stale, so it is always right.
    state any State, X (N,d), y (N,) -> (N,K)
    """
    s = state
    return (output_log_bound(y, s.mu, s.Sigma, s.beta1_mu, s.beta1_S, s.xi1)
            + expert_log_density(X, s.mu, s.Sigma, s.M, s.V, s.a, s.b)
            + gaussian_entropy(s.Sigma)
            + gate_log_bound(X, s.beta0_mu, s.beta0_S, s.xi0))


# book/network/latents.ipynb, cell latents-40
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


# book/network/latents.ipynb, cell latents-56
class Sums(NamedTuple):
    """What the M-step needs of a block of rows.  [eq-block-sums]   J = L-1

    bound (), n_k (K,)             sum_n ln sum_k e^score;   sum_n gamma
    gram (K,D(D+1)/2)              sum gamma x~0 x~0^T, packed
    cross (K,h,D), squares (K,h)   sum gamma r x~0^T;  sum gamma (r^2 + Sigma_ii),
                                   r = mu - M x~0
    output_gram (J,(h+1)(h+2)/2)   sum gamma E[omega_1] E[x~1 x~1^T], packed
    output_linear (J,h+1)          sum kappa_1 gamma E[x~1]
    gate_gram (K-1,D(D+1)/2)       sum P(z >= j) theta(xi_0) x~0 x~0^T, packed
    gate_linear (K-1,D)            sum (gamma_j - P(z >= j) / 2) x~0
    """
    bound: float
    n_k: anp.ndarray
    gram: anp.ndarray
    cross: anp.ndarray
    squares: anp.ndarray
    output_gram: anp.ndarray
    output_linear: anp.ndarray
    gate_gram: anp.ndarray
    gate_linear: anp.ndarray


def add_sums(left, right):
    """Sums of two blocks, seen with the same parameters.  [eq-block-sums]"""
    return Sums(*(a + b for a, b in zip(left, right)))


# book/network/latents.ipynb, cell latents-58
def collect(
    rows, F, omega, gamma, moments, residual, energy, gate_omega, bound
):
    """Sums of a block from its local factors.  [eq-block-sums, eq-output-sums]

    rows Rows, F outer_features(XtT), omega (J,K,B) or (J,1,B), gamma (K,B),
    moments of latent_moments, residual (h,K,B) = mu - M x~ (overwritten),
    energy (h,K,B) = residual^2 + Sigma_ii, gate_omega (K-1,B) = theta(xi_0)
    """
    (XtT, _, kappa, _), (h, K, B) = rows, residual.shape
    J, weight = len(kappa), gamma * omega
    output_gram = weight.reshape(J, K * B) @ moments.reshape(-1, K * B).T
    mean1 = np.einsum("kb,ikb->ib", gamma, moments[-h - 1:])
    squares = (energy.transpose(1, 0, 2) @ gamma[:, :, None])[:, :, 0]
    (b0, kappa0, _), gram = _coins(K), gamma @ F.T       # its end: sum gamma x~
    residual *= gamma
    cross = (residual.reshape(h * K, B) @ XtT.T).reshape(h, K, -1)
    return Sums(
        bound, gram[:, -1], gram, cross.transpose(1, 0, 2), squares,
        output_gram, kappa @ mean1.T,
        (b0.T @ gamma * gate_omega) @ F.T, kappa0.T @ gram[:, -len(XtT):])


# book/network/latents.ipynb, cell latents-60
def gate_rows(square):
    """theta(xi_0) and sum_j b_jk ln cosh(xi_0j/2) of a block.
    [eq-gate-fresh, eq-gate-tilt]

    square (K-1,B) = (xi_0/2)^2, used up   -> (K-1,B), (K,B)
    """
    omega, log_cosh = tilt_moments(square)
    return omega, _coins(len(square) + 1)[0] @ log_cosh


# book/network/latents.ipynb, cell latents-61
def _tilt_rows(prep, moments, b, gamma):
    """Fresh E[omega_1], (J,K,B) or shared (J,1,B), and the bound's cost (K,B).
    [eq-output-tilt, eq-output-tilt-shared, eq-output-bound, eq-toss-moments]"""
    K, B = moments.shape[1:]
    psi2 = (prep.square @ moments.reshape(-1, K * B)).reshape(-1, K, B)   # quarters
    if gamma is None:
        return toss_moments(psi2, b)
    xi2 = np.einsum("kb,jkb->jb", gamma, psi2)[:, None, :]
    psi2 -= xi2                                     # a shared tilt fits no expert
    omega, cost = toss_moments(xi2, b)
    return omega, cost + 2.0 * np.einsum("jb,jkb->kb", omega[:, 0], psi2)


# book/network/latents.ipynb, cell latents-62
def _expert_rows(prep, residual, Sigma, log_det):
    """What of T + H is not in forms, (K,B), and residual^2 + Sigma_ii (h,K,B).
    [eq-expert-density, eq-gaussian-entropy]"""
    energy = residual * residual
    energy += Sigma.reshape(-1, *energy.shape[1:])[::len(energy) + 1]    # diagonal
    score = 0.5 * log_det
    score -= (prep.half_tau @ energy.transpose(1, 0, 2))[:, 0]
    return score, energy


# book/network/latents.ipynb, cell latents-64
def estep(prep, rows, omega, inner=1, gamma=None):
    """E-step of a block: (x, omega1) inner times, omega0, z, and their sums.
    [eq-latent-x, eq-output-tilt, eq-row-gamma, eq-block-sums]

    prep Prepared, rows Rows, omega (J,K,B): E[omega_1] of the last sweep.
    Shared tilts: omega (J,1,B), and gamma (K,B) of the last sweep.
    -> Sums, omega, gamma, the last two for the next sweep
    """
    (XtT, b, kappa, F), (h, K, _) = rows, prep.tau.shape
    F = outer_features(XtT) if F is None else F
    mean = (prep.mean_map @ XtT).reshape(h, K, b.shape[1])
    pull = prep.beta1_mu.T @ kappa
    for _ in range(inner):
        moments, Sigma, log_det = latent_moments(prep, mean, pull[:h], omega)
        omega, cost = _tilt_rows(prep, moments, b, gamma)
    forms = prep.forms @ F
    gate_omega, gate_cost = gate_rows(forms[K:])
    residual = np.subtract(moments[-h - 1:-1], mean, out=mean)
    score, energy = _expert_rows(prep, residual, Sigma, log_det)
    score += forms[:K]
    score += np.einsum("ib,ikb->kb", pull, moments[-h - 1:])
    score -= gate_cost
    score -= cost
    gamma, bound = responsibilities(score, axis=0)
    sums = collect(rows, F, omega, gamma, moments, residual, energy, gate_omega,
                   bound.sum())
    return sums, omega, gamma
