"""Faults for the door to sources, and for rows that are loaded."""
TESTS = ("test_sources.py",)
FAULTS = [
    ("loaded-labels-in-order-of-arrival", "return Loaded(X, place[codes[:n]], classes,", "return Loaded(X, codes[:n], classes,", TESTS),
    ("more-rows-than-asked-for", "if n + len(block) > most(max(len(known), 2)):", "if False:", TESTS),
    ("dask-labels-by-their-own-chunks", "if y is not None and not np.array_equal(self.X.chunks[0], y.chunks[0], equal_nan=True):", "if False:", TESTS),
    ("dask-weights-by-their-own-chunks", "return weight if same else weight.rechunk({0: self.X.chunks[0]})", "return weight", TESTS),
    ("loaded-without-weights", "None if source.weight is None else weights[:n]", "None", TESTS),
    ("any-client-is-active", "return None if client.asynchronous else client", "return None", ("test_distributed.py",)),
]
