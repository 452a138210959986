"""Special functions of SciPy that autograd differentiates: autograd.scipy.special, without its neighbours.

Importing it under its own name brings all of autograd.scipy, and with that scipy.stats and scipy.integrate,
which takes longer than everything else that this package imports.
"""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import autograd

_spec = spec_from_file_location(__name__ + ".autograd", Path(autograd.__file__).parent / "scipy" / "special.py")
_functions = module_from_spec(_spec)
_spec.loader.exec_module(_functions)

digamma, gammaln, logsumexp = _functions.digamma, _functions.gammaln, _functions.logsumexp
