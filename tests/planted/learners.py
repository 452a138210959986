"""Faults for the table of learners and what they are asked."""
FAULTS = [
    ("options-of-another-method", "known = isinstance(given, dict) and set(given) <= set(defaults)", "known = isinstance(given, dict)", ("test_one_table.py",)),
    ("options-never-reach-the-method", "return {**defaults, **given}", "return {**given, **defaults}", ("test_learners.py",)),
    ("usual-one-ascent-always", 'return "several" if in_memory and not est.accelerate else "cavi"', 'return "cavi"', ("test_default.py",)),
    ("usual-four-ascents-always", 'return "several" if in_memory and not est.accelerate else "cavi"', 'return "several" if not est.accelerate else "cavi"', ("test_default.py",)),
    ("usual-accelerated-as-four", 'return "several" if in_memory and not est.accelerate else "cavi"', 'return "several" if in_memory else "cavi"', ("test_default.py",)),
    ("usual-instead-of-what-was-asked", 'if est.method != "auto":', 'if est.method not in ("auto", "cavi"):', ("test_default.py",)),
    ("usual-options-passed-over", "est.method = choose_method(est, in_memory)\n    learner_options(est)", "est.method = choose_method(est, in_memory)", ("test_default.py",)),
    ("progress-counts-steps-twice", "bar.update(done - bar.n)", "bar.update(done)", ("test_runs.py",)),
]
