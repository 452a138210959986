"""Chains in turns: processes do not matter, errors and interrupts of workers come through."""
import signal
import subprocess
import sys
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from cmn_literate.engineering.chains import run_chains, spawn


SLOW = """
import multiprocessing.connection as connection
import time
from cmn_literate.engineering.chains import run_chains

def turn(chain):
    return (chain[0], chain[1] + 1), chain

def slow(*args, real=connection.wait):          # what wakes the pool's thread is seen late: with all that came after it
    found = real(*args)
    time.sleep(0.2)
    return found

def unfinished(chain):                          # by then the thread has nothing left to hear
    time.sleep(0.5)
    return True

connection.wait = slow
portions = run_chains(turn, [(0, 0)], unfinished, n_jobs=2)
next(portions)
portions.close()                                # its next turn is asked for and not begun
print("ended")
"""


class Walker(NamedTuple):
    index: int
    done: int
    place: np.ndarray


def walking(walker):
    return walker.done < 7


def stroll(walker, steps=2, fail_at=None):
    """Some steps, none beyond 7; each has random numbers of its own."""
    kept = []
    for _ in range(min(steps, 7 - walker.done)):
        place = np.sin(walker.place) + np.random.default_rng([walker.index, walker.done]).normal(size=2)
        walker = walker._replace(done=walker.done + 1, place=place)
        kept.append(place)
        if (walker.index, walker.done) == fail_at:
            raise ArithmeticError("lost")
    return walker, kept


def hears_interrupts(walker):
    return walker._replace(done=7), signal.getsignal(signal.SIGINT) is not signal.SIG_IGN


def start(n=3):
    return [Walker(i, 0, np.zeros(2)) for i in range(n)]


def paths(portions, n=3):
    found = [[] for _ in range(n)]
    for walker, kept in portions:
        found[walker.index] += kept
    return np.array(found)


ALONE = np.array([stroll(walker, 7)[1] for walker in start()])


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
@pytest.mark.parametrize("steps", [1, 3, 7])
def test_processes_and_portions_do_not_matter(n_jobs, steps):
    assert_array_equal(paths(run_chains(partial(stroll, steps=steps), start(), walking, n_jobs)), ALONE)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_finished_chains_are_left_alone(n_jobs):
    begun = [stroll(walker, steps)[0] for walker, steps in zip(start(), (7, 4, 0))]
    later = paths_by_walker(run_chains(stroll, begun, walking, n_jobs))
    assert {i: len(p) for i, p in later.items()} == {1: 3, 2: 7}
    assert_array_equal(later[1], ALONE[1, 4:])
    assert list(run_chains(stroll, begun[:1], walking, n_jobs)) == []


def paths_by_walker(portions):
    found = {}
    for walker, kept in portions:
        found.setdefault(walker.index, []).extend(kept)
    return found


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_of_a_chain_comes_through(n_jobs):
    with pytest.raises(ArithmeticError, match="lost"):
        list(run_chains(partial(stroll, fail_at=(1, 3)), start(), walking, n_jobs))


def test_workers_leave_the_interrupt_to_the_main_process():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)    # a shell's job in the background begins without one
    try:
        assert [heard for _, heard in run_chains(hears_interrupts, start(), walking, 2)] == [False] * 3
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_run_that_is_left_does_not_wait_for_turns_that_nobody_has_begun():
    assert subprocess.run([sys.executable, "-c", SLOW], capture_output=True, text=True, timeout=600, check=True).stdout == "ended\n"


def test_children():
    a, b = (spawn(np.random.default_rng(3), n) for n in (2, 4))
    assert [g.random() for g in a] == [g.random() for g in b[:2]]
    with pytest.raises(ValueError, match="^rng: expected a seed or a Generator that can spawn others, got Generator"):
        spawn(np.random.Generator(np.random.RandomState(0)._bit_generator), 1)
