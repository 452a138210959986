# Tangled from book/roads/optimizers.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Downhill with a memory: AdaBelief

AdaBelief divides the average gradient by the size of the *surprise*: how far the gradient lands
from that average. Steps are long where the gradient keeps its promise and short where it does not,
and multiplying the objective by a constant changes nothing.
"""

__all__ = ["AdaBeliefState", "adabelief_init", "adabelief_step", "fingerprint", "OptimizeResult",
           "maximize"]


# book/roads/optimizers.ipynb, cell optimizers-02
import hashlib
import math
import os
import warnings
from typing import NamedTuple

import numpy as np

from cmn_literate.storage import read_arrays, write_arrays
from cmn_literate.checks import (
    check_checkpoint, check_climb, check_climbed, check_count)


# book/roads/optimizers.ipynb, cell optimizers-08
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


# book/roads/optimizers.ipynb, cell optimizers-24
def fingerprint(*parts):
    """SHA-256 over parts: arrays by type, shape and bytes, tuples and lists by
    their members, everything else by repr.  [eq-opt-resume]  -> 64 hex digits"""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"array {part.dtype.str} {part.shape} ".encode())
            digest.update(np.ascontiguousarray(part).tobytes())
        elif isinstance(part, (tuple, list)):
            digest.update(f"row {len(part)} {fingerprint(*part)}".encode())
        else:
            digest.update(f"{type(part).__name__} {part!r}".encode())
        digest.update(b"\n")
    return digest.hexdigest()


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


# book/roads/optimizers.ipynb, cell optimizers-25
class _Run(NamedTuple):
    """Everything the future depends on: point, memory, state of the generator."""
    x: np.ndarray
    state: AdaBeliefState
    noise: dict


def _save(path, identity, run, trace):
    """Write a run to its file.  [eq-opt-resume]"""
    if path is not None:
        state, trace = run.state, np.array(trace[:run.state.t])
        arrays = {"x": run.x, "m": state.m, "s": state.s, "trace": trace}
        write_arrays(path, arrays, identity=identity, t=state.t, noise=run.noise)


def _resume(path, identity, n_steps):
    """Run and trace from a file of this very problem."""
    stored = read_arrays(path)
    header = stored["header"]
    if header.get("identity") != identity:
        raise ValueError("checkpoint: expected a run of this problem, start and "
                         f"options, got another one in {path}")
    if header["t"] > n_steps:
        raise ValueError(f"checkpoint: expected at most {n_steps} steps, "
                         f"got {header['t']} in {path}")
    state = AdaBeliefState(stored["m"], stored["s"], header["t"])
    return _Run(stored["x"], state, header["noise"]), stored["trace"].tolist()


# book/roads/optimizers.ipynb, cell optimizers-27
def _steps(value_and_grad, run, rates, rng):
    """Yield (value where the step starts, run after it); end if not finite."""
    args = () if rng is None else (rng,)
    while True:
        value, grad = value_and_grad(run.x, *args)
        check_climbed(value, grad, run.x)
        if not (math.isfinite(value) and math.isfinite(grad.sum())):
            return
        update, state = adabelief_step(-grad, run.state, **rates)
        noise = None if rng is None else rng.bit_generator.state
        run = _Run(run.x + update, state, noise)
        yield float(value), run


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
    rates = {"lr": lr, "b1": b1, "b2": b2, "eps": eps, "eps_root": eps_root}
    x, trace = check_climb(x, rates), []
    check_count(n_steps, "n_steps")
    check_count(checkpoint_every, "checkpoint_every")
    check_checkpoint(checkpoint)
    if rng is not None and not isinstance(rng, np.random.Generator):
        raise ValueError(f"rng: expected None or a Generator, got {rng!r}")
    noise = None if rng is None else rng.bit_generator.state
    identity = fingerprint("maximize", problem, x, noise, *rates.values())
    run = _Run(x, adabelief_init(x), noise)
    if checkpoint is not None and os.path.exists(checkpoint):
        run, trace = _resume(checkpoint, identity, n_steps)
        if rng is not None:
            rng.bit_generator.state = run.noise
    last, reason = run, "steps"
    try:
        steps = _steps(value_and_grad, run, rates, rng)
        while run.state.t < n_steps:
            value, after = next(steps, (None, None))
            if after is None:
                run, reason = last, "not finite"
                break
            trace.append(value)
            last, run = run, after
            if callback is not None:
                callback(run.state.t, value)
            if run.state.t % checkpoint_every == 0:
                _save(checkpoint, identity, run, trace)
    except KeyboardInterrupt:
        if run.state.t == 0:
            raise
        reason = "interrupted"
    return _finish(run, trace, reason, checkpoint, identity)


def _finish(run, trace, reason, checkpoint, identity):
    """The result, saved, with a warning if the run was cut short."""
    t = run.state.t
    if reason == "not finite" and t == 0:
        raise ValueError("x: expected a start where value and gradient are finite "
                         "(and stay so for a step), got one where they are not")
    if reason != "steps":
        warnings.warn(f"{reason}: this is the point after {t} steps",
                      RuntimeWarning, stacklevel=3)
    _save(checkpoint, identity, run, trace)
    return OptimizeResult(run.x, np.array(trace[:t]), t, reason, run.state)
