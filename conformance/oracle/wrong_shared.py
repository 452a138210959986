"""Wrong formulas of the mean that all experts share.  Those of an operation of the plain model have no answer where nothing is shared, and stand after its own."""

import network
import shared
from mpmath import mp, mpf
from wrong import column_major, given, one, pieces, reciprocal, squared, then, using, zero

NONE = lambda q: zero(q["A0_mu"])
CERTAIN = lambda q: zero(q["A0_var"])


def kept(*names):
    """The answer with some outputs as they came in."""
    return then(lambda o, q: {name: q[name] for name in names})


def weights(function):
    """Other weights of the experts than E[tau]: function(k, i, q) in place of a_k / b_ki."""
    return given(a=lambda q: [mpf(1)] * len(q["a"]), b=lambda q: [[1 / function(k, i, q) for i in range(len(row))] for k, row in enumerate(q["b"])])


def rescaled(**changes):
    """One output of another question."""
    def answer(right, **q):
        return {name: right(**{**q, **change(q)})[name] for name, change in changes.items()}
    return answer


same = lambda q: {}
tau = lambda k, i, q: q["a"][k] / q["b"][k][i]
UPDATE = [
    ("MeanWeights", "E[tau] is left out: every expert counts 1/v0", weights(lambda k, i, q: mpf(1))),
    ("MeanWeights", "E[tau] is left out of the pull only", rescaled(A0_mu=lambda q: {"M": [[[v * q["b"][k][i] / q["a"][k] for v in m] for i, m in enumerate(M)]
                                                                                           for k, M in enumerate(q["M"])]}, A0_var=same)),
    ("MeanWeights", "v0 is left out: experts count E[tau]", given(v0=lambda q: mpf(1))),
    ("MeanWeights", "the average of the experts' precisions for their sum", weights(lambda k, i, q: tau(k, i, q) / len(q["a"]))),
    ("MeanWeights", "the average of the experts' precisions in the variance, their sum in the pull", then(lambda o, q: (lambda var: {
        "A0_var": var, "A0_mu": [[v * new / old for v in m] for m, new, old in zip(o["A0_mu"], var, o["A0_var"], strict=True)]})(
            [1 / (1 / q["v00"] + sum(tau(k, i, q) for k in range(len(q["a"]))) / len(q["a"]) / q["v0"]) for i in range(len(q["b"][0]))]))),
    ("MeanWeights", "experts weighted by their rows as well", given(a=lambda q: [a * sum((row[k] for row in q["gamma"]), mpf(0)) + mpf(10) ** -30 for k, a in enumerate(q["a"])])),
    ("MeanWeights", "the plain average of the experts", then(lambda o, q: {"A0_mu": [[sum(M[i][d] for M in q["M"]) / len(q["M"]) for d in range(len(m))] for i, m in enumerate(o["A0_mu"])]})),
    ("PriorMissing", "1/v00 is missing: nothing pulls to 0", given(v00=lambda q: mpf(10) ** 30)),
    ("VarianceAsDeviation", "v00 read as a deviation", given(v00=lambda q: q["v00"] ** 2)),
    ("CovarianceAsPrecision", "v00 read as a precision", given(v00=lambda q: 1 / q["v00"])),
    ("CovarianceAsPrecision", "v0 read as a precision", given(v0=lambda q: 1 / q["v0"])),
    ("CovarianceAsPrecision", "the precision for the variance", then(lambda o, q: {"A0_var": reciprocal(o["A0_var"])})),
    ("VarianceAsDeviation", "the deviation for the variance", then(lambda o, q: {"A0_var": [mp.sqrt(v) for v in o["A0_var"]]})),
    ("RateScale", "b read as a scale: E[tau] = a b", given(b=lambda q: reciprocal(q["b"]))),
    ("RateScale", "E[tau] = 1/b: the shape is left out", given(a=lambda q: one(q["a"]))),
    ("WrongDimension", "one precision for all rows: their average", weights(lambda k, i, q: sum(tau(k, j, q) for j in range(len(q["b"][k]))) / len(q["b"][k]))),
    ("WrongDimension", "the variance divided by D", then(lambda o, q: {"A0_var": [v / len(q["V"][0]) for v in o["A0_var"]]})),
    ("UpdateOrder", "q(A_0) as it came in", kept("A0_mu", "A0_var")),
    ("ColumnMajor", "M read column by column", given(M=lambda q: column_major(q["M"]))),
    ("ColumnMajor", "the mean written column by column", then(lambda o, q: {"A0_mu": column_major(o["A0_mu"])})),
]


def of_distance(change):
    """E|m - A_0i|^2 by another formula: change(s, i, m, gap)."""
    def misfit(s, i, m):
        gap = [x - y for x, y in zip(m, s["A0_mu"][i], strict=True)]
        return change(s, i, m, gap)
    return using(shared, misfit=misfit)


def shares(answer):
    """Only where something is shared."""
    def wrong(right, **q):
        q["A0_mu"]
        return answer(right, **q)
    return wrong


square = lambda v: sum((x * x for x in v), mpf(0))
SPREAD = [
    ("MeanSpread", "the variance of A_0 is left out", given(A0_var=CERTAIN)),
    ("MeanSpread", "the variance of A_0 once, not for each of D entries", given(A0_var=lambda q: [v / len(q["V"][0]) for v in q["A0_var"]])),
    ("MeanSpread", "twice the variance of A_0: a half is missing", given(A0_var=lambda q: [2 * v for v in q["A0_var"]])),
    ("MeanSpread", "the deviation of A_0 for its variance", given(A0_var=lambda q: [mp.sqrt(v) for v in q["A0_var"]])),
    ("MeanSpread", "v00 for the variance of q(A_0)", given(A0_var=lambda q: [q["v00"]] * len(q["A0_var"]))),
]
EXPERTS = [
    *SPREAD,
    ("MeanPull", "the prior mean is 0: A_0 is not read", given(A0_mu=NONE, A0_var=CERTAIN)),
    ("MeanPull", "the prior mean is 0, but the variance of A_0 stands in b", given(A0_mu=NONE)),
    ("MeanPull", "A_0 with the wrong sign", given(A0_mu=lambda q: [[-v for v in row] for row in q["A0_mu"]])),
    ("MeanPull", "the distance in b is measured from 0", shares(of_distance(lambda s, i, m, gap: square(m) + len(m) * s["A0_var"][i]))),
    ("MeanPull", "A_0 is added without 1/v0", using(shared, centre=lambda s, i: [v * s["v0"] for v in s["A0_mu"][i]])),
    ("MeanPull", "A_0 stands in b, but not in M", using(shared, centre=lambda s, i: zero(s["A0_mu"][i]))),
    ("MeanPull", "A_0 is subtracted before and not added after", then(lambda o, q: {"M": [[[x - y for x, y in zip(m, c)] for m, c in zip(M, q["A0_mu"])] for M in o["M"]]})),
    ("PriorMissing", "the distance to A_0 is left out of b", shares(of_distance(lambda s, i, m, gap: mpf(0)))),
    ("ColumnMajor", "A_0 read column by column", given(A0_mu=lambda q: column_major(q["A0_mu"]))),
]
KL_EXPERTS = [
    *SPREAD,
    ("MeanPull", "the prior mean is 0: A_0 is not read", given(A0_mu=NONE, A0_var=CERTAIN)),
    ("MeanPull", "the distance is measured from 0", given(A0_mu=NONE)),
    ("MeanSpread", "the variance of A_0 without E[tau]", then(lambda o, q: {"value": o["value"] + sum(
        len(q["V"][0]) * q["A0_var"][i] / q["v0"] / 2 * (1 - a / rate) for a, row in zip(q["a"], q["b"]) for i, rate in enumerate(row))})),
    ("ColumnMajor", "A_0 read column by column", given(A0_mu=lambda q: column_major(q["A0_mu"]))),
]
D = lambda q: len(q["V"][0])
KL_SHARED = [
    ("DroppedConstant", "D ln v00 is missing", then(lambda o, q: {"value": o["value"] - len(q["A0_var"]) * D(q) * mp.log(q["v00"]) / 2})),
    ("DroppedConstant", "-D is missing", then(lambda o, q: {"value": o["value"] + mpf(len(q["A0_var"]) * D(q)) / 2})),
    ("DroppedConstant", "the half is missing", then(lambda o, q: {"value": 2 * o["value"]})),
    ("DroppedConstant", "the divergence with the wrong sign", then(lambda o, q: {"value": -o["value"]})),
    ("DroppedConstant", "0: the divergence is left out", then(lambda o, q: {"value": mpf(0)})),
    ("VarianceAsDeviation", "v00 read as a deviation", given(v00=lambda q: q["v00"] ** 2)),
    ("CovarianceAsPrecision", "v00 read as a precision", given(v00=lambda q: 1 / q["v00"])),
    ("VarianceAsDeviation", "A0_var read as a deviation", given(A0_var=lambda q: squared(q["A0_var"]))),
    ("WrongDimension", "D counts one, as if a row had one entry", given(A0_mu=lambda q: [[mp.sqrt(square(m))] for m in q["A0_mu"]])),
    ("WrongDimension", "the first row only", given(A0_mu=lambda q: q["A0_mu"][:1], A0_var=lambda q: q["A0_var"][:1])),
    ("PriorMissing", "the mean is left out", given(A0_mu=NONE)),
]
ELBO = [
    ("PriorMissing", "the divergence of A_0 is left out of the bound", then(lambda o, q: {"value": o["value"] + shared.kl(q)})),
    ("DroppedConstant", "the divergence of A_0 is added", then(lambda o, q: {"value": o["value"] + 2 * shared.kl(q)})),
    *((flag, f"{words}, in the divergence of the experts", answer) for flag, words, answer in (
        ("MeanSpread", "the variance of A_0 is left out", shares(of_distance(lambda s, i, m, gap: square(gap)))),
        ("MeanSpread", "the variance of A_0 once, not for each of D entries", shares(of_distance(lambda s, i, m, gap: square(gap) + s["A0_var"][i]))),
        ("MeanPull", "the distance is measured from 0", shares(of_distance(lambda s, i, m, gap: square(m) + len(m) * s["A0_var"][i]))))),
]


def bounds(answer):
    """A wrong bound after each of the sweeps: of one sweep, whose state is what comes out."""
    def wrong(right, **q):
        outs = right(**q)
        state = {**q, **outs}
        return {**outs, "elbo": [answer(lambda **s: {"value": outs["elbo"][-1]}, **state)["value"]]}
    return wrong


def pieces_of(**new):
    return shares(using(shared, **new))


others = lambda names: [name for name in names if name != "shared"]


def sweep_of(change):
    """Updates of a sweep in another order: change(names)."""
    right = network.steps
    return shares(using(network, steps=lambda s, *choices: change(list(right(s, *choices)))))


PLAIN_WEIGHT = lambda s: shared_update({**s, "a": [mpf(1)] * len(s["a"]), "b": [[mpf(1)] * len(row) for row in s["b"]]})
shared_update = shared.update
STILL = lambda s: {"A0_mu": s["A0_mu"], "A0_var": s["A0_var"]}


def with_update(function):
    def answer(right, **q):
        q["A0_mu"]
        with pieces(network, UPDATES={**network.UPDATES, "shared": function}):
            return right(**q)
    return answer


SWEEPS = [
    ("UpdateOrder", "A_0 last, from the new experts", sweep_of(lambda names: [*others(names), "shared"])),
    ("UpdateOrder", "A_0 just before the experts", sweep_of(lambda names: [n for name in others(names) for n in (("shared", name) if name == "experts" else (name,))])),
    ("UpdateOrder", "A_0 once more after the experts", sweep_of(lambda names: [*names, "shared"])),
    ("UpdateOrder", "q(A_0) is never updated", with_update(STILL)),
    ("MeanWeights", "E[tau] is left out of q(A_0)", with_update(PLAIN_WEIGHT)),
    ("PriorMissing", "1/v00 is missing in q(A_0)", with_update(lambda s: shared_update({**s, "v00": mpf(10) ** 30}))),
    ("MeanPull", "the experts are pulled to 0", pieces_of(centre=lambda s, i: zero(s["A0_mu"][i]), misfit=lambda s, i, m: square(m))),
    ("MeanSpread", "the variance of A_0 is left out of the experts", shares(of_distance(lambda s, i, m, gap: square(gap)))),
    ("MeanSpread", "the variance of A_0 once, not for each of D entries", shares(of_distance(lambda s, i, m, gap: square(gap) + s["A0_var"][i]))),
]
LAST_BOUND = [("PriorMissing", "the divergence of A_0 is left out of the bound", shares(bounds(lambda right, **q: {"value": right()["value"] + shared.kl(q)})))]
UNMOVED = ("UpdateOrder", "A_0 is left out of the residual", shares(lambda right, **q: {"residual": network.residual(
    {name: v for name, v in q.items() if name != "A0_mu"}, network.sweep({name: v for name, v in q.items() if name not in ("order", "inner")},
                                                                         q.get("order", "canonical"), q.get("inner", 1)))}))
OTHERS = {"update_shared": UPDATE, "update_experts": EXPERTS, "kl_shared": KL_SHARED, "kl_experts": KL_EXPERTS, "elbo": ELBO, "sweeps": [*SWEEPS, *LAST_BOUND],
          "stationarity": [UNMOVED, *SWEEPS], "forecast": SWEEPS}


def joined(tables, *more):
    """The wrong formulas of all operations; those of here after those of the plain model, and more after these."""
    out = {}
    for table in (*tables, OTHERS, *more):
        for op, bugs in table.items():
            out[op] = [*out.get(op, ()), *bugs]
    return out

