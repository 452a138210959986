"""Laws of the operations of levels 0 and 1, and of prediction."""

import math

import numpy as np

from cmn_conformance import reference
from cmn_conformance.generated import EPS, Problem, covariance, single
from cmn_conformance.judged import at_most, near
from cmn_conformance.laws import law

PG = ("log_cosh_half", "pg_mean", "pg_var", "pg_kl")


def inputs(bench, op):
    """Arguments of a table operation."""
    t = bench.tables
    return {"stick_log_probs": {"psi": t["psi"]}, "stick_counts": {"weights": t["weights"]},
            "stick_logits": {"log_probs": reference.stick_log_probs(t["psi"])}, "log_cosh_half": {"c": t["c"]},
            "pg_mean": {"b": t["b"], "c": t["c"]}, "pg_var": {"b": t["b"], "c": t["c"]}, "pg_kl": {"b": t["b"], "c": t["c"]},
            "log_sigmoid_normal": {"m": t["m"], "v": t["v"]}, "gamma_mean_log": {"a": t["a"], "b": t["rate"]},
            "gamma_kl": {"a": t["a"], "b": t["rate"], "a0": 1.5, "b0": 0.75}, "categorical_entropy": {"gamma": t["gamma"]},
            "second_moment": {"mu": t["mu"], "S": t["S"]}, "padded_second_moment": {"mu": t["mu"], "S": t["S"]}, "gaussian_entropy": {"S": t["S"]},
            "gaussian_kl": {"mu": t["mu"], "S": t["S"], "sigma": 1.25},
            "stick_log_bound": {"psi": t["first"], "psi2": t["second"], "xi": t["xi"], "b": t["tossed"], "kappa": t["excess"]}}[op]


def digits(op, given, expected):
    """Tolerance: 64 roundings of the largest term that the answer is summed from."""
    size = np.abs(expected)
    if op == "stick_logits":
        size = size + np.abs(given["log_probs"]).max(1, keepdims=True)
    elif op == "stick_log_probs":
        size = size + np.abs(given["psi"]).max(1, keepdims=True) * EPS
    elif op in ("gamma_mean_log", "gamma_kl"):
        a, b = given["a"], given["b"]
        size = 1 + np.abs(np.log(a)) + np.abs(np.log(b)) + 1 / a
        size = size if op == "gamma_mean_log" else size * (a + 2) + a * 0.75 / b
    elif op == "pg_kl":
        size = size + given["b"] * np.where(np.abs(given["c"]) > 0.4, reference.log_cosh_half(given["c"]), 0.0) / 2
    elif op == "log_sigmoid_normal":
        return 1e-6 * np.maximum(size, 1e-6)
    elif op in ("gaussian_entropy", "gaussian_kl"):
        size = 10 + size + np.linalg.cond(given["S"])
    elif op == "stick_log_bound":
        size = (np.abs(given["kappa"] * given["psi"]) + given["b"] * (1 + given["psi2"] + given["xi"])).sum(1)
    elif op == "stick_counts":
        size = size + 16.0
    elif op in ("categorical_entropy", "second_moment", "padded_second_moment"):
        size = size + 1
    return 64 * EPS * size


def against_reference(op):
    def check(bench):
        given = inputs(bench, op)
        expected = getattr(reference, op)(**given)
        expected = expected if isinstance(expected, tuple) else (expected,)
        for (name, got), want in zip(bench.ask(op, given).items(), expected):
            yield near(name, got, want, digits(op, given, want))
    return check


INTEGRALS = {"log_sigmoid_normal", "stick_log_means"}       # whose points may be chosen for all rows together


def row_by_row(op):
    """Permuted rows, and the rows in two parts."""
    def check(bench):
        given = inputs(bench, op)
        rows = len(next(iter(given.values())))
        order, whole = bench.rng(1).permutation(rows), bench.ask(op, given)
        pick = lambda rows_: {name: value[rows_] if np.ndim(value) else value for name, value in given.items()}
        turned, parts = bench.ask(op, pick(order)), [bench.ask(op, pick(p)) for p in (np.arange(rows) < 70, np.arange(rows) >= 70)]
        for name, value in whole.items():
            slack = (1e-10 if op in INTEGRALS else 64 * EPS) * (1 + np.abs(value))
            if value.shape[:1] != (rows,):
                yield near(name, value.shape[:1], [rows], 0.0, "rows of the answer")
                continue
            yield near(f"{name}_permuted", turned[name], value[order], slack[order])
            yield near(f"{name}_in_two", np.concatenate([p[name] for p in parts]), value, slack)
    return check


TABLES = ("stick_log_probs", "stick_counts", "stick_logits", *PG, "log_sigmoid_normal", "gamma_mean_log", "gamma_kl", "categorical_entropy",
          "second_moment", "padded_second_moment", "gaussian_entropy", "gaussian_kl", "stick_log_bound")
for _op in TABLES:
    law("reference", _op, "the formula in float64, to 64 roundings of its largest term")(against_reference(_op))
    if _op not in ("second_moment", "padded_second_moment", "gaussian_entropy", "gaussian_kl"):
        law("rows", _op, "an entry, or row, does not depend on the others")(row_by_row(_op))


# ---- sticks

@law("sum", "stick_log_probs", "the probabilities sum to one")
def stick_sum(bench):
    p = np.exp(bench.one("stick_log_probs", psi=4 * bench.tables["psi"])).sum(-1)
    yield near("sum", p, np.ones(len(bench.tables["psi"])), 64 * EPS * 8)


@law("inverse", "stick_logits", "stick_logits undoes stick_log_probs", "stick_log_probs")
def stick_inverse(bench):
    psi = bench.tables["psi"]
    logs = bench.one("stick_log_probs", psi=psi)
    size = np.abs(reference.stick_log_probs(psi)).max(1, keepdims=True)
    yield near("psi", bench.one("stick_logits", log_probs=logs), psi, 64 * EPS * (1 + size) + 0 * psi)


@law("constant", "stick_logits", "a constant added to a row of log probabilities changes nothing")
def stick_constant(bench):
    logs = reference.stick_log_probs(bench.tables["psi"])
    got, size = bench.one("stick_logits", log_probs=logs - 3.0), np.abs(logs).max(1, keepdims=True)
    yield near("psi", got, bench.tables["psi"], 64 * EPS * (4 + size) + 0 * bench.tables["psi"])


@law("linear", "stick_counts", "counts add")
def counts_add(bench):
    w = bench.tables["weights"]
    whole = bench.ask("stick_counts", {"weights": 3 * w[:100] + w[100:]})
    parts = [bench.ask("stick_counts", {"weights": part}) for part in (w[:100], w[100:])]
    for name in whole:
        yield near(name, whole[name], 3 * parts[0][name] + parts[1][name], 64 * EPS * 64)


# ---- Polya-Gamma

def even(op):
    def check(bench):
        given = inputs(bench, op)
        value = bench.ask(op, given)
        turned = bench.ask(op, {**given, "c": -given["c"]})
        for name in value:
            yield near(name, turned[name], value[name], 8 * EPS * np.abs(value[name]))
    return check


def additive(op):
    def check(bench):
        b, c = bench.tables["b"], bench.tables["c"]
        parts = [bench.one(op, b=part, c=c) for part in (b, b[::-1])]
        yield near("sum", bench.one(op, b=b + b[::-1], c=c), parts[0] + parts[1], 64 * EPS * np.abs(parts[0] + parts[1]))
        yield near("none", bench.one(op, b=0 * b, c=c), 0 * b, 0.0)
    return check


for _op in PG:
    law("even", _op, "the sign of c does not matter")(even(_op))
for _op in PG[1:]:
    law("additive", _op, "linear in b: omega of b1 + b2 is a sum of two")(additive(_op))


def slope(values, step):
    """Derivative by four points, values at c - 2s, c - s, c + s, c + 2s."""
    return (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * step)


def steps(bench):
    c = np.abs(bench.tables["c"])
    c = c[c > 1e-3]
    step = 2.0 ** np.round(np.log2(1e-2 * np.minimum(c, 1.0)))
    return c, step, [c + k * step for k in (-2, -1, 1, 2)]


@law("derivative", "pg_mean", "c E[omega] = d/dc ln cosh(c/2) per unit of b, by four differences; tolerance: step^4 / 30 and rounding over the step",
     "log_cosh_half")
def mean_is_derivative(bench):
    c, step, points = steps(bench)
    values = [bench.one("log_cosh_half", c=p) for p in points]
    rounding = 16 * EPS * np.abs(reference.log_cosh_half(c + 2 * step)) / step
    yield near("c_mean", c * bench.one("pg_mean", b=np.ones_like(c), c=c), slope(values, step), step**4 / 30 + 4 * rounding + 8 * EPS)


@law("derivative", "pg_var", "Var[omega] = -(1/c) dE[omega]/dc, by four differences; tolerance: step^4 / 30 and rounding over the step", "pg_mean")
def var_is_derivative(bench):
    c, step, points = steps(bench)
    values = [bench.one("pg_mean", b=np.ones_like(c), c=p) for p in points]
    yield near("c_var", c * bench.one("pg_var", b=np.ones_like(c), c=c), -slope(values, step), step**4 / 30 + 4 * 16 * EPS * 0.25 / step)


@law("from_mean", "pg_kl", "KL = b ln cosh(c/2) - (c^2/2) E[omega]", "pg_mean", "log_cosh_half")
def kl_from_mean(bench):
    b, c = bench.tables["b"], bench.tables["c"]
    cosh = bench.one("log_cosh_half", c=c)
    yield near("kl", bench.one("pg_kl", b=b, c=c), b * cosh - c**2 / 2 * bench.one("pg_mean", b=b, c=c), 64 * EPS * b * np.abs(cosh) + 1e-300)


# ---- divergences are no less than 0, and 0 between equals

def positive(op, equals, slack):
    def check(bench):
        given = inputs(bench, op) if op != "mng_kl" else {**bench.problems[0].given}
        yield at_most("minus_kl", -bench.one(op, **given), 0.0, slack)
        yield near("equals", bench.one(op, **equals(given)), 0 * bench.one(op, **equals(given)), slack)
    return check


law("sign", "pg_kl", "KL >= 0, and 0 at c = 0")(positive("pg_kl", lambda g: {**g, "c": 0 * g["c"]}, 0.0))
law("sign", "gaussian_kl", "KL >= 0, and 0 of the prior from itself")(
    positive("gaussian_kl", lambda g: {"mu": 0 * g["mu"], "S": g["sigma"] ** 2 * np.eye(7), "sigma": g["sigma"]}, 1e3 * EPS))
law("sign", "gamma_kl", "KL >= 0, and 0 of the prior from itself")(
    positive("gamma_kl", lambda g: {**g, "a": np.full(80, 1.5), "b": np.full(80, 0.75)}, 1e5 * EPS))
law("sign", "mng_kl", "KL >= 0, and 0 of the prior from itself")(
    positive("mng_kl", lambda g: {**g, "M": 0 * g["M"], "V": g["v0"] * np.stack([np.eye(g["V"].shape[1])] * len(g["V"])),
                                  "a": 0 * g["a"] + g["a0"], "b": 0 * g["b"] + g["b0"]}, 1e4 * EPS))


# ---- units

@law("units", "gaussian_entropy", "H(c^2 S) = H(S) + m ln c, and entropies of independent parts add")
def entropy_units(bench):
    S, T = bench.tables["S"], covariance(bench.rng(2), (), 3)
    value, slack = bench.one("gaussian_entropy", S=S), 64 * EPS * (20 + np.linalg.cond(S))
    yield near("scaled", bench.one("gaussian_entropy", S=16 * S), value + 7 * math.log(4), slack)
    both = np.zeros((10, 10))
    both[:7, :7], both[7:, 7:] = S, T
    yield near("two_parts", bench.one("gaussian_entropy", S=both), value + bench.one("gaussian_entropy", S=T), 2 * slack)


@law("units", "gaussian_kl", "mean and both deviations in other units: the same divergence")
def gaussian_units(bench):
    mu, S = bench.tables["mu"], bench.tables["S"]
    yield near("value", bench.one("gaussian_kl", mu=8 * mu, S=64 * S, sigma=10.0), bench.one("gaussian_kl", mu=mu, S=S, sigma=1.25),
               64 * EPS * (50 + np.linalg.cond(S)))


@law("units", "gamma_mean_log", "E ln tau falls by ln c when the rate is c times as large; E ln of shape a + 1 is larger by 1/a")
def log_units(bench):
    a, b = bench.tables["a"], bench.tables["rate"]
    value, slack = bench.one("gamma_mean_log", a=a, b=b), 64 * EPS * (2 + np.abs(np.log(a)) + np.abs(np.log(b)) + 1 / a)
    yield near("rate", bench.one("gamma_mean_log", a=a, b=4 * b), value - math.log(4), slack)
    yield near("shape", bench.one("gamma_mean_log", a=a + 1, b=b), value + 1 / a, slack)


@law("units", "gamma_kl", "both rates in other units: the same divergence")
def gamma_units(bench):
    a, b = bench.tables["a"], bench.tables["rate"]
    given = {"a": a, "b": b, "a0": 1.5, "b0": 0.75}
    value = bench.one("gamma_kl", **given)
    yield near("value", bench.one("gamma_kl", a=a, b=4 * b, a0=1.5, b0=3.0), value, digits("gamma_kl", given, value))


@law("units", "mng_kl", "latent units: M times s, rates times s^2: the same divergence")
def mng_units(bench):
    for problem in bench.small:
        g = problem.given
        value = bench.one("mng_kl", **g)
        yield near(problem.tag, bench.one("mng_kl", **{**g, "M": 2 * g["M"], "b": 4 * g["b"], "b0": 4 * g["b0"]}), value,
                   problem.tolerance * (10 + np.abs(value)))


@law("ends", "categorical_entropy", "0 of a certain row, ln K of an even one; the order of the experts does not matter")
def entropy_ends(bench):
    gamma = bench.tables["gamma"]
    yield near("certain", bench.one("categorical_entropy", gamma=np.eye(12)), np.zeros(12), 0.0)
    yield near("even", bench.one("categorical_entropy", gamma=np.full((70, 12), 1 / 12)), np.full(70, math.log(12)), 1e3 * EPS)
    yield near("reversed", bench.one("categorical_entropy", gamma=gamma[:, ::-1]), bench.one("categorical_entropy", gamma=gamma), 1e3 * EPS)


@law("best_tilt", "stick_log_bound", "no tilt is better than xi = sqrt(E psi^2); the bound is linear in (b, kappa)")
def best_tilt(bench):
    given = inputs(bench, "stick_log_bound")
    slack = 64 * EPS * 100 * np.ones(200)
    value, best = bench.one("stick_log_bound", **given), bench.one("stick_log_bound", **{**given, "xi": np.sqrt(given["psi2"])})
    yield at_most("value", value, best, slack)
    yield near("linear", bench.one("stick_log_bound", **{**given, "b": 2 * given["b"], "kappa": 2 * given["kappa"]}), 2 * value, slack)


# ---- sigmoid means, and prediction

@law("ends", "log_sigmoid_normal", "ln sigma(m) at v = 0; means of sigma(psi) and sigma(-psi) sum to one")
def sigmoid_ends(bench):
    m, v = bench.tables["m"], bench.tables["v"]
    yield near("certain", bench.one("log_sigmoid_normal", m=m, v=0 * v), reference.log_sigmoid(m), 1e-6 * np.abs(reference.log_sigmoid(m)))
    yield near("sum", np.exp(bench.one("log_sigmoid_normal", m=m, v=v)) + np.exp(bench.one("log_sigmoid_normal", m=-m, v=v)), np.ones(len(m)), 4e-6)


@law("sum", "stick_log_means", "the probabilities sum to one; the first is the mean of a sigmoid")
def means_sum(bench):
    m = bench.tables["first"]
    v = single(np.abs(bench.tables["second"]))
    logs = bench.one("stick_log_means", m=m, v=v)
    yield near("sum", np.exp(logs).sum(-1), np.ones(200), 1e-5)
    first = reference.log_sigmoid_normal(m[:, 0], v[:, 0])
    yield near("first", logs[:, 0], first, 2e-6 * (1 + np.abs(first)))


def few(bench, number, h):
    """A small problem for the integrals of level 6."""
    rng = bench.rng(number)
    problem = Problem(int(rng.integers(1 << 30)), 0)
    g = {**problem.given, "X": problem.given["X"][:3]}
    if h == 1:
        g.update(M=g["M"][:, :1], b=g["b"][:, :1], beta1_mu=g["beta1_mu"][:, 1:], beta1_S=g["beta1_S"][:, 1:, 1:])
    return g


@law("sum", "predict", "probabilities of the classes sum to one; a row does not depend on the others; their order does not matter")
def predict_sum(bench):
    for h in (1, 2):
        g = few(bench, 20 + h, h)
        logs = bench.one("predict", **g)
        yield near(f"sum_h={h}", np.exp(logs).sum(-1), np.ones(3), 1e-5)
        yield near(f"rows_reversed_h={h}", bench.one("predict", **{**g, "X": g["X"][::-1]}), logs[::-1], 1e-6 * (1 + np.abs(logs[::-1])))
        yield near(f"one_row_h={h}", bench.one("predict", **{**g, "X": g["X"][:1]}), logs[:1], 1e-6 * (1 + np.abs(logs[:1])))


@law("sum", "log_likelihood", "the likelihoods of all labels of a row sum to one; latent units do not matter")
def likelihood_sum(bench):
    for h in (1, 2):
        g = few(bench, 30 + h, h)
        given = {"X": g["X"], "beta1": g["beta1_mu"], "beta0": g["beta0_mu"], "A": g["M"], "tau": g["b"]}
        logs = [bench.one("log_likelihood", y=np.full(3, label), **given) for label in range(3)]
        yield near(f"sum_h={h}", np.exp(logs).sum(0), np.ones(3), 1e-5)
        scale = np.append(np.full(h, 0.5), 1.0)
        other = bench.one("log_likelihood", y=np.full(3, 1), **{
            **given, "beta1": given["beta1"] * scale, "A": 2 * given["A"], "tau": given["tau"] / 4})
        yield near(f"units_h={h}", other, logs[1], 1e-6 * (1 + np.abs(logs[1])))
