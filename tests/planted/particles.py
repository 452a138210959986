"""Faults for cmn_literate/roads/particles.py: (id, text, text with the fault, test files that may notice)."""
TESTS = ("test_bbvi.py",)

FAULTS = [
    ("bb-coin-cost-one-side", "return anp.logaddexp(0.5 * psi, -0.5 * psi)", "return anp.logaddexp(0.0, psi)", TESTS),
    ("bb-readable-rows-without-their-noise", "A = f.M + A / anp.sqrt(tau)[..., None]", "A = f.M + A", TESTS),
    ("bb-readable-gate-unpassed", "kappa.T[..., None] * psi[:, :, None] - b.T[..., None] * cost[:, :, None]", "kappa.T[..., None] * psi[:, :, None] - cost[:, :, None]", TESTS),
]
