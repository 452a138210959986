# Tangled from book/network/cavi.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Coordinate ascent: the whole algorithm

Seven closed-form updates, in any order that reads current values, never lower the bound. The bound
converges, and a state that none of the seven changes is a stationary point of the bound.
"""

__all__ = ["output_update", "UPDATES", "sweep", "prior_start", "random_start", "local_factors",
           "init_state"]


# book/network/cavi.ipynb, cell cavi-02
import numpy as np

from cmn_literate.ideas.expfam import padded_second_moment
from cmn_literate.ideas.logistic import coefficients_from_sums
from cmn_literate.ideas.polya_gamma import pg_mean
from cmn_literate.ideas.stick_breaking import stick_counts
from cmn_literate.network.experts import expert_update
from cmn_literate.network.gate import gate_tilt, gate_update
from cmn_literate.network.latents import (
    Local, Parameters, State, latent_update, output_tilt, per_component,
    responsibilities, row_scores)


# book/network/cavi.ipynb, cell cavi-07
def output_update(y, gamma, mu, Sigma, xi1, priors):
    """q(beta_1) given q(x1, z) and q(omega_1).  [eq-beta1]

    y (N,) in 0..L-1, gamma (N,K), mu (N,K,h), Sigma (N,K,h,h),
    xi1 (N,K,L-1) or shared (N,L-1)
    -> beta1_mu (L-1,h+1), beta1_S (L-1,h+1,h+1) covariances
    """
    b, kappa = (table[y] for table in stick_counts(np.eye(xi1.shape[-1] + 1)))
    omega = per_component(pg_mean(1.0, xi1))
    weight = gamma[:, :, None] * b[:, None, :] * omega
    moments = padded_second_moment(mu, Sigma)
    gram = np.tensordot(weight, moments, axes=((0, 1), (0, 1)))
    mean1 = np.einsum("nk,nki->ni", gamma, mu)
    linear = kappa.T @ np.concatenate([mean1, gamma.sum(1, keepdims=True)], 1)
    return coefficients_from_sums(gram, linear, priors.sigma1)[:2]


# book/network/cavi.ipynb, cell cavi-11
def _x(s, X, y, priors):
    """q(x1|z).  [eq-latent-x]"""
    mu, Sigma = latent_update(X, y, s.parameters, s.local.xi1)
    return s.replace(mu=mu, Sigma=Sigma)


def _omega1(s, X, y, priors):
    """q(omega_1|z), or q(omega_1) if xi1 is (N,L-1).  [eq-output-tilt]"""
    p, q = s.parameters, s.local
    shared = q.gamma if q.xi1.ndim == 2 else None
    return s.replace(xi1=output_tilt(q.mu, q.Sigma, p.beta1_mu, p.beta1_S, shared))


def _omega0(s, X, y, priors):
    """q(omega_0|z).  [eq-gate-tilt]"""
    p = s.parameters
    return s.replace(xi0=gate_tilt(X, p.beta0_mu, p.beta0_S))


def _z(s, X, y, priors):
    """q(z).  [eq-row-gamma]"""
    return s.replace(gamma=responsibilities(row_scores(s, X, y))[0])


# book/network/cavi.ipynb, cell cavi-12
def _beta1(s, X, y, priors):
    """q(beta_1).  [eq-beta1]"""
    q = s.local
    mu, S = output_update(y, q.gamma, q.mu, q.Sigma, q.xi1, priors)
    return s.replace(beta1_mu=mu, beta1_S=S)


def _beta0(s, X, y, priors):
    """q(beta_0).  [eq-gate-S, eq-gate-mu]"""
    mu, S = gate_update(X, s.local.gamma, s.local.xi0, priors)
    return s.replace(beta0_mu=mu, beta0_S=S)


def _experts(s, X, y, priors):
    """q(A, tau).  [eq-expert-update]"""
    q = s.local
    M, V, a, b = expert_update(X, q.gamma, q.mu, q.Sigma, priors)
    return s.replace(M=M, V=V, a=a, b=b)


# f(state, X, y, priors) -> State with that one factor replaced by its best
UPDATES = {"x": _x, "omega1": _omega1, "omega0": _omega0, "z": _z,
           "beta1": _beta1, "beta0": _beta0, "experts": _experts}


# book/network/cavi.ipynb, cell cavi-20
def sweep(state, X, y, priors, inner=1):
    """One canonical sweep over all seven factors.  [eq-sweep]

    state State, X (N,d), y (N,), inner >= 1 rounds of (x, omega1) -> State
    """
    first = ("x", "omega1")
    for name in first * inner + ("omega0", "z", "beta1", "beta0", "experts"):
        state = UPDATES[name](state, X, y, priors)
    return state


# book/network/cavi.ipynb, cell cavi-25
def prior_start(K, h, L, D, priors, rng=None):
    """Every global factor at its prior, for K experts, h latents, L classes and D
    padded inputs.  [eq-cmn-family, eq-flip]   rng is not read -> Parameters"""
    def eye(count, size, scale):
        return np.tile(scale * np.eye(size), (count, 1, 1))
    return Parameters(
        np.zeros((L - 1, h + 1)), eye(L - 1, h + 1, priors.sigma1**2),
        np.zeros((K - 1, D)), eye(K - 1, D, priors.sigma0**2),
        np.zeros((K, h, D)), eye(K, D, priors.v0),
        np.full(K, priors.a0), np.full((K, h), priors.b0))


def random_start(K, h, L, D, priors, rng, scale=3.0, variance=0.01):
    """Means N(0, scale^2), narrow covariances, the prior's noise.  [eq-cmn-family]

    sizes as in prior_start, rng Generator -> Parameters
    """
    p = prior_start(K, h, L, D, priors)
    means = {f: scale * rng.normal(size=getattr(p, f).shape)
             for f in ("beta1_mu", "beta0_mu", "M")}
    spreads = {f: np.zeros_like(getattr(p, f)) + variance * np.eye(size)
               for f, size in (("beta1_S", h + 1), ("beta0_S", D), ("V", D))}
    return p._replace(**means, **spreads)


# book/network/cavi.ipynb, cell cavi-27
def local_factors(parameters, X, y, shared=False, rounds=1000, tol=1e-12):
    """Complete State of labelled rows under given global factors.
    [eq-latent-x, eq-output-tilt, eq-row-gamma]

    From xi1 = 0 and uniform gamma repeats x, omega1 (and z if omega1 is shared)
    until xi1 moves by less than tol, at most rounds times, then z.
    rounds=0: that start with x and omega0 only, as a fit's first sweep sees it.
    X (N,d), y (N,) in 0..L-1 -> State
    """
    p, N = parameters, len(X)
    (K, h, _), J = p.M.shape, len(p.beta1_mu)
    state = State(p, Local(
        np.full((N, K), 1.0 / K), np.zeros((N, K, h)), np.zeros((N, K, h, h)),
        np.zeros((N, J) if shared else (N, K, J)), np.zeros((N, K - 1))))
    state = _omega0(_x(state, X, y, None), X, y, None)
    for _ in range(rounds):
        old, state = state.local.xi1, _omega1(state, X, y, None)
        state = _x(state, X, y, None)
        if shared:
            state = _z(state, X, y, None)
        if np.abs(state.local.xi1 - old).max(initial=0.0) < tol:
            break
    return _z(state, X, y, None) if rounds else state


# book/network/cavi.ipynb, cell cavi-29
def init_state(X, y, n_experts, latent_dim, n_classes, priors, rng,
               method="random", shared=False):
    """Complete starting State: plain parameters, then x and omega0 with xi1 = 0 and
    uniform gamma.  [eq-latent-x, eq-gate-tilt]

    method "random", or "prior" for study;  rng int or Generator
    ValueError for any other method.
    """
    starts = {"random": random_start, "prior": prior_start}
    if method not in starts:
        raise ValueError(f'method: expected "random" or "prior", got {method!r}')
    sizes = n_experts, latent_dim, n_classes, X.shape[1] + 1
    parameters = starts[method](*sizes, priors, np.random.default_rng(rng))
    return local_factors(parameters, X, y, shared, rounds=0)
