"""Faults in the compiled kernel."""
TESTS = ("test_kernel.py",)
FAULTS = [
    ("kernel-exp-without-low-part", "r = (x - k * LN2_HIGH) - k * LN2_LOW", "r = x - k * LN2_HIGH", TESTS),
    ("kernel-log-exponent-dropped", "k = _from_bits(k + MAGIC_BITS) - MAGIC", "k = 0.0", TESTS),
    ("kernel-rows-past-the-end", "w[0, n] = 0.0", "w[0, n] += 0.0", TESTS),
    ("kernel-untossed-coins", "least = 1e60 * (1.0 - tossed[j, n]) + 1e-300", "least = 1e-300", TESTS),
    ("kernel-not-definite-unnoticed", "bad += not 0.0 < A[pp, n] < 1e75", "bad += 0", TESTS),
    ("kernel-gate-without-ln-two", "_fill(-0.6931471805599453, spare, HEIGHT)", "_fill(0.0, spare, HEIGHT)", TESTS),
    ("kernel-four-pivots-forgotten", "if p % 4 == 3 or p == h - 1:", "if p == h - 1:", TESTS),
    ("kernel-weights-ignored", "gamma[k, n] * weight[0, n]", "gamma[k, n]", TESTS),
]
