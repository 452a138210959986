"""The table of nodes: its error, its randomness, and bad input."""
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from cmn_literate.engineering.coordinates import Shapes
from cmn_literate.engineering.gradients import class_log_probs
from cmn_literate.engineering.nodes import latent_nodes
from cmn_literate.network.simulate import Theta


def test_quadrature_error_is_what_the_docstring_says():
    rng = np.random.default_rng(0)
    for size, sharpness, tol in (((1, 1, 2, 1), 5.0, 1e-6), ((1, 2, 3, 1), 3.0, 3e-7)):
        shapes, (h, L) = Shapes(*size), size[1:3]
        for _ in range(20):
            B = rng.normal(size=(L - 1, h))
            B *= sharpness / np.linalg.norm(B, axis=1)[:, None]
            theta = Theta(np.hstack([B, sharpness * rng.normal(size=(L - 1, 1))]), np.zeros((0, 2)), np.zeros((1, h, 2)),
                          np.ones((1, h)))
            rules = latent_nodes(shapes), latent_nodes(shapes, {1: 300, 2: 80}[shapes.rank])
            coarse, fine = (np.exp(class_log_probs(theta, np.zeros((1, 1)), rule)) for rule in rules)
            assert np.abs(coarse - fine).max() < tol


def test_random_nodes_are_repeatable_and_even():
    shapes = Shapes(2, 5, 5, 1)
    one, other = latent_nodes(shapes, rng=1), latent_nodes(shapes, rng=np.random.default_rng(1))
    assert_allclose(one.z, other.z, rtol=0)
    assert one.z.shape == (64, 4) and np.all(np.isfinite(one.z)) and np.abs(one.z - latent_nodes(shapes, rng=2).z).max() > 0.1
    cells = np.array([[int(32 * (1 + math.erf(v / 2**0.5))) for v in row] for row in one.z])
    assert all(len(set(column)) == 64 for column in cells.T), "each coordinate has one point in each of 64 equal cells"


def test_bad_input_is_named():
    shapes = Shapes(2, 3, 4, 2)
    for message, call in (
            ("seed", lambda: latent_nodes(shapes)),
            ("power of 2", lambda: latent_nodes(shapes, 50, 0)),
            ("seed", lambda: latent_nodes(shapes, rng=1j)),
            ("seed", lambda: latent_nodes(shapes, rng=True)),
            ("seed", lambda: latent_nodes(shapes, rng=-1)),
            ("n_nodes: expected", lambda: latent_nodes(Shapes(2, 1, 2, 2), 0)),
            ("n_nodes: expected", lambda: latent_nodes(Shapes(2, 1, 2, 2), 10.5))):
        with pytest.raises(ValueError, match=message):
            call()
