"""Level G: inputs generated from a seed, judged by laws that hold of every right answer, and by reference.py.  The laws are in laws_tables.py (levels
0 and 1) and laws_states.py (states)."""

import math
import time
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from cmn_conformance.catalogue import default_profile, operations
from cmn_conformance.generated import STATE, Problem, tables
from cmn_conformance.judged import NotAsked, WrongShape, settle
from cmn_conformance.process import Trouble
from cmn_conformance.report import summarise
from cmn_conformance.values import Malformed, decode, encode

PROBLEMS = 5
LAWS = []
WITH_GAMMA = ("gamma_mean_log", "gamma_kl", "mng_kl", "predict")


class Law(NamedTuple):
    name: str
    op: str
    needs: tuple
    note: str
    function: object


def law(name, op, note, *needs):
    """Register function(bench) -> comparisons as a law of an operation; needs are other operations that it asks."""
    def register(function):
        LAWS.append(Law(f"LG-{op}-{name}", op, (op, *needs), note, function))
        return function
    return register


def sizes(names, given):
    """{symbol: size} of an operation's inputs: "K-1" of 3 entries means K = 4."""
    out = {"T": int(given.get("n_sweeps", 0))}
    for name, entry in names.items():
        for symbol, length in zip(entry["shape"], np.shape(given[name])):
            base, _, change = symbol.replace("-", "+-").partition("+")
            out[base] = length - int(change or 0)
    return out


def check_shapes(op, given, out, shared):
    """WrongShape where an output has not the shape of ops.json."""
    known = sizes(operations()[op]["in"], given)
    for name, entry in operations()[op]["out"].items():
        symbols = [s for s in entry["shape"] if not (shared and name == "xi1" and s == "K")]
        parts = [s.replace("-", "+-").partition("+") for s in symbols]
        want = tuple(known[base] + int(change or 0) for base, _, change in parts)
        if not out[name].size and math.prod(want) == 0:
            out[name] = out[name].reshape(want)          # a list of lists with nothing in it does not tell its shape
        if out[name].shape != want:
            raise WrongShape(f"{name} has shape {out[name].shape}, expected {want}")


class Bench:
    """Asks one adapter generated questions."""

    def __init__(self, adapter, capabilities, seed, n_problems):
        self.adapter, self.ops = adapter, capabilities["ops"]
        self.declared = {key: value if isinstance(value, list) else [value] for key, value in capabilities["profile"].items()}
        self.profile = {key: self.choice(key, value) for key, value in default_profile().items()}
        self.shared = self.profile.get("omega1") == "shared"
        self.tables = tables(seed)
        self.problems = [Problem(seed, number, self.shared) for number in range(n_problems)]
        self.small = [p for p in self.problems if p.sizes["N"] <= 60]
        self.seed, self.remembered = seed, {}

    def choice(self, key, default):
        values = self.declared.get(key, [default])
        return default if default in values else values[0]

    def rng(self, number):
        return np.random.default_rng([self.seed, 2000 + number])

    def foreign(self, op):
        """A choice that generated inputs do not know, in words, or None.  omega1, inner and order are known."""
        for key, value in default_profile().items():
            reads = key not in ("gamma", "sticks") or (key == "gamma" and (op in WITH_GAMMA or operations()[op]["level"] >= 2)) or key == "sticks"
            if key not in ("omega1", "inner", "order") and reads and self.profile[key] != value:
                return f"{key} = {self.profile[key]}"
        return None

    def ask(self, op, given, remember=None):
        """{output: array}; NotAsked, or Trouble."""
        if op not in self.ops:
            raise NotAsked("", f"the adapter has no {op}")
        if self.foreign(op):
            raise NotAsked("profile", f"generated inputs are not asked under {self.foreign(op)}")
        key = (op, remember)
        if remember is not None and key in self.remembered:
            return self.remembered[key]
        kinds = operations()[op]["in"]
        sent = {name: encode(np.asarray(given[name], int if kinds[name]["kind"] == "int" else float)) for name in kinds}
        reply = self.adapter.ask({"id": f"LG-{op}", "op": op, "profile": self.profile, "dtype": "f64", "in": sent, "outputs": list(operations()[op]["out"])})
        if "skipped" in reply:
            raise NotAsked("adapter", reply["skipped"][:500])
        if "errored" in reply:
            raise Trouble("errored", reply["errored"][:2000])
        absent = [name for name in operations()[op]["out"] if name not in reply["out"]]
        if absent:
            raise Trouble("errored", f"no output {', '.join(absent)}")
        try:
            out = {name: decode(reply["out"][name]).astype(float) for name in operations()[op]["out"]}
        except Malformed as malformed:
            raise Trouble("garbage", f"malformed: {malformed}") from None
        check_shapes(op, given, out, self.shared)
        if remember is not None:
            self.remembered[key] = out
        return out

    def one(self, op, **given):
        """The only output of an operation."""
        return next(iter(self.ask(op, given).values()))

    def state(self, op, problem):
        """The answer about a problem as it is, remembered."""
        return self.ask(op, problem.given, problem.tag)


@lru_cache(maxsize=1)
def all_laws():
    from cmn_conformance import laws_states, laws_tables  # noqa: F401  they register themselves
    order = list(operations())
    return sorted(LAWS, key=lambda entry: order.index(entry.op))


def run(adapter, seed, n_problems=PROBLEMS, ops=None, only=None, clock=time.perf_counter):
    """Put generated questions to an adapter.   -> results, one per law"""
    from cmn_conformance.runner import greeting
    capabilities, results = adapter.start(greeting("f64")), []
    try:
        if "f64" not in capabilities["dtypes"]:
            return []
        bench = Bench(adapter, capabilities, seed, max(n_problems, 1))
        for entry in all_laws():
            if (ops and entry.op not in ops) or (only and not any(text in entry.name for text in only)):
                continue

            def put(entry=entry):
                missing = [op for op in entry.needs if op not in bench.ops]
                if missing:
                    raise NotAsked("", f"the adapter has no {', '.join(missing)}")
                return entry.function(bench)
            results.append(settle(entry.name, entry.op, "G", operations()[entry.op]["eq"], entry.note, "failed", put, clock))
    finally:
        adapter.stop()
    return results


def extend(report, adapter, seed, n_problems=PROBLEMS, ops=None, only=None):
    """Add the results of generated inputs to the report of a run."""
    from cmn_conformance.catalogue import flags
    if report["dtype"] != "f64":
        report["problems"].append("generated inputs are asked in f64 only")
        return report
    results = run(adapter, seed, n_problems, ops, only)
    report["problems"].append(f"generated inputs of seed {seed}, {n_problems} states")
    report["results"] += results
    report["questions"] += adapter.asked
    report["answers"] += adapter.answered
    report["restarts"] += adapter.restarts
    report["seconds"] = round(report["seconds"] + sum(r["seconds"] for r in results), 3)
    return report.update(summarise(report["results"], flags())) or report
