"""The rules of the house, read from the files: one direction of imports, labels that resolve, checks that exist."""

import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter

import execute
import nbformat
import pages
import pytest
from tangle import HAND_WRITTEN, PACKAGE, ROOT, cell_name, chapter_order, marker, module_file, module_sources, package_imports, read_chapters

CHAPTERS = read_chapters(ROOT)
MODULES = module_sources(CHAPTERS, ROOT)                    # in the order of the book
LABELS = Counter(label for label, _ in pages.equations(CHAPTERS))
VERIFY = pages.marked(CHAPTERS, "verify")
EXPORTS = pages.exports(CHAPTERS)
FUNCTIONS = [(path, node) for path, _, node in EXPORTS if isinstance(node, ast.FunctionDef)]
CORE = {"numpy", "scipy", "autograd"}


def tracked(*patterns):
    """Files that git knows."""
    said = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True)
    if said.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in said.stdout.split("\n") if name and (ROOT / name).exists()]


def imports(tree, top_level=False):
    """First parts of the names that a tree imports, anywhere or in its top level alone."""
    for node in tree.body if top_level else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (a.name.split(".")[0] for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").split(".")[0]


# ---- the package

@pytest.mark.parametrize("module", MODULES)
def test_imports_point_down(module):
    tree = ast.parse(module_file(module, ROOT).read_text())
    order = list(MODULES)
    upward = [name for name in package_imports(tree) if name in order and order.index(name) >= order.index(module)]
    assert not upward


@pytest.mark.parametrize("file", sorted((ROOT / PACKAGE).rglob("*.py")), ids=lambda p: p.name)
def test_package_stands_alone(file):
    tree = ast.parse(file.read_text())
    assert not {"book", "experiments", "tests", "tools", "tangle", "execute", "pages"} & set(imports(tree))
    outside = set(imports(tree, top_level=True)) - CORE - {PACKAGE} - set(sys.stdlib_module_names)
    assert outside <= ({"sklearn"} if file.name == "classifier.py" else set())


def test_hand_written_files_hold_no_mathematics():
    for name in ("__init__.py", "__main__.py"):
        if (ROOT / PACKAGE / name).exists():
            assert not {"scipy", "autograd"} & set(imports(ast.parse((ROOT / PACKAGE / name).read_text())))
    assert {m.split(".")[0] for m in MODULES}.isdisjoint(HAND_WRITTEN)


def test_oracle_shares_nothing_with_the_package():
    for file in (ROOT / "tests/oracle").rglob("*.py"):
        assert PACKAGE not in set(imports(ast.parse(file.read_text())))


# ---- labels and checks

def test_labels_are_unique():
    assert [label for label, n in LABELS.items() if n > 1] == []


def texts():
    """(where, text) of everything in which an equation may be referred to."""
    for path, notebook in CHAPTERS.items():
        yield from ((f"{path}, cell {cell_name(path.rpartition('/')[2][:-6], i)}", c.source) for i, c in enumerate(notebook.cells)
                    if c.cell_type == "markdown")
    yield from ((p.relative_to(ROOT).as_posix(), p.read_text()) for p in (ROOT / "book").rglob("*.md"))


def test_references_to_equations_resolve():
    dangling = [f"{where}: {label}" for where, text in texts() for label in re.findall(r"\{eq\}`([^`]+)`", text) if label not in LABELS]
    assert not dangling


def test_every_verified_label_exists():
    assert [f"{cell.name}: {label}" for cell in VERIFY for label in cell.labels if label not in LABELS] == []


@pytest.mark.parametrize("path, node", FUNCTIONS, ids=[f"{p.rpartition('/')[2][:-6]}.{n.name}" for p, n in FUNCTIONS])
def test_function_names_its_equation_and_is_checked(path, node):
    doc = ast.get_docstring(node)
    assert doc, "no docstring"
    labels = re.findall(r"\beq-[\w-]+", doc)
    assert labels, "the docstring names no equation, as [eq-...]"
    assert [label for label in labels if label not in LABELS] == []
    called = {name.id if isinstance(name, ast.Name) else name.attr for cell in VERIFY if cell.path == path
              for name in ast.walk(ast.parse(cell.source)) if isinstance(name, (ast.Name, ast.Attribute))}
    assert node.name in called, "no verify cell of its chapter calls it"


@pytest.mark.parametrize("path, node", [(p, n) for p, _, n in EXPORTS if isinstance(n, ast.ClassDef)], ids=lambda x: getattr(x, "name", ""))
def test_class_is_described(path, node):
    assert ast.get_docstring(node)
    undescribed = [m.name for m in node.body if isinstance(m, ast.FunctionDef) and not m.name.startswith("_") and not ast.get_docstring(m)]
    assert not undescribed


# ---- the chapters

@pytest.mark.parametrize("path", CHAPTERS)
def test_chapter_is_stored_executed_and_normal(path):
    notebook = CHAPTERS[path]
    stored = nbformat.writes(notebook)
    execute.normalise(notebook, path.rpartition("/")[2][:-6])
    assert nbformat.writes(notebook) == stored
    code = [c for c in notebook.cells if c.cell_type == "code"]
    assert [c.execution_count for c in code] == list(range(1, len(code) + 1))
    for cell in code:
        assert execute.clean_outputs(cell) == cell.outputs


@pytest.mark.parametrize("path", CHAPTERS)
def test_chapter_has_its_parts(path):
    cells = CHAPTERS[path].cells
    prose = "\n".join(c.source for c in cells if c.cell_type == "markdown")
    assert prose.startswith("# ")
    assert "it can be shown" not in prose.lower()
    assert "## Pitfalls" in prose and "## Exercises" in prose
    assert prose.count("{exercise}") >= 2
    assert any(marker(c)[0] == "solution" for c in cells)


def test_toc_lists_every_page():
    pages_of_book = {p.relative_to(ROOT).with_suffix("").as_posix() for s in ("*.ipynb", "*.md") for p in (ROOT / "book").rglob(s)
                     if not any(part.startswith(".") for part in p.relative_to(ROOT).parts)}
    assert pages_of_book == set(chapter_order(ROOT)) | {"book/intro"}
    assert not re.search(r"^\s*#.*file:", (ROOT / "_toc.yml").read_text(), re.MULTILINE)


# ---- paper, symbols, files

def rows(name):
    file = ROOT / "book" / name
    return next(v for v in tomllib.loads(file.read_text()).values() if isinstance(v, list)) if file.exists() else []


@pytest.mark.parametrize("row", rows("paper.toml"), ids=lambda r: r["id"])
def test_row_of_the_paper_points_at_what_exists(row):
    functions = {f"{path.rpartition('/')[2][:-6]}.{node.name}" for path, _, node in EXPORTS}
    checked = {label for cell in VERIFY for label in cell.labels}
    assert row["verdict"] in ("right", "corrected") and row["latex"] and row["labels"] and row["verify"]
    assert [label for label in row["labels"] if label not in LABELS] == []
    assert [f for f in row.get("functions", []) if f not in functions] == []
    assert [label for label in row.get("verify", []) if label not in checked] == []
    assert row["verdict"] == "right" or row["errata"], "a corrected equation names its erratum"


def test_ids_of_the_paper_are_unique():
    assert [i for i, n in Counter(row["id"] for row in rows("paper.toml")).items() if n > 1] == []


def test_every_display_of_the_paper_has_a_row():
    lines = [int(row["id"].removeprefix("l. ")) for row in rows("paper.toml")]
    assert len(lines) == tomllib.loads((ROOT / "book/paper.toml").read_text())["displays"]
    assert lines == sorted(lines), "not in the order of the paper"


@pytest.mark.parametrize("row", rows("paper.toml"), ids=lambda r: r["id"])
def test_errata_of_the_paper_are_in_the_chapter(row):
    chapter = "\n".join(c.source for c in CHAPTERS["book/validate/errata.ipynb"].cells if c.cell_type == "markdown")
    assert [e for e in row.get("errata", []) if not re.search(rf"^(### {e} |\| {e} \|)", chapter, re.MULTILINE)] == []


def test_every_erratum_of_consequence_is_executed():
    cells = CHAPTERS["book/validate/errata.ipynb"].cells
    listed = re.findall(r"^\| \[([EN]\d+[a-z]?)\]\(#[\w-]+\) \|.*\| ([MA]) \|", "\n".join(c.source for c in cells), re.MULTILINE)
    shown = {}
    for cell in cells:                                              # the code below each "### E12a ..."
        if heading := re.findall(r"^### ([EN]\d+[a-z]?) ", cell.source, re.MULTILINE):
            assert len(heading) == 1
            here = heading[0]
            shown[here] = ""
        elif cell.cell_type == "code" and shown:
            shown[here] += cell.source
    assert [erratum for erratum, _ in listed] == list(shown) and len(listed) > 30
    assert [e for e, code in shown.items() if "assert" not in code or not re.search(rf'"{e}\b', code)] == []


def test_symbols_are_those_of_the_code():
    source = "\n".join(module_file(m, ROOT).read_text() for m in MODULES)
    names = {t.string for t in tokenize.generate_tokens(io.StringIO(source).readline) if t.type == tokenize.NAME}
    unknown = [code for row in rows("symbols.toml") for code in re.findall(r"[A-Za-z_]\w*", row.get("code", "")) if code not in names]
    assert not unknown


def test_no_tracked_file_names_a_machine():
    local = re.compile(r"(?<![\w.])/(?:" + "|".join(["work", "tmp", "root", "home", "Users", "opt"]) + r")/\w")
    found = []
    for file in tracked():
        if file.suffix in {".png", ".npz"}:
            continue
        text = re.sub(r'"image/png": "[^"]*"', "", file.read_text(encoding="utf-8"))
        found += [f"{file.relative_to(ROOT)}: {m.group()}" for m in local.finditer(text)]
    assert not found


def test_lock_names_no_index_and_ends_with_the_package():
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    assert lines[-1] == "-e ." and not any(line.startswith(("-i", "--", "-f")) or "://" in line or "@" in line for line in lines)
    wanted = dict(re.findall(r"^([\w-]+)==(\S+)$", (ROOT / "requirements.in").read_text(), re.MULTILINE))
    locked = dict(re.findall(r"^([\w-]+)==(\S+)$", "\n".join(lines), re.MULTILINE))
    assert {name: locked.get(name) for name in wanted} == wanted
