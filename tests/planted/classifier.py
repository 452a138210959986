"""Faults for what the estimator makes of its default."""
TESTS = ("test_default.py",)
FAULTS = [
    ("usual-is-overwritten", "cut = new._learn(X, y, sample_weight, client)\n        new.method = self.method", "cut = new._learn(X, y, sample_weight, client)", TESTS),
    ("usual-four-go-on-with-chunks", 'for name in (est.method, getattr(est, "method_", "cavi")):', "for name in (est.method,):", TESTS),
    ("usual-chunks-as-four", "settle_method(new, False)", "settle_method(new, True)", TESTS),
]
