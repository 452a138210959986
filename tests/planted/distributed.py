"""Faults for the fit on a Dask cluster."""
TESTS = ("test_distributed.py",)
FAULTS = [
    ("shard-trusts-any-tilts", "lost, self.sample = self.turn not in (turn - 1, turn), None", "lost, self.sample = False, None", TESTS),
    ("shard-never-trusts", "lost, self.sample = self.turn not in (turn - 1, turn), None", "lost, self.sample = self.turn != turn - 1 or turn > 3, None", TESTS),
    ("keys-begin-anew-in-each-shard", "keys.bit_generator.advance(int(repeated_before(upto, layout.scale_of_weights)) if layout.weighted else upto)", "keys.bit_generator.advance(0)", TESTS),
    ("shard-of-changed-files", "if (n_rows, source and source.stamp()) != (known.n_rows, known.stamp):", "if n_rows != known.n_rows:", TESTS),
    ("every-worker-is-lost", "if home not in there]", "if home not in there or c == 0]", TESTS),
    ("sums-in-order-of-arrival", "pairwise([futures[c] for c in sorted(futures)],",
     "pairwise([futures[c] for c in sorted(futures, key=lambda c: self.homes[c])],", TESTS),
    ("losses-not-counted", "if max(self.losses) > LOSSES:", "if max(self.losses) > 9 * LOSSES:", TESTS),
    ("any-room-will-do", "if limits and n_rows * each > 0.8 * sum(limits):", "if limits and n_rows > 0.8 * sum(limits):", TESTS),
    ("scale-of-the-sample", "inputs.append((X - layout.mean) / layout.scale)", "inputs.append(X / layout.scale)", TESTS),
    ("shard-repeats-without-scale", "rows, upto = repeat_block(weight, layout.scale_of_weights, upto)", "rows, upto = repeat_block(weight, 1.0, upto)", TESTS),
    ("shard-without-weights", "np.concatenate(weights) if weights else None)", "None)", TESTS),
    ("shard-of-the-numpy-kernel", "return shard.sweep(parameters, turn, inner, kernel or estep)", "return shard.sweep(parameters, turn, inner)", TESTS),
    ("kernel-by-the-rows-of-a-shard", "find_estep(layout.n_rows,", "find_estep(len(shard.blocks),", TESTS),
    ("ctrl-c-passes-unseen", "cut = True", "cut = False", TESTS),
    ("classes-on-a-cluster-by-rows", "of_class = np.bincount(places, found.counts, len(labels))", "of_class = 1.0 * np.bincount(places, None, len(labels))", TESTS),
]
