"""NUTS on targets with known answers, what it reports when it fails, and runs that are cut, resumed and spread over processes."""
from functools import partial
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from cmn_literate.roads import nuts as module
from cmn_literate.roads.diagnostics import ess_mean, split_rhat
from cmn_literate.roads.hmc import hamiltonian, leapfrog
from cmn_literate.roads.nuts import Point, nuts, nuts_step


def gaussian(q, mean, precision):
    shift = precision @ (q - mean)
    return -0.5 * float((q - mean) @ shift), -shift


def normal(P, variance=1.0, mean=0.0):
    return partial(gaussian, mean=np.full(P, mean), precision=np.eye(P) / variance)


def funnel(q):
    v, x = q[0], q[1:]
    square = np.exp(-v) * (x @ x)
    return -(v**2) / 18 - 0.5 * len(x) * v - 0.5 * square, np.append(-v / 9 - 0.5 * len(x) + 0.5 * square, -np.exp(-v) * x)


def bumps(q):
    return float(np.logaddexp(-0.5 * (q + 6) ** 2, -0.5 * (q - 6) ** 2)[0]), -q + 6 * np.tanh(6 * q)


def off(values, expected):
    """Distance of the mean from what it should be, in standard errors."""
    error = values.std((0, 1)) / np.sqrt(ess_mean(values))
    return np.max(np.abs(values.mean((0, 1)) - expected) / error)


# ---- targets with known answers

@pytest.mark.parametrize("P, variance, mean, options", [
    (1, 1.0, 0.0, {"n_warmup": 0, "inv_mass": 0.1, "step": 1.0}), (1, 1.0, 0.0, {"n_warmup": 0, "inv_mass": 9.0, "step": 0.3}),
    (10, 3.0, 2.0, {"n_warmup": 150})], ids=["light", "heavy", "10-D"])
def test_variance_of_normals(P, variance, mean, options):
    run = nuts(normal(P, variance, mean), mean + np.ones((4, P)), n_draws=400, rng=1, **options)
    d = run.draws[:, 20:] - mean
    assert off(d, 0.0) < 5 and off(d**2, variance) < 5
    assert not run.stats["divergent"].any()


@pytest.mark.parametrize("rho", [0.9, -0.99])
def test_correlated_normal(rho):
    C = np.array([[1.0, rho], [rho, 1.0]])
    run = nuts(partial(gaussian, mean=np.zeros(2), precision=np.linalg.inv(C)), np.zeros((4, 2)), 150, 400, rng=2)
    products = np.stack([run.draws[..., 0] ** 2, run.draws[..., 1] ** 2, run.draws.prod(-1)], -1)
    assert off(run.draws, 0.0) < 5 and off(products, [1, 1, rho]) < 5


def test_scales_are_learnt():
    scale = np.array([0.1, 1.0, 10.0])
    f = partial(gaussian, mean=np.zeros(3), precision=np.diag(1 / scale**2))
    run = nuts(f, np.tile(scale, (3, 1)), 200, 200, rng=3)
    assert off(run.draws / scale, 0.0) < 5 and off((run.draws / scale) ** 2, 1.0) < 5
    assert run.stats["n_leapfrog"].mean() < 12


def test_funnel_reports_divergences_and_bumps_do_not_mix():
    v = np.array([-5.0, -3.0, 0.0, 3.0])
    q0 = np.column_stack([v, np.exp(v / 2)[:, None] * np.random.default_rng(0).normal(size=(4, 9))])
    with np.errstate(all="ignore"):
        assert nuts(funnel, q0, 0, 60, step=0.5).stats["divergent"].sum() > 5
    run = nuts(bumps, np.array([[-6.0], [6.0], [-5.0], [5.0]]), 60, 60)
    assert split_rhat(run.draws)[0] > 1.1


def test_draws_are_exact_even_with_few_doublings():
    run = nuts(normal(2), np.zeros((4, 2)), 0, 1500, rng=4, step=0.7, max_depth=1)
    assert off(run.draws, 0.0) < 5 and off(run.draws**2, 1.0) < 5 and run.stats["depth"].max() == 1
    assert run.stats["n_leapfrog"].max() == 1


# ---- every coin on another target than the chapter's

class Coin:
    def __init__(self, momentum, answers):
        self.momentum, self.answers, self.log, self.probability = momentum, answers, [], 1.0

    def normal(self, size):
        return self.momentum

    def random(self):
        return self

    def __lt__(self, p):
        yes = self.answers[len(self.log)] if len(self.log) < len(self.answers) else bool(p > 0)
        self.log.append((yes, 0 < p < 1))
        self.probability *= p if yes else 1 - p
        return yes


def outcomes(f, point, step, inv_mass, depth):
    todo = [[]]
    while todo:
        answers = todo.pop()
        coin = Coin(point.p * np.sqrt(inv_mass), answers)
        yield nuts_step(f, point, step, inv_mass, coin, depth).point.q, coin
        told = [yes for yes, _ in coin.log]
        todo += [told[:i] + [not told[i]] for i in range(len(answers), len(told)) if coin.log[i][1]]


@pytest.mark.parametrize("step, spread", [(0.6, 1000.0), (1.1, 1000.0), (1.1, 1.0)])
def test_what_arrives_is_what_was_there(step, spread, monkeypatch):
    monkeypatch.setattr(module, "MAX_SPREAD", spread)           # a small one makes divergences frequent: still exact
    f, inv_mass, reach = bumps, np.array([0.7]), 3
    for q in (0.3, -4.0, 7.5):
        path = {0: Point(np.array([q]), np.array([1.3]), *f(np.array([q])))}
        for sign, a in product((1, -1), range(1, 2 * reach + 1)):
            x = path[sign * (a - 1)]
            path[sign * a] = Point(*leapfrog(f, x.q, x.p, x.grad, sign * step, inv_mass))
        w = {a: np.exp(-hamiltonian(x.value, x.p, inv_mass) + 60) for a, x in path.items()}
        arrived = 0.0
        for i in range(-reach, reach + 1):
            total = 0.0
            for q_new, coin in outcomes(f, path[i], step, inv_mass, 2):
                total += coin.probability
                arrived += w[i] * coin.probability * bool(abs(q_new - path[0].q)[0] < 1e-9)
            assert_allclose(total, 1, rtol=1e-12)
        assert_allclose(arrived, w[0], rtol=1e-9)


# ---- runs that are cut, resumed and spread over processes

class Stop:
    """Callback that raises when so many transitions are done."""
    def __init__(self, when, error=KeyboardInterrupt):
        self.when, self.error, self.seen = when, error, []

    def __call__(self, done, value):
        self.seen.append(done)
        if done >= self.when:
            raise self.error


def same(a, b):
    assert_array_equal(a.draws, b.draws)
    assert a.stats.keys() == b.stats.keys()
    for name in a.stats:
        assert_array_equal(a.stats[name], b.stats[name])


F, Q0, SHORT = normal(3, 2.0), np.arange(9.0).reshape(3, 3), {"n_warmup": 60, "n_draws": 40, "rng": 7}


@pytest.fixture(scope="module")
def straight():
    return nuts(F, Q0, **SHORT)


def test_processes_do_not_matter(straight):
    same(nuts(F, Q0, n_jobs=2, **SHORT), straight)
    same(nuts(F, Q0, **{**SHORT, "rng": np.random.default_rng(7)}), straight)
    assert not np.array_equal(straight.draws[0], straight.draws[1])
    assert not np.array_equal(nuts(F, Q0, **{**SHORT, "rng": 8}).draws, straight.draws)


@pytest.mark.parametrize("n_jobs, when", [(1, 60), (1, 130), (1, 250), (2, 120)])
def test_resumed_is_straight_through(straight, tmp_path, n_jobs, when):
    file = tmp_path / "run.npz"
    with pytest.raises(RuntimeError):
        nuts(F, Q0, callback=Stop(when, RuntimeError), checkpoint=file, n_jobs=n_jobs, **SHORT)
    seen = Stop(10**9)
    same(nuts(F, Q0, callback=seen, checkpoint=file, **SHORT), straight)
    assert seen.seen[0] > when / 2 and seen.seen[-1] == 300
    same(nuts(F, Q0, checkpoint=file, callback=Stop(0), **SHORT), straight)             # finished: nothing left to do


def test_a_killed_run_resumes_from_the_last_file(straight, tmp_path):
    file, copy = tmp_path / "run.npz", tmp_path / "copy.npz"

    def keep(done, value):
        if done >= 150 and not copy.exists():                                            # the file as a power cut would leave it
            copy.write_bytes(file.read_bytes())
    nuts(F, Q0, checkpoint=file, checkpoint_every=0, callback=keep, **SHORT)
    same(nuts(F, Q0, checkpoint=copy, **SHORT), straight)


def test_interrupt_returns_what_is_there(straight, tmp_path):
    with pytest.raises(KeyboardInterrupt):                                           # in the warm-up there is nothing
        nuts(F, Q0, callback=Stop(100), **SHORT)
    with pytest.warns(RuntimeWarning, match="interrupted"):
        part = nuts(F, Q0, callback=Stop(265), checkpoint=tmp_path / "a.npz", **SHORT)
    n = part.draws.shape[1]
    assert 0 < n < 40 and part.stats["accept"].shape == (3, n)
    assert_array_equal(part.draws, straight.draws[:, :n])
    same(nuts(F, Q0, checkpoint=tmp_path / "a.npz", **SHORT), straight)
    with pytest.raises(KeyboardInterrupt):
        nuts(F, Q0, n_jobs=2, callback=Stop(50), **SHORT)


def test_checkpoint_of_another_run_is_refused(tmp_path):
    file = tmp_path / "run.npz"
    nuts(F, Q0, checkpoint=file, **SHORT)
    others = [((F, Q0), {"rng": 8}), ((F, Q0), {"n_draws": 41}), ((F, Q0), {"max_depth": 9}), ((F, Q0), {"target_accept": 0.9}), ((F, Q0 + 1), {}),
              ((F, Q0[:2]), {}), ((normal(3, 2.1), Q0), {}), ((F, Q0), {"inv_mass": 2.0}), ((F, Q0), {"step": 0.1})]
    for arguments, changes in others:
        with pytest.raises(ValueError, match="checkpoint: expected a run of this problem, seed and options"):
            nuts(*arguments, checkpoint=file, **{**SHORT, **changes})
    file.write_bytes(file.read_bytes()[:-200])
    with pytest.raises(ValueError, match="damaged"):
        nuts(F, Q0, checkpoint=file, **SHORT)


@pytest.mark.parametrize("name, changes", [
    ("q0", {"q0": np.zeros(3)}), ("q0", {"q0": np.full((1, 3), np.nan)}), ("q0", {"value_and_grad": lambda q: (np.nan, q)}),
    ("q0", {"q0": "abc"}), ("q0", {"q0": [[1.0, 2.0], [3.0]]}), ("q0", {"q0": [[1j]]}), ("inv_mass", {"inv_mass": "a"}),
    ("n_warmup", {"n_warmup": -1}), ("n_draws", {"n_draws": 0}), ("max_depth", {"max_depth": 0}), ("n_jobs", {"n_jobs": 0}),
    ("target_accept", {"target_accept": 1.0}), ("step", {"step": 0.0}), ("inv_mass", {"inv_mass": [1.0, -1.0, 1.0]}),
    ("inv_mass", {"inv_mass": np.ones(2)}), ("inv_mass", {"inv_mass": np.ones((3, 3))}), ("target_accept", {"target_accept": "a"}),
    ("step", {"step": "a"}), ("checkpoint_every", {"checkpoint_every": "a"}), ("checkpoint_every", {"checkpoint_every": None}),
    ("checkpoint", {"checkpoint": "missing/c.npz"}), ("checkpoint", {"checkpoint": "."}),
    ("rng", {"rng": "a"}), ("rng", {"rng": True}), ("rng", {"rng": np.random.RandomState(0)}), ("rng", {"rng": -1}),
    ("value_and_grad", {"value_and_grad": lambda q: (0.0, q[:2])}), ("value_and_grad", {"value_and_grad": lambda q: (0.0 * q, q)}),
    ("value_and_grad", {"n_jobs": 2, "value_and_grad": lambda q: F(q)})])
def test_bad_arguments_are_named(name, changes):
    with pytest.raises(ValueError, match=f"^{name}: "):
        nuts(**{"value_and_grad": F, "q0": Q0, "n_warmup": 1, "n_draws": 1, **changes})
