# Tangled from book/use/classifier.ipynb by tools/tangle.py; edit the notebook, not this file.
"""A classifier you can use

Everything so far fits behind `fit` and `predict_proba`. The coat is thin: it scales the columns,
names the labels, starts four ascents and averages their forecasts.
"""

__all__ = ["fit_starts", "CMNClassifier"]


# book/use/classifier.ipynb, cell classifier-04
import warnings
from copy import copy
from functools import partial

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from cmn_literate.engineering.chains import run_apart
from cmn_literate.engineering.runs import objective_trace, run_learner
from cmn_literate.engineering.out_of_core import learn_source
from cmn_literate.engineering.sources import block_moments, moment_scale
from cmn_literate.engineering.streams import learn_chunk
from cmn_literate.estimators import Estimator
from cmn_literate.inputs import (
    USUAL, as_generator, check_classes, check_memory, check_options,
    check_squares, chunk_classes, encode_labels, plain_labels, weigh_rows)
from cmn_literate.learners import (
    find_learner, learner_options, not_converged, settle_method)
from cmn_literate.network.simulate import Priors
from cmn_literate.parallel import (
    effective_jobs, in_order, one_blas_thread, share_jobs)
from cmn_literate.readers import is_source
from cmn_literate.use.datasets import holdout_rows
from cmn_literate.use.uncertainty import Insight, average_log_proba


# book/use/classifier.ipynb, cell classifier-41
def _start(task, est, Z, codes, weight=None):
    """One start of (number, seed or Generator, rows).   -> result, whether Ctrl-C cut it"""
    i, rng, rows = task
    return run_learner(est, Z[rows], codes[rows], len(est.classes_), np.random.default_rng(rng),
                       f"start {i + 1} of {est.n_init}", None if weight is None else weight[rows])


def fit_starts(est, Z, codes, weight=None):
    """The fits that the estimator keeps.  [eq-clf-average, eq-clf-select]

    Z (N, d) scaled inputs, codes (N,), weight (N,) or None
    -> list of results, all starts or one; whether Ctrl-C cut the list short
    (KeyboardInterrupt if it would be empty).  No bit depends on est.n_jobs.
    """
    rngs = as_generator(est.random_state).spawn(est.n_init)
    if est.n_init > 1 and est.select == "holdout":
        return _best_by_holdout(est, Z, codes, weight, rngs)
    (jobs, each), fits, cut = share_jobs(est, est.n_init), [], False
    tasks = [(i, rng, slice(None)) for i, rng in enumerate(rngs)]
    start = partial(_start, est=each, Z=Z, codes=codes, weight=weight)
    try:
        for result, cut in run_apart(start, tasks, jobs):
            fits.append(result)
            if cut:
                break
    except KeyboardInterrupt:
        cut = True
        if not fits:
            raise
    if est.select == "elbo":
        fits = [max(fits, key=lambda result: objective_trace(result)[-1])]
    return fits, cut


# book/use/classifier.ipynb, cell classifier-42
def _best_by_holdout(est, Z, codes, weight, rngs):
    """The start with the best log score on held-out rows, fitted again on all;
    after Ctrl-C the best finished start, or else the first, as it is."""
    seeds = [int(rng.integers(2**63)) for rng in rngs]
    n_test = min(max(1, round(est.holdout * len(Z))), len(Z) - 1)
    rows, test = holdout_rows(codes, n_test, np.random.default_rng(seeds[0]))
    rule = find_learner(est.method).predict_log_proba
    kept, best, top = None, 0, -np.inf
    jobs, each = share_jobs(est, len(seeds))
    tasks = [(i, seed, rows) for i, seed in enumerate(seeds)]
    start = partial(_start, Z=Z, codes=codes, weight=weight)
    try:
        for i, (result, cut) in enumerate(run_apart(partial(start, est=each), tasks, jobs)):
            kept = result if i == 0 else kept
            if cut:
                return [kept], True
            log_p = rule(result, Z[test])[np.arange(len(test)), codes[test]]
            value = np.average(log_p, weights=None if weight is None else weight[test])
            if value > top:
                best, top, kept = i, value, result
        again, cut = start((best, seeds[best], slice(None)), est)
        return [kept if cut else again], cut
    except KeyboardInterrupt:
        if kept is None:
            raise
        return [kept], True


# book/use/classifier.ipynb, cell classifier-44
def _takes_chunks(est):
    """Asked by hasattr: the averages and the shared mean cannot go on with new rows."""
    for name in (est.method, getattr(est, "method_", "cavi")):
        if name in ("several", "shared-means"):
            raise AttributeError(f'method: expected "cavi" for partial_fit, got {name!r}')
    return True


class CMNClassifier(Insight, Estimator):
    """Conditional mixture network: a probability for every class.

    n_experts     K
    latent_dim    h; None means number of classes - 1, at most 20
    priors        a Priors; they refer to standardised columns
    n_init        starts; select says what becomes of them: "average" their
                  predictions, keep the best "elbo", or the best log score on a
                  "holdout" share of the rows (holdout=0.2), fitted again on all
    max_sweeps, tol   stop when the bound gains less than tol per row in a sweep
    random_state  None, whole number, numpy Generator or RandomState
    verbose       1: a progress bar on a terminal; 2: always (needs tqdm)
    method        "auto": for rows in memory "several", four ascents whose forecasts are
                  averaged; for rows that pass by, on a cluster, in partial_fit and with
                  accelerate one ascent, "cavi".  method_ says which it was
    inner, init, omega1, accelerate, standardize, memory   see inputs.CONSTRAINTS
    method_options   dict of the method's own options, find_learner(name).options;
                  "checkpoint": a file that a run is kept in and goes on from
    classes       the label set, if the y given to fit need not hold all of it
    n_jobs        processes for starts and chains, threads for sweeps and forecasts, no
                  number depends on it; None: 1, or as joblib.parallel_backend says
    class_weight  {label: factor} on the weights of its rows, or "balanced"

    An option means the same with every method: method="cavi" alone is one ascent of the
    paper's model from the usual start to the usual tol.  CMNClassifier.paper() has the
    paper's model and settings, whatever is usual here.

    Fitted: classes_ (sorted), n_features_in_, feature_names_in_ (DataFrames), fits_
    (kept results), objective_ (largest last value), elbo_ (the same, if a bound),
    trace_ (of the first kept fit), n_sweeps_ (most steps), converged_ (all), mean_ and
    scale_ (of the columns), n_rows_seen_, calls_, method_ (which made fits_).
    """

    def __init__(self, n_experts=10, latent_dim=None,
                 priors=Priors(),  # noqa: B008  Priors are frozen
                 n_init=USUAL["n_init"], max_sweeps=USUAL["max_sweeps"],
                 tol=USUAL["tol"], inner=1, init=USUAL["init"], standardize=True,
                 random_state=None, verbose=0, method=USUAL["method"],
                 select="average", holdout=0.2,
                 omega1="per-component", accelerate=False, classes=None,
                 method_options=None, class_weight=None, n_jobs=None, memory=None):
        self.n_experts = n_experts
        self.latent_dim = latent_dim
        self.priors = priors
        self.n_init = n_init
        self.max_sweeps = max_sweeps
        self.tol = tol
        self.inner = inner
        self.init = init
        self.standardize = standardize
        self.random_state = random_state
        self.verbose = verbose
        self.method = method
        self.select = select
        self.holdout = holdout
        self.omega1 = omega1
        self.accelerate = accelerate
        self.classes = classes
        self.method_options = method_options
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.memory = memory

    def fit(self, X, y=None, sample_weight=None, client=None):
        """Learn from X (N, d), labels y (N,) and weights (N,) >= 0.   -> self

        A weight of 2 is the row twice, of 0 no row; see learners.Learner.weights.
        X may be what open_source takes: a RowSource, dask arrays, or files, a pattern of
        them or a frame of dask, with the names of columns as y and sample_weight.
        client: a dask.distributed.Client whose workers learn, as fit_cluster has them.
        ConvergenceWarning if the objective was still rising; ValueError names the argument;
        on any error the model stays as it was.  Ctrl-C is raised again: a checkpoint holds
        the run, the model what was reached; to go on with a part is the caller's decision.
        """
        new = copy(self)
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(new, name)
        cut = new._learn(X, y, sample_weight, client)
        new.method = self.method
        self.__dict__ = vars(new)
        if cut:
            raise KeyboardInterrupt
        if not self.converged_:
            text = not_converged(self.method_, find_learner(self.method_),
                                 self.n_sweeps_, self.objective_)
            if self.method_ in ("cavi", "several") and self.init == "prior":
                text += '; init="prior" is a saddle, start at "class-code"'
            warnings.warn(text, ConvergenceWarning, stacklevel=2)
        return self

    @available_if(_takes_chunks)
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Learn from further rows X (n, d), y (n,), which are not kept.   -> self

        classes: the label set, for a first call unless it is an option; sample_weight (n,)
        >= 0: 2 is the row twice in this chunk.  Goes on after fit and load.  mean_, scale_,
        elbo_ are of all rows.  Method "cavi" alone: to go on after fit,
        fit with it, since "auto" comes to it in a first call of partial_fit only.  Without
        accelerate; class_weight a dict.
        ValueError as in fit; on any error self stays as it was.
        """
        new, labels = copy(self), chunk_classes(self, classes)
        settle_method(new, False)
        new._check_options()
        X, y = new.check_data(X, y=plain_labels(y), reset=not hasattr(self, "fits_"))
        X, y, weight = weigh_rows(X, y, new, sample_weight, labels)
        new.classes_, codes = encode_labels(y, labels)
        learn_chunk(new, X, codes, weight)
        new.summarize()
        new.method = self.method
        self.__dict__ = vars(new)
        return self

    def _check_options(self):
        check_options(self.get_params(deep=False))
        if not isinstance(self.priors, Priors):
            raise ValueError(f"priors: expected a Priors, got {self.priors!r}")
        learner_options(self)

    def _learn(self, X, y, sample_weight, client):
        self._check_options()
        if is_source(X) or client is not None:
            return learn_source(self, X, y, self._learn_rows, sample_weight, client)
        settle_method(self, True)
        X, y = self.check_data(X, y=plain_labels(y), ensure_min_samples=2)
        X, y, weight = weigh_rows(X, y, self, sample_weight)
        self.classes_, codes = encode_labels(y, self.classes)
        check_classification_targets(y)
        if self.classes is None:
            check_classes(len(self.classes_), len(codes))
        return self._learn_rows(X, codes, weight)

    def _learn_rows(self, X, codes, weight=None, mine=False):
        """From rows in memory; if they are mine alone, X is overwritten."""
        if self.method in ("cavi", "shared-means", "several"):
            check_memory(*X.shape, self.n_experts, self.latent_dim, len(self.classes_),
                         find_learner(self.method).copies(self))
        Z = X if mine else np.empty_like(X)
        self.moments_ = block_moments(X, weight, Z if self.standardize else None)
        self.mean_, self.scale_ = moment_scale(self.moments_, self.standardize)
        check_squares(self.scale_)
        if not self.standardize: Z[...] = X
        self.n_rows_seen_, self.calls_ = len(X), (("fit", len(X)),)
        self.method_, Z = self.method, np.divide(Z, self.scale_, out=Z)
        self.fits_, cut = fit_starts(self, Z, codes, weight)
        self.summarize()
        return cut

    def summarize(self):
        """Set the attributes that are read off fits_."""
        last = [float(objective_trace(result)[-1]) for result in self.fits_]
        self.trace_ = objective_trace(self.fits_[0])
        self.objective_ = max(last)
        if find_learner(self.method_).objective == "ELBO":
            self.elbo_ = self.objective_
        self.n_sweeps_ = max(int(result.n_sweeps) for result in self.fits_)
        self.converged_ = all(bool(result.converged) for result in self.fits_)

    def predict_log_proba(self, X):
        """Log class probabilities (n, L) in nats; the kept starts averaged."""
        Z = self.inputs(X)
        rule = find_learner(self.method_).predict_log_proba
        parts = [Z[first:first + 256] for first in range(0, len(Z), 256)]
        average = lambda part: average_log_proba(
            [rule(result, part) for result in self.fits_])
        with one_blas_thread(self.n_jobs):
            jobs = effective_jobs(self.n_jobs)
            return np.concatenate(list(in_order(average, parts, jobs)))

    def predict_proba(self, X):
        """Class probabilities (n, L), columns in the order of classes_."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X):
        """Most probable label of every row.   -> (n,)"""
        best = self.predict_log_proba(X).argmax(axis=1)
        return self.classes_[best]

    def inputs(self, X):
        """X (n, d) as the network sees it: checked, in standard deviations."""
        check_is_fitted(self)
        return (self.check_data(X, reset=False) - self.mean_) / self.scale_
