"""Faults for the registry entries of the other roads."""
TESTS = ("test_one_table.py",)
FAULTS = [
    ("methods-map-without-prior", "return _fit_point(Z, y, n_classes, e, rng, callback, e.priors)",
     "return _fit_point(Z, y, n_classes, e, rng, callback)", TESTS),
    ("methods-network-scored-exactly", "if not point.nodes.w.size: return network_log_probs(point.theta, Z)",
     "if point.nodes.w.size > 10**9:\n        return network_log_probs(point.theta, Z)", TESTS),
    ("methods-rhat-of-the-log-joint-only", 'found["probabilities"].rhat,', "1.0,", TESTS),
    ("methods-bbvi-augmented", '"objective": "elbo", "n_particles": 8', '"objective": "augmented", "n_particles": 8', TESTS),
    ("methods-nuts-without-priors", "draws = sample_posterior(Z, y, e.n_experts, e.latent_dim, n_classes, e.priors,",
     "draws = sample_posterior(Z, y, e.n_experts, e.latent_dim, n_classes, e.priors(sigma0=1.0),", TESTS),
    ("methods-codes-unsorted", "tables.append([log_p[np.arange(len(codes)), codes]", "tables.append([log_p[np.arange(len(codes)), 0 * codes]", TESTS),
    ("methods-converged-if-cut-short", "rhat, bool(whole and rhat < 1.05)", "rhat, bool(rhat < 1e9)", TESTS),
    ("methods-first-chain-only", "return predict_from_draws(sampled.draws, Z)", "return predict_from_draws(sampled.draws, Z, max_draws=1)", TESTS),
]
