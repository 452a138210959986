"""Where a record comes from: command, date, commit, versions, machine, seconds; one function for all."""

import datetime
import os
import platform
import subprocess
import sys
import time
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

import cmn_literate

try:
    import resource
except ImportError:                                      # not everywhere
    resource = None


class Clock:
    """Wall and processor seconds since it was made, those of ended child processes included."""

    def __init__(self):
        self.start = self.now()

    @staticmethod
    def now():
        children = resource.getrusage(resource.RUSAGE_CHILDREN) if resource else None
        return time.perf_counter(), time.process_time() + (children.ru_utime + children.ru_stime if resource else 0.0)

    def read(self):
        """(seconds, CPU seconds)"""
        return tuple(round(b - a, 4) for a, b in zip(self.start, self.now()))


@cache
def versions():
    """Python and the packages that the numbers depend on."""
    found = {"python": platform.python_version(), "cmn_literate": cmn_literate.__version__}
    for package in ("numpy", "scipy", "autograd", "scikit-learn", "polyagamma"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


@cache
def commit():
    """Commit of this checkout, with a plus where files that git knows were changed; None without git."""
    def git(*words):
        return subprocess.run(["git", *words], cwd=Path(__file__).parent, capture_output=True, text=True, check=True).stdout.strip()
    try:
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


@cache
def processor():
    """Model of the processor, its architecture, cores, and the BLAS that numpy calls."""
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.processor()
    return {"processor": model, "architecture": platform.machine(), "cores": os.cpu_count(), "blas": f"{blas['name']} {blas['version']}"}


def load():
    """Processes that ran or waited, on the mean of the last minute; None where the system does not say."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def peak_mb():
    """Largest resident memory of this process so far, in MB; None where the system does not say."""
    if resource is None:
        return None
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1024**2), 1)


def provenance(command, clock, **more):
    """By which command, when, from which commit, with what and on which machine, and how long it took.

    more: entries that replace these, such as the seconds of the fit alone, or are added, such as the fingerprint of the data
    """
    seconds, cpu = clock.read()
    return {"command": command, "date": datetime.datetime.now(datetime.UTC).date().isoformat(), "commit": commit(),
            "versions": versions(), "machine": processor() | {"load": load()}, "seconds": seconds, "cpu_seconds": cpu,
            "peak_mb": peak_mb()} | more
