# Tangled from book/beyond/climbs.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Climbs: where the ascent ends, and what to make of several ends

On a pinwheel a climb lets go of experts wherever it starts, because the bound charges for each one
in use. There few experts are not enough, and the ends with the highest bounds forecast worst.
Where few are enough, every way to fewer experts helps: tempering, merging, a start with few
regions. Merging, and a plain average of four ends, gain most in the mean over six data sets; the
average is nowhere far behind.
"""

__all__ = ["near", "tempered", "merge_experts", "climb_by_merging", "split_expert",
           "climb_by_births", "damped", "bound_weights", "average_forecasts", "stacking_weights",
           "log_ratio", "draw_scores", "tail_index", "linear_response"]


# book/beyond/climbs.ipynb, cell climbs-02
from itertools import combinations

import numpy as np
from autograd import hessian, jacobian
from scipy.special import gammaln, logsumexp

from cmn_literate.checks import (
    check_count, check_kind, check_number, check_positive, check_rng, real_array)
from cmn_literate.beyond.streaming import natural_step
from cmn_literate.engineering.fit import Fit
from cmn_literate.engineering.nodes import latent_nodes
from cmn_literate.engineering.starts import hyperplane_labels
from cmn_literate.engineering.streams import gather, prior_sums, rebase
from cmn_literate.engineering.sums import (
    block_sweep, expected_log_joint, make_blocks, prepare)
from cmn_literate.network.cavi import local_factors
from cmn_literate.network.elbo import global_kl
from cmn_literate.network.experts import expert_update
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
    _check_pair(i, j, len(p.M))
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
    gamma[:, j] = 0.0
    gate = _learned_gate(p, X, gamma, priors, rounds)
    return Parameters(p.beta1_mu, p.beta1_S, *gate, *experts), gamma


def _check_pair(i, j, K):
    """ValueError unless i and j are two of K experts."""
    if i == j or not {i, j} <= set(range(K)):
        raise ValueError(f"i, j: expected two of the experts 0 to {K - 1}, got "
                         f"{i!r} and {j!r}")


def _learned_gate(p, X, gamma, priors, rounds):
    """The gate after so many rounds with these responsibilities.  [eq-gate-mu]"""
    gate = p.beta0_mu, p.beta0_S
    for _ in range(rounds):
        gate = gate_update(X, gamma, gate_tilt(X, *gate), priors)
    return gate


# book/beyond/climbs.ipynb, cell climbs-14
def climb_by_merging(X, y, fitted, sweeps=50, look=3, rounds=10):
    """Merge pairs of experts as long as the bound rises.  [eq-climb-accept]

    X (N,d), y (N,), fitted Fit of these rows; of all pairs of experts in use the one
    whose bound is best after `look` sweeps goes on for `sweeps`, and is kept if its
    bound is above that of as many more sweeps without it
    -> Parameters, bound (nats), list of accepted pairs.  ValueError names the argument.
    """
    def pairs(p, local):
        used = np.flatnonzero(local.gamma.sum(0) >= 1)
        return {pair: merge_experts(p, X, local.gamma, *pair, fitted.priors)[0]
                for pair in combinations(used.tolist(), 2)}

    return _climb_by(pairs, X, y, fitted, sweeps, look, rounds)


def _climb_by(moves, X, y, fitted, sweeps, look, rounds):
    """Moves as long as the bound rises; moves(Parameters, Local) are those that may be
    tried, {name: Parameters}.  [eq-climb-accept]   -> as climb_by_merging"""
    check_kind(fitted, "fitted", Fit)
    check_count(sweeps, "sweeps"), check_count(look, "look")
    K, h, _ = fitted.parameters.M.shape
    fresh = make_blocks(X, y, K, h, fitted.n_classes, fitted.shared)
    climb = lambda p, n: _climb(fresh, p, fitted.priors, n)
    p, bound = climb(fitted.parameters, sweeps)
    taken = []
    for _ in range(rounds):
        tried = moves(p, local_factors(p, X, y, fitted.shared, rounds=20).local)
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
def split_expert(parameters, X, local, i, j, first, priors, rounds=3):
    """Expert j takes those rows of expert i that `first` marks.  [eq-climb-birth]

    X (N,d), local Local of these rows, i != j in 0..K-1, first (N,) true or false; the
    gate learns the new responsibilities in so many rounds
    -> Parameters, new responsibilities (N,K).  ValueError names the argument.
    """
    p, gamma, first = parameters, np.array(local.gamma), np.asarray(first)
    _check_pair(i, j, len(p.M))
    if first.dtype != bool or first.shape != (len(X),):
        raise ValueError(f"first: expected true or false for each of {len(X)} rows, got "
                         f"{first.dtype} of shape {first.shape}")
    gamma[first, j] += gamma[first, i]
    gamma[first, i] = 0.0
    two = expert_update(X, gamma[:, [i, j]], local.mu[:, [i, i]], local.Sigma[:, [i, i]],
                        priors)
    experts = [np.copy(field) for field in (p.M, p.V, p.a, p.b)]
    for field, fresh in zip(experts, two):
        field[[i, j]] = fresh
    gate = _learned_gate(p, X, gamma, priors, rounds)
    return Parameters(p.beta1_mu, p.beta1_S, *gate, *experts), gamma


def climb_by_births(X, y, fitted, sweeps=50, look=3, rounds=10, cuts=3, rng=0):
    """Split experts into idle ones as long as the bound rises.
    [eq-climb-birth, eq-climb-accept]

    arguments as in climb_by_merging; every expert in use is cut so often at random, rng
    int or Generator -> Parameters, bound (nats), list of (expert, newcomer, cut)
    ValueError names the argument.
    """
    check_count(cuts, "cuts")
    rng = check_rng(rng)

    def births(p, local):
        rows, tried = local.gamma.sum(0), {}
        j, owner = int(rows.argmin()), local.gamma.argmax(1)
        for i in np.flatnonzero(rows >= 1).tolist() if rows[j] < 1 else ():
            own = np.flatnonzero(owner == i)
            for cut in range(cuts if len(own) > 1 else 0):
                first = np.zeros(len(X), bool)
                first[own] = hyperplane_labels(X[own], 2, rng) == 0
                tried[i, j, cut] = split_expert(
                    p, X, local, i, j, first, fitted.priors)[0]
        return tried

    return _climb_by(births, X, y, fitted, sweeps, look, rounds)


# book/beyond/climbs.ipynb, cell climbs-21
def damped(blocks, parameters, priors, rho=0.5, inner=1):
    """A sweep whose M-step goes the share rho of its way.
    [eq-climb-damp, eq-climb-damp-rise]

    arguments as in block_sweep, 0 < rho <= 1; rho=1 is block_sweep
    -> renewed blocks, Parameters, bound after the step (nats), which is no lower
    ValueError names the argument.
    """
    check_number(rho, "rho", "a number above 0 and at most 1", lambda v: 0 < v <= 1)
    check_count(inner, "inner")
    if rho == 1:
        return block_sweep(blocks, parameters, priors, inner)
    p = parameters
    blocks, share = gather(blocks, p, inner)
    after = natural_step(p, prior_sums(priors, p), share, rho)
    rows = expected_log_joint(rebase(share, after.M - p.M), prepare(after))
    return blocks, after, share.bound + rows - sum(global_kl(after, priors).values())


# book/beyond/climbs.ipynb, cell climbs-24
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


# book/beyond/climbs.ipynb, cell climbs-25
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


# book/beyond/climbs.ipynb, cell climbs-28
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


# book/beyond/climbs.ipynb, cell climbs-29
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


# book/beyond/climbs.ipynb, cell climbs-32
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
