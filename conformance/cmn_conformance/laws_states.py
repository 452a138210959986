"""Laws of updates, terms of the bound and sweeps, on generated states."""

import numpy as np

from cmn_conformance import reference
from cmn_conformance.generated import EPS, LOCAL
from cmn_conformance.judged import NotAsked, at_most, near
from cmn_conformance.laws import law
from cmn_conformance.process import Trouble

UPDATES = {"update_x": ("mu", "Sigma"), "update_omega1": ("xi1",), "update_omega0": ("xi0",), "update_z": ("gamma",),
           "update_beta1": ("beta1_mu", "beta1_S"), "update_beta0": ("beta0_mu", "beta0_S"), "update_experts": ("M", "V", "a", "b")}
SUMS = ("elbo_output", "elbo_expert", "elbo_latent_entropy", "elbo_gate", "elbo_assignment_entropy")
TERMS = {**{op: 1.0 for op in SUMS}, "kl_beta1": -1.0, "kl_beta0": -1.0, "kl_experts": -1.0}
ROWS = ("X", "y", *LOCAL)


def size(*values):
    """Largest absolute value, at least one."""
    return max(1.0, *(float(np.max(np.abs(v), initial=0.0)) for v in values))


def of_rows(given, rows):
    return {name: value[rows] if name in ROWS else value for name, value in given.items()}


def bulk(problem):
    """How large the terms of a bound are together: rows, experts and their squares."""
    g = problem.given
    return problem.sizes["N"] * (10 + problem.sizes["h"] * 10 + problem.sizes["L"] * 10) + sum(
        float(np.sum(np.abs(g[name]))) for name in ("M", "beta1_mu", "V"))


# ---- the formula itself

def against_reference(op):
    def check(bench):
        for problem in bench.problems:
            given = {**problem.given, "xi1": problem.full_tilts(), "shared": bench.shared}
            expected = getattr(reference, op)(**given)
            for (name, got), want in zip(bench.state(op, problem).items(), expected if isinstance(expected, tuple) else (expected,)):
                scale = bulk(problem) if op in SUMS else size(want)
                yield near(f"{name} of {problem.tag}", got, want, problem.tolerance * scale)
    return check


def logits_reference(op, names):
    def check(bench):
        for problem in bench.problems:
            given = {name: problem.given[name] for name in names}
            for (name, got), want in zip(bench.ask(op, given, problem.tag).items(), getattr(reference, op)(**given)):
                yield near(f"{name} of {problem.tag}", got, want, 64 * EPS * 10 * size(want))
    return check


for _op in (*[u for u in UPDATES if u != "update_z"], *SUMS):
    law("reference", _op, "the formula in float64; tolerance: rounding of a sum over rows and experts, times the worst condition number")(
        against_reference(_op))
law("reference", "gate_logits", "the formula in float64, to 640 roundings")(logits_reference("gate_logits", ("X", "beta0_mu", "beta0_S")))
law("reference", "output_logits", "the formula in float64, to 640 roundings")(
    logits_reference("output_logits", ("mu", "Sigma", "beta1_mu", "beta1_S")))


@law("reference", "mng_kl", "the formula in float64; tolerance: rounding, times the worst condition number")
def mng_reference(bench):
    for problem in bench.problems:
        want = reference.mng_kl(**{name: problem.given[name] for name in ("M", "V", "a", "b", "v0", "a0", "b0")})
        yield near(problem.tag, bench.one("mng_kl", **problem.given), want, problem.tolerance * (10 + np.abs(want)))


# ---- rows

def rows_permuted(op, local):
    def check(bench):
        for number, problem in enumerate(bench.problems if local else bench.small):
            order, value = bench.rng(40 + number).permutation(problem.sizes["N"]), bench.state(op, problem)
            turned = bench.ask(op, of_rows(problem.given, order))
            for name, v in value.items():
                scale = bulk(problem) if op in SUMS else size(v)
                yield near(f"{name} of {problem.tag}", turned[name], v[order] if local else v, problem.tolerance * scale)
    return check


for _op, _outs in UPDATES.items():
    law("row_order", _op, "permuted rows: local factors are permuted, the others are as they were")(rows_permuted(_op, _outs[0] in LOCAL))
for _op in SUMS:
    law("row_order", _op, "the order of the rows does not matter")(rows_permuted(_op, False))


def halves(bench, op, problem):
    """Answers about the first 70 rows, or half of fewer, and about the rest."""
    n = problem.sizes["N"]
    cut = 70 if n > 70 else n // 2
    return [bench.ask(op, of_rows(problem.given, rows)) for rows in (np.arange(n) < cut, np.arange(n) >= cut)]


def rows_joined(op):
    def check(bench):
        for problem in bench.problems:
            parts = halves(bench, op, problem)
            for name, v in bench.state(op, problem).items():
                yield near(f"{name} of {problem.tag}", np.concatenate([p[name] for p in parts]), v, problem.tolerance * size(v))
    return check


def rows_summed(op):
    def check(bench):
        for problem in bench.small:
            parts, whole = halves(bench, op, problem), bench.one(op, **problem.given)
            yield near(problem.tag, sum(p["value"] for p in parts), whole, problem.tolerance * bulk(problem))
    return check


for _op in ("update_x", "update_omega1", "update_omega0", "update_z"):
    law("rows_in_two", _op, "the rows in two parts: the answer in two parts")(rows_joined(_op))
for _op in SUMS:
    law("rows_in_two", _op, "a sum over rows is the sum over two parts of them")(rows_summed(_op))


def naturals(op, answer, given):
    """Natural parameters less those of the prior: what adds over rows."""
    if op == "update_experts":
        P = np.linalg.inv(answer["V"])
        return {"precision": P - np.eye(P.shape[-1]) / given["v0"], "linear": answer["M"] @ P, "shape": answer["a"] - given["a0"]}
    which = op[-5:]
    P = np.linalg.inv(answer[f"{which}_S"])
    prior = given["sigma1" if which == "beta1" else "sigma0"] ** -2
    return {"precision": P - prior * np.eye(P.shape[-1]), "linear": np.einsum("jde,je->jd", P, answer[f"{which}_mu"])}


def naturals_add(op):
    def check(bench):
        for problem in bench.problems:
            whole = naturals(op, bench.state(op, problem), problem.given)
            parts = [naturals(op, answer, problem.given) for answer in halves(bench, op, problem)]
            for name, v in whole.items():
                yield near(f"{name} of {problem.tag}", parts[0][name] + parts[1][name], v, 100 * problem.tolerance * size(v))
    return check


def prior_without_rows(op, weightless):
    def check(bench):
        problem = bench.problems[0]
        given = {**problem.given, "gamma": 0 * problem.given["gamma"]} if weightless else of_rows(problem.given, slice(0, 0))
        try:
            answer = bench.ask(op, given)
        except Trouble as trouble:
            if weightless or trouble.kind != "errored":
                raise
            raise NotAsked("adapter", f"does not take zero rows: {trouble}") from None
        for name, v in answer.items():
            want = 0 * v if name.endswith("mu") or name == "M" else np.full(v.shape, given["a0"] if name == "a" else given["b0"])
            if name in ("V", "beta1_S", "beta0_S"):
                scale = given["v0"] if name == "V" else given["sigma1" if name == "beta1_S" else "sigma0"] ** 2
                want = scale * np.broadcast_to(np.eye(v.shape[-1]), v.shape)
            yield near(name, v, want, 64 * EPS * size(want))
    return check


for _op in ("update_beta1", "update_beta0", "update_experts"):
    law("rows_add", _op, "natural parameters, less those of the prior, add over two parts of the rows")(naturals_add(_op))
    law("no_weight", _op, "rows of weight 0 leave the prior")(prior_without_rows(_op, True))
for _op in ("update_beta0", "update_experts"):
    law("no_rows", _op, "without rows the update is the prior")(prior_without_rows(_op, False))


# ---- experts

def experts_permuted(given, order):
    out = {name: value[order] if name in ("M", "V", "a", "b") else value for name, value in given.items()}
    out.update({name: given[name][:, order] for name in ("gamma", "mu", "Sigma")})
    if given["xi1"].ndim == 3:
        out["xi1"] = given["xi1"][:, order]
    return out


def experts_turned(op):
    def check(bench):
        for number, problem in enumerate(bench.small):
            order, value = bench.rng(60 + number).permutation(problem.sizes["K"]), bench.state(op, problem)
            turned = bench.ask(op, experts_permuted(problem.given, order))
            for name, v in value.items():
                want = v[order] if name in ("M", "V", "a", "b") else v[:, order] if name in ("mu", "Sigma") or (name == "xi1" and v.ndim == 3) else v
                scale = bulk(problem) if op in SUMS or op in TERMS else size(v)
                yield near(f"{name} of {problem.tag}", turned[name], want, problem.tolerance * scale)
    return check


for _op in ("update_x", "update_omega1", "update_omega0", "update_beta1", "update_experts", "elbo_output", "elbo_expert", "elbo_latent_entropy",
            "elbo_assignment_entropy", "kl_experts"):
    law("expert_order", _op, "the gate apart, experts in another order are the same experts")(experts_turned(_op))


# ---- latent units

def in_units(given, s):
    """The state with every latent dimension in units s times as small."""
    scale = np.append(np.full(given["mu"].shape[-1], 1 / s), 1.0)
    return {**given, "mu": s * given["mu"], "Sigma": s**2 * given["Sigma"], "M": s * given["M"], "b": s**2 * given["b"], "b0": s**2 * given["b0"],
            "beta1_mu": given["beta1_mu"] * scale, "beta1_S": given["beta1_S"] * np.outer(scale, scale)}


def latent_units(op):
    def check(bench):
        for problem in bench.small:
            g, s, value = problem.given, 2.0, bench.state(op, problem)
            turned, powers = bench.ask(op, in_units(g, s)), {"mu": s, "Sigma": s**2, "M": s, "b": s**2}
            moved = {"elbo_expert": -1.0, "elbo_latent_entropy": 1.0}.get(op, 0.0) * problem.sizes["N"] * problem.sizes["h"] * np.log(s)
            for name, v in value.items():
                want = v * powers.get(name, 1.0) + moved
                scale = bulk(problem) if op in SUMS else size(want)
                yield near(f"{name} of {problem.tag}", turned[name], want, problem.tolerance * scale)
    return check


for _op in ("update_x", "update_omega1", "update_z", "update_experts", "elbo_output", "elbo_expert", "elbo_latent_entropy"):
    law("latent_units", _op, "latent vectors in other units (M, b, b0, beta_1 with them): the same fit in those units")(latent_units(_op))


# ---- updates maximise the bound

def moved(name, value, rng, step):
    """A block moved along a random direction, within what it may be."""
    def direction(shape):
        return rng.normal(size=shape)
    if name in ("Sigma", "V", "beta1_S", "beta0_S"):
        C, E = np.linalg.cholesky(value), direction(value.shape)
        E = (E + np.swapaxes(E, -1, -2)) / 2
        return C @ (np.eye(value.shape[-1]) + step * E) @ np.swapaxes(C, -1, -2)
    if name == "gamma":
        weights = value * np.exp(step * direction(value.shape))
        return weights / weights.sum(1, keepdims=True)
    if name in ("a", "b", "xi1", "xi0"):
        return value * np.exp(step * direction(value.shape))
    return value + step * direction(value.shape)


STEP, OFF = 1e-3, 1e-5


def stationary(op):
    def check(bench):
        for number, problem in enumerate(bench.small):
            renewed = {**problem.given, **bench.state(op, problem)}
            top, rounding = float(bench.one("elbo", **renewed)), 256 * EPS * bulk(problem)
            yield at_most(f"fall of {problem.tag}", float(bench.one("elbo", **problem.given)) - top, 0.0, rounding, "the update lowers the bound by")
            for name in UPDATES[op]:
                if not renewed[name].size:
                    continue
                plus, minus = (float(bench.one("elbo", **{**renewed, name: moved(name, renewed[name], bench.rng(80 + number), s)}))
                               for s in (STEP, -STEP))
                slope, curvature = (plus - minus) / (2 * STEP), abs(plus + minus - 2 * top) / STEP**2
                yield near(f"slope in {name} of {problem.tag}", slope, 0.0, OFF * curvature + 8 * rounding / STEP + STEP**2 * problem.sizes["N"],
                           "the bound still rises along a random direction")
    return check


for _op in UPDATES:
    law("stationary", _op, "with the adapter's own elbo: the update does not lower it, and along a random direction of the block its slope is 0; "
        "tolerance: 1e-5 of a step at the curvature found, rounding over the step, and step^2", "elbo")(stationary(_op))


# ---- bound and sweeps

@law("terms", "elbo", "the bound is the five expectations less the three divergences", *TERMS)
def bound_of_terms(bench):
    for problem in bench.small:
        total = sum(sign * float(bench.one(op, **problem.given)) for op, sign in TERMS.items())
        yield near(problem.tag, bench.one("elbo", **problem.given), total, 64 * EPS * bulk(problem))


def globals_only(op):
    """Divergences read no rows."""
    def check(bench):
        for problem in bench.small:
            yield near(problem.tag, bench.one(op, **of_rows(problem.given, slice(0, 2))), bench.one(op, **problem.given), 0.0)
    return check


for _op in ("kl_beta1", "kl_beta0", "kl_experts"):
    law("no_rows_read", _op, "a divergence of the coefficients reads no rows")(globals_only(_op))


@law("mng", "kl_experts", "the sum of mng_kl over the experts, by the formula in float64")
def experts_divergence(bench):
    for problem in bench.problems:
        want = reference.mng_kl(**{name: problem.given[name] for name in ("M", "V", "a", "b", "v0", "a0", "b0")}).sum()
        yield near(problem.tag, bench.one("kl_experts", **problem.given), want, problem.tolerance * (10 + abs(want)))


def coefficients_divergence(which, sigma):
    def check(bench):
        for problem in bench.problems:
            g = problem.given
            want = reference.gaussian_kl(g[f"{which}_mu"], g[f"{which}_S"], g[sigma]).sum()
            yield near(problem.tag, bench.one(f"kl_{which}", **g), want, problem.tolerance * (10 + abs(want)))
    return check


law("reference", "kl_beta1", "the sum of the formula in float64 over the sticks")(coefficients_divergence("beta1", "sigma1"))
law("reference", "kl_beta0", "the sum of the formula in float64 over the sticks")(coefficients_divergence("beta0", "sigma0"))


@law("row_sums", "update_z", "responsibilities are positive and sum to one; experts that are all alike get what the gate says")
def responsibilities(bench):
    for problem in bench.small:
        gamma = bench.state("update_z", problem)["gamma"]
        yield near(f"sum of {problem.tag}", gamma.sum(1), np.ones(len(gamma)), 64 * EPS * 12)
        yield at_most(f"minus_smallest of {problem.tag}", -gamma.min(initial=0.0), 0.0)
        alike = dict(problem.given)
        for name in ("M", "V", "a", "b"):
            alike[name] = np.repeat(alike[name][:1], problem.sizes["K"], 0)
        for name in ("mu", "Sigma") + (() if bench.shared else ("xi1",)):
            alike[name] = np.repeat(alike[name][:, :1], problem.sizes["K"], 1)
        got, bounds = bench.one("update_z", **alike), []
        for k in range(problem.sizes["K"]):
            certain = np.eye(problem.sizes["K"])[np.full(len(gamma), k)]
            logits = reference.gate_logits(alike["X"], alike["beta0_mu"], alike["beta0_S"])
            bounds.append(reference.stick_log_bound(*logits, alike["xi0"], *reference.stick_counts(certain)))
        score = np.stack(bounds, 1)
        score = np.exp(score - score.max(1, keepdims=True))
        yield near(f"gate of {problem.tag}", got, score / score.sum(1, keepdims=True), 64 * EPS * bulk(problem))


@law("rises", "sweeps", "the bound never falls, from sweep to sweep and from the start", "elbo")
def sweeps_rise(bench):
    for problem in bench.small:
        trace = bench.ask("sweeps", {**problem.given, "n_sweeps": 4}, problem.tag)["elbo"]
        values = np.append(float(bench.one("elbo", **problem.given)), trace)
        yield at_most(problem.tag, -np.diff(values), 0.0, 256 * EPS * bulk(problem), "it falls by this much")


@law("compose", "sweeps", "two sweeps are one sweep twice")
def sweeps_compose(bench):
    for problem in bench.small[:2]:
        once = bench.ask("sweeps", {**problem.given, "n_sweeps": 1})
        again, both = bench.ask("sweeps", {**problem.given, **{k: v for k, v in once.items() if k != "elbo"}, "n_sweeps": 1}), \
            bench.ask("sweeps", {**problem.given, "n_sweeps": 2})
        for name, v in both.items():
            want = v[1:] if name == "elbo" else v
            yield near(f"{name} of {problem.tag}", again[name], want, 100 * problem.tolerance * size(want))


@law("own_bound", "sweeps", "the trace is the elbo of the states", "elbo")
def sweeps_bound(bench):
    for problem in bench.small[:2]:
        out = bench.ask("sweeps", {**problem.given, "n_sweeps": 2})
        value = bench.one("elbo", **{**problem.given, **{k: v for k, v in out.items() if k != "elbo"}})
        yield near(problem.tag, out["elbo"][-1], value, 256 * EPS * bulk(problem))
