"""The checks at the door: what an argument must be, and a ValueError that names it, what was expected and what came.

Public entry points call them; no function of a derivation does.
"""

from datetime import date, time, timedelta
from numbers import Integral, Real

import numpy as np

_NO_NUMBER = (str, bytes, date, time, timedelta, np.datetime64, np.timedelta64)


def plain_array(values, name, labels=False):
    """values as a numpy array, of whatever type numpy gives it.

    ValueError, naming the argument, for ragged rows and for masked entries; and,
    unless they are labels, for text, even where it spells a number, and for dates.
    """
    rows = values if isinstance(values, (list, tuple)) else [values]
    if any(np.ma.isMaskedArray(row) and np.ma.is_masked(row) for row in rows):
        raise ValueError(f"{name}: expected every entry, got masked ones")
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name}: expected rows of one length, got others "
                         f"({error})") from None
    kind = array.dtype.kind
    if not labels and (kind in "USMm" or kind == "O" and any(
            isinstance(value, _NO_NUMBER) for value in array.flat)):
        raise ValueError(f"{name}: expected numbers, got text or dates")
    return array


def real_array(values, name):
    """values as a float64 array of any shape, not copied if it is one.

    ValueError, naming the argument, unless all are real numbers that a float64 can
    hold (or nan, or infinite), and for what plain_array refuses.
    """
    array = plain_array(values, name)
    try:
        if values is None or array.dtype.kind not in "biufO":
            raise TypeError(f"type {array.dtype}")
        return array.astype(float, copy=False)
    except OverflowError as error:
        raise ValueError(f"{name}: expected numbers that a float64 can hold, got "
                         f"a larger one ({error})") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: expected real numbers, got others "
                         f"({error})") from None


def check_X(X, name="X", n_features=None):
    """Inputs as a float64 array of shape (N, d), d >= 1.

    ValueError, naming the argument, unless X is two-dimensional, real and finite
    (and has n_features columns), and for what real_array refuses.
    """
    values = real_array(X, name)
    if values.ndim != 2 or values.shape[1] < 1:
        raise ValueError(f"{name}: expected an array (rows, columns >= 1), got "
                         f"shape {values.shape}")
    if n_features is not None and values.shape[1] != n_features:
        raise ValueError(f"{name}: expected {n_features} columns, got "
                         f"{values.shape[1]}")
    if not np.isfinite(values).all():
        n, i = np.argwhere(~np.isfinite(values))[0]
        raise ValueError(f"{name}: expected finite numbers, got {values[n, i]} "
                         f"at row {n}, column {i}")
    return values


def check_y(y, n_rows, n_classes=None):
    """Labels as an int64 array of shape (N,), classes counted from 0.

    Whole floats and booleans pass. ValueError unless there is one whole number
    per row, from 0 and below n_classes.
    """
    values = plain_array(y, "y")
    if values.shape != (n_rows,):
        raise ValueError(f"y: expected one label for each of {n_rows} rows, got "
                         f"shape {values.shape}")
    kind = values.dtype.kind
    whole = kind in "iub" or (
        kind == "f" and np.all(np.isfinite(values) & (values == np.floor(values))))
    if not whole:
        raise ValueError("y: expected whole numbers 0, 1, ..., got others, of "
                         f"type {values.dtype}")
    top = 2**53 if n_classes is None else n_classes
    if n_rows and (values.min() < 0 or values.max() >= top):
        raise ValueError(f"y: expected labels 0 to {top - 1}, got "
                         f"{values.min():.0f} to {values.max():.0f}")
    return values.astype(np.int64)


def check_count(value, name, least=1):
    """A whole number >= least, as an int; ValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name}: expected a whole number >= {least}, got "
                         f"{value!r}")
    return int(value)


def check_problem(X, y, n_experts, latent_dim, n_classes):
    """Arguments that describe the model, checked.   -> X, y, (K, h, L)"""
    X = check_X(X)
    if len(X) < 1:
        raise ValueError("X: expected at least one row, got none")
    if n_classes is None:
        L = int(check_y(y, len(X)).max()) + 1
    else:
        L = check_count(n_classes, "n_classes", 2)
    y = check_y(y, len(X), L)
    if L < 2:
        raise ValueError("y: expected at least two classes, got one "
                         "(give n_classes to fit a model with unseen classes)")
    h = L - 1 if latent_dim is None else check_count(latent_dim, "latent_dim")
    return X, y, (check_count(n_experts, "n_experts"), h, L)


def check_start_options(priors, rng, init, omega1, Priors):
    """Arguments of a fit that say where it starts."""
    if not isinstance(priors, Priors):
        raise ValueError(f"priors: expected Priors, got {priors!r}")
    whole = isinstance(rng, Integral) and not isinstance(rng, bool) and rng >= 0
    if not whole and not isinstance(rng, np.random.Generator):
        raise ValueError(f"rng: expected a seed >= 0 or a Generator, got {rng!r}")
    choices = {"init": (init, ("class-code", "random", "prior")),
               "omega1": (omega1, ("per-component", "shared"))}
    for name, (value, known) in choices.items():
        if value not in known:
            raise ValueError(f"{name}: expected one of {known}, got {value!r}")


def check_sweep_options(max_sweeps, tol, inner, accelerate, callback):
    """Arguments of a fit that say how it sweeps and when it stops."""
    if not isinstance(tol, Real) or isinstance(tol, bool) or np.isnan(tol):
        raise ValueError(f"tol: expected a number (nats per row), got {tol!r}")
    if not isinstance(accelerate, (bool, np.bool_)):
        raise ValueError(f"accelerate: expected True or False, got {accelerate!r}")
    if callback is not None and not callable(callback):
        raise ValueError(f"callback: expected a function, got {callback!r}")
    check_count(inner, "inner")
    check_count(max_sweeps, "max_sweeps")


def check_resume(start, Resume, sizes, shared, priors):
    """start must be a Resume of the same model, sizes (K, h, L)."""
    if not isinstance(start, Resume):
        raise ValueError(f"start: expected a Resume, got {type(start).__name__}")
    had = start.parameters.M.shape[:2] + (start.n_classes,)
    if (*had, start.shared, start.priors) != (*sizes, shared, priors):
        raise ValueError("start: expected a fit of the same model, got one with "
                         f"n_experts, latent_dim, n_classes = {had}, "
                         f"shared = {start.shared}, {start.priors}")
