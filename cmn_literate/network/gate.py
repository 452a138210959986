# Tangled from book/network/gate.ipynb by tools/tangle.py; edit the notebook, not this file.
"""The gate: which expert speaks

The gate is a stick-breaking logistic regression with soft labels, and its update is one weighted
linear regression per coin. In the paper's augmentation, its Pólya-Gamma variables must know which
expert was chosen.
"""

__all__ = ["gate_logits", "gate_tilt", "gate_log_bound", "gate_update"]


# book/network/gate.ipynb, cell gate-02
import autograd.numpy as anp

from cmn_literate.network.experts import weighted_gram
from cmn_literate.ideas.logistic import (
    coefficients_from_sums, regression_moments, stick_log_bound)
from cmn_literate.ideas.polya_gamma import pg_mean
from cmn_literate.ideas.expfam import pad
from cmn_literate.ideas.stick_breaking import stick_counts


# book/network/gate.ipynb, cell gate-06
def gate_logits(X, beta0_mu, beta0_S):
    """E[psi_0j] and E[psi_0j^2] of every gate stick.  [eq-gate-logits]

    X (N,d) unpadded; q(beta_0): beta0_mu (K-1,D), beta0_S (K-1,D,D), D = d+1
    -> (N,K-1), (N,K-1)
    """
    return regression_moments(pad(X), beta0_mu, beta0_S)


# book/network/gate.ipynb, cell gate-07
def gate_tilt(X, beta0_mu, beta0_S):
    """Tilts xi_0j of q(omega_0j | z=k), the same for every k.  [eq-gate-tilt]

    X (N,d), beta0_mu (K-1,D), beta0_S (K-1,D,D) -> (N,K-1)
    """
    return anp.sqrt(gate_logits(X, beta0_mu, beta0_S)[1])


# book/network/gate.ipynb, cell gate-10
def gate_log_bound(X, beta0_mu, beta0_S, xi0):
    """E[ln p(z=k, omega_0 | x0, beta_0) - ln q(omega_0 | z=k)].  [eq-gate-bound]

    At most E[ln p(z=k | x0, beta_0)], whatever the tilts.
    X (N,d), beta0_mu (K-1,D), beta0_S (K-1,D,D), xi0 (N,K-1) -> (N,K) nats
    """
    coin = [v[..., None] for v in (*gate_logits(X, beta0_mu, beta0_S), xi0)]
    stop = stick_log_bound(*coin, 1.0, 0.5)
    passed = stick_log_bound(*coin, 1.0, -0.5)
    none = anp.zeros((len(X), 1))
    reach = anp.concatenate([none, anp.cumsum(passed, -1)], -1)
    return reach + anp.concatenate([stop, none], -1)


# book/network/gate.ipynb, cell gate-15
def gate_update(X, gamma, xi0, priors):
    """q(beta_0) given q(z) and q(omega_0 | z).  [eq-gate-S, eq-gate-mu]

    X (N,d) unpadded, gamma (N,K), xi0 (N,K-1)
    -> beta0_mu (K-1,D), beta0_S (K-1,D,D) covariances, D = d+1
    """
    b, kappa = stick_counts(gamma)
    gram = weighted_gram(X, b * pg_mean(1.0, xi0))
    return coefficients_from_sums(gram, kappa.T @ pad(X), priors.sigma0)[:2]
