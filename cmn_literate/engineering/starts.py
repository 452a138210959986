# Tangled from book/engineering/starts.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Starts: where a fit begins

A start that gives each output stick a latent dimension of its own, and each expert a region of the
inputs, is off every saddle and knows the labels before the first sweep.
"""

__all__ = ["class_code", "standard_columns", "cluster_labels", "soften", "few_regions",
           "hyperplane_labels", "code_experts", "code_gate", "START_ROWS", "key_generator",
           "start_rows", "whole_weights", "repeat_scale", "repeated_before", "repeat_block",
           "repeat_rows", "init_parameters", "complete_start"]


# book/engineering/starts.ipynb, cell starts-02
import warnings
from copy import deepcopy

import numpy as np

from cmn_literate.checks import STARTS, check_choice
from cmn_literate.engineering.packed import packed_gram
from cmn_literate.ideas.expfam import pad
from cmn_literate.ideas.logistic import coefficients_from_sums
from cmn_literate.ideas.polya_gamma import pg_mean
from cmn_literate.ideas.stick_breaking import stick_counts
from cmn_literate.network.cavi import local_factors, prior_start, random_start
from cmn_literate.network.experts import experts_from_sums
from cmn_literate.network.gate import gate_tilt
from cmn_literate.network.latents import Parameters


# book/engineering/starts.ipynb, cell starts-05
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


# book/engineering/starts.ipynb, cell starts-08
def standard_columns(X):
    """Columns less their mean over their deviation, so that units do not matter;
    constant columns are 0.  [eq-class-prior]   X (N,d) -> (N,d)"""
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def cluster_labels(X, n_regions, rng):
    """k-means cluster of every row, the largest first.  [eq-class-prior]

    X (N,d), rng Generator -> (N,) in 0..n_regions-1, of standard_columns.
    """
    if n_regions == 1 or len(X) < 2:
        return np.zeros(len(X), int)
    from scipy.cluster.vq import kmeans2                # here: it is slow to import

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")                 # an empty cluster is fine
        k = min(n_regions, len(X))
        label = kmeans2(standard_columns(X), k, minit="++", rng=rng)[1]
    order = np.argsort(-np.bincount(label, minlength=n_regions), kind="stable")
    return np.argsort(order)[label]


def soften(label, n_experts, confidence=0.9):
    """Responsibilities (N,K): confidence on the labelled expert, the rest spread
    evenly over all experts.  [eq-row-gamma]"""
    return confidence * np.eye(n_experts)[label] + (1 - confidence) / n_experts


# book/engineering/starts.ipynb, cell starts-12
def few_regions(n_rows, D, n_experts):
    """How many regions a start should cut out.  [eq-few-regions]"""
    return max(1, min(n_experts, n_rows // D))


def hyperplane_labels(X, n_regions, rng):
    """Regions of equal size, cut off one after the other.  [eq-hyperplanes]

    X (N,d), rng Generator -> (N,) in 0..n_regions-1, of standard_columns.
    """
    Z, left = standard_columns(X), np.arange(len(X))
    label = np.full(len(X), n_regions - 1)
    for j in range(n_regions - 1):
        along = Z[left] @ rng.normal(size=Z.shape[1])
        order = np.argsort(along, kind="stable")
        cut = order[:round(len(left) / (n_regions - j))]
        label[left[cut]] = j
        left = np.delete(left, cut)
    return label


# book/engineering/starts.ipynb, cell starts-15
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
            sums = gamma.sum(0), packed_gram(X[part], gamma), cross, squares
            total = [t + u for t, u in zip(total, sums)]
        factors, _ = experts_from_sums(*total, M, priors)
        M = factors[0]
    return factors


# book/engineering/starts.ipynb, cell starts-16
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
            gram = gram + packed_gram(rows, omega)
            linear = linear + kappa.T @ pad(rows)
        mu, S, _ = coefficients_from_sums(gram, linear, priors.sigma0)
    return mu, S


# book/engineering/starts.ipynb, cell starts-19
START_ROWS = 20_000                                 # more rows than a start needs


def key_generator(rng):
    """The Generator of the keys; rng stays where it is.  [eq-start-rows]"""
    return np.random.default_rng(deepcopy(rng).integers(2**63))


def start_rows(X, y, rng, most=START_ROWS):
    """At most so many of the rows, in their order.  [eq-start-rows]

    X (N,d), y (N,), rng Generator -> X (m,d), y (m,)"""
    if len(X) <= most:
        return X, y
    stay = np.sort(np.argpartition(key_generator(rng).random(len(X)), most)[:most])
    return X[stay], y[stay]


# book/engineering/starts.ipynb, cell starts-22
def whole_weights(weight):
    """Whether all weights (B,) are whole numbers; True for None.  [eq-repeat-rows]"""
    return weight is None or np.array_equal(weight, np.floor(weight))


def repeat_scale(n_rows, total, whole, most=1 << 20):
    """What the weights of n_rows are multiplied by before they are rounded.
    [eq-repeat-rows]

    total of the weights.  Whole numbers that add up to at most `most` are taken as
    they are; else the weights are scaled to add up to n_rows.
    """
    return 1.0 if whole and total <= most else n_rows / total


def repeated_before(upto, scale):
    """How many repeated rows there are up to a total weight.  [eq-repeat-rows]"""
    return np.floor(scale * upto + (0.5 + 2.0**-20)).astype(int)


def repeat_block(weight, scale, before=0.0):
    """repeat_rows of a block, whose rows come after a total weight `before`.
    [eq-repeat-rows]   -> indices (M,) of its rows (B,), total weight up to its end"""
    upto = np.cumsum(np.append(before, weight))
    counts = np.diff(repeated_before(upto, scale))
    return np.repeat(np.arange(len(weight)), counts), upto[-1]


def repeat_rows(weight, most=1 << 20):
    """Rows to start from when rows have weights: row n about weight[n] times.
    [eq-repeat-rows]

    weight (N,) >= 0 -> indices (M,), ascending; most as in repeat_scale
    """
    scale = repeat_scale(len(weight), weight.sum(), whole_weights(weight), most)
    return repeat_block(weight, scale)[0]


def init_parameters(X, y, n_experts, latent_dim, n_classes, priors, rng,
                    method="class-code", weight=None):
    """Global factors to start from.  [eq-class-code, eq-repeat-rows,
    eq-start-rows, eq-few-regions, eq-hyperplanes]

    method  "class-code": targets by class, K regions by k-means
            "few-clusters", "hyperplanes": the same with few_regions, by k-means or
            by random hyperplanes
            "random": means of standard deviation 3, narrow covariances
            "prior": the saddle, for study
    rng Generator, weight (N,) of the rows or None
    -> Parameters.   ValueError for any other method.
    """
    K, h, L, D = n_experts, latent_dim, n_classes, X.shape[1] + 1
    if method in ("prior", "random"):
        start = prior_start if method == "prior" else random_start
        return start(K, h, L, D, priors, rng)
    check_choice(method, "method", STARTS, '"')
    if weight is not None:
        rows = repeat_rows(weight)
        X, y = X[rows], y[rows]
    X, y = start_rows(X, y, rng)
    code, weights = class_code(L, h)
    draw = hyperplane_labels if method == "hyperplanes" else cluster_labels
    R = K if method == "class-code" else few_regions(len(X), D, K)
    label = draw(X, R, rng)
    target = code[y] + 0.1 * rng.normal(size=(len(X), h))  # off the saddle
    beta1_S = np.tile(0.01 * np.eye(h + 1), (L - 1, 1, 1))
    return Parameters(np.pad(weights, ((0, 0), (0, 1))), beta1_S,
                      *code_gate(X, label, K, priors),
                      *code_experts(X, label, target, K, priors))


# book/engineering/starts.ipynb, cell starts-23
def complete_start(X, y, n_experts, latent_dim, n_classes, priors, rng,
                   method="class-code", shared=False, weight=None):
    """Complete starting State: init_parameters, then x and omega0 with xi1 = 0 and
    uniform gamma.  [eq-latent-x, eq-gate-tilt]   rng int or Generator"""
    parameters = init_parameters(X, y, n_experts, latent_dim, n_classes, priors,
                                 np.random.default_rng(rng), method, weight)
    return local_factors(parameters, X, y, shared, rounds=0)
