"""A fit whose rows pass by equals the fit that holds them, and goes on from wherever it was stopped."""
import os
import shutil
import threading
import warnings
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from cmn_literate.learners import LEARNERS, find_learner
from cmn_literate import CMNClassifier
from cmn_literate.engineering import out_of_core
from cmn_literate.engineering.fit import fit
from cmn_literate.engineering.out_of_core import fit_source, row_bytes
from cmn_literate.inputs import memory_bytes
from cmn_literate.parallel import in_order
from cmn_literate.row_sources import ArraySource, CallableSource
from cmn_literate.tilt_files import FileTilts, MemoryTilts

RNG = np.random.default_rng(3)
X = RNG.normal(size=(21_000, 2))
Y = (X[:, 0] * X[:, 1] + 0.3 * RNG.normal(size=len(X)) > 0) + 1 * (X[:, 0] > 1)
FEW = slice(0, 400)


def blocks(X, y, size):
    return ((X[s:s + size], y[s:s + size]) for s in range(0, len(X), size))


def source(size=77, X=X[FEW], y=Y[FEW]):
    return CallableSource(partial(blocks, X, y, size))


def gap(one, two):
    """Largest relative difference of parameters and bounds of two fits."""
    assert (one.n_sweeps, one.converged, one.n_classes, one.priors, one.shared) == (
        two.n_sweeps, two.converged, two.n_classes, two.priors, two.shared)
    pairs = [*zip(one.parameters, two.parameters), (one.elbo, two.elbo)]
    return max(np.abs(u - v).max() / max(np.abs(u).max(), 1e-300) for u, v in pairs)


FIT = dict(n_experts=3, max_sweeps=5, tol=-np.inf, rng=1)


@pytest.mark.parametrize("sizes", [{"size": 4099, "portion": 20_000}, pytest.param({}, marks=pytest.mark.slow), pytest.param({"size": 999}, marks=pytest.mark.slow)], ids=str)
def test_a_hundred_thousand_rows(sizes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100_000, 3))
    y = (X[:, 0] * X[:, 1] > 0) + 1 * (X[:, 2] + 0.3 * rng.normal(size=len(X)) > 1)
    assert gap(fit(X, y, **FIT), fit_source(source(6001, X, y), memory="1MB", **FIT, **sizes)) < 1e-10


@pytest.mark.parametrize("options", [
    {}, {"omega1": "shared"}, {"accelerate": True, "inner": 2}, {"init": "random"}, {"init": "prior"}, {"latent_dim": 3}], ids=str)
def test_equals_the_fit_in_memory(options):
    """Whatever the blocks, the portions and the place of the tilts; bit for bit if the blocks are those of the fit in memory."""
    whole = fit(X[FEW], Y[FEW], **FIT, **options)
    for size, sizes in ((77, {}), (400, {"memory": 100}), (1, {"portion": 50}), (31, {"size": 64, "portion": 128, "memory": 40_000})):
        assert gap(whole, fit_source(source(size), **FIT, **options, **sizes)) < (1e-11 if "size" in sizes else 1e-300)


def test_equals_it_where_the_start_is_a_sample():
    whole = fit(X, Y, **FIT)
    assert gap(whole, fit_source(source(5000, X, Y), memory="1MB", **FIT)) == 0


def test_stops_by_the_same_rule():
    rule = FIT | {"tol": 2e-3, "max_sweeps": 60}
    whole = fit(X[FEW], Y[FEW], **rule)
    assert whole.converged and whole.n_sweeps < 60
    assert gap(whole, fit_source(source(), size=50, **rule)) < 1e-11
    start = fit_source(source(), n_experts=2, init="prior", tol=1.0)
    assert not start.converged                                                            # a saddle


def test_where_the_tilts_are(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(out_of_core, "MemoryTilts", lambda: made.append("memory") or MemoryTilts())
    monkeypatch.setattr(out_of_core, "FileTilts", lambda *args: made.append("files") or FileTilts(*args))
    calls = []
    rows = CallableSource(lambda: calls.append(0) or blocks(X[FEW], Y[FEW], 100))
    laid, tilts = row_bytes(2, 3, 3)
    assert (laid, tilts) == (8 * (3 + 2 * 2), 8 * 2 * 3)
    passes = {}
    for memory in (tilts * 400 - 1, tilts * 400, (tilts + laid) * 400):
        calls.clear()
        fit_source(rows, memory=memory, **FIT)
        passes[memory] = len(calls)
    fit_source(rows, checkpoint=tmp_path / "c.npz", **FIT)
    assert made == ["files", "memory", "memory", "files"]
    assert list(passes.values()) == [1 + 2 * 5, 1 + 2 * 5, 1 + 2]                          # with a look at the first block before each pass
    assert sorted(os.listdir(tmp_path)) == ["c.npz", "c.npz.tilts0", "c.npz.tilts1"]


W = RNG.integers(0, 4, len(X)) * 1.0                          # a quarter of the rows does not count
FRACTIONS = RNG.gamma(1.0, size=len(X))


def weighted(size=77, rows=FEW, weight=W):
    return CallableSource(lambda: ((X[rows][s:s + size], Y[rows][s:s + size], weight[rows][s:s + size]) for s in range(0, len(X[rows]), size)))


@pytest.mark.parametrize("options", [{}, {"omega1": "shared", "accelerate": True}, {"tol": 2e-3, "max_sweeps": 60}], ids=str)
@pytest.mark.parametrize("weight", [W, FRACTIONS, 1e6 * W], ids=["whole", "fractions", "large"])
def test_weights_pass_by(weight, options):
    whole = fit(X[FEW], Y[FEW], **FIT | options, sample_weight=weight[FEW])
    for sizes in ({"size": 400}, {"size": 64, "portion": 128, "memory": 20_000}):
        assert gap(whole, fit_source(weighted(weight=weight), **FIT | options | sizes)) < 1e-10
    if weight is W:
        twice = np.repeat(np.arange(400), W[FEW].astype(int))
        assert gap(fit(X[twice], Y[twice], **FIT | options), fit_source(weighted(31), size=50, **FIT | options)) < 1e-10


def test_weights_where_the_start_is_a_sample():
    rows = slice(None)
    whole = fit(X, Y, sample_weight=FRACTIONS, **FIT | {"max_sweeps": 1})
    assert gap(whole, fit_source(weighted(5000, rows, FRACTIONS), memory="1MB", **FIT | {"max_sweeps": 1})) < 1e-10


def test_no_bit_depends_on_the_threads(monkeypatch):
    """Blocks are made by several threads, and each portion reads no further than it must."""
    threads, kernel = set(), out_of_core.estep

    def estep(*arguments):
        threads.add(threading.current_thread().name)
        return kernel(*arguments)
    monkeypatch.setattr(out_of_core, "estep", estep)
    for options in ({}, {"omega1": "shared"}):
        one = fit_source(weighted(), size=20, portion=100, **FIT | options)
        assert threads == {threading.current_thread().name}
        for memory in (1000, None):
            assert gap(one, fit_source(weighted(), size=20, portion=100, n_jobs=3, memory=memory, **FIT | options)) == 0
        assert any(name.startswith("cmn") for name in threads)
        threads.clear()
    taken = []
    for value in in_order(lambda item: item, map(lambda item: taken.append(item) or item, range(100)), 2):
        assert len(taken) <= value + 4                                                      # two for each thread
    assert taken == list(range(100))


def test_an_error_in_a_thread_ends_the_fit(monkeypatch):
    monkeypatch.setattr(out_of_core, "estep", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fit_source(source(), size=20, n_jobs=2, **FIT)


def test_a_fit_with_the_compiled_kernel_asks_for_it(monkeypatch):
    asked = []
    monkeypatch.setattr(out_of_core, "find_estep", lambda *sizes: asked.append(sizes) or out_of_core.estep)
    assert gap(fit(X[FEW], Y[FEW], **FIT), fit_source(source(), **FIT)) == 0
    assert asked == [(400, 3, 2, False)]


class Stop(Exception):
    pass


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_weighted_fit_goes_on(n_jobs, tmp_path):
    """Killed within a sweep; weights that have changed since are refused."""
    options = FIT | {"max_sweeps": 3, "memory": 10_000, "size": 20, "portion": 60, "n_jobs": n_jobs}
    whole, path, passes = fit_source(weighted(), **options), tmp_path / "c.npz", [0]

    def failing():
        passes[0] += 1
        for first, block in enumerate(weighted(20).blocks()):
            if passes[0] == 7 and first == 8:                      # of sweep 2: two passes went before, and a look before each sweep
                raise Stop
            yield block

    with pytest.raises(Stop):
        fit_source(CallableSource(failing), checkpoint=path, **options)
    assert gap(whole, fit_source(weighted(20), checkpoint=path, **options)) == 0
    for weight in (W + 1, np.where(np.arange(len(W)) == 399, W + 1, W)):
        with pytest.raises(ValueError, match="checkpoint: expected a run of this problem"):
            fit_source(weighted(20, weight=weight), checkpoint=path, **options)


@pytest.mark.parametrize("place", [150, 450, 850, 999])
@pytest.mark.parametrize("error", [Stop, KeyboardInterrupt])
def test_goes_on_from_where_it_was_stopped(place, error, tmp_path):
    """The same bits, also when tilts beyond the checkpoint have been written."""
    options = FIT | {"max_sweeps": 3, "memory": 10_000}
    sizes = {"size": 20, "portion": 60}
    whole, path, count = fit_source(source(20), **options, **sizes), tmp_path / "c.npz", [0]

    def failing():
        for X_, y_ in blocks(X[FEW], Y[FEW], 20):
            count[0] += len(X_)
            if count[0] > 400 + 20 + place:                                               # the survey and a look at the first block
                raise error
            yield X_, y_

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            part = fit_source(CallableSource(failing), checkpoint=path, **options, **sizes)
        assert error is KeyboardInterrupt and place > 400 and part.n_sweeps == place // 420
    except error:
        assert error is Stop or place < 400
    assert path.exists() == (place > 100)
    resumed = fit_source(source(20), checkpoint=path, **options, **sizes)
    assert gap(whole, resumed) == 0
    assert gap(fit_source(source(20), checkpoint=path, **options | {"max_sweeps": 5}, **sizes),
               fit_source(source(), **options | {"max_sweeps": 5}, **sizes)) == 0


def test_a_checkpoint_and_its_tilts_belong_together(tmp_path):
    path = tmp_path / "c.npz"
    go = lambda **others: fit_source(source(), checkpoint=path, size=50, portion=100, **FIT | {"max_sweeps": 3} | others)
    go()
    kept = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}
    name = "c.npz.tilts0"
    for damage, words in ((lambda b: b[:-8], "block 7, got"), (lambda b: b[:-8] + bytes(8), "the checkpoint, got others"), (lambda b: b"", "block 7, got 0")):
        (tmp_path / name).write_bytes(damage(kept[name]))
        with pytest.raises(ValueError, match=f"c.npz.tilts0: expected the tilts of {words}.*belong together"):
            go(max_sweeps=5)
        (tmp_path / name).write_bytes(kept[name])
        (tmp_path / "c.npz").write_bytes(kept["c.npz"])
    assert gap(go(max_sweeps=5), fit_source(source(), size=50, **FIT)) == 0
    for others in ({"rng": 2}, {"n_experts": 4}, {"portion": 150}, {"size": 40}):
        with pytest.raises(ValueError, match="checkpoint: expected a run of this problem"):
            fit_source(source(), checkpoint=path, **{"size": 50, "portion": 100} | FIT | others)
    with pytest.raises(ValueError, match="checkpoint: expected a run of this problem"):
        fit_source(source(77, X[FEW] + 1e-12, Y[FEW]), checkpoint=path, size=50, portion=100, **FIT)


def test_rows_that_change_stop_the_fit():
    calls = []
    turning = CallableSource(lambda: calls.append(0) or blocks(X[FEW] * (1 + (len(calls) > 7)), Y[FEW], 100))
    with pytest.raises(ValueError, match="expected the rows of the first pass, but other rows came"):
        fit_source(turning, memory=1000, **FIT)


def test_arguments():
    for options, words in (({"memory": "much"}, "memory: expected bytes"), ({"n_experts": 0}, "n_experts"), ({"tol": "x"}, "tol"),
                           ({"classes": [0, 1]}, "y: expected labels among"), ({"priors": 3}, "priors")):
        with pytest.raises(ValueError, match=words):
            fit_source(source(), **options)
    with pytest.raises(ValueError, match="at least two classes"):
        fit_source(ArraySource(X[FEW], np.zeros(400, int)))
    wider = fit_source(source(), classes=[0, 1, 2, 7], **FIT)
    assert wider.n_classes == 4
    assert [memory_bytes(text) for text in ("512MB", "1.5 GiB", 77, "2kB")] == [512 * 10**6, 3 * 2**29, 77, 2000]
    assert memory_bytes(None) > 10**8
    for bad in ("MB", "-1MB", 0, True, "5XB", np.inf, "nan"):
        with pytest.raises(ValueError, match="memory: expected bytes"):
            memory_bytes(bad)


# ---- the estimator

def learned(data, y=None, weight=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return CMNClassifier.paper(**{"n_experts": 3, "max_sweeps": 5, "random_state": 4} | options).fit(data, y, weight)


NAMES = np.array(["u", "v", "w"])


@pytest.mark.parametrize("options", [{}, {"n_init": 2}, {"n_init": 2, "select": "elbo"}, {"standardize": False}, {"memory": "100kB"}], ids=str)
def test_the_estimator_from_a_source(options):
    """Above and below the number of rows from which they pass by: the model of fit(X, y)."""
    for n in (400, 21_000) if len(options) < 2 else (21_000,):
        shifted = X[:n] * [1.0, 1e4] + [7.0, 0.0]
        one, two = learned(shifted, NAMES[Y[:n]], **options | {"memory": None}), learned(source(999, shifted, NAMES[Y[:n]]), **options)
        assert_array_equal(one.classes_, two.classes_)
        assert_allclose(one.predict_log_proba(shifted[:50]), two.predict_log_proba(shifted[:50]), rtol=1e-9)
        assert_allclose(one.trace_, two.trace_, rtol=1e-11)
        assert_allclose((one.mean_, one.scale_), (two.mean_, two.scale_), rtol=1e-12, atol=1e-9)
        assert (len(one.fits_), one.n_features_in_, one.n_sweeps_) == (len(two.fits_), two.n_features_in_, two.n_sweeps_)
        assert not hasattr(two, "feature_names_in_")


def test_the_estimator_from_files_and_frames(tmp_path):
    pandas, _ = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(X, columns=["a", "b"]).assign(kind=np.sort(NAMES[Y]))        # labels unseen in the first parts
    for i in range(3):
        frame.iloc[7000 * i:7000 * (i + 1)].to_parquet(tmp_path / f"{i}.parquet")
    one = learned(frame[["a", "b"]], frame["kind"])
    for data, y in ((str(tmp_path / "*.parquet"), "kind"), (tmp_path, "kind"), ([tmp_path / f"{i}.parquet" for i in range(3)], "kind")):
        two = learned(data, y, memory="200kB")
        assert_allclose(one.predict_proba(frame[["a", "b"]][:50]), two.predict_proba(frame[["a", "b"]][:50]), rtol=1e-9)
    two.save(tmp_path / "m.npz")
    assert_array_equal(CMNClassifier.load(tmp_path / "m.npz").feature_names_in_, ["a", "b"])


@pytest.mark.parametrize("most", [1000, 100], ids=["loaded", "passing"])
def test_the_estimator_with_weights(most, monkeypatch):
    """Of rows and of classes, in memory and not: the model of fit(X, y, weights) with the same options."""
    monkeypatch.setattr(out_of_core, "START_ROWS", most)                                   # so many rows are loaded
    rows, few = slice(0, 1000), {"max_sweeps": 2}
    labels = NAMES[Y[rows]]
    named = lambda weight: lambda: ((X[rows][s:s + 99], labels[s:s + 99], *([] if weight is None else [weight[rows][s:s + 99]]))
                                    for s in range(0, len(labels), 99))
    for weight, of_classes in ((W, None), (FRACTIONS, "balanced"), (None, "balanced"), (W, {"u": 2.5, "w": 0})):
        one = learned(X[rows], labels, None if weight is None else weight[rows], class_weight=of_classes, **few)
        for memory in (None, "20kB"):
            two = learned(named(weight), class_weight=of_classes, memory=memory, **few)
            assert one.classes_.tolist() == two.classes_.tolist() == (["u", "v"] if isinstance(of_classes, dict) else ["u", "v", "w"])
            assert (one.n_rows_seen_, one.calls_) == (two.n_rows_seen_, two.calls_)
            assert_allclose(one.moments_.n, two.moments_.n, rtol=1e-13)
            assert gap(one.fits_[0], two.fits_[0]) < 1e-10


def test_what_weights_of_a_source_cannot_be(monkeypatch):
    for options, words in (({"class_weight": {"x": 2}}, "class_weight: expected labels among"), ({"class_weight": "even"}, "class_weight: expected a dict, 'balanced'"),
                           ({"class_weight": {1: -1}}, "class_weight: expected finite numbers >= 0"),
                           ({"class_weight": dict.fromkeys(range(3), 0)}, "expected (at least one row with )?a positive"),
                           ({"class_weight": {1: 1e308}}, "expected a weight|finite numbers")):
        for memory in (None, "5kB"):
            with pytest.raises(ValueError, match=words):
                learned(weighted(weight=10 * W), memory=memory, **options)
    monkeypatch.setitem(LEARNERS, "deep", find_learner("deep")._replace(weights="none"))
    with pytest.raises(ValueError, match="sample_weight, class_weight: method 'deep' takes no weights"):
        learned(weighted(), method="deep")
    with pytest.raises(ValueError, match="sample_weight: expected None, since the source brings its weights, got ndarray"):
        learned(source(), None, W[FEW])


def test_what_rows_that_pass_by_cannot_do():
    for options, words in (({"method": "mle"}, "method: expected cavi"), ({"n_init": 2, "select": "holdout"}, "select: expected average or elbo")):
        with pytest.raises(ValueError, match=f"{words}.*which need more than memory='20kB'"):
            learned(source(), memory="20kB", **options)
    loaded = learned(source(), n_init=2, select="holdout")
    assert len(loaded.fits_) == 1
    for data, y, words in ((source(77, X[FEW], 0 * Y[FEW]), None, "at least two classes"), (source(), Y[FEW], "y: expected None"),
                           (ArraySource(X[:1], Y[:1]), None, "at least 2 rows"), (ArraySource(X[FEW]), None, "expected labels, got rows without"),
                           (source(77, X[FEW], X[FEW, 0]), None, "look like measurements")):
        model = CMNClassifier.paper()
        with pytest.raises(ValueError, match=words):
            model.fit(data, y)
        assert not hasattr(model, "classes_")
    with pytest.raises(ValueError, match="memory: expected bytes"):
        learned(X, Y, memory="lots")


def test_the_estimator_goes_on(tmp_path):
    options = {"memory": "100kB"}
    for n in (1, 3):
        part = learned(source(999, X, Y), method_options={"checkpoint": tmp_path / "c.npz"}, **options)
        shutil.copy(tmp_path / "c.npz", tmp_path / f"{n}.npz")
    assert_allclose(part.trace_, learned(source(999, X, Y), **options).trace_, rtol=0)
