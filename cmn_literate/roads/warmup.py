# Tangled from book/roads/warmup.ipynb by tools/tangle.py; edit the notebook, not this file.
"""The warm-up: a step and a mass that learn

A Hamiltonian sampler can find its own step size and its own units while it warms up, from the
acceptance it meets and from the spread of its first draws. What it has learnt cannot bias a draw,
provided that the learning stops before the draws are kept.
"""

__all__ = ["StepSize", "start_step", "adapt_step", "find_step", "Moments", "observe",
           "regularised_variance", "windows"]


# book/roads/warmup.ipynb, cell warmup-07
from typing import NamedTuple

import numpy as np

from cmn_literate.roads.hmc import draw_momentum, hamiltonian, leapfrog


# book/roads/warmup.ipynb, cell warmup-08
class StepSize(NamedTuple):
    """Dual averaging of ln(step).  [eq-nuts-dual, eq-nuts-dual-mean]

    log_step to use now, log_mean to keep, error: mean of target - accept,
    count of transitions, centre mu
    """
    log_step: float
    log_mean: float
    error: float
    count: int
    centre: float


def start_step(step):
    """A StepSize that has seen nothing yet.  [eq-nuts-dual]"""
    log_step = float(np.log(step))
    return StepSize(log_step, log_step, 0.0, 0, log_step + float(np.log(10)))


def adapt_step(s, accept, target=0.8):
    """The StepSize after a transition with mean acceptance accept.
    [eq-nuts-dual, eq-nuts-dual-mean]"""
    count = s.count + 1
    error = s.error + (target - accept - s.error) / (count + 10)
    log_step = s.centre - count**0.5 / 0.05 * error
    weight = count**-0.75
    log_mean = weight * log_step + (1 - weight) * s.log_mean
    return StepSize(log_step, log_mean, error, count, s.centre)


# book/roads/warmup.ipynb, cell warmup-13
def find_step(value_and_grad, point, inv_mass, rng, step=1.0):
    """A step of the right order: twice or half as long crosses acceptance 0.8.
    [eq-nuts-first-step]   point: where the chain is -> float"""
    p = draw_momentum(inv_mass, point.q.shape, rng)
    energy = hamiltonian(point.value, p, inv_mass)

    def good(step):
        _, end, value, _ = leapfrog(
            value_and_grad, point.q, p, point.grad, step, inv_mass)
        return bool(energy - hamiltonian(value, end, inv_mass) > np.log(0.8))

    with np.errstate(over="ignore", invalid="ignore"):
        longer = good(step)
        while good(step) == longer and 1e-10 < step < 1e10:
            step = step * (2.0 if longer else 0.5)
    return float(step)


# book/roads/warmup.ipynb, cell warmup-16
class Moments(NamedTuple):
    """Running count, mean (P,) and sum of squared deviations (P,).
    [eq-nuts-welford]"""
    count: int
    mean: np.ndarray
    square: np.ndarray


def observe(moments, q):
    """Moments with one more draw.  [eq-nuts-welford]"""
    shift, count = q - moments.mean, moments.count + 1
    mean = moments.mean + shift / count
    return Moments(count, mean, moments.square + shift * (q - mean))


def regularised_variance(moments):
    """Sample variance, pulled towards 0.001.  [eq-nuts-variance]   -> (P,)"""
    n = moments.count
    return (n * moments.square / max(n - 1, 1) + 5e-3) / (n + 5)


# book/roads/warmup.ipynb, cell warmup-18
def windows(n_warmup):
    """Edges of the windows in which variances are collected, as counts of
    transitions; none for a warm-up below 20.  [eq-nuts-windows]   -> tuple"""
    if n_warmup < 20:
        return ()
    first, last, width = 75, 50, 25
    if first + width + last > n_warmup:
        first, last = int(0.15 * n_warmup), int(0.1 * n_warmup)
        width = n_warmup - first - last
    edges, stop = [first, first + width], n_warmup - last
    while edges[-1] < stop:
        width *= 2
        end = edges[-1] + width
        edges.append(end if end + 2 * width <= stop else stop)
    return tuple(edges)
