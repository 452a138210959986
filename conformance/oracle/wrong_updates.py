"""Wrong formulas of level 2: one factor's update."""

import network
from level0 import counts
from loops import inverse, times
from mpmath import mp, mpf

from network import second_moment
from special import theta, tilt_kl
from wrong import backwards, column_major, each_matrix, given, negative, one, pieces, reciprocal, squared, then, using, zero
from wrong_level1 import border, first, first_pad, flat_diagonal, matrices, no_cross

HUGE = mpf(10) ** 30
half = mpf(1) / 2
scale = lambda q: reciprocal(q["b"])


def labelled(b=lambda b, kappa, w: b, kappa=lambda b, kappa, w: kappa, label=lambda y, L: y):
    """Output sticks with other b and kappa, or other labels."""
    def labels(y, n_classes):
        out = []
        for c in y:
            w = [mpf(1 if k == label(c, n_classes) else 0) for k in range(n_classes)]
            right = counts(w)
            out.append((b(*right, w), kappa(*right, w)))
        return out
    return labels


TOSSED = labelled(b=lambda b, kappa, w: [mpf(1)] * len(b))
TOSSED_ALL = labelled(lambda b, kappa, w: [mpf(1)] * len(b), lambda b, kappa, w: [v - half for v in w[:-1]])
UNCENTRED = labelled(kappa=lambda b, kappa, w: w[:-1])
FLIPPED = labelled(kappa=lambda b, kappa, w: negative(kappa))
PULLED = labelled(kappa=lambda b, kappa, w: [v - half for v in w[:-1]])
LATER = labelled(b=lambda b, kappa, w: [n - v for n, v in zip(b, w)])
DOWN = labelled(label=lambda y, L: max(y - 1, 0))
UP = labelled(label=lambda y, L: min(y + 1, L - 1))
REVERSED = labelled(label=lambda y, L: L - 1 - y)
OUTPUT_LABELS = [
    ("InactiveStick", "every output stick is tossed: b is left out", TOSSED),
    ("InactiveStick", "kappa = y - 1/2 and b = 1 on every stick", TOSSED_ALL),
    ("InactiveStick", "kappa = y - 1/2 on every stick", PULLED),
    ("UncentredKappa", "kappa = y in place of y - b/2", UNCENTRED),
    ("FlippedStick", "kappa with the wrong sign", FLIPPED),
    ("OffByOneStick", "the own stick left out of b", LATER),
    ("OffByOneStick", "labels one too small", DOWN),
    ("OffByOneStick", "labels one too large", UP),
    ("ReversedOrder", "classes in reverse order", REVERSED),
]
WITH_LABELS = [(flag, words, using(network, labels=labels)) for flag, words, labels in OUTPUT_LABELS]
TILTS = [
    ("HalfAngle", "tanh(xi) for tanh(xi/2) in E[omega]", lambda c: 2 * theta(2 * c)),
    ("HalfAngle", "1/xi for 1/(2 xi) in E[omega]: twice its value", lambda c: 2 * theta(c)),
    ("HalfAngle", "half of E[omega]: lambda of Jaakkola and Jordan", lambda c: theta(c) / 2),
    ("HalfAngle", "the square of the tilt for the tilt", lambda c: theta(c * c)),
    ("HalfAngle", "the root of the tilt for the tilt", lambda c: theta(mp.sqrt(c))),
    ("StaleTilt", "b/4 for E[omega]: tilts of 0", lambda c: mpf(1) / 4),
]
WITH_TILTS = [(flag, words, using(network, theta=function)) for flag, words, function in TILTS]
fresh1 = lambda q: network.update_omega1(q)["xi1"]
fresh0 = lambda q: network.update_omega0(q)["xi0"]


def cross(factor, mean_only=False):
    """beta's second moment with another entry between weight and bias."""
    def moment(mu, S):
        E, last = second_moment(mu, S), len(mu) - 1
        for i in range(last):
            E[i][last] = mu[i] * mu[last] if mean_only else factor * E[i][last]
        return E
    return moment


def shared_tilt(average):
    """Tilts of a shared omega_1, averaged otherwise: average(gamma, squares)."""
    def answer(right, **q):
        if isinstance(q["xi1"][0][0], list):
            raise ValueError("not shared")
        _, psi2 = network.output_logits(q["mu"], q["Sigma"], q["beta1_mu"], q["beta1_S"])
        return {"xi1": [[average(g, [row[l] for row in table]) for l in range(len(table[0]))] for g, table in zip(q["gamma"], psi2, strict=True)]}
    return answer


X = [
    ("RateScale", "b read as a scale: E[tau] = a b", given(b=scale)),
    ("RateScale", "E[tau] inverted: b/a for a/b", given(b=lambda q: [[a * a / v for v in row] for a, row in zip(q["a"], q["b"])])),
    ("RateScale", "E[tau] = 1/b: the shape is left out", given(a=lambda q: one(q["a"]))),
    ("VarianceAsDeviation", "the root of E[tau]: a deviation for a variance", given(
        b=lambda q: [[mp.sqrt(v * a) for v in row] for a, row in zip(q["a"], q["b"])])),
    ("CrossTerm", "the cross term is left out of the linear part", using(network, second_moment=cross(0))),
    ("CrossTerm", "the cross term with the wrong sign", using(network, second_moment=cross(-1))),
    ("CrossTerm", "the cross term by the means: the covariance of weight and bias is left out", using(network, second_moment=cross(1, True))),
    ("SecondMoment", "beta_1 by its mean: its covariance is forgotten", given(beta1_S=lambda q: zero(q["beta1_S"]))),
    ("SecondMoment", "only the covariance of beta_1", using(network, second_moment=lambda mu, S: [list(row) for row in S])),
    ("PriorMissing", "the expert's mean is left out of the linear part", given(M=lambda q: zero(q["M"]))),
    ("PriorMissing", "the expert is left out", given(M=lambda q: zero(q["M"]), a=lambda q: [v / HUGE for v in q["a"]])),
    ("StaleTilt", "fresh tilts of omega_1 in place of the stored ones", given(xi1=fresh1)),
    *WITH_LABELS, *WITH_TILTS,
    ("CovarianceAsPrecision", "the precision for Sigma", then(lambda o, q: {"Sigma": matrices(o["Sigma"])})),
    ("CovarianceAsPrecision", "beta1_S inverted", given(beta1_S=lambda q: matrices(q["beta1_S"]))),
    ("SecondMoment", "only the diagonal of Sigma", then(lambda o, q: {"Sigma": each_matrix(flat_diagonal)(o["Sigma"])})),
    ("SecondMoment", "the inverse of the precision's diagonal for Sigma", then(lambda o, q: {
        "Sigma": each_matrix(lambda S: inverse(flat_diagonal(inverse(S))))(o["Sigma"])})),
    ("Padding", "the 1 comes first in x~", using(network, pad=first_pad)),
    ("Padding", "the bias of the expert is left out", using(network, pad=lambda x: [*x, mpf(0)])),
    ("ColumnMajor", "M read column by column", given(M=lambda q: column_major(q["M"]))),
    ("ColumnMajor", "X read column by column", given(X=lambda q: column_major(q["X"]))),
    ("ColumnMajor", "beta1_mu read column by column", given(beta1_mu=lambda q: column_major(q["beta1_mu"]))),
]
OMEGA1 = [
    ("HalfAngle", "the square of the tilt: the root is missing", then(lambda o, q: {"xi1": squared(o["xi1"])})),
    ("SecondMoment", "the mean logit for the root of its second moment", given(Sigma=lambda q: zero(q["Sigma"]), beta1_S=lambda q: zero(q["beta1_S"]))),
    ("SecondMoment", "the covariance of x1 is forgotten", given(Sigma=lambda q: zero(q["Sigma"]))),
    ("SecondMoment", "the covariance of beta_1 is forgotten", given(beta1_S=lambda q: zero(q["beta1_S"]))),
    ("SecondMoment", "the deviation of the logit for the root of its second moment", then(lambda o, q: {
        "xi1": less(o["xi1"], network.output_logits(q["mu"], q["Sigma"], q["beta1_mu"], q["beta1_S"])[0])})),
    ("CrossTerm", "the cross term between weight and bias is left out", using(network, padded_second_moment=no_cross)),
    ("Padding", "the 1 comes first", using(network, pad=first_pad, padded_second_moment=first)),
    ("Padding", "the bias is left out", using(network, padded_second_moment=lambda m, S: border(m, second_moment(m, S), 0, 0))),
    ("CovarianceAsPrecision", "Sigma inverted", given(Sigma=lambda q: matrices(q["Sigma"]))),
    ("CovarianceAsPrecision", "beta1_S inverted", given(beta1_S=lambda q: matrices(q["beta1_S"]))),
    ("ColumnMajor", "mu read column by column", given(mu=lambda q: column_major(q["mu"]))),
    ("ColumnMajor", "beta1_mu read column by column", given(beta1_mu=lambda q: column_major(q["beta1_mu"]))),
    ("ReversedOrder", "sticks in reverse order", then(lambda o, q: {"xi1": [[r[::-1] for r in rows] if isinstance(rows[0], list) else rows[::-1]
                                                                            for rows in o["xi1"]]})),
    ("SharedTilt", "a shared tilt averaged without gamma", shared_tilt(lambda g, squares: mp.sqrt(sum(squares) / len(squares)))),
    ("SharedTilt", "a shared tilt averaged over roots", shared_tilt(lambda g, squares: sum(w * mp.sqrt(v) for w, v in zip(g, squares)))),
    ("SharedTilt", "a shared tilt summed without gamma", shared_tilt(lambda g, squares: mp.sqrt(sum(squares)))),
    ("SharedTilt", "a shared tilt weighted by gamma^2", shared_tilt(lambda g, squares: mp.sqrt(sum(w * w * v for w, v in zip(g, squares))))),
]


def less(xi, psi):
    if isinstance(xi, list):
        return [less(x, p) for x, p in zip(xi, psi, strict=True)]
    return mp.sqrt(abs(xi * xi - psi * psi))


OMEGA0 = [
    ("HalfAngle", "the square of the tilt: the root is missing", then(lambda o, q: {"xi0": squared(o["xi0"])})),
    ("SecondMoment", "the mean logit for the root of its second moment", given(beta0_S=lambda q: zero(q["beta0_S"]))),
    ("SecondMoment", "the deviation of the logit for the root of its second moment", given(beta0_mu=lambda q: zero(q["beta0_mu"]))),
    ("Padding", "the 1 comes first", using(network, pad=first_pad)),
    ("Padding", "the bias is left out", using(network, pad=lambda x: [*x, mpf(0)])),
    ("CovarianceAsPrecision", "beta0_S inverted", given(beta0_S=lambda q: matrices(q["beta0_S"]))),
    ("ColumnMajor", "X read column by column", given(X=lambda q: column_major(q["X"]))),
    ("ColumnMajor", "beta0_mu read column by column", given(beta0_mu=lambda q: column_major(q["beta0_mu"]))),
    ("ReversedOrder", "sticks in reverse order", then(lambda o, q: {"xi0": backwards(1)(o["xi0"])})),
]


# ---- q(z): a sum of four parts

def score(output=1, expert=1, entropy=1, gate=1):
    """The parts with other weights, or with other functions of the state."""
    def part(new, old):
        return (lambda s: new(s, old)) if callable(new) else (lambda s: [[new * v for v in row] for row in old(s)])
    def answer(right, **q):
        with pieces(network, output_bounds=part(output, network.output_bounds), expert_bounds=part(expert, network.expert_bounds),
                    latent_entropies=part(entropy, network.latent_entropies), gate_bounds=part(gate, network.gate_bounds)):
            return right(**q)
    return answer


def under(**new):
    """A part of the score with exchanged pieces of the network."""
    def part(s, old):
        with pieces(network, **new):
            return old(s)
    return part


def at(**changes):
    """A part of the score at changed arguments."""
    return lambda s, old: old({**s, **{name: change(s) for name, change in changes.items()}})


def x_first(q):
    moved = network.update_x(q)
    return {**q, **moved}


def gate_walk(rule):
    """Gate scores of each row by a rule of (gain of stopping, gain of passing) for each stick."""
    def part(s, old):
        psi, psi2 = network.gate_logits(s["X"], s["beta0_mu"], s["beta0_S"])
        out = []
        for p, p2, x in zip(psi, psi2, s["xi0"], strict=True):
            cost = [network.LOG2() + theta(xi) * v / 2 + tilt_kl(xi) for v, xi in zip(p2, x, strict=True)]
            out.append(rule([v / 2 - c for v, c in zip(p, cost)], [-v / 2 - c for v, c in zip(p, cost)]))
        return out
    return part


def walked(stop, go):
    reach, out = mpf(0), []
    for s, g in zip(stop, go):
        out.append(reach + s)
        reach += g
    return [*out, reach]


def spread(factor):
    """Expert scores with another weight on x~^T V x~: factor(h), which is 1."""
    def part(s, old):
        h, still, flat_V = len(s["M"][0]), old(s), old({**s, "V": zero(s["V"])})
        return [[f + factor(h) * (v - f) for v, f in zip(*rows, strict=True)] for rows in zip(still, flat_V, strict=True)]
    return part


no_kl = lambda c: mpf(0)
minus_kl = lambda c: -tilt_kl(c)
SCORES = [
    ("MissingEntropy", "the entropy of q(x1) is left out", {"entropy": 0}),
    ("MissingEntropy", "the entropy of q(x1) with the wrong sign", {"entropy": -1}),
    ("MissingEntropy", "the entropy of q(x1) without its half", {"entropy": 2}),
    ("MissingTiltKL", "the divergence of omega_1 is left out", {"output": under(tilt_kl=no_kl)}),
    ("MissingTiltKL", "the divergence of omega_0 is left out", {"gate": under(tilt_kl=no_kl)}),
    ("MissingTiltKL", "the divergences of omega_1 and omega_0 are left out", {"output": under(tilt_kl=no_kl), "gate": under(tilt_kl=no_kl)}),
    ("MissingTiltKL", "the divergence of omega_1 with the wrong sign", {"output": under(tilt_kl=minus_kl)}),
    ("MissingTiltKL", "the divergence of omega_0 with the wrong sign", {"gate": under(tilt_kl=minus_kl)}),
    ("StaleTilt", "ln 2 cosh at fresh tilts in the gate, not the stored ones", {"gate": at(xi0=fresh0)}),
    ("StaleTilt", "ln 2 cosh at fresh tilts in the output, not the stored ones", {"output": at(xi1=fresh1)}),
    ("StaleTilt", "ln 2 cosh at fresh tilts in gate and output", {"output": at(xi1=fresh1), "gate": at(xi0=fresh0)}),
    ("OffByOneStick", "the gate passes the previous stick only", {"gate": gate_walk(lambda s, g: [b + v for b, v in zip([0, *g], s)] + [[0, *g][-1]])}),
    ("FlippedStick", "the gate flipped: sigma(psi) taken as passing on", {"gate": gate_walk(lambda s, g: walked(g, s))}),
    ("ReversedOrder", "experts in reverse order in the gate", {"gate": lambda s, old: [row[::-1] for row in old(s)]}),
    ("LatentDimension", "x~^T V x~ counted once, not for each of the h rows", {"expert": spread(lambda h: mpf(1) / h)}),
    ("SecondMoment", "x~^T V x~, the uncertainty of A, is left out", {"expert": spread(lambda h: 0)}),
    ("DroppedConstant", "x~^T V x~ without its half", {"expert": spread(lambda h: 2)}),
    ("CovarianceAsPrecision", "V read as a precision", {"expert": at(V=lambda q: matrices(q["V"]))}),
    ("SecondMoment", "Sigma is left out of the squared residual", {"expert": at(Sigma=lambda q: zero(q["Sigma"]))}),
    ("RateScale", "b read as a scale", {"expert": at(b=scale)}),
    ("PlugIn", "ln(a/b) for E[ln tau]", {"expert": under(digamma=mp.log)}),
    ("SecondMoment", "the covariance of x1 is forgotten in the output", {"output": at(Sigma=lambda q: zero(q["Sigma"]))}),
    ("SecondMoment", "the covariance of beta_1 is forgotten", {"output": at(beta1_S=lambda q: zero(q["beta1_S"]))}),
    ("SecondMoment", "the covariance of beta_0 is forgotten", {"gate": at(beta0_S=lambda q: zero(q["beta0_S"]))}),
    ("DroppedConstant", "ln 2 is missing in the gate", {"gate": under(LOG2=lambda: mpf(0))}),
    ("DroppedConstant", "ln 2 is missing in gate and output", {"gate": under(LOG2=lambda: mpf(0)), "output": under(LOG2=lambda: mpf(0))}),
    *((flag, words, {"output": under(labels=labels)}) for flag, words, labels in OUTPUT_LABELS),
    *((flag, f"{words}, in output and gate", {"output": under(theta=function), "gate": under(theta=function)}) for flag, words, function in TILTS),
    *((flag, f"{words}, in the output", {"output": under(theta=function)}) for flag, words, function in TILTS),
    *((flag, f"{words}, in the gate", {"gate": under(theta=function)}) for flag, words, function in TILTS),
    ("MissingEntropy", "the labels are left out of q(z)", {"output": 0}),
    ("Padding", "the 1 comes first in x~", {"expert": under(pad=first_pad), "gate": under(pad=first_pad)}),
    ("ColumnMajor", "M read column by column", {"expert": at(M=lambda q: column_major(q["M"]))}),
]
Z = [(flag, words, score(**parts)) for flag, words, parts in SCORES if words != "the labels are left out of q(z)"] + [
    ("StaleTilt", "the log normaliser of q(x1): holds only right after its update", lambda right, **q: right(**x_first(q))),
    ("ColumnMajor", "gamma written column by column", then(lambda o, q: {"gamma": column_major(o["gamma"])})),
    ("ColumnMajor", "X read column by column", given(X=lambda q: column_major(q["X"]))),
    ("ReversedOrder", "experts in reverse order", then(lambda o, q: {"gamma": backwards(1)(o["gamma"])})),
]


# ---- the M-step

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
        m, total = o["M"][k][i], prior * sum(c * c for c in o["M"][k][i]) / q["v0"]
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
# another choice of the profile than the case needs; an operation that does not read it answers the same
CONVENTIONS = [(flag, words, given(**{key: lambda q, value=value: value})) for flag, words, key, value in (
    ("CentredSticks", "prior means of the biases are -ln(C - 1 - j), not as the profile says", "prior_mean", "centred"),
    ("CentredSticks", "prior means of 0, not as the profile says", "prior_mean", "zero"),
    ("StaleTilt", "tilts as stored, not as the profile says", "tilts", "given"),
    ("StaleTilt", "tilts refreshed, not as the profile says", "tilts", "fresh"),
    ("RestartedTilt", "tilts kept from sweep to sweep, not as the profile says", "tilt_start", "kept"),
    ("RestartedTilt", "tilts of 0 at the start of each sweep, not as the profile says", "tilt_start", "restarted"),
    ("SharedTilt", "one tilt for all experts, not as the profile says", "experts", "pooled"),
    ("SharedTilt", "a tilt of each expert, not as the profile says", "experts", "each"))]
BUGS = {"update_x": X, "update_omega1": OMEGA1, "update_omega0": OMEGA0, "update_z": Z, "update_beta1": B1, "update_beta0": B0, "update_experts": EXPERTS}
