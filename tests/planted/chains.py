"""Faults of serving chains: (id, old text, new text, test files that may notice)."""
TESTS = ("test_chains.py",)

FAULTS = [
    ("chains-all-served", "turns = deque(filter(unfinished, chains))", "turns = deque(chains)", TESTS),
    ("chains-workers-go-home", "for chain in filter(unfinished, chains)}", "for chain in filter(unfinished, chains[:1])}", TESTS),
    ("chains-one-turn-each", "turns.append(chain)", "turns.extend([])", TESTS),
    ("chains-round-of-some", "if all(waiting):", "if any(waiting):", TESTS),
    ("chains-round-of-the-latest", "queue.popleft() for queue in waiting", "queue.pop() for queue in waiting", TESTS),
    ("chains-not-stored-at-the-end", "finally:\n        save()", "finally:\n        pass", TESTS),
    ("chains-told-before-stored", "if due(done):", "if False and due(done):", TESTS),
    ("chains-interrupt-lost", "return interrupt", "return None", TESTS),
    ("chains-parts-swapped", "for name in sorted(arrays) if", "for name in sorted(arrays)[::-1] if", TESTS),
]
