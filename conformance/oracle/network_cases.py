"""Cases of levels 1 to 5."""

import states as p
from special_cases import case


def spd(seed, m, scale=0.25):
    return p.covariance(p.random.Random(f"cmn-{seed}"), m, scale)


def scaled(s):
    """The same state with scales in place of rates."""
    return p.change(s, b=[[1 / rate for rate in row] for row in s["b"]], b0=1 / s["b0"])


SCALE = {"gamma": "scale"}


def moments():
    tall = [[4, 0.5, -1.25], [0.5, 0.25, 0.0625], [-1.25, 0.0625, 2]]
    for op in ("second_moment", "padded_second_moment"):
        c = lambda *a, op=op, **k: case(op, *a, **k)
        yield c("general", "The covariance counts.", "SecondMoment Padding", mu=[0.5, -1.25, 2], S=spd("m3", 3))
        yield c("one_dimension", "A 1 x 1 matrix.", "SecondMoment", mu=[-0.75], S=[[0.5]])
        yield c("no_spread", "A point mass: the covariance is 0.", "Padding", mu=[1.5, -0.25], S=[[0, 0], [0, 0]])

    c = lambda *a, **k: case("gaussian_entropy", *a, **k)
    yield c("one_dimension", "Half of ln(2 pi e v).", "DroppedConstant WrongDimension", S=[[0.25]])
    yield c("correlated", "The determinant of a full matrix.", "DroppedConstant WrongDimension", S=tall)
    yield c("five", "Five dimensions: the constant goes with m.", "WrongDimension", S=spd("h5", 5))
    yield c("tiny", "Variances of 2^-30.", "DroppedConstant", S=[[2 ** -30, 0, 0], [0, 2 ** -30, 0], [0, 0, 2 ** -30]])

    c = lambda *a, **k: case("gaussian_kl", *a, **k)
    yield c("general", "sigma is a deviation: sigma^2 = 4.", "VarianceAsDeviation CovarianceAsPrecision DroppedConstant",
            mu=[0.5, -1.25, 2], S=tall, sigma=2)
    yield c("equal", "0 where q is the prior.", "DroppedConstant WrongDimension VarianceAsDeviation", mu=[0, 0], S=[[6.25, 0], [0, 6.25]], sigma=2.5)
    yield c("one_dimension", "By hand: (S + mu^2)/sigma^2 - 1 + ln sigma^2 - ln S, halved.", "DroppedConstant WrongDimension", mu=[1.5], S=[[0.5]], sigma=0.5)
    yield c("mean_only", "Only the mean differs.", "VarianceAsDeviation", mu=[3, -4], S=[[25, 0], [0, 25]], sigma=5)
    yield c("five", "Five dimensions.", "WrongDimension", mu=[1, -0.5, 0.25, -2, 0], S=spd("k5", 5), sigma=1.5)
    yield c("wide", "sigma = 512: the logarithm of the prior's volume counts.", "DroppedConstant WrongDimension",
            mu=[0.5, 1, -1], S=spd("k3", 3), sigma=512)

    c = lambda *a, **k: case("gamma_mean_log", *a, **k)
    yield c("general", "digamma(a) - ln b.", "RateScale", a=[2, 3.5, 0.5], b=[1, 0.25, 4])
    yield c("large_shape", "Close to ln(a/b), but below it.", "PlugIn", a=[100, 4096], b=[64, 32])
    yield c("small_shape", "digamma near 0 is -1/a.", "PlugIn", a=[0.0625, 0.00390625], b=[1, 2])
    yield c("scales", "The same Gammas by scale.", "RateScale", profile=SCALE, a=[2, 3.5, 0.5], b=[1, 4, 0.25])

    c = lambda *a, **k: case("gamma_kl", *a, **k)
    yield c("general", "Rates.", "RateScale DroppedConstant", a=[4.5, 2, 3], b=[2.5, 0.75, 6], a0=2, b0=1)
    yield c("equal", "0 where q is the prior.", "DroppedConstant", a=[1.5, 1.5], b=[0.75, 0.75], a0=1.5, b0=0.75)
    yield c("shape_only", "Only the shape differs.", "DroppedConstant", a=[8, 0.5], b=[2, 2], a0=2, b0=2)
    yield c("rate_only", "Only the rate differs: the sign of the logarithm shows.", "RateScale", a=[2, 2], b=[8, 0.125], a0=2, b0=1)
    yield c("large_shape", "Shapes as after a thousand rows.", "DroppedConstant", a=[512.5], b=[300], a0=2, b0=1)
    yield c("scales", "The same as general, by scale.", "RateScale", profile=SCALE, a=[4.5, 2, 3], b=[0.4, 4 / 3, 1 / 6], a0=2, b0=1)

    c = lambda id, note, flags, s, **k: case("mng_kl", id, note, flags, **{n: s[n] for n in ("M", "V", "a", "b", "v0", "a0", "b0")}, **k)
    yield c("general", "h = 3, D = 3.", "CovarianceAsPrecision RateScale DroppedConstant", p.GENERAL)
    yield c("all_sizes_different", "K = 6, h = 3, D = 7: h rows of D entries.", "WrongDimension ColumnMajor", p.CANARY)
    prior = p.change(p.SMALL, M=p.constant(p.SMALL["M"], 0), V=[[[10 if i == j else 0 for j in range(3)] for i in range(3)]] * 3,
                     a=[2] * 3, b=p.constant(p.SMALL["b"], 1))
    yield c("prior", "0 at the prior.", "DroppedConstant WrongDimension CovarianceAsPrecision", prior)
    yield c("mean_only", "Only M differs: its square is weighted by E[tau] = a/b.", "RateScale CovarianceAsPrecision",
            p.change(prior, M=p.SMALL["M"], b=p.constant(p.SMALL["b"], 4), b0=4))
    yield c("one_expert", "K = 1.", "SingleExpert", p.SINGLE)
    yield c("scales", "b and b0 are scales.", "RateScale", scaled(p.SMALL), profile=SCALE)

    c = lambda *a, **k: case("categorical_entropy", *a, **k)
    yield c("soft", "In nats.", "DroppedConstant ColumnMajor", gamma=[[0.5, 0.125, 0.375], [0.0625, 0.6875, 0.25]])
    yield c("one_hot", "Certainty has entropy 0, not NaN.", "OneHot", gamma=[[0, 1, 0], [1, 0, 0]])
    yield c("uniform", "ln K.", "DroppedConstant", gamma=[[0.25] * 4, [0.25] * 4])
    yield c("one_expert", "ln 1.", "SingleExpert", gamma=[[1], [1]])

    c = lambda id, note, flags, s: case("gate_logits", id, note, flags, **{n: s[n] for n in ("X", "beta0_mu", "beta0_S")})
    yield c("general", "The second moment holds the covariance.", "SecondMoment Padding", p.GENERAL)
    yield c("all_sizes_different", "K - 1 = 5, D = 7.", "ColumnMajor Padding", p.CANARY)
    yield c("one_expert", "No stick: shape (N, 0).", "SingleExpert", p.SINGLE)
    yield c("extreme", "Logits around +-1000.", "ExtremeLogit", p.EXTREME)
    c = lambda id, note, flags, s: case("output_logits", id, note, flags, **{n: s[n] for n in ("mu", "Sigma", "beta1_mu", "beta1_S")})
    yield c("general", "Four terms: both means, and both covariances.", "SecondMoment CrossTerm", p.GENERAL)
    yield c("all_sizes_different", "N, K, h, J = 8, 6, 3, 2.", "ColumnMajor LatentDimension Padding", p.CANARY)
    yield c("narrow", "h = 1 under three sticks.", "LatentDimension", p.NARROW)
    yield c("wide", "h = 4 under one stick.", "LatentDimension", p.WIDE)

    c = lambda *a, **k: case("stick_log_bound", *a, **k)
    five = dict(psi=[[0.5, -1.25], [2, 0.25]], psi2=[[1.5, 2.5], [4.5, 0.75]])
    yield c("stale", "Tilts that are not the best ones.", "StaleTilt DroppedConstant HalfAngle", **five,
            xi=[[2, 0.5], [1, 3]], b=[[1, 1], [1, 0.5]], kappa=[[0.5, -0.5], [-0.5, 0.25]])
    yield c("fresh", "Tilts equal to the root of psi2: kappa psi - ln(2 cosh(xi/2)).", "DroppedConstant",
            psi=[[1, -2]], psi2=[[2.25, 4]], xi=[[1.5, 2]], b=[[1, 1]], kappa=[[0.5, -0.5]])
    yield c("zero_tilt", "theta = 1/4, no divergence.", "ZeroTilt", **five, xi=[[0, 0], [0, 0]], b=[[1, 1], [1, 1]], kappa=[[0.5, -0.5], [-0.5, 0.5]])
    yield c("tilt_1500", "A tilt far from the logit costs half of its size.", "HugeTilt StaleTilt", **five,
            xi=[[1500, 1500], [1500, 1500]], b=[[1, 1], [1, 1]], kappa=[[0.5, -0.5], [-0.5, 0.5]])
    yield c("not_tossed", "b = 0: nothing, whatever the moments and the tilt.", "InactiveStick DroppedConstant", **five,
            xi=[[2, 0], [1, 1500]], b=[[1, 0], [1, 0]], kappa=[[0.5, 0], [-0.5, 0]])


def factors():
    """Level 2."""
    c = lambda op, id, note, flags, s, **k: case(f"update_{op}", id, note, flags, **s, **k)
    yield c("x", "general", "Four classes, h = 3: precision, cross term, pull.", "CrossTerm SecondMoment UncentredKappa", p.GENERAL)
    yield c("x", "all_sizes_different", "The axes are 8 6 5 3 4 2 7: a transposed one does not fit.", "ColumnMajor Padding LatentDimension", p.CANARY)
    yield c("x", "one_expert", "K = 1.", "SingleExpert", p.SINGLE)
    yield c("x", "binary", "h = 1, L = 2.", "UncentredKappa RateScale", p.BINARY)
    yield c("x", "narrow", "h = 1 < L - 1.", "LatentDimension", p.NARROW)
    yield c("x", "wide", "h = 4 > L - 1: directions that no stick sees keep the expert's noise.", "LatentDimension", p.WIDE)
    yield c("x", "shared", "One tilt for all experts.", "SharedTilt", p.SHARED)
    yield c("x", "zero_tilts", "The start of every fit: E[omega] = b/4.", "ZeroTilt", p.ZERO_TILTS)
    yield c("x", "tilts_1500", "E[omega] = 1/3000: hardly any pull from the label.", "HugeTilt", p.TILTS_1500)
    yield c("x", "first_class", "Only the first stick is tossed.", "InactiveStick OffByOneStick", p.FIRST_CLASS)
    yield c("x", "last_class", "Every stick is tossed and passed.", "FlippedStick OffByOneStick", p.LAST_CLASS)
    yield c("x", "scales", "b of the experts by scale.", "RateScale", scaled(p.SMALL), profile=SCALE)
    yield c("x", "paper_priors", "The priors of the paper; the update does not read them.", "PriorMissing RateScale", p.SMALL)

    yield c("omega1", "general", "Root of the second moment, every stick.", "SecondMoment HalfAngle", p.GENERAL)
    yield c("omega1", "all_sizes_different", "The axes are 8 6 5 3 4 2 7.", "ColumnMajor LatentDimension", p.CANARY)
    yield c("omega1", "shared", "Root of the average square, weighted by gamma.", "SharedTilt", p.SHARED)
    yield c("omega1", "shared_one_hot", "All weight on one expert: its own tilt.", "SharedTilt OneHot",
            p.change(p.SHARED, gamma=[p.one_hot(n % 3, 3) for n in range(6)]))
    yield c("omega1", "binary", "h = 1, L = 2.", "SecondMoment", p.BINARY)
    yield c("omega1", "narrow", "h = 1 < L - 1.", "LatentDimension", p.NARROW)
    yield c("omega1", "wide", "h = 4 > L - 1.", "LatentDimension", p.WIDE)
    yield c("omega1", "zero_means", "Means 0 everywhere: only the covariances remain.", "SecondMoment",
            p.change(p.SMALL, mu=p.constant(p.SMALL["mu"], 0), beta1_mu=p.constant(p.SMALL["beta1_mu"], 0)))
    yield c("omega1", "extreme", "Logits of +-1000.", "ExtremeLogit", p.EXTREME)

    yield c("omega0", "general", "Root of the second moment, the same for every expert.", "SecondMoment Padding", p.GENERAL)
    yield c("omega0", "all_sizes_different", "N, K - 1, D = 8, 5, 7.", "ColumnMajor Padding", p.CANARY)
    yield c("omega0", "one_expert", "K = 1: shape (N, 0).", "SingleExpert", p.SINGLE)
    yield c("omega0", "zero_means", "Means 0: only the covariance.", "SecondMoment", p.change(p.SMALL, beta0_mu=p.constant(p.SMALL["beta0_mu"], 0)))
    yield c("omega0", "extreme", "Logits of +-1000.", "ExtremeLogit", p.EXTREME)

    yield c("z", "general", "Nothing is fresh: output, expert, entropy and gate, at the stored tilts.", "MissingEntropy StaleTilt MissingTiltKL", p.GENERAL)
    yield c("z", "all_sizes_different", "The axes are 8 6 5 3 4 2 7.", "ColumnMajor MissingEntropy OffByOneStick", p.CANARY)
    yield c("z", "one_expert", "gamma = 1.", "SingleExpert", p.SINGLE)
    yield c("z", "binary", "K = 2, L = 2, h = 1.", "MissingEntropy StaleTilt", p.BINARY)
    yield c("z", "narrow", "h = 1 < L - 1.", "LatentDimension MissingTiltKL", p.NARROW)
    yield c("z", "wide", "h = 4 > L - 1.", "LatentDimension MissingEntropy", p.WIDE)
    yield c("z", "shared", "The divergence of a shared tilt is the same for all experts, theta psi2/2 is not.", "SharedTilt StaleTilt", p.SHARED)
    yield c("z", "zero_tilts", "Tilts 0: the loosest coin.", "ZeroTilt StaleTilt", p.ZERO_TILTS)
    yield c("z", "tilts_1500", "Tilts of 1500: a gate stick that is tossed costs 375 nats.", "HugeTilt Underflow MissingTiltKL", p.TILTS_1500)
    yield c("z", "first_class", "Two output sticks are not tossed.", "InactiveStick", p.FIRST_CLASS)
    yield c("z", "last_class", "All output sticks are tossed.", "FlippedStick DroppedConstant", p.LAST_CLASS)
    yield c("z", "extreme", "Logits of +-1000: scores hundreds of nats apart.", "Underflow ExtremeLogit", p.EXTREME)
    yield c("z", "different_entropies", "Experts alike but for the width of q(x1).", "MissingEntropy",
            p.change(p.SMALL, M=[p.SMALL["M"][0]] * 3, V=[p.SMALL["V"][0]] * 3, a=[3] * 3, b=[p.SMALL["b"][0]] * 3,
                     mu=[[row[0]] * 3 for row in p.SMALL["mu"]],
                     Sigma=[[[[4.0 ** -k * (i == j) / 4 for j in range(2)] for i in range(2)] for k in range(3)]] * 5))
    yield c("z", "different_spreads", "Experts alike but for V: the penalty is h/2 x~^T V x~.", "CovarianceAsPrecision WrongDimension",
            p.change(p.SMALL, M=[p.SMALL["M"][0]] * 3, a=[3] * 3, b=[p.SMALL["b"][0]] * 3, mu=[[row[0]] * 3 for row in p.SMALL["mu"]],
                     Sigma=[[row[0]] * 3 for row in p.SMALL["Sigma"]]))
    yield c("z", "scales", "b of the experts by scale.", "RateScale", scaled(p.SMALL), profile=SCALE)

    yield c("beta1", "general", "Weighted by gamma and E[omega].", "PriorMissing Unweighted SecondMoment StaleTilt", p.GENERAL)
    yield c("beta1", "all_sizes_different", "The axes are 8 6 5 3 4 2 7.", "ColumnMajor LatentDimension Padding StaleTilt", p.CANARY)
    yield c("beta1", "one_expert", "K = 1: gamma = 1.", "SingleExpert", p.SINGLE)
    yield c("beta1", "binary", "The priors of the paper: sigma1 = 5 is a deviation.", "VarianceAsDeviation PriorMissing", p.BINARY)
    yield c("beta1", "shared", "One tilt for all experts.", "SharedTilt", p.SHARED)
    yield c("beta1", "empty_expert", "An expert without rows adds nothing.", "EmptyExpert Unweighted", p.EMPTY)
    yield c("beta1", "one_hot", "Hard assignments.", "OneHot Unweighted", p.ONE_HOT)
    yield c("beta1", "uniform", "Uniform responsibilities: gamma^2 would count a quarter.", "Unweighted", p.UNIFORM)
    yield c("beta1", "first_class", "Sticks that were never tossed return to the prior.", "InactiveStick PriorMissing", p.FIRST_CLASS)
    yield c("beta1", "last_class", "Every stick tossed by every row.", "UncentredKappa", p.LAST_CLASS)
    yield c("beta1", "zero_tilts", "E[omega] = b/4.", "ZeroTilt", p.ZERO_TILTS)
    yield c("beta1", "narrow", "h = 1 < L - 1.", "LatentDimension", p.NARROW)
    yield c("beta1", "wide", "h = 4 > L - 1.", "LatentDimension VarianceAsDeviation", p.WIDE)

    yield c("beta0", "general", "Soft labels: kappa = gamma_j - P(z >= j)/2.", "SoftCounts PriorMissing OffByOneStick StaleTilt", p.GENERAL)
    yield c("beta0", "all_sizes_different", "K - 1 = 5 sticks over D = 7.", "ColumnMajor SoftCounts Padding StaleTilt", p.CANARY)
    yield c("beta0", "one_expert", "K = 1: nothing to learn, shapes (0, D) and (0, D, D).", "SingleExpert", p.SINGLE)
    yield c("beta0", "binary", "One stick; sigma0 = 5 is a deviation.", "VarianceAsDeviation SoftCounts", p.BINARY)
    yield c("beta0", "one_hot", "Hard assignments.", "OneHot InactiveStick", p.ONE_HOT)
    yield c("beta0", "uniform", "Uniform responsibilities.", "SoftCounts Unweighted", p.UNIFORM)
    yield c("beta0", "empty_expert", "A stick that everyone passes.", "EmptyExpert SoftCounts", p.EMPTY)
    yield c("beta0", "never_reached", "All rows in the first expert: later sticks return to the prior.", "InactiveStick PriorMissing EmptyExpert",
            p.change(p.SMALL, gamma=[[1, 0, 0]] * 5))
    yield c("beta0", "zero_tilts", "E[omega] = b/4.", "ZeroTilt", p.ZERO_TILTS)
    yield c("beta0", "tilts_1500", "E[omega] = b/3000.", "HugeTilt", p.TILTS_1500)

    yield c("experts", "general", "Prior, weights, residuals.", "PriorMissing Unweighted SecondMoment RateScale", p.GENERAL)
    yield c("experts", "all_sizes_different", "K, h, D = 6, 3, 7.", "ColumnMajor WrongDimension Padding", p.CANARY)
    yield c("experts", "one_expert", "K = 1.", "SingleExpert Unweighted", p.SINGLE)
    yield c("experts", "binary", "h = 1; V_0 = 10 I is a variance.", "CovarianceAsPrecision PriorMissing", p.BINARY)
    yield c("experts", "empty_expert", "No rows: V = v0 I, M = 0, a0, b0.", "EmptyExpert CovarianceAsPrecision", p.EMPTY)
    yield c("experts", "one_hot", "Hard assignments: some experts have a single row.", "OneHot Unweighted", p.ONE_HOT)
    yield c("experts", "uniform", "gamma = 1/4 everywhere: squares would be 1/16.", "Unweighted", p.UNIFORM)
    yield c("experts", "few_rows", "Fewer rows than inputs: only the prior makes it regular.", "PriorMissing", p.FEW_ROWS)
    yield c("experts", "wide", "h = 4: a grows by N_k/2, not by N_k h/2.", "WrongDimension", p.WIDE)
    yield c("experts", "offset", "Inputs near 64, latent means near 256: b is what is left of two sums a million times larger.", "LargeOffset", p.OFFSET)
    yield c("experts", "offset_float32", "Latent means near 512: in float32 the difference of the sums has no digit left, the residuals have.", "LargeOffset", p.OFFSET_FLOAT32)
    yield c("experts", "offset_far", "Inputs and latent means near 4096.", "LargeOffset", p.OFFSET_FAR)
    yield c("experts", "scales", "b in and out by scale.", "RateScale", scaled(p.SMALL), profile=SCALE)


def bound():
    """Level 3."""
    flags = {
        "elbo_output": "DroppedConstant MissingTiltKL StaleTilt", "elbo_expert": "DroppedConstant WrongDimension RateScale",
        "elbo_latent_entropy": "MissingEntropy WrongDimension", "elbo_gate": "DroppedConstant MissingTiltKL OffByOneStick",
        "elbo_assignment_entropy": "OneHot MissingEntropy", "kl_beta1": "VarianceAsDeviation WrongDimension DroppedConstant",
        "kl_beta0": "VarianceAsDeviation WrongDimension DroppedConstant", "kl_experts": "CovarianceAsPrecision RateScale WrongDimension",
        "elbo": "DroppedConstant MissingEntropy MissingTiltKL"}
    for op, usual in flags.items():
        c = lambda id, note, more, s, op=op, usual=usual, **k: case(op, id, note, " ".join(dict.fromkeys(f"{more} {usual}".split())), **s, **k)
        yield c("general", "Nothing fresh, priors all different.", "", p.GENERAL)
        if not op.startswith("kl") or op == "kl_experts":
            yield c("all_sizes_different", "The axes are 8 6 5 3 4 2 7.", "ColumnMajor", p.CANARY)
        yield c("one_expert", "K = 1: no gate, no doubt.", "SingleExpert", p.SINGLE)
        if op in ("elbo_output", "elbo_latent_entropy", "kl_beta1", "elbo"):
            yield c("wide", "h = 4 > L - 1.", "LatentDimension", p.WIDE)
        if op in ("elbo_output", "elbo"):
            yield c("shared", "One tilt for all experts.", "SharedTilt", p.SHARED)
            yield c("first_class", "Two sticks are not tossed.", "InactiveStick", p.FIRST_CLASS)
        if op in ("elbo_output", "elbo_gate", "elbo"):
            yield c("zero_tilts", "Tilts 0: no divergence of omega.", "ZeroTilt", p.ZERO_TILTS)
            yield c("tilts_1500", "Tilts of 1500.", "HugeTilt", p.TILTS_1500)
        if op in ("elbo_assignment_entropy", "elbo"):
            yield c("one_hot", "Hard assignments.", "OneHot", p.ONE_HOT)
            yield c("empty_expert", "A responsibility of 0 in every row.", "OneHot EmptyExpert", p.EMPTY)
        if op == "elbo_gate":
            yield c("uniform", "Uniform responsibilities.", "SoftCounts", p.UNIFORM)
        if op in ("kl_experts", "elbo_expert"):
            yield c("scales", "b and b0 by scale.", "RateScale", scaled(p.SMALL), profile=SCALE)
        if op == "elbo":
            yield c("binary", "L = 2, h = 1, the priors of the paper.", "", p.BINARY)
            yield c("narrow", "h = 1 < L - 1.", "LatentDimension", p.NARROW)


ORDER = ("order", "inner")


def trajectories():
    """Level 4."""
    def c(id, note, flags, s, n, inner=1, order="canonical", f64_only=False):
        return case("sweeps", id, note, f"UpdateOrder {flags}", profile={"inner": inner, "order": order}, options=ORDER, f64_only=f64_only, **s, n_sweeps=n)
    for n in (1, 2, 5):
        yield c(f"general_{n}", "K = 3, h = 3, L = 4, d = 2.", "StaleTilt", p.GENERAL, n)
    for n in (1, 2, 5):
        yield c(f"shared_{n}", "Shared tilts: x and omega1 read the gamma of the sweep before.", "SharedTilt", p.SHARED, n)
    for n in (1, 2, 5):
        yield c(f"binary_{n}", "K = 2, h = 1, L = 2, the priors of the paper.", "StaleTilt", p.BINARY, n)
    for n in (1, 5):
        yield c(f"one_expert_{n}", "K = 1.", "SingleExpert", p.SINGLE, n)
        yield c(f"narrow_{n}", "h = 1 < L - 1.", "LatentDimension", p.NARROW, n)
        yield c(f"wide_{n}", "h = 4 > L - 1.", "LatentDimension", p.WIDE, n)
    yield c("all_sizes_different_1", "The axes are 8 6 5 3 4 2 7.", "ColumnMajor", p.CANARY, 1)
    yield c("first_sweep", "Tilts 0 and uniform responsibilities, as every fit begins.", "ZeroTilt",
            p.change(p.ZERO_TILTS, gamma=[[0.25, 0.25, 0.5]] * 5), 1)
    yield c("saddle_2", "All means 0: they stay 0.", "ZeroTilt", p.change(
        p.ZERO_TILTS, M=p.constant(p.SMALL["M"], 0), beta1_mu=p.constant(p.SMALL["beta1_mu"], 0), beta0_mu=p.constant(p.SMALL["beta0_mu"], 0)), 2)
    for n in (1, 2):
        yield c(f"inner_2_{n}", "Two rounds of (x, omega1) in each sweep.", "StaleTilt", p.SMALL, n, inner=2)
        yield c(f"m_first_{n}", "M-step first.", "StaleTilt", p.SMALL, n, order="m-first")
    yield c("shared_inner_2", "Shared tilts, two rounds.", "SharedTilt", p.SHARED, 2, inner=2)
    yield c("shared_m_first", "Shared tilts, M-step first.", "SharedTilt", p.SHARED, 2, order="m-first")
    yield c("inner_3_5", "Three rounds, five sweeps.", "StaleTilt", p.BINARY, 5, inner=3)


def fixed_points():
    """Level 5."""
    def residual(id, note, s, inner=1, order="canonical", flags="UpdateOrder"):
        return case("stationarity", id, note, flags, profile={"inner": inner, "order": order}, options=ORDER, **s)
    yield residual("general", "Far from a fixed point.", p.GENERAL)
    yield residual("shared", "Shared tilts.", p.SHARED, flags="UpdateOrder SharedTilt")
    yield residual("m_first", "M-step first.", p.SMALL, order="m-first")
    yield residual("inner_2", "Two rounds of (x, omega1).", p.SMALL, inner=2)
    yield residual("one_expert", "K = 1.", p.SINGLE, flags="UpdateOrder SingleExpert")

    def c(id, note, flags, s):
        return case("converge", id, note, flags, profile={"order": "canonical"}, **s)
    yield c("binary", "K = 2, h = 1, L = 2, the priors of the paper: here the latent variable falls out of use.", "DroppedConstant PriorMissing", p.BINARY)
    yield c("one_expert", "K = 1, h = 1, L = 2.", "SingleExpert PriorMissing", p.state("one-expert-converge", N=6, K=1, h=1, L=2, d=1))
    yield c("three_classes", "K = 2, h = 1, L = 3.", "StaleTilt MissingEntropy", p.state("three-classes", N=9, K=2, h=1, L=3, d=1))
    yield c("narrow", "h = 1 < L - 1.", "LatentDimension MissingTiltKL", p.NARROW)
    yield c("wide", "h = 4 > L - 1.", "LatentDimension MissingEntropy", p.WIDE)
    yield c("shared", "Shared tilts: a lower bound than with one for each expert.", "SharedTilt", p.SHARED)
    yield c("shared_binary", "Shared tilts, the priors of the paper.", "SharedTilt PriorMissing",
            p.state("binary-shared", N=8, K=2, h=1, L=2, d=1, shared=True, priors=p.PAPER))
