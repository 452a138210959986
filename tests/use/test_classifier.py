"""The estimator: scikit-learn's own checks, every kind of bad input, starts and seeds, files that survive, Ctrl-C, the registry."""

import contextlib
import json
import pickle
import warnings
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from cmn_literate import CMNClassifier
from cmn_literate.engineering import fit as steps
from cmn_literate.engineering.runs import CAVI, Work
from cmn_literate.learners import LEARNERS, Learner
from cmn_literate.engineering import fit as cavi
from cmn_literate.engineering.sources import column_scale
from cmn_literate.use.uncertainty import average_log_proba, entropy
from cmn_literate.inputs import encode_labels
from cmn_literate.use.datasets import holdout_rows
from cmn_literate.use.metrics import log_predictive_density
from cmn_literate.engineering.quadrature import class_log_probs_by_expert
from cmn_literate.network.predict import gate_probs
from cmn_literate.engineering.quadrature import predict_proba
from cmn_literate.network.simulate import Priors

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3)) * [1.0, 10.0, 0.1] + [0.0, 5.0, 100.0]
Y = np.array(["ash", "birch", "cedar"])[(X[:, 0] > 0).astype(int) + (X[:, 1] > 8)]


def make(**options):
    return CMNClassifier.paper(**{"n_experts": 3, "max_sweeps": 8, "random_state": 0, **options})


with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)
    FITTED = make().fit(X, Y)


# ---- the protocol

# these shuffle the copied rows; the class-code start draws numbers row by row, so rows in another order are another start (test_weighted.py
# has the same check with a start that does not look at the rows)
ANOTHER_START = {"check_sample_weight_equivalence_on_dense_data": "rows in another order are another start"}


@parametrize_with_checks([CMNClassifier(n_experts=3, max_sweeps=12), CMNClassifier.paper(n_experts=2, n_init=2, max_sweeps=20, select="holdout")],
                         expected_failed_checks=lambda estimator: ANOTHER_START)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_equal_to_the_pure_functions():
    m, s = X.mean(0), X.std(0)
    result = cavi.fit((X - m) / s, np.unique(Y, return_inverse=True)[1], n_experts=3, max_sweeps=8, rng=np.random.default_rng(0).spawn(1)[0])
    assert_allclose(FITTED.predict_proba(X), predict_proba(result.parameters, (X - m) / s), rtol=1e-10)
    assert FITTED.elbo_ == pytest.approx(result.elbo[-1], rel=1e-12) and FITTED.n_sweeps_ == result.n_sweeps
    assert FITTED.score(X, Y) == (FITTED.predict(X) == Y).mean() > 0.7


def test_convergence_is_reported():
    with pytest.warns(ConvergenceWarning, match="raise max_sweeps"):
        assert not make().fit(X, Y).converged_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert make(tol=10.0).fit(X, Y).converged_


def test_clone_get_params_and_cross_validation():
    model = make(priors=Priors(sigma0=2.0), classes=["ash", "birch", "cedar"])
    assert clone(model).get_params()["priors"] == model.priors
    assert cross_val_score(model, X, Y, cv=3).shape == (3,)


@pytest.mark.parametrize("labels", [[3, 1, 2], [-1.5, 0.0, 7.0], ["x", "y", "zz"]])
def test_any_sortable_labels_give_the_same_fit(labels):
    mapped = np.array(sorted(labels))[np.unique(Y, return_inverse=True)[1]]
    if mapped.dtype.kind == "f":
        with pytest.raises(ValueError, match="continuous"):                 # scikit-learn's word for labels that are not whole
            make().fit(X, mapped)
        return
    model = make().fit(X, mapped)
    assert model.classes_.tolist() == sorted(labels)
    assert_array_equal(model.predict_proba(X), FITTED.predict_proba(X))


def test_booleans_and_categories_are_labels():
    assert make().fit(X, X[:, 0] > 0).classes_.tolist() == [False, True]
    assert make().fit(X, pd.Series(pd.Categorical(Y))).classes_.tolist() == ["ash", "birch", "cedar"]


def test_fixed_label_set():
    two = Y != "birch"
    model = make(classes=["cedar", "dogwood", "birch", "ash"]).fit(X[two], Y[two])
    assert model.classes_.tolist() == ["ash", "birch", "cedar", "dogwood"]
    p = model.predict_proba(X)
    assert p.shape == (60, 4) and (p > 0).all() and set(model.predict(X[two])) <= {"ash", "cedar"}
    classes, codes = encode_labels(Y[two], model.classes)
    assert classes[codes].tolist() == Y[two].tolist()


def test_one_class_with_a_label_set():
    assert make(classes=[0, 1]).fit(X, np.zeros(60, int)).predict_proba(X)[:, 0].min() > 0.5


def test_data_frames_keep_their_names():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = make().fit(frame, Y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"] and model.n_features_in_ == 3
    assert_array_equal(model.predict_proba(frame), FITTED.predict_proba(X))
    assert not hasattr(FITTED, "feature_names_in_")
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["b", "a", "c"]])
    assert make().fit(frame.convert_dtypes(), Y).n_features_in_ == 3


def test_float32_and_lists():
    small = X.astype(np.float32)
    assert_array_equal(make().fit(small, Y).predict_proba(small), make().fit(small.astype(float), Y).predict_proba(small))
    assert_array_equal(make().fit(X.tolist(), Y.tolist()).predict_proba(X), FITTED.predict_proba(X))


def test_numbers_in_object_containers_are_numbers():
    for inputs in (X.astype(object), X.astype(object).tolist(), pd.DataFrame(X.astype(object)), pd.DataFrame(X).astype({0: "category"})):
        assert_array_equal(make().fit(inputs, Y).predict_proba(inputs), FITTED.predict_proba(X))


def test_units_do_not_matter_and_constant_columns_survive():
    other = X * [1e3, 1e-4, 7.0] + [5.0, 1.0, -700.0]
    assert_allclose(make().fit(other, Y).predict_proba(other), FITTED.predict_proba(X), rtol=1e-6)
    wide = np.c_[X, np.full(60, 0.1), np.zeros(60), np.full(60, 1e9)]
    model = make().fit(wide, Y)
    assert model.scale_[3:].tolist() == [1.0] * 3 and np.isfinite(model.predict_log_proba(wide)).all()
    moved = wide + [0, 0, 0, 2.0, 0, 0]
    assert np.isfinite(model.predict_log_proba(moved)).all()
    raw = make(standardize=False).fit(X, Y)
    assert raw.mean_.tolist() == [0.0] * 3 and raw.scale_.tolist() == [1.0] * 3
    assert_allclose(column_scale(X)[1], X.std(axis=0), rtol=1e-13)


def test_rows_are_predicted_one_by_one_as_together():
    together = FITTED.predict_log_proba(X[:7])
    assert_allclose(np.concatenate([FITTED.predict_log_proba(x[None]) for x in X[:7]]), together, rtol=1e-9, atol=1e-9)
    far = FITTED.predict_log_proba(X[:2] * 1e6)
    assert np.isfinite(far).all() and rows_sum(far)


def rows_sum(log_p):
    return bool(np.allclose(np.exp(log_p).sum(1), 1, rtol=1e-9))


# ---- seeds and starts

@pytest.mark.parametrize("state", [0, np.int64(3), np.random.RandomState(1), np.random.default_rng(2)], ids=["int", "int64", "RandomState", "Generator"])
def test_seeds_reproduce(state):
    copy = lambda: pickle.loads(pickle.dumps(state))
    one, two = (make(random_state=copy(), init="random").fit(X, Y) for _ in range(2))
    assert_array_equal(one.predict_log_proba(X), two.predict_log_proba(X))
    other = make(random_state=99, init="random").fit(X, Y)
    assert np.abs(other.predict_proba(X) - one.predict_proba(X)).max() > 1e-6


def test_no_seed_differs():
    one, two = (make(random_state=None, init="random").fit(X, Y) for _ in range(2))
    assert np.abs(one.predict_proba(X) - two.predict_proba(X)).max() > 1e-9


def test_average_of_starts():
    model = make(n_init=3, init="random").fit(X, Y)
    Z = (X - model.mean_) / model.scale_
    each = [predict_proba(result.parameters, Z) for result in model.fits_]
    assert len(each) == 3 and np.abs(each[0] - each[1]).max() > 1e-3
    assert_allclose(model.predict_proba(X), (each[0] + each[1] + each[2]) / 3, rtol=1e-9)
    assert_allclose(make(init="random").fit(X, Y).predict_proba(X), each[0], rtol=1e-12)      # start 0 is always the same
    assert model.elbo_ == max(r.elbo[-1] for r in model.fits_)
    assert_allclose(average_log_proba(np.log(each)), np.log(model.predict_proba(X)), rtol=1e-9)


def test_select_elbo_keeps_the_largest():
    every = make(n_init=4, init="random").fit(X, Y)
    best = make(n_init=4, init="random", select="elbo").fit(X, Y)
    assert len(best.fits_) == 1 and best.elbo_ == max(r.elbo[-1] for r in every.fits_)


def test_select_holdout_scores_rows_that_the_starts_did_not_see(monkeypatch):
    seen, scored = [], []
    begin = lambda Z, *rest: (seen.append(Z), CAVI.begin(Z, *rest))[1]
    predict = lambda result, Z: (scored.append(Z), CAVI.predict_log_proba(result, Z))[1]
    monkeypatch.setitem(LEARNERS, "spy", CAVI._replace(begin=begin, predict_log_proba=predict))
    model = make(n_init=3, select="holdout", holdout=0.25, method="spy", init="random").fit(X, Y)
    assert [len(Z) for Z in seen] == [45, 45, 45, 60] and [len(Z) for Z in scored] == [15] * 3
    for part in seen[:3]:
        assert not {tuple(z) for z in part} & {tuple(z) for z in scored[0]}
    assert len(model.fits_) == 1


def test_select_holdout_takes_the_best_log_score():
    """The winner's seed, fitted again on all rows."""
    model = make(n_init=3, select="holdout", init="random").fit(X, Y)
    Z, codes = (X - model.mean_) / model.scale_, encode_labels(Y)[1]
    seeds = [int(g.integers(2**63)) for g in np.random.default_rng(0).spawn(3)]
    rows, test = holdout_rows(codes, 12, np.random.default_rng(seeds[0]))
    run = lambda some, seed: cavi.fit(Z[some], codes[some], n_experts=3, n_classes=3, init="random", max_sweeps=8, rng=seed).parameters
    scores = [log_predictive_density(codes[test], predict_proba(run(rows, seed), Z[test])) for seed in seeds]
    assert len(set(np.round(scores, 6))) == 3
    assert_allclose(model.predict_proba(X), predict_proba(run(np.arange(60), seeds[int(np.argmax(scores))]), Z), rtol=1e-9)


@pytest.mark.parametrize("options", [dict(latent_dim=1), dict(latent_dim=4), dict(omega1="shared"), dict(accelerate=True), dict(inner=2),
                                     dict(n_experts=1), dict(init="prior"), dict(n_experts=70), dict(priors=Priors(a0=0.5))], ids=str)
def test_options_reach_the_fit(options):
    model = make(**options).fit(X, Y)
    p = model.predict_proba(X)
    assert np.isfinite(p).all() and rows_sum(np.log(p))
    assert model.fits_[0].parameters.M.shape[:2] == (options.get("n_experts", 3), options.get("latent_dim", 2))
    if set(options) - {"n_experts", "latent_dim"}:
        assert np.abs(p - FITTED.predict_proba(X)).max() > 1e-9


# ---- doubt, gate, experts

def test_splits_of_the_doubt():
    model = make(n_init=2, init="random").fit(X, Y)
    u = model.uncertainty(X, n_draws=6)
    p = model.predict_proba(X)
    assert_allclose(u.total, -(p * np.log(p)).sum(1), rtol=1e-7)
    assert_allclose(u.within + u.between, u.total, rtol=1e-12)
    assert_allclose(u.aleatoric + u.epistemic, u.total, rtol=1e-12)
    assert min(v.min() for v in u) > -1e-6
    Z, within = (X - model.mean_) / model.scale_, 0.0
    for result in model.fits_:
        w, P = gate_probs(result.parameters, Z), np.exp(class_log_probs_by_expert(result.parameters, Z, weight=1.0))
        within = within - (w[:, :, None] * P * np.log(P)).sum((1, 2)) / 2
    assert_allclose(u.within, within, atol=1e-5)
    assert_array_equal(model.uncertainty(X, n_draws=6).epistemic, u.epistemic)            # the default seed is fixed
    assert np.abs(model.uncertainty(X, n_draws=6, random_state=1).epistemic - u.epistemic).max() > 0
    assert np.isnan(model.uncertainty(X, n_draws=0).aleatoric).all()


def test_epistemic_doubt_agrees_between_routes():
    """Mean divergence from the forecast against the drop of entropy, by many draws of a small fit."""
    model = make(n_experts=2, n_init=2).fit(X, (X[:, 0] > 0).astype(int))
    from cmn_literate.network.predict import point_posterior, sample_parameters
    from cmn_literate.engineering.quadrature import predict_log_proba
    Z, doubts = (X[:5] - model.mean_) / model.scale_, []
    for i, result in enumerate(model.fits_):
        for theta in zip(*sample_parameters(result.parameters, np.random.default_rng(i), 300)):
            doubts.append(entropy(predict_log_proba(point_posterior(theta), Z)))
    u = model.uncertainty(X[:5], n_draws=600, random_state=5)
    assert (np.abs(np.mean(doubts, 0) - u.aleatoric) < 6 * np.std(doubts, 0) / 600**0.5 + 1e-4).all()


def test_gate():
    g = FITTED.gate(X)
    assert g.shape == (60, 3) and rows_sum(np.log(g))
    assert_array_equal(g, gate_probs(FITTED.fits_[0].parameters, (X - FITTED.mean_) / FITTED.scale_))


def test_experts_in_the_units_of_the_inputs():
    e, p = FITTED.experts_, FITTED.fits_[0].parameters
    Z = np.c_[(X - FITTED.mean_) / FITTED.scale_, np.ones(60)]
    latent = np.einsum("kid,nd->nki", p.M, Z)
    assert_allclose(np.einsum("kid,nd->nki", e.slope, X) + e.offset, latent, rtol=1e-8, atol=1e-9)
    logit = np.einsum("li,nki->nkl", p.beta1_mu[:, :-1], latent) + p.beta1_mu[:, -1]
    assert_allclose(np.einsum("kld,nd->nkl", e.logit_slope, X) + e.logit_offset, logit, rtol=1e-8, atol=1e-8)
    assert_allclose(e.noise**2, p.b / (p.a[:, None] - 1), rtol=1e-12)
    assert_allclose(e.weight, 2 * (p.a - 2.0) / 60, rtol=1e-9)
    assert np.isnan(make(n_experts=70, priors=Priors(a0=0.5)).fit(X, Y).experts_.noise).any()


# ---- files

def test_saved_model_predicts_the_same_bits(tmp_path):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    labels = pd.Series(Y).astype(object).to_numpy()
    for i, (model, data, y) in enumerate([(make(), X, Y), (make(n_init=2, init="random"), frame, labels), (make(classes=[0, 1, 5]), X, (X[:, 0] > 0) * 5),
                                          (make(random_state=np.int64(4), n_experts=np.int64(2)), X, X[:, 0] > 0),
                                          (make(random_state=np.random.default_rng(0), omega1="shared"), X, Y)]):
        model.fit(data, y).save(tmp_path / f"{i}")
        again = CMNClassifier.load(tmp_path / f"{i}")
        assert_array_equal(again.predict_log_proba(data), model.predict_log_proba(data))
        assert_array_equal(again.classes_, model.classes_)
        assert again.classes_.dtype == model.classes_.dtype
        assert (again.elbo_, again.n_sweeps_, again.converged_) == (model.elbo_, model.n_sweeps_, model.converged_)
        assert getattr(again, "feature_names_in_", np.array([])).tolist() == getattr(model, "feature_names_in_", np.array([])).tolist()
        assert_array_equal(again.uncertainty(data[:5], 4).epistemic, model.uncertainty(data[:5], 4).epistemic)
        assert again.get_params()["priors"] == model.priors
        if isinstance(model.random_state, (int, np.integer)):
            assert_array_equal(again.fit(data, y).predict_log_proba(data), model.predict_log_proba(data))     # and learns the same again
    assert sorted(p.name for p in tmp_path.iterdir()) == ["0", "1", "2", "3", "4"]


def test_every_cut_and_every_planted_error_is_noticed(tmp_path):
    FITTED.save(tmp_path / "good.npz")
    good, right = (tmp_path / "good.npz").read_bytes(), FITTED.predict_log_proba(X)
    bad = tmp_path / "bad.npz"
    draw = np.random.default_rng(1)
    damaged = [good[:cut] for cut in draw.integers(len(good), size=60)] + [b"", good[:-1]]
    for place in draw.integers(len(good), size=300):
        copy = bytearray(good)
        copy[place] ^= 1 << int(draw.integers(8))
        damaged.append(bytes(copy))
    noticed = 0
    for content in damaged:
        bad.write_bytes(content)
        try:
            model = CMNClassifier.load(bad)
        except ValueError as error:
            assert str(bad) in str(error)
            noticed += 1
        else:                                                       # a byte that nobody reads, such as a time of day
            assert_array_equal(model.predict_log_proba(X), right)
    assert noticed > 0.75 * len(damaged)


def repack(path, **changes):
    with np.load(path) as stored:
        arrays = {**stored, **changes}
    np.savez(path, **{name: value for name, value in arrays.items() if value is not None})


def header(path, **changes):
    with np.load(path) as stored:
        content = json.loads(stored["header"].tobytes())
    return np.frombuffer(json.dumps({**content, **changes}).encode(), np.uint8)


@pytest.mark.parametrize("damage, message", [
    (lambda p: p.write_text("hello"), "expected a file written by"),
    (lambda p: p.write_bytes(pickle.dumps([1])), "expected a file written by"),
    (lambda p: np.savez(p, a=np.ones(3)), "expected a file written by"),
    (lambda p: np.savez(p, header=np.array([{"a": 1}], dtype=object)), "expected a file written by"),
    (lambda p: np.save(p.open("wb"), np.ones(3)), "expected a file written by"),
    (lambda p: zipfile.ZipFile(p, "w").writestr("a.txt", "a"), "expected a file written by"),
    (lambda p: repack(p, header=header(p, format="other")), "other"),
    (lambda p: repack(p, header=header(p, schema=99)), "schema 99 is newer"),
    (lambda p: repack(p, header=header(p, schema="x")), "expected a file written by"),
    (lambda p: repack(p, header=header(p, options={})), "missing or damaged"),
    (lambda p: repack(p, header=header(p, starts=2)), "missing or damaged"),
    (lambda p: repack(p, mean=None), "missing or damaged"),
    (lambda p: repack(p, **{"0.beta1_mu": None}), "missing or damaged")])
def test_foreign_files_are_refused(tmp_path, damage, message):
    path = tmp_path / "model.npz"
    FITTED.save(path)
    damage(path)
    with pytest.raises(ValueError, match=message):
        CMNClassifier.load(path)


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(FileNotFoundError):
        CMNClassifier.load(tmp_path / "none.npz")
    with pytest.raises(FileNotFoundError):
        FITTED.save(tmp_path / "no/folder.npz")
    with pytest.raises(ValueError, match="expected a file written by"):
        CMNClassifier.load(tmp_path)
    with pytest.raises(NotFittedError):
        make().save(tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_save_is_atomic(tmp_path, monkeypatch):
    path = tmp_path / "model.npz"
    FITTED.save(path)
    before = path.read_bytes()

    def fail(out, **arrays):
        out.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(KeyboardInterrupt):
        FITTED.save(path)
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["model.npz"]


def test_labels_that_cannot_be_stored(tmp_path):
    model = make().fit(X, Y)
    model.classes_ = np.array([(1,), "a", 2], dtype=object)
    with pytest.raises(ValueError, match="classes_: expected numbers or strings"):
        model.save(tmp_path / "x")


# ---- Ctrl-C, progress, registry

def interrupted(model, data=None):
    """The model after a fit that ended in KeyboardInterrupt."""
    with pytest.raises(KeyboardInterrupt):
        model.fit(*(data or (X, Y)))
    return model


def interrupt_after(n, monkeypatch, fits=None):
    """Ctrl-C at sweep n of start number fits, or of every start, as the callback meets it."""
    starts = []

    @contextlib.contextmanager
    def bar(verbose, total, label, learner):
        def callback(sweep, bound):
            if sweep == n and fits in (None, len(starts)):
                raise KeyboardInterrupt
        starts.append(label)
        yield callback
    monkeypatch.setattr("cmn_literate.engineering.runs.progress_bar", bar)
    return starts


@pytest.mark.filterwarnings("ignore:interrupted")
def test_ctrl_c_is_raised_again_and_the_model_keeps_what_was_reached(monkeypatch):
    interrupt_after(3, monkeypatch)
    model = interrupted(make(n_init=4))
    assert len(model.fits_) == 1 and model.n_sweeps_ == 3 and not model.converged_
    assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.filterwarnings("ignore:interrupted")
def test_ctrl_c_ends_the_loop_of_others(monkeypatch):
    """A half-learned fold is no fold: the interrupt reaches the cross-validation."""
    starts = interrupt_after(3, monkeypatch, fits=2)
    with pytest.raises(KeyboardInterrupt):
        cross_val_score(make(), X, Y, cv=4)
    assert len(starts) == 2


@pytest.mark.filterwarnings("ignore:interrupted")
def test_ctrl_c_before_the_first_sweep(monkeypatch):
    sweep, calls = steps.block_sweep, []

    def slow(*args):
        calls.append(1)
        if len(calls) in late:
            raise KeyboardInterrupt
        return sweep(*args)

    monkeypatch.setattr(steps, "block_sweep", slow)
    late = {1}
    assert not hasattr(interrupted(make()), "fits_")
    calls.clear()
    late = {9}                                                      # the first sweep of the second start
    assert len(interrupted(make(n_init=3)).fits_) == 1


def holdout_with_interrupts(monkeypatch, in_fit=None, in_score=None):
    """Three starts and a holdout; Ctrl-C in the callback of fit number in_fit, at sweep 3, or in score number in_score.   -> model, rows of each fit"""
    rows, scored = [], []

    def begin(Z, *rest):
        rows.append(len(Z))
        return CAVI.begin(Z, *rest)

    def score(result, Z):
        scored.append(len(Z))
        if len(scored) == in_score:
            raise KeyboardInterrupt
        return CAVI.predict_log_proba(result, Z)

    with monkeypatch.context() as patch:
        interrupt_after(3, patch, fits=in_fit or -1)
        patch.setitem(LEARNERS, "cavi", CAVI._replace(begin=begin, predict_log_proba=score))
        model = interrupted(make(n_init=3, select="holdout", init="random"))
    assert hasattr(model, "fits_"), "the interrupt lost what was reached"
    return model, rows


@pytest.mark.filterwarnings("ignore:interrupted")
@pytest.mark.parametrize("where, fits, sweeps", [(dict(in_fit=1), 1, 3), (dict(in_fit=2), 2, 8), (dict(in_fit=4), 4, 8),
                                                 (dict(in_score=1), 1, 8), (dict(in_score=3), 3, 8)], ids=str)
def test_ctrl_c_in_a_holdout_ends_the_fit_and_keeps_the_best_finished_start(where, fits, sweeps, monkeypatch):
    """After the interrupt no further start and no second fit: what is kept saw 48 of the 60 rows, and is a whole start unless it is the first."""
    model, rows = holdout_with_interrupts(monkeypatch, **where)
    assert rows == ([48] * 3 + [60])[:fits] and len(model.fits_) == 1
    assert model.n_sweeps_ == sweeps
    assert_allclose(2 * (model.fits_[0].parameters.a - 2.0).sum(), 48)
    assert rows_sum(model.predict_log_proba(X))


@pytest.mark.filterwarnings("ignore:interrupted")
def test_ctrl_c_in_the_second_fit_of_a_holdout_keeps_its_winner(monkeypatch):
    model, _ = holdout_with_interrupts(monkeypatch, in_fit=4)
    codes = encode_labels(Y)[1]
    seeds = [int(g.integers(2**63)) for g in np.random.default_rng(0).spawn(3)]
    part, test = holdout_rows(codes, 12, np.random.default_rng(seeds[0]))
    Z = (X - model.mean_) / model.scale_
    starts = [cavi.fit(Z[part], codes[part], n_experts=3, n_classes=3, init="random", max_sweeps=8, rng=seed).parameters for seed in seeds]
    scores = [log_predictive_density(codes[test], predict_proba(start, Z[test])) for start in starts]
    assert_allclose(model.predict_proba(X), predict_proba(starts[int(np.argmax(scores))], Z), rtol=1e-9)


def test_ctrl_c_in_a_holdout_that_reached_nothing_leaves_no_model(monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(steps, "block_sweep", interrupt)
    model = interrupted(make(n_init=3, select="holdout"))
    with pytest.raises(NotFittedError):
        model.predict(X)


# ---- a second fit

@pytest.mark.parametrize("inputs, options", [(100 + 50 * X, dict(method="mle", method_options={"n_steps": 0})), (X * 1e200, {}),
                                             (100 + 50 * X[:, :2], dict(random_state="a"))], ids=["method option", "overflow", "seed"])
def test_a_refused_refit_leaves_the_model_as_it_was(inputs, options):
    model = make().fit(pd.DataFrame(X, columns=["a", "b", "c"]), Y)
    before = dict(vars(model))
    with pytest.raises(ValueError):
        model.set_params(**options).fit(inputs, X[:, 0] > 0)
    assert vars(model) == {**before, **options}                      # the very same objects
    unfitted = make(**options)
    with pytest.raises(ValueError):
        unfitted.fit(inputs, X[:, 0] > 0)
    assert not [name for name in vars(unfitted) if name.endswith("_")]


def test_a_refit_leaves_nothing_of_the_fit_before():
    model = make().fit(pd.DataFrame(X, columns=["a", "b", "c"]), Y)
    assert np.isfinite(model.elbo_)
    model.set_params(method="mle", method_options={"n_steps": 5}).fit(X[:, :2], Y)
    assert not hasattr(model, "elbo_") and not hasattr(model, "feature_names_in_") and model.n_features_in_ == 2


def test_predictions_come_from_the_method_of_the_fit(tmp_path):
    model = make().fit(X, Y)
    model.set_params(method="mle", method_options={"n_steps": 5})
    assert_array_equal(model.predict_proba(X), FITTED.predict_proba(X))
    assert_array_equal(model.gate(X), FITTED.gate(X))
    model.save(tmp_path / "m")
    again = CMNClassifier.load(tmp_path / "m")
    assert_array_equal(again.predict_proba(X), FITTED.predict_proba(X))
    assert again.method == "mle" and again.elbo_ == FITTED.elbo_


def test_a_path_among_the_options_can_be_saved(tmp_path):
    model = make(method="mle", method_options={"n_steps": 5, "checkpoint": tmp_path / "c.npz"}).fit(X, Y)
    model.save(tmp_path / "m")
    again = CMNClassifier.load(tmp_path / "m")
    assert Path(again.method_options["checkpoint"]) == tmp_path / "c.npz" and again.method_options["n_steps"] == 5
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_progress(capsys, monkeypatch):
    make(verbose=1).fit(X, Y)
    assert "start" not in capsys.readouterr().err                    # no terminal here
    make(verbose=2, n_init=2).fit(X, Y)
    assert "start 2 of 2" in capsys.readouterr().err
    monkeypatch.setitem(__import__("sys").modules, "tqdm", None)
    with pytest.raises(ImportError, match=r"cmn_literate\[fit\]"):
        make(verbose=1).fit(X, Y)


def test_a_method_of_ones_own(monkeypatch, tmp_path):
    """A learner needs a work of one step, and the estimator does the rest."""
    def count(Z, y, n_classes, settings, rng):
        log_p = np.log(np.bincount(y, minlength=n_classes) / len(y))
        result = SimpleNamespace(log_p=log_p, elbo=np.zeros(1), n_sweeps=1, converged=True)
        return Work(lambda: [0], lambda state, t: (1, (0.0,)), 1, lambda run: result, ("shares", y), None, lambda states, c: 0.0)

    unpack = lambda arrays, settings: SimpleNamespace(log_p=arrays["log_p"], elbo=np.zeros(1), n_sweeps=1, converged=True)
    monkeypatch.setitem(LEARNERS, "shares", Learner(count, lambda r, Z: np.tile(r.log_p, (len(Z), 1)), lambda r: {"log_p": r.log_p}, unpack,
                                                    options={}, steps=lambda settings: 1, objective="none", step="step", advice=""))
    model = make(method="shares").fit(X, Y)
    assert_allclose(model.predict_proba(X)[0], [(Y == c).mean() for c in model.classes_], rtol=1e-12)
    model.save(tmp_path / "m")
    assert_array_equal(CMNClassifier.load(tmp_path / "m").predict_proba(X), model.predict_proba(X))


# ---- bad input

def changed(array, place, value):
    array = np.array(array, dtype=object if isinstance(value, (str, type(None))) else None)
    array[place] = value
    return array


BAD_FITS = {
    "NaN in X": (changed(X, (3, 1), np.nan), Y, "X contains NaN"),
    "infinity": (changed(X, (3, 1), np.inf), Y, "infinity"),
    "squares overflow": (X * 1e200, Y, "X: expected values"),
    "one axis": (X[:, 0], Y, "2D array"),
    "three axes": (X[None], Y, "dim 3"),
    "no rows": (X[:0], Y[:0], "0 sample"),
    "one row": (X[:1], Y[:1], "minimum of 2"),
    "no columns": (X[:, :0], Y, "0 feature"),
    "text": (np.array([["a"], ["b"]]), Y[:2], "X: expected numbers"),
    "digits as text": ([["1"], ["2"]], Y[:2], "X: expected numbers"),
    "complex": (X + 1j, Y, "[Cc]omplex"),
    "text column": (pd.DataFrame({"a": X[:, 0], "b": ["x"] * 60}), Y, "X: expected numeric columns, got b"),
    "date column": (pd.DataFrame({"a": pd.date_range("2020", periods=60)}), Y, "X: expected numeric columns, got a"),
    "duration column": (pd.DataFrame({"a": pd.to_timedelta(range(60), unit="s")}), Y, "X: expected numeric columns, got a"),
    "digits in a text column": (pd.DataFrame({"a": X[:, 0], "b": pd.Series(["1.5"] * 60, dtype=object)}), Y, "X: expected numeric columns, got b"),
    "lists in a column": (pd.DataFrame({"a": X[:, 0], "b": [[1.0]] * 60}), Y, "X: expected numeric columns, got b"),
    "digits among objects": (changed(X, (3, 1), "1.5"), Y, "X: expected numbers, got text or dates"),
    "bytes among objects": (changed(X.astype(object), (3, 1), b"1.5"), Y, "X: expected numbers, got text or dates"),
    "digits among numbers in a list": ([[1.0, "2"]] * 60, Y, "X: expected numbers, got text or dates"),
    "dates": (X.astype(int).astype("datetime64[s]"), Y, "X: expected numbers, got text or dates"),
    "durations": (X.astype(int).astype("timedelta64[s]"), Y, "X: expected numbers, got text or dates"),
    "dates among objects": (pd.DataFrame({"a": pd.date_range("2020", periods=60)}).to_numpy(dtype=object), Y, "X: expected numbers, got text or dates"),
    "masked inputs": (np.ma.array(X, mask=X > 100), Y, "X: expected every entry, got masked"),
    "masked labels": (X, np.ma.array(X[:, 0] > 0, mask=X[:, 0] > 1), "y: expected every entry, got masked"),
    "ragged": ([[1.0], [2.0, 3.0]] * 30, Y, "X: expected rows of one length"),
    "larger than a float64": ([[10**400, 1]] * 60, Y, "X: expected numbers that a float64 can hold"),
    "column twice": (pd.DataFrame(X, columns=["a", "a", "b"]), Y, "distinct column names"),
    "lengths": (X, Y[:-1], "inconsistent numbers of samples"),
    "two label columns": (X, np.c_[Y, Y], "1d array"),
    "one class": (X, np.zeros(60), "y: expected at least two classes"),
    "NaN label": (X, np.where(Y == "ash", np.nan, 1.0), "y contains NaN"),
    "NaN among words": (X, np.array(["a", np.nan] * 30, dtype=object), "contains NaN"),
    "None label": (X, np.array(["a", None] * 30, dtype=object), "y: expected labels of one kind"),
    "mixed labels": (X, np.array(["a", 1] * 30, dtype=object), "y: expected labels of one kind"),
    "missing label in pandas": (X, pd.Series(["a", None] * 30), "contains NaN"),
    "continuous": (X, X[:, 0], "[Uu]nknown label type"),
    "no labels": (X, None, "y")}


@pytest.mark.parametrize("inputs, labels, message", BAD_FITS.values(), ids=BAD_FITS)
def test_bad_data_is_refused(inputs, labels, message):
    with pytest.raises(ValueError, match=message):
        make().fit(inputs, labels)


@pytest.mark.parametrize("name, value", [
    *[("n_experts", v) for v in (0, -1, 2.5, "a", True, None)], ("latent_dim", 0), ("latent_dim", 1.5), ("priors", None), ("priors", {}),
    ("n_init", 0), ("max_sweeps", 0), ("inner", 0), *[("tol", v) for v in (0, -1.0, "a", np.nan, np.inf, None, True)],
    ("init", "x"), ("method", "x"), ("method", ["cavi"]), ("select", "x"), ("omega1", "x"), *[("holdout", v) for v in (0, 1, 2.0, "a", None)],
    *[("random_state", v) for v in (-1, 1.5, "a")], ("classes", [["a", "b"], ["c", "d"]]), ("classes", [0.0, np.nan]), ("classes", 3)])
def test_bad_options_are_refused(name, value):
    y = Y if name != "classes" or np.ndim(value) == 2 else np.zeros(60)
    if name == "classes" and np.ndim(value) == 2:
        y = np.where(Y == "ash", "a", "b")
    with pytest.raises(ValueError, match=f"{name}|labels among" if name == "classes" else f"{name}: expected"):
        make(**{name: value}).fit(X, y)


def test_unknown_labels_are_named():
    with pytest.raises(ValueError, match=r"y: expected labels among \['ash', 'birch'\], got \['cedar'\]"):
        make(classes=["ash", "birch"]).fit(X, Y)
    with pytest.raises(ValueError, match="at least two"):
        make(classes=[0]).fit(X, np.zeros(60, int))
    with pytest.raises(ValueError, match="^classes: expected rows of one length"):
        make(classes=[["ash"], ["birch", "cedar"]]).fit(X, Y)


@pytest.mark.parametrize("call", ["predict", "predict_proba", "predict_log_proba", "gate", "uncertainty"])
def test_bad_rows_at_prediction(call):
    ask = getattr(FITTED, call)
    for rows, message in [(X[:, :2], "2 features"), (changed(X, (0, 0), np.nan), "NaN"), (X[:0], "0 sample"), (X[0], "2D array"),
                          (np.array([["a", "b", "c"]]), "X: expected numbers"), (changed(X, (0, 0), "1.5"), "X: expected numbers"),
                          (np.ma.array(X, mask=X > 100), "X: expected every entry"), ([[10**400, 1, 2]], "X: expected numbers that a float64")]:
        with pytest.raises(ValueError, match=message):
            ask(rows)
    with pytest.raises(NotFittedError):
        getattr(make(), call)(X)


def test_bad_arguments_of_the_other_questions():
    with pytest.raises(ValueError, match="start: expected 0 to 0"):
        FITTED.gate(X, start=1)
    for start in (-1, 0.5, "a", None):
        with pytest.raises(ValueError, match="start: expected a whole number"):
            FITTED.gate(X, start=start)
    with pytest.raises(ValueError, match="n_draws"):
        FITTED.uncertainty(X, n_draws=-1)
    with pytest.raises(ValueError, match="random_state"):
        FITTED.uncertainty(X, random_state="a")
    with pytest.raises(NotFittedError):
        _ = make().experts_
