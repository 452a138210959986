"""What the paper leaves open: rows in blocks and streams."""
