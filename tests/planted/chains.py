"""Faults of serving chains: (id, old text, new text, test files that may notice)."""
TESTS = ("test_chains.py",)

FAULTS = [
    ("chains-all-served", "turns = deque(filter(unfinished, chains))", "turns = deque(chains)", TESTS),
    ("chains-workers-go-home", "for chain in filter(unfinished, chains)}", "for chain in filter(unfinished, chains[:1])}", TESTS),
    ("chains-one-turn-each", "turns.append(chain)", "turns.extend([])", TESTS),
]
