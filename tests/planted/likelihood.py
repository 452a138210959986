"""Faults for cmn_literate/roads/likelihood.py: (id, text, text with the fault, test files that may notice)."""
TESTS = ("test_likelihood.py", "test_gradients.py")

FAULTS = [
    ("lik-node-weights-lost", "+ np.log(w) + seen, axis=(1, 2))", "+ seen, axis=(1, 2)) - np.log(len(w))", TESTS),
    ("lik-eps-not-normalised", "0.5 * h * len(X) * np.log(2 * np.pi)", "0.5 * h * np.log(2 * np.pi)", TESTS),
    ("lik-posterior-without-prior", "return (anp.sum(count * log_likelihood(theta, X, y, nodes)) + log_prior_white(u, shapes, priors))",
     "return anp.sum(log_likelihood(theta, X, y, nodes))", TESTS),
]
