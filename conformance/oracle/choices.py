"""The profile: what an implementation may choose, and which operation reads which choice.

A parametrisation is converted by the runner both ways, so that it decides nothing; an algorithm changes the answers, and cases of it are
twins with ids of their own.
"""

import deep_catalogue as deep
import outputs_catalogue as others
import scale_catalogue as scales

# key -> (values, meaning); the first value is the default
PARAMETRISATIONS = {
    "gamma": (["rate", "scale"], "whether b and b0 of a Gamma are rates or scales (1 / rate)"),
    "gaussian": (["covariance", "precision", "cholesky"], "how the spread of a Gaussian is given (beta0_S, beta1_S, Sigma, S): its covariance, the "
                 "inverse of it, or the lower factor C of covariance = C C^T"),
    "V": (["covariance", "precision"], "whether V is the column covariance of the matrix normal or the inverse of it"),
    "bias": (["last", "first"], "the place of the 1 in a padded vector, and so of the bias in M, V, beta0 and beta1"),
    "layout": (["rows", "columns"], "whether coefficients stand as rows, h x D and (K-1) x D, or as columns, D x h and D x (K-1)"),
    "sticks": (["K-1", "K"], "K classes by K-1 sticks, or by K of which the last is never tossed: its logit is not read, its b and kappa are 0"),
    "classes": (["forward", "reversed"], "the order of the classes on the sticks: class y, or class L-1-y, stands y-th"),
}
ALGORITHMS = {
    "omega1": (["per-component", "shared"], "one tilt of omega_1 per (n, k, l), or one per (n, l) for all experts"),
    "inner": ([1, 2, 3, 8], "rounds of (x, omega1) within a sweep; any whole number can be declared, cases are stored for these"),
    "order": (["canonical", "m-first"], "order of the updates within a sweep"),
    "tilts": (["given", "fresh", "joint"], "the tilts that z, beta1, beta0 and the bound go by. given: those of the state, stale or not. fresh: computed "
              "inside from the moments that come in, xi1 = sqrt(E[psi_1l^2]), xi0 = sqrt(E[psi_0j^2]) (shared: weighted by the gamma that comes in). joint: for "
              "beta1 and beta0 fresh tilts and new coefficients in turn until neither changes; for z and the bound as fresh"),
    "tilt_start": (["kept", "restarted"], "the xi1 that the first x of a sweep reads: that of the state, or 0"),
    "experts": (["each", "pooled"], "the output tilt that beta1 goes by: that of each expert, or one for each (n, l), xi_nl = sqrt(sum_k gamma_nk xi1_nkl^2): an "
                "M-step shared by all experts after an E-step of each"),
    "prior_mean": (["zero", "centred", "given"], "prior means of beta_1 and beta_0. centred: 0 but for the biases, -ln(L-1-l) of output stick l and -ln(K-1-j) of "
                   "gate stick j, under which all classes and experts are equally likely. given: the inputs beta1_m0, beta0_m0"),
    "noise": (["gamma", "wishart"], "noise of an expert: h precisions Gamma(a_k, b_ki), or one h x h precision Lambda_k ~ Wishart(nu_k, U_k), U the inverse of the scale "
              "matrix: E[Lambda_k] = nu_k U_k^-1"),
    "scales": (list(scales.VALUES), scales.MEANING),
    "expert_mean": (["zero", "shared"], "prior mean of A_k: 0, or a matrix A_0 that all experts share, with rows N(0, v00 I) and q(A_0i) = N(A0_mu_i, A0_var_i I); every "
                    "sweep then begins with update_shared"),
    "latent_posterior": (["full", "diagonal", "low-rank", "shared", "class-shared", "mean-field", "mean-field-diagonal", "mean-field-shared"],
                         "what q(x1 | z) may be. full: a Gaussian for each row and expert. diagonal: with a diagonal covariance; low-rank: with frame_k S frame_k^T, S a block "
                         "of the first rank coordinates and a diagonal; shared: with one covariance for all rows of an expert; class-shared: for its rows of each class. mean-field: "
                         "one Gaussian for a row, the same under every expert (omega1 is shared then); mean-field-diagonal, mean-field-shared: with a diagonal covariance, with one for the rows of each class"),
    "coefficients": (["full", "diagonal", "diagonal-inputs", "diagonal-output"], "covariances of q(A), q(beta_0) and q(beta_1): as they are, or the best diagonal ones; inputs: "
                     "of V and beta0_S alone, output: of beta1_S alone. The means are the same"),
    "layers": (["none", *deep.VALUES], "how many layers of gate and experts a network of the operations deep_* may have; none: it has no such operations"),
    "output": (["classes", *others.VALUES], "what the operations out_* learn: measured numbers, Y = B x1~ + noise, or counts, negative binomial with the logit beta_1 . x1~; classes: it has no such operations"),
}
PROFILE = {**PARAMETRISATIONS, **ALGORITHMS}
DEFAULT_PROFILE = {key: values[0] for key, (values, _) in PROFILE.items()}
OPEN = {"inner": 1}                                     # any whole number from here on can be declared
LEANER = "leaner posteriors"
OPTIONAL = {"scales": {"learned": scales.SUITE}, "expert_mean": {"shared": "shared means"}, **{key: dict.fromkeys(ALGORITHMS[key][0][1:], LEANER) for key in ("latent_posterior", "coefficients")},
            "layers": dict.fromkeys(deep.VALUES, deep.SUITE),
            "output": dict.fromkeys(others.VALUES, others.SUITE)}   # key -> value -> the optional suite of which its cases are: whoever does not declare it does not offer it

# parametrisation -> the arguments and results that it changes
TOUCHES = {
    "gamma": {"b", "b0"}, "gaussian": {"S", "beta0_S", "beta1_S", "Sigma"}, "V": {"V"},
    "bias": {"M", "V", "A", "beta0", "beta1", "beta0_mu", "beta0_S", "beta1_mu", "beta1_S", "beta0_m0", "beta1_m0", "A0_mu"},
    "layout": {"M", "A", "A0_mu", "beta0", "beta1", "beta0_mu", "beta1_mu", "beta0_m0", "beta1_m0"},
    "sticks": {"beta0", "beta1", "beta0_mu", "beta0_S", "beta1_mu", "beta1_S", "beta0_m0", "beta1_m0", "xi0", "xi1"},
    "classes": {"y"},
}
for key, names in {"gamma": "b{}", "gaussian": "Sigma{} beta{}_S", "V": "V{}", "bias": "M{} V{} beta{}_mu beta{}_S", "layout": "M{} beta{}_mu", "sticks": "beta{}_mu beta{}_S xi{}"}.items():
    TOUCHES[key] |= {name.format(layer) for name in names.split() for layer in ("", 1, 2, 3) if layer or "_" in name}      # of a layer, and as an update answers them
for key, names in others.TOUCHES.items():
    TOUCHES[key] |= names
STICK_TABLES = {"stick_log_probs", "stick_counts", "stick_logits", "stick_log_means", "stick_log_bound"}
BY_HAND = {"sticks": STICK_TABLES, "classes": {"stick_log_probs", "stick_counts", "stick_logits", "stick_log_means", "predict", "forecast", "deep_forecast"},
           "bias": {"padded_second_moment"}}
NOT_BY_B = {"stick_counts", "stick_log_bound", "pg_mean", "pg_var", "pg_kl"}          # their b counts tosses

# what each operation on the whole state depends on; the rest may be ignored
SWEEP = "X y beta1_mu beta1_S beta0_mu beta0_S M V a b gamma mu Sigma xi1 xi0 A0_mu A0_var lam_mean lam_shape v0 a0 b0 sigma0 sigma1 v00 frame rank strength"
DEPENDS = {name: text.split() for name, text in {
    "update_x": "X y beta1_mu beta1_S M a b xi1 gamma frame rank", "update_omega1": "mu Sigma beta1_mu beta1_S gamma", "update_omega0": "X beta0_mu beta0_S",
    "update_z": "X y beta1_mu beta1_S beta0_mu beta0_S M V a b mu Sigma xi1 xi0", "update_beta1": "y gamma mu Sigma xi1 sigma1 beta1_mu beta1_S",
    "update_beta0": "X gamma xi0 sigma0 beta0_mu beta0_S", "update_experts": "X gamma mu Sigma v0 a0 b0 M V a b A0_mu A0_var",
    "update_shared": "M a b v0 v00", "kl_shared": "A0_mu A0_var v00",
    "elbo_output": "y gamma mu Sigma beta1_mu beta1_S xi1", "elbo_expert": "X gamma mu Sigma M V a b", "elbo_latent_entropy": "gamma Sigma",
    "elbo_gate": "X gamma beta0_mu beta0_S xi0", "elbo_assignment_entropy": "gamma", "kl_beta1": "beta1_mu beta1_S sigma1",
    "kl_beta0": "beta0_mu beta0_S sigma0", "kl_experts": "M V a b v0 a0 b0 A0_mu A0_var", "elbo": SWEEP, "sweeps": SWEEP, "stationarity": SWEEP,
    "converge": SWEEP, "forecast": f"{SWEEP} X_new", **scales.DEPENDS}.items()}
for name in scales.READ_IN_FORCE:
    DEPENDS[name].append("lam_mean")

A_SWEEP = {"sweeps", "stationarity", "converge", "forecast"}
BOUNDS = {"elbo", "elbo_output", "elbo_gate"}
READERS = {
    "omega1": {"update_x", "update_omega1", "update_z", "update_beta1", "elbo_output", "elbo"} | A_SWEEP,
    "inner": A_SWEEP - {"converge"} | {"deep_sweeps", "deep_stationarity"}, "order": A_SWEEP, "tilt_start": A_SWEEP,
    "tilts": {"update_z", "update_beta1", "update_beta0"} | BOUNDS | A_SWEEP,
    "experts": {"update_beta1"} | A_SWEEP,
    "prior_mean": {"update_beta1", "update_beta0", "update_scales", "kl_beta1", "kl_beta0", "elbo"} | A_SWEEP,
    "noise": {"gamma_mean_log", "gamma_kl", "mng_kl", "wishart_mean_log_det", "wishart_kl", "mnw_kl", "predict", "update_x", "update_z", "update_experts", "update_shared", "elbo_expert", "kl_experts", "elbo"} | A_SWEEP,
    "scales": scales.READERS,
    "expert_mean": {"update_shared", "update_scales", "update_experts", "kl_experts", "kl_shared", "elbo"} | A_SWEEP,
    "latent_posterior": {"update_x", "update_z", "elbo_latent_entropy", "elbo"} | A_SWEEP,
    "coefficients": {"update_beta1", "update_beta0", "update_experts", "kl_experts", "elbo"} | A_SWEEP,
    "layers": set(deep.FORMULAS),
    "output": set(others.FORMULAS),
}


def reads(op, given, wanted):
    """The keys of the profile that the answer of an operation depends on."""
    names = set(DEPENDS.get(op, given)) | set(wanted)
    if op in NOT_BY_B:
        names.discard("b")
    touched = [key for key in PARAMETRISATIONS if names & TOUCHES.get(key, set()) or op in BY_HAND.get(key, ())]
    return touched + [key for key in ALGORITHMS if op in READERS[key]]
