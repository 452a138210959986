# Tangled from book/roads/optimizers.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Downhill with a memory: AdaBelief

AdaBelief divides the average gradient by the size of the *surprise*: how far the gradient lands
from that average. Steps are long where the gradient keeps its promise and short where it does not,
and multiplying the objective by a constant changes nothing.
"""

__all__ = ["AdaBeliefState", "adabelief_init", "adabelief_step", "OptimizeResult", "Climb",
           "RATES", "climb_work", "maximize"]


# book/roads/optimizers.ipynb, cell optimizers-02
import math
import warnings
from typing import NamedTuple

import numpy as np

from cmn_literate.checks import check_checkpoint, check_count
from cmn_literate.road_checks import check_climb, check_climbed
from cmn_literate.engineering.runs import Work, drive


# book/roads/optimizers.ipynb, cell optimizers-10
class AdaBeliefState(NamedTuple):
    """What AdaBelief remembers.  [eq-opt-belief]

    m  running mean of the gradient, not corrected for bias, shape of x
    s  running mean of the squared surprise (g - m)^2, with its epsilons
    t  number of steps taken, int
    """
    m: np.ndarray
    s: np.ndarray
    t: int


def adabelief_init(x):
    """State before the first step: nothing seen.  [eq-opt-belief]  x array"""
    return AdaBeliefState(np.zeros_like(x, dtype=float),
                          np.zeros_like(x, dtype=float), 0)


def adabelief_step(grad, state, lr=1e-3, b1=0.9, b2=0.999, eps=1e-16,
                   eps_root=1e-16):
    """One step of AdaBelief.  [eq-opt-belief]

    grad like x, gradient of what is to be *lowered* -> (update, new state):
    x + update is the next point. eps_root enters s at every step, eps stands
    outside the root.
    """
    m = b1 * state.m + (1 - b1) * grad
    surprise = grad - m
    s = b2 * state.s + (1 - b2) * surprise * surprise + eps_root
    t = state.t + 1
    scale = np.sqrt(s / (1 - b2**t)) + eps
    return m * (-lr / (1 - b1**t)) / scale, AdaBeliefState(m, s, t)


# book/roads/optimizers.ipynb, cell optimizers-25
class OptimizeResult(NamedTuple):
    """What maximize returns.  [eq-opt-belief, eq-opt-resume]

    x        the last point (P,)
    trace    (n_steps,) value at the point from which each step starts
    n_steps  whole steps taken, those before a resume included
    reason   "steps" (all done), "interrupted" or "not finite"
    state    AdaBeliefState after the last step
    """
    x: np.ndarray
    trace: np.ndarray
    n_steps: int
    reason: str
    state: AdaBeliefState

    @property
    def diverged(self):
        """Whether the run ended at a value or gradient that is not finite."""
        return self.reason == "not finite"


# book/roads/optimizers.ipynb, cell optimizers-26
class Climb(NamedTuple):
    """Everything that the next step of a climb reads.  [eq-opt-resume]

    x (P,) point, memory AdaBeliefState, noise: state of the generator, or None;
    value: objective where the last step began
    """
    x: np.ndarray
    memory: AdaBeliefState
    noise: dict
    value: float


RATES = {"lr": 1e-3, "b1": 0.9, "b2": 0.999, "eps": 1e-16, "eps_root": 1e-16}


# book/roads/optimizers.ipynb, cell optimizers-27
def climb_work(value_and_grad, x, n_steps, rng=None, every=1000, problem=(),
               origin=None, **rates):
    """The climb of maximize as a Work, which finishes as an OptimizeResult.
    [eq-opt-belief, eq-opt-resume]

    origin: generator_state of the Generator from which problem and start were made
    the other arguments are those of maximize; ValueError names a bad one
    """
    rates = {**RATES, **rates}
    x = check_climb(x, rates)
    check_count(n_steps, "n_steps")
    check_count(every, "checkpoint_every")
    if rng is not None and not isinstance(rng, np.random.Generator):
        raise ValueError(f"rng: expected None or a Generator, got {rng!r}")
    noise = None if rng is None else rng.bit_generator.state
    args = () if rng is None else (rng,)

    def step(climb, t):
        if rng is not None:
            rng.bit_generator.state = climb.noise
        value, grad = value_and_grad(climb.x, *args)
        check_climbed(value, grad, climb.x)
        if not (math.isfinite(value) and math.isfinite(grad.sum())):
            return None, None
        update, memory = adabelief_step(-grad, climb.memory, **rates)
        after = None if rng is None else rng.bit_generator.state
        return Climb(climb.x + update, memory, after, float(value)), (float(value),)

    return Work(
        lambda: [Climb(x, adabelief_init(x), noise, None)], step, n_steps, _climbed,
        ("maximize", problem, x, noise, *rates.values()), origin,
        lambda states, c: states[c].value, kinds=(Climb, AdaBeliefState), every=every)


def _climbed(run):
    """The result, with a warning if the run was cut short."""
    (climb,), trace = run.states, np.array([value for value, in run.kept[0]])
    if run.reason == "not finite" and not len(trace):
        raise ValueError("x: expected a start where value and gradient are finite "
                         "(and stay so for a step), got one where they are not")
    if run.reason != "steps":
        warnings.warn(f"{run.reason}: this is the point after {len(trace)} steps",
                      RuntimeWarning, stacklevel=3)
    return OptimizeResult(climb.x, trace, len(trace), run.reason, climb.memory)


# book/roads/optimizers.ipynb, cell optimizers-28
def maximize(value_and_grad, x, n_steps, lr=1e-3, b1=0.9, b2=0.999, eps=1e-16,
             eps_root=1e-16, rng=None, callback=None, checkpoint=None,
             checkpoint_every=1000, problem=()):
    """Climb by AdaBelief.  [eq-opt-belief, eq-opt-resume]

    value_and_grad(x) -> (float, (P,)); if rng (a Generator as of default_rng) is
                given, value_and_grad(x, rng): an estimate made with it
    x (P,)      start;  lr, b1, b2, eps, eps_root as in adabelief_step
    callback(done, value)  after each step
    checkpoint  path: written every checkpoint_every steps and at the end; an
                existing file of the same run is resumed, bit for bit
    problem     a tuple that tells this objective from others: data, options
    -> OptimizeResult.  Ctrl-C, or a value that is not finite, ends the run at the
    last good step with a RuntimeWarning.  ValueError names a bad argument.
    """
    check_checkpoint(checkpoint)
    work = climb_work(value_and_grad, x, n_steps, rng, checkpoint_every, problem,
                      lr=lr, b1=b1, b2=b2, eps=eps, eps_root=eps_root)
    return work.finish(drive(work, callback, checkpoint))
