"""The release archive: the same bytes each time, whole, and of use without Python."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KIT = ROOT / "conformance"


def build(kit, folder):
    done = subprocess.run([sys.executable, kit / "release.py", folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {file.name: file for file in folder.iterdir()}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return build(KIT, tmp_path_factory.mktemp("dist"))


def only(files, ending):
    (found,) = (file for name, file in files.items() if name.endswith(ending))
    return found


def unpack(tar, folder):
    """As data alone, where this Python knows how."""
    if hasattr(tarfile, "data_filter"):
        tar.extraction_filter = tarfile.data_filter
    tar.extractall(folder)


def test_two_builds_are_equal_byte_for_byte(built, tmp_path):
    """The second from a copy whose files are newer, were written in another order and may be executed."""
    copy = tmp_path / "elsewhere"
    for file in sorted(KIT.rglob("*"), reverse=True):
        if file.is_file() and "__pycache__" not in file.parts:
            target = copy / file.relative_to(KIT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
            target.chmod(0o755)
            os.utime(target, (time.time() + 86400,) * 2)
    again = build(copy, tmp_path / "dist")
    assert {name: file.read_bytes() for name, file in again.items()} == {name: file.read_bytes() for name, file in built.items()}


def test_both_archives_hold_the_suite(built, tmp_path):
    with tarfile.open(only(built, ".tar.gz")) as tar:
        unpack(tar, tmp_path / "tar")
    zipfile.ZipFile(only(built, ".zip")).extractall(tmp_path / "zip")
    unpacked = [{file.relative_to(tmp_path / kind): file.read_bytes() for file in (tmp_path / kind).rglob("*") if file.is_file()} for kind in ("tar", "zip")]
    assert unpacked[0] == unpacked[1]
    (folder,) = (tmp_path / "tar").iterdir()
    names = {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}
    data = {file.relative_to(KIT).as_posix() for file in (KIT / "cmn_conformance").rglob("*.json")}
    assert data <= names and {"FORMAT.md", "LICENSE", "CHANGELOG.md", "README.md", "runner.mjs", "adapters/plain.c"} <= names
    assert not [name for name in names if name.endswith(".py") or "oracle" in name]
    suites = {json.loads(file.read_text())["provenance"]["suite"] for file in (folder / "cmn_conformance/vectors").glob("*.json")}
    assert folder.name == f"cmn-conformance-{max(suites)}"


def test_sums_are_those_of_the_files(built, tmp_path):
    for line in only(built, ".sha256").read_text().splitlines():
        total, name = line.split("  ")
        assert hashlib.sha256(built[name].read_bytes()).hexdigest() == total
    zipfile.ZipFile(only(built, ".zip")).extractall(tmp_path)
    (folder,) = tmp_path.iterdir()
    listed = dict(line.split("  ")[::-1] for line in (folder / "SHA256SUMS").read_text().splitlines())
    files = {file.relative_to(folder).as_posix(): file for file in folder.rglob("*") if file.is_file() and file.name != "SHA256SUMS"}
    assert listed == {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in files.items()}


def test_a_suite_without_its_section_in_the_changelog_is_not_released(tmp_path):
    copy = shutil.copytree(KIT, tmp_path / "kit", ignore=shutil.ignore_patterns("__pycache__"))
    log = copy / "CHANGELOG.md"
    log.write_text("".join(line for line in log.read_text().splitlines(True) if not line.startswith("## ")))
    done = subprocess.run([sys.executable, copy / "release.py", tmp_path / "dist"], capture_output=True, text=True)
    assert done.returncode == 1 and "CHANGELOG.md has no section" in done.stderr and not (tmp_path / "dist").exists()


def test_what_is_no_json_is_not_released(tmp_path):
    """Python reads NaN in a JSON file; no other language does."""
    copy = shutil.copytree(KIT, tmp_path / "kit", ignore=shutil.ignore_patterns("__pycache__"))
    file = copy / "cmn_conformance/vectors/sticks.json"
    file.write_text(file.read_text().replace('"atol": 0.0', '"atol": NaN', 1))
    done = subprocess.run([sys.executable, copy / "release.py", tmp_path / "dist"], capture_output=True, text=True)
    assert done.returncode == 1 and "sticks.json holds NaN" in done.stderr


def test_unpacked_it_asks_and_judges_without_python(built, tmp_path):
    node, compiler = shutil.which("node") or shutil.which("nodejs"), shutil.which("cc") or shutil.which("gcc")
    if not (node and compiler):
        pytest.skip("Node.js or a C compiler is not installed: the archive is not tried without Python")
    with tarfile.open(only(built, ".tar.gz")) as tar:
        unpack(tar, tmp_path)
    (folder,) = tmp_path.iterdir()
    nothing = {"PATH": str(tmp_path / "empty"), "HOME": str(tmp_path)}
    done = subprocess.run([compiler, "-O2", "-o", "plain", "adapters/plain.c", "-lm"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for command in (["./plain"], [node, "adapters/node_loops.mjs"]):
        done = subprocess.run([node, "runner.mjs", "--level", "0-1", "--json", *command], cwd=folder, capture_output=True, text=True, env=nothing, timeout=300)
        assert done.returncode == 0, done.stderr
        assert sum(level["passed"] for level in json.loads(done.stdout)["levels"].values()) > 100
