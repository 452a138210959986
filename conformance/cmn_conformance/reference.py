"""Levels 0 to 2 in float64 with numpy alone, for inputs that nobody has computed with 50 digits.  Shares no code with any implementation.

One function per operation of ops.json.  Indices: n row, k expert, l output stick, j gate stick, i latent dimension.
"""

import math

import numpy as np

LN2 = math.log(2.0)


# ---- level 0

def log_sigmoid(t):
    return np.minimum(t, 0.0) - np.log1p(np.exp(-np.abs(t)))


def stick_log_probs(psi):
    out = np.zeros((psi.shape[0], psi.shape[1] + 1))
    for c in range(psi.shape[1]):
        out[:, c] += log_sigmoid(psi[:, c])
        out[:, c + 1:] += log_sigmoid(-psi[:, c])[:, None]
    return out


def stick_counts(weights):
    b = np.stack([weights[:, j:].sum(1) for j in range(weights.shape[1] - 1)], 1) if weights.shape[1] > 1 else weights[:, :0]
    return b, weights[:, :-1] - b / 2


def stick_logits(log_probs):
    later = np.stack([np.logaddexp.reduce(log_probs[:, j + 1:], axis=1) for j in range(log_probs.shape[1] - 1)], 1)
    return log_probs[:, :-1] - later


def log_cosh_half(c):
    """c^2/8 - ... near 0, where ln(cosh) loses digits: log1p(2 sinh^2(c/4))."""
    c = np.abs(c)
    return np.where(c < 2, np.log1p(2 * np.sinh(np.minimum(c, 2) / 4) ** 2), c / 2 + np.log1p(np.exp(-c)) - LN2)


def pg_mean(b, c):
    c = np.abs(c)
    safe = np.maximum(c, 1e-8)
    return b * np.where(c < 1e-8, 0.25, np.tanh(safe / 2) / (2 * safe))


def pg_var(b, c):
    """sinh c - c by its series below 2, of 20 terms: the last is 1e-30 of the first."""
    c = np.abs(c)
    x, y = np.minimum(c, 2), np.maximum(c, 2)
    series, term = np.zeros_like(x), np.full_like(x, 1 / 6)
    for m in range(1, 21):
        series, term = series + term, term * x**2 / ((2 * m + 2) * (2 * m + 3))
    e = np.exp(-y)
    return b * np.where(c < 2, series / (4 * np.cosh(x / 2) ** 2), (1 - e**2 - 2 * y * e) / (2 * y**3 * (1 + e) ** 2))


def pg_kl(b, c):
    """With t = tanh(c/2): -ln(1 - t^2)/2 - (t/2) artanh t = sum_m t^(2m) (1/(2m) - 1/(2(2m-1))), of 80 terms below c = 2."""
    c = np.abs(c)
    u = np.tanh(np.minimum(c, 2) / 2) ** 2
    series = np.zeros_like(u)
    for m in range(80, 1, -1):
        series = series + (1 / (2 * m) - 1 / (2 * (2 * m - 1))) * u**m
    return b * np.where(c < 2, series, log_cosh_half(c) - c / 4 * np.tanh(c / 2))


def log_sigmoid_normal(m, v):
    """ln E sigma(psi): a sum over psi = m + s t at 4001 equal steps of t, |t| <= 12, spectrally exact where s is not above 20."""
    t = np.linspace(-12, 12, 4001)
    values = log_sigmoid(m[:, None] + np.sqrt(v)[:, None] * t) - t**2 / 2
    top = values.max(1)
    return top + np.log(np.exp(values - top[:, None]).sum(1) * (t[1] - t[0])) - math.log(2 * math.pi) / 2


# ---- level 1

def digamma(x):
    """psi(x + 20) by its asymptotic series, and down again."""
    x, down = np.asarray(x, float), 0.0
    for _ in range(20):
        down, x = down + 1 / x, x + 1
    return np.log(x) - 1 / (2 * x) - 1 / (12 * x**2) + 1 / (120 * x**4) - 1 / (252 * x**6) + 1 / (240 * x**8) - down


def padded(x):
    return np.concatenate([x, np.ones(x.shape[:-1] + (1,))], -1)


def second_moment(mu, S):
    return S + mu[..., :, None] * mu[..., None, :]


def padded_second_moment(mu, S):
    wide = np.zeros(S.shape[:-2] + (S.shape[-1] + 1,) * 2)
    wide[..., :-1, :-1] = S
    return second_moment(padded(mu), wide)


def log_det(S):
    return 2 * np.log(np.einsum("...ii->...i", np.linalg.cholesky(S))).sum(-1)


def gaussian_entropy(S):
    return (S.shape[-1] * (1 + math.log(2 * math.pi)) + log_det(S)) / 2


def gaussian_kl(mu, S, sigma):
    m = mu.shape[-1]
    return (np.einsum("...ii->...", S) / sigma**2 + (mu**2).sum(-1) / sigma**2 - m + 2 * m * math.log(sigma) - log_det(S)) / 2


def gamma_mean_log(a, b):
    return digamma(a) - np.log(b)


def gamma_kl(a, b, a0, b0):
    lgamma = np.vectorize(math.lgamma, otypes=[float])
    return (a - a0) * digamma(a) - lgamma(a) + math.lgamma(a0) + a0 * (np.log(b) - math.log(b0)) + a * (b0 / b - 1)


def mng_kl(M, V, a, b, v0, a0, b0):
    h, D = M.shape[1:]
    matrix = h * (np.einsum("kdd->k", V) / v0 - D + D * math.log(v0) - log_det(V)) / 2
    return matrix + (a[:, None] / b * (M**2).sum(-1)).sum(1) / (2 * v0) + gamma_kl(a[:, None], b, a0, b0).sum(1)


def categorical_entropy(gamma):
    return -np.where(gamma > 0, gamma * np.log(np.where(gamma > 0, gamma, 1.0)), 0.0).sum(1)


def gate_logits(X, beta0_mu, beta0_S):
    P = padded(X)
    return P @ beta0_mu.T, np.einsum("nd,jde,ne->nj", P, second_moment(beta0_mu, beta0_S), P)


def output_logits(mu, Sigma, beta1_mu, beta1_S):
    E, B = padded_second_moment(mu, Sigma), second_moment(beta1_mu, beta1_S)
    return padded(mu) @ beta1_mu.T, np.tensordot(E, B, ([2, 3], [1, 2]))


def stick_log_bound(psi, psi2, xi, b, kappa):
    ones = np.ones_like(xi)
    return (kappa * psi - b * (LN2 + pg_mean(ones, xi) * psi2 / 2 + pg_kl(ones, xi))).sum(-1)


# ---- level 2, by its normal equations

def tosses(y, J):
    """b and kappa of the labels, (N, J)."""
    b = (y[:, None] >= np.arange(J)).astype(float)
    return b, (y[:, None] == np.arange(J)) - b / 2


def update_x(X, y, beta1_mu, beta1_S, M, a, b, xi1, **_):
    coins, kappa = tosses(y, len(beta1_mu))
    omega = coins[:, None] * pg_mean(np.ones_like(xi1), xi1)
    B, h, tau = second_moment(beta1_mu, beta1_S), M.shape[1], a[:, None] / b
    precision = np.tensordot(omega, B[:, :h, :h], (2, 0)) + np.einsum("ki,ij->kij", tau, np.eye(h))
    eta = tau * (padded(X) @ M.reshape(-1, M.shape[2]).T).reshape(len(X), *M.shape[:2])
    eta = eta + (kappa @ beta1_mu[:, :h])[:, None] - omega @ B[:, :h, h]
    return np.linalg.solve(precision, eta[..., None])[..., 0], np.linalg.inv(precision)


def update_omega1(mu, Sigma, beta1_mu, beta1_S, gamma, shared=False, **_):
    psi2 = output_logits(mu, Sigma, beta1_mu, beta1_S)[1]
    return np.sqrt((gamma[..., None] * psi2).sum(1) if shared else psi2)


def update_omega0(X, beta0_mu, beta0_S, **_):
    return np.sqrt(gate_logits(X, beta0_mu, beta0_S)[1])


def weighted(design, weights, targets, prior):
    """Means and covariances of sum_n weights x x^T + prior I and right sides targets^T x, one per column."""
    precision = np.einsum("nj,nd,ne->jde", weights, design, design) + prior * np.eye(design.shape[1])
    return np.linalg.solve(precision, (targets.T @ design)[..., None])[..., 0], np.linalg.inv(precision)


def update_beta1(y, gamma, mu, Sigma, xi1, sigma1, **_):
    coins, kappa = tosses(y, xi1.shape[-1])
    weights = gamma[..., None] * coins[:, None] * pg_mean(np.ones_like(xi1), xi1)
    precision = np.tensordot(weights, padded_second_moment(mu, Sigma), ([0, 1], [0, 1]))
    precision = precision + np.eye(precision.shape[-1]) / sigma1**2
    right = kappa.T @ (gamma[..., None] * padded(mu)).sum(1)
    return np.linalg.solve(precision, right[..., None])[..., 0], np.linalg.inv(precision)


def update_beta0(X, gamma, xi0, sigma0, **_):
    b, kappa = stick_counts(gamma)
    return weighted(padded(X), b * pg_mean(np.ones_like(xi0), xi0), kappa, 1 / sigma0**2)


def update_experts(X, gamma, mu, Sigma, v0, a0, b0, **_):
    P = padded(X)
    V = np.linalg.inv(np.stack([(P * g[:, None]).T @ P for g in gamma.T]) + np.eye(P.shape[1]) / v0)
    M = np.stack([(gamma[:, k, None] * mu[:, k]).T @ P @ V[k] for k in range(gamma.shape[1])])
    residual = mu - (P @ M.reshape(-1, M.shape[2]).T).reshape(mu.shape)
    squares = (gamma[..., None] * (residual**2 + np.einsum("nkii->nki", Sigma))).sum(0)
    return M, V, a0 + gamma.sum(0) / 2, b0 + (squares + (M**2).sum(-1) / v0) / 2


def elbo_output(y, gamma, mu, Sigma, beta1_mu, beta1_S, xi1, **_):
    b, kappa = (t[:, None] for t in tosses(y, len(beta1_mu)))
    return (gamma * stick_log_bound(*output_logits(mu, Sigma, beta1_mu, beta1_S), xi1, b, kappa)).sum()


def elbo_expert(X, gamma, mu, Sigma, M, V, a, b, **_):
    P = padded(X)
    residual = mu - (P @ M.reshape(-1, M.shape[2]).T).reshape(mu.shape)
    squares = a[:, None] / b * (residual**2 + np.einsum("nkii->nki", Sigma))
    rows = (gamma_mean_log(a[:, None], b) - math.log(2 * math.pi) - squares).sum(-1) - mu.shape[-1] * np.einsum("nd,kde,ne->nk", P, V, P)
    return (gamma * rows).sum() / 2


def elbo_gate(X, gamma, beta0_mu, beta0_S, xi0, **_):
    return stick_log_bound(*gate_logits(X, beta0_mu, beta0_S), xi0, *stick_counts(gamma)).sum()


def elbo_latent_entropy(gamma, Sigma, **_):
    return (gamma * gaussian_entropy(Sigma)).sum()


def elbo_assignment_entropy(gamma, **_):
    return categorical_entropy(gamma).sum()
