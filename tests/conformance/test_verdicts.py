"""What an answer is worth: no badge without answers, right code in other conventions is right, and small errors are called small."""

import json
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import conformance_conventions as conventions
import numpy as np
import pytest

from cmn_conformance import catalogue, convert, report, runner, serve, values, verdicts
from cmn_conformance.__main__ import main
from cmn_conformance.process import LocalAdapter

BASE = conventions.example()
LEVELS = {level: [c for c in catalogue.select({level})] for level in range(7)}


def ours(level, profile=(), dtype="f64"):
    """How many cases of a level such an adapter has to answer."""
    capabilities = {"ops": [], "profile": dict(profile)}
    return sum(c.level == level for c in verdicts.expected(capabilities, dtype))


def asked(adapter, cases=None, **options):
    with np.errstate(all="ignore"):
        return runner.run(LocalAdapter(adapter), catalogue.select() if cases is None else cases, flags=catalogue.flags(), **options)


# ---- no badge without answers

def zeros(op):
    """A function that answers zeros of the right shapes."""
    shapes = {name: entry["shape"] for name, entry in catalogue.operations()[op]["out"].items()}

    def function(**given):
        sizes = {}
        for name, entry in catalogue.operations()[op]["in"].items():
            sizes.update(zip(entry["shape"], np.shape(given[name])) if name != "xi1" else ())
        return {name: np.zeros([sizes.get(d, 1) for d in dims]) for name, dims in shapes.items()}
    return function


NULL = ["update_omega1", "update_omega0", "update_beta1", "update_beta0", "elbo", "elbo_output", "elbo_expert", "elbo_gate",
        "elbo_latent_entropy", "elbo_assignment_entropy", "kl_beta1"]


@pytest.mark.parametrize("profile", [{"gamma": "scale"}, {"sticks": "K"}, {"gaussian": "precision", "V": "precision"}, {"bias": "first"},
                                     {"classes": "reversed"}, {"gamma": "Scale"}, {"gamma": []}, {"gamma": {}}, {"order": "other"}, {"inner": 8}], ids=str)
def test_zeros_are_wrong_under_every_profile(profile):
    """A profile decides how a case is put, not whether: the adapter of zeros that once had L0-L3 has nothing."""
    operations = {**{op: getattr(BASE, op) for op in ("stick_log_probs", "pg_mean")}, **{op: zeros(op) for op in NULL}}
    out = asked(SimpleNamespace(NAME="zeros", PROFILE=profile, OPS=operations), catalogue.select({0, 2, 3}))
    verdicts_of = {r["verdict"] for r in out["results"] if r["op"] in NULL}
    assert runner.exit_code(out) == 1 and out["achieved"] == "none"
    assert "failed" in verdicts_of or "errored" in verdicts_of
    for op in ("update_beta1", "update_beta0", "elbo"):
        assert {r["verdict"] for r in out["results"] if r["op"] == op} & {"failed", "errored"}, op


@pytest.mark.parametrize("arguments", [["--op", "log_cosh_half"], ["--level", "0", "--case", "tilt"], ["--flag", "ZeroTilt"]], ids=" ".join)
def test_a_selection_is_no_level(arguments, tmp_path, capsys):
    badge = tmp_path / "b.svg"
    assert main(["run", "--adapter", str(conventions.SOURCE), "--in-process", *arguments, "--report", str(tmp_path / "r.json"), "--badge", str(badge)]) == 0
    out = json.loads((tmp_path / "r.json").read_text())
    here = out["levels"][0]
    right = here["suite"]["right"]
    assert 0 < right == here["suite"]["asked"] < here["suite"]["of"] == ours(0) and here["status"] == "partial"
    assert out["achieved"].startswith(f"L0: {right} of {ours(0)} asked, {right} right") and f"L0 {right}/{right}/{ours(0)}" in badge.read_text()
    assert f"{right} of {ours(0)} asked, {right} right" in capsys.readouterr().out


def test_an_operation_that_is_left_out_leaves_its_level_partial():
    operations = {op: getattr(BASE, op) for op, entry in catalogue.operations().items() if entry["level"] == 2 and op != "update_x" and hasattr(BASE, op)}
    out = asked(SimpleNamespace(OPS=operations), LEVELS[2])
    missing = sum(c.op == "update_x" for c in verdicts.expected({"ops": [], "profile": {}}, "f64"))
    right, of = ours(2) - missing, ours(2)
    assert missing and out["achieved"] == f"L2: {right} of {of} asked, {right} right" and runner.exit_code(out) == 0


def test_skips_of_the_adapter_are_not_right():
    def later(**given):
        raise NotImplementedError("later")
    operations = {op: getattr(BASE, op) for op, entry in catalogue.operations().items() if entry["level"] == 3 and hasattr(BASE, op)}
    out = asked(SimpleNamespace(OPS={**operations, "elbo": later}), LEVELS[3])
    assert out["levels"][0]["status"] == "partial" and out["levels"][0]["skipped"] and "L3:" in out["achieved"]
    everything = asked(SimpleNamespace(OPS=dict.fromkeys(operations, later)), LEVELS[3])
    assert everything["achieved"] == "none" and runner.exit_code(everything) == 2


def test_expected_failures_are_not_right():
    case = LEVELS[0][0]
    operations = {op: getattr(BASE, op) for op, entry in catalogue.operations().items() if entry["level"] == 0 and hasattr(BASE, op)}
    out = asked(SimpleNamespace(OPS={**operations, case.op: lambda **_: 0.0}), LEVELS[0], xfails={c.id: "known" for c in LEVELS[0] if c.op == case.op})
    assert runner.exit_code(out) == 0 and out["levels"][0]["suite"]["wrong"] and out["levels"][0]["status"] == "partial"


def test_an_algorithm_without_cases_removes_no_operation():
    """Seven rounds can be declared; nothing is stored for them, so the sweeps stay unasked and the level partial."""
    out = asked(SimpleNamespace(PROFILE={"inner": 7}, OPS={"sweeps": BASE.sweeps}), LEVELS[4])
    assert not out["problems"] and not out["questions"] and runner.exit_code(out) == 2
    assert out["levels"][0]["suite"] == {"asked": 0, "right": 0, "inaccurate": 0, "wrong": 0, "of": ours(4)}
    assert out["algorithm"] == {"inner": 7} and "inner=7" in report.badge(out)
    assert asked(SimpleNamespace(PROFILE={"inner": 0}, OPS={}), [])["problems"]


def test_the_other_algorithm_is_named_on_the_badge():
    out = asked(serve.load("cmn_literate"), LEVELS[0])
    assert out["algorithm"] == {} and "=" not in report.badge_words(out)[0]
    shared = asked(SimpleNamespace(PROFILE={"omega1": "shared"}, OPS={"pg_mean": BASE.pg_mean}), LEVELS[0])
    assert report.badge_words(shared)[0].endswith("omega1=shared")


# ---- other conventions, other routes

@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", conventions.CONVENTIONS)
def test_conventions_are_converted(name):
    """Right code behind another parametrisation is asked everything and passes everything."""
    out = asked(conventions.behind(name, BASE), catalogue.select({0, 1, 2, 3, 4}))
    assert [r["id"] for r in out["results"] if r["verdict"] not in ("passed", "skipped", "undeclared")] == []
    assert out["achieved"] == "L0\N{EN DASH}L4"
    lost = [r["id"] for r in out["results"] if r["kind"] == "conversion"]
    assert lost == (["L1-second_moment-no_spread", "L1-padded_second_moment-no_spread"] if name == "precisions" else [])     # no spread, no precision


@pytest.mark.parametrize("name", conventions.CONVENTIONS)
def test_predictions_are_converted(name):
    package, profile = serve.load("cmn_literate"), {"gamma": "rate", "sticks": "K-1"}
    base = SimpleNamespace(predict=lambda **given: package.predict(**given, profile=profile), log_likelihood=package.log_likelihood)
    cases = [c for c in LEVELS[6] if c.op in vars(base) and c.id.endswith(("four_classes", "scales", "one_expert", "log_likelihood-general", "binary"))]
    out = asked(conventions.behind(name, base), cases)
    assert {r["verdict"] for r in out["results"]} == {"passed"} and len(cases) >= 4


@pytest.mark.parametrize("name, op", [("scales", "update_experts"), ("precisions", "update_x"), ("factors", "update_beta1"), ("bias first", "update_beta0"),
                                      ("columns", "update_experts"), ("K sticks", "update_omega0"), ("classes in reverse", "stick_log_probs")])
def test_a_convention_that_is_not_declared_is_wrong(name, op):
    adapter = conventions.behind(name, BASE)
    adapter.PROFILE = {}
    out = asked(adapter, catalogue.select(None, [op]))
    assert {r["verdict"] for r in out["results"]} & {"failed", "errored"}


def test_a_stored_twin_is_asked_of_everybody():
    for key, op in (("gamma", "gamma_mean_log"), ("sticks", "stick_counts")):
        twins = [c for c in catalogue.select(None, [op]) if c.profile.get(key) == convert.KEYS[key][1]]
        out = asked(SimpleNamespace(OPS={op: getattr(BASE, op)}), twins)
        assert twins and {r["verdict"] for r in out["results"]} == {"passed"}


def test_what_ops_json_lists_as_converted_is_converted():
    for key, entry in catalogue.read("ops.json")["profile"].items():
        if key in convert.KEYS:
            assert tuple(entry["values"]) == convert.KEYS[key] and entry["default"] == convert.KEYS[key][0]
        else:
            assert not entry.get("converted")


def answer(op, case, profile, change):
    """The verdict on one case when the adapter's answer is changed."""
    name = {"precision": "precisions", "cholesky": "factors"}[profile["gaussian"]]
    adapter = conventions.behind(name, BASE)
    right = adapter.OPS[op]
    adapter.OPS = {op: lambda **given: change(right(**given))}
    return asked(adapter, [c for c in catalogue.select(None, [op]) if c.id == case])["results"][0]


def test_an_answer_that_is_no_such_matrix_is_named():
    case = "L2-update_beta0-general"
    wrong = answer("update_beta0", case, {"gaussian": "precision"}, lambda out: {**out, "beta0_S": -out["beta0_S"]})
    assert wrong["verdict"] == "failed" and "not positive definite" in [o["problem"] for o in wrong["outputs"]][1]
    wrong = answer("update_beta0", case, {"gaussian": "cholesky"}, lambda out: {**out, "beta0_S": np.swapaxes(out["beta0_S"], -1, -2)})
    assert wrong["verdict"] == "failed" and "lower triangular" in wrong["outputs"][1]["problem"]
    wrong = answer("update_beta0", case, {"gaussian": "precision"}, lambda out: {**out, "beta0_S": out["beta0_S"][..., :-1]})
    assert wrong["verdict"] == "failed" and "shape" in wrong["outputs"][1]["problem"]
    wrong = answer("update_beta0", case, {"gaussian": "precision"}, lambda out: {**out, "beta0_S": out["beta0_S"] * np.nan})
    assert wrong["verdict"] == "failed"
    wrong = answer("update_beta0", case, {"gaussian": "precision"}, lambda out: {**out, "beta0_S": out["beta0_S"] * (1 + 1e-6)})
    assert wrong["verdict"] == "failed"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("route", conventions.ROUTES)
def test_every_route_to_an_inverse_passes(route):
    out = asked(conventions.through(route), catalogue.select({0, 1, 2, 3, 4}))
    assert [r["id"] for r in out["results"] if r["verdict"] not in ("passed", "skipped", "undeclared")] == [] and out["achieved"] == "L0\N{EN DASH}L4"


# ---- three grades

@pytest.mark.parametrize("relative, verdict, code", [(0.0, "passed", 0), (3e-9, "inaccurate", 1), (3e-8, "failed", 1)])
def test_three_grades(relative, verdict, code):
    cases = [c for c in catalogue.select(None, ["pg_mean"]) if c.id == "L0-pg_mean-moderate"]
    adapter = SimpleNamespace(OPS={"pg_mean": lambda b, c: BASE.pg_mean(b, c) * (1 + relative)})
    out = asked(adapter, cases)
    assert out["results"][0]["verdict"] == verdict and runner.exit_code(out) == code
    assert out["first_failing_level"] == (0 if verdict == "failed" else None)
    lenient = asked(adapter, cases, inaccurate="pass")
    assert runner.exit_code(lenient) == (1 if verdict == "failed" else 0)
    for found, fails in ((out, verdict != "passed"), (lenient, verdict == "failed")):
        assert ("<failure" in report.junit(found)) == fails


def test_inaccurate_is_never_right():
    """Whatever the exit code: table, badge and page show it."""
    operations = {op: getattr(BASE, op) for op, entry in catalogue.operations().items() if entry["level"] == 0 and hasattr(BASE, op)}
    operations["pg_mean"] = lambda b, c: BASE.pg_mean(b, c) * (1 + 1e-10)
    out = asked(SimpleNamespace(OPS=operations), [c for c in LEVELS[0] if not verdicts.DIGITS & set(c.flags)], inaccurate="pass")
    here = out["levels"][0]
    assert here["suite"]["inaccurate"] and here["status"] == "partial" and runner.exit_code(out) == 0
    assert f"{here['suite']['inaccurate']} inaccurate" in report.text(out, {}) and "#8a6d00" in report.badge(out)
    n = {"asked": 5, "right": 3, "inaccurate": 2, "wrong": 0, "of": 5}
    assert report.status(dict.fromkeys(report.VERDICTS, 0), n) == "inaccurate"


def test_lost_digits_are_wrong_where_a_case_is_there_for_them():
    case = next(c for c in catalogue.select(None, ["log_cosh_half"]) if "SmallTilt" in c.flags)
    out = asked(SimpleNamespace(OPS={"log_cosh_half": lambda c: np.log(np.cosh(c / 2))}), [case])
    assert out["results"][0]["verdict"] == "failed" and out["results"][0]["outputs"][0]["grade"] == "inaccurate"


def grade(got, want, rtol=1e-14, atol=0.0, axes=0):
    return values.compare("x", values.encode(np.array(got)), values.encode(np.array(want)), rtol, atol, axes, 1e-8)["grade"]


def test_matrices_are_compared_by_their_norm():
    want = np.array([[1.0, 1e-6], [1e-6, 1.0]])
    off = want + np.array([[0.0, 2e-14], [2e-14, 0.0]])
    assert grade(off, want, axes=2) == "right" and grade(off, want) == "wrong"
    assert grade(want + 1e-10, want, axes=2) == "inaccurate" and grade(want + 1e-7, want, axes=2) == "wrong"
    stack = np.array([want, 1e-9 * want])                # each matrix by its own norm
    assert grade(stack + np.array([0 * off, off - want]), stack, axes=2) == "wrong"
    assert grade([np.nan, 1.0], [1.0, 1.0], axes=1) == "wrong" and grade([1.0, 1.0], [np.inf, 1.0], axes=1) == "wrong"
    assert grade([np.inf, 1.0 + 1e-9], [np.inf, 1.0]) == "inaccurate"


def test_terms_that_cancel_are_measured_by_their_size():
    assert grade(1e-13, 0.0, 1e-14, 3e-14) == "inaccurate" and grade(1e-7, 0.0, 1e-14, 3e-14) == "wrong"
    assert grade(1e-6, 0.0) == "wrong"                   # nothing says how large they were
    assert grade(2e-6, 1e-9, 1e-14, 1e-6) == "wrong"     # a tolerance of a method says nothing about terms


def test_a_failing_line_says_note_formula_and_entry():
    case = next(c for c in catalogue.select(None, ["update_beta0"]) if c.id == "L2-update_beta0-general")

    def wrong(**given):
        mean, S = BASE.update_beta0(**given)
        S[0, 1, 1] += 0.5
        return mean, S
    out = asked(SimpleNamespace(OPS={"update_beta0": wrong}), [case])
    for words in (report.text(out, catalogue.flags()), ET.fromstring(report.junit(out).partition("\n")[2]).find(".//failure").text):
        for part in (case.note, report.formula("update_beta0"), "beta0_S[0, 1, 1] is "):
            assert part and part in words
