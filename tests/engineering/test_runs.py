"""The driver: any chain, any portion, any interrupt, any number of processes, the same run."""

import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from cmn_literate.engineering import runs
from cmn_literate.engineering.runs import Run, Work, advance, ascent_work, drive, never, restore_run, stored_generator
from cmn_literate.learners import LEARNERS, find_learner, progress_bar
from cmn_literate.engineering.fit import fit
from cmn_literate.network.simulate import Priors
from cmn_literate.storage import generator_state


def walk(state, t):
    """Each step depends on all before it and on the generator, which is part of the state."""
    place, rng = state
    twin = np.random.Generator(type(rng.bit_generator)())
    twin.bit_generator.state = rng.bit_generator.state
    place = np.sin(3 * place) + twin.normal() + t
    return (place, twin), ((place,) if t % 2 else None)


def starts():
    return [(float(c), np.random.default_rng(c)) for c in range(3)]


def work(**options):
    return Work(**{"start": starts, "step": walk, "total": 9, "finish": lambda run: run, "problem": ("walk", 1), "rng": None,
                   "objective": lambda states, c: states[c][0], "most": 2, "every": 2, **options})


def ends(run):
    return [place for place, _ in run.states], run.done, [[row[0] for row in rows] for rows in run.kept]


WHOLE = drive(work())


class Stop:
    """Ctrl-C at the nth call of a callback."""

    def __init__(self, when):
        self.when, self.seen = when, []

    def __call__(self, done, value):
        self.seen.append(done)
        if len(self.seen) == self.when:
            raise KeyboardInterrupt


def by_hand():
    out = []
    for state in starts():
        for t in range(9):
            state, _ = walk(state, t)
        out.append(state[0])
    return out


def test_the_run_is_the_walk():
    assert ends(WHOLE)[0] == by_hand() and WHOLE.done == [9] * 3 and WHOLE.reason == "steps"
    assert WHOLE.table()[0].shape == (3, 4)


@pytest.mark.parametrize("options", [dict(most=1), dict(most=100), dict(most=100, seconds=-1.0), dict(count=sum), dict(timed=True, every=0.0)], ids=str)
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_neither_portions_nor_processes_matter(options, n_jobs, tmp_path):
    assert ends(drive(work(**options), checkpoint=tmp_path / "c.npz", n_jobs=n_jobs)) == ends(WHOLE)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("when", [1, 2, 3, 4])
def test_an_interrupt_anywhere_and_a_second_call(when, n_jobs, tmp_path):
    path, stop = tmp_path / "c.npz", Stop(when)
    part = drive(work(), stop, path, n_jobs)
    assert part.reason == "interrupted" and min(part.done) == 2 * when == stop.seen[-1]
    for rows, whole in zip(part.kept, WHOLE.kept):
        assert [row[0] for row in rows] == [row[0] for row in whole[:len(rows)]]
    assert ends(restore_run(path, work())) == ends(part)
    again = Stop(99)
    assert ends(drive(work(start=lambda: pytest.fail("begun anew")), again, path, n_jobs)) == ends(WHOLE)
    assert again.seen[0] > stop.seen[-1] and list(tmp_path.iterdir()) == [path]
    assert ends(drive(work(), checkpoint=path)) == ends(WHOLE)                   # all done already


def test_an_interrupt_inside_a_portion_forgets_that_portion(tmp_path):
    calls = []

    def step(state, t):
        calls.append(t)
        if len(calls) == 8:                                                       # second portion of the first chain
            raise KeyboardInterrupt
        return walk(state, t)

    part = drive(work(step=step), checkpoint=tmp_path / "c.npz")
    assert part.reason == "interrupted" and part.done == [2, 2, 2]
    assert ends(drive(work(), checkpoint=tmp_path / "c.npz")) == ends(WHOLE)


def test_an_interrupt_before_anything_is_kept_is_an_interrupt_but_the_run_is_stored(tmp_path):
    path = tmp_path / "c.npz"
    with pytest.raises(KeyboardInterrupt):
        drive(work(most=1), Stop(1), path)
    assert restore_run(path, work()).done == [1, 1, 1]
    assert ends(drive(work(), checkpoint=path)) == ends(WHOLE)


def test_a_checkpoint_is_written_on_the_way(tmp_path, monkeypatch):
    stored, real = [], runs.store_run
    monkeypatch.setattr(runs, "store_run", lambda path, work, run: (stored.append(min(run.done)), real(path, work, run)))
    drive(work(every=4), checkpoint=tmp_path / "c.npz")
    assert stored == [4, 8, 9]
    stored.clear()
    drive(work(timed=True, every=1e9), checkpoint=tmp_path / "d.npz")
    assert stored == [9]


def test_a_file_of_another_run_is_refused(tmp_path):
    path = tmp_path / "c.npz"
    drive(work(rng=generator_state(np.random.default_rng(1))), checkpoint=path)
    before = path.read_bytes()
    for other in (work(), work(problem=("walk", 2)), work(rng=generator_state(np.random.default_rng(2)))):
        with pytest.raises(ValueError, match="checkpoint: expected a run of this problem, seed and options"):
            drive(other, checkpoint=path)
    with pytest.raises(ValueError, match="at most 8 steps, got 9 .*ask for more"):
        drive(work(rng=generator_state(np.random.default_rng(1)), total=8), checkpoint=path)
    assert path.read_bytes() == before
    np.savez(tmp_path / "x.npz", header=np.frombuffer(b"{}", np.uint8))
    with pytest.raises(ValueError, match="checkpoint: expected a file of a run"):
        drive(work(), checkpoint=tmp_path / "x.npz")
    path.write_bytes(before[:99])
    with pytest.raises(ValueError, match="damaged"):
        drive(work(), checkpoint=path)
    assert_array_equal(stored_generator(None) is None, True)


def test_a_longer_run_goes_on_from_a_shorter(tmp_path):
    drive(work(total=5), checkpoint=tmp_path / "c.npz")
    assert ends(drive(work(), checkpoint=tmp_path / "c.npz")) == ends(WHOLE)


def test_a_step_that_cannot_be_made_takes_the_one_before_back(tmp_path):
    step = lambda state, t: (None, None) if t == 6 else (state + 1, (state,))
    run = drive(work(start=lambda: [10.0], step=step, most=1, objective=lambda states, c: states[c]), checkpoint=tmp_path / "c.npz")
    assert run == Run([15.0], [5], [[(10.0,), (11.0,), (12.0,), (13.0,), (14.0,)]], "not finite")
    none = drive(work(start=lambda: [10.0], step=lambda state, t: (None, None), most=1))
    assert (none.states, none.done, none.reason) == ([10.0], [0], "not finite")


def test_stop_ends_a_chain_early():
    run = drive(work(stop=lambda state: abs(state[0]) > 4, most=3))
    assert max(run.done) <= 9 and min(run.done) < 9
    assert advance(walk, lambda state: True, starts()[0], 0, 9)[1] == 1 and not never(None)
    assert advance(walk, never, starts()[0], 2, 3)[1] == 5 and advance(walk, never, starts()[0], 0, 9, -1.0)[1] == 1


def test_uneven_chains_are_cut_to_the_shortest():
    table = Run([0, 0], [3, 2], [[(1, "a"), (2, "b"), (3, "c")], [(4, "d"), (5, "e")]]).table()
    assert table[0].tolist() == [[1, 2], [4, 5]] and table[1].tolist() == [["a", "b"], ["d", "e"]]


SCRIPT = '''
import multiprocessing, sys
multiprocessing.set_start_method("spawn", force=True)
sys.path.insert(0, {tests!r})
from test_runs import work, drive, ends, WHOLE
GUARD
    run = drive(work(), n_jobs=2)
    print("same" if ends(run)[0] == ends(WHOLE)[0] else "other")
'''


@pytest.mark.parametrize("guard, code, out", [('if __name__ == "__main__":', 0, "same\n"), ("if True:", 1, "")])
def test_where_processes_are_spawned(guard, code, out, tmp_path):
    """A script without the guard is told so in one line."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(tests=os.path.dirname(__file__)).replace("GUARD", guard))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=900)
    assert (done.returncode, done.stdout) == (code, out), done.stderr
    last = done.stderr.strip().splitlines()
    assert not code or last[-1].startswith("RuntimeError: n_jobs: the worker processes ended at once") and "__main__" in last[-1]
    assert "bootstrapping phase" not in done.stderr


@pytest.mark.parametrize("n_jobs", [0, 1.5, None])
def test_n_jobs_is_checked(n_jobs):
    with pytest.raises(ValueError, match="^n_jobs: expected"):
        drive(work(), n_jobs=n_jobs)


# ---- coordinate ascent through the driver

RNG = np.random.default_rng(3)
X = RNG.normal(size=(70, 2))
Y = (X[:, 0] > 0) + (X[:, 1] + 0.5 * RNG.normal(size=70) > 0).astype(int)
PLAIN = dict(n_experts=3, latent_dim=None, priors=Priors(), init="class-code", max_sweeps=9, tol=1e-6, inner=1, omega1="per-component", accelerate=False)


@pytest.mark.parametrize("changes", [{}, {"omega1": "shared"}, {"accelerate": True}, {"accelerate": "relaxed"}, {"tol": 0.05}, {"inner": 3}, {"init": "random"},
                                     {"latent_dim": 1}, {"priors": Priors(v0=2.0)}], ids=str)
def test_the_bits_of_fit_and_of_a_fit_that_was_stopped(changes, tmp_path):
    options = PLAIN | changes
    straight = fit(X, Y, n_classes=3, rng=np.random.default_rng(1), **options)
    begin = lambda: ascent_work(X, Y, 3, SimpleNamespace(**options), np.random.default_rng(1))
    stop = Stop(3)
    part = drive(begin(), stop, tmp_path / "c.npz")
    assert part.done == [3]
    result = begin().finish(drive(begin(), checkpoint=tmp_path / "c.npz"))
    assert_array_equal(result.elbo, straight.elbo)
    assert (result.n_sweeps, result.converged, result.shared) == (straight.n_sweeps, straight.converged, straight.shared)
    for a, b in zip(result.parameters, straight.parameters):
        assert_array_equal(a, b)


def test_learners_are_found_by_name():
    for name in LEARNERS:
        assert find_learner(name).options["checkpoint"] is None
    with pytest.raises(ValueError, match="method: expected one of auto, cavi, mle, map, bbvi, nuts, gibbs, shared-means, several, shared-map, shared-bbvi, shared-nuts, shared-gibbs, structured, deep, got 'x'"):
        find_learner("x")


def test_the_bar_counts_steps(monkeypatch, capsys):
    class Bar:
        def __init__(self, total, desc, unit, leave, disable):
            self.n, self.told = 0, (total, desc, unit, disable)
            bars.append(self)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self.told = None

        def set_postfix_str(self, text, refresh):
            self.text = text

        def update(self, steps):
            self.n += steps

    bars = []
    monkeypatch.setattr("tqdm.tqdm", Bar)
    with progress_bar(2, 10, "start 1 of 1", find_learner("cavi")) as callback:
        callback(3, -1.5)
        callback(7, -1.25)
        assert bars[0].told == (10, "start 1 of 1", "sweep", False)
    assert (bars[0].n, bars[0].text, bars[0].told) == (7, "ELBO -1.25", None)
    monkeypatch.undo()
    with progress_bar(1, 10, "start", find_learner("cavi")) as callback:         # no terminal here
        callback(3, 0.0)
    assert capsys.readouterr().err == ""
