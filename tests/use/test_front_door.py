"""What can be imported from the package itself, and what a bare machine is told."""

import subprocess
import sys

import mpmath as mp
import numpy as np
import pytest
import scipy.special
from autograd import elementwise_grad, grad

import cmn_literate
from cmn_literate import special

NAMES = ("CMNClassifier", "CMNRegressor", "Priors", "fit", "sweep", "elbo", "predict_proba", "sample_network")


def alone(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_the_front_door():
    assert set(NAMES) | {"__version__"} == set(cmn_literate.__all__) <= set(dir(cmn_literate))
    for name in NAMES:
        assert getattr(cmn_literate, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = cmn_literate.nonsense


def test_it_is_lazy():
    done = alone("import sys, cmn_literate; print(sorted(m for m in sys.modules if m.split('.')[0] in ('cmn_literate', 'numpy', 'sklearn')))")
    assert done.stdout == "['cmn_literate']\n", done.stderr


def test_the_core_fits_and_predicts_without_extras_and_names_what_is_missing():
    code = """
import sys
for name in ("sklearn", "tqdm", "matplotlib", "pandas", "pooch"):
    sys.modules[name] = None
import numpy as np
from cmn_literate import Priors, elbo, fit, predict_proba, sample_network, sweep
assert not {"scipy.stats", "scipy.integrate", "scipy.spatial", "scipy.optimize"} & set(sys.modules)     # slow to import
X = np.random.default_rng(0).normal(size=(40, 2))
theta, sample = sample_network(X, 2, 1, 2, np.random.default_rng(1))
found = fit(X, sample.y, 2, n_classes=2, max_sweeps=5)
state = found.state(X, sample.y)
assert elbo(sweep(state, X, sample.y, Priors()), X, sample.y, Priors()) >= elbo(state, X, sample.y, Priors())
assert np.allclose(predict_proba(found.parameters, X).sum(1), 1)
try:
    from cmn_literate import CMNClassifier
except ImportError as error:
    print(error)
"""
    done = alone(code)
    assert done.stdout == "CMNClassifier needs scikit-learn, the extra 'fit': pip install 'cmn_literate[fit]'\n", done.stderr


def test_special_functions_are_differentiated():
    a, x = np.array([0.3, 1.0, 40.0]), np.array([[0.1, -700.0, 3.0], [800.0, 799.0, -np.inf]])
    assert np.array_equal(special.gammaln(a), scipy.special.gammaln(a)) and np.array_equal(special.digamma(a), scipy.special.digamma(a))
    np.testing.assert_allclose(elementwise_grad(special.gammaln)(a), [float(mp.digamma(t)) for t in a], rtol=1e-13)
    np.testing.assert_allclose(elementwise_grad(special.digamma)(a), [float(mp.psi(1, t)) for t in a], rtol=1e-13)
    np.testing.assert_allclose(grad(lambda x: special.logsumexp(x, axis=1).sum())(x), scipy.special.softmax(x, axis=1), atol=1e-15)
