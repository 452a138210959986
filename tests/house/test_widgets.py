"""The pictures to play with say the numbers of the package, for a mouse, a keyboard, a phone, in the dark and on paper.

They are opened from the disk, one at a time, in a page of a few lines: the book need not be built. Without a browser these tests are
skipped, unless CMN_REQUIRE=browser.
"""

import re
from itertools import permutations

import numpy as np
import pytest
import widget_data as data
from numpy.testing import assert_allclose
from tangle import ROOT

from cmn_literate import palette
from cmn_literate.ideas.polya_gamma import log_cosh_half, pg_kl, pg_mean, pg_var
from cmn_literate.ideas.stick_breaking import stick_log_probs, stick_logits
from cmn_literate.network.gate import gate_log_bound, gate_tilt, gate_update
from cmn_literate.network.latents import responsibilities
from cmn_literate.network.simulate import Priors
from cmn_literate.roads.hmc import hamiltonian, leapfrog
from experiments import report, store
from experiments.grid import sizes

DARK = """document.documentElement.dataset.theme = 'dark';
document.documentElement.style.setProperty('--pst-color-background', '#121212');
document.documentElement.style.setProperty('--pst-color-text-base', '#ced6dd');"""
FOLDER = data.FOLDER


# ---- files

@pytest.mark.parametrize("name", ("base", *data.NAMES))
def test_script_is_short_and_stands_alone(name):
    text = (FOLDER / f"{name}.js").read_text(encoding="utf-8")
    assert len(text.encode()) < 6000 and text.isascii()
    assert not re.search(r"\b(fetch|import|eval|XMLHttpRequest|setInterval|requestAnimationFrame)\b", text)
    assert set(re.findall(r"https?://[^\"]*", text)) <= {"http://www.w3.org/2000/svg"}


@pytest.mark.parametrize("name", data.NAMES)
def test_static_picture_is_small_and_asks_for_nothing(name):
    text = (FOLDER / f"fallback_{name}.svg").read_text(encoding="utf-8")
    assert len(text.encode()) < 30_000 and not re.search(r"<script|<image|href=|var\(", text)


def test_colours_are_those_of_the_palette():
    css = dict(re.findall(r"--cmn-((?:class|expert|method)-[\w-]+): (#\w+)", (ROOT / "_static/widgets.css").read_text()))
    want = {f"class-{c}": entry[0] for c, entry in enumerate(palette.CLASSES)} | {f"expert-{k}": entry[0] for k, entry in enumerate(palette.EXPERTS)}
    want |= {f"method-{name}": entry[0] for name, entry in palette.METHODS.items() if entry[0] != palette.INK}   # ink is the colour of the text
    assert css == want


def test_explorer_shows_the_stored_records():
    assert data.differences("explorer", data.explorer()) == []


def test_climb_is_a_fit_of_this_package():
    """All terms of the bound; the maps, which are dear, after one of the sweeps."""
    assert data.differences("climb", data.climb(maps=(10,))) == []
    other = data.stored("climb")
    other["frames"][3]["terms"][0] += 1.0
    other["frames"][5]["classes"] = data.packed(np.zeros(data.SIDE**2, int))
    assert len(data.differences("climb", other)) == 2
    cells = np.array([0, 0, 3, 1, 1, 1])
    assert data.packed(cells) == "A2DB3" and np.array_equal(data.unpacked("A2DB3"), cells)


# ---- in a browser

class Widget:
    """A widget alone on a page, opened from the disk."""

    def __init__(self, browser, folder, name, width=760, dark=False):
        self.name, self.page, self.errors = name, browser.new_page(viewport={"width": width, "height": 900}), []
        self.page.set_default_timeout(120_000)
        self.page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        self.page.on("pageerror", lambda e: self.errors.append(str(e)))
        self.page.on("request", lambda r: None if r.url.startswith("file:") else self.errors.append(r.url))
        file = folder / f"{name}.html"
        text = data.PAGE.format(name=name, static=(ROOT / "_static").as_uri(), width=690)
        picture = f'<img src="{(FOLDER / f"fallback_{name}.svg").as_uri()}" alt="the picture">'
        file.write_text(text.replace(f'data-widget="{name}">', f'data-widget="{name}">{picture}'), encoding="utf-8")
        self.page.goto(file.as_uri())
        if dark:
            self.page.evaluate(DARK)
        self.page.locator(".widget.live").wait_for()

    def values(self):
        assert self.errors == []
        return self.page.evaluate(f"cmnWidgets.{self.name}.values()")

    def slide(self, label, value):
        self.page.get_by_role("slider", name=label, exact=True).fill(str(value))

    def choose(self, label, value):
        self.page.get_by_role("combobox", name=label, exact=True).select_option(value)

    def close(self):
        self.page.close()


@pytest.fixture
def widget(browser, tmp_path):
    made = []

    def make(name, **options):
        made.append(Widget(browser, tmp_path, name, **options))
        return made[-1]
    yield make
    for one in made:
        one.close()


def test_tilt(widget):
    w = widget("pg_tilt")
    grip = w.page.get_by_role("slider", name="logit psi")
    for xi, keys in ((0, 0), (0.1, 3), (2.5, 5), (6, 20)):
        w.slide("tilt \u03be", xi)
        grip.focus()
        for _ in range(keys):
            w.page.keyboard.press("ArrowLeft")
        v = w.values()
        assert v["xi"] == xi
        psi = v["psi"]
        assert_allclose([v["mean"], v["variance"], v["divergence"]], [pg_mean(1.0, xi), pg_var(1.0, xi), pg_kl(1.0, xi)], rtol=2e-4, atol=1e-12)
        coin = psi / 2 - np.log(2) - log_cosh_half(psi)
        assert_allclose(v["coin"], -np.logaddexp(0, -psi), rtol=1e-10)
        assert_allclose(v["bound"], psi / 2 - np.log(2) - log_cosh_half(xi) - pg_mean(1.0, xi) * (psi**2 - xi**2) / 2, rtol=1e-10)
        assert_allclose(v["gap"], coin - v["bound"], atol=1e-10)
        omega = np.exp(np.linspace(-7, 1.5, 1201))
        density = np.array([w.page.evaluate("([o, c]) => o.map((u) => cmnWidgets.pg_tilt.density(u, c))", [omega.tolist(), xi])])
        for t in (0.0, 1.0, 5.0):                          # the Laplace transform knows the whole density
            want = np.exp(log_cosh_half(xi) - log_cosh_half(2 * np.sqrt(xi**2 / 4 + t / 2)))
            assert_allclose(np.trapezoid(np.exp(-t * omega) * density * omega, np.log(omega)), want, rtol=2e-4)
        assert f"{float(pg_mean(1.0, xi)):.4f}" in w.page.locator(".widget-said").inner_text()
    assert psi == 6.5 - 2.8
    w.slide("tilt \u03be", 3.7)
    assert abs(w.values()["gap"]) < 1e-12                  # the parabola touches there


def test_simplex(widget):
    w = widget("simplex")
    for order in permutations(range(3)):
        w.choose("order of the classes", "".join(map(str, order)))
        for psi in ((0, 0), (-3.2, 1.5), (5, -2)):
            for label, value in zip(("logit \u03c8\u2080", "logit \u03c8\u2081"), psi):
                w.slide(label, value)
            v = w.values()
            assert_allclose(np.array(v["probs"])[list(order)], np.exp(stick_log_probs(np.array(psi, float))), rtol=1e-12)
    before = w.values()["probs"]
    w.choose("order of the classes", "120")
    v = w.values()                                         # the point stays, its logits change
    assert_allclose(v["probs"], before, rtol=1e-10)
    assert_allclose(v["psi"], stick_logits(np.log(before)[[1, 2, 0]]), rtol=1e-10)
    grip = w.page.get_by_role("slider", name="distribution")
    grip.focus()
    for key in ("ArrowLeft", "ArrowUp", "Shift+ArrowRight"):
        w.page.keyboard.press(key)
        assert_allclose(w.values()["probs"], np.array(w.values()["probs"]))
    assert grip.get_attribute("aria-valuetext") == ", ".join(f"class {k} {p:.2f}" for k, p in enumerate(w.values()["probs"]))
    box, triangle = grip.bounding_box(), w.page.get_by_label("Triangle").bounding_box()
    w.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    w.page.mouse.down()
    w.page.mouse.move(triangle["x"] + triangle["width"] / 2, triangle["y"] + triangle["height"] * 0.63, steps=4)
    w.page.mouse.up()
    assert_allclose(w.values()["probs"], [1 / 3] * 3, atol=0.05)


def test_gate_line(widget):
    w = widget("gate_line")
    priors = Priors()

    def check():
        v = w.values()
        X, mu, S = np.array(v["rows"]), np.array([v["mu"]]), np.array(v["S"]).reshape(1, 3, 3)
        tilt = gate_tilt(X, mu, S)
        gate = gate_log_bound(X, mu, S, tilt)
        assert_allclose(v["gate"], gate, rtol=1e-9, atol=1e-12)
        gamma = responsibilities(np.array(v["experts"]) + gate)[0]
        assert_allclose(v["gamma"], gamma[:, 0], rtol=1e-9, atol=1e-12)
        return v, gate_update(X, gamma, tilt, priors)
    for steepness in (0.1, 1.5, 8):
        w.slide("steepness", steepness)
        v, _ = check()
        assert_allclose(np.hypot(*v["mu"][:2]), steepness)
    for end, keys in (("end 0", ["ArrowRight"] * 12), ("end 1", ["ArrowUp", "Shift+ArrowLeft", "ArrowDown"])):
        w.page.get_by_role("slider", name=end).focus()
        for key in keys:
            w.page.keyboard.press(key)
        v, (mu, S) = check()
    for _ in range(4):
        w.page.get_by_role("button", name="one update").press("Enter")
        v, after = check()
        assert_allclose(v["mu"], mu[0], rtol=1e-8)
        assert_allclose(np.reshape(v["S"], (3, 3)), S[0], rtol=1e-8, atol=1e-12)
        mu, S = after
    w.slide("row looked at", 3)
    assert w.values()["seen"] == 3
    assert f"0: {w.values()['gamma'][3]:.2f}" in w.page.get_by_label("One row").text_content()


def test_banana(widget):
    w = widget("hmc_banana")

    def banana(q):
        bend = q[1] - 0.5 * q[0] ** 2
        return -0.5 * q[0] ** 2 - 2 * bend**2, np.array([-q[0] + 4 * bend * q[0], -4 * bend])

    def check():
        v = w.values()
        q, p = np.array(v["q"]), np.array(v["p"])
        value, grad = banana(q)
        start = hamiltonian(value, p, 1.0)
        with np.errstate(all="ignore"):
            for _ in range(v["count"]):
                q, p, value, grad = leapfrog(banana, q, p, grad, v["step"], 1.0)
            rise = hamiltonian(value, p, 1.0) - start
        if not rise <= 1000:
            assert v["accept"] == 0 and "divergent" in w.page.locator(".widget-said").inner_text()
        else:
            assert_allclose(v["end"], q, rtol=1e-7)
            assert_allclose([v["rise"], v["accept"]], [rise, min(1, np.exp(-rise))], rtol=1e-6, atol=1e-8)
        return v
    for step, count in ((0.15, 20), (0.02, 80), (0.3, 40), (1, 60)):
        w.slide("step \u03b5", step)
        w.slide("number of steps", count)
        assert check()["count"] == count
    w.slide("step \u03b5", 0.1)
    for name, key, field in (("start", "ArrowLeft", "q"), ("tip of the momentum", "ArrowUp", "p")):
        before = w.values()[field]
        w.page.get_by_role("slider", name=name).focus()
        w.page.keyboard.press(key)
        assert_allclose(np.subtract(check()[field], before), [-0.1, 0] if field == "q" else [0, 0.2], atol=1e-12)


def test_climb(widget):
    w, stored = widget("climb"), data.stored("climb")
    slider = w.page.get_by_role("slider", name="sweep")
    slider.focus()
    w.page.keyboard.press("Home")
    for frame in stored["frames"][:6]:
        v = w.values()
        assert v["sweep"] == frame["sweep"] and v["terms"] == frame["terms"]
        assert_allclose(v["bound"], sum(frame["terms"]))
        assert [ord(k) - 65 for k in v["winners"]] == data.unpacked(frame["classes"]).tolist()
        w.page.keyboard.press("ArrowRight")
    w.choose("regions of the", "experts")
    v = w.values()
    assert [ord(k) - 65 for k in v["winners"]] == data.unpacked(stored["frames"][6]["experts"]).tolist()
    bounds = [sum(frame["terms"]) for frame in stored["frames"]]
    assert min(np.diff(bounds)) > 0 and len(stored["frames"]) == len(data.SWEEPS)


def test_explorer(widget):
    w, records = widget("explorer"), store.read(store.RESULTS / "cells")
    for dataset, score in (("pinwheels", "lpd"), ("iris", "accuracy"), ("wdbc", "cpu_seconds"), ("vehicle", "ece")):
        w.choose("data set", dataset)
        w.choose("score", score)
        found, shown = report.summaries(records, score), w.values()["shown"]
        for (name, rows, method), (mean, sd, seeds) in found.items():
            if name == dataset:
                at = next(point for point in shown[method] if point[0] == rows)
                assert_allclose(at[1], mean, rtol=1e-3)
                assert at[3] == seeds and (np.isnan(sd) if at[2] is None else np.isclose(at[2], sd, rtol=1e-2, atol=1e-12))
        assert [int(th) for th in w.page.locator("tbody th").all_text_contents()] == sizes(dataset)
    w.page.get_by_role("checkbox", name="CAVI").press("Space")
    assert "cavi" not in w.values()["shown"] and "CAVI" not in w.page.locator("thead").text_content()


LUMINANCE = """([e, s]) => {
  const rgb = (t) => t.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = (t) => rgb(t).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const style = getComputedStyle(e), [a, b] = [light(e.namespaceURI.endsWith('svg') ? style.fill : style.color), s];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}"""


# in `make test` each picture on one screen, every second in the dark
SCREENS = [pytest.param(name, *screen, marks=() if (i + j) % 2 == 0 and j < 2 else pytest.mark.slow) for i, name in enumerate(data.NAMES)
           for j, screen in enumerate(((760, False), (390, True), (340, False)))]


@pytest.mark.parametrize("name, width, dark", SCREENS)
def test_any_screen(widget, name, width, dark):
    """Nothing is wider than the screen, no text is too small, too pale or outside its picture; on paper the static picture stands."""
    w = widget(name, width=width, dark=dark)
    page = w.page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    paper = 0.0060 if dark else 1.0                        # luminance of #121212 and of white
    box = page.locator(".widget-live").bounding_box()
    for text in page.locator(".widget-live svg text:not([aria-hidden]), .widget-said, .widget-live label span, .widget-live output").all():
        if not text.text_content().strip() or not text.is_visible():
            continue
        at = text.bounding_box()
        assert at["x"] > box["x"] - 5 and at["x"] + at["width"] < box["x"] + box["width"] + 5, text.text_content()
        assert at["height"] > 10, text.text_content()
        assert text.evaluate(f"(e) => ({LUMINANCE})([e, {paper}])") > 4.5, text.text_content()
    for control in page.locator("input, select, button, [role=slider]").all():
        assert control.get_attribute("aria-label") or control.evaluate("e => e.closest('label')?.textContent.trim() || e.textContent.trim()")
    assert page.locator(".handle").count() == page.locator("[role=slider][tabindex='0'][aria-valuenow][aria-valuetext]").count()
    assert not page.locator(".widget img").is_visible()
    page.emulate_media(media="print")
    assert page.locator(".widget img").is_visible() and not page.locator(".widget-live").is_visible()
    assert page.locator(".widget img").evaluate("e => e.complete && e.naturalWidth") > 600
    assert w.errors == []


def test_without_scripts_the_static_picture_stands(browser, tmp_path):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    picture = (FOLDER / "fallback_climb.svg").as_uri()
    (tmp_path / "plain.html").write_text(f'<link rel="stylesheet" href="{(ROOT / "_static/widgets.css").as_uri()}"><div class="widget" '
                                         f'data-widget="climb"><img src="{picture}" alt="a"></div>')
    page.goto((tmp_path / "plain.html").as_uri())
    assert page.locator("img").is_visible()
    context.close()


def test_only_pages_with_a_picture_load_its_script():
    from types import SimpleNamespace

    from widget_scripts import only_where_used
    files = [SimpleNamespace(filename=f) for f in ("_static/doctools.js", "_static/widgets/base.js", "_static/widgets/climb.js", None)]
    for body, want in (('<div data-widget="climb">', 3), ("<p>", 2), (None, 2)):
        context = {"body": body, "script_files": files}
        only_where_used(None, "page", "", context, None)
        assert len(context["script_files"]) == want
