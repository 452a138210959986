"""Black-box variational inference at the paper's setting, beside coordinate ascent (ten minutes on one core).

Pinwheels and iris, 100 training rows each, split and scaled as by CMNClassifier, seed 0: 20,000 steps of eight particles, AdaBelief at rate 0.005, from the start of
coordinate ascent, on both bounds; the un-augmented bound also from where coordinate ascent ends; and coordinate ascent from where
the climb on the augmented bound ends. Each q is scored by both bounds and on the test rows.
"""

from typing import NamedTuple

import numpy as np

from experiments.grid import SETS, experts
from experiments.run import load_set

DATA = ("pinwheels", "iris")
METHODS = ("cavi", "bbvi augmented", "cavi from bbvi augmented", "bbvi elbo", "bbvi elbo from cavi")
N_TRAIN, STEPS, SWEEPS, SEED, POINTS = 100, 20_000, 500, 0, 100
TOLERANCE = 1e-2


class Cell(NamedTuple):
    """A data set, which climb, and the seed of split and start."""
    dataset: str
    method: str
    seed: int


def plan():
    return [Cell(data, method, SEED) for data in DATA for method in METHODS]


def problem(name, seed=SEED, data_home=None):
    """Scaled training rows, test rows, and sizes (K, h, L), as CMNClassifier(random_state=seed) sees them."""
    from cmn_literate.use.datasets import stratified_split

    data = load_set(name, data_home)
    train, test = stratified_split(data.y, N_TRAIN, SETS[name]["test"], np.random.default_rng(seed))
    mean, deviation = data.X[train].mean(0), data.X[train].std(0)
    scaled, L = (data.X - mean) / deviation, int(data.y.max()) + 1
    return (scaled[train], data.y[train]), (scaled[test], data.y[test]), (experts(name), L - 1, L)


def scores(state, train, test, priors):
    """Both bounds of a q, and how it predicts the test rows."""
    from cmn_literate.roads.bbvi import augmentation_gap
    from cmn_literate.network.elbo import elbo
    from cmn_literate.use.metrics import accuracy, expected_calibration_error, log_predictive_density
    from cmn_literate.engineering.quadrature import predict_proba
    augmented, (gap, error) = float(elbo(state, *train, priors)), augmentation_gap(state, *train, 1000)
    p = predict_proba(state.parameters, test[0])
    return {"augmented": round(augmented, 2), "gap": round(gap, 2), "gap_error": round(error, 2), "elbo": round(augmented + gap, 2),
            "accuracy": round(accuracy(test[1], p), 4), "lpd": round(log_predictive_density(test[1], p), 4),
            "ece": round(expected_calibration_error(test[1], p), 4),
            "experts_used": round(float(np.exp(-(w := state.local.gamma.mean(0)) @ np.log(np.maximum(w, 1e-300)))), 2)}


def climb(train, sizes, objective, priors, start=None):
    """A fit, and the means of its trace."""
    from cmn_literate.roads.bbvi import fit_bbvi
    fit = fit_bbvi(*train, *sizes, priors=priors, objective=objective, n_steps=STEPS, rng=SEED, start=start)
    return fit, {"n_steps": fit.n_steps, "converged": fit.converged,
                 "trace": [round(float(m), 2) for m in fit.elbo.reshape(POINTS, -1).mean(1)]}


def run(cell, records=None, data_home=None, models=None):
    from cmn_literate.engineering.fit import fit as fit_cavi
    from cmn_literate.network.cavi import sweep
    from cmn_literate.network.simulate import Priors

    priors, method = Priors(), cell.method
    train, test, sizes = problem(cell.dataset, cell.seed, data_home)
    state, setting = None, {"n_steps": SWEEPS}
    if method in ("cavi", "bbvi elbo from cavi"):
        state = fit_cavi(*train, *sizes, priors=priors, rng=cell.seed, max_sweeps=SWEEPS, tol=-np.inf).state(*train)
    if method != "cavi":
        fit, setting = climb(train, sizes, "augmented" if "augmented" in method else "elbo", priors, state)
        state = fit.state
    metrics = scores(state, train, test, priors)
    if method == "cavi from bbvi augmented":
        for _ in range(4 * SWEEPS):
            state = sweep(state, *train, priors)
        metrics, setting = scores(state, train, test, priors), {"n_steps": 4 * SWEEPS}
    more = {name: setting.pop(name) for name in ("converged", "trace") if name in setting}
    return {"setting": setting | {"n_experts": sizes[0]}, "metrics": {"rows": len(train[1]), **metrics, **more}}
