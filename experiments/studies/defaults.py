"""Which settings should the classifier have when nobody asks for others?

Protocol, written before the first record.
    Question    The candidate that forecasts best where nothing is known of the data but rows, columns and classes.
    Candidates  paper: the paper's priors, one start at the class code (the default so far).  ridge: logistic regression, its penalty by five
                folds, the yardstick from outside, never chosen.  shared: method "shared-means" with its default options (v0 = 10 / D,
                sigma0 = 5 / sqrt(D), v00 = v0), one start at the class code.  few clusters x 4, hyperplanes x 4: the paper's priors, four starts of
                that name, forecasts averaged.  hyperplanes by bound: the same four fits, weights exp(bound).  shared hyperplanes x 4: "shared" from
                four such starts.  few clusters, shared hyperplanes: the first fit of these fours alone.  mix: two fits of hyperplanes x 4 and two of
                shared hyperplanes x 4, averaged.  tempered: paper, but in the first half of its sweeps a row counts 1/T, T falling from 20 to 1.
    Rows        The eight sets of the grid at all 45 pairs (set, size), splits 10 to 25: no study before this one has seen these splits.
                At most the first 1,000 test rows.
    Fits        Experts and latent dimension of the grid, at most 200 sweeps, tol 1e-6, seeds 0 to 3.
    Criterion   Mean log score over the pairs, each the mean over its splits, less that of "paper".  Its standard error is over the splits: on each,
                the mean of the differences over all pairs.  Beside it the worst pair, the pairs better and worse than paper by more than two
                standard errors, and CPU seconds of fit and forecast relative to paper's.
    Choice      The best of the criterion, unless another that lies within one standard error of it (of their paired difference) takes less than
                half the CPU seconds, or is not worse than paper on any pair by two standard errors where the best is: then that one.
    Verdict     Six sets that take no part in the choice: wine, breast cancer (splits of its own), digits of 8 x 8, two moons, two circles, a
                synthetic problem of 20 columns and three classes; two sizes each, splits 10 to 25, ten experts.  They are scored last, and the
                report is silent of them until all pairs are in.  The choice stands if its mean over the twelve exceeds paper's by two standard
                errors, and ahead of ridge is counted over the six sets.
    Left out    Four starts at the class code gain .016 nats in an earlier look at four splits, against .116 for hyperplanes; they are not asked
                again.  No candidate is added after the first record.
A record holds all candidates on one split of one pair, so that whatever is there is paired; lists are in the order of CANDIDATES.
"""
import time
import warnings
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from experiments.grid import DATA, DATASETS, experts, sizes
from experiments.run import held_out, plain
from experiments.run import split as grid_split
from experiments.studies.others import forecast, standardised
from experiments.tables import Table

BEGUN = False
TOLERANCE = 2e-3
TIMED = ("seconds", "scoring_seconds")
SPLITS, ROUND = range(10, 26), 4
TEST_ROWS, SWEEPS, EXPERTS = 1000, 200, 10
NAMES = ("lpd", "accuracy", "ece", "brier")
# candidate: the fits (model, start, seed) whose forecasts are averaged
CANDIDATES = {
    "paper": (("paper", "class-code", 0),),
    "ridge": (("ridge", None, 0),),
    "shared": (("shared", "class-code", 0),),
    "few clusters": (("paper", "few-clusters", 0),),
    "few clusters x 4": tuple(("paper", "few-clusters", s) for s in range(4)),
    "hyperplanes x 4": tuple(("paper", "hyperplanes", s) for s in range(4)),
    "hyperplanes by bound": tuple(("paper", "hyperplanes", s) for s in range(4)),
    "shared hyperplanes": (("shared", "hyperplanes", 0),),
    "shared hyperplanes x 4": tuple(("shared", "hyperplanes", s) for s in range(4)),
    "mix": (("paper", "hyperplanes", 0), ("paper", "hyperplanes", 1), ("shared", "hyperplanes", 2), ("shared", "hyperplanes", 3)),
    "tempered": (("tempered", "class-code", 0),)}
# sets of the verdict: training sizes
HELD_OUT = {"wine": (30, 90), "breast_cancer": (40, 300), "digits": (200, 1000), "moons": (30, 300), "circles": (30, 300),
            "classification": (60, 600)}
COLUMNS = {"pinwheels": 2, "waveform": 21, "rice": 7, "wdbc": 30, "vehicle": 18, "sonar": 60, "banknote": 4, "iris": 4}
PAIRS = sorted(((d, n) for d in DATASETS for n in sizes(d)), key=lambda pair: pair[1] * experts(pair[0]) * (COLUMNS[pair[0]] + 20))


class Cell(NamedTuple):
    """All candidates on a split of a data set, so many of its training rows."""
    dataset: str
    n_train: int
    split: int


def plan():
    """Four splits of all pairs at a time, cheap pairs first; the sets of the verdict last."""
    rounds = [SPLITS[i:i + ROUND] for i in range(0, len(SPLITS), ROUND)]
    cells = [Cell(d, n, s) for some in rounds for d, n in PAIRS for s in some]
    return cells + [Cell(d, n, s) for d, ns in HELD_OUT.items() for n in ns for s in SPLITS]


def draw(dataset, number):
    """A set of the verdict: inputs and classes; the synthetic ones are drawn anew for every split."""
    from sklearn import datasets

    seed = 100 + number
    if dataset in ("wine", "breast_cancer", "digits"):
        return getattr(datasets, f"load_{dataset}")(return_X_y=True)
    if dataset == "moons":
        return datasets.make_moons(1300, noise=0.3, random_state=seed)
    if dataset == "circles":
        return datasets.make_circles(1300, noise=0.2, factor=0.5, random_state=seed)
    return datasets.make_classification(1600, n_features=20, n_informative=5, n_redundant=2, n_classes=3, random_state=seed)


def rows_of(cell, data_home=None):
    """Training and test rows of a cell, standardised by the training rows: Z, y, Z, y, and the fingerprint of the file."""
    from cmn_literate.use.datasets import stratified_split

    if cell.dataset in HELD_OUT:
        (X, y), largest, origin = draw(cell.dataset, cell.split), HELD_OUT[cell.dataset][-1], ""
        train, test = stratified_split(y, largest, min(TEST_ROWS, len(y) - largest), np.random.default_rng(100 + cell.split))
        train = train[:cell.n_train]
    else:
        data, train, test = grid_split(cell, data_home, cell.split)
        X, y, origin = data.X, data.y, data.sha256
    y, test = np.unique(y, return_inverse=True)[1], test[:TEST_ROWS]
    Z = standardised(X, train)
    return Z[train], y[train], Z[test], y[test], origin


def fit_one(name, Z, y, L, K):
    """A fit of (model, start, seed).   -> its result, which has .parameters, .elbo, .converged"""
    from cmn_literate.beyond.climbs import tempered
    from cmn_literate.beyond.shared_means import Above, fit_shared, scaled_priors
    from cmn_literate.engineering.fit import begin, fit
    from cmn_literate.network.simulate import Priors

    (model, start, seed), priors, D = name, Priors(**DATA["priors"]), Z.shape[1] + 1
    setting = {"n_experts": K, "n_classes": L, "rng": seed, "init": start}
    if model == "shared":
        return fit_shared(Z, y, priors=scaled_priors(priors, D), above=Above(v00=priors.v0 / D), max_sweeps=SWEEPS, **setting)
    if model == "tempered":
        cold = tempered(begin(Z, y, priors=priors, **setting), sweeps=SWEEPS // 2)
        return fit(Z, y, priors=priors, start=cold, max_sweeps=SWEEPS // 2, **setting)
    return fit(Z, y, priors=priors, max_sweeps=SWEEPS, **setting)


def run(cell, records=None, data_home=None, models=None):
    """All fits of a cell, and the scores of the candidates."""
    Z, y, Z_new, truth, origin = rows_of(cell, data_home)
    L = int(max(y.max(), truth.max())) + 1
    one = maker(Z, y, Z_new, L, EXPERTS if cell.dataset in HELD_OUT else experts(cell.dataset), cell.dataset)
    return {"setting": {"max_sweeps": SWEEPS}, "metrics": compare(CANDIDATES, one, truth), "provenance": {"sha256": origin}}


def maker(Z, y, Z_new, L, K, dataset, fit_one=fit_one):
    """The function that `compare` asks for a fit of (model, start, seed)."""
    from cmn_literate.engineering.quadrature import predict_log_proba

    def one(name):
        clock = time.process_time()
        if name[0] == "ridge":
            log_p, _ = forecast("logistic", Z, y, Z_new, 0, dataset)
            return log_p, 0.0, False, time.process_time() - clock, 0.0
        found = fit_one(name, Z, y, L, K)
        middle = time.process_time()
        log_p = predict_log_proba(found.parameters, Z_new)
        return log_p, float(found.elbo[-1]), bool(found.converged), middle - clock, time.process_time() - middle

    return one


def compare(candidates, one, truth):
    """Scores and seconds of {candidate: fits}, lists in their order; each fit is made once.

    one(fit) -> log probabilities of the test rows, bound, whether it converged, CPU seconds of the fit and of the forecast
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")                     # the record says how many have converged
        made = {fit: one(fit) for fit in dict.fromkeys(f for fits in candidates.values() for f in fits)}
    scores, costs = {name: [] for name in NAMES}, {name: [] for name in TIMED}
    for candidate, fits in candidates.items():
        log_p, bounds, _, *seconds = zip(*map(made.get, fits))
        weight = np.array(bounds if candidate.endswith("by bound") else np.zeros(len(fits)))
        mixed = logsumexp([w + p for w, p in zip(weight - logsumexp(weight), log_p)], axis=0)
        for name, number in held_out(truth, mixed).items():
            scores[name].append(plain(number, 5))
        for name, spent in zip(TIMED, seconds):
            costs[name].append(round(sum(spent), 3))
    return {**scores, **costs, "converged": sum(found[2] for found in made.values())}


# ---- reading the records

def scores(records, name="lpd", pairs=PAIRS, splits=SPLITS, names=CANDIDATES):
    """(splits, pairs, candidates) of a score on the splits that have all pairs."""
    whole = [s for s in splits if all(Cell(d, n, s) in records for d, n in pairs)]
    table = [[records[Cell(d, n, s)]["metrics"][name] for d, n in pairs] for s in whole]
    return np.array(table, float).reshape(len(whole), len(pairs), len(names))


def gains(values, candidate, base="paper", names=CANDIDATES):
    """Of (splits, pairs, candidates): mean difference to base, its standard error over splits, and both for each pair."""
    names = list(names)
    gap = values[..., names.index(candidate)] - values[..., names.index(base)]
    error = lambda v: v.std(0, ddof=1) / len(v) ** 0.5
    return float(gap.mean()), float(error(gap.mean(1))), gap.mean(0), error(gap)


def choice(records):
    """The candidate that the protocol chooses."""
    values, cost = scores(records), sum(scores(records, name) for name in TIMED).sum((0, 1))
    names = [name for name in CANDIDATES if name != "ridge"]
    worse = {name: int((gains(values, name)[2] < -2 * gains(values, name)[3]).sum()) for name in names}
    best = max(names, key=lambda name: gains(values, name)[0])
    index, others = list(CANDIDATES).index, []
    for name in names:
        behind, error = gains(values, best, name)[:2]
        cheap, safe = cost[index(name)] < cost[index(best)] / 2, worse[name] == 0 < worse[best]
        if name != best and behind <= error and (cheap or safe):
            others.append(name)
    return max(others, key=lambda name: gains(values, name)[0], default=best)


def candidate_table(records, pairs=PAIRS, title="pairs"):
    """A Table: every candidate, its gain over paper with standard error, the worst pair, verdicts, other scores and cost."""
    values, rows = scores(records, "lpd", pairs), []
    others = {name: scores(records, name, pairs).mean((0, 1)) for name in (*NAMES[1:], *TIMED)}
    cost = sum(others[name] for name in TIMED)
    for i, name in enumerate(CANDIDATES):
        mean, error, each, errors = gains(values, name)
        worst = int(each.argmin())
        base = name == "paper"
        rows.append([name, f"{values[..., i].mean():.3f}", None if base else f"{100 * mean:+.1f} ± {100 * error:.1f}",
                     None if base else f"{100 * each[worst]:+.0f} ({' '.join(map(str, pairs[worst]))})",
                     None if base else f"{(each > 2 * errors).sum()} / {(each < -2 * errors).sum()}",
                     *(f"{others[other][i]:.3f}" for other in NAMES[1:]), f"{cost[i] / cost[0]:.1f}"])
    return Table(["candidate", "log score", "gain, hundredths", "worst pair", "better / worse", "accuracy", "ECE", "Brier", "time"], rows, "l" + 8 * "r",
                 f"Means over {len(pairs)} {title} and {len(values)} splits; gain over paper in hundredths of a nat, ± standard error over splits")


def pair_table(records, pairs=PAIRS):
    """A Table: gain of every candidate over paper at every pair."""
    values, rows = scores(records, "lpd", pairs), []
    for j, (d, n) in sorted(enumerate(pairs), key=lambda item: item[1]):
        cells = []
        for name in list(CANDIDATES)[1:]:
            _, _, each, errors = gains(values, name)
            cells.append(f"{100 * each[j]:+.0f} ± {100 * errors[j]:.0f}")
        rows.append([d, n, f"{values[:, j, 0].mean():.2f}", *cells])
    return Table(["data", "rows", "paper, nats", *list(CANDIDATES)[1:]], rows, "lr" + "r" * len(CANDIDATES),
                 "Log score less that of paper, in hundredths of a nat, ± standard error over splits")


def report(records):
    """Lines: how far it is; with two complete splits the tables, with all the choice and the verdict."""
    complete, there = len(scores(records)), sum(cell.dataset in DATASETS for cell in records)
    yield f"{there} of {len(PAIRS) * len(SPLITS)} cells; {complete} of {len(SPLITS)} splits have all {len(PAIRS)} pairs"
    if complete < 2:
        return
    for table in (candidate_table(records), pair_table(records)):
        yield from (*repr(table).splitlines(), "")
    if complete < len(SPLITS):
        return
    chosen, held = choice(records), list(held_pairs())
    yield f"chosen: {chosen}"
    if len(scores(records, "lpd", held)) == len(SPLITS):
        yield from (*repr(candidate_table(records, held, "pairs held out")).splitlines(), "")
        yield from verdict(records, chosen)


def held_pairs():
    """The twelve pairs of the verdict."""
    return ((d, n) for d, ns in HELD_OUT.items() for n in ns)


def verdict(records, chosen):
    """Lines: whether the choice stands, and on how many of the six sets it is ahead of ridge."""
    held = list(held_pairs())
    values = scores(records, "lpd", held)
    mean, error, *_ = gains(values, chosen)
    yield f"held out: {chosen} less paper {100 * mean:+.1f} ± {100 * error:.1f} hundredths: {'stands' if mean > 2 * error else 'does not stand'}"
    each = gains(values, chosen, "ridge")[2].reshape(len(HELD_OUT), -1).mean(1)
    yield f"ahead of ridge on {(each > 0).sum()} of {len(HELD_OUT)} sets"
