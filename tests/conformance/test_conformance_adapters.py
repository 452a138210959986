"""Foreign implementations, really run: the examples to copy from, and pieces that others wrote for other purposes.

What is absent is skipped with its name; CMN_REQUIRE=node,torch (any of node, jax, torch, numpyro, polyagamma, sklearn) makes that a failure.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import conformance_third_party as third_party
import numpy as np
import pytest

from cmn_conformance import catalogue, runner
from cmn_conformance.process import LocalAdapter, ProcessAdapter, python_command

ROOT = Path(__file__).resolve().parents[2]
ADAPTERS = ROOT / "conformance/adapters"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """Child processes find the package; XLA compiles for speed of compilation."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "conformance")]))
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=0")


ABSENT = {"node": "Node.js is not installed (neither node nor nodejs is a command): the adapter in JavaScript is not run",
          "jax": "JAX is not installed", "torch": "no Python here can import PyTorch: its adapter is not run",
          "numpyro": "NumPyro is not installed: its sticks are not tested", "polyagamma": "polyagamma is not installed: its density is not tested",
          "sklearn": "scikit-learn is not installed: its Bayesian ridge regression is not tested"}


def need(name, found):
    """Skip with a reason; fail where the environment says that it is there."""
    if not found:
        required = name in os.environ.get("CMN_REQUIRE", "").split(",")
        (pytest.fail if required else pytest.skip)(ABSENT[name] + ("" if required else f"; CMN_REQUIRE={name} makes this a failure"))


def module(name):
    need(name, importlib.util.find_spec(name))


def run(command, levels, dtype="f64", ops=None, complete=True):
    """Run, print the table, and hold that nothing fails and every operation of the levels is there."""
    out = runner.run(ProcessAdapter(command, timeout=900.0, start_timeout=900.0), catalogue.select(levels, ops), dtype, flags=catalogue.flags())
    bad = [(r["id"], r["message"] or [o["problem"] for o in r["outputs"]]) for r in out["results"] if r["verdict"] in ("failed", "errored")]
    assert not bad
    assert not out["problems"]
    if complete:
        assert {level["level"]: level["status"] for level in out["levels"]} == {level: "complete" for level in levels}
    return out


def test_loops():
    assert run([sys.executable, str(ADAPTERS / "python_loops.py")], {0, 1, 2, 3, 4})["achieved"] == "L0\N{EN DASH}L4"


def test_numpy():
    run(python_command(str(ADAPTERS / "numpy_minimal.py")), {0, 1, 2, 3, 4, 5})


def test_node():
    node = shutil.which("node") or shutil.which("nodejs")
    need("node", node)
    run([node, str(ADAPTERS / "node_loops.mjs")], {0, 1, 2, 3, 4})


def test_jax_in_brief():
    module("jax")
    run(python_command(str(ADAPTERS / "jax_adapter.py")), {0, 2}, "f32", ["pg_kl", "update_experts"], complete=False)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f64", "f32"])
def test_jax(dtype):
    module("jax")
    run(python_command(str(ADAPTERS / "jax_adapter.py")), {0, 1, 2, 3, 4, 5}, dtype)


def with_torch():
    """A command for a Python that has PyTorch, or None; Debian's python3-torch belongs to another Python than this one."""
    for python in dict.fromkeys(filter(None, (sys.executable, "/usr/bin/python3"))):
        if subprocess.run([python, "-c", "import torch, numpy"], capture_output=True).returncode == 0:
            return [python, str(ROOT / "conformance/cmn_conformance/serve.py"), str(ADAPTERS / "torch_adapter.py")]


@pytest.mark.parametrize("dtype", ["f64", "f32"])
def test_torch(dtype):
    command = with_torch()
    need("torch", command)
    run(command, {0, 1, 2, 3, 4}, dtype)


# ---- code of others, through thin adapters: what passes, what does not, and why

def verdicts(adapter, ops=None):
    with np.errstate(all="ignore"):
        out = runner.run(LocalAdapter(adapter), catalogue.select(None, ops), flags=catalogue.flags())
    return {r["id"]: r for r in out["results"] if r["verdict"] in ("passed", "failed", "errored")}


def split(results):
    return ({i for i, r in results.items() if r["verdict"] == "passed"}, {i for i, r in results.items() if r["verdict"] != "passed"})


def flags_of(results, ids):
    return {i: set(results[i]["flags"]) for i in ids}


@pytest.mark.filterwarnings("ignore")
def test_scipy():
    """Logarithms of the logistic function, entropies and digamma pass; plain quadrature underflows in the tail."""
    found = verdicts(third_party.scipy_pieces)
    passed, failed = split(found)
    lost = {i for i in failed if found[i]["op"] == "log_sigmoid_normal"}
    assert lost and all("ExtremeLogit" in f for f in flags_of(found, lost).values()) and len(passed) >= 20
    assert failed == lost                               # its entropies take determinants from eigenvalues


@pytest.mark.filterwarnings("ignore")
def test_numpyro_sticks():
    """Its bijection is the same stick-breaking after a shift of the logits; probabilities are clipped, so tails and zeros are lost."""
    module("jax")
    module("numpyro")
    as_it_is = verdicts(third_party.numpyro_unshifted)
    assert all(as_it_is[f"L0-stick_log_probs-{name}"]["verdict"] == "failed" for name in ("three_sticks", "zero_logits", "many_sticks"))
    found = verdicts(third_party.numpyro_sticks)
    passed, failed = split(found)
    assert {f"L0-stick_log_probs-{name}" for name in ("one_stick", "three_sticks", "zero_logits", "many_sticks")} <= passed
    lost = {i for i in failed if "ExtremeLogit" in found[i]["flags"]}
    assert {f"L0-stick_log_probs-{name}" for name in ("plus_1000", "minus_1000", "mixed_1000", "infinite", "moderate_tails")} <= lost
    assert failed == lost


@pytest.mark.filterwarnings("ignore")
def test_polyagamma_density():
    """Integrating its density gives 9 to 13 digits of the moments, not the 15 of the closed form; at huge tilts the density itself gives up."""
    module("polyagamma")
    found = verdicts(third_party.polyagamma_density)
    passed, failed = split(found)
    for i in failed:
        for o in found[i]["outputs"]:
            plain = "HugeTilt" not in found[i]["flags"] and max(abs(v) for v in catalogue_case(i).given["c"]["data"]) < 100
            assert o["ok"] or not plain or float(o["error"]) < 1e-8
    assert "L0-pg_mean-tilt_1500" in failed and passed


def catalogue_case(case):
    return next(c for c in catalogue.cases() if c.id == case)


@pytest.mark.filterwarnings("ignore")
def test_sklearn_bayesian_ridge():
    """With both precisions pinned it is one row of one expert: every case passes but that of an expert without rows, which it refuses."""
    module("sklearn")
    found = verdicts(third_party.sklearn_ridge, ["update_experts"])
    passed, failed = split(found)
    assert failed == {"L2-update_experts-empty_expert"} and "non-zero" in found["L2-update_experts-empty_expert"]["message"]
    assert len(passed) >= 8
