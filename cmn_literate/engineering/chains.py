# Tangled from book/engineering/chains.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Chains: many walkers, one run

If a chain is a plain value and its next stretch is a function of that value alone, then neither
the order in which chains are served, nor the number of processes, nor a night in between can
change a single draw.
"""

__all__ = ["spawn", "run_chains", "in_step", "attend", "stack_chains", "unstack_chains"]


# book/engineering/chains.ipynb, cell chains-02
import signal
from collections import deque
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import closing

import numpy as np


# book/engineering/chains.ipynb, cell chains-05
def spawn(rng, n):
    """n Generators, the next children of rng.  [eq-chain-children]

    ValueError if rng is a Generator that cannot have children.
    """
    try:
        return rng.spawn(n)
    except TypeError:
        raise ValueError("rng: expected a seed or a Generator that can spawn "
                         f"others, got {rng!r}") from None


# book/engineering/chains.ipynb, cell chains-08
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
    with ProcessPoolExecutor(n_jobs, initializer=signal.signal,
                             initargs=(signal.SIGINT, signal.SIG_IGN)) as pool:
        running = {pool.submit(advance, chain) for chain in filter(unfinished, chains)}
        try:
            while running:
                ready, running = wait(running, return_when=FIRST_COMPLETED)
                for chain, kept in [job.result() for job in ready]:
                    if unfinished(chain):
                        running.add(pool.submit(advance, chain))
                    yield chain, kept
        finally:
            for job in running:
                job.cancel()


# book/engineering/chains.ipynb, cell chains-10
def in_step(portions, n_chains):
    """Rounds of portions, one of every chain, in the order of chain.index.
    [eq-chain-commute]   portions of run_chains -> iterator over lists of them"""
    waiting = [deque() for _ in range(n_chains)]
    with closing(portions):
        for portion in portions:
            waiting[portion[0].index].append(portion)
            if all(waiting):
                yield [queue.popleft() for queue in waiting]


# book/engineering/chains.ipynb, cell chains-14
def attend(portions, note, save, due, callback=None):
    """Take all portions; store when due, and at the end however it comes.
    [eq-chain-commute]

    note(portion) -> (done, value) puts it where it belongs
    save() writes a file; due(done) says whether to do so now
    callback(done, value) after each portion
    -> the KeyboardInterrupt that ended it, or None
    """
    try:
        with closing(portions):
            for portion in portions:
                done, value = note(portion)
                if due(done):
                    save()
                if callback is not None:
                    callback(done, value)
    except KeyboardInterrupt as interrupt:
        return interrupt
    finally:
        save()
    return None


# book/engineering/chains.ipynb, cell chains-16
def stack_chains(chains):
    """{"chain00": part 0 of all chains, ...}, arrays for a file.  [eq-chain-step]
    chains: for each the same number of numbers and arrays"""
    return {f"chain{j:02d}": np.array(part) for j, part in enumerate(zip(*chains))}


def unstack_chains(arrays):
    """The chains of stack_chains, as lists; other names are left alone.
    [eq-chain-step]"""
    parts = [arrays[name] for name in sorted(arrays) if name.startswith("chain")]
    return [[v.item() if np.ndim(v) == 0 else np.array(v) for v in chain]
            for chain in zip(*parts)]
