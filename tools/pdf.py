"""The book as one PDF, printed page by page in headless Chromium and joined with an outline.

    python tools/pdf.py [--out book.pdf] [page ...]

Reads the built book, _build/html.  Solutions stand open, equations stay with their numbers, folded code stays folded.
"""

import argparse
import io
import re
import shutil
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tangle import ROOT, chapter_order

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
WIDTH = 672                         # pixels of A4 between its margins: a formula that is wider there is set smaller (_static/book.js)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


def printed(html, paths):
    """(title, PDF bytes) of each page, served from this machine."""
    from playwright.sync_api import sync_playwright
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        raise SystemExit("pdf: expected chromium or google-chrome on this machine, found none")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=html))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_page(viewport={"width": WIDTH, "height": 950})
        page.emulate_media(media="print")
        page.set_default_timeout(600_000)
        for path in paths:
            page.goto(f"http://127.0.0.1:{server.server_port}/{path}.html")
            page.evaluate("async () => { if (window.MathJax) await MathJax.startup.promise; window.cmnBook.openAll(); }")
            page.wait_for_load_state("networkidle")
            title = re.sub(r"\s*[#\u00b6]$", "", page.locator(".bd-article h1").first.inner_text().strip())
            yield title, page.pdf(format="A4", margin=dict.fromkeys(("top", "bottom", "left", "right"), "16mm"), print_background=True)
        browser.close()
    server.shutdown()


def join(parts, out):
    """One file with an outline; its length in pages."""
    from pypdf import PdfReader, PdfWriter
    writer = PdfWriter()
    for title, data in parts:
        first = len(writer.pages)
        writer.append(PdfReader(io.BytesIO(data)), import_outline=False)
        writer.add_outline_item(title=title, page_number=first)
    writer.compress_identical_objects()
    with open(out, "wb") as file:
        writer.write(file)
    return len(writer.pages)


def main(argv=None, root=ROOT):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="_build/book.pdf")
    parser.add_argument("pages", nargs="*", help="pages of the book, e.g. book/network/gate (default: all)")
    args = parser.parse_args(argv)
    html = root / "_build/html"
    if not (html / "book/intro.html").exists():
        raise SystemExit("pdf: expected a built book in _build/html; run 'make book' first")
    paths = args.pages or ["book/intro", *chapter_order(root)]
    count = join(printed(html, paths), Path(args.out))
    print(f"wrote {args.out}: {count} pages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
