"""What the classifier does when nobody asks for anything: which method the default comes to, that it is that method to the bit, and that whatever
can be asked of a fitted model can be asked of it."""
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from cmn_literate import CMNClassifier, inputs
from cmn_literate.beyond.several import SeveralFit
from cmn_literate.engineering.out_of_core import row_bytes
from cmn_literate.inputs import USUAL
from cmn_literate.learners import LEARNERS, choose_method, members_of
from cmn_literate.row_sources import ArraySource
from cmn_literate.use.datasets import make_pinwheels

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
X, CODES = make_pinwheels(120, np.random.default_rng(3))
Y = np.array(list("vwxyz"))[CODES]
LITTLE = dict(n_experts=3, max_sweeps=6, random_state=0)


def usual(**options):
    return CMNClassifier(**{**LITTLE, **options})


@pytest.fixture(scope="module")
def fitted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return usual().fit(X, Y)


def assert_same(one, other):
    assert one.method_ == other.method_
    assert_array_equal(one.trace_, other.trace_)
    assert_array_equal(one.predict_proba(X), other.predict_proba(X))


def as_file(folder):
    path = folder / "rows.csv"
    pd.DataFrame(X, columns=["u", "v"]).assign(y=Y).to_csv(path, index=False)
    return str(path)


# ---- what it comes to

def test_the_default_is_the_one_of_the_study(fitted):
    assert USUAL == {"method": "auto", "init": "hyperplanes", "n_init": 1, "max_sweeps": 1000, "tol": 3e-5}
    assert fitted.method_ == "several" and fitted.method == "auto" == clone(fitted).method
    (several,) = fitted.fits_
    assert isinstance(several, SeveralFit) and [type(one).__name__ for one in several.members] == ["Fit", "Fit", "HigherFit", "HigherFit"]
    assert_same(fitted, usual(method="several").fit(X, Y))
    assert fitted.elbo_ == fitted.objective_ == pytest.approx(np.mean([one.elbo[-1] for one in several.members]))


def test_another_method_is_what_it_says_with_the_usual_options():
    one = usual(method="cavi").fit(X, Y)
    assert one.method_ == "cavi" and members_of(one.fits_) == one.fits_
    assert_same(one, CMNClassifier.paper(**LITTLE, init="hyperplanes", tol=3e-5).fit(X, Y))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ended = CMNClassifier(n_experts=3, method="cavi", random_state=0).fit(X, Y)
    gains = np.diff(ended.trace_) / len(X)
    assert ended.converged_ and gains[-1] < 3e-5 <= gains[:-1].min()
    for method in set(LEARNERS) - {"auto"}:
        assert choose_method(CMNClassifier(method=method), True) == choose_method(CMNClassifier(method=method), False) == method


def test_the_default_ends_by_itself():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = CMNClassifier(n_experts=3, random_state=0).fit(X, Y)
    assert model.converged_ and all(one.converged for one in model.fits_[0].members)


def test_rows_that_fit_into_memory_are_loaded_for_several(tmp_path, fitted):
    from_file = usual().fit(as_file(tmp_path), "y")
    assert_same(from_file, fitted)
    assert from_file.method == "auto" and from_file.feature_names_in_.tolist() == ["u", "v"]


def test_rows_that_pass_by_are_one_ascent(tmp_path, fitted):
    path = as_file(tmp_path)
    small = usual(memory=1000).fit(path, "y")
    assert small.method_ == "cavi" and small.method == "auto"
    assert_same(small, usual(memory=1000, method="cavi").fit(path, "y"))
    weighed = usual(memory=1000, class_weight={"v": 2.0}).fit(path, "y")
    assert weighed.method_ == "cavi" and weighed.moments_.n == len(X) + (Y == "v").sum()


def test_four_ascents_need_four_times_the_room():
    each = sum(row_bytes(2, 3, 5))
    for room, method in [(8 * 2 + 4 * each, "several"), (8 * 2 + 4 * each - 1, "cavi"), (8 * 2 + each, "cavi")]:
        assert usual(memory=room * len(X)).fit(ArraySource(X, CODES)).method_ == method
    two = usual(memory=(8 * 2 + 2 * each) * len(X), method_options={"plain": 2, "shared": 0}).fit(ArraySource(X, CODES))
    assert two.method_ == "several" and len(two.fits_[0].members) == 2
    with pytest.raises(ValueError, match=r"in 4 ascents need .* or a single ascent \(method='cavi'\)"):
        usual(n_experts=10**9).fit(X, Y)
    with pytest.raises(ValueError, match="experts need") as told:
        usual(n_experts=10**9, method="cavi").fit(X, Y)
    assert "ascent" not in str(told.value)


def test_a_machine_with_room_for_one_says_so(monkeypatch):
    monkeypatch.setattr(inputs, "machine_memory", lambda: 10**6)          # an ascent of 120 rows, 2 columns, 30 experts needs 0.3 MB
    inputs.check_memory(120, 2, 30, None, 5)
    with pytest.raises(ValueError, match="30 experts in 4 ascents need"):
        usual(n_experts=30).fit(X, Y)
    assert usual(n_experts=30, method="cavi", max_sweeps=1).fit(X, Y).method_ == "cavi"


def test_chunks_are_one_ascent(fitted):
    model = usual().partial_fit(X[:60], Y[:60], classes=list("vwxyz"))
    assert model.method_ == "cavi" and model.method == "auto"
    other = usual(method="cavi").partial_fit(X[:60], Y[:60], classes=list("vwxyz"))
    for one in (model, other):
        one.partial_fit(X[60:], Y[60:])
    assert_same(model, other)
    assert not hasattr(fitted, "partial_fit") and hasattr(usual(), "partial_fit") and hasattr(model, "partial_fit")
    with pytest.raises(AttributeError) as told:
        fitted.partial_fit(X, Y)
    assert str(told.value.__cause__) == "method: expected \"cavi\" for partial_fit, got 'several'"
    usual(method="cavi").fit(X, Y).partial_fit(X, Y)                            # as the docstring says


@pytest.mark.parametrize("accelerate", [True, "relaxed"])
def test_accelerated_sweeps_are_one_ascent(accelerate):
    assert_same(usual(accelerate=accelerate).fit(X, Y), usual(accelerate=accelerate, method="cavi").fit(X, Y))


def test_options_of_several_are_not_passed_over(tmp_path):
    model = usual(method_options={"plain": 1, "shared": 0}).fit(X, Y)
    assert len(model.fits_[0].members) == 1
    path = as_file(tmp_path)
    for call in (lambda: usual(method_options={"plain": 1}, memory=1000).fit(path, "y"),
                 lambda: usual(method_options={"plain": 1}, accelerate=True).fit(X, Y),
                 lambda: usual(method_options={"plain": 1}).partial_fit(X, Y, classes=list("vwxyz"))):
        with pytest.raises(ValueError, match="^method_options: expected a dict of options of 'cavi'"):
            call()
    with pytest.raises(ValueError, match="^method: expected cavi .* got 'several'"):
        usual(method="several", memory=1000).fit(path, "y")
    with pytest.raises(ValueError, match="^method_options: .* 'auto'"):
        usual(method_options={"steps": 1}).fit(X, Y)


def test_a_run_of_the_default_goes_on(tmp_path, fitted):
    usual(max_sweeps=3, method_options={"checkpoint": tmp_path / "run.npz"}).fit(X, Y)
    on = usual(method_options={"checkpoint": tmp_path / "run.npz"}).fit(X, Y)
    assert_array_equal(on.trace_, fitted.trace_)
    path = as_file(tmp_path)
    passing = dict(memory=1000, method_options={"checkpoint": tmp_path / "passing.npz"})
    usual(max_sweeps=3, **passing).fit(path, "y")
    assert_array_equal(usual(**passing).fit(path, "y").trace_, usual(memory=1000).fit(path, "y").trace_)


def test_a_saddle_is_named():
    for method in ("auto", "cavi"):
        with pytest.warns(ConvergenceWarning, match='init="prior" is a saddle'):
            usual(init="prior", method=method).fit(X, Y)


# ---- what can be asked of it

def test_it_is_kept_in_files(tmp_path, fitted):
    fitted.save(tmp_path / "model.npz")
    for again in (CMNClassifier.load(tmp_path / "model.npz"), pickle.loads(pickle.dumps(fitted))):
        assert_same(again, fitted)
        assert again.method == "auto" and again.get_params() == fitted.get_params()
    chunks = usual().partial_fit(X, Y, classes=list("vwxyz"))
    chunks.save(tmp_path / "chunks.npz")
    loaded = CMNClassifier.load(tmp_path / "chunks.npz")
    assert_same(loaded, chunks)
    assert_same(loaded.partial_fit(X, Y), chunks.partial_fit(X, Y))


def test_it_answers_all_questions(fitted):
    assert fitted.score(X, Y) == (fitted.predict(X) == Y).mean() > 0.5
    gate = fitted.gate(X[:5], start=3)
    assert gate.shape == (5, 3) and not np.allclose(gate, fitted.gate(X[:5]))
    assert fitted.experts_.weight.shape == (3,)
    doubt = fitted.uncertainty(X[:5], n_draws=4)
    assert np.isfinite(doubt.total).all() and (doubt.total >= doubt.aleatoric - 1e-9).all()
    frame = pd.DataFrame(X, columns=["u", "v"])
    named = usual().fit(frame, pd.Series(Y))
    assert named.feature_names_in_.tolist() == ["u", "v"]
    assert_array_equal(named.predict_proba(frame), fitted.predict_proba(X))
    small = X.astype(np.float32)
    assert_same(usual().fit(small, Y), usual().fit(small.astype(float), Y))


@pytest.mark.parametrize("select", ["average", "elbo", "holdout"])
def test_several_starts_of_several(select):
    model = usual(n_init=2, select=select, max_sweeps=3).fit(X, Y)
    assert len(model.fits_) == (2 if select == "average" else 1) and len(members_of(model.fits_)) == 4 * len(model.fits_)


def test_settings_are_options(fitted):
    model = clone(fitted).set_params(method="cavi", priors__sigma0=2.0)
    assert model.method == "cavi" and model.priors.sigma0 == 2.0 and fitted.priors.sigma0 != 2.0
    refit = pickle.loads(pickle.dumps(fitted)).set_params(method="cavi").fit(X, Y)
    assert refit.method_ == "cavi" and refit.method == "cavi"
