"""Faults for sources in this process."""
TESTS = ("test_sources.py",)
FAULTS = [
    ("skips-whole-blocks-only", "yield pick_rows(block, slice(start, None)) if start else block", "yield block", TESTS),
    ("bad-row-by-its-place-in-the-block", "row {first + n}, column", "row {n}, column", TESTS),
    ("mask-of-the-first-block", "keep = self.mask[first:first + len(block[0])]", "keep = self.mask[:len(block[0])]", TESTS),
    ("rows-of-weight-zero-pass", "(block, block[2] > 0)", "(block, block[2] >= 0)", TESTS),
    ("start-among-rows-that-do-not-count", "for block, keep in masked if keep.any()), start)", "for block, keep in masked if keep.any()), 0)", TESTS),
    ("negative-weights-pass", "~(np.isfinite(weight) & (weight >= 0))", "~np.isfinite(weight)", TESTS),
    ("bad-weight-by-its-place-in-the-block", "row {first + bad[0]}", "row {bad[0]}", TESTS),
    ("weight-is-a-feature", "if name not in others)", "if name != target)", TESTS),
    ("weight-is-the-target", "if weight is not None and weight in [target, *(columns or ())]:", "if False:", TESTS),
    ("classes-replace-rows", "weight = weight[0] * factors if weight else factors", "weight = factors", TESTS),
]
