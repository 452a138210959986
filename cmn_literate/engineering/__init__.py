"""The same network, fast, and runs that can be stopped and taken up; skip this part on a first reading."""
