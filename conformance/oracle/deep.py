"""Networks of S layers: x_0 is read by a gate and experts that make x_1, and so on; the last choice, which reads x_S, makes y.

In loops over rows, experts of two neighbouring layers and sticks, straight from the bound.  A state has beta0 .. betaS (what reads x_0 .. x_S) with their tilts
xi0 .. xiS (rows, experts of the layer below, sticks), and M1 V1 a1 b1 gamma1 mu1 Sigma1 .. of each layer.  x_0 counts as a layer of one expert without spread.
"""

from mpmath import mp, mpf

from level0 import counts, stick_means
from loops import diagonal, dot, inverse, quadratic, times, trace_product, zeros
from network import LOG2PI, coefficients, entropy, gaussian_entropy, gaussian_kl, mng_kl, output_logits, pad, second_moment, stick_bound
from special import digamma, log, log_sum, theta

GLOBAL, LOCAL = ("M", "V", "a", "b"), ("gamma", "mu", "Sigma")
MOVED = ("M", "a", "b", "gamma")


def layers(s):
    return max(l for l in (1, 2, 3) if f"M{l}" in s)


def names(S):
    """The arrays of a state of S layers."""
    return [f"{name}{l}" for l in range(S + 1) for name in (*(GLOBAL + LOCAL if l else ()), *("beta", "xi"))]


def state_names(S):
    return [name for part in names(S) for name in ((f"{part}_mu", f"{part}_S") if part.startswith("beta") else (part,))]


def rows(s):
    return range(len(s["X"]))


# ---- what a layer hands on

def inputs(s, n, l):
    """(weight, mean, covariance) of x_l of row n under each expert of layer l."""
    if l == 0:
        x = s["X"][n]
        return [(mpf(1), x, zeros(len(x), len(x)))]
    return list(zip(s[f"gamma{l}"][n], s[f"mu{l}"][n], s[f"Sigma{l}"][n], strict=True))


def mixed(parts):
    """Mean and covariance of a mixture."""
    m = len(parts[0][1])
    mean = zeros(m)
    for g, mu, _ in parts:
        for i in range(m):
            mean[i] += g * mu[i]
    return mean, spread_of(parts, mean)


def spread_of(parts, mean):
    """That of the experts themselves and the distances between their means."""
    m = len(mean)
    out = zeros(m, m)
    for g, mu, Sigma in parts:
        for i in range(m):
            for j in range(m):
                out[i][j] += g * (Sigma[i][j] + (mu[i] - mean[i]) * (mu[j] - mean[j]))
    return out


def padded(mean, cov):
    """E[x~ x~^T], x~ = [x; 1]."""
    x, m = pad(mean), len(mean)
    return [[x[i] * x[j] + (cov[i][j] if i < m and j < m else 0) for j in range(m + 1)] for i in range(m + 1)]


def chosen(s, n, l):
    """q(z_l) of row n; at l = S + 1 that y is as it is."""
    if l <= layers(s):
        return s[f"gamma{l}"][n]
    return [mpf(1 if c == s["y"][n] else 0) for c in range(len(s[f"beta{l - 1}_mu"]) + 1)]


# ---- what the bound says of neighbours

def logits(s, n, l):
    """E[psi_j] and E[psi_j^2] of the sticks that read x_l, under each of its experts."""
    parts = inputs(s, n, l)
    psi, psi2 = output_logits([[mu for _, mu, _ in parts]], [[Sigma for *_, Sigma in parts]], s[f"beta{l}_mu"], s[f"beta{l}_S"])
    return psi[0], psi2[0]


def choices(s, n, l):
    """T_ck: ln p of choice k given expert c of layer l, at the tilts of the state."""
    psi, psi2 = logits(s, n, l)
    K = len(s[f"beta{l}_mu"]) + 1
    return [[stick_bound(psi[c], psi2[c], s[f"xi{l}"][n][c], *counts([mpf(1 if i == k else 0) for i in range(K)])) for k in range(K)] for c in range(len(psi))]


def curvature(s, l, k):
    """E[A^T diag(tau) A] of expert k of layer l."""
    M, V, a, b = (s[f"{name}{l}"][k] for name in GLOBAL)
    h, D = len(M), len(V)
    out = zeros(D, D)
    for p in range(D):
        for q in range(D):
            out[p][q] = h * V[p][q]
            for i in range(h):
                out[p][q] += a / b[i] * M[i][p] * M[i][q]
    return out


def charge(s, l, k, cov):
    """What the spread of its input costs an expert's density, twice."""
    W = curvature(s, l, k)
    return trace_product([row[:len(cov)] for row in W[:len(cov)]], cov)


def density(s, n, l):
    """E_ck: E ln N(x_l; A_k x~, diag(1/tau_k)) of expert k of layer l, whose input is expert c's below."""
    out = []
    for _, mean, cov in inputs(s, n, l - 1):
        x, row = pad(mean), []
        for k, M in enumerate(s[f"M{l}"]):
            a, b, h = s[f"a{l}"][k], s[f"b{l}"][k], len(M)
            total = -h * quadratic(s[f"V{l}"][k], x) - charge(s, l, k, cov)
            for i in range(h):
                square = (s[f"mu{l}"][n][k][i] - dot(M[i], x)) ** 2 + s[f"Sigma{l}"][n][k][i][i]
                total += digamma(a) - log(b[i]) - LOG2PI() - a / b[i] * square
            row.append(total / 2)
        out.append(row)
    return out


def link(s, n, l):
    """All that is said of expert c of layer l and expert (or class) k of the next."""
    T = choices(s, n, l)
    if l == layers(s):
        return T
    return [[t + e for t, e in zip(*pair, strict=True)] for pair in zip(T, density(s, n, l + 1), strict=True)]


def averaged(s, n, l, table):
    """sum_ck of a table over the experts of layer l and the choices above it."""
    total = mpf(0)
    for (g, *_), row in zip(inputs(s, n, l), table, strict=True):
        total += g * dot(chosen(s, n, l + 1), row)
    return total


# ---- the bound

def term_choice(s, l):
    return sum((averaged(s, n, l, choices(s, n, l)) for n in rows(s)), mpf(0))


def term_density(s, l):
    return sum((averaged(s, n, l - 1, density(s, n, l)) for n in rows(s)), mpf(0))


def term_entropy(s, l):
    total = mpf(0)
    for g, Sigma in zip(s[f"gamma{l}"], s[f"Sigma{l}"], strict=True):
        total += entropy(g) + dot(g, [gaussian_entropy(S) for S in Sigma])
    return total


def scale(s, l):
    """Prior deviation of what reads x_l."""
    return s["sigma1"] if l == layers(s) else s["sigma0"]


def divergence(s):
    total, S = mpf(0), layers(s)
    for l in range(S + 1):
        for mu, cov in zip(s[f"beta{l}_mu"], s[f"beta{l}_S"], strict=True):
            total += gaussian_kl(mu, cov, scale(s, l))
    for l in range(1, S + 1):
        for q in zip(*(s[f"{name}{l}"] for name in GLOBAL), strict=True):
            total += mng_kl(*q, s["v0"], s["a0"], s["b0"])
    return total


def elbo(s):
    S = layers(s)
    total = -divergence(s)
    for l in range(S + 1):
        total += term_choice(s, l)
    for l in range(1, S + 1):
        total += term_density(s, l) + term_entropy(s, l)
    return total


# ---- updates

def update_tilt(s, l):
    return {f"xi{l}": [[[mp.sqrt(v) for v in row] for row in logits(s, n, l)[1]] for n in rows(s)]}


def update_beta(s, l):
    J, D = len(s[f"beta{l}_mu"]), width(s, l) + 1
    gram, linear = zeros(J, D, D), zeros(J, D)
    for n in rows(s):
        b, kappa = counts(chosen(s, n, l + 1))
        for c, (g, mean, cov) in enumerate(inputs(s, n, l)):
            G, x = padded(mean, cov), pad(mean)
            for j in range(J):
                w = g * b[j] * theta(s[f"xi{l}"][n][c][j])
                for p in range(D):
                    linear[j][p] += g * kappa[j] * x[p]
                    for q in range(D):
                        gram[j][p][q] += w * G[p][q]
    fits = [coefficients(gram[j], linear[j], scale(s, l)) for j in range(J)]
    return {f"beta{l}_mu": [mu for mu, _ in fits], f"beta{l}_S": [S for _, S in fits]}


def width(s, l):
    """How many numbers x_l has."""
    return len(s["V1"][0]) - 1 if l == 0 else len(s[f"M{l}"][0])


def update_experts(s, l):
    K, h, D = len(s[f"M{l}"]), len(s[f"M{l}"][0]), width(s, l - 1) + 1
    below = [mixed(inputs(s, n, l - 1)) for n in rows(s)]
    out = {f"{name}{l}": [] for name in GLOBAL}
    for k in range(K):
        P, cross, total = diagonal(D, 1 / s["v0"]), zeros(h, D), mpf(0)
        for n, (mean, cov) in enumerate(below):
            w, G, x = s[f"gamma{l}"][n][k], padded(mean, cov), pad(mean)
            total += w
            for p in range(D):
                for i in range(h):
                    cross[i][p] += w * s[f"mu{l}"][n][k][i] * x[p]
                for q in range(D):
                    P[p][q] += w * G[p][q]
        V = inverse(P)
        M = [times(V, row) for row in cross]
        rates = [s["b0"] + (dot(M[i], M[i]) / s["v0"] + noise(s, l, k, i, M[i], below)) / 2 for i in range(h)]
        for name, value in zip(GLOBAL, (M, V, s["a0"] + total / 2, rates), strict=True):
            out[f"{name}{l}"].append(value)
    return out


def noise(s, l, k, i, m, below):
    """sum_n of the weighted squares about the mean input, with the spread of the latent and of the input."""
    total = mpf(0)
    for n, (mean, cov) in enumerate(below):
        rest = s[f"mu{l}"][n][k][i] - dot(m, pad(mean))
        total += s[f"gamma{l}"][n][k] * (rest ** 2 + s[f"Sigma{l}"][n][k][i][i] + quadratic(cov, m[:-1]))
    return total


def from_below(s, n, l, k):
    """Precision and linear term of the own expert."""
    M, _, a, b = (s[f"{name}{l}"][k] for name in GLOBAL)
    x, h = pad(mixed(inputs(s, n, l - 1))[0]), len(M)
    P = zeros(h, h)
    for i in range(h):
        P[i][i] = a / b[i]
    return P, [a / b[i] * dot(M[i], x) for i in range(h)]


def from_choice(s, n, l, k):
    """Of the sticks that read x_l, with the soft counts of what they chose."""
    m = width(s, l)
    P, eta = zeros(m, m), zeros(m)
    for mu, S, xi, b, kappa in zip(s[f"beta{l}_mu"], s[f"beta{l}_S"], s[f"xi{l}"][n][k], *counts(chosen(s, n, l + 1)), strict=True):
        B, omega = second_moment(mu, S), b * theta(xi)
        for i in range(m):
            eta[i] += kappa * mu[i] - omega * B[i][m]
            for j in range(m):
                P[i][j] += omega * B[i][j]
    return P, eta


def from_experts(s, n, l):
    """Of the experts that read x_l, averaged over which of them it is."""
    m, up = width(s, l), l + 1
    P, eta = zeros(m, m), zeros(m)
    for k, w in enumerate(chosen(s, n, up)):
        M, _, a, b = (s[f"{name}{up}"][k] for name in GLOBAL)
        W = curvature(s, up, k)
        for p in range(m):
            eta[p] -= w * W[p][m]
            for i in range(len(M)):
                eta[p] += w * a / b[i] * s[f"mu{up}"][n][k][i] * M[i][p]
            for q in range(m):
                P[p][q] += w * W[p][q]
    return P, eta


def told(s, n, l, k):
    """Everything that is said to x_l under expert k."""
    said = [from_below(s, n, l, k), from_choice(s, n, l, k)] + ([from_experts(s, n, l)] if l < layers(s) else [])
    m = width(s, l)
    return [[sum((P[i][j] for P, _ in said), mpf(0)) for j in range(m)] for i in range(m)], [sum((eta[i] for _, eta in said), mpf(0)) for i in range(m)]


def update_x(s, l):
    mu, Sigma = [], []
    for n in rows(s):
        pairs = [told(s, n, l, k) for k in range(len(s[f"M{l}"]))]
        Sigma.append([inverse(P) for P, _ in pairs])
        mu.append([times(S, eta) for S, (_, eta) in zip(Sigma[-1], pairs, strict=True)])
    return {f"mu{l}": mu, f"Sigma{l}": Sigma}


def scores(s, n, l):
    """ln gamma up to a constant: the link below, the own entropy, the link above."""
    below, above = link(s, n, l - 1), link(s, n, l)
    weights, up = [g for g, *_ in inputs(s, n, l - 1)], chosen(s, n, l + 1)
    return [dot(weights, [row[k] for row in below]) + gaussian_entropy(S) + dot(up, above[k]) for k, S in enumerate(s[f"Sigma{l}"][n])]


def update_z(s, l):
    out = []
    for n in rows(s):
        values = scores(s, n, l)
        e = [mp.exp(v - max(values)) for v in values]
        out.append([v / sum(e, mpf(0)) for v in e])
    return {f"gamma{l}": out}


UPDATES = {"x": update_x, "z": update_z, "tilt": update_tilt, "beta": update_beta, "experts": update_experts}


# ---- sweeps

def order(S, inner=1):
    up = [(name, l) for l in range(1, S + 1) for name in ("x", "tilt", "z")]
    return [("tilt", 0), *up * inner, *(("beta", l) for l in range(S, -1, -1)), *(("experts", l) for l in range(1, S + 1))]


def sweep(s, inner=1):
    for name, l in order(layers(s), inner):
        s = {**s, **UPDATES[name](s, l)}
    return s


def sweeps(n_sweeps, inner=1, **s):
    bounds = []
    for _ in range(n_sweeps):
        s = sweep(s, inner)
        bounds.append(elbo(s))
    return {**{name: s[name] for name in state_names(layers(s))}, "elbo": bounds}


def flat(value):
    return [x for v in value for x in flat(v)] if isinstance(value, list) else [value]


def residual(old, new):
    moved = [name for name in state_names(layers(old)) if name.endswith("_mu") or name[:-1] in MOVED]
    return max(abs(y - x) / (1 + abs(x)) for name in moved for x, y in zip(flat(old[name]), flat(new[name]), strict=True))


def stationarity(inner=1, **s):
    return {"residual": residual(s, sweep(s, inner))}


def converged(s, tol, marks=(), limit=20000, inner=1):
    """As network.converged: (state, residual, {mark: bound when the residual first fell below it})."""
    passed = {}
    for _ in range(limit):
        new = sweep(s, inner)
        moved, s = residual(s, new), new
        for mark in marks:
            if moved < mark and mark not in passed:
                passed[mark] = elbo(s)
        if moved < tol:
            return s, moved, passed
    raise ArithmeticError(f"no fixed point after {limit} sweeps, residual {mp.nstr(moved, 3)}")


# ---- forecasts by moments

def choice_means(parts, mu, S):
    """ln E[p of each choice] under each expert, its logits Gaussian."""
    psi, psi2 = output_logits([[m for _, m, _ in parts]], [[C for *_, C in parts]], mu, S)
    return [stick_means(p, [max(q - v * v, mpf(0)) for q, v in zip(p2, p, strict=True)]) for p, p2 in zip(psi[0], psi2[0], strict=True)]


def onwards(parts, s, l):
    """The mixture that layer l makes of its input: (weight, mean, covariance) of each expert."""
    table = choice_means(parts, s[f"beta{l - 1}_mu"], s[f"beta{l - 1}_S"])
    mean, cov = mixed(parts)
    G, x, out = padded(mean, cov), pad(mean), []
    for k, (M, V, a, b) in enumerate(zip(*(s[f"{name}{l}"] for name in GLOBAL), strict=True)):
        weight = sum((g * mp.exp(row[k]) for (g, *_), row in zip(parts, table, strict=True)), mpf(0))
        own, h = 1 + trace_product(V, G), len(M)
        Sigma = [[dot(M[i][:-1], times(cov, M[j][:-1])) + (b[i] / (a - 1) * own if i == j else 0) for j in range(h)] for i in range(h)]
        out.append((weight, times(M, x), Sigma))
    return out


def forecast(X, **s):
    S, out = layers(s), []
    for x in X:
        parts = [(mpf(1), x, zeros(len(x), len(x)))]
        for l in range(1, S + 1):
            parts = onwards(parts, s, l)
        table = choice_means(parts, s[f"beta{S}_mu"], s[f"beta{S}_S"])
        out.append([log_sum([log(g) + row[c] for (g, *_), row in zip(parts, table, strict=True)]) for c in range(len(table[0]))])
    return {"log_probs": out}


def forecast_by_means(X, **s):
    """The shortcut: coefficients and latents at their means."""
    flatter = {name: [[[0 * v for v in row] for row in C] for C in value] if name.endswith("_S") else value for name, value in s.items()}
    flatter |= {f"V{l}": [[[0 * v for v in row] for row in C] for C in s[f"V{l}"]] for l in range(1, layers(s) + 1)}
    flatter |= {f"b{l}": [[0 * v for v in row] for row in s[f"b{l}"]] for l in range(1, layers(s) + 1)}
    return forecast(X, **flatter)


# ---- operations

def asked(update, *outputs):
    """An update of layer or link s; its outputs are named without the number."""
    def operation(s, **state):
        found = UPDATES[update](state, s)
        return {name.partition("{}")[0] + name.partition("{}")[2]: found[name.format(s)] for name in outputs}
    return operation


def term(function):
    return lambda s, **state: {"value": function(state, s)}


def moments(gamma, mu, Sigma):
    found = [mixed(list(zip(*row, strict=True))) for row in zip(gamma, mu, Sigma, strict=True)]
    return {"mean": [mean for mean, _ in found], "cov": [cov for _, cov in found]}


OPS = {
    "deep_moments": moments,
    "deep_x": asked("x", "mu{}", "Sigma{}"), "deep_z": asked("z", "gamma{}"), "deep_tilt": asked("tilt", "xi{}"),
    "deep_beta": asked("beta", "beta{}_mu", "beta{}_S"), "deep_experts": asked("experts", "M{}", "V{}", "a{}", "b{}"),
    "deep_elbo_choice": term(term_choice), "deep_elbo_expert": term(term_density), "deep_elbo_entropy": term(term_entropy),
    "deep_kl": lambda **state: {"value": divergence(state)}, "deep_elbo": lambda **state: {"value": elbo(state)},
    "deep_sweeps": sweeps, "deep_stationarity": stationarity, "deep_converge": None, "deep_forecast": forecast,
}
SHORTCUTS = {"deep_forecast": [forecast_by_means]}


def output_sizes(op, state):
    """{letter: size} of what an update answers."""
    s = state.get("s")
    if s is None:
        return {}
    below = s - 1 if op == "deep_experts" else s
    return {"J": len(state[f"beta{s}_mu"]), "K": len(state[f"M{s}"]) if s else 1, "h": width(state, s), "m": width(state, below)}
