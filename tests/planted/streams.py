"""Faults for shares, moments and what a stream has seen."""
TESTS = ("test_streams.py",)
FAULTS = [
    ("stream-rate-half", "2 * p.b + (away * cross).sum(-1)", "p.b + (away * cross).sum(-1)", TESTS),
    ("stream-squares-about-zero", "2 * p.b + (away * cross).sum(-1)", "2 * p.b - (away * cross).sum(-1)", TESTS),
    ("stream-normaliser-half", "experts = h * (gammaln(p.a) - 0.5 * log_P)", "experts = h * (gammaln(p.a) - log_P)", TESTS),
    ("stream-normaliser-one-row", "experts = h * (gammaln(p.a) - 0.5 * log_P)", "experts = gammaln(p.a) - 0.5 * h * log_P", TESTS),
    ("stream-any-rate", "if not (a.min() > 0 and b.min() > 0):", "if not a.min() > 0:", TESTS),
    ("rebase-sign", "sums.squares - 2 * (move * sums.cross).sum(-1)", "sums.squares + 2 * (move * sums.cross).sum(-1)", TESTS),
    ("rebase-forgets-square", "+ (move * moved).sum(-1)", "+ 0.0 * (move * moved).sum(-1)", TESTS),
    ("rebase-cross-stays", "cross=sums.cross - moved", "cross=sums.cross - 0.0 * moved", TESTS),
    ("inputs-gate-linear", "gate_linear=sums.gate_linear @ W.T", "gate_linear=sums.gate_linear @ W", TESTS),
    ("inputs-other-side", "W @ unpack_symmetric(packed, len(W)) @ W.T", "W.T @ unpack_symmetric(packed, len(W)) @ W", TESTS),
    ("share-keeps-the-joint", "local = share.bound - expected_log_joint(share, prep)", "local = share.bound", TESTS),
    ("seen-with-the-prior", "(-1, prior_sums(result.priors, p))", "(0, prior_sums(result.priors, p))", TESTS),
    ("seen-without-normaliser", "bound=share.bound + result.elbo[-1]", "bound=result.elbo[-1]", TESTS),
    ("seen-negative-squares", "squares=np.maximum(share.squares, 0.0)", "squares=share.squares - 0.0", TESTS),
    ("absorb-stale-reference", "(1, rebase(base, p.M - reference))", "(1, base)", TESTS),
    ("units-inverted", "np.append(s / scale, 1.0)", "np.append(scale / s, 1.0)", TESTS),
    ("units-shift-sign", "W[:-1, -1] = (m - mean) / scale", "W[:-1, -1] = (mean - m) / scale", TESTS),
    ("chunk-moments-alone", "moments = merge_moments(_moments_so_far(est), moments)", "moments = merge_moments(moments, moments)", TESTS),
    ("chunk-reference-of-the-prior", "prior_sums(est.priors, result.parameters, reference)", "prior_sums(est.priors, result.parameters)", TESTS),
    ("chunk-forgets-calls", '(*getattr(est, "calls_", ()), ("partial_fit", len(X)))', '(("partial_fit", len(X)),)', TESTS),
]
