"""Faults for the files of arrays, runs and models."""
TESTS = ("test_storage.py", "test_datasets.py")
FAULTS = [
    ("file-not-atomic", "with open(part, mode, **options) as out:", "with open(path, mode, **options) as out:", TESTS),
    ("file-part-left", "if os.path.exists(part):\n            os.unlink(part)\n        raise", "raise", TESTS),
    ("file-pickles", "np.load(path, allow_pickle=False)", "np.load(path, allow_pickle=True)", TESTS),
    ("tree-tuples-as-lists", 'return tuple(parts) if kind == "tuple" else parts', "return parts", TESTS),
    ("tree-any-kind", "if kind not in known:", "if not known:", TESTS),
    ("generator-forgets-its-children", "kind(np.random.SeedSequence(**seeds))", "kind(np.random.SeedSequence(seeds['entropy']))", TESTS),
    ("generator-forgets-its-place", 'bits.state = state["state"]', "bits.state", TESTS),
    ("fingerprint-of-values-without-shape", 'digest.update(f"array {part.dtype.str} {part.shape} ".encode())', 'digest.update(b"array ")', TESTS),
    ("model-forgets-its-method", 'est.method_ = header.get("method", est.method)', "est.method_ = est.method", ("test_classifier.py",)),
    ("model-forgets-its-weight", 'est.moments_ = header.get("weight_seen"),', "est.moments_ = est.n_rows_seen_,", ("test_streams.py",)),
]
