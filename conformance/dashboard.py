"""Ask every adapter the whole suite, store what came out, and write the page that shows them side by side.

    python conformance/dashboard.py [NAME ...]           run these adapters, all by default, and write book/validate/adapters.md
    python conformance/dashboard.py --page               write the page of what is stored
    python conformance/dashboard.py --check              is the page that of what is stored, and is that of this suite?

conformance/results/<name>.json holds one run each.  An adapter whose library, compiler or Node is absent keeps its stored result;
--python PATH (may be repeated) names other Pythons in which to look for jax and torch.
"""

import argparse
import html
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT, RESULTS, PAGE = HERE.parent, HERE / "results", HERE.parent / "book/validate/adapters.md"
sys.path.insert(0, str(HERE))

from cmn_conformance import catalogue, verdicts  # noqa: E402

COUNTS = ("asked", "right", "inaccurate", "wrong", "of")
GRADES = {"R": "right: every case of the level was asked and is right", "P": "part: what was asked is right, but not everything was asked",
          "I": "inaccurate: no formula is wrong, but some answers lack digits", "W": "wrong: some answer is wrong", "-": "not asked"}
WORDS = {"R": "right", "P": "part", "I": "inaccurate", "W": "wrong", "-": "none"}


class Adapter(NamedTuple):
    """Who is asked: how it is started, what it needs, and what it is in a few words."""
    name: str
    file: str
    what: str
    dtypes: tuple = ("f64",)
    needs: str = ""                                      # a module of Python, or node or cc


ADAPTERS = (
    Adapter("package", "package.py", "this package"),
    Adapter("one_page", "one_page.py", "the page *The algorithm on one page*"),
    Adapter("numpy_minimal", "numpy_minimal.py", "NumPy, a function per operation"),
    Adapter("python_loops", "python_loops.py", "loops, the standard library alone"),
    Adapter("node_loops", "node_loops.mjs", "JavaScript, no package", needs="node"),
    Adapter("plain", "plain.c", "C, no library: levels 0 and 1", needs="cc"),
    Adapter("jax_adapter", "jax_adapter.py", "JAX, compiled", ("f64", "f32"), "jax"),
    Adapter("torch_adapter", "torch_adapter.py", "PyTorch", ("f64", "f32"), "torch"),
    Adapter("jaakkola_jordan", "jaakkola_jordan.py", "fused code: tilts refreshed inside each update"),
    Adapter("scipy_distributions", "scipy_distributions.py", "a library of distributions: level 1", needs="scipy"),
    Adapter("torch_distributions", "torch_distributions.py", "a library of distributions: level 1", ("f64", "f32"), "torch"),
)


def stored_name(adapter, dtype):
    return adapter.name if dtype == "f64" else f"{adapter.name}_{dtype}"


# ---- running


def command(adapter, pythons, folder):
    """The command that starts an adapter, or None where what it needs is absent."""
    file = HERE / "adapters" / adapter.file
    if not file.exists():
        return None
    if adapter.needs == "node":
        node = shutil.which("node") or shutil.which("nodejs")
        return node and [node, str(file)]
    if adapter.needs == "cc":
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if not compiler:
            return None
        program = str(Path(folder) / adapter.name)
        subprocess.run([compiler, "-std=c99", "-O2", "-o", program, str(file), "-lm"], check=True)
        return [program]
    for python in pythons:
        if not adapter.needs or subprocess.run([python, "-c", f"import numpy, {adapter.needs}"], capture_output=True).returncode == 0:
            alone = "__main__" in file.read_text(encoding="utf-8")                      # it speaks the protocol itself
            return [python, str(file)] if alone else [python, str(HERE / "cmn_conformance/serve.py"), str(file)]
    return None


def ask(argv, dtype, folder):
    """The report of a run, through the command line that everybody uses."""
    import shlex
    out = Path(folder) / "report.json"
    out.unlink(missing_ok=True)
    done = subprocess.run([sys.executable, "-m", "cmn_conformance", "run", "--command", shlex.join(argv), "--dtype", dtype, "--timeout", "1800",
                           "--start-timeout", "1800", "--quiet", "--report", str(out)], capture_output=True, text=True)
    if not out.exists():
        raise SystemExit(f"dashboard: {argv[-1]}: {done.stderr.strip() or done.stdout.strip()}")
    return json.loads(out.read_text(encoding="utf-8"))


def reason(result):
    """What a result that is not right says, on one line."""
    words = result["message"] or "; ".join(f"{o['name']}: {o['problem']}" for o in result["outputs"] if not o["ok"])
    return " ".join(words.split())[:200]


def optional(report):
    """{optional suite that the adapter offers: counts}."""
    suites, table = {c.id: catalogue.optional_suite(c.profile) for c in catalogue.cases()}, {}
    for result in report["results"]:
        name = suites.get(result["id"], "")
        if name and result["kind"] not in verdicts.NOT_OURS:
            row, verdict = table.setdefault(name, dict.fromkeys(COUNTS, 0)), result["verdict"]
            row["of"] += 1
            row["asked"] += verdict != "undeclared"
            row["right"] += verdict == "passed"
            row["inaccurate"] += verdict == "inaccurate"
            row["wrong"] += verdict in verdicts.WRONG
    return {name: row for name, row in table.items() if row["asked"]}


def summary(report, adapter):
    """What is stored of a report."""
    told = [r for r in report["results"] if r["verdict"] in ("failed", "errored", "inaccurate") or r["verdict"] == "skipped" and r["kind"] == "adapter"]
    return {"name": stored_name(adapter, report["dtype"]), "file": adapter.file, "what": adapter.what, "dtype": report["dtype"],
            "suite": {key: report["suite"][key] for key in ("version", "cases")}, "date": report["started"][:10], "seconds": round(report["seconds"], 1),
            "adapter": report["adapter"]["name"], "version": report["adapter"]["version"], "language": report["adapter"]["language"],
            "profile": report["adapter"]["profile"],
            "levels": [{"level": entry["level"], **{key: entry["suite"][key] for key in COUNTS}} for entry in report["levels"]],
            "optional": optional(report),
            "told": [{"id": r["id"], "verdict": r["verdict"], "reason": reason(r)} for r in told]}


def run(names, pythons):
    unknown = sorted(set(names) - {a.name for a in ADAPTERS})
    if unknown:
        raise SystemExit(f"dashboard: no adapter {', '.join(unknown)}; there are {', '.join(a.name for a in ADAPTERS)}")
    RESULTS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for adapter in (a for a in ADAPTERS if not names or a.name in names):
            argv = command(adapter, pythons, folder)
            if argv is None:
                print(f"{adapter.name}: kept as it is stored; absent here: {adapter.needs or adapter.file}", flush=True)
                continue
            for dtype in adapter.dtypes:
                entry = summary(ask(argv, dtype, folder), adapter)
                text = json.dumps(entry, indent=1, ensure_ascii=False) + "\n"
                (RESULTS / f"{entry['name']}.json").write_text(text, encoding="utf-8")
                totals = {key: sum(level[key] for level in entry["levels"]) for key in COUNTS}
                print(f"{entry['name']}: {', '.join(f'{n} {key}' for key, n in totals.items())}, {entry['seconds']} s", flush=True)


# ---- the page


def stored():
    """The stored runs, in the order of ADAPTERS."""
    found = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in RESULTS.glob("*.json")}
    names = [stored_name(a, dtype) for a in ADAPTERS for dtype in a.dtypes]
    strangers = sorted(set(found) - set(names))
    if strangers:
        raise SystemExit(f"dashboard: conformance/results holds {', '.join(strangers)}, which no adapter of dashboard.py writes")
    return [found[name] for name in names if name in found]


def grade(level):
    """The letter of a level."""
    if not level or not level["asked"]:
        return "-"
    if level["wrong"]:
        return "W"
    if level["inaccurate"]:
        return "I"
    return "R" if level["right"] == level["of"] else "P"


def badge(letter):
    return f'<span class="grade {WORDS[letter]}">{"&ndash;" if letter == "-" else letter}</span>'


def cell(level):
    letter = grade(level)
    if letter == "-":
        return f"<td>{badge(letter)}</td>"
    words = ", ".join(f"{level[key]} {key}" for key in COUNTS[:-1]) + f", of {level['of']}"
    return f'<td title="{words}">{badge(letter)} <span class="share">{level["right"]}/{level["of"]}</span></td>'


def overview(runs, levels):
    """One body of two rows for each run: who it is, and its levels."""
    head = "".join(f'<th scope="col">L{level}</th>' for level in levels)
    out = ['<table class="kit">', "<caption>Right answers of all the cases of a level, for each implementation.</caption>", f"<thead><tr>{head}</tr></thead>"]
    for entry in runs:
        by_level = {level["level"]: level for level in entry["levels"]}
        who = f'<b>{html.escape(entry["adapter"])}</b> {html.escape(entry["language"])}'
        more = f'{entry["dtype"]}, {entry["seconds"]:g} s'
        out.append(f'<tbody><tr><th scope="rowgroup" colspan="{len(levels)}">{who} <span class="more">{more}</span></th></tr>'
                   f'<tr>{"".join(cell(by_level.get(level)) for level in levels)}</tr></tbody>')
    return "\n".join([*out, "</table>"])


def extra(runs):
    """Of every optional suite, who offers it and how that went."""
    sizes = {}
    for case in catalogue.cases():
        if name := catalogue.optional_suite(case.profile):
            sizes[name] = sizes.get(name, 0) + 1
    out = []
    for name, size in sizes.items():
        offers = [f'{entry["adapter"]} {entry["optional"][name]["right"]}/{entry["optional"][name]["of"]}' for entry in runs if name in entry.get("optional", {})]
        absent = len({entry["file"] for entry in runs if name not in entry.get("optional", {})})
        out.append(f"**{name[0].upper()}{name[1:]}**, {size} cases: {html.escape(', '.join(offers) or 'nobody')} right. Not offered by the other {absent}, of whom nothing is asked and nothing counts.")
    return "\n\n".join(out)


def key():
    return "\n".join(["<ul class=\"kit-key\">", *(f"<li>{badge(letter)} {words}</li>" for letter, words in GRADES.items()), "</ul>"])


def numbers(entry):
    """Everything about one run, folded."""
    rows = "".join(f'<tr><th scope="row">L{x["level"]}</th>' + "".join(f'<td class="number">{x[key]}</td>' for key in COUNTS) + "</tr>" for x in entry["levels"])
    head = "".join(f'<th scope="col" class="number">{key}</th>' for key in COUNTS)
    profile = ", ".join(f"{key}: {value}" for key, value in entry["profile"].items()) or "the default one"
    told = "".join(f"<li><code>{html.escape(t['id'])}</code> {t['verdict']}: {html.escape(t['reason'])}</li>" for t in entry["told"][:12])
    rest = len(entry["told"]) - 12
    told += f"<li>and {rest} more</li>" if rest > 0 else ""
    version = f" {entry['version']}" if entry["version"] else ""
    return "\n".join([
        f"<details class=\"kit-run\"><summary>{html.escape(entry['adapter'])}, {entry['dtype']}</summary>",
        f"<p>{html.escape(entry['adapter'] + version)}, {html.escape(entry['language'])}, <code>conformance/adapters/{entry['file']}</code>, suite {entry['suite']['version']}: "
        f"{html.escape(entry['what'].replace('*', ''))}. Profile: {html.escape(profile)}. Run on {entry['date']}, {entry['seconds']:g} s with its start.</p>",
        f'<table class="results"><thead><tr><th scope="col">level</th>{head}</tr></thead><tbody>{rows}</tbody></table>',
        f"<p>Not right:</p><ul>{told}</ul>" if told else "", "</details>"])


def page(runs):
    """The page, from what is stored."""
    levels = sorted({level["level"] for entry in runs for level in entry["levels"]}, key=lambda level: (isinstance(level, str), level))
    suite = runs[0]["suite"]
    return f"""<!-- Written by conformance/dashboard.py; edit it, not this page. -->

# Adapters side by side

Is the suite fair to code that is built differently? Here it was put to {len({entry["file"] for entry in runs})} implementations, from loops in C to this
package. [Validate yours](validate_yours.ipynb) says how to put it to another. Suite {suite["version"]}, {suite["cases"]} cases.

{key()}

{overview(runs, levels)}

Level 0 asks special functions, 1 expectations and divergences, 2 one factor's update, 3 the terms of the bound, 4 sweeps, 5 a fixed point, 6 predictions. A share counts all the cases
that an implementation of its choices of algorithm and its precision has to answer, whether it has the operation or not, so that nothing is gained by answering little.

## Optional suites

What goes beyond the paper's model, or its posterior, has cases of its own. They are asked of those who declare the choice; a run of an older suite stands as long as nothing that came since is asked of it.

{extra(runs)}

## The numbers

{chr(10).join(numbers(entry) for entry in runs)}

## Once more

`python conformance/dashboard.py` asks every adapter that can run on a machine, stores one file each in `conformance/results/` and writes this page from them; times are of that machine,
with the start of the adapter and all its compilation. `--check` compares the page with the files, and their suite with the vectors. A report of your own,
`python -m cmn_conformance run --report`, has the same numbers in `levels`.
"""


def up_to_date(entry):
    """Whether a stored run says what a run of today's suite would: it is of this suite, or nothing that came since is asked of such an adapter."""
    version = lambda text: [int(part) for part in text.split(".")]
    newer = {group["group"] for group in catalogue.groups() if version(group["provenance"]["suite"]) > version(entry["suite"]["version"])}
    cases = [c for c in catalogue.cases() if c.group in newer]
    able = {"profile": entry["profile"], "ops": list(catalogue.operations())}
    asked = [c for c in cases if (verdicts.why_not_asked(c, able, entry["dtype"]) or ("", ""))[1] != "algorithm"]
    return entry["suite"]["cases"] == catalogue.suite_info()["cases"] - len(cases) and not asked


def check():
    """What does not agree, in words."""
    runs, suite = stored(), catalogue.suite_info()
    stale = [entry["name"] for entry in runs if not up_to_date(entry)]
    problems = [f"of another suite than {suite['version']} with its {suite['cases']} cases: {', '.join(stale)}"] if stale else []
    if not runs:
        return ["conformance/results is empty"]
    if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page(runs):
        problems.append(f"{PAGE.relative_to(ROOT)} is not the page of conformance/results")
    return problems


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="adapters to run; default: all")
    parser.add_argument("--page", action="store_true", help="run nothing, write the page of what is stored")
    parser.add_argument("--check", action="store_true", help="run and write nothing; exit 1 if the page or the stored runs are out of date")
    parser.add_argument("--python", action="append", default=[], metavar="PATH", help="another Python in which jax or torch may be")
    args = parser.parse_args(argv)
    if args.check:
        problems = check()
        print("\n".join(f"dashboard: {problem}; run python conformance/dashboard.py" for problem in problems) or "dashboard: the page is that of the stored runs")
        return bool(problems)
    if not args.page:
        run(args.names, [sys.executable, *args.python, "/usr/bin/python3"])
    PAGE.write_text(page(stored()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
