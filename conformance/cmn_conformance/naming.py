"""Which bug a wrong answer is.

By value: wrong/<group>.json holds what each known bug answers to a case, by the oracle's loops with one piece exchanged; an answer that is
one of these is named, even if every case of the operation fails.  By pattern: what has no value of its own, NaN where a tilt is 0, missing
digits where numbers cancel, a shape that holds only for h = L - 1.  What is neither stays unknown.
"""

from __future__ import annotations

from functools import lru_cache, cache

import numpy as np

from cmn_conformance import catalogue
from cmn_conformance.values import Malformed, decode

FAILING = ("failed", "errored", "inaccurate")
ENOUGH = 0.5                                            # of the failing cases a name must explain
EPS = {"f64": 2.0 ** -53, "f32": 2.0 ** -24}
CLOSE = {"f64": 1e-6, "f32": 1e-2}                      # of the distance between right and wrong
USES = {"pg_kl": ["log_cosh_half"], "stick_log_means": ["log_sigmoid_normal"], "padded_second_moment": ["second_moment"],
        "gate_logits": ["second_moment"], "output_logits": ["padded_second_moment", "second_moment"], "mng_kl": ["gamma_kl"],
        "elbo": ["elbo_output", "elbo_expert", "elbo_latent_entropy", "elbo_gate", "elbo_assignment_entropy", "kl_beta1", "kl_beta0", "kl_experts", "kl_shared", "kl_scales"], "forecast": ["predict"],
        "deep_elbo": ["deep_elbo_choice", "deep_elbo_expert", "deep_elbo_entropy", "deep_kl"]}
FOLLOWS = {"M": ["V"], "b": ["V", "M"], "mu": ["Sigma"], "beta1_mu": ["beta1_S"], "beta0_mu": ["beta0_S"], "beta_mu": ["beta_S"]}     # outputs of one update
# flags that say something about the input of a case: a bug that only such cases show
CONDITIONS = ("ZeroTilt", "HugeTilt", "ExtremeLogit", "Underflow", "LargeOffset", "LatentDimension", "SingleExpert", "OneHot", "EmptyExpert",
              "SharedTilt", "FixedSize")


@lru_cache(maxsize=1)
def wrong_answers():
    """({op: {key: {"flag", "bug"}}}, {case id: {"at", "wrong"}}) of the files in wrong/."""
    bugs, cases = {}, {}
    folder = catalogue.here().joinpath("wrong")
    for item in sorted(folder.iterdir(), key=lambda item: item.name) if folder.is_dir() else ():
        if item.name.endswith(".json"):
            tree = catalogue.read("wrong", item.name)
            cases.update(tree["cases"])
            for op, table in tree["bugs"].items():
                bugs.setdefault(op, {}).update(table)
    return bugs, cases


@lru_cache(maxsize=1)
def _cases():
    return {case.id: case for case in catalogue.cases()}


def _flat(value):
    return decode(value).astype(float).ravel()


# ---- one case, by value

@cache
def _entries(case_id, key, dtype):
    """(right, wrong, tolerance) of the stored entries of each output; None without a stored answer."""
    stored, case = wrong_answers()[1].get(case_id, {}), _cases().get(case_id)
    if key not in stored.get("wrong", {}):
        return None
    out = {}
    for name, value in case.out.items():
        right, (rtol, atol) = _flat(value), case.tolerance[dtype][name]
        places = stored.get("at", {}).get(name, range(right.size))
        right = right[list(places)] if right.size else right
        wrong = np.array([float(v) for v in stored["wrong"][key].get(name, right)])
        out[name] = (right, wrong, atol + rtol * np.abs(right), list(places))
    return out


def _apart(right, wrong, tol):
    """The entries in which a wrong answer, of ten digits, is not the right one."""
    return ~(np.abs(wrong - right) <= 4 * tol + 4e-9 * np.abs(right)) & (wrong != right)


def _told_apart(case_id, key, dtype):
    """Whether a wrong answer would fail the case in this dtype."""
    found = _entries(case_id, key, dtype)
    with np.errstate(invalid="ignore"):
        return bool(found) and any(np.any(_apart(*three)) for *three, _ in found.values())


def _agreement(answer, right, wrong, tol, dtype):
    """(wrong entries and those that the bug changes, those of them that are as the bug has them), or None if more wrong entries are not so."""
    with np.errstate(all="ignore"):
        apart = _apart(right, wrong, tol)
        fine = (np.abs(answer - right) <= 1.01 * tol) | (answer == right)
        near = 4 * tol + 1e-9 * np.abs(wrong) + CLOSE[dtype] * np.abs(wrong - right)
        same = (np.isfinite(near) & (np.abs(answer - wrong) <= near)) | (answer == wrong)
    agree, other = int((apart & same & ~fine).sum()), int((~fine & ~same).sum())
    return (int(apart.sum()) + other, agree) if other <= agree else None


def _share(case, got, key, dtype):
    """Of the entries that a bug changes, the part that is as the bug has it; 0 if most wrong entries are neither right nor so.

    An output that follows from another wrong one may be wrong in a way of its own; that counts against the bug, but does not exclude it.
    """
    found, lengths = {}, {}
    for name, (right, wrong, tol, places) in _entries(case.id, key, dtype).items():
        if name not in got or got[name].size < (max(places) + 1 if places else 0):
            return 0.0
        found[name], lengths[name] = _agreement(got[name].ravel()[places], right, wrong, tol, dtype), right.size
    differ = sum(pair[0] for pair in found.values() if pair)
    agree = sum(pair[1] for pair in found.values() if pair)
    for name in (name for name, pair in found.items() if pair is None):
        if not any(found.get(source) and found[source][1] for source in FOLLOWS.get(name, ())):
            return 0.0
        differ += lengths[name] / 4
    return agree / differ if differ else 0.0


# ---- one case, by pattern

def _given(case, *names):
    found = [np.abs(_flat(case.given[name])) for name in names if name in case.given]
    return np.concatenate(found) if found else np.zeros(0)


@cache
def _conditions(case_id):
    """The flags whose condition the input of a case meets."""
    case, out = _cases().get(case_id), set()
    if case is None:
        return out
    tilts, logits = _given(case, "c", "xi", "xi1", "xi0"), _given(case, "psi", "m", "beta0_mu", "beta1_mu", "beta0", "beta1")
    logits = logits[np.isfinite(logits)]
    if np.any(tilts < 1e-100):
        out.add("ZeroTilt")
    if np.any(tilts > 80):
        out.add("HugeTilt")
    if np.any(logits >= 20) or np.any(_given(case, "log_probs") > 300):
        out |= {"Underflow"} if case.op in ("stick_logits", "update_z", "predict", "log_likelihood") else {"ExtremeLogit"}
    if "gamma" in case.given and np.any(_given(case, "gamma") == 0):
        out |= {"OneHot"} | ({"EmptyExpert"} if np.any(np.all(decode(case.given["gamma"]) == 0, axis=0)) else set())
    if np.any(_given(case, "X", "mu") > 32):
        out.add("LargeOffset")
    if any(decode(value).size == 0 for value in (*case.given.values(), *case.out.values())) or decode(case.given.get("gamma", 0)).shape[-1:] == (1,):
        out.add("SingleExpert")
    out |= set(case.flags) & set(CONDITIONS)
    return out - {"ExtremeLogit"} if "Underflow" in out else out       # the sum underflows, not one sigmoid


def _tilt_of(case, size):
    """The tilt of each entry of the answer, where there is one for each."""
    tilt = _given(case, "c")
    return tilt if tilt.size == size else None


def _not_numbers(case, bad):
    """Where NaN, an infinity or an exception stands: of the tilt if there is one for each entry, otherwise what the input is like."""
    tilt = _tilt_of(case, bad.size)
    if tilt is None or not bad.any():
        return _conditions(case.id) - {"LargeOffset", "SharedTilt"}
    at = tilt[bad]
    return {"ZeroTilt"} if np.all(at < 1e-100) else {"HugeTilt"} if np.all(at > 80) else set()


def _digits(case, got, right, bad, dtype):
    """What a few missing digits say."""
    tilt, error = _tilt_of(case, right.size), np.abs(got[bad] - right[bad])
    if tilt is not None and np.all(tilt[bad] < 8):
        at, b = tilt[bad], (_given(case, "b") if "b" in case.given else np.ones(right.size))[bad]
        if np.all((at <= 1.1) & (error <= 200 * EPS[dtype] * np.maximum(b, 1) * np.maximum(1, 1 / np.maximum(at, 1e-150) ** 2))):
            return {"SmallTilt"}
        return {"CutSeries", "SmallTilt"} if np.all(error <= 1e-3 * np.abs(right[bad])) and np.all(at < 4) else set()
    if tilt is not None and np.all((tilt[bad] >= 8) & (tilt[bad] < 80) & (error <= 16 * tilt[bad] * np.exp(-tilt[bad]) * np.abs(right[bad]))):
        return {"CutSeries"}                                # what the limit of large tilts leaves out
    small = np.all(error <= 1e-3 * np.max(np.abs(right), initial=0))
    return {flag for flag in ("LargeOffset", "ExtremeLogit") if flag in _conditions(case.id)} if small else set()


def _shapes(case, got):
    """What a wrong shape says."""
    out = set()
    for name, value in case.out.items():
        shape = decode(value).shape
        if name in got and got[name].shape != shape:
            if len(shape) > 1 and sorted(shape) == sorted(got[name].shape):
                out.add("ColumnMajor")
            out |= _conditions(case.id) & {"LatentDimension", "SingleExpert"}
    return out


def _patterns(case, got, dtype):
    """The flags that the look of an answer points at; got None: an exception, no answer."""
    if got is None:
        return _not_numbers(case, np.zeros(0, bool))
    out = _shapes(case, got)
    if out:
        return out
    for name, value in case.out.items():
        right = _flat(value)
        if name not in got or got[name].size != right.size:
            return out
        answer, (rtol, atol) = got[name].ravel(), case.tolerance[dtype][name]
        lost = ~np.isfinite(answer) & np.isfinite(right)
        if lost.any():
            return out | _not_numbers(case, lost)
        with np.errstate(invalid="ignore"):
            bad = ~(np.abs(answer - right) <= atol + rtol * np.abs(right)) & (answer != right)
        if not bad.any():
            continue
        if case.level in (0, 6) and np.all(right[bad] < -20) and np.ptp(answer[bad]) == 0 and np.all(answer[bad] > right[bad]):
            return out | {"Underflow" if case.level == 6 else "ExtremeLogit"}      # a logarithm that ends somewhere
        if case.op == "update_experts" and name == "b" and np.any(answer <= 0):
            return out | {"LargeOffset"}
        if np.isfinite(right[bad]).all():
            out = out | _digits(case, answer, right, bad, dtype)
    return out


def name(case, answer, dtype="f64"):
    """What a failing answer is, the best first: pairs (key of wrong/, part of the changed entries that agree), or ("pattern FLAG", 1).

    answer: {output: value as JSON carries it}; None if there was an exception in its place
    """
    try:
        got = None if answer is None else {k: np.asarray(decode(answer[k]), float) for k in case.out if k in answer}
    except (Malformed, RecursionError):
        return []
    found = []
    if got is not None:
        for key in wrong_answers()[1].get(case.id, {}).get("wrong", {}):
            share = _share(case, got, key, dtype)
            if share:
                found.append([key, round(share, 4)])
    found.sort(key=lambda pair: -pair[1])
    return found + [[f"pattern {flag}", 1.0] for flag in sorted(_patterns(case, got, dtype))]


# ---- a run

def _by_value(op, failing, passing, dtype):
    """[(score, key, failing cases that match)] of one operation."""
    failing = [r for r in failing if r["id"] in wrong_answers()[1]]
    keys, out = dict.fromkeys(key for r in failing for key, _ in r.get("named", ()) if not key.startswith("pattern ")), []
    for key in keys:
        shares = [dict(r.get("named", ())).get(key, 0.0) for r in failing]
        against = sum(_told_apart(r["id"], key, dtype) for r in passing)
        # a bug in one branch of a formula leaves entries and whole cases right
        out.append((sum((1 + s) / 2 for s in shares if s) / (len(failing) + against / 4), key, sum(s > 0 for s in shares)))
    return sorted(out, key=lambda item: -item[0])


def _by_pattern(failing, passing, known):
    """[(score, flag, failing cases that agree)]: what explains the failing cases, and is rare among the passing ones."""
    out = []
    for flag in dict.fromkeys(key[8:] for r in failing for key, _ in r.get("named", ()) if key.startswith("pattern ")):
        agree = sum(any(key == f"pattern {flag}" for key, _ in r.get("named", ())) for r in failing)
        usual = sum(flag in _conditions(r["id"]) for r in passing) / max(len(passing), 1)
        bears = sum(flag in r["flags"] for r in failing) / len(failing)
        if flag in known:
            out.append((agree / len(failing) - 0.2 * usual + 0.05 * bears, flag, agree))
    severe = ("ZeroTilt", "HugeTilt", "ExtremeLogit", "OneHot")         # NaN and infinities before missing digits
    for flag in CONDITIONS if passing else ():
        if all(flag in _conditions(r["id"]) for r in failing) and 4 * sum(flag in _conditions(r["id"]) for r in passing) <= len(failing):
            if flag in known and flag not in [f for _, f, _ in out]:
                out.append((0.8, flag, len(failing)))
    return sorted(out, key=lambda item: (-round(item[0], 1), item[1] not in severe))


def _names_of(op, here, flags, dtype):
    """Entries of one operation."""
    failing, passing = [r for r in here if r["verdict"] in FAILING], [r for r in here if r["verdict"] == "passed"]
    bugs, out = wrong_answers()[0].get(op, {}), []
    entry = lambda flag, bug, count, basis: {"op": op, "flag": flag, "failed": count, "asked": len(failing), "bug": bug, "basis": basis}
    seen = set()
    for score, key, count in _by_value(op, failing, passing, dtype):
        flag = bugs[key]["flag"]
        if score >= ENOUGH and flag not in seen:
            seen.add(flag)
            out.append(entry(flag, bugs[key]["bug"], count, "value"))
    patterned = all(any(key.startswith("pattern ") for key, _ in r.get("named", ())) for r in failing)
    for score, flag, count in _by_pattern(failing, passing, flags or catalogue.flags()):
        if not out and (score >= ENOUGH or patterned) or out and score >= ENOUGH and flag not in seen and out[0]["basis"] == "pattern":
            seen.add(flag)
            out.append(entry(flag, flags.get(flag, {}).get("bug", ""), count, "pattern"))
    first = failing[0]["eq"]["label"]
    return out or [entry("", f"unknown, first differing equation is {first}", len(failing), "unknown")]


def likely(results, flags, dtype="f64"):
    """The likeliest bugs of each operation that fails; first the operations that use no other failing one.

    results: of the first failing level, each with "named" as name() says

    -> list of {"op", "flag", "failed", "asked", "bug", "basis"}: by "value" or "pattern" in `failed` of `asked` failing cases, or "unknown",
       without a flag
    """
    here, order = [r for r in results if r["verdict"] in (*FAILING, "passed")], list(catalogue.operations())
    broken = list(dict.fromkeys(r["op"] for r in here if r["verdict"] in FAILING))
    broken.sort(key=lambda op: order.index(op) if op in order else len(order))
    tables = {op: _names_of(op, [r for r in here if r["op"] == op], flags, dtype) for op in broken}
    broken = sorted(broken, key=lambda op: (any(used in tables for used in USES.get(op, ())), tables[op][0]["basis"] == "unknown"))
    return [entry for op in broken for entry in tables[op]]


def words(entry, flags):
    """One entry in words."""
    if entry["basis"] == "unknown":
        return entry["bug"]
    how = "matched by value" if entry["basis"] == "value" else "by what the failures look like"
    more = flags.get(entry["flag"], {}).get("bug", "")
    said = f"{entry['flag']}: {entry['bug'] or more}"
    return f"{said} ({how} in {entry['failed']} of {entry['asked']} failing cases)"


def hints(result):
    """The flags that the answer of one failing case points at, the likeliest first; [] if none does."""
    bugs = wrong_answers()[0].get(result["op"], {})
    out = [bugs[key]["flag"] if key in bugs else key[8:] for key, _ in result.get("named", ())]
    return list(dict.fromkeys(out))


__all__ = ["hints", "likely", "name", "words", "wrong_answers"]
