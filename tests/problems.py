"""Random problems shared by the tests of updates, bound and fit."""
import tracemalloc

import numpy as np
from oracle import random_state_and_data

from cmn_literate.network.latents import State
from cmn_literate.network.simulate import Priors

PRIORS = Priors(v0=3.0, a0=2.5, b0=1.5, sigma0=2.0, sigma1=1.7)

# (N, d, K, L, h): ordinary; K=1; L=2 and h=1; h > L-1 (and h=3: general Cholesky); h < L-1; d=1; everything smallest; h=4
SIZES = [(7, 3, 3, 3, 2), (6, 2, 1, 3, 2), (6, 2, 3, 2, 1), (6, 2, 2, 2, 3), (7, 2, 3, 5, 2), (5, 1, 4, 3, 1), (3, 1, 1, 2, 1),
         (7, 4, 2, 4, 4)]
CASES = [(*size, shared) for size in SIZES for shared in (False, True)]


def name(case):
    N, d, K, L, h, shared = case
    return f"N{N}-d{d}-K{K}-L{L}-h{h}-{'shared' if shared else 'each'}"


def problem(case, seed=0):
    """(the package's State, X, y, the same state as the oracle's dict)."""
    *size, shared = case
    arrays, X, y = random_state_and_data(np.random.default_rng([seed, *size]), *size, shared=shared)
    return State.of(**arrays), X, y, arrays


def as_dict(state):
    return {field: np.array(value) for field, value in state.flat().items()}


def peak_bytes(f):
    """Largest memory, in bytes, that Python objects and arrays made by f() hold at once."""
    tracemalloc.start()
    f()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def random_spd(rng, *shape, condition=None):
    """Positive definite matrices (..., m, m), with a prescribed condition number if asked."""
    m = shape[-1]
    if condition is None:
        roots = rng.normal(size=(*shape, m + 3))
        return roots @ roots.swapaxes(-1, -2)
    Q = np.linalg.qr(rng.normal(size=(*shape, m)))[0]
    P = (Q * np.geomspace(1, condition, m)) @ Q.swapaxes(-1, -2)
    return (P + P.swapaxes(-1, -2)) / 2
