"""Level G: generated inputs.  A right adapter keeps every law, and each planted bug breaks the law that is named."""

import json
import types
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from cmn_conformance import catalogue, generated, judged, laws, report, runner
from cmn_conformance.__main__ import main
from cmn_conformance.process import LocalAdapter, open_adapter

ROOT = Path(__file__).resolve().parents[2]
SOURCE = (ROOT / "conformance/adapters/numpy_minimal.py").read_text()


def adapter(*pieces, **profile):
    """numpy_minimal with pieces of its source exchanged: old, new, old, new, ..."""
    text = SOURCE
    for old, new in zip(pieces[::2], pieces[1::2]):
        assert old in text, old
        text = text.replace(old, new)
    module = types.ModuleType("planted")
    exec(compile(text, "planted.py", "exec"), module.__dict__)
    module.PROFILE = profile
    return LocalAdapter(module)


def verdicts(asked, seed=0, states=1, only=None):
    return {r["id"]: r for r in laws.run(asked, seed, states, only=only)[0]}


@pytest.mark.parametrize("seed", [0, 11])
def test_a_right_adapter_keeps_every_law(seed):
    found = verdicts(adapter(), seed)
    assert {r["id"]: [o["problem"] for o in r["outputs"]] for r in found.values() if r["verdict"] not in ("passed", "undeclared")} == {}
    assert {r["op"] for r in found.values() if r["verdict"] == "undeclared"} == {"predict", "log_likelihood"}
    assert len(found) > 120 and all(r["level"] == "G" for r in found.values())


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["cmn_literate", "conformance/adapters/numpy_minimal.py", "conformance/adapters/one_page.py"])
def test_adapters_keep_every_law_at_every_size(spec):
    found = {r["id"]: r for r in laws.run(open_adapter(str(ROOT / spec) if "/" in spec else spec, timeout=300.0), 5, 5)[0]}
    assert {i: r["message"] or r["outputs"] for i, r in found.items() if r["verdict"] not in ("passed", "undeclared")} == {}


PG_SERIES = "range(2, 15))"
PLANTED = {
    "rows after 64 dropped, update_x": (2, "LG-update_x-reference", ["    coins, kappa = tosses(y, len(beta1_mu))\n    omega, B, tau",
                                                                  "    y = np.where(np.arange(len(y)) < 64, y, 0)\n    coins, kappa = tosses(y, len(beta1_mu))\n    omega, B, tau"]),
    "rows after 64 dropped, update_beta0": (2, "LG-update_beta0-rows_add", ["def update_beta0(X, gamma, xi0, sigma0, **_):\n",
                                                                        "def update_beta0(X, gamma, xi0, sigma0, **_):\n    X, gamma, xi0 = X[:64], gamma[:64], xi0[:64]\n"]),
    "rows after 64 dropped, a table": (1, "LG-pg_mean-rows", ["    return b * theta(c)\n", "    return b * theta(c) * (np.arange(len(c)) < 64)\n"]),
    "labels above 5 clipped": (2, "LG-update_beta1-reference", ["np.eye(n_sticks + 1)[y]", "np.eye(n_sticks + 1)[np.minimum(y, 5)]"]),
    "labels above 5 clipped, the bound": (2, "LG-elbo_output-reference", ["np.eye(n_sticks + 1)[y]", "np.eye(n_sticks + 1)[np.minimum(y, 5)]"]),
    "series of pg_kl cut short": (1, "LG-pg_kl-reference", [PG_SERIES, "range(2, 8))"]),
    "series of pg_var cut short": (1, "LG-pg_var-reference", ["range(1, 10))", "range(1, 6))"]),
    "pg_mean by h^12 below 0.48": (1, "LG-pg_mean-reference", [
        "    return b * theta(c)\n", "    x, terms = np.abs(c) / 2, [1, -1 / 3, 2 / 15, -17 / 315, 62 / 2835, -1382 / 155925, 21844 / 6081075]\n"
        "    return b * np.where(x < 0.24, sum(a * x ** (2 * i) for i, a in enumerate(terms)) / 4, theta(c))\n"]),
    "sign of c": (1, "LG-pg_mean-even", ["np.maximum(np.abs(c), 1e-150)", "np.maximum(c, 1e-150)"]),
    "half angle": (1, "LG-pg_mean-derivative", ["np.tanh(c / 2) / (2 * c)", "np.tanh(c) / (4 * c)"]),
    "variance not linear in b": (1, "LG-pg_var-additive", ["    return b * np.where(small, series", "    return b**2 * np.where(small, series"]),
    "a stick too many": (1, "LG-stick_log_probs-sum", ["+ np.concatenate([stop, zero], -1)\n\n\ndef stick_counts",
                                                      "+ np.concatenate([stop, zero - 0.7], -1)\n\n\ndef stick_counts"]),
    "logits against all classes": (1, "LG-stick_logits-inverse", ["log_probs[..., j + 1:], axis=-1", "log_probs[..., j:], axis=-1"]),
    "rate for scale": (1, "LG-gamma_mean_log-units", ["digamma(a) - np.log(b)", "digamma(a) + np.log(b)"]),
    "KL upside down": (1, "LG-gaussian_kl-sign", ["- m + 2 * m * math.log(sigma) - log_det(S)) / 2\n\n\ndef gamma_mean_log",
                                                  "- m + 2 * m * math.log(sigma) - log_det(S)) / -2\n\n\ndef gamma_mean_log"]),
    "KL without ln sigma": (1, "LG-gaussian_kl-units", ["- m + 2 * m * math.log(sigma) - log_det(S)) / 2", "- m - log_det(S)) / 2"]),
    "v0 forgotten": (1, "LG-mng_kl-units", ["means = (a[:, None] / b * (M**2)", "means = (a[:, None] * (M**2)"]),
    "prior of the gate forgotten": (1, "LG-update_beta0-no_weight", ["gram + np.eye(gram.shape[-1]) / sigma**2)", "gram + np.eye(gram.shape[-1]))"]),
    "a0 of every row": (1, "LG-update_experts-rows_add", ["a0 + gamma.sum(0) / 2", "a0 + gamma.sum(0)**2 / 2"]),
    "b from the second moment": (1, "LG-update_experts-stationary", ["(M**2).sum(-1) / v0) / 2\n\n\n# ---- level 3", "(M**2).sum(-1)) / 2\n\n\n# ---- level 3"]),
    "z without entropy": (1, "LG-update_z-stationary", ["+ expert_bound(**s) + gaussian_entropy(s[\"Sigma\"]) + gate", "+ expert_bound(**s) + gate"]),
    "z lowers the bound": (1, "LG-update_z-stationary", ["np.exp(score - score.max(-1", "np.exp(2 * score - 2 * score.max(-1"]),
    "precision for covariance in x": (1, "LG-update_x-latent_units", ["np.eye(h) * tau[:, :, None]", "np.eye(h) / tau[:, :, None]"]),
    "first expert is special": (1, "LG-update_x-expert_order", ["    Sigma = np.linalg.inv(P)\n", "    P[:, 0] += np.eye(h)\n    Sigma = np.linalg.inv(P)\n"]),
    "order of the rows": (1, "LG-update_beta1-row_order", ["    gram = np.einsum(\"nk,nkl,nkde->lde\", gamma,",
                                                          "    gamma = gamma * np.linspace(0.5, 1, len(y))[:, None]\n    gram = np.einsum(\"nk,nkl,nkde->lde\", gamma,"]),
    "scores averaged over rows": (1, "LG-update_z-rows_in_two", ["    gamma = np.exp(score - score.max(-1", "    score = score - score.mean(0)\n    gamma = np.exp(score - score.max(-1"]),
    "mean for sum": (1, "LG-elbo_expert-rows_in_two", ["    return (gamma * expert_bound(**s)).sum()", "    return (gamma * expert_bound(**s)).mean()"]),
    "a term left out": (1, "LG-elbo-terms", ["return gains - kl_beta1(**s) - kl_beta0(**s)", "return gains - kl_beta1(**s)"]),
    "a first sweep unlike the others": (1, "LG-sweeps-compose", ["        s = sweep(s)\n        trace.append(elbo(**s))",
                                                                "        s = sweep({**s, \"xi1\": s[\"xi1\"] * (1 + len(trace))})\n        trace.append(elbo(**s))"]),
    "sweeps that fall": (1, "LG-sweeps-rises", ["        s = sweep(s)\n        trace.append(elbo(**s))", "        s = sweep(s)\n        trace.append(elbo(**s) - len(trace) * 1e3)"]),
    "bound of another state": (1, "LG-sweeps-own_bound", ["        s = sweep(s)\n        trace.append(elbo(**s))", "        trace.append(elbo(**s))\n        s = sweep(s)"]),
    "second moments without spread": (1, "LG-output_logits-reference", ["padded_second_moment(mu, Sigma), second_moment(beta1_mu, beta1_S))",
                                                                       "padded_second_moment(mu, Sigma), second_moment(beta1_mu, 0 * beta1_S))"]),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_breaks_the_law(name):
    states, broken, pieces = PLANTED[name]
    found = verdicts(adapter(*pieces), 0, states, [broken])
    assert found[broken]["verdict"] == "failed", found


def test_answers_of_another_shape_fail():
    found = verdicts(adapter("    return np.sqrt(gate_logits(X, beta0_mu, beta0_S)[1])", "    return np.sqrt(gate_logits(X, beta0_mu, beta0_S)[1]).T"),
                     only=["LG-update_omega0-reference"])["LG-update_omega0-reference"]
    assert found["verdict"] == "failed" and "shape (2, 7), expected (7, 2)" in found["message"]


def test_other_parametrisations_are_converted():
    scale = ["def gamma_mean_log(a, b):\n    return digamma(a) - np.log(b)", "def gamma_mean_log(a, b):\n    return digamma(a) + np.log(b)"]
    found = verdicts(adapter(*scale, gamma="scale"), only=["LG-gamma_mean_log"])
    assert {r["verdict"] for r in found.values()} == {"passed"}
    assert verdicts(adapter(gamma="scale"), only=["LG-gamma_mean_log-reference"])["LG-gamma_mean_log-reference"]["verdict"] == "failed"


def test_tilts_shared_by_the_experts():
    shared = ["    return np.sqrt(output_logits(mu, Sigma, beta1_mu, beta1_S)[1])\n\n\ndef update_omega0",
              "    return np.sqrt((_['gamma'][..., None] * output_logits(mu, Sigma, beta1_mu, beta1_S)[1]).sum(1))\n\n\ndef update_omega0"]
    found = verdicts(adapter(*shared, omega1="shared"), only=["LG-update_omega1"])
    assert found["LG-update_omega1-reference"]["verdict"] == "passed" and found["LG-update_omega1-row_order"]["verdict"] == "passed"
    assert verdicts(adapter(omega1="shared"), only=["LG-update_omega1-reference"])["LG-update_omega1-reference"]["verdict"] == "failed"


def test_inputs_follow_the_seed():
    one, two, other = (generated.Problem(seed, 3) for seed in (4, 4, 5))
    assert one.sizes == two.sizes and all(np.array_equal(one.given[name], two.given[name]) for name in generated.STATE)
    assert not np.array_equal(generated.Problem(4, 0).given["X"], generated.Problem(5, 0).given["X"]) and other.tag
    largest = generated.Problem(0, 1)
    assert largest.sizes == generated.LARGEST and set(largest.given["y"]) == set(range(8))


def test_a_run_with_a_seed_is_one_report(tmp_path, capsys):
    spec, out = str(ROOT / "conformance/adapters/numpy_minimal.py"), tmp_path / "out.json"
    assert main(["run", "--adapter", spec, "--in-process", "--op", "pg_mean", "--seed", "7", "--generated", "1", "--report", str(out)]) == 0
    found = json.loads(out.read_text())
    schema = json.loads((ROOT / "conformance/cmn_conformance/schema/report.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(found)
    assert [entry["level"] for entry in found["levels"]] == [0, "G"] and found["levels"][1]["suite"]["right"] == 5
    assert "generated inputs of seed 7, 1 states" in capsys.readouterr().out
    (tmp_path / "mistaken.py").write_text(SOURCE.replace("np.tanh(c / 2) / (2 * c)", "np.tanh(c / 2) / (2 * c + 1e-9)"))
    assert main(["run", "--adapter", str(tmp_path / "mistaken.py"), "--in-process", "--seed", "7", "--generated", "1", "--case", "LG-pg_mean"]) == 1
    assert "FAILED LG-pg_mean-derivative" in capsys.readouterr().out


def test_crashes_are_results(tmp_path):
    (tmp_path / "ends.py").write_text("import os\ndef pg_mean(b, c):\n    os._exit(3)\ndef pg_var(b, c):\n    raise RuntimeError('no')\n")
    found = {r["id"]: r for r in laws.run(open_adapter(str(tmp_path / "ends.py"), max_restarts=50), 0, 1)[0]}
    assert found["LG-pg_mean-even"]["verdict"] == "errored" and found["LG-pg_mean-even"]["kind"] == "crash"
    assert found["LG-pg_var-even"]["kind"] == "errored" and found["LG-elbo-terms"]["verdict"] == "undeclared"


def test_laws_have_a_source_and_ids_of_their_own():
    names = [entry.name for entry in laws.all_laws()]
    assert len(set(names)) == len(names) and all(name.startswith("LG-") for name in names)
    wishart = {name for name, op in catalogue.operations().items() if "nu" in laws.asked(op["in"])}             # of another algorithm
    optional = set(catalogue.operations()) - {c.op for c in catalogue.cases() if not catalogue.optional_suite(c.profile)}
    assert {entry.op for entry in laws.all_laws()} == set(catalogue.operations()) - {"stationarity", "converge"} - wishart - optional
    entry = judged.near("x", [1.0, np.nan], [1.0, 2.0], 0.1)
    assert not entry["ok"] and entry["index"] == [1] and entry["got"] == "nan"
    assert judged.at_most("x", 1.0, 2.0)["ok"] and not judged.at_most("x", np.nan, 2.0)["ok"] and report.label("G") == "G" and runner.exit_code
