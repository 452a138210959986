"""The cases of the suite, read from the JSON files beside this one."""

import json
from functools import lru_cache
from importlib import resources
from typing import NamedTuple

DTYPES = ("f64", "f32")


class Case(NamedTuple):
    """One question with its answer; conformance/FORMAT.md of the repository describes the fields."""
    id: str
    op: str
    level: int
    eq: dict
    note: str
    profile: dict
    given: dict
    out: dict
    tolerance: dict
    flags: tuple
    f64_only: bool
    superseded_by: str
    group: str
    kappa: dict


def here():
    return resources.files("cmn_conformance")


def read(*parts):
    """A JSON file of the suite."""
    return json.loads(here().joinpath(*parts).read_text(encoding="utf-8"))


@lru_cache(maxsize=1)
def operations():
    """{name: definition} of ops.json."""
    return {op["name"]: op for op in read("ops.json")["ops"]}


@lru_cache(maxsize=1)
def read_profile():
    """{key: {"values", "default", "meaning", ...}} of ops.json."""
    return read("ops.json")["profile"]


@lru_cache(maxsize=1)
def default_profile():
    """{key: value} of an adapter that declares nothing."""
    return {key: entry["default"] for key, entry in read_profile().items()}


def norm_axes(op, output):
    """Over how many of its last axes an output is compared by its norm: 2 for a matrix, 1 for a mean, 0 entry by entry."""
    dims = operations()[op]["out"].get(output, {"shape": []})["shape"]
    square, name = len(dims) > 1 and dims[-1] == dims[-2], output.rstrip("123")      # a layer's number
    return 2 if square or name == "M" else 1 if name == "mu" or name.endswith("_mu") else 0


def foreign_choices(profile):
    """What a declared profile holds that ops.json does not know, in words."""
    known = read_profile()

    def allowed(key, value):
        entry = known.get(key, {"values": []})
        if "minimum" in entry:
            return isinstance(value, int) and not isinstance(value, bool) and value >= entry["minimum"]
        return value in entry["values"]
    return [f"{key} = {value!r}" for key, values in profile.items() for value in (values if isinstance(values, list) else [values])
            if not allowed(key, value)]


def implied(op):
    """{key: default} of the algorithms that an operation reads: what a case says that does not name them."""
    entries = read_profile()
    return {key: entries[key]["default"] for key in operations()[op]["reads"] if not entries[key].get("converted")}


def optional_suite(choices):
    """The name of the optional suite to which a case of these choices belongs, or ""."""
    return next((entry["optional"][choices[key]] for key, entry in read_profile().items() if choices.get(key) in entry.get("optional", {})), "")


@lru_cache(maxsize=1)
def flags():
    """{flag: {"bug", "eq"}} of flags.json."""
    return read("flags.json")["flags"]


@lru_cache(maxsize=1)
def groups():
    """The vector files, in order of level and name."""
    names = sorted(item.name for item in here().joinpath("vectors").iterdir() if item.name.endswith(".json"))
    return sorted((read("vectors", name) for name in names), key=lambda group: (group["level"], group["group"]))


@lru_cache(maxsize=1)
def suite_info():
    """Version of the suite: the newest of its groups; number of cases."""
    versions = [group["provenance"]["suite"] for group in groups()]
    return {"version": max(versions, key=lambda v: [int(part) for part in v.split(".")]), "schema": groups()[0]["schema"],
            "cases": sum(len(group["cases"]) for group in groups())}


def _floats(value, kind):
    """Inputs that are no integers, with a point: 2 -> 2.0."""
    if kind == "int":
        return value
    if isinstance(value, dict):
        return {"shape": value["shape"], "data": [_floats(item, kind) for item in value["data"]]}
    return float(value) if isinstance(value, int) else value


@lru_cache(maxsize=1)
def cases():
    """Every case, in the order of the files."""
    out = []
    for group in groups():
        for c in group["cases"]:
            kinds = operations()[c["op"]]["in"]
            given = {name: _floats(value, kinds[name]["kind"]) for name, value in c["in"].items()}
            tolerance = {dtype: {name: (t["rtol"], t["atol"]) for name, t in table.items()} for dtype, table in c["tol"].items()}
            out.append(Case(c["id"], c["op"], group["level"], c["eq"], c["note"], {**implied(c["op"]), **c.get("profile", {})}, given, c["out"], tolerance,
                            tuple(c["flags"]), c["f64_only"], c.get("superseded_by", ""), group["group"], c["kappa"]))
    return tuple(out)


def parse_levels(text):
    """"2" or "0-4" or "0,2-3" -> set of levels; ValueError."""
    out = set()
    for part in text.split(","):
        first, dash, last = part.strip().removeprefix("L").partition("-")
        last = last.removeprefix("L") if dash else first
        if not (first.isdigit() and last.isdigit() and int(first) <= int(last) <= 6):
            raise ValueError(f"level: expected levels 0 to 6, as in 2 or 0-4, got {text!r}")
        out.update(range(int(first), int(last) + 1))
    return out


def select(levels=None, ops=None, ids=None, flag=None, superseded=False):
    """Cases by level, operation, id (a part of it is enough) and flag; superseded ones only on request."""
    return [c for c in cases() if (superseded or not c.superseded_by) and (not levels or c.level in levels)
            and (not ops or c.op in ops) and (not ids or any(i in c.id for i in ids)) and (not flag or flag in c.flags)]
