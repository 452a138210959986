# Tangled from book/beyond/lean.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Lean sweeps: structured posteriors at speed

A leaner posterior changes one piece of the E-step of a block, the step from natural parameters to
moments; three small functions, one for each shape of covariance, replace it. The sums, the M-step
and the bound stay, and the bound of each sweep is that of the readable updates to ten digits when
the means are solved to the end.
"""

__all__ = ["Lean", "row_classes", "lean_blocks", "lean_start", "lean_moments", "mean_precisions",
           "lean_tables", "lean_estep", "lean_sweep", "LeanAscent", "thrift_of", "lean_work",
           "STRUCTURED"]


# book/beyond/lean.ipynb, cell lean-02
import warnings
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from cmn_literate.beyond.structured import (
    COEFFICIENTS, LATENT_POSTERIORS, FrameTables, Thrift, by_owner, conjugate_steps,
    diagonal_mstep, frame_tables, framed_entries, noise_frames)
from cmn_literate.checks import check_choice, check_count
from cmn_literate.engineering.fit import begin, count_rows, finish
from cmn_literate.engineering.packed import lower_triangle, outer_features
from cmn_literate.engineering.runs import (
    CAVI, Work, ascent_work, has_converged, pack_factors, predict_factors)
from cmn_literate.engineering.sums import (
    Block, block_size, block_sweep, collect, gate_rows, latent_moments, make_rows)
from cmn_literate.ideas.expfam import second_moment, spd_inverse
from cmn_literate.ideas.polya_gamma import toss_moments
from cmn_literate.learners import Learner, learner_options
from cmn_literate.network.latents import Parameters, responsibilities
from cmn_literate.network.simulate import Priors
from cmn_literate.parallel import effective_jobs
from cmn_literate.storage import generator_state


# book/beyond/lean.ipynb, cell lean-06
class Lean(NamedTuple):
    """What an E-step reads beside Prepared.  [eq-lean-frame, eq-lean-shared]

    thrift Thrift; framed FrameTables or None;
    shared (groups,G,h,h) covariances and their log determinants (groups,G), or None
    """
    thrift: Thrift
    framed: FrameTables = None
    shared: tuple = None


def row_classes(rows):
    """Labels (B,) of the rows of a block.  [eq-kappa]"""
    return (rows.b.sum(0) - (rows.kappa > 0).sum(0)).astype(int)


def lean_blocks(X, y, n_experts, latent_dim, n_classes, thrift, weight=None):
    """make_blocks for lean_sweep: rows by class, gamma at 1/K.  [eq-block-sums]"""
    K, J, order = n_experts, n_classes - 1, np.argsort(y, kind="stable")
    owners, blocks = K if thrift.family.own else 1, []
    size = block_size(len(X), X.shape[1] + 1, owners, latent_dim, J)
    for s in range(0, len(X), size):
        at = order[s:s + size]
        rows = make_rows(X[at], y[at], n_classes, size >= len(X),
                         None if weight is None else weight[at])
        omega = np.repeat(0.25 * rows.b[:, None, :], owners, axis=1)
        blocks.append(Block(rows, omega, np.full((K, len(at)), 1.0 / K)))
    return tuple(blocks)


def lean_start(parameters, thrift):
    """The frames before the first sweep: the axes.  [eq-lean-axes]   -> (G,h,h)"""
    K, h, _ = parameters.M.shape
    own = K if thrift.family.shape == "framed" else 1
    return np.tile(np.eye(h), (own, 1, 1))


# book/beyond/lean.ipynb, cell lean-09
def _axes(lean, near, P, tilt, groups):
    """The shape's part of an E-step: log |Sigma| (G,B); a function that multiplies by
    Sigma; one that adds it to packed moments and returns its diagonal (h,G,B)."""
    h = len(P)
    variances = 1 / P.reshape(h * h, *P.shape[2:])[::h + 1]

    def add(moments):
        moments[np.cumsum(np.arange(1, h + 1)) - 1] += variances
        return variances
    return np.log(variances).sum(0), lambda v: variances * v, add


def _framed(lean, near, P, tilt, groups):
    t, rank, h = lean.framed, lean.thrift.rank, len(P)
    block, diagonal, log_dets = framed_entries(t, tilt, near.tau, rank)
    i, j = lower_triangle(rank)[:2]

    def times(v):
        u = by_owner(t.frame.swapaxes(1, 2), v)
        top = np.einsum("ij...,j...->i...", block, u[:rank])
        return by_owner(t.frame, np.concatenate([top, diagonal * u[rank:]]))

    def add(moments):
        packed = by_owner(t.fill, np.concatenate([block[i, j], diagonal]))
        moments[:len(packed)] += packed
        return packed[np.cumsum(np.arange(1, h + 1)) - 1]
    return log_dets, times, add


def _shared(lean, near, P, tilt, groups):
    (C, dets), (i, j) = lean.shared, lower_triangle(len(P))[:2]
    place = groups if len(C) > 1 else np.zeros_like(groups)
    ends = np.flatnonzero(np.diff(place, append=-1)) + 1
    runs = [(place[end - 1], slice(start, end)) for start, end in zip([0, *ends], ends)]

    def times(v):
        out = np.empty_like(v)
        for g, at in runs:
            out[:, :, at] = by_owner(C[g], v[:, :, at])
        return out

    def add(moments):
        for g, at in runs:
            moments[:i.size, :, at] += C[g][:, i, j].T[:, :, None]
        return np.diagonal(C, axis1=2, axis2=3).transpose(2, 1, 0)[:, :, place]
    return dets.T[:, place], times, add


_SHAPES = {"axes": _axes, "framed": _framed, "shared": _shared, "by-class": _shared}


def lean_moments(lean, near, centre, pull, tilt, mu, groups):
    """latent_moments of the family: the means after some steps, the best covariances.
    [eq-lean-best, eq-lean-steps]

    near Prepared, its tau (h,G,1 or B) that of the G Gaussians of a row; centre (h,G,B)
    the mean of the noise's pull; pull (h,B), tilt (J,G,B), mu (h,G,B) where to begin
    -> moments ((h+1)(h+2)/2,G,B) as in latent_moments; variances (h,G,B); log |Sigma|
    """
    h, G, B = centre.shape
    if lean.thrift.family.shape == "free":
        moments, Sigma, log_dets = latent_moments(near, centre, pull, tilt)
        return moments, Sigma.reshape(h * h, G, B)[::h + 1], log_dets
    natural = (near.bend @ tilt.reshape(len(tilt), -1)).reshape(-1, G, B)
    natural[:h * h:h + 1] += near.tau
    P, eta = natural[:h * h].reshape(h, h, G, B), near.tau * centre - natural[h * h:]
    eta += pull[:, None]
    log_dets, times, add = _SHAPES[lean.thrift.family.shape](lean, near, P, tilt, groups)
    mu = conjugate_steps(lambda v: np.einsum("ij...,j...->i...", P, v), eta, mu, times,
                         lean.thrift.steps)
    padded = np.concatenate([mu.reshape(h, -1), np.ones((1, G * B))])
    moments = outer_features(padded).reshape(-1, G, B)
    return moments, add(moments), log_dets


# book/beyond/lean.ipynb, cell lean-11
def mean_precisions(parameters, blocks, family):
    """Weighted mean of E[omega_1] and of tau over the rows of each group.
    [eq-lean-shared]   -> omega (groups,G,J), tau (groups,G,h); no rows: zeros, and the
    mean tau of the experts"""
    p, J = parameters, len(parameters.beta1_mu)
    tau, groups = p.a[:, None] / p.b, 1 + J * (family.shape == "by-class")
    G = len(tau) if family.own else 1
    count, omega = np.zeros((groups, G)), np.zeros((groups, G, J))
    noise = np.zeros((groups, len(tau)))
    for block in blocks:
        place = row_classes(block.rows) if groups > 1 else 0 * block.gamma[0]
        inside = (place == np.arange(groups)[:, None]).astype(float)
        if block.rows.weight is not None:
            inside *= block.rows.weight
        owned = block.gamma if family.own else np.ones((1, len(place)))
        count += inside @ owned.T
        noise += inside @ block.gamma.T
        weighed = owned * block.omega[:J]
        omega += (weighed.reshape(-1, len(place)) @ inside.T).reshape(J, G, groups).T
    some = np.maximum(count, 1e-280)
    if family.own:
        return omega / some[:, :, None], np.broadcast_to(tau, (groups, *tau.shape))
    noise = np.where(count > 0, noise / some, 1 / len(tau))
    return omega / some[:, :, None], (noise @ tau)[:, None]


def _frame_value(tables, thrift, parameters, blocks):
    """Sum over rows of gamma log |Sigma|, of each expert (G,).  [eq-lean-frame]"""
    p, value = parameters, 0.0
    tau = (p.a[:, None] / p.b).T[:, :, None]
    for rows, omega, gamma in blocks:
        log_dets = framed_entries(tables, omega[:len(p.beta1_mu)], tau, thrift.rank)[2]
        value = value + (gamma * log_dets) @ (
            np.ones(gamma.shape[1]) if rows.weight is None else rows.weight)
    return value


def lean_tables(parameters, blocks, frame, thrift):
    """The Lean of the next sweep; frames are turned where that raises the bound.
    [eq-lean-shared, eq-lean-axes]   frame (G,h,h) of the last sweep -> Lean, frame"""
    p, f, h = parameters, thrift.family, parameters.M.shape[1]
    B = second_moment(p.beta1_mu, p.beta1_S)[:, :h, :h]
    if f.shape in ("free", "axes"):
        return Lean(thrift), frame
    omega, tau = mean_precisions(p, blocks, f)
    evidence = np.tensordot(omega, B, axes=1)
    if f.shape != "framed":
        C, log_det_P = spd_inverse(evidence + tau[..., None] * np.eye(h))
        return Lean(thrift, shared=(C, -log_det_P)), frame
    turned = noise_frames(tau[0], evidence[0])
    old, new = (_frame_value(frame_tables(R, B, thrift.rank), thrift, p, blocks)
                for R in (frame, turned))
    frame = np.where((new > old)[:, None, None], turned, frame)
    return Lean(thrift, framed=frame_tables(frame, B, thrift.rank)), frame


# book/beyond/lean.ipynb, cell lean-13
def lean_estep(prep, rows, omega, inner=1, gamma=None, *, lean):
    """E-step of a block with a Family's q(x1, z).  [eq-lean-best, eq-block-sums]

    omega (J,G,B): E[omega_1] of the last sweep, and below it the means (h,G,B) if
    there are any yet; gamma (K,B) of the last sweep -> Sums, omega, gamma
    """
    XtT, b, kappa, F, weight = rows
    (h, K, _), J, f = prep.tau.shape, len(b), lean.thrift.family
    top = int(b.any(1).sum())                   # these rows toss no later stick
    F = outer_features(XtT) if F is None else F
    mean, pull = (prep.mean_map @ XtT).reshape(h, K, -1), prep.beta1_mu.T @ kappa
    tau, centre = prep.tau, mean
    if not f.own:
        tau = (prep.tau[:, :, 0] @ gamma)[:, None]
        centre = np.einsum("ik,kb,ikb->ib", prep.tau[:, :, 0], gamma, mean)[:, None] / tau
    near = prep._replace(tau=tau, bend=prep.bend[:, :top], square=prep.square[:top])
    tables = lean
    if lean.framed is not None:
        framed = lean.framed._replace(bend=lean.framed.bend[:, :, :top])
        tables = lean._replace(framed=framed)
    tilt, mu = omega[:top], omega[J:] if len(omega) > J else centre
    for _ in range(inner):
        moments, variances, log_dets = lean_moments(
            tables, near, centre, pull[:h], tilt, mu, row_classes(rows))
        mu = moments[-h - 1:-1]
        psi2 = near.square @ moments.reshape(len(moments), -1)
        tilt, cost = toss_moments(psi2.reshape(top, *mu.shape[1:]), b[:top])
    forms, residual = prep.forms @ F, mu - mean
    gate_omega, gate_cost = gate_rows(forms[K:])
    energy = residual * residual + variances
    score = forms[:K] - (prep.half_tau @ energy.transpose(1, 0, 2))[:, 0] - gate_cost
    score += 0.5 * log_dets + np.einsum("ib,igb->gb", pull, moments[-h - 1:]) - cost
    gamma, bound = responsibilities(score, axis=0)
    share = gamma if weight is None else gamma * weight
    total = bound.sum() if weight is None else bound @ weight
    ends = np.broadcast_to(moments[-h - 1:], (h + 1, K, mu.shape[-1]))
    sums = collect(rows._replace(kappa=kappa[:0]), F, tilt[:0], share, ends, residual,
                   energy, gate_omega, total)
    owned = share if f.own else share.sum(0, keepdims=True)
    gram = np.zeros((J, len(moments)))
    gram[:top] = (owned * tilt).reshape(top, -1) @ moments.reshape(len(moments), -1).T
    linear = kappa @ np.einsum("gb,igb->bi", owned, moments[-h - 1:])
    fresh = np.zeros((J if f.shape == "free" else J + h, *mu.shape[1:]))
    fresh[:top] = tilt
    if f.shape != "free":
        fresh[J:] = mu
    return sums._replace(output_gram=gram, output_linear=linear), fresh, gamma


def lean_sweep(blocks, parameters, frame, priors, thrift, inner=1, n_jobs=1):
    """block_sweep with a Family's q(x1, z).  [eq-lean-best, eq-lean-bound]

    blocks of lean_blocks or of the last sweep, frame of lean_start or of the last sweep
    -> renewed blocks, Parameters, frame, bound after the M-step (nats)
    """
    lean, frame = lean_tables(parameters, blocks, frame, thrift)
    blocks, after, bound = block_sweep(
        blocks, parameters, priors, inner, partial(lean_estep, lean=lean), n_jobs,
        partial(diagonal_mstep, fields=thrift.fields))
    return blocks, after, frame, bound


# book/beyond/lean.ipynb, cell lean-18
class LeanAscent(NamedTuple):
    """State of the ascent between two sweeps.  [eq-lean-bound]

    parameters; tilts: what each block remembers; frame (G,h,h); bound (nats, None before
    the first sweep); converged
    """
    parameters: Parameters
    tilts: tuple
    frame: np.ndarray
    bound: float
    converged: bool


class _Sweeper(NamedTuple):
    """What a sweep reads and does not change."""
    blocks: tuple
    priors: Priors
    thrift: Thrift
    tol: float
    inner: int
    n_jobs: int

    def __call__(self, state, t):
        blocks = tuple(Block(b.rows, *tilt) for b, tilt in zip(self.blocks, state.tilts))
        blocks, p, frame, bound = lean_sweep(
            blocks, state.parameters, state.frame, self.priors, self.thrift, self.inner,
            self.n_jobs)
        small = state.bound is not None and (
            bound - state.bound < self.tol * count_rows(blocks))
        bound = float(bound)
        return LeanAscent(p, _tilts(blocks), frame, bound, bool(small)), (bound,)


def _tilts(blocks):
    return tuple((block.omega, block.gamma) for block in blocks)


def thrift_of(settings):
    """The Thrift that the options ask for.  [eq-lean-best, eq-lean-coefficients]

    ValueError names the option."""
    o = learner_options(settings)
    check_choice(o["latent_posterior"], "latent_posterior", tuple(LATENT_POSTERIORS))
    check_choice(o["coefficients"], "coefficients", tuple(COEFFICIENTS))
    family = LATENT_POSTERIORS[o["latent_posterior"]]
    rank = check_count(o["rank"], "rank", 0) if family.shape == "framed" else 0
    return Thrift(family, rank, check_count(o["steps"], "steps"),
                  COEFFICIENTS[o["coefficients"]])


def lean_work(Z, y, n_classes, settings, rng, weight=None):
    """The ascent as a Work, which finishes as a Fit.  [eq-lean-bound]

    settings as in ascent_work; with "full" and full coefficients it is ascent_work
    """
    s, thrift = settings, thrift_of(settings)
    if thrift.family == LATENT_POSTERIORS["full"] and not thrift.fields:
        return ascent_work(Z, y, n_classes, s, rng, weight)
    if s.accelerate or (s.omega1 == "shared" and thrift.family.own):
        raise ValueError(
            'accelerate, omega1: expected False and "per-component" for a lean '
            f"posterior, got {s.accelerate} and {s.omega1!r}")
    thrift = thrift._replace(rank=min(thrift.rank, s.latent_dim))
    origin = generator_state(rng)
    begun = begin(Z, y, s.n_experts, s.latent_dim, n_classes, s.priors, rng, s.init,
                  sample_weight=weight)
    begun = begun._replace(shared=not thrift.family.own, blocks=lean_blocks(
        Z, y, s.n_experts, s.latent_dim, n_classes, thrift, weight))
    first = LeanAscent(begun.parameters, _tilts(begun.blocks),
                       lean_start(begun.parameters, thrift), None, False)

    def ascended(run):
        (state,), elbo = run.states, tuple(bound for bound, in run.kept[0])
        if run.reason != "steps":
            warnings.warn(f"{run.reason}: this is the fit after {len(elbo)} whole "
                          "sweeps", stacklevel=3)
        return finish(begun._replace(parameters=state.parameters, elbo=elbo,
                                     converged=state.converged and bool(state.parameters.M.any())))

    problem = ("structured", Z, y, n_classes, s.n_experts, s.latent_dim, s.priors, s.init,
               s.tol, s.inner, *thrift, *(() if weight is None else (weight,)))
    sweeper = _Sweeper(begun.blocks, s.priors, thrift, s.tol, s.inner,
                       effective_jobs(getattr(s, "n_jobs", 1)))
    return Work(lambda: [first], sweeper, s.max_sweeps, ascended, problem, origin,
                lambda states, c: states[c].bound, has_converged,
                kinds=(LeanAscent, Parameters), every=100)


def _unpack(arrays, settings):
    found = CAVI.unpack(arrays, settings)
    return replace(found, shared=found.shared or not thrift_of(settings).family.own)


STRUCTURED = Learner(
    lean_work, predict_factors, pack_factors, _unpack,
    options={"latent_posterior": "full", "rank": 2, "steps": 2, "coefficients": "full",
             "checkpoint": None},
    steps=lambda settings: settings.max_sweeps, objective="ELBO", step="sweep",
    advice="raise max_sweeps or tol", weights="any")
