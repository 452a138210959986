"""The optional suite of other outputs: what it holds, who offers it, its limits, a road of its own, conversions, and bugs of the package that it finds."""

import json
import sys

import numpy as np
import pytest
from cmn_conformance import catalogue, verdicts
from cmn_conformance.convert import Conversion
from planted.outputs import FAULTS as FAULTS_OF_OUTPUTS
from planted.regression import FAULTS as FAULTS_OF_NETWORKS
from planted.regressor import FAULTS as FAULTS_OF_REGRESSORS
from scipy import integrate, stats
from suite_faults import BY_ID, arguments, arrays, assert_not_offered, package, planted, right, safely, suite
from tangle import ROOT

from cmn_literate.beyond import outputs, regression, regressor
from cmn_literate.network.simulate import Priors

ORACLE = ROOT / "conformance/oracle"
SUITE = suite("other outputs")
sys.path.insert(0, str(ORACLE))
import outputs as loops
import outputs_cases
from measure import real
from mpmath import mp

FLAGS = {"OutputMap": 12, "OutputNoise": 10, "LatentSpread": 8, "CountTosses": 12, "OutputPrior": 10, "TailsCut": 5}


def test_suite_is_large_and_explains_itself():
    assert len(SUITE) >= 80 and {c.level for c in SUITE} == {0, 2, 3, 4, 5, 6}
    assert {c.op for c in SUITE} == {op for op in catalogue.operations() if op.startswith("out_")}
    assert all(c.note and c.flags and c.group.startswith("out_") for c in SUITE) and len({c.note + c.op + c.profile["output"] for c in SUITE}) > 0.9 * len(SUITE)
    for flag, least in FLAGS.items():
        assert sum(flag in c.flags for c in SUITE) >= least, flag


def test_bugs_are_stored_where_they_are_flagged():
    tree = [json.loads(file.read_text()) for file in sorted((ROOT / "conformance/cmn_conformance/wrong").glob("out_*.json"))]
    for flag in FLAGS:
        shown = {i for part in tree for i, case in part["cases"].items() for key in case["wrong"] if part["bugs"][BY_ID[i].op][key]["flag"] == flag}
        named = {c.id for c in SUITE if flag in c.flags and c.level not in (4, 5)}
        assert named <= shown, (flag, named - shown)


def test_the_number_of_cases_is_the_one_that_is_told():
    for file in ("book/beyond/outputs.ipynb", "conformance/FORMAT.md", "conformance/CHANGELOG.md", "README.md", "CHANGELOG.md", "book/intro.md", "book/validate/index.md"):
        assert f" {len(SUITE)} " in (ROOT / file).read_text().replace("\n", " "), file


# ---- limits

def test_sticks_have_the_numbers_of_the_plain_model():
    """The first output is the classifier's: through the same record the package answers the cases of the plain model."""
    for name, update in (("x", "x"), ("omega1", "memory"), ("z", "z"), ("beta1", "output")):
        case = BY_ID[f"L2-update_{name}-general"]
        given = arguments(case)
        model = regression.Model(outputs.sticks_output(len(given["beta1_mu"]) + 1), Priors(*(given[n] for n in ("v0", "a0", "b0", "sigma0", "sigma1"))))
        h, D = given["M"].shape[1:]
        own = regression.Globals(outputs.Coins(given["beta1_mu"], given["beta1_S"]), *(given[n] for n in ("beta0_mu", "beta0_S", "M", "V", "a", "b")), np.zeros((h, D)), np.zeros(h))
        whole = regression.Whole(own, regression.Hidden(*(given[n] for n in ("gamma", "mu", "Sigma", "xi1", "xi0"))))
        new = regression.NETWORK_UPDATES[update](whole, given["X"], given["y"], model)
        found = {"xi1": new.hidden.memory, "beta1_mu": new.globals.output[0], "beta1_S": new.globals.output[1], **new.hidden._asdict()}
        for part, want in arrays(case).items():
            np.testing.assert_allclose(found[part], want, rtol=1e-11, atol=1e-12, err_msg=name)


def test_known_latents_are_bayesian_linear_regression():
    """Closed form: posterior of a matrix-normal-gamma regression of Y on [mu; 1], its rows weighted."""
    case = BY_ID["L2-out_output-gaussian_latents_known"]
    given, out = arguments(case), arrays(case)
    rows = np.concatenate([np.append(given["mu"], np.ones((*given["mu"].shape[:2], 1)), -1)[:, k] for k in range(given["mu"].shape[1])])
    weight, Y = given["gamma"].T.ravel(), np.tile(given["Y"], (given["mu"].shape[1], 1))
    V = np.linalg.inv(np.eye(rows.shape[1]) / given["v1"] + (rows * weight[:, None]).T @ rows)
    W = (V @ (rows * weight[:, None]).T @ Y).T
    np.testing.assert_allclose(out["W_V"], V, rtol=1e-10)
    np.testing.assert_allclose(out["W"], W, rtol=1e-10)
    left = (weight[:, None] * Y * Y).sum(0) - np.einsum("jd,de,je->j", W, np.linalg.inv(V), W)          # completed squares
    np.testing.assert_allclose(out["W_b"], given["b1"] + left / 2, rtol=1e-9)
    assert np.isclose(out["W_a"], given["a1"] + weight.sum() / 2, rtol=1e-14)


def test_other_limits():
    assert all(np.all(np.isfinite(v)) for c in SUITE for v in arrays(c).values())
    for kind in ("gaussian", "counts"):
        given, out = (arrays(BY_ID[f"L2-out_output-{kind}_no_rows"], side) for side in ("given", "out"))
        scale = given["v1"] if kind == "gaussian" else given["sigma1"] ** 2
        D = given["M"].shape[1] + 1
        assert not out["W" if kind == "gaussian" else "C_mu"].any() and np.allclose(out["W_V" if kind == "gaussian" else "C_S"], scale * np.eye(D), rtol=1e-15)
        assert arrays(BY_ID[f"L3-out_kl-{kind}_prior"])["value"] == 0
        assert arrays(BY_ID[f"L5-out_converge-{kind}_one_expert"])["residual"] == 0
    assert np.all(arrays(BY_ID["L2-out_z-gaussian_one_expert"])["gamma"] == 1)
    sure, given = arrays(BY_ID["L2-out_x-gaussian_tiny_noise"]), arrays(BY_ID["L2-out_x-gaussian_tiny_noise"], "given")
    root = np.sqrt(given["W_a"] / given["W_b"])
    for n, y in enumerate(given["Y"]):                   # four sharp measurements of three latents: weighted least squares
        pinned = np.linalg.lstsq(root[:, None] * given["W"][:, :-1], root * (y - given["W"][:, -1]), rcond=None)[0]
        assert np.abs(sure["mu"][n] - pinned).max() < 1e-4 * np.abs(pinned).max()
    assert np.array_equal(arrays(BY_ID["L2-out_pull-counts_zero_tilts"])["Lambda"][..., 0, 0] > 0, np.ones((5, 3), bool))


# ---- where the numbers come from

def test_oracle_updates_raise_its_own_bound():
    """By the bound, of which no update makes use: none lowers it, and a step to either side of the best does."""
    with mp.workdps(25):
        for start in (outputs_cases.TWO, outputs_cases.C_TWO):
            s = {name: real(value) for name, value in start.items()}
            before, nudged = loops.elbo(s), lambda value, way: [nudged(v, way) for v in value] if isinstance(value, list) else value * mp.mpf(way)
            for update in loops.ORDER:
                new = loops.UPDATES[update](s)
                s = {**s, **new}
                after = loops.elbo(s)
                assert after > before if new else after == before, update
                for name in new:
                    for way in ("1.001", "0.999"):
                        assert name == "gamma" or loops.elbo({**s, name: nudged(s[name], way)}) < after, (update, name)
                before = after


def student(case):
    """What SciPy says of the closed forms."""
    given = arguments(case)
    if case.op == "out_student":
        return {"value": stats.t.logpdf(given["r"], given["dof"], scale=given["scale"])}
    x = np.append(given["x1"], np.ones((len(given["x1"]), 1)), 1)
    wide = 1 + np.einsum("nd,de,ne->n", x, given["W_V"], x)
    scale = np.sqrt(wide[:, None] * given["W_b"] / given["W_a"])
    return {"log_density": stats.t.logpdf(given["Y"], 2 * given["W_a"], x @ given["W"].T, scale).sum(1)}


def test_student_densities_are_those_of_scipy():
    for c in SUITE:
        if c.op == "out_student" and "huge" not in c.id or c.op == "out_given_latent" and c.profile["output"] == "gaussian" and "known" not in c.id:
            for name, value in student(c).items():
                np.testing.assert_allclose(arrays(c)[name], value, rtol=1e-11, err_msg=c.id)


def test_densities_of_counts_by_another_integral():
    """SciPy's negative binomial, averaged by adaptive quadrature."""
    for c in (c for c in SUITE if c.op == "out_given_latent" and c.profile["output"] == "counts"):
        given = arguments(c)
        for n, x in enumerate(given["x1"]):
            x = np.append(x, 1.0)
            m, s = x @ given["C_mu"], np.sqrt(x @ given["C_S"] @ x)
            density = lambda z: stats.norm.pdf(z) * stats.nbinom.pmf(given["counts"][n], given["size"], 1 / (1 + np.exp(m + s * z)))
            value, _ = integrate.quad(density, -12, 12, epsabs=0, epsrel=1e-11, limit=400, points=[0])
            assert np.isclose(arrays(c)["log_density"][n], np.log(value), rtol=1e-9), c.id


# ---- who offers it

def test_who_lacks_the_suite_does_not_offer_it():
    assert_not_offered("other outputs", [c for c in SUITE if c.level < 4] + [BY_ID["L2-update_x-general"]])


def test_who_declares_it_has_to_answer_it():
    able = {"profile": {"output": ["classes", "gaussian", "counts"]}, "ops": ["out_x"]}
    assert {c.id for c in SUITE} <= {c.id for c in verdicts.expected(able, "f64")}
    only = {**able, "profile": {"output": "counts"}}
    assert {c.profile["output"] for c in verdicts.expected(only, "f64") if c in SUITE} == {"counts"}


PARAMETRISATIONS = {"gamma": "scale", "gaussian": "precision", "V": "precision", "bias": "first", "layout": "columns", "sticks": "K", "classes": "reversed"}


@pytest.mark.parametrize("profile", [{}, *({key: value} for key, value in PARAMETRISATIONS.items()), PARAMETRISATIONS], ids=lambda p: "-".join(p) if len(p) < 7 else "all")
def test_other_parametrisations_are_converted_and_back(profile):
    wanted = {**{key: default for key, default in catalogue.default_profile().items() if key in PARAMETRISATIONS}, **profile}
    for c in (c for c in SUITE if c.op == "out_sweeps"):
        there = Conversion(c, wanted)
        state = {name: there.given[name] for name in c.out if name in there.given}
        back, problems, _ = there.back(state)
        assert not problems
        for name in state:
            np.testing.assert_allclose(*(np.array(v["data"] if isinstance(v, dict) else v, float) for v in (back[name], c.given[name])), rtol=1e-12, atol=1e-13, err_msg=f"{c.id} {name}")
        own = "W" if "W" in c.given else "C_mu"
        assert "bias" not in profile or there.given[own] != c.given[own], c.id
        assert all(there.given[name] == c.given[name] for name in ("W_a", "W_b", "counts") if name in c.given), c.id


# ---- bugs of the package

NOT_ASKED = ("out-line-start", "out-known", "out-count-start", "out-measured", "net-start", "net-stop", "net-problem", "net-shared", "net-kl-without-shared", "net-experts-about", "net-experts-sure",
             "net-weight-", "net-rows-", "net-another-")                                              # weights of rows, which no case has
CLOSED = ("reg-moments",)                                # the rest of the regressor is mixtures, quantiles, options and files
PLANTED = [("outputs", fault) for fault in FAULTS_OF_OUTPUTS if not fault[0].startswith(NOT_ASKED)]
PLANTED += [("regression", fault) for fault in FAULTS_OF_NETWORKS if not fault[0].startswith(NOT_ASKED)]
PLANTED += [("regressor", fault) for fault in FAULTS_OF_REGRESSORS if fault[0].startswith(CLOSED)]
QUICK = sorted((c for c in SUITE if c.op != "out_converge" and not (c.op == "out_density" and "two" in c.id and c.profile["output"] == "counts")), key=lambda c: (c.level, c.id))


@pytest.mark.slow                                        # test_own_package_passes asks it every case too
def test_the_package_as_it_is_is_right():
    assert [c.id for c in SUITE if not right(package(), c)] == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("module, fault", PLANTED, ids=lambda fault: fault if isinstance(fault, str) else fault[0])
def test_bug_of_the_package_is_found(module, fault, monkeypatch):
    name, old, new, _ = fault
    package()
    adapter = sys.modules["package_outputs"]
    changed = planted({"outputs": outputs, "regression": regression, "regressor": regressor}[module], old, new)
    monkeypatch.setattr(adapter, module, changed)
    if module == "outputs":                              # regression takes latent_posterior from it
        monkeypatch.setitem(sys.modules, outputs.__name__, changed)
        monkeypatch.setattr(adapter, "regression", planted(regression, f"no such text as {name}", None))
    assert any(not safely(package(), c) for c in QUICK), name


def test_bugs_of_the_package_are_many():
    assert len(PLANTED) >= 40
