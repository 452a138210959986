"""The conformance vectors: well formed, linked to the book, the same when computed again, and passed by the package."""

import ast
import inspect
import itertools
import json
import math
import subprocess
import sys
import tomllib
from collections import Counter

import cmn_conformance
import jsonschema
import numpy as np
import pages
import pytest
from cmn_conformance.serve import load
from tangle import ROOT, read_chapters

HERE = ROOT / "conformance/cmn_conformance"
ORACLE = ROOT / "conformance/oracle"
FILES = sorted((HERE / "vectors").glob("*.json"))
GROUPS = {file.stem: json.loads(file.read_text()) for file in FILES}
CASES = [case for group in GROUPS.values() for case in group["cases"]]
BY_ID = {case["id"]: case for case in CASES}
CATALOGUE = json.loads((HERE / "ops.json").read_text())
OPS = {op["name"]: op for op in CATALOGUE["ops"]}
FLAGS = json.loads((HERE / "flags.json").read_text())["flags"]
sys.path.insert(0, str(ORACLE))
import choice_cases
import choices
import generate
import groups
import network
import scale_cases
import shared_cases
import states


def array(value, kind="float"):
    dtype = np.int64 if kind == "int" else float
    if isinstance(value, dict):
        return np.array([dtype(v) for v in value["data"]], dtype).reshape(value["shape"])
    return dtype(value)


def inputs(case):
    return {name: array(value, OPS[case["op"]]["in"][name]["kind"]) for name, value in case["in"].items()}


# ---- form

def thinned(value):
    """The document with one float of each list: the schemas have bounds for integers and for what is no list, and a float is a number to all."""
    if isinstance(value, dict):
        return {name: thinned(part) for name, part in value.items()}
    if not isinstance(value, list):
        return value
    floats = [v for v in value if type(v) is float]
    return [thinned(v) for v in value if type(v) is not float] + floats[:1]


@pytest.mark.parametrize("name, schema", [*((f"vectors/{f.name}", "vectors") for f in FILES), *((f"wrong/{f.name}", "wrong") for f in FILES), ("ops.json", "ops"),
                                          ("flags.json", "flags")])
def test_file_follows_its_schema(name, schema):
    validator = jsonschema.Draft202012Validator(json.loads((HERE / f"schema/{schema}.schema.json").read_text()))
    validator.check_schema(validator.schema)
    document = json.loads((HERE / name).read_text())
    assert [f"{e.json_path}: {e.message}" for e in validator.iter_errors(thinned(document))] == []


def test_schema_refuses_what_it_does_not_know():
    schema = jsonschema.Draft202012Validator(json.loads((HERE / "schema/vectors.schema.json").read_text()))
    good = json.loads((HERE / "vectors/sticks.json").read_text())
    for spoil in (lambda c: c.update(extra=1), lambda c: c["tol"].pop("f32"), lambda c: c.pop("note"), lambda c: c["eq"].update(page=1),
                  lambda c: c.update(f64_only=True), lambda c: c.update(profile={"colour": "red"}), lambda c: c["in"]["psi"].update(data=["NaN"])):
        bad = json.loads(json.dumps(good))
        assert schema.is_valid(bad)
        spoil(bad["cases"][0])
        assert not schema.is_valid(bad)


def test_schema_of_wrong_answers_refuses_what_it_does_not_know():
    schema = jsonschema.Draft202012Validator(json.loads((HERE / "schema/wrong.schema.json").read_text()))
    good = json.loads((HERE / "wrong/sticks.json").read_text())
    case, key = next((case, key) for case, entry in good["cases"].items() for key in entry["wrong"])
    output = next(iter(good["cases"][case]["wrong"][key]))
    for spoil in (lambda t: t.update(level=0), lambda t: t["cases"][case].update(right={}), lambda t: t["cases"][case]["wrong"].update({"half angle": {"x": [1.0]}}),
                  lambda t: t["cases"][case]["wrong"][key].update({output: ["nan"]}), lambda t: t["cases"][case]["wrong"][key].clear(),
                  lambda t: t["cases"][case].update(at={output: [-1]}), lambda t: t["bugs"]["stick_counts"].clear(),
                  lambda t: t["cases"].update({"L9-x-y": {"wrong": {key: {output: [1.0]}}}})):
        bad = json.loads(json.dumps(good))
        assert schema.is_valid(bad)
        spoil(bad)
        assert not schema.is_valid(bad)


def test_ids_are_unique_and_for_ever():
    assert [i for i, n in Counter(c["id"] for c in CASES).items() if n > 1] == []
    listed = json.loads((ROOT / "conformance/ids.json").read_text())
    assert {c["id"]: generate.fingerprint(c) for c in CASES} == listed
    for case in CASES:
        assert case["id"].startswith(f"L{OPS[case['op']]['level']}-{case['op']}-")
        assert case.get("superseded_by", case["id"]) in BY_ID


@pytest.mark.parametrize("name", GROUPS)
def test_cases_are_what_their_operation_says(name):
    for case in GROUPS[name]["cases"]:
        op, sizes = OPS[case["op"]], {}
        assert op["level"] == GROUPS[name]["level"]
        for table, values in ((there(op["in"], case), case["in"]), (there(op["out"], case), case["out"])):
            assert list(table) == list(values), case["id"]
            for argument, spec in table.items():
                check_shape(case, argument, spec, values[argument], sizes)
        for tolerances in case["tol"].values():
            assert list(tolerances) == list(case["out"]) and set(case["kappa"]) == set(case["out"]), case["id"]
        assert set(case["flags"]) <= set(FLAGS) and case["flags"], case["id"]
        for key, value in case.get("profile", {}).items():
            assert value in CATALOGUE["profile"][key]["values"]


def chosen(case):
    """The profile of a case with what it leaves to the default."""
    return {**{key: entry["default"] for key, entry in CATALOGUE["profile"].items()}, **case.get("profile", {})}


def there(table, case):
    """The arguments that exist under the profile of a case."""
    return {name: spec for name, spec in table.items() if all(chosen(case)[key] in np.atleast_1d(value) for key, value in spec.get("when", {}).items())}


def check_shape(case, argument, spec, value, sizes):
    """The shape is the declared one, with the same letter the same size everywhere in the case."""
    if not spec["shape"]:
        return np.testing.assert_equal(isinstance(value, dict), False)
    shape, profile = list(value["shape"]), case.get("profile", {})
    assert len(value["data"]) == math.prod(shape), case["id"]
    letters = spec["shape"]
    if argument == "xi1" and profile.get("omega1") == "shared" or argument == "xi1" and len(shape) == 2:
        letters = ["N", "L-1"]
    assert len(letters) == len(shape), (case["id"], argument)
    for letter, size in zip(letters, shape):
        if case.get("profile", {}).get("sticks") == "K":
            letter = {"J": "J+1", "K-1": "K"}.get(letter, letter)
        base, _, more = letter.partition("-" if "-" in letter else "+")
        size += int(more or 0) * (1 if "-" in letter else -1)
        assert sizes.setdefault("d" if base == "D" else base, size - (base == "D")) == size - (base == "D"), (case["id"], argument, letter)


def test_labels_and_links_lead_into_the_book():
    where = {label: path for label, path in pages.equations(read_chapters(ROOT))}
    named = [c["eq"] for c in CASES] + [op["eq"] for op in OPS.values()] + [flag["eq"] for flag in FLAGS.values()]
    for eq in named:
        chapter = where[eq["label"]].removesuffix(".ipynb")
        assert eq["link"] == f"{chapter}.html#equation-{eq['label']}"


def test_every_flag_and_every_operation_has_cases():
    used = Counter(flag for case in CASES for flag in case["flags"])
    assert set(used) == set(FLAGS) and len(FLAGS) >= 10
    assert set(OPS) == {case["op"] for case in CASES}


def test_files_bear_the_licence_and_no_newer_version_than_the_kit():
    project = tomllib.loads((ROOT / "conformance/pyproject.toml").read_text())["project"]
    assert project["dependencies"] == ["numpy>=1.22"] and project["dynamic"] == ["version"]
    assert {group["provenance"]["license"] for group in GROUPS.values()} == {project["license"]}
    assert (ROOT / "conformance/LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    version = lambda text: [int(part) for part in text.split(".")]
    assert version(cmn_conformance.__version__) >= max(version(group["provenance"]["suite"]) for group in GROUPS.values())


def test_suite_is_as_large_as_promised():
    assert len(CASES) >= 150 and {c["id"][:2] for c in CASES} == {f"L{i}" for i in range(7)}
    size = lambda files: sum(file.stat().st_size for file in files)
    extra = {suite: {file for file in FILES if file.stem.startswith(suite)} for suite in ("shared_", "lean_", "deep_", "out_", "scales_")}     # an optional suite has room of its own
    assert size(set(FILES).difference(*extra.values())) < 2.9e6 and all(size(files) < 0.5e6 for files in extra.values())


# ---- what the cases cover

def has(test, op="update_"):
    return any(test({k: array(v) for k, v in c["in"].items()}) for c in CASES if c["op"].startswith(op) and "no_rows" not in c["id"])


def test_corners_are_covered():
    assert has(lambda q: len(q["M"]) == 1) and has(lambda q: len(q["beta1_mu"]) == 1) and has(lambda q: q["M"].shape[1] == 1)
    assert has(lambda q: q["M"].shape[1] < len(q["beta1_mu"])) and has(lambda q: q["M"].shape[1] > len(q["beta1_mu"]))
    for op in ("update_x", "update_z", "update_beta1", "update_beta0", "elbo"):
        assert has(lambda q: np.all(q["xi1"] == 0) and np.all(q["xi0"] == 0), op)
    for op in ("update_x", "update_z", "elbo"):
        assert has(lambda q: np.all(q["xi1"] == 1500), op)
    for op in ("update_beta1", "update_beta0", "update_experts", "elbo"):
        assert has(lambda q: np.any(q["gamma"].sum(0) == 0), op)                    # an empty expert
    for op in ("update_beta1", "update_beta0", "update_experts"):
        assert has(lambda q: np.all(np.isin(q["gamma"], [0, 1])) and q["gamma"].shape[1] > 1, op)
        assert has(lambda q: np.ptp(q["gamma"]) == 0 and q["gamma"].shape[1] > 1, op)
    assert has(lambda q: np.all(q["y"] == 0) and len(q["beta1_mu"]) > 1, "update_beta1")  # inactive sticks
    assert has(lambda q: np.any(np.abs(q["psi"]) == 1000), "stick_log_probs")
    assert has(lambda q: q["mu"].min() > 500, "update_experts")
    for op in ("update_x", "update_omega1", "update_z", "update_beta1", "elbo", "sweeps", "converge"):
        assert {c["profile"]["omega1"] for c in CASES if c["op"] == op} == {"shared", "per-component"}
    assert {c["in"]["n_sweeps"] for c in CASES if c["op"] == "sweeps"} == {1, 2, 5}


def test_canary_is_not_symmetric():
    q = inputs(BY_ID["L2-update_x-all_sizes_different"])
    K, h, D = q["M"].shape
    axes = (len(q["X"]), K, K - 1, h, h + 1, len(q["beta1_mu"]), D)
    assert len(set(axes)) == len(axes)
    for case in CASES:                                          # covariances are symmetric, and what could be transposed is not
        for name, value in inputs(case).items():
            if np.ndim(value) >= 2 and value.shape[-1] == value.shape[-2] > 1:
                symmetric = np.array_equal(value, np.swapaxes(value, -1, -2))
                if name in ("S", "U", "U0") or name.rstrip("123") in ("V", "Sigma") or name.endswith("_S"):
                    assert symmetric, case["id"]
                elif name.rstrip("123") in ("X", "M", "psi", "log_probs", "A"):
                    assert not symmetric or not value.any(), case["id"]


def test_responsibilities_add_up_and_covariances_are_positive():
    for case in CASES:
        for name, value in inputs(case).items():
            if name in ("gamma", "gamma1", "gamma2", "gamma3"):
                assert np.all(value >= 0) and np.array_equal(value.sum(-1), np.ones(len(value))), case["id"]
            if (name in ("U", "U0") or name.rstrip("123") in ("Sigma", "V") or name.endswith("_S")) and value.size and case["op"] != "predict":
                assert np.all(value.trace(axis1=-2, axis2=-1) == 0) or np.linalg.eigvalsh(value).min() > 0, case["id"]


def test_float32_trap_has_teeth():
    """The difference of two large sums fails in float32 where residuals pass."""
    case = BY_ID["L2-update_experts-offset_float32"]
    q = {k: np.asarray(v, np.float32) for k, v in inputs(case).items() if k != "y"}
    Xt = np.concatenate([q["X"], np.ones((len(q["X"]), 1), np.float32)], 1)
    P = np.einsum("nk,nd,ne->kde", q["gamma"], Xt, Xt) + np.eye(3, dtype=np.float32) / q["v0"]
    M = np.einsum("nk,nki,nd->kid", q["gamma"], q["mu"], Xt) @ np.linalg.inv(P)
    r = q["mu"] - np.einsum("kid,nd->nki", M, Xt)
    spread = np.einsum("nkii->nki", q["Sigma"])
    residuals = q["b0"] + (np.einsum("nk,nki->ki", q["gamma"], r**2 + spread) + (M**2).sum(-1) / q["v0"]) / 2
    difference = q["b0"] + (np.einsum("nk,nki->ki", q["gamma"], q["mu"]**2 + spread) - np.einsum("kid,kde,kie->ki", M, P, M)) / 2
    want, tol = array(case["out"]["b"]), case["tol"]["f32"]["b"]
    error = lambda b: np.max(np.abs(b - want) / (tol["atol"] + tol["rtol"] * np.abs(want)))
    assert M.dtype == np.float32 and error(residuals) < 1 < error(difference)


# ---- where they come from

def imports(file):
    tree = ast.parse(file.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (a.name.split(".")[0] for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").split(".")[0]


def test_oracle_shares_no_code_with_the_package():
    modules = {file.stem for file in ORACLE.glob("*.py")}
    for file in ORACLE.glob("*.py"):
        assert set(imports(file)) <= modules | {"mpmath"} | set(sys.stdlib_module_names), file.name
    for file in (ROOT / "cmn_literate").rglob("*.py"):
        assert not {"oracle", "generate", "groups", "mpmath"} & set(imports(file)), file.name


def again(*names):
    command = [sys.executable, str(ORACLE / "generate.py"), *names, "--check"]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def test_quick_groups_regenerate_bit_for_bit():
    done = again("sticks", "polya_gamma", "expectations")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_all_groups_regenerate_bit_for_bit():
    done = again()
    assert done.returncode == 0, done.stdout + done.stderr


def test_catalogue_regenerates():
    assert generate.text(generate.ops_json()) == (HERE / "ops.json").read_text()
    assert generate.text(generate.flags_json()) == (HERE / "flags.json").read_text()


def test_groups_are_those_of_the_generator():
    assert set(groups.GROUPS) == set(GROUPS)
    for name, group in groups.GROUPS.items():
        assert (GROUPS[name]["level"], GROUPS[name]["provenance"]["date"]) == (group.level, group.date)


def test_check_sees_a_changed_digit(tmp_path):
    options = ["sticks", "--out", str(tmp_path)]
    assert generate.main(options) == 0
    file = tmp_path / "vectors/sticks.json"
    assert file.read_text() == (HERE / "vectors/sticks.json").read_text()
    assert generate.main([*options, "--check"]) == 0
    file.write_text(file.read_text().replace("0.5", "0.25", 1))
    assert generate.main([*options, "--check"]) == 1
    assert not list(tmp_path.rglob("*.part"))


def test_oracle_updates_raise_its_own_bound():
    """The oracle is checked by a property that no formula of it contains: an update never lowers the bound, a wrong one does."""
    from mpmath import mp
    from measure import exact, real
    with mp.workdps(30):
        for s in (states.SMALL, states.SHARED):
            s = {k: (exact if k == "y" else real)(v) for k, v in s.items()}
            before = network.elbo(s)
            for name in network.order_of("canonical", 1):
                s = {**s, **network.UPDATES[name](s)}
                after = network.elbo(s)
                assert after > before
                for other in network.UPDATES[name](s):          # and a step to either side of the best lowers it
                    if other in ("mu", "beta1_mu", "beta0_mu", "M", "b", "a"):
                        for factor in (mp.mpf("1.001"), mp.mpf("0.999")):
                            assert network.elbo({**s, other: scaled(s[other], factor)}) < after
                before = after


CHOICES = [{"expert_mean": "shared"}, {"expert_mean": "shared", "prior_mean": "centred", "tilts": "fresh"}, {"prior_mean": "centred"}, {"prior_mean": "given"}, {"tilts": "fresh"}, {"noise": "wishart"},
           {"noise": "wishart", "prior_mean": "centred", "tilts": "fresh"}, {"scales": "learned"}, {"scales": "learned", "expert_mean": "shared", "prior_mean": "centred", "tilts": "fresh"}]


@pytest.mark.parametrize("choices", CHOICES, ids=lambda c: "-".join(map(str, c.values())))
def test_oracle_updates_raise_the_bound_of_other_choices(choices):
    from mpmath import mp
    with mp.workdps(25):
        s = start(choices)
        before = network.elbo(s)
        for name in network.steps(s, "canonical", 1):
            s = {**s, **network.UPDATES[name](s)}
            after = network.elbo(s)
            assert after >= before - mp.mpf(10) ** -18
            for other in network.UPDATES[name](s):
                if other in ("beta1_mu", "beta0_mu", "M", "U", "nu", "A0_mu", "A0_var", "lam_mean", "lam_shape") and not choices.get("tilts"):
                    for factor in (mp.mpf("1.001"), mp.mpf("0.999")):
                        assert network.elbo({**s, other: scaled(s[other], factor)}) < after
            before = after


def start(choices, base=states.SMALL):
    """A state of the oracle under other choices than the default."""
    from measure import exact, real
    s = choice_cases.wishart(base, "test") if choices.get("noise") == "wishart" else base
    s = choice_cases.means(s, "test") if choices.get("prior_mean") == "given" else s
    s = shared_cases.with_mean(s, "test") if choices.get("expert_mean") == "shared" else s
    s = scale_cases.learned(s, "test") if choices.get("scales") == "learned" else s
    return {**{k: (exact if k == "y" else real)(v) for k, v in s.items()}, **{k: v for k, v in choices.items() if k not in ("noise", "expert_mean", "scales")}}


def test_bound_rises_from_given_to_fresh_to_joint():
    """After the M-step: fresh tilts are the best for their moments, and a joint update is better than one at fresh tilts."""
    from mpmath import mp
    with mp.workprec(60):
        s = start({}, choice_cases.PAIR)
        bounds = []
        for tilts in ("fresh", "joint"):
            for name in ("beta1", "beta0"):
                new = {**s, **network.UPDATES[name]({**s, "tilts": tilts})}
                bounds.append([network.elbo({**new, "tilts": "given"}), network.elbo({**new, "tilts": "fresh"})])
        assert all(stale < fresh for stale, fresh in bounds)
        assert bounds[2][1] > bounds[0][1] and bounds[3][1] > bounds[1][1]


def test_wishart_in_one_dimension_is_gamma():
    from mpmath import mp
    with mp.workdps(25):
        s = start({}, states.BINARY)
        full = {name: value for name, value in s.items() if name not in ("a", "b", "a0", "b0")}
        full |= {"nu": [2 * a for a in s["a"]], "U": [[[2 * row[0]]] for row in s["b"]], "nu0": 2 * s["a0"], "U0": [[2 * s["b0"]]]}
        plain, full = network.sweeps(2, **s), network.sweeps(2, **full)
        assert max(abs(x - y) for x, y in zip(plain["elbo"], full["elbo"])) < 1e-20
        assert max(abs(2 * row[0] - U[0][0]) for row, U in zip(plain["b"], full["U"])) < 1e-20


def test_operations_read_what_they_are_said_to_read():
    """An argument outside of DEPENDS moves nothing; and the keys of the profile follow from those arguments."""
    from mpmath import mp
    with mp.workprec(53):
        for (op, names), s in itertools.product(choices.DEPENDS.items(), (start({}, states.SMALL), start({"expert_mean": "shared"}, states.SMALL), start({"expert_mean": "shared", "scales": "learned"}, states.SMALL))):
            if op in choices.A_SWEEP or op == "elbo" or op.endswith("_shared") and "v00" not in s or op.endswith("_scales") and "strength" not in s:
                continue
            before = network.OPS[op](**s)
            for name in set(s) - set(names) - {"y", "beta1_mu", "beta0_mu"}:
                assert network.OPS[op](**{**s, name: scaled(s[name], mp.mpf("1.25"))}) == before, (op, name)
    assert OPS["update_beta0"]["reads"] == ["gaussian", "bias", "layout", "sticks", "tilts", "prior_mean", "scales", "coefficients"]
    algorithms = {key for key, entry in CATALOGUE["profile"].items() if not entry.get("converted")}
    for case in CASES:
        named = case.get("profile", {})
        rounds = {"inner"} if case["op"] == "converge" and named.get("tilt_start") == "restarted" else set()      # there they move the fixed point
        assert algorithms & set(named) <= set(OPS[case["op"]]["reads"]) | rounds and rounds <= set(named), case["id"]
    for key in algorithms:
        entry, read = CATALOGUE["profile"][key], [c for c in CASES if key in OPS[c["op"]]["reads"]]
        own = {entry["default"]} if all(chosen(c)[key] in entry.get("optional", {}) for c in read) else set()       # who chooses that has none of the operations
        assert {chosen(c)[key] for c in read} == set(entry["values"]) - own, key


def test_flags_meet_their_conditions():
    """A case does not bear the flag of a bug that its arrays cannot show."""
    assert {flag["grade"] for flag in FLAGS.values()} == {"digits", "formula"}
    for case in CASES:
        arrays = [v for v in inputs(case).values() if np.ndim(v)]
        for flag in case["flags"]:
            needs = FLAGS[flag]["needs"]
            if "axes" in needs:
                assert any(sum(n > 1 for n in v.shape) >= needs["axes"] for v in arrays), (case["id"], flag)
            for name, axis in (("gamma", 1), ("M", 0)):
                if "K" in needs and name in case["in"]:
                    assert inputs(case)[name].shape[axis] >= needs["K"], (case["id"], flag)
            if "h" in needs and "U" in case["in"]:
                assert inputs(case)["U"].shape[-1] >= needs["h"], (case["id"], flag)


def test_large_sizes_are_reached():
    q = {name: inputs(BY_ID[f"L2-update_experts-{name}"]) for name in ("rows_200", "experts_12", "classes_8")}
    assert q["rows_200"]["X"].shape == (200, 1) and q["experts_12"]["M"].shape[0] == 12 and q["classes_8"]["M"].shape[1] == 7
    assert set(q["classes_8"]["y"]) == set(range(8)) and all(set(v["y"]) == set(range(len(v["beta1_mu"]) + 1)) for v in q.values())


def scaled(value, factor):
    return [scaled(v, factor) for v in value] if isinstance(value, list) else value * factor


def test_terms_that_cancel_may_come_in_any_order():
    """Where the answer is 0 the tolerance is that of the terms: any order of them passes, and it is far below any of them."""
    q = {name: inputs(BY_ID[f"L1-{name}"]) for name in ("gamma_kl-equal", "gaussian_kl-equal")}
    a, b = (np.array(q["gamma_kl-equal"][name]) for name in "ab")
    S, sigma = (q["gaussian_kl-equal"][name] for name in ("S", "sigma"))
    log_gamma, m = np.array([math.lgamma(v) for v in a]), len(S)
    terms = {"gamma_kl-equal": [-log_gamma, log_gamma, a * np.log(b), -a * np.log(b)],
             "gaussian_kl-equal": [np.trace(S) / sigma**2 / 2, -m / 2, m * np.log(sigma), *-np.log(np.linalg.eigvalsh(S)) / 2]}
    for name, parts in terms.items():
        atol = BY_ID[f"L1-{name}"]["tol"]["f64"]["value"]["atol"]
        assert 1e-15 < atol < 1e-12
        for order in itertools.permutations(parts):
            assert np.all(np.abs(sum(order)) <= atol), name


def test_sizes_add_where_values_cancel():
    from mpmath import mpf
    from sized import Sized, size_of
    x, y = Sized(mpf(3)), Sized(mpf(-3))
    assert x + y == 0 and size_of(x + y) == size_of(1 + x - 2) == 6
    assert size_of((x + y) * 2 / -4) == 3 and size_of(-(x - 1) ** 2) == 16 and size_of(6 / (x - 1)) == 3
    assert size_of(network.log(x)) == abs(network.log(3)) and type(network.log(mpf(3))) is mpf


# ---- the package


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (group["level"] == 5))
                                  for name, group in GROUPS.items() if group["level"] < 6])
def test_package_passes(name):
    compare(name)


@pytest.mark.parametrize("name", [name for name, group in GROUPS.items() if group["level"] == 6])
def test_package_passes_integrals(name):
    compare(name)


def compare(name):
    reference = load("cmn_literate")
    default = {key: entry["default"] for key, entry in CATALOGUE["profile"].items()}
    functions = reference.ops()
    can = {**default, **reference.PROFILE}
    declared = lambda case: all(chosen(case)[key] in np.atleast_1d(can[key]) for key in OPS[case["op"]]["reads"])
    for case in filter(declared, GROUPS[name]["cases"]):
        function, arguments = functions[case["op"]], inputs(case)
        if "profile" in inspect.signature(function).parameters:
            arguments["profile"] = {**default, **case.get("profile", {})}
        out = function(**arguments)
        if not isinstance(out, dict):
            out = dict(zip(case["out"], out if isinstance(out, tuple) else (out,)))
        for output, want in case["out"].items():
            np.testing.assert_allclose(out[output], array(want), **case["tol"]["f64"][output], err_msg=f"{case['id']}: {output}")
