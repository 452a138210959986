"""A fit on a Dask cluster, started as a user starts one: the numbers of one machine, also when a worker is killed in mid-sweep."""
import os
import subprocess
import sys
import warnings
from threading import Timer
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from cmn_literate import distributed as cluster
from cmn_literate.beyond import cluster as beyond
from cmn_literate.engineering.sources import draw_sample, moment_scale, survey
from cmn_literate.engineering.starts import START_ROWS, repeat_scale
from cmn_literate.engineering.sums import add_sums, block_sweep
from cmn_literate.network.simulate import Priors
from cmn_literate.row_sources import ArraySource
from cmn_literate.use.classifier import CMNClassifier
from experiments.studies.runtime import problem

distributed = pytest.importorskip("distributed")
OPTIONS = dict(n_experts=2, random_state=3, max_sweeps=5, tol=1e-30)
N, PARTS = 100_000, 5


@pytest.fixture(scope="module")
def rows():
    X, y = problem(N, 3, 2, 1, 2, seed=1)
    return 5 * X + np.arange(3), np.array(["no", "yes"])[y]


@pytest.fixture(scope="module")
def folder(rows, tmp_path_factory):
    """The rows as a folder of Parquet files, of two row groups each."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    place, (X, y) = tmp_path_factory.mktemp("rows"), rows
    for part, some in enumerate(np.array_split(np.arange(N), PARTS)):
        table = {name: X[some, i] for i, name in enumerate("abc")}
        parquet.write_table(arrow.table(table | {"y": y[some]}), place / f"part-{part}.parquet", row_group_size=12_000)
    return place


@pytest.fixture(scope="module")
def alone(rows):
    """The fit of one process with all rows in memory."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return CMNClassifier.paper(**OPTIONS).fit(*rows)


def start(folder, *command):
    """A process of the command line of Dask."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with open(folder / f"{'-'.join(command[:1])}-{len(list(folder.iterdir()))}.log", "wb") as log:
        return subprocess.Popen([sys.executable, "-m", "dask", *command], cwd=folder, env=env, stdout=log, stderr=log)


class Processes:
    """`dask scheduler` and `dask worker`, each a process."""

    def __init__(self, folder):
        self.folder, self.file, self.all = folder, str(folder / "scheduler.json"), []
        self.all.append(start(folder, "scheduler", "--port", "0", "--no-dashboard", "--host", "127.0.0.1", "--scheduler-file", self.file))
        self.workers = [self.worker(), self.worker()]

    def worker(self):
        process = start(self.folder, "worker", "--scheduler-file", self.file, "--nthreads", "1", "--no-nanny", "--no-dashboard",
                        "--local-directory", str(self.folder), "--name", f"w{len(self.all)}")
        self.all.append(process)
        return process

    def end(self):
        for process in reversed(self.all):
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    started = Processes(tmp_path_factory.mktemp("cluster"))
    yield started
    started.end()


@pytest.fixture(scope="module")
def client(processes):
    with distributed.Client(scheduler_file=processes.file, timeout=60, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
        yield client


@pytest.fixture(scope="module")
def threads():
    """A LocalCluster, in this process."""
    with distributed.LocalCluster(n_workers=3, threads_per_worker=2, processes=False, dashboard_address=":0") as local, \
            distributed.Client(local, set_as_default=False) as client:
        yield client


def quiet(*arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return cluster.fit_cluster(*arguments, **options)


def quiet_proba(model, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)                         # arrays have no column names
        return model.predict_log_proba(X)


def assert_same(model, other, rtol=1e-10):
    for name, one, two in zip(model.fits_[0].parameters._fields, model.fits_[0].parameters, other.fits_[0].parameters):
        assert_allclose(one, two, rtol=rtol, atol=rtol * np.abs(two).max(), err_msg=name)
    assert_allclose(model.trace_, other.trace_, rtol=rtol)


def test_two_workers_fit_what_one_process_fits(client, folder, alone, rows, monkeypatch):
    monkeypatch.setattr(beyond, "SHARD_ROWS", 20_000)
    seen = []
    model = quiet(folder, "y", client, callback=lambda *now: seen.append(now), **OPTIONS)
    assert_same(model, alone)
    assert seen == list(zip(range(1, 6), model.trace_)) and model.n_sweeps_ == 5
    assert list(model.feature_names_in_) == list("abc") and list(model.classes_) == ["no", "yes"]
    some = rows[0][:50]
    assert_allclose(quiet_proba(model, some), alone.predict_log_proba(some), atol=1e-8)


def test_the_number_of_workers_has_no_say(client, threads, folder, monkeypatch):
    """Not even in the last bit: the order of the sums is that of the rows."""
    monkeypatch.setattr(beyond, "SHARD_ROWS", 20_000)
    two, three = (quiet(folder, "y", each, **OPTIONS | {"max_sweeps": 2}) for each in (client, threads))
    for one, other in zip(two.fits_[0].parameters, three.fits_[0].parameters):
        assert_array_equal(one, other)


def test_dask_collections_stay_where_they_are(threads, rows, alone):
    from dask import array, dataframe

    X, y = rows
    arrays = array.from_array(X, chunks=(30_000, 2)), array.from_array(y, chunks=25_000)
    assert_same(quiet(arrays, client=threads, **OPTIONS), alone)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X[:900], columns=list("abc")).assign(y=y[:900])
    with threads.as_current():                                               # the active client is found
        few = quiet(dataframe.from_pandas(frame, npartitions=3).query("a > -1e9"), "y", omega1="shared", accelerate=True, **OPTIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_same(few, CMNClassifier.paper(omega1="shared", accelerate=True, **OPTIONS).fit(frame.drop(columns="y"), frame["y"]))


def test_weights_go_with_the_rows(threads, rows, monkeypatch):
    """Of rows and classes; parts of which no row counts are none."""
    from dask import array, dataframe

    monkeypatch.setattr(beyond, "SHARD_ROWS", 900)
    few, options = slice(0, 4_000), OPTIONS | {"max_sweeps": 3}
    X, y = (part[few] for part in rows)
    for weight, of_classes in ((np.arange(len(X)) % 3 * 1.0, None), (np.random.default_rng(0).gamma(1.0, size=len(X)), "balanced")):
        weight[1_000:1_600] = 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one = CMNClassifier.paper(class_weight=of_classes, **options).fit(X, y, weight)
        arrays = array.from_array(X, chunks=(500, 3)), array.from_array(y, chunks=500)
        two = quiet(arrays, client=threads, weight=array.from_array(weight, chunks=700), class_weight=of_classes, **options)
        assert_same(two, one)
        assert (two.n_rows_seen_, two.calls_) == (one.n_rows_seen_, one.calls_)
    frame = pytest.importorskip("pandas").DataFrame(X, columns=list("abc")).assign(y=y, w=weight)
    three = quiet(dataframe.from_pandas(frame, npartitions=7), "y", threads, weight="w", class_weight=of_classes, **options)
    assert_same(three, one)
    assert list(three.feature_names_in_) == list("abc")
    with pytest.raises(ValueError, match="expected at least one row with a positive weight"):
        quiet(arrays, client=threads, weight=0 * weight, **options)


def test_fit_takes_a_client(threads, rows):
    """Rows of any kind go to its workers; what they cannot do is refused by name."""
    few, options = slice(0, 3_000), OPTIONS | {"max_sweeps": 2}
    X, y = (part[few] for part in rows)
    weight = np.arange(len(X)) % 2 + 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        usual = CMNClassifier(**options).fit(X, y, weight, client=threads)      # "auto" is one ascent on a cluster
        assert_same(usual, CMNClassifier(**options, method="cavi").fit(X, y, weight))
        assert (usual.method, usual.method_) == ("auto", "cavi")
    for name, bad, client in (("n_init", {"n_init": 2}, threads), ("method", {"method": "mle"}, threads), ("client", {}, "tcp://none")):
        with pytest.raises(ValueError, match=f"^{name}: expected"):
            CMNClassifier(**options | bad).fit(X, y, client=client)


def test_the_estimator_finds_the_active_client(threads, rows, monkeypatch):
    """fit of a dask collection goes to the workers; without a client, or with what they cannot do, it reads the rows itself."""
    from dask import array, dataframe

    few, options = slice(0, 3_000), OPTIONS | {"max_sweeps": 2}
    X, y = (part[few] for part in rows)
    arrays, learn, sent = (array.from_array(X, chunks=(800, 3)), array.from_array(y, chunks=800)), cluster.learn_cluster, []
    monkeypatch.setattr(cluster, "learn_cluster", lambda est, source, client: sent.append(client) or learn(est, source, client))
    weight = np.arange(len(X)) % 2 + 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain, one = CMNClassifier.paper(**options).fit(*arrays), CMNClassifier.paper(class_weight="balanced", **options).fit(X, y, weight)
        assert sent == []
        with threads.as_current():
            assert_same(CMNClassifier.paper(**options).fit(*arrays), plain)
            two = CMNClassifier.paper(class_weight="balanced", **options).fit(*arrays, array.from_array(weight, chunks=800))
            assert sent == [threads] * 2
            frame = pytest.importorskip("pandas").DataFrame(X, columns=list("abc")).assign(y=y, w=weight)
            three = CMNClassifier.paper(class_weight="balanced", **options).fit(dataframe.from_pandas(frame, npartitions=3), "y", "w")
            assert sent == [threads] * 3
            for others in ({"n_init": 2}, {"method": "mle", "method_options": {"n_steps": 5}}):
                CMNClassifier.paper(**options | others).fit(*(part[:500] for part in arrays))
            CMNClassifier.paper(**options).fit(X[:500], y[:500])
            assert sent == [threads] * 3
            usual = CMNClassifier(**options).fit(*arrays)
    assert sent == [threads] * 4 and (usual.method, usual.method_) == ("auto", "cavi")
    assert_same(two, one)
    assert_same(three, one)
    assert two.moments_.n == pytest.approx(one.moments_.n) and two.calls_ == one.calls_ == (("fit", 3_000),)


def test_ctrl_c_on_a_cluster_is_raised_when_the_fit_is_put_away(threads, rows, monkeypatch):
    from dask import array

    sums, arrays = cluster.Crew.sums, [array.from_array(part[:3000], chunks=-1) for part in rows]
    turns = []

    def press(*arguments):
        if len(turns) == fine:
            raise KeyboardInterrupt
        turns.append(0)
        return sums(*arguments)
    monkeypatch.setattr(cluster.Crew, "sums", press)
    for fine in (2, 0):
        turns.clear()
        model = CMNClassifier.paper(**OPTIONS)
        with threads.as_current(), pytest.raises(KeyboardInterrupt):
            model.fit(*arrays)
        assert len(model.trace_) == 2 if fine else not hasattr(model, "trace_")


def test_the_kernel_of_a_shard_is_that_of_the_fit(monkeypatch):
    from cmn_literate.engineering.sums import estep

    asked, used = [], []
    source = few_rows()
    layout = layout_of(source, n_rows=10**6)
    shard = cluster.load_shard([source], [cluster.Seen(0, 500, ())], layout)
    kernel = lambda *arguments: used.append(0) or estep(*arguments)
    monkeypatch.setattr(cluster, "find_estep", lambda *sizes: asked.append(sizes) or kernel)
    from cmn_literate.engineering.starts import init_parameters
    start = init_parameters((shard.sample.X - layout.mean) / layout.scale, shard.sample.y, 3, 2, 3, Priors(), np.random.default_rng(0))
    cluster.sweep_shard(shard, start, 1, 1, layout)
    assert asked == [(10**6, 3, 2, False)] and len(used) == len(shard.blocks)
    shard.turn = 9
    cluster.sweep_shard(shard, start, 3, 1, layout)
    assert len(used) > 2 * len(shard.blocks)                                # it settles with the same kernel


def test_ctrl_c_keeps_what_is_there(threads, folder, alone):
    def press(n_sweeps, elbo):
        if n_sweeps == 2:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="^interrupted: this is the fit after 2 whole sweeps"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = cluster.fit_cluster(folder, "y", threads, callback=press, **OPTIONS)
    assert_allclose(model.trace_, alone.trace_[:2], rtol=1e-10)
    assert not model.converged_


# ---- without processes

def layout_of(source, **changes):
    found = survey(source, [])
    mean, scale = moment_scale(found.moments)
    return cluster.Layout(source.columns, source.target, source.name, mean, scale, found.classes, 3, 2, rng=np.random.default_rng(5))._replace(**changes)


def few_rows(n=500):
    X, y = problem(n, 2, 3, 2, 3)
    return ArraySource(X, y)


@pytest.mark.parametrize("shared", [False, True])
def test_a_shard_knows_whose_tilts_it_holds(shared):
    """A shard that was read again, or missed a sweep, settles: its bound is not below that of the one that was there."""
    source = few_rows()
    layout, seen = layout_of(source, shared=shared), [cluster.Seen(0, 500, ())]
    load = lambda: cluster.load_shard([source], seen, layout)
    from cmn_literate.engineering.starts import init_parameters

    priors, sample = Priors(), load().sample
    start = init_parameters((sample.X - layout.mean) / layout.scale, sample.y, 3, 2, 3, priors, np.random.default_rng(0))
    there, blocks, parameters = load(), load().blocks, start
    for turn in range(1, 6):
        sums = there.sweep(parameters, turn, 1)
        blocks, after, _ = block_sweep(blocks, parameters, priors)
        assert there.turn == turn
        before, parameters = parameters, after
    again = load().sweep(before, 5, 1)
    assert 0 < again.bound - sums.bound < 1e-3 * 500
    cold = load()
    cold.turn = 4                                                            # as if it had been there
    assert cold.sweep(before, 5, 1).bound < sums.bound - 1e-3
    assert there.sweep(before, 5, 1).bound >= sums.bound                     # the same sweep once more
    first = load()
    assert_allclose(first.sweep(start, 1, 1).gram, block_sweep_sums(load().blocks, start).gram, rtol=1e-12)
    assert first.__sizeof__() > 8 * 500 * 3 * 2


def block_sweep_sums(blocks, parameters):
    from cmn_literate.engineering.sums import estep, prepare

    total = None
    for rows, omega, gamma in blocks:
        sums = estep(prepare(parameters), rows, omega, 1, gamma)[0]
        total = sums if total is None else add_sums(total, sums)
    return total


@pytest.mark.parametrize("weighted", [False, True])
def test_the_sample_is_that_of_one_pass(weighted):
    """The keys of a shard's rows, or of their repetitions, go on where those of the rows before end."""
    source, rng = few_rows(START_ROWS + 5000), np.random.default_rng(5)
    weights = np.where(np.arange(source.n_rows) % 7 > 0, 0.25 * (1 + np.arange(source.n_rows) % 5), 0) if weighted else None
    source = ArraySource(source.X, source.y, weights=weights)
    found = survey(source, [rng])
    (whole,) = found.samples
    layout, sample, before = layout_of(source, rng=rng, weight=source.weight, scale_of_weights=repeat_scale(
        found.n_rows, found.moments.n, found.whole)), None, 0
    for part in (slice(0, 7000), slice(7000, 21_000), slice(21_000, None)):
        piece = ArraySource(source.X[part], source.y[part], weights=None if weights is None else weights[part])
        seen = survey(piece, [])
        shard = cluster.load_shard([piece], [cluster.Seen(before, seen.n_rows, ())], layout)
        sample, before = shard.sample if sample is None else draw_sample(sample, *shard.sample), before + seen.moments.n
    for one, other in zip(sample, whole):
        assert_array_equal(one, other)


def test_shards_depend_on_the_rows_alone(monkeypatch):
    assert beyond.shard_slices([10, 20, 30]) == [slice(0, 3)]
    monkeypatch.setattr(beyond, "SHARD_ROWS", 30)
    assert beyond.shard_slices([10, 20, 30, 1, 1]) == [slice(0, 2), slice(2, 3), slice(3, 5)]
    monkeypatch.setattr(beyond, "MOST_SHARDS", 2)
    assert beyond.shard_slices([40] * 6) == [slice(0, 3), slice(3, 6)]


def test_files_that_change_between_the_passes_are_named(folder, tmp_path):
    from cmn_literate.readers import open_source

    (tmp_path / "p.parquet").write_bytes((folder / "part-0.parquet").read_bytes())
    source = open_source(tmp_path / "p.parquet", "y")
    (tmp_path / "p.parquet").write_bytes((folder / "part-1.parquet").read_bytes())
    (part,) = source.parts()[:1]
    layout = layout_of(part)
    seen = cluster.Seen(0, part.n_rows, part.stamp())
    os.utime(tmp_path / "p.parquet", ns=(1, 1))
    with pytest.raises(ValueError, match=r"p\.parquet: expected the \d+ rows of the first pass, .* changed"):
        cluster.load_shard([part], [seen], layout)


def test_what_cannot_be_done_is_named(threads, folder, rows):
    with pytest.raises(ValueError, match="^client: expected a dask.distributed.Client, or an active one, got none"):
        cluster.fit_cluster(folder, "y")
    with pytest.raises(ValueError, match="^client: expected a dask.distributed.Client that"):
        cluster.fit_cluster(folder, "y", "tcp://somewhere")
    with pytest.raises(ValueError, match="^method: expected 'cavi' on a cluster, got 'mle'"):
        cluster.fit_cluster(folder, "y", threads, method="mle")
    with pytest.raises(ValueError, match="^n_init: expected 1 on a cluster, got 3"):
        cluster.fit_cluster(folder, "y", threads, n_init=3)
    with pytest.raises(ValueError, match="^target: expected the name of the column"):
        cluster.fit_cluster(few_rows().X, client=threads)
    with pytest.raises(ValueError, match="no column 'nobody'"):
        cluster.fit_cluster(folder, "nobody", threads)
    with pytest.raises(ValueError, match="^X: 10000000000 rows need .* MiB, the 3 workers hold"):
        cluster.check_room(threads, 10**10, 100)
    X = rows[0][:300].copy()
    X[123, 2] = np.nan
    with pytest.raises(ValueError, match="row 123, column '?x?2'?: expected a finite number, got nan"):
        cluster.fit_cluster((X, rows[1][:300]), client=threads, **OPTIONS)


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"^a fit on a cluster needs distributed: pip install 'cmn_literate\[dask\]'"):
        cluster.fit_cluster((np.zeros((2, 1)), [0, 1]))


def test_a_shard_that_loses_every_worker_ends_the_fit():
    crew = cluster.Crew.__new__(cluster.Crew)
    crew.client = SimpleNamespace(scheduler_info=lambda: {"workers": {"tcp://a": {}, "tcp://c": {}}})
    crew.losses, crew.homes, crew.slices, crew.seen = [0, 0], ["tcp://a", "tcp://b"], [slice(0, 1), slice(1, 2)], [cluster.Seen(0, 7, ())] * 2
    assert crew.lost() == [1]
    with pytest.warns(UserWarning, match="^lost tcp://b: 7 rows are read again"):
        crew.mourn([1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(cluster.LOSSES - 1):
            crew.mourn([1])
        with pytest.raises(RuntimeError, match="lost 4 times with the same rows, last tcp://b"):
            crew.mourn([1])


@pytest.mark.slow
def test_a_nanny_brings_a_new_worker():
    """A LocalCluster of processes; one is killed twice, and another takes its place: three classes, shared tilts too."""
    X, y = problem(30_000, 3, 3, 2, 3, seed=1)
    from dask import array

    arrays = array.from_array(X, chunks=(6000, 3)), array.from_array(y, chunks=6000)
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as local, distributed.Client(local) as client:
        for omega1 in ("per-component", "shared"):
            options = dict(n_experts=3, random_state=0, max_sweeps=200, tol=1e-30, omega1=omega1)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                whole = CMNClassifier.paper(**options).fit(X, y)

            def killer(n_sweeps, elbo):
                if n_sweeps in (60, 90):
                    pids = client.run(os.getpid)
                    os.kill(pids[min(pids)], 9)

            with pytest.warns(UserWarning, match="lost tcp://.* rows are read again"), warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model = cluster.fit_cluster(arrays, callback=killer, **options)
            assert np.diff(model.trace_).min() > -1e-9 * abs(model.elbo_)
            assert_allclose(model.elbo_, whole.elbo_, rtol=1e-6)


# ---- the end of the two workers

def test_a_killed_worker_costs_time_and_nothing_else(client, processes, folder, rows, monkeypatch):
    """It is killed while a sweep runs: the bound goes on rising, and the end is that of a fit without losses."""
    monkeypatch.setattr(beyond, "SHARD_ROWS", 20_000)
    options = OPTIONS | {"max_sweeps": 30}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = CMNClassifier.paper(**options).fit(*rows)

    def killer(n_sweeps, elbo):
        if n_sweeps == 18:
            Timer(0.02, processes.workers[0].kill).start()

    with pytest.warns(UserWarning, match="lost tcp://.* rows are read again"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = cluster.fit_cluster(folder, "y", client, callback=killer, **options)
    assert len(client.scheduler_info()["workers"]) == 1
    assert np.diff(model.trace_).min() > 0
    assert_allclose(model.elbo_, whole.elbo_, rtol=1e-6)
    assert_allclose(model.trace_[:18], whole.trace_[:18], rtol=1e-10)
    assert np.abs(model.trace_ - whole.trace_).max() > 1e-6         # the lost tilts were others
