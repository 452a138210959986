"""Faults for CSV files."""
TESTS = ("test_sources.py", "test_cli.py")
FAULTS = [
    ("piece-ends-in-a-cell", "while odd and (line := file.readline()):", "while False and (line := file.readline()):", ("test_sources.py",)),
    ("lines-of-crlf-twice", '- piece.count(b"\\r\\n")', "", ("test_sources.py",)),
    ("mark-of-bytes-kept", 'kept = b"" if start == b"\\xef\\xbb\\xbf" else start', "kept = start", ("test_sources.py",)),
    ("fast-with-missing-labels", "if any(label.lower() in MISSING for label in known.tolist()):", "if False:", ("test_cli.py",)),
    ("fast-with-infinite-numbers", "if not np.isfinite(X).all() or weight is not None", "if weight is not None", ("test_cli.py",)),
    ("fast-with-negative-weights", "or weight is not None and X[:, -1].min() < 0:", ":", ("test_sources.py",)),
    ("slow-with-negative-weights", "if names[i] == weight and out[n, i] < 0:", "if False:", ("test_sources.py",)),
]
