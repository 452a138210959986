"""Level B: a right estimator passes what it promises, and each broken one is caught by the check that is named."""

import json
from pathlib import Path

import blackbox_estimators as planted
import blackbox_regressors as regressors
import jsonschema
import numpy as np
import pages
import pytest
from tangle import read_chapters

from cmn_conformance import blackbox, calibration, runner
from cmn_conformance.__main__ import main
from cmn_conformance.process import NotStarted

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(planted.__file__)


def ask(estimator, only=None, promises=(), params=None, **limits):
    return blackbox.run(blackbox.open_estimator(estimator, params, **limits), 0, blackbox.parse_promises(promises), only)


def bad(out):
    return {r["id"]: (r["verdict"], r["message"] or [o["problem"] for o in r["outputs"] if not o["ok"]]) for r in out["results"]
            if r["verdict"] not in ("passed", "undeclared")}


def test_a_right_mean_field_passes_every_check():
    out = ask(planted.Sticks, promises=["calibration"])
    assert bad(out) == {} and runner.exit_code(out) == 0
    assert [r["id"] for r in out["results"] if r["verdict"] == "undeclared"] == ["LB-class_order"]
    assert out["achieved"] == f"B: {len(out['results']) - 1} of {len(out['results'])} asked, {len(out['results']) - 1} right"
    assert out["problems"] == ["not promised, and so not asked: class_order"]
    schema = json.loads((ROOT / "conformance/cmn_conformance/schema/report.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(out)


BROKEN = {**{("classifier", name): entry for name, entry in planted.BROKEN.items()},
          **{("regressor", name): entry for name, entry in regressors.BROKEN.items()}}


@pytest.mark.parametrize("kind, name", BROKEN)
def test_a_broken_estimator_is_caught(kind, name):
    cls, check, verdict, params = BROKEN[kind, name]
    out = ask(cls, [check], params=params)
    found = {r["id"]: r["verdict"] for r in out["results"]}
    assert found[check] == verdict
    assert runner.exit_code(out) != (0 if "failed" in found.values() else 1)


def test_every_check_has_a_broken_estimator():
    for kind, broken in (("classifier", planted.BROKEN), ("regressor", regressors.BROKEN)):
        caught = {check for _, check, _, _ in broken.values()}
        assert len(broken) >= 20 and {check.name for check in blackbox.checks_of(kind)} == caught


LIBRARY = {
    "sklearn.linear_model:LogisticRegression": ["row_order", "column_order", "label_names", "class_order"],
    "sklearn.naive_bayes:GaussianNB": ["row_order", "label_names", "class_order"],
    "sklearn.neighbors:KNeighborsClassifier": ["row_order", "label_names"],
    "sklearn.ensemble:RandomForestClassifier": ["label_names"],
    "sklearn.neural_network:MLPClassifier": ["label_names"],
}
SMALLER = {"sklearn.ensemble:RandomForestClassifier": {"n_estimators": 20}, "sklearn.neural_network:MLPClassifier": {"hidden_layer_sizes": [30]}}


@pytest.mark.parametrize("spec", LIBRARY)
def test_what_a_library_promises_holds(spec):
    out = ask(spec, promises=LIBRARY[spec], params=SMALLER.get(spec), in_process=True)
    expected = {"LB-nan"} if "RandomForest" in spec else set()       # it takes NaN on purpose
    assert set(bad(out)) == expected and all(verdict == "warned" for verdict, _ in bad(out).values()) and runner.exit_code(out) == 0


def test_a_right_regressor_passes_every_check():
    out = ask(regressors.Evidence, promises=["calibration"])
    assert bad(out) == {} and runner.exit_code(out) == 0
    assert {r["verdict"] for r in out["results"]} == {"passed"} and out["problems"] == []
    assert out["adapter"]["profile"]["kind"] == "regressor"
    assert out["adapter"]["profile"]["gives"] == ["mean", "std", "density", "log_density", "cdf", "quantiles"]


@pytest.mark.parametrize("cls, gives", [(regressors.WidthOnly, ["mean", "std"]), (regressors.QuantilesOnly, ["quantiles"]),
                                        (regressors.LogDensityOnly, ["log_density"])])
def test_who_gives_less_is_asked_less(cls, gives):
    out = ask(cls)
    assert bad(out) == {} and out["adapter"]["profile"]["gives"] == gives
    assert {"LB-used", "LB-all_rows", "LB-alone"} <= {r["id"] for r in out["results"] if r["verdict"] == "passed"}


NOISELESS = {"LB-used", "LB-all_rows"}                   # nothing in it is noise: it goes through every row, and is sure between them


@pytest.mark.parametrize("spec, promises, expected", [
    ("sklearn.linear_model:BayesianRidge", ["row_order", "column_order", "calibration"], set()),
    ("sklearn.linear_model:BayesianRidge", ["units", "y_units"], {"LB-units", "LB-y_units"}),       # its priors are in the units of the data
    ("sklearn.linear_model:ARDRegression", ["row_order", "column_order"], set()),
    ("sklearn.gaussian_process:GaussianProcessRegressor", ["row_order", "column_order"], NOISELESS),
    (f"{HERE}:noisy_process", ["row_order", "column_order"], set())])
def test_what_a_library_forecasts(spec, promises, expected):
    assert set(bad(ask(spec, promises=promises, in_process=True))) == expected


OWN = {"n_experts": 2, "max_sweeps": 40}


def test_own_regressor_in_short():
    only = ["LB-shape", "LB-alone", "LB-seed", "LB-used", "LB-density", "LB-quantiles", "LB-cdf", "LB-y_units", "LB-trace", "LB-degenerate", "LB-nan"]
    out = ask("cmn_literate:CMNRegressor", only, ["y_units"], OWN, in_process=True)
    assert bad(out) == {} and {r["verdict"] for r in out["results"]} == {"passed"}


@pytest.mark.slow
@pytest.mark.parametrize("link, promises", [("identity", ["units", "column_order", "y_units", "calibration"]), ("learned", ["y_units"])])
def test_own_regressor_keeps_its_promises(link, promises):
    assert bad(ask("cmn_literate:CMNRegressor", promises=promises, params={**OWN, "n_experts": 3, "link": link}, in_process=True)) == {}


def test_kind_can_be_named(capsys):
    spec = f"{HERE}:Both"
    assert main(["run", "--estimator", spec, "--in-process", "--case", "LB-shape"]) == 0
    assert main(["run", "--estimator", spec, "--in-process", "--case", "LB-density_integral", "--kind", "regressor"]) == 0
    assert "1 passed" in capsys.readouterr().out
    assert main(["run", "--estimator", spec, "--kind", "regressor", "--case", "LB-shape"]) == 0
    assert main(["run", "--estimator", f"{HERE}:Sticks", "--kind", "regressor", "--in-process"]) == 2
    assert "a density or quantiles, got Sticks without" in capsys.readouterr().err
    assert main(["run", "--estimator", f"{HERE}:Sticks", "--promise", "y_units", "--in-process"]) == 2
    assert "of a classifier, got 'y_units'" in capsys.readouterr().err


@pytest.mark.slow
def test_own_estimator_keeps_its_promises():
    out = ask("cmn_literate:CMNClassifier", promises=["units", "label_names", "prior", "calibration"],
              params={"n_experts": 3, "max_sweeps": 60}, in_process=True)
    assert bad(out) == {}


def test_own_estimator_in_short():
    out = ask("cmn_literate:CMNClassifier", ["LB-sum", "LB-alone", "LB-seed", "LB-trace", "LB-one_row", "LB-used", "LB-label_names"],
              ["prior", "label_names"], {"n_experts": 2, "max_sweeps": 20}, in_process=True)
    assert bad(out) == {} and sum(r["verdict"] == "passed" for r in out["results"]) == 8


def test_a_promise_not_made_is_not_asked():
    out = ask("sklearn.linear_model:LogisticRegression", ["LB-units"], in_process=True)
    (only,) = out["results"]
    assert only["verdict"] == "undeclared" and only["message"].startswith("not promised: units") and "units" in out["problems"][0]
    assert runner.exit_code(out) == 2
    assert set(bad(ask("sklearn.linear_model:LogisticRegression", ["LB-units"], ["units"], in_process=True))) == {"LB-units"}


def test_a_process_of_its_own_survives_crashes_and_hangs():
    out = ask(f"{HERE}:Crashes", ["LB-eight", "LB-sum"], timeout=30.0)
    assert {r["id"]: (r["verdict"], r["kind"]) for r in out["results"]} == {"LB-sum": ("passed", ""), "LB-eight_classes": ("errored", "crash")}
    out = ask(f"{HERE}:Hangs", ["LB-eight"], timeout=5.0, first_timeout=5.0)
    assert bad(out)["LB-eight_classes"][0] == "errored" and out["results"][0]["kind"] == "timeout"
    assert bad(ask(f"{HERE}:Chatty", ["LB-sum"])) == {}


def test_command_line(tmp_path, capsys):
    report = tmp_path / "out.json"
    assert main(["run", "--estimator", f"{HERE}:made", "--in-process", "--param", "sigma=0.5", "--case", "LB-sum", "--report", str(report)]) == 0
    words = capsys.readouterr().out
    assert "black box" in words and "not promised, and so not asked: class_order, calibration" in words
    assert json.loads(report.read_text())["adapter"]["profile"]["promises"] == ["column_order", "label_names", "prior", "row_order", "units"]
    assert main(["run", "--estimator", f"{HERE}:RawColumns", "--in-process", "--case", "LB-units"]) == 1
    assert "FAILED LB-units" in capsys.readouterr().out
    assert main(["run", "--estimator", f"{HERE}:TakesNaN", "--in-process", "--case", "LB-nan", "--case", "LB-sum"]) == 0
    assert "WARNED LB-nan" in capsys.readouterr().out


@pytest.mark.parametrize("arguments, words", [
    (["--promise", "speed"], "--promise: expected one of row_order"), (["--promise", "prior=0.5,0.6"], "sum to one"),
    (["--param", "sigma"], "--param: expected name=value"), (["--param", "width=3"], "unexpected keyword argument 'width'"),
    (["--case", "LB-none"], "no check of level B")])
def test_wrong_requests(arguments, words, capsys):
    assert main(["run", "--estimator", f"{HERE}:Sticks", "--in-process", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_what_is_no_estimator():
    with pytest.raises(NotStarted, match="without predict_proba"):
        blackbox.open_estimator(planted.NoProbabilities)
    with pytest.raises(NotStarted, match="without predict_proba"):
        ask(f"{HERE}:NoProbabilities")
    with pytest.raises(NotStarted, match=r"or with|or fit and predict\(X, return_std=True\)"):
        blackbox.open_estimator(regressors.PointOnly)


def test_equations_are_in_the_book():
    where = {label: path for label, path in pages.equations(read_chapters(ROOT))}
    for check in blackbox.checks_of("classifier") + blackbox.checks_of("regressor"):
        label = check.eq["label"]
        assert check.eq["link"] == f"{where[label].removesuffix('.ipynb')}.html#equation-{label}", check.name


def test_calibration_is_of_the_prior():
    """No class is favoured, to 5 standard errors; the gap of a mean field is small and positive."""
    rng = np.random.default_rng(0)
    share = np.mean([calibration.draw_network(rng, 1)[1][0] for _ in range(2000)])
    assert abs(share - 0.5) < 5 * 0.5 / np.sqrt(2000)
    assert 0.001 < calibration.mean_field_gap(rng, sets=4, grid=61) < 0.05
