# Tangled from book/use/metrics.ipynb by tools/tangle.py; edit the notebook, not this file.
"""How good is a probability?

A classifier that reports probabilities must be judged on the probabilities. The log score does it:
nobody can expect to gain by reporting anything but what they believe. Accuracy looks at the winner
alone. And calibration error, used by itself, can be zero for a useless forecast and above zero for
a perfect one.
"""

__all__ = ["check_proba", "accuracy", "log_scores", "log_predictive_density", "brier",
           "Reliability", "reliability", "expected_calibration_error", "plot_reliability",
           "ece_if_calibrated", "Elpd", "waic", "pareto_fit", "smooth_tail", "psis_loo",
           "steps_within", "decay_steps"]


# book/use/metrics.ipynb, cell metrics-05
import warnings
from numbers import Real
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from cmn_literate.checks import check_count, check_y, real_array


# book/use/metrics.ipynb, cell metrics-06
def check_proba(y, proba, log=False):
    """y (n,) int64 and p (n, L) after checking that they fit.  [eq-simplex]

    proba: (n, L) rows on the simplex to 1e-6, or (n,) numbers P(y = 1); with
    log=True logarithms, (n, L) only.  ValueError naming y or proba otherwise.
    """
    p = real_array(proba, "proba")
    if p.ndim == 1 and not log:
        p = np.stack([1 - p, p], axis=1)
    if p.ndim != 2 or p.shape[0] < 1 or p.shape[1] < 2:
        shapes = "(n, L)" if log else "(n, L) or (n,)"
        raise ValueError(
            f"proba: expected shape {shapes} with n >= 1, L >= 2, "
            f"got shape {np.shape(proba)}")
    y = check_y(y, len(p), p.shape[1])
    low, high = (-np.inf, 0.0) if log else (0.0, 1.0)
    inside = ((p >= low - 1e-6) & (p <= high + 1e-6)).all(1)
    with np.errstate(invalid="ignore"):
        total = np.exp(logsumexp(p, axis=1)) if log else p.sum(1)
        inside &= np.abs(total - 1) <= 1e-6
    if not inside.all():
        row = int(np.argmin(inside))
        kind = ("log-probabilities whose exponentials" if log
                else "probabilities that")
        raise ValueError(
            f"proba: expected rows of {kind} sum to 1, "
            f"got {p[row].tolist()} in row {row}")
    return y, np.clip(p, low, high)


# book/use/metrics.ipynb, cell metrics-09
def accuracy(y, proba):
    """Share of rows whose most probable class is the true one.  [eq-accuracy]

    Ties go to the lower class.
    """
    y, p = check_proba(y, proba)
    return float((p.argmax(1) == y).mean())


# book/use/metrics.ipynb, cell metrics-12
def log_scores(y, proba, log=False):
    """Log score of each row, ln p[n, y_n], (n,) in nats.  [eq-lpd]

    It is -inf where that probability is 0.  log=True: proba holds logarithms.
    """
    y, p = check_proba(y, proba, log)
    picked = p[np.arange(len(y)), y]
    with np.errstate(divide="ignore"):
        return picked if log else np.log(picked)


# book/use/metrics.ipynb, cell metrics-13
def log_predictive_density(y, proba, log=False):
    """Mean log score, in nats per row.  [eq-lpd]

    A true class of probability exactly 0 makes it -inf, with a RuntimeWarning that
    names the rows.
    """
    scores = log_scores(y, proba, log)
    impossible = np.flatnonzero(np.isneginf(scores))
    if impossible.size:
        rows = ", ".join(map(str, impossible[:5])) + (
            ", ..." if impossible.size > 5 else "")
        warnings.warn(
            "the true class has probability exactly 0 in "
            f"{impossible.size} row(s): {rows}; the mean log score is -inf. If "
            "they underflowed, pass log-probabilities with log=True",
            RuntimeWarning, stacklevel=2)
    return float(scores.mean())


# book/use/metrics.ipynb, cell metrics-17
def brier(y, proba):
    """Mean squared distance between forecast and outcome, in [0, 2].  [eq-brier]

    Summed over classes: for two classes it is twice the (p - y)^2 that some
    libraries report.
    """
    y, p = check_proba(y, proba)
    return float(((p - np.eye(p.shape[1])[y]) ** 2).sum(1).mean())


# book/use/metrics.ipynb, cell metrics-21
class Reliability(NamedTuple):
    """Bins of a reliability diagram.  [eq-bins, eq-reliability]

    edges (B+1,); count (B,) rows; confidence (B,) mean forecast and accuracy (B,)
    share of hits, NaN in an empty bin
    """

    edges: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray
    count: np.ndarray


# book/use/metrics.ipynb, cell metrics-22
def _edges(c, n_bins, bins):
    """Edges of the bins of confidences c (n,).  [eq-bins]"""
    if bins == "width":
        return np.arange(n_bins + 1) / n_bins
    if bins == "mass":
        starts = np.unique(np.sort(c)[np.arange(n_bins) * len(c) // n_bins])
        return np.append(starts, c.max())
    raise ValueError(f"bins: expected 'width' or 'mass', got {bins!r}")


def _bin_of(c, edges):
    """Bin of each confidence; the last has no upper limit: it is closed."""
    return np.searchsorted(edges[:-1], c, side="right") - 1


def reliability(y, proba, n_bins=20, bins="width"):
    """Mean confidence and share of hits per bin.   -> Reliability

    [eq-bins, eq-reliability]
    proba (n, L): confidence is the largest probability, a hit: its class is true.
    proba (n,) = P(y = 1): confidence is that number, a hit is y = 1.
    bins: "width", n_bins equal intervals of [0, 1]; "mass", about equal numbers of
    rows (fewer bins if values tie).
    """
    y, p = check_proba(y, proba)
    n_bins = check_count(n_bins, "n_bins")
    c, hit = (
        (p[:, 1], y == 1) if np.ndim(proba) == 1 else (p.max(1), p.argmax(1) == y))
    edges = _edges(c, n_bins, bins)
    which = _bin_of(c, edges)
    total = lambda values: np.bincount(which, values, minlength=len(edges) - 1)
    count = total(None)
    with np.errstate(invalid="ignore"):
        return Reliability(edges, total(c) / count, total(hit) / count, count)


# book/use/metrics.ipynb, cell metrics-24
def expected_calibration_error(
    y, proba, n_bins=20, kind="top-label", bins="width"):
    """Mean |share of hits - confidence| over bins, weighted by rows.

    [eq-ece, eq-ece-classwise]
    kind: "top-label" or "class-wise" for proba (n, L); proba (n,) = P(y = 1) asks
    about y = 1 for either kind.  n_bins, bins: as in reliability.
    In [0, 1], 0 is best; ece_if_calibrated tells what luck alone gives.
    """
    if kind not in ("top-label", "class-wise"):
        raise ValueError(
            f"kind: expected 'top-label' or 'class-wise', got {kind!r}")
    if kind == "class-wise" and np.ndim(proba) == 2:
        y, p = check_proba(y, proba)
        by_class = [
            expected_calibration_error(y == l, p_l, n_bins, bins=bins)
            for l, p_l in enumerate(p.T)]
        return float(np.mean(by_class))
    r = reliability(y, proba, n_bins, bins)
    used = r.count > 0
    return float(
        np.abs(r.accuracy - r.confidence)[used] @ r.count[used] / r.count.sum())


# book/use/metrics.ipynb, cell metrics-26
def plot_reliability(bins, ax=None, label=None, **style):
    """Draw a Reliability: hits against confidence.  [eq-reliability]   -> Axes

    Larger markers for more rows; style goes to scatter.
    """
    import matplotlib.pyplot as plt

    ax = plt.subplots()[1] if ax is None else ax
    used = bins.count > 0
    x, hits = bins.confidence[used], bins.accuracy[used]
    area = 15 + 285 * bins.count[used] / bins.count.sum()
    style = {"color": "C0", "marker": "o", "zorder": 3, "edgecolors": "white",
             "linewidths": 0.6, **style}
    ax.plot([0, 1], [0, 1], color="0.4", linestyle=":", linewidth=1.2)
    ax.vlines(x, x, hits, color=style["color"], linewidth=1.0)
    ax.scatter(x, hits, s=area, label=label, **style)
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    ax.set(xlabel="confidence", ylabel="share of hits")
    return ax


# book/use/metrics.ipynb, cell metrics-33
def ece_if_calibrated(proba, rng, n_draws=200, n_bins=20, kind="top-label", bins="width"):
    """ECEs that chance alone would give if proba were exactly right, (n_draws,).

    [eq-ece-chance]
    Labels are drawn from proba, (n, L) or (n,) = P(y = 1).  n_bins, kind, bins: as
    in expected_calibration_error.  Compare an ECE with the mean of these, or with
    their 95 % quantile.
    """
    n_draws = check_count(n_draws, "n_draws")
    y, p = check_proba(np.zeros(np.shape(proba)[:1], dtype=int), proba)
    expected_calibration_error(y, proba, n_bins, kind, bins)    # refuses bad options
    asked = ([(p[:, 1], 1)] if np.ndim(proba) == 1 else        # confidences, hits
             [(p.max(1), p.argmax(1))] if kind == "top-label" else
             [(p_l, l) for l, p_l in enumerate(p.T)])
    asked = [(c, hit, _bin_of(c, _edges(c, n_bins, bins))) for c, hit in asked]
    cut, errors = np.cumsum(p, axis=1)[:, :-1], np.zeros(n_draws)
    for i in range(n_draws):           # the bins are those of proba, whatever the labels
        labels = (rng.uniform(size=(len(p), 1)) > cut).sum(1)
        for c, hit, which in asked:
            errors[i] += np.abs(np.bincount(which, (labels == hit) - c)).sum()
    return errors / (len(asked) * len(p))


# book/use/metrics.ipynb, cell metrics-40
def _check_log_lik(log_lik):
    """Draws by rows (S, N), from (S, N) or (chains, draws, N).  [eq-loo]"""
    values = real_array(log_lik, "log_lik")
    if values.ndim not in (2, 3) or not values.size:
        raise ValueError("log_lik: expected an array (draws, rows) or (chains, draws, "
                         f"rows), got shape {values.shape}")
    values = values.reshape(-1, values.shape[-1])
    if len(values) < 2:
        raise ValueError("log_lik: expected at least 2 draws, got 1; a point estimate "
                         "has no WAIC: its mean training score is just that")
    bad = np.flatnonzero(np.isnan(values).any(0) | (values == np.inf).any(0))
    if bad.size:
        raise ValueError("log_lik: expected numbers below infinity, got others in "
                         f"row(s) {', '.join(map(str, bad[:5]))}")
    impossible = np.flatnonzero(np.isneginf(values).any(0))
    if impossible.size:
        warnings.warn("a draw gives probability 0 to row(s) "
                      f"{', '.join(map(str, impossible[:5]))}: their elpd is -inf",
                      RuntimeWarning, stacklevel=3)
    return values


# book/use/metrics.ipynb, cell metrics-41
class Elpd(NamedTuple):
    """Expected log predictive density from training rows, in nats.  [eq-loo]

    elpd, se       sum over the rows and its standard error (higher is better)
    rows (N,)      its terms
    p_rows (N,)    WAIC: variance of the row's log likelihood, p_n
                   LOO: lppd_n minus the term
    k (N,)         LOO: tail index of the row's weights, NaN where no tail can be
                   fitted; WAIC: NaN
    """
    elpd: float
    se: float
    rows: np.ndarray
    p_rows: np.ndarray
    k: np.ndarray


def _total(rows, p_rows, k):
    with np.errstate(invalid="ignore"):
        se = float(np.sqrt(len(rows)) * rows.std()) if len(rows) > 1 else np.nan
    return Elpd(float(rows.sum()), se, rows, p_rows, k)


def waic(log_lik):
    """WAIC as an elpd.  [eq-waic]

    log_lik (S, N) or (chains, draws, N): ln p(y_n | Theta_s) of every draw and row
    -> Elpd, with a RuntimeWarning that counts the rows whose variance is over 0.4
    """
    values = _check_log_lik(log_lik)
    lppd = logsumexp(values, axis=0) - np.log(len(values))
    with np.errstate(invalid="ignore"):
        p_rows = np.nan_to_num(values.var(axis=0, ddof=1), nan=np.inf)
    wild = np.flatnonzero(p_rows > 0.4)
    if wild.size:
        warnings.warn(f"the variance is over 0.4 in {wild.size} of {len(lppd)} rows "
                      f"({', '.join(map(str, wild[:5]))}{', ...' * (wild.size > 5)}): "
                      "WAIC is not to be trusted there; see psis_loo",
                      RuntimeWarning, stacklevel=2)
    return _total(lppd - p_rows, p_rows, np.full(len(lppd), np.nan))


# book/use/metrics.ipynb, cell metrics-45
def pareto_fit(excesses):
    """Tail index k and scale sigma of a generalised Pareto law.
    [eq-pareto, eq-pareto-profile]   excesses (M,) > 0, ascending -> floats"""
    x, M = excesses, len(excesses)
    grid = 30 + int(M**0.5)
    b = 1 - np.sqrt(grid / (np.arange(grid) + 0.5))
    b = b / (3 * x[int(M / 4 + 0.5) - 1]) + 1 / x[-1]
    k = np.log1p(-b[:, None] * x).mean(1)
    log_l = M * (np.log(-b / k) - k - 1)
    weight = np.exp(log_l - logsumexp(log_l))
    kept = weight >= 10 * np.finfo(float).eps
    b = np.sum((b * weight)[kept]) / weight[kept].sum()
    k = np.log1p(-b * x).mean()
    return (M * k + 10 * 0.5) / (M + 10), -k / b


# book/use/metrics.ipynb, cell metrics-47
def smooth_tail(log_weights):
    """Log weights with their upper tail replaced by Pareto quantiles, and its k.
    [eq-pareto]   (S,) -> (S,) of which the largest is at most what it was, float

    The tail holds min(S/5, 3 sqrt(S)) draws. With less than 5 of them, or if all are
    equal, there is nothing to fit: the weights stay, k is nan.
    """
    S, top = len(log_weights), log_weights.max()
    x = log_weights - top
    order = np.argsort(x)
    cut = x[order[-int(np.ceil(min(S / 5, 3 * S**0.5))) - 1]]
    cut = max(cut, np.log(np.finfo(float).tiny))
    tail = order[x[order] > cut]
    if len(tail) <= 4 or np.ptp(x[tail]) == 0:
        return x + top, np.nan
    k, sigma = pareto_fit(np.exp(x[tail]) - np.exp(cut))
    if np.isfinite(k):
        level = (np.arange(len(tail)) + 0.5) / len(tail)
        flat = abs(k) < np.finfo(float).eps
        quantile = -sigma * np.log1p(-level) if flat else (
            sigma * np.expm1(-k * np.log1p(-level)) / k)
        x[tail] = np.minimum(np.log(quantile + np.exp(cut)), 0.0)
    return x + top, k


# book/use/metrics.ipynb, cell metrics-48
def psis_loo(log_lik):
    """Leave-one-out elpd by Pareto-smoothed importance sampling.
    [eq-loo-identity, eq-pareto]

    log_lik (S, N) or (chains, draws, N): ln p(y_n | Theta_s) of every draw and row
    -> Elpd, with a RuntimeWarning that counts the rows with k over 0.7, and one that
    counts those whose k is unknown
    """
    values = _check_log_lik(log_lik)
    rows, k = np.empty(values.shape[1]), np.full(values.shape[1], np.inf)
    for n, column in enumerate(values.T):
        if np.isneginf(column).any():
            rows[n] = -np.inf
            continue
        weights, k[n] = smooth_tail(-column)
        rows[n] = logsumexp(weights + column) - logsumexp(weights)
    lppd = logsumexp(values, axis=0) - np.log(len(values))
    for which, found, advice in (
            (k > 0.7, "over 0.7", "leave these rows out in earnest"),
            (np.isnan(k), "unknown", "too few weights differ to fit a tail, more draws "
             "may tell; the estimate is that of the weights as they are")):
        hit = np.flatnonzero(which)
        if hit.size:
            warnings.warn(
                f"the tail index is {found} in {hit.size} of {len(k)} rows "
                f"({', '.join(map(str, hit[:5]))}{', ...' * (hit.size > 5)}): {advice}",
                RuntimeWarning, stacklevel=2)
    return _total(rows, lppd - rows, k)


# book/use/metrics.ipynb, cell metrics-51
def _check_trace(trace):
    """An objective by steps, (T,), T >= 1.  [eq-steps-within]"""
    trace = real_array(trace, "trace")
    if trace.ndim != 1 or not len(trace):
        raise ValueError(f"trace: expected (T,), T >= 1, got shape {trace.shape}")
    return trace


def steps_within(trace, gap=1.0):
    """First step, from 1, whose objective is within gap nats of the last one.
    [eq-steps-within]   trace (T,) without NaN, the last finite -> int"""
    trace = _check_trace(trace)
    if np.isnan(trace).any() or np.isinf(trace[-1]):
        raise ValueError("trace: expected no NaN and a finite last number, got "
                         f"{np.isnan(trace).sum()} NaN and {trace[-1]} at the end")
    if isinstance(gap, bool) or not isinstance(gap, Real) or not gap >= 0:
        raise ValueError(f"gap: expected a number >= 0, got {gap!r}")
    return int(np.argmax(np.abs(trace - trace[-1]) <= gap)) + 1


def decay_steps(trace):
    """Steps until 95% of an exponential approach is done.  [eq-decay]

    trace (T,) -> float, at most 20 T; NaN for fewer than 4 steps, a constant, or
    numbers that are not finite
    """
    f = _check_trace(trace)
    if len(f) < 4 or not np.isfinite(f).all() or np.ptp(f) == 0:
        return float("nan")
    from scipy.optimize import minimize_scalar          # here: it is slow to import

    t, f = np.arange(len(f)), f - f.mean()

    def misfit(log_tau):
        e = np.exp(-t / np.exp(log_tau))
        e -= e.mean()
        return -((e @ f) ** 2) / max(e @ e, 1e-300)

    grid = np.linspace(np.log(0.3), np.log(20 * len(f) / np.log(20)), 60)
    best = int(np.argmin([misfit(x) for x in grid]))
    near = grid[max(best - 1, 0)], grid[min(best + 1, 59)]
    tau = np.exp(minimize_scalar(misfit, bounds=near, method="bounded",
                                 options={"xatol": 1e-8}).x)
    return float(tau * np.log(20))
