# Tangled from book/engineering/out_of_core.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Out of core: a fit larger than memory

Of every row, a sweep hands on its tilts and nothing else. A fit that reads the rows anew in each
sweep is the fit in memory, bit for bit if its blocks are the same, and it goes on from any block
of any sweep.
"""

__all__ = ["Pass", "Passes", "row_bytes", "passes", "source_work", "run_source", "fit_source",
           "weigh_classes", "CLUSTER", "learn_source"]


# book/engineering/out_of_core.ipynb, cell out_of_core-02
from copy import copy, deepcopy
from importlib import import_module
from numbers import Integral
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from cmn_literate.checks import check_count, check_start_options, check_sweep_options
from cmn_literate.compiled import find_estep
from cmn_literate.engineering.fit import Resume, finish, step
from cmn_literate.engineering.runs import (
    CAVI, Work, drive, has_converged, stored_generator)
from cmn_literate.engineering.sources import (
    coded_blocks, label_codes, moment_scale, survey)
from cmn_literate.engineering.starts import START_ROWS, init_parameters
from cmn_literate.engineering.sums import (
    Block, Rows, Sums, add_sums, block_size, estep, make_rows, prepare)
from cmn_literate.inputs import (
    as_generator, check_classes, check_memory, check_squares, class_factors,
    default_latent_dim, encode_labels, memory_bytes, weigh_rows)
from cmn_literate.learners import (
    check_learner_weights, choose_method, find_learner, learner_options, progress_bar,
    settle_method)
from cmn_literate.network.latents import Parameters
from cmn_literate.network.simulate import Priors
from cmn_literate.parallel import effective_jobs, in_order, one_blas_thread
from cmn_literate.readers import active_client, load_rows, open_source, source_of
from cmn_literate.row_sources import WeighedSource
from cmn_literate.storage import generator_state
from cmn_literate.tilt_files import FileTilts, MemoryTilts


# book/engineering/out_of_core.ipynb, cell out_of_core-07
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


# book/engineering/out_of_core.ipynb, cell out_of_core-09
class Passes:
    """Portion by portion through the rows: the step of a Work.  [eq-portion]

    read(start) -> iterator over (Z, codes) or (Z, codes, weight) in blocks of `size`
    rows from row start on;  sizes (N, K, J, total weight)
    settings: tol, inner, accelerate, priors, omega1, n_jobs as in fit; of the blocks of
    a portion, n_jobs threads make the E-step, and no bit depends on it [eq-fixed-order]
    keep        rows stay in memory once they are read
    """

    def __init__(self, read, sizes, size, portion, tilts, settings, keep):
        self.read, (self.N, self.K, self.J, self.total) = read, sizes
        self.size, self.portion, self.tilts, self.s = size, portion, tilts, settings
        self.kept, self.stream, self.next, self.begun = ({} if keep else None), None, None, False
        self.jobs = effective_jobs(getattr(settings, "n_jobs", 1))
        self.estep = find_estep(self.N, self.K, self.J, settings.omega1 == "shared") or estep

    def rows(self, block):
        """Rows of a block; reading goes on where it is, or begins again."""
        if self.kept is not None and block in self.kept:
            return self.kept[block]
        if block != self.next:
            self.stream, self.next = self.read(block * self.size), None
        Z, codes, *weight = next(self.stream)
        self.next = block + 1
        rows = make_rows(Z, codes, self.J + 1, self.size >= self.N, *weight)
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

    def task(self, sweep, block):
        """What the E-step of a block needs: rows, omega, gamma."""
        rows = self.rows(block)
        return rows, *self.remembered(sweep, block, rows.b)

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
        blocks = range(s.row // self.size, -(-last // self.size))

        def visit(task):
            rows, omega, gamma = task
            with np.errstate():
                np.setbufsize(16)           # ends with this block, in this thread
                return self.estep(prep, rows, omega, self.s.inner, gamma)

        tasks = (self.task(s.sweep, block) for block in blocks)     # read as they are needed
        for block, (sums, omega, gamma) in zip(blocks, in_order(visit, tasks, self.jobs)):
            total = sums if total is None else add_sums(total, sums)
            table = omega.reshape(-1, omega.shape[-1])
            self.tilts.write(s.sweep, block, np.concatenate([table, gamma])
                             if self.s.omega1 == "shared" else table)
        mark = self.tilts.settle(s.sweep, block)
        if last < self.N:
            return s._replace(sums=total, row=last, mark=mark), None
        parameters, bound, converged = self.close(s, total)
        return Pass(parameters, None, s.sweep + 1, 0, bound, converged, mark), (bound,)

    def close(self, s, total):
        """The end of a sweep: the step of the fit, whose E-step knows the sums."""
        everything = Rows(None, None, None, weight=np.array([self.total]))
        elbo = () if s.bound is None else (s.bound,)
        before = Resume(s.parameters, (Block(everything, None),), elbo, False, self.J + 1,
                        self.s.priors, self.s.omega1 == "shared")
        after = step(before, self.s.tol, self.s.inner, self.s.accelerate,
                     lambda *_: (total, None, None))
        return after.parameters, after.elbo[-1], after.converged


# book/engineering/out_of_core.ipynb, cell out_of_core-10
def row_bytes(d, n_experts, n_classes, shared=False, weighted=False):
    """Bytes that a fit keeps of one row: laid out, and its tilts.  [eq-row-bytes]"""
    J = n_classes - 1
    return 8 * (d + 1 + 2 * J + weighted), 8 * (J + n_experts if shared else J * n_experts)


def passes(source, found, classes, scaling, settings, portion=1 << 18, size=None):
    """The step of a fit from a source, with what is kept where the budget puts it.
    [eq-row-bytes]

    found Survey, scaling (mean, scale); settings with memory and checkpoint -> Passes
    """
    s, N, d, L = settings, found.n_rows, len(found.columns), len(classes)
    h = s.latent_dim
    size = size or block_size(N, d + 1, s.n_experts, h, L - 1)
    laid, tilt = row_bytes(d, s.n_experts, L, s.omega1 == "shared", source.weight is not None)
    budget, path = memory_bytes(s.memory), s.checkpoint
    in_files = path is not None or tilt * N > budget
    tilts = FileTilts(tilt // 8, size, path) if in_files else MemoryTilts()
    keep = (laid + (0 if in_files else tilt)) * N <= budget
    read = lambda start: coded_blocks(source, found, classes, *scaling, size, start)
    return Passes(read, (N, s.n_experts, L - 1, found.moments.n), size, max(portion // size, 1) * size,
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


# book/engineering/out_of_core.ipynb, cell out_of_core-11
def run_source(source, found, classes, scaling, settings, rng, i=0, label="", **sizes):
    """One start of a fit from a source.  [eq-portion]

    settings: names of the estimator's options, and checkpoint; rng of start i
    -> Fit, whether Ctrl-C ended it
    """
    s = settings
    work = source_work(source, found, classes, scaling, s, rng, i, **sizes)
    by_rows = CAVI._replace(step="row")
    with (progress_bar(s.verbose, s.max_sweeps * found.n_rows, label, by_rows) as shown,
          one_blas_thread(getattr(s, "n_jobs", None))):
        run = drive(work, shown, s.checkpoint)
    return work.finish(run), run.reason == "interrupted"


# book/engineering/out_of_core.ipynb, cell out_of_core-12
def fit_source(source, n_experts=10, latent_dim=None, classes=None,
               priors=Priors(),  # noqa: B008  Priors are frozen
               rng=0, init="class-code", max_sweeps=500, tol=1e-6, inner=1,
               omega1="per-component", accelerate=False, standardize=False,
               memory=None, checkpoint=None, verbose=0, n_jobs=None, **sizes):
    """CAVI for rows that are read anew in every sweep.  [eq-portion, eq-sweep]

    source      what open_source takes, weights included;   memory as in CMNClassifier
    checkpoint  a file that the run is kept in, and goes on from; two files with the
                tilts stand beside it
    sizes       portion, size: rows per step and per block.   Others as in fit
    n_jobs      threads, as in parallel.effective_jobs; no bit depends on it
    -> Fit.   ValueError names a bad argument, file or row.
    """
    source, priors_ok = open_source(source), check_start_options(priors, rng, init, omega1, Priors)
    check_sweep_options(max_sweeps, tol, inner, accelerate, None, relaxed=False)
    s = SimpleNamespace(**{k: v for k, v in locals().items() if k not in ("source", "sizes", "priors_ok")})
    check_count(n_experts, "n_experts")
    kept = None if isinstance(rng, Integral) else stored_generator(checkpoint)
    rng = kept or np.random.default_rng(rng)
    found = survey(source, [rng])
    known, _ = encode_labels(found.classes, classes)
    s.latent_dim = latent_dim or len(known) - 1
    return run_source(source, found, known, moment_scale(found.moments, standardize), s, rng, **sizes)[0]


# book/engineering/out_of_core.ipynb, cell out_of_core-19
def _asks_for_arrays(est):
    """The option, if any, with which a fit cannot do with rows that pass by."""
    if est.method not in ("auto", "cavi"):
        return "method"
    if est.accelerate == "relaxed":
        return "accelerate"
    return "select" if est.select == "holdout" and est.n_init > 1 else ""


def _streamed(est, source, path):
    """Survey and generators of a fit from a source; ValueError for what it cannot do."""
    if name := _asks_for_arrays(est):
        others = {"method": "cavi", "select": "average or elbo", "accelerate": "True or False"}[name]
        raise ValueError(f"{name}: expected {others} for the rows of {source.name}, which "
                         f"need more than memory={est.memory!r}, got {vars(est)[name]!r}")
    rngs = as_generator(est.random_state).spawn(est.n_init)
    if not isinstance(est.random_state, Integral):
        rngs[0] = stored_generator(path) or rngs[0]
    return survey(source, rngs), rngs


def weigh_classes(source, class_weight, classes=None):
    """The source whose weights are those of its rows times those of their classes.
    [eq-weighted-bound]

    class_weight, classes as in CMNClassifier; without class_weight the source itself,
    else it is read once for its labels.   ValueError as in inputs.class_factors
    """
    if class_weight is None:
        return source
    found = survey(source, [])
    labels, places = encode_labels(found.classes, classes)
    of_class = np.bincount(places, found.counts, len(labels))
    return WeighedSource(source, labels, class_factors(labels, of_class, class_weight))


def _check_rows(source, n_rows):
    if n_rows < 2:
        raise ValueError(f"{source.name}: expected at least 2 rows, got {n_rows}")


def _load(est, source):
    """The rows (X, codes, weight) of a source with classes, or None if they are too many."""
    d, K, shared, limit = len(source.columns), est.n_experts, est.omega1 == "shared", memory_bytes(est.memory)
    method, weighted = choose_method(est, True), source.weight is not None
    top = limit if method != "cavi" or _asks_for_arrays(est) else START_ROWS
    copies = find_learner(method).copies(est)
    rows = load_rows(source, lambda L: min(top, limit // (
        8 * d + copies * sum(row_bytes(d, K, L, shared, weighted)))))
    settle_method(est, rows is not None)
    if rows is None:
        return None
    _check_rows(source, len(rows.X))
    if rows.weight is None and est.class_weight is None:
        est.classes_, places = encode_labels(rows.classes, est.classes)
        return rows.X, places[rows.codes], None
    X, y, weight = weigh_rows(rows.X, rows.classes[rows.codes], est, rows.weight)
    est.classes_, codes = encode_labels(y, est.classes)
    return X, codes, weight


CLUSTER = "cmn_literate.distributed"                # beyond this chapter: named, not imported


def _on_cluster(est, data):
    """The Client of a fit that a cluster takes over, or None."""
    alone = est.n_init > 1 or est.method_options or _asks_for_arrays(est)
    return None if alone else active_client(data)


def learn_source(est, data, y, learn, sample_weight=None, client=None):
    """What CMNClassifier.fit does with a source.  [eq-portion]

    Dask collections are fitted by the workers of an active dask.distributed.Client, if
    the method is "cavi" or "auto" with one start and no checkpoint, and any rows by those
    of a client that is named.  Else up to START_ROWS rows, and all that fit est.memory for
    a method or a choice of starts that asks for it, are loaded; others pass by, and are
    kept if they fit.  Sets est.method to what "auto" comes to.

    data, y, sample_weight: a source alone, files and names of columns, or dask arrays
    learn(X, codes, weight, True): for rows in memory, which it may overwrite
    -> whether Ctrl-C cut it short
    """
    if client is not None:
        settle_method(est, False)
        return import_module(CLUSTER).learn_with(est, data, y, sample_weight, client)
    source, path = source_of(data, y, sample_weight), learner_options(est).get("checkpoint")
    if source.weight is not None or est.class_weight is not None:
        check_learner_weights(est.method)
    if client := _on_cluster(est, data):
        return import_module(CLUSTER).learn_cluster(est, source, client)
    rows, d, found = _load(est, source), len(source.columns), None
    if rows is None:
        source = weigh_classes(source, est.class_weight, est.classes)
        found, rngs = _streamed(est, source, path)
        _check_rows(source, found.n_rows)
        est.classes_, _ = encode_labels(found.classes, est.classes)
    if est.classes is None:
        check_classes(len(est.classes_), len(rows[0]) if rows else found.n_rows)
    est.n_features_in_ = d
    if source.named:
        est.feature_names_in_ = np.array(source.columns, dtype=object)
    return learn(*rows, True) if rows else _learn_passing(est, source, found, rngs, path)


def _learn_passing(est, source, found, rngs, path):
    """All starts of a fit whose rows pass by.   -> whether Ctrl-C cut it short"""
    n_rows = found.n_rows
    check_memory(0, len(source.columns), est.n_experts, est.latent_dim, len(est.classes_))
    est.mean_, est.scale_ = moment_scale(found.moments, est.standardize)
    est.moments_, est.n_rows_seen_, est.calls_ = found.moments, n_rows, (("fit", n_rows),)
    check_squares(est.scale_)
    est.method_, est.fits_, s, cut = est.method, [], copy(est), False
    s.checkpoint = path
    s.latent_dim = s.latent_dim or default_latent_dim(len(s.classes_))
    for i, rng in enumerate(rngs):
        if not cut:
            result, cut = run_source(source, found, s.classes_, (s.mean_, s.scale_), s,
                                     rng, i, f"start {i + 1} of {s.n_init}")
            est.fits_.append(result)
    if est.select == "elbo":
        est.fits_ = [max(est.fits_, key=lambda result: result.elbo[-1])]
    est.summarize()
    return cut
