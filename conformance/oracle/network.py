"""The network, update by update and term by term: levels 1 to 5, in loops, straight from the equations.

A state is a dictionary of nested lists; X has no padding, y counts from 0, b is a rate.  A choice of the profile that changes an update
(tilts, tilt_start, experts, prior_mean, latent_posterior, coefficients) stands in the state under its name; noise is Wishart where the state has nu and U instead of a and b, and the experts
share a mean where it has A0_mu and A0_var; scales are learned where it has lam_mean and lam_shape.
"""

from mpmath import mp, mpf

from level0 import counts
from loops import diagonal, dot, inverse, log_det, quadratic, times, trace, trace_product, zeros
from special import digamma, log, log_gamma, theta, tilt_kl
import lean
import scales
import shared
import wishart

STATE = ("beta1_mu", "beta1_S", "beta0_mu", "beta0_S", "M", "V", "a", "b", "nu", "U", "gamma", "mu", "Sigma", "xi1", "xi0", "A0_mu", "A0_var", "lam_mean", "lam_shape")
LOG2 = lambda: mp.log(2)
LOG2PI = lambda: mp.log(2 * mp.pi)


def pad(x):
    return [*x, mpf(1)]


def second_moment(mu, S):
    return [[S[i][j] + mu[i] * mu[j] for j in range(len(mu))] for i in range(len(mu))]


def padded_second_moment(mu, S):
    E, m = second_moment(mu, S), len(mu)
    return [[*E[i], mu[i]] for i in range(m)] + [[*mu, mpf(1)]]


def labels(y, n_classes):
    """(b, kappa) of each row's output sticks."""
    table = [counts([mpf(1 if c == label else 0) for c in range(n_classes)]) for label in range(n_classes)]
    return [table[label] for label in y]


def tilt1(xi1, n, k):
    """Output tilts of expert k in row n, shared or not."""
    return xi1[n][k] if isinstance(xi1[n][0], list) else xi1[n]


# ---- level 1

def gaussian_entropy(S):
    return mpf(len(S)) / 2 * (1 + LOG2PI()) + log_det(S) / 2


def gaussian_kl(mu, S, sigma, m0=None):
    m, mu = len(mu), mu if m0 is None else [a - b for a, b in zip(mu, m0, strict=True)]
    return ((trace(S) + dot(mu, mu)) / sigma ** 2 - m + 2 * m * log(sigma) - log_det(S)) / 2


def gamma_kl(a, b, a0, b0):
    return (a - a0) * digamma(a) - log_gamma(a) + log_gamma(a0) + a0 * (log(b) - log(b0)) + a * (b0 - b) / b


def mng_kl(M, V, a, b, v0, a0, b0, misfit=lambda i, m: dot(m, m)):
    """KL of one expert: its rows given tau, averaged over tau, then its precisions.  misfit: E|m - prior mean|^2 of row i."""
    total = mpf(0)
    D = len(V)
    spread = trace(V) / v0 - D + D * log(v0) - log_det(V)
    for i, (m, rate) in enumerate(zip(M, b, strict=True)):
        total += (spread + a / rate * misfit(i, m) / v0) / 2
        total += gamma_kl(a, rate, a0, b0)
    return total


def entropy(gamma):
    total = mpf(0)
    for g in gamma:
        if g:
            total -= g * log(g)
    return total


def gate_logits(X, beta0_mu, beta0_S):
    psi, psi2 = [], []
    for x in X:
        xt = pad(x)
        psi.append([dot(m, xt) for m in beta0_mu])
        psi2.append([quadratic(second_moment(m, S), xt) for m, S in zip(beta0_mu, beta0_S, strict=True)])
    return psi, psi2


def output_logits(mu, Sigma, beta1_mu, beta1_S):
    B = [second_moment(m, S) for m, S in zip(beta1_mu, beta1_S, strict=True)]
    psi, psi2 = [], []
    for mu_n, Sigma_n in zip(mu, Sigma, strict=True):
        psi.append([[dot(m, pad(x)) for m in beta1_mu] for x in mu_n])
        psi2.append([[trace_product(Bl, padded_second_moment(x, S)) for Bl in B] for x, S in zip(mu_n, Sigma_n, strict=True)])
    return psi, psi2


def stick_bound(psi, psi2, xi, b, kappa):
    total = mpf(0)
    for p, p2, x, bj, kj in zip(psi, psi2, xi, b, kappa, strict=True):
        total += kj * p
        if bj:
            total -= bj * (LOG2() + theta(x) * p2 / 2 + tilt_kl(x))
    return total


# ---- the profile

def prior_means(s, name):
    """Prior mean of each row of beta_1 or beta_0; None: 0."""
    chosen, (J, D) = s.get("prior_mean", "zero"), (len(s[f"{name}_mu"]), len(s["M"][0]) + 1 if name == "beta1" else len(s["V"][0]))
    if chosen == "centred":
        return [[*[mpf(0)] * (D - 1), -log(mpf(J - j))] for j in range(J)]
    return s[f"{name}_m0"] if chosen == "given" else [None] * J


def at_tilts(s, *updates):
    """The state with the tilts that z, beta1, beta0 and the bound go by; updates: of these."""
    if s.get("tilts", "given") != "given":
        for update in updates:
            s = {**s, **update(s)}
    return s


def pooled(s):
    """The same with one output tilt for all experts, if beta1 goes by that."""
    if s.get("experts", "each") == "each":
        return s
    return {**s, "xi1": [[mp.sqrt(dot(g, [xi[l] ** 2 for xi in table])) for l in range(len(table[0]))]
                         for g, table in zip(s["gamma"], s["xi1"], strict=True)]}


def paired(step, tilts):
    """The update of coefficients; under joint, tilts and coefficients in turn until neither changes."""
    def update(s):
        new = step(at_tilts(s, tilts))
        for _ in range(20000 if s.get("tilts") == "joint" else 0):
            old, new = new, step(at_tilts({**s, **new}, tilts))
            if all(abs(x - y) <= mpf(2) ** (8 - mp.prec) * (1 + abs(x)) for name in new for x, y in zip(flat(old[name]), flat(new[name]), strict=True)):
                break
        return new
    return update


def flat(value):
    return [x for v in value for x in flat(v)] if isinstance(value, list) else [value]


# ---- level 2

def pull(s, k, xt):
    """(precision, precision times mean) of x1 under expert k."""
    M = s["M"][k]
    if "nu" in s:
        P = wishart.mean(s["nu"][k], s["U"][k])
        return P, times(P, times(M, xt))
    tau = [s["a"][k] / rate for rate in s["b"][k]]
    P = zeros(len(M), len(M))
    for i, t in enumerate(tau):
        P[i][i] += t
    return P, [t * dot(m, xt) for t, m in zip(tau, M, strict=True)]


def update_x(s):
    L, h = len(s["beta1_mu"]) + 1, len(s["M"][0])
    B = [second_moment(m, S) for m, S in zip(s["beta1_mu"], s["beta1_S"], strict=True)]
    mu, Sigma, natural = [], [], []
    for n, (b, kappa) in enumerate(labels(s["y"], L)):
        xt = pad(s["X"][n])
        mu_n, Sigma_n, natural_n = [], [], []
        for k in range(len(s["M"])):
            P, eta = pull(s, k, xt)
            for Bl, m, xi, bl, kl in zip(B, s["beta1_mu"], tilt1(s["xi1"], n, k), b, kappa, strict=True):
                omega = bl * theta(xi) if bl else mpf(0)
                for i in range(h):
                    eta[i] += kl * m[i] - omega * Bl[i][h]
                    for j in range(h):
                        P[i][j] += omega * Bl[i][j]
            natural_n.append((P, eta))
            S = inverse(P)
            Sigma_n.append(S)
            mu_n.append(times(S, eta))
        mu.append(mu_n)
        Sigma.append(Sigma_n)
        natural.append(natural_n)
    return {"mu": mu, "Sigma": Sigma} if lean.chosen(s) == "full" else lean.latents(s, natural)


def update_omega1(s):
    _, psi2 = output_logits(s["mu"], s["Sigma"], s["beta1_mu"], s["beta1_S"])
    if not s["xi1"] or isinstance(s["xi1"][0][0], list):
        return {"xi1": [[[mp.sqrt(v) for v in row] for row in table] for table in psi2]}
    out = []
    for g, table in zip(s["gamma"], psi2, strict=True):
        out.append([mp.sqrt(dot(g, [row[l] for row in table])) for l in range(len(table[0]))])
    return {"xi1": out}


def update_omega0(s):
    _, psi2 = gate_logits(s["X"], s["beta0_mu"], s["beta0_S"])
    return {"xi0": [[mp.sqrt(v) for v in row] for row in psi2]}


def output_bounds(s):
    s = at_tilts(s, update_omega1)
    psi, psi2 = output_logits(s["mu"], s["Sigma"], s["beta1_mu"], s["beta1_S"])
    known = labels(s["y"], len(s["beta1_mu"]) + 1)
    return [[stick_bound(psi[n][k], psi2[n][k], tilt1(s["xi1"], n, k), b, kappa) for k in range(len(psi[n]))]
            for n, (b, kappa) in enumerate(known)]


def expert_bounds(s):
    """E[ln N(x1; A x~, diag(1/tau))] of each row and expert."""
    if "nu" in s:
        return wishart.expert_bounds(s)
    out = []
    for n, x in enumerate(s["X"]):
        xt, row = pad(x), []
        for k, M in enumerate(s["M"]):
            a, spread, total = s["a"][k], quadratic(s["V"][k], xt), mpf(0)
            for i, rate in enumerate(s["b"][k]):
                square = (s["mu"][n][k][i] - dot(M[i], xt)) ** 2 + s["Sigma"][n][k][i][i]
                total += (digamma(a) - log(rate) - LOG2PI() - a / rate * square - spread) / 2
            row.append(total)
        out.append(row)
    return out


def latent_entropies(s):
    return [[gaussian_entropy(S) for S in row] for row in s["Sigma"]]


def gate_bounds(s):
    s = at_tilts(s, update_omega0)
    psi, psi2 = gate_logits(s["X"], s["beta0_mu"], s["beta0_S"])
    K = len(s["M"])
    return [[stick_bound(psi[n], psi2[n], s["xi0"][n], *counts([mpf(1 if c == k else 0) for c in range(K)])) for k in range(K)]
            for n in range(len(s["X"]))]


def update_z(s):
    parts = [output_bounds(s), expert_bounds(s), latent_entropies(s), gate_bounds(s)]
    out = []
    for rows in zip(*parts, strict=True):
        scores = [sum(values, mpf(0)) for values in zip(*rows, strict=True)]
        top = max(scores)
        e = [mp.exp(v - top) for v in scores]
        out.append([v / sum(e, mpf(0)) for v in e])
    return {"gamma": out}


def coefficients(gram, linear, sigma, m0=None):
    D = len(gram)
    if m0 is not None:
        linear = [v + m / sigma ** 2 for v, m in zip(linear, m0, strict=True)]
    S = inverse([[gram[i][j] + (1 / sigma ** 2 if i == j else 0) for j in range(D)] for i in range(D)])
    return times(S, linear), S


def precision(gram, sigma):
    return [[v + (1 / sigma ** 2 if i == j else 0) for j, v in enumerate(row)] for i, row in enumerate(gram)]


def spreads(s, field, grams, fits, sigma):
    """Covariances of coefficients: as they are, or the best diagonal ones."""
    return [lean.thinned(precision(gram, s[sigma])) for gram in grams] if lean.is_thin(s, field) else [S for _, S in fits]


def step_beta1(s):
    s = scales.in_force(pooled(s))
    J, h = len(s["beta1_mu"]), len(s["M"][0])
    gram, linear = zeros(J, h + 1, h + 1), zeros(J, h + 1)
    for n, (b, kappa) in enumerate(labels(s["y"], J + 1)):
        for k, g in enumerate(s["gamma"][n]):
            E, x, xi = padded_second_moment(s["mu"][n][k], s["Sigma"][n][k]), pad(s["mu"][n][k]), tilt1(s["xi1"], n, k)
            for l in range(J):
                w = g * b[l] * theta(xi[l]) if b[l] else mpf(0)
                for i in range(h + 1):
                    linear[l][i] += g * kappa[l] * x[i]
                    for j in range(h + 1):
                        gram[l][i][j] += w * E[i][j]
    fits = [coefficients(gram[l], linear[l], s["sigma1"], m0) for l, m0 in enumerate(prior_means(s, "beta1"))]
    return {"beta1_mu": [mu for mu, _ in fits], "beta1_S": spreads(s, "beta1_S", gram, fits, "sigma1")}


def step_beta0(s):
    s = scales.in_force(s)
    K, D = len(s["M"]), len(s["V"][0])
    gram, linear = zeros(K - 1, D, D), zeros(K - 1, D)
    for n, x in enumerate(s["X"]):
        xt = pad(x)
        b, kappa = counts(s["gamma"][n])
        for j in range(K - 1):
            w = b[j] * theta(s["xi0"][n][j])
            for p in range(D):
                linear[j][p] += kappa[j] * xt[p]
                for q in range(D):
                    gram[j][p][q] += w * xt[p] * xt[q]
    fits = [coefficients(gram[j], linear[j], s["sigma0"], m0) for j, m0 in enumerate(prior_means(s, "beta0"))]
    return {"beta0_mu": [mu for mu, _ in fits], "beta0_S": spreads(s, "beta0_S", gram, fits, "sigma0")}


def update_experts(s):
    s = scales.in_force(s)
    K, h, D = len(s["M"]), len(s["M"][0]), len(s["V"][0])
    out = {"M": [], "V": []} | ({"nu": [], "U": []} if "nu" in s else {"a": [], "b": []})
    padded = [pad(x) for x in s["X"]]
    for k in range(K):
        P, cross, total = diagonal(D, 1 / s["v0"]), [[v / s["v0"] for v in shared.centre(s, i)] for i in range(h)], mpf(0)
        for n, xt in enumerate(padded):
            g = s["gamma"][n][k]
            total += g
            for p in range(D):
                for i in range(h):
                    cross[i][p] += g * s["mu"][n][k][i] * xt[p]
                for q in range(D):
                    P[p][q] += g * xt[p] * xt[q]
        V = inverse(P)
        M = [times(V, row) for row in cross]
        out["M"].append(M)
        out["V"].append(lean.thinned(P) if lean.is_thin(s, "V") else V)
        if "nu" in s:
            out["nu"].append(s["nu0"] + total)
            out["U"].append(wishart.spread(s, k, M))
            continue
        rates = []
        for i in range(h):
            squares = shared.misfit(s, i, M[i]) / s["v0"]
            for n, xt in enumerate(padded):
                squares += s["gamma"][n][k] * ((s["mu"][n][k][i] - dot(M[i], xt)) ** 2 + s["Sigma"][n][k][i][i])
            rates.append(s["b0"] + squares / 2)
        out["a"].append(s["a0"] + total / 2)
        out["b"].append(rates)
    return out


def update_shared(s):
    return shared.update(scales.in_force(s))


def update_scales(s):
    return scales.update(s, prior_means(s, "beta0"), prior_means(s, "beta1"))


# ---- level 3

def weighted(s, table):
    total = mpf(0)
    for g, row in zip(s["gamma"], table, strict=True):
        total += dot(g, row)
    return total


def kl_beta1(s):
    s = scales.in_force(s)
    return sum((gaussian_kl(m, S, s["sigma1"], m0) for m, S, m0 in zip(s["beta1_mu"], s["beta1_S"], prior_means(s, "beta1"), strict=True)), mpf(0))


def kl_beta0(s):
    s = scales.in_force(s)
    return sum((gaussian_kl(m, S, s["sigma0"], m0) for m, S, m0 in zip(s["beta0_mu"], s["beta0_S"], prior_means(s, "beta0"), strict=True)), mpf(0))


def kl_experts(s):
    s = scales.in_force(s)
    if "nu" in s:
        return sum((wishart.expert_kl(*q, s["v0"], s["nu0"], s["U0"]) for q in zip(s["M"], s["V"], s["nu"], s["U"], strict=True)), mpf(0))
    return sum((mng_kl(*q, s["v0"], s["a0"], s["b0"], lambda i, m: shared.misfit(s, i, m)) for q in zip(s["M"], s["V"], s["a"], s["b"], strict=True)), mpf(0))


TERMS = {
    "elbo_output": lambda s: weighted(s, output_bounds(s)),
    "elbo_expert": lambda s: weighted(s, expert_bounds(s)),
    "elbo_latent_entropy": lambda s: weighted(s, latent_entropies(s)),
    "elbo_gate": lambda s: weighted(s, gate_bounds(s)),
    "elbo_assignment_entropy": lambda s: sum((entropy(g) for g in s["gamma"]), mpf(0)),
    "kl_beta1": kl_beta1, "kl_beta0": kl_beta0, "kl_experts": kl_experts, "kl_shared": shared.kl, "kl_scales": scales.kl,
}
ONLY_WITH = {"kl_shared": "A0_mu", "kl_scales": "lam_mean"}


def elbo(s):
    there = {name: term for name, term in TERMS.items() if ONLY_WITH.get(name, "M") in s}
    return sum((term(s) * (-1 if name.startswith("kl") else 1) for name, term in there.items()), mpf(0))


# ---- levels 4 and 5

UPDATES = {"x": update_x, "omega1": update_omega1, "omega0": update_omega0, "z": update_z,
           "beta1": paired(step_beta1, update_omega1), "beta0": paired(step_beta0, update_omega0), "experts": update_experts, "shared": update_shared, "scales": update_scales}


def order_of(order, inner):
    local, top = ["x", "omega1"] * inner + ["omega0", "z"], ["beta1", "beta0", "experts"]
    return local + top if order == "canonical" else top + local


def steps(s, *choices):
    """The updates of a sweep from this state: first of all scales that are learned, then the mean that the experts share, if there is any."""
    return ["scales"] * scales.learned(s) + ["shared"] * ("A0_mu" in s) + order_of(*choices)


def zeros_like(value):
    return [zeros_like(v) for v in value] if isinstance(value, list) else mpf(0)


def sweep(s, order="canonical", inner=1):
    for i, name in enumerate(names := steps(s, order, inner)):
        if i == names.index("x") and s.get("tilt_start") == "restarted":
            s = {**s, "xi1": zeros_like(s["xi1"])}
        s = {**s, **UPDATES[name](s)}
    return s


def sweeps(n_sweeps, order="canonical", inner=1, **s):
    trace_of = []
    for _ in range(n_sweeps):
        s = sweep(s, order, inner)
        trace_of.append(elbo(s))
    return {**{name: s[name] for name in STATE if name in s}, "elbo": trace_of}


def residual(old, new):
    def pairs(x, y):
        if isinstance(x, list):
            for u, v in zip(x, y, strict=True):
                yield from pairs(u, v)
        else:
            yield abs(y - x) / (1 + abs(x))
    return max(r for name in ("beta1_mu", "beta0_mu", "M", "a", "b", "nu", "U", "gamma", "A0_mu", "lam_mean") if name in old for r in pairs(old[name], new[name]))


def stationarity(order="canonical", inner=1, **s):
    return {"residual": residual(s, sweep(s, order, inner))}


def converged(s, tol, marks=(), limit=20000, order="canonical", inner=1):
    """(state, residual, {mark: bound when the residual first fell below it}) of sweeps until it is below tol."""
    passed = {}
    for _ in range(limit):
        new = sweep(s, order, inner)
        moved, s = residual(s, new), new
        for mark in marks:
            if moved < mark and mark not in passed:
                passed[mark] = elbo(s)
        if moved < tol:
            return s, moved, passed
    raise ArithmeticError(f"no fixed point after {limit} sweeps, residual {mp.nstr(moved, 3)}")


def whole(function):
    return lambda **s: function(s)


def value(function):
    return lambda **s: {"value": function(**s)}


def columns(*rows):
    return zip(*rows, strict=True)


OPS = {
    "second_moment": value(second_moment),
    "padded_second_moment": value(padded_second_moment),
    "gaussian_entropy": value(gaussian_entropy),
    "gaussian_kl": value(gaussian_kl),
    "wishart_mean_log_det": lambda nu, U: {"value": [wishart.mean_log_det(*q) for q in columns(nu, U)]},
    "wishart_kl": lambda nu, U, nu0, U0: {"value": [wishart.kl(*q, nu0, U0) for q in columns(nu, U)]},
    "mnw_kl": lambda M, V, nu, U, v0, nu0, U0: {"value": [wishart.expert_kl(*q, v0, nu0, U0) for q in columns(M, V, nu, U)]},
    "gamma_mean_log": lambda a, b: {"value": [digamma(x) - log(y) for x, y in columns(a, b)]},
    "gamma_kl": lambda a, b, a0, b0: {"value": [gamma_kl(x, y, a0, b0) for x, y in columns(a, b)]},
    "mng_kl": lambda M, V, a, b, v0, a0, b0: {"value": [mng_kl(*q, v0, a0, b0) for q in columns(M, V, a, b)]},
    "categorical_entropy": lambda gamma: {"value": [entropy(g) for g in gamma]},
    "gate_logits": lambda **q: dict(zip(("psi", "psi2"), gate_logits(**q), strict=True)),
    "output_logits": lambda **q: dict(zip(("psi", "psi2"), output_logits(**q), strict=True)),
    "stick_log_bound": lambda psi, psi2, xi, b, kappa: {"value": [stick_bound(*row) for row in columns(psi, psi2, xi, b, kappa)]},
    **{f"update_{name}": whole(update) for name, update in UPDATES.items()},
    **{name: (lambda term: lambda **s: {"value": term(s)})(term) for name, term in (*TERMS.items(), ("elbo", elbo))},
    "sweeps": sweeps,
    "stationarity": stationarity,
}
