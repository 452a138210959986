"""The optional suite of deeper networks: what it holds, who offers it, its limits, a road of its own, conversions, and bugs of the package that it finds."""

import json
import sys

import numpy as np
import pytest
from cmn_conformance import catalogue, verdicts
from cmn_conformance.convert import Conversion
from oracle import deep as loops
from planted.deep import FAULTS as FAULTS_OF_UPDATES
from planted.depth import FAULTS as FAULTS_OF_FORECASTS
from suite_faults import BY_ID, arguments, arrays, assert_not_offered, package, planted, right, safely, suite
from tangle import ROOT

from cmn_literate.beyond import deep, depth
from cmn_literate.network.simulate import Priors

ORACLE = ROOT / "conformance/oracle"
SUITE = suite("deeper networks")
LAYERS = {"one": 1, "two": 2, "three": 3}
sys.path.insert(0, str(ORACLE))
import deep as network
import deep_cases
from measure import exact, real
from mpmath import mp


def test_suite_is_large_and_explains_itself():
    assert len(SUITE) >= 80 and {c.level for c in SUITE} == {1, 2, 3, 4, 5, 6}
    assert {c.op for c in SUITE} == {op for op in catalogue.operations() if op.startswith("deep_")}
    assert all(c.note and c.flags and c.group.startswith("deep_") for c in SUITE) and len({c.note + c.op for c in SUITE}) > 0.9 * len(SUITE)
    for flag, least in {"InputMean": 20, "MixtureSpread": 8, "LayerAbove": 12, "LayerBelow": 8, "PullSpread": 6, "LayerPrior": 10}.items():
        assert sum(flag in c.flags for c in SUITE) >= least, flag
    for op in ("x", "z", "beta", "experts", "elbo", "sweeps", "stationarity", "forecast"):
        assert {c.profile["layers"] for c in SUITE if c.op == f"deep_{op}"} == set(LAYERS), op


def test_suite_adds_cases_and_changes_none():
    listed = json.loads((ROOT / "conformance/ids.json").read_text())
    assert {c.id for c in SUITE} <= set(listed)
    assert {c.group for c in catalogue.cases() if c.group.startswith("deep_")} == {c.group for c in SUITE}


def test_every_new_bug_has_wrong_answers():
    tree = [catalogue.read("wrong", f"{group}.json") for group in sorted({c.group for c in SUITE})]
    named = {bug["flag"] for part in tree for table in part["bugs"].values() for bug in table.values()}
    assert {"InputMean", "MixtureSpread", "LayerAbove", "LayerBelow", "PullSpread", "LayerPrior"} <= named
    flagged = {c.id: set(c.flags) for c in SUITE}
    for flag in ("InputMean", "MixtureSpread", "LayerAbove", "LayerBelow", "PullSpread", "LayerPrior"):
        shown = {i for part in tree for i, case in part["cases"].items() for key in case["wrong"] if part["bugs"][BY_ID[i].op][key]["flag"] == flag}
        named = {i for i, flags in flagged.items() if flag in flags and BY_ID[i].level not in (4, 5)}
        assert named <= shown, (flag, named - shown)


def test_the_number_of_cases_is_the_one_that_is_told():
    for file in ("book/beyond/deep.ipynb", "conformance/FORMAT.md", "conformance/CHANGELOG.md", "README.md", "CHANGELOG.md", "book/intro.md", "book/validate/index.md"):
        assert f" {len(SUITE)} " in (ROOT / file).read_text().replace("\n", " "), file


# ---- limits

PLAIN = {"L2-deep_x-one_layer": "L2-update_x-general", "L2-deep_z-one_layer": "L2-update_z-general", "L2-deep_beta-one_layer": "L2-update_beta1-general",
         "L2-deep_beta-one_layer_gate": "L2-update_beta0-general", "L2-deep_experts-one_layer": "L2-update_experts-general", "L3-deep_elbo_choice-one_layer": "L3-elbo_output-general",
         "L3-deep_elbo-one_layer": "L3-elbo-general", "L4-deep_sweeps-one_layer_2": "L4-sweeps-binary_2"}
RENAMED = {"beta1_mu": "beta_mu", "beta1_S": "beta_S", "beta0_mu": "beta_mu", "beta0_S": "beta_S"}


@pytest.mark.parametrize("limit", PLAIN)
def test_one_layer_has_the_numbers_of_the_plain_model(limit):
    found, plain = arrays(BY_ID[limit]), arrays(BY_ID[PLAIN[limit]])
    for name, want in plain.items():
        ours = next(n for n in (name, f"{name}1", RENAMED.get(name)) if n in found)
        assert np.array_equal(found[ours][:, 0] if ours == "xi0" else found[ours], want), name


def test_one_layer_divergence_and_residual_are_those_of_the_plain_model():
    parts = [arrays(BY_ID[f"L3-kl_{name}-general"])["value"] for name in ("beta0", "beta1", "experts")]
    np.testing.assert_allclose(arrays(BY_ID["L3-deep_kl-one_layer"])["value"], sum(parts), rtol=1e-14)
    ours, plain = (BY_ID[f"L5-{op}"] for op in ("deep_converge-one_layer", "converge-binary"))
    np.testing.assert_allclose(arrays(ours)["elbo"], arrays(plain)["elbo"], rtol=1e-12)


def test_other_limits():
    assert all(np.all(np.isfinite(v)) for c in SUITE for v in arrays(c).values())
    assert np.all(arrays(BY_ID["L2-deep_z-one_expert"])["gamma"] == 1)
    for name in ("deep_beta-no_sticks", "deep_tilt-no_sticks"):
        assert all(v.size == 0 for v in arrays(BY_ID[f"L2-{name}"]).values())
    one = BY_ID["L1-deep_moments-one_expert"]
    given, out = arrays(one, "given"), arrays(one)
    assert np.array_equal(out["mean"], given["mu"][:, 0]) and np.array_equal(out["cov"], given["Sigma"][:, 0])
    given, out = (arrays(BY_ID["L2-deep_experts-no_rows"], side) for side in ("given", "out"))
    assert np.all(out["M"] == 0) and np.all(out["V"] == given["v0"] * np.eye(out["V"].shape[1])) and np.all(out["a"] == given["a0"]) and np.all(out["b"] == given["b0"])
    empty, given = arrays(BY_ID["L2-deep_experts-empty"]), arrays(BY_ID["L2-deep_experts-empty"], "given")
    assert np.all(empty["M"][-1] == 0) and empty["a"][-1] == given["a0"] and not np.any(empty["M"][0] == 0)
    given, out = (arrays(BY_ID["L2-deep_beta-no_rows"], side) for side in ("given", "out"))
    assert np.all(out["beta_mu"] == 0) and np.allclose(out["beta_S"], given["sigma0"] ** 2 * np.eye(out["beta_S"].shape[1]), rtol=1e-15)
    assert arrays(BY_ID["L5-deep_stationarity-prior"])["residual"] == 0


def test_sizes_differ_by_layer():
    seen = {tuple(np.shape(arrays(c, "given")[f"M{l}"])[:2] for l in range(1, LAYERS[c.profile["layers"]] + 1)) for c in SUITE if "M1" in c.given}
    assert len(seen) >= 7 and any(len({K for K, _ in sizes}) == len(sizes) > 1 for sizes in seen) and any(len(sizes) == 3 and 1 in [K for K, _ in sizes] for sizes in seen)


# ---- where the numbers come from

def test_oracle_updates_raise_its_own_bound():
    """By the bound, of which no update makes use: none lowers it, and a step to either side of the best does."""
    with mp.workdps(25):
        s = {name: (exact if name == "y" else real)(value) for name, value in deep_cases.SMALL.items()}
        before, nudged = network.elbo(s), lambda value, way: [nudged(v, way) for v in value] if isinstance(value, list) else value * mp.mpf(way)
        for update, l in network.order(2):
            new = network.UPDATES[update](s, l)
            s = {**s, **new}
            after = network.elbo(s)
            assert after > before, (update, l)
            for name in new:
                for way in ("1.001", "0.999"):
                    assert name.startswith("gamma") or network.elbo({**s, name: nudged(s[name], way)}) < after, (update, l, name)
            before = after


def as_lists(given, S):
    """A case's state as the package's own tests write it."""
    d = {"beta_mu": [given[f"beta{s}_mu"] for s in range(S + 1)], "beta_cov": [given[f"beta{s}_S"] for s in range(S + 1)], "tilts": [given[f"xi{s}"] for s in range(S + 1)]}
    return d | {name: [given[f"{name}{s}"] for s in range(1, S + 1)] for name in ("M", "V", "a", "b", "gamma", "mu", "Sigma")}


NAMES = {"deep_x": ("x", {"mu": "mu", "Sigma": "Sigma"}), "deep_z": ("z", {"gamma": "gamma"}), "deep_tilt": ("omega", {"xi": "tilts"}),
         "deep_beta": ("beta", {"beta_mu": "beta_mu", "beta_S": "beta_cov"}), "deep_experts": ("experts", {name: name for name in "MVab"})}


def test_loops_written_apart_give_the_same_updates_and_bounds():
    """The NumPy loops of the package's own tests, which know nothing of the kit."""
    for c in (c for c in SUITE if c.op in NAMES or c.op == "deep_elbo" and "known" not in c.id):
        given = arguments(c)
        if not given["X"].size or "steep" in c.id:
            continue
        d, priors = as_lists(given, LAYERS[c.profile["layers"]]), Priors(**{name: given[name] for name in ("v0", "a0", "b0", "sigma0", "sigma1")})
        if c.op == "deep_elbo":
            np.testing.assert_allclose(loops.elbo(d, given["X"], given["y"], priors), arrays(c)["value"], rtol=1e-10, err_msg=c.id)
            continue
        update, names = NAMES[c.op]
        found = loops.UPDATES[update](d, given["X"], given["y"], priors, given["s"])
        for name, want in arrays(c).items():
            got = found[names[name]][given["s"] - (update in ("x", "z", "experts"))]
            np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-9 * np.abs(want).max(initial=1), err_msg=f"{c.id} {name}")


# ---- who offers it

def test_who_lacks_the_suite_does_not_offer_it():
    assert_not_offered("deeper networks", [c for c in SUITE if c.level < 4] + [BY_ID["L2-update_x-general"]])


def test_who_declares_it_has_to_answer_it():
    able = {"profile": {"layers": ["none", "one", "two", "three"], "inner": [1, 2]}, "ops": ["deep_x"]}
    assert {c.id for c in SUITE} <= {c.id for c in verdicts.expected(able, "f64")}
    only = {**able, "profile": {"layers": "two", "inner": [1, 2]}}
    assert {c.profile["layers"] for c in verdicts.expected(only, "f64") if c in SUITE} == {"two"}


OTHERS = {"gamma": "scale", "gaussian": "precision", "V": "precision", "bias": "first", "layout": "columns", "sticks": "K", "classes": "reversed"}


@pytest.mark.parametrize("profile", [{}, *({key: value} for key, value in OTHERS.items()), OTHERS], ids=lambda p: "-".join(p) if len(p) < 7 else "all")
def test_other_parametrisations_are_converted_and_back(profile):
    """What comes back of what was asked in other terms is what was asked; each layer's arrays are turned, and not only those of the first."""
    wanted = {**{key: default for key, default in catalogue.default_profile().items() if key in OTHERS}, **profile}
    for c in (c for c in SUITE if c.op == "deep_sweeps" and "steep" not in c.id):
        there = Conversion(c, wanted)
        state = {name: there.given[name] for name in c.out if name in there.given}
        back, problems, _ = there.back(state)
        assert not problems
        for name in state:
            np.testing.assert_allclose(*(runner_array(v) for v in (back[name], c.given[name])), rtol=1e-12, atol=1e-13, err_msg=f"{c.id} {name}")
        for l in range(1, LAYERS[c.profile["layers"]] + 1 if "bias" in profile else 0):
            assert there.given[f"M{l}"] != c.given[f"M{l}"], (c.id, l)


def runner_array(value):
    return np.array(value["data"], float).reshape(value["shape"])


# ---- bugs of the package

PLANTED = [("deep", fault) for fault in FAULTS_OF_UPDATES if fault[0] != "deep-parameters-swapped" and not fault[0].startswith("deep-weight-")]
# left out: what is for exact forecasts of one layer; weights of rows, which no case has
PLANTED += [("depth", fault) for fault in FAULTS_OF_FORECASTS if fault[0].startswith(("depth-moments", "depth-choice"))]     # the rest is starts, paths and fits
QUICK = sorted((c for c in SUITE if c.op != "deep_converge"), key=lambda c: (c.level, c.id))


@pytest.mark.slow                                        # test_own_package_passes asks it every case too
def test_the_package_as_it_is_is_right():
    assert [c.id for c in SUITE if not right(package(), c)] == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("module, fault", PLANTED, ids=lambda fault: fault if isinstance(fault, str) else fault[0])
def test_bug_of_the_package_is_found(module, fault, monkeypatch):
    name, old, new, _ = fault
    monkeypatch.setattr(sys.modules[package().__name__], module, planted({"deep": deep, "depth": depth}[module], old, new))
    assert any(not safely(package(), c) for c in QUICK), name


def test_bugs_of_the_package_are_many():
    assert len(PLANTED) >= 40
