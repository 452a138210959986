# Tangled from book/roads/diagnostics.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Diagnostics: how much do the draws know?

Two numbers tell whether the draws of Markov chains can be trusted: how much the chains disagree
(R-hat), and how many independent draws they are worth (ESS). Both follow from the variance of a
mean. For a mixture they have to be computed for predictions, not for parameters.
"""

__all__ = ["split_chains", "autocovariance", "effective_size", "rhat", "normal_scores",
           "split_rhat", "ess_mean", "ess_bulk", "ess_tail", "mcse_mean", "bfmi", "PosteriorDraws",
           "draw_log_probs", "predict_from_draws", "pointwise_log_likelihood", "Worst", "worst",
           "convergence", "worst_rhat", "Sampled", "keep_draws", "predict_sampled", "pack_sampled",
           "unpack_sampled"]


# book/roads/diagnostics.ipynb, cell diagnostics-06
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import logsumexp, ndtri

from cmn_literate.engineering.coordinates import pack, theta_shapes
from cmn_literate.engineering.gradients import class_log_probs
from cmn_literate.engineering.nodes import latent_nodes
from cmn_literate.network.simulate import Theta
from cmn_literate.checks import check_X, check_count, check_y
from cmn_literate.road_checks import check_draws, check_leading_axes


# book/roads/diagnostics.ipynb, cell diagnostics-07
def split_chains(draws):
    """Every chain cut into its two halves.  [eq-diag-split]
    (C,n,...) -> (2C,n//2,...); if n is odd, the draw in the middle is dropped;
    nan where a draw is not finite"""
    draws = check_draws(draws, least=2)
    draws = np.where(np.isfinite(draws).all((0, 1)), draws, np.nan)
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]])


# book/roads/diagnostics.ipynb, cell diagnostics-08
def autocovariance(chains):
    """(1/n) sum_i (x_i - mean)(x_i+t - mean) of every lag t, chain by chain.
    [eq-diag-autocovariance]   (m,n,...) -> (m,n,...), by FFT"""
    chains = np.asarray(chains, dtype=float)
    n = chains.shape[1]
    size = next_fast_len(2 * n, real=True)         # room for no wrap-around
    waves = rfft(chains - chains.mean(axis=1, keepdims=True), size, axis=1)
    power = waves.real**2 + waves.imag**2
    return irfft(power, size, axis=1)[:, :n] / n


# book/roads/diagnostics.ipynb, cell diagnostics-11
def effective_size(chains):
    """Independent draws that the chains are worth for the mean.  [eq-diag-geyer]

    chains (m,n,...) -> (...): m n / tau, tau by Geyer's initial monotone sequence
    of the autocorrelation of all chains together; at most m n log10(m n).
    A constant is worth m n draws; nan where a draw is not finite.
    """
    chains = check_draws(chains, "chains", least=2)
    (m, n), total = chains.shape[:2], chains.shape[0] * chains.shape[1]
    lagged = autocovariance(chains).mean(0)
    between = chains.mean(axis=1).var(axis=0, ddof=1) if m > 1 else 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = 1 - (lagged[0] * n / (n - 1) - lagged) / (lagged[0] + between)
    rho[0] = 1.0
    n_pairs = max((n - 1) // 2, 1)
    pairs = rho[0 : 2 * n_pairs : 2] + rho[1 : 2 * n_pairs : 2]
    positive = pairs > 0
    never = positive.all(0)
    stop = np.where(never, n_pairs - 1, np.argmin(positive, axis=0))
    first = np.arange(n_pairs).reshape((-1,) + (1,) * stop.ndim) < stop
    falling = np.where(first, np.minimum.accumulate(pairs), 0.0).sum(0)
    rest = np.take_along_axis(rho, 2 * stop[None], axis=0)[0]
    rest = np.where(never, rest, np.maximum(rest, 0.0))
    tau = np.maximum(2 * falling - 1 + rest, 1 / np.log10(total))
    size = np.where(np.ptp(chains, axis=(0, 1)) == 0, total, total / tau)
    return np.where(np.isfinite(chains).all((0, 1)), size, np.nan)[()]


# book/roads/diagnostics.ipynb, cell diagnostics-19
def rhat(chains):
    """Potential scale reduction: total over within-chain deviation, as it is,
    without splitting or ranks.  [eq-diag-rhat]

    chains (m,n,...) -> (...); 1 if the chains agree, inf if constants disagree,
    nan if everything is constant
    """
    chains = check_draws(chains, "chains", least=2)
    n = chains.shape[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = chains - chains[:, :1]       # exactly 0 where a chain stands still
        within = moved.var(axis=1, ddof=1).mean(0)
        means = chains[:, 0] + moved.mean(axis=1)
        between = (means - means[0]).var(axis=0, ddof=1) if len(means) > 1 else 0.0
        return np.sqrt((n - 1) / n + between / within)


# book/roads/diagnostics.ipynb, cell diagnostics-20
def normal_scores(draws):
    """Draws replaced by normal quantiles of their ranks among all chains.
    [eq-diag-scores]   (C,n,...) -> (C,n,...); ties share their mean rank"""
    from scipy.stats import rankdata                # here: it is slow to import

    draws = np.asarray(draws, dtype=float)
    rows = draws.reshape((-1,) + draws.shape[2:])
    fraction = (rankdata(rows, axis=0) - 0.375) / (len(rows) + 0.25)
    scores = ndtri(fraction).reshape(draws.shape)
    return np.where(np.isfinite(draws), scores, np.nan)


# book/roads/diagnostics.ipynb, cell diagnostics-21
def split_rhat(draws, method="rank"):
    """R-hat of half chains.  [eq-diag-rhat-rank]

    method "rank":  of normal scores, and of normal scores of the distance to the
                    median; the larger of the two (Vehtari et al. 2021), or the
                    first where the distance does not vary
           "plain": of the draws themselves
    draws (C,n,...) -> (...); inf if half chains stand still at different values,
    nan where a draw is not finite or nothing varies
    """
    if method not in ("rank", "plain"):
        raise ValueError(f"method: expected 'rank' or 'plain', got {method!r}")
    halves = split_chains(check_draws(draws))
    if method == "plain":
        return rhat(halves)
    folded = np.abs(halves - np.median(halves, axis=(0, 1)))
    return np.fmax(rhat(normal_scores(halves)), rhat(normal_scores(folded)))


# book/roads/diagnostics.ipynb, cell diagnostics-28
def ess_mean(draws):
    """Effective sample size for the mean: half chains, no ranks.  [eq-diag-geyer]
    draws (C,n,...) -> (...)"""
    return effective_size(split_chains(check_draws(draws)))


def ess_bulk(draws):
    """Effective sample size of the normal scores of half chains: for the centre of
    the distribution, whatever its tails.  [eq-diag-bulk]   (C,n,...) -> (...)"""
    return effective_size(normal_scores(split_chains(check_draws(draws))))


def ess_tail(draws):
    """Effective sample size for the 5 and 95 percent quantiles, the smaller one.
    [eq-diag-tail]   (C,n,...) -> (...)"""
    draws = check_draws(draws)
    ordered = np.sort(draws.reshape((-1,) + draws.shape[2:]), axis=0)
    last = len(ordered) - 1              # whole numbers: no quantile is rounded
    cuts = [ordered[last * twentieths // 20] for twentieths in (1, 19)]
    sizes = [effective_size(split_chains(draws <= cut)) for cut in cuts]
    return np.where(np.isfinite(draws).all((0, 1)), np.minimum(*sizes), np.nan)[()]


def mcse_mean(draws):
    """Monte Carlo standard error of the mean of all draws.  [eq-diag-mcse]
    draws (C,n,...) -> (...)"""
    draws = check_draws(draws)
    return draws.std(axis=(0, 1), ddof=1) / np.sqrt(ess_mean(draws))


# book/roads/diagnostics.ipynb, cell diagnostics-31
def bfmi(energy):
    """Energy fraction: mean squared change of the energy over its variance.
    [eq-diag-bfmi]   energy (C,n) -> (C,), one number per chain"""
    energy = check_draws(energy, "energy")
    change = np.diff(energy, axis=1)
    return (change**2).mean(axis=1) / energy.var(axis=1, ddof=1)


# book/roads/diagnostics.ipynb, cell diagnostics-34
@dataclass(frozen=True)
class PosteriorDraws:
    """Draws of the parameters, as every sampler of this book returns them.
    [eq-diag-average]

    theta      Theta whose arrays have two leading axes (chain, draw)
    log_joint  (chain, draw) ln p(labels, theta) as the sampler computes it, nats
    stats      {name: (chain, draw, ...) array}, such as energy, accept, divergent

    phi (chain, draw, P) is the unconstrained view, [beta1, beta0, A, ln tau].
    """
    theta: Theta
    log_joint: np.ndarray
    stats: dict = field(default_factory=dict)

    def __post_init__(self):
        object.__setattr__(self, "theta", Theta(*(
            np.asarray(x, dtype=float) for x in self.theta)))
        object.__setattr__(self, "log_joint", np.asarray(self.log_joint, float))
        check_leading_axes(self.theta, self.log_joint, self.stats)

    @property
    def n_chains(self):
        """Number of chains."""
        return self.log_joint.shape[0]

    @property
    def n_draws(self):
        """Number of draws of each chain."""
        return self.log_joint.shape[1]

    @property
    def shapes(self):
        """Shapes(n_experts, latent_dim, n_classes, input_dim) of a draw."""
        return theta_shapes(self.theta)

    @property
    def phi(self):
        """Unconstrained view (chain, draw, P)."""
        return pack(self.theta)

    def flatten(self):
        """Theta with one leading axis (chains times draws), chain by chain."""
        size = self.n_chains * self.n_draws
        return Theta(*(x.reshape((size,) + x.shape[2:]) for x in self.theta))

    def to_arviz(self):
        """arviz.InferenceData: posterior and sample_stats (needs arviz < 1)."""
        import arviz
        return arviz.from_dict(posterior=self.theta._asdict(), sample_stats={
            "lp": self.log_joint, **self.stats})


# book/roads/diagnostics.ipynb, cell diagnostics-35
def draw_log_probs(draws, X, nodes=None, max_draws=None, rng=0):
    """ln p(class | x, theta) of single draws, one after the other.
    [eq-diag-average]

    draws PosteriorDraws, X (n,d) -> iterator over (n,L) arrays, chain by chain.
    nodes      None: the likelihood's default rule; where it is random (three or
               more effective dimensions) one set from rng serves all draws
    max_draws  None: all; else this many, evenly spread over all chains
    """
    shapes, theta = draws.shapes, draws.flatten()
    X = check_X(X, n_features=shapes.input_dim)
    picked = np.arange(len(theta.tau))
    if max_draws is not None:
        count = min(check_count(max_draws, "max_draws"), len(picked))
        picked = (np.arange(count) * len(picked) + len(picked) // 2) // count
    if nodes is None:
        nodes = latent_nodes(shapes, rng=rng)
    return (class_log_probs(Theta(*(x[s] for x in theta)), X, nodes)
            for s in picked)


def predict_from_draws(draws, X, nodes=None, max_draws=None, rng=0):
    """ln of the posterior predictive: the exact likelihood averaged over draws.
    [eq-diag-average]   draws PosteriorDraws, X (n,d) -> (n,L) nats"""
    logs = np.stack(list(draw_log_probs(draws, X, nodes, max_draws, rng)))
    return logsumexp(logs, axis=0) - np.log(len(logs))


# book/roads/diagnostics.ipynb, cell diagnostics-36
def pointwise_log_likelihood(draws, X, y, nodes=None, rng=0):
    """ln p(y_n | x_n, theta) of every draw and row.  [eq-diag-average]
    draws PosteriorDraws, X (N,d), y (N,) -> (chains, draws, N) nats"""
    X = check_X(X, n_features=draws.shapes.input_dim)
    y = check_y(y, len(X), draws.shapes.n_classes)
    rows = [log_p[np.arange(len(y)), y]
            for log_p in draw_log_probs(draws, X, nodes, None, rng)]
    return np.stack(rows).reshape(draws.n_chains, draws.n_draws, len(y))


# book/roads/diagnostics.ipynb, cell diagnostics-42
class Worst(NamedTuple):
    """The worst of a set of quantities.  [eq-diag-worst]

    rhat     largest rank-normalised split R-hat
    ess_bulk, ess_tail   smallest effective sizes
    """
    rhat: float
    ess_bulk: float
    ess_tail: float


def worst(draws):
    """Worst R-hat and effective sizes over all trailing axes.  [eq-diag-worst]

    draws (C,n,...) -> Worst. Quantities that never vary in the half chains do not
    count; if none is left, or one draw is not finite, everything is nan.
    """
    draws = check_draws(draws)
    draws = draws.reshape(draws.shape[:2] + (-1,))
    if not np.isfinite(draws).all():
        return Worst(np.nan, np.nan, np.nan)
    draws = draws[:, :, np.ptp(split_chains(draws), axis=(0, 1)) > 0]
    if not draws.size:
        return Worst(np.nan, np.nan, np.nan)
    return Worst(float(split_rhat(draws).max()), float(ess_bulk(draws).min()),
                 float(ess_tail(draws).min()))


# book/roads/diagnostics.ipynb, cell diagnostics-43
def convergence(draws, X, nodes=None, max_draws_each=None, rng=0):
    """R-hat and effective sizes of ln p of the classes, of the log joint, and of the
    parameters.
    [eq-diag-worst, eq-diag-symmetry]

    draws PosteriorDraws, X (n,d) rows at which predictions are compared
    max_draws_each   None: all draws; else the last so many of each chain
    -> {"probabilities": Worst (of their logs), "log joint": Worst, "parameters": Worst}
    """
    if max_draws_each is not None:
        last = -min(draws.n_draws, check_count(
            max_draws_each, "max_draws_each", least=4))
        draws = PosteriorDraws(Theta(*(x[:, last:] for x in draws.theta)),
                               draws.log_joint[:, last:])
    logs = np.stack(list(draw_log_probs(draws, X, nodes, None, rng)))
    logs = logs.reshape((draws.n_chains, draws.n_draws) + logs.shape[1:])
    return {"probabilities": worst(logs), "log joint": worst(draws.log_joint),
            "parameters": worst(draws.phi)}


# book/roads/diagnostics.ipynb, cell diagnostics-51
def worst_rhat(draws, X, n_rows=20):
    """Largest split R-hat of the log density and of ln p of the classes at n_rows
    rows of X (N,d).  [eq-table-rhat]

    -> float; inf where it cannot be known: below 4 draws per chain, if a number is
    not finite, or if the log density or all ln p never vary
    ValueError names a bad argument.
    """
    X, n_rows = check_X(X), check_count(n_rows, "n_rows")
    if not len(X):
        raise ValueError("X: expected at least one row, got none")
    if draws.n_draws < 4 or not np.isfinite(draws.log_joint).all():
        return np.inf
    rows = np.unique(np.linspace(0, len(X) - 1, n_rows).round().astype(int))
    found = convergence(draws, X[rows])
    rhat = np.max([1.0, found["probabilities"].rhat, found["log joint"].rhat])
    return np.inf if np.isnan(rhat) else float(rhat)


# book/roads/diagnostics.ipynb, cell diagnostics-53
class Sampled(NamedTuple):
    """Draws, as the estimator keeps them.  [eq-table-rhat]

    draws PosteriorDraws; trace (n_draws,) log density, mean over chains;
    n_sweeps transitions made, warm-up included (after an interrupt: draws of each
    chain); rhat see worst_rhat; converged
    """
    draws: PosteriorDraws
    trace: np.ndarray
    n_sweeps: int
    rhat: float
    converged: bool


def keep_draws(draws, Z, expected, steps):
    """Draws as the estimator keeps them: converged if all the expected draws are
    there, worst_rhat is below 1.05 and none diverged.  [eq-table-rhat]
    -> Sampled"""
    rhat = worst_rhat(draws, Z)
    whole = draws.n_draws == expected
    lost = np.any(draws.stats.get("divergent", False))
    return Sampled(draws, draws.log_joint.mean(0), steps if whole else draws.n_draws,
                   rhat, bool(whole and rhat < 1.05 and not lost))


# book/roads/diagnostics.ipynb, cell diagnostics-54
def predict_sampled(sampled, Z):
    """Forecast of kept draws.  [eq-diag-average]   Z (n,d) -> (n,L) nats"""
    return predict_from_draws(sampled.draws, Z)


def pack_sampled(sampled):
    """Sampled as arrays by name, for a file.  [eq-table-rhat]"""
    numbers = {"n_sweeps": sampled.n_sweeps, "rhat": sampled.rhat,
               "converged": sampled.converged, "log_joint": sampled.draws.log_joint}
    stats = {f"stats-{name}": x for name, x in sampled.draws.stats.items()}
    return {**sampled.draws.theta._asdict(), **stats,
            **{name: np.array(x) for name, x in numbers.items()}}


def unpack_sampled(arrays, settings):
    """The inverse of pack_sampled.  [eq-table-rhat]"""
    theta = Theta(*(arrays[name] for name in Theta._fields))
    stats = {name.removeprefix("stats-"): x for name, x in arrays.items()
             if name.startswith("stats-")}
    draws = PosteriorDraws(theta, arrays["log_joint"], stats)
    return Sampled(draws, draws.log_joint.mean(0), int(arrays["n_sweeps"]),
                   float(arrays["rhat"]), bool(arrays["converged"]))
