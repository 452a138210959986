"""experiments/claims.py: what is for a sentence, against it, within the noise or censored, on records made here."""
import re

import numpy as np
import pytest

from experiments import claims
from experiments.grid import Cell
from experiments.studies import splits


def record(**metrics):
    return {"metrics": {"steps": 100, **metrics}, "provenance": {"cpu_seconds": metrics.pop("seconds", 1.0)}}


def grid(values, name="lpd", n=100):
    """{cell: record} of iris from {method: [number of each seed]}."""
    return {Cell("iris", n, m, s): record(**{name: v}) for m, row in values.items() for s, v in enumerate(row)}


def evidence(cells, split=(), **more):
    return claims.Evidence(cells=cells, splits=dict(split), runtime=more.get("runtime", {}), early={})


@pytest.mark.parametrize("lead, where", [(0.5, "pro"), (-0.5, "con"), (0.05, "near"), (-0.05, "near")])
def test_a_pair_is_for_against_or_within_the_noise(lead, where):
    e = evidence(grid({"cavi": [-0.1 + lead, 0.1 + lead], "mle-network": [-0.1, 0.1]}))
    count = claims.over_starts(e, "lpd", "cavi", "mle-network")
    assert [p.name for p in getattr(count, where)] == ["iris 100"] and len(count.pro + count.con + count.near) == 1
    (pair,) = getattr(count, where)
    assert pair.lead == pytest.approx(lead) and pair.error == pytest.approx(0.1 * np.sqrt(2))      # sd .1 sqrt 2 of each, two seeds of each
    worse = claims.over_starts(evidence(grid({"cavi": [lead] * 2, "mle-network": [0, 0]}, "ece")), "ece", "cavi", "mle-network")
    assert len(worse.con if lead > 0 else worse.pro) == 1                                            # a lower ECE is the better one


def test_a_margin_moves_the_line_and_a_factor_multiplies_the_cost():
    e = evidence(grid({"cavi": [-0.05, -0.05], "mle-network": [0.0, 0.0]}))
    assert [len(claims.over_starts(e, "lpd", "cavi", "mle-network", slack=s).pro) for s in (0.0, 0.04, 0.05, 0.06)] == [0, 0, 1, 1]
    e = evidence(grid({"cavi": [3.0, 3.0], "bbvi": [20.0, 20.0]}, "ece"))
    assert [len(claims.over_starts(e, "ece", "cavi", "bbvi", factor=f).pro) for f in (0.1, 0.15, 0.2)] == [0, 1, 1]


def test_a_censored_decay_leaves_the_count_and_is_named():
    cells = grid({"cavi": [5.0, 6.0], "bbvi": [50.0, 2000.0]}, "steps_decay") | grid({"cavi": [5.0], "bbvi": [50.0]}, "steps_decay", 50)
    count = claims.over_starts(evidence(cells), "steps_decay", "cavi", "bbvi")
    assert count.left == ["iris 100"] and [p.name for p in count.pro] == ["iris 50"]


def test_nuts_of_one_start_has_the_spread_of_gibbs():
    e = evidence(grid({"nuts": [0.0], "gibbs": [-0.2, 0.2], "cavi": [0.3, 0.3]}))
    assert e.of("lpd")["iris", 100, "nuts"] == pytest.approx((0.0, 0.2 * np.sqrt(2), 1))
    assert len(claims.over_starts(e, "lpd", "cavi", "nuts").near) == 1


def test_a_pair_over_splits_has_the_error_of_its_differences():
    cells = {splits.Cell("iris", 25, m, s, 0): record(lpd=v + luck) for s, luck in enumerate((0.0, -5.0, 3.0))
             for m, v in (("cavi", 0.1 * s), ("mle-network", -0.5))}
    count = claims.over_splits(evidence({}, cells), "lpd", "cavi", "mle-network")
    (pair,) = count.pro                                                                             # the luck of a split is shared
    assert pair.lead == pytest.approx(0.6) and pair.error == pytest.approx(0.1 / np.sqrt(3)) and count.unit == "splits"


@pytest.mark.parametrize("pro, con, near, word", [(4, 0, 0, "holds"), (3, 1, 0, "mostly"), (2, 2, 0, "fails"), (2, 1, 1, "open"), (0, 0, 0, "not counted")])
def test_verdicts(pro, con, near, word):
    pairs = [claims.Pair("iris", n, lead, 0.1) for n, lead in enumerate([1.0] * pro + [-1.0] * con + [-0.1] * near)]
    count = claims.sorted_out(pairs)
    assert [len(x) for x in count[:3]] == [pro, con, near] and count.verdict == word


def test_no_sign_against_it_holds_whatever_the_noise():
    count = claims.sorted_out([claims.Pair("iris", 25, 0.1, 1.0)])
    assert len(count.near) == 1 and count.verdict == "holds" and count.share == 1


def test_slope_of_a_power():
    x = np.array([1.0, 2, 4, 8])
    assert claims.slope(list(zip(x, 3 * x**1.5))) == pytest.approx((1.5, 0.0), abs=1e-6)


def test_sentences_are_numbered_once_and_are_the_paper_s_own():
    for group in (claims.PAPER, claims.QUESTIONS):
        assert [claim.number for claim in group] == list(range(1, len(group) + 1))
        assert all(reading.words and (reading.margin is None or reading.margin in claims.MARGINS) for c in group for reading in c.readings)
    assert all(where and sentence for claim in claims.PAPER for where, sentence in claim.quotes)
    assert all(claim.quotes for claim in claims.PAPER) and not any(claim.quotes for claim in claims.QUESTIONS)
    words = [reading.words for claim in claims.PAPER for reading in claim.readings]
    assert not any("gibbs" in word.lower() for word in words)                                       # not the paper's, and not pooled with NUTS


def test_the_stored_records_give_the_counts_of_the_ledger():
    """The counts of one split, without the noise, are those that the chapter on real data made by another road."""
    e = claims.Evidence()
    signs = lambda *a, **k: [sum((p.lead >= 0) == side for part in claims.over_starts(e, *a, **k)[:3] for p in part) for side in (True, False)]
    no_sonar = [d for d in claims.DATASETS if d != "sonar"]
    assert signs("lpd", "cavi", "mle-network") == [41, 4] and signs("ece", "cavi", "mle-network") == [31, 14]
    assert signs("accuracy", "cavi", "mle-network", slack=0.02, sets=no_sonar) == [30, 10]
    assert signs("lpd", "cavi", "bbvi", slack=0.05) == [45, 0] and signs("lpd", "cavi", "mle-exact") == [39, 6]
    found = claims.over_starts(e, "steps_decay", "cavi", "bbvi")
    assert {"rice 1280", "waveform 3840", "pinwheels 800"} <= set(found.left)
    assert claims.over_starts(e, "lpd", "cavi", "mle-network", sets=("iris",), low=1).pro[0].n_train == 25


def test_tables():
    found = claims.evaluate()
    shown = repr(claims.table(found))
    assert len(found) == sum(len(claim.readings) for claim in claims.PAPER) and "1a" in shown and "16a" in shown
    assert claims.evaluate(margins={"accuracy": 9.9})[0][2].verdict == "holds"
    assert claims.margins("accuracy").head[2:] == ["0", "0.01", "0.02*", "0.03", "0.05"]
    assert re.search(r"0\.02\*", repr(claims.margins()))
    assert len(claims.quotes().rows) == sum(len(claim.quotes) for claim in claims.PAPER)
    with pytest.raises(ValueError, match="expected one that a reading hangs on"):
        claims.margins("share")
