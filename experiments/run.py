"""Split, fit, score and describe one cell of the grid."""

import csv
import hashlib
import os
import warnings
from pathlib import Path

import numpy as np

from experiments.grid import DATA, SETS, SETTINGS, experts, options_of, waic_size
from experiments.provenance import Clock
from experiments.store import packed

TRACE_POINTS = 200


def load_set(name, data_home=None):
    """The data set of that name: one of the package, or the CSV that settings.toml names."""
    from cmn_literate.use.datasets import Dataset, load

    entry = SETS[name]
    if "file" not in entry:
        return load(name, data_home)
    folders = [Path(folder) for folder in (data_home, os.environ.get("CMN_DATA"), ".") if folder]
    path = next((folder / entry["file"] for folder in folders if (folder / entry["file"]).is_file()), None)
    if path is None:
        raise FileNotFoundError(f"{entry['file']} not found, looked in {', '.join(map(str, folders))}")
    content = path.read_bytes()
    names, *rows = csv.reader(content.decode("utf-8-sig").splitlines())
    if entry["target"] not in names:
        raise ValueError(f"target: expected a column of {path}, got {entry['target']!r}")
    at = names.index(entry["target"])
    classes, y = np.unique([row.pop(at) for row in rows], return_inverse=True)
    return Dataset(np.array(rows, dtype=float), y, tuple(n for n in names if n != entry["target"]), tuple(map(str, classes)), str(path),
                   hashlib.sha256(content).hexdigest())


def split(cell, data_home=None, number=0):
    """(data set, training rows, test rows): one test set per data set, training sets that are prefixes of one order.

    number: which split, 0 is that of the grid; each has an order and a test set of its own
    """
    from cmn_literate.use.datasets import stratified_split

    data, largest = load_set(cell.dataset, data_home), SETS[cell.dataset]["train"][-1]
    train, test = stratified_split(data.y, largest, SETS[cell.dataset]["test"], np.random.default_rng(DATA["split"]["seed"] + number))
    if not 2 <= cell.n_train <= largest:
        raise ValueError(f"n_train: expected 2 to {largest} for {cell.dataset}, got {cell.n_train}")
    return data, train[:cell.n_train], test


def thin(trace):
    """Values of at most TRACE_POINTS points of a trace, the first and the last among them; at which steps, `thin_steps` says."""
    trace = np.asarray(trace, dtype=float)
    return [float(f"{v:.8g}") for v in trace[thin_steps(len(trace)) - 1]]


def thin_steps(length):
    """The steps, counted from 1, that `thin` keeps of a trace of that length."""
    return np.unique(np.linspace(0, length - 1, TRACE_POINTS).round().astype(int)) + 1 if length else np.array([], int)


def plain(number, digits=8):
    """A number of so many digits that JSON can hold: "nan", "inf" and "-inf" as text; what is no float as it is."""
    if not isinstance(number, (float, np.floating)):
        return number.item() if isinstance(number, np.generic) else number
    return float(f"{number:.{digits}g}") if np.isfinite(number) else str(float(number))


def estimator(dataset, method="cavi", options=None, seed=0, **more):
    """A CMNClassifier as settings.toml has it for this data set, not fitted; more: options that replace those."""
    from cmn_literate import CMNClassifier
    from cmn_literate.network.simulate import Priors

    return CMNClassifier.paper(**{"n_experts": experts(dataset), "priors": Priors(**DATA["priors"]), **DATA["estimator"], "method": method,
                            "method_options": options, "random_state": seed, **more})


def fit(cell, data, train, overrides=None, models=None):
    """The fitted model of a cell; a file of the folder `models`, if that is given: read if it is there, else written.

    overrides: options that replace those of the method's setting, e.g. {"n_steps": 500}
    """
    from cmn_literate import CMNClassifier

    kept = models and Path(models) / f"{cell.key.replace('/', '-')}.npz"
    if kept and kept.is_file():
        return CMNClassifier.load(kept)
    model = estimator(cell.dataset, SETTINGS[cell.method].method, {**options_of(cell), **(overrides or {})}, cell.seed,
                      classes=np.unique(data.y))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")                  # the record says whether it converged
        model.fit(data.X[train], data.y[train])
    if kept:
        kept.parent.mkdir(parents=True, exist_ok=True)
        model.save(kept)
    return model


def held_out(y, log_p):
    """Accuracy, log score, calibration error and Brier score of a forecast."""
    from cmn_literate.use.metrics import accuracy, brier, expected_calibration_error, log_predictive_density

    p = np.exp(log_p)
    return {"accuracy": accuracy(y, p), "lpd": log_predictive_density(y, log_p, log=True), "ece": expected_calibration_error(y, p),
            "brier": brier(y, p)}


def training_scores(model, X, y, draws_too, seed):
    """Log score of the training rows and, on demand, WAIC and LOO from 200 draws."""
    from cmn_literate.roads.one_table import training_log_likelihoods
    from cmn_literate.use.metrics import log_scores, psis_loo, waic

    n, scores = len(y), log_scores(y, model.predict_log_proba(X), log=True)
    found = {"train_lpd": float(scores.mean()), "train_lpd_se": float(scores.std(ddof=1) / np.sqrt(n))}
    draws = training_log_likelihoods(model, X, y, n_draws=200, rng=seed) if draws_too else None
    if draws is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")              # the number of rows over the limit is stored instead
            w, loo = waic(draws), psis_loo(draws)
        found |= {"waic": w.elpd / n, "waic_se": w.se / n, "waic_bad_rows": int((w.p_rows > 0.4).sum()),
                  "loo": loo.elpd / n, "loo_se": loo.se / n, "loo_bad_rows": int((loo.k > 0.7).sum())}
    return found


def climb_scores(model):
    """How many steps there were and how many were wanted, by a fitted decay, the rule that the paper describes, and to within a nat."""
    from cmn_literate.use.metrics import decay_steps, steps_within

    decay = decay_steps(model.trace_)
    return {"steps": int(model.n_sweeps_), "converged": bool(model.converged_), "steps_decay": None if np.isnan(decay) else round(decay, 3),
            "steps_within_1_nat": steps_within(model.trace_, 1.0), "rhat": getattr(model.fits_[0], "rhat", None)}


def run_cell(cell, data_home=None, overrides=None, models=None):
    """Fit, score and describe one cell.   -> setting, metrics, trace, log_p, and of the provenance what was measured here

    overrides: options that replace those of the method's setting; models: a folder in which the fitted model is kept
    """
    data, train, test = split(cell, data_home)
    clock = Clock()
    model = fit(cell, data, train, overrides, models)
    seconds, cpu = clock.read()
    scoring = Clock()
    log_p = model.predict_log_proba(data.X[test])
    few = cell.n_train <= waic_size(cell.dataset) or cell.seed < 4     # 200 draws of many rows can cost more than the fit
    metrics = held_out(data.y[test], log_p) | training_scores(model, data.X[train], data.y[train], few, cell.seed) | climb_scores(model)
    return {
        "setting": {"method": model.method, "n_experts": model.n_experts, **DATA["estimator"], "priors": DATA["priors"],
                    **(model.method_options or {})},
        "metrics": {name: plain(number) for name, number in metrics.items()},
        "trace": {"objective": DATA["methods"][cell.method]["objective"], "length": len(model.trace_), "value": thin(model.trace_)},
        "log_p": packed(log_p),
        "provenance": {"seconds": seconds, "cpu_seconds": cpu, "scoring_cpu_seconds": scoring.read()[1], "sha256": data.sha256}}
