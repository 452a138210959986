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


GENERAL, CANARY, SINGLE = learned(p.GENERAL, "general"), learned(p.CANARY, "canary"), learned(p.SINGLE, "single")
BINARY, SMALL, WIDE = learned(p.BINARY, "binary"), learned(p.SMALL, "small"), learned(p.WIDE, "wide")
WITH_MEAN = learned(m.GENERAL, "with-mean")


def updates():
    """Level 2."""
    c = lambda id, note, flags, s, how=None, **profile: asked("update_scales", id, note, flags, s, how, **{**S, **profile})
    yield c("general", "Each block has a misfit and a number of coefficients; the q(lambda) that comes in is not read.", "ScaleCount ScaleMisfit ScalePrior", GENERAL)


def bound():
    """Level 3."""
    c = lambda id, note, flags, s, **profile: asked("kl_scales", id, note, flags, s, **{**S, **profile})
    yield c("general", "A divergence of Gammas and a difference of logarithms for each block.", "ScaleLog ScaleCount ScalePrior DroppedConstant", GENERAL)


def trajectories():
    """Level 4."""
    def c(id, note, flags, s, n, order="canonical", inner=1, **profile):
        return asked("sweeps", id, note, f"UpdateOrder {flags}", s, SWEEP, n, inner=inner, order=order, **{**S, **profile})
    yield c("scales_1", "Scales first, from the coefficients that come in.", "ScaleForgotten ScaleMisfit", BINARY, 1)


def fixed_points():
    """Level 5."""
    return iter(())


def forecasts():
    """Level 6."""
    return iter(())
