"""Faults in the weights of rows and in the order of the sums."""
TESTS = ("test_weights.py", "test_kernel.py")
FAULTS = [
    ("weights-not-in-the-bound", "total = bound.sum() if weight is None else bound @ weight", "total = bound.sum()", TESTS),
    ("weights-in-the-bound-only", "share = gamma if weight is None else gamma * weight", "share = gamma", TESTS),
    ("weights-of-the-first-block", "None if weight is None else weight[part])", "None if weight is None else weight[:len(X[part])])", TESTS),
]
