"""Maximum likelihood at the paper's setting, on all rows of its seven data sets: results/baselines_mle.json.

    python tools/baselines_mle.py            every run (half an hour on one core; needs the data, $CMN_DATA)

All rows are used, as in the program that made the paper's Table 1. K = 20 experts, h = L - 1, standardised features,
AdaBelief at its defaults, one start. The network takes the paper's 20,000 steps; so does the exact likelihood where a step is cheap,
and fewer on the large sets.
"""
import datetime
import json
import os
import platform
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# name in our files, name and score in the paper's Table 1
TABLE = {"rice": ("Rice", -0.3599), "wdbc": ("Breast Cancer", -0.3133), "waveform": ("Waveform", -0.5759),
         "vehicle": ("Vehicle Silh.", -0.7437), "banknote": ("Banknote", -0.3133), "sonar": ("Sonar", -0.3133), "iris": ("Iris", -0.5514)}
STEPS = {"rice": 2000, "vehicle": 2000, "waveform": 500, "banknote": 5000}     # of the exact likelihood; 20,000 elsewhere
NODES = {"iris": 10, "waveform": 6}                                 # per coordinate, where the integral has two dimensions
RUNS = [(objective, name, 0) for objective in ("network", "exact") for name in TABLE]


def mle_row(objective, name, seed):
    """One fit, scored on its own training rows: rightly, and normalised twice."""
    import numpy as np

    from cmn_literate.use.datasets import load
    from cmn_literate.roads.mle import fit_mle, softmax_twice, softmax_twice_ceiling

    data = load(name)
    X, y = (data.X - data.X.mean(0)) / data.X.std(0), data.y
    steps = STEPS.get(name, 20_000) if objective == "exact" else 20_000
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)             # the record says "separated"
        fit = fit_mle(X, y, 20, objective=objective, n_steps=steps, rng=seed, n_nodes=NODES.get(name) if objective == "exact" else None)
    log_p = fit.predict_log_proba(X)
    return {"data": name, "objective": objective, "seed": seed, "rows": len(y), "n_steps": fit.n_steps,
            "log_likelihood_per_row": float(f"{fit.log_likelihood / len(y):.6g}"),
            "accuracy": round(float((log_p.argmax(1) == y).mean()), 4),
            "softmax_twice": round(float(softmax_twice(log_p)[np.arange(len(y)), y].mean()), 4),
            "ceiling": round(softmax_twice_ceiling(log_p.shape[1]), 4), "paper": TABLE[name][1],
            "separated": fit.separated, "converged": fit.converged}


def mle_rows(runs=RUNS):
    """The rows of the record, one after the other."""
    for run in runs:
        row = mle_row(*run)
        print(row, file=sys.stderr, flush=True)
        yield row


def make(rows):
    """The record: rows with provenance."""
    from cmn_literate import __version__
    from cmn_literate.use.datasets import FILES

    return {"what": "training scores per row of maximum likelihood, K = 20, all rows, full batch, AdaBelief at its defaults",
            "command": "python tools/baselines_mle.py", "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "versions": {"cmn_literate": __version__, "python": platform.python_version(),
                         **{package: version(package) for package in ("numpy", "scipy")}},
            "sha256": {name: FILES[name].sha256 for name in TABLE}, "rows": rows}


def main():
    rows, file = [], ROOT / "results" / "baselines_mle.json"
    for row in mle_rows():
        rows.append(row)
        part = file.with_suffix(".part")
        part.write_text(json.dumps(make(rows), indent=1) + "\n")
        os.replace(part, file)
    print(f"wrote {file.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
