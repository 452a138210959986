# Tangled from book/beyond/learned_draws.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Learned scales and centred sticks, drawn

Centred sticks are one more linear term, and learned scales can be drawn or integrated out: in
closed form or, for experts that share a mean, by a sum over one number that is right to ten
digits. Thirty rows then say next to nothing about a scale, while coordinate ascent looks as if it
had learned it: its factor counts every coefficient as an observation of the scale, even one that
no row has touched.
"""

__all__ = ["coefficient_gain", "ScaleRule", "scale_rule", "expert_gain", "LearnedPrior", "misfits",
           "draw_scales", "LearnedState", "priors_at", "draw_centred_axes", "learned_log_joint",
           "learned_sweep", "learned_start", "learned_model", "learned_term", "learned_chains",
           "LEARNED_MAP", "LEARNED_BBVI", "LEARNED_NUTS", "LEARNED_GIBBS"]


# book/beyond/learned_draws.ipynb, cell learned_draws-02
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from cmn_literate.beyond.shared_draws import (
    draw_common_axes, draw_shared, keep_axes, shared_chains, shared_log_joint, shared_term,
    with_shared_mean)
from cmn_literate.beyond.shared_means import Above, centres_of_sticks
from cmn_literate.network.simulate import Priors, Theta
from cmn_literate.roads.gibbs import (
    GibbsModel, complete_log_joint, draw_axes, gibbs_sweep, start_state)


# book/beyond/learned_draws.ipynb, cell learned_draws-07
def coefficient_gain(beta, sigma, centred, strength=None):
    """What the options add to the log prior of a block of sticks, nats, and its slope.
    [eq-learned-linear, eq-learned-student]

    beta (...,J,m); sigma > 0; centred, strength: of an Above -> (...), (...,J,m)
    """
    off = beta - centres_of_sticks(*beta.shape[-2:], centred)
    n, old = off.shape[-2] * off.shape[-1], 0.5 * np.sum(beta**2, (-2, -1)) / sigma**2
    Q = np.sum(off**2, (-2, -1)) / sigma**2
    if strength is None:
        return old - 0.5 * Q, (beta - off) / sigma**2
    c = strength + n / 2
    value = gammaln(c) - gammaln(strength) - 0.5 * n * np.log(strength)
    pull = (c / (strength + 0.5 * Q))[..., None, None]
    return value - c * np.log1p(0.5 * Q / strength) + old, (beta - pull * off) / sigma**2


# book/beyond/learned_draws.ipynb, cell learned_draws-10
class ScaleRule(NamedTuple):
    """Nodes over the scale of the experts.  [eq-learned-split, eq-learned-nodes]

    scale (...,nodes) lambda v0, weight (...,nodes) of sum 1, load (...,h,nodes) s,
    total (...) ln of the integral, with the constants of the Gamma prior, nats; middle (...,h,D) the weighted mean of the experts
    """
    scale: np.ndarray
    weight: np.ndarray
    total: np.ndarray
    load: np.ndarray
    middle: np.ndarray


def scale_rule(theta, v0, v00, strength, fall=36.0):
    """The law of lambda given A and tau, A_0 integrated out.  [eq-learned-nodes]

    theta Theta, leading axes (...) allowed; v0, strength > 0, v00 >= 0 -> ScaleRule
    """
    (K, h, D), t = theta.A.shape[-3:], theta.tau / v0
    T = t.sum(-2)
    middle = np.sum(t[..., None] * theta.A, -3) / T[..., None]
    size = T * np.sum(middle**2, -1)
    rest = np.sum((theta.A - middle[..., None, :, :])**2, -1)
    rate = strength + 0.5 * np.sum(t * rest, (-2, -1))
    most, least = strength + K * h * D / 2, strength + (K - 1) * h * D / 2
    first = np.log(least / (rate + 0.5 * size.sum(-1)))
    first = first - 0.5 * (fall + (fall**2 + 8 * fall * least)**0.5) / least
    last = np.log(most / rate) + (2 * fall / most)**0.5
    step, span = 0.6 / (4 + most)**0.5, np.max(last - first)
    count = int(span / step) + 2 if np.isfinite(span) else 1
    x = first[..., None] + step * np.arange(count)
    scale = np.exp(x)
    load = v00 * scale[..., None, :] * T[..., None]
    about = scale[..., None, :] * size[..., None] / (1 + load) + D * np.log1p(load)
    log_f = most * x - scale * rate[..., None] - 0.5 * about.sum(-2)
    top = log_f.max(-1)
    weight = np.exp(log_f - top[..., None])
    mass = weight.sum(-1)
    constant = strength * np.log(strength) - gammaln(strength) + np.log(step)
    return ScaleRule(scale, weight / mass[..., None], top + np.log(mass) + constant,
                     load, middle)


def expert_gain(theta, v0, v00, strength):
    """What a learned v0 and A_0 add to the log prior of A and tau, with its slopes.
    [eq-learned-gain, eq-learned-slopes]

    arguments as in scale_rule -> nats (...), slopes in A (...,K,h,D), tau (...,K,h)
    """
    rule, t = scale_rule(theta, v0, v00, strength), theta.tau / v0
    A, D, square = theta.A, theta.A.shape[-1], np.sum(theta.A**2, -1)
    lam = rule.scale * rule.weight
    share, middle = rule.load / (1 + rule.load), rule.middle[..., None, :, :]
    near, near2, blur = (np.sum(lam[..., None, :] * part, -1)[..., None, :] for part in
                         (share, share**2, v00 / (1 + rule.load)))
    lost = 1 - lam.sum(-1)[..., None, None]
    A_bar = t[..., None] * (lost[..., None] * A + near[..., None] * middle)
    tau_bar = 0.5 * lost * square + near * np.sum(middle * A, -1)
    tau_bar = tau_bar - 0.5 * near2 * np.sum(middle**2, -1) - 0.5 * D * blur
    return rule.total + 0.5 * np.sum(t * square, (-2, -1)), A_bar, tau_bar / v0


# book/beyond/learned_draws.ipynb, cell learned_draws-13
class LearnedPrior(NamedTuple):
    """All that stands above the priors, integrated out: a term of add_term.
    [eq-learned-linear, eq-learned-student, eq-learned-split]

    Called with a Theta, leading axes (...) allowed -> nats (...), Theta of slopes
    """
    priors: Priors
    above: Above

    def __call__(self, theta):
        p, a = self
        gains = [coefficient_gain(beta, sigma, a.centred, a.strength) for beta, sigma in
                 ((theta.beta1, p.sigma1), (theta.beta0, p.sigma0))]
        if a.strength is None:
            value, bar = shared_term(p, a)["term"](theta)
            experts = value, bar.A, bar.tau
        else:
            experts = expert_gain(theta, p.v0, a.v00, a.strength)
        (more1, beta1_bar), (more0, beta0_bar), (more, A_bar, tau_bar) = *gains, experts
        return more1 + more0 + more, Theta(beta1_bar, beta0_bar, A_bar, tau_bar)


# book/beyond/learned_draws.ipynb, cell learned_draws-16
def misfits(theta, A0, centred):
    """Q of experts, gate and output, and their numbers of entries.  [eq-learned-draws]

    theta Theta, A0 (h,D) -> (3,), (3,)
    """
    off = theta.A - A0
    found, counts = [np.sum(theta.tau * np.sum(off**2, -1))], [off.size]
    for beta in (theta.beta0, theta.beta1):
        found.append(np.sum((beta - centres_of_sticks(*beta.shape, centred))**2))
        counts.append(beta.size)
    return np.array(found), np.array(counts)


def draw_scales(theta, A0, priors, above, rng):
    """1/v0, 1/sigma0^2, 1/sigma1^2 given the coefficients.  [eq-learned-draws]

    theta Theta, A0 (h,D), priors Priors, above Above -> (3,)
    """
    variances = np.array([priors.v0, priors.sigma0**2, priors.sigma1**2])
    if above.strength is None:
        return 1 / variances
    Q, counts = misfits(theta, A0, above.centred)
    rate = above.strength * variances + Q / 2
    return np.maximum(rng.gamma(above.strength + counts / 2) / rate, 1e-100)


# book/beyond/learned_draws.ipynb, cell learned_draws-17
class LearnedState(NamedTuple):
    """GibbsState, A_0 and the scales.  [eq-learned-draws]

    theta Theta, z (N,), x1 (N,h), omega1 (N,L-1), omega0 (N,K-1);  A0 (h,D), zero
    without a shared mean;  scales (3,): 1/v0, 1/sigma0^2, 1/sigma1^2
    """
    theta: Theta
    z: np.ndarray
    x1: np.ndarray
    omega1: np.ndarray
    omega0: np.ndarray
    A0: np.ndarray
    scales: np.ndarray


def priors_at(scales, priors, above):
    """The Priors with these scales.  [eq-shared-in-force]   scales (3,) -> Priors"""
    if above.strength is None:
        return priors
    return priors(v0=1 / scales[0], sigma0=scales[1]**-0.5, sigma1=scales[2]**-0.5)


def draw_centred_axes(theta, x1, A0, priors, v00, mean, rng):
    """The axes anew, where beta1 has the prior mean (L-1,h+1).  [eq-learned-axes]

    theta Theta, x1 (N,h), A0 (h,D), v00 >= 0 -> theta, x1, A0
    """
    about = theta._replace(beta1=theta.beta1 - mean)
    if v00 > 0:
        about, x1, A0 = draw_common_axes(about, x1, A0, priors, v00, rng)
    else:
        about, x1 = draw_axes(about, x1, priors, rng)
    return about._replace(beta1=about.beta1 + mean), x1, A0


def learned_log_joint(state, X, y, priors, above):
    """ln p(phi, A_0, scales, z, x1, y | X), nats.  [eq-learned-draws, eq-draws-joint]

    state LearnedState, X (N,d), y (N,), above Above -> float
    """
    force, gamma = priors_at(state.scales, priors, above), 0.0
    if above.v00 > 0:
        total = shared_log_joint(state, X, y, force, above.v00)
    else:
        total = complete_log_joint(state, X, y, force)
    for beta, sigma in zip(state.theta[:2], (force.sigma1, force.sigma0)):
        total += float(coefficient_gain(beta, sigma, above.centred)[0])
    if above.strength is not None:
        c, lam = above.strength, state.scales
        rate = c * np.array([priors.v0, priors.sigma0**2, priors.sigma1**2])
        gamma = np.sum(c * np.log(rate) - gammaln(c) + (c - 1) * np.log(lam) - rate * lam)
    return total + float(gamma)


# book/beyond/learned_draws.ipynb, cell learned_draws-18
def learned_sweep(state, X, y, priors, rng, above):
    """Draw everything once, A_0 and the scales included.  [eq-learned-draws,
    eq-learned-axes, eq-gibbs-sweep]

    state LearnedState, X (N,d) unpadded, y (N,), rng Generator, above Above
    -> LearnedState
    """
    force = priors_at(state.scales, priors, above)
    means = [centres_of_sticks(*b.shape, above.centred) for b in state.theta[:2]]
    s = gibbs_sweep(state, X, y, force, rng, state.A0, keep_axes, means)
    A0 = state.A0
    if above.v00 > 0:
        A0 = draw_shared(s.theta, force.v0, above.v00, rng)
    theta, x1, A0 = draw_centred_axes(s.theta, s.x1, A0, force, above.v00, means[0], rng)
    scales = draw_scales(theta, A0, priors, above, rng)
    return LearnedState(theta, s.z, x1, s.omega1, s.omega0, A0, scales)


# book/beyond/learned_draws.ipynb, cell learned_draws-19
def learned_start(X, y, sizes, priors, rng, init="prior", *, above):
    """start_state, and A_0 and the scales given its Theta.  [eq-gibbs-start,
    eq-learned-draws]"""
    s = start_state(X, y, sizes, priors, rng, init)
    A0 = np.zeros(s.theta.A.shape[1:])
    if above.v00 > 0:
        A0 = draw_shared(s.theta, priors.v0, above.v00, rng)
    return LearnedState(*s, A0, draw_scales(s.theta, A0, priors, above, rng))


def learned_model(above):
    """What gibbs_work needs to draw A_0 and the scales; they are in stats["A0"] and
    stats["scales"].  [eq-learned-draws]   above Above -> GibbsModel"""
    parts = (learned_start, learned_sweep, learned_log_joint)
    return GibbsModel(*(partial(part, above=above) for part in parts), LearnedState,
                      ("learned", above.v00, above.centred, above.strength))


# book/beyond/learned_draws.ipynb, cell learned_draws-23
def _plain(above):
    return not above.centred and above.strength is None


def learned_term(priors, above):
    """What "map", "bbvi" and "nuts" are given more.  [eq-learned-student]"""
    return shared_term(priors, above) if _plain(above) else {"term": LearnedPrior(priors, above)}


def learned_chains(priors, above):
    """What "gibbs" is given more.  [eq-learned-draws]"""
    return shared_chains(priors, above) if _plain(above) else {"model": learned_model(above)}


_OPTIONS = {"centred": False, "strength": None}
LEARNED_MAP = with_shared_mean("map", learned_term, **_OPTIONS)
LEARNED_BBVI = with_shared_mean("bbvi", learned_term, **_OPTIONS)
LEARNED_NUTS = with_shared_mean("nuts", learned_term, **_OPTIONS)
LEARNED_GIBBS = with_shared_mean("gibbs", learned_chains, **_OPTIONS)
