# Tangled from book/roads/gibbs.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Gibbs: draws in the place of means

Put a draw wherever coordinate ascent puts an expectation, and the same closed forms sample the
exact posterior. Whether they really do can be tested without knowing the posterior, and the tests
are sharp enough to catch a forgotten prior or a missing half.
"""

__all__ = ["GibbsState", "draw_omega", "draw_gaussian", "draw_coefficients", "draw_experts",
           "label_parabola", "choice_scores", "draw_choice", "draw_latents", "draw_maps",
           "draw_axes", "complete_log_joint", "gibbs_sweep", "start_state", "SEGMENT",
           "GibbsModel", "GibbsChain", "gibbs_work", "gibbs", "GIBBS"]


# book/roads/gibbs.ipynb, cell gibbs-02
import copy
import warnings
from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from cmn_literate.checks import check_weighted_problem, check_whole_weights
from cmn_literate.engineering.starts import init_parameters
from cmn_literate.engineering.sums import block_sweep, make_blocks
from cmn_literate.roads.diagnostics import (
    PosteriorDraws, keep_draws, pack_sampled, predict_sampled, unpack_sampled)
from cmn_literate.network.experts import experts_from_sums, weighted_gram
from cmn_literate.engineering.packed import spd_inverse_stacked
from cmn_literate.network.latents import responsibilities
from cmn_literate.engineering.coordinates import log_prior, pack, theta_shapes
from cmn_literate.ideas.logistic import coefficients_from_sums
from cmn_literate.checks import check_checkpoint, check_rng
from cmn_literate.storage import generator_state
from cmn_literate.network.predict import sample_parameters
from cmn_literate.network.simulate import (
    Priors, Theta, sample_data, sample_theta)
from cmn_literate.checks import check_choice, check_count, check_kind
from cmn_literate.engineering.chains import spawn
from cmn_literate.engineering.runs import Work, drive
from cmn_literate.learners import Learner, learner_options
from cmn_literate.ideas.expfam import pad
from cmn_literate.ideas.stick_breaking import stick_counts, stick_log_probs


# book/roads/gibbs.ipynb, cell gibbs-09
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


# book/roads/gibbs.ipynb, cell gibbs-10
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


# book/roads/gibbs.ipynb, cell gibbs-13
@lru_cache(maxsize=64)
def _kappa(J):
    """kappa of every choice (J+1,J).  [eq-kappa]"""
    return stick_counts(np.eye(J + 1))[1]


def draw_gaussian(mu, S, rng):
    """mu + C epsilon with C C^T = S.  [eq-gibbs-beta]   mu (...,D), S (...,D,D)"""
    epsilon = rng.normal(size=mu.shape)
    return mu + (np.linalg.cholesky(S) @ epsilon[..., None])[..., 0]


def draw_coefficients(choice, inputs, omega, sigma, rng, mean=0.0):
    """beta_j given the choices and the weights of their coins.  [eq-gibbs-beta]

    choice (N,) in 0..J, inputs (N,m) unpadded, omega (N,J), sigma > 0; mean (J,m+1):
    the prior's -> (J,m+1)
    """
    gram = weighted_gram(inputs, omega)
    linear = _kappa(omega.shape[1])[choice].T @ pad(inputs)
    mu, S, _ = coefficients_from_sums(gram, linear + mean / sigma**2, sigma)
    return draw_gaussian(mu, S, rng)


# book/roads/gibbs.ipynb, cell gibbs-14
def draw_experts(X, z, x1, reference, priors, rng, mean=0.0):
    """A and tau of all experts given their rows.  [eq-gibbs-experts]

    X (N,d) unpadded, z (N,), x1 (N,h), reference (K,h,D): any A, best the current;
    mean (h,D): the prior's, of A -> A (K,h,D), tau (K,h)
    """
    (K, h, D), Xt = reference.shape, pad(X)
    gamma = np.eye(K)[z]
    r = x1 - np.einsum("nid,nd->ni", reference[z], Xt)
    cross = (gamma[:, :, None] * r[:, None, :]).reshape(len(z), K * h).T @ Xt
    sums = (gamma.sum(0), weighted_gram(X, gamma), cross.reshape(K, h, D),
            gamma.T @ r**2)
    (M, V, a, b), _ = experts_from_sums(*sums, reference - mean, priors)
    tau = np.maximum(rng.gamma(a[:, None], size=b.shape) / b, 1e-300)
    noise = rng.normal(size=M.shape) @ np.swapaxes(np.linalg.cholesky(V), 1, 2)
    return M + noise / np.sqrt(tau)[:, :, None] + mean, tau


# book/roads/gibbs.ipynb, cell gibbs-20
def label_parabola(y, beta1, omega1):
    """Curvature Q (N,h,h), force g0 (N,h) of the label's term.  [eq-gibbs-parabola]

    y (N,) in 0..L-1, beta1 (L-1,h+1), omega1 (N,L-1)
    """
    W, bias, (J, h) = beta1[:, :-1], beta1[:, -1], beta1[:, :-1].shape
    kappa = _kappa(J)[y]
    Q = omega1 @ (W[:, :, None] * W[:, None, :]).reshape(J, h * h)
    return Q.reshape(len(y), h, h), (kappa - omega1 * bias) @ W


# book/roads/gibbs.ipynb, cell gibbs-21
def choice_scores(X, theta, Q, g0):
    """ln p(z_n = k, y_n, omega_1n | Theta) up to a constant of the row, with x1
    and omega_0 integrated out.  [eq-gibbs-score]

    X (N,d) unpadded; Q (N,h,h), g0 (N,h) of label_parabola -> (N,K) nats
    """
    (K, h, _), Xt = theta.A.shape, pad(X)
    Q, g0 = Q.transpose(1, 2, 0), g0.T[:, None]              # rows last
    tau = theta.tau.T[:, :, None]
    mean = np.einsum("kid,nd->ikn", theta.A, Xt)
    force = g0 - np.einsum("ijn,jkn->ikn", Q, mean)
    Lambda = np.repeat(Q[:, :, None], K, axis=2)
    for i in range(h):
        Lambda[i, i] += tau[i]
    Sigma, log_det = spd_inverse_stacked(Lambda, overwrite=True)
    gain = np.einsum("ijkn,jkn->ikn", Sigma, force)
    score = np.einsum("ikn,ikn->kn", mean, g0 + force)
    score += np.einsum("ikn,ikn->kn", gain, force)
    score += np.log(tau).sum(0) - log_det
    return 0.5 * score.T + stick_log_probs(Xt @ theta.beta0.T)


# book/roads/gibbs.ipynb, cell gibbs-22
def draw_choice(scores, rng):
    """One expert per row with probabilities proportional to e^score.
    [eq-gibbs-score]   scores (N,K) -> z (N,)"""
    cuts = np.cumsum(responsibilities(scores)[0], axis=1)[:, :-1]
    return (rng.random((len(scores), 1)) >= cuts).sum(1)


# book/roads/gibbs.ipynb, cell gibbs-23
def draw_latents(X, z, theta, Q, g0, rng):
    """x1 of every row given its expert.  [eq-gibbs-x1]

    X (N,d) unpadded, z (N,); Q (N,h,h), g0 (N,h) of label_parabola -> (N,h)
    """
    tau, mean = theta.tau[z], np.einsum("nid,nd->ni", theta.A[z], pad(X))
    C = np.linalg.cholesky(Q + tau[:, :, None] * np.eye(Q.shape[1]))
    eta = np.linalg.solve(C, (tau * mean + g0)[:, :, None])
    eta += rng.normal(size=mean.shape)[:, :, None]
    return np.linalg.solve(np.swapaxes(C, 1, 2), eta)[:, :, 0]


# book/roads/gibbs.ipynb, cell gibbs-27
def draw_maps(X, z, theta, Q, g0, priors, rng, mean=0.0):
    """A given the experts of the rows, with x1 integrated out.  [eq-gibbs-maps]

    X (N,d) unpadded, z (N,); Q (N,h,h), g0 (N,h) of label_parabola; mean (h,D): the
    prior's, of A -> (K,h,D)
    """
    (K, h, D), N = theta.A.shape, len(z)
    gamma, tau = np.eye(K)[z], theta.tau[z][:, :, None]
    through = tau * np.linalg.inv(Q + tau * np.eye(h))           # T Lambda^-1
    there = Q @ (pad(X) @ np.broadcast_to(mean, (h, D)).T)[:, :, None]
    R, r = through @ Q, (through @ (g0[:, :, None] - there))[:, :, 0]
    by_expert = (gamma[:, :, None] * R.reshape(N, 1, h * h)).reshape(N, -1)
    gram = weighted_gram(X, by_expert).reshape(K, h, h, D, D)
    gram = gram.swapaxes(2, 3).reshape(K, h * D, h * D)
    linear = (gamma[:, :, None] * r[:, None, :]).reshape(N, K * h).T @ pad(X)
    scale = np.repeat(np.sqrt(priors.v0 / theta.tau), D, axis=1)
    white = scale[:, :, None] * gram * scale[:, None, :]
    mu, S, _ = coefficients_from_sums(white, scale * linear.reshape(K, h * D), 1.0)
    return (scale * draw_gaussian(mu, S, rng)).reshape(K, h, D) + mean


# book/roads/gibbs.ipynb, cell gibbs-29
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


# book/roads/gibbs.ipynb, cell gibbs-31
def complete_log_joint(state, X, y, priors, mean=0.0):
    """ln p(phi, z, x1, y | X), nats: omega integrated out.  [eq-gibbs-joint]

    state GibbsState (or a tuple beginning theta, z, x1), X (N,d), y (N,), mean (h,D):
    the prior's, of A -> float
    """
    theta, z, x1, n = *state[:3], np.arange(len(y))
    tau, r = theta.tau[z], x1 - np.einsum("nid,nd->ni", theta.A[z], pad(X))
    gate = stick_log_probs(pad(X) @ theta.beta0.T)[n, z]
    label = stick_log_probs(pad(x1) @ theta.beta1.T)[n, y]
    vector = 0.5 * (np.log(tau / (2 * np.pi)) - tau * r**2)
    about = pack(theta._replace(A=theta.A - mean))
    prior = log_prior(about, theta_shapes(theta), priors)
    return float(prior + gate.sum() + label.sum() + vector.sum())


# book/roads/gibbs.ipynb, cell gibbs-34
def gibbs_sweep(state, X, y, priors, rng, mean=0.0, axes=None, centres=(0.0, 0.0)):
    """Draw everything once.  [eq-gibbs-sweep]

    state GibbsState, X (N,d) unpadded, y (N,) in 0..L-1, rng Generator; mean (h,D):
    the prior's, of A; axes: what draws the axes, if not draw_axes; centres: prior
    means of beta1 (L-1,h+1) and beta0 (K-1,D)
    -> GibbsState.   Reads of the old state theta and x1 only.
    """
    theta = state.theta
    omega1 = draw_omega(y, state.x1, theta.beta1, rng)
    Q, g0 = label_parabola(y, theta.beta1, omega1)
    z = draw_choice(choice_scores(X, theta, Q, g0), rng)
    theta = theta._replace(A=draw_maps(X, z, theta, Q, g0, priors, rng, mean))
    x1 = draw_latents(X, z, theta, Q, g0, rng)
    omega0 = draw_omega(z, X, theta.beta0, rng)
    beta1 = draw_coefficients(y, x1, omega1, priors.sigma1, rng, centres[0])
    beta0 = draw_coefficients(z, X, omega0, priors.sigma0, rng, centres[1])
    A, tau = draw_experts(X, z, x1, theta.A, priors, rng, mean)
    theta, x1 = (axes or draw_axes)(Theta(beta1, beta0, A, tau), x1, priors, rng)
    return GibbsState(theta, z, x1, omega1, omega0)


# book/roads/gibbs.ipynb, cell gibbs-36
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
    z, x1, _ = sample_data(theta, X, rng)
    return GibbsState(theta, z, x1, draw_omega(y, x1, theta.beta1, rng),
                      draw_omega(z, X, theta.beta0, rng))


# book/roads/gibbs.ipynb, cell gibbs-37
SEGMENT = 50                                # sweeps between two looks at the clock


class GibbsModel(NamedTuple):
    """What the chains draw from.  [eq-gibbs-sweep, eq-gibbs-start]

    start      as start_state: a tuple that begins with the fields of GibbsState
    sweep, log_joint   as gibbs_sweep, complete_log_joint, for such a tuple
    kind       its class;  problem: what tells this model from others of the kind
    """
    start: Callable
    sweep: Callable
    log_joint: Callable
    kind: type
    problem: tuple = ()


class GibbsChain(NamedTuple):
    """All that the future of a chain depends on: GibbsState, state of its generator.
    [eq-gibbs-resume]"""
    state: GibbsState
    noise: dict


def _sweep_on(chain, t, X, y, priors, keep, rng, model):
    """A sweep as the step of a Work; where keep[t] is true its record is theta, log
    joint, the number of experts that own rows, and what the state has more."""
    rng.bit_generator.state = chain.noise
    state = model.sweep(chain.state, X, y, priors, rng)
    row = (*state.theta, model.log_joint(state, X, y, priors),
           len(np.unique(state.z)), *state[5:]) if keep[t] else None
    return GibbsChain(state, rng.bit_generator.state), row


# book/roads/gibbs.ipynb, cell gibbs-38
def gibbs_work(X, y, n_experts=10, latent_dim=None, n_classes=None,
               priors=Priors(),  # noqa: B008  Priors are frozen
               n_chains=4, n_warmup=1000, n_draws=1000, thin=1, rng=0, init="prior",
               every=1000, sample_weight=None, model=None):
    """gibbs as a Work, which finishes as PosteriorDraws; its arguments, and a
    GibbsModel if another; what its states have beyond GibbsState is in stats.
    [eq-gibbs-sweep, eq-gibbs-start, eq-gibbs-resume]"""
    check_kind(priors, "priors", Priors)
    check_choice(init, "init", ("prior", "cavi"))
    for name, value in {"n_chains": n_chains, "n_warmup": n_warmup,
                        "n_draws": n_draws, "thin": thin,
                        "checkpoint_every": every}.items():
        check_count(value, name, least=0 if name == "n_warmup" else 1)
    X, y, weight, sizes = check_weighted_problem(
        X, y, sample_weight, n_experts, latent_dim, n_classes)
    if weight is not None:
        X, y = (np.repeat(part, check_whole_weights(weight), axis=0) for part in (X, y))
    rng = check_rng(rng)
    origin, generators = generator_state(rng), spawn(rng, n_chains)
    model = model or GibbsModel(start_state, gibbs_sweep, complete_log_joint, GibbsState)
    sweep = np.arange(1, n_warmup + n_draws * thin + 1) - n_warmup
    keep = (sweep > 0) & (sweep % thin == 0)

    def start():
        own = copy.deepcopy(generators)
        states = [model.start(X, y, sizes, priors, g, init) for g in own]
        return [GibbsChain(state, g.bit_generator.state)
                for state, g in zip(states, own)]

    def finish(run):
        *theta, log_joint, occupied = (table := run.table())[:6]
        stats = dict(zip(("occupied", *model.kind._fields[5:]), (occupied, *table[6:])))
        if run.reason != "steps":
            warnings.warn(f"interrupted: {log_joint.shape[1]} of {n_draws} draws of "
                          "each chain", RuntimeWarning, stacklevel=3)
        return PosteriorDraws(Theta(*theta), log_joint, stats)

    return Work(
        start, partial(
            _sweep_on, X=X, y=y, priors=priors, keep=keep, rng=copy.deepcopy(rng),
            model=model), len(keep), finish,
        ("gibbs", X, y, sizes, priors, n_chains, n_warmup, thin, init, *model.problem),
        origin, lambda states, c: float(np.mean([model.log_joint(
            chain.state, X, y, priors) for chain in states])),
        kinds=(GibbsChain, model.kind, Theta), most=SEGMENT, every=every)


def gibbs(X, y, n_experts=10, latent_dim=None, n_classes=None,
          priors=Priors(),  # noqa: B008  Priors are frozen
          n_chains=4, n_warmup=1000, n_draws=1000, thin=1, rng=0, init="prior",
          n_jobs=1, callback=None, checkpoint=None, checkpoint_every=1000,
          sample_weight=None):
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
    sample_weight (N,)   whole numbers: so many copies of the row
    -> PosteriorDraws; stats["occupied"] counts the experts that own rows.
    Ctrl-C returns the draws made so far, with a RuntimeWarning.  ValueError names
    a bad argument.
    """
    check_count(n_jobs, "n_jobs")
    check_checkpoint(checkpoint)
    work = gibbs_work(X, y, n_experts, latent_dim, n_classes, priors, n_chains,
                      n_warmup, n_draws, thin, rng, init, checkpoint_every,
                      sample_weight)
    return work.finish(drive(work, callback, checkpoint, n_jobs))


# book/roads/gibbs.ipynb, cell gibbs-39
def _steps(settings):
    options = learner_options(settings)
    return options["n_warmup"] + options["n_draws"] * options["thin"]


def _begin(Z, y, n_classes, settings, rng, weight=None, model=None):
    s, options = settings, learner_options(settings)
    del options["checkpoint"], options["n_jobs"]
    work = gibbs_work(Z, y, s.n_experts, s.latent_dim, n_classes, s.priors, rng=rng,
                      sample_weight=weight, model=model, **options)
    return work._replace(finish=lambda run: keep_draws(
        work.finish(run), Z, options["n_draws"], _steps(s)))


GIBBS = Learner(
    _begin, predict_sampled, pack_sampled, unpack_sampled,
    options={"n_chains": 4, "n_warmup": 1000, "n_draws": 1000, "thin": 1,
             "init": "prior", "n_jobs": 1, "checkpoint": None},
    steps=_steps, objective="log density", step="sweep",
    advice="raise n_warmup and n_draws in method_options", weights="whole")
