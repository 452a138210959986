"""Fused code in the manner of Jaakkola and Jordan, as the paper's program has it, in NumPy: levels 0 to 6 but for the likelihood.

    python -m cmn_conformance run --adapter conformance/adapters/jaakkola_jordan.py

No tilt is stored between updates: beta_1, beta_0, z and the bound find theirs from the moments that come in (tilts: fresh), the rounds of (x, omega1) start at
tilts 0 in every sweep (tilt_start: restarted) and are eight (inner: 8), beta_1 pools the experts after an E-step of each (experts: pooled), the sticks
are centred (prior_mean: centred), and the noise of an expert may be a full matrix (noise: wishart). PROFILE says so, and with it the answers are right. The functions
know the other choices as well; PROFILE = EVERYTHING asks for all of them.
"""

import math

import numpy as np
from numpy_minimal import gamma_kl, log_cosh_half, pg_kl, pg_var, stick_log_bound, stick_logits  # noqa: F401  asked as they are
from numpy_minimal import (categorical_entropy, digamma, gamma_mean_log, gate_logits, gaussian_entropy, gaussian_kl, lgamma, log_det, log_sigmoid,
                           log_sigmoid_normal, mng_kl, output_logits, pad, padded_second_moment, second_moment, stick_counts, tilt_kl, trace)

NAME, VERSION = "Jaakkola and Jordan", "1"
PROFILE = {"tilts": "fresh", "tilt_start": "restarted", "inner": 8, "experts": ["pooled", "each"], "prior_mean": ["centred", "zero"],
           "noise": ["wishart", "gamma"]}
EVERYTHING = {"tilts": ["given", "fresh", "joint"], "tilt_start": ["kept", "restarted"], "inner": [1, 2, 3, 8], "experts": ["each", "pooled"],
              "prior_mean": ["zero", "centred", "given"], "noise": ["gamma", "wishart"], "omega1": ["per-component", "shared"],
              "order": ["canonical", "m-first"]}

erfc = np.vectorize(math.erfc, otypes=[float])

# ---- levels 0 and 1: what the plain adapter does not have, or has otherwise


def theta(xi):
    """Twice lambda(xi) of Jaakkola and Jordan."""
    xi = np.maximum(np.abs(xi), 1e-150)
    return np.tanh(xi / 2) / (2 * xi)


def pg_mean(b, c):
    return b * theta(c)


def walk(stop, go):
    zero = np.zeros(stop.shape[:-1] + (1,))
    return np.concatenate([zero, np.cumsum(go, -1)], -1) + np.concatenate([stop, zero], -1)


def stick_log_probs(psi):
    return walk(log_sigmoid(psi), log_sigmoid(-psi))


def log_mean_sigmoid(m, v):
    """ln E sigma(psi), psi ~ N(m, v); a wide Gaussian by trapezoids over a logistic e, as sigma(psi) is the probability of e < psi."""
    wide, out = v > 300, log_sigmoid_normal(m, np.where(v > 300, 0.0, v))
    e = np.arange(-40, 40.25, 0.25)
    below = erfc((e - m[wide][:, None]) / np.sqrt(2 * v[wide][:, None])) / 2
    out[wide] = np.log(np.maximum((below / (16 * np.cosh(e / 2) ** 2)).sum(-1), 1e-300))
    return out


def stick_log_means(m, v):
    return walk(log_mean_sigmoid(m, v), log_mean_sigmoid(-m, v))


def wishart_mean_log_det(nu, U):
    h = U.shape[-1]
    return digamma((nu[:, None] - np.arange(h)) / 2).sum(-1) + h * math.log(2) - log_det(U)


def log_gamma_h(x, h):
    return h * (h - 1) / 4 * math.log(math.pi) + lgamma(np.subtract.outer(np.asarray(x, float), np.arange(h) / 2)).sum(-1)


def wishart_kl(nu, U, nu0, U0):
    h = U.shape[-1]
    log_dets = nu * log_det(U) - nu0 * log_det(U0) - (nu - nu0) * h * math.log(2)
    total = (nu - nu0) * wishart_mean_log_det(nu, U) + nu * (trace(np.linalg.solve(U, U0 + 0 * U)) - h) + log_dets
    return total / 2 - log_gamma_h(nu / 2, h) + log_gamma_h(nu0 / 2, h)


def mnw_kl(M, V, nu, U, v0, nu0, U0):
    h, D = M.shape[1:]
    rows = h * (trace(V) / v0 - D + D * math.log(v0) - log_det(V))
    means = nu * trace(np.linalg.solve(U, M @ M.swapaxes(1, 2))) / v0
    return (rows + means) / 2 + wishart_kl(nu, U, nu0, U0)


# ---- the choices


def noise(s):
    """Mean precision of each expert (K,h,h) and the mean of its log determinant (K,)."""
    if "nu" in s:
        return s["nu"][:, None, None] * np.linalg.inv(s["U"]), wishart_mean_log_det(s["nu"], s["U"])
    tau = s["a"][:, None] / s["b"]
    return tau[:, :, None] * np.eye(tau.shape[1]), gamma_mean_log(s["a"][:, None], s["b"]).sum(-1)


def prior_means(s, name, profile):
    like = s[f"{name}_mu"]
    if profile["prior_mean"] == "given":
        return s[f"{name}_m0"]
    centre = np.zeros_like(like)
    if profile["prior_mean"] == "centred":
        centre[:, -1] = -np.log(np.arange(len(like), 0, -1))
    return centre


def output_tilts(s, profile):
    """(N,K,L-1), or (N,1,L-1) if one serves all experts."""
    xi1 = s["xi1"] if profile["tilts"] == "given" else update_omega1(**s)
    return xi1 if xi1.ndim == 3 else xi1[:, None]


def gate_tilts(s, profile):
    return s["xi0"] if profile["tilts"] == "given" else update_omega0(**s)


def paired(step):
    """Under joint the update is repeated, with tilts from its own result, until that stays."""
    def update(profile, **s):
        new, rounds = step(s, profile), 5000 if profile["tilts"] == "joint" else 0
        for _ in range(rounds):
            old, new = new, step({**s, **new}, profile)
            if all(np.allclose(new[name], old[name], rtol=1e-13, atol=1e-13) for name in new):
                break
        return new
    return update


# ---- level 2


def tosses(y, n_sticks):
    """b and kappa of the labels, (N,1,L-1)."""
    b, kappa = stick_counts(np.eye(n_sticks + 1)[y])
    return b[:, None], kappa[:, None]


def update_x(X, y, beta1_mu, beta1_S, M, xi1, **s):
    h, (coins, kappa) = M.shape[1], tosses(y, len(beta1_mu))
    omega, B, Lambda = coins * theta(xi1 if xi1.ndim == 3 else xi1[:, None]), second_moment(beta1_mu, beta1_S), noise(s)[0]
    P = Lambda + np.einsum("nkl,lij->nkij", omega, B[:, :h, :h])
    eta = np.einsum("kij,kjd,nd->nki", Lambda, M, pad(X)) + kappa @ beta1_mu[:, :h] - np.einsum("nkl,li->nki", omega, B[:, :h, h])
    Sigma = np.linalg.inv(P)
    return {"mu": np.einsum("nkij,nkj->nki", Sigma, eta), "Sigma": (Sigma + Sigma.swapaxes(-1, -2)) / 2}


def update_omega1(mu, Sigma, beta1_mu, beta1_S, gamma, xi1, **_):
    square = output_logits(mu, Sigma, beta1_mu, beta1_S)[1]
    return np.sqrt(square if xi1.ndim == 3 else np.einsum("nk,nkl->nl", gamma, square))


def update_omega0(X, beta0_mu, beta0_S, **_):
    return np.sqrt(gate_logits(X, beta0_mu, beta0_S)[1])


def update_z(profile, **s):
    score = output_bound(s, profile) + expert_bound(s) + gaussian_entropy(s["Sigma"]) + gate_bound(s, profile)
    gamma = np.exp(score - score.max(-1, keepdims=True))
    return gamma / gamma.sum(-1, keepdims=True)


def posterior(gram, linear, sigma, centre):
    S = np.linalg.inv(gram + np.eye(gram.shape[-1]) / sigma**2)
    return np.einsum("jde,je->jd", S, linear + centre / sigma**2), S


def step_beta1(s, profile):
    gamma, (coins, kappa), E = s["gamma"], tosses(s["y"], len(s["beta1_mu"])), padded_second_moment(s["mu"], s["Sigma"])
    xi = output_tilts(s, profile)
    if profile["experts"] == "pooled":
        xi = np.sqrt(np.einsum("nk,nkl->nl", gamma, xi**2 + 0 * gamma[:, :, None]))[:, None]
    gram = np.einsum("nk,nkl,nkde->lde", gamma, coins * theta(xi) + 0 * gamma[:, :, None], E)
    linear = np.einsum("nl,nk,nkd->ld", kappa[:, 0], gamma, pad(s["mu"]))
    return dict(zip(("beta1_mu", "beta1_S"), posterior(gram, linear, s["sigma1"], prior_means(s, "beta1", profile))))


def step_beta0(s, profile):
    (reach, kappa), Xt = stick_counts(s["gamma"]), pad(s["X"])
    gram = np.einsum("nj,nd,ne->jde", reach * theta(gate_tilts(s, profile)), Xt, Xt)
    return dict(zip(("beta0_mu", "beta0_S"), posterior(gram, kappa.T @ Xt, s["sigma0"], prior_means(s, "beta0", profile))))


update_beta1, update_beta0 = paired(step_beta1), paired(step_beta0)


def update_experts(X, gamma, mu, Sigma, v0, **s):
    Xt, total = pad(X), gamma.sum(0)
    V = np.linalg.inv(np.einsum("nk,nd,ne->kde", gamma, Xt, Xt) + np.eye(Xt.shape[1]) / v0)
    M = np.einsum("nk,nki,nd,kde->kie", gamma, mu, Xt, V)
    r = mu - np.einsum("kid,nd->nki", M, Xt)
    M = M + (np.einsum("nk,nki,nd->kid", gamma, r, Xt) - M / v0) @ V      # a second pass: all digits of large inputs
    r = mu - np.einsum("kid,nd->nki", M, Xt)
    square = np.einsum("nk,nkij->kij", gamma, r[..., :, None] * r[..., None, :] + Sigma) + M @ M.swapaxes(1, 2) / v0
    if "nu" in s:
        return {"M": M, "V": V, "nu": s["nu0"] + total, "U": s["U0"] + square}
    return {"M": M, "V": V, "a": s["a0"] + total / 2, "b": s["b0"] + np.einsum("kii->ki", square) / 2}


# ---- level 3


def output_bound(s, profile):
    coins, kappa = tosses(s["y"], len(s["beta1_mu"]))
    return stick_log_bound(*output_logits(s["mu"], s["Sigma"], s["beta1_mu"], s["beta1_S"]), output_tilts(s, profile), coins, kappa)


def expert_bound(s):
    Xt, (Lambda, log_dets), h = pad(s["X"]), noise(s), s["mu"].shape[-1]
    r = s["mu"] - np.einsum("kid,nd->nki", s["M"], Xt)
    square = np.einsum("kij,nkij->nk", Lambda, r[..., :, None] * r[..., None, :] + s["Sigma"])
    return (log_dets - h * math.log(2 * math.pi) - square - h * np.einsum("nd,kde,ne->nk", Xt, s["V"], Xt)) / 2


def gate_bound(s, profile):
    psi, psi2 = gate_logits(s["X"], s["beta0_mu"], s["beta0_S"])
    xi = gate_tilts(s, profile)
    cost = math.log(2) + theta(xi) * psi2 / 2 + tilt_kl(xi)
    return walk(psi / 2 - cost, -psi / 2 - cost)


def elbo_output(profile, **s):
    return (s["gamma"] * output_bound(s, profile)).sum()


def elbo_expert(**s):
    return (s["gamma"] * expert_bound(s)).sum()


def elbo_latent_entropy(gamma, Sigma, **_):
    return (gamma * gaussian_entropy(Sigma)).sum()


def elbo_gate(profile, **s):
    return (s["gamma"] * gate_bound(s, profile)).sum()


def elbo_assignment_entropy(gamma, **_):
    return categorical_entropy(gamma).sum()


def kl_beta1(profile, **s):
    return gaussian_kl(s["beta1_mu"] - prior_means(s, "beta1", profile), s["beta1_S"], s["sigma1"]).sum()


def kl_beta0(profile, **s):
    return gaussian_kl(s["beta0_mu"] - prior_means(s, "beta0", profile), s["beta0_S"], s["sigma0"]).sum()


def kl_experts(**s):
    names, divergence = (("nu", "U", "v0", "nu0", "U0"), mnw_kl) if "nu" in s else (("a", "b", "v0", "a0", "b0"), mng_kl)
    return divergence(s["M"], s["V"], *(s[name] for name in names)).sum()


def elbo(profile, **s):
    gains = elbo_output(profile, **s) + elbo_expert(**s) + elbo_latent_entropy(**s) + elbo_gate(profile, **s) + elbo_assignment_entropy(**s)
    return gains - kl_beta1(profile, **s) - kl_beta0(profile, **s) - kl_experts(**s)


# ---- levels 4 and 5


def e_step(s, profile):
    """Rounds of (x, omega1), from tilts 0 if they are restarted; then omega0 and z."""
    s = {**s, "xi1": 0 * s["xi1"]} if profile["tilt_start"] == "restarted" else s
    for _ in range(profile["inner"]):
        s = {**s, **update_x(**s)}
        s = {**s, "xi1": update_omega1(**s)}
    s = {**s, "xi0": update_omega0(**s)}
    return {**s, "gamma": update_z(profile, **s)}


def m_step(s, profile):
    for update in (update_beta1, update_beta0):
        s = {**s, **update(profile, **s)}
    return {**s, **update_experts(**s)}


def sweep(s, profile):
    steps = (e_step, m_step) if profile["order"] == "canonical" else (m_step, e_step)
    for step in steps:
        s = step(s, profile)
    return s


def sweeps(n_sweeps, profile, **s):
    trail = []
    for _ in range(n_sweeps):
        s = sweep(s, profile)
        trail.append(elbo(profile, **s))
    return {**s, "elbo": np.array(trail)}


def distance(old, new):
    names = [name for name in ("beta1_mu", "beta0_mu", "M", "a", "b", "nu", "U", "gamma") if name in old]
    return max(np.max(np.abs(new[name] - old[name]) / (1 + np.abs(old[name])), initial=0.0) for name in names)


def stationarity(profile, **s):
    return distance(s, sweep(s, profile))


def converge(profile, **s):
    for _ in range(20_000):
        old, s = s, sweep(s, profile)
        if distance(old, s) < 1e-9:
            break
    return elbo(profile, **s), stationarity(profile, **s)


# ---- level 6


def latent_rule(k, read, h, s):
    """Nodes (n,m) and weights (n,) of x1 about its mean, in units of sqrt(1 + x~^T V x~), in the m directions read.

    A Student t by trapezoids in w, u = sinh w; of an h-dimensional t each coordinate given the earlier ones is a t of one degree more.
    """
    m = len(read)
    if "nu" in s:
        dofs, root = s["nu"][k] - h + 1 + np.arange(m), np.linalg.cholesky(s["U"][k][np.ix_(read, read)] / (s["nu"][k] - h + 1))
    else:
        dofs, root = np.full(m, 2 * s["a"][k]), np.diag(np.sqrt(s["b"][k][read] / s["a"][k]))
    sides, weight = [], np.ones(())
    for dof in dofs:
        w = np.arange(-(2 + 25 / dof), 2 + 25 / dof, 1 / 8)
        height = np.exp(lgamma((dof + 1) / 2) - lgamma(dof / 2)) / np.sqrt(dof * math.pi) * (1 + np.sinh(w) ** 2 / dof) ** (-(dof + 1) / 2)
        sides.append(np.sinh(w))
        weight = weight[..., None] * (height * np.cosh(w) / 8)
    u = np.stack(np.meshgrid(*sides, indexing="ij"), -1).reshape(-1, m) if m else np.zeros((1, 0))
    if "nu" in s:
        for i in range(1, m):
            u[:, i] *= np.sqrt((dofs[0] + (u[:, :i] ** 2).sum(1)) / dofs[i])
    kept = weight.ravel() > 1e-13
    return u[kept] @ root.T, weight.ravel()[kept]


def predict(X, beta1_mu, beta1_S, beta0_mu, beta0_S, M, V, **s):
    h, Xt = M.shape[1], pad(X)
    read = np.flatnonzero(np.any(beta1_mu[:, :h], 0) | np.any(beta1_S[:, :h, :h].diagonal(0, 1, 2), 0))
    if len(read) > 2:
        raise NotImplementedError("three latent dimensions or more would take too many nodes")
    gate = stick_log_means(Xt @ beta0_mu.T, np.einsum("nd,jde,ne->nj", Xt, beta0_S, Xt))
    out = np.full((len(X), len(beta1_mu) + 1), -np.inf)
    for k in range(len(M)):
        nodes, weights = latent_rule(k, read, h, s)
        for n, xt in enumerate(Xt):
            x1 = np.tile(M[k] @ xt, (len(nodes), 1))
            x1[:, read] += math.sqrt(1 + xt @ V[k] @ xt) * nodes
            logs = stick_log_means(pad(x1) @ beta1_mu.T, np.einsum("nd,jde,ne->nj", pad(x1), beta1_S, pad(x1)))
            out[n] = np.logaddexp(out[n], gate[n, k] + np.logaddexp.reduce(logs + np.log(weights)[:, None], 0))
    return out
