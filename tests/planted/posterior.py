"""Faults of drawing a network: (id, old text, new text, test files that may notice)."""
TESTS = ("test_posterior.py",)

FAULTS = [
    ("nuts-start-not-whitened", "starts.append(to_white(pack(theta), shapes, priors))", "starts.append(pack(theta))", TESTS),
    ("nuts-draws-not-unwhitened", "phi = from_white(end.draws[..., : shapes.n_params], shapes, priors)", "phi = end.draws[..., : shapes.n_params]", TESTS),
    ("nuts-divergences-untold", "if not divergent.any():", "if True:", TESTS),
    ("nuts-divergences-not-counted", "{divergent.sum()} of {divergent.size} draws", "{divergent.size} of {divergent.size} draws", TESTS),
    ("posterior-gradient-always-fast", 'if gradient == "fast":', 'if gradient != "slow":', TESTS),
]
