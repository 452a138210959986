"""Wrong formulas of scales that are learned.  None has an answer where the scales are fixed."""

import network
import scales
import shared
from loops import dot, trace
from mpmath import mp, mpf
from special import digamma, log
from wrong import given, pieces, reciprocal, then

MINE = ("ScaleMean", "ScaleForgotten", "ScaleCount", "ScaleMisfit", "ScalePrior", "ScaleLog")


def learned(answer):
    """Only where scales are learned."""
    def wrong(right, **q):
        q["lam_mean"]
        return answer(right, **q)
    return wrong


def with_pieces(**new):
    def answer(right, **q):
        with pieces(scales, **new):
            return right(**q)
    return learned(answer)


# ---- the scales that others meet

def met(change):
    """Other values of E[lambda] than the means of q: change(mean, shape, variance of the prior) of each block."""
    return lambda s: [change(*block) for block in zip(s["lam_mean"], s["lam_shape"], scales.variances(s), strict=True)]


def above(c):
    """A shape under which 1/lambda has a mean."""
    if c <= 1:
        raise ArithmeticError("no mean")
    return c


AVERAGES = [
    ("ScaleMean", "E[1/lambda] for 1/E[lambda]: the mode of q(lambda)", met(lambda m, c, v: m * (above(c) - 1) / c)),
    ("ScaleMean", "exp(E ln lambda) for E[lambda]", met(lambda m, c, v: m * mp.exp(digamma(c) - log(c)))),
    ("ScaleMean", "E[lambda^-1/2] for E[lambda]^-1/2", met(lambda m, c, v: m / c * (mp.gamma(c) / mp.gamma(c - mpf(1) / 2)) ** 2)),
    ("ScaleForgotten", "the prior's scale: q(lambda) is not read", met(lambda m, c, v: 1 / v)),
    ("ScaleForgotten", "the scale of another block", lambda s: [s["lam_mean"][i] for i in (1, 2, 0)]),
    ("VarianceAsDeviation", "lambda read as 1/sigma", lambda s: [s["lam_mean"][0], *(m * m for m in s["lam_mean"][1:])]),
    ("CovarianceAsPrecision", "lambda read as a variance", lambda s: reciprocal(s["lam_mean"])),
]
PRIOR_GONE = ("PriorMissing", "no prior precision", lambda s: [m * mpf(10) ** -30 for m in s["lam_mean"]])
meeting = [(flag, words, learned(given(lam_mean=change))) for flag, words, change in [*AVERAGES, PRIOR_GONE]]
right_in_force, right_update, right_experts, right_sticks = scales.in_force, scales.update, scales.of_experts, scales.of_sticks


def in_force_by(change):
    """The same within a sweep or a bound: every factor meets other means."""
    return lambda s: right_in_force({**s, "lam_mean": change(s)} if scales.learned(s) else s)


# ---- misfits and numbers of coefficients

def rows_of(s):
    return [(k, i, m) for k, M in enumerate(s["M"]) for i, m in enumerate(M)]


def experts_by(part):
    """of_experts with another contribution of each row: part(s, k, i, m, tau)."""
    return lambda s: (sum((part(s, k, i, m, s["a"][k] / s["b"][k][i]) for k, i, m in rows_of(s)), mpf(0)), right_experts(s)[1])


def sticks_by(part):
    """of_sticks with another contribution of each stick: part(gap, S, mu)."""
    def of_sticks(s, name, centres):
        total = mpf(0)
        for mu, S, centre in zip(s[f"{name}_mu"], s[f"{name}_S"], centres, strict=True):
            total += part([x - y for x, y in zip(mu, centre or [mpf(0)] * len(mu), strict=True)], S, mu)
        return total, right_sticks(s, name, centres)[1]
    return of_sticks


def counted(experts=lambda n, s: n, sticks=lambda n, s, name: n):
    """Other numbers of coefficients."""
    def of_sticks(s, name, centres):
        Q, n = right_sticks(s, name, centres)
        return Q, sticks(n, s, name)

    def of_experts(s):
        Q, n = right_experts(s)
        return Q, experts(n, s)

    def sizes(s):
        return [experts(SIZES(s)[0], s), *(sticks(n, s, name) for n, name in zip(SIZES(s)[1:], ("beta0", "beta1"), strict=True))]
    return {"of_experts": of_experts, "of_sticks": of_sticks, "sizes": sizes}


SIZES = scales.sizes
K, h, D = (lambda s: len(s["M"])), (lambda s: len(s["M"][0])), (lambda s: len(s["V"][0]))
no_bias = lambda n, s, name: n - len(s[f"{name}_mu"])
COUNTS = [
    ("ScaleCount", "biases are not counted", counted(lambda n, s: n - K(s) * h(s), no_bias)),
    ("ScaleCount", "biases of the sticks are not counted", counted(sticks=no_bias)),
    ("ScaleCount", "one expert is counted, not K of them", counted(lambda n, s: n // K(s))),
    ("ScaleCount", "n = K D of the experts: the factor h is missing", counted(lambda n, s: n // h(s))),
    ("ScaleCount", "a stick for each class and expert: one too many", counted(sticks=lambda n, s, name: n + (len(s["beta1_mu"][0]) if name == "beta1" else D(s)))),
    ("ScaleCount", "the rows of the data are counted", counted(lambda n, s: len(s["X"]), lambda n, s, name: len(s["X"]))),
    ("ScaleCount", "n for n/2", counted(lambda n, s: 2 * n, lambda n, s, name: 2 * n)),
]
MISFITS = [
    ("ScaleMisfit", "the covariances are left out", {"of_experts": experts_by(lambda s, k, i, m, tau: tau * shared.misfit(s, i, m)), "of_sticks": sticks_by(lambda gap, S, mu: dot(gap, gap))}),
    ("ScaleMisfit", "E[tau] is left out", {"of_experts": experts_by(lambda s, k, i, m, tau: shared.misfit(s, i, m) + trace(s["V"][k]))}),
    ("ScaleMisfit", "E[tau] stands at the covariance as well", {"of_experts": experts_by(lambda s, k, i, m, tau: tau * (shared.misfit(s, i, m) + trace(s["V"][k])))}),
    ("ScaleMisfit", "tr V once for an expert, not for each of h rows", {"of_experts": experts_by(lambda s, k, i, m, tau: tau * shared.misfit(s, i, m) + trace(s["V"][k]) / h(s))}),
    ("ScaleMisfit", "the bias column is left out", {
        "of_experts": experts_by(lambda s, k, i, m, tau: tau * (shared.misfit(s, i, m) - m[-1] ** 2) + trace(s["V"][k]) - s["V"][k][-1][-1]),
        "of_sticks": sticks_by(lambda gap, S, mu: dot(gap[:-1], gap[:-1]) + trace(S) - S[-1][-1])}),
    ("ScaleMisfit", "the squares of the means are left out", {"of_experts": experts_by(lambda s, k, i, m, tau: trace(s["V"][k])), "of_sticks": sticks_by(lambda gap, S, mu: trace(S))}),
    ("ScaleMisfit", "sticks about 0, not about their prior means", {"of_sticks": sticks_by(lambda gap, S, mu: dot(mu, mu) + trace(S))}),
    ("ScaleMisfit", "Q for Q/2", {"misfits": (lambda right: lambda s, *centres: [(2 * Q, n) for Q, n in right(s, *centres)])(scales.misfits)}),
    ("MeanPull", "experts about 0, not about the mean that all share", {"of_experts": experts_by(lambda s, k, i, m, tau: tau * (dot(m, m) + D(s) * s["A0_var"][i]) + trace(s["V"][k]))}),
    ("MeanSpread", "the variance of A_0 is left out of the misfit", {"of_experts": experts_by(lambda s, k, i, m, tau: tau * shared.misfit({**s, "A0_var": [mpf(0)] * len(s["A0_var"])}, i, m) + trace(s["V"][k]))}),
    ("MeanSpread", "the variance of A_0 once in the misfit, not for each of D entries", {"of_experts": experts_by(lambda s, k, i, m, tau: tau * shared.misfit(
        {**s, "A0_var": [v / D(s) for v in s["A0_var"]]}, i, m) + trace(s["V"][k]))}),
]
PRIORS = [
    ("ScalePrior", "the prior's rate is its shape: its mean is 1", lambda s: [mpf(1)] * 3),
    ("ScalePrior", "the prior's mean is the variance, not its inverse", lambda s: reciprocal(variances(s))),
    ("ScalePrior", "the prior's mean is 1/sigma, not 1/sigma^2", lambda s: [s["v0"], s["sigma0"], s["sigma1"]]),
    ("ScalePrior", "no prior: its rate is left out", lambda s: [mpf(0)] * 3),
]
variances = scales.variances


def strengthened(change):
    """Another strength in the shape and in the rate, or in one of them."""
    return learned(given(strength=change))


def shapes(change):
    """q(lambda) of another shape, of the same rate."""
    return learned(then(lambda o, q: {"lam_shape": [change(c, q) for c in o["lam_shape"]], "lam_mean": [m * change(c, q) / c for m, c in zip(o["lam_mean"], o["lam_shape"], strict=True)]}))


UPDATE = [
    *((flag, words, with_pieces(**new)) for flag, words, new in [*COUNTS, *MISFITS]),
    *((flag, words, with_pieces(variances=change)) for flag, words, change in PRIORS),
    ("ScalePrior", "no prior: shape n/2 and rate Q/2", strengthened(lambda q: mpf(10) ** -30)),
    ("ScalePrior", "the prior's shape is left out of the shape", shapes(lambda c, q: c - q["strength"])),
    ("ScaleMean", "the mode of q(lambda) for its mean", learned(then(lambda o, q: {"lam_mean": [m * (c - 1) / c for m, c in zip(o["lam_mean"], o["lam_shape"], strict=True)]}))),
    ("ScaleMean", "the mean of 1/lambda for that of lambda", learned(then(lambda o, q: {"lam_mean": [c / m / (above(c) - 1) for m, c in zip(o["lam_mean"], o["lam_shape"], strict=True)]}))),
    ("ScaleForgotten", "q(lambda) as it came in", learned(then(lambda o, q: {name: q[name] for name in o}))),
    ("RateScale", "b read as a scale: E[tau] = a b", learned(given(b=lambda q: reciprocal(q["b"])))),
    ("VarianceAsDeviation", "sigma0 and sigma1 read as variances", learned(given(sigma0=lambda q: mp.sqrt(q["sigma0"]), sigma1=lambda q: mp.sqrt(q["sigma1"])))),
    ("WrongDimension", "sticks of D entries in the output as well", with_pieces(**counted(sticks=lambda n, s, name: len(s[f"{name}_mu"]) * D(s)))),
    ("CovarianceAsPrecision", "v0 read as a precision", learned(given(v0=lambda q: 1 / q["v0"]))),
    ("CentredSticks", "the next class counts as well: -ln(L - l)", lambda right, **q: centred_off(right, **q)),
]


def centred_off(right, **q):
    """Prior means one class off."""
    if q.get("prior_mean") != "centred":
        raise KeyError("prior_mean")
    q["lam_mean"]
    found = network.prior_means
    with pieces(network, prior_means=lambda s, name: [[*row[:-1], -log(mpf(len(s[f"{name}_mu"]) - j + 1))] for j, row in enumerate(found(s, name))]):
        return right(**q)


# ---- the bound

def logs(s):
    """n/2 (E ln lambda - ln E lambda) of all blocks."""
    return sum((mpf(n) / 2 * (digamma(c) - log(c)) for n, c in zip(scales.sizes(s), s["lam_shape"], strict=True)), mpf(0))


def more(change):
    return learned(then(lambda o, q: {"value": o["value"] + change(q)}))


def prior_by(change):
    return learned(given(v0=lambda q: change(q)[0], sigma0=lambda q: mp.sqrt(change(q)[1]), sigma1=lambda q: mp.sqrt(change(q)[2])))


def bound_parts(sign):
    """What is left out of the divergence of the scales, or of the bound: sign +1 and -1."""
    return [
        ("ScaleLog", "E ln lambda for ln E lambda is left out", more(lambda q: sign * logs(q))),
        ("ScaleLog", "n/2 (E ln lambda - ln E lambda) with the wrong sign", more(lambda q: 2 * sign * logs(q))),
        ("ScaleLog", "n for n/2 of the logarithms", more(lambda q: -sign * logs(q))),
        ("ScaleLog", "the divergence of q(lambda) is left out", more(lambda q: -sign * (scales.kl(q) + logs(q)))),
        ("ScaleLog", "all that the scales say is left out", more(lambda q: -sign * scales.kl(q))),
        ("ScaleLog", "all that the scales say with the wrong sign", more(lambda q: -2 * sign * scales.kl(q))),
    ]


KL = [
    *bound_parts(1),
    *((flag, words, with_pieces(sizes=new["sizes"])) for flag, words, new in COUNTS),
    *((flag, words, prior_by(change)) for flag, words, change in PRIORS[:3]),
    ("ScalePrior", "a prior of shape 1 and the same mean", learned(given(strength=lambda q: mpf(1)))),
    ("ScalePrior", "the shape of q(lambda) for its prior's", learned(lambda right, **q: one_strength(right, **q))),
    ("VarianceAsDeviation", "sigma0 and sigma1 read as variances", learned(given(sigma0=lambda q: mp.sqrt(q["sigma0"]), sigma1=lambda q: mp.sqrt(q["sigma1"])))),
    ("DroppedConstant", "the first block only", learned(lambda right, **q: {"value": only_first(q)})),
    ("WrongDimension", "sticks of D entries in the output as well", with_pieces(sizes=lambda s: [*SIZES(s)[:2], len(s["beta1_mu"]) * D(s)])),
]


def one_strength(right, **q):
    """strength + n/2, as if the prior had seen the coefficients."""
    return {"value": sum((block_kl(m, c, v, q["strength"] + mpf(n) / 2, n) for m, c, v, n in zip(q["lam_mean"], q["lam_shape"], variances(q), SIZES(q), strict=True)), mpf(0))}


def only_first(q):
    return block_kl(q["lam_mean"][0], q["lam_shape"][0], q["v0"], q["strength"], SIZES(q)[0])


def block_kl(m, c, v, c0, n):
    return network.gamma_kl(c, c / m, c0, c0 * v) - mpf(n) / 2 * (digamma(c) - log(c))


def log_of_block(i):
    """The difference of logarithms put into the divergence of the coefficients as well."""
    return ("ScaleLog", "E ln lambda for ln E lambda in the divergence of the coefficients, which kl_scales has already", more(
        lambda q: -mpf(SIZES(q)[i]) / 2 * (digamma(q["lam_shape"][i]) - log(q["lam_shape"][i]))))


FORCE = [(flag, words, with_pieces(in_force=in_force_by(change))) for flag, words, change in AVERAGES]
ELBO = [*bound_parts(-1), *FORCE, *((flag, words, with_pieces(sizes=new["sizes"])) for flag, words, new in COUNTS)]

# ---- sweeps


def sweep_of(change):
    right = network.steps
    def answer(r, **q):
        with pieces(network, steps=lambda s, *choices: change(list(right(s, *choices)))):
            return r(**q)
    return learned(answer)


def still(s, *centres):
    return {name: s[name] for name in ("lam_mean", "lam_shape")}


others = lambda names: [name for name in names if name != "scales"]
SWEEPS = [
    ("UpdateOrder", "the scales last, from the new coefficients", sweep_of(lambda names: [*others(names), "scales"])),
    ("UpdateOrder", "the scales just before the coefficients", sweep_of(lambda names: [n for name in others(names) for n in (("scales", name) if name == "beta1" else (name,))])),
    ("UpdateOrder", "the scales once more at the end", sweep_of(lambda names: [*names, "scales"])),
    ("UpdateOrder", "the shared mean before the scales", sweep_of(lambda names: ["shared", "scales", *names[2:]] if "shared" in names else others(names) + ["missing"])),
    ("UpdateOrder", "q(lambda) is never updated", with_pieces(update=still)),
    FORCE[0], FORCE[3],
    *((flag, words, with_pieces(**{name: f for name, f in new.items() if name != "sizes"})) for flag, words, new in [COUNTS[0], COUNTS[2], COUNTS[-1], *MISFITS[:2], *MISFITS[6:]]),
    *((flag, words, with_pieces(variances=change)) for flag, words, change in PRIORS[:2]),
]


def last_bound(right, **q):
    outs = right(**q)
    return {**outs, "elbo": [outs["elbo"][-1] + scales.kl({**q, **outs})]}


def last_logs(right, **q):
    outs = right(**q)
    return {**outs, "elbo": [outs["elbo"][-1] - logs({**q, **outs})]}


LAST_BOUND = [("ScaleLog", "all that the scales say is left out of the bound", learned(last_bound)), ("ScaleLog", "E ln lambda for ln E lambda is left out of the bound", learned(last_logs))]
UNMOVED = ("UpdateOrder", "the scales are left out of the residual", learned(lambda right, **q: {"residual": network.residual(
    {name: v for name, v in q.items() if name != "lam_mean"}, network.sweep({name: v for name, v in q.items() if name not in ("order", "inner")}, q.get("order", "canonical"), q.get("inner", 1)))}))
OTHERS = {"update_scales": UPDATE, "update_beta1": meeting, "update_beta0": meeting, "update_experts": meeting, "update_shared": meeting, "kl_scales": KL,
          "kl_beta1": [*meeting, log_of_block(2)], "kl_beta0": [*meeting, log_of_block(1)], "kl_experts": [*meeting, log_of_block(0)], "elbo": ELBO, "sweeps": [*SWEEPS, *LAST_BOUND],
          "stationarity": [UNMOVED, *SWEEPS], "forecast": SWEEPS}
