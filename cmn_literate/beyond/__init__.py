"""What the paper does not have or left open: shared means, and more to come."""
