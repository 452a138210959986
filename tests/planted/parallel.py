"""Faults in how work is shared out."""
TESTS = ("test_kernel.py",)
FAULTS = [
    ("jobs-minus-one-is-one", "return cores()\n    return check_count", "return 1\n    return check_count", TESTS),
    ("blas-threads-stay", "libraries.limit(limits=1,", "libraries.limit(limits=2,", TESTS),
    ("joblib-backend-ignored", "joblib.effective_n_jobs(None) > 1 else None", "joblib.effective_n_jobs(None) > 99 else None", TESTS),
    ("threads-take-everything", "if len(waiting) == 2 * n_jobs:", "if len(waiting) == 9 * n_jobs:", ("test_out_of_core.py",)),
    ("threads-hand-back-the-last", "yield waiting.popleft().result()\n        while", "yield waiting.pop().result()\n        while", ("test_out_of_core.py",)),
]
