"""Data that level B asks about: clusters of classes, a line with noise.  numpy alone."""

import numpy as np

SLOPE, LEVEL, NOISE = np.array([1.5, -1.0]), 2.0, 0.5    # of the line: y = SLOPE . x + LEVEL + NOISE e


def clusters(rng, labels, rows, radius):
    """rows points about each of the corners of a polygon, one per label, in the order of the labels."""
    angle = 2 * np.pi * np.arange(len(labels)) / len(labels)
    centres = radius * np.stack([np.cos(angle), np.sin(angle)], 1)
    return np.repeat(centres, rows, 0) + rng.normal(size=(rows * len(labels), 2)), [label for label in labels for _ in range(rows)]


def line(rng, rows):
    """X (rows,2) and y (rows,) of the line, with normal noise."""
    X = rng.normal(size=(rows, 2))
    return X, X @ SLOPE + LEVEL + NOISE * rng.normal(size=rows)


def three_classes(lab):
    """45 rows of three classes that overlap, and 17 queries."""
    rng = lab.rng(1)
    X, y = clusters(rng, [0, 1, 2], 15, 1.5)
    mixed = rng.permutation(len(y))
    return X[mixed], [y[i] for i in mixed], 2 * rng.normal(size=(17, 2))


def noisy_line(lab):
    """45 rows of the line, and 17 queries; numbers that float32 holds."""
    rng = lab.rng(1)
    X, y = line(rng, 45)
    return tuple(part.astype(np.float32).astype(float) for part in (X, y, rng.normal(size=(17, 2))))
