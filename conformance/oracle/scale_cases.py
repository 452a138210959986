"""Cases of scales that are learned: the optional suite scales = learned, alone and together with a shared mean.  Levels 2 to 6."""

import shared_cases as m
import states as p
from choice_cases import asked

S, BOTH = {"scales": "learned"}, {"scales": "learned", "expert_mean": "shared"}
FORCE, TERMS, BOUND, SWEEP = ({"eq": f"eq-shared-{name}"} for name in ("in-force", "scale-terms", "bound", "sweep"))


def learned(s, seed, strength=1.25):
    """The same state with q of the scales, not at its best."""
    rng = p.random.Random(f"cmn-scales-{seed}")
    return {**s, "lam_mean": p.fill((3,), lambda: p.grid(rng, 0.25, 2, 16)), "lam_shape": p.fill((3,), lambda: p.grid(rng, 1.5, 6, 4)), "strength": strength}


def begun(s):
    """The same with q of the scales at its prior, as a fit begins."""
    return p.change(s, lam_mean=[1 / v for v in prior_variances(s)], lam_shape=[s["strength"]] * 3)


def prior_variances(s):
    return [s["v0"], s["sigma0"] ** 2, s["sigma1"] ** 2]


def in_force(s):
    """The same with the scales of the prior in force, whatever their spread: powers of two, whose inverses are exact."""
    s = p.change(s, v0=4, sigma0=2, sigma1=0.5)
    return p.change(s, lam_mean=[1 / v for v in prior_variances(s)])


def sharp(s, strength):
    """The same with a prior that knows its scales."""
    return p.change(s, strength=strength)


def at_prior(s):
    """All coefficients at their prior with mean 0 and the prior's scales: what no row leaves."""
    eye = lambda like, v: [[[v * (i == j) for j in range(len(A))] for i in range(len(A))] for A in like]
    v, gate, output = prior_variances(s)
    return p.change(s, **{name: p.constant(s[name], 0) for name in ("M", "beta0_mu", "beta1_mu")}, V=eye(s["V"], v), beta0_S=eye(s["beta0_S"], gate), beta1_S=eye(s["beta1_S"], output),
                    a=[s["a0"]] * len(s["M"]), b=p.constant(s["b"], s["b0"]))


def rowless(s):
    return p.change(s, **dict.fromkeys(("X", "y", "gamma", "mu", "Sigma", "xi1", "xi0"), []))


def certain(s):
    """The same without covariances of the coefficients that the misfits read."""
    return p.change(s, **{name: p.constant(s[name], 0) for name in ("V", "beta0_S", "beta1_S")})


def spread(s):
    """The same with q of the scales as wide as it can be while 1/lambda still has a mean."""
    return p.change(s, lam_shape=[1.125, 1.25, 1.0625])


GENERAL, CANARY, SINGLE = learned(p.GENERAL, "general"), learned(p.CANARY, "canary"), learned(p.SINGLE, "single")
BINARY, SMALL, WIDE, SHARED = learned(p.BINARY, "binary"), learned(p.SMALL, "small"), learned(p.WIDE, "wide"), learned(p.SHARED, "shared")
MEAN, MEAN_SMALL, MEAN_BINARY, MEAN_SINGLE = (learned(s, f"mean-{i}") for i, s in enumerate((m.GENERAL, m.SMALL, m.BINARY, m.SINGLE)))
EMPTY = p.change(SMALL, gamma=p.EMPTY["gamma"])
EXTREME = p.change(SMALL, **{name: p.EXTREME[name] for name in ("beta0_mu", "beta1_mu", "xi0", "xi1")})
LINE = learned(p.state("scales-line", N=6, K=3, h=1, L=3, d=1), "line")             # small, but with two sticks of each kind
MEAN_LINE = learned(m.with_mean(p.state("scales-line", N=6, K=3, h=1, L=3, d=1), "scales-line"), "line")
IDLE = p.change(SMALL, **{name: [at_prior(SMALL)[name][0], *SMALL[name][1:]] for name in ("M", "V")}, a=[SMALL["a0"], *SMALL["a"][1:]], b=[[SMALL["b0"]] * 2, *SMALL["b"][1:]])


def updates():
    """Level 2."""
    c = lambda id, note, flags, s, how=None, **profile: asked("update_scales", id, note, flags, s, how, **{**S, **profile})
    yield c("general", "Each block has a misfit and a number of coefficients; the q(lambda) that comes in is not read.", "ScaleCount ScaleMisfit ScalePrior", GENERAL)
    yield c("all_sizes_different", "K, h, D = 6, 3, 7: n = 126 of the experts, 35 of the gate, 8 of the output.", "ScaleCount WrongDimension ScaleMisfit", CANARY)
    yield c("one_expert", "K = 1: the gate has no coefficient, and its q(lambda) is its prior.", "SingleExpert ScaleCount ScalePrior", SINGLE)
    yield c("binary", "h = 1, L = 2: a stick of each kind.", "ScaleCount ScaleMisfit VarianceAsDeviation", BINARY)
    yield c("wide", "h = 4 > L - 1: the output has five coefficients, the biases among them.", "LatentDimension ScaleCount ScaleMisfit", WIDE)
    yield c("biases", "Biases of 8: they are coefficients like any other.", "ScaleMisfit ScaleCount Padding",
            p.change(SMALL, beta0_mu=[[*row[:-1], 8] for row in SMALL["beta0_mu"]], beta1_mu=[[*row[:-1], -8] for row in SMALL["beta1_mu"]]))
    yield c("means_of_0", "All means 0: the covariances alone, which do not count E[tau].", "ScaleMisfit", p.change(SMALL, **{n: p.constant(SMALL[n], 0) for n in ("M", "beta0_mu", "beta1_mu")}))
    yield c("no_covariance", "Coefficients known: their squares alone, those of the experts times E[tau].", "ScaleMisfit RateScale", certain(SMALL))
    yield c("unequal_precisions", "E[tau] of 1/256 and of 256: the sure expert decides the first scale.", "ScaleMisfit RateScale", p.change(BINARY, a=[2, 2], b=[[512], [0.0078125]]))
    yield c("at_prior", "All coefficients at their prior, as no row leaves them: the mean of q(lambda) is the prior's, and its shape has grown all the same.", "ScalePrior ScaleCount ScaleMisfit", at_prior(SMALL))
    yield c("idle_expert", "An expert at its prior votes for the scale that the prior says.", "EmptyExpert ScaleMisfit ScaleCount", IDLE)
    yield c("no_rows", "No row: only coefficients are read.", "EmptyExpert ScaleCount ScaleMisfit", rowless(SMALL))
    yield c("sharp", "strength = 2^40: the values of the prior, whatever the coefficients.", "ScalePrior VarianceAsDeviation CovarianceAsPrecision", sharp(SMALL, 2 ** 40))
    yield c("weak", "strength = 2^-20: the coefficients alone, n/Q.", "ScaleCount ScaleMisfit", sharp(SMALL, 2 ** -20))
    yield c("centred", "Misfits about the prior means: the centred biases.", "CentredSticks ScaleMisfit", LINE, prior_mean="centred")
    yield c("scales", "b of the experts by scale.", "RateScale ScaleMisfit", p.change(SMALL, b=m.SCALES["b"], b0=m.SCALES["b0"]), gamma="scale")
    yield c("mean_general", "A shared mean: E[tau |A_k - A_0|^2], with D variances of A_0.", "MeanPull MeanSpread ScaleMisfit", MEAN, **BOTH)
    yield c("mean_certain", "A shared mean that is known.", "MeanPull ScaleMisfit", p.change(MEAN_SMALL, A0_var=[0, 0]), **BOTH)
    yield c("mean_nothing", "A_0 = 0 for certain: the numbers without a shared mean.", "ScaleMisfit ScaleCount", learned(m.nothing(m.GENERAL), "general"), **BOTH)
    yield c("mean_centred", "A shared mean, and centred sticks.", "CentredSticks MeanPull ScaleMisfit", MEAN_LINE, prior_mean="centred", **BOTH)

    for op, base in (("update_beta1", GENERAL), ("update_beta0", GENERAL), ("update_experts", GENERAL)):
        c = lambda id, note, flags, s, op=op, **profile: asked(op, id, note, flags, s, FORCE, **{**S, **profile})
        yield c("scales_general", "1/E[lambda] in the place of the prior's variance.", "ScaleMean ScaleForgotten PriorMissing", base)
        yield c("scales_spread", "q(lambda) so wide that E[1/lambda] is nine times 1/E[lambda] or more: only E[lambda] is met.", "ScaleMean ScaleForgotten", spread(LINE))
        yield c("scales_in_force", "E[lambda] as the prior has it: the numbers of fixed scales, whatever the shape.", "ScaleMean CovarianceAsPrecision", in_force(LINE))
        if op == "update_experts":
            yield c("scales_no_rows", "No row: every expert returns to its prior, whose scale is the learned one.", "ScaleForgotten EmptyExpert ScaleMean", rowless(SMALL))
            yield c("scales_empty_expert", "An expert without rows returns to its prior, whose scale is the learned one.", "EmptyExpert ScaleForgotten", EMPTY)
            yield c("mean_learned", "About a shared mean: the pull, the distance and its variance all go by the learned scale.", "MeanPull MeanSpread ScaleForgotten ScaleMean", MEAN, **BOTH)
        else:
            yield c("scales_centred", "The pull to the prior mean goes by the learned scale as well.", "CentredSticks ScaleForgotten ScaleMean", SMALL, prior_mean="centred")
    yield asked("update_beta0", "scales_one_expert", "K = 1: no gate, no coefficient.", "SingleExpert", SINGLE, FORCE, **S)
    c = lambda id, note, flags, s: asked("update_shared", id, note, flags, s, FORCE, **BOTH)
    yield c("scales_general", "The experts pull with E[tau] E[lambda].", "ScaleForgotten ScaleMean MeanWeights", MEAN)
    yield c("scales_spread", "A wide q(lambda): only its mean is met.", "ScaleMean ScaleForgotten", spread(MEAN_BINARY))
    yield c("scales_no_prior_variance", "v00 = 0: A_0 = 0 for certain, whatever the scales.", "PriorMissing", p.change(MEAN_SMALL, v00=0))


def bound():
    """Level 3."""
    c = lambda id, note, flags, s: asked("kl_scales", id, note, flags, s, **S)
    yield c("general", "A divergence of Gammas and a difference of logarithms for each block.", "ScaleLog ScaleCount ScalePrior DroppedConstant", GENERAL)
    yield c("all_sizes_different", "n = 126, 35 and 8.", "ScaleCount ScaleLog WrongDimension", CANARY)
    yield c("one_expert", "K = 1: the gate's divergence is that of two Gammas.", "SingleExpert ScaleLog ScaleCount", SINGLE)
    yield c("binary", "h = 1, L = 2.", "ScaleCount ScaleLog VarianceAsDeviation", BINARY)
    yield c("begun", "q(lambda) at its prior: the difference of logarithms alone.", "ScaleLog ScaleCount DroppedConstant", begun(SMALL))
    yield c("wide_q", "Shapes near 1: E ln lambda is far from ln E lambda.", "ScaleLog ScalePrior", spread(SMALL))
    yield c("known", "strength and shapes of 256: E ln lambda is nearly ln E lambda.", "ScalePrior ScaleCount", p.change(sharp(begun(SMALL), 256), lam_shape=[265, 259, 259]))
    yield c("no_rows", "No row: coefficients are counted, not rows.", "EmptyExpert ScaleCount ScaleLog", rowless(SMALL))

    c = lambda op, id, note, flags, s, **profile: asked(op, id, note, flags, s, FORCE, **{**S, **profile})
    for op, names in (("kl_beta1", "the output's"), ("kl_beta0", "the gate's"), ("kl_experts", "the experts'")):
        yield c(op, "scales_general", f"The divergence of {names} coefficients from a prior of variance 1/E[lambda].", "ScaleMean ScaleForgotten ScaleLog", GENERAL)
        yield c(op, "scales_spread", f"A wide q(lambda): {names} divergence goes by its mean, and by ln E lambda.", "ScaleMean ScaleLog", spread(LINE))
    yield c("kl_beta1", "scales_centred", "About the prior means.", "CentredSticks ScaleForgotten ScaleMean", SMALL, prior_mean="centred")
    yield c("kl_beta0", "scales_one_expert", "K = 1: no gate, no divergence.", "SingleExpert", SINGLE)
    yield c("kl_experts", "mean_learned", "About a shared mean, whose variance is divided by the scale in force as well.", "MeanSpread ScaleForgotten ScaleMean", MEAN, **BOTH)

    c = lambda id, note, flags, s, **profile: asked("elbo", id, note, flags, s, BOUND, **{**S, **profile})
    yield c("scales_general", "Nine terms.", "ScaleLog ScaleForgotten ScaleMean ScaleCount", GENERAL)
    yield c("scales_all_sizes_different", "The axes are 8 6 5 3 4 2 7.", "ScaleLog ScaleCount ColumnMajor", CANARY)
    yield c("scales_one_expert", "K = 1: no gate, but its q(lambda) has a divergence.", "SingleExpert ScaleLog", SINGLE)
    yield c("scales_binary", "h = 1, L = 2.", "ScaleLog ScaleForgotten", BINARY)
    yield c("scales_tilts", "One tilt for all experts.", "SharedTilt ScaleLog", SHARED)
    yield c("scales_empty_expert", "0 ln 0 for the rows of one expert.", "EmptyExpert OneHot ScaleLog", EMPTY)
    yield c("scales_no_rows", "No row: minus four divergences.", "ScaleLog ScaleMean DroppedConstant", rowless(SMALL))
    yield c("scales_begun", "q of the scales at its prior, as a fit begins.", "ScaleLog ScaleCount", begun(SMALL))
    yield c("scales_extreme", "Logits of +-1000: finite.", "ExtremeLogit HugeTilt ScaleLog", EXTREME)
    yield c("scales_centred", "Centred sticks as well.", "CentredSticks ScaleLog", LINE, prior_mean="centred")
    yield c("mean_learned", "A shared mean as well: ten terms.", "MeanSpread ScaleLog ScaleForgotten PriorMissing", MEAN, **BOTH)
    yield c("mean_learned_centred", "A shared mean, learned scales and centred sticks: all that the chapter has.", "CentredSticks ScaleLog MeanPull", MEAN_LINE, prior_mean="centred", **BOTH)


def trajectories():
    """Level 4."""
    def c(id, note, flags, s, n, order="canonical", inner=1, **profile):
        return asked("sweeps", id, note, f"UpdateOrder {flags}", s, SWEEP, n, inner=inner, order=order, **{**S, **profile})
    yield c("scales_1", "Scales first, from the coefficients that come in.", "ScaleForgotten ScaleMisfit ScaleCount", LINE, 1)
    for n in (2, 5):
        yield c(f"scales_{n}", "Scales and coefficients in turn.", "ScaleForgotten ScaleMean", BINARY, n)
    yield c("scales_one_expert", "K = 1: the scale of the gate is that of its prior.", "SingleExpert ScaleCount", SINGLE, 1)
    yield c("scales_first_sweep", "q(lambda) at its prior, tilts 0, as a fit begins.", "ZeroTilt ScaleForgotten ScaleMisfit", p.change(begun(LINE), xi1=p.constant(LINE["xi1"], 0), xi0=p.constant(LINE["xi0"], 0)), 1)
    yield c("scales_inner_2", "Two rounds of (x, omega1): scales once a sweep.", "StaleTilt ScaleForgotten", BINARY, 2, inner=2)
    yield c("scales_m_first", "M-step first, and the scales before it.", "StaleTilt ScaleForgotten", BINARY, 2, order="m-first")
    yield c("scales_tilts", "One tilt of omega_1 for all experts.", "SharedTilt ScaleForgotten", SHARED, 1)
    yield c("scales_no_rows", "No row: coefficients go to their prior, and scales with them.", "EmptyExpert ScaleCount ScaleMisfit", rowless(BINARY), 2)
    yield c("scales_sharp", "strength = 1024: nearly the numbers of fixed scales.", "ScalePrior VarianceAsDeviation", sharp(BINARY, 2 ** 10), 2)
    yield c("scales_weak", "strength = 1/64: the coefficients choose their scale.", "ScaleCount ScaleMisfit", sharp(BINARY, 2 ** -6), 2)
    yield c("scales_centred", "Centred sticks as well.", "CentredSticks ScaleMisfit", LINE, 1, prior_mean="centred")
    yield c("mean_learned_1", "Scales, then A_0, then the rest.", "ScaleForgotten MeanPull MeanSpread", MEAN_LINE, 1, **BOTH)
    yield c("mean_learned_5", "Scales, A_0 and experts in turn.", "ScaleForgotten MeanWeights", MEAN_BINARY, 5, **BOTH)
    yield c("mean_learned_centred", "All that the chapter has.", "CentredSticks MeanPull ScaleMisfit", MEAN_LINE, 2, prior_mean="centred", **BOTH)


def fixed_points():
    """Level 5."""
    c = lambda id, note, s, flags="UpdateOrder ScaleForgotten", order="canonical", **profile: asked("stationarity", id, note, flags, s, SWEEP, inner=1, order=order, **{**S, **profile})
    yield c("scales_general", "Far from a fixed point: the scales move as well.", GENERAL, "UpdateOrder ScaleForgotten ScaleMisfit")
    yield c("scales_only", "Everything but the scales has settled: it is they that move most.", p.change(rowless(at_prior(BINARY)), lam_mean=[32, 16, 8]), "UpdateOrder ScaleMisfit")
    yield c("scales_m_first", "M-step first.", BINARY, order="m-first")
    yield c("mean_learned", "A shared mean as well.", MEAN_SMALL, **BOTH)

    c = lambda id, note, flags, s, **profile: asked("converge", id, note, flags, s, BOUND, order="canonical", **{**S, **profile})
    yield c("scales_binary", "K = 2, h = 1, L = 2, the priors of the paper.", "ScaleLog ScaleForgotten", BINARY)
    yield c("scales_one_expert", "K = 1, h = 1.", "SingleExpert ScaleCount", learned(p.state("scales-one", N=6, K=1, h=1, L=3, d=1), "one"))
    yield c("scales_no_rows", "No row: the scales of the prior, E ln lambda for them, and nothing else.", "EmptyExpert ScaleLog ScaleCount", rowless(BINARY))
    yield c("scales_centred", "K = 2, h = 1, L = 3, centred sticks.", "CentredSticks ScaleMisfit", learned(p.state("three-classes", N=9, K=2, h=1, L=3, d=1), "three-classes"), prior_mean="centred")
    yield c("mean_learned", "A shared mean as well.", "MeanSpread ScaleLog", MEAN_BINARY, **BOTH)


def forecasts():
    """Level 6: what new rows are told after a few sweeps."""
    c = lambda id, note, flags, s, n, X, **profile: {**(found := asked("forecast", id, note, flags, s, FORCE, n, **{**S, **profile})), "in": {**found["in"], "X_new": X}}
    two = [[0.5], [-1.25]]
    yield c("scales_1", "One sweep, h = 1.", "ScaleForgotten ScaleMisfit NoiseForgotten PlugIn", BINARY, 1, two)
    yield c("scales_5", "Five sweeps.", "ScaleForgotten ScaleMean UpdateOrder", BINARY, 5, two)
    yield c("scales_far_away", "An input at 8, where no row was: how wide the forecast is, the scales say.", "ScaleForgotten ScaleMean PlugIn", BINARY, 2, [[8]])
    yield c("scales_one_expert", "K = 1, h = 1.", "SingleExpert ScaleForgotten", learned(p.state("one-expert-forecast", N=6, K=1, h=1, L=2, d=1), "one-forecast"), 2, [[0.75], [-2]])
    yield c("scales_no_rows", "Fitted to no row: the forecast of a prior whose scales have moved with the state that came in.", "EmptyExpert ScaleMisfit PlugIn", rowless(BINARY), 3, [[0.5]])
    yield c("scales_centred", "Centred sticks, whose pull goes by the learned scales.", "CentredSticks ScaleForgotten", LINE, 2, [[0.5]], prior_mean="centred")
    yield c("scales_sharp", "strength = 2^40: the forecast of fixed scales.", "ScalePrior VarianceAsDeviation", sharp(BINARY, 2 ** 40), 2, two)
    yield c("scales_weak", "strength = 1/64.", "ScaleCount ScaleMisfit", sharp(BINARY, 2 ** -6), 2, [[0.5]])
    yield c("mean_learned", "A shared mean as well.", "ScaleForgotten MeanPull MeanSpread", MEAN_BINARY, 2, two, **BOTH)
    yield c("mean_learned_sharp", "strength = 2^40 about a shared mean: the forecast of fixed scales.", "ScalePrior MeanPull", sharp(MEAN_BINARY, 2 ** 40), 1, two, **BOTH)
    yield c("mean_learned_centred", "A shared mean, learned scales and centred sticks.", "CentredSticks MeanPull ScaleForgotten", MEAN_LINE, 2, [[0.5]], prior_mean="centred", **BOTH)
