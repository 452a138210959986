"""What a fit from files costs: peak memory and rows a second, out of core, from Parquet.

    python benchmarks/files.py [--rows 1e6] [--columns 20] [--experts 4] [--sweeps 3] [--memory 256MB] [--folder DIR]

The files are made in a temporary folder, a million rows each, and removed at the end. The fit runs in a process of its own, whose peak of
resident memory (VmHWM of Linux) is what the table shows; `start` is that peak after all imports, before any row is read.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

PART = 1_000_000                                                        # rows of a file
FIT = """
import json, sys, time
import numpy as np, pyarrow.parquet
from cmn_literate.engineering.out_of_core import run_source, passes
from cmn_literate.engineering.sources import moment_scale, survey
from cmn_literate.network.simulate import Priors
from cmn_literate.readers import open_source
from types import SimpleNamespace
pattern, experts, sweeps, memory = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
peak = lambda: int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) / 1e3
out = {"start": peak()}
clock = time.perf_counter()
source = open_source(pattern, "y")
for X, y in source.blocks():
    pass
out["read"] = time.perf_counter() - clock
clock = time.perf_counter()
rng = np.random.default_rng(0)
found = survey(source, [rng])
out["survey"] = time.perf_counter() - clock
s = SimpleNamespace(n_experts=experts, latent_dim=len(found.classes) - 1, priors=Priors(), init="class-code", max_sweeps=sweeps, tol=1e-12, inner=1,
                    omega1="per-component", accelerate=False, memory=memory, checkpoint=None, verbose=0)
clock, busy = time.perf_counter(), time.process_time()
fit, _ = run_source(source, found, found.classes, moment_scale(found.moments), s, rng)
out |= {"fit": time.perf_counter() - clock, "cpu": time.process_time() - busy, "rows": found.n_rows, "sweeps": fit.n_sweeps, "bound": fit.elbo[-1] / found.n_rows, "peak": peak()}
print(json.dumps(out))
"""


def make_part(path, seed, n_rows, n_columns):
    """A Parquet file of float64 columns x0, x1, ... and labels y that bend with two of them."""
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    rng = np.random.default_rng([7, seed])
    X = rng.normal(size=(n_columns, n_rows))
    y = X[0] * X[1] + 0.5 * X[2] + 0.5 * rng.normal(size=n_rows) > 0
    names = [f"x{i}" for i in range(n_columns)]
    table = arrow.table([*X, y.astype(np.int8)], names=[*names, "y"])
    parquet.write_table(table, path, row_group_size=1 << 17, compression="none", use_dictionary=False)


def make_files(folder, n_rows, n_columns):
    """The pattern of the files; their bytes."""
    for i, first in enumerate(range(0, n_rows, PART)):
        make_part(Path(folder) / f"part-{i:04d}.parquet", i, min(PART, n_rows - first), n_columns)
    return f"{folder}/part-*.parquet", sum(path.stat().st_size for path in Path(folder).glob("part-*"))


def out_of_core(pattern, experts, sweeps, memory):
    """What the process of its own has measured: seconds, MB."""
    done = subprocess.run([sys.executable, "-c", FIT, pattern, str(experts), str(sweeps), memory], capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])})
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def main():
    p = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    p.add_argument("--rows", type=lambda text: int(float(text)), default=1_000_000)
    p.add_argument("--columns", type=int, default=20)
    p.add_argument("--experts", type=int, default=4)
    p.add_argument("--sweeps", type=int, default=3)
    p.add_argument("--memory", default="256MB")
    p.add_argument("--folder", help="where the files are made (the system's folder for temporary files)")
    a = p.parse_args()
    with tempfile.TemporaryDirectory(dir=a.folder) as folder:
        clock = time.perf_counter()
        pattern, size = make_files(folder, a.rows, a.columns)
        print(f"{a.rows} rows x {a.columns} columns, {size / 1e6:.0f} MB of Parquet, made in {time.perf_counter() - clock:.0f} s", flush=True)
        m = out_of_core(pattern, a.experts, a.sweeps, a.memory)
    print(f"peak {m['peak']:.0f} MB ({m['start']:.0f} MB after the imports); budget {a.memory}")
    for name, passes in (("read", 1), ("survey", 1), ("fit", a.sweeps)):
        print(f"{name:7s} {m[name]:8.1f} s   {passes * m['rows'] / m[name] / 1e6:6.2f} million rows a second")
    print(f"{m['cpu'] / m['sweeps']:.1f} s of processor a sweep; bound {m['bound']:.4f} nats a row after {m['sweeps']} sweeps, {a.experts} experts")


if __name__ == "__main__":
    main()
