"""Ask an adapter every case and judge the answers."""

import json
import re
import time
from pathlib import Path

from cmn_conformance import naming
from cmn_conformance.catalogue import DTYPES, default_profile, foreign_choices, operations, suite_info
from cmn_conformance.convert import KEYS, Conversion, target
from cmn_conformance.interrupt import interruptible
from cmn_conformance.process import LocalAdapter, NotStarted, Trouble
from cmn_conformance.report import summarise
from cmn_conformance.serve import Interrupted
from cmn_conformance.verdicts import expected, judge, why_not_asked

REPORT_VERSION = 2


class BadRequest(Exception):
    """Something in the request is wrong; nothing was run."""


def read_toml(text):
    """A TOML text; where Python has no tomllib (before 3.11), one of tables with lines "key" = "value"."""
    try:
        import tomllib
        return tomllib.loads(text)
    except ImportError:
        pass
    out, table = {}, None
    for line in (line.strip() for line in text.splitlines()):
        pair = re.fullmatch(r'("(?:[^"\\]|\\.)*")\s*=\s*("(?:[^"\\]|\\.)*")\s*(?:#.*)?', line)
        if pair and table is not None:
            table[json.loads(pair[1])] = json.loads(pair[2])
        elif re.fullmatch(r"\[\w+\]", line):
            table = out.setdefault(line[1:-1], {})
        elif line and not line.startswith("#"):
            raise ValueError(f'expected a table [xfails] with lines "id" = "reason", got {line[:60]!r}')
    return out


def read_xfails(path, known):
    """{id: reason} of an adopter's file of expected failures; BadRequest for an id that the suite does not have."""
    try:
        table = read_toml(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise BadRequest(f"{path}: {error.strerror or error}") from None
    except ValueError as error:                          # also of TOML and of UTF-8
        raise BadRequest(f"{path}: {error}") from None
    entries = table.get("xfails")
    if set(table) - {"xfails"} or not isinstance(entries, dict):
        raise BadRequest(f'{path}: expected one table [xfails] with lines "id" = "reason"')
    unreasoned = [case for case, reason in entries.items() if not isinstance(reason, str) or not reason.strip()]
    if unreasoned:
        raise BadRequest(f"{path}: no reason in words for {', '.join(unreasoned)}")
    unknown = sorted(set(entries) - set(known))
    if unknown:
        raise BadRequest(f"{path}: not in the suite: {', '.join(unknown)}")
    return entries


def blank(case):
    """The result of a case that nothing is known about yet."""
    return {"id": case.id, "op": case.op, "level": case.level, "eq": case.eq, "note": case.note, "flags": list(case.flags),
            "verdict": "undeclared", "kind": "", "message": "", "seconds": 0.0, "outputs": []}


def ask(adapter, case, dtype, profile):
    """(the result of one case, the outputs as they came, in the terms of the case); profile: what the adapter declares."""
    result, out = blank(case), {}
    began = time.perf_counter()
    wanted = target(case, profile)
    conversion = Conversion(case, wanted)
    choices = {**default_profile(), **case.profile, **wanted}
    try:
        reply = adapter.ask({"id": case.id, "op": case.op, "profile": choices, "dtype": dtype, "in": conversion.given, "outputs": list(case.out)})
        if "out" in reply:
            result["verdict"], result["message"], result["outputs"] = judge(case, conversion, reply["out"], dtype)
            out = conversion.back(reply["out"])[0]
        elif "skipped" in reply:
            result.update(verdict="skipped", kind="adapter", message=reply["skipped"][:500])
        else:
            result.update(verdict="errored", kind="errored", message=reply["errored"][:2000])
    except Trouble as trouble:
        result.update(verdict="errored", kind=trouble.kind, message=str(trouble))
    result["seconds"] = round(time.perf_counter() - began, 6)
    if result["verdict"] in naming.FAILING:
        result["named"] = naming.name(case, out or None, dtype)
    return result, out


def apply_xfail(result, reason):
    if result["verdict"] in ("failed", "inaccurate", "errored"):
        result.update(verdict="xfailed", message=f"expected: {reason}")
    elif result["verdict"] == "passed":
        result.update(verdict="xpassed", message=f'passes, but is listed as an expected failure: "{reason}"; take it off the list')


def greeting(dtype):
    """What an adapter is told at the start."""
    return {"dtype": dtype, "suite": suite_info()["version"], "ops": list(operations())}


def check_dtype(capabilities, dtype):
    if dtype not in capabilities["dtypes"]:
        raise BadRequest(f"the adapter does not offer {dtype}, only {', '.join(map(str, capabilities['dtypes']))}")


def complaints(adapter, capabilities):
    """What is strange about an adapter before it is asked anything."""
    out = []
    unknown = [op for op in capabilities["ops"] if op not in operations()]
    if unknown:
        out.append(f"the adapter declares operations that the suite does not have: {', '.join(map(str, unknown))}")
    strange = foreign_choices(capabilities["profile"])
    if strange:
        out.append(f"the adapter's profile has choices that ops.json does not know: {', '.join(strange)}")
    if adapter.banner:
        out.append(f"standard output is for answers; before its answer to start the adapter printed {adapter.banner[0]!r}")
    return out


def own_algorithm(profile):
    """{key: value} of the algorithm where an adapter does not do the default one."""
    return {key: profile[key] for key, default in default_profile().items() if key not in KEYS and key in profile
            and default not in (profile[key] if isinstance(profile[key], list) else [profile[key]])}


def put(adapter, cases, dtype, capabilities, xfails, progress):
    """-> results, {sequence number: result}, and the Interrupted that ended it, or None."""
    results, sequence, stopped = [], {}, None
    for case in cases:
        why = ("skipped", "interrupted", "not asked: the run was interrupted") if stopped else why_not_asked(case, capabilities, dtype)
        if why:
            result = {**blank(case), "verdict": why[0], "kind": why[1], "message": why[2]}
        else:
            try:
                with interruptible():
                    result, _ = ask(adapter, case, dtype, capabilities["profile"])
                sequence[adapter.seq] = result
                if xfails and case.id in xfails:
                    apply_xfail(result, xfails[case.id])
            except Interrupted as signal:
                stopped = signal
                result = {**blank(case), "verdict": "skipped", "kind": "interrupted", "message": f"interrupted by {signal.name} while it was asked"}
        results.append(result)
        if progress:
            progress(result)
    return results, sequence, stopped


def run(adapter, cases, dtype="f64", xfails=None, flags=None, progress=None, suite=None, inaccurate="fail"):
    """Ask an adapter (of process.open_adapter) all cases.   -> the report, a dict as schema/report.schema.json describes it

    NotStarted if the adapter cannot be asked, BadRequest if it does not know the dtype.  progress(result) after each case.
    suite: the cases against which the levels are counted, by default all that the kit has; inaccurate: "fail" or "pass".
    """
    if dtype not in DTYPES:
        raise BadRequest(f"dtype: expected one of {', '.join(DTYPES)}, got {dtype!r}")
    began, started = time.perf_counter(), time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
    try:
        with interruptible():
            capabilities = adapter.start(greeting(dtype))
        check_dtype(capabilities, dtype)
        problems = complaints(adapter, capabilities)
        results, sequence, stopped = put(adapter, cases, dtype, capabilities, xfails, progress)
    finally:
        adapter.stop()
    for seq, words in adapter.late.items():                     # one question, one answer
        if seq in sequence:
            sequence[seq].update(verdict="errored", kind="answers", message=words)
    if stopped:
        problems.append(f"interrupted by {stopped.name}: the report is partial")
    if adapter.answered != adapter.asked:
        problems.append(f"{adapter.asked} questions, {adapter.answered} answers")
    return {"report_version": REPORT_VERSION, "suite": suite_info(), "adapter": capabilities, "algorithm": own_algorithm(capabilities["profile"]),
            "dtype": dtype, "started": started, "seconds": round(time.perf_counter() - began, 3), "questions": adapter.asked,
            "answers": adapter.answered, "restarts": adapter.restarts, "interrupted": stopped.name if stopped else "", "inaccurate": inaccurate,
            "problems": problems, **summarise(results, flags or {}, expected(capabilities, dtype, suite), dtype), "results": results}


def exit_code(report):
    """0: all that was asked is right; 1: something is not; 2: nothing was tested; 130, 143, 129: interrupted by SIGINT, SIGTERM, SIGHUP."""
    if report.get("interrupted"):
        return Interrupted.CODES[report["interrupted"]]
    total = {v: sum(level[v] for level in report["levels"]) for v in ("passed", "inaccurate", "failed", "errored", "xfailed", "xpassed")}
    if total["failed"] or total["errored"] or total["xpassed"] or total["inaccurate"] and report.get("inaccurate", "fail") == "fail":
        return 1
    return 0 if total["passed"] or total["xfailed"] or total["inaccurate"] else 2


__all__ = ["BadRequest", "LocalAdapter", "NotStarted", "ask", "exit_code", "judge", "read_xfails", "run", "why_not_asked"]
