"""CAVI for conditional mixture networks in JAX, float32 and float64, levels 0 to 5.

    python -m cmn_conformance run --adapter conformance/adapters/jax_adapter.py --dtype f32

Everything is a pure function of arrays and is compiled by jit, once for each set of shapes.
"""

import math
from functools import wraps

import jax
import jax.numpy as jnp
import numpy as np
from jax.nn import log_sigmoid
from jax.scipy.special import digamma, gammaln, logsumexp

NAME, VERSION, DTYPES = "jax", jax.__version__, ("f64", "f32")
LOG2, LOG2PI = math.log(2), math.log(2 * math.pi)


def start(dtype):
    jax.config.update("jax_enable_x64", dtype == "f64")
    jax.config.update("jax_default_matmul_precision", "highest")


def compiled(function):
    """jit, with numpy at both ends."""
    fast = jax.jit(function)

    @wraps(function)
    def call(**given):
        return jax.tree.map(np.asarray, fast(**{name: jnp.asarray(value) for name, value in given.items()}))
    return call


# ---- level 0: special functions


def sticks(stop, go):
    zero = jnp.zeros(stop.shape[:-1] + (1,), stop.dtype)
    return jnp.concatenate([zero, jnp.cumsum(go, -1)], -1) + jnp.concatenate([stop, zero], -1)


def counts(weights):
    b = jnp.cumsum(weights[..., ::-1], -1)[..., ::-1][..., :-1]
    return b, weights[..., :-1] - b / 2


def logits(log_probs):
    later = jnp.flip(jax.lax.cumlogsumexp(jnp.flip(log_probs, -1), axis=log_probs.ndim - 1), -1)[..., 1:]
    this = log_probs[..., :-1]
    never = jnp.isneginf(this) & jnp.isneginf(later)
    return jnp.where(never, 0.0, this - jnp.where(never, 0.0, later))


def log_cosh(c):
    c = jnp.abs(c)
    return jnp.where(c < 1, jnp.log1p(2 * jnp.sinh(jnp.minimum(c, 1) / 4) ** 2), c / 2 + jnp.log1p(jnp.exp(-c)) - LOG2)


def theta(c):
    """E[omega] of PG(1, c)."""
    c = jnp.maximum(jnp.abs(c), 1e-30)
    return jnp.tanh(c / 2) / (2 * c)


def polynomial(coefficients, x):
    total = 0.0
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total


def variance(c):
    """Var[omega] of PG(1, c)."""
    c = jnp.abs(c)
    x, y = jnp.minimum(c, 1), jnp.maximum(c, 1)
    series = polynomial([1 / math.factorial(2 * m + 1) for m in range(1, 10)], x**2) / (4 * jnp.cosh(x / 2) ** 2)
    e = jnp.exp(-y)
    return jnp.where(c < 1, series, (1 - e**2 - 2 * y * e) / (2 * y**2 * (1 + e) ** 2) / y)


def tilt_kl(c):
    """KL[PG(1, c) || PG(1, 0)]."""
    c = jnp.abs(c)
    t = jnp.tanh(jnp.minimum(c, 1) / 2)
    series = t**4 * polynomial([(m - 1) / (2 * m * (2 * m - 1)) for m in range(2, 25)], t**2)
    return jnp.where(c < 1, series, log_cosh(c) - c / 4 * jnp.tanh(c / 2))


def log_mean_sigmoid(m, v, cut=40.0):
    """ln E sigma(psi) and ln E sigma(-psi), psi ~ N(m, v): trapezoids that converge exponentially."""
    tail, s, wide = -jnp.abs(m), jnp.sqrt(v), math.sqrt(2 * cut)
    top = float(jnp.max(s, initial=1e-3))
    r = min(math.pi / top, wide)
    step = 2 * math.pi * r / (cut + r * r / 2)
    t = step * jnp.arange(int(-wide / step) - 1, int((top + wide) / step) + 2).reshape(-1, *[1] * m.ndim)
    terms = s * t - t**2 / 2 - jnp.logaddexp(0.0, tail + s * t)
    low = tail + logsumexp(terms, axis=0) + math.log(step / math.sqrt(2 * math.pi))
    high = jnp.log1p(-jnp.exp(low))
    return jnp.where(m < 0, low, high), jnp.where(m < 0, high, low)


stick_log_probs = compiled(lambda psi: sticks(log_sigmoid(psi), log_sigmoid(-psi)))
stick_counts = compiled(lambda weights: counts(weights))
stick_logits = compiled(lambda log_probs: logits(log_probs))
log_cosh_half = compiled(lambda c: log_cosh(c))
pg_mean = compiled(lambda b, c: b * theta(c))
pg_var = compiled(lambda b, c: b * variance(c))
pg_kl = compiled(lambda b, c: b * tilt_kl(c))


def log_sigmoid_normal(m, v):
    return np.asarray(log_mean_sigmoid(jnp.asarray(m), jnp.asarray(v))[0])


def stick_log_means(m, v):
    return np.asarray(sticks(*log_mean_sigmoid(jnp.asarray(m), jnp.asarray(v))))


# ---- level 1: expectations, divergences, entropies


def pad(x):
    return jnp.concatenate([x, jnp.ones(x.shape[:-1] + (1,), x.dtype)], -1)


def moment(mu, S):
    return S + mu[..., :, None] * mu[..., None, :]


def padded_moment(mu, S):
    zero = [(0, 0)] * (mu.ndim - 1)
    return moment(pad(mu), jnp.pad(S, [*zero, (0, 1), (0, 1)]))


def log_det(S):
    return 2 * jnp.log(jnp.diagonal(jnp.linalg.cholesky(S), axis1=-2, axis2=-1)).sum(-1)


def inverse(P):
    W = jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(P), jnp.broadcast_to(jnp.eye(P.shape[-1], dtype=P.dtype), P.shape), lower=True)
    return W.swapaxes(-1, -2) @ W


def trace(S):
    return jnp.trace(S, axis1=-2, axis2=-1)


def entropy(S):
    return S.shape[-1] / 2 * (1 + LOG2PI) + log_det(S) / 2


def kl_normal(mu, S, sigma):
    m = mu.shape[-1]
    return ((trace(S) + (mu**2).sum(-1)) / sigma**2 - m + 2 * m * jnp.log(sigma) - log_det(S)) / 2


def kl_gamma(a, b, a0, b0):
    return (a - a0) * digamma(a) - gammaln(a) + gammaln(a0) + a0 * (jnp.log(b) - jnp.log(b0)) + a * (b0 - b) / b


def kl_mng(M, V, a, b, v0, a0, b0):
    h, D = M.shape[-2:]
    rows = h * (trace(V) / v0 - D + D * jnp.log(v0) - log_det(V)) + (a[:, None] / b * (M**2).sum(-1)).sum(-1) / v0
    return rows / 2 + kl_gamma(a[:, None], b, a0, b0).sum(-1)


def entropy_of(gamma):
    return -(gamma * jnp.log(jnp.where(gamma > 0, gamma, 1.0))).sum(-1)


def gate_psi(X, mu, S):
    return pad(X) @ mu.T, jnp.einsum("nd,jde,ne->nj", pad(X), moment(mu, S), pad(X))


def output_psi(mu, Sigma, beta, S):
    return pad(mu) @ beta.T, jnp.einsum("nkde,lde->nkl", padded_moment(mu, Sigma), moment(beta, S))


def coins(psi, psi2, xi, b, kappa):
    return (kappa * psi - b * (LOG2 + theta(xi) * psi2 / 2 + tilt_kl(xi))).sum(-1)


second_moment = compiled(lambda mu, S: moment(mu, S))
padded_second_moment = compiled(lambda mu, S: padded_moment(mu, S))
gaussian_entropy = compiled(lambda S: entropy(S))
gaussian_kl = compiled(lambda mu, S, sigma: kl_normal(mu, S, sigma))
gamma_mean_log = compiled(lambda a, b: digamma(a) - jnp.log(b))
gamma_kl = compiled(lambda a, b, a0, b0: kl_gamma(a, b, a0, b0))
mng_kl = compiled(lambda M, V, a, b, v0, a0, b0: kl_mng(M, V, a, b, v0, a0, b0))
categorical_entropy = compiled(lambda gamma: entropy_of(gamma))
gate_logits = compiled(lambda X, beta0_mu, beta0_S: gate_psi(X, beta0_mu, beta0_S))
output_logits = compiled(lambda mu, Sigma, beta1_mu, beta1_S: output_psi(mu, Sigma, beta1_mu, beta1_S))
stick_log_bound = compiled(lambda psi, psi2, xi, b, kappa: coins(psi, psi2, xi, b, kappa))

# ---- level 2: one factor's update


def tosses(y, n_sticks, dtype):
    """b and kappa of the labels, (N,1,L-1)."""
    return counts(jax.nn.one_hot(y, n_sticks + 1, dtype=dtype)[:, None])


def new_x(X, y, beta1_mu, beta1_S, M, a, b, xi1, **_):
    tossed, kappa = tosses(y, len(beta1_mu), X.dtype)
    omega, B, tau, h = tossed * theta(xi1), moment(beta1_mu, beta1_S), a[:, None] / b, M.shape[1]
    P = jnp.einsum("nkl,lij->nkij", omega, B[:, :h, :h]) + jnp.eye(h, dtype=X.dtype) * tau[:, :, None]
    eta = tau * jnp.einsum("kid,nd->nki", M, pad(X)) + kappa @ beta1_mu[:, :h] - jnp.einsum("nkl,li->nki", omega, B[:, :h, h])
    Sigma = inverse(P)
    return jnp.einsum("nkij,nkj->nki", Sigma, eta), Sigma


def new_omega1(mu, Sigma, beta1_mu, beta1_S, **_):
    return jnp.sqrt(output_psi(mu, Sigma, beta1_mu, beta1_S)[1])


def new_omega0(X, beta0_mu, beta0_S, **_):
    return jnp.sqrt(gate_psi(X, beta0_mu, beta0_S)[1])


def new_z(**s):
    return jax.nn.softmax(output_bound(**s) + expert_bound(**s) + entropy(s["Sigma"]) + gate_bound(**s), -1)


def coefficients(gram, linear, sigma):
    S = inverse(gram + jnp.eye(gram.shape[-1], dtype=gram.dtype) / sigma**2)
    return jnp.einsum("jde,je->jd", S, linear), S


def new_beta1(y, gamma, mu, Sigma, xi1, sigma1, **_):
    tossed, kappa = tosses(y, xi1.shape[-1], mu.dtype)
    gram = jnp.einsum("nkl,nkde->lde", gamma[:, :, None] * tossed * theta(xi1), padded_moment(mu, Sigma))
    return coefficients(gram, kappa[:, 0].T @ jnp.einsum("nk,nkd->nd", gamma, pad(mu)), sigma1)


def new_beta0(X, gamma, xi0, sigma0, **_):
    reach, kappa = counts(gamma)
    return coefficients(jnp.einsum("nj,nd,ne->jde", reach * theta(xi0), pad(X), pad(X)), kappa.T @ pad(X), sigma0)


def new_experts(X, gamma, mu, Sigma, v0, a0, b0, **_):
    Xt = pad(X)
    V = inverse(jnp.einsum("nk,nd,ne->kde", gamma, Xt, Xt) + jnp.eye(Xt.shape[1], dtype=X.dtype) / v0)
    M = jnp.zeros((mu.shape[1], mu.shape[2], Xt.shape[1]), X.dtype)
    for _ in range(3):                                                    # residuals about the last M: float32 needs them
        r = mu - jnp.einsum("kid,nd->nki", M, Xt)
        M = M + (jnp.einsum("nk,nki,nd->kid", gamma, r, Xt) - M / v0) @ V
    r = mu - jnp.einsum("kid,nd->nki", M, Xt)
    squares = jnp.einsum("nk,nki->ki", gamma, r**2 + jnp.diagonal(Sigma, axis1=-2, axis2=-1))
    return M, V, a0 + gamma.sum(0) / 2, b0 + (squares + (M**2).sum(-1) / v0) / 2


# ---- level 3: terms of the bound


def output_bound(y, mu, Sigma, beta1_mu, beta1_S, xi1, **_):
    return coins(*output_psi(mu, Sigma, beta1_mu, beta1_S), xi1, *tosses(y, len(beta1_mu), mu.dtype))


def expert_bound(X, mu, Sigma, M, V, a, b, **_):
    square = (mu - jnp.einsum("kid,nd->nki", M, pad(X))) ** 2 + jnp.diagonal(Sigma, axis1=-2, axis2=-1)
    per_row = (digamma(a)[:, None] - jnp.log(b) - LOG2PI - a[:, None] / b * square).sum(-1)
    return (per_row - mu.shape[-1] * jnp.einsum("nd,kde,ne->nk", pad(X), V, pad(X))) / 2


def gate_bound(X, beta0_mu, beta0_S, xi0, **_):
    psi, psi2 = gate_psi(X, beta0_mu, beta0_S)
    cost = LOG2 + theta(xi0) * psi2 / 2 + tilt_kl(xi0)
    return sticks(psi / 2 - cost, -psi / 2 - cost)


TERMS = {
    "elbo_output": lambda **s: (s["gamma"] * output_bound(**s)).sum(),
    "elbo_expert": lambda **s: (s["gamma"] * expert_bound(**s)).sum(),
    "elbo_latent_entropy": lambda **s: (s["gamma"] * entropy(s["Sigma"])).sum(),
    "elbo_gate": lambda **s: (s["gamma"] * gate_bound(**s)).sum(),
    "elbo_assignment_entropy": lambda **s: entropy_of(s["gamma"]).sum(),
    "kl_beta1": lambda **s: kl_normal(s["beta1_mu"], s["beta1_S"], s["sigma1"]).sum(),
    "kl_beta0": lambda **s: kl_normal(s["beta0_mu"], s["beta0_S"], s["sigma0"]).sum(),
    "kl_experts": lambda **s: kl_mng(s["M"], s["V"], s["a"], s["b"], s["v0"], s["a0"], s["b0"]).sum(),
}


def bound(**s):
    return sum((-1 if name.startswith("kl") else 1) * term(**s) for name, term in TERMS.items())


# ---- levels 4 and 5: sweeps

UPDATES = [(new_x, "mu Sigma"), (new_omega1, "xi1"), (new_omega0, "xi0"), (new_z, "gamma"), (new_beta1, "beta1_mu beta1_S"),
           (new_beta0, "beta0_mu beta0_S"), (new_experts, "M V a b")]


@jax.jit
def sweep(s):
    """The state after one sweep: (x, omega1), omega0, z, beta1, beta0, experts; the bound there."""
    for update, names in UPDATES:
        out = update(**s)
        s = {**s, **dict(zip(names.split(), out if isinstance(out, tuple) else (out,)))}
    return s, bound(**s)


def sweeps(n_sweeps, **given):
    s, trace = {name: jnp.asarray(value) for name, value in given.items()}, []
    for _ in range(n_sweeps):
        s, value = sweep(s)
        trace.append(value)
    return {**jax.tree.map(np.asarray, s), "elbo": np.array(trace)}


def distance(old, new):
    return max(float(jnp.max(jnp.abs(new[f] - old[f]) / (1 + jnp.abs(old[f])), initial=0.0))
               for f in ("beta1_mu", "beta0_mu", "M", "a", "b", "gamma"))


def stationarity(**given):
    s = {name: jnp.asarray(value) for name, value in given.items()}
    return distance(s, sweep(s)[0])


def converge(**given):
    s, best, stalled = {name: jnp.asarray(value) for name, value in given.items()}, math.inf, 0
    for _ in range(20_000):
        old, (s, value) = s, sweep(s)
        residual = distance(old, s)
        best, stalled = min(best, residual), 0 if residual < best else stalled + 1
        if residual < 1e-9 or stalled >= 200:                             # float32: it no longer falls
            break
    return np.asarray(value), residual


update_x, update_omega1, update_omega0, update_z, update_beta1, update_beta0, update_experts = (compiled(f) for f, _ in UPDATES)
OPS = {name: globals()[name] for name in (
    "stick_log_probs stick_counts stick_logits log_cosh_half pg_mean pg_var pg_kl log_sigmoid_normal stick_log_means second_moment "
    "padded_second_moment gaussian_entropy gaussian_kl gamma_mean_log gamma_kl mng_kl categorical_entropy gate_logits output_logits "
    "stick_log_bound update_x update_omega1 update_omega0 update_z update_beta1 update_beta0 update_experts sweeps stationarity converge").split()}
OPS.update({name: compiled(term) for name, term in {**TERMS, "elbo": bound}.items()})
