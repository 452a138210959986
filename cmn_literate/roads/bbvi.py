# Tangled from book/roads/bbvi.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Black-box variational inference: climbing with noise

The bound can be climbed without one closed-form update, with nothing but draws from $q$ and slopes
of log densities at the draws. What it costs is variance, and every device of this chapter buys
variance back.
"""

__all__ = ["coin_tilt", "coin_cost", "Free", "free_shapes", "pack_free", "unpack_free", "free_of",
           "state_of", "Noise", "draw_noise", "particles", "score_products", "control_variate",
           "best_tilts", "gamma_slope", "kl_and_grad", "bound_and_grad", "BBVIFit", "fit_bbvi",
           "augmentation_gap"]


# book/roads/bbvi.ipynb, cell bbvi-02
from dataclasses import dataclass
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np
from scipy.special import digamma, gammaln, polygamma

from cmn_literate.checks import check_problem
from cmn_literate.engineering.starts import complete_start
from cmn_literate.checks import check_state
from cmn_literate.engineering.packed import (
    lower_triangle, outer_features, pack_quadratic)
from cmn_literate.ideas.expfam import gamma_kl, second_moment
from cmn_literate.network.gate import gate_tilt
from cmn_literate.network.latents import (
    Parameters, State, output_logits, parameters_of, responsibilities)
from cmn_literate.engineering.sums import make_rows
from cmn_literate.checks import check_rng, is_number
from cmn_literate.roads.optimizers import maximize
from cmn_literate.ideas.polya_gamma import tilt_moments
from cmn_literate.network.simulate import Priors, Theta
from cmn_literate.checks import check_count


# book/roads/bbvi.ipynb, cell bbvi-05
def coin_tilt(square):
    """theta(xi) and ln 2 + K(xi) for xi^2 = square.  [eq-bb-parabola]

    square (...) >= 0 -> two arrays (...): the parabola of coin_cost
    """
    quarter = np.array(0.25 * square, ndmin=1)
    theta, log_cosh = (v.reshape(np.shape(square)) for v in tilt_moments(quarter))
    return theta, log_cosh + np.log(2.0) - 0.5 * theta * square


def coin_cost(psi, tilt=None):
    """c(psi) and c'(psi), nats; with tilt = coin_tilt(xi^2) the parabola that
    touches it at xi.  [eq-bb-coin, eq-bb-parabola]   psi (...) -> (...), (...)"""
    if tilt is not None:
        slope = tilt[0] * psi
        cost = slope * psi
        cost *= 0.5
        cost += tilt[1]
        return cost, slope
    slope = 0.5 * psi           # ln 2 cosh h = |h| + ln 2 - ln(1 + tanh |h|)
    cost = np.abs(slope)
    np.tanh(slope, out=slope)
    spare = np.abs(slope)
    spare += 1.0
    cost -= np.log(spare, out=spare)
    cost += np.log(2.0)
    slope *= 0.5
    return cost, slope


# book/roads/bbvi.ipynb, cell bbvi-08
class Free(NamedTuple):
    """q in free numbers, rows of data last.  [eq-bb-free]   T(m) = m(m+1)/2

    beta1_mu (L-1,h+1), beta1_C (L-1,T(h+1))   output coefficients
    beta0_mu (K-1,D),   beta0_C (K-1,T(D))     gate coefficients, D = d+1
    M (K,h,D), V_C (K,T(D)), log_a (K,), log_b (K,h)    experts
    logits (K,N)                               of the responsibilities
    mu (h,K,N), x_C (T(h),K,N)                 latent vectors
    Cholesky factors are packed by rows, i >= j, diagonal entries as logarithms.
    """
    beta1_mu: anp.ndarray
    beta1_C: anp.ndarray
    beta0_mu: anp.ndarray
    beta0_C: anp.ndarray
    M: anp.ndarray
    V_C: anp.ndarray
    log_a: anp.ndarray
    log_b: anp.ndarray
    logits: anp.ndarray
    mu: anp.ndarray
    x_C: anp.ndarray


# book/roads/bbvi.ipynb, cell bbvi-09
def free_shapes(shapes, n_rows):
    """Shapes of the fields of Free.  [eq-bb-free]

    shapes (n_experts, latent_dim, n_classes, input_dim) -> Free of tuples
    """
    (K, h, L, d), N = shapes, n_rows
    J, D, T = L - 1, d + 1, lambda m: m * (m + 1) // 2
    return Free((J, h + 1), (J, T(h + 1)), (K - 1, D), (K - 1, T(D)), (K, h, D),
                (K, T(D)), (K,), (K, h), (K, N), (h, K, N), (T(h), K, N))


def pack_free(free):
    """Free as one vector.  [eq-bb-free]   differentiable -> (P,)"""
    return anp.concatenate([anp.reshape(field, -1) for field in free])


def unpack_free(vector, shapes, n_rows):
    """The Free of a vector, views where possible; differentiable.  [eq-bb-free]"""
    fields, start = [], 0
    for shape in free_shapes(shapes, n_rows):
        size = int(np.prod(shape))
        fields.append(anp.reshape(vector[start:start + size], shape))
        start += size
    return Free(*fields)


# book/roads/bbvi.ipynb, cell bbvi-10
def _unpack_factor(packed, m):
    """C (..., m, m) of its packed form (..., T(m)).  [eq-bb-free]"""
    full = packed[..., lower_triangle(m)[3]]
    return full * np.tri(m, k=-1) + anp.exp(full * np.eye(m)) * np.eye(m)


def _pack_factor(S):
    """Packed Cholesky factor (..., T(m)) of S (..., m, m).  [eq-bb-free]"""
    i, j = lower_triangle(S.shape[-1])[:2]
    packed = np.linalg.cholesky(S)[..., i, j]
    packed[..., i == j] = np.log(packed[..., i == j])
    return packed


def free_of(state):
    """The free numbers of a State; its tilts are dropped.  [eq-bb-free]"""
    s, last = state, lambda v: np.ascontiguousarray(v.transpose())
    gamma = np.log(np.maximum(s.gamma, 1e-300))
    return Free(s.beta1_mu, _pack_factor(s.beta1_S), s.beta0_mu,
                _pack_factor(s.beta0_S), s.M, _pack_factor(s.V), np.log(s.a),
                np.log(s.b), last(gamma), last(s.mu), last(_pack_factor(s.Sigma)))


# book/roads/bbvi.ipynb, cell bbvi-11
def state_of(free, X):
    """The State of free numbers, with the best tilts.  [eq-bb-free]

    X (N,d) unpadded, for the gate's tilts.  Differentiable.
    """
    f, h, D = free, free.mu.shape[0], free.M.shape[-1]

    def covariance(packed, m):
        C = _unpack_factor(packed, m)
        return anp.matmul(C, anp.swapaxes(C, -1, -2))

    weights = anp.exp(f.logits - anp.max(f.logits, 0))
    gamma, mu = anp.transpose(weights / anp.sum(weights, 0)), anp.transpose(f.mu)
    Sigma = covariance(anp.transpose(f.x_C), h)
    beta1 = f.beta1_mu, covariance(f.beta1_C, h + 1)
    beta0 = f.beta0_mu, covariance(f.beta0_C, D)
    xi1 = anp.sqrt(output_logits(mu, Sigma, *beta1)[1])
    return State(*beta1, *beta0, f.M, covariance(f.V_C, D), anp.exp(f.log_a),
                 anp.exp(f.log_b), gamma, mu, Sigma, xi1, gate_tilt(X, *beta0))


# book/roads/bbvi.ipynb, cell bbvi-16
class Noise(NamedTuple):
    """What S particles are made of.  [eq-bb-draw]

    beta1 (S,L-1,h+1), beta0 (S,K-1,D), A (S,K,h,D), x1 (S,h,K,N)  standard normal
    g (S,K,h)  draws of Gamma(a_k, 1): not free of q, hence gamma_slope
    """
    beta1: anp.ndarray
    beta0: anp.ndarray
    A: anp.ndarray
    x1: anp.ndarray
    g: anp.ndarray


def draw_noise(free, n_particles, rng):
    """Noise of n_particles particles.  [eq-bb-draw]   rng Generator -> Noise"""
    f, S = free, n_particles
    (J, m), (K, h, D), N = f.beta1_mu.shape, f.M.shape, f.logits.shape[1]
    normal, a = rng.standard_normal, np.exp(f.log_a)[:, None]
    shapes = (S, J, m), (S, K - 1, D), (S, K, h, D), (S, h, K, N)
    g = rng.standard_gamma(a, size=(S, K, h))
    return Noise(*map(normal, shapes), np.maximum(g, 1e-100))


# book/roads/bbvi.ipynb, cell bbvi-17
def _local_factor(x_C):
    """Cholesky factors of the latent vectors, packed, rows last: the logarithms
    resolved.  [eq-bb-free]   (T,K,N) -> (T,K,N), rows of the diagonal (h,)"""
    T, C = len(x_C), x_C.copy()
    i, j = lower_triangle(int((2 * T) ** 0.5))[:2]
    diagonal = np.flatnonzero(i == j)
    C[diagonal] = np.exp(C[diagonal])
    return C, diagonal


# book/roads/bbvi.ipynb, cell bbvi-18
def particles(free, noise):
    """Draws of all parameters and latent vectors.  [eq-bb-draw]

    -> Theta with a leading axis S, x1 (S,h,K,N)
    """
    f, e, h, D = free, noise, free.mu.shape[0], free.M.shape[-1]

    def moved(mu, packed, eps):
        C = _unpack_factor(packed, mu.shape[-1])
        return mu + np.einsum("lij,slj->sli", C, eps)

    tau = e.g / np.exp(f.log_b)
    A = np.einsum("kij,skaj->skai", _unpack_factor(f.V_C, D), e.A)
    A = f.M + A / np.sqrt(tau)[..., None]
    C, x1, at = _local_factor(f.x_C)[0], np.empty(e.x1.shape), 0
    for i in range(h):
        np.multiply(C[at], e.x1[:, 0], out=x1[:, i])
        for j in range(1, i + 1):
            x1[:, i] += C[at + j] * e.x1[:, j]
        at += i + 1
    x1 += f.mu
    return Theta(moved(f.beta1_mu, f.beta1_C, e.beta1),
                 moved(f.beta0_mu, f.beta0_C, e.beta0), A, tau), x1


# book/roads/bbvi.ipynb, cell bbvi-21
def _gaussian_scores(packed, eps, m):
    """Scores of N(mu, CC^T) draws in mu and packed C.  [eq-bb-score-gaussian]

    packed (l,T), eps (S,l,...,m) -> (S,l,...,m), (S,l,...,T)
    """
    i, j = lower_triangle(m)[:2]
    C = _unpack_factor(packed, m)
    u = np.einsum("lji,sl...j->sl...i", np.linalg.inv(C), eps)
    diagonal = np.where(i == j, C[:, i, j], 1.0)
    diagonal = diagonal.reshape((len(C),) + (1,) * (eps.ndim - 3) + (len(i),))
    return u, u[..., i] * eps[..., j] * diagonal - (i == j)


def _gaussian_ratio(draw, eps, packed, sigma):
    """ln p - ln q of each draw, prior N(0, sigma^2 I).  [eq-gaussian]"""
    m = eps.shape[-1]
    i, j = lower_triangle(m)[:2]
    return (0.5 * (eps**2 - draw**2 / sigma**2).sum(-1) - m * np.log(sigma)
            + packed[:, i == j].sum(-1))


# book/roads/bbvi.ipynb, cell bbvi-22
def _expert_ratio(f, theta, noise, priors):
    """ln p - ln q of each row of each expert and its precision.
    [eq-mng, eq-gamma]   -> (S,K,h)"""
    D, a, g, tau = f.M.shape[-1], np.exp(f.log_a)[:, None], noise.g, theta.tau
    i, j = lower_triangle(D)[:2]
    rows = 0.5 * ((noise.A**2).sum(-1) - tau * (theta.A**2).sum(-1) / priors.v0)
    rows += (f.V_C[:, i == j].sum(-1) - 0.5 * D * np.log(priors.v0))[:, None]
    log_p = (priors.a0 * np.log(priors.b0) - gammaln(priors.a0)
             + (priors.a0 - 1) * np.log(tau) - priors.b0 * tau)
    return rows + log_p - (a * f.log_b - gammaln(a) + (a - 1) * np.log(tau) - g)


# book/roads/bbvi.ipynb, cell bbvi-23
def _log_terms(theta, x1, rows, gamma, tilts):
    """Of each particle, nats: coins of the label (S,L-1,K,N), weighted coins of
    the gate (S,K-1,N) and its score (S,K,N), expert t (S,h,K,N).
    [eq-bb-bound, eq-bb-blanket]"""
    S, h, K, N = x1.shape
    psi = theta.beta1[..., :h] @ x1.reshape(S, h, K * N) + theta.beta1[..., h:]
    psi = psi.reshape(S, -1, K, N)
    coins = rows.kappa[:, None] * psi
    coins -= rows.b[:, None] * coin_cost(psi, tilts[0])[0]
    psi = theta.beta0 @ rows.XtT
    b, kappa = (v.T for v in _soft_counts(gamma))
    cost = coin_cost(psi, tilts[1])[0]
    score = np.zeros((S, K, N))
    score[:, :-1] = 0.5 * psi - cost
    score[:, 1:] -= np.cumsum(0.5 * psi + cost, 1)
    r = x1 - np.einsum("skid,dn->sikn", theta.A, rows.XtT)
    tau = theta.tau.transpose(0, 2, 1)[..., None]
    t = 0.5 * (np.log(tau / (2 * np.pi)) - tau * r**2)
    return coins, kappa.T * psi - b.T * cost, score, t


# book/roads/bbvi.ipynb, cell bbvi-24
def _soft_counts(gamma):
    """b and kappa of the gate's sticks, rows last.  [eq-stick-counts]
    gamma (K,N) -> (K-1,N), (K-1,N)"""
    b = np.cumsum(gamma[::-1], 0)[:0:-1]
    return b, gamma[:-1] - 0.5 * b


# book/roads/bbvi.ipynb, cell bbvi-25
def _block_values(f, theta, x1, noise, rows, priors, gamma, tilts):
    """f_B of beta1 (S,J), beta0 (S,K-1), experts (S,K,h) and x1 (S,K,N); all of f
    (S,); v (S,K,N).  [eq-bb-blanket, eq-bb-softmax]"""
    log_gamma = np.log(np.maximum(gamma, 1e-300))
    coins, gate, score, t = _log_terms(theta, x1, rows, gamma, tilts)
    log_q = -0.5 * (noise.x1**2 + np.log(2 * np.pi)).sum(1)
    log_q -= f.x_C[_local_factor(f.x_C)[1]].sum(0)
    v = coins.sum(1) + t.sum(1) - log_q
    gaussian = _gaussian_ratio
    ratios = (gaussian(theta.beta1, noise.beta1, f.beta1_C, priors.sigma1),
              gaussian(theta.beta0, noise.beta0, f.beta0_C, priors.sigma0),
              _expert_ratio(f, theta, noise, priors))
    total = (gamma * (v + score - log_gamma)).sum((1, 2))
    total = total + sum(r.reshape(len(r), -1).sum(1) for r in ratios)
    blocks = ((gamma * coins).sum((2, 3)) + ratios[0], gate.sum(2) + ratios[1],
              (gamma * t).sum(3).transpose(0, 2, 1) + ratios[2], gamma * v)
    return blocks, total, v + score - log_gamma


# book/roads/bbvi.ipynb, cell bbvi-26
def _scores(f, theta, noise):
    """Scores in every field of Free but logits, with an axis for the rows i of an
    expert in V_C, log_a and log_b.  [eq-bb-score-gaussian, eq-bb-score-gamma]"""
    e, a = noise, np.exp(f.log_a)[:, None]
    (S, h, K, N), D = e.x1.shape, f.M.shape[-1]
    beta1 = _gaussian_scores(f.beta1_C, e.beta1, h + 1)
    beta0 = _gaussian_scores(f.beta0_C, e.beta0, D)
    M, V_C = _gaussian_scores(f.V_C, e.A, D)
    M = M * np.sqrt(theta.tau)[..., None]
    eps = e.x1.transpose(0, 3, 2, 1).reshape(S, N * K, h)
    local = _gaussian_scores(f.x_C.transpose().reshape(N * K, -1), eps, h)
    mu, x_C = (v.reshape(S, N, K, -1).transpose(0, 3, 2, 1) for v in local)
    return Free(*beta1, *beta0, M, V_C, a * (np.log(e.g) - digamma(a)), a - e.g,
                None, mu, x_C)


# book/roads/bbvi.ipynb, cell bbvi-27
def score_products(free, noise, rows, priors, tilts=(None, None), blanket=True):
    """Score-function gradient, particle by particle.
    [eq-bb-score, eq-bb-blanket, eq-bb-softmax]

    rows of make_rows; tilts of best_tilts for the augmented bound
    blanket=False: every score times all of f, nothing left out
    -> f_B h (S,P), of which the mean is the gradient, and the scores h (S,P),
       0 for the logits; P as in pack_free
    """
    f, S, gamma = free, len(noise.g), responsibilities(free.logits, 0)[0]
    theta, x1 = particles(f, noise)
    values, total, v = _block_values(
        f, theta, x1, noise, rows, priors, gamma, tilts)
    if not blanket:
        values = [total.reshape((S,) + (1,) * (v.ndim - 1)) for v in values]
    beta1, beta0, experts, local = values
    s = _scores(f, theta, noise)
    last = lambda value: value[..., None]
    fh = Free(s.beta1_mu * last(beta1), s.beta1_C * last(beta1),
              s.beta0_mu * last(beta0), s.beta0_C * last(beta0),
              s.M * last(experts), (s.V_C * last(experts)).sum(2),
              (s.log_a * experts).sum(2), s.log_b * experts,
              gamma * (v - (gamma * v).sum(1, keepdims=True)),
              s.mu * local[:, None], s.x_C * local[:, None])
    h = s._replace(V_C=s.V_C.sum(2), log_a=s.log_a.sum(2), logits=0 * fh.logits)
    return tuple(np.concatenate([v.reshape(S, -1) for v in part], 1)
                 for part in (fh, h))


# book/roads/bbvi.ipynb, cell bbvi-28
def control_variate(fh, h):
    """fh - alpha h, alpha of each coordinate from the other particles.
    [eq-bb-control]   fh, h (S,P), S >= 2 -> (S,P), the same mean"""
    top, bottom = fh * h, h * h
    top, bottom = top.sum(0) - top, bottom.sum(0) - bottom
    return fh - h * top / np.where(bottom > 0, bottom, 1.0)


# book/roads/bbvi.ipynb, cell bbvi-31
def best_tilts(free, rows):
    """Parabolas of all coins at their best tilts, E[psi^2] in closed form.
    [eq-bb-envelope, eq-output-tilt, eq-gate-tilt]

    -> coin_tilt of the output (L-1,K,N) and of the gate (K-1,N)
    """
    f, (h, K, N) = free, free.mu.shape
    C, start = _local_factor(f.x_C)[0], np.cumsum(np.arange(h + 1))
    padded, moments = np.concatenate([f.mu, np.ones((1, K, N))]), []
    for i in range(h + 1):
        for j in range(i + 1):
            moment = padded[i] * padded[j]
            if i < h:                   # Sigma_ij = sum_r C_ir C_jr, r <= j <= i
                left, right = C[start[i]:][:j + 1], C[start[j]:][:j + 1]
                moment += np.einsum("rkn,rkn->kn", left, right)
            moments.append(moment)
    squares = []
    for mu, packed in ((f.beta1_mu, f.beta1_C), (f.beta0_mu, f.beta0_C)):
        F = _unpack_factor(packed, mu.shape[-1])
        squares.append(pack_quadratic(second_moment(mu, F @ F.swapaxes(-1, -2))))
    psi2 = squares[0] @ np.stack(moments).reshape(len(moments), -1)
    return (coin_tilt(psi2.reshape(-1, K, N)),
            coin_tilt(squares[1] @ outer_features(rows.XtT)))


# book/roads/bbvi.ipynb, cell bbvi-36
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(40)


def _reach(a, x, side, nats=38.0):
    """v at which E(v) = -nats, or beyond it.  [eq-bb-slope]"""
    drop, double = np.abs(x - a), 2 * nats
    upper = double / (drop + np.sqrt(drop**2 + double * x))
    lower = (nats / 3 + np.sqrt(nats**2 / 9 + double * x)) / x
    v = np.where(side > 0, upper, np.minimum((nats + x) / a, lower))
    for _ in range(4):
        top = np.exp(np.minimum(side * v, 700.0))
        E = side * a * v - x * (top - 1)
        v = v - (E + nats) / (side * (a - x * top))
    return v


def gamma_slope(a, x):
    """dx/da of a draw x of Gamma(a, 1) whose quantile is held.
    [eq-bb-implicit, eq-bb-slope]

    a, x > 0 (...) broadcast -> (...) > 0.  Relative error below 1e-8 for a >= 1,
    1e-4 for a >= 0.05.
    """
    a, x = np.broadcast_arrays(np.asarray(a, float), np.asarray(x, float))
    side = np.where(x >= a, 1.0, -1.0)
    reach = 0.5 * _reach(a, x, side)
    v = reach * (1 + _NODES.reshape((-1,) + (1,) * a.ndim))
    height = side * (np.log(x) - digamma(a)) + v
    height *= np.exp(side * a * v - x * np.expm1(side * v))
    return x * reach * np.tensordot(_WEIGHTS, height, 1)


# book/roads/bbvi.ipynb, cell bbvi-40
def _factor_slope(slope, C):
    """From slopes in C (..., m, m) to slopes in its packed form.
    [eq-bb-path-gaussian]"""
    i, j = lower_triangle(C.shape[-1])[:2]
    slope = slope[..., i, j]
    return slope * np.where(i == j, C[..., i, j], 1.0)


def _gaussian_part(mu, packed, sigma):
    """KL from N(0, sigma^2 I) summed over draws, and its slopes.
    [eq-bb-kl-gaussian]"""
    m = mu.shape[-1]
    i, j = lower_triangle(m)[:2]
    C = _unpack_factor(packed, m)
    value = 0.5 * ((C**2).sum() + (mu**2).sum()) / sigma**2
    value += mu.size * (np.log(sigma) - 0.5) - packed[:, i == j].sum()
    slope = _factor_slope(C / sigma**2, C) - (i == j)
    return value, mu / sigma**2, slope


# book/roads/bbvi.ipynb, cell bbvi-41
def kl_and_grad(free, priors):
    """KL[q(Theta) || p(Theta)] and its slopes in the free numbers.
    [eq-bb-kl-gaussian, eq-bb-kl-expert, eq-global-kl]

    -> float, Free with 0 for the local fields
    """
    f, (_, h, D) = free, free.M.shape
    beta1 = _gaussian_part(f.beta1_mu, f.beta1_C, priors.sigma1)
    beta0 = _gaussian_part(f.beta0_mu, f.beta0_C, priors.sigma0)
    a, b = np.exp(f.log_a)[:, None], np.exp(f.log_b)
    rows = _gaussian_part(np.zeros(f.V_C.shape[:1] + (D,)), f.V_C, priors.v0**0.5)
    energy = 0.5 * a / b * (f.M**2).sum(-1) / priors.v0
    gammas = gamma_kl(a, b, priors.a0, priors.b0)
    log_a = (a - priors.a0) * polygamma(1, a) + priors.b0 / b - 1
    value = beta1[0] + beta0[0] + h * rows[0] + energy.sum() + gammas.sum()
    return value, Free(
        *beta1[1:], *beta0[1:], (a / b)[..., None] * f.M / priors.v0, h * rows[2],
        (energy + a * log_a).sum(-1), priors.a0 - energy - a * priors.b0 / b,
        0.0, 0.0, 0.0)


# book/roads/bbvi.ipynb, cell bbvi-43
def _label_part(theta, x1, rows, gamma, tilt):
    """Mean score (K,N); weighted slopes in beta1 (S,J,h+1) and x1.
    [eq-bb-coin, eq-bb-slopes-label]"""
    S, h, K, N = x1.shape
    flat, weights = x1.reshape(S, h, K * N), theta.beta1[..., :h]
    psi = weights @ flat
    psi += theta.beta1[..., h:]
    psi = psi.reshape(S, -1, K, N)
    cost, slope = coin_cost(psi, tilt)
    score = np.einsum("jn,sjkn->kn", rows.kappa, psi)
    score -= np.einsum("jn,sjkn->kn", rows.b, cost)
    slope *= rows.b[:, None]
    np.subtract(rows.kappa[:, None], slope, out=slope)
    slope *= gamma
    slope = slope.reshape(S, -1, K * N)
    beta1 = slope @ flat.transpose(0, 2, 1), slope.sum(-1, keepdims=True)
    into_x = weights.transpose(0, 2, 1) @ slope
    return score / S, np.concatenate(beta1, -1), into_x.reshape(x1.shape)


# book/roads/bbvi.ipynb, cell bbvi-44
def _gate_part(theta, rows, gamma, tilt):
    """Mean score (K,N); slope in beta0 (S,K-1,D).  [eq-bb-coin]"""
    psi = theta.beta0 @ rows.XtT
    cost, slope = coin_cost(psi, tilt)
    half, cost = 0.5 * psi.mean(0), cost.mean(0)
    score = np.zeros(gamma.shape)
    score[:-1] = half - cost
    score[1:] -= np.cumsum(half + cost, 0)
    b, kappa = _soft_counts(gamma)
    return score, (kappa - b * slope) @ rows.XtT.T


# book/roads/bbvi.ipynb, cell bbvi-45
def _expert_part(theta, x1, rows, gamma):
    """Mean score (K,N); weighted slopes in A (S,K,h,D), tau (S,K,h) and minus that
    in x1.  [eq-bb-slopes-expert]"""
    (S, *_, N), D = x1.shape, len(rows.XtT)
    A, tau = theta.A.transpose(0, 2, 1, 3), theta.tau.transpose(0, 2, 1)
    r = x1 - (A.reshape(-1, D) @ rows.XtT).reshape(x1.shape)
    pull = tau[..., None] * r
    score = -0.5 / S * np.einsum("sikn,sikn->kn", r, pull)
    score += (0.5 * np.log(tau / (2 * np.pi)).sum(1).mean(0))[:, None]
    pull *= gamma
    into_A = (pull.reshape(-1, N) @ rows.XtT.T).reshape(A.shape)
    energy = np.einsum("sikn,sikn->ski", r, pull)
    into_tau = 0.5 * (gamma.sum(1)[:, None] - energy) / theta.tau
    return score, into_A.transpose(0, 2, 1, 3), into_tau, pull


# book/roads/bbvi.ipynb, cell bbvi-46
def _expert_path(f, theta, noise, into_A, into_tau):
    """Slopes in M, V_C, log_a and log_b.  [eq-bb-path-matrix]"""
    S, a, tau = len(noise.g), np.exp(f.log_a)[:, None], theta.tau
    C = _unpack_factor(f.V_C, f.M.shape[-1])
    scaled = into_A / np.sqrt(tau)[..., None]
    V_C = np.einsum("skid,skie->kde", scaled, noise.A) / S
    total = into_tau - 0.5 / tau * ((theta.A - f.M) * into_A).sum(-1)
    by_shape = total * gamma_slope(a, noise.g) / np.exp(f.log_b)
    return (into_A.mean(0), _factor_slope(V_C, C),
            a[:, 0] * by_shape.mean(0).sum(-1), -(tau * total).mean(0))


# book/roads/bbvi.ipynb, cell bbvi-47
def _coefficient_path(into, eps, packed):
    """Slopes in mu and packed C from slopes in the draws (S,l,m).
    [eq-bb-path-gaussian]"""
    slope = np.einsum("sli,slj->lij", into, eps) / len(eps)
    C = _unpack_factor(packed, eps.shape[-1])
    return into.mean(0), _factor_slope(slope, C)


def _local_path(f, eps, gamma, into_x):
    """Slopes in mu and x_C, the entropy's included.  [eq-bb-path-gaussian]"""
    C, diagonal = _local_factor(f.x_C)
    slope = np.empty_like(C)
    for at, (i, j) in enumerate(zip(*lower_triangle(len(f.mu))[:2])):
        np.einsum("skn,skn->kn", into_x[:, i], eps[:, j], out=slope[at])
    slope /= len(eps)
    slope[diagonal] *= C[diagonal]
    slope[diagonal] += gamma
    return into_x.mean(0), slope


# book/roads/bbvi.ipynb, cell bbvi-48
def _check_objective(objective):
    """One of the two bounds."""
    if objective not in ("elbo", "augmented"):
        raise ValueError('objective: expected "elbo" or "augmented", got '
                         f"{objective!r}")


def bound_and_grad(free, noise, rows, priors, objective="elbo"):
    """Unbiased estimates of a bound and of its gradient, through the draws.
    [eq-bb-bound, eq-bb-path, eq-bb-softmax, eq-bb-envelope]

    free Free, noise of draw_noise, rows of make_rows
    objective  "elbo", or "augmented" with every tilt at its best
    -> float (nats), Free of slopes
    """
    _check_objective(objective)
    f, h, gamma = free, len(free.mu), responsibilities(free.logits, 0)[0]
    tilts = best_tilts(f, rows) if objective == "augmented" else (None, None)
    theta, x1 = particles(f, noise)
    label, into_beta1, into_x = _label_part(theta, x1, rows, gamma, tilts[0])
    gate, into_beta0 = _gate_part(theta, rows, gamma, tilts[1])
    expert, into_A, into_tau, pull = _expert_part(theta, x1, rows, gamma)
    into_x -= pull
    entropy = f.x_C[_local_factor(f.x_C)[1]].sum(0)
    v = label + gate + expert + entropy + 0.5 * h * (1 + np.log(2 * np.pi))
    v -= np.log(np.maximum(gamma, 1e-300))
    per_row = (gamma * v).sum(0)
    up = Free(*_coefficient_path(into_beta1, noise.beta1, f.beta1_C),
              *_coefficient_path(into_beta0, noise.beta0, f.beta0_C),
              *_expert_path(f, theta, noise, into_A, into_tau),
              gamma * (v - per_row), *_local_path(f, noise.x1, gamma, into_x))
    kl, down = kl_and_grad(f, priors)
    return per_row.sum() - kl, Free(*(u - d for u, d in zip(up, down)))


# book/roads/bbvi.ipynb, cell bbvi-60
@dataclass(frozen=True)
class BBVIFit:
    """Result of fit_bbvi.  [eq-bb-stop]

    parameters  the global factors, as predict wants them
    state       all factors, tilts at their best: elbo(state, X, y, priors) is the
                augmented bound, augmentation_gap how far the other lies above
    elbo (n_steps,)  noisy estimates of the objective, one per step (nats)
    n_steps, converged, reason ("steps", "interrupted" or "not finite")
    objective, n_classes, priors
    """
    parameters: Parameters
    state: State
    elbo: np.ndarray
    n_steps: int
    converged: bool
    reason: str
    objective: str
    n_classes: int
    priors: Priors


def _settled(trace, allowed):
    """Whether the mean of the last tenth gained too little.  [eq-bb-stop]"""
    w = max(len(trace) // 10, 1)
    last, before = trace[-w:], trace[-2 * w:-w]
    return bool(len(before) == w and last.mean() - before.mean() < allowed)


# book/roads/bbvi.ipynb, cell bbvi-61
def _check_run(priors, objective, n_particles, rng, init, tol):
    """Arguments that say how to run, checked.   -> Generator"""
    if not isinstance(priors, Priors):
        raise ValueError(f"priors: expected Priors, got {priors!r}")
    _check_objective(objective)
    if init not in ("class-code", "random", "prior"):
        raise ValueError('init: expected "class-code", "random" or "prior", got '
                         f"{init!r}")
    check_count(n_particles, "n_particles")
    if not is_number(tol) or not tol == tol:
        raise ValueError(f"tol: expected a number (nats per row), got {tol!r}")
    return check_rng(rng)


# book/roads/bbvi.ipynb, cell bbvi-62
def _start_vector(state, shapes, n_rows):
    """The free numbers to start from, their sizes checked.  [eq-bb-free]"""
    if not isinstance(state, State):
        raise ValueError(f"start: expected a State, got {type(state).__name__}")
    try:
        free, expected = free_of(state), free_shapes(shapes, n_rows)
    except np.linalg.LinAlgError:
        raise ValueError("start: expected positive definite covariances, got "
                         "others") from None
    got = Free(*(np.shape(field) for field in free))
    if got != expected:
        raise ValueError(f"start: expected free numbers of shapes {expected}, "
                         f"got {got}")
    vector = pack_free(free)
    if not np.isfinite(vector).all():
        raise ValueError("start: expected finite factors, got others")
    return vector


# book/roads/bbvi.ipynb, cell bbvi-63
def fit_bbvi(X, y, n_experts=10, latent_dim=None, n_classes=None,
             priors=Priors(),  # noqa: B008  Priors are frozen
             objective="elbo", n_particles=8, n_steps=20_000, lr=5e-3, rng=0,
             init="class-code", start=None, tol=1e-3, callback=None,
             checkpoint=None, checkpoint_every=1000):
    """Black-box variational inference for the conditional mixture network.
    [eq-bb-path, eq-bb-stop, eq-opt-belief]

    X (N,d) finite, y (N,) in 0..L-1   standardise X first: the priors have a scale
    n_experts, latent_dim (L-1), n_classes (largest label + 1), priors
    objective   "elbo" or "augmented", see bound_and_grad
    n_particles, n_steps, lr   draws per step, steps and rate of AdaBelief
    rng, init   as in cavi.fit: equal seeds start at equal states
    start       a State of these rows to start from instead; tol of eq-bb-stop
    callback, checkpoint, checkpoint_every   as in maximize
    -> BBVIFit.  Ctrl-C ends it after the last whole step, with a RuntimeWarning.
    ValueError names a bad argument.
    """
    X, y, sizes = check_problem(X, y, n_experts, latent_dim, n_classes)
    shapes = (*sizes, X.shape[1])
    rng, N = _check_run(priors, objective, n_particles, rng, init, tol), len(X)
    if start is None:
        start = complete_start(X, y, *shapes[:3], priors, rng, init)
    start, rows = _start_vector(start, shapes, N), make_rows(X, y, shapes[2])

    def estimate(vector, rng):
        free = unpack_free(vector, shapes, N)
        noise = draw_noise(free, n_particles, rng)
        value, slopes = bound_and_grad(free, noise, rows, priors, objective)
        return value, pack_free(slopes)

    run = maximize(
        estimate, start, n_steps, lr, rng=rng, callback=callback,
        checkpoint=checkpoint, checkpoint_every=checkpoint_every,
        problem=("bbvi", X, y, shapes, priors, objective, n_particles))
    state = state_of(unpack_free(run.x, shapes, N), X)
    converged = run.reason == "steps" and _settled(run.trace, tol * N)
    return BBVIFit(parameters_of(state), state, run.trace, run.n_steps, converged,
                   run.reason, objective, shapes[2], priors)


# book/roads/bbvi.ipynb, cell bbvi-65
def augmentation_gap(state, X, y, n_draws=400, rng=0):
    """How far the un-augmented bound lies above the augmented one with its best
    tilts, at this q.  [eq-bb-gap]

    state State, X (N,d) unpadded, y (N,), rng int or Generator
    -> estimate, its standard error (nats)
    """
    (X, y), f, rng = check_state(state, X, y), free_of(state), check_rng(rng)
    rows, h = make_rows(X, y, len(f.beta1_mu) + 1), len(f.mu)
    gamma, tilts = responsibilities(f.logits, 0)[0], best_tilts(f, rows)
    weights = gamma * rows.b[:, None], _soft_counts(gamma)[0]
    gaps = []
    for _ in range(check_count(n_draws, "n_draws", least=2)):
        theta, x1 = particles(f, draw_noise(f, 1, rng))
        flat = x1[0].reshape(h, -1)
        psi1 = theta.beta1[0][:, :h] @ flat + theta.beta1[0][:, h:]
        logits = psi1.reshape(-1, *gamma.shape), theta.beta0[0] @ rows.XtT
        gaps.append(sum((w * (coin_cost(psi, tilt)[0] - coin_cost(psi)[0])).sum()
                        for w, psi, tilt in zip(weights, logits, tilts)))
    return float(np.mean(gaps)), float(np.std(gaps, ddof=1) / n_draws**0.5)
