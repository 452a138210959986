"""Numbers and arrays as JSON carries them, and the comparison of an answer with the expected one."""

import math

import numpy as np

WORDS = {"nan": math.nan, "inf": math.inf, "+inf": math.inf, "-inf": -math.inf}
NORM = 4                                                 # of a matrix or vector as a whole 4 rtol: 128 eps (1 + kappa), enough for eigenvectors
BUG_RATIOS = {2.0: "twice the expected value", 0.5: "half the expected value", -1.0: "the expected value with the wrong sign",
              4.0: "four times the expected value", 0.25: "a quarter of the expected value"}


class Malformed(ValueError):
    """A value that is not what the format allows; the message says what it is."""


def _number(item):
    if item is None:
        return math.nan                                 # what JavaScript's JSON.stringify makes of NaN and Infinity
    if isinstance(item, str) and item.lower() in WORDS:
        return WORDS[item.lower()]
    if isinstance(item, bool) or not isinstance(item, (int, float)):
        raise Malformed(f"expected numbers, got {str(item)[:60]!r}")
    try:
        return float(item)
    except OverflowError:
        raise Malformed(f"expected numbers, got an integer of {len(str(item))} digits") from None


def decode(value):
    """JSON value -> numpy array of float64, or of int64 where every entry is written as an integer.

    A number, a word ("nan", "inf", "-inf"), {"shape": [...], "data": [row-major, flat]} or, in answers, nested lists.
    """
    if isinstance(value, dict):
        if set(value) != {"shape", "data"}:
            raise Malformed(f"expected the keys shape and data, got {sorted(value)[:5]}")
        shape, data = value["shape"], value["data"]
        whole = isinstance(shape, list) and all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in shape)
        if not whole or not isinstance(data, list):
            raise Malformed(f"expected a list of sizes and a flat list of numbers, got shape {str(shape)[:60]}")
        if len(data) != math.prod(shape):
            raise Malformed(f"shape {tuple(shape)} needs {math.prod(shape)} numbers, got {len(data)}")
        if all(isinstance(item, int) and not isinstance(item, bool) for item in data) and data:
            try:
                return np.array(data, dtype=np.int64).reshape(shape)
            except OverflowError:
                pass
        return np.array([_number(item) for item in data], dtype=float).reshape(shape)
    if isinstance(value, list):
        def walk(item):
            return [walk(i) for i in item] if isinstance(item, list) else _number(item)
        try:
            return np.array(walk(value), dtype=float)
        except ValueError as error:
            if isinstance(error, Malformed):
                raise
            raise Malformed("expected lists of equal lengths") from None
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return np.array(value, dtype=np.int64)
        except OverflowError:
            pass
    return np.array(_number(value))


def _plain(number):
    number = float(number)
    if math.isfinite(number):
        return number
    return "nan" if math.isnan(number) else ("inf" if number > 0 else "-inf")


def encode(value):
    """Number or array (anything that numpy.asarray takes) -> JSON value; arrays with no axis become numbers."""
    if isinstance(value, (str, bytes)):
        raise TypeError(f"expected numbers, got the string {value[:60]!r}")
    array = np.asarray(value)
    if array.dtype == object or array.dtype.kind not in "fiub":
        raise TypeError(f"expected real numbers, got {array.dtype} from {type(value).__name__}")
    items = [int(i) for i in array.ravel()] if array.dtype.kind in "iub" else [_plain(i) for i in array.ravel()]
    return items[0] if array.ndim == 0 else {"shape": list(array.shape), "data": items}


def _short(number):
    return f"{float(number):.6g}"


def _over_tolerance(got, expected, rtol, atol, axes):
    """(error, tolerance, error / tolerance) of each entry; the last is that of the norm of its matrix or vector where that is smaller."""
    with np.errstate(all="ignore"):
        tolerance = np.broadcast_to(atol, expected.shape) + np.broadcast_to(rtol, expected.shape) * np.abs(expected)
        error = np.abs(got - expected)
        same = (got == expected) | (np.isnan(got) & np.isnan(expected))
        ratio = np.where(same, 0.0, np.where(np.isfinite(expected) & np.isfinite(got), error / tolerance, np.inf))
        if axes and expected.ndim >= axes:
            over = tuple(range(-axes, 0))
            norm = np.sqrt((error**2).sum(over, keepdims=True)) / (NORM * rtol * np.sqrt((expected**2).sum(over, keepdims=True)))
            ratio = np.where(np.isfinite(norm), np.minimum(ratio, norm), ratio)
    return error, tolerance, np.where(np.isnan(ratio), np.inf, ratio)


def _coarse(expected, rtol, atol, axes, coarse):
    """Largest error of each entry that is no more than inaccurate: coarse times its size, or the size of what cancels in it."""
    largest, cancel = np.max(np.abs(expected[np.isfinite(expected)]), initial=0.0), atol / rtol if rtol else 0.0
    size = np.abs(expected) + (cancel if cancel <= 1e3 * largest or largest == 0 else 0.0)
    if axes and expected.ndim >= axes:
        size = np.maximum(size, np.sqrt((expected**2).sum(tuple(range(-axes, 0)), keepdims=True)))
    return coarse * size


def compare(name, got, expected, rtol, atol, axes=0, coarse=0.0):
    """One output against the expected one; axes: 1 for vectors or 2 for matrices that are right by their norm; coarse: inaccurate below.

    -> dict: ok, grade (right, inaccurate, wrong), problem ("" or what is wrong in words), ratio (largest error / tolerance), and error,
       tolerance, index, got, expected of the entry where that ratio is largest
    """
    result = {"name": name, "ok": False, "grade": "wrong", "problem": "", "ratio": None, "error": None, "tolerance": None, "index": None,
              "got": None, "expected": None}
    lists = isinstance(got, list)
    try:
        got = decode(got)
    except (Malformed, RecursionError) as malformed:
        result["problem"] = f"malformed: {malformed}"
        return result
    expected = decode(expected)
    if lists and got.size == expected.size == 0:         # a list of lists with nothing in it does not tell its shape
        return {**result, "ok": True, "grade": "right", "ratio": 0.0}
    if got.shape != expected.shape:
        result["problem"] = f"shape {got.shape}, expected {expected.shape}"
        if got.size == expected.size and got.ndim and got.ndim == expected.ndim:
            result["problem"] += " (axes in another order?)"
        return result
    if not got.size:
        return {**result, "ok": True, "grade": "right", "ratio": 0.0}
    got, expected = got.astype(float), expected.astype(float)
    error, tolerance, ratio = _over_tolerance(got, expected, rtol, atol, axes)
    worst = np.unravel_index(np.argmax(np.where(ratio >= np.max(ratio) * (1 - 1e-9), np.nan_to_num(error, nan=np.inf), -1.0)), ratio.shape)
    result.update(ratio=_plain(ratio[worst]), error=_plain(error[worst]), tolerance=_plain(tolerance[worst]),
                  index=[int(i) for i in worst], got=_plain(got[worst]), expected=_plain(expected[worst]),
                  ok=bool(np.max(ratio) <= 1.0))
    if result["ok"]:
        return {**result, "grade": "right"}
    with np.errstate(all="ignore"):
        if coarse and np.all((ratio <= 1) | np.isfinite(error) & (error <= _coarse(expected, rtol, atol, axes, coarse))):
            result["grade"] = "inaccurate"
    result["problem"] = _in_words(got, expected, ratio, tolerance, worst)
    return result


def _in_words(got, expected, ratio, tolerance, worst):
    """What the difference looks like."""
    bad = int(np.sum(ratio > 1))
    place = f" at index {tuple(int(i) for i in worst)}" if got.ndim else ""
    count = f", {bad} of {got.size} entries beyond" if got.size > 1 else ""
    wrong = np.isnan(got) & ~np.isnan(expected)
    if wrong.any():
        return f"NaN in {int(wrong.sum())} of {got.size} entries where a number is expected"
    wrong = np.isinf(got) & np.isfinite(expected)
    if wrong.any():
        return f"infinite in {int(wrong.sum())} of {got.size} entries where a finite number is expected"
    wrong = np.isinf(expected) & (got != expected)
    if wrong.any():
        return f"{_short(got[wrong][0])} where {_short(expected[wrong][0])} is expected, in {int(wrong.sum())} of {got.size} entries"
    words = f"error {_short(abs(got[worst] - expected[worst]))} is {_short(ratio[worst])} x the tolerance{place}{count}"
    hint = pattern(got, expected, tolerance)
    return f"{words}; {hint}" if hint else words


def pattern(got, expected, tolerance):
    """A regularity of a wrong answer, in words, or ""."""
    near = lambda a, b: bool(np.all(np.abs(a - b) <= 4 * tolerance + 1e-12 * np.abs(b)))
    if not (np.isfinite(got).all() and np.isfinite(expected).all()):
        return ""
    if np.max(np.abs(got - expected)) < 1e-6 * max(np.max(np.abs(expected)), 1e-3):
        return ""                                        # digits are missing, not a factor
    for factor, words in BUG_RATIOS.items():
        if near(got, factor * expected):
            return f"it is {words}"
    if got.ndim >= 2 and near(got, np.reshape(expected.ravel(order="F"), got.shape)):
        return "it is the expected array read column by column"
    if got.ndim >= 2 and got.shape[-1] == got.shape[-2] and near(got, np.swapaxes(expected, -1, -2)):
        return "it is the expected array with its last two axes exchanged"
    if got.size > 1:
        shift = np.mean(got - expected)
        if near(got, expected + shift):
            return f"it is the expected array plus the constant {_short(shift)}"
        for axis, size in enumerate(got.shape):
            if size > 1 and near(got, np.flip(expected, axis)):
                return f"it is the expected array with axis {axis} reversed"
        safe = np.abs(expected) > 1e-12
        if safe.all():
            factor = np.mean(got / expected)
            if near(got, factor * expected):
                return f"it is the expected array times {_short(factor)}"
    return ""
