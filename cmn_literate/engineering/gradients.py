# Tangled from book/engineering/gradients.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Slopes by hand

The log likelihood of a network and its slopes in all parameters cost one pass over rows, experts
and nodes, without an exponential in the inner loop. The numbers are those of the plain formula,
and of autograd to $10^{-10}$ of the largest slope, for moderate logits and for extreme ones.
"""

__all__ = ["BLOCK", "ROWS", "SCRATCH", "working_memory", "stick_sigmoids", "chunks",
           "stick_integrals", "extreme_integrals", "class_blocks", "gate_terms", "sum_over_rows",
           "mean_maps_grad", "spread_maps_grad", "likelihood_value_and_grad", "class_log_probs",
           "add_term", "white_result", "explicit_value_and_grad", "marginal_value_and_grad",
           "NetworkRows", "network_rows", "network_value_and_grad"]


# book/engineering/gradients.ipynb, cell gradients-02
from math import prod
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logsumexp

from cmn_literate.road_checks import check_data
from cmn_literate.checks import check_X, check_y
from cmn_literate.engineering.coordinates import (
    Shapes, from_white, join_fields, log_prior_white, log_prior_white_grad,
    split_fields, theta_shapes, unpack, white_grad)
from cmn_literate.engineering.nodes import mean_maps, spread_maps
from cmn_literate.ideas.expfam import pad
from cmn_literate.network.simulate import Theta


# book/engineering/gradients.ipynb, cell gradients-06
BLOCK = 30_000             # numbers worked on at a time: they stay in the cache
ROWS = 256                 # rows at a time
SCRATCH = 400_000            # what the memory to work in is cut from: 3.2 MB


def working_memory(size=BLOCK):
    """(2, size) numbers to work in, with anything in them.  [eq-lik-sigmoids]"""
    return np.empty(max(SCRATCH, 2 * size))[:2 * size].reshape(2, size)


# book/engineering/gradients.ipynb, cell gradients-07
def stick_sigmoids(e_means, e_spreads, E, stop):
    """sigma(-t) into E and sigma(t) into stop, both (S,K,Q,n).  [eq-lik-sigmoids]

    exp(-t) = e_means (S,K,n) x e_spreads (S,K,Q)
    """
    np.multiply(e_spreads[..., None], e_means[:, :, None], out=E)
    np.add(E, 1.0, out=stop)
    np.divide(1.0, stop, out=stop)
    np.multiply(E, stop, out=E)


# book/engineering/gradients.ipynb, cell gradients-08
def chunks(S, K, Q, n):
    """(experts, nodes) in slices such that S x their sizes x n is about BLOCK.
    [eq-lik-expert]"""
    nodes = min(Q, max(1, BLOCK // (S * n)))
    experts = max(1, BLOCK // (S * n * nodes)) if nodes == Q else 1
    return [(slice(k, min(k + experts, K)), slice(q, min(q + nodes, Q)))
            for k in range(0, K, experts) for q in range(0, Q, nodes)]


# book/engineering/gradients.ipynb, cell gradients-09
def _extreme(means, spreads):
    """Experts (K,) whose product of sigmoids could underflow.  [eq-lik-sigmoids]

    means (S,K,n) and spreads (S,K,Q), positive where t is towards 0
    """
    reach = means.max(2, initial=0.0) + spreads.max(2, initial=0.0)
    return (reach + 0.7).sum(0) > 600


def stick_integrals(minus_means, minus_spreads, weights, work=None):
    """ln f and its slopes in t.  [eq-lik-expert, eq-lik-slopes]

    t = -(minus_means (S,K,n) + minus_spreads (S,K,Q)), weights (1+r,Q) = w [1, z]
    -> log_f (K,n) nats, f = sum_q w_q prod_j sigma(t_j)
       slopes (S,K,1+r,n) = sum_q w [1, z] prod sigma(t) sigma(-t_j) / f
    work (2, some): memory to work in, made here if missing or too small
    """
    (S, K, n), Q = minus_means.shape, minus_spreads.shape[2]
    extreme = _extreme(minus_means, minus_spreads)
    if extreme.any():
        log_f, slopes = np.empty((K, n)), np.empty((S, K, len(weights), n))
        for some, rule in ((extreme, extreme_integrals), (~extreme, stick_integrals)):
            log_f[some], slopes[:, some] = rule(
                minus_means[:, some], minus_spreads[:, some], weights)
        return log_f, slopes
    if work is None or work.shape[1] < max(BLOCK, S * n):
        work = working_memory(max(BLOCK, S * n))
    e_means, e_spreads = np.exp(minus_means), np.exp(minus_spreads)
    f, slopes = np.zeros((K, n)), np.zeros((S, K, len(weights), n))
    for k, q in chunks(S, K, Q, max(n, 1)):
        shape = (S, k.stop - k.start, q.stop - q.start, n)
        E, stop = (part[:prod(shape)].reshape(shape) for part in work)
        stick_sigmoids(e_means[:, k], e_spreads[:, k, q], E, stop)
        product = stop[0]
        for j in range(1, S):
            product *= stop[j]
        E *= product
        f[k] += weights[0, q] @ product
        slopes[:, k] += weights[:, q] @ E
    slopes /= f[:, None]
    return np.log(f), slopes


# book/engineering/gradients.ipynb, cell gradients-10
def extreme_integrals(minus_means, minus_spreads, weights):
    """stick_integrals for logits of any size.  [eq-lik-sigmoids]"""
    (S, K, n), R = minus_means.shape, len(weights)
    log_f, slopes = np.empty((K, n)), np.empty((S, K, R, n))
    for k in range(K):
        T = minus_means[:, k, None] + minus_spreads[:, k, :, None]        # -t
        e = np.exp(-np.abs(T))
        lost = (np.maximum(T, 0) + np.log1p(e)).sum(0)
        shift, stop = lost.min(0), 1 / (1 + e)
        product = np.exp(shift - lost)
        f = weights[0] @ product
        slopes[:, k] = weights @ (np.where(T > 0, 1.0, e) * stop * product) / f
        log_f[k] = np.log(f) - shift
    return log_f, slopes


# book/engineering/gradients.ipynb, cell gradients-13
def class_blocks(y, n_sticks, mixed=False):
    """Rows with sorted labels, cut into blocks of one class.  [eq-lik-expert]

    y (N,) ascending -> list of (slice of rows, S sticks that the class reaches,
    minus their signs (S,1,1): +1 for a stick passed, -1 for the one that stops)
    mixed: blocks of all classes, signs (n_sticks,1,n), 0 for a stick not reached
    """
    stick = np.arange(n_sticks)[:, None, None]
    if mixed:
        flip = np.where(stick == y, -1.0, np.where(stick < y, 1.0, 0.0))
        parts = [slice(s, min(s + ROWS, len(y))) for s in range(0, len(y), ROWS)]
        return [(part, n_sticks, flip[..., part]) for part in parts]
    blocks, edges = [], np.searchsorted(y, np.arange(n_sticks + 2))
    for c in range(n_sticks + 1):
        S, flip = min(c + 1, n_sticks), np.where(stick == c, -1.0, 1.0)
        blocks += [(slice(start, min(start + ROWS, edges[c + 1])), S, flip[:S])
                   for start in range(edges[c], edges[c + 1], ROWS)]
    return blocks


# book/engineering/gradients.ipynb, cell gradients-14
def gate_terms(psi):
    """ln pi_k and sigma(psi_j) of a gate, rows last.  [eq-lik-gate-grad]

    psi (K-1, N) logits -> (K, N) nats, (K-1, N); plain numpy
    """
    e = np.exp(-np.abs(psi))
    log_pass = np.minimum(-psi, 0) - np.log1p(e)
    log_gate = np.zeros((len(psi) + 1, psi.shape[1]))
    np.cumsum(log_pass, axis=0, out=log_gate[1:])
    log_gate[:-1] += log_pass + psi                       # ln sigma(psi)
    return log_gate, np.where(psi > 0, 1.0, e) / (1 + e)


# book/engineering/gradients.ipynb, cell gradients-15
def sum_over_rows(beta0, Xt, y, maps, rows, spreads, weights, count=None):
    """sum_n ln p(y_n) and its slopes.
    [eq-lik-expert, eq-lik-rho, eq-lik-gate-grad]

    beta0 (K-1,D), Xt (D,N), y (N,) ascending; the logits are maps (J,K,E) @ rows
    (E,N) + spreads (J,K,Q); weights (1+r,Q) = w [1, z]
    -> value, and slopes in beta0 (K-1,D), maps (J,K,E), C (J,K,r), rows (E,N)
    r = 0: there is one node, with weight 1 and no spread
    count (N,): how often each row counts, None: once  [eq-weighted-bound]
    """
    (J, K, E), r = maps.shape, len(weights) - 1
    log_gate, stop = gate_terms(beta0 @ Xt)
    maps_bar, C_bar, value = np.zeros(maps.shape), np.zeros((J, K, r)), 0.0
    rho, rows_bar = np.empty(log_gate.shape), np.empty(rows.shape)
    work = working_memory()
    mixed = not r                               # one node: small blocks cost more
    for block, S, flip in class_blocks(y, J, mixed):
        flat, x = maps[:S].reshape(S * K, E), rows[:, block]
        means = flip * (flat @ x).reshape(S, K, -1)
        if mixed:
            np.copyto(means, -np.inf, where=flip == 0)          # sigma(inf) = 1
        joint, slopes = stick_integrals(
            means, flip[:, :, :1] * spreads[:S], weights, work)
        joint += log_gate[:, block]
        top = joint.max(0)
        np.exp(joint - top, out=joint)
        total = joint.sum(0)
        once, log_p = joint / total, top + np.log(total)
        value += log_p.sum() if count is None else log_p @ count[block]
        rho[:, block] = once if count is None else once * count[block]
        slopes *= (-flip * rho[:, block])[:, :, None]
        direct = slopes[:, :, 0].reshape(S * K, -1)
        maps_bar[:S] += (direct @ x.T).reshape(S, K, E)
        C_bar[:S] += slopes[:, :, 1:].sum(-1)
        rows_bar[:, block] = flat.T @ direct
    later = np.cumsum(rho[::-1], axis=0)[:0:-1]          # sum of rho_k, k >= j
    beta0_bar = (rho[:-1] - stop * later) @ Xt.T
    return value, beta0_bar, maps_bar, C_bar, rows_bar


# book/engineering/gradients.ipynb, cell gradients-17
def mean_maps_grad(theta, W_bar):
    """From slopes in W to slopes in beta1 and A.  [eq-lik-maps-grad]

    W_bar (J,K,D) -> (J,h+1), (K,h,D)
    """
    weights, (J, K, D) = theta.beta1[:, :-1], W_bar.shape
    rows = theta.A.swapaxes(1, 2).reshape(K * D, -1)
    beta1_bar = np.empty(theta.beta1.shape)
    np.matmul(W_bar.reshape(J, K * D), rows, out=beta1_bar[:, :-1])
    W_bar[:, :, -1].sum(1, out=beta1_bar[:, -1])
    A_bar = weights.T @ W_bar.reshape(J, K * D)
    return beta1_bar, A_bar.reshape(-1, K, D).swapaxes(0, 1)


def spread_maps_grad(theta, C, C_bar):
    """From slopes in C to slopes in B and in ln tau.  [eq-lik-root-grad]

    C, C_bar (J,K,r) -> (J,h), (K,h).  r = h means C = B / sqrt(tau), otherwise C
    holds Cholesky factors.
    """
    weights, J, r = theta.beta1[:, :-1], len(C), C.shape[2]
    if r == weights.shape[1]:
        return (C_bar / np.sqrt(theta.tau)).sum(1), -0.5 * (C_bar * C).sum(0)
    L, L_bar = C.swapaxes(0, 1), C_bar.swapaxes(0, 1)
    half = np.tril(L.swapaxes(1, 2) @ L_bar)
    half[:, range(J), range(J)] *= 0.5
    inverse = np.linalg.inv(L)
    S_bar = inverse.swapaxes(1, 2) @ half @ inverse
    pull = 0.5 * (S_bar + S_bar.swapaxes(1, 2)) @ weights             # (K,J,h)
    return (2 * (pull / theta.tau[:, None]).sum(0),
            -(pull * weights).sum(1) / theta.tau)


# book/engineering/gradients.ipynb, cell gradients-19
@np.errstate(all="ignore")
def likelihood_value_and_grad(phi, X, y, shapes, nodes, count=None):
    """sum_n ln p(y_n | x_n, Theta), nats, and its gradient in phi.
    [eq-lik, eq-lik-rho, eq-lik-gate-grad, eq-lik-maps-grad, eq-lik-root-grad]

    phi (P,), X (N,d), y (N,), shapes Shapes, nodes Nodes, count (N,) how often each
    row counts (None: once) -> float, (P,)
    Plain numpy. NaN where Theta is not finite or exp(ln tau) overflows.
    """
    X, y, z, w = check_data(X, y, shapes, nodes)
    theta = unpack(np.asarray(phi, dtype=float), shapes)
    try:
        W, C = mean_maps(theta), spread_maps(theta)
    except np.linalg.LinAlgError:                       # numbers like 1e200
        return np.nan, np.full(len(phi), np.nan)
    order = np.argsort(y, kind="stable")
    Xt = np.ascontiguousarray(pad(X[order]).T)
    weights = np.concatenate([w[None], w * z.T])
    value, beta0_bar, W_bar, C_bar, _ = sum_over_rows(
        theta.beta0, Xt, y[order], W, Xt, C @ z.T, weights,
        None if count is None else count[order])
    beta1_bar, A_bar = mean_maps_grad(theta, W_bar)
    spread_bar, s_bar = spread_maps_grad(theta, C, C_bar)
    beta1_bar[:, :-1] += spread_bar
    slope = join_fields((beta1_bar, beta0_bar, A_bar, s_bar))
    return float(value), slope if np.isfinite(value) else np.full(len(phi), np.nan)


# book/engineering/gradients.ipynb, cell gradients-24
def _class_integrals(means, spreads, weights, work):
    """sum_q w_q p(y = c | t_q) of every class and expert.  [eq-lik-expert]

    t = means (J,K,n) + spreads (J,K,Q), weights (Q,), work as in stick_integrals
    -> (J+1,K,n)
    """
    (J, K, n), Q = means.shape, spreads.shape[2]
    f, e_means, e_spreads = np.zeros((J + 1, K, n)), np.exp(-means), np.exp(-spreads)
    for k, q in chunks(J, K, Q, n):
        shape = (J, k.stop - k.start, q.stop - q.start, n)
        E, stop = (part[:prod(shape)].reshape(shape) for part in work)
        stick_sigmoids(e_means[:, k], e_spreads[:, k, q], E, stop)
        for j in range(1, J):
            stop[j] *= E[j - 1]
            E[j] *= E[j - 1]                          # E: passed j and all before
        f[:J, k] += weights[q] @ stop
        f[J, k] += weights[q] @ E[J - 1]
    return f


def class_log_probs(theta, X, nodes):
    """ln p(y = c | x_n, Theta) of every class c, nats.  [eq-lik, eq-lik-nodes]

    theta Theta, X (n,d), nodes Nodes -> (n,L); plain numpy, in blocks of rows
    """
    theta = Theta(*(np.asarray(part, dtype=float) for part in theta))
    X, _, z, w = check_data(X, None, theta_shapes(theta), nodes, labels=False)
    Xt, W, spreads = pad(X).T, mean_maps(theta), spread_maps(theta) @ z.T
    (J, K, _), log_gate = spreads.shape, gate_terms(theta.beta0 @ Xt)[0]
    out, work = np.empty((J + 1, len(X))), working_memory(max(BLOCK, J * ROWS))
    for start in range(0, len(X), ROWS):
        rows = slice(start, min(start + ROWS, len(X)))
        psi, gate, n = W @ Xt[:, rows], log_gate[:, rows], rows.stop - start
        extreme = _extreme(np.abs(psi), np.abs(spreads))
        f = _class_integrals(psi[:, ~extreme], spreads[:, ~extreme], w, work)
        if not extreme.any():
            out[:, rows] = np.log((f * np.exp(gate)).sum(1))
            continue
        log_f = np.empty((J + 1, K, n))
        log_f[:, ~extreme] = np.log(f)
        for c, (_, S, flip) in enumerate(class_blocks(np.arange(J + 1), J)):
            log_f[c, extreme], _ = extreme_integrals(
                flip * psi[:S, extreme], flip * spreads[:S, extreme], w[None])
        out[:, rows] = logsumexp(gate + log_f, axis=1)
    return out.T


# book/engineering/gradients.ipynb, cell gradients-27
def add_term(term, phi, shapes, value, slope):
    """Add a further log density of Theta to one at phi.  [eq-lik-phi]

    term: Theta -> nats, Theta of slopes, 0.0 for a field that it leaves alone; None
    adds nothing.  value float, slope (P,) in phi -> float, (P,)
    """
    if term is None:
        return value, slope
    theta, slope = unpack(phi, shapes), slope.copy()
    more, bar = term(theta)
    bar = bar._replace(tau=bar.tau * theta.tau)                  # in ln tau
    for part, extra in zip(split_fields(slope, shapes), bar):    # views
        part += extra
    return value + float(more), slope


@np.errstate(all="ignore")
def white_result(value, slope, phi, u, shapes, priors, term=None):
    """Add the white prior, and a term of add_term, to a log likelihood and take its
    gradient to u; -inf and 0 where the value is not finite.
    [eq-lik-white-prior, eq-lik-white-grad]

    value float, slope (P,) in phi -> float, (P,) in u
    """
    value, slope = add_term(term, phi, shapes, value, slope)
    value = float(value + log_prior_white(u, shapes, priors))
    if not np.isfinite(value):
        return -np.inf, np.zeros(len(u))
    slope = white_grad(phi, slope, shapes, priors)
    return value, slope + log_prior_white_grad(u, shapes, priors)


@np.errstate(all="ignore")
def explicit_value_and_grad(q, X, y, shapes, priors, term=None):
    """explicit_log_joint, with a term of add_term, and its gradient.
    [eq-lik-joint, eq-lik-rho]

    q (P + N h,) -> float, (P + N h,); plain numpy; -inf and 0 where it overflows
    """
    shapes, q = Shapes(*shapes), np.asarray(q, dtype=float)
    h, J, P = shapes.latent_dim, shapes.n_classes - 1, shapes.n_params
    X, D = check_X(X, n_features=shapes.input_dim), shapes.input_dim + 1
    y = check_y(y, len(X), J + 1)
    if q.shape != (P + len(X) * h,):
        raise ValueError(f"q: expected {P} + {len(X)} x {h} values, got {q.shape}")
    u, eps, order = q[:P], q[P:].reshape(-1, h), np.argsort(y, kind="stable")
    phi = from_white(u, shapes, priors)
    theta = unpack(phi, shapes)
    C = theta.beta1[:, None, :-1] / np.sqrt(theta.tau)
    maps = np.concatenate([mean_maps(theta), C], axis=2)
    rows = np.concatenate([pad(X).T, eps.T])[:, order]
    value, beta0_bar, bar, _, rows_bar = sum_over_rows(
        theta.beta0, rows[:D], y[order], maps, rows,
        np.zeros((J, len(theta.A), 1)), np.ones((1, 1)))
    beta1_bar, A_bar = mean_maps_grad(theta, bar[:, :, :D])
    spread_bar, s_bar = spread_maps_grad(theta, C, bar[:, :, D:])
    beta1_bar[:, :-1] += spread_bar
    slope = join_fields((beta1_bar, beta0_bar, A_bar, s_bar))
    value -= 0.5 * (eps**2).sum() + 0.5 * eps.size * np.log(2 * np.pi)
    value, slope = white_result(value, slope, phi, u, shapes, priors, term)
    if not np.isfinite(value):
        return value, np.zeros(len(q))
    eps_bar = -eps
    eps_bar[order] += rows_bar[D:].T
    return value, np.concatenate([slope, eps_bar.ravel()])


# book/engineering/gradients.ipynb, cell gradients-28
@np.errstate(all="ignore")
def marginal_value_and_grad(u, X, y, shapes, priors, nodes, count=None, term=None):
    """Log posterior density of u up to the evidence, and its gradient.
    [eq-lik-posterior]

    u (P,), X (N,d), y (N,), nodes Nodes, count (N,) or None, term of add_term
    -> float, (P,); plain numpy; -inf and 0 where Theta overflows
    """
    u = np.asarray(u, dtype=float)
    phi = from_white(u, shapes, priors)
    value, slope = likelihood_value_and_grad(phi, X, y, shapes, nodes, count)
    return white_result(value, slope, phi, u, shapes, priors, term)


# book/engineering/gradients.ipynb, cell gradients-31
class NetworkRows(NamedTuple):
    """Labelled rows, laid out for network_value_and_grad.  [eq-mle-objective]

    XtT (d+1, N) padded inputs; stop (L-1, N) 1 where the row's label is stick l;
    toss (L-1, N) 1 where the row reaches stick l;  both times how often it counts
    """
    XtT: np.ndarray
    stop: np.ndarray
    toss: np.ndarray


def network_rows(X, y, n_classes, count=1.0):
    """NetworkRows of X (N,d), y (N,) in 0..n_classes-1, count (N,) or a number.
    [eq-mle-objective, eq-weighted-bound]"""
    X, sticks = check_X(X), np.arange(n_classes - 1)[:, None]
    y = check_y(y, len(X), n_classes)
    XtT = np.ascontiguousarray(pad(X).T)
    return NetworkRows(XtT, (y == sticks) * count, (y >= sticks) * count)


# book/engineering/gradients.ipynb, cell gradients-32
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
