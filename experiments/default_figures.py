"""Figures of the study of defaults: log score against rows, and against what it costs, for the default and its rivals."""

import numpy as np

from cmn_literate import palette
from experiments import studies
from experiments.grid import sizes
from experiments.report import value, whole_cost
from experiments.studies import defaults

# what is drawn: its label, and how
STYLES = {"default": ("the default", {"color": "#0072B2", "marker": "o", "linestyle": "-", "linewidth": 1.6}),
          "paper": ("paper's settings", {"color": "#56B4E9", "marker": "s", "linestyle": "--", "linewidth": 1.2}),
          "ridge": ("ridge", {"color": palette.INK, "marker": "X", "linestyle": "-.", "linewidth": 1.2}),
          "gibbs": ("Gibbs", {"color": "#CC79A7", "marker": "v", "linestyle": ":", "linewidth": 1.2}),
          "boosting": ("boosting", {"color": "#D55E00", "marker": "^", "linestyle": ":", "linewidth": 1.2})}


def stored(records, dataset, n, candidate, name="lpd"):
    """Numbers of a candidate of the study, one for each split that is stored of the pair."""
    i, found = list(defaults.CANDIDATES).index(candidate), []
    for s in defaults.SPLITS:
        record = records.get(defaults.Cell(dataset, n, s))
        if record:
            found.append(sum(record["metrics"][part][i] for part in defaults.TIMED) if name == "cost" else record["metrics"][name][i])
    return np.array(found, float)


def _rival(grid, others, dataset, n, method):
    """Records of Gibbs or boosting at a pair, and those of the paper's settings on the same split of the rows: two lists."""
    if method == "gibbs":
        pick = lambda name: [r for c, r in grid.items() if (c.dataset, c.n_train, c.method) == (dataset, n, name)]
        return pick("gibbs"), pick("cavi")
    pick = lambda name: [r for c, r in others.items() if (c.dataset, c.n_train, c.method) == (dataset, n, name)]
    return pick("boosting"), pick("cmn")


def point(found, dataset, n, name, chosen):
    """Log score and CPU seconds of what is drawn at a pair.   -> mean score, its standard error, mean seconds; None where nothing is stored

    found: records of defaults, cells and others.  Gibbs and boosting have been run on one split of the rows, which the study leaves out:
    they stand at the study's mean of the paper's settings plus their difference to these on that split, without a standard error.
    """
    records, grid, others = found
    if name in ("gibbs", "boosting"):
        base, (mine, paper) = stored(records, dataset, n, "paper"), _rival(grid, others, dataset, n, name)
        if not (len(base) and mine and paper):
            return None
        gap = np.mean([value(r, "lpd") for r in mine]) - np.mean([value(r, "lpd") for r in paper])
        return float(base.mean() + gap), np.nan, float(np.mean([whole_cost(r) for r in mine]))
    candidate = chosen if name == "default" else name
    scores = stored(records, dataset, n, candidate)
    if not len(scores):
        return None
    error = scores.std(ddof=1) / len(scores) ** 0.5 if len(scores) > 1 else np.nan
    return float(scores.mean()), float(error), float(stored(records, dataset, n, candidate, "cost").mean())


def read():
    """What the figures need: records of the studies defaults, cells and others."""
    return tuple(studies.records(name) for name in ("defaults", "cells", "others"))


def rows_panel(found, dataset, chosen, ax=None):
    """Log score against training rows, a band of two standard errors over splits where there are splits.   -> Axes

    found: as read gives it; chosen: the candidate of the study that is the default
    """
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots()[1]
    for name, (label, style) in STYLES.items():
        points = [(n, *point(found, dataset, n, name, chosen)[:2]) for n in sizes(dataset) if point(found, dataset, n, name, chosen)]
        if not points:
            continue
        n, mean, error = np.array(points).T
        ax.plot(n, mean, markersize=4, label=label, **style)
        if not np.isnan(error).all():
            ax.fill_between(n, mean - 2 * error, mean + 2 * error, color=style["color"], alpha=0.15, linewidth=0)
    ax.set_xscale("log", base=2)
    ax.set_xticks(sizes(dataset), [str(n) for n in sizes(dataset)])
    ax.minorticks_off()
    ax.set_title(dataset)
    return ax


def front(points):
    """Of {name: (cost, score)} the names that no other beats in both, the cheapest first."""
    beaten = lambda name: any((c <= points[name][0] and s >= points[name][1] and (c, s) != points[name]) for c, s in points.values())
    return sorted((name for name in points if not beaten(name)), key=lambda name: points[name])


def cost_panel(found, dataset, n, chosen, ax=None):
    """Log score against CPU seconds of fit and forecast, all candidates of the study small, the five of STYLES large; a staircase joins those
    that none beats in both.   -> Axes"""
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots()[1]
    points = {}
    for candidate in defaults.CANDIDATES:
        there = point(found, dataset, n, "default", candidate)
        if there and candidate not in (chosen, "paper", "ridge"):
            points[candidate] = there[2], there[0]
            ax.plot(there[2], there[0], ".", color=palette.GREY, markersize=5, zorder=1)
    for name, (label, style) in STYLES.items():
        there = point(found, dataset, n, name, chosen)
        if there:
            points[name] = there[2], there[0]
            ax.errorbar(there[2], there[0], yerr=2 * np.nan_to_num(there[1]), color=style["color"], marker=style["marker"], linestyle="none",
                        markersize=6, elinewidth=1, capsize=2, label=label, zorder=2)
    if points:
        ax.plot(*zip(*(points[name] for name in front(points))), drawstyle="steps-post", color=palette.GREY, linewidth=0.8, zorder=0)
    ax.set_xscale("log")
    ax.set_title(f"{dataset}, {n}")
    return ax
