# Tangled from book/roads/hmc.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Hamiltonian Monte Carlo: let it roll

Give the parameters a momentum and let them roll over the landscape of the log density: the place
where they come to a halt is a proposal that is far away and nearly always accepted. The integrator
may be crude: it preserves volume and can be run backwards, and so its errors cost acceptance,
never correctness.
"""

__all__ = ["hamiltonian", "leapfrog", "draw_momentum", "HMCState", "HMCStats", "hmc_step",
           "HMCDraws", "first_state", "hmc"]


# book/roads/hmc.ipynb, cell hmc-06
import warnings
from typing import NamedTuple

import numpy as np

from cmn_literate.checks import check_count, check_number, check_rng
from cmn_literate.road_checks import (
    check_inverse_mass, check_landscape, check_position)


# book/roads/hmc.ipynb, cell hmc-07
def hamiltonian(value, p, inv_mass):
    """Energy: minus the log density plus the kinetic energy.  [eq-hmc-energy]

    value (...) log density at q, p (...,P) momentum, inv_mass (P,) or a number:
    diagonal of M^-1 -> (...) nats
    """
    return (p * p * inv_mass).sum(-1) / 2 - value


def leapfrog(value_and_grad, q, p, grad, step, inv_mass):
    """One step of time: half a kick, a drift, half a kick.  [eq-hmc-leapfrog]

    value_and_grad  q (...,P) -> (log density (...), its gradient (...,P))
    grad (...,P)    gradient at q, known from the last step
    step            number, or an array that broadcasts against q; inv_mass (P,)
    -> (q, p, value, grad) at the new place. Differentiable if the target is.
    """
    half = p + 0.5 * step * grad
    q = q + step * inv_mass * half
    value, grad = value_and_grad(q)
    return q, half + 0.5 * step * grad, value, grad


# book/roads/hmc.ipynb, cell hmc-21
def draw_momentum(inv_mass, shape, rng):
    """p ~ N(0, M).  [eq-hmc-momentum]   inv_mass (P,) or a number -> (shape)"""
    return rng.normal(size=shape) / np.sqrt(inv_mass)


# book/roads/hmc.ipynb, cell hmc-22
class HMCState(NamedTuple):
    """Where a chain is.  [eq-hmc-energy]

    q (...,P) position, value (...) log density there, grad (...,P) its gradient
    """
    q: np.ndarray
    value: np.ndarray
    grad: np.ndarray


class HMCStats(NamedTuple):
    """What happened in one transition.  [eq-hmc-accept]

    log_density (...)  of the state in which the transition ended
    energy (...)       of that state with the momentum with which it got there
    accept (...)       probability with which the proposal is accepted
    moved (...)        whether it was
    divergent (...)    the energy rose by more than 1000 nats, or to no number
    """
    log_density: np.ndarray
    energy: np.ndarray
    accept: np.ndarray
    moved: np.ndarray
    divergent: np.ndarray


# book/roads/hmc.ipynb, cell hmc-23
def hmc_step(value_and_grad, state, step, n_leapfrog, inv_mass, rng):
    """One transition: fresh momentum, a trajectory, Metropolis' yes or no.
    [eq-hmc-accept]   HMCState -> (HMCState, HMCStats); leading axes are chains"""
    q, value, grad = state
    p = draw_momentum(inv_mass, q.shape, rng)
    start = hamiltonian(value, p, inv_mass)
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(n_leapfrog):
            q, p, value, grad = leapfrog(
                value_and_grad, q, p, grad, step, inv_mass)
        end = hamiltonian(value, p, inv_mass)
    error = np.where(np.isfinite(end), end - start, np.inf)
    accept = np.exp(np.minimum(0.0, -error))
    moved = rng.random(np.shape(error)) < accept
    new = HMCState(np.where(moved[..., None], q, state.q),
                   np.where(moved, value, state.value),
                   np.where(moved[..., None], grad, state.grad))
    energy = np.where(moved, end, start)
    return new, HMCStats(new.value, energy, accept, moved, error > 1000)


# book/roads/hmc.ipynb, cell hmc-31
class HMCDraws(NamedTuple):
    """Result of `hmc`.  [eq-hmc-accept]

    draws (..., n_draws, P) positions; stats HMCStats of arrays (..., n_draws)
    """
    draws: np.ndarray
    stats: HMCStats


# book/roads/hmc.ipynb, cell hmc-32
def first_state(value_and_grad, q):
    """The first HMCState of chains at q (...,P).  [eq-hmc-energy]"""
    value, grad = value_and_grad(q)
    check_landscape(value, grad, q.shape)
    return HMCState(q, np.asarray(value, float), np.asarray(grad, float))


# book/roads/hmc.ipynb, cell hmc-33
def hmc(value_and_grad, q, n_draws, step, n_leapfrog, inv_mass=1.0, rng=None,
        n_warmup=0, jitter=0.0, callback=None):
    """Hamiltonian Monte Carlo with fixed step, trajectory length and masses.
    [eq-hmc-accept]

    value_and_grad  q (...,P) -> (log density (...), gradient (...,P))
    q (P,)          start; (C,P) runs C chains at once, if value_and_grad can
    step, n_leapfrog   length and number of leapfrog steps of a trajectory
    inv_mass        number or (P,): diagonal of M^-1, best the variances of q
    jitter          each trajectory draws its step from step * (1 +- jitter)
    n_warmup        transitions that are made but not kept
    callback(done, log density)   after every transition that is kept
    -> HMCDraws. Ctrl-C returns the draws made so far, with a RuntimeWarning.
    From its last draw, with the same Generator, a chain goes on bit for bit.
    """
    n_draws, n_warmup = check_count(n_draws, "n_draws"), check_count(
        n_warmup, "n_warmup", least=0)
    n_leapfrog, q = check_count(n_leapfrog, "n_leapfrog"), check_position(q)
    check_number(jitter, "jitter", "a number in [0, 1)", lambda v: 0 <= v < 1)
    check_number(step, "step", "a positive number", lambda v: 0 < v < np.inf)
    inv_mass = check_inverse_mass(inv_mass, q.shape[-1:])
    rng, kept = np.random.default_rng() if rng is None else check_rng(rng), []
    state = first_state(value_and_grad, q)
    try:
        for i in range(n_warmup + n_draws):
            size = step * (1 + jitter * rng.uniform(-1, 1))
            state, stats = hmc_step(
                value_and_grad, state, size, n_leapfrog, inv_mass, rng)
            if i >= n_warmup:
                kept.append((state.q, *stats))
                if callback is not None:
                    callback(len(kept), state.value)
    except KeyboardInterrupt:
        if not kept:
            raise
        warnings.warn(f"interrupted: {len(kept)} of {n_draws} draws",
                      RuntimeWarning, stacklevel=2)
    q, *stats = zip(*kept)
    return HMCDraws(np.stack(q, -2), HMCStats(*(np.stack(s, -1) for s in stats)))
