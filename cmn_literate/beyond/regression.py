# Tangled from book/beyond/regression.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Regression: the network that measures

For a measured number or a count the seven updates of coordinate ascent stay what they are, but for
two that the output brings, and there is one more if the experts share a mean. The bound keeps
every constant, never falls, lies below the exact evidence, and is the evidence itself where there
is one expert and the map to the output is known.
"""

__all__ = ["Model", "Globals", "Hidden", "Whole", "network_scores", "network_kl", "network_elbo",
           "NETWORK_UPDATES", "network_sweep", "NetworkFit", "network_start", "NetworkClimb",
           "fit_network", "predict_log_density"]


# book/beyond/regression.ipynb, cell regression-02
import warnings
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np
from scipy.special import logsumexp, stdtrit

from cmn_literate.beyond.outputs import Output, latent_posterior
from cmn_literate.beyond.shared_means import (
    Above, Higher, experts_about, higher_kl, higher_start, shared_update)
from cmn_literate.checks import (
    check_count, check_kind, check_rng, check_sweep_options, check_weights, check_X)
from cmn_literate.engineering.runs import Work, drive, has_converged
from cmn_literate.engineering.starts import (
    cluster_labels, code_experts, code_gate, few_regions, repeat_rows)
from cmn_literate.ideas.expfam import gaussian_entropy, pad
from cmn_literate.ideas.logistic import stick_log_means
from cmn_literate.network.elbo import category_entropy
from cmn_literate.network.experts import expert_log_density, row_quadratic
from cmn_literate.network.gate import gate_log_bound, gate_tilt, gate_update
from cmn_literate.network.latents import Parameters, responsibilities
from cmn_literate.network.predict import logit_moments, slices
from cmn_literate.network.simulate import Priors
from cmn_literate.storage import generator_state


# book/beyond/regression.ipynb, cell regression-06
class Model(NamedTuple):
    """What is assumed.  [eq-reg-family]

    output Output; priors Priors; v00 >= 0: prior variance of each entry of the mean A_0
    that the experts share, 0: none
    """
    output: Output
    priors: Priors
    v00: float = 0.0


class Globals(NamedTuple):
    """The factors that all rows share.  [eq-reg-family]

    output: F of the Output;  mean (h,D), var (h,): q(A_0) as in Higher, 0 without it;
    the others as in network.latents.Parameters
    """
    output: tuple
    beta0_mu: np.ndarray
    beta0_S: np.ndarray
    M: np.ndarray
    V: np.ndarray
    a: np.ndarray
    b: np.ndarray
    mean: np.ndarray
    var: np.ndarray


class Hidden(NamedTuple):
    """The factors of N rows.  [eq-reg-family]

    gamma (N,K), mu (N,K,h), Sigma (N,K,h,h), xi0 (N,K-1) as in network.latents.Local;
    memory: what the Output remembers of each row
    """
    gamma: np.ndarray
    mu: np.ndarray
    Sigma: np.ndarray
    memory: np.ndarray
    xi0: np.ndarray


class Whole(NamedTuple):
    """Every factor of q.  [eq-reg-family]"""
    globals: Globals
    hidden: Hidden

    def replace(self, **arrays):
        """The same with some factors exchanged."""
        mine = {name: arrays.pop(name) for name in Globals._fields if name in arrays}
        return Whole(self.globals._replace(**mine), self.hidden._replace(**arrays))


# book/beyond/regression.ipynb, cell regression-08
def network_scores(s, X, y, model):
    """What the bound says about row n if expert k made it, nats.  [eq-reg-bound]

    s Whole, X (N,d), y read by the output -> (N,K)
    """
    g, q = s
    return (model.output.bound(y, q.mu, q.Sigma, g.output, q.memory)
            + expert_log_density(X, q.mu, q.Sigma, g.M, g.V, g.a, g.b)
            + gaussian_entropy(q.Sigma) + gate_log_bound(X, g.beta0_mu, g.beta0_S, q.xi0))


# book/beyond/regression.ipynb, cell regression-09
def network_kl(g, model):
    """Divergence of the shared factors from their priors, nats.  [eq-reg-bound]

    Gate, experts and A_0 as in beyond.shared_means, there with no stick at the output.
    """
    h = g.M.shape[1]
    trunk = Parameters(np.zeros((0, h + 1)), np.zeros((0, h + 1, h + 1)), *g[1:7])
    above = Higher(g.mean, g.var, None, None)
    kl = higher_kl(trunk, above, model.priors, Above(v00=model.v00))
    return sum(kl.values()) + model.output.kl(g.output, model.priors)


def network_elbo(s, X, y, model, weight=1.0):
    """Evidence lower bound of the network with any output, nats.
    [eq-reg-bound, eq-weighted-bound]

    s Whole, fresh or stale; X (N,d), y as output.read returns it, Model
    weight (N,) >= 0, or a number: how often each row counts
    -> number <= ln p(y | X), every constant in it; differentiable in every array
    """
    gamma, count = s.hidden.gamma, np.reshape(weight, (-1, 1))
    rows = anp.sum(count * (gamma * network_scores(s, X, y, model)))
    own = anp.sum(count * category_entropy(gamma)[:, None])
    return rows + own - network_kl(s.globals, model)


# book/beyond/regression.ipynb, cell regression-11
def _x(s, X, y, model):
    """q(x1|z).  [eq-reg-latent]"""
    g = s.globals
    pull = model.output.pull(y, g.output, s.hidden.memory)
    return s.replace(**dict(zip(("mu", "Sigma"), latent_posterior(X, g, pull))))


def _memory(s, X, y, model):
    """What the output remembers of each row, q(omega_1) if it has coins."""
    q = s.hidden
    return s.replace(memory=model.output.refresh(q.mu, q.Sigma, s.globals.output))


def _omega0(s, X, y, model):
    return s.replace(xi0=gate_tilt(X, s.globals.beta0_mu, s.globals.beta0_S))


def _z(s, X, y, model):
    return s.replace(gamma=responsibilities(network_scores(s, X, y, model))[0])


def _output(s, X, y, model):
    """q of the output's own factors."""
    q, F, out = s.hidden, s.globals.output, model.output
    sums = out.collect(y, q.gamma, q.mu, q.Sigma, q.memory, F)
    return s.replace(output=out.maximise(sums, F, model.priors))


def _beta0(s, X, y, model):
    mu, S = gate_update(X, s.hidden.gamma, s.hidden.xi0, model.priors)
    return s.replace(beta0_mu=mu, beta0_S=S)


def _experts(s, X, y, model):
    q, g = s.hidden, s.globals
    found = experts_about(X, q.gamma, q.mu, q.Sigma, model.priors, g.mean, g.var)
    return s.replace(**dict(zip(("M", "V", "a", "b"), found)))


def _shared(s, X, y, model):
    """q(A_0); it stays at 0 where v00 = 0."""
    g = s.globals
    mean, var = shared_update(g.a[:, None] / g.b, g.M, model.priors.v0, model.v00)
    return s.replace(mean=mean, var=var)


# f(whole, X, y, model) -> Whole with one factor at its best
NETWORK_UPDATES = {"shared": _shared, "x": _x, "memory": _memory, "omega0": _omega0,
                   "z": _z, "output": _output, "beta0": _beta0, "experts": _experts}


def network_sweep(s, X, y, model, weight=1.0):
    """One sweep: A_0, then the order of network.cavi.
    [eq-reg-sweep, eq-weighted-bound]   weight (N,) as in network_elbo -> Whole"""
    count = np.reshape(weight, (-1, 1))
    for name, update in NETWORK_UPDATES.items():
        if name in ("output", "beta0", "experts"):          # they add up rows
            summed = update(s.replace(gamma=count * s.hidden.gamma), X, y, model)
            s = s._replace(globals=summed.globals)
        else:
            s = update(s, X, y, model)
    return s


# book/beyond/regression.ipynb, cell regression-17
class NetworkFit(NamedTuple):
    """Result of fit_network; it holds no row of the data.  [eq-reg-sweep]

    globals; elbo (n_sweeps,) complete bound after each sweep (nats); n_sweeps;
    converged: whether the last sweep gained less than tol nats per row
    """
    globals: Globals
    elbo: np.ndarray
    n_sweeps: int
    converged: bool


def network_start(X, y, model, n_experts, latent_dim, rng, weight=None):
    """Whole before the first sweep: regions by k-means, latents at the output's
    targets, then x and omega0.  [eq-reg-start]   X (N,d), y read by the output
    weight (N,): rows are repeated as starts.repeat_rows says; None: once each"""
    K, N, D, priors = n_experts, len(X), X.shape[1] + 1, model.priors
    rows = slice(None) if weight is None else repeat_rows(weight)
    R = X[rows]
    label = cluster_labels(R, few_regions(len(R), D, K), rng)
    F, target = model.output.start(y[rows], latent_dim)
    target = target + 0.1 * rng.normal(size=target.shape)
    above = higher_start(latent_dim, D, priors, Above(v00=model.v00))
    g = Globals(F, *code_gate(R, label, K, priors),
                *code_experts(R, label, target, K, priors), above.mean, above.var)
    q = Hidden(np.full((N, K), 1 / K), None, None, model.output.blank(y, K, F), None)
    return _omega0(_x(Whole(g, q), X, y, model), X, y, model)


class NetworkClimb(NamedTuple):
    """State of fit_network between two sweeps.  [eq-reg-sweep]

    whole; bound of the last sweep (nats; None before the first); converged
    """
    whole: Whole
    bound: float
    converged: bool


class _Climber(NamedTuple):
    """What a sweep reads and does not change."""
    X: np.ndarray
    y: np.ndarray
    model: Model
    tol: float
    weight: np.ndarray

    def __call__(self, state, t):
        rows = np.sum(self.weight * np.ones(len(self.X)))
        s = network_sweep(state.whole, self.X, self.y, self.model, self.weight)
        bound = float(network_elbo(s, self.X, self.y, self.model, self.weight))
        gain = np.inf if state.bound is None else bound - state.bound
        return NetworkClimb(s, bound, bool(gain < self.tol * rows)), (bound,)


def _climbed(run):
    (state,), elbo = run.states, np.array([bound for bound, in run.kept[0]])
    if run.reason != "steps":
        warnings.warn(f"{run.reason}: this is the fit after {len(elbo)} whole sweeps",
                      stacklevel=3)
    return NetworkFit(state.whole.globals, elbo, len(elbo), state.converged)


def _rows_that_count(X, y, weight):
    """X, y and weights > 0 of the rows that count; None where each counts once."""
    if weight is None:
        return X, y, None
    weight = check_weights(weight, len(X))
    X, y, weight = (part[weight > 0] for part in (X, y, weight))
    return X, y, None if (weight == 1).all() else weight


def fit_network(X, y, model, n_experts=10, latent_dim=1, rng=0, max_sweeps=500,
                tol=1e-6, callback=None, checkpoint=None, sample_weight=None):
    """CAVI for the network with any Output.
    [eq-reg-sweep, eq-reg-start, eq-weighted-bound]

    X (N,d) and what model.output reads; standardise X, and y if it is measured
    n_experts K, latent_dim h, rng int or Generator; max_sweeps, tol as in fit
    callback(n_sweeps, elbo) after each sweep; checkpoint: a file, as in runs.drive
    sample_weight (N,) >= 0: a weight of 2 is the row twice, 0 no row
    -> NetworkFit.  Ctrl-C ends it after the last whole sweep, with a warning.
    ValueError names a bad argument.
    """
    X = check_X(X)
    if not len(X):
        raise ValueError("X: expected at least one row, got none")
    check_kind(model, "model", Model)
    check_sweep_options(max_sweeps, tol, 1, False, callback)
    y, rng = model.output.read(y, len(X)), check_rng(rng)
    X, y, weight = _rows_that_count(X, y, sample_weight)
    origin, out = generator_state(rng), model.output
    first = network_start(X, y, model, check_count(n_experts, "n_experts"),
                          check_count(latent_dim, "latent_dim"), rng, weight)
    problem = ("network", X, y, n_experts, latent_dim, out.name, model[1:], tol,
               *(() if weight is None else (weight,)))
    climber = _Climber(X, y, model, tol, 1.0 if weight is None else weight)
    kinds = NetworkClimb, Whole, Globals, Hidden, type(first.globals.output)
    work = Work(lambda: [NetworkClimb(first, None, False)], climber,
                max_sweeps, _climbed, problem, origin, lambda states, c: states[c].bound,
                has_converged, kinds=kinds, every=100)
    return work.finish(drive(work, callback, checkpoint))


# book/beyond/regression.ipynb, cell regression-27
def predict_log_density(g, output, X, y, m=200):
    """ln p(y | x, data), everything uncertain integrated out, by the plain rule.
    [eq-reg-predict]

    g Globals, X (n,d), y (n,...), m slices per latent dimension -> (n,) nats
    """
    X = check_X(X, n_features=g.M.shape[2] - 1)
    y, u = output.read(y, len(X)), slices(g.M.shape[1], m)
    log_w = stick_log_means(*logit_moments(X, g.beta0_mu, g.beta0_S))
    spread = 1 + np.maximum(row_quadratic(X, g.V), 0.0)
    parts = []
    for k in range(len(g.M)):
        t = stdtrit(2 * g.a[k], u) * np.sqrt(g.b[k] / g.a[k])
        x1 = (pad(X) @ g.M[k].T)[:, None] + np.sqrt(spread[:, k])[:, None, None] * t
        log_p = output.log_density(y, x1, g.output)
        parts.append(log_w[:, k] + logsumexp(log_p, 1) - np.log(len(u)))
    return logsumexp(parts, axis=0)
