"""The optional suite of models whose experts share a mean: what it holds, who offers it, its limits, and bugs of the package that it finds."""

import json
import sys

import numpy as np
import pytest
from cmn_conformance import catalogue, runner, serve, verdicts
from cmn_conformance.process import LocalAdapter
from cmn_conformance.values import decode
from planted.shared_means import FAULTS
from suite_faults import ADAPTERS, BY_ID, assert_not_offered, package, planted, right, suite
from tangle import ROOT

from cmn_literate.beyond import shared_means

SUITE = suite("shared means")


def test_suite_is_large_and_explains_itself():
    assert len(SUITE) >= 30 and {c.level for c in SUITE} == {2, 3, 4, 5, 6}
    assert {c.op for c in SUITE} == {"update_shared", "update_experts", "kl_shared", "kl_experts", "elbo", "sweeps", "stationarity", "converge", "forecast"}
    assert all(c.note and c.flags and c.group.startswith("shared_") for c in SUITE) and len({c.note + c.op for c in SUITE}) > 0.9 * len(SUITE)
    for flag in ("MeanWeights", "MeanPull", "MeanSpread"):
        assert sum(flag in c.flags for c in SUITE) >= 8, flag


def test_suite_adds_cases_and_changes_none():
    listed, new = list(json.loads((ROOT / "conformance/ids.json").read_text())), {c.id for c in SUITE}
    later = {c.id for c in catalogue.cases() if catalogue.optional_suite(c.profile)} - new
    assert len(set(listed) - new - later) == 490 and len(new) == 78 and new <= set(listed)
    assert {c.group for c in catalogue.cases() if c.group.startswith("shared_")} == {c.group for c in SUITE}


# ---- limits

PLAIN = {"L2-update_experts-mean_nothing": "L2-update_experts-general", "L3-kl_experts-mean_nothing": "L1-mng_kl-general",
         "L3-elbo-mean_nothing": "L3-elbo-general", "L4-sweeps-mean_nothing": "L4-sweeps-binary_2"}


@pytest.mark.parametrize("limit", PLAIN)
def test_no_prior_variance_gives_the_numbers_of_the_plain_model(limit):
    found, plain = BY_ID[limit].out, BY_ID[PLAIN[limit]].out
    for name, value in plain.items():
        want = decode(value).sum() if "mng_kl" in PLAIN[limit] else decode(value)
        np.testing.assert_allclose(decode(found[name]), want, rtol=1e-15 if "mng_kl" in PLAIN[limit] else 0)


def test_other_limits():
    arrays = lambda table: {name: decode(value) for name, value in table.items()}
    given, out = (arrays(getattr(BY_ID["L2-update_shared-wide_prior"], side)) for side in ("given", "out"))
    weight = given["a"][:, None] / given["b"]
    np.testing.assert_allclose(out["A0_mu"], np.einsum("ki,kid->id", weight / weight.sum(0), given["M"]), rtol=1e-10)
    given, out = (arrays(getattr(BY_ID["L2-update_experts-mean_no_rows"], side)) for side in ("given", "out"))
    assert given["X"].shape == (0, 2) and all(np.array_equal(M, given["A0_mu"]) for M in out["M"]) and np.all(out["a"] == given["a0"])
    np.testing.assert_allclose(out["b"], np.broadcast_to(given["b0"] + 3 * given["A0_var"] / (2 * given["v0"]), out["b"].shape), rtol=1e-15)
    assert decode(BY_ID["L3-kl_shared-prior"].out["value"]) == 0 == decode(BY_ID["L3-kl_shared-no_prior_variance"].out["value"])
    assert all(np.all(np.isfinite(decode(v))) for c in SUITE for v in c.out.values())


# ---- who offers it

def run(adapter, cases):
    return runner.run(LocalAdapter(adapter), cases, flags=catalogue.flags())


def test_who_lacks_the_suite_does_not_offer_it():
    cases = catalogue.select({2, 3}, ["update_experts", "update_shared", "kl_shared", "kl_experts"])
    assert_not_offered("shared means", cases, marks=("skipped", "undeclared"))


def test_who_declares_it_has_to_answer_it():
    able = {"profile": {"expert_mean": ["zero", "shared"], "prior_mean": ["zero", "centred"], "order": ["canonical", "m-first"], "inner": [1, 2], "omega1": ["per-component", "shared"]},
            "ops": ["update_shared"]}
    assert {c.id for c in SUITE} <= {c.id for c in verdicts.expected(able, "f64")}


def test_code_that_is_not_the_package_passes():
    """NumPy written for the kit; what it does not do, shared tilts and other orders, is left out."""
    found = run(serve.load(str(ADAPTERS / "numpy_minimal.py")), SUITE)
    count = lambda verdict: sum(r["verdict"] == verdict for r in found["results"])
    assert count("passed") >= 60 and count("failed") == count("errored") == count("inaccurate") == 0


# ---- bugs of the package

OTHER = ("above-scales", "above-force", "above-misfit", "above-counts", "above-gamma", "above-kl-scales", "above-kl-experts-fixed", "above-kl-blur-fixed", "above-kl-output-fixed",
         "above-shared-fixed", "above-sweep-fixed", "above-sweep-bound-without-scales", "above-kl-mean-log", "above-updates-fixed", "above-sweep-stale-scales", "above-stop", "above-weights",
         "above-checkpoint", "above-mean-not-scaled",        # learned scales, the stopping rule, weights of rows and options: no question of the suite
         "above-sweep-bound-without-shared", "above-shift-constant")      # the bound of the fit over blocks: forecasts ask for its coefficients alone
PLANTED = [fault for fault in FAULTS if not fault[0].startswith(OTHER)]
QUICK = sorted((c for c in SUITE if c.level < 5 or c.id in ("L6-forecast-binary_1", "L6-forecast-centred")), key=lambda c: (c.level, c.id))


def test_the_package_as_it_is_is_right():
    assert [c.id for c in QUICK if not right(package(), c)] == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fault", PLANTED, ids=lambda fault: fault[0])
def test_bug_of_the_package_is_found(fault, monkeypatch):
    name, old, new, _ = fault
    monkeypatch.setattr(sys.modules[package().__name__], "shared_means", planted(shared_means, old, new))
    assert any(not right(package(), c) for c in QUICK), name


def test_bugs_of_the_package_are_many():
    assert len(PLANTED) >= 18
