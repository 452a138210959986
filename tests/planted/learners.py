"""Faults for the table of learners and what they are asked."""
FAULTS = [
    ("options-of-another-method", "known = isinstance(given, dict) and set(given) <= set(defaults)", "known = isinstance(given, dict)", ("test_one_table.py",)),
    ("options-never-reach-the-method", "return {**defaults, **given}", "return {**given, **defaults}", ("test_learners.py",)),
    ("progress-counts-steps-twice", "bar.update(done - bar.n)", "bar.update(done)", ("test_runs.py",)),
]
