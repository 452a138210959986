"""The compiled kernel: equal to NumPy's, compiled or not, chosen when it pays; threads and processes change no bit."""

import os
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from cmn_literate import CMNClassifier, compiled, parallel
from cmn_literate.engineering import kernel
from cmn_literate.engineering.chains import run_apart
from cmn_literate.engineering.fit import fit
from cmn_literate.engineering.starts import init_parameters
from cmn_literate.engineering.sums import block_sweep, estep, make_blocks
from cmn_literate.network.simulate import Priors

PRIORS = Priors()
SCRIPT = """
import os, numpy as np
from cmn_literate.engineering import kernel
from cmn_literate.engineering.fit import fit
from cmn_literate.compiled import find_estep, find_numba
X = np.random.default_rng(0).normal(size=(300, 2))
assert (find_numba() is None) == (os.environ["CMN_KERNEL"] == "numpy")
assert (find_estep(300, 3, 2) is kernel.compiled_estep) == (os.environ["CMN_KERNEL"] == "numba")
print(repr(fit(X, np.arange(300) % 3, 3, max_sweeps=30).elbo.tolist()))
"""


def problem(N, K, h, L, d=2, shared=False, weight=None):
    rng = np.random.default_rng(N)
    X, y = rng.normal(size=(N, d)), np.arange(N) % L
    return (make_blocks(X, y, K, h, L, shared, weight), init_parameters(X, y, K, h, L, PRIORS, rng))


def distance(one, other):
    pairs = [*zip(one[1], other[1]), (one[2], other[2]), *((a.omega, b.omega) for a, b in zip(one[0], other[0]))]
    return max(np.abs(u - v).max(initial=0) / (np.abs(u).max(initial=0) or 1) for u, v in pairs)


@pytest.mark.parametrize("N, K, h, L, inner", [(20, 2, 1, 2, 1), (9, 1, 2, 3, 2), (12, 3, 5, 3, 1), (30, 2, 2, 7, 1)])
def test_the_kernel_is_the_numpy_estep(N, K, h, L, inner):
    for weight in (None, np.random.default_rng(1).uniform(0, 3, size=N)):
        blocks, p = problem(N, K, h, L, weight=weight)
        for _ in range(2):
            one, other = (block_sweep(blocks, p, PRIORS, inner, step) for step in (estep, kernel.compiled_estep))
            assert distance(one, other) < 1e-12
            blocks, p, _ = one


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_extreme_parameters():
    blocks, p = problem(12, 3, 2, 3)
    for change in ({"beta1_mu": 300 * p.beta1_mu}, {"beta0_mu": 300 * p.beta0_mu}, {"b": 1e-10 * p.b}, {"b": 1e10 * p.b}):
        one, other = (block_sweep(blocks, p._replace(**change), PRIORS, 1, step) for step in (estep, kernel.compiled_estep))
        assert distance(one, other) < 1e-9
    with pytest.raises(ValueError, match="positive definite"):
        block_sweep(blocks, p._replace(b=-p.b), PRIORS, 1, kernel.compiled_estep)
    with pytest.raises(ValueError, match="gamma: the kernel knows no shared tilts"):
        block_sweep(*problem(12, 3, 2, 3, shared=True), PRIORS, 1, kernel.compiled_estep)


def test_choice(monkeypatch):
    monkeypatch.setenv("CMN_KERNEL", "fortran")
    with pytest.raises(ValueError, match="CMN_KERNEL: expected numpy, numba or auto"):
        compiled.find_estep(10**6, 10, 4)
    monkeypatch.setenv("CMN_KERNEL", "numpy")
    assert compiled.find_estep(10**6, 10, 4) is None
    monkeypatch.setenv("CMN_KERNEL", "auto")
    monkeypatch.setattr(compiled, "kernel_mark", lambda: __file__)
    monkeypatch.setattr(compiled, "find_numba", lambda: np)
    assert compiled.find_estep(10**6, 10, 4) is kernel.compiled_estep
    assert compiled.find_estep(10**6, 10, 4, shared=True) is None and compiled.find_estep(100, 10, 4) is None
    monkeypatch.setattr(compiled, "kernel_mark", lambda: "")
    assert compiled.find_estep(10**6, 10, 4) is None
    monkeypatch.setattr(compiled, "find_numba", lambda: None)
    with pytest.raises(ImportError, match="cmn_literate.fast"):
        compiled.compile_kernel()
    monkeypatch.setenv("CMN_KERNEL", "numba")
    with pytest.raises(ImportError, match="cmn_literate.fast"):
        compiled.find_estep(10, 10, 4)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_asks_for_the_kernel(monkeypatch):
    from cmn_literate.engineering import fit as module, runs
    seen = []

    def counting(*arguments):
        seen.append(1)
        return estep(*arguments)

    for part in (module, runs):
        monkeypatch.setattr(part, "find_estep", lambda *sizes: seen.append(sizes) or counting)
    X, y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 3
    fit(X, y, 4, max_sweeps=2, tol=-np.inf)
    assert seen == [(30, 4, 2, False), 1, 1]
    seen.clear()
    CMNClassifier.paper(n_experts=4, max_sweeps=3, tol=1e-12, omega1="shared", random_state=0).fit(X, y)
    assert seen == [(30, 4, 2, True), 1, 1, 1]


@pytest.mark.slow
def test_compiled_in_a_fresh_process():
    pytest.importorskip("numba")
    bounds = [np.array(eval(subprocess.run([sys.executable, "-c", SCRIPT], env={**os.environ, "CMN_KERNEL": name}, check=True,
                                           capture_output=True, text=True).stdout)) for name in ("numpy", "numba")]
    assert_allclose(*bounds, rtol=1e-10)


@pytest.mark.slow
def test_the_same_tests_pass_compiled():
    pytest.importorskip("numba")
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__, "-k", "numpy_estep or extreme"],
                          env={**os.environ, "CMN_KERNEL": "numba"}, capture_output=True, text=True)
    assert done.returncode == 0 and "5 passed" in done.stdout, done.stdout[-2000:]


# ---- threads and processes

X, Y = np.random.default_rng(5).normal(size=(700, 3)), np.random.default_rng(6).integers(3, size=700)


def bits(**options):
    model = CMNClassifier.paper(**{"n_experts": 3, "max_sweeps": 4, "random_state": 0, "tol": 1e-12, **options})
    import warnings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, Y)
    return model.predict_proba(X)


@pytest.mark.parametrize("options", [{}, {"n_init": 3}, {"n_init": 3, "select": "holdout"}, {"n_init": 3, "select": "elbo"}])
def test_no_bit_depends_on_the_number_of_workers(options):
    one = bits(**options)
    for jobs in (1, 2, -1):
        assert_array_equal(bits(n_jobs=jobs, **options), one)


def test_joblib_backends_are_honoured(monkeypatch):
    joblib = pytest.importorskip("joblib")
    one, used = bits(n_init=2), []
    run = joblib.Parallel.__call__
    monkeypatch.setattr(joblib.Parallel, "__call__", lambda self, tasks: used.append(1) or run(self, tasks))
    with joblib.parallel_backend("threading", n_jobs=2):
        assert parallel.effective_jobs(None) == 2
        assert_array_equal(bits(n_init=2), one)
    assert used and parallel.effective_jobs(None) == 1


def test_workers_are_counted():
    assert parallel.effective_jobs(3) == 3 and parallel.effective_jobs(-1) == parallel.cores() >= 1
    for wrong in (0, -2, True, "two", 1.5):
        with pytest.raises(ValueError, match="n_jobs"):
            parallel.effective_jobs(wrong)
        with pytest.raises(ValueError, match="n_jobs"):
            CMNClassifier.paper(n_jobs=wrong).fit(X, Y)


def test_threads_hand_back_in_order():
    import time
    wait = lambda i: time.sleep(0.01 * (3 - i)) or i
    assert list(parallel.in_order(wait, range(3), 3)) == [0, 1, 2]


def test_processes_hand_back_in_order():
    assert list(run_apart(abs, [-3, -1, -2], 2)) == [3, 1, 2]


def test_blas_has_one_thread_while_ours_work():
    threadpoolctl = pytest.importorskip("threadpoolctl")
    count = lambda: [lib["num_threads"] for lib in threadpoolctl.threadpool_info() if lib["user_api"] == "blas"]
    with threadpoolctl.threadpool_limits(limits=2, user_api="blas"):
        before = count()
        with parallel.one_blas_thread(None):
            assert count() == before
        with parallel.one_blas_thread(2):
            assert set(count()) == {1}
        assert count() == before
