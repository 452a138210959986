# Tangled from book/engineering/sources.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Sources: rows that are read again in every sweep

A sweep needs every row once, in any order, and keeps of it only its tilts. So a fit that reads the
rows anew in every sweep goes through the same numbers as one that holds them.
"""

__all__ = ["Moments", "block_moments", "merge_moments", "moment_scale", "Sample", "draw_sample",
           "Survey", "survey", "label_codes", "coded_blocks", "Pass", "Passes", "row_bytes",
           "passes", "source_work", "run_source", "fit_source"]


# book/engineering/sources.ipynb, cell sources-02
import os
from copy import copy, deepcopy
from numbers import Integral
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from cmn_literate.checks import check_count, check_optional, check_start_options, check_sweep_options
from cmn_literate.engineering.fit import Resume, finish, step
from cmn_literate.engineering.runs import CAVI, Work, drive, has_converged, stored_generator
from cmn_literate.engineering.starts import START_ROWS, init_parameters, key_generator
from cmn_literate.engineering.sums import Block, Rows, Sums, add_sums, block_size, estep, make_rows, prepare
from cmn_literate.inputs import as_generator, check_classes, check_memory, default_latent_dim, encode_labels, memory_bytes
from cmn_literate.learners import learner_options, progress_bar
from cmn_literate.network.latents import Parameters
from cmn_literate.network.simulate import Priors
from cmn_literate.readers import open_source
from cmn_literate.storage import fingerprint, generator_state
from cmn_literate.tilt_files import FileTilts, MemoryTilts


# book/engineering/sources.ipynb, cell sources-03
class Moments(NamedTuple):
    """What a block tells of its columns.  [eq-moments]

    n rows; mean (d,); square (d,) sum of (x - mean)^2; low, high (d,)
    """
    n: int
    mean: np.ndarray
    square: np.ndarray
    low: np.ndarray
    high: np.ndarray


def block_moments(X):
    """Moments of a block X (B,d), B >= 1.  [eq-moments]"""
    mean = X.mean(0)
    return Moments(len(X), mean, ((X - mean)**2).sum(0), X.min(0), X.max(0))


def merge_moments(left, right):
    """Moments of the rows of both.  [eq-moments-merge]"""
    n, gap = left.n + right.n, right.mean - left.mean
    return Moments(n, left.mean + gap * (right.n / n),
                   left.square + right.square + gap**2 * (left.n * right.n / n),
                   np.minimum(left.low, right.low), np.maximum(left.high, right.high))


# book/engineering/sources.ipynb, cell sources-04
def moment_scale(moments, standardize=True):
    """Mean and standard deviation of every column.  [eq-moments]

    -> m (d,), s (d,); s is 1 where a column is constant up to rounding.
    standardize=False: zeros and ones, which leave the rows as they are.
    """
    mean, d = moments.mean, len(moments.mean)
    if not standardize:
        return np.zeros(d), np.ones(d)
    scale = np.sqrt(moments.square / moments.n)
    top = np.maximum(moments.high - mean, mean - moments.low)
    flat = np.minimum(scale, top) <= 2 * np.finfo(float).eps * np.abs(mean)
    return mean, np.where(flat, 1.0, scale)


# book/engineering/sources.ipynb, cell sources-05
class Sample(NamedTuple):
    """Rows with the smallest keys so far.  [eq-sample-keys]

    keys (m,), X (m,d), y (m,): in the order of the rows
    """
    keys: np.ndarray
    X: np.ndarray
    y: np.ndarray


def draw_sample(sample, keys, X, y, most=START_ROWS):
    """A block goes by with its keys; the smallest stay.  [eq-sample-keys]

    sample Sample of the rows before, or None; keys (B,), X (B,d), y (B,) -> Sample"""
    if sample is not None:
        near = keys < sample.keys.max() if len(sample.keys) >= most else slice(None)
        keys, X, y = (np.concatenate(pair) for pair in zip(
            sample, (keys[near], X[near], y[near])))
    if len(keys) > most:
        stay = np.sort(np.argpartition(keys, most)[:most])
        keys, X, y = keys[stay], X[stay], y[stay]
    return Sample(keys, X, y)


# book/engineering/sources.ipynb, cell sources-06
class Survey(NamedTuple):
    """What the first pass has seen.  [eq-moments-merge, eq-sample-keys]

    n_rows, columns, moments Moments of all rows; classes (L,) sorted labels, counts (L,)
    samples     a Sample per start
    head        (rows, SHA-256) of the first block;  stamp of the source
    """
    n_rows: int
    columns: tuple
    moments: Moments
    classes: np.ndarray
    counts: np.ndarray
    samples: tuple
    head: tuple
    stamp: tuple


def _block_head(X, y):
    return len(X), fingerprint(X, *([] if y is None else np.asarray(y).tolist()))


def _count_labels(classes, counts, y, name):
    """Sorted labels and how often they came, with those of one more block."""
    new, more = np.unique(y, return_counts=True)
    if classes is None:
        return new, more
    kinds = {"U" if c.dtype.kind in "UOS" else "n" for c in (classes, new)}
    if len(kinds) > 1:
        raise ValueError(f"{name}: expected labels of one kind, got {classes[0]!r} and {new[0]!r}")
    both = np.unique(np.concatenate([classes, new]))
    out = np.zeros(len(both), int)
    out[np.searchsorted(both, classes)] += counts
    out[np.searchsorted(both, new)] += more
    return both, out


def survey(source, rngs, most=START_ROWS):
    """The first pass over a source.  [eq-moments-merge, eq-sample-keys]

    source RowSource with labels; rngs: one Generator per start, none is moved
    -> Survey.   ValueError if there are no labels, or if files change meanwhile.
    """
    stamp, moments, classes, counts, head = source.stamp(), None, None, None, None
    drawn = [key_generator(rng) for rng in rngs]
    samples = [None] * len(drawn)
    for X, y in source.blocks():
        if y is None:
            raise ValueError(f"{source.name}: expected labels, got rows without: name the target column")
        head = head or _block_head(X, y)
        here = block_moments(X)
        moments = here if moments is None else merge_moments(moments, here)
        classes, counts = _count_labels(classes, counts, y, source.name)
        samples = [draw_sample(sample, keys.random(len(X)), X, y, most)
                   for sample, keys in zip(samples, drawn)]
    if moments is None:
        raise ValueError(f"{source.name}: expected at least one row, got none")
    if source.stamp() != stamp:
        raise ValueError(_changed(source, stamp))
    return Survey(moments.n, source.columns, moments, classes, counts, tuple(samples),
                  head, stamp)


# book/engineering/sources.ipynb, cell sources-07
def _changed(source, stamp):
    """What to say of files that are not what they were."""
    other = [old[0] for old, new in zip(stamp, source.stamp()) if old != new]
    return (f"{other[0] if other else source.name}: expected the rows of the first pass, but "
            + ("the file has changed since" if other else "other rows came")
            + ": fit a copy that nobody writes to")


def label_codes(y, classes, name="y"):
    """Labels (B,) as places in the sorted classes.  ValueError for any other label."""
    codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    if not np.array_equal(classes[codes], y):
        other = np.asarray(y)[classes[codes] != y][0]
        raise ValueError(f"{name}: expected labels among {classes.tolist()}, got {other!r}")
    return codes


def coded_blocks(source, found, classes, mean, scale, size, start=0):
    """A pass in blocks of `size` rows, from row `start` on; the last may be short.

    found Survey; classes (L,) -> iterator over Z (size,d) = (X - mean) / scale and codes
    (size,).   ValueError if these are not the rows that the survey saw.
    """
    if source.stamp() != found.stamp:
        raise ValueError(_changed(source, found.stamp))
    if _block_head(*next(source.blocks(), ((), None))) != found.head:
        raise ValueError(_changed(source, found.stamp))
    kept_Z, kept_codes = np.empty((0, len(mean))), np.empty(0, int)
    for X, y in source.blocks(start):
        Z = np.concatenate([kept_Z, (X - mean) / scale])
        codes = np.concatenate([kept_codes, label_codes(y, classes, source.name)])
        start += len(X)
        end = len(Z) - len(Z) % size
        for s in range(0, end, size):
            yield Z[s:s + size], codes[s:s + size]
        kept_Z, kept_codes = Z[end:], codes[end:]
    if start != found.n_rows or source.stamp() != found.stamp:
        raise ValueError(_changed(source, found.stamp))
    if len(kept_Z):
        yield kept_Z, kept_codes


# book/engineering/sources.ipynb, cell sources-08
class Pass(NamedTuple):
    """State of a fit between two portions of rows.  [eq-portion]

    parameters  Parameters that the sweep under way began with
    sums        Sums of its rows so far, or None;   sweep, row: where it is
    bound       after the last whole sweep (nats), or None;   converged
    mark        of the tilts that were written last
    """
    parameters: Parameters
    sums: Sums
    sweep: int
    row: int
    bound: float
    converged: bool
    mark: str


# book/engineering/sources.ipynb, cell sources-09
class Passes:
    """Portion by portion through the rows: the step of a Work.  [eq-portion]

    read(start) -> iterator over (Z, codes) in blocks of `size` rows from row start on;
    sizes (N, K, J); settings: tol, inner, accelerate, priors, omega1 as in fit
    keep        rows stay in memory once they are read
    """

    def __init__(self, read, sizes, size, portion, tilts, settings, keep):
        self.read, (self.N, self.K, self.J) = read, sizes
        self.size, self.portion, self.tilts, self.s = size, portion, tilts, settings
        self.kept, self.stream, self.next, self.begun = ({} if keep else None), None, None, False

    def rows(self, block):
        """Rows of a block; reading goes on where it is, or begins again."""
        if self.kept is not None and block in self.kept:
            return self.kept[block]
        if block != self.next:
            self.stream, self.next = self.read(block * self.size), None
        Z, codes = next(self.stream)
        self.next = block + 1
        rows = make_rows(Z, codes, self.J + 1, self.size >= self.N)
        if self.kept is not None:
            self.kept[block] = rows
        return rows

    def remembered(self, sweep, block, b):
        """(omega, gamma) of the last sweep; before the first, xi1 = 0 and 1/K."""
        shared, K, (J, B) = self.s.omega1 == "shared", self.K, b.shape
        if sweep == 0:
            omega = np.repeat(0.25 * b[:, None, :], 1 if shared else K, axis=1)
            return omega, np.full((K, B), 1.0 / K) if shared else None
        table = self.tilts.read(sweep, block, self.shape(B))
        if shared:
            return table[:J, None, :], table[J:]
        return table.reshape(J, K, B), None

    def shape(self, B):
        """Shape of what is kept of B rows."""
        return (self.J + self.K if self.s.omega1 == "shared" else self.J * self.K), B

    def check(self, s):
        """The tilts must be those that the state was stored with."""
        sweep, row = (s.sweep, s.row) if s.row else (s.sweep - 1, self.N)
        block = (row - 1) // self.size
        B = min(self.size, self.N - block * self.size)
        self.tilts.check(sweep, block, self.shape(B), s.mark)

    def __call__(self, state, t):
        s, total = state, state.sums
        if t and not self.begun:
            self.check(s)
        self.begun = True
        prep, last = prepare(s.parameters), min(s.row + self.portion, self.N)
        with np.errstate():
            np.setbufsize(16)               # ends with this block, in this thread
            for block in range(s.row // self.size, -(-last // self.size)):
                rows = self.rows(block)
                omega, gamma = self.remembered(s.sweep, block, rows.b)
                sums, omega, fresh = estep(prep, rows, omega, self.s.inner, gamma)
                total = sums if total is None else add_sums(total, sums)
                table = omega.reshape(-1, omega.shape[-1])
                self.tilts.write(s.sweep, block, table if gamma is None else
                                 np.concatenate([table, fresh]))
        mark = self.tilts.settle(s.sweep, block)
        if last < self.N:
            return s._replace(sums=total, row=last, mark=mark), None
        parameters, bound, converged = self.close(s, total)
        return Pass(parameters, None, s.sweep + 1, 0, bound, converged, mark), (bound,)

    def close(self, s, total):
        """The end of a sweep: the step of the fit, whose E-step knows the sums."""
        everything = Rows(None, np.empty((0, self.N)), None)
        elbo = () if s.bound is None else (s.bound,)
        before = Resume(s.parameters, (Block(everything, None),), elbo, False, self.J + 1,
                        self.s.priors, self.s.omega1 == "shared")
        after = step(before, self.s.tol, self.s.inner, self.s.accelerate,
                     lambda *_: (total, None, None))
        return after.parameters, after.elbo[-1], after.converged


# book/engineering/sources.ipynb, cell sources-10
def row_bytes(d, n_experts, n_classes, shared=False):
    """Bytes that a fit keeps of one row: laid out, and its tilts."""
    J = n_classes - 1
    return 8 * (d + 1 + 2 * J), 8 * (J + n_experts if shared else J * n_experts)


def passes(source, found, classes, scaling, settings, portion=1 << 18, size=None):
    """The step of a fit from a source, with what is kept where the budget puts it.

    found Survey, scaling (mean, scale); settings with memory and checkpoint -> Passes
    """
    s, N, d, L = settings, found.n_rows, len(found.columns), len(classes)
    h = s.latent_dim
    size = size or block_size(N, d + 1, s.n_experts, h, L - 1)
    laid, tilt = row_bytes(d, s.n_experts, L, s.omega1 == "shared")
    budget, path = memory_bytes(s.memory), s.checkpoint
    in_files = path is not None or tilt * N > budget
    tilts = FileTilts(tilt // 8, size, path) if in_files else MemoryTilts()
    keep = (laid + (0 if in_files else tilt)) * N <= budget
    read = lambda start: coded_blocks(source, found, classes, *scaling, size, start)
    return Passes(read, (N, s.n_experts, L - 1), size, max(portion // size, 1) * size,
                  tilts, s, keep)


def source_work(source, found, classes, scaling, settings, rng, i=0, **sizes):
    """A fit from a source as a Work, which finishes as a Fit.  [eq-portion]

    rng: the Generator of start i of the survey;   sizes as in passes"""
    s, origin, (mean, scale) = settings, generator_state(rng), scaling
    step = passes(source, found, classes, scaling, s, **sizes)
    sample, L = found.samples[i], len(classes)

    def start():
        first = init_parameters(
            (sample.X - mean) / scale, label_codes(sample.y, classes), s.n_experts,
            s.latent_dim, L, s.priors, deepcopy(rng), s.init)
        return [Pass(first, None, 0, 0, None, False, "")]

    def done(run):
        (state,), elbo = run.states, tuple(bound for bound, in run.kept[0])
        saddle = s.n_experts > 1 and not state.parameters.M.any()
        return finish(Resume(state.parameters, (), elbo, state.converged and not saddle,
                             L, s.priors, s.omega1 == "shared"))

    turns = -(-step.N // step.portion)
    rows = lambda done: done[0] // turns * step.N + done[0] % turns * step.portion
    problem = ("cavi out of core", found.n_rows, found.columns, found.moments, classes.tolist(),
               found.counts, found.head, mean, scale, s.n_experts, s.latent_dim, s.priors,
               s.init, s.tol, s.inner, s.omega1, s.accelerate, step.size, step.portion)
    return Work(start, step, s.max_sweeps * turns, done, problem, origin,
                lambda states, c: np.nan if states[c].bound is None else states[c].bound,
                has_converged, rows, kinds=(Pass, Parameters, Sums), every=1)


# book/engineering/sources.ipynb, cell sources-11
def run_source(source, found, classes, scaling, settings, rng, i=0, label="", **sizes):
    """One start of a fit from a source.  [eq-portion]

    settings: names of the estimator's options, and checkpoint; rng of start i
    -> Fit, whether Ctrl-C ended it
    """
    s = settings
    work = source_work(source, found, classes, scaling, s, rng, i, **sizes)
    by_rows = CAVI._replace(step="row")
    with progress_bar(s.verbose, s.max_sweeps * found.n_rows, label, by_rows) as shown:
        run = drive(work, shown, s.checkpoint)
    return work.finish(run), run.reason == "interrupted"


# book/engineering/sources.ipynb, cell sources-12
def fit_source(source, n_experts=10, latent_dim=None, classes=None,
               priors=Priors(),  # noqa: B008  Priors are frozen
               rng=0, init="class-code", max_sweeps=500, tol=1e-6, inner=1,
               omega1="per-component", accelerate=False, standardize=False,
               memory=None, checkpoint=None, verbose=0, **sizes):
    """CAVI for rows that are read anew in every sweep.  [eq-portion, eq-sweep]

    source      what open_source takes;   memory as in CMNClassifier
    checkpoint  a file that the run is kept in, and goes on from; two files with the
                tilts stand beside it
    sizes       portion, size: rows per step and per block.   Others as in fit
    -> Fit.   ValueError names a bad argument, file or row.
    """
    source, priors_ok = open_source(source), check_start_options(priors, rng, init, omega1, Priors)
    check_sweep_options(max_sweeps, tol, inner, accelerate, None)
    s = SimpleNamespace(**{k: v for k, v in locals().items() if k not in ("source", "sizes", "priors_ok")})
    check_count(n_experts, "n_experts")
    rng = stored_generator(checkpoint) or np.random.default_rng(rng)
    found = survey(source, [rng])
    known, _ = encode_labels(found.classes, classes)
    s.latent_dim = latent_dim or len(known) - 1
    return run_source(source, found, known, moment_scale(found.moments, standardize), s, rng, **sizes)[0]
