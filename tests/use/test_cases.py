"""Inputs that failed once, each of its kind, with the right value."""

import os
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from cmn_literate import CMNClassifier, Priors
from cmn_literate.inputs import CONSTRAINTS, as_generator, check_classes, check_options, default_latent_dim, plain_labels
from cmn_literate.engineering.sources import column_scale

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
rng = np.random.default_rng(0)
X = rng.normal(size=(60, 2))
Y = (X[:, 0] > 0).astype(int)


def make(**options):
    return CMNClassifier.paper(**{"n_experts": 2, "max_sweeps": 5, "random_state": 0, **options})


# ---- columns

def test_a_column_on_top_of_a_large_number_is_not_constant():
    """Seconds of a clock: 1.7e9 + .001 s, 399 of 400 values distinct."""
    draw = np.random.default_rng(3)
    s = draw.normal(size=400)
    x, y = (1.7e9 + 0.001 * s)[:, None], (s + 0.5 * draw.normal(size=400) > 0).astype(int)
    assert len(np.unique(x)) > 390
    model = make(max_sweeps=100).fit(x[:300], y[:300])
    line = make_pipeline(StandardScaler(), LogisticRegression()).fit(s[:300, None], y[:300])
    p, q = model.predict_proba(x[300:]), line.predict_proba(s[300:, None])
    assert accuracy_score(y[300:], p.argmax(1)) >= accuracy_score(y[300:], q.argmax(1)) - 0.03
    assert log_loss(y[300:], p) < log_loss(y[300:], q) + 0.03


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e-150, 1e-100, 1.0, 1e100, 1e150])
def test_units_do_not_matter_down_to_the_smallest(scale):
    m, s = column_scale(X * scale)
    assert_allclose(s, X.std(0) * scale, rtol=1e-9)
    assert_allclose((X * scale - m) / s, (X - X.mean(0)) / X.std(0), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("value", [0.0, 0.1, -1e9, 1e-200, 1e200, 1 / 3])
@pytest.mark.parametrize("n", [2, 57, 40_000])
def test_a_constant_is_constant(value, n):
    column = np.full((n, 1), value)
    assert column_scale(column)[1].tolist() == [1.0]
    wobble = column.copy()
    wobble[::2] = np.nextafter(value, np.inf) if value else 0.0
    assert column_scale(wobble)[1].tolist() == [1.0]


# ---- labels

@pytest.mark.parametrize("labels, kind", [(pd.Series(Y == 1).astype("boolean"), "b"), (pd.Series(Y).astype("Int64"), "i"), (pd.Series(Y).astype("UInt8"), "u"),
                                          (pd.Series(np.where(Y, "a", "b")).convert_dtypes(), "OU")], ids=lambda v: str(getattr(v, "dtype", "")))
def test_nullable_targets_keep_their_kind(labels, kind):
    model = make().fit(X, labels)
    assert model.classes_.dtype.kind in kind
    plain = make().fit(X, labels.to_numpy(dtype=object).astype(str) if "O" in kind else labels.to_numpy(dtype=labels.dtype.numpy_dtype))
    assert_array_equal(model.predict_proba(X), plain.predict_proba(X))
    assert set(model.predict(X)) <= set(labels.tolist())


MISSING = {"boolean": pd.Series([True, None, False] * 20, dtype="boolean"), "Int64": pd.Series([1, None, 2] * 20, dtype="Int64"),
           "string": pd.Series(["a", None, "b"] * 20, dtype="string"), "Float64": pd.Series([1.0, None, 2.0] * 20, dtype="Float64"),
           "category": pd.Series(["a", None, "b"] * 20, dtype="category"), "object": pd.Series(["a", None, "b"] * 20, dtype=object),
           "float": pd.Series([1.0, np.nan, 2.0] * 20), "NaN among words": np.array(["a", np.nan, "b"] * 20, dtype=object),
           "None": np.array(["a", None, "b"] * 20, dtype=object), "dates": np.array(["2020-01-01", "NaT", "2021-01-01"] * 20, dtype="datetime64[D]"),
           "dates of pandas": pd.Series(pd.to_datetime(["2020-01-01", None, "2021-01-01"] * 20)), "masked": np.ma.array(Y, mask=Y == 1)}


@pytest.mark.parametrize("labels", MISSING.values(), ids=MISSING)
def test_a_missing_label_of_any_kind_names_y(labels):
    with pytest.raises(ValueError, match=r"\by\b"):
        make().fit(X, labels)
    whole = [0, 1] * 3
    assert plain_labels(whole) is whole


def test_measurements_are_no_classes():
    draw = np.random.default_rng(1)
    price = draw.integers(10_000, size=1000)
    with pytest.raises(ValueError, match=f"y: {len(set(price.tolist()))} different values in 1000 rows look like measurements, not classes"):
        make().fit(draw.normal(size=(1000, 2)), price)
    check_classes(50, 50), check_classes(51, 102)                         # few rows, honest classes
    for n_classes, n_rows in [(51, 101), (51, 51), (939, 1000)]:
        with pytest.raises(ValueError, match="measurements"):
            check_classes(n_classes, n_rows)
    named = make(classes=np.arange(60), max_sweeps=1).fit(X, np.arange(60))
    assert len(named.classes_) == 60


def test_the_latent_dimension_does_not_explode():
    assert [default_latent_dim(L) for L in (2, 3, 21, 22, 100)] == [1, 2, 20, 20, 20]
    y = np.arange(200) % 25
    model = make(max_sweeps=1).fit(np.random.default_rng(1).normal(size=(200, 2)) + y[:, None], y)
    assert model.fits_[0].parameters.M.shape[1] == 20 and model.latent_dim is None
    assert make(max_sweeps=1, latent_dim=19).fit(X, np.arange(60) % 20).fits_[0].parameters.M.shape[1] == 19


# ---- starts and seeds

def test_the_saddle_is_not_converged():
    model = make(init="prior", max_sweeps=100)
    with pytest.warns(ConvergenceWarning, match='init="prior" is a saddle, start at "class-code"'):
        model.fit(X, Y)
    assert not model.converged_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert make(max_sweeps=500, tol=1e-2).fit(X, Y).converged_


def test_numpys_seed_governs_no_seed():
    fits = []
    for seed in (3, 3, 4):
        np.random.seed(seed)
        fits.append(make(random_state=None, init="random").fit(X, Y).predict_proba(X))
    assert_array_equal(fits[0], fits[1])
    assert np.abs(fits[0] - fits[2]).max() > 1e-9
    np.random.seed(3)
    assert as_generator(None).random() == as_generator(np.random.RandomState(3)).random()


# ---- options

def test_nested_parameters():
    model = make(priors=Priors(v0=3.0))
    assert model.get_params()["priors__sigma0"] == 5.0 and "priors__sigma0" not in model.get_params(deep=False)
    assert model.set_params(priors__sigma0=2.0, n_experts=3) is model
    assert (model.priors, model.n_experts) == (Priors(v0=3.0, sigma0=2.0), 3)
    assert model.set_params(priors=Priors(), priors__a0=1.5).priors == Priors(a0=1.5)
    with pytest.raises(ValueError, match="priors: expected v0, a0, b0, sigma0, sigma1, got sigma2"):
        model.set_params(priors__sigma2=1.0)
    with pytest.raises(ValueError, match="sigma0: expected a positive finite number"):
        model.set_params(priors__sigma0=-1.0)
    with pytest.raises(ValueError, match="Invalid parameter"):
        model.set_params(sigma0=1.0)
    search = GridSearchCV(make(), {"priors__sigma0": [1, 5]}, cv=2).fit(X, Y)
    assert search.best_params_["priors__sigma0"] in (1, 5) and len(search.cv_results_["params"]) == 2
    assert clone(model).priors == model.priors


def test_the_table_of_options_is_that_of_the_estimator():
    options = make().get_params(deep=False)
    assert set(CONSTRAINTS) <= set(options)
    check_options(options)
    assert set(options) - set(CONSTRAINTS) == {"priors", "random_state", "verbose", "classes", "class_weight", "method_options"}
    for rule, meaning in CONSTRAINTS.values():
        assert str(rule) and meaning
    for rule, text, value in [(CONSTRAINTS["n_experts"][0], "3", 3), (CONSTRAINTS["tol"][0], "1e-3", 1e-3), (CONSTRAINTS["init"][0], "random", "random")]:
        assert rule.parse(text) == value
        with pytest.raises(ValueError, match="expected"):
            rule.parse("x")


# ---- size

@pytest.mark.skipif(not hasattr(os, "sysconf"), reason="asks the system for its memory")
def test_a_fit_that_cannot_be_held_is_refused_before_anything_is_allocated():
    wide = np.lib.stride_tricks.as_strided(np.zeros(1), shape=(600, 60_000), strides=(0, 0))
    from cmn_literate.inputs import check_memory
    with pytest.raises(ValueError, match=r"X: 60000 columns and 10 experts need about \d+ GiB, this machine has \d+: fewer columns"):
        check_memory(*wide.shape, 10, 1, 2)
    check_memory(600, 60, 20, 1, 2)


def test_six_hundred_rows_of_many_columns():
    """The start holds as many rows of features as its budget allows, and no more: 512 of them would be 185 MB."""
    X = np.random.default_rng(0).normal(size=(600, 300))
    y = (X[:, 0] > 0).astype(int)
    tracemalloc.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = CMNClassifier.paper(n_experts=2, max_sweeps=1, random_state=0).fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 60e6 and model.score(X, y) > 0.8