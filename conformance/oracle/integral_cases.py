"""Cases with integrals: log-sigmoid means (level 0), predictions and the likelihood (level 6)."""

import states as p
from special_cases import case


def sigmoid_means():
    c = lambda *a, **k: case("log_sigmoid_normal", *a, **k)
    yield c("moderate", "Means and variances of order one.", "PlugIn Jensen", m=[0.5, -1, 2], v=[1, 0.25, 4])
    yield c("zero_mean", "Symmetry: one half, whatever the variance.", "Jensen", m=[0, 0, 0], v=[1, 9, 100])
    yield c("zero_variance", "ln sigma(m).", "VarianceAsDeviation", m=[0.75, -2, 30], v=[0, 0, 0])
    yield c("tiny_variance", "Nearly ln sigma(m).", "VarianceAsDeviation", m=[1, -1], v=[2 ** -20, 2 ** -10])
    yield c("wide", "A Gaussian much wider than the sigmoid.", "PlugIn", m=[3, -8, 10], v=[100, 400, 1024])
    yield c("lower_tail", "Far below: m + v/2, while that lies below 0.", "PlugIn ExtremeLogit", m=[-30, -40, -8], v=[1, 4, 0.5])
    yield c("upper_tail", "Far above: minus the lower tail of -m.", "ExtremeLogit", m=[20, 30], v=[1, 4])
    yield c("extreme", "Means of +-1000.", "ExtremeLogit", m=[-1000, 1000], v=[1, 1])
    c = lambda *a, **k: case("stick_log_means", *a, **k)
    yield c("general", "Each stick by itself.", "PlugIn OffByOneStick FlippedStick BoundAsProbability ReversedOrder", m=[[0.5, -1.25, 2], [-0.375, 1.5, -2.25]], v=[[1, 0.25, 4], [2, 0.5, 1]])
    yield c("zero_means", "1/2, 1/4, 1/8, 1/8 for all variances.", "OffByOneStick ExtraStick BoundAsProbability", m=[[0, 0, 0]], v=[[1, 9, 0]])
    yield c("no_spread", "Variance 0: stick_log_probs.", "VarianceAsDeviation", m=[[0.5, -1.25]], v=[[0, 0]])
    yield c("extreme", "Means of +-1000 and wide Gaussians.", "ExtremeLogit", m=[[-1000, 0.5, 1000], [30, -20, 2]], v=[[4, 1, 1], [100, 64, 25]])


def posterior(s, X, **new):
    return p.change({name: s[name] for name in ("beta1_mu", "beta1_S", "beta0_mu", "beta0_S", "M", "V", "a", "b")}, X=X, **new)


def no_spread(matrices):
    return p.constant(matrices, 0)


def theta(s, X, y, **new):
    """One Theta, at the means of a state."""
    tau = [[1 / rate for rate in row] for row in s["b"]]
    return p.change({"X": X, "y": y, "beta1": s["beta1_mu"], "beta0": s["beta0_mu"], "A": s["M"], "tau": tau}, **new)


def predictions():
    c = lambda id, note, flags, given, **k: case("predict", id, note, flags, **given, **k)
    heavy = dict(a=[4, 6], b=[[2], [0.5]])
    yield c("binary", "h = 1, L = 2, K = 2.", "PlugIn NoiseForgotten RateScale BoundAsProbability DoubleNormalisation", posterior(p.BINARY, [[0.5], [-1.25]], **heavy))
    yield c("far_away", "Inputs at 8: the gate and the experts do not know.", "PlugIn NoiseForgotten BoundAsProbability", posterior(p.BINARY, [[8]], **heavy))
    yield c("heavy_tails", "a = 5/2: a Student t with five degrees of freedom, not a Gaussian.", "NoiseForgotten",
            posterior(p.BINARY, [[0.75]], a=[2.5, 2.5], b=[[4], [2]]))
    yield c("one_expert", "K = 1, h = 1: no gate.", "SingleExpert PlugIn",
            posterior(p.state("one-expert", N=1, K=1, h=1, L=2, d=2), [[0.5, -1]], a=[5]))
    yield c("four_classes", "h = 1 < L - 1: all sticks read the same latent variable and are not independent.", "LatentDimension PlugIn OffByOneStick BoundAsProbability ReversedOrder",
            posterior(p.NARROW, [[0.5, -1, 0.25]], a=[4, 8]))
    yield c("plane", "h = 2, L = 3: a plane of latent vectors.", "PlugIn OffByOneStick ColumnMajor BoundAsProbability",
            posterior(p.state("plane", N=1, K=2, h=2, L=3, d=1), [[0.75]], a=[8, 12]))
    still = p.state("unread", N=1, K=2, h=3, L=2, d=2)
    yield c("unread_directions", "h = 3, but the stick reads one direction only.", "LatentDimension NoiseForgotten",
            posterior(still, [[0.5, 1], [-1.5, 0.25]], a=[5, 7], beta1_mu=[[0, 1.5, 0, -0.5]],
                      beta1_S=[[[0, 0, 0, 0], [0, 0.25, 0, 0.125], [0, 0, 0, 0], [0, 0.125, 0, 0.5]]]))
    yield c("certain_coefficients", "No uncertainty but the noise of the experts.", "NoiseForgotten",
            posterior(p.BINARY, [[0.5], [2]], **heavy, beta1_S=no_spread(p.BINARY["beta1_S"]), beta0_S=no_spread(p.BINARY["beta0_S"]),
                      V=no_spread(p.BINARY["V"])))
    blind = p.state("blind", N=1, K=3, h=2, L=4, d=2)
    yield c("no_output", "Output means 0 and no spread: 1/2, 1/4, 1/8, 1/8, by hand.", "OffByOneStick ExtraStick DoubleNormalisation ReversedOrder",
            posterior(blind, [[1, -2], [0.25, 8]], beta1_mu=p.constant(blind["beta1_mu"], 0), beta1_S=no_spread(blind["beta1_S"])))
    constant = p.state("bias-only", N=1, K=2, h=2, L=3, d=1)
    yield c("bias_only", "Only the biases of the output: a product of one-dimensional integrals.", "PlugIn",
            posterior(constant, [[0.5], [-3]], beta1_mu=[[0, 0, 1.5], [0, 0, -0.75]],
                      beta1_S=[[[0, 0, 0], [0, 0, 0], [0, 0, 2]], [[0, 0, 0], [0, 0, 0], [0, 0, 0.5]]]))
    many = p.state("many", N=1, K=12, h=2, L=8, d=1)
    yield c("eight_classes", "Twelve experts and eight classes, of which only the biases count.", "FixedSize PlugIn BoundAsProbability",
            posterior(many, [[0.5], [-1]], beta1_mu=[[0, 0, row[2]] for row in many["beta1_mu"]],
                      beta1_S=[[[0, 0, 0], [0, 0, 0], [0, 0, S[2][2]]] for S in many["beta1_S"]]))
    yield c("extreme", "Gate logits of +-1000, certain coefficients.", "ExtremeLogit Underflow",
            posterior(p.BINARY, [[2], [-2]], **heavy, beta0_mu=[[512, 0]], beta0_S=no_spread(p.BINARY["beta0_S"])))
    yield c("scales", "b by scale.", "RateScale", posterior(p.BINARY, [[0.5]], a=[4, 6], b=[[0.5], [2]]), profile={"gamma": "scale"})


def likelihoods():
    c = lambda id, note, flags, given: case("log_likelihood", id, note, flags, **given)
    yield c("binary", "h = 1, L = 2: one integral for each expert.", "NoiseForgotten Jensen", theta(p.BINARY, [[0.5], [-1.25], [2]], [0, 1, 0]))
    yield c("one_expert", "K = 1.", "SingleExpert Jensen", theta(p.SINGLE, [[0.5, 1], [-1, 0.25]], [0, 2]))
    yield c("narrow", "h = 1, L = 4: one latent variable under three sticks.", "LatentDimension OffByOneStick",
            theta(p.NARROW, [[0.5, -1, 0.25]] * 4, [0, 1, 2, 3]))
    yield c("wide", "h = 4, L = 2: the logit is a Gaussian in one dimension.", "LatentDimension NoiseForgotten", theta(p.WIDE, [[0.5, -1], [1, 1]], [0, 1]))
    yield c("plane", "h = 2, L = 3.", "NoiseForgotten Jensen ColumnMajor", theta(p.SHARED, [[0.5, 1]] * 3, [0, 1, 2]))
    yield c("beyond", "h = 3, L = 3: two logits that depend on three latent variables.", "LatentDimension", theta(
        p.state("beyond", N=1, K=2, h=3, L=3, d=2), [[0.5, -0.75]] * 3, [0, 1, 2]))
    yield c("noise_matters", "Noise of deviation 8 under a weight of 2: the mean of the logarithm is far below the logarithm of the mean.", "Jensen NoiseForgotten",
            theta(p.BINARY, [[0.5], [0.5]], [0, 1], tau=[[1 / 64], [1 / 16]], beta1=[[2, -1]]))
    yield c("no_noise", "Precisions of 2^40: the network of means.", "RateScale", theta(p.BINARY, [[0.5], [-1.25]], [0, 1], tau=[[2 ** 40], [2 ** 40]]))
    yield c("unlikely", "Log likelihoods around -100: a sum of tails.", "Underflow ExtremeLogit",
            theta(p.BINARY, [[1], [1.5]], [0, 0], beta1=[[-32, -64]], A=[[[2, 2]], [[-1, 1.5]]], tau=[[64], [256]]))
    yield c("eight_classes", "One latent variable under seven sticks.", "FixedSize OffByOneStick",
            theta(p.state("many-lines", N=1, K=2, h=1, L=8, d=1), [[0.5]] * 3, [0, 6, 7]))
    yield c("certain_gate", "Gate logits of +-1000: one expert counts, the other costs nothing and gives no NaN.", "ExtremeLogit Underflow",
            theta(p.BINARY, [[2], [-2]], [0, 1], beta0=[[512, 0]]))
