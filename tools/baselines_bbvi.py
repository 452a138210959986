"""Black-box variational inference at the paper's setting, beside coordinate ascent: results/baselines_bbvi.json.

    python tools/baselines_bbvi.py [--jobs 2]    every run (ten minutes on one core)

Pinwheels and iris, 100 training rows each, split and scaled as by CMNClassifier, seed 0: 20,000 steps of eight particles, AdaBelief at rate 0.005, from the start of
coordinate ascent, on both bounds; the un-augmented bound also from where coordinate ascent ends; and coordinate ascent from where
the climb on the augmented bound ends. Each q is scored by both bounds and on the test rows.
"""
import argparse
import datetime
import json
import os
import platform
import sys
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = ("pinwheels", "iris")
TASKS = [(data, method) for data in DATA for method in ("cavi", "bbvi augmented", "bbvi elbo", "bbvi elbo from cavi")]
N_TRAIN, STEPS, SWEEPS, SEED, POINTS = 100, 20_000, 500, 0, 100


def problem(name, seed=SEED):
    """Scaled training rows, test rows, and sizes (K, h, L), as CMNClassifier(random_state=seed) sees them."""
    import numpy as np

    from cmn_literate.use.classifier import PAPER_RUNS
    from cmn_literate.use.datasets import load, stratified_split
    data = load(name)
    n_train, n_test, n_experts = PAPER_RUNS[name]
    n_train = min(n_train, N_TRAIN)
    train, test = stratified_split(data.y, n_train, n_test, np.random.default_rng(seed))
    mean, deviation = data.X[train].mean(0), data.X[train].std(0)
    scaled, L = (data.X - mean) / deviation, int(data.y.max()) + 1
    return (scaled[train], data.y[train]), (scaled[test], data.y[test]), (n_experts, L - 1, L)


def scores(state, train, test, priors):
    """Both bounds of a q, and how it predicts the test rows."""
    import numpy as np

    from cmn_literate.roads.bbvi import augmentation_gap
    from cmn_literate.network.elbo import elbo
    from cmn_literate.use.metrics import accuracy, expected_calibration_error, log_predictive_density
    from cmn_literate.network.predict import predict_proba
    augmented, (gap, error) = float(elbo(state, *train, priors)), augmentation_gap(state, *train, 1000)
    p = predict_proba(state, test[0])
    return {"augmented": round(augmented, 2), "gap": round(gap, 2), "gap_error": round(error, 2), "elbo": round(augmented + gap, 2),
            "accuracy": round(accuracy(test[1], p), 4), "lpd": round(log_predictive_density(test[1], p), 4),
            "ece": round(expected_calibration_error(test[1], p), 4),
            "experts_used": round(float(np.exp(-(w := state.gamma.mean(0)) @ np.log(np.maximum(w, 1e-300)))), 2)}


def climb(train, sizes, objective, priors, start=None):
    """A fit, and the means of its trace."""
    from cmn_literate.roads.bbvi import fit_bbvi
    fit = fit_bbvi(*train, *sizes, priors=priors, objective=objective, n_steps=STEPS, rng=SEED, start=start)
    return fit, {"n_steps": fit.n_steps, "converged": fit.converged,
                 "trace": [round(float(m), 2) for m in fit.elbo.reshape(POINTS, -1).mean(1)]}


def rows_of(task):
    """The rows of the record of one task (data set, method): one, or two if coordinate ascent goes on from there."""
    import numpy as np

    from cmn_literate.engineering.fit import fit as fit_cavi
    from cmn_literate.network.cavi import sweep
    from cmn_literate.network.simulate import Priors
    (name, method), priors = task, Priors()
    train, test, sizes = problem(name)
    row = lambda method, state, **more: {"data": name, "seed": SEED, "rows": len(train[1]), "n_experts": sizes[0], "method": method,
                                         **scores(state, train, test, priors), **more}
    state = None
    if method in ("cavi", "bbvi elbo from cavi"):
        state = fit_cavi(*train, *sizes, priors=priors, rng=SEED, max_sweeps=SWEEPS, tol=-np.inf).state(*train)
    if method == "cavi":
        return [row(method, state, n_steps=SWEEPS)]
    fit, run = climb(train, sizes, fit_objective(method), priors, state)
    rows = [row(method, fit.state, **run)]
    if method == "bbvi augmented":
        state = fit.state
        for _ in range(4 * SWEEPS):
            state = sweep(state, *train, priors)
        rows.append(row("cavi from bbvi augmented", state, n_steps=4 * SWEEPS))
    return rows


def fit_objective(method):
    """Objective of fit_bbvi by the name of a method."""
    return "augmented" if "augmented" in method else "elbo"


def make(rows):
    """The record: rows with provenance."""
    from cmn_literate import __version__
    from cmn_literate.use.datasets import FILES
    return {"what": "black-box variational inference at the paper's setting (8 particles, AdaBelief 0.005) beside coordinate ascent; "
                    "trace: means of 200 steps of the noisy objective, nats",
            "command": "python tools/baselines_bbvi.py", "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "versions": {"cmn_literate": __version__, "python": platform.python_version(),
                         **{package: version(package) for package in ("numpy", "scipy", "scikit-learn")}},
            "sha256": {name: FILES[name].sha256 for name in DATA if name in FILES}, "rows": rows}


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1, help="processes; the record does not depend on it")
    jobs = parser.parse_args(argv).jobs
    rows, file = [], ROOT / "results" / "baselines_bbvi.json"
    with ProcessPoolExecutor(jobs) as pool:
        for more in pool.map(rows_of, TASKS):
            rows += more
            for row in more:
                print({key: value for key, value in row.items() if key != "trace"}, file=sys.stderr, flush=True)
            part = file.with_suffix(".part")
            part.write_text(json.dumps(make(rows), indent=1) + "\n")
            os.replace(part, file)
    print(f"wrote {file.relative_to(ROOT)}")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
