"""Faults for stochastic steps, memoized ascent and over-relaxed sweeps."""
TESTS = ("test_streaming.py",)
FAULTS = [
    ("natural-step-whole-prior", "(rho, base), (rho * weight, share)", "(1, base), (rho * weight, share)", TESTS),
    ("stochastic-unscaled", "rho, sum(sizes) / sizes[i])", "rho, 1.0)", TESTS),
    ("stochastic-always-new", "rho = robbins_monro(t, delay, forget)", "rho = robbins_monro(0, delay, forget)", TESTS),
    ("robbins-grows", "(t + delay)**-forget", "(t + delay)**forget", TESTS),
    ("memo-old-not-rebased", "old = rebase(m.shares[i], M - m.references[i])", "old = m.shares[i]", TESTS),
    ("memo-total-stays-behind", "total=rebase(total, after.M - p.M)", "total=total", TESTS),
    ("memo-old-reference", "zip(m[:3], (block, share, M))", "zip(m[:3], (block, share, m.references[i]))", TESTS),
    ("memo-adds-only", "(1, m.total), (-1, old), (1, share)", "(1, m.total), (0, old), (1, share)", TESTS),
    ("axes-without-entropy", "share.n_k.sum() * np.log(s).sum()", "share.n_k.sum() * 0.0", TESTS),
    ("axes-squares-once", "squares=share.squares * s**2", "squares=share.squares * s", TESTS),
    ("axes-linear-transposed", "output_linear=share.output_linear @ A.T", "output_linear=share.output_linear @ A", TESTS),
    ("axes-scale-squared", "s = np.sqrt(q.b[0] / p.b[0])", "s = q.b[0] / p.b[0]", TESTS),
    ("axes-shift-forgotten", "M[:, :, -1] += c", "M[:, :, -1] += 0 * c", TESTS),
    ("relaxed-without-guard", "if stride > 1 and bound < climb.bound:", "if stride > 1e9 and bound < climb.bound:", TESTS),
    ("relaxed-keeps-tilts", "climb._replace(stride=1.0, refused", "climb._replace(blocks=blocks, stride=1.0, refused", TESTS),
    ("relaxed-refuses-sweeps", "if stride > 1 and bound < climb.bound:", "if bound < climb.bound:", TESTS),
    ("overshoot-back", "((1 - stride, factor_sums(behind, ahead.M))", "((stride - 1, factor_sums(behind, ahead.M))", TESTS),
    ("blocks-stop-at-a-refusal", "converged = bool(kept and elbo", "converged = bool(elbo", TESTS),
    ("blocks-in-order", "np.random.default_rng(rng).permutation(len(X))", "np.arange(len(X))", TESTS),
]
