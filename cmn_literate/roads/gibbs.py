# Tangled from book/roads/gibbs.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Gibbs: draws in the place of means

Put a draw wherever coordinate ascent puts an expectation, and the same closed forms sample the
exact posterior. Whether they really do can be tested without knowing the posterior, and the tests
are sharp enough to catch a forgotten prior or a missing half.
"""

__all__ = ["GibbsState", "draw_omega", "draw_gaussian", "draw_coefficients", "draw_experts",
           "label_parabola", "choice_scores", "draw_choice", "draw_latents", "draw_maps",
           "draw_axes", "complete_log_joint", "gibbs_sweep", "start_state", "SEGMENT", "Chain",
           "gibbs"]


# book/roads/gibbs.ipynb, cell gibbs-02
import copy
import os
import warnings
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from cmn_literate.checks import check_problem
from cmn_literate.engineering.sums import block_sweep, make_blocks
from cmn_literate.engineering.starts import init_parameters
from cmn_literate.storage import read_arrays, write_arrays
from cmn_literate.roads.diagnostics import PosteriorDraws
from cmn_literate.network.experts import experts_from_sums, weighted_gram
from cmn_literate.engineering.packed import spd_inverse_stacked
from cmn_literate.network.latents import responsibilities
from cmn_literate.engineering.coordinates import log_prior, pack, theta_shapes
from cmn_literate.ideas.logistic import coefficients_from_sums
from cmn_literate.checks import check_checkpoint, check_rng
from cmn_literate.storage import fingerprint
from cmn_literate.network.predict import sample_parameters
from cmn_literate.network.simulate import (
    Priors, Theta, sample_network, sample_theta)
from cmn_literate.checks import check_choice, check_count, check_kind
from cmn_literate.engineering.chains import (
    attend, in_step, run_chains, spawn, stack_chains, unstack_chains)
from cmn_literate.ideas.expfam import pad
from cmn_literate.ideas.stick_breaking import stick_counts, stick_log_probs


# book/roads/gibbs.ipynb, cell gibbs-05
class GibbsState(NamedTuple):
    """One value of all that is unknown.  [eq-full-joint]

    theta Theta; z (N,) experts 0..K-1; x1 (N,h) latent vectors;
    omega1 (N,L-1), omega0 (N,K-1)  Polya-Gamma variables of the coins at the
        output and at the gate, exactly 0 where a coin was not tossed
    """
    theta: Theta
    z: np.ndarray
    x1: np.ndarray
    omega1: np.ndarray
    omega0: np.ndarray


# book/roads/gibbs.ipynb, cell gibbs-07
def draw_omega(choice, inputs, beta, rng):
    """omega_j ~ PG(1, beta_j . x~) of every tossed coin.  [eq-gibbs-omega]

    choice (N,) where the walk stopped, 0..J; inputs (N,m) unpadded, beta (J,m+1)
    -> (N,J), exactly 0 for the coins j > choice.   Needs polyagamma.
    """
    try:
        from polyagamma import random_polyagamma
    except ImportError as error:
        raise ImportError("Gibbs sampling draws Polya-Gamma variables with the "
                          "package polyagamma: pip install polyagamma") from error
    psi = np.clip(pad(inputs) @ beta.T, -1e12, 1e12)     # beyond, it never returns
    tossed = np.arange(len(beta)) <= choice[:, None]
    omega = np.zeros(psi.shape)
    omega[tossed] = random_polyagamma(
        1.0, psi[tossed], method="alternate", random_state=rng,
        disable_checks=True)
    return omega


# book/roads/gibbs.ipynb, cell gibbs-11
@lru_cache(maxsize=64)
def _kappa(J):
    """kappa of every choice (J+1,J).  [eq-kappa]"""
    return stick_counts(np.eye(J + 1))[1]


def draw_gaussian(mu, S, rng):
    """mu + C epsilon with C C^T = S.  [eq-gibbs-beta]   mu (...,D), S (...,D,D)"""
    epsilon = rng.normal(size=mu.shape)
    return mu + (np.linalg.cholesky(S) @ epsilon[..., None])[..., 0]


def draw_coefficients(choice, inputs, omega, sigma, rng):
    """beta_j given the choices and the weights of their coins.  [eq-gibbs-beta]

    choice (N,) in 0..J, inputs (N,m) unpadded, omega (N,J), sigma > 0 -> (J,m+1)
    """
    gram = weighted_gram(inputs, omega)
    linear = _kappa(omega.shape[1])[choice].T @ pad(inputs)
    mu, S, _ = coefficients_from_sums(gram, linear, sigma)
    return draw_gaussian(mu, S, rng)


# book/roads/gibbs.ipynb, cell gibbs-16
def draw_experts(X, z, x1, reference, priors, rng):
    """A and tau of all experts given their rows.  [eq-gibbs-experts]

    X (N,d) unpadded, z (N,), x1 (N,h), reference (K,h,D): any A, best the current
    -> A (K,h,D), tau (K,h)
    """
    (K, h, D), Xt = reference.shape, pad(X)
    gamma = np.eye(K)[z]
    r = x1 - np.einsum("nid,nd->ni", reference[z], Xt)
    cross = (gamma[:, :, None] * r[:, None, :]).reshape(len(z), K * h).T @ Xt
    sums = (gamma.sum(0), weighted_gram(X, gamma), cross.reshape(K, h, D),
            gamma.T @ r**2)
    (M, V, a, b), _ = experts_from_sums(*sums, reference, priors)
    tau = np.maximum(rng.gamma(a[:, None], size=b.shape) / b, 1e-300)
    noise = rng.normal(size=M.shape) @ np.swapaxes(np.linalg.cholesky(V), 1, 2)
    return M + noise / np.sqrt(tau)[:, :, None], tau


# book/roads/gibbs.ipynb, cell gibbs-19
def label_parabola(y, beta1, omega1):
    """Curvature Q (N,h,h), pull p (N,h) of the label's term.  [eq-gibbs-parabola]

    y (N,) in 0..L-1, beta1 (L-1,h+1), omega1 (N,L-1)
    """
    W, bias, (J, h) = beta1[:, :-1], beta1[:, -1], beta1[:, :-1].shape
    kappa = _kappa(J)[y]
    Q = omega1 @ (W[:, :, None] * W[:, None, :]).reshape(J, h * h)
    return Q.reshape(len(y), h, h), (kappa - omega1 * bias) @ W


# book/roads/gibbs.ipynb, cell gibbs-21
def choice_scores(X, theta, Q, p):
    """ln p(z_n = k, y_n, omega_1n | Theta) up to a constant of the row, with x1
    and omega_0 integrated out.  [eq-gibbs-score]

    X (N,d) unpadded; Q (N,h,h), p (N,h) of label_parabola -> (N,K) nats
    """
    (K, h, _), Xt = theta.A.shape, pad(X)
    Q, p = Q.transpose(1, 2, 0), p.T[:, None]                # rows last
    tau = theta.tau.T[:, :, None]
    mean = np.einsum("kid,nd->ikn", theta.A, Xt)
    force = p - np.einsum("ijn,jkn->ikn", Q, mean)
    Lambda = np.repeat(Q[:, :, None], K, axis=2)
    for i in range(h):
        Lambda[i, i] += tau[i]
    Sigma, log_det = spd_inverse_stacked(Lambda, overwrite=True)
    gain = np.einsum("ijkn,jkn->ikn", Sigma, force)
    score = np.einsum("ikn,ikn->kn", mean, p + force)
    score += np.einsum("ikn,ikn->kn", gain, force)
    score += np.log(tau).sum(0) - log_det
    return 0.5 * score.T + stick_log_probs(Xt @ theta.beta0.T)


# book/roads/gibbs.ipynb, cell gibbs-22
def draw_choice(scores, rng):
    """One expert per row with probabilities proportional to e^score.
    [eq-gibbs-score]   scores (N,K) -> z (N,)"""
    cuts = np.cumsum(responsibilities(scores)[0], axis=1)[:, :-1]
    return (rng.random((len(scores), 1)) >= cuts).sum(1)


# book/roads/gibbs.ipynb, cell gibbs-24
def draw_latents(X, z, theta, Q, p, rng):
    """x1 of every row given its expert.  [eq-gibbs-x1]

    X (N,d) unpadded, z (N,); Q (N,h,h), p (N,h) of label_parabola -> (N,h)
    """
    tau, mean = theta.tau[z], np.einsum("nid,nd->ni", theta.A[z], pad(X))
    C = np.linalg.cholesky(Q + tau[:, :, None] * np.eye(Q.shape[1]))
    eta = np.linalg.solve(C, (tau * mean + p)[:, :, None])
    eta += rng.normal(size=mean.shape)[:, :, None]
    return np.linalg.solve(np.swapaxes(C, 1, 2), eta)[:, :, 0]


# book/roads/gibbs.ipynb, cell gibbs-29
def draw_maps(X, z, theta, Q, p, priors, rng):
    """A given the experts of the rows, with x1 integrated out.  [eq-gibbs-maps]

    X (N,d) unpadded, z (N,); Q (N,h,h), p (N,h) of label_parabola -> (K,h,D)
    """
    (K, h, D), N = theta.A.shape, len(z)
    gamma, tau = np.eye(K)[z], theta.tau[z][:, :, None]
    through = tau * np.linalg.inv(Q + tau * np.eye(h))           # T Lambda^-1
    R, r = through @ Q, (through @ p[:, :, None])[:, :, 0]
    by_expert = (gamma[:, :, None] * R.reshape(N, 1, h * h)).reshape(N, -1)
    gram = weighted_gram(X, by_expert).reshape(K, h, h, D, D)
    gram = gram.swapaxes(2, 3).reshape(K, h * D, h * D)
    linear = (gamma[:, :, None] * r[:, None, :]).reshape(N, K * h).T @ pad(X)
    scale = np.repeat(np.sqrt(priors.v0 / theta.tau), D, axis=1)
    white = scale[:, :, None] * gram * scale[:, None, :]
    mu, S, _ = coefficients_from_sums(white, scale * linear.reshape(K, h * D), 1.0)
    return (scale * draw_gaussian(mu, S, rng)).reshape(K, h, D)


# book/roads/gibbs.ipynb, cell gibbs-33
def draw_axes(theta, x1, priors, rng):
    """Draw units, signs and origin of the latent axes anew; no logit changes.
    [eq-gibbs-scale, eq-gibbs-shift]   theta Theta, x1 (N,h) -> theta, x1"""
    (beta1, beta0, A, tau), (K, h) = theta, theta.tau.shape
    W, bias = beta1[:, :h], beta1[:, h]
    C = priors.b0 * tau.sum(0) + (W**2).sum(0) / (2 * priors.sigma1**2)
    u = rng.gamma(K * priors.a0 + len(W) / 2, size=h) / C
    s = np.where(rng.random(h) < 0.5, -1.0, 1.0) / np.sqrt(u)
    W, A, tau, x1 = W / s, A * s[:, None], tau / s**2, x1 * s
    P = W.T @ W / priors.sigma1**2 + np.diag(tau.sum(0)) / priors.v0
    pull = (bias @ W / priors.sigma1**2 - (tau * A[:, :, -1]).sum(0) / priors.v0)
    S = np.linalg.inv(P)
    c = draw_gaussian(S @ pull, S, rng)
    A[:, :, -1] += c
    return Theta(np.column_stack([W, bias - W @ c]), beta0, A, tau), x1 + c


# book/roads/gibbs.ipynb, cell gibbs-35
def complete_log_joint(state, X, y, priors):
    """ln p(phi, z, x1, y | X), nats: omega integrated out.  [eq-gibbs-joint]

    state GibbsState (or a tuple beginning theta, z, x1), X (N,d), y (N,) -> float
    """
    theta, z, x1, n = *state[:3], np.arange(len(y))
    tau, r = theta.tau[z], x1 - np.einsum("nid,nd->ni", theta.A[z], pad(X))
    gate = stick_log_probs(pad(X) @ theta.beta0.T)[n, z]
    label = stick_log_probs(pad(x1) @ theta.beta1.T)[n, y]
    vector = 0.5 * (np.log(tau / (2 * np.pi)) - tau * r**2)
    prior = log_prior(pack(theta), theta_shapes(theta), priors)
    return float(prior + gate.sum() + label.sum() + vector.sum())


# book/roads/gibbs.ipynb, cell gibbs-39
def gibbs_sweep(state, X, y, priors, rng):
    """Draw everything once.  [eq-gibbs-sweep]

    state GibbsState, X (N,d) unpadded, y (N,) in 0..L-1, rng Generator
    -> GibbsState.   Reads of the old state theta and x1 only.
    """
    theta = state.theta
    omega1 = draw_omega(y, state.x1, theta.beta1, rng)
    Q, p = label_parabola(y, theta.beta1, omega1)
    z = draw_choice(choice_scores(X, theta, Q, p), rng)
    theta = theta._replace(A=draw_maps(X, z, theta, Q, p, priors, rng))
    x1 = draw_latents(X, z, theta, Q, p, rng)
    omega0 = draw_omega(z, X, theta.beta0, rng)
    beta1 = draw_coefficients(y, x1, omega1, priors.sigma1, rng)
    beta0 = draw_coefficients(z, X, omega0, priors.sigma0, rng)
    A, tau = draw_experts(X, z, x1, theta.A, priors, rng)
    theta, x1 = draw_axes(Theta(beta1, beta0, A, tau), x1, priors, rng)
    return GibbsState(theta, z, x1, omega1, omega0)


# book/roads/gibbs.ipynb, cell gibbs-41
def start_state(X, y, sizes, priors, rng, init="prior", n_sweeps=100):
    """A first state of a chain.  [eq-gibbs-start]

    sizes (K, h, L); init "prior", or "cavi": Theta from q after n_sweeps sweeps of
    coordinate ascent with a random start of its own -> GibbsState
    """
    K, h, L = sizes
    if init == "prior":
        theta = sample_theta(priors, K, h, L, X.shape[1], rng)
    else:
        q = init_parameters(X, y, K, h, L, priors, rng)
        blocks = make_blocks(X, y, K, h, L)
        for _ in range(n_sweeps):
            blocks, q, _ = block_sweep(blocks, q, priors)
        theta = Theta(*(draws[0] for draws in sample_parameters(q, rng, 1)))
    z, x1, _ = sample_network(theta, X, rng)
    return GibbsState(theta, z, x1, draw_omega(y, x1, theta.beta1, rng),
                      draw_omega(z, X, theta.beta0, rng))


# book/roads/gibbs.ipynb, cell gibbs-43
SEGMENT = 50                                # sweeps between two looks at the clock


class Chain(NamedTuple):
    """All that the future of a chain depends on.  [eq-gibbs-resume]

    index of the chain, done: sweeps so far, GibbsState, Generator
    """
    index: int
    done: int
    state: GibbsState
    rng: np.random.Generator


def _advance(chain, X, y, priors, keep):
    """A segment: sweep on, storing theta, log joint and the number of experts that
    own rows where keep is true.   -> Chain, (six arrays, last log joint)"""
    state, rng, rows = chain.state, copy.deepcopy(chain.rng), []
    for wanted in keep[chain.done:chain.done + SEGMENT]:
        state = gibbs_sweep(state, X, y, priors, rng)
        if wanted:
            rows.append((*state.theta, complete_log_joint(state, X, y, priors),
                         len(np.unique(state.z))))
    value = complete_log_joint(state, X, y, priors)
    shapes = [*(v.shape for v in state.theta), (), ()]
    kept = [np.array([row[i] for row in rows]).reshape((len(rows), *shape))
            for i, shape in enumerate(shapes)]
    done = min(chain.done + SEGMENT, len(keep))
    return Chain(chain.index, done, state, rng), (kept, value)


# book/roads/gibbs.ipynb, cell gibbs-44
class _Run(NamedTuple):
    """Sweeps done, chains, and the six arrays (chain, draw, ...) kept so far."""
    done: int
    chains: list
    kept: list


def _after(run, portions):
    """The run after a segment of every chain.   -> _Run, mean log joint"""
    chains, results = zip(*portions)
    kept, values = zip(*results)
    kept = [np.stack(part) for part in zip(*kept)]
    if run.kept:
        kept = [np.concatenate(two, axis=1) for two in zip(run.kept, kept)]
    return _Run(chains[0].done, list(chains), kept), float(np.mean(values))


def _save(path, identity, run):
    """Write a run to its file.  [eq-gibbs-resume]"""
    states = [(*chain.state.theta, *chain.state[1:]) for chain in run.chains]
    arrays = stack_chains(states)
    arrays |= {f"kept{i}": part for i, part in enumerate(run.kept)}
    write_arrays(path, arrays, identity=identity, done=run.done,
                 noise=[chain.rng.bit_generator.state for chain in run.chains])


def _resume(path, identity, generators, total):
    """The run in a file of this very problem."""
    stored = read_arrays(path)
    header = stored["header"]
    if header.get("identity") != identity:
        raise ValueError("checkpoint: expected a run of this problem, seed and "
                         f"options, got another one in {path}")
    if header["done"] > total:
        raise ValueError(f"checkpoint: expected at most {total} sweeps, got "
                         f"{header['done']} in {path}: ask for more draws")
    chains, done = [], header["done"]
    for parts, rng, noise in zip(unstack_chains(stored), generators, header["noise"]):
        rng.bit_generator.state = noise
        state = GibbsState(Theta(*parts[:4]), *parts[4:])
        chains.append(Chain(len(chains), done, state, rng))
    return _Run(done, chains, [stored[f"kept{i}"] for i in range(6)])


# book/roads/gibbs.ipynb, cell gibbs-45
def _run_on(run, X, y, priors, keep, n_jobs, path, every, identity, callback):
    """The run to its end, or to Ctrl-C, stored on the way.   -> _Run, interrupt"""
    def note(portions):
        nonlocal run
        run, value = _after(run, portions)
        return run.done, value

    def save():
        if path is not None and run.done:
            _save(path, identity, run)

    turns = run_chains(partial(_advance, X=X, y=y, priors=priors, keep=keep),
                       run.chains, lambda chain: chain.done < len(keep), n_jobs)
    cut = attend(in_step(turns, len(run.chains)), note, save,
                 lambda done: done // every > (done - SEGMENT) // every, callback)
    return run, cut


# book/roads/gibbs.ipynb, cell gibbs-46
def gibbs(X, y, n_experts=10, latent_dim=None, n_classes=None,
          priors=Priors(),  # noqa: B008  Priors are frozen
          n_chains=4, n_warmup=1000, n_draws=1000, thin=1, rng=0, init="prior",
          n_jobs=1, callback=None, checkpoint=None, checkpoint_every=1000):
    """Draws from the exact posterior.  [eq-gibbs-sweep, eq-gibbs-start,
    eq-gibbs-resume]

    X (N,d) finite, y (N,) in 0..L-1   standardise X first: the priors have a scale
    n_chains, n_warmup, n_draws   each chain: n_warmup sweeps that are not kept,
                then n_draws draws, one every thin sweeps
    rng         seed or Generator; results do not depend on n_jobs (processes)
    init        "prior" or "cavi", see start_state
    callback(done, log joint)   after every segment: sweeps of each chain, mean
                over chains of complete_log_joint
    checkpoint  path, written after the segment in which another checkpoint_every
                sweeps are full, and at the end; a file of the same problem, seed
                and options is resumed, bit for bit
    -> PosteriorDraws; stats["occupied"] counts the experts that own rows.
    Ctrl-C returns the draws made so far, with a RuntimeWarning.  ValueError names
    a bad argument.
    """
    check_kind(priors, "priors", Priors)
    check_choice(init, "init", ("prior", "cavi"))
    for name, value in {"n_chains": n_chains, "n_warmup": n_warmup,
                        "n_draws": n_draws, "thin": thin, "n_jobs": n_jobs,
                        "checkpoint_every": checkpoint_every}.items():
        check_count(value, name, least=0 if name == "n_warmup" else 1)
    check_checkpoint(checkpoint)
    X, y, sizes = check_problem(X, y, n_experts, latent_dim, n_classes)
    generators = spawn(check_rng(rng), n_chains)
    identity = fingerprint("gibbs", X, y, sizes, priors, n_warmup, thin, init,
                           [g.bit_generator.state for g in generators])
    sweep = np.arange(1, n_warmup + n_draws * thin + 1) - n_warmup
    keep = (sweep > 0) & (sweep % thin == 0)
    if checkpoint is not None and os.path.exists(checkpoint):
        run = _resume(checkpoint, identity, generators, len(keep))
    else:
        run = _Run(0, [Chain(i, 0, start_state(X, y, sizes, priors, g, init), g)
                       for i, g in enumerate(generators)], [])
    run, cut = _run_on(run, X, y, priors, keep, n_jobs, checkpoint,
                       checkpoint_every, identity, callback)
    if cut is not None:
        if not run.kept or not run.kept[4].size:
            raise cut
        warnings.warn(f"interrupted: {run.kept[4].shape[1]} of {n_draws} draws of "
                      "each chain", RuntimeWarning, stacklevel=2)
    theta, (log_joint, occupied) = Theta(*run.kept[:4]), run.kept[4:]
    return PosteriorDraws(theta, log_joint, {"occupied": occupied})
