# Tangled from book/engineering/fit.ipynb by tools/tangle.py; edit the notebook, not this file.
"""The fit: begin, step, finish

A fit is a loop around one pure step. What it needs to go on is a value of its own, and what it
returns holds no row of the data.
"""

__all__ = ["expand", "Resume", "Fit", "begin", "count_rows", "RELAXED", "step", "finish", "fit"]


# book/engineering/fit.ipynb, cell fit-02
import warnings
from dataclasses import dataclass
from importlib import import_module
from typing import NamedTuple

import numpy as np

from cmn_literate.checks import (
    check_resume, check_start_options, check_sweep_options, check_weighted_problem,
    check_X, check_y)
from cmn_literate.compiled import find_estep
from cmn_literate.engineering.starts import init_parameters
from cmn_literate.engineering.sums import block_sweep, estep, make_blocks, make_rows
from cmn_literate.ideas.expfam import second_moment
from cmn_literate.network.cavi import local_factors
from cmn_literate.network.elbo import global_kl
from cmn_literate.network.latents import Parameters
from cmn_literate.network.simulate import Priors
from cmn_literate.parallel import effective_jobs, one_blas_thread


# book/engineering/fit.ipynb, cell fit-08
def expand(parameters, priors):
    """Best rescaling and shift of the latent axes, x1_i -> s_i x1_i + c_i.
    [eq-expand-map, eq-expand-scale, eq-expand-shift]

    Data terms of the bound and xi1 stay, the divergences fall.   -> Parameters
    """
    p = parameters
    (K, h, _), J = p.M.shape, len(p.beta1_mu)
    second = second_moment(p.beta1_mu, p.beta1_S).sum(0)
    weights = np.diagonal(second)[:h] / priors.sigma1**2
    pull = weights + 2 * priors.b0 * (p.a[:, None] / p.b).sum(0)
    s = np.sqrt(pull / (J + 2 * K * priors.a0))
    scale = np.append(1 / s, 1.0)
    second = second * np.outer(scale, scale)
    M, b = p.M * s[:, None], p.b * s**2
    tau = p.a[:, None] / b
    lhs = second[:h, :h] / priors.sigma1**2 + np.diag(tau.sum(0)) / priors.v0
    c = np.linalg.solve(lhs, second[:h, h] / priors.sigma1**2
                        - (tau * M[:, :, -1]).sum(0) / priors.v0)
    M[:, :, -1] += c
    T = np.diag(scale)
    T[h, :h] = -c / s
    beta1_mu, beta1_S = p.beta1_mu @ T.T, T @ p.beta1_S @ T.T
    return p._replace(beta1_mu=beta1_mu, beta1_S=beta1_S, M=M, b=b)


# book/engineering/fit.ipynb, cell fit-11
class Resume(NamedTuple):
    """A fit under way: all that the next step needs, the rows included.
    [eq-sweep, eq-stop]

    parameters  the global factors;  blocks  tuple of Block
    elbo        bound after each sweep so far (nats), a tuple
    converged   whether the last sweep gained less than tol nats per row
    n_classes, priors, shared (omega_1 shared by the experts)
    pace        of over-relaxed passes: (Parameters behind, stride, refused), or None
    """
    parameters: Parameters
    blocks: tuple
    elbo: tuple
    converged: bool
    n_classes: int
    priors: Priors
    shared: bool
    pace: tuple = None


# book/engineering/fit.ipynb, cell fit-12
@dataclass(frozen=True)
class Fit:
    """Result of fit; it holds no row of the data.  [eq-stop]

    parameters  the global factors
    elbo (n_sweeps,) complete bound after each sweep (nats); n_sweeps
    converged   whether the last sweep gained less than tol nats per row
    n_classes, priors, shared (omega_1 shared by the experts)
    """
    parameters: Parameters
    elbo: np.ndarray
    n_sweeps: int
    converged: bool
    n_classes: int
    priors: Priors
    shared: bool = False

    def state(self, X, y, rounds=1000, tol=1e-12):
        """Complete State of labelled rows under the fitted parameters: their local
        factors at the optimum (see local_factors).  X (n,d), y (n,)"""
        X = check_X(X, n_features=self.parameters.M.shape[-1] - 1)
        y = check_y(y, len(X), self.n_classes)
        return local_factors(self.parameters, X, y, self.shared, rounds, tol)


# book/engineering/fit.ipynb, cell fit-14
def begin(X, y, n_experts=10, latent_dim=None, n_classes=None,
          priors=Priors(),  # noqa: B008  Priors are frozen
          rng=0, init="class-code", omega1="per-component", sample_weight=None):
    """A fit before its first sweep; arguments as in fit.  [eq-class-code]

    -> Resume.   ValueError names a bad argument.
    """
    check_start_options(priors, rng, init, omega1, Priors)
    X, y, weight, sizes = check_weighted_problem(
        X, y, sample_weight, n_experts, latent_dim, n_classes)
    shared, rng = omega1 == "shared", np.random.default_rng(rng)
    parameters = init_parameters(X, y, *sizes, priors, rng, init, weight)
    blocks = make_blocks(X, y, *sizes, shared, weight)
    return Resume(parameters, blocks, (), False, sizes[2], priors, shared)


# book/engineering/fit.ipynb, cell fit-15
def count_rows(blocks):
    """How many rows there are, or how much they weigh.  [eq-stop]"""
    return sum(block.rows.b.shape[1] if block.rows.weight is None
               else block.rows.weight.sum() for block in blocks)


RELAXED = "cmn_literate.beyond.streaming"           # beyond this chapter: named, not imported


def step(resume, tol=1e-6, inner=1, accelerate=False, estep=estep, n_jobs=1):
    """One sweep and the stopping rule; arguments as in fit.
    [eq-sweep, eq-mstep-bound, eq-stop]   estep, n_jobs as in block_sweep -> Resume"""
    if accelerate == "relaxed":
        return import_module(RELAXED).relaxed_step(resume, tol, inner, estep, n_jobs)
    r = resume
    blocks, after, bound = block_sweep(
        r.blocks, r.parameters, r.priors, inner, estep, n_jobs)
    if accelerate:
        bound += sum(global_kl(after, r.priors).values())
        after = expand(after, r.priors)
        bound -= sum(global_kl(after, r.priors).values())
    converged = bool(r.elbo and bound - r.elbo[-1] < tol * count_rows(blocks))
    return r._replace(parameters=after, blocks=blocks, converged=converged,
                      elbo=(*r.elbo, float(bound)), pace=None)


# book/engineering/fit.ipynb, cell fit-16
def finish(resume):
    """What a fit has found, without the rows.  [eq-stop]   -> Fit"""
    r = resume
    return Fit(r.parameters, np.array(r.elbo), len(r.elbo), r.converged, r.n_classes,
               r.priors, r.shared)


# book/engineering/fit.ipynb, cell fit-18
def _check_rows(blocks, X, y, weight, n_classes):
    """The rows of blocks must be those of X and y, with these weights."""
    first = 0
    for block in blocks:
        last = first + block.rows.XtT.shape[1]
        part = None if weight is None else weight[first:last]
        rows = make_rows(X[first:last], y[first:last], n_classes, weight=part)
        if not all(np.array_equal(getattr(rows, name), getattr(block.rows, name))
                   for name in ("XtT", "b", "kappa", "weight")):
            break
        first = last
    if first != len(X):
        raise ValueError("start: expected a fit of these rows, got other rows")


def fit(X, y, n_experts=10, latent_dim=None, n_classes=None,
        priors=Priors(),  # noqa: B008  Priors are frozen
        rng=0, init="class-code", max_sweeps=500, tol=1e-6, inner=1,
        omega1="per-component", accelerate=False, start=None, callback=None,
        sample_weight=None, n_jobs=None):
    """CAVI for the conditional mixture network.
    [eq-sweep, eq-mstep-bound, eq-stop, eq-weighted-bound]

    X (N,d) finite, y (N,) in 0..L-1   standardise X first: the priors have a scale
    n_experts, latent_dim (L-1), n_classes (largest label + 1), priors
    rng         int or Generator, for the start;   init as in init_parameters
    max_sweeps, tol   stop after so many sweeps, or at a gain < tol nats per row
    inner       rounds of (x, omega1) per sweep
    omega1      "per-component" or "shared"
    accelerate  True: move the latent axes after each M-step (expand); "relaxed": beyond
                each M-step too, taken back where the bound falls (beyond.streaming)
    start       a Resume of the same rows to go on from; its sweeps count
    callback(n_sweeps, elbo)  called after each sweep
    sample_weight  (N,) >= 0: a weight of 2 is the row twice, 0 no row
    n_jobs      threads, as in parallel.effective_jobs; no bit depends on it
    -> Fit.  Ctrl-C ends it after the last whole sweep, with a warning.
    ValueError names a bad argument.
    """
    check_sweep_options(max_sweeps, tol, inner, accelerate, callback)
    model = n_experts, latent_dim, n_classes
    if start is None:
        resume = begin(X, y, *model, priors, rng, init, omega1, sample_weight)
    else:
        check_start_options(priors, rng, init, omega1, Priors)
        X, y, weight, sizes = check_weighted_problem(X, y, sample_weight, *model)
        check_resume(start, Resume, sizes, omega1 == "shared", priors)
        _check_rows(start.blocks, X, y, weight, sizes[2])
        resume = start
    jobs, K = effective_jobs(n_jobs), len(resume.parameters.M)
    kernel = find_estep(len(X), K, resume.n_classes - 1, resume.shared) or estep
    try:
        with one_blas_thread(n_jobs):
            while len(resume.elbo) < max_sweeps:
                resume = step(resume, tol, inner, accelerate, kernel, jobs)
                if callback is not None:
                    callback(len(resume.elbo), resume.elbo[-1])
                if resume.converged:
                    break
    except KeyboardInterrupt:
        warnings.warn("interrupted: this is the fit after "
                      f"{len(resume.elbo)} whole sweeps", stacklevel=2)
    return finish(resume)
