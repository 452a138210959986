"""The command line for a number: what regress prints is what the estimator says, and what predict writes is what it forecasts."""

import csv
import io

import numpy as np
import pytest

from cmn_literate.beyond.regressor import CMNRegressor
from test_cli import refused, run

rng = np.random.default_rng(3)
X = rng.normal(size=(70, 2))
Y = 40 + 5 * np.abs(X[:, 0]) + X[:, 1] + (0.1 + (X[:, 1] > 0)) * rng.normal(size=70)
HEAD = ["size", "höhe, m", "price"]
SMALL = ("--experts", 3, "--max-sweeps", 25)


def write(path, rows, header=HEAD):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder, rows = tmp_path_factory.mktemp("regress"), [[repr(float(v)) for v in (*x, t)] for x, t in zip(X, Y)]
    write(folder / "train.csv", rows[:50])
    write(folder / "test.csv", [row[::-1] for row in rows[50:]], HEAD[::-1])
    done = run("regress", folder / "train.csv", "--target", "price", *SMALL, "--test", folder / "test.csv", "--out", folder / "model.npz")
    (folder / "said").write_text(done.stdout)
    return folder


@pytest.fixture(scope="module")
def model():
    with pytest.warns(UserWarning, match="not converged"):
        return CMNRegressor(3, max_sweeps=25, random_state=0).fit(X[:50], Y[:50])


def test_the_report_is_what_the_estimator_says(place, model):
    lines = [(line[:11].rstrip(), line[12:]) for line in (place / "said").read_text().splitlines()]
    assert [name for name, _ in lines] == ["rows", "target", "fit", "ELBO", "held out", "RMSE", "log score", "intervals", "model"]
    said = dict(lines)
    assert said["rows"] == "50, 2 columns" and said["held out"] == f"20 rows ({place / 'test.csv'})" and said["model"] == str(place / "model.npz")
    assert said["target"] == f"price: mean {Y[:50].mean():.4g}, standard deviation {Y[:50].std():.4g}"
    assert said["fit"] == "link identity: 3 experts, 1 start(s), 25 sweeps, not converged: the bound still rises"
    assert said["ELBO"] == f"{model.elbo_:.3f} nats"
    error = lambda guess: f"{np.sqrt(np.mean((guess - Y[50:]) ** 2)):.4g}"
    assert said["RMSE"] == f"{error(model.predict(X[50:]))}, of the mean of the fitted rows {error(Y[:50].mean())}"
    assert said["log score"] == f"{np.mean(model.predict_density(X[50:], Y[50:], log=True)):.4f} nats per row"
    below = model.predict_cdf(X[50:], Y[50:])                             # another way to the same count
    half, most = (100 * np.mean(np.abs(below - 0.5) <= width) for width in (0.25, 0.45))
    assert said["intervals"] == f"of 50 and 90 percent hold {half:.0f} and {most:.0f} percent of these rows"


def test_a_column_of_weights(tmp_path):
    count = np.arange(50) % 4 / 2
    path = write(tmp_path / "weighted.csv", [[repr(float(v)) for v in (*x, t, w)] for x, t, w in zip(X, Y, count)], [*HEAD, "times"])
    done = run("regress", path, "--target", "price", "--weight", "times", *SMALL, "--out", tmp_path / "model.npz", "--holdout", ".2", "--seed", 1)
    assert "rows        40, 2 columns, weights of " in done.stdout and "held out    10 rows" in done.stdout
    keep = np.sort(np.random.default_rng(1).permutation(50)[10:])
    with pytest.warns(UserWarning, match="not converged"):
        model = CMNRegressor(3, max_sweeps=25, random_state=1).fit(X[keep], Y[keep], count[keep])
    assert f"weights of {count[keep].sum():g} in all" in done.stdout and f"ELBO        {model.elbo_:.3f} nats" in done.stdout
    loaded = CMNRegressor.load(tmp_path / "model.npz")
    del loaded.feature_names_in_
    assert (loaded.predict(X) == model.predict(X)).all()
    assert "no column" in refused("regress", path, "--target", "price", "--weight", "time", *SMALL)


@pytest.mark.parametrize("to", ("-", "out.csv", "out.parquet"))
def test_predict_writes_mean_spread_and_quantiles(place, model, tmp_path, to):
    pytest.importorskip("pyarrow")
    asked = ("predict", place / "model.npz", place / "test.csv", "--quantiles", "0.05, .5", "--out", to if to == "-" else tmp_path / to)
    text = run(*asked).stdout
    if to.endswith("parquet"):
        table = __import__("pyarrow.parquet").parquet.read_table(tmp_path / to)
        head, found = table.column_names, np.column_stack(list(map(np.asarray, table.columns)))
    else:
        head, *rows = csv.reader(io.StringIO(text or (tmp_path / to).read_text()))
        found = np.array(rows, float)
    assert head == ["mean", "sd", "q0.05", "q.5"]
    np.testing.assert_allclose(found[:, :2].T, model.predict(X[50:], return_std=True), rtol=1e-12)
    np.testing.assert_allclose(found[:, 2:], model.predict_quantiles(X[50:], (0.05, 0.5)), rtol=1e-12)


def test_a_share_is_held_out_by_the_seed(place):
    ask = lambda *more: run("regress", place / "train.csv", "--target", " price ", *SMALL, "--link", "learned", "--holdout", 0.2, *more).stdout
    one = ask()
    assert "held out    10 rows (0.2 of the file)" in one and "rows        40, 2 columns" in one and "link learned" in one
    assert one == ask() and one.splitlines()[1] != ask("--seed", 1).splitlines()[1]          # other rows to fit, another mean
    straight = ask("--link", "identity")
    assert "model " not in one and one.splitlines()[:2] == straight.splitlines()[:2] and one.splitlines()[3] != straight.splitlines()[3]


def test_other_marks_and_standard_input(place, tmp_path):
    text = (place / "train.csv").read_text().replace('"höhe, m"', "höhe").replace(",", ";").replace(".", ",")
    done = run("regress", "-", "--target", "price", *SMALL, "--delimiter", ";", "--decimal", ",", "-v", "--out", tmp_path / "m.npz", stdin=text.encode())
    assert done.stdout.splitlines()[:4] == (place / "said").read_text().splitlines()[:4]
    assert "50 rows, 2 columns; 3 experts, 1 start(s), at most 25 sweeps; the model goes to" in done.stderr
    bare = run("predict", tmp_path / "m.npz", "-", "--delimiter", ";", "--decimal", ",", stdin=text.encode()).stdout
    assert bare.splitlines()[0] == "mean,sd" and len(bare.splitlines()) == 51


def test_faults_are_one_line(place, tmp_path, model):
    train, of = place / "train.csv", ("--target", "price")
    assert "no column 'cost'; it has size, höhe, m, price" in refused("regress", train, "--target", "cost")
    assert "no folder" in refused("regress", train, *of, "--out", tmp_path / "no" / "m.npz")
    assert "leaves 50 to fit and 0 to score" in refused("regress", train, *of, "--holdout", 0.001)
    assert "read once" in refused("regress", "-", *of, "--test", "-")
    assert "latent_dim" in refused("regress", train, *of, "--latent-dim", 2)
    text = write(tmp_path / "text.csv", [["1", "2", "cheap"], ["2", "3", "4"], ["2", "4", "4"]])
    assert "line 2" in refused("regress", text, *of) and "price" in refused("regress", text, *of)
    alone = write(tmp_path / "alone.csv", [["1"], ["2"]], ["price"])
    assert "expected a column beside 'price'" in refused("regress", alone, *of)
    assert "size" in refused("regress", train, *of, "--test", write(tmp_path / "less.csv", [["1", "2"]], HEAD[1:]))
    assert "expected 2 columns" not in refused("predict", place / "model.npz", write(tmp_path / "new.csv", [["1", "2"]], ["size", "b"]))
    assert "for a model of regress" in refused("predict", _classifier(tmp_path), train, "--quantiles", "0.5")
    with pytest.warns(UserWarning, match="not converged"):
        both = CMNRegressor(2, max_sweeps=2).fit(X, np.column_stack([Y, Y]))
    both.save(tmp_path / "both.npz")
    assert "expected a model of one number, this one has 2" in refused("predict", tmp_path / "both.npz", train)
    assert not list(tmp_path.glob("*.part"))
    for level in ("0", "1", "x", "0.5,", "nan"):
        with pytest.raises(AssertionError, match="parted by commas"):
            run("predict", place / "model.npz", train, "--quantiles", level)


def _classifier(folder):
    from cmn_literate import CMNClassifier

    path = folder / "classes.npz"
    with pytest.warns(UserWarning):
        CMNClassifier(n_experts=2, max_sweeps=2, method="cavi").fit(X, X[:, 0] > 0).save(path)
    return path
