"""The wheels, each alone in an empty environment: the core imports, fits and predicts, the estimator names what it misses; the kit asks
an adapter with numpy alone."""

import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from tangle import HAND_WRITTEN, PACKAGE, ROOT, module_file, module_sources, read_chapters

pytestmark = pytest.mark.slow

MODULES = module_sources(read_chapters(ROOT), ROOT)
NEED_SKLEARN = ("use.classifier", "beyond.regressor")
CORE = f"""
import importlib, sys
import numpy as np
import cmn_literate
for module in {[m for m in MODULES if m not in NEED_SKLEARN]}:
    importlib.import_module("cmn_literate." + module)
for module in {NEED_SKLEARN}:
    try:
        importlib.import_module("cmn_literate." + module)
    except ModuleNotFoundError as error:
        assert error.name == "sklearn", error
    else:
        raise AssertionError(f"{{module}} does not need scikit-learn")
assert "site-packages" in cmn_literate.__file__
for estimator in ("CMNClassifier", "CMNRegressor"):
    try:
        getattr(cmn_literate, estimator)
    except ImportError as error:
        assert estimator in str(error) and "cmn_literate[fit]" in str(error), error
    else:
        raise AssertionError(f"scikit-learn is not here, and yet {{estimator}} loaded")
assert not {{"sklearn", "matplotlib", "pooch", "tqdm", "polyagamma"}} & set(sys.modules)
"""
FIT = """
from cmn_literate import fit, predict_proba
rng = np.random.default_rng(0)
X = rng.normal(size=(200, 2))
y = (X[:, 0] * X[:, 1] > 0).astype(int)
result = fit(X, y, n_experts=4, rng=rng)
p = predict_proba(result.parameters, X)
assert p.shape == (200, 2) and np.allclose(p.sum(1), 1) and ((p[:, 1] > 0.5) == y).mean() > 0.9
print("fitted and predicted with the core alone")
"""


def environment():
    """Without PYTHONPATH, which would put a checkout before the wheel."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def run(*command, **kwargs):
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), **kwargs)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(tmp_path_factory, name, folder, *more):
    """The wheel of the distribution in this folder.  Built from a copy, so that no stale build folder is packed and none is left;
    in a folder of its own, since another worker may build as well."""
    source = tmp_path_factory.mktemp("source")
    shutil.copytree(folder / name, source / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    for file in ("pyproject.toml", "LICENSE", *more):
        shutil.copy(folder / file, source)
    built = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "-w", str(built), str(source))
    (file,) = built.glob(f"{name}-*.whl")
    (ROOT / "dist").mkdir(exist_ok=True)
    shutil.copy(file, ROOT / "dist")
    return file


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build(tmp_path_factory, PACKAGE, ROOT, "README.md")


@pytest.fixture(scope="module")
def kit(tmp_path_factory):
    return build(tmp_path_factory, "cmn_conformance", ROOT / "conformance", "FORMAT.md")


def contents(wheel):
    """Files of a wheel, without what describes it."""
    names = zipfile.ZipFile(wheel).namelist()
    assert any(".dist-info/licenses/LICENSE" in name for name in names)
    return {name for name in names if ".dist-info/" not in name}


def empty(folder, *wheels):
    """(python, what is installed) of an environment that holds these wheels and what they need."""
    venv.create(folder, with_pip=True)
    python = str(folder / "bin/python")
    run(python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", *map(str, wheels))
    frozen = run(python, "-m", "pip", "freeze").split("\n")
    return python, {re.split("==| @", line)[0].lower() for line in frozen if line}


def test_wheel_holds_the_package_and_nothing_else(wheel):
    files = {module_file(m, ROOT).relative_to(ROOT) for m in MODULES}
    files |= {file.parent / "__init__.py" for file in files} | {Path(PACKAGE) / name for name in HAND_WRITTEN}
    assert contents(wheel) == {file.as_posix() for file in files}
    assert not [name for name in contents(wheel) if name.endswith(".json") or "experiments" in name]


def test_wheel_of_the_kit_holds_the_kit_and_nothing_else(kit):
    folder = ROOT / "conformance"
    files = {file for pattern in ("*.py", "*.json") for file in (folder / "cmn_conformance").rglob(pattern)}
    assert contents(kit) == {file.relative_to(folder).as_posix() for file in files}
    assert {"cmn_conformance/ops.json", "cmn_conformance/vectors/sticks.json", "cmn_conformance/schema/vectors.schema.json"} <= contents(kit)


def test_core_alone_imports_fits_and_predicts(wheel, tmp_path):
    python, installed = empty(tmp_path / "empty", wheel)
    assert installed == {"cmn_literate", "numpy", "scipy", "autograd"}
    print(run(python, "-I", "-c", CORE + FIT, cwd=tmp_path))


def test_kit_needs_numpy_alone_and_asks_an_adapter(kit, tmp_path):
    python, installed = empty(tmp_path / "empty", kit)
    assert installed == {"cmn_conformance", "numpy"}
    adapter = shutil.copy(ROOT / "conformance/adapters/numpy_minimal.py", tmp_path)
    said = run(python, "-m", "cmn_conformance", "run", "--adapter", str(adapter), cwd=tmp_path)
    assert "levels reached: L0\N{EN DASH}L5" in said


def test_package_without_its_repository_says_where_its_adapter_is(wheel, kit, tmp_path):
    python, _ = empty(tmp_path / "empty", wheel, kit)
    done = subprocess.run([python, "-m", "cmn_conformance", "run", "--adapter", PACKAGE], capture_output=True, text=True, cwd=tmp_path, env=environment())
    assert done.returncode == 2 and "not in its wheel; from a checkout of the repository: pip install -e . -e ./conformance" in done.stderr
    assert "Traceback" not in done.stderr and not done.stdout
    plugged = run(python, "-c", "from importlib.metadata import entry_points as e; print([p.value for p in e(group='pytest11')])", cwd=tmp_path)
    assert plugged.strip() == "['cmn_conformance.pytest_plugin']"
