"""What each test row scores under some of the stored cells: results/row_scores.json, for comparisons row by row.

    python tools/row_scores.py [FOLDER]     FOLDER: fitted models, as `experiments run --models FOLDER` keeps them (build/models);
                                            a cell whose model is not there is fitted; its forecasts are kept

Waveform needs its CSV ($CMN_DATA).  Per row and group of seeds: the mean of ln p(true class), the share of right winners.
"""
import datetime
import json
import os
import sys
import warnings
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
# data set, training rows, method, number of seeds; the cheap ones first
GROUPS = (("waveform", 480, "cavi", 4), ("waveform", 480, "mle-network", 2), ("waveform", 3840, "cavi", 2),
          ("pinwheels", 1600, "cavi", 8), ("pinwheels", 1600, "mle-network", 8),
          ("pinwheels", 400, "cavi", 5), ("pinwheels", 400, "mle-network", 5), ("pinwheels", 400, "mle-exact", 5),
          ("pinwheels", 400, "bbvi", 5), ("pinwheels", 400, "nuts", 2), ("pinwheels", 400, "gibbs", 2))


def forecast(cell, folder):
    """Log-probabilities of a cell's test rows, and their classes; kept in the folder."""
    from cmn_literate import CMNClassifier
    from cmn_literate.use.datasets import PAPER_RUNS
    from cmn_literate.experiments.grid import SETTINGS, options_of
    from cmn_literate.experiments.run import split

    data, train, test = split(cell)
    stem = folder / cell.key.replace("/", "-")
    kept, fitted = stem.with_name(stem.name + "-rows.npy"), stem.with_name(stem.name + ".npz")
    if not kept.is_file():
        print(cell.key, file=sys.stderr, flush=True)
        if fitted.is_file():
            model = CMNClassifier.load(fitted)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = CMNClassifier(PAPER_RUNS[cell.dataset][2], method=SETTINGS[cell.method].method, method_options=options_of(cell),
                                      random_state=cell.seed, classes=np.unique(data.y)).fit(data.X[train], data.y[train])
        np.save(kept, model.predict_log_proba(data.X[test]))
    return np.load(kept), data.y[test]


def per_row(forecasts):
    """Of several (log_p, y): mean ln p of the true class and share of right winners, per row."""
    at = [log_p[np.arange(len(y)), y] for log_p, y in forecasts]
    right = [log_p.argmax(1) == y for log_p, y in forecasts]
    return {"ln_p": [float(f"{v:.7g}") for v in np.mean(at, 0)], "right": np.round(np.mean(right, 0), 2).tolist()}


def main(folder=None):
    from cmn_literate.use.datasets import waveform_proba
    from cmn_literate.experiments.grid import Cell
    from cmn_literate.experiments.run import split, versions

    folder = Path(folder or ROOT / "build" / "models")
    folder.mkdir(parents=True, exist_ok=True)
    rows = {}
    data, _, test = split(Cell("waveform", 3840, "cavi", 0))
    exact = per_row([(np.log(waveform_proba(data.X[test])), data.y[test])])
    top = waveform_proba(data.X[test]).max(1)
    for dataset, n, method, seeds in GROUPS:
        cells = [Cell(dataset, n, method, seed) for seed in range(seeds)]
        rows[f"{dataset}/{n}/{method}"] = {"seeds": seeds, **per_row([forecast(cell, folder) for cell in cells])}
    out = ROOT / "results" / "row_scores.json"
    part = out.with_suffix(".part")
    part.write_text(json.dumps({
        "what": "per test row: mean over seeds of ln p(true class) and of being right; waveform/exact: Bayes rule with the true law",
        "command": "make results-rows", "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": versions(), "waveform_sha256": data.sha256,
        "rows": rows, "waveform/exact": {**exact, "confidence": np.round(top, 5).tolist()}}, separators=(",", ":")) + "\n")
    os.replace(part, out)
    print(f"wrote {out.relative_to(ROOT)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
