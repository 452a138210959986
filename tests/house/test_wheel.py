"""The wheel, alone in an empty environment: the core imports, fits and predicts; the estimator names what it misses."""

import os
import shutil
import subprocess
import sys
import venv
import zipfile

import pytest
from tangle import ROOT, module_sources, read_chapters

pytestmark = pytest.mark.slow

NEED_SKLEARN = ("classifier", "methods")          # the estimator, and what plugs the other methods into it
CORE = f"""
import importlib, sys
import numpy as np
import cmn_literate
for module in {[m for m in module_sources(read_chapters(ROOT), ROOT) if m not in NEED_SKLEARN]}:
    importlib.import_module("cmn_literate." + module)
assert "site-packages" in cmn_literate.__file__
try:
    cmn_literate.CMNClassifier
except ImportError as error:
    assert "cmn_literate[fit]" in str(error), error
else:
    raise AssertionError("scikit-learn is not here, and yet the estimator loaded")
assert not {{"sklearn", "matplotlib", "pooch", "tqdm", "polyagamma"}} & set(sys.modules)
"""
FIT = """
from cmn_literate.engineering.fit import fit
from cmn_literate.network.predict import predict_proba
rng = np.random.default_rng(0)
X = rng.normal(size=(200, 2))
y = (X[:, 0] * X[:, 1] > 0).astype(int)
result = fit(X, y, n_experts=4, rng=rng)
p = predict_proba(result.parameters, X)
assert p.shape == (200, 2) and np.allclose(p.sum(1), 1) and ((p[:, 1] > 0.5) == y).mean() > 0.9
print("fitted and predicted with the core alone")
"""


def run(*command, **kwargs):
    """Without PYTHONPATH, which would put a checkout before the wheel."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, **kwargs)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy, so that no stale build folder is packed and none is left; in a folder of its own, since another
    worker may build as well."""
    source = tmp_path_factory.mktemp("source")
    shutil.copytree(ROOT / "cmn_literate", source / "cmn_literate", ignore=shutil.ignore_patterns("__pycache__", ".*"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    built = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "-w", str(built), str(source))
    (file,) = built.glob("cmn_literate-*.whl")
    (ROOT / "dist").mkdir(exist_ok=True)
    shutil.copy(file, ROOT / "dist")
    return file


def test_wheel_holds_the_package_and_nothing_else(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name.split("/")[0].removesuffix(".dist-info").split("-")[0] for name in names} == {"cmn_literate"}
    assert {"cmn_literate/py.typed", "cmn_literate/book.mplstyle", "cmn_literate/__init__.py"} <= names


def test_core_alone_imports_fits_and_predicts(wheel, tmp_path):
    venv.create(tmp_path / "empty", with_pip=True)
    python = str(tmp_path / "empty/bin/python")
    run(python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", str(wheel))
    installed = {line.split("==")[0].lower() for line in run(python, "-m", "pip", "freeze").split("\n") if line}
    assert {n for n in installed if not n.startswith("cmn")} == {"numpy", "scipy", "autograd"}
    program = CORE + (FIT if (ROOT / "cmn_literate/network/predict.py").exists() else "")
    print(run(python, "-I", "-c", program, cwd=tmp_path))


def test_conformance_kit_travels(wheel, tmp_path):
    """From the wheel, in an empty environment: the vectors are there and the package's own adapter passes."""
    venv.create(tmp_path / "empty", with_pip=True)
    python = str(tmp_path / "empty/bin/python")
    run(python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", str(wheel))
    said = run(python, "-m", "cmn_literate.conformance", "run", "--adapter", "cmn_literate.conformance.reference", "--level", "0-4", cwd=tmp_path)
    assert "levels reached: L0\N{EN DASH}L4" in said
