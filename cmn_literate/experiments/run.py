"""Run one cell, or many side by side."""

import datetime
import multiprocessing
import multiprocessing.connection
import platform
import signal
import sys
import time
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

import cmn_literate
from cmn_literate.experiments.grid import SETTINGS, options_of, waic_size

TRACE_POINTS = 200


def split(cell, data_home=None):
    """(data set, training rows, test rows): one test set per data set, training sets that are prefixes of one order."""
    from cmn_literate.use.datasets import SPLITS, load, stratified_split

    data = load(cell.dataset, data_home)
    _, largest, n_test = SPLITS[cell.dataset]
    train, test = stratified_split(data.y, largest, n_test, np.random.default_rng(0))
    if not 2 <= cell.n_train <= largest:
        raise ValueError(f"n_train: expected 2 to {largest} for {cell.dataset}, got {cell.n_train}")
    return data, train[:cell.n_train], test


def thin(trace):
    """Steps (counted from 1) and values of at most TRACE_POINTS points of a trace, the first and the last among them."""
    trace = np.asarray(trace, dtype=float)
    at = np.unique(np.linspace(0, len(trace) - 1, TRACE_POINTS).round().astype(int)) if len(trace) else np.array([], int)
    return [int(i) + 1 for i in at], [float(f"{v:.8g}") for v in trace[at]]


def plain(number):
    """A number of 8 digits that JSON can hold: "nan", "inf" and "-inf" as text, None as it is."""
    return number if number is None else float(f"{number:.8g}") if np.isfinite(number) else str(float(number))


def versions():
    """Python and the packages that the numbers depend on."""
    found = {"python": platform.python_version(), "cmn_literate": cmn_literate.__version__}
    for package in ("numpy", "scipy", "autograd", "scikit-learn", "polyagamma"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def peak_mb():
    """Largest resident memory of this process so far, in MB; None where the system does not say."""
    try:
        import resource
    except ImportError:
        return None
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1024**2), 1)


def run_cell(cell, data_home=None, overrides=None, models=None):
    """Fit, score and describe one cell.   -> record, a dict of plain values

    overrides: options that replace those of the method's setting, e.g. {"n_steps": 500}
    models: a folder; the fitted model is saved there
    """
    from threadpoolctl import threadpool_limits

    from cmn_literate import CMNClassifier
    from cmn_literate.use.datasets import PAPER_RUNS
    from cmn_literate.learners import find_learner
    from cmn_literate.roads.one_table import training_log_likelihoods
    from cmn_literate.use.metrics import (accuracy, brier, decay_steps, expected_calibration_error, log_predictive_density,
                                      log_scores, psis_loo, steps_within, waic)

    setting = SETTINGS[cell.method]
    options = {**options_of(cell), **(overrides or {})}
    data, train, test = split(cell, data_home)
    model = CMNClassifier(n_experts=PAPER_RUNS[cell.dataset][2], method=setting.method, method_options=options,
                          random_state=cell.seed, classes=np.unique(data.y))
    start, cpu = time.perf_counter(), time.process_time()
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")                  # the record says whether it converged
        model.fit(data.X[train], data.y[train])
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        scoring = time.process_time()
        log_p = model.predict_log_proba(data.X[test])
        train_scores = log_scores(data.y[train], model.predict_log_proba(data.X[train]), log=True)
        draws = None
        if cell.n_train <= waic_size(cell.dataset) or cell.seed < 4:   # 200 draws of many rows can cost more than the fit
            draws = training_log_likelihoods(model, data.X[train], data.y[train], n_draws=200, rng=cell.seed)
    if models is not None:
        Path(models).mkdir(parents=True, exist_ok=True)
        model.save(Path(models) / f"{cell.key.replace('/', '-')}.npz")
    y, p = data.y[test], np.exp(log_p)
    trace = model.trace_
    metrics = {"accuracy": accuracy(y, p), "lpd": log_predictive_density(y, log_p, log=True),
               "ece": expected_calibration_error(y, p), "brier": brier(y, p), "train_lpd": float(train_scores.mean()),
               "train_lpd_se": float(train_scores.std(ddof=1) / np.sqrt(len(train)))}
    if draws is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")              # the number of rows over the limit is stored instead
            w, loo = waic(draws), psis_loo(draws)
        metrics |= {"waic": w.elpd / len(train), "waic_se": w.se / len(train), "waic_bad_rows": int((w.p_rows > 0.4).sum()),
                    "loo": loo.elpd / len(train), "loo_se": loo.se / len(train), "loo_bad_rows": int((~(loo.k <= 0.7)).sum())}      # an unknown tail index included
    steps, values = thin(trace)
    scoring = time.process_time() - scoring
    return {
        "cell": cell._asdict(),
        "setting": {"method": setting.method, **options, "n_experts": model.n_experts},
        "metrics": {name: plain(number) for name, number in metrics.items()},
        "objective": find_learner(model.method).objective, "trace": {"step": steps, "value": values},
        "steps": int(model.n_sweeps_), "converged": bool(model.converged_),
        "steps_decay": None if np.isnan(decay_steps(trace)) else round(decay_steps(trace), 3), "steps_within_1_nat": steps_within(trace, 1.0),
        "seconds": round(seconds, 4), "cpu_seconds": round(cpu, 4), "seconds_per_step": float(f"{cpu / model.n_sweeps_:.4g}"),
        "scoring_cpu_seconds": round(scoring, 4),
        "rhat": plain(getattr(model.fits_[0], "rhat", None)),
        "peak_mb": peak_mb(),
        "versions": versions(), "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": "python -m cmn_literate experiments run " + ("--small" if overrides else f"--only {cell.key}"),
    }


def _work(cell, options, answer):
    signal.signal(signal.SIGINT, signal.SIG_IGN)         # the parent decides what an interrupt means
    try:
        answer.send((run_cell(cell, **options), None))
    except Exception as error:
        answer.send((None, f"{type(error).__name__}: {error}"))


def run_many(cells, save, jobs=1, budget=None, progress=None, overrides=None, **options):
    """Run cells and hand each record to `save` as it comes.   -> (number done, {cell: error}, number left)

    budget: minutes after which no new cell is started; overrides: {cell: options that replace those of its setting};
    options: of run_cell.  Each cell has a process of its own: one that dies is a failed cell, the others go on.  Ctrl-C drops the
    cells in hand and keeps all records.
    """
    end = time.monotonic() + 60 * budget if budget else float("inf")
    done, failed, waiting, running = 0, {}, iter(cells), {}
    method = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
    context = multiprocessing.get_context(method)
    try:
        while True:
            while len(running) < jobs and time.monotonic() < end:
                cell = next(waiting, None)
                if cell is None:
                    break
                receive, send = context.Pipe(duplex=False)
                chosen = options | {"overrides": (overrides or {}).get(cell)}
                process = context.Process(target=_work, args=(cell, chosen, send), daemon=True)
                process.start()
                send.close()                             # the worker's end is the only one: when it dies, we hear the end
                running[receive] = cell, process
            if not running:
                break
            for receive in multiprocessing.connection.wait(list(running)):
                cell, process = running.pop(receive)
                try:
                    record, error = receive.recv()
                except EOFError:
                    record, error = None, "its process died"
                process.join()
                if error is None:
                    save(record)
                    done += 1
                else:
                    code = f" (exit code {process.exitcode})" if process.exitcode else ""
                    failed[cell] = error + code
                    print(f"{cell.key}: {failed[cell]}", file=sys.stderr)
                if progress:
                    progress(cell, record)
    except KeyboardInterrupt:
        print("interrupted: the records of finished cells are kept", file=sys.stderr)
    finally:
        for _, process in running.values():
            process.terminate()
    return done, failed, len(cells) - done - len(failed)
