"""Leaner posteriors: a family of q(x1 | z), and diagonal covariances of coefficients.

Straight from the bound: with the means apart, each free number of a covariance has a condition of its own, and what several Gaussians share has the sum of theirs.
"""

from loops import diagonal, dot, inverse, times, zeros
from mpmath import mpf

# name -> (a Gaussian for each expert, or one for the row; what its covariance may be)
FAMILIES = {"full": (True, "free"), "diagonal": (True, "axes"), "low-rank": (True, "framed"), "shared": (True, "shared"), "class-shared": (True, "by-class"),
            "mean-field": (False, "free"), "mean-field-diagonal": (False, "axes"), "mean-field-shared": (False, "by-class")}
THIN = {"full": (), "diagonal": ("V", "beta0_S", "beta1_S"), "diagonal-inputs": ("V", "beta0_S"), "diagonal-output": ("beta1_S",)}


def chosen(s):
    return s.get("latent_posterior", "full")


def is_thin(s, field):
    return field in THIN[s.get("coefficients", "full")]


def thinned(P):
    """The best diagonal covariance under a precision."""
    out = zeros(len(P), len(P))
    for i, row in enumerate(P):
        out[i][i] = 1 / row[i]
    return out


def along(P, frame, rank):
    """The best covariance that is a block along the first columns of a frame and one number along each of the others."""
    h = len(P)
    column = [[frame[i][j] for i in range(h)] for j in range(h)]
    out = zeros(h, h)

    def add(number, u, v):
        for i in range(h):
            for j in range(h):
                out[i][j] += number * u[i] * v[j]
    if rank:
        block = inverse([[dot(column[i], times(P, column[j])) for j in range(rank)] for i in range(rank)])
        for i in range(rank):
            for j in range(rank):
                add(block[i][j], column[i], column[j])
    for j in range(rank, h):
        add(1 / dot(column[j], times(P, column[j])), column[j], column[j])
    return out


def pooled(weights, matrices):
    """Sum of weighted matrices."""
    h = len(matrices[0])
    out = zeros(h, h)
    for w, P in zip(weights, matrices, strict=True):
        for i in range(h):
            for j in range(h):
                out[i][j] += w * P[i][j]
    return out


def common(weights, matrices, noise):
    """The best covariance of several Gaussians together; without any weight that of the noise alone."""
    total = sum(weights, mpf(0))
    return inverse(pooled([w / total for w in weights], matrices) if total else noise)


def row_gaussian(weights, pairs):
    """One Gaussian in the place of the experts': precisions and linear terms are averaged."""
    h = len(pairs[0][1])
    eta = zeros(h)
    for w, (_, part) in zip(weights, pairs, strict=True):
        for i in range(h):
            eta[i] += w * part[i]
    return pooled(weights, [P for P, _ in pairs]), eta


def mean(P, eta):
    return times(inverse(P), eta)


def latents(s, natural):
    """{"mu", "Sigma"} of the family; natural: (precision, precision times mean) of each row and expert."""
    own, shape = FAMILIES[chosen(s)]
    K, weight = len(s["M"]), s["gamma"]
    if not own:
        natural = [[row_gaussian(g, pairs)] for g, pairs in zip(weight, natural, strict=True)]
        weight = [[mpf(1)] for _ in weight]
    mu = [[mean(P, eta) for P, eta in pairs] for pairs in natural]
    members = {}
    for n in range(len(natural)):
        for k in range(len(natural[n])):
            members.setdefault(group(shape, s["y"], n, k), []).append((n, k))
    Sigma = [[None] * len(pairs) for pairs in natural]
    for place in members.values():
        together = None
        if shape in ("shared", "by-class"):
            k = place[0][1]
            noise = diagonal(len(s["M"][k]), 0)
            for i, rate in enumerate(s["b"][k]):
                noise[i][i] = s["a"][k] / rate
            together = common([weight[n][k] for n, k in place], [natural[n][k][0] for n, k in place], noise)
        for n, k in place:
            P = natural[n][k][0]
            Sigma[n][k] = (together if together is not None else inverse(P) if shape == "free" else
                           along(P, s["frame"][k], s["rank"]) if shape == "framed" else thinned(P))
    return {"mu": [rows * (1 if own else K) for rows in mu], "Sigma": [rows * (1 if own else K) for rows in Sigma]}


def group(shape, y, n, k):
    """Which Gaussians have one covariance."""
    return {"shared": (k,), "by-class": (k, y[n])}.get(shape, (k, n, "own"))
