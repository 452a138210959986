"""Fit and predict with an estimator of somebody's, as JSON lines: what level B asks.  No mathematics here.

    python -m cmn_conformance.estimator package.module:Class '{"n_experts": 3}'

An estimator is a class, a factory or an object with fit(X, y) and predict_proba(X). What else it has is used: classes_; elbo_, bound_, elbo or
bound (attribute or method: the last bound, of all rows together); trace_, elbo_trace_ or bound_trace_ (the bound after each step); among its
parameters random_state or seed, classes (the label set, if y need not hold all of it), and a number of iterations (max_sweeps, max_iter, ...).
cmn_promises, a tuple of names, says what it promises (blackbox.PROMISES).
"""

import copy
import inspect
import json
import os
import random
import sys
import traceback
import warnings

import numpy as np

from cmn_conformance.serve import PROTOCOL, load, serve_host
from cmn_conformance.values import decode, encode

BOUNDS = ("elbo_", "bound_", "elbo", "bound")
TRACES = ("trace_", "elbo_trace_", "bound_trace_")
SEEDS = ("random_state", "seed")
ITERATIONS = ("max_sweeps", "n_sweeps", "max_iter", "n_iter", "max_iterations", "n_iterations")


def parameters(make):
    """Names that a class, factory or object takes as parameters."""
    if hasattr(make, "get_params") and not inspect.isclass(make):
        return set(make.get_params())
    try:
        return {name for name, p in inspect.signature(make).parameters.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    except (TypeError, ValueError):
        return set()


def attribute(fitted, names, *data):
    """The first of the attributes that is there; methods are called, with the data if they want any."""
    for name in names:
        value = getattr(fitted, name, None)
        if callable(value):
            needed = [p for p in inspect.signature(value).parameters.values() if p.default is p.empty and p.kind == p.POSITIONAL_OR_KEYWORD]
            value = value(*data[:len(needed)])
        if value is not None:
            return value
    return None


class EstimatorHost:
    """Answers for one estimator."""

    def __init__(self, make, params=None):
        self.make, self.params = make, dict(params or {})

    def new(self, **params):
        """A fresh estimator with these parameters."""
        params = {**self.params, **params}
        if not callable(self.make):
            made = copy.deepcopy(self.make)
            return made.set_params(**params) if params else made
        known = parameters(self.make)
        made = self.make(**{k: v for k, v in params.items() if k in known or "__" not in k})
        nested = {k: v for k, v in params.items() if k not in known and "__" in k}
        return made.set_params(**nested) if nested else made

    def option(self, made, names):
        """The first of the names that is a parameter and was not set by the asker."""
        known = parameters(self.make) | (set(made.get_params()) if hasattr(made, "get_params") else set())
        return next((name for name in names if name in known and name not in self.params), None)

    def start(self):
        made = self.new()
        absent = [name for name in ("fit", "predict_proba") if not callable(getattr(made, name, None))]
        if absent:
            raise TypeError(f"expected an estimator with fit and predict_proba, got {type(made).__name__} without {', '.join(absent)}")
        can = {"seed": self.option(made, SEEDS), "classes": self.option(made, ("classes",)), "iterations": self.option(made, ITERATIONS)}
        promises = getattr(made, "cmn_promises", ())
        return {"protocol": PROTOCOL, "name": type(made).__name__, "version": "", "language": f"Python {sys.version.split()[0]}", "dtypes": ["f64"],
                "ops": ["fit"],
                "profile": {**{k: v for k, v in can.items() if v}, "promises": [promises] if isinstance(promises, str) else list(promises)}}

    def fit(self, ask):
        """Fit, then predict for each query.   ask: X, y, queries, and optionally classes, iterations, before (X and y of an earlier fit)"""
        made = self.new()
        values = {"seed": (SEEDS, ask.get("seed", 0)), "classes": (("classes",), ask.get("classes")),
                  "iterations": (ITERATIONS, ask.get("iterations"))}
        options = {self.option(made, names): value for names, value in values.values() if value is not None}
        options.pop(None, None)
        made = self.new(**options) if options else made
        if ask.get("before"):
            made.fit(decode(ask["before"]["X"]).astype(float), np.array(ask["before"]["y"]))
        random.seed(ask.get("seed", 0))
        np.random.seed(ask.get("seed", 0))               # noqa: NPY002  for estimators that draw from the one generator of all
        X, y = decode(ask["X"]).astype(float), np.array(ask["y"])
        kept = X.copy(), y.copy()
        made.fit(X, y)
        queries = [decode(query).astype(float) for query in ask["queries"]]
        proba = [np.asarray(made.predict_proba(query)) for query in queries]
        again = np.asarray(made.predict_proba(queries[0]))
        bound, trace = attribute(made, BOUNDS, X, y), attribute(made, TRACES, X, y)
        classes = getattr(made, "classes_", None)
        return {"proba": [encode(p) for p in proba], "again": encode(again), "eps": float(np.finfo(proba[0].dtype).eps),
                "classes": None if classes is None else np.asarray(classes).tolist(), "bound": None if bound is None else encode(float(bound)),
                "trace": None if trace is None else encode(np.asarray(trace, float).ravel()),
                "kept": bool(np.array_equal(kept[0], X, equal_nan=True) and np.array_equal(kept[1], y))}

    def answer(self, message):
        if message["cmd"] == "start":
            return {"seq": message["seq"], **self.start()}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return {"seq": message["seq"], "out": self.fit(message["in"])}
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            return {"seq": message["seq"], "errored": f"{type(error).__name__}: {error} ({os.path.basename(last.filename)}, line {last.lineno})"}


def serve(spec, params):
    """Answer for an estimator until "stop" or the end of the input."""
    serve_host(lambda: EstimatorHost(load(spec), params))


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    serve(sys.argv[1], json.loads(sys.argv[2]) if len(sys.argv) == 3 else {})
