# Tangled from book/engineering/chains.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Chains: many walkers, one run

If a chain is a plain value and its next stretch is a function of that value alone, then neither
the order in which chains are served, nor the number of processes, nor a night in between can
change a single draw.
"""

__all__ = ["spawn", "worker_pool", "run_chains", "run_apart"]


# book/engineering/chains.ipynb, cell chains-02
import multiprocessing
import signal
from collections import deque
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from cmn_literate.parallel import joblib_backend


# book/engineering/chains.ipynb, cell chains-06
def spawn(rng, n):
    """n Generators, the next children of rng.  [eq-chain-children]

    ValueError if rng is a Generator that cannot have children.
    """
    try:
        return rng.spawn(n)
    except TypeError:
        raise ValueError("rng: expected a seed or a Generator that can spawn "
                         f"others, got {rng!r}") from None


# book/engineering/chains.ipynb, cell chains-09
@contextmanager
def worker_pool(n_jobs):
    """A pool of n_jobs processes, which leave Ctrl-C to this one.  [eq-chain-commute]

    RuntimeError in one line where processes are spawned and cannot come up."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SystemExit(1)             # a worker that reads the caller's script
    try:
        with ProcessPoolExecutor(n_jobs, initializer=signal.signal,
                                 initargs=(signal.SIGINT, signal.SIG_IGN)) as pool:
            try:
                yield pool
            finally:
                pool.shutdown(cancel_futures=True)
    except BrokenProcessPool:
        raise RuntimeError(
            "n_jobs: the worker processes ended at once; where processes are spawned, "
            'a script must do its work under `if __name__ == "__main__":`, '
            "or ask for n_jobs=1") from None


# book/engineering/chains.ipynb, cell chains-10
def run_chains(advance, chains, unfinished, n_jobs=1):
    """All chains to their ends in turns, portion by portion, in n_jobs processes.
    [eq-chain-step, eq-chain-commute]

    advance(chain) -> (chain, kept); with n_jobs > 1 it is pickled
    unfinished(chain) -> whether there is more to do
    -> iterator over (chain, kept)
    """
    if n_jobs == 1:
        turns = deque(filter(unfinished, chains))
        while turns:
            chain, kept = advance(turns.popleft())
            if unfinished(chain):
                turns.append(chain)
            yield chain, kept
        return
    with worker_pool(n_jobs) as pool:
        running = {pool.submit(advance, chain) for chain in filter(unfinished, chains)}
        while running:
            ready, running = wait(running, return_when=FIRST_COMPLETED)
            for chain, kept in [job.result() for job in ready]:
                if unfinished(chain):
                    running.add(pool.submit(advance, chain))
                yield chain, kept


def run_apart(function, items, n_jobs=1):
    """function of every item, in n_jobs processes: those of an active joblib backend,
    or else our own.  [eq-chain-commute]   -> iterator, in the order of the items"""
    parallel = joblib_backend()
    if n_jobs == 1 or len(items) < 2:
        yield from map(function, items)
    elif parallel is not None:
        from joblib import delayed
        yield from parallel(n_jobs=n_jobs)(delayed(function)(item) for item in items)
    else:
        with worker_pool(n_jobs) as pool:
            for job in [pool.submit(function, item) for item in items]:
                yield job.result()
