# Tangled from book/roads/posterior.ipynb by tools/tangle.py; edit the notebook, not this file.
"""The posterior of a network, drawn

A sampler that needs nothing but a log density and its gradient draws the parameters of a
conditional mixture network from their exact posterior, with the latent vectors integrated out or
carried along. The two ways agree, with each other and with a judge that uses neither gradients nor
chains.
"""

__all__ = ["posterior_target", "CAVI_SWEEPS", "starting_points", "divergence_report",
           "posterior_work", "sample_posterior", "NUTS"]


# book/roads/posterior.ipynb, cell posterior-02
import warnings
from functools import partial

import numpy as np
from autograd import value_and_grad

from cmn_literate.checks import check_choice, check_count, check_kind
from cmn_literate.engineering.chains import spawn
from cmn_literate.engineering.runs import drive
from cmn_literate.learners import Learner, learner_options
from cmn_literate.storage import generator_state
from cmn_literate.checks import check_weighted_problem
from cmn_literate.engineering.fit import fit
from cmn_literate.roads.diagnostics import (
    PosteriorDraws, keep_draws, pack_sampled, predict_sampled, unpack_sampled)
from cmn_literate.engineering.coordinates import (
    Shapes, from_white, pack, to_white, unpack)
from cmn_literate.engineering.gradients import (
    explicit_value_and_grad, marginal_value_and_grad)
from cmn_literate.engineering.nodes import latent_nodes
from cmn_literate.roads.likelihood import explicit_log_joint, log_posterior
from cmn_literate.roads.nuts import nuts_work
from cmn_literate.checks import check_checkpoint, check_rng
from cmn_literate.network.predict import sample_parameters
from cmn_literate.network.simulate import Priors, Theta, sample_theta


# book/roads/posterior.ipynb, cell posterior-11
@np.errstate(all="ignore")
def _by_autograd(q, log_density, **problem):
    value, slope = value_and_grad(log_density)(np.asarray(q, dtype=float), **problem)
    return (value, slope) if np.isfinite(value) else (-np.inf, np.zeros(len(q)))


def posterior_target(X, y, shapes, priors, target="auto", n_nodes=None,
                     gradient="fast", count=None, term=None):
    """The function that NUTS moves on, and how many numbers eps it wants
    beyond u.  [eq-lik-posterior, eq-lik-explicit, eq-nuts-drop]

    target  "marginal": quadrature, for min(h, L-1) <= 2;  "explicit": one latent
            vector per row;  "auto": marginal where the integral is 1-D
    n_nodes per dimension of the quadrature (default of latent_nodes)
    gradient  "fast": slopes by hand;  "autograd": those of log_posterior or of
            explicit_log_joint
    count (N,): how often each row counts, for the marginal target only
    term    a further log density of Theta, see add_term; gradient "fast" only
    -> (value_and_grad of q = [u, eps], which can be pickled, N h or 0)
    ValueError names a bad choice.
    """
    check_choice(target, "target", ("auto", "marginal", "explicit"))
    check_choice(gradient, "gradient", ("fast", "autograd"))
    if target == "marginal" and shapes.rank > 2:
        raise ValueError("target: expected 'explicit' (or 'auto'), because the "
                         f"latent integral has {shapes.rank} dimensions, got "
                         "'marginal'")
    problem, n_eps = dict(X=X, y=y, shapes=shapes, priors=priors), 0
    if term is not None:
        check_choice(gradient, "gradient", ("fast",))
        problem["term"] = term
    if count is not None:
        if target == "explicit" or shapes.rank > 2:
            raise ValueError("sample_weight: with one latent vector per row a weight "
                             "of 2 is not the row twice; expected no weights, or "
                             "target 'marginal' and at most 2 dimensions of the "
                             f"latent integral, got {shapes.rank}")
        problem["count"], target = count, "marginal"
    if target == "marginal" or target == "auto" and shapes.rank == 1:
        fast, plain = marginal_value_and_grad, log_posterior
        problem["nodes"] = latent_nodes(shapes, n_nodes)
    else:
        fast, plain = explicit_value_and_grad, explicit_log_joint
        n_eps = len(X) * shapes.latent_dim
    if gradient == "fast":
        return partial(fast, **problem), n_eps
    return partial(_by_autograd, log_density=plain, **problem), n_eps


# book/roads/posterior.ipynb, cell posterior-14
CAVI_SWEEPS = 100


def starting_points(X, y, shapes, priors, n_chains, init="cavi", rng=0, count=None):
    """White coordinates to start from, one row per chain.  [eq-lik-white]

    init "cavi": a draw from q of a short variational fit, a new fit for every
    chain;  "prior": a draw from the prior;  rng int or Generator -> (n_chains, P)
    """
    check_choice(init, "init", ("cavi", "prior"))
    K, h, L, d = shapes
    starts = []
    for chain_rng in spawn(check_rng(rng), check_count(n_chains, "n_chains")):
        if init == "prior":
            theta = sample_theta(priors, K, h, L, d, chain_rng)
        else:
            q = fit(X, y, K, h, L, priors, rng=chain_rng, max_sweeps=CAVI_SWEEPS,
                    sample_weight=count)
            draws = sample_parameters(q.parameters, chain_rng, 1)
            theta = Theta(*(part[0] for part in draws))
        starts.append(to_white(pack(theta), shapes, priors))
    return np.array(starts)


# book/roads/posterior.ipynb, cell posterior-18
def divergence_report(stats, target_accept):
    """What the statistics of a run have to say about divergences.  [eq-nuts-report]

    stats of NUTSDraws or PosteriorDraws -> text, empty if no draw diverged
    """
    divergent = np.asarray(stats["divergent"])
    if not divergent.any():
        return ""
    return (f"{divergent.sum()} of {divergent.size} draws come from trajectories "
            "that diverged, so some part of the posterior may be missing: raise "
            f"target_accept (it was {target_accept})")


# book/roads/posterior.ipynb, cell posterior-20
def posterior_work(
        X, y, n_experts, latent_dim=None, n_classes=None,
        priors=Priors(),  # noqa: B008  Priors are frozen
        n_chains=16, n_warmup=800, n_draws=64, target="auto", init="cavi", rng=0,
        n_jobs=1, max_depth=10, target_accept=0.8, n_nodes=None, every=30.0,
        sample_weight=None, term=None):
    """sample_posterior as a Work, which finishes as PosteriorDraws; its arguments, and
    a further log density of Theta, see add_term.
    [eq-lik-posterior, eq-nuts-stretch, eq-nuts-drop]"""
    X, y, weight, sizes = check_weighted_problem(
        X, y, sample_weight, n_experts, latent_dim, n_classes)
    check_kind(priors, "priors", Priors)
    shapes = Shapes(*sizes, X.shape[1])
    density, n_eps = posterior_target(
        X, y, shapes, priors, target, n_nodes, count=weight, term=term)
    n_chains, rng = check_count(n_chains, "n_chains"), check_rng(rng)
    origin = generator_state(rng)
    u = starting_points(X, y, shapes, priors, n_chains, init, rng, weight)
    q0 = np.concatenate([u, rng.normal(size=(n_chains, n_eps))], 1)
    work = nuts_work(density, q0, n_warmup, n_draws, rng, target_accept, max_depth,
                     every=every, n_jobs=n_jobs, origin=origin)

    def finish(run):
        end = work.finish(run)
        if report := divergence_report(end.stats, target_accept):
            warnings.warn(report, RuntimeWarning, stacklevel=3)
        phi = from_white(end.draws[..., : shapes.n_params], shapes, priors)
        stats = dict(end.stats)
        return PosteriorDraws(unpack(phi, shapes), stats.pop("log_density"), stats)

    more = tuple(part for part in (weight, term) if part is not None)
    return work._replace(finish=finish, problem=("posterior", X, y, work.problem, *more))


# book/roads/posterior.ipynb, cell posterior-21
def sample_posterior(
        X, y, n_experts, latent_dim=None, n_classes=None,
        priors=Priors(),  # noqa: B008  Priors are frozen
        n_chains=16, n_warmup=800, n_draws=64, target="auto", init="cavi", rng=0,
        n_jobs=1, max_depth=10, target_accept=0.8, n_nodes=None, callback=None,
        checkpoint=None, checkpoint_every=30.0, sample_weight=None):
    """Draws of the parameters from their posterior by NUTS.
    [eq-lik-posterior, eq-nuts-stretch, eq-nuts-drop]

    X (N,d), standardised; y (N,) in 0..L-1; n_experts, latent_dim (L-1),
    n_classes (largest label + 1), priors
    n_chains, n_warmup, n_draws   16 x (800 + 64) is the paper's setting
    target, n_nodes   see posterior_target;   init  see starting_points
    rng               int or Generator
    n_jobs, max_depth, target_accept, callback, checkpoint, checkpoint_every
                      see nuts: callback(done, log density) counts to
                      n_chains * (n_warmup + n_draws)
    sample_weight (N,) >= 0: how often each row counts; marginal target only
    -> PosteriorDraws; log_joint is the log density of the target, in stats are
    energy, accept, depth, n_leapfrog, divergent, step. A RuntimeWarning counts the
    divergent ones (divergence_report).
    """
    check_checkpoint(checkpoint)
    n_jobs = check_count(n_jobs, "n_jobs")
    work = posterior_work(
        X, y, n_experts, latent_dim, n_classes, priors, n_chains, n_warmup, n_draws,
        target, init, rng, n_jobs, max_depth, target_accept, n_nodes, checkpoint_every,
        sample_weight)
    return work.finish(drive(work, callback, checkpoint, n_jobs))


# book/roads/posterior.ipynb, cell posterior-22
def _steps(settings):
    options = learner_options(settings)
    return options["n_chains"] * (options["n_warmup"] + options["n_draws"])


def _begin(Z, y, n_classes, settings, rng, weight=None, term=None):
    s, options = settings, learner_options(settings)
    del options["checkpoint"]
    work = posterior_work(Z, y, s.n_experts, s.latent_dim, n_classes, s.priors, rng=rng,
                          sample_weight=weight, term=term, **options)
    return work._replace(finish=lambda run: keep_draws(
        work.finish(run), Z, options["n_draws"], _steps(s)))


NUTS = Learner(
    _begin, predict_sampled, pack_sampled, unpack_sampled,
    options={"n_chains": 16, "n_warmup": 800, "n_draws": 64, "target": "auto",
             "init": "cavi", "max_depth": 10, "target_accept": 0.8, "n_jobs": 1,
             "checkpoint": None},
    steps=_steps, objective="log density", step="transition",
    advice="raise n_warmup and n_draws in method_options", weights="any")
