"""The optional suite of learned scales: what it holds, who offers it, its limits, a road of its own, and bugs of the package that it finds."""

import json
import sys

import numpy as np
import pytest
from cmn_conformance import catalogue, verdicts
from planted.shared_means import FAULTS
from suite_faults import BY_ID, arguments, arrays, assert_not_offered, package, planted, right, safely, suite
from tangle import ROOT

from cmn_literate.beyond import shared_means

ORACLE = ROOT / "conformance/oracle"
SUITE = suite("learned scales")
sys.path.insert(0, str(ORACLE))
import network
import scale_cases
from measure import exact, real
from mpmath import mp

FLAGS = ("ScaleMean", "ScaleForgotten", "ScaleCount", "ScaleMisfit", "ScalePrior", "ScaleLog")
FACTORS = {"update_beta1", "update_beta0", "update_experts", "update_shared"}


def test_suite_is_large_and_explains_itself():
    assert len(SUITE) >= 90 and {c.level for c in SUITE} == {2, 3, 4, 5, 6}
    assert {c.op for c in SUITE} == {"update_scales", *FACTORS, "kl_scales", "kl_beta1", "kl_beta0", "kl_experts", "elbo", "sweeps", "stationarity", "converge", "forecast"}
    assert all(c.note and c.flags and c.group.startswith("scales_") for c in SUITE) and len({c.note + c.op for c in SUITE}) > 0.9 * len(SUITE)
    for flag in FLAGS:
        assert sum(flag in c.flags for c in SUITE) >= 10, flag
    for op in ("update_scales", "update_experts", "kl_experts", "elbo", "sweeps", "stationarity", "converge", "forecast"):
        assert {c.profile["expert_mean"] for c in SUITE if c.op == op} == {"zero", "shared"}, op
    for op in ("update_scales", "update_beta1", "update_beta0", "kl_beta1", "elbo", "sweeps", "converge", "forecast"):
        assert {c.profile["prior_mean"] for c in SUITE if c.op == op} == {"zero", "centred"}, op


def test_suite_adds_cases_and_changes_none():
    listed = json.loads((ROOT / "conformance/ids.json").read_text())
    assert {c.id for c in SUITE} <= set(listed)
    assert {c.group for c in catalogue.cases() if c.group.startswith("scales_")} == {c.group for c in SUITE}


def test_every_new_bug_has_wrong_answers():
    tree = [catalogue.read("wrong", f"{group}.json") for group in sorted({c.group for c in SUITE})]
    for flag in FLAGS:
        shown = {i for part in tree for i, case in part["cases"].items() for key in case["wrong"] if part["bugs"][BY_ID[i].op][key]["flag"] == flag}
        named = {c.id for c in SUITE if flag in c.flags and c.level != 5 and (c.level != 4 or arguments(c)["n_sweeps"] == 1)}
        assert len(named) >= 8 and named <= shown, (flag, named - shown)


def test_the_number_of_cases_is_the_one_that_is_told():
    for file in ("book/beyond/shared_means.ipynb", "conformance/FORMAT.md", "conformance/CHANGELOG.md", "README.md", "CHANGELOG.md", "book/intro.md", "book/validate/index.md"):
        assert f" {len(SUITE)} " in (ROOT / file).read_text().replace("\n", " "), file


# ---- limits

def mpf_of(case):
    """What goes into a case, as the oracle reads it, with the choices that it has to be told."""
    kinds = catalogue.operations()[case.op]["in"]
    nested = lambda value: np.reshape(value["data"], value["shape"]).tolist() if isinstance(value, dict) else value
    given = {name: (exact if kinds[name]["kind"] == "int" else real)(nested(value)) for name, value in case.given.items()}
    given |= {"y": [int(c) for c in given["y"]]}
    return {**given, **({"prior_mean": "centred"} if case.profile.get("prior_mean") == "centred" else {})}


FIXED = ("lam_mean", "lam_shape", "strength")
without = lambda s, names: {name: value for name, value in s.items() if name not in names}


@pytest.mark.parametrize("op", ["update_beta1", "update_beta0", "update_experts"])
def test_in_force_are_the_numbers_of_fixed_scales(op):
    case = BY_ID[f"L2-{op}-scales_in_force"]
    with mp.workdps(30):
        fixed = network.OPS[op](**without(mpf_of(case), FIXED))
    for name, want in arrays(case).items():
        np.testing.assert_allclose(np.array(fixed[name], float), want, rtol=1e-15)


@pytest.mark.parametrize("sharp, fixed", [("scales_sharp", "nothing"), ("mean_learned_sharp", "binary_1")])
def test_a_sharp_prior_gives_the_forecast_of_fixed_scales(sharp, fixed):
    np.testing.assert_allclose(arrays(BY_ID[f"L6-forecast-{sharp}"])["log_probs"], arrays(BY_ID[f"L6-forecast-{fixed}"])["log_probs"], rtol=1e-9)


def test_a_sharp_prior_gives_the_sweeps_of_fixed_scales():
    sharp, fixed = arrays(BY_ID["L4-sweeps-scales_sharp"]), arrays(BY_ID["L4-sweeps-binary_2"])
    for name in set(fixed) - {"elbo"}:
        np.testing.assert_allclose(sharp[name], fixed[name], rtol=0.05, atol=1e-3, err_msg=name)


def test_limits_of_the_scales():
    q = {name: (arrays(BY_ID[f"L2-update_scales-{name}"], "given"), arrays(BY_ID[f"L2-update_scales-{name}"])) for name in ("at_prior", "one_expert", "sharp", "weak", "mean_nothing")}
    prior = lambda given: np.array([1 / given["v0"], given["sigma0"] ** -2, given["sigma1"] ** -2])
    given, out = q["at_prior"]
    np.testing.assert_allclose(out["lam_mean"], prior(given), rtol=1e-15)
    K, h, D, J = *given["M"].shape, len(given["beta1_mu"])
    assert np.array_equal(out["lam_shape"], given["strength"] + np.array([K * h * D, (K - 1) * D, J * (h + 1)]) / 2)
    given, out = q["one_expert"]
    assert out["lam_shape"][1] == given["strength"]
    np.testing.assert_allclose(out["lam_mean"][1], prior(given)[1], rtol=1e-15)
    given, out = q["sharp"]
    np.testing.assert_allclose(out["lam_mean"], prior(given), rtol=1e-9)
    given, out = q["weak"]
    gate = (K - 1) * D / (np.sum(given["beta0_mu"] ** 2) + np.trace(given["beta0_S"], axis1=1, axis2=2).sum())
    np.testing.assert_allclose(out["lam_mean"][1], gate, rtol=1e-5)
    general = arrays(BY_ID["L2-update_scales-general"])
    assert all(np.array_equal(q["mean_nothing"][1][name], general[name]) for name in general)
    assert all(np.all(np.isfinite(v)) for c in SUITE for v in arrays(c).values())
    assert all(v.size == 0 for v in arrays(BY_ID["L2-update_beta0-scales_one_expert"]).values())
    assert arrays(BY_ID["L3-kl_beta0-scales_one_expert"])["value"] == 0


def test_no_rows_leave_the_scales_of_the_prior():
    """There the factors are at the prior's scales, and the bound is minus what the shape of q(lambda) costs."""
    case = BY_ID["L5-converge-scales_no_rows"]
    s = mpf_of(case)
    with mp.workdps(30):
        n = [len(M) * len(M[0]) * len(s["M"]) for M in s["M"][:1]] + [sum(map(len, s[name])) for name in ("beta0_mu", "beta1_mu")]
        cost, c0 = mp.mpf(0), s["strength"]
        for count in n:
            c = c0 + mp.mpf(count) / 2
            cost += network.gamma_kl(c, c, c0, c0) - mp.mpf(count) / 2 * (mp.digamma(c) - mp.log(c))
        np.testing.assert_allclose(arrays(case)["elbo"], float(-cost), rtol=1e-9)


# ---- where the numbers come from

@pytest.mark.parametrize("together", [False, True], ids=["alone", "with-a-shared-mean"])
@pytest.mark.parametrize("centred", [False, True], ids=["zero", "centred"])
def test_oracle_updates_raise_its_own_bound(together, centred):
    """By the bound, of which no update makes use: none lowers it, and a step to either side of the best does."""
    base = scale_cases.MEAN_LINE if together else scale_cases.LINE
    with mp.workdps(25):
        s = {name: (exact if name == "y" else real)(value) for name, value in base.items()} | ({"prior_mean": "centred"} if centred else {})
        before, nudged = network.elbo(s), lambda value, way: [nudged(v, way) for v in value] if isinstance(value, list) else value * mp.mpf(way)
        for update in network.steps(s, "canonical", 1):
            new = network.UPDATES[update](s)
            s = {**s, **new}
            after = network.elbo(s)
            assert after > before, update
            for name in new:
                for way in ("1.001", "0.999"):
                    assert name == "gamma" or network.elbo({**s, name: nudged(s[name], way)}) < after, (update, name)
            before = after


@pytest.mark.slow
def test_divergences_add_up_to_those_by_an_integral_over_the_scales():
    """Of q(beta) q(lambda) from p(beta | lambda) p(lambda): the divergence given lambda is integrated over q(lambda) by quadrature, and the Gammas' too."""
    case = BY_ID["L3-elbo-mean_learned_centred"]
    with mp.workdps(20):
        s = mpf_of(case)
        total = mp.mpf(0)
        for name, term, i in (("v0", network.kl_experts, 0), ("sigma0", network.kl_beta0, 1), ("sigma1", network.kl_beta1, 2)):
            c, rate, v = s["lam_shape"][i], s["lam_shape"][i] / s["lam_mean"][i], s["v0"] if i == 0 else s[name] ** 2
            log_gamma = lambda x, a, b: a * mp.log(b) - mp.loggamma(a) + (a - 1) * mp.log(x) - b * x
            at = lambda x, name=name, term=term: term({**without(s, FIXED), name: 1 / x if name == "v0" else x ** mp.mpf("-0.5")})
            def density(x, c=c, rate=rate, v=v, at=at):
                log_q = log_gamma(x, c, rate)
                return mp.exp(log_q) * (at(x) + log_q - log_gamma(x, s["strength"], s["strength"] * v))
            total += mp.quad(lambda t: density(mp.exp(t)) * mp.exp(t), mp.linspace(-25, 6, 32), maxdegree=4)
        parts = [network.OPS[op](**s)["value"] for op in ("kl_experts", "kl_beta0", "kl_beta1", "kl_scales")]
        assert abs(sum(parts) - total) < 1e-9 * abs(total)


# ---- who offers it

def with_mean(case):
    return case.profile.get("expert_mean") == "shared"


def test_who_lacks_the_suite_does_not_offer_it():
    alone = [c for c in SUITE if c.level < 4 and not with_mean(c)]
    assert_not_offered("learned scales", [*alone, BY_ID["L2-update_experts-general"]], "numpy_minimal", ("skipped", "undeclared"))


def test_who_declares_it_has_to_answer_it():
    able = {"profile": {"scales": ["fixed", "learned"], "expert_mean": ["zero", "shared"], "prior_mean": ["zero", "centred"], "order": ["canonical", "m-first"], "inner": [1, 2],
                        "omega1": ["per-component", "shared"]}, "ops": ["update_scales"]}
    assert {c.id for c in SUITE} <= {c.id for c in verdicts.expected(able, "f64")}
    alone = {**able, "profile": {**able["profile"], "expert_mean": "zero"}}
    asked = {c.id for c in verdicts.expected(alone, "f64")} & {c.id for c in SUITE}
    assert asked == {c.id for c in SUITE if not with_mean(c)} and len(asked) >= 60


# ---- bugs of the package

OTHER = ("above-scales-", "above-stop", "above-weights", "above-checkpoint", "above-mean-not-scaled")      # scales by hand, the stopping rule, weights of rows and options: no question of the suite
PLANTED = [fault for fault in FAULTS if not fault[0].startswith(OTHER)]
OF_SCALES = ("above-force", "above-misfit", "above-counts", "above-gamma", "above-kl-scales", "above-kl-mean-log", "above-sweep-stale", "above-sweep-bound-without-scales")
QUICK = sorted((c for c in SUITE if c.op not in ("stationarity", "converge") and c.id[:2] != "L6" or c.id in ("L5-converge-scales_centred", "L5-converge-mean_learned", "L6-forecast-scales_1")),
               key=lambda c: (c.level, c.id))


@pytest.mark.slow                                        # test_own_package_passes asks it every case too
def test_the_package_as_it_is_is_right():
    assert [c.id for c in SUITE if not right(package(), c)] == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fault", PLANTED, ids=lambda fault: fault[0])
def test_bug_of_the_package_is_found(fault, monkeypatch):
    name, old, new, _ = fault
    monkeypatch.setattr(sys.modules[package().__name__], "shared_means", planted(shared_means, old, new))
    assert any(not safely(package(), c) for c in (QUICK[::-1] if name.startswith(("above-sweep", "above-shift")) else QUICK)), name


def test_bugs_of_the_package_are_many():
    touching = [name for name, *_ in PLANTED if name.startswith(OF_SCALES) or "fixed-scale" in name]
    assert len(PLANTED) >= 50 and len(touching) >= 30
