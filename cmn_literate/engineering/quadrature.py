# Tangled from book/engineering/quadrature.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Quadrature: few points, many digits

The integral over the latent vector needs a dozen well-placed points per expert, not thousands:
quantiles turn a rule for the normal law into one for Student's t, and each expert gets the
accuracy that its weight asks for.
"""

__all__ = ["stretch_normal", "smoothstep_rule", "hermite_rule", "TIERS", "node_counts",
           "grid_rule", "cubature_rule", "sobol_rule", "antithetic_rule", "tier_grid",
           "graded_rules", "one_rule", "stick_means", "stick_probs", "output_probs",
           "integrate_latents", "RULES", "latent_rules", "class_log_probs_by_expert",
           "class_probs_by_expert", "predict_log_proba", "predict_proba"]


# book/engineering/quadrature.ipynb, cell quadrature-02
from functools import lru_cache

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit

from cmn_literate.checks import check_count, check_parameters, check_X
from cmn_literate.engineering.packed import outer_features, pack_quadratic
from cmn_literate.engineering.row_tables import (
    fill_by_scales, fill_by_tables, shared_integrals, steep_slopes)
from cmn_literate.ideas.expfam import pad
from cmn_literate.ideas.logistic import log_sigmoid_normal
from cmn_literate.ideas.stick_breaking import stick_log_probs
from cmn_literate.network.predict import (
    gate_log_probs, gate_probs, latent_t, output_log_probs)


# book/engineering/quadrature.ipynb, cell quadrature-05
def stretch_normal(z, dof):
    """Student-t quantiles of normal scores: T(z) has a t law if z is normal.
    [eq-pred-stretch]

    z (...) real, dof number > 0 -> (...);  or dof (K,) -> (K, ...)
    Cut at 1e100, which the rules below reach for dof < 0.2 only.
    """
    values, place = np.unique(np.abs(z), return_inverse=True)
    t = np.minimum(-stdtrit(np.asarray(dof)[..., None], ndtr(-values)), 1e100)
    return np.copysign(t[..., place.reshape(np.shape(z))], z)


# book/engineering/quadrature.ipynb, cell quadrature-07
@lru_cache(maxsize=64)
def smoothstep_rule(m):
    """m points and weights for a mean over a standard normal variable.
    [eq-pred-rule, eq-pred-smoothstep]   -> (m,), (m,)"""
    s, w = np.polynomial.legendre.leggauss(m)    # variable 2s - 1 in (-1, 1)
    half = (1 + s[:m // 2]) / 2
    low = ndtri(half**3 * (10 - 15 * half + 6 * half**2))
    z, w = np.concatenate([low, np.zeros(m % 2), -low[::-1]]), w * (1 - s**2)**2
    z.flags.writeable = False                    # the cache shares the arrays
    return z, w / w.sum()                        # the sum is right from m = 3 on


# book/engineering/quadrature.ipynb, cell quadrature-08
def hermite_rule(m):
    """m Gauss-Hermite points and weights: exact for polynomials of a normal
    variable up to degree 2m-1.  [eq-pred-rule]   -> (m,), (m,)"""
    z, w = np.polynomial.hermite_e.hermegauss(m)
    return z, w / w.sum()


# book/engineering/quadrature.ipynb, cell quadrature-15
TIERS = np.array([1, 3, 5, 7, 9, 11, 15, 21, 25, 31, 37, 45, 55, 65, 81, 101, 129,
                  161, 201, 257, 321, 401, 513, 769, 1025])


def node_counts(sharpness, weight, dof=0.0):
    """Points per latent coordinate: of the smoothstep grid, from the list TIERS, or,
    negative, Hermite points.  [eq-pred-sharpness, eq-pred-nodes, eq-pred-hermite]
    sharpness (P,h), weight (P,) of the expert, dof (P,) or a number -> (P,h)
    At most 1025 points for h = 1, 45 per coordinate beyond.
    """
    one = sharpness.shape[1] == 1
    tol, cost, most = (1e-9, 3.0, 1025) if one else (3e-7, 0.5, 45)
    size = weight[:, None] * np.minimum(sharpness, 1) / tol
    digits = np.log10(np.maximum(size, 1e-300))
    points = np.maximum((3 + cost * sharpness) * (digits - 1), 3)
    m = np.where(digits > 0, points, 1)
    m = TIERS[np.searchsorted(TIERS, np.minimum(m, most))]
    normal = (np.reshape(dof, (-1, 1)) >= 100) & (sharpness <= 1) & (m > 5)
    hermite = 2 * np.ceil(1.5 + 0.8 * sharpness * digits).astype(int) - 1
    return np.where(normal, -hermite, m)


# book/engineering/quadrature.ipynb, cell quadrature-19
def grid_rule(rules):
    """All combinations of one-dimensional rules [(z, w), ...], one per coordinate.
    [eq-pred-rule]   -> (Q,h), (Q,)"""
    z, w = (np.stack(np.meshgrid(*part, indexing="ij"), -1).reshape(-1, len(rules))
            for part in zip(*rules))
    return z, w.prod(-1)


def cubature_rule(h):
    """The 2h points +-sqrt(h) e_i, equal weights: exact up to degree 3.
    [eq-pred-rule]   -> (2h,h), (2h,)"""
    z = np.concatenate([np.eye(h), -np.eye(h)])
    return np.sqrt(h) * z, np.full(2 * h, 0.5 / h)


def sobol_rule(h, n):
    """The first n Sobol points as normal scores, equal weights; n is rounded down
    to a power of 2.  [eq-pred-rule]   -> (n,h), (n,)"""
    from scipy.stats import qmc                  # here: it is slow to import
    power = n.bit_length() - 1
    cube = qmc.Sobol(h, scramble=False).random_base2(power) + 0.5**(power + 1)
    return ndtri(cube), np.full(2**power, 0.5**power)


def antithetic_rule(h, n, rng):
    """Normal draws in pairs z, -z, at least n of them, equal weights.
    [eq-pred-rule]   -> (n,h), (n,)"""
    z = rng.normal(size=((n + 1) // 2, h))
    return np.concatenate([z, -z]), np.full(2 * len(z), 0.5 / len(z))


# book/engineering/quadrature.ipynb, cell quadrature-23
@lru_cache(maxsize=256)
def tier_grid(*counts):
    """The smoothstep grid with so many points per coordinate, Hermite points where a
    count is negative; the cache shares it.  [eq-pred-smoothstep]   -> (Q,h), (Q,)"""
    z, w = grid_rule([smoothstep_rule(m) if m > 0 else hermite_rule(-m) for m in counts])
    z.flags.writeable = w.flags.writeable = False
    return z, w


@lru_cache(maxsize=16)
def _table_rules(h):
    """The five rules of the table for h > 2."""
    fine = grid_rule([hermite_rule(3)] * h) if h <= 5 else cubature_rule(h)
    centre, sobol = (np.zeros((1, h)), np.ones(1)), [sobol_rule(h, n) for n in (256, 1024)]
    return centre, cubature_rule(h), fine, *sobol


def graded_rules(sharpness, weight, dof=0.0):
    """Rules of method "auto", and which of them each pair (row, expert) gets.
    [eq-pred-nodes, eq-pred-hermite]
    sharpness (P,h), weight (P,), degrees of freedom (P,) or a number
    -> list of (points (Q,h), weights (Q,)), index (P,)
    """
    h = sharpness.shape[1]
    if h <= 2:
        m = node_counts(sharpness, weight, dof)
        _, first, which = np.unique(m @ [4096, 1][:h], return_index=True, return_inverse=True)
        return [tier_grid(*row) for row in m[first].tolist()], which
    easy = (np.linalg.norm(sharpness, axis=1) <= 3) | (weight < 1e-3)
    which = np.select(
        [weight < 1e-6, weight < 1e-4, easy, weight < 0.03], [0, 1, 2, 3], 4)
    return list(_table_rules(h)), which


def one_rule(method, h, n_nodes, n_draws, rng):
    """The points and weights of a method that treats all experts alike.
    [eq-pred-rule]   -> (Q,h), (Q,)"""
    sizes = {"quadrature": n_nodes or 0, "gauss-hermite": n_nodes or 3}
    size = sizes.get(method, 1)
    most = 300 if method == "gauss-hermite" else 2048    # numpy's weights overflow
    if not 1 <= size <= most or size**h > 2**17:
        raise ValueError(f'n_nodes: method "{method}" with {h} latent dimensions '
                         f"expects n_nodes from 1 to {most}, n_nodes**{h} <= "
                         f"{2**17}, got {n_nodes}")
    if method == "quadrature":
        return grid_rule([smoothstep_rule(size)] * h)
    if method == "gauss-hermite":
        return grid_rule([hermite_rule(size)] * h)
    if method == "cubature":
        return cubature_rule(h)
    if method == "sobol":
        return sobol_rule(h, n_nodes or 1024)
    return antithetic_rule(h, n_draws, rng)


# book/engineering/quadrature.ipynb, cell quadrature-26
def _tail_means(m, v, digits):
    """E sigma(psi) for m <= 0, v <= 4 of one order of size.  [eq-pred-pair, eq-sn-step]

    m, v (P,) -> (P,), relative error below 10^-digits"""
    s, cut = np.sqrt(v), (digits + 1.5) * np.log(10)
    s_max = max(s.max(), 1e-6)
    r = min(np.pi / s_max, np.sqrt(2 * cut))
    h = 2 * np.pi * r / (cut + r**2 / 2)
    q, C, C_before = np.exp(m), np.ones(m.shape), np.cosh(s * h)
    step, slope, base, total = 2 * C_before, 2 * q, 1 - q * q, np.zeros(m.shape)
    u, spare = np.empty(m.shape), np.empty(m.shape)
    for i in range(int((s_max + np.sqrt(2 * cut)) / h) + 2):
        np.add(C, q, out=u)
        np.multiply(u, slope, out=spare)
        spare += base
        u /= spare
        u *= (2 if i else 1) * h * np.exp(-(i * h) ** 2 / 2) / np.sqrt(2 * np.pi)
        total += u
        np.multiply(step, C, out=spare)
        spare -= C_before
        C_before, C, spare = C, spare, C_before
    total *= q
    return total


def _wide_means(u, v, digits):
    """E sigma(psi), psi ~ N(-u, v), for u >= 0 and v > 4: error below 10^-digits, of the
    reflected mean if u > v/2.  [eq-pred-wide, eq-pred-reach, eq-sn-reflect]  (P,) -> (P,)"""
    deep, L = 2 * u > v, digits * np.log(10)
    reach = np.where(v < 2 * L, L + v / 2, np.sqrt(2 * L * v))
    m = np.minimum(np.where(deep, np.abs(v - u), u), reach)
    c = np.pi * (np.sqrt(v) / reach).min()
    h, b = c / np.sqrt(v), np.pi * c / np.sqrt(v.max())
    n = int((np.sqrt(b * b + 2 * c * c * (L + 1)) - b) / c**2) + 1
    turn, sine = 2 * np.cos(m * h), np.sin(m * h)
    grow, down = 2 * np.cosh(np.pi * h), np.sinh(np.pi * h)
    (before, under, spare), total = np.zeros((3, *m.shape)), m / (2 * np.pi)
    for j in range(1, n + 1):
        np.divide(sine, down, out=spare)
        spare *= np.exp(-0.5 * (c * j) ** 2)
        total += spare
        np.multiply(turn, sine, out=spare)
        spare -= before
        before, sine, spare = sine, spare, before
        np.multiply(grow, down, out=spare)
        spare -= under
        under, down, spare = down, spare, under
    total, lift = 0.5 - h * total, np.exp(np.minimum(v / 2 - u, 0.0))
    return np.where(deep, lift * np.where(u > v, 1 - total, total), total)


def stick_means(m, v, digits=12):
    """E sigma(psi) and E sigma(-psi), psi ~ N(m, v), as probabilities.
    [eq-pred-pair]   m, v (P,) -> (P,), (P,); relative accuracy in both tails"""
    u, low = np.abs(m), np.empty(m.shape)
    middle = np.minimum(u, np.abs(v - u))
    hard = (v > 4) & (u < v) & (middle * middle > 22.5 * v)
    few = m.size < 2000 or v.max() <= 1
    edges = (-1.0, 4.0, np.inf) if few else (-1.0, 1.0, 4.0, 25.0, np.inf)
    for bottom, top in zip(edges, edges[1:]):
        some = np.flatnonzero((v > bottom) & (v <= top) & ~hard)
        for start in range(0, some.size, 4096):
            i = some[start:start + 4096]
            low[i] = (_tail_means(-u[i], v[i], digits) if top <= 4
                      else _wide_means(u[i], v[i], digits))
    if hard.any():
        low[hard] = np.exp(log_sigmoid_normal(-u[hard], v[hard], digits))
    high, below = 1 - low, m < 0
    return np.where(below, low, high), np.where(below, high, low)


def stick_probs(mu, S, x, digits=12):
    """Probabilities of a choice by sticks beta_j . x~, beta_j ~ N(mu_j, S_j), to so many
    digits.  [eq-pred-output, eq-pred-pair]
    mu (J,D), S (J,D,D), x (D-1,P) unpadded, points last -> (J+1,P)"""
    P = x.shape[1]
    xt = np.concatenate([x, np.ones((1, P))])
    v = np.maximum(pack_quadratic(S) @ outer_features(xt), 0.0)
    stop, passed = (part.reshape(-1, P) for part in stick_means(
        (mu @ xt).ravel(), v.ravel(), digits))
    G = np.concatenate([stop, np.ones((1, P))])
    for j, part in enumerate(passed, 1):
        G[j:] *= part
    return G


def output_probs(parameters, x1, digits=12):
    """G_c(x1): class probabilities for given x1, beta_1 integrated out, to so many
    digits.  [eq-pred-output]   x1 (h,P), points last -> (L,P)"""
    return stick_probs(parameters.beta1_mu, parameters.beta1_S, x1, digits)


@lru_cache(maxsize=128)
def _stretched(z, h, dof):
    """stretch_normal of points given as bytes, kept for the next rows."""
    return stretch_normal(np.frombuffer(z).reshape(-1, h), dof)


def _points(location, scale, which, rules, dof, expert):
    """Points of pairs (row, expert), end to end: (h,Q), weights (Q,), where the
    points of each pair begin (P,).  [eq-pred-rule, eq-pred-stretch]"""
    cases, case = np.unique(expert * len(rules) + which, return_inverse=True)
    each = [rules[c % len(rules)] for c in cases]
    nu, h = dof[cases // len(rules)].tolist(), location.shape[1]
    t = [_stretched(z.tobytes(), h, v) if z.size <= 8192 else stretch_normal(z, v)
         for (z, _), v in zip(each, nu)]
    sizes = np.array([len(part) for part in t])
    q = sizes[case]
    start, owner = np.cumsum(q) - q, np.repeat(np.arange(len(q)), q)
    at = np.arange(q.sum()) + np.repeat((np.cumsum(sizes) - sizes)[case] - start, q)
    x1 = np.concatenate(t).T.take(at, axis=1)
    x1 *= scale.T.take(owner, axis=1)
    x1 += location.T.take(owner, axis=1)
    return x1, np.concatenate([w for _, w in each]).take(at), start


def _chunks(sizes, order, most=12_000):
    """order cut into stretches of at most so many points, at least one pair."""
    place = (np.cumsum(sizes[order]) - 1) // most
    return np.split(order, np.flatnonzero(np.diff(place)) + 1) if order.size else []


def integrate_latents(parameters, location, scale, dof, expert, rules, which):
    """ln P_kc for pairs (row, expert), each with its own rule.
    [eq-predict, eq-pred-stretch]

    location, scale (P,h), dof (K,), expert (P,) in 0..K-1, rules and which from
    graded_rules -> (P,L) nats
    """
    (P, h), L = location.shape, len(parameters.beta1_mu) + 1
    out, sizes = np.empty((P, L)), np.array([len(w) for _, w in rules])[which]
    for i in _chunks(sizes, np.lexsort((which, expert))):
        x1, w, start = _points(
            location[i], scale[i], which[i], rules, dof, expert[i])
        G = output_probs(parameters, x1, 12 if h == 1 or sizes[i].max() == 1 else 9)
        mean = np.add.reduceat(G * w, start, axis=1)
        if mean.min() > 1e-200:                  # points that underflow do not matter
            out[i] = np.log(mean).T
            continue
        log_g = output_log_probs(parameters, x1.T)
        top = np.maximum.reduceat(log_g, start)
        g = np.exp(log_g - np.repeat(top, sizes[i], axis=0)) * w[:, None]
        out[i] = top + np.log(np.add.reduceat(g, start))
    return out


# book/engineering/quadrature.ipynb, cell quadrature-28
RULES = ("auto", "quadrature", "gauss-hermite", "cubature", "sobol", "monte-carlo", "plug-in")


def latent_rules(parameters, scale, weight, method, n_nodes, n_draws, rng, dof=0.0):
    """Rules for pairs (row, expert), by name.  [eq-pred-sharpness]
    scale (P,h), weight (P,), degrees of freedom (P,) or a number -> rules, index (P,)
    ValueError for an unknown method or a number of points that it cannot use.
    """
    p, h = parameters, scale.shape[1]
    takes_nodes = method in ("quadrature", "gauss-hermite", "sobol")
    if n_nodes is not None and method in RULES and not takes_nodes:
        raise ValueError(f'n_nodes: expected None, method "{method}" chooses its '
                         f"own points, got {n_nodes!r}")
    if method not in RULES[:-1]:
        raise ValueError(f"method: expected one of {', '.join(RULES)}, got {method!r}")
    n_nodes = None if n_nodes is None else check_count(n_nodes, "n_nodes")
    if method == "auto" or method == "quadrature" and h <= 2 and n_nodes is None:
        return graded_rules(_slopes(p).max(0) * scale, weight, dof)
    rng = np.random.default_rng(0 if rng is None else rng)
    one = one_rule(method, h, n_nodes, check_count(n_draws, "n_draws"), rng)
    return [(np.zeros((1, h)), np.ones(1)), one], (weight >= 1e-10).astype(int)


def _slopes(p):
    """Root mean square slope of each stick in each latent.  [eq-pred-sharpness]  -> (J,h)"""
    return np.sqrt(p.beta1_mu**2 + np.diagonal(p.beta1_S, axis1=1, axis2=2))[:, :-1]


def _by_scales(p, location, scale, dof, weight):
    """As _by_tables, for experts that have returned to the prior.  [eq-table-scale]"""
    def integrate(k, scales, w):
        expert, w = np.full(len(scales), k), np.full(len(scales), w)
        rules, which = latent_rules(p, scales, w, "auto", None, 1, None, dof[expert])
        return np.exp(integrate_latents(p, 0 * scales, scales, dof, expert, rules, which))
    P, done = fill_by_scales(integrate, location, scale, weight,
                             1e-10 if scale.shape[2] == 1 else 3e-9)
    return np.log(P[done]) if done.any() else 0.0, done


def _by_tables(p, location, scale, dof, weight):
    """ln P_kc of pairs for which a table pays, and which; weight 0: none.  [eq-table-sum]"""
    n, K, h = location.shape
    tol, digits = (1e-9, 12) if h == 1 else (3e-7, 9)
    points = np.abs(node_counts((_slopes(p).max(0) * scale).reshape(-1, h), weight.ravel(),
                                np.tile(dof, n))).prod(1).reshape(n, K)
    P, done = fill_by_tables(lambda x1: output_probs(p, x1, digits), steep_slopes(p),
                             location, scale, dof, weight, points, tol)
    return np.log(P[done]), done


def class_log_probs_by_expert(parameters, X, method="auto", n_nodes=None,
                              n_draws=1000, rng=None, weight=None):
    """ln P_kc(x): what each expert predicts, latent and weights integrated out.
    [eq-predict]   X (n,d) -> (n,K,L) nats

    Options as in predict_log_proba.  weight (n,K) or a number: how much each
    expert matters, accuracy is spent accordingly; None takes the gate's
    probabilities, 1.0 gives every expert full accuracy.
    """
    p = check_parameters(parameters)
    location, scale, dof = latent_t(p, X)
    if method == "plug-in" and n_nodes is None:
        return stick_log_probs(pad(location) @ p.beta1_mu.T)
    weight = gate_probs(p, X) if weight is None else weight
    weight = np.array(np.broadcast_to(weight, location.shape[:2]), dtype=float)
    size = weight if method == "auto" else np.ones(weight.shape)
    close, near = shared_integrals(p, location, scale, dof, size)
    weight += np.where(close, weight, 0.0) @ np.eye(len(near))[near]
    own, out = ~close, np.empty((*close.shape, len(p.beta1_mu) + 1))
    if len(X) >= 32 and scale.shape[2] <= 2 and n_nodes is None and method in ("auto", "quadrature"):
        for rule in (_by_scales, _by_tables):
            found, done = rule(p, location, scale, dof, np.where(own, weight, 0.0))
            out[done], own = found, own & ~done
    expert = np.nonzero(own)[1]
    rules, which = latent_rules(
        p, scale[own], weight[own], method, n_nodes, n_draws, rng, dof[expert])
    out[own] = integrate_latents(p, location[own], scale[own], dof, expert, rules, which)
    return np.where(close[:, :, None], out[:, near], out)


def class_probs_by_expert(parameters, X, **options):
    """P_kc(x): what each expert predicts.  [eq-predict]
    Options as in class_log_probs_by_expert; X (n,d) -> (n,K,L)"""
    return np.exp(class_log_probs_by_expert(parameters, X, **options))


def predict_log_proba(parameters, X, method="auto", n_nodes=None, n_draws=1000,
                      rng=None):
    """ln p(y = c | x, data), everything uncertain integrated out.  [eq-predict]

    parameters: any object with the eight fields; X (n,d) unpadded -> (n,L) nats
    method  "auto" (grid for h <= 2, graded beyond), "quadrature" (grid; n_nodes
            per coordinate; None, for h <= 2, is "auto"), "gauss-hermite" (n_nodes
            per coordinate, 3), "cubature", "sobol" (n_nodes in all, 1024),
            "monte-carlo" (n_draws latents, rng), "plug-in" (means for everything:
            overconfident)
    rng     Generator or seed of "monte-carlo"; None means seed 0.  The draws are
            shared by the experts and the rows (with a Generator, 4096 rows)
    Absolute error with "auto", on and near the data: 1e-8 for h = 1, about 1e-6 for
    h = 2; beyond, 1e-5 to 5e-3, largest for sharp experts.
    ValueError: fields, X, method, n_nodes or n_draws not as described.
    """
    p = check_parameters(parameters)
    X = check_X(X, n_features=p.M.shape[2] - 1)
    out = np.empty((len(X), len(p.beta1_mu) + 1))
    for start in range(0, len(X), 4096):         # blocks: memory does not grow
        rows = X[start:start + 4096]
        if method == "plug-in":
            gate = stick_log_probs(pad(rows) @ p.beta0_mu.T)
        else:
            gate = stick_probs(p.beta0_mu, p.beta0_S, rows.T).T
            gate = np.log(gate) if gate.min() > 1e-250 else gate_log_probs(p, rows)
        experts = class_log_probs_by_expert(
            p, rows, method, n_nodes, n_draws, rng, np.exp(gate))
        experts += gate[:, :, None]
        top = experts.max(axis=1)
        experts -= top[:, None]
        out[start:start + 4096] = top + np.log(np.exp(experts).sum(axis=1))
    return out


def predict_proba(parameters, X, **options):
    """p(y = c | x, data).  [eq-predict]
    Options as in predict_log_proba; X (n,d) -> (n,L), rows sum to 1"""
    return np.exp(predict_log_proba(parameters, X, **options))
