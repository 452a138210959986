"""Headless Chromium: how the tests start it, and what they do where there is none."""

import os
import shutil

import pytest

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-component-update",
         "--disable-sync"]
LAST_RESORT = 900_000                               # milliseconds; for what never comes


def need(thing, found):
    """Skip with a reason, or fail where the environment says that a browser is there."""
    if not found:
        (pytest.fail if "browser" in os.environ.get("CMN_REQUIRE", "").split(",") else pytest.skip)(f"no {thing}")


def chromium():
    """One browser, closed when the generator goes on."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    need("chromium on this machine", path)
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=path, args=FLAGS, timeout=LAST_RESORT)
        yield browser
        browser.close()
