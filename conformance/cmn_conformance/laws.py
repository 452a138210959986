"""Generated inputs."""
PROBLEMS = 6
def extend(*a):
    pass
