"""What stands about the study of defaults: when an ascent may stop, three questions to the candidates, and the figures."""
import matplotlib
import numpy as np
import pytest
from numpy.testing import assert_allclose

from experiments import default_figures as figures
from experiments import studies
from experiments.studies import defaults, goals, stops

matplotlib.use("Agg")


# ---- stops

def test_rules_are_what_the_protocol_says():
    trace = [0.0, *np.cumsum(0.9 ** np.arange(120))]                          # gains 1, .9, .81, ...
    gain = lambda n: trace[n - 1] - trace[n - 2]
    first = lambda rule: next((n for n in range(1, len(trace) + 1) if stops.met(rule, trace[:n])), None)
    n = first(("sweep", 0.05))
    assert gain(n) < 0.05 <= gain(n - 1)
    n = first(("window", 0.5))
    assert n > 20 and trace[n - 1] - trace[n - 21] < 0.5 <= trace[n - 2] - trace[n - 22]
    n = first(("doubling", 0.2))
    assert n >= 20 and trace[n - 1] - trace[n // 2 - 1] < 0.2 <= trace[n - 2] - trace[(n - 1) // 2 - 1]
    assert first(("doubling", 100.0)) == 20 and first(("sweep", 1e-9)) is None


def test_plan_of_stops_is_its_protocol():
    cells = stops.plan()
    assert len(set(cells)) == len(cells) == 13 * 4 * 2 + 12 * 4
    assert [c.model for c in cells[-48:]] == ["accelerated"] * 48 and not set(stops.SPLITS) & set(defaults.SPLITS)
    assert set(studies.records("stops")) <= set(cells)


def climbs(loss, sweeps, reached=True):
    """Records of stops in which rule i costs loss[i] nats and takes sweeps[i] sweeps."""
    metrics = {"stops": list(sweeps), "met": [reached] * len(sweeps), "lpd": [-1.0 - v for v in loss], "lpd_end": -1.0}
    return {c: {"metrics": metrics} for c in stops.plan() if c.model != "accelerated"}


def test_the_cheapest_rule_that_loses_little_is_trusted():
    n = len(stops.RULES)
    loss, sweeps = np.full(n, 0.1), np.arange(n) + 30
    loss[[4, 6]] = 0.001
    assert stops.trusted(climbs(loss, sweeps)) == [stops.RULES[4], stops.RULES[6]]
    assert stops.trusted(climbs(loss, sweeps + 500)) == stops.trusted(climbs(loss, sweeps, False)) == []
    records = climbs(loss, sweeps)
    for c in list(records):
        if c.dataset == "iris":                                              # one set may not lose much
            records[c] = {"metrics": {**records[c]["metrics"], "lpd": [-1.03] * n}}
    assert stops.trusted(records) == []
    mean, error, worst, most = stops.mean_loss(records, "paper", 4)
    assert_allclose([mean, error, most], [(12 * 0.001 + 0.03) / 13, 0, 0.03], atol=1e-9)
    assert worst == "iris"
    table = stops.rule_table(records, "paper")
    assert len(table.rows) == n and "iris" in table.rows[4][-1] and any("trusted: none" in line for line in stops.report(records))


def test_a_climb_is_scored_where_it_stops(monkeypatch):
    monkeypatch.setattr(stops, "LAST", 30)
    monkeypatch.setattr(stops, "LIMIT", 25)
    for model in stops.MODELS:
        found = stops.run(stops.Cell("moons", model, 26))["metrics"]
        assert len(found["stops"]) == len(found["lpd"]) == len(found["left"]) == len(stops.RULES)
        assert all(n == 30 for n, met in zip(found["stops"], found["met"]) if not met) and max(found["stops"]) <= 30
        assert found["lpd"][found["stops"].index(30)] == found["lpd_end"] and min(found["left"]) >= 0


# ---- goals

def test_plan_of_goals_is_its_protocol():
    assert set(studies.records("goals")) <= set(goals.plan()) and len(set(goals.plan())) == 2 * 8 + 3 + 4 + 3
    Z, y, Z_new, truth, L = goals.rows_of(goals.Cell("noise 3", 10, 2))
    assert Z.shape == (300, 30) and Z_new.shape == (300, 30) and L == 3 and set(y) == set(truth) == {0, 1, 2}
    assert abs(np.corrcoef(np.column_stack([Z, y]).T)[-1, :-1]).max() < 0.25                    # nothing to be learned
    Z, y, Z_new, truth, L = goals.rows_of(goals.Cell("digits", 10, 1))
    assert len(Z) == 1297 and len(truth) == 500 and L == 10
    assert "paper" in goals.asked(goals.Cell("noise 2", 10, 0)) and "paper" not in goals.asked(goals.Cell("digits", 10, 0))


def test_goals_are_paired_with_ridge():
    lpd = lambda i: [-1.0 - 0.1 * i, -0.9, None, -0.8, -0.7 + 0.01 * i, -0.7, None]
    records = {goals.Cell("digits", 10, i): {"metrics": {**dict.fromkeys(("lpd", "accuracy", "ece", "seconds"), lpd(i))}} for i in range(4)}
    table = goals.part_table(records, "digits", 10)
    assert [row[0] for row in table.rows] == [name for i, name in enumerate(goals.ASKED) if i not in (2, 6)]
    assert table.rows[3][2].startswith("+0.015 ± 0.006") and table.rows[0][3] == "-0.600" and table.rows[-1][2] == "–"
    assert "1 of" not in next(goals.report(records)) and any("4 draws" in line for line in goals.report(records))


# ---- figures

def study(gaps):
    """Records of the study of defaults on three splits of a pair, with a candidate's score above paper's by its gap."""
    names, found = list(defaults.CANDIDATES), {}
    for s in (10, 11, 12):
        lpd = [-1 + 0.1 * s + gaps.get(name, 0.0) for name in names]
        found[defaults.Cell("iris", 25, s)] = {"metrics": {"lpd": lpd, "seconds": [1.0] * 11, "scoring_seconds": [0.5 * (1 + (n == "mix")) for n in names]}}
    return found


def grid_of(gibbs, cavi):
    from experiments.grid import Cell
    record = lambda lpd: {"metrics": {"lpd": lpd}, "provenance": {"cpu_seconds": 7.0, "scoring_cpu_seconds": 1.0}}
    return {Cell("iris", 25, "gibbs", s): record(gibbs) for s in range(2)} | {Cell("iris", 25, "cavi", s): record(cavi) for s in range(2)}


def test_a_point_is_a_mean_over_splits_and_rivals_stand_by_their_difference():
    found = study({"mix": 0.3}), grid_of(-0.5, -0.9), {}
    mean, error, cost = figures.point(found, "iris", 25, "default", "mix")
    assert_allclose([mean, error, cost], [0.4, 0.1 / 3**0.5, 2.0])
    assert_allclose(figures.point(found, "iris", 25, "gibbs", "mix")[::2], [0.1 + 0.4, 8.0])
    assert figures.point(found, "iris", 25, "boosting", "mix") is None and figures.point(found, "iris", 50, "paper", "mix") is None


def test_front_is_what_none_beats_in_both():
    assert figures.front({"a": (1, 0.0), "b": (2, -1.0), "c": (3, 2.0), "d": (3, 1.0), "e": (5, 2.0)}) == ["a", "c"]


@pytest.mark.parametrize("own", [False, True])
def test_panels_take_axes_and_give_them_back(own):
    import matplotlib.pyplot as plt

    found = study({"mix": 0.3}), grid_of(-0.5, -0.9), {}
    ax = plt.subplots()[1] if own else None
    for draw in (lambda a: figures.rows_panel(found, "iris", "mix", a), lambda a: figures.cost_panel(found, "iris", 25, "mix", a)):
        out = draw(ax)
        assert out is ax or not own
        labels = out.get_legend_handles_labels()[1]
        assert {"the default", "paper's settings", "ridge", "Gibbs"} <= set(labels) and "boosting" not in labels
        assert out.get_title().startswith("iris")
    plt.close("all")


def test_figures_of_what_is_stored():
    import matplotlib.pyplot as plt

    found = figures.read()
    ax = figures.rows_panel(found, "pinwheels", "mix")
    assert {"the default", "paper's settings", "ridge"} <= set(ax.get_legend_handles_labels()[1])
    plt.close("all")
