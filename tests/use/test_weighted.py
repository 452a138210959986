"""Weights in the estimator: scikit-learn's own checks, copies, classes, and methods that refuse."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.utils.estimator_checks import estimator_checks_generator

from cmn_literate import CMNClassifier
from cmn_literate.inputs import class_factors, weigh_rows
from cmn_literate.learners import LEARNERS, find_learner
from cmn_literate.engineering.sources import column_scale

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3)) * [1.0, 10.0, 0.1] + [0.0, 5.0, 100.0]
Y = np.array(["ash", "birch", "cedar"])[(X[:, 0] > 0).astype(int) + (X[:, 1] > 8)]
COUNT = rng.integers(0, 4, size=60)
COPIES = np.repeat(np.arange(60), COUNT)
# scikit-learn shuffles the copied rows; the class-code start draws numbers row by row, so rows in another order are another start.
# init="random" draws the parameters, whatever the rows: there the same checks hold.
CHECKS = [(name, init) for init in ("class-code", "random") for name in (
    "check_sample_weights_pandas_series", "check_sample_weights_not_an_array", "check_sample_weights_list", "check_sample_weights_shape",
    "check_sample_weights_not_overwritten", "check_class_weight_classifiers", "check_sample_weight_equivalence_on_dense_data")
    if (name, init) != ("check_sample_weight_equivalence_on_dense_data", "class-code")]


def make(**options):
    return CMNClassifier.paper(**{"n_experts": 3, "max_sweeps": 8, "random_state": 0, **options})


@pytest.mark.parametrize("name, init", CHECKS)
def test_scikit_learn_checks_of_weights(name, init):
    model = CMNClassifier.paper(n_experts=2, max_sweeps=30, init=init)
    found = [(estimator, check) for estimator, check in estimator_checks_generator(model) if check.func.__name__ == name]
    assert found
    for estimator, check in found:
        check(estimator)


@pytest.mark.parametrize("method, options", [("cavi", {}), ("mle", {"n_steps": 20}), ("map", {"n_steps": 20, "objective": "network"}),
                                             ("nuts", {"n_chains": 1, "n_warmup": 2, "n_draws": 2, "max_depth": 2, "target": "marginal"}),
                                             ("gibbs", {"n_chains": 1, "n_warmup": 2, "n_draws": 2}), ("deep", {"points": 32})])
def test_weights_are_copies(method, options):
    how = {"method": method, "method_options": options or None}
    one, other = make(**how).fit(X, Y, sample_weight=COUNT), make(**how).fit(X[COPIES], Y[COPIES])
    assert_allclose(one.predict_proba(X), other.predict_proba(X), rtol=1e-8, atol=1e-10)
    assert_allclose(one.objective_, other.objective_, rtol=1e-10)


def test_columns_are_measured_with_weights():
    for u, v in zip(column_scale(X, True, COUNT), column_scale(X[COPIES])):
        assert_allclose(u, v, rtol=1e-12)


def test_holdout_scores_with_weights():
    kept = np.where(np.arange(60) % 2, 1.0, 1e-9)                             # even rows hardly count
    model = make(n_init=3, select="holdout").fit(X, Y, sample_weight=kept)
    assert len(model.fits_) == 1 and np.isfinite(model.predict_proba(X)).all()


def test_class_weights():
    codes = np.unique(Y, return_inverse=True)[1]
    total = np.bincount(codes)
    assert_allclose(class_factors(np.unique(Y), total, "balanced"), 60 / (3 * total))
    *_, weighed = weigh_rows(X, Y, make(class_weight="balanced"), COUNT * 1.0)
    assert_allclose(np.bincount(codes[COUNT > 0], weighed), COUNT.sum() / 3)
    assert_allclose(class_factors(np.array(["ash", "birch", "cedar", "oak"]), np.append(total, 0), {"birch": 2, "oak": 9}), [1, 2, 1, 9])
    assert_allclose(class_factors(np.arange(3), np.array([30.0, 0.0, 10.0]), "balanced")[[0, 2]], [40 / 60, 40 / 20])
    given = make(class_weight={"ash": 2.0, "birch": 0.5}).fit(X, Y)
    by_rows = make().fit(X, Y, sample_weight=np.select([Y == "ash", Y == "birch"], [2.0, 0.5], 1.0))
    assert_array_equal(given.trace_, by_rows.trace_)
    assert make(class_weight={"ash": 0}).fit(X, Y).classes_.tolist() == ["birch", "cedar"]
    for bad, complaint in [({"elm": 1}, "labels among.*got 'elm'"), ({"ash": -1}, "finite numbers >= 0"), ("equal", "a dict, 'balanced'"),
                           ({"ash": 0, "birch": 0, "cedar": 0}, "positive weight")]:
        with pytest.raises(ValueError, match=complaint):
            make(class_weight=bad).fit(X, Y)


def test_a_model_with_class_weights_is_saved(tmp_path):
    model = make(class_weight={"ash": 2.0}).fit(X, Y)
    model.save(tmp_path / "model.npz")
    other = CMNClassifier.load(tmp_path / "model.npz")
    assert_array_equal(other.predict_proba(X), model.predict_proba(X))
    assert other.class_weight == {"ash": 2.0}
    codes = np.unique(Y, return_inverse=True)[1]
    make(class_weight={np.int64(1): np.float64(2.0), 2: 3}).fit(X, codes).save(tmp_path / "codes.npz")
    assert CMNClassifier.load(tmp_path / "codes.npz").class_weight == {1: 2.0, 2: 3}


def test_every_method_says_what_weights_it_takes(monkeypatch):
    assert {name: find_learner(name).weights for name in LEARNERS} == {
        "auto": "any", "cavi": "any", "mle": "any", "map": "any", "bbvi": "any", "nuts": "any", "gibbs": "whole",
        "shared-means": "any", "several": "any", "shared-map": "any", "shared-bbvi": "any", "shared-nuts": "any", "shared-gibbs": "whole",
        "structured": "any", "deep": "any"}
    monkeypatch.setitem(LEARNERS, "plain", find_learner("cavi")._replace(weights="none"))
    with pytest.raises(ValueError, match="method 'plain' takes no weights; those that do: auto, cavi, mle"):
        make(method="plain").fit(X, Y, sample_weight=COUNT)
    with pytest.raises(ValueError, match="whole numbers"):
        make(method="gibbs").fit(X, Y, sample_weight=COUNT + 0.5)
