"""What a run found, as one HTML page with nothing outside it."""

import html
import os

from cmn_conformance import naming
from cmn_conformance.report import BAD, HEADINGS, SHORT, STALE, count, foremost, formula, label, shown_verdicts, title

MARKS = {"passed": "\N{CHECK MARK}", "inaccurate": "\N{ALMOST EQUAL TO}", "failed": "\N{MULTIPLICATION SIGN}", "errored": "!", "skipped": "\N{EN DASH}",
         "xfailed": "x", "xpassed": "?", "undeclared": "\N{MIDDLE DOT}"}

STYLE = """
:root{color-scheme:light dark;--bg:#fff;--fg:#1c1e21;--soft:#5c636b;--line:#d5d9de;--card:#f5f6f8;--ok:#1a7f37;--bad:#b3261e;--mid:#8a6d00;--link:#0b57d0}
@media(prefers-color-scheme:dark){:root{--bg:#15171a;--fg:#e6e8ea;--soft:#a3abb3;--line:#373c42;--card:#1e2125;--ok:#57c878;--bad:#ff8a80;--mid:#e3c04f;--link:#8ab4f8}}
*{box-sizing:border-box}body{margin:0 auto;max-width:60rem;padding:1rem;background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.4rem;line-height:1.25;margin:.4rem 0}h2{font-size:1.1rem;margin:1.6rem 0 .5rem}a{color:var(--link)}
p.meta,.soft{color:var(--soft)}.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:.3rem .5rem;border-bottom:1px solid var(--line);vertical-align:top}td.n,th.n{text-align:right}
.passed,.complete{color:var(--ok)}.failed,.errored,.xpassed,.failing{color:var(--bad)}.inaccurate,.skipped,.xfailed,.undeclared,.partial,.empty{color:var(--mid)}
.zero{color:var(--soft);opacity:.6}article,.likely{background:var(--card);border-left:4px solid var(--bad);padding:.5rem .8rem;margin:.6rem 0;border-radius:4px;overflow-wrap:anywhere}
.likely{border-color:var(--mid)}article h3{font-size:1rem;margin:0}code{font:.9em ui-monospace,monospace;overflow-wrap:anywhere}
article p,article ul,.likely ul{margin:.25rem 0}article ul,.likely ul{padding-left:1.2rem}summary{cursor:pointer;padding:.3rem 0}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem .8rem;margin:.3rem 0}dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
.big{font-size:1.6rem;font-weight:700}
.slim{display:none}@media(max-width:34rem){body{padding:.7rem}th,td{padding:.25rem .3rem;font-size:.86rem}.wide{display:none}.slim{display:inline}}
"""


def anchor(eq, words):
    """Link to an equation in the book that CMN_BOOK, or --book, names; without a book, words alone."""
    base = os.environ.get("CMN_BOOK", "").rstrip("/")
    return f'<a href="{html.escape(base)}/{html.escape(eq["link"])}">{words}</a>' if base else words


def _flag(flag, flags):
    entry = flags.get(flag, {})
    name = anchor(entry["eq"], html.escape(flag)) if entry.get("eq") else html.escape(flag)
    return f"<b>{name}</b> {html.escape(entry.get('bug', ''))}"


def _article(r, flags):
    e = html.escape
    equation = f'{anchor(r["eq"], e(r["eq"]["label"]))} <span class="soft">{e(r["eq"]["link"].partition("#")[0])}</span>'
    parts = [f'<article id="{e(r["id"])}"><h3><span class="{r["verdict"]}">{MARKS[r["verdict"]]} {r["verdict"]}</span> '
             f'<code>{e(r["id"])}</code></h3><p>Equation {equation}</p>']
    parts += [f'<p class="soft">{e(words)}</p>' for words in (formula(r["op"]), r.get("note")) if words]
    if r["message"]:
        parts.append(f"<p>{e(r['message'])}</p>")
    for o in (o for o in r["outputs"] if not o["ok"]):
        parts.append(f"<p><code>{e(o['name'])}</code>: {e(o['problem'])}</p>")
        if o["error"] is not None:
            where = f" at {tuple(o['index'])}" if o["index"] else ""
            parts.append(f"<dl><dt>got{where}</dt><dd>{o['got']}</dd><dt>expected</dt><dd>{o['expected']}</dd>"
                         f"<dt>error</dt><dd>{o['error']}</dd><dt>tolerance</dt><dd>{o['tolerance']}</dd></dl>")
    if r["verdict"] == "failed" and naming.hints(r):
        parts.append("<p>Likely:</p><ul>" + "".join(f"<li>{_flag(f, flags)}</li>" for f in naming.hints(r)) + "</ul>")
    return "".join(parts) + "</article>"


def _likely(entry, flags):
    words, eq = html.escape(naming.words(entry, flags)), flags.get(entry["flag"], {}).get("eq")
    more = f" {anchor(eq, html.escape(eq['label']))}" if eq else ""
    return f"<li><code>{html.escape(entry['op'])}</code> {words}{more}</li>"


def _table(levels):
    e, shown = html.escape, shown_verdicts(levels)
    rows = "".join(
        f"<tr><td>{label(x['level'])} {e(x['title'])}</td>" + "".join(f'<td class="n {v if x[v] else "zero"}">{x[v]}</td>' for v in shown)
        + f'<td class="wide {x["status"]}">{x["status"]}: {e(count(x))}</td></tr>' for x in levels)
    head = "".join(f'<th class="n"><span class="wide">{HEADINGS.get(v, v)}</span><span class="slim">{SHORT[v]}</span></th>' for v in shown)
    return (f'<div class="scroll"><table><thead><tr><th>level</th>{head}<th class="wide">of the whole suite</th></tr></thead>'
            f"<tbody>{rows}</tbody></table></div>")


def _every(level, results):
    e = html.escape
    lines = "".join(
        f'<tr><td class="{r["verdict"]}">{MARKS[r["verdict"]]}<span class="wide"> {HEADINGS.get(r["verdict"], r["verdict"])}</span></td>'
        f'<td><code>{e(r["id"])}</code>' + (f'<br><span class="soft">{e(r["message"])}</span>' if r["message"] else "")
        + f'</td><td class="n">{_worst(r)}</td></tr>' for r in results if r["level"] == level["level"])
    return (f"<details><summary>{label(level['level'])} {e(level['title'])}: {level['passed']} passed</summary><div class='scroll'><table>"
            f"<thead><tr><th></th><th>case</th><th class='n'>error / tolerance</th></tr></thead><tbody>{lines}</tbody></table></div></details>")


def _verdict(report):
    """The line in large letters."""
    first, bad = report["first_failing_level"], {r["verdict"] for r in report["results"]} & set(BAD)
    words = (f"First failing level: {label(first)}, {title(first)}" if first is not None else STALE if "xpassed" in bad
             else f"Levels reached: {report['achieved']}")
    return f'<p class="big {"failing" if bad - {"inaccurate"} else "inaccurate" if bad else "complete"}">{html.escape(words)}</p>'


def page(report, flags):
    """One HTML page with nothing outside it."""
    e, levels, results, a = html.escape, report["levels"], report["results"], report["adapter"]
    started = report["started"].replace("T", " ").replace("+00:00", " UTC")
    body = [f'<h1>CAVI-CMN conformance: {e(a["name"])} {e(a["version"])}</h1>',
            f'<p class="meta">{e(a["language"])}, {report["dtype"]}; suite {e(report["suite"]["version"])}; {e(started)}; '
            f'{report["questions"]} questions, {report["answers"]} answers, {report["restarts"]} restarts, {report["seconds"]:.1f} s</p>',
            _verdict(report), _table(levels)]
    if report["problems"]:
        body.append("<h2>Problems</h2><ul>" + "".join(f"<li>{e(p)}</li>" for p in report["problems"]) + "</ul>")
    if report["likely"]:
        body.append(f"<h2>Bugs that the failures of {label(report['first_failing_level'])} point at</h2><div class='likely'><ul>"
                    + "".join(_likely(f, flags) for f in foremost(report["likely"])) + "</ul></div>")
    bad = [r for level in levels for r in results if r["level"] == level["level"] and r["verdict"] in BAD]
    if bad:
        body.append(f"<h2>What failed, level by level ({len(bad)})</h2>" + "".join(_article(r, flags) for r in bad))
    body += ["<h2>Every case</h2>", *(_every(level, results) for level in levels)]
    body.append("<h2>Profile</h2><dl>" + "".join(f"<dt>{e(str(k))}</dt><dd>{e(str(v))}</dd>" for k, v in sorted(a["profile"].items())) + "</dl>"
                if a["profile"] else "")
    return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
            f"<title>CAVI-CMN conformance: {e(a['name'])}</title><style>{STYLE}</style></head><body>{''.join(body)}</body></html>\n")


def _worst(result):
    ratios = [o["ratio"] for o in result["outputs"] if o["ratio"] is not None]
    numbers = [r for r in ratios if not isinstance(r, str)]
    return "" if not ratios else "inf" if len(numbers) < len(ratios) else f"{max(numbers):.2g}"
