"""Draws of a network by NUTS: shapes, targets and their gradients, starts, runs that are cut and resumed, and what is said about divergences."""
import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from cmn_literate.network.simulate import Priors
from cmn_literate.engineering.coordinates import Shapes, to_white
from cmn_literate.roads import posterior
from cmn_literate.roads.diagnostics import predict_from_draws
from cmn_literate.roads.likelihood import explicit_log_joint
from cmn_literate.roads.posterior import divergence_report, posterior_target, sample_posterior, starting_points

X, Y = np.random.default_rng(0).normal(size=(12, 2)), np.arange(12) % 3
TINY = {"n_experts": 2, "n_chains": 2, "n_warmup": 8, "n_draws": 6, "rng": 1, "max_depth": 4}


def test_network_draws_have_their_shapes_and_repeat(tmp_path):
    draws = sample_posterior(X, Y, **TINY)
    assert draws.theta.A.shape == (2, 6, 2, 2, 3) and draws.theta.beta1.shape == (2, 6, 2, 3) and (draws.theta.tau > 0).all()
    assert set(draws.stats) == {"energy", "accept", "depth", "n_leapfrog", "divergent", "step"}
    assert_allclose(np.exp(predict_from_draws(draws, X)).sum(1), 1, rtol=1e-9)
    again = sample_posterior(X, Y, n_jobs=2, checkpoint=tmp_path / "a.npz", **TINY)
    assert_array_equal(again.phi, draws.phi)
    assert_array_equal(again.log_joint, draws.log_joint)
    assert_array_equal(sample_posterior(X, Y, checkpoint=tmp_path / "a.npz", **TINY).phi, draws.phi)
    with pytest.raises(ValueError, match="checkpoint"):
        sample_posterior(X, Y[::-1], checkpoint=tmp_path / "a.npz", **TINY)


def test_network_interrupt():
    def stop(done, value):
        if done >= 26:
            raise KeyboardInterrupt

    with pytest.warns(RuntimeWarning, match="interrupted"):
        part = sample_posterior(X, Y, callback=stop, **{**TINY, "n_draws": 30})
    assert 0 < part.n_draws < 30 and part.theta.tau.shape[:2] == part.log_joint.shape == part.stats["step"].shape


@pytest.mark.parametrize("options", [
    {"n_experts": 1}, {"latent_dim": 1}, {"latent_dim": 3, "n_classes": 5}, {"init": "prior"}, {"target": "marginal", "n_nodes": 6}], ids=str)
def test_networks_of_many_shapes(options):
    draws = sample_posterior(X, Y, **{**TINY, "n_warmup": 3, "n_draws": 4, "max_depth": 2, **options})
    assert np.isfinite(draws.phi).all() and np.isfinite(draws.log_joint).all()


def test_targets():
    shapes, priors = Shapes(2, 2, 3, 2), Priors()
    u = starting_points(X, Y, shapes, priors, 2, "prior", 5)
    f, n_eps = posterior_target(X, Y, shapes, priors)
    eps = np.random.default_rng(1).normal(size=n_eps)
    assert n_eps == 24
    assert_allclose(f(np.concatenate([u[0], eps]))[0], explicit_log_joint(np.concatenate([u[0], eps]), X, Y, shapes, priors), rtol=1e-12)
    assert posterior_target(X, Y, shapes, priors, "marginal")[1] == 0
    assert posterior_target(X, Y % 2, Shapes(2, 2, 2, 2), priors)[1] == 0               # one dimension: quadrature
    many = starting_points(X, Y, shapes, priors, 400, "prior", 6)[:, :6] ** 2           # white: a priori N(0, 1)
    assert abs(many.mean() - 1) < 5 * np.sqrt(2 / many.size)
    draws = sample_posterior(X, Y, target="marginal", n_nodes=6, **{**TINY, "n_warmup": 0, "n_draws": 4})
    f, u = posterior_target(X, Y, shapes, priors, "marginal", 6)[0], to_white(draws.phi, shapes, priors)
    assert_allclose(draws.log_joint, [[f(q)[0] for q in chain] for chain in u], rtol=1e-9)    # of the draw, not of the start
    assert len(np.unique(draws.log_joint)) > 4


@pytest.mark.parametrize("target", ["marginal", "explicit"])
@pytest.mark.parametrize("shapes", [Shapes(2, 2, 3, 2), Shapes(3, 1, 3, 2), Shapes(1, 2, 3, 2)], ids=str)
def test_both_gradients_are_one(target, shapes, monkeypatch):
    """Slopes by hand and by autograd to 1e-10 of the largest, also from a pickle; and it is autograd that autograd means."""
    rest, rng = (X, Y, shapes, Priors(), target, 8), np.random.default_rng(7)
    fast, n_eps = posterior_target(*rest)
    with monkeypatch.context() as patch:
        for name in ("marginal_value_and_grad", "explicit_value_and_grad"):
            patch.setattr(posterior, name, lambda *_, **__: pytest.fail("slopes by hand"))
        plain, same = posterior_target(*rest, gradient="autograd")
        there, q = pickle.loads(pickle.dumps(plain)), rng.normal(size=(4, shapes.n_params + n_eps))
        expected = [there(place) for place in q]
    assert same == n_eps == (12 * shapes.latent_dim if target == "explicit" else 0)
    for place, (value, slopes) in zip(q, expected, strict=True):
        assert_allclose(fast(place)[0], value, rtol=1e-10)
        assert_allclose(fast(place)[1], slopes, rtol=0, atol=1e-10 * np.abs(slopes).max())
    for f in (fast, plain):                                                             # where Theta overflows
        value, slopes = f(1e4 * q[0])
        assert value == -np.inf and not slopes.any() and slopes.shape == q[0].shape
    with pytest.raises(ValueError, match="^gradient: expected 'fast' or 'autograd', got 'slow'"):
        posterior_target(*rest, gradient="slow")


@pytest.mark.parametrize("name, changes", [
    ("target", {"target": "both"}), ("target", {"target": "marginal", "latent_dim": 3, "n_classes": 4}), ("init", {"init": "warm"}),
    ("n_experts", {"n_experts": 0}), ("latent_dim", {"latent_dim": 0}), ("n_chains", {"n_chains": 0}), ("priors", {"priors": 1.0}),
    ("n_classes", {"n_classes": 1}), ("y", {"n_classes": 2}), ("n_draws", {"n_draws": 0}),
    ("rng", {"rng": "a"}), ("rng", {"rng": True}), ("rng", {"rng": np.random.RandomState(0)}),
    ("rng", {"rng": np.random.Generator(np.random.RandomState(0)._bit_generator)})])     # a legacy seed has no children
def test_bad_network_arguments_are_named(name, changes):
    with pytest.raises(ValueError, match=f"^{name}: "):
        sample_posterior(X, Y, **{**TINY, **changes})
    with pytest.raises(ValueError, match="y: "):
        sample_posterior(X, np.zeros(12), **TINY)


def test_a_checkpoint_that_cannot_be_written_is_refused_before_the_starts_are_fitted(tmp_path, monkeypatch):
    monkeypatch.setattr("cmn_literate.roads.posterior.fit", lambda *args, **options: pytest.fail("a start was fitted"))
    for path in (tmp_path / "missing" / "c.npz", tmp_path):
        with pytest.raises(ValueError, match="^checkpoint: expected"):
            sample_posterior(X, Y, checkpoint=path, **TINY)


def test_no_warnings_from_an_overflowing_target():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sample_posterior(50 * X, Y, **{**TINY, "n_warmup": 6, "n_draws": 4})


# ---- divergences

@pytest.mark.parametrize("run, within", [
    ({"n_chains": 2, "n_warmup": 60, "n_draws": 100, "max_depth": 4}, {0.6: (3, 100), 0.99: (0, 1)}),
    pytest.param({"n_chains": 4, "n_warmup": 150, "n_draws": 200}, {0.6: (10, 400), 0.99: (0, 5)}, marks=pytest.mark.slow)], ids=["short", "long"])
def test_divergences_are_counted_aloud_and_a_higher_target_removes_them(run, within):
    """One normal column and a label that it decides: the posterior bends sharply, R-hat is fine, and a step for 0.6 is too long."""
    x = np.random.default_rng(0).normal(size=(30, 1))
    shape = run["n_chains"], run["n_draws"]
    for target, (fewest, most) in within.items():
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            draws = sample_posterior((x - x.mean()) / x.std(), (x[:, 0] > 0).astype(int), n_experts=1, rng=0, target_accept=target, **run)
        count = int(draws.stats["divergent"].sum())
        assert fewest <= count <= most and draws.stats["divergent"].shape == shape
        said = [str(w.message) for w in seen]                              # the count and the advice; no overflow of the warm-up
        assert said == ([divergence_report(draws.stats, target)] if count else [])
        assert not count or said[0].startswith(f"{count} of {np.prod(shape)} draws") and f"raise target_accept (it was {target})" in said[0]


def test_a_run_of_nothing_but_divergences_gets_the_same_advice():
    """A step that fits a rounder problem, and no warm-up to learn another: not "raise n_warmup"."""
    stats = {"divergent": np.ones((4, 25), bool)}
    assert divergence_report(stats, 0.8).startswith("100 of 100 draws") and "raise target_accept" in divergence_report(stats, 0.8)
    assert divergence_report({"divergent": np.zeros((4, 25), bool)}, 0.8) == ""
