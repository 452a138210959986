"""What an answer is worth, and how much of the whole suite that makes."""

from cmn_conformance import catalogue
from cmn_conformance.convert import KEYS, target, why_not
from cmn_conformance.values import compare

VERDICTS = ("passed", "inaccurate", "failed", "errored", "skipped", "xfailed", "xpassed", "warned", "undeclared")
WRONG = ("failed", "errored")
COARSE = {"f64": 1e-8, "f32": 1e-3}                      # relative; an error below this is want of accuracy, no wrong formula
DIGITS = {"SmallTilt", "CutSeries"}                      # flags of lost digits: what a case with one of them is there for is no mere inaccuracy
EPS = {"f64": 2.0**-53, "f32": 2.0**-24}
NOT_OURS = ("dtype", "algorithm", "conversion")          # kinds of skipped cases that do not belong to the adapter's part of the suite
NOT_ASKED = (*NOT_OURS, "given up", "not restarted", "interrupted")


def disagreement(case, profile):
    """{key: value} of what the case asks for and the adapter does not do."""
    defaults = catalogue.default_profile()
    can = {key: profile.get(key, defaults[key]) for key in defaults}
    return {key: value for key, value in case.profile.items() if key not in KEYS and value not in (can[key] if isinstance(can[key], list) else [can[key]])}


def why_not_asked(case, capabilities, dtype):
    """(verdict, kind, reason) of a case that is not put to this adapter, or None."""
    other = disagreement(case, capabilities["profile"])
    suite = catalogue.optional_suite(other)
    if suite:
        verdict = "skipped" if case.op in capabilities["ops"] else "undeclared"
        return verdict, "algorithm", f"not offered: the optional suite {suite}"
    if case.op not in capabilities["ops"]:
        return "undeclared", "algorithm" if other else "", ""
    if dtype == "f32" and case.f64_only:
        return "skipped", "dtype", "float32 cannot pass this case"
    if other:
        return "skipped", "algorithm", "of another algorithm: " + ", ".join(f"{k} = {v}" for k, v in sorted(other.items()))
    reason = why_not(case, target(case, capabilities["profile"]))
    return ("skipped", "conversion", f"has no such parametrisation: {reason}") if reason else None


def expected(capabilities, dtype, cases=None):
    """The cases that an adapter of this profile has to answer, declared or not.

    An operation of which the suite has nothing for the adapter's choice of algorithm keeps the cases of the default one: a profile
    chooses among questions, it does not remove an operation.
    """
    cases = [c for c in catalogue.cases() if not c.superseded_by] if cases is None else list(cases)
    everything = {**capabilities, "ops": list(catalogue.operations())}
    known = [c for c in cases if c.op in catalogue.operations()]
    ours = [c for c in known if why_not_asked(c, everything, dtype) is None]
    met = {c.op for c in ours}
    plain = [c for c in known if c.op not in met and why_not_asked(c, {**everything, "profile": {}}, dtype) is None]
    return ours + plain


def judge(case, conversion, out, dtype):
    """(verdict, message, outputs) of an answer."""
    absent = [name for name in case.out if name not in out]
    back, problems, losses = conversion.back(out)
    outputs = []
    for name, want in case.out.items():
        if name not in out:
            continue
        rtol, atol = case.tolerance[dtype][name]
        lost = 32 * EPS[dtype] * (conversion.loss * (1 + case.kappa.get(name, 0.0)) + losses.get(name, 0.0))
        atol = atol * (1 + lost / rtol) if rtol else atol
        found = compare(name, back[name], want, rtol + lost, atol, catalogue.norm_axes(case.op, name), COARSE[dtype])
        if name in problems:
            found.update(ok=False, grade="wrong", problem=problems[name])
        outputs.append(found)
    if absent:
        return "failed", f"no output {', '.join(absent)} among {', '.join(sorted(out)[:8]) or 'none'}", outputs
    grades = {o["grade"] for o in outputs}
    if "wrong" in grades or "inaccurate" in grades and DIGITS & set(case.flags):
        return "failed", "", outputs
    return "inaccurate" if "inaccurate" in grades else "passed", "", outputs


def tally(results, suite):
    """{level: {"asked", "right", "inaccurate", "wrong", "of"}} of results against the cases that had to be answered."""
    verdicts = {r["id"]: r for r in results}
    table = {}
    for case in suite:
        row = table.setdefault(case.level, {"asked": 0, "right": 0, "inaccurate": 0, "wrong": 0, "of": 0})
        result = verdicts.get(case.id)
        row["of"] += 1
        if result is None or result["verdict"] == "undeclared" or result["kind"] in NOT_ASKED:
            continue
        row["asked"] += 1
        row["right"] += result["verdict"] in ("passed", "xpassed")
        row["inaccurate"] += result["verdict"] == "inaccurate"
        row["wrong"] += result["verdict"] in ("failed", "errored", "xfailed")
    for result in results:
        if isinstance(result["level"], str):             # checks that are no cases: all that were considered had to be answered
            row = table.setdefault(result["level"], {"asked": 0, "right": 0, "inaccurate": 0, "wrong": 0, "of": 0})
            row["of"] += 1
            row["asked"] += result["verdict"] not in ("undeclared", "skipped")
            row["right"] += result["verdict"] == "passed"
            row["wrong"] += result["verdict"] in WRONG
    return table

