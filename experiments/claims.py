"""The paper's own sentences, each as a count over the records; the book's own questions beside them, never among them.

    quotes()                                 the sentences, and where they stand
    table(evaluate())                        the counts, with MARGINS
    table(evaluate(claims=QUESTIONS))        those of the book's own questions
    margins("accuracy")                      the same under other margins

A sentence is read in one or more ways, each a comparison over pairs (data set, training size).  A pair is *for* it or *against* it where the
difference of the two methods, with the margin that a word like "competitive" is given, is over twice its standard error, and *near* where it
is not.  The standard error is over starts where a comparison rests on the grid, which has one split, and over splits where it rests on the
study of splits.  The second is what a claim about a data set needs; the first says only that other starts would not change the sign.
"""

from typing import NamedTuple

import numpy as np

from experiments import studies
from experiments.grid import DATASETS, sizes, waic_size
from experiments.report import PAPER_WAIC, censored, summaries
from experiments.tables import EMPTY, Table

# what the words of the sentences are taken to mean; others may be put in
MARGINS = {"accuracy": 0.02, "lpd": 0.05, "ece": 0.02,   # "competitive", "comparable": not worse by more (nats per row for lpd)
           "time": 2.0,                                  # "competitive runtime": at most so many times the seconds
           "drastic": 0.1,                               # "drastically less": at most this share of the seconds
           "low": 2,                                     # "low data regimes": so many smallest sizes of every set
           "on_par": 2.0,                                # two WAIC: apart by less than so many standard errors over rows
           "exponent": 0.25}                             # "scales competitively": an exponent at most so much larger
SHARE = 0.75                                             # of the pairs that a sentence needs to hold for the most part
WIDTH = 2.0                                              # standard errors
SYNTHETIC = ("pinwheels", "waveform")
REAL = tuple(name for name in DATASETS if name != "pinwheels")          # the seven of the paper's table and appendix
NETWORK = "mle-network"                                  # what we take the paper's maximum likelihood to be
WORDS = {"accuracy": "accuracy", "lpd": "log score", "ece": "ECE"}
HIGHER = {"accuracy": True, "lpd": True, "waic": True}   # every other number is better when it is lower
TIMES = ("steps_decay", "seconds_to_converge")           # which a fit that was too short to see them leaves open


class Pair(NamedTuple):
    """One comparison: lead is positive where it is for the sentence; error is its standard error (NaN: none is known)."""
    dataset: str
    n_train: int
    lead: float
    error: float

    @property
    def name(self):
        return f"{self.dataset} {self.n_train}"


class Count(NamedTuple):
    """What a comparison found: pairs for and against by over WIDTH standard errors, near the margin, and left out because censored."""
    pro: list
    con: list
    near: list
    left: list
    unit: str                                            # what the standard error is over: starts, splits, rows, none

    @property
    def share(self):
        """Of the counted pairs, those whose sign is for the sentence, whatever its error; NaN if there is none."""
        pairs = [*self.pro, *self.con, *self.near]
        return float(np.mean([p.lead >= 0 for p in pairs])) if pairs else np.nan

    @property
    def verdict(self):
        """In words: "holds", no pair has its sign against it; "mostly", three of four pairs are clearly for it; "fails", fewer than that
        would be if all that is within the noise were; "open", the noise decides."""
        total = len(self.pro) + len(self.con) + len(self.near)
        if not total:
            return "not counted"
        if self.share == 1:
            return "holds"
        if len(self.pro) >= SHARE * total:
            return "mostly"
        return "fails" if len(self.pro) + len(self.near) < SHARE * total else "open"


def sorted_out(pairs, left=(), unit="starts", width=WIDTH):
    """A Count of pairs.  A pair without a standard error is taken at its sign."""
    bands = [0.0 if np.isnan(p.error) else width * p.error for p in pairs]
    pro = [p for p, band in zip(pairs, bands) if p.lead >= 0 and p.lead >= band]
    con = [p for p, band in zip(pairs, bands) if p.lead < 0 and -p.lead >= band]
    return Count(pro, con, [p for p in pairs if p not in pro and p not in con], list(left), unit)


class Evidence:
    """The records that sentences are counted over, with what is computed of them once: evidence of the book by default.

    cells, splits, waic, runtime: {cell: record} of these studies; None: what is stored
    """

    def __init__(self, cells=None, splits=None, runtime=None, early=None):
        self.cells = studies.records("cells") if cells is None else cells
        self.splits = studies.records("splits") if splits is None else splits
        self.runtime = studies.records("runtime") if runtime is None else runtime
        self.early = studies.records("early") if early is None else early
        self._known = {}

    def of(self, name):
        """summaries of one number of the grid, NUTS of a single start with the spread of Gibbs, which draws from the same posterior."""
        if name not in self._known:
            found = summaries(self.cells, name)
            for (d, n, m), (mean, _, seeds) in list(found.items()):
                if m == "nuts" and seeds == 1 and (d, n, "gibbs") in found:
                    found[d, n, m] = mean, found[d, n, "gibbs"][1], 1
            self._known[name] = found
        return self._known[name]

    def open_decays(self):
        """{(dataset, n_train, method)} of which a start's decay is longer than its run."""
        return set(censored(self.cells))


def over_starts(evidence, name, a, b, slack=0.0, factor=1.0, sets=DATASETS, low=None, width=WIDTH):
    """`a is better than b` at every size of the grid that both have.   -> Count

    slack: a may be worse by it; factor: a may have so many times the cost of b; low: only so many smallest sizes.
    A pair of which a start's decay is censored is left out of a comparison of decays.
    """
    table, shut, pairs, left = evidence.of(name), evidence.open_decays() if name in TIMES else set(), [], []
    for d in sets:
        for n in sizes(d)[:low]:
            if shut & {(d, n, a), (d, n, b)}:
                left.append(f"{d} {n}")
            elif (d, n, a) in table and (d, n, b) in table:
                (x, sx, nx), (y, sy, ny) = table[d, n, a], table[d, n, b]
                lead = (x - factor * y if HIGHER.get(name) else factor * y - x) + slack
                pairs.append(Pair(d, n, float(lead), float(np.sqrt(np.nan_to_num(sx) ** 2 / nx + (factor * np.nan_to_num(sy)) ** 2 / ny))))
    return sorted_out(pairs, left, "starts", width)


def over_splits(evidence, name, a, b, slack=0.0, sets=DATASETS, low=None, width=WIDTH):
    """`a is better than b`, paired by split, at the sizes of the study of splits.   -> Count"""
    from experiments.studies import splits

    pairs = []
    for (d, n), gap in splits.paired(evidence.splits, name, a, b).items():
        if d in sets and n in sizes(d)[:low] and gap.splits > 1:
            lead = (gap.mean if HIGHER.get(name) else -gap.mean) + slack
            pairs.append(Pair(d, n, float(lead), gap.error))
    return sorted_out(pairs, (), "splits", width)


def waic_on_par(evidence, other, width):
    """Sets of the table where the marginal WAIC of CAVI and another differ, to either side, by less than `width` errors over rows."""
    value, error, pairs = evidence.of("waic"), evidence.of("waic_se"), []
    for d in PAPER_WAIC:
        x, y = ((d, waic_size(d), m) for m in ("cavi", other))
        if x in value and y in value:
            pairs.append(Pair(d, waic_size(d), float(width * max(error[x][0], error[y][0]) - abs(value[x][0] - value[y][0])), np.nan))
    return sorted_out(pairs, unit="rows")


def ceiling_of_twice(dataset):
    """What a forecast that is normalised twice cannot exceed, nats per row."""
    from cmn_literate.roads.mle import softmax_twice_ceiling

    return softmax_twice_ceiling({"pinwheels": 5, "waveform": 3, "vehicle": 4, "iris": 3}.get(dataset, 2))


def score_above(evidence, name, other):
    """Sets of the table where CAVI's number is above a number of the network at the same size, or above a function of the set."""
    mine, pairs = evidence.of(name), []
    theirs = other if callable(other) else lambda d: evidence.of(other)[d, waic_size(d), NETWORK][0]
    for d in PAPER_WAIC:
        if (d, waic_size(d), "cavi") in mine:
            pairs.append(Pair(d, waic_size(d), float(mine[d, waic_size(d), "cavi"][0] - theirs(d)), np.nan))
    return sorted_out(pairs, unit="none")


def slope(points):
    """Slope of ln y against ln x by least squares, and its standard error.  points [(x, y)]"""
    x, y = np.log(np.array(points, float)).T
    x = x - x.mean()
    found = (x @ y) / (x @ x)
    left = y - y.mean() - found * x
    return float(found), float(np.sqrt(left @ left / (len(x) - 2) / (x @ x))) if len(x) > 2 else np.nan


def scaling(evidence, axis, others, slack=0.0, sign=1):
    """CAVI's seconds a step grow no faster along an axis of the run times than those of others, exponents by least squares; sign -1: faster.

    One Pair per other method; its n_train is the largest value of the axis.
    """
    seconds = {}
    for cell, record in evidence.runtime.items():
        if cell.part == "point" and cell.axis == axis:
            for method, times in record["metrics"]["seconds"].items():
                seconds.setdefault(method, []).append((cell.value, times[1]))
    if "cavi" not in seconds:
        return Count([], [], [], [], "none")
    slopes, top = {m: slope(points) for m, points in seconds.items()}, max(v for v, _ in seconds["cavi"])
    pairs = [Pair(f"{axis}: {m},", top, sign * (slopes[m][0] - slopes["cavi"][0]) + slack, float(np.hypot(slopes[m][1], slopes["cavi"][1])))
             for m in others]
    return sorted_out(pairs, unit="points")


def growth(evidence, name, others, dataset="pinwheels"):
    """The same for a number of the grid against the training rows of one data set."""
    table, shut = evidence.of(name), evidence.open_decays() if name in TIMES else set()

    def of(method):
        points = [(n, table[dataset, n, method][0]) for n in sizes(dataset) if (dataset, n, method) in table and (dataset, n, method) not in shut]
        return slope(points) if len(points) > 2 else None

    mine, found = of("cavi"), {m: of(m) for m in others}
    pairs = [Pair(f"{dataset}: {m},", sizes(dataset)[-1], s[0] - mine[0], float(np.hypot(s[1], mine[1]))) for m, s in found.items() if s and mine]
    return sorted_out(pairs, unit="points")


class Reading(NamedTuple):
    """One way to count a sentence: in words, and a function of the evidence and the margins."""
    words: str
    count: object
    margin: str | None = None                            # which margin it hangs on


class Claim(NamedTuple):
    """A content that the paper states, where it does, and how it is counted.  quotes ((where, sentence), ...)"""
    number: int
    name: str
    quotes: tuple
    readings: tuple


ABSTRACT, INTRO, SYNTH, UCI, RUN, END, APP = ("abstract", "section 1", "section 4.1", "section 4.2", "section 4.3", "section 5", "appendix D")
WHICH = ("with the exception of the Sonar dataset, CAVI performs competitively with or better than MLE on all datasets, and always outperforms "
         "MLE in terms of LPD and ECE")
BEAT = "… the other two Bayesian methods, which all outperform maximum likelihood estimation in LPD and ECE. This holds across training set sizes"
SIGNIFICANT = ("significantly outperforms the traditional maximum likelihood estimation (MLE) based approach, in terms of predictive performance "
               "and calibration")
COMPARABLE = ("The CAVI-based approach achieves comparable log predictive density and calibration error to the other two Bayesian methods")
ALL_THREE = ("CAVI-CMN algorithm achieves comparable performance to BBVI and NUTS in terms of predictive accuracy, log-predictive density and "
             "expected calibration error, while being significantly faster")
FEWER = ("CAVI-CMN always converges in fewer steps and is faster than BBVI, and either outperforms or is competitive with MLE in terms of runtime")
SCALES = ("as input size or the number of experts increases, computation time scales competitively with MLE and other gradient-based solutions "
          "like black-box variational inference (BBVI)")


def _starts(name, a, b, margin=None, sign=1, **options):
    """A count over the starts of the grid with a margin as slack."""
    return lambda e, m: over_starts(e, name, a, b, slack=sign * m[margin] if margin else 0.0, **options)


def _splits(name, a, b, margin=None, **options):
    return lambda e, m: over_splits(e, name, a, b, slack=m[margin] if margin else 0.0, **options)


def _low(name, unit):
    return lambda e, m: unit(e, name, "cavi", NETWORK, low=m["low"])


def _beside_network(name):
    """Readings of 'outperforms maximum likelihood': the three methods on the simulated sets, then CAVI."""
    simulated = (("", "cavi"), ("BBVI, ", "bbvi"), ("NUTS, ", "nuts"))
    return (*(Reading(f"{who}pinwheels and waveform", _starts(name, method, NETWORK, sets=SYNTHETIC)) for who, method in simulated),
            Reading("always: the UCI sets", _starts(name, "cavi", NETWORK, sets=REAL)),
            Reading("all sets, over splits", _splits(name, "cavi", NETWORK)))


def _against(name):
    """Readings of 'comparable to BBVI and NUTS': one for each, never pooled."""
    return tuple(Reading(f"{WORDS[name]} not worse than {m.upper()}'s by over the margin", _starts(name, "cavi", m, name), name) for m in ("bbvi", "nuts"))


NO_SONAR = tuple(name for name in REAL if name != "sonar")
PAPER = (
    Claim(1, "accuracy beside maximum likelihood", (
        (ABSTRACT, "CAVI-CMN achieves competitive and often superior predictive accuracy compared to maximum likelihood estimation (MLE) with "
                   "backpropagation"),
        (INTRO, "CAVI-CMN matches, and sometimes exceeds, the performance of maximum likelihood estimation (MLE) in terms of predictive accuracy"),
        (APP, WHICH)), (
        Reading("competitive: not worse by over the margin", _starts("accuracy", "cavi", NETWORK, "accuracy"), "accuracy"),
        Reading("competitive, over splits", _splits("accuracy", "cavi", NETWORK, "accuracy"), "accuracy"),
        Reading("competitive, the UCI sets without sonar", _starts("accuracy", "cavi", NETWORK, "accuracy", sets=NO_SONAR), "accuracy"),
        Reading("superior: above", _starts("accuracy", "cavi", NETWORK)),
        Reading("superior, over splits", _splits("accuracy", "cavi", NETWORK)))),
    Claim(2, "log score beside maximum likelihood", ((SYNTH, BEAT), (APP, WHICH), (END, SIGNIFICANT)), _beside_network("lpd")),
    Claim(3, "calibration beside maximum likelihood", ((SYNTH, BEAT), (APP, WHICH), (END, SIGNIFICANT)), _beside_network("ece")),
    Claim(4, "with few rows", ((END, "improved calibration error and log predictive density, even in low data regimes"),), (
        Reading("log score, the smallest sizes", _low("lpd", over_starts), "low"),
        Reading("log score, the smallest sizes, over splits", _low("lpd", over_splits), "low"),
        Reading("ECE, the smallest sizes", _low("ece", over_starts), "low"),
        Reading("ECE, the smallest sizes, over splits", _low("ece", over_splits), "low"))),
    Claim(5, "log score beside BBVI and NUTS", ((SYNTH, COMPARABLE), (END, ALL_THREE)), _against("lpd")),
    Claim(6, "calibration beside BBVI and NUTS", ((SYNTH, COMPARABLE), (END, ALL_THREE)), _against("ece")),
    Claim(7, "accuracy beside BBVI and NUTS", ((END, ALL_THREE),), _against("accuracy")),
    Claim(8, "WAIC beside maximum likelihood", (
        (UCI, "The CAVI-CMN approach consistently provided higher WAIC scores compared to the MLE algorithm"),), (
        Reading("as the program computes both: training log score above the ceiling of one that is normalised twice",
                lambda e, m: score_above(e, "train_lpd", ceiling_of_twice)),
        Reading("normalised once: training log score of both", lambda e, m: score_above(e, "train_lpd", "train_lpd")),
        Reading("what it should stand for: test log score of both", lambda e, m: score_above(e, "lpd", "lpd")))),
    Claim(9, "WAIC beside BBVI and NUTS", ((UCI, "WAIC scores that were on par with BBVI and NUTS"),), tuple(
        Reading(f"marginal WAIC on par with {other.upper()}'s", lambda e, m, other=other: waic_on_par(e, other, m["on_par"]), "on_par")
        for other in ("bbvi", "nuts"))),
    Claim(10, "steps beside BBVI", ((APP, FEWER), (END, "it takes longer to converge than CAVI")), (
        Reading("fewer steps to 95 % of the fitted decay", _starts("steps_decay", "cavi", "bbvi")),
        Reading("fewer steps to within a nat of the end", _starts("steps_within_1_nat", "cavi", "bbvi")))),
    Claim(11, "time beside BBVI", ((APP, FEWER), (END, ALL_THREE)), (
        Reading("fewer seconds to 95 %", _starts("seconds_to_converge", "cavi", "bbvi")),
        Reading("fewer seconds of the whole run", _starts("cpu_seconds", "cavi", "bbvi")))),
    Claim(12, "drastically less time than BBVI and NUTS", (
        (INTRO, "requiring drastically less time to converge and overall runtime than the other state-of-the-art Bayesian methods like NUTS and "
                "BBVI"),), (
        Reading("at most the margin's share of BBVI's seconds to 95 %",
                lambda e, m: over_starts(e, "seconds_to_converge", "cavi", "bbvi", factor=m["drastic"]), "drastic"),
        Reading("at most that share of BBVI's whole run", lambda e, m: over_starts(e, "cpu_seconds", "cavi", "bbvi", factor=m["drastic"]), "drastic"),
        Reading("at most that share of NUTS' whole run", lambda e, m: over_starts(e, "cpu_seconds", "cavi", "nuts", factor=m["drastic"]),
                "drastic"))),
    Claim(13, "time beside maximum likelihood", ((ABSTRACT, "while maintaining competitive runtime"), (APP, FEWER)), (
        Reading("at most the margin's multiple of its seconds to 95 %",
                lambda e, m: over_starts(e, "seconds_to_converge", "cavi", NETWORK, factor=m["time"]), "time"),
        Reading("at most that multiple of its whole run", lambda e, m: over_starts(e, "cpu_seconds", "cavi", NETWORK, factor=m["time"]), "time"))),
    Claim(14, "growth with the rows", (
        (RUN, "the rate of increase varies significantly across different algorithms, with CAVI-CMN approach showing the best scaling behavior"),), (
        Reading("seconds to 95 % on pinwheels grow more slowly than those of maximum likelihood and BBVI",
                lambda e, m: growth(e, "seconds_to_converge", (NETWORK, "bbvi"))),
        Reading("seconds a step, drawn data", lambda e, m: scaling(e, "N", (NETWORK, "bbvi"))))),
    Claim(15, "growth with inputs and experts", ((ABSTRACT, SCALES), (RUN, "fitting CMNs with CAVI scales competitively with gradient-based methods "
                                                                          "like BBVI and Maximum Likelihood Estimation")), (
        Reading("seconds a step along the inputs", lambda e, m: scaling(e, "d", (NETWORK, "bbvi"), m["exponent"]), "exponent"),
        Reading("seconds a step along the experts", lambda e, m: scaling(e, "K", (NETWORK, "bbvi"), m["exponent"]), "exponent"))),
    Claim(16, "growth with the latent dimension", (
        (RUN, "as we increase the dimensionality of the latent variable X_1, CAVI-CMN scales more dramatically than the other two methods"),), (
        Reading("seconds a step along h", lambda e, m: scaling(e, "h", (NETWORK, "bbvi"), sign=-1)),)),
)


def _early(name):
    """CAVI against the network that stops early, paired by data set and size, error over the starts of both."""
    def count(evidence, margins):
        mine, groups = evidence.of(name), {}
        for cell, record in evidence.early.items():
            groups.setdefault((cell.dataset, cell.n_train), []).append(record["metrics"][name])
        pairs = []
        for (d, n), values in groups.items():
            if (d, n, "cavi") in mine:
                x, sx, nx = mine[d, n, "cavi"]
                lead = (x - np.mean(values)) * (1 if HIGHER.get(name) else -1)
                spread = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
                pairs.append(Pair(d, n, float(lead), float(np.hypot(np.nan_to_num(sx) / np.sqrt(nx), spread))))
        return sorted_out(pairs)
    return count


QUESTIONS = (
    Claim(1, "the exact likelihood", (), tuple(
        Reading(f"{WORDS[name]}: CAVI better than the maximum of the exact likelihood", _starts(name, "cavi", "mle-exact")) for name in ("lpd", "ece"))),
    Claim(2, "maximum likelihood that stops early", (), tuple(
        Reading(f"{WORDS[name]}: CAVI better than the network that stops early", _early(name)) for name in ("lpd", "ece", "accuracy"))),
    Claim(3, "Gibbs", (), (
        *(Reading(f"{WORDS[name]}: CAVI not worse than Gibbs by over the margin", _starts(name, "cavi", "gibbs", name), name)
          for name in ("lpd", "ece", "accuracy")),
        Reading("marginal WAIC on par with that of Gibbs", lambda e, m: waic_on_par(e, "gibbs", m["on_par"]), "on_par"))),
    Claim(4, "ridge logistic regression", (), tuple(
        Reading(f"{WORDS[name]}: CAVI better than ridge, over splits", _splits(name, "cavi", "ridge")) for name in ("lpd", "ece", "accuracy"))),
)


def evaluate(evidence=None, claims=PAPER, margins=None):
    """[(claim, reading, Count)] of the paper's sentences, or of the book's QUESTIONS.  margins: replace some of MARGINS"""
    evidence, margins = evidence or Evidence(), MARGINS | (margins or {})
    return [(claim, reading, reading.count(evidence, margins)) for claim in claims for reading in claim.readings]


def letter(claim, reading):
    """The number of a claim with a letter for its reading: 5a, and of a question of the book's own Q2b."""
    return f"{'' if claim.quotes else 'Q'}{claim.number}{chr(ord('a') + claim.readings.index(reading))}"


def table(found, caption=None):
    """A Table of what `evaluate` returns."""
    rows, caption = [], caption or ("The paper's sentences, counted" if found[0][0].quotes else "Our own questions, counted")
    for claim, reading, count in found:
        rows.append([letter(claim, reading), f"{claim.name}: {reading.words}", len(count.pro), len(count.con), len(count.near), len(count.left),
                     f"{count.share:.0%}" if count.share == count.share else None, count.unit, count.verdict])
    return Table(["claim", "reading", "for", "against", "within noise", "censored", "for by sign", "error over", "verdict"], rows, "llrrrrrll", caption)


def quotes(claims=PAPER):
    """A Table of the sentences themselves, with where they stand."""
    return Table(["claim", "content", "where", "sentence"], [[str(c.number), c.name, where, f"“{text}”"] for c in claims for where, text in c.quotes],
                 "llll", "What the paper says")


# the margins under which each hanging reading is counted again
GRID = {"accuracy": (0.0, 0.01, 0.02, 0.03, 0.05), "lpd": (0.0, 0.02, 0.05, 0.1, 0.2), "ece": (0.0, 0.01, 0.02, 0.03, 0.05),
        "time": (0.5, 1.0, 2.0, 4.0, 10.0), "drastic": (0.5, 0.2, 0.1, 0.05, 0.02), "low": (1, 2, 3), "on_par": (1.0, 2.0, 3.0),
        "exponent": (0.0, 0.1, 0.25, 0.5)}


def flips(evidence=None, claims=PAPER, grid=None):
    """[(claim, reading, {margin: Count})] of the readings that hang on a margin."""
    evidence, grid = evidence or Evidence(), grid or GRID
    return [(claim, reading, {value: reading.count(evidence, MARGINS | {reading.margin: value}) for value in grid[reading.margin]})
            for claim in claims for reading in claim.readings if reading.margin]


def margins(margin=None, evidence=None, claims=PAPER, grid=None):
    """A Table of how the counts hang on the margins; the margin that is in use is marked with *.

    margin: one of MARGINS: a row for each reading that hangs on it, and a column for each value, with the share of pairs whose sign is for
    the sentence and the verdict; None: a row for each reading and value of all of them, with all counts
    """
    found, star = flips(evidence, claims, grid), lambda name, v: f"{v:g}{'*' if v == MARGINS[name] else ''}"
    percent = lambda count: None if np.isnan(count.share) else f"{count.share:.0%}"
    if margin is not None:
        found = [(claim, reading, counts) for claim, reading, counts in found if reading.margin == margin]
        if not found:
            raise ValueError(f"margin: expected one that a reading hangs on, got {margin!r}")
        rows = [[letter(claim, reading), f"{claim.name}: {reading.words}", *(f"{percent(c) or EMPTY}, {c.verdict}" for c in counts.values())]
                for claim, reading, counts in found]
        return Table(["claim", "reading", *(star(margin, value) for value in found[0][2])], rows, "ll" + "r" * len(found[0][2]),
                     f"How the counts hang on the margin of {WORDS.get(margin, margin)}")
    rows = [[letter(claim, reading), f"{claim.name}: {reading.words}", star(reading.margin, value), percent(count), len(count.pro), len(count.con),
             len(count.near), count.verdict] for claim, reading, counts in found for value, count in counts.items()]
    return Table(["claim", "reading", "margin", "for by sign", "for", "against", "within noise", "verdict"], rows, "llrrrrrl",
                 "How the counts hang on the margins")
