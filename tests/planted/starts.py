"""Faults in the rows that a start with weights reads, and in the regions that it cuts out."""
TESTS, REGIONS = ("test_weights.py",), ("test_starts.py",)
FAULTS = [
    ("start-without-weights", "if weight is not None: rows = repeat_rows(weight)", "if weight is not None:\n        rows = np.arange(len(X))", TESTS),
    ("start-rows-truncated", "np.floor(scale * upto + (0.5 + 2.0**-20))", "np.floor(scale * upto)", TESTS),
    ("halves-by-the-last-digit", "(0.5 + 2.0**-20)", "0.5", TESTS),
    ("repeats-of-a-block-alone", "upto = np.cumsum(np.append(before, weight))", "upto = np.cumsum(np.append(0.0, weight))", TESTS),
    ("many-whole-rows-repeated", "if whole and total <= most else", "if whole else", TESTS),
    ("start-one-region-more", "max(1, min(n_experts, n_rows // D))", "max(1, min(n_experts, n_rows // D + 1))", REGIONS),
    ("start-regions-without-limit", "max(1, min(n_experts, n_rows // D))", "max(1, n_rows // D)", REGIONS),
    ("start-cut-of-half", "cut = order[:round(len(left) / (n_regions - j))]", "cut = order[:round(len(left) / 2)]", REGIONS),
    ("start-cut-in-units", "along = Z[left] @", "along = X[left] @", REGIONS),
    ("start-cut-one-sided", "@ rng.normal(size=Z.shape[1])", "@ (np.arange(Z.shape[1]) == rng.integers(2))", REGIONS),
    ("start-cut-all-rows-again", "left = np.delete(left, cut)", "left = left", REGIONS),
    ("start-hyperplanes-are-clusters", "draw = hyperplane_labels if method == \"hyperplanes\" else cluster_labels", "draw = cluster_labels", REGIONS),
    ("start-few-clusters-are-many", "R = K if method == \"class-code\" else", "R = K if method != \"hyperplanes\" else", REGIONS),
]
