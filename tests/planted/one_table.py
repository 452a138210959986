"""Faults for cmn_literate/roads/one_table.py, what all methods share."""
TESTS = ("test_one_table.py",)
FAULTS = [
    ("methods-codes-unsorted", "tables.append([log_p[np.arange(len(codes)), codes]", "tables.append([log_p[np.arange(len(codes)), 0 * codes]", TESTS),
]
