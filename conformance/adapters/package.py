"""The adapter of this very package: candidate number one of the suite, not the source of its numbers.

    python -m cmn_conformance run --adapter cmn_literate
"""

import numpy as np
from cmn_conformance.catalogue import operations

from cmn_literate import __version__
from cmn_literate.ideas import expfam, logistic, polya_gamma, stick_breaking
from cmn_literate.network import cavi, elbo, gate, latents
from cmn_literate.engineering.quadrature import predict_log_proba
from cmn_literate.network.simulate import Priors, Theta
from cmn_literate.engineering.gradients import class_log_probs
from cmn_literate.engineering.nodes import latent_nodes
from cmn_literate.engineering.coordinates import theta_shapes

NAME, VERSION = "cmn_literate", __version__
PROFILE = {"omega1": ["per-component", "shared"], "inner": [1, 2, 3, 8], "order": ["canonical", "m-first"], "gamma": ["rate", "scale"],
           "sticks": ["K-1", "K"]}

log_cosh_half, pg_mean, pg_var, pg_kl = polya_gamma.log_cosh_half, polya_gamma.pg_mean, polya_gamma.pg_var, polya_gamma.pg_kl
log_sigmoid_normal = logistic.log_sigmoid_normal
stick_logits, stick_log_means = stick_breaking.stick_logits, logistic.stick_log_means
second_moment, padded_second_moment = expfam.second_moment, expfam.padded_second_moment
gaussian_entropy, gaussian_kl = expfam.gaussian_entropy, expfam.gaussian_kl
categorical_entropy = elbo.category_entropy
gate_logits, output_logits = gate.gate_logits, latents.output_logits
stick_log_bound = logistic.stick_log_bound


def stick_log_probs(psi, profile):
    return stick_breaking.stick_log_probs(psi[..., :-1] if profile["sticks"] == "K" else psi)


def stick_counts(weights, profile):
    b, kappa = stick_breaking.stick_counts(weights)
    more = ((0, 0), (0, int(profile["sticks"] == "K")))
    return np.pad(b, more), np.pad(kappa, more)


def rate(b, profile):
    """b of the suite as the package wants it, or the other way round: a rate and a scale are each other's inverse."""
    return 1 / np.asarray(b) if profile["gamma"] == "scale" else b


def gamma_mean_log(a, b, profile):
    return expfam.gamma_mean_log(a, rate(b, profile))


def gamma_kl(a, b, a0, b0, profile):
    return expfam.gamma_kl(a, rate(b, profile), a0, rate(b0, profile))


def mng_kl(M, V, a, b, v0, a0, b0, profile):
    return expfam.mng_kl(M, V, a, rate(b, profile), v0, a0, rate(b0, profile))


def unpack(given, profile):
    """-> State, X, y, Priors."""
    fields = {name: given[name] for part in (latents.Parameters, latents.Local) for name in part._fields}
    fields["b"] = rate(fields["b"], profile)
    priors = Priors(given["v0"], given["a0"], float(rate(given["b0"], profile)), given["sigma0"], given["sigma1"])
    return latents.State.of(**fields), given["X"], given["y"], priors


def outputs(state, profile):
    """The factors of a state as a dict."""
    out = state.flat()
    return {**out, "b": rate(out["b"], profile)}


def update(factor, *names):
    """The operation that renews one factor."""
    def operation(profile, **given):
        out = outputs(cavi.UPDATES[factor](*unpack(given, profile)), profile)
        return {name: out[name] for name in names}
    return operation


update_x = update("x", "mu", "Sigma")
update_omega1 = update("omega1", "xi1")
update_omega0 = update("omega0", "xi0")
update_z = update("z", "gamma")
update_beta1 = update("beta1", "beta1_mu", "beta1_S")
update_beta0 = update("beta0", "beta0_mu", "beta0_S")
update_experts = update("experts", "M", "V", "a", "b")


def term(name, sign=1.0):
    """The operation that computes one term of the bound."""
    return lambda profile, **given: sign * elbo.elbo_terms(*unpack(given, profile))[name]


elbo_output, elbo_expert, elbo_latent_entropy = term("output"), term("expert"), term("latent entropy")
elbo_gate, elbo_assignment_entropy = term("gate"), term("assignment entropy")
kl_beta1, kl_beta0, kl_experts = term("beta1", -1.0), term("beta0", -1.0), term("experts", -1.0)


def bound(profile, **given):
    return elbo.elbo(*unpack(given, profile))


def one_sweep(state, X, y, priors, profile):
    """A sweep in the order of the profile."""
    local = ("x", "omega1") * profile["inner"] + ("omega0", "z")
    parts = (local, ("beta1", "beta0", "experts"))
    for name in sum(parts if profile["order"] == "canonical" else parts[::-1], ()):
        state = cavi.UPDATES[name](state, X, y, priors)
    return state


def sweeps(n_sweeps, profile, **given):
    state, X, y, priors = unpack(given, profile)
    trace = []
    for _ in range(n_sweeps):
        state = one_sweep(state, X, y, priors, profile)
        trace.append(elbo.elbo(state, X, y, priors))
    return {**outputs(state, profile), "elbo": np.array(trace)}


def moved(old, new, profile):
    """How far a sweep moves a state: the residual of the suite's definition."""
    old, new = outputs(old, profile), outputs(new, profile)
    return max(np.max(np.abs(new[name] - old[name]) / (1 + np.abs(old[name])), initial=0.0)
               for name in ("beta1_mu", "beta0_mu", "M", "a", "b", "gamma"))


def stationarity(profile, **given):
    state, *problem = unpack(given, profile)
    return moved(state, one_sweep(state, *problem, profile), profile)


def converge(profile, **given):
    state, *problem = unpack(given, profile)
    for _ in range(20_000):
        old, state = state, one_sweep(state, *problem, profile)
        if moved(old, state, profile) < 1e-9:
            break
    return elbo.elbo(state, *problem), moved(state, one_sweep(state, *problem, profile), profile)


def predict(X, profile, **given):
    given["b"] = rate(given["b"], profile)
    h = given["M"].shape[1]                          # "auto" is exact to 1e-6 up to two dimensions; beyond, the largest grid
    options = {} if h <= 2 else {"method": "quadrature", "n_nodes": int(2 ** (17 / h))}
    return predict_log_proba(latents.Parameters(**given), X, **options)


def log_likelihood(X, y, beta1, beta0, A, tau):
    theta = Theta(beta1, beta0, A, tau)
    shapes = theta_shapes(theta)
    nodes = latent_nodes(shapes, {1: 301, 2: 101}.get(shapes.rank, 1 << 14), rng=0)     # sharp integrands want more than a fit does
    log_probs = class_log_probs(theta, X, nodes)
    return log_probs[np.arange(len(y)), y]


def ops():
    """The operations by name; "elbo" is the module here, so its function has another name."""
    here = {**globals(), "elbo": bound}
    return {name: here[name] for name in operations() if name in here}


def __getattr__(name):
    if name == "OPS":
        return ops()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


