"""The adapter of this package, its part about other outputs: measured numbers and counts."""

import numpy as np

from cmn_literate.beyond import outputs, regression, regressor
from cmn_literate.network.simulate import Priors


def rate(b, profile):
    """b of the suite as the package wants it, or the other way round: a rate and a scale are each other's inverse."""
    return 1 / np.asarray(b) if profile["gamma"] == "scale" else b


def out_model(given, profile):
    """-> Model and y as its output reads it."""
    priors = Priors(given.get("v0", 1.0), given.get("a0", 1.0), float(rate(given.get("b0", 1.0), profile)), given.get("sigma0", 1.0), given.get("sigma1", 1.0))
    if profile["output"] == "counts":
        return regression.Model(outputs.count_output(given["size"]), priors), given["counts"]
    own = (given[name] for name in ("v1", "a1", "b1")) if "v1" in given else ()
    return regression.Model(outputs.gaussian_output(*own), priors), given.get("Y")


def out_factors(given, profile):
    """q of the output's own factors."""
    if profile["output"] == "counts":
        return outputs.Coins(given["C_mu"][None], given["C_S"][None])
    return outputs.Line(given["W"][None], given["W_V"][None], np.array([given["W_a"]]), given["W_b"][None])


def out_globals(given, profile):
    parts = {name: given[name] for name in ("beta0_mu", "beta0_S", "M", "V", "a")}
    h, D = given["M"].shape[1:]
    return regression.Globals(out_factors(given, profile), b=rate(given["b"], profile), mean=np.zeros((h, D)), var=np.zeros(h), **parts)


def out_whole(given, profile):
    """-> Whole, X, y, Model."""
    memory = given["xi"][:, :, None] if profile["output"] == "counts" else np.zeros((len(given["X"]), 0))
    hidden = regression.Hidden(given["gamma"], given["mu"], given["Sigma"], memory, given["xi0"])
    model, y = out_model(given, profile)
    return regression.Whole(out_globals(given, profile), hidden), given["X"], y, model


def out_arrays(whole, profile):
    """All factors, by the names of the suite."""
    g, q = whole
    own = {"C_mu": g.output.mu[0], "C_S": g.output.S[0], "xi": q.memory[:, :, 0]} if profile["output"] == "counts" else {
        "W": g.output.M[0], "W_V": g.output.V[0], "W_a": g.output.a[0], "W_b": g.output.b[0]}
    shared = {name: getattr(g, name) for name in ("beta0_mu", "beta0_S", "M", "V", "a")}
    return {**own, **shared, "b": rate(g.b, profile), **{name: getattr(q, name) for name in ("gamma", "mu", "Sigma", "xi0")}}


def out_update(name, *wanted):
    def operation(profile, **given):
        found = out_arrays(regression.NETWORK_UPDATES[name](*out_whole(given, profile)), profile)
        return {part: found[part] for part in wanted if part in found}
    return operation


out_x, out_z, out_tilt = out_update("x", "mu", "Sigma"), out_update("z", "gamma"), out_update("memory", "xi")
out_output = out_update("output", "W", "W_V", "W_a", "W_b", "C_mu", "C_S")


def out_student(r, scale, dof):
    return outputs.log_student(r, scale, dof)


def out_pull(profile, **given):
    whole, X, y, model = out_whole(given, profile)
    pull, h, shape = model.output.pull(y, whole.globals.output, whole.hidden.memory), given["M"].shape[1], given["gamma"].shape
    eta = (pull.kappa @ pull.mean[:, :h])[:, None] - pull.omega @ pull.second[:, :h, h]
    return {"Lambda": np.broadcast_to(np.tensordot(pull.omega, pull.second[:, :h, :h], axes=1), (*shape, h, h)), "eta": np.broadcast_to(eta, (*shape, h))}


def out_elbo_output(profile, **given):
    (g, q), _, y, model = out_whole(given, profile)
    return np.sum(q.gamma * model.output.bound(y, q.mu, q.Sigma, g.output, q.memory))


def out_kl(profile, **given):
    model, _ = out_model(given, profile)
    return model.output.kl(out_factors(given, profile), model.priors)


def out_elbo(profile, **given):
    return regression.network_elbo(*out_whole(given, profile))


def out_sweeps(n_sweeps, profile, **given):
    whole, *problem = out_whole(given, profile)
    trace = []
    for _ in range(n_sweeps):
        whole = regression.network_sweep(whole, *problem)
        trace.append(regression.network_elbo(whole, *problem))
    return {**out_arrays(whole, profile), "elbo": np.array(trace)}


def output_moved(old, new, profile):
    """The residual of the suite's definition."""
    old, new = (out_arrays(whole, profile) for whole in (old, new))
    return max(np.max(np.abs(new[name] - old[name]) / (1 + np.abs(old[name])), initial=0.0)
               for name in ("W", "W_a", "W_b", "C_mu", "beta0_mu", "M", "a", "b", "gamma") if name in old)


def out_stationarity(profile, **given):
    whole, *problem = out_whole(given, profile)
    return output_moved(whole, regression.network_sweep(whole, *problem), profile)


def out_converge(profile, **given):
    whole, *problem = out_whole(given, profile)
    for _ in range(20_000):
        old, whole = whole, regression.network_sweep(whole, *problem)
        if output_moved(old, whole, profile) < 1e-9:
            break
    return regression.network_elbo(whole, *problem), output_moved(whole, regression.network_sweep(whole, *problem), profile)


def out_given_latent(x1, profile, **given):
    model, y = out_model(given, profile)
    return model.output.log_density(y, x1[:, None], out_factors(given, profile))[:, 0]


def out_moments(X, profile, **given):
    return regressor.forecast_moments(out_globals(given, profile), X)


def out_density(X, profile, **given):
    model, y = out_model(given, profile)
    slices = 1 << (19 if profile["output"] == "gaussian" else 16)                # the plain rule is slow where tails are heavy
    return regression.predict_log_density(out_globals(given, profile), model.output, X, y, slices)
