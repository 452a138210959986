"""What a run found, as text, JUnit XML, one HTML page and a badge."""

import html
import json
import os
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

from cmn_conformance.naming import likely

LEVELS = ("special functions", "expectations, divergences, entropies", "one factor's update", "terms of the bound",
          "sweeps from a given state", "converged", "prediction")
VERDICTS = ("passed", "failed", "skipped", "errored", "xfailed", "xpassed", "undeclared")
BAD = ("failed", "errored", "xpassed")
STALE = "Nothing fails, but cases that are listed as expected failures pass: take them off the list."
HEADINGS = {"xfailed": "expected", "xpassed": "unexpected", "undeclared": "not asked"}
SHORT = {"passed": "pass", "failed": "fail", "skipped": "skip", "errored": "err", "xfailed": "exp.", "xpassed": "unexp.", "undeclared": "n/a"}
MARKS = {"passed": "\N{CHECK MARK}", "failed": "\N{MULTIPLICATION SIGN}", "errored": "!", "skipped": "\N{EN DASH}", "xfailed": "x",
         "xpassed": "?", "undeclared": "\N{MIDDLE DOT}"}


def anchor(eq, words):
    """Link to an equation in the book that CMN_BOOK, or --book, names; without a book, words alone."""
    base = os.environ.get("CMN_BOOK", "").rstrip("/")
    return f'<a href="{html.escape(base)}/{html.escape(eq["link"])}">{words}</a>' if base else words


def summarise(results, flags, dtype="f64"):
    """Levels, first failing level, likely bugs and achievement of a list of results."""
    levels = []
    for level in sorted({r["level"] for r in results}):
        here = [r for r in results if r["level"] == level]
        counts = {verdict: sum(r["verdict"] == verdict for r in here) for verdict in VERDICTS}
        bad = any(counts[v] for v in BAD)
        gap = counts["undeclared"] + counts["xfailed"] + sum(r["verdict"] == "skipped" and r["kind"] not in ("dtype", "profile") for r in here)
        status = "failing" if bad else "empty" if not counts["passed"] else "partial" if gap else "complete"
        levels.append({"level": level, "title": LEVELS[level], **counts, "status": status})
    failing = [entry["level"] for entry in levels if entry["failed"] or entry["errored"]]
    first = failing[0] if failing else None
    return {"levels": levels, "first_failing_level": first, "likely": likely(results, flags, dtype), "achieved": achieved(levels)}


def achieved(levels):
    """"L0-L4" for the unbroken run of complete levels from 0 on, "L0 partial" for a part of some, or "none"."""
    complete = 0
    while complete < len(levels) and levels[complete]["level"] == complete and levels[complete]["status"] == "complete":
        complete += 1
    if complete:
        return "L0" if complete == 1 else f"L0\N{EN DASH}L{complete - 1}"
    partial = [f"L{e['level']}" for e in levels if e["status"] in ("complete", "partial")]
    return f"{', '.join(partial)} partial" if partial and not any(e["status"] == "failing" for e in levels) else "none"


def foremost(likely, each=2):
    """The first flags of each operation."""
    return [f for i, f in enumerate(likely) if sum(g["op"] == f["op"] for g in likely[:i]) < each]


# ---- text

def of(flag, flags):
    """A flag in words."""
    entry = flags.get(flag, {})
    return f"{flag}: {entry.get('bug', 'no description')}" + (f" ({entry['eq']['link']})" if entry.get("eq") else "")


def headline(report):
    a, s = report["adapter"], report["suite"]
    return f"CAVI-CMN conformance, suite {s['version']}: {' '.join(filter(None, [a['name'], a['version']]))}, {a['language']}, {report['dtype']}"


def table(report):
    """The table per level, as lines."""
    shown = [v for v in VERDICTS if v in VERDICTS[:4] or any(level[v] for level in report["levels"])]
    width = max([len(level["title"]) for level in report["levels"]] + [5]) + 3
    lines = [f"{'level':{width}}" + "".join(f"{HEADINGS.get(v, v):>11}" for v in shown)]
    for level in report["levels"]:
        lines.append(f"L{level['level']} {level['title']:{width - 3}}" + "".join(f"{level[v]:>11}" for v in shown))
    totals = [sum(level[v] for level in report["levels"]) for v in shown]
    return [*lines, f"{'all':{width}}" + "".join(f"{t:>11}" for t in totals)]


def describe(result, flags, indent="  "):
    """One result that is not a pass, as lines."""
    lines = [f"{result['verdict'].upper()} {result['id']}", f"{indent}equation {result['eq']['label']}  {result['eq']['link']}"]
    if result["message"]:
        lines.append(f"{indent}{result['message']}")
    lines += [f"{indent}{o['name']}: {o['problem']}" for o in result["outputs"] if not o["ok"]]
    if result["verdict"] == "failed":
        lines += [f"{indent}{'likely' if i == 0 else '    or'} {of(flag, flags)}" for i, flag in enumerate(result["flags"])]
    return lines


def text(report, flags):
    """What the terminal shows."""
    lines = [headline(report), "", *table(report), ""]
    bad = [r for r in report["results"] if r["verdict"] in BAD]
    first = report["first_failing_level"]
    if bad:
        lines += [f"First failing level: L{first} {LEVELS[first]}. What fails further down may follow from it." if first is not None else STALE, ""]
        for level in sorted({r["level"] for r in bad}):
            for result in (r for r in bad if r["level"] == level):
                lines += [*describe(result, flags), ""]
        if report["likely"]:
            lines.append(f"Bugs that the failures of L{first} point at, the likeliest first:")
            lines += [f"  {f['op']}, {f['failed']} of {f['asked']} cases  {of(f['flag'], flags)}" for f in foremost(report["likely"])] + [""]
    skips = [r for r in report["results"] if r["verdict"] == "skipped"]
    reasons = Counter("cases of a profile that the adapter does not declare" if r["kind"] == "profile" else r["message"] for r in skips)
    lines += [f"skipped {count}: {reason}" for reason, count in reasons.items()]
    lines += report["problems"]
    n = {v: sum(level[v] for level in report["levels"]) for v in VERDICTS}
    lines.append(f"{report['questions']} questions, {report['answers']} answers, {report['restarts']} restarts, {report['seconds']:.1f} s; "
                 f"levels reached: {report['achieved']}")
    stale = f"{n['xpassed']} passed unexpectedly, " if n["xpassed"] else ""
    lines.append(f"{n['passed']} passed, {n['failed']} failed, {n['errored']} errored, {stale}"
                 f"{n['skipped'] + n['xfailed'] + n['undeclared']} skipped, expected to fail or not asked")
    return "\n".join(lines)


# ---- JUnit

def junit(report):
    """JUnit XML; what is not asked is left out."""
    asked = [r for r in report["results"] if r["verdict"] != "undeclared"]
    suites = ET.Element("testsuites", name="CAVI-CMN conformance")
    for level in report["levels"]:
        here = [r for r in asked if r["level"] == level["level"]]
        suite = ET.SubElement(suites, "testsuite", name=f"L{level['level']} {level['title']}", tests=str(len(here)),
                              failures=str(level["failed"] + level["xpassed"]), errors=str(level["errored"]),
                              skipped=str(level["skipped"] + level["xfailed"]), time=f"{sum(r['seconds'] for r in here):.3f}")
        for r in here:
            case = ET.SubElement(suite, "testcase", classname=f"L{r['level']}.{r['op']}", name=r["id"], time=f"{r['seconds']:.3f}")
            words = r["message"] or "; ".join(f"{o['name']}: {o['problem']}" for o in r["outputs"] if not o["ok"])
            tag = {"failed": "failure", "xpassed": "failure", "errored": "error", "skipped": "skipped", "xfailed": "skipped"}.get(r["verdict"])
            if tag:
                body = f"{r['eq']['label']} {r['eq']['link']}\nflags: {', '.join(r['flags'])}"
                ET.SubElement(case, tag, message=_printable(words)).text = None if tag == "skipped" else _printable(body)
    ET.indent(suites)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(suites, encoding="unicode") + "\n"


def _printable(words):
    """Without the control characters that XML cannot hold."""
    return "".join(c if c in "\t\n" or " " <= c < "\ud800" or "\ue000" <= c <= "\ufffd" or c > "\uffff" else "\N{REPLACEMENT CHARACTER}"
                   for c in words)


# ---- badge

def badge(report):
    """A small SVG."""
    right = report["achieved"]
    if report["dtype"] != "f64":
        right += f" {report['dtype']}"
    failing = any(level["status"] == "failing" for level in report["levels"])
    colour = "#8a6d00" if "partial" in right else "#b3261e" if right.startswith("none") else "#8a6d00" if failing else "#1a7f37"
    left = "CAVI-CMN conformance"
    a, b = 8 * 2 + int(6.3 * len(left)), 8 * 2 + int(6.9 * len(right))
    words = html.escape(f"{left} {right}")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{a + b}" height="20" role="img" aria-label="{words}"><title>{words}</title>'
            f'<clipPath id="r{a + b}"><rect width="{a + b}" height="20" rx="3"/></clipPath><g clip-path="url(#r{a + b})">'
            f'<rect width="{a}" height="20" fill="#444"/><rect x="{a}" width="{b}" height="20" fill="{colour}"/></g>'
            '<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
            f'<text x="{a / 2}" y="14" textLength="{a - 14}">{left}</text>'
            f'<text x="{a + b / 2}" y="14" textLength="{b - 14}">{html.escape(right)}</text></g></svg>\n')


# ---- HTML

STYLE = """
:root{color-scheme:light dark;--bg:#fff;--fg:#1c1e21;--soft:#5c636b;--line:#d5d9de;--card:#f5f6f8;--ok:#1a7f37;--bad:#b3261e;--mid:#8a6d00;--link:#0b57d0}
@media(prefers-color-scheme:dark){:root{--bg:#15171a;--fg:#e6e8ea;--soft:#a3abb3;--line:#373c42;--card:#1e2125;--ok:#57c878;--bad:#ff8a80;--mid:#e3c04f;--link:#8ab4f8}}
*{box-sizing:border-box}body{margin:0 auto;max-width:60rem;padding:1rem;background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.4rem;line-height:1.25;margin:.4rem 0}h2{font-size:1.1rem;margin:1.6rem 0 .5rem}a{color:var(--link)}
p.meta,.soft{color:var(--soft)}.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:.3rem .5rem;border-bottom:1px solid var(--line);vertical-align:top}td.n,th.n{text-align:right}
.passed,.complete{color:var(--ok)}.failed,.errored,.xpassed,.failing{color:var(--bad)}.skipped,.xfailed,.undeclared,.partial,.empty{color:var(--mid)}
.zero{color:var(--soft);opacity:.6}article,.likely{background:var(--card);border-left:4px solid var(--bad);padding:.5rem .8rem;margin:.6rem 0;border-radius:4px;overflow-wrap:anywhere}
.likely{border-color:var(--mid)}article h3{font-size:1rem;margin:0}code{font:.9em ui-monospace,monospace;overflow-wrap:anywhere}
article p,article ul,.likely ul{margin:.25rem 0}article ul,.likely ul{padding-left:1.2rem}summary{cursor:pointer;padding:.3rem 0}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem .8rem;margin:.3rem 0}dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
.big{font-size:1.6rem;font-weight:700}
.slim{display:none}@media(max-width:34rem){body{padding:.7rem}th,td{padding:.25rem .3rem;font-size:.86rem}.wide{display:none}.slim{display:inline}}
"""


def _flag(flag, flags):
    entry = flags.get(flag, {})
    name = anchor(entry["eq"], html.escape(flag)) if entry.get("eq") else html.escape(flag)
    return f"<b>{name}</b> {html.escape(entry.get('bug', ''))}"


def _article(r, flags):
    e = html.escape
    equation = f'{anchor(r["eq"], e(r["eq"]["label"]))} <span class="soft">{e(r["eq"]["link"].partition("#")[0])}</span>'
    parts = [f'<article id="{e(r["id"])}"><h3><span class="{r["verdict"]}">{MARKS[r["verdict"]]} {r["verdict"]}</span> '
             f'<code>{e(r["id"])}</code></h3><p>Equation {equation}</p>']
    if r["message"]:
        parts.append(f"<p>{e(r['message'])}</p>")
    for o in (o for o in r["outputs"] if not o["ok"]):
        parts.append(f"<p><code>{e(o['name'])}</code>: {e(o['problem'])}</p>")
        if o["error"] is not None:
            where = f" at {tuple(o['index'])}" if o["index"] else ""
            parts.append(f"<dl><dt>got{where}</dt><dd>{o['got']}</dd><dt>expected</dt><dd>{o['expected']}</dd>"
                         f"<dt>error</dt><dd>{o['error']}</dd><dt>tolerance</dt><dd>{o['tolerance']}</dd></dl>")
    if r["verdict"] == "failed" and r["flags"]:
        parts.append("<p>Likely:</p><ul>" + "".join(f"<li>{_flag(f, flags)}</li>" for f in r["flags"]) + "</ul>")
    return "".join(parts) + "</article>"


def page(report, flags):
    """One HTML page with nothing outside it."""
    e, levels, results = html.escape, report["levels"], report["results"]
    shown = [v for v in VERDICTS if v in VERDICTS[:4] or any(level[v] for level in levels)]
    rows = "".join(
        f"<tr><td>L{x['level']} {e(x['title'])}</td>" + "".join(
            f'<td class="n {v if x[v] else "zero"}">{x[v]}</td>' for v in shown) + f'<td class="wide {x["status"]}">{x["status"]}</td></tr>'
        for x in levels)
    head = "".join(f'<th class="n"><span class="wide">{HEADINGS.get(v, v)}</span><span class="slim">{SHORT[v]}</span></th>' for v in shown)
    first = report["first_failing_level"]
    a = report["adapter"]
    body = [f'<h1>CAVI-CMN conformance: {e(a["name"])} {e(a["version"])}</h1>',
            f'<p class="meta">{e(a["language"])}, {report["dtype"]}; suite {e(report["suite"]["version"])}; {e(report["started"].replace("T", " ").replace("+00:00", " UTC"))}; '
            f'{report["questions"]} questions, {report["answers"]} answers, {report["restarts"]} restarts, {report["seconds"]:.1f} s</p>',
            f'<p class="big {"failing" if any(r["verdict"] in BAD for r in results) else "complete"}">'
            + (f"First failing level: L{first}, {e(LEVELS[first])}" if first is not None else
               STALE if any(r["verdict"] == "xpassed" for r in results) else f"Levels reached: {e(report['achieved'])}") + "</p>",
            f'<div class="scroll"><table><thead><tr><th>level</th>{head}<th class="wide">status</th></tr></thead><tbody>{rows}</tbody></table></div>']
    if report["problems"]:
        body.append("<h2>Problems</h2><ul>" + "".join(f"<li>{e(p)}</li>" for p in report["problems"]) + "</ul>")
    if report["likely"]:
        body.append(f"<h2>Bugs that the failures of L{first} point at</h2><div class='likely'><ul>" + "".join(
            f"<li><code>{e(f['op'])}</code>, {f['failed']} of {f['asked']} cases: {_flag(f['flag'], flags)}</li>" for f in foremost(report["likely"])) + "</ul></div>")
    bad = sorted((r for r in results if r["verdict"] in BAD), key=lambda r: r["level"])
    if bad:
        body.append(f"<h2>What failed, level by level ({len(bad)})</h2>" + "".join(_article(r, flags) for r in bad))
    body.append("<h2>Every case</h2>")
    for level in levels:
        lines = "".join(
            f'<tr><td class="{r["verdict"]}">{MARKS[r["verdict"]]}<span class="wide"> {HEADINGS.get(r["verdict"], r["verdict"])}</span></td>'
            f'<td><code>{e(r["id"])}</code>' + (f'<br><span class="soft">{e(r["message"])}</span>' if r["message"] else "")
            + f'</td><td class="n">{_worst(r)}</td></tr>' for r in results if r["level"] == level["level"])
        body.append(f"<details><summary>L{level['level']} {e(level['title'])}: {level['passed']} passed</summary><div class='scroll'><table>"
                    f"<thead><tr><th></th><th>case</th><th class='n'>error / tolerance</th></tr></thead><tbody>{lines}</tbody></table></div></details>")
    body.append("<h2>Profile</h2><dl>" + "".join(f"<dt>{e(str(k))}</dt><dd>{e(str(v))}</dd>" for k, v in sorted(a["profile"].items())) + "</dl>"
                if a["profile"] else "")
    return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
            f"<title>CAVI-CMN conformance: {e(a['name'])}</title><style>{STYLE}</style></head><body>{''.join(body)}</body></html>\n")


def _worst(result):
    ratios = [o["ratio"] for o in result["outputs"] if o["ratio"] is not None]
    numbers = [r for r in ratios if not isinstance(r, str)]
    return "" if not ratios else "inf" if len(numbers) < len(ratios) else f"{max(numbers):.2g}"


def write(path, content):
    """Write text or, for a dict, JSON."""
    text = content if isinstance(content, str) else json.dumps(content, indent=1, allow_nan=False) + "\n"
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, encoding="utf-8")
