"""The command line on files of many rows: Parquet parts, patterns, budgets, runs that are killed, predictions block by block."""

import csv
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from cmn_literate.learners import LEARNERS, find_learner
from cmn_literate import CMNClassifier, csv_rows, row_sources
from cmn_literate.__main__ import main
from cmn_literate.storage import read_arrays

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
RNG = np.random.default_rng(5)
N = 24_000
FRAME = pandas.DataFrame(RNG.normal(size=(N, 3)), columns=["a", "b", "c"])
FRAME["kind"] = np.where(np.arange(N) < 8000, "one", np.where(FRAME.a * FRAME.b > 0, "two", "one"))      # "two" is unseen in the first part
ARGS = ("--target", "kind", "--experts", "3", "--method", "cavi")


@pytest.fixture
def parts(tmp_path):
    for i in range(3):
        FRAME.iloc[8000 * i:8000 * (i + 1)].to_parquet(tmp_path / f"part-{i}.parquet", row_group_size=3000)
    return tmp_path


def fit(folder, *args, code=0, pattern="part-*.parquet"):
    assert main(["fit", str(folder / pattern), *ARGS, "--max-sweeps", "4", *map(str, args)]) == code


@pytest.fixture(autouse=True)
def handler():
    old = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, old)


def test_parts_in_memory_and_not(parts, capsys):
    fit(parts, "--out", parts / "m.npz")
    said = capsys.readouterr().out
    assert "rows        24000, 3 columns" in said and f"one ({(FRAME.kind == 'one').sum()})" in said
    for budget in ("1MB", "100kB"):
        fit(parts, "--memory", budget, "--out", parts / "n.npz")
        assert capsys.readouterr().out == said.replace("m.npz", "n.npz")
    one, two = (CMNClassifier.load(parts / name) for name in ("m.npz", "n.npz"))
    assert two.memory == "100kB"
    for u, v in zip(one.fits_[0].parameters, two.fits_[0].parameters):
        np.testing.assert_array_equal(u, v)
    FRAME.to_csv(parts / "all.csv", index=False)
    fit(parts, "--memory", "100kB", "--out", parts / "m.npz", pattern="all.csv")
    assert capsys.readouterr().out == said
    fit(parts, "--holdout", 0.25, "--memory", "100kB")
    streamed = capsys.readouterr().out
    fit(parts, "--holdout", 0.25)
    assert capsys.readouterr().out == streamed and "held out    6000 rows (0.25 of the file)" in streamed
    fit(parts, "--test", parts / "part-2.parquet", "--memory", "100kB")
    assert f"held out    8000 rows ({parts / 'part-2.parquet'})" in capsys.readouterr().out


def test_the_default_comes_to_what_the_rows_allow(parts, capsys):
    """Two tables of the same rows: in memory four ascents, with little memory one, and the report says which."""
    usual = [a for a in ARGS if a not in ("--method", "cavi")]
    for budget, name in [("1GB", "several"), ("100kB", "cavi")]:
        args = ["fit", str(parts / "part-0.parquet"), "--test", str(parts / "part-1.parquet"), *usual, "--max-sweeps", "2"]
        frame = FRAME.iloc[:8000].assign(kind=np.where(FRAME.a > 0, "two", "one")[:8000])
        frame.to_parquet(parts / "part-0.parquet")
        assert main([*args, "--memory", budget, "--out", str(parts / "m.npz")]) == 0
        said, model = capsys.readouterr().out, CMNClassifier.load(parts / "m.npz")
        assert f"fit         {name}: 3 experts, 1 start(s), 2 sweeps, not converged" in said and model.method_ == name and model.method == "auto"


def test_predictions_block_by_block(parts, capsys, monkeypatch):
    """CSV and Parquet in, CSV and Parquet out: the same numbers in the order of the rows, as far as tables of other blocks agree."""
    pytest.importorskip("pyarrow.parquet")
    fit(parts, "--out", parts / "m.npz")
    model = CMNClassifier.load(parts / "m.npz")
    few = FRAME.iloc[7000:9000]
    p = model.predict_proba(few[["a", "b", "c"]])
    few[["c", "kind", "a", "b"]].to_csv(parts / "rows.csv", index=False)
    for i, cut in enumerate((slice(0, 700), slice(700, 2000))):
        few.iloc[cut].to_parquet(parts / f"new-{i}.parquet")
    monkeypatch.setattr(row_sources, "BLOCK_BYTES", 8 * 4 * 300)
    monkeypatch.setattr(csv_rows, "PIECE", 1 << 14)
    capsys.readouterr()
    for data in ("new-*.parquet", "rows.csv"):
        for out in ("p.csv", "p.parquet"):
            assert main(["predict", str(parts / "m.npz"), str(parts / data), "--out", str(parts / out)]) == 0
            got = pandas.read_csv(parts / out) if out == "p.csv" else pandas.read_parquet(parts / out)
            assert list(got.columns) == ["one", "two"]
            np.testing.assert_allclose(got.to_numpy(), p, rtol=1e-8)
            os.unlink(parts / out)
    assert main(["predict", str(parts / "m.npz"), str(parts / "rows.csv")]) == 0
    printed = list(csv.reader(capsys.readouterr().out.splitlines()))
    np.testing.assert_allclose(np.array(printed[1:], float), p, rtol=1e-8)


def test_weights_of_rows_and_classes(parts, capsys):
    """--weight and --class-weight, in memory and not: the model of fit(X, y, weights); predict does not see the column."""
    weighed = FRAME.iloc[8000:11_000].assign(w=np.arange(3000) % 3)
    for i in range(3):
        weighed.iloc[1000 * i:1000 * (i + 1)].to_parquet(parts / f"part-{i}.parquet")
    one = CMNClassifier(n_experts=3, max_sweeps=4, random_state=0, class_weight={"two": 2.5}, method="cavi")
    with pytest.warns(UserWarning):
        one.fit(weighed[["a", "b", "c"]], weighed.kind, weighed.w)
    weighing = ("--weight", "w", "--class-weight", "two=2.5")
    for more in ([], ["--memory", "20kB"]):
        fit(parts, *weighing, *more, "--out", parts / "m.npz")
        said, two = capsys.readouterr().out, CMNClassifier.load(parts / "m.npz")
        assert f"weights     {one.moments_.n:g} in all, on 2000 rows" in said and "rows        3000, 3 columns" in said
        assert two.feature_names_in_.tolist() == ["a", "b", "c"] and two.class_weight == {"two": 2.5}
        for u, v in zip(one.fits_[0].parameters, two.fits_[0].parameters):
            np.testing.assert_allclose(u, v, rtol=1e-9, atol=1e-9 * np.abs(v).max())
    few = weighed.iloc[990:1010]
    few[["w", "c", "kind", "a", "b"]].to_csv(parts / "few.csv", index=False)
    assert main(["predict", str(parts / "m.npz"), str(parts / "few.csv"), "--out", str(parts / "p.csv")]) == 0
    np.testing.assert_allclose(pandas.read_csv(parts / "p.csv").to_numpy(), two.predict_proba(few[["a", "b", "c"]]), rtol=1e-13)
    few.drop(columns="w").to_csv(parts / "few.csv", index=False)                        # rows that are scored need none
    fit(parts, "--weight", " w ", "--class-weight", "balanced", "--test", parts / "few.csv", "--out", parts / "m.npz", pattern="part-1.parquet")
    assert "held out    20 rows" in capsys.readouterr().out and CMNClassifier.load(parts / "m.npz").class_weight == "balanced"


def test_faults_of_weights_are_one_line(parts, capsys, monkeypatch):
    monkeypatch.setitem(LEARNERS, "deep", find_learner("deep")._replace(weights="none"))
    weighed = FRAME.assign(w=np.where(np.arange(N) == 20_007, -1.0, 1.0))
    for i in range(3):
        weighed.iloc[8000 * i:8000 * (i + 1)].to_parquet(parts / f"part-{i}.parquet")
    weighed.iloc[19_990:20_010].to_csv(parts / "few.csv", index=False)
    FRAME.iloc[:9].to_csv(parts / "none.csv", index=False)
    for pattern, more, words in (
            ("part-*.parquet", ("--weight", "w"), "part-2.parquet: row 4007, column 'w': expected a weight, a finite number >= 0, got -1.0"),
            ("few.csv", ("--weight", "w"), "few.csv: line 19, column 'w': expected a weight >= 0, got '-1.0'"),
            ("none.csv", ("--weight", "w"), "none.csv: no column 'w'; it has 'a', 'b', 'c', 'kind'"),
            ("few.csv", ("--weight", "kind"), "few.csv: weight: expected a column beside the target"),
            ("few.csv", ("--class-weight", "half"), "--class-weight: expected balanced, or label=factor with a number >= 0, got 'half'"),
            ("few.csv", ("--class-weight", "one=-2"), "got 'one=-2'"), ("few.csv", ("--class-weight", "one=nan"), "got 'one=nan'"),
            ("few.csv", ("--class-weight", "balanced", "--class-weight", "one=2"), "got 'balanced'"),
            ("few.csv", ("--class-weight", "six=2"), "--class-weight: expected labels among one, two, each once, got 'six'"),
            ("few.csv", ("--class-weight", "one=2", "--class-weight", "one=3"), "each once, got 'one'"),
            ("few.csv", ("--weight", "w", "--method", "deep"), "sample_weight, class_weight: method 'deep' takes no weights")):
        fit(parts, *more, "--out", parts / "m.npz", pattern=pattern, code=2)
        said = capsys.readouterr()
        assert said.out == "" and said.err.count("\n") == 1 and words in said.err, said.err
        assert not (parts / "m.npz").exists()


FAULTS = {
    "truncated": (lambda path: path.write_bytes(path.read_bytes()[:-50]), "expected a whole Parquet file"),
    "renamed": (lambda path: FRAME.rename(columns={"b": "B"}).to_parquet(path), "no column 'b'; it has 'a', 'B', 'c', 'kind'"),
    "empty": (lambda path: FRAME.iloc[:0].to_parquet(path), "expected at least one row, got none"),
    "missing": (lambda path: FRAME.assign(c=np.where(np.arange(N) == 20_007, np.nan, FRAME.c)).to_parquet(path), "row 20007, column 'c': expected a finite number, got nan"),
    "no label": (lambda path: FRAME.assign(kind=np.where(np.arange(N) == 9, None, FRAME.kind)).to_parquet(path), "row 9: missing label"),
    "other labels": (lambda path: FRAME.assign(kind=1.0).to_parquet(path), "expected labels of one kind")}


@pytest.mark.parametrize("spoil, words", FAULTS.values(), ids=FAULTS)
def test_faults_are_named_and_leave_nothing(spoil, words, parts, capsys):
    fit(parts, "--out", parts / "m.npz")
    spoil(parts / "part-2.parquet")
    before = {name: (parts / name).read_bytes() for name in os.listdir(parts)}
    capsys.readouterr()
    fit(parts, "--out", parts / "m.npz", "--memory", "100kB", code=2)
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and words in said.err and ("part-2.parquet" in said.err or "of one kind" in said.err), said.err
    if "label" not in words:
        for out in ([], ["--out", parts / "p.csv"], ["--out", parts / "p.parquet"]):
            assert main(["predict", str(parts / "m.npz"), str(parts / "part-*.parquet"), *map(str, out)]) == 2
            assert words in (said := capsys.readouterr()).err and said.out == ""
    assert {name: (parts / name).read_bytes() for name in os.listdir(parts)} == before


def test_one_class_only(parts, capsys):
    for i in range(3):
        FRAME.assign(kind="one").to_parquet(parts / f"part-{i}.parquet")
    fit(parts, "--memory", "100kB", "--out", parts / "m.npz", code=2)
    assert "at least two classes, got one class: ['one']" in capsys.readouterr().err and not (parts / "m.npz").exists()


@pytest.mark.skipif(os.name != "posix", reason="sends SIGKILL")
@pytest.mark.parametrize("signal_number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)], ids=["SIGKILL", "SIGINT"])
def test_a_killed_fit_goes_on(signal_number, parts, capsys):
    """The process dies in the middle of a sweep; the same command ends at the bits of a run that was left alone."""
    args = ["fit", str(parts / "part-*.parquet"), *ARGS, "--option", "tol=1e-300", "--memory", "100kB", "--resume", str(parts / "run.npz")]
    code = "import sys, cmn_literate.engineering.out_of_core as o; f = o.passes; o.passes = lambda *a: f(*a, portion=7000); from cmn_literate.__main__ import main; sys.exit(main())"
    started = [sys.executable, "-c", code, *args, "--out", str(parts / "m.npz")]
    running = subprocess.Popen([*started, "--max-sweeps", "1000000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    while not ((parts / "run.npz").exists() and read_arrays(parts / "run.npz")["header"]["done"][0] >= 3):
        assert running.poll() is None, running.stderr.read()
        time.sleep(0.01)
    running.send_signal(signal_number)
    err = running.communicate()[1]
    assert running.returncode == (130 if signal_number == signal.SIGINT else -9) and not (parts / "m.npz").exists(), err
    done, = read_arrays(parts / "run.npz")["header"]["done"]                               # portions of 7,000 rows; a sweep has more than three
    sweeps = str(done // 3 + 3)
    subprocess.run([*started, "--max-sweeps", sweeps], check=True, capture_output=True)
    straight = [a for a in args if a not in ("--resume", str(parts / "run.npz"))]
    assert main([*straight, "--max-sweeps", sweeps, "--out", str(parts / "n.npz")]) == 0
    one, two = (CMNClassifier.load(parts / name) for name in ("m.npz", "n.npz"))
    np.testing.assert_array_equal(one.trace_, two.trace_)
    for u, v in zip(one.fits_[0].parameters, two.fits_[0].parameters):
        np.testing.assert_array_equal(u, v)


def test_standard_input_is_kept_in_a_file_while_it_is_read(parts, monkeypatch, capsys):
    import io
    import tempfile
    monkeypatch.setattr(tempfile, "tempdir", str(parts / "tmp"))
    (parts / "tmp").mkdir()
    text = FRAME.iloc[7000:9000].to_csv(index=False).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert main(["fit", "-", *ARGS, "--max-sweeps", "2", "--memory", "20kB"]) == 0
    assert "rows        2000, 3 columns" in capsys.readouterr().out and not os.listdir(parts / "tmp")


def test_progress_by_rows(parts, capsys):
    pytest.importorskip("tqdm")
    fit(parts, "-v", "--memory", "100kB")
    assert "/96000 [" in capsys.readouterr().err                                           # 4 sweeps of 24,000 rows
