"""Faults for WAIC, PSIS-LOO and the convergence rules."""
TESTS = ("test_metrics.py",)
FAULTS = [
    ("waic-half-variance", "return _total(lppd - p_rows, p_rows,", "return _total(lppd - p_rows / 2, p_rows,", TESTS),
    ("waic-mean-of-logs", "lppd = logsumexp(values, axis=0) - np.log(len(values)) with", "lppd = values.mean(axis=0)\n    with", TESTS),
    ("waic-divisor", "values.var(axis=0, ddof=1)", "values.var(axis=0)", TESTS),
    ("elpd-se-of-a-mean", "float(np.sqrt(len(rows)) * rows.std())", "float(rows.std() / np.sqrt(len(rows)))", TESTS),
    ("pareto-unprofiled-scale", "return (M * k + 10 * 0.5) / (M + 10), -k / b", "return (M * k + 10 * 0.5) / (M + 10), k / b", TESTS),
    ("loo-equals-are-a-tail", "if len(tail) <= 4 or np.ptp(x[tail]) == 0:", "if len(tail) <= 4:", TESTS),
    ("loo-unknown-is-wild", "return x + top, np.nan", "return x + top, np.inf", TESTS),
    ("loo-weights-not-inverted", "weights, k[n] = smooth_tail(-column)", "weights, k[n] = smooth_tail(column)", TESTS),
    ("loo-weights-not-normalised", "rows[n] = logsumexp(weights + column) - logsumexp(weights)",
     "rows[n] = logsumexp(weights + column) - np.log(len(column))", TESTS),
    ("decay-one-time-constant", "return float(tau * np.log(20))", "return float(tau)", TESTS),
    ("within-a-gap-above-only", "np.argmax(np.abs(trace - trace[-1]) <= gap)", "np.argmax(trace - trace[-1] <= gap)", TESTS),
]
