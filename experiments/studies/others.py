"""Other classifiers on the splits of the experiments (minutes).

Logistic regression, nearest neighbours, a random forest, gradient boosting, a Gaussian process, a network with temperature scaling,
CAVI-CMN at the paper's settings from one start and from eight averaged ones, and the new default: "mix" of the study of defaults, its four fits
made by the code of that study, so that the record does not hang on what the estimator does when nobody asks.
"""

import time
import warnings

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, logsumexp
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold, cross_val_predict, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier

from cmn_literate.use.metrics import log_scores
from experiments.grid import DATASETS, Cell, experts, sizes
from experiments.run import estimator, held_out, plain, split
from experiments.store import packed

TOLERANCE = 1e-3
SEEDS = {"logistic": 1, "neighbours": 1, "forest": 4, "boosting": 1, "gp": 1, "mlp": 4, "cmn": 4, "cmn-8": 4, "cmn-default": 4}
ONE_SEED_BELOW = ("cmn-8", "cmn-default")                # dear: all its seeds at the largest size only
ALL_SIZES = ("cmn-default",)                             # also between the three sizes, to be held against the samplers of the grid
GP_ROWS = 640


def folds(y, seed=0):
    """Five stratified folds, or as many as the rarest class has rows."""
    return StratifiedKFold(min(5, int(np.bincount(y).min())), shuffle=True, random_state=seed)


def smoothed(p, votes):
    """One more vote for every class, so that no forecast is 0."""
    return (votes * p + 1) / (votes + p.shape[1])


def temperature(logits, y):
    """The T >= 1 for which softmax(logits / T) has the smallest negative log likelihood of y.

    Rows that are all classified correctly would take T to 0; a network is only ever cooled down here.
    """
    loss = lambda u: -log_softmax(logits / np.exp(u), axis=1)[np.arange(len(y)), y].mean()
    found = float(np.exp(minimize_scalar(loss, bounds=(0, 5), method="bounded", options={"xatol": 1e-8}).x))
    return found if loss(np.log(found)) < loss(0.0) else 1.0


def logits_of(model, X):
    """Inputs of the softmax of a fitted MLPClassifier, (n, L); 0 and the logit for two classes."""
    for W, b in zip(model.coefs_[:-1], model.intercepts_[:-1]):
        X = np.maximum(X @ W + b, 0.0)
    X = X @ model.coefs_[-1] + model.intercepts_[-1]
    return np.hstack([np.zeros_like(X), X]) if X.shape[1] == 1 else X


def standardised(X, train):
    """Columns less their mean over their deviation, both of the training rows."""
    mean, scale = X[train].mean(0), X[train].std(0)
    return (X - mean) / np.where(scale > 0, scale, 1.0)


def forecast_default(X, y, X_new, seed, n_experts):
    """Fit what the study of defaults chose; its members have the seeds of that study, and four higher ones for every further seed.

    -> log probabilities of X_new
    """
    from cmn_literate.engineering.quadrature import predict_log_proba
    from experiments.studies.defaults import CANDIDATES, fit_one

    members = [(model, start, s + 4 * seed) for model, start, s in CANDIDATES["mix"]]
    found = [predict_log_proba(fit_one(one, X, y, int(y.max()) + 1, n_experts).parameters, X_new) for one in members]
    return logsumexp(found, axis=0) - np.log(len(found))


def forecast(method, X, y, X_new, seed, dataset):
    """Fit on X, y.   -> (log probabilities of X_new, notes)"""
    notes = {}
    if method == "logistic":
        model = LogisticRegressionCV(Cs=np.logspace(-3, 3, 13), cv=folds(y), scoring="neg_log_loss", max_iter=5000, l1_ratios=(0,),
                                     use_legacy_attributes=False).fit(X, y)
        p = model.predict_proba(X_new)
    elif method == "neighbours":
        loss = {}
        for k in (1, 3, 5, 9, 15, 25, 45, 91, 151):
            if k <= 0.6 * len(y):
                p = cross_val_predict(KNeighborsClassifier(k), X, y, cv=folds(y), method="predict_proba")
                loss[k] = -np.log(smoothed(p, k)[np.arange(len(y)), y]).mean()
        notes["k"] = k = min(loss, key=loss.get)
        p = KNeighborsClassifier(k).fit(X, y).predict_proba(X_new)
        notes["zeros"], p = p, smoothed(p, k)
    elif method == "forest":
        model = RandomForestClassifier(500, random_state=seed).fit(X, y)
        p = model.predict_proba(X_new)
        notes["zeros"], p = p, smoothed(p, 500)
    elif method == "boosting":
        model = HistGradientBoostingClassifier(random_state=seed).fit(X, y)
        p = model.predict_proba(X_new)
    elif method == "gp":
        if len(y) > GP_ROWS:
            X, y, notes["rows"] = X[:GP_ROWS], y[:GP_ROWS], GP_ROWS
        kernel = ConstantKernel(4.0, (1e-2, 1e4)) * RBF(np.sqrt(X.shape[1]), (1e-1, 1e3))
        p = GaussianProcessClassifier(kernel, random_state=0).fit(X, y).predict_proba(X_new)
    elif method == "mlp":
        share = max(0.2, (y.max() + 1) / len(y))
        fit, held = train_test_split(np.arange(len(y)), test_size=share, stratify=y, random_state=seed)
        model = MLPClassifier((64, 64), alpha=1e-3, max_iter=1000, random_state=seed).fit(X[fit], y[fit])
        notes["temperature"] = T = temperature(logits_of(model, X[held]), y[held])
        logits = logits_of(model, X_new)
        notes["untempered"] = log_softmax(logits, axis=1)
        return log_softmax(logits / T, axis=1), notes
    elif method == "cmn-default":
        return forecast_default(X, y, X_new, seed, experts(dataset)), notes
    else:
        starts = 8 if method == "cmn-8" else 1
        model = estimator(dataset, seed=seed, n_init=starts).fit(X, y)
        return model.predict_log_proba(X_new), notes
    with np.errstate(divide="ignore"):
        return np.log(p), notes


def plan():
    """Cells whose method is a classifier of this module: cheap methods first, large sizes first."""
    cells = []
    for method, seeds in SEEDS.items():
        for dataset in DATASETS:
            ns = sizes(dataset)
            three = (ns[-1], ns[len(ns) // 2], ns[0])
            between = [n for n in ns if n not in three] if method in ALL_SIZES else []
            cells += [Cell(dataset, n, method, s) for n in (*three, *between)
                      for s in range(1 if method in ONE_SEED_BELOW and n < ns[-1] else seeds)]
    return cells


def run(cell, records=None, data_home=None, models=None):
    """One fit and its scores; at the largest size also the score of every test row."""
    dataset, n_train, method, seed = cell
    data, train, test = split(cell._replace(method="cavi"), data_home)
    labels, y = np.unique(data.y, return_inverse=True)
    Z = standardised(data.X, train)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        log_p, notes = forecast(method, Z[train], y[train], Z[test], seed, dataset)
    cpu = time.process_time() - start
    p, truth = np.exp(log_p), y[test]
    log_p -= np.log(p.sum(1, keepdims=True))
    rows = log_scores(truth, log_p, log=True)
    if "zeros" in notes:                                  # test rows that were given probability 0 before smoothing
        notes["zeros"] = int((notes["zeros"][np.arange(len(truth)), truth] == 0).sum())
    if "untempered" in notes:
        notes["untempered"] = float(notes["untempered"][np.arange(len(truth)), truth].mean())
    metrics = {name: plain(v, 6) for name, v in {**held_out(truth, log_p), **notes}.items()}
    if n_train == sizes(dataset)[-1]:
        metrics["log_scores"] = [round(float(v), 4) for v in rows]
    return {"setting": {}, "metrics": metrics, "log_p": packed(log_p), "provenance": {"cpu_seconds": cpu, "sha256": data.sha256}}
