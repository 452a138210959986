# Tangled from book/use/uncertainty.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Two reasons to be unsure

A forecast that is a mixture says not only how unsure it is but also why: its entropy splits into
the part that its members share and the part on which they disagree. With the experts as members it
tells where the gate hesitates; with draws of the parameters it separates noise that stays from
doubt that more rows would remove.
"""

__all__ = ["Uncertainty", "entropy", "divergence", "average_log_proba", "mutual_information",
           "split_entropy", "ExpertSummary", "summarize_experts", "Insight"]


# book/use/uncertainty.ipynb, cell uncertainty-05
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from cmn_literate.checks import check_count
from cmn_literate.engineering.coordinates import theta_shapes
from cmn_literate.engineering.gradients import class_log_probs
from cmn_literate.engineering.nodes import Nodes, latent_nodes
from cmn_literate.engineering.quadrature import (
    class_log_probs_by_expert, cubature_rule)
from cmn_literate.inputs import as_generator
from cmn_literate.learners import members_of
from cmn_literate.network.predict import gate_log_probs, gate_probs, sample_parameters
from cmn_literate.network.simulate import Theta


# book/use/uncertainty.ipynb, cell uncertainty-06
class Uncertainty(NamedTuple):
    """Entropy of a forecast, split in two ways; nats, each (n,).

    total = within + between        [eq-clf-between]    inside experts, and about
                                                        which one is in charge
    total = aleatoric + epistemic   [eq-clf-epistemic]  noise that stays, and doubt
                                                        that more data would remove
    """
    total: np.ndarray
    within: np.ndarray
    between: np.ndarray
    aleatoric: np.ndarray
    epistemic: np.ndarray


# book/use/uncertainty.ipynb, cell uncertainty-07
def entropy(log_p):
    """H[p] from log p (..., L), in nats.  [eq-clf-entropy]    -> (...)"""
    return -np.sum(np.exp(log_p) * np.where(np.isfinite(log_p), log_p, 0.0),
                   axis=-1)


def divergence(log_q, log_p):
    """KL[q || p] from logs (..., L), in nats.  [eq-clf-split]    -> (...)"""
    q = np.exp(log_q)
    gap = np.subtract(log_q, log_p, out=np.zeros_like(q), where=q > 0)
    return np.sum(q * gap, axis=-1)


# book/use/uncertainty.ipynb, cell uncertainty-10
def average_log_proba(logs):
    """Log of the mean of forecasts.  [eq-clf-average]

    logs (R, n, L) -> (n, L) nats
    """
    logs = np.asarray(logs)
    return logsumexp(logs, axis=0) - np.log(len(logs))


# book/use/uncertainty.ipynb, cell uncertainty-13
def mutual_information(starts, Z, log_p, n_draws, rng):
    """E_q KL[p(y|x,Theta) || p(y|x)], by draws of Theta.

    [eq-clf-epistemic, eq-clf-draws]
    starts: list of Parameters, Z (n, d), log_p (n, L) their averaged forecast,
    n_draws >= 1 shared evenly by the starts (rounded up) -> (n,) nats
    """
    total, each = 0.0, -(-n_draws // len(starts))
    for parameters in starts:
        thetas = sample_parameters(parameters, rng, each)
        rank = theta_shapes(thetas).rank
        nodes = (latent_nodes(theta_shapes(thetas)) if rank <= 2
                 else Nodes(*cubature_rule(rank)))
        for theta in zip(*thetas):
            log_q = class_log_probs(Theta(*theta), Z, nodes)
            total = total + divergence(log_q, log_p)
    return total / (each * len(starts))


# book/use/uncertainty.ipynb, cell uncertainty-18
def split_entropy(starts, Z, n_draws=64, random_state=0):
    """Both splits of the doubt.  [eq-clf-between, eq-clf-epistemic]

    starts: list of Parameters, Z (n, d), n_draws of Theta in all, random_state as
    in as_generator -> Uncertainty.  n_draws=0: aleatoric, epistemic are NaN.
    """
    within, logs, rng = 0.0, [], as_generator(random_state)
    for parameters in starts:
        gate = gate_log_probs(parameters, Z)
        by_expert = class_log_probs_by_expert(parameters, Z, weight=np.exp(gate))
        inside = np.sum(np.exp(gate) * entropy(by_expert), axis=-1)
        within = within + inside / len(starts)
        logs.append(logsumexp(gate[:, :, None] + by_expert, axis=1))
    log_p = average_log_proba(logs)
    total = entropy(log_p)
    if check_count(n_draws, "n_draws", 0):
        epistemic = mutual_information(starts, Z, log_p, n_draws, rng)
        epistemic = np.minimum(epistemic, total)
    else:
        epistemic = np.full(len(Z), np.nan)
    return Uncertainty(total, within, total - within, total - epistemic, epistemic)


# book/use/uncertainty.ipynb, cell uncertainty-26
class ExpertSummary(NamedTuple):
    """What the K experts of a fit say, in the units of X.

    weight        (K,) share of the training rows                  [eq-clf-weight]
    slope, offset (K, h, d), (K, h): E[x_1] is slope @ x + offset  [eq-clf-units]
    noise         (K, h) sqrt(E[1/tau]); NaN where a <= 1          [eq-clf-noise]
    logit_slope, logit_offset   (K, L-1, d), (K, L-1): the mean logit of each
                  stick, independent of the latent axes            [eq-clf-logit]
    """
    weight: np.ndarray
    slope: np.ndarray
    offset: np.ndarray
    noise: np.ndarray
    logit_slope: np.ndarray
    logit_offset: np.ndarray


# book/use/uncertainty.ipynb, cell uncertainty-27
def summarize_experts(parameters, a0, mean, scale):
    """Experts in the units of X.   -> ExpertSummary

    [eq-clf-units, eq-clf-noise, eq-clf-weight, eq-clf-logit]
    a0: shape of the noise prior; mean, scale (d,): from column_scale
    """
    p, rows = parameters, parameters.a - a0
    slope = p.M[:, :, :-1] / scale
    offset = p.M[:, :, -1] - slope @ mean
    noise = np.sqrt(p.b / np.where(p.a > 1, p.a - 1, np.nan)[:, None])
    out, bias = p.beta1_mu[:, :-1], p.beta1_mu[:, -1]
    weight = rows / max(rows.sum(), 1e-300)
    return ExpertSummary(weight, slope, offset, noise,
                         np.einsum("li,kid->kld", out, slope),
                         offset @ out.T + bias)


class Insight:
    """What a fitted network says beside its forecast: gate, doubt, experts.  A part of
    the estimator, which brings fits_, method_, priors, mean_, scale_ and inputs(X)."""

    def gate(self, X, start=0):
        """Probability (n, K) that each expert of a kept start is in charge."""
        starts = self._parameters()
        if check_count(start, "start", 0) >= len(starts):
            raise ValueError(f"start: expected 0 to {len(starts) - 1}, got {start!r}")
        return gate_probs(starts[start], self.inputs(X))

    def uncertainty(self, X, n_draws=64, random_state=0):
        """Why the forecast is unsure, for every row.   -> Uncertainty
        n_draws: draws of the parameters for the second split; 0 skips it."""
        starts = self._parameters()
        return split_entropy(starts, self.inputs(X), n_draws, random_state)

    @property
    def experts_(self):
        """Experts of the first kept start in the units of X.   -> ExpertSummary"""
        first = self._parameters()[0]
        return summarize_experts(first, self.priors.a0, self.mean_, self.scale_)

    def _parameters(self):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        fits = members_of(self.fits_)
        if not hasattr(fits[0], "parameters"):
            raise AttributeError(f"method {self.method_!r} keeps no factors of q; "
                                 'gate, experts_ and uncertainty need "cavi", "bbvi"')
        return [result.parameters for result in fits]
