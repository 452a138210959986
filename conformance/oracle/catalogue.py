"""What the vectors are about: the operations, the flags, and the equation behind each.

generate.py writes this as conformance/cmn_conformance/ops.json and flags.json.
"""

import deep_catalogue as deep
import outputs_catalogue as others
import scale_catalogue as scales
from choices import DEFAULT_PROFILE, OPEN, OPTIONAL, PARAMETRISATIONS, PROFILE, reads
from formulas import FORMULAS

CHAPTERS = {
    "ideas/stick_breaking": ["eq-stick", "eq-stick-counts", "eq-stick-inverse", "eq-log-sigmoid", "eq-kappa"],
    "network/simulate": ["eq-data", "eq-priors"],
    "ideas/polya_gamma": ["eq-log-cosh", "eq-pg-mean", "eq-pg-var", "eq-pg-kl", "eq-pg-kl-near", "eq-pg-near", "eq-pg-far"],
    "ideas/expfam": ["eq-pad", "eq-second-moment", "eq-padded-moment", "eq-gaussian-entropy", "eq-gaussian-kl", "eq-gamma",
                           "eq-gamma-mean-log", "eq-gamma-kl", "eq-mng", "eq-mng-kl", "eq-mn-rows"],
    "ideas/logistic": ["eq-mr-bound", "eq-sigmoid-normal", "eq-mr-predict"],
    "network/experts": ["eq-expert-update", "eq-expert-density", "eq-b-residual"],
    "network/gate": ["eq-gate-logits", "eq-gate-tilt", "eq-gate-bound", "eq-gate-counts", "eq-gate-mu"],
    "network/latents": ["eq-output-logits", "eq-output-bound", "eq-latent-x", "eq-latent-natural", "eq-output-tilt",
                        "eq-output-tilt-shared", "eq-row-gamma", "eq-row-score", "eq-row-max", "eq-row-normaliser"],
    "network/elbo": ["eq-elbo", "eq-elbo-constants", "eq-global-kl", "eq-category-entropy"],
    "network/cavi": ["eq-beta1", "eq-sweep"],
    "engineering/fit": ["eq-stop"],
    "network/predict": ["eq-predict", "eq-pred-likelihood", "eq-pred-t"],
    "beyond/shared_means": ["eq-shared-q", "eq-shared-experts", "eq-shared-kl", "eq-shared-bound", "eq-shared-sweep", *scales.CHAPTERS["beyond/shared_means"]],
    "beyond/structured": ["eq-lean-objective", "eq-lean-best", "eq-lean-frame", "eq-lean-shared", "eq-lean-row", "eq-lean-bound", "eq-lean-coefficients"],
    **deep.CHAPTERS,
    **others.CHAPTERS,
}
CHAPTER_OF = {label: chapter for chapter, labels in CHAPTERS.items() for label in labels}


def link(label):
    """Where the equation stands, relative to the root of the built book."""
    return f"book/{CHAPTER_OF[label]}.html#equation-{label}"


# ---- arguments: name -> (shape, kind, meaning). [] is a plain number.

DIMENSIONS = {
    "n": "entries, or rows of a small table", "J": "sticks", "m": "dimension of a Gaussian", "N": "rows of data",
    "d": "input dimension", "D": "d + 1: padded inputs, the 1 last", "h": "latent dimension", "K": "experts", "L": "classes",
    "T": "sweeps", **deep.DIMENSIONS, **others.DIMENSIONS, **scales.DIMENSIONS}

STATE = {
    "beta1_mu": (["L-1", "h+1"], "float", "means of q(beta_1), one row per output stick, the bias last"),
    "beta1_S": (["L-1", "h+1", "h+1"], "float", "their covariances"),
    "beta0_mu": (["K-1", "D"], "float", "means of q(beta_0), one row per gate stick, the bias last"),
    "beta0_S": (["K-1", "D", "D"], "float", "their covariances"),
    "M": (["K", "h", "D"], "float", "means of A_k"),
    "V": (["K", "D", "D"], "float", "column covariances: row i of A_k, given tau_ki, is N(M_ki, V_k / tau_ki)"),
    "a": (["K"], "float", "shapes of q(tau)"),
    "b": (["K", "h"], "float", "rates of q(tau), or scales under the profile gamma = scale"),
    "nu": (["K"], "float", "degrees of freedom of q(Lambda_k), Wishart noise"),
    "U": (["K", "h", "h"], "float", "inverses of its scale matrices: E[Lambda_k] = nu_k U_k^-1"),
    "gamma": (["N", "K"], "float", "responsibilities q(z_n = k)"),
    "mu": (["N", "K", "h"], "float", "means of q(x1_n | z_n = k)"),
    "Sigma": (["N", "K", "h", "h"], "float", "their covariances"),
    "xi1": (["N", "K", "L-1"], "float", "tilts of q(omega_1 | z_n = k); shape (N, L-1) under the profile omega1 = shared"),
    "xi0": (["N", "K-1"], "float", "tilts of q(omega_0 | z_n)"),
    "A0_mu": (["h", "D"], "float", "means of q(A_0), the mean that all experts share"),
    "A0_var": (["h"], "float", "its variances: row i is N(A0_mu_i, A0_var_i I)"),
    **scales.STATE,
}
DATA = {"X": (["N", "d"], "float", "inputs, without the padding 1"), "y": (["N"], "int", "classes 0 .. L-1")}
PRIORS = {
    "v0": ([], "float", "variance scale of the prior of A: V_0 = v0 I"), "a0": ([], "float", "shape of the prior of tau"),
    "b0": ([], "float", "rate of the prior of tau, or scale under gamma = scale"),
    "nu0": ([], "float", "degrees of freedom of the prior of Lambda"), "U0": (["h", "h"], "float", "inverse of its scale matrix"),
    "sigma0": ([], "float", "prior standard deviation of each gate coefficient"),
    "sigma1": ([], "float", "prior standard deviation of each output coefficient"),
    "beta1_m0": (["L-1", "h+1"], "float", "prior means of beta_1"), "beta0_m0": (["K-1", "D"], "float", "prior means of beta_0"),
    "v00": ([], "float", "prior variance of each entry of A_0; 0: A_0 = 0"),
    "frame": (["K", "h", "h"], "float", "a frame of each expert, its directions as columns; no update moves it"),
    "rank": ([], "int", "size of the block, 0 .. h"), **scales.PRIORS}
FULL = {**DATA, **STATE, **PRIORS}
ONLY_UNDER = {**dict.fromkeys(("a", "b", "a0", "b0"), {"noise": "gamma"}), **dict.fromkeys(("nu", "U", "nu0", "U0"), {"noise": "wishart"}),
              **dict.fromkeys(("beta1_m0", "beta0_m0"), {"prior_mean": "given"}),
              **dict.fromkeys(("A0_mu", "A0_var", "v00"), {"expert_mean": "shared"}), **dict.fromkeys(("frame", "rank"), {"latent_posterior": "low-rank"}), **deep.ONLY_UNDER, **scales.ONLY_UNDER}
PARAMETERS = dict(list(STATE.items())[:10])


def pick(*names, **changes):
    return {name: changes.get(name, FULL.get(name)) for name in (*names, *changes)}


def row(meaning, shape=("n",)):
    return (list(shape), "float", meaning)


VALUE = {"value": ([], "float", "nats")}
ELBO_TERMS = {
    "elbo_output": ("eq-output-bound", "sum_nk gamma_nk E[ln p(y, omega_1 | x1, beta_1) - ln q(omega_1 | z = k)]: the labels, at the stored tilts"),
    "elbo_expert": ("eq-expert-density", "sum_nk gamma_nk E[ln N(x1; A_k x~, diag(1/tau_k))]: the latent vectors under their experts"),
    "elbo_latent_entropy": ("eq-gaussian-entropy", "sum_nk gamma_nk H[q(x1_n | z_n = k)]"),
    "elbo_gate": ("eq-gate-bound", "sum_nk gamma_nk E[ln p(z = k, omega_0 | x0, beta_0) - ln q(omega_0 | z = k)]: the gate, at the stored tilts"),
    "elbo_assignment_entropy": ("eq-category-entropy", "sum_n H[q(z_n)], with 0 ln 0 = 0"),
    "kl_beta1": ("eq-global-kl", "sum_l KL[q(beta_1l) || N(0, sigma1^2 I)], a positive number"),
    "kl_beta0": ("eq-global-kl", "sum_j KL[q(beta_0j) || N(0, sigma0^2 I)], a positive number"),
    "kl_experts": ("eq-global-kl", "sum_k KL[q(A_k, tau_k) || prior], a positive number; expert_mean = shared: its mean over q(A_0)"),
    "kl_shared": ("eq-shared-kl", "sum_i KL[q(A_0i) || N(0, v00 I)], a positive number; 0 where v00 = 0"),
    "elbo": ("eq-elbo", "the complete bound: the five expectations minus the three divergences; expert_mean = shared: minus kl_shared as well; scales = learned: minus kl_scales as well"),
}
MOVED = "beta1_mu, beta0_mu, M, a, b, gamma"

# name -> (level, equation, definition, in, out)
OPS = {
    "stick_log_probs": (0, "eq-stick", "ln pi_c of sticks with logits psi of stopping: ln pi_c = ln sigma(psi_c) + sum_{j<c} ln sigma(-psi_j).",
                        {"psi": row("logits of stopping", ["n", "J"])}, {"log_probs": row("nats", ["n", "J+1"])}),
    "stick_counts": (0, "eq-stick-counts", "b_j = sum_{k>=j} w_k and kappa_j = w_j - b_j/2 of each stick.",
                     {"weights": row("one-hot labels, responsibilities or counts", ["n", "K"])},
                     {"b": row("expected tosses", ["n", "K-1"]), "kappa": row("excess of heads", ["n", "K-1"])}),
    "stick_logits": (0, "eq-stick-inverse", "Inverse of stick_log_probs: psi_j = ln p_j - ln sum_{c>j} p_c; 0 for a stick that is never reached.",
                     {"log_probs": row("nats, up to a constant for each row", ["n", "J+1"])}, {"psi": row("logits", ["n", "J"])}),
    "log_cosh_half": (0, "eq-log-cosh", "ln cosh(c/2).", {"c": row("tilts of any sign")}, {"value": row("nats")}),
    "pg_mean": (0, "eq-pg-mean", "E[omega] of omega ~ PG(b, c): b tanh(c/2) / (2c), b/4 at c = 0.",
                {"b": row("shapes >= 0"), "c": row("tilts of any sign")}, {"mean": row("E[omega]")}),
    "pg_var": (0, "eq-pg-var", "Var[omega] of omega ~ PG(b, c): b (sinh c - c) / (4 c^3 cosh^2(c/2)), b/24 at c = 0.",
               {"b": row("shapes >= 0"), "c": row("tilts of any sign")}, {"var": row("Var[omega]")}),
    "pg_kl": (0, "eq-pg-kl", "KL[PG(b, c) || PG(b, 0)] = b (ln cosh(c/2) - (c/4) tanh(c/2)).",
              {"b": row("shapes >= 0"), "c": row("tilts of any sign")}, {"kl": row("nats")}),
    "log_sigmoid_normal": (0, "eq-sigmoid-normal", "ln E[sigma(psi)] for psi ~ N(m, v).",
                           {"m": row("means"), "v": row("variances >= 0")}, {"log_mean": row("nats")}),
    "stick_log_means": (0, "eq-mr-predict", "ln E[pi_c] of sticks with independent psi_j ~ N(m_j, v_j).",
                        {"m": row("means", ["n", "J"]), "v": row("variances >= 0", ["n", "J"])}, {"log_probs": row("nats", ["n", "J+1"])}),

    "second_moment": (1, "eq-second-moment", "E[x x^T] of x ~ N(mu, S).",
                      {"mu": row("mean", ["m"]), "S": row("covariance", ["m", "m"])}, {"value": row("E[x x^T]", ["m", "m"])}),
    "padded_second_moment": (1, "eq-padded-moment", "E[x~ x~^T] of x ~ N(mu, S), x~ = [x; 1], the 1 last.",
                             {"mu": row("mean", ["m"]), "S": row("covariance", ["m", "m"])}, {"value": row("E[x~ x~^T]", ["m+1", "m+1"])}),
    "gaussian_entropy": (1, "eq-gaussian-entropy", "Entropy of N(mu, S).", {"S": row("covariance", ["m", "m"])}, VALUE),
    "gaussian_kl": (1, "eq-gaussian-kl", "KL[N(mu, S) || N(0, sigma^2 I)].",
                    {"mu": row("mean", ["m"]), "S": row("covariance", ["m", "m"]), "sigma": ([], "float", "standard deviation")}, VALUE),
    "gamma_mean_log": (1, "eq-gamma-mean-log", "E[ln tau] of tau ~ Gamma(shape a, rate b).",
                       {"a": row("shapes"), "b": row("rates, or scales under gamma = scale")}, {"value": row("nats")}),
    "gamma_kl": (1, "eq-gamma-kl", "KL[Gamma(a, b) || Gamma(a0, b0)].",
                 {"a": row("shapes"), "b": row("rates, or scales under gamma = scale"), **pick("a0", "b0")}, {"value": row("nats")}),
    "mng_kl": (1, "eq-mng-kl", "KL of each expert's matrix-normal-gamma q(A_k, tau_k) from its prior (mean 0, V_0 = v0 I, a0, b0).",
               pick("M", "V", "a", "b", "v0", "a0", "b0"), {"value": row("nats", ["K"])}),
    "wishart_mean_log_det": (1, "eq-gamma-mean-log", "E[ln |Lambda|] of Lambda ~ Wishart(nu, U), E[Lambda] = nu U^-1; for h = 1 it is Gamma(nu/2, U/2).",
                             pick("nu", "U"), {"value": row("nats", ["K"])}),
    "wishart_kl": (1, "eq-gamma-kl", "KL[Wishart(nu, U) || Wishart(nu0, U0)].", pick("nu", "U", "nu0", "U0"), {"value": row("nats", ["K"])}),
    "mnw_kl": (1, "eq-mng-kl", "KL of each expert's matrix-normal-Wishart q(A_k, Lambda_k) from its prior (mean 0, V_0 = v0 I, nu0, U0).",
               pick("M", "V", "nu", "U", "v0", "nu0", "U0"), {"value": row("nats", ["K"])}),
    "categorical_entropy": (1, "eq-category-entropy", "H[q(z_n)] of each row, with 0 ln 0 = 0.", pick("gamma"), {"value": row("nats", ["N"])}),
    "gate_logits": (1, "eq-gate-logits", "E[psi_0j] and E[psi_0j^2] of every gate stick.", pick("X", "beta0_mu", "beta0_S"),
                    {"psi": row("first moments", ["N", "K-1"]), "psi2": row("second moments", ["N", "K-1"])}),
    "output_logits": (1, "eq-output-logits", "E[psi_1l] and E[psi_1l^2] of every output stick under q(x1 | z = k) q(beta_1).",
                      pick("mu", "Sigma", "beta1_mu", "beta1_S"),
                      {"psi": row("first moments", ["N", "K", "L-1"]), "psi2": row("second moments", ["N", "K", "L-1"])}),
    "stick_log_bound": (1, "eq-mr-bound", "sum_j (kappa_j psi_j - b_j (ln 2 + theta(xi_j) psi2_j / 2 + KL_PG(xi_j))): E[ln p(y, omega | psi) - ln q(omega)].",
                        {name: row(meaning, ["n", "J"]) for name, meaning in (
                            ("psi", "E[psi]"), ("psi2", "E[psi^2]"), ("xi", "tilts, not necessarily the best"),
                            ("b", "tosses"), ("kappa", "excess of heads"))}, {"value": row("nats")}),

    "update_x": (2, "eq-latent-x", "Best q(x1 | z = k), of the family latent_posterior, given q(omega_1), q(beta_1), the experts and, where experts or rows share something, q(z).", FULL, pick("mu", "Sigma")),
    "update_omega1": (2, "eq-output-tilt", "Best q(omega_1) given q(x1 | z) and q(beta_1), and the current gamma if shared; every stick, also those "
                      "that the label does not reach.", FULL, pick("xi1")),
    "update_omega0": (2, "eq-gate-tilt", "Best q(omega_0 | z) given q(beta_0); every stick.", FULL, pick("xi0")),
    "update_z": (2, "eq-row-gamma", "Best q(z) given every other factor as it stands, with the stored tilts.", FULL, pick("gamma")),
    "update_beta1": (2, "eq-beta1", "Best q(beta_1) given q(z), q(x1 | z) and q(omega_1).", FULL, pick("beta1_mu", "beta1_S")),
    "update_beta0": (2, "eq-gate-mu", "Best q(beta_0) given q(z) and q(omega_0 | z).", FULL, pick("beta0_mu", "beta0_S")),
    "update_experts": (2, "eq-expert-update", "Best q(A_k, tau_k) given q(z) and q(x1 | z); expert_mean = shared: and q(A_0).", FULL, pick("M", "V", "a", "b", "nu", "U")),
    "update_shared": (2, "eq-shared-q", "Best q(A_0), the mean that all experts share, given q(A_k, tau_k).", FULL, pick("A0_mu", "A0_var")),

    **scales.operations(FULL, VALUE),
    **{name: (3, label, text + ".", FULL, VALUE) for name, (label, text) in ELBO_TERMS.items()},

    "sweeps": (4, "eq-sweep", "n_sweeps sweeps from the given state, in the order of the profile; canonical: (x, omega1) inner times, omega0, z, beta1, beta0, "
               "experts; m-first: beta1, beta0, experts, then (x, omega1) inner times, omega0, z; expert_mean = shared: update_shared before all of it; scales = learned: update_scales before that. elbo is the complete bound after each whole sweep.",
               {**FULL, "n_sweeps": ([], "int", "how many")}, {**STATE, "elbo": row("bound after each sweep, nats", ["T"])}),
    "stationarity": (5, "eq-stop", "Residual of a state: the largest |new - old| / (1 + |old|) over the entries of "
                     f"{MOVED} (and A0_mu, where it is shared; lam_mean, where scales are learned) after one sweep in the order of the profile.", FULL, {"residual": ([], "float", "0 at a fixed point")}),
    "converge": (5, "eq-stop", "Sweeps from the given state until the residual of stationarity is below 1e-9 (float32: until it no longer falls), "
                 "at most 20000; the bound there and the residual.", FULL,
                 {"elbo": ([], "float", "bound at the fixed point, nats"), "residual": ([], "float", "should be 0")}),
    "predict": (6, "eq-predict", "ln p(y = c | x, data): gate, latent vector, experts and coefficients all integrated out under q.",
                {**pick("X"), **PARAMETERS}, {"log_probs": row("nats", ["N", "L"])}),
    "log_likelihood": (6, "eq-pred-likelihood", "ln p(y_n | x_n, Theta) of one fixed Theta: experts summed, the latent vector integrated out.",
                       {**DATA, "beta1": row("output coefficients", ["L-1", "h+1"]), "beta0": row("gate coefficients", ["K-1", "D"]),
                        "A": row("experts", ["K", "h", "D"]), "tau": row("noise precisions", ["K", "h"])}, {"log_lik": row("nats", ["N"])}),
    "forecast": (6, "eq-predict", "What predict says of new rows after n_sweeps sweeps from the given state, as sweeps makes them: a fit, seen by its probabilities.",
                 {**FULL, "n_sweeps": ([], "int", "how many"), "X_new": (["n", "d"], "float", "new rows, without the padding 1")},
                 {"log_probs": row("nats", ["n", "L"])}),
    **deep.operations(DATA, PRIORS, VALUE),
    **others.operations(FULL, VALUE),
}

WHOLE = {name for name, (_, _, _, given, _) in OPS.items() if {"b", "nu"} <= set(given) or {"M1", "W"} & set(given)}

# ---- flags: name -> (equation, the bug that it catches)

FLAGS = {
    "CutSeries": ("eq-pg-kl-near", "A series cut one or more terms too early, or used farther out than its terms reach; a limit taken too near."),
    "RestartedTilt": ("eq-sweep", "The rounds of (x, omega1) of a sweep start at tilts 0 where they should start at those of the state, or the other way round."),
    "CentredSticks": ("eq-priors", "Prior means of the biases: -ln(C-1-j) taken for 0, or 0 for -ln(C-1-j), or the number of later classes off by one."),
    "ReversedOrder": ("eq-stick", "Classes, or experts, stand on the sticks in reverse order: the last is the first to be tossed for."),
    "BoundAsProbability": ("eq-mr-predict", "A lower bound of ln p, or its normalised exponential, given out as the predictive probability."),
    "DoubleNormalisation": ("eq-stick", "Probabilities passed through a softmax as if they were logits."),
    "DiagonalNoise": ("eq-expert-density", "The entries beside the diagonal of the noise precision, or of its matrix U, left out."),
    "FixedSize": ("eq-data", "A size is hard-coded: rows after a block dropped, labels, sticks or experts above a number clipped."),
    "ZeroTilt": ("eq-pg-near", "tanh(xi/2)/(2 xi) is evaluated as 0/0 at xi = 0, where the mean is b/4, the variance b/24 and the KL 0."),
    "HugeTilt": ("eq-pg-far", "cosh or sinh of the tilt overflows; ln cosh(xi/2) is |xi|/2 - ln 2 there."),
    "SmallTilt": ("eq-pg-kl-near", "Two nearly equal numbers are subtracted at a small tilt and the digits are gone; a series has them all."),
    "HalfAngle": ("eq-pg-mean", "tanh(xi) or cosh(xi) instead of tanh(xi/2) or cosh(xi/2), or a missing factor 2 in 1/(2 xi)."),
    "ExtremeLogit": ("eq-log-sigmoid", "The sigmoid is formed before its logarithm, and underflows to ln 0."),
    "OffByOneStick": ("eq-stick", "The previous stick instead of the product of all earlier ones, or a class shifted by one, or its own stick left out."),
    "FlippedStick": ("eq-stick", "sigma(psi) taken as the probability of passing on instead of stopping."),
    "ExtraStick": ("eq-stick-counts", "The last class given a stick of its own: it is what is left, and has none."),
    "UncentredKappa": ("eq-kappa", "kappa = y instead of y - b/2."),
    "InactiveStick": ("eq-kappa", "Sticks after the label are not tossed (b = 0, kappa = 0) but take part all the same."),
    "SoftCounts": ("eq-gate-counts", "Soft labels treated as hard ones: kappa = gamma - 1/2 instead of gamma - P(z >= j)/2, or b = 1."),
    "RateScale": ("eq-gamma", "b of a Gamma read as a scale where it is a rate, or the other way round."),
    "CovarianceAsPrecision": ("eq-mn-rows", "V, S or v0 read as a precision, or inverted once too often."),
    "VarianceAsDeviation": ("eq-priors", "sigma0 or sigma1 read as a variance: they are standard deviations."),
    "DroppedConstant": ("eq-elbo-constants", "ln 2, ln 2 pi, a half or ln s^2 missing: harmless for one update, wrong in the bound."),
    "WrongDimension": ("eq-mng-kl", "A constant or determinant counted with the wrong dimension: D for h, d for D, N for K."),
    "SecondMoment": ("eq-second-moment", "E[x] E[x]^T for E[x x^T]: the covariance of x1 or of the coefficients is forgotten."),
    "CrossTerm": ("eq-latent-natural", "The cross term between weight and bias in E[beta beta^T] left out of the linear part, or with the wrong sign."),
    "Padding": ("eq-pad", "The 1 of a padded vector put first, or the bias taken from the wrong end."),
    "MissingEntropy": ("eq-row-score", "q(z) computed without the entropy of q(x1 | z): it differs between experts."),
    "MissingTiltKL": ("eq-output-bound", "The divergence of q(omega) from its prior left out of the score or the bound."),
    "StaleTilt": ("eq-row-normaliser", "A formula that holds only at freshly updated tilts (log normaliser, ln 2 cosh) used with others, or tilts computed inside where those of the state are meant: "
                  "code that does so on purpose declares tilts = fresh, or joint."),
    "PriorMissing": ("eq-beta1", "The M-step maximises a likelihood: the prior precision or the pull to the prior mean is missing."),
    "Unweighted": ("eq-expert-update", "Responsibilities left out of a sum, squared, or renormalised by their total."),
    "SharedTilt": ("eq-output-tilt-shared", "A shared tilt averaged over experts without gamma, over roots instead of squares, or with gamma of the wrong time."),
    "EmptyExpert": ("eq-expert-update", "Division by a total responsibility of 0: an expert without rows returns to its prior."),
    "OneHot": ("eq-category-entropy", "0 ln 0 evaluated as NaN."),
    "Underflow": ("eq-row-max", "Scores exponentiated before the largest is subtracted."),
    "LargeOffset": ("eq-b-residual", "b as a difference of two large sums: digits go with the square of the offset, and b turns negative."),
    "ColumnMajor": ("eq-data", "An array read column by column, or a matrix transposed. The data are not symmetric, so that it shows."),
    "LatentDimension": ("eq-output-logits", "h = L - 1 or h = d hard-coded somewhere."),
    "SingleExpert": ("eq-gate-bound", "K = 1 has no gate: arrays with an axis of length 0 must pass."),
    "UpdateOrder": ("eq-sweep", "An update reads a factor as it was before the sweep, or the bound is recorded before the M-step."),
    "NoiseForgotten": ("eq-pred-t", "The spread of x1 about its expert's mean, or the uncertainty of A, left out of a prediction."),
    "PlugIn": ("eq-predict", "Means put in place of distributions: over-confident away from the data."),
    "MeanWeights": ("eq-shared-q", "The experts' part in the shared mean: not weighted by E[tau], by rows or responsibilities instead, their average for their sum, or not divided by v0."),
    "MeanPull": ("eq-shared-experts", "An expert is pulled to 0 instead of the mean that all share, or its distance to that mean is measured from 0."),
    "MeanSpread": ("eq-shared-experts", "The variance of the shared mean left out where E|A_k - A_0|^2 is meant, or counted once instead of D times."),
    "FamilyIgnored": ("eq-lean-best", "The covariances of the full posterior where a leaner one is asked for, or a family in the place of another."),
    "InvertedFirst": ("eq-lean-best", "Inverted first and projected then: the diagonal of the covariance, or the mean of the covariances, where the precision is projected."),
    "LeanMeans": ("eq-lean-objective", "Means made with the leaner covariances, or shared as they are: the best means of a leaner family are the old ones."),
    "FrameSide": ("eq-lean-frame", "The frame transposed, not turned back, or its block of another size."),
    "GroupWeights": ("eq-lean-shared", "The mean precision of what shares a covariance: not weighted by gamma, not divided by the sum of the weights, or of other rows or experts."),
    "RowGaussian": ("eq-lean-row", "One Gaussian for a row made of averaged means or covariances, of experts that count alike, or of the likeliest expert alone."),
    "LeanGap": ("eq-lean-bound", "A bound read off the log normalisers of the M-step, which hold for full covariances, or the entropy of the full posterior."),
    **deep.FLAGS,
    **others.FLAGS,
    **scales.FLAGS,
    "Jensen": ("eq-pred-likelihood", "E[ln p] instead of ln E[p]: a lower bound, not the likelihood."),
}


def condition(op, argument):
    """{key: values} of the profile under which an operation has this argument."""
    return (others.ONLY_UNDER if op in others.FORMULAS else ONLY_UNDER).get(argument, {})


def active(name, profile):
    """(in, out) of an operation under a profile: some arguments exist under one choice only."""
    def there(argument):
        return name not in WHOLE or all(profile.get(key, DEFAULT_PROFILE[key]) in (value if isinstance(value, list) else [value])
                                        for key, value in condition(name, argument).items())
    return [{argument: spec for argument, spec in table.items() if there(argument)} for table in OPS[name][3:5]]


def choice(key):
    values, meaning = PROFILE[key]
    kind = {"converted": True} if key in PARAMETRISATIONS else {}
    more = {"minimum": OPEN[key]} if key in OPEN else {"optional": OPTIONAL[key]} if key in OPTIONAL else {}
    return {"values": values, "default": DEFAULT_PROFILE[key], "meaning": meaning, **kind, **more}


def ops_json():
    def spec(op, table):
        only = lambda argument: {"when": condition(op, argument)} if op in WHOLE and condition(op, argument) else {}
        return {name: {"shape": shape, "kind": kind, "meaning": meaning, **only(name)} for name, (shape, kind, meaning) in table.items()}
    return {"schema": 1, "dimensions": DIMENSIONS, "profile": {key: choice(key) for key in PROFILE},
            "ops": [{"name": name, "level": level, "eq": {"label": label, "link": link(label)}, "chapter": f"book/{CHAPTER_OF[label]}.html",
                     "definition": text, "formula": {**FORMULAS, **deep.FORMULAS, **others.FORMULAS, **scales.FORMULAS}[name] + (f"; {scales.IN_FORCE}" if name in scales.READ_IN_FORCE else ""), "reads": reads(name, given, wanted), "in": spec(name, given), "out": spec(name, wanted)}
                    for name, (level, label, text, given, wanted) in OPS.items()]}


# flags whose formula is right and whose arithmetic is not
DIGITS = {"ZeroTilt", "HugeTilt", "SmallTilt", "CutSeries", "ExtremeLogit", "OneHot", "Underflow", "LargeOffset"}
# flag -> least sizes without which it cannot show: axes longer than 1 of one input, sticks, experts, latent dimensions
NEEDS = {"ColumnMajor": {"axes": 2}, "SharedTilt": {"K": 2}, "EmptyExpert": {"K": 2}, "DiagonalNoise": {"h": 2},
         "ReversedOrder": {"K": 2}}


def flags_json():
    return {"schema": 1, "flags": {name: {"bug": bug, "eq": {"label": label, "link": link(label)}, "grade": "digits" if name in DIGITS else "formula",
                                          "needs": NEEDS.get(name, {})} for name, (label, bug) in FLAGS.items()}}
