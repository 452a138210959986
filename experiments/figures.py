"""Figures of what is stored: scores and costs against training size."""

import numpy as np

from cmn_literate.palette import METHODS
from experiments.grid import SETTINGS, plan, sizes
from experiments.report import summaries

# title, number of the record, its scale, whether samplers have it
PANELS = (("accuracy", "accuracy", "linear", True),
          ("minus LPD (nats per row)", "minus_lpd", "log", True),
          ("ECE (20 bins)", "ece", "linear", True),
          ("steps to 95 % of the climb", "steps_decay", "log", False),
          ("CPU seconds to 95 %", "seconds_to_converge", "log", False),
          ("CPU seconds of the whole run", "cpu_seconds", "log", True))
SAMPLERS = ("gibbs", "nuts")


def seeds_label(method, counts):
    """Name of a method in a legend, with the number of seeds behind its points; counts {size: seeds}, sizes that differ are named."""
    usual = max(counts.values(), key=list(counts.values()).count)
    others = {}
    for size, count in counts.items():
        if count != usual:
            others.setdefault(count, []).append(str(size))
    texts = [f"{usual} seed{'s' if usual > 1 else ''}", *(f"{count} at {' and '.join(at)}" for count, at in others.items())]
    return f"{method} ({', '.join(texts)})"


def panel(records, dataset, name, ax=None, methods=tuple(SETTINGS)):
    """Mean and standard deviation over seeds of one number against training size, a line per method.   -> Axes

    records {cell: record}; name: a number that `report.value` knows.  A line stops where a size is not stored; the
    legend has the number of seeds.  Where all means are positive a bar ends at a tenth of its mean at the least, so that a log scale
    can show it.
    """
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots()[1]
    found = summaries({c: r for c, r in records.items() if c.dataset == dataset}, name)
    for place, method in enumerate(methods):
        rows = [(n, *found[dataset, n, m]) for _, n, m in sorted(found) if m == method]
        if not rows:
            continue
        n, mean, sd, seeds = np.array(rows).T
        colour, marker, line = METHODS[method]
        x = n * 1.03 ** (place - (len(methods) - 1) / 2)          # side by side, not on top of each other
        stored = dict(zip(n, zip(x, mean)))
        x_line, y_line = np.array([stored.get(size, (np.nan, np.nan)) for size in sizes(dataset)]).T
        ax.plot(x_line, y_line, color=colour, linestyle=line, linewidth=1.2, marker="")
        sd = np.nan_to_num(sd)
        low = np.minimum(sd, 0.9 * mean) if (mean > 0).all() else sd   # a bar that a log scale can show
        ax.errorbar(x, mean, yerr=[low, sd], color=colour, marker=marker, linestyle="none", markersize=5, elinewidth=1,
                    capsize=2, label=seeds_label(method, dict(zip(n.astype(int), seeds.astype(int)))))
    ax.set_xscale("log", base=2)
    ticks = sorted({n for _, n, _ in found})
    ax.set_xticks(ticks, [str(n) for n in ticks])
    ax.minorticks_off()
    return ax


def six_panels(records, dataset, axes=None, methods=tuple(SETTINGS)):
    """The paper's figure of a data set: three scores and three costs against training size.   -> Axes (2, 3)

    Steps and seconds to 95 % follow the rule that the paper describes (`metrics.decay_steps`), which is not that of its program: that
    drops the first steps before it fits and adds them back.  Samplers have no objective to climb and are left out of these two panels.
    """
    if axes is None:
        import matplotlib.pyplot as plt

        axes = plt.subplots(2, 3, figsize=(10, 6.4))[1]
    for ax, (title, name, scale, samplers) in zip(np.ravel(axes), PANELS):
        panel(records, dataset, name, ax, [m for m in methods if samplers or m not in SAMPLERS])
        ax.set_yscale(scale)
        ax.set_title(title)
    for ax in np.atleast_2d(axes)[-1]:
        ax.set_xlabel("training rows")
    handles, labels = np.ravel(axes)[0].get_legend_handles_labels()
    np.ravel(axes)[0].figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return axes


def coverage(records, dataset):
    """Lines: seeds done / planned, per method and training size; "-" where the plan has no cell."""
    ns, planned = sizes(dataset), [cell for cell in plan() if cell.dataset == dataset]
    lines = ["rows".ljust(12) + "".join(f"{n:>9d}" for n in ns)]
    for method in SETTINGS:
        row = []
        for n in ns:
            mine = [cell for cell in planned if (cell.n_train, cell.method) == (n, method)]
            row.append(f"{sum(cell in records for cell in mine)}/{len(mine)}" if mine else "-")
        lines.append(method.ljust(12) + "".join(f"{text:>9s}" for text in row))
    return lines


def size_table(records, dataset, name, digits=3, methods=tuple(SETTINGS)):
    """Lines: mean of one number over seeds, per method and training size, its standard deviation below; "-" where nothing is stored."""
    found, ns = summaries(records, name), sizes(dataset)
    lines = [name.ljust(12) + "".join(f"{n:>9d}" for n in ns)]
    for method in methods:
        row = [found.get((dataset, n, method)) for n in ns]
        if any(row):
            lines.append(method.ljust(12) + "".join(f"{entry[0]:9.{digits}f}" if entry else f"{'-':>9s}" for entry in row))
            spread = ["" if entry is None or np.isnan(entry[1]) else f"({entry[1]:.{digits}f})" for entry in row]
            lines.append(" " * 12 + "".join(f"{text:>9s}" for text in spread))
    return lines


def differences(records, dataset, name, method, other):
    """[(n_train, mean of method minus mean of other, its standard error over the seeds of both)], where both have two seeds or more."""
    found, rows = summaries(records, name), []
    for n in sizes(dataset):
        a, b = found.get((dataset, n, method)), found.get((dataset, n, other))
        if a and b and min(a[2], b[2]) > 1:
            rows.append((n, a[0] - b[0], float(np.sqrt(a[1] ** 2 / a[2] + b[1] ** 2 / b[2]))))
    return rows


def verdicts(records, dataset, name, sign, other, method="cavi"):
    """Is a method better than another at every size that both have?   -> ({n_train: bool}, lines that say by how much)

    sign: 1 where more is better, -1 where less is
    """
    better, lines = {}, [f"{name}: {method} minus {other} (s.e. over starts), and who is better"]
    for n, gap, error in differences(records, dataset, name, method, other):
        better[n] = bool(sign * gap > 0)
        lines.append(f"  {n:5d} rows {gap:+9.3f}  ({error:.3f})  {method if better[n] else other}")
    fails = ", ".join(str(n) for n, ok in better.items() if not ok)
    return better, [*lines, f"  better at all {len(better)} sizes that both have: " + (f"does not hold, fails at {fails}" if fails else "holds")]


def save_all(records, folder):
    """One PNG per data set of which something is stored.   -> the paths"""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with plt.style.context("cmn_literate.book"):
        for dataset in sorted({cell.dataset for cell in records}):
            figure, axes = plt.subplots(2, 3, figsize=(10, 6.4))
            six_panels(records, dataset, axes)
            figure.suptitle(dataset)
            paths.append(folder / f"{dataset}.png")
            figure.savefig(paths[-1])
            plt.close(figure)
    return paths
