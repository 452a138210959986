"""What the commands have in common: rows from files, what is written, and the types of their arguments.  No mathematics here."""

import argparse
import contextlib
import csv
import os
import sys
import tempfile


from cmn_literate.csv_rows import plain, standard_input
from cmn_literate.file_sources import PARQUET, CsvSource
from cmn_literate.inputs import CONSTRAINTS
from cmn_literate.readers import open_source
from cmn_literate.row_sources import need
from cmn_literate.storage import write_whole


class Refused(Exception):
    """A problem that the user can mend; its message is one line."""


# ---- rows

def source_of_rows(path, args, target=None, columns=None, weight=None):
    """The source of the rows in a file, a folder, a pattern of files, or - for standard input."""
    if path == "-":
        args.spooled = args.spooled or standard_input()
        return CsvSource([path], target, columns, args.delimiter, args.decimal, [args.spooled], weight)
    try:
        return open_source(path, target, columns, args.delimiter, args.decimal, weight)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror or error}") from None


# ---- what is written

@contextlib.contextmanager
def writing(path):
    """Refused, for an error of the operating system, names --out."""
    try:
        yield
    except OSError as error:
        raise Refused(f"--out: {path}: {error.strerror or error}") from None


def check_out(path):
    """Refuse an --out that cannot be written before the work, not after."""
    folder = os.path.dirname(os.path.abspath(path))
    if path in ("", "-"):
        raise Refused(f"--out: expected the name of a file, got {path!r}")
    if not os.path.isdir(folder):
        raise Refused(f"--out: no folder {folder}")
    if os.path.exists(path) and not os.path.isfile(path):
        raise Refused(f"--out: expected the name of a file, {path} is {'a folder' if os.path.isdir(path) else 'no ordinary file'}")
    with writing(path):
        part = f"{path}.{os.getpid()}.part"                             # where it is written first
        open(part, "wb").close()
        os.unlink(part)


def silence(stream):
    """Nothing that is still to be written to a stream can fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def say(lines, end="\n"):
    """Print lines, whatever standard output can show; a closed one hears nothing.  Refused if they cannot be written."""
    if sys.stdout is None:
        return
    with contextlib.suppress(AttributeError):                           # a stream of somebody else
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        print(*lines, sep="\n", end=end, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        silence(sys.stdout)
        raise Refused(f"standard output: {error.strerror or error}") from None


def note(text):
    """One line on standard error."""
    if sys.stderr is not None:
        print(f"cmn_literate: {' '.join(text.split())}", file=sys.stderr, flush=True)


def write_csv(file, names, blocks):
    out = csv.writer(file, lineterminator="\n")
    out.writerow(names)
    for p in blocks:
        out.writerows([repr(float(value)) for value in row] for row in p)


def write_parquet(file, names, blocks):
    arrow, parquet = need("pyarrow", "Parquet", "files"), need("pyarrow.parquet", "Parquet", "files")
    with parquet.ParquetWriter(file, arrow.schema([(name, arrow.float64()) for name in names])) as out:
        for p in blocks:
            out.write_table(arrow.table(list(p.T.copy()), names=names))


def write_table(path, names, blocks):
    """Write the columns of these names, block by block: CSV, or Parquet if the path says so; - is standard output.  Whole or not at all."""
    if path == "-":
        with tempfile.TemporaryFile("w+", newline="", encoding="utf-8") as file:
            write_csv(file, names, blocks)
            file.seek(0)
            while text := file.read(1 << 20):
                say([text], end="")
        return
    with writing(path):
        if path.endswith(PARQUET):
            write_whole(path, lambda file: write_parquet(file, names, blocks))
        else:
            write_whole(path, lambda file: write_csv(file, names, blocks), "w", newline="", encoding="utf-8")


def rows_for(model, path, args):
    """The source of the rows that a fitted model is asked about: its columns by name, in any order, others ignored."""
    names = getattr(model, "feature_names_in_", None)
    source = source_of_rows(path, args, columns=None if names is None else plain(names))
    if names is None and len(source.columns) != model.n_features_in_:
        raise Refused(f"{path}: expected {model.n_features_in_} columns, as in the fit, got {len(source.columns)}")
    if names is not None:
        del model.feature_names_in_                                     # columns are picked by name
    return source


# ---- arguments

def typed(name):
    """The type of an argument, from the table of what options may be."""
    def read(text):
        try:
            return CONSTRAINTS[name][0].parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return read


def seed(text):
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a whole number >= 0, got {text!r}")
    return int(text)


def mark(text):
    """A delimiter: one character, or tab."""
    text = {"tab": "\t", "\\t": "\t"}.get(text, text)
    if len(text) != 1 or text in "\r\n\"":
        raise argparse.ArgumentTypeError(f"expected one character, or tab, got {text!r}")
    return text


def add_weight_option(p):
    p.add_argument("--weight", metavar="COLUMN", help="the column that says how often each row counts, a number >= 0: 2 is the row twice, 0 no row; "
                   "rows that are scored count once each")


def add_fit_options(p):
    """What all commands that fit are asked alike."""
    p.add_argument("--seed", type=seed, default=0, help="seed of the starts and of --holdout (0)")
    p.add_argument("--out", metavar="MODEL", help="write the model to this file, e.g. model.npz")
    scored = p.add_mutually_exclusive_group()
    scored.add_argument("--test", metavar="DATA", help="score the fit on these rows")
    scored.add_argument("--holdout", type=typed("holdout"), metavar="F", help="do not fit this share of the rows, score the fit on them")
    p.add_argument("-v", "--verbose", action="store_true", help="say what will be done and show progress, even if nobody looks at a terminal")


def add_table_options(p):
    p.add_argument("--delimiter", type=mark, default=",", metavar="C", help="what separates the cells: one character, or tab (,)")
    p.add_argument("--decimal", choices=(".", ","), default=".", help="the decimal mark of the numbers (.)")
