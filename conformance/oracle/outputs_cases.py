"""Cases of other outputs, measured numbers and counts: the optional suite of `output`.  Levels 0 and 2 to 6."""

import states as p
from special_cases import case

MAP, GATE = ("W", "W_V", "W_a", "W_b"), ("beta0_mu", "beta0_S", "M", "V", "a", "b")
PULL, SUMS, NB = ({"eq": f"eq-reg-{name}"} for name in ("gaussian-pull", "coin-sums", "counts"))


def headless(s):
    """A plain state without its output."""
    return {name: value for name, value in s.items() if name not in ("y", "beta1_mu", "beta1_S", "xi1", "sigma1")}


def measured(s, seed, columns):
    """The same state with so many measured numbers a row."""
    rng, N, h = p.random.Random(f"cmn-measured-{seed}"), len(s["X"]), len(s["M"][0])
    return {**headless(s), "Y": p.fill((N, columns), lambda: p.grid(rng, -2, 2, 32)), "W": p.fill((columns, h + 1), lambda: p.grid(rng, -1.5, 1.5, 16)),
            "W_V": p.covariance(rng, h + 1, 0.25), "W_a": p.grid(rng, 2, 6, 4), "W_b": p.fill((columns,), lambda: p.grid(rng, 0.5, 3, 8)), "v1": 3, "a1": 1.25, "b1": 0.375}


def counted(s, seed, size=2.5, most=7):
    """The same state with a count for each row."""
    rng, N, K, h = p.random.Random(f"cmn-counted-{seed}"), len(s["X"]), len(s["M"]), len(s["M"][0])
    return {**headless(s), "counts": [rng.randint(0, most) for _ in range(N)], "size": size, "C_mu": p.fill((h + 1,), lambda: p.grid(rng, -1.5, 1.5, 16)),
            "C_S": p.covariance(rng, h + 1, 0.25), "xi": p.fill((N, K), lambda: p.grid(rng, 0.25, 3, 16)), "sigma1": s["sigma1"]}


def asked(op, id, note, flags, s, how=None, **more):
    """A case about a state."""
    output = "gaussian" if "W" in s else "counts"
    return case(f"out_{op}", f"{output}_{id}", note, flags, profile={"output": output}, options=(), how=how, **s, **more)


def told(op, id, note, flags, s, *names, how=None, **more):
    """A case about a few arrays."""
    own = (*MAP, *(("Y",) if op != "moments" else ())) if "W" in s else ("C_mu", "C_S", "counts", "size")
    return asked(op, id, note, flags, {name: s[name] for name in (*names, *own)}, how, **more)


def rowless(s):
    return p.change(s, **{name: [] for name in ("X", "Y", "counts", "gamma", "mu", "Sigma", "xi", "xi0") if name in s})


def unmapped(s):
    """The same with a map of 0, to which residuals about an old map add nothing."""
    return p.change(s, W=p.constant(s["W"], 0))


def at_prior(s):
    """The output at its prior."""
    D = len(s["M"][0]) + 1
    unit = lambda v: [[v * (i == j) for j in range(D)] for i in range(D)]
    if "W" in s:
        return p.change(s, W=p.constant(s["W"], 0), W_V=unit(s["v1"]), W_a=s["a1"], W_b=p.constant(s["W_b"], s["b1"]))
    return p.change(s, C_mu=[0] * D, C_S=unit(s["sigma1"] ** 2))


def known(s, noise):
    """A map that is known, and so is its noise."""
    return p.change(s, W_V=p.constant(s["W_V"], 0), W_a=2 ** 40, W_b=[2 ** 40 * noise] * len(s["W_b"]))


PAIR, TINY = p.state("out-pair", N=4, K=2, h=2, L=2, d=1), p.state("out-tiny", N=4, K=2, h=1, L=2, d=1, priors=p.PAPER)
GENERAL, SMALL, SINGLE = measured(p.GENERAL, "general", 2), measured(p.SMALL, "small", 1), measured(p.SINGLE, "single", 3)
CANARY, WIDE, LINE = measured(p.CANARY, "canary", 9), measured(p.WIDE, "wide", 1), measured(TINY, "line", 1)
TWO, ONE = measured(PAIR, "two", 3), measured(p.state("out-one", N=5, K=1, h=1, L=2, d=1), "one", 1)
EMPTY = measured(p.EMPTY, "empty", 2)
C_GENERAL, C_SMALL, C_SINGLE, C_CANARY = counted(p.GENERAL, "general"), counted(p.SMALL, "small", 1), counted(p.SINGLE, "single", 4), counted(p.CANARY, "canary", 0.75, 20)
C_LINE, C_TWO, C_EMPTY, C_ONE = counted(TINY, "line"), counted(PAIR, "two"), counted(p.EMPTY, "empty"), counted(p.state("out-c-one", N=5, K=1, h=1, L=2, d=1), "one")
ZEROS = p.change(C_SMALL, counts=[0] * 5)
LARGE = p.change(C_SMALL, counts=[2 ** 20, 1000, 65536, 12345, 7], size=0.5)
STEEP = p.change(C_SMALL, C_mu=[512, -512, 512], xi=p.constant(C_SMALL["xi"], 1024))
FLAT = p.change(C_SMALL, xi=p.constant(C_SMALL["xi"], 0))
SURE = p.change(measured(p.GENERAL, "sure", 4), W_a=2 ** 20, W_b=[2, 1, 1.5, 1])     # noise of a thousandth
FAR = p.change(SMALL, Y=[[1024 + v for v in row] for row in SMALL["Y"]], W=[[*SMALL["W"][0][:-1], 1024]])


def special():
    """Level 0."""
    c = lambda id, note, flags, **ins: case("out_student", id, note, flags, profile={"output": "gaussian"}, options=(), **ins)
    yield c("moderate", "Degrees of freedom of a few rows.", "TailsCut DroppedConstant", r=[0.5, -1.25, 2], scale=[1, 0.75, 2], dof=[3, 4.5, 12])
    yield c("tails", "Far out it falls like a power.", "TailsCut", r=[100, -4096, 2 ** 20], scale=[1, 0.5, 2], dof=[2, 3, 5])
    yield c("cauchy", "One degree of freedom, and less.", "TailsCut", r=[0, 1, -3], scale=[1, 1, 0.25], dof=[1, 1, 0.5])
    yield c("huge_dof", "Two million million degrees: the normal, by a difference of two lnGamma of 1e13 that keeps no digit.", "TailsCut LargeOffset",
            r=[0.5, -3, 0], scale=[1, 0.5, 0.0001220703125], dof=[2 ** 41, 2 ** 30, 2 ** 41])
    yield c("at_the_middle", "r = 0.", "DroppedConstant", r=[0, 0], scale=[1, 8], dof=[4, 40])


def updates():
    """Level 2."""
    c = lambda *a, **k: asked("pull", *a, **k)
    yield c("general", "Two columns: each adds its map's square, weighted by its precision, and W_V.", "OutputMap OutputNoise CrossTerm", GENERAL, PULL)
    yield c("all_sizes_different", "N, K, h, p = 8, 6, 3, 9.", "ColumnMajor OutputMap", CANARY, PULL)
    yield c("one_dimension", "h = 1, p = 1.", "OutputMap OutputNoise CrossTerm", LINE, PULL)
    yield c("known", "A known map: no spread.", "OutputNoise", known(TWO, 0.25), PULL)
    yield c("tiny_noise", "Noise of a thousandth.", "OutputNoise CrossTerm", SURE, PULL)
    yield c("general", "omega = (y + r) theta(xi), kappa = (y - r)/2.", "CountTosses CrossTerm SecondMoment", C_GENERAL)
    yield c("zeros", "Nothing was counted: the coin is tossed r times.", "CountTosses", ZEROS)
    yield c("large", "Counts up to a million.", "CountTosses CrossTerm", LARGE)
    yield c("zero_tilts", "Tilts 0: (y + r)/4.", "ZeroTilt CountTosses", FLAT)

    c = lambda *a, **k: asked("x", *a, **k)
    yield c("general", "Gate and experts meet the output here only.", "OutputMap OutputNoise CrossTerm RateScale", GENERAL)
    yield c("all_sizes_different", "N, K, h, p = 8, 6, 3, 9.", "ColumnMajor OutputMap", CANARY)
    yield c("one_expert", "K = 1.", "SingleExpert OutputMap", SINGLE)
    yield c("wide", "h = 4 > p.", "LatentDimension OutputMap", WIDE)
    yield c("known", "A known map: Bayesian linear regression backwards.", "OutputNoise RateScale", known(TWO, 0.25))
    yield c("tiny_noise", "Noise of a thousandth: x1 hangs on y.", "OutputNoise", SURE)
    yield c("no_rows", "No row, no Gaussian.", "EmptyExpert", rowless(SMALL))
    yield c("general", "One coin, tossed y + r times.", "CountTosses CrossTerm SecondMoment", C_GENERAL)
    yield c("all_sizes_different", "N, K, h = 8, 6, 3.", "ColumnMajor CountTosses", C_CANARY)
    yield c("large", "Counts up to a million.", "CountTosses", LARGE)
    yield c("steep", "Logits of +-1000: finite.", "HugeTilt CountTosses", STEEP, {"safety": 128})

    c = lambda *a, **k: asked("tilt", *a, **k)
    yield c("general", "The logit's second moment, its spread in x1 and in beta_1.", "SecondMoment", C_GENERAL)
    yield c("one_expert", "K = 1.", "SingleExpert SecondMoment", C_SINGLE)

    c = lambda *a, **k: asked("z", *a, **k)
    yield c("general", "Every expert has its own distance to y.", "OutputMap OutputNoise MissingEntropy LatentSpread", GENERAL)
    yield c("one_dimension", "h = 1, p = 1.", "OutputNoise MissingEntropy", LINE)
    yield c("one_expert", "K = 1: certain.", "SingleExpert", SINGLE)
    yield c("general", "The constant of the negative binomial is the same for all experts.", "CountTosses MissingEntropy MissingTiltKL", C_GENERAL)
    yield c("steep", "Logits of +-1000: finite.", "HugeTilt ExtremeLogit", STEEP, {"safety": 128})

    c = lambda *a, **k: asked("output", *a, **k)
    yield c("general", "A regression on random inputs.", "LatentSpread OutputPrior PriorMissing Unweighted", GENERAL)
    yield c("all_sizes_different", "h, p = 3, 9.", "ColumnMajor LatentSpread", CANARY)
    yield c("one_dimension", "h = 1, p = 1.", "LatentSpread OutputPrior", LINE)
    yield c("one_expert", "K = 1: every weight is 1.", "SingleExpert LatentSpread", SINGLE)
    yield c("empty_expert", "An expert without rows says nothing.", "EmptyExpert Unweighted LatentSpread", EMPTY)
    yield c("no_rows", "No row: the prior, from a map of 0.", "OutputPrior PriorMissing", unmapped(rowless(GENERAL)))
    yield c("far", "Numbers around 1024 and a prior that does not pull: b is a sum of residuals, not a difference of large sums.", "LargeOffset", p.change(FAR, v1=2 ** 20))
    yield c("latents_known", "No spread of x1: Bayesian linear regression on it, in closed form.", "OutputPrior Unweighted", p.change(LINE, Sigma=p.constant(LINE["Sigma"], 2 ** -60)))
    yield c("general", "A logistic regression with (y + r) theta for weights.", "CountTosses SecondMoment OutputPrior PriorMissing Unweighted", C_GENERAL, SUMS)
    yield c("one_dimension", "h = 1.", "CountTosses PriorMissing", C_LINE, SUMS)
    yield c("empty_expert", "An expert without rows says nothing.", "EmptyExpert Unweighted", C_EMPTY, SUMS)
    yield c("no_rows", "No row: the prior.", "PriorMissing VarianceAsDeviation", rowless(C_SMALL), SUMS)
    yield c("large", "Counts up to a million.", "CountTosses", LARGE, SUMS)


def bound():
    """Level 3."""
    c = lambda *a, **k: asked("elbo_output", *a, **k)
    yield c("general", "Averaged over map, noise and x1.", "OutputMap OutputNoise LatentSpread DroppedConstant Unweighted", GENERAL)
    yield c("all_sizes_different", "N, K, h, p = 8, 6, 3, 9.", "ColumnMajor WrongDimension OutputMap", CANARY)
    yield c("one_dimension", "h = 1, p = 1.", "OutputNoise DroppedConstant", LINE)
    yield c("known", "A known map: ln 2 pi, a precision and squares.", "LatentSpread DroppedConstant", known(TWO, 0.25))
    yield c("far", "Numbers around 1024, near the map.", "LargeOffset", FAR)
    yield c("general", "At the tilts of the state, with the constant of the negative binomial.", "CountTosses MissingTiltKL DroppedConstant Unweighted", C_GENERAL, NB)
    yield c("zeros", "Nothing was counted.", "CountTosses MissingTiltKL", ZEROS, NB)
    yield c("large", "Counts up to a million: lnGamma of large numbers.", "CountTosses", LARGE, NB)
    yield c("zero_tilts", "Tilts 0.", "ZeroTilt DroppedConstant", FLAT, NB)

    c = lambda *a, **k: asked("kl", *a, **k)
    yield c("general", "Of B and rho together.", "OutputPrior DroppedConstant CovarianceAsPrecision", GENERAL)
    yield c("all_sizes_different", "h, p = 3, 9: one divergence of V, times p.", "WrongDimension DroppedConstant", CANARY)
    yield c("prior", "0 at the prior.", "DroppedConstant OutputPrior", at_prior(SMALL))
    yield c("general", "Of one coin: sigma1, not sigma0.", "OutputPrior DroppedConstant VarianceAsDeviation", C_GENERAL)
    yield c("prior", "0 at the prior.", "DroppedConstant OutputPrior", at_prior(C_GENERAL))

    c = lambda *a, **k: asked("elbo", *a, **k)
    yield c("general", "Eight terms.", "OutputPrior OutputNoise DroppedConstant MissingEntropy", GENERAL)
    yield c("one_expert", "K = 1: no gate.", "SingleExpert OutputPrior", SINGLE)
    yield c("empty_expert", "0 ln 0 for the rows of one expert.", "EmptyExpert OneHot OutputPrior", EMPTY)
    yield c("no_rows", "No row: minus three divergences.", "OutputPrior DroppedConstant", rowless(GENERAL))
    yield c("general", "Eight terms.", "OutputPrior CountTosses MissingTiltKL DroppedConstant", C_GENERAL)
    yield c("no_rows", "No row: minus three divergences.", "OutputPrior", rowless(C_SMALL))
    yield c("steep", "Logits of +-1000: finite.", "HugeTilt ExtremeLogit", STEEP)


def trajectories():
    """Level 4."""
    c = lambda id, note, flags, s, n: asked("sweeps", id, note, f"UpdateOrder {flags}", s, n_sweeps=n)
    yield c("1", "Two latents, three columns.", "OutputMap OutputNoise LatentSpread", TWO, 1)
    yield c("2", "h = 1, p = 1.", "OutputMap OutputPrior", LINE, 2)
    yield c("one_expert", "K = 1, h = 1: a regression through a latent.", "SingleExpert LatentSpread", ONE, 2)
    yield c("sure", "A map that is nearly known, and its noise: x1 hangs on y.", "OutputNoise OutputPrior", p.change(TWO, W_a=2 ** 20, W_b=[2 ** 18, 2 ** 17, 2 ** 19]), 1)
    yield c("1", "Two latents: tilts after x, the coin after z.", "CountTosses SecondMoment", C_TWO, 1)
    yield c("2", "h = 1.", "CountTosses OutputPrior", C_LINE, 2)
    yield c("first_sweep", "Tilts 0, as a fit begins.", "ZeroTilt CountTosses", p.change(C_LINE, xi=p.constant(C_LINE["xi"], 0)), 1)


def fixed_points():
    """Level 5."""
    c = lambda id, note, flags, s: asked("stationarity", id, note, f"UpdateOrder {flags}", s)
    yield c("general", "Far from a fixed point: the map moves as well.", "OutputMap", TWO)
    yield c("general", "Far from a fixed point: the coin moves as well.", "CountTosses", C_TWO)
    c = lambda *a: asked("converge", *a)
    yield c("one_expert", "K = 1, h = 1, p = 1.", "LatentSpread OutputPrior", ONE)
    yield c("one_expert", "K = 1, h = 1.", "CountTosses OutputPrior", C_ONE)


def forecasts():
    """Level 6."""
    c = lambda id, note, flags, s, x1, **k: told("given_latent", id, note, flags, s, x1=x1, **k)
    yield c("general", "Student t of each column, wider where x1 is far out.", "TailsCut OutputMap", p.change(TWO, Y=TWO["Y"][:2]), [[0.5, -1], [6, 4]])
    yield c("one_dimension", "h = 1, p = 1.", "TailsCut OutputNoise", p.change(LINE, Y=[[0.5], [-8]]), [[0.25], [-1.5]])
    yield c("known", "A known map: a normal.", "OutputNoise", known(p.change(LINE, Y=[[0.5], [-2]]), 0.25), [[0.25], [-1.5]])
    yield c("general", "The logit's spread is integrated out.", "CountTosses PlugIn", p.change(C_TWO, counts=[0, 5]), [[0.5, -1], [1.5, 0.25]])
    yield c("large", "A count of 200 where a few are expected.", "CountTosses PlugIn", p.change(C_LINE, counts=[200]), [[0.5]])

    c = lambda id, note, flags, s: told("moments", id, note, flags, {name: value for name, value in s.items() if name != "Y"}, "X", *GATE)
    yield c("general", "Within the experts, and between their means.", "NoiseForgotten OutputMap OutputNoise RateScale", TWO)
    yield c("one_expert", "K = 1: nothing between.", "SingleExpert NoiseForgotten", SINGLE)
    yield c("far_away", "An input at 8, where no row was.", "NoiseForgotten PlugIn", p.change(LINE, X=[[8]]))

    c = lambda id, note, flags, s: told("density", id, note, flags, s, "X", *GATE)
    yield c("one_expert", "K = 1, h = 1, p = 1: a Student t of a Student t.", "TailsCut NoiseForgotten OutputMap", p.change(ONE, X=[[0.5], [-2]], Y=[[0.25], [3]]))
    yield c("two_experts", "K = 2, h = 1, p = 2.", "TailsCut NoiseForgotten PlugIn", p.change(measured(TINY, "pair", 2), X=[[0.5], [4]], Y=[[0.25, -1], [3, 8]]))
    yield c("one_expert", "K = 1, h = 1.", "CountTosses NoiseForgotten", p.change(C_ONE, X=[[0.5]], counts=[3], a=[16]))
    yield c("two_experts", "K = 2, h = 1: nothing was counted.", "CountTosses PlugIn NoiseForgotten", p.change(C_LINE, X=[[0.5]], counts=[0], a=[12, 20]))
