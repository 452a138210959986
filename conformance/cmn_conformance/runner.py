"""Ask an adapter every case and judge the answers."""

import time
import tomllib
from datetime import UTC, datetime
from pathlib import Path

from cmn_conformance import naming
from cmn_conformance.catalogue import DTYPES, default_profile, foreign_choices, operations, suite_info
from cmn_conformance.process import LocalAdapter, NotStarted, Trouble
from cmn_conformance.report import summarise
from cmn_conformance.values import compare

REPORT_VERSION = 1


class BadRequest(Exception):
    """Something in the request is wrong; nothing was run."""


def read_xfails(path, known):
    """{id: reason} of an adopter's file of expected failures; BadRequest for an id that the suite does not have."""
    try:
        table = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise BadRequest(f"{path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
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
    return {"id": case.id, "op": case.op, "level": case.level, "eq": case.eq, "flags": list(case.flags), "verdict": "undeclared",
            "kind": "", "message": "", "seconds": 0.0, "outputs": []}


def why_not_asked(case, capabilities, dtype):
    """(verdict, kind, reason) of a case that is not put to this adapter, or None."""
    if case.op not in capabilities["ops"]:
        return "undeclared", "", ""
    if dtype == "f32" and case.f64_only:
        return "skipped", "dtype", "float32 cannot pass this case"
    can = {**default_profile(), **capabilities["profile"]}
    other = {key: value for key, value in case.profile.items() if value not in (can[key] if isinstance(can[key], list) else [can[key]])}
    if other:
        return "skipped", "profile", "of another profile: " + ", ".join(f"{k} = {v}" for k, v in sorted(other.items()))
    return None


def judge(case, out, dtype):
    """(verdict, message, outputs) of an answer."""
    absent = [name for name in case.out if name not in out]
    outputs = [compare(name, out[name], expected, *case.tolerance[dtype][name]) for name, expected in case.out.items() if name in out]
    if absent:
        return "failed", f"no output {', '.join(absent)} among {', '.join(sorted(out)[:8]) or 'none'}", outputs
    return "passed" if all(o["ok"] for o in outputs) else "failed", "", outputs


def ask(adapter, case, dtype, keep=False):
    """The result of one case; with keep=True also the outputs as they came."""
    result, out = blank(case), {}
    began = time.perf_counter()
    try:
        reply = adapter.ask({"id": case.id, "op": case.op, "profile": {**default_profile(), **case.profile}, "dtype": dtype, "in": case.given,
                             "outputs": list(case.out)})
        if "out" in reply:
            out = reply["out"]
            result["verdict"], result["message"], result["outputs"] = judge(case, out, dtype)
        elif "skipped" in reply:
            result.update(verdict="skipped", kind="adapter", message=reply["skipped"][:500])
        else:
            result.update(verdict="errored", kind="errored", message=reply["errored"][:2000])
    except Trouble as trouble:
        result.update(verdict="errored", kind=trouble.kind, message=str(trouble))
    if result["verdict"] in naming.FAILING:
        result["named"] = naming.name(case, out or None, dtype)
    result["seconds"] = round(time.perf_counter() - began, 6)
    return (result, out) if keep else result


def apply_xfail(result, reason):
    if result["verdict"] in ("failed", "errored"):
        result.update(verdict="xfailed", message=f"expected: {reason}")
    elif result["verdict"] == "passed":
        result.update(verdict="xpassed", message=f'passes, but is listed as an expected failure: "{reason}"; take it off the list')


def greeting(dtype):
    """What an adapter is told at the start."""
    return {"dtype": dtype, "suite": suite_info()["version"], "ops": list(operations())}


def check_dtype(capabilities, dtype):
    if dtype not in capabilities["dtypes"]:
        raise BadRequest(f"the adapter does not offer {dtype}, only {', '.join(map(str, capabilities['dtypes']))}")


def run(adapter, cases, dtype="f64", xfails=None, flags=None, progress=None):
    """Ask an adapter (of process.open_adapter) all cases.   -> the report, a dict as schema/report.schema.json describes it

    NotStarted if the adapter cannot be asked, BadRequest if it does not know the dtype.  progress(result) after each case.
    """
    if dtype not in DTYPES:
        raise BadRequest(f"dtype: expected one of {', '.join(DTYPES)}, got {dtype!r}")
    started, began = datetime.now(UTC).isoformat(timespec="seconds"), time.perf_counter()
    capabilities = adapter.start(greeting(dtype))
    try:
        check_dtype(capabilities, dtype)
        unknown = sorted(set(capabilities["ops"]) - set(operations()))
        problems = [f"the adapter declares operations that the suite does not have: {', '.join(map(str, unknown))}"] if unknown else []
        strange = foreign_choices(capabilities["profile"])
        if strange:
            problems.append(f"the adapter's profile has choices that ops.json does not know: {', '.join(strange)}")
        if adapter.banner:
            problems.append(f"standard output is for answers; before its answer to start the adapter printed {adapter.banner[0]!r}")
        results, sequence = [], {}
        for case in cases:
            why = why_not_asked(case, capabilities, dtype)
            if why:
                result = {**blank(case), "verdict": why[0], "kind": why[1], "message": why[2]}
            else:
                result = ask(adapter, case, dtype)
                sequence[adapter.seq] = result
                if xfails and case.id in xfails:
                    apply_xfail(result, xfails[case.id])
            results.append(result)
            if progress:
                progress(result)
    finally:
        adapter.stop()
    for seq, words in adapter.late.items():                     # one question, one answer
        if seq in sequence:
            sequence[seq].update(verdict="errored", kind="answers", message=words)
    if adapter.answered != adapter.asked:
        problems.append(f"{adapter.asked} questions, {adapter.answered} answers")
    return {"report_version": REPORT_VERSION, "suite": suite_info(), "adapter": capabilities, "dtype": dtype, "started": started,
            "seconds": round(time.perf_counter() - began, 3), "questions": adapter.asked, "answers": adapter.answered,
            "restarts": adapter.restarts, "problems": problems, **summarise(results, flags or {}, dtype), "results": results}


def exit_code(report):
    """0: all that was asked passed; 1: something failed; 2: nothing was tested."""
    totals = {v: sum(level[v] for level in report["levels"]) for v in ("passed", "failed", "errored", "xfailed", "xpassed")}
    if totals["failed"] or totals["errored"] or totals["xpassed"]:
        return 1
    return 0 if totals["passed"] or totals["xfailed"] else 2


__all__ = ["BadRequest", "LocalAdapter", "NotStarted", "ask", "exit_code", "judge", "read_xfails", "run"]
