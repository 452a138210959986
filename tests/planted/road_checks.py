"""Faults for the checks of climbs, chains and draws."""
FAULTS = [
    ("climb-without-a-limit", "fine = is_number(value) and 0 <= value < top", "fine = is_number(value) and 0 <= value", ("test_optimizers.py",)),
    ("leading-axes-of-the-first-only", "if np.shape(value)[:2] != lead:", "if np.shape(value)[:1] != lead[:1]:", ("test_checks_roads.py", "test_diagnostics.py")),
]
