# Tangled from book/practice/metrics.ipynb by tools/tangle.py; edit the notebook, not this file.
"""How good is a probability?

A classifier that reports probabilities must be judged on the probabilities. The log score does it:
nobody can expect to gain by reporting anything but what they believe. Accuracy looks at the winner
alone. And calibration error, used by itself, can be zero for a useless forecast and is above zero
for a perfect one.
"""

__all__ = ["check_proba", "accuracy", "log_scores", "log_predictive_density", "brier",
           "Reliability", "reliability", "expected_calibration_error", "plot_reliability",
           "ece_if_calibrated"]


# book/practice/metrics.ipynb, cell metrics-02
import warnings
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from cmn_literate.simulate import check_count, check_y


# book/practice/metrics.ipynb, cell metrics-05
def check_proba(y, proba, log=False):
    """y (n,) int64 and p (n, L) after checking that they fit.  [eq-simplex]

    proba: (n, L) rows on the simplex to 1e-6, or (n,) numbers P(y = 1); with
    log=True logarithms, (n, L) only.  ValueError naming y or proba otherwise.
    """
    try:
        p = np.asarray(proba, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"proba: expected numbers, got {type(proba).__name__} ({error})"
        ) from None
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


# book/practice/metrics.ipynb, cell metrics-08
def accuracy(y, proba):
    """Share of rows whose most probable class is the true one.  [eq-accuracy]

    Ties go to the lower class.
    """
    y, p = check_proba(y, proba)
    return float((p.argmax(1) == y).mean())


# book/practice/metrics.ipynb, cell metrics-11
def log_scores(y, proba, log=False):
    """Log score of each row, ln p[n, y_n], (n,) in nats.  [eq-lpd]

    It is -inf where that probability is 0.  log=True: proba holds logarithms.
    """
    y, p = check_proba(y, proba, log)
    picked = p[np.arange(len(y)), y]
    with np.errstate(divide="ignore"):
        return picked if log else np.log(picked)


# book/practice/metrics.ipynb, cell metrics-12
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


# book/practice/metrics.ipynb, cell metrics-16
def brier(y, proba):
    """Mean squared distance between forecast and outcome, in [0, 2].  [eq-brier]

    Summed over classes: for two classes it is twice the (p - y)^2 that some
    libraries report.
    """
    y, p = check_proba(y, proba)
    return float(((p - np.eye(p.shape[1])[y]) ** 2).sum(1).mean())


# book/practice/metrics.ipynb, cell metrics-22
class Reliability(NamedTuple):
    """Bins of a reliability diagram.  [eq-bins, eq-reliability]

    edges (B+1,); count (B,) rows; confidence (B,) mean forecast and accuracy (B,)
    share of hits, NaN in an empty bin
    """

    edges: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray
    count: np.ndarray


# book/practice/metrics.ipynb, cell metrics-23
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
    if bins == "width":
        edges = np.arange(n_bins + 1) / n_bins
    elif bins == "mass":
        starts = np.unique(np.sort(c)[np.arange(n_bins) * len(c) // n_bins])
        edges = np.append(starts, c.max())
    else:
        raise ValueError(f"bins: expected 'width' or 'mass', got {bins!r}")
    which = (
        np.searchsorted(edges[:-1], c, side="right") - 1
    )  # the last bin has no upper limit: it is closed
    total = lambda values: np.bincount(which, values, minlength=len(edges) - 1)
    count = total(None)
    with np.errstate(invalid="ignore"):
        return Reliability(edges, total(c) / count, total(hit) / count, count)


# book/practice/metrics.ipynb, cell metrics-27
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


# book/practice/metrics.ipynb, cell metrics-30
def plot_reliability(bins, ax=None, label=None, **style):
    """Draw a Reliability: hits against confidence.  [eq-reliability]   -> Axes

    Larger markers for more rows; style goes to scatter.
    """
    import matplotlib.pyplot as plt

    ax = plt.subplots()[1] if ax is None else ax
    used = bins.count > 0
    x, hits = bins.confidence[used], bins.accuracy[used]
    area = 15 + 285 * bins.count[used] / bins.count.sum()
    style = {"color": "C0", "marker": "o", **style}
    ax.plot([0, 1], [0, 1], color="0.4", linestyle=":", linewidth=1.2)
    ax.vlines(x, x, hits, color=style["color"], linewidth=1.0)
    ax.scatter(
        x, hits, s=area, label=label, zorder=3, edgecolors="white", linewidths=0.6,
        **style)
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    ax.set(xlabel="confidence", ylabel="share of hits")
    return ax


# book/practice/metrics.ipynb, cell metrics-37
def ece_if_calibrated(proba, rng, n_draws=200, **options):
    """ECEs that chance alone would give if proba were exactly right, (n_draws,).

    [eq-ece-chance]
    Labels are drawn from proba, (n, L) or (n,) = P(y = 1).  options: n_bins, kind,
    bins as in expected_calibration_error.  Compare an ECE with the mean of these,
    or with their 95 % quantile.
    """
    n_draws = check_count(n_draws, "n_draws")
    _, p = check_proba(np.zeros(np.shape(proba)[:1], dtype=int), proba)
    cut = np.cumsum(p, axis=1)[:, :-1]
    draws = ((rng.uniform(size=(len(p), 1)) > cut).sum(1) for _ in range(n_draws))
    return np.array(
        [expected_calibration_error(labels, proba, **options) for labels in draws])
