"""The door for rows from wherever they are: open_source finds the source, load_rows brings it into memory if it is small enough.

Hand-written and free of mathematics. dask is imported where a collection asks for it.
"""

import os
import sys
from typing import NamedTuple

import numpy as np

from cmn_literate.file_sources import PARQUET, CsvSource, ParquetSource, find_files
from cmn_literate.row_sources import (
    ArraySource, CallableSource, FrameSource, RowSource, check_block, check_labels, check_row_weights, counted_blocks, frame_weights,
    need, no_rows, numbered, pick_columns, skip_rows, with_weight)


class DaskSource(RowSource):
    """A dask dataframe with a column `target`, by partitions, or dask arrays X (N, d), y (N,) and weights (N,), by blocks of rows.

    weight: name of a column of the frame, or an array"""

    def __init__(self, X, y=None, target=None, columns=None, name="X", weight=None):
        need("dask", "a dask collection", "dask")
        self.X, self.y, self.name, self.framed = X, y, name, hasattr(X, "partitions") and hasattr(X, "columns")
        if self.framed:
            self.target, self.columns, self.weight = target, pick_columns(list(X.columns), target, columns, name, weight), weight
            return
        self.target, self.weight, self.weights = None if y is None else "y", None if weight is None else "weight", weight
        self.X = X.rechunk({1: -1})
        self.columns, self.named = numbered(X.shape[1]) if columns is None else tuple(columns), columns is not None
        if y is not None and not np.array_equal(self.X.chunks[0], y.chunks[0], equal_nan=True):
            self.y = y.rechunk({0: self.X.chunks[0]})
        if weight is not None:
            self.weights = self._alike(weight)
        self.n_rows = None if np.isnan(X.shape[0]) else int(X.shape[0])

    def _alike(self, weight):
        """Weights as a dask array in the chunks of X."""
        array = need("dask.array", "a dask collection", "dask")
        weight = weight if is_dask(weight) else array.from_array(np.asarray(weight), chunks=-1)
        if weight.ndim != 1 or weight.shape[0] != self.X.shape[0] and not np.isnan([weight.shape[0], self.X.shape[0]]).any():
            raise ValueError(f"sample_weight: expected one weight for each of {self.X.shape[0]} rows, got shape {weight.shape}")
        same = np.array_equal(self.X.chunks[0], weight.chunks[0], equal_nan=True)
        return weight if same else weight.rechunk({0: self.X.chunks[0]})

    def pieces(self):
        """(X, y, weights) of each partition or block of rows, as dask collections; of a frame, (frame, None, None)."""
        if self.framed:
            yield from ((self.X.partitions[i], None, None) for i in range(self.X.npartitions))
            return
        for i in range(self.X.numblocks[0]):
            yield tuple(None if part is None else part.blocks[i] for part in (self.X, self.y, self.weights))

    def blocks(self, start=0):
        return skip_rows(self._read(), start)

    def _read(self):
        compute, first = need("dask", "a dask collection", "dask").compute, 0
        for piece in self.pieces():
            X, y, weight = compute(*piece)
            if self.framed:
                y = None if self.target is None else X[self.target]
                weight = None if self.weight is None else frame_weights(X, self.weight, self.name, first)
                X = X[list(self.columns)].to_numpy(dtype=float, na_value=np.nan)
            if len(X):
                X = check_block(X, self.columns, self.name, first)
                y = None if y is None else check_labels(y, len(X), self.name, first)
                yield with_weight(X, y, None if weight is None else check_row_weights(weight, len(X), self.name, first, self.weight))
            first += len(X)

    def parts(self):
        return tuple(DaskSource(X, y, self.target, self.columns if self.framed else None, self.name, self.weight if self.framed else weight)
                     for X, y, weight in self.pieces())


# ---- the door

def is_dask(data):
    return type(data).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(data, "__dask_graph__")


def active_client(data):
    """The dask.distributed.Client that is active, if data is a dask collection; None without one, and for other rows."""
    distributed = sys.modules.get("distributed")                        # who has made a client has imported it
    if distributed is None or not is_dask(data):
        return None
    try:
        client = distributed.default_client()
    except ValueError:
        return None
    return None if client.asynchronous else client


def is_source(data):
    """Whether fit reads these rows from where they are: a RowSource, a path or a list of them, a function, dask or Arrow."""
    paths = isinstance(data, (list, tuple)) and data and all(isinstance(item, (str, os.PathLike)) for item in data)
    arrow = type(data).__module__.startswith("pyarrow")
    return isinstance(data, (RowSource, str, os.PathLike)) or paths or callable(data) or is_dask(data) or arrow


def check_weight_kind(weight, named, what):
    """ValueError unless weight is None, or the name of a column (named) or an array (not named) as these rows need it."""
    if weight is not None and isinstance(weight, str) != named:
        got = repr(weight) if isinstance(weight, str) else type(weight).__name__
        raise ValueError(f"sample_weight: expected {'the name of a column' if named else 'an array'} for {what}, got {got}")


def open_source(data, target=None, columns=None, delimiter=",", decimal=".", weight=None):
    """The RowSource of what may be: a RowSource; arrays (X, y); a path, glob or folder of CSV or Parquet files, or a list of them;
    a DataFrame of pandas, Arrow or dask with a column target; a dask array or a pair of them; a function that returns a new
    iterator over (X, y) or (X, y, weight).  target None: rows without labels, for prediction.  weight: the name of the column of
    weights in files and frames, an array (N,) beside arrays.  ValueError for anything else."""
    if isinstance(data, RowSource) or callable(data):
        if weight is not None:
            raise ValueError(f"sample_weight: expected None, since the source brings its weights, got {type(weight).__name__}")
        return data if isinstance(data, RowSource) else CallableSource(data, columns)
    pair = isinstance(data, tuple) and len(data) == 2 and hasattr(data[0], "shape")
    X, y = data if pair else (data, None)
    if hasattr(X, "to_pandas") and type(X).__module__.startswith("pyarrow"):
        X = X.to_pandas()
    framed = hasattr(X, "columns") and (y is None or is_dask(X))
    check_weight_kind(weight, framed or not hasattr(X, "shape"), "files" if isinstance(X, (str, list, os.PathLike)) else type(X).__name__)
    if is_dask(X):
        return DaskSource(X, y, target, columns, weight=weight)
    if hasattr(X, "iloc"):
        if y is None:
            return FrameSource(X, target, columns, weight=weight)
        more = {} if weight is None else {"weight ": np.asarray(weight)}
        return FrameSource(X.assign(**{"y ": np.asarray(y)}, **more), "y ", columns, weight=next(iter(more), None))
    if hasattr(X, "shape"):
        return ArraySource(X, y, columns, weights=weight)
    if not is_source(data):
        raise ValueError("X: expected arrays, a frame, files, a dask collection or a function that returns a new iterator over "
                         f"(X, y), got {type(data).__name__}")
    files = find_files(data)
    kinds = {path.endswith(PARQUET) for path in files}
    if len(kinds) > 1:
        raise ValueError(f"{data}: expected files of one kind, got CSV and Parquet")
    if kinds == {True}:
        return ParquetSource(files, target, columns, weight=weight)
    return CsvSource(files, target, columns, delimiter, decimal, weight=weight)


def source_of(data, y=None, weight=None):
    """The source that fit(data, y, weight) means: y and weight are names of columns of files and frames, or arrays beside an array."""
    if isinstance(y, str):
        return open_source(data, y, weight=weight)
    if y is None:
        return open_source(data, weight=weight)
    if isinstance(data, RowSource):
        raise ValueError(f"y: expected None, since the source brings its labels, got {type(y).__name__}")
    return open_source((data, y), weight=weight)


class Loaded(NamedTuple):
    """Rows in memory that count: X (N, d), codes (N,) in 0..L-1, classes (L,) sorted, weight (N,) > 0 or None."""
    X: np.ndarray
    codes: np.ndarray
    classes: np.ndarray
    weight: np.ndarray = None


def load_rows(source, most):
    """The rows of a source as Loaded, or None if there are more than most(number of classes) of them.

    ValueError for a source without labels or rows."""
    if source.n_rows is not None and source.n_rows > most(2):
        return None
    X = np.empty((source.n_rows or 4096, len(source.columns)))
    codes, weights, known, n = np.empty(len(X), np.int32), np.empty(0 if source.weight is None else len(X)), {}, 0
    for block, y, weight in counted_blocks(source):
        if y is None:
            raise ValueError(f"{source.name}: expected labels, got rows without: name the target column")
        new, place = np.unique(y, return_inverse=True)
        kinds = {isinstance(label, str) for label in [*list(known)[:1], *new.tolist()]}
        if len(kinds) > 1:
            raise ValueError(f"{source.name}: expected labels of one kind, got text and numbers")
        numbers = np.array([known.setdefault(label, len(known)) for label in new.tolist()])
        if n + len(block) > most(max(len(known), 2)):
            return None
        if n + len(block) > len(X):                                     # memory that is not written to costs nothing
            size = max(n + len(block), 2 * len(X))
            X.resize((size, X.shape[1]), refcheck=False)
            codes.resize(size, refcheck=False)
            weights.resize(0 if weight is None else size, refcheck=False)
        X[n:n + len(block)], codes[n:n + len(block)] = block, numbers[place]
        if weight is not None:
            weights[n:n + len(block)] = weight
        n += len(block)
    if not n:
        raise ValueError(no_rows(source))
    X.resize((n, X.shape[1]), refcheck=False)
    classes, place = np.unique(np.array(list(known)), return_inverse=True)
    return Loaded(X, place[codes[:n]], classes, None if source.weight is None else weights[:n])
