"""Write the conformance vectors.  From the root of the repository:

    python conformance/oracle/generate.py [group ...] [--check] [--out FOLDER]

Without names every group; ops.json, flags.json and the list of ids always.  --check writes nothing and fails if a file
would change.  An id whose question or answer would change stops everything.  Arithmetic is mpmath's, so every bit is the same on every machine; nothing of cmn_literate is imported.
"""

import argparse
import hashlib
import json
import os
import re
import sys
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import deep
import groups
import outputs
import wrong
from catalogue import OPS, active, flags_json, link, ops_json
from measure import (BITS, DIGITS, each, LOOSEST_F32, SAFETY, WIDER, TRIALS, encode, exact, fits, flat, real, rounding, sensitivity, shape_of, sizes,
                     tolerance, two_digits)
from mpmath import mp, mpf

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "conformance/cmn_conformance"
IDS = ROOT / "conformance/ids.json"
RETIRED = ROOT / "conformance/oracle/retired.json"      # {group: cases that were wrong, with superseded_by}
LICENSE = "MIT"                         # of the vectors and of the kit
PAIRED = {"f64": 1e-9, "f32": 1e-4}     # of the largest entry: how far from its fixed point an iterated pair may stop
MPMATH = "1.4.1"                        # what the stored vectors were made with


def dimensions(tables, values):
    """Sizes by letter, read from the shapes of arrays."""
    sizes = {}
    for name, (shape, _, _) in tables.items():
        found = shape_of(values[name])
        for i, letter in enumerate(shape):
            if letter.isalnum() and letter != "T" and i < len(found):
                sizes.setdefault(letter, found[i])
    if "d" in sizes:
        sizes.setdefault("D", sizes["d"] + 1)
    elif "D" in sizes:                                      # X has no rows, and so xi1 has none
        sizes.update(d=sizes["D"] - 1, L=len(values["beta1_mu"]) + 1 if "beta1_mu" in values else 0)
    return sizes


def sizes_of(op, tables, arguments, outs):
    """dimensions of all that goes in and out; those of an update of one layer of several, from its number."""
    return {"1": 1, **dimensions(tables, {**arguments, **outs}), **(deep.output_sizes(op, arguments) if op in deep.OPS else outputs.sizes(arguments) if op in outputs.OPS else {})}


def resolve(shape, sizes, value):
    """Shape of a value; axes that an empty list cannot show come from the letters of its declaration."""
    found = shape_of(value)
    for letter in shape[len(found):] if 0 in found else ():
        base, sign, more = letter.partition("+") if "+" in letter else letter.partition("-")
        found.append(sizes[base] + int(sign + more or 0))
    return found


def profile_of(op, case, arguments):
    """What the case needs an implementation to have chosen; a choice that makes no difference is left out."""
    profile = dict(case.get("profile", {}))
    if "omega1" not in profile and op not in deep.OPS and ("xi1" in arguments or "xi1" in OPS[op][4]) and op not in (
            "update_omega0", "update_beta0", "update_experts", "update_shared", "kl_beta1", "kl_beta0", "kl_experts", "kl_shared", "update_scales", "kl_scales", "elbo_expert",
            "elbo_latent_entropy", "elbo_gate", "elbo_assignment_entropy"):
        profile["omega1"] = "shared" if len(shape_of(arguments["xi1"])) == 2 else "per-component"
    if {"b0", "V"} & set(arguments) and "nu" not in arguments or op == "gamma_mean_log":
        profile.setdefault("gamma", "rate")
    if op in ("stick_log_probs", "stick_counts", "stick_logits") or {"beta0_mu", "beta0", "xi0"} & set(arguments):
        profile.setdefault("sticks", "K-1")
    keys = ("omega1", "inner", "order", "tilts", "tilt_start", "experts", "prior_mean", "noise", "scales", "expert_mean", "latent_posterior", "coefficients", "layers", "output", "gamma", "sticks")
    return {key: profile[key] for key in keys if key in profile}


def cancelled(value, terms):
    """With 0 for what is left of terms that cancel: below 1e-40 of their sum."""
    left = iter(terms)

    def entry(x):
        size = next(left, 0)
        return x if isinstance(x, int) or not mp.isfinite(x) or abs(x) >= mpf(10) ** -40 * size else mpf(0)
    return each(value, entry)


def build(group, case):
    """The JSON object of one case."""
    op = case["op"]
    level, label, *_ = OPS[op]
    given, wanted = active(op, case.get("profile", {}))
    assert level == group.level, op
    kinds = {name: spec[1] for name, spec in given.items()}
    assert set(case["in"]) == set(given), (case["id"], set(case["in"]) ^ set(given))
    arguments = {name: (exact if kinds[name] == "int" else real)(case["in"][name]) for name in given}
    function = lambda **ins: group.run(op, case, ins)
    with mp.workdps(case.get("digits", DIGITS)):
        bits = 60 if mp.dps >= 30 else 24
        if op.endswith("converge"):
            outs, tol, kappa = group.fixed_point(case, arguments)
        else:
            outs, tol, kappa = function(**arguments), {}, {}
        assert list(outs) == list(wanted), (op, list(outs))
        if op in groups.SHORTCUTS:
            tol, kappa = group.tolerances_of_integral(op, case, arguments, outs)
        elif not tol:
            long = mp.dps < DIGITS
            terms = sizes(function, arguments, outs) if level in (0, 1, 3) and not long else {}      # sums; in the others equations are solved
            outs = {name: cancelled(value, terms.get(name, ())) for name, value in outs.items()}
            changes = sensitivity(function, arguments, outs, case["id"], bits, 3 if long else TRIALS)
            safety = case.get("safety", SAFETY * WIDER.get(op, 1))
            for dtype in BITS:
                errors = rounding(function, arguments, outs, BITS[dtype])
                found = {name: tolerance(flat(outs[name]), changes[name], errors[name], dtype, terms.get(name), safety)
                         for name in outs}
                extra = PAIRED[dtype] if case.get("profile", {}).get("tilts") == "joint" and level in (2, 4) else 0
                tol[dtype] = {name: (r, a + extra * max(map(abs, flat(outs[name])), default=0) if extra else a) for name, (r, a, _) in found.items()}
                if dtype == "f64":
                    kappa = {name: k for name, (_, _, k) in found.items()}
        numbers = [x for v in (*arguments.values(), *outs.values()) for x in flat(v) if not isinstance(x, int)]
        asked = [x for v in arguments.values() for x in flat(v) if not isinstance(x, int)]
        assert fits(asked, "f64"), case["id"]
        f64_only = (case.get("f64_only", False) or not fits(asked, "f32") or any(abs(x) > 1e38 for x in numbers if mp.isfinite(x))
                    or any(r > LOOSEST_F32 for r, _ in tol["f32"].values()))
        letters = sizes_of(op, {**given, **wanted}, arguments, outs)
        profile = profile_of(op, case, arguments)
        if profile.get("omega1") == "shared" and "eq" not in case and op == "update_omega1":
            label = "eq-output-tilt-shared"
        label = case.get("eq", label)
        out = {"id": f"L{level}-{op}-{case['id']}", "op": op, "eq": {"label": label, "link": link(label)}, "note": case["note"]}
        if profile:
            out["profile"] = profile
        out["in"] = {name: encode(value, resolve(given[name][0], letters, value)) for name, value in arguments.items()}
        out["out"] = {name: encode(value, resolve(wanted[name][0], letters, value)) for name, value in outs.items()}
        out["tol"] = {dtype: {name: {"rtol": two_digits(r), "atol": two_digits(a)} for name, (r, a) in table.items()}
                      for dtype, table in tol.items() if not (f64_only and dtype == "f32")}
        out["kappa"] = {name: two_digits(k) for name, k in kappa.items()}
        out["f64_only"] = bool(f64_only)
        out["flags"] = list(case.get("flags", ()))
        return out


def text(tree):
    """JSON with one line for each array and each small object; ValueError for a NaN, which JSON does not have."""
    def one_line(match):
        joined = re.sub(r"\s+", " ", match[0])
        joined = re.sub(r"([\[{]) ", r"\1", re.sub(r" ([\]}])", r"\1", joined))
        return joined if '"data"' in joined or len(joined) < 160 else match[0]
    raw = json.dumps(tree, indent=1, ensure_ascii=False, allow_nan=False)
    raw = re.sub(r"\[[^][{}]*\]", one_line, raw)
    for _ in range(3):
        raw = re.sub(r"\{(?:[^{}]|\{[^{}\n]*\})*\}", one_line, raw)
    return raw + "\n"


def group_file(group):
    retired = json.loads(RETIRED.read_text()).get(group.name, [])
    return {"schema": 1, "group": group.name, "level": group.level,
            "provenance": {"suite": group.suite, "license": LICENSE, "generator": "conformance/oracle/generate.py", "method": group.method,
                           "versions": {"mpmath": MPMATH}, "date": group.date},
            "cases": [build(group, case) for case in group.cases()] + retired}


def fingerprint(case):
    """What must not change under an id: the question, the answer, and the profile it is asked under."""
    content = json.dumps([case["op"], case.get("profile", {}), case["in"], case["out"]], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def write(path, content, check):
    """Whether the file was already so; replaces it in one step unless only checking."""
    same = path.exists() and path.read_text() == content
    if not same and not check:
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_suffix(".part")
        half.write_text(content)
        os.replace(half, path)
    return same


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("group", nargs="*", help=", ".join(groups.GROUPS))
    parser.add_argument("--check", action="store_true", help="write nothing, fail if a file would change")
    parser.add_argument("--wrong-only", action="store_true", help="take the vectors as they are, and write the wrong answers again")
    parser.add_argument("--out", type=Path, default=TARGET, help="folder to write to")
    options = parser.parse_args(arguments)
    unknown = set(options.group) - set(groups.GROUPS)
    if unknown:
        parser.error(f"no group {', '.join(sorted(unknown))}; there are {', '.join(groups.GROUPS)}")
    if version("mpmath") != MPMATH:
        print(f"mpmath {version('mpmath')}, not {MPMATH}: the digits should be the same, and --check tells", file=sys.stderr)
    wanted, trees, changed = options.group or list(groups.GROUPS), {}, []
    for name in wanted:
        stored = options.out / f"vectors/{name}.json"
        trees[name] = json.loads(stored.read_text()) if options.wrong_only else group_file(groups.GROUPS[name])
        print(f"{name}: {len(trees[name]['cases'])} cases", flush=True)
    for name in set(groups.GROUPS) - set(wanted):
        if (stored := options.out / f"vectors/{name}.json").exists():
            trees[name] = json.loads(stored.read_text())
    files = {options.out / f"vectors/{name}.json": trees[name] for name in wanted}
    files |= {options.out / f"wrong/{name}.json": wrong.group_file(groups.GROUPS[name], trees[name]["cases"]) for name in wanted}
    files |= {options.out / "ops.json": ops_json(), options.out / "flags.json": flags_json()}
    if options.out == TARGET:
        ids = {case["id"]: fingerprint(case) for name in groups.GROUPS if name in trees for case in trees[name]["cases"]}
        old = json.loads(IDS.read_text()) if IDS.exists() else {}
        if broken := [i for i in old if ids.get(i) != old[i]]:
            print(f"ids are for ever, but these would vanish or change: {', '.join(broken)}; nothing written", file=sys.stderr)
            return 1
        files[IDS] = ids
    for path, tree in files.items():
        if not write(path, text(tree), options.check):
            changed.append(path.name)
    print(f"{'would change' if options.check else 'changed'}: {', '.join(changed)}" if changed else "nothing changed")
    return 1 if options.check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
