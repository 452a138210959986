"""Faults for cmn_literate/roads/mle.py: (id, text, text with the fault, test files that may notice)."""
TESTS = ("test_mle.py",)

FAULTS = [
    ("network-gate-ignored", "x1 = anp.sum(gate[:, :, None] * anp.einsum", "x1 = anp.mean(gate[:, :, None] * anp.einsum", TESTS),
    ("network-output-bias", "anp.transpose(theta.beta1[:, :-1])) + theta.beta1[:, -1]", "anp.transpose(theta.beta1[:, :-1]))", TESTS),
    ("map-without-prior-gradient", "slope + log_prior_grad(phi, shapes, priors))", "slope)", TESTS),
    ("map-prior-only-half", "value + float(log_prior(phi, shapes, priors))", "value + 0.5 * float(log_prior(phi, shapes, priors))", TESTS),
    ("objectives-confused", "rows = network_rows(X, y, shapes.n_classes, 1.0 if count is None else count) data = lambda phi: network_value_and_grad(phi, rows, shapes)",
     "rows = nodes\n        data = lambda phi: likelihood_value_and_grad(phi, X, y, shapes, rows)", TESTS),
    ("start-shares-unequal", "-np.log(np.arange(n, 0, -1.0))", "-np.log(np.arange(n + 1, 1, -1.0))", TESTS),
    ("separated-all-sticks", "(right | (y[:, None] < stick)).all(0)", "right.all(0)", TESTS),
    ("separated-other-side", "np.where(y[:, None] == stick, psi > 0, psi < 0)", "np.where(y[:, None] == stick, psi < 0, psi > 0)", TESTS),
    ("separated-last-expert", "A = theta.A[heads.argmax(1)]", "A = theta.A[0 * heads.argmax(1)]", TESTS),
    ("separated-not-said", "if separated and priors is None:", "if separated and priors is not None:", TESTS),
    ("converged-absolute", "change < 1000 * 1e-6 * end", "change < 1000 * 1e-6", TESTS),
    ("fit-without-priors", "climb = mle_objective(X, y, shapes, objective, priors, nodes, gradient, weight, term)", "climb = mle_objective(X, y, shapes, objective, None, nodes, gradient, weight, term)", TESTS),
    ("fit-checkpoint-any-rows", '"fit_mle", X, y, shapes, objective, priors, nodes, gradient', '"fit_mle", y, shapes, objective, priors, nodes', TESTS),
    ("twice-only-once", "log_softmax(np.exp(log_probs), axis=-1)", "log_softmax(log_probs, axis=-1)", TESTS),
    ("ceiling-of-one-class-more", "1 - np.log(np.e + L - 1)", "1 - np.log(np.e + L)", TESTS),
    ("gradient-is-always-fast", 'if gradient == "fast":', 'if gradient != "slow":', TESTS),
    ("autograd-forgets-the-prior", "return total if priors is None else total + log_prior", "return total if priors is None else total + 0 * log_prior", TESTS),
    ("methods-map-without-prior", "return _begin(Z, y, n_classes, settings, rng, weight, settings.priors, term)", "return _begin(Z, y, n_classes, settings, rng, weight)", ("test_one_table.py",)),
    ("methods-network-scored-exactly", "if not point.nodes.w.size: return network_log_probs(point.theta, Z)",
     "if point.nodes.w.size > 10**9:\n        return network_log_probs(point.theta, Z)", ("test_one_table.py",)),
]
