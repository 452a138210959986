# Tangled from book/roads/mle.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Maximum likelihood, twice

Maximum likelihood for this network means one of two different things, and usually has no answer:
on separable rows the likelihood rises for ever. The paper's scores for it are not its likelihoods:
probabilities were normalised a second time, and five of seven scores are simply the largest number
that this can give.
"""

__all__ = ["network_logits", "network_log_probs", "mle_start", "log_objective", "mle_objective",
           "separated_sticks", "MLEFit", "mle_work", "fit_mle", "PointFit", "MLE", "MAP",
           "softmax_twice", "softmax_twice_ceiling"]


# book/roads/mle.ipynb, cell mle-02
import warnings
from dataclasses import dataclass
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np
from autograd import value_and_grad
from scipy.special import log_softmax

from cmn_literate.checks import check_weighted_problem
from cmn_literate.engineering.coordinates import (
    Shapes, log_prior, log_prior_grad, pack, theta_shapes, unpack)
from cmn_literate.engineering.gradients import (
    add_term, class_log_probs, likelihood_value_and_grad, network_rows, network_value_and_grad)
from cmn_literate.engineering.nodes import Nodes, latent_nodes
from cmn_literate.roads.likelihood import log_likelihood
from cmn_literate.engineering.runs import drive
from cmn_literate.learners import Learner, learner_options
from cmn_literate.roads.optimizers import climb_work
from cmn_literate.storage import generator_state
from cmn_literate.network.simulate import Priors, Theta
from cmn_literate.checks import (
    check_choice, check_count, check_optional, check_rng, check_X, check_y)
from cmn_literate.road_checks import check_theta
from cmn_literate.ideas.expfam import pad
from cmn_literate.ideas.stick_breaking import stick_log_probs


# book/roads/mle.ipynb, cell mle-04
def network_logits(theta, X):
    """Output logits of the deterministic, gate-averaged network.  [eq-mle-network]

    theta Theta, X (n,d) -> (n, L-1); differentiable by autograd in theta
    """
    Xt = pad(check_X(X, n_features=anp.shape(theta.A)[-1] - 1))
    gate = anp.exp(stick_log_probs(anp.dot(Xt, anp.transpose(theta.beta0))))
    x1 = anp.sum(gate[:, :, None] * anp.einsum("kid,nd->nki", theta.A, Xt), axis=1)
    return anp.dot(x1, anp.transpose(theta.beta1[:, :-1])) + theta.beta1[:, -1]


def network_log_probs(theta, X):
    """ln P(class c) of every row for the deterministic network, nats.
    [eq-mle-network]   theta Theta, X (n,d) -> (n,L); differentiable in theta"""
    return stick_log_probs(network_logits(theta, X))


# book/roads/mle.ipynb, cell mle-05
def mle_start(shapes, rng):
    """A random start phi (P,) of moderate logits.  [eq-mle-start]

    shapes Shapes, rng a Generator. Weights uniform within 1/sqrt(inputs), biases
    of the sticks such that all shares are about equal, tau = 1.
    """
    (J, h1), (G, D), A, tau = shapes.fields
    fair = lambda n: -np.log(np.arange(n, 0, -1.0))
    beta1 = rng.uniform(-1, 1, (J, h1)) / (h1 - 1) ** 0.5
    beta0 = rng.uniform(-1, 1, (G, D)) / (D - 1) ** 0.5
    beta1[:, -1], beta0[:, -1] = fair(J), fair(G)
    return pack(Theta(beta1, beta0, rng.uniform(-1, 1, A) / D**0.5, np.ones(tau)))


# book/roads/mle.ipynb, cell mle-13
def log_objective(phi, X, y, shapes, objective="exact", priors=None, nodes=None,
                  count=1.0):
    """The objective at phi (P,), nats; differentiable by autograd.
    [eq-mle-objective, eq-mle-map]

    X (N,d), y (N,) in 0..L-1, shapes Shapes; the rest as in mle_objective
    -> float
    """
    theta = unpack(phi, shapes)
    if objective == "network":
        log_p = network_log_probs(theta, X)[np.arange(len(y)), y]
    else:
        log_p = log_likelihood(theta, X, y, nodes)
    total = anp.sum(count * log_p)
    return total if priors is None else total + log_prior(phi, shapes, priors)


# book/roads/mle.ipynb, cell mle-14
def _fast_objective(X, y, shapes, objective, priors, nodes, count, term):
    """log_objective and its slopes by hand.  [eq-lik-rho, eq-mle-back]"""
    if objective == "network":
        rows = network_rows(X, y, shapes.n_classes, 1.0 if count is None else count)
        data = lambda phi: network_value_and_grad(phi, rows, shapes)
    else:
        data = lambda phi: likelihood_value_and_grad(phi, X, y, shapes, nodes, count)
    if priors is None:
        return data

    def posterior(phi):
        value, slope = add_term(term, phi, shapes, *data(phi))
        return (value + float(log_prior(phi, shapes, priors)),
                slope + log_prior_grad(phi, shapes, priors))
    return posterior


def mle_objective(X, y, shapes, objective="exact", priors=None, nodes=None,
                  gradient="fast", count=None, term=None):
    """What is climbed, as a function of phi: value (nats) and gradient.
    [eq-mle-objective, eq-mle-map]

    objective "exact" (needs nodes) or "network";  priors: a Priors adds the log
    prior density of phi (MAP), None does not;  gradient "fast", by hand, or
    "autograd", of log_objective;  count (N,): how often each row counts
    term  a further log density of Theta, see add_term; for priors and "fast" only
    -> function (P,) -> (float, (P,))
    """
    check_choice(objective, "objective", ("exact", "network"))
    check_choice(gradient, "gradient", ("fast", "autograd"))
    if objective == "exact" and nodes is None:
        raise ValueError("nodes: expected Nodes for 'exact', got None")
    if term is not None and (priors is None or gradient != "fast"):
        raise ValueError("term: expected None without priors or with another gradient "
                         f"than 'fast', got {term!r}")
    if gradient == "fast":
        return _fast_objective(X, y, shapes, objective, priors, nodes, count, term)
    X, y = check_X(X, n_features=shapes.input_dim), check_y(y, len(X), shapes.n_classes)
    rest = X, y, shapes, objective, priors, nodes, 1.0 if count is None else count

    def plain(phi):
        with np.errstate(all="ignore"):
            return value_and_grad(log_objective)(phi, *rest)
    return plain


# book/roads/mle.ipynb, cell mle-21
def separated_sticks(theta, X, y, objective="exact"):
    """Which output sticks send every row to its side.  [eq-mle-separated]

    theta Theta, X (N,d), y (N,) -> (L-1,) bool.  Network: if any that a row
    reaches is True, the likelihood rises for ever along that row of beta1. Exact,
    with the expert that the gate's coins choose: if all are True, the supremum 1
    is not attained.
    """
    check_choice(objective, "objective", ("exact", "network"))
    X, J = check_X(X), len(theta.beta1)
    y = check_y(y, len(X), J + 1)
    if objective == "network":
        psi = network_logits(theta, X)
    else:
        Xt = pad(X)
        heads = np.concatenate([Xt @ theta.beta0.T > 0, np.ones((len(X), 1))], 1)
        A = theta.A[heads.argmax(1)]                             # (N, h, d+1)
        psi = pad(np.einsum("nid,nd->ni", A, Xt)) @ theta.beta1.T
    stick = np.arange(J)
    right = np.where(y[:, None] == stick, psi > 0, psi < 0)
    return (right | (y[:, None] < stick)).all(0)


# book/roads/mle.ipynb, cell mle-24
@dataclass(frozen=True)
class MLEFit:
    """Result of fit_mle.  [eq-mle-objective, eq-mle-converged]

    theta           the point estimate; objective "exact" or "network"
    log_likelihood  sum over the rows of that objective's ln p(label), nats
    trace (n_steps,) objective before each step: log likelihood, with priors plus
                    the log prior density of phi
    n_steps, reason as in OptimizeResult;  priors (None: maximum likelihood)
    separated       every row is on its side of every stick: the likelihood has no
                    maximum; without priors theta is just where the run stopped
    nodes           of the latent integral (None for the network)
    """
    theta: Theta
    objective: str
    log_likelihood: float
    trace: np.ndarray
    n_steps: int
    reason: str
    priors: Priors
    separated: bool
    nodes: Nodes

    @property
    def converged(self):
        """Whether the objective changed by less than a millionth of itself per
        step over the last 1000 steps."""
        if self.n_steps <= 1000:
            return False
        end, change = abs(self.trace[-1]), abs(self.trace[-1] - self.trace[-1001])
        return bool(change < 1000 * 1e-6 * end)

    def predict_log_proba(self, X):
        """ln P(class c) by the likelihood that was fitted.  X (n,d) -> (n,L)"""
        if self.objective == "network":
            return network_log_probs(self.theta, X)
        return class_log_probs(self.theta, X, self.nodes)


# book/roads/mle.ipynb, cell mle-25
def mle_work(X, y, n_experts=10, latent_dim=None, n_classes=None, objective="exact",
             priors=None, n_steps=20_000, lr=1e-3, rng=0, n_nodes=None, start=None,
             gradient="fast", sample_weight=None, term=None):
    """fit_mle as a Work, which finishes as an MLEFit; its arguments, and a further
    log density of Theta, see add_term.
    [eq-mle-objective, eq-mle-map]"""
    X, y, weight, sizes = check_weighted_problem(
        X, y, sample_weight, n_experts, latent_dim, n_classes)
    shapes = Shapes(*sizes, X.shape[1])
    check_choice(objective, "objective", ("exact", "network"))
    check_choice(gradient, "gradient", ("fast", "autograd"))
    if n_nodes is not None:
        check_count(n_nodes, "n_nodes")
    check_optional(priors, "priors", Priors)
    check_theta(start, shapes, Theta, theta_shapes)
    rng = check_rng(rng)
    origin = generator_state(rng)
    phi = mle_start(shapes, rng) if start is None else pack(start)
    nodes = None if objective == "network" else latent_nodes(
        shapes, n_nodes, rng.integers(2**32))
    climb = mle_objective(X, y, shapes, objective, priors, nodes, gradient, weight, term)
    work = climb_work(climb, phi, n_steps, lr=lr, origin=origin, problem=(
        "fit_mle", X, y, shapes, objective, priors, nodes, gradient,
        *(part for part in (weight, term) if part is not None)))

    def finish(run):
        end = work.finish(run)
        theta = unpack(end.x, shapes)
        value = mle_objective(
            X, y, shapes, objective, None, nodes, count=weight)(end.x)[0]
        separated = bool(separated_sticks(theta, X, y, objective).all())
        if separated and priors is None:
            warnings.warn(
                "the rows are separated: the likelihood rises for ever and has no "
                f"maximum; {end.n_steps} steps have led to here", RuntimeWarning,
                stacklevel=3)
        return MLEFit(theta, objective, value, end.trace, end.n_steps, end.reason,
                      priors, separated, nodes)

    return work._replace(finish=finish)


def fit_mle(X, y, n_experts=10, latent_dim=None, n_classes=None, objective="exact",
            priors=None, n_steps=20_000, lr=1e-3, rng=0, n_nodes=None, start=None,
            callback=None, checkpoint=None, gradient="fast", sample_weight=None):
    """Maximum likelihood, or MAP, by full-batch AdaBelief.
    [eq-mle-objective, eq-mle-map]

    X (N,d) finite, y (N,) in 0..L-1; n_experts, latent_dim (L-1), n_classes
    objective  "exact": experts summed, latents integrated on n_nodes nodes;
               "network": the deterministic network, which needs no nodes
    priors     Priors: add the log prior density of phi = [beta1, beta0, A, ln tau]
    rng        int or Generator, for start (a Theta) if not given, and nodes
    callback(done, value); checkpoint: path, see maximize
    gradient   "fast": slopes by hand; "autograd": those of log_objective
    sample_weight (N,) >= 0: how often each row counts; 2 is the row twice
    -> MLEFit, with a RuntimeWarning if the likelihood has no maximum.
    ValueError names a bad argument.
    """
    work = mle_work(X, y, n_experts, latent_dim, n_classes, objective, priors, n_steps,
                    lr, rng, n_nodes, start, gradient, sample_weight)
    return work.finish(drive(work, callback, checkpoint))


# book/roads/mle.ipynb, cell mle-26
class PointFit(NamedTuple):
    """A point estimate, as the estimator keeps it.  [eq-mle-objective]

    theta; nodes of the latent integral, of size 0 for the deterministic network;
    trace (n_steps,) objective before each step; converged
    """
    theta: Theta
    nodes: Nodes
    trace: np.ndarray
    converged: bool

    @property
    def n_sweeps(self):
        """Steps taken."""
        return len(self.trace)


def _begin(Z, y, n_classes, settings, rng, weight=None, priors=None, term=None):
    s, options = settings, learner_options(settings)
    del options["checkpoint"]
    work = mle_work(Z, y, s.n_experts, s.latent_dim, n_classes, priors=priors, rng=rng,
                    sample_weight=weight, term=term, **options)

    def finish(run):
        end = work.finish(run)
        nodes = end.nodes or Nodes(np.empty((0, 1)), np.empty(0))
        return PointFit(end.theta, nodes, end.trace, end.converged)

    return work._replace(finish=finish)


def _begin_map(Z, y, n_classes, settings, rng, weight=None, term=None):
    return _begin(Z, y, n_classes, settings, rng, weight, settings.priors, term)


# book/roads/mle.ipynb, cell mle-27
def _predict(point, Z):
    if not point.nodes.w.size:
        return network_log_probs(point.theta, Z)
    return class_log_probs(point.theta, Z, point.nodes)


def _pack(point):
    return {**point.theta._asdict(), **point.nodes._asdict(), "trace": point.trace,
            "converged": np.array(bool(point.converged))}


def _unpack(arrays, settings):
    return PointFit(Theta(*(arrays[name] for name in Theta._fields)),
                 Nodes(arrays["z"], arrays["w"]), arrays["trace"],
                 bool(arrays["converged"]))


MLE = Learner(
    _begin, _predict, _pack, _unpack,
    options={"objective": "exact", "n_steps": 20_000, "lr": 1e-3, "n_nodes": None,
             "checkpoint": None},
    steps=lambda settings: learner_options(settings)["n_steps"],
    objective="log likelihood", step="step", advice="raise n_steps in method_options",
    weights="any")
MAP = MLE._replace(begin=_begin_map, objective="log density")


# book/roads/mle.ipynb, cell mle-33
def softmax_twice(log_probs):
    """ln softmax of *probabilities*, the mistake.  [eq-mle-twice]

    log_probs (n,L) nats -> (n,L): what comes out if exp(log_probs) is taken for
    logits and normalised again
    """
    return log_softmax(np.exp(log_probs), axis=-1)


def softmax_twice_ceiling(n_classes):
    """1 - ln(e + L - 1): no forecast scores more than this after softmax_twice.
    [eq-mle-ceiling]   n_classes L >= 2 -> float, nats"""
    L = check_count(n_classes, "n_classes", 2)
    return float(1 - np.log(np.e + L - 1))
