"""Bugs against conventions, sizes and series: planted one by one, each to be found by a case that bears the flag it is meant for.

    python tests/conformance/convention_mutants.py [WORD ...]

`fused` is conformance/adapters/jaakkola_jordan.py, `numpy` and `package` are the adapters of conformance_mutants; the piece of text occurs once.
"""

import sys
import types
from pathlib import Path
from typing import NamedTuple

import numpy as np
from cmn_conformance import catalogue, runner
from cmn_conformance.process import LocalAdapter

ADAPTERS = Path(__file__).resolve().parents[2] / "conformance/adapters"
SOURCES = {"fused": ADAPTERS / "jaakkola_jordan.py", "numpy": ADAPTERS / "numpy_minimal.py", "package": ADAPTERS / "package.py"}


class Mutant(NamedTuple):
    """One fault: the operations asked, the flag that its failing cases bear, and the change."""
    id: str
    base: str
    ops: str
    flag: str
    old: str
    new: str


SERIES = "return np.tanh(c / 2) / (2 * c)"
CUT = ("h = np.minimum(c, 0.5) / 2\n    terms = (1, -1/3, 2/15, -17/315, 62/2835, -1382/155925, 21844/6081075)\n"
       "    return np.where(c < 0.5, sum(t * h ** (2 * i) for i, t in enumerate(terms)) / 4, np.tanh(c / 2) / (2 * c))")

MUTANTS = [Mutant(*fault) for fault in [
    # ---- defects of fused code
    ("a bound, normalised, as the mean probability of sticks", "fused", "stick_log_means", "BoundAsProbability", "return walk(log_mean_sigmoid(m, v), log_mean_sigmoid(-m, v))",
     "loss = math.log(2) + log_cosh_half(np.sqrt(m**2 + v))\n    score = walk(m / 2 - loss, -m / 2 - loss)\n    return score - np.logaddexp.reduce(score, -1)[..., None]"),
    ("softmax of probabilities", "fused", "stick_log_probs", "DoubleNormalisation", "return walk(log_sigmoid(psi), log_sigmoid(-psi))",
     "p = np.exp(walk(log_sigmoid(psi), log_sigmoid(-psi)))\n    return p - np.log(np.exp(p).sum(-1, keepdims=True))"),
    ("classes on the sticks in reverse", "fused", "stick_log_probs", "ReversedOrder", "return walk(log_sigmoid(psi), log_sigmoid(-psi))",
     "return walk(log_sigmoid(psi), log_sigmoid(-psi))[..., ::-1]"),
    ("0/0 at a tilt of 0", "fused", "pg_mean update_x sweeps", "ZeroTilt", "xi = np.maximum(np.abs(xi), 1e-150)", "xi = np.abs(xi)"),
    ("b by difference", "fused", "update_experts", "LargeOffset", "\"b\": s[\"b0\"] + np.einsum(\"kii->ki\", square) / 2}",
     "\"b\": s[\"b0\"] + (np.einsum(\"nk,nki->ki\", gamma, mu**2 + np.einsum(\"nkii->nki\", Sigma)) - np.einsum(\"kid,kde,kie->ki\", M, np.linalg.inv(V), M)) / 2}"),
    ("prior means of 0 for centred ones", "fused", "update_beta1 update_beta0 kl_beta1 elbo", "CentredSticks", "if profile[\"prior_mean\"] == \"centred\":", "if False:"),
    ("centred sticks counted from the other end", "fused", "update_beta1 update_beta0", "CentredSticks", "-np.log(np.arange(len(like), 0, -1))", "-np.log(np.arange(1, len(like) + 1))"),
    ("prior mean not weighed by its precision", "fused", "update_beta1 update_beta0", "CentredSticks", "linear + centre / sigma**2), S", "linear + centre), S"),
    ("divergence from a prior mean of 0", "fused", "kl_beta0", "CentredSticks", "return gaussian_kl(s[\"beta0_mu\"] - prior_means(s, \"beta0\", profile),", "return gaussian_kl(s[\"beta0_mu\"],"),
    ("stored tilts in place of fresh ones", "fused", "update_beta0", "StaleTilt", "return s[\"xi0\"] if profile[\"tilts\"] == \"given\" else update_omega0(**s)", "return s[\"xi0\"]"),
    ("tilts kept from sweep to sweep", "fused", "sweeps stationarity", "RestartedTilt", "if profile[\"tilt_start\"] == \"restarted\" else s", "if False else s"),
    ("experts pooled by roots, not squares", "fused", "update_beta1", "SharedTilt", "xi = np.sqrt(np.einsum(\"nk,nkl->nl\", gamma, xi**2 + 0 * gamma[:, :, None]))[:, None]",
     "xi = np.einsum(\"nk,nkl->nl\", gamma, xi + 0 * gamma[:, :, None])[:, None]"),
    ("one round of (x, omega1) for eight", "fused", "sweeps", "StaleTilt", "for _ in range(profile[\"inner\"]):", "for _ in range(1):"),
    ("diagonal of the noise only", "fused", "update_x update_z elbo_expert", "DiagonalNoise", "return s[\"nu\"][:, None, None] * np.linalg.inv(s[\"U\"]),",
     "return s[\"nu\"][:, None, None] * np.linalg.inv(s[\"U\"] * np.eye(s[\"U\"].shape[-1])),"),
    ("U read as the scale matrix", "fused", "update_x", "DiagonalNoise", "return s[\"nu\"][:, None, None] * np.linalg.inv(s[\"U\"]),", "return s[\"nu\"][:, None, None] * s[\"U\"],"),
    ("U without the products between rows", "fused", "update_experts", "DiagonalNoise", "\"U\": s[\"U0\"] + square}", "\"U\": s[\"U0\"] + square * np.eye(len(s[\"U0\"]))}"),
    ("nu + N/2 for nu + N", "fused", "update_experts", "DiagonalNoise", "\"nu\": s[\"nu0\"] + total,", "\"nu\": s[\"nu0\"] + total / 2,"),
    ("one digamma for h", "fused", "wishart_mean_log_det", "WrongDimension", "return digamma((nu[:, None] - np.arange(h)) / 2).sum(-1)", "return h * digamma(nu / 2)"),
    ("a bound as a prediction", "package", "predict", "BoundAsProbability", "return predict_log_proba(latents.Parameters(**given), X, **options)",
     "import numpy_minimal as plain\n    Xt, h = plain.pad(X), given['M'].shape[1]\n    x1 = np.einsum('kid,nd->nki', given['M'], Xt)\n"
     "    spread = (given['b'] / given['a'][:, None])[:, :, None] * np.eye(h) * (1 + np.einsum('nd,kde,ne->nk', Xt, given['V'], Xt))[..., None, None]\n"
     "    def sticks(psi, psi2):\n        loss = np.log(2) + plain.log_cosh_half(np.sqrt(psi2))\n        zero = np.zeros(psi.shape[:-1] + (1,))\n"
     "        return np.concatenate([zero, np.cumsum(-psi / 2 - loss, -1)], -1) + np.concatenate([psi / 2 - loss, zero], -1)\n"
     "    score = sticks(*plain.gate_logits(X, given['beta0_mu'], given['beta0_S']))[..., None] + sticks(*plain.output_logits(x1, spread, given['beta1_mu'], given['beta1_S']))\n"
     "    score = np.logaddexp.reduce(score, 1)\n    return score - np.logaddexp.reduce(score, -1)[:, None]"),
    ("a prediction normalised twice", "package", "predict", "DoubleNormalisation", "return predict_log_proba(latents.Parameters(**given), X, **options)",
     "p = np.exp(predict_log_proba(latents.Parameters(**given), X, **options))\n    return p - np.log(np.exp(p).sum(-1, keepdims=True))"),
    ("classes predicted in reverse", "package", "predict", "ReversedOrder", "return predict_log_proba(latents.Parameters(**given), X, **options)",
     "return predict_log_proba(latents.Parameters(**given), X, **options)[:, ::-1]"),
    ("nu degrees of freedom for nu - h + 1", "fused", "predict", "WrongDimension", "dofs, root = s[\"nu\"][k] - h + 1 + np.arange(m)", "dofs, root = s[\"nu\"][k] + np.arange(m)"),
    ("axes of the t apart", "fused", "predict", "DiagonalNoise", "np.linalg.cholesky(s[\"U\"][k][np.ix_(read, read)] /", "np.sqrt(np.diag(s[\"U\"][k].diagonal()[read]) /"),
    ("coordinates of a t as if independent", "fused", "predict", "NoiseForgotten", "u[:, i] *= np.sqrt((dofs[0] + (u[:, :i] ** 2).sum(1)) / dofs[i])", "pass"),
    ("prior means of 0 at the end", "fused", "converge", "CentredSticks", "if profile[\"prior_mean\"] == \"centred\":", "if False:"),
    # ---- sizes
    ("rows after 64 dropped", "numpy", "update_beta0", "FixedSize", "    reach, kappa = stick_counts(gamma)\n", "    X, gamma, xi0 = X[:64], gamma[:64], xi0[:64]\n    reach, kappa = stick_counts(gamma)\n"),
    ("rows after 64 dropped from the experts", "numpy", "update_experts", "FixedSize", "    V = np.linalg.inv(np.einsum(\"nk,nd,ne->kde\", gamma, Xt, Xt)",
     "    Xt, gamma, mu, Sigma = Xt[:64], gamma[:64], mu[:64], Sigma[:64]\n    V = np.linalg.inv(np.einsum(\"nk,nd,ne->kde\", gamma, Xt, Xt)"),
    ("rows after 64 dropped from beta_1", "numpy", "update_beta1", "FixedSize", "    gram = np.einsum(\"nk,nkl,nkde->lde\", gamma, coins",
     "    coins, kappa, gamma, xi1, mu, Sigma = (v[:64] for v in (coins, kappa, gamma, xi1, mu, Sigma))\n    gram = np.einsum(\"nk,nkl,nkde->lde\", gamma, coins"),
    ("rows after 64 dropped from the bound", "numpy", "elbo", "FixedSize", "    gains = elbo_output(**s)",
     "    s.update({name: s[name][:64] for name in ('X', 'y', 'gamma', 'mu', 'Sigma', 'xi1', 'xi0')})\n    gains = elbo_output(**s)"),
    ("labels above 5 clipped", "numpy", "update_x update_z update_beta1 elbo_output elbo", "FixedSize", "b, kappa = stick_counts(np.eye(n_sticks + 1)[y])",
     "b, kappa = stick_counts(np.eye(n_sticks + 1)[np.minimum(y, 5)])"),
    ("experts after eight not counted", "numpy", "stick_counts", "FixedSize", "b = np.cumsum(weights[..., ::-1], -1)[..., ::-1][..., :-1] ", "b = np.cumsum(weights[..., :8][..., ::-1], -1)[..., ::-1]\n    b = np.concatenate([b, np.zeros(weights.shape[:-1] + (max(weights.shape[-1] - 8, 0),))], -1)[..., :-1] "),
    ("four latent dimensions at most", "numpy", "update_x", "FixedSize", "    Sigma = np.linalg.inv(P)\n", "    P[..., 4:, :4] = P[..., :4, 4:] = 0\n    Sigma = np.linalg.inv(P)\n"),
    # ---- series
    ("mean cut after h^12", "numpy", "pg_mean", "CutSeries", SERIES, CUT),
    ("variance of seven terms", "numpy", "pg_var", "CutSeries", "for m in range(1, 10))", "for m in range(1, 8))"),
    ("divergence of eleven terms", "numpy", "pg_kl", "CutSeries", "for m in range(2, 15))", "for m in range(2, 13))"),
    ("divergence of ten terms", "numpy", "pg_kl", "CutSeries", "for m in range(2, 15))", "for m in range(2, 12))"),
    ("ln cosh at its limit from 20 on", "numpy", "log_cosh_half pg_kl", "CutSeries", "c / 2 + np.log1p(np.exp(-c)) - math.log(2))", "c / 2 + np.where(c < 20, np.log1p(np.exp(-c)), 0) - math.log(2))"),
    ("mean at its limit from 20 on", "numpy", "pg_mean", "CutSeries", SERIES, "return np.where(c < 20, np.tanh(c / 2), 1) / (2 * c)"),
    ("variance at its limit from 30 on", "numpy", "pg_var", "CutSeries", "return b * np.where(small, series, (1 - e**2 - 2 * y * e) / (2 * y**3 * (1 + e) ** 2))",
     "return b * np.where(small, series, np.where(c < 30, (1 - e**2 - 2 * y * e) / (1 + e) ** 2, 1) / (2 * y**3))"),
    ("ln cosh by a series of five terms", "numpy", "log_cosh_half", "CutSeries", "np.where(c < 1, np.log1p(2 * np.sinh(np.minimum(c, 1) / 4) ** 2),",
     "np.where(c < 0.5, np.log1p(sum((np.minimum(c, 1) / 2) ** (2 * m) / math.factorial(2 * m) for m in range(1, 5))),"),
]]


def build(mutant):
    """The adapter with the fault, as a module."""
    source = SOURCES[mutant.base].read_text()
    assert source.count(mutant.old) == 1, f"{mutant.id}: the place occurs {source.count(mutant.old)} times"
    module = types.ModuleType("mutant")
    if str(ADAPTERS) not in sys.path:
        sys.path.insert(0, str(ADAPTERS))
    exec(compile(source.replace(mutant.old, mutant.new), str(SOURCES[mutant.base]), "exec"), module.__dict__)
    return module


def examine(mutant):
    """-> the failing cases, and those that bear the flag."""
    with np.errstate(all="ignore"):
        report = runner.run(LocalAdapter(build(mutant)), catalogue.select(None, mutant.ops.split()), flags=catalogue.flags())
    failing = [r for r in report["results"] if r["verdict"] in ("failed", "errored", "inaccurate")]
    return [r["id"] for r in failing], [r["id"] for r in failing if mutant.flag in r["flags"]]


if __name__ == "__main__":
    import warnings
    warnings.simplefilter("ignore")
    lost = 0
    for mutant in [m for m in MUTANTS if not sys.argv[1:] or any(word in m.id for word in sys.argv[1:])]:
        failing, flagged = examine(mutant)
        lost += not flagged
        print(f"{'found   ' if flagged else 'SURVIVED'} {mutant.id:55} {mutant.flag:20} {len(flagged)} of {len(failing)} failing cases bear it")
    sys.exit(lost > 0)
