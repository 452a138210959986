"""Command line: fit a classifier or a regressor on files of rows, predict for others.  Thin: no mathematics here."""

import argparse
import contextlib
import os
import signal
import sys
import unicodedata
import warnings
from typing import NamedTuple

import numpy as np

from cmn_literate import __version__, regress
from cmn_literate.commands import (
    Refused, add_fit_options, add_table_options, add_weight_option, check_out, note, rows_for, say, silence, source_of_rows, typed, write_table, writing)
from cmn_literate.inputs import CONSTRAINTS, USUAL, check_classes, encode_labels
from cmn_literate.learners import check_learner_weights, find_learner
from cmn_literate.row_sources import RowSource, SelectedSource


# ---- rows

def count_rows(source):
    """A pass over the labels: classes (L,), codes (N,) of the rows."""
    known, codes = {}, []
    for _, y, *_ in source.blocks():
        new, place = np.unique(y, return_inverse=True)
        numbers = np.array([known.setdefault(label, len(known)) for label in new.tolist()])
        codes.append(numbers[place].astype(np.min_scalar_type(len(known))))
    classes, place = np.unique(np.array(list(known)), return_inverse=True)
    return classes, place.astype(np.min_scalar_type(len(known)))[np.concatenate(codes)]


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


def class_weight(args, classes):
    """What --class-weight asks for: None, "balanced", or {label: factor} of labels among classes (L,)."""
    if args.class_weight in ([], ["balanced"]):
        return "balanced" if args.class_weight else None
    known, factors = {str(label): label for label in classes.tolist()}, {}
    for text in args.class_weight:
        name, equals, value = text.rpartition("=")
        name = unicodedata.normalize("NFC", name).strip()
        try:
            factor = float(value)
        except ValueError:
            factor = np.nan
        if not equals or not 0 <= factor < np.inf:
            raise Refused(f"--class-weight: expected balanced, or label=factor with a number >= 0, got {text!r}")
        if name not in known or known[name] in factors:
            raise Refused(f"--class-weight: expected labels among {', '.join(known)}, each once, got {name!r}")
        factors[known[name]] = factor
    return factors


def make_model(args, classes, of_classes=None):
    """The estimator that the arguments ask for; of_classes: its class_weight."""
    from cmn_literate import CMNClassifier

    given = [option(args, text) for text in args.option]
    own = {name: value for place, name, value in given if place == "method"}
    if args.resume is not None:
        own["checkpoint"] = args.resume
    watched = args.verbose or sys.stderr is not None and sys.stderr.isatty()
    model = CMNClassifier(n_experts=args.experts, latent_dim=args.latent_dim, n_init=args.n_init, max_sweeps=args.max_sweeps,
                          random_state=args.seed, classes=classes, method=args.method, method_options=own or None,
                          memory=args.memory, class_weight=of_classes, verbose=2 if watched else 0)
    return model.set_params(**{name: value for place, name, value in given if place == "estimator"})


def scores(model, source, what):
    """Lines: accuracy, log score and calibration error on rows that the fit did not see."""
    from cmn_literate.use.metrics import accuracy, expected_calibration_error, log_predictive_density

    codes, log_p = [], []
    for X, y, *_ in source.blocks():
        codes.append(encode_labels(y, model.classes_)[1])
        log_p.append(model.predict_log_proba(X))
    codes, log_p = np.concatenate(codes), np.concatenate(log_p)
    return [f"held out    {len(codes)} rows ({what})",
            f"accuracy    {accuracy(codes, np.exp(log_p)):.4f}",
            f"log score   {log_predictive_density(codes, log_p, log=True):.4f} nats per row",
            f"ECE         {expected_calibration_error(codes, np.exp(log_p)):.4f} (20 bins)"]


class Work(NamedTuple):
    """What a fit is about: the rows to fit, their classes and codes; of the rows to score, (source, codes, what they are) or None."""
    source: RowSource
    classes: np.ndarray
    codes: np.ndarray
    held: tuple = None


def find_rows(args):
    """The rows to fit and those to score, as Work; every cell has been read once."""
    if args.data == args.test == "-":
        raise Refused("--test: standard input is read once, for the rows to fit")
    target, weight = (name if name is None else unicodedata.normalize("NFC", name) for name in (args.target, args.weight))
    try:
        source = source_of_rows(args.data, args, target, weight=weight)
    except ValueError:
        target, weight = (name if name is None else name.strip() for name in (target, weight))      # as the header
        source = source_of_rows(args.data, args, target, weight=weight)
    classes, codes = count_rows(source)
    check_classes(len(classes), len(codes))
    if args.test is not None:
        held = source_of_rows(args.test, args, target, source.columns)
        others, held_codes = count_rows(held)
        unknown = sorted(set(others.tolist()) - set(classes.tolist()))
        if unknown:
            raise Refused(f"{args.test}: labels that {args.data} does not have: {', '.join(map(str, unknown))}")
        return Work(source, classes, codes, (held, args.test))
    if not args.holdout:
        return Work(source, classes, codes)
    from cmn_literate.use.datasets import holdout_rows

    n_test = round(args.holdout * len(codes))
    if not 1 <= n_test <= len(codes) - 2:
        raise Refused(f"--holdout: {args.holdout:g} of {len(codes)} rows leaves {len(codes) - n_test} to fit and {n_test} to score")
    keep = np.zeros(len(codes), bool)
    keep[holdout_rows(codes, n_test, np.random.default_rng(args.seed))[0]] = True
    return Work(SelectedSource(source, keep), classes, codes[keep], (SelectedSource(source, ~keep), f"{args.holdout:g} of the file"))


def fit_quietly(model, source):
    """Fit; what was said on the way is returned, without what the arithmetic says of itself and what the report says."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(source)
    return [str(w.message) for w in said if w.category is RuntimeWarning and "encountered in" not in str(w.message)]


def fit(args):
    if args.out is not None:
        check_out(args.out)
    weighted = args.weight is not None or bool(args.class_weight)
    if weighted:
        check_learner_weights(args.method)
    source, classes, codes, held = find_rows(args)
    learner = find_learner(args.method)
    model = make_model(args, None if held is None else classes.tolist(), class_weight(args, classes))
    what = f"{model.n_experts} experts, {model.n_init} start(s)"
    size = f"{len(codes)} rows, {len(source.columns)} columns"
    if model.verbose:
        note(f"{args.method}: {size}, {len(np.unique(codes))} classes; {what}, at most {learner.steps(model)} {learner.step}s"
             + (f"; kept in {args.resume}" if args.resume else "") + (f"; the model goes to {args.out}" if args.out else "; no --out, no model"))
    try:
        said = fit_quietly(model, source)
    except KeyboardInterrupt:
        note(f"interrupted; the run is kept in {args.resume}: the same command goes on")
        return 130
    if args.out is not None:                                            # first of all: nothing that is printed can cost it
        with writing(args.out):
            model.save(args.out)
    learner = find_learner(model.method_)                               # what auto came to
    still = "converged" if model.converged_ else "not converged: " + ("the bound still rises" if model.method_ == "cavi" else learner.advice)
    del model.feature_names_in_                                         # below, columns are picked by name
    count = np.bincount(codes, minlength=len(classes))
    lines = [f"rows        {size.replace(' rows', '')}",
             f"classes     {', '.join(f'{label} ({count[i]})' for i, label in enumerate(classes))}",
             *([f"weights     {model.moments_.n:g} in all, on {model.n_rows_seen_} rows"] if weighted else []),
             f"fit         {model.method_}: {what}, {model.n_sweeps_} {learner.step}s, {still}",
             f"{learner.objective:11s} {model.objective_:.3f} nats", *[f"note        {text}" for text in said]]
    try:
        say([*lines, *(scores(model, *held) if held is not None else []), *([f"model       {args.out}"] if args.out else [])])
    except Refused as error:
        raise Refused(f"{error}" + (f"; the model is in {args.out}" if args.out else "")) from None
    return 0


# ---- predict

def forecasts(model, source):
    """Probabilities (B, L) block by block, in the order of the rows."""
    for X, *_ in source.blocks():
        yield model.predict_proba(X)


def predict(args):
    if args.out != "-":
        check_out(args.out)
    elif sys.stdout is None:
        raise Refused("standard output is closed: give --out")

    from cmn_literate import CMNClassifier

    if regress.is_regressor(args.model):
        return regress.predict(args)
    if args.quantiles is not None:
        raise Refused(f"--quantiles: for a model of regress, {args.model} is one of fit")
    model = CMNClassifier.load(args.model)
    source = rows_for(model, args.data, args)
    write_table(args.out, list(map(str, model.classes_)), forecasts(model, source))
    return 0


# ---- arguments

def add_fit(commands):
    p = commands.add_parser("fit", help="fit a classifier and report on it", description="Fit a classifier to the rows of CSV or Parquet files.")
    p.add_argument("data", help="a file, a folder, or a pattern such as 'part-*.parquet'; CSV files are UTF-8, also packed by gzip, with a header; "
                   "all columns but the target and --weight are features, of numbers; - reads a CSV file from standard input")
    p.add_argument("--target", required=True, metavar="COLUMN", help="the column that holds the class, text or number; empty, ?, "
                   "NA, N/A, NaN, null and None, in capitals or not, mean missing and are refused, here and in the other columns")
    add_weight_option(p)
    p.add_argument("--class-weight", action="append", default=[], metavar="LABEL=FACTOR", help="multiply the weights of a class's rows by a "
                   "factor, as often as wanted; or balanced: the same weight in all for every class")
    p.add_argument("--method", default=USUAL["method"], choices=list(CONSTRAINTS["method"][0].allowed),
                   help=f"{CONSTRAINTS['method'][1]} ({USUAL['method']}); the paper's settings: --method cavi --option init=class-code --option tol=1e-6 --max-sweeps 500")
    p.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="an option of the method or of the estimator, as often as wanted")
    for flag, name, letter, default in [("--experts", "n_experts", "K", 10), ("--latent-dim", "latent_dim", "H", None),
                                        ("--n-init", "n_init", "R", USUAL["n_init"]), ("--max-sweeps", "max_sweeps", "N", USUAL["max_sweeps"])]:
        rule, meaning = CONSTRAINTS[name]
        p.add_argument(flag, type=typed(name), default=default, metavar=letter, help=f"{meaning} ({rule.none if default is None else default})")
    p.add_argument("--memory", type=typed("memory"), metavar="BYTES", help=f"{CONSTRAINTS['memory'][1]}: a number, or a text such as 512MB "
                   "(half of this machine's)")
    p.add_argument("--resume", metavar="FILE", help="keep the run in this file, also after Ctrl-C, and go on from it if it is there")
    add_fit_options(p)
    add_table_options(p)
    p.set_defaults(run=fit)


def make_parser():
    parser = argparse.ArgumentParser(prog="cmn_literate",
                                     description="Conditional mixture networks: probabilities for classes, or densities for a number, "
                                     "from CSV and Parquet files.")
    parser.add_argument("--version", action="version", version=f"cmn_literate {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_fit(commands)
    regress.add_regress(commands)
    p = commands.add_parser("predict", help="forecasts from a fitted model", description="Write the probability of every class for every row, "
                            "or, for a model of regress, mean, standard deviation and quantiles of the number.")
    p.add_argument("model", help="a file that fit --out or regress --out wrote")
    p.add_argument("data", help="a file, a folder or a pattern, as for fit, with the columns of the fit, in any order; others are ignored")
    p.add_argument("--out", default="-", metavar="FILE", help="where to write: CSV, or Parquet if the name ends in .parquet (CSV on standard output)")
    p.add_argument("--quantiles", type=regress.levels, metavar="LEVELS", help="for a model of regress: levels between 0 and 1, parted by commas (none)")
    add_table_options(p)
    p.set_defaults(run=predict)
    return parser


def stop(number, frame):
    """Ctrl-C: leave at once; only a run that is kept in a file has something to put away."""
    raise SystemExit(130)


def main(argv=None):
    args = make_parser().parse_args(argv)
    args.spooled = None                                                 # where standard input is kept while it is read
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
    finally:
        if args.spooled:
            os.unlink(args.spooled)


if __name__ == "__main__":
    sys.exit(main())
