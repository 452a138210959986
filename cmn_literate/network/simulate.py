# Tangled from book/network/simulate.ipynb by tools/tangle.py; edit the notebook, not this file.
"""A network you can sample

A conditional mixture network is a piecewise linear function with noise, and a row of sticks that
reads a class off its value. Three draws for each row say everything: which expert, which latent
vector, which class.
"""

__all__ = ["Theta", "sample_sticks", "Sample", "sample_data", "Priors", "sample_theta",
           "sample_network"]


# book/network/simulate.ipynb, cell simulate-02
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from cmn_literate.checks import check_count, check_positive, check_X
from cmn_literate.ideas.expfam import pad
from cmn_literate.ideas.stick_breaking import stick_log_probs


# book/network/simulate.ipynb, cell simulate-09
class Theta(NamedTuple):
    """One value of the parameters.  [eq-priors]

    beta1 (L-1, h+1)   output coefficients, one row per stick
    beta0 (K-1, d+1)   gate coefficients, one row per stick
    A     (K, h, d+1)  experts, the bias in the last column
    tau   (K, h)       noise precisions, 1 / variance
    """
    beta1: np.ndarray
    beta0: np.ndarray
    A: np.ndarray
    tau: np.ndarray


# book/network/simulate.ipynb, cell simulate-11
def sample_sticks(psi, rng):
    """Draw a class by walking the sticks.  [eq-stick-probs]

    psi (..., J) logits of stopping, rng a Generator -> (...) int64 class in 0..J
    """
    psi = np.asarray(psi, dtype=float)
    cuts = np.cumsum(np.exp(stick_log_probs(psi)), axis=-1)[..., :-1]
    return (rng.random(psi.shape[:-1] + (1,)) >= cuts).sum(axis=-1)


# book/network/simulate.ipynb, cell simulate-12
class Sample(NamedTuple):
    """Hidden variables and labels of N rows.  [eq-model]

    z (N,) expert, x1 (N, h) latent vector, y (N,) class
    """
    z: np.ndarray
    x1: np.ndarray
    y: np.ndarray


# book/network/simulate.ipynb, cell simulate-14
def sample_data(theta, X, rng):
    """Draw expert, latent vector and class of every row.
    [eq-draw-z, eq-draw-x1, eq-draw-y]

    theta Theta, X (N, d) inputs, rng a numpy Generator -> Sample
    ValueError unless X holds finite numbers in the d columns that theta expects.
    """
    Xt = pad(check_X(X, n_features=theta.A.shape[-1] - 1))
    z = sample_sticks(Xt @ theta.beta0.T, rng)
    mean = np.einsum("nid,nd->ni", theta.A[z], Xt)
    x1 = mean + rng.normal(size=mean.shape) / np.sqrt(theta.tau[z])
    y = sample_sticks(pad(x1) @ theta.beta1.T, rng)
    return Sample(z, x1, y)


# book/network/simulate.ipynb, cell simulate-21
@dataclass(frozen=True)
class Priors:
    """Hyper-parameters of the conditional mixture network.  [eq-priors]

    v0 > 0      variance scale of the experts: row i of A_k is N(0, v0 / tau_ki I)
    a0, b0 > 0  shape and rate of the Gamma prior of each noise precision tau_ki
    sigma0 > 0  standard deviation of each gate coefficient
    sigma1 > 0  standard deviation of each output coefficient

    ValueError, naming the field, unless all five are positive and finite.
    A Priors is immutable; calling it makes a changed copy: priors(sigma0=1.0).
    """
    v0: float = 10.0
    a0: float = 2.0
    b0: float = 1.0
    sigma0: float = 5.0
    sigma1: float = 5.0

    def __post_init__(self):
        for name, value in vars(self).items():
            object.__setattr__(self, name, check_positive(value, name))

    def __call__(self, **changes):
        return replace(self, **changes)


# book/network/simulate.ipynb, cell simulate-22
def sample_theta(priors, n_experts, latent_dim, n_classes, input_dim, rng):
    """Draw the parameters from the prior.  [eq-priors]

    n_experts K >= 1, latent_dim h >= 1, n_classes L >= 2, input_dim d >= 1
    rng a numpy Generator -> Theta
    ValueError, naming the argument, if a count is too small or not whole.
    """
    K = check_count(n_experts, "n_experts")
    h = check_count(latent_dim, "latent_dim")
    L = check_count(n_classes, "n_classes", least=2)
    D = check_count(input_dim, "input_dim") + 1
    # numpy wants a scale: 1 / rate
    tau = rng.gamma(priors.a0, 1 / priors.b0, size=(K, h))
    tau = np.maximum(tau, 1e-300)  # for shapes near 0 a draw can underflow
    A = rng.normal(size=(K, h, D)) * np.sqrt(priors.v0 / tau)[:, :, None]
    beta0 = priors.sigma0 * rng.normal(size=(K - 1, D))
    beta1 = priors.sigma1 * rng.normal(size=(L - 1, h + 1))
    return Theta(beta1, beta0, A, tau)


# book/network/simulate.ipynb, cell simulate-23
def sample_network(X, n_experts, latent_dim, n_classes, rng,
                   priors=Priors()):  # noqa: B008  Priors are frozen
    """Draw a network from the prior, then what it does with the rows of X.
    [eq-priors, eq-model]

    X (N, d) inputs; counts as in sample_theta; rng a numpy Generator
    -> Theta, Sample.  ValueError names a bad argument.
    """
    d = check_X(X).shape[1]
    theta = sample_theta(priors, n_experts, latent_dim, n_classes, d, rng)
    return theta, sample_data(theta, X, rng)
