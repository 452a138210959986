"""The suite without Python: a runner in JavaScript, an adapter in C; and what libraries of distributions make of level 1.

What is absent is skipped with its name; CMN_REQUIRE=node,cc,torch makes that a failure.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cmn_conformance import catalogue, runner
from cmn_conformance.process import ProcessAdapter, python_command

ROOT = Path(__file__).resolve().parents[2]
ADAPTERS, RUNNER = ROOT / "conformance/adapters", ROOT / "conformance/runner.mjs"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "conformance")]))


def need(name, found, what):
    if not found:
        required = name in os.environ.get("CMN_REQUIRE", "").split(",")
        (pytest.fail if required else pytest.skip)(what + ("" if required else f"; CMN_REQUIRE={name} makes this a failure"))
    return found


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The adapter in C, compiled."""
    compiler = need("cc", shutil.which("cc") or shutil.which("gcc") or shutil.which("clang"), "there is no C compiler (cc, gcc or clang)")
    program = tmp_path_factory.mktemp("c") / "plain"
    done = subprocess.run([compiler, "-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-o", program, ADAPTERS / "plain.c", "-lm"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return str(program)


@pytest.fixture(scope="module")
def node():
    return need("node", shutil.which("node") or shutil.which("nodejs"), "Node.js is not installed (neither node nor nodejs is a command)")


def ask(command, levels, dtype="f64"):
    return runner.run(ProcessAdapter(command, timeout=900.0, start_timeout=900.0), catalogue.select(levels), dtype, flags=catalogue.flags())


def verdicts(report):
    return {r["id"]: r["verdict"] for r in report["results"]}


# ---- C


def test_c_answers_levels_0_and_1(plain):
    report = ask([plain], {0, 1})
    wrong = {r["id"]: r["message"] or r["outputs"] for r in report["results"] if r["verdict"] in ("failed", "errored", "inaccurate")}
    assert not wrong and not report["problems"]
    declared = [c for c in catalogue.select({0, 1}) if c.op in report["adapter"]["ops"]]
    assert len(report["adapter"]["ops"]) >= 20 and report["questions"] >= 0.9 * len(declared)


def test_c_answers_a_bad_question_with_an_error_and_the_next_one_rightly(plain):
    good = {"cmd": "run", "seq": 9, "op": "pg_mean", "in": {"b": {"shape": [2], "data": [1.0, 4.0]}, "c": {"shape": [2], "data": [0.0, 0.0]}}}
    bad = ['{"cmd": "run", "seq": 1, "op": "pg_mean", "in": {}}', '{"cmd": "run", "seq": 1, "op": "pg_mean", "in": {"b": {"shape": [3], "data": [1]}}}',
           '{"cmd": "run", "seq": 1, "op"', "[[[", '{"a', "\\", '"\\', "no JSON", ""]
    done = subprocess.run([plain], input="\n".join([*bad, json.dumps(good), '{"cmd": "stop"}\n']), capture_output=True, text=True, timeout=60)
    *errors, last = map(json.loads, done.stdout.splitlines())
    assert done.returncode == 0 and len(errors) == len(bad) and all(set(e) == {"seq", "errored"} for e in errors)
    assert last == {"seq": 9, "out": {"mean": {"shape": [2], "data": [0.25, 1.0]}}}


# ---- JavaScript

BROKEN = """
import os, sys
sys.path.insert(0, {adapters!r})
from numpy_minimal import *
import numpy_minimal as right

NAME = "broken"

def pg_mean(b, c):
    return right.pg_mean(b, c) / 2

def pg_var(b, c):
    return right.pg_var(b, c) * float("nan")

def pg_kl(b, c):
    return right.pg_kl(b, c) * (1 + 1e-10)

def gaussian_entropy(S):
    return right.gaussian_entropy(S) * (1 + 1e-10)

def stick_counts(weights):
    return tuple(out.T for out in right.stick_counts(weights))

def log_cosh_half(c):
    if c.size > 2: os._exit(3)
    return right.log_cosh_half(c)

def gaussian_kl(mu, S, sigma):
    raise ValueError("not\\nfor \\033[31mnegative mu") if (mu < 0).any() else NotImplementedError("only negative mu")

def gamma_kl(a, b, a0, b0):
    return {{"kl": right.gamma_kl(a, b, a0, b0)}}

def second_moment(mu, S):
    print("this is no answer")
    return [list(row) for row in right.second_moment(mu, S)]

def update_x(**s):
    mu, Sigma = right.update_x(**s)
    return mu, Sigma.swapaxes(-1, -2) * 1.5

def elbo(**s):
    return np.inf
"""


@pytest.fixture
def broken(tmp_path):
    file = tmp_path / "broken.py"
    file.write_text(BROKEN.format(adapters=str(ADAPTERS)))
    return python_command(str(file))


def javascript(node, *args):
    done = subprocess.run([node, RUNNER, *args], capture_output=True, text=True, timeout=600)
    return done.returncode, done.stdout, done.stderr


def agree(node, command, levels, *options):
    """Verdicts of the two runners, on the cases that need no conversion."""
    code, out, _ = javascript(node, "--json", "--level", f"{min(levels)}-{max(levels)}", *options, *command)
    ours, report = json.loads(out), ask(command, levels)
    theirs, found = verdicts(report), {r["id"]: r["verdict"] for r in ours["results"] if r["verdict"] != "skipped" or r["message"] not in ours["choices"]}
    asked = {c.id for c in catalogue.select(levels) if not c.profile}
    assert asked <= set(found)
    return code, found, {i: theirs[i] for i in found}, runner.exit_code(report)


def test_javascript_passes_what_python_passes(node):
    code, found, theirs, expected = agree(node, [node, str(ADAPTERS / "node_loops.mjs")], {0, 1, 2, 3, 4})
    assert found == theirs and set(found.values()) == {"passed"} and code == expected == 0


def test_javascript_fails_what_python_fails(node, broken):
    code, found, theirs, expected = agree(node, broken, {0, 1, 2, 3})
    assert found == theirs and {i.split("-")[1] for i, v in found.items() if v == "inaccurate"} == {"pg_kl", "gaussian_entropy"}
    assert found["L0-pg_kl-small_tilt"] == "failed"                                       # it is there for lost digits
    assert set(found.values()) == {"passed", "inaccurate", "failed", "errored", "skipped"} and code == expected == 1


def test_javascript_exit_codes(node, broken):
    python = [sys.executable, "-c"]
    assert javascript(node, "--op", "gaussian_entropy", *broken)[0] == 1
    assert javascript(node, "--op", "gaussian_entropy", "--inaccurate", "pass", *broken)[0] == 0
    code, out, _ = javascript(node, "--op", "gaussian_kl", *broken)
    assert code == 1 and "\033" not in out and "\\nfor" in out                          # an adapter writes nothing on the terminal
    for command in (["/nonexistent"], [*python, "pass"], [*python, "print('hello', flush=True); input()"], ["cat"], []):
        code, out, err = javascript(node, *command)
        assert code == 2 and not out and err.startswith("runner.mjs: ") and "    at " not in err
    assert javascript(node, "--dtype", "f32", *broken)[0] == 2 and javascript(node, "--colour", "red", *broken)[0] == 2
    assert javascript(node, "--op", "predictive", *broken)[0] == 2                        # it has no such operation: nothing was asked


def test_javascript_waits_no_longer_than_it_says(node, tmp_path):
    file = tmp_path / "slow.py"
    file.write_text("import time\nimport numpy as np\ndef log_cosh_half(c):\n    time.sleep(1000)\n")
    code, out, _ = javascript(node, "--level", "0", "--op", "log_cosh_half", "--timeout", "0.5", "--json", *python_command(str(file)))
    results = json.loads(out)["results"]
    assert code == 1 and {r["verdict"] for r in results} == {"errored"} and "--timeout" in results[0]["message"]


# ---- libraries of distributions


def not_right(report):
    return {r["id"]: r["verdict"] for r in report["results"] if r["verdict"] in ("failed", "errored", "inaccurate") or r["kind"] == "adapter"}


def test_scipy_distributions_are_right():
    report = ask(python_command(str(ADAPTERS / "scipy_distributions.py")), {1})
    assert not not_right(report) and len(report["adapter"]["ops"]) == 10


@pytest.mark.parametrize("dtype", ["f64", "f32"])
def test_torch_distributions_but_for_certainty(dtype):
    """PyTorch keeps probabilities an eps from 0 and 1, so that the entropy of a certain category is not 0; it has no Gaussian without spread."""
    pythons = [os.environ.get("CMN_TORCH_PYTHON"), sys.executable, "/usr/bin/python3"]
    has = [p for p in dict.fromkeys(filter(None, pythons)) if not subprocess.run([p, "-c", "import torch, numpy"], capture_output=True).returncode]
    need("torch", has, "no Python here can import PyTorch")
    report = ask([has[0], str(ROOT / "conformance/cmn_conformance/serve.py"), str(ADAPTERS / "torch_distributions.py")], {1}, dtype)
    found = not_right(report)
    assert {i for i, v in found.items() if v == "skipped"} == {f"L1-{op}-no_spread" for op in ("second_moment", "padded_second_moment")}
    certain = {i for i, v in found.items() if v != "skipped"}
    assert certain and certain <= {"L1-categorical_entropy-one_hot", "L1-categorical_entropy-one_expert"}
