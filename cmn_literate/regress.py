"""The command `regress`: a density for a number, from the other columns of a file; and `predict` for its models.  No mathematics here."""

import argparse
import sys
import unicodedata
import warnings

import numpy as np

from cmn_literate.commands import (
    Refused, add_fit_options, add_table_options, add_weight_option, check_out, note, rows_for, say, source_of_rows, typed, write_table, writing)
from cmn_literate.storage import read_arrays


def is_regressor(path):
    """Whether a model file is one of CMNRegressor; FileNotFoundError, ValueError where it is no model at all."""
    return read_arrays(path)["header"].get("format") == "cmn_literate.CMNRegressor"


def levels(text):
    """Levels of quantiles, such as 0.05,0.5,0.95, as {level as it was written: level}."""
    found = {}
    for part in map(str.strip, text.split(",")):
        try:
            found[part] = float(part)
        except ValueError:
            found[part] = 0.0
        if not 0 < found[part] < 1:
            raise argparse.ArgumentTypeError(f"expected numbers between 0 and 1, parted by commas, got {part!r}")
    return found


def read_rows(path, args, columns=None, weight=None):
    """X (N, d), y (N,), weight (N,) or None, the names of the d columns and that of the target, a column of numbers like the others."""
    source = source_of_rows(path, args, columns=columns, weight=weight)
    target = next((name for name in map(plain_name, (args.target, args.target.strip())) if name in source.columns), None)
    if target is None:
        raise Refused(f"{path}: no column {args.target!r}; it has {', '.join(source.columns)}")
    if len(source.columns) < 2:
        raise Refused(f"{path}: expected a column beside {target!r}")
    blocks, at = list(source.blocks()), source.columns.index(target)
    rows, count = np.concatenate([block[0] for block in blocks]), None if weight is None else np.concatenate([block[2] for block in blocks])
    return np.delete(rows, at, 1), rows[:, at], count, tuple(name for name in source.columns if name != target), target


def plain_name(name):
    """A column's name as a header has it."""
    return unicodedata.normalize("NFC", name)


def parts(args):
    """X, y and weight of the rows to fit, the names of the columns, and of the rows to score (X, y, what they are) or None."""
    if args.data == args.test == "-":
        raise Refused("--test: standard input is read once, for the rows to fit")
    X, y, count, columns, target = read_rows(args.data, args, weight=args.weight and plain_name(args.weight))
    if args.test is not None:
        return X, y, count, columns, (*read_rows(args.test, args, (*columns, target))[:2], args.test)
    if not args.holdout:
        return X, y, count, columns, None
    n_test = round(args.holdout * len(y))
    if not 1 <= n_test <= len(y) - 2:
        raise Refused(f"--holdout: {args.holdout:g} of {len(y)} rows leaves {len(y) - n_test} to fit and {n_test} to score")
    order = np.random.default_rng(args.seed).permutation(len(y))
    test, train = np.sort(order[:n_test]), np.sort(order[n_test:])
    return X[train], y[train], count if count is None else count[train], columns, (X[test], y[test], f"{args.holdout:g} of the file")


def scores(model, X, y, what):
    """Lines: error of the mean, log score and what the intervals hold, on rows that the fit did not see."""
    inside, low, high = [], *model.predict_quantiles(X, (0.25, 0.05, 0.75, 0.95)).T.reshape(2, 2, -1)
    inside = [((a <= y) & (y <= b)).mean() for a, b in zip(low, high)]
    return [f"held out    {len(y)} rows ({what})",
            f"RMSE        {np.sqrt(np.mean((model.predict(X) - y) ** 2)):.4g}, of the mean of the fitted rows "
            f"{np.sqrt(np.mean((model.target_mean_[0] - y) ** 2)):.4g}",
            f"log score   {model.predict_density(X, y, log=True).mean():.4f} nats per row",
            f"intervals   of 50 and 90 percent hold {100 * inside[0]:.0f} and {100 * inside[1]:.0f} percent of these rows"]


def regress(args):
    """Fit a regressor and report on it."""
    from cmn_literate.beyond.regressor import CMNRegressor

    if args.out is not None:
        check_out(args.out)
    X, y, count, columns, held = parts(args)
    watched = args.verbose or sys.stderr is not None and sys.stderr.isatty()
    model = CMNRegressor(n_experts=args.experts, link=args.link, latent_dim=args.latent_dim, n_init=args.n_init, max_sweeps=args.max_sweeps,
                         random_state=args.seed, verbose=2 if watched else 0)
    if model.verbose:
        note(f"{len(y)} rows, {len(columns)} columns; {args.experts} experts, {args.n_init} start(s), at most {args.max_sweeps} sweeps"
             + (f"; the model goes to {args.out}" if args.out else "; no --out, no model"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")                                 # the report says whether it converged
        model.fit(X, y, count)
    if args.out is not None:                                            # first of all: nothing that is printed can cost it
        model.feature_names_in_ = np.array(columns, dtype=object)
        with writing(args.out):
            model.save(args.out)
        del model.feature_names_in_
    lines = [f"rows        {len(y)}, {len(columns)} columns" + ("" if count is None else f", weights of {count.sum():g} in all"),
             f"target      {args.target}: mean {model.target_mean_[0]:.4g}, standard deviation {model.target_scale_[0]:.4g}",
             f"fit         link {args.link}: {args.experts} experts, {args.n_init} start(s), {model.n_sweeps_} sweeps, "
             + ("converged" if model.converged_ else "not converged: the bound still rises"),
             f"ELBO        {model.elbo_:.3f} nats"]
    try:
        say([*lines, *(scores(model, *held) if held is not None else []), *([f"model       {args.out}"] if args.out else [])])
    except Refused as error:
        raise Refused(f"{error}" + (f"; the model is in {args.out}" if args.out else "")) from None
    return 0


def predict(args):
    """Mean, standard deviation and quantiles for every row of a file."""
    from cmn_literate.beyond.regressor import CMNRegressor

    model, wanted = CMNRegressor.load(args.model), args.quantiles or {}
    if model.target_shape_:
        raise Refused(f"{args.model}: expected a model of one number, this one has {model.target_shape_[0]}")
    source = rows_for(model, args.data, args)

    def blocks():
        for X, *_ in source.blocks():
            quantiles = [model.predict_quantiles(X, list(wanted.values()))] if wanted else []
            yield np.column_stack([*model.predict(X, return_std=True), *quantiles])

    write_table(args.out, ["mean", "sd", *(f"q{level}" for level in wanted)], blocks())
    return 0


def add_regress(commands):
    p = commands.add_parser("regress", help="fit a density for a number and report on it",
                            description="Fit a regressor to the rows of CSV or Parquet files, which are held in memory.")
    p.add_argument("data", help="a file, a folder or a pattern, as for fit; all columns but the target and --weight are features, of numbers")
    p.add_argument("--target", required=True, metavar="COLUMN", help="the column of numbers to forecast")
    add_weight_option(p)
    p.add_argument("--link", choices=("identity", "learned"), default="identity", help="what the experts forecast: the number itself, or latent "
                   "vectors that a learned map takes to it (identity)")
    for flag, name, letter, default, meaning in [
            ("--experts", "n_experts", "K", 10, "number of experts (10)"), ("--latent-dim", "latent_dim", "H", None, "latent dimensions, for --link learned (1)"),
            ("--n-init", "n_init", "R", 1, "starts whose densities are averaged (1)"), ("--max-sweeps", "max_sweeps", "N", 300, "most sweeps of a start (300)")]:
        p.add_argument(flag, type=typed(name), default=default, metavar=letter, help=meaning)
    add_fit_options(p)
    add_table_options(p)
    p.set_defaults(run=regress)
