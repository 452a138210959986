"""AdaBelief against optax step by step, and the driver where things go wrong."""
import importlib.util
import os

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from cmn_literate.roads.optimizers import adabelief_init, adabelief_step, maximize
from cmn_literate.storage import fingerprint


def quartic(x, rng=None):
    noise = 0.0 if rng is None else 0.1 * rng.normal(size=x.shape)
    return -float(np.sum(x**4)), -4 * x**3 + noise


@pytest.mark.parametrize("lr, b1, b2, eps, eps_root", [
    (1e-3, 0.9, 0.999, 1e-16, 1e-16), (5e-3, 0.9, 0.999, 1e-16, 1e-16), (0.1, 0.5, 0.75, 0.0, 0.0), (0.03, 0.8, 0.99, 1e-2, 1e-3)])
def test_every_step_is_that_of_optax(lr, b1, b2, eps, eps_root):
    if importlib.util.find_spec("optax") is None:
        pytest.skip("optax is not installed: AdaBelief is compared with the chapter's sums only")
    import jax
    import optax

    rng = np.random.default_rng(0)
    grads = rng.normal(size=(200, 7)) * 10.0 ** np.arange(-5, 2)
    grads[:, 3] = 0.7                                    # a slope
    grads[50:, 4] = 0.0                                  # falls asleep
    with jax.enable_x64(True):
        rule = optax.adabelief(lr, b1=b1, b2=b2, eps=eps, eps_root=eps_root)
        theirs, ours = rule.init(jax.numpy.zeros(7)), adabelief_init(np.zeros(7))
        for g in grads:
            their_update, theirs = rule.update(jax.numpy.asarray(g), theirs)
            update, ours = adabelief_step(g, ours, lr, b1, b2, eps, eps_root)
            assert np.asarray(their_update).dtype == float
            assert_allclose(update, np.asarray(their_update), rtol=1e-9, atol=1e-300)
            assert_allclose(ours.m, np.asarray(theirs[0].mu), rtol=1e-12, atol=1e-300)
            assert_allclose(ours.s, np.asarray(theirs[0].nu), rtol=1e-9, atol=1e-300)
    assert ours.t == 200


def test_a_step_changes_nothing_that_it_was_given():
    g, state = np.ones(3), adabelief_init(np.zeros(3))
    before = state.m.copy(), state.s.copy(), g.copy()
    adabelief_step(g, state)
    for a, b in zip((state.m, state.s, g), before):
        assert_array_equal(a, b)


def test_it_climbs_to_the_maximum_and_leaves_flat_coordinates_alone():
    target = np.array([3.0, -1.0, 0.0])
    weight = np.array([1.0, 100.0, 0.0])
    result = maximize(lambda x: (-0.5 * weight @ (x - target) ** 2, -weight * (x - target)), [0.0, 0.0, 7.0], 4000, lr=0.05)
    assert_allclose(result.x[:2], target[:2], atol=1e-6)
    assert result.x[2] == 7.0
    assert result.trace[0] == -0.5 * (9 + 100) and len(result.trace) == 4000


def test_the_start_is_not_overwritten():
    x = np.ones(2)
    maximize(quartic, x, 5)
    assert_array_equal(x, 1)


@pytest.mark.parametrize("cut", [1, 39, 40, 41, 99])
@pytest.mark.parametrize("bits", [None, np.random.PCG64, np.random.MT19937])
def test_resumed_is_straight_through_bit_for_bit(tmp_path, cut, bits):
    rng = (lambda: np.random.Generator(bits(3))) if bits else (lambda: None)
    start, options = np.linspace(-1, 1, 4), dict(lr=0.01, checkpoint_every=40)
    straight = maximize(quartic, start, 100, rng=rng(), **options)

    def stop(done, value):
        if done == cut:
            raise KeyboardInterrupt

    file = tmp_path / "run.npz"
    with pytest.warns(RuntimeWarning, match=f"after {cut} steps"):
        part = maximize(quartic, start, 100, rng=rng(), checkpoint=file, callback=stop, **options)
    assert part.n_steps == cut and part.reason == "interrupted"
    seen = []
    resumed = maximize(quartic, start, 100, rng=rng(), checkpoint=file, callback=lambda n, v: seen.append((n, v)), **options)
    assert_array_equal(resumed.x, straight.x)
    assert_array_equal(resumed.trace, straight.trace)
    assert_array_equal(resumed.state.s, straight.state.s)
    assert [n for n, _ in seen] == list(range(cut + 1, 101)) and [v for _, v in seen] == list(straight.trace[cut:])


def test_a_run_can_be_prolonged_and_the_generator_goes_on(tmp_path):
    file, rng = tmp_path / "run.npz", np.random.default_rng(8)
    straight = maximize(quartic, np.ones(2), 30, rng=rng)
    after = rng.random()
    maximize(quartic, np.ones(2), 10, rng=np.random.default_rng(8), checkpoint=file)
    rng = np.random.default_rng(8)
    longer = maximize(quartic, np.ones(2), 30, rng=rng, checkpoint=file)
    assert_array_equal(longer.x, straight.x)
    assert rng.random() == after


@pytest.mark.parametrize("change", [dict(lr=0.2), dict(b1=0.8), dict(b2=0.99), dict(eps=1e-8), dict(eps_root=1e-8), dict(x=np.ones(3)),
                                    dict(x=np.full(2, 2.0)), dict(problem=(np.arange(3),)), dict(rng=np.random.default_rng(0)), dict(n_steps=5)])
def test_a_checkpoint_of_another_run_is_refused(tmp_path, change):
    file = tmp_path / "run.npz"
    arguments = dict(value_and_grad=quartic, x=np.ones(2), n_steps=10, checkpoint=file, problem=(np.arange(2),))
    maximize(**arguments)
    content = file.read_bytes()
    with pytest.raises(ValueError, match="checkpoint"):
        maximize(**{**arguments, **change})
    assert file.read_bytes() == content


def never(x):
    raise AssertionError("the objective was asked")


def test_a_checkpoint_that_cannot_be_written_is_refused_at_the_start(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "missing" / "c.npz", tmp_path, str(tmp_path) + "/new/", tmp_path / "file" / "c.npz", tmp_path / ("c" * 300),
                 "", "c\0.npz", b"c.npz", 3, True):
        with pytest.raises(ValueError, match="^checkpoint: expected"):
            maximize(never, [1.0], 3, checkpoint=path)
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    if os.geteuid():                                     # root writes everywhere
        with pytest.raises(ValueError, match="^checkpoint: expected"):
            maximize(never, [1.0], 3, checkpoint=locked / "c.npz")
    monkeypatch.chdir(tmp_path)
    maximize(quartic, [1.0], 3, checkpoint="here.npz")
    assert sorted(os.listdir()) == ["file", "here.npz", "locked"]


@pytest.mark.parametrize("change", [*({name: value} for name in ("lr", "b1", "b2", "eps", "eps_root") for value in ("1e-3", None, True, [0.1])),
                                    *({"rng": value} for value in (0, True, "a", np.random.RandomState(0))), {"checkpoint_every": "a"}, {"x": ["a"]},
                                    {"x": [[1.0], [1.0, 2.0]]}])
def test_wrong_types_are_named(change):
    with pytest.raises(ValueError, match=f"^{next(iter(change))}: expected"):
        maximize(**{**dict(value_and_grad=never, x=[1.0], n_steps=3), **change})


@pytest.mark.parametrize("change", [{"b1": 1.0}, {"b2": 1.0}, {"b2": 1.5}, {"lr": np.inf}, {"eps": np.inf}, {"lr": 0.0}, {"b1": -0.1}], ids=str)
def test_rates_have_limits_on_both_sides(change):
    (name, value), = change.items()
    with pytest.raises(ValueError, match=f"^{name}: expected a number from 0 .* and below (1|inf), got {value}"):
        maximize(never, np.ones(1), 3, **change)


def test_a_gradient_of_another_shape_is_refused():
    for returned in ((0.0, np.ones(1)), (0.0, 1.0), (np.zeros(1), np.ones(3)), (0.0, np.ones((3, 1)))):
        with pytest.raises(ValueError, match="^value_and_grad: expected"):
            maximize(lambda x: returned, np.ones(3), 5)  # noqa: B023  called at once


def test_an_interrupt_before_the_first_step_goes_on_its_way():
    def never(x):
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        maximize(never, np.ones(2), 10)


def test_an_interrupt_inside_the_objective_keeps_whole_steps():
    count = iter(range(100))

    def tired(x):
        if next(count) == 7:
            raise KeyboardInterrupt
        return quartic(x)
    with pytest.warns(RuntimeWarning, match="after 7 steps"):
        result = maximize(tired, np.ones(2), 10)
    assert_array_equal(result.x, maximize(quartic, np.ones(2), 7).x)


@pytest.mark.parametrize("bad", [(np.nan, np.ones(1)), (-np.inf, np.ones(1)), (0.0, np.array([np.nan]))])
def test_not_finite_ends_at_the_last_good_point(bad):
    with pytest.warns(RuntimeWarning, match="not finite"):
        result = maximize(lambda x: (float(x[0]), np.ones(1)) if x[0] < 0.55 else bad, [0.0], 50, lr=0.1)
    assert result.diverged and result.reason == "not finite" and 0.3 < result.x[0] < 0.55
    assert result.n_steps == len(result.trace) > 2
    with pytest.raises(ValueError, match="finite"):
        maximize(lambda x: bad, [0.0], 5)


def test_fingerprints_tell_kinds_apart():
    from cmn_literate.network.simulate import Priors
    things = [np.arange(3), np.arange(3.0), [0, 1, 2], "012", np.zeros((3, 0)), np.zeros((0, 3)), Priors(), Priors(v0=9.0), None, 1, True, 1.0]
    assert len({fingerprint(t) for t in things}) == len(things)
    assert fingerprint(np.arange(6).reshape(2, 3).T) == fingerprint(np.ascontiguousarray(np.arange(6).reshape(2, 3).T))
