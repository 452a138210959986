"""CAVI on a Dask cluster: the rows stay with the workers, in blocks with their tilts, and of a sweep only sums come back.

    from dask.distributed import Client
    from cmn_literate.distributed import fit_cluster
    model = fit_cluster("rows/part-*.parquet", "y", client=Client("tcp://scheduler:8786"), n_experts=10)

Hand-written and free of mathematics, which is in beyond.cluster. Dask schedules and carries; what is decided here is which worker holds
which rows, and that rows whose worker is gone are read again by another.
"""

import os
import warnings
from itertools import count
from typing import NamedTuple
from uuid import uuid4

import numpy as np

from cmn_literate.beyond.cluster import merge_surveys, pairwise, shard_slices, shard_sweep
from cmn_literate.checks import check_sweep_options
from cmn_literate.compiled import find_estep
from cmn_literate.engineering.fit import Resume, finish, step
from cmn_literate.engineering.runs import CAVI, has_converged
from cmn_literate.engineering.out_of_core import row_bytes
from cmn_literate.engineering.sources import draw_repeated, draw_sample, label_codes, moment_scale, survey
from cmn_literate.engineering.starts import init_parameters, key_generator, repeat_block, repeat_scale, repeated_before
from cmn_literate.engineering.sums import Block, Rows, add_sums, estep, make_blocks
from cmn_literate.inputs import (
    as_generator, check_classes, check_options, check_squares, class_factors, default_latent_dim, encode_labels)
from cmn_literate.learners import not_converged, progress_bar
from cmn_literate.readers import DaskSource, open_source, source_of
from cmn_literate.row_sources import ArraySource, FrameSource, RowSource, WeighedSource, counted_blocks, need, no_rows

PATIENCE = 0.5                                           # seconds between two looks whether all workers are there
LOSSES = 3                                               # so often may the worker of a shard be lost


class Layout(NamedTuple):
    """What a worker must know to lay out rows: columns, target, name of the source; mean, scale; classes; sizes K, h; shared; generator of
    the keys of the sample; number of all rows; name of the column of weights, factors (labels, (L,) float) of the classes' weights, and what
    the weights are multiplied by for the sample."""
    columns: tuple
    target: str
    name: str
    mean: np.ndarray = None
    scale: np.ndarray = None
    classes: np.ndarray = None
    n_experts: int = 1
    latent_dim: int = 1
    shared: bool = False
    rng: np.random.Generator = None
    n_rows: int = 0
    weight: str = None
    factors: tuple = None
    scale_of_weights: float = 1.0

    @property
    def weighted(self):
        return self.weight is not None or self.factors is not None


class Seen(NamedTuple):
    """What the first pass found in a part: weight of all rows before it (how many there are, if each counts once), its rows, its stamp."""
    before: float
    n_rows: int
    stamp: tuple


# ---- on the workers

def as_source(part, layout):
    """The rows of a part: a source as it is, a partition of a dask dataframe, or blocks (X, y) or (X, y, weights) of dask arrays, with
    the weights of their classes.  None without rows that count."""
    if isinstance(part, RowSource):
        source = part
    elif not len(part[0] if isinstance(part, tuple) else part):
        return None
    elif isinstance(part, tuple):
        source = ArraySource(*part[:2], layout.columns, name=layout.name, weights=part[2] if layout.weight else None)
    else:
        source = FrameSource(part, layout.target, layout.columns, layout.name, layout.weight)
    if layout.factors is not None:
        source = WeighedSource(source, *layout.factors)
    return source if source.weight is None or next(counted_blocks(source), None) else None


def survey_part(part, layout):
    """Survey of a part, without a sample; None if it has no rows."""
    source = as_source(part, layout)
    return None if source is None else survey(source, [])


class Shard:
    """Rows on one worker.  A sweep overwrites their tilts: `turn` says which sweep they are of, so that a shard that was read again, or is
    a copy of long ago, settles its tilts before it goes on."""

    def __init__(self, blocks, sample, turn=0):
        self.blocks, self.sample, self.turn = blocks, sample, turn

    def __sizeof__(self):
        return sum(array.nbytes for block in self.blocks for array in (*block.rows, block.omega, block.gamma) if array is not None)

    def sweep(self, parameters, turn, inner, estep=estep):
        """The E-step of sweep `turn`, counted from 1, with the kernel estep.   -> Sums"""
        lost, self.sample = self.turn not in (turn - 1, turn), None
        self.blocks, sums = shard_sweep(self.blocks, parameters, inner, lost, estep)
        self.turn = turn
        return sums


def load_shard(parts, seen, layout):
    """Read parts, as the first pass has seen them, and lay them out.   -> Shard"""
    inputs, codes, weights, sample = [], [], [], None
    keys, upto = key_generator(layout.rng), seen[0].before
    keys.bit_generator.advance(int(repeated_before(upto, layout.scale_of_weights)) if layout.weighted else upto)
    for part, known in zip(parts, seen):
        source, n_rows = as_source(part, layout), 0
        for X, y, weight in () if source is None else counted_blocks(source):
            if weight is None:
                sample = draw_sample(sample, keys.random(len(X)), X, y)
            else:
                rows, upto = repeat_block(weight, layout.scale_of_weights, upto)
                sample = draw_repeated(sample, keys, X, y, rows)
                weights.append(weight)
            inputs.append((X - layout.mean) / layout.scale)
            codes.append(label_codes(y, layout.classes, source.name))
            n_rows += len(X)
        if (n_rows, source and source.stamp()) != (known.n_rows, known.stamp):
            raise ValueError(f"{layout.name if source is None else source.name}: expected the {known.n_rows} rows of the first pass, got "
                             f"{n_rows} rows of a file that has changed since: fit a copy that nobody writes to")
    blocks = make_blocks(np.concatenate(inputs), np.concatenate(codes), layout.n_experts, layout.latent_dim, len(layout.classes),
                         layout.shared, np.concatenate(weights) if weights else None)
    return Shard(blocks, sample)


def sample_of(shard):
    return shard.sample


def merge_samples(left, right):
    """Sample of the rows of both, the right ones later.   -> Sample"""
    return draw_sample(left, *right)


def sweep_shard(shard, parameters, turn, inner, layout):
    """Shard.sweep, by the kernel that this worker has for a fit of so many rows."""
    kernel = find_estep(layout.n_rows, layout.n_experts, len(layout.classes) - 1, layout.shared)
    return shard.sweep(parameters, turn, inner, kernel or estep)


def as_is(value):
    """A task that holds a value: it is carried from worker to worker, and made again if it is lost."""
    return value


# ---- on the client

def find_client(client=None):
    """The Client that is given, or the active one.  ValueError without one; ImportError without dask."""
    distributed = need("distributed", "a fit on a cluster", "dask")
    if client is None:
        try:
            client = distributed.default_client()
        except ValueError:
            raise ValueError("client: expected a dask.distributed.Client, or an active one, got none: Client('tcp://...') or Client()") from None
    if not isinstance(client, distributed.Client) or client.asynchronous:
        raise ValueError(f"client: expected a dask.distributed.Client that is not asynchronous, got {client!r}")
    return client


def whole_paths(data):
    """Paths as a worker finds them that runs in another directory; anything else as it is."""
    if isinstance(data, (str, os.PathLike)):
        return os.path.abspath(data)
    return [whole_paths(item) for item in data] if isinstance(data, list) else data


def check_room(client, n_rows, each):
    """ValueError if the rows, of so many bytes each, are more than the workers hold before Dask pauses them."""
    limits = [worker["memory_limit"] or np.inf for worker in client.scheduler_info()["workers"].values()]
    if limits and n_rows * each > 0.8 * sum(limits):
        raise ValueError(f"X: {n_rows} rows need {n_rows * each / 2**20:.0f} MiB, the {len(limits)} workers hold "
                         f"{0.8 * sum(limits) / 2**20:.0f}: more workers, or a fit without a client, which reads the rows in every sweep")


def parts_of(source):
    """What the workers read: parts of the source, or Delayed partitions of a dask collection."""
    if not isinstance(source, DaskSource):
        return list(source.parts())
    if source.framed:
        return source.X.to_delayed()
    from dask import delayed

    arrays = [part for part in (source.X, source.y, source.weights) if part is not None]
    return [delayed(piece) for piece in zip(*(part.to_delayed().ravel() for part in arrays))]


class Crew:
    """The workers of a fit and their shards.

    client; parts as of parts_of, with what the first pass has Seen of each; layout; slices of shard_slices"""

    def __init__(self, client, parts, seen, layout, slices):
        self.client, self.parts, self.seen, self.layout, self.slices = client, parts, seen, layout, slices
        self.numbers, self.run, self.turn = count(), f"cmn-{uuid4().hex[:8]}", 0
        self.losses = [0] * len(slices)
        self.homes, self.shards = [None] * len(slices), [None] * len(slices)
        self.load(range(len(slices)))

    def submit(self, function, *arguments, **where):
        """A task under a name of its own."""
        name = f"{self.run}-{function.__name__}-{next(self.numbers)}"
        return self.client.submit(function, *arguments, key=name, **where)

    def workers(self):
        """Addresses of the workers that are there."""
        return sorted(self.client.scheduler_info()["workers"])

    def lost(self):
        """Shards whose worker is gone."""
        there = set(self.workers())
        return [c for c, home in enumerate(self.homes) if home not in there]

    def load(self, shards):
        """Let the worker with the fewest rows read each of these shards."""
        if not self.workers():
            self.client.wait_for_workers(1)
        rows = dict.fromkeys(self.workers(), 0)
        for c, home in enumerate(self.homes):
            if home in rows and c not in shards:
                rows[home] += self.rows(c)
        for c in shards:
            home = self.homes[c] = min(rows, key=rows.get)
            rows[home] += self.rows(c)
            parts = self.parts[self.slices[c]]
            if not isinstance(parts[0], RowSource):
                parts = self.client.compute(list(parts))
            self.shards[c] = self.submit(load_shard, parts, self.seen[self.slices[c]], self.layout, workers=[home])

    def rows(self, c):
        return sum(part.n_rows for part in self.seen[self.slices[c]])

    def gather(self, tasks, root):
        """Result of root, which maps {shard: future} to one future; tasks(c) makes the future of a shard where it is.

        Shards whose worker is lost meanwhile are read again.  RuntimeError for a shard that loses every worker."""
        from dask.distributed import TimeoutError as NotYet

        futures = {c: tasks(c) for c in range(len(self.shards))}
        while True:
            waited = root(futures)
            while True:
                try:
                    return waited.result(timeout=PATIENCE)
                except NotYet:
                    lost = self.lost()
                    if lost:
                        break
            waited = None
            self.mourn(lost)
            self.load(lost)
            futures |= {c: tasks(c) for c in lost}

    def mourn(self, lost):
        """Say what is read again; RuntimeError when it has been too often."""
        for c in lost:
            self.losses[c] += 1
        gone = ", ".join(sorted({self.homes[c] for c in lost}))
        if max(self.losses) > LOSSES:
            raise RuntimeError(f"a worker was lost {LOSSES + 1} times with the same rows, last {gone}: is its memory enough?")
        warnings.warn(f"lost {gone}: {sum(map(self.rows, lost))} rows are read again and their tilts settled", stacklevel=2)

    def samples(self):
        """The sample of the rows for the start.   -> Sample"""
        return self.gather(
            lambda c: self.submit(sample_of, self.shards[c], workers=[self.homes[c]]), self.tree(merge_samples))

    def tree(self, add):
        """What gather takes as its root: futures added in the order of the rows."""
        return lambda futures: pairwise([futures[c] for c in sorted(futures)], lambda left, right: self.submit(add, left, right))

    def sums(self, parameters, inner):
        """The E-step of all rows.   -> Sums"""
        self.turn += 1
        sent = self.submit(as_is, parameters)
        return self.gather(
            lambda c: self.submit(sweep_shard, self.shards[c], sent, self.turn, inner, self.layout, workers=[self.homes[c]]),
            self.tree(add_sums))


def look(client, source, parts, layout):
    """The first pass.   -> Survey of all rows, parts that have rows that count, what was Seen of each"""
    if isinstance(source, DaskSource):
        parts = list(parts)
        pieces = client.compute(parts)
    else:
        pieces = parts
    run = f"cmn-survey-{uuid4().hex[:8]}"
    futures = [client.submit(survey_part, piece, layout, key=f"{run}-{i}") for i, piece in enumerate(pieces)]
    found = client.gather(futures)
    if not any(found):
        raise ValueError(no_rows(source))
    parts, found = zip(*((part, one) for part, one in zip(parts, found) if one is not None))
    before = np.cumsum([0, *(one.moments.n for one in found)]).tolist()
    seen = [Seen(weight, one.n_rows, one.stamp) for weight, one in zip(before, found)]
    return pairwise(found, merge_surveys), list(parts), seen


def ascend(crew, est, parameters, found, shown=None, callback=None):
    """Sweeps until they gain too little.   -> Fit, whether Ctrl-C ended it"""
    shared, everything = est.omega1 == "shared", Block(Rows(None, None, None, weight=np.array([found.moments.n])), None)
    state, cut = Resume(parameters, (everything,), (), False, len(crew.layout.classes), est.priors, shared), False
    try:
        while len(state.elbo) < est.max_sweeps and not has_converged(state):
            total = crew.sums(state.parameters, est.inner)
            state = step(state, est.tol, est.inner, est.accelerate, lambda *_: (total, None, None))._replace(blocks=(everything,))
            for show in filter(None, (shown, callback)):
                show(len(state.elbo), state.elbo[-1])
    except KeyboardInterrupt:
        if not state.elbo:
            raise
        cut = True
    return finish(state), cut


def weigh(client, est, source, parts, layout):
    """The layout with the factors of the classes' weights; the workers read the rows once for their labels."""
    if est.class_weight is None:
        return layout
    found, *_ = look(client, source, parts, layout)
    labels, places = encode_labels(found.classes, est.classes)
    of_class = np.bincount(places, found.counts, len(labels))
    return layout._replace(factors=(labels, class_factors(labels, of_class, est.class_weight)))


def learn_cluster(est, source, client, callback=None):
    """What CMNClassifier.fit does on a cluster: est, with method "cavi" and one start, learns from the rows of a source.

    -> whether Ctrl-C cut it short; before the first sweep it is KeyboardInterrupt.   ValueError names a bad argument, file or row."""
    if source.target is None:
        raise ValueError(f"target: expected the name of the column of {source.name} that holds the labels, got None")
    every, layout = parts_of(source), Layout(source.columns, source.target, source.name, weight=source.weight)
    layout = weigh(client, est, source, every, layout)
    found, parts, seen = look(client, source, every, layout)
    est.classes_, _ = encode_labels(found.classes, est.classes)
    if est.classes is None:
        check_classes(len(est.classes_), found.n_rows)
    est.n_features_in_ = len(source.columns)
    if source.named:
        est.feature_names_in_ = np.array(source.columns, dtype=object)
    est.mean_, est.scale_ = moment_scale(found.moments, est.standardize)
    est.moments_, est.n_rows_seen_, est.calls_ = found.moments, found.n_rows, (("fit", found.n_rows),)
    check_squares(est.scale_)
    h, (rng,) = est.latent_dim or default_latent_dim(len(est.classes_)), as_generator(est.random_state).spawn(1)
    layout = layout._replace(mean=est.mean_, scale=est.scale_, classes=est.classes_, n_experts=est.n_experts, latent_dim=h,
                             shared=est.omega1 == "shared", n_rows=found.n_rows, rng=rng,
                             scale_of_weights=repeat_scale(found.n_rows, found.moments.n, found.whole))
    check_room(client, found.n_rows, sum(row_bytes(est.n_features_in_, est.n_experts, len(est.classes_), layout.shared, layout.weighted)))
    crew = Crew(client, parts, seen, layout, shard_slices([part.n_rows for part in seen]))
    sample = crew.samples()
    parameters = init_parameters((sample.X - est.mean_) / est.scale_, label_codes(sample.y, est.classes_), est.n_experts, h,
                                 len(est.classes_), est.priors, rng, est.init)
    with progress_bar(est.verbose, est.max_sweeps, f"{len(set(crew.homes))} workers", CAVI) as shown:
        result, cut = ascend(crew, est, parameters, found, shown, callback)
    est.method_, est.fits_ = "cavi", [result]
    est.summarize()
    return cut


def check_cluster_options(est, callback=None):
    """ValueError for options of an estimator that workers do not learn by."""
    for name, value, only in (("method", est.method, "cavi"), ("n_init", est.n_init, 1), ("method_options", est.method_options or None, None)):
        if value != only:
            raise ValueError(f"{name}: expected {only!r} on a cluster, got {value!r}")
    check_sweep_options(est.max_sweeps, est.tol, est.inner, est.accelerate, callback, relaxed=False)


def learn_with(est, data, y, weight, client):
    """CMNClassifier.fit(data, y, weight, client).   -> whether Ctrl-C cut it short"""
    client = find_client(client)
    check_cluster_options(est)
    return learn_cluster(est, source_of(whole_paths(data), y, weight), client)


def fit_cluster(data, target=None, client=None, columns=None, callback=None, weight=None, **options):
    """A CMNClassifier fitted by the workers of a Dask cluster.

    data      what open_source takes: a folder or pattern of Parquet files that the workers can read, a dask dataframe, a pair of dask
              arrays (X, y), ...; target: name of the label column
    client    a dask.distributed.Client; None: the active one
    columns   names of the columns of X, all but the target and the weight if None
    callback(n_sweeps, elbo)   after each sweep
    weight    name of the column of weights, or an array (N,) beside arrays, as in open_source
    options   of CMNClassifier.paper, with method "cavi" and one start
    -> CMNClassifier, the same as that of CMNClassifier.paper(**options).fit to rounding, whatever the number of workers

    ValueError names a bad argument, file or row.  A worker that is lost costs time: its rows are read again.
    """
    from sklearn.exceptions import ConvergenceWarning                # which the workers do without

    from cmn_literate.use.classifier import CMNClassifier

    client, est = find_client(client), CMNClassifier.paper(**options)
    check_options(est.get_params(deep=False))
    check_cluster_options(est, callback)
    if learn_cluster(est, open_source(whole_paths(data), target, columns, weight=weight), client, callback):
        warnings.warn(f"interrupted: this is the fit after {est.n_sweeps_} whole sweeps", stacklevel=2)
    if not est.converged_:
        warnings.warn(not_converged("cavi", CAVI, est.n_sweeps_, est.objective_), ConvergenceWarning, stacklevel=2)
    return est
