"""Faults for the colours of the book."""
FAULTS = [
    ("palette-unknown-method", "if name not in METHODS:", "if False:", ("test_palette.py",)),
    ("palette-no-second-round", "CLASSES[c % len(CLASSES)]\n    return {", "CLASSES[c % 5]\n    return {", ("test_palette.py",)),
]
