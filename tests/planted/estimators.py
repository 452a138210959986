"""Faults for options by name, and for the check of the data."""
TESTS = ("test_classifier.py", "test_cases.py", "test_front_door.py")
FAULTS = [
    ("priors-are-no-options", "nested = asdict(self.priors) if deep and is_dataclass(self.priors) else {}", "nested = {}", TESTS),
    ("priors-stay-as-they-were", "self.priors = replace(self.priors, **nested)", "replace(self.priors, **nested)", TESTS),
    ("overflow-without-a-name", "except OverflowError as error:", "except ZeroDivisionError as error:", TESTS),
]
