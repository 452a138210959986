"""The command line, as a user meets it: small CSV files, every error in one line; in a process of its own where that matters."""

import contextlib
import csv
import io
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from cmn_literate import CMNClassifier, __version__
from cmn_literate.__main__ import main, stop

LAST_RESORT = 900                                                     # seconds; a command that hangs
rng = np.random.default_rng(0)
X = rng.normal(size=(80, 2))
Y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other, sign")             # a comma: the cell must be quoted


def run(*args, stdin=b"", code=0, process=False):
    """returncode, stdout and stderr of the command with these bytes as standard input.  In this process unless told otherwise: faster."""
    if process:
        done = subprocess.run([sys.executable, "-m", "cmn_literate", *map(str, args)], capture_output=True, input=stdin, timeout=LAST_RESORT)
        done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
    else:
        handler = signal.getsignal(signal.SIGINT)
        with (pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as said,
              contextlib.redirect_stderr(io.StringIO()) as complained):
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin)), encoding="utf-8"))
            try:
                status = main([*map(str, args)])
            except SystemExit as left:
                status = left.code or 0
        signal.signal(signal.SIGINT, handler)
        done = subprocess.CompletedProcess(args, status, said.getvalue(), complained.getvalue())
    assert done.returncode == code, done.stdout + done.stderr
    return done


def refused(*args, process=False, stdin=b""):
    """Exit 2, nothing on standard output, one line on standard error, which is returned."""
    done = run(*args, code=2, process=process, stdin=stdin)
    assert done.stdout == "" and done.stderr.startswith("cmn_literate: ") and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def write(path, rows, header=("x, left", "größe", "kind")):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    rows = [[repr(float(a)), repr(float(b)), label] for (a, b), label in zip(X, Y)]
    write(folder / "train.csv", rows[:60])
    write(folder / "test.csv", [row[::-1] for row in rows[60:]], header=("kind", "größe", "x, left"))        # another order
    run("fit", folder / "train.csv", "--target", "kind", "--experts", 4, "--max-sweeps", 40, "--out", folder / "model.npz")
    return folder


def test_version_and_help():
    assert run("--version", process=True).stdout == f"cmn_literate {__version__}\n"
    assert "predict" in run("--help").stdout and "--target" in run("fit", "--help").stdout
    assert "--out" in run("predict", "--help").stdout
    for args in ([], ["fit"], ["nonsense"], ["fit", "x.csv"], ["fit", "x.csv", "--target", "y", "--experts", "0"],
                 ["fit", "x.csv", "--target", "y", "--holdout", "1.5"], ["fit", "x.csv", "--target", "y", "--holdout", "x"],
                 ["fit", "x.csv", "--target", "y", "--seed", "-1"], ["fit", "x.csv", "--target", "y", "--test", "a", "--holdout", ".2"]):
        with pytest.raises(SystemExit) as left, contextlib.redirect_stderr(io.StringIO()) as said:
            main(args)
        assert left.value.code == 2 and "usage:" in said.getvalue()


def test_fit_reports(place):
    done = run("fit", place / "train.csv", "--target", "kind", "--experts", 4, "--max-sweeps", 40, "--method", "cavi", "--test", place / "test.csv", process=True)
    lines = dict(line.split(None, 1) if not line.startswith("log") else ("log", line[9:].strip()) for line in done.stdout.splitlines()
                 if not line.startswith("held"))
    assert lines["rows"] == "60, 2 columns" and "same (" in lines["classes"] and "cavi: 4 experts, 1 start(s), 40 sweeps" in lines["fit"]
    assert done.stderr == ""                                          # no progress bar in a pipe, no warning
    model = CMNClassifier(n_experts=4, max_sweeps=40, random_state=0, method="cavi")
    with pytest.warns(UserWarning):
        model.fit(X[:60], Y[:60])
    assert lines["ELBO"] == f"{model.elbo_:.3f} nats"
    p = model.predict_proba(X[60:])
    right = (Y[60:, None] == model.classes_)
    assert lines["accuracy"] == f"{float(right[np.arange(20), p.argmax(1)].mean()):.4f}"
    assert lines["log"] == f"{float(np.log(p[right]).mean()):.4f} nats per row"
    assert 0 <= float(lines["ECE"].split()[0]) <= 1


def test_holdout_and_options(place):
    args = ("fit", place / "train.csv", "--target", "kind", "--experts", 3, "--latent-dim", 2, "--n-init", 2, "--max-sweeps", 9, "--holdout", 0.25)
    one, two, other = run(*args), run(*args, process=True), run(*args, "--seed", 5)
    assert one.stdout == two.stdout != other.stdout
    assert "held out    15 rows (0.25 of the file)" in one.stdout and "rows        45," in one.stdout and "2 start(s)" in one.stdout


def test_predict(place):
    done = run("predict", place / "model.npz", place / "test.csv")    # the target's column is there, and ignored
    rows = list(csv.reader(done.stdout.splitlines()))
    assert rows[0] == ["other, sign", "same"] and done.stderr == ""
    p = np.array(rows[1:], dtype=float)
    np.testing.assert_array_equal(p, CMNClassifier.load(place / "model.npz").predict_proba(
        __import__("pandas").DataFrame(X[60:], columns=["x, left", "größe"])))
    run("predict", place / "model.npz", place / "test.csv", "--out", place / "p.csv")
    assert (place / "p.csv").read_text() == done.stdout
    text = (place / "test.csv").read_text()
    assert run("predict", place / "model.npz", "-", stdin=text.encode()).stdout == done.stdout
    (place / "bom.csv").write_text("\n\n".join(text.splitlines()) + "\n\n", encoding="utf-8-sig")            # byte-order mark, blank lines
    assert run("predict", place / "model.npz", place / "bom.csv", "--out", "-").stdout == done.stdout


def test_model_of_the_estimator_takes_columns_by_place(place):
    with pytest.warns(UserWarning):
        CMNClassifier.paper(n_experts=2, max_sweeps=5).fit(X, Y).save(place / "plain.npz")
    write(place / "two.csv", X[:3].tolist(), header=("u", "v"))
    assert run("predict", place / "plain.npz", place / "two.csv").stdout.count("\n") == 4
    assert "expected 2 columns" in refused("predict", place / "plain.npz", place / "test.csv")


BAD = {
    "missing": ([["1", "2", "a"], ["", "2", "b"]], "line 3, column 'x, left': missing value"),
    "question mark": ([["1", "?", "a"], ["1", "2", "b"]], "line 2, column 'größe': missing value"),
    "NaN": ([["1", "2", "a"], ["nan", "2", "b"]], "line 3, column 'x, left': missing value"),
    "text": ([["1", "2", "a"], ["1", "two", "b"]], "line 3, column 'größe': expected a number, got 'two'"),
    "underscore": ([["1", "2", "a"], ["1_0", "2", "b"]], "expected a number, got '1_0'"),
    "infinite": ([["1", "2", "a"], ["1", "inf", "b"]], "line 3, column 'größe': expected a finite number"),
    "overflow": ([["1", "2", "a"], ["1", "1e999", "b"]], "expected a finite number"),
    "short": ([["1", "2", "a"], ["1", "2"]], "line 3: expected 3 cells, got 2"),
    "no label": ([["1", "2", "a"], ["1", "2", " "]], "line 3, column 'kind': missing label"),
    "one class": ([["1", "2", "a"], ["1", "2", "a"]], "at least two classes"),
    "one row": ([["1", "2", "a"]], "expected at least 2 rows, got 1"),
    "no rows": ([], "expected a header and at least one row")}


@pytest.mark.parametrize("rows, message", BAD.values(), ids=BAD)
def test_bad_cells_are_named(tmp_path, rows, message):
    assert message in refused("fit", write(tmp_path / "bad.csv", rows), "--target", "kind", "--out", tmp_path / "m.npz")
    assert not (tmp_path / "m.npz").exists()


def test_bad_files(place, tmp_path):
    good = place / "train.csv"
    assert "no column 'nope'; it has 'x, left', 'größe', 'kind'" in refused("fit", good, "--target", "nope")
    assert "No such file" in refused("fit", tmp_path / "none.csv", "--target", "kind")
    assert "directory" in refused("fit", tmp_path, "--target", "kind").lower()
    (tmp_path / "latin.csv").write_bytes("größe,kind\n1,a\n".encode("latin-1"))
    assert "UTF-8" in refused("fit", tmp_path / "latin.csv", "--target", "kind")
    (tmp_path / "quote.csv").write_text('a,kind\n"1,a\n')
    assert "CSV" in refused("fit", tmp_path / "quote.csv", "--target", "kind")
    for header, message in ((("a", "a", "kind"), "twice: a"), (("a", "", "kind"), "empty name")):
        assert message in refused("fit", write(tmp_path / "h.csv", [["1", "2", "a"]], header), "--target", "kind")
    write(tmp_path / "only.csv", [["a"], ["b"]], header=("kind",))
    assert "beside 'kind'" in refused("fit", tmp_path / "only.csv", "--target", "kind")
    write(tmp_path / "test.csv", [["1", "2", "third"]])
    assert "third" in refused("fit", good, "--target", "kind", "--test", tmp_path / "test.csv")
    write(tmp_path / "test.csv", [["1", "same"]], header=("größe", "kind"))
    assert "no column 'x, left'" in refused("fit", good, "--target", "kind", "--test", tmp_path / "test.csv")
    assert "--holdout" in refused("fit", good, "--target", "kind", "--holdout", 0.001)
    assert "--test: standard input is read once" in refused("fit", "-", "--target", "kind", "--test", "-")
    assert "No such file" in refused("fit", good, "--target", "kind", "--test", "")


def test_out_is_refused_before_the_work(place, tmp_path, monkeypatch):
    def work(*args, **options):
        raise AssertionError("it went to work")

    monkeypatch.setattr(CMNClassifier, "fit", work)
    monkeypatch.setattr(CMNClassifier, "load", work)
    monkeypatch.chdir(tmp_path)
    odd = [] if os.name != "posix" else [("/dev/null", "no ordinary file"), ("/proc/m.npz", "/proc/m.npz: ")] if os.path.isdir("/proc") else []
    for out, words in [("no/m.npz", "no folder"), (".", "is a folder"), (tmp_path, "is a folder"), ("", "got ''"), ("new/", "new/: "),
                       ("x" * 255, "too long"), *odd]:
        for args in (("fit", place / "train.csv", "--target", "kind"), ("predict", place / "model.npz", place / "test.csv")):
            said = refused(*args, "--out", out)
            assert said.startswith("cmn_literate: --out: ") and words in said and ".part" not in said, said
    assert "got '-'" in refused("fit", place / "train.csv", "--target", "kind", "--out", "-")
    assert not any(tmp_path.iterdir())


def test_out_is_named_when_the_writing_fails(place, tmp_path, monkeypatch, restored, capsys):
    def full(*args):
        raise OSError(28, "No space left on device", *args)

    monkeypatch.setattr(os, "replace", full)
    for args in (("fit", place / "train.csv", "--target", "kind", "--experts", 2, "--max-sweeps", 2),
                 ("predict", place / "model.npz", place / "test.csv")):
        assert main([*map(str, args), "--out", str(tmp_path / "m")]) == 2
        assert capsys.readouterr().err == f"cmn_literate: --out: {tmp_path / 'm'}: No space left on device\n"
    assert not any(tmp_path.iterdir())


def test_lines_are_those_of_the_file(tmp_path):
    for bad, words in (("x,2,b", "column 'a': expected a number"), ("1,2", "expected 3 cells"), ("1,2,", "column 'kind': missing label"), (",2,b", "missing value")):
        (tmp_path / "d.csv").write_text(f'a,b,kind\n\n\n1,2,"a\nb"\n{bad}\n')              # a cell of two lines before it
        assert "d.csv: line 6" in (said := refused("fit", tmp_path / "d.csv", "--target", "kind")) and words in said


def test_a_class_that_reads_as_missing(tmp_path):
    for name in ("None", "NA", "null"):
        said = refused("fit", write(tmp_path / "d.csv", [["1", "2", "a"], ["2", "1", name]]), "--target", "kind")
        assert f"missing label {name!r}; leave such rows out, or, if {name!r} is a class, give it another name" in said
        assert name in run("fit", "--help").stdout


def test_standard_input_may_have_a_byte_order_mark(place):
    args = ("--target", "kind", "--experts", 2, "--max-sweeps", 5)
    data = (place / "train.csv").read_bytes()
    piped = run("fit", "-", *args, stdin=b"\xef\xbb\xbf" + data, process=True)
    assert piped.stdout == run("fit", "-", *args, stdin=data).stdout == run("fit", place / "train.csv", *args).stdout
    assert "-: expected a CSV file in UTF-8" in refused("fit", "-", "--target", "kind", stdin=b"gr\xf6sse,kind\n1,a\n")


def test_blanks_around_names(place, tmp_path, capsys, restored):
    pandas = __import__("pandas")

    def model(*names):
        with pytest.warns(UserWarning):
            fitted = CMNClassifier.paper(n_experts=2, max_sweeps=5).fit(pandas.DataFrame(X, columns=names), Y)
        fitted.save(tmp_path / "m.npz")
        return [[repr(float(value)) for value in row] for row in fitted.predict_proba(pandas.DataFrame(X[:3], columns=names))]

    def predict(*header):
        assert main(["predict", str(tmp_path / "m.npz"), str(write(tmp_path / "d.csv", X[:3].tolist(), header))]) == 0
        return list(csv.reader(capsys.readouterr().out.splitlines()))[1:]

    p = model(" a ", "b")
    assert predict(" a ", "b") == predict("a", " b ") == p
    p = model("a", " a ")                                             # here the blanks tell them apart
    assert predict("a", " a ") == p
    assert "no column ' a '; it has 'a', 'b'" in refused("predict", tmp_path / "m.npz", write(tmp_path / "d.csv", X[:3].tolist(), ("a", "b")))
    data = write(tmp_path / "d.csv", [["1", "2", "u"], ["2", "1", "v"]] * 9, (" a ", "b", " kind "))
    assert main(["fit", str(data), "--target", " kind ", "--experts", "2", "--max-sweeps", "2"]) == 0


def test_an_overflow_is_one_line(place, tmp_path):
    huge = write(tmp_path / "huge.csv", (X[60:] * 1e200).tolist(), header=("x, left", "größe"))
    assert "RuntimeWarning" not in refused("predict", place / "model.npz", huge, process=True)


def test_bad_models(place, tmp_path):
    (tmp_path / "junk.npz").write_text("junk")
    assert "expected a file written by" in refused("predict", tmp_path / "junk.npz", place / "test.csv")
    (tmp_path / "cut.npz").write_bytes((place / "model.npz").read_bytes()[:-100])
    assert "damaged" in refused("predict", tmp_path / "cut.npz", place / "test.csv")
    assert "No such file" in refused("predict", tmp_path / "none.npz", place / "test.csv")
    write(tmp_path / "less.csv", [["1"]], header=("größe",))
    assert "no column 'x, left'" in refused("predict", place / "model.npz", tmp_path / "less.csv")


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_ctrl_c_leaves_no_half_written_file(tmp_path):
    import termios

    many = np.random.default_rng(1)
    data = write(tmp_path / "big.csv", np.c_[many.normal(size=(4000, 2)).round(4), many.integers(4, size=4000)].tolist())
    old = tmp_path / "model.npz"
    old.write_text("the old model")
    terminal, its_end = os.openpty()                                  # where the progress appears once the fit has begun
    termios.tcsetwinsize(its_end, (24, 80))
    running = subprocess.Popen([sys.executable, "-m", "cmn_literate", "fit", data, "--target", "kind", "--experts", "20", "--max-sweeps", "1000000",
                                "--out", old], stdout=subprocess.PIPE, stderr=its_end, text=True)
    os.close(its_end)
    err = os.read(terminal, 1000)
    running.send_signal(signal.SIGINT)
    with contextlib.suppress(OSError):                                # Linux says so, others by an empty answer, that nobody writes any more
        while said := os.read(terminal, 1000):
            err += said
    os.close(terminal)
    out, _ = running.communicate(timeout=LAST_RESORT)
    assert running.returncode == 130 and out == "" and b"sweep" in err and b"Traceback" not in err
    assert old.read_text() == "the old model" and sorted(p.name for p in tmp_path.iterdir()) == ["big.csv", "model.npz"]


def test_a_reader_that_leaves(place):
    """cmn_literate predict ... | head -1"""
    write(place / "long.csv", np.tile(X, (60, 1)).tolist(), header=("x, left", "größe"))
    running = subprocess.Popen([sys.executable, "-m", "cmn_literate", "predict", place / "model.npz", place / "long.csv"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdout.readline() == '"other, sign",same\n'
    running.stdout.close()
    assert running.stderr.read() == ""
    running.wait(LAST_RESORT)
    running.stderr.close()


@pytest.fixture
def restored():
    """main() takes over Ctrl-C; give it back."""
    handler = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, handler)


def test_main_in_this_process(place, capsys, monkeypatch, tmp_path, restored):
    assert main(["fit", str(place / "train.csv"), "--target", "kind", "--experts", "2", "--max-sweeps", "3", "--holdout", "0.2",
                 "--out", str(tmp_path / "m")]) == 0
    assert "ELBO" in capsys.readouterr().out
    assert main(["predict", str(tmp_path / "m"), str(place / "test.csv"), "--out", str(tmp_path / "p.csv")]) == 0
    assert main(["predict", str(tmp_path / "m"), str(place / "none.csv")]) == 2
    assert main(["fit", str(place / "train.csv"), "--target", "kind", "--max-sweeps", "2", "--test", str(place / "test.csv")]) == 0
    with pytest.raises(SystemExit) as left:
        stop(signal.SIGINT, None)
    assert left.value.code == 130

    def broken(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(KeyboardInterrupt):
        main(["predict", str(tmp_path / "m"), str(place / "test.csv"), "--out", str(tmp_path / "q.csv")])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m", "p.csv"]


# ---- nothing that can happen to standard output costs the model

GREEK = [["1", "2", "σωστό"], ["2", "1", "否"]] * 9


def command(place, *args, shell="", **options):
    """The command as a shell would run it, with a redirection."""
    words = " ".join(f"'{a}'" for a in (sys.executable, "-m", "cmn_literate", *map(str, args)))
    return subprocess.run(["sh", "-c", f"{words} {shell}"], capture_output=True, text=True, timeout=120, **options)


@pytest.mark.skipif(os.name != "posix", reason="a shell with redirections")
@pytest.mark.parametrize("shell, env, code", [("", {"PYTHONIOENCODING": "cp1252"}, 0), pytest.param("> log", {"PYTHONIOENCODING": "ascii"}, 0, marks=pytest.mark.slow), (">&-", {}, 0),
                                              ("> /dev/full", {}, 2), *(pytest.param(shell, {}, 0, marks=pytest.mark.slow) for shell in ("2>&-", "<&-")), (">&- 2>&- <&-", {}, 0)])
def test_the_model_is_saved_whatever_happens_to_the_output(shell, env, code, tmp_path):
    data, out = write(tmp_path / "d.csv", GREEK, ("a", "b", "kind")), tmp_path / "m.npz"
    done = command(tmp_path, "fit", data, "--target", "kind", "--experts", 2, "--max-sweeps", 2, "--out", out, shell=shell, cwd=tmp_path,
                   env={**os.environ, **env})
    assert done.returncode == code, done.stderr
    assert CMNClassifier.load(out).classes_.tolist() == sorted({"σωστό", "否"})
    assert done.stderr.count("\n") == (code == 2) and "Traceback" not in done.stderr
    if code:
        assert f"standard output: No space left on device; the model is in {out}" in done.stderr
    if env.get("PYTHONIOENCODING") == "cp1252":
        assert r"\u5426 (9)" in done.stdout and str(out) in done.stdout
    p = command(tmp_path, "predict", out, data, shell=shell, cwd=tmp_path, env={**os.environ, **env})
    assert p.returncode == (2 if ">&-" in shell.split() or code else 0) and "Traceback" not in p.stderr, p.stderr


@pytest.mark.skipif(os.name != "posix", reason="a shell with redirections")
def test_a_closed_standard_input_is_one_line(place, tmp_path):
    done = command(tmp_path, "fit", "-", "--target", "kind", shell="<&-")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "cmn_literate: -: standard input is closed\n")
    done = command(tmp_path, "predict", place / "model.npz", place / "test.csv", shell=">&-")
    assert (done.returncode, done.stderr) == (2, "cmn_literate: standard output is closed: give --out\n")


# ---- other tables

def test_other_separators_and_packed_files(place, tmp_path, capsys, restored):
    rows = [[repr(float(a)), repr(float(b)), label] for (a, b), label in zip(X[:30], Y)]

    def elbo(text, *args, name="d.csv"):
        (tmp_path / name).write_bytes(text.encode() if isinstance(text, str) else text)
        assert main(["fit", str(tmp_path / name), "--target", "kind", "--experts", "2", "--max-sweeps", "4", *args]) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    lines = [["a", "b", "kind"], *rows]
    comma = "\n".join(",".join(f'"{cell}"' for cell in row) for row in lines)
    plain = elbo(comma)
    assert elbo("\n".join(";".join(row) for row in lines), "--delimiter", ";") == plain
    assert elbo("\n".join("\t".join(row) for row in lines), "--delimiter", "tab") == plain
    assert elbo("\n".join(";".join(c if i == 2 else c.replace(".", ",") for i, c in enumerate(row)) for row in lines), "--delimiter", ";", "--decimal", ",") == plain
    import gzip
    for name in ("d.csv.gz", "without-a-name"):
        assert elbo(gzip.compress(comma.encode()), name=name) == plain
    done = subprocess.run([sys.executable, "-m", "cmn_literate", "fit", "-", "--target", "kind", "--experts", "2", "--max-sweeps", "4"],
                          input=gzip.compress(comma.encode()), capture_output=True, timeout=120)
    assert done.stdout.decode() == plain, done.stderr


@pytest.mark.parametrize("text, args, words", [
    ("a;b;kind\n1;2;u\n2;1;v\n", (), "is it separated by semicolons? --delimiter ';'"),
    ("a\tb\tkind\n1\t2\tu\n", (), "is it separated by tabs? --delimiter tab"),
    ("a,b,kind\n1,2,u\n", ("--delimiter", ";"), "no column 'kind'"),
    ('a,kind\n"1,5",u\n"2,5",v\n', (), "expected a number, got '1,5'; a decimal comma? --decimal ,"),
    ("a;kind\n1.500;u\n2;v\n", ("--delimiter", ";", "--decimal", ","), "expected a number, got '1.500'"),
    ("kind\nu\n\nv\n", (), "expected at least one column beside 'kind', and none twice, got 'kind'"),
    ("a,kind\n1,u\n2\n", (), "line 3: expected 2 cells, got 1"),
    ("a,kind\n1,Yes\n2,yes\n3,no\n", (), "labels 'Yes' and 'yes' differ in form only"),
    ("a,kind\n1,1\n2,1.0\n3,2\n", (), "labels '1' and '1.0' differ in form only"),
    ("a,kind\n1,x y\n2,x  y\n3,2\n", (), "differ in form only"),
    ("a,kind\n" + "".join(f"1,{i}.5\n" for i in range(200)), (), "200 different values in 200 rows look like measurements, not classes"),
    ("a,kind\n1,u\n2,v\n", ("--method", "cavi", "--option", "nonsense"), "--option: expected name=value, with a name of cavi (checkpoint) or of the estimator (n_experts"),
    ("a,kind\n1,u\n2,v\n", ("--option", "tol=-1"), "--option: tol: expected a number between 0 and inf, got '-1'"),
    ("a,kind\n1,u\n2,v\n", ("--method", "mle", "--option", "lr=fast"), "lr: expected a number"),
    ("a,kind\n1,u\n2,v\n", ("--option", "priors__sigma0=-1"), "sigma0: expected a positive finite number"),
    ("a,kind\n1,u\n2,v\n", ("--resume", "missing/c.npz"), "checkpoint: expected a file that can be written"),
    ("a,kind\n1,u\n2,v\n", ("--resume", "c.npz", "--n-init", "2"), "checkpoint: expected n_init=1")], ids=lambda v: v[:20] if isinstance(v, str) else None)
def test_hints(text, args, words, tmp_path):
    (tmp_path / "d.csv").write_text(text)
    assert words in refused("fit", tmp_path / "d.csv", "--target", "kind", *args)


def test_one_form_of_a_letter(tmp_path, capsys, restored):
    (tmp_path / "d.csv").write_text("gr\u00f6\u00dfe,kind\n" + "1,caf\u00e9\n2,cafe\u0301\n3,th\u00e9\n" * 5, encoding="utf-8")
    assert main(["fit", str(tmp_path / "d.csv"), "--target", "kind", "--experts", "2", "--max-sweeps", "2", "--out", str(tmp_path / "m")]) == 0
    assert "caf\u00e9 (10), th\u00e9 (5)" in capsys.readouterr().out
    (tmp_path / "p.csv").write_text("gro\u0308\u00dfe\n1\n2\n\n", encoding="utf-8")                          # a blank line at the end is no row
    assert main(["predict", str(tmp_path / "m"), str(tmp_path / "p.csv")]) == 0
    assert capsys.readouterr().out.count("\n") == 3
    (tmp_path / "p.csv").write_text("gr\u00f6\u00dfe\n1\n\n2\n", encoding="utf-8")
    assert "line 3, column 'gr\u00f6\u00dfe': missing value" in refused("predict", tmp_path / "m", tmp_path / "p.csv")


# ---- methods, options, runs that go on

def test_methods_and_options(place, capsys, restored):
    fit = lambda *args: (main(["fit", str(place / "train.csv"), "--target", "kind", "--experts", "2", *map(str, args)]), capsys.readouterr())
    code, said = fit("--method", "mle", "--option", "n_steps=7", "--option", "objective=network")
    assert code == 0 and "7 steps, not converged: raise n_steps in method_options" in said.out and "log likelihood" in said.out
    code, said = fit("--method", "gibbs", "--option", "n_draws=5", "--option", "n_warmup=3", "--option", "n_chains=1", "--option", "init=prior")
    assert code == 0 and "8 sweeps" in said.out and "log density" in said.out
    code, said = fit("--method", "cavi", "--max-sweeps", 3, "--option", "tol=1e3", "--option", "priors__sigma0=2", "--option", "standardize=false", "--option", "init=random")
    assert code == 0 and "2 sweeps, converged" in said.out
    code, said = fit("--max-sweeps", 3, "-v", "--out", place / "v.npz")
    assert code == 0 and said.err.startswith("cmn_literate: auto: 60 rows, 2 columns, 2 classes; 2 experts, 1 start(s), at most 3 sweeps; the model goes to")
    assert "several: 2 experts, 1 start(s), 3 sweeps, not converged: raise max_sweeps, tol" in said.out
    assert "start 1 of 1" in said.err and said.out.splitlines()[-1] == f"model       {place / 'v.npz'}"


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_an_interrupted_run_goes_on(tmp_path):
    """Ctrl-C once the file is there; the same command, with fewer sweeps to make, gives the bits of a run that was never stopped."""
    many = np.random.default_rng(1)
    data = write(tmp_path / "d.csv", np.c_[many.normal(size=(400, 2)).round(4), many.integers(3, size=400)].tolist())
    args = ["fit", data, "--target", "kind", "--experts", "4", "--option", "tol=1e-300", "--resume", tmp_path / "run.npz", "--out", tmp_path / "m.npz"]
    running = subprocess.Popen([sys.executable, "-m", "cmn_literate", *map(str, args), "--max-sweeps", "1000000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))     # a shell's job in the background ignores it
    while not (tmp_path / "run.npz").exists():
        assert running.poll() is None, running.stderr.read()
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate()
    assert (running.returncode, out) == (130, "") and err == f"cmn_literate: interrupted; the run is kept in {tmp_path / 'run.npz'}: the same command goes on\n"
    assert not (tmp_path / "m.npz").exists()
    from cmn_literate.storage import read_arrays
    done = max(read_arrays(tmp_path / "run.npz")["header"]["done"])                       # of four members
    resumed = run(*args, "--max-sweeps", done + 5)
    assert f"{done + 5} sweeps" in resumed.stdout
    straight = run(*[a for a in args if a not in ("--resume", tmp_path / "run.npz")], "--max-sweeps", done + 5)
    assert straight.stdout == resumed.stdout
