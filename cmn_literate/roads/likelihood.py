# Tangled from book/roads/likelihood.ipynb by tools/tangle.py; edit the notebook, not this file.
r"""One log likelihood

Only one number deserves the name "log likelihood" of the network: the logarithm of the probability
of the labels, with the experts summed and the latent vectors integrated out. It has an integral of
dimension $\min(h, L-1)$ at most, and it comes with an exact gradient.
"""

__all__ = ["Shapes", "theta_shapes", "split_fields", "join_fields", "pack", "unpack", "to_white",
           "from_white", "log_prior_white", "log_prior", "log_prior_grad", "log_prior_white_grad",
           "white_grad", "mean_maps", "spread_maps", "Nodes", "latent_nodes", "check_data",
           "log_likelihood", "BLOCK", "ROWS", "stick_sigmoids", "chunks", "stick_integrals",
           "extreme_integrals", "class_blocks", "gate_terms", "sum_over_rows", "mean_maps_grad",
           "spread_maps_grad", "likelihood_value_and_grad", "class_log_probs",
           "explicit_log_joint", "white_result", "explicit_value_and_grad",
           "marginal_value_and_grad"]


# book/roads/likelihood.ipynb, cell likelihood-02
from math import prod
from numbers import Integral
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np
from autograd.scipy.special import logsumexp
from scipy.special import gammaln, ndtri

from cmn_literate.engineering.quadrature import grid_rule, smoothstep_rule
from cmn_literate.network.simulate import Theta
from cmn_literate.checks import check_count, check_X, check_y
from cmn_literate.ideas.expfam import pad
from cmn_literate.ideas.stick_breaking import stick_log_probs


# book/roads/likelihood.ipynb, cell likelihood-13
class Shapes(NamedTuple):
    """Sizes of a network: n_experts K, latent_dim h, n_classes L, input_dim d.
    [eq-lik-phi]"""
    n_experts: int
    latent_dim: int
    n_classes: int
    input_dim: int

    @property
    def fields(self):
        """Shapes of beta1, beta0, A and tau."""
        K, h, L, d = self
        return (L - 1, h + 1), (K - 1, d + 1), (K, h, d + 1), (K, h)

    @property
    def n_params(self):
        """P, how many numbers a Theta holds."""
        K, h, L, d = self
        return (L - 1) * (h + 1) + (K - 1) * (d + 1) + K * h * (d + 2)

    @property
    def rank(self):
        """r = min(h, L-1), dimension of the integral over the latent vector."""
        return min(self.latent_dim, self.n_classes - 1)


def theta_shapes(theta):
    """Sizes of the network that a Theta belongs to; leading axes are ignored.
    [eq-lik-phi]   ValueError, naming the field, if the fields do not fit together.
    """
    ends = [anp.shape(part)[-n:] for part, n in zip(theta, (2, 2, 3, 2))]
    if [len(end) for end in ends] != [2, 2, 3, 2]:
        raise ValueError("theta: expected beta1, beta0, A, tau with 2, 2, 3 and 2 "
                         f"axes, got shapes {[anp.shape(part) for part in theta]}")
    (K, h, D), L = ends[2], ends[0][0] + 1
    shapes = Shapes(K, h, L, D - 1)
    for name, end, expected in zip(Theta._fields, ends, shapes.fields):
        if end != expected:
            raise ValueError(f"{name}: expected shape {expected} for K={K}, "
                             f"h={h}, L={L}, d={D - 1}, got {end}")
    return shapes


# book/roads/likelihood.ipynb, cell likelihood-14
def split_fields(vector, shapes):
    """A flat vector as its four blocks, values unchanged.  [eq-lik-phi]

    vector (..., P) -> beta1, beta0, A, ln tau, each with the leading axes (...)
    ValueError unless the last axis holds shapes.n_params numbers.
    """
    shapes, size = Shapes(*shapes), anp.shape(vector)
    if size[-1:] != (shapes.n_params,):
        raise ValueError(f"parameter vector: expected {shapes.n_params} numbers "
                         f"for {shapes}, got shape {size}")
    start, blocks = 0, []
    for shape in shapes.fields:
        stop = start + prod(shape)
        blocks.append(vector[..., start:stop].reshape(size[:-1] + shape))
        start = stop
    return blocks


def join_fields(blocks):
    """Inverse of split_fields.  [eq-lik-phi]   four blocks -> (..., P)"""
    lead = anp.shape(blocks[3])[:-2]
    flat = [block.reshape(lead + (prod(anp.shape(block)[len(lead):]),))
            for block in blocks]
    return anp.concatenate(flat, axis=-1)


# book/roads/likelihood.ipynb, cell likelihood-15
def pack(theta):
    """Theta as one unconstrained vector [beta1, beta0, A, ln tau].  [eq-lik-phi]

    Leading axes that the four fields share are kept; differentiable -> (..., P)
    """
    theta_shapes(theta)
    return join_fields((theta[0], theta[1], theta[2], anp.log(theta[3])))


def unpack(phi, shapes):
    """Inverse of pack.  [eq-lik-phi]

    phi (..., P), shapes Shapes -> Theta; differentiable
    ValueError unless the last axis holds shapes.n_params numbers.
    """
    beta1, beta0, A, log_tau = split_fields(phi, shapes)
    return Theta(beta1, beta0, A, anp.exp(log_tau))


# book/roads/likelihood.ipynb, cell likelihood-18
def to_white(phi, shapes, priors):
    """White coordinates: a priori every coefficient is N(0, 1).  [eq-lik-white]

    phi (..., P) -> u (..., P); differentiable
    """
    beta1, beta0, A, s = split_fields(phi, shapes)
    A = A * anp.exp(0.5 * s)[..., None] / priors.v0**0.5
    return join_fields((beta1 / priors.sigma1, beta0 / priors.sigma0, A, s))


def from_white(u, shapes, priors):
    """Inverse of to_white.  [eq-lik-white]   u (..., P) -> phi; differentiable"""
    beta1, beta0, A, s = split_fields(u, shapes)
    A = A * anp.exp(-0.5 * s)[..., None] * priors.v0**0.5
    return join_fields((beta1 * priors.sigma1, beta0 * priors.sigma0, A, s))


# book/roads/likelihood.ipynb, cell likelihood-19
def log_prior_white(u, shapes, priors):
    """ln of the prior density of white coordinates.  [eq-lik-white-prior]

    u (P,) -> float, nats; differentiable
    """
    s = split_fields(u, shapes)[3]
    n_normal = anp.shape(u)[-1] - anp.size(s)
    constant = priors.a0 * np.log(priors.b0) - gammaln(priors.a0)
    return (-0.5 * anp.sum(u[:n_normal]**2) - 0.5 * n_normal * np.log(2 * np.pi)
            + anp.sum(priors.a0 * s - priors.b0 * anp.exp(s) + constant))


def log_prior(phi, shapes, priors):
    """ln of the prior density of phi: ln p(Theta) + sum ln tau.  [eq-lik-prior]

    Computed as {white density} x {Jacobian} [eq-lik-jacobian];
    phi (P,) -> float, nats; differentiable
    """
    K, h, L, d = shapes
    log_jacobian = (
        0.5 * (d + 1) * anp.sum(split_fields(phi, shapes)[3] - np.log(priors.v0))
        - (L - 1) * (h + 1) * np.log(priors.sigma1)
        - (K - 1) * (d + 1) * np.log(priors.sigma0))
    u = to_white(phi, shapes, priors)
    return log_prior_white(u, shapes, priors) + log_jacobian


# book/roads/likelihood.ipynb, cell likelihood-23
def log_prior_grad(phi, shapes, priors):
    """Gradient of log_prior, plain numpy.  [eq-lik-prior-grad] phi (P,) -> (P,)"""
    beta1, beta0, A, s = split_fields(np.asarray(phi, dtype=float), shapes)
    tau = np.exp(s)
    energy = priors.b0 + (A**2).sum(-1) / (2 * priors.v0)
    return join_fields((
        -beta1 / priors.sigma1**2, -beta0 / priors.sigma0**2,
        -A * tau[..., None] / priors.v0,
        priors.a0 + A.shape[-1] / 2 - tau * energy))


def log_prior_white_grad(u, shapes, priors):
    """Gradient of log_prior_white.  [eq-lik-white-prior]   u (P,) -> (P,)"""
    slope = -np.asarray(u, dtype=float)
    s = split_fields(slope, shapes)[3]                     # a view, minus ln tau
    s[...] = priors.a0 - priors.b0 * np.exp(-s)
    return slope


def white_grad(phi, slope, shapes, priors):
    """Gradient in white coordinates, from the one in phi.  [eq-lik-white-grad]

    phi, slope (P,) -> (P,), plain numpy
    """
    A, s = split_fields(phi, shapes)[2:]
    beta1, beta0, A_bar, s_bar = split_fields(slope, shapes)
    scale = np.exp(-0.5 * s)[..., None] * priors.v0**0.5
    return join_fields((beta1 * priors.sigma1, beta0 * priors.sigma0,
                        A_bar * scale, s_bar - 0.5 * (A_bar * A).sum(-1)))


# book/roads/likelihood.ipynb, cell likelihood-26
def mean_maps(theta):
    """W_k = B A_k + c e^T: mean of the output logits as a linear map of x~.
    [eq-lik-maps]   theta Theta -> (L-1, K, d+1); differentiable"""
    weights, bias = theta.beta1[:, :-1], theta.beta1[:, -1]
    last = np.eye(anp.shape(theta.A)[-1])[-1]
    return anp.einsum("ji,kid->jkd", weights, theta.A) + bias[:, None, None] * last


def spread_maps(theta):
    """C_k: the noise of the output logits as a linear map of r normal numbers.
    [eq-lik-maps, eq-lik-root]   theta Theta -> (L-1, K, r); differentiable"""
    weights = theta.beta1[:, :-1]
    J, h = anp.shape(weights)
    if h <= J:
        return weights[:, None, :] / anp.sqrt(theta.tau)
    cov = anp.einsum("ji,ki,li->kjl", weights, 1 / theta.tau, weights)
    if J == 1:
        return anp.transpose(anp.sqrt(cov + 1e-300), (1, 0, 2))
    trace = anp.dot(1 / theta.tau, anp.sum(weights**2, 0))[:, None, None]
    root = anp.linalg.cholesky(cov + (1e-13 * trace + 1e-300) * np.eye(J))
    return anp.transpose(root, (1, 0, 2))


# book/roads/likelihood.ipynb, cell likelihood-37
class Nodes(NamedTuple):
    """Nodes z (Q, r) and weights w (Q,) for a mean over N(0, I_r); the weights are
    positive and add up to 1.  [eq-lik-nodes]"""
    z: np.ndarray
    w: np.ndarray


def latent_nodes(shapes, n_nodes=None, rng=None):
    """Nodes for the latent integral of a network, r = min(h, L-1) dimensions.
    [eq-lik-nodes, eq-lik-simulated]

    r = 1   n_nodes (32) smoothstep points: error 1e-6 up to sharpness 5
    r = 2   a grid, n_nodes (20) per coordinate: error 1e-7 up to sharpness 3
    r > 2   n_nodes (64, a power of 2) scrambled Sobol points, common to all rows,
            experts and calls; rng, a seed or a Generator, has to be given
    Sharpness: standard deviation of an output logit given the expert.
    """
    r = Shapes(*shapes).rank
    if r <= 2:
        n = {1: 32, 2: 20}[r] if n_nodes is None else n_nodes
        rule = smoothstep_rule(check_count(n, "n_nodes", 3))
        return Nodes(*grid_rule([rule] * r))
    n = check_count(64 if n_nodes is None else n_nodes, "n_nodes")
    seed = isinstance(rng, Integral) and not isinstance(rng, bool) and rng >= 0
    if n & (n - 1) or not (seed or isinstance(rng, np.random.Generator)):
        raise ValueError("n_nodes, rng: expected a power of 2 and a seed >= 0 or "
                         f"a Generator for {r} dimensions, got {n} and {rng!r}")
    from scipy.stats import qmc                  # here: it is slow to import
    sobol = qmc.Sobol(r, rng=np.random.default_rng(rng))
    cube = sobol.random_base2(n.bit_length() - 1) + 0.5**31       # never 0
    return Nodes(ndtri(cube), np.full(n, 1 / n))


# book/roads/likelihood.ipynb, cell likelihood-40
def check_data(X, y, shapes, nodes, labels=True):
    """Inputs, labels and nodes that fit the sizes of a network.  [eq-lik]

    -> X (N,d) float, y (N,) int64 (None if labels=False), z (Q,r), w (Q,)
    """
    K, h, L, d = shapes
    X = check_X(X, n_features=d)
    y = check_y(y, len(X), L) if labels else None
    z, w = (np.asarray(part, dtype=float) for part in nodes)
    r = min(h, L - 1)
    if z.ndim != 2 or z.shape[1] != r or w.shape != z.shape[:1] or not w.size:
        raise ValueError(f"nodes: expected z (Q, {r}) and w (Q,) for h={h}, "
                         f"L={L}, got {z.shape} and {w.shape}")
    return X, y, z, w


def log_likelihood(theta, X, y, nodes):
    """ln p(y_n | x_n, Theta) of every row, nats.  [eq-lik, eq-lik-nodes]

    theta Theta, X (N,d), y (N,) classes from 0, nodes Nodes -> (N,)
    Differentiable by autograd in theta; holds N x K x Q x L numbers.
    """
    shapes = theta_shapes(theta)
    X, y, z, w = check_data(X, y, shapes, nodes)
    Xt, L = pad(X), shapes.n_classes
    mean = anp.einsum("jkd,nd->nkj", mean_maps(theta), Xt)
    noise = anp.einsum("jkr,qr->kqj", spread_maps(theta), z)
    log_probs = stick_log_probs(mean[:, :, None] + noise)          # (N,K,Q,L)
    seen = anp.sum(log_probs * np.eye(L)[y][:, None, None], -1)
    log_gate = stick_log_probs(anp.dot(Xt, anp.transpose(theta.beta0)))
    return logsumexp(log_gate[:, :, None] + np.log(w) + seen, axis=(1, 2))


# book/roads/likelihood.ipynb, cell likelihood-46
BLOCK = 30_000             # numbers worked on at a time: they stay in the cache
ROWS = 256                 # rows at a time


def stick_sigmoids(e_means, e_spreads, E, stop):
    """sigma(-t) into E and sigma(t) into stop, both (S,K,Q,n).  [eq-lik-sigmoids]

    exp(-t) = e_means (S,K,n) x e_spreads (S,K,Q)
    """
    np.multiply(e_spreads[..., None], e_means[:, :, None], out=E)
    np.add(E, 1.0, out=stop)
    np.divide(1.0, stop, out=stop)
    np.multiply(E, stop, out=E)


def chunks(S, K, Q, n):
    """(experts, nodes) in slices such that S x their sizes x n is about BLOCK.
    [eq-lik-expert]"""
    nodes = min(Q, max(1, BLOCK // (S * n)))
    experts = max(1, BLOCK // (S * n * nodes)) if nodes == Q else 1
    return [(slice(k, min(k + experts, K)), slice(q, min(q + nodes, Q)))
            for k in range(0, K, experts) for q in range(0, Q, nodes)]


# book/roads/likelihood.ipynb, cell likelihood-47
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
        work = np.empty((2, max(BLOCK, S * n)))
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


# book/roads/likelihood.ipynb, cell likelihood-48
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


# book/roads/likelihood.ipynb, cell likelihood-51
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


# book/roads/likelihood.ipynb, cell likelihood-52
def sum_over_rows(beta0, Xt, y, maps, rows, spreads, weights):
    """sum_n ln p(y_n) and its slopes.
    [eq-lik-expert, eq-lik-rho, eq-lik-gate-grad]

    beta0 (K-1,D), Xt (D,N), y (N,) ascending; the logits are maps (J,K,E) @ rows
    (E,N) + spreads (J,K,Q); weights (1+r,Q) = w [1, z]
    -> value, and slopes in beta0 (K-1,D), maps (J,K,E), C (J,K,r), rows (E,N)
    r = 0: there is one node, with weight 1 and no spread
    """
    (J, K, E), r = maps.shape, len(weights) - 1
    log_gate, stop = gate_terms(beta0 @ Xt)
    maps_bar, C_bar, value = np.zeros(maps.shape), np.zeros((J, K, r)), 0.0
    rho, rows_bar = np.empty(log_gate.shape), np.empty(rows.shape)
    work = np.empty((2, BLOCK))
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
        value += (top + np.log(total)).sum()
        rho[:, block] = joint / total
        slopes *= (-flip * rho[:, block])[:, :, None]
        direct = slopes[:, :, 0].reshape(S * K, -1)
        maps_bar[:S] += (direct @ x.T).reshape(S, K, E)
        C_bar[:S] += slopes[:, :, 1:].sum(-1)
        rows_bar[:, block] = flat.T @ direct
    later = np.cumsum(rho[::-1], axis=0)[:0:-1]          # sum of rho_k, k >= j
    beta0_bar = (rho[:-1] - stop * later) @ Xt.T
    return value, beta0_bar, maps_bar, C_bar, rows_bar


# book/roads/likelihood.ipynb, cell likelihood-54
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


# book/roads/likelihood.ipynb, cell likelihood-56
@np.errstate(all="ignore")
def likelihood_value_and_grad(phi, X, y, shapes, nodes):
    """sum_n ln p(y_n | x_n, Theta), nats, and its gradient in phi.
    [eq-lik, eq-lik-rho, eq-lik-gate-grad, eq-lik-maps-grad, eq-lik-root-grad]

    phi (P,), X (N,d), y (N,), shapes Shapes, nodes Nodes -> float, (P,)
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
        theta.beta0, Xt, y[order], W, Xt, C @ z.T, weights)
    beta1_bar, A_bar = mean_maps_grad(theta, W_bar)
    spread_bar, s_bar = spread_maps_grad(theta, C, C_bar)
    beta1_bar[:, :-1] += spread_bar
    slope = join_fields((beta1_bar, beta0_bar, A_bar, s_bar))
    return float(value), slope if np.isfinite(value) else np.full(len(phi), np.nan)


# book/roads/likelihood.ipynb, cell likelihood-60
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
    out, work = np.empty((J + 1, len(X))), np.empty((2, max(BLOCK, J * ROWS)))
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


# book/roads/likelihood.ipynb, cell likelihood-68
def explicit_log_joint(q, X, y, shapes, priors):
    """ln p(u, eps, y | X), nats: one eps_n for all experts.
    [eq-lik-explicit, eq-lik-joint]

    q = [u (P,), eps (N h,)] -> float; differentiable
    """
    shapes = Shapes(*shapes)
    h, L, P = shapes.latent_dim, shapes.n_classes, shapes.n_params
    X = check_X(X, n_features=shapes.input_dim)
    y, Xt, u = check_y(y, len(X), L), pad(X), q[:P]
    theta = unpack(from_white(u, shapes, priors), shapes)
    eps = anp.reshape(q[P:], (len(X), 1, h))
    x1 = anp.einsum("kid,nd->nki", theta.A, Xt) + eps / anp.sqrt(theta.tau)
    psi = anp.dot(x1, anp.transpose(theta.beta1[:, :-1])) + theta.beta1[:, -1]
    seen = anp.sum(stick_log_probs(psi) * np.eye(L)[y][:, None], -1)
    log_gate = stick_log_probs(anp.dot(Xt, anp.transpose(theta.beta0)))
    normal = -0.5 * anp.sum(eps**2) - 0.5 * h * len(X) * np.log(2 * np.pi)
    return (anp.sum(logsumexp(log_gate + seen, axis=1)) + normal
            + log_prior_white(u, shapes, priors))


# book/roads/likelihood.ipynb, cell likelihood-72
@np.errstate(all="ignore")
def white_result(value, slope, phi, u, shapes, priors):
    """Add the white prior to a log likelihood and take its gradient to u; -inf and
    0 where the value is not finite.  [eq-lik-white-prior, eq-lik-white-grad]

    value float, slope (P,) in phi -> float, (P,) in u
    """
    value = float(value + log_prior_white(u, shapes, priors))
    if not np.isfinite(value):
        return -np.inf, np.zeros(len(u))
    slope = white_grad(phi, slope, shapes, priors)
    return value, slope + log_prior_white_grad(u, shapes, priors)


@np.errstate(all="ignore")
def explicit_value_and_grad(q, X, y, shapes, priors):
    """explicit_log_joint and its gradient.  [eq-lik-joint, eq-lik-rho]

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
    value, slope = white_result(value, slope, phi, u, shapes, priors)
    if not np.isfinite(value):
        return value, np.zeros(len(q))
    eps_bar = -eps
    eps_bar[order] += rows_bar[D:].T
    return value, np.concatenate([slope, eps_bar.ravel()])


# book/roads/likelihood.ipynb, cell likelihood-74
@np.errstate(all="ignore")
def marginal_value_and_grad(u, X, y, shapes, priors, nodes):
    """Log posterior density of u up to the evidence, and its gradient.
    [eq-lik-posterior]

    u (P,), X (N,d), y (N,), nodes Nodes -> float, (P,); plain numpy; -inf and 0
    where Theta overflows
    """
    u = np.asarray(u, dtype=float)
    phi = from_white(u, shapes, priors)
    value, slope = likelihood_value_and_grad(phi, X, y, shapes, nodes)
    return white_result(value, slope, phi, u, shapes, priors)
