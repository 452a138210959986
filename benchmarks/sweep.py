"""Time and memory of one CAVI sweep, as a ratio to work that no implementation avoids.

    make bench          (one BLAS thread, float64)

The floor is timed in the same process, right after the sweep: the 4 matrix products of size N x K x D(D+1)/2, two products
(h(h+1)/2 x L-1) (L-1 x NK), (h^3 + 3h^2 + 2h)/3 multiply passes over N x K numbers in cache-sized pieces, and one pass each of
exp, log and tanh over N x K x (L-1) numbers.  A sweep includes the bound that the stopping rule needs.

A second table has the wall time of a sweep by NumPy and by the compiled kernel, on one thread and on two, a third what a first fit
costs a fresh process.  Without numba they have NumPy's rows alone.
"""
import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import platform
import subprocess
import sys
import time
import tracemalloc

import numpy as np

from cmn_literate.engineering.sums import block_sweep, estep, make_blocks
from cmn_literate.engineering.fit import fit
from cmn_literate.engineering.starts import init_parameters
from cmn_literate.network.simulate import Priors

SIZES = [(400, 2, 10, 5), (1600, 2, 10, 5), (25600, 2, 10, 5), (1600, 20, 10, 5), (1600, 100, 10, 5), (1600, 2, 80, 5),
         (1600, 2, 10, 17), (3840, 21, 20, 3), (128, 60, 20, 2)]
PIECE = 4096                                                    # numbers: 32 kB, the first-level cache


def problem(N, d, K, L):
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, d)), rng.integers(L, size=N)


def floor_work(N, d, K, L):
    """A function that does the unavoidable work once."""
    rng, h, D, n = np.random.default_rng(0), L - 1, d + 1, N * K
    packed, pairs = D * (D + 1) // 2, h * (h + 1) // 2
    features, weights, forms = rng.normal(size=(packed, N)), rng.normal(size=(K, N)), rng.normal(size=(K, packed))
    bend, tilts = rng.normal(size=(pairs, L - 1)), rng.normal(size=(L - 1, n))
    per_row, per_expert, small = np.empty((K, N)), np.empty((K, packed)), np.empty((pairs, n))
    piece, factor = np.ones(PIECE), np.full(PIECE, 1 + 1e-9)
    numbers, out = rng.uniform(0.1, 2, size=n * (L - 1)), np.empty(n * (L - 1))

    def work():
        for _ in range(2):
            np.matmul(forms, features, out=per_row)
            np.matmul(weights, features.T, out=per_expert)
            np.matmul(bend, tilts, out=small)
        for start in range(0, n, PIECE):
            some, by = piece[:n - start], factor[:n - start]
            for _ in range((h**3 + 3 * h**2 + 2 * h) // 3):
                np.multiply(some, by, out=some)
        for start in range(0, n * (L - 1), PIECE):
            for function in (np.exp, np.log, np.tanh):
                function(numbers[start:start + PIECE], out=out[start:start + PIECE])

    return work


def with_usual_buffers(*arguments):
    """The E-step without the small buffers that block_sweep asks numpy for."""
    np.setbufsize(8192)
    return estep(*arguments)


def sweep_work(N, d, K, L, estep=estep, n_jobs=1):
    """A function that does one sweep of a running fit."""
    X, y = problem(N, d, K, L)
    priors, rng = Priors(), np.random.default_rng(0)
    state = [make_blocks(X, y, K, L - 1, L), init_parameters(X, y, K, L - 1, L, priors, rng)]

    def work():
        state[:] = block_sweep(*state, priors, estep=estep, n_jobs=n_jobs)[:2]

    return work


def best_times(functions, seconds=1.5, clock=time.process_time):
    """Best time of each function, calls interleaved so that all meet the same machine."""
    best, end = [np.inf] * len(functions), time.perf_counter() + seconds
    for function in functions:
        function()
    while True:
        for i, function in enumerate(functions):
            start = clock()
            function()
            best[i] = min(best[i], clock() - start)
        if time.perf_counter() > end:
            return best


def peak_memory(N, d, K, L):
    """Peak bytes that fit holds beyond its arguments, and the bytes of xi1 and the inputs' own copy."""
    X, y = problem(N, d, K, L)
    tracemalloc.start()
    fit(X, y, n_experts=K, n_classes=L, max_sweeps=3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak, 8 * N * (K * (L - 1) + (d + 1) + 2 * (L - 1))


FIRST = """import time; start = time.perf_counter()
import numpy as np
from cmn_literate.engineering.fit import fit
X = np.random.default_rng(0).normal(size=({0}, 2))
ready = time.perf_counter(); fit(X, np.arange({0}) % 5, 10, max_sweeps=100, tol=-np.inf); first = time.perf_counter()
fit(X, np.arange({0}) % 5, 10, max_sweeps=100, tol=-np.inf); print(first - ready, time.perf_counter() - first)"""


def kernels():
    """{name: E-step} of this machine."""
    from cmn_literate.compiled import compile_kernel, find_numba
    if find_numba() is None:
        return {"numpy": estep}
    from cmn_literate.engineering.kernel import compiled_estep
    compile_kernel()
    return {"numpy": estep, "numba": compiled_estep}


def kernel_tables():
    """Print sweeps by kernel and number of threads, and first fits of a fresh process."""
    known = kernels()
    pairs = [(name, jobs) for name in known for jobs in (1, 2)]
    print("\nwall ms per sweep, kernel and threads; in brackets: times faster than NumPy on one thread")
    print(f"{'N':>6} {'d':>4} {'K':>3} {'L':>3} {'blocks':>6} " + " ".join(f"{f'{name} {jobs}':>15}" for name, jobs in pairs))
    for N, d, K, L in [*SIZES[:4], SIZES[5], (1600, 2, 10, 2)]:
        best = best_times([sweep_work(N, d, K, L, known[name], jobs) for name, jobs in pairs], 3.0, time.perf_counter)
        print(f"{N:>6} {d:>4} {K:>3} {L:>3} {len(make_blocks(*problem(N, d, K, L), K, L - 1, L)):>6} "
              + " ".join(f"{f'{t * 1e3:.2f} ({best[0] / t:.1f})':>15}" for t in best), flush=True)
    print("\nseconds of a fit of 100 sweeps, d=2, K=10, L=5, in a fresh process (without its imports): the first and the second")
    for N in (400, 1600, 25600):
        for name in known:
            out = subprocess.run([sys.executable, "-c", FIRST.format(N)], env={**os.environ, "CMN_KERNEL": name}, check=True,
                                 capture_output=True, text=True).stdout
            print(f"N = {N:>6} {name:6s} " + " ".join(f"{float(part):7.2f}" for part in out.split()), flush=True)


def main():
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, numpy {np.__version__}, "
          f"{blas['name']} {blas['version']}, 1 BLAS thread, float64")
    print(f"{'N':>6} {'d':>4} {'K':>3} {'L':>3} {'ms/sweep':>9} {'floor ms':>9} {'ratio':>6} {'peak MB':>8} {'inputs+xi1 MB':>14} {'ms, buffers of 8192':>20}")
    for size in SIZES:
        sweep, floor, usual = best_times([sweep_work(*size), floor_work(*size), sweep_work(*size, with_usual_buffers)], 2.0)
        peak, kept = peak_memory(*size)
        print("{:>6} {:>4} {:>3} {:>3} {:>9.2f} {:>9.2f} {:>6.2f} {:>8.1f} {:>14.1f} {:>20.2f}".format(
            *size, sweep * 1e3, floor * 1e3, sweep / floor, peak / 1e6, kept / 1e6, usual * 1e3), flush=True)
    print("\ntime and memory against N at d=2, K=10, L=5")
    for N in (1600, 6400, 25600, 102400):
        (sweep,) = best_times([sweep_work(N, 2, 10, 5)])
        peak, kept = peak_memory(N, 2, 10, 5)
        print(f"N = {N:>6}: {sweep / N * 1e6:6.2f} us per row, peak {peak / 1e6:6.1f} MB, of which inputs and xi1 {kept / 1e6:5.1f} MB, "
              f"rest {(peak - kept) / 1e6:5.1f} MB")
    kernel_tables()


if __name__ == "__main__":
    main()
