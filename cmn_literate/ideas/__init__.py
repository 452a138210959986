"""What the derivation stands on: evidence, the exponential family, sticks, Polya-Gamma variables, logistic regression."""
