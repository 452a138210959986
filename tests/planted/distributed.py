"""Faults for the fit on a Dask cluster."""
TESTS = ("test_distributed.py",)
FAULTS = [
    ("shard-trusts-any-tilts", "lost, self.sample = self.turn not in (turn - 1, turn), None", "lost, self.sample = False, None", TESTS),
    ("shard-never-trusts", "lost, self.sample = self.turn not in (turn - 1, turn), None", "lost, self.sample = self.turn != turn - 1 or turn > 3, None", TESTS),
    ("keys-begin-anew-in-each-shard", "keys.bit_generator.advance(seen[0].first)", "keys.bit_generator.advance(0)", TESTS),
    ("shard-of-changed-files", "if (n_rows, source.stamp()) != (known.n_rows, known.stamp):", "if n_rows != known.n_rows:", TESTS),
    ("every-worker-is-lost", "if home not in there]", "if home not in there or c == 0]", TESTS),
    ("sums-in-order-of-arrival", "pairwise([futures[c] for c in sorted(futures)],",
     "pairwise([futures[c] for c in sorted(futures, key=lambda c: self.homes[c])],", TESTS),
    ("losses-not-counted", "if max(self.losses) > LOSSES:", "if max(self.losses) > 9 * LOSSES:", TESTS),
    ("any-room-will-do", "if limits and n_rows * each > 0.8 * sum(limits):", "if limits and n_rows > 0.8 * sum(limits):", TESTS),
    ("scale-of-the-sample", "inputs.append((X - layout.mean) / layout.scale)", "inputs.append(X / layout.scale)", TESTS),
]
