"""Faults for cmn_literate/engineering/coordinates.py: (id, text, text with the fault, test files that may notice)."""
TESTS = ("test_coordinates.py",)

FAULTS = [
    ("lik-jacobian-forgotten", "anp.sum(priors.a0 * s - priors.b0 * anp.exp(s) + constant)",
     "anp.sum((priors.a0 - 1) * s - priors.b0 * anp.exp(s) + constant)", TESTS),
    ("lik-white-scale-inverted", "A = A * anp.exp(0.5 * s)[..., None] / priors.v0**0.5", "A = A * anp.exp(0.5 * s)[..., None] * priors.v0**0.5", TESTS),
    ("lik-jacobian-without-bias", "0.5 * (d + 1) * anp.sum(", "0.5 * d * anp.sum(", TESTS),
    ("lik-prior-gradient-scale", "energy = priors.b0 + (A**2).sum(-1) / (2 * priors.v0)", "energy = priors.b0 + (A**2).sum(-1) / priors.v0", TESTS),
    ("lik-white-gradient-forgets-tau", "s_bar - 0.5 * (A_bar * A).sum(-1)", "s_bar", TESTS),
    ("lik-rank-is-h", "return min(self.latent_dim, self.n_classes - 1)", "return self.latent_dim", TESTS),
]
