# Tangled from book/network/cavi.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Coordinate ascent: the whole algorithm

Seven closed-form updates, in any order that reads current values, never lower the bound. And they
need nothing from the data but sums.
"""

__all__ = ["output_update", "UPDATES", "sweep", "local_factors", "class_code", "cluster_labels",
           "soften", "code_experts", "code_gate", "init_parameters", "init_state", "mstep",
           "expected_log_joint", "block_size", "make_blocks", "block_sweep", "expand", "Fit",
           "fit"]


# book/network/cavi.ipynb, cell cavi-02
import warnings
from dataclasses import dataclass, field
from numbers import Integral, Real

import numpy as np
from scipy.cluster.vq import kmeans2

from cmn_literate.network.elbo import global_kl
from cmn_literate.ideas.expfam import padded_second_moment, second_moment, spd_inverse
from cmn_literate.network.experts import (
    expert_update, experts_from_inverse, experts_from_sums, unpack_symmetric,
    weighted_gram)
from cmn_literate.network.gate import gate_tilt, gate_update
from cmn_literate.network.latents import (
    Parameters, State, add_sums, estep, latent_update, make_rows, output_tilt,
    parameters_of, per_component, prepare, responsibilities, row_scores)
from cmn_literate.ideas.logistic import (
    coefficients_from_inverse, coefficients_from_sums)
from cmn_literate.ideas.polya_gamma import pg_mean
from cmn_literate.network.simulate import Priors
from cmn_literate.checks import check_count, check_X, check_y
from cmn_literate.ideas.expfam import pad
from cmn_literate.ideas.stick_breaking import stick_counts


# book/network/cavi.ipynb, cell cavi-06
def output_update(y, gamma, mu, Sigma, xi1, priors):
    """q(beta_1) given q(x1, z) and q(omega_1).  [eq-beta1]

    y (N,) in 0..L-1, gamma (N,K), mu (N,K,h), Sigma (N,K,h,h),
    xi1 (N,K,L-1) or shared (N,L-1)
    -> beta1_mu (L-1,h+1), beta1_S (L-1,h+1,h+1) covariances
    """
    b, kappa = (table[y] for table in stick_counts(np.eye(xi1.shape[-1] + 1)))
    omega = per_component(pg_mean(1.0, xi1))
    weight = gamma[:, :, None] * b[:, None, :] * omega
    moments = padded_second_moment(mu, Sigma)
    gram = np.tensordot(weight, moments, axes=((0, 1), (0, 1)))
    mean1 = np.einsum("nk,nki->ni", gamma, mu)
    linear = kappa.T @ np.concatenate([mean1, gamma.sum(1, keepdims=True)], 1)
    return coefficients_from_sums(gram, linear, priors.sigma1)[:2]


# book/network/cavi.ipynb, cell cavi-10
def _x(s, X, y, priors):
    """q(x1|z).  [eq-latent-x]"""
    mu, Sigma = latent_update(X, y, parameters_of(s), s.xi1)
    return s._replace(mu=mu, Sigma=Sigma)


def _omega1(s, X, y, priors):
    """q(omega_1|z), or q(omega_1) if xi1 is (N,L-1).  [eq-output-tilt]"""
    shared = s.gamma if s.xi1.ndim == 2 else None
    tilt = output_tilt(s.mu, s.Sigma, s.beta1_mu, s.beta1_S, shared)
    return s._replace(xi1=tilt)


def _omega0(s, X, y, priors):
    """q(omega_0|z).  [eq-gate-tilt]"""
    return s._replace(xi0=gate_tilt(X, s.beta0_mu, s.beta0_S))


def _z(s, X, y, priors):
    """q(z).  [eq-row-gamma]"""
    return s._replace(gamma=responsibilities(row_scores(s, X, y))[0])


# book/network/cavi.ipynb, cell cavi-12
def _beta1(s, X, y, priors):
    """q(beta_1).  [eq-beta1]"""
    mu, S = output_update(y, s.gamma, s.mu, s.Sigma, s.xi1, priors)
    return s._replace(beta1_mu=mu, beta1_S=S)


def _beta0(s, X, y, priors):
    """q(beta_0).  [eq-gate-S, eq-gate-mu]"""
    mu, S = gate_update(X, s.gamma, s.xi0, priors)
    return s._replace(beta0_mu=mu, beta0_S=S)


def _experts(s, X, y, priors):
    """q(A, tau).  [eq-expert-update]"""
    M, V, a, b = expert_update(X, s.gamma, s.mu, s.Sigma, priors)
    return s._replace(M=M, V=V, a=a, b=b)


# f(state, X, y, priors) -> State with that one factor replaced by its best
UPDATES = {"x": _x, "omega1": _omega1, "omega0": _omega0, "z": _z,
           "beta1": _beta1, "beta0": _beta0, "experts": _experts}


# book/network/cavi.ipynb, cell cavi-22
def sweep(state, X, y, priors, inner=1):
    """One canonical sweep over all seven factors.  [eq-sweep]

    state State, X (N,d), y (N,), inner >= 1 rounds of (x, omega1) -> State
    """
    first = ("x", "omega1")
    for name in first * inner + ("omega0", "z", "beta1", "beta0", "experts"):
        state = UPDATES[name](state, X, y, priors)
    return state


# book/network/cavi.ipynb, cell cavi-25
def _prior_start(K, h, L, D, priors, rng):
    """Every global factor at its prior."""
    def eye(count, size, scale):
        return np.tile(scale * np.eye(size), (count, 1, 1))
    return Parameters(
        np.zeros((L - 1, h + 1)), eye(L - 1, h + 1, priors.sigma1**2),
        np.zeros((K - 1, D)), eye(K - 1, D, priors.sigma0**2),
        np.zeros((K, h, D)), eye(K, D, priors.v0),
        np.full(K, priors.a0), np.full((K, h), priors.b0))


def _random_start(K, h, L, D, priors, rng, scale=3.0, variance=0.01):
    """Means N(0, scale^2), narrow covariances, the prior's noise."""
    p = _prior_start(K, h, L, D, priors, rng)
    means = {f: scale * rng.normal(size=getattr(p, f).shape)
             for f in ("beta1_mu", "beta0_mu", "M")}
    spreads = {f: np.zeros_like(getattr(p, f)) + variance * np.eye(size)
               for f, size in (("beta1_S", h + 1), ("beta0_S", D), ("V", D))}
    return p._replace(**means, **spreads)


# book/network/cavi.ipynb, cell cavi-27
def local_factors(parameters, X, y, shared=False, rounds=1000, tol=1e-12):
    """Complete State of labelled rows under given global factors.
    [eq-latent-x, eq-output-tilt, eq-row-gamma]

    From xi1 = 0 and uniform gamma repeats x, omega1 (and z if omega1 is shared)
    until xi1 moves by less than tol, at most rounds times, then z.
    rounds=0: that start with x and omega0 only, as a fit's first sweep sees it.
    X (N,d), y (N,) in 0..L-1 -> State
    """
    p, N = parameters, len(X)
    (K, h, _), J = p.M.shape, len(p.beta1_mu)
    state = State(*p, np.full((N, K), 1.0 / K), np.zeros((N, K, h)),
                  np.zeros((N, K, h, h)),
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


# book/network/cavi.ipynb, cell cavi-34
def class_code(n_classes, latent_dim, scale=3.0):
    """Latent targets and output weights of the class-code start.  [eq-class-code]

    -> code (L,h), weights (L-1,h): the logits they ask for are code @ weights.T,
       +scale for stick y, -scale for sticks before y, 0 after.
    h > L-1: the further latents get target 0.  h < L-1: best rank-h version (SVD).
    """
    L, h = n_classes, latent_dim
    full = scale * (np.eye(L) - np.triu(np.ones((L, L)), 1).T)[:, :L - 1]
    if h >= L - 1:
        return np.pad(full, ((0, 0), (0, h - L + 1))), np.eye(L - 1, h)
    U, s, Wt = np.linalg.svd(full, full_matrices=False)
    return U[:, :h] * s[:h], Wt[:h].T


# book/network/cavi.ipynb, cell cavi-37
def cluster_labels(X, n_experts, rng):
    """k-means cluster of every row, the largest first.  [eq-class-prior]

    X (N,d), rng Generator -> (N,) in 0..K-1.  Columns are divided by their
    deviation first, so units do not matter; constant columns count for nothing.
    """
    spread = X.std(axis=0)
    Z = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    if n_experts == 1 or len(X) < 2:
        return np.zeros(len(X), int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")                 # an empty cluster is fine
        k = min(n_experts, len(X))
        label = kmeans2(Z, k, minit="++", rng=rng)[1]
    order = np.argsort(-np.bincount(label, minlength=n_experts), kind="stable")
    return np.argsort(order)[label]


def soften(label, n_experts, confidence=0.9):
    """Responsibilities (N,K): confidence on the labelled expert, the rest spread
    evenly over all experts.  [eq-row-gamma]"""
    return confidence * np.eye(n_experts)[label] + (1 - confidence) / n_experts


# book/network/cavi.ipynb, cell cavi-40
def code_experts(X, label, target, n_experts, priors, block_rows=512):
    """q(A, tau) as if x1 were its target, with weights soften(label).
    [eq-expert-update]   X (N,d), label (N,), target (N,h) -> M, V, a, b"""
    M = np.zeros((n_experts, target.shape[1], X.shape[1] + 1))
    for _ in range(2):                          # second pass: about the first M
        total = [0.0, 0.0, 0.0, 0.0]
        for s in range(0, len(X), block_rows):
            part = slice(s, s + block_rows)
            Xt, gamma = pad(X[part]), soften(label[part], n_experts)
            r = target[part, None, :] - np.einsum("kid,nd->nki", M, Xt)
            cross = np.einsum("nk,nki,nd->kid", gamma, r, Xt, optimize=True)
            squares = np.einsum("nk,nki->ki", gamma, r**2)
            sums = gamma.sum(0), weighted_gram(X[part], gamma), cross, squares
            total = [t + u for t, u in zip(total, sums)]
        factors, _ = experts_from_sums(*total, M, priors)
        M = factors[0]
    return factors


# book/network/cavi.ipynb, cell cavi-41
def code_gate(X, label, n_experts, priors, rounds=3, block_rows=512):
    """q(beta_0) after some (omega0, beta0) rounds with responsibilities
    soften(label).  [eq-gate-mu, eq-gate-S]   -> (K-1,D), (K-1,D,D)"""
    K, D = n_experts, X.shape[1] + 1
    mu, S = np.zeros((K - 1, D)), np.tile(np.eye(D), (K - 1, 1, 1))
    for _ in range(rounds):
        gram = linear = 0.0
        for s in range(0, len(X), block_rows):
            rows = X[s:s + block_rows]
            b, kappa = stick_counts(soften(label[s:s + block_rows], K))
            omega = b * pg_mean(1.0, gate_tilt(rows, mu, S))
            gram = gram + weighted_gram(rows, omega)
            linear = linear + kappa.T @ pad(rows)
        mu, S, _ = coefficients_from_sums(gram, linear, priors.sigma0)
    return mu, S


# book/network/cavi.ipynb, cell cavi-44
def init_parameters(X, y, n_experts, latent_dim, n_classes, priors, rng,
                    method="class-code"):
    """Global factors to start from.  [eq-class-code]

    method  "class-code": targets by class, k-means regions
            "random": means of standard deviation 3, narrow covariances
            "prior": the saddle, for study
    rng Generator -> Parameters.   ValueError for any other method.
    """
    K, h, L, D = n_experts, latent_dim, n_classes, X.shape[1] + 1
    if method in ("prior", "random"):
        start = _prior_start if method == "prior" else _random_start
        return start(K, h, L, D, priors, rng)
    if method != "class-code":
        expected = '"class-code", "random" or "prior"'
        raise ValueError(f"method: expected {expected}, got {method!r}")
    code, weights = class_code(L, h)
    label = cluster_labels(X, K, rng)
    target = code[y] + 0.1 * rng.normal(size=(len(X), h))  # off the saddle
    beta1_S = np.tile(0.01 * np.eye(h + 1), (L - 1, 1, 1))
    return Parameters(np.pad(weights, ((0, 0), (0, 1))), beta1_S,
                      *code_gate(X, label, K, priors),
                      *code_experts(X, label, target, K, priors))


# book/network/cavi.ipynb, cell cavi-45
def init_state(X, y, n_experts, latent_dim, n_classes, priors, rng,
               method="class-code", shared=False):
    """Complete starting State: init_parameters, then x and omega0 with xi1 = 0 and
    uniform gamma.  [eq-latent-x, eq-gate-tilt]   rng int or Generator"""
    parameters = init_parameters(X, y, n_experts, latent_dim, n_classes, priors,
                                 np.random.default_rng(rng), method)
    return local_factors(parameters, X, y, shared, rounds=0)


# book/network/cavi.ipynb, cell cavi-56
def mstep(sums, parameters, priors):
    """New global factors from summed statistics.
    [eq-beta1, eq-gate-mu, eq-gate-S, eq-expert-sums, eq-mstep-bound]

    sums Sums of all rows; parameters: those that the E-step used, the residuals'
    reference -> Parameters, sum of the log normalisers of their factors (nats)
    """
    K, h, D = parameters.M.shape
    P = unpack_symmetric(np.concatenate([sums.gram, sums.gate_gram]), D)
    P.reshape(-1, D * D)[:K, ::D + 1] += 1 / priors.v0
    P.reshape(-1, D * D)[K:, ::D + 1] += 1 / priors.sigma0**2
    V, log_det_P = spd_inverse(P)               # of experts and gate in one call
    experts, z_experts = experts_from_inverse(
        sums.n_k, V[:K], log_det_P[:K], sums.cross, sums.squares, parameters.M, priors)
    *beta0, z0 = coefficients_from_inverse(
        V[K:], log_det_P[K:], sums.gate_linear, priors.sigma0)
    P = unpack_symmetric(sums.output_gram, h + 1)
    P.reshape(len(P), -1)[:, ::h + 2] += 1 / priors.sigma1**2
    *beta1, z1 = coefficients_from_inverse(
        *spd_inverse(P), sums.output_linear, priors.sigma1)
    log_normaliser = z_experts.sum() + z1.sum() + z0.sum()
    return Parameters(*beta1, *beta0, *experts), log_normaliser


# book/network/cavi.ipynb, cell cavi-58
def expected_log_joint(sums, prep):
    """J: the part of sums.bound that depends on the global factors (nats).
    [eq-joint-sums]   sums Sums of an E-step with prep, Prepared -> float"""
    s, p, K, dot = sums, prep, len(sums.n_k), np.vdot         # dot sums products
    linear = dot(s.output_linear, p.beta1_mu) + dot(s.gram, p.forms[:K])
    square = dot(s.output_gram, p.square) + dot(s.gate_gram, p.forms[K:])
    return linear - 2 * square - dot(s.squares, p.half_tau) - dot(s.n_k, p.constants)


# book/network/cavi.ipynb, cell cavi-60
def block_size(n_rows, D, K, h, J, budget=1 << 19):
    """Rows per block so that its working set, about 8 * budget bytes, stays in the
    cache.  [eq-block-sums]"""
    per_row = K * (h * h + h * (h + 1) // 2 + 4 * h + 3 * J + 6) + D * (D + 1) // 2
    largest = max(budget // per_row, 16)
    n_blocks = max(-(-n_rows // largest), 1)
    return max(-(-n_rows // n_blocks), 1)                       # blocks of one size


def make_blocks(X, y, n_experts, latent_dim, n_classes, shared=False):
    """Cut the rows of a fit into cache-sized blocks.  [eq-block-sums]

    -> list of (Rows, omega (J,K,B), None, None);
       shared: list of (Rows, omega (J,1,B), gamma (K,B), None)
    omega = E[omega_1] starts at b/4, which is xi1 = 0; gamma at 1/K.
    The last entry is for block_sweep, which notes there how far it has come.
    """
    np.empty(1 << 19)           # freed untouched: glibc now keeps scratch memory
    K, J = n_experts, n_classes - 1
    size = block_size(len(X), X.shape[1] + 1, K, latent_dim, J)
    blocks = []
    for s in range(0, len(X), size):
        rows = make_rows(X[s:s + size], y[s:s + size], n_classes, size == len(X))
        omega = np.repeat(0.25 * rows.b[:, None, :], 1 if shared else K, axis=1)
        gamma = np.full((K, rows.b.shape[1]), 1.0 / K) if shared else None
        blocks.append((rows, omega, gamma, None))
    return blocks


# book/network/cavi.ipynb, cell cavi-61
def _block_sums(blocks, parameters, prep, inner):
    """Sums of all blocks.  Goes on behind the last block that carries a note
    (parameters, sums so far) with these very parameters."""
    done = [i for i, (*_, note) in enumerate(blocks) if note and note[0] is parameters]
    first = done[-1] + 1 if done else 0
    total = blocks[first - 1][3][1] if first else None
    for i in range(first, len(blocks)):
        rows, omega, gamma, _ = blocks[i]
        sums, omega, fresh = estep(prep, rows, omega, inner, gamma)
        total = sums if total is None else add_sums(total, sums)
        gamma = None if gamma is None else fresh
        blocks[i] = rows, omega, gamma, (parameters, total)
        if i:
            blocks[i - 1] = *blocks[i - 1][:3], None
    return total


def block_sweep(blocks, parameters, priors, inner=1):
    """One canonical sweep over blocks.  [eq-sweep, eq-mstep-bound]

    Renews the list blocks in place.  If it is interrupted, a second call with the
    same parameters finishes that sweep.
    -> Parameters, bound after the M-step (nats)
    """
    prep = prepare(parameters)
    with np.errstate():
        np.setbufsize(16)
        total = _block_sums(blocks, parameters, prep, inner)
    after, log_normaliser = mstep(total, parameters, priors)
    return after, total.bound - expected_log_joint(total, prep) + log_normaliser


# book/network/cavi.ipynb, cell cavi-67
def expand(parameters, priors):
    """Best rescaling and shift of the latent axes, x1_i -> s_i x1_i + c_i.
    [eq-expand-map, eq-expand-scale, eq-expand-shift]

    Data terms of the bound and xi1 stay, the divergences fall.   -> Parameters
    """
    p = parameters
    (K, h, _), J = p.M.shape, len(p.beta1_mu)
    second = second_moment(p.beta1_mu, p.beta1_S).sum(0)
    weights = np.diagonal(second)[:h] / priors.sigma1**2
    pull = weights + 2 * priors.b0 * (p.a[:, None] / p.b).sum(0)
    s = np.sqrt(pull / (J + 2 * K * priors.a0))
    scale = np.append(1 / s, 1.0)
    second = second * np.outer(scale, scale)
    M, b = p.M * s[:, None], p.b * s**2
    tau = p.a[:, None] / b
    lhs = second[:h, :h] / priors.sigma1**2 + np.diag(tau.sum(0)) / priors.v0
    c = np.linalg.solve(lhs, second[:h, h] / priors.sigma1**2
                        - (tau * M[:, :, -1]).sum(0) / priors.v0)
    M[:, :, -1] += c
    T = np.diag(scale)
    T[h, :h] = -c / s
    beta1_mu, beta1_S = p.beta1_mu @ T.T, T @ p.beta1_S @ T.T
    return p._replace(beta1_mu=beta1_mu, beta1_S=beta1_S, M=M, b=b)


# book/network/cavi.ipynb, cell cavi-71
@dataclass(frozen=True)
class Fit:
    """Result of fit.  [eq-stop]

    parameters  the global factors
    elbo (n_sweeps,) complete bound after each sweep (nats); n_sweeps
    converged   whether the last sweep gained less than tol nats per row
    n_classes, priors, shared (omega_1 shared by the experts)
    resume      what fit(start=...) needs to go on exactly: the blocks of rows
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
        """Complete State of labelled rows under the fitted parameters: their local
        factors at the optimum (see local_factors).  X (n,d), y (n,)"""
        X = check_X(X, n_features=self.parameters.M.shape[-1] - 1)
        y = check_y(y, len(X), self.n_classes)
        return local_factors(self.parameters, X, y, self.shared, rounds, tol)


# book/network/cavi.ipynb, cell cavi-73
def _check_problem(X, y, n_experts, latent_dim, n_classes):
    """Arguments that describe the model, checked.   -> X, y, (K, h, L)"""
    X = check_X(X)
    if len(X) < 1:
        raise ValueError("X: expected at least one row, got none")
    if n_classes is None:
        L = int(check_y(y, len(X)).max()) + 1
    else:
        L = check_count(n_classes, "n_classes", 2)
    y = check_y(y, len(X), L)
    if L < 2:
        raise ValueError("y: expected at least two classes, got one "
                         "(give n_classes to fit a model with unseen classes)")
    h = L - 1 if latent_dim is None else check_count(latent_dim, "latent_dim")
    return X, y, (check_count(n_experts, "n_experts"), h, L)


# book/network/cavi.ipynb, cell cavi-74
def _check_options(priors, rng, init, max_sweeps, tol, inner, omega1, accelerate,
                   callback):
    """Arguments that say how to run, checked."""
    if not isinstance(priors, Priors):
        raise ValueError(f"priors: expected Priors, got {priors!r}")
    whole = isinstance(rng, Integral) and not isinstance(rng, bool) and rng >= 0
    if not whole and not isinstance(rng, np.random.Generator):
        raise ValueError(f"rng: expected a seed >= 0 or a Generator, got {rng!r}")
    if not isinstance(tol, Real) or isinstance(tol, bool) or np.isnan(tol):
        raise ValueError(f"tol: expected a number (nats per row), got {tol!r}")
    choices = {"init": (init, ("class-code", "random", "prior")),
               "omega1": (omega1, ("per-component", "shared"))}
    for name, (value, known) in choices.items():
        if value not in known:
            raise ValueError(f"{name}: expected one of {known}, got {value!r}")
    if not isinstance(accelerate, (bool, np.bool_)):
        raise ValueError(f"accelerate: expected True or False, got {accelerate!r}")
    if callback is not None and not callable(callback):
        raise ValueError(f"callback: expected a function, got {callback!r}")
    check_count(inner, "inner")
    check_count(max_sweeps, "max_sweeps")


# book/network/cavi.ipynb, cell cavi-75
def _check_start(start, X, y, sizes, priors, shared):
    """start must be a Fit of the same model to the same rows."""
    if not isinstance(start, Fit):
        raise ValueError(f"start: expected a Fit, got {type(start).__name__}")
    had = start.parameters.M.shape[:2] + (start.n_classes,)
    if (*had, start.shared, start.priors) != (*sizes, shared, priors):
        raise ValueError("start: expected a fit of the same model, got one with "
                         f"n_experts, latent_dim, n_classes = {had}, "
                         f"shared = {start.shared}, {start.priors}")
    first = 0
    for block in start.resume:
        last = first + block[0].XtT.shape[1]
        rows = make_rows(X[first:last], y[first:last], sizes[2])
        if not all(map(np.array_equal, rows[:3], block[0][:3])):
            break
        first = last
    if not start.resume or first != len(X):
        raise ValueError("start: expected a fit of these rows, got other rows")


# book/network/cavi.ipynb, cell cavi-77
def _begin(X, y, sizes, priors, rng, init, shared, start):
    """Parameters, blocks, trace and converged to go on from."""
    if start is None:
        rng = np.random.default_rng(rng)
        parameters = init_parameters(X, y, *sizes, priors, rng, init)
        return parameters, make_blocks(X, y, *sizes, shared), [], False
    _check_start(start, X, y, sizes, priors, shared)
    return start.parameters, list(start.resume), list(start.elbo), start.converged


# book/network/cavi.ipynb, cell cavi-78
def fit(X, y, n_experts=10, latent_dim=None, n_classes=None,
        priors=Priors(),  # noqa: B008  Priors are frozen
        rng=0, init="class-code", max_sweeps=500, tol=1e-6, inner=1,
        omega1="per-component", accelerate=False, start=None, callback=None):
    """CAVI for the conditional mixture network.
    [eq-sweep, eq-mstep-bound, eq-stop]

    X (N,d) finite, y (N,) in 0..L-1   standardise X first: the priors have a scale
    n_experts, latent_dim (L-1), n_classes (largest label + 1), priors
    rng         int or Generator, for the start;   init as in init_parameters
    max_sweeps, tol   stop after so many sweeps, or at a gain < tol nats per row
    inner       rounds of (x, omega1) per sweep
    omega1      "per-component" or "shared"
    accelerate  move the latent axes after each M-step (expand)
    start       a Fit of the same rows to go on from; its sweeps count
    callback(n_sweeps, elbo)  called after each sweep
    -> Fit.  Ctrl-C ends it after the last whole sweep, with a warning.
    ValueError names a bad argument.
    """
    _check_options(priors, rng, init, max_sweeps, tol, inner, omega1, accelerate,
                   callback)
    X, y, sizes = _check_problem(X, y, n_experts, latent_dim, n_classes)
    shared = omega1 == "shared"
    parameters, blocks, trace, converged = _begin(
        X, y, sizes, priors, rng, init, shared, start)
    run = parameters, len(trace), converged
    try:
        while len(trace) < max_sweeps:
            after, bound = block_sweep(blocks, run[0], priors, inner)
            if accelerate:
                bound += sum(global_kl(after, priors).values())
                after = expand(after, priors)
                bound -= sum(global_kl(after, priors).values())
            converged = bool(trace and bound - trace[-1] < tol * len(X))
            trace.append(float(bound))
            run = after, len(trace), converged
            if callback is not None:
                callback(len(trace), trace[-1])
            if converged:
                break
    except KeyboardInterrupt:
        warnings.warn(f"interrupted: this is the fit after {run[1]} whole sweeps",
                      stacklevel=2)
    parameters, n, converged = run
    return Fit(parameters, np.array(trace[:n]), n, converged, sizes[2], priors,
               shared, tuple(blocks))
