"""Faults in the rows that a start with weights reads."""
TESTS = ("test_weights.py",)
FAULTS = [
    ("start-without-weights", "if weight is not None: rows = repeat_rows(weight)", "if weight is not None:\n        rows = np.arange(len(X))", TESTS),
    ("start-rows-truncated", "np.floor(scale * upto + (0.5 + 2.0**-20))", "np.floor(scale * upto)", TESTS),
    ("halves-by-the-last-digit", "(0.5 + 2.0**-20)", "0.5", TESTS),
    ("repeats-of-a-block-alone", "upto = np.cumsum(np.append(before, weight))", "upto = np.cumsum(np.append(0.0, weight))", TESTS),
    ("many-whole-rows-repeated", "if whole and total <= most else", "if whole else", TESTS),
]
