"""The study of regressors: its plan is its protocol, its densities are densities, its verdicts count what they say."""
import numpy as np
import pytest
from scipy import stats

from experiments import studies
from experiments.compare import compare_metrics
from experiments.studies import regression as study


def test_plan_is_the_protocol_and_whole():
    cells = study.plan()
    assert len(set(cells)) == len(cells) == 5 * 4 * 8
    found = studies.records("regression")
    assert set(found) == set(cells) if not study.BEGUN else set(found) < set(cells)
    assert study.present(found)[:3] == ["cmn", "gp", "ridge"] and study.n_splits(found) >= 4


def test_rows_are_standardised_and_apart():
    for name in study.SETS:
        X, y, X_new, y_new, sha256 = study.rows(name, 3)
        assert len(y) <= 300 and len(y_new) <= 250 and len(X) == len(y) and len(X_new) == len(y_new)
        np.testing.assert_allclose([y.mean(), y.std()], [0, 1], atol=1e-12)
        np.testing.assert_allclose(X.std(0), 1, atol=1e-12)
        assert not {tuple(row) for row in X} & {tuple(row) for row in X_new} or name == "iris"      # iris has a row twice
        assert sha256 == study.rows(name, 3)[-1] != study.rows(name, 4)[-1]


def test_density_by_quantiles_is_one():
    q = np.random.default_rng(0).normal(size=(1, 19)).repeat(4001, 0)
    q[:, 3] = q[:, 4]                                           # two that coincide
    y = np.linspace(-40, 40, 4001)
    middle, spread, log_p = study.by_quantiles(q, y)
    assert np.exp(log_p).sum() * (y[1] - y[0]) == pytest.approx(1, abs=0.02)
    assert (np.diff(spread[0]) >= study.NARROW - 1e-12).all() and middle[0] == np.sort(q[0])[9] == spread[0, 9]
    for i in (0, 9, 18):
        assert np.exp(log_p[y <= spread[0, i]]).sum() * (y[1] - y[0]) == pytest.approx(study.LEVELS[i], abs=0.03)


def test_scores_of_a_normal_forecast():
    rng = np.random.default_rng(1)
    y = rng.normal(size=20_000)
    found = study.scores(*study.by_normal(np.zeros(20_000), np.ones(20_000), y), y)
    assert found["cover50"] == pytest.approx(0.5, abs=0.02) and found["cover90"] == pytest.approx(0.9, abs=0.02)
    assert found["lpd"] == pytest.approx(-stats.norm().entropy(), abs=0.03) and found["rmse"] == pytest.approx(1, abs=0.03)
    assert found["crps"] == pytest.approx(1 / np.sqrt(np.pi), rel=0.05)      # 0.564 for a standard normal


def test_verdict_counts_sets():
    def records(method, gap):
        return {study.Cell(d, method, s): {"metrics": {"lpd": gap + 0.01 * (s % 2), "crps": -gap}, "provenance": {"cpu_seconds": 1.0, "scoring_cpu_seconds": 2.0}}
                for d in study.SETS for s in study.SPLITS}
    found = records("cmn", 0.2) | records("gp", 0.1) | records("ridge", 0.2)
    assert study.verdict(found, "cmn", "gp") == (5, 0, 5) and study.verdict(found, "gp", "cmn") == (0, 5, 5) and study.verdict(found, "cmn", "ridge") == (0, 0, 5)
    assert study.verdict(found, "cmn", "gp", "crps") == (5, 0, 5)
    assert study.level(found, "iris", "gp", "seconds") == (3.0, 0.0)


@pytest.mark.parametrize("cell", [("iris", "ridge", 0), ("iris", "cmn", 1)])
def test_a_cell_comes_out_as_it_is_stored(cell):
    cell, stored = study.Cell(*cell), studies.records("regression")
    assert compare_metrics(stored[cell], study.run(cell), study.TOLERANCE) == []


def test_report_has_every_method():
    lines = "\n".join(study.report(studies.records("regression")))
    assert all(word in lines for word in (*study.present(studies.records("regression")), *study.SETS, "CRPS", "better"))
