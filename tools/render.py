"""A Sphinx extension: what the page makes of the first line of a code cell, and what it links together.

A folded cell becomes one line: a check says which equations it checked and the sentence it printed, a figure keeps its picture and
closes its code. Each equation links back to its checks, and each link to an equation or a reference carries a card to look at.
Sources and stored outputs stay as they are.
"""

import ast
import html
import io
import json
import os
import re
import subprocess
from base64 import b64decode
from pathlib import Path

import nbformat
from docutils import nodes
from docutils.nodes import make_id
from PIL import Image
from tangle import DEFINITIONS, ROOT, folded, header, marker, read_chapters

HOSTS = ("github.com", "gitlab.com", "codeberg.org")


# ---- where things are

def repository():
    """Address of the public repository: CMN_REPO_URL, else a remote on a known host, else ""."""
    if url := os.environ.get("CMN_REPO_URL"):
        return url.rstrip("/").removesuffix(".git")
    said = subprocess.run(["git", "remote", "-v"], cwd=ROOT, capture_output=True, text=True)
    for host, path in re.findall(r"(?:https://|git@|ssh://git@)([\w.]+)[:/](\S+)", said.stdout):
        if host in HOSTS:
            return f"https://{host}/{path.removesuffix('.git')}"
    return ""


def configure(app, config):
    """Launch buttons and links to the source only where the repository is known; pages below a page are listed beside it alone."""
    config.html_theme_options |= {"collapse_navbar": True}
    if url := repository():
        config.html_theme_options |= {"repository_url": url, "use_repository_button": True, "use_issues_button": True, "use_source_button": True,
                                      "path_to_docs": "", "repository_branch": "main",
                                      "launch_buttons": {"notebook_interface": "jupyterlab", "binderhub_url": "https://mybinder.org",
                                                         **({"colab_url": "https://colab.research.google.com"} if "github" in url else {})}}
    if base := os.environ.get("CMN_BASE_URL"):
        config.html_baseurl = base.rstrip("/") + "/"


def prepare(app):
    """Which cell checks which equation: {label: [(docname, id of the cell)]}."""
    app.checks = {}
    for path, notebook in read_chapters(ROOT).items():
        for cell in notebook.cells:
            if marker(cell)[0] == "verify":
                for label in marker(cell)[1]:
                    app.checks.setdefault(label, []).append((path.removesuffix(".ipynb"), cell.id))


def remember(app, doctree):
    """Keep the LaTeX of every labelled equation; and fold the cells here alone, not by their tags, which other readers of a notebook go by."""
    for node in doctree.findall(nodes.container):
        node.attributes.pop("hide_mode", None)
    if not hasattr(app.env, "cmn_latex"):
        app.env.cmn_latex = {}
    app.env.cmn_latex |= {node["label"]: node.astext() for node in doctree.findall(nodes.math_block) if node.get("label")}


class Page:
    """What the cells of one page need to know: its name, and the numbers and addresses of equations."""

    def __init__(self, app, docname):
        self.app, self.docname, self.equations = app, docname, app.env.get_domain("math").equations
        self.behind = {}
        for label in self.equations:
            self.behind.setdefault(make_id(f"equation-{label}"), set()).add(label)

    def address(self, docname, anchor):
        same = docname == self.docname
        return f"#{anchor}" if same else f"{self.app.builder.get_relative_uri(self.docname, docname)}#{anchor}"

    def number(self, label):
        docname, eqno = self.equations[label]
        if self.app.config.math_numfig and self.app.config.numfig:
            return ".".join(map(str, self.app.env.toc_fignumbers.get(docname, {}).get("displaymath", {}).get(f"equation-{label}", ("?",))))
        return str(eqno)

    def link(self, label):
        where = self.address(self.equations[label][0], make_id(f"equation-{label}"))
        return f'<a class="eq" data-eq="{label}" href="{where}">({self.number(label)})</a>'


# ---- cells

def typeset(text):
    """Text as HTML, with $...$ for mathematics and `...` for code."""
    parts = re.split(r"(\$[^$]+\$|`[^`]+`)", text)
    return "".join(f'<span class="math notranslate nohighlight">\\({html.escape(p[1:-1])}\\)</span>' if p.startswith("$")
                   else f"<code>{html.escape(p[1:-1])}</code>" if p.startswith("`") else html.escape(p) for p in parts)


def printed(cell):
    """The text that a cell prints."""
    return "".join(o.text if o.output_type == "stream" else o.get("data", {}).get("text/plain", "") for o in cell.outputs
                   if "image/png" not in o.get("data", {}))


def defined(source):
    """Names of the public functions and classes that a cell defines, else of its assignments, else of what it defines for itself."""
    body = ast.parse(source).body
    names = [n.name for n in body if isinstance(n, DEFINITIONS)]
    assigned = [t.id for n in body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)]
    return [name for name in names if not name.startswith("_")] or assigned or names


def line(kind, mark, text, n_lines):
    """The one line of a folded cell."""
    unit = "line" if n_lines == 1 else "lines"
    return (f'<span class="what">{mark}</span> <span class="said">{text}</span> <span class="count">{n_lines} {unit}</span>')


def summary(page, cell, source):
    """The line that stands for a folded cell."""
    kind, words = marker(cell)
    n = len(source.splitlines())
    if kind == "verify":
        return line(kind, "✓ checked", html.escape(printed(cell).strip().split("\n")[0]), n)
    if kind == "export":
        return line(kind, "code", ", ".join(f"<code>{name}</code>" for name in defined(source)) or "imports", n)
    if kind == "aside":
        return line(kind, "aside", typeset(cell.source.partition("\n")[0].removeprefix("#| aside").strip().removeprefix("fold ")), n)
    return line(kind, "figure" if kind == "show" else "set-up" if kind == "setup" else "code",
                {"show": "the code of this figure", "setup": "imports and helpers", "solution": "solution in code"}.get(kind, ""), n)


def beside(page, cell):
    """What stands around a folded cell: a check's links to its equations, on the same line as long as they are few.

    They are no part of the line itself, which is a button; a button holds no links.
    """
    kind, words = marker(cell)
    if kind != "verify":
        return "", ""
    width = sum(len(page.number(label)) + 3 for label in words)
    links = f'<span class="eqs">{" ".join(map(page.link, words))}</span>'
    return f'<div class="fold-line{" many" if width > 24 else ""}" style="--eqs: {width}ch">{links}', "</div>"


def tag(page, cell, module):
    """The line above an open cell that has a marker."""
    kind, words = marker(cell)
    if kind == "export":
        return f'<p class="cell-tag export">exported to <code>{module}</code></p>'
    if kind == "verify":
        return f'<p class="cell-tag verify">✓ checks {" ".join(map(page.link, words))}</p>'
    return ""


def raw(text):
    return nodes.raw("", text, format="html")


def strip_header(source_node, cell):
    """The code without its lines '#| ...'."""
    source = "\n".join(cell.source.splitlines()[len(header(cell.source)):]).strip("\n")
    for block in source_node.findall(nodes.literal_block):
        block.children.clear()
        block.rawsource = source
        block += nodes.Text(source)
    return source


def fit_pictures(node, cell):
    """Half as wide as they are stored: figures are drawn at twice the resolution of a page."""
    sizes = [Image.open(io.BytesIO(b64decode(o.data["image/png"]))).size for o in cell.outputs if "image/png" in o.get("data", {})]
    for image, (width, _) in zip(node.findall(nodes.image), sizes):
        image["width"] = f"{width // 2}px"


def render_cell(page, node, cell, module):
    """Fold or label one code cell."""
    parts = {child.get("nb_element"): child for child in node.children if isinstance(child, nodes.container)}
    code, out = parts.get("cell_code_source"), parts.get("cell_code_output")
    if code is None:
        return
    source = strip_header(code, cell)
    kind = marker(cell)[0]
    node["ids"] = [*node.get("ids", []), cell.id]
    node["classes"].append(f"kind-{kind or 'plain'}")
    if out is not None:
        fit_pictures(out, cell)
    if not folded(cell):
        node.children = [raw(tag(page, cell, module)), *node.children] if kind else node.children
        return
    before, after = beside(page, cell)
    start = raw(f'{before}<details class="fold {kind}"><summary>{summary(page, cell, source)}</summary>')
    end = raw(f"</details>{after}")
    if kind == "show":
        node.children = [*([out] if out is not None else []), start, code, end]
    else:
        node.children = [start, code, *([out] if out is not None else []), end]


def backlinks(page, node):
    """After a labelled equation: links to the cells that check it."""
    found = page.app.checks.get(node.get("label"), [])
    if found:
        where = "".join(f' <a href="{page.address(docname, cell)}" title="checked in {cell}">{i + 1}</a>' for i, (docname, cell) in enumerate(found[:4]))
        more = f" +{len(found) - 4}" if len(found) > 4 else ""
        node.parent.insert(node.parent.index(node) + 1, raw(f'<p class="eq-checks">✓ checks{where}{more}</p>'))


def cards(page, doctree):
    """What the links of this page lead to, for its cards: {id of an equation or a reference: text}."""
    app, out = page.app, {}
    cited = {c.citation_id: c for c in getattr(app.env.get_domain("cite"), "citations", [])}
    text = "".join(n.astext() for n in doctree.findall(nodes.raw))
    labels = set(re.findall(r'data-eq="([\w-]+)"', text))
    for node in doctree.findall(nodes.reference):
        anchor = (node.get("refuri") or "").partition("#")[2] or node.get("refid", "")
        if anchor.startswith("equation-"):
            labels |= page.behind.get(anchor, set())
        elif anchor in cited:
            out[anchor] = {"text": cited[anchor].formatted_entry.text.render(_plain())}
    for label in sorted(labels):
        out[make_id(f"equation-{label}")] = {"tex": app.env.cmn_latex.get(label, ""), "number": page.number(label)}
    return out


def _plain():
    from pybtex.backends.plaintext import Backend
    return Backend()


def resolve(app, doctree, docname):
    """Rewrite one page."""
    if app.builder.format != "html":
        return
    page, path = Page(app, docname), Path(app.env.doc2path(docname))
    if path.suffix == ".ipynb":
        notebook = nbformat.read(path, as_version=4)
        module = docname.replace("book/", "cmn_literate/", 1).replace("/", ".")
        for node in list(doctree.findall(lambda n: isinstance(n, nodes.container) and n.get("nb_element") == "cell_code")):
            render_cell(page, node, notebook.cells[node["cell_index"]], module)
    for node in list(doctree.findall(nodes.math_block)):
        backlinks(page, node)
    data = json.dumps(cards(page, doctree), ensure_ascii=False, sort_keys=True).replace("</", "<\\/")
    doctree += raw(f'<script type="application/json" id="cards">{data}</script>')


# ---- the head of the page

def described(app, pagename, templatename, context, doctree):
    """Title, description and, where the address of the book is known, the social card."""
    if doctree is None:
        return
    sentences = [" ".join(p.astext().split()) for p in doctree.findall(nodes.paragraph)]
    claim = next((s.removeprefix("The claim. ") for s in sentences if s.startswith("The claim.")), next(iter(sentences), ""))
    claim = html.escape(claim if len(claim) <= 200 else claim[:200].rsplit(" ", 1)[0] + " ...", quote=True)
    tags = [f'<meta name="description" content="{claim}">']
    if base := app.config.html_baseurl:
        title = html.escape(html.unescape(re.sub("<[^>]+>", "", context.get("title", ""))), quote=True)
        tags += [f'<meta property="og:title" content="{title}">', f'<meta property="og:description" content="{claim}">',
                 '<meta property="og:type" content="article">', f'<meta property="og:url" content="{base}{pagename}.html">',
                 f'<meta property="og:image" content="{base}_static/picture.png">', '<meta name="twitter:card" content="summary_large_image">']
    context["metatags"] = context.get("metatags", "") + "\n".join(tags)
    if pagename == app.config.root_doc:                     # the name of the book, once
        context["title"] = "Home"


def repaired(app, pagename, templatename, context, doctree):
    """The same id stands in every exercise, and leads nowhere; a list of references calls itself what it is not."""
    body = (context.get("body") or "").replace(' id="exercise-content"', "")
    context["body"] = body.replace('<div role="list" class="citation-list">', '<div class="citation-list">')     # its children are no list items


def write_beside(app, env):
    """Pages are written by a second process while the next ones are resolved; they are read by one, as an extension of the book asks."""
    app.parallel = max(app.parallel, 2)


def setup(app):
    app.connect("config-inited", configure)
    app.connect("env-updated", write_beside)
    app.connect("builder-inited", prepare)
    app.connect("doctree-read", remember)
    app.connect("doctree-resolved", resolve)
    app.connect("html-page-context", described)
    app.connect("html-page-context", repaired)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
