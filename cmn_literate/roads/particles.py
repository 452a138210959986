# Tangled from book/roads/particles.ipynb by tools/tangle.py; edit the notebook, not this file.
"""A bound by draws

With draws in the place of formulas one may look at the bound that the paper prints, which lies
above the one that coordinate ascent climbs; the two differ in the cost of a coin and in nothing
else. All it takes is a family described by numbers that are free of constraints, and draws that
are functions of these numbers.
"""

__all__ = ["coin_cost", "Free", "free_shapes", "pack_free", "unpack_free", "free_of", "state_of",
           "particles", "log_terms", "log_scale"]


# book/roads/particles.ipynb, cell particles-02
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np

from cmn_literate.engineering.elbo_gradients import pack_factor, unpack_factor
from cmn_literate.engineering.gamma_draws import gamma_draw
from cmn_literate.engineering.packed import lower_triangle
from cmn_literate.ideas.stick_breaking import stick_counts
from cmn_literate.network.gate import gate_tilt
from cmn_literate.network.latents import Local, Parameters, State, output_logits
from cmn_literate.network.simulate import Theta


# book/roads/particles.ipynb, cell particles-08
def coin_cost(psi, tilt=None):
    """c(psi), nats; with tilt = (theta, ln 2 + K - theta xi^2 / 2) of xi the
    parabola that touches it at xi.  [eq-bb-coin, eq-bb-parabola]   psi (...)"""
    if tilt is None:
        return anp.logaddexp(0.5 * psi, -0.5 * psi)
    return tilt[1] + 0.5 * tilt[0] * psi**2


# book/roads/particles.ipynb, cell particles-14
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


# book/roads/particles.ipynb, cell particles-15
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


# book/roads/particles.ipynb, cell particles-16
def free_of(state):
    """The free numbers of a State; its tilts are dropped.  [eq-bb-free]"""
    (p, q), last = state, lambda v: np.ascontiguousarray(v.transpose())
    gamma = np.log(np.maximum(q.gamma, 1e-300))
    return Free(p.beta1_mu, pack_factor(p.beta1_S), p.beta0_mu,
                pack_factor(p.beta0_S), p.M, pack_factor(p.V), np.log(p.a),
                np.log(p.b), last(gamma), last(q.mu), last(pack_factor(q.Sigma)))


def state_of(free, X):
    """The State of free numbers, with the best tilts.  [eq-bb-free]

    X (N,d) unpadded, for the gate's tilts.  Differentiable.
    """
    f, h, D = free, free.mu.shape[0], free.M.shape[-1]

    def covariance(packed, m):
        C = unpack_factor(packed, m)
        return anp.matmul(C, anp.swapaxes(C, -1, -2))

    weights = anp.exp(f.logits - anp.max(f.logits, 0))
    gamma, mu = anp.transpose(weights / anp.sum(weights, 0)), anp.transpose(f.mu)
    Sigma = covariance(anp.transpose(f.x_C), h)
    beta1 = f.beta1_mu, covariance(f.beta1_C, h + 1)
    beta0 = f.beta0_mu, covariance(f.beta0_C, D)
    xi1 = anp.sqrt(output_logits(mu, Sigma, *beta1)[1])
    experts = f.M, covariance(f.V_C, D), anp.exp(f.log_a), anp.exp(f.log_b)
    return State(Parameters(*beta1, *beta0, *experts),
                 Local(gamma, mu, Sigma, xi1, gate_tilt(X, *beta0)))


# book/roads/particles.ipynb, cell particles-20
def particles(free, noise):
    """Draws of all parameters and latent vectors; differentiable.  [eq-bb-draw]

    -> Theta with a leading axis S, x1 (S,h,K,N)
    """
    f, e, h, D = free, noise, free.mu.shape[0], free.M.shape[-1]
    moved = lambda mu, packed, eps: mu + anp.einsum(
        "lij,slj->sli", unpack_factor(packed, mu.shape[-1]), eps)
    tau = gamma_draw(anp.exp(f.log_a)[:, None], e.g) / anp.exp(f.log_b)
    A = anp.einsum("kij,skaj->skai", unpack_factor(f.V_C, D), e.A)
    A = f.M + A / anp.sqrt(tau)[..., None]
    C = unpack_factor(anp.transpose(f.x_C), h)                 # (N,K,h,h)
    x1 = f.mu + anp.einsum("nkij,sjkn->sikn", C, e.x1)
    return Theta(moved(f.beta1_mu, f.beta1_C, e.beta1),
                 moved(f.beta0_mu, f.beta0_C, e.beta0), A, tau), x1


# book/roads/particles.ipynb, cell particles-23
def log_terms(theta, x1, rows, tilts=(None, None)):
    """Logarithms of the model at the draws, nats; differentiable.
    [eq-bb-bound, eq-bb-coin]

    -> coins of the label (S,L-1,K,N), of the gate (S,K-1,K,N), experts (S,h,K,N)
    """
    h, (b, kappa) = x1.shape[1], stick_counts(np.eye(x1.shape[2]))
    psi = anp.einsum("sli,sikn->slkn", theta.beta1[..., :h], x1)
    psi = psi + theta.beta1[..., h][..., None, None]
    label = rows.kappa[:, None] * psi - rows.b[:, None] * coin_cost(psi, tilts[0])
    psi = anp.einsum("sjd,dn->sjn", theta.beta0, rows.XtT)
    cost = coin_cost(psi, tilts[1])
    gate = kappa.T[..., None] * psi[:, :, None] - b.T[..., None] * cost[:, :, None]
    r = x1 - anp.einsum("skid,dn->sikn", theta.A, rows.XtT)
    tau = anp.transpose(theta.tau, (0, 2, 1))[..., None]
    return label, gate, 0.5 * (anp.log(tau / (2 * np.pi)) - tau * r**2)


def log_scale(x_C):
    """ln |C| of the latent vectors, half the log determinant of their covariance.
    [eq-bb-free]   (T,K,N) -> (K,N)"""
    i, j = lower_triangle(int((2 * len(x_C)) ** 0.5))[:2]
    return anp.sum(x_C[i == j], 0)
