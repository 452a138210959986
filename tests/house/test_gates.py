"""The control: the notebook gate of the Makefile goes red on planted faults, and stays green on the untouched chapter."""

import os
import subprocess
import sys

import nbformat
import pytest
from tangle import ROOT, read_chapters

CHAPTER = ROOT / "book/ideas/stick_breaking.ipynb"


def wrong_assert(notebook):
    cell = next(c for c in notebook.cells if c.source.startswith("#| verify"))
    cell.source += "\nassert 1 + 1 == 3"


def unknown_magic_then_raise(notebook):
    cell = next(c for c in notebook.cells if c.source.startswith("#| verify"))
    cell.source = "%no_such_magic\n" + cell.source + "\nraise RuntimeError('never seen')"


def changed_number(notebook):
    """The stored output differs from what the cell prints in one digit."""
    output = next(o for c in notebook.cells for o in c.get("outputs", []) if o.output_type == "stream" and any(map(str.isdigit, o.text)))
    digit = next(ch for ch in output.text if ch.isdigit())
    output.text = output.text.replace(digit, str((int(digit) + 1) % 10), 1)


@pytest.mark.parametrize("plant, outcome", [(None, "passed"), (wrong_assert, "failed"), (unknown_magic_then_raise, "failed"),
                                            (changed_number, "failed")])
def test_gate(tmp_path, plant, outcome):
    notebook = nbformat.read(CHAPTER, as_version=4)
    if plant:
        before = nbformat.writes(notebook)
        plant(notebook)
        assert nbformat.writes(notebook) != before
    copy = tmp_path / CHAPTER.name
    nbformat.write(notebook, copy)
    run = subprocess.run(["make", "--no-print-directory", "gate", f"NOTEBOOKS={copy}", f"PY={sys.executable}"], cwd=ROOT,
                         capture_output=True, text=True, timeout=300, env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert (run.returncode == 0) == (outcome == "passed"), run.stdout + run.stderr
    assert f" {outcome}" in run.stdout
    assert ("failed" in run.stdout) == (outcome == "failed")


def test_gate_covers_every_chapter():
    said = subprocess.run(["make", "--no-print-directory", "--dry-run", "gate"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert set(read_chapters(ROOT)) <= set(said.split())
