"""The compiled kernel from outside: numba where it is there, whether a fit should use the kernel, and its first compilation."""

import os
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

import numpy as np

KERNEL = "cmn_literate.engineering.kernel"
WORTH = 200_000                 # rows x experts x sticks: from here on loading the kernel pays within one fit


@lru_cache(maxsize=1)
def find_numba():
    """The package numba; None where it is missing or CMN_KERNEL says numpy."""
    if os.environ.get("CMN_KERNEL") == "numpy":
        return None
    try:
        import numba
        import numba.extending
    except ImportError:
        return None
    return numba


def jit(exact=False, **options):
    """Compile a function, with sums in any order or (exact) as written.  Without numba: the function as it is."""
    if find_numba() is None:
        return lambda function: function
    free = {"contract"} if exact else {"contract", "reassoc", "nsz"}
    return find_numba().njit(fastmath=free, error_model="numpy", **options)


def bit_casts():
    """Two functions, compiled where numba is there: the bits of a float64 as a whole number, and back."""
    if find_numba() is None:
        return (lambda x: int(np.float64(x).view(np.int64)),
                lambda i: float(np.array(i & (1 << 64) - 1, np.uint64).view(float)))
    from llvmlite import ir
    types, intrinsic = find_numba().types, find_numba().extending.intrinsic

    @intrinsic
    def to_bits(context, x):
        return types.int64(types.float64), lambda context, builder, signature, args: builder.bitcast(args[0], ir.IntType(64))

    @intrinsic
    def from_bits(context, i):
        return types.float64(types.int64), lambda context, builder, signature, args: builder.bitcast(args[0], ir.DoubleType())
    return to_bits, from_bits


def kernel_mark():
    """The file that says that the kernel, of this source and with these versions, is compiled; "" without numba."""
    source = os.path.join(os.path.dirname(__file__), "engineering", "kernel.py")
    try:
        stat, versions = os.stat(source), f"{version('numba')}-{version('numpy')}"
    except (PackageNotFoundError, OSError):
        return ""
    return os.path.join(os.path.dirname(source), "__pycache__", f"kernel-{stat.st_mtime_ns}-{stat.st_size}-{versions}.ready")


def find_estep(n_rows, n_experts, n_sticks, shared=False):
    """The kernel of a fit: compiled_estep, or None for the NumPy one.

    The environment variable CMN_KERNEL: "numpy" never, "numba" always (ImportError without numba); without it,
    where numba is there, the kernel has been compiled before (compile_kernel), and a sweep has work enough to
    make up for loading it.   ValueError for another value.
    """
    asked = os.environ.get("CMN_KERNEL") or "auto"
    if asked not in ("auto", "numpy", "numba"):
        raise ValueError(f"CMN_KERNEL: expected numpy, numba or auto, got {asked!r}")
    small = n_rows * n_experts * n_sticks < WORTH
    if asked == "numpy" or shared or asked == "auto" and (small or not os.path.exists(kernel_mark())):
        return None
    if find_numba() is None:
        raise ImportError("CMN_KERNEL=numba needs numba: pip install 'cmn_literate[fast]'")
    return import_module(KERNEL).compiled_estep


def compile_kernel():
    """Compile the kernel, once for an installation (seconds); from then on a fit uses it where it pays.

    ImportError without numba.  Where the package's folder cannot be written, ask for the kernel by CMN_KERNEL=numba.
    """
    if find_numba() is None:
        raise ImportError("the compiled kernel needs numba: pip install 'cmn_literate[fast]' (and CMN_KERNEL is not numpy)")
    one, two, three = np.ones((1, 1)), np.ones((2, 1)), np.ones((1, 3))
    import_module(KERNEL).rows_estep(one, two, one, one, one, one, two, three, one, 1, one, one, one, one, np.ones((0, 1)),
                                     two, one, three, one)
    with suppress(OSError):
        open(kernel_mark(), "w").close()
