"""Work shared out among threads and processes so that no number depends on how many there are."""

import os
import sys
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import copy
from functools import lru_cache

from cmn_literate.checks import check_count


def cores():
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def effective_jobs(n_jobs):
    """Workers that n_jobs asks for.

    A whole number >= 1: so many; -1: one for each core; None: what an active joblib.parallel_backend or
    joblib.parallel_config says, else 1.   ValueError for anything else.
    """
    if n_jobs is None:
        joblib = sys.modules.get("joblib")                  # who has set a backend has imported it
        return 1 if joblib is None else max(joblib.effective_n_jobs(None), 1)
    if not isinstance(n_jobs, bool) and n_jobs == -1:
        return cores()
    return check_count(n_jobs, "n_jobs")


@lru_cache(maxsize=4)
def _threads(n, process):
    """The threads of this process: a child that was forked has none of its parent's."""
    return ThreadPoolExecutor(n, thread_name_prefix="cmn")


def in_order(function, items, n_jobs=1):
    """function of every item, by n_jobs threads, in the order of the items, which are taken one by one as they are needed.   -> iterator"""
    if n_jobs == 1 or hasattr(items, "__len__") and len(items) < 2:
        return map(function, items)
    return _ahead(function, items, n_jobs)


def _ahead(function, items, n_jobs):
    """At most two items for each thread are taken and not yet handed back."""
    threads, waiting = _threads(n_jobs, os.getpid()), deque()
    try:
        for item in items:
            waiting.append(threads.submit(function, item))
            if len(waiting) == 2 * n_jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


@lru_cache(maxsize=1)
def _libraries():
    """threadpoolctl's view of the loaded libraries; None without threadpoolctl."""
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController()


@contextmanager
def one_blas_thread(n_jobs):
    """One BLAS thread for each of ours while this lasts; with n_jobs None, BLAS stays as it is."""
    libraries = None if n_jobs is None else _libraries()
    if libraries is None:
        yield
        return
    with libraries.limit(limits=1, user_api="blas"):
        yield



def joblib_backend():
    """joblib.Parallel if a backend is active that asks for several workers, else None."""
    joblib = sys.modules.get("joblib")
    return joblib.Parallel if joblib is not None and joblib.effective_n_jobs(None) > 1 else None


def share_jobs(est, n):
    """How many processes n starts of an estimator get, and the estimator that each of them sees."""
    jobs = min(effective_jobs(est.n_jobs), n)
    if jobs == 1:
        return 1, est
    each = copy(est)
    each.n_jobs, each.verbose = max(effective_jobs(est.n_jobs) // jobs, 1), 0
    return jobs, each
