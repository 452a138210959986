"""CAVI for conditional mixture networks in plain NumPy: levels 0 to 5, as short as it gets.

    python -m cmn_conformance run --adapter conformance/adapters/numpy_minimal.py

One function per operation of ops.json; the arguments are the names under "in" of a case, the value is what stands under "out".  Where experts share a
mean (the optional suite expert_mean = shared) they are the updates of the plain model about that mean.
Arrays are indexed n row, k expert, l output stick, j gate stick, i latent dimension; Xt is X with a column of ones at the end.
"""

import math

import numpy as np

NAME, VERSION = "numpy minimal", "1"
PROFILE = {"expert_mean": ["zero", "shared"]}

# ---- level 0: special functions


def log_sigmoid(t):
    return -np.logaddexp(0.0, -t)


def stick_log_probs(psi):
    stop, go = log_sigmoid(psi), log_sigmoid(-psi)
    zero = np.zeros(psi.shape[:-1] + (1,))
    return np.concatenate([zero, np.cumsum(go, -1)], -1) + np.concatenate([stop, zero], -1)


def stick_counts(weights):
    b = np.cumsum(weights[..., ::-1], -1)[..., ::-1][..., :-1]            # all classes from j on
    return b, weights[..., :-1] - b / 2


def stick_logits(log_probs):
    psi = np.zeros(log_probs.shape[:-1] + (log_probs.shape[-1] - 1,))
    for j in range(psi.shape[-1]):
        later = np.logaddexp.reduce(log_probs[..., j + 1:], axis=-1)
        never = np.isneginf(log_probs[..., j]) & np.isneginf(later)
        with np.errstate(invalid="ignore"):
            psi[..., j] = np.where(never, 0.0, log_probs[..., j] - later)
    return psi


def log_cosh_half(c):
    c = np.abs(c)
    return np.where(c < 1, np.log1p(2 * np.sinh(np.minimum(c, 1) / 4) ** 2), c / 2 + np.log1p(np.exp(-c)) - math.log(2))


def theta(c):
    """E[omega] of PG(1, c)."""
    c = np.maximum(np.abs(c), 1e-150)
    return np.tanh(c / 2) / (2 * c)


def pg_mean(b, c):
    return b * theta(c)


def pg_var(b, c):
    c = np.abs(c)
    small, x, e = c < 1, np.where(c < 1, c, 0.0), np.exp(-np.maximum(c, 1))
    series = sum(x ** (2 * m - 2) / math.factorial(2 * m + 1) for m in range(1, 10)) / (4 * np.cosh(x / 2) ** 2)
    y = np.maximum(c, 1)
    return b * np.where(small, series, (1 - e**2 - 2 * y * e) / (2 * y**3 * (1 + e) ** 2))


def tilt_kl(c):
    """KL[PG(1, c) || PG(1, 0)]."""
    c = np.abs(c)
    t = np.tanh(np.minimum(c, 0.5) / 2) ** 2
    series = sum((m - 1) / (2 * m * (2 * m - 1)) * t**m for m in range(2, 15))
    return np.where(c < 0.5, series, log_cosh_half(c) - c / 4 * np.tanh(c / 2))


def pg_kl(b, c):
    return b * tilt_kl(c)


def log_sigmoid_normal_one(m, v, cut=40.0):
    if v == 0:
        return log_sigmoid(m)
    if m > 0:
        return np.log1p(-np.exp(log_sigmoid_normal_one(-m, v)))
    s, wide = math.sqrt(v), math.sqrt(2 * cut)
    r = min(math.pi / s, wide)
    step = 2 * math.pi * r / (cut + r * r / 2)
    t = step * np.arange(int(-wide / step) - 1, int((s + wide) / step) + 2)
    terms = s * t - t**2 / 2 - np.logaddexp(0.0, m + s * t)               # e^psi sigma(-psi) stays of order one
    return m + np.logaddexp.reduce(terms) + math.log(step / math.sqrt(2 * math.pi))


def log_sigmoid_normal(m, v):
    return np.array([log_sigmoid_normal_one(*pair) for pair in zip(m.ravel(), v.ravel())]).reshape(m.shape)


def stick_log_means(m, v):
    stop, go, zero = log_sigmoid_normal(m, v), log_sigmoid_normal(-m, v), np.zeros(m.shape[:-1] + (1,))
    return np.concatenate([zero, np.cumsum(go, -1)], -1) + np.concatenate([stop, zero], -1)


# ---- level 1: expectations, divergences, entropies

lgamma = np.vectorize(math.lgamma, otypes=[float])


def digamma(x):
    x, shift = np.asarray(x, float), 0.0
    for _ in range(10):                                                   # psi(x) = psi(x + 1) - 1/x
        shift, x = shift - np.where(x < 10, 1 / x, 0.0), np.where(x < 10, x + 1, x)
    u = 1 / x**2
    series = u * (1 / 12 - u * (1 / 120 - u * (1 / 252 - u * (1 / 240 - u * (1 / 132 - u * (691 / 32760 - u / 12))))))
    return shift + np.log(x) - 1 / (2 * x) - series


def log_det(S):
    return np.linalg.slogdet(S)[1]


def trace(S):
    return np.einsum("...ii->...", S)


def pad(x):
    return np.concatenate([x, np.ones(x.shape[:-1] + (1,))], -1)


def second_moment(mu, S):
    return S + mu[..., :, None] * mu[..., None, :]


def padded_second_moment(mu, S):
    E = second_moment(pad(mu), np.zeros(S.shape[:-2] + (S.shape[-1] + 1,) * 2))
    E[..., :-1, :-1] += S
    return E


def gaussian_entropy(S):
    return S.shape[-1] / 2 * (1 + math.log(2 * math.pi)) + log_det(S) / 2


def gaussian_kl(mu, S, sigma):
    m = mu.shape[-1]
    return ((trace(S) + (mu**2).sum(-1)) / sigma**2 - m + 2 * m * math.log(sigma) - log_det(S)) / 2


def gamma_mean_log(a, b):
    return digamma(a) - np.log(b)


def gamma_kl(a, b, a0, b0):
    return (a - a0) * digamma(a) - lgamma(a) + lgamma(a0) + a0 * (np.log(b) - math.log(b0)) + a * (b0 - b) / b


def mng_kl(M, V, a, b, v0, a0, b0):
    h, D = M.shape[1:]
    rows = h * (trace(V) / v0 - D + D * math.log(v0) - log_det(V))
    means = (a[:, None] / b * (M**2).sum(-1)).sum(-1) / v0
    return (rows + means) / 2 + gamma_kl(a[:, None], b, a0, b0).sum(-1)


def categorical_entropy(gamma):
    return -(gamma * np.log(np.where(gamma > 0, gamma, 1.0))).sum(-1)


def gate_logits(X, beta0_mu, beta0_S):
    Xt = pad(X)
    return Xt @ beta0_mu.T, np.einsum("nd,jde,ne->nj", Xt, second_moment(beta0_mu, beta0_S), Xt)


def output_logits(mu, Sigma, beta1_mu, beta1_S):
    return pad(mu) @ beta1_mu.T, np.einsum("nkde,lde->nkl", padded_second_moment(mu, Sigma), second_moment(beta1_mu, beta1_S))


def stick_log_bound(psi, psi2, xi, b, kappa):
    return (kappa * psi - b * (math.log(2) + theta(xi) * psi2 / 2 + tilt_kl(xi))).sum(-1)


# ---- level 2: one factor's update


def tosses(y, n_sticks):
    """b and kappa of the labels, (N,1,L-1)."""
    b, kappa = stick_counts(np.eye(n_sticks + 1)[y])
    return b[:, None], kappa[:, None]


def update_x(X, y, beta1_mu, beta1_S, M, a, b, xi1, **_):
    coins, kappa = tosses(y, len(beta1_mu))
    omega, B, tau = coins * theta(xi1), second_moment(beta1_mu, beta1_S), a[:, None] / b
    h = M.shape[1]
    P = np.einsum("nkl,lij->nkij", omega, B[:, :h, :h]) + np.eye(h) * tau[:, :, None]
    eta = tau * np.einsum("kid,nd->nki", M, pad(X)) + kappa @ beta1_mu[:, :h] - np.einsum("nkl,li->nki", omega, B[:, :h, h])
    Sigma = np.linalg.inv(P)
    return np.einsum("nkij,nkj->nki", Sigma, eta), (Sigma + Sigma.swapaxes(-1, -2)) / 2


def update_omega1(mu, Sigma, beta1_mu, beta1_S, **_):
    return np.sqrt(output_logits(mu, Sigma, beta1_mu, beta1_S)[1])


def update_omega0(X, beta0_mu, beta0_S, **_):
    return np.sqrt(gate_logits(X, beta0_mu, beta0_S)[1])


def update_z(**s):
    score = output_bound(**s) + expert_bound(**s) + gaussian_entropy(s["Sigma"]) + gate_bound(**s)
    gamma = np.exp(score - score.max(-1, keepdims=True))
    return gamma / gamma.sum(-1, keepdims=True)


def coefficients(gram, linear, sigma):
    S = np.linalg.inv(gram + np.eye(gram.shape[-1]) / sigma**2)
    return np.einsum("jde,je->jd", S, linear), S


def update_beta1(y, gamma, mu, Sigma, xi1, sigma1, **_):
    coins, kappa = tosses(y, xi1.shape[-1])
    gram = np.einsum("nk,nkl,nkde->lde", gamma, coins * theta(xi1), padded_second_moment(mu, Sigma))
    return coefficients(gram, np.einsum("nl,nk,nkd->ld", kappa[:, 0], gamma, pad(mu)), sigma1)


def update_beta0(X, gamma, xi0, sigma0, **_):
    reach, kappa = stick_counts(gamma)
    Xt = pad(X)
    return coefficients(np.einsum("nj,nd,ne->jde", reach * theta(xi0), Xt, Xt), kappa.T @ Xt, sigma0)


def update_shared(M, a, b, v0, v00, **_):
    weight = a[:, None] / b / v0
    var = v00 / (1 + v00 * weight.sum(0))
    return var[:, None] * np.einsum("ki,kid->id", weight, M), var


def update_experts(X, gamma, mu, Sigma, v0, a0, b0, A0_mu=None, A0_var=0.0, **_):
    if A0_mu is not None:                                                 # about the shared mean, whose spread is in b
        M, V, a, b = update_experts(X, gamma, mu - (pad(X) @ A0_mu.T)[:, None], Sigma, v0, a0, b0)
        return M + A0_mu, V, a, b + V.shape[1] * A0_var / (2 * v0)
    Xt = pad(X)
    V = np.linalg.inv(np.einsum("nk,nd,ne->kde", gamma, Xt, Xt) + np.eye(Xt.shape[1]) / v0)
    M = np.einsum("nk,nki,nd,kde->kie", gamma, mu, Xt, V)
    for _ in range(1):                                                    # a second pass about M: all digits of large inputs
        r = mu - np.einsum("kid,nd->nki", M, Xt)
        M = M + (np.einsum("nk,nki,nd->kid", gamma, r, Xt) - M / v0) @ V
    r = mu - np.einsum("kid,nd->nki", M, Xt)
    squares = np.einsum("nk,nki->ki", gamma, r**2 + np.einsum("nkii->nki", Sigma))
    return M, V, a0 + gamma.sum(0) / 2, b0 + (squares + (M**2).sum(-1) / v0) / 2


# ---- level 3: terms of the bound


def output_bound(y, mu, Sigma, beta1_mu, beta1_S, xi1, **_):
    coins, kappa = tosses(y, len(beta1_mu))
    return stick_log_bound(*output_logits(mu, Sigma, beta1_mu, beta1_S), xi1, coins, kappa)


def expert_bound(X, mu, Sigma, M, V, a, b, **_):
    Xt = pad(X)
    square = (mu - np.einsum("kid,nd->nki", M, Xt)) ** 2 + np.einsum("nkii->nki", Sigma)
    per_row = (gamma_mean_log(a[:, None], b) - math.log(2 * math.pi) - a[:, None] / b * square).sum(-1)
    return (per_row - mu.shape[-1] * np.einsum("nd,kde,ne->nk", Xt, V, Xt)) / 2


def gate_bound(X, beta0_mu, beta0_S, xi0, **_):
    psi, psi2 = gate_logits(X, beta0_mu, beta0_S)
    cost, zero = math.log(2) + theta(xi0) * psi2 / 2 + tilt_kl(xi0), np.zeros((len(X), 1))
    return np.concatenate([zero, np.cumsum(-psi / 2 - cost, -1)], -1) + np.concatenate([psi / 2 - cost, zero], -1)


def elbo_output(gamma, **s):
    return (gamma * output_bound(**s)).sum()


def elbo_expert(gamma, **s):
    return (gamma * expert_bound(**s)).sum()


def elbo_latent_entropy(gamma, Sigma, **_):
    return (gamma * gaussian_entropy(Sigma)).sum()


def elbo_gate(gamma, **s):
    return (gamma * gate_bound(**s)).sum()


def elbo_assignment_entropy(gamma, **_):
    return categorical_entropy(gamma).sum()


def kl_beta1(beta1_mu, beta1_S, sigma1, **_):
    return gaussian_kl(beta1_mu, beta1_S, sigma1).sum()


def kl_beta0(beta0_mu, beta0_S, sigma0, **_):
    return gaussian_kl(beta0_mu, beta0_S, sigma0).sum()


def kl_experts(M, V, a, b, v0, a0, b0, A0_mu=None, A0_var=0.0, **_):
    if A0_mu is not None:
        spread = M.shape[-1] * (a[:, None] / b * A0_var).sum() / (2 * v0)
        return kl_experts(M - A0_mu, V, a, b, v0, a0, b0) + spread
    return mng_kl(M, V, a, b, v0, a0, b0).sum()


def kl_shared(A0_mu, A0_var, v00, **_):
    if v00 == 0:
        return 0.0
    D = A0_mu.shape[1]
    return ((A0_mu**2).sum() / v00 + D * (A0_var / v00 - 1 - np.log(A0_var / v00)).sum()) / 2


def elbo(**s):
    gains = elbo_output(**s) + elbo_expert(**s) + elbo_latent_entropy(**s) + elbo_gate(**s) + elbo_assignment_entropy(**s)
    return gains - kl_beta1(**s) - kl_beta0(**s) - kl_experts(**s) - (kl_shared(**s) if "v00" in s else 0.0)


# ---- levels 4 and 5: sweeps


def sweep(s):
    """The state after one sweep: the shared mean, if there is one, (x, omega1), omega0, z, beta1, beta0, experts."""
    s = dict(s)
    if "v00" in s:
        s["A0_mu"], s["A0_var"] = update_shared(**s)
    s["mu"], s["Sigma"] = update_x(**s)
    s["xi1"] = update_omega1(**s)
    s["xi0"] = update_omega0(**s)
    s["gamma"] = update_z(**s)
    s["beta1_mu"], s["beta1_S"] = update_beta1(**s)
    s["beta0_mu"], s["beta0_S"] = update_beta0(**s)
    s["M"], s["V"], s["a"], s["b"] = update_experts(**s)
    return s


def sweeps(n_sweeps, **s):
    trace = []
    for _ in range(n_sweeps):
        s = sweep(s)
        trace.append(elbo(**s))
    return {**s, "elbo": np.array(trace)}


def distance(old, new):
    return max(np.max(np.abs(new[f] - old[f]) / (1 + np.abs(old[f])), initial=0.0) for f in ("beta1_mu", "beta0_mu", "M", "a", "b", "gamma", "A0_mu") if f in old)


def stationarity(**s):
    return distance(s, sweep(s))


def converge(**s):
    for _ in range(20_000):
        old, s = s, sweep(s)
        if distance(old, s) < 1e-9:
            break
    return elbo(**s), stationarity(**s)
