"""NUTS in both its coordinates and the Gibbs sampler against one exact judge, on networks so small that weighing draws of the prior is exact enough."""
import numpy as np
import pytest
from oracle.posterior import importance, weighted_mean

from cmn_literate.roads.diagnostics import draw_log_probs, ess_mean, split_rhat
from cmn_literate.roads.posterior import sample_posterior
from cmn_literate.network.simulate import Priors, Theta

X_NEW = np.array([-1.5, 0.2, 2.0])
MILD, PAPER = Priors(v0=1.0, a0=4.0, b0=4.0, sigma0=1.5, sigma1=1.5), Priors()
# inputs, labels, L, priors
PROBLEMS = {"two classes": ([-1.0, 0.5, 1.4], [0, 1, 0], 2, MILD), "three classes": ([-1.0, -0.2, 0.5, 1.4], [2, 0, 1, 1], 3, MILD),
            "the paper's priors": ([-1.0, -0.2, 0.5, 1.4], [0, 0, 1, 0], 2, PAPER)}


def functions(theta):
    """Functions that do not mind the sign of the latent coordinate, h = 1.  -> (..., m)"""
    slope = theta.beta1[..., 0, 0]
    parts = [np.abs(slope), theta.beta1[..., 0, 1], theta.beta0[..., 0, 0], theta.beta0[..., 0, 1],
             np.log(theta.tau[..., 0, 0]), np.log(theta.tau[..., 1, 0]), np.tanh(slope * theta.A[..., 0, 0, 0]),
             np.tanh(slope * theta.A[..., 1, 0, 1])]
    return np.stack(parts, -1)


def sampled(draws):
    """functions and class probabilities of every draw.  (chains, draws, m)"""
    p = np.exp(np.stack(list(draw_log_probs(draws, X_NEW[:, None]))))[..., :-1]
    f = functions(draws.theta)
    return np.concatenate([f, p.reshape(*f.shape[:2], -1)], -1)


def samplers(X, y, L, priors, n, targets):
    problem = {"X": X, "y": y, "n_experts": 2, "latent_dim": 1, "n_classes": L, "priors": priors, "n_chains": 4, "rng": 11}
    for target, init in targets.items():
        yield f"nuts, {target}", sample_posterior(n_warmup=100, n_draws=n, target=target, init=init, **problem)
    try:
        import polyagamma  # noqa: F401

        from cmn_literate.roads.gibbs import gibbs
    except ImportError as error:
        print(f"the Gibbs sampler takes no part: {error}")
        return
    yield "gibbs", gibbs(n_warmup=3 * n, n_draws=8 * n, **problem)


def disagreement(name, n, n_judge, targets):
    """Everybody's distance from the judge and from each other, in combined standard errors."""
    x, y, L, priors = PROBLEMS[name]
    X, y = np.array(x)[:, None], np.array(y)
    hyper = (priors.v0, priors.a0, priors.b0, priors.sigma0, priors.sigma1)
    theta, p, weight = importance(X, y, X_NEW[:, None], (2, 1, L), hyper, n_judge, np.random.default_rng(5))
    values = np.concatenate([functions(Theta(*theta)), p[..., :-1].reshape(n_judge, -1)], -1)
    found = {"judge": weighted_mean(values, weight)}
    for who, draws in samplers(X, y, L, priors, n, targets):
        f = sampled(draws)
        assert split_rhat(f).max() < 1.15, who
        found[who] = f.mean((0, 1)), f.std((0, 1)) / np.sqrt(ess_mean(f))
    names = list(found)
    return {(a, b): np.max(np.abs(found[a][0] - found[b][0]) / np.hypot(found[a][1], found[b][1]))
            for i, a in enumerate(names) for b in names[i + 1:]}


@pytest.mark.slow
def test_quickly():
    distance = disagreement("two classes", 60, 60_000, {"marginal": "prior"})
    assert max(distance.values()) < 5, distance


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_samplers_and_judge_agree(name):
    distance = disagreement(name, 800, 1_500_000, {"marginal": "cavi", "explicit": "prior"})
    print({pair: round(float(value), 1) for pair, value in distance.items()})
    assert max(distance.values()) < 5, distance
