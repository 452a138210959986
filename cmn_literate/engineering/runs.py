# Tangled from book/engineering/runs.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Runs that can be stopped

Every method of this book is a walk: a state, and a step that makes the next state from it. One
driver can therefore stop, store, resume, watch and share out among processes the runs of all of
them, and what was interrupted ends at the very bits of a run that never was.
"""

__all__ = ["never", "Work", "Run", "advance", "portions", "store_run", "restore_run",
           "stored_generator", "StepBack", "Track", "drive", "objective_trace", "run_learner",
           "Ascent", "has_converged", "ascent_work", "predict_factors", "pack_factors", "CAVI"]


# book/engineering/runs.ipynb, cell runs-02
import os
import time
import warnings
from collections.abc import Callable
from contextlib import closing
from copy import copy
from functools import partial
from numbers import Integral
from typing import NamedTuple

import numpy as np

from cmn_literate.checks import check_checkpoint, check_count
from cmn_literate.compiled import find_estep
from cmn_literate.engineering.chains import run_chains
from cmn_literate.engineering.fit import Fit, Resume, begin, finish, step
from cmn_literate.engineering.quadrature import predict_log_proba
from cmn_literate.engineering.sums import Block, estep
from cmn_literate.inputs import default_latent_dim
from cmn_literate.learners import (
    Learner, find_learner, learner_options, progress_bar)
from cmn_literate.network.latents import Parameters
from cmn_literate.parallel import effective_jobs, one_blas_thread
from cmn_literate.storage import (
    fingerprint, generator_from, generator_state, pack_tree, read_arrays,
    unpack_tree, write_arrays)


# book/engineering/runs.ipynb, cell runs-07
def never(state):
    """No state asks for an end: the run has all its steps.  [eq-run-step]"""
    return False


# book/engineering/runs.ipynb, cell runs-08
class Work(NamedTuple):
    """A run before its first step.  [eq-run-step]

    start      () -> the states, one per chain
    step       (state, t) -> the next state, and the record of the step: a tuple of
               numbers and arrays, or None.  (None, None) where no step can be made
               (portions of one step only): the step before is then taken back
    total      steps of a chain
    finish     Run -> result of the method
    problem    what tells this run from others: data, options
    rng        generator_state of the Generator that it starts from, or None
    objective  (states, chain that moved) -> number to show
    stop       state -> whether it asks for no more steps
    count      steps of each chain -> what is shown and counted for checkpoints
    kinds      the named tuples that a state is made of
    most, seconds        how long a portion is between two looks
    every, timed         a checkpoint after so many steps, or seconds
    """
    start: Callable
    step: Callable
    total: int
    finish: Callable
    problem: tuple
    rng: dict
    objective: Callable
    stop: Callable = never
    count: Callable = min
    kinds: tuple = ()
    most: int = 1
    seconds: float = np.inf
    every: float = 1000
    timed: bool = False


class Run(NamedTuple):
    """What a run has come to.  [eq-run-resume]

    states, done, kept   of each chain: state, steps, list of records
    reason               "steps" (all are done), "interrupted" or "not finite"
    """
    states: list
    done: list
    kept: list
    reason: str = "steps"

    def table(self):
        """The records that all chains have, as arrays (chains, records, ...)."""
        n = min(map(len, self.kept))
        chains = [zip(*rows[:n]) for rows in self.kept]
        return [np.array(column) for column in zip(*chains)]


# book/engineering/runs.ipynb, cell runs-10
def advance(step, stop, state, done, most, seconds=np.inf):
    """At most `most` steps of one chain, and no new one after so many seconds.
    [eq-run-step]

    step, stop as in Work -> state, done, records, whether every step could be made
    """
    rows, clock = [], time.monotonic()
    for t in range(done, done + most):
        after, row = step(state, t)
        if after is None:
            return state, t, rows, False
        state, done = after, t + 1
        if row is not None:
            rows.append(row)
        if stop(state) or time.monotonic() - clock > seconds:
            break
    return state, done, rows, True


# book/engineering/runs.ipynb, cell runs-11
def _portion(chain, step, stop, total, most, seconds):
    """A portion of the chain (number, state, done).   -> chain, (records, fine)"""
    c, state, done = chain
    state, done, rows, fine = advance(
        step, stop, state, done, min(most, total - done), seconds)
    return (c, state, done), (rows, fine)


def portions(work, states, done, n_jobs=1):
    """All chains to their ends in turns, portion by portion.
    [eq-run-step, eq-chain-commute]

    states, done: of each chain -> iterator over ((chain, state, done), (records, fine))
    """
    w = work
    move = partial(_portion, step=w.step, stop=w.stop, total=w.total, most=w.most,
                   seconds=w.seconds)
    chains = zip(range(len(states)), states, done)
    return run_chains(move, chains, lambda chain: chain[2] < w.total
                      and not w.stop(chain[1]), n_jobs)


# book/engineering/runs.ipynb, cell runs-15
def _identity(work):
    """Fingerprint of a run."""
    arrays = {}
    rng = repr(pack_tree(work.rng, arrays, "rng"))
    return fingerprint("run", work.problem, rng, *arrays.values())


def store_run(path, work, run):
    """Write a run to its file.  [eq-run-resume]"""
    arrays = {}
    states = pack_tree(list(run.states), arrays, "state")
    rng = pack_tree(work.rng, arrays, "rng")
    for c, rows in enumerate(run.kept):
        columns = map(np.array, zip(*rows))
        arrays |= {f"kept{c}.{i}": column for i, column in enumerate(columns)}
    write_arrays(path, arrays, kind="run", identity=_identity(work), rng=rng,
                 states=states, done=list(run.done), kept=list(map(len, run.kept)))


def _read_run(path):
    """Header and arrays of a file of store_run; ValueError if it is another."""
    arrays = read_arrays(path)
    header = arrays.pop("header")
    if header.get("kind") != "run":
        raise ValueError(f"checkpoint: expected a file of a run, got {path}")
    return header, arrays


def restore_run(path, work):
    """The Run in the file of this very problem.  [eq-run-resume]

    ValueError for a run of another problem, or of more steps."""
    header, arrays = _read_run(path)
    if header["identity"] != _identity(work):
        raise ValueError("checkpoint: expected a run of this problem, seed and "
                         f"options, got another one in {path}")
    if max(header["done"]) > work.total:
        raise ValueError(f"checkpoint: expected at most {work.total} steps, got "
                         f"{max(header['done'])} in {path}: ask for more draws or "
                         "steps")
    kept = []
    for c, n in enumerate(header["kept"]):
        names = [name for name in arrays if name.startswith(f"kept{c}.")]
        names.sort(key=lambda name: int(name.rpartition(".")[2]))
        kept.append(list(zip(*(arrays[name] for name in names))) if n else [])
    return Run(unpack_tree(header["states"], arrays, work.kinds), header["done"], kept)


def stored_generator(path):
    """The Generator from which the run in the file began, or None without one.
    [eq-run-resume]   path may be None, or name no file yet"""
    if path is None or not os.path.exists(path):
        return None
    header, arrays = _read_run(path)
    state = unpack_tree(header["rng"], arrays)
    return None if state is None else generator_from(state)


# book/engineering/runs.ipynb, cell runs-16
class StepBack(Exception):
    """No step can be made from here: the one before is taken back."""


class Track:
    """A run on its way: whatever moment an interrupt takes, run() is whole.
    [eq-run-resume]"""

    def __init__(self, run):
        self.kept = [list(rows) for rows in run.kept]
        lengths = map(len, run.kept)
        self.now = list(zip(run.states, run.done, lengths))
        self.before = list(self.now)

    def move(self, c, state, done, rows):
        """Chain c has come to a state, and left records behind."""
        self.kept[c].extend(rows)
        self.before[c] = self.now[c]
        self.now[c] = state, done, len(self.kept[c])             # one assignment

    def run(self, reason="steps"):
        """Run of the states that are whole."""
        states, done, lengths = zip(*self.now)
        kept = [rows[:n] for rows, n in zip(self.kept, lengths)]
        return Run(list(states), list(done), kept, reason)


def drive(work, callback=None, checkpoint=None, n_jobs=1):
    """Lead all chains to their ends.  [eq-run-step, eq-run-resume]

    callback(done, value)   after each portion: work.count of the steps, the objective
    checkpoint   a file, written every work.every steps or seconds and at the end; if
                 it exists, the run goes on from it, bit for bit
    n_jobs       processes; the run does not depend on it
    -> Run.  Ctrl-C ends it at the last whole portions, reason "interrupted"; it is
    KeyboardInterrupt if nothing has been kept yet.  ValueError: checkpoint, n_jobs.
    """
    check_checkpoint(checkpoint)
    n_jobs = check_count(n_jobs, "n_jobs")
    if checkpoint is not None and os.path.exists(checkpoint):
        begun = restore_run(checkpoint, work)
    else:
        states = list(work.start())
        begun = Run(states, [0] * len(states), [[] for _ in states])
    track, reason = Track(begun), "steps"
    try:
        _lead(work, track, begun, callback, checkpoint, n_jobs)
    except KeyboardInterrupt:
        reason = "interrupted"
    except StepBack:
        track.now, reason = track.before, "not finite"
    finally:
        run = track.run(reason)
        if checkpoint is not None and any(run.done):
            store_run(checkpoint, work, run)
    if reason == "interrupted" and not min(map(len, run.kept)):
        raise KeyboardInterrupt
    return run


def _lead(work, track, begun, callback, checkpoint, n_jobs):
    """Move the chains of a Track, showing and storing; StepBack where a step
    cannot be made."""
    count, stored = work.count(begun.done), time.monotonic()
    with closing(portions(work, begun.states, begun.done, n_jobs)) as stream:
        for (c, state, done), (rows, fine) in stream:
            if not fine:
                raise StepBack
            track.move(c, state, done, rows)
            old, count = count, work.count([done for _, done, _ in track.now])
            due = time.monotonic() - stored >= work.every if work.timed else (
                count // work.every > old // work.every)
            if checkpoint is not None and due:
                store_run(checkpoint, work, track.run())
                stored = time.monotonic()
            if callback is not None and count > old:
                callback(count, work.objective([state for state, *_ in track.now], c))


# book/engineering/runs.ipynb, cell runs-21
def objective_trace(result):
    """The objective of a result after every step, (n_steps,).  [eq-run-step]"""
    return result.elbo if hasattr(result, "elbo") else result.trace


def run_learner(settings, Z, y, n_classes, rng, label="", weight=None):
    """One start of the learner that settings.method names.
    [eq-run-step, eq-run-resume]

    settings: names of the estimator's options; Z (N,d), y (N,) in 0..n_classes-1;
    weight (N,) of the rows, for learners that take weights, or None
    -> its result, whether Ctrl-C ended it.  A latent_dim of None becomes
    default_latent_dim; without a whole number as random_state a checkpoint goes on
    from the generator that it began with.
    """
    learner, options = find_learner(settings.method), learner_options(settings)
    path, settings = options.get("checkpoint"), copy(settings)
    settings.latent_dim = settings.latent_dim or default_latent_dim(n_classes)
    if not isinstance(settings.random_state, Integral):      # no seed to compare
        rng = stored_generator(path) or rng
    steps = learner.steps(settings)
    asked, more = getattr(settings, "n_jobs", None), () if weight is None else (weight,)
    jobs = options.get("n_jobs", 1)              # processes, where the method has them
    if "n_jobs" in options and "n_jobs" not in (settings.method_options or {}):
        jobs = effective_jobs(asked)
    with (progress_bar(settings.verbose, steps, label, learner) as callback,
          one_blas_thread(asked)):
        work = learner.begin(Z, y, n_classes, settings, rng, *more)
        run = drive(work, callback, path, jobs)
    return work.finish(run), run.reason == "interrupted"


# book/engineering/runs.ipynb, cell runs-23
class Ascent(NamedTuple):
    """State of coordinate ascent between two sweeps.  [eq-run-step]

    parameters Parameters; tilts: what each block remembers, (omega, gamma); bound of
    the last sweep (nats; None before the first); converged; pace as in Resume
    """
    parameters: Parameters
    tilts: tuple
    bound: float
    converged: bool
    pace: tuple = None


class _Sweeper(NamedTuple):
    """What a sweep reads and does not change: the rows, and how to step."""
    begun: Resume
    tol: float
    inner: int
    accelerate: bool | str
    n_jobs: int
    estep: Callable

    def __call__(self, state, t):
        blocks = tuple(Block(block.rows, *tilt) for block, tilt in zip(
            self.begun.blocks, state.tilts))
        elbo = () if state.bound is None else (state.bound,)
        after = step(self.begun._replace(
            parameters=state.parameters, blocks=blocks, elbo=elbo, pace=state.pace), self.tol,
            self.inner, self.accelerate, self.estep, self.n_jobs)
        bound = after.elbo[-1]
        return Ascent(after.parameters, _tilts(after), bound, after.converged,
                      after.pace), (bound,)


def _tilts(resume):
    return tuple((block.omega, block.gamma) for block in resume.blocks)


def has_converged(state):
    """Whether the last sweep gained too little to go on.  [eq-run-step]"""
    return state.converged


# book/engineering/runs.ipynb, cell runs-24
def ascent_work(Z, y, n_classes, settings, rng, weight=None):
    """Coordinate ascent as a Work, which finishes as a Fit.  [eq-run-step]

    Z (N,d), y (N,) in 0..L-1, weight (N,) or None; settings: n_experts, latent_dim, priors, init,
    max_sweeps, tol, inner, omega1, accelerate as in fit; rng Generator
    Experts that are all alike and empty, the saddle, have not converged.
    """
    s, origin = settings, generator_state(rng)
    begun = begin(Z, y, s.n_experts, s.latent_dim, n_classes, s.priors, rng, s.init,
                  s.omega1, weight)
    first = Ascent(begun.parameters, _tilts(begun), None, False)

    def ascended(run):
        (state,), elbo = run.states, tuple(bound for bound, in run.kept[0])
        if run.reason != "steps":
            warnings.warn(f"{run.reason}: this is the fit after {len(elbo)} whole "
                          "sweeps", stacklevel=3)
        saddle = len(state.parameters.M) > 1 and not state.parameters.M.any()
        return finish(begun._replace(parameters=state.parameters, elbo=elbo,
                                     converged=state.converged and not saddle))

    problem = ("cavi", Z, y, n_classes, s.n_experts, s.latent_dim, s.priors, s.init,
               s.tol, s.inner, s.omega1, s.accelerate,
               *(() if weight is None else (weight,)))
    kernel = find_estep(len(y), s.n_experts, n_classes - 1, begun.shared) or estep
    sweeper = _Sweeper(begun, s.tol, s.inner, s.accelerate,
                       effective_jobs(getattr(s, "n_jobs", 1)), kernel)
    return Work(lambda: [first], sweeper,
                s.max_sweeps, ascended, problem, origin,
                lambda states, c: states[c].bound, has_converged,
                kinds=(Ascent, Parameters), every=100)


# book/engineering/runs.ipynb, cell runs-25
def predict_factors(result, Z):
    """Forecast of a result with the factors of q.  [eq-predict]

    result.parameters Parameters; Z (n,d) -> (n, L) nats
    """
    return predict_log_proba(result.parameters, Z)


def pack_factors(result):
    """Factors of q, bounds per step and converged as a dict of arrays.
    [eq-run-resume]"""
    return {**result.parameters._asdict(), "elbo": result.elbo,
            "converged": np.array(bool(result.converged))}


def _unpack_ascent(arrays, settings):
    parameters = Parameters(*(arrays[name] for name in Parameters._fields))
    elbo, L = arrays["elbo"], len(arrays["beta1_mu"]) + 1
    return Fit(parameters=parameters, elbo=elbo, n_sweeps=len(elbo),
               converged=bool(arrays["converged"]), n_classes=L,
               priors=settings.priors, shared=settings.omega1 == "shared")


CAVI = Learner(
    ascent_work, predict_factors, pack_factors, _unpack_ascent,
    options={"checkpoint": None}, steps=lambda settings: settings.max_sweeps,
    objective="ELBO", step="sweep",
    advice="raise max_sweeps or tol, or use accelerate=True", weights="any")
