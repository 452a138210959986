"""The same mathematics, fast: each chapter derives what it speeds up and asserts that it equals the reference."""
