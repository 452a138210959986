"""Rows with weights: a weight of 2 is the row twice, of 0 no row, in every method that can; the others say so by name."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from cmn_literate.engineering.coordinates import Shapes
from cmn_literate.engineering.elbo_gradients import best_tilts
from cmn_literate.engineering.fit import begin, fit, step
from cmn_literate.engineering.gradients import likelihood_value_and_grad, marginal_value_and_grad
from cmn_literate.engineering.nodes import latent_nodes
from cmn_literate.engineering.starts import complete_start, repeat_rows
from cmn_literate.engineering.sums import make_blocks, make_rows
from cmn_literate.network.simulate import Priors
from cmn_literate.roads.bbvi import bound_and_grad, control_variate, fit_bbvi, score_products
from cmn_literate.roads.gibbs import gibbs
from cmn_literate.roads.mle import fit_mle
from cmn_literate.engineering.gamma_draws import draw_noise
from cmn_literate.roads.particles import free_of
from cmn_literate.roads.posterior import posterior_target, sample_posterior

rng = np.random.default_rng(0)
X, Y = rng.normal(size=(30, 2)), np.arange(30) % 3
COUNT = rng.integers(0, 4, size=30)
COPIES = np.repeat(np.arange(30), COUNT)


@pytest.mark.parametrize("how", [{}, {"init": "random"}, {"accelerate": True}, {"omega1": "shared"}, {"inner": 2}, {"latent_dim": 1}])
def test_weights_are_copies_from_the_start_to_the_stop(how):
    how = {"n_experts": 3, "rng": 1, "tol": 1e-3, **how}
    one, other = fit(X, Y, sample_weight=COUNT, **how), fit(X[COPIES], Y[COPIES], **how)
    assert one.n_sweeps == other.n_sweeps and one.converged
    assert_allclose(one.elbo, other.elbo, rtol=1e-10)
    for u, v in zip(one.parameters, other.parameters):
        assert_allclose(u, v, rtol=1e-6, atol=1e-8)


def test_ones_are_no_weights_and_other_units_are_other_evidence():
    plain, ones = fit(X, Y, 3), fit(X, Y, 3, sample_weight=np.ones(30))
    assert (plain.elbo == ones.elbo).all()
    tempered = fit(X, Y, 3, sample_weight=np.full(30, 1e-8))
    assert_allclose(tempered.elbo[-1], 0, atol=1e-4)                            # no data: the bound is the prior's, 0


def test_every_block_has_the_weights_of_its_rows():
    weight = rng.uniform(size=1000)
    blocks = make_blocks(rng.normal(size=(1000, 2)), np.arange(1000) % 5, 10, 4, 5, weight=weight)
    assert len(blocks) == 2 and (np.concatenate([block.rows.weight for block in blocks]) == weight).all()


def test_a_fit_goes_on_only_with_its_weights():
    half = begin(X, Y, 3, sample_weight=COUNT)
    for _ in range(3):
        half = step(half)
    assert fit(X, Y, 3, start=half, max_sweeps=4, sample_weight=COUNT).n_sweeps == 4
    for other in (None, COUNT + 1, 2 * COUNT):
        with pytest.raises(ValueError, match="start: expected a fit of these rows"):
            fit(X, Y, 3, start=half, sample_weight=other)


@pytest.mark.parametrize("weight, complaint", [(np.ones(29), "one weight for each of 30 rows"), (np.ones((30, 1)), "one weight"),
                                               (-np.ones(30), "finite numbers >= 0"), (np.full(30, np.nan), "finite numbers >= 0, got nan"),
                                               (np.zeros(30), "a positive weight"), (["a"] * 30, "sample_weight")])
def test_bad_weights_are_named(weight, complaint):
    with pytest.raises(ValueError, match="sample_weight.*" + complaint if complaint != "sample_weight" else complaint):
        fit(X, Y, 3, sample_weight=weight)


def test_start_rows_of_large_and_small_weights():
    assert len(repeat_rows(np.full(10, 1e9))) == 10 and len(repeat_rows(np.full(10, 1e-9))) == 10
    assert repeat_rows(np.array([3.0, 0.0, 1.0])).tolist() == [0, 0, 0, 2]


def test_likelihood_of_copies():
    shapes = Shapes(2, 2, 3, 2)
    phi, nodes = rng.normal(size=shapes.n_params), latent_nodes(shapes, 6)
    pairs = [(likelihood_value_and_grad(phi, X, Y, shapes, nodes, COUNT * 1.0), likelihood_value_and_grad(phi, X[COPIES], Y[COPIES], shapes, nodes)),
             (marginal_value_and_grad(phi, X, Y, shapes, Priors(), nodes, COUNT * 1.0),
              marginal_value_and_grad(phi, X[COPIES], Y[COPIES], shapes, Priors(), nodes)),
             (posterior_target(X, Y, shapes, Priors(), n_nodes=6, count=COUNT * 1.0)[0](phi),
              posterior_target(X, Y, shapes, Priors(), "marginal", 6, "autograd", COUNT * 1.0)[0](phi))]
    for (value, slope), (same, slopes) in pairs:
        assert_allclose(value, same, rtol=1e-10)
        assert_allclose(slope, slopes, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("objective", ["exact", "network"])
def test_climb_of_copies(objective):
    how = {"n_experts": 2, "objective": objective, "n_steps": 40, "n_nodes": 6, "rng": 3}
    one, other = fit_mle(X, Y, sample_weight=COUNT, **how), fit_mle(X[COPIES], Y[COPIES], **how)
    assert_allclose(one.trace, other.trace, rtol=1e-10)
    assert_allclose(one.log_likelihood, other.log_likelihood, rtol=1e-10)


@pytest.mark.parametrize("objective", ["elbo", "augmented"])
def test_sampled_bound_of_copies_with_the_noise_of_the_row(objective):
    kept = np.flatnonzero(COUNT)
    place = np.repeat(np.arange(len(kept)), COUNT[kept])
    state = complete_start(X[kept], Y[kept], 2, 2, 3, Priors(), 0)
    free = free_of(state)
    noise = draw_noise(free, 4, np.random.default_rng(1))
    many = free._replace(logits=free.logits[:, place], mu=free.mu[..., place], x_C=free.x_C[..., place])
    same = noise._replace(x1=noise.x1[..., place])
    rows, copies = make_rows(X[kept], Y[kept], 3, weight=COUNT[kept] * 1.0), make_rows(X[COPIES], Y[COPIES], 3)
    value, slopes = bound_and_grad(free, noise, rows, Priors(), objective)
    plain, by_autograd = bound_and_grad(free, noise, rows, Priors(), objective, gradient="autograd")
    twice, slopes2 = bound_and_grad(many, same, copies, Priors(), objective)
    assert_allclose([value, plain], twice, rtol=1e-10)
    for name in free._fields:
        u, v, w = (getattr(s, name) for s in (slopes, slopes2, by_autograd))
        if name in ("logits", "mu", "x_C"):                                      # of all copies together
            v = np.stack([v[..., place == n].sum(-1) for n in range(len(kept))], -1)
        assert_allclose(u, v, rtol=1e-9, atol=1e-9, err_msg=name)
        assert_allclose(u, w, rtol=1e-8, atol=1e-8, err_msg=name)
    noise = draw_noise(free, 20_000, np.random.default_rng(2))                   # the score's gradient, with weights, has the same mean
    tilts = best_tilts(free, rows) if objective == "augmented" else (None, None)
    scored = control_variate(*score_products(free, noise, rows, Priors(), tilts))
    exact = bound_and_grad(free, noise, rows, Priors(), objective)[1]
    flat = np.concatenate([np.ravel(part) for part in exact])
    error = scored.std(0) / len(scored) ** 0.5
    at = np.arange(len(flat)) >= len(flat) - free.logits.size - free.mu.size - free.x_C.size
    assert np.abs((scored.mean(0) - flat)[at] / np.maximum(error[at], 1e-3)).max() < 6


def test_gibbs_takes_whole_weights_as_copies():
    how = {"n_experts": 2, "n_chains": 1, "n_warmup": 3, "n_draws": 3}
    one, other = gibbs(X, Y, sample_weight=COUNT, **how), gibbs(X[COPIES], Y[COPIES], **how)
    assert_allclose(one.log_joint, other.log_joint, rtol=1e-12)
    with pytest.raises(ValueError, match="sample_weight.*whole numbers, got [0-3].5"):
        gibbs(X, Y, sample_weight=COUNT + 0.5, **how)


def test_explicit_latent_vectors_refuse_weights():
    with pytest.raises(ValueError, match="sample_weight: with one latent vector per row"):
        sample_posterior(X, Y, 2, sample_weight=COUNT, target="explicit")
    with pytest.raises(ValueError, match="at most 2 dimensions.*got 3"):
        sample_posterior(X, np.arange(30) % 4, 2, sample_weight=COUNT)


def test_a_black_box_stops_by_weight():
    weighed = fit_bbvi(X, Y, 2, sample_weight=np.full(30, 1e-3), n_steps=20, tol=0.5)
    assert weighed.state.local.gamma.shape == (30, 2)
