"""Faults for what the commands have in common."""
BOTH = ("test_cli_regress.py", "test_cli.py", "test_cli_files.py")
FAULTS = [
    ("commands-forget-the-decimal-mark", "return CsvSource([path], target, columns, args.delimiter, args.decimal, [args.spooled], weight)",
     "return CsvSource([path], target, columns, args.delimiter, '.', [args.spooled], weight)", BOTH),
    ("commands-leave-a-part-behind", "os.unlink(part)", "str(part)", BOTH),
    ("commands-write-into-any-folder", "if not os.path.isdir(folder):", "if False:", BOTH),
    ("commands-write-csv-for-parquet", "if path.endswith(PARQUET):", "if False:", BOTH),
    ("commands-digits-are-cut", "repr(float(value))", "f'{value:.6g}'", BOTH),
    ("commands-columns-by-place", "columns=None if names is None else plain(names))", "columns=None)", BOTH),
    ("commands-any-number-of-columns", "if names is None and len(source.columns) != model.n_features_in_:", "if False:", BOTH),
]
