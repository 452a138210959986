"""What a source of rows is, and the sources that are in this process: arrays, frames, functions, and a choice of another source's rows.

Hand-written and free of mathematics.
"""

import os
from collections.abc import Iterable
from importlib import import_module

import numpy as np

from cmn_literate.checks import plain_array
from cmn_literate.inputs import check_columns, plain_labels

BLOCK_BYTES = 1 << 22                                                   # of numbers in a block that a source hands over


class RowSource:
    """Rows that can be read again and again, block by block, always in the same order.

    name      what messages call it
    columns   names of the d columns of X, in their frozen order
    target    name of the label column, or None: then there are no labels
    n_rows    or None if only a pass can tell
    classes   sorted labels if they are known before any row is read, else None
    named     whether the names of the columns are those of the data, and not numbers
    """
    name, columns, target, n_rows, classes, named = "X", (), None, None, None, True

    def blocks(self, start=0):
        """A new pass from row `start` on.   -> iterator over X (B, d) float64, y (B,) labels or None; B >= 1

        ValueError names file and row of what is no finite number or no label."""
        raise NotImplementedError

    def parts(self):
        """Sources whose rows, one after the other, are the rows of this one; each can be read by itself, and again."""
        return (self,)

    def stamp(self):
        """Plain values that differ when the files have changed: (path, size, time) of each; () where nothing can be told."""
        return ()

    @property
    def block_rows(self):
        return max(BLOCK_BYTES // (8 * (len(self.columns) + 1)), 1)


def skip_rows(blocks, start):
    """The blocks without their first `start` rows."""
    for X, y in blocks:
        if start >= len(X):
            start -= len(X)
            continue
        yield (X[start:], None if y is None else y[start:]) if start else (X, y)
        start = 0


def check_block(X, columns, where, first):
    """X as float64 in C order; ValueError names place, row and column of the first cell that is not finite.

    where: file or argument; first: number of the block's first row there"""
    try:
        X = np.ascontiguousarray(plain_array(X, where), dtype=float)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{where}: expected numbers in rows {first} to {first + len(X) - 1} ({error})") from None
    if X.ndim != 2 or X.shape[1] != len(columns):
        raise ValueError(f"{where}: expected blocks (rows, {len(columns)}), got shape {X.shape} at row {first}")
    if not np.isfinite(X).all():
        n, i = np.argwhere(~np.isfinite(X))[0]
        raise ValueError(f"{where}: row {first + n}, column {columns[i]!r}: expected a finite number, got {X[n, i]}")
    return X


def check_labels(y, n_rows, where, first):
    """One label for each row of a block, none missing; as an array."""
    try:
        y = np.asarray(plain_labels(y))
    except ValueError as error:
        raise ValueError(f"{where}: rows {first} to {first + n_rows - 1}: {error}") from None
    if y.shape != (n_rows,):
        raise ValueError(f"{where}: expected {n_rows} labels from row {first} on, got shape {y.shape}")
    return y


def numbered(d):
    """Names of columns that have none."""
    return tuple(f"x{i}" for i in range(d))


class ArraySource(RowSource):
    """Arrays in memory or of np.load(mmap_mode="r"): X (N, d), y (N,) or None.

    With classes (L,) given, y holds codes 0..L-1 and the labels are classes[y]."""

    def __init__(self, X, y=None, columns=None, classes=None, name="X"):
        shape = np.shape(X)
        if len(shape) != 2 or min(shape) < 1:
            raise ValueError(f"{name}: expected an array (rows >= 1, columns >= 1), got shape {shape}")
        if y is not None and np.shape(y) != shape[:1]:
            raise ValueError(f"y: expected one label for each of {shape[0]} rows, got shape {np.shape(y)}")
        self.X, self.y, self.name, self.n_rows = X, y, name, shape[0]
        self.columns, self.named = numbered(shape[1]) if columns is None else tuple(columns), columns is not None
        self.classes, self.target = classes, None if y is None else "y"

    def blocks(self, start=0):
        for s in range(start, self.n_rows, self.block_rows):
            part = slice(s, s + self.block_rows)
            X = check_block(self.X[part], self.columns, self.name, s)
            y = None if self.y is None else check_labels(self.y[part], len(X), self.name, s)
            yield X, y if y is None or self.classes is None else self.classes[y]

    def stamp(self):
        return tuple(map(file_stamp, (a.filename for a in (self.X, self.y) if getattr(a, "filename", None))))

    def parts(self):
        return tuple(ArraySource(self.X[s:s + self.block_rows], None if self.y is None else self.y[s:s + self.block_rows],
                                 self.columns, self.classes, self.name) for s in range(0, self.n_rows, self.block_rows))


class FrameSource(RowSource):
    """A pandas DataFrame; its column `target` holds the labels, and columns (all others) the numbers."""

    def __init__(self, frame, target=None, columns=None, name="X"):
        self.frame, self.target, self.name, self.n_rows = frame, target, name, len(frame)
        self.columns = pick_columns(list(frame.columns), target, columns, name)
        if not self.n_rows:
            raise ValueError(f"{name}: expected at least one row, got none")
        check_columns(frame[list(self.columns)])

    def blocks(self, start=0):
        for s in range(start, self.n_rows, self.block_rows):
            part = self.frame.iloc[s:s + self.block_rows]
            X = part[list(self.columns)].to_numpy(dtype=float, na_value=np.nan)
            X = check_block(X, self.columns, self.name, s)
            yield X, None if self.target is None else check_labels(part[self.target], len(X), self.name, s)


class SelectedSource(RowSource):
    """The rows of another source that a mask (N,) keeps, in their order."""

    def __init__(self, source, mask):
        self.source, self.mask, self.n_rows = source, mask, int(np.count_nonzero(mask))
        self.name, self.columns, self.target, self.classes, self.named = (
            source.name, source.columns, source.target, source.classes, source.named)

    def blocks(self, start=0):
        return skip_rows(self._read(), start)

    def _read(self):
        first = 0
        for X, y in self.source.blocks():
            keep = self.mask[first:first + len(X)]
            first += len(X)
            if keep.any():
                yield X[keep], None if y is None else y[keep]

    def stamp(self):
        return self.source.stamp()


class CallableSource(RowSource):
    """A function that returns a new iterator over (X, y), or over X, whenever it is called."""

    def __init__(self, function, columns=None, target="y", name="X"):
        self.function, self.name, self.target = function, name, target
        X = next(iter(self._pairs()), (None,))[0]
        if X is None:
            raise ValueError(f"{name}: expected a callable that returns blocks (X, y), got no block")
        self.columns, self.named = numbered(np.shape(X)[-1]) if columns is None else tuple(columns), columns is not None

    def _pairs(self):
        stream = self.function()
        if not isinstance(stream, Iterable):
            raise ValueError(f"{self.name}: expected a callable that returns an iterator over (X, y), got {type(stream).__name__}")
        for pair in stream:
            if self.target is not None and not (isinstance(pair, (tuple, list)) and len(pair) == 2):
                raise ValueError(f"{self.name}: expected blocks (X, y), got {type(pair).__name__}")
            yield (pair, None) if self.target is None else pair

    def blocks(self, start=0):
        return skip_rows(self._checked(), start)

    def _checked(self):
        first = 0
        for X, y in self._pairs():
            X = check_block(X, self.columns, self.name, first)
            if len(X):
                yield X, None if self.target is None else check_labels(y, len(X), self.name, first)
            first += len(X)


def pick_columns(names, target, columns, where):
    """The names of the columns of X: those asked for, or all but the target.  ValueError names what is not there."""
    absent = [name for name in [*(columns or ()), *([] if target is None else [target])] if name not in names]
    if absent:
        raise ValueError(f"{where}: no column {', '.join(map(repr, absent))}; it has {', '.join(map(repr, names))}")
    picked = tuple(columns) if columns else tuple(name for name in names if name != target)
    if not picked or len(set(picked)) < len(picked):
        raise ValueError(f"{where}: expected at least one column beside {target!r}, and none twice, got {', '.join(map(repr, names))}")
    return picked


def need(module, what, extra):
    """The module; ImportError names the extra that brings it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"{what} needs {module.partition('.')[0]}: pip install 'cmn_literate[{extra}]'") from error


def file_stamp(path):
    """(path, size, time of the last change in ns)"""
    there = os.stat(path)
    return os.fspath(path), there.st_size, there.st_mtime_ns
