# Tangled from book/engineering/sources.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Sources: rows that pass by

One pass, in blocks of any size, gives the moments of all columns to the digits that the numbers
have, the labels, and a sample in which every set of rows is equally likely. None of it depends on
where the blocks end.
"""

__all__ = ["ColumnMoments", "block_moments", "merge_moments", "moment_scale", "column_scale",
           "KeyedSample", "draw_sample", "Survey", "survey", "label_codes", "coded_blocks"]


# book/engineering/sources.ipynb, cell sources-02
from typing import NamedTuple

import numpy as np

from cmn_literate.engineering.starts import START_ROWS, key_generator
from cmn_literate.storage import fingerprint


# book/engineering/sources.ipynb, cell sources-08
class ColumnMoments(NamedTuple):
    """What a block tells of its columns.  [eq-moments]

    n rows; mean (d,); square (d,) sum of (x - mean)^2; low, high (d,)
    """
    n: int
    mean: np.ndarray
    square: np.ndarray
    low: np.ndarray
    high: np.ndarray


def block_moments(X):
    """ColumnMoments of a block X (B,d), B >= 1.  [eq-moments]"""
    mean = X.mean(0)
    return ColumnMoments(len(X), mean, ((X - mean)**2).sum(0), X.min(0), X.max(0))


def merge_moments(left, right):
    """ColumnMoments of the rows of both.  [eq-moments-merge]"""
    n, gap = left.n + right.n, right.mean - left.mean
    return ColumnMoments(n, left.mean + gap * (right.n / n),
                   left.square + right.square + gap**2 * (left.n * right.n / n),
                   np.minimum(left.low, right.low), np.maximum(left.high, right.high))


# book/engineering/sources.ipynb, cell sources-11
def moment_scale(moments, standardize=True):
    """Mean and standard deviation of every column.  [eq-moments]

    -> m (d,), s (d,); s is 1 where a column is constant up to rounding.
    standardize=False: zeros and ones, which leave the rows as they are.
    ValueError for deviations below 1e-140, whose squares are nothing.
    """
    mean, d = moments.mean, len(moments.mean)
    if not standardize:
        return np.zeros(d), np.ones(d)
    scale = np.sqrt(moments.square / moments.n)
    top = np.maximum(moments.high - mean, mean - moments.low)
    tiny = np.flatnonzero((top > 0) & (top < 1e-140))          # squares underflow
    if tiny.size:
        raise ValueError(f"X: columns {tiny.tolist()}: expected deviations that can be "
                         f"squared, got at most {top[tiny].max():.1e}: use other units")
    flat = np.minimum(scale, top) <= 2 * np.finfo(float).eps * np.abs(mean)
    return mean, np.where(flat, 1.0, scale)


def column_scale(X, standardize=True, rest=None):
    """Mean and standard deviation of every column of rows in memory.  [eq-clf-scale]

    X (N, d) -> m (d,), s (d,); s is 1 where a column is constant up to rounding.
    standardize=False: zeros and ones, which leave X as it is.
    rest (N, d): where X - m is put; it may be X itself
    """
    d = X.shape[1]
    if not standardize:
        return np.zeros(d), np.ones(d)
    mean = X.mean(axis=0)
    rest = np.subtract(X, mean, out=rest)
    with np.errstate(over="ignore", under="ignore"):
        scale = rest.std(axis=0)
        top = np.maximum(rest.max(axis=0), -rest.min(axis=0))
        tiny = (top > 0) & (top < 1e-140)                    # squares underflow
        unit = np.where(tiny, top, 1.0)
        scale[tiny] = (unit * (rest / unit).std(axis=0))[tiny] if tiny.any() else 0.0
    flat = np.minimum(scale, top) <= 2 * np.finfo(float).eps * np.abs(mean)
    return mean, np.where(flat, 1.0, scale)


# book/engineering/sources.ipynb, cell sources-14
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


# book/engineering/sources.ipynb, cell sources-17
class Survey(NamedTuple):
    """What the first pass has seen.  [eq-moments-merge, eq-sample-keys]

    n_rows, columns; moments of all rows; classes (L,) sorted labels, counts (L,)
    samples     a KeyedSample per start
    head        (rows, SHA-256) of the first block;  stamp of the source
    """
    n_rows: int
    columns: tuple
    moments: ColumnMoments
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
        raise ValueError(f"{name}: expected labels of one kind, got "
                         f"{classes.tolist()[0]!r} and {new.tolist()[0]!r}")
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


# book/engineering/sources.ipynb, cell sources-20
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

    found Survey; classes (L,) -> iterator over Z (size,d) = (X - mean) / scale and codes
    (size,).   ValueError if these are not the rows that the survey saw.
    """
    if source.stamp() != found.stamp:
        raise ValueError(_changed(source, found.stamp))
    if _block_head(*next(source.blocks(), ((), None))) != found.head:
        raise ValueError(_changed(source, found.stamp))
    kept_Z, kept_codes = np.empty((0, len(found.columns))), np.empty(0, int)
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
