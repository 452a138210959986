# Tangled from book/beyond/deep.ipynb by tools/tangle.py; edit the notebook, not this file.
"""More layers: one regression, one bound

With moments for inputs, gate and output are one regression, every update of a network of any depth
stays in closed form, and one bound, with every constant in it, rises in any order of the updates.
"""

__all__ = ["Mixture", "Sticks", "Experts", "Network", "DeepState", "network_of", "parameters_of",
           "exact", "mean_inputs", "mixture_moments", "choice_logits", "choice_table",
           "choice_update", "experts_pull", "expert_table", "layer_update", "level", "weights_of",
           "link_table", "deep_kl", "deep_elbo", "DEEP_UPDATES", "deep_order", "deep_sweep"]


# book/beyond/deep.ipynb, cell deep-02
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np

from cmn_literate.ideas.expfam import (
    gamma_mean_log, gaussian_entropy, gaussian_kl, mng_kl, pad, padded_second_moment,
    second_moment, spd_inverse)
from cmn_literate.ideas.logistic import (
    coefficients_from_sums, regression_moments, stick_log_bound)
from cmn_literate.ideas.polya_gamma import pg_mean
from cmn_literate.ideas.stick_breaking import stick_counts
from cmn_literate.network.elbo import category_entropy
from cmn_literate.network.experts import (
    expert_log_density, expert_update, experts_from_sums, weighted_gram)
from cmn_literate.network.latents import Parameters, output_logits, responsibilities


# book/beyond/deep.ipynb, cell deep-06
class Mixture(NamedTuple):
    """q(z) q(x|z) of N rows: what a layer hands on.  [eq-deep-moments]

    gamma (N,C)        q(z_n = c)
    mu (N,C,m), Sigma (N,C,m,m)   q(x_n | z_n = c) = N(mu[n,c], Sigma[n,c]);
                       Sigma None: x is mu, exactly known, and C = 1
    """
    gamma: np.ndarray
    mu: np.ndarray
    Sigma: np.ndarray = None


class Sticks(NamedTuple):
    """q(beta_j) = N(mu[j], cov[j]) of J sticks: mu (J,D), cov (J,D,D).  [eq-deep-q]"""
    mu: np.ndarray
    cov: np.ndarray


class Experts(NamedTuple):
    """q(A_k, tau_k) of a layer, as in Parameters: M (K,h,D), V (K,D,D), a (K,), b (K,h).
    [eq-deep-q]"""
    M: np.ndarray
    V: np.ndarray
    a: np.ndarray
    b: np.ndarray


class Network(NamedTuple):
    """The global factors of S layers.  [eq-deep-q]

    choices: S+1 of Sticks, choices[s] reads x_s; the last one makes y
    experts: S of Experts, experts[s] makes x_(s+1)
    """
    choices: tuple
    experts: tuple


class DeepState(NamedTuple):
    """Every factor of q.  [eq-deep-q]

    network Network;  hidden: S of Mixture, hidden[s] of x_(s+1)
    tilts: S+1 arrays, tilts[s] (N,C,J): q(omega_s | z_s = c, z_(s+1)) = PG(b, tilts)
    """
    network: Network
    hidden: tuple
    tilts: tuple


def network_of(parameters):
    """The Network of one layer.  [eq-deep-q]   Parameters -> Network"""
    p = parameters
    return Network((Sticks(p.beta0_mu, p.beta0_S), Sticks(p.beta1_mu, p.beta1_S)),
                   (Experts(p.M, p.V, p.a, p.b),))


def parameters_of(network):
    """The Parameters of a network of one layer, the inverse of network_of.  [eq-deep-q]"""
    (gate, output), (experts,) = network
    return Parameters(*output, *gate, *experts)


def exact(X):
    """Rows that are known, as a Mixture.  [eq-deep-moments]   X (N,d)"""
    X = np.asarray(X, dtype=float)
    return Mixture(np.ones((len(X), 1)), X[:, None, :])


def mean_inputs(x):
    """E[x~ | z = c] (N,C,D) of a Mixture, the 1 last.  [eq-deep-moments]"""
    return anp.concatenate([x.mu, anp.ones(x.mu.shape[:2] + (1,))], -1)


def mixture_moments(x):
    """E[x~] (N,D) and Cov[x~] (N,D,D) of a whole Mixture.  [eq-deep-moments]"""
    each = mean_inputs(x)
    mean = np.einsum("nc,ncd->nd", x.gamma, each)
    off = each - mean[:, None]
    cov = np.einsum("nc,ncd,nce->nde", x.gamma, off, off, optimize=True)
    if x.Sigma is not None:
        cov[:, :-1, :-1] += np.einsum("nc,nc...->n...", x.gamma, x.Sigma)
    return mean, cov


# book/beyond/deep.ipynb, cell deep-08
def choice_logits(x, choice):
    """E[psi_j | z = c] and E[psi_j^2 | z = c] of sticks that read x.  [eq-deep-logits]

    x Mixture (N,C), choice Sticks of J sticks -> (N,C,J), (N,C,J)
    """
    if x.Sigma is not None:
        return output_logits(x.mu, x.Sigma, *choice)
    return [v[:, None, :] for v in regression_moments(pad(x.mu[:, 0]), *choice)]


def choice_table(x, choice, tilt):
    """E[ln p(z', omega | x) - ln q(omega)] for each c of x and each choice z'.
    [eq-deep-choice]   x (N,C), tilt (N,C,J), any -> (N,C,J+1) nats"""
    psi, psi2 = choice_logits(x, choice)
    stop = stick_log_bound(*(v[..., None] for v in (psi, psi2, tilt)), 1.0, 0.5)
    none = anp.zeros(tilt.shape[:-1] + (1,))
    reach = anp.concatenate([none, anp.cumsum(stop - psi, -1)], -1)   # to pass: -psi/2
    return reach + anp.concatenate([stop, none], -1)


def choice_update(x, weights, tilt, sigma):
    """q(beta) of sticks that read x.  [eq-deep-beta]

    x Mixture (N,C); weights (N,J+1): q of the choice, or y one-hot; tilt (N,C,J)
    -> Sticks
    """
    b, kappa = stick_counts(weights)
    omega = b[:, None, :] * pg_mean(1.0, tilt)
    if x.Sigma is None:
        gram = weighted_gram(x.mu[:, 0], omega[:, 0])
    else:
        moments = padded_second_moment(x.mu, x.Sigma)
        gram = np.tensordot(x.gamma[:, :, None] * omega, moments, axes=((0, 1), (0, 1)))
    linear = kappa.T @ np.einsum("nc,ncd->nd", x.gamma, mean_inputs(x))
    return Sticks(*coefficients_from_sums(gram, linear, sigma)[:2])


# book/beyond/deep.ipynb, cell deep-13
def experts_pull(experts):
    """E[A_k^T diag(tau_k) A_k], the curvature of an expert in its input.
    [eq-deep-pull]   -> (K,D,D)"""
    M, V, a, b = experts
    tau = a[:, None] / b
    return anp.einsum("ki,kid,kie->kde", tau, M, M) + M.shape[1] * V


def expert_table(x, out, experts):
    """E[ln N(x'; A_k x~, diag(1/tau_k))] for each c of x and each k of x'.
    [eq-deep-density]

    x Mixture (N,C), out Mixture (N,K) of x', experts Experts -> (N,C,K) nats
    """
    if x.Sigma is None:
        return expert_log_density(x.mu[:, 0], out.mu, out.Sigma, *experts)[:, None, :]
    (M, V, a, b), mean, m = experts, mean_inputs(x), x.mu.shape[-1]
    rest = out.mu[:, None] - anp.tensordot(mean, M, axes=(2, 2))
    square = rest**2 + anp.diagonal(out.Sigma, axis1=-1, axis2=-2)[:, None]
    scale = gamma_mean_log(a[:, None], b) - anp.log(2 * anp.pi)
    rows = anp.sum(scale - a[:, None] / b * square, -1)
    rows = rows - M.shape[1] * anp.sum(
        anp.tensordot(mean, V, axes=(2, 1)) * mean[:, :, None, :], -1)
    curve = experts_pull(experts)[:, :m, :m]
    return 0.5 * (rows - anp.tensordot(x.Sigma, curve, axes=((2, 3), (1, 2))))


def layer_update(x, out, priors):
    """q(A_k, tau_k) of a layer whose input is x and whose latent is out.
    [eq-deep-experts]   Mixtures (N,C) and (N,K) -> Experts"""
    if x.Sigma is None:
        return Experts(*expert_update(x.mu[:, 0], out.gamma, out.mu, out.Sigma, priors))
    mean, cov = mixture_moments(x)
    spread = np.tensordot(out.gamma, cov, axes=(0, 0))
    gram = spread + np.einsum("nk,nd,ne->kde", out.gamma, mean, mean, optimize=True)
    M = np.zeros((*out.mu.shape[1:], mean.shape[1]))
    own = np.diagonal(out.Sigma, axis1=-1, axis2=-2)
    for _ in range(2):                          # about 0, then about that M
        r = out.mu - np.einsum("kid,nd->nki", M, mean)
        cross = np.einsum("nk,nki,nd->kid", out.gamma, r, mean, optimize=True) - M @ spread
        squares = np.einsum("nk,nki->ki", out.gamma, r**2 + own)
        squares += ((M @ spread) * M).sum(-1)
        factor, _ = experts_from_sums(out.gamma.sum(0), gram, cross, squares, M, priors)
        M = factor[0]
    return Experts(*factor)


# book/beyond/deep.ipynb, cell deep-16
def level(state, X, s):
    """What is known of x_s: the rows for s = 0, else a layer's mixture.
    [eq-deep-moments]   -> Mixture"""
    return exact(X) if s == 0 else state.hidden[s - 1]


def weights_of(state, y, s):
    """q(z_s), or y one-hot where s = S + 1.  [eq-deep-moments]   -> (N,K)"""
    if s <= len(state.hidden):
        return state.hidden[s - 1].gamma
    return np.eye(len(state.network.choices[-1].mu) + 1)[y]


def link_table(state, X, s):
    """What the bound says of z_(s+1) and x_(s+1) given z_s: (N,C,K) nats.
    [eq-deep-link]   s = S: of y alone"""
    x, net = level(state, X, s), state.network
    table = choice_table(x, net.choices[s], state.tilts[s])
    if s < len(net.experts):
        table = table + expert_table(x, state.hidden[s], net.experts[s])
    return table


def deep_kl(network, priors):
    """KL of the global factors from their priors, nats.  [eq-deep-bound]"""
    *gates, output = network.choices
    total = anp.sum(gaussian_kl(*output, priors.sigma1))
    for gate, experts in zip(gates, network.experts):
        total = total + anp.sum(gaussian_kl(*gate, priors.sigma0)) + anp.sum(
            mng_kl(*experts, priors.v0, priors.a0, priors.b0))
    return total


def deep_elbo(state, X, y, priors, weight=1.0):
    """Evidence lower bound of S layers, all constants included, nats.
    [eq-deep-bound, eq-weighted-bound]

    state DeepState, fresh or stale; X (N,d), y (N,) in 0..L-1 -> <= ln p(y | X)
    weight (N,) >= 0, or a number: how often each row counts
    Differentiable in every array of state.
    """
    total, count = -deep_kl(state.network, priors), np.reshape(weight, (-1, 1))
    for s in range(len(state.tilts)):
        below, above = level(state, X, s).gamma, weights_of(state, y, s + 1)
        link = anp.einsum("nc,nck->nk", below, link_table(state, X, s)) * above
        total = total + anp.sum(count * link)
    for x in state.hidden:
        own = anp.sum(x.gamma * gaussian_entropy(x.Sigma), -1)
        total = total + anp.sum(count * (own + category_entropy(x.gamma))[:, None])
    return total


# book/beyond/deep.ipynb, cell deep-18
def _put(state, part, s, value):
    """state with entry s of the tuple `part` exchanged."""
    owner = state.network if part in Network._fields else state
    old = getattr(owner, part)
    owner = owner._replace(**{part: (*old[:s], value, *old[s + 1:])})
    return state._replace(network=owner) if part in Network._fields else owner


def _tilt(state, X, y, priors, s):
    """q(omega_s).  [eq-deep-tilt]"""
    psi2 = choice_logits(level(state, X, s), state.network.choices[s])[1]
    return _put(state, "tilts", s, np.sqrt(psi2))


def _beta(state, X, y, priors, s, weight=1.0):
    """q(beta_s).  [eq-deep-beta]"""
    sigma = priors.sigma1 if s == len(state.hidden) else priors.sigma0
    weights = np.reshape(weight, (-1, 1)) * weights_of(state, y, s + 1)
    return _put(state, "choices", s, choice_update(
        level(state, X, s), weights, state.tilts[s], sigma))


def _experts(state, X, y, priors, s, weight=1.0):
    """q(A, tau) of layer s.  [eq-deep-experts]"""
    out = state.hidden[s - 1]
    out = out._replace(gamma=np.reshape(weight, (-1, 1)) * out.gamma)
    return _put(state, "experts", s - 1, layer_update(level(state, X, s - 1), out, priors))


def _z(state, X, y, priors, s):
    """q(z_s).  [eq-deep-z]"""
    x, below = state.hidden[s - 1], level(state, X, s - 1)
    score = np.einsum("nc,nck->nk", below.gamma, link_table(state, X, s - 1))
    score += gaussian_entropy(x.Sigma)
    score += np.einsum("nck,nk->nc", link_table(state, X, s), weights_of(state, y, s + 1))
    return _put(state, "hidden", s - 1, x._replace(gamma=responsibilities(score)[0]))


def _from_below(x, experts):
    """Precision (K,h) and linear term (N,K,h) of the own expert.  [eq-deep-forward]"""
    M, _, a, b = experts
    mean = np.einsum("nc,ncd->nd", x.gamma, mean_inputs(x))
    return a[:, None] / b, (a[:, None] / b) * np.einsum("kid,nd->nki", M, mean)


def _from_choice(weights, choice, tilt):
    """Precision (N,C,m,m) and linear term (N,C,m) of the choice above.
    [eq-deep-backward]"""
    (b, kappa), m = stick_counts(weights), choice.mu.shape[1] - 1
    omega, B = pg_mean(1.0, tilt) * b[:, None, :], second_moment(*choice)
    linear = (kappa @ choice.mu[:, :m])[:, None, :] - omega @ B[:, :m, m]
    return np.tensordot(omega, B[:, :m, :m], axes=1), linear


def _from_experts(out, experts):
    """Precision (N,m,m) and linear term (N,m) of the experts above.
    [eq-deep-backward]"""
    (M, _, a, b), m = experts, experts.M.shape[2] - 1
    W = np.tensordot(out.gamma, experts_pull(experts), axes=1)
    pull = np.einsum("nk,ki,nki,kim->nm", out.gamma, a[:, None] / b, out.mu, M[:, :, :m],
                     optimize=True)
    return W[:, :m, :m], pull - W[:, :m, m]


def _x(state, X, y, priors, s):
    """q(x_s | z_s).  [eq-deep-x]"""
    net, x = state.network, state.hidden[s - 1]
    tau, eta = _from_below(level(state, X, s - 1), net.experts[s - 1])
    Lambda, linear = _from_choice(
        weights_of(state, y, s + 1), net.choices[s], state.tilts[s])
    Lambda, eta = Lambda + tau[:, :, None] * np.eye(tau.shape[1]), eta + linear
    if s < len(state.hidden):
        W, pull = _from_experts(state.hidden[s], net.experts[s])
        Lambda, eta = Lambda + W[:, None], eta + pull[:, None]
    Sigma = spd_inverse(Lambda)[0]
    mu = np.einsum("nkij,nkj->nki", Sigma, eta)
    return _put(state, "hidden", s - 1, x._replace(mu=mu, Sigma=Sigma))


# f(state, X, y, priors, s) -> DeepState with that one factor of layer or link s at its best;
# beta and experts, which read all rows, take their weight too
DEEP_UPDATES = {"x": _x, "z": _z, "omega": _tilt, "beta": _beta, "experts": _experts}


def deep_order(S, inner=1):
    """The canonical order of the updates, [(name, s)], inner passes up the layers.
    [eq-deep-sweep]"""
    up = [(name, s) for s in range(1, S + 1) for name in ("x", "omega", "z")]
    return [("omega", 0), *up * inner, *(("beta", s) for s in range(S, -1, -1)),
            *(("experts", s) for s in range(1, S + 1))]


def deep_sweep(state, X, y, priors, inner=1, weight=1.0):
    """One canonical sweep over all factors.  [eq-deep-sweep]

    weight (N,) as in deep_elbo -> DeepState"""
    for name, s in deep_order(len(state.hidden), inner):
        heard = (weight,) if name in ("beta", "experts") else ()
        state = DEEP_UPDATES[name](state, X, y, priors, s, *heard)
    return state
