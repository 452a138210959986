"""Fused code is asked truthfully, and bugs against conventions, sizes and series are found."""

from types import SimpleNamespace

import convention_mutants
import numpy as np
import pytest
from cmn_conformance import catalogue, runner, serve
from cmn_conformance.process import LocalAdapter

fused = serve.load(str(convention_mutants.SOURCES["fused"]))
OPS = {op: getattr(fused, op) for op in catalogue.operations() if hasattr(fused, op)}


def ask(profile, levels=None, ops=None, without=()):
    adapter = SimpleNamespace(NAME="fused", PROFILE=profile, OPS=OPS)
    with np.errstate(all="ignore"):
        cases = [c for c in catalogue.select(levels, ops) if c.op not in without]
        report = runner.run(LocalAdapter(adapter), cases, flags=catalogue.flags())
    return [r for r in report["results"] if r["verdict"] not in ("skipped", "undeclared")]


def verdicts(results):
    return {r["id"]: (r["verdict"], r["message"]) for r in results if r["verdict"] != "passed"}


def test_fused_code_passes_under_its_own_profile():
    results = ask(fused.PROFILE)
    assert verdicts(results) == {}
    asked = {op: sum(r["op"] == op for r in results) for op in OPS}
    assert asked["update_beta0"] >= 10 and asked["update_beta1"] >= 12 and asked["sweeps"] >= 6 and asked["stationarity"] == 2 and asked["converge"] == 3 and asked["predict"] == 18
    fresh = [r["id"] for r in results if "-fresh_" in r["id"]]
    assert sum("update_beta0" in i for i in fresh) == 10 and sum("update_beta1" in i for i in fresh) == 12


@pytest.mark.parametrize("without", [pytest.param(("converge",), id="short"), pytest.param((), id="whole", marks=pytest.mark.slow)])
def test_every_choice_has_an_answer_from_independent_code(without):
    """All twins, against NumPy written for this and not for the oracle; without the climbs to the end those of the sweeps stand for them.

    Those of an optional suite have code of their own, test_shared_suite.py.
    """
    results = ask(fused.EVERYTHING, {1, 2, 3, 4, 5}, without=without) + ask(fused.EVERYTHING, ops=["predict"])
    assert verdicts(results) == {}
    known = [c.id for c in [*catalogue.select({1, 2, 3, 4, 5}), *catalogue.select(None, ["predict"])]
             if c.profile.get("gamma") != "scale" and c.profile.get("sticks") != "K" and c.op not in without and not catalogue.optional_suite(c.profile)]
    assert set(known) <= {r["id"] for r in results}


def test_fused_code_that_declares_nothing_is_wrong():
    """Its updates answer another question than that at the given tilts; the answer says so, whoever does not declare it."""
    undeclared = {op: (lambda profile, op=op, **s: OPS[op](profile={**profile, "tilts": "fresh"}, **s)) for op in ("update_beta0", "update_beta1")}
    adapter = SimpleNamespace(NAME="undeclared", OPS=undeclared)
    report = runner.run(LocalAdapter(adapter), catalogue.select({2}), flags=catalogue.flags())
    asked = [r for r in report["results"] if r["verdict"] not in ("skipped", "undeclared")]
    wrong = [r for r in asked if r["verdict"] == "failed"]
    assert len(asked) >= 22 and len(wrong) >= len(asked) - 4


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mutant", convention_mutants.MUTANTS, ids=lambda m: m.id.replace(" ", "_").replace("/", ":"))
def test_planted_bug_is_found(mutant):
    failing, flagged = convention_mutants.examine(mutant)
    assert flagged, failing


def test_a_whole_number_of_rounds_can_be_declared():
    assert catalogue.foreign_choices({"inner": [1, 5, 100]}) == []
    assert catalogue.foreign_choices({"inner": [0, True, 2.5], "tilts": "stale"}) == ["inner = 0", "inner = True", "inner = 2.5", "tilts = 'stale'"]


def test_a_case_that_names_no_algorithm_is_of_the_default_one():
    case = next(c for c in catalogue.cases() if c.id == "L2-update_beta0-general")
    assert case.profile["tilts"] == "given" and case.profile["prior_mean"] == "zero" and "noise" not in case.profile
    assert runner.why_not_asked(case, {"ops": ["update_beta0"], "profile": {"tilts": "fresh"}}, "f64")[0] == "skipped"
