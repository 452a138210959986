"""The adapter of this very package: candidate number one of the suite, not the source of its numbers.

    python -m cmn_conformance run --adapter cmn_literate
"""

from functools import partial

import numpy as np
import package_outputs
from cmn_conformance.catalogue import operations
from package_outputs import rate

from cmn_literate import __version__
from cmn_literate.ideas import expfam, logistic, polya_gamma, stick_breaking
from cmn_literate.network import cavi, elbo, gate, latents
from cmn_literate.beyond import deep, depth, lean, shared_means, structured
from cmn_literate.engineering.quadrature import predict_log_proba
from cmn_literate.engineering.sums import Block, block_sweep, make_rows
from cmn_literate.network.simulate import Priors, Theta
from cmn_literate.engineering.gradients import class_log_probs
from cmn_literate.engineering.nodes import latent_nodes
from cmn_literate.engineering.coordinates import theta_shapes

NAME, VERSION = "cmn_literate", __version__
PROFILE = {"omega1": ["per-component", "shared"], "inner": [1, 2, 3, 8], "order": ["canonical", "m-first"], "gamma": ["rate", "scale"],
           "sticks": ["K-1", "K"], "expert_mean": ["zero", "shared"], "scales": ["fixed", "learned"], "prior_mean": ["zero", "centred"],
           "latent_posterior": ["full", "diagonal", "low-rank", "shared", "class-shared", "mean-field", "mean-field-diagonal", "mean-field-shared"],
           "coefficients": ["full", "diagonal", "diagonal-inputs", "diagonal-output"], "layers": ["none", "one", "two", "three"],
           "output": ["classes", "gaussian", "counts"]}

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


def unpack_above(given, profile):
    """-> Higher, Above: what stands above the priors; None twice in the plain model."""
    shared, centred = profile["expert_mean"] == "shared", profile["prior_mean"] == "centred"
    strength = float(given["strength"]) if profile["scales"] == "learned" else None
    if not (shared or centred or strength):
        return None, None
    above = shared_means.Above(float(given["v00"]) if shared else 0.0, centred, strength)
    higher = shared_means.higher_start(*given["M"].shape[1:], unpack(given, profile)[3], above)
    if strength:
        higher = higher._replace(precision=given["lam_mean"], shape=given["lam_shape"])
    return (higher._replace(mean=given["A0_mu"], var=given["A0_var"]) if shared else higher), above


def unpack_thrift(given, profile):
    """-> Thrift, frames; steps enough for conjugate gradients to end at the solution."""
    family = structured.LATENT_POSTERIORS[profile["latent_posterior"]]
    return structured.Thrift(family, given.get("rank", 0), 2 * given["M"].shape[1] + 2, structured.COEFFICIENTS[profile["coefficients"]]), given.get("frame")


def thinned(state, fields):
    """The State with the best diagonal covariances of some coefficients."""
    for name, S in ((name, state.flat()[name]) for name in fields):
        state = state.replace(**{name: structured.framed_inverse(expfam.spd_inverse(S)[0], np.eye(S.shape[-1])) if len(S) else S})
    return state


def renew(factor, state, higher, X, y, priors, above, thrift, frame=None):
    """-> State, Higher with one factor renewed."""
    if above is not None:
        return shared_means.HIGHER_UPDATES[factor](state, higher, X, y, priors, above)
    updates = structured.structured_updates(thrift.family, frame, thrift.rank) if is_lean(thrift) else cavi.UPDATES
    state = updates[factor](state, X, y, priors)
    return thinned(state, set(thrift.fields) & {"beta1": {"beta1_S"}, "beta0": {"beta0_S"}, "experts": {"V"}}.get(factor, set())), None


def whole_bound(state, higher, X, y, priors, above):
    return elbo.elbo(state, X, y, priors) if above is None else shared_means.higher_elbo(state, higher, X, y, priors, above)


def outputs(state, profile, higher=None):
    """The factors of a state as a dict."""
    out = state.flat()
    if higher is not None:
        out |= {"A0_mu": higher.mean, "A0_var": higher.var} | ({"lam_mean": higher.precision, "lam_shape": higher.shape} if profile["scales"] == "learned" else {})
    return {**out, "b": rate(out["b"], profile)}


def update(factor, *names):
    """The operation that renews one factor."""
    def operation(profile, **given):
        (state, *problem), (higher, above) = unpack(given, profile), unpack_above(given, profile)
        state, higher = renew(factor, state, higher, *problem, above, *unpack_thrift(given, profile))
        out = outputs(state, profile, higher)
        return {name: out[name] for name in names}
    return operation


update_x = update("x", "mu", "Sigma")
update_omega1 = update("omega1", "xi1")
update_omega0 = update("omega0", "xi0")
update_z = update("z", "gamma")
update_beta1 = update("beta1", "beta1_mu", "beta1_S")
update_beta0 = update("beta0", "beta0_mu", "beta0_S")
update_experts = update("experts", "M", "V", "a", "b")
update_shared, update_scales = update("shared", "A0_mu", "A0_var"), update("scales", "lam_mean", "lam_shape")


def term(name):
    """The operation that computes one term of the bound."""
    return lambda profile, **given: elbo.elbo_terms(*unpack(given, profile))[name]


elbo_output, elbo_expert, elbo_latent_entropy = term("output"), term("expert"), term("latent entropy")
elbo_gate, elbo_assignment_entropy = term("gate"), term("assignment entropy")


def divergence(name):
    """The operation that computes the divergence of one global factor."""
    def operation(profile, **given):
        (state, *problem), (higher, above) = unpack(given, profile), unpack_above(given, profile)
        if above is None:
            return -elbo.elbo_terms(state, *problem)[name]
        return shared_means.higher_kl(state.parameters, higher, problem[-1], above)[name]
    return operation


kl_beta1, kl_beta0, kl_experts = divergence("beta1"), divergence("beta0"), divergence("experts")
kl_shared, kl_scales = divergence("shared"), divergence("scales")


def bound(profile, **given):
    (state, *problem), (higher, above) = unpack(given, profile), unpack_above(given, profile)
    return whole_bound(state, higher, *problem, above)


def one_sweep(state, higher, X, y, priors, above, profile, thrift, frame):
    """A sweep in the order of the profile."""
    local = ("x", "omega1") * profile["inner"] + ("omega0", "z")
    parts = (local, ("beta1", "beta0", "experts"))
    first = () if above is None else ("scales", "shared")
    for name in first + sum(parts if profile["order"] == "canonical" else parts[::-1], ()):
        state, higher = renew(name, state, higher, X, y, priors, above, thrift, frame)
    return state, higher


def sweeps(n_sweeps, profile, **given):
    (state, *problem), (higher, above) = unpack(given, profile), unpack_above(given, profile)
    trace = []
    for _ in range(n_sweeps):
        state, higher = one_sweep(state, higher, *problem, above, profile, *unpack_thrift(given, profile))
        trace.append(whole_bound(state, higher, *problem, above))
    return {**outputs(state, profile, higher), "elbo": np.array(trace)}


def moved(old, new, profile):
    """How far a sweep moves a state and what is above it: the residual of the suite's definition."""
    old, new = (outputs(state, profile, higher) for state, higher in (old, new))
    return max(np.max(np.abs(new[name] - old[name]) / (1 + np.abs(old[name])), initial=0.0)
               for name in ("beta1_mu", "beta0_mu", "M", "a", "b", "gamma", "A0_mu", "lam_mean") if name in old)


def stationarity(profile, **given):
    (state, *problem), (higher, above) = unpack(given, profile), unpack_above(given, profile)
    return moved((state, higher), one_sweep(state, higher, *problem, above, profile, *unpack_thrift(given, profile)), profile)


def converge(profile, **given):
    (state, *problem), (higher, above), thrift = unpack(given, profile), unpack_above(given, profile), unpack_thrift(given, profile)
    if is_lean(thrift[0]):
        return converge_over_blocks(state, *problem, *thrift, profile)
    for _ in range(20_000):
        old, (state, higher) = (state, higher), one_sweep(state, higher, *problem, above, profile, *thrift)
        if moved(old, (state, higher), profile) < 1e-9:
            break
    bound_of = bound_of_a_fit if profile["scales"] == "learned" else whole_bound
    return bound_of(state, higher, *problem, above), moved((state, higher), one_sweep(state, higher, *problem, above, profile, *thrift), profile)


def is_lean(thrift):
    return thrift.family.shape != "free" or not thrift.family.own or bool(thrift.fields)


def one_block(state, X, y, lean_too):
    """All rows as one block, as the sweeps over blocks keep them."""
    q, rows = state.local, make_rows(X, y, len(state.parameters.beta1_mu) + 1)
    tilts = np.moveaxis(latents.per_component(q.xi1), 0, -1).swapaxes(0, 1)
    return Block(rows, pg_mean(rows.b[:, None, :], tilts), q.gamma.T if lean_too or q.xi1.ndim == 2 else None)


def lean_sweep(blocks, p, priors, thrift, frame):
    """lean.lean_sweep, but frames stay where they are.   -> blocks, Parameters, bound"""
    if thrift.family.shape != "framed":
        blocks, p, _, bound = lean.lean_sweep(blocks, p, frame, priors, thrift)
        return blocks, p, bound
    tables = structured.frame_tables(frame, expfam.second_moment(p.beta1_mu, p.beta1_S)[:, :-1, :-1], thrift.rank)
    return block_sweep(blocks, p, priors, 1, partial(lean.lean_estep, lean=lean.Lean(thrift, tables)), 1, partial(structured.diagonal_mstep, fields=thrift.fields))


def converge_over_blocks(state, X, y, priors, thrift, frame, profile):
    """The same by the sweeps of method="structured", whose bound is that of each M-step."""
    blocks, p, residual = (one_block(state, X, y, True),), state.parameters, np.inf
    for _ in range(20_000):
        was, old = residual, state
        blocks, p, bound = lean_sweep(blocks, p, priors, thrift, frame)
        state = state.replace(**p._asdict(), gamma=blocks[0].gamma.T)
        residual = moved((old, None), (state, None), profile)
        if max(was, residual) < 1e-9:
            break
    return bound, residual


def bound_of_a_fit(state, higher, X, y, priors, above):
    """The bound that a sweep of fit_shared finds, which is that of its M-step."""
    return shared_means.higher_sweep((one_block(state, X, y, False),), state.parameters, higher, priors, above)[3]


def predict(X, profile, **given):
    given["b"] = rate(given["b"], profile)
    h = given["M"].shape[1]                          # "auto" is exact to 1e-6 up to two dimensions; beyond, the largest grid
    options = {} if h <= 2 else {"method": "quadrature", "n_nodes": int(2 ** (17 / h))}
    given = {name: given[name] for name in latents.Parameters._fields}
    return predict_log_proba(latents.Parameters(**given), X, **options)


def forecast(X_new, n_sweeps, profile, **given):
    """By the sweeps of fit_shared, or of method="structured", over blocks of rows."""
    (state, X, y, priors), (higher, above), (thrift, frame) = unpack(given, profile), unpack_above(given, profile), unpack_thrift(given, profile)
    blocks, p = (one_block(state, X, y, is_lean(thrift)),), state.parameters
    if is_lean(thrift):
        for _ in range(n_sweeps):
            blocks, p, _ = lean_sweep(blocks, p, priors, thrift, frame)
        return predict(X_new, profile, **outputs(state.replace(**p._asdict()), profile))
    for _ in range(n_sweeps):
        blocks, p, higher, _ = shared_means.higher_sweep(blocks, p, higher, priors, above)
    return predict(X_new, profile, **outputs(state.replace(**p._asdict()), profile))


def log_likelihood(X, y, beta1, beta0, A, tau):
    theta = Theta(beta1, beta0, A, tau)
    shapes = theta_shapes(theta)
    nodes = latent_nodes(shapes, {1: 301, 2: 101}.get(shapes.rank, 1 << 14), rng=0)     # sharp integrands want more than a fit does
    log_probs = class_log_probs(theta, X, nodes)
    return log_probs[np.arange(len(y)), y]


# ---- several layers

def network_of(given, profile):
    """-> Network, S."""
    S = depth_of(profile)
    choices = tuple(deep.Sticks(given[f"beta{s}_mu"], given[f"beta{s}_S"]) for s in range(S + 1))
    experts = tuple(deep.Experts(given[f"M{s}"], given[f"V{s}"], given[f"a{s}"], rate(given[f"b{s}"], profile)) for s in range(1, S + 1))
    return deep.Network(choices, experts), S


def depth_of(profile):
    return ("one", "two", "three").index(profile["layers"]) + 1


def unpack_layers(given, profile):
    """-> DeepState, X, y, Priors."""
    network, S = network_of(given, profile)
    hidden = tuple(deep.Mixture(*(given[f"{name}{s}"] for name in deep.Mixture._fields)) for s in range(1, S + 1))
    priors = Priors(given["v0"], given["a0"], float(rate(given["b0"], profile)), given["sigma0"], given["sigma1"])
    return deep.DeepState(network, hidden, tuple(given[f"xi{s}"] for s in range(S + 1))), given["X"], given["y"], priors


def layer_outputs(state, s, profile):
    """The factors of layer s and of what reads it, as a dict."""
    choice = state.network.choices[s]
    out = {"beta_mu": choice.mu, "beta_S": choice.cov, "xi": state.tilts[s]}
    if s:
        experts = state.network.experts[s - 1]
        out |= {**experts._asdict(), "b": rate(experts.b, profile), **state.hidden[s - 1]._asdict()}
    return out


def deep_update(name, *fields):
    def operation(s, profile, **given):
        out = layer_outputs(deep.DEEP_UPDATES[name](*unpack_layers(given, profile), s), s, profile)
        return {field: out[field] for field in fields}
    return operation


deep_x, deep_z, deep_tilt = deep_update("x", "mu", "Sigma"), deep_update("z", "gamma"), deep_update("omega", "xi")
deep_beta, deep_experts = deep_update("beta", "beta_mu", "beta_S"), deep_update("experts", "M", "V", "a", "b")


def deep_moments(gamma, mu, Sigma):
    mean, cov = deep.mixture_moments(deep.Mixture(gamma, mu, Sigma))
    return mean[:, :-1], cov[:, :-1, :-1]


def link_part(state, X, y, s, table):
    """What a table over the experts of x_s and what is chosen above adds to the bound."""
    return np.einsum("nc,nck,nk->", deep.level(state, X, s).gamma, table, deep.weights_of(state, y, s + 1))


def deep_elbo_choice(s, profile, **given):
    state, X, y, _ = unpack_layers(given, profile)
    return link_part(state, X, y, s, deep.choice_table(deep.level(state, X, s), state.network.choices[s], state.tilts[s]))


def deep_elbo_expert(s, profile, **given):
    state, X, y, _ = unpack_layers(given, profile)
    return link_part(state, X, y, s - 1, deep.expert_table(deep.level(state, X, s - 1), state.hidden[s - 1], state.network.experts[s - 1]))


def deep_elbo_entropy(s, profile, **given):
    gamma, Sigma = given[f"gamma{s}"], given[f"Sigma{s}"]
    return np.sum(gamma * expfam.gaussian_entropy(Sigma)) + np.sum(elbo.category_entropy(gamma))


def deep_kl(profile, **given):
    state, *_, priors = unpack_layers(given, profile)
    return deep.deep_kl(state.network, priors)


def deep_elbo(profile, **given):
    return deep.deep_elbo(*unpack_layers(given, profile))


def whole_network(state, profile):
    """All factors, by the names of the suite."""
    rename = {"beta_mu": "beta{}_mu", "beta_S": "beta{}_S"}
    return {rename.get(name, name + "{}").format(s): value for s in range(len(state.tilts)) for name, value in layer_outputs(state, s, profile).items()}


def deep_sweeps(n_sweeps, profile, **given):
    (state, *problem), trace = unpack_layers(given, profile), []
    for _ in range(n_sweeps):
        state = deep.deep_sweep(state, *problem, profile["inner"])
        trace.append(deep.deep_elbo(state, *problem))
    return {**whole_network(state, profile), "elbo": np.array(trace)}


def layers_moved(old, new, profile):
    old, new = whole_network(old, profile), whole_network(new, profile)
    return max(np.max(np.abs(new[name] - old[name]) / (1 + np.abs(old[name])), initial=0.0) for name in old if name.endswith("_mu") or name[:-1] in ("M", "a", "b", "gamma"))


def deep_stationarity(profile, **given):
    state, *problem = unpack_layers(given, profile)
    return layers_moved(state, deep.deep_sweep(state, *problem, profile["inner"]), profile)


def deep_converge(profile, **given):
    state, *problem = unpack_layers(given, profile)
    for _ in range(20_000):
        old, state = state, deep.deep_sweep(state, *problem)
        if layers_moved(old, state, profile) < 1e-9:
            break
    return deep.deep_elbo(state, *problem), layers_moved(state, deep.deep_sweep(state, *problem), profile)


def deep_forecast(X, profile, **given):
    return depth.moments_log_proba(network_of(given, profile)[0], X)


def ops():
    """The operations by name; "elbo" is the module here, so its function has another name."""
    here = {**globals(), **vars(package_outputs), "elbo": bound}
    return {name: here[name] for name in operations() if name in here}


def __getattr__(name):
    if name == "OPS":
        return ops()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


