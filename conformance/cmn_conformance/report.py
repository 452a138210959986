"""What a run found, as text, JUnit XML and a badge; page.py makes a page of it."""

import html
import json
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

from cmn_conformance import catalogue, naming
from cmn_conformance.verdicts import VERDICTS, WRONG, tally

LEVELS = ("special functions", "expectations, divergences, entropies", "one factor's update", "terms of the bound",
          "sweeps from a given state", "converged", "prediction")
BAD = (*WRONG, "inaccurate", "xpassed")
STALE = "Nothing fails, but cases that are listed as expected failures pass: take them off the list."
HEADINGS = {"xfailed": "expected", "xpassed": "unexpected", "undeclared": "not asked"}
SHORT = {"passed": "pass", "inaccurate": "inacc.", "failed": "fail", "skipped": "skip", "errored": "err", "xfailed": "exp.", "xpassed": "unexp.",
         "warned": "warn", "undeclared": "n/a"}
DASH = "\N{EN DASH}"


def label(level):
    """"L2" of 2, "B" of "B"."""
    return f"L{level}" if isinstance(level, int) else str(level)


def title(level):
    return LEVELS[level] if isinstance(level, int) else {"B": "black box", "G": "generated inputs"}[level]


def rank(level):
    """Levels in order, those with a letter last."""
    return (isinstance(level, str), level)


def summarise(results, flags, suite, dtype="f64"):
    """Levels, first failing level, likely bugs and achievement of a list of results; suite: the cases that had to be answered."""
    table, levels = tally(results, suite), []
    for level in sorted({r["level"] for r in results}, key=rank):
        here = [r for r in results if r["level"] == level]
        counts = {verdict: sum(r["verdict"] == verdict for r in here) for verdict in VERDICTS}
        whole = table.get(level, {"asked": 0, "right": 0, "inaccurate": 0, "wrong": 0, "of": 0})
        levels.append({"level": level, "title": title(level), **counts, "suite": whole, "status": status(counts, whole)})
    failing = [entry["level"] for entry in levels if any(entry[v] for v in WRONG)]
    first = failing[0] if failing else None
    likely = naming.likely([r for r in results if r["level"] == first], flags, dtype)
    return {"levels": levels, "first_failing_level": first, "likely": likely, "achieved": achieved(levels)}


def status(counts, whole):
    """Of a level: complete only if every case of the whole suite was asked and is right."""
    if any(counts[v] for v in (*WRONG, "xpassed")):
        return "failing"
    if whole["of"] and whole["right"] == whole["of"]:
        return "complete"
    if not whole["right"] and not whole["inaccurate"]:
        return "empty"
    return "inaccurate" if whole["right"] + whole["inaccurate"] == whole["of"] else "partial"


def count(entry):
    """"41 of 67 asked, 41 right" of a level."""
    n = entry["suite"]
    return f"{n['asked']} of {n['of']} asked, {n['right']} right" + "".join(f", {n[key]} {key}" for key in ("inaccurate", "wrong") if n[key])


def reached(levels):
    """(the levels of the unbroken run of complete ones from 0 on, others of which some is right)."""
    complete = 0
    while complete < len(levels) and levels[complete]["level"] == complete and levels[complete]["status"] == "complete":
        complete += 1
    failing = any(e["status"] == "failing" for e in levels)
    return levels[:complete], [e for e in levels[complete:] if e["suite"]["right"] and not failing]


def run_of(entries):
    first, last = label(entries[0]["level"]), label(entries[-1]["level"])
    return first if first == last else f"{first}{DASH}{last}"


def achieved(levels):
    """"L0-L4" for the unbroken run of complete levels from 0 on, and of other levels how much: "L5: 3 of 9 asked, 3 right"; or "none"."""
    complete, others = reached(levels)
    return "; ".join([run_of(complete) for _ in complete[:1]] + [f"{label(e['level'])}: {count(e)}" for e in others]) or "none"


def foremost(likely, each=2):
    """The first flags of each operation."""
    return [f for i, f in enumerate(likely) if sum(g["op"] == f["op"] for g in likely[:i]) < each]


# ---- text

def of(flag, flags):
    """A flag in words."""
    entry = flags.get(flag, {})
    return f"{flag}: {entry.get('bug', 'no description')}" + (f" ({entry['eq']['link']})" if entry.get("eq") else "")


def formula(op):
    """An operation's formula in plain text; its definition where there is none."""
    entry = catalogue.operations().get(op, {})
    return entry.get("formula") or entry.get("definition", "")


def largest(output):
    """The entry that differs most, in a line, or ""."""
    if output["error"] is None:
        return ""
    place = f"[{', '.join(map(str, output['index']))}]" if output["index"] else ""
    return f"{output['name']}{place} is {output['got']}, expected {output['expected']}"


def likely_words(entry, flags):
    """One entry of "likely", in a line."""
    return f"{entry['op']}  {naming.words(entry, flags)}"


def headline(report):
    a, s = report["adapter"], report["suite"]
    return f"CAVI-CMN conformance, suite {s['version']}: {' '.join(filter(None, [a['name'], a['version']]))}, {a['language']}, {report['dtype']}"


def shown_verdicts(levels):
    """The columns of a table: those that there are always, and others that occur."""
    return [v for v in VERDICTS if v in ("passed", "failed", "skipped", "errored") or any(level[v] for level in levels)]


def table(report):
    """The table per level, as lines."""
    levels = report["levels"]
    shown = shown_verdicts(levels)
    width = max([len(level["title"]) for level in levels] + [5]) + 3
    lines = [f"{'level':{width}}" + "".join(f"{HEADINGS.get(v, v):>11}" for v in shown) + "   of the suite"]
    for level in levels:
        lines.append(f"{label(level['level'])} {level['title']:{width - len(label(level['level'])) - 1}}" + "".join(f"{level[v]:>11}" for v in shown)
                     + f"   {count(level)}")
    totals = [sum(level[v] for level in levels) for v in shown]
    return [*lines, f"{'all':{width}}" + "".join(f"{t:>11}" for t in totals)]


def describe(result, flags, indent="  "):
    """One result that is not a pass, as lines."""
    lines = [f"{result['verdict'].upper()} {result['id']}", f"{indent}equation {result['eq']['label']}  {result['eq']['link']}"]
    lines += [f"{indent}{words}" for words in (formula(result["op"]), result.get("note"), result["message"]) if words]
    for o in (o for o in result["outputs"] if not o["ok"]):
        lines += [f"{indent}{o['name']}: {o['problem']}"] + [f"{indent}{words}" for words in [largest(o)] if words]
    if result["verdict"] == "failed":
        lines += [f"{indent}{'likely' if i == 0 else '    or'} {of(flag, flags)}" for i, flag in enumerate(naming.hints(result))]
    return lines


def closing(report):
    """The last lines: what was asked, what was reached, the counts."""
    n = {v: sum(level[v] for level in report["levels"]) for v in VERDICTS}
    stale = f"{n['xpassed']} passed unexpectedly, " if n["xpassed"] else ""
    stale += f"{n['warned']} warned, " if n["warned"] else ""
    coarse = f"{n['inaccurate']} inaccurate, " if n["inaccurate"] else ""
    other = f" with {', '.join(f'{k} = {v}' for k, v in report['algorithm'].items())}" if report["algorithm"] else ""
    yield (f"{report['questions']} questions, {report['answers']} answers, {report['restarts']} restarts, {report['seconds']:.1f} s; "
           f"levels reached{other}: {report['achieved']}")
    yield (f"{n['passed']} passed, {coarse}{n['failed']} failed, {n['errored']} errored, {stale}"
           f"{n['skipped'] + n['xfailed'] + n['undeclared']} skipped, expected to fail or not asked")


def text(report, flags):
    """What the terminal shows."""
    lines = [headline(report), "", *table(report), ""]
    bad = [r for r in report["results"] if r["verdict"] in BAD]
    first = report["first_failing_level"]
    if bad:
        if first is not None:
            lines += [f"First failing level: {label(first)} {title(first)}. What fails further down may follow from it.", ""]
        elif any(r["verdict"] == "xpassed" for r in bad):
            lines += [STALE, ""]
        else:
            lines += ["Nothing is wrong, but some answers are inaccurate.", ""]
        for result in sorted(bad, key=lambda r: rank(r["level"])):
            lines += [*describe(result, flags), ""]
        if report["likely"]:
            lines.append(f"Bugs that the failures of {label(first)} point at, the likeliest first:")
            lines += [f"  {likely_words(f, flags)}" for f in foremost(report["likely"])] + [""]
    for result in (r for r in report["results"] if r["verdict"] == "warned"):
        lines += [*describe(result, flags), ""]
    absent = Counter(r["message"] for r in report["results"] if r["kind"] == "algorithm" and r["message"].startswith("not offered: "))
    skips = [r for r in report["results"] if r["verdict"] == "skipped" and r["message"] not in absent]
    reasons = Counter("cases of an algorithm that the adapter does not declare" if r["kind"] == "algorithm" else r["message"] for r in skips)
    lines += [f"skipped {number}: {reason}" for reason, number in reasons.items()]
    lines += [f"{words}, {number} cases" for words, number in absent.items()]
    return "\n".join([*lines, *report["problems"], *closing(report)])


# ---- JUnit

def junit(report):
    """JUnit XML; what is not asked is left out."""
    tags = {"failed": "failure", "xpassed": "failure", "errored": "error", "skipped": "skipped", "xfailed": "skipped"}
    if report["inaccurate"] == "fail":
        tags["inaccurate"] = "failure"
    asked = [r for r in report["results"] if r["verdict"] != "undeclared"]
    suites = ET.Element("testsuites", name="CAVI-CMN conformance")
    for level in report["levels"]:
        here = [r for r in asked if r["level"] == level["level"]]
        number = lambda tag: str(sum(tags.get(r["verdict"]) == tag for r in here))
        suite = ET.SubElement(suites, "testsuite", name=f"{label(level['level'])} {level['title']}", tests=str(len(here)), failures=number("failure"),
                              errors=number("error"), skipped=number("skipped"), time=f"{sum(r['seconds'] for r in here):.3f}")
        for r in here:
            case = ET.SubElement(suite, "testcase", classname=f"{label(r['level'])}.{r['op']}", name=r["id"], time=f"{r['seconds']:.3f}")
            words = r["message"] or "; ".join(f"{o['name']}: {o['problem']}" for o in r["outputs"] if not o["ok"])
            tag = tags.get(r["verdict"])
            if tag:
                body = "\n".join(filter(None, [f"{r['eq']['label']} {r['eq']['link']}", formula(r["op"]), r.get("note", ""),
                                                *(largest(o) for o in r["outputs"] if not o["ok"]), f"flags: {', '.join(r['flags'])}"]))
                ET.SubElement(case, tag, message=_printable(words), type=r["verdict"]).text = None if tag == "skipped" else _printable(body)
    ET.indent(suites)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(suites, encoding="unicode") + "\n"


def _printable(words):
    """Without the control characters that XML cannot hold."""
    return "".join(c if c in "\t\n" or " " <= c < "\ud800" or "\ue000" <= c <= "\ufffd" or c > "\uffff" else "\N{REPLACEMENT CHARACTER}"
                   for c in words)


# ---- badge

def badge_words(report):
    """(what the badge says, level by level): right/asked/of, where "of" is what the whole suite has for such an adapter."""
    ratio = lambda entries: "/".join(str(sum(e["suite"][key] for e in entries)) for key in ("right", "asked", "of"))
    complete, others = reached(report["levels"])
    parts = [f"{run_of(complete)} {ratio(complete)}" for _ in complete[:1]] + [f"{label(e['level'])} {ratio([e])}" for e in others]
    words = " ".join([", ".join(parts) or "none", *([report["dtype"]] if report["dtype"] != "f64" else []),
                      *(f"{k}={v}" for k, v in report["algorithm"].items()), *(["interrupted"] if report["interrupted"] else [])])
    return words, "; ".join(f"{label(e['level'])} {e['title']}: {count(e)}" for e in report["levels"])


def badge(report):
    """A small SVG."""
    right, whole = badge_words(report)
    complete, others = reached(report["levels"])
    bad = any(level["status"] in ("failing", "inaccurate") for level in report["levels"])
    colour = "#b3261e" if not complete and not others else "#8a6d00" if others or bad or report["interrupted"] else "#1a7f37"
    left = "CAVI-CMN conformance"
    a, b = 8 * 2 + int(6.3 * len(left)), 8 * 2 + int(6.9 * len(right))
    words = html.escape(f"{left} {right}")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{a + b}" height="20" role="img" aria-label="{words}">'
            f"<title>{words}. Right/asked/of the suite. {html.escape(whole)}</title>"
            f'<clipPath id="r{a + b}"><rect width="{a + b}" height="20" rx="3"/></clipPath><g clip-path="url(#r{a + b})">'
            f'<rect width="{a}" height="20" fill="#444"/><rect x="{a}" width="{b}" height="20" fill="{colour}"/></g>'
            '<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
            f'<text x="{a / 2}" y="14" textLength="{a - 14}">{left}</text>'
            f'<text x="{a + b / 2}" y="14" textLength="{b - 14}">{html.escape(right)}</text></g></svg>\n')


def write(path, content):
    """Write text or, for a dict, JSON."""
    text = content if isinstance(content, str) else json.dumps(content, indent=1, allow_nan=False) + "\n"
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, encoding="utf-8")
