"""Faults for sources in files."""
TESTS = ("test_sources.py",)
FAULTS = [
    ("parquet-by-place", "X[:, i] = batch.column(name).to_numpy(zero_copy_only=False)", "X[:, i] = batch.column(i).to_numpy(zero_copy_only=False)", TESTS),
    ("parquet-start-off-by-a-group", "while start - first >= sizes[g]:", "while start - first > sizes[g]:", TESTS),
    ("later-files-unchecked", "for file in self.files[1:]:\n            pick_columns(file.header, target, self.columns, file.path)", "pass", TESTS),
    ("empty-part-accepted", "if not sum(rows):", "if False:", TESTS),
    ("row-counted-from-the-batch", "first += len(batch)", "first += 0", TESTS),
]
