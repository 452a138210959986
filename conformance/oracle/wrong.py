"""Deliberately wrong answers: what the operations answer under each known bug, by the oracle's own loops with one piece exchanged.

A wrong formula is the right one with changed arguments, with pieces of a module replaced, or with its outputs changed afterwards.
generate.py writes conformance/cmn_conformance/wrong/<group>.json: for each case a few entries of each wrong answer, to ten digits.
"""

import math
from contextlib import contextmanager
from typing import NamedTuple

from catalogue import FLAGS
from measure import exact, flat, real
from mpmath import mp, mpf

DIGITS = 20                                                 # inside; ten are stored
ENTRIES, FEW = 8, 3                                         # of an output, at most; where there are many outputs
ROOM = {"updates": (6, FEW), "choices_updates": (6, FEW)}    # in the largest groups, and one more for a wrong answer that these do not show
TROUBLE = (ArithmeticError, ValueError, TypeError, IndexError, KeyError)


class Wrong(NamedTuple):
    """One wrong formula of one operation."""
    flag: str
    bug: str                                                # in words, as the report prints it
    answer: object                                          # right function, arguments -> outputs


@contextmanager
def pieces(module, **new):
    """The module with other functions under these names."""
    old = {name: getattr(module, name) for name in new}
    for name, function in new.items():
        setattr(module, name, function)
    try:
        yield
    finally:
        for name, function in old.items():
            setattr(module, name, function)


def given(**changes):
    """Changed arguments: name=function of all arguments."""
    return lambda right, **q: right(**{**q, **{name: change(q) for name, change in changes.items()}})


def then(change):
    """Changed outputs: change(outs, arguments) -> the outputs that differ."""
    def answer(right, **q):
        outs = right(**q)
        return {**outs, **change(outs, q)}
    return answer


def using(module, **new):
    """Exchanged pieces."""
    def answer(right, **q):
        with pieces(module, **new):
            return right(**q)
    return answer


def formula(function, name):
    """Another formula for the only output, entry by entry over the arguments."""
    return lambda right, **q: {name: [function(*entries) for entries in zip(*q.values(), strict=True)]}


# ---- changes of values

def deep(function):
    def change(value):
        return [change(v) for v in value] if isinstance(value, list) else function(value)
    return change


negative = deep(lambda v: -v)
reciprocal = deep(lambda v: 1 / v)
squared = deep(lambda v: v * v)
zero = deep(lambda v: mpf(0))
one = deep(lambda v: mpf(1))


def each_matrix(function):
    def change(value):
        return function(value) if not isinstance(value[0][0], list) else [change(v) for v in value]
    return change


def transposed(A):
    return [list(row) for row in zip(*A, strict=True)]


def column_major(value):
    """An array whose numbers were read column by column."""
    shape, v = [], value
    while isinstance(v, list):
        shape.append(len(v))
        v = v[0] if v else None
    numbers, strides = flat(value), [1]
    if 0 in shape:
        return value
    for size in shape[:-1]:
        strides.append(strides[-1] * size)

    def build(axis, place):
        return numbers[place] if axis == len(shape) else [build(axis + 1, place + i * strides[axis]) for i in range(shape[axis])]
    return build(0, 0)


def backwards(axis):
    """An array with one axis reversed."""
    def change(value):
        return value[::-1] if axis == 0 else [backwards(axis - 1)(v) for v in value]
    return change


def shifted(axis, by=1):
    def change(value):
        return [*value[-by:], *value[:-by]] if axis == 0 else [shifted(axis - 1, by)(v) for v in value]
    return change


# ---- from a case to what is stored

def entries(values, table, most):
    """Places of a few entries that tell the wrong answers apart: where each differs most, then evenly."""
    if len(values) <= most:
        return list(range(len(values)))
    chosen = []
    for wrong in table:
        moved = [abs(w - v) / (abs(v) + mpf(10) ** -6) if mp.isfinite(w) and mp.isfinite(v) else mpf(0) for w, v in zip(wrong, values, strict=True)]
        place = max(range(len(moved)), key=moved.__getitem__)
        if place not in chosen and len(chosen) < most // 2:
            chosen.append(place)
    for i in range(most):
        place = i * len(values) // most
        if place not in chosen and len(chosen) < most:
            chosen.append(place)
    return sorted(chosen)


def shown(places, right, moved, tolerance):
    """The places, and of a wrong answer that differs at none of them the one where it differs most."""
    def off(name, values, i):
        return abs(values[i] - right[name][i]) / (tolerance[name]["atol"] + tolerance[name]["rtol"] * abs(right[name][i]) + mpf(10) ** -300)
    if not any(off(name, values, i) > 8 for name, values in moved.items() for i in places[name]):
        name, i = max(((name, i) for name, values in moved.items() for i in range(len(values))), key=lambda at: off(at[0], moved[at[0]], at[1]))
        return {**places, name: sorted([*places[name], i])}
    return places


def differs(wrong, right, tolerance):
    """Whether a wrong answer would fail."""
    for w, r in zip(wrong, right, strict=True):
        if mp.isnan(w) or mp.isinf(w) != mp.isinf(r):
            return False                                    # nothing to compare by value
        if mp.isfinite(r) and abs(w - r) > 8 * (tolerance["atol"] + (tolerance["rtol"] + 1e-9) * abs(r)):
            return True
    return False


def ten_digits(x):
    value = float(mp.nstr(x, 10)) + 0.0
    return value if math.isfinite(value) else "inf" if value > 0 else "-inf"


def right_function(op):
    """The operation, as a wrong formula may call it; an integral by a coarse rule, which has digits enough."""
    from groups import OPS
    more = {"coarse": True} if op in ("predict", "log_likelihood", "forecast", "out_density", "out_given_latent") else {}
    return lambda **q: OPS[op](**q, **more)


def wrong_answers(group, case, built, table, most=(ENTRIES, FEW)):
    """What is stored for one case: {"at": {output: places}, "wrong": {key: {output: entries there}}}."""
    op, found, profile = case["op"], {}, case.get("profile", {})
    right = {name: [mpf(v) if not isinstance(v, str) else mpf(v) for v in numbers(value)] for name, value in built["out"].items()}
    arguments = {name: exact(value) if name in ("y", "n_sweeps", "rank", "s") else real(value) for name, value in case["in"].items()}
    options = {key: profile[key] for key in case.get("options", ())}
    for key, bug in table.items():
        try:
            with mp.workdps(DIGITS):
                outs = group.apply(lambda bug=bug, **q: bug.answer(right_function(op), **q), profile, arguments, options)
                outs = {name: [mpf(v) for v in flat(value)] for name, value in outs.items()}
        except TROUBLE:
            continue
        if any(len(outs[name]) != len(right[name]) or any(mp.isnan(v) for v in outs[name]) for name in right):
            continue
        moved = {name: outs[name] for name in right if differs(outs[name], right[name], built["tol"]["f64"][name])}
        if moved:
            found[key] = moved
    most = most[len(right) >= 6]
    places = {name: entries(right[name], [w[name] for w in found.values() if name in w], most) for name in right if right[name]}
    if group.name in ROOM:
        for moved in found.values():
            places = shown(places, right, moved, built["tol"]["f64"])
    stored = {key: {name: [ten_digits(values[i]) for i in places[name]] for name, values in moved.items()} for key, moved in found.items()}
    return {"at": {name: at for name, at in places.items() if len(at) < len(right[name])}, "wrong": stored}


def numbers(value):
    return value["data"] if isinstance(value, dict) else [value]


def keyed(bugs):
    """{key: wrong formula}: the flag, and a number from the second of the same flag on."""
    out = {}
    for flag, words, answer in bugs:
        n = sum(bug.flag == flag for bug in out.values()) + 1
        out[flag if n == 1 else f"{flag}-{n}"] = Wrong(flag, words, answer)
    return out


def group_file(group, built):
    """The content of wrong/<group>.json; built: the group's cases of the vectors."""
    from wrong_bound import BUGS as LAST
    from wrong_level0 import BUGS as FIRST
    from wrong_level1 import BUGS as SECOND
    from wrong_msteps import BUGS as FOURTH
    from wrong_deep import MINE as DEEPER
    from wrong_deep import OTHERS as DEEP
    from wrong_outputs import MINE as OTHER
    from wrong_outputs import OTHERS as OUTPUTS
    from wrong_lean import MINE
    from wrong_lean import OTHERS as LEAN
    from wrong_scales import MINE as SCALED
    from wrong_scales import OTHERS as SCALES
    from wrong_shared import joined
    from wrong_updates import BUGS as THIRD
    from wrong_updates import CONVENTIONS
    choices = CONVENTIONS if group.level in (2, 3, 4, 5) else []
    tables = {op: keyed([bug for bug in [*bugs, *choices, *SCALES.get(op, ())] if bug[0] in FLAGS])
              for op, bugs in joined((FIRST, SECOND, THIRD, FOURTH, LAST), LEAN, DEEP, OUTPUTS, dict.fromkeys(SCALES, ())).items()}
    named, kind = {"lean": MINE, "deep": DEEPER, "out": OTHER, "scales": SCALED}, group.name.split("_")[0]
    lean, own = kind in named, named.get(kind, ())
    cases, used, built = {}, {}, {case["id"]: case for case in built}
    for case in group.cases() if not group.name.startswith("large_") else ():      # bugs of sizes have no value of their own
        op = case["op"]
        if case["in"].get("n_sweeps", 1) > 1 and op != "forecast":
            continue                                        # the first sweep has the name
        target = built[f"L{group.level}-{op}-{case['id']}"]
        bugs = tables.get(op, {})
        if lean:                                            # of the plain model's bugs those that the case is there for
            bugs = {key: bug for key, bug in bugs.items() if bug.flag in (*(own if group.level < 4 and kind != "scales" else ()), *case["flags"])}
        stored = wrong_answers(group, case, target, bugs, ((2, 1) if kind == "scales" else (FEW, 2)) if lean else ROOM.get(group.name, (ENTRIES, FEW)))
        if stored["wrong"]:
            cases[target["id"]] = {name: part for name, part in stored.items() if part}
            used.setdefault(op, set()).update(stored["wrong"])
    bugs = {op: {key: {"flag": bug.flag, "bug": bug.bug} for key, bug in table.items() if key in used[op]}
            for op, table in tables.items() if op in used}
    return {"schema": 1, "group": group.name, "bugs": bugs, "cases": cases}
