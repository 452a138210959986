"""Faults for the first pass over a source, and the passes after it."""
TESTS = ("test_sources.py",)
FAULTS = [
    ("merge-forgets-the-gap", "np.hypot(within, np.sqrt(p * q) * gap)", "within", TESTS),
    ("merge-weighs-the-wrong-block", "left.mean + q * gap", "left.mean + p * gap", TESTS),
    ("spread-of-squares-that-vanish", "if tiny.any():", "if False:", TESTS),
    ("scale-of-a-constant", "np.where(flat, 1.0, deviation)", "deviation", TESTS),
    ("sample-keeps-the-largest-keys", "near = keys < sample.keys.max()", "near = keys > sample.keys.max()", TESTS),
    ("sample-not-in-order", "stay = np.sort(np.argpartition(keys, most)[:most])\n        keys, X, y = keys[stay]", "stay = np.argsort(keys)[:most]\n        keys, X, y = keys[stay]", TESTS),
    ("survey-counts-a-label-once", "out[np.searchsorted(both, classes)] += counts", "out[np.searchsorted(both, classes)] += 1", TESTS),
    ("survey-moves-the-generator", "[key_generator(rng) for rng in rngs]", "list(rngs)", TESTS),
    ("last-short-block-dropped", "if kept and len(kept[0]):\n        yield kept", "return", TESTS),
    ("change-before-a-pass-unseen", "if source.stamp() != found.stamp:\n        raise", "if False:\n        raise", TESTS),
    ("change-within-a-pass-unseen", "if start != found.n_rows or source.stamp() != found.stamp:", "if start != found.n_rows:", TESTS),
    ("other-first-block-unseen", "if _block_head(*next(counted_blocks(source), ((), None))) != found.head:", "if False:", TESTS),
    ("lost-rows-unseen", "if start != found.n_rows or", "if start > found.n_rows or", TESTS),
    ("unknown-label-as-the-last", "if not np.array_equal(classes[codes], y):", "if False:", TESTS),
    ("moments-without-weights", "here = block_moments(X, weight)", "here = block_moments(X)", TESTS),
    ("labels-counted-by-rows", "more = np.bincount(place, weight)", "more = 1.0 * np.bincount(place)", TESTS),
    ("weights-are-always-whole", "whole and whole_weights(weight)", "whole", TESTS),
    ("weights-unscaled", "scale = repeat_scale(found.n_rows, found.moments.n, found.whole)", "scale = 1.0", TESTS),
    ("repeats-begin-anew-in-each-block", "rows, upto = repeat_block(weight, scale, upto)", "rows, upto = repeat_block(weight, scale)", TESTS),
    ("repeated-rows-of-the-block", "X[rows[stay]], y[rows[stay]]", "X[rows[stay]], y[stay]", TESTS),
]
