"""Wrong formulas of levels 3 to 6: terms of the bound, sweeps, residuals, prediction."""

import integrals
import network
from level0 import stick_means
from loops import dot, inverse, quadratic, times
from mpmath import mp, mpf
from network import LOG2PI, TERMS, UPDATES, gaussian_kl, mng_kl, pad
from special import log_cosh_half, log_sum
from wrong import backwards, column_major, given, one, pieces, reciprocal, shifted, squared, then, using, zero
from wrong_level0 import twice
from wrong_updates import SCORES, matrices, scale, score

WHOLE = {"elbo_output": "output", "elbo_expert": "expert", "elbo_latent_entropy": "entropy", "elbo_gate": "gate"}
GAMMAS = [
    ("Unweighted", "gamma is left out: every expert counts in full", given(gamma=lambda q: one(q["gamma"]))),
    ("Unweighted", "the mean over experts: 1/K for gamma", given(gamma=lambda q: [[1 / mpf(len(row))] * len(row) for row in q["gamma"]])),
    ("Unweighted", "gamma squared", given(gamma=lambda q: squared(q["gamma"]))),
    ("OffByOneStick", "gamma shifted by one expert", given(gamma=lambda q: shifted(1)(q["gamma"]))),
    ("ReversedOrder", "experts in reverse order", given(gamma=lambda q: backwards(1)(q["gamma"]))),
    ("ColumnMajor", "gamma read column by column", given(gamma=lambda q: column_major(q["gamma"]))),
    ("WrongDimension", "the mean over rows for the sum", then(lambda o, q: {"value": o["value"] / len(q["X"])})),
]
SIGN = ("MissingEntropy", "the entropy with the wrong sign", then(lambda o, q: {"value": -o["value"]}))


def of_part(part):
    """Wrong scores of one part, as wrong formulas of its term."""
    return [(flag, words, score(**changes)) for flag, words, changes in SCORES if list(changes) == [part] and callable(changes[part])]


def gaussians(name, sigma, other):
    mu, S = f"{name}_mu", f"{name}_S"
    rows = lambda q: list(zip(q[mu], q[S], strict=True))
    return [
        ("VarianceAsDeviation", f"{other} for {sigma}", given(**{sigma: lambda q: q[other]})),
        ("VarianceAsDeviation", f"{sigma} read as a variance", given(**{sigma: lambda q: mp.sqrt(q[sigma])})),
        ("CovarianceAsPrecision", f"{sigma}^2 read as a precision", given(**{sigma: lambda q: 1 / q[sigma]})),
        ("CovarianceAsPrecision", f"{S} read as a precision", given(**{S: lambda q: matrices(q[S])})),
        ("WrongDimension", "the mean over sticks for the sum", then(lambda o, q: {"value": o["value"] / len(q[mu])})),
        ("WrongDimension", "the first stick only", lambda right, **q: {"value": gaussian_kl(q[mu][0], q[S][0], q[sigma])}),
        ("WrongDimension", "the last stick only", lambda right, **q: {"value": gaussian_kl(q[mu][-1], q[S][-1], q[sigma])}),
        ("PriorMissing", "the means are left out", given(**{mu: lambda q: zero(q[mu])})),
        ("DroppedConstant", "D ln sigma^2 is missing", then(lambda o, q: {"value": o["value"] - sum(len(m) * mp.log(q[sigma]) for m, _ in rows(q))})),
        ("DroppedConstant", "-D is missing", then(lambda o, q: {"value": o["value"] + sum(mpf(len(m)) / 2 for m, _ in rows(q))})),
        ("DroppedConstant", "the half is missing", then(lambda o, q: {"value": 2 * o["value"]})),
        ("DroppedConstant", "the divergence with the wrong sign", then(lambda o, q: {"value": -o["value"]})),
    ]


KL_EXPERTS = [
    ("RateScale", "a0 and b0 exchanged", given(a0=lambda q: q["b0"], b0=lambda q: q["a0"])),
    ("RateScale", "b and b0 read as scales", given(b=scale, b0=lambda q: 1 / q["b0"])),
    ("RateScale", "b read as a scale", given(b=scale)),
    ("RateScale", "b0 read as a scale", given(b0=lambda q: 1 / q["b0"])),
    ("CovarianceAsPrecision", "v0 read as a precision", given(v0=lambda q: 1 / q["v0"])),
    ("CovarianceAsPrecision", "V read as a precision", given(V=lambda q: matrices(q["V"]))),
    ("VarianceAsDeviation", "v0 read as a deviation", given(v0=lambda q: q["v0"] ** 2)),
    ("WrongDimension", "the mean over experts for the sum", then(lambda o, q: {"value": o["value"] / len(q["M"])})),
    ("WrongDimension", "the first expert only", lambda right, **q: {"value": mng_kl(q["M"][0], q["V"][0], q["a"][0], q["b"][0], q["v0"], q["a0"], q["b0"])}),
    ("PriorMissing", "M is left out", given(M=lambda q: zero(q["M"]))),
    ("DroppedConstant", "the divergence of tau is missing", using(network, gamma_kl=lambda a, b, a0, b0: mpf(0))),
    ("DroppedConstant", "the divergence with the wrong sign", then(lambda o, q: {"value": -o["value"]})),
]


PARTS = {words: parts for _, words, parts in SCORES}


def without(name, factor):
    """The bound with another weight on one term: factor more of it."""
    return then(lambda o, q: {"value": o["value"] + factor * TERMS[name](q)})


ELBO = [
    *((flag, f"{words} is left out of the bound", without(name, -1)) for name, flag, words in (
        ("elbo_latent_entropy", "MissingEntropy", "the entropy of q(x1)"), ("elbo_assignment_entropy", "MissingEntropy", "the entropy of q(z)"),
        ("elbo_output", "DroppedConstant", "the term of the labels"), ("elbo_expert", "DroppedConstant", "the term of the experts"),
        ("elbo_gate", "DroppedConstant", "the term of the gate"))),
    *((flag, f"{words} with the wrong sign", without(name, -2)) for name, flag, words in (
        ("elbo_latent_entropy", "MissingEntropy", "the entropy of q(x1)"), ("elbo_assignment_entropy", "MissingEntropy", "the entropy of q(z)"))),
    *(("DroppedConstant", f"{words} {how}", without(name, factor)) for name, words in (
        ("kl_beta1", "the divergence of beta_1"), ("kl_beta0", "the divergence of beta_0"), ("kl_experts", "the divergence of the experts"))
      for how, factor in (("is left out of the bound", 1), ("is added", 2))),
    ("DroppedConstant", "all three divergences are left out of the bound", then(lambda o, q: {
        "value": o["value"] + sum(TERMS[name](q) for name in ("kl_beta1", "kl_beta0", "kl_experts"))})),
    ("MissingTiltKL", "the divergences of omega_1 and omega_0 are left out", score(**PARTS["the divergences of omega_1 and omega_0 are left out"])),
    ("MissingTiltKL", "the divergence of omega_1 is left out", score(**PARTS["the divergence of omega_1 is left out"])),
    ("MissingTiltKL", "the divergence of omega_0 is left out", score(**PARTS["the divergence of omega_0 is left out"])),
    ("DroppedConstant", "ln 2 pi is missing in the experts", then(lambda o, q: {"value": o["value"] + LOG2PI() / 2 * len(q["M"][0]) * len(q["X"])})),
]


# ---- the fixed point

SETTLED = {}                                                # question -> state where the oracle's sweeps end


def at_fixed_point(answer):
    """A wrong formula of the bound as one of converge: the right path, the wrong bound at its end."""
    def wrong(right, **q):
        key = repr(q)
        if key not in SETTLED:
            options = {name: q[name] for name in ("order", "inner") if name in q}
            SETTLED.clear()
            SETTLED[key] = network.converged({name: value for name, value in q.items() if name not in options}, mpf(10) ** -9, **options)[0]
        return {"elbo": answer(lambda **s: {"value": network.elbo(s)}, **SETTLED[key])["value"], "residual": mpf(0)}
    return wrong


CONVERGE = [(flag, words, at_fixed_point(answer)) for flag, words, answer in ELBO]
TERM_BUGS = {op: [*of_part(part), *GAMMAS] for op, part in WHOLE.items()}
TERM_BUGS["elbo_expert"].insert(0, ("DroppedConstant", "ln 2 pi is missing", then(lambda o, q: {
    "value": o["value"] + LOG2PI() / 2 * len(q["M"][0]) * len(q["X"])})))
TERM_BUGS["elbo_latent_entropy"] = [SIGN, ("DroppedConstant", "the constant of m/2 (1 + ln 2 pi) is missing", using(network, LOG2PI=lambda: mpf(-1))),
                                    ("DroppedConstant", "m/2 of m/2 (1 + ln 2 pi) is missing", then(lambda o, q: {
                                        "value": o["value"] - mpf(len(q["M"][0])) / 2 * len(q["X"])})), *GAMMAS]
TERM_BUGS["elbo_assignment_entropy"] = [SIGN, ("DroppedConstant", "in bits: log2 for ln", then(lambda o, q: {"value": o["value"] / mp.log(2)})), *GAMMAS[-1:]]


# ---- sweeps

def order(change):
    """The updates of a sweep in another order: change(list of names)."""
    right = network.order_of
    return using(network, order_of=lambda *choices: change(list(right(*choices))))


def moved(name, before):
    """One update at another place: just before the first of another."""
    def change(names):
        rest = [n for n in names if n != name]
        at = rest.index(before) if before in rest else len(rest)
        return [*rest[:at], name, *rest[at:]]
    return change


def frozen(*names):
    """Updates that do nothing."""
    def answer(right, **q):
        keep = lambda name: lambda s: {f: s[f] for f in {"omega1": ("xi1",), "omega0": ("xi0",)}[name]}
        with pieces(network, UPDATES={**UPDATES, **{name: keep(name) for name in names}}):
            return right(**q)
    return answer


def restarted(*names):
    """Tilts of 0 at the start of each sweep."""
    def answer(right, **q):
        step = network.sweep
        with pieces(network, sweep=lambda s, *choices: step({**s, **{name: zero(s[name]) for name in names}}, *choices)):
            return right(**q)
    return answer


def jacobi(names):
    """Some updates read the state as it was before the sweep."""
    def sweep(s, *choices):
        old = s
        for name in network.steps(s, *choices):
            s = {**s, **UPDATES[name](old if names is None or name in names else s)}
        return s
    return using(network, sweep=sweep)


def reads_old(name, *fields):
    """One update reads some factors as they were before the sweep."""
    def sweep(s, *choices):
        old = {f: s[f] for f in fields}
        for n in network.steps(s, *choices):
            s = {**s, **UPDATES[n]({**s, **old} if n == name else s)}
        return s
    return using(network, sweep=sweep)


def bound_at(last):
    """The bound recorded right after the last time that one update has run in a sweep; None: before the sweep."""
    def answer(right, n_sweeps, **q):
        outs, s, trace = right(n_sweeps=n_sweeps, **q), dict(q), []
        choices = [q[name] for name in ("order", "inner") if name in q]
        state = {name: value for name, value in s.items() if name not in ("order", "inner")}
        for _ in range(n_sweeps):
            names = network.steps(state, *choices)
            at = -1 if last is None else max(i for i, name in enumerate(names) if name == last)
            recorded = state
            for i, name in enumerate(names):
                state = {**state, **UPDATES[name](state)}
                recorded = state if i == at else recorded
            trace.append(network.elbo(recorded))
        return {**outs, "elbo": trace}
    return answer


SWEEPS = [
    ("UpdateOrder", "the bound recorded before the M-step", bound_at("z")),
    ("UpdateOrder", "the bound recorded before the sweep", bound_at(None)),
    ("UpdateOrder", "the bound recorded before the experts", bound_at("beta0")),
    ("UpdateOrder", "all updates read the state before the sweep", jacobi(None)),
    ("UpdateOrder", "omega_1 before x", order(moved("omega1", "x"))),
    ("UpdateOrder", "z before omega_0", order(moved("z", "omega0"))),
    ("UpdateOrder", "z first", order(moved("z", "x"))),
    ("UpdateOrder", "omega_1 after z", order(moved("omega1", "beta1"))),
    ("UpdateOrder", "omega_0 first", order(moved("omega0", "x"))),
    ("UpdateOrder", "M-step before E-step", lambda right, order="canonical", **q: right(order="m-first" if order == "canonical" else "canonical", **q)),
    *(("UpdateOrder", f"{name} reads the gamma of the sweep before", reads_old(name, "gamma")) for name in ("beta1", "beta0", "experts")),
    *(("UpdateOrder", f"{name} reads the x1 of the sweep before", reads_old(name, "mu", "Sigma")) for name in ("beta1", "experts")),
    ("StaleTilt", "omega_1 is never updated", frozen("omega1")), ("StaleTilt", "omega_0 is never updated", frozen("omega0")),
    ("StaleTilt", "no tilt is ever updated", frozen("omega1", "omega0")),
    ("RestartedTilt", "tilts of omega_1 start at 0 in each sweep", restarted("xi1")),
]


def residual(scaled):
    def pairs(x, y):
        return [p for u, v in zip(x, y, strict=True) for p in pairs(u, v)] if isinstance(x, list) else [scaled(x, y)]
    return using(network, residual=lambda old, new: max(r for name in ("beta1_mu", "beta0_mu", "M", "a", "b", "gamma", "A0_mu") if name in old for r in pairs(old[name], new[name])))


STATIONARITY = [
    ("UpdateOrder", "the change is not divided by 1 + |old|", residual(lambda x, y: abs(y - x))),
    ("UpdateOrder", "the change is divided by 1 + |new|", residual(lambda x, y: abs(y - x) / (1 + abs(y)))),
    *SWEEPS[3:],
]


# ---- prediction

def gate_and(experts):
    """ln p(y) of the right gate, and of another law of the labels under each expert: experts(k, x~, arguments)."""
    def answer(right, **q):
        out = []
        for x in q["X"]:
            xt = pad(x)
            gate = stick_means([dot(m, xt) for m in q["beta0_mu"]], [quadratic(S, xt) for S in q["beta0_S"]])
            out.append(integrals.mixed(gate, [experts(k, xt, q) for k in range(len(q["M"]))]))
        return {"log_probs": out}
    return answer


def still(k, xt, q):
    """The latent vector at its mean."""
    at = pad(times(q["M"][k], xt))
    return stick_means([dot(m, at) for m in q["beta1_mu"]], [quadratic(S, at) for S in q["beta1_S"]])


def noise_covariance(q, k):
    """The inverse of the mean precision of expert k."""
    if "nu" in q:
        return [[v / q["nu"][k] for v in row] for row in q["U"][k]]
    return [[rate / q["a"][k] if i == j else mpf(0) for j in range(len(q["b"][k]))] for i, rate in enumerate(q["b"][k])]


def bound_scores(right, **q):
    """exp of the bound of each class, normalised."""
    def sticks(psi, psi2):
        loss = [mp.log(2) + log_cosh_half(mp.sqrt(v)) for v in psi2]
        return integrals.walk([p / 2 - c for p, c in zip(psi, loss)], [-p / 2 - c for p, c in zip(psi, loss)])
    out = []
    for x in q["X"]:
        xt, experts = pad(x), []
        for k, (M, V) in enumerate(zip(q["M"], q["V"], strict=True)):
            mu, spread = times(M, xt), 1 + quadratic(V, xt)
            Sigma = [[v * spread for v in row] for row in noise_covariance(q, k)]
            psi, psi2 = network.output_logits([[mu]], [[Sigma]], q["beta1_mu"], q["beta1_S"])
            experts.append(sticks(psi[0][0], psi2[0][0]))
        psi, psi2 = network.gate_logits([x], q["beta0_mu"], q["beta0_S"])
        row = integrals.mixed(sticks(psi[0], psi2[0]), experts)
        total = log_sum(row)
        out.append([v - total for v in row])
    return {"log_probs": out}


no_spread = lambda name: lambda q: zero(q[name])
diagonal_of = lambda U: [[v if i == j else mpf(0) for j, v in enumerate(row)] for i, row in enumerate(U)]
PREDICT = [
    ("PlugIn", "means for all distributions", lambda right, **q: integrals.predict_by_means(**q)),
    ("NoiseForgotten", "the latent vector at its mean", gate_and(still)),
    ("BoundAsProbability", "a bound, normalised, as a probability", bound_scores),
    ("DoubleNormalisation", "a softmax of probabilities", then(twice)),
    ("ReversedOrder", "classes in reverse order", then(lambda o, q: {"log_probs": backwards(1)(o["log_probs"])})),
    ("OffByOneStick", "classes shifted by one", then(lambda o, q: {"log_probs": shifted(1)(o["log_probs"])})),
    ("PlugIn", "the coefficients by their means", given(beta1_S=no_spread("beta1_S"), beta0_S=no_spread("beta0_S"))),
    ("PlugIn", "the coefficients of the output by their means", given(beta1_S=no_spread("beta1_S"))),
    ("PlugIn", "the coefficients of the gate by their means", given(beta0_S=no_spread("beta0_S"))),
    ("NoiseForgotten", "the uncertainty of A is left out", given(V=no_spread("V"))),
    ("NoiseForgotten", "a Gaussian for the Student t", given(a=lambda q: [v * 10 ** 6 for v in q["a"]], b=lambda q: [[v * 10 ** 6 for v in row] for row in q["b"]])),
    ("RateScale", "b read as a scale", given(b=lambda q: reciprocal(q["b"]))),
    ("ColumnMajor", "M read column by column", given(M=lambda q: column_major(q["M"]))),
    ("NoiseForgotten", "a Gaussian for the Student t of full noise", given(nu=lambda q: [v * 10 ** 6 for v in q["nu"]], U=lambda q: [[[v * 10 ** 6 for v in row] for row in U] for U in q["U"]])),
    ("WrongDimension", "nu degrees of freedom, and U/nu, for nu - h + 1", given(nu=lambda q: [v + len(q["U"][0]) - 1 for v in q["nu"]])),
    ("WrongDimension", "nu - h degrees of freedom for nu - h + 1", given(nu=lambda q: [v - 1 for v in q["nu"]])),
    ("DiagonalNoise", "the entries of U beside the diagonal are left out", given(U=lambda q: [diagonal_of(U) for U in q["U"]])),
    ("RateScale", "U read as the scale matrix, not as its inverse", given(U=lambda q: [inverse(U) for U in q["U"]])),
]


def mean_log_mixture(right, X, y, beta1, beta0, A, tau):
    """E_z ln sum_k pi_k p(y | x1_k(z)): the mean of the logarithm of the whole mixture."""
    out = []
    nodes = integrals.normal_rule(mpf(1) / 4, mpf(10) ** -8)
    for x, label in zip(X, y, strict=True):
        laws, total = [integrals.logit_law(x, Ak, tk, beta1) for Ak, tk in zip(A, tau, strict=True)], mpf(0)
        gate = integrals.sticks_at(times(beta0, pad(x)))
        if len(laws[0][1][0]) > 1:
            raise ValueError("one dimension only")
        for z, w in nodes:
            total += w * integrals.mixed(gate, [[integrals.sticks_at([m + row[0] * z for m, row in zip(mean, C)])[label]] for mean, C in laws])[0]
        out.append(total)
    return {"log_lik": out}


LIKELIHOOD = [
    ("NoiseForgotten", "the latent vector at its mean", lambda right, **q: integrals.log_likelihood_by_means(**q)),
    ("Jensen", "the mean of the logarithm, under each expert", lambda right, **q: integrals.log_likelihood_by_jensen(**q)),
    ("Jensen", "the mean of the logarithm, over the latent vector", mean_log_mixture),
    ("ReversedOrder", "classes in reverse order", given(y=lambda q: [len(q["beta1"]) - c for c in q["y"]])),
    ("RateScale", "tau read as a variance", given(tau=lambda q: reciprocal(q["tau"]))),
    ("VarianceAsDeviation", "the root of tau for tau", given(tau=lambda q: [[mp.sqrt(v) for v in row] for row in q["tau"]])),
    ("ColumnMajor", "A read column by column", given(A=lambda q: column_major(q["A"]))),
    ("PlugIn", "the experts weighted by 1/2 at every stick", given(beta0=lambda q: zero(q["beta0"]))),
]
BUGS = {
    **TERM_BUGS, "kl_beta1": gaussians("beta1", "sigma1", "sigma0"), "kl_beta0": gaussians("beta0", "sigma0", "sigma1"), "kl_experts": KL_EXPERTS,
    "elbo": ELBO, "converge": CONVERGE, "sweeps": SWEEPS, "stationarity": STATIONARITY, "predict": PREDICT, "log_likelihood": LIKELIHOOD,
}
