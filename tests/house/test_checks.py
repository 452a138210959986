"""The checks at the door: what they let in, what they refuse, and that the message names the argument."""

from types import SimpleNamespace

import numpy as np
import pytest
from cmn_literate.checks import (
    check_count,
    check_digits,
    check_instance,
    check_last_axis,
    check_normal,
    check_not_negative,
    check_parameters,
    check_positive,
    check_state,
    check_X,
    check_y,
    plain_array,
    real_array,
)
from cmn_literate.network.latents import State
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


@pytest.mark.parametrize("value", [0, -1.0, np.nan, np.inf, True, "1", None], ids=repr)
def test_no_positive_number(value):
    with pytest.raises(ValueError, match="^s: expected a positive finite number, got"):
        check_positive(value, "s")


def test_a_positive_number_is_a_float():
    assert check_positive(np.int64(3), "s") == 3.0 and type(check_positive(1, "s")) is float


def test_last_axis_counts_and_kinds():
    check_last_axis(np.zeros((2, 0)), "psi", "(..., J)")
    check_last_axis([1.0], "w", "(..., K)", least=1)
    check_not_negative([0.0, 1.0], "b")
    check_instance(3, "fit", int, "a whole number")
    for call, message in [(lambda: check_last_axis(2.0, "psi", "(..., J)"), r"psi must have shape \(\.\.\., J\), got the scalar 2\.0"),
                          (lambda: check_last_axis(np.zeros((2, 0)), "w", "(..., K)", least=1), r"w must have shape .*, got \(2, 0\)"),
                          (lambda: check_last_axis(1.0, "w", "(..., K)", least=1), r"w must have shape .*, got \(\)"),
                          (lambda: check_not_negative(np.array([1.0, -2.0]), "b"), r"b must be >= 0, got -2\.0"),
                          (lambda: check_instance("a", "fit", int, "a whole number"), "fit: expected a whole number, got str")]:
        with pytest.raises(ValueError, match=f"^{message}$"):
            call()


def test_normal_laws_and_digits():
    m, v = check_normal(0, [1.0, 2.0])
    assert m.shape == v.shape == (2,) and check_digits(12) == 12
    for bad in ((0.0, -1.0), (0.0, np.inf), (np.nan, 1.0)):
        with pytest.raises(ValueError, match="^v: expected finite variances"):
            check_normal(*bad)
    for bad in (0, 16, True, "8", np.nan):
        with pytest.raises(ValueError, match="^digits: expected a number from 1 to 15"):
            check_digits(bad)


K, H, L, D, N = 2, 2, 3, 3, 4
FACTORS = dict(beta1_mu=np.zeros((L - 1, H + 1)), beta1_S=np.ones((L - 1, H + 1, H + 1)), beta0_mu=np.zeros((K - 1, D)),
               beta0_S=np.ones((K - 1, D, D)), M=np.zeros((K, H, D)), V=np.ones((K, D, D)), a=np.ones(K), b=np.ones((K, H)))
LOCAL = dict(gamma=np.ones((N, K)), mu=np.zeros((N, K, H)), Sigma=np.ones((N, K, H, H)), xi1=np.ones((N, K, L - 1)), xi0=np.ones((N, K - 1)))


def test_parameters():
    p = check_parameters(SimpleNamespace(**{**FACTORS, "V": np.ones((K, D, D), int)}))
    assert p.beta1_S.shape == (2, 3, 3) and p.V.dtype == float
    with pytest.raises(ValueError, match="a dict has no beta1_mu"):
        check_parameters({})


@pytest.mark.parametrize("name, value", [("a", np.ones(1)), ("a", np.zeros(K)), ("b", -np.ones((K, H))), ("V", np.full((K, D, D), np.nan)),
                                         ("beta0_mu", np.zeros((D, K - 1))), ("M", np.zeros((H, D))), ("b", "text")], ids=str)
def test_no_parameters(name, value):
    with pytest.raises(ValueError, match=f"^{name}(, beta1_mu)?: expected"):
        check_parameters(SimpleNamespace(**{**FACTORS, name: value}))


def test_state():
    state, X, y = State.of(**FACTORS, **LOCAL), np.zeros((N, D - 1)), [0, 1, 2, 0]
    assert [part.shape for part in check_state(state, X, y)] == [(N, D - 1), (N,)]
    check_state(state.replace(xi1=np.ones((N, L - 1))), X, y)
    for name, shape in [("M", (H, D)), ("xi1", (N,)), ("gamma", (N + 1, K)), ("Sigma", (N, K, H, H + 1)), ("beta1_S", (L - 1, H, H)), ("xi0", (N, K))]:
        with pytest.raises(ValueError, match=f"^state.{name}: expected"):
            check_state(state.replace(**{name: np.ones(shape)}), X, y)
    with pytest.raises(ValueError, match="^X: expected 2 columns, got 1"):
        check_state(state, X[:, :1], y)
    with pytest.raises(ValueError, match="^y: expected labels 0 to 2"):
        check_state(state, X, [0, 1, 3, 0])
