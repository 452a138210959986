"""Faults for what the estimator is given."""
TESTS = ("test_cases.py", "test_classifier.py")
FAULTS = [
    ("usual-start-of-the-paper", '"method": "auto", "init": "hyperplanes"', '"method": "auto", "init": "class-code"', ("test_default.py",)),
    ("usual-tol-of-the-paper", '"max_sweeps": 1000, "tol": 3e-5', '"max_sweeps": 1000, "tol": 1e-6', ("test_default.py",)),
    ("usual-memory-of-one", "need = 8 * (factors + rows) * copies", "need = 8 * (factors + rows)", ("test_default.py", "test_cases.py")),
    ("balanced-without-weights", "of_class = np.bincount(codes, weight, len(labels))", "of_class = np.bincount(codes, None, len(labels))", ("test_weighted.py",)),
    ("zero-weight-rows-stay", "keep = weight > 0", "keep = weight >= 0", ("test_weighted.py",)),
    ("seed-of-numpy-ignored", "random_state = np.random.mtrand._rand", "random_state = np.random.RandomState()", TESTS),
    ("missing-labels-pass", "if len(missing):", "if False:", TESTS),
    ("measurements-are-classes", "if n_classes > max(50, n_rows / 2):", "if n_classes > max(50, 2 * n_rows):", TESTS),
    ("choice-of-anything", "if value not in list(self.allowed):", "if not self.allowed:", TESTS),
    ("between-the-ends", "not self.low < value < self.high:\n            raise ValueError(f\"{name}", "not self.low <= value <= self.high:\n            raise ValueError(f\"{name}", TESTS),
    ("labels-of-this-fold", "codes = np.searchsorted(classes, y)", "codes = np.searchsorted(np.unique(y), y)", ("test_classifier.py",)),
    ("chunk-is-balanced", "if chunk_of is not None and isinstance(est.class_weight, str):", "if False:", ("test_streams.py",)),
    ("chunk-factors-of-other-labels", "est.classes if chunk_of is None else chunk_of", "est.classes", ("test_streams.py",)),
]
