"""What the optional suite of other outputs asks: arguments, operations, formulas and flags."""

SUITE, VALUES = "other outputs", ("gaussian", "counts")
CHAPTERS = {"beyond/outputs": ["eq-reg-pull", "eq-reg-latent", "eq-reg-gaussian", "eq-reg-gaussian-pull", "eq-reg-gaussian-bound", "eq-reg-output", "eq-reg-coins", "eq-reg-counts",
                               "eq-reg-coin-sums", "eq-reg-t"],
            "beyond/regression": ["eq-reg-bound", "eq-reg-sweep", "eq-reg-predict"], "beyond/regressor": ["eq-reg-moments"]}
DIMENSIONS = {"p": "numbers measured of a row"}
OWN = {
    "W": (["p", "h+1"], "float", "means of B, the map from x1 to a measured number, the bias last"),
    "W_V": (["h+1", "h+1"], "float", "column covariance of B: row j, given rho_j, is N(W_j, W_V / rho_j)"),
    "W_a": ([], "float", "shape of q(rho)"), "W_b": (["p"], "float", "rates of q(rho), also under gamma = scale"),
    "C_mu": (["h+1"], "float", "mean of q(beta_1) of the counts' only coin, the bias last"), "C_S": (["h+1", "h+1"], "float", "its covariance"),
    "xi": (["N", "K"], "float", "tilts of q(omega_1 | z = k)")}
DATA = {"Y": (["N", "p"], "float", "measured numbers"), "counts": (["N"], "float", "whole numbers >= 0"), "size": ([], "float", "r of the negative binomial: the mean count is r e^psi")}
PRIORS = {"v1": ([], "float", "row j of B, given rho_j, is N(0, v1/rho_j I)"), "a1": ([], "float", "shape of the prior of rho"), "b1": ([], "float", "its rate, also under gamma = scale")}
ONLY_UNDER = {**{name: {"output": "gaussian"} for name in ("W", "W_V", "W_a", "W_b", "Y", *PRIORS)},
              **{name: {"output": "counts"} for name in ("C_mu", "C_S", "xi", "counts", "size", "sigma1")}}
TOUCHES = {"gaussian": {"C_S"}, "bias": {"W", "W_V", "C_mu", "C_S"}, "layout": {"W"}}

PULL = ("gaussian: Lambda = sum_j (W_a/W_bj) w_j w_j^T + p W_V_ww, eta = sum_j (W_a/W_bj)(Y_j - W_j1) w_j - p W_V_w1; counts: Lambda = omega B_ww, eta = kappa [C_mu]_w - omega B_w1, "
        "omega = (y + r) theta(xi_k), kappa = (y - r)/2, B = C_S + C_mu C_mu^T, theta(t) = tanh(t/2)/(2t); w: without the 1, 1: its column")
BOUND = ("gaussian: U_k = (1/2) sum_j (digamma(W_a) - ln W_bj - ln 2pi - (W_a/W_bj)((Y_j - W_j . m_k)^2 + w_j^T Sigma_k w_j) - tr(W_V G_k)); counts: U_k = kappa C_mu . m_k - (y + r)(ln 2 + "
         "theta(xi_k) tr(B G_k)/2 + K(xi_k)) + lnGamma(y + r) - lnGamma(r) - lnGamma(y + 1), K(t) = ln cosh(t/2) - (t/4) tanh(t/2); m_k = [mu_k; 1], G_k = m_k m_k^T + Sigma_k")
KL = ("gaussian: (p/2)(tr W_V/v1 - D + D ln v1 - ln|W_V|) + sum_j ((W_a/W_bj)|W_j|^2/(2 v1) + (W_a - a1) digamma(W_a) - lnGamma(W_a) + lnGamma(a1) + a1 (ln W_bj - ln b1) + W_a (b1 - W_bj)/W_bj), "
      "D = h + 1; counts: (1/2)((tr C_S + |C_mu|^2)/sigma1^2 - D + 2 D ln sigma1 - ln|C_S|)")
STEP = ("gaussian: W_V = (I/v1 + sum_nk gamma_nk G_nk)^-1, W_j = W_V sum_nk gamma_nk Y_nj m_nk, W_a = a1 + N/2, W_bj = b1 + (1/2) sum_nk gamma_nk ((Y_nj - W_j . m_nk)^2 + w_j^T Sigma_nk w_j) + "
        "|W_j|^2/(2 v1); counts: C_S = (I/sigma1^2 + sum_nk gamma_nk (y_n + r) theta(xi_nk) G_nk)^-1, C_mu = C_S sum_nk gamma_nk (y_n - r)/2 m_nk")
ORDER = "x, tilt (counts), omega0, z, output, beta0, experts"
MOVES = "max |new - old| / (1 + |old|) over W, W_a, W_b or C_mu, and beta0_mu, M, a, b, gamma"
T = "ln t(y; x1) = sum_j lnSt(Y_j - W_j . x1~; scale_j, 2 W_a), scale_j^2 = (W_bj/W_a)(1 + x1~^T W_V x1~)"
NB = "ln E[NB(y; psi)], psi ~ N(C_mu . x1~, x1~^T C_S x1~), NB = Gamma(y + r)/(Gamma(r) y!) sigma(psi)^y sigma(-psi)^r"
MIX = "w_k = E[pi_k] of the gate; under expert k x1_i = M_ki . x~ + sqrt((b_ki/a_k)(1 + x~^T V_k x~)) t_i, t_i Student t of 2 a_k degrees"
FORMULAS = {
    "out_student": "lnGamma((nu+1)/2) - lnGamma(nu/2) - (1/2) ln(pi nu) - ln s - ((nu+1)/2) ln(1 + (r/s)^2/nu)",
    "out_pull": PULL,
    "out_x": f"Sigma_k = (diag(a_k/b_k) + Lambda)^-1, mu_k = Sigma_k (diag(a_k/b_k) M_k x~ + eta); {PULL}",
    "out_tilt": "xi_k = sqrt(tr((C_S + C_mu C_mu^T) G_k)), m_k = [mu_k; 1], G_k = m_k m_k^T + Sigma_k",
    "out_z": f"gamma_k = exp(s_k)/sum exp(s), s_k = U_k plus what update_z has of experts, entropy and gate; {BOUND}",
    "out_output": f"{STEP}; m, G as in out_elbo_output",
    "out_elbo_output": f"sum_nk gamma_nk U_nk; {BOUND}",
    "out_kl": KL,
    "out_elbo": "out_elbo_output + elbo_expert + elbo_latent_entropy + elbo_gate + elbo_assignment_entropy - out_kl - kl_beta0 - kl_experts",
    "out_sweeps": f"repeat n_sweeps times: {ORDER}, each reading the newest values; elbo_t = out_elbo after sweep t",
    "out_stationarity": f"one sweep from the state; residual = {MOVES}",
    "out_converge": f"sweeps until residual < 1e-9, at most 20000; out_elbo there, and the residual of one more sweep; residual = {MOVES}",
    "out_given_latent": f"gaussian: {T}; counts: {NB}",
    "out_moments": f"mean and variance of the mixture over k of Y_j = W_j . x1~ + noise: E_k = W_j . [M_k x~; 1], V_k = sum_i w_ji^2 c_ki + (W_bj/(W_a - 1))(1 + tr W_V E_k[x1~ x1~^T]), c_ki = "
                   f"(b_ki/(a_k - 1))(1 + x~^T V_k x~); {MIX}",
    "out_density": f"ln sum_k w_k E_k[t(y; x1)]; {MIX}; gaussian: {T}; counts: {NB}",
}
FLAGS = {
    "OutputMap": ("eq-reg-gaussian-pull", "The map to a measured number taken for its mean: its spread W_V left out of the pull, the bound or a forecast, or counted once instead of for each column."),
    "OutputNoise": ("eq-reg-gaussian", "The precision of a measured number left out, its logarithm taken for the mean logarithm, or the noise of one column for all."),
    "LatentSpread": ("eq-reg-output", "The covariance of x1 left out where the map is fitted to it, or of the squares about it."),
    "CountTosses": ("eq-reg-counts", "A count y tosses its coin y + r times: b, kappa = (y - r)/2 or the constant of the negative binomial with another number."),
    "OutputPrior": ("eq-reg-output", "The prior of the experts or of the gate in the place of the output's, or no prior at all."),
    "TailsCut": ("eq-reg-t", "A normal for a Student t, another number of degrees of freedom, or the variance for the scale."),
}


def operations(PLAIN, VALUE):
    """{name: (level, equation, definition, in, out)}; PLAIN: the arguments of the plain model."""
    pick = lambda *names: {name: PLAIN[name] for name in names}
    gate, experts = ("beta0_mu", "beta0_S"), ("M", "V", "a", "b")
    state = {**OWN, **pick(*gate, *experts, "gamma", "mu", "Sigma", "xi0")}
    full = {**pick("X"), **DATA, **state, **pick("v0", "a0", "b0", "sigma0", "sigma1"), **PRIORS}
    fitted = {**DATA, **{name: spec for name, spec in OWN.items() if name != "xi"}}
    update = lambda *wanted: {name: full[name] for name in wanted}
    entry = lambda meaning: (["n"], "float", meaning)
    density = {"log_density": (["N"], "float", "nats")}
    return {
        "out_student": (0, "eq-reg-t", "ln density at r of s times Student's t of nu degrees of freedom, also where nu is huge.",
                        {"r": entry("where"), "scale": entry("s > 0"), "dof": entry("nu > 0")}, {"value": entry("nats")}),
        "out_pull": (2, "eq-reg-pull", "What y adds to the precision and to the linear term of x1 under each expert.", full,
                     {"Lambda": (["N", "K", "h", "h"], "float", "added to the precision"), "eta": (["N", "K", "h"], "float", "added to precision times mean")}),
        "out_x": (2, "eq-reg-latent", "Best q(x1 | z = k) given the output's factors and the experts.", full, update("mu", "Sigma")),
        "out_tilt": (2, "eq-reg-coins", "Best q(omega_1 | z = k) of the counts' coin.", full, update("xi")),
        "out_z": (2, "eq-reg-bound", "Best q(z) given every other factor, with the stored tilts.", full, update("gamma")),
        "out_output": (2, "eq-reg-output", "Best q of the output's own factors: B and rho, or the coin's coefficients.", full, update("W", "W_V", "W_a", "W_b", "C_mu", "C_S")),
        "out_elbo_output": (3, "eq-reg-gaussian-bound", "sum_nk gamma_nk E[ln p(y | x1)], or the bound below it at the stored tilts.", full, VALUE),
        "out_kl": (3, "eq-reg-bound", "The divergence of the output's own factors from their prior, a positive number.", full, VALUE),
        "out_elbo": (3, "eq-reg-bound", "The complete bound.", full, VALUE),
        "out_sweeps": (4, "eq-reg-sweep", f"n_sweeps sweeps from the given state: {ORDER}. elbo is the complete bound after each.",
                       {**full, "n_sweeps": ([], "int", "how many")}, {**state, "elbo": (["T"], "float", "bound after each sweep, nats")}),
        "out_stationarity": (5, "eq-reg-sweep", f"Residual of a state: {MOVES}, after one sweep.", full, {"residual": ([], "float", "0 at a fixed point")}),
        "out_converge": (5, "eq-reg-sweep", "Sweeps from the given state until the residual is below 1e-9 (float32: until it no longer falls), at most 20000; the bound there and the residual.",
                         full, {"elbo": ([], "float", "bound at the fixed point, nats"), "residual": ([], "float", "should be 0")}),
        "out_given_latent": (6, "eq-reg-t", "ln p(y | x1, data) at given latent vectors, the output's own factors integrated out.",
                             {**fitted, "x1": (["N", "h"], "float", "latent vectors")}, density),
        "out_moments": (6, "eq-reg-moments", "Mean and variance of the measured numbers of a row, everything uncertain in them; all shapes above 1.",
                        {**pick("X", *gate, *experts), **{name: OWN[name] for name in ("W", "W_V", "W_a", "W_b")}},
                        {"mean": (["N", "p"], "float", "means"), "var": (["N", "p"], "float", "variances")}),
        "out_density": (6, "eq-reg-predict", "ln p(y | x, data), everything uncertain integrated out.", {**pick("X", *gate, *experts), **fitted}, density),
    }
