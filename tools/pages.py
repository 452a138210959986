"""Write what is generated from the chapters: the pages API and "Paper to book", the tables of the errata and of the notation page,
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

import nbformat
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


# ---- the paper: its equations, its experiments, and what we found about its text (book/paper.toml)

ERRATA = "book/validate/errata.ipynb"
CLASSES = {"wrong": "the printed formula, or number, is something else",
           "ambiguous": "two readings give different results",
           "right up to a slip": "a sign, an index, a word; who knows the matter sees what is meant",
           "right": "looks wrong, is right"}
TABLES = {"right": "right-although-it-looks-wrong"}        # where an entry without a heading stands, else:
SLIPS = "slips-that-mislead-nobody-for-long"


def errata_links(errata, place, page=""):
    """{id: Markdown link} of every erratum: to its heading, or to the table that lists it."""
    return {e["id"]: f"[{e['id']}]({page}#{place.get(e['id'], TABLES.get(e['class'], SLIPS))})" for e in errata}


def tally(rows, key, kinds):
    """How many rows there are of each kind, in words."""
    counts = {kind: sum(row[key] == kind for row in rows) for kind in kinds}
    said = [f"{n} {'is' if n == 1 else 'are'} {kind}" for kind, n in counts.items() if n]
    return ", ".join(said[:-1]) + " and " + said[-1] if len(said) > 1 else "".join(said)


def errata_tables(paper, links):
    """{name: text} of the two tables of the errata chapter: in short, and all entries."""
    errata, displays = paper["erratum"], paper["equation"]
    count = lambda rows, key, kind: str(sum(row[key] == kind for row in rows))
    counts = table(["class", "entries", "displays", "what it means"],
                   [[f"**{kind}**", count(errata, "class", kind), count(displays, "verdict", kind), meaning] for kind, meaning in CLASSES.items()])
    first = sorted((e for e in errata if "first" in e), key=lambda e: e["first"])
    short = table(["if you write your own program", "where", "what to know"], [[links[e["id"]], e["where"], e["says"]] for e in first])
    every = table(["id", "class", "where in the paper", "in a sentence"], [[links[e["id"]], e["class"], e["where"], e["says"]] for e in errata])
    return {"errata in short": f"{counts}\n{short}", "all errata": every}


def errata_chapter(paper, chapters):
    """Text of the errata notebook with its tables renewed, and the line below each heading that says class and place."""
    notebook = nbformat.from_dict(chapters[ERRATA])
    errata = {e["id"]: e for e in paper["erratum"]}
    tables = errata_tables(paper, errata_links(errata.values(), anchors(chapters, ERRATA)))

    def first_line(match):
        e = errata[match[2]]
        book = f"book/validate/{e['chapter']}"
        see = f" See [{headline(chapters[os.path.normpath(book)])[0]}]({e['chapter']})." if e["chapter"] else ""
        prefix = "section " if e["where"][0].isdigit() else "appendix " if e["where"][1] in "., " else ""
        return f"{match[1]}\n\n*{e['class'].capitalize()}: {prefix}{e['where']}.*{see}\n\n"

    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            for name, text in tables.items():
                cell.source = between(cell.source, name, text)
            cell.source = re.sub(r"(?m)^(### ([EN]\d+[a-z]?) .*)\n\n(?:\*(?:Wrong|Ambiguous|Right).*\n\n)?", first_line, cell.source)
    return nbformat.writes(notebook, version=4) + "\n"


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
    return [f"**{equation_number(row)}**, section {row['where']}{name}: {row['title']}", display(row["latex"]),
            f"{row['verdict'].capitalize()}. {row['note']}".strip(), " ".join(filter(None, lines))]


def equation_number(row):
    """The number that a display has in the paper, else the line of the source."""
    return f"({row['number']})" if "number" in row else row["id"]


def with_links(text, links):
    """A text whose ids of errata lead to their entries."""
    return re.sub(r"\b[EN]\d+[a-z]?\b", lambda m: links[m[0]], text)


def element_table(paper, links):
    """What the paper shows and says beside its equations, and the page that repeats it."""
    return table(["item", "section", "what", "verdict", "the difference, or the reason"],
                 [[f"[{e['id']}]({paper['pages'][e['page']]})", e["where"], e["what"], e["verdict"], with_links(e["note"], links)]
                  for e in paper["element"]])


def first_checks_at_home(chapters, home):
    """(label, cell) of the first check of each equation in the chapter that derives it."""
    return [(label, cell) for cell in reversed(marked(chapters, "verify")) for label in cell.labels if home.get(label) == cell.path]


def paper_page(paper, chapters, root):
    """Where each display equation of the paper is derived, implemented and checked, and where its experiments are repeated."""
    link, rows = lambda path: os.path.relpath(path, "book/validate"), paper["equation"]
    title = lambda path: headline(chapters[path])[0].partition(":")[0].partition(",")[0]
    where = {"source": {module.rpartition(".")[2]: path for module, path in module_sources(chapters, root).items()}, "home": dict(equations(chapters)),
             "checks": {label: cell for cell in reversed(marked(chapters, "verify")) for label in cell.labels}}
    where["checks"] |= {label: cell for label, cell in first_checks_at_home(chapters, where["home"])}
    links = errata_links(paper["erratum"], anchors(chapters, ERRATA), link(ERRATA))
    overview, entries = [], []
    for row in rows:
        ids = [links[e] for e in row.get("errata", [])]
        overview.append([equation_number(row), row["where"], row["title"], f"{row['verdict']} {', '.join(ids)}".strip(),
                         ", ".join(f"{{eq}}`{label}`" for label in row["labels"])])
        entries += paper_entry(row | {"note": with_links(row.get("note", ""), links)}, link, title, **where)
    return (f"# Paper to book\n\nThe paper {{cite}}`heins2024cavicmn` displays {len(rows)} equations in its main text and in its appendices A and B. "
            f"Here is each of them, in the order of the paper: {tally(rows, 'verdict', ['right', 'right up to a slip', 'ambiguous', 'wrong'])}. "
            f"A display with several lines is as good as its worst line; [the errata]({link(ERRATA)}) have a demonstration or a line for each departure. "
            f"A second table has [its figures, settings and sentences](#figures-settings-sentences).\n\n"
            "Meant is version 2 on arXiv, of 10 February 2025. The number is that of the paper, counted in its LaTeX source; a display that bears none "
            "is named by the line on which it begins there. The last column has the equations of this book; "
            "the formulas, the functions and the checks stand below the tables.\n\n"
            + table(["equation", "section", "what", "verdict", "here"], overview)
            + "\n## Figures, settings, sentences\n\nWhat the paper shows and says beside its equations: "
            + tally(paper["element"], "verdict", ["repeated", "repeated with a difference", "not repeated"])
            + ". The name in the first column leads to the chapter.\n\n" + element_table(paper, links)
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
        paper = tomllib.loads((root / "book/paper.toml").read_text(encoding="utf-8"))
        out["book/validate/paper_to_book.md"] = NOTE + paper_page(paper, chapters, root)
        out[ERRATA] = errata_chapter(paper, chapters)
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


def between(source, name, text):
    """The source with `text` between its marks <!-- begin name --> and <!-- end name -->; unchanged if it has none."""
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    before, _, rest = source.partition(begin)
    return f"{before}{begin}\n{text}{end}{rest.partition(end)[2]}" if rest else before


def insert(path, texts):
    """The file with each text of {name: text} between its marks."""
    page = path.read_text(encoding="utf-8")
    for name, text in texts.items():
        page = between(page, name, text)
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
    "Use": "start/why use/datasets use/metrics use/classifier use/restarts use/uncertainty results/when_to_choose",
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
