"""The checks at the door: what they let in, what they refuse, and that the message names the argument."""

import numpy as np
import pytest
from cmn_literate.checks import check_count, check_X, check_y, plain_array, real_array
from numpy.testing import assert_array_equal

HIDDEN = np.ma.array([[1.0, 2.0]], mask=[[False, True]])


def test_what_is_let_in():
    assert check_X([[1, 2], [3, 4]]).dtype == np.float64 and check_X(np.zeros((0, 3))).shape == (0, 3)
    assert plain_array(["a"], "y", labels=True).tolist() == ["a"]
    assert real_array(3, "v0").shape == () and np.isnan(real_array([[1, None]], "m")[0, 1])
    assert_array_equal(check_y([0.0, 2.0, 1.0], 3, 3), [0, 2, 1])
    assert check_y([True, False], 2).dtype == np.int64 and check_y([], 0).shape == (0,)
    assert check_count(np.int64(3), "n_experts") == 3 and check_count(0, "seed", least=0) == 0


@pytest.mark.parametrize("values", [None, 1j, ["1"], [[1], [2, 3]], HIDDEN, [10**400], [{}]], ids=repr)
def test_no_real_numbers(values):
    with pytest.raises(ValueError, match="^v0: expected"):
        real_array(values, "v0")


@pytest.mark.parametrize("X", [
    [1.0, 2.0], np.zeros((2, 0)), [[0.0, np.nan]], [[0.0], [-np.inf]], [["1.5"]], np.array([[1.0, "b"]], object), [[1j]],
    np.array([[1], [2, 3]], object), [[1], [2, 3]], HIDDEN, [[10**400]]], ids=repr)
def test_no_inputs(X):
    with pytest.raises(ValueError, match="^inputs: expected"):
        check_X(X, "inputs")


def test_columns():
    with pytest.raises(ValueError, match="3 columns, got 2"):
        check_X(np.zeros((4, 2)), n_features=3)


@pytest.mark.parametrize("y", [[0, 1, -1], [0, 3, 1], [0.5, 1, 2], [np.nan, 1, 2], ["a", "b", "c"], [0, 1]], ids=repr)
def test_no_labels(y):
    with pytest.raises(ValueError, match="^y: expected"):
        check_y(y, 3, n_classes=3)


@pytest.mark.parametrize("value", [0, -2, 2.0, True, "3", None], ids=repr)
def test_no_count(value):
    with pytest.raises(ValueError, match="^K: expected a whole number >= 1"):
        check_count(value, "K")
