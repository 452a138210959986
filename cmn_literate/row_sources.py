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
    weight    name of the column of weights, or None: then every row counts once
    """
    name, columns, target, n_rows, classes, named, weight = "X", (), None, None, None, True, None

    def blocks(self, start=0):
        """A new pass from row `start` on.   -> iterator over X (B, d) float64, y (B,) labels or None, and, if the source has weights,
        weight (B,) float64 >= 0; B >= 1

        ValueError names file and row of what is no finite number, no label or no weight."""
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


def pick_rows(block, rows):
    """Rows of a block, by a slice or a mask."""
    return tuple(None if part is None else part[rows] for part in block)


def skip_rows(blocks, start):
    """The blocks without their first `start` rows."""
    for block in blocks:
        if start >= len(block[0]):
            start -= len(block[0])
            continue
        yield pick_rows(block, slice(start, None)) if start else block
        start = 0


def with_weight(X, y, weight):
    """A block as a source hands it over: (X, y), or (X, y, weight) if the rows have weights."""
    return (X, y) if weight is None else (X, y, weight)


def counted_blocks(source, start=0):
    """A pass over the rows that count: X (B, d), y (B,) or None, weight (B,) > 0 or None; rows of weight 0 are left out.

    start: how many of them have gone by; with weights, a pass reads from the beginning to find it"""
    if source.weight is None:
        return ((X, y, None) for X, y in source.blocks(start))
    masked = ((block, block[2] > 0) for block in source.blocks())
    return skip_rows((block if keep.all() else pick_rows(block, keep) for block, keep in masked if keep.any()), start)


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


def check_row_weights(weight, n_rows, where, first, name="weight"):
    """One weight for each row of a block, float64; ValueError names place, row and column of the first that is no finite number >= 0."""
    try:
        weight = np.array(plain_array(weight, where), dtype=float)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{where}: column {name!r}: expected weights in rows {first} to {first + n_rows - 1} ({error})") from None
    if weight.shape != (n_rows,):
        raise ValueError(f"{where}: expected {n_rows} weights from row {first} on, got shape {weight.shape}")
    bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if len(bad):
        raise ValueError(f"{where}: row {first + bad[0]}, column {name!r}: expected a weight, a finite number >= 0, got {weight[bad[0]]}")
    return weight


def no_rows(source):
    """What to say of a source without a row that counts."""
    return f"{source.name}: expected at least one row" + (", got none" if source.weight is None else f" with a positive {source.weight}, got none")


def numbered(d):
    """Names of columns that have none."""
    return tuple(f"x{i}" for i in range(d))


class ArraySource(RowSource):
    """Arrays in memory or of np.load(mmap_mode="r"): X (N, d), y (N,) or None, weights (N,) or None.

    With classes (L,) given, y holds codes 0..L-1 and the labels are classes[y]."""

    def __init__(self, X, y=None, columns=None, classes=None, name="X", weights=None):
        shape = np.shape(X)
        if len(shape) != 2 or min(shape) < 1:
            raise ValueError(f"{name}: expected an array (rows >= 1, columns >= 1), got shape {shape}")
        if y is not None and np.shape(y) != shape[:1]:
            raise ValueError(f"y: expected one label for each of {shape[0]} rows, got shape {np.shape(y)}")
        if weights is not None and np.shape(weights) != shape[:1]:
            raise ValueError(f"sample_weight: expected one weight for each of {shape[0]} rows, got shape {np.shape(weights)}")
        self.X, self.y, self.name, self.n_rows, self.weights = X, y, name, shape[0], weights
        self.columns, self.named = numbered(shape[1]) if columns is None else tuple(columns), columns is not None
        self.classes, self.target, self.weight = classes, None if y is None else "y", None if weights is None else "weight"

    def _cuts(self, start=0):
        """(first row, X, y, weights) of each block, as they are."""
        for s in range(start, self.n_rows, self.block_rows):
            yield s, *pick_rows((self.X, self.y, self.weights), slice(s, s + self.block_rows))

    def blocks(self, start=0):
        for s, X, y, weight in self._cuts(start):
            X = check_block(X, self.columns, self.name, s)
            y = None if y is None else check_labels(y, len(X), self.name, s)
            weight = None if weight is None else check_row_weights(weight, len(X), self.name, s)
            yield with_weight(X, y if y is None or self.classes is None else self.classes[y], weight)

    def stamp(self):
        return tuple(map(file_stamp, (a.filename for a in (self.X, self.y, self.weights) if getattr(a, "filename", None))))

    def parts(self):
        return tuple(ArraySource(X, y, self.columns, self.classes, self.name, weights) for _, X, y, weights in self._cuts())


class FrameSource(RowSource):
    """A pandas DataFrame; its column `target` holds the labels, `weight` the weights if any, and columns (all others) the numbers."""

    def __init__(self, frame, target=None, columns=None, name="X", weight=None):
        self.frame, self.target, self.name, self.n_rows, self.weight = frame, target, name, len(frame), weight
        self.columns = pick_columns(list(frame.columns), target, columns, name, weight)
        if not self.n_rows:
            raise ValueError(f"{name}: expected at least one row, got none")
        check_columns(frame[[*self.columns, *([] if weight is None else [weight])]])

    def blocks(self, start=0):
        for s in range(start, self.n_rows, self.block_rows):
            part = self.frame.iloc[s:s + self.block_rows]
            X = part[list(self.columns)].to_numpy(dtype=float, na_value=np.nan)
            X = check_block(X, self.columns, self.name, s)
            y = None if self.target is None else check_labels(part[self.target], len(X), self.name, s)
            yield with_weight(X, y, None if self.weight is None else frame_weights(part, self.weight, self.name, s))


def frame_weights(frame, weight, where, first):
    """The column of weights of a frame; what is missing in it is no weight."""
    return check_row_weights(frame[weight].to_numpy(dtype=float, na_value=np.nan), len(frame), where, first, weight)


class SelectedSource(RowSource):
    """The rows of another source that a mask (N,) keeps, in their order."""

    def __init__(self, source, mask):
        self.source, self.mask, self.n_rows = source, mask, int(np.count_nonzero(mask))
        self.name, self.columns, self.target, self.classes, self.named, self.weight = (
            source.name, source.columns, source.target, source.classes, source.named, source.weight)

    def blocks(self, start=0):
        return skip_rows(self._read(), start)

    def _read(self):
        first = 0
        for block in self.source.blocks():
            keep = self.mask[first:first + len(block[0])]
            first += len(block[0])
            if keep.any():
                yield pick_rows(block, keep)

    def stamp(self):
        return self.source.stamp()


class WeighedSource(RowSource):
    """The rows of another source, their weights times the factor of their class.  classes (L,) sorted, factors (L,) >= 0"""

    def __init__(self, source, classes, factors):
        self.source, self.of, self.factors = source, classes, factors
        self.name, self.columns, self.target, self.classes, self.named, self.n_rows = (
            source.name, source.columns, source.target, source.classes, source.named, source.n_rows)
        self.weight = source.weight or "class_weight"

    def blocks(self, start=0):
        for X, y, *weight in self.source.blocks(start):
            place = np.minimum(np.searchsorted(self.of, y), len(self.of) - 1)
            factors = self.factors[place]
            with np.errstate(over="ignore"):
                weight = weight[0] * factors if weight else factors
            yield X, y, check_row_weights(weight, len(X), self.name, start, self.weight)
            start += len(X)

    def stamp(self):
        return self.source.stamp()


class CallableSource(RowSource):
    """A function that returns a new iterator over (X, y), over (X, y, weight), or over X, whenever it is called."""

    def __init__(self, function, columns=None, target="y", name="X"):
        self.function, self.name, self.target, self.width = function, name, target, None
        first = next(iter(self._blocks()), (None,))
        X, self.width = first[0], len(first)
        if X is None:
            raise ValueError(f"{name}: expected a callable that returns blocks (X, y), got no block")
        self.weight = "weight" if self.width == 3 else None
        self.columns, self.named = numbered(np.shape(X)[-1]) if columns is None else tuple(columns), columns is not None

    def _blocks(self):
        stream = self.function()
        if not isinstance(stream, Iterable):
            raise ValueError(f"{self.name}: expected a callable that returns an iterator over (X, y), got {type(stream).__name__}")
        widths = (2, 3) if self.width is None else (self.width,)
        for block in stream:
            if self.target is None:
                yield block, None
                continue
            if not (isinstance(block, (tuple, list)) and len(block) in widths):
                some = f" of {len(block)}" if isinstance(block, (tuple, list)) else ""
                raise ValueError(f"{self.name}: expected blocks {'(X, y, weight)' if self.width == 3 else '(X, y)'}, got {type(block).__name__}{some}")
            yield block

    def blocks(self, start=0):
        return skip_rows(self._checked(), start)

    def _checked(self):
        first = 0
        for X, y, *weight in self._blocks():
            X = check_block(X, self.columns, self.name, first)
            if len(X):
                y = None if self.target is None else check_labels(y, len(X), self.name, first)
                yield with_weight(X, y, check_row_weights(*weight, len(X), self.name, first) if weight else None)
            first += len(X)


def pick_columns(names, target, columns, where, weight=None):
    """The names of the columns of X: those asked for, or all but the target and the weight.  ValueError names what is not there."""
    others = [name for name in (target, weight) if name is not None]
    absent = [name for name in [*(columns or ()), *others] if name not in names]
    if weight is not None and weight in [target, *(columns or ())]:
        raise ValueError(f"{where}: weight: expected a column beside the target and those of X, got {weight!r}")
    if absent:
        raise ValueError(f"{where}: no column {', '.join(map(repr, absent))}; it has {', '.join(map(repr, names))}")
    picked = tuple(columns) if columns else tuple(name for name in names if name not in others)
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
