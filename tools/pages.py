"""Write what is generated from the chapters: the pages API and "Paper to book", the tables of the errata and of the notation page,
the picture and the list of chapters of the README, and the cards of the landing page with their thumbnails.

    python tools/pages.py [--check | --measure]

--check also says what a reader would stumble over (tools/prose.py): a term before its chapter, two letters for one thing, an equation that
nobody checks, a chapter of theory that is too long.  --measure prints words, open lines and first pictures.
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
import prose
from tangle import ABOVE, DEFINITIONS, PACKAGE, PLAIN, ROOT, cell_name, headline, marker, module_file, module_sources, option, read_chapters, write_atomically

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


def arguments(args):
    """What is between the brackets of a call; a method's own object is left out."""
    return re.sub(r"^(self|cls)\b(, )?", "", ast.unparse(args))


def signature(node, owner=""):
    """How a function, a class or a method of `owner` is called, as written."""
    name = f"{owner}.{node.name}" if owner else node.name
    if not isinstance(node, ast.ClassDef):
        if any(isinstance(d, ast.Name) and d.id in ("property", "cached_property") for d in node.decorator_list):
            return name
        returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        return f"{name}({arguments(node.args) if owner else ast.unparse(node.args)}){returns}"
    init = next((n for n in node.body if isinstance(n, DEFINITIONS) and n.name == "__init__"), None)
    if init:
        return f"{name}({arguments(init.args)})"
    fields = [f"{n.target.id}={ast.unparse(n.value)}" if n.value else n.target.id for n in node.body if isinstance(n, ast.AnnAssign)]
    return f"{name}({', '.join(fields)})" if fields else name


def within(line, width=90):
    """The line, broken below its own beginning where it is longer than a page is wide."""
    indent = re.match(r" *([\w, ]+?  +)?", line)[0]
    return textwrap.wrap(line, width, subsequent_indent=" " * len(indent),
                         break_long_words=False, break_on_hyphens=False) if len(line) > width else [line]


def described(node, owner=""):
    """A signature and its docstring as a block that keeps the docstring's layout."""
    said = signature(node, owner)
    call = textwrap.wrap(said, 80, subsequent_indent=" " * (len(said.partition("(")[0]) + 1), break_long_words=False, break_on_hyphens=False)
    doc = textwrap.indent(ast.get_docstring(node) or "", "    ").splitlines()
    return ["```text", *call, *(part for line in doc for part in within(line)), "```", ""]


def public_methods(node):
    """The methods of a class that its users call."""
    return [m for m in node.body if isinstance(m, DEFINITIONS) and not m.name.startswith("_")] if isinstance(node, ast.ClassDef) else []


def entry(node):
    """Markdown for one function or class: signature, docstring, the methods of a class, and its equations."""
    lines = described(node)
    for method in public_methods(node):
        lines += described(method, node.name)
    text = "\n".join(ast.get_docstring(n) or "" for n in (node, *public_methods(node)))
    if labels := dict.fromkeys(re.findall(r"\beq-[\w-]+", text)):
        lines += [f"Equation{'s' * (len(labels) > 1)} " + ", ".join(f"{{eq}}`{label}`" for label in labels) + "."]
    return lines


# ---- the API: one page for each module, and the list of all of them

API = "book/validate/api"
FRONT_DOOR = "__init__.py"


class Module(NamedTuple):
    """A module of the package as its page shows it."""
    name: str           # e.g. network.gate
    chapter: str        # path of the chapter that writes it, "" for a plain module
    source: str
    names: list         # that are public, in order

    def top(self):
        """{name: node} of what the module defines."""
        found = {}
        for node in ast.parse(self.source).body:
            if isinstance(node, DEFINITIONS):
                found[node.name] = node
            elif isinstance(node, ast.Assign):
                found |= {leaf.id: node for target in node.targets for leaf in ast.walk(target) if isinstance(leaf, ast.Name)}
        return found

    def origins(self):
        """{name: module of the package that it is imported from}."""
        return {a.asname or a.name: node.module.removeprefix(f"{PACKAGE}.") for node in ast.parse(self.source).body
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{PACKAGE}.") for a in node.names}

    def anchors(self):
        """{name: anchor of its heading}; two names that differ in their capitals alone are told apart by a number."""
        seen, found = {}, {}
        for name in self.names:
            n = seen[name.lower()] = seen.get(name.lower(), -1) + 1
            found[name] = name.lower() + f"-{n}" * (n > 0)
        return found


def modules(chapters, root):
    """Every module: first those of the chapters, in their order, then the hand-written ones."""
    homes = module_sources(chapters, root) | dict.fromkeys((*PLAIN, *ABOVE), "")
    found = []
    for name, chapter in homes.items():
        if module_file(name, root).exists():                        # else not tangled yet
            module = Module(name, chapter, module_file(name, root).read_text(encoding="utf-8"), [])
            top = module.top()
            names = ast.literal_eval(top["__all__"].value) if chapter else [n for n in top if not n.startswith("_")]
            found.append(module._replace(names=names))
    return found


def cells_of(chapters):
    """{chapter: {name: id of the cell that defines it}}."""
    homes = {}
    for cell in marked(chapters, "export"):
        for node in ast.parse(cell.source).body:
            bound = [node.name] if isinstance(node, DEFINITIONS) else [
                leaf.id for target in getattr(node, "targets", []) for leaf in ast.walk(target) if isinstance(leaf, ast.Name)]
            homes.setdefault(cell.path, {}).update(dict.fromkeys(bound, cell.name))
    return homes


def api_path(module):
    """The page of a module, e.g. book/validate/api/network/gate.md of "network.gate"."""
    return f"{API}/{module.replace('.', '/')}.md"


def sentence(module, chapters):
    """What a module is for: the first sentence of its chapter's claim, or of its docstring."""
    said = headline(chapters[module.chapter])[1] if module.chapter else (ast.get_docstring(ast.parse(module.source)) or "").partition("\n\n")[0]
    return first_sentence(" ".join(said.split()))


def module_page(module, chapters, cells, known):
    """Every public name of a module: how it is called, what it says, its equations, and the cell that defines it."""
    here = os.path.dirname(api_path(module.name))
    link = lambda path: os.path.relpath(path, here)
    if module.chapter:
        origin = f"is derived in [{headline(chapters[module.chapter])[0]}]({link(module.chapter)})"
    else:
        origin = "is written by hand and holds none of the book's mathematics"
    out = [f"# `{module.name}`", "", f"`{PACKAGE}.{module.name}` {origin}. {sentence(module, chapters)}", "",
           f"[All modules]({link(API + '.md')})", ""]
    top, origins = module.top(), module.origins()
    for name in module.names:
        out += [f"## `{name}`{{.api}}", ""]
        if name not in top:
            home = next((m for m in known if m.name == origins.get(name) and name in m.names), None)
            where = f"[`{home.name}`]({link(api_path(home.name))}#{home.anchors()[name]})" if home else f"`{origins.get(name, '')}`"
            out += [f"The same as in {where}.", ""]
            continue
        if isinstance(top[name], DEFINITIONS):
            lines = entry(top[name])
        else:
            lines = ["```python", ast.get_source_segment(module.source, top[name]), "```", ""]
        cell = cells.get(module.chapter, {}).get(name)
        defined = f'Defined in cell <a href="{link(module.chapter).removesuffix(".ipynb")}.html#{cell}">{cell}</a>.' if cell else ""
        said = "" if lines[-1] in ("", "```") else lines.pop() + " "
        out += [*lines, *([said + defined, ""] if said + defined else [])]
    return "\n".join(out).rstrip() + "\n"


def in_table(text):
    """A text without the sign that ends a cell of a table."""
    return re.sub(r"\$[^$]*\$", lambda m: m[0].replace("|", r"\vert "), text).replace("|", r"\|")


def api_index(known, chapters, root):
    """The list of all modules: what each is for, and its public names."""
    link = lambda module: os.path.relpath(api_path(module.name), "book/validate")
    to = lambda module, name: f"[`{name}`]({link(module)}#{module.anchors()[name]})"
    out = ["# API", "", f"Every public name of `{PACKAGE}`, module by module in the order of the chapters that derive them. Each name leads to its signature, "
           "its docstring, its equations and the cell that defines it; the name in square brackets in a docstring is the label of an equation.", ""]
    if (init := root / PACKAGE / FRONT_DOOR).exists():
        homes = next((ast.literal_eval(n.value) for n in ast.parse(init.read_text(encoding="utf-8")).body
                      if isinstance(n, ast.Assign) and getattr(n.targets[0], "id", "") == "_HOMES"), {})
        doors = [to(module, name) for name, home in homes.items() for module in known if module.name == home]
        if doors:
            out += [f"At the front door, `from {PACKAGE} import ...`, stand {', '.join(doors[:-1])} and {doors[-1]}.", ""]
    names = captions(root)
    for part in dict.fromkeys(m.name.split(".")[0] if m.chapter else "" for m in known):
        rows = [[f"[`{m.name}`]({link(m)}) {in_table(sentence(m, chapters))}", ", ".join(to(m, name) for name in m.names)]
                for m in known if (m.name.split(".")[0] if m.chapter else "") == part]
        out += [f"## {names.get(part, part) if part else 'Below the chapters'}", ""]
        if not part:
            out += ["Checks of arguments, files and colours, written by hand: what every chapter may import.", ""]
        out += [table(["module, and what it is for", "names"], rows)]
    return "\n".join(out).rstrip() + "\n"


def api_pages(chapters, root):
    """{path: text} of the list of modules and of the page of each."""
    known, cells = modules(chapters, root), cells_of(chapters)
    return {f"{API}.md": NOTE + api_index(known, chapters, root)} | {api_path(m.name): NOTE + module_page(m, chapters, cells, known) for m in known}


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
    """Text of the errata notebook with its tables renewed, and the paragraph below each heading: class, place, and what is to say in short."""
    notebook = nbformat.from_dict(chapters[ERRATA])
    errata = {e["id"]: e for e in paper["erratum"]}
    tables = errata_tables(paper, errata_links(errata.values(), anchors(chapters, ERRATA)))

    def first_line(match):
        e = errata[match[2]]
        book = f"book/validate/{e['chapter']}"
        see = f" See [{headline(chapters[os.path.normpath(book)])[0]}]({e['chapter']})." if e["chapter"] else ""
        prefix = "section " if e["where"][0].isdigit() else "appendix " if e["where"][1] in "., " else ""
        return f"{match[1]}\n\n*{e['class'].capitalize()}: {prefix}{e['where']}.* {e['says']}{see}\n\n"

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
    out = api_pages(chapters, root)
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
    read = prose.measure(notebook)
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
    parser.add_argument("--measure", action="store_true", help="print what each chapter asks of its reader")
    args = parser.parse_args(argv)
    if args.measure:
        print(prose.table(read_chapters(root)))
        return 0
    wanted = {path: text if isinstance(text, bytes) else text.encode() for path, text in pages(root).items()}
    stale = [(path, data) for path, data in wanted.items() if not (root / path).exists() or (root / path).read_bytes() != data]
    gone = [p for p in sorted((root / API).rglob("*.md")) if p.relative_to(root).as_posix() not in wanted]       # of modules that are no more
    for path in gone:
        if args.check:
            print(f"pages: {path.relative_to(root)} is of no module; run 'make notebooks'", file=sys.stderr)
        else:
            path.unlink()
            print(f"removed {path.relative_to(root)}")
    for path, data in stale:
        if args.check:
            print(f"pages: {path} is stale; run 'make notebooks'", file=sys.stderr)
        else:
            write_atomically(root / path, data)
            print(f"wrote {path}")
    return 1 if args.check and (stale or gone) else 0


if __name__ == "__main__":
    sys.exit(main())
