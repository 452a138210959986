"""Cases of other algorithms than the default: fused tilts, prior means, pooled experts, Wishart noise.  Levels 1 to 6."""

import states as p
from special_cases import case

FUSED = {"z": "update_z", "beta1": "update_beta1", "beta0": "update_beta0"}


def asked(op, id, note, flags, s, how=None, n=None, **profile):
    """A case under a profile; what the oracle is told of it besides the shapes."""
    told = tuple(key for key in profile if key not in ("noise", "omega1", "expert_mean", "scales", "gamma"))
    return case(op, id, note, flags, profile=profile, options=told, how=how, **s, **({} if n is None else {"n_sweeps": n}))


def wishart(s, seed):
    """The same state with a full precision of the noise in place of h precisions."""
    rng, K, h = p.random.Random(f"cmn-wishart-{seed}"), len(s["M"]), len(s["M"][0])
    rest = {name: value for name, value in s.items() if name not in ("a", "b", "a0", "b0")}
    return {**rest, "nu": [h + p.grid(rng, 1, 8, 4) for _ in range(K)], "U": [p.covariance(rng, h, 4) for _ in range(K)],
            "nu0": h + 1.5, "U0": p.covariance(rng, h, 1)}


def means(s, seed):
    """The same state with prior means of all coefficients."""
    rng = p.random.Random(f"cmn-means-{seed}")
    some = lambda like: p.fill((len(like), len(like[0])) if like else (0,), lambda: p.grid(rng, -1.5, 1.5, 16))
    return {**s, "beta1_m0": some(s["beta1_mu"]), "beta0_m0": some(s["beta0_mu"])}


FULL_NOISE, FULL_CANARY = wishart(p.GENERAL, "general"), wishart(p.CANARY, "canary")
FULL_SMALL, FULL_BINARY = wishart(p.SMALL, "small"), wishart(p.BINARY, "binary")
CORRELATED = {**FULL_SMALL, "U": [[[4, 3.5], [3.5, 4]], [[2, -1.75], [-1.75, 3]], [[1, 0.5], [0.5, 8]]]}
W = {"noise": "wishart"}


def expectations():
    """Level 1: the Wishart distribution."""
    c = lambda op, id, note, flags, s, *names: case(op, id, note, flags, profile=W, **{name: s[name] for name in names})
    line = {"nu": [4, 3], "U": [[[2]], [[0.5]]], "nu0": 3, "U0": [[1]]}
    pair = ("nu", "U")
    yield c("wishart_mean_log_det", "general", "Three dimensions: one digamma for each.", "DiagonalNoise WrongDimension", FULL_NOISE, *pair)
    yield c("wishart_mean_log_det", "one_dimension", "Gamma(nu/2, U/2).", "RateScale DroppedConstant", line, *pair)
    yield c("wishart_mean_log_det", "correlated", "The determinant of a full matrix.", "DiagonalNoise", CORRELATED, *pair)
    yield c("wishart_mean_log_det", "few_degrees", "nu just above h - 1: a digamma near 0.", "PlugIn", {"nu": [1.0625], "U": [[[1, 0.25], [0.25, 2]]]}, *pair)
    four = (*pair, "nu0", "U0")
    yield c("wishart_kl", "general", "Three dimensions.", "DiagonalNoise WrongDimension DroppedConstant", FULL_NOISE, *four)
    yield c("wishart_kl", "one_dimension", "The divergence of two Gammas.", "RateScale DroppedConstant", line, *four)
    yield c("wishart_kl", "equal", "0 where q is the prior.", "DroppedConstant WrongDimension",
            {"nu": [4.5], "U": [[[2, 0.5], [0.5, 1]]], "nu0": 4.5, "U0": [[2, 0.5], [0.5, 1]]}, *four)
    yield c("wishart_kl", "correlated", "tr(U0 U^-1), both matrices full.", "DiagonalNoise CovarianceAsPrecision", CORRELATED, *four)
    every = ("M", "V", *pair, "v0", "nu0", "U0")
    yield c("mnw_kl", "general", "h = 3, D = 3.", "DiagonalNoise DroppedConstant CovarianceAsPrecision", FULL_NOISE, *every)
    yield c("mnw_kl", "all_sizes_different", "K = 6, h = 3, D = 7.", "WrongDimension ColumnMajor", FULL_CANARY, *every)
    yield c("mnw_kl", "correlated", "tr(U^-1 M M^T).", "DiagonalNoise RateScale", CORRELATED, *every)


JOINT = {"digits": 20}
TIGHT = {"v0": 3, "a0": 1.5, "b0": 0.75, "sigma0": 1, "sigma1": 0.75}       # an iterated pair settles soon
PAIR = p.state("pair", N=5, K=3, h=1, L=3, d=1, priors=TIGHT)
PAIR_SHARED = p.state("pair-shared", N=5, K=2, h=1, L=3, d=1, priors=TIGHT, shared=True)


def fused(name):
    """Twins of all cases of an update under fresh tilts."""
    from network_cases import factors
    for c in factors():
        if c["op"] == f"update_{name}" and "profile" not in c:
            flags = " ".join(dict.fromkeys(["StaleTilt", *c["flags"]]))
            yield asked(c["op"], f"fresh_{c['id']}", f"Tilts from the moments that come in. {c['note']}", flags, c["in"], tilts="fresh")


def updates():
    """Level 2."""
    yield from fused("beta0")
    yield from fused("beta1")
    c = lambda op, *a, **k: asked(f"update_{op}", *a, **k)
    for id, s in (("general", p.GENERAL), ("all_sizes_different", p.CANARY), ("one_expert", p.SINGLE), ("binary", p.BINARY), ("shared", p.SHARED),
                  ("first_class", p.FIRST_CLASS), ("extreme", p.EXTREME)):
        yield c("z", f"fresh_{id}", "Scores at the best tilts of the moments that come in: -b ln 2cosh(xi/2).", "StaleTilt MissingEntropy", s, tilts="fresh")
    for op in ("beta1", "beta0"):
        yield c(op, "joint", "Tilts and coefficients in turn until neither changes.", "StaleTilt PriorMissing", PAIR, JOINT, tilts="joint")
        yield c(op, "joint_binary", "One stick.", "StaleTilt", p.change(p.BINARY, **TIGHT), JOINT, tilts="joint")
    yield c("beta1", "joint_shared", "One tilt for all experts.", "SharedTilt StaleTilt", PAIR_SHARED, JOINT, tilts="joint")
    yield c("z", "joint", "The same as at fresh tilts.", "StaleTilt", PAIR, tilts="joint")

    pooled = "One tilt for all experts, the root of the weighted squares of theirs."
    yield c("beta1", "pooled", pooled, "SharedTilt Unweighted", p.GENERAL, experts="pooled")
    yield c("beta1", "pooled_fresh", f"From the moments that come in. {pooled}", "SharedTilt StaleTilt", p.SMALL, tilts="fresh", experts="pooled")
    yield c("beta1", "pooled_fresh_canary", f"The axes are 8 6 5 3 4 2 7. {pooled}", "SharedTilt ColumnMajor", p.CANARY, tilts="fresh", experts="pooled")
    yield c("beta1", "pooled_fresh_centred", f"Prior means -ln(L-1-l). {pooled}", "SharedTilt CentredSticks", p.GENERAL,
            tilts="fresh", experts="pooled", prior_mean="centred")

    for op in ("beta1", "beta0"):
        c = lambda *a, op=op, **k: asked(f"update_{op}", *a, **k)
        yield c("centred", "Biases that make all classes equally likely: -ln of the number of later ones.", "CentredSticks PriorMissing OffByOneStick", p.GENERAL,
                prior_mean="centred")
        yield c("centred_binary", "One stick: its mean is -ln 1 = 0.", "CentredSticks", p.BINARY, prior_mean="centred")
        yield c("centred_fresh", "The same with tilts from the moments that come in.", "CentredSticks StaleTilt", p.GENERAL, tilts="fresh", prior_mean="centred")
        yield c("centred_one_class" if op == "beta1" else "centred_never_reached", "Sticks without a toss return to their prior means.",
                "CentredSticks InactiveStick PriorMissing", p.FIRST_CLASS if op == "beta1" else p.change(p.SMALL, gamma=[[1, 0, 0]] * 5), prior_mean="centred")
        yield c("prior_means", "A prior mean for each coefficient.", "PriorMissing VarianceAsDeviation", means(p.GENERAL, "general"), prior_mean="given")
        yield c("prior_means_canary", "The axes are 8 6 5 3 4 2 7.", "ColumnMajor PriorMissing Padding", means(p.CANARY, "canary"), prior_mean="given")

    c = lambda op, *a, **k: asked(f"update_{op}", *a, **k, **W)
    for op, flags in (("x", "DiagonalNoise CrossTerm"), ("z", "DiagonalNoise MissingEntropy"), ("experts", "DiagonalNoise PriorMissing Unweighted")):
        yield c(op, "wishart", "A full precision of the noise.", flags, FULL_NOISE)
        yield c(op, "wishart_canary", "The axes are 8 6 5 3 4 2 7.", f"ColumnMajor {flags}", FULL_CANARY)
        yield c(op, "wishart_correlated", "Noise far from diagonal.", flags, CORRELATED)
        yield c(op, "wishart_binary", "h = 1: Gamma(nu/2, U/2).", "RateScale", FULL_BINARY)
    yield c("experts", "wishart_empty", "An expert without rows returns to its prior.", "EmptyExpert", p.change(FULL_SMALL, gamma=p.EMPTY["gamma"]))
    yield c("z", "wishart_fresh", "Fresh tilts and full noise.", "StaleTilt DiagonalNoise", FULL_NOISE, tilts="fresh")


def bound():
    """Level 3."""
    for op, flags in (("elbo_output", "StaleTilt MissingTiltKL"), ("elbo_gate", "StaleTilt MissingTiltKL OffByOneStick"), ("elbo", "StaleTilt DroppedConstant")):
        yield asked(op, "fresh", "The bound at the best tilts of its moments.", flags, p.GENERAL, tilts="fresh")
        yield asked(op, "joint", "The same as at fresh tilts.", flags, p.SMALL, tilts="joint")
    yield asked("elbo_output", "fresh_shared", "One tilt for all experts.", "SharedTilt StaleTilt", p.SHARED, tilts="fresh")
    yield asked("elbo", "fresh_shared", "One tilt for all experts.", "SharedTilt StaleTilt", p.SHARED, tilts="fresh")
    for op in ("kl_beta1", "kl_beta0", "elbo"):
        yield asked(op, "centred", "Prior means -ln of the number of later classes.", "CentredSticks PriorMissing", p.GENERAL, prior_mean="centred")
        yield asked(op, "prior_means", "A prior mean for each coefficient.", "PriorMissing VarianceAsDeviation", means(p.GENERAL, "general"), prior_mean="given")
    yield asked("elbo", "fresh_centred", "Fresh tilts and centred sticks.", "CentredSticks StaleTilt", p.SMALL, tilts="fresh", prior_mean="centred")
    for op, flags in (("elbo_expert", "DiagonalNoise DroppedConstant"), ("kl_experts", "DiagonalNoise WrongDimension"), ("elbo", "DiagonalNoise DroppedConstant")):
        yield asked(op, "wishart", "A full precision of the noise.", flags, FULL_NOISE, **W)
        yield asked(op, "wishart_correlated", "Noise far from diagonal.", flags, CORRELATED, **W)
    yield asked("elbo", "fresh_canary", "The axes are 8 6 5 3 4 2 7.", "ColumnMajor StaleTilt DroppedConstant", p.CANARY, tilts="fresh")
    yield asked("elbo", "wishart_canary", "The axes are 8 6 5 3 4 2 7.", "ColumnMajor DiagonalNoise DroppedConstant", FULL_CANARY, **W)
    yield asked("elbo", "wishart_fresh_centred", "All of it at once.", "DiagonalNoise CentredSticks StaleTilt", FULL_NOISE, tilts="fresh", prior_mean="centred", **W)


PAPER_CODE = {"inner": 8, "tilts": "fresh", "tilt_start": "restarted", "experts": "pooled", "prior_mean": "centred"}


def trajectories():
    """Level 4."""
    def c(id, note, flags, s, n, how=None, inner=1, order="canonical", **profile):
        return asked("sweeps", id, note, f"UpdateOrder {flags}", s, how, n, inner=inner, order=order, **profile)
    for n in (1, 2):
        yield c(f"inner_8_{n}", "Eight rounds of (x, omega1) in each sweep.", "StaleTilt", p.SMALL, n, inner=8)
    yield c("restarted_2", "Tilts of 0 at the start of each sweep.", "RestartedTilt ZeroTilt", p.SMALL, 2, tilt_start="restarted")
    yield c("restarted_inner_8", "Eight rounds from tilts of 0.", "RestartedTilt ZeroTilt", p.SMALL, 2, inner=8, tilt_start="restarted")
    yield c("fresh_2", "Fresh tilts: the bound after a sweep is that at its best tilts.", "StaleTilt", p.SMALL, 2, tilts="fresh")
    yield c("fresh_m_first", "M-step first, at fresh tilts.", "StaleTilt", p.SMALL, 2, order="m-first", tilts="fresh")
    yield c("fresh_shared", "The M-step weighs its shared tilt by the new gamma.", "SharedTilt StaleTilt", p.SHARED, 2, tilts="fresh")
    yield c("joint_1", "An M-step that iterates.", "StaleTilt", PAIR, 1, JOINT, tilts="joint")
    yield c("pooled_2", "A pooled tilt in the M-step of beta1.", "SharedTilt", p.SMALL, 2, experts="pooled")
    yield c("centred_2", "Centred sticks.", "CentredSticks", p.SMALL, 2, prior_mean="centred")
    yield c("prior_means_2", "A prior mean for each coefficient.", "PriorMissing", means(p.SMALL, "small"), 2, prior_mean="given")
    for n in (1, 2):
        yield c(f"paper_code_{n}", "As code in the manner of Jaakkola and Jordan does it: fused, restarted, pooled, centred.", "CentredSticks StaleTilt RestartedTilt",
                p.SMALL, n, **PAPER_CODE)
        yield c(f"each_{n}", "The same with a tilt of each expert and prior means of 0.", "StaleTilt RestartedTilt", p.SMALL, n, **{**PAPER_CODE, "experts": "each", "prior_mean": "zero"})
    for n in (1, 2, 5):
        yield c(f"wishart_{n}", "A full precision of the noise.", "DiagonalNoise", FULL_SMALL, n, **W)
    yield c("wishart_paper_code_2", "The manner of Jaakkola and Jordan with a full precision.", "DiagonalNoise StaleTilt", FULL_SMALL, 2, **PAPER_CODE, **W)
    yield c("wishart_each_2", "The same with a tilt of each expert and prior means of 0.", "DiagonalNoise StaleTilt", FULL_SMALL, 2,
            **{**PAPER_CODE, "experts": "each", "prior_mean": "zero"}, **W)


def residuals():
    """Level 5."""
    def c(id, note, flags, s, inner=1, order="canonical", **profile):
        return asked("stationarity", id, note, f"UpdateOrder {flags}", s, inner=inner, order=order, **profile)
    yield c("inner_8", "Eight rounds of (x, omega1).", "StaleTilt", p.SMALL, inner=8)
    yield c("paper_code", "Fused, restarted, pooled, centred.", "CentredSticks RestartedTilt", p.SMALL, **PAPER_CODE)
    yield c("each", "The same with a tilt of each expert and prior means of 0.", "RestartedTilt", p.SMALL, **{**PAPER_CODE, "experts": "each", "prior_mean": "zero"})
    yield c("wishart", "nu and U move in place of a and b.", "DiagonalNoise", FULL_SMALL, **W)


THREE_CLASSES = p.state("three-classes", N=9, K=2, h=1, L=3, d=1)
FULL_THREE, FULL_PLANE = wishart(THREE_CLASSES, "three-classes"), wishart(p.state("c", N=6, K=2, h=2, L=3, d=1, priors=TIGHT), "c")


def fixed_points():
    """Level 5: where other algorithms end."""
    def c(id, note, flags, s, order="canonical", **profile):
        return asked("converge", id, note, flags, s, order=order, **profile)
    yield c("m_first", "M-step first.", "UpdateOrder", THREE_CLASSES, order="m-first")
    yield c("fresh", "At a fixed point fresh tilts are the stored ones.", "StaleTilt MissingEntropy", THREE_CLASSES, tilts="fresh")
    yield c("centred", "Centred sticks.", "CentredSticks PriorMissing", THREE_CLASSES, prior_mean="centred")
    yield c("prior_means", "A prior mean for each coefficient.", "PriorMissing", means(THREE_CLASSES, "three-classes"), prior_mean="given")
    yield c("pooled", "beta1 goes by a pooled tilt: no maximum of the bound, but a place where sweeps stop.", "SharedTilt", THREE_CLASSES, experts="pooled")
    yield c("restarted", "One round from tilts of 0 in each sweep.", "RestartedTilt ZeroTilt", THREE_CLASSES, inner=1, tilt_start="restarted")
    yield c("paper_code", "Fused, restarted, pooled, centred.", "CentredSticks RestartedTilt", THREE_CLASSES, **PAPER_CODE)
    yield c("each", "The same with a tilt of each expert and prior means of 0.", "RestartedTilt", THREE_CLASSES,
            **{**PAPER_CODE, "experts": "each", "prior_mean": "zero"})
    yield c("wishart", "A full precision of the noise, h = 2.", "DiagonalNoise MissingEntropy", FULL_PLANE, **W)
    yield c("wishart_line", "h = 1: Gamma(nu/2, U/2).", "RateScale DroppedConstant", FULL_THREE, **W)
    yield c("wishart_paper_code", "The manner of Jaakkola and Jordan with a full precision.", "DiagonalNoise RestartedTilt", FULL_PLANE, **PAPER_CODE, **W)


def predictions():
    """Level 6: a Student t in h dimensions, of nu - h + 1 degrees."""
    names = ("beta1_mu", "beta1_S", "beta0_mu", "beta0_S", "M", "V", "nu", "U")

    def c(id, note, flags, s, X, **new):
        return case("predict", id, note, flags, profile=W, **p.change({name: s[name] for name in names}, X=X, **new))
    plane = wishart(p.state("plane", N=1, K=2, h=2, L=3, d=1), "plane")
    tied = [[[16, 14], [14, 16]], [[8, -7], [-7, 12]]]
    yield c("wishart_line", "h = 1: a Student t of nu degrees.", "RateScale PlugIn NoiseForgotten BoundAsProbability DoubleNormalisation ReversedOrder",
            FULL_BINARY, [[0.5], [-1.25]], nu=[8, 12], U=[[[4]], [[1]]])
    yield c("wishart_heavy_tails", "nu = 3.5: far from a Gaussian.", "NoiseForgotten WrongDimension", FULL_BINARY, [[0.75]], nu=[3.5, 3.5], U=[[[8]], [[4]]])
    yield c("wishart_plane", "h = 2, L = 3: a plane of latent vectors under a t whose axes are tied.", "DiagonalNoise WrongDimension PlugIn OffByOneStick ColumnMajor BoundAsProbability",
            plane, [[0.75]], nu=[13, 17], U=tied)
    still = wishart(p.state("unread", N=1, K=2, h=3, L=2, d=2), "unread")
    yield c("wishart_unread_directions", "h = 3, but the stick reads one direction: a t of nu - 2 degrees whatever else is in U.", "WrongDimension LatentDimension NoiseForgotten",
            still, [[0.5, 1], [-1.5, 0.25]], nu=[6, 8], beta1_mu=[[0, 1.5, 0, -0.5]],
            beta1_S=[[[0, 0, 0, 0], [0, 0.25, 0, 0.125], [0, 0, 0, 0], [0, 0.125, 0, 0.5]]])
    yield c("wishart_certain_coefficients", "No uncertainty but the noise of the experts.", "NoiseForgotten DiagonalNoise", plane, [[0.5]], nu=[9, 13], U=tied,
            beta1_S=p.constant(plane["beta1_S"], 0), beta0_S=p.constant(plane["beta0_S"], 0), V=p.constant(plane["V"], 0))
