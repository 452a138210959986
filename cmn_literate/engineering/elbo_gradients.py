# Tangled from book/engineering/elbo_gradients.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Slopes of a sampled bound, by hand

At a given draw the bound by draws is an ordinary function of a few thousand numbers. Its slopes,
written out by hand as products of matrices, are those that automatic differentiation finds, and
cost a fraction of it.
"""

__all__ = ["unpack_factor", "pack_factor", "coin_tilt", "coin_cost_and_slope", "row_mass",
           "soft_counts", "fast_particles", "best_tilts", "kl_and_grad", "bound_slopes"]


# book/engineering/elbo_gradients.ipynb, cell elbo_gradients-02
import autograd.numpy as anp
import numpy as np
from scipy.special import polygamma

from cmn_literate.ideas.expfam import gamma_kl, second_moment
from cmn_literate.ideas.polya_gamma import tilt_moments
from cmn_literate.engineering.packed import (
    lower_triangle, outer_features, pack_quadratic)
from cmn_literate.network.latents import responsibilities
from cmn_literate.network.simulate import Theta


# book/engineering/elbo_gradients.ipynb, cell elbo_gradients-06
def unpack_factor(packed, m):
    """C (..., m, m) of its packed form (..., T(m)).  [eq-bb-free]"""
    full = packed[..., lower_triangle(m)[3]]
    return full * np.tri(m, k=-1) + anp.exp(full * np.eye(m)) * np.eye(m)


def pack_factor(S):
    """Packed Cholesky factor (..., T(m)) of S (..., m, m).  [eq-bb-free]"""
    i, j = lower_triangle(S.shape[-1])[:2]
    packed = np.linalg.cholesky(S)[..., i, j]
    packed[..., i == j] = np.log(packed[..., i == j])
    return packed


def _local_factor(x_C):
    """Cholesky factors of the latent vectors, packed, rows last: the logarithms
    resolved.  [eq-bb-free]   (T,K,N) -> (T,K,N), rows of the diagonal (h,)"""
    T, C = len(x_C), x_C.copy()
    i, j = lower_triangle(int((2 * T) ** 0.5))[:2]
    diagonal = np.flatnonzero(i == j)
    C[diagonal] = np.exp(C[diagonal])
    return C, diagonal


# book/engineering/elbo_gradients.ipynb, cell elbo_gradients-09
def coin_tilt(square):
    """theta(xi) and ln 2 + K(xi) for xi^2 = square.  [eq-bb-parabola]

    square (...) >= 0 -> two arrays (...): the parabola of a coin's cost
    """
    quarter = np.array(0.25 * square, ndmin=1)
    theta, log_cosh = (v.reshape(np.shape(square)) for v in tilt_moments(quarter))
    return theta, log_cosh + np.log(2.0) - 0.5 * theta * square


# book/engineering/elbo_gradients.ipynb, cell elbo_gradients-10
def coin_cost_and_slope(psi, tilt=None):
    """c(psi) and c'(psi), nats; with tilt = coin_tilt(xi^2) the parabola that
    touches it at xi.  [eq-elg-coin, eq-bb-parabola]   psi (...) -> (...), (...)"""
    if tilt is not None:
        slope = tilt[0] * psi
        cost = slope * psi
        cost *= 0.5
        cost += tilt[1]
        return cost, slope
    slope = 0.5 * psi
    cost = np.abs(slope)
    np.tanh(slope, out=slope)
    spare = np.abs(slope)
    spare += 1.0
    cost -= np.log(spare, out=spare)
    cost += np.log(2.0)
    slope *= 0.5
    return cost, slope


# book/engineering/elbo_gradients.ipynb, cell elbo_gradients-11
def row_mass(rows, gamma):
    """gamma (K,N) times how often each of the rows counts.  [eq-weighted-bound]"""
    return gamma if rows.weight is None else gamma * rows.weight


def soft_counts(gamma):
    """b and kappa of the gate's sticks, rows last.  [eq-stick-counts]
    gamma (K,N) -> (K-1,N), (K-1,N)"""
    b = np.cumsum(gamma[::-1], 0)[:0:-1]
    return b, gamma[:-1] - 0.5 * b


# book/engineering/elbo_gradients.ipynb, cell elbo_gradients-14
def fast_particles(free, noise):
    """Draws of all parameters and latent vectors.  [eq-bb-draw]

    free, noise named tuples of the fields of Free and Noise
    -> Theta with a leading axis S, x1 (S,h,K,N)
    """
    f, e, h, D = free, noise, free.mu.shape[0], free.M.shape[-1]

    def moved(mu, packed, eps):
        C = unpack_factor(packed, mu.shape[-1])
        return mu + np.einsum("lij,slj->sli", C, eps)

    tau = e.g / np.exp(f.log_b)
    A = np.einsum("kij,skaj->skai", unpack_factor(f.V_C, D), e.A)
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


# book/engineering/elbo_gradients.ipynb, cell elbo_gradients-15
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
        F = unpack_factor(packed, mu.shape[-1])
        squares.append(pack_quadratic(second_moment(mu, F @ F.swapaxes(-1, -2))))
    psi2 = squares[0] @ np.stack(moments).reshape(len(moments), -1)
    return (coin_tilt(psi2.reshape(-1, K, N)),
            coin_tilt(squares[1] @ outer_features(rows.XtT)))


# book/engineering/elbo_gradients.ipynb, cell elbo_gradients-18
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
    C = unpack_factor(packed, m)
    value = 0.5 * ((C**2).sum() + (mu**2).sum()) / sigma**2
    value += mu.size * (np.log(sigma) - 0.5) - packed[:, i == j].sum()
    slope = _factor_slope(C / sigma**2, C) - (i == j)
    return value, mu / sigma**2, slope


# book/engineering/elbo_gradients.ipynb, cell elbo_gradients-19
def kl_and_grad(free, priors):
    """KL[q(Theta) || p(Theta)] and its slopes in the free numbers.
    [eq-bb-kl-gaussian, eq-bb-kl-expert, eq-global-kl]

    free named tuple of the fields of Free
    -> float, the same kind of tuple with 0 for the local fields
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
    return value, f._replace(
        beta1_mu=beta1[1], beta1_C=beta1[2], beta0_mu=beta0[1], beta0_C=beta0[2],
        M=(a / b)[..., None] * f.M / priors.v0, V_C=h * rows[2],
        log_a=(energy + a * log_a).sum(-1),
        log_b=priors.a0 - energy - a * priors.b0 / b, logits=0.0, mu=0.0, x_C=0.0)


# book/engineering/elbo_gradients.ipynb, cell elbo_gradients-22
def _label_part(theta, x1, rows, gamma, tilt):
    """Mean score (K,N); weighted slopes in beta1 (S,J,h+1) and x1.
    [eq-bb-coin, eq-bb-slopes-label]"""
    S, h, K, N = x1.shape
    flat, weights = x1.reshape(S, h, K * N), theta.beta1[..., :h]
    psi = weights @ flat
    psi += theta.beta1[..., h:]
    psi = psi.reshape(S, -1, K, N)
    cost, slope = coin_cost_and_slope(psi, tilt)
    score = np.einsum("jn,sjkn->kn", rows.kappa, psi)
    score -= np.einsum("jn,sjkn->kn", rows.b, cost)
    slope *= rows.b[:, None]
    np.subtract(rows.kappa[:, None], slope, out=slope)
    slope *= gamma
    slope = slope.reshape(S, -1, K * N)
    beta1 = slope @ flat.transpose(0, 2, 1), slope.sum(-1, keepdims=True)
    into_x = weights.transpose(0, 2, 1) @ slope
    return score / S, np.concatenate(beta1, -1), into_x.reshape(x1.shape)


# book/engineering/elbo_gradients.ipynb, cell elbo_gradients-23
def _gate_part(theta, rows, gamma, tilt):
    """Mean score (K,N); slope in beta0 (S,K-1,D).  [eq-bb-coin]"""
    psi = theta.beta0 @ rows.XtT
    cost, slope = coin_cost_and_slope(psi, tilt)
    half, cost = 0.5 * psi.mean(0), cost.mean(0)
    score = np.zeros(gamma.shape)
    score[:-1] = half - cost
    score[1:] -= np.cumsum(half + cost, 0)
    b, kappa = soft_counts(gamma)
    return score, (kappa - b * slope) @ rows.XtT.T


# book/engineering/elbo_gradients.ipynb, cell elbo_gradients-24
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


# book/engineering/elbo_gradients.ipynb, cell elbo_gradients-26
def _expert_path(f, theta, noise, moves, into_A, into_tau):
    """Slopes in M, V_C, log_a and log_b.  [eq-bb-path-matrix]"""
    S, a, tau = len(noise.g), np.exp(f.log_a)[:, None], theta.tau
    C = unpack_factor(f.V_C, f.M.shape[-1])
    scaled = into_A / np.sqrt(tau)[..., None]
    V_C = np.einsum("skid,skie->kde", scaled, noise.A) / S
    total = into_tau - 0.5 / tau * ((theta.A - f.M) * into_A).sum(-1)
    by_shape = total * moves / np.exp(f.log_b)
    return (into_A.mean(0), _factor_slope(V_C, C),
            a[:, 0] * by_shape.mean(0).sum(-1), -(tau * total).mean(0))


# book/engineering/elbo_gradients.ipynb, cell elbo_gradients-27
def _coefficient_path(into, eps, packed):
    """Slopes in mu and packed C from slopes in the draws (S,l,m).
    [eq-bb-path-gaussian]"""
    slope = np.einsum("sli,slj->lij", into, eps) / len(eps)
    C = unpack_factor(packed, eps.shape[-1])
    return into.mean(0), _factor_slope(slope, C)


# book/engineering/elbo_gradients.ipynb, cell elbo_gradients-28
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


# book/engineering/elbo_gradients.ipynb, cell elbo_gradients-29
def bound_slopes(free, noise, moves, rows, priors, tilts=(None, None), term=None):
    """The estimate of a bound at these draws, and its slopes.
    [eq-bb-bound, eq-bb-path, eq-bb-softmax, eq-bb-envelope, eq-weighted-bound]

    free, noise named tuples of the fields of Free and Noise, rows of make_rows
    moves (S,K,h)  how each Gamma draw moves with its shape
    tilts          of best_tilts for the augmented bound, else none
    term           a further log density of Theta, see add_term, for Thetas with a
                   leading axis S: nats (S,), slopes with it too
    -> float (nats), the kind of tuple that free is
    """
    f, h, gamma = free, len(free.mu), responsibilities(free.logits, 0)[0]
    mass, (theta, x1) = row_mass(rows, gamma), fast_particles(f, noise)
    label, into_beta1, into_x = _label_part(theta, x1, rows, mass, tilts[0])
    gate, into_beta0 = _gate_part(theta, rows, mass, tilts[1])
    expert, into_A, into_tau, pull = _expert_part(theta, x1, rows, mass)
    into_x -= pull
    more, bar = (np.zeros(1), Theta(*4 * (0.0,))) if term is None else term(theta)
    into = into_beta1, into_beta0, into_A, into_tau
    into_beta1, into_beta0, into_A, into_tau = (a + b for a, b in zip(into, bar))
    entropy = f.x_C[_local_factor(f.x_C)[1]].sum(0)
    v = label + gate + expert + entropy + 0.5 * h * (1 + np.log(2 * np.pi))
    v -= np.log(np.maximum(gamma, 1e-300))
    per_row = (gamma * v).sum(0)
    up = (*_coefficient_path(into_beta1, noise.beta1, f.beta1_C),
          *_coefficient_path(into_beta0, noise.beta0, f.beta0_C),
          *_expert_path(f, theta, noise, moves, into_A, into_tau),
          mass * (v - per_row), *_local_path(f, noise.x1, mass, into_x))
    kl, down = kl_and_grad(f, priors)
    return (mass * v).sum() + more.mean() - kl, type(f)(*(u - d for u, d in zip(up, down)))
