"""Wrong formulas of level 1: moments, divergences, entropies."""

import network
from loops import dot, inverse, log_det, trace
from mpmath import mp, mpf
from network import LOG2PI, gamma_kl, padded_second_moment, second_moment
from special import digamma, log, log_cosh_half, log_gamma, theta, tilt_kl
from wrong import backwards, column_major, each_matrix, formula, given, negative, reciprocal, then, using, zero

SQUARE_FORGOTTEN = "E[x] E[x]^T for E[x x^T]"


def value(function):
    return lambda right, **q: {"value": function(**q)}


def border(mu, E, beside=1, corner=1):
    """The padded matrix about E, its border changed."""
    return [[*row, beside * m] for row, m in zip(E, mu, strict=True)] + [[*(beside * m for m in mu), mpf(corner)]]


def first(mu, S):
    E = second_moment(mu, S)
    return [[mpf(1), *mu]] + [[m, *row] for m, row in zip(mu, E, strict=True)]


minus_outer = lambda mu, S: [[2 * S[i][j] - E for j, E in enumerate(row)] for i, row in enumerate(second_moment(mu, S))]
flat_diagonal = lambda S: [[v if i == j else mpf(0) for j, v in enumerate(row)] for i, row in enumerate(S)]
MOMENT = [
    ("SecondMoment", f"{SQUARE_FORGOTTEN}: the covariance is forgotten", given(S=lambda q: zero(q["S"]))),
    ("SecondMoment", "the covariance for E[x x^T]: the mean is forgotten", value(lambda mu, S: S)),
    ("SecondMoment", "the covariance minus E[x] E[x]^T", value(minus_outer)),
    ("SecondMoment", "only the diagonal of the covariance", given(S=lambda q: flat_diagonal(q["S"]))),
    ("CovarianceAsPrecision", "S inverted", given(S=lambda q: inverse(q["S"]))),
]
PADDED = [
    ("Padding", "the 1 comes first", value(first)),
    ("CrossTerm", "0 for the mean beside the 1", value(lambda mu, S: border(mu, second_moment(mu, S), 0))),
    ("CrossTerm", "the mean beside the 1 with the wrong sign", value(lambda mu, S: border(mu, second_moment(mu, S), -1))),
    ("Padding", "0 in the corner where 1 belongs", value(lambda mu, S: border(mu, second_moment(mu, S), 1, 0))),
    MOMENT[0],
    ("SecondMoment", "the covariance for E[x x^T]: the mean is forgotten", value(lambda mu, S: border(mu, S))),
    *MOMENT[3:],
]


def gauss_entropy(constant, half=mpf(1) / 2):
    return value(lambda S: constant(mpf(len(S))) + half * log_det(S))


ENTROPY = [
    ("DroppedConstant", "m/2 of m/2 (1 + ln 2 pi) is missing", gauss_entropy(lambda m: m / 2 * LOG2PI())),
    ("DroppedConstant", "ln 2 pi is missing", gauss_entropy(lambda m: m / 2)),
    ("DroppedConstant", "the constant is missing", gauss_entropy(lambda m: mpf(0))),
    ("DroppedConstant", "ln det S without its half", gauss_entropy(lambda m: m / 2 * (1 + LOG2PI()), 1)),
    ("DroppedConstant", "the constant without its half", gauss_entropy(lambda m: m * (1 + LOG2PI()))),
    ("CovarianceAsPrecision", "ln det S with the wrong sign: S read as a precision", gauss_entropy(lambda m: m / 2 * (1 + LOG2PI()), -mpf(1) / 2)),
    ("WrongDimension", "the constant of one dimension", gauss_entropy(lambda m: (1 + LOG2PI()) / 2)),
    ("DroppedConstant", "ln pi for ln 2 pi", gauss_entropy(lambda m: m / 2 * (1 + mp.log(mp.pi)))),
    ("MissingEntropy", "the entropy with the wrong sign", then(lambda o, q: {"value": negative(o["value"])})),
]


def gauss_kl(spread=lambda mu, S, s: (trace(S) + dot(mu, mu)) / s ** 2, constant=lambda m, s: -m + 2 * m * log(s), det=1, half=mpf(1) / 2):
    return value(lambda mu, S, sigma: half * (spread(mu, S, sigma) + constant(mpf(len(mu)), sigma) - det * log_det(S)))


GAUSS_KL = [
    ("VarianceAsDeviation", "sigma read as a variance", given(sigma=lambda q: mp.sqrt(q["sigma"]))),
    ("VarianceAsDeviation", "sigma squared once too often", given(sigma=lambda q: q["sigma"] ** 2)),
    ("CovarianceAsPrecision", "sigma^2 read as a precision", given(sigma=lambda q: 1 / q["sigma"])),
    ("CovarianceAsPrecision", "S read as a precision", given(S=lambda q: inverse(q["S"]))),
    ("DroppedConstant", "m ln sigma^2 is missing", gauss_kl(constant=lambda m, s: -m)),
    ("DroppedConstant", "-m is missing", gauss_kl(constant=lambda m, s: 2 * m * log(s))),
    ("DroppedConstant", "m ln sigma for m ln sigma^2", gauss_kl(constant=lambda m, s: -m + m * log(s))),
    ("DroppedConstant", "-m + m ln sigma^2 is missing", gauss_kl(constant=lambda m, s: mpf(0))),
    ("PriorMissing", "the mean is left out", gauss_kl(lambda mu, S, s: trace(S) / s ** 2)),
    ("PriorMissing", "the mean is not divided by sigma^2", gauss_kl(lambda mu, S, s: trace(S) / s ** 2 + dot(mu, mu))),
    ("SecondMoment", "the trace of S is left out", gauss_kl(lambda mu, S, s: dot(mu, mu) / s ** 2)),
    ("WrongDimension", "-1 for -m, ln sigma^2 once", gauss_kl(constant=lambda m, s: -1 + 2 * log(s))),
    ("WrongDimension", "-1 for -m", gauss_kl(constant=lambda m, s: -1 + 2 * m * log(s))),
    ("WrongDimension", "ln sigma^2 once for m dimensions", gauss_kl(constant=lambda m, s: -m + 2 * log(s))),
    ("DroppedConstant", "the half is missing", gauss_kl(half=mpf(1))),
    ("DroppedConstant", "ln det S is missing", gauss_kl(det=0)),
    ("CovarianceAsPrecision", "ln det S with the wrong sign", gauss_kl(det=-1)),
]
scale_of = lambda name: lambda q: reciprocal(q[name])
MEAN_LOG = [
    ("RateScale", "b read as a scale", given(b=scale_of("b"))),
    ("PlugIn", "ln(a/b): the logarithm of the mean", formula(lambda a, b: log(a) - log(b), "value")),
    ("DroppedConstant", "ln b is missing", formula(lambda a, b: digamma(a), "value")),
    ("RateScale", "the wrong sign", formula(lambda a, b: log(b) - digamma(a), "value")),
]


def gam_kl(function):
    return lambda right, a, b, a0, b0: {"value": [function(x, y, a0, b0) for x, y in zip(a, b, strict=True)]}


GAMMA_KL = [
    ("RateScale", "b and b0 read as scales", given(b=scale_of("b"), b0=scale_of("b0"))),
    ("RateScale", "b read as a scale", given(b=scale_of("b"))),
    ("RateScale", "b0 read as a scale", given(b0=scale_of("b0"))),
    ("RateScale", "b/b0 for b0/b in the last term", gam_kl(lambda a, b, a0, b0: gamma_kl(a, b, a0, b0) + a * ((b - b0) / b0 - (b0 - b) / b))),
    ("RateScale", "the logarithm of the rates with the wrong sign", gam_kl(lambda a, b, a0, b0: gamma_kl(a, b, a0, b0) - 2 * a0 * (log(b) - log(b0)))),
    ("DroppedConstant", "ln Gamma(a0) is missing", gam_kl(lambda a, b, a0, b0: gamma_kl(a, b, a0, b0) - log_gamma(a0))),
    ("DroppedConstant", "ln Gamma(a) is missing", gam_kl(lambda a, b, a0, b0: gamma_kl(a, b, a0, b0) + log_gamma(a))),
    ("DroppedConstant", "both ln Gamma are missing", gam_kl(lambda a, b, a0, b0: gamma_kl(a, b, a0, b0) + log_gamma(a) - log_gamma(a0))),
    ("DroppedConstant", "a0 ln b0 is missing", gam_kl(lambda a, b, a0, b0: gamma_kl(a, b, a0, b0) + a0 * log(b0))),
    ("DroppedConstant", "the last term is missing", gam_kl(lambda a, b, a0, b0: gamma_kl(a, b, a0, b0) - a * (b0 - b) / b)),
    ("DroppedConstant", "-a is missing in the last term", gam_kl(lambda a, b, a0, b0: gamma_kl(a, b, a0, b0) + a)),
    ("PlugIn", "ln a for digamma(a)", gam_kl(lambda a, b, a0, b0: gamma_kl(a, b, a0, b0) + (a - a0) * (log(a) - digamma(a)))),
    ("RateScale", "a0 and b0 exchanged", given(a0=lambda q: q["b0"], b0=lambda q: q["a0"])),
]


def mng(spread=None, mean=lambda a, rate, v0: a / rate / v0, gammas=lambda h: 1):
    """mng_kl with other parts: of V (times the rows), of the squared mean, and how many Gammas of h."""
    def answer(right, M, V, a, b, v0, a0, b0):
        out, sizes = [], {"K": mpf(len(M)), "h": mpf(len(M[0])), "D": mpf(len(V[0]))}
        for Mk, Vk, ak, bk in zip(M, V, a, b, strict=True):
            D, total = sizes["D"], mpf(0)
            part = trace(Vk) / v0 - D + D * log(v0) - log_det(Vk) if spread is None else spread(Vk, v0, **sizes)
            for m, rate in zip(Mk, bk, strict=True):
                total += (part + mean(ak, rate, v0) * dot(m, m)) / 2 + gammas(sizes["h"]) * gamma_kl(ak, rate, a0, b0)
            out.append(total)
        return {"value": out}
    return answer


def counted(size):
    return lambda V, v0, **n: trace(V) / v0 - size(**n) + size(**n) * log(v0) - log_det(V)


MNG = [
    ("RateScale", "b and b0 read as scales", given(b=scale_of("b"), b0=scale_of("b0"))),
    ("RateScale", "E[tau] = a b for a/b", mng(mean=lambda a, rate, v0: a * rate / v0)),
    ("RateScale", "b/a for a/b", mng(mean=lambda a, rate, v0: rate / a / v0)),
    ("RateScale", "E[tau] left out of the squared mean", mng(mean=lambda a, rate, v0: 1 / v0)),
    ("CovarianceAsPrecision", "v0 read as a precision", given(v0=lambda q: 1 / q["v0"])),
    ("CovarianceAsPrecision", "v0 read as a precision beside V", mng(lambda V, v0, D, **_: trace(V) * v0 - D - D * log(v0) - log_det(V))),
    ("CovarianceAsPrecision", "v0 read as a precision beside the mean", mng(mean=lambda a, rate, v0: a / rate * v0)),
    ("CovarianceAsPrecision", "V read as a precision", given(V=lambda q: [inverse(V) for V in q["V"]])),
    ("VarianceAsDeviation", "v0 read as a deviation", given(v0=lambda q: q["v0"] ** 2)),
    ("VarianceAsDeviation", "v0 read as a deviation beside V", mng(lambda V, v0, D, **_: trace(V) / v0 ** 2 - D + 2 * D * log(v0) - log_det(V))),
    ("WrongDimension", "V counted for one row, not for h", mng(lambda V, v0, D, h, **_: (trace(V) / v0 - D + D * log(v0) - log_det(V)) / h)),
    ("WrongDimension", "the number of experts for D", mng(counted(lambda K, **_: K))),
    ("WrongDimension", "the number of experts for D beside ln v0", mng(lambda V, v0, D, K, **_: trace(V) / v0 - D + K * log(v0) - log_det(V))),
    ("WrongDimension", "h for D", mng(counted(lambda h, **_: h))),
    ("WrongDimension", "h for D beside ln v0", mng(lambda V, v0, D, h, **_: trace(V) / v0 - D + h * log(v0) - log_det(V))),
    ("WrongDimension", "d for D", mng(counted(lambda D, **_: D - 1))),
    ("WrongDimension", "one Gamma for all h rows", mng(gammas=lambda h: 1 / h)),
    ("DroppedConstant", "-D is missing", mng(lambda V, v0, D, **_: trace(V) / v0 + D * log(v0) - log_det(V))),
    ("DroppedConstant", "D ln v0 is missing", mng(lambda V, v0, D, **_: trace(V) / v0 - D - log_det(V))),
    ("DroppedConstant", "ln det V is missing", mng(lambda V, v0, D, **_: trace(V) / v0 - D + D * log(v0))),
    ("DroppedConstant", "the divergence of tau is missing", mng(gammas=lambda h: 0)),
    ("PriorMissing", "the squared mean is missing", mng(mean=lambda a, rate, v0: 0)),
    ("ColumnMajor", "M read column by column", given(M=lambda q: column_major(q["M"]))),
    ("RateScale", "a0 and b0 exchanged", given(a0=lambda q: q["b0"], b0=lambda q: q["a0"])),
]
CATEGORICAL = [
    ("DroppedConstant", "in bits: log2 for ln", then(lambda o, q: {"value": [v / mp.log(2) for v in o["value"]]})),
    ("MissingEntropy", "the entropy with the wrong sign", then(lambda o, q: {"value": negative(o["value"])})),
    ("WrongDimension", "the mean over experts for the sum", then(lambda o, q: {"value": [v / len(q["gamma"][0]) for v in o["value"]]})),
    ("ColumnMajor", "gamma read column by column", given(gamma=lambda q: column_major(q["gamma"]))),
    ("MissingEntropy", "sum gamma^2 for the entropy", lambda right, gamma: {"value": [1 - dot(g, g) for g in gamma]}),
]


def moments(second, mean=lambda psi: psi):
    """Other second moments of a logit: of its first and second moment."""
    def change(psi, psi2):
        return [change(p, q) for p, q in zip(psi, psi2, strict=True)] if isinstance(psi, list) else second(psi, psi2)
    return then(lambda o, q: {"psi": mean(o["psi"]), "psi2": change(o["psi"], o["psi2"])})


first_pad = lambda x: [mpf(1), *x]
no_bias = lambda x: [*x, mpf(0)]
LOGITS = [
    ("SecondMoment", "the square of the mean logit for its second moment", moments(lambda p, p2: p * p)),
    ("SecondMoment", "the variance of the logit for its second moment", moments(lambda p, p2: p2 - p * p)),
    ("SecondMoment", "the root of the second moment", moments(lambda p, p2: mp.sqrt(p2))),
    ("Padding", "the 1 comes first", using(network, pad=first_pad, padded_second_moment=first)),
    ("Padding", "the 1 comes first in the mean logit", lambda right, **q: {**right(**q), "psi": using(network, pad=first_pad)(right, **q)["psi"]}),
    ("Padding", "the bias is left out of the mean logit", lambda right, **q: {**right(**q), "psi": using(network, pad=no_bias)(right, **q)["psi"]}),
    ("Padding", "the bias is left out", using(network, pad=no_bias, padded_second_moment=lambda m, S: border(m, second_moment(m, S), 0, 0))),
]


def centred(mu, S):
    """[mu; 1][mu; 1]^T: the covariance of x1 is forgotten."""
    return padded_second_moment(mu, zero(S))


def joint_spread(S, Sigma):
    return sum((dot(row[:len(Sigma)], other) for row, other in zip(S, Sigma)), mpf(0))


no_cross = lambda mu, S: border(mu, second_moment(mu, S), 0)
matrices = each_matrix(inverse)
GATE = [
    LOGITS[0], ("SecondMoment", "the mean's square is left out of the second moment", moments(lambda p, p2: p2 - p * p)), *LOGITS[2:],
    ("CovarianceAsPrecision", "beta0_S inverted", given(beta0_S=lambda q: matrices(q["beta0_S"]))),
    ("ColumnMajor", "X read column by column", given(X=lambda q: column_major(q["X"]))),
    ("ColumnMajor", "beta0_mu read column by column", given(beta0_mu=lambda q: column_major(q["beta0_mu"]))),
    ("ReversedOrder", "sticks in reverse order", then(lambda o, q: {n: backwards(1)(v) for n, v in o.items()})),
    ("SecondMoment", "only the diagonal of beta0_S", given(beta0_S=lambda q: [flat_diagonal(S) for S in q["beta0_S"]])),
]
OUTPUT = [
    LOGITS[0], ("SecondMoment", "the variance of the logit for its second moment", moments(lambda p, p2: p2 - p * p)), *LOGITS[2:],
    ("SecondMoment", "the covariance of x1 is forgotten", given(Sigma=lambda q: zero(q["Sigma"]))),
    ("SecondMoment", "the covariance of beta_1 is forgotten", given(beta1_S=lambda q: zero(q["beta1_S"]))),
    ("SecondMoment", "tr(S Sigma) is left out: one covariance at a time", then(lambda o, q: {"psi2": [
        [[v - joint_spread(S, T) for v, S in zip(row, q["beta1_S"])] for row, T in zip(rows, Sigmas)] for rows, Sigmas in zip(o["psi2"], q["Sigma"])]})),
    ("CrossTerm", "the cross term between weight and bias is left out", using(network, padded_second_moment=no_cross)),
    ("CovarianceAsPrecision", "Sigma inverted", given(Sigma=lambda q: matrices(q["Sigma"]))),
    ("CovarianceAsPrecision", "beta1_S inverted", given(beta1_S=lambda q: matrices(q["beta1_S"]))),
    ("ColumnMajor", "mu read column by column", given(mu=lambda q: column_major(q["mu"]))),
    ("ColumnMajor", "beta1_mu read column by column", given(beta1_mu=lambda q: column_major(q["beta1_mu"]))),
    ("ReversedOrder", "sticks in reverse order", then(lambda o, q: {n: backwards(2)(v) for n, v in o.items()})),
    ("SecondMoment", "only the diagonal of Sigma", given(Sigma=lambda q: each_matrix(flat_diagonal)(q["Sigma"]))),
]


def coins(cost, pull=lambda k, p, b: k * p, tossed=lambda b: b):
    """stick_log_bound with another cost(psi, psi2, xi) of a toss."""
    def answer(right, psi, psi2, xi, b, kappa):
        return {"value": [sum((pull(k, p, n) - tossed(n) * cost(p, p2, x) if tossed(n) else pull(k, p, n)
                               for p, p2, x, n, k in zip(*row, strict=True)), mpf(0)) for row in zip(psi, psi2, xi, b, kappa, strict=True)]}
    return answer


LN2 = lambda: mp.log(2)
toss = lambda p, p2, x: LN2() + theta(x) * p2 / 2 + tilt_kl(x)
BOUND = [
    ("StaleTilt", "ln 2 cosh(root of psi2 / 2): holds at fresh tilts only", coins(lambda p, p2, x: LN2() + log_cosh_half(mp.sqrt(p2)))),
    ("StaleTilt", "ln 2 cosh(xi/2): holds at fresh tilts only", coins(lambda p, p2, x: LN2() + log_cosh_half(x))),
    ("DroppedConstant", "ln 2 is missing", coins(lambda p, p2, x: theta(x) * p2 / 2 + tilt_kl(x))),
    ("DroppedConstant", "the half of theta psi2 / 2 is missing", coins(lambda p, p2, x: LN2() + theta(x) * p2 + tilt_kl(x))),
    ("MissingTiltKL", "the divergence of omega is left out", coins(lambda p, p2, x: LN2() + theta(x) * p2 / 2)),
    ("MissingTiltKL", "the divergence of omega with the wrong sign", coins(lambda p, p2, x: LN2() + theta(x) * p2 / 2 - tilt_kl(x))),
    ("SecondMoment", "the square of the mean logit for its second moment", coins(lambda p, p2, x: toss(p, p * p, x))),
    ("InactiveStick", "every stick is tossed: b is left out", coins(toss, tossed=lambda b: mpf(1))),
    ("UncentredKappa", "kappa + b/2: the label alone", coins(toss, lambda k, p, b: (k + b / 2) * p)),
    ("FlippedStick", "kappa with the wrong sign", coins(toss, lambda k, p, b: -k * p)),
    ("HalfAngle", "tanh(xi) for tanh(xi/2) in E[omega]", coins(lambda p, p2, x: LN2() + theta(2 * x) * p2 + tilt_kl(x))),
    ("HalfAngle", "half of E[omega]: lambda of Jaakkola and Jordan", coins(lambda p, p2, x: LN2() + theta(x) * p2 / 4 + tilt_kl(x))),
    ("HalfAngle", "the square of the tilt for the tilt", coins(lambda p, p2, x: toss(p, p2, x * x))),
    ("StaleTilt", "b/4 for E[omega]", coins(lambda p, p2, x: LN2() + p2 / 8)),
    ("DroppedConstant", "kappa psi is left out", coins(toss, lambda k, p, b: mpf(0))),
]
BUGS = {
    "second_moment": MOMENT, "padded_second_moment": PADDED, "gaussian_entropy": ENTROPY, "gaussian_kl": GAUSS_KL,
    "gamma_mean_log": MEAN_LOG, "gamma_kl": GAMMA_KL, "mng_kl": MNG, "categorical_entropy": CATEGORICAL,
    "gate_logits": GATE, "output_logits": OUTPUT, "stick_log_bound": BOUND,
}
