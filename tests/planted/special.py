"""Faults for cmn_literate/special.py."""

FRONT = ["test_front_door.py"]

FAULTS = [
    ("functions-swapped", "digamma, gammaln, logsumexp = _functions.digamma, _functions.gammaln,", "digamma, gammaln, logsumexp = _functions.gammaln, _functions.digamma,", FRONT),
    ("neighbours-imported", "import autograd\n", "import autograd, autograd.scipy.special\n", FRONT),
    ("slopes-forgotten", "_functions.gammaln, _functions.logsumexp", "_functions.gammaln, __import__('scipy.special').special.logsumexp", FRONT),
]
