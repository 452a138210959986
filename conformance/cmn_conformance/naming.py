"""Which bug a wrong answer is: it is compared with the answers that known bugs give."""

from __future__ import annotations


def name(case, answer, dtype="f64"):
    """The bugs whose wrong answer this is, the nearest first, as pairs (key of a wrong answer, distance)."""
    return []


def likely(results, flags):
    """For each operation that fails in the first failing level, its likeliest bugs, the likeliest first.

    -> list of {"op", "flag", "failed", "asked", "bug", "basis"}; basis is "value", "pattern" or "unknown"
    """
    judged = [r for r in results if r["verdict"] in ("passed", "failed")]
    level = min((r["level"] for r in judged if r["verdict"] == "failed"), default=None)
    out, judged = [], [r for r in judged if r["level"] == level]
    for op in dict.fromkeys(r["op"] for r in judged if r["verdict"] == "failed"):
        here, ranked = [r for r in judged if r["op"] == op], {}
        failing = [r for r in here if r["verdict"] == "failed"]
        for place, r in enumerate(failing):
            for rank, flag in enumerate(r["flags"]):
                asked = [q for q in here if flag in q["flags"]]
                failed = sum(q["verdict"] == "failed" for q in asked)
                agree = sum((flag in q["flags"]) == (q["verdict"] == "failed") for q in here) if len(failing) < len(here) else 0
                entry = {"op": op, "flag": flag, "failed": failed, "asked": len(asked), "bug": flags.get(flag, {}).get("bug", ""), "basis": "pattern"}
                ranked.setdefault(flag, ((place > 0, -agree, place, rank), entry))
        out += [entry for _, entry in sorted(ranked.values(), key=lambda pair: pair[0])]
    return out
