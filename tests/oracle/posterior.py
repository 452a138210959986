"""Posterior means of a tiny network by brute force: networks from the prior, run forwards, weighed by the labels. Imports nothing from cmn_literate."""
import numpy as np
from scipy import stats


def sigmoid(x):
    return 0.5 + 0.5 * np.tanh(0.5 * x)


def sticks(psi):
    """Class probabilities (..., J+1) of stick logits (..., J)."""
    go, stop, out = np.ones(psi.shape[:-1]), sigmoid(psi), []
    for j in range(psi.shape[-1]):
        out.append(go * stop[..., j])
        go = go * (1 - stop[..., j])
    return np.stack([*out, go], -1)


def log_joint(theta, z, x1, X, y, A0, scales, centres, a0, b0):
    """ln p(beta1, beta0, A, ln tau, z, x1, y | A0, scales, X), number by number, from scipy's densities.

    A0 (h, d+1) is the prior mean of every expert, scales the prior precisions (1/v0, 1/sigma0^2, 1/sigma1^2), centres the prior means
    of beta1 and beta0; the Jacobian of ln tau is in it.
    """
    beta1, beta0, A, tau = theta
    total = sum(stats.norm.logpdf(beta, centre, lam**-0.5).sum() for beta, centre, lam in ((beta1, centres[0], scales[2]), (beta0, centres[1], scales[1])))
    for k in range(len(A)):
        for i in range(len(A0)):
            total += stats.gamma.logpdf(tau[k, i], a0, scale=1 / b0) + np.log(tau[k, i])
            total += stats.norm.logpdf(A[k, i], A0[i], (scales[0] * tau[k, i])**-0.5).sum()
    for n, (x, c) in enumerate(zip(X, y)):
        k, xt = z[n], np.append(x, 1.0)
        total += np.log(sticks(beta0 @ xt)[k]) + np.log(sticks(beta1 @ np.append(x1[n], 1.0))[c])
        total += stats.norm.logpdf(x1[n], A[k] @ xt, tau[k]**-0.5).sum()
    return total


def importance(X, y, X_new, sizes, hyper, n_draws, rng):
    """Draws (beta1, beta0, A, tau) from the prior, p(class | x1) at X_new for one latent vector each, and normalised weights.

    sizes = (K, h, L), hyper = (v0, a0, b0, sigma0, sigma1). An expert and a latent vector are drawn for every row: the weight of a
    draw is the probability of the labels given the latent vectors, whose mean over latents is the likelihood.
    """
    (K, h, L), (v0, a0, b0, sigma0, sigma1), S = sizes, hyper, n_draws
    rows = np.vstack([X, X_new])
    Xt = np.hstack([rows, np.ones((len(rows), 1))])
    tau = rng.gamma(a0, 1 / b0, size=(S, K, h))
    A = rng.normal(size=(S, K, h, Xt.shape[1])) * np.sqrt(v0 / tau)[..., None]
    beta0 = sigma0 * rng.normal(size=(S, K - 1, Xt.shape[1]))
    beta1 = sigma1 * rng.normal(size=(S, L - 1, h + 1))
    chance, weight = [], np.ones(S)
    for n, x in enumerate(Xt):
        gate = np.cumsum(sticks(beta0 @ x), -1)
        z = (rng.random((S, 1)) > gate[:, :-1]).sum(-1)
        mine = np.arange(S), z
        x1 = A[mine] @ x + rng.normal(size=(S, h)) / np.sqrt(tau[mine])
        p = sticks(np.einsum("slh,sh->sl", beta1[..., :-1], x1) + beta1[..., -1])
        if n < len(y):
            weight = weight * p[:, y[n]]
        else:
            chance.append(p)
    return (beta1, beta0, A, tau), np.stack(chance, 1), weight / weight.sum()


def weighted_mean(values, weight):
    """Mean and its standard error under normalised importance weights.  values (S, m)"""
    mean = weight @ values
    return mean, np.sqrt(weight**2 @ (values - mean) ** 2)
