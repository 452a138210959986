# Tangled from book/roads/nuts.ipynb by tools/tangle.py; edit the notebook, not this file.
"""NUTS: the trajectory finds its own length

Grow a Hamiltonian trajectory by doubling, forwards or backwards as a coin says, until it turns
back on itself; then draw one of its states by weight. The target density stays exactly what it
was, and nobody has to choose a length.
"""

__all__ = ["Point", "turning", "Tree", "MAX_SPREAD", "leaf", "join", "grow", "Transition",
           "nuts_step", "Plan", "Chain", "begin_chain", "iterate", "STATS", "NUTSDraws",
           "nuts_work", "nuts"]


# book/roads/nuts.ipynb, cell nuts-02
import warnings
from functools import partial
from typing import NamedTuple

import numpy as np

from cmn_literate.road_checks import check_chain_start, check_nuts
from cmn_literate.checks import check_count
from cmn_literate.engineering.runs import Work, drive
from cmn_literate.storage import generator_state
from cmn_literate.roads.hmc import draw_momentum, hamiltonian, leapfrog
from cmn_literate.checks import check_checkpoint, check_rng
from cmn_literate.roads.warmup import (
    Moments, StepSize, adapt_step, find_step, observe, regularised_variance,
    start_step, windows)


# book/roads/nuts.ipynb, cell nuts-11
class Point(NamedTuple):
    """A state of a trajectory.  [eq-nuts-orbit]

    q (P,) position, p (P,) momentum, value: log density at q, grad (P,) gradient
    """
    q: np.ndarray
    p: np.ndarray
    value: float
    grad: np.ndarray


# book/roads/nuts.ipynb, cell nuts-12
def turning(rho, first, last, inv_mass):
    """Has a stretch with summed momentum rho and momenta first and last at its
    ends turned back?  [eq-nuts-uturn]   all (P,) -> bool"""
    velocity = inv_mass * rho
    return not (velocity @ first > 0 and velocity @ last > 0)


# book/roads/nuts.ipynb, cell nuts-16
class Tree(NamedTuple):
    """A block of neighbouring states of an orbit.  [eq-nuts-fine, eq-nuts-biased]

    left, right    Points at its ends
    pick           the Point drawn from it
    rho (P,)       sum of the momenta
    log_weight     ln W = logsumexp of -H
    low, high      smallest and largest energy H
    fine           it and all its dyadic blocks are fine (top: itself alone)
    size, accept   states that were computed for it, and the sum over them of
                   min(1, exp(H_start - H)): for the step size
    """
    left: Point
    right: Point
    pick: Point
    rho: np.ndarray
    log_weight: float
    low: float
    high: float
    fine: bool
    size: int
    accept: float


MAX_SPREAD = 1000.0                # nats; a trajectory with more has diverged


# book/roads/nuts.ipynb, cell nuts-17
def leaf(point, start_energy, inv_mass):
    """The block of one state; fine if its energy is a number.  [eq-nuts-weight]"""
    energy = float(hamiltonian(point.value, point.p, inv_mass))
    fine = bool(np.isfinite(energy))
    energy = energy if fine else np.inf
    accept = float(np.exp(min(0.0, start_energy - energy)))
    return Tree(point, point, point, point.p, -energy, energy, energy, fine, 1,
                accept)


# book/roads/nuts.ipynb, cell nuts-18
def join(old, new, forward, biased, inv_mass, rng):
    """Two neighbouring blocks as one; new lies to the right if forward.
    [eq-nuts-fine, eq-nuts-biased]

    biased: the rule of the top of the tree, else a draw by weight.
    If new is not fine it is dropped: old comes back, marked as not fine.
    """
    low, high = min(old.low, new.low), max(old.high, new.high)
    size, accept = old.size + new.size, old.accept + new.accept
    if not new.fine:
        return old._replace(
            low=low, high=high, fine=False, size=size, accept=accept)
    left, right = (old, new) if forward else (new, old)
    rho, total = left.rho + right.rho, np.logaddexp(old.log_weight, new.log_weight)
    odds = new.log_weight - (old.log_weight if biased else total)
    pick = new.pick if rng.random() < np.exp(min(0.0, odds)) else old.pick
    first, last, after, before = (
        left.left.p, right.right.p, right.left.p, left.right.p)
    fine = high - low <= MAX_SPREAD and not (
        turning(rho, first, last, inv_mass)
        or turning(left.rho + after, first, after, inv_mass)
        or turning(before + right.rho, before, last, inv_mass))
    return Tree(left.left, right.right, pick, rho, total, low, high, fine, size,
                accept)


# book/roads/nuts.ipynb, cell nuts-19
def grow(value_and_grad, edge, depth, step, start_energy, inv_mass, rng):
    """2^depth new states next to the Point edge; backwards if step < 0.
    [eq-nuts-fine]   -> Tree; not fine, and unfinished, if one of its blocks is not
    """
    if depth == 0:
        moved = leapfrog(value_and_grad, edge.q, edge.p, edge.grad, step, inv_mass)
        return leaf(Point(*moved), start_energy, inv_mass)
    rest = depth - 1, step, start_energy, inv_mass, rng
    first = grow(value_and_grad, edge, *rest)
    if not first.fine:
        return first
    second = grow(value_and_grad, first.right if step > 0 else first.left, *rest)
    return join(first, second, step > 0, False, inv_mass, rng)


# book/roads/nuts.ipynb, cell nuts-20
class Transition(NamedTuple):
    """What one transition did.  [eq-nuts-stretch]

    point       the new state, with its momentum
    energy      H of it
    accept      mean over the new states of min(1, exp(H_start - H))
    depth       doublings tried;  n_leapfrog  states computed
    divergent   energies spread over more than 1000 nats, or were not numbers
    """
    point: Point
    energy: float
    accept: float
    depth: int
    n_leapfrog: int
    divergent: bool


# book/roads/nuts.ipynb, cell nuts-21
def nuts_step(value_and_grad, point, step, inv_mass, rng, max_depth=10):
    """One transition: fresh momentum, doublings, a draw.
    [eq-nuts-stretch, eq-nuts-biased]

    value_and_grad  q (P,) -> (log density, gradient (P,));  point: where to start
    step > 0, inv_mass (P,) diagonal of M^-1, at most max_depth doublings
    -> Transition
    """
    point = point._replace(p=draw_momentum(inv_mass, point.q.shape, rng))
    energy = float(hamiltonian(point.value, point.p, inv_mass))
    tree = leaf(point, energy, inv_mass)._replace(size=0, accept=0.0)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for depth in range(1, max_depth + 1):
            forward = rng.random() < 0.5
            edge, sign = (tree.right, 1) if forward else (tree.left, -1)
            new = grow(
                value_and_grad, edge, depth - 1, sign * step, energy, inv_mass, rng)
            tree = join(tree, new, forward, True, inv_mass, rng)
            if not tree.fine:
                break
    pick = tree.pick
    return Transition(
        pick, float(hamiltonian(pick.value, pick.p, inv_mass)),
        tree.accept / tree.size, depth, tree.size,
        bool(tree.high - tree.low > MAX_SPREAD))


# book/roads/nuts.ipynb, cell nuts-31
class Plan(NamedTuple):
    """What all chains of a run share.  [eq-nuts-seed]

    n_warmup, n_draws, target_accept, max_depth; key: the run's seed, four integers
    """
    n_warmup: int
    n_draws: int
    target_accept: float
    max_depth: int
    key: tuple

    @property
    def total(self):
        """Transitions of a chain."""
        return self.n_warmup + self.n_draws


class Chain(NamedTuple):
    """One chain between two transitions.  [eq-nuts-seed]

    index of the chain, done: transitions so far, point where it is,
    inv_mass (P,), step StepSize, moments of the window
    """
    index: int
    done: int
    point: Point
    inv_mass: np.ndarray
    step: StepSize
    moments: Moments


# book/roads/nuts.ipynb, cell nuts-32
def begin_chain(value_and_grad, q, index, plan, step=None, inv_mass=None):
    """A Chain at q (P,), its step found by trial unless given.  [eq-nuts-seed]"""
    value, grad = value_and_grad(q)
    check_chain_start(value, grad, q.shape, index)
    point = Point(q, np.zeros_like(q), float(value), grad)
    inv_mass = np.ones_like(q) if inv_mass is None else inv_mass
    if step is None:
        rng = np.random.default_rng([*plan.key, index, 0])
        step = find_step(value_and_grad, point, inv_mass, rng)
    return _forget(Chain(index, 0, point, None, None, None), inv_mass, step)


def _forget(chain, inv_mass, step):
    """The chain with a new mass and step, and no memory.  [eq-nuts-windows]"""
    nothing = Moments(0, np.zeros_like(inv_mass), np.zeros_like(inv_mass))
    return chain._replace(
        inv_mass=inv_mass, step=start_step(step), moments=nothing)


def _learn(value_and_grad, chain, accept, plan, rng):
    """The chain after a transition of the warm-up.
    [eq-nuts-dual, eq-nuts-windows]"""
    edges = windows(plan.n_warmup)
    chain = chain._replace(step=adapt_step(chain.step, accept, plan.target_accept))
    if not edges or not edges[0] < chain.done <= edges[-1]:
        return chain
    moments = observe(chain.moments, chain.point.q)
    if chain.done not in edges:
        return chain._replace(moments=moments)
    inv_mass = regularised_variance(moments)
    step = find_step(value_and_grad, chain.point, inv_mass, rng,
                     float(np.exp(chain.step.log_step)))
    return _forget(chain, inv_mass, step)


# book/roads/nuts.ipynb, cell nuts-33
def iterate(value_and_grad, chain, plan):
    """One transition of a chain, and what it learns from it in the warm-up.
    [eq-nuts-seed]   -> Chain, Transition, step size used"""
    rng = np.random.default_rng([*plan.key, chain.index, chain.done + 1])
    warming = chain.done < plan.n_warmup
    step = float(np.exp(chain.step.log_step if warming else chain.step.log_mean))
    move = nuts_step(
        value_and_grad, chain.point, step, chain.inv_mass, rng, plan.max_depth)
    chain = chain._replace(done=chain.done + 1, point=move.point)
    if warming:
        chain = _learn(value_and_grad, chain, move.accept, plan, rng)
    return chain, move, step


def _move(chain, t, value_and_grad, plan):
    """iterate as the step of a Work; after the warm-up its record is the place and a
    row of statistics."""
    chain, move, step = iterate(value_and_grad, chain, plan)
    row = move.point.q, move.point.value, *move[1:], step
    return chain, row if chain.done > plan.n_warmup else None


# book/roads/nuts.ipynb, cell nuts-34
STATS = ("log_density", "energy", "accept", "depth", "n_leapfrog", "divergent",
         "step")


class NUTSDraws(NamedTuple):
    """Result of nuts.  [eq-nuts-stretch]

    draws (chains, draws, P); stats {name: (chains, draws)}: log_density, energy,
    accept, depth, n_leapfrog, divergent, step (see Transition)
    """
    draws: np.ndarray
    stats: dict


def _drawn(run, plan):
    """NUTSDraws of all that the chains have, with a warning if that is not all."""
    draws, *columns = run.table()
    n, kinds = draws.shape[1], {"depth": int, "n_leapfrog": int, "divergent": bool}
    if run.reason != "steps":
        warnings.warn(f"interrupted: {n} of {plan.n_draws} draws of each chain",
                      RuntimeWarning, stacklevel=4)
    return NUTSDraws(draws, {name: column.astype(kinds.get(name, float))
                             for name, column in zip(STATS, columns)})


# book/roads/nuts.ipynb, cell nuts-35
def nuts_work(value_and_grad, q0, n_warmup=800, n_draws=64, rng=0, target_accept=0.8,
              max_depth=10, step=None, inv_mass=None, every=30.0, n_jobs=1, origin=None):
    """nuts as a Work, which finishes as NUTSDraws; its arguments.
    [eq-nuts-stretch, eq-nuts-seed]

    origin: generator_state of the Generator from which the starts were made
    """
    q0, inv_mass = check_nuts(
        value_and_grad, q0, n_jobs, target_accept, step, inv_mass, every)
    rng = check_rng(rng)
    origin = generator_state(rng) if origin is None else origin
    plan = Plan(
        check_count(n_warmup, "n_warmup", 0), check_count(n_draws, "n_draws"),
        float(target_accept), check_count(max_depth, "max_depth"),
        tuple(rng.integers(2**32, size=4).tolist()))
    chains = [begin_chain(value_and_grad, q, i, plan, step, inv_mass)
              for i, q in enumerate(q0)]
    begun = [(chain.point.value, chain.point.grad, chain.step.log_step,
              chain.inv_mass) for chain in chains]
    return Work(
        lambda: chains, partial(_move, value_and_grad=value_and_grad, plan=plan),
        plan.total, partial(_drawn, plan=plan), ("nuts", plan, q0, begun), origin,
        lambda states, c: states[c].point.value, count=sum,
        kinds=(Chain, Point, StepSize, Moments), most=25, seconds=1.0, every=every,
        timed=True)


def nuts(value_and_grad, q0, n_warmup=800, n_draws=64, rng=0, target_accept=0.8,
         max_depth=10, n_jobs=1, step=None, inv_mass=None, callback=None,
         checkpoint=None, checkpoint_every=30.0):
    """Multinomial NUTS with adaptation of step and mass in the warm-up.
    [eq-nuts-stretch, eq-nuts-biased, eq-nuts-dual, eq-nuts-variance]

    value_and_grad  q (P,) -> (log density, gradient (P,))
    q0 (chains, P)  starts;  rng: int or Generator
    n_warmup, n_draws   transitions of each chain to learn from, and to keep
    target_accept   mean acceptance to aim at;   max_depth  doublings at most
    n_jobs          processes; the draws do not depend on it
    step, inv_mass  to begin with; without a warm-up, to keep
    callback(done, log density)   after each portion; done counts the transitions
                    of all chains, up to chains * (n_warmup + n_draws)
    checkpoint      a file, written every checkpoint_every seconds and at the end;
                    if it exists, the run goes on from it
    -> NUTSDraws. Ctrl-C returns the draws that all chains have, with a warning.
    ValueError names a bad argument.
    """
    n_jobs = check_count(n_jobs, "n_jobs")
    check_checkpoint(checkpoint)
    work = nuts_work(value_and_grad, q0, n_warmup, n_draws, rng, target_accept,
                     max_depth, step, inv_mass, checkpoint_every, n_jobs)
    return work.finish(drive(work, callback, checkpoint, n_jobs))
