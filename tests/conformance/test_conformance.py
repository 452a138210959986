"""The conformance kit: its runner, judged by adapters that misbehave, and its cases, judged by adapters with planted bugs."""

import ast
import json
import os
import re
import subprocess
import sys
import time
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace

import conformance_mutants
import jsonschema
import numpy as np
import pytest
from conformance_mutants import MUTANTS
from hypothesis import given, settings
from hypothesis import strategies as st

from cmn_conformance import catalogue, report, runner, serve, values
from cmn_conformance.__main__ import main
from cmn_conformance.page import page
from cmn_conformance.process import LocalAdapter, NotStarted, ProcessAdapter, check_start, open_adapter, python_command, read_json
from cmn_literate import conformance as door

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "conformance/cmn_conformance"
ADAPTERS = ROOT / "conformance/adapters"
NUMPY = str(ADAPTERS / "numpy_minimal.py")
reference = serve.load("cmn_literate")
pytest_plugins = ["pytester"]
PATH = os.pathsep.join([str(ROOT), str(ROOT / "conformance")])
ENVIRONMENT = {**os.environ, "PYTHONPATH": PATH}
LAST_RESORT = 900                                        # seconds; for what hangs although it should not


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """Child processes find the package and the kit wherever they run."""
    monkeypatch.setenv("PYTHONPATH", PATH)


@pytest.fixture(scope="module")
def good():
    """The report of the package's own adapter over the whole suite below level 5."""
    return runner.run(LocalAdapter(reference), catalogue.select({0, 1, 2, 3, 4}), flags=catalogue.flags())


def schema(name):
    return jsonschema.Draft202012Validator(json.loads((PACKAGE / "schema" / name).read_text()))


# ---- the package against the suite

def test_own_package_passes(good):
    ours = [r for r in good["results"] if r["kind"] != "algorithm"]
    assert [r["id"] for r in ours if r["verdict"] != "passed"] == []
    assert good["questions"] == good["answers"] == len(ours) >= 300
    assert runner.exit_code(good) == 0 and good["achieved"] == "L0\N{EN DASH}L4" and good["first_failing_level"] is None


@pytest.mark.slow
def test_own_package_passes_to_the_last_level():
    full = runner.run(LocalAdapter(reference), catalogue.select(), flags=catalogue.flags())
    assert [r["id"] for r in full["results"] if r["verdict"] != "passed" and r["kind"] != "algorithm"] == []


def test_package_is_asked_by_its_name(tmp_path, monkeypatch, capsys):
    """cmn_literate says where its adapter is; a package of somebody else can do the same; a wheel without the repository says what to do."""
    assert Path(reference.__file__) == ADAPTERS / "package.py"
    assert main(["run", "--adapter", "cmn_literate", "--op", "pg_mean"]) == 0 and f"cmn_literate {reference.VERSION}" in capsys.readouterr().out
    (tmp_path / "mine.py").write_text(f"def cmn_adapter():\n    return {NUMPY!r}\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert serve.load("mine").NAME == serve.load(NUMPY).NAME
    monkeypatch.setattr(door, "ADAPTER", tmp_path / "absent.py")
    with pytest.raises(NotStarted, match=r"cannot load cmn_literate: .*not in its wheel; from a checkout of the repository: pip install -e \. -e \./conf"):
        open_adapter("cmn_literate", in_process=True)


def test_door_says_how_to_get_the_kit():
    done = subprocess.run([sys.executable, "-m", "cmn_literate.conformance", "run"], capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode and "pip install -e . -e ./conformance" in done.stderr and not done.stdout and "Warning" not in done.stderr


def test_reports_follow_their_schema(good):
    schema("report.schema.json").validate(json.loads(json.dumps(good)))


def test_runner_needs_numpy_alone():
    for file in PACKAGE.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                first = name.split(".")[0]
                assert first in sys.stdlib_module_names or first == "numpy" or name.startswith("cmn_conformance") or (
                    first == "pytest" and file.name == "pytest_run.py"), f"{file.name} imports {name}"


# ---- adapters that misbehave once

ROGUES = {      # mode: verdict, kind, what the message says
    "crash": ("errored", "crash", "exit code 3.*out of cheese"), "segfault": ("errored", "crash", "SIGSEGV"),
    "hang": ("errored", "timeout", "no answer in 0.5 s"), "child": ("errored", "timeout", "no answer"), "silent": ("errored", "timeout", "no answer"),
    "chatty": ("errored", "chatty", "compiling"), "flood": ("errored", "garbage", "xxx"), "endless-line": ("errored", "garbage", "xxx"),
    "garbage": ("errored", "garbage", "not json"), "wrong-seq": ("errored", "garbage", "10000"), "cut-line": ("errored", "garbage", "no answer"),
    "list": ("errored", "garbage", "no answer"), "truncated": ("errored", "truncated", "breaks off"),
    "twice": ("errored", "answers", "more than once"), "no-kind": ("errored", "garbage", "one of out, skipped, errored"),
    "out-is-list": ("errored", "garbage", "wrong type"), "nan-literal": ("failed", "", "NaN in"), "nan-word": ("failed", "", "NaN in"),
    "null": ("failed", "", "NaN in"), "infinite": ("failed", "", "infinite in"), "shape": ("failed", "", r"shape \(1, \d\), expected"),
    "short-data": ("failed", "", "needs"), "ragged": ("failed", "", "equal lengths"), "strings": ("failed", "", "expected numbers"),
    "booleans": ("failed", "", "expected numbers"), "missing-output": ("failed", "", "no output"),
    "skips": ("skipped", "adapter", "not today"), "raises": ("errored", "errored", "ValueError: no")}
FEW = catalogue.select({0}, ["log_cosh_half", "pg_mean"])[:6]


SILENT = ("hang", "child", "silent")                    # they misbehave without a word
NEVER_ANSWER = (*SILENT, "flood", "endless-line", "garbage", "wrong-seq", "cut-line", "list")


def rogue(mode, *more, adapter=ProcessAdapter, **limits):
    command = [sys.executable, str(ROOT / "tests/conformance/conformance_rogue.py"), mode, *map(str, more)]
    return adapter(command, **{"timeout": LAST_RESORT, "start_timeout": LAST_RESORT, "first_timeout": LAST_RESORT, **limits})


class Patient(ProcessAdapter):
    """Half a second for the question that is never answered, and they begin when the misbehaviour is there.

    Everything else takes as long as it takes: on a busy machine that may be more than half a second.
    """
    silent = None                                           # a file that exists once the adapter misbehaves without a word

    def _receive(self, seq, seconds, limit):
        if seconds == 0.5:
            while not self.lines.qsize() and not (self.silent and self.silent.exists()):
                time.sleep(0.01)
        return super()._receive(seq, seconds, limit)

    def ask(self, message):
        self.timeout = 0.5 if self.asked == 2 else LAST_RESORT
        return super().ask(message)


@pytest.mark.parametrize("mode", ROGUES)
def test_one_misbehaviour_is_one_verdict(mode, tmp_path):
    verdict, kind, words = ROGUES[mode]
    adapter = rogue(mode, 3, tmp_path / "done", adapter=Patient if mode in NEVER_ANSWER else ProcessAdapter)
    adapter.silent = tmp_path / "done" if mode in SILENT else None
    out = runner.run(adapter, FEW, flags=catalogue.flags())
    assert [r["verdict"] for r in out["results"]] == ["passed"] * 2 + [verdict] + ["passed"] * 3
    hit = out["results"][2]
    assert hit["kind"] == kind
    assert re.search(words, hit["message"] or hit["outputs"][0]["problem"])
    lost = kind in ("crash", "truncated") or mode in NEVER_ANSWER
    assert out["restarts"] == lost and out["answers"] == out["questions"] - lost == 6 - lost
    assert bool(out["problems"]) == lost
    assert runner.exit_code(out) == (0 if mode == "skips" else 1)
    schema("report.schema.json").validate(json.loads(json.dumps(out)))
    assert adapter.process is None


@pytest.mark.parametrize("mode, words", [("start-crash", "no start for me"), ("start-protocol", "protocol 99"), ("start-ops", "no proper ops")])
def test_adapter_that_does_not_start(mode, words):
    with pytest.raises(NotStarted, match=words):
        runner.run(rogue(mode), FEW)


def test_adapter_that_does_not_answer_start():
    adapter = rogue("start-hang", start_timeout=0.5)
    with pytest.raises(NotStarted, match="no answer in 0.5 s"):
        runner.run(adapter, FEW)
    with pytest.raises(NotStarted, match="no proper version, language"):         # they are printed
        check_start({"protocol": 1, "ops": [], "version": 3, "language": None})
    with pytest.raises(NotStarted, match="cannot run"):
        runner.run(ProcessAdapter("/no/such/program"), FEW)


def test_banner_is_noted_and_forgiven():
    out = runner.run(rogue("start-garbage"), FEW)
    assert "Welcome to Julia" in out["problems"][0] and runner.exit_code(out) == 0


HALVES = r"""import json, sys
for line in sys.stdin:
    question = json.loads(line)
    if question["cmd"] == "stop":
        break
    if question["cmd"] == "start":
        print(r'{"seq": %d, "protocol": 1, "name": "half \udc00", "ops": ["pg_mean", "log_cosh_half", "\ud800"], "profile": {"\ud801": "\ud802"}}'
              % question["seq"], flush=True)
    elif question["op"] == "pg_mean":
        print(r'{"seq": %d, "errored": "bad \ud83d emoji, whole \ud83d\ude00 one, path C:\\ud83d"}' % question["seq"], flush=True)
    else:
        print(r'{"seq": %d, "out": {"y": {"shape": "\ud83d", "data": []}, "\uDfff": 1}}' % question["seq"], flush=True)
"""


@pytest.mark.parametrize("quiet", [[], ["--quiet"]])
def test_halves_of_surrogate_pairs_are_written_out(tmp_path, quiet):
    (tmp_path / "halves.py").write_text(HALVES)
    command = [sys.executable, "-m", "cmn_conformance", "run", "--command", f"{sys.executable} {tmp_path}/halves.py", "--level", "0", *quiet,
               "--report", "r.json", "--junit", "r.xml", "--html", "r.html", "--badge", "r.svg"]
    for encoding in ("utf-8", "ascii"):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={**ENVIRONMENT, "PYTHONIOENCODING": encoding})
        assert done.returncode == 1 and done.stderr == "", done.stderr
        out = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
        schema("report.schema.json").validate(out)
        assert out["adapter"]["name"] == r"half \udc00"
        said = {r["op"]: r["message"] for r in out["results"] if r["message"]}
        assert said["pg_mean"] == "bad \\ud83d emoji, whole \N{GRINNING FACE} one, path C:\\ud83d"
        assert said["log_cosh_half"].endswith(r" among \uDfff, y")
        assert said["pg_mean"] in (tmp_path / "r.html").read_text(encoding="utf-8")
        assert said["pg_mean"] in ET.parse(tmp_path / "r.xml").find(".//error").get("message")
        assert ET.parse(tmp_path / "r.svg") and (quiet or r"bad \ud83d emoji" in done.stdout)
        for file in tmp_path.glob("r.*"):
            file.unlink()


def test_halves_of_surrogate_pairs_in_this_process():
    def pg_mean(b, c):
        raise ValueError("\ud83d")
    adapter = local(pg_mean=pg_mean, PROFILE={"\ud801": "\ud802"})
    adapter.host.adapter.NAME = "\udc00"
    json.dumps(runner.run(adapter, FEW), ensure_ascii=False).encode()


@given(st.lists(st.sampled_from(["\ud83d", "\ude00", "\U0001f600", "\\", "u", "d83d", '"', "\n", "x"]), max_size=12).map("".join))
@settings(max_examples=300, derandomize=True)
def test_words_of_an_adapter_can_be_written_and_are_otherwise_kept(words):
    text = json.dumps(words)                                 # two halves beside each other are a whole there
    assert read_json(text) == json.loads(text).replace("\n", "\\n").encode(errors="backslashreplace").decode()


def test_second_answer_after_the_last_question():
    out = runner.run(rogue("twice", 6), FEW)
    assert [r["verdict"] for r in out["results"]] == ["passed"] * 5 + ["errored"]


def test_runner_gives_up_after_enough_crashes():
    adapter = rogue("crash", 1)
    adapter.max_restarts = 2
    out = runner.run(adapter, FEW)
    assert [r["kind"] for r in out["results"]] == ["crash"] * 3 + ["given up"] * 3
    assert len(out["results"]) == len(FEW) and out["questions"] == 3


# ---- comparison

def compare(got, expected, rtol=1e-12, atol=0.0):
    return values.compare("x", got, values.encode(np.array(expected)), rtol, atol)


@pytest.mark.parametrize("got, expected, words", [
    ([1.0, 2.0], [1.0, 2.0], None), ({"shape": [2], "data": [1, 2]}, [1.0, 2.0], None), (2, 2.0, None), ("inf", np.inf, None),
    (["nan", 1.0], [np.nan, 1.0], None), ([], np.zeros((0, 3)), None), (1e999, -np.inf, "inf where -inf"), ([2.0, 4.0], [1.0, 2.0], "twice"),
    ([-1.0, -2.0], [1.0, 2.0], "wrong sign"), ([0.5, 1.0], [1.0, 2.0], "half"), ([3.0, 4.0, 7.0], [1.0, 2.0, 5.0], "plus the constant 2"),
    ([2.0, 1.0], [1.0, 2.0], "axis 0 reversed"), ([3.3, 6.6], [1.0, 2.0], "times 3.3"),
    ([[1.0, 3.0], [2.0, 4.0]], [[1.0, 2.0], [3.0, 4.0]], "exchanged|column by column"),
    ([[1.0, 4.0, 2.0], [5.0, 3.0, 6.0]], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "column by column"),
    ([1.0, 2.0], [[1.0], [2.0]], r"shape \(2,\), expected \(2, 1\)"), ([[1.0], [2.0]], [[1.0, 2.0]], "another order"),
    ({"shape": [2]}, [1.0, 2.0], "keys shape and data"), ({"shape": [-1], "data": []}, [1.0], "list of sizes"), (10**400, 1.0, "digits"),
    ([None], [1.0], "NaN in 1 of 1"), ([[1.0]], 1.0, "shape"), (1.0, np.inf, "1 where inf"), ([True], [1.0], "expected numbers")])
def test_comparison_says_what_is_wrong(got, expected, words):
    out = compare(got, expected)
    assert out["ok"] == (words is None)
    assert re.search(words or "^$", out["problem"])


def test_comparison_measures_by_the_tolerance():
    out = compare([1.0, 2.0 + 1.9e-12], [1.0, 2.0])
    assert out["ok"] and out["index"] == [1] and 0.94 < out["ratio"] < 0.96
    assert not compare([1.0, 2.0 + 3e-12], [1.0, 2.0])["ok"]
    assert compare([1e-30], [0.0], atol=1e-29)["ok"] and not compare([1e-30], [0.0])["ok"]


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.sampled_from(["nan", "-inf"]),
                    lambda inner: st.lists(inner, max_size=4) | st.fixed_dictionaries({"shape": inner, "data": inner})
                    | st.dictionaries(st.sampled_from(["shape", "data", "x"]), inner, max_size=3), max_leaves=12)


@given(got=JSON, expected=st.sampled_from([1.0, np.inf, [0.0, 1.0], np.zeros((0, 2)), [[1.0, np.nan]]]))
@settings(max_examples=120, derandomize=True)
def test_comparison_survives_any_answer(got, expected):
    out = compare(got, expected)
    assert out["ok"] == (out["problem"] == "")
    json.dumps(out, allow_nan=False)


def test_comparison_survives_depth():
    deep = []
    for _ in range(5000):
        deep = [deep]
    assert not compare(deep, 1.0)["ok"]


@pytest.mark.parametrize("array", [np.array(1.5), np.arange(6).reshape(2, 3), np.array([np.nan, np.inf, -np.inf, 0.1]), np.zeros((2, 0))])
def test_values_survive_the_trip(array):
    for write in (values.encode, serve._write):
        back = values.decode(json.loads(json.dumps(write(array), allow_nan=False)))
        np.testing.assert_array_equal(back, array)
        assert back.shape == array.shape
    np.testing.assert_array_equal(serve._read(values.encode(array), np.float64), array)


def test_what_is_no_number_is_refused():
    for value in ("a", [1j], object()):
        with pytest.raises(TypeError):
            values.encode(value)
        with pytest.raises(TypeError):
            serve._write(value)


# ---- adapters in Python

def local(**operations):
    profile = operations.pop("PROFILE", {})
    return LocalAdapter(SimpleNamespace(NAME="mine", PROFILE=profile, OPS=operations))


def test_partial_adapter_is_asked_what_it_has():
    out = runner.run(local(pg_mean=reference.pg_mean), catalogue.select({0, 1}))
    asked = [r for r in out["results"] if r["verdict"] != "undeclared"]
    assert {r["op"] for r in asked} == {"pg_mean"} and out["questions"] == len(asked) and runner.exit_code(out) == 0
    of = len([c for c in catalogue.select({0}) if not catalogue.optional_suite(c.profile)])
    assert out["achieved"] == f"L0: {len(asked)} of {of} asked, {len(asked)} right" and out["levels"][1]["status"] == "empty"


def test_unknown_choices_and_operations_are_named():
    out = runner.run(local(PROFILE={"gamma": ["rate", "Rate"], "colour": "red"}, pg_mean=reference.pg_mean), FEW)
    assert out["problems"] == ["the adapter's profile has choices that ops.json does not know: gamma = 'Rate', colour = 'red'"]
    adapter = local(pg_mean=reference.pg_mean)
    start = adapter.start
    adapter.start = lambda message: {**start(message), "ops": ["pg_mean", "pg_meen"]}
    assert runner.run(adapter, FEW)["problems"] == ["the adapter declares operations that the suite does not have: pg_meen"]


def test_python_adapter_may_fail_in_its_own_words():
    def pg_mean(b, c):
        raise NotImplementedError("later")

    def log_cosh_half(c):
        return {"c": "text"}

    def pg_var(b, c):
        return 1 / 0

    def stick_counts(weights):
        return weights
    out = runner.run(local(pg_mean=pg_mean, log_cosh_half=log_cosh_half, pg_var=pg_var, stick_counts=stick_counts), catalogue.select({0}))
    said = {r["op"]: (r["verdict"], r["message"]) for r in out["results"] if r["verdict"] != "undeclared" and r["kind"] != "algorithm"}
    assert said["pg_mean"] == ("skipped", "later")
    assert said["pg_var"][0] == "errored" and "ZeroDivisionError" in said["pg_var"][1] and "test_conformance.py" in said["pg_var"][1]
    assert said["log_cosh_half"][0] == said["stick_counts"][0] == "errored" and "tuple of the 2 outputs" in said["stick_counts"][1]


def test_undeclared_and_unknown_operations():
    host = serve.Host(SimpleNamespace(OPS=["pg_mean", "pg_kl"], pg_mean=reference.pg_mean, pg_kl=None))
    assert host.start({"ops": ["pg_mean", "pg_kl", "sweeps"]})["ops"] == ["pg_mean"]
    assert "not one of" in host.run({"op": "sweeps", "in": {}})["skipped"]


def test_dtype_must_be_offered():
    with pytest.raises(runner.BadRequest, match="does not offer f32"):
        runner.run(LocalAdapter(reference), FEW, "f32")
    with pytest.raises(runner.BadRequest, match="dtype"):
        runner.run(LocalAdapter(reference), FEW, "f16")


def test_float32_arrays_arrive_as_float32():
    seen = []

    def pg_mean(b, c):
        seen.append((b.dtype, c.dtype))
        return reference.pg_mean(b.astype(float), c.astype(float))
    out = runner.run(LocalAdapter(SimpleNamespace(NAME="single", DTYPES="f32", OPS={"pg_mean": pg_mean})), catalogue.select({0}, ["pg_mean"]), "f32")
    assert set(seen) == {(np.dtype("float32"),) * 2}
    assert {r["verdict"] for r in out["results"]} <= {"passed", "skipped"}
    assert all("float32" in r["message"] for r in out["results"] if r["verdict"] == "skipped")


def test_host_speaks_the_protocol(tmp_path):
    (tmp_path / "noisy.py").write_text("import os\nprint('import')\nNAME = 'noisy'\ndef pg_mean(b, c):\n    print('work')\n    os.write(1, b'low')\n"
                                       "    return b / 4 + 0 * c\nclass inner:\n    def pg_mean(b, c):\n        return b / 4 + 0 * c\n")
    case = catalogue.select({0}, ["pg_mean"], ["zero_tilt"])
    for spec in (f"{tmp_path}/noisy.py", f"{tmp_path}/noisy.py:inner"):
        out = runner.run(ProcessAdapter(python_command(spec)), case)
        assert [r["verdict"] for r in out["results"]] == ["passed"] and not out["problems"]
    alone = [sys.executable, str(PACKAGE / "serve.py"), f"{tmp_path}/noisy.py"]             # without the package
    assert runner.exit_code(runner.run(ProcessAdapter(alone), case)) == 0
    with pytest.raises(NotStarted, match="nowhere"):
        runner.run(open_adapter("nowhere.to_be_found"), case)


# ---- command line

@pytest.fixture
def half(tmp_path):
    """An adapter with one bug, in a file."""
    path = tmp_path / "half.py"
    path.write_text("import numpy as np\nNAME = 'half'\ndef pg_mean(b, c):\n    return b * np.tanh(c) / (2 * np.maximum(np.abs(c), 1e-99))\n"
                    "def log_cosh_half(c):\n    return np.logaddexp(c / 2, -c / 2) - np.log(2)\n")
    return str(path)


def test_run_prints_the_first_failing_level_and_the_likely_bug(half, tmp_path, capsys):
    files = {name: tmp_path / f"out/{name}" for name in ("report.json", "junit.xml", "page.html", "badge.svg")}
    code = main(["run", "--adapter", half, "--report", str(files["report.json"]), "--junit", str(files["junit.xml"]),
                 "--html", str(files["page.html"]), "--badge", str(files["badge.svg"])])
    text = capsys.readouterr().out
    assert code == 1
    assert "First failing level: L0 special functions" in text and "FAILED L0-pg_mean-moderate" in text
    assert "x the tolerance" in text and "eq-pg-mean" in text
    assert re.search(r"at, the likeliest first:\n(?:  log_cosh_half.*\n)*  pg_mean  HalfAngle: tanh\(c\) for tanh\(c/2\) in the mean \(matched by value in \d+ of \d+ f", text)
    out = json.loads(files["report.json"].read_text())
    schema("report.schema.json").validate(out)
    counts = {v: sum(level[v] for level in out["levels"]) for v in report.VERDICTS}
    assert text.rstrip().endswith(f"{counts['passed']} passed, {counts['failed']} failed, 0 errored, {counts['undeclared']} skipped, expected to fail or not asked")
    suites = ET.parse(files["junit.xml"]).getroot()
    assert sum(int(s.get("failures")) for s in suites) == counts["failed"] == len(suites.findall(".//failure"))
    assert sum(int(s.get("tests")) for s in suites) == out["questions"]
    html = files["page.html"].read_text()
    assert "prefers-color-scheme:dark" in html and 'name="viewport"' in html and "HalfAngle" in html
    assert not re.search(r"<(script|img|iframe)|src=|@import|url\(", html)
    badge = ET.parse(files["badge.svg"]).getroot()
    assert "CAVI-CMN conformance none" in badge.get("aria-label")


def test_badge_of_a_good_report(good, tmp_path, capsys):
    path = tmp_path / "r.json"
    path.write_text(json.dumps(good))
    assert main(["badge", str(path)]) == 0
    assert "CAVI-CMN conformance L0\N{EN DASH}L4" in ET.fromstring(capsys.readouterr().out).get("aria-label")
    assert main(["badge", str(path), str(tmp_path / "b.svg")]) == 0 and (tmp_path / "b.svg").exists()
    path.write_text("[]")
    assert main(["badge", str(path)]) == 2 and main(["badge", str(tmp_path / "none.json")]) == 2
    assert "expected a report" in capsys.readouterr().err


def test_achievement_counts_only_what_is_complete(good):
    levels = json.loads(json.dumps(good["levels"]))
    assert report.achieved(levels[:1]) == "L0"
    levels[2]["status"] = "failing"
    assert report.achieved(levels) == "L0\N{EN DASH}L1"
    levels[0]["status"] = "partial"
    assert report.achieved(levels) == "none"
    levels[2]["status"] = "empty"
    levels[2]["suite"].update(right=0, asked=0)
    del levels[3:]
    of = [level["suite"]["of"] for level in levels]
    assert report.achieved(levels) == f"L0: {of[0]} of {of[0]} asked, {of[0]} right; L1: {of[1]} of {of[1]} asked, {of[1]} right"
    assert f"L0 {of[0]}/{of[0]}/{of[0]}, L1" in report.badge({**good, "levels": levels}) and "f32" in report.badge({**good, "dtype": "f32"})


def test_expected_failures_are_strict(half, tmp_path, capsys):
    wrong = [r["id"] for r in runner.run(open_adapter(half, in_process=True), catalogue.select({0}))["results"] if r["verdict"] == "failed"]
    file = tmp_path / "xfails.toml"
    file.write_text("[xfails]\n" + "".join(f'"{i}" = "issue 7"\n' for i in wrong))
    run = ["run", "--adapter", half, "--in-process", "--level", "0", "--xfails", str(file)]
    assert main(run) == 0
    assert f"{len(wrong)}" in capsys.readouterr().out
    passing = next(c.id for c in catalogue.select({0}, ["log_cosh_half"]) if c.id not in wrong)
    file.write_text(file.read_text() + f'"{passing}" = "was broken"\n')
    assert main(run) == 1
    text = capsys.readouterr().out
    assert "take it off the list" in text and report.STALE in text and "First failing" not in text
    assert ", 0 failed, 0 errored, 1 passed unexpectedly," in text
    for text, words in (('[xfails]\n"L0-no-such" = "x"', "not in the suite: L0-no-such"), ("xfails = 3", "expected one table"), ("[xfails", str(file)),
                        (f'[xfails]\n"{passing}" = ""', "no reason"), ("[other]\na = 1", "expected one table")):
        file.write_text(text)
        assert main(run) == 2
        assert words in capsys.readouterr().err
    assert main([*run[:-1], str(tmp_path / "none.toml")]) == 2


def test_wrong_requests_are_refused(half, capsys):
    assert main(["run", "--adapter", "no.such.module"]) == 2 and "no.such" in capsys.readouterr().err.replace("'no'", "no.such")
    assert main(["run", "--adapter", half, "--case", "nothing like it"]) == 2
    assert main(["run", "--adapter", half, "--op", "pg_meen"]) == 2 and "pg_mean" in capsys.readouterr().err
    assert main(["list", "--flag", "Typo"]) == 2
    assert main(["explain", "pg_mean"]) == 2 and "L0-pg_mean" in capsys.readouterr().err
    assert main(["run", "--adapter", half, "--level", "3", "--quiet"]) == 2                  # nothing was asked
    for wrong in (["run"], ["run", "--adapter", half, "--level", "9"], ["run", "--adapter", half, "--timeout", "0"], ["fly"],
                  *(["run", "--adapter", half, option, value] for option in ("--timeout", "--start-timeout") for value in ("inf", "1e30", "nan")),
                  ["run", "--adapter", half, "--command", "x"], ["run", "--adapter", half, "--max-restarts", "-1"]):
        with pytest.raises(SystemExit) as stop:
            main(wrong)
        said = capsys.readouterr().err
        assert stop.value.code == 2 and ("timeout" not in str(wrong) or f"argument {wrong[3]}: expected a number > 0 and <= 1000000, got" in said)
    for limits in ({"timeout": np.inf}, {"start_timeout": 1e30}):
        with pytest.raises(ValueError, match=f"^{next(iter(limits))}: expected a number > 0 and <= 1000000"):
            open_adapter(half, **limits)


def test_refusals_are_one_line(half, tmp_path, capsys):
    (tmp_path / "ends.py").write_text("raise SystemExit(3)")
    (tmp_path / "folder").mkdir()
    for arguments, words in ((["run", "--command", ""], "command is empty"), (["run", "--command", "julia 'x"], "No closing quotation"),
                             (["run", "--adapter", ""], "package.module"), (["run", "--command", "cat"], "sends back"),
                             (["run", "--adapter", "no.such", "--in-process"], "cannot load no.such"),
                             (["run", "--adapter", half + ":other", "--in-process"], "no attribute 'other'"),
                             (["run", "--adapter", str(tmp_path / "ends.py"), "--in-process"], "SystemExit: 3"),
                             (["run", "--adapter", half, "--level", "3"], "nothing was asked"),
                             (["run", "--adapter", half, "--html", str(tmp_path / "folder")], "folder: Is a directory"),
                             (["run", "--adapter", half, "--report", f"{half}/r.json"], "half.py"),
                             (["explain", "L0-pg_mean-moderate", "--command", ""], "command is empty"),
                             (["badge", str(tmp_path / "none.json"), str(tmp_path / "folder")], "none.json")):
        assert main(arguments) == 2, arguments
        said = capsys.readouterr().err
        assert words in said and said.count("\n") == 1, said


def test_list_and_explain(half, capsys):
    assert main(["list", "--level", "0-1", "--op", "pg_mean"]) == 0
    text = capsys.readouterr().out
    assert "L0-pg_mean-zero_tilt" in text and "eq-pg-mean" in text and "ZeroTilt" in text
    assert main(["list", "--flag", "ZeroTilt", "--json"]) == 0
    assert all("ZeroTilt" in c["flags"] for c in json.loads(capsys.readouterr().out))
    assert main(["explain", "L0-pg_mean-moderate"]) == 0
    text = capsys.readouterr().out
    for words in ("E[omega] of omega ~ PG(b, c)", "book/ideas/polya_gamma.html#equation-eq-pg-mean", "HalfAngle", "\nin\n", "\nexpected\n", "tolerance f64"):
        assert words in text
    assert main(["explain", "L0-pg_mean-moderate", "--adapter", half]) == 1
    text = capsys.readouterr().out
    assert "\ngot\n" in text and "x the tolerance" in text
    assert main(["explain", "L1-gaussian_kl-equal", "--adapter", half, "--in-process"]) == 2
    assert "not asked" in capsys.readouterr().out


def test_levels_are_read():
    assert catalogue.parse_levels("0,2-4") == {0, 2, 3, 4} and catalogue.parse_levels("L1-L2") == {1, 2}
    for wrong in ("7", "3-1", "", "a", "-1", "0-9"):
        with pytest.raises(ValueError, match="level"):
            catalogue.parse_levels(wrong)


def test_pages_survive_hostile_text(good):
    nasty = dict(good["results"][0], verdict="errored", kind="crash", message='<script>"&\x00\x1b[31m\ud800')
    out = {**good, "results": [nasty], "first_failing_level": 0, "adapter": {**good["adapter"], "name": "<b>&"}}
    assert "<script>" not in page(out, catalogue.flags()) and "<b>&" not in page(out, catalogue.flags())
    ET.fromstring(report.junit(out).partition("\n")[2])


# ---- pytest plugin

@pytest.fixture
def plugged(pytester, monkeypatch):
    """Run pytest with the plugin, in this process."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return lambda *arguments: pytester.runpytest_inprocess("-p", "cmn_conformance.pytest_plugin", "-p", "no:cacheprovider", "-q", *arguments)


def test_plugin_makes_one_test_of_each_case(plugged, pytester, half):
    pytester.makepyfile(test_own="def test_own():\n    pass\n")
    done = plugged("--cmn-adapter", half, "--cmn-level", "0")
    text = done.stdout.str()
    cases = len(catalogue.select({0}, ["pg_mean", "log_cosh_half"]))
    failed = int(re.search(r"(\d+) failed", text)[1])
    assert done.ret == 1 and f"{cases + 1 - failed} passed" in text
    assert "HalfAngle" in text and "L0 special functions" in text and "Traceback" not in text
    wrong = re.findall(r"^FAILED \S*cmn-conformance::(\S+)", text, re.MULTILINE)
    assert len(wrong) == failed
    pytester.makefile(".toml", x="[xfails]\n" + "".join(f'"{i}" = "known"\n' for i in wrong))
    done = plugged("--cmn-command", f"{sys.executable} -m cmn_conformance.serve {half}", "--cmn-xfails", "x.toml")
    assert done.ret == 0 and f"{failed} xfailed" in done.stdout.str()


def test_plugin_skips_and_counts_answers(plugged):
    rogue_command = f"{sys.executable} {ROOT / 'tests/conformance/conformance_rogue.py'}"
    done = plugged("--cmn-command", f"{rogue_command} skips 3")
    assert done.ret == 0 and "1 skipped" in done.stdout.str() and "not today" in plugged("-rs", "--cmn-command", f"{rogue_command} skips 3").stdout.str()
    done = plugged("--cmn-command", f"{rogue_command} twice 3")
    assert done.ret == 1 and "answered more than once" in done.stdout.str()
    done = plugged("--cmn-command", f"{rogue_command} crash 3", "-k", "log_cosh")
    assert done.ret == 1 and "out of cheese" in done.stdout.str()


def test_plugin_marks_what_float32_cannot_pass(plugged, pytester):
    path = pytester.makepyfile(single="DTYPES = 'f32'\ndef pg_mean(b, c):\n    raise NotImplementedError('soon')\n")
    done = plugged("-rs", "--cmn-adapter", str(path), "--cmn-dtype", "f32")
    assert done.ret == 0 and "float32 cannot pass" in done.stdout.str() and "soon" in done.stdout.str()


def test_plugin_refuses_in_one_line(plugged, half):
    for arguments, words in ((["--cmn-adapter", "no_such"], "no_such"), (["--cmn-adapter", half, "--cmn-level", "8"], "levels 0 to 6"),
                             (["--cmn-adapter", half, "--cmn-command", "x"], "not both"),
                             (["--cmn-command", ""], "command is empty"), (["--cmn-adapter", half, "--cmn-level", "3"], "none of the operations"), (["--cmn-adapter", half, "--cmn-dtype", "f32"], "f32"),
                             (["--cmn-adapter", half, "--cmn-timeout", "-1"], "number > 0"),
                             (["--cmn-adapter", half, "--cmn-timeout", "inf"], "--cmn-timeout: expected a number > 0 and <= 1000000")):
        done = plugged(*arguments)
        said = done.stderr.str() + done.stdout.str()
        assert done.ret == 4 and words in said and "Traceback" not in said


def test_plugin_leaves_other_runs_alone():
    code = "import sys, cmn_conformance.pytest_plugin as p; assert not {'numpy', 'scipy', 'pytest', 'json'} & set(sys.modules)"
    subprocess.run([sys.executable, "-S", "-c", code], env=ENVIRONMENT, check=True)
    project = tomllib.loads((ROOT / "conformance/pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"cmn_conformance": "cmn_conformance.pytest_plugin"}


# ---- the kit is tested by bugs

@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["tanh(xi) for tanh(xi/2)", "0/0 at tilt 0", "kappa = y", "log of the sigmoid", "previous stick for the running product",
                                  "0 ln 0", "q(z) without the entropy of x1", "entropy of x1 by rows", "sigma0 for sigma1"])
def test_likeliest_bug_is_named_first(name):
    """No rule can tell all bugs apart by which cases fail; these it must, and a special case among many must not lead."""
    mutant = next(m for m in MUTANTS if m.id == name)
    assert conformance_mutants.named(mutant)[0] == "right"


SAMPLE = MUTANTS[::3]                                    # 'make test' plants these, 'make test-full' all


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mutant", [pytest.param(m, id=m.id.replace(" ", "_"), marks=[pytest.mark.slow] * (m not in SAMPLE)) for m in MUTANTS])
def test_bug_is_found_where_it_is(mutant):
    first, flags, _ = conformance_mutants.examine(mutant)
    assert first == mutant.level, f"meant to fail first at L{mutant.level}"
    assert mutant.flag in flags


def test_bugs_are_many_and_told_apart():
    assert len(MUTANTS) >= 40 and len({m.id for m in MUTANTS}) == len(MUTANTS)
    assert len({m.flag for m in MUTANTS}) >= 20 and {m.level for m in MUTANTS} == set(range(7))
    assert {m.flag for m in MUTANTS} <= set(catalogue.flags())
    assert len(SAMPLE) >= 40 and {m.level for m in SAMPLE} == set(range(7)) and len({m.flag for m in SAMPLE}) >= 18
