"""Write the modules of cmn_literate from the `#| export` cells of the chapters.

    python tools/tangle.py [notebook ...] [--check]

A chapter says in its metadata that it exports, {"tangle": true}; its module has its folder and its name, so that
book/network/gate.ipynb writes cmn_literate/network/gate.py. The order of the chapters is the order of _toc.yml (a chapter
that is commented out there keeps its place), and a module may import only modules of earlier chapters.
"""

import argparse
import ast
import json
import os
import re
import sys
import textwrap
from pathlib import Path

try:
    import nbformat
except ModuleNotFoundError:                                   # --check then reads the notebooks as plain JSON
    nbformat = None

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "cmn_literate"
# what no chapter writes, relative to the package: no mathematics stands there
PLAIN = ("checks", "commands", "compiled", "csv_rows", "estimators", "file_sources", "inputs", "learners", "palette", "parallel", "readers",
         "road_checks", "row_sources", "special", "storage", "tilt_files")             # modules that every chapter may import
ABOVE = ("distributed", "regress")                                 # and modules that no chapter imports: they import the chapters
HAND_WRITTEN = {"__init__.py", "__main__.py", *(f"{m}.py" for m in (*PLAIN, *ABOVE)), "book.mplstyle", "py.typed", "conformance.py"}
MARKERS = ("export", "verify", "show", "solution", "setup", "aside")
FOLDED = {"verify", "setup", "aside"}                      # what is closed on the page unless it says `open`
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class TangleError(Exception):
    """A chapter that cannot become a module; the message names notebook and cell."""


def cell_name(stem, index):
    """The id that tools/execute.py gives to the cell at this position, e.g. 'gate-07'."""
    return f"{stem}-{index + 1:02d}"


def marker(cell):
    """(kind, arguments) of a code cell's first line, e.g. ('verify', ['eq-stick']), or (None, []).  The words open and fold are left out."""
    first = cell.source.partition("\n")[0]
    if cell.cell_type != "code" or not re.match(r"#\s*\|", first):
        return None, []
    words = first[2:].split() if first.startswith("#| ") else []
    if not words or words[0] not in MARKERS:
        raise TangleError(f"unknown marker {first!r}; expected '#| ' and one of {', '.join(MARKERS)}")
    return words[0], words[1 + (words[1:2] in (["open"], ["fold"])):]


def folded(cell):
    """Whether the page shows one line in the place of this cell's code; only the code of a figure and of a solution has no choice."""
    kind = marker(cell)[0]
    word = (cell.source.partition("\n")[0].split() + ["", ""])[2] if kind else ""
    return kind in ("show", "solution") or kind in FOLDED and word != "open" or word == "fold"


def header(source):
    """The lines '#| ...' with which a code cell begins."""
    lines = source.splitlines()
    return lines[:next((i for i, line in enumerate(lines) if not line.startswith("#| ")), len(lines))]


def option(source, name):
    """What the lines '#| name: ...' below a cell's marker say, joined."""
    said = [line[3:].partition(":")[2].strip() for line in header(source)[1:] if line[3:].startswith(f"{name}:")]
    return " ".join(said)


def chapter_order(root=ROOT):
    """Paths of the chapters, without suffix, in the order of _toc.yml."""
    toc = (root / "_toc.yml").read_text()
    return re.findall(r"^[\s#]*- file: *(book/\S+)", toc, re.MULTILINE)


class Node(dict):
    """A JSON object whose entries are attributes."""
    __getattr__ = dict.__getitem__


def read_notebook(path):
    """A notebook of format 4; without nbformat as Nodes, which is all that tangling needs."""
    if nbformat:
        return nbformat.read(path, as_version=4)
    notebook = json.loads(path.read_text(encoding="utf-8"), object_hook=Node)
    for cell in notebook.cells:
        cell["source"] = "".join(cell.source)
    return notebook


def read_chapters(root=ROOT):
    """{path relative to root: notebook} of every chapter, in the order of _toc.yml."""
    place = {name: i for i, name in enumerate(chapter_order(root))}
    paths = [p.relative_to(root) for p in (root / "book").rglob("*.ipynb")
             if not any(part.startswith(".") for part in p.relative_to(root).parts)]
    paths.sort(key=lambda p: (place.get(p.with_suffix("").as_posix(), len(place)), p))
    return {p.as_posix(): read_notebook(root / p) for p in paths}


def module_sources(chapters, root=ROOT):
    """{module: notebook path} in chapter order, e.g. {"network.gate": "book/network/gate.ipynb"}."""
    listed, owner = set(chapter_order(root)), {}
    for path, notebook in chapters.items():
        tangles = notebook.metadata.get("tangle")
        if tangles is None:
            continue
        module = path.removeprefix("book/").removesuffix(".ipynb").replace("/", ".")
        if tangles is not True or not all(part.isidentifier() for part in module.split(".")) or module.split(".")[0] in HAND_WRITTEN:
            raise TangleError(f"{path}: 'tangle' must be true and the path must name a module, got {tangles!r} for {module!r}")
        if path.removesuffix(".ipynb") not in listed:
            raise TangleError(f"{path}: not in _toc.yml, so its place in the order is unknown")
        owner[module] = path
    return owner


def parse(source, where):
    """The syntax tree of an export cell; errors name the cell."""
    try:
        return ast.parse(source, filename=where)
    except SyntaxError as error:
        line = source.splitlines()[(error.lineno or 1) - 1].strip() if source else ""
        if re.match(r"[%!]|\w+\s*=\s*[%!]", line):
            raise TangleError(f"{where}: line {error.lineno} is a magic ({line!r}); a module is plain Python") from None
        raise TangleError(f"{where}: line {error.lineno}: {error.msg}: {line!r}") from error


def package_imports(tree):
    """Names of the modules of the package that the tree imports, anywhere in it, e.g. 'network.gate'."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            names = [f"{PACKAGE}.{'.' * node.level}{node.module or ''}"]
        elif isinstance(node, ast.ImportFrom):
            folder = node.module.count(".") < 2 and node.module.removeprefix(PACKAGE + ".") not in PLAIN
            names = [f"{node.module}.{a.name}" for a in node.names] if folder else [node.module]
        else:
            continue
        yield from (n.removeprefix(PACKAGE + ".") for n in names if n.split(".")[0] == PACKAGE)


def bindings(statement, where):
    """(name, identity, is public definition) for every name that a top-level statement binds."""
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        for a in statement.names:
            # "import x as x" is how a module says that it re-exports x
            origin = f"{getattr(statement, 'module', '')}:{a.name}"
            yield a.asname or a.name.split(".")[0], origin, a.asname == a.name
    elif isinstance(statement, DEFINITIONS):
        yield statement.name, None, True
    elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            for leaf in target.elts if isinstance(target, ast.Tuple) else [target]:
                if not isinstance(leaf, ast.Name):
                    raise TangleError(f"{where}: line {statement.lineno} assigns to {ast.unparse(leaf)!r}, not to a name")
                yield leaf.id, None, True
    else:
        raise TangleError(f"{where}: line {statement.lineno} is not an import, constant, function or class: "
                          f"{ast.unparse(statement).splitlines()[0]!r}")


def module_file(module, root=ROOT):
    """Path of a module, e.g. cmn_literate/network/gate.py of "network.gate"."""
    return root / PACKAGE / f"{module.replace('.', '/')}.py"


def headline(notebook):
    """Title and claim of a chapter: its heading, and the paragraph that says "The claim.", else the first one below it."""
    text = "\n\n".join(c.source for c in notebook.cells[:6] if c.cell_type == "markdown")
    title = re.search(r"^# +(.+)$", text, re.MULTILINE)
    if not title:
        raise TangleError("the chapter has no title ('# ...')")
    paragraphs = re.split(r"\n\s*\n", text[title.end():].strip())
    said = [p for p in paragraphs if re.match(r"[\w*_>\"'`$(]", p)]
    claim = next((p for p in said if re.match(r"\W*(the |one )*claim\b", p, re.IGNORECASE)), (said or [""])[0])
    claim = re.sub(r"^> ?", "", claim, flags=re.MULTILINE)
    claim = re.sub(r"^\W*(the |one )*claim\b[.:*_ ]*", "", claim, flags=re.IGNORECASE)
    return tuple(" ".join(re.sub(r"\*\*|__|\{[a-z:]+\}", "", s).split()).replace('"""', "'''") for s in (title[1], claim))


def tangle(path, notebook, earlier):
    """Source text of the module of one chapter; `earlier` are the modules it may import."""
    stem, blocks, bound, public = Path(path).stem, [], {}, []
    for index, cell in enumerate(notebook.cells):
        where = f"{path}, cell {cell_name(stem, index)}"
        try:
            if marker(cell)[0] != "export":
                continue
        except TangleError as error:
            raise TangleError(f"{where}: {error}") from None
        tree = parse(cell.source, where)
        body = cell.source.partition("\n")[2].strip("\n")
        if any(isinstance(n, ast.Name) and n.id == "get_ipython" for n in ast.walk(tree)):
            raise TangleError(f"{where}: get_ipython() is a magic; a module is plain Python")
        for name in package_imports(tree):
            if name not in (*earlier, *PLAIN, "__version__"):
                raise TangleError(f"{where}: imports {PACKAGE}.{name}, which no earlier chapter exports")
        for statement in tree.body:
            for name, origin, exported in bindings(statement, where):
                if name in bound and (origin is None or bound[name][0] != origin):
                    raise TangleError(f"{where}: {name!r} is already defined in cell {bound[name][1]}")
                if exported and name not in bound and not name.startswith("_"):
                    public.append(name)
                bound.setdefault(name, (origin, cell_name(stem, index)))
        blocks.append(f"# {path}, cell {cell_name(stem, index)}\n{body}\n")
    if not blocks:
        raise TangleError(f"{path}: names a module but has no '#| export' cell")
    title, claim = headline(notebook)
    doc = f"{title}\n\n{textwrap.fill(claim, 99)}\n" if claim else title
    names = textwrap.fill(f"__all__ = [{', '.join(repr(n) for n in public)}]", 99, subsequent_indent=" " * 11)
    raw = "r" if "\\" in doc else ""
    return "\n\n".join([f"# Tangled from {path} by tools/tangle.py; edit the notebook, not this file.\n"
                        f'{raw}"""{doc}"""\n\n' + names.replace("'", '"') + "\n", *blocks])


def write_atomically(path, text):
    """Replace a file by a text or by bytes in one step: a reader sees the old one or the new one, never half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(text if isinstance(text, bytes) else text.encode())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def main(argv=None, root=ROOT):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebooks", nargs="*", help="chapters to tangle (default: all under book/)")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a module and its chapter disagree")
    args = parser.parse_args(argv)
    try:
        chapters = read_chapters(root)
        owner = module_sources(chapters, root)
    except TangleError as error:
        print(f"tangle: {error}", file=sys.stderr)
        return 1
    wanted = {Path(n).resolve().relative_to(root).as_posix() for n in args.notebooks} or set(chapters)
    problems, earlier = [f"{n}: no such notebook under book/" for n in sorted(wanted - set(chapters))], []
    for module, path in owner.items():
        if path in wanted:
            target = module_file(module, root)
            current = target.read_text(encoding="utf-8") if target.exists() else None
            try:
                text = tangle(path, chapters[path], earlier)
            except TangleError as error:
                problems.append(str(error))
                text = current
            if text != current and args.check:
                problems.append(f"{target.relative_to(root)} {'is missing' if current is None else 'differs from its chapter'}"
                                f" ({path}); run 'make notebooks'")
            elif text != current:
                write_atomically(target, text)
                print(f"tangled {target.relative_to(root)}")
        earlier.append(module)
    if not args.notebooks:
        parts = {module_file(m, root).parent for m in owner}
        expected = {module_file(m, root) for m in owner} | {part / "__init__.py" for part in parts}
        strangers = [p.relative_to(root / PACKAGE) for p in sorted((root / PACKAGE).rglob("*")) if p.is_file() and p not in expected]
        problems += [f"{PACKAGE}/{p.as_posix()} is fed by no chapter and is not in HAND_WRITTEN of tools/tangle.py"
                     for p in strangers if p.parts[0] not in HAND_WRITTEN and not any(s[0] == "." or s == "__pycache__" for s in p.parts)]
    for problem in problems:
        print(f"tangle: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
