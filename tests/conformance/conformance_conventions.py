"""Right code that is built differently: the example in NumPy behind other parametrisations, and with other routes through linear algebra.

Each is written as its author would write it, with numpy.linalg and no word of cmn_conformance.convert.
"""

import types
from pathlib import Path
from types import SimpleNamespace

import numpy as np

SOURCE = Path(__file__).resolve().parents[2] / "conformance/adapters/numpy_minimal.py"
COVARIANCES = ("S", "Sigma", "beta0_S", "beta1_S")
PADDED = {"M": (-1,), "A0_mu": (-1,), "V": (-1, -2), "A": (-1,), "beta0": (-1,), "beta1": (-1,), "beta0_mu": (-1,), "beta1_mu": (-1,), "beta0_S": (-1, -2), "beta1_S": (-1, -2)}
TABLES = ("M", "A0_mu", "A", "beta0", "beta1", "beta0_mu", "beta1_mu")
STICKS = {"psi": -1, "psi2": -1, "xi": -1, "b": -1, "kappa": -1, "m": -1, "v": -1, "xi0": -1, "xi1": -1, "beta0_mu": -2, "beta1_mu": -2, "beta0_S": -3,
          "beta1_S": -3, "beta0": -2, "beta1": -2}
BACKWARDS = {"stick_log_probs": "log_probs", "stick_log_means": "log_probs", "stick_logits": "log_probs", "stick_counts": "weights",
             "predict": "log_probs"}


def example(replace=()):
    """The adapter in NumPy, as a module of its own, with names put into it."""
    source, module = SOURCE.read_text(), types.ModuleType("built_differently")
    for old, new, function in replace:
        assert old in source
        source = source.replace(old, new)
        module.__dict__[new.partition("(")[0]] = function
    exec(compile(source, str(SOURCE), "exec"), module.__dict__)
    return module


# ---- parametrisations: what the author's functions are given, and what they give

def invert(x):
    return np.linalg.inv(x) if x.size else x


def lower(x):
    return np.linalg.cholesky(x) if x.size else x


def square(x):
    return x @ np.swapaxes(x, -1, -2)


def moved(change, names):
    return lambda op, name, x: change(x) if name in names else x


def each(table, change):
    def apply(op, name, x):
        for axis in (-1, -2) if op == "padded_second_moment" and name == "value" else table.get(name, ()):
            x = change(x, axis)
        return x
    return apply


def gammas(op, name, x):
    return 1 / np.asarray(x) if name in ("b", "b0") and op not in ("pg_mean", "pg_var", "pg_kl", "stick_counts", "stick_log_bound") else x


def flipped(op, name, x):
    return x[..., ::-1] if BACKWARDS.get(op) == name else x


def of_sticks(op, name, x):
    """The axis of an array that runs over sticks, or 0."""
    there = op.startswith("stick_") or name.startswith(("xi", "beta")) or op.endswith("_logits") and name.startswith("psi")
    axis = STICKS.get(name, 0)
    return axis if there and np.ndim(x) >= -axis else 0


def without_last(op, name, x):
    axis = of_sticks(op, name, x)
    return np.take(x, range(np.shape(x)[axis] - 1), axis) if axis else x


def with_another(op, name, x):
    """One more stick: 0 where the author says nothing about it."""
    axis = of_sticks(op, name, x)
    if not axis:
        return x
    shape = [1 if n == np.ndim(x) + axis else s for n, s in enumerate(np.shape(x))]
    return np.concatenate([x, np.zeros(shape)], axis)


CONVENTIONS = {     # name: profile, from the author's terms to ours, from ours to the author's
    "scales": ({"gamma": "scale"}, gammas, gammas),
    "precisions": ({"gaussian": "precision", "V": "precision"}, moved(invert, (*COVARIANCES, "V")), moved(invert, (*COVARIANCES, "V"))),
    "factors": ({"gaussian": "cholesky"}, moved(square, COVARIANCES), moved(lower, COVARIANCES)),
    "bias first": ({"bias": "first"}, each(PADDED, lambda x, axis: np.roll(x, -1, axis)), each(PADDED, lambda x, axis: np.roll(x, 1, axis))),
    "columns": ({"layout": "columns"}, moved(lambda x: np.swapaxes(x, -1, -2), TABLES), moved(lambda x: np.swapaxes(x, -1, -2), TABLES)),
    "K sticks": ({"sticks": "K"}, without_last, with_another),
    "classes in reverse": ({"classes": "reversed"}, flipped, flipped)}


def behind(name, base):
    """The adapter whose author writes as this convention says."""
    profile, inwards, outwards = CONVENTIONS[name]

    def wrap(op, function, outputs):
        def answer(**given):
            ours = {key: inwards(op, key, value) for key, value in given.items()}
            if name == "classes in reverse" and "y" in ours:
                ours["y"] = len(ours["beta1_mu"] if "beta1_mu" in ours else ours["beta1"]) - ours["y"]
            got = function(**ours)
            got = got if isinstance(got, dict) else dict(zip(outputs, got if len(outputs) > 1 else (got,)))
            return {key: outwards(op, key, got[key]) for key in outputs if key in got}
        return answer
    from cmn_conformance import catalogue
    operations = {op: wrap(op, getattr(base, op), [name for name, out in entry["out"].items() if out.get("when", {}).get("noise") != "wishart"]) for op, entry in catalogue.operations().items() if hasattr(base, op)}
    return SimpleNamespace(NAME=f"NumPy, {name}", PROFILE={**getattr(base, "PROFILE", {}), **profile}, OPS=operations)


# ---- routes: five ways to an inverse and a determinant

def by_svd(A):
    u, s, v = np.linalg.svd(A)
    return np.swapaxes(v, -1, -2) @ (np.swapaxes(u, -1, -2) / s[..., None])


def by_eigh(A):
    w, q = np.linalg.eigh(A)
    return (q / w[..., None, :]) @ np.swapaxes(q, -1, -2)


def by_cholesky(A):
    half = np.linalg.solve(np.linalg.cholesky(A), np.broadcast_to(np.eye(A.shape[-1]), A.shape))
    return np.swapaxes(half, -1, -2) @ half


def by_solve(A):
    return np.linalg.solve(A, np.broadcast_to(np.eye(A.shape[-1]), A.shape))


ROUTES = {      # name: inverse, ln det
    "pinv": (np.linalg.pinv, lambda S: np.log(np.linalg.det(S))),
    "svd": (by_svd, lambda S: np.log(np.linalg.svd(S, compute_uv=False)).sum(-1)),
    "eigh": (by_eigh, lambda S: np.log(np.linalg.eigvalsh(S)).sum(-1)),
    "cholesky": (by_cholesky, lambda S: 2 * np.log(np.diagonal(np.linalg.cholesky(S), axis1=-2, axis2=-1)).sum(-1)),
    "solve": (by_solve, lambda S: np.linalg.slogdet(S)[1])}


def through(name):
    """The example in NumPy whose inverses and determinants are had in this way."""
    inverse, log_det = ROUTES[name]
    return example([("np.linalg.inv(", "its_inverse(", inverse), ("np.linalg.slogdet(S)[1]", "its_log_det(S)", log_det)])
