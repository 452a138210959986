"""Inputs at the door, draws that can be repeated, and extreme parameters."""
import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from cmn_literate.network.simulate import Priors, sample_network, sample_sticks, sample_theta
from cmn_literate.checks import check_count, check_X, check_y
from cmn_literate.ideas.expfam import pad

BAD_X = {
    "a NaN": [[0.0, np.nan]],
    "an infinity": [[0.0, -np.inf]],
    "one dimension": [1.0, 2.0],
    "three dimensions": np.zeros((2, 2, 2)),
    "a scalar": 3.0,
    "no column": np.zeros((3, 0)),
    "ragged rows": np.array([[1], [2, 3]], dtype=object),
    "a text column": np.array([[1.0, "b"]], dtype=object),
    "numbers as text": [["1.5", "2.5"]],
    "numbers as text in an object array": np.array([[1.0, "2.5"]], dtype=object),
    "bytes": np.array([[b"1"]]),
    "None": None,
    "a None inside": np.array([[1.0, None]], dtype=object),
    "complex numbers": [[1 + 1j]],
    "dates": np.array([["2020-01-01"]], dtype="datetime64[D]"),
    "bytes in an object array": np.array([[1.0, b"1"]], dtype=object),
    "durations in an object array": np.array([[1.0, np.timedelta64(1, "ns")]], dtype=object),
    "ragged lists": [[1], [2, 3]],
    "a masked entry": np.ma.array([[1.0, 2.0]], mask=[[False, True]]),
    "a masked entry in a list of rows": [np.ma.array([1.0, 2.0], mask=[False, True])],
    "larger than a float64": [[10**400]],
}
BAD_Y = {
    "too few": [0, 1],
    "two-dimensional": [[0], [1], [2]],
    "negative": [0, 1, -1],
    "not below n_classes": [0, 1, 3],
    "fractions": [0.5, 1, 2],
    "a NaN": [np.nan, 1, 2],
    "an infinity": [np.inf, 1, 2],
    "huge": [1e300, 1, 2],
    "text": ["a", "b", "c"],
    "objects": [None, 1, 2],
    "complex": [0j, 1, 2],
    "masked": np.ma.array([0, 1, 2], mask=[True, False, False]),
    "ragged": [[0], [1, 2], 2],
}


@pytest.mark.parametrize("X", BAD_X.values(), ids=BAD_X)
def test_bad_inputs_are_refused_by_name(X):
    with pytest.raises(ValueError, match="^rows: expected .*got"):
        check_X(X, name="rows")


def test_the_message_says_where_the_first_bad_number_is():
    with pytest.raises(ValueError, match="nan at row 1, column 2"):
        check_X([[0, 0, 0], [0, 0, np.nan], [np.inf, 0, 0]])
    with pytest.raises(ValueError, match="^X: expected 3 columns, got 2"):
        check_X(np.zeros((4, 2)), n_features=3)


@pytest.mark.parametrize("X", [[[1, 2]], np.array([[1, 2]], dtype=np.uint8), np.array([[1, 2]], dtype=np.float32),
                               np.array([[1, 2]], dtype=np.float16), np.array([[True, False]]),
                               np.array([[1, 2.5]], dtype=object), np.ma.array([[1.0, 2.0]], mask=False)], ids=str)
def test_numbers_of_any_kind_become_float64(X):
    assert check_X(X).dtype == np.float64
    assert_array_equal(check_X(X), np.asarray(X).astype(float))
    assert pad(X).dtype == np.float64


def test_a_data_frame_is_an_array_of_numbers():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"width": [1, 2], "height": [0.5, 1.5]})
    assert_array_equal(check_X(frame), [[1, 0.5], [2, 1.5]])
    with pytest.raises(ValueError, match="^X: expected"):
        check_X(frame.assign(colour=["red", "blue"]))


def test_no_rows_are_fine_and_the_input_is_left_alone():
    assert check_X(np.zeros((0, 3))).shape == (0, 3)
    assert check_y([], 0).shape == (0,)
    theta = sample_theta(Priors(), 3, 2, 4, 3, np.random.default_rng(0))
    X = np.random.default_rng(1).normal(size=(5, 3))
    before = X.copy()
    sample_network(theta, X, np.random.default_rng(2))
    assert_array_equal(X, before)
    z, x1, y = sample_network(theta, np.zeros((0, 3)), np.random.default_rng(2))
    assert (z.shape, x1.shape, y.shape) == ((0,), (0, 2), (0,))


@pytest.mark.parametrize("y", BAD_Y.values(), ids=BAD_Y)
def test_bad_labels_are_refused_by_name(y):
    with pytest.raises(ValueError, match="^y: expected .*got"):
        check_y(y, 3, n_classes=3)


@pytest.mark.parametrize("y", [[0, 2, 1], [0.0, 2.0, 1.0], np.array([0, 2, 1], np.uint8), np.array([0, 2, 1], np.uint64)],
                         ids=str)
def test_whole_labels_of_any_kind_become_int64(y):
    assert check_y(y, 3, 3).dtype == np.int64
    assert_array_equal(check_y(y, 3), [0, 2, 1])


@pytest.mark.parametrize("value", [0, -1, 1.0, 2.5, True, "3", None, np.nan, [2]], ids=str)
def test_counts_are_whole_and_large_enough(value):
    with pytest.raises(ValueError, match="^K: expected a whole number >= 1, got"):
        check_count(value, "K")


@pytest.mark.parametrize("field", ["v0", "a0", "b0", "sigma0", "sigma1"])
@pytest.mark.parametrize("value", [0, -1.0, np.nan, np.inf, -np.inf, "5", None, True, 1j, [1.0]], ids=str)
def test_priors_are_positive_numbers(field, value):
    with pytest.raises(ValueError, match=f"^{field}: expected a positive finite number"):
        Priors(**{field: value})


def test_priors_are_values():
    priors = Priors(v0=3, sigma1=np.float32(0.5))
    assert pickle.loads(pickle.dumps(priors)) == priors and hash(priors) == hash(Priors(v0=3.0, sigma1=0.5))
    assert all(type(v) is float for v in vars(priors).values())
    with pytest.raises(AttributeError):
        priors.v0 = 4.0


@pytest.mark.parametrize("K, h, L, d", [(1, 1, 2, 1), (2, 1, 2, 5), (3, 4, 2, 1), (5, 1, 6, 2), (4, 3, 3, 2)])
def test_shapes_and_repeatability(K, h, L, d):
    def draw(seed):
        rng = np.random.default_rng(seed)
        theta = sample_theta(Priors(), K, h, L, d, rng)
        return theta, sample_network(theta, rng.normal(size=(60, d)), rng)

    theta, sample = draw(0)
    assert [v.shape for v in theta] == [(L - 1, h + 1), (K - 1, d + 1), (K, h, d + 1), (K, h)]
    assert [v.shape for v in sample] == [(60,), (60, h), (60,)]
    assert sample.z.min() >= 0 and sample.z.max() < K and sample.y.min() >= 0 and sample.y.max() < L
    again, other = draw(0), draw(1)
    for first, second, third in zip((*theta, *sample), (*again[0], *again[1]), (*other[0], *other[1])):
        assert_array_equal(first, second)
        assert first.size == 0 or np.issubdtype(first.dtype, np.integer) or not np.array_equal(first, third)


@pytest.mark.parametrize("field", ["n_experts", "latent_dim", "n_classes", "input_dim"])
def test_sample_theta_names_a_bad_size(field):
    sizes = dict(n_experts=2, latent_dim=2, n_classes=2, input_dim=2) | {field: 0}
    with pytest.raises(ValueError, match=f"^{field}: expected a whole number"):
        sample_theta(Priors(), rng=np.random.default_rng(0), **sizes)


def test_extreme_priors_give_finite_parameters():
    for priors in (Priors(a0=1e-3), Priors(v0=1e-12, sigma0=1e-12, sigma1=1e-12), Priors(v0=1e6, sigma0=1e3, sigma1=1e3)):
        theta = sample_theta(priors, 50, 3, 4, 2, np.random.default_rng(3))
        assert all(np.isfinite(v).all() for v in theta) and (theta.tau > 0).all()


def test_certain_coins_are_obeyed():
    rng = np.random.default_rng(4)
    psi = np.tile([[np.inf, 0.0], [-np.inf, np.inf], [-np.inf, -np.inf]], (1000, 1))
    assert_array_equal(sample_sticks(psi, rng), np.tile([0, 1, 2], 1000))
