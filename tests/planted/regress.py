"""Faults for the command that fits a number."""
TESTS = ("test_cli_regress.py",)
FAULTS = [
    ("regress-level-of-one", "if not 0 < found[part] < 1:", "if not 0 < found[part] <= 1:", TESTS),
    ("regress-target-stays-a-feature", "return np.delete(rows, at, 1), rows[:, at]", "return rows, rows[:, at]", TESTS),
    ("regress-target-with-its-blanks", "map(plain_name, (args.target, args.target.strip()))", "map(plain_name, (args.target,))", TESTS),
    ("regress-no-column-to-learn-from", "if len(source.columns) < 2:", "if False:", TESTS),
    ("regress-test-rows-in-their-own-order", "read_rows(args.test, args, (*columns, target))", "read_rows(args.test, args)", TESTS),
    ("regress-scores-what-it-fitted", "columns, (X[test], y[test],", "columns, (X[train], y[train],", TESTS),
    ("regress-holds-out-the-same-rows", "np.random.default_rng(args.seed)", "np.random.default_rng(0)", TESTS),
    ("regress-holds-out-nothing", "if not 1 <= n_test <= len(y) - 2:", "if False:", TESTS),
    ("regress-intervals-swapped", "(0.25, 0.05, 0.75, 0.95)", "(0.05, 0.25, 0.95, 0.75)", TESTS),
    ("regress-error-of-the-median", "np.mean((model.predict(X) - y) ** 2)", "np.mean((model.predict_quantiles(X, [0.5])[:, 0] - y) ** 2)", TESTS),
    ("regress-density-for-its-log", "model.predict_density(X, y, log=True).mean()", "model.predict_density(X, y).mean()", TESTS),
    ("regress-names-in-another-order", "np.array(columns, dtype=object)", "np.array(columns[::-1], dtype=object)", TESTS),
    ("regress-link-unheard", "link=args.link, ", "", TESTS),
    ("regress-seed-unheard", "random_state=args.seed,", "random_state=1,", TESTS),
    ("regress-says-it-converged", 'if model.converged_ else "not', 'if True else "not', TESTS),
    ("regress-two-numbers-as-one", "if model.target_shape_:", "if False:", TESTS),
    ("regress-mean-without-spread", "model.predict(X, return_std=True)", "(model.predict(X), model.predict(X))", TESTS),
    ("regress-any-model-is-one", '.get("format") == "cmn_literate.CMNRegressor"', '.get("format") is not None', (*TESTS, "test_cli.py")),
    ("regress-weights-unheard", "model.fit(X, y, count)", "model.fit(X, y)", TESTS),
    ("regress-weights-of-other-rows", "count if count is None else count[train]", "count if count is None else count[test]", TESTS),
]
