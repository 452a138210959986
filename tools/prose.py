"""What a chapter asks of its reader, and the promises of its words: counted from the sources.

The reading line is what stands open on the page: prose outside boxes that are closed, and code outside folded cells.
"""

import re
import tomllib
from typing import NamedTuple

from tangle import ROOT, folded, header, marker

CLOSED = re.compile(r"^(:{3,}|`{3,})\{dropdown\}.*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
DISPLAY = re.compile(r"\$\$.*?\$\$[ \t]*(\([\w-]+\))?|^(`{3,})\{math\}.*?^\2[ \t]*$", re.MULTILINE | re.DOTALL)
LABEL = re.compile(r"\$\$[ \t]*\(([\w-]+)\)|^:label:[ \t]*(eq-[\w-]+)", re.MULTILINE)
THEORY = ("ideas", "network", "beyond")           # parts whose chapters keep the limits below
LIMITS = {"words": 2500, "lines": 60, "picture": 500}


class Measure(NamedTuple):
    """What stands open in a chapter."""
    words: int
    lines: int          # of code
    picture: int        # words before the first figure, None without one
    figures: int
    checkpoints: int
    recaps: int
    exercises: int


def reading_line(text):
    """Markdown without what is closed."""
    return CLOSED.sub("", text)


def words(text):
    """How many words a reader reads: a formula in a line is one, a display is none."""
    text = re.sub(r"<[^>]+>|^:\w+:.*$", "", DISPLAY.sub("", reading_line(text)), flags=re.MULTILINE)
    return len(re.findall(r"\S*\w\S*", re.sub(r"\$[^$]+\$", "x", text)))


def measure(notebook):
    """Measure of a chapter."""
    n_words = n_lines = figures = 0
    first = None
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            widget = 'data-widget="' in cell.source
            if widget and first is None:
                first = n_words
            figures += widget
            n_words += words(cell.source)
        elif cell.cell_type == "code":
            if marker(cell)[0] == "show":
                first = n_words if first is None else first
                figures += 1
            elif not folded(cell):
                n_lines += len(cell.source.splitlines()) - len(header(cell.source))
    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    return Measure(n_words, n_lines, first, figures, prose.count(":class: checkpoint"), prose.count(":class: recap"), prose.count("{exercise}"))


def glossary(root=ROOT):
    """[(term, path of the chapter that defines it)]."""
    text = (root / "book/start/glossary.md").read_text(encoding="utf-8")
    entries = re.findall(r"^(\S[^\n]*)\n  (?:[^\n]*?)\]\(\.\./([\w/]+)\.(?:ipynb|md)[^\n]*$", re.search(r"```\{glossary\}\n(.*?)\n```", text, re.DOTALL)[1], re.MULTILINE)
    return [(term, f"book/{where}.ipynb") for term, where in entries]


def pattern(term):
    """A term as it may stand in a sentence; what is in brackets is left out."""
    name = re.sub(r"\s*\([^)]*\)", "", term).strip()
    return re.compile(rf"(?<![\w-]){re.escape(name)}(s|es)?(?![\w-])", re.IGNORECASE)


def plain(text):
    """Prose without mathematics, code, links and roles: a term in a link to its meaning is no use before its time."""
    text = DISPLAY.sub(" ", reading_line(text))
    for unwanted in (r"\[[^\]]*\]\([^)]*\)", r"\{[\w:-]+\}`[^`]*`", r"`[^`]*`", r"\$[^$]*\$", r"<[^>]+>", r"^:\w+:.*$", r"^#+ .*$", r"^\*(Needs|Gives):\*.*$"):
        text = re.sub(unwanted, " ", text, flags=re.MULTILINE)
    return " ".join(text.split())


def too_early(chapters, terms):
    """Uses of a term of the glossary before the chapter that defines it; chapters that come before everything (start) may point forward."""
    order, found = list(chapters), []
    for term, home in terms:
        if home not in order:
            continue
        for path in order[:order.index(home)]:
            if path.split("/")[1] == "start":
                continue
            for i, cell in enumerate(chapters[path].cells):
                if cell.cell_type == "markdown" and (hit := pattern(term).search(text := plain(cell.source))):
                    found.append(f"{path}, cell {i + 1}: {term!r} is used before {home} defines it: ...{text[max(0, hit.start() - 40):hit.end() + 20]}...")
    return found


def other_letters(chapters, root=ROOT):
    """Notation that a symbol of symbols.toml forbids in its row `never`, a list of regular expressions over LaTeX."""
    symbols = next(iter(tomllib.loads((root / "book/symbols.toml").read_text(encoding="utf-8")).values()))
    found = [f"symbols.toml: {s['symbol']} and {t['symbol']} are both called {s['code']} and written differently"
             for i, s in enumerate(symbols) for t in symbols[:i] if s.get("code") and s["code"] == t.get("code") and s["latex"] != t["latex"]]
    for symbol in symbols:
        for bad in symbol.get("never", []):
            for path, notebook in chapters.items():
                if path.endswith("validate/errata.ipynb"):               # it shows how the paper writes
                    continue
                for i, cell in enumerate(notebook.cells):
                    maths = " ".join(m[0] for m in re.finditer(r"\$\$.*?\$\$|\$[^$]+\$", cell.source, re.DOTALL)) if cell.cell_type == "markdown" else ""
                    if re.search(bad, maths):
                        found.append(f"{path}, cell {i + 1}: {bad} for {symbol['symbol']}, which is written {symbol['latex']}")
    return found


def unchecked(chapters):
    """Labels that another cell refers to, or that code names, and that no verify cell checks; and labels that are checked and do not exist."""
    home, checked, used = {}, {}, {}
    for path, notebook in chapters.items():
        for i, cell in enumerate(notebook.cells):
            where = f"{path}, cell {i + 1}"
            if cell.cell_type == "markdown":
                own = {"".join(found) for found in LABEL.findall(cell.source)}
                home |= dict.fromkeys(own, where)
                for label in set(re.findall(r"\{eq\}`([^`]+)`", cell.source)) - own:
                    used.setdefault(label, where)
            elif marker(cell)[0] == "verify":
                checked |= dict.fromkeys(marker(cell)[1], where)
            elif marker(cell)[0] == "export":
                used |= {label: where for label in re.findall(r"\[(eq-[\w-]+)", cell.source) if label not in used}
    return ([f"{where}: checks {label}, which is no equation" for label, where in checked.items() if label not in home]
            + [f"{home[label]}: {label} is used ({where}) and no cell checks it" for label, where in used.items() if label in home and label not in checked])


def overlong(chapters):
    """Chapters of theory that leave the limits of a reading line, or lack a part of it."""
    found = []
    for path, notebook in chapters.items():
        m = measure(notebook)
        if path.split("/")[1] not in THEORY:
            continue
        for name, value, limit in (("words", m.words, LIMITS["words"]), ("open lines of code", m.lines, LIMITS["lines"]),
                                   ("words before the first figure", m.picture if m.picture is not None else 10**6, LIMITS["picture"])):
            if value > limit:
                found.append(f"{path}: {value} {name}, at most {limit}")
        found += [f"{path}: {have} {name}, at least {least}" for name, have, least in
                  (("checkpoints", m.checkpoints, 2), ("recap", m.recaps, 1), ("exercises", m.exercises, 3)) if have < least]
    return found


def problems(chapters, root=ROOT):
    """Everything that a reader would stumble over and a tool can see."""
    return too_early(chapters, glossary(root)) + other_letters(chapters, root) + unchecked(chapters) + overlong(chapters)


def table(chapters):
    """The measures of all chapters, as text."""
    rows = [f"{path.removeprefix('book/').removesuffix('.ipynb'):28s} {m.words:6d} words {m.lines:4d} lines  picture after {m.picture}  {m.figures} figures"
            f"  {m.checkpoints} checkpoints, {m.recaps} recap, {m.exercises} exercises"
            for path, nb in chapters.items() for m in [measure(nb)]]
    return "\n".join(rows)
