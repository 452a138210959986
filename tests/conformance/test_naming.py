"""Bugs are named: by the value of a wrong answer, by what it looks like, or not at all."""

from collections import Counter

import conformance_mutants
import numpy as np
import pytest
from cmn_conformance import catalogue, naming, values
from conformance_mutants import OUTCOMES, SETS

CASES = {case.id: case for case in catalogue.cases()}
BUGS, STORED = naming.wrong_answers()


def spoilt(case, key):
    """The right answer with the stored entries of a wrong one in their places."""
    out, stored = {}, STORED[case.id]
    for name, value in case.out.items():
        array = np.array(values.decode(value), float)
        if name in stored["wrong"][key]:
            flat = array.ravel()
            flat[stored.get("at", {}).get(name, list(range(flat.size)))] = [float(v) for v in stored["wrong"][key][name]]
            array = flat.reshape(array.shape)
        out[name] = values.encode(array)
    return out


def fails(case, answer, dtype="f64"):
    return not all(values.compare(name, answer[name], expected, *case.tolerance[dtype][name])["ok"] for name, expected in case.out.items())


# ---- the stored wrong answers

@pytest.mark.parametrize("each", [150, pytest.param(5, marks=pytest.mark.slow)])
def test_every_wrong_answer_fails_its_case_and_is_recognised(each):
    assert len(STORED) > 150
    for case_id, stored in STORED.items():
        case = CASES[case_id]
        for nth, key in enumerate(stored["wrong"]):
            answer = spoilt(case, key)
            assert fails(case, answer), (case_id, key)
            if nth % each == 0:
                assert dict(naming.name(case, answer)).get(key) == 1.0, (case_id, key)


def test_right_answer_is_no_bug():
    for case_id, case in CASES.items():
        assert naming.name(case, case.out) == [], case_id


def test_wrong_answers_belong_to_flags_and_are_small():
    flags, folder = catalogue.flags(), catalogue.here().joinpath("wrong")
    for op, table in BUGS.items():
        assert {bug["flag"] for bug in table.values()} <= set(flags), op
        assert len({bug["bug"] for bug in table.values()}) == len(table), op
    sizes = {item.name: len(item.read_text()) for item in folder.iterdir()}
    extra = {suite: sum(n for name, n in sizes.items() if name.startswith(suite)) for suite in ("shared_", "lean_", "deep_", "out_", "scales_")}
    assert sum(sizes.values()) - sum(extra.values()) < 1_500_000 and all(size < 320_000 for size in extra.values())     # an optional suite has room of its own


def test_one_dimension_is_never_read_column_by_column():
    for case_id, stored in STORED.items():
        case = CASES[case_id]
        if all(values.decode(v).ndim < 2 for v in (*case.given.values(), *case.out.values())):
            assert not any(BUGS[case.op][key]["flag"] == "ColumnMajor" for key in stored["wrong"]), case_id


# ---- one answer

def found(case_id, change, dtype="f64"):
    """The flags of one case's answer after a change of its outputs."""
    case = CASES[case_id]
    out = {name: np.array(values.decode(value), float) for name, value in case.out.items()}
    answer = {name: values.encode(value) for name, value in change(out).items()}
    assert fails(case, answer, dtype)
    return naming.hints({"op": case.op, "named": naming.name(case, answer, dtype)})


def test_size_of_the_error_matters():
    assert found("L0-pg_mean-moderate", lambda out: {"mean": out["mean"] * (1 + 3e-13)}) == []
    assert found("L0-pg_mean-moderate", lambda out: {"mean": 2 * out["mean"]}) == ["HalfAngle"]


def test_missing_digits_are_not_a_wrong_angle():
    flags = found("L0-pg_kl-branch_points", lambda out: {"kl": out["kl"] + np.array([0, 0, 1e-15, 0])})
    assert flags and "HalfAngle" not in flags and "SmallTilt" in flags


def test_not_a_number_is_named_by_where_it_stands():
    assert found("L0-pg_mean-zero_tilt", lambda out: {"mean": np.full(3, np.nan)}) == ["ZeroTilt"]
    assert found("L0-pg_mean-tilt_1500", lambda out: {"mean": np.where(np.arange(3) > 0, np.inf, out["mean"])}) == ["HugeTilt"]
    assert naming.hints({"op": "pg_mean", "named": naming.name(CASES["L0-pg_mean-zero_tilt"], None)}) == ["ZeroTilt"]


def test_malformed_answer_has_no_name():
    assert naming.name(CASES["L0-pg_mean-moderate"], {"mean": {"shape": [2], "data": [1.0]}}) == []


def test_unknown_bug_stays_unknown():
    case = CASES["L0-pg_mean-moderate"]
    result = {"id": case.id, "op": case.op, "level": 0, "eq": case.eq, "flags": list(case.flags), "verdict": "failed",
              "named": naming.name(case, {"mean": values.encode(np.array([1.0, 2, 3, 4, 5]))})}
    assert naming.likely([result], catalogue.flags()) == [{
        "op": "pg_mean", "flag": "", "failed": 1, "asked": 1, "bug": "unknown, first differing equation is eq-pg-mean", "basis": "unknown"}]


def test_name_says_how_it_is_known():
    case = CASES["L0-pg_mean-moderate"]
    answer = {"mean": values.encode(2 * values.decode(case.out["mean"]))}
    result = {"id": case.id, "op": case.op, "level": 0, "eq": case.eq, "flags": list(case.flags), "verdict": "failed", "named": naming.name(case, answer)}
    first = naming.likely([result], catalogue.flags())[0]
    assert (first["flag"], first["basis"]) == ("HalfAngle", "value")
    assert naming.words(first, catalogue.flags()).endswith("(matched by value in 1 of 1 failing cases)")


# ---- over the planted bugs

def shares(bugs, dtype="f64"):
    """Counter of outcomes."""
    return Counter(conformance_mutants.named(bug, dtype)[0] for bug in bugs)


def check(outcomes, missed):
    total = sum(outcomes.values())
    assert set(outcomes) <= set(OUTCOMES) and outcomes["not found"] <= missed, outcomes
    assert outcomes["right"] >= 0.85 * total and outcomes["wrong"] <= 0.05 * total, outcomes


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("title", ["tuned on", pytest.param("unseen", marks=pytest.mark.slow)])
def test_names_are_right_in_a_sample(title):
    bugs = [bug for bug in SETS[title] if bug.level < 6][::17]
    outcomes = shares(bugs)
    assert outcomes["right"] >= 0.8 * len(bugs) and outcomes["wrong"] <= 1 + 0.05 * len(bugs), outcomes


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("title, dtype", [("tuned on", "f64"), ("tuned on", "f32"), ("unseen", "f64")])
def test_names_are_right(title, dtype):
    check(shares(SETS[title], dtype), missed=int(dtype == "f32"))       # one is within what float32 may be off


@pytest.mark.filterwarnings("ignore")
def test_bugs_without_a_flag_are_not_given_one():
    assert shares(SETS["foreign"])["wrong"] <= 1
