# Tangled from book/roads/nuts.ipynb by tools/tangle.py; edit the notebook, not this file.
"""NUTS: the trajectory finds its own length

Grow a Hamiltonian trajectory by doubling, forwards or backwards as a coin says, until it turns
back on itself; then draw one of its states by weight. The target density stays exactly what it
was, and nobody has to choose a length.
"""

__all__ = ["Point", "turning", "Tree", "MAX_SPREAD", "leaf", "join", "grow", "Transition",
           "nuts_step", "StepSize", "start_step", "adapt_step", "find_step", "Moments", "observe",
           "regularised_variance", "windows", "Plan", "Chain", "begin_chain", "iterate", "advance",
           "run_chains", "STATS", "NUTSDraws", "nuts", "posterior_target", "CAVI_SWEEPS",
           "starting_points", "sample_posterior"]


# book/roads/nuts.ipynb, cell nuts-02
import pickle
import signal
import time
import warnings
from collections import deque
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cmn_literate.checks import check_problem
from cmn_literate.engineering.fit import fit
from cmn_literate.use.datasets import read_arrays, write_arrays
from cmn_literate.roads.diagnostics import PosteriorDraws
from cmn_literate.roads.hmc import draw_momentum, hamiltonian, leapfrog
from cmn_literate.roads.likelihood import (
    Shapes, explicit_value_and_grad, from_white, latent_nodes,
    marginal_value_and_grad, pack, to_white, unpack)
from cmn_literate.roads.optimizers import _check_checkpoint, _check_rng, _is_real
from cmn_literate.network.predict import sample_parameters
from cmn_literate.network.simulate import Priors, Theta, sample_theta
from cmn_literate.checks import check_count, real_array


# book/roads/nuts.ipynb, cell nuts-08
class Point(NamedTuple):
    """A state of a trajectory.  [eq-nuts-orbit]

    q (P,) position, p (P,) momentum, value: log density at q, grad (P,) gradient
    """
    q: np.ndarray
    p: np.ndarray
    value: float
    grad: np.ndarray


def turning(rho, first, last, inv_mass):
    """Has a stretch with summed momentum rho and momenta first and last at its
    ends turned back?  [eq-nuts-uturn]   all (P,) -> bool"""
    velocity = inv_mass * rho
    return not (velocity @ first > 0 and velocity @ last > 0)


# book/roads/nuts.ipynb, cell nuts-17
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


# book/roads/nuts.ipynb, cell nuts-18
def leaf(point, start_energy, inv_mass):
    """The block of one state; fine if its energy is a number.  [eq-nuts-weight]"""
    energy = float(hamiltonian(point.value, point.p, inv_mass))
    fine = bool(np.isfinite(energy))
    energy = energy if fine else np.inf
    accept = float(np.exp(min(0.0, start_energy - energy)))
    return Tree(point, point, point, point.p, -energy, energy, energy, fine, 1,
                accept)


# book/roads/nuts.ipynb, cell nuts-19
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


# book/roads/nuts.ipynb, cell nuts-20
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


# book/roads/nuts.ipynb, cell nuts-21
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


# book/roads/nuts.ipynb, cell nuts-22
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


# book/roads/nuts.ipynb, cell nuts-36
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


# book/roads/nuts.ipynb, cell nuts-39
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


# book/roads/nuts.ipynb, cell nuts-42
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


# book/roads/nuts.ipynb, cell nuts-44
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


# book/roads/nuts.ipynb, cell nuts-47
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


# book/roads/nuts.ipynb, cell nuts-49
def begin_chain(value_and_grad, q, index, plan, step=None, inv_mass=None):
    """A Chain at q (P,), its step found by trial unless given.  [eq-nuts-seed]"""
    value, grad = value_and_grad(q)
    if np.shape(value) != () or np.shape(grad) != q.shape:
        raise ValueError(f"value_and_grad: expected shapes () and {q.shape}, got "
                         f"{np.shape(value)} and {np.shape(grad)}")
    if not (np.isfinite(value) and np.isfinite(grad).all()):
        raise ValueError("q0: expected starts with finite log density and "
                         f"gradient, chain {index} has log density {value}")
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


# book/roads/nuts.ipynb, cell nuts-50
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


def advance(value_and_grad, chain, plan, most=25, seconds=1.0):
    """A portion of a chain: at most so many transitions, and no new one after so
    many seconds.  [eq-nuts-seed]

    -> Chain, [(q, row of statistics) of each transition after the warm-up]
    """
    kept, clock = [], time.monotonic()
    for _ in range(min(most, plan.total - chain.done)):
        chain, move, step = iterate(value_and_grad, chain, plan)
        if chain.done > plan.n_warmup:
            kept.append((move.point.q, (move.point.value, *move[1:], step)))
        if time.monotonic() - clock > seconds:
            break
    return chain, kept


# book/roads/nuts.ipynb, cell nuts-52
def _ignore_interrupts():
    """In a worker, Ctrl-C is left to the main process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def run_chains(value_and_grad, chains, plan, n_jobs=1):
    """All chains to their ends in turns, portion by portion, in n_jobs processes.
    [eq-nuts-seed]   Iterator over (Chain, kept), as from advance."""
    unfinished = [chain for chain in chains if chain.done < plan.total]
    if n_jobs == 1:
        turns = deque(unfinished)
        while turns:
            chain, kept = advance(value_and_grad, turns.popleft(), plan)
            if chain.done < plan.total:
                turns.append(chain)
            yield chain, kept
        return
    with ProcessPoolExecutor(n_jobs, initializer=_ignore_interrupts) as pool:
        send = lambda chain: pool.submit(advance, value_and_grad, chain, plan)
        running = {send(chain) for chain in unfinished}
        try:
            while running:
                ready, running = wait(running, return_when=FIRST_COMPLETED)
                for chain, kept in [job.result() for job in ready]:
                    if chain.done < plan.total:
                        running.add(send(chain))
                    yield chain, kept
        finally:
            for job in running:
                job.cancel()


# book/roads/nuts.ipynb, cell nuts-54
STATS = ("log_density", "energy", "accept", "depth", "n_leapfrog", "divergent",
         "step")


class NUTSDraws(NamedTuple):
    """Result of nuts.  [eq-nuts-stretch]

    draws (chains, draws, P); stats {name: (chains, draws)}: log_density, energy,
    accept, depth, n_leapfrog, divergent, step (see Transition)
    """
    draws: np.ndarray
    stats: dict


def _flat(chain):
    """A chain as a list of numbers and arrays."""
    return [chain.index, chain.done, *chain.point, chain.inv_mass, *chain.step,
            *chain.moments]


def _unflat(values):
    """The inverse of _flat."""
    v = [x.item() if np.ndim(x) == 0 else np.array(x) for x in values]
    return Chain(v[0], v[1], Point(*v[2:6]), v[6], StepSize(*v[7:12]),
                 Moments(*v[12:]))


# book/roads/nuts.ipynb, cell nuts-55
def _starts(chains):
    """What tells one run from another: the chains before their first step."""
    names = ("q0", "value0", "grad0", "inv_mass0", "log_step0")
    rows = [(c.point.q, c.point.value, c.point.grad, c.inv_mass, c.step.log_step)
            for c in chains]
    return {name: np.array(part) for name, part in zip(names, zip(*rows))}


def _save(path, chains, plan, starts, draws, rows):
    """Write a checkpoint: chains, draws so far, and which run they belong to."""
    parts = {f"chain{i:02d}": np.array(part)
             for i, part in enumerate(zip(*map(_flat, chains)))}
    write_arrays(path, {**parts, **starts, "draws": draws, "rows": rows},
                 kind="nuts", plan=list(plan))


def _load(path, plan, starts):
    """Chains, draws and rows of a checkpoint; ValueError if of another run."""
    arrays = read_arrays(path)
    header = arrays["header"]
    if header.get("kind") != "nuts":
        raise ValueError(f"checkpoint: expected a file of nuts, got {path}")
    pairs = zip(Plan._fields, header["plan"], [*plan[:-1], list(plan.key)])
    different = [name for name, old, new in pairs if old != new]
    different += [name for name, new in starts.items()
                  if arrays[name].shape != new.shape
                  or not np.allclose(arrays[name], new, rtol=1e-6, atol=1e-9)]
    if different:
        raise ValueError("checkpoint: expected one of this run, got one with "
                         f"other {', '.join(different)} ({path})")
    parts = [arrays[name] for name in sorted(arrays) if name.startswith("chain")]
    chains = [_unflat(values) for values in zip(*parts)]
    return chains, arrays["draws"], arrays["rows"]


# book/roads/nuts.ipynb, cell nuts-56
def _check_nuts(value_and_grad, q0, n_jobs, target_accept, step, inv_mass,
                checkpoint, checkpoint_every):
    """Arguments of nuts that are not counts, checked.   -> q0, inv_mass"""
    q0 = real_array(q0, "q0").copy()
    if q0.ndim != 2 or not q0.size or not np.isfinite(q0).all():
        raise ValueError("q0: expected finite numbers (chains, P), got shape "
                         f"{q0.shape}")
    if not (_is_real(target_accept) and 0 < target_accept < 1):
        raise ValueError("target_accept: expected a number between 0 and 1, got "
                         f"{target_accept!r}")
    if step is not None and not (_is_real(step) and 0 < step < np.inf):
        raise ValueError(f"step: expected a positive number, got {step!r}")
    if inv_mass is not None:
        inv_mass = real_array(inv_mass, "inv_mass")
        if inv_mass.shape not in ((), q0.shape[1:]):
            raise ValueError("inv_mass: expected a number or shape "
                             f"{q0.shape[1:]}, got {inv_mass.shape}")
        inv_mass = inv_mass + np.zeros(q0.shape[1])
        if not (np.isfinite(inv_mass).all() and (inv_mass > 0).all()):
            raise ValueError("inv_mass: expected positive numbers, got "
                             f"{inv_mass}")
    if not (_is_real(checkpoint_every) and checkpoint_every >= 0):
        raise ValueError("checkpoint_every: expected a number of seconds, got "
                         f"{checkpoint_every!r}")
    _check_checkpoint(checkpoint)
    if n_jobs > 1:
        try:
            pickle.dumps(value_and_grad)
        except Exception as error:
            raise ValueError(
                "value_and_grad: with n_jobs > 1 expected a function of a module, "
                f"or a partial of one, that can be pickled ({error})") from None
    return q0, inv_mass


# book/roads/nuts.ipynb, cell nuts-57
def _write_down(chain, kept, plan, draws, rows):
    """Put the draws of a portion where they belong."""
    first = chain.done - plan.n_warmup - len(kept)
    for i, (q, row) in enumerate(kept, first):
        draws[chain.index, i], rows[chain.index, i] = q, row


def _result(draws, rows):
    """NUTSDraws of arrays (chains, draws, ...)."""
    kinds = {"depth": int, "n_leapfrog": int, "divergent": bool}
    return NUTSDraws(draws, {name: rows[..., i].astype(kinds.get(name, float))
                             for i, name in enumerate(STATS)})


# book/roads/nuts.ipynb, cell nuts-58
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
    q0, inv_mass = _check_nuts(
        value_and_grad, q0, n_jobs, target_accept, step, inv_mass, checkpoint,
        checkpoint_every)
    key = _check_rng(rng).integers(2**32, size=4)
    plan = Plan(
        check_count(n_warmup, "n_warmup", 0), check_count(n_draws, "n_draws"),
        float(target_accept), check_count(max_depth, "max_depth"),
        tuple(key.tolist()))
    chains = [begin_chain(value_and_grad, q, i, plan, step, inv_mass)
              for i, q in enumerate(q0)]
    starts = _starts(chains)
    draws = np.zeros((len(q0), plan.n_draws, q0.shape[1]))
    rows = np.zeros(draws.shape[:2] + (len(STATS),))
    if checkpoint is not None and Path(checkpoint).exists():
        chains, draws, rows = _load(checkpoint, plan, starts)
    save = lambda: checkpoint is not None and _save(
        checkpoint, chains, plan, starts, draws, rows)
    saved, n = time.monotonic(), plan.n_draws
    try:
        with closing(run_chains(value_and_grad, chains, plan, n_jobs)) as portions:
            for chain, kept in portions:
                _write_down(chain, kept, plan, draws, rows)
                chains[chain.index] = chain
                if time.monotonic() - saved >= checkpoint_every:
                    save()
                    saved = time.monotonic()
                if callback is not None:
                    callback(sum(c.done for c in chains), chain.point.value)
    except KeyboardInterrupt:
        n = min(chain.done for chain in chains) - plan.n_warmup
        if n < 1:
            raise
        warnings.warn(f"interrupted: {n} of {plan.n_draws} draws of each chain",
                      RuntimeWarning, stacklevel=2)
    finally:
        save()
    return _result(draws[:, :n], rows[:, :n])


# book/roads/nuts.ipynb, cell nuts-70
def posterior_target(X, y, shapes, priors, target="auto", n_nodes=None):
    """The function that NUTS climbs about on, and how many numbers eps it wants
    beyond u.  [eq-lik-posterior, eq-lik-explicit, eq-nuts-drop]

    target  "marginal": quadrature, for min(h, L-1) <= 2;  "explicit": one latent
            vector per row;  "auto": marginal where the integral is 1-D
    n_nodes per dimension of the quadrature (default of latent_nodes)
    -> (value_and_grad of q = [u, eps], N h or 0)
    """
    if target not in ("auto", "marginal", "explicit"):
        raise ValueError("target: expected 'auto', 'marginal' or 'explicit', got "
                         f"{target!r}")
    if target == "marginal" and shapes.rank > 2:
        raise ValueError("target: expected 'explicit' (or 'auto'), because the "
                         f"latent integral has {shapes.rank} dimensions, got "
                         "'marginal'")
    problem = dict(X=X, y=y, shapes=shapes, priors=priors)
    if target == "marginal" or target == "auto" and shapes.rank == 1:
        nodes = latent_nodes(shapes, n_nodes)
        return partial(marginal_value_and_grad, nodes=nodes, **problem), 0
    return partial(explicit_value_and_grad, **problem), len(X) * shapes.latent_dim


# book/roads/nuts.ipynb, cell nuts-72
CAVI_SWEEPS = 100


def _spawn(rng, n):
    """n Generators from a seed or a Generator; ValueError if it can have none."""
    rng = _check_rng(rng)
    try:
        return rng.spawn(n)
    except TypeError:
        raise ValueError("rng: expected a seed or a Generator that can spawn "
                         f"others, got {rng!r}") from None


def starting_points(X, y, shapes, priors, n_chains, init="cavi", rng=0):
    """White coordinates to start from, one row per chain.  [eq-lik-white]

    init "cavi": a draw from q of a short variational fit, a new fit for every
    chain;  "prior": a draw from the prior;  rng int or Generator -> (n_chains, P)
    """
    if init not in ("cavi", "prior"):
        raise ValueError(f"init: expected 'cavi' or 'prior', got {init!r}")
    K, h, L, d = shapes
    starts = []
    for chain_rng in _spawn(rng, check_count(n_chains, "n_chains")):
        if init == "prior":
            theta = sample_theta(priors, K, h, L, d, chain_rng)
        else:
            q = fit(X, y, K, h, L, priors, rng=chain_rng, max_sweeps=CAVI_SWEEPS)
            draws = sample_parameters(q.parameters, chain_rng, 1)
            theta = Theta(*(part[0] for part in draws))
        starts.append(to_white(pack(theta), shapes, priors))
    return np.array(starts)


# book/roads/nuts.ipynb, cell nuts-76
def _check_network(X, y, n_experts, latent_dim, n_classes, priors):
    """Data and sizes, checked.   -> X, y, Shapes"""
    X, y, sizes = check_problem(X, y, n_experts, latent_dim, n_classes)
    if not isinstance(priors, Priors):
        raise ValueError(f"priors: expected Priors, got {priors!r}")
    return X, y, Shapes(*sizes, X.shape[1])


# book/roads/nuts.ipynb, cell nuts-77
def sample_posterior(
        X, y, n_experts, latent_dim=None, n_classes=None,
        priors=Priors(),  # noqa: B008  Priors are frozen
        n_chains=16, n_warmup=800, n_draws=64, target="auto", init="cavi", rng=0,
        n_jobs=1, max_depth=10, target_accept=0.8, n_nodes=None, callback=None,
        checkpoint=None, checkpoint_every=30.0):
    """Draws of the parameters from their posterior by NUTS.
    [eq-lik-posterior, eq-nuts-stretch, eq-nuts-drop]

    X (N,d), standardised; y (N,) in 0..L-1; n_experts, latent_dim (L-1),
    n_classes (largest label + 1), priors
    n_chains, n_warmup, n_draws   16 x (800 + 64) is the paper's setting
    target, n_nodes   see posterior_target;   init  see starting_points
    rng               int or Generator
    n_jobs, max_depth, target_accept, callback, checkpoint, checkpoint_every
                      see nuts: callback(done, log density) counts to
                      n_chains * (n_warmup + n_draws)
    -> PosteriorDraws; log_joint is the log density of the target, in stats are
    energy, accept, depth, n_leapfrog, divergent, step
    """
    X, y, shapes = _check_network(
        X, y, n_experts, latent_dim, n_classes, priors)
    density, n_eps = posterior_target(X, y, shapes, priors, target, n_nodes)
    n_chains, rng = check_count(n_chains, "n_chains"), _check_rng(rng)
    _check_checkpoint(checkpoint)
    u = starting_points(X, y, shapes, priors, n_chains, init, rng)
    q0 = np.concatenate([u, rng.normal(size=(n_chains, n_eps))], 1)
    run = nuts(
        density, q0, n_warmup, n_draws, rng, target_accept, max_depth, n_jobs,
        None, None, callback, checkpoint, checkpoint_every)
    phi = from_white(run.draws[..., : shapes.n_params], shapes, priors)
    stats = dict(run.stats)
    return PosteriorDraws(unpack(phi, shapes), stats.pop("log_density"), stats)
