# Tangled from book/engineering/sources.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Sources: rows that pass by

One pass, in blocks of any size, gives the moments of all columns to the digits that the numbers
have, the labels, and a sample in which every set of rows is equally likely. None of it depends on
where the blocks end.
"""

__all__ = ["ColumnMoments", "merge_moments", "block_moments", "moment_scale", "column_scale",
           "KeyedSample", "draw_sample", "draw_repeated", "Survey", "survey", "label_codes",
           "coded_blocks"]


# book/engineering/sources.ipynb, cell sources-02
from typing import NamedTuple

import numpy as np

from cmn_literate.engineering.starts import (
    START_ROWS, key_generator, repeat_block, repeat_scale, whole_weights)
from cmn_literate.row_sources import counted_blocks, no_rows, pick_rows, with_weight
from cmn_literate.storage import fingerprint


# book/engineering/sources.ipynb, cell sources-08
class ColumnMoments(NamedTuple):
    """What rows tell of their columns.  [eq-moments]

    n rows, or their total weight; mean (d,); deviation (d,), the root of the mean
    square about the mean
    """
    n: float
    mean: np.ndarray
    deviation: np.ndarray


def merge_moments(left, right):
    """ColumnMoments of the rows of both.  [eq-moments-merge, eq-moments-spread]"""
    n, gap = left.n + right.n, right.mean - left.mean
    p, q = left.n / n, right.n / n
    within = np.hypot(np.sqrt(p) * left.deviation, np.sqrt(q) * right.deviation)
    return ColumnMoments(n, left.mean + q * gap, np.hypot(within, np.sqrt(p * q) * gap))


# book/engineering/sources.ipynb, cell sources-09
def _spread(rest, weight):
    if weight is None:
        return rest.std(axis=0)
    return np.sqrt(np.average((rest - np.average(rest, 0, weight))**2, 0, weight))


def block_moments(X, weight=None, rest=None):
    """ColumnMoments of a block X (B,d), B >= 1.  [eq-moments]

    weight (B,) of the rows or None;  rest (B,d): where X - m is put; it may be X itself
    """
    n, mean = len(X) if weight is None else weight.sum(), np.average(X, 0, weight)
    rest = np.subtract(X, mean, out=rest)
    with np.errstate(over="ignore", under="ignore"):
        deviation = _spread(rest, weight)
        top = np.maximum(rest.max(axis=0), -rest.min(axis=0))
        tiny = (top > 0) & (top < 1e-140)                    # squares underflow
        unit = np.where(tiny, top, 1.0)
        if tiny.any():
            deviation[tiny] = (unit * _spread(rest / unit, weight))[tiny]
    flat = top <= 2 * np.finfo(float).eps * np.abs(mean)     # rounding, whose squares may be inf
    return ColumnMoments(n, mean, np.where(flat, np.minimum(deviation, top), deviation))


# book/engineering/sources.ipynb, cell sources-12
def moment_scale(moments, standardize=True):
    """Mean and scale of every column.  [eq-clf-scale]

    -> m (d,), s (d,): deviations, 1 where a column is constant up to rounding.
    standardize=False: zeros and ones, which leave the rows as they are.
    """
    _, mean, deviation = moments
    if not standardize:
        return np.zeros(len(mean)), np.ones(len(mean))
    flat = deviation <= 2 * np.finfo(float).eps * np.abs(mean)
    return mean, np.where(flat, 1.0, deviation)


def column_scale(X, standardize=True, weight=None):
    """moment_scale of rows in memory.  [eq-clf-scale]

    X (N, d), weight (N,) of the rows or None -> m (d,), s (d,)"""
    return moment_scale(block_moments(X, weight), standardize)


# book/engineering/sources.ipynb, cell sources-15
class KeyedSample(NamedTuple):
    """Rows with the smallest keys so far.  [eq-sample-keys]

    keys (m,), X (m,d), y (m,): in the order of the rows
    """
    keys: np.ndarray
    X: np.ndarray
    y: np.ndarray


def draw_sample(sample, keys, X, y, most=START_ROWS):
    """A block goes by with its keys; the smallest stay.  [eq-sample-keys]

    sample of the rows before, or None; keys (B,), X (B,d), y (B,) -> KeyedSample"""
    if sample is not None:
        near = keys < sample.keys.max() if len(sample.keys) >= most else slice(None)
        keys, X, y = (np.concatenate(pair) for pair in zip(
            sample, (keys[near], X[near], y[near])))
    if len(keys) > most:
        stay = np.sort(np.argpartition(keys, most)[:most])
        keys, X, y = keys[stay], X[stay], y[stay]
    return KeyedSample(keys, X, y)


def draw_repeated(sample, generator, X, y, rows, most=START_ROWS):
    """draw_sample of a block whose rows are repeated.  [eq-repeat-rows, eq-sample-keys]

    generator of the keys; rows (M,): indices of repeat_block -> KeyedSample"""
    keys, stay = generator.random(len(rows)), slice(None)
    if len(keys) > most:                        # no more of them are ever laid out
        stay = np.sort(np.argpartition(keys, most)[:most])
    return draw_sample(sample, keys[stay], X[rows[stay]], y[rows[stay]], most)


# book/engineering/sources.ipynb, cell sources-18
class Survey(NamedTuple):
    """What the first pass has seen.  [eq-moments-merge, eq-sample-keys]

    n_rows, columns; moments of all rows; classes (L,) sorted labels
    counts (L,) of their rows, or the weight of these
    samples     a KeyedSample per start
    head        (rows, SHA-256) of the first block;  stamp of the source
    whole       whether all weights are whole numbers
    """
    n_rows: int
    columns: tuple
    moments: ColumnMoments
    classes: np.ndarray
    counts: np.ndarray
    samples: tuple
    head: tuple
    stamp: tuple
    whole: bool = True


def _block_head(X, y, weight=None):
    return len(X), fingerprint(X, *([] if y is None else np.asarray(y).tolist()),
                               *([] if weight is None else [weight]))


def _count_labels(classes, counts, y, weight, name):
    """Sorted labels and how often they came, with those of one more block."""
    if weight is None:
        new, more = np.unique(y, return_counts=True)
    else:
        new, place = np.unique(y, return_inverse=True)
        more = np.bincount(place, weight)
    if classes is None:
        return new, more
    kinds = {"U" if c.dtype.kind in "UOS" else "n" for c in (classes, new)}
    if len(kinds) > 1:
        raise ValueError(f"{name}: expected labels of one kind, got "
                         f"{classes.tolist()[0]!r} and {new.tolist()[0]!r}")
    both = np.unique(np.concatenate([classes, new]))
    out = np.zeros(len(both), more.dtype)
    out[np.searchsorted(both, classes)] += counts
    out[np.searchsorted(both, new)] += more
    return both, out


def survey(source, rngs, most=START_ROWS):
    """The first pass over a source; with weights, a second one for the samples.
    [eq-moments-merge, eq-sample-keys]

    source RowSource with labels; rngs: one Generator per start, none is moved
    -> Survey.   ValueError if there are no labels, or if files change meanwhile.
    """
    stamp, moments, classes, counts, head = source.stamp(), None, None, None, None
    n_rows, whole, drawn = 0, True, [key_generator(rng) for rng in rngs]
    samples = [None] * len(drawn)
    for X, y, weight in counted_blocks(source):
        if y is None:
            raise ValueError(f"{source.name}: expected labels, got rows without: name the target column")
        head = head or _block_head(X, y, weight)
        here = block_moments(X, weight)
        moments = here if moments is None else merge_moments(moments, here)
        classes, counts = _count_labels(classes, counts, y, weight, source.name)
        n_rows, whole = n_rows + len(X), whole and whole_weights(weight)
        if weight is None:
            samples = [draw_sample(sample, keys.random(len(X)), X, y, most)
                       for sample, keys in zip(samples, drawn)]
    if moments is None:
        raise ValueError(no_rows(source))
    found = Survey(n_rows, source.columns, moments, classes, counts, tuple(samples),
                   head, stamp, whole)
    if source.weight is not None and drawn:
        found = found._replace(samples=_weighted_samples(source, found, drawn, most))
    if source.stamp() != stamp:
        raise ValueError(_changed(source, stamp))
    return found


def _weighted_samples(source, found, drawn, most):
    """A KeyedSample per generator, of rows that are repeated by their weights."""
    samples, upto = [None] * len(drawn), 0.0
    scale = repeat_scale(found.n_rows, found.moments.n, found.whole)
    for X, y, weight in counted_blocks(source):
        rows, upto = repeat_block(weight, scale, upto)
        samples = [draw_repeated(sample, keys, X, y, rows, most)
                   for sample, keys in zip(samples, drawn)]
    return tuple(samples)


# book/engineering/sources.ipynb, cell sources-21
def _changed(source, stamp):
    """What to say of files that are not what they were."""
    other = [old[0] for old, new in zip(stamp, source.stamp()) if old != new]
    return (f"{other[0] if other else source.name}: expected the rows of the first pass, but "
            + ("the file has changed since" if other else "other rows came")
            + ": fit a copy that nobody writes to")


def label_codes(y, classes, name="y"):
    """Labels (B,) as places in the sorted classes.  [eq-pass]

    ValueError for any other label."""
    codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    if not np.array_equal(classes[codes], y):
        other = np.asarray(y)[classes[codes] != y].tolist()[0]
        raise ValueError(f"{name}: expected labels among {classes.tolist()}, got {other!r}")
    return codes


def coded_blocks(source, found, classes, mean, scale, size, start=0):
    """A pass in blocks of `size` rows, from row `start` on; the last may be short.
    [eq-pass]

    found Survey; classes (L,) -> iterator over Z (size,d) = (X - mean) / scale, codes
    (size,) and, if the source has them, weights (size,), none of them 0.
    ValueError if these are not the rows that the survey saw.
    """
    if source.stamp() != found.stamp:
        raise ValueError(_changed(source, found.stamp))
    if _block_head(*next(counted_blocks(source), ((), None))) != found.head:
        raise ValueError(_changed(source, found.stamp))
    kept = ()
    for X, y, weight in counted_blocks(source, start):
        rows = with_weight((X - mean) / scale, label_codes(y, classes, source.name), weight)
        kept = tuple(map(np.concatenate, zip(kept, rows))) if kept else rows
        start += len(X)
        end = len(kept[0]) - len(kept[0]) % size
        for s in range(0, end, size):
            yield pick_rows(kept, slice(s, s + size))
        kept = pick_rows(kept, slice(end, None))
    if start != found.n_rows or source.stamp() != found.stamp:
        raise ValueError(_changed(source, found.stamp))
    if kept and len(kept[0]):
        yield kept
