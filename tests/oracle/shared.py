"""The model with a shared mean of the experts, centred sticks and Gamma priors of the scales, in loops; written apart from the package.

A state is the dict of `cmn` with six more entries: A0_mean (h, D) and A0_var (h,), and for each scale (v0, sigma0, sigma1) the mean `rho` (3,) and
the shape `rho_shape` (3,) of q(1/v0), q(1/sigma0^2), q(1/sigma1^2).  `above` is anything with v00, centred, strength.  With strength None the
scales are those of the priors.
"""
import numpy as np
from scipy.special import gammainccinv, ndtri
from scipy.stats import qmc

from . import blocks, cmn, evidence
from .cmn import OraclePriors
from .evidence import likelihood

FIELDS = ("A0_mean", "A0_var", "rho", "rho_shape")
CHANGES = {**cmn.CHANGES, "shared": ("A0_mean", "A0_var"), "scales": ("rho", "rho_shape")}


def in_force(s, priors, above):
    """Priors whose scales are those that the other factors see."""
    if above.strength is None:
        return OraclePriors(priors.v0, priors.a0, priors.b0, priors.sigma0, priors.sigma1)
    return OraclePriors(1 / s["rho"][0], priors.a0, priors.b0, 1 / np.sqrt(s["rho"][1]), 1 / np.sqrt(s["rho"][2]))


def stick_mean(j, J, D, above):
    """Prior mean of the coefficients of stick j of J."""
    m = np.zeros(D)
    if above.centred:
        m[-1] = -np.log(J - j)
    return m


def mean_square(m, S, about):
    """E |v - about|^2 of v ~ N(m, S), by symmetric points."""
    return np.mean([np.sum((v - about) ** 2) for v in blocks.symmetric_points(m, S)])


def expected_misfit(s, k, i):
    """E[tau |A_ki - A_0i|^2]: given tau the difference is Gaussian; the mean is linear in tau, so two points of tau do."""
    D, mean = s["M"].shape[2], s["a"][k] / s["b"][k, i]
    found = []
    for tau in (0.5 * mean, 1.5 * mean):
        S = s["V"][k] / tau + s["A0_var"][i] * np.eye(D)
        found.append(tau * mean_square(s["M"][k, i], S, s["A0_mean"][i]))
    return np.mean(found)


# ---- updates
def update_shared(s, X, y, priors, above):
    K, h, D = s["M"].shape
    mean, var = np.zeros((h, D)), np.zeros(h)
    if above.v00 > 0:
        v0 = in_force(s, priors, above).v0
        for i in range(h):
            precision, linear = np.eye(D) / above.v00, np.zeros(D)
            for k in range(K):
                tau = s["a"][k] / s["b"][k, i]
                precision = precision + tau * np.linalg.inv(v0 * np.eye(D))
                linear = linear + tau * np.linalg.solve(v0 * np.eye(D), s["M"][k, i])
            cov = np.linalg.inv(precision)
            mean[i], var[i] = cov @ linear, np.trace(cov) / D
    return {**s, "A0_mean": mean, "A0_var": var}


def update_experts(s, X, y, priors, above):
    return cmn.update_experts(s, X, y, in_force(s, priors, above), s["A0_mean"], s["A0_var"])


def update_beta(name, sigma):
    """The update of a block of sticks: that of prior mean 0, moved by S m / sigma^2 (the linear term gains m / sigma^2)."""
    plain = {"beta1": cmn.update_beta1, "beta0": cmn.update_beta0}[name]

    def update(s, X, y, priors, above):
        p = in_force(s, priors, above)
        s = plain(s, X, y, p)
        mean, cov = s[f"{name}_mu"].copy(), s[f"{name}_S"]
        for j in range(len(mean)):
            mean[j] += cov[j] @ stick_mean(j, len(mean), mean.shape[1], above) / getattr(p, sigma) ** 2
        return {**s, f"{name}_mu": mean}
    return update


def misfits(s, above):
    """Sums of squares about the prior means of the three blocks, and their sizes."""
    K, h, D = s["M"].shape
    found, sizes = [sum(expected_misfit(s, k, i) for k in range(K) for i in range(h))], [K * h * D]
    for name in ("beta0", "beta1"):
        mu, S = s[f"{name}_mu"], s[f"{name}_S"]
        found.append(sum(mean_square(mu[j], S[j], stick_mean(j, len(mu), mu.shape[1], above)) for j in range(len(mu))))
        sizes.append(mu.size)
    return found, sizes


def update_scales(s, X, y, priors, above):
    if above.strength is None:
        return s
    rho, shape = np.zeros(3), np.zeros(3)
    for block, (Q, n, scale) in enumerate(zip(*misfits(s, above), (priors.v0, priors.sigma0**2, priors.sigma1**2))):
        shape[block] = above.strength + n / 2
        rho[block] = shape[block] / (above.strength * scale + Q / 2)
    return {**s, "rho": rho, "rho_shape": shape}


def _plain(update):
    return lambda s, X, y, priors, above: {**s, **update(s, X, y, priors)}


UPDATES = {**{name: _plain(cmn.UPDATES[name]) for name in ("x", "omega1", "omega0", "z")}, "beta1": update_beta("beta1", "sigma1"),
           "beta0": update_beta("beta0", "sigma0"), "experts": update_experts, "shared": update_shared, "scales": update_scales}


# ---- the bound
def elbo(s, X, y, priors, above):
    """The rows' terms by `cmn`, the divergences by their definition."""
    names = ("output", "pg1", "latent", "entropy_x", "gate", "pg0", "entropy_z")
    terms = cmn.elbo_terms(s, X, y, priors)
    return sum(terms[name] for name in names) - sum(divergences(s, priors, above).values())


def divergences(s, priors, above):
    """E_q[ln q - ln p] of the global factors, each ln p averaged over what is above."""
    K, h, D = s["M"].shape
    fixed = above.strength is None
    scale = np.array([priors.v0, priors.sigma0**2, priors.sigma1**2])
    rho = 1 / scale if fixed else s["rho"]
    log_rho = -np.log(scale) if fixed else np.array([blocks.gamma_mean_log(c, c / r) for c, r in zip(s["rho_shape"], s["rho"])])
    found = dict.fromkeys(("beta1", "beta0", "experts", "shared", "scales"), 0.0)
    for k in range(K):
        log_det = np.linalg.slogdet(s["V"][k])[1]
        for i in range(h):
            # E ln q(A|tau) - E ln p(A|tau, rho, A0): the halves of ln 2 pi and of ln tau cancel
            found["experts"] += -0.5 * D - 0.5 * log_det - 0.5 * D * log_rho[0] + 0.5 * rho[0] * expected_misfit(s, k, i)
            found["experts"] += cmn.kl_precision(s, k, i, priors)
    for block, name in ((1, "beta0"), (2, "beta1")):
        mu, S = s[f"{name}_mu"], s[f"{name}_S"]
        for j, (m, C) in enumerate(zip(mu, S)):
            about = stick_mean(j, len(mu), len(m), above)
            found[name] += (-0.5 * len(m) - 0.5 * np.linalg.slogdet(C)[1] - 0.5 * len(m) * log_rho[block]
                            + 0.5 * rho[block] * mean_square(m, C, about))
    if above.v00 > 0:
        for i in range(h):
            S = s["A0_var"][i] * np.eye(D)
            found["shared"] += blocks.gaussian_kl(s["A0_mean"][i], S, np.sqrt(above.v00))
    if not fixed:
        for c, r, v in zip(s["rho_shape"], s["rho"], scale):
            found["scales"] += blocks.gamma_kl(c, c / r, above.strength, above.strength * v)
    return found


# ---- exact evidence, h = 1
def by_qmc(X, y, K, L, priors, above, seed=0, log2_draws=13, replicates=8):
    """(ln evidence, its standard error) from scrambled Sobol sequences; the draws go from the top of the model down."""
    D, J1, J0 = X.shape[1] + 1, L - 1, K - 1
    dims, means = 3 + D + 2 * J1 + D * J0 + K * (D + 1), []
    for r in range(replicates):
        u = qmc.Sobol(dims, scramble=True, rng=np.random.default_rng([seed, r])).random_base2(log2_draws)
        u = np.clip(u, 1e-12, 1 - 1e-12)
        g, at, S = ndtri(u), 3, len(u)
        scale = np.array([priors.v0, priors.sigma0**2, priors.sigma1**2])[:, None] * np.ones(S)
        if above.strength is not None:
            scale = scale * above.strength / gammainccinv(above.strength, u[:, :3].T)
        A0 = np.sqrt(above.v00) * g[:, at:at + D]
        at += D
        beta1 = np.sqrt(scale[2])[:, None, None] * g[:, at:at + 2 * J1].reshape(S, J1, 2)
        beta1 = beta1 + np.array([stick_mean(j, J1, 2, above) for j in range(J1)])
        at += 2 * J1
        beta0 = np.sqrt(scale[1])[:, None, None] * g[:, at:at + D * J0].reshape(S, J0, D)
        beta0 = beta0 + np.array([stick_mean(j, J0, D, above) for j in range(J0)]).reshape(J0, D)
        at += D * J0
        tau = gammainccinv(priors.a0, u[:, at:at + K]) / priors.b0
        at += K
        A = A0[:, None, :] + np.sqrt(scale[0][:, None] / tau)[:, :, None] * g[:, at:].reshape(S, K, D)
        means.append(likelihood(X, y, beta1, beta0, A, tau).mean())
    means = np.array(means)
    return float(np.log(means.mean())), float(means.std(ddof=1) / np.sqrt(replicates) / means.mean())


def by_quadrature(X, y, priors, above, nodes=15):
    """K = 1, L = 2, h = 1, d = 1, fixed scales: the expert's row has variance v0 / tau + v00, so the shared mean costs no dimension."""
    return evidence.by_quadrature(X, y, priors, nodes, above.v00, stick_mean(0, 1, 2, above))
