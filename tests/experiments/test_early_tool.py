"""tools/early.py: the choice uses training rows alone, and the record covers its plan."""
import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
early = pytest.importorskip("early", reason="tools/early.py needs scikit-learn")
from cmn_literate.experiments.grid import DATASETS, Cell, sizes  # noqa: E402
from cmn_literate.experiments.run import split  # noqa: E402


def test_record_covers_the_plan():
    stored = json.loads(Path("results/early.json").read_text())
    keys = [(r["dataset"], r["n_train"], r["seed"]) for r in stored["rows"]]
    assert sorted(keys) == sorted(early.planned()) and len(set(keys)) == len(keys)
    assert {key[:2] for key in keys} == {(d, n) for d in DATASETS for n in sizes(d)}
    assert {r["n_steps"] for r in stored["rows"]} <= set(early.STEPS) == set(stored["steps"])


def test_a_record_is_made_again():
    stored = [r for r in json.loads(Path("results/early.json").read_text())["rows"] if (r["dataset"], r["n_train"], r["seed"]) == ("iris", 25, 0)]
    again = early.run("iris", 25, 0)
    for name in ("n_steps", "accuracy", "lpd", "ece", "held_out_lpd"):
        assert again[name] == pytest.approx(stored[0][name], rel=1e-3), name


@pytest.fixture
def spied(monkeypatch):
    """What is fitted and scored, in order: ("fit", X, n_steps), ("score", X, None)."""
    seen = []

    class Spy(early.CMNClassifier):
        def fit(self, X, y):
            seen.append(("fit", X, self.method_options["n_steps"]))
            return super().fit(X, y)

        def predict_log_proba(self, X):
            seen.append(("score", X, None))
            return super().predict_log_proba(X)

    monkeypatch.setattr(early, "CMNClassifier", Spy)
    return seen


def test_the_choice_sees_no_test_row(spied, monkeypatch):
    monkeypatch.setattr(early, "STEPS", (2, 4))
    early.run("iris", 25, 0)
    data, train, test = split(Cell("iris", 25, "cavi", 0))
    assert [kind for kind, _, _ in spied[:5]] == ["fit", "score", "fit", "score", "fit"]
    for kind, X, _ in spied[:4]:
        assert np.array_equal(X, data.X[train[:20] if kind == "fit" else train[20:]])
    assert np.array_equal(spied[4][1], data.X[train]) and np.array_equal(spied[5][1], data.X[test])


def test_the_climb_ends_after_two_scores_that_are_no_better(spied, monkeypatch):
    scores = iter([-3.0, -1.0, -1.0, -2.0, -9.0])
    monkeypatch.setattr(early, "log_predictive_density", lambda *args, **options: next(scores))
    record = early.run("iris", 25, 0)
    assert [n for kind, _, n in spied if kind == "fit"] == [30, 60, 125, 250, 60]
    assert (record["n_steps"], record["climbed"], record["held_out_lpd"], record["lpd"]) == (60, 250, -1.0, -9.0)
