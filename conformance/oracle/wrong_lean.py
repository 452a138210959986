"""Wrong formulas of leaner posteriors.  None has an answer where the posterior is the full one."""

import lean
import network
from loops import inverse, times
from mpmath import mp, mpf
from wrong import pieces, transposed

MINE = ("FamilyIgnored", "InvertedFirst", "LeanMeans", "FrameSide", "GroupWeights", "RowGaussian", "LeanGap")


def leaner(answer, *families, key="latent_posterior"):
    """Only under the families named, or any but the full one."""
    def wrong(right, **q):
        if q[key] == "full" or families and q[key] not in families:
            raise KeyError(q[key])
        return answer(right, **q)
    return wrong


def with_pieces(*families, **new):
    def answer(right, **q):
        with pieces(lean, **new):
            return right(**q)
    return leaner(answer, *families)


def named(family, *families):
    """The family in the place of those named."""
    return leaner(lambda right, **q: right(**{**q, "latent_posterior": family}), *families)


def turned(change, *families):
    return leaner(lambda right, **q: right(**{**q, "frame": [change(R) for R in q["frame"]]}), *families)


def only_diagonal(S):
    return [[v if i == j else mpf(0) for j, v in enumerate(row)] for i, row in enumerate(S)]


def inverses(weights, matrices, noise):
    """The mean of the covariances."""
    total = sum(weights, mpf(0))
    return lean.pooled([w / total for w in weights], [inverse(P) for P in matrices])


def alike(weights):
    return [mpf(1) / len(weights)] * len(weights)


right_common, right_row, right_along, right_latents, right_group = lean.common, lean.row_gaussian, lean.along, lean.latents, lean.group


def late_means(s, natural):
    """Sigma eta with the leaner Sigma."""
    found = right_latents(s, natural)
    if not lean.FAMILIES[lean.chosen(s)][0]:
        natural = [[right_row(g, pairs)] * len(g) for g, pairs in zip(s["gamma"], natural, strict=True)]
    return {**found, "mu": [[times(S, eta) for S, (_, eta) in zip(*rows, strict=True)] for rows in zip(found["Sigma"], natural, strict=True)]}


def of_means(weights, pairs):
    """Means and covariances of the experts averaged, in the place of their natural parameters."""
    h = len(pairs[0][1])
    S = lean.pooled(weights, [inverse(P) for P, _ in pairs])
    mu = [sum(w * times(inverse(P), eta)[i] for w, (P, eta) in zip(weights, pairs, strict=True)) for i in range(h)]
    return inverse(S), times(inverse(S), mu)


ROWS = ("mean-field", "mean-field-diagonal", "mean-field-shared")
SHARES, DIAGONALS, BLOCKS = ("shared", "class-shared", "mean-field-shared"), ("diagonal", "mean-field-diagonal"), ("low-rank",)
GROUPED = ("shared", "class-shared")
X = [
    ("FamilyIgnored", "the full posterior", named("full", "diagonal", "low-rank", "shared", "class-shared")),
    ("FamilyIgnored", "the full posterior, no Gaussian of the row", named("full", *ROWS)),
    ("FamilyIgnored", "a full covariance of the row's Gaussian", named("mean-field", "mean-field-diagonal", "mean-field-shared")),
    ("FamilyIgnored", "a Gaussian of each expert, its covariance diagonal", named("diagonal", "mean-field-diagonal")),
    ("FamilyIgnored", "the axes for the frame, the block left out", named("diagonal", "low-rank")),
    ("GroupWeights", "rows of a class share, not all rows", named("class-shared", "shared")),
    ("GroupWeights", "all rows share, not those of a class", named("shared", "class-shared")),
    ("InvertedFirst", "the diagonal of the covariance", with_pieces(*DIAGONALS, thinned=lambda P: only_diagonal(inverse(P)))),
    ("InvertedFirst", "the covariance turned, then its block and diagonal kept", with_pieces(*BLOCKS, along=lambda P, R, r: inverse(right_along(inverse(P), transposed(inverse_of(R)), r)))),
    ("InvertedFirst", "the mean of the covariances", with_pieces(*SHARES, common=inverses)),
    ("LeanMeans", "Sigma eta with the leaner Sigma", with_pieces("diagonal", "low-rank", "shared", "class-shared", "mean-field-diagonal", "mean-field-shared", latents=late_means)),
    ("FrameSide", "the frame transposed", turned(transposed, *BLOCKS)),
    ("FrameSide", "a block one too small", leaner(lambda right, **q: right(**{**q, "rank": q["rank"] - 1 if q["rank"] else 1 / 0}), *BLOCKS)),
    ("FrameSide", "a block one too large", leaner(lambda right, **q: right(**{**q, "rank": min(q["rank"] + 1, len(q["M"][0]))}), *BLOCKS)),
    ("FrameSide", "S itself, not turned back", with_pieces(*BLOCKS, along=lambda P, R, r: not_back(P, R, r))),
    ("GroupWeights", "the mean precision without gamma", with_pieces(*GROUPED, common=lambda w, P, noise: right_common(alike(w), P, noise))),
    ("GroupWeights", "the sum of the precisions for their mean", with_pieces(*SHARES, common=lambda w, P, noise: inverse(lean.pooled(w, P)))),
    ("GroupWeights", "divided by the number of rows", with_pieces(*GROUPED, common=lambda w, P, noise: inverse(lean.pooled([v / len(w) for v in w], P)))),
    ("GroupWeights", "one covariance for all experts too", with_pieces(*GROUPED, group=lambda shape, y, n, k: right_group(shape, y, n, 0))),
    ("RowGaussian", "experts count alike", with_pieces(*ROWS, row_gaussian=lambda w, pairs: right_row(alike(w), pairs))),
    ("RowGaussian", "means and covariances averaged", with_pieces(*ROWS, row_gaussian=of_means)),
    ("RowGaussian", "the likeliest expert's Gaussian", with_pieces(*ROWS, row_gaussian=lambda w, pairs: pairs[max(range(len(w)), key=w.__getitem__)])),
    ("RowGaussian", "gamma in the precision only", with_pieces(*ROWS, row_gaussian=lambda w, pairs: (right_row(w, pairs)[0], right_row(alike(w), pairs)[1]))),
]


def inverse_of(R):
    """Of a matrix that is not symmetric: (R^T R)^-1 R^T."""
    h = len(R)
    G = inverse([[sum(R[i][a] * R[i][b] for i in range(h)) for b in range(h)] for a in range(h)])
    return [[sum(G[a][b] * R[i][b] for b in range(h)) for i in range(h)] for a in range(h)]


def not_back(P, R, rank):
    """R^-1 Sigma R^-T."""
    h, W, S = len(P), inverse_of(R), right_along(P, R, rank)
    return [[sum(W[a][i] * S[i][j] * W[b][j] for i in range(h) for j in range(h)) for b in range(h)] for a in range(h)]


def coefficients(function):
    return leaner(function, key="coefficients")


def whole(right, **q):
    return right(**{**q, "coefficients": "full"})


def dropped(right, **q):
    """The diagonal of the covariance."""
    with pieces(lean, thinned=lambda P: only_diagonal(inverse(P))):
        return right(**q)


def means_too(mean, field):
    """Means that go with the diagonal covariances: the linear part times these."""
    def answer(right, **q):
        thin, full = right(**q), whole(right, **q)
        pull = lambda S, m: times(S, times(inverse(F[S_at[0]]), m))
        F, S_at, out = full[field], [0], []
        for k, m in enumerate(full[mean]):
            S_at[0] = k
            out.append([pull(thin[field][k], v) for v in m] if isinstance(m[0], list) else pull(thin[field][k], m))
        return {**thin, mean: out}
    return coefficients(answer)


FULL = ("FamilyIgnored", "full covariances", coefficients(whole))
ALWAYS = ("FamilyIgnored", "diagonal covariances, not only where they are asked for", coefficients(lambda right, **q: right(**{**q, "coefficients": "diagonal"})))
DROPPED = ("InvertedFirst", "the diagonal of the covariance of the coefficients", coefficients(dropped))
THIN = {f"update_{name}": [FULL, ALWAYS, DROPPED, ("LeanMeans", "means with the diagonal covariances", means_too(*fields))]
        for name, *fields in (("beta1", "beta1_mu", "beta1_S"), ("beta0", "beta0_mu", "beta0_S"), ("experts", "M", "V"))}


def shortcut(right, **q):
    """The bound after the last sweep with half ln|S| of full covariances: what the log normalisers say."""
    outs, copies = right(**q), len(q["M"][0])
    thin = {name: outs[name] for name in ("V", "beta0_S", "beta1_S") if name in lean.THIN[q["coefficients"]]}
    before = outs if q["n_sweeps"] == 1 else 1 / 0
    with pieces(lean, THIN={**lean.THIN, q["coefficients"]: ()}):
        full = right(**q)
    gap = sum(((network.log_det(T) - network.log_det(F)) / 2 * (copies if name == "V" else 1) for name in thin for T, F in zip(thin[name], full[name], strict=True)), mpf(0))
    return {**before, "elbo": [outs["elbo"][0] - gap]}


def entropies(change):
    """Other entropies of x1 in the bound and in q(z)."""
    def answer(right, **q):
        old = network.latent_entropies
        with pieces(network, latent_entropies=lambda s: change(s, old)):
            return right(**q)
    return leaner(answer)


def of_full(s, old):
    """Those of the full posterior."""
    natural = {name: v for name, v in s.items() if name != "latent_posterior"}
    return old({**s, **network.update_x(natural)})


GAP = [("LeanGap", "the entropy of the full posterior", entropies(of_full))]
ONCE = [("RowGaussian", "the row's Gaussian counted for every expert", leaner(lambda right, **q: {"value": len(q["M"]) * right(**q)["value"]}, *ROWS))]
THIN_BOUND = [("LeanGap", "half ln|S| of full covariances of the coefficients", coefficients(lambda right, **q: {"value": right(**q)["value"] - full_gap(q)}))]


def full_gap(q):
    """What the M-step's log normalisers leave out."""
    at = {name: v for name, v in q.items() if name != "coefficients"}
    gap = mpf(0)
    for name, field in (("beta1", "beta1_S"), ("beta0", "beta0_S"), ("experts", "V")):
        if lean.is_thin(q, field):
            full = network.UPDATES[name](at)[field]
            gap += sum((sum((mp.log(1 / inverse(S)[i][i]) for i in range(len(S))), mpf(0)) - network.log_det(S) for S in full), mpf(0)) / 2 * (len(q["M"][0]) if field == "V" else 1)
    return gap


SWEEPS = [*X, FULL, DROPPED, ("LeanGap", "a bound read off the log normalisers of full covariances", coefficients(shortcut)), *GAP]
OTHERS = {"update_x": X, **THIN, "update_z": GAP, "elbo_latent_entropy": ONCE, "elbo": [*GAP, *THIN_BOUND], "sweeps": SWEEPS, "stationarity": [*X, FULL, DROPPED],
          "forecast": [*X, FULL, DROPPED]}
