"""The rules of the house, read from the files: one direction of imports, labels that resolve, checks that exist."""

import ast
import importlib
import io
import re
import subprocess
import sys
import tokenize
import tomllib
import unicodedata
from collections import Counter
from functools import cache

import execute
import nbformat
import pages
import pytest
from samples import SAMPLED
from tangle import ABOVE, HAND_WRITTEN, PACKAGE, PLAIN, ROOT, cell_name, chapter_order, marker, module_file, module_sources, package_imports, read_chapters

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


def dotted(file):
    """Name of a file of the package within it, e.g. "network.gate", or "" for its own __init__."""
    return ".".join(p for p in file.relative_to(ROOT / PACKAGE).with_suffix("").parts if p != "__init__")


FILES = {dotted(file): file for file in sorted((ROOT / PACKAGE).rglob("*.py"))}          # of the package, plain ones too
TREES = {name: ast.parse(file.read_text()) for name, file in FILES.items()}


def inner_imports(tree):
    """(module, name or "") of everything that a tree imports from the package, anywhere in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((a.name.removeprefix(PACKAGE).lstrip("."), "") for a in node.names if a.name.split(".")[0] == PACKAGE)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are written in full"
            if node.module.split(".")[0] == PACKAGE:
                module = node.module.removeprefix(PACKAGE).lstrip(".")
                for a in node.names:
                    inner = f"{module}.{a.name}".lstrip(".")
                    yield (inner, "") if inner in FILES else (module, a.name)


GRAPH = {name: {module for module, _ in inner_imports(tree)} for name, tree in TREES.items()}


def circles(graph):
    """Every way back to a module that a walk along the imports finds, e.g. "a -> b -> a"."""
    found, done = [], set()

    def visit(name, path):
        if name in path:
            found.append(" -> ".join([*path[path.index(name):], name]))
        elif name not in done:
            for other in sorted(graph[name]):
                visit(other, [*path, name])
            done.add(name)
    for name in graph:
        visit(name, [])
    return found


def test_no_circle_of_imports():
    assert not circles(GRAPH)
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": {"b"}}) == ["b -> c -> b"]


def test_checks_and_files_stand_below_everything():
    """What every chapter may import imports no chapter."""
    upward = [f"{name} imports {other}" for name in PLAIN for other in GRAPH[name] if other not in ("", *PLAIN)]
    assert not upward


def test_theory_does_not_import_engineering():
    order = list(dict.fromkeys(path.split("/")[1] for path in chapter_order(ROOT)))
    assert [part for part in order if part in ("ideas", "network", "engineering", "use", "roads")] == ["ideas", "network", "engineering", "use", "roads"]
    upward = [f"{name} imports {other}" for name in GRAPH for other in GRAPH[name]
              if name.split(".")[0] in ("ideas", "network") and other.split(".")[0] not in ("ideas", "network", *PLAIN)]
    assert not upward


def users():
    """(where, tree) of the package, of each code cell of the book, and of tests and tools."""
    yield from ((f"{PACKAGE}/{name}", tree) for name, tree in TREES.items())
    for path, notebook in CHAPTERS.items():
        yield from ((f"{path}, cell {cell_name(path.rpartition('/')[2][:-6], i)}", ast.parse(cell.source)) for i, cell in enumerate(notebook.cells)
                    if cell.cell_type == "code")
    for folder in ("tools", "experiments", "conformance", "benchmarks", "examples"):
        yield from ((file.relative_to(ROOT).as_posix(), ast.parse(file.read_text())) for file in sorted((ROOT / folder).rglob("*.py")))


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def test_no_private_name_crosses_a_module():
    """Neither by an import nor as an attribute of an imported module; an exported `_x` belongs to its chapter."""
    found = []
    for where, tree in users():
        bound = {}
        for node in ast.walk(tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)) and (getattr(node, "module", None) or "").split(".")[0] in ("", PACKAGE):
                for alias in node.names:
                    if isinstance(node, ast.ImportFrom) and is_private(alias.name):
                        found.append(f"{where}: {alias.name} of {node.module}")
                    full = f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
                    if full.removeprefix(PACKAGE).lstrip(".") in FILES and full.split(".")[0] == PACKAGE:
                        bound[alias.asname or full.split(".")[-1 if isinstance(node, ast.ImportFrom) else 0]] = full
        found += [f"{where}: {node.value.id}.{node.attr}" for node in ast.walk(tree)
                  if isinstance(node, ast.Attribute) and is_private(node.attr) and isinstance(node.value, ast.Name) and node.value.id in bound]
    assert not found


@pytest.mark.parametrize("name", FILES)
def test_module_and_its_functions_are_short(name):
    n_lines = len(FILES[name].read_text().splitlines())
    assert n_lines <= 450, f"{n_lines} lines"
    lengths = {node.name: node.end_lineno - min([node.lineno, *(d.lineno for d in node.decorator_list)]) + 1
               for node in ast.walk(TREES[name]) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
    assert {function: n for function, n in lengths.items() if n > 50} == {}


def test_no_public_name_is_defined_twice():
    homes = {}
    for name in (*MODULES, *PLAIN, *ABOVE):
        for node in TREES[name].body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                bound = [node.name]
            else:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
                bound = [leaf.id for target in targets for leaf in ast.walk(target) if isinstance(leaf, ast.Name)]
            for public in (b for b in bound if not b.startswith("_")):
                homes.setdefault(public, set()).add(name)
    assert {name: sorted(where) for name, where in homes.items() if len(where) > 1} == {}


@pytest.mark.parametrize("file", sorted((ROOT / PACKAGE).rglob("*.py")), ids=lambda p: p.name)
def test_package_stands_alone(file):
    tree = ast.parse(file.read_text())
    assert not {"book", "experiments", "tests", "tools", "conformance", "cmn_conformance", "tangle", "execute", "pages"} & set(imports(tree))
    outside = set(imports(tree, top_level=True)) - CORE - {PACKAGE} - set(sys.stdlib_module_names)
    assert outside <= ({"sklearn"} if file.name in ("classifier.py", "estimators.py", "regressor.py") else set())


def test_hand_written_files_hold_no_mathematics():
    for name in ("__init__.py", "__main__.py", "conformance.py"):
        if (ROOT / PACKAGE / name).exists():
            assert not {"scipy", "autograd"} & set(imports(ast.parse((ROOT / PACKAGE / name).read_text())))
    assert {m.split(".")[0] for m in MODULES}.isdisjoint(HAND_WRITTEN)


def test_front_door_leads_to_every_name():
    package = importlib.import_module(PACKAGE)
    assert [name for name in [*package.__all__, "cmn_adapter"] if not hasattr(package, name)] == []


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


@cache
def called_in_checks(path):
    """Names that the verify cells of a chapter mention."""
    return {name.id if isinstance(name, ast.Name) else name.attr for cell in VERIFY if cell.path == path
            for name in ast.walk(ast.parse(cell.source)) if isinstance(name, (ast.Name, ast.Attribute))}


@pytest.mark.parametrize("path, node", FUNCTIONS, ids=[f"{p.rpartition('/')[2][:-6]}.{n.name}" for p, n in FUNCTIONS])
def test_function_names_its_equation_and_is_checked(path, node):
    doc = ast.get_docstring(node)
    assert doc, "no docstring"
    labels = re.findall(r"\beq-[\w-]+", doc)
    assert labels, "the docstring names no equation, as [eq-...]"
    assert [label for label in labels if label not in LABELS] == []
    assert node.name in called_in_checks(path), "no verify cell of its chapter calls it"


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


def test_list_of_modules_leads_to_a_page_for_each():
    below = [path for path in chapter_order(ROOT) if path.startswith(f"{pages.API}/")]
    assert [f"{path}.md" for path in below] == [pages.api_path(module) for module in (*MODULES, *PLAIN, *ABOVE)]
    text = (ROOT / f"{pages.API}.md").read_text()
    assert [path for path in below if f"]({path.removeprefix('book/validate/')}.md)" not in text] == []


def parts():
    """{folder: paths of its pages without suffix} of every part, both in the order of _toc.yml; the list of modules leads to those below it."""
    out = {}
    for path in (p for p in chapter_order(ROOT) if not p.startswith(f"{pages.API}/")):
        out.setdefault(path.split("/")[1], []).append(path)
    return out


@pytest.mark.parametrize("part", parts())
def test_part_begins_with_its_page_which_leads_to_every_chapter(part):
    page, *chapters = parts()[part]
    assert page == f"book/{part}/index"
    text = (ROOT / f"{page}.md").read_text()
    linked = {target.rpartition(".")[0] for target in re.findall(r"\]\(([\w./-]+)\)", text)}
    assert [path for path in chapters if path.rpartition("/")[2] not in linked] == []
    prose = re.sub(r"\]\([^)]*\)", "]", text.partition("\n\n")[2].partition("\n- ")[0])
    assert len(re.findall(r"[.?](?=\s|$)", prose)) == 5, "five sentences before the map"


def glossary():
    """[(term, meaning)] of the glossary, in its order."""
    text = re.search(r"```\{glossary\}\n(.*?)\n```", (ROOT / "book/start/glossary.md").read_text(), re.DOTALL)[1]
    return [tuple(re.fullmatch(r"(\S.*)\n  (\S.*)", entry).groups()) for entry in text.split("\n\n")]


def test_glossary_is_in_alphabetical_order():
    terms = [unicodedata.normalize("NFKD", term).encode("ascii", "ignore").decode().lower() for term, _ in glossary()]
    assert len(terms) >= 40 and terms == sorted(set(terms))


@pytest.mark.parametrize("term, meaning", glossary(), ids=[term for term, _ in glossary()])
def test_term_has_one_sentence_and_a_chapter_that_speaks_of_it(term, meaning):
    links = re.findall(r"\[[^\]]+\]\((\.\./[\w./]+)\)", meaning)
    assert len(links) == 1 and meaning.endswith(".") and meaning.partition("; see ")[2].startswith("[")
    chapter = (ROOT / "book/start" / links[0]).resolve().relative_to(ROOT).as_posix()
    prose = "\n".join(c.source for c in CHAPTERS[chapter].cells if c.cell_type == "markdown").lower()
    words = [w for w in re.findall(r"[\w-]+", term.lower()) if w not in {"or", "of", "and"}]
    assert any(re.search(rf"\b{re.escape(w)}", prose) for w in words), f"{chapter} does not use the word"


# ---- paper, symbols, files

def rows(name, key=None):
    """The tables [[key]] of a file of data, the first ones by default."""
    file = ROOT / "book" / name
    data = tomllib.loads(file.read_text()) if file.exists() else {}
    return data.get(key, []) if key else next((v for v in data.values() if isinstance(v, list)), [])


WORST = ["right", "right up to a slip", "ambiguous", "wrong"]                   # the four classes, the worst last
CLASS_OF = {row["id"]: row["class"] for row in rows("paper.toml", "erratum")}


@pytest.mark.parametrize("row", rows("paper.toml"), ids=lambda r: r["id"])
def test_row_of_the_paper_points_at_what_exists(row):
    functions = {f"{path.rpartition('/')[2][:-6]}.{node.name}" for path, _, node in EXPORTS}
    checked = {label for cell in VERIFY for label in cell.labels}
    assert row["latex"] and row["labels"] and row["verify"]
    assert [label for label in row["labels"] if label not in LABELS] == []
    assert [f for f in row.get("functions", []) if f not in functions] == []
    assert [label for label in row.get("verify", []) if label not in checked] == []
    assert row["verdict"] == max((CLASS_OF[e] for e in row.get("errata", [])), key=WORST.index, default="right"), "the class of its worst erratum"


def test_ids_of_the_paper_are_unique():
    assert [i for key in ("equation", "erratum") for i, n in Counter(row["id"] for row in rows("paper.toml", key)).items() if n > 1] == []


def test_every_display_of_the_paper_has_a_row():
    lines = [int(row["id"].removeprefix("l. ")) for row in rows("paper.toml")]
    assert len(lines) == tomllib.loads((ROOT / "book/paper.toml").read_text())["displays"]
    assert lines == sorted(lines), "not in the order of the paper"
    numbers = [row["number"] for row in rows("paper.toml") if "number" in row]
    assert numbers == list(range(1, len(numbers) + 1)), "the paper's own numbers have no gap"


def test_figures_and_sentences_of_the_paper_have_a_verdict_and_a_page():
    data = tomllib.loads((ROOT / "book/paper.toml").read_text())
    assert {f"Figure {i}" for i in range(1, 10)} | {"Table 1"} <= {row["id"] for row in data["element"]}
    assert [row["what"] for row in data["element"]
            if row["verdict"] not in ("repeated", "repeated with a difference", "not repeated") or not row["note"]] == []
    assert {row["page"] for row in data["element"]} == set(data["pages"])
    links = [*data["pages"].values(), *(row["chapter"] for row in data["erratum"] if row["chapter"])]
    assert [link for link in links if not (ROOT / "book/validate" / link).exists()] == []


@pytest.mark.parametrize("row", rows("paper.toml", "erratum"), ids=lambda r: r["id"])
def test_erratum_is_in_the_chapter(row):
    chapter = "\n".join(c.source for c in CHAPTERS[pages.ERRATA].cells if c.cell_type == "markdown")
    assert re.search(rf"^(### {row['id']} |\| {row['id']} \|)", chapter, re.MULTILINE) and row["class"] in WORST


def test_every_erratum_of_consequence_is_executed():
    shown = {}
    for cell in CHAPTERS[pages.ERRATA].cells:                       # the code below each "### E12a ..."
        if heading := re.findall(r"^### ([EN]\d+[a-z]?) ", cell.source, re.MULTILINE):
            assert len(heading) == 1
            here = heading[0]
            shown[here] = ""
        elif cell.cell_type == "code" and shown:
            shown[here] += cell.source
    assert [e for e in CLASS_OF if e in shown] == list(shown), "not in the order of paper.toml"
    assert [e for e, kind in CLASS_OF.items() if kind in ("wrong", "ambiguous") and e not in shown] == []
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


def test_lock_names_no_index_and_ends_with_the_package_and_the_kit():
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    assert lines[-2:] == ["-e .", "-e ./conformance"] and not any(line.startswith(("-i", "--", "-f")) or "://" in line or "@" in line for line in lines)
    wanted = dict(re.findall(r"^([\w-]+)==(\S+)$", (ROOT / "requirements.in").read_text(), re.MULTILINE))
    locked = dict(re.findall(r"^([\w-]+)==(\S+)$", "\n".join(lines), re.MULTILINE))
    assert {name: locked.get(name) for name in wanted} == wanted


def test_sampled_tests_are_there():
    """A name that has moved would silently cost its minutes again."""
    missing = [name for name in SAMPLED if f"def {name.partition('::')[2]}(" not in (ROOT / "tests" / name.partition("::")[0]).read_text()]
    assert not missing and all(n > 1 for n in SAMPLED.values())
