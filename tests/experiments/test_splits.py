"""The study of splits: what a split is, and what the tables make of records."""
import numpy as np
import pytest

from experiments import grid, run, store, studies
from experiments.studies import splits


def record(value):
    return {"metrics": {"lpd": value, "accuracy": value, "ece": value}, "provenance": {"cpu_seconds": 1.0}}


def cells(values):
    """{(method, split): [value of each seed]} as records of iris with 25 rows."""
    return {splits.Cell("iris", 25, m, s, seed): record(v) for (m, s), row in values.items() for seed, v in enumerate(row)}


def test_split_0_is_that_of_the_grid_and_the_others_are_others():
    cell = grid.Cell("iris", 50, "cavi", 0)
    try:
        (_, train, test), pairs = run.split(cell), [run.split(cell, number=k)[1:] for k in range(splits.SPLITS)]
    except FileNotFoundError as error:
        pytest.skip(str(error).splitlines()[0])
    assert np.array_equal(train, pairs[0][0]) and np.array_equal(test, pairs[0][1])
    assert all(not set(a) & set(b) and (len(a), len(b)) == (50, 50) for a, b in pairs)
    assert len({tuple(sorted(b)) for _, b in pairs}) == len({tuple(a) for a, _ in pairs}) == splits.SPLITS


def test_the_plan_has_the_three_methods_on_the_same_splits():
    plan = splits.plan()
    assert len(plan) == len(set(plan)) and {cell.method for cell in plan} == set(splits.METHODS)
    for dataset in grid.DATASETS:
        assert set(splits.sizes_of(dataset)) <= set(grid.sizes(dataset)) and len(splits.sizes_of(dataset)) == 3
        for n in splits.sizes_of(dataset):
            mine = {m: {c.split for c in plan if c[:3] == (dataset, n, m)} for m in splits.METHODS}
            mine = {m: found for m, found in mine.items() if found or m != "mle-network" or n <= 128}      # dear beyond the middle size
            assert set(map(frozenset, mine.values())) == {frozenset(range(splits.SPLITS))}


def test_deviations_over_splits_and_over_seeds():
    found = splits.spreads(cells({("cavi", 0): [0.0, 0.2], ("cavi", 1): [1.0, 1.4], ("cavi", 2): [2.0], ("ridge", 0): [3.0], ("ridge", 1): [5.0]}),
                           "lpd")
    one = found["iris", 25, "cavi"]
    assert one.mean == pytest.approx((0.1 + 1.2 + 2.0) / 3) and one.over_splits == pytest.approx(np.std([0.1, 1.2, 2.0], ddof=1))
    assert one.over_seeds == pytest.approx(np.sqrt((0.02 + 0.08) / 2)) and one.ratio == pytest.approx(one.over_splits / one.over_seeds)
    assert (one.splits, one.seeds) == (3, 1) and np.isnan(one.grid_error)
    assert one.between == pytest.approx(np.sqrt(one.over_splits**2 - one.over_seeds**2))
    assert found["iris", 25, "ridge"].over_seeds == 0 and found["iris", 25, "ridge"].ratio == np.inf


def test_one_seed_here_takes_the_spread_over_seeds_of_the_grid():
    mine = cells({("cavi", 0): [0.0], ("cavi", 1): [1.0]})
    theirs = {grid.Cell("iris", 25, "cavi", s): record(v) for s, v in enumerate([1.0, 2.0, 3.0])}
    assert np.isnan(splits.spreads(mine, "lpd")["iris", 25, "cavi"].over_seeds)
    assert splits.spreads(mine, "lpd", theirs)["iris", 25, "cavi"][2:] == (1.0, pytest.approx(1 / np.sqrt(3)), 2, 1)
    assert splits.spreads(mine, "lpd", theirs)["iris", 25, "cavi"].too_small == pytest.approx(np.sqrt(0.5) * np.sqrt(3))
    assert splits.spreads(mine, "lpd", theirs)["iris", 25, "cavi"].between == 0


def test_differences_are_paired_by_split():
    records = cells({("cavi", 0): [1.0, 3.0], ("cavi", 1): [7.0], ("cavi", 2): [0.0], ("mle-network", 0): [1.0], ("mle-network", 1): [8.0],
                     ("mle-network", 3): [9.0]})
    assert splits.paired(records, "lpd") == {("iris", 25): pytest.approx((0.0, np.sqrt(2), 1.0, 2, 1))}
    assert splits.paired(records, "lpd", "cavi", "ridge") == {}


def test_the_tables_say_who_is_ahead_of_a_number_that_should_be_low():
    records = cells({("cavi", 0): [1.0], ("cavi", 1): [2.0], ("mle-network", 0): [0.0], ("mle-network", 1): [0.0]})
    assert splits.gap_table(records, "lpd").rows[0][2:] == ["+1.500 ± 0.500", "2 of 2", "–", "–"]
    assert splits.gap_table(records, "ece").rows[0][3] == "0 of 2"
    assert [row[2] for row in splits.spread_table(records, "ece").rows] == ["cavi", "mle-network"]


def test_split_0_repeats_the_grid():
    """The same fit of the same rows: what is stored here is what the grid has."""
    here, there = studies.records("splits"), studies.records("cells")
    assert len(here) > 100 and all(store.log_p(r) is not None for r in here.values())
    both = [(r, there[key]) for c, r in here.items() if c.split == 0 and (key := grid.Cell(*c[:3], c.seed)) in there]
    assert len(both) > 12
    for mine, theirs in both:
        slack = 1e-4 if mine["cell"]["method"] == "cavi" else 5e-2 * max(1, abs(theirs["metrics"]["lpd"]))
        assert mine["metrics"]["lpd"] == pytest.approx(theirs["metrics"]["lpd"], abs=slack)


def test_the_stored_truth_scores_every_record():
    """The classes that are kept beside the records give each record's own log score."""
    for cell, record in studies.records("splits").items():
        labels, log_p = splits.truth(cell.dataset, cell.split), store.log_p(record)
        assert abs(log_p[np.arange(len(labels)), labels].mean() - record["metrics"]["lpd"]) < 2e-3
