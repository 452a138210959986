"""Shares of rows, and partial_fit: any chunks, any order of calls, after fit and after load."""
import json
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from problems import CASES, PRIORS, name, problem
from sklearn.exceptions import ConvergenceWarning

from cmn_literate import CMNClassifier
from cmn_literate.engineering.fit import fit
from cmn_literate.engineering.sources import ColumnMoments, block_moments, column_scale, merge_moments, moment_scale
from cmn_literate.engineering.streams import (
    absorb, change_inputs, combine, factor_sums, factors_from_sums, gather, prior_sums, rebase, seen_sums)
from cmn_literate.engineering.sums import block_sweep, make_blocks
from cmn_literate.network.elbo import elbo
from cmn_literate.network.simulate import Priors
from cmn_literate.storage import read_arrays, write_arrays
from cmn_literate.use.datasets import make_pinwheels

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
X, Y = make_pinwheels(240, np.random.default_rng(0))
X = X * [3.0, 0.02] + [10.0, -5.0]
NAMES = np.array(["ash", "birch", "cedar", "dogwood", "elm"])


def make(**options):
    return CMNClassifier.paper(**{"n_experts": 4, "max_sweeps": 30, "random_state": 0, **options})


def streamed(cuts, est=None, X=X, y=NAMES[Y], classes=NAMES):
    est = make() if est is None else est
    for start, stop in zip(cuts, cuts[1:]):
        est.partial_fit(X[start:stop], y[start:stop], classes)
    return est


def assert_same(left, right, rtol):
    for u, v in zip(left, right):
        assert_allclose(u, v, rtol=rtol, atol=rtol * max(np.abs(v).max(initial=0.0), 1e-300))


# ---- shares

@pytest.mark.parametrize("case", CASES, ids=name)
def test_share_and_prior_make_the_sweep(case):
    state, Z, y, _ = problem(case)
    p, (_, _, K, L, h, shared) = state.parameters, case
    blocks = make_blocks(Z, y, K, h, L, shared)
    renewed, share = gather(blocks, p, inner=2)
    after, bound = factors_from_sums(combine((1, prior_sums(PRIORS, p)), (1, share)), p.M)
    by_sweep = block_sweep(blocks, p, PRIORS, inner=2)
    assert_same(after, by_sweep[1], 1e-11)
    assert_allclose(bound, by_sweep[2], rtol=1e-11)
    for mine, its in zip(renewed, by_sweep[0]):
        assert_array_equal(mine.omega, its.omega)
    back, zero = factors_from_sums(factor_sums(p, 0 * p.M), 0 * p.M)
    assert_same(back, p, 1e-9)
    assert abs(zero) < 1e-8


def test_order_and_grouping_of_shares_do_not_matter():
    Z, (K, h, L) = (X - X.mean(0)) / X.std(0), (4, 4, 5)
    p = fit(Z, Y, 4, max_sweeps=3).parameters
    parts = [gather(make_blocks(Z[c], Y[c], K, h, L), p)[1] for c in np.array_split(np.arange(240), 7)]
    whole = gather(make_blocks(Z, Y, K, h, L), p)[1]
    for order in (parts, parts[::-1]):
        assert_same(combine(*((1, share) for share in order)), whole, 1e-11)


def test_a_total_of_no_density_is_refused():
    p = fit((X - X.mean(0)) / X.std(0), Y, 4, max_sweeps=3).parameters
    total = factor_sums(p, p.M)
    for bad in (total._replace(squares=-total.squares), total._replace(n_k=0 * total.n_k), total._replace(squares=total.squares * np.nan)):
        with pytest.raises(ValueError, match="total: expected"):
            factors_from_sums(bad, p.M)
    with pytest.raises(ValueError, match="positive definite"):
        factors_from_sums(total._replace(gram=-total.gram), p.M)


def test_reference_and_units_there_and_back():
    Z = (X - X.mean(0)) / X.std(0)
    p = fit(Z, Y, 4, max_sweeps=5).parameters
    share = gather(make_blocks(Z, Y, 4, 4, 5), p)[1]
    move = np.random.default_rng(1).normal(size=p.M.shape)
    assert_same(rebase(rebase(rebase(share, move), move), -2 * move), share, 1e-10)
    W = np.array([[2.0, 0, 1], [0, 0.1, -3], [0, 0, 1]])
    assert_same(change_inputs(change_inputs(share, W), np.linalg.inv(W)), share, 1e-9)


def test_accelerated_fit_is_taken_apart_without_negative_squares():
    Z = (X - X.mean(0)) / X.std(0)
    result = fit(Z[:30], Y[:30], 8, n_classes=5, max_sweeps=40, accelerate=True, priors=Priors(a0=0.5, b0=5.0))
    share, p = seen_sums(result), result.parameters
    raw = combine((1, factor_sums(p, p.M)), (-1, prior_sums(result.priors, p)))
    assert raw.squares.min() < -1e-3 and share.squares.min() >= 0
    after = absorb(combine((1, prior_sums(result.priors, p)), (1, share)), p.M, p, Z[30:], Y[30:], result.priors, max_sweeps=20)
    assert np.diff(after.elbo).min() > -1e-8 * abs(after.elbo[-1])
    assert_allclose(2 * (after.parameters.a - 0.5).sum(), 240, rtol=1e-10)


def test_posterior_of_yesterday_as_the_prior_of_today():
    """Parameters of any kind serve as the prior; two ways of saying the same."""
    Z = (X - X.mean(0)) / X.std(0)
    old = fit(Z[:150], Y[:150], 4, max_sweeps=40)
    p = old.parameters
    as_prior = absorb(factor_sums(p, p.M), p.M, p, Z[150:], Y[150:], old.priors, max_sweeps=15, tol=1e-12)
    as_share = absorb(combine((1, prior_sums(old.priors, p)), (1, seen_sums(old))), p.M, p, Z[150:], Y[150:], old.priors, max_sweeps=15, tol=1e-12)
    assert_same(as_prior.parameters, as_share.parameters, 1e-8)
    assert_allclose(as_prior.elbo + old.elbo[-1], as_share.elbo, rtol=1e-9)


# ---- moments

@pytest.mark.parametrize("scale", [1e-200, 1e-8, 1.0, 1e150])
def test_moments_of_lots_are_those_of_all(scale):
    rows = np.random.default_rng(0).normal(size=(50, 3)) * scale + np.array([0, 3, 1e6]) * scale
    rows[:, 1] = scale
    total = block_moments(rows[:1])
    for start, stop in ((1, 2), (2, 20), (20, 50)):
        total = merge_moments(total, block_moments(rows[start:stop]))
    assert isinstance(total, ColumnMoments) and total.n == 50
    for got, want in zip(moment_scale(total), column_scale(rows)):
        assert_allclose(got, want, rtol=1e-8)
    assert moment_scale(total)[1][1] == 1.0 and moment_scale(total, False)[1].tolist() == [1.0] * 3


# ---- partial_fit

def test_one_call_is_fit():
    one, other = make().partial_fit(X, NAMES[Y], NAMES), make().fit(X, NAMES[Y])
    assert_allclose(one.predict_proba(X), other.predict_proba(X), rtol=1e-7)
    assert_allclose(one.elbo_, other.elbo_, rtol=1e-10)
    assert one.n_rows_seen_ == other.n_rows_seen_ == 240 and one.n_sweeps_ == other.n_sweeps_
    assert one.calls_ == (("partial_fit", 240),) and other.calls_ == (("fit", 240),)


@pytest.mark.parametrize("cuts", [(0, 120, 240), (0, 1, 2, 240), (0, 100, 101, 239, 240), range(0, 241, 24)], ids=str)
def test_any_chunks(cuts):
    est = streamed(list(cuts))
    assert est.n_rows_seen_ == 240 and len(est.calls_) == len(cuts) - 1 and sum(n for _, n in est.calls_) == 240
    assert_allclose(est.mean_, X.mean(0), rtol=1e-10)
    assert_allclose(est.scale_, X.std(0), rtol=1e-10)
    assert_allclose(2 * (est.fits_[0].parameters.a - 2.0).sum(), 240, rtol=1e-9)
    p = est.predict_proba(X)
    assert p.shape == (240, 5) and np.isfinite(p).all()
    assert_allclose(p.sum(1), 1, rtol=1e-9)
    codes = np.searchsorted(NAMES, NAMES[Y])
    Z = (X - est.mean_) / est.scale_
    assert est.elbo_ <= elbo(est.fits_[0].state(Z, codes), Z, codes, est.priors)


def test_stream_learns():
    """Each chunk adds: the forecast of held-out rows improves from the first chunk to the last and comes near that of fit."""
    X_test, y_test = make_pinwheels(500, np.random.default_rng(5))
    X_test = X_test * [3.0, 0.02] + [10.0, -5.0]
    est, found = make(max_sweeps=60), []
    for chunk in np.array_split(np.arange(240), 4):
        est.partial_fit(X[chunk], NAMES[Y[chunk]], NAMES)
        found.append(est.predict_log_proba(X_test)[np.arange(500), y_test].mean())
    whole = make(max_sweeps=60).fit(X, NAMES[Y]).predict_log_proba(X_test)[np.arange(500), y_test].mean()
    assert found[-1] > found[0] + 0.05 and found[-1] > whole - 0.25


def test_goes_on_after_fit_and_after_load(tmp_path):
    est = make().fit(X[:150], NAMES[Y[:150]])
    est.save(tmp_path / "model.npz")
    loaded = CMNClassifier.load(tmp_path / "model.npz")
    assert loaded.n_rows_seen_ == 150 and loaded.calls_ == (("fit", 150),)
    for one in (est, loaded):
        one.partial_fit(X[150:200], NAMES[Y[150:200]]).partial_fit(X[200:], NAMES[Y[200:]])
    assert est.calls_ == loaded.calls_ == (("fit", 150), ("partial_fit", 50), ("partial_fit", 40))
    assert_allclose(loaded.predict_proba(X), est.predict_proba(X), rtol=1e-9)
    loaded.save(tmp_path / "again.npz")
    assert_array_equal(CMNClassifier.load(tmp_path / "again.npz").predict_proba(X), loaded.predict_proba(X))
    fresh = make().fit(X[:150], NAMES[Y[:150]])
    assert est.n_rows_seen_ == 240 and fresh.fit(X, NAMES[Y]).calls_ == (("fit", 240),)


def test_file_of_an_earlier_version_goes_on(tmp_path):
    est = make().fit(X[:150], NAMES[Y[:150]])
    est.save(tmp_path / "model.npz")
    arrays = read_arrays(tmp_path / "model.npz")
    header = arrays.pop("header")
    arrays = {k: v for k, v in arrays.items() if not k.startswith("column_")}
    write_arrays(tmp_path / "old.npz", arrays, **{k: v for k, v in header.items() if k not in ("rows_seen", "calls")})
    old = CMNClassifier.load(tmp_path / "old.npz")
    old.save(tmp_path / "saved again.npz")
    assert CMNClassifier.load(tmp_path / "saved again.npz").elbo_ == est.elbo_
    for one in (est, old):
        one.partial_fit(X[150:], NAMES[Y[150:]])
    assert old.n_rows_seen_ == 240
    assert_allclose(old.predict_proba(X), est.predict_proba(X), rtol=1e-8)


def test_weighted_file_of_an_earlier_version_knows_what_its_rows_weigh(tmp_path):
    """From its posterior, not from their number."""
    est = make().fit(X[:150], NAMES[Y[:150]], sample_weight=np.arange(150) % 3 + 0.5)
    est.save(tmp_path / "model.npz")
    arrays = read_arrays(tmp_path / "model.npz")
    header = arrays.pop("header")
    write_arrays(tmp_path / "old.npz", arrays, **{k: v for k, v in header.items() if k != "weight_seen"})
    CMNClassifier.load(tmp_path / "old.npz").save(tmp_path / "again.npz")
    for old in (CMNClassifier.load(tmp_path / file) for file in ("old.npz", "again.npz")):
        one = CMNClassifier.load(tmp_path / "model.npz").partial_fit(X[150:], NAMES[Y[150:]])
        old.partial_fit(X[150:], NAMES[Y[150:]])
        assert_allclose(old.moments_[0], one.moments_[0], rtol=1e-12)
        assert_allclose(old.mean_, one.mean_, rtol=1e-10)
        assert_allclose(old.predict_proba(X), one.predict_proba(X), rtol=1e-7)


def test_other_units_other_labels_the_same_stream():
    one = streamed([0, 100, 240])
    other = streamed([0, 100, 240], X=X * 2.54 + 7, y=Y, classes=range(5))
    assert_allclose(other.predict_proba(X * 2.54 + 7), one.predict_proba(X), rtol=1e-4, atol=1e-7)


def test_without_standardisation_columns_stay():
    Z = (X - X.mean(0)) / X.std(0)
    est = streamed([0, 100, 240], make(standardize=False), X=Z)
    assert est.mean_.tolist() == [0, 0] and est.scale_.tolist() == [1, 1]


def test_column_that_is_constant_at_first():
    wide = np.column_stack([X, np.r_[np.full(100, 7.0), np.random.default_rng(0).normal(size=140)]])
    est = make().partial_fit(wide[:100], NAMES[Y[:100]], NAMES)
    assert est.scale_[2] == 1.0
    est.partial_fit(wide[100:], NAMES[Y[100:]])
    assert_allclose(est.scale_[2], wide[:, 2].std(), rtol=1e-10)
    assert np.isfinite(est.predict_log_proba(wide)).all()


def test_a_call_is_what_its_parts_are():
    """Units, prior and share of a second chunk by hand, the prior about the moved reference."""
    est = make(max_sweeps=3).partial_fit(X[:100], NAMES[Y[:100]], NAMES)
    old, (m, s), rows = est.fits_[0], (est.mean_, est.scale_), X[100:110] + 30 * est.scale_
    est.partial_fit(rows, NAMES[Y[100:110]])
    W = np.eye(3)
    W[[0, 1], [0, 1]], W[:2, 2] = s / est.scale_, (m - est.mean_) / est.scale_
    reference = old.parameters.M @ np.linalg.inv(W)
    base = combine((1, prior_sums(old.priors, old.parameters, reference)), (1, change_inputs(seen_sums(old), W)))
    start = factors_from_sums(base, reference)[0]
    by_hand = absorb(base, reference, start, (rows - est.mean_) / est.scale_, Y[100:110], old.priors, max_sweeps=3)
    assert_allclose(est.fits_[0].elbo, by_hand.elbo, rtol=1e-10)
    assert_same(est.fits_[0].parameters, by_hand.parameters, 1e-8)


def test_several_starts_and_shared_tilts():
    est = streamed([0, 100, 240], make(n_init=3, omega1="shared"))
    assert len(est.fits_) == 3 and all(result.shared for result in est.fits_)
    assert len(streamed([0, 100, 240], make(n_init=3, select="elbo")).fits_) == 1


def test_names_of_columns_are_kept_and_compared():
    frame = pd.DataFrame(X, columns=["width", "height"])
    est = make().partial_fit(frame[:120], NAMES[Y[:120]], NAMES)
    assert est.feature_names_in_.tolist() == ["width", "height"]
    with pytest.raises(ValueError, match="feature names"):
        est.partial_fit(frame[["height", "width"]][120:], NAMES[Y[120:]])
    assert est.n_rows_seen_ == 120


# ---- weights

COUNT = np.random.default_rng(1).integers(0, 4, size=240)


def weighted(cuts, est=None, weight=COUNT, copies=False):
    """A stream of rows with weights, or of as many copies."""
    est = make() if est is None else est
    for start, stop in zip(cuts, cuts[1:]):
        rows = np.repeat(np.arange(start, stop), weight[start:stop]) if copies else slice(start, stop)
        est.partial_fit(X[rows], NAMES[Y[rows]], NAMES, **({} if copies else {"sample_weight": weight[rows]}))
    return est


@pytest.mark.parametrize("how", [{}, {"omega1": "shared"}, {"init": "random", "n_init": 2}, {"standardize": False}, {"tol": 1e-2, "inner": 2}], ids=str)
def test_weights_are_copies_in_every_chunk(how):
    one, other = weighted([0, 100, 130, 240], make(**how)), weighted([0, 100, 130, 240], make(**how), copies=True)
    assert one.n_sweeps_ == other.n_sweeps_
    assert_allclose(one.elbo_, other.elbo_, rtol=1e-10)
    assert_allclose(one.predict_proba(X), other.predict_proba(X), rtol=1e-8, atol=1e-10)
    for u, v in zip((one.mean_, one.scale_, one.moments_[0]), (other.mean_, other.scale_, other.moments_[0])):
        assert_allclose(u, v, rtol=1e-10)
    assert one.n_rows_seen_ == (COUNT > 0).sum() and other.n_rows_seen_ == COUNT.sum()
    assert [n for _, n in one.calls_] == [(COUNT[s:e] > 0).sum() for s, e in ((0, 100), (100, 130), (130, 240))]


def test_one_weighted_call_is_the_weighted_fit_and_ones_are_no_weights():
    weight = np.random.default_rng(2).uniform(0.1, 3, size=240)
    one, other = make().partial_fit(X, NAMES[Y], NAMES, weight), make().fit(X, NAMES[Y], sample_weight=weight)
    assert_allclose(one.elbo_, other.elbo_, rtol=1e-10)
    assert_allclose(one.predict_proba(X), other.predict_proba(X), rtol=1e-7)
    assert_array_equal(weighted([0, 100, 240], weight=np.ones(240)).predict_proba(X), streamed([0, 100, 240]).predict_proba(X))


def test_a_weighted_model_goes_on_after_load_with_its_weight(tmp_path):
    weight = np.where(np.arange(150) % 3, 2.5, 0.0)
    est = make().fit(X[:150], NAMES[Y[:150]], sample_weight=weight)
    est.save(tmp_path / "model.npz")
    loaded = CMNClassifier.load(tmp_path / "model.npz")
    assert loaded.n_rows_seen_ == 100 and loaded.moments_[0] == weight.sum()
    for model in (est, loaded):
        model.partial_fit(X[150:], NAMES[Y[150:]], sample_weight=np.full(90, 0.5))
        assert_allclose(2 * (model.fits_[0].parameters.a - 2.0).sum(), weight.sum() + 45, rtol=1e-9)
        assert_allclose(model.scale_, column_scale(X, True, np.r_[weight, np.full(90, 0.5)])[1], rtol=1e-10)
        assert model.n_rows_seen_ == 190
    assert_allclose(loaded.predict_proba(X), est.predict_proba(X), rtol=1e-9)


def test_factors_of_classes_in_a_stream():
    factor = {"ash": 2.0, "birch": 0.5, "elm": 0}
    by_rows = np.select([NAMES[Y] == name for name in factor], list(factor.values()), 1.0)
    one, other = streamed([0, 100, 240], make(class_weight=factor)), weighted([0, 100, 240], weight=by_rows)
    assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    both = make(class_weight={"ash": 2.0}).partial_fit(X, NAMES[Y], NAMES, sample_weight=COUNT)
    assert_allclose(both.moments_[0], (COUNT * np.where(Y == 0, 2.0, 1.0)).sum())
    one_class = both.partial_fit(X[Y == 1], NAMES[Y[Y == 1]])                   # a chunk need not hold the labels that the factors name
    assert one_class.calls_[-1] == ("partial_fit", (Y == 1).sum())


@pytest.mark.parametrize("call, match", [
    (lambda: make().partial_fit(X, NAMES[Y]), "classes: expected the label set in the first call"),
    (lambda: make().partial_fit(X, NAMES[Y], NAMES[:3]), "y: expected labels among"),
    (lambda: make().partial_fit(X, NAMES[Y], NAMES[:1]), "y: expected"),
    (lambda: streamed([0, 120]).partial_fit(X, NAMES[Y], NAMES[:4]), "classes: expected those of the first call"),
    (lambda: streamed([0, 120]).partial_fit(X, np.full(240, "oak")), "y: expected labels among"),
    (lambda: streamed([0, 120]).partial_fit(X[:, :1], NAMES[Y]), "1 features"),
    (lambda: streamed([0, 120]).partial_fit(X * np.nan, NAMES[Y]), "NaN"),
    (lambda: streamed([0, 120]).set_params(n_experts=7).partial_fit(X, NAMES[Y]), "n_experts: expected 4"),
    (lambda: streamed([0, 120]).set_params(tol="x").partial_fit(X, NAMES[Y]), "tol: expected"),
    (lambda: make(method="mle").partial_fit(X, NAMES[Y], NAMES), 'method: expected "cavi"'),
    (lambda: make().partial_fit(X[:0], NAMES[Y[:0]], NAMES), "0 sample"),
    (lambda: streamed([0, 120]).partial_fit(X * 1e300, NAMES[Y]), "X: expected values"),
    (lambda: streamed([0, 120]).partial_fit(X, NAMES[Y], sample_weight=COUNT[:9]), "sample_weight: expected one weight for each of 240 rows"),
    (lambda: streamed([0, 120]).partial_fit(X, NAMES[Y], sample_weight=-1.0 * COUNT), "sample_weight: expected finite numbers >= 0"),
    (lambda: make().partial_fit(X, NAMES[Y], NAMES, np.zeros(240)), "sample_weight: expected a positive weight"),
    (lambda: make(class_weight="balanced").partial_fit(X, NAMES[Y], NAMES), "class_weight: expected a dict or None for partial_fit"),
    (lambda: make(class_weight={"oak": 2}).partial_fit(X, NAMES[Y], NAMES), "class_weight: expected labels among")])
def test_bad_call_is_named(call, match):
    with pytest.raises(ValueError, match=match), np.errstate(all="ignore"):
        call()


def test_model_stays_as_it_was_on_an_error():
    est = streamed([0, 120])
    before, kept = json.dumps(est.calls_), est.predict_proba(X)
    for bad in (dict(X=X[:, :1], y=NAMES[Y]), dict(X=X, y=np.full(240, "oak")), dict(X=X, y=NAMES[Y], sample_weight=np.zeros(240))):
        with pytest.raises(ValueError):
            est.partial_fit(**bad)
    assert json.dumps(est.calls_) == before
    assert_array_equal(est.predict_proba(X), kept)


def test_classes_may_be_an_option():
    est = make(classes=list(NAMES)).partial_fit(X[:50], NAMES[Y[:50]])
    assert est.classes_.tolist() == NAMES.tolist()
    assert_array_equal(est.partial_fit(X[50:], NAMES[Y[50:]], classes=NAMES[::-1]).classes_, NAMES)


def test_no_warning_and_no_rows_kept():
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        est = streamed([0, 120, 240], make(max_sweeps=2))
    import pickle
    inside = pickle.dumps(est)
    assert not any(value.tobytes() in inside for value in X.ravel()[::7]) and len(inside) < 2**14
