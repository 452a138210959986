# Tangled from book/roads/bbvi.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Black-box variational inference: climbing with noise

The bound can be climbed without one closed-form update, with nothing but draws from $q$ and values
or slopes of log densities at the draws. What it costs is variance. Three devices buy variance
back, and the best of them sends the slope through the draw.
"""

__all__ = ["score_products", "control_variate", "bound_at_draws", "bound_and_grad", "BBVIFit",
           "bbvi_work", "fit_bbvi", "Factors", "BBVI", "augmentation_gap"]


# book/roads/bbvi.ipynb, cell bbvi-02
from dataclasses import dataclass
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np
from autograd import value_and_grad
from scipy.special import digamma, gammaln

from cmn_literate.road_checks import check_climb_options, check_start_state
from cmn_literate.checks import (
    check_choice, check_count, check_rng, check_state, check_weighted_problem)
from cmn_literate.engineering.elbo_gradients import (
    best_tilts, bound_slopes, row_mass, soft_counts, unpack_factor)
from cmn_literate.engineering.gamma_draws import draw_noise, gamma_slope
from cmn_literate.engineering.packed import lower_triangle
from cmn_literate.engineering.runs import drive, pack_factors, predict_factors
from cmn_literate.engineering.starts import complete_start
from cmn_literate.engineering.sums import make_rows
from cmn_literate.learners import Learner, learner_options
from cmn_literate.network.elbo import global_kl
from cmn_literate.network.latents import Parameters, State, responsibilities
from cmn_literate.network.simulate import Priors
from cmn_literate.roads.optimizers import climb_work
from cmn_literate.roads.particles import (
    Free, coin_cost, free_of, free_shapes, log_scale, log_terms, pack_free, particles,
    state_of, unpack_free)
from cmn_literate.special import logsumexp
from cmn_literate.storage import generator_state


# book/roads/bbvi.ipynb, cell bbvi-11
def _gaussian_scores(packed, eps, m):
    """Scores of N(mu, CC^T) draws in mu and packed C.  [eq-bb-score-gaussian]

    packed (l,T), eps (S,l,...,m) -> (S,l,...,m), (S,l,...,T)
    """
    i, j = lower_triangle(m)[:2]
    C = unpack_factor(packed, m)
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


# book/roads/bbvi.ipynb, cell bbvi-12
def _block_values(f, theta, x1, noise, rows, priors, gamma, tilts):
    """f_B of beta1 (S,J), beta0 (S,K-1), experts (S,K,h) and x1 (S,K,N); all of f
    (S,); v (S,K,N).  [eq-bb-blanket, eq-bb-softmax]"""
    log_gamma = np.log(np.maximum(gamma, 1e-300))
    coins, gate, t = log_terms(theta, x1, rows, tilts)
    log_q = -0.5 * (noise.x1**2 + np.log(2 * np.pi)).sum(1) - log_scale(f.x_C)
    local = coins.sum(1) + t.sum(1) - log_q
    v = local + gate.sum(1) - log_gamma
    gaussian = _gaussian_ratio
    ratios = (gaussian(theta.beta1, noise.beta1, f.beta1_C, priors.sigma1),
              gaussian(theta.beta0, noise.beta0, f.beta0_C, priors.sigma0),
              _expert_ratio(f, theta, noise, priors))
    gamma = row_mass(rows, gamma)
    total = (gamma * v).sum((1, 2))
    total = total + sum(r.reshape(len(r), -1).sum(1) for r in ratios)
    blocks = ((gamma * coins).sum((2, 3)) + ratios[0],
              (gamma * gate).sum((2, 3)) + ratios[1],
              (gamma * t).sum(3).transpose(0, 2, 1) + ratios[2], gamma * local)
    return blocks, total, v


# book/roads/bbvi.ipynb, cell bbvi-13
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


# book/roads/bbvi.ipynb, cell bbvi-14
def score_products(free, noise, rows, priors, tilts=(None, None), blanket=True):
    """Score-function gradient, particle by particle.
    [eq-bb-score, eq-bb-blanket, eq-bb-softmax]

    rows of make_rows; tilts of best_tilts for the augmented bound
    blanket=False: every score times all of f, nothing left out
    -> f_B times score (S,P), of which the mean is the gradient, and the scores
       (S,P), 0 for the logits; P as in pack_free
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
    products = Free(s.beta1_mu * last(beta1), s.beta1_C * last(beta1),
                    s.beta0_mu * last(beta0), s.beta0_C * last(beta0),
                    s.M * last(experts), (s.V_C * last(experts)).sum(2),
                    (s.log_a * experts).sum(2), s.log_b * experts,
                    row_mass(rows, gamma) * (v - (gamma * v).sum(1, keepdims=True)),
                    s.mu * local[:, None], s.x_C * local[:, None])
    scores = s._replace(V_C=s.V_C.sum(2), log_a=s.log_a.sum(2), logits=0 * products.logits)
    return tuple(np.concatenate([v.reshape(S, -1) for v in part], 1)
                 for part in (products, scores))


# book/roads/bbvi.ipynb, cell bbvi-15
def control_variate(products, scores):
    """products - w scores, w of each coordinate from the other particles.
    [eq-bb-control]   products, scores (S,P), S >= 2 -> (S,P), the same mean"""
    top, bottom = products * scores, scores * scores
    top, bottom = top.sum(0) - top, bottom.sum(0) - bottom
    return products - scores * top / np.where(bottom > 0, bottom, 1.0)


# book/roads/bbvi.ipynb, cell bbvi-22
def bound_at_draws(free, noise, rows, priors, tilts=(None, None)):
    """Estimate of a bound from given noise, nats; differentiable.
    [eq-bb-bound, eq-bb-coin]

    free Free, noise Noise, rows of make_rows; tilts of best_tilts: augmented bound
    """
    f, h = free, len(free.mu)
    log_gamma = f.logits - logsumexp(f.logits, 0)
    sampled = sum(anp.sum(t, 1) for t in log_terms(*particles(f, noise), rows, tilts))
    entropy = log_scale(f.x_C) + 0.5 * h * (1 + np.log(2 * np.pi))
    v = anp.mean(sampled, 0) + entropy - log_gamma
    factors = state_of(f, anp.transpose(rows.XtT[:-1]))
    divergence = sum(global_kl(factors.parameters, priors).values())
    return anp.sum(row_mass(rows, anp.exp(log_gamma)) * v) - divergence


# book/roads/bbvi.ipynb, cell bbvi-23
def bound_and_grad(free, noise, rows, priors, objective="elbo", gradient="fast",
                   term=None):
    """Unbiased estimates of a bound and of its gradient, through the draws.
    [eq-bb-bound, eq-bb-path, eq-bb-softmax, eq-bb-envelope]

    free Free, noise of draw_noise, rows of make_rows
    objective  "elbo", or "augmented" with every tilt at its best
    gradient   "fast", by hand, or "autograd", of bound_at_draws
    term       see bound_slopes; gradient "fast" only
    -> float (nats), Free of slopes
    """
    check_choice(objective, "objective", ("elbo", "augmented"), '"')
    check_choice(gradient, "gradient", ("fast", "autograd") if term is None else ("fast",))
    tilts = best_tilts(free, rows) if objective == "augmented" else (None, None)
    if gradient == "fast":
        moves = gamma_slope(np.exp(free.log_a)[:, None], noise.g)
        return bound_slopes(free, noise, moves, rows, priors, tilts, term)
    (K, h, D), (J, N) = free.M.shape, rows.kappa.shape
    back = lambda vector: unpack_free(vector, (K, h, J + 1, D - 1), N)
    value, slopes = value_and_grad(lambda vector: bound_at_draws(
        back(vector), noise, rows, priors, tilts))(pack_free(free))
    return value, back(slopes)


# book/roads/bbvi.ipynb, cell bbvi-34
@dataclass(frozen=True)
class BBVIFit:
    """Result of fit_bbvi.  [eq-bb-stop]

    parameters  the global factors, as predict wants them
    state       all factors, tilts at their best: elbo(state, X, y, priors) is the
                augmented bound, augmentation_gap how far the other lies above
    elbo (n_steps,)  noisy estimates of the objective, one per step (nats)
    n_steps, converged, reason ("steps", "interrupted" or "not finite"), objective,
    n_classes, priors
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


# book/roads/bbvi.ipynb, cell bbvi-35
def bbvi_work(X, y, n_experts=10, latent_dim=None, n_classes=None,
              priors=Priors(),  # noqa: B008  Priors are frozen
              objective="elbo", n_particles=8, n_steps=20_000, lr=5e-3, rng=0,
              init="class-code", start=None, tol=1e-3, every=1000, gradient="fast",
              sample_weight=None, term=None):
    """fit_bbvi as a Work, which finishes as a BBVIFit; its arguments, and a further
    log density of A and tau, see bound_slopes.
    [eq-bb-path, eq-bb-stop, eq-opt-belief]"""
    X, y, weight, sizes = check_weighted_problem(
        X, y, sample_weight, n_experts, latent_dim, n_classes)
    shapes = (*sizes, X.shape[1])
    rng = check_climb_options(
        priors, Priors, objective, init, n_particles, tol, gradient, rng)
    N, rows = len(X), make_rows(X, y, shapes[2], weight=weight)
    origin = generator_state(rng)
    if start is None:
        start = complete_start(X, y, *shapes[:3], priors, rng, init, weight=weight)
    start = check_start_state(start, State, free_of, free_shapes(shapes, N))

    def estimate(vector, rng):
        free = unpack_free(vector, shapes, N)
        noise = draw_noise(free, n_particles, rng)
        value, slopes = bound_and_grad(
            free, noise, rows, priors, objective, gradient, term)
        return value, pack_free(slopes)

    work = climb_work(
        estimate, pack_free(start), n_steps, rng, every, lr=lr, origin=origin,
        problem=("bbvi", X, y, shapes, priors, objective, n_particles, gradient,
                 *(part for part in (weight, term) if part is not None)))

    def finish(run):
        end = work.finish(run)
        state = state_of(unpack_free(end.x, shapes, N), X)
        allowed = tol * (N if weight is None else weight.sum())
        converged = end.reason == "steps" and _settled(end.trace, allowed)
        return BBVIFit(state.parameters, state, end.trace, end.n_steps, converged,
                       end.reason, objective, shapes[2], priors)

    return work._replace(finish=finish)


def fit_bbvi(X, y, n_experts=10, latent_dim=None, n_classes=None,
             priors=Priors(),  # noqa: B008  Priors are frozen
             objective="elbo", n_particles=8, n_steps=20_000, lr=5e-3, rng=0,
             init="class-code", start=None, tol=1e-3, callback=None,
             checkpoint=None, checkpoint_every=1000, gradient="fast",
             sample_weight=None):
    """Black-box variational inference for the conditional mixture network.
    [eq-bb-path, eq-bb-stop, eq-opt-belief]

    X (N,d) finite, y (N,) in 0..L-1   standardise X first: the priors have a scale
    n_experts, latent_dim (L-1), n_classes (largest label + 1), priors
    objective   "elbo" or "augmented", see bound_and_grad
    gradient    "fast" or "autograd", the same to rounding
    n_particles, n_steps, lr   draws per step, steps and rate of AdaBelief
    rng, init   as in cavi.fit: equal seeds start at equal states
    start       a State of these rows to start from instead; tol of eq-bb-stop
    callback, checkpoint, checkpoint_every   as in maximize
    sample_weight (N,) >= 0: how often each row counts; 2 is the row twice
    -> BBVIFit.  Ctrl-C ends it after the last whole step, with a RuntimeWarning.
    ValueError names a bad argument.
    """
    work = bbvi_work(X, y, n_experts, latent_dim, n_classes, priors, objective,
                     n_particles, n_steps, lr, rng, init, start, tol, checkpoint_every,
                     gradient, sample_weight)
    return work.finish(drive(work, callback, checkpoint))


# book/roads/bbvi.ipynb, cell bbvi-37
class Factors(NamedTuple):
    """Factors of q, as the estimator keeps them.  [eq-bb-bound]

    parameters Parameters; elbo (n_steps,) bound per step; converged
    """
    parameters: Parameters
    elbo: np.ndarray
    converged: bool

    @property
    def n_sweeps(self):
        """Steps taken."""
        return len(self.elbo)


def _begin(Z, y, n_classes, settings, rng, weight=None, term=None):
    s, options = settings, learner_options(settings)
    del options["checkpoint"]
    work = bbvi_work(Z, y, s.n_experts, s.latent_dim, n_classes, priors=s.priors,
                     rng=rng, sample_weight=weight, term=term, **options)

    def finish(run):
        end = work.finish(run)
        return Factors(end.parameters, end.elbo, end.converged)

    return work._replace(finish=finish)


# book/roads/bbvi.ipynb, cell bbvi-38
def _unpack(arrays, settings):
    return Factors(Parameters(*(arrays[name] for name in Parameters._fields)),
                   arrays["elbo"], bool(arrays["converged"]))


BBVI = Learner(
    _begin, predict_factors, pack_factors, _unpack,
    options={"objective": "elbo", "n_particles": 8, "n_steps": 20_000, "lr": 5e-3,
             "checkpoint": None},
    steps=lambda settings: learner_options(settings)["n_steps"],
    objective="ELBO", step="step", advice="raise n_steps in method_options",
    weights="any")


# book/roads/bbvi.ipynb, cell bbvi-39
def augmentation_gap(state, X, y, n_draws=400, rng=0):
    """How far the un-augmented bound lies above the augmented one with its best
    tilts, at this q.  [eq-bb-gap]

    state State, X (N,d) unpadded, y (N,), rng int or Generator
    -> estimate, its standard error (nats)
    """
    (X, y), f, rng = check_state(state, X, y), free_of(state), check_rng(rng)
    rows, h = make_rows(X, y, len(f.beta1_mu) + 1), len(f.mu)
    gamma, tilts = responsibilities(f.logits, 0)[0], best_tilts(f, rows)
    weights = gamma * rows.b[:, None], soft_counts(gamma)[0]
    gaps = []
    for _ in range(check_count(n_draws, "n_draws", least=2)):
        theta, x1 = particles(f, draw_noise(f, 1, rng))
        flat = x1[0].reshape(h, -1)
        psi1 = theta.beta1[0][:, :h] @ flat + theta.beta1[0][:, h:]
        logits = psi1.reshape(-1, *gamma.shape), theta.beta0[0] @ rows.XtT
        gaps.append(sum((w * (coin_cost(psi, tilt) - coin_cost(psi))).sum()
                        for w, psi, tilt in zip(weights, logits, tilts)))
    return float(np.mean(gaps)), float(np.std(gaps, ddof=1) / n_draws**0.5)
