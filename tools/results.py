"""Run the classifier at the paper's setting and store the scores with their provenance in results/.

    python tools/results.py              every record
    python tools/results.py vehicle      this one only

A record says by which command, when, with which versions and from which data it was made. Vehicle needs its CSV ($CMN_DATA).
"""

import argparse
import datetime
import json
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORDS = {"vehicle": (("vehicle",), (0,)), "classifier": (("iris", "wdbc", "vehicle", "pinwheels"), range(5))}


def evaluate(name, seed=0, **options):
    """One run at the paper's setting: (dict of plain numbers, fitted model, train rows, test rows); seed of split and start."""
    import warnings

    import numpy as np
    from sklearn.exceptions import ConvergenceWarning

    from cmn_literate import CMNClassifier
    from cmn_literate.use.datasets import PAPER_RUNS, load, stratified_split
    from cmn_literate.use.metrics import accuracy, expected_calibration_error, log_predictive_density

    data, (n_train, n_test, n_experts) = load(name), PAPER_RUNS[name]
    train, test = stratified_split(data.y, n_train, n_test, np.random.default_rng(seed))
    model = CMNClassifier(**{"n_experts": n_experts, "random_state": seed, **options})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)                 # reported below
        model.fit(data.X[train], data.y[train])
    log_p, y = model.predict_log_proba(data.X[test]), data.y[test]
    report = {"data": name, "seed": seed, "n_train": n_train, "n_test": n_test, "accuracy": accuracy(y, np.exp(log_p)),
              "lpd": log_predictive_density(y, log_p, log=True), "ece": expected_calibration_error(y, np.exp(log_p)),
              "elbo": getattr(model, "elbo_", None), "sweeps": model.n_sweeps_, "converged": model.converged_}
    return report, model, train, test


def make(record):
    """The record of that name: the runs of its data sets and seeds, scores to four digits."""
    from cmn_literate import __version__
    from cmn_literate.use.datasets import FILES, load

    names, seeds = RECORDS[record]
    runs = []
    for name in names:
        for seed in seeds:
            run = evaluate(name, seed=seed)[0]
            runs.append({key: round(value, 4) if isinstance(value, float) else value for key, value in run.items()})
            print(runs[-1], file=sys.stderr, flush=True)
    files = [name for name in names if name in FILES]
    return {
        "what": "held-out scores of CMNClassifier at the paper's hyper-parameters; splits and starts by seed",
        "command": f"python tools/results.py {record}",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": {"cmn_literate": __version__, "python": platform.python_version(),
                     **{package: version(package) for package in ("numpy", "scipy", "scikit-learn")}},
        "sha256": {name: load(name).sha256 for name in files},
        "doi": {name: FILES[name].doi for name in files},
        "runs": runs,
    }


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("records", nargs="*", metavar="RECORD", help=", ".join(RECORDS))
    args = parser.parse_args(argv)
    (ROOT / "results").mkdir(exist_ok=True)
    for record in args.records or RECORDS:
        file = ROOT / "results" / f"{record}.json"
        part = file.with_suffix(".part")
        part.write_text(json.dumps(make(record), indent=1) + "\n")
        os.replace(part, file)
        print(f"wrote {file.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
