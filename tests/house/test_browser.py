"""The built book, as a reader meets it: typeset, self-contained, described, searchable, no dead link.

The pages are those of `make book`. The first test reads all of them as files; the others open some of them in headless
Chromium, served from this machine. Without a built book or a browser they are skipped, unless CMN_REQUIRE=browser.
"""

import os
import re
import threading
from functools import partial
from importlib.resources import files
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlparse

import nbformat
import pytest
from browsers import LAST_RESORT, need
from bs4 import BeautifulSoup
from tangle import ROOT, chapter_order, folded, marker

HTML = ROOT / "_build/html"
PAGES = ["book/intro.html"] + [f"{c}.html" for c in chapter_order() if (ROOT / f"{c}.ipynb").exists()]

ALL_PAGES = ["book/intro.html", *(f"{c}.html" for c in chapter_order()), "search.html", "genindex.html"]


@pytest.fixture(scope="module")
def html():
    need("built book; run 'make book' first", (HTML / "book/intro.html").exists())
    return HTML


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def site(html):
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=html))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture
def page(browser, site):
    """A page that records what goes wrong in it."""
    page = browser.new_page()
    page.set_default_timeout(LAST_RESORT)
    page.errors, page.outside = [], []
    page.on("console", lambda m: page.errors.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda e: page.errors.append(str(e)))
    page.on("response", lambda r: page.errors.append(f"{r.status} {r.url}") if r.status >= 400 else None)
    page.on("request", lambda r: page.outside.append(r.url) if urlparse(r.url).scheme not in ("data", "blob")
            and not r.url.startswith(site) else None)
    yield page
    page.close()


class Tags(HTMLParser):
    """The tags of a page and their attributes, in order; without the spans that give code its colours, which are most of them."""

    def __init__(self, path):
        super().__init__()
        self.found = []
        self.feed(re.sub(r'</?span( class="[\w -]*")?>', "", path.read_text(encoding="utf-8")))

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, {name: value or "" for name, value in attrs}))


def test_links_resolve_and_images_are_described(html):
    tags = {p: Tags(p).found for p in html.rglob("*.html") if "_static" not in p.parts}
    anchors = {p: {a.get("id") or a.get("name") for _, a in found} for p, found in tags.items()}
    wrong = []
    for page, found in tags.items():
        ids = [a["id"] for _, a in found if "id" in a]
        wrong += [f"{page.relative_to(html)}: id {name} stands twice" for name in {i for i in ids if ids.count(i) > 1} - {"search-input"}]     # the theme's own
        for href in (a["href"] for tag, a in found if tag == "a" and "href" in a):
            url, fragment = urldefrag(href)
            if urlparse(url).scheme:
                continue
            target = page if not url else Path(os.path.normpath(page.parent / unquote(url)))
            if not target.exists():
                wrong.append(f"{page.relative_to(html)}: link to {url}")
            elif fragment and target in anchors and unquote(fragment) not in anchors[target]:
                wrong.append(f"{page.relative_to(html)}: link to #{fragment} of {target.name}")
        for alt in (a.get("alt", "").strip() for tag, a in found if tag == "img"):
            if not alt or re.fullmatch(r"\S*(/\S*|\.(png|svg|jpe?g))", alt):
                wrong.append(f"{page.relative_to(html)}: image with alt text {alt!r}")
        wrong += [f"{page.relative_to(html)}: loads {a.get('src') or a.get('href')}" for tag, a in found
                  if tag == "iframe" or tag in ("script", "img") and a.get("src", "").startswith("http")
                  or tag == "link" and a.get("rel") == "stylesheet" and a.get("href", "").startswith("http")]
    assert not wrong, "\n".join(wrong)


def test_search_finds_stick_breaking(page, site):
    page.goto(f"{site}/search.html?q=stick-breaking")
    page.locator("#search-results li a").first.wait_for()
    hits = page.locator("#search-results li a").evaluate_all("links => links.map(a => a.getAttribute('href'))")
    assert any("stick_breaking.html" in hit for hit in hits), hits
    assert page.errors == [] and page.outside == []


@pytest.mark.parametrize("part", [pytest.param(i, marks=() if i == 0 else pytest.mark.slow) for i in range(12)])
def test_every_page_is_typeset_self_contained_and_fits_a_laptop_and_a_phone(page, site, html, part):
    """No display is wider than its column on a laptop, which would hide its end, and often its number; on a phone nothing sticks out."""
    cut, wide, bare, seen = [], [], [], 0
    for path in PAGES[part::12]:
        page.set_viewport_size({"width": 1280, "height": 800})
        page.goto(f"{site}/{path}")
        page.evaluate("async () => { if (window.MathJax) await MathJax.startup.promise }")
        sources = (html / path).read_text(encoding="utf-8").count('class="math ')
        if not page.locator("mjx-container").count() >= sources > 0 or page.locator("mjx-merror, [data-mjx-error]").count():
            bare.append(path)
        found = page.locator("main mjx-container[display=true]").evaluate_all(
            "all => all.map(e => [e.scrollWidth - e.clientWidth, e.parentElement.id || e.textContent.slice(0, 40)])")
        seen += len(found)
        cut += [f"{path}: {name}" for excess, name in found if excess > 4]
        boxes = page.locator("article .cell_input pre, article .cell_output pre").evaluate_all("all => all.filter(e => e.scrollWidth > e.clientWidth + 2).length")
        cut += [f"{path}: {boxes} boxes of code"] * bool(boxes)
        page.set_viewport_size({"width": 390, "height": 800})
        if page.evaluate("document.documentElement.scrollWidth") > 391:
            wide.append(path)
        page.wait_for_load_state("networkidle")
        assert (page.errors, page.outside) == ([], []), path
    assert seen > 20 and not cut, "\n".join(cut)
    assert not wide and not bare


# ---- two layers

CHAPTER = "book/network/gate.html"


def opened(page, site, path, typeset=True):
    """The page, and its formulas where a test looks at them: they are most of the work."""
    if not typeset:
        page.route("**/mathjax/**", lambda route: route.abort())
    page.goto(f"{site}/{path}")
    if typeset:
        page.evaluate("async () => { if (window.MathJax) await MathJax.startup.promise }")
    return page


def test_checks_are_one_line_and_lead_to_their_equations(page, site):
    opened(page, site, CHAPTER)
    folds = page.locator("article details.fold.verify")
    notebook = nbformat.read(ROOT / "book/network/gate.ipynb", as_version=4)
    closed = [c for c in notebook.cells if c.cell_type == "code" and marker(c)[0] == "verify" and folded(c)]
    assert folds.count() == len(closed) > 5
    assert folds.evaluate_all("all => all.every(d => !d.open && d.getBoundingClientRect().height < 80)")
    for cell, text in zip(closed, folds.locator("summary").all_inner_texts()):
        said = cell.outputs[0].text.strip().split("\n")[0]
        assert "checked" in text and " ".join(said.split()) in " ".join(text.split())
    for cell in closed:
        links = page.locator(f"#{cell.id} .eqs a")
        assert links.evaluate_all("all => all.map(a => a.dataset.eq)") == marker(cell)[1]
    assert "#|" not in page.inner_text("article")
    assert page.locator("mjx-container[tabindex='0']").count() == 0 < page.locator("mjx-container").count()     # nor does the tab key stop there
    assert page.errors == []


def test_an_equation_leads_to_its_check_which_opens(page, site):
    opened(page, site, CHAPTER, typeset=False)
    link = page.locator(".eq-checks a[href^='#']").first
    cell = link.get_attribute("href")[1:]
    assert not page.locator(f"#{cell} details.fold").first.evaluate("d => d.open")
    link.click()
    page.wait_for_function("id => document.querySelector(`#${id} details.fold`).open", arg=cell)
    assert page.locator(f"#{cell} .cell_input").is_visible()


def test_show_all_code_is_remembered(page, site):
    opened(page, site, CHAPTER, typeset=False)
    button = page.locator("#cmn-all")
    assert button.inner_text() == "Show all code" and button.get_attribute("aria-pressed") == "false"
    button.click()
    assert page.locator("article details.fold:not(.solution)").evaluate_all("all => all.every(d => d.open)")
    opened(page, site, "book/network/experts.html", typeset=False)
    assert page.locator("article details.fold:not(.solution)").evaluate_all("all => all.length > 5 && all.every(d => d.open)")
    page.locator("#cmn-all").click()
    opened(page, site, CHAPTER, typeset=False)
    assert page.locator("article details.fold").evaluate_all("all => all.every(d => !d.open)")


def test_a_link_shows_its_equation_or_reference_before_it_is_followed(page, site):
    opened(page, site, CHAPTER)
    away = page.locator("article p a[href*='.html#equation-']").first
    away.scroll_into_view_if_needed()
    away.hover()
    page.locator("#cmn-card mjx-container").wait_for()
    page.keyboard.press("Escape")
    assert page.locator("#cmn-card").count() == 0
    away.focus()
    page.locator("#cmn-card mjx-container").wait_for()
    assert page.errors == []
    opened(page, site, "book/intro.html", typeset=False)
    cited = page.locator("article a[href*='references.html#']").first
    cited.hover()
    page.locator("#cmn-card").wait_for()
    assert re.search(r"(19|20)\d\d", page.inner_text("#cmn-card"))


def test_paper_has_everything_open_and_nothing_cut(page, site):
    opened(page, site, CHAPTER, typeset=False)
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    solutions = page.locator("article details.sd-dropdown")
    assert solutions.count() >= 3 and solutions.evaluate_all("all => all.every(d => d.open)")
    assert page.locator("article .cell_input pre").evaluate_all("all => all.every(e => e.scrollWidth <= e.clientWidth + 2)")
    assert not page.locator(".bd-sidebar-primary").is_visible() and not page.locator("#cmn-all").is_visible()


def test_a_phone_is_told_what_scrolls_and_panels_side_by_side_keep_their_letters(page, site):
    page.set_viewport_size({"width": 390, "height": 800})
    opened(page, site, CHAPTER)
    page.wait_for_function("document.querySelectorAll('.scroll-hint').length > 0")
    cut = page.locator("article mjx-container[display=true]").evaluate_all("all => all.filter(e => e.scrollWidth - e.clientWidth > 6).length")
    assert 0 < cut <= page.locator(".scroll-hint").count()
    widths = "all => all.map(i => [i.naturalWidth / i.naturalHeight, i.clientWidth, i.parentElement.clientWidth])"
    page.wait_for_function("document.querySelectorAll('figure > a.wide').length > 0")
    pictures = page.locator("article figure > a > img")
    for ratio, width, seen in pictures.evaluate_all(widths):
        assert width > 1.4 * seen if ratio > 1.7 else width <= seen      # drawn 711 px wide, so that 8 pt stay 6
    assert page.evaluate("document.documentElement.scrollWidth") <= 391
    page.set_viewport_size({"width": 1280, "height": 800})
    opened(page, site, CHAPTER, typeset=False)
    assert all(width <= seen for _, width, seen in pictures.evaluate_all(widths))


# the ground changes colours, and nothing else that axe looks at
THEMES = ("light", "{resultTypes: ['violations']}"), ("dark", "{resultTypes: ['violations'], runOnly: ['color-contrast']}")


@pytest.mark.parametrize("path", [pytest.param(path, marks=() if i % 24 == 0 and "/api/" not in path else pytest.mark.slow) for i, path in enumerate(ALL_PAGES)])
def test_page_is_accessible(page, site, path):
    """No serious finding of axe, on light ground and on dark.  Code is left out: its colours are those of one style, looked at on one page."""
    axe = files("axe_playwright_python").joinpath("axe.min.js").read_text()
    page.route("**/mathjax/**", lambda route: route.abort())             # formulas are looked at on one page
    page.goto(f"{site}/{path}")
    page.evaluate(axe)
    page.add_style_tag(content="* { transition: none !important; }")
    page.evaluate("document.querySelectorAll('pre span').forEach(e => e.replaceWith(e.textContent))")
    page.evaluate("document.querySelectorAll('div.math').forEach(e => { e.textContent = 'formula'; })")
    found = []
    for theme, rules in THEMES:
        page.evaluate("theme => Object.assign(document.documentElement.dataset, {theme, mode: theme})", theme)
        for v in page.evaluate(f"axe.run(document, {rules})")["violations"]:
            if v["impact"] in ("serious", "critical") or v["id"] == "empty-table-header":
                found += [f"{theme}, {v['id']}: {n['html'][:160]}" for n in v["nodes"]]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", ["book/engineering/chains.html", *(pytest.param(f"book/{page}.html", marks=pytest.mark.slow)
                                  for page in ("engineering/fit", "start/algorithm"))])
def test_formulas_and_code_are_accessible(page, site, path):
    opened(page, site, path)
    page.evaluate("window.cmnBook.openAll()")
    page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text())
    for theme, rules in THEMES:
        page.evaluate("theme => Object.assign(document.documentElement.dataset, {theme, mode: theme})", theme)
        found = page.evaluate(f"axe.run(document.querySelector('article'), {rules})")["violations"]
        assert [v["id"] for v in found if v["impact"] in ("serious", "critical")] == [], theme


@pytest.mark.parametrize("width, scheme", [(320, "dark"), (390, "light"), (1200, "dark")])
def test_conformance_report_is_one_page_for_any_screen(browser, tmp_path, width, scheme):
    """The report of an adapter that fails: nothing from outside, nothing wider than the screen, dark where the reader is."""
    from types import SimpleNamespace

    from cmn_conformance import catalogue, runner
    from cmn_conformance.page import page as report_page
    from cmn_conformance.process import LocalAdapter
    wrong = LocalAdapter(SimpleNamespace(NAME="wrong", OPS={"pg_mean": lambda b, c: b * c, "second_moment": lambda mu, S: S}))
    file = tmp_path / "report.html"
    file.write_text(report_page(runner.run(wrong, catalogue.select(), flags=catalogue.flags()), catalogue.flags()))
    page, asked = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme), []
    page.set_default_timeout(LAST_RESORT)
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    assert len(asked) == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert "First failing level: L0" in page.inner_text("body")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", background))) < 300) == (scheme == "dark")
    page.locator("summary").first.click()
    assert page.locator("details[open] td code").first.is_visible()
    page.close()


def test_every_page_has_a_title_and_a_description_of_its_own(html):
    book, titles, said = "Conditional mixture networks, step by step", {}, {}
    for path in ALL_PAGES[:-2]:                                 # without the search and the index
        head = BeautifulSoup((html / path).read_text(encoding="utf-8").split("</head>")[0], "html.parser").head
        title, tags = " ".join(head.title.get_text().split()), head.select("meta[name=description]")
        assert len(tags) == 1, path
        titles.setdefault(title, []).append(path)
        said.setdefault(tags[0]["content"].strip(), []).append(path)
        name, _, suffix = title.rpartition(" \u2014 ")
        assert (name and suffix == book) or (title == book and path == "book/intro.html"), (path, title)
    assert {text: paths for text, paths in (titles | said).items() if len(paths) > 1} == {}
    assert [(text, path) for text, path in said.items() if not 20 < len(text) <= 205 or text.startswith("<")] == []
