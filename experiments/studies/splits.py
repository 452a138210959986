"""CAVI, the network's maximum likelihood and ridge logistic regression on six splits of every data set: what an error bar is of.

The grid has one split and many starts.  Here the split is a dimension of the cell, and the three methods share it: a difference between two
of them is paired by split.  Split 0 is that of the grid.
"""

import json
import time
import warnings
from typing import NamedTuple

import numpy as np

from experiments import grid, store, studies
from experiments.grid import DATA, DATASETS, sizes
from experiments.run import fit, held_out, plain, split
from experiments.report import value
from experiments.store import packed
from experiments.studies.others import forecast, standardised
from experiments.tables import Table

PLACE = "splits"
TOLERANCE = 1e-3
SPLITS = 6
METHODS = ("cavi", "mle-network", "ridge")
NAMES = {"accuracy": "accuracy", "lpd": "log score", "ece": "ECE", "brier": "Brier score"}
# a small, a middle and a large size: the first, a middle and the last, but for two sets whose maximum likelihood takes minutes at the last
LESS = {"waveform": (60, 480, 960), "rice": (40, 320, 640)}
DEAR = {("waveform", 3840), ("rice", 2560)}               # there the other methods alone
SLOW = ("waveform", 60, "cavi")                          # a forecast takes fifty times the fit: last


class Cell(NamedTuple):
    """A data set, so many of its training rows, a method, the number of the split, the seed of the start."""
    dataset: str
    n_train: int
    method: str
    split: int
    seed: int


def sizes_of(dataset):
    """Training sizes at which the three methods meet: a small, a middle and a large one."""
    ns = sizes(dataset)
    return LESS.get(dataset, (ns[0], ns[len(ns) // 2], ns[-1]))


def plan():
    """One start per split, the middle sizes and the cheap sets first; what only luck with the start moves is seen in the grid's sixteen starts."""
    def cells(method, at, sets):
        return [Cell(d, sizes_of(d)[at], method, s, 0) for d in sets for s in range(SPLITS)]

    cheap, found = sorted(DATASETS, key=lambda d: sizes_of(d)[2]), []
    for method, at in (("ridge", 0), ("ridge", 1), ("ridge", 2), ("cavi", 1), ("mle-network", 1), ("cavi", 0), ("mle-network", 0), ("cavi", 2), ("mle-network", 2)):
        found += cells(method, at, cheap)
    found += [Cell(d, n, method, s, 0) for d, n in sorted(DEAR) for method in ("ridge", "cavi") for s in range(SPLITS)]
    return [cell for cell in found if cell[:3] != SLOW] + [cell for cell in found if cell[:3] == SLOW]


TRUTH = "truth.json"                                      # beside the records: the classes of the test rows, a digit each


def truth(dataset, number):
    """Classes 0, 1, ... of the test rows of a split, as stored: who reads the records needs no data."""
    stored = json.loads((store.RESULTS / PLACE / TRUTH).read_text())
    return np.array(list(stored[dataset][number]), int)


def write_truth(data_home=None):
    """Store the classes of the test rows of every split."""
    found = {}
    for dataset in DATASETS:
        for number in range(SPLITS):
            data, _, test = split(Cell(dataset, sizes_of(dataset)[1], "cavi", number, 0), data_home, number)
            labels = np.unique(data.y, return_inverse=True)[1][test]
            found.setdefault(dataset, []).append("".join(map(str, labels)))
    (store.RESULTS / PLACE / TRUTH).write_text(json.dumps(found, indent=1) + "\n")


def run(cell, records=None, data_home=None, models=None):
    """One fit and its scores on the test rows of its split."""
    data, train, test = split(cell, data_home, cell.split)
    truth, spent = np.unique(data.y, return_inverse=True)[1][test], [time.process_time()]
    if cell.method == "ridge":
        Z, y = standardised(data.X, train), np.unique(data.y, return_inverse=True)[1]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            log_p, _ = forecast("logistic", Z[train], y[train], Z[test], cell.seed, cell.dataset)
        setting = {"method": "logistic"}
        spent += 2 * [time.process_time()]
    else:
        model = fit(grid.Cell(cell.dataset, cell.n_train, cell.method, cell.seed), data, train)
        spent.append(time.process_time())
        log_p = model.predict_log_proba(data.X[test])
        spent.append(time.process_time())
        setting = {"method": model.method, **(model.method_options or {}), "n_experts": model.n_experts, **DATA["estimator"],
                   "priors": DATA["priors"]}
    metrics = {name: plain(number) for name, number in held_out(truth, log_p).items()}
    if cell.method != "ridge":
        metrics |= {"steps": int(model.n_sweeps_), "converged": bool(model.converged_)}
    return {"setting": setting, "metrics": metrics, "log_p": packed(log_p),
            "provenance": {"cpu_seconds": spent[1] - spent[0], "scoring_cpu_seconds": spent[2] - spent[1], "sha256": data.sha256}}


class Spread(NamedTuple):
    """One number of a method at a size.

    mean           of the splits' means over seeds
    over_splits    standard deviation of these means over splits; what seeds do is in it, the more the fewer a split has
    over_seeds     standard deviation within a split, pooled over those with two seeds or more, else that of the grid's seeds on its one
                   split (NaN: neither)
    grid_error     standard error over the seeds of the grid, the band of a study that has one split (NaN: not there)
    splits, seeds  how many splits, and the fewest seeds that a split has
    """
    mean: float
    over_splits: float
    over_seeds: float
    grid_error: float
    splits: int
    seeds: int

    @property
    def between(self):
        """Standard deviation over splits without what the seeds of a split do; 0 where these alone explain it."""
        return float(np.sqrt(max(0.0, self.over_splits**2 - np.nan_to_num(self.over_seeds) ** 2 / self.seeds)))

    @property
    def ratio(self):
        """How many times larger the deviation over splits is than that over seeds; infinite where seeds make no difference."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.divide(self.over_splits, self.over_seeds))

    @property
    def too_small(self):
        """How many times larger it is than the band over the grid's seeds, which stands for it where there is one split."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.divide(self.over_splits, self.grid_error))


class Gap(NamedTuple):
    """A method less another on the same splits: mean difference, its standard deviation and standard error over splits, how many splits,
    and on how many of them the first has the larger number.

    The splits share rows, so their differences are not independent and the error is too small rather than too large.
    """
    mean: float
    sd: float
    error: float
    splits: int
    larger: int


def by_split(records, name):
    """{(dataset, n_train, method): {split: [the number of each seed]}}"""
    found = {}
    for cell in sorted(records):
        found.setdefault(cell[:3], {}).setdefault(cell.split, []).append(value(records[cell], name))
    return found


def spreads(records, name, cells=None):
    """{(dataset, n_train, method): Spread} where two splits or more are stored.   cells: records of the grid, for methods with one seed here"""
    out, theirs = {}, {}
    for cell, record in (cells or {}).items():
        theirs.setdefault(cell[:3], []).append(value(record, name))
    for key, groups in by_split(records, name).items():
        if len(groups) < 2:
            continue
        means, mine = np.array([np.mean(v) for v in groups.values()]), theirs.get(key, ())
        within = [np.var(v, ddof=1) for v in groups.values() if len(v) > 1]
        weights = [len(v) - 1 for v in groups.values() if len(v) > 1]
        of_grid = float(np.std(mine, ddof=1)) if len(mine) > 1 else np.nan
        inner = float(np.sqrt(np.average(within, weights=weights))) if within else of_grid
        if key[2] == "ridge":
            inner = of_grid = 0.0                        # the same fit from every seed
        out[key] = Spread(float(means.mean()), float(means.std(ddof=1)), inner, of_grid / max(len(mine), 1) ** 0.5, len(means),
                          min(map(len, groups.values())))
    return out


def paired(records, name, a="cavi", b="mle-network"):
    """{(dataset, n_train): Gap} of a less b, over the splits that both have, two at the least."""
    found, out = by_split(records, name), {}
    for dataset, n, method in found:
        mine, theirs = found[dataset, n, method], found.get((dataset, n, b), {})
        both = sorted(set(mine) & set(theirs))
        if method == a and len(both) > 1:
            gaps = np.array([np.mean(mine[s]) - np.mean(theirs[s]) for s in both])
            sd = float(gaps.std(ddof=1))
            out[dataset, n] = Gap(float(gaps.mean()), sd, sd / len(both) ** 0.5, len(both), int((gaps > 0).sum()))
    return out


def spread_table(records, name="lpd", cells=None, digits=3):
    """A Table: per data set, size and method the mean, the deviations over splits and over seeds, and their ratio."""
    number, times = lambda v: None if np.isnan(v) else f"{v:.{digits}f}", lambda v: f"{v:.1f}" if np.isfinite(v) else None
    rows = []
    for (d, n, method), s in sorted(spreads(records, name, cells).items(), key=lambda item: (DATASETS.index(item[0][0]), item[0][1:])):
        seedless = method == "ridge"
        rows.append([d, n, method, number(s.mean), number(s.over_splits), None if seedless else number(s.over_seeds), times(s.ratio),
                     None if seedless else number(s.grid_error), times(s.too_small), s.splits])
    return Table(["data", "rows", "method", NAMES[name], "sd over splits", "sd over seeds", "ratio", "s.e. over the grid's seeds", "ratio to it",
                  "splits"], rows, "lll" + 7 * "r", f"What a split and what a start do to the {NAMES[name]}")


def gap_table(records, name="lpd", others=("mle-network", "ridge"), digits=3):
    """A Table: CAVI less each other method, paired by split, with its standard error over splits, and on how many splits it is ahead."""
    found, rows = {b: paired(records, name, "cavi", b) for b in others}, []
    for d, n in sorted({key for gaps in found.values() for key in gaps}, key=lambda key: (DATASETS.index(key[0]), key[1])):
        row = [d, n]
        for b in others:
            gap = found[b].get((d, n))
            ahead = gap and (gap.larger if name in ("accuracy", "lpd") else gap.splits - gap.larger)
            row += [f"{gap.mean:+.{digits}f} ± {gap.error:.{digits}f}", f"{ahead} of {gap.splits}"] if gap else [None, None]
        rows.append(row)
    head = [title for b in others for title in (f"CAVI less {b}", f"ahead of {b}")]
    return Table(["data", "rows", *head], rows, "ll" + "r" * len(head), f"Paired differences of the {NAMES[name]}, ± standard error over splits")


def report(records):
    """Lines: the tables of the three scores."""
    cells = studies.records("cells")
    for name in ("lpd", "accuracy", "ece"):
        yield from (*repr(spread_table(records, name, cells)).splitlines(), "", *repr(gap_table(records, name)).splitlines(), "")
