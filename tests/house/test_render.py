"""tools/render.py: what becomes of a cell's line and of the head of a page, without a build."""

import subprocess
from types import SimpleNamespace

import pytest
from nbformat.v4 import new_code_cell, new_output

nodes = pytest.importorskip("docutils.nodes")
render = pytest.importorskip("render")


# ---- where the repository is

@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A function that makes a checkout with the given remotes and asks for its public address."""
    monkeypatch.delenv("CMN_REPO_URL", raising=False)
    monkeypatch.setattr(render, "ROOT", tmp_path)

    def ask(*remotes):
        subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
        for i, remote in enumerate(remotes):
            subprocess.run(["git", "remote", "add", f"remote{i}", remote], cwd=tmp_path, check=True)
        return render.repository()
    return ask


@pytest.mark.parametrize("remote, address", [
    ("https://github.com/someone/book.git", "https://github.com/someone/book"),
    ("https://codeberg.org/someone/book", "https://codeberg.org/someone/book"),
    ("git@gitlab.com:group/sub/book.git", "https://gitlab.com/group/sub/book"),
    ("ssh://git@github.com/someone/book.git", "https://github.com/someone/book"),
    ("../elsewhere/book.git", ""),
    ("file:///srv/github.com/book.git", ""),
    ("https://git.example.org/someone/book.git", ""),
    ("https://github.com.example.org/someone/book.git", ""),
    ("https://someone:secret@github.com/someone/book.git", ""),             # nobody's password becomes a link
    ("https://secret@github.com/someone/book.git", ""),
])
def test_public_remote_is_the_repository(checkout, remote, address):
    assert checkout(remote) == address


def test_private_remote_hides_no_public_one(checkout):
    assert checkout("../elsewhere/book.git", "https://github.com/someone/book.git") == "https://github.com/someone/book"


def test_without_a_remote_there_is_no_repository(checkout):
    assert checkout() == ""


@pytest.mark.parametrize("given", ["https://forge.example.org/me/book", "https://forge.example.org/me/book.git", "https://forge.example.org/me/book.git/"])
def test_address_that_is_given_goes_before_remotes(checkout, monkeypatch, given):
    monkeypatch.setenv("CMN_REPO_URL", given)
    assert checkout("https://github.com/someone/other.git") == "https://forge.example.org/me/book"


@pytest.mark.parametrize("url, buttons, colab", [("https://github.com/a/b", True, True), ("https://forge.example.org/a/b", True, False), ("", False, False)])
def test_buttons_need_a_repository(checkout, monkeypatch, url, buttons, colab):
    monkeypatch.setenv("CMN_REPO_URL", url)
    monkeypatch.setenv("CMN_BASE_URL", "https://example.org/book/")
    config = SimpleNamespace(html_theme_options={"kept": 1}, html_baseurl="")
    checkout()
    render.configure(None, config)
    options = config.html_theme_options
    assert options["kept"] == 1 and options["collapse_navbar"] is True
    assert ("repository_url" in options) == ("launch_buttons" in options) == buttons
    assert ("colab_url" in options.get("launch_buttons", {})) == colab
    assert config.html_baseurl == "https://example.org/book/"


# ---- the line of a folded cell

def test_typeset_has_mathematics_and_code_and_escapes_the_rest():
    assert render.typeset("Is $a<b$ & `f(x)` <so>?") == (
        'Is <span class="math notranslate nohighlight">\\(a&lt;b\\)</span> &amp; <code>f(x)</code> &lt;so&gt;?')
    assert render.typeset("costs 5 $ each") == "costs 5 $ each"
    assert render.typeset("") == ""


@pytest.mark.parametrize("source, names", [
    ("def f(x):\n    return x\n\n\nclass C:\n    pass", ["f", "C"]),
    ("LIMIT = 3\n\n\ndef _hidden():\n    pass\n\n\ndef shown():\n    pass", ["shown"]),
    ("A = 1\nB = C = 2\n\n\ndef _hidden():\n    pass", ["A", "B", "C"]),
    ("import math\n\n\ndef _hidden():\n    pass", ["_hidden"]),
    ("import math", []),
])
def test_defined(source, names):
    assert render.defined(source) == names


def test_line_counts_its_lines():
    assert render.line("aside", "aside", "why", 1) == (
        '<span class="what">aside</span> <span class="said">why</span> <span class="count">1 line</span>')
    assert "2 lines" in render.line("aside", "aside", "why", 2)


def printing(source, *texts):
    return new_code_cell(source, outputs=[new_output("stream", name="stdout", text=t) for t in texts])


@pytest.mark.parametrize("cell, what, said", [
    (printing("#| verify eq-a\nprint(1)", "agrees to 1e-14 & <x\nmore\n"), "✓ checked", "agrees to 1e-14 &amp; &lt;x"),
    (printing("#| export fold\ndef f():\n    pass"), "code", "<code>f</code>"),
    (printing("#| aside What if $a=0$?\nprint(0)"), "aside", 'What if <span class="math notranslate nohighlight">\\(a=0\\)</span>?'),
    (printing("#| show\n#| alt: a line\nplot()"), "figure", "the code of this figure"),
    (printing("#| setup\nimport math"), "set-up", "imports and helpers"),
    (printing("#| solution\nx = 1"), "code", "solution in code"),
])
def test_summary(cell, what, said):
    source = "\n".join(line for line in cell.source.splitlines() if not line.startswith("#|"))
    n = len(source.splitlines())
    assert render.summary(None, cell, source) == render.line("", what, said, n)


def test_printed_is_the_text_without_the_picture():
    cell = printing("x", "one\n")
    cell.outputs += [new_output("display_data", {"image/png": "AAAA", "text/plain": "<Figure>"}), new_output("execute_result", {"text/plain": "two"}, execution_count=1)]
    assert render.printed(cell) == "one\ntwo"


# ---- the head of a page

def head(*paragraphs, title="Title", page="book/a/first", base=""):
    """What `described` adds to the context of a page."""
    doctree = nodes.section("", *(nodes.paragraph("", text) for text in paragraphs))
    app = SimpleNamespace(config=SimpleNamespace(html_baseurl=base, root_doc="book/intro"))
    context = {"title": title, "docstitle": "The book"}
    render.described(app, page, "page.html", context, doctree)
    return context


def test_description_is_the_claim_or_the_first_paragraph():
    assert '<meta name="description" content="It holds.">' in head("A question?", "The claim. It holds.")["metatags"]
    assert '<meta name="description" content="A &quot;question&quot;?">' in head('A "question"?', "More.")["metatags"]
    long = head("word " * 100)["metatags"]
    assert long.endswith(' word ...">') and len(long) < 250


def test_social_card_needs_the_address_of_the_book():
    assert "og:" not in head("Text.")["metatags"]
    tags = head("Text.", title="<code>fit</code> &amp; <em>more</em>", base="https://example.org/book/")["metatags"]
    assert '<meta property="og:title" content="fit &amp; more">' in tags
    assert '<meta property="og:description" content="Text.">' in tags
    assert '<meta property="og:url" content="https://example.org/book/book/a/first.html">' in tags
    assert '<meta property="og:image" content="https://example.org/book/_static/picture.png">' in tags


def test_landing_page_names_the_book_once():
    assert head("Text.", title="First")["title"] == "First"
    assert head("Text.", page="book/intro", title="The book")["title"] == "Home"


def test_page_without_a_document_stays_as_it_is():
    context = {}
    render.described(None, "search", "search.html", context, None)
    assert context == {}
