"""Faults for cmn_literate/engineering/elbo_gradients.py: (id, text, text with the fault, test files that may notice)."""
TESTS = ("test_bbvi.py",)

FAULTS = [
    ("bb-coin-slope-whole", "slope *= 0.5\n    return cost, slope", "return cost, slope", TESTS),
    ("bb-parabola-without-base", "cost += tilt[1]", "cost += 0", TESTS),
    ("bb-tilt-half", "log_cosh + np.log(2.0) - 0.5 * theta * square", "log_cosh + np.log(2.0) - theta * square", TESTS),
    ("bb-factor-diagonal-raw", "anp.exp(full * np.eye(m)) * np.eye(m)", "(1 + full) * np.eye(m)", TESTS),
    ("bb-gamma-by-scale", "tau = e.g / np.exp(f.log_b)", "tau = e.g * np.exp(f.log_b)", TESTS),
    ("bb-rows-without-their-noise", "A = f.M + A / np.sqrt(tau)[..., None]", "A = f.M + A", TESTS),
    ("bb-gamma-draw-frozen", "by_shape = total * moves", "by_shape = 0 * total * moves", TESTS),
    ("bb-row-stays-as-tau-moves", "total = into_tau - 0.5 / tau * ((theta.A - f.M) * into_A).sum(-1)", "total = into_tau", TESTS),
    ("bb-rate-sign", "-(tau * total).mean(0))", "(tau * total).mean(0))", TESTS),
    ("bb-expert-pull-sign", "into_x -= pull", "into_x += pull", TESTS),
    ("bb-entropy-slope-forgotten", "slope[diagonal] += gamma\n    return into_x", "return into_x", TESTS),
    ("bb-softmax-not-centred", "mass * (v - per_row), *_local_path", "mass * v, *_local_path", TESTS),
    ("bb-gate-unweighted", "(kappa - b * slope) @ rows.XtT.T", "(kappa - slope) @ rows.XtT.T", TESTS),
    ("bb-kl-without-energy", "(energy + a * log_a).sum(-1)", "(a * log_a).sum(-1)", TESTS),
    ("bb-kl-one-row", "h * rows[2]", "rows[2]", TESTS),
    ("bb-kl-added", "u - d for u, d in zip(up, down)", "u + d for u, d in zip(up, down)", TESTS),
    ("term-slopes-in-tau-dropped", "(a + b for a, b in zip(into, bar))", "(a + b for a, b in zip(into, bar._replace(tau=0.0)))", ("test_shared_draws.py",)),
    ("term-summed-over-draws", "more.mean() - kl", "more.sum() - kl", ("test_shared_draws.py",)),
]
