# Tangled from book/roads/likelihood.ipynb by tools/tangle.py; edit the notebook, not this file.
"""One log likelihood

Only one number deserves the name "log likelihood" of a network: the logarithm of the probability
of the labels with the experts summed and the latent vectors integrated out. It can be computed to
as many digits as you like, with its gradient.
"""

__all__ = ["Shapes", "theta_shapes", "split_fields", "join_fields", "pack", "unpack", "to_white",
           "from_white", "log_prior_white", "log_prior", "log_prior_grad", "log_prior_white_grad",
           "mean_maps", "spread_maps", "Nodes", "latent_nodes", "log_likelihood", "check_data",
           "stick_integrals", "class_blocks", "gate_terms", "sum_over_rows", "mean_maps_grad",
           "spread_maps_grad", "likelihood_value_and_grad", "white_grad",
           "marginal_value_and_grad", "explicit_log_joint", "explicit_value_and_grad",
           "class_log_probs"]


# book/roads/likelihood.ipynb, cell likelihood-02
from typing import NamedTuple

import autograd.numpy as np
import numpy as onp
from autograd.scipy.special import logsumexp
from scipy.special import gammaln, ndtri

from cmn_literate.predict import grid_rule, smoothstep_rule
from cmn_literate.simulate import Theta, check_count, check_X, check_y, pad
from cmn_literate.stick_breaking import stick_log_probs


# book/roads/likelihood.ipynb, cell likelihood-04
class Shapes(NamedTuple):
    """Sizes of a network.  [eq-lik-phi]

    n_experts K, latent_dim h, n_classes L, input_dim d
    """
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
        """P, how many numbers Theta holds."""
        return sum(int(onp.prod(shape)) for shape in self.fields)

    @property
    def rank(self):
        """r = min(h, L-1), dimension of the integral over the latent vector."""
        return min(self.latent_dim, self.n_classes - 1)


def theta_shapes(theta):
    """Sizes of the network that a Theta (leading axes allowed) belongs to.
    [eq-lik-phi]"""
    J, h = onp.shape(theta.beta1)[-2:]
    K, _, D = onp.shape(theta.A)[-3:]
    return Shapes(K, h - 1, J + 1, D - 1)


# book/roads/likelihood.ipynb, cell likelihood-06
def split_fields(vector, shapes):
    """A flat vector as its four blocks, no transformation.  [eq-lik-phi]

    vector (..., P) -> beta1 (..., L-1, h+1), beta0 (..., K-1, d+1),
                       A (..., K, h, d+1), log tau (..., K, h)
    """
    shapes, size = Shapes(*shapes), np.shape(vector)[-1:]
    if size != (shapes.n_params,):
        raise ValueError(f"parameter vector: expected {shapes.n_params} numbers "
                         f"for {shapes}, got shape {np.shape(vector)}")
    lead, start, blocks = np.shape(vector)[:-1], 0, []
    for shape in shapes.fields:
        stop = start + int(onp.prod(shape))
        blocks.append(np.reshape(vector[..., start:stop], lead + shape))
        start = stop
    return blocks


def join_fields(blocks):
    """The inverse of split_fields.  [eq-lik-phi]   -> (..., P)"""
    lead = np.shape(blocks[3])[:-2]
    flat = [np.reshape(b, lead + (int(onp.prod(np.shape(b)[len(lead):])),))
            for b in blocks]
    return np.concatenate(flat, axis=-1)


# book/roads/likelihood.ipynb, cell likelihood-07
def pack(theta):
    """Theta as one unconstrained vector [beta1, beta0, A, log tau].  [eq-lik-phi]

    Leading axes, common to the four fields, are kept; differentiable -> (..., P)
    """
    return join_fields((theta[0], theta[1], theta[2], np.log(theta[3])))


def unpack(phi, shapes):
    """The Theta of an unconstrained vector, inverse of pack.  [eq-lik-phi]

    phi (..., P), shapes Shapes -> Theta; differentiable
    ValueError unless the last axis holds shapes.n_params numbers.
    """
    beta1, beta0, A, log_tau = split_fields(phi, shapes)
    return Theta(beta1, beta0, A, np.exp(log_tau))


# book/roads/likelihood.ipynb, cell likelihood-09
def to_white(phi, shapes, priors):
    """White coordinates: a priori the coefficients are N(0, 1).  [eq-lik-white]

    phi (..., P) -> u (..., P); differentiable
    """
    beta1, beta0, A, log_tau = split_fields(phi, shapes)
    A = A * np.exp(0.5 * log_tau)[..., None] / priors.v0**0.5
    return join_fields(
        (beta1 / priors.sigma1, beta0 / priors.sigma0, A, log_tau))


def from_white(u, shapes, priors):
    """Inverse of to_white.  [eq-lik-white]   u (..., P) -> phi (..., P)"""
    beta1, beta0, A, log_tau = split_fields(u, shapes)
    A = A * np.exp(-0.5 * log_tau)[..., None] * priors.v0**0.5
    return join_fields(
        (beta1 * priors.sigma1, beta0 * priors.sigma0, A, log_tau))


# book/roads/likelihood.ipynb, cell likelihood-10
def log_prior_white(u, shapes, priors):
    """ln of the prior density of white coordinates, nats.  [eq-lik-white-prior]

    u (P,) -> float; differentiable
    """
    beta1, beta0, A, s = split_fields(u, shapes)
    n_normal = int(onp.prod(np.shape(u))) - int(onp.prod(np.shape(s)))
    squares = np.sum(beta1**2) + np.sum(beta0**2) + np.sum(A**2)
    gamma = priors.a0 * onp.log(priors.b0) - gammaln(priors.a0)
    return (-0.5 * squares - 0.5 * n_normal * onp.log(2 * onp.pi)
            + np.sum(priors.a0 * s - priors.b0 * np.exp(s) + gamma))


def log_prior(phi, shapes, priors):
    """ln of the prior density of phi, ln p(Theta) + sum ln tau, nats.
    [eq-lik-prior]   phi (P,) -> float; differentiable"""
    K, h, L, d = shapes
    s = split_fields(phi, shapes)[3]
    log_jacobian = (
        0.5 * (d + 1) * np.sum(s) - 0.5 * K * h * (d + 1) * onp.log(priors.v0)
        - (L - 1) * (h + 1) * onp.log(priors.sigma1)
        - (K - 1) * (d + 1) * onp.log(priors.sigma0))
    return log_prior_white(to_white(phi, shapes, priors), shapes, priors) + log_jacobian


# book/roads/likelihood.ipynb, cell likelihood-12
def log_prior_grad(phi, shapes, priors):
    """Gradient of log_prior.  [eq-lik-prior]   phi (P,) -> (P,), plain numpy"""
    beta1, beta0, A, s = split_fields(onp.asarray(phi, float), shapes)
    tau, D = onp.exp(s), shapes[3] + 1
    slope = (priors.a0 + D / 2 - tau * (priors.b0 + (A**2).sum(-1) / (2 * priors.v0)))
    return join_fields((-beta1 / priors.sigma1**2, -beta0 / priors.sigma0**2,
                        -A * tau[..., None] / priors.v0, slope))


def log_prior_white_grad(u, shapes, priors):
    """Gradient of log_prior_white.  [eq-lik-white-prior]   u (P,) -> (P,)"""
    beta1, beta0, A, s = split_fields(onp.asarray(u, float), shapes)
    return join_fields((-beta1, -beta0, -A, priors.a0 - priors.b0 * onp.exp(s)))


# book/roads/likelihood.ipynb, cell likelihood-14
def mean_maps(theta):
    """W_k, the mean of the output logits as a linear map of x~.  [eq-lik-maps]

    theta Theta -> (L-1, K, d+1); differentiable
    """
    weights, bias = theta.beta1[:, :-1], theta.beta1[:, -1]
    last = onp.zeros(np.shape(theta.A)[-1])
    last[-1] = 1.0
    return (np.einsum("ji,kid->jkd", weights, theta.A)
            + bias[:, None, None] * last)


def spread_maps(theta):
    """C_k, the logits' noise as a linear map of r standard normal numbers.
    [eq-lik-maps, eq-lik-root]

    theta Theta -> (L-1, K, r), r = min(h, L-1); differentiable
    """
    weights = theta.beta1[:, :-1]
    J, h = np.shape(weights)
    if h <= J:
        return weights[:, None, :] / np.sqrt(theta.tau)
    cov = np.einsum("ji,ki,li->kjl", weights, 1 / theta.tau, weights)
    if J == 1:
        return np.transpose(np.sqrt(cov + 1e-300), (1, 0, 2))
    size = np.einsum("ji,ki->k", weights**2, 1 / theta.tau)[:, None, None]
    root = np.linalg.cholesky(cov + (1e-13 * size + 1e-300) * onp.eye(J))
    return np.transpose(root, (1, 0, 2))


# book/roads/likelihood.ipynb, cell likelihood-16
class Nodes(NamedTuple):
    """Points and weights for a mean over N(0, I_r).  [eq-lik-nodes]

    z (Q, r), w (Q,) positive, adding up to 1
    """
    z: onp.ndarray
    w: onp.ndarray


def latent_nodes(shapes, n_nodes=None, rng=None):
    """Nodes for the latent integral of a network.  [eq-lik-nodes]

    r = 1: n_nodes (32) points of the smoothstep rule.  r = 2: a grid of n_nodes (20)
    per coordinate without its far corners.  r > 2: n_nodes (64, a power of 2)
    scrambled Sobol points in pairs z, -z, common to all rows and experts; rng, an
    int or a Generator, must be given.
    """
    r = Shapes(*shapes).rank
    if r <= 2:
        n = check_count({1: 32, 2: 20}[r] if n_nodes is None else n_nodes, "n_nodes", 3)
        z, w = grid_rule([smoothstep_rule(n)] * r)
        keep = w > (0 if r == 1 else 1e-9)
        return Nodes(z[keep], w[keep] / w[keep].sum())
    n = check_count(64 if n_nodes is None else n_nodes, "n_nodes", 2)
    if rng is None or n & (n - 1):
        raise ValueError(f"n_nodes, rng: expected a power of 2 and a seed for the "
                         f"{r}-dimensional integral, got {n_nodes} and {rng}")
    from scipy.stats import qmc                  # here: it is slow to import
    sobol = qmc.Sobol(r, rng=onp.random.default_rng(rng))
    z = ndtri(sobol.random_base2(n.bit_length() - 2))
    return Nodes(onp.concatenate([z, -z]), onp.full(n, 1 / n))


# book/roads/likelihood.ipynb, cell likelihood-18
def log_likelihood(theta, X, y, nodes):
    """ln p(y_n | x_n, Theta) of every row, nats.  [eq-lik, eq-lik-nodes]

    theta Theta, X (N,d), y (N,) classes 0..L-1, nodes Nodes -> (N,)
    Differentiable by autograd in theta. N x K x Q x (L-1) numbers at a time.
    """
    L = np.shape(theta.beta1)[0] + 1
    X, y, z, w = check_data(X, y, theta_shapes(theta), nodes)
    Xt = pad(X)
    mean = np.einsum("jkd,nd->nkj", mean_maps(theta), Xt)
    noise = np.einsum("jkr,qr->kqj", spread_maps(theta), z)
    log_probs = stick_log_probs(mean[:, :, None] + noise)          # (N,K,Q,L)
    seen = np.sum(log_probs * onp.eye(L)[y][:, None, None], -1)
    log_gate = stick_log_probs(np.dot(Xt, np.transpose(theta.beta0)))
    return logsumexp(log_gate[:, :, None] + onp.log(w) + seen, axis=(1, 2))


def check_data(X, y, shapes, nodes):
    """Inputs, labels and nodes that fit the sizes of a network.  [eq-lik]

    -> X (N,d) float, y (N,) int64 (None stays None), z (Q,r), w (Q,)
    """
    K, h, L, d = shapes
    X = check_X(X, n_features=d)
    y = None if y is None else check_y(y, len(X), L)
    z, w = (onp.asarray(part, dtype=float) for part in nodes)
    r = min(h, L - 1)
    if z.ndim != 2 or z.shape[1] != r or w.shape != z.shape[:1] or not w.size:
        raise ValueError(f"nodes: expected z (Q, {r}) and w (Q,) for h={h}, L={L}, "
                         f"got {z.shape} and {w.shape}")
    return X, y, z, w


# book/roads/likelihood.ipynb, cell likelihood-20
def stick_integrals(means, spreads, weights):
    """ln of sum_q w_q prod_j sigma(-T_j) and its slopes in -T.  [eq-lik-expert]

    T = means (S,K,n) + spreads (S,K,Q) z-free sum; weights (Q, 1+r) = w [1, z]
    -> log_f (K,n) nats, slopes (S,K,n,1+r): mean and spread derivatives
    """
    T = means[..., None] + spreads[:, :, None]
    if len(T) * (means.max() + spreads.max()) < 600:     # no product underflows
        E = onp.exp(T, out=T)
        stop = onp.add(E, 1.0)
        onp.divide(1.0, stop, out=stop)                  # sigma(-T)
        product, shift = onp.multiply.reduce(stop), 0.0
    else:
        low = onp.maximum(T, 0).sum(0)
        shift = -low.min(-1)
        E = onp.exp(-onp.abs(T))
        stop = 1 / (1 + E)
        product = stop.prod(0) * onp.exp(-low - shift[..., None])
        E[T > 0] = 1.0
    E *= stop                                            # sigma(T)
    E *= product
    f = product @ weights[:, 0]
    slopes = E @ weights
    slopes /= f[..., None]
    return onp.log(f) + shift, slopes


# book/roads/likelihood.ipynb, cell likelihood-21
def class_blocks(y, n_sticks, size, budget=20_000):
    """Rows of sorted labels in blocks of one class.  [eq-lik-expert]

    y (N,) ascending, size numbers per row and stick
    -> list of (slice of rows, S sticks that count, signs (S,1,1) of -t)
    """
    blocks, edges = [], onp.searchsorted(y, onp.arange(n_sticks + 2))
    for c, (start, end) in enumerate(zip(edges[:-1], edges[1:])):
        S = min(c + 1, n_sticks)
        sign = onp.ones((S, 1, 1))
        sign[c:] = -1.0
        step = max(1, budget // (S * size))
        blocks += [(slice(i, min(i + step, end)), S, sign)
                   for i in range(start, end, step)]
    return blocks


def gate_terms(psi):
    """ln pi_k and sigma(psi_k) of every row, plain numpy.  [eq-lik]

    psi (K-1, N) gate logits -> (K, N) nats, (K-1, N)
    """
    K, N = len(psi) + 1, psi.shape[1]
    e = onp.exp(-onp.abs(psi))
    log_pass = onp.minimum(-psi, 0) - onp.log1p(e)
    log_gate = onp.zeros((K, N))
    onp.cumsum(log_pass, 0, out=log_gate[1:])
    log_gate[:-1] += log_pass + psi
    return log_gate, onp.where(psi > 0, 1, e) / (1 + e)


# book/roads/likelihood.ipynb, cell likelihood-22
def sum_over_rows(theta, maps, spreads, weights, rows, y, Xt):
    """sum_n ln p(y_n) and its slopes in the logits.  [eq-lik-expert]

    maps (J,K,E) and rows (E,N): the mean of the logits is maps @ rows; spreads
    (J,K,Q), weights (Q,1+r); y (N,) ascending; Xt (D,N)
    -> value, d/d beta0 (K-1,D), d/d maps (J,K,E), d/d C (J,K,r), d/d rows (E,N)
    """
    J, K, E = maps.shape
    log_gate, stop = gate_terms(theta.beta0 @ Xt)
    maps_bar, root_bar = onp.zeros(maps.shape), onp.zeros((J, K, weights.shape[1] - 1))
    rho, value, rows_bar = onp.empty(log_gate.shape), 0.0, onp.zeros(rows.shape)
    for block, S, sign in class_blocks(y, J, K * len(weights)):
        x = rows[:, block]
        means = (maps[:S].reshape(S * K, E) @ x).reshape(S, K, -1)
        log_f, slopes = stick_integrals(sign * means, sign * spreads[:S], weights)
        log_f += log_gate[:, block]
        top = log_f.max(0)
        share = onp.exp(log_f - top)
        total = share.sum(0)
        value += (top + onp.log(total)).sum()
        rho[:, block] = share = share / total
        slopes *= (share * -sign)[..., None]
        direct = slopes[..., 0].reshape(S * K, -1)
        maps_bar[:S] += (direct @ x.T).reshape(S, K, E)
        root_bar[:S] += slopes[..., 1:].sum(2)
        rows_bar[:, block] = maps[:S].reshape(S * K, E).T @ direct
    later = onp.cumsum(rho[::-1], 0)[::-1]               # sum of rho_i, i >= k
    gate_bar = (rho - later * onp.concatenate([stop, onp.ones((1, len(y)))]))[:-1]
    return value, gate_bar @ Xt.T, maps_bar, root_bar, rows_bar


# book/roads/likelihood.ipynb, cell likelihood-23
def mean_maps_grad(theta, maps_bar):
    """From slopes in W to slopes in beta1 and A.  [eq-lik-maps-grad]

    maps_bar (J,K,D) -> (J,h+1), (K,h,D)
    """
    weights = theta.beta1[:, :-1]
    J, K, D = maps_bar.shape
    slope = maps_bar.reshape(J, K * D) @ theta.A.swapaxes(1, 2).reshape(K * D, -1)
    A_bar = onp.tensordot(weights, maps_bar, (0, 0)).swapaxes(0, 1)
    return onp.concatenate([slope, maps_bar[:, :, -1:].sum(1)], 1), A_bar


def spread_maps_grad(theta, C, C_bar):
    """From slopes in C to slopes in the weights and in ln tau.  [eq-lik-root-grad]

    C, C_bar (J,K,r) -> (J,h), (K,h).  If r = h then C = weights / sqrt(tau).
    """
    weights, tau = theta.beta1[:, :-1], theta.tau
    J, h = weights.shape
    if C.shape[2] == h:
        return (onp.einsum("jki,ki->ji", C_bar, tau**-0.5),
                -0.5 * (C_bar * C).sum(0))
    L, L_bar = C.swapaxes(0, 1), C_bar.swapaxes(0, 1)
    half = onp.tril(L.swapaxes(1, 2) @ L_bar)
    half[:, range(J), range(J)] /= 2
    inverse = onp.linalg.inv(L)
    S_bar = inverse.swapaxes(1, 2) @ half @ inverse
    S_bar = (S_bar + S_bar.swapaxes(1, 2)) / 2
    pull = S_bar @ weights                                   # (K,J,h)
    return (2 * onp.einsum("kji,ki->ji", pull, 1 / tau),
            -(pull * weights).sum(1) / tau)


# book/roads/likelihood.ipynb, cell likelihood-25
def likelihood_value_and_grad(phi, X, y, shapes, nodes):
    """sum_n ln p(y_n | x_n, Theta) and its gradient in phi.
    [eq-lik, eq-lik-expert, eq-lik-maps-grad, eq-lik-root-grad]

    phi (P,), X (N,d), y (N,), shapes Shapes, nodes Nodes -> float, (P,)
    """
    X, y, z, w = check_data(X, y, shapes, nodes)
    theta = unpack(onp.asarray(phi, dtype=float), shapes)
    order = onp.argsort(y, kind="stable")
    Xt, C = onp.ascontiguousarray(pad(X[order]).T), spread_maps(theta)
    weights = w[:, None] * onp.concatenate([onp.ones((len(w), 1)), z], 1)
    value, beta0_bar, W_bar, C_bar, _ = sum_over_rows(
        theta, mean_maps(theta), C @ z.T, weights, Xt, y[order], Xt)
    beta1_bar, A_bar = mean_maps_grad(theta, W_bar)
    spread_bar, s_bar = spread_maps_grad(theta, C, C_bar)
    beta1_bar[:, :-1] += spread_bar
    return float(value), join_fields((beta1_bar, beta0_bar, A_bar, s_bar))


# book/roads/likelihood.ipynb, cell likelihood-27
def white_grad(phi, grad_phi, shapes, priors):
    """Gradient in u from the gradient in phi.  [eq-lik-white-grad]  (P,) -> (P,)"""
    A, s = split_fields(phi, shapes)[2:]
    b1, b0, gA, gs = split_fields(grad_phi, shapes)
    scale = onp.exp(-0.5 * s)[..., None] * priors.v0**0.5
    return join_fields((b1 * priors.sigma1, b0 * priors.sigma0, gA * scale,
                        gs - 0.5 * (gA * A).sum(-1)))


def marginal_value_and_grad(u, X, y, shapes, priors, nodes):
    """ln p(y | X, Theta) + ln p(u), and its gradient in u.  [eq-lik-posterior]

    The log posterior density of u up to the evidence; u (P,) -> float, (P,)
    """
    phi = from_white(u, shapes, priors)
    value, slope = likelihood_value_and_grad(phi, X, y, shapes, nodes)
    return (float(value + log_prior_white(u, shapes, priors)),
            white_grad(phi, slope, shapes, priors) + log_prior_white_grad(u, shapes, priors))


# book/roads/likelihood.ipynb, cell likelihood-29
def explicit_log_joint(q, X, y, shapes, priors):
    """ln p(u, eps, y | X), one eps_n shared by the experts.  [eq-lik-explicit]

    q = [u (P,), eps (N h,)] -> float, nats; differentiable
    """
    shapes = Shapes(*shapes)
    P, h, L = shapes.n_params, shapes.latent_dim, shapes.n_classes
    X = check_X(X, n_features=shapes.input_dim)
    y, Xt, u = check_y(y, len(X), L), pad(X), q[:P]
    theta = unpack(from_white(u, shapes, priors), shapes)
    eps = np.reshape(q[P:], (len(X), 1, h))
    x1 = np.einsum("kid,nd->nki", theta.A, Xt) + eps / np.sqrt(theta.tau)
    psi = np.dot(x1, np.transpose(theta.beta1[:, :-1])) + theta.beta1[:, -1]
    seen = np.sum(stick_log_probs(psi) * onp.eye(L)[y][:, None], -1)
    log_gate = stick_log_probs(np.dot(Xt, np.transpose(theta.beta0)))
    normal = -0.5 * np.sum(eps**2) - 0.5 * h * len(X) * onp.log(2 * onp.pi)
    return (np.sum(logsumexp(log_gate + seen, axis=1)) + normal
            + log_prior_white(u, shapes, priors))


def explicit_value_and_grad(q, X, y, shapes, priors):
    """explicit_log_joint and its gradient, plain numpy.  [eq-lik-explicit]

    q (P + N h,) -> float, (P + N h,)
    """
    shapes, q = Shapes(*shapes), onp.asarray(q, dtype=float)
    P, h, J = shapes.n_params, shapes.latent_dim, shapes.n_classes - 1
    X = check_X(X, n_features=shapes.input_dim)
    y = check_y(y, len(X), J + 1)
    if q.shape != (P + len(X) * h,):
        raise ValueError(f"q: expected {P} + {len(X)} x {h} numbers, got {q.shape}")
    u, eps, D = q[:P], q[P:].reshape(-1, h), shapes.input_dim + 1
    phi = from_white(u, shapes, priors)
    theta, order = unpack(phi, shapes), onp.argsort(y, kind="stable")
    rows = onp.concatenate([pad(X[order]), eps[order]], 1).T.copy()
    C = theta.beta1[:, None, :-1] / onp.sqrt(theta.tau)
    maps = onp.concatenate([mean_maps(theta), C], 2)
    value, beta0_bar, bar, _, rows_bar = sum_over_rows(
        theta, maps, onp.zeros((J, len(C[0]), 1)), onp.ones((1, 1)), rows, y[order],
        rows[:D])
    beta1_bar, A_bar = mean_maps_grad(theta, bar[:, :, :D])
    spread_bar, s_bar = spread_maps_grad(theta, C, bar[:, :, D:])
    beta1_bar[:, :-1] += spread_bar
    slope = join_fields((beta1_bar, beta0_bar, A_bar, s_bar))
    eps_bar = -eps
    eps_bar[order] += rows_bar[D:].T
    value += (log_prior_white(u, shapes, priors) - 0.5 * (eps**2).sum()
              - 0.5 * eps.size * onp.log(2 * onp.pi))
    slope = white_grad(phi, slope, shapes, priors) + log_prior_white_grad(u, shapes, priors)
    return float(value), onp.concatenate([slope, eps_bar.ravel()])


# book/roads/likelihood.ipynb, cell likelihood-30
def class_log_probs(theta, X, nodes):
    """ln p(y = c | x_n, Theta) of every class, nats.  [eq-lik, eq-lik-nodes]

    theta Theta, X (n,d), nodes Nodes -> (n,L); plain numpy in blocks of rows
    """
    theta = Theta(*(onp.asarray(part, dtype=float) for part in theta))
    X, _, z, w = check_data(X, None, theta_shapes(theta), nodes)
    W, spreads = mean_maps(theta), spread_maps(theta) @ z.T
    J, K, Q = spreads.shape
    log_gate = gate_terms(theta.beta0 @ pad(X).T)[0]
    out, step = onp.empty((len(X), J + 1)), max(1, 20_000 // (K * Q))
    for start in range(0, len(X), step):
        block = slice(start, start + step)
        log_f = onp.empty((J + 1, K, len(X[block])))
        reach, shift = 1.0, 0.0
        means = W @ pad(X[block]).T
        fits = J * max(abs(means).max() + abs(spreads).max(), 0) < 600
        for j in range(J):
            T = means[j, :, :, None] + spreads[j, :, None]
            if fits:
                stop = onp.exp(onp.negative(T, out=T), out=T)
                go = 1 / (1 + stop)
                log_f[j] = onp.log((reach * go) @ w)
                reach = reach * onp.multiply(stop, go, out=go)
                if j == J - 1:
                    log_f[J] = onp.log(reach @ w)
            else:
                log_go = -onp.logaddexp(0, -T)
                log_f[j] = logsumexp(shift + log_go + onp.log(w), -1)
                shift = shift + log_go - T
                if j == J - 1:
                    log_f[J] = logsumexp(shift + onp.log(w), -1)
        out[block] = logsumexp(log_gate[:, block] + log_f, axis=1).T
    return out
