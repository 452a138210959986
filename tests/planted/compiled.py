"""Faults in the choice of a kernel."""
TESTS = ("test_kernel.py",)
FAULTS = [
    ("kernel-for-shared-tilts", 'if asked == "numpy" or shared or', 'if asked == "numpy" or', TESTS),
    ("kernel-for-small-fits", "small = n_rows * n_experts * n_sticks < WORTH", "small = False", TESTS),
    ("kernel-not-compiled-before", "not os.path.exists(kernel_mark())", "False", TESTS),
]
