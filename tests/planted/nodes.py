"""Faults for cmn_literate/engineering/nodes.py: (id, text, text with the fault, test files that may notice)."""
TESTS = ("test_nodes.py", "test_gradients.py")

FAULTS = [
    ("lik-sd-is-variance", "return weights[:, None, :] / anp.sqrt(theta.tau)", "return weights[:, None, :] / theta.tau", TESTS),
    ("lik-factor-transposed", "return anp.transpose(root, (1, 0, 2))", "return anp.transpose(root, (2, 0, 1))", TESTS),
    ("lik-bias-not-shifted", "+ bias[:, None, None] * last", "+ bias[:, None, None]", TESTS),
    ("lik-sobol-one-off", "ndtri(cube), np.full(n, 1 / n)", "ndtri(cube), np.full(n, 1 / (n - 1))", TESTS),
]
