"""The model above the priors: every update right (loops), stationary (autograd), never downhill; the bound below the exact evidence; limits; the estimator."""
import re

import numpy as np
import pytest
from autograd import grad
from numpy.testing import assert_allclose, assert_array_equal
from oracle import cmn, shared
from problems import CASES, PRIORS, as_dict, name, problem

from cmn_literate import CMNClassifier
from cmn_literate.beyond.shared_means import (
    HIGHER_UPDATES, Above, Higher, fit_shared, higher_elbo, higher_kl, higher_start, higher_sweep, mstep_about, scaled_priors, shared_update, centres_of_sticks)
from cmn_literate.engineering.fit import fit
from cmn_literate.engineering.starts import init_parameters
from cmn_literate.engineering.sums import add_sums, estep, make_blocks, mstep, prepare
from cmn_literate.network.cavi import local_factors
from cmn_literate.network.elbo import elbo
from cmn_literate.network.simulate import Priors
from cmn_literate.use.datasets import make_pinwheels

MODELS = [Above(v00=1.7), Above(centred=True), Above(strength=0.8), Above(0.9, True, 2.5)]
EVERYTHING = MODELS[-1]
ORDER = ("scales", "shared", *cmn.ORDER)
COVARIANCES = ("V", "beta1_S", "beta0_S", "Sigma")
each_model = pytest.mark.parametrize("above", MODELS, ids=str)
each_case = pytest.mark.parametrize("case", CASES, ids=name)


def extended(case, above, seed=0):
    """(State, Higher, X, y, the same as a dict for the oracle), far from any optimum."""
    state, X, y, arrays = problem(case, seed)
    rng, (h, D) = np.random.default_rng([9, seed]), state.parameters.M.shape[1:]
    g = higher_start(h, D, PRIORS, above)
    if above.v00 > 0:
        g = g._replace(mean=rng.normal(size=(h, D)), var=rng.uniform(0.2, 1.0, h))
    if above.strength is not None:
        g = g._replace(precision=rng.uniform(0.3, 2.0, 3), shape=rng.uniform(1.0, 4.0, 3))
    return state, g, X, y, {**arrays, **dict(zip(shared.FIELDS, g))}


def joined(state, g):
    return {**as_dict(state), **dict(zip(shared.FIELDS, g))}


@each_model
@each_case
def test_updates_and_bound_agree_with_the_loops(case, above):
    s, g, X, y, d = extended(case, above)
    assert set(HIGHER_UPDATES) == set(shared.UPDATES) == {*cmn.ORDER, "shared", "scales"}
    assert_allclose(higher_elbo(s, g, X, y, PRIORS, above), shared.elbo(d, X, y, PRIORS, above), rtol=1e-10)
    found, exact = higher_kl(s.parameters, g, PRIORS, above), shared.divergences(d, PRIORS, above)
    for part in exact if above.strength is None else ("shared",):            # else E ln lambda stands in another part
        assert_allclose(found[part], exact[part], rtol=1e-8, atol=1e-8, err_msg=part)
    assert_allclose(sum(found.values()), sum(exact.values()), rtol=1e-10)
    for update in ORDER:
        new, expected = joined(*HIGHER_UPDATES[update](s, g, X, y, PRIORS, above)), shared.UPDATES[update](d, X, y, PRIORS, above)
        for field, value in new.items():
            if field in shared.CHANGES[update]:
                assert_allclose(value, expected[field], rtol=1e-8, atol=1e-9, err_msg=f"{update} {field}")
            else:
                assert_array_equal(value, joined(s, g)[field], err_msg=f"{update} {field}")


def slope(s, g, X, y, above, field):
    if field in Higher._fields:
        return grad(lambda v: higher_elbo(s, g._replace(**{field: v}), X, y, PRIORS, above))(1.0 * getattr(g, field))
    found = grad(lambda v: higher_elbo(s.replace(**{field: v}), g, X, y, PRIORS, above))(1.0 * s.flat()[field])
    return found + np.swapaxes(found, -1, -2) if field in COVARIANCES else found


@each_model
@pytest.mark.parametrize("case", [CASES[0], CASES[2], CASES[9]], ids=name)
def test_bound_is_stationary_right_after_each_update(case, above):
    s, g, X, y, _ = extended(case, above, seed=1)
    own = {"experts": ("M", "V", "a", "b"), "beta1": ("beta1_mu", "beta1_S"), "beta0": ("beta0_mu", "beta0_S"), "x": ("mu", "Sigma"),
           "shared": ("mean", "var") if above.v00 else (), "scales": ("precision", "shape") if above.strength else ()}
    for update, fields in own.items():
        after = HIGHER_UPDATES[update](s, g, X, y, PRIORS, above)
        for field in fields:
            size = np.abs(slope(s, g, X, y, above, field)).max(initial=0.0)
            assert np.abs(slope(*after, X, y, above, field)).max(initial=0.0) < 1e-9 * max(1.0, size), (update, field)
            assert size > 1e-3 or case[2] == 1, (update, field)


@each_model
def test_bound_never_falls_in_two_hundred_random_orders(above):
    s, g, X, y, _ = extended(CASES[0], above, seed=2)
    rng, value = np.random.default_rng(3), -np.inf
    for number in range(200):
        for done, update in enumerate(rng.permutation(ORDER), 1):
            s, g = HIGHER_UPDATES[update](s, g, X, y, PRIORS, above)
            if number < 20 or done == len(ORDER):
                new = float(higher_elbo(s, g, X, y, PRIORS, above))
                assert new >= value - 1e-9 * abs(value), (number, update)
                value = new
    assert value < 0


# ---- against the exact evidence

@pytest.mark.parametrize("above", [Above(v00=2.0), Above(v00=0.5, centred=True), Above()], ids=str)
def test_bound_is_below_the_evidence_of_one_expert(above):
    priors = Priors(1.5, 2.5, 1.5, 1.0, 0.8)
    X, y = np.array([[-1.0], [0.4], [1.5]]), np.array([0, 1, 0])
    found = fit_shared(X, y, 1, 1, 2, priors, above, rng=0, max_sweeps=400, tol=1e-10)
    exact = shared.by_quadrature(X, y, priors, above, nodes=12)
    assert_allclose(shared.by_quadrature(X, y, priors, above, nodes=10), exact, atol=0.01)
    assert found.elbo[-1] < exact < 0
    by_draws, error = shared.by_qmc(X, y, 1, 2, priors, above, log2_draws=12)
    assert abs(by_draws - exact) < 4 * error + 0.01            # the two exact routes agree


@pytest.mark.parametrize("above", MODELS, ids=str)
def test_bound_is_below_the_evidence_of_two_experts_and_three_classes(above):
    priors = Priors(1.2, 3.0, 2.0, 0.9, 0.7)
    X, y = np.array([[-1.0], [0.0], [1.0], [1.4]]), np.array([0, 1, 2, 2])
    best = max(fit_shared(X, y, 2, 1, 3, priors, above, rng=seed, max_sweeps=200).elbo[-1] for seed in range(3))
    exact, error = shared.by_qmc(X, y, 2, 3, priors, above, log2_draws=12)
    assert error < 0.02 and best < exact - 3 * error


def test_bound_is_tight_where_nothing_is_unknown():
    """Narrow priors everywhere: what is lost is the logits' coins alone, which is nothing at logit 0."""
    X, y = np.array([[-1.0], [0.0], [1.0], [1.4]]), np.array([0, 1, 2, 2])
    priors, above = Priors(1e-4, 50.0, 50.0, 0.02, 0.02), Above(v00=1e-6, centred=True)
    found = fit_shared(X, y, 2, 1, 3, priors, above, rng=0, max_sweeps=300)
    exact, _ = shared.by_qmc(X, y, 2, 3, priors, above, log2_draws=8)
    assert 0 < exact - found.elbo[-1] < 0.35
    assert_allclose(exact, 4 * np.log(1 / 3), atol=0.01)        # classes are alike a priori
    plain = fit_shared(X, y, 2, 1, 3, priors, Above(v00=1e-6), rng=0, max_sweeps=300)
    assert abs(plain.elbo[-1] - (-np.log(2) - 3 * np.log(4))) < 0.35


# ---- limits

@pytest.mark.parametrize("omega1", ["per-component", "shared"])
def test_nothing_above_is_the_old_fit_bit_for_bit(omega1):
    X, y = make_pinwheels(60, np.random.default_rng(0))
    priors = Priors(v0=0.3, sigma0=1.7)
    old = fit(X, y, 4, priors=priors, rng=1, max_sweeps=25, omega1=omega1)
    new = fit_shared(X, y, 4, priors=priors, above=Above(), rng=1, max_sweeps=25, omega1=omega1)
    for one, two in zip((*old.parameters, old.elbo), (*new.parameters, new.elbo)):
        assert_array_equal(one, two)
    state, X, y, _ = problem(CASES[0])
    g = higher_start(*state.parameters.M.shape[1:], PRIORS, Above())
    assert_allclose(higher_elbo(state, g, X, y, PRIORS, Above()), elbo(state, X, y, PRIORS), rtol=1e-14)


def test_a_narrow_shared_mean_and_strong_scales_are_nearly_the_old_fit():
    X, y = make_pinwheels(60, np.random.default_rng(0))
    old = fit(X, y, 4, rng=1, max_sweeps=15)
    assert_allclose(fit_shared(X, y, 4, above=Above(v00=1e-9), rng=1, max_sweeps=15).elbo, old.elbo, rtol=1e-6)
    strong = fit_shared(X, y, 4, above=Above(strength=1e9), rng=1, max_sweeps=15)
    assert_allclose(strong.elbo, old.elbo, rtol=1e-6)
    assert_allclose(strong.higher.precision, [0.1, 1 / 25, 1 / 25], rtol=1e-5)


def test_no_rows_have_a_closed_form():
    above, (K, h, D) = Above(v00=2.2), (4, 2, 3)
    s, X, y, _ = problem((0, 2, 4, 3, 2, False))
    g = higher_start(h, D, PRIORS, above)
    for _ in range(600):
        for update in ("shared", "experts", "beta0", "beta1"):
            s, g = HIGHER_UPDATES[update](s, g, X, y, PRIORS, above)
    b = float(s.parameters.b[0, 0])
    tau = PRIORS.a0 / b
    gap = PRIORS.a0 * np.log(b / PRIORS.b0) + PRIORS.a0 * (PRIORS.b0 - b) / b
    assert_allclose(higher_elbo(s, g, X, y, PRIORS, above), -h * (D / 2 * np.log(1 + K * tau * above.v00 / PRIORS.v0) + K * gap), rtol=1e-9)
    assert np.abs(s.parameters.M).max() < 1e-6 and np.abs(g.mean).max() < 1e-6


def test_an_expert_without_rows_is_at_the_shared_mean():
    X, y = make_pinwheels(80, np.random.default_rng(1))
    found = fit_shared(X, y, 8, above=Above(v00=5.0), rng=0, max_sweeps=300)
    rows = 2 * (found.parameters.a - 2.0)
    assert rows.min() < 1e-3 < 5 < rows.max()
    empty = found.parameters.M[rows.argmin()]
    assert_allclose(empty, found.higher.mean, atol=2e-2 * np.abs(found.higher.mean).max())
    assert np.abs(found.higher.mean).max() > 0.1
    assert np.diff(found.elbo).min() > -1e-7


def test_shared_mean_is_a_weighted_mean():
    s, *_ = problem(CASES[0])
    tau = s.parameters.a[:, None] / s.parameters.b
    mean, var = shared_update(tau, s.parameters.M, 0.7, 1e12)
    assert_allclose(mean, (tau[:, :, None] * s.parameters.M).sum(0) / tau.sum(0)[:, None], rtol=1e-9)
    assert_allclose(var, 0.7 / tau.sum(0), rtol=1e-9)
    assert not any(np.any(part) for part in shared_update(tau, s.parameters.M, 0.7, 0.0))


@pytest.mark.parametrize("J", [0, 1, 4])
def test_centred_sticks_make_classes_alike(J):
    psi, left = centres_of_sticks(J, 2)[:, -1], 1.0
    for j in range(J):
        assert_allclose(left / (1 + np.exp(-psi[j])), 1 / (J + 1), rtol=1e-12)
        left /= 1 + np.exp(psi[j])
    assert_allclose(left, 1 / (J + 1), rtol=1e-12)


# ---- the fast sweep

@each_model
def test_fast_sweep_is_the_updates_in_their_order(above):
    X, y = make_pinwheels(50, np.random.default_rng(0))
    p = init_parameters(X, y, 3, 4, 5, PRIORS, np.random.default_rng(0))
    g = higher_start(4, 3, PRIORS, above)
    s, slow, blocks = local_factors(p, X, y, rounds=0), g, make_blocks(X, y, 3, 4, 5)
    for _ in range(3):
        blocks, p, g, bound = higher_sweep(blocks, p, g, PRIORS, above)
        for update in ORDER:
            s, slow = HIGHER_UPDATES[update](s, slow, X, y, PRIORS, above)
        assert_allclose(bound, higher_elbo(s, slow, X, y, PRIORS, above), rtol=1e-12)
    for one, two in zip((*p, *g), (*s.parameters, *slow)):
        assert_allclose(one, two, rtol=1e-8, atol=1e-10)


def test_mstep_of_sums_of_parts_and_of_nothing_above():
    X, y = make_pinwheels(40, np.random.default_rng(2))
    p = init_parameters(X, y, 3, 4, 5, PRIORS, np.random.default_rng(0))
    prep, parts = prepare(p), [make_blocks(X[at], y[at], 3, 4, 5)[0] for at in (slice(0, 15), slice(15, 40))]
    sums = [estep(prep, part.rows, part.omega)[0] for part in parts]
    whole, block = add_sums(*sums), make_blocks(X, y, 3, 4, 5)[0]
    g = Higher(np.random.default_rng(3).normal(size=(4, 3)), np.full(4, 0.4), np.ones(3), np.ones(3))
    one, z_one = mstep_about(whole, p, PRIORS, g, EVERYTHING)
    two, z_two = mstep_about(estep(prep, block.rows, block.omega)[0], p, PRIORS, g, EVERYTHING)
    assert_allclose(z_one, z_two, rtol=1e-11)
    for a, b in zip(one, two):
        assert_allclose(a, b, rtol=1e-9, atol=1e-11)
    none = higher_start(4, 3, PRIORS, Above())
    for a, b in zip(mstep_about(whole, p, PRIORS, none, Above())[0], mstep(whole, p, PRIORS)[0]):
        assert_array_equal(a, b)


# ---- the estimator

def data():
    X, y = make_pinwheels(90, np.random.default_rng(4))
    return X, np.array(list("abcde"))[y]


def test_estimator_has_the_scales_of_its_columns_and_remembers_everything(tmp_path):
    X, y = data()
    est = CMNClassifier.paper(n_experts=5, method="shared-means", max_sweeps=40, tol=1e-3, random_state=0,
                        method_options={"v00": 6.0, "centred": True, "strength": 3.0}).fit(X, y)
    (kept,) = est.fits_
    assert kept.priors == Priors(v0=10 / 3, sigma0=5 / 3**0.5) == scaled_priors(Priors(), 3) and kept.above == Above(2.0, True, 3.0)
    Z = (X - X.mean(0)) / X.std(0)
    codes = np.unique(y, return_inverse=True)[1]
    by_hand = fit_shared(Z, codes, 5, priors=kept.priors, above=kept.above, rng=np.random.default_rng(0).spawn(1)[0], max_sweeps=40, tol=1e-3)
    assert_allclose(by_hand.elbo, kept.elbo, rtol=1e-9)
    assert est.gate(X).shape == (90, 5) and est.experts_.weight.shape == (5,) and est.elbo_ == kept.elbo[-1]
    est.save(tmp_path / "model.npz")
    again = CMNClassifier.load(tmp_path / "model.npz")
    assert_array_equal(again.predict_log_proba(X), est.predict_log_proba(X))
    for one, two in zip(again.fits_[0].higher, kept.higher):
        assert_array_equal(one, two)
    assert (again.fits_[0].priors, again.fits_[0].above) == (kept.priors, kept.above)


def test_a_run_goes_on_from_its_checkpoint_bit_for_bit(tmp_path):
    X, y = data()
    make = lambda sweeps, **o: CMNClassifier.paper(n_experts=4, method="shared-means", max_sweeps=sweeps, tol=1e-12, random_state=0, method_options=o)
    with pytest.warns(match="shared-means has not converged"):
        whole = make(12).fit(X, y)
    path = tmp_path / "run.npz"
    with pytest.warns(match="not converged"):
        make(5, checkpoint=path).fit(X, y)
    with pytest.warns(match="not converged"):
        rest = make(12, checkpoint=path).fit(X, y)
    assert_array_equal(rest.trace_, whole.trace_)
    assert_array_equal(rest.predict_log_proba(X), whole.predict_log_proba(X))


def test_unscaled_and_without_a_mean_it_is_coordinate_ascent():
    X, y = data()
    options = {"n_experts": 4, "max_sweeps": 20, "tol": 1e-12, "random_state": 3}
    with pytest.warns(match="not converged"):
        old = CMNClassifier.paper(**options).fit(X, y)
    with pytest.warns(match="not converged"):
        new = CMNClassifier.paper(**options, method="shared-means", method_options={"v00": 0.0, "scaled": False}).fit(X, y)
    assert_array_equal(old.predict_log_proba(X), new.predict_log_proba(X))


def test_it_stops_when_a_sweep_gains_little():
    X, y = data()
    est = CMNClassifier.paper(n_experts=4, method="shared-means", max_sweeps=300, tol=1e-2, random_state=0).fit(X, y)
    gains = np.diff(est.trace_) / len(X)
    assert est.converged_ and est.n_sweeps_ < 300 and gains[-1] < 1e-2 <= gains[:-1].min()


@pytest.mark.parametrize("options, word", [({"v00": -1.0}, "v00"), ({"v00": "wide"}, "v00"), ({"v00": float("nan")}, "v00"), ({"strength": 0.0}, "strength"),
                                           ({"centred": "yes"}, "centred"), ({"scaled": None}, "scaled"), ({"narrow": 1}, "method_options")])
def test_a_bad_option_is_named(options, word):
    X, y = data()
    with pytest.raises(ValueError, match=rf"^{re.escape(word)}: expected "):
        CMNClassifier.paper(method="shared-means", method_options=options).fit(X, y)


def test_axes_that_have_other_priors_are_not_accelerated():
    X, y = data()
    with pytest.raises(ValueError, match="^accelerate: expected False"):
        CMNClassifier.paper(method="shared-means", accelerate=True).fit(X, y)
    with pytest.raises(ValueError, match="^above: expected Above"):
        fit_shared(X, np.zeros(90, int), 2, n_classes=2, above=2.0)


@pytest.mark.parametrize("option, value", [("rng", -1), ("rng", "seed"), ("init", "best"), ("omega1", "each"), ("max_sweeps", 0), ("tol", "small"), ("inner", 0),
                                           ("priors", 3.0), ("above", None), ("n_experts", 0), ("X", np.full((4, 2), np.nan))])
def test_an_argument_of_the_fit_is_named(option, value):
    arguments = {"X": np.zeros((4, 2)), "y": np.array([0, 1, 0, 1])} | {option: value}
    with pytest.raises(ValueError, match=rf"^{option}: expected "):
        fit_shared(**arguments)


def test_single_precision_is_double_inside():
    X, y = make_pinwheels(30, np.random.default_rng(0))
    one = fit_shared(X.astype(np.float32), y, 2, max_sweeps=3)
    assert {part.dtype for part in (*one.parameters, *one.higher)} == {np.dtype(float)}
