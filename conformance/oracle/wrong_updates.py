"""Wrong formulas of level 2: the local factors, x1, omega and z."""

import network
from level0 import counts
from loops import inverse
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
BUGS = {"update_x": X, "update_omega1": OMEGA1, "update_omega0": OMEGA0, "update_z": Z}
