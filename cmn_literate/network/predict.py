# Tangled from book/network/predict.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Prediction: integrate everything that is uncertain

A prediction of the fitted network integrates over the weights, the expert, the noise and the
latent vector. Nearly all of it happens in closed form or in one-dimensional integrals. Only the
latent vector needs a quadrature rule, and plugging in means instead is overconfident.
"""

__all__ = ["check_parameters", "logit_moments", "gate_log_probs", "gate_probs", "latent_t",
           "output_log_probs", "stretch_normal", "smoothstep_rule", "hermite_rule", "TIERS",
           "node_counts", "grid_rule", "cubature_rule", "sobol_rule", "antithetic_rule",
           "graded_rules", "one_rule", "integrate_latents", "twin_experts", "METHODS",
           "latent_rules", "class_log_probs_by_expert", "class_probs_by_expert",
           "predict_log_proba", "predict_proba", "sample_parameters", "point_posterior"]


# book/network/predict.ipynb, cell predict-02
from functools import lru_cache
from types import SimpleNamespace

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri, stdtrit

from cmn_literate.network.experts import row_quadratic
from cmn_literate.ideas.logistic import stick_log_means
from cmn_literate.network.simulate import Theta
from cmn_literate.checks import check_X, check_count, real_array
from cmn_literate.ideas.expfam import pad
from cmn_literate.ideas.stick_breaking import stick_log_probs


# book/network/predict.ipynb, cell predict-05
def check_parameters(parameters):
    """Global factors of q, checked: any object with the eight fields below
    -> namespace of float64 arrays.  [eq-pred-factors]

    beta1_mu (L-1,h+1), beta1_S (L-1,h+1,h+1), beta0_mu (K-1,D), beta0_S (K-1,D,D),
    M (K,h,D), V (K,D,D), a (K,), b (K,h);  D = d+1
    ValueError names the field that is missing, not an array of real numbers, has
    the wrong shape, is not finite or, for a and b, not positive.
    """
    names = ("beta1_mu", "beta1_S", "beta0_mu", "beta0_S", "M", "V", "a", "b")
    missing = [name for name in names if not hasattr(parameters, name)]
    if missing:
        raise ValueError(f"parameters: expected the fields {', '.join(names)}; "
                         f"a {type(parameters).__name__} has no {missing[0]}")
    p = SimpleNamespace()
    for name in names:
        setattr(p, name, real_array(getattr(parameters, name), name))
    if p.M.ndim != 3 or p.beta1_mu.ndim != 2 or not p.beta1_mu.size:
        raise ValueError("M, beta1_mu: expected 3 and 2 axes and a stick, "
                         f"got shapes {p.M.shape} and {p.beta1_mu.shape}")
    (K, h, D), J = p.M.shape, len(p.beta1_mu)
    shapes = {"beta1_mu": (J, h + 1), "beta1_S": (J, h + 1, h + 1), "V": (K, D, D),
              "beta0_mu": (K - 1, D), "beta0_S": (K - 1, D, D), "a": (K,),
              "b": (K, h)}
    for name, value in vars(p).items():
        if value.shape != shapes.get(name, value.shape):
            raise ValueError(f"{name}: expected shape {shapes[name]} for "
                             f"K={K}, h={h}, D={D}, got {value.shape}")
        if not np.isfinite(value).all() or name in "ab" and not (value > 0).all():
            positive = " positive" if name in "ab" else ""
            raise ValueError(f"{name}: expected finite{positive} numbers")
    return p


# book/network/predict.ipynb, cell predict-10
def logit_moments(X, mu, S):
    """Mean and variance of every logit beta_j . x~, beta_j ~ N(mu_j, S_j).
    [eq-pred-logit]   X (n,D-1) unpadded, mu (J,D), S (J,D,D) -> (n,J), (n,J)"""
    return pad(X) @ mu.T, np.maximum(row_quadratic(X, S), 0.0)


def gate_log_probs(parameters, X):
    """ln w_k(x): log-probability of each expert at a row, beta_0 integrated out.
    [eq-pred-gate]   X (n,d) -> (n,K) nats"""
    p = check_parameters(parameters)
    X = check_X(X, n_features=p.M.shape[2] - 1)
    return stick_log_means(*logit_moments(X, p.beta0_mu, p.beta0_S))


def gate_probs(parameters, X):
    """w_k(x): probability of each expert at each row, beta_0 integrated out.
    [eq-pred-gate]   X (n,d) -> (n,K), rows sum to 1"""
    return np.exp(gate_log_probs(parameters, X))


# book/network/predict.ipynb, cell predict-14
def latent_t(parameters, X):
    """Law of x1 given each expert, A and tau integrated out: independent Student t
    per coordinate.  [eq-pred-t]

    X (n,d) -> location (n,K,h), scale (n,K,h), degrees of freedom (K,)
    """
    p = check_parameters(parameters)
    X = check_X(X, n_features=p.M.shape[2] - 1)
    location = np.einsum("kid,nd->nki", p.M, pad(X))
    spread = 1 + np.maximum(row_quadratic(X, p.V), 0.0)
    return location, np.sqrt(spread[:, :, None] * p.b / p.a[:, None]), 2 * p.a


# book/network/predict.ipynb, cell predict-17
def output_log_probs(parameters, x1):
    """ln G_c(x1): log class probabilities for given x1, beta_1 integrated out.
    [eq-pred-output]   x1 (..., h) -> (..., L) nats"""
    rows = x1.reshape(-1, x1.shape[-1])
    log_probs = stick_log_means(
        *logit_moments(rows, parameters.beta1_mu, parameters.beta1_S))
    return log_probs.reshape(x1.shape[:-1] + (-1,))


# book/network/predict.ipynb, cell predict-24
def stretch_normal(z, dof):
    """Student-t quantiles of normal scores: T(z) has a t law if z is normal.
    [eq-pred-stretch]

    z (...) real, dof number > 0 -> (...);  or dof (K,) -> (K, ...)
    Cut at 1e100, which the rules below reach for dof < 0.2 only.
    """
    values, place = np.unique(np.abs(z), return_inverse=True)
    t = np.minimum(-stdtrit(np.asarray(dof)[..., None], ndtr(-values)), 1e100)
    return np.copysign(t[..., place.reshape(np.shape(z))], z)


# book/network/predict.ipynb, cell predict-27
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


def hermite_rule(m):
    """m Gauss-Hermite points and weights: exact for polynomials of a normal
    variable up to degree 2m-1.  [eq-pred-rule]   -> (m,), (m,)"""
    z, w = np.polynomial.hermite_e.hermegauss(m)
    return z, w / w.sum()


# book/network/predict.ipynb, cell predict-33
TIERS = np.array([1, 3, 5, 7, 9, 11, 15, 21, 25, 31, 37, 45, 55, 65, 81, 101, 129,
                  161, 201, 257, 321, 401, 513, 769, 1025])


def node_counts(sharpness, weight):
    """Points per latent coordinate of the smoothstep grid, from the list TIERS.
    [eq-pred-sharpness, eq-pred-nodes]

    sharpness (P,h), weight (P,) of the expert -> (P,h)
    At most 1025 points for h = 1, 45 per coordinate beyond.
    """
    one = sharpness.shape[1] == 1
    tol, cost, most = (1e-9, 3.0, 1025) if one else (3e-7, 0.5, 45)
    size = weight[:, None] * np.minimum(sharpness, 1) / tol
    digits = np.log10(np.maximum(size, 1e-300))
    points = np.maximum((3 + cost * sharpness) * (digits - 1), 3)
    m = np.where(digits > 0, points, 1)
    return TIERS[np.searchsorted(TIERS, np.minimum(m, most))]


# book/network/predict.ipynb, cell predict-35
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


# book/network/predict.ipynb, cell predict-36
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


# book/network/predict.ipynb, cell predict-40
def graded_rules(sharpness, weight):
    """Rules of method "auto", and which of them each pair (row, expert) gets.
    [eq-pred-nodes]

    sharpness (P,h), weight (P,)
    -> list of (points (Q,h), weights (Q,)), index (P,)
    """
    h = sharpness.shape[1]
    if h <= 2:
        counts, which = np.unique(
            node_counts(sharpness, weight), axis=0, return_inverse=True)
        return [grid_rule([smoothstep_rule(int(m)) for m in row])
                for row in counts], which.ravel()
    centre = np.zeros((1, h)), np.ones(1)
    fine = grid_rule([hermite_rule(3)] * h) if h <= 5 else cubature_rule(h)
    easy = (np.linalg.norm(sharpness, axis=1) <= 3) | (weight < 1e-3)
    which = np.select(
        [weight < 1e-6, weight < 1e-4, easy, weight < 0.03], [0, 1, 2, 3], 4)
    sobol = [sobol_rule(h, n) for n in (256, 1024)]
    return [centre, cubature_rule(h), fine, *sobol], which


# book/network/predict.ipynb, cell predict-41
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


# book/network/predict.ipynb, cell predict-44
def integrate_latents(parameters, location, scale, dof, expert, rules, which):
    """ln P_kc for pairs (row, expert), each with its own rule.
    [eq-predict, eq-pred-stretch]

    location, scale (P,h), dof (K,), expert (P,) in 0..K-1, rules and which from
    graded_rules -> (P,L) nats
    """
    out = np.empty((len(location), len(parameters.beta1_mu) + 1))
    for r, (z, w) in enumerate(rules):
        pairs = np.flatnonzero(which == r)
        if not pairs.size:
            continue
        t, step = stretch_normal(z, dof), max(1, 12_000 // len(w))
        for start in range(0, pairs.size, step):
            i = pairs[start:start + step]
            x1 = location[i, None] + scale[i, None] * t[expert[i]]
            log_g = output_log_probs(parameters, x1)
            top = log_g.max(1)
            g = np.exp(log_g - top[:, None])
            out[i] = top + np.log(np.einsum("q,pqc->pc", w, g))
    return out


# book/network/predict.ipynb, cell predict-46
def twin_experts(parameters, tol=1e-9):
    """First expert with the integrals of expert k: equal M, V, a, b, relative to
    1 + size and tol.  [eq-pred-factors]   -> (K,)"""
    p = parameters
    K = len(p.a)
    flat = np.concatenate(
        [p.a[:, None], p.b, p.M.reshape(K, -1), p.V.reshape(K, -1)], axis=1)
    first = np.arange(K)
    for k in range(1, K):
        close = np.abs(flat[:k] - flat[k]) <= tol * (1 + np.abs(flat[k]))
        same = np.all(close, axis=1)
        first[k] = first[np.argmax(same)] if same.any() else k
    return first


# book/network/predict.ipynb, cell predict-47
METHODS = ("auto", "quadrature", "gauss-hermite", "cubature", "sobol",
           "monte-carlo", "plug-in")


def latent_rules(parameters, scale, weight, method, n_nodes, n_draws, rng):
    """Rules for pairs (row, expert), by name.  [eq-pred-sharpness]

    scale (P,h), weight (P,) -> rules, index (P,)
    ValueError for an unknown method or a number of points that it cannot use.
    """
    p, h = parameters, scale.shape[1]
    takes_nodes = method in ("quadrature", "gauss-hermite", "sobol")
    if n_nodes is not None and method in METHODS and not takes_nodes:
        raise ValueError(f'n_nodes: expected None, method "{method}" chooses its '
                         f"own points, got {n_nodes!r}")
    if method not in METHODS[:-1]:
        expected = ", ".join(METHODS)
        raise ValueError(f"method: expected one of {expected}, got {method!r}")
    n_nodes = None if n_nodes is None else check_count(n_nodes, "n_nodes")
    if method == "auto" or method == "quadrature" and h <= 2 and n_nodes is None:
        square = p.beta1_mu**2 + np.diagonal(p.beta1_S, axis1=1, axis2=2)
        return graded_rules(np.sqrt(square).max(0)[:h] * scale, weight)
    rng = np.random.default_rng(0 if rng is None else rng)
    one = one_rule(method, h, n_nodes, check_count(n_draws, "n_draws"), rng)
    return [(np.zeros((1, h)), np.ones(1)), one], (weight >= 1e-10).astype(int)


# book/network/predict.ipynb, cell predict-48
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
    n, K, h = location.shape
    kept, place = np.unique(twin_experts(p), return_inverse=True)
    R = len(kept)
    weight = gate_probs(p, X) if weight is None else weight
    weight = np.broadcast_to(weight, (n, K))
    shared = [weight[:, place == r].sum(1) for r in range(R)]   # twins share work
    location, scale = (v[:, kept].reshape(-1, h) for v in (location, scale))
    rules, which = latent_rules(
        p, scale, np.stack(shared, 1).ravel(), method, n_nodes, n_draws, rng)
    out = integrate_latents(
        p, location, scale, dof[kept], np.tile(np.arange(R), n), rules, which)
    return out.reshape(n, R, out.shape[1])[:, place]


# book/network/predict.ipynb, cell predict-49
def class_probs_by_expert(parameters, X, **options):
    """P_kc(x): what each expert predicts.  [eq-predict]
    Options as in class_log_probs_by_expert; X (n,d) -> (n,K,L)"""
    return np.exp(class_log_probs_by_expert(parameters, X, **options))


# book/network/predict.ipynb, cell predict-51
def predict_log_proba(parameters, X, method="auto", n_nodes=None, n_draws=1000,
                      rng=None):
    """ln p(y = c | x, data), everything uncertain integrated out.  [eq-predict]

    parameters: a State, Parameters or any object with those eight fields.
    X (n,d) unpadded -> (n,L) nats
    method  "auto" (grid for h <= 2, graded beyond), "quadrature" (grid; n_nodes
            per coordinate; None, for h <= 2, is "auto"), "gauss-hermite" (n_nodes
            per coordinate, 3), "cubature", "sobol" (n_nodes in all, 1024),
            "monte-carlo" (n_draws latents, rng), "plug-in" (means for everything:
            overconfident)
    rng     Generator or seed of "monte-carlo"; None means seed 0.  The draws are
            shared by the experts and the rows (with a Generator, 4096 rows)
    Absolute error of the probabilities with "auto", on and near the data: 1e-8 for
    h = 1, about 1e-6 for h = 2; beyond, 1e-5 to 5e-3, largest for sharp experts.
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
            gate = gate_log_probs(p, rows)
        experts = class_log_probs_by_expert(
            p, rows, method, n_nodes, n_draws, rng, np.exp(gate))
        out[start:start + 4096] = logsumexp(gate[:, :, None] + experts, axis=1)
    return out


# book/network/predict.ipynb, cell predict-52
def predict_proba(parameters, X, **options):
    """p(y = c | x, data).  [eq-predict]
    Options as in predict_log_proba; X (n,d) -> (n,L), rows sum to 1"""
    return np.exp(predict_log_proba(parameters, X, **options))


# book/network/predict.ipynb, cell predict-59
def sample_parameters(parameters, rng, n_draws):
    """Independent draws of Theta from q.  [eq-mng]

    -> Theta with a leading axis S = n_draws: beta1 (S,L-1,h+1), beta0 (S,K-1,d+1),
       A (S,K,h,d+1), tau (S,K,h) precisions
    """
    p, S = check_parameters(parameters), check_count(n_draws, "n_draws")

    def noise(covariance, *rows):           # N(0, covariance_j), (S, J, *rows, D)
        values, vectors = np.linalg.eigh(covariance)
        scaled = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        root = scaled @ vectors.swapaxes(1, 2)       # signs of vectors cancel
        z = rng.normal(size=(S, len(root), *rows, root.shape[-1]))
        return np.einsum("jde,sj...e->sj...d", root, z)
    tau = rng.gamma(p.a[:, None], 1 / p.b, size=(S, *p.b.shape))
    A = p.M + noise(p.V, p.M.shape[1]) / np.sqrt(tau)[..., None]
    beta1 = p.beta1_mu + noise(p.beta1_S)
    return Theta(beta1, p.beta0_mu + noise(p.beta0_S), A, tau)


# book/network/predict.ipynb, cell predict-63
def point_posterior(theta):
    """A single Theta as parameters of q without uncertainty: predict_proba of it
    is the likelihood p(y|x,Theta).  [eq-pred-likelihood]

    theta: beta1 (L-1,h+1), beta0 (K-1,d+1), A (K,h,d+1), tau (K,h)
    -> namespace with the eight fields
    """
    beta1, beta0, A, tau = (np.asarray(part, dtype=float) for part in theta)
    zeros = [np.zeros(part.shape + part.shape[-1:]) for part in (beta1, beta0)]
    a = np.full(len(A), 1e12)
    return SimpleNamespace(
        beta1_mu=beta1, beta1_S=zeros[0], beta0_mu=beta0, beta0_S=zeros[1], M=A,
        V=np.zeros((len(A),) + A.shape[2:] * 2), a=a, b=a[:, None] / tau)
