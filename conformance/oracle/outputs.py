"""Other outputs at the end of the network: measured numbers Y = B x1~ + noise, and counts, negative binomial by one Polya-Gamma coin.

In loops, straight from the bound.  A state has, in the place of beta_1 and xi1, either W W_V W_a W_b, the matrix-normal-gamma q(B, rho), or C_mu C_S xi, the
coin's coefficients and tilts; its data Y (N, p), or counts (N) with their size.  Gate and experts are those of the plain model.
"""

from mpmath import mp, mpf

import network
from integrals import WORK, expectation, normal_rule, t_rule
from level0 import stick_means
from loops import dot, inverse, quadratic, times, trace_product, zeros
from network import LOG2, LOG2PI, coefficients, entropy, gaussian_kl, mng_kl, pad, padded_second_moment, second_moment
from special import digamma, log, log_gamma, log_sigmoid, log_sum, theta, tilt_kl

GLOBAL = ("beta0_mu", "beta0_S", "M", "V", "a", "b")
OWN = {"gaussian": ("W", "W_V", "W_a", "W_b"), "counts": ("C_mu", "C_S", "xi")}
LOCAL = ("gamma", "mu", "Sigma", "xi0")
MOVED = ("W", "W_a", "W_b", "C_mu", "beta0_mu", "M", "a", "b", "gamma")


def kind(s):
    return "gaussian" if "W" in s else "counts"


def names(s):
    return [*OWN[kind(s)], *GLOBAL, *LOCAL]


# ---- what the output says of x1

def tosses(y, size):
    """(b, kappa, constant) of one count."""
    return y + size, (y - size) / 2, log_gamma(y + size) - log_gamma(size) - log_gamma(y + 1)


def pull(s, n, k):
    """Precision and linear term that y_n adds to x1 under expert k."""
    h = len(s["M"][0])
    P, eta = zeros(h, h), zeros(h)
    if kind(s) == "counts":
        b, kappa, _ = tosses(s["counts"][n], s["size"])
        omega, E = b * theta(s["xi"][n][k]), second_moment(s["C_mu"], s["C_S"])
        for i in range(h):
            eta[i] += kappa * s["C_mu"][i] - omega * E[i][h]
            for j in range(h):
                P[i][j] += omega * E[i][j]
        return P, eta
    for y, w, rate in zip(s["Y"][n], s["W"], s["W_b"], strict=True):
        sure = s["W_a"] / rate
        for i in range(h):
            eta[i] += sure * w[i] * (y - w[h]) - s["W_V"][i][h]
            for j in range(h):
                P[i][j] += sure * w[i] * w[j] + s["W_V"][i][j]
    return P, eta


def update_x(s):
    mu, Sigma = [], []
    for n, x in enumerate(s["X"]):
        mu_n, Sigma_n = [], []
        for k in range(len(s["M"])):
            P, eta = network.pull(s, k, pad(x))
            Q, more = pull(s, n, k)
            S = inverse([[u + v for u, v in zip(*rows, strict=True)] for rows in zip(P, Q, strict=True)])
            Sigma_n.append(S)
            mu_n.append(times(S, [u + v for u, v in zip(eta, more, strict=True)]))
        mu.append(mu_n)
        Sigma.append(Sigma_n)
    return {"mu": mu, "Sigma": Sigma}


def update_tilt(s):
    """Of counts; a measured number has none."""
    if kind(s) == "gaussian":
        return {}
    E = second_moment(s["C_mu"], s["C_S"])
    return {"xi": [[mp.sqrt(trace_product(E, padded_second_moment(*q))) for q in zip(*row, strict=True)] for row in zip(s["mu"], s["Sigma"], strict=True)]}


# ---- the bound

def output_bound(s, n, k):
    """E ln p(y_n | x1) of expert k, or the bound of it at the tilts of the state."""
    mu, Sigma = s["mu"][n][k], s["Sigma"][n][k]
    G = padded_second_moment(mu, Sigma)
    if kind(s) == "counts":
        b, kappa, constant = tosses(s["counts"][n], s["size"])
        xi, psi2 = s["xi"][n][k], trace_product(second_moment(s["C_mu"], s["C_S"]), G)
        return kappa * dot(s["C_mu"], pad(mu)) - b * (LOG2() + theta(xi) * psi2 / 2 + tilt_kl(xi)) + constant
    total = mpf(0)
    for y, w, rate in zip(s["Y"][n], s["W"], s["W_b"], strict=True):
        square = (y - dot(w, pad(mu))) ** 2 + quadratic(Sigma, w[:-1])
        total += (digamma(s["W_a"]) - log(rate) - LOG2PI() - s["W_a"] / rate * square - trace_product(s["W_V"], G)) / 2
    return total


def output_bounds(s):
    return [[output_bound(s, n, k) for k in range(len(s["M"]))] for n in range(len(s["X"]))]


def divergence(s):
    if kind(s) == "counts":
        return gaussian_kl(s["C_mu"], s["C_S"], s["sigma1"])
    return mng_kl(s["W"], s["W_V"], s["W_a"], s["W_b"], s["v1"], s["a1"], s["b1"])


def elbo(s):
    total = network.weighted(s, output_bounds(s)) + network.weighted(s, network.expert_bounds(s)) + network.weighted(s, network.latent_entropies(s))
    total += network.weighted(s, network.gate_bounds(s)) + sum((entropy(g) for g in s["gamma"]), mpf(0))
    return total - divergence(s) - network.kl_beta0(s) - network.kl_experts(s)


# ---- the other updates

def update_z(s):
    parts = [output_bounds(s), network.expert_bounds(s), network.latent_entropies(s), network.gate_bounds(s)]
    out = []
    for rows in zip(*parts, strict=True):
        scores = [sum(values, mpf(0)) for values in zip(*rows, strict=True)]
        e = [mp.exp(v - max(scores)) for v in scores]
        out.append([v / sum(e, mpf(0)) for v in e])
    return {"gamma": out}


def update_output(s):
    h = len(s["M"][0])
    if kind(s) == "counts":
        gram, linear = zeros(h + 1, h + 1), zeros(h + 1)
        for n, y in enumerate(s["counts"]):
            b, kappa, _ = tosses(y, s["size"])
            for k, g in enumerate(s["gamma"][n]):
                G, x, w = padded_second_moment(s["mu"][n][k], s["Sigma"][n][k]), pad(s["mu"][n][k]), b * theta(s["xi"][n][k])
                for i in range(h + 1):
                    linear[i] += g * kappa * x[i]
                    for j in range(h + 1):
                        gram[i][j] += g * w * G[i][j]
        mu, S = coefficients(gram, linear, s["sigma1"])
        return {"C_mu": mu, "C_S": S}
    m = len(s["W"])
    P, cross, total = zeros(h + 1, h + 1), zeros(m, h + 1), mpf(0)
    for i in range(h + 1):
        P[i][i] += 1 / s["v1"]
    for n, y in enumerate(s["Y"]):
        for k, g in enumerate(s["gamma"][n]):
            G, x = padded_second_moment(s["mu"][n][k], s["Sigma"][n][k]), pad(s["mu"][n][k])
            total += g
            for i in range(h + 1):
                for j in range(m):
                    cross[j][i] += g * y[j] * x[i]
                for j in range(h + 1):
                    P[i][j] += g * G[i][j]
    V = inverse(P)
    W = [times(V, row) for row in cross]
    return {"W": W, "W_V": V, "W_a": s["a1"] + total / 2, "W_b": [s["b1"] + (dot(w, w) / s["v1"] + misfit(s, j, w)) / 2 for j, w in enumerate(W)]}


def misfit(s, j, w):
    """sum_nk gamma_nk E(y_nj - w . x1~)^2 over q(x1 | z), w fixed."""
    total = mpf(0)
    for n, y in enumerate(s["Y"]):
        for k, g in enumerate(s["gamma"][n]):
            total += g * ((y[j] - dot(w, pad(s["mu"][n][k]))) ** 2 + quadratic(s["Sigma"][n][k], w[:-1]))
    return total


UPDATES = {"x": update_x, "tilt": update_tilt, "omega0": network.update_omega0, "z": update_z, "output": update_output, "beta0": network.step_beta0,
           "experts": network.update_experts}
ORDER = list(UPDATES)


def sweep(s):
    for name in ORDER:
        s = {**s, **UPDATES[name](s)}
    return s


def sweeps(n_sweeps, **s):
    trace = []
    for _ in range(n_sweeps):
        s = sweep(s)
        trace.append(elbo(s))
    return {**{name: s[name] for name in names(s)}, "elbo": trace}


def residual(old, new):
    moved = [name for name in MOVED if name in old]
    return max(abs(y - x) / (1 + abs(x)) for name in moved for x, y in zip(flat(old[name]), flat(new[name]), strict=True))


def flat(value):
    return [x for v in value for x in flat(v)] if isinstance(value, list) else [value]


def converged(s, tol, marks=(), limit=20000):
    """As network.converged: (state, residual, {mark: bound when the residual first fell below it})."""
    passed = {}
    for _ in range(limit):
        new = sweep(s)
        moved, s = residual(s, new), new
        for mark in marks:
            if moved < mark and mark not in passed:
                passed[mark] = elbo(s)
        if moved < tol:
            return s, moved, passed
    raise ArithmeticError(f"no fixed point after {limit} sweeps, residual {mp.nstr(moved, 3)}")


# ---- forecasts

def log_student(r, scale, dof):
    """ln density at r of scale times Student's t; for huge dof the difference of the two lnGamma needs digits."""
    with mp.workdps(mp.dps + 25):
        return log_gamma((dof + 1) / 2) - log_gamma(dof / 2) - log(dof) / 2 - mp.log(mp.pi) / 2 - log(scale) - (dof + 1) / 2 * log(1 + (r / scale) ** 2 / dof)


def at_latent(s, y, x, z=None):
    """ln p(y | x1, data): Student t of each column, or at node z of the logit's law."""
    x = pad(x)
    if "W" in s:
        wide = 1 + quadratic(s["W_V"], x)
        return sum((log_student(v - dot(w, x), mp.sqrt(wide * rate / s["W_a"]), 2 * s["W_a"]) for v, w, rate in zip(y, s["W"], s["W_b"], strict=True)), mpf(0))
    psi = dot(s["C_mu"], x) + mp.sqrt(quadratic(s["C_S"], x)) * z
    return tosses(y, s["size"])[2] + y * log_sigmoid(psi) + s["size"] * log_sigmoid(-psi)


def told(s):
    return s["Y"] if "W" in s else s["counts"]


def given_latent(x1, coarse=False, **s):
    """ln p(y_n | x1_n, data) at given latent vectors."""
    if "W" in s:
        return {"log_density": [at_latent(s, y, x) for y, x in zip(told(s), x1, strict=True)]}
    with mp.workdps(WORK):
        return {"log_density": [expectation([normal_rule], lambda z, y=y, x=x: [at_latent(s, y, x, z[0])], coarse, 1e-7)[0] for y, x in zip(told(s), x1, strict=True)]}


def given_latent_by_means(x1, **s):
    """The shortcut: coefficients, and precisions, at their means."""
    if "W" in s:
        return {"log_density": [sum(((log(s["W_a"] / rate) - LOG2PI() - s["W_a"] / rate * (v - dot(w, pad(x))) ** 2) / 2
                                     for v, w, rate in zip(y, s["W"], s["W_b"], strict=True)), mpf(0)) for y, x in zip(told(s), x1, strict=True)]}
    return {"log_density": [at_latent(s, y, x, mpf(0)) for y, x in zip(told(s), x1, strict=True)]}


def gate(s, x):
    xt = pad(x)
    return stick_means([dot(m, xt) for m in s["beta0_mu"]], [quadratic(S, xt) for S in s["beta0_S"]])


def density(X, coarse=False, **s):
    """ln p(y_n | x_n, data), everything integrated out; the latent vector has one direction that the output reads."""
    with mp.workdps(WORK):
        out = []
        for x, y in zip(X, told(s), strict=True):
            experts = []
            for k, M in enumerate(s["M"]):
                location, wide = times(M, pad(x)), mp.sqrt(1 + quadratic(s["V"][k], pad(x)))

                def logs(u, k=k, y=y, location=location, wide=wide):
                    at = [m + wide * mp.sqrt(rate / s["a"][k]) * v for m, rate, v in zip(location, s["b"][k], u, strict=False)]
                    return [at_latent(s, y, at, *u[len(location):])]
                rules = [t_rule(2 * s["a"][k]) for _ in location] + [normal_rule] * ("W" not in s)
                close, left = (1e-7, 1e-13) if "W" in s else (1e-5, 1e-10)             # halving squares the error
                experts.append(expectation(rules, logs, coarse, close, left)[0])
            out.append(log_sum([g + e for g, e in zip(gate(s, x), experts, strict=True)]))
        return {"log_density": out}


def density_by_means(X, **s):
    out = []
    for x, y in zip(X, told(s), strict=True):
        experts = [at_latent(s, y, times(M, pad(x)), mpf(0)) for M in s["M"]]
        out.append(log_sum([g + e for g, e in zip(gate(s, x), experts, strict=True)]))
    return {"log_density": out}


def moments(X, **s):
    """Mean and variance of Y given x: expert by expert, then of the mixture."""
    mean, var = [], []
    for x in X:
        weights, xt, table = [mp.exp(g) for g in gate(s, x)], pad(x), []
        for k, M in enumerate(s["M"]):
            at, wide = times(M, xt), 1 + quadratic(s["V"][k], xt)
            spread = [wide * rate / (s["a"][k] - 1) for rate in s["b"][k]]
            blur = 1 + quadratic(s["W_V"], pad(at)) + sum((s["W_V"][i][i] * v for i, v in enumerate(spread)), mpf(0))
            table.append([(dot(w, pad(at)), sum((w[i] ** 2 * v for i, v in enumerate(spread)), mpf(0)) + blur * rate / (s["W_a"] - 1))
                          for w, rate in zip(s["W"], s["W_b"], strict=True)])
        columns = [list(column) for column in zip(*table, strict=True)]
        means = [dot(weights, [m for m, _ in column]) for column in columns]
        mean.append(means)
        var.append([dot(weights, [v + (m - c) ** 2 for m, v in column]) for c, column in zip(means, columns, strict=True)])
    return {"mean": mean, "var": var}


def moments_by_means(X, **s):
    """The shortcut: a gate at its means."""
    return moments(X, **{**s, "beta0_S": [[[0 * v for v in row] for row in S] for S in s["beta0_S"]]})


# ---- operations

def value(function):
    return lambda **s: {"value": function(s)}


def whole_pull(**s):
    table = [[pull(s, n, k) for k in range(len(s["M"]))] for n in range(len(s["X"]))]
    return {"Lambda": [[P for P, _ in row] for row in table], "eta": [[eta for _, eta in row] for row in table]}


OPS = {
    "out_student": lambda r, scale, dof: {"value": [log_student(*q) for q in zip(r, scale, dof, strict=True)]},
    "out_pull": whole_pull,
    **{f"out_{name}": (lambda update: lambda **s: update(s))(UPDATES[name]) for name in ("x", "tilt", "z", "output")},
    "out_elbo_output": value(lambda s: network.weighted(s, output_bounds(s))), "out_kl": value(divergence), "out_elbo": value(elbo),
    "out_sweeps": sweeps, "out_stationarity": lambda **s: {"residual": residual(s, sweep(s))}, "out_converge": None,
    "out_given_latent": given_latent, "out_moments": moments, "out_density": density,
}
SHORTCUTS = {"out_given_latent": [given_latent_by_means], "out_moments": [moments_by_means], "out_density": [density_by_means]}
COARSE = ("out_given_latent", "out_density")


def sizes(s):
    """{letter: size} that a state without rows does not show."""
    return {"d": len(s["V"][0]) - 1, "h": len(s["M"][0]), "K": len(s["M"]), "p": len(s.get("W", ()))} if "V" in s else {"p": len(s.get("W", ()))}
