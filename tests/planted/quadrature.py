"""Faults in the fast forecast."""
TESTS = ("test_quadrature.py", "test_predict.py")
NEAR = ("test_quadrature_rules.py",)
FAULTS = [
    ("pair-without-the-square", "step, slope, base, total = 2 * C_before, 2 * q, 1 - q * q,", "step, slope, base, total = 2 * C_before, 2 * q, 1 - q,", TESTS),
    ("tail-of-the-wrong-side", "return np.where(below, low, high), np.where(below, high, low)", "return np.where(below, high, low), np.where(below, low, high)", TESTS),
    ("pairs-share-the-first-rule", "np.repeat((np.cumsum(sizes) - sizes)[case] - start, q)", "np.repeat(-start, q)", TESTS),
    ("underflow-unnoticed", "if mean.min() > 1e-200:", "if mean.min() > -1:", TESTS),
    ("hermite-for-heavy-tails", "(np.reshape(dof, (-1, 1)) >= 100)", "(np.reshape(dof, (-1, 1)) >= 0)", NEAR),
    ("hermite-too-few", "np.ceil(1.5 + 0.8 * sharpness * digits)", "np.ceil(1.5 + 0.4 * sharpness * digits)", NEAR),
    ("near-weight-lost", "weight += np.where(close, weight, 0.0) @ np.eye(len(near))[near]", "pass", NEAR),
    ("near-of-another", "out[:, near], out)", "out[:, :1], out)", NEAR),
    ("wide-reach-forgotten", "np.minimum(np.where(deep, np.abs(v - u), u), reach)", "np.where(deep, np.abs(v - u), u)", NEAR),
    ("wide-reflected-without-its-lift", "lift * np.where(u > v, 1 - total, total)", "np.where(u > v, 1 - total, total)", NEAR),
    ("wide-too-few-terms", "2 * c * c * (L + 1)", "c * c * L", NEAR),
    ("wide-steps-of-the-widest", "(np.sqrt(v) / reach).min()", "(np.sqrt(v) / reach).max() * 2", NEAR),
    ("middle-taken-for-far", "(middle * middle > 22.5 * v)", "(middle * middle > 1e9 * v)", NEAR),
    ("gate-by-output-weights", "stick_probs(p.beta0_mu, p.beta0_S, rows.T).T", "stick_probs(p.beta0_mu, 0 * p.beta0_S, rows.T).T", TESTS),
    ("table-of-few-digits", "x1: output_probs(p, x1, digits)", "x1: output_probs(p, x1, 3)", ("test_row_tables.py",)),
    ("scales-by-the-first-expert", "expert, w = np.full(len(scales), k), np.full(len(scales), w)", "expert, w = np.full(len(scales), 0), np.full(len(scales), w)", ("test_row_tables.py",)),
    ("points-stretched-once", "_stretched(z.tobytes(), h, v)", "_stretched(z.tobytes(), h, nu[0])", TESTS),
    ("digits-too-few", "sizes[i].max() == 1 else 9)", "sizes[i].max() == 1 else 3)", NEAR),
]
