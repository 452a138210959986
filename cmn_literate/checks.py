"""The checks at the door: what an argument must be, and a ValueError that names it, what was expected and what came.

Public entry points call them; no function of a derivation does.
"""

import math
import os
import pickle
from datetime import date, time, timedelta
from numbers import Integral, Real
from types import SimpleNamespace

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
    for name, axes in (("M", [3]), ("beta1_mu", [2]), ("xi1", [2, 3])):
        got = np.shape(getattr(state, name))
        if len(got) not in axes:
            raise ValueError(f"state.{name}: expected {axes} axes, got {got}")
    (K, h, D), J = np.shape(state.M), len(state.beta1_mu)
    X = check_X(X, n_features=D - 1)
    y, N = check_y(y, len(X), J + 1), len(X)
    shapes = {
        "beta1_mu": (J, h + 1), "beta1_S": (J, h + 1, h + 1),
        "beta0_mu": (K - 1, D), "beta0_S": (K - 1, D, D),
        "V": (K, D, D), "a": (K,), "b": (K, h),
        "gamma": (N, K), "mu": (N, K, h), "Sigma": (N, K, h, h),
        "xi1": (N, J) if np.ndim(state.xi1) == 2 else (N, K, J),
        "xi0": (N, K - 1)}
    for name, expected in shapes.items():
        got = np.shape(getattr(state, name))
        if got != expected:
            raise ValueError(f"state.{name}: expected shape {expected}, got {got}")
    return X, y


def check_parameters(parameters):
    """Global factors of q, checked: any object with the eight fields below
    -> namespace of float64 arrays.

    beta1_mu (L-1,h+1), beta1_S (L-1,h+1,h+1), beta0_mu (K-1,D), beta0_S (K-1,D,D),
    M (K,h,D), V (K,D,D), a (K,), b (K,h);  D = d+1
    ValueError names the field that is missing, not an array of real numbers, has
    the wrong shape, is not finite or, for a and b, not positive.
    """
    names = ("beta1_mu", "beta1_S", "beta0_mu", "beta0_S", "M", "V", "a", "b")
    missing = [name for name in names if not hasattr(parameters, name)]
    if missing:
        raise ValueError(f"parameters: expected the fields {', '.join(names)}; "
                         f"a {type(parameters).__name__} has no {missing[0]}")
    p = SimpleNamespace()
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


def check_data(X, y, shapes, nodes, labels=True):
    """Inputs, labels and nodes that fit the sizes (K, h, L, d) of a network.

    -> X (N,d) float, y (N,) int64 (None if labels=False), z (Q,r), w (Q,)
    """
    K, h, L, d = shapes
    X = check_X(X, n_features=d)
    y = check_y(y, len(X), L) if labels else None
    z, w = (np.asarray(part, dtype=float) for part in nodes)
    r = min(h, L - 1)
    if z.ndim != 2 or z.shape[1] != r or w.shape != z.shape[:1] or not w.size:
        raise ValueError(f"nodes: expected z (Q, {r}) and w (Q,) for h={h}, "
                         f"L={L}, got {z.shape} and {w.shape}")
    return X, y, z, w


def check_climb(x, rates):
    """The start of a climb as a vector (P,), after a look at the numbers of AdaBelief.

    rates: {"lr", "b1", "b2", "eps", "eps_root"}
    """
    try:
        x = np.array(x, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError("x: expected a vector of finite numbers, got others "
                         f"({error})") from None
    if x.ndim != 1 or not np.isfinite(x).all():
        raise ValueError("x: expected a vector of finite numbers, got "
                         + (f"shape {x.shape}" if x.ndim != 1 else "others"))
    for name, value in rates.items():
        top = 1 if name in ("b1", "b2") else math.inf
        fine = is_number(value) and 0 <= value < top
        if not fine or name == "lr" and value == 0:
            raise ValueError(f"{name}: expected a number from 0 (lr: above 0) and "
                             f"below {top}, got {value!r}")
    return x


def check_climbed(value, grad, x):
    """ValueError unless value is a number and grad like x (P,)."""
    if np.shape(value) != () or np.shape(grad) != x.shape:
        raise ValueError(f"value_and_grad: expected shapes (), {x.shape}, "
                         f"got {np.shape(value)}, {np.shape(grad)}")


def check_optional(value, name, kind):
    """ValueError, naming the argument, unless value is None or a kind."""
    if value is not None and not isinstance(value, kind):
        raise ValueError(f"{name}: expected {kind.__name__} or None, got {value!r}")


def check_theta(theta, shapes, kind, shapes_of):
    """ValueError unless theta is None or a kind whose sizes, by shapes_of, are shapes."""
    if theta is not None and (not isinstance(theta, kind) or shapes_of(theta) != shapes):
        got = shapes_of(theta) if isinstance(theta, kind) else repr(theta)
        raise ValueError(f"start: expected a {kind.__name__} of {shapes}, got {got}")


def check_draws(draws, name="draws", least=4):
    """Draws as a float64 array (chains, draws, ...), at least 4 per chain.

    ValueError, naming the argument, otherwise.
    """
    draws = real_array(draws, name)
    if draws.ndim < 2 or draws.shape[0] < 1 or draws.shape[1] < least:
        raise ValueError(f"{name}: expected an array (chains, draws >= {least}, "
                         f"...), got shape {draws.shape}")
    return draws


def check_leading_axes(theta, log_joint, stats):
    """ValueError unless the fields of theta and everything in stats have the axes
    (chain, draw) of log_joint."""
    lead, dims = log_joint.shape, dict(zip(theta._fields, (4, 4, 5, 4)))
    for name, value in theta._asdict().items():
        if value.ndim != dims[name] or value.shape[:2] != lead:
            raise ValueError(f"{name}: expected {dims[name]} axes, the first two "
                             f"{lead} as in log_joint, got {value.shape}")
    for name, value in stats.items():
        if np.shape(value)[:2] != lead:
            raise ValueError(f"stats[{name!r}]: expected leading axes {lead}, "
                             f"got shape {np.shape(value)}")


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
