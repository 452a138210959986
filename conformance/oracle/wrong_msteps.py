"""Wrong formulas of level 2: the M-step."""

import network
import shared
from level0 import counts
from loops import inverse, times
from mpmath import mp, mpf
from wrong import backwards, column_major, given, negative, one, pieces, reciprocal, squared, then, using, zero
from wrong_level1 import first, first_pad, flat_diagonal, matrices, no_cross
from wrong_updates import HUGE, WITH_LABELS, WITH_TILTS, fresh0, fresh1, half

def parts(mu, S, gram=lambda q: q, linear=lambda q: q):
    """Gaussian coefficients whose precision is that of one changed call, and whose linear part that of another."""
    def answer(right, **q):
        precise, pulled = right(**gram(q)), right(**linear(q))
        return {mu: [times(T, times(inverse(P), m)) for T, P, m in zip(precise[S], pulled[S], pulled[mu], strict=True)], S: precise[S]}
    return answer


BETA1 = ("beta1_mu", "beta1_S")
BETA0 = ("beta0_mu", "beta0_S")
change = lambda **new: lambda q: {**q, **{name: function(q) for name, function in new.items()}}
SQUARED = change(gamma=lambda q: squared(q["gamma"]))
ALL_ONE = change(gamma=lambda q: one(q["gamma"]))
EVENLY = change(gamma=lambda q: [[1 / mpf(len(row))] * len(row) for row in q["gamma"]])
HARD = change(gamma=lambda q: [[mpf(1 if k == row.index(max(row)) else 0) for k in range(len(row))] for row in q["gamma"]])
TOTAL = change(gamma=lambda q: [[g * len(q["gamma"]) / sum(column) for g, column in zip(row, zip(*q["gamma"], strict=True), strict=True)] for row in q["gamma"]])
MEAN = change(gamma=lambda q: [[g / sum(column) for g, column in zip(row, zip(*q["gamma"], strict=True), strict=True)] for row in q["gamma"]])
WEIGHTS = [
    ("Unweighted", "gamma squared", SQUARED), ("Unweighted", "gamma is left out: every expert counts in full", ALL_ONE),
    ("Unweighted", "gamma is left out: every expert counts 1/K", EVENLY), ("SoftCounts", "hard assignments for gamma", HARD),
    ("Unweighted", "gamma divided by its total", MEAN), ("EmptyExpert", "gamma normalised by its total: an empty expert gives 0/0", TOTAL)]


def weighted_parts(names):
    for flag, words, weights in WEIGHTS:
        yield flag, words, parts(*names, weights, weights)
        if flag in ("Unweighted", "SoftCounts"):
            yield flag, f"{words}, in the precision only", parts(*names, gram=weights)
            yield flag, f"{words}, in the linear part only", parts(*names, linear=weights)


def priors(name, other, names):
    s = lambda function: parts(*names, gram=change(**{name: function}))
    return [
        ("PriorMissing", "the prior precision is missing: maximum likelihood", s(lambda q: HUGE)),
        ("CovarianceAsPrecision", f"{name}^2 for the prior precision 1/{name}^2", s(lambda q: 1 / q[name])),
        ("VarianceAsDeviation", f"{name} read as a variance", s(lambda q: mp.sqrt(q[name]))),
        ("VarianceAsDeviation", f"{name} squared once too often", s(lambda q: q[name] ** 2)),
        ("VarianceAsDeviation", f"{other} for {name}", s(lambda q: q[other])),
        ("PriorMissing", "no prior on the bias", unpenalised(name, *names)),
        ("CovarianceAsPrecision", "the precision for the covariance", then(lambda o, q: {names[1]: matrices(o[names[1]])})),
        ("PriorMissing", "the linear part for the mean: not multiplied by S", then(lambda o, q: {
            names[0]: [times(inverse(S), m) for m, S in zip(o[names[0]], o[names[1]], strict=True)]})),
        ("DroppedConstant", "twice the linear part: a half is missing", then(lambda o, q: {names[0]: [[2 * v for v in m] for m in o[names[0]]]})),
        ("ReversedOrder", "sticks in reverse order", then(lambda o, q: {name: o[name][::-1] for name in names})),
    ]


def unpenalised(name, mu, S):
    def answer(right, **q):
        outs, new = right(**q), {mu: [], S: []}
        for m, T in zip(outs[mu], outs[S], strict=True):
            P = inverse(T)
            linear = times(P, m)
            P[-1][-1] -= 1 / q[name] ** 2
            new[S].append(inverse(P))
            new[mu].append(times(new[S][-1], linear))
        return new
    return answer


def only(names, part, **new):
    """Exchanged pieces in the precision or in the linear part alone."""
    def answer(right, **q):
        def changed(**q):
            with pieces(network, **new):
                return right(**q)
        plain, moved = right(**q), changed(**q)
        precise, pulled = (moved, plain) if part == "precision" else (plain, moved)
        return {names[0]: [times(T, times(inverse(P), m)) for T, P, m in zip(precise[names[1]], pulled[names[1]], pulled[names[0]], strict=True)],
                names[1]: precise[names[1]]}
    return answer


B1 = [
    *priors("sigma1", "sigma0", BETA1), *weighted_parts(BETA1),
    ("SecondMoment", "the mean of x1 for its moments: Sigma is forgotten", given(Sigma=lambda q: zero(q["Sigma"]))),
    ("CrossTerm", "the cross term between weight and bias is left out", using(network, padded_second_moment=no_cross)),
    ("StaleTilt", "fresh tilts of omega_1 in place of the stored ones", given(xi1=fresh1)),
    ("Padding", "the 1 comes first", using(network, pad=first_pad, padded_second_moment=first)),
    ("Padding", "the 1 comes first in the linear part", using(network, pad=first_pad)),
    ("Padding", "the bias is left out of the linear part", using(network, pad=lambda x: [*x, mpf(0)])),
    *WITH_LABELS, *WITH_TILTS,
    ("ColumnMajor", "mu read column by column", given(mu=lambda q: column_major(q["mu"]))),
    ("ColumnMajor", "gamma read column by column", given(gamma=lambda q: column_major(q["gamma"]))),
    ("CovarianceAsPrecision", "Sigma inverted", given(Sigma=lambda q: matrices(q["Sigma"]))),
]


def gate_counts(b=lambda b, kappa, w: b, kappa=lambda b, kappa, w: kappa):
    def both(w):
        right = counts(w)
        return b(*right, w), kappa(*right, w)
    return using(network, counts=both)


B0 = [
    *priors("sigma0", "sigma1", BETA0),
    ("SoftCounts", "kappa = gamma - 1/2", gate_counts(kappa=lambda b, kappa, w: [v - half for v in w[:-1]])),
    ("SoftCounts", "every row tosses every stick: b = 1", gate_counts(lambda b, kappa, w: [mpf(1)] * len(b))),
    ("SoftCounts", "b = 1 and kappa = gamma - 1/2", gate_counts(lambda b, kappa, w: [mpf(1)] * len(b), lambda b, kappa, w: [v - half for v in w[:-1]])),
    ("SoftCounts", "b = gamma_j: its own weight only", gate_counts(lambda b, kappa, w: w[:-1])),
    ("SoftCounts", "b = gamma_j and kappa = gamma_j / 2", gate_counts(lambda b, kappa, w: w[:-1], lambda b, kappa, w: [v / 2 for v in w[:-1]])),
    ("OffByOneStick", "the own weight left out of b", gate_counts(lambda b, kappa, w: [n - v for n, v in zip(b, w)])),
    ("OffByOneStick", "the own weight left out of b and of kappa", gate_counts(
        lambda b, kappa, w: [n - v for n, v in zip(b, w)], lambda b, kappa, w: [v - (n - v) / 2 for n, v in zip(b, w)])),
    ("UncentredKappa", "kappa = gamma in place of gamma - b/2", gate_counts(kappa=lambda b, kappa, w: w[:-1])),
    ("FlippedStick", "kappa with the wrong sign", gate_counts(kappa=lambda b, kappa, w: negative(kappa))),
    ("ReversedOrder", "experts in reverse order", given(gamma=lambda q: backwards(1)(q["gamma"]))),
    *((flag, words, parts(*BETA0, weights, weights)) for flag, words, weights in WEIGHTS if flag != "EmptyExpert"),
    ("StaleTilt", "fresh tilts of omega_0 in place of the stored ones", given(xi0=fresh0)),
    ("Padding", "the 1 comes first", using(network, pad=first_pad)),
    *WITH_TILTS,
    ("ColumnMajor", "X read column by column", given(X=lambda q: column_major(q["X"]))),
    ("ColumnMajor", "gamma read column by column", given(gamma=lambda q: column_major(q["gamma"]))),
]


# ---- experts

def rates(function):
    """Other rates: function(b, k, i, outs, arguments)."""
    return then(lambda o, q: {"b": [[function(v, k, i, o, q) for i, v in enumerate(row)] for k, row in enumerate(o["b"])]})


def shapes(function):
    """Other shapes: function(N_k, arguments) is added to a0."""
    return then(lambda o, q: {"a": [q["a0"] + function(2 * (v - q["a0"]), q) for v in o["a"]]})


def squares(weight=lambda g: g, spread_weight=lambda g: g, prior=1, residual=True):
    """b from its parts: weights of the squared residuals and of Sigma, weight of the pull to the prior mean."""
    def rate(v, k, i, o, q):
        m, total = o["M"][k][i], prior * shared.misfit(q, i, o["M"][k][i]) / q["v0"]
        for n, x in enumerate(q["X"]):
            g, xt = q["gamma"][n][k], network.pad(x)
            r = q["mu"][n][k][i] - (sum(c * t for c, t in zip(m, xt)) if residual else 0)
            total += weight(g) * r * r + spread_weight(g) * q["Sigma"][n][k][i][i]
        return q["b0"] + total / 2
    return rates(rate)


def weights_of(names, weights):
    """The named outputs with other responsibilities."""
    def answer(right, **q):
        moved = right(**weights(q))
        return {**right(**q), **{name: moved[name] for name in names}}
    return answer


def turned(V):
    return [row[::-1] for row in V[::-1]]


def with_V(change_of):
    """M and b by another V: M V^-1 of the right answer times that V."""
    def answer(right, **q):
        o = right(**q)
        V = [change_of(T, q) for T in o["V"]]
        M = [[times(T, times(inverse(P), m)) for m in rows] for T, P, rows in zip(V, o["V"], o["M"], strict=True)]
        return squares()(lambda **q: {**o, "M": M, "V": V}, **q)
    return answer


EXPERTS = [
    ("CovarianceAsPrecision", "v0 read as a precision", given(v0=lambda q: 1 / q["v0"])),
    ("CovarianceAsPrecision", "v0 read as a precision in V and M", weights_of(("V", "M"), change(v0=lambda q: 1 / q["v0"]))),
    ("CovarianceAsPrecision", "the precision for V", then(lambda o, q: {"V": matrices(o["V"])})),
    ("VarianceAsDeviation", "v0 read as a deviation", given(v0=lambda q: q["v0"] ** 2)),
    ("VarianceAsDeviation", "the root of v0 for v0", given(v0=lambda q: mp.sqrt(q["v0"]))),
    ("PriorMissing", "no prior on A: its precision is missing", given(v0=lambda q: HUGE)),
    ("PriorMissing", "no prior on A in V and M", weights_of(("V", "M"), change(v0=lambda q: HUGE))),
    ("PriorMissing", "the pull to the prior mean is missing in b", squares(prior=0)),
    ("PriorMissing", "b0 is missing in b", rates(lambda v, k, i, o, q: v - q["b0"])),
    ("PriorMissing", "a0 is missing in a", then(lambda o, q: {"a": [v - q["a0"] for v in o["a"]]})),
    ("RateScale", "b returned as a scale", then(lambda o, q: {"b": reciprocal(o["b"])})),
    ("RateScale", "b0 read as a scale", given(b0=lambda q: 1 / q["b0"])),
    ("RateScale", "a0 and b0 exchanged", given(b0=lambda q: q["a0"], a0=lambda q: q["b0"])),
    ("DroppedConstant", "the half of the squares is missing in b", rates(lambda v, k, i, o, q: q["b0"] + 2 * (v - q["b0"]))),
    ("DroppedConstant", "the half of N_k is missing in a", shapes(lambda n, q: n)),
    ("WrongDimension", "N_k + D for N_k in a", shapes(lambda n, q: (n + len(q["V"][0])) / 2)),
    ("WrongDimension", "N_k + d for N_k in a", shapes(lambda n, q: (n + len(q["V"][0]) - 1) / 2)),
    ("WrongDimension", "N_k h for N_k in a", shapes(lambda n, q: n * len(q["M"][0]) / 2)),
    ("WrongDimension", "N for N_k in a", shapes(lambda n, q: mpf(len(q["X"])) / 2)),
    ("SecondMoment", "Sigma is forgotten in b", squares(spread_weight=lambda g: 0)),
    ("SecondMoment", "the mean is not subtracted in b", squares(residual=False)),
    ("Unweighted", "gamma squared in the squares of b", squares(lambda g: g * g, lambda g: g * g)),
    ("Unweighted", "gamma is left out of the squares of b", squares(lambda g: 1, lambda g: 1)),
    ("Unweighted", "gamma is left out of Sigma in b", squares(spread_weight=lambda g: 1)),
    ("Unweighted", "gamma is left out of the residuals of b", squares(lambda g: 1)),
    *((flag, words, given(gamma=lambda q, weights=weights: weights(q)["gamma"])) for flag, words, weights in WEIGHTS),
    *((flag, f"{words}, in V", weights_of(("V",), weights)) for flag, words, weights in WEIGHTS),
    *((flag, f"{words}, in V and M", weights_of(("V", "M"), weights)) for flag, words, weights in WEIGHTS),
    ("Padding", "the 1 comes first", using(network, pad=first_pad)),
    ("Padding", "the bias is left out", using(network, pad=lambda x: [*x, mpf(0)])),
    ("ColumnMajor", "X read column by column", given(X=lambda q: column_major(q["X"]))),
    ("ColumnMajor", "mu read column by column", given(mu=lambda q: column_major(q["mu"]))),
    ("ColumnMajor", "M written column by column", then(lambda o, q: {"M": column_major(o["M"])})),
    ("ColumnMajor", "rows and columns of V in reverse order", then(lambda o, q: {"V": [turned(V) for V in o["V"]]})),
    ("ColumnMajor", "gamma read column by column", given(gamma=lambda q: column_major(q["gamma"]))),
    ("SecondMoment", "only the diagonal of V", with_V(lambda V, q: flat_diagonal(V))),
    ("ReversedOrder", "experts in reverse order", then(lambda o, q: {name: value[::-1] for name, value in o.items()})),
]


BUGS = {"update_beta1": B1, "update_beta0": B0, "update_experts": EXPERTS}
