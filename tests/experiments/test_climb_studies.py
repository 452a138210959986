"""The studies of climbs, of moves, of defaults and of hints: their plans are their protocols, and their verdicts count what they say."""
import numpy as np
import pytest

from experiments import studies
from experiments.grid import DATASETS, sizes
from experiments.studies import climbs, defaults, leads, moves, shared_means, stops


def test_plans_are_the_protocols():
    cells = defaults.plan()
    assert len(defaults.PAIRS) == 45 == sum(len(sizes(d)) for d in DATASETS)
    assert len(set(cells)) == len(cells) == 45 * 16 + 12 * 16
    assert cells[:4] == [cells[0]._replace(split=s) for s in range(10, 14)]
    first = cells[:45 * 4]
    assert {c[:2] for c in first} == set(defaults.PAIRS) and {c.split for c in first} == {10, 11, 12, 13}       # balanced after a quarter
    assert all(c.dataset in defaults.HELD_OUT for c in cells[45 * 16:])
    assert not {c.split for c in cells} & set(shared_means.SPLITS) and not set(climbs.SPLITS) & {c.split for c in cells}
    assert len(set(climbs.plan())) == 24 and set(studies.records("climbs")) <= set(climbs.plan())
    assert set(studies.records("defaults")) <= set(cells)
    assert moves.plan() == climbs.plan() and set(studies.records("moves")) <= set(moves.plan())


@pytest.mark.parametrize("dataset", list(defaults.HELD_OUT))
def test_sets_of_the_verdict_have_rows_enough(dataset):
    for n in defaults.HELD_OUT[dataset]:
        Z, y, Z_new, y_new, _ = defaults.rows_of(defaults.Cell(dataset, n, 10))
        assert len(Z) == len(y) == n and 60 <= len(Z_new) == len(y_new) <= 1000
        assert set(y_new) <= set(y) and np.abs(Z.mean(0)).max() < 1e-6
    again = defaults.rows_of(defaults.Cell(dataset, n, 11))[0]
    assert again.shape == Z.shape and not np.array_equal(again, Z)


def made(gaps, cost=None, splits=defaults.SPLITS):
    """Records in which a candidate's log score is above paper's by its gap, plus a little noise that all splits have."""
    names, rng = list(defaults.CANDIDATES), np.random.default_rng(0)
    found = {}
    for s in splits:
        for d, n in (*defaults.PAIRS, *defaults.held_pairs()):
            lpd = [-1 + gaps.get(name, -0.1) * (name != "paper") + 1e-4 * rng.normal() for name in names]
            seconds = [(cost or {}).get(name, 1.0) for name in names]
            found[defaults.Cell(d, n, s)] = {"metrics": {**dict.fromkeys(("lpd", "accuracy", "ece", "brier"), lpd), "seconds": seconds,
                                                         "scoring_seconds": seconds}}
    return found


def test_the_best_is_chosen_unless_a_cheaper_one_is_as_good():
    assert defaults.choice(made({"mix": 0.2, "tempered": 0.1})) == "mix"
    assert defaults.choice(made({"mix": 0.2, "tempered": 0.2}, {"tempered": 0.1, "mix": 1.0, "paper": 0.1})) == "tempered"
    assert defaults.choice(made({"ridge": 9.0, "shared": 0.1})) == "shared"                  # never from outside
    mean, error, each, errors = defaults.gains(defaults.scores(made({"mix": 0.2})), "mix")
    assert abs(mean - 0.2) < 1e-3 and 0 < error < 1e-4 and each.shape == errors.shape == (45,)


def test_the_report_is_silent_until_all_pairs_are_there():
    part = {cell: r for cell, r in made({"mix": 0.2}, splits=range(10, 14)).items() if cell.dataset in DATASETS}
    lines = "\n".join(defaults.report(part))
    assert "180 of 720" in lines and "4 of 16" in lines and "chosen" not in lines and "mix" in lines
    whole = made({"mix": 0.2})
    lines = "\n".join(defaults.report(whole))
    assert "chosen: mix" in lines and "stands" in lines and "ahead of ridge on 6 of 6" in lines
    del whole[defaults.Cell("moons", 30, 25)]
    assert "held out" not in "\n".join(defaults.report(whole))
    assert len(list(defaults.report({}))) == 1


def test_gains_of_the_climbs_are_paired():
    records = {cell: {"metrics": {"lpd": {way: -1 + 0.1 * i * (1 + cell.split - 26) for i, way in enumerate(climbs.WAYS)}}} for cell in climbs.plan()}
    mean, error, each = climbs.gains(records)["gibbs"]
    np.testing.assert_allclose([mean, error], [0.25, np.std([0.1, 0.2, 0.3, 0.4], ddof=1) / 2], rtol=1e-9)
    assert each.shape == (6,) and climbs.complete(records) == list(climbs.SPLITS)
    del records[climbs.Cell("iris", 50, 27)], records[climbs.Cell("iris", 50, 28)]
    assert climbs.complete(records) == [26, 29] and np.isnan(climbs.gains(records)["gibbs"][1])
    assert "0 of 4" in next(climbs.report({}))


def test_gains_of_the_moves_are_paired():
    number = lambda c, i: 0.1 * i * (1 + c.split - 26)
    records = {cell: {"metrics": {"lpd": {way: -1 + number(cell, i) for i, way in enumerate(moves.WAYS)},
                                  "bounds": {way: -50.0 + 10 * i for i, way in enumerate(moves.WAYS)}, "in_use": dict.fromkeys(moves.WAYS, 3),
                                  "accepted": {"births": cell.split - 26, "merges": 2, "births after merges": 0}}} for cell in moves.plan()}
    mean, error, each = moves.gains(records)["births"]
    np.testing.assert_allclose([mean, error], [0.25, np.std([0.1, 0.2, 0.3, 0.4], ddof=1) / 2], rtol=1e-9)
    assert each.shape == (6,) and moves.accepted(records) == {"births": 1.5, "merges": 2.0, "births after merges": 0.0}
    rows = {row[0]: row for row in moves.move_table(records).rows}
    assert rows["merged"][-2:] == ["+20", "3.0"] and rows["births"][2].startswith("+25.0")
    del records[moves.Cell("iris", 50, 27)], records[moves.Cell("iris", 50, 28)]
    assert moves.complete(records) == [26, 29] and np.isnan(moves.gains(records)["births"][1])
    assert "0 of 4" in next(moves.report({}))


def test_every_way_begins_and_ends_as_the_protocol_says(monkeypatch):
    from cmn_literate.beyond.climbs import damped
    from cmn_literate.engineering.fit import begin
    from cmn_literate.engineering.sums import block_sweep
    from cmn_literate.network.simulate import Priors

    monkeypatch.setattr(moves, "SWEEPS", 8)
    rng = np.random.default_rng(0)
    Z, y = rng.normal(size=(30, 2)), np.arange(30) % 3
    ends, accepted = moves.moves(Z, y, 3, 3, Priors(), 5)
    assert tuple(ends) == moves.WAYS and set(accepted) == {"births", "merges", "births after merges"}
    begun = begin(Z, y, 3, n_classes=3)
    for way, half, whole in (("half steps", 16, 0), ("half steps first", 2, 7), ("class code", 0, 8)):
        blocks, p = begun.blocks, begun.parameters
        for _ in range(half):
            blocks, p, bound = damped(blocks, p, Priors(), 0.5)
        for _ in range(whole):
            blocks, p, bound = block_sweep(blocks, p, Priors())
        np.testing.assert_allclose(ends[way][1], bound, rtol=1e-9)
        np.testing.assert_allclose(ends[way][0].M, p.M, rtol=1e-7, atol=1e-9)
    assert ends["block by block"][1] > ends["class code"][1] - 5


def test_what_two_studies_made_of_the_same_rows_is_the_same():
    first, again = studies.records("climbs"), studies.records("moves")
    for cell, record in again.items():
        for way in ("class code", "merged"):
            for name, slack in (("lpd", 2e-3), ("bounds", 0.1), ("in_use", 0)):
                assert abs(record["metrics"][name][way] - first[cell]["metrics"][name][way]) <= slack, (cell, way, name)
        bounds, accepted = record["metrics"]["bounds"], record["metrics"]["accepted"]
        assert all(np.isfinite(list(record["metrics"]["lpd"].values()))) and set(bounds) == set(moves.WAYS)
        assert accepted["merges"] == first[cell]["metrics"]["merges"] and min(accepted.values()) >= 0


def test_stored_numbers_make_their_tables():
    records = studies.records("climbs")
    if climbs.complete(records):
        assert all(way in repr(climbs.way_table(records)) for way in climbs.WAYS) and "vehicle" in repr(climbs.number_table(records))
    assert all(way in repr(moves.move_table(studies.records("moves"))) for way in moves.WAYS)
    for record in studies.records("defaults").values():
        assert all(len(record["metrics"][name]) == len(defaults.CANDIDATES) for name in (*defaults.NAMES, *defaults.TIMED))


@pytest.mark.slow
def test_a_cell_of_each_comes_out_as_it_is_stored():
    from experiments import harness
    from experiments.compare import compare_metrics

    for name, cell in (("climbs", climbs.Cell("iris", 50, 26)), ("moves", moves.Cell("iris", 50, 26)), ("defaults", defaults.Cell("pinwheels", 50, 10))):
        module, stored = studies.study(name), studies.records(name)
        again = harness.make(name, module, cell, stored)
        assert compare_metrics(stored[cell], again, module.TOLERANCE, getattr(module, "TIMED", ())) == []


def test_hints_are_measured_again_on_splits_of_their_own():
    cells = leads.plan()
    assert len(set(cells)) == len(cells) == 44 and set(leads.PAIRS) <= set(defaults.PAIRS)
    seen = {c.split for s in (defaults, climbs, moves) for c in s.plan()} | set(shared_means.SPLITS) | set(stops.SPLITS)
    assert not seen & set(leads.SPLITS)
    records = {c: {"metrics": {name: [0.1 * i * (1 + c.split - 30) - 2 for i in range(12)] for name in ("lpd", "accuracy", "ece", *leads.TIMED)}} for c in cells}
    assert len(leads.CANDIDATES) == 12 and list(leads.CANDIDATES)[1] == "ridge"
    mean, error, each, errors = leads.gains(records, "ridge")
    np.testing.assert_allclose([mean, error], [0.25, np.std([0.1, 0.2, 0.3, 0.4], ddof=1) / 2], rtol=1e-9)
    assert each.shape == errors.shape == (11,)
    rows = {row[0]: row for row in leads.lead_table(records).rows}
    assert rows["ridge"][1] == "+25 ± 6" and rows["ridge"][12] == "+25.0 ± 6.5" and rows["paper, nats"][1] == "-2.00" and rows["mix"][13] == "+13.1"
    assert set(leads.FIRST_SEEN) == set(leads.CANDIDATES) - {"paper"}
    records[cells[1]]["metrics"]["lpd"][1] = -np.inf                          # a label that came had been given the probability 0
    rows = {row[0]: row for row in leads.lead_table(records).rows}
    assert rows["ridge"][2] == rows["ridge"][12] == "-inf" and rows["ridge"][1] == "+25 ± 6" and rows["shared"][2] == "+50 ± 13"
    del records[cells[0]]
    assert len(leads.numbers(records)) == 3 and "43 of 44" in next(leads.report(records)) and len(list(leads.report({}))) == 1


def test_a_hint_is_the_fit_that_it_says():
    from cmn_literate.engineering.fit import fit
    from cmn_literate.network.simulate import Priors

    rng = np.random.default_rng(0)
    Z, y = rng.normal(size=(24, 3)), np.arange(24) % 2
    ends = {name: leads.fit_one((name, "class-code", 0), Z, y, 2, 2) for name in ("paper", "scaled", "cold", "largest")}
    rows = {name: 2 * (end.parameters.a - 2).sum() for name, end in ends.items()}
    assert rows["paper"] == pytest.approx(24) and rows["cold"] == pytest.approx(72)
    by_hand = fit(Z, y, 2, n_classes=2, priors=Priors(v0=2.5, sigma0=2.5), max_sweeps=200)
    assert ends["scaled"].elbo[-1] == pytest.approx(by_hand.elbo[-1], rel=1e-12)
    every = [fit(Z, y, 2, n_classes=2, priors=Priors(v0=v, sigma0=s), max_sweeps=200).elbo[-1] for v, s in leads.GRID]
    assert len(every) == 12 and ends["largest"].elbo[-1] == max(every) > ends["paper"].elbo[-1]
