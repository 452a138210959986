"""Wrong formulas of level 0: sticks and Polya-Gamma variables."""

import level0
from level0 import counts, stick_means, walk
from mpmath import mp, mpf
from special import log_cosh_half, log_sigmoid, log_sum, theta, theta_var, tilt_kl
from wrong import backwards, column_major, formula, given, negative, shifted, squared, then, using


def previous_only(stop, go):
    before = [mpf(0), *go]
    return [b + s for b, s in zip(before, stop)] + [before[-1]]


def own_first(stop, go):
    reach, out = mpf(0), []
    for s, p in zip(stop, go, strict=True):
        reach += p
        out.append(reach + s)
    return [*out, reach]


def last_stick(outs, q):
    return {"log_probs": [[*row[:-1], row[-1] + mp.log(mpf(1) / 2)] for row in outs["log_probs"]]}


def twice(outs, q):
    """A softmax of probabilities."""
    return {"log_probs": [[mp.exp(v) - mp.log(sum(mp.exp(mp.exp(w)) for w in row)) for v in row] for row in outs["log_probs"]]}


STICKS = [
    ("OffByOneStick", "the previous stick in place of the product of all earlier ones", using(level0, walk=previous_only)),
    ("OffByOneStick", "a class passes its own stick before it stops there", using(level0, walk=own_first)),
    ("ExtraStick", "the last class has a stick of its own, worth 1/2", then(last_stick)),
    ("OffByOneStick", "classes shifted by one", then(lambda o, q: {"log_probs": shifted(1)(o["log_probs"])})),
]
TWICE = ("DoubleNormalisation", "a softmax of probabilities", then(twice))
PSI = [
    *STICKS,
    TWICE,
    ("FlippedStick", "sigma(psi) taken as passing on", given(psi=lambda q: negative(q["psi"]))),
    ("ColumnMajor", "psi read column by column", given(psi=lambda q: column_major(q["psi"]))),
    ("ColumnMajor", "the answer written column by column", then(lambda o, q: {"log_probs": column_major(o["log_probs"])})),
    ("ReversedOrder", "sticks in reverse order", given(psi=lambda q: backwards(1)(q["psi"]))),
    ("ReversedOrder", "classes in reverse order", then(lambda o, q: {"log_probs": backwards(1)(o["log_probs"])})),
]


def counted(b, kappa):
    """stick_counts with other b and kappa of (right b, right kappa, weights)."""
    def both(w):
        right = counts(w)
        return b(*right, w), kappa(*right, w)
    return using(level0, counts=both)


RIGHT_B = lambda b, kappa, w: b
RIGHT_KAPPA = lambda b, kappa, w: kappa
later = lambda b, kappa, w: [bj - wj for bj, wj in zip(b, w)]
all_one = lambda b, kappa, w: [mpf(1)] * len(b)
shares = lambda b, kappa, w: [wj - bj / 2 for wj, bj in zip(w, b)]
COUNTS = [
    ("UncentredKappa", "kappa = y in place of y - b/2", counted(RIGHT_B, lambda b, kappa, w: w[:-1])),
    ("SoftCounts", "kappa = w - 1/2 on every stick", counted(RIGHT_B, lambda b, kappa, w: [v - mpf(1) / 2 for v in w[:-1]])),
    ("InactiveStick", "b = 1 and kappa = w - 1/2: every stick is tossed", counted(all_one, lambda b, kappa, w: [v - mpf(1) / 2 for v in w[:-1]])),
    ("InactiveStick", "b = 1 on every stick", counted(all_one, RIGHT_KAPPA)),
    ("OffByOneStick", "the own stick left out of b, and of kappa", counted(later, lambda b, kappa, w: [v - (bj - v) / 2 for v, bj in zip(w, b)])),
    ("OffByOneStick", "the own stick left out of b", counted(later, RIGHT_KAPPA)),
    ("FlippedStick", "kappa with the wrong sign", counted(RIGHT_B, lambda b, kappa, w: negative(kappa))),
    ("SoftCounts", "b = w: its own weight only", counted(lambda b, kappa, w: w[:-1], lambda b, kappa, w: [v / 2 for v in w[:-1]])),
    ("OffByOneStick", "kappa of the next class", counted(RIGHT_B, lambda b, kappa, w: [v - bj / 2 for v, bj in zip(w[1:], b)])),
    ("OffByOneStick", "b counts up to j in place of from j on", given(weights=lambda q: backwards(1)(q["weights"]))),
    ("Unweighted", "weights divided by their total", given(weights=lambda q: [[v / sum(w) for v in w] for w in q["weights"]])),
    ("DroppedConstant", "kappa without its half: w - b", counted(RIGHT_B, lambda b, kappa, w: [v - bj for v, bj in zip(w, b)])),
    ("ColumnMajor", "the weights read column by column", given(weights=lambda q: column_major(q["weights"]))),
]


def against(others):
    """psi_j = ln p_j - ln sum of the classes others(row, j)."""
    return lambda right, log_probs, **q: {"psi": [[row[j] - log_sum(others(row, j)) for j in range(len(row) - 1)] for row in log_probs]}


LOGITS = [
    ("OffByOneStick", "the own class among the later ones", against(lambda row, j: row[j:])),
    ("OffByOneStick", "odds against all other classes, not the later ones", against(lambda row, j: row[:j] + row[j + 1:])),
    ("OffByOneStick", "odds against the next class only", against(lambda row, j: row[j + 1:j + 2])),
    ("OffByOneStick", "odds against the last class only", against(lambda row, j: row[-1:])),
    ("FlippedStick", "logits with the wrong sign", then(lambda o, q: {"psi": negative(o["psi"])})),
    ("ColumnMajor", "the log probabilities read column by column", given(log_probs=lambda q: column_major(q["log_probs"]))),
    ("ReversedOrder", "classes in reverse order", given(log_probs=lambda q: backwards(1)(q["log_probs"]))),
    ("ReversedOrder", "sticks in reverse order", then(lambda o, q: {"psi": backwards(1)(o["psi"])})),
]
far = lambda right, limit: lambda c: right(c) if abs(c) < 8 else limit(abs(c))        # a limit of large tilts taken too near
LOG_COSH = [
    ("CutSeries", "|c|/2 - ln 2 already at moderate tilts", formula(far(log_cosh_half, lambda c: c / 2 - mp.log(2)), "value")),
    ("HalfAngle", "ln cosh(c) for ln cosh(c/2)", formula(lambda c: log_cosh_half(2 * c), "value")),
    ("HalfAngle", "ln cosh(c/4) for ln cosh(c/2)", formula(lambda c: log_cosh_half(c / 2), "value")),
    ("DroppedConstant", "ln (2 cosh(c/2)): ln 2 too much", formula(lambda c: log_cosh_half(c) + mp.log(2), "value")),
    ("HalfAngle", "half of ln cosh(c)", formula(lambda c: log_cosh_half(2 * c) / 2, "value")),
    ("HugeTilt", "|c|/2 at every tilt", formula(lambda c: abs(c) / 2, "value")),
    ("HugeTilt", "|c|/2 - ln 2 at every tilt", formula(lambda c: abs(c) / 2 - mp.log(2), "value")),
]


def per_b(flag, words, function, name):
    return flag, words, formula(lambda b, c: b * function(c), name)


def counts_of(function, name, what):
    return [("SoftCounts", f"{what} of PG(1, c): b is left out", formula(lambda b, c: function(c), name)),
            ("SoftCounts", f"b squared in {what}", formula(lambda b, c: b * b * function(c), name))]


MEAN = [
    per_b("HalfAngle", "tanh(c) for tanh(c/2) in the mean", lambda c: 2 * theta(2 * c), "mean"),
    per_b("HalfAngle", "1/c for 1/(2c) in the mean: twice the mean", lambda c: 2 * theta(c), "mean"),
    per_b("HalfAngle", "1/(4c) for 1/(2c): the lambda of Jaakkola and Jordan, half the mean", lambda c: theta(c) / 2, "mean"),
    per_b("HalfAngle", "tanh(c)/c for tanh(c/2)/(2c)", lambda c: 4 * theta(2 * c), "mean"),
    per_b("HalfAngle", "tanh(c/2)/2: not divided by c", lambda c: theta(c) * c, "mean"),
    per_b("HalfAngle", "the square of the tilt for the tilt", lambda c: theta(c * c), "mean"),
    per_b("ZeroTilt", "b/4 at every tilt", lambda c: mpf(1) / 4, "mean"),
    per_b("CutSeries", "b/(2|c|) already at moderate tilts", far(theta, lambda c: 1 / (2 * c)), "mean"),
    *counts_of(theta, "mean", "the mean"),
]


def variance(top, bottom):
    return lambda c: mpf(1) / 24 if c == 0 else top(abs(c)) / bottom(abs(c))


wide = lambda c: mp.sinh(c) - c
VAR = [
    per_b("HalfAngle", "the mean's denominator: (1 + e^-c) not squared", lambda c: theta_var(c) * (1 + mp.exp(-abs(c))), "var"),
    per_b("HalfAngle", "cosh(c) for cosh(c/2) in the variance", variance(wide, lambda c: 4 * c ** 3 * mp.cosh(c) ** 2), "var"),
    per_b("HalfAngle", "cosh(c/2) not squared in the variance", variance(wide, lambda c: 4 * c ** 3 * mp.cosh(c / 2)), "var"),
    per_b("HalfAngle", "a factor 2 missing in the denominator of the variance", lambda c: 2 * theta_var(c), "var"),
    per_b("HalfAngle", "a factor 2 too much in the denominator of the variance", lambda c: theta_var(c) / 2, "var"),
    per_b("HalfAngle", "c squared for c cubed in the variance", lambda c: theta_var(c) * abs(c), "var"),
    per_b("CutSeries", "b/(2|c|^3) already at moderate tilts", far(theta_var, lambda c: 1 / (2 * c ** 3)), "var"),
    ("VarianceAsDeviation", "the root of the variance", formula(lambda b, c: mp.sqrt(b * theta_var(c)), "var")),
    *counts_of(theta_var, "var", "the variance"),
]


def divergence(log_part, tanh_part):
    return lambda c: log_part(abs(c)) - tanh_part(abs(c))


tanh_half = lambda c: c / 4 * mp.tanh(c / 2)
KL = [
    per_b("HalfAngle", "(c/2) tanh(c/2) for (c/4) tanh(c/2) in the divergence", divergence(log_cosh_half, lambda c: 2 * tanh_half(c)), "kl"),
    per_b("HalfAngle", "tanh(c) for tanh(c/2) in the divergence", divergence(log_cosh_half, lambda c: c / 4 * mp.tanh(c)), "kl"),
    per_b("HalfAngle", "ln cosh(c) for ln cosh(c/2) in the divergence", divergence(lambda c: log_cosh_half(2 * c), tanh_half), "kl"),
    per_b("HalfAngle", "(c/8) tanh(c/2) for (c/4) tanh(c/2) in the divergence", divergence(log_cosh_half, lambda c: tanh_half(c) / 2), "kl"),
    per_b("DroppedConstant", "ln (2 cosh) for ln cosh in the divergence", divergence(lambda c: log_cosh_half(c) + mp.log(2), tanh_half), "kl"),
    per_b("MissingTiltKL", "the divergence with the wrong sign", lambda c: -tilt_kl(c), "kl"),
    per_b("MissingTiltKL", "0 for the divergence", lambda c: mpf(0), "kl"),
    per_b("CutSeries", "b (|c|/4 - ln 2) already at moderate tilts", far(tilt_kl, lambda c: c / 4 - mp.log(2)), "kl"),
    per_b("MissingTiltKL", "ln cosh(c/2) alone for the divergence", log_cosh_half, "kl"),
    *counts_of(tilt_kl, "kl", "the divergence"),
]


def probit(m, v):
    return log_sigmoid(m / mp.sqrt(1 + mp.pi * v / 8))


def mean_log(m, v):
    """E ln sigma(psi), by trapezoids."""
    nodes = [mpf(i) / 8 for i in range(-64, 65)]
    return sum(mp.exp(-z * z / 2) * log_sigmoid(m + mp.sqrt(v) * z) for z in nodes) / sum(mp.exp(-z * z / 2) for z in nodes)


def stick_formula(one):
    return lambda right, m, v: {"log_probs": [walk([one(a, s) for a, s in zip(mr, vr)], [one(-a, s) for a, s in zip(mr, vr)])
                                              for mr, vr in zip(m, v, strict=True)]}


def bound_as_mean(right, m, v):
    """Scores of the bound at its best tilts, normalised."""
    out = []
    for row in zip(m, v, strict=True):
        loss = [mp.log(2) + log_cosh_half(mp.sqrt(a * a + s)) for a, s in zip(*row, strict=True)]
        score = walk([a / 2 - c for a, c in zip(row[0], loss)], [-a / 2 - c for a, c in zip(row[0], loss)])
        total = log_sum(score)
        out.append([x - total for x in score])
    return {"log_probs": out}


roots = lambda value: [roots(v) for v in value] if isinstance(value, list) else mp.sqrt(value)
SHORT = [("PlugIn", "the sigmoid of the mean", lambda m, v: log_sigmoid(m)),
         ("PlugIn", "the probit formula m / sqrt(1 + pi v / 8) for the integral", probit),
         ("Jensen", "the mean of the logarithm for the logarithm of the mean", mean_log)]
SPREAD = [("VarianceAsDeviation", "the variance taken as a deviation", given(v=lambda q: squared(q["v"]))),
          ("VarianceAsDeviation", "the root of the variance taken as the variance", given(v=lambda q: roots(q["v"]))),
          ("FlippedStick", "sigma(-psi) for sigma(psi)", given(m=lambda q: negative(q["m"])))]
BUGS = {
    "stick_log_probs": PSI, "stick_counts": COUNTS, "stick_logits": LOGITS, "log_cosh_half": LOG_COSH,
    "pg_mean": MEAN, "pg_var": VAR, "pg_kl": KL,
    "log_sigmoid_normal": [*((flag, words, formula(one, "log_mean")) for flag, words, one in SHORT), *SPREAD],
    "stick_log_means": [*STICKS, TWICE, ("BoundAsProbability", "a bound, normalised, as a probability", bound_as_mean),
                        *((flag, words, stick_formula(one)) for flag, words, one in SHORT), *SPREAD,
                        ("ColumnMajor", "m and v read column by column", given(m=lambda q: column_major(q["m"]), v=lambda q: column_major(q["v"]))),
                        ("ReversedOrder", "classes in reverse order", then(lambda o, q: {"log_probs": backwards(1)(o["log_probs"])}))],
}
assert stick_means is level0.stick_means                    # walk is looked up there, so that a piece can be exchanged
