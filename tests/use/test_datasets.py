"""Data sets: generators against their laws, files against their fingerprints, splits against their promises.

The real CSV files are looked for in $CMN_DATA; without them those tests are skipped and say so.
"""

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

from cmn_literate.use.datasets import (
    FILES, SPLITS, Dataset, Spec, _from_scikit_learn, load, make_pinwheels, make_waveform, pinwheel_proba,
    rebuild_csv, stratified_split, training_sizes, waveform_proba)
from cmn_literate.storage import read_arrays, write_arrays

CMN_DATA = os.environ.get("CMN_DATA")            # read once: some tests unset it
COUNTS = {"rice": {"Osmancik": 2180, "Cammeo": 1630}, "wdbc": {"benign": 357, "malignant": 212},
          "vehicle": {"bus": 218, "saab": 217, "opel": 212, "van": 199}, "banknote": {"0": 762, "1": 610}, "sonar": {"M": 111, "R": 97},
          "waveform": {"0": 1657, "1": 1647, "2": 1696}, "iris": {"setosa": 50, "versicolor": 50, "virginica": 50}}
FIRST_ROW = {"rice": [15231, 525.5789794921875, 229.7498779296875], "wdbc": [17.99, 10.38, 122.8], "vehicle": [95, 48, 83],
             "banknote": [3.6216, 8.6661, -2.8073], "sonar": [0.02, 0.0371, 0.0428], "waveform": [-1.23, -1.56, -1.75], "iris": [5.1, 3.5, 1.4]}


def csv_file(name):
    """The path of a real CSV file; skips where it is absent."""
    if not CMN_DATA:
        pytest.skip("$CMN_DATA is not set, so the real CSV files are not there")
    path = Path(CMN_DATA) / f"{name}.csv"
    if not path.is_file():
        pytest.skip(f"no {name}.csv in $CMN_DATA")
    return path


def as_uci_writes_it(name, text):
    """UCI's raw file(s) {member: text}, made from our CSV."""
    rows = text.splitlines()[1:]
    if name == "vehicle":
        lines = [row.replace(",", " ") + " \n" for row in rows]
        return {f"xa{'abcdefghi'[i]}.dat": "".join(lines[94 * i:94 * (i + 1)]) for i in range(9)}
    if name == "rice":
        return {"Rice/Rice_Cammeo_Osmancik.arff": "% a comment\n@RELATION rice\n@ATTRIBUTE Area Integer\n\n@DATA\n" + "\n".join(rows)}
    return {{"banknote": "data_banknote_authentication.txt", "sonar": "sonar.all-data", "waveform": "waveform.data"}[name]: "\r\n".join(rows)}


@pytest.fixture
def nowhere(monkeypatch):
    """No $CMN_DATA, and no network: a download that nobody asked for fails the test."""
    monkeypatch.delenv("CMN_DATA", raising=False)
    monkeypatch.setattr("cmn_literate.use.datasets._download", lambda name: pytest.fail(f"{name}: nobody asked for a download"))


# ---- generators

@pytest.mark.parametrize("n, n_classes", [(1, 1), (7, 3), (100, 5), (3, 5)])
def test_pinwheels_are_balanced_shuffled_and_reproducible(n, n_classes):
    X, y = make_pinwheels(n, default_rng(1), n_classes=n_classes)
    again = make_pinwheels(n, default_rng(1), n_classes=n_classes)
    assert X.shape == (n, 2) and X.dtype == np.float64 and y.shape == (n,) and np.isfinite(X).all()
    assert_array_equal(X, again[0])
    assert_array_equal(y, again[1])
    counts = np.bincount(y, minlength=n_classes)
    assert counts.max() - counts.min() <= 1
    assert n < 100 or (np.diff(y) < 0).any()


def test_pinwheel_blobs_sit_at_distance_one():
    X, y = make_pinwheels(20_000, default_rng(5), rate=0.0, scale=1.0)
    along = X[:, 0] * np.cos(2 * np.pi * y / 5) - X[:, 1] * np.sin(2 * np.pi * y / 5)
    across = X[:, 0] * np.sin(2 * np.pi * y / 5) + X[:, 1] * np.cos(2 * np.pi * y / 5)
    assert abs(along.mean() - 1) < 5 * 0.7 / 20_000**0.5 and abs(across.mean()) < 5 * 0.3 / 20_000**0.5
    assert abs(along.std() / 0.7 - 1) < 5 / 40_000**0.5 and abs(across.std() / 0.3 - 1) < 5 / 40_000**0.5


def test_pinwheel_law_turns_with_the_classes():
    X, _ = make_pinwheels(50, default_rng(2))
    a = -2 * np.pi / 5
    turned = X @ np.array([[np.cos(a), np.sin(a)], [-np.sin(a), np.cos(a)]])
    assert_allclose(pinwheel_proba(turned), np.roll(pinwheel_proba(X), 1, axis=1), atol=2e-3)


def test_pinwheel_law_is_calibrated_and_beats_any_distortion():
    X, y = make_pinwheels(6000, default_rng(3))
    p, hit = pinwheel_proba(X), np.eye(5)[y]
    assert_allclose(p.sum(1), 1, rtol=1e-12)
    for lo in np.arange(0, 1, 0.2):
        inside = (p >= lo) & (p < lo + 0.2)
        assert abs((hit - p)[inside].sum()) < 5 * np.sqrt((p * (1 - p))[inside].sum())
    score = lambda q: np.log(q[np.arange(6000), y]).mean()
    for power in (0.7, 1.4):
        assert score(p) > score(p**power / (p**power).sum(1, keepdims=True))


def test_waveform_shapes_labels_and_noise():
    X, y = make_waveform(5000, default_rng(4))
    assert X.shape == (5000, 21) and set(y) == {0, 1, 2}
    ends = X[:, [0, 20]]                            # no wave reaches above 0 at position 1 or 21: only noise is left
    assert abs(ends.mean()) < 5 / 1e4**0.5 and abs(ends.var() - 1) < 5 * (2 / 1e4) ** 0.5


def test_waveform_blends_and_their_law():
    X, y = make_waveform(20_000, default_rng(6))
    assert abs(X[:, 6].mean() - 16 / 6) < 0.1 and abs(X[y == 1, 8].mean() - 4) < 0.1 and abs(X[y == 0, 10].mean() - 2) < 0.1
    p, hit = waveform_proba(X), np.eye(3)[y]
    for column in (np.ones(20_000), X[:, 6], X[:, 10], X[:, 14]):                    # a law's errors are uncorrelated with everything
        error = (hit - p) * column[:, None]
        assert (abs(error.sum(0)) < 5 * np.sqrt((error**2).sum(0))).all()


def test_waveform_law_is_finite_far_away():
    p = waveform_proba(np.vstack([np.full(21, 50.0), np.full(21, -50.0), np.zeros(21), 1e3 * np.eye(21)]))
    assert np.isfinite(p).all()
    assert_allclose(p.sum(1), 1, rtol=1e-9)


def test_the_file_and_the_generator_of_waveform_number_the_classes_alike():
    path = csv_file("waveform")
    data = load("waveform", data_home=path.parent)
    p = waveform_proba(data.X)
    best = p.max(1)
    assert abs((p.argmax(1) == data.y).mean() - best.mean()) < 5 * np.sqrt((best * (1 - best)).sum()) / 5000
    assert abs(best.mean() - 0.867) < 0.01


@pytest.mark.parametrize("arguments, named", [
    (dict(n=0), "n:"), (dict(n=2.5), "n:"), (dict(n=True), "n:"), (dict(n=5, n_classes=0), "n_classes:"),
    (dict(n=5, radial_std=-1), "radial_std:"), (dict(n=5, tangential_std=np.nan), "tangential_std:"),
    (dict(n=5, radial_std="0.7"), "radial_std:"), (dict(n=5, radial_std=None), "radial_std:"), (dict(n=5, tangential_std=True), "tangential_std:"),
    (dict(n=5, rate=1j), "rate:"), (dict(n=5, rate=np.inf), "rate:"), (dict(n=5, scale=0), "scale:"), (dict(n=5, scale=[1, 2]), "scale:")])
def test_pinwheels_refuse(arguments, named):
    with pytest.raises(ValueError, match=f"^{named}"):
        make_pinwheels(rng=default_rng(0), **arguments)


@pytest.mark.parametrize("n", [0, -3, 1.5, "ten"])
def test_waveform_refuses(n):
    with pytest.raises(ValueError, match="^n:"):
        make_waveform(n, default_rng(0))


@pytest.mark.parametrize("name, value", [
    ("radial_std", 0), ("tangential_std", 0.0), ("tangential_std", -1), ("radial_std", "a"), ("rate", None), ("rate", np.nan), ("scale", 0),
    ("scale", True), ("n_classes", 0), ("n_classes", 5.0), ("n_classes", True)])
def test_the_law_of_pinwheels_refuses_numbers_that_are_none(name, value):
    with pytest.raises(ValueError, match=f"^{name}: expected"):
        pinwheel_proba([[1.0, 2.0]], **{name: value})


def test_the_law_of_pinwheels_is_as_good_as_it_says_away_from_folds():
    """A second route to the roots: Newton, from a grid ten times as fine."""
    X = np.vstack([make_pinwheels(30, default_rng(4))[0], default_rng(5).uniform(-30, 30, (30, 2))])
    r, turns = 1 + 0.7 * np.linspace(-8, 8, 80_001), np.exp(2j * np.pi * np.arange(5) / 5)
    for x, got in zip(X @ [0.1, 0.1j], pinwheel_proba(X)):
        gap = (x * turns[:, None] * np.exp(0.2j * np.exp(r))).real - r
        c, i = np.nonzero((gap[:, 1:] > 0) != (gap[:, :-1] > 0))
        root = r[i]
        for _ in range(4):
            w = x * turns[c] * np.exp(0.2j * np.exp(root))
            root = root + (w.real - root) / (1 + 0.2 * np.exp(root) * w.imag)
        t = (x * turns[c] * np.exp(0.2j * np.exp(root))).imag
        height = np.exp(-0.5 * ((root - 1) / 0.7) ** 2 - 0.5 * (t / 0.3) ** 2) / abs(1 + 0.2 * np.exp(root) * t)
        want = np.bincount(c, height, minlength=5)
        assert_allclose(got, want / want.sum(), atol=1e-4)


@pytest.mark.parametrize("law, columns", [(pinwheel_proba, 2), (waveform_proba, 21)])
def test_laws_refuse(law, columns):
    for X in (np.zeros((3, columns + 1)), np.zeros(columns), np.full((2, columns), np.nan), [["a"] * columns]):
        with pytest.raises(ValueError, match="^X:"):
            law(X)


# ---- files

@pytest.mark.parametrize("name", FILES)
def test_real_file(name):
    data = load(name, data_home=csv_file(name).parent)
    spec = FILES[name]
    assert isinstance(data, Dataset) and data.X.shape == (spec.rows, len(spec.features)) and data.X.dtype == np.float64
    assert data.y.dtype == np.int64 and data.sha256 == spec.sha256 and data.source.endswith(f"{name}.csv")
    assert list(data.class_names) == sorted(data.class_names) and len(data.feature_names) == len(set(data.feature_names))
    assert dict(zip(data.class_names, np.bincount(data.y).tolist())) == COUNTS[name]
    assert data.X[0, :3].tolist() == FIRST_ROW[name]


@pytest.mark.parametrize("name", FILES)
def test_real_file_with_a_planted_change(name, tmp_path):
    good = csv_file(name).read_bytes()
    header, rest = good.split(b"\n", 1)
    for bad in (good[:-1], good.replace(b"1", b"2", 1), header + b"\n" + rest[rest.index(b"\n") + 1:], good.replace(b"\n", b"\r\n"), b""):
        (tmp_path / f"{name}.csv").write_bytes(bad)
        with pytest.raises(ValueError, match=f"not the {name} data.*SHA-256 expected {FILES[name].sha256}, got"):
            load(name, data_home=tmp_path)


@pytest.mark.parametrize("name", [name for name in FILES if FILES[name].member])
def test_the_recipe_for_ucis_raw_file(name):
    good = csv_file(name).read_bytes()
    raw = "\n".join(as_uci_writes_it(name, good.decode()).values())
    assert rebuild_csv(name, raw) == good
    with pytest.raises(ValueError, match="rebuilt from"):
        rebuild_csv(name, raw.replace("1", "2", 1))


@pytest.mark.parametrize("name", ["iris", "wdbc"])
def test_scikit_learns_copy_has_the_bytes_of_the_csv(name):
    assert _from_scikit_learn(name) == csv_file(name).read_bytes()


@pytest.mark.parametrize("name", ["iris", "wdbc"])
def test_scikit_learns_copy(name, nowhere):
    datasets = pytest.importorskip("sklearn.datasets")
    bunch = datasets.load_iris() if name == "iris" else datasets.load_breast_cancer()
    data = load(name)
    assert data.source == "scikit-learn" and data.sha256 == FILES[name].sha256
    assert_array_equal(data.X, bunch.data)
    assert [data.class_names[c] for c in data.y] == [str(bunch.target_names[c]) for c in bunch.target]
    assert dict(zip(data.class_names, np.bincount(data.y).tolist())) == COUNTS[name]


def test_look_up_order(tmp_path, monkeypatch):
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        (folder / "iris.csv").write_bytes(_from_scikit_learn("iris"))
    monkeypatch.setenv("CMN_DATA", str(second))
    assert load("iris", data_home=first).source == str(first / "iris.csv")
    assert load("iris", data_home=str(tmp_path)).source == load("iris").source == str(second / "iris.csv")
    monkeypatch.setenv("CMN_DATA", str(tmp_path / "not there"))
    assert load("iris").source == "scikit-learn"
    (second / "iris.csv").write_bytes(b"nonsense")
    monkeypatch.setenv("CMN_DATA", str(second))
    with pytest.raises(ValueError, match="not the iris data"):          # a damaged file is an error, not a reason to look elsewhere
        load("iris")


@pytest.mark.parametrize("name", [name for name in FILES if FILES[name].member])
def test_missing_file_says_what_where_and_how(name, tmp_path, nowhere):
    with pytest.raises(FileNotFoundError) as caught:
        load(name, data_home=tmp_path)
    message = str(caught.value)
    assert all(part in message for part in (f"{name}.csv", str(tmp_path), "$CMN_DATA: not set", FILES[name].doi, FILES[name].uci, "rebuild_csv"))
    assert ("download=True" in message) == (name != "waveform")


def test_missing_scikit_learn_is_named(nowhere, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    for download in (False, True):
        with pytest.raises(FileNotFoundError, match="pip install scikit-learn"):
            load("wdbc", download=download)


@pytest.mark.parametrize("name", ["Iris", "", None, "mnist"])
def test_unknown_name(name):
    with pytest.raises(ValueError, match="^name: expected one of pinwheels, rice"):
        load(name)
    with pytest.raises(ValueError, match="^name:"):
        training_sizes(name)
    with pytest.raises(ValueError, match="^name:"):
        rebuild_csv(name, "")


def test_no_recipe_for_what_scikit_learn_carries():
    with pytest.raises(ValueError, match="^name: expected one of rice, vehicle"):
        rebuild_csv("iris", "5.1,3.5,1.4,0.2,Iris-setosa\n")


def test_pinwheels_by_name():
    data = load("pinwheels")
    assert data.X.shape == (2100, 2) and data.sha256 == "" and data.source.startswith("make_pinwheels")
    assert np.bincount(data.y).tolist() == [420] * 5


# ---- download, with a stand-in for the network

@pytest.fixture
def archive(monkeypatch, tmp_path):
    """Lets a test say what UCI's archive holds; returns the list of addresses asked for."""
    pooch = pytest.importorskip("pooch")
    monkeypatch.delenv("CMN_DATA", raising=False)
    asked, path = [], tmp_path / "archive.zip"

    def fill(members):
        with zipfile.ZipFile(path, "w") as z:
            for member, text in members.items():
                z.writestr(member, text)
        return asked

    def retrieve(url, known_hash, **where):
        asked.append(url)
        return str(path)

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    return fill


@pytest.mark.parametrize("name", ["rice", "vehicle", "banknote", "sonar"])
def test_download(name, archive):
    good = csv_file(name).read_text()
    asked = archive({"readme.md": "words", **as_uci_writes_it(name, good)})
    with pytest.raises(FileNotFoundError):
        load(name)
    assert asked == []                                                   # never without being told
    data = load(name, download=True)
    assert asked == [f"https://archive.ics.uci.edu/static/public/{FILES[name].uci}.zip"] and data.source.startswith("UCI")
    assert dict(zip(data.class_names, np.bincount(data.y).tolist())) == COUNTS[name]


def test_download_of_a_table_made_for_the_test(archive, monkeypatch):
    csv = b"a,b,target\n-1,2.50,no\n3,4,yes\n"
    spec = Spec(2, ("a", "b"), ("no", "yes"), hashlib.sha256(csv).hexdigest(), "none", "0/tiny", "x?.dat")
    monkeypatch.setitem(FILES, "tiny", spec)
    archive({"a/xb.dat": "3 4 yes \n", "a/xa.dat": "-1 2.50 no", "a/xa.doc": "9 9 no"})          # nested, out of order, no final newline
    data = load("tiny", download=True)
    assert data.X.tolist() == [[-1, 2.5], [3, 4]] and data.y.tolist() == [0, 1] and data.class_names == ("no", "yes")
    monkeypatch.setitem(FILES, "tiny", spec._replace(rows=3))                                       # right bytes, wrong table
    with pytest.raises(ValueError, match="expected shape"):
        load("tiny", download=True)


def test_download_of_something_else(archive):
    archive({"sonar.all-data": "0.1,0.2,R\n"})
    with pytest.raises(ValueError, match="not the sonar data"):
        load("sonar", download=True)
    archive({"waveform.data.Z": "packed"})
    with pytest.raises(ValueError, match="unpacked by hand"):
        load("waveform", download=True)


@pytest.mark.parametrize("fault", ["offline", "no archive"])
def test_a_download_that_fails_says_why_and_how_else_to_get_the_file(fault, monkeypatch, tmp_path):
    pooch = pytest.importorskip("pooch")
    monkeypatch.delenv("CMN_DATA", raising=False)
    page = tmp_path / "rice.zip"

    def retrieve(url, known_hash, **where):
        if fault == "offline":
            raise ConnectionError("no route to the archive")
        page.write_text("<html>try again later</html>")
        return str(page)

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    reason = "no route to the archive" if fault == "offline" else "something else than a ZIP archive"
    with pytest.raises(FileNotFoundError, match=r"(?s)rice.csv not found.*fetch it by hand.*The download failed: .*" + reason):
        load("rice", data_home=tmp_path, download=True)
    assert not page.exists()                             # or the next call would find it in the cache


def test_download_without_pooch(monkeypatch):
    monkeypatch.delenv("CMN_DATA", raising=False)
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r"cmn_literate\[data\]"):
        load("sonar", download=True)


def test_importing_the_module_needs_the_core_alone():
    code = "import sys, cmn_literate.use.datasets, cmn_literate.use.metrics; print({'sklearn', 'pooch', 'matplotlib', 'pandas'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "set()"


# ---- splits

@settings(max_examples=60)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=5), st.data(), st.integers(0, 2**32 - 1))
def test_split_keeps_its_promises(counts, data, seed):
    y = default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    n, L = len(y), len(counts)
    n_test = data.draw(st.integers(0, n - 1))
    n_train = data.draw(st.integers(1, n - n_test))
    train, test = stratified_split(y, n_train, n_test, default_rng(seed))
    assert (len(train), len(test)) == (n_train, n_test) and len(set(train) | set(test)) == n_train + n_test
    if n - n_test >= L and n_train >= L:
        assert set(y[train]) == set(range(L))
    held_back = np.maximum(np.array(counts) - 1, 0)
    taken, proportion = np.bincount(y[test], minlength=L), np.array(counts) / n
    if n_test <= held_back.sum():
        assert (taken <= held_back).all()
        cost = lambda k, c: (k - n_test * proportion[c])**2 / proportion[c]
        swaps = [(a, b) for a in range(L) for b in range(L) if a != b and taken[a] > 0 and taken[b] < held_back[b]]
        assert all(cost(taken[a] - 1, a) + cost(taken[b] + 1, b) >= cost(taken[a], a) + cost(taken[b], b) - 1e-9 for a, b in swaps)
    left = np.bincount(np.delete(y, test), minlength=L)
    share = left / left.sum()
    for m in range(1, n_train + 1):
        got = np.bincount(y[train[:m]], minlength=L)
        if m >= (left > 0).sum():
            better = [(a, b) for a in range(L) for b in range(L) if a != b and got[a] > 1 and got[b] < left[b]]
            cost = lambda k, c, m=m: (k - m * share[c])**2 / share[c]
            assert all(cost(got[a] - 1, a) + cost(got[b] + 1, b) >= cost(got[a], a) + cost(got[b], b) - 1e-9 for a, b in better)


@pytest.mark.parametrize("name", SPLITS)
def test_the_papers_splits_exist_and_are_proportional(name):
    counts = [420] * 5 if name == "pinwheels" else [COUNTS[name][c] for c in FILES[name].classes]
    y = np.repeat(np.arange(len(counts)), counts)
    first, last, n_test = SPLITS[name]
    train, test = stratified_split(y, last, n_test, default_rng(0))
    share = np.array(counts) / len(y)
    for part in (test, *(train[:m] for m in training_sizes(name))):
        assert (np.abs(np.bincount(y[part], minlength=len(counts)) - share * len(part)) < 1.5).all()
    assert training_sizes(name)[0] == first and training_sizes(name)[-1] == last


def test_paper_sizes_use_the_whole_file_where_the_paper_does():
    for name in ("waveform", "rice", "wdbc", "sonar"):
        assert SPLITS[name][1] + SPLITS[name][2] == FILES[name].rows
    assert SPLITS["vehicle"][1] + SPLITS["vehicle"][2] == FILES["vehicle"].rows - 1


def test_the_largest_classes_come_first_when_there_is_no_room_for_all():
    y = np.repeat([0, 1, 2, 3], [3, 30, 10, 20])
    train, _ = stratified_split(y, 4, 0, default_rng(3))
    assert y[train].tolist() == [1, 3, 2, 0]


def test_rows_within_a_class_are_random():
    y = np.zeros(1000, int)
    train, test = stratified_split(y, 500, 500, default_rng(1))
    assert 400 < train.mean() < 600 and (np.diff(train) < 0).any()
    assert not np.array_equal(train, stratified_split(y, 500, 500, default_rng(2))[0])


@pytest.mark.parametrize("y, n_train, n_test, named", [
    ([0, 1] * 5, 0, 2, "n_train:"), ([0, 1] * 5, -1, 2, "n_train:"), ([0, 1] * 5, 2.0, 2, "n_train:"), ([0, 1] * 5, 2, -1, "n_test:"),
    ([0, 1] * 5, 8, 3, r"n_train \+ n_test:"), ([], 1, 0, r"n_train \+ n_test:"), ([0, 1.5], 1, 0, "y:"), ([0, -1], 1, 0, "y:"),
    (["a", "b"], 1, 0, "y:"), ([0, np.nan], 1, 0, "y:"), ([[0], [1]], 1, 0, "y:"), (None, 1, 0, "y:")])
def test_split_refuses(y, n_train, n_test, named):
    with pytest.raises(ValueError, match=f"^{named}"):
        stratified_split(y, n_train, n_test, default_rng(0))


# ---- files of arrays

@pytest.mark.parametrize("arrays, named", [
    ({"x": np.array(["a", None], dtype=object)}, "arrays: expected.*'x'"), ({"x": None}, "arrays: expected.*'x'"), ({"x": [[1], [1, 2]]}, "x: expected"),
    ({"x": np.ma.masked_array([1.0, 2.0], [1, 0])}, "x: expected"), ({"file": np.arange(2)}, "arrays: expected.*'file'"),
    ({"header": np.arange(2)}, "arrays: expected.*'header'"), ({"allow_pickle": np.arange(2)}, "arrays: expected.*'allow_pickle'")])
def test_what_could_not_be_read_again_is_not_written(arrays, named, tmp_path):
    write_arrays(tmp_path / "run.npz", {"x": np.arange(3)}, step=1)
    with pytest.raises(ValueError, match=f"^{named}"):
        write_arrays(tmp_path / "run.npz", arrays, step=2)
    back = read_arrays(tmp_path / "run.npz")
    assert back["header"] == {"step": 1} and back["x"].tolist() == [0, 1, 2]
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("name", [[], {}, None, 3, b"iris", "Iris"])
def test_a_name_that_is_none_is_refused(name):
    for function in (load, training_sizes, lambda name: rebuild_csv(name, "")):
        with pytest.raises(ValueError, match="^name: expected"):
            function(name)


@pytest.mark.parametrize("raw_text", [None, 3, b"1,2,Cammeo"])
def test_a_raw_file_must_be_text(raw_text):
    with pytest.raises(ValueError, match="^raw_text: expected"):
        rebuild_csv("rice", raw_text)
