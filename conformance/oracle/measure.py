"""From a function and its inputs to a case: values at 50 digits, condition numbers, tolerances, JSON."""

import random

from mpmath import mp, mpf

from sized import Sized, size_of

DIGITS = 50
BITS = {"f64": 53, "f32": 24}
TINY = {"f64": mpf(2) ** -1022, "f32": mpf(2) ** -126}      # below this a number may be flushed to 0
HUGE = {"f64": mpf(2) ** 1023, "f32": mpf(2) ** 127}
TRIALS = 6
SAFETY = 32                                                 # c in rtol = c * eps * kappa
# c grows so much: determinants from eigenvalues; ln cosh(c/2) - c/4 tanh(c/2) as it stands, from c = 1/2 on
WIDER = {"gaussian_entropy": 4, "gaussian_kl": 4, "mng_kl": 4, "pg_kl": 10}
LOOSEST_F32 = 0.01                                          # a float32 tolerance beyond this tests nothing
SYMMETRIC = {"S", "V", "Sigma", "beta1_S", "beta0_S", "U", "U0", "W_V", "C_S", *(name.format(l) for l in (1, 2, 3) for name in ("V{}", "Sigma{}", "beta{}_S"))}


def each(value, function):
    return [each(v, function) for v in value] if isinstance(value, list) else function(value)


def flat(value):
    return [x for v in value for x in flat(v)] if isinstance(value, list) else [value]


def shape_of(value):
    shape = []
    while isinstance(value, list):
        shape.append(len(value))
        value = value[0] if value else None
    return shape


def mirrored(value, depth):
    """The lower triangle of every matrix, copied over the upper one."""
    if depth > 2:
        return [mirrored(v, depth - 1) for v in value]
    return [[value[max(i, j)][min(i, j)] for j in range(len(value))] for i in range(len(value))]


def nudged(ins, rng, size):
    """Each number times 1 +- size; integers, zeros and infinities stay, symmetric matrices stay symmetric."""
    def nudge(x):
        return x if isinstance(x, int) or not mp.isfinite(x) else x * (1 + rng.choice((-1, 1)) * size)
    out = {name: each(value, nudge) for name, value in ins.items()}
    return {name: mirrored(v, len(shape_of(v))) if name in SYMMETRIC else v for name, v in out.items()}


def difference(x, y):
    return mpf(0) if x == y or mp.isnan(x) and mp.isnan(y) else abs(x - y)


def sensitivity(function, ins, outs, seed, bits=60, trials=TRIALS):
    """For each output, entry by entry: |change| per relative change of the inputs, the largest of a few random ones."""
    rng, size = random.Random(seed), mpf(2) ** -bits
    worst = {name: [mpf(0)] * len(flat(value)) for name, value in outs.items()}
    for _ in range(trials):
        moved = function(**nudged(ins, rng, size))
        for name in outs:
            pairs = zip(worst[name], flat(moved[name]), flat(outs[name]), strict=True)
            worst[name] = [max(w, difference(x, y) / size) for w, x, y in pairs]
    return worst


def rounding(function, ins, outs, bits):
    """For each output, entry by entry: |error| of the same loops in arithmetic of so many bits, inputs rounded first."""
    with mp.workprec(bits):
        low = function(**{k: each(v, lambda x: x if isinstance(x, int) else +x) for k, v in ins.items()})
    return {name: [difference(x, y) for x, y in zip(flat(low[name]), flat(outs[name]), strict=True)] for name in outs}


def sizes(function, ins, outs):
    """For each output, entry by entry: the sum of the absolute terms that the loops add up to it."""
    sized = function(**{k: each(v, lambda x: x if isinstance(x, int) else Sized(x)) for k, v in ins.items()})
    return {name: [size_of(x) for x in flat(sized[name])] for name in outs}


def two_digits(x):
    """A little more than x, in two digits."""
    return float(f"{float(x * mpf('1.05')):.1e}")


def tolerance(values, changes, errors, dtype, terms=None, safety=SAFETY):
    """(rtol, atol, kappa) of one output.

    rtol = c * eps * (1 + kappa); kappa entry by entry where that is moderate, otherwise relative to the largest entry of
    the array (then with atol = rtol * largest).  Never less than four times the error of the plain loops in arithmetic
    of the dtype.  Where terms cancel to 0, atol is at least c * eps * the sum of their absolute values; where all entries are
    0, at least c * eps * their change per relative change of the inputs.
    """
    eps, tiny = mpf(2) ** -BITS[dtype], TINY[dtype]
    table = [(abs(v), c, e) for v, c, e in zip(values, changes, errors) if mp.isfinite(v)]
    seen = [row for row in table if row[0] > tiny or row[1] > 0 and row[0] == 0]
    top = max((v for v, _, _ in seen), default=mpf(0))
    by_entry = max((c / v if v else mpf("inf") for v, c, _ in seen), default=mpf(0))
    by_array = max((c for _, c, _ in seen), default=mpf(0)) / top if top else mpf(0)
    entrywise = by_entry <= max(300, 10 * by_array)
    kappa = by_entry if entrywise else by_array
    rtol = safety * eps * (1 + kappa)
    atol = mpf(0) if entrywise else rtol * top
    floor = 2 * tiny if any(v < 1e8 * tiny for v, _, _ in table) else mpf(0)
    floor = max([floor, *(safety * eps * size for v, size in zip(values, terms or (), strict=False) if v == 0)])
    if not top:                                             # nothing but zeros: what rounding the inputs does to them
        floor = max([floor, *(safety * eps * c for v, c, _ in table if v == 0)])
    room = max((e / (atol + floor + rtol * v) if atol + floor + rtol * v else mpf("inf") for v, _, e in table if e), default=mpf(0))
    if mp.isinf(room):
        raise ArithmeticError("an exact zero that the loops miss, insensitive to the inputs")
    grow = max(mpf(1), 4 * room)
    return rtol * grow, max(atol * grow, floor), kappa


def slack(outs, shortcuts, dtype):
    """What a numerical integration may be off: a thousandth of the distance to the nearest shortcut, within limits."""
    low, high = {"f64": (1e-12, 1e-6), "f32": (1e-6, 1e-3)}[dtype]
    pairs = [[difference(x, y) for x, y in zip(flat(outs), flat(other), strict=True) if mp.isfinite(x)] for other in shortcuts]
    return min(max(min(max(p) for p in pairs) / 1000, mpf(low)), mpf(high))


def decimal(x):
    """A JSON number: the shortest decimal that reads back as the same float64."""
    if isinstance(x, (int, str)):
        return x
    if mp.isnan(x):
        return "nan"
    if mp.isinf(x):
        return "inf" if x > 0 else "-inf"
    return float(x) + 0.0                                   # no minus zero


def encode(value, shape):
    if not isinstance(value, list):
        return decimal(value)
    found = shape_of(value)
    assert 0 in found or found == list(shape), (found, shape)
    return {"shape": list(shape), "data": [decimal(x) for x in flat(value)]}


def exact(value):
    """Floats as the numbers that they are, strings as the nearest float64; integers stay."""
    return each(value, lambda x: x if isinstance(x, int) else mpf(float(x)))


def real(value):
    """Like exact, but integers are numbers of the real kind too."""
    return each(value, lambda x: mpf(float(x)))


def fits(values, dtype):
    return all(not mp.isfinite(x) or x == 0 or 8 * TINY[dtype] < abs(x) < HUGE[dtype] for x in values)
