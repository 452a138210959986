"""The study of depth: its plan is its protocol, its verdicts count what they say, and its rows are what they are called."""
import numpy as np
import pytest

from experiments import studies
from experiments.studies import depth as study


def scores(variant, gaps, dataset="iris", n=50, **metrics):
    return {study.Cell(dataset, n, variant, s): {"metrics": {"lpd": -1 + gap, **metrics}} for s, gap in zip(study.SPLITS, gaps)}


def test_plan_is_the_protocol():
    cells = study.plan()
    assert len(set(cells)) == len(cells) == 4 * 11 * 4 + 3 * 5 * 4
    assert {c.variant for c in cells[:3 * 10 * 4]} == {"1 layer", "2 layers", "1 layer, 12 experts"}     # the question first
    assert set(studies.records("depth")) <= set(cells)
    assert (set(studies.records("depth")) == set(cells)) is not getattr(study, "BEGUN", False)


def test_differences_are_paired_by_split():
    records = scores("1 layer", [0.0, 0.1, 0.2, 0.3]) | scores("2 layers", [0.1, 0.2, 0.3, 0.4]) | scores("3 layers", [0.2, -0.2, 0.2, 0.2])
    (mean, error), = study.differences(records, "2 layers").values()
    np.testing.assert_allclose([mean, error], [0.1, 0.0], atol=1e-12)
    assert study.verdict(records, "2 layers") == (1, 0, 1) and study.verdict(records, "1 layer", "2 layers") == (0, 1, 1)
    (mean, error), = study.differences(records, "3 layers").values()
    np.testing.assert_allclose([mean, error], [-0.05, np.std([0.2, -0.3, 0.0, -0.1], ddof=1) / 2], rtol=1e-12)
    assert study.verdict(records, "3 layers") == (0, 0, 1)


@pytest.mark.parametrize("train, fate", [(-0.7, True), (-0.61, True), (-0.59, False), (-0.2, False)])
def test_collapsed_is_less_than_half_of_what_one_layer_gains(train, fate):
    records = scores("1 layer", [0] * 4, train_lpd=-0.5, frequencies_lpd=-0.7) | scores("2 layers", [0] * 4, train_lpd=train, frequencies_lpd=-0.7)
    cell = study.Cell("iris", 50, "2 layers", study.SPLITS[0])
    assert study.collapsed(records, cell) is fate
    assert study.collapsed(records, cell._replace(variant="3 layers")) is None


def test_variants_are_what_the_protocol_says():
    made = {v: study.model(study.Cell("iris", 50, v, 40), 3) for v in (*study.ASKED, *(f"from {s}" for s in study.STARTS))}
    assert {v: (m.method, m.n_experts, (m.method_options or {}).get("layers"), (m.method_options or {}).get("hidden"), m.init) for v, m in made.items()} == {
        "1 layer": ("cavi", 6, None, None, "class-code"), "1 layer, 12 experts": ("cavi", 12, None, None, "class-code"),
        "2 layers": ("deep", 6, 2, "greedy", "class-code"), "3 layers": ("deep", 6, 3, "greedy", "class-code"),
        "from code": ("deep", 6, 2, "code", "class-code"), "from input": ("deep", 6, 2, "input", "class-code"), "from random": ("deep", 6, 2, "code", "random")}
    assert {m.max_sweeps for m in made.values()} == {100}


def test_made_rows_are_spirals_and_squares():
    rng = np.random.default_rng(0)
    X, y = study.make_spirals(500, rng, noise=0.0)
    radius, angle = np.hypot(*X.T) / 2, np.arctan2(X[:, 1], X[:, 0])
    off = (angle - 3 * np.pi * radius - np.pi * y) / (2 * np.pi)
    np.testing.assert_allclose(off, off.round(), atol=1e-9)
    X, y = study.make_checkerboard(500, rng)
    assert (y == (X[:, 0] // 1 + X[:, 1] // 1) % 2).all() and X.min() > 0 and X.max() < 4
    one, two = (study.rows_of(study.Cell("spirals", 200, "1 layer", s)) for s in (40, 41))
    assert [len(part) for part in one] == [200, 200, 200, 200] and not np.array_equal(one[0], two[0])
    X, y, X_test, y_test = study.rows_of(study.Cell("digits", 200, "1 layer", 40))
    assert X.shape == (200, 64) and len(y_test) == 200 and not {r.tobytes() for r in X} & {r.tobytes() for r in X_test}


def test_levels_are_of_what_all_networks_have():
    names = {"lpd": -1.0, "moments_lpd": -1.0, "accuracy": 0.5, "ece": 0.1, "elbo": -10.0, "in_use_1": 2.0}
    one = {v: {study.Cell("iris", 50, v, s): {"metrics": names | {"accuracy": 0.5 + 0.1 * (s == 40)}} for s in study.SPLITS} for v in study.ASKED}
    records = one["1 layer"] | one["2 layers"] | dict(list(one["1 layer, 12 experts"].items())[:1]) | dict(list(one["3 layers"].items())[:1])
    assert {(c.dataset, c.split) for c in study.common(records, study.ASKED)} == {("iris", 40)}
    text = repr(study.level_table(records))
    assert "3 layers" not in text and text.count("0.600") == 3
    assert "3 layers" in repr(study.level_table(records | one["3 layers"] | one["1 layer, 12 experts"]))


def test_report_has_every_network():
    lines = "\n".join(study.report(studies.records("depth")))
    assert all(v in lines for v in study.ASKED) and "two layers less one of twelve experts" in lines
