"""Faults for the first pass over a source, and the passes after it."""
TESTS = ("test_sources.py",)
FAULTS = [
    ("merge-forgets-the-gap", "left.square + right.square + gap**2 * (left.n * right.n / n)", "left.square + right.square", TESTS),
    ("merge-weighs-the-wrong-block", "left.mean + gap * (right.n / n)", "left.mean + gap * (left.n / n)", TESTS),
    ("merge-keeps-one-low", "np.minimum(left.low, right.low)", "left.low", TESTS),
    ("scale-of-a-constant", "return mean, np.where(flat, 1.0, scale)\n\n\ndef column_scale", "return mean, scale\n\n\ndef column_scale", TESTS),
    ("sample-keeps-the-largest-keys", "near = keys < sample.keys.max()", "near = keys > sample.keys.max()", TESTS),
    ("sample-not-in-order", "stay = np.sort(np.argpartition(keys, most)[:most])\n        keys, X, y = keys[stay]", "stay = np.argsort(keys)[:most]\n        keys, X, y = keys[stay]", TESTS),
    ("survey-counts-a-label-once", "out[np.searchsorted(both, classes)] += counts", "out[np.searchsorted(both, classes)] += 1", TESTS),
    ("survey-moves-the-generator", "drawn = [key_generator(rng) for rng in rngs]", "drawn = list(rngs)", TESTS),
    ("last-short-block-dropped", "    if len(kept_Z):\n        yield kept_Z, kept_codes", "    return", TESTS),
    ("change-before-a-pass-unseen", "if source.stamp() != found.stamp:\n        raise", "if False:\n        raise", TESTS),
    ("change-within-a-pass-unseen", "if start != found.n_rows or source.stamp() != found.stamp:", "if start != found.n_rows:", TESTS),
    ("other-first-block-unseen", "if _block_head(*next(source.blocks(), ((), None))) != found.head:", "if False:", TESTS),
    ("lost-rows-unseen", "if start != found.n_rows or", "if start > found.n_rows or", TESTS),
    ("unknown-label-as-the-last", "if not np.array_equal(classes[codes], y):", "if False:", TESTS),
]
