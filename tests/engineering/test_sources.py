"""Sources of rows: the same rows from wherever they come, and what is wrong with them by name."""
import gzip
import os
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from cmn_literate import csv_rows, row_sources
from cmn_literate.engineering.sources import (
    block_moments, coded_blocks, draw_sample, label_codes, merge_moments, moment_scale, survey)
from cmn_literate.engineering.starts import key_generator, repeat_rows, start_rows
from cmn_literate.readers import is_source, load_rows, open_source
from cmn_literate.row_sources import ArraySource, CallableSource, SelectedSource, WeighedSource, counted_blocks

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)) * [1, 1e3, 1e-3] + [5, 0, 1]
Y = np.array(["no", "yes", "perhaps"])[np.r_[np.ones(30, int), RNG.integers(3, size=30)]]
FRAME = pandas.DataFrame(X, columns=["a", "b", "c"]).assign(y=Y)
CUTS = [slice(0, 13), slice(13, 14), slice(14, 60)]


def pairs(sizes=(7, 1, 40, 12)):
    edges = np.cumsum([0, *sizes])
    return ((X[s:e], Y[s:e]) for s, e in zip(edges, edges[1:]))


def parquet(folder, frames=None):
    for i, frame in enumerate(frames or [FRAME.iloc[cut] for cut in CUTS]):
        frame[sorted(frame.columns, reverse=i % 2 == 1)].to_parquet(folder / f"part-{i}.parquet", row_group_size=10)   # another order
    return str(folder / "part-*.parquet")


def table(folder):
    for i, cut in enumerate(CUTS):
        FRAME.iloc[cut][["y", "c", "b", "a"] if i else list("abcy")].to_csv(folder / f"part-{i}.csv", index=False)
    return str(folder / "part-*.csv")


def mapped(folder):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


def dask_frame(folder):
    return pytest.importorskip("dask.dataframe").from_pandas(FRAME, npartitions=4)


def dask_arrays(folder):
    da = pytest.importorskip("dask.array")
    return da.from_array(X, chunks=(17, 2)), da.from_array(Y, chunks=23)


KINDS = {"arrays": lambda folder: (X, Y), "mmap": lambda folder: (mapped(folder), Y), "pandas": lambda folder: FRAME, "csv": table,
         "parquet": parquet, "arrow": lambda folder: __import__("pyarrow").Table.from_pandas(FRAME), "callable": lambda folder: pairs,
         "dask frame": dask_frame, "dask arrays": dask_arrays}


def rows(blocks):
    return tuple(map(np.concatenate, zip(*blocks)))


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_rows_from_wherever(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(row_sources, "BLOCK_BYTES", 8 * 4 * 11)                         # blocks of 11 rows
    source = open_source(KINDS[kind](tmp_path), None if kind in ("arrays", "mmap", "callable", "dask arrays") else "y")
    assert source.n_rows in (60, None) and len(source.columns) == 3
    for start in (0, 1, 13, 14, 37, 59):
        got, labels = rows(source.blocks(start))
        assert got.dtype == np.float64 and got.flags.c_contiguous
        assert_array_equal(got, X[start:])
        assert_array_equal(labels, Y[start:])
    parts = source.parts()
    assert_array_equal(rows(block for part in parts for block in part.blocks())[0], X)
    assert all(part.columns == source.columns for part in parts) and (len(parts) > 1 or kind == "callable" or source.n_rows is None or kind == "pandas" or kind == "arrow")
    loaded = load_rows(source, lambda L: 60)
    assert_array_equal(loaded.X, X)
    assert_array_equal(loaded.classes[loaded.codes], Y)
    assert load_rows(source, lambda L: 59) is None
    half = SelectedSource(source, np.arange(60) % 2 == 0)
    assert_array_equal(rows(half.blocks(3))[0], X[::2][3:])
    assert half.n_rows == 30 and half.columns == source.columns


@pytest.mark.parametrize("write", [
    lambda text: text.encode(), lambda text: text.replace("\n", "\r\n").encode(), lambda text: gzip.compress(text.encode()),
    lambda text: text.encode("utf-8-sig"), lambda text: text.replace("\n", "\n\n").encode(), lambda text: text.rstrip("\n").encode()])
@pytest.mark.parametrize("piece", [1, 100, 1 << 20])
def test_csv_by_two_readers(write, piece, tmp_path, monkeypatch):
    """pyarrow, Python's csv, and cells that only the second reads, in pieces of any size."""
    lines = [f'{a!r},"{b!r}",{label}' for (a, b, _), label in zip(X.tolist(), Y)]
    lines[20] = '+1.5, 2 ,"perhaps"'
    lines[21] = '1.5,2,"per\nhaps"'
    text = "a,b,y\n" + "\n".join(lines) + "\n"
    if b"\n\n" in write("x\n\n"[:2]) or write("\n") == b"\n\n":
        text = text.replace("per\nhaps", "perhaps")
    (tmp_path / "d.csv").write_bytes(write(text))
    monkeypatch.setattr(csv_rows, "PIECE", piece)
    monkeypatch.setattr(csv_rows.CsvFile._pieces, "__defaults__", (piece,))
    both, fast = open_source(tmp_path / "d.csv", "y"), csv_rows.CsvFile._fast
    assert both.columns == ("a", "b")
    seen = []
    monkeypatch.setattr(csv_rows.CsvFile, "_fast", lambda *args: seen.append(fast(*args)) or seen[-1])
    one = rows(both.blocks())
    assert any(done is not None for done in seen) or piece == 1 << 20
    monkeypatch.setattr(csv_rows.CsvFile, "_fast", lambda *args: None)
    two = rows(both.blocks())
    for u, v in zip(one, two):
        assert_array_equal(u, v)
    assert_array_equal(one[0][:20], X[:20, :2])
    assert one[0][20].tolist() == one[0][21].tolist() == [1.5, 2.0] and len(one[0]) == 60
    bad = text.replace(lines[55], "1,x,no")
    (tmp_path / "bad.csv").write_bytes(write(bad))
    line = next(i for i, row in enumerate(write(bad).splitlines() if not write(bad)[:2] == b"\x1f\x8b" else bad.splitlines(), 1)
                if (row if isinstance(row, str) else row.decode()) == "1,x,no")
    with pytest.raises(ValueError, match=f"bad.csv: line {line}, column 'b': expected a number, got 'x'"):
        rows(open_source(tmp_path / "bad.csv", "y").blocks())


def test_csv_without_pyarrow(tmp_path, monkeypatch):
    source = open_source(table(tmp_path), "y")
    with_it = rows(source.blocks())
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    assert_array_equal(rows(source.blocks())[0], with_it[0])
    assert_array_equal(rows(source.blocks())[1], with_it[1])


W = np.round(RNG.gamma(1.0, size=60), 3) * (np.arange(60) % 5 > 0)
WEIGHTED = FRAME.assign(w=W)


def weighted(kind, folder):
    """The rows of KINDS with their weights, as a source."""
    if kind == "csv":
        for i, cut in enumerate(CUTS):
            WEIGHTED.iloc[cut][["w", "y", "c", "b", "a"] if i else list("abcyw")].to_csv(folder / f"part-{i}.csv", index=False)
        return open_source(str(folder / "part-*.csv"), "y", weight="w")
    if kind == "parquet":
        return open_source(parquet(folder, [WEIGHTED.iloc[cut] for cut in CUTS]), "y", weight="w")
    if kind in ("pandas", "arrow", "dask frame"):
        make = {"pandas": lambda frame: frame, "arrow": lambda frame: __import__("pyarrow").Table.from_pandas(frame),
                "dask frame": lambda frame: pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=4)}[kind]
        return open_source(make(WEIGHTED), "y", weight="w")
    if kind == "callable":
        edges = [slice(s, s + 7) for s in range(0, 60, 7)]
        return open_source(lambda: ((X[e], Y[e], W[e]) for e in edges))
    if kind == "mmap":
        np.save(folder / "W.npy", W)
        return open_source((mapped(folder), Y), weight=np.load(folder / "W.npy", mmap_mode="r"))
    da = pytest.importorskip("dask.array") if kind == "dask arrays" else None
    return open_source(KINDS[kind](folder), weight=W if da is None else da.from_array(W, chunks=29))


@pytest.mark.parametrize("kind", KINDS)
def test_weights_pass_by_with_their_rows(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(row_sources, "BLOCK_BYTES", 8 * 4 * 11)
    source, counts = weighted(kind, tmp_path), W > 0
    assert len(source.columns) == 3 and source.weight == ("w" if source.named else "weight")
    for start in (0, 14, 37):
        got, labels, weight = rows(source.blocks(start))
        assert got.flags.c_contiguous and weight.dtype == np.float64
        for one, other in zip((got, labels, weight), (X, Y, W)):
            assert_array_equal(one, other[start:])
        for one, other in zip(rows(counted_blocks(source, start)), (X, Y, W)):
            assert_array_equal(one, other[counts][start:])
    assert_array_equal(rows(block for part in source.parts() for block in part.blocks())[2], W)
    loaded = load_rows(source, lambda L: 60)
    for one, other in zip((loaded.X, loaded.classes[loaded.codes], loaded.weight), (X, Y, W)):
        assert_array_equal(one, other[counts])
    half = SelectedSource(source, np.arange(60) % 2 == 0)
    assert_array_equal(rows(half.blocks(3))[2], W[::2][3:])
    twice = WeighedSource(half, np.array(["no", "perhaps", "yes"]), np.array([2.0, 1.0, 0.0]))
    assert twice.weight == source.weight
    assert_array_equal(rows(twice.blocks(4))[2], (W * np.where(Y == "no", 2.0, Y == "perhaps"))[::2][4:])


def test_faults_of_weights_are_named(tmp_path):
    """By file and row, in a CSV file by line and column."""
    for value, words in ((-1.0, "-1.0"), (np.nan, "nan"), (np.inf, "inf")):
        parts = [WEIGHTED.iloc[cut].copy() for cut in CUTS]
        parts[2].iloc[20, 4] = value
        refuse(f"part-2.parquet: row 20, column 'w': expected a weight, a finite number >= 0, got {words}",
               rows, open_source(parquet(tmp_path, parts), "y", weight="w").blocks())
        bad = np.where(np.arange(60) == 31, value, W)
        refuse(f"X: row 31, column 'weight': expected a weight, a finite number >= 0, got {words}", rows, open_source((X, Y), weight=bad).blocks())
        refuse(f"X: row 31, column 'weight': expected a weight, a finite number >= 0, got {words}", rows,
               open_source(lambda bad=bad: iter([(X[:9], Y[:9], bad[:9]), (X[9:], Y[9:], bad[9:])])).blocks())
        refuse(f"X: row 31, column 'w': expected a weight, a finite number >= 0, got {words}", rows,
               open_source(FRAME.assign(w=bad), "y", weight="w").blocks())
    for cell, words in (("-1", "expected a weight >= 0, got '-1'"), ("", "missing value"), ("two", "expected a number, got 'two'"), ("inf", "expected a finite")):
        (tmp_path / "w.csv").write_text(f"a,w,y\n1,2,u\n2,{cell},v\n")
        refuse(f"w.csv: line 3, column 'w': {words}", rows, open_source(tmp_path / "w.csv", "y", weight="w").blocks())
    parts = [WEIGHTED.iloc[cut] for cut in CUTS]
    refuse("part-2.parquet: no column 'w'; it has", open_source, parquet(tmp_path, [*parts[:2], parts[2].drop(columns="w")]), "y", None, ",", ".", "w")
    refuse("part-2.parquet: expected numeric columns, got w", open_source, parquet(tmp_path, [*parts[:2], parts[2].assign(w="2")]), "y", None, ",", ".", "w")
    refuse("X: expected numeric columns, got w", open_source, FRAME.assign(w="x"), "y", None, ",", ".", "w")
    for i in range(3):
        (tmp_path / f"{i}.csv").write_text("a,y,w\n1,u,1\n" if i < 2 else "a,y\n1,u\n")
    refuse("2.csv: no column 'w'; it has 'a', 'y'", open_source, [tmp_path / f"{i}.csv" for i in range(3)], "y", None, ",", ".", "w")
    refuse("weight: expected a column beside the target and those of X, got 'y'", open_source, WEIGHTED, "y", None, ",", ".", "y")
    refuse("weight: expected a column beside the target and those of X, got 'a'", open_source, WEIGHTED, "y", ["a", "b"], ",", ".", "a")
    refuse("sample_weight: expected one weight for each of 60 rows, got shape (59,)", lambda: open_source((X, Y), weight=W[1:]))
    refuse("sample_weight: expected the name of a column for files, got ndarray", lambda: open_source(tmp_path / "0.csv", "y", weight=W))
    refuse("sample_weight: expected an array for ndarray, got 'w'", lambda: open_source((X, Y), weight="w"))
    refuse("sample_weight: expected None, since the source brings its weights, got str", lambda: open_source(pairs, weight="w"))
    refuse("X: expected 60 weights from row 0 on, got shape (59,)", read_all, lambda: iter([(X, Y, W[1:])]))
    refuse("X: expected blocks (X, y, weight), got tuple of 2", read_all, lambda: iter([(X, Y, W), (X, Y)]))
    refuse("X: expected blocks (X, y), got tuple of 3", read_all, lambda: iter([(X, Y), (X, Y, W)]))
    refuse("X: expected at least one row with a positive weight, got none", survey, ArraySource(X, Y, weights=0 * W), [])
    refuse("X: expected at least one row with a positive weight, got none", load_rows, ArraySource(X, Y, weights=0 * W), lambda L: 60)


@pytest.mark.parametrize("weight", [W, np.floor(3 * W), np.full(60, 0.5)], ids=["fractions", "whole", "halves"])
def test_the_survey_of_weighted_rows(weight):
    """Moments, label weights and the sample are those of a fit that holds the rows, whatever the blocks."""
    counts, rng = weight > 0, np.random.default_rng(7)
    if (weight == np.floor(weight)).all():
        copies = np.repeat(np.arange(60), weight.astype(int))
    else:
        copies = np.flatnonzero(counts)[repeat_rows(weight[counts])]
    taken = start_rows(X[copies], Y[copies], np.random.default_rng(7), 20)
    for size in (60, 7, 1):
        source = CallableSource(lambda size=size: ((X[s:s + size], Y[s:s + size], weight[s:s + size]) for s in range(0, 60, size)))
        found = survey(source, [rng, np.random.default_rng(8)], most=20)
        assert found.n_rows == counts.sum() and found.whole == (weight == np.floor(weight)).all()
        assert_allclose(found.counts, [weight[Y == label].sum() for label in found.classes], rtol=1e-13)
        for one, other in zip(found.moments, block_moments(X[counts], weight[counts])):
            assert_allclose(one, other, rtol=1e-12)
        for one, other in zip(taken, found.samples[0][1:]):
            assert_array_equal(one, other)
        assert not np.array_equal(found.samples[1].X, taken[0])
        got = rows(passing(source, found, size=16, start=16))
        for one, other in zip(got, (X, np.searchsorted(found.classes, Y), weight)):
            assert_array_equal(one, other[counts][16:])
        calls = []
        changing = CallableSource(lambda: calls.append(0) or iter([(X, Y, weight * (1 + (len(calls) > 3)))]))
        refuse("other rows came", lambda changing=changing: passing(changing, survey(changing, [rng]), size=16))


def refuse(text, function, *args):
    with pytest.raises(ValueError) as said:
        function(*args)
    assert text in str(said.value), said.value


def read_all(data, target="y"):
    return rows(open_source(data, target).blocks())


def test_faults_of_parquet_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(row_sources, "BLOCK_BYTES", 8 * 4 * 5)                          # blocks of 5 rows
    pattern = parquet(tmp_path)
    part = tmp_path / "part-2.parquet"
    whole = part.read_bytes()
    part.write_bytes(whole[:-100])                                                       # truncated
    refuse("part-2.parquet: expected a whole Parquet file", read_all, pattern)
    broken = bytearray(whole)
    broken[4:400] = bytes(396)                                                           # its end is there, its middle is not
    part.write_bytes(broken)
    refuse("part-2.parquet: ", read_all, pattern)
    part.write_bytes(b"")
    refuse("part-2.parquet: expected a whole Parquet file", read_all, pattern)
    FRAME.rename(columns={"b": "B"}).to_parquet(part)
    refuse("part-2.parquet: no column 'b'; it has 'a', 'B', 'c', 'y'", read_all, pattern)
    FRAME.iloc[:0].to_parquet(part)
    refuse("part-2.parquet: expected at least one row, got none", read_all, pattern)
    FRAME.assign(b="text").to_parquet(part)
    refuse("part-2.parquet: expected numeric columns, got b", read_all, pattern)
    for value, text in ((np.nan, "nan"), (np.inf, "inf")):
        FRAME.assign(b=np.where(np.arange(60) == 17, value, X[:, 1])).to_parquet(part, row_group_size=8)
        refuse(f"part-2.parquet: row 17, column 'b': expected a finite number, got {text}", read_all, pattern)
    FRAME.assign(y=np.where(np.arange(60) == 23, None, Y)).to_parquet(part, row_group_size=9)
    refuse("part-2.parquet: row 23: missing label", read_all, pattern)
    FRAME.assign(b=pandas.array(np.arange(60), "Int64"), y=Y == "yes", a=np.arange(60) > 3).to_parquet(part)             # whole numbers, booleans
    got, labels = read_all(part)
    assert_array_equal(got[:, 1], np.arange(60))
    assert labels.dtype == bool


def test_faults_of_other_sources(tmp_path):
    spoilt = X.copy()
    spoilt[41, 2] = np.nan
    refuse("X: row 41, column 'x2': expected a finite number, got nan", read_all, (spoilt, Y))
    refuse("y: expected one label for each of 60 rows, got shape (59,)", open_source, (X, Y[1:]))
    refuse("X: expected a callable that returns blocks (X, y), got no block", open_source, lambda: ())
    refuse("X: expected a callable that returns an iterator", open_source, lambda: 3)
    refuse("X: expected blocks (X, y), got ndarray", open_source, lambda: iter([X]))
    refuse("X: expected arrays, a frame, files", open_source, pairs())                   # used up after one pass
    refuse("X: expected blocks (rows, 3), got shape (60, 2) at row 60", read_all, lambda: iter([(X, Y), (X[:, :2], Y)]))
    refuse("X: expected 60 labels from row 0 on, got shape (59,)", read_all, lambda: iter([(X, Y[1:])]))
    refuse("no column 'nope'; it has 'a', 'b', 'c', 'y'", open_source, FRAME, "nope")
    refuse("expected files of one kind", open_source, [parquet(tmp_path), table(tmp_path)], "y")
    refuse("expected a file, a directory or a pattern", open_source, str(tmp_path / "*.tsv"))
    with pytest.raises(FileNotFoundError):
        open_source(tmp_path / "none.csv")
    (tmp_path / "inner").mkdir()
    refuse("inner: expected a file, a directory", open_source, tmp_path / "inner")
    parquet(tmp_path / "inner")
    (tmp_path / "inner/_SUCCESS").write_text("")
    assert_array_equal(read_all(tmp_path / "inner")[0], X)                               # a folder
    with open(tmp_path / "part-1.csv", "w") as out:
        out.write("a,b,c,y\n")
    refuse("part-1.csv: expected a header and at least one row, got 1 line(s)", open_source, str(tmp_path / "part-*.csv"), "y")
    (tmp_path / "part-1.csv").write_text("a,B,c,y\n1,2,3,no\n")
    refuse("part-1.csv: no column 'b'; it has 'a', 'B', 'c', 'y'", open_source, str(tmp_path / "part-*.csv"), "y")
    (tmp_path / "part-1.csv").write_text("a,b,c,y\n1,2,3,Yes\n")
    refuse("part-1.csv: column 'y': labels 'Yes' and 'yes' differ in form only", read_all, str(tmp_path / "part-*.csv"))
    assert is_source("x.csv") and is_source(["x.csv"]) and is_source(pairs) and not is_source(X) and not is_source([[1.0]]) and not is_source(FRAME)


def test_survey_does_not_see_the_blocks():
    """Moments, labels and the sample are those of the rows, whatever the blocks; the sample is the one a fit in memory takes."""
    rng = np.random.default_rng(7)
    found = [survey(CallableSource(partial(pairs, sizes)), [rng, np.random.default_rng(8)], most=20)
             for sizes in ((60,), (7, 1, 40, 12), (1,) * 60)]
    assert rng.random() == np.random.default_rng(7).random()
    taken = start_rows(X, Y, np.random.default_rng(7), 20)
    for one in found:
        assert one.n_rows == 60 and one.classes.tolist() == ["no", "perhaps", "yes"]
        assert one.counts.tolist() == [(Y == label).sum() for label in one.classes]
        for u, v in zip(taken, one.samples[0][1:]):
            assert_array_equal(u, v)
        assert not np.array_equal(one.samples[1].X, taken[0])
        mean, scale = moment_scale(one.moments)
        assert_allclose(mean, X.mean(0), rtol=1e-13)
        assert_allclose(scale, X.std(0), rtol=1e-12)
    few = survey(CallableSource(pairs), [np.random.default_rng(7)], most=60)
    assert_array_equal(few.samples[0].X, X)


def test_moments_far_from_zero():
    """The parallel formula keeps the digits that sums of squares lose."""
    far = 1e9 + RNG.normal(size=(10_000, 2))
    parts = [block_moments(far[s:s + 77]) for s in range(0, 10_000, 77)]
    while len(parts) > 1:                                                                # as a tree
        parts = [merge_moments(*parts[i:i + 2]) if i + 1 < len(parts) else parts[i] for i in range(0, len(parts), 2)]
    assert_allclose(moment_scale(parts[0])[1], (far - 1e9).std(0), rtol=1e-6)
    assert moment_scale(block_moments(np.full((5, 1), 0.1)))[1].tolist() == [1.0]
    assert_allclose(moment_scale(block_moments(1e-200 * X))[1], 1e-200 * moment_scale(block_moments(X))[1], rtol=1e-9)


def test_every_set_of_rows_is_as_likely():
    counts = {}
    for seed in range(3000):
        keys, sample = key_generator(np.random.default_rng(seed)), None
        for n in range(4):
            sample = draw_sample(sample, keys.random(1), np.array([[n]]), np.array([n]), most=2)
        counts[tuple(sample.y.tolist())] = counts.get(tuple(sample.y.tolist()), 0) + 1
    assert len(counts) == 6 and sum((n - 500)**2 / 500 for n in counts.values()) < 20.5          # chi2, 5 degrees: 1 in 1,000


def test_labels():
    refuse("expected labels of one kind", survey, CallableSource(lambda: iter([(X, Y), (X, np.arange(60))])), [])
    refuse("expected labels, got rows without", survey, ArraySource(X), [])
    refuse("y: expected labels among ['a', 'c'], got 'b'", label_codes, np.array(["a", "b"]), np.array(["a", "c"]))
    refuse("y: expected labels among [1, 2], got 3", label_codes, np.array([1, 3]), np.array([1, 2]))
    whole = survey(CallableSource(lambda: iter([(X, np.zeros(60, int)), (X, np.full(60, 2.0))])), [])
    assert whole.classes.tolist() == [0, 2] and whole.counts.tolist() == [60, 60]


def passing(source, found, **others):
    return [block for block in coded_blocks(source, found, found.classes, 0.0, 1.0, **others)]


def test_blocks_of_one_size_and_the_last_short_one():
    source = CallableSource(pairs)
    found = survey(source, [])
    for size in (1, 7, 16, 60, 100):
        blocks = passing(source, found, size=size)
        assert [len(Z) for Z, _ in blocks] == [size] * (60 // size) + [60 % size] * (60 % size > 0)
        assert_array_equal(rows(blocks)[0], X)
        assert_array_equal(found.classes[rows(blocks)[1]], Y)
        assert_array_equal(rows(passing(source, found, size=size, start=min(size, 59)))[0], X[min(size, 59):])


def test_files_that_change_between_passes(tmp_path):
    source = open_source(parquet(tmp_path), "y")
    found = survey(source, [])
    passing(source, found, size=16)
    part = tmp_path / "part-1.parquet"
    then = os.stat(part).st_mtime_ns
    os.utime(part, ns=(then, then + 1))
    refuse("part-1.parquet: expected the rows of the first pass, but the file has changed since: fit a copy that nobody writes to",
           lambda: passing(source, found, size=16))
    refuse("the file has changed since", next, coded_blocks(source, found, found.classes, 0.0, 1.0, 16))      # before any row
    os.utime(part, ns=(then, then))
    passing(source, found, size=16)
    half = coded_blocks(source, found, found.classes, 0.0, 1.0, 16)
    next(half)
    os.utime(part, ns=(then, then + 1))                                                   # in the middle of a pass
    refuse("the file has changed since", list, half)


@pytest.mark.parametrize("later", [
    lambda: pairs((8, 52)), lambda: iter([(X + 1e-9, Y)]), lambda: iter([(X, Y[::-1])]), lambda: iter([(X[:59], Y[:59])]), lambda: iter(())])
def test_rows_that_change_between_passes(later):
    calls = []
    source = CallableSource(lambda: calls.append(0) or (iter([(X, Y)]) if len(calls) <= 2 else later()))
    refuse("X: expected the rows of the first pass, but other rows came", lambda found: passing(source, found, size=16), survey(source, []))


def test_a_pass_that_ends_early():
    calls = []

    def stream():
        calls.append(0)
        yield X[:30], Y[:30]
        if len(calls) <= 2:
            yield X[30:], Y[30:]

    source = CallableSource(stream)
    refuse("other rows came", lambda found: passing(source, found, size=16), survey(source, []))
