# Tangled from book/beyond/cluster.ipynb by tools/tangle.py; edit the notebook, not this file.
"""A cluster: rows that never meet

The sum over all rows is a sum of sums.
"""

__all__ = ["pairwise", "merge_surveys", "settle", "shard_sweep"]


# book/beyond/cluster.ipynb, cell cluster-02
import numpy as np

from cmn_literate.engineering.sources import merge_moments
from cmn_literate.engineering.sums import Block, add_sums, estep, prepare


# book/beyond/cluster.ipynb, cell cluster-03
def pairwise(items, add):
    """One sum of all items: neighbours first, then neighbours of the pairs, and so on.
    [eq-cluster-tree]   items: at least one, in their order; add(left, right)"""
    items = list(items)
    while len(items) > 1:
        pairs = [add(*items[i:i + 2]) for i in range(0, len(items) - 1, 2)]
        items = pairs + items[2 * len(pairs):]
    return items[0]


# book/beyond/cluster.ipynb, cell cluster-04
def merge_surveys(left, right):
    """Survey of the rows of both, without a sample.  [eq-moments-merge]"""
    classes = np.unique(np.concatenate([left.classes, right.classes]))
    counts = np.zeros(len(classes), int)
    for one in (left, right):
        counts[np.searchsorted(classes, one.classes)] += one.counts
    return left._replace(
        n_rows=left.n_rows + right.n_rows, classes=classes, counts=counts,
        moments=merge_moments(left.moments, right.moments))


# book/beyond/cluster.ipynb, cell cluster-05
def settle(prep, rows, omega, gamma=None, tol=1e-12, most=100):
    """Tilts of a block at their best under the global factors.  [eq-cluster-settle]

    arguments as in estep; rounds until one gains less than tol nats a row
    -> omega, gamma for the next E-step
    """
    bound, n_rows = -np.inf, rows.b.shape[1]
    for _ in range(most):
        sums, omega, fresh = estep(prep, rows, omega, 1, gamma)
        gamma = None if gamma is None else fresh
        if sums.bound - bound <= tol * n_rows:
            break
        bound = sums.bound
    return omega, gamma


# book/beyond/cluster.ipynb, cell cluster-06
def shard_sweep(blocks, parameters, inner=1, lost=False):
    """The E-step of the rows that one worker holds.  [eq-cluster-tree]

    lost: their tilts are not those of the last sweep, and settle first
    -> renewed blocks, Sums
    """
    prep, total, renewed = prepare(parameters), None, []
    with np.errstate():
        np.setbufsize(16)                   # ends with this block, in this thread
        for rows, omega, gamma in blocks:
            if lost:
                omega, gamma = settle(prep, rows, omega, gamma)
            sums, omega, fresh = estep(prep, rows, omega, inner, gamma)
            total = sums if total is None else add_sums(total, sums)
            renewed.append(Block(rows, omega, None if gamma is None else fresh))
    return tuple(renewed), total
