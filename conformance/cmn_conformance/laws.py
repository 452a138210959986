"""Level G: inputs generated from a seed, judged by laws that hold of every right answer, and by reference.py.  The laws are in laws_tables.py (levels
0 and 1) and laws_states.py (states)."""

import math
import time
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from cmn_conformance.catalogue import Case, default_profile, implied, operations
from cmn_conformance.convert import KEYS, Conversion, target
from cmn_conformance.generated import Problem, tables
from cmn_conformance.judged import NotAsked, WrongShape, settle, settle_all
from cmn_conformance.process import Trouble
from cmn_conformance.report import summarise
from cmn_conformance.values import Malformed, decode, encode
from cmn_conformance.verdicts import expected, why_not_asked

PROBLEMS = 5
LAWS = []
CHOICES = ("omega1", "inner", "order")                   # algorithms under which the laws hold as well


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


def asked(names):
    """The inputs or outputs that there are under the default choices: no Wishart noise, no prior means."""
    plain = default_profile()
    return {name: entry for name, entry in names.items() if all(plain[key] in (value if isinstance(value, list) else [value]) for key, value in entry.get("when", {}).items())}


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
    known = sizes(asked(operations()[op]["in"]), given)
    for name, entry in asked(operations()[op]["out"]).items():
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
        self.adapter, self.ops, self.capabilities = adapter, capabilities["ops"], capabilities
        self.profile = {key: self.choice(key, default_profile()[key]) for key in CHOICES}
        self.shared = self.profile["omega1"] == "shared"
        self.tables = tables(seed)
        self.problems = [Problem(seed, number, self.shared) for number in range(n_problems)]
        self.small = [p for p in self.problems if p.sizes["N"] <= 60]
        self.seed, self.remembered = seed, {}

    def choice(self, key, default):
        values = self.capabilities["profile"].get(key, default)
        values = values if isinstance(values, list) else [values]
        return default if default in values else values[0]

    def rng(self, number):
        return np.random.default_rng([self.seed, 2000 + number])

    def ask(self, op, given, remember=None):
        """{output: array}; NotAsked, or Trouble."""
        if op not in self.ops:
            raise NotAsked("", f"the adapter has no {op}")
        key = (op, remember)
        if remember is not None and key in self.remembered:
            return self.remembered[key]
        entry, profile = operations()[op], implied(op)
        profile.update({key: value for key, value in self.profile.items() if key in profile})
        sent = {name: encode(np.asarray(given[name], int if kind["kind"] == "int" else float)) for name, kind in asked(entry["in"]).items()}
        case = Case(f"LG-{op}", op, entry["level"], entry["eq"], "", profile, sent, asked(entry["out"]), {}, (), True, "", "", {})
        why = why_not_asked(case, self.capabilities, "f64")
        if why:
            raise NotAsked(why[1], why[2])
        out = self.answer(case)
        check_shapes(op, given, out, self.shared)
        if remember is not None:
            self.remembered[key] = out
        return out

    def answer(self, case):
        """{output: array} of a case, in its own terms."""
        wanted = target(case, self.capabilities["profile"])
        conversion = Conversion(case, wanted)
        choices = {**{key: values[0] for key, values in KEYS.items()}, **default_profile(), **case.profile, **wanted}
        reply = self.adapter.ask({"id": case.id, "op": case.op, "profile": choices, "dtype": "f64", "in": conversion.given,
                                  "outputs": list(case.out)})
        if "skipped" in reply:
            raise NotAsked("adapter", reply["skipped"][:500])
        if "errored" in reply:
            raise Trouble("errored", reply["errored"][:2000])
        absent = [name for name in case.out if name not in reply["out"]]
        if absent:
            raise WrongShape(f"no output {', '.join(absent)}")
        out, problems, _ = conversion.back(reply["out"])
        try:
            if problems:
                raise WrongShape("; ".join(problems.values()))
            return {name: decode(out[name]).astype(float) for name in case.out}
        except Malformed as malformed:
            raise WrongShape(f"malformed: {malformed}") from None

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
    """Put generated questions to an adapter.   -> results, one per law, its capabilities, and the signal that ended the run, or """""
    from cmn_conformance.runner import check_dtype, greeting
    try:
        capabilities = adapter.start(greeting("f64"))
        check_dtype(capabilities, "f64")
        bench = Bench(adapter, capabilities, seed, n_problems)

        def put(entry):
            missing = [op for op in entry.needs if op not in bench.ops]
            if missing:
                raise NotAsked("", f"the adapter has no {', '.join(missing)}")
            return entry.function(bench)
        chosen = [entry for entry in all_laws() if (not ops or entry.op in ops) and (not only or any(text in entry.name for text in only))]
        results, stopped = settle_all([partial(settle, entry.name, entry.op, "G", operations()[entry.op]["eq"], entry.note, "failed",
                                               partial(put, entry), clock) for entry in chosen])
    finally:
        adapter.stop()
    return results, capabilities, stopped


def extend(report, adapter, seed, n_problems=PROBLEMS, ops=None, only=None):
    """Add the results of generated inputs to the report of a run."""
    from cmn_conformance.catalogue import flags
    if report["dtype"] != "f64" or report["interrupted"]:
        report["problems"].append("generated inputs are asked in f64 only, and after the cases")
        return report
    results, capabilities, stopped = run(adapter, seed, n_problems, ops, only)
    report["problems"].append(f"interrupted by {stopped}: the report is partial" if stopped else
                              f"generated inputs of seed {seed}, {n_problems} states")
    report["results"] += results
    for name, more in (("questions", adapter.asked), ("answers", adapter.answered), ("restarts", adapter.restarts)):
        report[name] += more
    report.update(interrupted=stopped, seconds=round(report["seconds"] + sum(r["seconds"] for r in results), 3))
    report.update(summarise(report["results"], flags(), expected(capabilities, "f64")))
    return report
