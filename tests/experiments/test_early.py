"""The study of maximum likelihood that stops early: the choice uses training rows alone, and its numbers come out again."""
import numpy as np
import pytest

from experiments import grid, studies
from experiments.grid import DATASETS, sizes
from experiments.run import split
from experiments.studies import early

CELL = early.Cell("iris", 25, 0)


def test_what_is_stored_covers_all_sizes():
    stored = studies.records("early")
    assert {cell[:2] for cell in stored} == {(d, n) for d in DATASETS for n in sizes(d)}
    assert {r["metrics"]["n_steps"] for r in stored.values()} <= set(early.STEPS)
    assert all(r["setting"]["steps"] == list(early.STEPS) for r in stored.values())


def test_a_record_is_made_again():
    stored, again = studies.records("early")[CELL]["metrics"], early.run(CELL)["metrics"]
    for name in ("n_steps", "accuracy", "lpd", "ece", "held_out_lpd"):
        assert again[name] == pytest.approx(stored[name], rel=1e-3), name


@pytest.fixture
def spied(monkeypatch):
    """What is fitted and scored, in order: ("fit", X, n_steps), ("score", X, None)."""
    seen = []

    from cmn_literate.use.classifier import CMNClassifier

    class Spy(CMNClassifier):
        def fit(self, X, y):
            seen.append(("fit", X, self.method_options["n_steps"]))
            return super().fit(X, y)

        def predict_log_proba(self, X):
            seen.append(("score", X, None))
            return super().predict_log_proba(X)

    monkeypatch.setattr("cmn_literate.use.classifier.CMNClassifier", Spy)
    return seen


def test_the_choice_sees_no_test_row(spied, monkeypatch):
    monkeypatch.setattr(early, "STEPS", (2, 4))
    early.run(CELL)
    data, train, test = split(grid.Cell("iris", 25, "cavi", 0))
    assert [kind for kind, _, _ in spied[:5]] == ["fit", "score", "fit", "score", "fit"]
    for kind, X, _ in spied[:4]:
        assert np.array_equal(X, data.X[train[:20] if kind == "fit" else train[20:]])
    assert np.array_equal(spied[4][1], data.X[train]) and np.array_equal(spied[5][1], data.X[test])


def test_the_climb_ends_after_two_scores_that_are_no_better(spied, monkeypatch):
    scores = iter([-3.0, -1.0, -1.0, -2.0])
    monkeypatch.setattr(early, "log_predictive_density", lambda *args, **options: next(scores))
    metrics = early.run(CELL)["metrics"]
    assert [n for kind, _, n in spied if kind == "fit"] == [30, 60, 125, 250, 60]
    assert (metrics["n_steps"], metrics["climbed"], metrics["held_out_lpd"]) == (60, 250, -1.0)
