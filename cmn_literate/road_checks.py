"""The checks at the doors of the other roads: climbs, chains and draws."""

import math
import pickle

import numpy as np

from cmn_literate.checks import (
    STARTS, check_choice, check_count, check_kind, check_number, check_rng, check_X, check_y, is_number, real_array)


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


def check_climb_options(priors, Priors, objective, init, n_particles, tol, gradient, rng):
    """Arguments of fit_bbvi that say how to climb.   -> Generator"""
    check_kind(priors, "priors", Priors)
    check_choice(objective, "objective", ("elbo", "augmented"), '"')
    check_choice(init, "init", STARTS, '"')
    check_count(n_particles, "n_particles")
    check_number(tol, "tol", "a number (nats per row)", lambda v: v == v)
    check_choice(gradient, "gradient", ("fast", "autograd"))
    return check_rng(rng)
