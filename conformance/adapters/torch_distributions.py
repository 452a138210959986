"""Level 1 from torch.distributions: its moments, entropies and kl_divergence of Gaussians, Gammas and categories, in both precisions.

    python -m cmn_conformance run --level 1 --adapter conformance/adapters/torch_distributions.py
    python -m cmn_conformance run --level 1 --dtype f32 --adapter conformance/adapters/torch_distributions.py

Polya-Gamma variables, and so stick_log_bound, are not in PyTorch.
"""

import torch
from torch.distributions import Categorical, Gamma, MultivariateNormal, kl_divergence

NAME, VERSION, DTYPES = "torch.distributions", torch.__version__, ("f64", "f32")


def start(dtype):
    torch.set_default_dtype(torch.float32 if dtype == "f32" else torch.float64)


def tensor(value):
    return torch.as_tensor(value, dtype=torch.get_default_dtype())


def operation(function):
    """The operation on tensors; numpy arrays and numbers outside."""
    def wrapped(**given):
        out = function(**{name: tensor(value) for name, value in given.items()})
        return tuple(o.numpy() for o in out) if isinstance(out, tuple) else out.numpy()
    return wrapped


def pad(x):
    return torch.cat([x, torch.ones_like(x[..., :1])], -1)


def moments(q):
    return q.covariance_matrix + q.mean[..., :, None] * q.mean[..., None, :]


def second_moment(mu, S):
    if not S.any():
        raise NotImplementedError("torch.distributions has no Gaussian without spread")
    return moments(MultivariateNormal(mu, S))


def padded_second_moment(mu, S):
    x = pad(mu)
    out = torch.outer(x, x)
    out[:-1, :-1] = second_moment(mu, S)
    return out


def gaussian_entropy(S):
    return MultivariateNormal(torch.zeros(len(S)), S).entropy()


def gaussian_kl(mu, S, sigma):
    return kl_divergence(MultivariateNormal(mu, S), MultivariateNormal(torch.zeros(len(mu)), scale_tril=sigma * torch.eye(len(mu))))


def gamma_mean_log(a, b):
    return torch.digamma(a) - b.log()


def gamma_kl(a, b, a0, b0):
    return kl_divergence(Gamma(a, b), Gamma(a0, b0))


def mng_kl(M, V, a, b, v0, a0, b0):
    D = M.shape[-1]
    prior = MultivariateNormal(torch.zeros(D), scale_tril=v0.sqrt() * torch.eye(D))
    columns = kl_divergence(MultivariateNormal(torch.zeros(len(V), D), V), prior)         # of a row, in units of its noise
    tau = Gamma(a[:, None], b)
    return (columns[:, None] + tau.mean * (M**2).sum(-1) / (2 * v0) + kl_divergence(tau, Gamma(a0, b0))).sum(-1)


def categorical_entropy(gamma):
    return Categorical(gamma).entropy()


def gate_logits(X, beta0_mu, beta0_S):
    x = pad(X)
    psi = x @ beta0_mu.T
    return psi, psi**2 + torch.einsum("nd,jde,ne->nj", x, beta0_S, x)


def output_logits(mu, Sigma, beta1_mu, beta1_S):
    x, B, h = pad(mu), moments(MultivariateNormal(beta1_mu, beta1_S)), mu.shape[-1]
    spread = torch.einsum("nkij,lij->nkl", Sigma, B[:, :h, :h])
    return x @ beta1_mu.T, spread + torch.einsum("nkd,lde,nke->nkl", x, B, x)


OPS = {f.__name__: operation(f) for f in (second_moment, padded_second_moment, gaussian_entropy, gaussian_kl, gamma_mean_log, gamma_kl, mng_kl,
                                          categorical_entropy, gate_logits, output_logits)}
