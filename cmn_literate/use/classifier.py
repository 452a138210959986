# Tangled from book/use/classifier.ipynb by tools/tangle.py; edit the notebook, not this file.
"""A classifier you can use

Everything so far fits behind `fit` and `predict_proba`. The coat is thin: it scales the columns,
names the labels, starts the ascent and averages. And because nothing was plugged in, it can also
say *why* it is unsure: the world is noisy here, or it has not seen enough.
"""

__all__ = ["column_scale", "encode_labels", "average_log_proba", "holdout_rows", "Method",
           "METHODS", "LATER", "find_method", "method_options", "as_generator", "fit_starts",
           "Uncertainty", "entropy", "divergence", "mutual_information", "split_entropy",
           "ExpertSummary", "summarize_experts", "FORMAT", "SCHEMA_VERSION", "save_model",
           "load_model", "CMNClassifier", "PAPER_RUNS", "evaluate"]


# book/use/classifier.ipynb, cell classifier-02
import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import asdict
from importlib import import_module
from operator import attrgetter
from os import PathLike, fspath
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from cmn_literate.engineering.fit import Fit
from cmn_literate.engineering.fit import fit
from cmn_literate.use.datasets import (SPLITS, load, read_arrays, stratified_split,
                                   write_arrays)
from cmn_literate.network.latents import Parameters
from cmn_literate.use.metrics import (accuracy, expected_calibration_error,
                                  log_predictive_density)
from cmn_literate.network.predict import (class_log_probs_by_expert, gate_log_probs,
                                  gate_probs, point_posterior,
                                  predict_log_proba, sample_parameters)
from cmn_literate.network.simulate import Priors
from cmn_literate.checks import check_count, plain_array


# book/use/classifier.ipynb, cell classifier-05
def column_scale(X, standardize=True):
    """Mean and standard deviation of every column.  [eq-clf-scale]

    X (N, d) -> m (d,), s (d,); s is 1 where a column is constant up to rounding.
    standardize=False: zeros and ones, which leave X as it is.
    """
    d = X.shape[1]
    if not standardize:
        return np.zeros(d), np.ones(d)
    mean = X.mean(axis=0)
    with np.errstate(over="ignore"):
        scale = (X - mean).std(axis=0)
    flat = scale <= 1e-12 * np.maximum(1e-280, np.abs(mean))
    return mean, np.where(flat, 1.0, scale)


# book/use/classifier.ipynb, cell classifier-09
def encode_labels(y, classes=None):
    """Labels as whole numbers from 0.  [eq-clf-code]

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


# book/use/classifier.ipynb, cell classifier-12
def average_log_proba(logs):
    """Log of the mean of forecasts.  [eq-clf-average]

    logs (R, n, L) -> (n, L) nats
    """
    logs = np.asarray(logs)
    return logsumexp(logs, axis=0) - np.log(len(logs))


# book/use/classifier.ipynb, cell classifier-15
def holdout_rows(codes, n_test, rng):
    """Row numbers to fit and to score, classes in proportion.  [eq-clf-rank]

    codes (N,), 1 <= n_test < N -> (N - n_test,), (n_test,), both sorted
    """
    order = rng.permutation(len(codes))
    rank = np.empty(len(codes))
    for c in np.unique(codes):
        mine = order[codes[order] == c]
        rank[mine] = (np.arange(len(mine)) + 0.5) / len(mine)
    order = np.argsort(rank, kind="stable")
    return np.sort(order[:-n_test]), np.sort(order[-n_test:])


# book/use/classifier.ipynb, cell classifier-18
class Method(NamedTuple):
    """One way of learning the network.

    fit                (Z, y, n_classes, estimator, rng, callback) -> result, with
                       .elbo or .trace (objective per step), .n_sweeps,
                       .converged; where it has .parameters (Parameters of q),
                       gate, experts_ and uncertainty work too
    predict_log_proba  (result, Z) -> (n, L) nats
    pack, unpack       result -> dict of arrays; (dict, estimator) -> result
    options            names and defaults of the method's own options
    steps              estimator -> how many steps a full run has
    objective, step    what the trace holds, and what one step is called
    advice             what to do when a run has not converged
    """
    fit: Callable
    predict_log_proba: Callable
    pack: Callable
    unpack: Callable
    options: dict = MappingProxyType({})
    steps: Callable = attrgetter("max_sweeps")
    objective: str = "ELBO"
    step: str = "sweep"
    advice: str = "raise max_sweeps or tol, or use accelerate=True"


def _fit_cavi(Z, y, n_classes, e, rng, callback):
    return fit(Z, y, n_experts=e.n_experts, latent_dim=e.latent_dim,
               n_classes=n_classes, priors=e.priors, rng=rng, init=e.init,
               max_sweeps=e.max_sweeps, tol=e.tol, inner=e.inner,
               omega1=e.omega1, accelerate=e.accelerate, callback=callback)


# book/use/classifier.ipynb, cell classifier-19
def _predict_cavi(result, Z):
    return predict_log_proba(result.parameters, Z)


def _pack_cavi(result):
    return {**result.parameters._asdict(), "elbo": result.elbo,
            "converged": np.array(bool(result.converged))}


def _unpack_cavi(arrays, e):
    parameters = Parameters(*(arrays[name] for name in Parameters._fields))
    elbo = arrays["elbo"]
    return Fit(parameters=parameters, elbo=elbo, n_sweeps=len(elbo),
               converged=bool(arrays["converged"]), n_classes=len(e.classes_),
               priors=e.priors, shared=e.omega1 == "shared")


METHODS = {"cavi": Method(_fit_cavi, _predict_cavi, _pack_cavi, _unpack_cavi)}


# book/use/classifier.ipynb, cell classifier-20
LATER = ("mle", "map", "bbvi", "nuts", "gibbs")


def find_method(name):
    """The Method of that name; a later chapter brings those in LATER.  [eq-clf-kept]

    ValueError for any other name.
    """
    if name in tuple(METHODS):
        return METHODS[name]
    if name not in LATER:
        raise ValueError(f"method: expected one of {', '.join([*METHODS, *LATER])}, "
                         f"got {name!r}")
    return import_module("cmn_literate.roads.one_table").METHODS[name]


def method_options(est):
    """The method's own options, its defaults changed by est.method_options.

    [eq-clf-kept]  ValueError for options that the method does not have.
    """
    defaults, given = find_method(est.method).options, est.method_options or {}
    known = isinstance(given, dict) and set(given) <= set(defaults)
    if not known:
        expected = ", ".join(defaults) or "none"
        raise ValueError(f"method_options: expected a dict of options of "
                         f"{est.method!r} ({expected}), got {given!r}")
    if given.get("checkpoint") is not None and est.n_init > 1:
        raise ValueError("checkpoint: expected n_init=1, since a file holds one run; "
                         f"got n_init={est.n_init}")
    return {**defaults, **given}


def _objective_trace(result):
    """The objective of a result after every step, (n_steps,)."""
    return result.elbo if hasattr(result, "elbo") else result.trace


# book/use/classifier.ipynb, cell classifier-24
def as_generator(random_state):
    """numpy Generator from None, a whole number, a Generator or a RandomState.

    Its children drive the starts over which we average.  [eq-clf-average]
    ValueError for anything else.
    """
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(2**31)
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ValueError("random_state: expected None, a whole number >= 0 or a "
                         f"numpy Generator, got {random_state!r}") from None


# book/use/classifier.ipynb, cell classifier-25
def _progress(est, label):
    """Callback for one fit, and what closes it."""
    if not est.verbose:
        return None, lambda: None
    try:
        from tqdm import tqdm
    except ImportError as error:
        raise ImportError("verbose needs tqdm: pip install 'cmn_literate[fit]', "
                          "or set verbose=0") from error
    method = find_method(est.method)
    bar = tqdm(total=method.steps(est), desc=label, unit=method.step, leave=False,
               disable=None if est.verbose == 1 else False)

    def update(done, value):
        bar.set_postfix_str(f"{method.objective} {value:.2f}", refresh=False)
        bar.update(done - bar.n)

    return update, bar.close


# book/use/classifier.ipynb, cell classifier-26
def _run_start(est, Z, codes, i, rng):
    """One start of the estimator's method; KeyboardInterrupt if it got nowhere."""
    callback, close = _progress(est, f"start {i + 1} of {est.n_init}")
    try:
        n_classes = len(est.classes_)
        result = find_method(est.method).fit(Z, codes, n_classes, est, rng, callback)
    finally:
        close()
    if not len(_objective_trace(result)):
        raise KeyboardInterrupt
    return result


def _cut_short(est, result):
    full = find_method(est.method).steps(est)
    return not result.converged and result.n_sweeps < full


# book/use/classifier.ipynb, cell classifier-28
def fit_starts(est, Z, codes):
    """The fits that the estimator keeps.  [eq-clf-average, eq-clf-select]

    Z (N, d) scaled inputs, codes (N,) -> list of results: all starts, or one
    """
    rngs = as_generator(est.random_state).spawn(est.n_init)
    everything, fits = np.arange(len(Z)), []
    run = lambda rows, i, rng: _run_start(est, Z[rows], codes[rows], i, rng)
    if est.n_init > 1 and est.select == "holdout":
        return [_best_by_holdout(est, Z, codes, rngs, run)]
    for i, rng in enumerate(rngs):
        try:
            fits.append(run(everything, i, rng))
        except KeyboardInterrupt:
            if not fits:
                raise
            break
        if _cut_short(est, fits[-1]):
            break
    if est.select == "elbo":
        return [max(fits, key=lambda result: _objective_trace(result)[-1])]
    return fits


# book/use/classifier.ipynb, cell classifier-29
def _best_by_holdout(est, Z, codes, rngs, run):
    """The start with the best log score on held-out rows, fitted again on all;
    after Ctrl-C the best finished start, or else the first, as it is."""
    seeds = [int(rng.integers(2**63)) for rng in rngs]
    n_test = min(max(1, round(est.holdout * len(Z))), len(Z) - 1)
    rows, test = holdout_rows(codes, n_test, np.random.default_rng(seeds[0]))
    rule = find_method(est.method).predict_log_proba
    kept, best, top = None, 0, -np.inf
    try:
        for i, seed in enumerate(seeds):
            result = run(rows, i, seed)
            kept = result if i == 0 else kept
            if _cut_short(est, result):
                return kept
            value = log_predictive_density(codes[test], rule(result, Z[test]), True)
            if value > top:
                best, top, kept = i, value, result
        again = run(np.arange(len(Z)), best, seeds[best])
        return kept if _cut_short(est, again) else again
    except KeyboardInterrupt:
        if kept is None:
            raise
        return kept


# book/use/classifier.ipynb, cell classifier-31
class Uncertainty(NamedTuple):
    """Entropy of a forecast, split in two ways; nats, each (n,).

    total = within + between        [eq-clf-between]    inside experts, and about
                                                        which one is in charge
    total = aleatoric + epistemic   [eq-clf-epistemic]  noise that stays, and doubt
                                                        that more data would remove
    """
    total: np.ndarray
    within: np.ndarray
    between: np.ndarray
    aleatoric: np.ndarray
    epistemic: np.ndarray


def entropy(log_p):
    """H[p] from log p (..., L), in nats.  [eq-clf-entropy]    -> (...)"""
    return -np.sum(np.exp(log_p) * np.where(np.isfinite(log_p), log_p, 0.0),
                   axis=-1)


def divergence(log_q, log_p):
    """KL[q || p] from logs (..., L), in nats.  [eq-clf-split]    -> (...)"""
    q = np.exp(log_q)
    gap = np.subtract(log_q, log_p, out=np.zeros_like(q), where=q > 0)
    return np.sum(q * gap, axis=-1)


# book/use/classifier.ipynb, cell classifier-35
def mutual_information(starts, Z, log_p, n_draws, rng):
    """E_q KL[p(y|x,Theta) || p(y|x)], by draws of Theta.

    [eq-clf-epistemic, eq-clf-draws]
    starts: list of Parameters, Z (n, d), log_p (n, L) their averaged forecast,
    n_draws >= 1 shared evenly by the starts (rounded up) -> (n,) nats
    """
    total, each = 0.0, -(-n_draws // len(starts))
    for parameters in starts:
        rule = "auto" if parameters.M.shape[1] <= 2 else "cubature"
        for theta in zip(*sample_parameters(parameters, rng, each)):
            log_q = predict_log_proba(point_posterior(theta), Z, method=rule)
            total = total + divergence(log_q, log_p)
    return total / (each * len(starts))


# book/use/classifier.ipynb, cell classifier-39
def split_entropy(starts, Z, n_draws=64, random_state=0):
    """Both splits of the doubt.  [eq-clf-between, eq-clf-epistemic]

    starts: list of Parameters, Z (n, d), n_draws of Theta in all, random_state as
    in as_generator -> Uncertainty.  n_draws=0: aleatoric, epistemic are NaN.
    """
    within, logs, rng = 0.0, [], as_generator(random_state)
    for parameters in starts:
        gate = gate_log_probs(parameters, Z)
        by_expert = class_log_probs_by_expert(parameters, Z, weight=np.exp(gate))
        inside = np.sum(np.exp(gate) * entropy(by_expert), axis=-1)
        within = within + inside / len(starts)
        logs.append(logsumexp(gate[:, :, None] + by_expert, axis=1))
    log_p = average_log_proba(logs)
    total = entropy(log_p)
    if check_count(n_draws, "n_draws", 0):
        epistemic = mutual_information(starts, Z, log_p, n_draws, rng)
        epistemic = np.minimum(epistemic, total)
    else:
        epistemic = np.full(len(Z), np.nan)
    return Uncertainty(total, within, total - within, total - epistemic, epistemic)


# book/use/classifier.ipynb, cell classifier-42
class ExpertSummary(NamedTuple):
    """What the K experts of a fit say, in the units of X.

    weight        (K,) share of the training rows                  [eq-clf-weight]
    slope, offset (K, h, d), (K, h): E[x_1] is slope @ x + offset  [eq-clf-units]
    noise         (K, h) sqrt(E[1/tau]); NaN where a <= 1          [eq-clf-noise]
    logit_slope, logit_offset   (K, L-1, d), (K, L-1): the mean logit of each
                  stick, independent of the latent axes            [eq-clf-logit]
    """
    weight: np.ndarray
    slope: np.ndarray
    offset: np.ndarray
    noise: np.ndarray
    logit_slope: np.ndarray
    logit_offset: np.ndarray


# book/use/classifier.ipynb, cell classifier-43
def summarize_experts(parameters, a0, mean, scale):
    """Experts in the units of X.   -> ExpertSummary

    [eq-clf-units, eq-clf-noise, eq-clf-weight, eq-clf-logit]
    a0: shape of the noise prior; mean, scale (d,): from column_scale
    """
    p, rows = parameters, parameters.a - a0
    slope = p.M[:, :, :-1] / scale
    offset = p.M[:, :, -1] - slope @ mean
    noise = np.sqrt(p.b / np.where(p.a > 1, p.a - 1, np.nan)[:, None])
    out, bias = p.beta1_mu[:, :-1], p.beta1_mu[:, -1]
    weight = rows / max(rows.sum(), 1e-300)
    return ExpertSummary(weight, slope, offset, noise,
                         np.einsum("li,kid->kld", out, slope),
                         offset @ out.T + bias)


# book/use/classifier.ipynb, cell classifier-47
FORMAT, SCHEMA_VERSION = "cmn_literate.CMNClassifier", 1


def _header(est):
    """What is not an array: options, names of columns, kind of labels."""
    options = {k: v for k, v in est.get_params().items() if k != "classes"}
    options["priors"] = asdict(est.priors)
    if est.method_options:
        options["method_options"] = {
            name: fspath(value) if isinstance(value, PathLike) else value
            for name, value in est.method_options.items()}
    if not isinstance(est.random_state, (int, np.integer)):
        options["random_state"] = None
    features = getattr(est, "feature_names_in_", None)
    return {"format": FORMAT, "schema": SCHEMA_VERSION, "options": options,
            "method": est.method_,
            "features": None if features is None else [str(f) for f in features],
            "fixed_classes": est.classes is not None, "starts": len(est.fits_),
            "object_labels": est.classes_.dtype.kind == "O"}


# book/use/classifier.ipynb, cell classifier-48
def save_model(est, path):
    """Write a fitted estimator to one file, atomically.  [eq-clf-kept]

    ValueError for labels that are neither numbers nor strings.
    """
    labels = est.classes_
    if labels.dtype.kind == "O":
        if not all(isinstance(label, str) for label in labels):
            raise ValueError("classes_: expected numbers or strings to save, "
                             f"got {labels.tolist()}")
        labels = labels.astype(str)
    arrays = {"classes": labels, "mean": est.mean_, "scale": est.scale_}
    for i, result in enumerate(est.fits_):
        packed = find_method(est.method_).pack(result)
        arrays.update({f"{i}.{name}": value for name, value in packed.items()})
    write_arrays(path, arrays, **_header(est))


# book/use/classifier.ipynb, cell classifier-49
def _read_model(path):
    """Header and arrays of a saved model; ValueError when it is not one."""
    arrays = read_arrays(path)
    header = arrays.pop("header")
    if header.get("format") != FORMAT or type(header.get("schema")) is not int:
        raise ValueError(f"{path}: expected a file written by CMNClassifier.save, "
                         f"of format {FORMAT}, got {header.get('format')!r}")
    if header["schema"] > SCHEMA_VERSION:
        raise ValueError(f"{path}: schema {header['schema']} is newer than what this "
                         f"version reads ({SCHEMA_VERSION}): update cmn_literate")
    return header, arrays


# book/use/classifier.ipynb, cell classifier-50
def load_model(cls, path):
    """Estimator of class cls from a file that save_model wrote.  [eq-clf-kept]

    FileNotFoundError; ValueError: a foreign, damaged or newer file.
    """
    header, arrays = _read_model(path)
    try:
        return _restore(cls, header, arrays)
    except Exception as error:
        raise ValueError(f"{path}: a model file with missing or damaged parts "
                         f"({type(error).__name__}: {error})") from None


# book/use/classifier.ipynb, cell classifier-51
def _restore(cls, header, arrays):
    options = dict(header["options"])
    options["priors"] = Priors(**options["priors"])
    est = cls(**options)
    labels = arrays["classes"]
    est.classes_ = labels.astype(object) if header["object_labels"] else labels
    est.classes = est.classes_.tolist() if header["fixed_classes"] else None
    est.mean_, est.scale_ = arrays["mean"], arrays["scale"]
    est.n_features_in_ = len(est.mean_)
    if header["features"] is not None:
        est.feature_names_in_ = np.array(header["features"], dtype=object)
    packed = [{name.partition(".")[2]: value for name, value in arrays.items()
               if name.startswith(f"{i}.")} for i in range(header["starts"])]
    est.method_ = header.get("method", est.method)
    unpack = find_method(est.method_).unpack
    est.fits_ = [unpack(each, est) for each in packed]
    est._summarize()
    return est


# book/use/classifier.ipynb, cell classifier-53
def _check_options(est):
    """ValueError naming the first argument of the estimator that is off."""
    for name in ("n_experts", "n_init", "max_sweeps", "inner"):
        check_count(getattr(est, name), name)
    if est.latent_dim is not None:
        check_count(est.latent_dim, "latent_dim")
    if not isinstance(est.priors, Priors):
        raise ValueError(f"priors: expected a Priors, got {est.priors!r}")
    method_options(est)
    choices = {"omega1": ("per-component", "shared"),
               "select": ("average", "elbo", "holdout"),
               "init": ("class-code", "random", "prior")}
    for name, allowed in choices.items():
        if getattr(est, name) not in allowed:
            raise ValueError(f"{name}: expected one of {', '.join(allowed)}, "
                             f"got {getattr(est, name)!r}")
    for name, low, high in [("tol", 0, np.inf), ("holdout", 0, 1)]:
        value = getattr(est, name)
        number = isinstance(value, (int, float, np.number))
        if not number or isinstance(value, bool) or not low < value < high:
            raise ValueError(f"{name}: expected a number between {low} and "
                             f"{high}, got {value!r}")


# book/use/classifier.ipynb, cell classifier-54
def _check_columns(X):
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


def _check_data(est, X, **others):
    """X (and y) as scikit-learn checks them, after _check_columns."""
    _check_columns(X)
    try:
        return validate_data(est, X, dtype=np.float64, order="C", **others)
    except OverflowError as error:
        raise ValueError("X: expected numbers that a float64 can hold, got a "
                         f"larger one ({error})") from None


# book/use/classifier.ipynb, cell classifier-55
class CMNClassifier(ClassifierMixin, BaseEstimator):
    """Conditional mixture network: a probability for every class.

    n_experts     K
    latent_dim    h; None means number of classes - 1
    priors        a Priors; they refer to standardised columns
    n_init        starts; select says what becomes of them: "average" their
                  predictions, keep the best "elbo", or the best log score on a
                  "holdout" share of the rows (holdout=0.2), fitted again on all
    max_sweeps, tol   stop when the bound gains less than tol per row in a sweep
    inner, init, omega1, accelerate   see cavi.fit.  init="class-code" aims the
                  latents at a code of the classes: cavi.class_code, any latent_dim
    standardize   measure every column in its standard deviations [eq-clf-scale]
    random_state  None, whole number, numpy Generator or RandomState
    verbose       1: a progress bar on a terminal; 2: always (needs tqdm)
    method        "cavi", "mle", "map", "bbvi", "nuts" or "gibbs"; the last five
                  use n_experts, latent_dim, priors, n_init, random_state, verbose
    method_options   dict of the method's own options: find_method(name).options
    classes       the label set, if the y given to fit need not hold all of it

    Fitted: classes_ (sorted), n_features_in_, feature_names_in_ (DataFrames),
    fits_ (the kept results), objective_ (largest last value), elbo_ (the same,
    where the objective is a bound), trace_ (objective of the first kept fit),
    n_sweeps_ (steps, most), converged_ (all), mean_ and scale_ (of the columns),
    method_ (which made fits_ and predicts from them).
    """

    def __init__(self, n_experts=10, latent_dim=None,
                 priors=Priors(),  # noqa: B008  Priors are frozen
                 n_init=1, max_sweeps=500, tol=1e-6, inner=1,
                 init="class-code", standardize=True, random_state=None, verbose=0,
                 method="cavi", select="average", holdout=0.2,
                 omega1="per-component", accelerate=False, classes=None,
                 method_options=None):
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
        self.method_options = method_options

    def fit(self, X, y):
        """Learn from X (N, d) and labels y (N,).   -> self

        ConvergenceWarning when the bound was still rising.  Ctrl-C keeps what was
        reached.  ValueError names the argument that is off.  On any error the
        model stays as it was.
        """
        new = copy(self)
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(new, name)
        new._learn(X, y)
        self.__dict__ = vars(new)
        if not self.converged_:
            method = find_method(self.method)
            warnings.warn(
                f"{self.method} has not converged after {self.n_sweeps_} "
                f"{method.step}s ({method.objective} {self.objective_:.4f}): "
                f"{method.advice}", ConvergenceWarning, stacklevel=2)
        return self

    def _learn(self, X, y):
        _check_options(self)
        plain_array(y, "y", labels=True)
        X, y = _check_data(self, X, y=y, ensure_min_samples=2)
        self.classes_, codes = encode_labels(y, self.classes)
        check_classification_targets(y)
        self.mean_, self.scale_ = column_scale(X, self.standardize)
        if not np.isfinite(self.scale_).all():
            raise ValueError("X: expected values whose squares are finite")
        self.method_ = self.method
        self.fits_ = fit_starts(self, (X - self.mean_) / self.scale_, codes)
        self._summarize()

    def _summarize(self):
        last = [float(_objective_trace(result)[-1]) for result in self.fits_]
        self.trace_ = _objective_trace(self.fits_[0])
        self.objective_ = max(last)
        if find_method(self.method_).objective == "ELBO":
            self.elbo_ = self.objective_
        self.n_sweeps_ = max(int(result.n_sweeps) for result in self.fits_)
        self.converged_ = all(bool(result.converged) for result in self.fits_)

    def predict_log_proba(self, X):
        """Log class probabilities (n, L) in nats; the kept starts averaged."""
        Z = self._inputs(X)
        rule = find_method(self.method_).predict_log_proba
        return average_log_proba([rule(result, Z) for result in self.fits_])

    def predict_proba(self, X):
        """Class probabilities (n, L), columns in the order of classes_."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X):
        """Most probable label of every row.   -> (n,)"""
        best = self.predict_log_proba(X).argmax(axis=1)
        return self.classes_[best]

    def gate(self, X, start=0):
        """Probability (n, K) that each expert of a kept start is in charge."""
        starts = self._parameters()
        if check_count(start, "start", 0) >= len(starts):
            raise ValueError(f"start: expected 0 to {len(starts) - 1}, "
                             f"got {start!r}")
        return gate_probs(starts[start], self._inputs(X))

    def uncertainty(self, X, n_draws=64, random_state=0):
        """Why the forecast is unsure, for every row.   -> Uncertainty

        n_draws: draws of the parameters for the second split; 0 skips it.
        """
        starts = self._parameters()
        return split_entropy(starts, self._inputs(X), n_draws, random_state)

    @property
    def experts_(self):
        """Experts of the first kept start in the units of X.   -> ExpertSummary"""
        first = self._parameters()[0]
        return summarize_experts(first, self.priors.a0, self.mean_, self.scale_)

    def _parameters(self):
        check_is_fitted(self)
        if not hasattr(self.fits_[0], "parameters"):
            raise AttributeError(f"method {self.method_!r} keeps no factors of q; "
                                 'gate, experts_ and uncertainty need "cavi", "bbvi"')
        return [result.parameters for result in self.fits_]

    def _inputs(self, X):
        check_is_fitted(self)
        X = _check_data(self, X, reset=False)
        return (X - self.mean_) / self.scale_

    def save(self, path):
        """Write the fitted model to one file (.npz and JSON, no pickle)."""
        check_is_fitted(self)
        save_model(self, path)

    @classmethod
    def load(cls, path):
        """Read a model that save wrote; it predicts the same bits."""
        return load_model(cls, path)


# book/use/classifier.ipynb, cell classifier-60
# training rows, test rows, experts
PAPER_RUNS = {name: (n_train, n_test, 20)
              for name, (_, n_train, n_test) in SPLITS.items()
              } | {"pinwheels": (400, 500, 10)}


# book/use/classifier.ipynb, cell classifier-61
def evaluate(name, seed=0, data_home=None, **options):
    """One run at the paper's setting.  [eq-accuracy, eq-lpd, eq-ece]

    name: a key of PAPER_RUNS; seed of split and start; options of CMNClassifier
    -> (dict of plain numbers, fitted model, train rows, test rows); "elbo" is None
    where the objective of the method is no bound
    """
    data = load(name, data_home)
    n_train, n_test, n_experts = PAPER_RUNS[name]
    train, test = stratified_split(data.y, n_train, n_test,
                                   np.random.default_rng(seed))
    model = CMNClassifier(**{"n_experts": n_experts, "random_state": seed,
                             **options})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)     # reported below
        model.fit(data.X[train], data.y[train])
    log_p = model.predict_log_proba(data.X[test])
    y, p = data.y[test], np.exp(log_p)
    report = {"data": name, "seed": seed, "n_train": n_train, "n_test": n_test,
              "accuracy": accuracy(y, p),
              "lpd": log_predictive_density(y, log_p, log=True),
              "ece": expected_calibration_error(y, p),
              "elbo": getattr(model, "elbo_", None),
              "sweeps": model.n_sweeps_, "converged": model.converged_}
    return report, model, train, test
