"""Faults for the tree of sums, the tilts of rows that were lost, and the plan of a fit."""
TESTS = ("test_distributed.py",)
FAULTS = [
    ("tree-loses-the-odd-one", "items = pairs + items[2 * len(pairs):]", "items = pairs", TESTS),
    ("tree-mixes-the-order", "pairs = [add(*items[i:i + 2]) for", "pairs = [add(*items[i:i + 2][::-1]) for", TESTS),
    ("settle-stops-at-once", "if sums.bound - bound <= tol * n_rows:", "if sums.bound - bound <= 1.0 * n_rows:", TESTS),
    ("settle-never-moves", "sums, omega, fresh = estep(prep, rows, omega, 1, gamma)", "sums, _, fresh = estep(prep, rows, omega, 1, gamma)", TESTS),
    ("shard-keeps-old-tilts", "renewed.append(Block(rows, omega,", "renewed.append(Block(rows, 0.99 * omega,", TESTS),
    ("survey-counts-one-side", "for one in (left, right):", "for one in (left, left):", TESTS),
    ("rows-without-gate", "products = ((2 * K - 1) * T", "products = (K * T", TESTS),
    ("plan-of-an-average-worker", "most = -(-shards // workers) * -(-n_rows // shards)", "most = n_rows // workers", TESTS),
    ("sums-without-bound", "+ J * ((h + 1) * (h + 2) // 2 + h + 1) + 1)", "+ J * ((h + 1) * (h + 2) // 2 + h + 1))", TESTS),
    ("settle-with-another-kernel", "settle(prep, rows, omega, gamma, estep=estep)", "settle(prep, rows, omega, gamma)", TESTS),
    ("survey-of-fractions-is-whole", "whole=left.whole and right.whole,", "whole=True,", TESTS),
]
