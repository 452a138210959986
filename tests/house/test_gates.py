"""The control: the notebook gate of the Makefile goes red on planted faults, and stays green on the untouched notebook."""

import copy
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output
from tangle import ROOT, read_chapters

LAST_RESORT = 900                                   # seconds; a gate that hangs


def printed(count, source, text):
    return new_code_cell(source, execution_count=count, outputs=[new_output("stream", name="stdout", text=text)])


UNTOUCHED = new_notebook(metadata={"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}, cells=[
    new_code_cell("#| export\ndef half(x):\n    return x / 2", execution_count=1),
    printed(2, "#| verify eq-half\nassert half(1) == 0.5\nprint('a half is', half(1))", "a half is 0.5\n"),
    printed(3, "print('a quarter is', half(half(1)))", "a quarter is 0.25\n")])


def wrong_assert(notebook):
    notebook.cells[1].source += "\nassert 1 + 1 == 3"


def unknown_magic_then_raise(notebook):
    notebook.cells[1].source = "%no_such_magic\n" + notebook.cells[1].source + "\nraise RuntimeError('never seen')"


def changed_number(notebook):
    """The stored output differs from what the cell prints in one digit."""
    notebook.cells[1].outputs[0].text = "a half is 0.6\n"


@pytest.fixture
def folder():
    """In the checkout: pytest takes the settings of pyproject.toml, and the names of notebooks, from there."""
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gate-", dir=ROOT / "build") as name:
        yield Path(name)


def gate(folder, **notebooks):
    """(exit code, [(notebook, code cell) that failed], how many cells passed, all that was said)"""
    for name, notebook in notebooks.items():
        nbformat.write(notebook, folder / f"{name}.ipynb")
    files = " ".join(str(folder / f"{name}.ipynb") for name in notebooks)
    run = subprocess.run(["make", "--no-print-directory", "gate", f"NOTEBOOKS={files}", f"PY={sys.executable}"], cwd=ROOT,
                         capture_output=True, text=True, timeout=LAST_RESORT, env=os.environ | {"PYTHONPATH": str(ROOT)})
    failed = re.findall(r"^FAILED \S*?(\w+)\.ipynb::Cell (\d+)", run.stdout, re.MULTILINE)
    passed = re.search(r"(\d+) passed", run.stdout)
    return run.returncode, sorted((name, int(cell)) for name, cell in failed), int(passed[1]) if passed else 0, run.stdout + run.stderr


def test_gate_is_green_on_the_untouched_notebook(folder):
    code, failed, passed, said = gate(folder, untouched=UNTOUCHED)
    assert code == 0 and not failed and passed == 3, said


def test_gate_is_red_where_a_fault_is_planted(folder):
    notebooks = {}
    for plant in (wrong_assert, unknown_magic_then_raise, changed_number):
        notebooks[plant.__name__] = notebook = copy.deepcopy(UNTOUCHED)
        plant(notebook)
        assert notebook != UNTOUCHED
    code, failed, passed, said = gate(folder, **notebooks)
    assert code != 0 and failed == sorted((name, 1) for name in notebooks) and passed == 2 * len(notebooks), said


def test_gate_covers_every_chapter():
    said = subprocess.run(["make", "--no-print-directory", "--dry-run", "gate"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert set(read_chapters(ROOT)) <= set(said.split())
