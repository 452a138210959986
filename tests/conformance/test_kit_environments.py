"""The kit where its asker already is: an old Python, an old numpy, and nothing changed by installing it."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

from cmn_conformance import runner

ROOT = Path(__file__).resolve().parents[2]
KIT = ROOT / "conformance/cmn_conformance"
ADAPTER = ROOT / "conformance/adapters/numpy_minimal.py"
# what the library has only since Python 3.10 or later, or numpy 2, and what stands in its place
YOUNG = {"zip(strict=)": r"\bzip\(.*\bstrict=", "tomllib": r"^\s*(import|from) tomllib", "datetime.UTC": r"\bimport .*\bUTC\b|datetime\.UTC",
         "dataclass(slots=, kw_only=)": r"dataclass\(.*(slots|kw_only)", "itertools.pairwise": r"\bpairwise\b", "StrEnum": r"\bStrEnum\b",
         "int.bit_count": r"\.bit_count\(", "ExceptionGroup": r"\bExceptionGroup\b|except\*", "anext": r"\banext\(", "contextlib.chdir": r"contextlib\.chdir",
         "typing.Self and others": r"from typing import .*\b(Self|override|TypeAlias|ParamSpec|assert_never)\b",
         "numpy 2": r"\bnp\.(astype|concat|permute_dims|matrix_transpose|vecdot|unique_values|cumulative_sum|trapezoid|bool|long|acos|asin|atan|pow|isdtype|linalg\."
                    r"(vector_norm|matrix_norm|vecdot|diagonal|outer|cross|matmul|trace|tensordot|svdvals))\b|\.mT\b"}


def environment():
    """Without PYTHONPATH, which would put a checkout before what is installed."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def run(*command, **kwargs):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=kwargs.pop("env", environment()), **kwargs)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("file", sorted(KIT.rglob("*.py")), ids=lambda file: file.name)
def test_syntax_and_library_are_those_of_python_3_9(file):
    source = file.read_text(encoding="utf-8")
    tree = ast.parse(source, file.name, feature_version=(3, 9))
    guarded = re.sub(r"try:\n\s+import tomllib\n(.*\n)*?\s+except (ImportError|ModuleNotFoundError)", "", source)
    assert not [name for name, pattern in YOUNG.items() if re.search(pattern, guarded, re.M)]
    postponed = any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)
    hints = [node for node in ast.walk(tree) if isinstance(node, (ast.arg, ast.AnnAssign, ast.FunctionDef))]
    hints = [hint for node in hints if (hint := getattr(node, "annotation", None) or getattr(node, "returns", None))]
    assert postponed or not [hint for hint in hints if any(isinstance(part, ast.BitOr) for part in ast.walk(hint))]


@pytest.mark.parametrize("line", ["match x:\n  case 1: pass", "with (open(a) as b, open(c) as d): pass\nmatch x:\n  case _: pass", "try: pass\nexcept* E: pass"])
def test_the_check_of_syntax_can_fail(line):
    with pytest.raises(SyntaxError):
        ast.parse(line, feature_version=(3, 9))


TABLES = ['[xfails]\n"L0-a" = "reason"  # why\n\n# a remark\n"b" = "x"\n', "", "[a]\n[b]\n", '[xfails]\n"a\\"b" = "\\u00e9 = # no remark"\n']
BROKEN = ["[xfails\n", '[xfails]\n"a" = 3\n', '[xfails]\n"a" = "b\n', '"a" "b"\n', '[xfails]\n"a" = "b" "c"\n']


@pytest.mark.parametrize("text", TABLES)
def test_reader_of_toml_before_python_3_11_reads_tables_of_strings_as_tomllib_does(text, monkeypatch):
    expected = tomllib.loads(text)
    monkeypatch.setitem(sys.modules, "tomllib", None)
    assert runner.read_toml(text) == expected


@pytest.mark.parametrize("text", BROKEN)
def test_reader_of_toml_refuses_what_it_cannot_read(text, monkeypatch):
    monkeypatch.setitem(sys.modules, "tomllib", None)
    with pytest.raises(ValueError, match="xfails"):
        runner.read_toml(text)


def python_of(version):
    """A Python of this version, of the system or of pyenv."""
    found = [shutil.which(f"python{version}"), *sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python"))]
    for python in filter(None, found):
        if subprocess.run([python, "-c", "import venv, ensurepip"], capture_output=True).returncode == 0:
            return python
    pytest.skip(f"there is no Python {version} here: the kit is not tried on it")


@pytest.mark.slow
@pytest.mark.parametrize(("version", "numpy"), [("3.11", "1.26.4"), ("3.9", "1.22.0")])
def test_installing_the_kit_changes_nothing_else(version, numpy, tmp_path):
    """In an environment that has its own numpy: install, ask an adapter, compare what pip says before and after."""
    folder = tmp_path / "asker"
    if version == "{}.{}".format(*sys.version_info):
        venv.create(folder, with_pip=True)
    else:
        run(python_of(version), "-m", "venv", folder)
    python = folder / "bin/python"
    run(python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", f"numpy=={numpy}")
    before = run(python, "-m", "pip", "freeze", "--all").splitlines()
    source = shutil.copytree(ROOT / "conformance", tmp_path / "conformance", ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    run(python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", source)
    after = run(python, "-m", "pip", "freeze", "--all").splitlines()
    (new,) = set(after) - set(before)
    assert new.startswith("cmn_conformance") and set(before) < set(after) and f"numpy=={numpy}" in before
    xfails = tmp_path / "xfails.toml"
    xfails.write_text('[xfails]\n"L0-pg_mean-zero_tilt" = "halved"\n')
    asked = [python, "-m", "cmn_conformance", "run", "--adapter", shutil.copy(ADAPTER, tmp_path), "--timeout", "120"]
    said = run(*asked, "--quiet", "--report", tmp_path / "out.json", cwd=tmp_path)
    assert re.match(r"\d+ passed, 0 failed", said)
    done = subprocess.run([*map(str, asked), "--level", "0", "--xfails", str(xfails)], capture_output=True, text=True, cwd=tmp_path, env=environment())
    assert done.returncode == 1 and "listed as an expected failure" in done.stdout and not done.stderr
    assert run(python, "-m", "pip", "freeze", "--all").splitlines() == after


@pytest.mark.slow
def test_one_folder_is_enough(tmp_path):
    """Copied beside the asker's code, installed nowhere."""
    folder = tmp_path / "asker"
    venv.create(folder, with_pip=True)
    run(folder / "bin/python", "-m", "pip", "install", "-qq", "--disable-pip-version-check", "numpy==1.26.4")
    shutil.copytree(KIT, tmp_path / "cmn_conformance", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ADAPTER, tmp_path)
    said = run(folder / "bin/python", "-m", "cmn_conformance", "run", "--level", "0-3", "--adapter", "numpy_minimal.py", "--quiet", cwd=tmp_path)
    assert re.match(r"\d+ passed, 0 failed", said)
