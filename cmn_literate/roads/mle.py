# Tangled from book/roads/mle.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Maximum likelihood, twice

Maximum likelihood for this network means one of two different things, and usually has no answer:
on separable rows the likelihood rises for ever. The paper's scores for it are not its likelihoods:
probabilities were normalised a second time, and five of seven scores are simply the largest number
that this can give.
"""

__all__ = ["network_logits", "network_log_probs", "NetworkRows", "network_rows",
           "network_value_and_grad", "mle_objective", "mle_start", "separated_sticks", "MLEFit",
           "fit_mle", "softmax_twice", "softmax_twice_ceiling"]


# book/roads/mle.ipynb, cell mle-02
import warnings
from dataclasses import dataclass
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np
from scipy.special import expit, log_softmax

from cmn_literate.checks import check_problem
from cmn_literate.roads.likelihood import (
    Nodes, Shapes, class_log_probs, join_fields, latent_nodes,
    likelihood_value_and_grad, log_prior, log_prior_grad, pack, split_fields,
    theta_shapes, unpack)
from cmn_literate.roads.optimizers import _check_rng, maximize
from cmn_literate.network.simulate import Priors, Theta
from cmn_literate.checks import check_count, check_X, check_y
from cmn_literate.ideas.expfam import pad
from cmn_literate.ideas.stick_breaking import stick_log_probs


# book/roads/mle.ipynb, cell mle-05
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


# book/roads/mle.ipynb, cell mle-10
class NetworkRows(NamedTuple):
    """Labelled rows, laid out for network_value_and_grad.  [eq-mle-objective]

    XtT (d+1, N) padded inputs; stop (L-1, N) 1 where the row's label is stick l;
    toss (L-1, N) 1 where the row reaches stick l
    """
    XtT: np.ndarray
    stop: np.ndarray
    toss: np.ndarray


def network_rows(X, y, n_classes):
    """NetworkRows of X (N,d), y (N,) in 0..n_classes-1.  [eq-mle-objective]"""
    X, sticks = check_X(X), np.arange(n_classes - 1)[:, None]
    y = check_y(y, len(X), n_classes)
    XtT = np.ascontiguousarray(pad(X).T)
    return NetworkRows(XtT, (y == sticks) * 1.0, (y >= sticks) * 1.0)


# book/roads/mle.ipynb, cell mle-11
def network_value_and_grad(phi, rows, shapes):
    """Sum of the network's ln P(label) and its gradient in phi, plain numpy.
    [eq-mle-objective, eq-mle-back]   phi (P,) -> float (nats), (P,)"""
    beta1, beta0, A, log_tau = split_fields(phi, shapes)
    K, h, D = A.shape
    psi0 = beta0 @ rows.XtT                                      # (K-1, N)
    stop, gate = expit(psi0), np.ones((K, psi0.shape[1]))
    np.cumprod(expit(-psi0), axis=0, out=gate[1:])
    gate[:-1] *= stop
    means = (A.reshape(K * h, D) @ rows.XtT).reshape(K, h, -1)
    x1 = np.einsum("kn,kin->in", gate, means)
    psi = beta1[:, :h] @ x1 + beta1[:, h:]                       # (L-1, N)
    value = (rows.stop * psi - rows.toss * np.logaddexp(0, psi)).sum()

    error = rows.stop - rows.toss * expit(psi)
    beta1_bar = np.concatenate([error @ x1.T, error.sum(1)[:, None]], axis=1)
    x1_bar = beta1[:, :h].T @ error
    share = np.einsum("in,kin->kn", x1_bar, means)
    share *= gate
    later = np.cumsum(share[::-1], axis=0)[::-1]
    beta0_bar = (share[:-1] - stop * later[:-1]) @ rows.XtT.T
    A_bar = (gate[:, None] * x1_bar).reshape(K * h, -1) @ rows.XtT.T
    return float(value), join_fields(
        (beta1_bar, beta0_bar, A_bar.reshape(K, h, D), np.zeros(log_tau.shape)))


# book/roads/mle.ipynb, cell mle-12
def _check_objective(objective):
    """One of the two likelihoods."""
    if objective not in ("exact", "network"):
        raise ValueError("objective: expected 'exact' or 'network', got "
                         f"{objective!r}")


def mle_objective(X, y, shapes, objective="exact", priors=None, nodes=None):
    """What is climbed, as a function of phi: value (nats) and gradient.
    [eq-mle-objective, eq-mle-map]

    objective "exact" (needs nodes) or "network";  priors: a Priors adds the log
    prior density of phi (MAP), None does not -> function (P,) -> (float, (P,))
    """
    _check_objective(objective)
    if objective == "network":
        rows = network_rows(X, y, shapes.n_classes)
        data = lambda phi: network_value_and_grad(phi, rows, shapes)
    else:
        if nodes is None:
            raise ValueError("nodes: expected Nodes for 'exact', got None")
        data = lambda phi: likelihood_value_and_grad(phi, X, y, shapes, nodes)
    if priors is None:
        return data

    def posterior(phi):
        value, slope = data(phi)
        return (value + float(log_prior(phi, shapes, priors)),
                slope + log_prior_grad(phi, shapes, priors))
    return posterior


# book/roads/mle.ipynb, cell mle-17
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


# book/roads/mle.ipynb, cell mle-20
def separated_sticks(theta, X, y, objective="exact"):
    """Which output sticks send every row to its side.  [eq-mle-separated]

    theta Theta, X (N,d), y (N,) -> (L-1,) bool.  Network: if any that a row
    reaches is True, the likelihood rises for ever along that row of beta1. Exact,
    with the expert that the gate's coins choose: if all are True, the supremum 1
    is not attained.
    """
    _check_objective(objective)
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


# book/roads/mle.ipynb, cell mle-23
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


# book/roads/mle.ipynb, cell mle-24
def _check_fit(objective, priors, start, shapes, rng, n_nodes):
    """The options of fit_mle that say what is climbed, and from where.
    -> Generator"""
    _check_objective(objective)
    if n_nodes is not None:
        check_count(n_nodes, "n_nodes")
    if priors is not None and not isinstance(priors, Priors):
        raise ValueError(f"priors: expected Priors or None, got {priors!r}")
    if start is not None and (
            not isinstance(start, Theta) or theta_shapes(start) != shapes):
        got = theta_shapes(start) if isinstance(start, Theta) else repr(start)
        raise ValueError(f"start: expected a Theta of {shapes}, got {got}")
    return _check_rng(rng)


def fit_mle(X, y, n_experts=10, latent_dim=None, n_classes=None, objective="exact",
            priors=None, n_steps=20_000, lr=1e-3, rng=0, n_nodes=None, start=None,
            callback=None, checkpoint=None):
    """Maximum likelihood, or MAP, by full-batch AdaBelief.
    [eq-mle-objective, eq-mle-map]

    X (N,d) finite, y (N,) in 0..L-1; n_experts, latent_dim (L-1), n_classes
    objective  "exact": experts summed, latents integrated on n_nodes nodes;
               "network": the deterministic network, which needs no nodes
    priors     Priors: add the log prior density of phi = [beta1, beta0, A, ln tau]
    rng        int or Generator, for start (a Theta) if not given, and nodes
    callback(done, value); checkpoint: path, see maximize
    -> MLEFit, with a RuntimeWarning if the likelihood has no maximum.
    ValueError names a bad argument.
    """
    X, y, sizes = check_problem(X, y, n_experts, latent_dim, n_classes)
    shapes = Shapes(*sizes, X.shape[1])
    rng = _check_fit(objective, priors, start, shapes, rng, n_nodes)
    phi = mle_start(shapes, rng) if start is None else pack(start)
    nodes = None if objective == "network" else latent_nodes(
        shapes, n_nodes, rng.integers(2**32))
    climb = mle_objective(X, y, shapes, objective, priors, nodes)
    run = maximize(climb, phi, n_steps, lr, callback=callback,
                   checkpoint=checkpoint, problem=(
                       "fit_mle", X, y, shapes, objective, priors, nodes))
    theta = unpack(run.x, shapes)
    value = mle_objective(X, y, shapes, objective, None, nodes)(run.x)[0]
    separated = bool(separated_sticks(theta, X, y, objective).all())
    if separated and priors is None:
        warnings.warn("the rows are separated: the likelihood rises for ever and "
                      f"has no maximum; {run.n_steps} steps have led to here",
                      RuntimeWarning, stacklevel=2)
    return MLEFit(theta, objective, value, run.trace, run.n_steps, run.reason,
                  priors, separated, nodes)


# book/roads/mle.ipynb, cell mle-31
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
