"""CSV files as columns of numbers and labels, a megabyte of lines at a time; what is wrong is named by file, line and column.

Hand-written and free of mathematics. pyarrow reads the plain pieces if it is there; a piece in which anything is unusual (a cell of
two lines, a plus sign, a missing value) is read again by Python's own csv, so that both give the same numbers and the same complaints.
"""

import contextlib
import csv
import gzip
import io
import os
import re
import sys
import tempfile
import unicodedata
import zlib
from collections import Counter

import numpy as np

MISSING = {"", "?", "na", "n/a", "nan", "null", "none"}
SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
PIECE = 1 << 20                                                         # bytes of lines that are read at a time


def read_lines(text, delimiter, first=1, alone=False):
    """(number of its first line, cells) of every row; blank lines are no rows, but in a file of one column they are empty cells.

    text: whole lines, the first with the number `first`; alone: the file has one column and blank lines count from the start"""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter)
    number, out, blank = first, [], []
    for cells in reader:
        if cells:
            one = alone or len(out) and len(out[0][1]) == 1
            out += [(line, [""]) for line in blank if one]
            out.append((number, cells))
        blank = [] if cells else [*blank, number]
        number = first + reader.line_num
    return out


def plain(names):
    """Names in one form, without the blanks around them; those that would then be equal keep theirs."""
    names = [unicodedata.normalize("NFC", name) for name in names]
    count = Counter(name.strip() for name in names)
    return [name.strip() if count[name.strip()] == 1 else name for name in names]


def form(label):
    """What is left of a label without its form: case, blanks inside, the way a number is written."""
    try:
        return repr(float(label.replace("_", "x")))
    except ValueError:
        return " ".join(unicodedata.normalize("NFKC", label).casefold().split())


def check_header(path, header, delimiter):
    """ValueError for names that are empty or come twice, and for a file with another separator."""
    other = next((mark for mark in SEPARATORS if mark in header[0] and mark != delimiter), None) if len(header) == 1 else None
    if other:
        raise ValueError(f"{path}: expected columns separated by {delimiter!r}, got one column; is it separated by {SEPARATORS[other]}? "
                         f"--delimiter {'tab' if other == chr(9) else repr(other)}")
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice or not all(map(str.strip, header)):
        raise ValueError(f"{path}: expected a header of distinct names, got " + (f"twice: {', '.join(twice)}" if twice else "an empty name"))


def spool(stream, folder=None):
    """Path of a temporary file with all the bytes of a stream that can be read only once; the caller removes it."""
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".csv", delete=False) as out:
        while piece := stream.read(PIECE):
            out.write(piece)
    return out.name


class CsvFile:
    """One CSV file in UTF-8, also packed by gzip, with a header; `path` is what messages call it, `place` where it is if not there."""

    def __init__(self, path, delimiter=",", decimal=".", place=None):
        self.path, self.delimiter, self.decimal, self.place = os.fspath(path), delimiter, decimal, place or path
        with contextlib.closing(self._pieces(1 << 14)) as pieces:
            rows = self._rows(*next(pieces, (1, b"")))
            more = len(rows) > 1 or next(pieces, None)
        if not rows or not more:
            raise ValueError(f"{self.path}: expected a header and at least one row, got {len(rows)} line(s)")
        self.header = plain(rows[0][1])
        check_header(self.path, self.header, delimiter)

    @contextlib.contextmanager
    def _named(self):
        """Errors of what lies in the file name it."""
        try:
            yield
        except (UnicodeDecodeError, csv.Error, gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ValueError(f"{self.path}: expected a CSV file in UTF-8 ({error})") from None

    def _pieces(self, size=PIECE):
        """(number of its first line, bytes) of pieces of whole lines; none ends inside a quoted cell or in front of a blank line."""
        number, kept = 1, b""
        with self._named(), open(self.place, "rb") as raw:
            file = gzip.GzipFile(fileobj=raw) if raw.peek(2)[:2] == b"\x1f\x8b" else raw
            start = file.read(3)
            kept = b"" if start == b"\xef\xbb\xbf" else start
            while more := file.read(size):
                piece = kept + more + file.readline()
                odd = piece.count(b'"') % 2
                while odd and (line := file.readline()):
                    piece, odd = piece + line, (odd + line.count(b'"')) % 2
                body = piece.rstrip(b"\r\n")
                end = len(body) + (2 if piece[len(body):].startswith(b"\r\n") else 1)
                if body.strip():
                    yield number, piece[:end]
                    number += count_lines(piece[:end])
                    kept = piece[end:]
                else:
                    kept = piece                                        # nothing but blank lines yet
            if kept.strip():
                yield number, kept

    def _rows(self, first, piece):
        """Rows of a piece as read_lines gives them, all with as many cells as the header has."""
        with self._named():
            header = getattr(self, "header", None)
            rows = read_lines(piece.decode("utf-8"), self.delimiter, first, header is not None and len(header) == 1)
        for line, cells in rows if header else ():
            if len(cells) != len(header):
                raise ValueError(f"{self.path}: line {line}: expected {len(header)} cells, got {len(cells)}")
        return rows

    def blocks(self, names, target=None, seen=None, weight=None):
        """X (B, d) of the columns `names` and labels y (B,), of text, or None, piece by piece; with the name of their column, weights (B,).

        seen: dict that a pass over several files shares: the forms of labels met so far.  ValueError names line and column."""
        seen, first, names = {} if seen is None else seen, True, [*names, *([] if weight is None else [weight])]
        for number, piece in self._pieces():
            done = self._fast(without_first(piece) if first else piece, names, target, weight)
            if done is None:
                rows = self._rows(number, piece)[first:]
                y = None if target is None else self._labels(rows, target)
                alike(self.path, target, y, seen)
                done = (self._numbers(rows, names, weight), y) if rows else None      # a piece with the header alone
            else:
                alike(self.path, target, done[1], seen)
            first = False
            if done is not None:
                yield done if weight is None else (np.ascontiguousarray(done[0][:, :-1]), done[1], done[0][:, -1].copy())

    def _fast(self, piece, names, target, weight=None):
        """X and y of a piece in which every cell is plain, or None."""
        try:
            import pyarrow as arrow
            from pyarrow import csv as table
        except ImportError:
            return None
        quotes = piece.count(b'"')
        mark = re.escape(self.delimiter.encode())
        if len(self.header) == 1 or not piece.strip() or quotes and quotes != 2 * len(re.findall(rb'(?:^|(?<=[\n\r]|%b))"[^"\r\n]*"(?=%b|\r|\n|$)' % (mark, mark), piece)):
            return None
        try:
            piece.decode("utf-8")
            parse = table.ParseOptions(delimiter=self.delimiter)
            read = table.ReadOptions(column_names=self.header, use_threads=False, block_size=len(piece) + 1)
            types = {name: arrow.float64() for name in names} | ({} if target is None else {target: arrow.string()})
            convert = table.ConvertOptions(column_types=types, include_columns=list(types), null_values=[], strings_can_be_null=False,
                                           decimal_point=self.decimal)
            got = table.read_csv(arrow.BufferReader(piece), read, parse, convert)
        except (arrow.ArrowException, UnicodeDecodeError, ValueError):
            return None
        if not len(got):
            return None
        X = np.empty((len(got), len(names)))
        for i, name in enumerate(names):
            X[:, i] = got.column(name).to_numpy()
        if not np.isfinite(X).all() or weight is not None and X[:, -1].min() < 0:
            return None
        if target is None:
            return X, None
        column = got.column(target).combine_chunks().dictionary_encode()
        known = np.array([unicodedata.normalize("NFC", label.strip()) for label in column.dictionary.to_pylist()])
        if any(label.lower() in MISSING for label in known.tolist()):
            return None
        return X, known[column.indices.to_numpy()]

    def _numbers(self, rows, names, weight=None):
        columns = [self.header.index(name) for name in names]
        out = np.empty((len(rows), len(names)))
        for n, (line, cells) in enumerate(rows):
            for i, column in enumerate(columns):
                cell = cells[column].strip()
                where = f"{self.path}: line {line}, column {names[i]!r}"
                if cell.lower() in MISSING:
                    raise ValueError(f"{where}: missing value")
                plain_cell = cell.replace("_", "x")                     # Python would read 1_000, a CSV does not mean it
                if self.decimal == ",":
                    plain_cell = plain_cell.replace(".", "x").replace(",", ".")
                try:
                    out[n, i] = float(plain_cell)
                except ValueError:
                    hint = "; a decimal comma? --decimal ," if self.decimal == "." and cell.count(",") == 1 else ""
                    raise ValueError(f"{where}: expected a number, got {cell!r}{hint}") from None
                if not np.isfinite(out[n, i]):
                    raise ValueError(f"{where}: expected a finite number, got {cell!r}")
                if names[i] == weight and out[n, i] < 0:
                    raise ValueError(f"{where}: expected a weight >= 0, got {cell!r}")
        return out

    def _labels(self, rows, target):
        column = self.header.index(target)
        y = [unicodedata.normalize("NFC", cells[column].strip()) for _, cells in rows]
        for (line, _), label in zip(rows, y):
            if label.lower() in MISSING:
                raise ValueError(f"{self.path}: line {line}, column {target!r}: missing label{label and f' {label!r}'}; leave such rows out"
                                 + (f", or, if {label!r} is a class, give it another name" if label else ""))
        return np.array(y)


def without_first(piece):
    """A piece without its first line that is not blank."""
    return (re.split(rb"\r\n|\n|\r", piece.lstrip(b"\r\n"), maxsplit=1) + [b""])[1]


def count_lines(piece):
    """Line ends in bytes: CR LF, LF, or CR."""
    return piece.count(b"\n") + piece.count(b"\r") - piece.count(b"\r\n")


def alike(path, target, y, seen):
    """ValueError for two labels that differ in form only; seen: form -> label, which grows."""
    if y is None or len(seen) > 10_000:                                 # measurements: complained of elsewhere
        return
    for label in np.unique(y).tolist():
        other = seen.setdefault(form(label), label)
        if other != label:
            one, two = sorted((other, label))
            raise ValueError(f"{path}: column {target!r}: labels {one!r} and {two!r} differ in form only: write them alike, or, if they are two "
                             "classes, give one another name")


def standard_input():
    """Path of a temporary file with what standard input holds; the caller removes it."""
    if sys.stdin is None:
        raise ValueError("-: standard input is closed")
    return spool(sys.stdin.buffer)
