"""Faults in the rows that a start with weights reads."""
TESTS = ("test_weights.py",)
FAULTS = [
    ("start-without-weights", "if weight is not None: rows = repeat_rows(weight)", "if weight is not None:\n        rows = np.arange(len(X))", TESTS),
    ("start-rows-truncated", "np.diff(np.floor(upto + 0.5), prepend=0.0)", "np.diff(np.floor(upto), prepend=0.0)", TESTS),
]
