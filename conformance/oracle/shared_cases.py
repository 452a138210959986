"""Cases of the model whose experts share a mean: the optional suite expert_mean = shared.  Levels 2 to 6."""

import states as p
from choice_cases import asked
from large_cases import EXPERTS
from special_cases import case

S = {"expert_mean": "shared"}
PULL, PRIOR, BOUND = ({"eq": f"eq-shared-{name}"} for name in ("experts", "kl", "bound"))


def with_mean(s, seed, v00=2.5):
    """The same state with q(A_0), not at its best."""
    rng, h, D = p.random.Random(f"cmn-mean-{seed}"), len(s["M"][0]), len(s["V"][0])
    return {**s, "A0_mu": p.fill((h, D), lambda: p.grid(rng, -1.5, 1.5, 16)), "A0_var": p.fill((h,), lambda: p.grid(rng, 0.25, 1.5, 16)), "v00": v00}


def nothing(s):
    """The same with A_0 = 0 for certain: the plain model."""
    return p.change(s, A0_mu=p.constant(s["A0_mu"], 0), A0_var=p.constant(s["A0_var"], 0), v00=0)


def begun(s):
    """The same with q(A_0) at its prior, as a fit begins."""
    return p.change(s, A0_mu=p.constant(s["A0_mu"], 0), A0_var=p.constant(s["A0_var"], s["v00"]))


def rowless(s):
    return p.change(s, **dict.fromkeys(("X", "y", "gamma", "mu", "Sigma", "xi1", "xi0"), []))


def at_prior(s):
    """Every expert at its prior about the shared mean."""
    eye = [[s["v0"] * (i == j) for j in range(len(s["V"][0]))] for i in range(len(s["V"][0]))]
    K = len(s["M"])
    return p.change(s, M=[s["A0_mu"]] * K, V=[eye] * K, a=[s["a0"]] * K, b=p.constant(s["b"], s["b0"]))


GENERAL, CANARY, SINGLE = with_mean(p.GENERAL, "general"), with_mean(p.CANARY, "canary"), with_mean(p.SINGLE, "single")
BINARY, SMALL, WIDE = with_mean(p.BINARY, "binary"), with_mean(p.SMALL, "small"), with_mean(p.WIDE, "wide")
SHARED, FEW, MANY = with_mean(p.SHARED, "shared"), with_mean(p.FEW_ROWS, "few-rows"), with_mean(EXPERTS, "many")
EMPTY = p.change(SMALL, gamma=p.EMPTY["gamma"])
EXTREME = p.change(SMALL, **{name: p.EXTREME[name] for name in ("beta0_mu", "beta1_mu", "xi0", "xi1")})
OFFSET = with_mean(p.OFFSET, "offset")
SCALES = p.change(SMALL, b=[[1 / rate for rate in row] for row in SMALL["b"]], b0=1 / SMALL["b0"])


def updates():
    """Level 2."""
    c = lambda id, note, flags, s, **more: asked("update_shared", id, note, flags, s, **S, **more)
    yield c("general", "Each expert pulls with its own E[tau]/v0; the q(A_0) that comes in is not read.", "MeanWeights RateScale PriorMissing", GENERAL)
    yield c("all_sizes_different", "K, h, D = 6, 3, 7.", "ColumnMajor MeanWeights WrongDimension", CANARY)
    yield c("one_expert", "K = 1: the shared mean lies between 0 and the only expert.", "SingleExpert PriorMissing", SINGLE)
    yield c("binary", "h = 1, D = 2.", "MeanWeights CovarianceAsPrecision", BINARY)
    yield c("twelve_experts", "Twelve experts: their precisions add up.", "FixedSize MeanWeights", MANY)
    yield c("unequal_precisions", "E[tau] of 1/256 and of 256: the sure expert decides.", "MeanWeights RateScale", p.change(BINARY, a=[2, 2], b=[[512], [0.0078125]]))
    yield c("experts_at_0", "M = 0: the mean is 0, its variance is that of the precisions alone.", "MeanWeights PriorMissing", p.change(SMALL, M=p.constant(SMALL["M"], 0)))
    yield c("empty_expert", "An expert without rows counts like any other, with its prior precision.", "EmptyExpert MeanWeights",
            p.change(EMPTY, M=[EMPTY["M"][0], EMPTY["A0_mu"], EMPTY["M"][2]], a=[EMPTY["a"][0], EMPTY["a0"], EMPTY["a"][2]], b=[EMPTY["b"][0], [EMPTY["b0"]] * 2, EMPTY["b"][2]]))
    yield c("no_rows", "No row: only the experts are read.", "EmptyExpert MeanWeights", rowless(SMALL))
    yield c("narrow_prior", "v00 = 2^-20: hardly any mean.", "PriorMissing VarianceAsDeviation CovarianceAsPrecision", p.change(SMALL, v00=2 ** -20))
    yield c("wide_prior", "v00 = 2^40: the weighted average of the experts, which nothing pulls to 0.", "PriorMissing MeanWeights", p.change(SMALL, v00=2 ** 40))
    yield c("no_prior_variance", "v00 = 0: A_0 = 0 for certain, and no 0/0.", "PriorMissing CovarianceAsPrecision", p.change(SMALL, v00=0))
    yield c("scales", "b of the experts by scale.", "RateScale", SCALES, gamma="scale")

    c = lambda id, note, flags, s, **more: asked("update_experts", id, note, flags, s, PULL, **S, **more)
    yield c("mean_general", "The prior mean is E[A_0], and D variances of A_0 stand in every rate.", "MeanPull MeanSpread PriorMissing Unweighted", GENERAL)
    yield c("mean_all_sizes_different", "K, h, D = 6, 3, 7.", "ColumnMajor MeanPull MeanSpread", CANARY)
    yield c("mean_one_expert", "K = 1.", "SingleExpert MeanPull", SINGLE)
    yield c("mean_binary", "h = 1, L = 2.", "MeanPull MeanSpread CovarianceAsPrecision", BINARY)
    yield c("mean_wide", "h = 4 > L - 1.", "LatentDimension MeanPull", WIDE)
    yield c("mean_empty_expert", "An expert without rows returns to its prior, whose mean is E[A_0].", "EmptyExpert MeanPull MeanSpread", EMPTY)
    yield c("mean_no_rows", "No row: every expert returns to its prior about E[A_0].", "EmptyExpert MeanPull MeanSpread", rowless(SMALL))
    yield c("mean_few_rows", "Fewer rows than columns: the shared mean decides where the rows do not.", "MeanPull PriorMissing", FEW)
    yield c("mean_certain", "A_0 known: no variance in the rates.", "MeanPull SecondMoment", p.change(SMALL, A0_var=[0, 0]))
    yield c("mean_0", "E[A_0] = 0: its variance alone tells it from the plain model.", "MeanSpread", p.change(SMALL, A0_mu=p.constant(SMALL["A0_mu"], 0)))
    yield c("mean_nothing", "A_0 = 0 for certain: the numbers of the plain model.", "MeanPull MeanSpread", nothing(GENERAL))
    yield c("mean_far", "E[A_0] of 256: rates of residuals, not of large sums.", "LargeOffset MeanPull", p.change(SMALL, A0_mu=[[256, -128, 512], [-512, 256, 128]]))
    yield c("mean_offset", "Inputs around 64 and a prior that does not pull.", "LargeOffset", OFFSET)
    yield c("mean_scales", "b by scale.", "RateScale MeanSpread", SCALES, gamma="scale")


def bound():
    """Level 3."""
    c = lambda id, note, flags, s: asked("kl_shared", id, note, flags, s, **S)
    yield c("general", "h rows of D entries.", "DroppedConstant VarianceAsDeviation PriorMissing", GENERAL)
    yield c("all_sizes_different", "h, D = 3, 7.", "WrongDimension DroppedConstant", CANARY)
    yield c("binary", "h = 1, D = 2.", "WrongDimension CovarianceAsPrecision", BINARY)
    yield c("prior", "0 at the prior.", "DroppedConstant WrongDimension", begun(SMALL))
    yield c("wide_prior", "v00 = 2^20: the logarithm of the prior's volume counts.", "DroppedConstant VarianceAsDeviation", p.change(SMALL, v00=2 ** 20))
    yield c("sure", "A variance of 2^-20 under v00 = 4.", "DroppedConstant VarianceAsDeviation", p.change(SMALL, A0_var=[2 ** -20, 2 ** -18], v00=4))
    yield c("no_prior_variance", "v00 = 0: nothing to know, and no ln 0.", "PriorMissing", nothing(SMALL))

    c = lambda id, note, flags, s: asked("kl_experts", id, note, flags, s, PRIOR, **S)
    yield c("mean_general", "The divergence from the prior about A_0, averaged over A_0.", "MeanPull MeanSpread DroppedConstant", GENERAL)
    yield c("mean_all_sizes_different", "K, h, D = 6, 3, 7.", "WrongDimension MeanSpread ColumnMajor", CANARY)
    yield c("mean_one_expert", "K = 1.", "SingleExpert MeanPull", SINGLE)
    yield c("mean_prior", "Experts at their prior about E[A_0]: only the variance of A_0 is left, K h D E[tau] var/(2 v0).", "MeanSpread MeanPull", at_prior(SMALL))
    yield c("mean_certain", "A_0 known: the divergence from a prior of that mean.", "MeanPull SecondMoment", p.change(SMALL, A0_var=[0, 0]))
    yield c("mean_nothing", "A_0 = 0 for certain: the number of the plain model.", "MeanPull MeanSpread", nothing(GENERAL))

    c = lambda id, note, flags, s, **more: asked("elbo", id, note, flags, s, BOUND, **S, **more)
    yield c("mean_general", "Nine terms.", "PriorMissing DroppedConstant MeanSpread StaleTilt", GENERAL)
    yield c("mean_all_sizes_different", "The axes are 8 6 5 3 4 2 7.", "ColumnMajor WrongDimension DroppedConstant", CANARY)
    yield c("mean_one_expert", "K = 1: no gate.", "SingleExpert PriorMissing", SINGLE)
    yield c("mean_binary", "h = 1, L = 2.", "MeanSpread PriorMissing", BINARY)
    yield c("mean_tilts", "One tilt for all experts.", "SharedTilt MeanSpread", SHARED)
    yield c("mean_empty_expert", "0 ln 0 for the rows of one expert.", "EmptyExpert OneHot MeanPull", EMPTY)
    yield c("mean_no_rows", "No row: minus four divergences.", "PriorMissing MeanSpread DroppedConstant", rowless(SMALL))
    yield c("mean_begun", "q(A_0) at its prior, as a fit begins.", "MeanSpread", begun(SMALL))
    yield c("mean_extreme", "Logits of +-1000: finite.", "ExtremeLogit HugeTilt PriorMissing", EXTREME)
    yield c("mean_nothing", "A_0 = 0 for certain: the number of the plain model.", "PriorMissing MeanSpread", nothing(GENERAL))
    yield c("mean_centred", "Centred sticks as well.", "CentredSticks MeanPull", GENERAL, prior_mean="centred")


def trajectories():
    """Level 4."""
    def c(id, note, flags, s, n, order="canonical", inner=1, **more):
        return asked("sweeps", id, note, f"UpdateOrder {flags}", s, {"eq": "eq-shared-sweep"}, n, inner=inner, order=order, **S, **more)
    yield c("mean_1", "A_0 first, from the experts that come in.", "MeanWeights MeanPull MeanSpread", SMALL, 1)
    for n in (2, 5):
        yield c(f"mean_{n}", "A_0 and the experts in turn.", "MeanWeights MeanPull MeanSpread", BINARY, n)
    yield c("mean_one_expert", "K = 1.", "SingleExpert MeanPull", SINGLE, 2)
    yield c("mean_wide", "h = 4 > L - 1.", "LatentDimension MeanPull", WIDE, 1)
    yield c("mean_first_sweep", "q(A_0) at its prior, tilts 0, as a fit begins.", "ZeroTilt MeanWeights", p.change(begun(SMALL), xi1=p.constant(SMALL["xi1"], 0), xi0=p.constant(SMALL["xi0"], 0)), 1)
    yield c("mean_inner_2", "Two rounds of (x, omega1): A_0 once a sweep.", "StaleTilt", BINARY, 2, inner=2)
    yield c("mean_m_first", "M-step first, and A_0 before it.", "StaleTilt MeanPull", BINARY, 2, order="m-first")
    yield c("mean_tilts", "One tilt of omega_1 for all experts.", "SharedTilt", SHARED, 1)
    yield c("mean_no_rows", "No row: nothing but the prior, and A_0 forgets what it came with.", "EmptyExpert MeanPull MeanSpread", rowless(BINARY), 2)
    yield c("mean_extreme", "From logits of +-1000: finite.", "ExtremeLogit Underflow", EXTREME, 1)
    yield c("mean_nothing", "v00 = 0: the numbers of the plain model.", "PriorMissing MeanPull", nothing(BINARY), 2)
    yield c("mean_wide_prior", "v00 = 2^20: A_0 is the experts' weighted average.", "PriorMissing MeanWeights", p.change(BINARY, v00=2 ** 20), 2)
    yield c("mean_centred", "Centred sticks as well.", "CentredSticks", SMALL, 1, prior_mean="centred")


def fixed_points():
    """Level 5."""
    c = lambda id, note, s, order="canonical", flags="UpdateOrder MeanPull": asked("stationarity", id, note, flags, s, {"eq": "eq-shared-sweep"}, inner=1, order=order, **S)
    yield c("mean_general", "Far from a fixed point: A_0 moves as well.", GENERAL)
    yield c("mean_one_expert", "K = 1.", SINGLE, flags="UpdateOrder SingleExpert MeanWeights")
    yield c("mean_m_first", "M-step first.", BINARY, order="m-first")

    c = lambda id, note, flags, s: case("converge", id, note, flags, profile={"order": "canonical", **S}, how={"eq": "eq-shared-bound"}, **s)
    yield c("mean_binary", "K = 2, h = 1, L = 2, the priors of the paper.", "PriorMissing MeanSpread", BINARY)
    yield c("mean_three_classes", "K = 2, h = 1, L = 3.", "MeanPull PriorMissing", with_mean(p.state("three-classes", N=9, K=2, h=1, L=3, d=1), "three-classes"))


def forecasts():
    """Level 6: what new rows are told after a few sweeps."""
    def c(id, note, flags, s, n, X, **more):
        return case("forecast", id, note, flags, profile={**S, **more}, options=tuple(more), **s, n_sweeps=n, X_new=X)
    yield c("binary_1", "One sweep, h = 1.", "MeanPull MeanWeights NoiseForgotten PlugIn", BINARY, 1, [[0.5], [-1.25]])
    yield c("binary_5", "Five sweeps.", "MeanPull MeanSpread UpdateOrder", BINARY, 5, [[0.5], [-1.25]])
    yield c("far_away", "An input at 8, where no row was: the experts forecast by what they share.", "MeanPull PlugIn NoiseForgotten", BINARY, 2, [[8]])
    yield c("one_expert", "K = 1, h = 1.", "SingleExpert PlugIn MeanPull", with_mean(p.state("one-expert-forecast", N=6, K=1, h=1, L=2, d=1), "one-expert-forecast"), 2, [[0.75], [-2]])
    yield c("four_classes", "h = 1 < L - 1.", "LatentDimension OffByOneStick MeanPull", with_mean(p.state("four-classes", N=8, K=2, h=1, L=4, d=1), "four-classes"), 2, [[0.5]])
    yield c("no_rows", "Fitted to no row: the prior's forecast, whatever the state came with.", "EmptyExpert MeanPull PlugIn", rowless(BINARY), 3, [[0.5]])
    yield c("centred", "Centred sticks of gate and output, whose priors are not equally wide.", "CentredSticks VarianceAsDeviation MeanPull",
            with_mean(p.state("centred-forecast", N=8, K=3, h=1, L=3, d=1), "centred-forecast"), 2, [[0.5]], prior_mean="centred")
    yield c("nothing", "v00 = 0: the plain model's forecast.", "PriorMissing MeanSpread", nothing(BINARY), 2, [[0.5], [-1.25]])
