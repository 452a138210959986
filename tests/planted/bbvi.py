"""Faults for cmn_literate/roads/bbvi.py: (id, text, text with the fault, test files that may notice)."""
TESTS = ("test_bbvi.py",)

FAULTS = [
    ("bb-score-without-one", "u[..., i] * eps[..., j] * diagonal - (i == j)", "u[..., i] * eps[..., j] * diagonal", TESTS),
    ("bb-score-mean-unscaled", "M = M * np.sqrt(theta.tau)[..., None]", "M = M * theta.tau[..., None]", TESTS),
    ("bb-score-shape-sign", "a * (np.log(e.g) - digamma(a))", "a * (np.log(e.g) - np.log(a))", TESTS),
    ("bb-blanket-without-prior", "(gamma * gate).sum((2, 3)) + ratios[1]", "(gamma * gate).sum((2, 3))", TESTS),
    ("bb-blanket-latent-unweighted", "+ ratios[2], gamma * local)", "+ ratios[2], local)", TESTS),
    ("bb-control-sees-itself", "top, bottom = top.sum(0) - top, bottom.sum(0) - bottom", "top, bottom = top.sum(0), bottom.sum(0)", TESTS),
    ("bb-gap-unweighted", "weights = gamma * rows.b[:, None], soft_counts(gamma)[0]", "weights = gamma * rows.b[:, None], 1 + 0 * gamma[:-1]", TESTS),
    ("bb-checkpoint-of-any-objective", "shapes, priors, objective, n_particles,", "shapes, priors, n_particles,", TESTS),
    ("bb-start-ignores-the-seed", "start = complete_start(X, y, *shapes[:3], priors, rng, init, weight=weight)", "start = complete_start(X, y, *shapes[:3], priors, 0, init, weight=weight)", TESTS),
    ("bb-converged-when-falling-behind", "last.mean() - before.mean() < allowed", "last.mean() - before.mean() > allowed", TESTS),
    ("bb-readable-entropy-forgotten", "entropy = log_scale(f.x_C) + 0.5 * h * (1 + np.log(2 * np.pi))", "entropy = 0.5 * h * (1 + np.log(2 * np.pi))", TESTS),
    ("bb-autograd-without-tilts", "back(vector), noise, rows, priors, tilts))", "back(vector), noise, rows, priors))", TESTS),
    ("methods-bbvi-augmented", '"objective": "elbo", "n_particles": 8', '"objective": "augmented", "n_particles": 8', ("test_one_table.py",)),
]
