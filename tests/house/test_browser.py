"""The built book, as a reader meets it: typeset, self-contained, described, searchable, no dead link.

The pages are those of `make book`. The first test reads all of them as files; the others open some of them in headless
Chromium, served from this machine. Without a built book or a browser they are skipped, unless CMN_REQUIRE=browser.
"""

import os
import re
import shutil
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlparse

import pytest
from bs4 import BeautifulSoup
from tangle import ROOT, chapter_order

HTML = ROOT / "_build/html"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-component-update",
         "--disable-sync"]
LAST_RESORT = 900_000                               # milliseconds; for what never comes
PAGES = ["book/intro.html"] + [f"{c}.html" for c in chapter_order() if (ROOT / f"{c}.ipynb").exists()]


def need(thing, found):
    """Skip with a reason, or fail where the environment says that a browser is there."""
    if not found:
        (pytest.fail if "browser" in os.environ.get("CMN_REQUIRE", "").split(",") else pytest.skip)(f"no {thing}")


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


@pytest.fixture(scope="module")
def browser():
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    need("chromium on this machine", chromium)
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=chromium, args=FLAGS, timeout=LAST_RESORT)
        yield browser
        browser.close()


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


def test_links_resolve_and_images_are_described(html):
    soups = {p: BeautifulSoup(p.read_text(encoding="utf-8"), "html.parser") for p in html.rglob("*.html")
             if "_static" not in p.parts}
    anchors = {p: {tag.get("id") or tag.get("name") for tag in soup.find_all(lambda t: t.get("id") or t.get("name"))}
               for p, soup in soups.items()}
    wrong = []
    for page, soup in soups.items():
        for a in soup.find_all("a", href=True):
            url, fragment = urldefrag(a["href"])
            if urlparse(url).scheme:
                continue
            target = page if not url else Path(os.path.normpath(page.parent / unquote(url)))
            if not target.exists():
                wrong.append(f"{page.relative_to(html)}: link to {url}")
            elif fragment and target in anchors and unquote(fragment) not in anchors[target]:
                wrong.append(f"{page.relative_to(html)}: link to #{fragment} of {target.name}")
        for img in soup.find_all("img"):
            alt = img.get("alt", "").strip()
            if not alt or re.fullmatch(r"\S*(/\S*|\.(png|svg|jpe?g))", alt):
                wrong.append(f"{page.relative_to(html)}: image with alt text {alt!r}")
        wrong += [f"{page.relative_to(html)}: loads {tag.get('src') or tag.get('href')}"
                  for tag in soup.select("script[src^=http], link[rel=stylesheet][href^=http], img[src^=http], iframe")]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", PAGES[:1] + PAGES[1::max(1, (len(PAGES) - 1) // 3)][:3])
def test_page_is_typeset_and_self_contained(page, site, html, path):
    page.goto(f"{site}/{path}")
    page.evaluate("async () => { if (window.MathJax) await MathJax.startup.promise }")
    sources = len(BeautifulSoup((html / path).read_text(encoding="utf-8"), "html.parser").select(".math"))
    assert page.locator("mjx-container").count() >= sources > 0
    assert page.locator("mjx-merror, [data-mjx-error]").count() == 0
    page.wait_for_load_state("networkidle")
    assert page.errors == []
    assert page.outside == []


def test_search_finds_stick_breaking(page, site):
    page.goto(f"{site}/search.html?q=stick-breaking")
    page.locator("#search-results li a").first.wait_for()
    hits = page.locator("#search-results li a").evaluate_all("links => links.map(a => a.getAttribute('href'))")
    assert any("stick_breaking.html" in hit for hit in hits), hits
    assert page.errors == [] and page.outside == []


def test_every_page_fits_a_laptop_and_a_phone(page, site):
    """No display is wider than its column on a laptop, which would hide its end, and often its number; on a phone nothing sticks out."""
    cut, wide, seen = [], [], 0
    for path in PAGES:
        page.set_viewport_size({"width": 1280, "height": 800})
        page.goto(f"{site}/{path}")
        page.evaluate("async () => { if (window.MathJax) await MathJax.startup.promise }")
        found = page.locator("main mjx-container[display=true]").evaluate_all(
            "all => all.map(e => [e.scrollWidth - e.clientWidth, e.parentElement.id || e.textContent.slice(0, 40)])")
        seen += len(found)
        cut += [f"{path}: {name}" for excess, name in found if excess > 4]
        page.set_viewport_size({"width": 390, "height": 800})
        if page.evaluate("document.documentElement.scrollWidth") > 391:
            wide.append(path)
    assert seen > 400 and not cut, "\n".join(cut)
    assert not wide


@pytest.mark.parametrize("width, scheme", [(320, "dark"), (390, "light"), (1200, "dark")])
def test_conformance_report_is_one_page_for_any_screen(browser, tmp_path, width, scheme):
    """The report of an adapter that fails: nothing from outside, nothing wider than the screen, dark where the reader is."""
    from types import SimpleNamespace

    from cmn_conformance import catalogue, report, runner
    from cmn_conformance.process import LocalAdapter
    wrong = LocalAdapter(SimpleNamespace(NAME="wrong", OPS={"pg_mean": lambda b, c: b * c, "second_moment": lambda mu, S: S}))
    file = tmp_path / "report.html"
    file.write_text(report.page(runner.run(wrong, catalogue.select(), flags=catalogue.flags()), catalogue.flags()))
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
