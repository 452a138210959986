# Tangled from book/network/cavi.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Coordinate ascent

Seven closed-form updates, in any order, never lower the bound.
"""

__all__ = ["output_update", "UPDATES", "sweep", "mstep", "expected_log_joint", "class_code",
           "cluster_labels", "soften", "code_experts", "code_gate", "init_parameters",
           "local_factors", "init_state", "expand", "block_size", "make_blocks", "block_sweep",
           "Fit", "fit"]


# book/network/cavi.ipynb, cell cavi-02
import warnings
from dataclasses import dataclass, field
import numpy as np
from scipy.cluster.vq import kmeans2
from scipy.special import digamma
from cmn_literate.elbo import global_kl
from cmn_literate.expfam import second_moment
from cmn_literate.experts import expert_update, experts_from_sums, unpack_symmetric, weighted_gram
from cmn_literate.gate import gate_tilt, gate_update
from cmn_literate.latents import (Parameters, State, add_sums, estep, latent_update, output_logits, output_tilt,
                                  make_rows, parameters_of, per_component, prepare, responsibilities, row_scores)
from cmn_literate.multinomial_regression import coefficients_from_sums
from cmn_literate.polya_gamma import pg_mean
from cmn_literate.expfam import padded_second_moment
from cmn_literate.simulate import Priors, check_X, check_count, check_y, pad
from cmn_literate.stick_breaking import stick_counts


# book/network/cavi.ipynb, cell cavi-03
def output_update(y, gamma, mu, Sigma, xi1, priors):
    """q(beta_1) given q(x1, z) and q(omega_1).    -> beta1_mu (L-1,h+1), beta1_S (L-1,h+1,h+1)"""
    b, kappa = (table[y] for table in stick_counts(np.eye(xi1.shape[-1] + 1)))
    weight = gamma[:, :, None] * b[:, None, :] * per_component(pg_mean(1.0, xi1))
    gram = np.tensordot(weight, padded_second_moment(mu, Sigma), axes=((0, 1), (0, 1)))
    mean1 = np.einsum("nk,nki->ni", gamma, mu)
    linear = kappa.T @ np.concatenate([mean1, gamma.sum(1, keepdims=True)], 1)
    return coefficients_from_sums(gram, linear, priors.sigma1)[:2]


# book/network/cavi.ipynb, cell cavi-04
def _x(s, X, y, priors):
    mu, Sigma = latent_update(X, y, parameters_of(s), s.xi1)
    return s._replace(mu=mu, Sigma=Sigma)


# book/network/cavi.ipynb, cell cavi-05
def _omega1(s, X, y, priors):
    shared = s.gamma if s.xi1.ndim == 2 else None
    return s._replace(xi1=output_tilt(s.mu, s.Sigma, s.beta1_mu, s.beta1_S, shared))


# book/network/cavi.ipynb, cell cavi-06
def _omega0(s, X, y, priors):
    return s._replace(xi0=gate_tilt(X, s.beta0_mu, s.beta0_S))


# book/network/cavi.ipynb, cell cavi-07
def _z(s, X, y, priors):
    return s._replace(gamma=responsibilities(row_scores(s, X, y))[0])


# book/network/cavi.ipynb, cell cavi-08
def _beta1(s, X, y, priors):
    mu, S = output_update(y, s.gamma, s.mu, s.Sigma, s.xi1, priors)
    return s._replace(beta1_mu=mu, beta1_S=S)


# book/network/cavi.ipynb, cell cavi-09
def _beta0(s, X, y, priors):
    mu, S = gate_update(X, s.gamma, s.xi0, priors)
    return s._replace(beta0_mu=mu, beta0_S=S)


# book/network/cavi.ipynb, cell cavi-10
def _experts(s, X, y, priors):
    M, V, a, b = expert_update(X, s.gamma, s.mu, s.Sigma, priors)
    return s._replace(M=M, V=V, a=a, b=b)


# book/network/cavi.ipynb, cell cavi-11
UPDATES = {"x": _x, "omega1": _omega1, "omega0": _omega0, "z": _z, "beta1": _beta1, "beta0": _beta0, "experts": _experts}


# book/network/cavi.ipynb, cell cavi-12
def sweep(state, X, y, priors, inner=1):
    """One canonical sweep."""
    for name in ("x", "omega1") * inner + ("omega0", "z", "beta1", "beta0", "experts"):
        state = UPDATES[name](state, X, y, priors)
    return state


# book/network/cavi.ipynb, cell cavi-13
def mstep(sums, parameters, priors):
    """New global factors from summed statistics, and the sum of their log normalisers.

    parameters: the ones that the E-step used (reference of the residuals).
    """
    K, h, D = parameters.M.shape
    experts, z_experts = experts_from_sums(sums.n_k, unpack_symmetric(sums.gram, D), sums.cross, sums.squares, parameters.M, priors)
    *beta1, z1 = coefficients_from_sums(unpack_symmetric(sums.output_gram, h + 1), sums.output_linear, priors.sigma1)
    *beta0, z0 = coefficients_from_sums(unpack_symmetric(sums.gate_gram, D), sums.gate_linear, priors.sigma0)
    return Parameters(*beta1, *beta0, *experts), z_experts.sum() + z1.sum() + z0.sum()


# book/network/cavi.ipynb, cell cavi-14
def expected_log_joint(sums, prep):
    """The part of sums.bound that depends on the global factors: linear in the sums."""
    p, h = prep, prep.tau.shape[0]
    output = np.sum(sums.output_linear * p.beta1_mu) - 0.5 * np.sum(sums.output_gram * p.square)
    gate = np.sum(sums.gate_linear * p.gate_mean) - 0.5 * np.sum(sums.gate_gram * p.gate_square)
    scale = np.sum(sums.n_k * (p.log_scale[:, 0] - 0.5 * h)) - 0.5 * np.sum(p.tau[:, :, 0].T * sums.squares)
    return output + gate + scale - 0.5 * h * np.sum(sums.gram * p.spread)


# book/network/cavi.ipynb, cell cavi-15
def class_code(n_classes, latent_dim, scale=3.0):
    """Latent targets and output weights of the class-code start.   -> code (L, h), weights (L-1, h)

    Column l of the full code is +scale for class l, -scale for later classes, 0 for earlier ones, so that
    output stick l reads latent l.  h > L-1: unused latents get 0.  h < L-1: the best rank-h code (SVD).
    """
    L, h = n_classes, latent_dim
    full = scale * (np.eye(L) - np.triu(np.ones((L, L)), 1).T)[:, :L - 1]
    if h >= L - 1:
        return np.pad(full, ((0, 0), (0, h - L + 1))), np.eye(L - 1, h)
    U, s, Wt = np.linalg.svd(full, full_matrices=False)
    return U[:, :h] * s[:h], Wt[:h].T


# book/network/cavi.ipynb, cell cavi-16
def cluster_labels(X, n_experts, rng):
    """k-means cluster of every row, the largest cluster first.   X (N,d) -> (N,) in 0..K-1

    Scaled by its columns' spread first, so that units do not decide; constant columns count for nothing.
    """
    spread = X.std(axis=0)
    Z = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    if n_experts == 1 or len(X) < 2:
        return np.zeros(len(X), int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")                     # an empty cluster is fine here
        label = kmeans2(Z, min(n_experts, len(X)), minit="++", rng=rng)[1]
    return np.argsort(np.argsort(-np.bincount(label, minlength=n_experts), kind="stable"))[label]


# book/network/cavi.ipynb, cell cavi-17
def soften(label, n_experts, confidence=0.9):
    """Responsibilities (N, K): confidence on the labelled expert, the rest spread evenly over all."""
    return confidence * np.eye(n_experts)[label] + (1 - confidence) / n_experts


# book/network/cavi.ipynb, cell cavi-18
def code_experts(X, label, target, n_experts, priors, block_rows=512):
    """q(A, tau) as if x1 were the code of its class: target (N,h), experts weighted by soften(label)."""
    M = np.zeros((n_experts, target.shape[1], X.shape[1] + 1))
    for _ in range(2):                                      # the second pass takes residuals about the first M
        total = [0.0, 0.0, 0.0, 0.0]
        for s in range(0, len(X), block_rows):
            Xt, gamma = pad(X[s:s + block_rows]), soften(label[s:s + block_rows], n_experts)
            r = target[s:s + block_rows, None, :] - np.einsum("kid,nd->nki", M, Xt)
            part = (gamma.sum(0), weighted_gram(X[s:s + block_rows], gamma),
                    np.einsum("nk,nki,nd->kid", gamma, r, Xt, optimize=True), np.einsum("nk,nki->ki", gamma, r**2))
            total = [t + p for t, p in zip(total, part)]
        factors, _ = experts_from_sums(*total, M, priors)
        M = factors[0]
    return factors


# book/network/cavi.ipynb, cell cavi-19
def code_gate(X, label, n_experts, priors, rounds=3, block_rows=512):
    """q(beta_0) after a few (omega0, beta0) rounds with responsibilities soften(label)."""
    K, D = n_experts, X.shape[1] + 1
    mu, S = np.zeros((K - 1, D)), np.tile(np.eye(D), (K - 1, 1, 1))
    for _ in range(rounds):
        gram = linear = 0.0
        for s in range(0, len(X), block_rows):
            rows = X[s:s + block_rows]
            b, kappa = stick_counts(soften(label[s:s + block_rows], K))
            gram = gram + weighted_gram(rows, b * pg_mean(1.0, gate_tilt(rows, mu, S)))
            linear = linear + kappa.T @ pad(rows)
        mu, S, _ = coefficients_from_sums(gram, linear, priors.sigma0)
    return mu, S


# book/network/cavi.ipynb, cell cavi-20
def init_parameters(X, y, n_experts, latent_dim, n_classes, priors, rng, method="class-code"):
    """Global factors to start from.  method "class-code", "random" or "prior" (the saddle, for study)."""
    K, h, L, D = n_experts, latent_dim, n_classes, X.shape[1] + 1
    eye = lambda count, size, scale: np.broadcast_to(scale * np.eye(size), (count, size, size)).copy()
    if method == "prior":
        return Parameters(
            np.zeros((L - 1, h + 1)), eye(L - 1, h + 1, priors.sigma1 ** 2), np.zeros((K - 1, D)), eye(K - 1, D, priors.sigma0 ** 2),
            np.zeros((K, h, D)), eye(K, D, priors.v0), np.full(K, priors.a0), np.full((K, h), priors.b0))
    if method == "random":
        return Parameters(
            3 * rng.normal(size=(L - 1, h + 1)), eye(L - 1, h + 1, 0.01), 3 * rng.normal(size=(K - 1, D)), eye(K - 1, D, 0.01),
            3 * rng.normal(size=(K, h, D)), eye(K, D, 0.01), np.full(K, priors.a0), np.full((K, h), priors.b0))
    if method != "class-code":
        raise ValueError(f'method: expected "class-code", "random" or "prior", got {method!r}')
    code, weights = class_code(L, h)
    label = cluster_labels(X, K, rng)
    target = code[y] + 0.1 * rng.normal(size=(len(X), h))   # so that unused latents are not stuck at zero
    beta1_mu = np.pad(weights, ((0, 0), (0, 1)))
    return Parameters(beta1_mu, eye(L - 1, h + 1, 0.01), *code_gate(X, label, K, priors), *code_experts(X, label, target, K, priors))


# book/network/cavi.ipynb, cell cavi-21
def local_factors(parameters, X, y, shared=False, rounds=1000, tol=1e-12):
    """Complete State of labelled rows under given global factors.

    Starts from xi1 = 0 and uniform gamma, and repeats x, omega1 (and z when omega1 is shared) until xi1 moves by less than tol.
    rounds=0 leaves that start untouched but for x and omega0: what the first sweep of a fit begins with.
    """
    p, N = parameters, len(X)
    K, h, J = p.M.shape[0], p.M.shape[1], len(p.beta1_mu)
    state = State(*p, np.full((N, K), 1.0 / K), np.zeros((N, K, h)), np.zeros((N, K, h, h)),
                  np.zeros((N, J) if shared else (N, K, J)), np.zeros((N, K - 1)))
    state = _omega0(_x(state, X, y, None), X, y, None)
    for _ in range(rounds):
        old, state = state.xi1, _omega1(state, X, y, None)
        state = _x(state, X, y, None)
        if shared:
            state = _z(state, X, y, None)
        if np.abs(state.xi1 - old).max(initial=0.0) < tol:
            break
    return _z(state, X, y, None) if rounds else state


# book/network/cavi.ipynb, cell cavi-22
def init_state(X, y, n_experts, latent_dim, n_classes, priors, rng, method="class-code", shared=False):
    """Complete starting State: init_parameters, then local factors with xi1 = 0 and uniform gamma."""
    parameters = init_parameters(X, y, n_experts, latent_dim, n_classes, priors, np.random.default_rng(rng), method)
    return local_factors(parameters, X, y, shared, rounds=0)


# book/network/cavi.ipynb, cell cavi-23
def expand(parameters, priors):
    """Best rescaling and shift of the latent axes: x1_i -> s_i x1_i + c_i leaves every data term unchanged, lowers the KLs."""
    p = parameters
    (K, h, D), J = p.M.shape, len(p.beta1_mu)
    second = (second_moment(p.beta1_mu, p.beta1_S)).sum(0)
    s = np.sqrt((np.diagonal(second)[:h] / priors.sigma1 ** 2 + 2 * priors.b0 * (p.a[:, None] / p.b).sum(0)) / (J + 2 * K * priors.a0))
    scale = np.append(1 / s, 1.0)
    second, M, b = second * np.outer(scale, scale), p.M * s[:, None], p.b * s ** 2
    tau = p.a[:, None] / b
    lhs = second[:h, :h] / priors.sigma1 ** 2 + np.diag(tau.sum(0)) / priors.v0
    c = np.linalg.solve(lhs, second[:h, h] / priors.sigma1 ** 2 - (tau * M[:, :, -1]).sum(0) / priors.v0)
    M[:, :, -1] += c
    T = np.diag(scale)
    T[h, :h] = -c / s
    return p._replace(beta1_mu=p.beta1_mu @ T.T, beta1_S=T @ p.beta1_S @ T.T, M=M, b=b)


# book/network/cavi.ipynb, cell cavi-24
def block_size(n_rows, D, K, h, J, budget=1 << 19):
    """Rows per block so that a block's working set (about 8 * budget bytes) stays in cache."""
    per_row = K * (h * h + h * (h + 1) // 2 + 4 * h + 3 * J + 6) + D * (D + 1) // 2
    return int(np.clip(budget // per_row, 16, max(n_rows, 16)))


# book/network/cavi.ipynb, cell cavi-25
def make_blocks(X, y, n_experts, latent_dim, n_classes, shared=False):
    """Rows of a fit cut into cache-sized blocks [Rows, omega (J,K or 1,B), gamma or None]; omega starts at b/4 (xi1 = 0)."""
    size = block_size(len(X), X.shape[1] + 1, n_experts, latent_dim, n_classes - 1)
    blocks = []
    for s in range(0, len(X), size):
        rows = make_rows(X[s:s + size], y[s:s + size], n_classes)
        omega = np.repeat(0.25 * rows.b[:, None, :], 1 if shared else n_experts, axis=1)
        blocks.append([rows, omega, np.full((n_experts, rows.b.shape[1]), 1.0 / n_experts) if shared else None])
    return blocks


# book/network/cavi.ipynb, cell cavi-26
def block_sweep(blocks, parameters, priors, inner=1):
    """One canonical sweep over blocks (their omega and gamma are renewed in place).   -> Parameters, ELBO after the M-step"""
    prep, total = prepare(parameters), None
    for block in blocks:
        rows, omega, gamma = block
        sums, block[1], renewed = estep(prep, rows, omega, inner, gamma)
        block[2] = None if gamma is None else renewed
        total = sums if total is None else add_sums(total, sums)
    after, log_normaliser = mstep(total, parameters, priors)
    return after, total.bound - expected_log_joint(total, prep) + log_normaliser


# book/network/cavi.ipynb, cell cavi-27
@dataclass(frozen=True)
class Fit:
    """Result of fit.

    parameters   the global factors; elbo (n_sweeps,) complete bound after each sweep; n_sweeps; converged (the gain per row fell below tol);
    n_classes; priors; shared (omega_1 shared over experts); resume: what fit(start=...) needs to go on exactly.
    """
    parameters: Parameters
    elbo: np.ndarray
    n_sweeps: int
    converged: bool
    n_classes: int
    priors: Priors
    shared: bool = False
    resume: tuple = field(default=(), repr=False)

    def state(self, X, y, rounds=1000, tol=1e-12):
        """Local factors of labelled rows under the fitted global factors, as a complete State."""
        X = check_X(X, n_features=self.parameters.M.shape[-1] - 1)
        return local_factors(self.parameters, X, check_y(y, len(X), self.n_classes), self.shared, rounds, tol)


# book/network/cavi.ipynb, cell cavi-28
def fit(X, y, n_experts=10, latent_dim=None, n_classes=None, priors=Priors(), rng=0, init="class-code", max_sweeps=500,
        tol=1e-6, inner=1, omega1="per-component", accelerate=False, start=None, callback=None):
    """CAVI for the conditional mixture network.

    X (N,d) finite, y (N,) 0-based; rng int or Generator; tol: ELBO gain per row and sweep below which the fit has converged;
    accelerate: rescale and shift the latent axes after each M-step (expand); start: an earlier Fit of the same rows to go on from;
    callback(n_sweeps, elbo) after each sweep.  Ctrl-C ends the fit at the last whole sweep with a warning.  -> Fit
    """
    X = check_X(X)
    if len(X) < 1:
        raise ValueError("X: expected at least one row, got none")
    L = int(check_y(y, len(X)).max()) + 1 if n_classes is None else check_count(n_classes, "n_classes", 2)
    y = check_y(y, len(X), L)
    if L < 2:
        raise ValueError("y: expected at least two classes, got one (give n_classes to fit a model with unseen classes)")
    K, h = check_count(n_experts, "n_experts"), L - 1 if latent_dim is None else check_count(latent_dim, "latent_dim")
    check_count(inner, "inner"), check_count(max_sweeps, "max_sweeps")
    if omega1 not in ("per-component", "shared"):
        raise ValueError(f'omega1: expected "per-component" or "shared", got {omega1!r}')
    if start is None:
        parameters = init_parameters(X, y, K, h, L, priors, np.random.default_rng(rng), init)
        blocks, trace = make_blocks(X, y, K, h, L, omega1 == "shared"), []
    else:
        parameters, blocks, trace = start.parameters, [list(block) for block in start.resume], list(start.elbo)
    converged = False
    try:
        while len(trace) < max_sweeps and not converged:
            after, bound = block_sweep(blocks, parameters, priors, inner)
            if accelerate:
                bound += sum(global_kl(after, priors).values())
                after = expand(after, priors)
                bound -= sum(global_kl(after, priors).values())
            parameters = after
            converged = bool(trace) and bound - trace[-1] < tol * len(X)
            trace.append(bound)
            if callback is not None:
                callback(len(trace), bound)
    except KeyboardInterrupt:
        warnings.warn(f"interrupted: returning the fit after {len(trace)} whole sweeps")
    return Fit(parameters, np.array(trace), len(trace), converged, L, priors, omega1 == "shared", tuple(blocks))
