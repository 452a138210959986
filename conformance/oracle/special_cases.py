"""Cases of level 0."""


def case(op, id, note, flags, /, f64_only=False, profile=None, options=(), how=None, **ins):
    """how: digits of the arithmetic and safety of the tolerance, where they are not the usual ones."""
    out = {"op": op, "id": id, "note": note, "flags": flags.split(), "in": ins, "f64_only": f64_only, **(how or {})}
    return out | ({"profile": profile, "options": options} if profile else {})


def sticks():
    c = lambda *a, **k: case("stick_log_probs", *a, **k)
    yield c("one_stick", "Two classes: the logistic regression.", "FlippedStick", psi=[[0.75], [-1.5], [3]])
    yield c("three_sticks", "Four classes; no two logits alike, so that order shows.", "OffByOneStick FlippedStick ColumnMajor ReversedOrder DoubleNormalisation",
            psi=[[0.5, -1.25, 2], [-0.375, 1.5, -2.25]])
    yield c("zero_logits", "Zero logits give 1/2, 1/4, 1/8, 1/8 and not a quarter each.", "OffByOneStick ExtraStick ReversedOrder DoubleNormalisation", psi=[[0, 0, 0]])
    yield c("no_stick", "One class: probability 1, and an axis of length 0.", "SingleExpert", psi=[[], []])
    yield c("many_sticks", "Nine sticks: a running product, not the previous stick.", "OffByOneStick",
            psi=[[0.25, -0.5, 0.75, -1, 1.25, -1.5, 1.75, -2, 2.25]])
    yield c("plus_1000", "Logits of +1000: the first class has log probability -exp(-1000), which is 0, the last -3000.",
            "ExtremeLogit", psi=[[1000, 1000, 1000]])
    yield c("minus_1000", "Logits of -1000: nothing stops, the last class is left.", "ExtremeLogit FlippedStick", psi=[[-1000, -1000, -1000]])
    yield c("mixed_1000", "Certain coins among fair ones.", "ExtremeLogit OffByOneStick", psi=[[-1000, 0.5, 1000], [1.5, 1000, -1000], [1000, -1000, 0.5]])
    yield c("infinite", "Coins that always or never stop: -inf, not NaN.", "ExtremeLogit", psi=[["-inf", 1.5, "inf"]])
    yield c("moderate_tails", "Logits around 30, where 1 - sigma(psi) is lost but its logarithm is not.", "ExtremeLogit", psi=[[30, -35], [-40, 25]])
    yield c("k_sticks", "K logits of which the last is not read.", "ExtraStick", profile={"sticks": "K"}, options=("sticks",),
            psi=[[0.5, -1.25, 7], [-0.375, 1.5, -2.25]])

    c = lambda *a, **k: case("stick_counts", *a, **k)
    yield c("one_hot", "Every label of four classes.", "UncentredKappa InactiveStick OffByOneStick ColumnMajor",
            weights=[[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    yield c("two_classes", "One stick, tossed by both classes.", "UncentredKappa InactiveStick", weights=[[1, 0], [0, 1]])
    yield c("uniform", "Uniform responsibilities: kappa_j is not gamma_j - 1/2.", "SoftCounts", weights=[[0.25, 0.25, 0.25, 0.25]])
    yield c("soft", "Responsibilities.", "SoftCounts OffByOneStick ColumnMajor", weights=[[0.5, 0.125, 0.375], [0.0625, 0.6875, 0.25]])
    yield c("totals", "Counts of many rows: nothing is normalised.", "SoftCounts", weights=[[3.5, 0, 12.25, 1], [40, 1.5, 0, 0.125]])
    yield c("one_class", "No stick at all.", "SingleExpert", weights=[[1], [0.5]])
    yield c("k_sticks", "K sticks of which the last is not tossed.", "ExtraStick", profile={"sticks": "K"}, options=("sticks",),
            weights=[[0.5, 0.125, 0.375], [0, 0, 1]])

    c = lambda *a, **k: case("stick_logits", *a, **k)
    yield c("uniform", "Equal probabilities need logits -ln(C - 1 - j).", "OffByOneStick", log_probs=[[0, 0, 0, 0, 0]])
    yield c("general", "Up to a constant for each row.", "OffByOneStick FlippedStick ColumnMajor", log_probs=[[-0.5, -1.25, -3], [2, 0.5, -1]])
    yield c("two_classes", "One stick: the log odds.", "FlippedStick", log_probs=[[-0.25, -1.5]])
    yield c("extreme", "Log probabilities a thousand apart.", "ExtremeLogit Underflow", log_probs=[[-1000, 0, -2000], [-3000, -1500, -1000]])
    yield c("impossible_class", "Probability 0: logit -inf.", "ExtremeLogit", log_probs=[["-inf", -0.75, -1]])
    yield c("never_reached", "A stick that is never reached has logit 0 by convention.", "ExtremeLogit", log_probs=[[0, "-inf", "-inf"]])


SERIES = "Where a series may end: a term too few shows at one of these tilts."
ENDS = [n / 128 for n in (5, 8, 12, 18, 25, 31, 38, 47, 50, 53, 56, 59, 61, 63, 70, 80, 90, 100, 110, 120, 127, 129, 140)]
WIDE = [n / 16 for n in (19, 21, 23, 25, 27, 30, 31, 33, 36, 40, 47, 49, 50, 51, 60, 70, 100)]
# where a limit of large tilts may be taken too near
LIMIT = "The limit of large tilts taken at 9, 16, 20 or 30 shows."
SHOULDER = [9, -10, 12, 14, 15.5, 16.5, 18, 19.5, -20.5, 22, 24, 27, 29.5, 31, 33, 36]


def polya_gamma():
    c = lambda *a, **k: case("log_cosh_half", *a, **k)
    yield c("moderate", "Even in c.", "HalfAngle", c=[0.5, -0.5, 1, 2, 5, -10])
    yield c("zero", "ln cosh 0 = 0.", "ZeroTilt", c=[0])
    yield c("small", "Near 0 it is c^2/8: |c|/2 + ln(1 + e^-|c|) - ln 2 has lost its digits.", "SmallTilt",
            c=[0.0009765625, -0.03125, 0.125])
    yield c("large", "|c|/2 - ln 2, where cosh overflows.", "HugeTilt", c=[100, 1500, -3000])
    yield c("series_ends", SERIES, "CutSeries SmallTilt", c=ENDS)
    yield c("wide_tilts", "Beyond the circle of every series.", "CutSeries HalfAngle", c=WIDE)
    yield c("shoulder", f"ln(1 + e^-|c|) still has digits to give. {LIMIT}", "CutSeries HugeTilt", c=SHOULDER)
    moments = (("pg_mean", "tanh(c/2)/(2c)", "1/4"), ("pg_var", "The variance", "1/24"), ("pg_kl", "The divergence", "0"))
    for op, name, limit in moments:
        c = lambda *a, op=op, **k: case(op, *a, **k)
        yield c("moderate", f"{name} at moderate tilts.", "HalfAngle", b=[1, 1, 1, 1, 1], c=[0.5, 1, 2, 4, 8])
        yield c("zero_tilt", f"The limit {limit} per unit of b.", "ZeroTilt", b=[1, 2, 0.5], c=[0, 0, 0])
        yield c("small_tilt", "Tilts near 0, in steps of 32.", "ZeroTilt SmallTilt", b=[1, 1, 1], c=[0.03125, 0.0009765625, 0.000030517578125])
        yield c("tilt_1500", "Tilts at which cosh overflows.", "HugeTilt", b=[1, 1, 1], c=[100, 1500, 12000])
        yield c("negative_tilt", "Even in the tilt.", "HalfAngle", b=[1, 2, 1], c=[-0.75, -3, -1500])
        yield c("no_toss", "b = 0: the variable is 0, whatever its tilt.", "InactiveStick ZeroTilt", b=[0, 0, 0], c=[0, 1.5, 1500])
        yield c("soft_b", "Proportional to b, whole or not.", "SoftCounts", b=[0.125, 0.75, 3, 40.5], c=[1.25, 2.5, 0.25, 6])
        yield c("branch_points", "Where implementations change from a series to the closed form.", "SmallTilt",
                b=[1, 1, 1, 1], c=[0.05, 0.1, 0.5, 1.0])
        yield c("series_ends", SERIES, "CutSeries SmallTilt", b=[1] * len(ENDS), c=ENDS)
        yield c("wide_tilts", "Beyond the circle of every series.", "CutSeries HalfAngle", b=[1] * len(WIDE), c=WIDE)
        yield c("shoulder", f"tanh(c/2) is not yet 1. {LIMIT}", "CutSeries HugeTilt", b=[1] * len(SHOULDER), c=SHOULDER)
        yield c("tiny_tilt", "A tilt of 1e-160: its square underflows.", "ZeroTilt SmallTilt", f64_only=True, b=[1], c=[1e-160])
    yield case("pg_kl", "below_half", "Just below 1/2, where a series often ends; a quarter of the tolerance of rounding, so that one or two terms fewer show.",
               "CutSeries SmallTilt", how={"safety": 8}, b=[1, 1, 1], c=[0.4921875, 0.498046875, 0.49951171875])
