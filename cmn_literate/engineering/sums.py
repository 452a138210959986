# Tangled from book/engineering/sums.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Sums: a sweep in blocks of rows

The M-step needs nothing from the rows but sums, and the bound after it comes from the same sums:
so a sweep runs through the rows in blocks that fit into the cache, and keeps $K(L-1)$ numbers of
each.
"""

__all__ = ["Prepared", "prepare", "latent_moments", "Rows", "make_rows", "Sums", "add_sums",
           "collect", "gate_rows", "estep", "mstep", "expected_log_joint", "Block", "block_size",
           "make_blocks", "visit_blocks", "block_sweep"]


# book/engineering/sums.ipynb, cell sums-02
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import digamma

from cmn_literate.engineering.packed import (
    outer_features, pack_quadratic, spd_inverse_stacked, unpack_symmetric)
from cmn_literate.ideas.expfam import pad, second_moment, spd_inverse
from cmn_literate.ideas.logistic import coefficients_from_inverse
from cmn_literate.ideas.polya_gamma import tilt_moments, toss_moments
from cmn_literate.ideas.stick_breaking import stick_counts
from cmn_literate.network.experts import experts_from_inverse
from cmn_literate.network.latents import Parameters, responsibilities
from cmn_literate.parallel import in_order


# book/engineering/sums.ipynb, cell sums-06
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
    mean_map: np.ndarray
    tau: np.ndarray
    half_tau: np.ndarray
    forms: np.ndarray
    constants: np.ndarray
    bend: np.ndarray
    square: np.ndarray
    beta1_mu: np.ndarray


# book/engineering/sums.ipynb, cell sums-07
@lru_cache(maxsize=64)
def _coins(K):
    """b_jk and kappa_jk of a choice among K, each (K,K-1), and sum_j b_jk ln 2 (K,).
    [eq-kappa]"""
    b, kappa = stick_counts(np.eye(K))
    return b, kappa, np.log(2.0) * b.sum(1)


def prepare(parameters):
    """Lay the global factors out for the E-step.  [eq-latent-natural]

    Parameters -> Prepared
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


# book/engineering/sums.ipynb, cell sums-09
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


# book/engineering/sums.ipynb, cell sums-10
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
    moments, Sigma = moments.reshape(len(moments), K, B), Sigma.reshape(h, h, K, B)
    return moments, Sigma, -log_det_P.reshape(K, B)


# book/engineering/sums.ipynb, cell sums-11
class Rows(NamedTuple):
    """A block of B rows, rows last.  [eq-kappa]

    XtT (D,B) padded inputs; b, kappa (J,B) coins tossed and excess of heads by y;
    F (D(D+1)/2,B) outer_features(XtT) if they are kept, else None;
    weight (B,) how often each row counts, None: once  [eq-weighted-bound]
    """
    XtT: np.ndarray
    b: np.ndarray
    kappa: np.ndarray
    F: np.ndarray = None
    weight: np.ndarray = None


def make_rows(X, y, n_classes, features=False, weight=None):
    """Lay a block of rows out.  [eq-kappa]   X (B,d), y (B,), weight (B,) -> Rows,
    which keeps its outer features if features is true"""
    tables = stick_counts(np.eye(n_classes))
    b, kappa = (np.ascontiguousarray(table[y].T) for table in tables)
    XtT = np.ascontiguousarray(pad(X).T)
    return Rows(XtT, b, kappa, outer_features(XtT) if features else None, weight)


# book/engineering/sums.ipynb, cell sums-14
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
    n_k: np.ndarray
    gram: np.ndarray
    cross: np.ndarray
    squares: np.ndarray
    output_gram: np.ndarray
    output_linear: np.ndarray
    gate_gram: np.ndarray
    gate_linear: np.ndarray


# book/engineering/sums.ipynb, cell sums-15
def add_sums(left, right):
    """Sums of two blocks, seen with the same parameters.  [eq-block-sums]"""
    return Sums(*(a + b for a, b in zip(left, right)))


# book/engineering/sums.ipynb, cell sums-17
def collect(
    rows, F, omega, gamma, moments, residual, energy, gate_omega, bound
):
    """Sums of a block from its local factors.  [eq-block-sums, eq-output-sums]

    rows Rows, F outer_features(XtT), omega (J,K,B) or (J,1,B), gamma (K,B), times
    the rows' weights if they have any,
    moments of latent_moments, residual (h,K,B) = mu - M x~ (overwritten),
    energy (h,K,B) = residual^2 + Sigma_ii, gate_omega (K-1,B) = theta(xi_0)
    """
    XtT, kappa, (h, K, B) = rows.XtT, rows.kappa, residual.shape
    J, weight = len(kappa), gamma * omega
    output_gram = weight.reshape(J, K * B) @ moments.reshape(len(moments), K * B).T
    mean1 = np.einsum("kb,ikb->ib", gamma, moments[-h - 1:])
    squares = (energy.transpose(1, 0, 2) @ gamma[:, :, None])[:, :, 0]
    (b0, kappa0, _), gram = _coins(K), gamma @ F.T       # its end: sum gamma x~
    residual *= gamma
    cross = (residual.reshape(h * K, B) @ XtT.T).reshape(h, K, -1)
    return Sums(
        bound, gram[:, -1], gram, cross.transpose(1, 0, 2), squares,
        output_gram, kappa @ mean1.T,
        (b0.T @ gamma * gate_omega) @ F.T, kappa0.T @ gram[:, -len(XtT):])


# book/engineering/sums.ipynb, cell sums-19
def gate_rows(square):
    """theta(xi_0) and sum_j b_jk ln cosh(xi_0j/2) of a block.
    [eq-gate-fresh, eq-gate-tilt]

    square (K-1,B) = (xi_0/2)^2, used up   -> (K-1,B), (K,B)
    """
    omega, log_cosh = tilt_moments(square)
    return omega, _coins(len(square) + 1)[0] @ log_cosh


# book/engineering/sums.ipynb, cell sums-20
def _tilt_rows(prep, moments, b, gamma):
    """Fresh E[omega_1], (J,K,B) or shared (J,1,B), and the bound's cost (K,B).
    [eq-output-tilt, eq-output-tilt-shared, eq-output-bound, eq-toss-moments]"""
    K, B = moments.shape[1:]
    psi2 = prep.square @ moments.reshape(len(moments), K * B)        # quarters
    psi2 = psi2.reshape(len(psi2), K, B)
    if gamma is None:
        return toss_moments(psi2, b)
    xi2 = np.einsum("kb,jkb->jb", gamma, psi2)[:, None, :]
    psi2 -= xi2                                     # a shared tilt fits no expert
    omega, cost = toss_moments(xi2, b)
    return omega, cost + 2.0 * np.einsum("jb,jkb->kb", omega[:, 0], psi2)


# book/engineering/sums.ipynb, cell sums-21
def _expert_rows(prep, residual, Sigma, log_det):
    """What of T + H is not in forms, (K,B), and residual^2 + Sigma_ii (h,K,B).
    [eq-expert-density, eq-gaussian-entropy]"""
    energy = residual * residual
    h = len(energy)
    energy += Sigma.reshape(h * h, *energy.shape[1:])[::h + 1]        # diagonal
    score = 0.5 * log_det
    score -= (prep.half_tau @ energy.transpose(1, 0, 2))[:, 0]
    return score, energy


# book/engineering/sums.ipynb, cell sums-23
def estep(prep, rows, omega, inner=1, gamma=None):
    """E-step of a block: (x, omega1) inner times, omega0, z, and their sums.
    [eq-latent-x, eq-output-tilt, eq-row-gamma, eq-block-sums, eq-weighted-bound]

    prep Prepared, rows Rows, omega (J,K,B): E[omega_1] of the last sweep.
    Shared tilts: omega (J,1,B), and gamma (K,B) of the last sweep.
    -> Sums, omega, gamma, the last two for the next sweep
    """
    XtT, b, kappa, F, weight = rows
    h, K, _ = prep.tau.shape
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
    share = gamma if weight is None else gamma * weight
    total = bound.sum() if weight is None else bound @ weight
    sums = collect(rows, F, omega, share, moments, residual, energy, gate_omega, total)
    return sums, omega, gamma


# book/engineering/sums.ipynb, cell sums-29
def mstep(sums, parameters, priors):
    """New global factors from summed statistics.
    [eq-beta1, eq-gate-mu, eq-gate-S, eq-expert-sums, eq-mstep-bound]

    sums Sums of all rows; parameters: those that the E-step used, the residuals'
    reference -> Parameters, sum of the log normalisers of their factors (nats)
    """
    K, h, D = parameters.M.shape
    P = unpack_symmetric(np.concatenate([sums.gram, sums.gate_gram]), D)
    P.reshape(-1, D * D)[:K, ::D + 1] += 1 / priors.v0
    P.reshape(-1, D * D)[K:, ::D + 1] += 1 / priors.sigma0**2
    V, log_det_P = spd_inverse(P)               # of experts and gate in one call
    experts, z_experts = experts_from_inverse(
        sums.n_k, V[:K], log_det_P[:K], sums.cross, sums.squares, parameters.M, priors)
    *beta0, z0 = coefficients_from_inverse(
        V[K:], log_det_P[K:], sums.gate_linear, priors.sigma0)
    P = unpack_symmetric(sums.output_gram, h + 1)
    P.reshape(len(P), -1)[:, ::h + 2] += 1 / priors.sigma1**2
    *beta1, z1 = coefficients_from_inverse(
        *spd_inverse(P), sums.output_linear, priors.sigma1)
    log_normaliser = z_experts.sum() + z1.sum() + z0.sum()
    return Parameters(*beta1, *beta0, *experts), log_normaliser


# book/engineering/sums.ipynb, cell sums-32
def expected_log_joint(sums, prep):
    """J: the part of sums.bound that depends on the global factors (nats).
    [eq-joint-sums]   sums Sums of an E-step with prep, Prepared -> float"""
    s, p, K, dot = sums, prep, len(sums.n_k), np.vdot         # dot sums products
    linear = dot(s.output_linear, p.beta1_mu) + dot(s.gram, p.forms[:K])
    square = dot(s.output_gram, p.square) + dot(s.gate_gram, p.forms[K:])
    return linear - 2 * square - dot(s.squares, p.half_tau) - dot(s.n_k, p.constants)


# book/engineering/sums.ipynb, cell sums-35
class Block(NamedTuple):
    """A block of rows and what the next sweep reads of them.  [eq-block-sums]

    rows Rows; omega (J,K,B), or (J,1,B) if shared: E[omega_1] of the last sweep;
    gamma (K,B) of the last sweep if omega is shared, else None
    """
    rows: Rows
    omega: np.ndarray
    gamma: np.ndarray = None


def block_size(n_rows, D, K, h, J, budget=1 << 19):
    """Rows per block so that its working set, about 8 * budget bytes, stays in the
    cache.  [eq-block-sums]"""
    per_row = K * (h * h + h * (h + 1) // 2 + 4 * h + 3 * J + 6) + D * (D + 1) // 2
    largest = max(budget // per_row, 16)
    n_blocks = max(-(-n_rows // largest), 1)
    return max(-(-n_rows // n_blocks), 1)                       # blocks of one size


def make_blocks(X, y, n_experts, latent_dim, n_classes, shared=False, weight=None):
    """Cut the rows of a fit into cache-sized blocks.  [eq-block-sums]

    X (N,d), y (N,), weight (N,) or None -> tuple of Block, at least one
    omega = E[omega_1] starts at b/4, which is xi1 = 0; gamma at 1/K.
    """
    K, J = n_experts, n_classes - 1
    size = block_size(len(X), X.shape[1] + 1, K, latent_dim, J)
    blocks = []
    for s in range(0, max(len(X), 1), size):
        part = slice(s, s + size)
        rows = make_rows(X[part], y[part], n_classes, size >= len(X),
                         None if weight is None else weight[part])
        omega = np.repeat(0.25 * rows.b[:, None, :], 1 if shared else K, axis=1)
        gamma = np.full((K, rows.b.shape[1]), 1.0 / K) if shared else None
        blocks.append(Block(rows, omega, gamma))
    return tuple(blocks)


# book/engineering/sums.ipynb, cell sums-36
def visit_blocks(blocks, prep, inner=1, estep=estep, n_jobs=1):
    """The E-step of each block; arguments as in block_sweep, prep Prepared.
    [eq-block-sums, eq-fixed-order]   -> iterator over (Sums, renewed block)"""
    def visit(block):
        with np.errstate():
            np.setbufsize(16)               # ends with this block, in this thread
            sums, omega, fresh = estep(prep, *block[:2], inner, block.gamma)
        return sums, block._replace(
            omega=omega, gamma=None if block.gamma is None else fresh)

    return in_order(visit, blocks, n_jobs)


def block_sweep(blocks, parameters, priors, inner=1, estep=estep, n_jobs=1,
                maximise=None):
    """One canonical sweep over blocks.  [eq-sweep, eq-mstep-bound]

    blocks of make_blocks or of the last sweep, parameters; both stay as they are
    estep  the E-step of a block: another kernel may take its place; maximise: another
           M-step, of the same arguments
    n_jobs threads; no bit depends on it  [eq-fixed-order]
    -> renewed blocks, Parameters, bound after the M-step (nats)
    """
    prep, total, renewed = prepare(parameters), None, []
    for sums, block in visit_blocks(blocks, prep, inner, estep, n_jobs):
        total = sums if total is None else add_sums(total, sums)
        renewed.append(block)
    after, log_normaliser = (maximise or mstep)(total, parameters, priors)
    bound = total.bound - expected_log_joint(total, prep) + log_normaliser
    return tuple(renewed), after, bound
