# Tangled from book/engineering/runs.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Runs that can be stopped

Every method of this book is a walk: a state, and a step that makes the next state from it. One
driver can therefore stop, store, resume, watch and share out among processes the runs of all of
them, and what was interrupted ends at the very bits of a run that never was.
"""

__all__ = ["never", "Work", "Run", "advance", "worker_pool", "in_turns", "portions", "store_run",
           "restore_run", "stored_generator", "Track", "drive", "Ascent", "has_converged",
           "ascent_work", "CAVI"]


# book/engineering/runs.ipynb, cell runs-02
import multiprocessing
import os
import signal
import time
import warnings
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from typing import NamedTuple

import numpy as np

from cmn_literate.checks import check_count
from cmn_literate.learners import Learner
from cmn_literate.engineering.fit import Fit, expand
from cmn_literate.engineering.sums import block_sweep, make_blocks
from cmn_literate.engineering.starts import init_parameters
from cmn_literate.network.elbo import global_kl
from cmn_literate.network.latents import Parameters
from cmn_literate.engineering.quadrature import predict_log_proba
from cmn_literate.storage import (
    check_writable, fingerprint, generator_from, generator_state, pack_tree,
    read_arrays, unpack_tree, write_arrays)


# book/engineering/runs.ipynb, cell runs-05
def never(state):
    """No state asks for an end: the run has all its steps.  [eq-run-step]"""
    return False


# book/engineering/runs.ipynb, cell runs-06
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


# book/engineering/runs.ipynb, cell runs-08
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


# book/engineering/runs.ipynb, cell runs-09
def _ignore_interrupts():
    """In a worker, Ctrl-C is left to the main process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def worker_pool(n_jobs):
    """A pool of n_jobs processes.  [eq-run-step]

    RuntimeError in one line where processes are spawned and cannot come up."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SystemExit(1)             # a worker that reads the caller's script
    try:
        with ProcessPoolExecutor(n_jobs, initializer=_ignore_interrupts) as pool:
            yield pool
    except BrokenProcessPool:
        raise RuntimeError(
            "n_jobs: the worker processes ended at once; where processes are spawned, "
            'a script must do its work under `if __name__ == "__main__":`, '
            "or ask for n_jobs=1") from None


def in_turns(tasks, n_jobs=1):
    """Call functions in n_jobs processes.  [eq-run-step]

    tasks: a deque of (name, function, arguments), to which the caller may add while
    it reads -> iterator over (name, value), in the order in which they are done
    """
    if n_jobs == 1:
        while tasks:
            name, function, arguments = tasks.popleft()
            yield name, function(*arguments)
        return
    with worker_pool(n_jobs) as pool:
        running = {}
        try:
            while tasks or running:
                while tasks:
                    name, function, arguments = tasks.popleft()
                    running[pool.submit(function, *arguments)] = name
                for job in wait(running, return_when=FIRST_COMPLETED)[0]:
                    yield running.pop(job), job.result()
        finally:
            for job in running:
                job.cancel()


def portions(work, states, done, n_jobs=1):
    """All chains to their ends in turns, portion by portion.  [eq-run-step]

    states, done: of each chain -> iterator over (chain, (state, done, records, fine))
    """
    tasks = deque()

    def add(c, state, done):
        if done < work.total and not work.stop(state):
            most = min(work.most, work.total - done)
            tasks.append((c, advance, (
                work.step, work.stop, state, done, most, work.seconds)))

    for c, (state, steps) in enumerate(zip(states, done)):
        add(c, state, steps)
    with closing(in_turns(tasks, n_jobs)) as results:
        for c, result in results:
            if result[3]:
                add(c, *result[:2])
            yield c, result


# book/engineering/runs.ipynb, cell runs-13
def _identity(work):
    """Fingerprint of a run."""
    rng = pack_tree(work.rng, {}, "rng") if work.rng is None else repr(work.rng)
    return fingerprint("run", work.problem, rng)


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


# book/engineering/runs.ipynb, cell runs-14
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
    check_writable(checkpoint)
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
    except FloatingPointError:
        track.now, reason = track.before, "not finite"
    run = track.run(reason)
    if checkpoint is not None and any(run.done):
        store_run(checkpoint, work, run)
    if reason == "interrupted" and not min(map(len, run.kept)):
        raise KeyboardInterrupt
    return run


def _lead(work, track, begun, callback, checkpoint, n_jobs):
    """Move the chains of a Track, showing and storing; FloatingPointError where a
    step cannot be made."""
    count, stored = work.count(begun.done), time.monotonic()
    with closing(portions(work, begun.states, begun.done, n_jobs)) as stream:
        for c, (state, done, rows, fine) in stream:
            if not fine:
                raise FloatingPointError
            track.move(c, state, done, rows)
            old, count = count, work.count([done for _, done, _ in track.now])
            due = time.monotonic() - stored >= work.every if work.timed else (
                count // work.every > old // work.every)
            if checkpoint is not None and due:
                store_run(checkpoint, work, track.run())
                stored = time.monotonic()
            if callback is not None and count > old:
                callback(count, work.objective([state for state, *_ in track.now], c))


# book/engineering/runs.ipynb, cell runs-19
class Ascent(NamedTuple):
    """State of coordinate ascent between two sweeps.  [eq-run-step]

    parameters Parameters; tilts: what each block of rows remembers; bound of the last
    sweep (nats; None before the first); converged
    """
    parameters: Parameters
    tilts: tuple
    bound: float
    converged: bool


class _Sweeper(NamedTuple):
    """What a sweep reads and does not change."""
    rows: tuple
    priors: object
    inner: int
    accelerate: bool
    least: float

    def __call__(self, state, t):
        blocks = [(rows, *tilt, None) for rows, tilt in zip(self.rows, state.tilts)]
        after, bound = block_sweep(blocks, state.parameters, self.priors, self.inner)
        if self.accelerate:
            bound += sum(global_kl(after, self.priors).values())
            after = expand(after, self.priors)
            bound -= sum(global_kl(after, self.priors).values())
        gain = np.inf if state.bound is None else bound - state.bound
        tilts = tuple(tuple(block[1:3]) for block in blocks)
        return Ascent(after, tilts, float(bound), bool(gain < self.least)), (bound,)


def has_converged(state):
    """Whether the last sweep gained too little to go on.  [eq-run-step]"""
    return state.converged


# book/engineering/runs.ipynb, cell runs-20
def ascent_work(Z, y, n_classes, settings, rng):
    """Coordinate ascent as a Work.  [eq-run-step]

    Z (N,d), y (N,) in 0..L-1; settings: n_experts, latent_dim, priors, init,
    max_sweeps, tol, inner, omega1, accelerate as in fit; rng Generator
    """
    s, shared = settings, settings.omega1 == "shared"
    h = n_classes - 1 if s.latent_dim is None else s.latent_dim
    sizes, rng_state = (s.n_experts, h, n_classes), generator_state(rng)
    blocks = make_blocks(Z, y, *sizes, shared)

    def start():
        parameters = init_parameters(Z, y, *sizes, s.priors, rng, s.init)
        tilts = tuple(tuple(block[1:3]) for block in blocks)
        return [Ascent(parameters, tilts, None, False)]

    def finish(run):
        elbo, = run.table()
        state, = run.states
        if run.reason != "steps":
            warnings.warn(f"{run.reason}: this is the fit after {elbo.size} whole "
                          "sweeps", stacklevel=3)
        return Fit(state.parameters, elbo[0], elbo.size, state.converged, n_classes,
                   s.priors, shared)

    step = _Sweeper(tuple(block[0] for block in blocks), s.priors, s.inner,
                    s.accelerate, s.tol * len(Z))
    return Work(start, step, s.max_sweeps, finish, ("cavi", Z, y, sizes, s.priors,
                s.init, s.tol, s.inner, s.omega1, s.accelerate), rng_state,
                lambda states, c: states[c].bound, has_converged,
                kinds=(Ascent, Parameters), every=100)


# book/engineering/runs.ipynb, cell runs-21
def _predict_ascent(result, Z):
    return predict_log_proba(result.parameters, Z)


def _pack_ascent(result):
    return {**result.parameters._asdict(), "elbo": result.elbo,
            "converged": np.array(bool(result.converged))}


def _unpack_ascent(arrays, settings):
    parameters = Parameters(*(arrays[name] for name in Parameters._fields))
    elbo, L = arrays["elbo"], len(arrays["beta1_mu"]) + 1
    return Fit(parameters=parameters, elbo=elbo, n_sweeps=len(elbo),
               converged=bool(arrays["converged"]), n_classes=L,
               priors=settings.priors, shared=settings.omega1 == "shared")


CAVI = Learner(
    ascent_work, _predict_ascent, _pack_ascent, _unpack_ascent,
    options={"checkpoint": None}, steps=lambda settings: settings.max_sweeps,
    objective="ELBO", step="sweep",
    advice="raise max_sweeps or tol, or use accelerate=True")
