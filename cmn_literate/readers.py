"""Rows from wherever they are: arrays, frames, files and clusters, read again and again, a block at a time.

Hand-written and free of mathematics. pyarrow and dask are imported where a file or a collection asks for them.
"""

import errno
import glob
import os
from collections.abc import Iterable
from importlib import import_module

import numpy as np

from cmn_literate.checks import plain_array
from cmn_literate.csv_rows import CsvFile
from cmn_literate.inputs import check_columns, plain_labels

BLOCK_BYTES = 1 << 22                                                   # of numbers in a block that a source hands over
PARQUET = (".parquet", ".pq", ".parq")


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
        raise ValueError(f"{where}: expected distinct columns beside {target!r}, got {', '.join(map(repr, names))}")
    return picked


# ---- files

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


class FileSource(RowSource):
    """Files of one kind, one after the other."""

    def __init__(self, paths, target=None, columns=None):
        self.paths, self.target = tuple(map(os.fspath, paths)), target
        self.name = self.paths[0] if len(self.paths) == 1 else f"{self.paths[0]} and {len(self.paths) - 1} more"

    def stamp(self):
        return tuple(map(file_stamp, self.paths))


class CsvSource(FileSource):
    """CSV files with a header each; the columns are found by name in every file.  places: where they are, if not under the names
    that messages call them by."""

    def __init__(self, paths, target=None, columns=None, delimiter=",", decimal=".", places=None):
        super().__init__(paths, target)
        self.places = self.paths if places is None else tuple(places)
        self.files = tuple(CsvFile(path, delimiter, decimal, place) for path, place in zip(self.paths, self.places))
        self.columns = pick_columns(self.files[0].header, target, columns, self.paths[0])
        for file in self.files[1:]:
            pick_columns(file.header, target, self.columns, file.path)

    def blocks(self, start=0):
        seen = {}

        def read():
            for file in self.files:
                yield from file.blocks(self.columns, self.target, seen)
        return skip_rows(read(), start)

    def parts(self):
        first = self.files[0]
        return tuple(CsvSource([path], self.target, self.columns, first.delimiter, first.decimal, [place])
                     for path, place in zip(self.paths, self.places))

    def stamp(self):
        return tuple(map(file_stamp, self.places))


class ParquetSource(FileSource):
    """Parquet files; the columns are found by name in every file.  groups: row groups of the one file that are read."""

    def __init__(self, paths, target=None, columns=None, groups=None):
        super().__init__(paths, target)
        self.groups, self.sizes = groups, []                            # rows of every row group of every file
        for path in self.paths:
            with self._open(path) as file:
                names = file.schema_arrow.names
                self.columns = pick_columns(names, target, self.columns or columns, path)
                self._check_types(file.schema_arrow, path)
                rows = [file.metadata.row_group(g).num_rows for g in range(file.metadata.num_row_groups)]
            if not sum(rows):
                raise ValueError(f"{path}: expected at least one row, got none")
            self.sizes.append(rows if groups is None else [rows[g] for g in groups])
        self.n_rows = sum(map(sum, self.sizes))

    @staticmethod
    def _open(path):
        parquet, arrow = need("pyarrow.parquet", "a Parquet file", "data"), need("pyarrow", "a Parquet file", "data")
        try:
            return parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20)
        except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError) as error:
            raise ValueError(f"{path}: expected a whole Parquet file ({error})") from None

    def _check_types(self, schema, path):
        types = need("pyarrow.types", "a Parquet file", "data")
        kinds = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
        bad = [name for name in self.columns if not any(kind(schema.field(name).type) for kind in kinds)]
        if bad:
            raise ValueError(f"{path}: expected numeric columns, got {', '.join(bad)}")

    def blocks(self, start=0):
        for path, sizes in zip(self.paths, self.sizes):
            if start >= sum(sizes):
                start -= sum(sizes)
                continue
            g, first = 0, 0                                             # whole row groups before the start are not read
            while start - first >= sizes[g]:
                first, g = first + sizes[g], g + 1
            yield from skip_rows(self._read(path, list(range(len(sizes)))[g:], first), start - first)
            start = 0

    def _read(self, path, places, first):
        arrow = need("pyarrow", "a Parquet file", "data")
        groups = places if self.groups is None else [self.groups[g] for g in places]
        names = [*self.columns, *([] if self.target is None else [self.target])]
        with self._open(path) as file:
            try:
                for batch in file.iter_batches(self.block_rows, row_groups=groups, columns=names, use_threads=False):
                    if len(batch):
                        yield self._block(batch, path, first)
                    first += len(batch)
            except (arrow.ArrowException, OSError) as error:
                raise ValueError(f"{path}: expected a whole Parquet file, cannot read on from row {first} "
                                 f"({' '.join(str(error).split())})") from None

    def _block(self, batch, path, first):
        X = np.empty((len(batch), len(self.columns)))
        for i, name in enumerate(self.columns):
            X[:, i] = batch.column(name).to_numpy(zero_copy_only=False)
        X = check_block(X, self.columns, path, first)
        return X, None if self.target is None else arrow_labels(batch.column(self.target), path, first)

    def parts(self):
        return tuple(ParquetSource([path], self.target, self.columns, (g,)) for path, sizes in zip(self.paths, self.sizes)
                     for g in range(len(sizes)) if sizes[g]) if self.groups is None else (self,)


def arrow_labels(column, where, first):
    """The labels of an Arrow array; text comes by way of its dictionary."""
    if column.null_count:
        row = first + np.flatnonzero(np.asarray(column.is_null()))[0]
        raise ValueError(f"{where}: row {row}: missing label")
    types = need("pyarrow.types", "a Parquet file", "data")
    kind = column.type
    if types.is_string(kind) or types.is_large_string(kind):
        column = column.dictionary_encode()
    if types.is_dictionary(column.type):
        return np.array(column.dictionary.to_pylist())[column.indices.to_numpy(zero_copy_only=False)]
    return check_labels(column.to_numpy(zero_copy_only=False), len(column), where, first)


# ---- dask

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
        if y is not None and self.X.numblocks[0] != y.numblocks[0]:
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


def find_files(data):
    """The files that a path, a glob, a folder or a list of them names; sorted within each.  ValueError if there are none."""
    found = []
    for item in [data] if isinstance(data, (str, os.PathLike)) else data:
        item = os.fspath(item)
        if os.path.isdir(item):
            inside = [os.path.join(item, name) for name in sorted(os.listdir(item)) if name[0] not in "._"]
            files = [path for path in inside if path.endswith((*PARQUET, ".csv", ".csv.gz"))]
        else:
            files = [item] if os.path.exists(item) else sorted(glob.glob(item))
        if not files and not os.path.isdir(item) and not glob.has_magic(item):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), item)
        if not files:
            raise ValueError(f"{item}: expected a file, a directory or a pattern of CSV or Parquet files, found none")
        found += files
    return found


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
