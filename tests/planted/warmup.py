"""Faults of the warm-up: (id, old text, new text, test files that may notice)."""
TESTS = ("test_nuts.py",)

FAULTS = [
    ("nuts-dual-sign", "log_step = s.centre - count**0.5 / 0.05 * error", "log_step = s.centre + count**0.5 / 0.05 * error", TESTS),
    ("nuts-dual-offset", "(target - accept - s.error) / (count + 10)", "(target - accept - s.error) / count", TESTS),
    ("nuts-dual-mean-weight", "weight = count**-0.75", "weight = count**-1.0", TESTS),
    ("nuts-mass-is-the-precision", "return (n * moments.square / max(n - 1, 1) + 5e-3) / (n + 5)", "return (n + 5) / (n * moments.square / max(n - 1, 1) + 5e-3)", TESTS),
    ("nuts-mass-not-regularised", "max(n - 1, 1) + 5e-3) / (n + 5)", "max(n - 1, 1)) / n", TESTS),
    ("nuts-welford-old-mean-twice", "moments.square + shift * (q - mean)", "moments.square + shift * shift", TESTS),
    ("nuts-windows-do-not-double", "width *= 2", "width *= 1", TESTS),
]
