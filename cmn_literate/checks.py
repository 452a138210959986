"""The checks at the door: what an argument must be, and a ValueError that names it, what was expected and what came.

Public entry points call them; no function of a derivation does.
"""

import pickle
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


def check_number(value, name, expected, fits):
    """A real number for which fits(value) is true; ValueError otherwise, which says
    what was expected in these words."""
    if isinstance(value, bool) or not isinstance(value, Real) or not fits(value):
        raise ValueError(f"{name}: expected {expected}, got {value!r}")
    return value


def check_choice(value, name, choices, quote="'"):
    """ValueError, naming the argument, unless value is one of the texts in choices."""
    if value not in choices:
        *first, last = (f"{quote}{choice}{quote}" for choice in choices)
        raise ValueError(f"{name}: expected {', '.join(first)} or {last}, got "
                         f"{value!r}")


def check_kind(value, name, kind):
    """ValueError, naming the argument, unless value is an instance of kind."""
    if not isinstance(value, kind):
        raise ValueError(f"{name}: expected {kind.__name__}, got {value!r}")


def check_position(q):
    """Places of chains, a finite float64 array (..., P), copied.

    ValueError, naming q, otherwise.
    """
    q = real_array(q, "q").copy()
    if q.ndim < 1 or not np.isfinite(q).all():
        raise ValueError(f"q: expected finite numbers (..., P), got {q}")
    return q


def check_starts(q0):
    """Starts of chains, a finite float64 array (chains, P) that is not empty, copied.

    ValueError, naming q0, otherwise.
    """
    q0 = real_array(q0, "q0").copy()
    if q0.ndim != 2 or not q0.size or not np.isfinite(q0).all():
        raise ValueError("q0: expected finite numbers (chains, P), got shape "
                         f"{q0.shape}")
    return q0


def check_inverse_mass(inv_mass, shape):
    """Diagonal of an inverse mass matrix, a positive number or array of that shape.

    ValueError, naming inv_mass, otherwise.   -> float64 array
    """
    inv_mass = real_array(inv_mass, "inv_mass")
    if inv_mass.shape not in ((), shape):
        raise ValueError(f"inv_mass: expected a number or shape {shape}, got "
                         f"{inv_mass.shape}")
    if not ((inv_mass > 0).all() and np.isfinite(inv_mass).all()):
        raise ValueError(f"inv_mass: expected positive numbers, got {inv_mass}")
    return inv_mass


def check_slopes(value, grad, shape):
    """ValueError unless the answer of value_and_grad at a place of that shape
    (..., P) has shapes (...) and (..., P)."""
    if np.shape(value) != shape[:-1] or np.shape(grad) != shape:
        raise ValueError(f"value_and_grad: expected shapes {shape[:-1]} and {shape}, "
                         f"got {np.shape(value)} and {np.shape(grad)}")


def check_sendable(value_and_grad):
    """ValueError unless value_and_grad can be sent to another process."""
    try:
        pickle.dumps(value_and_grad)
    except Exception as error:
        raise ValueError(
            "value_and_grad: with n_jobs > 1 expected a function of a module, "
            f"or a partial of one, that can be pickled ({error})") from None


def check_start_state(state, kind, free_of, expected):
    """free_of(state), a named tuple of finite arrays of the expected shapes.

    ValueError, naming start, unless state is a kind, with positive definite
    covariances, for which this comes out.
    """
    if not isinstance(state, kind):
        raise ValueError(f"start: expected a {kind.__name__}, got "
                         f"{type(state).__name__}")
    try:
        free = free_of(state)
    except np.linalg.LinAlgError:
        raise ValueError("start: expected positive definite covariances, got "
                         "others") from None
    got = type(expected)(*(np.shape(field) for field in free))
    if got != expected:
        raise ValueError(f"start: expected free numbers of shapes {expected}, "
                         f"got {got}")
    if not all(np.isfinite(field).all() for field in free):
        raise ValueError("start: expected finite factors, got others")
    return free


def check_chain_start(value, grad, shape, index):
    """ValueError unless log density and gradient at the start of a chain, a place of
    that shape (P,), have their shapes and are finite."""
    check_slopes(value, grad, shape)
    if not (np.isfinite(value) and np.isfinite(grad).all()):
        raise ValueError("q0: expected starts with finite log density and "
                         f"gradient, chain {index} has log density {value}")


def check_nuts(value_and_grad, q0, n_jobs, target_accept, step, inv_mass,
               checkpoint_every):
    """Arguments of nuts that are not counts.   -> q0 (chains, P), inv_mass (P,) or None"""
    q0 = check_starts(q0)
    check_number(target_accept, "target_accept", "a number between 0 and 1",
                 lambda v: 0 < v < 1)
    if step is not None:
        check_number(step, "step", "a positive number", lambda v: 0 < v < np.inf)
    if inv_mass is not None:
        inv_mass = check_inverse_mass(inv_mass, q0.shape[1:]) + np.zeros(q0.shape[1])
    check_number(checkpoint_every, "checkpoint_every", "a number of seconds",
                 lambda v: v >= 0)
    if n_jobs > 1:
        check_sendable(value_and_grad)
    return q0, inv_mass


def check_landscape(value, grad, shape):
    """ValueError unless log density and gradient at places q of that shape (..., P)
    have their shapes and are finite."""
    check_slopes(value, grad, shape)
    if not (np.isfinite(value).all() and np.isfinite(grad).all()):
        raise ValueError("q: no finite log density and gradient there, "
                         f"got {value}")
