"""Files of arrays, runs and models: whole or absent, read without running anything, and free of the rows that a model learned from."""

import os
import pickle
import zipfile
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from cmn_literate import CMNClassifier, storage
from cmn_literate.checks import check_checkpoint
from cmn_literate.storage import fingerprint, generator_from, generator_state, pack_tree, read_arrays, unpack_tree, write_arrays

KINDS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")


class Pair(NamedTuple):
    left: object
    right: object


TREES = [None, 3, 0.1, -0.0, "word", True, [1, [2.5, None]], (1, (2,)), {"a": (np.arange(3), "b"), "c": {}}, Pair(np.eye(2), Pair((), [])),
         [np.float64(0.1), np.int64(3), np.array(2.0)], np.array(["a", "bc"])]


def same(a, b):
    if isinstance(a, np.ndarray) and a.ndim:
        return type(b) is np.ndarray and a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, dict):
        return type(b) is dict and a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return a == b


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_what_a_state_is_made_of_survives_a_file(tree, tmp_path):
    arrays = {}
    packed = pack_tree(tree, arrays, "t")
    write_arrays(tmp_path / "t.npz", arrays, tree=packed)
    back = read_arrays(tmp_path / "t.npz")
    assert same(tree, unpack_tree(back["header"]["tree"], back, (Pair,)))


def test_only_named_tuples_that_are_expected_are_made():
    packed = pack_tree(Pair(1, 2), {}, "t")
    for kinds in ((), (type("Other", (), {}),)):
        with pytest.raises(ValueError, match="expected .*got Pair"):
            unpack_tree(packed, {}, kinds)


@pytest.mark.parametrize("kind", KINDS)
def test_generators_of_every_kind_go_on_and_have_the_same_children(kind, tmp_path):
    rng = np.random.Generator(getattr(np.random, kind)(5))
    rng.spawn(3)
    rng.normal(size=7)
    rng.integers(3, dtype=np.uint32)                                    # leaves half a word behind
    arrays = {}
    packed = pack_tree([rng], arrays, "t")
    write_arrays(tmp_path / "t.npz", arrays, tree=packed)
    back = read_arrays(tmp_path / "t.npz")
    twin, = unpack_tree(back["header"]["tree"], back)
    for draw in (lambda g: g.integers(3, size=5, dtype=np.uint32), lambda g: g.normal(size=9), lambda g: g.spawn(2)[1].random(4)):
        assert_array_equal(draw(rng), draw(twin))


def test_a_generator_without_a_seed_sequence_goes_on_too():
    rng = np.random.Generator(np.random.RandomState(4)._bit_generator)
    twin = generator_from(generator_state(rng))
    assert_array_equal(rng.normal(size=5), twin.normal(size=5))


@pytest.mark.parametrize("kind", ["eval", "Generator", "BitGenerator.__init__", 3])
def test_a_stranger_is_no_generator(kind):
    with pytest.raises(ValueError, match="expected a bit generator"):
        generator_from({"kind": kind, "state": {}, "seeds": None})


def test_fingerprints_tell_apart():
    parts = [(np.arange(4.0),), (np.arange(4.0).reshape(2, 2),), (np.arange(4),), ([0, 1], 2), ([0], 1, 2), (1,), ("1",), (True,), (None,), ()]
    assert len({fingerprint(*part) for part in parts}) == len(parts)
    assert fingerprint(np.arange(6.0).reshape(2, 3).T) == fingerprint(np.arange(6.0).reshape(2, 3).T.copy())


def test_a_file_that_cannot_be_written_is_refused(tmp_path):
    check_checkpoint(None)
    check_checkpoint(tmp_path / "new.npz")
    for path in (tmp_path, tmp_path / "missing" / "c.npz", 3, ""):
        with pytest.raises(ValueError, match="^checkpoint: expected a file that can be written"):
            check_checkpoint(path)
    assert list(tmp_path.iterdir()) == []


def test_a_pickle_in_a_file_is_not_read(tmp_path):
    np.savez(tmp_path / "evil.npz", header=np.array([{"format": 1}], dtype=object))
    with pytest.raises(ValueError, match="damaged"):
        read_arrays(tmp_path / "evil.npz")


@pytest.mark.parametrize("stop", ["write", "replace"])
def test_what_fails_leaves_the_old_file_and_nothing_else(stop, tmp_path, monkeypatch):
    path = tmp_path / "run.npz"
    write_arrays(path, {"x": np.arange(3)})
    before = path.read_bytes()
    if stop == "write":
        monkeypatch.setattr(np, "savez", lambda out, **arrays: (out.write(b"half"), 1 / 0))
    else:
        monkeypatch.setattr(os, "replace", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_arrays(path, {"x": np.arange(4)})
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


# ---- a fitted model holds no rows

def training_values(X):
    """The eight bytes of every entry of X that no other file would hold by chance."""
    return {x.tobytes() for x in X.ravel()}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("make", [CMNClassifier.paper, CMNClassifier], ids=["paper", "usual"])
def test_a_model_of_40000_rows_is_small_and_holds_none_of_them(make, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40_000, 5))
    y = (X[:, 0] + rng.normal(size=len(X)) > 0).astype(int)
    model = make(n_experts=4, max_sweeps=2, random_state=0).fit(X, y)
    model.save(tmp_path / "model.npz")
    pickled, saved = pickle.dumps(model), (tmp_path / "model.npz").read_bytes()
    assert max(len(pickled), len(saved)) < 64 * 1024
    Z = (X - model.mean_) / model.scale_
    known = training_values(X) | training_values(Z)
    with zipfile.ZipFile(tmp_path / "model.npz") as parts:
        stored = b"".join(parts.read(name) for name in parts.namelist())
    for content in (pickled, saved, stored):
        found = [i for i in range(len(content) - 7) if content[i:i + 8] in known]
        assert not found
    back = pickle.loads(pickled)
    assert_array_equal(back.predict_log_proba(X[:9]), storage.load_model(CMNClassifier, tmp_path / "model.npz").predict_log_proba(X[:9]))
    assert_array_equal(back.predict_log_proba(X[:9]), model.predict_log_proba(X[:9]))


class Trap:
    """What a pickle can do to whoever loads it: make a folder."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (self.folder,)


def test_a_file_cannot_run_anything(tmp_path):
    trap, header = tmp_path / "sprung", np.frombuffer(b"{}", np.uint8)
    np.savez(tmp_path / "t.npz", header=header, evil=np.array([Trap(str(trap))], object))
    with pytest.raises(ValueError, match="expected a file written by this package"):
        read_arrays(tmp_path / "t.npz")
    assert not trap.exists()
