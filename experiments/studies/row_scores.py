"""What each test row scores under some of the cells of the grid, for comparisons row by row.

Forecasts are those that the cells have kept; of older cells the models of the folder of --models (build/models); a cell of which
neither is there is fitted, and its model kept.  Per row and group of seeds: the mean of ln p(true class), the share of right winners.
"""

from typing import NamedTuple

import numpy as np

from experiments import grid, store
from experiments.run import fit, split
from experiments.store import ROOT

# data set, training rows, method, number of seeds; the cheap ones first
GROUPS = (("waveform", 480, "cavi", 4), ("waveform", 480, "mle-network", 2), ("waveform", 3840, "cavi", 2),
          ("pinwheels", 1600, "cavi", 8), ("pinwheels", 1600, "mle-network", 8),
          ("pinwheels", 400, "cavi", 5), ("pinwheels", 400, "mle-network", 5), ("pinwheels", 400, "mle-exact", 5),
          ("pinwheels", 400, "bbvi", 5), ("pinwheels", 400, "nuts", 2), ("pinwheels", 400, "gibbs", 2))
EXACT = "exact"                                          # Bayes' rule with the true law
TOLERANCE = 1e-3


class Cell(NamedTuple):
    """A data set, so many of its training rows, a method, and so many seeds, from 0 on."""
    dataset: str
    n_train: int
    method: str
    seeds: int


def plan():
    return [Cell("waveform", 3840, EXACT, 1), *(Cell(*group) for group in GROUPS)]


def forecast(cell, data_home=None, models=None):
    """Log probabilities of the test rows of a cell of the grid."""
    place = store.path_of(store.RESULTS / "cells", cell)
    kept = store.log_p(store.read(place).get(cell, {})) if place.exists() else None
    if kept is not None:
        return kept
    data, train, test = split(cell, data_home)
    return fit(cell, data, train, models=models or ROOT / "build" / "models").predict_log_proba(data.X[test])


def per_row(forecasts, y):
    """Of several forecasts: mean ln p of the true class and share of right winners, per row."""
    at = [log_p[np.arange(len(y)), y] for log_p in forecasts]
    right = [log_p.argmax(1) == y for log_p in forecasts]
    return {"ln_p": [float(f"{v:.7g}") for v in np.mean(at, 0)], "right": np.round(np.mean(right, 0), 2).tolist()}


def run(cell, records=None, data_home=None, models=None):
    from cmn_literate.use.datasets import waveform_proba

    data, _, test = split(grid.Cell(cell.dataset, cell.n_train, "cavi", 0), data_home)
    if cell.method == EXACT:
        p = waveform_proba(data.X[test])
        metrics = per_row([np.log(p)], data.y[test]) | {"confidence": np.round(p.max(1), 5).tolist()}
    else:
        cells = [grid.Cell(*cell[:3], seed) for seed in range(cell.seeds)]
        metrics = per_row([forecast(one, data_home, models) for one in cells], data.y[test])
    return {"setting": {}, "metrics": metrics, "provenance": {"sha256": data.sha256}}


def entries(dataset):
    """{(n_train as text, method): what is stored} of a data set, with the fingerprint of its file."""
    from experiments.studies import records

    return {(str(cell.n_train), cell.method): {**record["metrics"], "seeds": cell.seeds, "sha256": record["provenance"].get("sha256")}
            for cell, record in records("row_scores").items() if cell.dataset == dataset}
