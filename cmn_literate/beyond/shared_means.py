# Tangled from book/beyond/shared_means.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Shared means: what the experts have in common

Three changes of the prior keep every update in closed form: scales that know the number of
columns, a mean matrix $A_0$ that the experts share and the rows determine, and sticks whose biases
treat all classes alike. On eight data sets the first two belong together, and make the network
better where rows are few; the third does not help.
"""

__all__ = ["scaled_priors", "Above", "Higher", "higher_start", "shared_update", "experts_about",
           "centres_of_sticks", "scales_in_force", "prior_misfits", "scale_update", "higher_kl",
           "higher_elbo", "HIGHER_UPDATES", "mstep_about", "higher_sweep", "HigherAscent",
           "HigherFit", "higher_work", "fit_shared", "model_of", "pack_higher", "SHARED_MEANS"]


# book/beyond/shared_means.ipynb, cell shared_means-02
import warnings
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np

from cmn_literate.checks import (
    check_choice, check_kind, check_positive, check_start_options, check_sweep_options,
    is_number)
from cmn_literate.compiled import find_estep
from cmn_literate.engineering.fit import Resume, begin, count_rows
from cmn_literate.engineering.runs import (
    Work, drive, has_converged, pack_factors, predict_factors)
from cmn_literate.engineering.sums import Block, block_sweep, estep, mstep
from cmn_literate.ideas.expfam import (
    gamma_kl, gamma_mean_log, gaussian_kl, mng_kl, pad)
from cmn_literate.learners import Learner, learner_options
from cmn_literate.network.cavi import UPDATES
from cmn_literate.network.elbo import elbo_terms
from cmn_literate.network.experts import expert_update
from cmn_literate.network.latents import Parameters
from cmn_literate.network.simulate import Priors
from cmn_literate.parallel import effective_jobs
from cmn_literate.storage import generator_state


# book/beyond/shared_means.ipynb, cell shared_means-06
def scaled_priors(priors, D):
    """Priors whose latents and gate logits do not grow with D.  [eq-shared-scales]"""
    return priors(v0=priors.v0 / D, sigma0=priors.sigma0 / D**0.5)


# book/beyond/shared_means.ipynb, cell shared_means-09
@dataclass(frozen=True)
class Above:
    """What stands above the Priors.  [eq-shared-model, eq-shared-gamma-prior]

    v00 >= 0   variance of each entry of A_0, the mean that all experts share; 0: none
    centred    whether the prior means of the stick biases are -ln(C-1-j)
    strength   shape of Gamma priors of 1/v0, 1/sigma0^2, 1/sigma1^2, whose prior means
               are the values in Priors; None: those values are fixed
    ValueError, naming the field.
    """
    v00: float = 0.0
    centred: bool = False
    strength: float = None

    def __post_init__(self):
        if not (is_number(self.v00) and self.v00 == 0):
            check_positive(self.v00, "v00")
        check_choice(self.centred, "centred", (True, False))
        if self.strength is not None:
            check_positive(self.strength, "strength")


class Higher(NamedTuple):
    """The factors of q above the priors.  [eq-shared-q, eq-shared-gamma]

    mean (h,D), var (h,)         q(A_0i) = N(mean[i], var[i] I)
    precision (3,), shape (3,)   q(1/v0), q(1/sigma0^2), q(1/sigma1^2): Gammas of that
                                 mean and shape; shape is infinite where they are fixed
    """
    mean: np.ndarray
    var: np.ndarray
    precision: np.ndarray
    shape: np.ndarray


def higher_start(h, D, priors, above):
    """The factors above at their priors.  [eq-shared-model]   -> Higher"""
    p, shape = priors, np.inf if above.strength is None else above.strength
    precision = np.array([1 / p.v0, 1 / p.sigma0**2, 1 / p.sigma1**2])
    return Higher(np.zeros((h, D)), np.full(h, float(above.v00)), precision,
                  np.full(3, float(shape)))


# book/beyond/shared_means.ipynb, cell shared_means-10
def shared_update(tau, M, v0, v00):
    """q(A_0i) = N(mean_i, var_i I) given the experts.  [eq-shared-q]

    tau (...,K,h), M (...,K,h,D): means of theirs, or values; v0 > 0 or 1/E[1/v0],
    v00 >= 0 -> mean (...,h,D), var (...,h); differentiable
    """
    var = v00 / (1 + v00 * anp.sum(tau, -2) / v0)
    mean = var[..., None] * anp.sum(tau[..., None] * M, -3) / v0
    return mean, var


# book/beyond/shared_means.ipynb, cell shared_means-12
def experts_about(X, gamma, mu, Sigma, priors, mean, var):
    """q(A_k, tau_k) given q(A_0), q(x1, z).  [eq-shared-experts]

    X (N,d), gamma (N,K), mu (N,K,h), Sigma (N,K,h,h); mean (h,D), var (h,) of q(A_0)
    -> M (K,h,D), V (K,D,D), a (K,), b (K,h)
    """
    rest = mu - (pad(X) @ mean.T)[:, None, :]
    M, V, a, b = expert_update(X, gamma, rest, Sigma, priors)
    return M + mean, V, a, b + 0.5 * mean.shape[1] * var / priors.v0


# book/beyond/shared_means.ipynb, cell shared_means-16
def centres_of_sticks(J, D, centred=True):
    """Prior means (J,D) of the coefficients of J sticks.  [eq-shared-centre]"""
    means = np.zeros((J, D))
    if centred:
        means[:, -1] = -np.log(np.arange(J, 0, -1))
    return means


# book/beyond/shared_means.ipynb, cell shared_means-21
def scales_in_force(higher, priors, above):
    """v0, sigma0, sigma1 as the other factors see them.  [eq-shared-in-force]"""
    if above.strength is None:
        return priors.v0, priors.sigma0, priors.sigma1
    p = higher.precision
    return 1 / p[0], p[1] ** -0.5, p[2] ** -0.5


def prior_misfits(parameters, higher, above):
    """Q of the three blocks: how far they are from their prior means.
    [eq-shared-misfit]   -> (3,), and how many coefficients each has, (3,)"""
    p, (K, h, D) = parameters, parameters.M.shape
    tau, trace = p.a[:, None] / p.b, anp.einsum("kdd->k", p.V)
    off = anp.sum((p.M - higher.mean) ** 2, -1) + D * higher.var
    found, counts = [anp.sum(tau * off) + h * anp.sum(trace)], [K * h * D]
    for mu, S in ((p.beta0_mu, p.beta0_S), (p.beta1_mu, p.beta1_S)):
        far = mu - centres_of_sticks(*mu.shape, above.centred)
        found.append(anp.sum(far**2) + anp.sum(anp.einsum("jdd->j", S)))
        counts.append(mu.size)
    return anp.array(found), np.array(counts)


def scale_update(parameters, higher, priors, above):
    """q(1/v0), q(1/sigma0^2), q(1/sigma1^2) given the coefficients.
    [eq-shared-gamma]   -> precision (3,), shape (3,)"""
    if above.strength is None:
        return higher.precision, higher.shape
    Q, counts = prior_misfits(parameters, higher, above)
    at = higher_start(*higher.mean.shape, priors, above)
    shape = at.shape + counts / 2
    return shape / (at.shape / at.precision + Q / 2), shape


# book/beyond/shared_means.ipynb, cell shared_means-23
def higher_kl(parameters, higher, priors, above):
    """Divergences of the global factors from their priors, nats.  [eq-shared-kl]

    -> {"beta1", "beta0", "experts", "shared", "scales"}, differentiable: the first
       three with the scales in force, what E ln of the scales adds is in the last
    """
    p, g, a = parameters, higher, above
    v0, sigma0, sigma1 = scales_in_force(g, priors, a)
    m0, m1 = (centres_of_sticks(*mu.shape, a.centred) for mu in (p.beta0_mu, p.beta1_mu))
    D, shared, scales = p.M.shape[-1], 0.0, 0.0
    about = mng_kl(p.M - g.mean, p.V, p.a, p.b, v0, priors.a0, priors.b0)
    blur = 0.5 * D * anp.sum(p.a[:, None] / p.b * g.var) / v0
    if a.v00 > 0:
        S = g.var[:, None, None] * np.eye(D)
        shared = anp.sum(gaussian_kl(g.mean, S, a.v00**0.5))
    if a.strength is not None:
        at, counts = higher_start(*g.mean.shape, priors, a), prior_misfits(p, g, a)[1]
        gap = gamma_kl(g.shape, g.shape / g.precision, at.shape, at.shape / at.precision)
        scales = anp.sum(gap - 0.5 * counts * gamma_mean_log(g.shape, g.shape))
    return {"beta1": anp.sum(gaussian_kl(p.beta1_mu - m1, p.beta1_S, sigma1)),
            "beta0": anp.sum(gaussian_kl(p.beta0_mu - m0, p.beta0_S, sigma0)),
            "experts": anp.sum(about) + blur, "shared": shared, "scales": scales}


# book/beyond/shared_means.ipynb, cell shared_means-24
def higher_elbo(state, higher, X, y, priors, above):
    """Evidence lower bound of the model with A_0 and scales, nats.  [eq-shared-bound]

    state State, higher Higher, X (N,d), y (N,) -> number <= ln p(y | X)
    """
    rows = ("output", "expert", "latent entropy", "gate", "assignment entropy")
    terms = elbo_terms(state, X, y, priors)
    kl = higher_kl(state.parameters, higher, priors, above)
    return sum(terms[name] for name in rows) - sum(kl.values())


# book/beyond/shared_means.ipynb, cell shared_means-25
def _priors(higher, priors, above):
    """The Priors that stand for q of the scales."""
    return priors(**dict(zip(("v0", "sigma0", "sigma1"),
                             scales_in_force(higher, priors, above))))


def _same(name):
    """One of the seven updates, which knows nothing of what is above."""
    def update(s, g, X, y, priors, above):
        return UPDATES[name](s, X, y, priors), g
    return update


def _coefficients(name, sigma):
    """q(beta) about its prior means.  [eq-shared-beta]"""
    def update(s, g, X, y, priors, above):
        force = _priors(g, priors, above)
        s = UPDATES[name](s, X, y, force)
        mu, S = s.flat()[f"{name}_mu"], s.flat()[f"{name}_S"]
        m = centres_of_sticks(*mu.shape, above.centred) / getattr(force, sigma) ** 2
        return s.replace(**{f"{name}_mu": mu + np.einsum("jde,je->jd", S, m)}), g
    return update


def _experts(s, g, X, y, priors, above):
    """q(A, tau) about q(A_0).  [eq-shared-experts]"""
    q, force = s.local, _priors(g, priors, above)
    found = experts_about(X, q.gamma, q.mu, q.Sigma, force, g.mean, g.var)
    return s.replace(**dict(zip(("M", "V", "a", "b"), found))), g


def _shared(s, g, X, y, priors, above):
    """q(A_0).  [eq-shared-q]"""
    p, v0 = s.parameters, scales_in_force(g, priors, above)[0]
    mean, var = shared_update(p.a[:, None] / p.b, p.M, v0, above.v00)
    return s, g._replace(mean=mean, var=var)


def _scales(s, g, X, y, priors, above):
    """q of the scales.  [eq-shared-gamma]"""
    precision, shape = scale_update(s.parameters, g, priors, above)
    return s, g._replace(precision=precision, shape=shape)


# f(state, higher, X, y, priors, above) -> State, Higher with one factor at its best
HIGHER_UPDATES = {
    **{name: _same(name) for name in ("x", "omega1", "omega0", "z")},
    "beta1": _coefficients("beta1", "sigma1"), "beta0": _coefficients("beta0", "sigma0"),
    "experts": _experts, "shared": _shared, "scales": _scales}


# book/beyond/shared_means.ipynb, cell shared_means-33
def mstep_about(sums, parameters, priors, higher, above):
    """mstep with prior means, by shifting what it is given.  [eq-shared-shift]

    sums Sums, parameters of the E-step, priors in force -> Parameters, log normaliser
    """
    p, s = parameters, sums
    m0, m1 = (centres_of_sticks(*mu.shape, above.centred) for mu in (p.beta0_mu, p.beta1_mu))
    w0, w1 = 1 / priors.sigma0**2, 1 / priors.sigma1**2
    spread = p.M.shape[-1] * higher.var / priors.v0
    shifted = s._replace(
        squares=s.squares + spread, output_linear=s.output_linear + w1 * m1,
        gate_linear=s.gate_linear + w0 * m0)
    after, z = mstep(shifted, p._replace(M=p.M - higher.mean), priors)
    z -= 0.5 * (w0 * (m0**2).sum() + w1 * (m1**2).sum())
    return after._replace(M=after.M + higher.mean), z


# book/beyond/shared_means.ipynb, cell shared_means-34
def higher_sweep(blocks, parameters, higher, priors, above, inner=1, estep=estep,
                 n_jobs=1):
    """Scales, A_0, then one canonical sweep over blocks.  [eq-shared-sweep]

    estep, n_jobs as in block_sweep
    -> renewed blocks, Parameters, Higher, bound after the M-step (nats)
    """
    p, g = parameters, higher
    precision, shape = scale_update(p, g, priors, above)
    g = g._replace(precision=precision, shape=shape)
    force = _priors(g, priors, above)
    mean, var = shared_update(p.a[:, None] / p.b, p.M, force.v0, above.v00)
    g = g._replace(mean=mean, var=var)
    about = partial(mstep_about, higher=g, above=above)
    blocks, p, bound = block_sweep(blocks, p, force, inner, estep, n_jobs, about)
    kl = higher_kl(p, g, priors, above)
    return blocks, p, g, bound - kl["shared"] - kl["scales"]


# book/beyond/shared_means.ipynb, cell shared_means-35
class HigherAscent(NamedTuple):
    """State of the ascent between two sweeps.  [eq-shared-sweep]

    parameters, higher; tilts: what each block remembers; bound (nats, None before the
    first sweep); converged
    """
    parameters: Parameters
    higher: Higher
    tilts: tuple
    bound: float
    converged: bool


@dataclass(frozen=True)
class HigherFit:
    """Result of fit_shared; it holds no row of the data.  [eq-shared-bound]

    parameters, higher  the global factors;  elbo (n_sweeps,) bound after each sweep
    n_sweeps, converged, n_classes;  priors, above: the model;  shared (omega_1)
    """
    parameters: Parameters
    higher: Higher
    elbo: np.ndarray
    n_sweeps: int
    converged: bool
    n_classes: int
    priors: Priors
    above: Above
    shared: bool = False


class _Sweeper(NamedTuple):
    """What a sweep reads and does not change."""
    begun: Resume
    above: Above
    tol: float
    how: tuple              # inner, estep, n_jobs of higher_sweep

    def __call__(self, state, t):
        r = self.begun
        blocks = tuple(Block(b.rows, *tilt) for b, tilt in zip(r.blocks, state.tilts))
        blocks, p, g, bound = higher_sweep(
            blocks, state.parameters, state.higher, r.priors, self.above, *self.how)
        small = (state.bound is not None
                 and bound - state.bound < self.tol * count_rows(blocks))
        bound = float(bound)
        return HigherAscent(p, g, _tilts(blocks), bound, bool(small)), (bound,)


def _tilts(blocks):
    return tuple((block.omega, block.gamma) for block in blocks)


def higher_work(Z, y, n_classes, settings, rng, priors, above, weight=None):
    """The ascent as a Work, which finishes as a HigherFit.  [eq-shared-sweep]

    settings: n_experts, latent_dim, init, max_sweeps, tol, inner, omega1 as in fit;
    weight (N,) of the rows or None  [eq-weighted-bound]
    """
    s, origin = settings, generator_state(rng)
    begun = begin(Z, y, s.n_experts, s.latent_dim, n_classes, priors, rng, s.init,
                  s.omega1, weight)
    higher = higher_start(*begun.parameters.M.shape[1:], priors, above)
    first = HigherAscent(begun.parameters, higher, _tilts(begun.blocks), None, False)

    def ascended(run):
        (state,), elbo = run.states, np.array([bound for bound, in run.kept[0]])
        if run.reason != "steps":
            warnings.warn(f"{run.reason}: this is the fit after {len(elbo)} whole "
                          "sweeps", stacklevel=3)
        return HigherFit(state.parameters, state.higher, elbo, len(elbo),
                         state.converged, begun.n_classes, priors, above, begun.shared)

    problem = ("shared-means", Z, y, n_classes, s.n_experts, s.latent_dim, priors, above,
               s.init, s.tol, s.inner, s.omega1, *(() if weight is None else (weight,)))
    kernel = find_estep(len(y), s.n_experts, begun.n_classes - 1, begun.shared) or estep
    how = s.inner, kernel, effective_jobs(getattr(s, "n_jobs", 1))
    return Work(lambda: [first], _Sweeper(begun, above, s.tol, how), s.max_sweeps,
                ascended, problem, origin, lambda states, c: states[c].bound,
                has_converged, kinds=(HigherAscent, Parameters, Higher), every=100)


# book/beyond/shared_means.ipynb, cell shared_means-36
def fit_shared(X, y, n_experts=10, latent_dim=None, n_classes=None,
               priors=Priors(), above=Above(v00=10.0),  # noqa: B008  both are frozen
               rng=0, init="class-code", max_sweeps=500, tol=1e-6, inner=1,
               omega1="per-component"):
    """CAVI for the network with what is above its priors.  [eq-shared-sweep]

    arguments as in fit; above an Above -> HigherFit.  ValueError names the argument.
    """
    check_kind(above, "above", Above)
    check_start_options(priors, rng, init, omega1, Priors)
    check_sweep_options(max_sweeps, tol, inner, False, None)
    settings = SimpleNamespace(
        n_experts=n_experts, latent_dim=latent_dim, init=init, max_sweeps=max_sweeps,
        tol=tol, inner=inner, omega1=omega1)
    rng = np.random.default_rng(rng)
    work = higher_work(X, y, n_classes, settings, rng, priors, above)
    return work.finish(drive(work))


# book/beyond/shared_means.ipynb, cell shared_means-37
def model_of(settings, D):
    """Priors and Above that the estimator's options ask for.  [eq-shared-scales]"""
    o = learner_options(settings)
    check_choice(o["scaled"], "scaled", (True, False))
    priors = settings.priors
    above = Above(o["v00"], o.get("centred", False), o.get("strength"))
    if o["scaled"]:
        priors = scaled_priors(priors, D)
        above = Above(above.v00 / D, above.centred, above.strength)
    return priors, above


def _begin(Z, y, n_classes, settings, rng, weight=None):
    if settings.accelerate:
        raise ValueError('accelerate: expected False for method "shared-means", whose '
                         "axes have other priors; got True")
    model = model_of(settings, Z.shape[1] + 1)
    return higher_work(Z, y, n_classes, settings, rng, *model, weight)


def pack_higher(result):
    """The factors of a HigherFit as a dict of arrays.  [eq-shared-q]"""
    return {**pack_factors(result), **result.higher._asdict()}


def _unpack(arrays, settings):
    p = Parameters(*(arrays[name] for name in Parameters._fields))
    elbo, model = arrays["elbo"], model_of(settings, p.M.shape[-1])
    return HigherFit(p, Higher(*(arrays[name] for name in Higher._fields)), elbo,
                     len(elbo), bool(arrays["converged"]), len(p.beta1_mu) + 1, *model,
                     settings.omega1 == "shared")


SHARED_MEANS = Learner(
    _begin, predict_factors, pack_higher, _unpack,
    options={"v00": 10.0, "scaled": True, "centred": False, "strength": None,
             "checkpoint": None},
    steps=lambda settings: settings.max_sweeps, objective="ELBO", step="sweep",
    advice="raise max_sweeps or tol", weights="any")
