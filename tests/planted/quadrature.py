"""Faults in the fast forecast."""
TESTS = ("test_quadrature.py", "test_predict.py")
FAULTS = [
    ("pair-without-the-square", "step, slope, base, total = 2 * C_before, 2 * q, 1 - q * q,", "step, slope, base, total = 2 * C_before, 2 * q, 1 - q,", TESTS),
    ("tail-of-the-wrong-side", "return np.where(m < 0, low, high), np.where(m < 0, high, low)", "return np.where(m < 0, high, low), np.where(m < 0, low, high)", TESTS),
    ("pairs-share-the-first-rule", "np.repeat((np.cumsum(sizes) - sizes)[case] - start, q)", "np.repeat(-start, q)", TESTS),
    ("underflow-unnoticed", "if G.min() > 1e-250:", "if G.min() > -1:", TESTS),
]
