"""The posterior predictive p(y* | x*) of a state: adaptive nested quadrature (h = 1), product quadrature (h = 2), plain
Monte Carlo over every random quantity (any h)."""
import numpy as np
from scipy.integrate import quad
from scipy.special import expit, ndtr
from scipy.stats import norm, t as student

from .cmn import padded
from .special import mean_sigmoid


def gate_weights(s, x):
    """w_k = prod_{j<k} E sigma(-psi0_j) * E sigma(psi0_k)."""
    x, left, out = padded(x), 1.0, []
    for m, S in zip(s["beta0_mu"], s["beta0_S"]):
        mean, var = float(m @ x), float(x @ S @ x)
        out.append(left * mean_sigmoid(mean, var))
        left *= mean_sigmoid(-mean, var)
    return np.array([*out, left])


def latent_student(s, x, k):
    """Degrees of freedom, centre (h,) and scale (h,) of x1 given z = k with A and tau integrated out."""
    x = padded(x)
    a, b = s["a"][k], s["b"][k]
    return 2 * a, s["M"][k] @ x, np.sqrt(b / a * (1 + x @ s["V"][k] @ x))


def sigmoid_integral(m, v):
    """E sigma(psi), psi ~ N(m, v), adaptive quadrature in the standardised variable."""
    root = np.sqrt(v)
    bend = -m / root
    cuts = [c for c in (bend - 6 / root, bend, bend + 6 / root) if -9 < c < 9]
    return quad(lambda t: norm._pdf(t) * expit(m + root * t), -9, 9, points=cuts or None, epsabs=1e-13, epsrel=1e-12, limit=200)[0]


def class_given_latent(s, x1):
    """p(y | x1) with beta1 integrated out, x1 fixed."""
    x1, left, out = padded(x1), 1.0, []
    for m, S in zip(s["beta1_mu"], s["beta1_S"]):
        mean, var = float(m @ x1), float(x1 @ S @ x1)
        out.append(left * sigmoid_integral(mean, var))
        left *= sigmoid_integral(-mean, var)
    return np.array([*out, left])


def quadrature_1d(s, x):
    """h = 1: adaptive quadrature over x1 around adaptive quadrature over each output logit, one class at a time."""
    weights, L = gate_weights(s, x), len(s["beta1_mu"]) + 1
    out = np.zeros(L)
    for k, w in enumerate(weights):
        df, centre, scale = latent_student(s, x, k)
        memo = {}

        def integrand(u, c):                      # u = arctan of the standardised latent: the tails are polynomial
            r = np.tan(u)
            if u not in memo:
                memo[u] = class_given_latent(s, centre + scale * r) * student.pdf(r, df) * (1 + r * r)
            return memo[u][c]
        for c in range(L):
            out[c] += w * quad(integrand, -np.pi / 2, np.pi / 2, args=(c,), epsabs=1e-10, epsrel=1e-9, limit=200)[0]
    return out


def sigmoid_integrals(m, v):
    """E sigma(psi) for arrays: trapezoid over psi, or over the logistic variable where the variance is large."""
    m, v = np.broadcast_arrays(np.asarray(m, float), np.asarray(v, float))
    t, e = np.arange(-9, 9.05, 0.1), np.arange(-45, 45.2, 0.4)
    small = 0.1 * norm.pdf(t) @ np.moveaxis(expit(m[..., None] + np.sqrt(np.minimum(v, 25))[..., None] * t), -1, 0).reshape(len(t), -1)
    density = expit(e) * expit(-e)
    large = 0.4 * density @ np.moveaxis(ndtr((m[..., None] - e) / np.sqrt(np.maximum(v, 25))[..., None]), -1, 0).reshape(len(e), -1)
    return np.where(v <= 25, small.reshape(m.shape), large.reshape(m.shape))


def product_quadrature(s, x, n_nodes=None):
    """Any h (meant for 1 and 2): trapezoid in u, x1 = centre + scale sinh(u), on a full grid; exponentially accurate."""
    weights, L, h = gate_weights(s, x), len(s["beta1_mu"]) + 1, s["M"].shape[1]
    n_nodes = n_nodes or {1: 641, 2: 161}[h]
    out = np.zeros(L)
    for k, w in enumerate(weights):
        df, centre, scale = latent_student(s, x, k)
        u = np.linspace(-1, 1, n_nodes) * np.arcsinh(np.sqrt(df) * 10 ** (15 / df))
        mass = student.pdf(np.sinh(u), df) * np.cosh(u) * (u[1] - u[0])
        grid = np.stack(np.meshgrid(*[centre[i] + scale[i] * np.sinh(u) for i in range(h)], indexing="ij"), -1).reshape(-1, h)
        prob = mass
        for _ in range(h - 1):
            prob = np.multiply.outer(prob, mass)
        prob, grid1 = prob.ravel(), np.concatenate([grid, np.ones((len(grid), 1))], 1)
        left = np.ones(len(grid))
        for l in range(L - 1):
            mean = grid1 @ s["beta1_mu"][l]
            var = np.einsum("gi,ij,gj->g", grid1, s["beta1_S"][l], grid1)
            stop = sigmoid_integrals(mean, var)
            out[l] += w * np.sum(prob * left * stop)
            left = left * sigmoid_integrals(-mean, var)
        out[L - 1] += w * np.sum(prob * left)
    return out


def monte_carlo(s, x, rng, n_draws=100_000):
    """Mean and standard error of p(y | x*, Theta, x1) over draws of beta0, tau, A, x1 and beta1; nothing integrated out."""
    x = padded(x)
    K, h, D = s["M"].shape
    L = len(s["beta1_mu"]) + 1

    def sticks(psi):
        left, out = np.ones(n_draws), []
        for j in range(psi.shape[1]):
            out.append(left * expit(psi[:, j]))
            left = left * expit(-psi[:, j])
        return np.stack([*out, left], 1)
    psi0 = np.stack([rng.multivariate_normal(m, S, n_draws) @ x for m, S in zip(s["beta0_mu"], s["beta0_S"])]
                    or [np.zeros(n_draws)], 1)[:, :K - 1]
    pi, total = sticks(psi0), np.zeros((n_draws, L))
    beta1 = [rng.multivariate_normal(m, S, n_draws) for m, S in zip(s["beta1_mu"], s["beta1_S"])]
    for k in range(K):
        x1 = np.ones((n_draws, h + 1))
        for i in range(h):
            tau = rng.gamma(s["a"][k], 1 / s["b"][k, i], n_draws)
            A = s["M"][k, i] + rng.multivariate_normal(np.zeros(D), s["V"][k], n_draws) / np.sqrt(tau)[:, None]
            x1[:, i] = A @ x + rng.normal(size=n_draws) / np.sqrt(tau)
        total += pi[:, [k]] * sticks(np.stack([(b * x1).sum(1) for b in beta1], 1))
    return total.mean(0), total.std(0) / np.sqrt(n_draws)
