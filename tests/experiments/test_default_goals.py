"""The goals of the new default, read from records that are made up: each line must say missed where a number is on the wrong side."""
import numpy as np
import pytest
from numpy.testing import assert_allclose

from experiments import default_goals as dg
from experiments.grid import DATASETS, Cell, sizes
from experiments.studies import defaults, goals

NAMES = list(defaults.CANDIDATES)
HELD = list(defaults.held_pairs())


def scattered(i):
    """Sixteen numbers with mean 0 and a standard error of .01, another order for every i."""
    v = np.random.default_rng(i).permutation(np.arange(16.0))
    return 0.01 * 4 * (v - v.mean()) / v.std(ddof=1)


def study(gaps, held=None, seconds=1.0):
    """Records of the study of defaults: mix above paper by gaps[pair] in the mean, .3 where a pair is not named; at the sets held out by held[set],
    and ridge level with paper there."""
    out = {}
    for i, (d, n) in enumerate((*defaults.PAIRS, *HELD)):
        mean = (held or {}).get(d, 0.3) if (d, n) in HELD else gaps.get((d, n), 0.3)
        for k, (s, more) in enumerate(zip(defaults.SPLITS, scattered(i))):
            lpd = [-1.0 + 0.1 * k + (mean + more) * (name == "mix") for name in NAMES]
            spent = [seconds if name == "mix" else 1.0 for name in NAMES]
            out[defaults.Cell(d, n, s)] = {"metrics": {"lpd": lpd, "seconds": spent, "scoring_seconds": [2.0] * len(NAMES)}}
    return out


def scored(scores):
    """Records of {(set, rows, method): log score}, two seeds on both sides of it."""
    return {Cell(*key, s): {"metrics": {"lpd": lpd + 0.01 * (-1) ** s}, "provenance": {}} for key, lpd in scores.items() for s in range(2)}


def asked(part, n_experts, scores, **more):
    """Records of the study of goals: scores, a list of {candidate: log score}; accuracy is the score plus 1.1."""
    full = lambda found, add=0.0: [found[name] + add if name in found else None for name in goals.ASKED]
    return {goals.Cell(part, n_experts, i): {"metrics": {"lpd": full(one), "accuracy": full(one, 1.1), "seconds": full(one, 200.0), **more}}
            for i, one in enumerate(scores)}


def line(lines, name):
    [found] = [goal for goal in lines if goal.name == name]
    return found


def test_a_pair_counts_as_behind_beyond_its_own_standard_error():
    inside, outside, far = defaults.PAIRS[:3]
    records = study({inside: -0.009, outside: -0.011, far: -0.05})
    assert [pair for pair, *_ in dg.below_paper(records, "mix")] == [far, outside]
    assert_allclose(dg.below_paper(records, "mix")[0][1:], [-0.05, 0.01], atol=1e-9)
    found = dg.Found(records, {}, {}, {})
    goal = line(dg.score_goals(found, "mix"), "paper")
    assert goal.verdict == dg.MISSED and goal.found.startswith("at 43 of 45") and " ".join(map(str, far)) in goal.found and "0.050" in goal.found
    goal = line(dg.score_goals(found._replace(defaults=study({inside: -0.009})), "mix"), "paper")
    assert goal.verdict == dg.MET and goal.found == "at 45 of 45 pairs"


@pytest.mark.parametrize("gap, verdict", [(-0.019, dg.MET), (-0.021, dg.MISSED), (0.4, dg.MET)])
def test_gibbs_may_be_ahead_by_two_hundredths(gap, verdict):
    pairs = [(d, n) for d in DATASETS for n in sizes(d)]
    ours = {(d, n, "cmn-default"): -0.5 + (gap if (d, n) == ("iris", 50) else 0.1) for d, n in pairs}
    cells = scored({(d, n, "gibbs"): -0.5 for d, n in pairs} | {(d, n, "cavi"): -0.9 for d, n in pairs})
    found = dg.Found(study({}), cells, scored(ours), {})
    assert_allclose(dg.gibbs_gaps(found.cells, found.others)["iris", 50], gap)
    assert line(dg.score_goals(found, "mix"), "Gibbs").verdict == verdict
    del ours["rice", 40, "cmn-default"]                                          # one pair is missing: no verdict
    assert line(dg.score_goals(found._replace(others=scored(ours)), "mix"), "Gibbs").verdict == dg.OPEN
    over = dg.gibbs_gaps_over_splits(study({("iris", 50): 0.1}), cells, "mix")
    assert_allclose([over["iris", 50], over["rice", 40]], [0.1 - 0.4, 0.3 - 0.4])
    table = dg.gibbs_table(found._replace(defaults=study({("iris", 50): 0.1})), "mix")
    assert len(table.rows) == 45 and ["iris", "50", "-0.500", f"{gap:+.3f}", "-0.300"] in table.rows


def test_noise_is_judged_by_the_worse_part():
    records = asked("noise 2", 10, [{"mix": -0.73, "ridge": -0.7}] * 3) | asked("noise 3", 10, [{"mix": -1.1, "ridge": -1.1}, {"mix": -1.22, "ridge": -1.1}])
    gaps = dg.noise_gaps(records, "mix")
    assert_allclose([*gaps["noise 2"], *gaps["noise 3"]], [-0.03, 0, -0.06, 0.06], atol=1e-12)
    [goal] = dg.noise_goal(dg.Found({}, {}, {}, records), "mix")
    assert goal.verdict == dg.MISSED and "-0.060 ± 0.060 with 3 classes" in goal.found
    records |= asked("noise 3", 10, [{"mix": -1.14, "ridge": -1.1}] * 2)
    assert [g.verdict for g in dg.noise_goal(dg.Found({}, {}, {}, records), "mix")] == [dg.MET]
    assert [g.verdict for g in dg.noise_goal(dg.Found({}, {}, {}, asked("noise 2", 10, [{"mix": -0.7, "ridge": -0.7}] * 2)), "mix")] == [dg.OPEN]


def classifiers(small, rest):
    """Records in which the default has these places among the rivals at the smallest size of each set and at the two others."""
    scores = {}
    for d in DATASETS:
        ns = sizes(d)
        for i, n in enumerate((ns[0], ns[len(ns) // 2], ns[-1])):
            scores |= {(d, n, m): -1.0 - 0.1 * j for j, m in enumerate(dg.RIVALS)}
            scores[d, n, "cmn-default"] = -1.05 - 0.1 * ((rest if i else small) - 2)
        scores[d, ns[1] if len(ns) > 3 else ns[0], "cmn-default"] = scores[d, ns[0], "cmn-default"]       # a size without rivals does not count
    return scores


def test_ranks_are_means_over_the_pairs_of_the_rivals():
    records = scored(classifiers(small=2, rest=1))
    assert len(dg.rank_pairs(records)) == 24 and [n for _, n in dg.rank_pairs(records, 0)] == [sizes(d)[0] for d in DATASETS]
    assert [n for _, n in dg.rank_pairs(records, -1)] == [sizes(d)[-1] for d in DATASETS]
    ranks = dg.mean_ranks(records)
    assert_allclose(ranks["cmn-default"], 4 / 3) and dg.place(ranks) == 1
    assert_allclose(sum(ranks.values()), 28)
    assert_allclose(dg.mean_ranks(records, which=0)["cmn-default"], 2) and dg.place(dg.mean_ranks(records, which=0)) == 2
    table = dg.rank_table(records)
    assert [row[:4] for row in table.rows] == [["cmn-default", "smallest", "2.00", "2"], ["cmn-default", "middle", "1.00", "1"],
                                               ["cmn-default", "largest", "1.00", "1"], ["cmn-default", "all", "1.33", "1"]]


@pytest.mark.parametrize("small, rest, verdicts", [(2, 1, ["met", "met"]), (4, 1, ["missed", "missed"]), (1, 2, ["missed", "met"]), (5, 1, ["missed", "missed"])])
def test_rank_goals_want_the_first_place_and_two_with_few_rows(small, rest, verdicts):
    found = dg.Found({}, {}, scored(classifiers(small, rest)), {})
    assert [goal.verdict for goal in dg.rank_goals(found)] == verdicts


def test_equal_ranks_are_said_to_be_equal():
    overall, few = dg.rank_goals(dg.Found({}, {}, scored(classifiers(3, 1)), {}))          # rank 5/3 for ours and for the first of the rivals
    assert overall.found.startswith("place 1 of 7, level with logistic: mean rank 1.67 over 24 pairs") and few.found.startswith("place 3 of 7: mean rank 3.00 over 8")


def test_ranks_wait_for_every_pair():
    scores = classifiers(1, 1)
    del scores["iris", 100, "cmn-default"]
    assert dg.mean_ranks(scored(scores)) == {} and [goal.verdict for goal in dg.rank_goals(dg.Found({}, {}, scored(scores), {}))] == [dg.OPEN, dg.MET]


def test_held_out_counts_sets_and_waits_for_all():
    held = {d: gap for d, gap in zip(defaults.HELD_OUT, (0.2, -0.1, 0.1, -0.2, -0.3, 0.002))}
    records = study({}, held)
    gaps = dg.held_out_gaps(records, "mix", "ridge")
    assert list(gaps) == list(defaults.HELD_OUT)
    assert_allclose([gap for gap, _ in gaps.values()], list(held.values()), atol=1e-12)
    i = [list(defaults.PAIRS + HELD).index((d, n)) for d, n in HELD[:2]]
    assert_allclose(gaps["wine"][1], np.std((scattered(i[0]) + scattered(i[1])) / 2, ddof=1) / 4)
    [goal] = dg.held_out_goal(dg.Found(records, {}, {}, {}), "mix")
    assert goal.verdict == dg.MET and goal.found == "ahead on 3: wine, digits, classification"
    assert len(dg.held_out_table(records, "mix").rows) == 6
    [goal] = dg.held_out_goal(dg.Found(study({}, held | {"wine": -0.001}), {}, {}, {}), "mix")
    assert goal.verdict == dg.MISSED
    del records[defaults.Cell("moons", 30, 17)]
    [goal] = dg.held_out_goal(dg.Found(records, {}, {}, {}), "mix")
    assert goal.verdict == dg.OPEN and dg.held_out_table(records, "mix").rows == []


@pytest.mark.parametrize("lpd, verdict", [(-0.12, dg.MET), (-0.121, dg.MISSED), (-0.1, dg.MET), (-0.14, dg.MISSED)])
def test_digits_need_both_scores(lpd, verdict):
    records = asked("digits", 10, [{"mix": lpd - 0.01}, {"mix": lpd + 0.01}])
    [goal] = dg.digits_goal(dg.Found({}, {}, {}, records), "mix")
    assert goal.verdict == verdict and "over 2 draws" in goal.found
    for record in records.values():
        record["metrics"]["accuracy"] = [0.96] * len(goals.ASKED)
    assert [g.verdict for g in dg.digits_goal(dg.Found({}, {}, {}, records), "mix")] == [dg.MISSED]
    assert [g.verdict for g in dg.digits_goal(dg.Found({}, {}, {}, asked("digits", 5, [{"mix": -0.1}])), "mix")] == [dg.OPEN]


@pytest.mark.parametrize("clock, cpu, word", [(59, 110, dg.MET), (61, 110, dg.MISSED), (600, 110, dg.OPEN), (600, 130, dg.MISSED)])
def test_a_clock_of_a_busy_machine_is_no_evidence(clock, cpu, word):
    records = asked("large", 10, [{"mix": cpu - 200.0}], clock=float(clock))
    found = dg.Found(study({}, seconds=7.9), {}, {}, records)
    assert line(dg.time_goals(found, "mix"), "many rows").verdict == word and line(dg.time_goals(found, "mix"), "time").verdict == dg.MET
    assert_allclose(dg.large_fit(records)[1:], [clock, cpu, cpu / clock])
    assert line(dg.time_goals(found._replace(defaults=study({}, seconds=8.1)), "mix"), "time").verdict == dg.MISSED
    assert_allclose(list(dg.time_ratios(found.defaults, "mix").values()), (7.9 + 2) / 3)


def test_all_goals_of_what_is_stored_have_a_verdict():
    found = dg.read()
    lines = dg.all_goals(found, "mix")
    assert len(lines) == 9 == len({goal.name for goal in lines}) and {goal.verdict for goal in lines} <= {dg.MET, dg.MISSED, dg.OPEN}
    assert len(dg.goal_table(found, "mix").rows) == 9
