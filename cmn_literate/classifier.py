# Tangled from book/practice/classifier.ipynb by tools/tangle.py; edit the notebook, not this file.
"""A classifier you can use

Everything so far fits behind `fit` and `predict_proba`, and stays honest there.
"""

__all__ = ["FORMAT", "SCHEMA_VERSION", "Method", "fit_cavi", "METHODS", "as_generator",
           "encode_labels", "check_numeric_columns", "Uncertainty", "ExpertSummary",
           "check_options", "column_scale", "progress", "fit_starts", "run_start", "holdout_rows",
           "entropy", "split_entropy", "summarize_experts", "save_model", "read_model",
           "load_model", "CMNClassifier"]


# book/practice/classifier.ipynb, cell classifier-02
import json
import os
import tempfile
import warnings
import zipfile
import zlib
from dataclasses import asdict
from typing import Callable, NamedTuple

import numpy as np
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from cmn_literate.cavi import Fit, fit
from cmn_literate.latents import Parameters
from cmn_literate.metrics import log_predictive_density
from cmn_literate.predict import (class_log_probs_by_expert, gate_probs,
                                  predict_log_proba)
from cmn_literate.simulate import Priors, check_count

FORMAT, SCHEMA_VERSION = "cmn_literate.CMNClassifier", 1


# book/practice/classifier.ipynb, cell classifier-03
class Method(NamedTuple):
    """One way of learning the network.

    fit                (Z, y, n_classes, estimator, rng, callback) -> result
                       with .elbo (n_sweeps,), .n_sweeps, .converged
    predict_log_proba  (result, Z) -> (n, L)
    """
    fit: Callable
    predict_log_proba: Callable


def fit_cavi(Z, y, n_classes, estimator, rng, callback):
    """method="cavi": coordinate ascent on standardised inputs Z.   -> Fit"""
    e = estimator
    return fit(Z, y, n_experts=e.n_experts, latent_dim=e.latent_dim,
               n_classes=n_classes, priors=e.priors, rng=rng, init=e.init,
               max_sweeps=e.max_sweeps, tol=e.tol, inner=e.inner,
               omega1=e.omega1, accelerate=e.accelerate, callback=callback)


METHODS = {"cavi": Method(
    fit_cavi, lambda result, Z: predict_log_proba(result.parameters, Z))}


# book/practice/classifier.ipynb, cell classifier-04
def as_generator(random_state):
    """numpy Generator from None, an int, a Generator or a RandomState."""
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(2**31)
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ValueError("random_state: expected None, a whole number >= 0 or a "
                         f"numpy Generator, got {random_state!r}") from None


def encode_labels(y, classes=None):
    """Labels as 0-based integers.   y (N,) -> classes (L,), codes (N,)

    classes fixes the label set and its order-free content; None takes what y
    holds.  ValueError for fewer than two classes or a label outside classes.
    """
    found, codes = np.unique(y, return_inverse=True)
    if classes is not None:
        found_in, classes = found, np.unique(classes)
        unknown = found_in[~np.isin(found_in, classes)]
        if unknown.size:
            raise ValueError("y: expected labels among "
                             f"{classes.tolist()}, got {unknown.tolist()}")
        codes = np.searchsorted(classes, y)
        found = classes
    if len(found) < 2:
        raise ValueError("y: expected at least two classes, got one class: "
                         f"{found.tolist()}")
    return found, codes


def check_numeric_columns(X):
    """ValueError naming the columns of a DataFrame that are not numeric."""
    dtypes = getattr(X, "dtypes", None)
    if dtypes is None or not hasattr(X, "columns"):
        return
    bad = [str(name) for name, kind in zip(X.columns, dtypes)
           if getattr(kind, "kind", "O") not in "biuf"]
    if bad:
        raise ValueError(f"X: expected numeric columns, got {', '.join(bad)}")


# book/practice/classifier.ipynb, cell classifier-05
class Uncertainty(NamedTuple):
    """Entropies of a prediction in nats, each (n,).

    total = within + between: inside the experts, and between them (which
    expert is in charge).
    """
    total: np.ndarray
    within: np.ndarray
    between: np.ndarray


class ExpertSummary(NamedTuple):
    """What the experts of a fit say, in the units of X.

    weight (K,) expected share of the training rows; slope (K, h, d) and
    offset (K, h) of E[x_1] as a function of x_0; noise (K, h) sqrt E[1/tau]
    """
    weight: np.ndarray
    slope: np.ndarray
    offset: np.ndarray
    noise: np.ndarray


# book/practice/classifier.ipynb, cell classifier-06
def check_options(est):
    """ValueError naming the first argument of the estimator that is off."""
    for name, least in [("n_experts", 1), ("n_init", 1), ("max_sweeps", 1),
                        ("inner", 1)]:
        check_count(getattr(est, name), name, least)
    if est.latent_dim is not None:
        check_count(est.latent_dim, "latent_dim")
    if not isinstance(est.priors, Priors):
        raise ValueError(f"priors: expected a Priors, got {est.priors!r}")
    choices = {"method": tuple(METHODS), "omega1": ("per-component", "shared"),
               "select": ("average", "elbo", "holdout"),
               "init": ("class-code", "random", "prior")}
    for name, allowed in choices.items():
        if getattr(est, name) not in allowed:
            raise ValueError(f"{name}: expected one of {', '.join(allowed)}, "
                             f"got {getattr(est, name)!r}")
    for name, low, high in [("tol", 0, np.inf), ("holdout", 0, 1)]:
        value = getattr(est, name)
        if isinstance(value, (str, bool)) or not low < value < high:
            raise ValueError(f"{name}: expected a number between {low} and "
                             f"{high}, got {value!r}")


# book/practice/classifier.ipynb, cell classifier-07
def column_scale(X, standardize=True):
    """Mean and standard deviation of every column; 1 for constant columns."""
    d = X.shape[1]
    if not standardize:
        return np.zeros(d), np.ones(d)
    mean = X.mean(axis=0)
    scale = (X - mean).std(axis=0)
    flat = scale <= 1e-12 * np.maximum(1.0, np.abs(mean))
    return mean, np.where(flat, 1.0, scale)


def progress(est, label):
    """Callback for one fit, and what closes it; silent unless verbose."""
    if not est.verbose:
        return None, lambda: None
    from tqdm.auto import tqdm
    bar = tqdm(total=est.max_sweeps, desc=label, disable=None)

    def update(n_sweeps, bound):
        bar.update(1)
        bar.set_postfix_str(f"ELBO {bound:.2f}")

    return update, bar.close


# book/practice/classifier.ipynb, cell classifier-08
def fit_starts(est, Z, codes):
    """Results of the starts that the estimator keeps.   -> list"""
    rngs = as_generator(est.random_state).spawn(est.n_init)
    everything = np.arange(len(Z))
    run = lambda rows, i, rng: run_start(est, Z[rows], codes[rows], i, rng)
    if est.n_init == 1 or est.select == "average":
        return [run(everything, i, rng) for i, rng in enumerate(rngs)]
    if est.select == "elbo":
        fits = [run(everything, i, rng) for i, rng in enumerate(rngs)]
        return [max(fits, key=lambda result: result.elbo[-1])]
    seeds = [int(rng.integers(2**63)) for rng in rngs]
    n_test = max(1, round(est.holdout * len(Z)))
    rows, test = holdout_rows(codes, n_test, np.random.default_rng(seeds[0]))
    score = METHODS[est.method].predict_log_proba
    scores = [log_predictive_density(
        codes[test], score(run(rows, i, seed), Z[test]), log=True)
        for i, seed in enumerate(seeds)]
    best = int(np.argmax(scores))
    return [run(everything, best, seeds[best])]


def run_start(est, Z, codes, i, rng):
    """One start of the estimator's method."""
    callback, close = progress(est, f"start {i + 1} of {est.n_init}")
    try:
        return METHODS[est.method].fit(Z, codes, len(est.classes_), est, rng, callback)
    finally:
        close()


def holdout_rows(codes, n_test, rng):
    """Row numbers for fitting and for scoring, classes in proportion.   -> two arrays"""
    order = rng.permutation(len(codes))
    rank = np.empty(len(codes))
    for c in np.unique(codes):
        mine = order[codes[order] == c]
        rank[mine] = (np.arange(len(mine)) + 0.5) / len(mine)
    order = np.argsort(rank, kind="stable")
    return np.sort(order[:-n_test]), np.sort(order[-n_test:])


# book/practice/classifier.ipynb, cell classifier-09
def entropy(log_p):
    """-sum p ln p over the last axis, in nats, from log p."""
    return -np.sum(np.exp(log_p) * np.where(np.isfinite(log_p), log_p, 0.0), axis=-1)


def split_entropy(est, Z):
    """Uncertainty of the averaged prediction, split by expert of every start."""
    within, logs = 0.0, []
    for result in est.fits_:
        gate = gate_probs(result.parameters, Z)
        by_expert = class_log_probs_by_expert(result.parameters, Z)
        within = within + np.sum(gate * entropy(by_expert), axis=-1) / len(est.fits_)
        logs.append(logsumexp(by_expert, b=gate[:, :, None], axis=1))
    total = entropy(logsumexp(logs, axis=0) - np.log(len(logs)))
    return Uncertainty(total, within, total - within)


def summarize_experts(result, mean, scale):
    """ExpertSummary of a fit in the units of X."""
    p = result.parameters
    slope = p.M[:, :, :-1] / scale
    noise = np.sqrt(p.b / np.where(p.a > 1, p.a - 1, np.nan)[:, None])
    weight = p.a - result.priors.a0
    return ExpertSummary(weight / weight.sum(), slope, p.M[:, :, -1] - slope @ mean, noise)


# book/practice/classifier.ipynb, cell classifier-10
def save_model(est, path):
    """Write a fitted estimator: arrays in .npz, the rest as JSON.  Atomic."""
    options = {k: v for k, v in est.get_params().items()
               if k not in ("random_state", "classes")}
    options["priors"] = asdict(est.priors)
    header = {"format": FORMAT, "schema": SCHEMA_VERSION, "options": options,
              "features": [str(f) for f in getattr(est, "feature_names_in_", [])],
              "n_sweeps": [int(r.n_sweeps) for r in est.fits_],
              "converged": [bool(r.converged) for r in est.fits_]}
    labels = est.classes_
    if labels.dtype.kind == "O":
        if not all(isinstance(label, str) for label in labels):
            raise ValueError(f"classes_: expected numbers or strings, got {labels.tolist()}")
        header["object_labels"], labels = True, labels.astype(str)
    arrays = {"classes": labels, "mean": est.mean_, "scale": est.scale_,
              "header": np.frombuffer(json.dumps(header).encode(), np.uint8)}
    for i, result in enumerate(est.fits_):
        arrays[f"{i}.elbo"] = result.elbo
        arrays.update({f"{i}.{k}": v for k, v in result.parameters._asdict().items()})
    folder = os.path.dirname(os.path.abspath(path))
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".part", delete=False) as out:
        try:
            np.savez(out, **arrays)
        except BaseException:
            os.unlink(out.name)
            raise
    os.replace(out.name, path)


# book/practice/classifier.ipynb, cell classifier-11
def read_model(path):
    """Header and arrays of a saved model; ValueError when it is not one."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        header = json.loads(arrays.pop("header").tobytes())
        if header["format"] != FORMAT:
            raise ValueError(f"its header says {header['format']!r}")
    except FileNotFoundError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, OSError,
            zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path}: expected a file written by CMNClassifier.save, "
                         f"got something else or a damaged file ({error})") from None
    if header["schema"] > SCHEMA_VERSION:
        raise ValueError(f"{path}: schema {header['schema']} is newer than this "
                         f"version reads ({SCHEMA_VERSION}): update cmn_literate")
    return header, arrays


def load_model(cls, path):
    """Estimator from a file that save_model wrote."""
    header, arrays = read_model(path)
    try:
        options = dict(header["options"])
        options["priors"] = Priors(**options["priors"])
        est = cls(**options)
        labels = arrays["classes"]
        est.classes_ = labels.astype(object) if header.get("object_labels") else labels
        est.mean_, est.scale_ = arrays["mean"], arrays["scale"]
        est.n_features_in_ = len(est.mean_)
        if header["features"]:
            est.feature_names_in_ = np.array(header["features"], dtype=object)
        est.fits_ = [Fit(Parameters(*(arrays[f"{i}.{name}"] for name in Parameters._fields)),
                         arrays[f"{i}.elbo"], n, done, len(labels), est.priors,
                         est.omega1 == "shared")
                     for i, (n, done) in enumerate(zip(header["n_sweeps"], header["converged"]))]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: a model file with missing or damaged parts ({error})") from None
    est.elbo_ = max(float(result.elbo[-1]) for result in est.fits_)
    est.n_sweeps_ = max(header["n_sweeps"])
    est.converged_ = all(header["converged"])
    return est


# book/practice/classifier.ipynb, cell classifier-12
class CMNClassifier(ClassifierMixin, BaseEstimator):
    """Conditional mixture network, learned by coordinate ascent.

    n_experts K; latent_dim h (None: classes - 1); priors; n_init starts;
    max_sweeps, tol (bound gain per row and sweep), inner, init, omega1,
    accelerate: see cavi.fit; standardize: centre and scale every column by the
    training rows; select: "average" the predictions of all starts, keep the
    best "elbo", or the best log score on a "holdout" share of the rows;
    classes: the label set, if y need not hold all of it; random_state; verbose.

    Fitted: classes_, n_features_in_, feature_names_in_, fits_ (one result per
    kept start), elbo_, n_sweeps_, converged_, mean_, scale_.
    """

    def __init__(self, n_experts=10, latent_dim=None, priors=Priors(), n_init=1,
                 max_sweeps=500, tol=1e-6, inner=1, init="class-code",
                 standardize=True, random_state=None, verbose=0, method="cavi",
                 select="average", holdout=0.2, omega1="per-component",
                 accelerate=False, classes=None):
        self.n_experts = n_experts
        self.latent_dim = latent_dim
        self.priors = priors
        self.n_init = n_init
        self.max_sweeps = max_sweeps
        self.tol = tol
        self.inner = inner
        self.init = init
        self.standardize = standardize
        self.random_state = random_state
        self.verbose = verbose
        self.method = method
        self.select = select
        self.holdout = holdout
        self.omega1 = omega1
        self.accelerate = accelerate
        self.classes = classes

    def fit(self, X, y):
        """Learn from X (N, d) and labels y (N,).   -> self"""
        check_options(self)
        check_numeric_columns(X)
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, codes = encode_labels(y, self.classes)
        self.mean_, self.scale_ = column_scale(X, self.standardize)
        self.fits_ = fit_starts(self, (X - self.mean_) / self.scale_, codes)
        self.elbo_ = max(float(result.elbo[-1]) for result in self.fits_)
        self.n_sweeps_ = max(result.n_sweeps for result in self.fits_)
        self.converged_ = all(bool(result.converged) for result in self.fits_)
        if not self.converged_:
            warnings.warn(
                f"the bound still gains more than tol={self.tol} per row after "
                f"{self.n_sweeps_} sweeps; raise max_sweeps or tol, or use "
                "accelerate=True", ConvergenceWarning, stacklevel=2)
        return self

    def predict_log_proba(self, X):
        """Log class probabilities (n, L) in nats; all starts averaged."""
        Z = self._inputs(X)
        rule = METHODS[self.method].predict_log_proba
        logs = np.stack([rule(result, Z) for result in self.fits_])
        return logsumexp(logs, axis=0) - np.log(len(logs))

    def predict_proba(self, X):
        """Class probabilities (n, L), columns in the order of classes_."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X):
        """Most probable label of every row.   -> (n,)"""
        best = self.predict_log_proba(X).argmax(axis=1)
        return self.classes_[best]

    def gate(self, X, start=0):
        """Probability (n, K) that each expert of one kept start is in charge."""
        Z = self._inputs(X)
        return gate_probs(self.fits_[start].parameters, Z)

    def uncertainty(self, X):
        """Entropy of the prediction, within and between experts.   -> Uncertainty"""
        return split_entropy(self, self._inputs(X))

    @property
    def experts_(self):
        """Expert maps of the first kept start in the units of X."""
        check_is_fitted(self)
        return summarize_experts(self.fits_[0], self.mean_, self.scale_)

    def _inputs(self, X):
        check_is_fitted(self)
        check_numeric_columns(X)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return (X - self.mean_) / self.scale_

    def save(self, path):
        """Write the fitted model to one file (.npz with a JSON header)."""
        check_is_fitted(self)
        save_model(self, path)

    @classmethod
    def load(cls, path):
        """Read a model that save wrote."""
        return load_model(cls, path)
