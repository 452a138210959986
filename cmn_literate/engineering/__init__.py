"""The same network, fast: each module computes what a theory chapter defines, and is held equal to it."""
