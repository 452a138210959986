# Tangled from book/beyond/climbs.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Climbs: where the ascent ends, and what to make of several ends

A climb is decided by its start more than by anything on the way.
"""

__all__ = ["tempered"]


# book/beyond/climbs.ipynb, cell climbs-02
import numpy as np

from cmn_literate.engineering.sums import block_sweep


# book/beyond/climbs.ipynb, cell climbs-03
def tempered(resume, hot=20.0, sweeps=100, inner=1):
    """Sweeps in which a row counts 1/T, T falling from hot to 1.  [eq-climb-temper]

    resume Resume -> Resume with fresh bounds, for fit(start=)
    """
    r = resume
    for share in hot ** (np.arange(sweeps) / sweeps - 1):
        warm = tuple(block._replace(rows=block.rows._replace(weight=share * (
            np.ones(block.rows.b.shape[1]) if block.rows.weight is None
            else block.rows.weight))) for block in r.blocks)
        warm, after, _ = block_sweep(warm, r.parameters, r.priors, inner)
        blocks = tuple(new._replace(rows=old.rows)
                       for new, old in zip(warm, r.blocks))
        r = r._replace(parameters=after, blocks=blocks)
    return r._replace(elbo=(), converged=False)
