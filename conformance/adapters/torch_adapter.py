"""CAVI for conditional mixture networks in PyTorch, float32 and float64, levels 0 to 4.

    python -m cmn_conformance run --adapter conformance/adapters/torch_adapter.py

Where PyTorch lives in another Python than the kit, serve.py (which needs NumPy alone) goes there:

    python -m cmn_conformance run --command "/other/python conformance/cmn_conformance/serve.py conformance/adapters/torch_adapter.py"
"""

import math

import numpy as np
import torch
from torch.nn.functional import logsigmoid, one_hot

NAME, VERSION, DTYPES = "torch", torch.__version__.split("+")[0], ("f64", "f32")
LOG2, LOG2PI = math.log(2), math.log(2 * math.pi)


def start(dtype):
    torch.set_default_dtype(torch.float32 if dtype == "f32" else torch.float64)
    torch.set_num_threads(1)


def tensors(function):
    """numpy at both ends, tensors in between."""
    def call(**given):
        given = {name: torch.from_numpy(np.ascontiguousarray(v)) if isinstance(v, np.ndarray) else v for name, v in given.items()}
        with torch.no_grad():
            out = function(**given)
        convert = lambda v: v.numpy() if isinstance(v, torch.Tensor) else v
        if isinstance(out, dict):
            return {name: convert(v) for name, v in out.items()}
        return tuple(map(convert, out)) if isinstance(out, tuple) else convert(out)
    return call


# ---- level 0: special functions


def sticks(stop, go):
    zero = stop.new_zeros(stop.shape[:-1] + (1,))
    return torch.cat([zero, torch.cumsum(go, -1)], -1) + torch.cat([stop, zero], -1)


def stick_log_probs(psi):
    return sticks(logsigmoid(psi), logsigmoid(-psi))                      # torch.logaddexp(0, -37) has lost its digits


def stick_counts(weights):
    b = torch.flip(torch.cumsum(torch.flip(weights, [-1]), -1), [-1])[..., :-1]
    return b, weights[..., :-1] - b / 2


def stick_logits(log_probs):
    psi = []
    for j in range(log_probs.shape[-1] - 1):
        this, later = log_probs[..., j], torch.logsumexp(log_probs[..., j + 1:], -1)
        never = torch.isneginf(this) & torch.isneginf(later)
        psi.append(torch.where(never, torch.zeros_like(this), this - later))
    return torch.stack(psi, -1)


def log_cosh_half(c):
    c = torch.abs(c)
    near = torch.log1p(2 * torch.sinh(c.clamp(max=1) / 4) ** 2)
    return torch.where(c < 1, near, c / 2 + torch.log1p(torch.exp(-c)) - LOG2)


def theta(c):
    """E[omega] of PG(1, c)."""
    c = torch.abs(c).clamp(min=1e-30)
    return torch.tanh(c / 2) / (2 * c)


def pg_mean(b, c):
    return b * theta(c)


def pg_var(b, c):
    c = torch.abs(c)
    x, y = c.clamp(max=1), c.clamp(min=1)
    series = sum(x ** (2 * m - 2) / math.factorial(2 * m + 1) for m in range(1, 10)) / (4 * torch.cosh(x / 2) ** 2)
    e = torch.exp(-y)
    return b * torch.where(c < 1, series, (1 - e**2 - 2 * y * e) / (2 * y**2 * (1 + e) ** 2) / y)


def tilt_kl(c):
    """KL[PG(1, c) || PG(1, 0)]."""
    c = torch.abs(c)
    t = torch.tanh(c.clamp(max=1) / 2) ** 2
    series = t**2 * sum((m - 1) / (2 * m * (2 * m - 1)) * t ** (m - 2) for m in range(2, 25))
    return torch.where(c < 1, series, log_cosh_half(c) - c / 4 * torch.tanh(c / 2))


def pg_kl(b, c):
    return b * tilt_kl(c)


def both_means(m, v, cut=40.0):
    """ln E sigma(psi) and ln E sigma(-psi), psi ~ N(m, v): trapezoids that converge exponentially."""
    tail, s, wide = -torch.abs(m), torch.sqrt(v), math.sqrt(2 * cut)
    top = max([1e-3, *s.ravel().tolist()])
    r = min(math.pi / top, wide)
    step = 2 * math.pi * r / (cut + r * r / 2)
    t = step * torch.arange(int(-wide / step) - 1, int((top + wide) / step) + 2, dtype=m.dtype).reshape(-1, *[1] * m.ndim)
    low = tail + torch.logsumexp(s * t - t**2 / 2 + logsigmoid(-tail - s * t), 0) + math.log(step / math.sqrt(2 * math.pi))
    high = torch.log1p(-torch.exp(low))
    return torch.where(m < 0, low, high), torch.where(m < 0, high, low)


def log_sigmoid_normal(m, v):
    return both_means(m, v)[0]


def stick_log_means(m, v):
    return sticks(*both_means(m, v))


# ---- level 1: expectations, divergences, entropies


def pad(x):
    return torch.cat([x, x.new_ones(x.shape[:-1] + (1,))], -1)


def trace(S):
    return torch.diagonal(S, dim1=-2, dim2=-1).sum(-1)


def log_det(S):
    return 2 * torch.log(torch.diagonal(torch.linalg.cholesky(S), dim1=-2, dim2=-1)).sum(-1)


def second_moment(mu, S):
    return S + mu[..., :, None] * mu[..., None, :]


def padded_second_moment(mu, S):
    return second_moment(pad(mu), torch.nn.functional.pad(S, (0, 1, 0, 1)))


def gaussian_entropy(S):
    return S.shape[-1] / 2 * (1 + LOG2PI) + log_det(S) / 2


def gaussian_kl(mu, S, sigma):
    m = mu.shape[-1]
    return ((trace(S) + (mu**2).sum(-1)) / sigma**2 - m + 2 * m * math.log(sigma) - log_det(S)) / 2


def gamma_mean_log(a, b):
    return torch.digamma(a) - torch.log(b)


def gamma_kl(a, b, a0, b0):
    return ((a - a0) * torch.digamma(a) - torch.lgamma(a) + torch.lgamma(torch.full_like(a, a0)) + a0 * (torch.log(b) - math.log(b0))
            + a * (b0 - b) / b)


def mng_kl(M, V, a, b, v0, a0, b0):
    h, D = M.shape[-2:]
    rows = h * (trace(V) / v0 - D + D * math.log(v0) - log_det(V)) + (a[:, None] / b * (M**2).sum(-1)).sum(-1) / v0
    return rows / 2 + gamma_kl(a[:, None], b, a0, b0).sum(-1)


def categorical_entropy(gamma):
    return -torch.xlogy(gamma, gamma).sum(-1)


def gate_logits(X, beta0_mu, beta0_S):
    return pad(X) @ beta0_mu.T, torch.einsum("nd,jde,ne->nj", pad(X), second_moment(beta0_mu, beta0_S), pad(X))


def output_logits(mu, Sigma, beta1_mu, beta1_S):
    return pad(mu) @ beta1_mu.T, torch.einsum("nkde,lde->nkl", padded_second_moment(mu, Sigma), second_moment(beta1_mu, beta1_S))


def stick_log_bound(psi, psi2, xi, b, kappa):
    return (kappa * psi - b * (LOG2 + theta(xi) * psi2 / 2 + tilt_kl(xi))).sum(-1)


# ---- level 2: one factor's update


def tosses(y, n_sticks):
    """b and kappa of the labels, (N,1,L-1)."""
    b, kappa = stick_counts(one_hot(y, n_sticks + 1).to(torch.get_default_dtype()))
    return b[:, None], kappa[:, None]


def update_x(X, y, beta1_mu, beta1_S, M, a, b, xi1, **_):
    tossed, kappa = tosses(y, len(beta1_mu))
    omega, B, tau, h = tossed * theta(xi1), second_moment(beta1_mu, beta1_S), a[:, None] / b, M.shape[1]
    P = torch.einsum("nkl,lij->nkij", omega, B[:, :h, :h]) + torch.diag_embed(tau)
    eta = tau * torch.einsum("kid,nd->nki", M, pad(X)) + kappa @ beta1_mu[:, :h] - torch.einsum("nkl,li->nki", omega, B[:, :h, h])
    Sigma = inverse(P)
    return torch.einsum("nkij,nkj->nki", Sigma, eta), Sigma


def inverse(P):
    W = torch.linalg.solve_triangular(torch.linalg.cholesky(P), torch.eye(P.shape[-1]).expand(P.shape), upper=False)
    return W.transpose(-1, -2) @ W


def update_omega1(mu, Sigma, beta1_mu, beta1_S, **_):
    return torch.sqrt(output_logits(mu, Sigma, beta1_mu, beta1_S)[1])


def update_omega0(X, beta0_mu, beta0_S, **_):
    return torch.sqrt(gate_logits(X, beta0_mu, beta0_S)[1])


def update_z(**s):
    return torch.softmax(output_bound(**s) + expert_bound(**s) + gaussian_entropy(s["Sigma"]) + gate_bound(**s), -1)


def coefficients(gram, linear, sigma):
    S = inverse(gram + torch.eye(gram.shape[-1]) / sigma**2)
    return torch.einsum("jde,je->jd", S, linear), S


def update_beta1(y, gamma, mu, Sigma, xi1, sigma1, **_):
    tossed, kappa = tosses(y, xi1.shape[-1])
    gram = torch.einsum("nkl,nkde->lde", gamma[:, :, None] * tossed * theta(xi1), padded_second_moment(mu, Sigma))
    return coefficients(gram, kappa[:, 0].T @ torch.einsum("nk,nkd->nd", gamma, pad(mu)), sigma1)


def update_beta0(X, gamma, xi0, sigma0, **_):
    reach, kappa = stick_counts(gamma)
    return coefficients(torch.einsum("nj,nd,ne->jde", reach * theta(xi0), pad(X), pad(X)), kappa.T @ pad(X), sigma0)


def update_experts(X, gamma, mu, Sigma, v0, a0, b0, **_):
    Xt = pad(X)
    V = inverse(torch.einsum("nk,nd,ne->kde", gamma, Xt, Xt) + torch.eye(Xt.shape[1]) / v0)
    M = Xt.new_zeros((mu.shape[1], mu.shape[2], Xt.shape[1]))
    for _ in range(3):                                                    # residuals about the last M: float32 needs them
        r = mu - torch.einsum("kid,nd->nki", M, Xt)
        M = M + (torch.einsum("nk,nki,nd->kid", gamma, r, Xt) - M / v0) @ V
    r = mu - torch.einsum("kid,nd->nki", M, Xt)
    squares = torch.einsum("nk,nki->ki", gamma, r**2 + torch.diagonal(Sigma, dim1=-2, dim2=-1))
    return M, V, a0 + gamma.sum(0) / 2, b0 + (squares + (M**2).sum(-1) / v0) / 2


# ---- level 3: terms of the bound


def output_bound(y, mu, Sigma, beta1_mu, beta1_S, xi1, **_):
    return stick_log_bound(*output_logits(mu, Sigma, beta1_mu, beta1_S), xi1, *tosses(y, len(beta1_mu)))


def expert_bound(X, mu, Sigma, M, V, a, b, **_):
    square = (mu - torch.einsum("kid,nd->nki", M, pad(X))) ** 2 + torch.diagonal(Sigma, dim1=-2, dim2=-1)
    per_row = (gamma_mean_log(a[:, None], b) - LOG2PI - a[:, None] / b * square).sum(-1)
    return (per_row - mu.shape[-1] * torch.einsum("nd,kde,ne->nk", pad(X), V, pad(X))) / 2


def gate_bound(X, beta0_mu, beta0_S, xi0, **_):
    psi, psi2 = gate_logits(X, beta0_mu, beta0_S)
    cost = LOG2 + theta(xi0) * psi2 / 2 + tilt_kl(xi0)
    return sticks(psi / 2 - cost, -psi / 2 - cost)


TERMS = {
    "elbo_output": lambda **s: (s["gamma"] * output_bound(**s)).sum(),
    "elbo_expert": lambda **s: (s["gamma"] * expert_bound(**s)).sum(),
    "elbo_latent_entropy": lambda **s: (s["gamma"] * gaussian_entropy(s["Sigma"])).sum(),
    "elbo_gate": lambda **s: (s["gamma"] * gate_bound(**s)).sum(),
    "elbo_assignment_entropy": lambda **s: categorical_entropy(s["gamma"]).sum(),
    "kl_beta1": lambda **s: gaussian_kl(s["beta1_mu"], s["beta1_S"], s["sigma1"]).sum(),
    "kl_beta0": lambda **s: gaussian_kl(s["beta0_mu"], s["beta0_S"], s["sigma0"]).sum(),
    "kl_experts": lambda **s: mng_kl(s["M"], s["V"], s["a"], s["b"], s["v0"], s["a0"], s["b0"]).sum(),
}


def elbo(**s):
    return sum((-1 if name.startswith("kl") else 1) * term(**s) for name, term in TERMS.items())


# ---- level 4: sweeps


def sweeps(n_sweeps, **s):
    trace = []
    for _ in range(n_sweeps):
        s["mu"], s["Sigma"] = update_x(**s)
        s["xi1"] = update_omega1(**s)
        s["xi0"] = update_omega0(**s)
        s["gamma"] = update_z(**s)
        s["beta1_mu"], s["beta1_S"] = update_beta1(**s)
        s["beta0_mu"], s["beta0_S"] = update_beta0(**s)
        s["M"], s["V"], s["a"], s["b"] = update_experts(**s)
        trace.append(elbo(**s))
    return {**s, "elbo": torch.stack(trace)}


OPS = {f.__name__: tensors(f) for f in (
    stick_log_probs, stick_counts, stick_logits, log_cosh_half, pg_mean, pg_var, pg_kl, log_sigmoid_normal, stick_log_means, second_moment,
    padded_second_moment, gaussian_entropy, gaussian_kl, gamma_mean_log, gamma_kl, mng_kl, categorical_entropy, gate_logits, output_logits,
    stick_log_bound, update_x, update_omega1, update_omega0, update_z, update_beta1, update_beta0, update_experts, elbo, sweeps)}
OPS.update({name: tensors(term) for name, term in TERMS.items()})
