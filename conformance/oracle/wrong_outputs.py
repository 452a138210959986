"""Wrong formulas of other outputs: the loops of outputs.py with a piece exchanged."""

import network
import outputs
from measure import each
from mpmath import mp, mpf
from wrong import column_major, given, reciprocal, then, using

MINE = ("OutputMap", "OutputNoise", "LatentSpread", "CountTosses", "OutputPrior", "TailsCut")
right_tosses, right_student, right_padded = outputs.tosses, outputs.log_student, outputs.padded_second_moment
nothing = lambda value: each(value, lambda v: 0 * v)
one = lambda value: each(value, lambda v: 0 * v + 1)


def pieced(**new):
    return using(outputs, **new)


def tossed(change):
    """Counts with other tosses: change(b, kappa, constant, y, size)."""
    return pieced(tosses=lambda y, size: change(*right_tosses(y, size), y, size))


COUNTS = [
    ("CountTosses", "the coin tossed r times, whatever was counted", tossed(lambda b, kappa, c, y, r: (r, kappa, c))),
    ("CountTosses", "the coin tossed y times", tossed(lambda b, kappa, c, y, r: (y, kappa, c))),
    ("CountTosses", "y + 1 tosses, as of a geometric law", tossed(lambda b, kappa, c, y, r: (y + 1, kappa, c))),
    ("CountTosses", "kappa = y - r, without the half", tossed(lambda b, kappa, c, y, r: (b, 2 * kappa, c))),
    ("CountTosses", "kappa = (r - y)/2: successes and failures exchanged", tossed(lambda b, kappa, c, y, r: (b, -kappa, c))),
    ("CountTosses", "kappa = y - 1/2, as of one toss", tossed(lambda b, kappa, c, y, r: (b, y - mpf(1) / 2, c))),
]
CONSTANT = [
    ("CountTosses", "ln y! left out", tossed(lambda b, kappa, c, y, r: (b, kappa, c + outputs.log_gamma(y + 1)))),
    ("CountTosses", "the constant of the negative binomial left out", tossed(lambda b, kappa, c, y, r: (b, kappa, 0 * c))),
    ("CountTosses", "lnGamma(r) left out", tossed(lambda b, kappa, c, y, r: (b, kappa, c + outputs.log_gamma(r)))),
]
COIN = [
    ("SecondMoment", "the coefficients' covariance left out of E[beta beta^T]", pieced(second_moment=lambda m, S: [[a * b for b in m] for a in m])),
    ("SecondMoment", "the covariance of x1 left out", pieced(padded_second_moment=lambda mu, S: right_padded(mu, nothing(S)))),
]
MAP = [
    ("OutputMap", "the map at its mean: its covariance left out", given(W_V=lambda q: nothing(q["W_V"]))),
    ("OutputMap", "the covariance of the map once, not for each column", given(W_V=lambda q: each(q["W_V"], lambda v: v / len(q["W"]) + (v if len(q["W"]) == 1 else 0)))),
    ("OutputMap", "the covariance of the map divided by the precision", given(W_V=lambda q: each(q["W_V"], lambda v: v * q["W_b"][0] / q["W_a"]))),
    ("OutputMap", "the covariance of the map times the precision", given(W_V=lambda q: each(q["W_V"], lambda v: v * q["W_a"] / q["W_b"][0]))),
]
NOISE = [
    ("OutputNoise", "precision 1: the noise of the output left out", given(W_b=lambda q: [q["W_a"]] * len(q["W_b"]))),
    ("OutputNoise", "b read as a scale: E[rho] = a b", given(W_b=lambda q: reciprocal(q["W_b"]))),
    ("OutputNoise", "E[rho] = 1/b: the shape is left out", given(W_a=lambda q: 0 * q["W_a"] + 1)),
    ("OutputNoise", "the noise of the first column for all", given(W_b=lambda q: [q["W_b"][0]] * len(q["W_b"]))),
]


def crossed(change):
    """Another linear term: change(P, eta, s, n, k)."""
    right = outputs.pull
    return pieced(pull=lambda s, n, k: change(*right(s, n, k), s, n, k))


def corner(s, n, k):
    """What the bias takes from the linear term: second moments of weights and bias."""
    h = len(s["M"][0])
    if "W" in s:
        return [sum(s["W_a"] / rate * w[i] * w[h] + s["W_V"][i][h] for w, rate in zip(s["W"], s["W_b"], strict=True)) for i in range(h)]
    b, _, _ = outputs.tosses(s["counts"][n], s["size"])
    return [b * outputs.theta(s["xi"][n][k]) * (s["C_S"][i][h] + s["C_mu"][i] * s["C_mu"][h]) for i in range(h)]


CORNER = [
    ("CrossTerm", "the cross term of weights and bias left out", crossed(lambda P, eta, s, n, k: (P, [a + b for a, b in zip(eta, corner(s, n, k))]))),
    ("CrossTerm", "the cross term with the wrong sign", crossed(lambda P, eta, s, n, k: (P, [a + 2 * b for a, b in zip(eta, corner(s, n, k))]))),
]
DENSE = [("ColumnMajor", "M read column by column", given(M=lambda q: column_major(q["M"]))),
         ("ColumnMajor", "Y read column by column", given(Y=lambda q: column_major(q["Y"]))), ("ColumnMajor", "the tilts read column by column", given(xi=lambda q: column_major(q["xi"])))]
PLAIN = [("RateScale", "b of the experts read as a scale", given(b=lambda q: reciprocal(q["b"]))),
         ("UncentredKappa", "kappa = y", tossed(lambda b, kappa, c, y, r: (b, y, c)))]
PULLS = [*MAP, *NOISE, *COUNTS, *COIN[:1], *CORNER, *DENSE[1:]]
X = [*PULLS, *PLAIN, DENSE[0], ("SingleExpert", "the output's pull halved", crossed(lambda P, eta, s, n, k: (each(P, lambda v: v / 2), [v / 2 for v in eta])))]
SPREAD = [("LatentSpread", "the covariance of x1 left out of the squares", pieced(quadratic=lambda A, v: mpf(0)))]
RANDOM = ("LatentSpread", "the covariance of x1 left out of E[x1 x1^T]", pieced(padded_second_moment=lambda mu, S: right_padded(mu, nothing(S))))
ROWS = [
    ("OutputNoise", "ln E[rho] for E[ln rho]", pieced(digamma=lambda a: mp.log(a))),
    ("DroppedConstant", "ln 2 pi is missing", pieced(LOG2PI=lambda: mpf(0))),
    ("DroppedConstant", "ln 2 is missing", pieced(LOG2=lambda: mpf(0))),
    ("MissingTiltKL", "the divergence of omega left out", pieced(tilt_kl=lambda c: mpf(0))),
]
BOUND = [*MAP, *NOISE, *SPREAD, RANDOM, *ROWS, *COUNTS, *CONSTANT, *COIN, *DENSE[1:]]
UNWEIGHTED = [("Unweighted", "the rows' experts count alike", given(gamma=lambda q: one(q["gamma"])))]
SURE = ("MissingEntropy", "the entropy of q(x1 | z) left out", using(network, gaussian_entropy=lambda S: mpf(0)))
Z = [*BOUND, SURE]
TILT = [*COIN, ("SecondMoment", "the square of the mean logit", then(lambda o, q: {"xi": [[abs(network.dot(q["C_mu"], network.pad(mu))) for mu in row] for row in q["mu"]]})),
        ("HalfAngle", "the second moment itself: no root", then(lambda o, q: {"xi": each(o["xi"], lambda v: v * v)}))]
PRIOR = [
    ("OutputPrior", "the experts' prior variance for the output's", given(v1=lambda q: q["v0"])),
    ("OutputPrior", "the experts' prior of the noise", given(a1=lambda q: q["a0"], b1=lambda q: q["b0"])),
    ("OutputPrior", "the gate's prior deviation for the coin's", given(sigma1=lambda q: q["sigma0"])),
    ("PriorMissing", "no prior precision", given(**{name: (lambda name: lambda q: q[name] * mpf(10) ** 30)(name) for name in ("v1",)})),
    ("PriorMissing", "no prior precision of the coin", given(sigma1=lambda q: q["sigma1"] * mpf(10) ** 15)),
    ("VarianceAsDeviation", "sigma1 read as a variance", given(sigma1=lambda q: mp.sqrt(q["sigma1"]))),
]
STEP = [RANDOM, *SPREAD, *PRIOR, *COUNTS, *DENSE[1:],
        ("SecondMoment", "the covariance of x1 left out", COIN[1][2]),
        ("LatentSpread", "the squares about the old map", pieced(misfit=lambda s, j, w: right_misfit(s, j, s["W"][j]))),
        ("LatentSpread", "the squares left out", pieced(misfit=lambda s, j, w: mpf(0))),
        *UNWEIGHTED, ("Unweighted", "responsibilities squared", given(gamma=lambda q: each(q["gamma"], lambda g: g * g)))]
right_misfit = outputs.misfit
KL = [*PRIOR[:3], PRIOR[5],
      ("CovarianceAsPrecision", "W_V read as a precision", given(W_V=lambda q: outputs.inverse(q["W_V"]))),
      ("CovarianceAsPrecision", "v1 read as a precision", given(v1=lambda q: 1 / q["v1"])),
      ("DroppedConstant", "the divergence with the wrong sign", then(lambda o, q: {"value": -o["value"]})),
      ("DroppedConstant", "D is missing", then(lambda o, q: {"value": o["value"] + mpf(len(q["M"][0]) + 1) / 2})),
      ("OutputPrior", "the divergence of the noise left out", pieced(mng_kl=lambda *q: right_mng(*q) - sum(network.gamma_kl(q[2], rate, q[5], q[6]) for rate in q[3]))),
      ("WrongDimension", "the divergence of V once, not for each column", pieced(mng_kl=lambda M, V, *q: right_mng(M, V, *q) * (2 - mpf(1)) - (len(M) - 1) * spread_of(V, q[2])))]
right_mng = outputs.mng_kl


def spread_of(V, v0):
    return (network.trace(V) / v0 - len(V) + len(V) * mp.log(v0) - network.log_det(V)) / 2


LEFT = [("OutputPrior", "the divergence of the output left out of the bound", then(lambda o, q: {"value": o["value"] + outputs.divergence(q)})),
        ("OutputPrior", "the divergence of the output added", then(lambda o, q: {"value": o["value"] + 2 * outputs.divergence(q)}))]
ELBO = [*LEFT, *PRIOR[:3], *BOUND, SURE]


def ordered(*names):
    return pieced(ORDER=list(names))


ORDER = [
    ("UpdateOrder", "the output before z", ordered("x", "tilt", "omega0", "output", "z", "beta0", "experts")),
    ("UpdateOrder", "the tilt before x", ordered("tilt", "x", "omega0", "z", "output", "beta0", "experts")),
    ("UpdateOrder", "the output is never updated", ordered("x", "tilt", "omega0", "z", "beta0", "experts")),
    ("UpdateOrder", "the M-step first", ordered("output", "beta0", "experts", "x", "tilt", "omega0", "z")),
]
SWEEPS = [*ORDER, *MAP[:0], RANDOM, *SPREAD, *PRIOR, *COUNTS, *COIN, *CORNER[:1], SURE,
          ("OutputMap", "the covariance of the map left out of the pull", crossed(lambda P, eta, s, n, k: unspread(P, eta, s))),
          ("OutputNoise", "precision 1 in the pull", crossed(lambda P, eta, s, n, k: outputs_pull({**s, "W_b": [s["W_a"]] * len(s["W_b"])}, n, k) if "W" in s else (P, eta)))]
outputs_pull = outputs.pull
LATE = [("UpdateOrder", "the bound before the sweep", then(lambda o, q: {"elbo": [outputs.elbo({name: v for name, v in q.items() if name != "n_sweeps"})]}))]


def unspread(P, eta, s):
    """The pull without W_V."""
    if "W" not in s:
        return P, eta
    m, h = len(s["W"]), len(P)
    return [[P[i][j] - m * s["W_V"][i][j] for j in range(h)] for i in range(h)], [eta[i] + m * s["W_V"][i][h] for i in range(h)]


TAILS = [
    ("TailsCut", "a normal of the mean precision", pieced(log_student=lambda r, scale, dof: -mp.log(2 * mp.pi) / 2 - mp.log(scale) - (r / scale) ** 2 / 2)),
    ("TailsCut", "half as many degrees of freedom: a, not 2 a", pieced(log_student=lambda r, scale, dof: right_student(r, scale, dof / 2))),
    ("TailsCut", "the variance for the scale", pieced(log_student=lambda r, scale, dof: right_student(r, scale ** 2, dof))),
]
STUDENT = [
    ("TailsCut", "a normal", lambda right, r, scale, dof: {"value": [-mp.log(2 * mp.pi) / 2 - mp.log(s) - (x / s) ** 2 / 2 for x, s in zip(r, scale)]}),
    ("TailsCut", "nu/2 for (nu + 1)/2 in the tail", lambda right, r, scale, dof: {"value": [right_student(x, s, v) + mp.log(1 + (x / s) ** 2 / v) / 2 for x, s, v in zip(r, scale, dof)]}),
    ("TailsCut", "the scale read as a variance", given(scale=lambda q: [mp.sqrt(s) for s in q["scale"]])),
    ("TailsCut", "the standard deviation given for the scale", given(scale=lambda q: [s * mp.sqrt((v - 2) / v) if v > 2 else s * 2 for s, v in zip(q["scale"], q["dof"])])),
    ("TailsCut", "one degree of freedom fewer", given(dof=lambda q: [v - 1 if v > 1 else v / 2 for v in q["dof"]])),
    ("DroppedConstant", "ln pi is missing", then(lambda o, q: {"value": [v + mp.log(mp.pi) / 2 for v in o["value"]]})),
    ("DroppedConstant", "ln s is missing", then(lambda o, q: {"value": [v + mp.log(s) for v, s in zip(o["value"], q["scale"])]})),
]
AT_X = [*TAILS, MAP[0], *NOISE, *CONSTANT, ("PlugIn", "the coefficients at their mean", given(C_S=lambda q: nothing(q["C_S"]))),
        ("CountTosses", "r trials in all, not r failures", pieced(at_latent=lambda s, y, x, z=None: right_at({**s, "size": s["size"] + 1}, y, x, z)))]
right_at = outputs.at_latent
MOMENTS = [
    *MAP[:1], *NOISE[:2],
    ("OutputNoise", "b/a for b/(a - 1): the mean precision inverted", given(W_b=lambda q: [b * (q["W_a"] - 1) / q["W_a"] for b in q["W_b"]])),
    ("NoiseForgotten", "the experts' noise left out", given(b=lambda q: nothing(q["b"]))),
    ("NoiseForgotten", "the uncertainty of A left out", given(V=lambda q: nothing(q["V"]))),
    ("NoiseForgotten", "b/a for b/(a - 1) of the experts", given(b=lambda q: [[v * (a - 1) / a for v in row] for a, row in zip(q["a"], q["b"])])),
    ("RateScale", "b of the experts read as a scale", given(b=lambda q: reciprocal(q["b"]))),
    ("PlugIn", "the gate at its means", lambda right, **q: outputs.moments_by_means(**q)),
    ("NoiseForgotten", "the spread between the experts left out", lambda right, **q: within(right(**q), q)),
]


def within(outs, q):
    """Without what lies between the experts: each expert's own moments, averaged."""
    parts = [outputs.moments(**{**q, "M": [M], "V": [V], "a": [a], "b": [b], "beta0_mu": [], "beta0_S": []}) for M, V, a, b in zip(q["M"], q["V"], q["a"], q["b"])]
    weights = [[mp.exp(g) for g in outputs.gate(q, x)] for x in q["X"]]
    return {**outs, "var": [[sum(w * part["var"][n][j] for w, part in zip(row, parts)) for j in range(len(outs["var"][n]))] for n, row in enumerate(weights)]}


DENSITY = [*TAILS, *MAP[:1], *NOISE[:1], *CONSTANT[:1],
           ("NoiseForgotten", "the experts' noise left out", given(b=lambda q: each(q["b"], lambda v: v * mpf(10) ** -12))),
           ("NoiseForgotten", "the uncertainty of A left out", given(V=lambda q: nothing(q["V"]))),
           ("PlugIn", "means in the place of distributions", lambda right, coarse=False, **q: outputs.density_by_means(**q))]
OTHERS = {"out_student": STUDENT, "out_pull": PULLS, "out_x": X, "out_tilt": TILT, "out_z": Z, "out_output": STEP, "out_elbo_output": [*BOUND, *UNWEIGHTED], "out_kl": KL, "out_elbo": ELBO,
          "out_sweeps": [*SWEEPS, *LATE], "out_stationarity": SWEEPS, "out_given_latent": AT_X, "out_moments": MOMENTS, "out_density": DENSITY}
