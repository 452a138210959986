"""Faults in the fast forecast."""
TESTS = ("test_quadrature.py", "test_predict.py")
NEAR = ("test_quadrature_rules.py",)
FAULTS = [
    ("pair-without-the-square", "step, slope, base, total = 2 * C_before, 2 * q, 1 - q * q,", "step, slope, base, total = 2 * C_before, 2 * q, 1 - q,", TESTS),
    ("tail-of-the-wrong-side", "return np.where(below, low, high), np.where(below, high, low)", "return np.where(below, high, low), np.where(below, low, high)", TESTS),
    ("pairs-share-the-first-rule", "np.repeat((np.cumsum(sizes) - sizes)[case] - start, q)", "np.repeat(-start, q)", TESTS),
    ("underflow-unnoticed", "if G.min() > 1e-250:", "if G.min() > -1:", TESTS),
    ("hermite-for-heavy-tails", "(np.reshape(dof, (-1, 1)) >= 100)", "(np.reshape(dof, (-1, 1)) >= 0)", NEAR),
    ("hermite-too-few", "np.ceil(1.5 + 0.8 * sharpness * digits)", "np.ceil(1.5 + 0.4 * sharpness * digits)", NEAR),
    ("near-whatever-the-scale", "+ 0.5 * np.abs(np.log(scale[:, k] / scale[:, r])))", "+ 0.0)", NEAR),
    ("near-shift-without-scale", "location[:, r]) / scale[:, r]", "location[:, r])", NEAR),
    ("near-one-coordinate-of-dof", "gap.sum(1) + 0.5 * h * abs", "gap.sum(1) + 0.5 * abs", NEAR),
    ("near-weight-lost", "weight[:, near[k]] += np.where(close[:, k], weight[:, k], 0.0)", "pass", NEAR),
    ("near-of-another", "out[close[:, k], near[k]]", "out[close[:, k], 0]", NEAR),
    ("points-stretched-once", "_stretched(z.tobytes(), h, v)", "_stretched(z.tobytes(), h, nu[0])", TESTS),
    ("digits-too-few", "sizes[i].max() == 1 else 9)", "sizes[i].max() == 1 else 3)", NEAR),
]
