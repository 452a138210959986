"""Faults for sources in files."""
TESTS = ("test_sources.py",)
FAULTS = [
    ("parquet-start-counts-groups-twice", "[g:], first), start - first)", "[g:], first), start)", TESTS),
    ("later-files-unchecked", "for file in self.files[1:]:\n            pick_columns(file.header, target, self.columns, file.path, weight)", "pass", TESTS),
    ("empty-part-accepted", "if not sum(rows):", "if False:", TESTS),
    ("row-counted-from-the-batch", "first += len(batch)", "first += 0", TESTS),
    ("weights-of-any-type", "filter(None, (*self.columns, self.weight))", "self.columns", TESTS),
]
