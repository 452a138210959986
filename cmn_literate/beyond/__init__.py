"""What the paper left open: rows without end, and more."""
