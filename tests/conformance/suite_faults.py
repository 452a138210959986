"""What the tests of the optional suites share: the package's adapter, whether it answers a case, and the package with a fault planted."""

import inspect
import types
from functools import cache

import numpy as np
from cmn_conformance import catalogue, report, runner, serve, verdicts
from cmn_conformance.process import LocalAdapter
from cmn_conformance.values import decode
from mutants import Mutant, plant
from tangle import ROOT

ADAPTERS = ROOT / "conformance/adapters"
BY_ID = {c.id: c for c in catalogue.cases()}


@cache
def package():
    """The package's adapter, loaded once: faults are put into it and taken out again."""
    return serve.load("cmn_literate")


def suite(name):
    """The cases of an optional suite."""
    return [c for c in catalogue.cases() if catalogue.optional_suite(c.profile) == name]


def arrays(case, side="out"):
    """What goes into a case, side "given", or comes out of it."""
    return {name: decode(value) for name, value in getattr(case, side).items()}


def arguments(case):
    """What goes into a case, as an adapter is given it: whole numbers are ints."""
    kinds, out = catalogue.operations()[case.op]["in"], {}
    for name, value in arrays(case, "given").items():
        value = np.asarray(value, int if kinds[name]["kind"] == "int" else float)
        out[name] = value if value.ndim else value.item()
    return out


def right(adapter, case):
    """Whether the adapter answers a case within its tolerance."""
    function, given = adapter.ops()[case.op], arguments(case)
    if "profile" in inspect.signature(function).parameters:
        given["profile"] = {**catalogue.default_profile(), **case.profile}
    out = function(**given)
    if not isinstance(out, dict):
        out = dict(zip(case.out, out if isinstance(out, tuple) else (out,)))
    return all(np.allclose(out[name], want, rtol=case.tolerance["f64"][name][0], atol=case.tolerance["f64"][name][1], equal_nan=False)
               for name, want in arrays(case).items())


def safely(adapter, case):
    """The same; an error is no right answer."""
    try:
        return right(adapter, case)
    except (ValueError, IndexError, np.linalg.LinAlgError):
        return False


def assert_not_offered(name, cases, adapter="one_page", marks=("undeclared",)):
    """Who lacks a suite is asked nothing of it: nothing fails, nothing is counted, and the report says so in one line."""
    mine = {c.id for c in suite(name)}
    found = runner.run(LocalAdapter(serve.load(str(ADAPTERS / f"{adapter}.py"))), cases, flags=catalogue.flags())
    absent = [r for r in found["results"] if r["id"] in mine]
    assert len(absent) == sum(c.id in mine for c in cases) >= 30 and len(absent) < len(cases)
    assert {r["kind"] for r in absent} == {"algorithm"} and {r["verdict"] for r in absent} <= set(marks)
    assert {r["message"] for r in absent} == {f"not offered: the optional suite {name}"}
    assert f"not offered: the optional suite {name}, {len(absent)} cases" in report.text(found, catalogue.flags())
    assert runner.exit_code(found) == 0 and not {c.id for c in verdicts.expected(found["adapter"], "f64")} & mine


def planted(module, old, new):
    """The module with one text exchanged; new None: as it is, and the text must not be there."""
    source, times = plant(Mutant("", "", old, new or ""), inspect.getsource(module))
    assert times == (new is not None), old
    out = types.ModuleType(module.__name__)
    exec(compile(source, module.__file__, "exec"), out.__dict__)
    return out
