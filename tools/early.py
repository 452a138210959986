"""Maximum likelihood of the network that stops early -> results/early.json.

The last fifth of the training rows is held out.  A climb on the others is scored on it at certain steps, until two of them in a row have
brought nothing better; then all training rows are fitted with the best number of steps.  What is stored is skipped, so an interrupted run
goes on; needs the CSV files.

    python tools/early.py [--budget MINUTES]
"""
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from others import fill
from threadpoolctl import threadpool_limits

from cmn_literate import CMNClassifier
from cmn_literate.use.datasets import PAPER_RUNS
from cmn_literate.experiments.grid import DATASETS, Cell, sizes, waic_size
from cmn_literate.experiments.run import split
from cmn_literate.use.metrics import accuracy, expected_calibration_error, log_predictive_density

PATH = Path(__file__).parent.parent / "results" / "early.json"
STEPS = (30, 60, 125, 250, 500, 1000, 2000, 4000, 8000, 16000)
PATIENCE = 2                                              # so many scores that are no better end the climb


def run(dataset, n_train, seed, data_home=None):
    """Choose the number of steps, fit, score.   -> record"""
    data, train, test = split(Cell(dataset, n_train, "mle-network", seed), data_home)
    early, held = np.split(train, [len(train) - len(train) // 5])

    def fit(rows, n_steps, checkpoint=None):
        options = {"objective": "network", "n_steps": n_steps, "checkpoint": checkpoint}
        return CMNClassifier(PAPER_RUNS[dataset][2], method="mle", method_options=options, random_state=seed,
                             classes=np.unique(data.y)).fit(data.X[rows], data.y[rows])

    def score(model, rows):
        return log_predictive_density(data.y[rows], model.predict_log_proba(data.X[rows]), log=True)

    start, best, found, worse = time.process_time(), 0, -np.inf, 0
    with warnings.catch_warnings(), threadpool_limits(1), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")                  # of course it has not converged
        for n_steps in STEPS:
            value = score(fit(early, n_steps, f"{folder}/climb.npz"), held)    # goes on from the last one
            best, found, worse = (n_steps, value, 0) if value > found else (best, found, worse + 1)
            if worse == PATIENCE:
                break
        model = fit(train, best)
    cpu = time.process_time() - start
    p = model.predict_proba(data.X[test])
    record = {"dataset": dataset, "n_train": n_train, "seed": seed, "n_steps": best, "climbed": n_steps, "held_out_lpd": found,
              "accuracy": accuracy(data.y[test], p), "lpd": score(model, test), "ece": expected_calibration_error(data.y[test], p),
              "cpu_seconds": cpu}
    return {k: float(f"{v:.8g}") if isinstance(v, float) else v for k, v in record.items()}


def planned():
    """(dataset, n_train, seed): four seeds, two beyond the size of the table of WAIC."""
    return [(d, n, s) for d in DATASETS for n in sizes(d) for s in range(4 if n <= waic_size(d) or d == "pinwheels" else 2)]


def main():
    head = {"what": "held-out scores of the network's maximum likelihood with the number of steps chosen on a fifth of the training rows",
            "command": "python tools/early.py", "steps": STEPS}
    fill(PATH, head, ("numpy", "scipy", "autograd"), ("dataset", "n_train", "seed"), planned(), run)


if __name__ == "__main__":
    main()
