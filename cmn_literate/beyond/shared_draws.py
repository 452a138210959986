# Tangled from book/beyond/shared_draws.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Shared means, drawn

Every other method gets the extended model by one more log density or one more draw, both in closed
form. The two samplers agree with each other, and they find $q(A_0)$ far too narrow: it counts
every expert as an observation of $A_0$, even one that has seen no row.
"""

__all__ = ["shared_gain", "SharedPrior", "draw_shared", "SharedState", "keep_axes",
           "draw_common_axes", "shared_log_joint", "shared_sweep", "shared_start", "shared_model",
           "with_shared_mean", "shared_term", "shared_chains"]


# book/beyond/shared_draws.ipynb, cell shared_draws-02
from copy import copy
from functools import partial
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np
from scipy.stats import geninvgauss

from cmn_literate.beyond.shared_means import Above, model_of, shared_update
from cmn_literate.learners import find_learner
from cmn_literate.network.simulate import Theta
from cmn_literate.roads.gibbs import (
    GibbsModel, complete_log_joint, draw_gaussian, gibbs_sweep, start_state)


# book/beyond/shared_draws.ipynb, cell shared_draws-09
def shared_gain(theta, v0, v00):
    """What A_0, integrated out, adds to the log prior of A and tau, nats.

    [eq-draws-marginal]   theta Theta, leading axes (...) allowed; v0 > 0, v00 >= 0
    -> (...); differentiable
    """
    tau, A = theta.tau, theta.A
    mean, _ = shared_update(tau, A, v0, v00)
    pull = anp.sum(tau[..., None] * A, -3) / v0
    tax = A.shape[-1] * anp.log(1 + v00 * anp.sum(tau, -2) / v0)
    return 0.5 * anp.sum(anp.sum(mean * pull, -1) - tax, -1)


# book/beyond/shared_draws.ipynb, cell shared_draws-11
class SharedPrior(NamedTuple):
    """shared_gain with its slopes, a term of add_term.  [eq-draws-slopes]

    v0 > 0, v00 >= 0.  Called with a Theta, leading axes (...) allowed
    -> nats (...), Theta of slopes, 0.0 for beta1 and beta0
    """
    v0: float
    v00: float

    def __call__(self, theta):
        (v0, v00), A, tau = self, theta.A, theta.tau
        mean, var = shared_update(tau, A, v0, v00)
        m, var = mean[..., None, :, :], var[..., None, :]
        A_bar = tau[..., None] * m / v0
        tau_bar = np.sum(m * A - 0.5 * m**2, -1) - 0.5 * A.shape[-1] * var
        return shared_gain(theta, v0, v00), Theta(0.0, 0.0, A_bar, tau_bar / v0)


# book/beyond/shared_draws.ipynb, cell shared_draws-15
def draw_shared(theta, v0, v00, rng):
    """A_0 given the experts.  [eq-draws-mean]

    theta Theta, leading axes (...) of draws allowed; v0, v00 > 0, rng Generator
    -> (...,h,D)
    """
    mean, var = shared_update(theta.tau, theta.A, v0, v00)
    return mean + np.sqrt(var)[..., None] * rng.normal(size=mean.shape)


# book/beyond/shared_draws.ipynb, cell shared_draws-17
class SharedState(NamedTuple):
    """GibbsState and A_0.  [eq-draws-joint]

    theta Theta, z (N,), x1 (N,h), omega1 (N,L-1), omega0 (N,K-1);  A0 (h,D)
    """
    theta: Theta
    z: np.ndarray
    x1: np.ndarray
    omega1: np.ndarray
    omega0: np.ndarray
    A0: np.ndarray


def keep_axes(theta, x1, priors, rng):
    """In the place of draw_axes where they are drawn later.  [eq-draws-scale]"""
    return theta, x1


def draw_common_axes(theta, x1, A0, priors, v00, rng):
    """draw_axes with A_0 going along.  [eq-draws-scale, eq-draws-shift]

    theta Theta, x1 (N,h), A0 (h,D), v00 > 0 -> theta, x1, A0
    """
    (beta1, beta0, A, tau), (K, h, D) = theta, theta.A.shape
    W, bias = beta1[:, :h], beta1[:, h]
    C = priors.b0 * tau.sum(0) + (W**2).sum(0) / (2 * priors.sigma1**2)
    wall = (A0**2).sum(1) / (2 * v00)
    p = K * priors.a0 + (len(W) - D) / 2
    u = np.array([geninvgauss.rvs(p, 2 * (rate * w)**0.5, scale=(w / rate)**0.5,
                                  random_state=rng) for rate, w in zip(C, wall)])
    s = np.where(rng.random(h) < 0.5, -1.0, 1.0) / np.sqrt(u)
    W, A, tau, x1, A0 = W / s, A * s[:, None], tau / s**2, x1 * s, A0 * s[:, None]
    S = np.linalg.inv(W.T @ W / priors.sigma1**2 + np.eye(h) / v00)
    pull = bias @ W / priors.sigma1**2 - A0[:, -1] / v00
    c = draw_gaussian(S @ pull, S, rng)
    A[:, :, -1] += c
    A0[:, -1] += c
    return Theta(np.column_stack([W, bias - W @ c]), beta0, A, tau), x1 + c, A0


def shared_log_joint(state, X, y, priors, v00):
    """ln p(phi, A_0, z, x1, y | X), nats.  [eq-draws-joint, eq-gibbs-joint]

    state SharedState, X (N,d), y (N,), v00 > 0 -> float
    """
    A0 = state.A0
    own = -0.5 * (A0**2).sum() / v00 - 0.5 * A0.size * np.log(2 * np.pi * v00)
    return complete_log_joint(state, X, y, priors, A0) + float(own)


# book/beyond/shared_draws.ipynb, cell shared_draws-18
def shared_sweep(state, X, y, priors, rng, v00):
    """Draw everything once, A_0 included.  [eq-draws-mean, eq-gibbs-sweep]

    state SharedState, X (N,d) unpadded, y (N,), rng Generator, v00 > 0
    -> SharedState
    """
    s = gibbs_sweep(state, X, y, priors, rng, state.A0, keep_axes)
    A0 = draw_shared(s.theta, priors.v0, v00, rng)
    theta, x1, A0 = draw_common_axes(s.theta, s.x1, A0, priors, v00, rng)
    return SharedState(theta, s.z, x1, s.omega1, s.omega0, A0)


# book/beyond/shared_draws.ipynb, cell shared_draws-19
def shared_start(X, y, sizes, priors, rng, init="prior", *, v00):
    """start_state, and A_0 given its experts.  [eq-draws-mean, eq-gibbs-start]"""
    s = start_state(X, y, sizes, priors, rng, init)
    return SharedState(*s, draw_shared(s.theta, priors.v0, v00, rng))


def shared_model(v00):
    """What gibbs_work needs to draw A_0 too; draws are in stats["A0"].
    [eq-draws-joint]   v00 > 0 -> GibbsModel"""
    parts = (shared_start, shared_sweep, shared_log_joint)
    return GibbsModel(*(partial(part, v00=v00) for part in parts), SharedState,
                      ("shared", float(v00)))


# book/beyond/shared_draws.ipynb, cell shared_draws-24
def with_shared_mean(method, hook, **further):
    """The learner of a method for the extended model.  [eq-draws-joint]

    method: a name of LEARNERS; hook(priors, above) -> what its begin is given more;
    further: options of model_of, with their defaults
    -> Learner with the options v00, scaled and further; with nothing above the
    priors it is the method
    """
    base, own_options = find_learner(method), {"v00": 10.0, "scaled": True, **further}

    def begin(Z, y, n_classes, settings, rng, weight=None):
        own, (priors, above) = copy(settings), model_of(settings, Z.shape[1] + 1)
        rest = {name: value for name, value in (settings.method_options or {}).items()
                if name not in own_options}
        own.method, own.method_options, own.priors = method, rest, priors
        more = hook(priors, above) if above != Above() else {}
        return base.begin(Z, y, n_classes, own, rng, weight, **more)

    return base._replace(begin=begin, options={**base.options, **own_options})


# book/beyond/shared_draws.ipynb, cell shared_draws-25
def shared_term(priors, above):
    """What "map", "bbvi" and "nuts" are given more.  [eq-draws-marginal]"""
    return {"term": SharedPrior(priors.v0, above.v00)}


def shared_chains(priors, above):
    """What "gibbs" is given more.  [eq-draws-joint]"""
    return {"model": shared_model(above.v00)}
