"""Faults for what all methods share."""
TESTS = ("test_one_table.py",)
FAULTS = [
    ("methods-bbvi-augmented", '"objective": "elbo", "n_particles": 8', '"objective": "augmented", "n_particles": 8', TESTS),
    ("methods-codes-unsorted", "tables.append([log_p[np.arange(len(codes)), codes]", "tables.append([log_p[np.arange(len(codes)), 0 * codes]", TESTS),
]
