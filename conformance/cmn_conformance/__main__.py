"""Command line of the conformance kit.  No mathematics here."""

import argparse
import json
import os
import sys
from pathlib import Path

from cmn_conformance import blackbox, catalogue, laws, report
from cmn_conformance.forecasts import KINDS
from cmn_conformance.interrupt import interruptible, watch
from cmn_conformance.page import page
from cmn_conformance.process import MAX_WAIT, NotStarted, open_adapter
from cmn_conformance.runner import BadRequest, ask, exit_code, greeting, read_xfails, run, why_not_asked
from cmn_conformance.serve import Interrupted

EPILOG = """exit code: 0 all that was asked is right, 1 something is not, 2 nothing was tested (wrong request, adapter did not start, no case
was asked), 130, 143 or 129 interrupted by SIGINT, SIGTERM or SIGHUP: the reports are written and partial"""


def seconds(text):
    value = float(text)
    if not 0 < value <= MAX_WAIT:
        raise argparse.ArgumentTypeError(f"expected a number > 0 and <= {MAX_WAIT}, got {text}")
    return value


def whole(text):
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"expected a number >= 0, got {text}")
    return value


def positive(text):
    if whole(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number >= 1, got {text}")
    return int(text)


def levels(text):
    try:
        return catalogue.parse_levels(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def parser():
    p = argparse.ArgumentParser(prog="python -m cmn_conformance", description="Test an implementation of conditional mixture networks.",
                                epilog=EPILOG)
    sub = p.add_subparsers(dest="what", required=True)

    def which(q):
        q.add_argument("--level", type=levels, metavar="0-4", help="levels, as in 2 or 0-4 or 0,2")
        q.add_argument("--op", action="append", metavar="NAME", help="only this operation (may be repeated)")
        q.add_argument("--case", action="append", metavar="TEXT", help="only cases whose id contains this text (may be repeated)")
        q.add_argument("--flag", metavar="NAME", help="only cases with this flag")

    def whom(q, needed, others=False):
        group = q.add_mutually_exclusive_group(required=needed)
        if others:
            group.add_argument("--estimator", metavar="SPEC", help="package.module:Class or file.py:Class with fit and predict_proba, or a forecast: level B")
        group.add_argument("--adapter", metavar="SPEC", help="package.module[:object] or file.py[:object], in Python")
        group.add_argument("--command", metavar="CMD", help="a command that answers JSON lines, in any language")
        q.add_argument("--dtype", choices=catalogue.DTYPES, default="f64")
        q.add_argument("--timeout", type=seconds, default=30.0, metavar="S", help="seconds for one case (30)")
        q.add_argument("--first-timeout", type=seconds, default=180.0, metavar="S",
                       help="seconds for the first case of an operation, which may have to be compiled, and the first after a restart (180)")
        q.add_argument("--start-timeout", type=seconds, default=120.0, metavar="S", help="seconds to start (120)")
        q.add_argument("--in-process", action="store_true", help="with --adapter: no process of its own (for a debugger)")

    q = sub.add_parser("run", help="ask an adapter the cases", epilog=EPILOG)
    whom(q, True, others=True)
    which(q)
    q.add_argument("--param", action="append", metavar="NAME=VALUE", help="with --estimator: an argument of its constructor (may be repeated)")
    q.add_argument("--kind", choices=list(KINDS), help="with --estimator: what it is asked as; found out from what it has if not given")
    q.add_argument("--promise", action="append", metavar="NAME",
                   help=f"with --estimator: what it promises: {', '.join(blackbox.PROMISES)} (may be repeated)")
    q.add_argument("--seed", type=whole, metavar="S", help="check laws on inputs generated from this seed; with --estimator: its data (0)")
    q.add_argument("--generated", type=positive, default=laws.PROBLEMS, metavar="N", help=f"with --seed: so many states ({laws.PROBLEMS})")
    q.add_argument("--xfails", metavar="FILE.toml", help='your expected failures: a table [xfails] with lines "id" = "reason"')
    q.add_argument("--report", metavar="OUT.json")
    q.add_argument("--junit", metavar="OUT.xml")
    q.add_argument("--html", metavar="OUT.html")
    q.add_argument("--book", metavar="URL", help="where the built book is, for the links of --html (also CMN_BOOK)")
    q.add_argument("--badge", metavar="OUT.svg")
    q.add_argument("--max-restarts", type=whole, default=20, metavar="N", help="give up after so many crashes and hangs (20)")
    q.add_argument("--inaccurate", choices=("fail", "pass"), default="fail",
                   help="whether answers within 1e-8 (f32: 1e-3) but outside the tolerance make the exit code 1 (fail)")
    q.add_argument("--quiet", action="store_true", help="the last line only")
    q = sub.add_parser("list", help="list the cases")
    which(q)
    q.add_argument("--json", action="store_true")
    q = sub.add_parser("explain", help="one case: equation, inputs, expected, and what an adapter answers")
    q.add_argument("id")
    whom(q, False)
    q = sub.add_parser("badge", help="an SVG from a report")
    q.add_argument("report", metavar="REPORT.json")
    q.add_argument("svg", metavar="OUT.svg", nargs="?", help="default: standard output")
    return p


def selected(args):
    unknown = [op for op in args.op or [] if op not in catalogue.operations()]
    if unknown:
        raise BadRequest(f"--op: the suite has no {', '.join(unknown)}; it has {', '.join(catalogue.operations())}")
    if args.flag and args.flag not in catalogue.flags():
        raise BadRequest(f"--flag: the suite has no {args.flag}; it has {', '.join(catalogue.flags())}")
    found = catalogue.select(args.level, args.op, args.case, args.flag)
    if not found:
        raise BadRequest("no case is as asked")
    return found


def writable(*paths):
    """Refuse a file that cannot be written before anything is run, not after."""
    for path in filter(None, paths):
        there = Path(path).exists()
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).open("a").close()
        except OSError as error:
            raise BadRequest(f"{path}: {error.strerror or error}") from None
        if not there:
            Path(path).unlink()


def opened(args, **limits):
    """The adapter that the user named."""
    return open_adapter(args.adapter, args.command, args.in_process, timeout=args.timeout, first_timeout=args.first_timeout,
                        start_timeout=args.start_timeout, **limits)


def answers(args, cases, xfails, progress):
    """The report of an estimator or an adapter, with generated inputs if there is a seed."""
    if args.estimator:
        estimator = blackbox.open_estimator(args.estimator, blackbox.parse_params(args.param), args.in_process, args.kind, timeout=args.timeout,
                                            first_timeout=args.first_timeout, start_timeout=args.start_timeout, max_restarts=args.max_restarts)
        return blackbox.run(estimator, args.seed or 0, blackbox.parse_promises(args.promise), args.case, progress)
    out = run(opened(args, max_restarts=args.max_restarts), cases, args.dtype, xfails, catalogue.flags(), progress, inaccurate=args.inaccurate)
    if args.seed is None:
        return out
    return laws.extend(out, opened(args, max_restarts=args.max_restarts), args.seed, args.generated, args.op, args.case)


def command_run(args):
    cases = [] if args.estimator or args.seed is not None and any("LG-" in text for text in args.case or []) else selected(args)
    writable(args.report, args.junit, args.html, args.badge)
    if args.book:
        os.environ["CMN_BOOK"] = args.book
    known = [c.id for c in catalogue.cases()]
    xfails = read_xfails(args.xfails, known) if args.xfails else {}
    show = sys.stderr.isatty() and not args.quiet
    done = [0]

    def progress(result):
        done[0] += 1
        if show:
            print(f"\r{done[0]}/{len(cases)} {result['id']:60.60}", end="", file=sys.stderr, flush=True)
    out = answers(args, cases, xfails, progress)
    if show:
        print("\r" + " " * 72 + "\r", end="", file=sys.stderr)
    words = report.text(out, catalogue.flags())
    print(words.rpartition("\n")[2] if args.quiet else words)
    for path, content in ((args.report, lambda: out), (args.junit, lambda: report.junit(out)),
                          (args.html, lambda: page(out, catalogue.flags())), (args.badge, lambda: report.badge(out))):
        if path:
            report.write(path, content())
    if not out["questions"]:
        print("run: nothing was asked: the adapter has none of these operations, or not in the profile and dtype of these cases; "
              "an operation is named as in list", file=sys.stderr)
    return exit_code(out)


def command_list(args):
    cases = selected(args)
    if args.json:
        print(json.dumps([{"id": c.id, "op": c.op, "level": c.level, "eq": c.eq, "profile": c.profile, "flags": c.flags,
                           "f64_only": c.f64_only} for c in cases], indent=1))
        return 0
    for c in cases:
        print(f"L{c.level} {c.id:44} {c.eq['label']:22} {' '.join(c.flags)}" + ("  (f64 only)" if c.f64_only else ""))
    counts = {level: sum(c.level == level for c in cases) for level in sorted({c.level for c in cases})}
    print(f"{len(cases)} cases: " + ", ".join(f"L{level} {n}" for level, n in counts.items()))
    return 0


def show_values(title, values, kinds):
    from cmn_conformance.values import decode

    import numpy as np
    print(title)
    for name, value in values.items():
        array = decode(value)
        meaning = kinds.get(name, {}).get("meaning", "")
        shape = f" {array.shape}" if array.ndim else ""
        body = np.array2string(array, precision=17, threshold=60, max_line_width=110, floatmode="unique").replace("\n", "\n      ")
        print(f"  {name}{shape}  {meaning}\n      {body}")


def command_explain(args):
    found = [c for c in catalogue.cases() if c.id == args.id]
    if not found:
        near = [c.id for c in catalogue.cases() if args.id.lower() in c.id.lower()][:8]
        raise BadRequest(f"no case {args.id!r}" + (f"; there are {', '.join(near)}" if near else "; see list"))
    c, op = found[0], catalogue.operations()[found[0].op]
    print(f"{c.id}  (L{c.level} {report.LEVELS[c.level]}, group {c.group})\n\n{c.op}: {op['definition']}")
    print(f"equation {c.eq['label']}  {c.eq['link']}")
    print("\n".join(filter(None, [c.note, c.profile and f"profile {c.profile}", c.f64_only and "float64 only",
                                  c.superseded_by and f"superseded by {c.superseded_by}"])))
    for flag in c.flags:
        print(f"catches {report.of(flag, catalogue.flags())}")
    print()
    show_values("in", c.given, op["in"])
    show_values("expected", c.out, op["out"])
    for dtype, table in c.tolerance.items():
        print(f"tolerance {dtype}: " + ", ".join(f"{name} {rtol:g} x |expected| + {atol:g}" for name, (rtol, atol) in table.items()))
    if args.adapter is None and args.command is None:
        return 0
    adapter = opened(args)
    try:
        with interruptible():
            capabilities = adapter.start(greeting(args.dtype))
            why = why_not_asked(c, capabilities, args.dtype)
            if why:
                print(f"\nnot asked: {why[2] or 'the adapter has no ' + c.op}")
                return 2
            result, answers = ask(adapter, c, args.dtype, capabilities["profile"])
    finally:
        adapter.stop()
    try:
        if answers:
            show_values("\ngot", answers, op["out"])
    except ValueError as error:
        print(f"got something malformed: {error}")
    print("\n".join(["", *report.describe(result, catalogue.flags())]))
    return exit_code({"levels": [{v: int(result["verdict"] == v) for v in report.VERDICTS}]})


def command_badge(args):
    try:
        out = json.loads(Path(args.report).read_text(encoding="utf-8"))
        svg = report.badge(out)
    except OSError as error:
        raise BadRequest(f"{args.report}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError):
        raise BadRequest(f"{args.report}: expected a report that run --report wrote") from None
    if args.svg:
        writable(args.svg)
        report.write(args.svg, svg)
    else:
        print(svg, end="")
    return 0


def main(argv=None):
    args = parser().parse_args(argv)
    command = {"run": command_run, "list": command_list, "explain": command_explain, "badge": command_badge}[args.what]
    try:
        with watch():
            return command(args)
    except Interrupted as signal:
        print(f"{args.what}: interrupted by {signal.name}", file=sys.stderr)
        return Interrupted.CODES[signal.name]
    except (BadRequest, NotStarted) as error:
        print(f"{args.what}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        sys.stderr.close()
        return 1


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="backslashreplace")            # an adapter's words, and dashes, on a terminal that lacks them
    sys.exit(main())
