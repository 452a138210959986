# Tangled from book/ideas/stick_breaking.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Stick-breaking

A choice among C classes can be made as a row of C - 1 coin tosses, each with its own logit. The
log probability of a class is then a sum over tosses, and every term is the log probability of one
coin: a logistic regression.
"""

__all__ = ["stick_log_probs", "stick_counts", "stick_logits"]


# book/ideas/stick_breaking.ipynb, cell stick_breaking-08
import autograd.numpy as anp

from cmn_literate.checks import check_last_axis


def stick_log_probs(psi):
    """Log probabilities of the stick-breaking logit model.  [eq-stick]

    psi : (..., J)    logit of stopping at stick j; with J = 0 there is one class
    ->    (..., J+1)  log pi_c in nats; their logsumexp over the last axis is 0

    psi = +-inf is a coin that always or never stops; NaN passes through.
    ValueError if psi is a scalar.
    """
    check_last_axis(psi, "psi", "(..., J)")
    psi = anp.array(psi)
    log_stop, log_pass = -anp.logaddexp(0.0, -psi), -anp.logaddexp(0.0, psi)
    one = anp.zeros(psi.shape[:-1] + (1,))  # log 1
    log_reach = anp.concatenate([one, anp.cumsum(log_pass, axis=-1)], axis=-1)
    return log_reach + anp.concatenate([log_stop, one], axis=-1)


# book/ideas/stick_breaking.ipynb, cell stick_breaking-17
def stick_counts(weights):
    """Expected tosses b and excess of heads kappa of each coin.  [eq-stick-counts]

    weights : (..., K)  non-negative: one-hot labels, responsibilities or counts
    -> b, kappa         each (..., K-1): b_j = sum over k >= j of weights_k,
                        kappa_j = weights_j - b_j / 2

    ValueError if there is no class.
    """
    check_last_axis(weights, "weights", "(..., K) with K >= 1", least=1)
    weights = anp.array(weights)
    # summed from the far end
    b = anp.cumsum(weights[..., ::-1], axis=-1)[..., :0:-1]
    return b, weights[..., :-1] - b / 2


# book/ideas/stick_breaking.ipynb, cell stick_breaking-21
def stick_logits(log_probs):
    """Logits of a distribution, inverse of stick_log_probs.  [eq-stick-inverse]

    log_probs : (..., J+1)  log probabilities; adding a constant changes nothing
    ->          (..., J)    psi_j = log odds of class j against all later classes

    -inf (probability 0) is allowed; a coin that is never tossed gets logit 0.
    ValueError if there is no class.
    """
    check_last_axis(log_probs, "log_probs", "(..., J+1)", least=1)
    log_probs = anp.array(log_probs)
    later, psi = log_probs[..., -1:], log_probs[..., :0]
    for j in range(log_probs.shape[-1] - 2, -1, -1):
        this = log_probs[..., j : j + 1]
        never = anp.isneginf(this) & anp.isneginf(later)
        odds = anp.where(never, 0.0, this - anp.where(never, 0.0, later))
        psi = anp.concatenate([odds, psi], axis=-1)
        later = anp.logaddexp(this, later)
    return psi
