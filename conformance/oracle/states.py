"""States and data to ask about: random multiples of powers of two, so that float32 reads them without an error."""

import random
from math import prod

PAPER = {"v0": 10, "a0": 2, "b0": 1, "sigma0": 5, "sigma1": 5}
OTHER = {"v0": 3, "a0": 1.5, "b0": 0.75, "sigma0": 2, "sigma1": 1.25}     # no two alike


def grid(rng, low, high, parts):
    """A multiple of 1/parts between low and high."""
    return rng.randint(round(low * parts), round(high * parts)) / parts


def fill(shape, one):
    return one() if not shape else [fill(shape[1:], one) for _ in range(shape[0])]


def covariance(rng, m, scale):
    """C C^T of a lower triangular C with multiples of 1/8, times a power of four."""
    C = [[grid(rng, 0.625, 1.25, 8) if i == j else grid(rng, -0.5, 0.5, 8) if j < i else 0 for j in range(m)] for i in range(m)]
    return [[scale * sum(C[i][k] * C[j][k] for k in range(m)) for j in range(m)] for i in range(m)]


def shares(rng, K, parts=64):
    """A positive multiple of 1/parts for each expert; together 1."""
    cuts = sorted(rng.sample(range(1, parts), K - 1))
    return [(b - a) / parts for a, b in zip([0, *cuts], [*cuts, parts])]


def one_hot(k, K):
    return [1 if j == k else 0 for j in range(K)]


def state(seed, N, K, h, L, d, shared=False, priors=OTHER, spread=1, width=0.25):
    """A whole state, none of it consistent with the rest.  spread: of the means; width: of the covariances."""
    rng, D, J = random.Random(f"cmn-{seed}"), d + 1, L - 1
    means = lambda *shape: fill(shape, lambda: spread * grid(rng, -1.5, 1.5, 16))
    y = [n % L for n in range(N)]
    rng.shuffle(y)
    return {
        "X": fill((N, d), lambda: grid(rng, -2, 2, 32)), "y": y,
        "beta1_mu": means(J, h + 1), "beta1_S": [covariance(rng, h + 1, width) for _ in range(J)],
        "beta0_mu": means(K - 1, D), "beta0_S": [covariance(rng, D, width) for _ in range(K - 1)],
        "M": means(K, h, D), "V": [covariance(rng, D, width) for _ in range(K)],
        "a": [grid(rng, 1.5, 6, 4) for _ in range(K)], "b": fill((K, h), lambda: grid(rng, 0.5, 4, 8)),
        "gamma": [shares(rng, K) for _ in range(N)],
        "mu": fill((N, K, h), lambda: grid(rng, -2, 2, 16)), "Sigma": [[covariance(rng, h, width) for _ in range(K)] for _ in range(N)],
        "xi1": fill((N, J) if shared else (N, K, J), lambda: grid(rng, 0.25, 3, 16)),
        "xi0": fill((N, K - 1), lambda: grid(rng, 0.25, 3, 16)), **priors}


def change(s, **new):
    return {**s, **new}


def constant(like, value):
    return [constant(v, value) for v in like] if isinstance(like, list) else value


def negated_rows(like, value):
    """Signs in turn along every row, so that no row is constant."""
    return [negated_rows(v, value) for v in like] if like and isinstance(like[0], list) else [value * (-1) ** i for i in range(len(like))]


def size(s):
    return sum(prod(len(v) for v in [value]) if isinstance(value, list) else 1 for value in s.values())


GENERAL = state("general", N=6, K=3, h=3, L=4, d=2)
CANARY = state("canary", N=8, K=6, h=3, L=3, d=6)            # the axes N K K-1 h h+1 J D are 8 6 5 3 4 2 7: all different
SINGLE = state("single", N=5, K=1, h=2, L=3, d=2)
BINARY = state("binary", N=5, K=2, h=1, L=2, d=1, priors=PAPER)
NARROW = state("narrow", N=6, K=2, h=1, L=4, d=3)
WIDE = state("wide", N=5, K=2, h=4, L=2, d=2)
SHARED = state("shared", N=6, K=3, h=2, L=3, d=2, shared=True)
SMALL = state("small", N=5, K=3, h=2, L=3, d=2, priors=PAPER)
EMPTY = change(SMALL, gamma=[[g[0] + g[1], 0, g[2]] for g in SMALL["gamma"]])
ONE_HOT = change(SMALL, gamma=[one_hot(k, 3) for k in (0, 2, 1, 2, 0)])
UNIFORM = change(state("uniform", N=5, K=4, h=2, L=3, d=2), gamma=[[0.25] * 4] * 5)
ZERO_TILTS = change(SMALL, xi1=constant(SMALL["xi1"], 0), xi0=constant(SMALL["xi0"], 0))
TILTS_1500 = change(SMALL, xi1=constant(SMALL["xi1"], 1500), xi0=constant(SMALL["xi0"], 1500))
FIRST_CLASS = change(GENERAL, y=[0] * 6)                      # two of three sticks are never tossed
LAST_CLASS = change(GENERAL, y=[3] * 6)                       # all are
# logits of +-1000: weights of +-512 on inputs of size 2, narrow covariances, tilts of the right size
EXTREME = change(SMALL, beta0_mu=negated_rows(SMALL["beta0_mu"], 512), beta1_mu=negated_rows(SMALL["beta1_mu"], 512),
                 xi0=constant(SMALL["xi0"], 1024), xi1=constant(SMALL["xi1"], 1024))
FEW_ROWS = state("few-rows", N=2, K=2, h=2, L=3, d=4)


def scalar_matrices(like, value):
    return [[[[value if i == j else 0 for j in range(len(S))] for i in range(len(S))] for S in row] for row in like]


def offset(base, shift, level, seed="offset"):
    """Inputs shift away from 0, latent means level away, nearly linear in the inputs: b is a small difference of large sums."""
    rng = random.Random(f"cmn-{seed}")
    X = [[shift + v for v in x] for x in base["X"]]
    K, h = len(base["M"]), len(base["M"][0])
    mu = [[[level + base["X"][n][0] * (k + 1) / 2 - base["X"][n][1] * i / 2 + grid(rng, -0.125, 0.125, 64) for i in range(h)]
           for k in range(K)] for n in range(len(X))]
    return change(base, X=X, mu=mu, Sigma=scalar_matrices(base["Sigma"], 1 / 64))


ROWS = change(state("rows", N=12, K=2, h=2, L=3, d=2), v0=2 ** 20)     # a prior that does not pull
OFFSET = offset(ROWS, 64, 256)
OFFSET_FAR = offset(ROWS, 4096, 4096)
OFFSET_FLOAT32 = offset(ROWS, 0, 512)
