"""The notebooks and the unit tests under the arithmetic of other processors: nothing printed or asserted hangs on the last bit.

OpenBLAS, numpy and the C library choose their routines by the processor and can be told to take those of an older one.
"""

import os
import re
import subprocess
import sys

import nbformat
import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
from tangle import ROOT

pytestmark = pytest.mark.slow

FOUND = [name for name in __cpu_dispatch__ if __cpu_features__.get(name)]
AVX512 = [name for name in FOUND if name.startswith("AVX512") or name == "X86_V4"]
# name: environment, threads of BLAS, what the processor must have, what OpenBLAS calls the kernel (None: whichever it takes)
PROCESSORS = {
    "prescott, numpy at its baseline, C library without FMA": (
        {"OPENBLAS_CORETYPE": "Prescott", "NPY_DISABLE_CPU_FEATURES": " ".join(FOUND),
         "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-FMA,-FMA4,-AVX2,-AVX512F"}, 1, "SSE3", {"Katmai", "Prescott"}),
    "haswell, numpy without AVX-512": ({"OPENBLAS_CORETYPE": "Haswell", "NPY_DISABLE_CPU_FEATURES": " ".join(AVX512)}, 1, "AVX2", {"Haswell"}),
    "skylakex": ({"OPENBLAS_CORETYPE": "SkylakeX"}, 1, "AVX512F", {"SkylakeX"}),
    "two threads": ({}, 2, None, None),
}
PROBE = """
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
from threadpoolctl import threadpool_info
print(*{info["architecture"] for info in threadpool_info() if info["internal_api"] == "openblas"})
print(*(name for name in __cpu_dispatch__ if __cpu_features__.get(name)))
"""


def run(command, environment):
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=inherited | {"PYTHONPATH": str(ROOT)} | environment)


def expected(part):
    """How many have to pass at least: every code cell; of the unit tests each function once, many run with several values."""
    if part == "gate":
        cells = [cell for path in (ROOT / "book").glob("*/*.ipynb") for cell in nbformat.read(path, as_version=4).cells]
        return sum(cell.cell_type == "code" for cell in cells)
    return sum(len(re.findall(r"^def test_", path.read_text(), re.M)) for path in (ROOT / "tests").rglob("test_*.py"))


@pytest.mark.parametrize("part", ("gate", "unit"))
@pytest.mark.parametrize("name", PROCESSORS)
def test_passes_on_the_processor(name, part):
    environment, threads, feature, kernels = PROCESSORS[name]
    if feature and not __cpu_features__.get(feature):
        pytest.skip(f"this processor has no {feature}")
    probe = run([sys.executable, "-c", PROBE], environment)
    assert probe.returncode == 0, probe.stderr
    architectures, features = probe.stdout.split("\n")[:2]
    if not architectures:
        pytest.skip("numpy and scipy do not use OpenBLAS here")
    assert kernels is None or set(architectures.split()) <= kernels, f"OpenBLAS took {architectures}"
    assert not set(features.split()) & set(environment.get("NPY_DISABLE_CPU_FEATURES", "").split()), f"numpy still uses {features}"
    done = run(["make", part, f"PY={sys.executable}", f"OPENBLAS_NUM_THREADS={threads}"], environment)
    failed = re.findall(r"^(?:FAILED|ERROR) .*", done.stdout, re.M)
    passed = int((re.findall(r"(\d+) passed", done.stdout) or [0])[-1])
    print(f"{name}: {part}, {passed} passed, {len(failed)} failed")
    assert done.returncode == 0 and not failed and passed >= expected(part), "\n".join(failed) or done.stdout[-3000:] + done.stderr[-3000:]
