"""Tables of what is stored."""

from collections import defaultdict

import numpy as np

from experiments.grid import DATA, DATASETS, SETTINGS, options_of, plan, waic_size
from experiments.run import thin_steps

# Table 1 of the paper, "WAIC", higher is better: CAVI, MLE, NUTS, BBVI
PAPER_WAIC = {"rice": (-.1820, -.3599, -.1278, -.1739), "wdbc": (-.0504, -.3133, -.0324, -.0763),
              "waveform": (-.2921, -.5759, -.3753, -.3618), "vehicle": (-.3281, -.7437, -.3767, -.4154),
              "banknote": (-.0206, -.3133, -.0110, -.0382), "sonar": (-.1544, -.3133, -.0306, -.0583),
              "iris": (-.0747, -.5514, -.0413, -.1544)}
PAPER_WAIC = {dataset: dict(zip(("cavi", "mle", "nuts", "bbvi"), row)) for dataset, row in PAPER_WAIC.items()}
BAYES = ("cavi", "bbvi", "gibbs", "nuts")


def value(record, name):
    """A number of a record, a score or a cost; NaN where it has none.

    Beside what is stored: minus_lpd; seconds_per_step, CPU seconds; seconds_to_converge, these times the steps to 95 % of a decay that is
    fitted as the paper describes.  A decay that is longer than its run is censored: NaN, and `censored` counts it.
    """
    if name == "minus_lpd":
        return -value(record, "lpd")
    if name == "seconds_per_step":
        return value(record, "cpu_seconds") / value(record, "steps")
    if name == "seconds_to_converge":
        return value(record, "steps_decay") * value(record, "seconds_per_step")
    found = record["metrics"].get(name, record["provenance"].get(name))
    return np.nan if found is None or name == "steps_decay" and is_censored(record) else float(found)


def is_censored(record):
    """Whether the decay that was fitted to a climb ends after it: then all that is known is that the run was too short to see 95 % of it."""
    return (record["metrics"].get("steps_decay") or 0) > record["metrics"].get("steps", np.inf)


def censored(records):
    """{(dataset, n_train, method): (censored decays, seeds)} where there are any, of the methods that climb."""
    groups = defaultdict(list)
    for cell, record in records.items():
        if DATA["methods"][cell.method]["objective"] != "log density":
            groups[cell.dataset, cell.n_train, cell.method].append(is_censored(record))
    return {key: (sum(found), len(found)) for key, found in sorted(groups.items()) if any(found)}


def trace(record):
    """(steps, values) of the objective, thinned."""
    return thin_steps(record["trace"]["length"]), np.array(record["trace"]["value"])


def summaries(records, name):
    """{(dataset, n_train, method): (mean, sd, number of seeds)} of one number of the records, over the seeds that have it."""
    groups = defaultdict(list)
    for cell, record in records.items():
        groups[cell.dataset, cell.n_train, cell.method].append(value(record, name))
    out = {}
    for key, values in sorted(groups.items()):
        values = np.array(values)[~np.isnan(values)]     # a score of -inf stays: so is its mean
        if len(values):
            spread = float(values.std(ddof=1)) if len(values) > 1 and np.isfinite(values).all() else np.nan
            out[key] = float(values.mean()), spread, len(values)
    return out


def whole_cost(record):
    """CPU seconds of the fit and, where it is stored, of all scores after it: for draws and many classes the larger part."""
    spent = record["provenance"]
    return spent.get("cpu_seconds", np.nan) + spent.get("scoring_cpu_seconds", 0.0)


def _steps(cell):
    """Steps of a fit, of all its chains, by the settings of its cell."""
    options = options_of(cell)
    return options.get("n_steps") or options.get("n_chains", 1) * (options.get("n_warmup", 0) + options.get("n_draws", 500))


def estimate(cell, records):
    """CPU seconds that a cell should take: the mean of the stored cells most like it, scaled by rows and steps; else a guess."""
    work = cell.n_train * _steps(cell)
    same = [((abs(np.log(other.n_train / cell.n_train)), "scoring_cpu_seconds" not in record["provenance"]),
             whole_cost(record) * work / (other.n_train * _steps(other)))
            for other, record in records.items() if (other.dataset, other.method) == (cell.dataset, cell.method)]
    if same:
        likest = min(unlike for unlike, _ in same)
        return float(np.mean([seconds for unlike, seconds in same if unlike == likest]))
    return DATA["methods"][cell.method]["guess"] * work * 20


def progress_table(records):
    """Lines: cells planned and done, and CPU hours spent and to come, per method."""
    cells = plan()
    lines = [f"{'method':12s} {'planned':>8s} {'done':>6s} {'CPU h spent':>12s} {'CPU h to come':>14s}"]
    total = [0, 0, 0.0, 0.0]
    for method in SETTINGS:
        mine = [c for c in cells if c.method == method]
        done = [c for c in mine if c in records]
        row = [len(mine), len(done), sum(whole_cost(records[c]) for c in done) / 3600,
               sum(estimate(c, records) for c in mine if c not in records) / 3600]
        total = [a + b for a, b in zip(total, row)]
        lines.append("{:12s} {:8d} {:6d} {:12.2f} {:14.2f}".format(method, *row))
    return [*lines, "{:12s} {:8d} {:6d} {:12.2f} {:14.2f}".format("all", *total)]


def score_table(records, names=("accuracy", "lpd", "ece"), largest=True):
    """Lines: mean (sd, seeds) of each number, per data set, size and method."""
    found = {name: summaries(records, name) for name in names}
    lines = ["{:10s} {:>6s} {:12s} ".format("data", "rows", "method") + "  ".join(f"{name:>22s}" for name in names)]
    for dataset in DATASETS:
        keys = sorted({key for table in found.values() for key in table if key[0] == dataset})
        top = max((n for _, n, _ in keys), default=0)
        for key in keys:
            if largest and key[1] != top:
                continue
            cells = []
            for name in names:
                mean, sd, seeds = found[name].get(key, (np.nan, np.nan, 0))
                cells.append(f"{mean:9.4f} ({sd:6.4f}, {seeds:2d})" if seeds > 1 else f"{mean:9.4f} (one seed)   ")
            lines.append("{:10s} {:6d} {:12s} ".format(*key) + "  ".join(f"{c:>22s}" for c in cells))
    return lines


def waic_cells(records):
    """{(dataset, method): (WAIC / N, its standard error over rows, sd over seeds, seeds)} at the size where all methods meet."""
    mean, error = summaries(records, "waic"), summaries(records, "waic_se")
    keys = {(d, m): (d, waic_size(d), m) for d in PAPER_WAIC for m in BAYES}
    return {at: (mean[key][0], error[key][0], *mean[key][1:]) for at, key in keys.items() if key in mean}


def waic_table(records):
    """Lines: Table 1, WAIC per row of the methods with a posterior, the paper's numbers below ours."""
    found = waic_cells(records)
    lines = [f"{'WAIC / N':14s}" + "".join(f"{m:>22s}" for m in BAYES)]
    for dataset, printed in PAPER_WAIC.items():
        cells = [found.get((dataset, m)) for m in BAYES]
        ours = [f"{cell[0]:.3f} +- {cell[1]:.3f} ({cell[3]})" if cell else "-" for cell in cells]
        lines.append(f"{dataset:9s}{waic_size(dataset):5d}" + "".join(f"{text:>22s}" for text in ours))
        lines.append(f"{'  the paper':14s}" + "".join(f"{f'{printed[m]:.4f}' if m in printed else '':>22s}" for m in BAYES))
    return [*lines, "ours: mean over seeds +- standard error over rows (seeds)"]


def waic_agreement(records):
    """{(dataset, method): (ours - the paper's) / standard error}, the error of our rows and that of our seeds together."""
    out = {}
    for (dataset, method), (mean, error, sd, seeds) in waic_cells(records).items():
        if method in PAPER_WAIC[dataset]:
            out[dataset, method] = (mean - PAPER_WAIC[dataset][method]) / np.hypot(error, np.nan_to_num(sd) / np.sqrt(seeds))
    return out
