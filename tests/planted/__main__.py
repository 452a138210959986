"""Faults for the command line."""
TESTS = ("test_cli_files.py",)
FAULTS = [
    ("class-named-twice", "if name not in known or known[name] in factors:", "if name not in known:", TESTS),
    ("negative-class-weight", "if not equals or not 0 <= factor < np.inf:", "if not equals:", TESTS),
    ("weight-of-the-command-line-forgotten", "open_source(path, target, columns, args.delimiter, args.decimal, weight)", "open_source(path, target, columns, args.delimiter, args.decimal)", TESTS),
    ("class-weight-of-the-command-line-forgotten", "class_weight=of_classes,", "", TESTS),
    ("weights-refused-after-the-reading", "if weighted:\n        check_learner_weights(args.method)", "pass", TESTS),
]
