"""The control: the notebook gate of the Makefile goes red on planted faults, and on nothing else."""

import copy
import os
import re
import subprocess
import sys
import tempfile
import time
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
    printed(3, "print('a quarter is', half(half(1)))", "a quarter is 0.25\n"),
    # whatever its kernel is forked from: nothing of this checkout is there that it has not imported, and its folder is its own
    printed(4, "import os, sys\nours = 'experiments', 'cmn_conformance', 'tests', 'tangle', 'cmn_literate.ideas'\n"
               "print(sorted(set(ours) & set(sys.modules)), os.path.basename(os.getcwd())[:5], os.getpid() == os.getsid(0),\n"
               "      any(p.endswith(('/tools', '/tests')) for p in sys.path))", "[] gate- True False\n")])


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


def test_gate_is_red_where_a_fault_is_planted_and_green_elsewhere(folder):
    """All in one run, which ends in an error.  That a run without a fault does not is what `make test` shows every time."""
    notebooks = {"untouched": UNTOUCHED}
    for plant in (wrong_assert, unknown_magic_then_raise, changed_number):
        notebooks[plant.__name__] = notebook = copy.deepcopy(UNTOUCHED)
        plant(notebook)
        assert notebook != UNTOUCHED
    for name, notebook in notebooks.items():
        nbformat.write(notebook, folder / f"{name}.ipynb")
    files = " ".join(str(folder / f"{name}.ipynb") for name in notebooks)
    run = subprocess.run(["make", "--no-print-directory", "gate", f"NOTEBOOKS={files}", f"PY={sys.executable}"], cwd=ROOT,
                         capture_output=True, text=True, timeout=LAST_RESORT, env=os.environ | {"PYTHONPATH": str(ROOT)})
    said = run.stdout + run.stderr
    failed = re.findall(r"^FAILED \S*?(\w+)\.ipynb::Cell (\d+)", run.stdout, re.MULTILINE)
    cells = sum(len(notebook.cells) for notebook in notebooks.values())
    assert run.returncode != 0 and sorted(failed) == sorted((name, "1") for name in notebooks if name != "untouched"), said
    assert f"3 failed, {cells - 3} passed" in run.stdout, said


@pytest.mark.slow
def test_a_gate_that_is_killed_leaves_no_kernel(folder):
    """Nor the process from which it was forked, which its kernels keep alive."""
    source = "import os, time\nopen('new', 'w').write(f'{os.getpid()} {os.getppid()}')\nos.rename('new', 'pids')\ntime.sleep(600)"
    nbformat.write(new_notebook(cells=[new_code_cell(source)]), folder / "waits.ipynb")
    with subprocess.Popen([sys.executable, "-m", "pytest", "-q", "-p", "warm_kernels", "--nbval", "--nbval-current-env", "-n", "1", folder / "waits.ipynb"],
                          cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        while not (folder / "pids").exists() and run.poll() is None:
            time.sleep(0.1)
        run.kill()
    for pid in map(int, (folder / "pids").read_text().split()):
        end = time.monotonic() + LAST_RESORT
        with pytest.raises(ProcessLookupError):
            while time.monotonic() < end:
                os.kill(pid, 0)
                time.sleep(0.1)


def test_gate_covers_every_chapter():
    said = subprocess.run(["make", "--no-print-directory", "--dry-run", "gate"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert set(read_chapters(ROOT)) <= set(said.split())


def test_make_alone_lists_at_most_twelve_targets_that_exist():
    said = subprocess.run(["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    listed = [line.split()[1] for line in said.splitlines()]
    assert 6 <= len(listed) <= 12 and {"book", "test", "results"} <= set(listed)
    for target in listed:
        assert subprocess.run(["make", "--dry-run", target, "PY=python"], cwd=ROOT, capture_output=True).returncode == 0, target
