"""The goals that were set for a new default, line by line: what was wanted, what the records say, and whether that meets it.

Goals, as they were set before the study of defaults
    paper       log score at least that of the paper's settings at every pair of set and size, or within its standard error
    Gibbs       within .02 nats of Gibbs of the paper's model, or above it, at every pair where Gibbs is stored
    noise       where labels do not depend on the inputs, not behind ridge by more than .05 nats
    ranks       the best mean rank in log score among seven classifiers over all their pairs, first or second at the smallest sizes
    held out    ahead of ridge on at least half of the six sets that took no part in the choice
    digits      accuracy .965 and log score -.12
    time        at most eight times the paper's settings; 50,000 rows of 54 columns in seven classes within 60 seconds on two cores
What is not stored yet gives no verdict.
"""
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

from experiments import studies
from experiments.grid import DATASETS, sizes
from experiments.report import value
from experiments.studies import defaults, goals
from experiments.tables import Table

RIVALS = ("logistic", "neighbours", "forest", "boosting", "gp", "mlp")
OURS = "cmn-default"                                     # its name among the other classifiers
BEHIND_GIBBS, BEHIND_NOISE, DIGITS, TIMES, CLOCK = 0.02, 0.05, (0.965, -0.12), 8.0, 60.0
MET, MISSED, OPEN = "met", "missed", "open"


class Goal(NamedTuple):
    """A line of the table of goals."""
    name: str
    wanted: str
    found: str
    verdict: str


class Found(NamedTuple):
    """Records of the studies that the goals are read from, {cell: record} each."""
    defaults: dict
    cells: dict
    others: dict
    goals: dict


def read():
    """What is stored.   -> Found"""
    return Found(*(studies.records(name) for name in Found._fields))


def judge(met):
    """The word for met or missed."""
    return MET if met else MISSED


def named(pairs, most=3):
    """Pairs as text, the first few by name."""
    texts = [f"{d} {n}" for d, n in pairs[:most]]
    return ", ".join(texts) + (f" and {len(pairs) - most} more" if len(pairs) > most else "")


def draws_of(number):
    """How many draws, in words."""
    return f"{number} draw" + "s" * (number != 1)


# ---- the numbers behind the lines

def below_paper(records, chosen):
    """Pairs at which a candidate is behind the paper's settings by more than a standard error, the furthest first.

    -> [(pair, difference, its standard error over splits)]
    """
    _, _, each, errors = defaults.gains(defaults.scores(records), chosen)
    order = [j for j in np.argsort(each) if each[j] < -errors[j]]
    return [(defaults.PAIRS[j], float(each[j]), float(errors[j])) for j in order]


def mean_score(records, dataset, n, method, name="lpd"):
    """Mean over seeds of a number of the records of a method at a pair; NaN without any."""
    found = [value(r, name) for c, r in records.items() if (c.dataset, c.n_train, c.method) == (dataset, n, method)]
    return float(np.mean(found)) if found else np.nan


def gibbs_gaps(cells, others):
    """{pair: log score of the default less that of Gibbs}, on the one split where Gibbs is stored, means over seeds; the furthest behind first."""
    gaps = {(d, n): mean_score(others, d, n, OURS) - mean_score(cells, d, n, "gibbs") for d in DATASETS for n in sizes(d)}
    return dict(sorted(((pair, gap) for pair, gap in gaps.items() if not np.isnan(gap)), key=lambda item: item[1]))


def gibbs_gaps_over_splits(records, cells, chosen):
    """The same, but the gain of the default over the paper's settings is the mean over the splits of the study, and only that of Gibbs over them
    is taken from the one split of the grid."""
    each = dict(zip(defaults.PAIRS, defaults.gains(defaults.scores(records), chosen)[2]))
    gaps = {pair: float(each[pair]) + mean_score(cells, *pair, "cavi") - mean_score(cells, *pair, "gibbs") for pair in defaults.PAIRS}
    return dict(sorted(((pair, gap) for pair, gap in gaps.items() if not np.isnan(gap)), key=lambda item: item[1]))


def noise_gaps(records, chosen, rival="ridge"):
    """{part: (mean difference of the log scores, its standard error over the draws)} of the parts without a signal."""
    out, mine, other = {}, goals.ASKED.index(chosen), goals.ASKED.index(rival)
    for part in goals.NOISE:
        lpd = goals.values(records, part, 10, "lpd")
        gap = lpd[:, mine] - lpd[:, other]
        if len(gap) > 1:
            out[part] = float(gap.mean()), float(gap.std(ddof=1) / len(gap) ** 0.5)
    return out


def rank_pairs(records, which=None):
    """The pairs at which the other classifiers are stored, of every set three sizes; which: 0 the smallest, 1 the middle, -1 the largest, or all."""
    pairs = []
    for d in DATASETS:
        there = sorted({c.n_train for c in records if c.dataset == d and c.method == RIVALS[0]})
        pairs += [(d, n) for n in (there if which is None else there[which:][:1])]
    return pairs


def mean_ranks(records, ours=OURS, which=None):
    """{method: mean rank in log score} of the six rivals and one of ours, 1 is best; {} where ours is not stored at every pair."""
    methods = (*RIVALS, ours)
    scores = np.array([[mean_score(records, d, n, m) for m in methods] for d, n in rank_pairs(records, which)])
    if not len(scores) or np.isnan(scores).any():
        return {}
    return dict(zip(methods, map(float, rankdata(-scores, axis=1).mean(0))))


def place(ranks, name=OURS):
    """Place of a method by its mean rank, 1 is best; equal ranks share the better place."""
    return 1 + sum(rank < ranks[name] for rank in ranks.values())


def held_out_gaps(records, chosen, base):
    """{set: (mean difference to base over its two sizes, its standard error over splits)} of the sets that took no part; {} unless all are stored."""
    pairs = list(defaults.held_pairs())
    values = defaults.scores(records, "lpd", pairs)
    if len(values) < len(defaults.SPLITS):
        return {}
    out = {}
    for d in defaults.HELD_OUT:
        mine = values[:, [pair[0] == d for pair in pairs]]
        mean, error, *_ = defaults.gains(mine, chosen, base)
        out[d] = mean, error
    return out


def digits_scores(records, chosen):
    """{experts: (draws, accuracy, log score)} of a candidate on the digits."""
    out, i = {}, goals.ASKED.index(chosen)
    for n_experts in sorted({c.experts for c in records if c.part == "digits"}):
        mine = [goals.values(records, "digits", n_experts, name)[:, i] for name in ("accuracy", "lpd")]
        out[n_experts] = len(mine[0]), *(float(v.mean()) for v in mine)
    return out


def time_ratios(records, chosen, names=defaults.TIMED):
    """{pair: CPU seconds of a candidate relative to those of the paper's settings}, means over splits; the dearest first."""
    spent = sum(defaults.scores(records, name) for name in names).mean(0)
    ratios = spent[:, list(defaults.CANDIDATES).index(chosen)] / spent[:, list(defaults.CANDIDATES).index("paper")]
    return dict(sorted(zip(defaults.PAIRS, map(float, ratios)), key=lambda item: -item[1]))


def large_fit(records, chosen="mix"):
    """(fits, mean seconds of the clock, mean CPU seconds, mean number of cores that were at work) of the fit of 50,000 rows; None without any."""
    clock = [r["metrics"]["clock"] for c, r in records.items() if c.part == "large"]
    cpu = [r["metrics"]["seconds"][goals.ASKED.index(chosen)] for c, r in records.items() if c.part == "large"]
    return (len(clock), float(np.mean(clock)), float(np.mean(cpu)), float(np.sum(cpu) / np.sum(clock))) if clock else None


# ---- the lines

def score_goals(found, chosen):
    """Lines about the paper's settings and Gibbs."""
    behind, gaps = below_paper(found.defaults, chosen), gibbs_gaps(found.cells, found.others)
    pairs = len(defaults.PAIRS)
    text = f"at {pairs - len(behind)} of {pairs} pairs"
    if behind:
        text += f"; not at {named([pair for pair, *_ in behind])}, by {-behind[0][1]:.3f} at most"
    yield Goal("paper", "at every pair at least the log score of the paper's settings, or within a standard error of it", text, judge(not behind))
    far = [pair for pair, gap in gaps.items() if gap < -BEHIND_GIBBS]
    text = f"at {len(gaps) - len(far)} of {len(gaps)} pairs" + (f"; furthest behind at {named(far)}, by {-gaps[far[0]]:.3f} at most" if far else "")
    yield Goal("Gibbs", f"at every pair no more than {BEHIND_GIBBS} nats behind Gibbs of the paper's model", text,
               judge(not far) if len(gaps) == pairs else OPEN)


def noise_goal(found, chosen):
    """The line about labels that mean nothing."""
    gaps = noise_gaps(found.goals, chosen)
    text = "; ".join(f"{gap:+.3f} ± {error:.3f} with {goals.NOISE[part][2]} classes" for part, (gap, error) in gaps.items())
    yield Goal("noise", f"without a signal no more than {BEHIND_NOISE} nats behind ridge", text or "nothing stored",
               judge(min(gap for gap, _ in gaps.values()) >= -BEHIND_NOISE) if len(gaps) == len(goals.NOISE) else OPEN)


def rank_goals(found):
    """Lines about the seven classifiers."""
    for name, wanted, which, last in (("ranks", "the best mean rank of seven classifiers over all their pairs", None, 1),
                                      ("ranks, few rows", "the best or second mean rank of seven at the smallest sizes", 0, 2)):
        ranks = mean_ranks(found.others, OURS, which)
        if not ranks:
            yield Goal(name, wanted, "not whole yet", OPEN)
            continue
        best = min(RIVALS, key=ranks.get)
        level = " and ".join(m for m in RIVALS if ranks[m] == ranks[OURS])
        text = f"place {place(ranks)} of {len(ranks)}{level and ', level with ' + level}: mean rank {ranks[OURS]:.2f} over {len(rank_pairs(found.others, which))} pairs, {best} {ranks[best]:.2f}"
        yield Goal(name, wanted, text, judge(place(ranks) <= last))


def held_out_goal(found, chosen):
    """The line about ridge on the sets that took no part in the choice."""
    gaps, half = held_out_gaps(found.defaults, chosen, "ridge"), len(defaults.HELD_OUT) // 2
    ahead = [d for d, (gap, _) in gaps.items() if gap > 0]
    yield Goal("held out", f"ahead of ridge on at least {half} of {len(defaults.HELD_OUT)} sets that took no part in the choice",
               f"ahead on {len(ahead)}: {', '.join(d.replace('_', ' ') for d in ahead)}" if gaps else "not whole yet", judge(len(ahead) >= half) if gaps else OPEN)


def digits_goal(found, chosen):
    """The line about the digits, with the ten experts of the study."""
    wanted = f"digits of 8 x 8: accuracy {DIGITS[0]}, log score {DIGITS[1]}"
    scores = digits_scores(found.goals, chosen).get(10)
    if not scores:
        yield Goal("digits", wanted, "nothing stored", OPEN)
        return
    draws, accuracy, lpd = scores
    yield Goal("digits", wanted, f"{accuracy:.3f} and {lpd:.3f} over {draws_of(draws)}", judge(accuracy >= DIGITS[0] and lpd >= DIGITS[1]))


def time_goals(found, chosen):
    """Lines about time.  A clock is no evidence where the fit had less than one and a half of the two cores."""
    ratios = time_ratios(found.defaults, chosen, ("seconds",))
    worst = next(iter(ratios))
    yield Goal("time", f"a fit takes at most {TIMES:.0f} times the CPU seconds of the paper's settings", f"at most {ratios[worst]:.1f} times ({named([worst])})",
               judge(ratios[worst] <= TIMES))
    wanted, large = f"50,000 rows of 54 columns, seven classes, on two cores: at most {CLOCK:.0f} seconds", large_fit(found.goals)
    if not large:
        yield Goal("many rows", wanted, "nothing stored", OPEN)
        return
    fits, clock, cpu, cores = large
    met = clock <= CLOCK
    missed = cpu / 2 > CLOCK or not met and cores >= 1.5
    yield Goal("many rows", wanted, f"{cpu:.0f} CPU seconds; by the clock {clock:.0f}, two threads on {cores:.1f} cores together, {draws_of(fits)}",
               MET if met else MISSED if missed else OPEN)


def all_goals(found, chosen):
    """Every line, in the order of the goals.   -> [Goal]"""
    return [*score_goals(found, chosen), *noise_goal(found, chosen), *rank_goals(found), *held_out_goal(found, chosen),
            *digits_goal(found, chosen), *time_goals(found, chosen)]


def goal_table(found, chosen):
    """A Table: goal, what was found, verdict."""
    return Table(["goal", "wanted", "found", "verdict"], [list(line) for line in all_goals(found, chosen)], "llll",
                 "The goals that were set before the study, and what the records say")


def rank_table(records):
    """A Table: mean ranks of the rivals with the default among them, and of the paper's settings in its place."""
    names, rows = {"smallest": 0, "middle": 1, "largest": -1, "all": None}, []
    for ours in (OURS, "cmn-8", "cmn"):
        for text, which in names.items():
            ranks = mean_ranks(records, ours, which)
            if ranks:
                rows.append([ours, text, f"{ranks[ours]:.2f}", place(ranks, ours), *(f"{ranks[m]:.2f}" for m in RIVALS)])
    return Table(["ours", "sizes", "its rank", "its place", *RIVALS], rows, "ll" + 8 * "r", "Mean rank in log score among seven classifiers, 1 is best")


def held_out_table(records, chosen):
    """A Table: the sets that took no part in the choice, gain of a candidate over the paper's settings and over ridge."""
    over = {base: held_out_gaps(records, chosen, base) for base in ("paper", "ridge")}
    rows = [[d.replace("_", " ") + " (synthetic)" * (d == "classification"), *(f"{100 * over[base][d][0]:+.1f} ± {100 * over[base][d][1]:.1f}" for base in over)] for d in over["paper"]]
    return Table(["set", "over paper's settings", "over ridge"], rows, "lrr",
                 "Sets that took no part in the choice: difference of the log score, hundredths of a nat, means over two sizes, ± standard error over splits")


def gibbs_table(found, chosen):
    """A Table: log score of Gibbs at every pair, and how far the default is ahead of it, both ways."""
    one, over = gibbs_gaps(found.cells, found.others), gibbs_gaps_over_splits(found.defaults, found.cells, chosen)
    rows = [[d, n, f"{mean_score(found.cells, d, n, 'gibbs'):.3f}", f"{one[d, n]:+.3f}", f"{over[d, n]:+.3f}"] for d in DATASETS for n in sizes(d)
            if (d, n) in one and (d, n) in over]
    return Table(["data", "rows", "Gibbs", "default less Gibbs", "by its gain over 16 splits"], rows, "lrrrr",
                 "Log score of the default less that of Gibbs of the paper's model, on the split of the grid and with the gain over the paper's settings of sixteen")
