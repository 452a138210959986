"""Faults of Hamiltonian Monte Carlo: (id, old text, new text, test files that may notice)."""
TESTS = ("test_hmc.py",)

FAULTS = [
    ("hmc-kinetic-without-half", "(p * p * inv_mass).sum(-1) / 2 - value", "(p * p * inv_mass).sum(-1) - value", TESTS),
    ("hmc-kinetic-mass-inverted", "(p * p * inv_mass).sum(-1) / 2 - value", "(p * p / inv_mass).sum(-1) / 2 - value", TESTS),
    ("hmc-potential-sign", "(p * p * inv_mass).sum(-1) / 2 - value", "(p * p * inv_mass).sum(-1) / 2 + value", TESTS),
    ("hmc-kick-sign", "half = p + 0.5 * step * grad", "half = p - 0.5 * step * grad", TESTS),
    ("hmc-whole-kick-first", "half = p + 0.5 * step * grad", "half = p + step * grad", TESTS),
    ("hmc-drift-without-mass", "q = q + step * inv_mass * half", "q = q + step * half", TESTS),
    ("hmc-drift-before-kick", "q = q + step * inv_mass * half", "q = q + step * inv_mass * p", TESTS),
    ("hmc-last-kick-missing", "return q, half + 0.5 * step * grad, value, grad", "return q, half, value, grad", TESTS),
    ("hmc-momentum-scale", "rng.normal(size=shape) / np.sqrt(inv_mass)", "rng.normal(size=shape) * np.sqrt(inv_mass)", TESTS),
    ("hmc-momentum-variance-for-deviation", "rng.normal(size=shape) / np.sqrt(inv_mass)", "rng.normal(size=shape) / inv_mass", TESTS),
    ("hmc-accepts-everything", "moved = rng.random(np.shape(error)) < accept", "moved = rng.random(np.shape(error)) < 1", TESTS),
    ("hmc-accepts-downhill", "np.exp(np.minimum(0.0, -error))", "np.exp(np.minimum(0.0, error))", TESTS),
    ("hmc-energy-error-half", "error = np.where(np.isfinite(end), end - start, np.inf)", "error = np.where(np.isfinite(end), (end - start) / 2, np.inf)", TESTS),
    ("hmc-stale-gradient", "np.where(moved[..., None], grad, state.grad)", "np.asarray(grad)", TESTS),
    ("hmc-stale-value", "np.where(moved, value, state.value)", "np.asarray(value)", TESTS),
    ("hmc-energy-of-the-proposal", "energy = np.where(moved, end, start)", "energy = end", TESTS),
    ("hmc-one-step-short", "for _ in range(n_leapfrog):", "for _ in range(n_leapfrog - 1):", TESTS),
    ("hmc-warmup-kept", "if i >= n_warmup:", "if i < n_draws:", TESTS),
    ("hmc-divergence-unseen", "error > 1000", "end > 1e300", TESTS),
]
