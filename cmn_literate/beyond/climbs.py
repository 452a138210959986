# Tangled from book/beyond/climbs.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Climbs: where the ascent ends, and what to make of several ends

On a pinwheel a climb lets go of experts wherever it starts, because the bound charges for each one
in use. There few experts are not enough, and the ends with the highest bounds forecast worst.
Where few are enough, every way to fewer experts helps: tempering, merging, a start with few
regions. Merging, and a plain average of four ends, gain most in the mean over six data sets; the
average is nowhere far behind.
"""

__all__ = ["near", "tempered", "merge_experts", "climb_by_merging", "bound_weights",
           "average_forecasts", "stacking_weights", "log_ratio", "draw_scores", "tail_index",
           "linear_response"]


# book/beyond/climbs.ipynb, cell climbs-02
from itertools import combinations

import numpy as np
from autograd import hessian, jacobian
from scipy.special import gammaln, logsumexp

from cmn_literate.checks import (
    check_count, check_kind, check_number, check_positive, real_array)
from cmn_literate.engineering.fit import Fit
from cmn_literate.engineering.nodes import latent_nodes
from cmn_literate.engineering.sums import block_sweep, make_blocks
from cmn_literate.network.cavi import local_factors
from cmn_literate.network.gate import gate_tilt, gate_update
from cmn_literate.network.latents import Parameters
from cmn_literate.network.predict import sample_parameters
from cmn_literate.network.simulate import Theta
from cmn_literate.roads.diagnostics import PosteriorDraws, draw_log_probs
from cmn_literate.use.metrics import smooth_tail


# book/beyond/climbs.ipynb, cell climbs-05
def near(theta, variance=0.01, a=100.0):
    """Factors of q that are narrow about one Theta.  [eq-climb-near]

    theta Theta without leading axes, variance > 0 of every coefficient (of the
    experts in units of the noise), a > 0 the shape of q(tau) -> Parameters
    ValueError names the argument.
    """
    check_positive(variance, "variance"), check_positive(a, "a")
    beta1, beta0, A, tau = theta
    spread = lambda rows: np.tile(variance * np.eye(rows.shape[-1]), (len(rows), 1, 1))
    return Parameters(beta1, spread(beta1), beta0, spread(beta0), A, spread(A),
                      np.full(len(A), float(a)), a / tau)


# book/beyond/climbs.ipynb, cell climbs-07
def tempered(resume, hot=20.0, sweeps=100, inner=1):
    """Sweeps in which a row counts 1/T, T falling from hot to 1.  [eq-climb-temper]

    resume Resume, hot >= 1 -> Resume without bounds, for fit(start=).  ValueError
    names the argument.
    """
    check_number(hot, "hot", "a number of at least 1", lambda v: 1 <= v < np.inf)
    check_count(sweeps, "sweeps"), check_count(inner, "inner")
    r = resume
    for share in hot ** (np.arange(sweeps) / sweeps - 1):
        warm = tuple(block._replace(rows=_weighted(block.rows, share))
                     for block in r.blocks)
        warm, after, _ = block_sweep(warm, r.parameters, r.priors, inner)
        blocks = tuple(new._replace(rows=old.rows)
                       for new, old in zip(warm, r.blocks))
        r = r._replace(parameters=after, blocks=blocks)
    return r._replace(elbo=(), converged=False)


def _weighted(rows, share):
    """The rows, each counting `share` times as much."""
    weight = np.ones(rows.b.shape[1]) if rows.weight is None else rows.weight
    return rows._replace(weight=share * weight)


# book/beyond/climbs.ipynb, cell climbs-13
def merge_experts(parameters, X, gamma, i, j, priors, rounds=3):
    """Expert i takes the rows of j, and j returns to its prior.  [eq-climb-merge]

    X (N,d), gamma (N,K) responsibilities, i != j in 0..K-1; the gate learns the new
    responsibilities in so many rounds -> Parameters, new responsibilities (N,K)
    ValueError for a pair that is none.
    """
    p, D = parameters, X.shape[1] + 1
    if i == j or not {i, j} <= set(range(len(p.M))):
        raise ValueError(f"i, j: expected two of the experts 0 to {len(p.M) - 1}, got "
                         f"{i!r} and {j!r}")
    P = np.linalg.inv(p.V[[i, j]])                            # precisions of the rows
    linear, I = p.M[[i, j]] @ P, np.eye(D) / priors.v0
    energy = 2 * p.b[[i, j]] + np.einsum("khd,khd->kh", linear, p.M[[i, j]])
    V = np.linalg.inv(P.sum(0) - I)
    M = linear.sum(0) @ V
    b = 0.5 * (energy.sum(0) - 2 * priors.b0 - ((M @ (P.sum(0) - I)) * M).sum(1))
    experts = [np.copy(field) for field in (p.M, p.V, p.a, p.b)]
    for field, one, none in zip(experts, (M, V, p.a[i] + p.a[j] - priors.a0, b),
                                (0.0, priors.v0 * np.eye(D), priors.a0, priors.b0)):
        field[i], field[j] = one, none
    gamma = np.copy(gamma)
    gamma[:, i] += gamma[:, j]
    gamma[:, j], gate = 0.0, (p.beta0_mu, p.beta0_S)
    for _ in range(rounds):
        gate = gate_update(X, gamma, gate_tilt(X, *gate), priors)
    return Parameters(p.beta1_mu, p.beta1_S, *gate, *experts), gamma


# book/beyond/climbs.ipynb, cell climbs-14
def climb_by_merging(X, y, fitted, sweeps=50, look=3, rounds=10):
    """Merge pairs of experts as long as the bound rises.  [eq-climb-accept]

    X (N,d), y (N,), fitted Fit of these rows; of all pairs of experts in use the one
    whose bound is best after `look` sweeps goes on for `sweeps`, and is kept if its
    bound is above that of as many more sweeps without it
    -> Parameters, bound (nats), list of accepted pairs.  ValueError names the argument.
    """
    check_kind(fitted, "fitted", Fit)
    check_count(sweeps, "sweeps"), check_count(look, "look")
    K, h, _ = fitted.parameters.M.shape
    fresh = make_blocks(X, y, K, h, fitted.n_classes, fitted.shared)
    climb = lambda p, n: _climb(fresh, p, fitted.priors, n)
    p, bound = climb(fitted.parameters, sweeps)
    taken = []
    for _ in range(rounds):
        gamma = local_factors(p, X, y, fitted.shared, rounds=20).local.gamma
        used = np.flatnonzero(gamma.sum(0) >= 1)
        tried = {pair: merge_experts(p, X, gamma, *pair, fitted.priors)[0]
                 for pair in combinations(used.tolist(), 2)}
        if not tried:
            break
        pair = max(tried, key=lambda one: climb(tried[one], look)[1])
        (p, new), old = climb(tried[pair], sweeps), (p, bound)
        rival = climb(old[0], sweeps)
        if new <= rival[1]:
            return *rival, taken
        bound = new
        taken.append(pair)
    return p, bound, taken


def _climb(blocks, parameters, priors, sweeps):
    """So many sweeps with fresh tilts.   -> Parameters, bound"""
    for _ in range(sweeps):
        blocks, parameters, bound = block_sweep(blocks, parameters, priors)
    return parameters, float(bound)


# book/beyond/climbs.ipynb, cell climbs-18
def bound_weights(bounds):
    """Weights of fits of the same rows, proportional to exp(bound).
    [eq-climb-bma]   bounds (S,) nats, finite -> (S,)"""
    bounds = real_array(bounds, "bounds")
    if bounds.ndim != 1 or not bounds.size or not np.isfinite(bounds).all():
        raise ValueError(f"bounds: expected finite numbers (S,), got {bounds!r}")
    weight = np.exp(bounds - bounds.max())
    return weight / weight.sum()


def average_forecasts(log_p, weights):
    """Log of the weighted mean of forecasts.  [eq-climb-average]

    log_p (S,n,L), weights (S,) >= 0 that add up to 1 -> (n,L) nats
    """
    weights = real_array(weights, "weights")
    if weights.shape != np.shape(log_p)[:1] or weights.min() < 0 or (
            abs(weights.sum() - 1) > 1e-6):
        raise ValueError(f"weights: expected {np.shape(log_p)[0]} numbers >= 0 that add "
                         f"up to 1, got {weights!r}")
    with np.errstate(divide="ignore"):
        log_w = np.log(weights)
    return logsumexp(np.asarray(log_p) + log_w[:, None, None], axis=0)


# book/beyond/climbs.ipynb, cell climbs-19
def stacking_weights(log_scores, tol=1e-9, most=10_000):
    """Weights with the best mean log score of the average.  [eq-climb-em]

    log_scores (S,N): ln p of row n by fit s, from rows that it has not seen or by
    psis_loo, finite -> (S,) >= 0, sum 1; tol in nats per row
    """
    scores = real_array(log_scores, "log_scores")
    if scores.ndim != 2 or not np.isfinite(scores).all():
        raise ValueError("log_scores: expected finite numbers (fits, rows), got "
                         f"shape {scores.shape}")
    p = np.exp(scores - scores.max(0))
    weight = np.full(len(p), 1 / len(p))
    for _ in range(most):
        slope = (p / (weight @ p)).mean(1)
        weight = weight * slope
        if slope.max() - 1 < tol:           # the best that is left to gain
            break
    return weight / weight.sum()


# book/beyond/climbs.ipynb, cell climbs-22
def log_ratio(parameters, theta, priors):
    """ln p(Theta) - ln q(Theta) of draws.  [eq-climb-ratio]

    theta Theta with a leading axis S -> (S,) nats
    """
    p, total = parameters, 0.0
    for beta, mu, S, sigma in ((theta.beta1, p.beta1_mu, p.beta1_S, priors.sigma1),
                               (theta.beta0, p.beta0_mu, p.beta0_S, priors.sigma0)):
        total = total + _gaussian_ratio(beta, mu, S, sigma**2).sum(1)
    root, tau = np.sqrt(theta.tau)[..., None], theta.tau
    rows = _gaussian_ratio(theta.A * root, p.M * root, p.V[:, None], priors.v0)
    a, a0, b0 = p.a[:, None], priors.a0, priors.b0
    gammas = (a0 * np.log(b0) - gammaln(a0) - a * np.log(p.b) + gammaln(a)
              + (a0 - a) * np.log(tau) + (p.b - b0) * tau)
    return total + (rows + gammas).sum((1, 2))


def _gaussian_ratio(x, mu, S, variance):
    """ln N(x; 0, variance I) - ln N(x; mu, S), all of the last axis."""
    off = x - mu
    far = np.einsum("...d,...de,...e->...", off, np.linalg.inv(S), off)
    return 0.5 * (far + np.linalg.slogdet(S)[1] - (x**2).sum(-1) / variance
                  - x.shape[-1] * np.log(variance))


# book/beyond/climbs.ipynb, cell climbs-23
def draw_scores(parameters, X, y, n_draws=200, rng=0):
    """Draws of Theta from q, and the log likelihood of every row under each.
    [eq-climb-khat]   X (N,d), y (N,) -> Theta with leading axis S, (S,N) nats"""
    theta = sample_parameters(parameters, np.random.default_rng(rng), n_draws)
    chain = PosteriorDraws(Theta(*(x[None] for x in theta)), np.zeros((1, n_draws)))
    many = 256 if chain.shapes.rank > 2 else None
    nodes = latent_nodes(chain.shapes, many, rng=0)
    rows = [log_p[np.arange(len(y)), y] for log_p in draw_log_probs(chain, X, nodes)]
    return theta, np.array(rows)


def tail_index(parameters, X, y, priors, n_draws=1000, rng=0):
    """Pareto tail index k of the weights p(y, Theta | X) / q(Theta).  [eq-climb-khat]

    Above 0.7 the draws of q cannot be reweighted to the posterior -> float
    """
    theta, rows = draw_scores(parameters, X, y, n_draws, rng)
    return float(smooth_tail(rows.sum(1) + log_ratio(parameters, theta, priors))[1])


# book/beyond/climbs.ipynb, cell climbs-26
def linear_response(bound, moments, at, flat=1e-9):
    """Covariances of functions of Theta from how q answers a push.
    [eq-climb-response]

    bound(v) a number, moments(v) (m,) their means under q, both differentiable by
    autograd in the free numbers v (P,) of q; at: the v where bound is largest
    -> (m,m).  Directions whose curvature is below flat times the largest are left
    out.  ValueError where the bound curves upwards, or a flat direction moves moments.
    """
    curve = -hessian(bound)(at)
    values, vectors = np.linalg.eigh(0.5 * (curve + curve.T))
    push, none = jacobian(moments)(at) @ vectors, values < flat * values[-1]
    moved = np.abs(push[:, none]).max(initial=0.0) > 1e-4 * np.abs(push).max()
    if values[0] < -flat * values[-1] or moved:
        raise ValueError("at: expected a maximum of the bound that holds the moments, "
                         f"got curvatures from {values[0]:.1e} to {values[-1]:.1e}")
    return (push[:, ~none] / values[~none]) @ push[:, ~none].T
