"""Sources of rows in files: CSV and Parquet, one file or many, whose columns are found by name in every one.

Hand-written and free of mathematics. pyarrow is imported where a Parquet file asks for it.
"""

import errno
import glob
import os

import numpy as np

from cmn_literate.csv_rows import CsvFile
from cmn_literate.row_sources import (
    RowSource, check_block, check_labels, check_row_weights, file_stamp, need, pick_columns, skip_rows, with_weight)

PARQUET = (".parquet", ".pq", ".parq")


class FileSource(RowSource):
    """Files of one kind, one after the other."""

    def __init__(self, paths, target=None, weight=None):
        self.paths, self.target, self.weight = tuple(map(os.fspath, paths)), target, weight
        self.name = self.paths[0] if len(self.paths) == 1 else f"{self.paths[0]} and {len(self.paths) - 1} more"

    def stamp(self):
        return tuple(map(file_stamp, self.paths))


class CsvSource(FileSource):
    """CSV files with a header each; the columns are found by name in every file.  places: where they are, if not under the names
    that messages call them by."""

    def __init__(self, paths, target=None, columns=None, delimiter=",", decimal=".", places=None, weight=None):
        super().__init__(paths, target, weight)
        self.places = self.paths if places is None else tuple(places)
        self.files = tuple(CsvFile(path, delimiter, decimal, place) for path, place in zip(self.paths, self.places))
        self.columns = pick_columns(self.files[0].header, target, columns, self.paths[0], weight)
        for file in self.files[1:]:
            pick_columns(file.header, target, self.columns, file.path, weight)

    def blocks(self, start=0):
        seen = {}

        def read():
            for file in self.files:
                yield from file.blocks(self.columns, self.target, seen, self.weight)
        return skip_rows(read(), start)

    def parts(self):
        first = self.files[0]
        return tuple(CsvSource([path], self.target, self.columns, first.delimiter, first.decimal, [place], self.weight)
                     for path, place in zip(self.paths, self.places))

    def stamp(self):
        return tuple(map(file_stamp, self.places))


class ParquetSource(FileSource):
    """Parquet files; the columns are found by name in every file.  groups: row groups of the one file that are read."""

    def __init__(self, paths, target=None, columns=None, groups=None, weight=None):
        super().__init__(paths, target, weight)
        self.groups, self.sizes = groups, []                            # rows of every row group of every file
        for path in self.paths:
            with self._open(path) as file:
                names = file.schema_arrow.names
                self.columns = pick_columns(names, target, self.columns or columns, path, weight)
                self._check_types(file.schema_arrow, path)
                rows = [file.metadata.row_group(g).num_rows for g in range(file.metadata.num_row_groups)]
            if not sum(rows):
                raise ValueError(f"{path}: expected at least one row, got none")
            self.sizes.append(rows if groups is None else [rows[g] for g in groups])
        self.n_rows = sum(map(sum, self.sizes))

    @staticmethod
    def _open(path):
        parquet, arrow = need("pyarrow.parquet", "a Parquet file", "files"), need("pyarrow", "a Parquet file", "files")
        try:
            return parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20)
        except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError) as error:
            raise ValueError(f"{path}: expected a whole Parquet file ({error})") from None

    def _check_types(self, schema, path):
        types = need("pyarrow.types", "a Parquet file", "files")
        kinds = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
        bad = [name for name in filter(None, (*self.columns, self.weight)) if not any(kind(schema.field(name).type) for kind in kinds)]
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
        arrow = need("pyarrow", "a Parquet file", "files")
        groups = places if self.groups is None else [self.groups[g] for g in places]
        names = [*self.columns, *(name for name in (self.target, self.weight) if name is not None)]
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
        y = None if self.target is None else arrow_labels(batch.column(self.target), path, first)
        return with_weight(X, y, None if self.weight is None else check_row_weights(
            batch.column(self.weight).to_numpy(zero_copy_only=False), len(batch), path, first, self.weight))

    def parts(self):
        return tuple(ParquetSource([path], self.target, self.columns, (g,), self.weight) for path, sizes in zip(self.paths, self.sizes)
                     for g in range(len(sizes)) if sizes[g]) if self.groups is None else (self,)


def arrow_labels(column, where, first):
    """The labels of an Arrow array; text comes by way of its dictionary."""
    if column.null_count:
        row = first + np.flatnonzero(np.asarray(column.is_null()))[0]
        raise ValueError(f"{where}: row {row}: missing label")
    types = need("pyarrow.types", "a Parquet file", "files")
    kind = column.type
    if types.is_string(kind) or types.is_large_string(kind):
        column = column.dictionary_encode()
    if types.is_dictionary(column.type):
        return np.array(column.dictionary.to_pylist())[column.indices.to_numpy(zero_copy_only=False)]
    return check_labels(column.to_numpy(zero_copy_only=False), len(column), where, first)


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
