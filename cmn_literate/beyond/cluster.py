# Tangled from book/beyond/cluster.ipynb by tools/tangle.py; edit the notebook, not this file.
"""A cluster: rows that never meet

A sweep over rows on many machines needs no row to move: each machine sends sums of a fixed size,
added in a fixed order, and the fit is that of one machine to rounding. What a dead machine takes
with it, its rows' tilts, can be made again from nothing without lowering the bound, and the
seconds and bytes of a sweep can be counted beforehand.
"""

__all__ = ["pairwise", "SHARD_ROWS", "MOST_SHARDS", "shard_rows", "shard_slices", "merge_surveys",
           "settle", "shard_sweep", "row_counts", "sums_bytes", "Prices", "fit_rates", "FitPlan",
           "plan"]


# book/beyond/cluster.ipynb, cell cluster-02
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from cmn_literate.engineering.out_of_core import row_bytes
from cmn_literate.engineering.sources import merge_moments
from cmn_literate.engineering.sums import Block, add_sums, estep, prepare


# book/beyond/cluster.ipynb, cell cluster-07
def pairwise(items, add):
    """One sum of all items: neighbours first, then neighbours of the pairs, and so on.
    [eq-cluster-tree]   items: at least one, in their order; add(left, right)"""
    items = list(items)
    while len(items) > 1:
        pairs = [add(*items[i:i + 2]) for i in range(0, len(items) - 1, 2)]
        items = pairs + items[2 * len(pairs):]
    return items[0]


# book/beyond/cluster.ipynb, cell cluster-08
SHARD_ROWS, MOST_SHARDS = 1 << 16, 1024


def shard_rows(n_rows):
    """Least rows of a shard; the number of workers has no say.  [eq-cluster-tree]"""
    return max(SHARD_ROWS, -(-n_rows // MOST_SHARDS))


def shard_slices(sizes):
    """Which parts of a source make a shard: consecutive ones, until there are enough
    rows.  [eq-cluster-tree]   sizes: rows of the parts -> list of slices"""
    enough, slices, begin, rows = shard_rows(sum(sizes)), [], 0, 0
    for i, size in enumerate(sizes, 1):
        rows += size
        if rows >= enough or i == len(sizes):
            slices.append(slice(begin, i))
            begin, rows = i, 0
    return slices


# book/beyond/cluster.ipynb, cell cluster-09
def merge_surveys(left, right):
    """Survey of the rows of both, without a sample.  [eq-moments-merge]"""
    kinds = [one.classes.dtype.kind in "UOS" for one in (left, right)]
    if kinds[0] != kinds[1]:
        raise ValueError(f"y: expected labels of one kind, got {left.classes[0]!r} and "
                         f"{right.classes[0]!r}")
    classes = np.unique(np.concatenate([left.classes, right.classes]))
    counts = np.zeros(len(classes), left.counts.dtype)
    for one in (left, right):
        counts[np.searchsorted(classes, one.classes)] += one.counts
    return left._replace(
        n_rows=left.n_rows + right.n_rows, classes=classes, counts=counts,
        whole=left.whole and right.whole,
        moments=merge_moments(left.moments, right.moments))


# book/beyond/cluster.ipynb, cell cluster-12
def settle(prep, rows, omega, gamma=None, tol=1e-12, most=100, estep=estep):
    """Tilts of a block at their best under the global factors.  [eq-cluster-settle]

    arguments as in estep; rounds until one gains less than tol nats a row (or for
    each unit of weight)
    -> omega, gamma for the next E-step
    """
    bound, n_rows = -np.inf, rows.b.shape[1] if rows.weight is None else rows.weight.sum()
    for _ in range(most):
        sums, omega, fresh = estep(prep, rows, omega, 1, gamma)
        gamma = None if gamma is None else fresh
        if sums.bound - bound <= tol * n_rows:
            break
        bound = sums.bound
    return omega, gamma


# book/beyond/cluster.ipynb, cell cluster-13
def shard_sweep(blocks, parameters, inner=1, lost=False, estep=estep):
    """The E-step of the rows that one worker holds.  [eq-cluster-tree]

    lost: their tilts are not those of the last sweep, and settle first
    estep: as in block_sweep
    -> renewed blocks, Sums
    """
    prep, total, renewed = prepare(parameters), None, []
    with np.errstate():
        np.setbufsize(16)                   # ends with this block, in this thread
        for rows, omega, gamma in blocks:
            if lost:
                omega, gamma = settle(prep, rows, omega, gamma, estep=estep)
            sums, omega, fresh = estep(prep, rows, omega, inner, gamma)
            total = sums if total is None else add_sums(total, sums)
            renewed.append(Block(rows, omega, None if gamma is None else fresh))
    return tuple(renewed), total


# book/beyond/cluster.ipynb, cell cluster-19
def row_counts(d, K, h, L):
    """Work of a row in a sweep: products, arithmetic, functions, inputs.
    [eq-cluster-row]   -> (4,)"""
    D, J = d + 1, L - 1
    T = D * (D + 1) // 2
    products = ((2 * K - 1) * T + K * (h * (D + 1) + K - 1)
                + J * (h + 1) * (K * (h + 1) + 1))
    return np.array([4 * products,
                     K * (h**3 + 3 * h**2 + 2 * h) / 3 + K * h * (h + 1) / 2,
                     K * (J + 1), T + D + 2 * J], float)


def sums_bytes(d, K, h, L):
    """Bytes of a Sums.  [eq-cluster-bytes]"""
    D, J = d + 1, L - 1
    T = D * (D + 1) // 2
    return 8 * ((2 * K - 1) * T + (K - 1) * D + K * (h * D + h + 1)
                + J * ((h + 1) * (h + 2) // 2 + h + 1) + 1)


# book/beyond/cluster.ipynb, cell cluster-20
class Prices(NamedTuple):
    """What a cluster charges.  [eq-cluster-seconds]

    rates (4,) seconds for one of row_counts;  task, wait: seconds t1 of a shard and t0
    of a sweep;  read: seconds to read and lay out a number of a file
    """
    rates: np.ndarray
    task: float = 1e-3
    wait: float = 0.0
    read: float = 0.0


def fit_rates(sizes, seconds):
    """Rates from measured seconds of a row, least squares of relative errors, none
    below 0.  [eq-cluster-row]   sizes: list of (d,K,h,L); seconds (n,) -> (4,)"""
    counts = np.array([row_counts(*size) for size in sizes])
    return nnls(counts / np.array(seconds)[:, None], np.ones(len(sizes)))[0]


class FitPlan(NamedTuple):
    """What a fit will take.  [eq-cluster-seconds, eq-cluster-bytes]

    shards;  sweep, reading: seconds of a sweep, and of what goes before the first
    worker_bytes of the rows on one worker;  sums_bytes of one addition
    moved_bytes: at most so many in all per sweep, with the parameters that go out
    """
    shards: int
    sweep: float
    reading: float
    worker_bytes: int
    sums_bytes: int
    moved_bytes: int


def plan(n_rows, sizes, workers, prices, shared=False):
    """A fit before it is begun.  [eq-cluster-seconds, eq-cluster-bytes]

    sizes (d,K,h,L);  workers: of one thread each;  prices Prices -> FitPlan
    """
    d, K, h, L = sizes
    shards = -(-n_rows // shard_rows(n_rows))
    most = -(-shards // workers) * -(-n_rows // shards)      # rows of the fullest
    each, D = sums_bytes(*sizes), d + 1
    factors = 8 * (K * (h * D + D * D + h + 1) + (K - 1) * (D + D * D)
                   + (L - 1) * ((h + 1) + (h + 1)**2))
    return FitPlan(shards, most * (row_counts(*sizes) @ prices.rates) + prices.wait
                + prices.task * shards, most * (d + 1) * prices.read,
                most * sum(row_bytes(d, K, L, shared)), each,
                (shards - 1) * each + min(workers, shards) * factors)
