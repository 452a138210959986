"""Command line: fit a classifier on a CSV file, predict class probabilities for another.  Thin: no mathematics here."""

import argparse
import contextlib
import csv
import os
import signal
import sys
import warnings
from collections import Counter

import numpy as np

from cmn_literate import __version__

MISSING = {"", "?", "na", "n/a", "nan", "null", "none"}


class Refused(Exception):
    """A problem that the user can mend; its message is one line."""


def read_lines(file):
    """(number of its first line, cells) of every row; blank lines are not rows."""
    reader, number, out = csv.reader(file, strict=True), 1, []
    for cells in reader:
        if cells:
            out.append((number, cells))
        number = reader.line_num + 1
    return out


def plain(names):
    """Names without the blanks around them; those that would then be equal keep theirs."""
    count = Counter(name.strip() for name in names)
    return [name.strip() if count[name.strip()] == 1 else name for name in names]


def read_csv(path):
    """Header (list of names) and rows (line number, list of as many strings) of a CSV file with a header row; - is stdin."""
    try:
        if path == "-":
            sys.stdin.reconfigure(encoding="utf-8-sig", newline="")
            rows = read_lines(sys.stdin)
        else:
            with open(path, newline="", encoding="utf-8-sig") as file:
                rows = read_lines(file)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror or error}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise Refused(f"{path}: expected a CSV file in UTF-8 ({error})") from None
    if len(rows) < 2:
        raise Refused(f"{path}: expected a header and at least one row, got {len(rows)} line(s)")
    header = plain(rows.pop(0)[1])
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice or not all(map(str.strip, header)):
        raise Refused(f"{path}: expected a header of distinct names, got " + (f"twice: {', '.join(twice)}" if twice else "an empty name"))
    for line, cells in rows:
        if len(cells) != len(header):
            raise Refused(f"{path}: line {line}: expected {len(header)} cells, got {len(cells)}")
    return header, rows


def numbers(path, header, rows, names):
    """Columns of those names as float64 (n, d); Refused names line and column."""
    absent = [name for name in names if name not in header]
    if absent:
        raise Refused(f"{path}: no column {', '.join(map(repr, absent))}; it has {', '.join(map(repr, header))}")
    columns = [header.index(name) for name in names]
    out = np.empty((len(rows), len(names)))
    for n, (line, cells) in enumerate(rows):
        for i, column in enumerate(columns):
            cell = cells[column].strip()
            if cell.lower() in MISSING:
                raise Refused(f"{path}: line {line}, column {names[i]!r}: missing value")
            try:
                out[n, i] = float(cell.replace("_", "x"))              # Python would read 1_000, a CSV does not mean it
            except ValueError:
                raise Refused(f"{path}: line {line}, column {names[i]!r}: expected a number, got {cell!r}") from None
            if not np.isfinite(out[n, i]):
                raise Refused(f"{path}: line {line}, column {names[i]!r}: expected a finite number, got {cell!r}")
    return out


def labels(path, header, rows, target):
    """The target column as an array of strings."""
    if target not in header:
        raise Refused(f"{path}: no column {target!r}; it has {', '.join(map(repr, header))}")
    column = header.index(target)
    y = [cells[column].strip() for _, cells in rows]
    for (line, _), label in zip(rows, y):
        if label.lower() in MISSING:
            raise Refused(f"{path}: line {line}, column {target!r}: missing label{label and f' {label!r}'}; leave such rows out"
                          + (f", or, if {label!r} is a class, give it another name" if label else ""))
    return np.array(y)


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


def report_scores(model, X, y, what):
    """Print accuracy, log score and calibration error on rows that the fit did not see."""
    from cmn_literate.inputs import encode_labels
    from cmn_literate.use.metrics import accuracy, expected_calibration_error, log_predictive_density

    _, codes = encode_labels(y, model.classes_)
    log_p = model.predict_log_proba(X)
    print(f"held out    {len(y)} rows ({what})")
    print(f"accuracy    {accuracy(codes, np.exp(log_p)):.4f}")
    print(f"log score   {log_predictive_density(codes, log_p, log=True):.4f} nats per row")
    print(f"ECE         {expected_calibration_error(codes, np.exp(log_p)):.4f} (20 bins)")


def fit(args):
    if args.out is not None:
        check_out(args.out)
    if args.data == args.test == "-":
        raise Refused("--test: standard input is read once, for the rows to fit")
    header, rows = read_csv(args.data)
    if args.target not in header:
        args.target = args.target.strip()                               # as the header
    y = labels(args.data, header, rows, args.target)
    names = [name for name in header if name != args.target]
    if not names:
        raise Refused(f"{args.data}: expected at least one column beside {args.target!r}")
    X = numbers(args.data, header, rows, names)

    from sklearn.exceptions import ConvergenceWarning               # slow to import: after the cheap refusals

    from cmn_literate import CMNClassifier
    from cmn_literate.use.datasets import holdout_rows

    held = None
    if args.test is not None:
        test_header, test_rows = read_csv(args.test)
        held = numbers(args.test, test_header, test_rows, names), labels(args.test, test_header, test_rows, args.target), args.test
        unknown = sorted(set(held[1]) - set(y))
        if unknown:
            raise Refused(f"{args.test}: labels that {args.data} does not have: {', '.join(unknown)}")
    elif args.holdout:
        n_test = round(args.holdout * len(y))
        if not 1 <= n_test <= len(y) - 2:
            raise Refused(f"--holdout: {args.holdout:g} of {len(y)} rows leaves {len(y) - n_test} to fit and {n_test} to score")
        keep, out = holdout_rows(y, n_test, np.random.default_rng(args.seed))
        held = X[out], y[out], f"{args.holdout:g} of the file"
        X, y = X[keep], y[keep]
    classes = None if held is None else sorted(set(y) | set(held[1]))
    model = CMNClassifier(n_experts=args.experts, latent_dim=args.latent_dim, n_init=args.n_init, max_sweeps=args.max_sweeps,
                          random_state=args.seed, classes=classes, verbose=int(sys.stderr.isatty()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)             # the report says it
        model.fit(X, y)
    print(f"rows        {len(y)}, {len(names)} columns")
    print(f"classes     {', '.join(f'{label} ({int((y == label).sum())})' for label in model.classes_)}")
    print(f"fit         {args.experts} experts, {args.n_init} start(s), {model.n_sweeps_} sweeps, "
          f"{'converged' if model.converged_ else 'not converged: the bound still rises'}")
    print(f"ELBO        {model.elbo_:.3f} nats")
    if held is not None:
        report_scores(model, *held)
    if args.out is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
        with writing(args.out):
            model.save(args.out)
        print(f"model       {args.out}")


def predict(args):
    if args.out != "-":
        check_out(args.out)

    from cmn_literate import CMNClassifier

    model = CMNClassifier.load(args.model)
    header, rows = read_csv(args.data)
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        if len(header) != model.n_features_in_:
            raise Refused(f"{args.data}: expected {model.n_features_in_} columns, as in the fit, got {len(header)}")
        names = header
    else:
        del model.feature_names_in_                                     # columns are picked by name below
    p = model.predict_proba(numbers(args.data, header, rows, plain(names)))
    table = [[str(label) for label in model.classes_], *([repr(float(value)) for value in row] for row in p)]
    if args.out == "-":
        csv.writer(sys.stdout, lineterminator="\n").writerows(table)
        sys.stdout.flush()
        return
    part = f"{args.out}.{os.getpid()}.part"
    try:
        with writing(args.out):
            with open(part, "w", newline="", encoding="utf-8") as file:
                csv.writer(file, lineterminator="\n").writerows(table)
            os.replace(part, args.out)
    except BaseException:
        if os.path.exists(part):
            os.unlink(part)
        raise


def count(text):
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number >= 1, got {text!r}")
    return int(text)


def seed(text):
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a whole number >= 0, got {text!r}")
    return int(text)


def share(text):
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"expected a number between 0 and 1, got {text!r}")
    return value


def make_parser():
    parser = argparse.ArgumentParser(prog="cmn_literate",
                                     description="Conditional mixture networks: probabilities for classes, from CSV files.")
    parser.add_argument("--version", action="version", version=f"cmn_literate {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    p = commands.add_parser("fit", help="fit a classifier and report on it",
                            description="Fit a classifier to a CSV file with a header row.")
    p.add_argument("data", help="CSV file, UTF-8, with a header; all columns but the target are numbers; - reads standard input")
    p.add_argument("--target", required=True, metavar="COLUMN", help="the column that holds the class, text or number; empty, ?, "
                   "NA, N/A, NaN, null and None, in capitals or not, mean missing and are refused, here and in the other columns")
    p.add_argument("--experts", type=count, default=10, metavar="K", help="number of experts (10)")
    p.add_argument("--latent-dim", type=count, metavar="H", help="latent dimensions (number of classes - 1)")
    p.add_argument("--seed", type=seed, default=0, help="seed of the starts and of --holdout (0)")
    p.add_argument("--n-init", type=count, default=1, metavar="R", help="starts, whose predictions are averaged (1)")
    p.add_argument("--max-sweeps", type=count, default=500, metavar="N", help="limit of sweeps (500)")
    p.add_argument("--out", metavar="MODEL", help="write the model to this file, e.g. model.npz")
    scored = p.add_mutually_exclusive_group()
    scored.add_argument("--test", metavar="CSV", help="score the fit on this file")
    scored.add_argument("--holdout", type=share, metavar="F", help="do not fit this share of the rows, score the fit on them")
    p.set_defaults(run=fit)
    p = commands.add_parser("predict", help="class probabilities from a fitted model",
                            description="Write the probability of every class for every row.")
    p.add_argument("model", help="a file that fit --out wrote")
    p.add_argument("data", help="CSV file with the columns of the fit, in any order; others are ignored; - reads standard input")
    p.add_argument("--out", default="-", metavar="CSV", help="where to write (standard output)")
    p.set_defaults(run=predict)
    return parser


def stop(number, frame):
    """Ctrl-C: leave at once; not as KeyboardInterrupt, which a fit takes as 'keep what you have'."""
    raise SystemExit(130)


def main(argv=None):
    args = make_parser().parse_args(argv)
    try:
        signal.signal(signal.SIGINT, stop)
    except ValueError:                                                  # not in the main thread
        pass
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)             # of overflow: what comes of it is refused in one line
            return args.run(args) or 0
    except BrokenPipeError:                                             # the reader of our output left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (Refused, ValueError, OSError, ImportError) as error:
        message = str(error) if not isinstance(error, OSError) or not error.filename else f"{error.filename}: {error.strerror}"
        print(f"cmn_literate: {' '.join(message.split())}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
