"""Results of checks that are no cases of the suite, level B (black box) and level G (generated inputs), in the form of a case's."""

import numpy as np

from cmn_conformance.interrupt import interruptible
from cmn_conformance.process import Trouble
from cmn_conformance.serve import Interrupted


class NotAsked(Exception):
    """Why a check is not put to this implementation: what it does not promise or does not have."""

    def __init__(self, kind, message):
        super().__init__(message)
        self.kind = kind


class WrongShape(Exception):
    """An answer that cannot be compared."""


def result(name, op, level, eq, note, verdict, message="", outputs=(), kind="", seconds=0.0):
    """One entry of a report's "results".  The only place that knows their form."""
    return {"id": name, "op": op, "level": level, "eq": eq, "note": note, "flags": [], "verdict": verdict, "kind": kind,
            "message": message, "seconds": round(seconds, 6), "outputs": list(outputs)}


def _plain(number):
    number = float(number)
    return number if np.isfinite(number) else "nan" if np.isnan(number) else "inf" if number > 0 else "-inf"


def near(name, got, expected, tolerance, words=""):
    """One comparison, |got - expected| <= tolerance (arrays or numbers): an entry of a result's "outputs"."""
    got, expected = np.asarray(got, float), np.asarray(expected, float)
    out = {"name": name, "ok": False, "grade": "wrong", "problem": "", "ratio": None,
           "error": None, "tolerance": None, "index": None, "got": None, "expected": None}
    if got.shape != expected.shape:
        return {**out, "problem": f"shape {got.shape}, expected {expected.shape}"}
    if not got.size:
        return {**out, "ok": True, "grade": "right", "ratio": 0.0}
    tolerance = np.broadcast_to(np.asarray(tolerance, float), got.shape)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        error = np.abs(got - expected)
        error = np.where((got == expected) | (np.isnan(got) & np.isnan(expected)), 0.0, np.where(np.isnan(error), np.inf, error))
        ratio = np.where(error <= tolerance, error / np.where(tolerance > 0, tolerance, 1.0), np.where(tolerance > 0, error / tolerance, np.inf))
    index = np.unravel_index(int(np.argmax(ratio)), got.shape)
    ok = bool(np.all(error <= tolerance))
    problem = "" if ok else (f"{words or 'they differ'}: {got[index]:.6g} where {expected[index]:.6g} is expected, error {error[index]:.2g}, "
                             f"tolerance {tolerance[index]:.2g}")
    return {**out, "ok": ok, "grade": "right" if ok else "wrong", "problem": problem, "ratio": _plain(ratio[index]), "error": _plain(error[index]),
            "tolerance": _plain(tolerance[index]), "index": [int(i) for i in index], "got": _plain(got[index]), "expected": _plain(expected[index])}


def at_most(name, got, limit, tolerance=0.0, words=""):
    """One comparison, got <= limit + tolerance."""
    got, limit = np.broadcast_arrays(np.asarray(got, float), np.asarray(limit, float))
    entry = near(name, np.where(np.isnan(got), got, np.maximum(got, limit)), limit, tolerance, words or "too large")
    if entry["index"] is not None:
        entry["got"] = _plain(got[tuple(entry["index"])])
    return entry


def holds(name, truth, words):
    """One statement that is true or not."""
    entry = near(name, 0.0 if truth else 1.0, 0.0, 0.0)
    return {**entry, "problem": "" if truth else words, "got": None, "expected": None, "error": None, "tolerance": None}


def judge(outputs, grade="failed"):
    """Verdict of a list of comparisons; grade is what a false one makes of it."""
    return "passed" if outputs and all(o["ok"] for o in outputs) else grade


def settle(name, op, level, eq, note, grade, check, clock):
    """Run check() -> outputs and make a result of it, whatever happens.  clock() -> seconds."""
    began = clock()
    try:
        outputs = list(check())
        verdict = judge(outputs, grade)
        message, kind = "", "warning" if verdict == "warned" else ""
    except NotAsked as reason:
        outputs, verdict, message, kind = [], "undeclared", str(reason), reason.kind
    except (WrongShape, np.linalg.LinAlgError) as wrong:
        outputs, verdict, message, kind = [], grade, f"the answer cannot be judged: {wrong}", ""
    except Trouble as trouble:
        outputs, verdict, message, kind = [], "errored", str(trouble), trouble.kind
    return result(name, op, level, eq, note, verdict, message, outputs, kind, clock() - began)


def settle_all(entries, progress=None):
    """-> results of functions of no argument, and the name of the signal that ended them, or ""."""
    results = []
    for entry in entries:
        try:
            with interruptible():
                results.append(entry())
        except Interrupted as signal:
            return results, signal.name
        if progress:
            progress(results[-1])
    return results, ""
