"""Faults for cmn_literate/engineering/gamma_draws.py: (id, text, text with the fault, test files that may notice)."""
TESTS = ("test_gamma_draws.py", "test_bbvi.py")

FAULTS = [
    ("bb-slope-of-a-draw-sign", "height = side * (np.log(x) - digamma(a)) + v", "height = side * (np.log(x) - digamma(a)) - v", TESTS),
    ("bb-slope-of-a-draw-tail", "side = np.where(x >= a, 1.0, -1.0)", "side = np.ones(a.shape)", TESTS),
    ("gamma-draw-told-to-stand-still", "g + gamma_slope(fixed, g) * (a - fixed)", "g + 0 * gamma_slope(fixed, g) * (a - fixed)", TESTS),
]
