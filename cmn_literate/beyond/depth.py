# Tangled from book/beyond/depth.ipynb by tools/tangle.py; edit the notebook, not this file.
"""What depth buys

Two layers of two experts can do what takes four in one layer, but the climb from a greedy start (a
fitted layer below a second one) does not lead there. Forecasts go by paths, with a stated error,
or by moments. On eleven data sets a second layer lowers the bound everywhere and the log score on
most sets, and a third lowers both further on the mean. Depth helps on one set, where the first
layer makes two latents of 21 inputs.
"""

__all__ = ["forward_moments", "choice_log_probs", "draw_paths", "deep_log_proba",
           "moments_log_proba", "HIDDEN", "principal_axes", "deep_start", "complete_deep",
           "DeepAscent", "DeepFit", "deep_work", "fit_deep", "pack_deep", "DEEP"]


# book/beyond/depth.ipynb, cell depth-02
import warnings
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from cmn_literate.beyond.deep import (
    Sticks, DeepState, Experts, Mixture, Network, choice_logits, deep_elbo, deep_sweep,
    exact, mixture_moments, parameters_of)
from cmn_literate.checks import (
    check_choice, check_count, check_start_options, check_sweep_options,
    check_weighted_problem, check_X)
from cmn_literate.engineering.fit import fit
from cmn_literate.engineering.quadrature import predict_log_proba
from cmn_literate.engineering.runs import Work, drive, has_converged
from cmn_literate.engineering.starts import (
    cluster_labels, code_experts, code_gate, init_parameters, repeat_rows)
from cmn_literate.ideas.expfam import pad
from cmn_literate.ideas.logistic import stick_log_means
from cmn_literate.learners import Learner, learner_options
from cmn_literate.network.predict import logit_moments, output_log_probs
from cmn_literate.network.simulate import Priors
from cmn_literate.storage import generator_state


# book/beyond/depth.ipynb, cell depth-06
def forward_moments(network, X):
    """Mixtures of x_1 .. x_S given the inputs alone, each expert's latent by its mean and
    variance.  [eq-deep-forward-moments]   X (N,d) -> list of Mixture"""
    x, found = exact(X), []
    for choice, (M, V, a, b) in zip(network.choices, network.experts):
        log_p = choice_log_probs(x, choice)
        gamma = np.einsum("nc,nck->nk", x.gamma, np.exp(log_p))
        mean, cov = mixture_moments(x)
        G = cov + mean[:, :, None] * mean[:, None, :]
        own = 1 + np.tensordot(G, V, axes=((1, 2), (1, 2)))
        own = own[:, :, None] * b / (a[:, None] - 1)
        Sigma = np.einsum("kid,nde,kje->nkij", M, cov, M, optimize=True)
        Sigma = Sigma + own[..., None] * np.eye(M.shape[1])
        x = Mixture(gamma, np.einsum("kid,nd->nki", M, mean), Sigma)
        found.append(x)
    return found


def choice_log_probs(x, choice):
    """ln of the mean probability of each choice, given c of x, its logits Gaussian.
    [eq-deep-forward-moments]   -> (N,C,J+1)"""
    psi, psi2 = choice_logits(x, choice)
    return stick_log_means(psi, np.maximum(psi2 - psi**2, 0.0))


# book/beyond/depth.ipynb, cell depth-07
def draw_paths(network, X, u):
    """x_S along paths through the network, one per point and row.  [eq-deep-paths]

    X (n,d), u (P,q) uniforms, q = sum of 1 + h_s -> (n,P,h_S)
    """
    x, at, (n, P) = np.broadcast_to(X[:, None], (len(X), len(u), X.shape[1])), 0, (len(X), len(u))
    for choice, (M, V, a, b) in zip(network.choices, network.experts):
        rows = (x[:, :1] if at == 0 else x).reshape(-1, x.shape[2])
        p = np.exp(stick_log_means(*logit_moments(rows, *choice), digits=7))
        cuts = np.cumsum(p, -1)[:, :-1].reshape(n, -1, len(a) - 1)
        z = (u[:, at, None] >= cuts).sum(-1)
        z, h, xt = z.reshape(n, P), M.shape[1], pad(x)
        t = np.stack([stdtrit(2 * nu, u[:, at + 1:at + 1 + h]) for nu in a])
        blur = 1 + np.einsum("npd,npde,npe->np", xt, V[z], xt, optimize=True)
        scale = np.sqrt(blur[..., None] * (b / a[:, None])[z])
        x = np.einsum("npid,npd->npi", M[z], xt) + scale * t[z, np.arange(P)]
        at += 1 + h
    return x


def deep_log_proba(network, X, points=64, replicates=8, rng=0):
    """ln p(y = c | x, data), and the standard error of p.  [eq-deep-paths]

    X (n,d); points (rounded down to a power of 2) of each of so many Sobol sequences,
    scrambled independently
    S = 1: exact, error 0 -> (n,L) nats, (n,L).  ValueError names a bad argument.
    """
    X = check_X(X, n_features=network.experts[0].M.shape[2] - 1)
    points, replicates = check_count(points, "points"), check_count(replicates, "replicates", 2)
    if len(network.experts) == 1:
        p = parameters_of(network)
        return predict_log_proba(p, X), np.zeros((len(X), len(p.beta1_mu) + 1))
    from scipy.stats import qmc
    output, found = network.choices[-1], []
    dims = sum(1 + e.M.shape[1] for e in network.experts)
    last = SimpleNamespace(beta1_mu=output.mu, beta1_S=output.cov)
    for stream in np.random.default_rng(rng).spawn(replicates):
        u = qmc.Sobol(dims, scramble=True, rng=stream).random_base2(points.bit_length() - 1)
        u = np.clip(u, 1e-12, 1 - 1e-12)
        p = np.exp(output_log_probs(last, draw_paths(network, X, u)))
        found.append(p.mean(1))
    p = np.array(found)
    return np.log(np.maximum(p.mean(0), 1e-300)), p.std(0, ddof=1) / replicates**0.5


def moments_log_proba(network, X):
    """ln p(y = c | x, data) by moments alone.  [eq-deep-forward-moments]   -> (n,L)"""
    X = check_X(X, n_features=network.experts[0].M.shape[2] - 1)
    x = forward_moments(network, X)[-1]
    log_p = choice_log_probs(x, network.choices[-1])
    return np.log(np.einsum("nc,ncl->nl", x.gamma, np.exp(log_p)))


# book/beyond/depth.ipynb, cell depth-10
HIDDEN = ("greedy", "code", "input")


def principal_axes(X, m):
    """The first m principal components of the rows, each of variance 1 (0 where there
    is none).  [eq-deep-start]   X (N,d) -> (N,m)"""
    U, s, _ = np.linalg.svd(X - X.mean(0), full_matrices=False)
    found = (U * (s > 1e-10 * max(s.max(initial=0.0), 1e-300)))[:, :m] * len(X) ** 0.5
    return np.pad(found, ((0, 0), (0, m - found.shape[1])))


def deep_start(X, y, sizes, priors, rng, init="class-code", hidden="greedy"):
    """Network to start from, layer by layer.  [eq-deep-start]

    sizes (K, widths (m_1 .. m_S), L); hidden: what the latents of the lower layers are
    asked to be, "code" as in class_code, or "input": principal_axes of X
    init as in init_parameters, for the layers that are asked for a code -> Network
    """
    (K, widths, L), R, choices, experts = sizes, X, [], []
    for s, m in enumerate(widths):
        if hidden == "input" and s + 1 < len(widths):
            label = cluster_labels(R, K, rng)
            target = principal_axes(X, m) + 0.1 * rng.normal(size=(len(X), m))
            made = code_experts(R, label, target, K, priors)
            gate = code_gate(R, label, K, priors)
        else:
            if hidden == "greedy" and s + 1 < len(widths):
                p = fit(R, y, K, m, L, priors, rng, init, max_sweeps=100).parameters
            else:
                p = init_parameters(R, y, K, m, L, priors, rng, init)
            made, gate = (p.M, p.V, p.a, p.b), (p.beta0_mu, p.beta0_S)
        choices, experts = [*choices, Sticks(*gate)], [*experts, Experts(*made)]
        x = forward_moments(Network(choices, experts), X)[-1]
        R = np.einsum("nc,ncd->nd", x.gamma, x.mu)
    output = Sticks(p.beta1_mu, p.beta1_S)
    return Network((*choices, output), tuple(experts))


def complete_deep(network, X):
    """DeepState of a start: the latents as the network would draw them, tilts 0.
    [eq-deep-start]"""
    hidden = tuple(forward_moments(network, X))
    shapes = [(len(X), 1), *(x.gamma.shape for x in hidden)]
    tilts = tuple(np.zeros((*shape, len(c.mu))) for shape, c in zip(shapes, network.choices))
    return DeepState(network, hidden, tilts)


# book/beyond/depth.ipynb, cell depth-11
class DeepAscent(NamedTuple):
    """Between two sweeps: DeepState, bound (nats, None before the first), converged.
    [eq-deep-sweep]"""
    state: DeepState
    bound: float
    converged: bool


class DeepFit(NamedTuple):
    """Result of fit_deep; it holds no row of the data.  [eq-deep-bound]

    network Network;  elbo (n_sweeps,) bound after each sweep;  n_sweeps, converged
    points  of the forecast: how many paths a row
    """
    network: Network
    elbo: np.ndarray
    n_sweeps: int
    converged: bool
    points: int = 512


class _Sweeper(NamedTuple):
    """What a sweep reads and does not change."""
    X: np.ndarray
    y: np.ndarray
    priors: Priors
    tol: float
    inner: int
    weight: np.ndarray

    def __call__(self, before, t):
        X, y, priors, tol, inner, weight = self
        rows = np.sum(weight * np.ones(len(X)))
        state = deep_sweep(before.state, X, y, priors, inner, weight)
        bound = float(deep_elbo(state, X, y, priors, weight))
        small = before.bound is not None and bound - before.bound < tol * rows
        return DeepAscent(state, bound, bool(small)), (bound,)


def deep_work(Z, y, n_classes, settings, rng, layers=2, width=None, hidden="greedy", points=512,
              weight=None):
    """The ascent as a Work, which finishes as a DeepFit.
    [eq-deep-sweep, eq-weighted-bound]

    settings: n_experts, latent_dim, priors, init, max_sweeps, tol, inner as in fit
    weight (N,) of the rows or None
    """
    s, origin = settings, generator_state(rng)
    X, y, weight, (K, h, L) = check_weighted_problem(
        Z, y, weight, s.n_experts, s.latent_dim, n_classes)
    width = max(h, 2) if width is None else check_count(width, "width")
    widths = [width] * (check_count(layers, "layers") - 1) + [h]
    check_choice(hidden, "hidden", HIDDEN)
    check_count(points, "points", 16)
    if s.priors.a0 <= 1:
        raise ValueError("priors: expected a0 > 1, so that latents have a variance, got "
                         f"a0={s.priors.a0!r}")

    def begin():
        rows = slice(None) if weight is None else repeat_rows(weight)
        network = deep_start(X[rows], y[rows], (K, widths, L), s.priors, rng, s.init, hidden)
        return [DeepAscent(complete_deep(network, X), None, False)]

    def ascended(run):
        (last,), elbo = run.states, np.array([bound for bound, in run.kept[0]])
        if run.reason != "steps":
            warnings.warn(f"{run.reason}: this is the fit after {len(elbo)} whole "
                          "sweeps", stacklevel=3)
        return DeepFit(last.state.network, elbo, len(elbo), last.converged, points)

    problem = ("deep", X, y, L, K, widths, s.priors, s.init, hidden, s.tol, s.inner,
               *(() if weight is None else (weight,)))
    sweeper = _Sweeper(X, y, s.priors, s.tol, s.inner, 1.0 if weight is None else weight)
    return Work(begin, sweeper, s.max_sweeps, ascended,
                problem, origin, lambda states, c: states[c].bound, has_converged,
                kinds=(DeepAscent, DeepState, Network, Sticks, Experts, Mixture), every=100)


def fit_deep(X, y, n_experts=10, latent_dim=None, n_classes=None, layers=2, width=None,
             priors=Priors(),  # noqa: B008  Priors are frozen
             rng=0, init="class-code", hidden="greedy", max_sweeps=500, tol=1e-6, inner=1,
             sample_weight=None):
    """CAVI for a network of several layers.
    [eq-deep-sweep, eq-deep-start, eq-weighted-bound]

    layers      S; n_experts in each;  latent_dim of the last one (L-1)
    width       latents of the others; None: latent_dim, at least 2
    hidden      "code" or "input": what their latents are asked to be at the start
    inner       passes up the layers per sweep
    sample_weight  (N,) >= 0: a weight of 2 is the row twice, 0 no row
    The rest as in fit, a0 > 1 -> DeepFit
    ValueError names a bad argument.
    """
    check_start_options(priors, rng, init, "per-component", Priors)
    check_sweep_options(max_sweeps, tol, inner, False, None)
    settings = SimpleNamespace(n_experts=n_experts, latent_dim=latent_dim, priors=priors,
                               init=init, max_sweeps=max_sweeps, tol=tol, inner=inner)
    work = deep_work(X, y, n_classes, settings, np.random.default_rng(rng), layers, width, hidden,
                     weight=sample_weight)
    return work.finish(drive(work))


# book/beyond/depth.ipynb, cell depth-12
def _begin(Z, y, n_classes, settings, rng, weight=None):
    for name, only in (("accelerate", False), ("omega1", "per-component")):
        if getattr(settings, name) != only:
            raise ValueError(f'{name}: expected {only!r} for method "deep", got '
                             f"{getattr(settings, name)!r}")
    o = learner_options(settings)
    return deep_work(Z, y, n_classes, settings, rng, o["layers"], o["width"], o["hidden"], o["points"],
                     weight)


def _forecast(result, Z):
    return deep_log_proba(result.network, Z, result.points // 8, 8)[0]


def pack_deep(result):
    """The factors of a DeepFit as a dict of arrays.  [eq-deep-q]"""
    out = {"elbo": result.elbo, "converged": np.array(bool(result.converged)), "points": np.array(result.points)}
    for kind, parts in zip(("choice", "experts"), result.network):
        out |= {f"{kind}{s}_{name}": value for s, part in enumerate(parts) for name, value in part._asdict().items()}
    return out


def _unpack(arrays, settings):
    S = sum(name.endswith("_V") for name in arrays)
    parts = [tuple(cls(*(arrays[f"{kind}{s}_{name}"] for name in cls._fields)) for s in range(count))
             for kind, cls, count in (("choice", Sticks, S + 1), ("experts", Experts, S))]
    elbo = arrays["elbo"]
    return DeepFit(Network(*parts), elbo, len(elbo), bool(arrays["converged"]), int(arrays["points"]))


DEEP = Learner(
    _begin, _forecast, pack_deep, _unpack,
    options={"layers": 2, "width": None, "hidden": "greedy", "points": 512, "checkpoint": None},
    steps=lambda settings: settings.max_sweeps, objective="ELBO", step="sweep", advice="raise max_sweeps or tol",
    weights="any")
