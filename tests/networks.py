"""Random networks shared by the tests of the likelihood, its slopes and its coordinates."""
import numpy as np

from cmn_literate.engineering.coordinates import Shapes
from cmn_literate.engineering.nodes import latent_nodes
from cmn_literate.network.simulate import Priors, sample_theta

MODERATE = Priors(v0=2.0, a0=4.0, b0=3.0, sigma0=1.0, sigma1=1.2)
ALL_SIZES = [(1, 1, 2, 1), (3, 1, 2, 2), (2, 4, 2, 1), (3, 2, 3, 2), (1, 5, 3, 2), (3, 1, 5, 1), (2, 3, 5, 2), (2, 6, 4, 1)]


def case(size, seed=0, N=40):
    """Theta, inputs, labels and nodes of a network with moderate logits."""
    rng = np.random.default_rng([seed, *size])
    shapes = Shapes(*size)
    theta = sample_theta(MODERATE, *size, rng)
    nodes = latent_nodes(shapes, {1: 24, 2: 9}.get(shapes.rank, 32), rng=0)
    return shapes, theta, rng.normal(size=(N, size[3])), rng.integers(0, size[2], N), nodes
