# Tangled from book/beyond/structured.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Structured: what a leaner posterior costs

One theorem gives the best leaner covariances, and what each must lose: project the precision, then
invert. They lose at most 0.03 nats a row, and at 33 classes a sweep is at best about twice as
fast, because they save the inverse and not the products. One Gaussian a row makes it eight to
thirteen times faster there, but the climb ends elsewhere, with a higher bound and a worse
forecast. By our rule, set beforehand, none of the four pays.
"""

__all__ = ["framed_inverse", "shared_inverse", "noise_frames", "Family", "LATENT_POSTERIORS",
           "structured_latents", "structured_updates", "conjugate_steps", "COEFFICIENTS",
           "diagonal_mstep", "Thrift", "FrameTables", "frame_tables", "by_owner", "framed_entries"]


# book/beyond/structured.ipynb, cell structured-02
from typing import NamedTuple

import numpy as np

from cmn_literate.engineering.packed import lower_triangle, spd_inverse_stacked
from cmn_literate.engineering.sums import mstep
from cmn_literate.ideas.expfam import log_det, spd_inverse
from cmn_literate.network.cavi import UPDATES
from cmn_literate.network.latents import latent_update


# book/beyond/structured.ipynb, cell structured-06
def framed_inverse(P, frame, rank=0):
    """Best covariance that is, along the columns of a frame, a block for the first
    `rank` of them and a diagonal for the others.  [eq-lean-frame]

    P (...,h,h) precisions, frame (h,h) or (...,h,h) invertible -> (...,h,h)
    """
    first = np.arange(len(frame[-1])) < rank
    keep = np.outer(first, first) | np.eye(len(first), dtype=bool)
    across = np.swapaxes(frame, -1, -2)
    return frame @ spd_inverse((across @ P @ frame) * keep)[0] @ across


def shared_inverse(P, weight, groups):
    """Best covariance that all rows of a group share: the inverse of their mean
    precision.  [eq-lean-shared]

    P (N,K,h,h), weight (N,K) >= 0, groups (N,) -> (N,K,h,h); where an expert has no
    weight in a group any covariance is best, and its rows there count alike
    """
    out = np.empty_like(P)
    for g in np.unique(groups):
        rows = groups == g
        weights = np.where(weight[rows].sum(0) > 0, weight[rows], 1.0)
        share = weights / weights.sum(0)
        out[rows] = spd_inverse(np.einsum("nk,nkij->kij", share, P[rows]))[0]
    return out


# book/beyond/structured.ipynb, cell structured-07
def noise_frames(tau, evidence):
    """Frames in which the noise has precision I and the mean evidence is diagonal,
    largest first.  [eq-lean-axes]   tau (G,h), evidence (G,h,h) -> (G,h,h)"""
    root = tau[:, :, None] ** -0.5
    _, vectors = np.linalg.eigh(evidence * root * np.swapaxes(root, 1, 2))
    return root * vectors[:, :, ::-1]


# book/beyond/structured.ipynb, cell structured-09
class Family(NamedTuple):
    """A family of q(x1, z).  [eq-lean-best]

    own       a Gaussian for each expert, or one for the row   [eq-lean-row]
    shape     its covariance: "free", "axes" (diagonal), "framed" (by a frame of each
              expert [eq-lean-axes]), "shared" by all rows, "by-class" by those of a class
    """
    own: bool
    shape: str


LATENT_POSTERIORS = {
    "full": Family(True, "free"),
    "diagonal": Family(True, "axes"),
    "low-rank": Family(True, "framed"),
    "shared": Family(True, "shared"),
    "class-shared": Family(True, "by-class"),
    "mean-field": Family(False, "free"),
    "mean-field-diagonal": Family(False, "axes"),
    "mean-field-shared": Family(False, "by-class")}


# book/beyond/structured.ipynb, cell structured-10
def structured_latents(X, y, state, family, frame=None, rank=0):
    """Best q(x1|z) of a Family, given all else.  [eq-lean-best, eq-lean-row]

    state State; frame (K,h,h) and rank for "framed" -> mu (N,K,h), Sigma (N,K,h,h)
    Without own Gaussians every expert has the row's; state.local.xi1 is (N,L-1) then.
    """
    q = state.local
    mu, Sigma = latent_update(X, y, state.parameters, q.xi1)
    P, weight = spd_inverse(Sigma)[0], q.gamma
    if not family.own:
        eta = np.einsum("nk,nkij,nkj->ni", weight, P, mu)[:, None, :, None]
        P = np.einsum("nk,nkij->nij", weight, P)[:, None]
        mu, weight = np.linalg.solve(P, eta)[..., 0], np.ones((len(X), 1))
    best = {"free": lambda: spd_inverse(P)[0],
            "axes": lambda: framed_inverse(P, np.eye(mu.shape[-1])),
            "framed": lambda: framed_inverse(P, frame, rank),
            "shared": lambda: shared_inverse(P, weight, np.zeros(len(X))),
            "by-class": lambda: shared_inverse(P, weight, y)}[family.shape]()
    return np.broadcast_to(mu, q.mu.shape), np.broadcast_to(best, q.Sigma.shape)


# book/beyond/structured.ipynb, cell structured-11
def structured_updates(family, frame=None, rank=0):
    """The seven updates, with q(x1|z) of a Family.  [eq-lean-best]
    -> dict like UPDATES"""
    def latents(s, X, y, priors):
        mu, Sigma = structured_latents(X, y, s, family, frame, rank)
        return s.replace(mu=mu, Sigma=Sigma)
    return {**UPDATES, "x": latents}


# book/beyond/structured.ipynb, cell structured-16
def conjugate_steps(product, eta, mu, precondition, steps):
    """Steps of conjugate gradients towards the solution of P mu = eta, for many
    systems side by side.  [eq-lean-steps]

    product, precondition: (h,...) -> (h,...), times P and times a guess of its inverse
    eta, mu (h,...), mu where to begin -> (h,...)
    """
    rest = eta - product(mu)
    step = precondition(rest)
    size = np.einsum("i...,i...->...", rest, step)
    for left in range(steps, 0, -1):
        bent = product(step)
        curve = np.einsum("i...,i...->...", step, bent)
        length = size / np.where(curve > 0, curve, 1.0)
        mu = mu + length * step
        if left == 1:
            break
        rest -= length * bent
        fresh, old = precondition(rest), size
        size = np.einsum("i...,i...->...", rest, fresh)
        step = fresh + size / np.where(old > 0, old, 1.0) * step
    return mu


# book/beyond/structured.ipynb, cell structured-19
COEFFICIENTS = {"full": (), "diagonal": ("V", "beta0_S", "beta1_S"),
                "diagonal-inputs": ("V", "beta0_S"), "diagonal-output": ("beta1_S",)}


def diagonal_mstep(sums, parameters, priors, fields=()):
    """mstep with diagonal covariances of the fields.  [eq-lean-coefficients]

    arguments as in mstep, fields of Parameters -> Parameters, J(new) - KL(new)
    """
    after, value = mstep(sums, parameters, priors)
    for field in fields:
        P, log_det_S = spd_inverse(getattr(after, field))
        diagonal = np.diagonal(P, axis1=1, axis2=2)
        copies = after.M.shape[1] if field == "V" else 1
        value -= 0.5 * copies * (np.log(diagonal).sum() + log_det_S.sum())
        after = after._replace(
            **{field: np.eye(P.shape[-1]) / diagonal[:, :, None]})
    return after, value


# book/beyond/structured.ipynb, cell structured-21
class Thrift(NamedTuple):
    """How a fit saves.  [eq-lean-best, eq-lean-steps, eq-lean-coefficients]

    family Family, rank of the block, steps of conjugate gradients for the means,
    fields of Parameters with diagonal covariances
    """
    family: Family
    rank: int = 0
    steps: int = 2
    fields: tuple = ()


class FrameTables(NamedTuple):
    """Kept entries of R^T P R and covariances R S R^T as matrix products; F entries: the
    block's lower triangle, then the diagonal.  [eq-lean-frame]   G frames

    frame (G,h,h);  bend (G,F,J), lift (G,F,h): entries from E[omega_1] and from tau
    fill (G,h(h+1)/2,F): R S R^T, packed, from S;  log_det (G,): 2 ln |det R|
    """
    frame: np.ndarray
    bend: np.ndarray
    lift: np.ndarray
    fill: np.ndarray
    log_det: np.ndarray


def frame_tables(frame, B, rank):
    """frame (G,h,h), B (J,h,h) = E[beta_1 beta_1^T] without bias -> FrameTables.
    [eq-lean-frame]"""
    h = frame.shape[-1]
    i, j = lower_triangle(h)[:2]
    rest = np.arange(rank, h)
    a, b = (np.concatenate([part, rest]) for part in lower_triangle(rank)[:2])
    left, right = frame[:, :, a], frame[:, :, b]
    fill = left[:, i] * right[:, j] + (a != b) * left[:, j] * right[:, i]
    return FrameTables(
        frame, np.einsum("gif,lij,gjf->gfl", left, B, right, optimize=True),
        (left * right).transpose(0, 2, 1), fill, log_det(frame @ frame.swapaxes(1, 2)))


def by_owner(tables, x):
    """Matrices for each of the G Gaussians of a row.  [eq-lean-frame]

    tables (1 or G,F,J), x (J,G,B) -> (F,G,B)"""
    if len(tables) == 1:
        return (tables[0] @ x.reshape(len(x), -1)).reshape(-1, *x.shape[1:])
    return np.matmul(tables, x.transpose(1, 0, 2)).transpose(1, 0, 2)


def framed_entries(tables, tilt, tau, rank):
    """What remains of R^T P R, inverted.  [eq-lean-frame]

    tables FrameTables, tilt (J,G,B), tau (h,G,1 or B) -> S: block (rank,rank,G,B) and
    diagonal (h-rank,G,B); log |R S R^T| (G,B)
    """
    kept = by_owner(tables.bend, tilt) + by_owner(tables.lift, tau)
    size = rank * (rank + 1) // 2
    entry = lower_triangle(rank)[3].ravel()
    block = kept[entry].reshape(rank, rank, *kept.shape[1:])
    log_dets = -np.log(kept[size:]).sum(0) + tables.log_det[:, None]
    if rank:
        block, log_det_block = spd_inverse_stacked(block, True)
        log_dets = log_dets - log_det_block
    return block, 1 / kept[size:], log_dets
