"""Real data at the paper's hyper-parameters: held-out accuracy, log score and calibration, and the stored records."""

import json
import re
from functools import cache

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from results import evaluate
from tangle import ROOT

from cmn_literate.use.datasets import PAPER_RUNS
from cmn_literate.use.datasets import FILES, load
from cmn_literate.use.metrics import accuracy, ece_if_calibrated, log_predictive_density

DATA = ("iris", "wdbc", "vehicle", "pinwheels")
# least accuracy, least log score (nats per row), largest ECE of seed 0
ASKED = {"iris": (0.92, -0.20, 0.15), "wdbc": (0.94, -0.16, 0.08), "vehicle": (0.77, -0.50, 0.13), "pinwheels": (0.72, -0.85, 0.15)}


@cache
def run(name):
    return evaluate(name)


def data_or_skip(name):
    try:
        return load(name)
    except FileNotFoundError:
        pytest.skip(f"{name}.csv is not here: set CMN_DATA to the folder that holds it")


@pytest.mark.parametrize("name", DATA)
def test_held_out_scores(name):
    data_or_skip(name)
    report, model, train, test = run(name)
    print({key: round(value, 4) if isinstance(value, float) else value for key, value in report.items()})
    assert (len(train), len(test), model.n_experts) == PAPER_RUNS[name] and not set(train) & set(test)
    least, log_score, ece = ASKED[name]
    assert report["accuracy"] >= least and report["lpd"] >= log_score and report["ece"] <= ece
    assert len(np.unique(np.round(model.predict_proba(load(name).X[test[:20]]), 6), axis=0)) > 10


@pytest.mark.parametrize("name", DATA)
def test_against_neighbours_a_line_and_no_inputs(name):
    """No worse than three old acquaintances on the same rows, up to a margin (4 % of rows, 0.1 nat)."""
    data = data_or_skip(name)
    report, _, train, test = run(name)
    for other in (KNeighborsClassifier(15), LogisticRegression(max_iter=5000), DummyClassifier(strategy="prior")):
        p = make_pipeline(StandardScaler(), other).fit(data.X[train], data.y[train]).predict_proba(data.X[test])
        p = (p + 1e-3) / (p + 1e-3).sum(1, keepdims=True)                # neighbours say 0 too easily
        assert report["accuracy"] >= accuracy(data.y[test], p) - 0.04, other
        assert report["lpd"] >= log_predictive_density(data.y[test], p) - 0.1, other
    assert report["lpd"] > log_predictive_density(data.y[test], p) + 0.3   # the last one knows no inputs


def test_iris_and_wdbc_are_calibrated_as_far_as_anyone_can_tell():
    for name in ("iris", "wdbc"):
        report, model, _, test = run(name)
        chance = ece_if_calibrated(model.predict_proba(load(name).X[test]), np.random.default_rng(0))
        assert report["ece"] < np.quantile(chance, 0.99)


@pytest.mark.parametrize("record", ["vehicle", "classifier"])
def test_records_say_where_they_come_from(record):
    stored = json.loads((ROOT / "results" / f"{record}.json").read_text())
    assert stored["command"] == f"python tools/results.py {record}" and re.fullmatch(r"\d{4}-\d\d-\d\d", stored["date"])
    assert {"python", "numpy", "scipy", "scikit-learn", "cmn_literate"} <= set(stored["versions"])
    assert stored["sha256"] == {name: FILES[name].sha256 for name in stored["sha256"]}
    names = {r["data"] for r in stored["runs"]}
    assert names - {"pinwheels"} == set(stored["sha256"]) and names == ({"vehicle"} if record == "vehicle" else set(DATA))
    for r in stored["runs"]:
        assert (r["n_train"], r["n_test"]) == PAPER_RUNS[r["data"]][:2]
        assert 0 <= r["ece"] <= 1 and r["lpd"] < 0 and round(r["accuracy"] * r["n_test"]) / r["n_test"] == pytest.approx(r["accuracy"], abs=1e-4)
    if record == "classifier":
        assert sorted(r["seed"] for r in stored["runs"]) == sorted(list(range(5)) * 4)


@pytest.mark.parametrize("name", DATA)
def test_records_are_what_the_code_gives(name):
    data_or_skip(name)
    stored = json.loads((ROOT / "results/classifier.json").read_text())
    mine = next(r for r in stored["runs"] if r["data"] == name and r["seed"] == 0)
    report = run(name)[0]
    assert abs(report["accuracy"] - mine["accuracy"]) < 0.021 and abs(report["lpd"] - mine["lpd"]) < 0.02


def test_the_records_agree_with_each_other():
    one, both = (json.loads((ROOT / "results" / f"{name}.json").read_text())["runs"] for name in ("vehicle", "classifier"))
    assert one[0] in both


def test_a_record_is_made(tmp_path, monkeypatch):
    import results
    monkeypatch.setattr(results, "ROOT", tmp_path)
    monkeypatch.setitem(results.RECORDS, "small", (("iris",), (0,)))
    monkeypatch.setattr("results.evaluate", lambda name, seed: ({"data": name, "seed": seed, "lpd": -1 / 3},))
    results.main(["small"])
    made = json.loads((tmp_path / "results/small.json").read_text())
    assert made["runs"] == [{"data": "iris", "seed": 0, "lpd": -0.3333}] and made["sha256"] == {"iris": FILES["iris"].sha256}
    assert [p.name for p in (tmp_path / "results").iterdir()] == ["small.json"]
