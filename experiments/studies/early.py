"""Maximum likelihood of the network that stops early (minutes).

The last fifth of the training rows is held out.  A climb on the others is scored on it at certain steps, until two of them in a row have
brought nothing better; then all training rows are fitted with the best number of steps.
"""

import tempfile
import time
import warnings
from typing import NamedTuple

import numpy as np

from cmn_literate.use.metrics import log_predictive_density
from experiments import grid
from experiments.grid import DATASETS, sizes, waic_size
from experiments.run import estimator, held_out, plain, split
from experiments.store import packed

STEPS = (30, 60, 125, 250, 500, 1000, 2000, 4000, 8000, 16000)
PATIENCE = 2                                              # so many scores that are no better end the climb

TOLERANCE, TIMED = 1e-3, ("cpu_seconds",)


class Cell(NamedTuple):
    """A data set, so many of its training rows, the seed of the start."""
    dataset: str
    n_train: int
    seed: int


def plan():
    """Four seeds, two beyond the size of the table of WAIC."""
    return [Cell(d, n, s) for d in DATASETS for n in sizes(d) for s in range(4 if n <= waic_size(d) or d == "pinwheels" else 2)]


def run(cell, records=None, data_home=None, models=None):
    """Choose the number of steps, fit, score."""
    dataset, n_train, seed = cell
    data, train, test = split(grid.Cell(dataset, n_train, "mle-network", seed), data_home)
    early, held = np.split(train, [len(train) - len(train) // 5])

    def fit(rows, n_steps, checkpoint=None):
        options = {"objective": "network", "n_steps": n_steps, "checkpoint": checkpoint}
        return estimator(dataset, "mle", options, seed, classes=np.unique(data.y)).fit(data.X[rows], data.y[rows])

    def score(model, rows):
        return log_predictive_density(data.y[rows], model.predict_log_proba(data.X[rows]), log=True)

    start, best, found, worse = time.process_time(), 0, -np.inf, 0
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")                  # of course it has not converged
        for n_steps in STEPS:
            value = score(fit(early, n_steps, f"{folder}/climb.npz"), held)    # goes on from the last one
            best, found, worse = (n_steps, value, 0) if value > found else (best, found, worse + 1)
            if worse == PATIENCE:
                break
        model = fit(train, best)
    cpu = time.process_time() - start
    log_p = model.predict_log_proba(data.X[test])
    found = {"n_steps": best, "climbed": n_steps, "held_out_lpd": found, **held_out(data.y[test], log_p)}
    return {"setting": {"steps": STEPS, "patience": PATIENCE}, "metrics": {name: plain(v) for name, v in found.items()},
            "log_p": packed(log_p), "provenance": {"cpu_seconds": cpu, "sha256": data.sha256}}
