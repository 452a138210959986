"""The checks at the door: what an argument must be, and a ValueError that names it, what was expected and what came.

Public entry points call them; no function of a derivation does.
"""

import os
from datetime import date, time, timedelta
from numbers import Integral, Real
from types import SimpleNamespace

import numpy as np

STARTS = ("class-code", "few-clusters", "hyperplanes", "random", "prior")          # what `init` may be
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


def is_number(value):
    """True for a real number that is not a boolean; nan and infinity are numbers."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_positive(value, name):
    """A finite number > 0, as a float; ValueError otherwise."""
    if not is_number(value) or not 0 < value < np.inf:
        raise ValueError(f"{name}: expected a positive finite number, got {value!r}")
    return float(value)


def check_not_negative(values, name):
    """ValueError if an entry of values, numbers of any shape, is negative."""
    if np.any((values if hasattr(values, "dtype") else np.asarray(values)) < 0):
        raise ValueError(f"{name} must be >= 0, got {np.min(values)}")


def check_last_axis(values, name, shape, least=0):
    """ValueError unless values, an argument of that name and of the shape (..., J)
    that `shape` spells, have a last axis of at least `least` entries."""
    got = np.shape(values)
    if least == 0 and not got:
        raise ValueError(f"{name} must have shape {shape}, got the scalar {values}")
    if not got or got[-1] < least:
        raise ValueError(f"{name} must have shape {shape}, got {got}")


def check_regression_options(y, n_classes, prior_scale, intercept, tol):
    """ValueError unless they are what fit_multinomial takes; y as check_y returns it."""
    if not isinstance(intercept, (bool, np.bool_)):
        raise ValueError(f"intercept: expected True or False, got {intercept!r}")
    if n_classes is None and (len(y) == 0 or y.max() == 0):
        raise ValueError(f"y: expected at least two classes, got {len(y)} labels "
                         "that are all 0; pass n_classes")
    for name, value, least in (("prior_scale", prior_scale, "> 0"),
                               ("tol", tol, ">= 0")):
        number = is_number(value) and np.isfinite(value)
        if not number or value < 0 or (value == 0 and least == "> 0"):
            raise ValueError(f"{name}: expected a finite number {least}, got "
                             f"{value!r}")


def check_regression(X, y, n_classes, prior_scale, intercept, max_sweeps, tol):
    """The arguments of fit_multinomial, in its order of complaint.
    -> X (N,d), y (N,), number of classes, max_sweeps;   ValueError names a bad one"""
    X = check_X(X)
    if n_classes is not None:
        n_classes = check_count(n_classes, "n_classes", least=2)
    y = check_y(y, len(X), n_classes)
    check_regression_options(y, n_classes, prior_scale, intercept, tol)
    return X, y, n_classes or y.max() + 1, check_count(max_sweeps, "max_sweeps")


def check_normal(m, v):
    """Means and variances as float64 arrays of one shape; ValueError unless all are
    finite and no variance is negative."""
    m, v = np.broadcast_arrays(real_array(m, "m"), real_array(v, "v"))
    if not np.all((v >= 0) & np.isfinite(v) & np.isfinite(m)):
        raise ValueError("v: expected finite variances >= 0 (and m finite), got "
                         f"v from {np.min(v)} to {np.max(v)}, m from "
                         f"{np.min(m)} to {np.max(m)}")
    return m, v


def check_digits(digits):
    """digits, a number from 1 to 15; ValueError otherwise."""
    if not is_number(digits) or not 1 <= digits <= 15:
        raise ValueError(f"digits: expected a number from 1 to 15, got {digits!r}")
    return digits


def check_instance(value, name, kind, expected):
    """ValueError, saying what was expected, unless value is an instance of kind."""
    if not isinstance(value, kind):
        raise ValueError(f"{name}: expected {expected}, got {type(value).__name__}")


def check_state(state, X, y):
    """X and y checked, and the shape of every field of a State.

    -> X (N,d) float64, y (N,) int64.  ValueError names the argument or the field.
    """
    arrays = state.flat()
    for name, axes in (("M", [3]), ("beta1_mu", [2]), ("xi1", [2, 3])):
        got = np.shape(arrays[name])
        if len(got) not in axes:
            raise ValueError(f"state.{name}: expected {axes} axes, got {got}")
    (K, h, D), J = np.shape(arrays["M"]), len(arrays["beta1_mu"])
    X = check_X(X, n_features=D - 1)
    y, N = check_y(y, len(X), J + 1), len(X)
    shapes = {
        "beta1_mu": (J, h + 1), "beta1_S": (J, h + 1, h + 1),
        "beta0_mu": (K - 1, D), "beta0_S": (K - 1, D, D),
        "V": (K, D, D), "a": (K,), "b": (K, h),
        "gamma": (N, K), "mu": (N, K, h), "Sigma": (N, K, h, h),
        "xi1": (N, J) if np.ndim(arrays["xi1"]) == 2 else (N, K, J),
        "xi0": (N, K - 1)}
    for name, expected in shapes.items():
        got = np.shape(arrays[name])
        if got != expected:
            raise ValueError(f"state.{name}: expected shape {expected}, got {got}")
    return X, y


class _Checked(SimpleNamespace):
    """What check_parameters has looked at; it does not look again."""


def check_parameters(parameters):
    """Global factors of q, checked: any object with the eight fields below
    -> namespace of float64 arrays.

    beta1_mu (L-1,h+1), beta1_S (L-1,h+1,h+1), beta0_mu (K-1,D), beta0_S (K-1,D,D),
    M (K,h,D), V (K,D,D), a (K,), b (K,h);  D = d+1
    ValueError names the field that is missing, not an array of real numbers, has
    the wrong shape, is not finite or, for a and b, not positive.
    """
    if type(parameters) is _Checked:
        return parameters
    names = ("beta1_mu", "beta1_S", "beta0_mu", "beta0_S", "M", "V", "a", "b")
    missing = [name for name in names if not hasattr(parameters, name)]
    if missing:
        raise ValueError(f"parameters: expected the fields {', '.join(names)}; "
                         f"a {type(parameters).__name__} has no {missing[0]}")
    p = _Checked()
    for name in names:
        setattr(p, name, real_array(getattr(parameters, name), name))
    if p.M.ndim != 3 or p.beta1_mu.ndim != 2 or not p.beta1_mu.size:
        raise ValueError("M, beta1_mu: expected 3 and 2 axes and a stick, "
                         f"got shapes {p.M.shape} and {p.beta1_mu.shape}")
    (K, h, D), J = p.M.shape, len(p.beta1_mu)
    shapes = {"beta1_mu": (J, h + 1), "beta1_S": (J, h + 1, h + 1), "V": (K, D, D),
              "beta0_mu": (K - 1, D), "beta0_S": (K - 1, D, D), "a": (K,),
              "b": (K, h)}
    for name, value in vars(p).items():
        if value.shape != shapes.get(name, value.shape):
            raise ValueError(f"{name}: expected shape {shapes[name]} for "
                             f"K={K}, h={h}, D={D}, got {value.shape}")
        if not np.isfinite(value).all() or name in "ab" and not (value > 0).all():
            positive = " positive" if name in "ab" else ""
            raise ValueError(f"{name}: expected finite{positive} numbers")
    return p
def is_seed(rng):
    """Whether rng is a whole number >= 0 or a numpy Generator."""
    whole = isinstance(rng, Integral) and not isinstance(rng, bool) and rng >= 0
    return whole or isinstance(rng, np.random.Generator)


def check_rng(rng):
    """A Generator from a seed >= 0 or a Generator; ValueError otherwise."""
    if not is_seed(rng):
        raise ValueError(f"rng: expected a seed >= 0 or a Generator, got {rng!r}")
    return np.random.default_rng(rng)


def check_checkpoint(path):
    """ValueError unless path is None or a file that write_arrays can write."""
    if path is None:
        return
    try:
        if os.path.isdir(path) or not os.path.basename(path):
            raise OSError("it is a folder")
        part = os.fspath(path) + f".{os.getpid()}.part"
        open(part, "wb").close()
        os.unlink(part)
    except (OSError, TypeError, ValueError) as error:
        raise ValueError("checkpoint: expected a file that can be written, got "
                         f"{path!r} ({error})") from None


def check_optional(value, name, kind):
    """ValueError, naming the argument, unless value is None or a kind."""
    if value is not None and not isinstance(value, kind):
        raise ValueError(f"{name}: expected {kind.__name__} or None, got {value!r}")


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


def check_weights(sample_weight, n_rows):
    """Weights of the rows as a float64 array (N,); ValueError unless there is one finite number >= 0 per row."""
    weight = real_array(sample_weight, "sample_weight")
    if weight.shape != (n_rows,):
        raise ValueError(f"sample_weight: expected one weight for each of {n_rows} rows, got shape {weight.shape}")
    if not (np.isfinite(weight) & (weight >= 0)).all():
        raise ValueError(f"sample_weight: expected finite numbers >= 0, got {weight[~(weight >= 0) | (weight == np.inf)][0]}")
    if n_rows and not weight.any():
        raise ValueError("sample_weight: expected a positive weight, got zeros only")
    return weight


def check_whole_weights(weight):
    """Whole weights as int64; ValueError for fractions, which say of no row how often it is there."""
    if (weight != np.floor(weight)).any():
        raise ValueError("sample_weight: a sampler with one latent vector per row expected whole numbers, got "
                         f"{weight[weight != np.floor(weight)][0]}")
    return weight.astype(np.int64)


def check_weighted_problem(X, y, sample_weight, n_experts, latent_dim, n_classes):
    """check_problem for rows with weights: a row of weight 0 is left out.

    -> X, y, weights (None if every row counts once), (K, h, L)"""
    if sample_weight is None:
        X, y, sizes = check_problem(X, y, n_experts, latent_dim, n_classes)
        return X, y, None, sizes
    X = check_X(X)
    y, weight = check_y(y, len(X), n_classes), check_weights(sample_weight, len(X))
    X, y, weight = (part[weight > 0] for part in (X, y, weight))
    X, y, sizes = check_problem(X, y, n_experts, latent_dim, n_classes)
    return X, y, None if (weight == 1).all() else weight, sizes


def check_start_options(priors, rng, init, omega1, Priors):
    """Arguments of a fit that say where it starts."""
    if not isinstance(priors, Priors):
        raise ValueError(f"priors: expected Priors, got {priors!r}")
    whole = isinstance(rng, Integral) and not isinstance(rng, bool) and rng >= 0
    if not whole and not isinstance(rng, np.random.Generator):
        raise ValueError(f"rng: expected a seed >= 0 or a Generator, got {rng!r}")
    choices = {"init": (init, STARTS),
               "omega1": (omega1, ("per-component", "shared"))}
    for name, (value, known) in choices.items():
        if value not in known:
            raise ValueError(f"{name}: expected one of {known}, got {value!r}")


def check_sweep_options(max_sweeps, tol, inner, accelerate, callback, relaxed=True):
    """Arguments of a fit that say how it sweeps and when it stops; relaxed: whether
    accelerate may be "relaxed"."""
    if not isinstance(tol, Real) or isinstance(tol, bool) or np.isnan(tol):
        raise ValueError(f"tol: expected a number (nats per row), got {tol!r}")
    word = relaxed and isinstance(accelerate, str) and accelerate == "relaxed"
    if not word and not isinstance(accelerate, (bool, np.bool_)):
        allowed = 'True, False or "relaxed"' if relaxed else "True or False"
        raise ValueError(f"accelerate: expected {allowed}, got {accelerate!r}")
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
