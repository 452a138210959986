"""What the optional suite of deeper networks asks: arguments by layer, operations, formulas and flags."""

SUITE, VALUES = "deeper networks", ("one", "two", "three")
FROM = {2: list(VALUES[1:]), 3: VALUES[2]}                   # layer -> the profiles that have it
MAIN = "beyond/deep"
LABELS = ["eq-deep-moments", "eq-deep-choice", "eq-deep-tilt", "eq-deep-beta", "eq-deep-pull", "eq-deep-density", "eq-deep-experts", "eq-deep-forward", "eq-deep-backward",
          "eq-deep-x", "eq-deep-z", "eq-deep-bound", "eq-deep-sweep"]
CHAPTERS = {MAIN: LABELS, "beyond/depth": ["eq-deep-forward-moments"]}
DIMENSIONS = {**{f"K{l}": f"experts of layer {l}" for l in (1, 2, 3)}, **{f"h{l}": f"numbers of its latent vector x_{l}" for l in (1, 2, 3)},
              **{f"J{l}": f"sticks that read x_{l}: K{l + 1} - 1, or L - 1 at the top" for l in (0, 1, 2)}, "J3": "sticks that read x_3: L - 1", "1": "one"}


def of_layer(l):
    """Arguments that layer l adds: {name: (shape, kind, meaning)}; layer 0 is the input."""
    K, h, below, own = f"K{l}" if l else "1", f"h{l}", f"h{l - 1}+1" if l > 1 else "D", f"h{l}+1" if l else "D"
    reads = {f"beta{l}_mu": ([f"J{l}", own], "float", f"means of q(beta_{l}): the sticks that read x_{l}, the bias last"),
             f"beta{l}_S": ([f"J{l}", own, own], "float", "their covariances"),
             f"xi{l}": (["N", K, f"J{l}"], "float", f"tilts of q(omega_{l} | z_{l})")}
    return reads if l == 0 else {
        f"M{l}": ([K, h, below], "float", f"means of A_k of layer {l}"), f"V{l}": ([K, below, below], "float", "their column covariances"),
        f"a{l}": ([K], "float", "shapes of q(tau)"), f"b{l}": ([K, h], "float", "rates of q(tau), or scales under gamma = scale"),
        f"gamma{l}": (["N", K], "float", f"q(z_{l} = k)"), f"mu{l}": (["N", K, h], "float", f"means of q(x_{l} | z_{l} = k)"),
        f"Sigma{l}": (["N", K, h, h], "float", "their covariances"), **reads}


STATE = {name: spec for l in range(4) for name, spec in of_layer(l).items()}
GLOBAL = {name: spec for name, spec in STATE.items() if name[:-1] not in ("gamma", "mu", "Sigma", "xi")}
ONLY_UNDER = {name: {"layers": FROM[l]} for l in (2, 3) for name in of_layer(l)}
AT = {"s": ([], "int", "which layer, 1 .. S; for sticks and tilts which they read: x_s, s = 0 .. S")}

Z = "w^(s) = gamma{s}, w^(S+1) one-hot at y, w^(0) = 1; C_c = Sigma{s}_c (0 for x_0), m_c = [mu{s}_c; 1] (x~ for x_0), G_c = m_c m_c^T + C_c"
MIX = "m = sum_c w_c m_c, C = sum_c w_c (C_c + (m_c - m)(m_c - m)^T), G = C + m m^T"
COUNTS = "b_j = sum_{k>=j} w^(s+1)_k, kappa_j = w^(s+1)_j - b_j/2"
THETA = "theta(t) = tanh(t/2)/(2t), K(t) = ln cosh(t/2) - (t/4) tanh(t/2)"
CHOICE = ("T_ck = sum_j (kappa_jk E_j . m_c - b_jk (ln 2 + theta(xi{s}_cj) tr(B_j G_c)/2 + K(xi{s}_cj))), b_jk = [j <= k], kappa_jk = [j = k] - b_jk/2, "
          f"E_j = beta{{s}}_mu_j, B_j = beta{{s}}_S_j + E_j E_j^T, {THETA}")
PULL = "W_k = sum_i (a_k/b_ki) M_ki M_ki^T + h V_k"
DENSITY = ("E_ck = (1/2) sum_i (digamma(a_k) - ln b_ki - ln 2pi - (a_k/b_ki)((mu_ki - M_ki . m_c)^2 + Sigma_kii)) - (h/2) m_c^T V_k m_c - (1/2) tr(W_k C_c), "
           f"{PULL}, W_k without the row and column of the 1; M, V, a, b, mu, Sigma of layer s+1")
KL = ("sum_s sum_j (1/2)((tr S_j + |m_j|^2)/sigma^2 - D + 2 D ln sigma - ln|S_j|) of beta{s}, sigma = sigma1 for s = S and sigma0 below, plus sum_s sum_k of "
      "(h/2)(tr V_k/v0 - D + D ln v0 - ln|V_k|) + sum_i ((a_k/b_ki)|M_ki|^2/(2 v0) + (a_k - a0) digamma(a_k) - lnGamma(a_k) + lnGamma(a0) + a0 (ln b_ki - ln b0) + a_k (b0 - b_ki)/b_ki)")
ORDER = "tilt 0; (x, tilt, z) of layer 1, .., S, inner times; beta S, .., 0; experts 1, .., S"
MOVES = "max |new - old| / (1 + |old|) over all beta_mu, M, a, b and gamma"
FORMULAS = {
    "deep_moments": "E[x] = sum_k gamma_k mu_k, Cov[x] = sum_k gamma_k (Sigma_k + (mu_k - E[x])(mu_k - E[x])^T)",
    "deep_x": "Sigma_c = P^-1, mu_c = P^-1 eta; P = diag(a_c/b_ci) + sum_j b_j theta(xi{s}_cj) [B_j]_ww + [s < S] sum_k gamma{s+1}_k [W_k]_ww, eta = (a_c/b_c) M_c m + sum_j (kappa_j [E_j]_w "
              "- b_j theta(xi{s}_cj) [B_j]_w1) + [s < S] sum_k gamma{s+1}_k (sum_i (a_k/b_ki) mu_ki [M_ki]_w - [W_k]_w1), a_c, b_c, M_c of layer s and a_k, b_k, M_k, mu_k of layer s+1; m the mean of "
              f"x~_(s-1), {COUNTS}, {PULL}, B_j = beta{{s}}_S_j + E_j E_j^T; w: without the 1, 1: its column; {MIX}; {Z}",
    "deep_z": f"gamma_k = exp(r_k)/sum exp(r), r_k = sum_c w^(s-1)_c l^(s-1)_ck + (h/2)(1 + ln 2pi) + (1/2) ln|Sigma_k| + sum_k' l^(s)_kk' w^(s+1)_k', l^(s) = T^(s) + [s < S] E^(s); {CHOICE}; {DENSITY}; {Z}",
    "deep_tilt": f"xi_cj = sqrt(tr(B_j G_c)), B_j = beta{{s}}_S_j + E_j E_j^T; {Z}",
    "deep_beta": f"S_j = (I/sigma^2 + sum_n b_j sum_c w_c theta(xi{{s}}_cj) G_c)^-1, mu_j = S_j sum_n kappa_j m_n, sigma = sigma1 for s = S and sigma0 below, {COUNTS}; {MIX}; {Z}",
    "deep_experts": "V_k = (I/v0 + sum_n gamma{s}_nk G_n)^-1, M_k = (sum_n gamma{s}_nk mu{s}_nk m_n^T) V_k, a_k = a0 + sum_n gamma{s}_nk/2, b_ki = b0 + (1/2) sum_n gamma{s}_nk (Sigma{s}_nkii + "
                    f"(mu{{s}}_nki - M_ki . m_n)^2 + M_ki^T C_n M_ki) + |M_ki|^2/(2 v0), m_n, C_n, G_n of x~_(s-1): {MIX}; {Z}",
    "deep_elbo_choice": f"sum_n sum_ck w^(s)_c T_ck w^(s+1)_k; {CHOICE}; {Z}",
    "deep_elbo_expert": f"sum_n sum_ck w^(s-1)_c E_ck gamma{{s}}_k, E^(s-1): {DENSITY}; {Z}",
    "deep_elbo_entropy": "sum_n sum_k gamma{s}_k ((h/2)(1 + ln 2pi) + (1/2) ln|Sigma{s}_k| - ln gamma{s}_k), 0 ln 0 = 0",
    "deep_kl": KL,
    "deep_elbo": "sum over s = 0..S of deep_elbo_choice, plus sums over s = 1..S of deep_elbo_expert and deep_elbo_entropy, minus deep_kl",
    "deep_sweeps": f"repeat n_sweeps times: {ORDER}, each reading the newest values; elbo_t = deep_elbo after sweep t",
    "deep_stationarity": f"one sweep from the state; residual = {MOVES}",
    "deep_converge": f"sweeps until residual < 1e-9, at most 20000; deep_elbo there, and the residual of one more sweep; residual = {MOVES}",
    "deep_forecast": "from w_c = 1, m = x~, C = 0, for s = 1..S: w'_k = sum_c w_c p_k(c), m'_k = M_k m, C'_k = [M_k]_w C [M_k]_w^T + diag_i((b_ki/(a_k - 1))(1 + tr V_k G)); then ln sum_c w_c p_y(c); p_k(c) = "
                     f"E[sigma(psi_k)] prod_(j<k) E[sigma(-psi_j)] of independent Gaussian psi_j with mean E_j . m_c and variance tr(B_j G_c) - mean^2, B_j = beta{{s}}_S_j + E_j E_j^T; {MIX}",
}
FLAGS = {
    "InputMean": ("eq-deep-density", "The input of a layer taken for its mean: its spread left out of the experts, their density, the tilts, or what reads it."),
    "MixtureSpread": ("eq-deep-moments", "Of the spread of a mixture the experts' covariances alone, or the distances of their means alone."),
    "LayerAbove": ("eq-deep-backward", "What a layer above says is not heard, is not weighted by its responsibilities, or stops at its bias."),
    "LayerBelow": ("eq-deep-forward", "The input of an own expert is not the mean over the experts below: of the likeliest one, of all alike, or of the first."),
    "PullSpread": ("eq-deep-pull", "The curvature E[A^T diag(tau) A] of an expert in its input without h V, with V once, or without the precisions."),
    "LayerPrior": ("eq-deep-bound", "The prior of another layer: sigma1 for a gate in the middle, sigma0 for the output, or a layer's divergence forgotten."),
}


def operations(DATA, PRIORS, VALUE):
    """{name: (level, equation, definition, in, out)}."""
    full = {**DATA, **STATE, **{name: PRIORS[name] for name in ("v0", "a0", "b0", "sigma0", "sigma1")}}
    one, update = {**full, **AT}, lambda *shape: (list(shape), "float", "as in the state")
    at = "layer s"
    return {
        "deep_moments": (1, "eq-deep-moments", "E[x] and Cov[x] of the mixture that a layer hands on.",
                         {"gamma": (["N", "K"], "float", "weights of the experts"), "mu": (["N", "K", "h"], "float", "means"), "Sigma": (["N", "K", "h", "h"], "float", "covariances")},
                         {"mean": (["N", "h"], "float", "E[x]"), "cov": (["N", "h", "h"], "float", "Cov[x]")}),
        "deep_x": (2, "eq-deep-x", f"Best q(x_s | z_s) of {at} given all else: its own experts below, the sticks and experts that read it.", one, {"mu": update("N", "K", "h"), "Sigma": update("N", "K", "h", "h")}),
        "deep_z": (2, "eq-deep-z", f"Best q(z_s) of {at} given all else, with the stored tilts.", one, {"gamma": update("N", "K")}),
        "deep_tilt": (2, "eq-deep-tilt", "Best q(omega_s | z_s) of the sticks that read x_s; s = 0: one expert.", one, {"xi": update("N", "K", "J")}),
        "deep_beta": (2, "eq-deep-beta", "Best q(beta_s): the gate of layer s + 1, or for s = S the output.", one, {"beta_mu": update("J", "m+1"), "beta_S": update("J", "m+1", "m+1")}),
        "deep_experts": (2, "eq-deep-experts", f"Best q(A, tau) of {at}, whose input is the mixture below.", one,
                         {"M": update("K", "h", "m+1"), "V": update("K", "m+1", "m+1"), "a": update("K"), "b": update("K", "h")}),
        "deep_elbo_choice": (3, "eq-deep-choice", "What the bound says of the choices that read x_s, averaged over q(z_s) and q(z_{s+1}), at the stored tilts.", one, VALUE),
        "deep_elbo_expert": (3, "eq-deep-density", "The latent vectors of layer s under its experts, averaged over q(z_{s-1}) and q(z_s).", one, VALUE),
        "deep_elbo_entropy": (3, "eq-deep-bound", "sum_n H[q(z_s)] + sum_nk gamma_nk H[q(x_s | z_s = k)].", one, VALUE),
        "deep_kl": (3, "eq-deep-bound", "The divergence of all coefficients and experts from their priors, a positive number.", full, VALUE),
        "deep_elbo": (3, "eq-deep-bound", "The complete bound of S layers.", full, VALUE),
        "deep_sweeps": (4, "eq-deep-sweep", f"n_sweeps sweeps from the given state: {ORDER}. elbo is the complete bound after each.", {**full, "n_sweeps": ([], "int", "how many")},
                        {**STATE, "elbo": (["T"], "float", "bound after each sweep, nats")}),
        "deep_stationarity": (5, "eq-deep-sweep", f"Residual of a state: {MOVES}, after one sweep.", full, {"residual": ([], "float", "0 at a fixed point")}),
        "deep_converge": (5, "eq-deep-sweep", "Sweeps from the given state until the residual is below 1e-9 (float32: until it no longer falls), at most 20000; the bound there and the residual.", full,
                          {"elbo": ([], "float", "bound at the fixed point, nats"), "residual": ([], "float", "should be 0")}),
        "deep_forecast": (6, "eq-deep-forward-moments", "ln p(y = c | x) by moments: every layer hands on a mixture of Gaussians, by its mean and covariance.",
                          {"X": DATA["X"], **GLOBAL}, {"log_probs": (["N", "L"], "float", "nats")}),
    }
