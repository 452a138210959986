"""What can be imported from the package itself, and what a bare machine is told."""

import subprocess
import sys

import pytest

import cmn_literate

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
