# Tangled from book/engineering/streams.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Streams: what the rows of yesterday leave behind

The natural parameters of every global factor have the layout of `Sums`: the prior is a share like
that of a block of rows, and a posterior is the sum of all shares. A share can be moved to another
reference mean and to other units of the columns without a row at hand. So a fit needs to keep
nothing besides its posterior and its bound to go on with new rows, and the bound that it then
reports is that of all rows.
"""

__all__ = ["factor_sums", "pack_entries", "factors_from_sums", "combine", "prior_sums", "gather",
           "rebase", "change_inputs", "seen_sums", "absorb", "learn_chunk"]


# book/engineering/streams.ipynb, cell streams-02
import numpy as np
from scipy.special import gammaln

from cmn_literate.engineering.fit import Fit, count_rows
from cmn_literate.engineering.packed import lower_triangle, unpack_symmetric
from cmn_literate.engineering.sources import ColumnMoments, block_moments, merge_moments, moment_scale
from cmn_literate.engineering.starts import init_parameters
from cmn_literate.engineering.sums import (
    Sums, estep, expected_log_joint, make_blocks, prepare, visit_blocks)
from cmn_literate.ideas.expfam import spd_inverse
from cmn_literate.inputs import as_generator, check_memory, default_latent_dim
from cmn_literate.network.latents import Parameters


# book/engineering/streams.ipynb, cell streams-06
def factor_sums(parameters, reference):
    """Natural parameters of the global factors, laid out as Sums.
    [eq-stream-natural, eq-stream-normaliser]

    Parameters, reference (K,h,D) from which means of experts are measured
    -> Sums; its bound is minus the log normaliser (nats)
    """
    p, pack = parameters, pack_entries
    (P, log_V), (P0, log_S0), (P1, log_S1) = map(
        spd_inverse, (p.V, p.beta0_S, p.beta1_S))
    away = p.M - reference
    cross = away @ P
    linear0 = (P0 @ p.beta0_mu[:, :, None])[:, :, 0]
    linear1 = (P1 @ p.beta1_mu[:, :, None])[:, :, 0]
    normaliser = _log_normaliser(p, -log_V, (-log_S0, -log_S1), (linear0, linear1))
    return Sums(-normaliser, 2 * p.a, pack(P), cross,
                2 * p.b + (away * cross).sum(-1), pack(P1), linear1, pack(P0), linear0)


# book/engineering/streams.ipynb, cell streams-07
def pack_entries(S):
    """Symmetric (..., m, m) -> (..., m(m+1)/2), its entries as they are; the inverse
    of unpack_symmetric.  [eq-outer-features]"""
    m = S.shape[-1]
    return S.reshape(S.shape[:-2] + (m * m,)).take(lower_triangle(m)[4], -1)


def _log_normaliser(p, log_P, log_dets, linears):
    """A(eta) of all factors.  [eq-stream-normaliser]"""
    h = p.M.shape[1]
    experts = h * (gammaln(p.a) - 0.5 * log_P) - p.a * np.log(p.b).sum(1)
    squares = [(mu * linear).sum() - log_det.sum() for mu, linear, log_det in zip(
        (p.beta0_mu, p.beta1_mu), linears, log_dets)]
    return experts.sum() + 0.5 * sum(squares)


def factors_from_sums(total, reference):
    """The inverse of factor_sums.  [eq-stream-back, eq-stream-normaliser]

    total Sums about reference (K,h,D): those of the prior and of all rows together
    -> Parameters, total.bound plus their log normaliser: the complete bound (nats)
       if total.bound has the local parts of the rows and that of the prior
    ValueError if total is that of no density.
    """
    s, (_, h, D) = total, reference.shape
    V, log_P = spd_inverse(unpack_symmetric(s.gram, D))
    S0, log_P0 = spd_inverse(unpack_symmetric(s.gate_gram, D))
    S1, log_P1 = spd_inverse(unpack_symmetric(s.output_gram, h + 1))
    shift = s.cross @ V
    a, b = 0.5 * s.n_k, 0.5 * (s.squares - (shift * s.cross).sum(-1))
    if not (a.min() > 0 and b.min() > 0):
        raise ValueError("total: expected the sums of a density, got shapes or rates "
                         f"down to {min(a.min(), b.min()):.3g}")
    mu0, mu1 = ((S @ linear[:, :, None])[:, :, 0] for S, linear in (
        (S0, s.gate_linear), (S1, s.output_linear)))
    after = Parameters(mu1, S1, mu0, S0, reference + shift, V, a, b)
    return after, s.bound + _log_normaliser(
        after, log_P, (log_P0, log_P1), (s.gate_linear, s.output_linear))


# book/engineering/streams.ipynb, cell streams-10
def combine(*terms):
    """sum_i w_i s_i of terms (w_i, Sums), all about one reference.
    [eq-stream-posterior]"""
    return Sums(*(sum(w * field for w, field in zip([w for w, _ in terms], fields))
                  for fields in zip(*(s for _, s in terms))))


# book/engineering/streams.ipynb, cell streams-11
def prior_sums(priors, parameters, reference=None):
    """The prior's share: factor_sums of the prior, written out.  [eq-stream-natural]

    priors Priors, parameters: for the sizes, and for the reference (their M) if none
    is given -> Sums
    """
    p, (K, h, D), J = priors, parameters.M.shape, len(parameters.beta1_mu)
    M = parameters.M if reference is None else reference
    normaliser = (K * h * (gammaln(p.a0) - p.a0 * np.log(p.b0) + 0.5 * D * np.log(p.v0))
                  + (K - 1) * D * np.log(p.sigma0) + J * (h + 1) * np.log(p.sigma1))
    return Sums(-normaliser, np.full(K, 2 * p.a0), _identities(K, D) / p.v0, -M / p.v0,
                2 * p.b0 + (M**2).sum(-1) / p.v0, _identities(J, h + 1) / p.sigma1**2,
                np.zeros((J, h + 1)), _identities(K - 1, D) / p.sigma0**2,
                np.zeros((K - 1, D)))


def _identities(count, m):
    """So many packed identities (count, m(m+1)/2)."""
    i, j = lower_triangle(m)[:2]
    return np.tile((i == j).astype(float), (count, 1))


def gather(blocks, parameters, inner=1, estep=estep, n_jobs=1):
    """E-step of blocks, and their share about parameters.M.
    [eq-block-sums, eq-stream-posterior]

    blocks of make_blocks, or of the last call -> renewed blocks, Sums whose bound is
    what of the bound no global factor has a part in
    """
    prep = prepare(parameters)
    parts, renewed = zip(*visit_blocks(blocks, prep, inner, estep, n_jobs))
    share = combine(*((1, sums) for sums in parts))
    local = share.bound - expected_log_joint(share, prep)
    return renewed, share._replace(bound=local)


# book/engineering/streams.ipynb, cell streams-14
def rebase(sums, move):
    """Sums about another reference, which lies by move (K,h,D) farther.
    [eq-stream-rebase]"""
    moved = move @ unpack_symmetric(sums.gram, move.shape[-1])
    squares = sums.squares - 2 * (move * sums.cross).sum(-1) + (move * moved).sum(-1)
    return sums._replace(cross=sums.cross - moved, squares=squares)


# book/engineering/streams.ipynb, cell streams-15
def change_inputs(sums, W):
    """Sums of the same rows when their padded inputs x~ become W x~ (D,D), about
    reference W^-1.  [eq-stream-inputs]"""
    def both(packed):
        return pack_entries(W @ unpack_symmetric(packed, len(W)) @ W.T)
    return sums._replace(gram=both(sums.gram), cross=sums.cross @ W.T,
                         gate_gram=both(sums.gate_gram),
                         gate_linear=sums.gate_linear @ W.T)


# book/engineering/streams.ipynb, cell streams-18
def seen_sums(result):
    """Share of all rows that a fit has seen, about its M.  [eq-stream-seen]

    result Fit -> Sums: its bound is the constant c of these rows
    """
    p = result.parameters
    share = combine((1, factor_sums(p, p.M)), (-1, prior_sums(result.priors, p)))
    return share._replace(squares=np.maximum(share.squares, 0.0),
                          bound=share.bound + result.elbo[-1])


def absorb(base, reference, start, X, y, priors, max_sweeps=500, tol=1e-6, inner=1,
           shared=False, weight=None):
    """Coordinate ascent on new rows; what earlier ones left is part of the prior.
    [eq-stream-posterior, eq-stream-weights, eq-stop]

    base       Sums about reference (K,h,D): prior_sums, and the share of earlier rows,
               or factor_sums of any Parameters that serve as the prior
    start      Parameters to begin with;  X (n,d), y (n,) new rows, weight (n,) or None
    others as in fit; priors is handed on -> Fit: elbo is the bound of all rows so far
    """
    (K, h, _), n_classes = start.M.shape, len(start.beta1_mu) + 1
    blocks = make_blocks(X, y, K, h, n_classes, shared, weight)
    p, elbo, converged = start, [], False
    while len(elbo) < max_sweeps and not converged:
        blocks, share = gather(blocks, p, inner)
        total = combine((1, rebase(base, p.M - reference)), (1, share))
        p, bound = factors_from_sums(total, p.M)
        converged = bool(elbo) and bool(bound - elbo[-1] < tol * count_rows(blocks))
        elbo.append(float(bound))
    return Fit(p, np.array(elbo), len(elbo), converged, n_classes, priors, shared)


# book/engineering/streams.ipynb, cell streams-24
def _units(old, new):
    """W of the change from one (mean, scale) to another.  [eq-stream-units]"""
    (m, s), (mean, scale) = old, new
    W = np.diag(np.append(s / scale, 1.0))
    W[:-1, -1] = (m - mean) / scale
    return W


def _past(est, moments):
    """What the fits of est have seen, in the units of moments: for each its base, its
    reference and parameters to begin with, which are what base says."""
    W = _units((est.mean_, est.scale_), moment_scale(moments, est.standardize))
    for result in est.fits_:
        reference = result.parameters.M @ np.linalg.inv(W)
        base = combine((1, prior_sums(est.priors, result.parameters, reference)),
                       (1, change_inputs(seen_sums(result), W)))
        yield base, reference, factors_from_sums(base, reference)[0]


def _begin(est, Z, codes, n_classes, weight):
    """The same for a first call: nothing seen yet, and the starts of fit."""
    sizes = est.n_experts, est.latent_dim or default_latent_dim(n_classes), n_classes
    for rng in as_generator(est.random_state).spawn(est.n_init):
        start = init_parameters(Z, codes, *sizes, est.priors, rng, est.init, weight)
        yield prior_sums(est.priors, start), start.M, start


def learn_chunk(est, X, codes, weight=None):
    """Let an estimator learn from further rows.
    [eq-stream-seen, eq-stream-units, eq-stream-weights, eq-moments-merge]

    est: its options and classes_, and after an earlier call fits_, mean_, scale_,
    method_, moments_; X (n,d) as given, codes (n,), weight (n,) > 0 or None: once each
    Sets these, n_rows_seen_, calls_.
    ValueError for a model, or an option, that cannot go on.
    """
    first, moments, before = not hasattr(est, "fits_"), block_moments(X, weight), 0
    if {est.method, getattr(est, "method_", "cavi")} != {"cavi"}:
        raise ValueError('method: expected "cavi" for partial_fit, got '
                         f'{getattr(est, "method_", est.method)!r}')
    if not first and len(est.fits_[0].parameters.M) != est.n_experts:
        raise ValueError(f"n_experts: expected {len(est.fits_[0].parameters.M)}, as in "
                         f"the first call, got {est.n_experts}")
    check_memory(*X.shape, est.n_experts, est.latent_dim, len(est.classes_))
    if not first:
        past = _moments_so_far(est)
        before, moments = getattr(est, "n_rows_seen_", round(past.n)), merge_moments(past, moments)
    mean, scale = moment_scale(moments, est.standardize)
    if not np.isfinite(scale).all():
        raise ValueError("X: expected values whose squares are finite")
    Z, begun = (X - mean) / scale, _past(est, moments)
    if first:
        begun = _begin(est, Z, codes, len(est.classes_), weight)
    fits = [absorb(*each, Z, codes, est.priors, est.max_sweeps, est.tol, est.inner,
                   est.omega1 == "shared", weight) for each in begun]
    if first and est.select != "average":
        fits = [max(fits, key=lambda result: result.elbo[-1])]
    est.fits_, est.method_, est.moments_ = fits, "cavi", moments
    est.mean_, est.scale_, est.n_rows_seen_ = mean, scale, before + len(X)
    est.calls_ = (*getattr(est, "calls_", ()), ("partial_fit", len(X)))


def _moments_so_far(est):
    """Moments of the rows that est has seen; a model of an older file knows how much
    they weigh from its posterior.  [eq-stream-seen]"""
    n, mean, deviation = getattr(est, "moments_", (None, est.mean_, est.scale_))
    return ColumnMoments(seen_sums(est.fits_[0]).n_k.sum() if n is None else n, mean, deviation)
