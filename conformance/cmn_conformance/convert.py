"""Between the parametrisation of a case and that of an adapter: what is given goes one way, answers come back the other.

A choice of parametrisation changes numbers and no mathematics, so every case can be asked of everybody.  An answer is converted back and
compared in the terms of its case, with a tolerance widened by what the conversion can lose: 32 eps times its condition number.
"""

from functools import cache

import numpy as np

from cmn_conformance import catalogue
from cmn_conformance.values import Malformed, decode, encode

KEYS = {                                                 # key: values, the suite's own first
    "gamma": ("rate", "scale"), "gaussian": ("covariance", "precision", "cholesky"), "V": ("covariance", "precision"), "bias": ("last", "first"),
    "layout": ("rows", "columns"), "sticks": ("K-1", "K"), "classes": ("forward", "reversed")}
LINKED = ("gaussian", "V", "bias", "layout", "sticks")   # each must know the others to read an array
PADDED, STICKS = ("D", "h+1", "m+1", "h1+1", "h2+1", "h3+1"), ("J", "K-1", "L-1", "J0", "J1", "J2", "J3")
REVERSED = {"stick_log_probs": "log_probs", "stick_log_means": "log_probs", "stick_logits": "log_probs", "stick_counts": "weights", "predict": "log_probs", "forecast": "log_probs", "deep_forecast": "log_probs"}


class NotConvertible(ValueError):
    """What is given has no such parametrisation."""


def shapes(op, side):
    """{argument or output: its dimensions as ops.json names them}."""
    return {name: entry["shape"] for name, entry in catalogue.operations()[op][side].items()}


def covariance_key(name, dims):
    """The key that says how this array is parametrised, or ""."""
    if len(dims) < 2 or dims[-1] != dims[-2]:
        return ""
    name = name.rstrip("123")                            # a layer's number
    return "V" if name == "V" else "gaussian" if name in ("S", "Sigma") or name.endswith("_S") else ""


def is_gamma(op, name):
    """b and b0 are those of a Gamma where its shape is there as well."""
    return name in ("b", "b0", "b1", "b2", "b3") and bool({"a", "a1"} & set(catalogue.operations()[op]["in"]))


@cache
def reads(op, key):
    """Whether anything that goes in or out of this operation depends on a parametrisation."""
    for side in ("in", "out"):
        for name, dims in shapes(op, side).items():
            if key in ("gaussian", "V"):
                found = covariance_key(name, dims) == key
            elif key == "layout":
                found = is_table(dims)
            else:
                found = {"gamma": is_gamma(op, name), "bias": any(d in PADDED for d in dims), "sticks": any(d in STICKS for d in dims),
                         "classes": name == "y" or REVERSED.get(op) == name}[key]
            if found:
                return True
    return False


def is_table(dims):
    """Rows of coefficients of padded inputs: M, A and beta, not their covariances."""
    return len(dims) > 1 and dims[-1] in PADDED and dims[-2] not in PADDED


def target(case, profile):
    """{key: value} in which the case is put to an adapter of this profile: its own where the adapter knows it."""
    out = {}
    for key, values in KEYS.items():
        can, own = profile.get(key, values[0]), case.profile.get(key, values[0])
        can = can if isinstance(can, list) else [can]
        fits = [value for value in can if value in values]
        out[key] = own if own in can else fits[0] if fits else own
    return out


def differing(case, wanted):
    """The keys of which this operation reads something, and which differ between the case and what is wanted."""
    return {key for key, values in KEYS.items() if wanted[key] != case.profile.get(key, values[0]) and reads(case.op, key)}


def why_not(case, wanted):
    """What keeps a case from being put in these terms, or ""."""
    if not differing(case, wanted) & {"gaussian", "V"}:  # nothing else can be impossible
        return ""
    try:
        Conversion(case, wanted)
    except NotConvertible as reason:
        return str(reason)
    return ""


class Conversion:
    """One case in an adapter's terms.

    given     what it is asked, as JSON values; NotConvertible if there is no such thing
    loss      condition number of the conversion of what is given: relative change per relative rounding
    """

    def __init__(self, case, wanted):
        self.case, self.loss = case, 0.0
        self.own = {key: case.profile.get(key, values[0]) for key, values in KEYS.items()}
        self.wanted = {**self.own, **wanted}
        self.keys = differing(case, self.wanted)
        if self.keys & set(LINKED):
            self.keys |= {key for key in LINKED if reads(case.op, key)}
        self.given = case.given
        if self.keys:
            arrays = {name: decode(value) for name, value in case.given.items()}
            read = [l for l in range(4) if f"beta{l}_mu" in arrays]                     # the last of them reads the top, and makes y
            self.sigma = {f"beta{l}_S": arrays.get("sigma1" if l and l == read[-1] else "sigma0", 1.0) for l in read}
            table = arrays.get(f"beta{max(1, *read, 0)}_mu", arrays.get("beta1"))
            self.classes = 1 if table is None else len(table) + (self.own["sticks"] == "K-1")
            moved, problems, losses = self.move(arrays, "in", self.own, self.wanted)
            if problems:
                raise NotConvertible(next(iter(problems.values())))
            self.loss = max(losses.values(), default=0.0)
            ints = {name for name, entry in catalogue.operations()[case.op]["in"].items() if entry["kind"] == "int"}
            self.given = {name: encode(value if name in ints else np.asarray(value, float)) for name, value in moved.items()}

    def back(self, out):
        """Answers in the terms of the case.   -> {output: JSON value}, {output: what is wrong with it}, {output: condition number}"""
        if not self.keys:
            return out, {}, {}
        known = shapes(self.case.op, "out")
        arrays, problems = {}, {}
        for name in self.case.out:
            try:
                if name in out and name in known:
                    arrays[name] = decode(out[name])
            except (Malformed, RecursionError):
                pass                                     # compare() says what it is
        moved, wrong, losses = self.move(arrays, "out", self.wanted, self.own)
        problems.update(wrong)
        return {**out, **{name: encode(value) for name, value in moved.items()}}, problems, losses

    def move(self, arrays, side, source, goal):
        """Arrays from one parametrisation to another, {name: problem}, {name: condition number}."""
        table, moved, problems, losses = shapes(self.case.op, side), {}, {}, {}
        for name, array in arrays.items():
            dims = table[name]
            moved[name] = array
            if array.ndim < min(len(dims), 2) or array.ndim > len(dims):
                continue                                 # compare() says that the shape is wrong
            try:
                with np.errstate(all="ignore"):
                    moved[name], losses[name] = self.one(name, np.array(array, copy=True), dims, source, goal, side)
            except (NotConvertible, np.linalg.LinAlgError) as error:
                problems[name] = f"{name}: {error}"
            except (ValueError, IndexError):             # a shape that fits no parametrisation
                pass
        return moved, problems, losses

    def one(self, name, x, dims, source, goal, side):
        op, differ, loss = self.case.op, lambda key: key in self.keys and source[key] != goal[key], 0.0
        if differ("classes"):
            if name == "y":
                x = self.classes - 1 - x
            elif REVERSED.get(op) == name:
                x = x[..., ::-1]
        if differ("gamma") and is_gamma(op, name):
            x = 1 / np.asarray(x, float) if x.ndim < 3 else inverse(x)[0]
        key = covariance_key(name, dims)
        flip = is_table(dims) and "layout" in self.keys
        if flip and source["layout"] == "columns":
            x = np.swapaxes(x, -1, -2)
        related = key and (differ(key) or source[key] != "covariance" and (differ("bias") or differ("sticks")))
        if related:
            x, loss = to_covariance(x, source[key])
        if differ("bias"):
            for axis in (i - len(dims) for i, d in enumerate(dims) if d in PADDED):
                size = x.shape[axis]
                x = np.take(x, [size - 1, *range(size - 1)] if goal["bias"] == "first" else [*range(1, size), 0], axis)
        if differ("sticks"):
            x = self.stick(name, x, dims, goal["sticks"] == "K", side)
        if related:
            x, more = from_covariance(x, goal[key])
            loss = max(loss, more)
        if flip and goal["layout"] == "columns":
            x = np.swapaxes(x, -1, -2)
        return x, loss

    def stick(self, name, x, dims, more, side):
        """With the stick that is never tossed, or without it.  Its coefficients are those of the prior."""
        for axis in (i - len(dims) for i, d in enumerate(dims) if d in STICKS):
            if more:
                last = np.zeros_like(np.take(x, [0], axis)) if x.shape[axis] else np.zeros([1 if n == axis + x.ndim else s for n, s in enumerate(x.shape)])
                if covariance_key(name, dims):
                    last = last + np.eye(x.shape[-1]) * self.sigma.get(name, 1.0) ** 2
                x = np.concatenate([x, last], axis)
            else:
                if side == "out" and self.case.op == "stick_counts" and np.any(np.take(x, [-1], axis) != 0):
                    raise NotConvertible("the last of K sticks is never tossed: its b and kappa are 0")
                x = np.take(x, range(x.shape[axis] - 1), axis)
        return x


def scaled_condition(S):
    """Condition number of each matrix with its diagonal scaled to 1, which is what a Cholesky route feels; the largest."""
    if not S.size:
        return 0.0
    d = np.sqrt(np.einsum("...ii->...i", S))
    w = np.linalg.eigvalsh(S / (d[..., :, None] * d[..., None, :]))
    return float(np.max(w[..., -1] / w[..., 0]))


def inverse(A):
    """(A^-1, its condition number) of symmetric positive definite matrices, through a Cholesky factor."""
    try:
        L = np.linalg.cholesky(A)
    except np.linalg.LinAlgError:
        raise NotConvertible("not positive definite, so it has no inverse that is a covariance or a precision") from None
    half = np.linalg.solve(L, np.broadcast_to(np.eye(A.shape[-1]), A.shape))
    return np.swapaxes(half, -1, -2) @ half, scaled_condition(A)


def factor(S):
    """Lower factor of symmetric positive semidefinite matrices; a direction without spread has a column of zeros."""
    S, L = np.array(S, float), np.zeros(S.shape)
    for j in range(S.shape[-1]):
        pivot = S[..., j, j] - (L[..., j, :j] ** 2).sum(-1)
        if np.any(pivot < -1e-12 * np.abs(S[..., j, j])):
            raise NotConvertible("not positive semidefinite, so it has no Cholesky factor")
        root = np.sqrt(np.where(pivot > 1e-14 * np.abs(S[..., j, j]), pivot, 0.0))
        column = S[..., j:, j] - np.einsum("...ik,...k->...i", L[..., j:, :j], L[..., j, :j])
        L[..., j:, j] = np.where(root[..., None] > 0, column / np.where(root > 0, root, 1.0)[..., None], 0.0)
    return L


def to_covariance(x, kind):
    x = np.asarray(x, float)
    if x.shape[-1] != x.shape[-2]:
        raise ValueError("not square")
    if kind == "covariance" or not x.size:
        return x, 0.0
    if kind == "cholesky":
        if np.any(np.triu(x, 1) != 0):
            raise NotConvertible("a Cholesky factor is lower triangular here, with zeros above its diagonal")
        return x @ np.swapaxes(x, -1, -2), 1.0
    gap = np.max(np.abs(x - np.swapaxes(x, -1, -2)))
    if not np.isfinite(gap):
        raise NotConvertible("a precision with entries that are not finite")
    if gap > 1e-6 * np.max(np.abs(x)):                   # no precision; its inverse shows where
        return np.linalg.inv(x), 0.0
    return inverse((x + np.swapaxes(x, -1, -2)) / 2)


def from_covariance(S, kind):
    if kind == "covariance" or not S.size:
        return S, 0.0
    return (factor(S), 1.0) if kind == "cholesky" else inverse(S)
