"""Wrong formulas of networks of several layers: the loops of deep.py with a piece exchanged."""

import deep
from loops import dot, zeros
from measure import each
from mpmath import mp, mpf
from wrong import column_major, given, pieces, reciprocal, then, using

MINE = ("InputMean", "MixtureSpread", "LayerAbove", "LayerBelow", "PullSpread", "LayerPrior")
right_inputs, right_counts, right_chosen, right_experts, right_link = deep.inputs, deep.counts, deep.chosen, deep.from_experts, deep.link
right_below, right_density = deep.from_below, deep.density


def pieced(**new):
    return using(deep, **new)


def turned(name):
    """An array of the layer asked, or of the first, read column by column."""
    return lambda right, **q: right(**{**q, f"{name}{q.get('s', 1)}": column_major(q[f"{name}{q.get('s', 1)}"])})


nothing = lambda value: each(value, lambda v: 0 * v)
largest = lambda w: max(range(len(w)), key=w.__getitem__)


def hard(w):
    return [mpf(i == largest(w)) for i in range(len(w))]


def deeper(function):
    """Of latent layers only: exact inputs stay."""
    return lambda s, n, l: function(right_inputs(s, n, l)) if l else right_inputs(s, n, l)


def at_mean(parts):
    mean, cov = deep.mixed(parts)
    return [(g, mean, nothing(cov)) for g, *_ in parts]


def distances(parts, mean):
    """The distances of the means alone."""
    return right_spread([(g, mu, nothing(S)) for g, mu, S in parts], mean)


def own(parts, mean):
    """The experts' covariances alone."""
    return right_spread([(g, mean, S) for g, _, S in parts], mean)


right_spread = deep.spread_of
INPUT = [
    ("InputMean", "the experts' covariances left out of what a layer hands on", pieced(inputs=deeper(lambda parts: [(g, mu, nothing(S)) for g, mu, S in parts]))),
    ("InputMean", "the mean of the whole mixture, as if it were exact", pieced(inputs=deeper(at_mean))),
]
SPREAD = [
    ("MixtureSpread", "the experts' covariances alone, without the distances of their means", pieced(spread_of=own)),
    ("MixtureSpread", "the distances of the means alone, without the experts' covariances", pieced(spread_of=distances)),
]
CHARGE = [
    ("InputMean", "the density at the mean input, without the charge for its spread", pieced(charge=lambda s, l, k, cov: mpf(0))),
    ("InputMean", "the charge for the spread counted twice: a half is missing", pieced(charge=lambda s, l, k, cov: 2 * right_charge(s, l, k, cov))),
]
right_charge = deep.charge


def curve(copies, weigh=True):
    """The curvature of an expert with so many times V, or without the precisions."""
    def curvature(s, l, k):
        M, V, a, b = (s[f"{name}{l}"][k] for name in deep.GLOBAL)
        D = range(len(V))
        return [[copies(len(M)) * V[p][q] + sum((a / b[i] if weigh else 1) * M[i][p] * M[i][q] for i in range(len(M))) for q in D] for p in D]
    return pieced(curvature=curvature)


PULL = [
    ("PullSpread", "V left out of the curvature of an expert", curve(lambda h: 0)),
    ("PullSpread", "V once in the curvature, not for each of h rows", curve(lambda h: 1)),
    ("PullSpread", "the curvature of an expert without its precisions", curve(lambda h: h, False)),
]


def above(change):
    """Other weights of the experts above."""
    def from_experts(s, n, l):
        with pieces(deep, chosen=lambda s, n, l: change(right_chosen(s, n, l))):
            return right_experts(s, n, l)
    return pieced(from_experts=from_experts)


def biased(s, n, l):
    """Without what the bias of the experts above takes away."""
    P, eta = right_experts(s, n, l)
    lost = [sum(w * deep.curvature(s, l + 1, k)[p][len(eta)] for k, w in enumerate(right_chosen(s, n, l + 1))) for p in range(len(eta))]
    return P, [e + v for e, v in zip(eta, lost, strict=True)]


def plain_pull(s, n, l):
    """News of the experts above without their precisions."""
    P, eta = right_experts(s, n, l)
    for k, w in enumerate(right_chosen(s, n, l + 1)):
        M, _, a, b = (s[f"{name}{l + 1}"][k] for name in deep.GLOBAL)
        for p in range(len(eta)):
            eta[p] += w * sum((1 - a / b[i]) * s[f"mu{l + 1}"][n][k][i] * M[i][p] for i in range(len(M)))
    return P, eta


silent = lambda m: (zeros(m, m), zeros(m))


def crossless(s, n, l, k):
    """The choice without the cross term between weight and bias."""
    m = deep.width(s, l)
    b, kappa = right_counts(right_chosen(s, n, l + 1))
    P, _ = right_choice(s, n, l, k)
    return P, [sum(kj * mu[i] for mu, kj in zip(s[f"beta{l}_mu"], kappa, strict=True)) for i in range(m)]


right_choice = deep.from_choice
soft = lambda **new: pieced(counts=lambda w: right_counts(w) if sum(v == 1 for v in w) == 1 else new["other"](w))
COUNTS = [
    ("SoftCounts", "the likeliest choice in the place of its probabilities", soft(other=lambda w: right_counts(hard(w)))),
    ("SoftCounts", "every stick of a hidden choice tossed once: b = 1", soft(other=lambda w: ([mpf(1)] * (len(w) - 1), [v - mpf(1) / 2 for v in w[:-1]]))),
    ("UncentredKappa", "kappa = w, not w - b/2", pieced(counts=lambda w: (right_counts(w)[0], list(w[:-1])))),
]


def guess(change):
    """Another mean input of the own expert."""
    def from_below(s, n, l, k):
        with pieces(deep, inputs=lambda s, n, l: change(right_inputs(s, n, l))):
            return right_below(s, n, l, k)
    return pieced(from_below=from_below)


alike = lambda parts: [(mpf(1) / len(parts), mu, S) for _, mu, S in parts]
BELOW = [
    ("LayerBelow", "the input of the likeliest expert below", guess(lambda parts: [(mpf(1), *parts[largest([g for g, *_ in parts])][1:])])),
    ("LayerBelow", "the experts below count alike", guess(alike)),
    ("LayerBelow", "the input of the first expert below", guess(lambda parts: [(mpf(1), *parts[0][1:])])),
]
scales = [("RateScale", "b read as a scale", given(**{f"b{l}": lambda q, l=l: reciprocal(q[f"b{l}"]) for l in (1,)})),
          ("RateScale", "b of the layers above the first read as scales", lambda right, **q: right(**{**q, **{f"b{l}": reciprocal(q[f"b{l}"]) for l in (2, 3) if f"b{l}" in q}}))]
CORNER = [("OffByOneStick", "the class before the label", pieced(chosen=lambda s, n, l: right_chosen(s, n, l) if l <= deep.layers(s) else right_chosen(
    {**s, "y": [(y - 1) % (len(s[f"beta{l - 1}_mu"]) + 1) for y in s["y"]]}, n, l)))]
X = [
    *CORNER,
    ("LayerAbove", "the experts above are not heard", pieced(from_experts=lambda s, n, l: silent(deep.width(s, l)))),
    ("LayerAbove", "the sticks above are not heard", pieced(from_choice=lambda s, n, l, k: silent(deep.width(s, l)))),
    ("LayerAbove", "all experts above count 1", above(lambda w: [mpf(1)] * len(w))),
    ("LayerAbove", "the experts above count alike", above(lambda w: [mpf(1) / len(w)] * len(w))),
    ("LayerAbove", "the likeliest expert above alone", above(hard)),
    ("LayerAbove", "the bias of the experts above left out", pieced(from_experts=biased)),
    ("LayerAbove", "the news of the experts above without their precisions", pieced(from_experts=plain_pull)),
    ("CrossTerm", "the cross term between weight and bias left out of the sticks' part", pieced(from_choice=crossless)),
    ("SecondMoment", "E[beta] E[beta]^T for E[beta beta^T] in the sticks' part", pieced(second_moment=lambda mu, S: [[a * b for b in mu] for a in mu])),
    *PULL, *COUNTS, *BELOW, *scales,
    ("ColumnMajor", "the means of the layer's experts read column by column", turned("M")),
]


def scored(below=None, up=None, entropy=True):
    """Other sums for ln gamma: weights of the experts below, of the choices above, and the entropy."""
    def scores(s, n, l):
        first, last = deep.link(s, n, l - 1), deep.link(s, n, l)
        w, v = [g for g, *_ in deep.inputs(s, n, l - 1)], deep.chosen(s, n, l + 1)
        w, v = below(w) if below else w, up(v) if up else v
        return [dot(w, [row[k] for row in first]) + (deep.gaussian_entropy(S) if entropy else 0) + dot(v, last[k]) for k, S in enumerate(s[f"Sigma{l}"][n])]
    return pieced(scores=scores)


fresh = lambda right, **q: right(**{**q, **{name: v for l in range(deep.layers(q) + 1) for name, v in deep.update_tilt(q, l).items()}})
TABLES = [*INPUT, *CHARGE, *PULL, ("StaleTilt", "fresh tilts in the place of those of the state", fresh),
          ("SecondMoment", "the covariances of the coefficients left out of the logits", given(**{"beta1_S": lambda q: nothing(q["beta1_S"])}))]
Z = [
    *TABLES, *CORNER, *scales,
    ("LayerBelow", "all experts below count 1", scored(below=lambda w: [mpf(1)] * len(w))),
    ("LayerBelow", "the likeliest expert below alone", scored(below=hard)),
    ("LayerAbove", "nothing is heard of the link above", scored(up=lambda v: [mpf(0)] * len(v))),
    ("LayerAbove", "the likeliest choice above alone", scored(up=hard)),
    ("LayerAbove", "all choices above count 1", scored(up=lambda v: [mpf(1)] * len(v))),
    ("LayerAbove", "of the link above the sticks alone, not its experts", pieced(link=lambda s, n, l: deep.choices(s, n, l) if l else right_link(s, n, l))),
    ("MissingEntropy", "the entropy of q(x | z) left out", scored(entropy=False)),
    ("ColumnMajor", "the means of the latent vectors read column by column", turned("mu")),
]
TILT = [
    *INPUT,
    ("SharedTilt", "one tilt for all experts below, averaged with their weights", then(lambda o, q: {"xi": [[[mp.sqrt(sum(g * row[j] ** 2 for (g, *_), row in zip(
        right_inputs(q, n, q["s"]), table, strict=True))) for j in range(len(table[0]))]] * len(table) for n, table in enumerate(o["xi"])]})),
    ("SecondMoment", "the covariances of the coefficients left out", lambda right, **q: right(**{**q, f"beta{q['s']}_S": nothing(q[f"beta{q['s']}_S"])})),
    ("HalfAngle", "the square of the tilt", then(lambda o, q: {"xi": each(o["xi"], lambda v: v * v)})),
]
PRIOR = [
    ("LayerPrior", "sigma1 for every gate", pieced(scale=lambda s, l: s["sigma1"])),
    ("LayerPrior", "sigma0 for the output too", pieced(scale=lambda s, l: s["sigma0"])),
    ("LayerPrior", "sigma0 for the first gate only", pieced(scale=lambda s, l: s["sigma1"] if l else s["sigma0"])),
]
BETA = [
    *INPUT, *COUNTS, *PRIOR, *CORNER,
    ("Unweighted", "the experts below count alike", pieced(inputs=deeper(alike))),
    ("SharedTilt", "the tilts of the first expert below for all", lambda right, **q: right(**{**q, f"xi{q['s']}": [[rows[0]] * len(rows) for rows in q[f"xi{q['s']}"]]})),
    ("PriorMissing", "no prior: the precision of the data alone", pieced(scale=lambda s, l: mpf(10) ** 15)),
    ("StaleTilt", "fresh tilts in the place of those of the state", fresh),
]
right_padded = deep.padded
EXPERTS = [
    *INPUT, *SPREAD,
    ("InputMean", "the Gram matrix of the means of the input", pieced(padded=lambda mean, cov: right_padded(mean, nothing(cov)))),
    ("InputMean", "the spread of the input left out of the noise", pieced(noise=lambda s, l, k, i, m, below: right_noise(s, l, k, i, m, [(x, nothing(C)) for x, C in below]))),
    ("LayerBelow", "the experts below count alike", pieced(inputs=deeper(alike))),
    ("LayerBelow", "the input of the likeliest expert below", pieced(inputs=deeper(lambda parts: [(mpf(1), *parts[largest([g for g, *_ in parts])][1:])]))),
    ("Unweighted", "every row counts 1 for every expert", lambda right, **q: right(**{**q, f"gamma{q['s']}": each(q[f"gamma{q['s']}"], lambda v: mpf(1))})),
    ("ColumnMajor", "the means of the latent vectors read column by column", turned("mu")),
    ("PriorMissing", "1/v0 is missing", given(v0=lambda q: mpf(10) ** 30)),
    ("NoiseForgotten", "the covariance of the latent vector left out of the noise", lambda right, **q: right(**{**q, f"Sigma{q['s']}": nothing(q[f"Sigma{q['s']}"])})),
]
right_noise = deep.noise
LOST = [("DroppedConstant", "ln 2 pi is missing", pieced(LOG2PI=lambda: mpf(0)))]


def unlinked(below, up):
    """A link averaged with other weights."""
    return pieced(averaged=lambda s, n, l, table: sum((g * dot(up(right_chosen(s, n, l + 1)), row) for g, row in zip(
        below([g for g, *_ in right_inputs(s, n, l)]), table, strict=True)), mpf(0)))


same, ones = lambda w: w, lambda w: [mpf(1)] * len(w)
AVERAGE = [("Unweighted", "the experts below count 1 in a link", unlinked(ones, same)), ("LayerBelow", "the likeliest expert below alone in a link", unlinked(hard, same)),
           ("LayerAbove", "the likeliest choice alone in a link", unlinked(same, hard)), ("Unweighted", "the choices count 1 in a link", unlinked(same, ones))]
right_divergence = deep.divergence


def first_layers(s):
    """The divergences of the output and of the first layer alone."""
    S = deep.layers(s)
    lost = {name: [] for l in range(1, S) for name in (f"beta{l}_mu", f"beta{l}_S")}
    return right_divergence({**s, **lost})


KL = [*PRIOR, ("LayerPrior", "the gates of the middle left out", lambda right, **q: {"value": first_layers(q)}),
      ("LayerPrior", "the experts of the first layer alone", lambda right, **q: {"value": right_divergence({**q, **{f"{name}{l}": [] for l in (2, 3) if f"M{l}" in q for name in deep.GLOBAL}})}),
      ("RateScale", "b read as a scale", scales[0][2]),
      ("DroppedConstant", "the divergence with the wrong sign", then(lambda o, q: {"value": -o["value"]}))]
ENTROPY = [("MissingEntropy", "the entropy of q(z) left out", pieced(entropy=lambda g: mpf(0))),
           ("MissingEntropy", "the entropy of q(x | z) left out", pieced(gaussian_entropy=lambda S: mpf(0))),
           ("Unweighted", "the entropies of all experts, not weighted", then(lambda o, q: {"value": o["value"] + sum(
               (1 - g) * deep.gaussian_entropy(S) for row, Sigma in zip(q[f"gamma{q['s']}"], q[f"Sigma{q['s']}"]) for g, S in zip(row, Sigma))})),
           ("DroppedConstant", "ln 2 pi is missing", then(lambda o, q: {"value": o["value"] - sum(len(q[f"mu{q['s']}"][0][0]) * deep.LOG2PI() / 2 for _ in q["X"])}))]
ELBO = [*TABLES, ("ColumnMajor", "the means of the first layer's experts read column by column", turned("M")), *AVERAGE, *LOST, *PRIOR, *CORNER, ("MissingEntropy", "the entropy of q(z) left out", pieced(entropy=lambda g: mpf(0))),
        ("LayerPrior", "the gates of the middle left out of the divergence", pieced(divergence=first_layers)),
        ("LayerPrior", "the experts of the layers above the first left out of the bound", then(lambda o, q: {"value": o["value"] - sum(deep.term_density(q, l) for l in range(2, deep.layers(q) + 1))}))]


def ordered(change):
    right = deep.order
    return pieced(order=lambda S, inner=1: change(right(S, inner), S))


moved = lambda name, front: lambda names, S: [*(p for p in names if front and p[0] == name), *(p for p in names if p[0] != name), *(p for p in names if not front and p[0] == name)]
ORDER = [
    ("UpdateOrder", "the first tilt is left out", ordered(lambda names, S: names[1:])),
    ("UpdateOrder", "from the top layer down", ordered(lambda names, S: [names[0], *(p for l in range(S, 0, -1) for p in names[1:] if p[1] == l and p[0] in ("x", "tilt", "z")), *(
        p for p in names[1:] if p[0] in ("beta", "experts"))])),
    ("UpdateOrder", "experts before the coefficients", ordered(lambda names, S: [p for p in moved("beta", False)(names, S)])),
    ("UpdateOrder", "coefficients and experts before the layers", ordered(lambda names, S: [p for p in names if p[0] in ("beta", "experts")] + [p for p in names if p[0] not in ("beta", "experts")])),
    ("UpdateOrder", "all x, then all tilts, then all z", ordered(lambda names, S: [names[0], *(p for name in ("x", "tilt", "z", "beta", "experts") for p in names[1:] if p[0] == name)])),
]
STEPS = [*INPUT, *SPREAD, *CHARGE, *PULL, *(bug for bug in X if bug[0] in ("LayerAbove", "LayerBelow")), *COUNTS[:1], *PRIOR, *ORDER]
LATE = [("UpdateOrder", "the bound before the sweep", then(lambda o, q: {"elbo": [deep.elbo({name: v for name, v in q.items() if name not in ("inner", "n_sweeps")})]}))]
FORECAST = [
    ("InputMean", "choices at the mean input, without its covariance", pieced(choice_means=lambda parts, mu, S: right_means([(g, m, nothing(C)) for g, m, C in parts], mu, S))),
    *SPREAD,
    ("NoiseForgotten", "the noise of the experts left out", lambda right, **q: right(**{**q, **{f"b{l}": each(q[f"b{l}"], lambda v: 0 * v) for l in (1, 2, 3) if f"b{l}" in q}})),
    ("NoiseForgotten", "the uncertainty of A left out", pieced(trace_product=lambda A, B: mpf(0))),
    ("NoiseForgotten", "b/a for b/(a - 1): the mean precision inverted", lambda right, **q: right(**{**q, **{f"b{l}": [[v * (a - 1) / a for v in row] for a, row in zip(
        q[f"a{l}"], q[f"b{l}"])] for l in (1, 2, 3) if f"b{l}" in q}})),
    ("PlugIn", "means in the place of all distributions", lambda right, **q: deep.forecast_by_means(**q)),
    ("PlugIn", "the coefficients of the choices at their means", lambda right, **q: right(**{**q, **{f"beta{l}_S": nothing(q[f"beta{l}_S"]) for l in range(deep.layers(q) + 1)}})),
    ("LayerBelow", "the input of the likeliest expert below", pieced(mixed=lambda parts: right_mixed([(mpf(1), *parts[largest([g for g, *_ in parts])][1:])]))),
    ("RateScale", "b read as a scale", lambda right, **q: right(**{**q, **{f"b{l}": reciprocal(q[f"b{l}"]) for l in (1, 2, 3) if f"b{l}" in q}})),
    ("ColumnMajor", "the means of the first layer's experts read column by column", turned("M")),
    ("ReversedOrder", "the last class first on the sticks", then(lambda o, q: {"log_probs": [row[::-1] for row in o["log_probs"]]})),
]
right_means, right_mixed = deep.choice_means, deep.mixed
MOMENTS = [*SPREAD, ("MixtureSpread", "E[x x^T]: the mean is not subtracted", then(lambda o, q: {"cov": [[[C[i][j] + m[i] * m[j] for j in range(len(m))] for i in range(len(m))]
                                                                                                         for m, C in zip(o["mean"], o["cov"], strict=True)]})),
           ("Unweighted", "the experts count alike", given(gamma=lambda q: each(q["gamma"], lambda v: mpf(1) / len(q["gamma"][0])))),
           ("InputMean", "no covariance: the mean as if it were exact", then(lambda o, q: {"cov": nothing(o["cov"])}))]
OTHERS = {"deep_moments": MOMENTS, "deep_x": X, "deep_z": Z, "deep_tilt": TILT, "deep_beta": BETA, "deep_experts": EXPERTS,
          "deep_elbo_choice": [*INPUT, *AVERAGE, *CORNER, TABLES[-2]], "deep_elbo_expert": [*INPUT, *CHARGE, *PULL, *AVERAGE, *LOST, *scales], "deep_elbo_entropy": ENTROPY,
          "deep_kl": KL, "deep_elbo": ELBO, "deep_sweeps": [*STEPS, *LATE], "deep_stationarity": STEPS, "deep_forecast": FORECAST}
