"""Faults of coordinate ascent with any output: (id, old text, new text, test files that may notice)."""
TESTS = ("test_regression.py",)

FAULTS = [
    ("net-scores-without-entropy", "+ gaussian_entropy(q.Sigma) + gate_log_bound(", "+ gate_log_bound(", TESTS),
    ("net-scores-without-gate", "+ gate_log_bound(X, g.beta0_mu, g.beta0_S, q.xi0))", ")", TESTS),
    ("net-kl-without-output", "sum(kl.values()) + model.output.kl(g.output, model.priors)", "sum(kl.values())", TESTS),
    ("net-kl-without-shared-mean", "Above(v00=model.v00))\n    return", "Above(v00=0.0))\n    return", TESTS),
    ("net-bound-without-entropy-of-z", "anp.sum(category_entropy(gamma)) - network_kl", "0 * anp.sum(category_entropy(gamma)) - network_kl", TESTS),
    ("net-bound-rows-unweighted", "anp.sum(gamma * network_scores(", "anp.sum(0 * gamma + network_scores(", TESTS),
    ("net-experts-about-zero", "model.priors, g.mean, g.var)", "model.priors, 0 * g.mean, g.var)", TESTS),
    ("net-experts-sure-of-the-mean", "model.priors, g.mean, g.var)", "model.priors, g.mean, 0 * g.var)", TESTS),
    ("net-shared-of-its-own-scale", "g.M, model.priors.v0, model.v00)", "g.M, model.v00, model.v00)", TESTS),
    ("net-memory-stale-covariance", "refresh(q.mu, q.Sigma, s.globals.output)", "refresh(q.mu, 0 * q.Sigma, s.globals.output)", TESTS),
    ("net-output-unweighted", "out.collect(y, q.gamma,", "out.collect(y, 0 * q.gamma + 1 / q.gamma.shape[1],", TESTS),
    ("net-output-kept", "return s.replace(output=out.maximise(", "return s.replace() if s else s.replace(output=out.maximise(", TESTS),
    ("net-sweep-without-gate", '"beta0": _beta0, "experts": _experts}', '"beta0": _omega0, "experts": _experts}', TESTS),
    ("net-start-uneven", "np.full((N, K), 1 / K), None", "np.full((N, K), 1.0), None", TESTS),
    ("net-start-without-noise", "0.1 * rng.normal(size=target.shape)", "0.0 * rng.normal(size=target.shape)", ("test_regression.py", "test_regressor.py")),
    ("net-start-sure-of-the-mean", "above = higher_start(latent_dim, D, priors, Above(v00=model.v00))", "above = higher_start(latent_dim, D, priors, Above(v00=0.0))", TESTS),
    ("net-stop-by-the-sum", "bool(gain < self.tol * len(self.X))", "bool(gain < self.tol)", TESTS),
    ("net-problem-without-output", "out.name, model[1:], tol)", "model[1:], tol)", TESTS),
    ("net-problem-without-priors", "out.name, model[1:], tol)", "out.name, tol)", TESTS),
    ("net-forecast-plain-dof", "stdtrit(2 * g.a[k], u)", "stdtrit(g.a[k], u)", TESTS),
    ("net-forecast-scale-not-rooted", "np.sqrt(g.b[k] / g.a[k])", "g.b[k] / g.a[k]", TESTS),
    ("net-forecast-without-spread", "spread = 1 + np.maximum(row_quadratic(X, g.V), 0.0)", "spread = 1 + 0 * np.maximum(row_quadratic(X, g.V), 0.0)", TESTS),
    ("net-forecast-sum-of-slices", "- np.log(len(u)))", ")", TESTS),
    ("net-forecast-without-gate", "parts.append(log_w[:, k] + logsumexp", "parts.append(0 * log_w[:, k] + logsumexp", TESTS),
]
