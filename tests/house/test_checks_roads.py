"""The checks at the door of the roads: seeds, choices, files, starts and draws."""

from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from cmn_literate.checks import check_checkpoint, check_choice, check_optional, check_rng, is_number, is_seed
from cmn_literate.road_checks import check_climb, check_climbed, check_draws, check_leading_axes, check_theta

RATES = {"lr": 0.1, "b1": 0.9, "b2": 0.999, "eps": 0.0, "eps_root": 0.0}


class Pair(NamedTuple):
    size: int = 2


def test_what_is_let_in(tmp_path):
    assert is_number(np.float64(1)) and is_number(2) and not is_number(True) and not is_number("2") and not is_number(1j)
    assert is_seed(0) and is_seed(np.int64(3)) and is_seed(np.random.default_rng()) and not is_seed(-1) and not is_seed(False)
    rng = np.random.default_rng(3)
    assert check_rng(rng) is rng and check_rng(5).random() == np.random.default_rng(5).random()
    check_choice("fast", "gradient", ("fast", "autograd"))
    check_checkpoint(None)
    check_checkpoint(tmp_path / "run.npz")
    assert not list(tmp_path.iterdir())                              # trying a file leaves none
    start = np.ones(3)
    x = check_climb(start, RATES)
    assert x is not start and x.dtype == float
    check_climbed(1.0, np.ones(3), x)
    check_optional(None, "priors", Pair)
    check_theta(Pair(2), 2, Pair, lambda p: p.size)
    assert_array_equal(check_draws([[1, 2, 3, 4]]), [[1.0, 2, 3, 4]])


@pytest.mark.parametrize("message, call", [
    ("rng: expected a seed >= 0 or a Generator, got -1", lambda: check_rng(-1)),
    ("gradient: expected 'fast' or 'autograd', got None", lambda: check_choice(None, "gradient", ("fast", "autograd"))),
    ("checkpoint: expected a file that can be written, got '.' (it is a folder)", lambda: check_checkpoint(".")),
    ("x: expected a vector of finite numbers, got shape (1, 2)", lambda: check_climb([[1.0, 2.0]], RATES)),
    ("x: expected a vector of finite numbers, got others", lambda: check_climb([np.nan], RATES)),
    ("lr: expected a number from 0 (lr: above 0) and below inf, got 0", lambda: check_climb([1.0], {**RATES, "lr": 0})),
    ("b2: expected a number from 0 (lr: above 0) and below 1, got 1.0", lambda: check_climb([1.0], {**RATES, "b2": 1.0})),
    ("value_and_grad: expected shapes (), (2,), got (), (3,)", lambda: check_climbed(0.0, np.ones(3), np.ones(2))),
    ("priors: expected Pair or None, got 3", lambda: check_optional(3, "priors", Pair)),
    ("start: expected a Pair of 3, got 2", lambda: check_theta(Pair(2), 3, Pair, lambda p: p.size)),
    ("start: expected a Pair of 3, got 'x'", lambda: check_theta("x", 3, Pair, lambda p: p.size)),
    ("draws: expected an array (chains, draws >= 4, ...), got shape (1, 3)", lambda: check_draws([[1, 2, 3]])),
    ("stats['accept']: expected leading axes (2, 5), got shape (2, 4)",
     lambda: check_leading_axes(Pair()._replace(size=np.ones((2, 5, 1, 1))), np.ones((2, 5)), {"accept": np.ones((2, 4))})),
    ("size: expected 4 axes, the first two (2, 5) as in log_joint, got (2, 5)",
     lambda: check_leading_axes(Pair(np.ones((2, 5))), np.ones((2, 5)), {}))], ids=lambda v: v if isinstance(v, str) else "")
def test_what_is_refused(message, call):
    with pytest.raises(ValueError) as said:
        call()
    assert str(said.value).startswith(message)
