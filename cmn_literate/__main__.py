"""Command line: fit a classifier on a CSV file, predict class probabilities for another.  Thin: no mathematics here."""

import argparse
import contextlib
import csv
import gzip
import io
import os
import signal
import sys
import unicodedata
import warnings
import zlib
from collections import Counter

import numpy as np

from cmn_literate import __version__
from cmn_literate.inputs import CONSTRAINTS, check_classes, encode_labels
from cmn_literate.learners import find_learner
from cmn_literate.storage import write_whole

MISSING = {"", "?", "na", "n/a", "nan", "null", "none"}
SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


class Refused(Exception):
    """A problem that the user can mend; its message is one line."""


# ---- tables

def read_lines(file, delimiter):
    """(number of its first line, cells) of every row; blank lines are no rows, but in a file of one column they are empty cells."""
    reader, number, out, blank = csv.reader(file, strict=True, delimiter=delimiter), 1, [], []
    for cells in reader:
        if cells:
            out += [(line, [""]) for line in blank if len(out) and len(out[0][1]) == 1]
            out.append((number, cells))
        blank = [] if cells else [*blank, number]
        number = reader.line_num + 1
    return out


def plain(names):
    """Names in one form, without the blanks around them; those that would then be equal keep theirs."""
    names = [unicodedata.normalize("NFC", name) for name in names]
    count = Counter(name.strip() for name in names)
    return [name.strip() if count[name.strip()] == 1 else name for name in names]


def open_table(path):
    """Bytes of a file, unpacked if it is gzip; - is standard input."""
    if path == "-":
        if sys.stdin is None:
            raise Refused("-: standard input is closed")
        raw = sys.stdin.buffer
    else:
        raw = open(path, "rb")                                          # noqa: SIM115  the caller closes it
    return gzip.GzipFile(fileobj=raw) if raw.peek(2)[:2] == b"\x1f\x8b" else raw


def read_csv(path, delimiter=","):
    """Header (list of names) and rows (line number, list of as many strings) of a CSV file with a header row; - is stdin."""
    try:
        with contextlib.closing(open_table(path)) if path != "-" else contextlib.nullcontext(open_table(path)) as raw:
            rows = read_lines(io.TextIOWrapper(raw, "utf-8-sig", newline=""), delimiter)
    except (UnicodeDecodeError, csv.Error, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise Refused(f"{path}: expected a CSV file in UTF-8 ({error})") from None
    except OSError as error:
        raise Refused(f"{path}: {error.strerror or error}") from None
    if len(rows) < 2:
        raise Refused(f"{path}: expected a header and at least one row, got {len(rows)} line(s)")
    header = plain(rows.pop(0)[1])
    other = next((mark for mark in SEPARATORS if mark in header[0] and mark != delimiter), None) if len(header) == 1 else None
    if other:
        raise Refused(f"{path}: expected columns separated by {delimiter!r}, got one column; is it separated by {SEPARATORS[other]}? "
                      f"--delimiter {'tab' if other == chr(9) else repr(other)}")
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice or not all(map(str.strip, header)):
        raise Refused(f"{path}: expected a header of distinct names, got " + (f"twice: {', '.join(twice)}" if twice else "an empty name"))
    for line, cells in rows:
        if len(cells) != len(header):
            raise Refused(f"{path}: line {line}: expected {len(header)} cells, got {len(cells)}")
    return header, rows


def numbers(path, header, rows, names, decimal="."):
    """Columns of those names as float64 (n, d); Refused names line and column."""
    absent = [name for name in names if name not in header]
    if absent:
        raise Refused(f"{path}: no column {', '.join(map(repr, absent))}; it has {', '.join(map(repr, header))}")
    columns = [header.index(name) for name in names]
    out = np.empty((len(rows), len(names)))
    for n, (line, cells) in enumerate(rows):
        for i, column in enumerate(columns):
            cell = cells[column].strip()
            where = f"{path}: line {line}, column {names[i]!r}"
            if cell.lower() in MISSING:
                raise Refused(f"{where}: missing value")
            plain_cell = cell.replace("_", "x")                           # Python would read 1_000, a CSV does not mean it
            if decimal == ",":
                plain_cell = plain_cell.replace(".", "x").replace(",", ".")
            try:
                out[n, i] = float(plain_cell)
            except ValueError:
                hint = "; a decimal comma? --decimal ," if decimal == "." and cell.count(",") == 1 else ""
                raise Refused(f"{where}: expected a number, got {cell!r}{hint}") from None
            if not np.isfinite(out[n, i]):
                raise Refused(f"{where}: expected a finite number, got {cell!r}")
    return out


def form(label):
    """What is left of a label without its form: case, blanks inside, the way a number is written."""
    try:
        return repr(float(label.replace("_", "x")))
    except ValueError:
        return " ".join(unicodedata.normalize("NFKC", label).casefold().split())


def labels(path, header, rows, target):
    """The target column as an array of strings."""
    if target not in header:
        raise Refused(f"{path}: no column {target!r}; it has {', '.join(map(repr, header))}")
    column = header.index(target)
    y = [unicodedata.normalize("NFC", cells[column].strip()) for _, cells in rows]
    for (line, _), label in zip(rows, y):
        if label.lower() in MISSING:
            raise Refused(f"{path}: line {line}, column {target!r}: missing label{label and f' {label!r}'}; leave such rows out"
                          + (f", or, if {label!r} is a class, give it another name" if label else ""))
    seen = {}
    for label in sorted(set(y)):
        alike = seen.setdefault(form(label), label)
        if alike != label:
            raise Refused(f"{path}: column {target!r}: labels {alike!r} and {label!r} differ in form only: write them alike, or, if they are two "
                          "classes, give one another name")
    return np.array(y)


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


def say(lines):
    """Print lines, whatever standard output can show; a closed one hears nothing.  Refused if they cannot be written."""
    if sys.stdout is None:
        return
    with contextlib.suppress(AttributeError):                           # a stream of somebody else
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        print(*lines, sep="\n", flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        silence(sys.stdout)
        raise Refused(f"standard output: {error.strerror or error}") from None


def note(text):
    """One line on standard error."""
    if sys.stderr is not None:
        print(f"cmn_literate: {' '.join(text.split())}", file=sys.stderr, flush=True)


# ---- fit

def option(args, text):
    """(where it belongs, name, value) of an --option name=value: of the method, else of the estimator."""
    name, equals, value = text.partition("=")
    own = find_learner(args.method).options
    if not equals or name not in [*own, *CONSTRAINTS] and not name.startswith("priors__"):
        raise Refused(f"--option: expected name=value, with a name of {args.method} ({', '.join(own)}) or of the estimator "
                      f"({', '.join(CONSTRAINTS)}, priors__...), got {text!r}")
    if name not in own and name in CONSTRAINTS:
        try:
            return "estimator", name, CONSTRAINTS[name][0].parse(value)
        except ValueError as error:
            raise Refused(f"--option: {name}: {error}") from None
    words = {"none": None, "true": True, "false": False}
    for read in (int, float, lambda text: words.get(text.lower(), text)):
        with contextlib.suppress(ValueError):
            return "method" if name in own else "estimator", name, read(value)


def make_model(args, classes):
    """The estimator that the arguments ask for."""
    from cmn_literate import CMNClassifier

    given = [option(args, text) for text in args.option]
    own = {name: value for place, name, value in given if place == "method"}
    if args.resume is not None:
        own["checkpoint"] = args.resume
    watched = args.verbose or sys.stderr is not None and sys.stderr.isatty()
    model = CMNClassifier(n_experts=args.experts, latent_dim=args.latent_dim, n_init=args.n_init, max_sweeps=args.max_sweeps,
                          random_state=args.seed, classes=classes, method=args.method, method_options=own or None,
                          verbose=2 if watched else 0)
    return model.set_params(**{name: value for place, name, value in given if place == "estimator"})


def scores(model, X, y, what):
    """Lines: accuracy, log score and calibration error on rows that the fit did not see."""
    from cmn_literate.use.metrics import accuracy, expected_calibration_error, log_predictive_density

    _, codes = encode_labels(y, model.classes_)
    log_p = model.predict_log_proba(X)
    return [f"held out    {len(y)} rows ({what})",
            f"accuracy    {accuracy(codes, np.exp(log_p)):.4f}",
            f"log score   {log_predictive_density(codes, log_p, log=True):.4f} nats per row",
            f"ECE         {expected_calibration_error(codes, np.exp(log_p)):.4f} (20 bins)"]


def read_rows(args):
    """Names, X and y of the rows to fit; of those to score, (X, y, what they are) or None."""
    if args.data == args.test == "-":
        raise Refused("--test: standard input is read once, for the rows to fit")
    header, rows = read_csv(args.data, args.delimiter)
    args.target = unicodedata.normalize("NFC", args.target)
    if args.target not in header:
        args.target = args.target.strip()                               # as the header
    y = labels(args.data, header, rows, args.target)
    names = [name for name in header if name != args.target]
    if not names:
        raise Refused(f"{args.data}: expected at least one column beside {args.target!r}")
    check_classes(len(set(y)), len(y))
    X = numbers(args.data, header, rows, names, args.decimal)
    if args.test is not None:
        header, rows = read_csv(args.test, args.delimiter)
        held = numbers(args.test, header, rows, names, args.decimal), labels(args.test, header, rows, args.target), args.test
        unknown = sorted(set(held[1]) - set(y))
        if unknown:
            raise Refused(f"{args.test}: labels that {args.data} does not have: {', '.join(unknown)}")
        return names, X, y, held
    if not args.holdout:
        return names, X, y, None
    from cmn_literate.use.datasets import holdout_rows

    n_test = round(args.holdout * len(y))
    if not 1 <= n_test <= len(y) - 2:
        raise Refused(f"--holdout: {args.holdout:g} of {len(y)} rows leaves {len(y) - n_test} to fit and {n_test} to score")
    keep, out = holdout_rows(np.unique(y, return_inverse=True)[1], n_test, np.random.default_rng(args.seed))
    return names, X[keep], y[keep], (X[out], y[out], f"{args.holdout:g} of the file")


def fit_quietly(model, X, y):
    """Fit; what was said on the way is returned, without what the arithmetic says of itself and what the report says."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(X, y)
    return [str(w.message) for w in said if w.category is RuntimeWarning and "encountered in" not in str(w.message)]


def fit(args):
    if args.out is not None:
        check_out(args.out)
    names, X, y, held = read_rows(args)
    learner = find_learner(args.method)
    model = make_model(args, None if held is None else sorted(set(y) | set(held[1])))
    what = f"{model.n_experts} experts, {model.n_init} start(s)"
    if model.verbose:
        note(f"{args.method}: {len(y)} rows, {len(names)} columns, {len(set(y))} classes; {what}, at most {learner.steps(model)} {learner.step}s"
             + (f"; kept in {args.resume}" if args.resume else "") + (f"; the model goes to {args.out}" if args.out else "; no --out, no model"))
    try:
        said = fit_quietly(model, X, y)
    except KeyboardInterrupt:
        note(f"interrupted; the run is kept in {args.resume}: the same command goes on")
        return 130
    if args.out is not None:                                            # first of all: nothing that is printed can cost it
        model.feature_names_in_ = np.array(names, dtype=object)
        with writing(args.out):
            model.save(args.out)
        del model.feature_names_in_
    still = "converged" if model.converged_ else "not converged: " + ("the bound still rises" if args.method == "cavi" else learner.advice)
    lines = [f"rows        {len(y)}, {len(names)} columns",
             f"classes     {', '.join(f'{label} ({int((y == label).sum())})' for label in model.classes_)}",
             f"fit         {what}, {model.n_sweeps_} {learner.step}s, {still}",
             f"{learner.objective:11s} {model.objective_:.3f} nats", *[f"note        {text}" for text in said]]
    try:
        say([*lines, *(scores(model, *held) if held is not None else []), *([f"model       {args.out}"] if args.out else [])])
    except Refused as error:
        raise Refused(f"{error}" + (f"; the model is in {args.out}" if args.out else "")) from None
    return 0


# ---- predict

def predict(args):
    if args.out != "-":
        check_out(args.out)
    elif sys.stdout is None:
        raise Refused("standard output is closed: give --out")

    from cmn_literate import CMNClassifier

    model = CMNClassifier.load(args.model)
    header, rows = read_csv(args.data, args.delimiter)
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        if len(header) != model.n_features_in_:
            raise Refused(f"{args.data}: expected {model.n_features_in_} columns, as in the fit, got {len(header)}")
        names = header
    else:
        del model.feature_names_in_                                     # columns are picked by name below
    p = model.predict_proba(numbers(args.data, header, rows, plain(names), args.decimal))
    table = [[str(label) for label in model.classes_], *([repr(float(value)) for value in row] for row in p)]
    if args.out == "-":
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(table)
        say([text.getvalue().removesuffix("\n")])
        return 0
    with writing(args.out):
        write_whole(args.out, lambda file: csv.writer(file, lineterminator="\n").writerows(table), "w", newline="", encoding="utf-8")
    return 0


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


def add_table_options(p):
    p.add_argument("--delimiter", type=mark, default=",", metavar="C", help="what separates the cells: one character, or tab (,)")
    p.add_argument("--decimal", choices=(".", ","), default=".", help="the decimal mark of the numbers (.)")


def add_fit(commands):
    p = commands.add_parser("fit", help="fit a classifier and report on it", description="Fit a classifier to a CSV file with a header row.")
    p.add_argument("data", help="CSV file, UTF-8, also packed by gzip, with a header; all columns but the target are numbers; - reads standard input")
    p.add_argument("--target", required=True, metavar="COLUMN", help="the column that holds the class, text or number; empty, ?, "
                   "NA, N/A, NaN, null and None, in capitals or not, mean missing and are refused, here and in the other columns")
    p.add_argument("--method", default="cavi", choices=list(CONSTRAINTS["method"][0].allowed), help=f"{CONSTRAINTS['method'][1]} (cavi)")
    p.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="an option of the method or of the estimator, as often as wanted")
    for flag, name, letter, default in [("--experts", "n_experts", "K", 10), ("--latent-dim", "latent_dim", "H", None),
                                        ("--n-init", "n_init", "R", 1), ("--max-sweeps", "max_sweeps", "N", 500)]:
        rule, meaning = CONSTRAINTS[name]
        p.add_argument(flag, type=typed(name), default=default, metavar=letter, help=f"{meaning} ({rule.none if default is None else default})")
    p.add_argument("--seed", type=seed, default=0, help="seed of the starts and of --holdout (0)")
    p.add_argument("--resume", metavar="FILE", help="keep the run in this file, also after Ctrl-C, and go on from it if it is there")
    p.add_argument("--out", metavar="MODEL", help="write the model to this file, e.g. model.npz")
    scored = p.add_mutually_exclusive_group()
    scored.add_argument("--test", metavar="CSV", help="score the fit on this file")
    scored.add_argument("--holdout", type=typed("holdout"), metavar="F", help="do not fit this share of the rows, score the fit on them")
    p.add_argument("-v", "--verbose", action="store_true", help="say what will be done and show progress, even if nobody looks at a terminal")
    add_table_options(p)
    p.set_defaults(run=fit)


def make_parser():
    parser = argparse.ArgumentParser(prog="cmn_literate",
                                     description="Conditional mixture networks: probabilities for classes, from CSV files.")
    parser.add_argument("--version", action="version", version=f"cmn_literate {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_fit(commands)
    p = commands.add_parser("predict", help="class probabilities from a fitted model",
                            description="Write the probability of every class for every row.")
    p.add_argument("model", help="a file that fit --out wrote")
    p.add_argument("data", help="CSV file with the columns of the fit, in any order; others are ignored; - reads standard input")
    p.add_argument("--out", default="-", metavar="CSV", help="where to write (standard output)")
    add_table_options(p)
    p.set_defaults(run=predict)
    return parser


def stop(number, frame):
    """Ctrl-C: leave at once; only a run that is kept in a file has something to put away."""
    raise SystemExit(130)


def main(argv=None):
    args = make_parser().parse_args(argv)
    if getattr(args, "resume", None) is None:
        with contextlib.suppress(ValueError):                           # not in the main thread
            signal.signal(signal.SIGINT, stop)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)             # of overflow: what comes of it is refused in one line
            return args.run(args) or 0
    except BrokenPipeError:                                             # the reader of our output left
        silence(sys.stdout)
        return 1
    except MemoryError as error:
        note(f"out of memory ({error}): fewer columns, fewer experts (--experts) or a smaller --latent-dim need less")
        return 2
    except (Refused, ValueError, OSError, ImportError) as error:
        note(str(error) if not isinstance(error, OSError) or not error.filename else f"{error.filename}: {error.strerror}")
        return 2


if __name__ == "__main__":
    sys.exit(main())
