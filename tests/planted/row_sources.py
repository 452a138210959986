"""Faults for sources in this process."""
TESTS = ("test_sources.py",)
FAULTS = [
    ("skips-whole-blocks-only", "yield (X[start:], None if y is None else y[start:]) if start else (X, y)", "yield X, y", TESTS),
    ("bad-row-by-its-place-in-the-block", "row {first + n}, column", "row {n}, column", TESTS),
    ("mask-of-the-first-block", "keep = self.mask[first:first + len(X)]", "keep = self.mask[:len(X)]", TESTS),
]
