"""The formula of every operation, in plain text on one line, complete enough to write it from."""

PG = "theta(t) = tanh(t/2)/(2t), 1/4 at 0; K(t) = ln cosh(t/2) - (t/4) tanh(t/2)"
COINS = "b_l = [l <= y_n], kappa_l = [l = y_n] - b_l/2"
X1 = "E_nk = [[Sigma_nk + mu_nk mu_nk^T, mu_nk], [mu_nk^T, 1]]"
B1 = "B_l = beta1_S_l + beta1_mu_l beta1_mu_l^T"
OUTPUT = f"T1_nk = sum_l (kappa_l beta1_mu_l . [mu_nk; 1] - b_l (ln 2 + theta(xi1_nkl) tr(B_l E_nk)/2 + K(xi1_nkl))), {COINS}, {B1}, {X1}, {PG}"
EXPERT = "R_nk = (1/2) sum_i (digamma(a_k) - ln b_ki - ln 2pi - (a_k/b_ki) ((mu_nki - M_ki . x~_n)^2 + Sigma_nkii)) - (h/2) x~_n^T V_k x~_n, x~ = [x; 1]"
ENTROPY = "H_nk = (h/2)(1 + ln 2pi) + (1/2) ln|Sigma_nk|"
GATE = ("T0_nk = sum_{j <= min(k, K-2)} (([j = k] - 1/2) beta0_mu_j . x~_n - ln 2 - theta(xi0_nj) x~_n^T (beta0_S_j + beta0_mu_j beta0_mu_j^T) x~_n/2 - K(xi0_nj)), "
        f"{PG}")
KL_BETA = "(1/2) sum_l ((tr S_l + |m_l - m0_l|^2)/s^2 - D + 2 D ln s - ln|S_l|)"
KL_EXPERT = ("(h/2)(tr V_k/v0 - D + D ln v0 - ln|V_k|) + sum_i ((a_k/b_ki)|M_ki|^2/(2 v0) + (a_k - a0) digamma(a_k) - lnGamma(a_k) + lnGamma(a0) "
             "+ a0 (ln b_ki - ln b0) + a_k (b0 - b_ki)/b_ki)")
WISHART_LOG_DET = "E ln|Lambda| = sum_{i=1..h} digamma((nu + 1 - i)/2) + h ln 2 - ln|U|"
WISHART_KL = (f"(1/2)((nu - nu0) E ln|Lambda| - nu h + nu tr(U0 U^-1) + nu ln|U| - nu0 ln|U0| - (nu - nu0) h ln 2) - lnGamma_h(nu/2) + lnGamma_h(nu0/2), {WISHART_LOG_DET}, "
              "lnGamma_h(x) = (h(h-1)/4) ln pi + sum_{i=1..h} lnGamma(x + (1 - i)/2)")
MNW_KL = f"(h/2)(tr V/v0 - D + D ln v0 - ln|V|) + (nu/(2 v0)) tr(U^-1 M M^T) + {WISHART_KL}"
MOVES = "residual = max |new - old| / (1 + |old|) over beta1_mu, beta0_mu, M, gamma and a, b (Wishart: nu, U), A0_mu where it is shared and lam_mean where scales are learned"

FORMULAS = {
    "stick_log_probs": "ln pi_c = ln sigma(psi_c) + sum_{j<c} ln sigma(-psi_j) for c < J; ln pi_J = sum_{j<J} ln sigma(-psi_j)",
    "stick_counts": "b_j = sum_{k>=j} w_k, kappa_j = w_j - b_j/2, j = 0 .. K-2",
    "stick_logits": "psi_j = ln p_j - ln sum_{c>j} p_c, j = 0 .. J-1; 0 where both are ln 0",
    "log_cosh_half": "ln cosh(c/2) = log1p(2 sinh(c/4)^2) = |c|/2 + log1p(exp(-|c|)) - ln 2",
    "pg_mean": "b tanh(c/2)/(2c) = b (1/4 - c^2/48 + c^4/480 - ...)",
    "pg_var": "b (sinh c - c)/(4 c^3 cosh(c/2)^2) = b (1/24 - c^2/120 + ...)",
    "pg_kl": "b (ln cosh(c/2) - (c/4) tanh(c/2)) = b (c^4/192 - c^6/1440 + ...)",
    "log_sigmoid_normal": "ln integral sigma(psi) N(psi; m, v) dpsi, sigma(t) = 1/(1 + exp(-t)); ln sigma(m) at v = 0",
    "stick_log_means": "ln E[pi_c] = ln E[sigma(psi_c)] + sum_{j<c} ln E[sigma(-psi_j)] for c < J, without its first term for c = J; psi_j ~ N(m_j, v_j) independent",

    "second_moment": "S + mu mu^T",
    "padded_second_moment": "[[S + mu mu^T, mu], [mu^T, 1]]",
    "gaussian_entropy": "(m/2)(1 + ln 2pi) + (1/2) ln|S|",
    "gaussian_kl": "(1/2)((tr S + |mu|^2)/sigma^2 - m + 2 m ln sigma - ln|S|)",
    "gamma_mean_log": "digamma(a) - ln b",
    "gamma_kl": "(a - a0) digamma(a) - lnGamma(a) + lnGamma(a0) + a0 (ln b - ln b0) + a (b0 - b)/b",
    "mng_kl": KL_EXPERT,
    "wishart_mean_log_det": f"{WISHART_LOG_DET}",
    "wishart_kl": WISHART_KL,
    "mnw_kl": f"{MNW_KL}",
    "categorical_entropy": "-sum_k gamma_nk ln gamma_nk, 0 ln 0 = 0",
    "gate_logits": "psi_nj = beta0_mu_j . x~_n, psi2_nj = x~_n^T (beta0_S_j + beta0_mu_j beta0_mu_j^T) x~_n, x~ = [x; 1]",
    "output_logits": f"psi_nkl = beta1_mu_l . [mu_nk; 1], psi2_nkl = tr(B_l E_nk), {B1}, {X1}",
    "stick_log_bound": f"sum_j (kappa_j psi_j - b_j (ln 2 + theta(xi_j) psi2_j/2 + K(xi_j))), {PG}",

    "update_x": "Sigma_nk = P^-1, mu_nk = P^-1 eta; P = diag(a_k/b_ki) + sum_l w_l B_l[:h,:h], eta_i = (a_k/b_ki) M_ki . x~_n + sum_l (kappa_l beta1_mu_li - w_l B_l[i,h]), "
                f"w_l = b_l theta(xi1_nkl), {COINS}, {B1}, x~ = [x; 1], theta(t) = tanh(t/2)/(2t); Wishart: nu_k U_k^-1 for diag(a_k/b_ki), nu_k U_k^-1 M_k x~_n for its product with M_k x~_n; "
                "diagonal: Sigma_nkii = 1/P_ii; low-rank: R [Pi(R^T P R)]^-1 R^T, R = frame_k, Pi keeps the first rank x rank entries and the diagonal; shared: "
                "[sum_n gamma_nk P_nk / sum_n gamma_nk]^-1, class-shared: over rows of one class; mean-field: P_n = sum_k gamma_nk P_nk and eta_n likewise; mu = P^-1 eta always",
    "update_omega1": f"xi1_nkl = sqrt(tr(B_l E_nk)), {B1}, {X1}; shared: xi1_nl = sqrt(sum_k gamma_nk tr(B_l E_nk))",
    "update_omega0": "xi0_nj = sqrt(x~_n^T (beta0_S_j + beta0_mu_j beta0_mu_j^T) x~_n), x~ = [x; 1]",
    "update_z": f"gamma_nk = exp(s_nk)/sum_k' exp(s_nk'), s = T1 + R + H + T0; {OUTPUT}; {EXPERT} (Wishart: as in elbo_expert); {ENTROPY}; {GATE}",
    "update_beta1": "S_l = (I/sigma1^2 + sum_nk gamma_nk b_l theta(xi1_nkl) E_nk)^-1, mu_l = S_l (m0_l/sigma1^2 + sum_nk gamma_nk kappa_l [mu_nk; 1]), "
                    f"m0 the prior mean, {COINS}, {X1}, theta(t) = tanh(t/2)/(2t); coefficients = diagonal: S_ii = 1/(S^-1)_ii, mu the same",
    "update_beta0": "S_j = (I/sigma0^2 + sum_n P_nj theta(xi0_nj) x~_n x~_n^T)^-1, mu_j = S_j (m0_j/sigma0^2 + sum_n (gamma_nj - P_nj/2) x~_n), P_nj = sum_{k>=j} gamma_nk, "
                    "m0 the prior mean, x~ = [x; 1], theta(t) = tanh(t/2)/(2t); coefficients = diagonal: S_ii = 1/(S^-1)_ii, mu the same",
    "update_experts": "V_k = (I/v0 + sum_n gamma_nk x~_n x~_n^T)^-1, M_k = (sum_n gamma_nk mu_nk x~_n^T) V_k, a_k = a0 + sum_n gamma_nk/2, "
                      "b_ki = b0 + (1/2) sum_n gamma_nk ((mu_nki - M_ki . x~_n)^2 + Sigma_nkii) + |M_ki|^2/(2 v0), x~ = [x; 1]; Wishart: nu_k = nu0 + sum_n gamma_nk, "
                      "U_k = U0 + sum_n gamma_nk ((mu_nk - M_k x~_n)(mu_nk - M_k x~_n)^T + Sigma_nk) + M_k M_k^T/v0; shared mean: M_k = (A0_mu/v0 + sum_n gamma_nk mu_nk x~_n^T) V_k, "
                      "and |M_ki - A0_mu_i|^2 + D A0_var_i for |M_ki|^2; coefficients = diagonal: V_ii = 1/(V^-1)_ii, the rest the same",
    "update_shared": "A0_var_i = 1/(1/v00 + sum_k a_k/(b_ki v0)), A0_mu_i = A0_var_i sum_k (a_k/(b_ki v0)) M_ki; both 0 where v00 = 0",

    "elbo_output": f"sum_nk gamma_nk T1_nk, {OUTPUT}",
    "elbo_expert": f"sum_nk gamma_nk R_nk, {EXPERT}; Wishart: R_nk = (1/2)(E ln|Lambda_k| - h ln 2pi - nu_k tr(U_k^-1 (r r^T + Sigma_nk)) - h x~_n^T V_k x~_n), "
                   f"r = mu_nk - M_k x~_n, {WISHART_LOG_DET}",
    "elbo_latent_entropy": f"sum_nk gamma_nk H_nk, {ENTROPY}",
    "elbo_gate": f"sum_nk gamma_nk T0_nk, {GATE}",
    "elbo_assignment_entropy": "-sum_nk gamma_nk ln gamma_nk, 0 ln 0 = 0",
    "kl_beta1": f"{KL_BETA}, m = beta1_mu, S = beta1_S, s = sigma1, D = h+1, m0 the prior mean",
    "kl_beta0": f"{KL_BETA}, m = beta0_mu, S = beta0_S, s = sigma0, D = d+1, m0 the prior mean",
    "kl_experts": f"sum_k of {KL_EXPERT}; Wishart: sum_k of {MNW_KL}; shared mean: |M_ki - A0_mu_i|^2 + D A0_var_i for |M_ki|^2",
    "kl_shared": "(1/2) sum_i (|A0_mu_i|^2/v00 + D (A0_var_i/v00 - 1 + ln v00 - ln A0_var_i)), 0 where v00 = 0",
    "elbo": "elbo_output + elbo_expert + elbo_latent_entropy + elbo_gate + elbo_assignment_entropy - kl_beta1 - kl_beta0 - kl_experts; shared mean: - kl_shared as well; learned scales: - kl_scales as well",

    "sweeps": "repeat n_sweeps times: inner x (update_x, update_omega1), update_omega0, update_z, update_beta1, update_beta0, update_experts (m-first: the last three first), shared mean: update_shared before them, learned scales: update_scales before that, "
              "each reading the newest values; elbo_t = elbo after sweep t",
    "stationarity": f"one sweep from the state; {MOVES}",
    "converge": f"sweeps until residual < 1e-9, at most 20000; elbo there, and the residual of one more sweep; {MOVES}",
    "predict": "ln sum_k w_k E[prod_{l<=min(c,L-2)} E sigma(+-psi_l)]: w_k = E[sigma(psi_0k)] prod_{j<k} E[sigma(-psi_0j)], psi_0j ~ N(beta0_mu_j . x~, x~^T beta0_S_j x~); outer mean over "
               "x1_i ~ t of 2 a_k degrees, mean M_ki . x~, scale^2 (b_ki/a_k)(1 + x~^T V_k x~) (Wishart: x1 ~ t of nu_k - h + 1 degrees, mean M_k x~, scale matrix U_k (1 + x~^T V_k x~)/(nu_k - h + 1)); inner over psi_l ~ N(beta1_mu_l . x1~, x1~^T beta1_S_l x1~), + at l = c, - at l < c",
    "log_likelihood": "ln sum_k pi_k(beta0 x~) integral N(x1; A_k x~, diag(1/tau_k)) prod_{l<=min(y,L-2)} sigma(+-beta1_l . [x1; 1]) dx1, + at l = y, - at l < y; pi of sticks, x~ = [x; 1]",
    "forecast": "predict at X_new, of the state that sweeps reaches after n_sweeps",
}
