"""Faults in the tables that rows share, and in who shares an integral."""
TESTS = ("test_row_tables.py",)
NEAR = ("test_quadrature_rules.py",)
FAULTS = [
    ("table-density-power", "w *= -0.5 * (dof + 1)", "w *= -0.5 * dof", TESTS),
    ("table-weights-do-not-add-up", "w /= w.sum(1, keepdims=True)", "pass", TESTS),
    ("table-spacing-forgotten", "w *= spacing", "pass", TESTS),
    ("table-without-scale", "w /= scale[:, None]", "pass", TESTS),
    ("table-steps-too-wide", "return (2 * np.pi * a / loss).max(0)", "return (6 * np.pi * a / loss).max(0)", TESTS),
    ("table-steps-whatever-the-tails", "log_M = -0.5 * dof * np.log1p(-a * a / dof)", "log_M = 0.0 * a", TESTS),
    ("table-steps-whatever-the-slope", "np.maximum(sharpness.max(1), 1e-9)", "np.full(len(sharpness), 1e-9)", TESTS),
    ("table-ends-too-soon", "(location + reach * scale).max()", "(location + 2 * scale).max()", TESTS),
    ("table-bent-too-soon", "A = max(half, scale.max() * min(np.sqrt(dof), 8.0))", "A = max(half, scale.max() / 4)", TESTS),
    ("table-for-the-widest-alone", "np.hypot(A, location - centre)).min()", "np.hypot(A, location - centre)).max()", TESTS),
    ("table-without-end", "if not count <= 4096:", "if not count <= 1e7:", TESTS),
    ("table-stretched-by-one-row", "rows = rows[among_others(location[rows, k])] if rows.size else rows", "pass", TESTS),
    ("table-whatever-it-costs", "if cost < points[rows, k].sum():", "if True:", TESTS),
    ("table-of-the-unwanted", "(points[:, k] > 0) & (weight[:, k] > tol)", "weight[:, k] > -1", TESTS),
    ("scales-with-half-the-points", "m = int(np.ceil(10 * np.log(10) / np.log(rho))) + 1", "m = int(np.ceil(4 * np.log(10) / np.log(rho)))", TESTS),
    ("scales-without-signs", "(-1.0)**np.arange(m) * np.sin(angle)", "np.sin(angle)", TESTS),
    ("scales-of-laws-off-centre", "(weight > 0) & (shift <= tol)", "weight > 0", TESTS),
    ("scales-of-another-unit", "points[:, None] * unit", "points[:, None] * scale[0, k]", TESTS),
    ("scales-for-the-lightest", "weight[rows, k].max()", "weight[rows, k].min() * 1e-6", TESTS),
    ("near-whatever-the-scale", "+ 0.5 * np.abs(np.log(scale / scale[:, near])))", "+ 0.0)", NEAR),
    ("near-shift-without-scale", "location[:, near]) / scale[:, near]", "location[:, near])", NEAR),
    ("near-one-coordinate-of-dof", "gap.sum(2) + 0.5 * h * np.abs", "gap.sum(2) + 0.5 * np.abs", NEAR),
]
