"""What the estimator is given: options, columns, labels and seeds, checked before any work.

One table says what the options may be: fit, the command line and the documentation read it.
"""

import os
from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from cmn_literate.checks import STARTS, check_count, check_weights, is_number, plain_array
from cmn_literate.learners import LEARNERS, check_learner_weights


def as_generator(random_state):
    """numpy Generator from None, a whole number, a Generator or a RandomState.

    None draws from numpy's global state, so that np.random.seed governs it, as in
    scikit-learn.  ValueError for anything else.
    """
    if random_state is None:
        random_state = np.random.mtrand._rand
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(2**31)
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ValueError("random_state: expected None, a whole number >= 0 or a "
                         f"numpy Generator, got {random_state!r}") from None


def plain_labels(y):
    """Labels as an array of numpy's own types, missing ones refused.

    pandas' nullable booleans, whole numbers and texts become those of numpy.
    ValueError that names y, for a label that is missing and for masked entries.
    """
    missing = ()
    if hasattr(y, "isna") and hasattr(y, "to_numpy"):
        missing = np.flatnonzero(np.asarray(y.isna()).reshape(len(y), -1).any(axis=1))
        kind = getattr(getattr(y, "dtype", None), "numpy_dtype", None)
        if kind is not None and not missing.size:
            y = y.to_numpy(dtype=kind)
    array = plain_array(y, "y", labels=True)
    if array.dtype.kind in "mM":
        missing = np.flatnonzero(np.isnat(array))
    elif array.dtype.kind == "O" and array.ndim == 1:
        missing = [*missing, *(i for i, v in enumerate(array) if isinstance(v, float) and v != v)]
    if len(missing):
        raise ValueError("y contains NaN: expected a label in every row, got none in row(s) "
                         f"{', '.join(map(str, missing[:5]))}")
    return y


def encode_labels(y, classes=None):
    """Labels as whole numbers from 0.

    y (N,) -> classes (L,), codes (N,)
    classes: the label set, if y need not hold all of it.  ValueError for labels
    that do not sort, for fewer than two, or for a label outside classes.
    """
    try:
        found, codes = np.unique(y, return_inverse=True)
        given = None if classes is None else np.unique(
            plain_array(classes, "classes", labels=True))
    except TypeError as error:
        raise ValueError("y: expected labels of one kind, which can be sorted "
                         f"({error})") from None
    if given is not None:
        nan = given.dtype.kind == "f" and np.isnan(given).any()
        if np.ndim(classes) != 1 or nan:
            raise ValueError("classes: expected a list of labels, "
                             f"got {classes!r}")
        unknown = found[~np.isin(found, given)]
        if unknown.size:
            raise ValueError("y: expected labels among "
                             f"{given.tolist()}, got {unknown.tolist()}")
        classes = given
        codes = np.searchsorted(classes, y)
        found = classes
    if len(found) < 2:
        raise ValueError("y: expected at least two classes, got one class: "
                         f"{found.tolist()}")
    return found, codes


def class_factors(labels, of_class, class_weight):
    """Factor of every class from class_weight.

    class_weight: {label: factor >= 0}, 1 for labels that it does not name; or "balanced": the total weight over
    the number of classes with rows and the weight of the class.   labels (L,), of_class (L,) weight of their rows -> (L,)
    """
    if isinstance(class_weight, str) and class_weight == "balanced":
        return of_class.sum() / ((of_class > 0).sum() * np.where(of_class > 0, of_class, 1.0))
    if not isinstance(class_weight, dict):
        raise ValueError(f"class_weight: expected a dict, 'balanced' or None, got {class_weight!r}")
    factors = np.ones(len(labels))
    for label, factor in class_weight.items():
        place = np.flatnonzero([label == known for known in labels.tolist()])
        if not place.size:
            raise ValueError(f"class_weight: expected labels among {labels.tolist()}, got {label!r}")
        if not is_number(factor) or not 0 <= factor < np.inf:
            raise ValueError(f"class_weight: expected finite numbers >= 0, got {factor!r} for {label!r}")
        factors[place] = factor
    return factors


def weigh_rows(X, y, est, sample_weight=None, chunk_of=None):
    """Rows, labels and weights of an estimator's data, the rows of weight 0 left out; weights None if each row counts once.

    chunk_of: the label set of the stream, if these rows are not all; ValueError then for class_weight "balanced", which asks for all of them.
    """
    if sample_weight is None and est.class_weight is None:
        return X, y, None
    check_learner_weights(est.method)
    weight = np.ones(len(X)) if sample_weight is None else check_weights(sample_weight, len(X))
    X, y, weight = _counting(X, y, weight)
    if est.class_weight is not None:
        if chunk_of is not None and isinstance(est.class_weight, str):
            raise ValueError(f"class_weight: expected a dict or None for partial_fit, which does not see all rows, got {est.class_weight!r}")
        labels, codes = encode_labels(y, est.classes if chunk_of is None else chunk_of)
        of_class = np.bincount(codes, weight, len(labels))
        weight = check_weights(weight * class_factors(labels, of_class, est.class_weight)[codes], len(X))
        X, y, weight = _counting(X, y, weight)
    return X, y, None if (weight == 1).all() else weight


def _counting(X, y, weight):
    """The rows whose weight is not 0."""
    keep = weight > 0
    return (X, y, weight) if keep.all() else (X[keep], y[keep], weight[keep])


def chunk_classes(est, classes):
    """The label set of a call of partial_fit: that of an earlier call, else the one given, else the option of est.

    ValueError if there is none, or another one than in an earlier call.
    """
    if not hasattr(est, "classes_"):
        given = est.classes if classes is None else classes
        if given is None:
            raise ValueError("classes: expected the label set in the first call of partial_fit, got None")
        return given
    if classes is not None and set(np.ravel(classes).tolist()) != set(est.classes_.tolist()):
        raise ValueError(f"classes: expected those of the first call, {est.classes_.tolist()}, got {np.ravel(classes).tolist()}")
    return est.classes_


def check_classes(n_classes, n_rows):
    """ValueError for labels that are measurements: more than 50, and more than one for every two rows."""
    if n_classes > max(50, n_rows / 2):
        raise ValueError(f"y: {n_classes} different values in {n_rows} rows look like "
                         "measurements, not classes; if they are classes, name them in "
                         "classes=")


def check_columns(X):
    """ValueError for text and dates, naming the columns of a DataFrame."""
    if not hasattr(X, "columns") or not hasattr(X, "dtypes"):
        plain_array(X, "X")
        return
    names = [str(name) for name in X.columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"X: expected distinct column names, got twice: {twice}")
    bad = []
    for name, kind in zip(X.columns, X.dtypes):
        try:
            if getattr(kind, "kind", "O") not in "biufc":
                plain_array(X[name], "X").astype(float)
        except (TypeError, ValueError, OverflowError):
            bad.append(str(name))
    if bad:
        raise ValueError(f"X: expected numeric columns, got {', '.join(bad)}")


# ---- options

class Count(NamedTuple):
    """A whole number >= least; None too, if it has a meaning."""
    least: int = 1
    none: str = ""

    def __str__(self):
        return f"a whole number >= {self.least}" + (f", or None: {self.none}" if self.none else "")

    def check(self, value, name):
        if not (self.none and value is None):
            check_count(value, name, self.least)

    def parse(self, text):
        if not text.isdecimal() or int(text) < self.least:
            raise ValueError(f"expected a whole number >= {self.least}, got {text!r}")
        return int(text)


class Jobs(NamedTuple):
    """A number of workers, as in scikit-learn."""

    def __str__(self):
        return "a whole number >= 1, -1 for all cores, or None: 1, or what joblib.parallel_backend says"

    def check(self, value, name):
        if value is not None and (isinstance(value, bool) or value != -1):
            check_count(value, name)

    def parse(self, text):
        if text != "-1" and not (text.isdecimal() and int(text)):
            raise ValueError(f"expected a whole number >= 1 or -1, got {text!r}")
        return int(text)


class Between(NamedTuple):
    """A number between two others."""
    low: float
    high: float

    def __str__(self):
        return f"a number between {self.low} and {self.high}"

    def check(self, value, name):
        number = isinstance(value, (int, float, np.number))
        if not number or isinstance(value, bool) or not self.low < value < self.high:
            raise ValueError(f"{name}: expected a number between {self.low} and "
                             f"{self.high}, got {value!r}")

    def parse(self, text):
        try:
            value = float(text)
        except ValueError:
            value = np.nan
        if not self.low < value < self.high:
            raise ValueError(f"expected a number between {self.low} and {self.high}, got {text!r}")
        return value


class Choice(NamedTuple):
    """One of some words."""
    allowed: Collection

    def __str__(self):
        return ", ".join(self.allowed)

    def check(self, value, name):
        if value not in list(self.allowed):
            raise ValueError(f"{name}: expected one of {', '.join(self.allowed)}, "
                             f"got {value!r}")

    def parse(self, text):
        if text not in self.allowed:
            raise ValueError(f"expected one of {', '.join(self.allowed)}, got {text!r}")
        return text


class Flag(NamedTuple):
    """True or False."""

    def __str__(self):
        return "True or False"

    def check(self, value, name):
        if not isinstance(value, (bool, np.bool_)):
            raise ValueError(f"{name}: expected True or False, got {value!r}")

    def parse(self, text):
        if text.lower() not in ("true", "false"):
            raise ValueError(f"expected true or false, got {text!r}")
        return text.lower() == "true"


class FlagOr(NamedTuple):
    """True, False, or a word."""
    word: str

    def __str__(self):
        return f"True, False or {self.word}"

    def check(self, value, name):
        if not (isinstance(value, (bool, np.bool_)) or isinstance(value, str) and value == self.word):
            raise ValueError(f"{name}: expected {self}, got {value!r}")

    def parse(self, text):
        if text.lower() not in ("true", "false", self.word):
            raise ValueError(f"expected {str(self).lower()}, got {text!r}")
        return text if text == self.word else text.lower() == "true"


UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


class Memory(NamedTuple):
    """Bytes, as a whole number or a text like 512MB; None too."""

    def __str__(self):
        return "bytes, as a whole number or a text such as 512MB or 2GiB, or None: half of this machine's memory"

    def check(self, value, name):
        memory_bytes(value, name)

    def parse(self, text):
        try:
            memory_bytes(text, "memory")
        except ValueError as error:
            raise ValueError(str(error).partition(": ")[2]) from None
        return text


def memory_bytes(value, name="memory"):
    """Bytes of a budget: a whole number, a text such as "512MB", or None for half of this machine's memory.  ValueError for others."""
    if value is None:
        return (machine_memory() or 2**33) // 2
    text = str(value).replace(" ", "").upper()
    number = text.rstrip("BIKMGT")
    unit = text[len(number):] or "B"
    try:
        size = float(number) * UNITS[unit]
    except (KeyError, ValueError):
        size = 0
    if isinstance(value, bool) or not 1 <= size < np.inf:
        raise ValueError(f"{name}: expected bytes as a whole number, or a text such as 512MB, got {value!r}")
    return int(size)


def machine_memory():
    """Bytes of memory of this machine, or None from a system that does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


# option of CMNClassifier: (what it may be, what it means); the others have checks of their own
CONSTRAINTS = {
    "n_experts": (Count(), "number of experts, K"),
    "latent_dim": (Count(none="number of classes - 1, at most 20"), "latent dimensions, h"),
    "n_init": (Count(), "starts"),
    "max_sweeps": (Count(), "limit of sweeps"),
    "n_jobs": (Jobs(), "workers: processes for several starts or chains, threads for a sweep"),
    "inner": (Count(), "rounds of (x, omega1) per sweep"),
    "method": (Choice(LEARNERS), "how the network is learned; auto: several for rows in memory, else cavi"),
    "omega1": (Choice(("per-component", "shared")), "tilts of the outputs: one per expert, or shared by all"),
    "select": (Choice(("average", "elbo", "holdout")), "what becomes of several starts"),
    "init": (Choice(STARTS), "where the ascent starts"),
    "standardize": (Flag(), "measure every column in its standard deviations"),
    "accelerate": (FlagOr("relaxed"), "move the latent axes after each sweep; relaxed: go beyond each M-step as well"),
    "tol": (Between(0, np.inf), "stop at a gain below this, in nats per row and sweep"),
    "memory": (Memory(), "rows that need more are read anew in every sweep"),
    "holdout": (Between(0, 1), 'share of the rows that select="holdout" scores the starts on')}


# what the paper does, and what CMNClassifier and the command line do when nobody asks
PAPER = {"method": "cavi", "init": "class-code", "n_init": 1, "max_sweeps": 500, "tol": 1e-6}
USUAL = {"method": "auto", "init": "hyperplanes", "n_init": 1, "max_sweeps": 1000, "tol": 3e-5}


def check_options(options):
    """ValueError naming the first of the options {name: value} that the table does not allow."""
    for name, (rule, _) in CONSTRAINTS.items():
        rule.check(options[name], name)


def check_squares(scale):
    """ValueError unless the deviations of the columns (d,) are finite."""
    if not np.isfinite(scale).all():
        raise ValueError("X: expected values whose squares are finite")


def default_latent_dim(n_classes):
    """h if none is asked for: number of classes - 1, at most 20."""
    return min(n_classes - 1, 20)


def check_memory(n_rows, n_columns, n_experts, latent_dim, n_classes, copies=1):
    """ValueError for so many coordinate ascents that this machine cannot hold, before anything is allocated."""
    there = machine_memory() or np.inf
    D, K, h = n_columns + 1, n_experts, latent_dim or default_latent_dim(n_classes)
    factors = D * D * (8 * (2 * K - 1) + 8) + 4 * n_classes * (h + 1) ** 2        # with what a sweep needs beside them
    rows = n_rows * (D + 2 * K * n_classes)
    need = 8 * (factors + rows) * copies
    if need > there:
        together = "" if copies == 1 else f" in {copies} ascents"
        raise ValueError(f"X: {n_columns} columns and {K} experts{together} need about {need / 2**30:.0f} GiB, this machine has "
                         f"{there / 2**30:.0f}: fewer columns (their leading principal components, for instance) or fewer experts"
                         + (", or a single ascent (method='cavi')" if together else ""))
