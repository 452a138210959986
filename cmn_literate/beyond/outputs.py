# Tangled from book/beyond/outputs.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Outputs: what stands at the end of the network

Gate and experts meet the output in one place only, a parabola in $x_1$. Ten functions say which
parabola, how to renew it and what it is worth in the bound; a class, a measured number and a count
differ in nothing else.
"""

__all__ = ["Pull", "Output", "latent_posterior", "Line", "line_pull", "line_bound", "line_sums",
           "line_update", "Coins", "coin_pull", "coin_bound", "coin_sums", "coin_output",
           "sticks_output", "count_output", "log_student", "line_log_density", "gaussian_output",
           "known_output"]


# book/beyond/outputs.ipynb, cell outputs-02
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np
from scipy.special import gammaln, logsumexp, poch

from cmn_literate.checks import (
    check_count, check_positive, check_X, check_y, real_array)
from cmn_literate.engineering.starts import class_code
from cmn_literate.ideas.expfam import (
    gamma_mean_log, gaussian_kl, mng_kl, pad, padded_second_moment, second_moment,
    spd_inverse)
from cmn_literate.ideas.logistic import coefficients_from_sums, stick_log_bound
from cmn_literate.ideas.polya_gamma import pg_mean
from cmn_literate.ideas.stick_breaking import stick_counts
from cmn_literate.network.experts import experts_from_sums, row_quadratic
from cmn_literate.network.latents import output_logits, output_tilt, per_component
from cmn_literate.network.predict import logit_moments, output_log_probs
from cmn_literate.network.simulate import Priors


# book/beyond/outputs.ipynb, cell outputs-06
class Pull(NamedTuple):
    """The parabola in x1 that an output asks for.  [eq-reg-pull]   J coins or outputs

    mean (J,h+1), second (J,h+1,h+1); kappa (N,J);
    omega (N,K,J), or (1,1,J) if it is the same for all rows and experts
    """
    mean: np.ndarray
    second: np.ndarray
    kappa: np.ndarray
    omega: np.ndarray


class Output(NamedTuple):
    """How y depends on x1, and what q knows of it: all that the network asks.
    [eq-reg-pull]

    y is what read returns; F the output's own factors, a named tuple of arrays;
    memory what q remembers of each row
    name      a text that tells this output, its constants included, from others
    read      (y, N) -> y checked
    start     (y, h) -> F, targets (N,h) of the latents
    blank     (y, K, F) -> memory before the first sweep
    pull      (y, F, memory) -> Pull
    refresh   (mu, Sigma, F) -> memory at its best
    bound     (y, mu, Sigma, F, memory) -> (N,K) nats, E[ln p(y | x1)] or below it
    collect   (y, gamma, mu, Sigma, memory, F) -> sums over rows
    maximise  (sums, F, priors) -> F at its best
    kl        (F, priors) -> nats
    log_density (y, x1 (N,Q,h), F) -> (N,Q), ln p(y | x1, data)
    """
    name: str
    read: Callable
    start: Callable
    blank: Callable
    pull: Callable
    refresh: Callable
    bound: Callable
    collect: Callable
    maximise: Callable
    kl: Callable
    log_density: Callable


# book/beyond/outputs.ipynb, cell outputs-07
def latent_posterior(X, g, pull):
    """q(x1|z=k) given the pull of the output and the experts.  [eq-reg-latent]

    X (N,d) unpadded; g has M, a, b of the experts; pull Pull -> mu (N,K,h), Sigma (N,K,h,h)
    """
    h, tau = g.M.shape[1], g.a[:, None] / g.b
    Lambda = np.tensordot(pull.omega, pull.second[:, :h, :h], axes=1)
    Lambda = Lambda + tau[:, :, None] * np.eye(h)
    guess = np.einsum("kid,nd->nki", g.M, pad(X))
    eta = (tau * guess + (pull.kappa @ pull.mean[:, :h])[:, None]
           - pull.omega @ pull.second[:, :h, h])
    Sigma = spd_inverse(Lambda)[0]
    mu = (Sigma @ eta[..., None])[..., 0]
    return mu, np.broadcast_to(Sigma, mu.shape + (h,))


# book/beyond/outputs.ipynb, cell outputs-09
class Line(NamedTuple):
    """q(w, rho) of a Gaussian output, written as one expert.  [eq-reg-output]

    M (1,m,h+1), V (1,h+1,h+1): w_j, given rho_j, is N(M[0,j], V[0] / rho_j)
    a (1,), b (1,m): rho_j is Gamma(shape a, rate b_j)
    """
    M: np.ndarray
    V: np.ndarray
    a: np.ndarray
    b: np.ndarray


def line_pull(y, F, memory=None):
    """What y = B x1~ + noise says about x1.  [eq-reg-gaussian-pull]

    y (N,m), F Line -> Pull, one "coin" per column of y, the same for all rows
    """
    M, precision = F.M[0], (F.a / F.b)[0]
    mean = precision[:, None] * M
    return Pull(mean, mean[:, :, None] * M[:, None, :] + F.V[0], y,
                np.ones((1, 1, len(M))))


# book/beyond/outputs.ipynb, cell outputs-11
def line_bound(y, mu, Sigma, F, memory=None):
    """E[ln p(y | x1, w, rho)] over all three.  [eq-reg-gaussian-bound]

    y (N,m), mu (N,K,h), Sigma (N,K,h,h), F Line -> (N,K) nats
    """
    W, precision = F.M[0][:, :-1], (F.a / F.b)[0]
    r = y[:, None, :] - anp.dot(mu, W.T) - F.M[0][:, -1]
    square = r**2 + anp.sum(anp.dot(Sigma, W.T) * W.T, -2)
    log_scale = gamma_mean_log(F.a, F.b[0]) - anp.log(2 * anp.pi)
    blur = anp.tensordot(padded_second_moment(mu, Sigma), F.V[0], 2)
    return 0.5 * (anp.sum(log_scale - precision * square, -1) - y.shape[1] * blur)


# book/beyond/outputs.ipynb, cell outputs-14
def line_sums(y, gamma, mu, Sigma, memory, F):
    """Sums for q(w, rho), residuals about F.M.  [eq-reg-output-sums]

    y (N,m), gamma (N,K), mu (N,K,h), Sigma (N,K,h,h)
    -> n (1,), gram (1,h+1,h+1), cross (1,m,h+1), squares (1,m)
    """
    W = F.M[0][:, :-1]
    r = y[:, None, :] - mu @ W.T - F.M[0][:, -1]
    turn = np.einsum("nk,nkil->il", gamma, Sigma)
    gram = np.einsum("nk,nkd,nke->de", gamma, pad(mu), pad(mu), optimize=True)
    gram[:-1, :-1] += turn
    cross = np.einsum("nk,nkj,nkd->jd", gamma, r, pad(mu), optimize=True)
    cross[:, :-1] -= W @ turn
    squares = np.einsum("nk,nkj->j", gamma, r**2) + ((W @ turn) * W).sum(1)
    return gamma.sum()[None], gram[None], cross[None], squares[None]


def line_update(sums, F, priors):
    """q(w, rho) given q(x1, z): the update of one expert, with random inputs.
    [eq-reg-output]   sums of line_sums, priors Priors of the output -> Line"""
    return Line(*experts_from_sums(*sums, F.M, priors)[0])


# book/beyond/outputs.ipynb, cell outputs-18
class Coins(NamedTuple):
    """q(beta_1) of an output by coins.  [eq-reg-coins]

    mu (J,h+1), S (J,h+1,h+1): coefficients of coin j are N(mu[j], S[j])
    """
    mu: np.ndarray
    S: np.ndarray


def coin_pull(y, F, xi, toss):
    """The parabola that tilted coins ask for.  [eq-reg-coins]

    toss: y -> (b (N,J), kappa (N,J), constant (N,)); xi (N,K,J), F Coins -> Pull
    """
    b, kappa, _ = toss(y)
    omega = per_component(pg_mean(1.0, xi)) * b[:, None, :]
    return Pull(F.mu, second_moment(F.mu, F.S), kappa, omega)


def coin_bound(y, mu, Sigma, F, xi, toss):
    """E[ln p(y, omega | x1) - ln q(omega)] of an output by coins.  [eq-reg-coins]

    arguments as in coin_pull; mu (N,K,h), Sigma (N,K,h,h) -> (N,K) nats
    """
    b, kappa, constant = toss(y)
    psi, psi2 = output_logits(mu, Sigma, F.mu, F.S)
    coins = stick_log_bound(psi, psi2, per_component(xi), b[:, None], kappa[:, None])
    return coins + constant[:, None]


def coin_sums(y, gamma, mu, Sigma, xi, F, toss):
    """Sums for q(beta_1).  [eq-reg-coin-sums]

    -> gram (J,h+1,h+1), linear (J,h+1)
    """
    pull = coin_pull(y, F, xi, toss)
    weight = gamma[:, :, None] * pull.omega
    moments = padded_second_moment(mu, Sigma)
    gram = np.tensordot(weight, moments, axes=((0, 1), (0, 1)))
    return gram, pull.kappa.T @ np.einsum("nk,nkd->nd", gamma, pad(mu))


# book/beyond/outputs.ipynb, cell outputs-19
def coin_output(name, read, start, toss, log_density):
    """An output by Polya-Gamma coins.  [eq-reg-coins]

    name, read, start, log_density as in Output; toss as in coin_pull -> Output
    """
    return Output(
        name, read, start,
        lambda y, K, F: np.zeros((len(y), K, len(F.mu))), partial(coin_pull, toss=toss),
        lambda mu, Sigma, F: output_tilt(mu, Sigma, F.mu, F.S),
        partial(coin_bound, toss=toss), partial(coin_sums, toss=toss),
        lambda sums, F, priors: Coins(*coefficients_from_sums(*sums, priors.sigma1)[:2]),
        lambda F, priors: anp.sum(gaussian_kl(F.mu, F.S, priors.sigma1)), log_density)


def sticks_output(n_classes):
    """The classifier's output: L-1 sticks.  [eq-reg-sticks]

    n_classes L >= 2 -> Output for labels y (N,) in 0..L-1
    """
    L = check_count(n_classes, "n_classes", 2)
    b, kappa = stick_counts(np.eye(L))

    def start(y, h):
        code, weights = class_code(L, h)
        S = np.tile(0.01 * np.eye(h + 1), (L - 1, 1, 1))
        return Coins(np.pad(weights, ((0, 0), (0, 1))), S), code[y]

    def log_density(y, x1, F):
        found = output_log_probs(SimpleNamespace(beta1_mu=F.mu, beta1_S=F.S), x1)
        return np.take_along_axis(found, y[:, None, None], -1)[..., 0]
    return coin_output(f"sticks {L}", lambda y, N: check_y(y, N, L), start,
                       lambda y: (b[y], kappa[y], np.zeros(len(y))), log_density)


def _counts(y, N):
    """Counts y (N,) as floats; ValueError for others."""
    y = real_array(y, "y")
    if y.shape != (N,) or not (np.isfinite(y) & (y >= 0) & (y == np.floor(y))).all():
        raise ValueError(f"y: expected {N} whole numbers >= 0, got shape {y.shape} "
                         f"and values such as {y.ravel()[:3].tolist()}")
    return y


def count_output(r):
    """Counts: negative binomial with size r and logit beta_1 . x1~.  [eq-reg-counts]

    r > 0, known: the mean count is r e^psi -> Output for y (N,), whole numbers >= 0
    """
    r = check_positive(r, "r")
    choose = lambda y: gammaln(y + r) - gammaln(r) - gammaln(y + 1)

    def start(y, h):
        mu = np.zeros((1, h + 1))
        mu[0, 0] = 1.0
        target = np.zeros((len(y), h))
        target[:, 0] = np.log((y + 0.5) / r)
        return Coins(mu, 0.01 * np.eye(h + 1)[None]), target

    def log_density(y, x1, F, size=40):
        rows = x1.reshape(-1, x1.shape[-1])
        m, v = (part.reshape(x1.shape[:-1]) for part in logit_moments(rows, F.mu, F.S))
        node, mass = np.polynomial.hermite_e.hermegauss(size)
        psi = m[..., None] + np.sqrt(v)[..., None] * node
        log_p = y[:, None, None] * psi - (y[:, None, None] + r) * np.logaddexp(0, psi)
        return choose(y)[:, None] + logsumexp(log_p + np.log(mass / mass.sum()), -1)
    return coin_output(f"counts {r}", _counts, start, lambda y: (
        (y + r)[:, None], 0.5 * (y - r)[:, None], choose(y)), log_density)


# book/beyond/outputs.ipynb, cell outputs-23
def log_student(r, scale, dof):
    """ln density of scale * t at r, also for huge degrees of freedom.  [eq-reg-t]

    r, scale > 0, dof > 0 (...) broadcast -> (...) nats
    """
    half = 0.5 * dof
    tail = (half + 0.5) * np.log1p((r / scale) ** 2 / dof)
    return np.log(poch(half, 0.5)) - 0.5 * np.log(np.pi * dof) - np.log(scale) - tail


def line_log_density(y, x1, F):
    """ln p(y | x1, data), w and rho integrated out: independent Student t.
    [eq-reg-t]   y (N,m), x1 (N,Q,h), F Line -> (N,Q) nats"""
    r = y[:, None, :] - pad(x1) @ F.M[0].T
    spread = 1 + np.maximum(row_quadratic(x1.reshape(-1, x1.shape[-1]), F.V), 0.0)
    scale = np.sqrt(spread.reshape(x1.shape[:-1] + (1,)) * F.b[0] / F.a[0])
    return log_student(r, scale, 2 * F.a[0]).sum(-1)


def _line_start(y, h, spread, narrow):
    """Latents along the leading directions of y.  [eq-reg-start]"""
    m = y.shape[1]
    axes = np.eye(m, h) if h >= m else np.linalg.svd(y, full_matrices=False)[2][:h].T
    M = np.pad(axes / spread, ((0, 0), (0, 1)))
    V = 0.01 * np.eye(h + 1)
    a = np.array([1.0 + len(y) / 2])
    return Line(M[None], V[None], a, np.full((1, m), narrow * a[0])), spread * y @ axes


def _measured(y, N):
    """y (N,m) from (N,) or (N,m)."""
    y = real_array(y, "y")
    y = check_X(y[:, None] if y.ndim == 1 else y, "y")
    if len(y) != N or y.shape[1] < 1:
        raise ValueError(f"y: expected {N} rows of at least one number, got shape {y.shape}")
    return y


def gaussian_output(v1=10.0, a1=2.0, b1=0.1):
    """y = B x1~ + noise, B and the noise unknown.  [eq-reg-gaussian]

    v1, a1, b1 > 0: w_j is N(0, v1 / rho_j I), rho_j ~ Gamma(a1, rate b1)
    -> Output for y (N,m) of order 1.  ValueError names the argument.
    """
    values = (check_positive(v, name) for v, name in ((v1, "v1"), (a1, "a1"), (b1, "b1")))
    own = Priors(*values)
    return Output(
        f"gaussian {own.v0} {own.a0} {own.b0}", _measured, partial(_line_start, spread=3.0, narrow=0.01),
        lambda y, K, F: np.zeros((len(y), 0)), line_pull,
        lambda mu, Sigma, F: np.zeros((len(mu), 0)), line_bound, line_sums,
        lambda sums, F, priors: line_update(sums, F, own),
        lambda F, priors: mng_kl(*F, own.v0, own.a0, own.b0)[0], line_log_density)


def known_output(B, noise=1e-8):
    """y = B x1~ + noise of a variance that is known: nothing of it is learned.
    [eq-reg-known]

    B (m,h+1), noise > 0 -> Output.  With B = [I, 0] and hardly any noise the latent
    vector is y, and the experts are regressions of y on x.
    """
    B, noise = check_X(B, "B"), check_positive(noise, "noise")
    a = np.array([1e12])
    F = Line(B[None], np.zeros((1, B.shape[1], B.shape[1])), a,
             np.full((1, len(B)), 1e12 * noise))
    back = np.linalg.pinv(B[:, :-1])
    return gaussian_output()._replace(
        name=f"known {B.tolist()} {noise}", start=lambda y, h: (F, (y - B[:, -1]) @ back.T),
        maximise=lambda sums, F, priors: F, kl=lambda F, priors: 0.0)
