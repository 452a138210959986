"""The two repairs of the other classifiers: votes without zeros, networks that are only cooled."""
import numpy as np
import pytest

from experiments import studies
from experiments.__main__ import main
from experiments.grid import experts
from experiments.run import held_out
from experiments.studies import defaults, others


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


def test_the_default_among_them_is_what_the_study_chose():
    cell = defaults.Cell("iris", 25, 10)
    try:
        Z, y, Z_new, truth, _ = defaults.rows_of(cell)
    except FileNotFoundError as error:
        pytest.skip(str(error).splitlines()[0])
    log_p, notes = others.forecast("cmn-default", Z, y, Z_new, 0, "iris")
    stored = studies.records("defaults")[cell]["metrics"]["lpd"][list(defaults.CANDIDATES).index("mix")]
    assert held_out(truth, log_p)["lpd"] == pytest.approx(stored, abs=defaults.TOLERANCE) and notes == {}


def test_a_further_seed_of_the_default_is_four_other_fits(monkeypatch):
    asked = []
    monkeypatch.setattr(defaults, "fit_one", lambda name, Z, y, L, K: asked.append((*name, L, K)) or _Uniform())
    monkeypatch.setattr("cmn_literate.engineering.quadrature.predict_log_proba", lambda parameters, Z: np.log(np.tile([parameters, 1 - parameters], (len(Z), 1))))
    log_p, _ = others.forecast("cmn-default", np.zeros((4, 2)), np.array([0, 1, 1, 0]), np.zeros((3, 2)), 2, "sonar")
    K = experts("sonar")
    assert asked == [("paper", "hyperplanes", 8, 2, K), ("paper", "hyperplanes", 9, 2, K), ("shared", "hyperplanes", 10, 2, K), ("shared", "hyperplanes", 11, 2, K)]
    assert np.exp(log_p) == pytest.approx(np.tile([0.25, 0.75], (3, 1)))


class _Uniform:
    """A fit that forecasts a quarter for the first class."""
    parameters = 0.25


def test_missing_cells_of_other_classifiers_are_estimated(capsys):
    assert main(["run", "others", "--dry-run", "--again", "--dataset", "iris", "--method", "mlp"]) == 0
    assert "12 to run: about 0.0" in capsys.readouterr().out
