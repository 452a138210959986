"""Processor time of forecasts: a thousand rows, and one row alone.

    python benchmarks/forecasts.py          (one BLAS thread, float64)

Five fits of 500 rows and 100 sweeps, three classes but for the last two, whose posterior of 40 rows is vague: random labels, blobs,
make_classification with 20 experts, a pinwheel, which is sharp, and random labels of five classes, h = 4.  Goals: 200 ms for a thousand rows
of three classes, 2 ms for one row, 3 ms a row where the posterior is vague.
"""
import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import time

import numpy as np
from sklearn.datasets import make_blobs, make_classification

from cmn_literate.engineering.fit import fit
from cmn_literate.engineering.quadrature import predict_proba
from cmn_literate.use.datasets import make_pinwheels


def cases():
    """(name, X, y, experts), the rows to fit first, 1,000 to forecast after them."""
    rng = np.random.default_rng(0)
    yield "random labels", rng.normal(size=(1500, 2)), rng.integers(3, size=1500), 10, 500
    yield "blobs", *make_blobs(1500, centers=3, random_state=0), 10, 500
    yield "make_classification", *make_classification(1500, 20, n_informative=6, n_classes=3, random_state=0), 20, 500
    yield "pinwheel", *make_pinwheels(1500, rng, n_classes=3), 10, 500
    yield "vague, h = 4", rng.normal(size=(1040, 2)), np.append(np.arange(40) % 5, np.zeros(1000, int)), 10, 40
    X, y = make_pinwheels(1040, rng)
    yield "vague pinwheel, h = 4", X, y, 10, 40


def least(work, rounds):
    """Least processor time of so many rounds, in ms."""
    best = np.inf
    for _ in range(rounds):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return 1e3 * best


def main():
    print(f"{'':24s} {'1,000 rows':>10} {'a row of them':>14} {'one alone: median':>18} {'worst':>6}   (ms)")
    for name, X, y, K, n in cases():
        X = (X - X[:n].mean(0)) / X[:n].std(0)
        p = fit(X[:n], y[:n], K, max_sweeps=100, tol=-np.inf).parameters
        rows = X[n:]
        whole = least(lambda p=p, rows=rows: predict_proba(p, rows), 5)
        alone = [least(lambda p=p, row=rows[i:i + 1]: predict_proba(p, row), 15) for i in range(0, 1000, 50)]
        print(f"{name:24s} {whole:10.0f} {whole / 1000:14.2f} {np.median(alone):18.2f} {max(alone):6.2f}", flush=True)


if __name__ == "__main__":
    main()
