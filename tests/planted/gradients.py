"""Faults for cmn_literate/engineering/gradients.py: (id, text, text with the fault, test files that may notice)."""
TESTS = ("test_gradients.py", "test_mle.py")

FAULTS = [
    ("lik-slope-of-the-wrong-side", "np.multiply(E, stop, out=E)", "np.copyto(E, stop)", TESTS),
    ("lik-underflow-unguarded", "return (reach + 0.7).sum(0) > 600", "return (reach + 0.7).sum(0) > 6000", TESTS),
    ("lik-underflow-one-stick", "return (reach + 0.7).sum(0) > 600", "return (reach + 0.7).max(0) > 600", TESTS),
    ("lik-classes-one-sided", "extreme = _extreme(np.abs(psi), np.abs(spreads))", "extreme = _extreme(-psi, -spreads)", TESTS),
    ("lik-extreme-experts-swapped", "log_f[:, ~extreme] = np.log(f)", "log_f[:, ~extreme] = np.log(f)[:, ::-1]", TESTS),
    ("lik-extreme-shift-sign", "log_f[k] = np.log(f) - shift", "log_f[k] = np.log(f) + shift", TESTS),
    ("lik-extreme-slope", "np.where(T > 0, 1.0, e) * stop * product", "np.where(T < 0, 1.0, e) * stop * product", TESTS),
    ("lik-stick-behind-the-class", "S, flip = min(c + 1, n_sticks)", "S, flip = min(c + 2, n_sticks)", TESTS),
    ("lik-mixed-unreached", "np.copyto(means, -np.inf, where=flip == 0)", "pass", TESTS),
    ("lik-gate-expects-itself", "axis=0)[:0:-1]", "axis=0)[-2::-1]", TESTS),
    ("lik-stale-order", "eps_bar[order] += rows_bar[D:].T", "eps_bar += rows_bar[D:].T", TESTS),
    ("lik-cholesky-diagonal", "half[:, range(J), range(J)] *= 0.5", "half[:, range(J), range(J)] *= 1.0", TESTS),
    ("lik-cholesky-tau-sign", "-(pull * weights).sum(1) / theta.tau)", "(pull * weights).sum(1) / theta.tau)", TESTS),
    ("lik-class-forgets-the-passed", "E[j] *= E[j - 1]", "E[j] *= 1.0", TESTS),
    ("lik-eps-prior-forgotten", "value -= 0.5 * (eps**2).sum()", "value -= 0.0 * (eps**2).sum()", TESTS),
    ("lik-chunk-skips-nodes", "min(q + nodes, Q))", "min(q + nodes, Q - 1))", TESTS),
    ("lik-overflow-has-a-slope", "return -np.inf, np.zeros(len(u))", "return -np.inf, slope", TESTS),
    ("network-tosses-strict", "(y >= sticks) * count", "(y > sticks) * count", TESTS),
    ("network-pass-probability", "np.cumprod(expit(-psi0), axis=0, out=gate[1:])", "np.cumprod(expit(psi0), axis=0, out=gate[1:])", TESTS),
    ("network-error-untossed", "error = rows.stop - rows.toss * expit(psi)", "error = rows.stop - expit(psi)", TESTS),
    ("network-gate-sum-forward", "np.cumsum(share[::-1], axis=0)[::-1]", "np.cumsum(share, axis=0)", TESTS),
    ("network-gate-sum-off-by-one", "stop * later[:-1]) @ rows.XtT.T", "stop * later[1:]) @ rows.XtT.T", TESTS),
    ("network-experts-unweighted", "A_bar = (gate[:, None] * x1_bar)", "A_bar = (0 * gate[:, None] + x1_bar)", TESTS),
]
