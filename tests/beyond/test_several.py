"""Several ascents behind one estimator: its members are the fits that they would be alone, its bound is a bound, its stop is the rule, and a
climb on a part of the rows stands for all of them."""
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracle import evidence, shared
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from cmn_literate import CMNClassifier
from cmn_literate.beyond.shared_means import Above, HigherFit, scaled_priors
from cmn_literate.beyond.several import SEVERAL, SeveralFit, kinds_of, most_sweeps, part_of
from cmn_literate.engineering.fit import Fit, fit
from cmn_literate.inputs import PAPER, USUAL
from cmn_literate.learners import members_of
from cmn_literate.network.simulate import Priors
from cmn_literate.roads.one_table import training_log_likelihoods
from cmn_literate.use.datasets import make_pinwheels

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
X, CODES = make_pinwheels(90, np.random.default_rng(4))
Y = np.array(list("abcde"))[CODES]


def make(**options):
    own = {name: options.pop(name) for name in list(options) if name in SEVERAL.options}
    if "method" not in options:
        own = {"plain": 2, "shared": 2} | own
    return CMNClassifier.paper(**{"n_experts": 4, "max_sweeps": 12, "random_state": 0, "init": "hyperplanes", "method": "several",
                                  "method_options": own, **options})



@pytest.fixture(scope="module")
def fitted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return make().fit(X, Y)


def test_members_are_what_was_asked_for(fitted):
    (several,) = fitted.fits_
    assert isinstance(several, SeveralFit) and [type(one) for one in several.members] == [Fit, Fit, HigherFit, HigherFit]
    assert several.members[2].priors == scaled_priors(Priors(), 3) and several.members[2].above == Above(10 / 3)
    assert several.members[0].priors == Priors()
    for plain, both in [(1, 0), (0, 2), (3, 1)]:
        assert kinds_of(make(plain=plain, shared=both)) == ("cavi",) * plain + ("shared-means",) * both
    one, = make(plain=0, shared=1, v00=6.0, scaled=False).fit(X, Y).fits_[0].members
    assert one.above == Above(6.0) and one.priors == Priors()


def test_members_start_apart(fitted):
    members = fitted.fits_[0].members
    assert not np.allclose(members[0].elbo[0], members[1].elbo[0]) and not np.allclose(members[2].elbo[0], members[3].elbo[0])
    children = np.random.default_rng(0).spawn(1)[0].spawn(4)                      # each has a stream of its own, as if it were alone
    alone = fit(fitted.inputs(X), CODES, 4, rng=children[1], init="hyperplanes", max_sweeps=12)
    assert_allclose(members[1].elbo, alone.elbo, rtol=1e-9)
    again = make().fit(X, Y)
    assert_array_equal(again.predict_log_proba(X), fitted.predict_log_proba(X))
    assert not np.array_equal(make(random_state=1).fit(X, Y).predict_log_proba(X), fitted.predict_log_proba(X))


def test_forecast_is_the_mean_of_the_members(fitted):
    from cmn_literate.engineering.quadrature import predict_proba

    by_hand = sum(predict_proba(one.parameters, fitted.inputs(X)) for one in fitted.fits_[0].members) / 4
    assert_allclose(fitted.predict_proba(X), by_hand, rtol=1e-9)
    assert_array_equal(fitted.predict(X), fitted.classes_[by_hand.argmax(1)])


def test_the_bound_is_the_mean_and_below_the_evidence_of_the_die():
    priors = Priors(1.5, 2.5, 1.5, 1.0, 0.8)
    x, y = np.array([[-1.0], [0.4], [1.5]]), np.array([0, 1, 0])
    est = make(n_experts=1, priors=priors, max_sweeps=400, tol=1e-10, v00=2.0, scaled=False, standardize=False).fit(x, y)
    ends = [one.elbo[-1] for one in est.fits_[0].members]
    assert_allclose(est.elbo_, np.mean(ends), rtol=1e-12)
    lengths = {len(one.elbo) for one in est.fits_[0].members}
    assert len(lengths) > 1 and len(est.trace_) == est.n_sweeps_ == max(lengths)             # who has ended stays where it is
    exact = evidence.by_quadrature(x, y, priors, nodes=12), shared.by_quadrature(x, y, priors, Above(v00=2.0), nodes=12)
    assert (np.diff(est.trace_) > -1e-9).all() and est.elbo_ < np.logaddexp(*exact) - np.log(2)
    assert max(ends[:2]) < exact[0] and max(ends[2:]) < exact[1]


# ---- when it stops

def test_each_member_ends_by_its_last_gain_and_none_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        est = make(max_sweeps=500, tol=2e-3).fit(X, Y)
    assert est.converged_ and est.n_sweeps_ == max(one.n_sweeps for one in est.fits_[0].members) < 500
    for one in est.fits_[0].members:
        gains = np.diff(one.elbo) / len(X)
        assert one.converged and gains[-1] < 2e-3 <= gains[:-1].min()
    with pytest.warns(ConvergenceWarning, match="several has not converged after 12 sweeps .*option visits"):
        assert not make().fit(X, Y).converged_


def test_one_member_that_goes_on_is_not_converged(fitted):
    members = fitted.fits_[0].members
    ended, going = (type(members[0])(**{**vars(members[0]), "converged": flag}) for flag in (True, False))
    assert not SeveralFit((ended, going)).converged and SeveralFit((ended, ended)).converged


def test_many_rows_are_visited_fewer_times():
    rows = lambda **o: [most_sweeps(make(max_sweeps=500, **o), n) for n in (100, 2000, 4000, 50_000, 10**6)]
    assert rows() == [500, 500, 250, 20, 20] and rows(visits=200_000) == [500, 100, 50, 20, 20]
    assert most_sweeps(make(max_sweeps=7), 10**6) == 7
    est = make(max_sweeps=500, visits=90 * 25, tol=1e-12).fit(X, Y)
    assert est.n_sweeps_ == 25 and not est.converged_


def test_weights_are_copies():
    count = np.random.default_rng(2).integers(0, 4, len(X))
    copies = np.repeat(np.arange(len(X)), count)
    how = {"max_sweeps": 150, "tol": 3e-3, "init": "random"}
    one, many = make(**how).fit(X, Y, sample_weight=count), make(**how).fit(X[copies], Y[copies])
    assert [m.n_sweeps for m in one.fits_[0].members] == [m.n_sweeps for m in many.fits_[0].members]
    assert one.converged_ and min(m.n_sweeps for m in one.fits_[0].members) < 150
    assert_allclose(one.predict_proba(X), many.predict_proba(X), rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("method", ["shared-means", "several"])
def test_class_weights_and_whole_weights_agree(method):
    factor = {"a": 2.0, "b": 3.0}
    by_rows = np.array([factor.get(label, 1.0) for label in Y])
    one, two = make(method=method, class_weight=factor).fit(X, Y), make(method=method).fit(X, Y, sample_weight=by_rows)
    assert_array_equal(one.trace_, two.trace_)
    assert abs(one.trace_[-1] - make(method=method).fit(X, Y).trace_[-1]) > 1


# ---- a part of the rows first

def test_a_part_weighs_as_much_as_all():
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 50)
    stay, share = part_of(weight, 20, np.random.default_rng(1))
    assert len(set(stay)) == 20 and (np.diff(stay) > 0).all()
    assert_allclose(share.sum(), weight.sum())
    assert_allclose(share / weight[stay], share[0] / weight[stay[0]])
    assert not np.array_equal(stay, part_of(weight, 20, np.random.default_rng(2))[0])


def test_many_rows_begin_on_a_part():
    x, y = make_pinwheels(600, np.random.default_rng(5))
    # bounds after the first sweep over all rows: a climb on a part has come far by then
    how = {"max_sweeps": 25, "n_experts": 4, "plain": 1, "shared": 1}
    first, plain, late = (make(**how, first_rows=rows).fit(x, y).fits_[0].members for rows in (150, None, 151))
    for a, b, c in zip(first, plain, late):
        assert a.elbo[0] > b.elbo[0] + 50 and b.elbo[0] == c.elbo[0]
        assert len(a.elbo) == len(b.elbo)
        assert (np.diff(a.elbo[1:]) > -1e-6).all()


# ---- the rest of an estimator

def test_everything_but_the_rows_is_saved(fitted, tmp_path):
    fitted.save(tmp_path / "model.npz")
    again = CMNClassifier.load(tmp_path / "model.npz")
    assert_array_equal(again.predict_log_proba(X), fitted.predict_log_proba(X))
    assert_array_equal(again.trace_, fitted.trace_)
    assert [type(one) for one in again.fits_[0].members] == [Fit, Fit, HigherFit, HigherFit]
    for one, other in zip(again.fits_[0].members[2].higher, fitted.fits_[0].members[2].higher):
        assert_array_equal(one, other)
    odd = make(plain=1, shared=2, max_sweeps=3).fit(X, Y)
    odd.save(tmp_path / "odd.npz")
    assert_array_equal(CMNClassifier.load(tmp_path / "odd.npz").predict_log_proba(X), odd.predict_log_proba(X))


def test_members_answer_for_gate_doubt_and_draws(fitted):
    assert len(members_of(fitted.fits_)) == 4
    assert fitted.gate(X, start=3).shape == (90, 4) and fitted.experts_.weight.shape == (4,)
    with pytest.raises(ValueError, match="start: expected 0 to 3, got 4"):
        fitted.gate(X, start=4)
    doubt = fitted.uncertainty(X, n_draws=8)
    log_p = fitted.predict_log_proba(X)
    assert_allclose(doubt.total, -(np.exp(log_p) * log_p).sum(1), rtol=1e-9)
    assert training_log_likelihoods(fitted, X, Y, n_draws=8).shape == (8, 90)


def test_a_run_goes_on_bit_for_bit(tmp_path):
    whole = make(max_sweeps=9, tol=1e-12).fit(X, Y)
    make(max_sweeps=4, tol=1e-12, checkpoint=tmp_path / "run.npz").fit(X, Y)
    rest = make(max_sweeps=9, tol=1e-12, checkpoint=tmp_path / "run.npz").fit(X, Y)
    assert_array_equal(rest.trace_, whole.trace_)
    assert_array_equal(rest.predict_log_proba(X), whole.predict_log_proba(X))
    for other in ({"plain": 1, "shared": 3}, {"first_rows": 20}):
        with pytest.raises(ValueError, match="checkpoint: expected a run of this problem"):
            make(max_sweeps=9, tol=1e-12, checkpoint=tmp_path / "run.npz", **other).fit(X, Y)


def test_no_bit_depends_on_jobs_or_on_the_kind_of_float(fitted):
    two = make(n_jobs=2).fit(X, Y)
    assert_allclose(two.predict_log_proba(X), fitted.predict_log_proba(X), rtol=1e-9)
    with threadpool_limits(1):                              # jobs have one BLAS thread each; more threads may add in another order
        assert_array_equal(two.predict_log_proba(X), make().fit(X, Y).predict_log_proba(X))
    small = X.astype(np.float32)
    assert_array_equal(make().fit(small, Y).predict_log_proba(small), make().fit(small.astype(float), Y).predict_log_proba(small.astype(float)))
    with pytest.raises(ValueError, match="v00"):
        clone(make(v00=-1.0)).fit(X, Y)


@pytest.mark.parametrize("options, message", [({"plain": 0, "shared": 0}, "plain, shared: expected one"), ({"plain": -1}, "^plain: expected"),
                                              ({"shared": 1.5}, "^shared: expected"), ({"visits": 0}, "^visits: expected"),
                                              ({"first_rows": 1}, "^first_rows: expected"), ({"first_rows": "few"}, "^first_rows: expected"),
                                              ({"accelerate": True}, "^accelerate: expected False"), ({"narrow": 1}, "^method_options: expected")])
def test_bad_options_are_named(options, message):
    own = {"narrow": options.pop("narrow")} if "narrow" in options else None
    with pytest.raises(ValueError, match=message):
        (make(**options) if own is None else make(method_options=own)).fit(X, Y)


def test_rows_that_pass_by_are_refused_by_name(tmp_path):
    np.savetxt(path := tmp_path / "rows.csv", np.column_stack([X, CODES]), delimiter=",", header="u,v,y", comments="")
    with pytest.raises(ValueError, match="^method: expected cavi .* got 'several'"):
        make(memory=1000).fit(str(path), "y")
    for method in ("several", "shared-means"):
        est = make(method="several") if method == "several" else CMNClassifier.paper(method=method)
        assert not hasattr(est, "partial_fit") and hasattr(CMNClassifier.paper(), "partial_fit")
        with pytest.raises(AttributeError, match="partial_fit") as told:
            est.partial_fit(X, Y, classes=list("abcde"))
        assert str(told.value.__cause__) == f'method: expected "cavi" for partial_fit, got {method!r}'


def test_a_climb_on_a_part_is_short(monkeypatch):
    from cmn_literate.beyond import several

    seen, drive = [], several.drive
    monkeypatch.setattr(several, "drive", lambda work: seen.append(work.total) or drive(work))
    x, y = make_pinwheels(200, np.random.default_rng(5))
    make(max_sweeps=60, n_experts=2, first_rows=50, visits=2500, plain=1, shared=1).fit(x, y)
    assert seen == [25, 25]


@pytest.mark.parametrize("method", ["shared-means", "several"])
def test_a_run_with_other_weights_is_another_run(method, tmp_path):
    weight = np.ones(len(X))
    weight[0] = 2.0
    make(method=method, max_sweeps=2, standardize=False, init="random", checkpoint=tmp_path / "run.npz").fit(X, Y, sample_weight=weight)
    weight[0] = 3.0
    with pytest.raises(ValueError, match="checkpoint: expected a run of this problem"):
        make(method=method, max_sweeps=3, standardize=False, init="random", checkpoint=tmp_path / "run.npz").fit(X, Y, sample_weight=weight)


# ---- the paper's settings

def test_paper_is_the_papers_whatever_is_usual(monkeypatch):
    assert PAPER == {"method": "cavi", "init": "class-code", "n_init": 1, "max_sweeps": 500, "tol": 1e-6} and set(USUAL) == set(PAPER)
    est = CMNClassifier.paper(n_experts=3, tol=0.1)
    assert {name: getattr(est, name) for name in PAPER} == {**PAPER, "tol": 0.1} and est.n_experts == 3 and est.priors == Priors()
    usual = CMNClassifier()
    assert {name: getattr(usual, name) for name in USUAL} == USUAL

    class Mine(CMNClassifier):
        pass

    assert type(Mine.paper()) is Mine
