"""The optional suite of leaner posteriors: what it holds, who offers it, its limits, a road of its own, and bugs of the package that it finds."""

import json
import sys

import numpy as np
import pytest
from cmn_conformance import catalogue, verdicts
from cmn_conformance.values import decode
from oracle import lean as loops
from planted.lean import FAULTS as FAULTS_OF_SWEEPS
from planted.structured import FAULTS as FAULTS_OF_UPDATES
from suite_faults import BY_ID, arguments, arrays, assert_not_offered, package, planted, right, safely, suite
from tangle import ROOT

from cmn_literate.beyond import lean, structured

ORACLE = ROOT / "conformance/oracle"
SUITE = suite("leaner posteriors")
FAMILIES = list(structured.LATENT_POSTERIORS)[1:]


def test_suite_is_large_and_explains_itself():
    assert len(SUITE) >= 30 and {c.level for c in SUITE} == {2, 3, 4, 5, 6}
    assert {c.op for c in SUITE} == {"update_x", "update_z", "update_beta1", "update_beta0", "update_experts", "elbo_latent_entropy", "kl_experts", "elbo", "sweeps",
                                     "stationarity", "converge", "forecast"}
    assert all(c.note and c.flags and c.group.startswith("lean_") for c in SUITE) and len({c.note + c.op for c in SUITE}) > 0.9 * len(SUITE)
    for flag, least in {"FamilyIgnored": 8, "InvertedFirst": 12, "LeanMeans": 12, "FrameSide": 5, "GroupWeights": 10, "RowGaussian": 10, "LeanGap": 5}.items():
        assert sum(flag in c.flags for c in SUITE) >= least, flag
    for op in ("update_x", "sweeps"):
        assert {c.profile["latent_posterior"] for c in SUITE if c.op == op} >= set(FAMILIES), op
    assert {c.profile.get("coefficients") for c in SUITE} == {None, *structured.COEFFICIENTS}


def test_suite_adds_cases_and_changes_none():
    listed = json.loads((ROOT / "conformance/ids.json").read_text())
    assert {c.id for c in SUITE} <= set(listed)
    assert {c.group for c in catalogue.cases() if c.group.startswith("lean_")} == {c.group for c in SUITE}


# ---- limits

@pytest.mark.parametrize("limit", ["diagonal_one_dimension", "low_rank_whole", "shared_one_row", "class_shared_each_its_own", "mean_field_one_expert", "mean_field_certain"])
def test_where_nothing_is_restricted_the_numbers_are_those_of_the_full_posterior(limit):
    case = BY_ID[f"L2-update_x-lean_{limit}"]
    given, out = arguments(case), arrays(case)
    full = loops.update_x({**given, **out}, given["X"], given["y"], True, "free")
    at = given["gamma"].argmax(1) if limit == "mean_field_certain" else None
    for name in ("mu", "Sigma"):
        want = full[name] if at is None else full[name][np.arange(len(at)), at][:, None] + 0 * full[name]
        np.testing.assert_allclose(out[name], want, rtol=1e-11, atol=1e-12, err_msg=name)


def test_other_limits():
    axes, general = (arrays(BY_ID[f"L2-update_x-lean_{name}"]) for name in ("low_rank_axes", "diagonal"))
    assert all(np.array_equal(axes[name], general[name]) for name in axes)
    plain = arrays(BY_ID["L2-update_x-general"])
    assert np.array_equal(plain["mu"], general["mu"]) and np.all(np.diagonal(general["Sigma"], axis1=2, axis2=3) < np.diagonal(plain["Sigma"], axis1=2, axis2=3))
    case = BY_ID["L2-update_experts-thin_empty_expert"]
    assert np.array_equal(arrays(case)["V"][1], arrays(case, "given")["v0"] * np.eye(2))
    for name in ("diagonal_no_rows", "shared_no_rows"):
        assert all(v.size == 0 for v in arrays(BY_ID[f"L2-update_x-lean_{name}"]).values())
    assert all(np.all(np.isfinite(v)) for c in SUITE for v in arrays(c).values())


def test_what_is_shared_is_the_same_to_the_bit():
    for c in SUITE:
        own, shape = structured.LATENT_POSTERIORS[c.profile.get("latent_posterior", "full")]
        if "Sigma" not in c.out or not decode(c.out["Sigma"]).size:
            continue
        out, given = arrays(c), arguments(c)
        if not own:
            assert all(np.array_equal(out[name], out[name][:, :1] + 0 * out[name]) for name in ("mu", "Sigma")), c.id
        if shape in ("shared", "by-class"):
            first = [0 if shape == "shared" else list(given["y"]).index(c) for c in given["y"]]
            assert np.array_equal(out["Sigma"], out["Sigma"][first]), c.id


# ---- where the numbers come from

@pytest.mark.parametrize("family", [f if f in ("low-rank", "class-shared", "mean-field-diagonal") else pytest.param(f, marks=pytest.mark.slow) for f in FAMILIES])
def test_oracle_updates_are_the_best_of_their_family(family):
    """By the bound, of which no formula of the oracle makes use: a step to either side, within the family, lowers it."""
    sys.path.insert(0, str(ORACLE))
    import lean_cases
    import network
    from measure import exact, real
    from mpmath import mp
    base = lean_cases.PAIR_ROW if family in lean_cases.MEAN_FIELD else lean_cases.PAIR
    with mp.workdps(25):
        base = lean_cases.framed(base, "test", 1) if family == "low-rank" else base
        s = {**{k: (exact if k in ("y", "rank") else real)(v) for k, v in base.items()}, "latent_posterior": family}
        s = {**s, **network.update_x(s)}
        best = network.elbo(s)
        stretched = lambda value, change: [stretched(v, change) for v in value] if isinstance(value[0][0], list) else [[v * change[i][j] for j, v in enumerate(row)] for i, row in enumerate(value)]
        shapes = [[[1, 1], [1, 1]]] + ([] if family == "low-rank" else [[[1, 0], [0, 0]], [[0, 1], [1, 0]]])
        for way, shape in ((way, shape) for way in (1, -1) for shape in shapes):
            moved = stretched(s["Sigma"], [[1 + way * mp.mpf("0.001") * v for v in row] for row in shape])
            assert moved == s["Sigma"] or network.elbo({**s, "Sigma": moved}) < best, (way, shape)
        for way in ("1.001", "0.999"):
            assert network.elbo({**s, "mu": [[[v * mp.mpf(way) for v in m] for m in rows] for rows in s["mu"]]}) < best


def test_loops_written_apart_give_the_same_latents():
    """The NumPy loops of the package's own tests, which know nothing of the kit."""
    for c in (c for c in SUITE if c.op == "update_x" and decode(c.given["X"]).size):
        given, (own, shape) = arguments(c), structured.LATENT_POSTERIORS[c.profile["latent_posterior"]]
        found = loops.update_x(given, given["X"], given["y"], own, shape, given.get("frame"), int(given.get("rank", 0)))
        for name, want in arrays(c).items():
            np.testing.assert_allclose(found[name], want, rtol=1e-8, atol=1e-9 * np.abs(want).max(), err_msg=c.id)


# ---- who offers it

def test_who_lacks_the_suite_does_not_offer_it():
    assert_not_offered("leaner posteriors", [c for c in SUITE if c.level < 4] + [BY_ID["L2-update_x-general"]], marks=("skipped", "undeclared"))


def test_who_declares_it_has_to_answer_it():
    able = {"profile": {"latent_posterior": ["full", *FAMILIES], "coefficients": list(structured.COEFFICIENTS), "omega1": ["per-component", "shared"]}, "ops": ["update_x"]}
    assert {c.id for c in SUITE} <= {c.id for c in verdicts.expected(able, "f64")}
    only = {**able, "profile": {**able["profile"], "latent_posterior": ["full", "diagonal"]}}
    assert {c.profile["latent_posterior"] for c in verdicts.expected(only, "f64") if c in SUITE and "latent_posterior" in c.profile} == {"full", "diagonal"}


# ---- bugs of the package

OTHER = ("structured-frame-deviation", "structured-frame-smallest", "structured-frame-unscaled", "lean-frame-",     # frames are given, and stay
         "structured-tables-corner", "structured-entries-block", "structured-coefficients-gap-of-one-row",      # sweeps over blocks are asked of one latent dimension
         "structured-steps-", "lean-means-start-anew", "lean-one-step",                                            # means are solved to the end
         "lean-weights-", "lean-mean-not-per-row-weight", "lean-stop", "lean-full-by", "lean-saddle", "lean-rank-beyond", "lean-loaded", "lean-shared-omega", "lean-steps-not")
PLANTED = [fault for fault in (*FAULTS_OF_UPDATES, *FAULTS_OF_SWEEPS) if not fault[0].startswith(OTHER)]
QUICK = sorted((c for c in SUITE if c.level != 5 or c.op == "converge" and "coefficients" in c.id), key=lambda c: (c.level, c.id))


def test_the_package_as_it_is_is_right():
    assert [c.id for c in QUICK if not right(package(), c)] == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fault", PLANTED, ids=lambda fault: fault[0])
def test_bug_of_the_package_is_found(fault, monkeypatch):
    name, old, new, _ = fault
    first = name.startswith("structured")
    changed = {"structured": planted(structured, old, new) if first else structured}
    monkeypatch.setitem(sys.modules, structured.__name__, changed["structured"])             # the sweeps import from it
    changed["lean"] = planted(lean, *((f"no such text as {name}", None) if first else (old, new)))
    for module in changed:
        monkeypatch.setattr(sys.modules[package().__name__], module, changed[module])
    assert any(not safely(package(), c) for c in (QUICK if first else QUICK[::-1])), name      # fast sweeps are asked on the last levels


def test_bugs_of_the_package_are_many():
    assert len(PLANTED) >= 40
