"""Write what the pictures to play with need: their data, and the static pictures that stand for them in print.

    python tools/widget_data.py [--check] [--pictures]

The data are computed: one fit of the five-armed pinwheel, sweep by sweep, and the means of the stored records. The static pictures are
the widgets themselves at their first settings, drawn by headless Chromium; --pictures draws them again.
"""

import argparse
import json
import re
import shutil
import sys
from itertools import groupby

import numpy as np
from tangle import ROOT, write_atomically

from cmn_literate.engineering.quadrature import predict_proba
from cmn_literate.network.cavi import init_state, sweep
from cmn_literate.network.elbo import elbo_terms
from cmn_literate.network.predict import gate_log_probs
from cmn_literate.network.simulate import Priors
from cmn_literate.use.datasets import make_pinwheels
from experiments import report, store
from experiments.grid import DATASETS, SETTINGS

FOLDER = ROOT / "_static/widgets"
NAMES = ("pg_tilt", "climb", "simplex", "gate_line", "hmc_banana", "explorer")
SWEEPS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 18, 20, 23, 26, 30, 35, 40, 50, 60, 75, 90, 100)
SIDE, REACH = 48, 2.6                                     # cells along a side of the map, and its half width
ROWS, EXPERTS, CLASSES = 200, 10, 5
# score of a record: its name for a reader, and which is better
SCORES = {"lpd": ("mean log score on test rows, nats", "higher"), "accuracy": ("accuracy on test rows", "higher"),
          "brier": ("Brier score on test rows", "lower"), "ece": ("calibration error on test rows", "lower"),
          "waic": ("WAIC per training row, nats", "higher"), "cpu_seconds": ("CPU seconds of a fit", "lower")}


def pinwheel():
    """The running example: 200 points on five arms, standardised.   -> X (200, 2), y (200,)"""
    X, y = make_pinwheels(ROWS, np.random.default_rng(0), CLASSES)
    return (X - X.mean(0)) / X.std(0), y


def cells_of_map():
    """Centres of the cells of the map, row by row from the top.   -> (SIDE^2, 2)"""
    at = (np.arange(SIDE) + 0.5) / SIDE * 2 * REACH - REACH
    across, up = np.meshgrid(at, at[::-1])
    return np.column_stack([across.ravel(), up.ravel()])


def packed(winner):
    """Winners (n,) as runs: a capital letter for the winner, then how often it stands there if more than once."""
    runs = [(k, len(list(same))) for k, same in groupby(winner)]
    return "".join(chr(65 + k) + (str(n) if n > 1 else "") for k, n in runs)


def unpacked(text):
    """The winners that `packed` wrote.   -> (n,)"""
    return np.array([ord(k) - 65 for k, n in re.findall(r"([A-Z])(\d*)", text) for _ in range(int(n or 1))])


def climb(maps=SWEEPS):
    """One fit from a random start, sweep by sweep: who wins where (only after the sweeps `maps`, they are dear), and the terms of the bound."""
    (X, y), priors, grid, frames = pinwheel(), Priors(), cells_of_map(), []
    state = init_state(X, y, EXPERTS, CLASSES - 1, CLASSES, priors, 1)
    for n in range(SWEEPS[-1] + 1):
        if n in SWEEPS:
            terms = elbo_terms(state, X, y, priors)
            frames.append({"sweep": n, "terms": [round(float(v), 2) for v in terms.values()]})
            if n in maps:
                frames[-1]["classes"] = packed(predict_proba(state.parameters, grid).argmax(1))
                frames[-1]["experts"] = packed(gate_log_probs(state.parameters, grid).argmax(1))
        state = sweep(state, X, y, priors)
    rows = [[round(float(a), 2), round(float(b), 2), int(c)] for (a, b), c in zip(X, y)]
    return {"side": SIDE, "reach": REACH, "rows": rows, "terms": list(terms), "frames": frames}


def explorer():
    """Mean, standard deviation and number of seeds of each score, by data set, method and number of training rows."""
    records, table = store.read(store.RESULTS / "cells"), {}
    for score in SCORES:
        for (dataset, rows, method), (mean, sd, seeds) in report.summaries(records, score).items():
            at = table.setdefault(dataset, {}).setdefault(score, {}).setdefault(method, [])
            at.append([rows, float(f"{mean:.4g}"), None if np.isnan(sd) else float(f"{sd:.3g}"), seeds])
    return {"scores": SCORES, "methods": list(SETTINGS), "sets": {name: table[name] for name in DATASETS if name in table}}


def source(name, content):
    """A data file as text: fetch fails on file://, an assignment does not."""
    text = json.dumps(content, separators=(",", ":"))
    return f'/* Written by tools/widget_data.py. */\n(window.cmnData ??= {{}}).{name} = {text};\n'


def stored(name):
    """The content of a stored data file."""
    text = (FOLDER / f"data_{name}.js").read_text(encoding="utf-8")
    return json.loads(text[text.index(" = ") + 3:].rstrip().rstrip(";"))


def differences(name, content):
    """What a stored file says otherwise than a recomputation: sentences.  Cells of a map where two nearly tie may differ."""
    old = stored(name)
    if name != "climb":
        return [] if old == json.loads(json.dumps(content)) else [f"{name}: the records say something else"]
    found = [f"{name}: {key}" for key in content if key != "frames" and old[key] != content[key]]
    for was, now in zip(old["frames"], content["frames"], strict=True):
        if was["sweep"] != now["sweep"] or not np.allclose(was["terms"], now["terms"], rtol=1e-4, atol=0.03):
            found.append(f"{name}, sweep {now['sweep']}: terms of the bound")
        for part in {"classes", "experts"} & set(now):
            if np.mean(unpacked(was[part]) != unpacked(now[part])) > 0.01:
                found.append(f"{name}, sweep {now['sweep']}: map of {part}")
    return found


PAGE = """<!doctype html><meta charset="utf-8"><title>{name}</title><link rel="stylesheet" href="{static}/widgets.css">
<body style="margin:0;font:16px/1.5 sans-serif"><div style="max-width:{width}px;padding:8px"><div class="widget" data-widget="{name}"></div></div>
<script src="{static}/widgets/base.js"></script>"""

# the panels of a live widget side by side in one picture: what is drawn, with the style that it has on the page
COMPOSE = """() => {
  const box = document.querySelector('.widget'), origin = box.getBoundingClientRect(), say = (v) => Math.round(v * 100) / 100;
  const KEEP = {fill: 'rgb(0, 0, 0)', stroke: 'none', 'stroke-width': '1px', 'stroke-dasharray': 'none', 'fill-opacity': '1', 'stroke-opacity': '1',
    opacity: '1', 'font-size': '16px', 'font-weight': '400', 'stroke-linejoin': 'miter', 'paint-order': 'normal', 'shape-rendering': 'auto'};
  let out = '', bottom = 0;
  for (const s of box.querySelectorAll('.widget-slider')) {
    const spans = s.firstChild.textContent + ' = ' + s.querySelector('output').textContent, at = s.getBoundingClientRect();
    out += `<text x="4" y="${say(at.bottom - origin.top - 8)}" font-size="13">${spans}</text>`;
  }
  for (const svg of box.querySelectorAll('svg')) {
    const at = svg.getBoundingClientRect(), copy = svg.cloneNode(true);
    const live = [...svg.querySelectorAll('*')], still = [...copy.querySelectorAll('*')];
    live.forEach((e, i) => {
      const style = getComputedStyle(e), parent = getComputedStyle(e.parentNode), text = e.tagName === 'text';
      for (const [k, first] of Object.entries(KEEP)) {
        if (k.startsWith('font') ? text && style[k] !== first : style[k] !== (k === 'opacity' || e.parentNode === svg ? first : parent[k]))
          still[i].setAttribute(k, style[k].replace(/rgb\\((\\d+), (\\d+), (\\d+)\\)/, (m, ...c) => '#' + c.slice(0, 3).map((v) => (+v).toString(16).padStart(2, '0')).join('')));
      }
      for (const k of ['class', 'tabindex', 'role', ...[...still[i].attributes].map((a) => a.name).filter((n) => n.startsWith('aria'))]) still[i].removeAttribute(k);
    });
    still.filter((e, i) => live[i].classList.contains('reach')).forEach((e) => e.remove());
    copy.setAttribute('x', say(at.left - origin.left)); copy.setAttribute('y', say(at.top - origin.top));
    copy.setAttribute('width', say(at.width)); copy.setAttribute('height', say(at.height));
    for (const k of ['role', 'aria-label', 'class']) copy.removeAttribute(k);
    out += copy.outerHTML.replace(/ xmlns="[^"]*"/g, '');
    bottom = Math.max(bottom, at.bottom - origin.top);
  }
  for (const label of box.querySelectorAll('.widget-methods label')) {                    /* the keys of a legend, with their names */
    const key = label.querySelector('svg').getBoundingClientRect();
    out += `<text x="${say(key.right - origin.left + 6)}" y="${say(key.bottom - origin.top - 2)}" font-size="14">${label.textContent.trim()}</text>`;
  }
  const w = say(origin.width), h = Math.ceil(bottom) + 4;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${w} ${h}" width="${w}" height="${h}" font-family="sans-serif">`
    + `<rect width="100%" height="100%" fill="#fff"/>${out}</svg>\\n`;
}"""


def pictures():
    """Draw the static pictures again."""
    from playwright.sync_api import sync_playwright
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=shutil.which("chromium") or shutil.which("google-chrome"), args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 720, "height": 900})
        for name in NAMES:
            file = ROOT / f"_build/widget-{name}.html"
            write_atomically(file, PAGE.format(name=name, static=(ROOT / "_static").as_uri(), width=690))
            page.goto(file.as_uri())
            page.locator(".widget.live").wait_for()
            write_atomically(FOLDER / f"fallback_{name}.svg", page.evaluate(COMPOSE))
            file.unlink()
        browser.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; say what a recomputation would change")
    parser.add_argument("--pictures", action="store_true", help="draw the static pictures again")
    options = parser.parse_args()
    found = []
    for name, content in (("climb", climb()), ("explorer", explorer())):
        if options.check:
            found += differences(name, content)
        else:
            write_atomically(FOLDER / f"data_{name}.js", source(name, content))
    if options.pictures and not options.check:
        pictures()
    print("\n".join(found), file=sys.stderr)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
