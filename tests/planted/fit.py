"""Faults in a fit with weights, and in its choice of a kernel."""
TESTS = ("test_weights.py", "test_kernel.py")
FAULTS = [
    ("stop-counts-rows-not-weights", "else block.rows.weight.sum() for block in blocks)", "else block.rows.b.shape[1] for block in blocks)", TESTS),
    ("resume-with-other-weights", '("XtT", "b", "kappa", "weight")', '("XtT", "b", "kappa")', TESTS),
    ("kernel-not-used", "step(resume, tol, inner, accelerate, kernel, jobs)", "step(resume, tol, inner, accelerate, estep, jobs)", TESTS),
]
