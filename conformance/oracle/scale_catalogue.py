"""What the optional suite of learned scales asks: arguments, operations, formulas and flags."""

SUITE, VALUES = "learned scales", ("fixed", "learned")
MEANING = ("prior scales of the coefficients: v0, sigma0 and sigma1 as they are, or precisions lambda = 1/v0, 1/sigma0^2, 1/sigma1^2 with Gamma priors of shape strength and of these "
           "values' means, and q(lambda) Gammas of mean lam_mean and shape lam_shape; every sweep then begins with update_scales")
CHAPTERS = {"beyond/shared_means": ["eq-shared-gamma-prior", "eq-shared-misfit", "eq-shared-gamma", "eq-shared-in-force", "eq-shared-scale-terms"]}
DIMENSIONS = {"B": "blocks of coefficients with a scale of their own, 3: experts, gate, output"}
STATE = {
    "lam_mean": (["B"], "float", "means of q(1/v0), q(1/sigma0^2), q(1/sigma1^2), in this order"),
    "lam_shape": (["B"], "float", "their shapes; the rate is shape/mean")}
PRIORS = {"strength": ([], "float", "shape of the Gamma priors of 1/v0, 1/sigma0^2, 1/sigma1^2, whose means these values are")}
ONLY_UNDER = dict.fromkeys((*STATE, *PRIORS), {"scales": "learned"})

BLOCKS = ("block 1: Q = sum_ki ((a_k/b_ki)(|M_ki - A0_mu_i|^2 + D A0_var_i) + tr V_k), n = K h D, v = v0 (A0_mu = A0_var = 0 where nothing is shared); block 2: Q = sum_j "
          "(|beta0_mu_j - m0_j|^2 + tr beta0_S_j), n = (K-1) D, v = sigma0^2; block 3: the same of beta1, n = (L-1)(h+1), v = sigma1^2; m0 the prior means")
FORMULAS = {
    "update_scales": f"lam_shape = strength + n/2, lam_mean = lam_shape/(strength v + Q/2); {BLOCKS}",
    "kl_scales": "sum over blocks of (c - c0) digamma(c) - lnGamma(c) + lnGamma(c0) + c0 (ln r - ln r0) + c (r0 - r)/r - (n/2)(digamma(c) - ln c), c = lam_shape, r = c/lam_mean, "
                 "c0 = strength, r0 = c0 v; n = K h D, (K-1) D, (L-1)(h+1), v = v0, sigma0^2, sigma1^2"}
IN_FORCE = "learned scales: 1/lam_mean for v0, sigma0^2, sigma1^2"          # in the formulas that read them
DEFINITIONS = {
    "update_scales": (2, "eq-shared-gamma", "Best q(1/v0), q(1/sigma0^2), q(1/sigma1^2) given all coefficients; a block without coefficients (the gate of one expert) keeps its prior."),
    "kl_scales": (3, "eq-shared-scale-terms", "sum over the three blocks of KL[q(lambda) || p(lambda)] - (n/2)(E ln lambda - ln E lambda): what is left of the divergences when those of the coefficients go by "
                  "the scales in force.")}
DEPENDS = {"update_scales": "M V a b beta0_mu beta0_S beta1_mu beta1_S A0_mu A0_var v0 sigma0 sigma1 strength",
           "kl_scales": "M beta0_mu beta1_mu lam_mean lam_shape v0 sigma0 sigma1 strength"}
READ_IN_FORCE = ("update_beta1", "update_beta0", "update_experts", "update_shared", "kl_beta1", "kl_beta0", "kl_experts")      # 1/lam_mean in the place of the prior's value
READERS = {*DEFINITIONS, *READ_IN_FORCE, "elbo", "sweeps", "stationarity", "converge", "forecast"}
FLAGS = {
    "ScaleMean": ("eq-shared-in-force", "Another mean of lambda than E[lambda]: the inverse of E[1/lambda], the mode, exp(E ln lambda), or E[sigma] for the root of 1/E[lambda]."),
    "ScaleForgotten": ("eq-shared-in-force", "The prior's value of a scale where the learned one is in force, that of another block, or a scale of the last sweep."),
    "ScaleCount": ("eq-shared-misfit", "How many coefficients a block has: without biases, without the factor K, h or D, with a stick too many, rows for coefficients; or n for n/2."),
    "ScaleMisfit": ("eq-shared-misfit", "The misfit Q of a block without its covariances, without E[tau] or with E[tau] on the covariance as well, without biases, not about the prior means."),
    "ScalePrior": ("eq-shared-gamma-prior", "The prior of lambda: its rate not the shape times the value of the prior, its value read as a precision or a deviation, or no prior."),
    "ScaleLog": ("eq-shared-scale-terms", "E ln lambda and ln E lambda taken for each other in the bound, or what the divergence of lambda says left out, halved or added.")}


def operations(full, value):
    outs = {"update_scales": STATE, "kl_scales": value}
    return {name: (level, label, text, full, outs[name]) for name, (level, label, text) in DEFINITIONS.items()}
