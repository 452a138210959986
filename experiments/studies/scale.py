"""Any number of rows: seconds of a sweep against their number, what a row costs, what a task costs, and the ways to fit a file side by side.

Seconds of a sweep are CPU seconds of one process with one BLAS thread, the least of several.  Those of a task and of a whole fit are on the
clock, beside the CPU seconds of all processes; a busy machine makes them larger.
"""

import json
import re
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np

COLUMNS, EXPERTS, HELD_OUT, PART = 20, 4, 20_000, 500_000
SWEEP_ROWS = (1_000, 10_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
WAYS = ("memory", "files", "dask", "sgd")
FITS = ((10_000_000, 5),)                               # rows, passes
# (d, K, h, L) of the points at which a row is timed: the first are fitted, the others foretold
FITTED = ((2, 10, 4, 5), (2, 10, 1, 2), (8, 10, 2, 3), (20, 4, 1, 2), (20, 10, 4, 5), (20, 20, 2, 3), (60, 4, 1, 2), (60, 10, 4, 5), (2, 40, 2, 3),
          (2, 10, 8, 9), (20, 5, 8, 9))
FORETOLD = ((5, 20, 3, 4), (40, 8, 2, 3), (10, 10, 6, 7), (30, 10, 1, 2), (2, 20, 4, 5), (100, 4, 2, 3))
SHARDS = (2, 8, 32, 128, 512)
TIMED = ("survey", "layout", "cpu", "seconds", "per_row", "rate", "peak_mb", "all_cpu")
TOLERANCE = 1e-4


class Cell(NamedTuple):
    """A sweep of `value` rows in memory; a row at a point "d,K,h,L"; a sweep over `value` shards of ten rows; a number
    that is read from a file; a file of `value` rows,
    as often as `passes`."""
    part: str
    value: int | None = None
    point: str | None = None
    passes: int | None = None


def plan():
    points = [",".join(map(str, p)) for p in FITTED + FORETOLD]
    return [*(Cell("sweep", n) for n in SWEEP_ROWS), *(Cell("row", point=p) for p in points), *(Cell("task", c) for c in SHARDS), Cell("read"),
            *(Cell("fit", n, passes=passes) for n, passes in FITS)]


# ---- rows

def some_rows(number, n):
    """Inputs and labels of part `number` of the file: two classes, the sign of one column says which of two linear rules holds.

    -> X (n, d), y (n,), probability of y (n,)"""
    rng = np.random.default_rng([11, number])
    X = rng.normal(size=(n, COLUMNS))
    rules = np.random.default_rng(12).normal(size=(2, COLUMNS)) / np.sqrt(COLUMNS / 8)
    logit = np.where(X[:, 0] > 0, X @ rules[0], X @ rules[1])
    p = 1 / (1 + np.exp(-logit))
    y = (rng.random(n) < p).astype(int)
    return X, y, np.where(y, p, 1 - p)


def write_folder(folder, n):
    """The first n rows as a folder of Parquet files."""
    from pyarrow import parquet, table

    for number in range(-(-n // PART)):
        X, y, _ = some_rows(number, min(PART, n - number * PART))
        columns = {f"x{i:02d}": X[:, i] for i in range(COLUMNS)}
        parquet.write_table(table(columns | {"y": y}), Path(folder) / f"part-{number:03d}.parquet", row_group_size=100_000,
                            use_dictionary=False, compression="none")


# ---- what is measured

def sweep_seconds(n, sizes=(COLUMNS, EXPERTS, 1, 2), rounds=3):
    """CPU seconds of a sweep over n rows in memory, the least of some."""
    from cmn_literate.engineering.starts import init_parameters
    from cmn_literate.engineering.sums import block_sweep, make_blocks
    from cmn_literate.network.simulate import Priors

    (d, K, h, L), rng = sizes, np.random.default_rng(0)
    first, blocks, step = None, (), 1_000_000
    for start in range(0, n, step):
        X = rng.normal(size=(min(step, n - start), d))
        y = rng.integers(L, size=len(X))
        blocks += make_blocks(X, y, K, h, L)
        first = (X[:5000], y[:5000]) if first is None else first
    parameters = init_parameters(*first, K, h, L, Priors(), rng)
    least, sweeps = np.inf, 0
    end = time.process_time() + 1.0
    while sweeps < rounds or time.process_time() < end:
        start = time.process_time()
        blocks, parameters, _ = block_sweep(blocks, parameters, Priors())
        least, sweeps = min(least, time.process_time() - start), sweeps + 1
    return least


def task_seconds(n_shards, sweeps=12):
    """Seconds on the clock of a sweep over shards of ten rows on two worker processes: what is not arithmetic.  The least of some."""
    from distributed import Client, LocalCluster

    from cmn_literate.beyond import cluster
    from cmn_literate.distributed import fit_cluster

    X, y, _ = some_rows(0, 10 * n_shards)
    X = X[:, :2]
    parts = [(X[s:s + 10], y[s:s + 10]) for s in range(0, len(X), 10)]
    times = [time.perf_counter()]
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit=0) as local, Client(local) as client, \
            warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cluster.SHARD_ROWS = 10
        fit_cluster(lambda: iter(parts), client=client, n_experts=2, max_sweeps=sweeps, tol=1e-30,
                    callback=lambda *_: times.append(time.perf_counter()))
    return float(np.diff(times)[1:].min())


def read_seconds(n=500_000):
    """CPU seconds a number of the two passes that read files: the survey, and laying the rows out."""
    from cmn_literate.distributed import Layout, Seen, load_shard
    from cmn_literate.engineering.sources import moment_scale, survey
    from cmn_literate.readers import open_source

    with tempfile.TemporaryDirectory(prefix="cmn-scale-") as folder:
        write_folder(folder, n)
        source, times = open_source(folder, "y"), [time.process_time()]
        found = survey(source, [])
        times.append(time.process_time())
        layout = Layout(source.columns, "y", source.name, *moment_scale(found.moments), found.classes, EXPERTS, 1, rng=np.random.default_rng(0))
        load_shard([source], [Seen(0, n, source.stamp())], layout)
        times.append(time.process_time())
    return [float(f"{t / n / COLUMNS:.3g}") for t in np.diff(times)]


def elsewhere(*arguments):
    """What this module prints when it is called with the arguments, as JSON: a process of its own, which may have children."""
    done = subprocess.run([sys.executable, "-m", "experiments.studies.scale", *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{arguments}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def fit_way(way, folder, passes):
    """A model fitted to the files, by one of the ways.   -> function X -> log probabilities (n, 2)"""
    from cmn_literate.use.classifier import CMNClassifier

    options = dict(n_experts=EXPERTS, max_sweeps=passes, tol=1e-30, random_state=0)
    if way in ("memory", "files"):
        return CMNClassifier.paper(**options, memory="16GB" if way == "memory" else "200MB").fit(folder, "y").predict_log_proba
    if way == "dask":
        from distributed import Client, LocalCluster

        from cmn_literate.distributed import fit_cluster

        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit=0) as local, Client(local) as client:
            return fit_cluster(folder, "y", client, **options).predict_log_proba
    from sklearn.linear_model import SGDClassifier

    from cmn_literate.readers import open_source

    model = SGDClassifier(loss="log_loss", random_state=0)
    for _ in range(passes):
        for X, y in open_source(folder, "y").blocks():
            model.partial_fit(X, y, classes=[0, 1])
    return model.predict_log_proba


def peak_megabytes():
    """Most memory that this process has held.  getrusage would count the process that started this one, from before its exec."""
    try:
        return int(re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())[1]) * 1.024e-3
    except (OSError, TypeError):                                            # no such file, or no such line
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def measure_way(way, folder, n, passes):
    """What a way costs and what its forecast is worth, as JSON on standard output."""
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    forecast = fit_way(way, folder, passes)
    seconds = time.perf_counter() - start
    peak = peak_megabytes()
    cpu = sum(getattr(resource.getrusage(who), name) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN) for name in ("ru_utime", "ru_stime"))
    X, y, p = some_rows(10**6, HELD_OUT)
    score = forecast(X)[np.arange(HELD_OUT), y].mean()
    print(json.dumps({"seconds": round(seconds, 2), "all_cpu": round(cpu, 2), "rate": round(n * passes / seconds), "peak_mb": round(peak),
                      "log_score": round(float(score), 5), "best_log_score": round(float(np.log(p).mean()), 5)}))


def compare_ways(n, passes, ways=WAYS):
    """{way: its numbers} on one folder of n rows, each in a process of its own."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="cmn-scale-") as folder:
        write_folder(folder, n)
        for way in ways:
            found[way] = elsewhere("fit", way, folder, n, passes)
    return found


def run(cell, records, data_home=None, models=None):
    if cell.part == "sweep":
        cpu = sweep_seconds(cell.value)
        return {"setting": {"d": COLUMNS, "K": EXPERTS, "h": 1, "L": 2}, "metrics": {"cpu": float(f"{cpu:.4g}")}}
    if cell.part == "row":
        sizes = tuple(map(int, cell.point.split(",")))
        n = 30_000
        return {"setting": dict(zip(("d", "K", "h", "L"), sizes)) | {"rows": n},
                "metrics": {"per_row": float(f"{sweep_seconds(n, sizes) / n:.4g}")}}
    if cell.part == "task":
        return {"setting": {"workers": 2, "rows_of_a_shard": 10}, "metrics": {"seconds": float(f"{elsewhere('task', cell.value):.4g}")}}
    if cell.part == "read":
        first, second = read_seconds()
        return {"setting": {"d": COLUMNS, "format": "parquet"}, "metrics": {"survey": first, "layout": second}}
    return {"setting": {"d": COLUMNS, "K": EXPERTS, "L": 2, "held_out": HELD_OUT}, "metrics": compare_ways(cell.value, cell.passes)}


def exponent(rows, seconds, least=100_000):
    """Slope of log seconds against log rows, from `least` rows on."""
    rows, seconds = np.array(rows), np.array(seconds)
    return float(np.polyfit(np.log(rows[rows >= least]), np.log(seconds[rows >= least]), 1)[0])


def report(records):
    """Lines of the tables."""
    found = {cell: record["metrics"] for cell, record in records.items()}
    sweeps = {cell.value: m["cpu"] for cell, m in found.items() if cell.part == "sweep"}
    for n, cpu in sorted(sweeps.items()):
        yield f"sweep of {n:>10,} rows {cpu:10.4f} s, {cpu / n * 1e9:7.0f} ns a row"
    if sum(n >= 100_000 for n in sweeps) > 1:
        yield f"seconds grow as rows^{exponent(list(sweeps), list(sweeps.values())):.3f} from 100,000 rows on"
    for cell, m in found.items():
        if cell.part == "row":
            yield f"d,K,h,L = {cell.point:12s} {m['per_row'] * 1e9:8.0f} ns a row and sweep"
        if cell.part == "read":
            yield f"a number in a file: {m['survey'] * 1e9:.1f} ns in the survey, {m['layout'] * 1e9:.1f} ns when it is laid out"
        if cell.part == "task":
            yield f"{cell.value:4d} shards of ten rows {m['seconds'] * 1e3:8.1f} ms a sweep"
        if cell.part == "fit":
            yield f"{cell.value:,} rows, {cell.passes} passes:"
            for way, one in m.items():
                yield (f"  {way:7s} {one['seconds']:8.1f} s, {one['all_cpu']:8.1f} s of CPU, {one['rate']:10,} rows a second, "
                       f"{cell.value * cell.passes / one['all_cpu']:10,.0f} a CPU second, peak {one['peak_mb']:6,} MB, "
                       f"held-out log score {one['log_score']:.4f} (best possible {one['best_log_score']:.4f})")


if __name__ == "__main__":
    if sys.argv[1] == "task":
        print(task_seconds(int(sys.argv[2])))
    else:
        measure_way(*sys.argv[2:4], *map(int, sys.argv[4:]))
