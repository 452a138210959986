"""Level B: what must hold of any fit(X, y) with predict_proba(X), or with a forecast of y, whatever is inside.

The checks are in blackbox_checks.py, what is asked of regressors alone in regressor_checks.py.
"""

import ast
import json
import sys
import time
from functools import partial
from types import SimpleNamespace

import numpy as np

from cmn_conformance.blackbox_data import noisy_line, three_classes
from cmn_conformance.catalogue import suite_info
from cmn_conformance.estimator import EstimatorHost
from cmn_conformance.judged import NotAsked, settle, settle_all
from cmn_conformance.process import LocalAdapter, NotStarted, ProcessAdapter, Trouble
from cmn_conformance.report import summarise
from cmn_conformance.runner import REPORT_VERSION, BadRequest
from cmn_conformance.serve import load
from cmn_conformance.values import decode, encode

PROMISES = {
    "row_order": "the order of the training rows does not matter",
    "units": "rescaling and shifting a column, in training and query alike, does not matter",
    "column_order": "the order of the columns, in training and query alike, does not matter",
    "y_units": "rescaling and shifting y rescales and shifts the forecast, and nothing else",
    "label_names": "the names of the classes do not matter, as long as their order is kept",
    "class_order": "exchanging classes exchanges the columns of probabilities, and nothing else",
    "prior": "the prior probability of the classes is known: sticks (2^-(c+1)), uniform, or numbers, as in prior=0.5,0.3,0.2",
    "calibration": "it fits a conditional mixture network, with the priors of eq-priors: it is asked data drawn from them",
}
ONLY = {"y_units": "regressor", "label_names": "classifier", "class_order": "classifier", "prior": "classifier"}   # the others: of both kinds
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)                   # of the quantiles that a regressor is asked
TOO_SENSITIVE = 0.02                                     # a fit that moves more than this when its inputs move by 1e-10 cannot be compared
NUDGE = 1e-10


def parse_params(pairs):
    """["a=1", "b=x"] -> {"a": 1, "b": "x"}; values are JSON or Python literals, otherwise words."""
    out = {}
    for pair in pairs or []:
        name, sign, text = pair.partition("=")
        if not sign or not name.strip():
            raise BadRequest(f"--param: expected name=value, got {pair!r}")
        for read in (json.loads, ast.literal_eval, str):
            try:
                out[name.strip()] = read(text)
                break
            except (ValueError, SyntaxError):
                continue
    return out


def parse_promises(texts):
    """["units", "prior=uniform"] -> {"units": "", "prior": "uniform"}."""
    out = {}
    for text in texts or []:
        name, _, value = str(text).partition("=")
        if name not in PROMISES:
            raise BadRequest(f"--promise: expected one of {', '.join(PROMISES)}, got {text!r}")
        out[name] = value
    if "prior" in out:
        prior_probabilities(out["prior"], 3)
    return out


def prior_probabilities(words, n_classes):
    """P(class) before any data, as the promise has it."""
    if words in ("", "sticks"):
        return np.append(0.5 ** np.arange(1, n_classes), 0.5 ** (n_classes - 1))
    if words == "uniform":
        return np.full(n_classes, 1 / n_classes)
    try:
        out = np.array([float(part) for part in words.split(",")])
    except ValueError:
        out = np.array([])
    if len(out) < 2 or not (out > 0).all() or abs(out.sum() - 1) > 1e-6:
        raise BadRequest(f"--promise prior: expected sticks, uniform or positive numbers that sum to one, got {words!r}")
    return out


def promises_of(kind):
    """Names of what an estimator of this kind can promise."""
    return [name for name in PROMISES if ONLY.get(name, kind) == kind]


class Lab:
    """Asks one estimator for fits and remembers the answers."""
    kind = "classifier"
    data = three_classes

    def __init__(self, adapter, can, seed, promises):
        self.adapter, self.can, self.seed, self.promises, self.known = adapter, can, seed, promises, {}

    def rng(self, number):
        return np.random.default_rng([self.seed, number])

    def told(self, y):
        """What the estimator's host is told of the targets."""
        return {"y": [item if isinstance(item, str) else int(item) for item in y]}

    def raw(self, X, y, *queries, **more):
        """The answer as it came; Trouble."""
        given = {"X": encode(X), "queries": [encode(q) for q in queries], "seed": 0, **self.told(y), **more}
        key = json.dumps(given, sort_keys=True)
        if key not in self.known:
            try:
                self.known[key] = self.adapter.ask({"id": "LB", "op": "fit", "in": given, "outputs": []})
            except Trouble as trouble:
                self.known[key] = trouble
        reply = self.known[key]
        if isinstance(reply, Trouble):
            raise reply
        if "out" not in reply:
            raise Trouble("errored", reply.get("errored", reply.get("skipped")))
        out = reply["out"]
        number = lambda value: None if value is None else decode(value).astype(float)
        table = lambda part: {name: number(value) for name, value in part.items()}
        parts = [table(part) for part in out["parts"]]
        return SimpleNamespace(parts=parts, proba=[part.get("proba") for part in parts], again=table(out["again"]), eps=out["eps"],
                               kept=out["kept"], classes=out["classes"], bound=number(out["bound"]), trace=number(out["trace"]))

    def shapes(self, n, y, more):
        """{part: shape} of an answer about n rows."""
        return {"proba": (n, len(more.get("classes") or set(y)))}

    def sizes(self, y):
        """{part: what is a change of it that nobody overlooks}."""
        return {"proba": 1.0}

    def ask(self, X, y, *queries, **more):
        """A fit whose answers have the right shape; NotAsked if they have not (which LB-shape is about)."""
        answer = self.raw(X, y, *queries, **more)
        for query, part in zip([*queries, queries[0]], [*answer.parts, answer.again]):
            for name, shape in self.shapes(len(query), y, more).items():
                if part[name].shape != shape:
                    words = "probabilities" if name == "proba" else name
                    raise NotAsked("shape", f"not judged: {words} of shape {part[name].shape} where {shape} is expected, see LB-shape")
        return answer

    def refusal(self, X, y, *queries):
        """The words of an error, or None where the estimator goes on."""
        try:
            self.raw(X, y, *queries)
        except Trouble as trouble:
            if trouble.kind != "errored":
                raise
            return str(trouble)
        return None

    def bounded(self, X, y, *queries, **more):
        """A fit with a bound."""
        answer = self.ask(X, y, *queries, **more)
        if answer.bound is None:
            raise NotAsked("bound", "no bound: no elbo_, bound_, elbo or bound")
        return answer

    def digits(self, answer, y):
        """{part: half the digits of its dtype}."""
        return {name: np.sqrt(answer.eps) * size for name, size in self.sizes(y).items()}

    def moved(self, X, y, number):
        """The training data after a nudge."""
        return X + NUDGE * X.std(0) * self.rng(100 + number).normal(size=X.shape), y

    def tolerance(self, X, y, query, answer, **more):
        """({part: ...}, of the bound): 16 times the largest change when the data move by 1e-10 of their spread, plus half the digits."""
        sizes, falls = self.sizes(y), [0.0]
        moves = dict.fromkeys(sizes, 0.0)
        for number in range(2):
            moved = self.ask(*self.moved(X, y, number), query, **more)
            moves = {name: max(moves[name], float(np.max(np.abs(moved.parts[0][name] - answer.parts[0][name])))) for name in moves}
            falls.append(0.0 if answer.bound is None or moved.bound is None else abs(float(moved.bound - answer.bound)))
        worst = max(moves, key=lambda name: moves[name] / sizes[name])
        if moves[worst] > TOO_SENSITIVE * sizes[worst]:
            words = "probabilities move" if worst == "proba" else f"{worst} moves"
            raise NotAsked("sensitive", f"not judged: {words} by {moves[worst]:.2g} when the inputs move by {NUDGE:g}")
        half = self.digits(answer, y)
        return ({name: 16 * moves[name] + half[name] for name in moves},
                16 * max(falls) + np.sqrt(answer.eps) * (1 + (0.0 if answer.bound is None else abs(float(answer.bound)))))


class RegressorLab(Lab):
    """The same for a forecast of numbers: every query is asked quantiles, and densities at the mean of y and a standard deviation to either side."""
    kind = "regressor"
    data = noisy_line

    def told(self, y):
        y = np.asarray(y, dtype=float)
        at = y.mean() + y.std() * np.array([-1.0, 0.0, 1.0]) if len(y) and np.isfinite(y).all() else np.zeros(3)
        return {"y": encode(y), "levels": list(LEVELS), "at": encode(at)}

    def shapes(self, n, y, more):
        values = more["at"]["shape"][0] if "at" in more else 3
        wide = {"quantiles": (n, len(more.get("levels", LEVELS))), **dict.fromkeys(("density", "log_density", "cdf"), (n, values))}
        return {name: wide.get(name, (n,)) for name in self.can["gives"]}

    def sizes(self, y):
        spread = float(np.std(y)) or 1.0
        of = {"density": 1 / spread, "log_density": 1.0, "cdf": 1.0}
        return {name: of.get(name, spread) for name in self.can["gives"]}

    def moved(self, X, y, number):
        X, same = super().moved(X, y, number)
        return X, same + NUDGE * np.std(same) * self.rng(200 + number).normal(size=len(same))


LABS = {lab.kind: lab for lab in (Lab, RegressorLab)}


def checks_of(kind):
    """The checks that an estimator of this kind is asked."""
    from cmn_conformance import blackbox_checks, regressor_checks
    return [check for check in (*blackbox_checks.CHECKS, *regressor_checks.CHECKS) if kind in check.kinds]


def open_estimator(estimator, params=None, in_process=False, kind=None, **limits):
    """What asks an estimator: named as "module:Class" or "file.py:Class", in a process of its own; or a class, factory or object, in this one.

    kind classifier or regressor; None: found out from what the estimator has
    """
    if isinstance(estimator, str) and not in_process:
        command = [sys.executable, "-m", "cmn_conformance.estimator", estimator, json.dumps(params or {}), *filter(None, [kind])]
        return ProcessAdapter(command, **limits)
    try:
        host = EstimatorHost(load(estimator) if isinstance(estimator, str) else estimator, params, kind)
        host.start()
    except (Exception, SystemExit) as error:
        raise NotStarted(f"cannot load {estimator}: {type(error).__name__}: {error}") from None
    local = LocalAdapter(None)
    local.host = host
    return local


def run(adapter, seed=0, promises=None, only=None, progress=None, clock=time.perf_counter):
    """Ask an estimator (of open_estimator) every check of level B.   -> the report, a dict as schema/report.schema.json describes it"""
    started, began = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()), clock()
    capabilities = adapter.start({"dtype": "f64", "ops": ["fit"]})
    try:
        kind = capabilities["profile"].get("kind", "classifier")
        own = parse_promises(capabilities["profile"].get("promises", []))
        promised = {**{name: value for name, value in own.items() if name in promises_of(kind)}, **(promises or {})}
        capabilities["profile"] = {**capabilities["profile"], "promises": sorted(f"{k}={v}" if v else k for k, v in promised.items())}
        foreign = [name for name in promised if name not in promises_of(kind)]
        if foreign:
            raise BadRequest(f"--promise: expected one of {', '.join(promises_of(kind))} of a {kind}, got {foreign[0]!r}")
        lab = LABS[kind](adapter, capabilities["profile"], seed, promised)

        def put(check):
            missing = [p for p in check.promises if p not in promised]
            if missing:
                raise NotAsked("promise", f"not promised: {missing[0]} ({PROMISES[missing[0]]})")
            return check.function(lab)
        chosen = [check for check in checks_of(kind) if not only or any(text in check.name for text in only)]
        results, stopped = settle_all([partial(settle, check.name, check.op, "B", check.eq, check.note, check.grade, partial(put, check), clock)
                                       for check in chosen], progress)
    finally:
        adapter.stop()
    if not chosen:
        raise BadRequest(f"no check of level B is as asked; there are {', '.join(check.name for check in checks_of(kind))}")
    absent = [name for name in promises_of(kind) if name not in promised]
    problems = [f"not promised, and so not asked: {', '.join(absent)}"] if absent else []
    if stopped:
        problems.append(f"interrupted by {stopped}: the report is partial")
    return {"report_version": REPORT_VERSION, "suite": suite_info(), "adapter": capabilities, "algorithm": {}, "dtype": "f64", "started": started,
            "seconds": round(clock() - began, 3), "questions": adapter.asked, "answers": adapter.answered, "restarts": adapter.restarts,
            "interrupted": stopped, "inaccurate": "fail", "problems": problems, **summarise(results, {}, []), "results": results}
