"""Fit and predict with an estimator of somebody's, as JSON lines: what level B asks.  No mathematics here.

    python -m cmn_conformance.estimator package.module:Class '{"n_experts": 3}' [classifier | regressor]

An estimator is a class, a factory or an object with fit(X, y) and predict_proba(X), or with a forecast of numbers (forecasts.py). What else it
has is used: classes_; elbo_, bound_, elbo or bound (attribute or method: the last bound, of all rows together); trace_, elbo_trace_ or
bound_trace_ (the bound after each step); among its parameters random_state or seed, classes (the label set, if y need not hold all of it), and a number of iterations (max_sweeps, max_iter, ...).
cmn_promises, a tuple of names, says what it promises (blackbox.PROMISES).
"""

import copy
import inspect
import json
import os
import pickle
import random
import sys
import traceback
import warnings

import numpy as np

from cmn_conformance.forecasts import reader_of
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


def digits(array):
    """One rounding in this array's dtype."""
    return float(np.finfo(array.dtype if array.dtype.kind == "f" else float).eps)


def unchanged(old, new):
    """Whether two arrays hold the same, NaN or not."""
    return bool(np.array_equal(old, new, equal_nan=old.dtype.kind == "f"))


class EstimatorHost:
    """Answers for one estimator."""

    def __init__(self, make, params=None, kind=None):
        self.make, self.params, self.kind = make, dict(params or {}), kind

    def new(self, **params):
        """A fresh estimator with these parameters."""
        params = {**self.params, **params}
        if not callable(self.make):
            made = copy.deepcopy(self.make)
            return made.set_params(**params) if params else made
        known = parameters(self.make)
        later = {k: v for k, v in params.items() if k not in known}
        if not later or not hasattr(made := self.make(**{k: v for k, v in params.items() if k in known}), "set_params"):
            return self.make(**params)
        return made.set_params(**later)

    def option(self, made, names):
        """The first of the names that is a parameter and was not set by the asker."""
        known = parameters(self.make) | (set(made.get_params()) if hasattr(made, "get_params") else set())
        return next((name for name in names if name in known and name not in self.params), None)

    def start(self):
        made = self.new()
        reader = reader_of(made, self.kind)
        can = {"seed": self.option(made, SEEDS), "classes": self.option(made, ("classes",)), "iterations": self.option(made, ITERATIONS)}
        promises = getattr(made, "cmn_promises", ())
        return {"protocol": PROTOCOL, "name": type(made).__name__, "version": "", "language": f"Python {sys.version.split()[0]}", "dtypes": ["f64"],
                "ops": ["fit"],
                "profile": {"kind": reader.kind, "gives": reader.gives(made), **{k: v for k, v in can.items() if v}, "promises": [promises] if isinstance(promises, str) else list(promises)}}

    def made_for(self, ask):
        """An estimator with the options of a question."""
        values = {"seed": (SEEDS, ask.get("seed", 0)), "classes": (("classes",), ask.get("classes")),
                  "iterations": (ITERATIONS, ask.get("iterations"))}
        made = self.new()
        options = {self.option(made, names): value for names, value in values.values() if value is not None}
        options.pop(None, None)
        return self.new(**options) if options else made

    def fit(self, ask):
        """Fit, then say of each query what it can.

        ask: X, y, queries, and optionally classes, iterations, before (X and y of an earlier fit), float32, pickled; of a regressor also levels,
        at and truth (forecasts.py)
        """
        made = self.made_for(ask)
        reader, dtype = reader_of(made, self.kind), np.float32 if ask.get("float32") else float
        if ask.get("before"):
            made.fit(decode(ask["before"]["X"]).astype(float), reader.target(ask["before"]["y"]))
        random.seed(ask.get("seed", 0))
        np.random.seed(ask.get("seed", 0))               # noqa: NPY002  for estimators that draw from the one generator of all
        X, y = decode(ask["X"]).astype(dtype), reader.target(ask["y"])
        y = y.astype(dtype) if y.dtype == float else y
        queries = [decode(query).astype(dtype) for query in ask["queries"]]
        kept = [array.copy() for array in (X, y, *queries)]
        made.fit(X, y)
        if ask.get("pickled"):
            made = pickle.loads(pickle.dumps(made))
        parts = [reader.table(made, query, ask) for query in queries]
        again = reader.table(made, queries[0], ask)
        bound, trace = attribute(made, BOUNDS, X, y), attribute(made, TRACES, X, y)
        classes = getattr(made, "classes_", None)
        coded = lambda table: {name: encode(part) for name, part in table.items()}
        return {"parts": [coded(table) for table in parts], "again": coded(again), "eps": max(map(digits, parts[0].values())),
                "classes": None if classes is None else np.asarray(classes).tolist(), "bound": None if bound is None else encode(float(bound)),
                "trace": None if trace is None else encode(np.asarray(trace, float).ravel()),
                "kept": all(unchanged(old, new) for old, new in zip(kept, (X, y, *queries)))}

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


def serve(spec, params, kind=None):
    """Answer for an estimator until "stop" or the end of the input."""
    serve_host(lambda: EstimatorHost(load(spec), params, kind))


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3, 4):
        sys.exit(__doc__)
    serve(sys.argv[1], json.loads(sys.argv[2]) if len(sys.argv) > 2 else {}, *sys.argv[3:])
