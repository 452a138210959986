"""Chains in turns: processes do not matter, errors and interrupts of workers come through, files are written however the run ends."""
import signal
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from cmn_literate.engineering.chains import attend, in_step, run_chains, spawn, stack_chains, unstack_chains


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
def test_rounds_hold_every_chain_once_and_in_order(n_jobs):
    rounds = list(in_step(run_chains(stroll, start(), walking, n_jobs), 3))
    assert [[walker.index for walker, _ in r] for r in rounds] == [[0, 1, 2]] * 4
    assert [[walker.done for walker, _ in r] for r in rounds] == [[2] * 3, [4] * 3, [6] * 3, [7] * 3]
    assert_array_equal(paths(p for r in rounds for p in r), ALONE)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_of_a_chain_comes_through(n_jobs):
    with pytest.raises(ArithmeticError, match="lost"):
        list(run_chains(partial(stroll, fail_at=(1, 3)), start(), walking, n_jobs))


def test_workers_leave_the_interrupt_to_the_main_process():
    assert [heard for _, heard in run_chains(hears_interrupts, start(), walking, 2)] == [False] * 3
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("error", [None, KeyboardInterrupt, OSError])
def test_what_was_noted_is_stored_however_the_end_comes(error, n_jobs):
    noted, stored, told = [], [], []

    def note(portion):
        noted.append(portion[0].done)
        return len(noted), sum(noted)

    def callback(done, value):
        told.append((done, value, list(stored)))
        if error and done == 5:
            raise error("now")

    def go():
        return attend(run_chains(stroll, start(), walking, n_jobs), note, lambda: stored.append(len(noted)), lambda done: done == 2, callback)

    if error is OSError:
        with pytest.raises(OSError, match="now"):
            go()
    else:
        assert isinstance(go(), error or type(None))
    last = 5 if error else 12
    assert len(noted) == last and stored == [2, last]
    assert [done for done, *_ in told] == list(range(1, last + 1)) and told[0][2] == [] and told[1][2] == [2]


def test_an_interrupt_inside_a_chain_is_handed_back():
    def interrupted(walker):
        if walker.done == 4:
            raise KeyboardInterrupt
        return stroll(walker)

    noted = []
    cut = attend(run_chains(interrupted, start(), walking), lambda p: (noted.append(p), 0.0), lambda: None, lambda done: False)
    assert isinstance(cut, KeyboardInterrupt) and len(noted) == 6


def test_children_and_arrays():
    a, b = (spawn(np.random.default_rng(3), n) for n in (2, 4))
    assert [g.random() for g in a] == [g.random() for g in b[:2]]
    with pytest.raises(ValueError, match="^rng: expected a seed or a Generator that can spawn others, got Generator"):
        spawn(np.random.Generator(np.random.RandomState(0)._bit_generator), 1)
    chains = [[i, 0.5, np.full((2, 3), i)] + [np.arange(4)] * 9 for i in range(3)]
    back = unstack_chains({"kept0": np.ones(3), **stack_chains(chains)})
    assert all(type(u) is type(v) and np.array_equal(u, v) for one, two in zip(back, chains) for u, v in zip(one, two)) and len(back) == 3
