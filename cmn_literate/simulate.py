# Tangled from book/ingredients/simulate.ipynb by tools/tangle.py; edit the notebook, not this file.
"""A network you can sample

A conditional mixture network is a piecewise linear function with noise, and a row of sticks that
reads a class off its value. Sample it, see it.
"""

__all__ = ["pad", "plain_array", "real_array", "check_X", "check_y", "check_count", "Priors",
           "Theta", "sample_theta", "sample_sticks", "Sample", "sample_data"]


# book/ingredients/simulate.ipynb, cell simulate-04
from dataclasses import dataclass, replace
from datetime import date, time, timedelta
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np

from cmn_literate.stick_breaking import stick_log_probs


# book/ingredients/simulate.ipynb, cell simulate-08
def pad(X):
    """Padded inputs [x; 1], the 1 last.  [eq-pad]

    X (..., d) -> (..., d+1) float64
    """
    X = np.asarray(X, dtype=float)
    return np.concatenate([X, np.ones(X.shape[:-1] + (1,))], axis=-1)


_NO_NUMBER = (str, bytes, date, time, timedelta, np.datetime64, np.timedelta64)


def plain_array(values, name, labels=False):
    """values as a numpy array, of whatever type numpy gives it.  [eq-data]

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
    """values as a float64 array of any shape, not copied if it is one.  [eq-data]

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


# book/ingredients/simulate.ipynb, cell simulate-09
def check_X(X, name="X", n_features=None):
    """Inputs as a float64 array of shape (N, d), d >= 1.  [eq-data]

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


# book/ingredients/simulate.ipynb, cell simulate-10
def check_y(y, n_rows, n_classes=None):
    """Labels as an int64 array of shape (N,), classes counted from 0.  [eq-data]

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


# book/ingredients/simulate.ipynb, cell simulate-11
def check_count(value, name, least=1):
    """A whole number >= least, as an int; ValueError otherwise.  [eq-data]"""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name}: expected a whole number >= {least}, got "
                         f"{value!r}")
    return int(value)


# book/ingredients/simulate.ipynb, cell simulate-15
@dataclass(frozen=True)
class Priors:
    """Hyper-parameters of the conditional mixture network.  [eq-priors]

    v0 > 0      variance scale of the experts: row i of A_k is N(0, v0 / tau_ki I)
    a0, b0 > 0  shape and rate of the Gamma prior of each noise precision tau_ki
    sigma0 > 0  standard deviation of each gate coefficient
    sigma1 > 0  standard deviation of each output coefficient

    ValueError, naming the field, unless all five are positive and finite.
    A Priors is immutable; calling it makes a changed copy: priors(sigma0=1.0).
    """
    v0: float = 10.0
    a0: float = 2.0
    b0: float = 1.0
    sigma0: float = 5.0
    sigma1: float = 5.0

    def __post_init__(self):
        for name, value in vars(self).items():
            number = isinstance(value, Real) and not isinstance(value, bool)
            if not number or not 0 < value < np.inf:
                raise ValueError(f"{name}: expected a positive finite number, "
                                 f"got {value!r}")
            object.__setattr__(self, name, float(value))

    def __call__(self, **changes):
        return replace(self, **changes)


# book/ingredients/simulate.ipynb, cell simulate-20
class Theta(NamedTuple):
    """One value of the parameters.  [eq-priors]

    beta1 (L-1, h+1)   output coefficients, one row per stick
    beta0 (K-1, d+1)   gate coefficients, one row per stick
    A     (K, h, d+1)  experts, the bias in the last column
    tau   (K, h)       noise precisions, 1 / variance
    """
    beta1: np.ndarray
    beta0: np.ndarray
    A: np.ndarray
    tau: np.ndarray


# book/ingredients/simulate.ipynb, cell simulate-21
def sample_theta(priors, n_experts, latent_dim, n_classes, input_dim, rng):
    """Draw the parameters from the prior.  [eq-priors]

    n_experts K >= 1, latent_dim h >= 1, n_classes L >= 2, input_dim d >= 1
    rng a numpy Generator -> Theta
    ValueError, naming the argument, if a count is too small or not whole.
    """
    K = check_count(n_experts, "n_experts")
    h = check_count(latent_dim, "latent_dim")
    L = check_count(n_classes, "n_classes", least=2)
    D = check_count(input_dim, "input_dim") + 1
    # numpy wants a scale: 1 / rate
    tau = rng.gamma(priors.a0, 1 / priors.b0, size=(K, h))
    tau = np.maximum(tau, 1e-300)  # for shapes near 0 a draw can underflow
    A = rng.normal(size=(K, h, D)) * np.sqrt(priors.v0 / tau)[:, :, None]
    beta0 = priors.sigma0 * rng.normal(size=(K - 1, D))
    beta1 = priors.sigma1 * rng.normal(size=(L - 1, h + 1))
    return Theta(beta1, beta0, A, tau)


# book/ingredients/simulate.ipynb, cell simulate-28
def sample_sticks(psi, rng):
    """Draw a class by walking the sticks.  [eq-stick-probs]

    psi (..., J) logits of stopping, rng a Generator -> (...) int64 class in 0..J
    """
    psi = np.asarray(psi, dtype=float)
    cuts = np.cumsum(np.exp(stick_log_probs(psi)), axis=-1)[..., :-1]
    return (rng.random(psi.shape[:-1] + (1,)) >= cuts).sum(axis=-1)


# book/ingredients/simulate.ipynb, cell simulate-29
class Sample(NamedTuple):
    """Hidden variables and labels of N rows.  [eq-model]

    z (N,) expert, x1 (N, h) hidden vector, y (N,) class
    """
    z: np.ndarray
    x1: np.ndarray
    y: np.ndarray


# book/ingredients/simulate.ipynb, cell simulate-30
def sample_data(theta, X, rng):
    """Draw expert, hidden vector and class of every row.
    [eq-draw-z, eq-draw-x1, eq-draw-y]

    theta Theta, X (N, d) inputs, rng a numpy Generator -> Sample
    ValueError unless X holds finite numbers in the d columns that theta expects.
    """
    Xt = pad(check_X(X, n_features=theta.A.shape[-1] - 1))
    z = sample_sticks(Xt @ theta.beta0.T, rng)
    mean = np.einsum("nid,nd->ni", theta.A[z], Xt)
    x1 = mean + rng.normal(size=mean.shape) / np.sqrt(theta.tau[z])
    y = sample_sticks(pad(x1) @ theta.beta1.T, rng)
    return Sample(z, x1, y)
