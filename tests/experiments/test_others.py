"""The two repairs of the other classifiers: votes without zeros, networks that are only cooled."""
import numpy as np
import pytest

from experiments.studies import others


def test_temperature_is_where_the_mean_logit_of_the_truth_is_the_expected_one():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 500)
    z = 4 * rng.normal(size=(500, 3)) + 2 * np.eye(3)[y]
    T = others.temperature(z, y)
    p = np.exp(z / T)
    p /= p.sum(1, keepdims=True)
    assert T > 1.5 and z[np.arange(500), y].mean() == pytest.approx((p * z).sum(1).mean(), abs=1e-5)


def test_rows_without_an_error_leave_the_network_as_it_is():
    y = np.arange(12) % 3
    assert others.temperature(5 * np.eye(3)[y], y) == 1.0


@pytest.mark.parametrize("classes", [2, 3])
def test_logits_of_a_network_give_its_probabilities(classes):
    from scipy.special import softmax
    from sklearn.neural_network import MLPClassifier

    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, 4)), np.arange(60) % classes
    model = MLPClassifier((8, 5), max_iter=2000, tol=1e-2, random_state=0).fit(X, y)
    assert softmax(others.logits_of(model, X), axis=1) == pytest.approx(model.predict_proba(X), abs=1e-10)


def test_one_more_vote_for_every_class():
    assert others.smoothed(np.array([[1.0, 0.0, 0.0]]), 9) == pytest.approx(np.array([[10, 1, 1]]) / 12)
