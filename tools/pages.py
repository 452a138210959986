"""Write what is generated from the chapters: the pages API and "Paper to book", the table of the notation page,
the picture and the list of chapters of the README, and the cards of the landing page with their thumbnails.

    python tools/pages.py [--check]
"""

import argparse
import ast
import base64
import io
import os
import re
import sys
import textwrap
import tomllib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image
from prose import measure
from tangle import DEFINITIONS, PACKAGE, ROOT, cell_name, headline, marker, module_file, module_sources, option, read_chapters, write_atomically

NOTE = "<!-- Written by tools/pages.py; edit its sources, not this page. -->\n\n"
PICTURE = "book/use/classifier.ipynb"                      # its first figure stands in the README
LABEL = re.compile(r"\$\$[ \t]*\(([\w-]+)\)|^:label:[ \t]*(eq-[\w-]+)", re.MULTILINE)


class Cell(NamedTuple):
    """A marked code cell."""
    path: str           # of the chapter
    name: str           # e.g. gate-07
    labels: list        # that the marker names
    source: str


def equations(chapters):
    """(label, path) of every labelled equation, in the order of the book."""
    return [("".join(found), path) for path, notebook in chapters.items() for cell in notebook.cells
            if cell.cell_type == "markdown" for found in LABEL.findall(cell.source)]


def marked(chapters, kind):
    """The cells of one kind, in the order of the book."""
    return [Cell(path, cell_name(Path(path).stem, i), marker(cell)[1], cell.source)
            for path, notebook in chapters.items() for i, cell in enumerate(notebook.cells) if marker(cell)[0] == kind]


def exports(chapters):
    """(chapter path, cell, definition) of every public function and class that a chapter exports."""
    return [(cell.path, cell, node) for cell in marked(chapters, "export") for node in ast.parse(cell.source).body
            if isinstance(node, DEFINITIONS) and not node.name.startswith("_")]


def signature(node):
    """How a function or class is called, as written."""
    if not isinstance(node, ast.ClassDef):
        returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        return f"{node.name}({ast.unparse(node.args)}){returns}"
    init = next((n for n in node.body if isinstance(n, DEFINITIONS) and n.name == "__init__"), None)
    if init:
        return f"{node.name}({ast.unparse(init.args).removeprefix('self').lstrip(', ')})"
    fields = [f"{n.target.id}={ast.unparse(n.value)}" if n.value else n.target.id for n in node.body if isinstance(n, ast.AnnAssign)]
    return f"{node.name}({', '.join(fields)})"


def described(node):
    """A signature and its docstring as a block that keeps the docstring's layout."""
    call = textwrap.wrap(signature(node), 80, subsequent_indent=" " * (len(node.name) + 1), break_long_words=False, break_on_hyphens=False)
    return ["```text", *call, *textwrap.indent(ast.get_docstring(node) or "", "    ").splitlines(), "```", ""]


def entry(node):
    """Markdown for one public name: signature, docstring, equations, and the methods of a class."""
    lines = [f"### `{node.name}`", "", *described(node)]
    if labels := re.findall(r"eq-[\w-]+", ast.get_docstring(node) or ""):
        lines += ["Equations: " + ", ".join(f"{{eq}}`{label}`" for label in dict.fromkeys(labels)) + ".", ""]
    if isinstance(node, ast.ClassDef):
        for method in node.body:
            if isinstance(method, DEFINITIONS) and not method.name.startswith("_"):
                lines += described(method)
    return lines


def api_page(chapters, root):
    """Every public name of every module, with its docstring and its chapter."""
    out = ["# API", "", "Every public name of `cmn_literate`, module by module in the order of the chapters that derive them.",
           "The name in square brackets in a docstring is the label of the equation that the function computes.", ""]
    for module, path in module_sources(chapters, root).items():
        if not module_file(module, root).exists():                  # not tangled yet
            continue
        source = module_file(module, root).read_text(encoding="utf-8")
        tree = ast.parse(source)
        defined = {n.name: n for n in tree.body if isinstance(n, DEFINITIONS)}
        defined |= {t.id: n for n in tree.body if isinstance(n, ast.Assign) for target in n.targets for t in ast.walk(target)
                    if isinstance(t, ast.Name)}
        origin = {a.name: n.module for n in tree.body if isinstance(n, ast.ImportFrom) for a in n.names}
        link = os.path.relpath(path, "book/validate")
        out += [f"## `{PACKAGE}.{module}`", "", f"Chapter: [{headline(chapters[path])[0]}]({link})", ""]
        for name in ast.literal_eval(defined["__all__"].value):
            if name not in defined:
                out += [f"`{name}` is re-exported from `{origin[name]}`.", ""]
            elif isinstance(defined[name], DEFINITIONS):
                out += entry(defined[name])
            else:
                out += [f"### `{name}`", "", "```python", ast.get_source_segment(source, defined[name]), "```", ""]
    return "\n".join(out).rstrip() + "\n"


def table(head, rows):
    """A Markdown table."""
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]) + "\n"


def anchors(chapters, path):
    """{erratum: link target} of a chapter's headings that begin with an id, such as 'E12a One omega or many'."""
    headings = [line[4:] for cell in chapters[path].cells if cell.cell_type == "markdown"
                for line in cell.source.splitlines() if re.match(r"### [EN]\d+[a-z]? ", line)]
    return {h.split()[0]: re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def display(latex):
    """A display with one line for each formula; they are separated by ',\\;'."""
    return "$$\n\\begin{gathered}\n" + ",\\\\\n".join(" ".join(part.split()) for part in latex.split(r",\;")) + "\n\\end{gathered}\n$$"


def paper_entry(row, link, title, source, home, checks):
    """One display equation of the paper: the formula, and where the book derives, computes and checks it."""
    paths = dict.fromkeys(home[label] for label in row["labels"])
    derived = [f"[{title(path)}]({link(path)}) " + ", ".join(f"{{eq}}`{label}`" for label in row["labels"] if home[label] == path)
               for path in paths]
    code = [f"[`{name}`]({link(source[name.split('.')[0]])})" for name in row["functions"]]
    cells = dict.fromkeys((checks[v].name, checks[v].path) for v in row["verify"])
    lines = [f"Derived in {'; '.join(derived)}.", f"Computed by {', '.join(code)}." if code else "",
             f"Checked in {', '.join(f'[{name}]({link(path)})' for name, path in cells)}."]
    name = f", `{row['name']}`" if row.get("name") else ""
    return [f"**{row['id']}**{name}: {row['title']}", display(row["latex"]), f"{row['verdict'].capitalize()}. {row['note']}".strip(),
            " ".join(filter(None, lines))]


def first_checks_at_home(chapters, home):
    """(label, cell) of the first check of each equation in the chapter that derives it."""
    return [(label, cell) for cell in reversed(marked(chapters, "verify")) for label in cell.labels if home.get(label) == cell.path]


def paper_page(rows, chapters, root):
    """Where each display equation of the paper is derived, implemented and checked."""
    link, errata = lambda path: os.path.relpath(path, "book/validate"), "book/validate/errata.ipynb"
    title = lambda path: headline(chapters[path])[0].partition(":")[0].partition(",")[0]
    where = {"source": {module.rpartition(".")[2]: path for module, path in module_sources(chapters, root).items()}, "home": dict(equations(chapters)),
             "checks": {label: cell for cell in reversed(marked(chapters, "verify")) for label in cell.labels}}
    where["checks"] |= {label: cell for label, cell in first_checks_at_home(chapters, where["home"])}
    place = anchors(chapters, errata) if errata in chapters else {}
    erratum = lambda e: f"[{e}]({link(errata)}{'#' * (e in place)}{place.get(e, '')})"
    overview, entries = [], []
    for row in rows:
        ids = [erratum(e) for e in row.get("errata", [])]
        overview.append([row["id"].removeprefix("l. "), row["where"], row["title"], f"{row['verdict']} {', '.join(ids)}".strip(),
                         ", ".join(f"{{eq}}`{label}`" for label in row["labels"])])
        note = re.sub(r"\b[EN]\d+[a-z]?\b", lambda m: erratum(m[0]), row.get("note", ""))
        entries += paper_entry(row | {"note": note}, link, title, **where)
    corrected = sum(row["verdict"] == "corrected" for row in rows)
    return (f"# Paper to book\n\nThe paper {{cite}}`heins2024cavicmn` displays {len(rows)} equations in its main text and in its appendices A and B. "
            f"Here is each of them, in the order of the paper. {len(rows) - corrected} are right as printed. {corrected} are corrected, "
            f"with a demonstration or a line in [the errata]({link(errata)}).\n\n"
            'The line is that of the LaTeX source on which a display begins. The last column has the equations of this book; '
            "the formulas, the functions and the checks stand below the table.\n\n"
            + table(["line", "section", "equation", "verdict", "here"], overview)
            + "\n## The formulas, one by one\n\nAs the paper prints them, shortened.\n\n" + "\n\n".join(entries) + "\n")


def symbol_table(symbols):
    """The table of the notation page."""
    rows = [[f"${s['latex']}$".replace("|", r"\vert "), s["meaning"], f"`{s['code']}`" if s.get("code") else "",
             f"`{s['shape']}`" if s.get("shape") else ""] for s in symbols]
    return table(["symbol", "meaning", "in code", "shape"], rows)


def pages(root=ROOT):
    """{path: text} of every generated page whose sources exist."""
    chapters = read_chapters(root)
    out = {"book/validate/api.md": NOTE + api_page(chapters, root)}
    if (root / "book/paper.toml").exists():
        rows = tomllib.loads((root / "book/paper.toml").read_text(encoding="utf-8"))["equation"]
        out["book/validate/paper_to_book.md"] = NOTE + paper_page(rows, chapters, root)
    if (root / "book/symbols.toml").exists() and (root / "book/start/notation.md").exists():
        symbols = next(iter(tomllib.loads((root / "book/symbols.toml").read_text(encoding="utf-8")).values()))
        out["book/start/notation.md"] = insert(root / "book/start/notation.md", {"symbols": symbol_table(symbols)})
    if (root / "README.md").exists():
        out["README.md"] = insert(root / "README.md", {"chapters": chapter_list(chapters)})
    if (root / LANDING).exists():
        out[LANDING] = insert(root / LANDING, {"routes": route_table(chapters), "cards": chapter_cards(chapters, root)})
        out |= thumbnails(chapters, root)
    if PICTURE in chapters and (png := picture(chapters[PICTURE])):
        out["_static/picture.png"] = png
    return out


def insert(path, texts):
    """The file with each text of {name: text} between its marks <!-- begin name --> and <!-- end name -->, if it has them."""
    page = path.read_text(encoding="utf-8")
    for name, text in texts.items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        before, _, rest = page.partition(begin)
        page = f"{before}{begin}\n{text}{end}{rest.partition(end)[2]}" if rest else before
    return page


def chapter_list(chapters):
    """The chapters with the first sentence of their claims, for the README."""
    lines = [(path, *headline(notebook)) for path, notebook in chapters.items()]
    return "".join(f"- [{title}]({path}): {first_sentence(claim)}\n" for path, title, claim in lines)


# ---- the cards of the landing page: number, title, first sentence of the claim, minutes, a thumbnail

CARD = 360                                                  # pixels: width of a thumbnail
LANDING = "book/intro.md"
ROUTES = {
    "Understand": "start/why ideas/evidence ideas/stick_breaking ideas/polya_gamma network/simulate network/elbo network/cavi network/predict",
    "Use": "start/why use/datasets use/metrics use/classifier use/restarts use/uncertainty results/against_others",
    "Validate": "start/why network/elbo network/cavi validate/validate_yours validate/errata",
}


def first_sentence(claim):
    """The first sentence of a claim."""
    return re.split(r"(?<=[.?!])\s+(?=[A-ZÀ-Ý*$`])", claim, maxsplit=1)[0]


def minutes(notebook):
    """Minutes of reading: one for every 200 words of the reading line, and one for every three figures, each rounded up."""
    read = measure(notebook)
    return -(-read.words // 200) - (-read.figures // 3)


def thumbnail(png):
    """A small copy of a figure, the upper part of a tall one, in 32 colours."""
    image = Image.open(io.BytesIO(png)).convert("RGB")
    small = image.resize((CARD, max(1, round(CARD * image.height / image.width))), Image.Resampling.LANCZOS)
    small = small.crop((0, 0, CARD, min(small.height, 2 * CARD // 3)))
    out = io.BytesIO()
    small.quantize(32, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
    return out.getvalue()


def same_thumbnail(stored, new):
    """Whether a stored thumbnail shows what the new one shows; a few pixels may round to another colour of the palette."""
    a, b = (np.asarray(Image.open(io.BytesIO(png)).convert("RGB"), dtype=int) for png in (stored, new))
    return a.shape == b.shape and np.abs(a - b).mean() <= 1


def thumbnails(chapters, root):
    """{path of the thumbnail: bytes} of every chapter that has a figure; stored bytes stay where they show the same."""
    out = {}
    for path, notebook in chapters.items():
        if png := picture(notebook):
            name, new = f"_static/thumbs/{Path(path).stem}.png", thumbnail(png)
            stored = (root / name).read_bytes() if (root / name).exists() else None
            out[name] = stored if stored and same_thumbnail(stored, new) else new
    return out


def picture_alt(notebook, title):
    """What the alt text of a chapter's first figure says."""
    said = next((option(cell.source, "alt") for cell in notebook.cells if cell.cell_type == "code"
                 and any("image/png" in output.get("data", {}) for output in cell.outputs)), "")
    return said or f"Figure of the chapter {title}"


def captions(root):
    """{part: its caption} of _toc.yml."""
    toc = (root / "_toc.yml").read_text(encoding="utf-8")
    return {part: caption for caption, part in re.findall(r"- caption: *(.+)\n +chapters:\n +- file: book/(\w+)/", toc)}


def chapter_cards(chapters, root):
    """The cards of all chapters, part after part, numbered through."""
    lines, part, names = [], None, captions(root)
    for number, (path, notebook) in enumerate(chapters.items(), 1):
        title, claim = headline(notebook)
        here = path.split("/")[1]
        if here != part:
            lines += ["::::"] * (part is not None) + ["", f"### {names.get(here, here)}", "", "::::{grid} 1 2 2 3", ":gutter: 2", ""]
            part = here
        lines += [f":::{{grid-item-card}} {number} · {title}", f":link: {os.path.relpath(path, 'book').removesuffix('.ipynb')}", ":link-type: doc"]
        if picture(notebook):
            lines += [f":img-bottom: ../_static/thumbs/{Path(path).stem}.png", f":img-alt: {picture_alt(notebook, title)}"]
        lines += ["", first_sentence(claim), "", f"*{minutes(notebook)} minutes*", ":::", ""]
    return "\n".join([*lines, *["::::"] * (part is not None)]).strip() + "\n"


def route_table(chapters):
    """One row for each route through the book: its chapters with their minutes, and the sum."""
    rows = []
    for name, route in ROUTES.items():
        stops = [(f"book/{stop}.ipynb", stop) for stop in route.split() if f"book/{stop}.ipynb" in chapters]
        times = [minutes(chapters[path]) for path, _ in stops]
        links = [f"[{headline(chapters[path])[0]}]({stop}.ipynb) ({t})" for (path, stop), t in zip(stops, times)]
        rows.append([f"**{name}**", ", ".join(links), f"{sum(times)} min"])
    return table(["route", "chapters (minutes)", "in all"], rows)


def picture(notebook):
    """PNG bytes of the first figure of a notebook, None before it has been executed."""
    return next((base64.b64decode(output["data"]["image/png"]) for cell in notebook.cells if cell.cell_type == "code"
                 for output in cell.outputs if "image/png" in output.get("data", {})), None)


def main(argv=None, root=ROOT):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is stale")
    args = parser.parse_args(argv)
    wanted = {path: text if isinstance(text, bytes) else text.encode() for path, text in pages(root).items()}
    stale = [(path, data) for path, data in wanted.items() if not (root / path).exists() or (root / path).read_bytes() != data]
    for path, data in stale:
        if args.check:
            print(f"pages: {path} is stale; run 'make notebooks'", file=sys.stderr)
        else:
            write_atomically(root / path, data)
            print(f"wrote {path}")
    return 1 if args.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
