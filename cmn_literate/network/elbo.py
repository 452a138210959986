# Tangled from book/network/elbo.ipynb by tools/tangle.py; edit the notebook, not this file.
"""The bound, with every constant in it

One number bounds the log evidence of the whole network from below, provided that not one constant
is missing from it. Its gradient in a block of $q$ must vanish when that block has been updated:
every right update passes this test, but not only right ones do.
"""

__all__ = ["global_kl", "category_entropy", "elbo_terms", "elbo"]


# book/network/elbo.ipynb, cell elbo-02
import autograd.numpy as anp

from cmn_literate.network.experts import expert_log_density
from cmn_literate.ideas.expfam import gaussian_entropy, gaussian_kl, mng_kl
from cmn_literate.network.gate import gate_log_bound
from cmn_literate.network.latents import output_log_bound
from cmn_literate.checks import check_state


# book/network/elbo.ipynb, cell elbo-08
def global_kl(parameters, priors):
    """KL of the global factors from their priors, nats.  [eq-global-kl]

    parameters Parameters, priors Priors
    -> {"beta1": ..., "beta0": ..., "experts": ...}, each >= 0
    """
    p = parameters
    experts = mng_kl(p.M, p.V, p.a, p.b, priors.v0, priors.a0, priors.b0)
    return {
        "beta1": anp.sum(gaussian_kl(p.beta1_mu, p.beta1_S, priors.sigma1)),
        "beta0": anp.sum(gaussian_kl(p.beta0_mu, p.beta0_S, priors.sigma0)),
        "experts": anp.sum(experts)}


# book/network/elbo.ipynb, cell elbo-09
def category_entropy(gamma):
    """-sum_k gamma_k ln gamma_k with 0 ln 0 = 0, nats.  [eq-category-entropy]

    gamma (N,K) -> (N,)
    """
    return -anp.sum(gamma * anp.log(anp.where(gamma > 0, gamma, 1.0)), -1)


# book/network/elbo.ipynb, cell elbo-10
def elbo_terms(state, X, y, priors):
    """The eight terms of the bound, nats; their sum is elbo.  [eq-elbo]

    state any State, X (N,d) unpadded, y (N,) in 0..L-1, priors Priors
    -> dict of numbers: "output", "expert", "latent entropy", "gate",
       "assignment entropy", and minus the divergences "beta1", "beta0", "experts"
    ValueError, naming the argument, if shapes or labels do not fit.
    """
    (X, y), p, q = check_state(state, X, y), state.parameters, state.local
    mean = lambda per_expert: anp.sum(q.gamma * per_expert)
    kl = global_kl(p, priors)
    return {
        "output": mean(
            output_log_bound(y, q.mu, q.Sigma, p.beta1_mu, p.beta1_S, q.xi1)),
        "expert": mean(expert_log_density(X, q.mu, q.Sigma, p.M, p.V, p.a, p.b)),
        "latent entropy": mean(gaussian_entropy(q.Sigma)),
        "gate": mean(gate_log_bound(X, p.beta0_mu, p.beta0_S, q.xi0)),
        "assignment entropy": anp.sum(category_entropy(q.gamma)),
        "beta1": -kl["beta1"], "beta0": -kl["beta0"], "experts": -kl["experts"]}


# book/network/elbo.ipynb, cell elbo-11
def elbo(state, X, y, priors):
    """Evidence lower bound of the augmented network, all constants included, nats.
    [eq-elbo, eq-elbo-constants]

    state any State, fresh or stale; X (N,d) unpadded, y (N,), priors Priors
    -> a number <= ln p(y | X).  Differentiable in every field of state.
    ValueError, naming the argument, if shapes or labels do not fit.
    """
    return sum(elbo_terms(state, X, y, priors).values())
