"""Data, scores and the estimator."""
