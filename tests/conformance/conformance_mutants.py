"""The kit is tested by bugs: adapters with one planted fault each, of a kind seen in public code.

    python tests/conformance/conformance_mutants.py [WORD ...]        a table: which level, which flag, which rank
    python tests/conformance/conformance_mutants.py --names [WORD ...]  how often the first name is right, by level and dtype, for these
                                                                      bugs and for those of conformance_unseen.py

A mutant is the adapter conformance/adapters/numpy_minimal.py (levels 0 to 5) or the package's own adapter (level 6) with one piece of its
text replaced; the piece occurs exactly once.  It is killed if the first level that fails is the level it is meant for and a failing
case of that level bears the flag it is meant for.
"""

import sys
import types
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from conformance_unseen import FOREIGN, UNSEEN

from cmn_conformance import catalogue, runner
from cmn_conformance.process import LocalAdapter

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {"numpy": ROOT / "conformance/adapters/numpy_minimal.py", "package": ROOT / "conformance/adapters/package.py",
           "loops": ROOT / "conformance/adapters/python_loops.py"}


class Mutant(NamedTuple):
    """One fault."""
    id: str
    level: int
    flag: str
    old: str
    new: str
    base: str = "numpy"


MUTANTS = [Mutant(*fault) for fault in [
    # ---- 0: special functions
    ("tanh(xi) for tanh(xi/2)", 0, "HalfAngle", "return np.tanh(c / 2) / (2 * c)", "return np.tanh(c) / (2 * c)"),
    ("1/xi for 1/(2 xi)", 0, "HalfAngle", "return np.tanh(c / 2) / (2 * c)", "return np.tanh(c / 2) / c"),
    ("0/0 at tilt 0", 0, "ZeroTilt", "c = np.maximum(np.abs(c), 1e-150)", "c = np.abs(c)"),
    ("log of cosh", 0, "HugeTilt", "    return np.where(c < 1, np.log1p(2 * np.sinh(np.minimum(c, 1) / 4) ** 2), c / 2 + np.log1p(np.exp(-c)) - math.log(2))",
     "    return np.log(np.cosh(c / 2))"),
    ("ln cosh at its limit from 9 on", 0, "CutSeries", "c / 2 + np.log1p(np.exp(-c)) - math.log(2))", "c / 2 + np.where(c < 9, np.log1p(np.exp(-c)), 0) - math.log(2))"),
    ("mean at its limit from 9 on", 0, "CutSeries", "return np.tanh(c / 2) / (2 * c)", "return np.where(c < 9, np.tanh(c / 2), 1) / (2 * c)"),
    ("ln cosh without a series", 0, "SmallTilt", "np.where(c < 1, np.log1p(2 * np.sinh(np.minimum(c, 1) / 4) ** 2), c / 2 + np.log1p(np.exp(-c)) - math.log(2))",
     "c / 2 + np.log1p(np.exp(-c)) - math.log(2)"),
    ("variance without a series", 0, "SmallTilt", "return b * np.where(small, series, (1 - e**2 - 2 * y * e) / (2 * y**3 * (1 + e) ** 2))",
     "return b * (np.sinh(c) - c) / (4 * c**3 * np.cosh(c / 2) ** 2)"),
    ("variance with the mean's denominator", 0, "HalfAngle", "(2 * y**3 * (1 + e) ** 2)", "(2 * y**3 * (1 + e))"),
    ("divergence without a series", 0, "SmallTilt", "np.where(c < 0.5, series, log_cosh_half(c) - c / 4 * np.tanh(c / 2))",
     "log_cosh_half(c) - c / 4 * np.tanh(c / 2)"),
    ("divergence with xi/2", 0, "HalfAngle", "c / 4 * np.tanh(c / 2))", "c / 2 * np.tanh(c / 2))"),
    ("mean of PG(1, c) for PG(b, c)", 0, "SoftCounts", "return b * theta(c)", "return theta(c)"),
    ("b squared in the variance", 0, "SoftCounts", "return b * np.where(small, series,", "return b**2 * np.where(small, series,"),
    ("previous stick for the running product", 0, "OffByOneStick", "zero = np.zeros(psi.shape[:-1] + (1,))\n    return np.concatenate([zero, np.cumsum(go, -1)], -1)",
     "zero = np.zeros(psi.shape[:-1] + (1,))\n    return np.concatenate([zero, go], -1)"),
    ("sigma(psi) is passing on", 0, "FlippedStick", "stop, go = log_sigmoid(psi), log_sigmoid(-psi)", "go, stop = log_sigmoid(psi), log_sigmoid(-psi)"),
    ("log of the sigmoid", 0, "ExtremeLogit", "return -np.logaddexp(0.0, -t)", "return np.log(1 / (1 + np.exp(-t)))"),
    ("a stick for the last class", 0, "ExtraStick", "+ np.concatenate([stop, zero], -1)\n\n\ndef stick_counts",
     "+ np.concatenate([stop, zero + math.log(0.5)], -1)\n\n\ndef stick_counts"),
    ("column-major input", 0, "ColumnMajor", "stop, go = log_sigmoid(psi), log_sigmoid(-psi)",
     "psi = psi.ravel().reshape(psi.shape, order='F')\n    stop, go = log_sigmoid(psi), log_sigmoid(-psi)"),
    ("kappa = y", 0, "UncentredKappa", "return b, weights[..., :-1] - b / 2", "return b, weights[..., :-1]"),
    ("kappa = y - 1/2 on every stick", 0, "InactiveStick", "return b, weights[..., :-1] - b / 2", "return b, weights[..., :-1] - 0.5"),
    ("every stick tossed", 0, "InactiveStick", "b = np.cumsum(weights[..., ::-1], -1)[..., ::-1][..., :-1]", "b = np.ones_like(weights[..., :-1])"),
    ("own stick left out of b", 0, "OffByOneStick", "[..., ::-1][..., :-1]            # all", "[..., ::-1][..., 1:]            # all"),
    ("own class among the later ones", 0, "OffByOneStick", "np.logaddexp.reduce(log_probs[..., j + 1:], axis=-1)", "np.logaddexp.reduce(log_probs[..., j:], axis=-1)"),
    ("sum of probabilities underflows", 0, "Underflow", "later = np.logaddexp.reduce(log_probs[..., j + 1:], axis=-1)", "later = np.log(np.exp(log_probs[..., j + 1:]).sum(-1))"),
    ("sigmoid of the mean", 0, "PlugIn", "return np.array([log_sigmoid_normal_one(*pair) for pair in zip(m.ravel(), v.ravel())]).reshape(m.shape)", "return log_sigmoid(m)"),
    ("deviation for variance", 0, "VarianceAsDeviation", "s, wide = math.sqrt(v), math.sqrt(2 * cut)", "s, wide = v, math.sqrt(2 * cut)"),
    ("mean of the logarithm", 0, "Jensen", "return m + np.logaddexp.reduce(terms) + math.log(step / math.sqrt(2 * math.pi))",
     "w = np.exp(-t**2 / 2)\n    return (w * log_sigmoid(m + s * t)).sum() / w.sum()"),
    ("last mean repeated", 0, "OffByOneStick", "stop, go, zero = log_sigmoid_normal(m, v), log_sigmoid_normal(-m, v), np.zeros(m.shape[:-1] + (1,))\n    return np.concatenate([zero, np.cumsum(go, -1)], -1)",
     "stop, go, zero = log_sigmoid_normal(m, v), log_sigmoid_normal(-m, v), np.zeros(m.shape[:-1] + (1,))\n    return np.concatenate([zero, go], -1)"),
    # ---- 1: expectations, divergences, entropies
    ("square of the mean", 1, "SecondMoment", "return S + mu[..., :, None] * mu[..., None, :]", "return mu[..., :, None] * mu[..., None, :]"),
    ("the 1 comes first", 1, "Padding", "return np.concatenate([x, np.ones(x.shape[:-1] + (1,))], -1)", "return np.concatenate([np.ones(x.shape[:-1] + (1,)), x], -1)"),
    ("entropy without e", 1, "DroppedConstant", "return S.shape[-1] / 2 * (1 + math.log(2 * math.pi)) + log_det(S) / 2", "return S.shape[-1] / 2 * math.log(2 * math.pi) + log_det(S) / 2"),
    ("entropy of one dimension", 1, "WrongDimension", "return S.shape[-1] / 2 * (1 + math.log(2 * math.pi)) + log_det(S) / 2", "return (1 + math.log(2 * math.pi)) / 2 + log_det(S) / 2"),
    ("sigma read as a variance", 1, "VarianceAsDeviation", "/ sigma**2 - m + 2 * m * math.log(sigma)", "/ sigma - m + m * math.log(sigma)"),
    ("divergence without ln sigma", 1, "DroppedConstant", "- m + 2 * m * math.log(sigma) - log_det(S)", "- m - log_det(S)"),
    ("prior precision inverted in the divergence", 1, "CovarianceAsPrecision", "/ sigma**2 - m + 2 * m * math.log(sigma)", "* sigma**2 - m - 2 * m * math.log(sigma)"),
    ("ln of a scale", 1, "RateScale", "return digamma(a) - np.log(b)", "return digamma(a) + np.log(b)"),
    ("ln of the mean", 1, "PlugIn", "return digamma(a) - np.log(b)", "return np.log(a / b)"),
    ("Gamma divergence of scales", 1, "RateScale", "a0 * (np.log(b) - math.log(b0)) + a * (b0 - b) / b", "a0 * (math.log(b0) - np.log(b)) + a * (b - b0) / b0"),
    ("Gamma divergence without its constant", 1, "DroppedConstant", "- lgamma(a) + lgamma(a0) + a0", "- lgamma(a) + a0"),
    ("one row for all rows", 1, "WrongDimension", "rows = h * (trace(V) / v0", "rows = (trace(V) / v0"),
    ("number of experts for D", 1, "WrongDimension", "/ v0 - D + D * math.log(v0)", "/ v0 - D + len(M) * math.log(v0)"),
    ("h for D", 1, "WrongDimension", "/ v0 - D + D * math.log(v0)", "/ v0 - D + h * math.log(v0)"),
    ("v0 read as a precision", 1, "CovarianceAsPrecision", "rows = h * (trace(V) / v0 - D + D * math.log(v0)", "rows = h * (trace(V) * v0 - D - D * math.log(v0)"),
    ("noise mean of a scale", 1, "RateScale", "means = (a[:, None] / b *", "means = (a[:, None] * b *"),
    ("0 ln 0", 1, "OneHot", "np.log(np.where(gamma > 0, gamma, 1.0))", "np.log(gamma)"),
    ("entropy in bits", 1, "DroppedConstant", "return -(gamma * np.log(np.where(gamma > 0, gamma, 1.0))).sum(-1)", "return -(gamma * np.log2(np.where(gamma > 0, gamma, 1.0))).sum(-1)"),
    ("gate logits squared", 1, "SecondMoment", "return Xt @ beta0_mu.T, np.einsum(\"nd,jde,ne->nj\", Xt, second_moment(beta0_mu, beta0_S), Xt)", "return Xt @ beta0_mu.T, (Xt @ beta0_mu.T) ** 2"),
    ("spread of x1 forgotten", 1, "SecondMoment", "np.einsum(\"nkde,lde->nkl\", padded_second_moment(mu, Sigma), second_moment(beta1_mu, beta1_S))",
     "np.einsum(\"nkd,lde,nke->nkl\", pad(mu), second_moment(beta1_mu, beta1_S), pad(mu))"),
    ("tilts always fresh", 1, "StaleTilt", "b * (math.log(2) + theta(xi) * psi2 / 2 + tilt_kl(xi))", "b * (math.log(2) + log_cosh_half(np.sqrt(psi2)))"),
    ("ln 2 left out", 1, "DroppedConstant", "b * (math.log(2) + theta(xi) * psi2 / 2 + tilt_kl(xi))", "b * (theta(xi) * psi2 / 2 + tilt_kl(xi))"),
    ("a half left out", 1, "DroppedConstant", "theta(xi) * psi2 / 2 + tilt_kl(xi))).sum(-1)", "theta(xi) * psi2 + tilt_kl(xi))).sum(-1)"),
    ("bound over all sticks", 1, "InactiveStick", "return (kappa * psi - b * (math.log(2)", "return (kappa * psi - (math.log(2)"),
    # ---- 2: one factor's update
    ("noise precision inverted", 2, "RateScale", "second_moment(beta1_mu, beta1_S), a[:, None] / b\n", "second_moment(beta1_mu, beta1_S), b / a[:, None]\n"),
    ("cross term left out", 2, "CrossTerm", "kappa @ beta1_mu[:, :h] - np.einsum(\"nkl,li->nki\", omega, B[:, :h, h])", "kappa @ beta1_mu[:, :h]"),
    ("cross term with the wrong sign", 2, "CrossTerm", "kappa @ beta1_mu[:, :h] - np.einsum(", "kappa @ beta1_mu[:, :h] + np.einsum("),
    ("cross term without the covariance", 2, "CrossTerm", "omega, B[:, :h, h])", "omega, beta1_mu[:, :h] * beta1_mu[:, h:])"),
    ("beta_1 by its mean", 2, "SecondMoment", "omega, B, tau = coins * theta(xi1), second_moment(beta1_mu, beta1_S)", "omega, B, tau = coins * theta(xi1), second_moment(beta1_mu, 0 * beta1_S)"),
    ("all sticks pull on x1", 2, "InactiveStick", "omega, B, tau = coins * theta(xi1)", "omega, B, tau = theta(xi1)"),
    ("missing prior mean term", 2, "PriorMissing", "eta = tau * np.einsum(\"kid,nd->nki\", M, pad(X)) + kappa", "eta = kappa"),
    ("kappa of the label alone", 2, "UncentredKappa", "+ kappa @ beta1_mu[:, :h] -", "+ (kappa + coins / 2) @ beta1_mu[:, :h] -"),
    ("h = L - 1", 2, "LatentDimension", "tau = coins * theta(xi1), second_moment(beta1_mu, beta1_S), a[:, None] / b\n    h = M.shape[1]",
     "tau = coins * theta(xi1), second_moment(beta1_mu, beta1_S), a[:, None] / b\n    h = min(M.shape[1], len(beta1_mu))\n    M, tau = M[:, :h], tau[:, :h]"),
    ("tilt of the mean logit", 2, "SecondMoment", "return np.sqrt(output_logits(mu, Sigma, beta1_mu, beta1_S)[1])", "return np.abs(output_logits(mu, Sigma, beta1_mu, beta1_S)[0])"),
    ("tilt not rooted", 2, "HalfAngle", "return np.sqrt(output_logits(mu, Sigma, beta1_mu, beta1_S)[1])", "return output_logits(mu, Sigma, beta1_mu, beta1_S)[1]"),
    ("gate tilt of the mean logit", 2, "SecondMoment", "return np.sqrt(gate_logits(X, beta0_mu, beta0_S)[1])", "return np.abs(gate_logits(X, beta0_mu, beta0_S)[0])"),
    ("q(z) without the entropy of x1", 2, "MissingEntropy", "expert_bound(**s) + gaussian_entropy(s[\"Sigma\"]) + gate_bound(**s)", "expert_bound(**s) + gate_bound(**s)"),
    ("q(z) without the divergence of omega_1", 2, "MissingTiltKL", "beta1_S), xi1, coins, kappa)", "beta1_S), xi1, coins, kappa) + (coins * tilt_kl(xi1)).sum(-1)"),
    ("q(z) without the divergence of omega_0", 2, "MissingTiltKL", "theta(xi0) * psi2 / 2 + tilt_kl(xi0), np.zeros", "theta(xi0) * psi2 / 2, np.zeros"),
    ("ln 2 cosh at stale gate tilts", 2, "StaleTilt", "math.log(2) + theta(xi0) * psi2 / 2 + tilt_kl(xi0), np.zeros", "math.log(2) + log_cosh_half(np.sqrt(psi2)), np.zeros"),
    ("log normaliser after omega moved", 2, "StaleTilt", "    score = output_bound(**s)", "    s = dict(s, **dict(zip((\"mu\", \"Sigma\"), update_x(**s))))\n    score = output_bound(**s)"),
    ("scores exponentiated first", 2, "Underflow", "gamma = np.exp(score - score.max(-1, keepdims=True))", "gamma = np.exp(score)"),
    ("gate passes one stick only", 2, "OffByOneStick", "np.cumsum(-psi / 2 - cost, -1)], -1) + np.concatenate([psi / 2 - cost, zero], -1)", "-psi / 2 - cost], -1) + np.concatenate([psi / 2 - cost, zero], -1)"),
    ("gate flipped", 2, "FlippedStick", "np.cumsum(-psi / 2 - cost, -1)], -1) + np.concatenate([psi / 2 - cost, zero], -1)", "np.cumsum(psi / 2 - cost, -1)], -1) + np.concatenate([-psi / 2 - cost, zero], -1)"),
    ("uncertainty of A counted once", 2, "LatentDimension", "return (per_row - mu.shape[-1] * np.einsum(\"nd,kde,ne->nk\", Xt, V, Xt)) / 2", "return (per_row - np.einsum(\"nd,kde,ne->nk\", Xt, V, Xt)) / 2"),
    ("maximum likelihood for beta", 2, "PriorMissing", "S = np.linalg.inv(gram + np.eye(gram.shape[-1]) / sigma**2)", "S = np.linalg.pinv(gram)"),
    ("prior precision inverted", 2, "VarianceAsDeviation", "S = np.linalg.inv(gram + np.eye(gram.shape[-1]) / sigma**2)", "S = np.linalg.inv(gram + np.eye(gram.shape[-1]) * sigma**2)"),
    ("prior variance for deviation", 2, "VarianceAsDeviation", "S = np.linalg.inv(gram + np.eye(gram.shape[-1]) / sigma**2)", "S = np.linalg.inv(gram + np.eye(gram.shape[-1]) / sigma)"),
    ("squared gate weights", 2, "Unweighted", "gram = np.einsum(\"nk,nkl,nkde->lde\", gamma, coins", "gram = np.einsum(\"nk,nkl,nkde->lde\", gamma**2, coins"),
    ("gamma left out of the pull", 2, "Unweighted", "np.einsum(\"nl,nk,nkd->ld\", kappa[:, 0], gamma, pad(mu))", "np.einsum(\"nl,nk,nkd->ld\", kappa[:, 0], np.full_like(gamma, 1 / gamma.shape[1]), pad(mu))"),
    ("mean of x1 for its moments", 2, "SecondMoment", "coins * theta(xi1), padded_second_moment(mu, Sigma))\n", "coins * theta(xi1), padded_second_moment(mu, 0 * Sigma))\n"),
    ("beta_1 sees every stick", 2, "InactiveStick", "gamma, coins * theta(xi1), padded", "gamma, theta(xi1) * np.ones_like(coins), padded"),
    ("gate kappa = gamma - 1/2", 2, "SoftCounts", "xi0), Xt, Xt), kappa.T @ Xt, sigma0)", "xi0), Xt, Xt), (gamma[:, :-1] - 0.5).T @ Xt, sigma0)"),
    ("gate tossed by everyone", 2, "SoftCounts", "np.einsum(\"nj,nd,ne->jde\", reach * theta(xi0), Xt, Xt)", "np.einsum(\"nj,nd,ne->jde\", theta(xi0), Xt, Xt)"),
    ("gate with its own weights only", 2, "SoftCounts", "np.einsum(\"nj,nd,ne->jde\", reach * theta(xi0), Xt, Xt)", "np.einsum(\"nj,nd,ne->jde\", gamma[:, :-1] * theta(xi0), Xt, Xt)"),
    ("v0 as a precision in the update", 2, "CovarianceAsPrecision", "np.eye(Xt.shape[1]) / v0)", "np.eye(Xt.shape[1]) * v0)"),
    ("no prior on A", 2, "PriorMissing", "np.eye(Xt.shape[1]) / v0)", "np.eye(Xt.shape[1]) * 1e-9)"),
    ("b without the pull to the prior mean", 2, "PriorMissing", "return M, V, a0 + gamma.sum(0) / 2, b0 + (squares + (M**2).sum(-1) / v0) / 2", "return M, V, a0 + gamma.sum(0) / 2, b0 + squares / 2"),
    ("b without Sigma", 2, "SecondMoment", "squares = np.einsum(\"nk,nki->ki\", gamma, r**2 + np.einsum(\"nkii->nki\", Sigma))", "squares = np.einsum(\"nk,nki->ki\", gamma, r**2)"),
    ("b without its half", 2, "RateScale", "b0 + (squares + (M**2).sum(-1) / v0) / 2", "b0 + squares + (M**2).sum(-1) / v0"),
    ("N + D for N in a", 2, "WrongDimension", "return M, V, a0 + gamma.sum(0) / 2,", "return M, V, a0 + (gamma.sum(0) + Xt.shape[1]) / 2,"),
    ("squared weights of the experts", 2, "Unweighted", "squares = np.einsum(\"nk,nki->ki\", gamma,", "squares = np.einsum(\"nk,nki->ki\", gamma**2,"),
    ("weights normalised by their total", 2, "EmptyExpert", "    Xt = pad(X)\n    V = np.linalg.inv", "    gamma, Xt = gamma / gamma.sum(0) * len(X), pad(X)\n    V = np.linalg.inv"),
    ("b as a difference of sums", 2, "LargeOffset", "return M, V, a0 + gamma.sum(0) / 2, b0 + (squares + (M**2).sum(-1) / v0) / 2",
     "second = np.einsum(\"nk,nki->ki\", gamma, mu**2 + np.einsum(\"nkii->nki\", Sigma))\n"
     "    return M, V, a0 + gamma.sum(0) / 2, b0 + (second - np.einsum(\"kid,kde,kie->ki\", M, np.linalg.inv(V), M)) / 2"),
    ("M transposed sums", 2, "ColumnMajor", "r = mu - np.einsum(\"kid,nd->nki\", M, Xt)\n    squares", "V = V[:, ::-1, ::-1]\n    r = mu - np.einsum(\"kid,nd->nki\", M, Xt)\n    squares"),
    # ---- 3: terms of the bound
    ("2 pi left out", 3, "DroppedConstant", "- math.log(2 * math.pi) - a[:, None]", "- a[:, None]"),
    ("labels counted without gamma", 3, "DroppedConstant", "return (gamma * output_bound(**s)).sum()", "return output_bound(**s).mean(-1).sum()"),
    ("entropy of z with the wrong sign", 3, "MissingEntropy", "return categorical_entropy(gamma).sum()", "return -categorical_entropy(gamma).sum()"),
    ("gate weighted by the reach", 3, "OffByOneStick", "return (gamma * gate_bound(**s)).sum()", "return (np.roll(gamma, 1, -1) * gate_bound(**s)).sum()"),
    ("entropy of x1 by rows", 3, "MissingEntropy", "return (gamma * gaussian_entropy(Sigma)).sum()", "return gaussian_entropy(Sigma).mean(-1).sum()"),
    ("sigma0 for sigma1", 3, "VarianceAsDeviation", "def kl_beta1(beta1_mu, beta1_S, sigma1, **_):\n    return gaussian_kl(beta1_mu, beta1_S, sigma1).sum()",
     "def kl_beta1(beta1_mu, beta1_S, sigma0, **_):\n    return gaussian_kl(beta1_mu, beta1_S, sigma0).sum()"),
    ("mean over sticks", 3, "WrongDimension", "return gaussian_kl(beta0_mu, beta0_S, sigma0).sum()", "return gaussian_kl(beta0_mu, beta0_S, sigma0).sum() / max(len(beta0_mu), 1)"),
    ("experts' divergence with swapped priors", 3, "RateScale", "return mng_kl(M, V, a, b, v0, a0, b0).sum()", "return mng_kl(M, V, a, b, v0, b0, a0).sum()"),
    ("bound without the entropy of x1", 3, "MissingEntropy", "elbo_expert(**s) + elbo_latent_entropy(**s) +", "elbo_expert(**s) +"),
    ("divergences added", 3, "DroppedConstant", "return gains - kl_beta1(**s) - kl_beta0(**s)", "return gains + kl_beta1(**s) - kl_beta0(**s)"),
    # ---- 4: sweeps
    ("bound recorded before the M-step", 4, "UpdateOrder", "        s = sweep(s)\n        trace.append(elbo(**s))",
     "        e = sweep(s)\n        trace.append(elbo(**{**s, **{f: e[f] for f in (\"mu\", \"Sigma\", \"xi1\", \"xi0\", \"gamma\")}}))\n        s = e"),
    ("bound one sweep late", 4, "UpdateOrder", "        s = sweep(s)\n        trace.append(elbo(**s))", "        trace.append(elbo(**s))\n        s = sweep(s)"),
    ("all updates from the old state", 4, "UpdateOrder", "    s = dict(s)\n", "    t, s = s, dict(s)\n    s[\"xi0\"] = update_omega0(**t)\n    s[\"gamma\"] = update_z(**t)\n"
     "    s[\"mu\"], s[\"Sigma\"] = update_x(**t)\n    s[\"xi1\"] = update_omega1(**t)\n    s[\"beta1_mu\"], s[\"beta1_S\"] = update_beta1(**t)\n"
     "    s[\"beta0_mu\"], s[\"beta0_S\"] = update_beta0(**t)\n    s[\"M\"], s[\"V\"], s[\"a\"], s[\"b\"] = update_experts(**t)\n    return s\n"),
    ("omega_1 before x", 4, "UpdateOrder", "    s[\"mu\"], s[\"Sigma\"] = update_x(**s)\n    s[\"xi1\"] = update_omega1(**s)", "    s[\"xi1\"] = update_omega1(**s)\n    s[\"mu\"], s[\"Sigma\"] = update_x(**s)"),
    ("z before omega_0", 4, "UpdateOrder", "    s[\"xi0\"] = update_omega0(**s)\n    s[\"gamma\"] = update_z(**s)", "    s[\"gamma\"] = update_z(**s)\n    s[\"xi0\"] = update_omega0(**s)"),
    ("tilts never updated", 4, "StaleTilt", "    s[\"xi1\"] = update_omega1(**s)\n", ""),
    ("gate tilts never updated", 4, "StaleTilt", "    s[\"xi0\"] = update_omega0(**s)\n", ""),
    ("experts with the old gamma", 4, "UpdateOrder", "    s[\"gamma\"] = update_z(**s)\n    s[\"beta1_mu\"], s[\"beta1_S\"] = update_beta1(**s)\n    s[\"beta0_mu\"], s[\"beta0_S\"] = update_beta0(**s)\n    s[\"M\"]",
     "    old = s[\"gamma\"]\n    s[\"gamma\"] = update_z(**s)\n    s[\"beta1_mu\"], s[\"beta1_S\"] = update_beta1(**s)\n    s[\"beta0_mu\"], s[\"beta0_S\"] = update_beta0(**s)\n"
     "    s[\"M\"], s[\"V\"], s[\"a\"], s[\"b\"] = update_experts(**{**s, \"gamma\": old})\n    return s\n    s[\"M\"]"),
    ("one sweep too few", 4, "UpdateOrder", "    for _ in range(n_sweeps):\n", "    for t in range(n_sweeps):\n        if t == n_sweeps - 1 > 0:\n            trace.append(elbo(**s))\n            continue\n"),
    # ---- 5: converged
    ("residual without its scale", 5, "UpdateOrder", "np.abs(new[f] - old[f]) / (1 + np.abs(old[f]))", "np.abs(new[f] - old[f])"),
    ("converged bound without the entropy of z", 5, "MissingEntropy", "return elbo(**s), stationarity(**s)", "return elbo(**s) - elbo_assignment_entropy(**s), stationarity(**s)"),
    ("converged bound without a prior", 5, "PriorMissing", "return elbo(**s), stationarity(**s)", "return elbo(**s) + kl_beta1(**s), stationarity(**s)"),
    # ---- 6: prediction
    ("noise of the latent vector forgotten", 6, "NoiseForgotten", "theta = Theta(beta1, beta0, A, tau)\n", "theta = Theta(beta1, beta0, A, tau * 1e12)\n", "package"),
    ("precision read as variance", 6, "RateScale", "theta = Theta(beta1, beta0, A, tau)\n", "theta = Theta(beta1, beta0, A, 1 / tau)\n", "package"),
    ("mean log-likelihood over the latent vector", 6, "Jensen",
     "    nodes = latent_nodes(shapes, {1: 301, 2: 101}.get(shapes.rank, 1 << 14), rng=0)     # sharp integrands want more than a fit does\n"
     "    log_probs = class_log_probs(theta, X, nodes)",
     "    nodes = latent_nodes(shapes, {1: 301, 2: 31}.get(shapes.rank, 256), rng=0)\n"
     "    log_probs = sum(w * class_log_probs(theta, X, type(nodes)(z[None], np.ones(1))) for z, w in zip(*nodes))", "package"),
    # ---- the mean that all experts share
    ("shared mean without E[tau]", 2, "MeanWeights", "    weight = a[:, None] / b / v0\n", "    weight = np.ones_like(b) / v0\n"),
    ("shared mean without v0", 2, "MeanWeights", "    weight = a[:, None] / b / v0\n", "    weight = a[:, None] / b\n"),
    ("shared mean by a scale", 2, "RateScale", "    weight = a[:, None] / b / v0\n", "    weight = a[:, None] * b / v0\n"),
    ("shared mean by v0 as a precision", 2, "CovarianceAsPrecision", "    weight = a[:, None] / b / v0\n", "    weight = a[:, None] / b * v0\n"),
    ("average precision of the experts", 2, "MeanWeights", "(1 + v00 * weight.sum(0))", "(1 + v00 * weight.mean(0))"),
    ("shared mean without its prior", 2, "PriorMissing", "var = v00 / (1 + v00 * weight.sum(0))", "var = 1 / weight.sum(0)"),
    ("v00 read as a deviation", 2, "VarianceAsDeviation", "    var = v00 / (1 + v00", "    v00 = v00**2\n    var = v00 / (1 + v00"),
    ("plain average of the experts", 2, "MeanWeights", "return var[:, None] * np.einsum(\"ki,kid->id\", weight, M), var", "return M.mean(0), var"),
    ("experts drawn to 0", 2, "MeanPull", "    if A0_mu is not None:    ", "    if False:    "),
    ("experts not moved back", 2, "MeanPull", "return M + A0_mu, V, a, b + V", "return M, V, a, b + V"),
    ("spread of the shared mean forgotten", 2, "MeanSpread", "b + V.shape[1] * A0_var / (2 * v0)", "b"),
    ("spread of the shared mean once", 2, "MeanSpread", "b + V.shape[1] * A0_var / (2 * v0)", "b + A0_var / (2 * v0)"),
    ("spread of the shared mean not halved", 2, "MeanSpread", "b + V.shape[1] * A0_var / (2 * v0)", "b + V.shape[1] * A0_var / v0"),
    ("shared mean read column by column", 2, "ColumnMajor", "    if A0_mu is not None:    ", "    A0_mu = None if A0_mu is None else A0_mu.ravel().reshape(A0_mu.shape, order='F')\n    if A0_mu is not None:    "),
    ("divergence of the experts from 0", 3, "MeanPull", "return kl_experts(M - A0_mu, V,", "return kl_experts(M, V,"),
    ("divergence without the spread of the shared mean", 3, "MeanSpread", "v0, a0, b0) + spread", "v0, a0, b0)"),
    ("spread of the shared mean without E[tau]", 3, "MeanSpread", "(a[:, None] / b * A0_var).sum()", "(0 * b + A0_var).sum()"),
    ("shared mean of one column", 3, "WrongDimension", "D * (A0_var / v00 - 1 - np", "(A0_var / v00 - 1 - np"),
    ("divergence of the shared mean without -D", 3, "DroppedConstant", "D * (A0_var / v00 - 1 - np", "D * (A0_var / v00 - np"),
    ("0/0 where nothing is shared", 3, "PriorMissing", "    if v00 == 0:\n        return 0.0\n", ""),
    ("bound without the divergence of the shared mean", 3, "PriorMissing", " - (kl_shared(**s) if \"v00\" in s else 0.0)", ""),
    ("shared mean never updated", 4, "UpdateOrder", "        s[\"A0_mu\"], s[\"A0_var\"] = update_shared(**s)\n", "        pass\n"),
    ("shared mean renewed after the experts", 4, "UpdateOrder", "= update_experts(**s)\n    return s", "= update_experts(**s)\n    if \"v00\" in s:\n        s[\"A0_mu\"], s[\"A0_var\"] = update_shared(**s)\n    return s"),
    ("residual without the shared mean", 5, "UpdateOrder", "\"gamma\", \"A0_mu\") if f in old)", "\"gamma\") if f in old)"),
    ("forecast one sweep early", 6, "UpdateOrder", "for _ in range(n_sweeps):\n        blocks,", "for _ in range(n_sweeps - 1):\n        blocks,", "package"),
    ("forecast of the plain model", 6, "MeanPull", "        blocks, p, higher, _ = shared_means.higher_sweep(blocks, p, higher, priors, above)",
     "        blocks, p, higher, _ = shared_means.higher_sweep(blocks, p, higher, priors, shared_means.Above())", "package"),
    ("classes in reverse", 6, "OffByOneStick", "return log_probs[np.arange(len(y)), y]", "return log_probs[np.arange(len(y)), -1 - y]", "package"),
    ("A read column by column", 6, "ColumnMajor", "theta = Theta(beta1, beta0, A, tau)\n", "theta = Theta(beta1, beta0, A.ravel().reshape(A.shape, order='F'), tau)\n", "package"),
    ("probability clipped at 1e-12", 6, "Underflow", "return log_probs[np.arange(len(y)), y]", "return np.log(np.maximum(np.exp(log_probs[np.arange(len(y)), y]), 1e-12))", "package"),
    ("prediction by means", 6, "PlugIn", "return predict_log_proba(latents.Parameters(**given), X, **options)", "return predict_log_proba(latents.Parameters(**given), X, method='plug-in')", "package"),
    ("prediction without noise", 6, "NoiseForgotten", "    given[\"b\"] = rate(given[\"b\"], profile)\n    h =", "    given[\"b\"] = 1e-12 * rate(given[\"b\"], profile)\n    h =", "package"),
    ("prediction without the uncertainty of A", 6, "NoiseForgotten", "    given[\"b\"] = rate(given[\"b\"], profile)\n    h =",
     "    given[\"b\"], given[\"V\"] = rate(given[\"b\"], profile), 0 * given[\"V\"]\n    h =", "package"),
    ("prediction with sure coefficients", 6, "PlugIn", "    given[\"b\"] = rate(given[\"b\"], profile)\n    h =",
     "    given.update(b=rate(given[\"b\"], profile), beta1_S=0 * given[\"beta1_S\"], beta0_S=0 * given[\"beta0_S\"])\n    h =", "package"),
]]


# what else a bug may rightly be called, by the words of flags.json, than by the flag that its cases bear
ALSO = {
    "kappa = y - 1/2 on every stick": "SoftCounts", "every stick tossed": "SoftCounts", "gate tossed by everyone": "InactiveStick",
    "prior precision inverted": "CovarianceAsPrecision", "labels counted without gamma": "Unweighted", "entropy of x1 by rows": "Unweighted",
    "weights normalised by their total": "Unweighted", "b without its half": "DroppedConstant", "converged bound without a prior": "DroppedConstant",
    "uncertainty of A counted once": "WrongDimension", "log of cosh": "SmallTilt", "variance without a series": "ZeroTilt|HugeTilt",
    "classes in reverse": "ReversedOrder", "1/4 below a tilt of 1/10": "CutSeries", "output tilts restarted": "RestartedTilt"}


def build(mutant, dtype="f64"):
    """The adapter with the fault, as a module."""
    path = SOURCES[mutant.base]
    source = path.read_text()
    assert source.count(mutant.old) == 1, f"{mutant.id}: the place occurs {source.count(mutant.old)} times"
    module = types.ModuleType(f"mutant_{path.stem}")
    source = source.replace(mutant.old, mutant.new)
    if dtype == "f32":
        source = source.replace("1e-150", "1e-30")                        # what is not 0 in float32
    exec(compile(source, str(path), "exec"), module.__dict__)
    return module


def report_of(mutant, dtype="f64"):
    """What the kit says of it."""
    import numpy as np
    module = build(mutant, dtype)
    adapter = LocalAdapter(module)
    if mutant.base == "loops":
        adapter.host = module                                            # it answers for itself
    else:
        module.DTYPES = ("f64", "f32")
    levels = {mutant.level} if mutant.base == "package" else set(range(mutant.level + 1))    # what it leaves untouched is tested elsewhere
    with np.errstate(all="ignore"):
        return runner.run(adapter, catalogue.select(levels), dtype, flags=catalogue.flags())


def examine(mutant):
    """-> first failing level, flags of its failing cases, rank of the meant flag among those of its operation (0: not there)."""
    report = report_of(mutant)
    first = report["first_failing_level"]
    flags = {flag for r in report["results"] if r["level"] == first and r["verdict"] == "failed" for flag in r["flags"]}
    ranks = [sum(g["op"] == f["op"] for g in report["likely"][:i]) + 1 for i, f in enumerate(report["likely"]) if f["flag"] == mutant.flag]
    return first, flags, min(ranks, default=0)


def named(mutant, dtype="f64"):
    """-> (verdict, first entry of the likely bugs): "right", "wrong", "unknown", or "not found"."""
    report = report_of(mutant, dtype)
    if report["first_failing_level"] is None:
        return "not found", None
    first = report["likely"][0] if report["likely"] else {"basis": "unknown", "flag": "", "op": "", "bug": ""}
    if first["basis"] == "unknown":
        return "unknown", first
    return "right" if first["flag"] in f"{mutant.flag}|{ALSO.get(mutant.id, '-')}".split("|") else "wrong", first


SETS = {"tuned on": MUTANTS, "unseen": [Mutant(*fault, base="loops") for fault in UNSEEN], "foreign": [Mutant(*fault, base="loops") for fault in FOREIGN]}
OUTCOMES = ("right", "wrong", "unknown", "not found")


def names(words=(), show=print):
    """Name every bug of the sets.  -> {(set, level, dtype): Counter of outcomes}"""
    table = {}
    for title, bugs in SETS.items():
        for mutant in bugs:
            if words and not any(word in mutant.id for word in words):
                continue
            for dtype in ("f64",) if mutant.base == "loops" else ("f64", "f32"):
                outcome, first = named(mutant, dtype)
                table.setdefault((title, mutant.level, dtype), Counter())[outcome] += 1
                if outcome != "right":
                    said = "" if first is None else f"{first['op']}: {first['flag']} ({first['basis']}) {first['bug'][:90]}"
                    show(f"{outcome:9} {dtype} L{mutant.level} {mutant.id:45} {mutant.flag:22} {said}")
    return table


def names_text(table):
    """The table of names(), as lines: level by level, then all of a set."""
    lines = [f"{'bugs':10} {'level':6}{'dtype':6}{'planted':>8}{'found':>7}" + "".join(f"{o:>10}" for o in OUTCOMES[:3])]
    def line(title, level, dtype, counts):
        n = sum(counts.values())
        lines.append(f"{title:10} {level:6}{dtype:6}{n:8}{n - counts['not found']:7}" + "".join(f"{counts[o]:10}" for o in OUTCOMES[:3]))
    for title in SETS:
        for dtype in ("f64", "f32"):
            here = {level: counts for (t, level, d), counts in sorted(table.items()) if (t, d) == (title, dtype)}
            for level, counts in here.items():
                line(title, f"L{level}", dtype, counts)
            if here:
                line(title, "all", dtype, sum(here.values(), Counter()))
    return lines


if __name__ == "__main__":
    import warnings
    warnings.simplefilter("ignore")
    if "--names" in sys.argv:
        print("\n".join(names_text(names([word for word in sys.argv[1:] if word != "--names"]))))
        sys.exit(0)
    killed = 0
    chosen = [m for m in MUTANTS if not sys.argv[1:] or any(word in m.id for word in sys.argv[1:])]
    for mutant in chosen:
        first, flags, rank = examine(mutant)
        ok = first == mutant.level and mutant.flag in flags
        killed += ok
        seen = "" if ok else f"   first failing level {first}, flags {' '.join(sorted(flags)) or 'none'}"
        print(f"{'killed  ' if ok else 'SURVIVED'} L{mutant.level} {mutant.id:45} {mutant.flag:22} rank {rank}{seen}")
    print(f"{len(chosen)} planted, {killed} killed at the level and with the flag meant for them")
    sys.exit(killed < len(chosen))
