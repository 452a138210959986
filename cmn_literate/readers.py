"""The door for rows from wherever they are: open_source finds the source, load_rows brings it into memory if it is small enough.

Hand-written and free of mathematics. dask is imported where a collection asks for it.
"""

import os
from typing import NamedTuple

import numpy as np

from cmn_literate.file_sources import PARQUET, CsvSource, ParquetSource, find_files
from cmn_literate.row_sources import (
    ArraySource, CallableSource, FrameSource, RowSource, check_block, check_labels, need, numbered, pick_columns, skip_rows)


class DaskSource(RowSource):
    """A dask dataframe with a column `target`, by partitions, or dask arrays X (N, d) and y (N,), by blocks of rows."""

    def __init__(self, X, y=None, target=None, columns=None, name="X"):
        need("dask", "a dask collection", "dask")
        self.X, self.y, self.name, self.framed = X, y, name, hasattr(X, "partitions") and hasattr(X, "columns")
        if self.framed:
            self.target, self.columns = target, pick_columns(list(X.columns), target, columns, name)
            return
        self.target = None if y is None else "y"
        self.X = X.rechunk({1: -1})
        self.columns, self.named = numbered(X.shape[1]) if columns is None else tuple(columns), columns is not None
        if y is not None and not np.array_equal(self.X.chunks[0], y.chunks[0], equal_nan=True):
            self.y = y.rechunk({0: self.X.chunks[0]})
        self.n_rows = None if np.isnan(X.shape[0]) else int(X.shape[0])

    def _pieces(self):
        if self.framed:
            yield from ((self.X.partitions[i], None) for i in range(self.X.npartitions))
            return
        for i in range(self.X.numblocks[0]):
            yield self.X.blocks[i], None if self.y is None else self.y.blocks[i]

    def blocks(self, start=0):
        return skip_rows(self._read(), start)

    def _read(self):
        compute, first = need("dask", "a dask collection", "dask").compute, 0
        for X, y in self._pieces():
            X, y = compute(X, y)
            if self.framed:
                y = None if self.target is None else X[self.target]
                X = X[list(self.columns)].to_numpy(dtype=float, na_value=np.nan)
            if len(X):
                X = check_block(X, self.columns, self.name, first)
                yield X, None if y is None else check_labels(y, len(X), self.name, first)
            first += len(X)

    def parts(self):
        return tuple(DaskSource(X, y, self.target, self.columns if self.framed else None, self.name) for X, y in self._pieces())


# ---- the door

def is_dask(data):
    return type(data).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(data, "__dask_graph__")


def is_source(data):
    """Whether fit reads these rows from where they are: a RowSource, a path or a list of them, a function, dask or Arrow."""
    paths = isinstance(data, (list, tuple)) and data and all(isinstance(item, (str, os.PathLike)) for item in data)
    arrow = type(data).__module__.startswith("pyarrow")
    return isinstance(data, (RowSource, str, os.PathLike)) or paths or callable(data) or is_dask(data) or arrow


def open_source(data, target=None, columns=None, delimiter=",", decimal="."):
    """The RowSource of what may be: a RowSource; arrays (X, y); a path, glob or folder of CSV or Parquet files, or a list of them;
    a DataFrame of pandas, Arrow or dask with a column target; a dask array or a pair of them; a function that returns a new
    iterator over (X, y).  target None: rows without labels, for prediction.  ValueError for anything else."""
    if isinstance(data, RowSource):
        return data
    pair = isinstance(data, tuple) and len(data) == 2 and hasattr(data[0], "shape")
    X, y = data if pair else (data, None)
    if is_dask(X):
        return DaskSource(X, y, target, columns)
    if hasattr(X, "to_pandas") and type(X).__module__.startswith("pyarrow"):
        X = X.to_pandas()
    if hasattr(X, "iloc"):
        return FrameSource(X, target, columns) if y is None else FrameSource(X.assign(**{"y ": np.asarray(y)}), "y ", columns)
    if hasattr(X, "shape"):
        return ArraySource(X, y, columns)
    if callable(data):
        return CallableSource(data, columns)
    if not is_source(data):
        raise ValueError("X: expected arrays, a frame, files, a dask collection or a function that returns a new iterator over "
                         f"(X, y), got {type(data).__name__}")
    files = find_files(data)
    kinds = {path.endswith(PARQUET) for path in files}
    if len(kinds) > 1:
        raise ValueError(f"{data}: expected files of one kind, got CSV and Parquet")
    if kinds == {True}:
        return ParquetSource(files, target, columns)
    return CsvSource(files, target, columns, delimiter, decimal)


def source_of(data, y=None):
    """The source that fit(data, y) means: y is the name of the target column of files and frames, or the labels of an array."""
    if isinstance(y, str):
        return open_source(data, y)
    if y is None:
        return open_source(data)
    if isinstance(data, RowSource):
        raise ValueError(f"y: expected None, since the source brings its labels, got {type(y).__name__}")
    return open_source((data, y))


class Loaded(NamedTuple):
    """Rows in memory: X (N, d), codes (N,) in 0..L-1, classes (L,) sorted."""
    X: np.ndarray
    codes: np.ndarray
    classes: np.ndarray


def load_rows(source, most):
    """The rows of a source as Loaded, or None if there are more than most(number of classes) of them.

    ValueError for a source without labels or rows."""
    if source.n_rows is not None and source.n_rows > most(2):
        return None
    X = np.empty((source.n_rows or 4096, len(source.columns)))
    codes, known, n = np.empty(len(X), np.int32), {}, 0
    for block, y in source.blocks():
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
        X[n:n + len(block)], codes[n:n + len(block)] = block, numbers[place]
        n += len(block)
    if not n:
        raise ValueError(f"{source.name}: expected at least one row, got none")
    X.resize((n, X.shape[1]), refcheck=False)
    classes, place = np.unique(np.array(list(known)), return_inverse=True)
    return Loaded(X, place[codes[:n]], classes)
