"""The harness of the experiments: the plan, records that survive a crash, many cells side by side, the command."""
import contextlib
import io
import json
import os
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from cmn_literate.use.datasets import SPLITS, training_sizes
from experiments import figures, grid, harness, pool, report, run, store, studies
from experiments.__main__ import main
from experiments.compare import compare, compare_metrics, prior_of_variances, sample, siblings, slacks
from experiments.grid import (DATA, DATASETS, SETS, SETTINGS, SMALL, TABLE_LIMIT, Cell, options_of, plan, sizes, small_cells, waic_size)
from experiments.provenance import Clock, provenance

CELL = Cell("iris", 50, "cavi", 3)


def record(cell, seconds=2.0, **metrics):
    return {"cell": cell._asdict(), "setting": {},
            "metrics": {"accuracy": 0.9, "lpd": -0.2, "ece": 0.05, "steps": 10, "steps_decay": 4.0, "steps_within_1_nat": 7, **metrics},
            "provenance": {"command": "by hand", "date": "2026-01-01", "versions": {}, "seconds": seconds, "cpu_seconds": seconds}}


def spent(record, **more):
    """The record with other costs."""
    return record | {"provenance": record["provenance"] | more}


def test_plan_holds_every_cavi_cell_first_and_no_cell_twice():
    cells = plan()
    assert len(set(cells)) == len(cells)
    cavi = [Cell(d, n, "cavi", s) for d in DATASETS for n in training_sizes(d) for s in range(16)]
    assert cells[:len(cavi)] == cavi
    assert {c.method for c in cells} == set(SETTINGS) and {c.dataset for c in cells} == set(DATASETS) <= set(SPLITS)
    for dataset in DATASETS:
        for method in ("gibbs", "mle-exact", "bbvi"):
            assert len({c.seed for c in cells if (c.dataset, c.method, c.n_train) == (dataset, method, sizes(dataset)[-1])}) >= 4
        assert any(c.method == "nuts" for c in cells if c.dataset == dataset)


def test_settings_split_the_sets_of_the_package_as_their_chapter_does():
    for name, (_, largest, test) in SPLITS.items():
        assert (sizes(name), SETS[name]["test"]) == (training_sizes(name), test) and sizes(name)[-1] == largest


def test_settings_are_the_papers():
    from cmn_literate import CMNClassifier
    from cmn_literate.network.simulate import Priors

    usual, ours = CMNClassifier.paper(n_experts=10).get_params(), run.estimator("pinwheels").get_params()
    assert {name for name in usual if usual[name] != ours[name]} == {"random_state"} and ours["priors"] == Priors()


def test_a_set_of_ones_own_needs_no_code(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 3
    lines = ["a,kind,b", *(f"{a},{'xyz'[c]},{b}" for (a, b), c in zip(X.tolist(), y))]
    (tmp_path / "mine.csv").write_text("\n".join(lines) + "\n")
    monkeypatch.setitem(grid.SETS, "mine", {"file": "mine.csv", "target": "kind", "experts": 3, "train": [15, 30], "test": 20})
    cell = Cell("mine", 15, "cavi", 0)
    data, train, test = run.split(cell, tmp_path)
    assert data.X.tolist() == X.tolist() and data.y.tolist() == y.tolist() and data.class_names == ("x", "y", "z")
    assert (data.feature_names, len(train), len(test), len(data.sha256)) == (("a", "b"), 15, 20, 64) and not set(train) & set(test)
    made = harness.make("cells", studies.study("cells"), cell, {}, tmp_path)
    assert made["setting"]["n_experts"] == 3 and store.checked(made, Cell) == cell
    with pytest.raises(FileNotFoundError, match="mine.csv not found"):
        run.split(cell, tmp_path / "nowhere")
    grid.SETS["mine"]["target"] = "sort"
    with pytest.raises(ValueError, match="^target: expected a column"):
        run.split(cell, tmp_path)


def test_all_methods_meet_at_one_size_and_the_sampler_has_four_chains_there():
    cells = plan()
    for dataset in DATASETS:
        n = waic_size(dataset)
        assert n in sizes(dataset) and (n == sizes(dataset)[-1] or n <= TABLE_LIMIT)
        seeds = {m: {c.seed for c in cells if c[:3] == (dataset, n, m)} for m in SETTINGS}
        assert all(len(seeds[m]) >= 4 for m in SETTINGS if m != "nuts")
        assert len(seeds["nuts"]) * options_of(Cell(dataset, n, "nuts", 0))["n_chains"] >= 4


def test_dear_steps_are_fewer_for_many_rows():
    steps = [options_of(Cell("rice", n, "mle-exact", 0))["n_steps"] for n in (320, 640, 2560)]
    assert steps == [20_000, 5000, 2000]
    assert options_of(Cell("pinwheels", 1600, "mle-exact", 0))["n_steps"] == 20_000
    steps = [options_of(Cell(d, 800, "bbvi", 0))["n_steps"] for d in ("pinwheels", "banknote")]
    assert steps == [5000, 10_000]                     # of banknotes that is the cell of the table
    assert options_of(Cell("rice", 2560, "cavi", 0)) == {} and options_of(Cell("rice", 2560, "gibbs", 0))["n_chains"] == 4


@pytest.mark.parametrize("dataset", ["iris", "pinwheels"])
def test_training_sets_are_nested_and_the_test_set_is_fixed(dataset):
    *smaller, largest = sizes(dataset)
    data, train, test = run.split(Cell(dataset, largest, "cavi", 0))
    assert not set(train) & set(test) and len(test) == SPLITS[dataset][2]
    for n in smaller:
        for seed in (0, 5):                            # the seed is that of the start, not of the split
            _, rows, same = run.split(Cell(dataset, n, "cavi", seed))
            assert rows.tolist() == train[:n].tolist() and same.tolist() == test.tolist()
            assert set(data.y[rows]) == set(data.y)
    with pytest.raises(ValueError, match="n_train: expected 2 to"):
        run.split(Cell(dataset, largest + 1, "cavi", 0))


def test_records_come_back_and_the_last_one_counts(tmp_path):
    other = CELL._replace(seed=4)
    for r in (record(CELL, 2.0), record(other, 3.0), record(CELL, 5.0)):
        store.append(tmp_path, r)
    found = store.read(tmp_path)
    assert found == {CELL: record(CELL, 5.0), other: record(other, 3.0)}
    assert store.read(tmp_path / "nothing") == {}


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_half_written_line_is_dropped_with_a_notice_and_spoils_nothing(tmp_path, cut):
    store.append(tmp_path, record(CELL))
    store.append(tmp_path, record(CELL._replace(seed=4)))
    path = store.path_of(tmp_path, CELL)
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    path.write_bytes(whole[:first + cut])              # killed while it wrote the second record
    said = []
    assert set(store.read(tmp_path, notice=said.append)) == {CELL}
    assert len(said) == 1 and "line 2" in said[0] and path.name in said[0]
    store.append(tmp_path, record(CELL._replace(seed=5)))
    assert set(store.read(tmp_path, notice=said.append)) == {CELL, CELL._replace(seed=5)}


def test_a_whole_record_without_its_cost_is_named_and_dropped(tmp_path):
    store.append(tmp_path, record(CELL))
    for seed, change in enumerate(({}, {"cpu_seconds": None}, {"cpu_seconds": "2"}, {"cpu_seconds": float("nan")})):
        bad = record(CELL._replace(seed=10 + seed))
        bad["provenance"] = {k: v for k, v in bad["provenance"].items() if k != "cpu_seconds"} | change
        store.append(tmp_path, bad)
    for part in ("setting", "metrics", "provenance"):
        store.append(tmp_path, {k: v for k, v in record(CELL._replace(seed=20)).items() if k != part})
    store.append(tmp_path, record(CELL._replace(seed=21)) | {"metrics": [0.9]})
    said = []
    found = store.read(tmp_path, notice=said.append)
    assert set(found) == {CELL} and len(said) == 8
    assert "line 2: not a whole record (no cpu_seconds), dropped" in said[0] and "cpu_seconds: expected a number, got None" in said[1]
    assert "no setting" in said[4] and "metrics: expected an object" in said[7]
    out = cli("report", "--folder", str(tmp_path))
    assert out.returncode == 0 and out.stderr.count("dropped") == 8 and "Traceback" not in out.stderr


def test_forecasts_come_back_as_float32(tmp_path):
    log_p = np.log(np.random.default_rng(0).dirichlet([1, 1, 1], 200))
    log_p[0] = [0.0, -np.inf, -1e30]
    store.append(tmp_path, record(CELL) | {"log_p": store.packed(log_p)})
    store.append(tmp_path, record(CELL._replace(seed=4)))
    found = store.read(tmp_path)
    assert np.array_equal(store.log_p(found[CELL]), log_p.astype(np.float32)) and store.log_p(found[CELL._replace(seed=4)]) is None
    assert store.path_of(tmp_path, CELL).stat().st_size < 200 * 3 * 6 + 2000


def test_many_cells_side_by_side_keep_what_is_done_and_name_what_failed(tmp_path):
    def fake(cell):
        if cell.seed == 2:
            raise ValueError("seed: unlucky")
        return record(cell, metrics_pid=os.getpid())

    cells = [CELL._replace(seed=s) for s in range(5)]
    done, failed, left = pool.run_many(cells, fake, lambda r: store.append(tmp_path, r), jobs=2)
    assert (done, left) == (4, 0) and failed == {cells[2]: "ValueError: seed: unlucky"}
    found = store.read(tmp_path)
    assert set(found) == set(cells) - {cells[2]}
    pids = {r["metrics"]["metrics_pid"] for r in found.values()}
    assert len(pids) == 4 and os.getpid() not in pids  # a process of its own for each cell


def test_a_dying_process_fails_its_cell_and_no_other(tmp_path):
    def fake(cell):
        if cell.seed == 1:
            os._exit(3)                                # as by a lack of memory: no exception, no answer
        return record(cell)

    cells = [CELL._replace(seed=s) for s in range(4)]
    done, failed, left = pool.run_many(cells, fake, lambda r: store.append(tmp_path, r), jobs=2)
    assert (done, left) == (3, 0) and failed == {cells[1]: "its process died (exit code 3)"}
    assert set(store.read(tmp_path)) == set(cells) - {cells[1]}


def test_a_budget_that_runs_out_leaves_the_rest_for_the_next_run(tmp_path, monkeypatch):
    ticks = iter(range(100))                           # a clock that each look at it moves on by a second
    monkeypatch.setattr(pool, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    cells = [CELL._replace(seed=s) for s in range(6)]
    done, failed, left = pool.run_many(cells, record, lambda r: store.append(tmp_path, r), budget=3.5 / 60)
    assert (done, failed, left) == (3, {}, 3)
    assert set(store.read(tmp_path)) == set(cells[:done])


def test_a_killed_run_keeps_what_is_done_and_the_next_one_goes_on(tmp_path):
    args = ("run", "--dataset", "iris", "--method", "cavi", "--seeds", "1", "--folder", str(tmp_path))
    path = tmp_path / "iris-cavi.jsonl"
    with subprocess.Popen([sys.executable, "-m", "experiments", *args], stdout=subprocess.DEVNULL, cwd=store.ROOT) as first:
        while not path.exists() and first.poll() is None:      # the first record, or the end of a run that should not have ended
            time.sleep(0.02)
        first.kill()
    kept = store.read(tmp_path, notice=[].append)
    assert path.exists() and len(kept) < 3
    before = path.read_bytes()
    out = cli(*args)
    assert out.returncode == 0 and f"3 cells, {len(kept)} of them stored" in out.stdout
    assert path.read_bytes().startswith(before) and len(store.read(tmp_path, notice=[].append)) == 3


def test_an_exhausted_budget_starts_nothing(tmp_path):
    done, failed, left = pool.run_many([CELL], record, lambda r: store.append(tmp_path, r), budget=1e-9)
    assert (done, failed, left) == (0, {}, 1)


class Step(NamedTuple):
    """A cell of the study below."""
    name: str
    turn: int | None = None


class Study:
    """A study whose sums need three parts each, which no one wants for themselves."""
    Cell, ran = Step, []

    @staticmethod
    def plan():
        return [Step("a"), Step("b")]

    @staticmethod
    def needs(cell):
        return [Step(cell.name, turn) for turn in range(3)] if cell.turn is None else []

    @classmethod
    def run(cls, cell, records, data_home=None, models=None):
        if cell == Step("b", 1):
            raise ValueError("turn: unlucky")
        value = 1 if cell.turn is not None else sum(records[one]["metrics"]["value"] for one in cls.needs(cell))
        return {"setting": {}, "metrics": {"value": value}, "provenance": {"cpu_seconds": 7.0}}


def test_what_a_cell_needs_comes_first_in_turns_and_a_failure_leaves_what_needs_it(tmp_path):
    place = tmp_path / "study.jsonl"
    first, last = harness.stages(Study, {}, Study.plan())
    assert first == [Step(name, turn) for turn in range(3) for name in "ab"] and last == Study.plan()
    done, failed, left = harness.run_stages("study", Study, [first, last], place)
    assert (done, failed, left) == (6, {Step("b", 1): "ValueError: turn: unlucky"}, 1)
    found = store.read(place, Step)
    assert found[Step("a")]["metrics"] == {"value": 3} and Step("b") not in found
    made = found[Step("a")]["provenance"]
    assert made["cpu_seconds"] == 7.0 and made["command"] == "python -m experiments run study --only a"
    assert harness.stages(Study, found, Study.plan()) == [[Step("b", 1)], [Step("b")]]
    assert harness.stages(Study, found, [Step("a")], again=True) == [[Step("a", turn) for turn in range(3)], [Step("a")]]
    assert harness.stages(Study, found, [Step("a")]) == []


def test_provenance_says_what_is_needed_to_repeat_a_run():
    made = provenance("make it so", Clock(), sha256="abc", cpu_seconds=3.0)
    assert {"command", "date", "commit", "versions", "machine", "seconds", "cpu_seconds", "peak_mb", "sha256"} == set(made)
    assert made["cpu_seconds"] == 3.0 and made["seconds"] >= 0 and made["versions"]["numpy"] == np.__version__
    assert {"processor", "architecture", "cores", "blas", "load"} == set(made["machine"])
    json.dumps(made)


@pytest.mark.parametrize("name", studies.NAMES)
def test_every_study_is_stored_whole(name):
    module, found = studies.study(name), studies.records(name)
    cells = module.plan()
    assert module.__doc__ and len(set(cells)) == len(cells) and found and set(found) <= set(cells)
    assert (set(found) == set(cells)) is not getattr(module, "BEGUN", False)
    assert len({store.key(cell) for cell in cells}) == len(cells)              # --only names one
    assert store.read(studies.place(name), module.Cell, notice=pytest.fail) == found
    for one in found.values():
        assert one["metrics"] and set(one) <= {"cell", "setting", "metrics", "trace", "log_p", "provenance"}


def test_thinned_traces_keep_both_ends():
    trace = np.linspace(-5, -1, 12345)
    steps, values = report.trace({"trace": {"length": len(trace), "value": run.thin(trace)}})
    assert np.allclose(values, trace[steps - 1], rtol=1e-7)
    assert len(steps) <= 200 and steps[0] == 1 and steps[-1] == 12345 and values[0] == -5 and values[-1] == -1
    assert run.thin([-3.0, -2.0]) == [-3.0, -2.0] and run.thin([]) == [] and run.thin_steps(0).tolist() == []


def test_estimates_come_from_the_nearest_stored_cells():
    near, far = CELL._replace(n_train=100), CELL._replace(n_train=5)
    stored = {near: record(near, 8.0), near._replace(seed=9): record(near, 4.0), far: record(far, 50.0)}
    assert report.estimate(CELL, stored) == pytest.approx(3.0)
    assert report.estimate(CELL._replace(method="gibbs"), stored) > 0
    stored[near._replace(seed=10)] = spent(record(near, 4.0), scoring_cpu_seconds=16.0)
    assert report.estimate(CELL, stored) == pytest.approx(10.0)                  # the scores cost time too


def test_estimates_allow_for_shorter_runs_at_larger_sizes():
    small, large = Cell("rice", 640, "mle-exact", 0), Cell("rice", 1280, "mle-exact", 0)
    ratio = options_of(large)["n_steps"] / options_of(small)["n_steps"]
    assert ratio < 1 and report.estimate(large, {small: record(small, 60.0)}) == pytest.approx(60.0 * 2 * ratio)


def test_summaries_are_means_over_seeds():
    stored = {CELL._replace(seed=s): record(CELL._replace(seed=s), lpd=v) for s, v in enumerate((-1.0, -2.0, float("nan")))}
    mean, sd, seeds = report.summaries(stored, "lpd")["iris", 50, "cavi"]
    assert (mean, seeds) == (-1.5, 2) and sd == pytest.approx(0.5 ** 0.5)
    table = "\n".join(report.score_table(stored))
    assert "-1.5000 (0.7071,  2)" in table and "iris" in table
    assert any(line.startswith("cavi") and " 720 " in line for line in report.progress_table(stored))


def cli(*args, process=False):
    """The command with its return code and what it says.  In this process unless told otherwise: faster."""
    if process:
        return subprocess.run([sys.executable, "-m", "experiments", *args], text=True, capture_output=True, cwd=store.ROOT)
    with (contextlib.chdir(store.ROOT), contextlib.redirect_stdout(io.StringIO()) as said,
          contextlib.redirect_stderr(io.StringIO()) as complained):
        try:
            status = main(args)
        except SystemExit as left:
            status = left.code
    return subprocess.CompletedProcess(args, status or 0, said.getvalue(), complained.getvalue())


def test_dry_run_prints_the_plan_and_stores_nothing(tmp_path):
    store.append(tmp_path, record(CELL))
    out = cli("run", "--dry-run", "--dataset", "iris", "--method", "cavi", "--seeds", "4", "--folder", str(tmp_path), process=True)
    assert out.returncode == 0 and f"{4 * len(sizes('iris'))} cells, 1 of them stored" in out.stdout
    assert "iris/100/cavi/3" in out.stdout and CELL.key not in out.stdout
    assert [p.name for p in tmp_path.iterdir()] == ["iris-cavi.jsonl"]


@pytest.mark.parametrize("text", ["iris/40/cavi", "iris/forty/cavi/0", "irises/40/cavi/0", "iris/40/annealing/0"])
def test_a_cell_that_does_not_exist_is_refused(text, tmp_path):
    out = cli("run", "--only", text, "--folder", str(tmp_path))
    assert out.returncode == 2 and "expected" in out.stderr and text in out.stderr


@pytest.mark.parametrize("args, name", [
    (("check", "--folder", "typo"), "--folder"), (("report", "--folder", "typo"), "--folder"), (("report", "--numbers", "bogus"), "bogus"),
    (("check", "--cells", "-1"), "--cells"), (("check", "--seed", "-1"), "--seed"), (("check", "--limit", "1e-9"), "--limit"),
    (("run", "--jobs", "0"), "--jobs"), (("run", "--budget", "-1"), "--budget"), (("run", "--budget", "0"), "--budget"),
    (("run", "--budget", "nan"), "--budget"), (("run", "--seeds", "-1"), "--seeds"), (("run", "nothing"), "nothing"),
    (("run", "maps", "--dataset", "iris"), "--dataset"), (("run", "--method", "gibs"), "--method"), (("run", "early", "--table"), "--table"),
    (("run", "early", "--only", "iris/26/0"), "iris/26/0"), (("check", "baselines_mle"), "--limit")])
def test_a_command_that_could_do_nothing_says_so(args, name):
    out = cli(*args)
    assert out.returncode != 0 and name in out.stderr and "Traceback" not in out.stderr


def test_comparison_of_a_repeated_run():
    a, b = record(CELL), record(CELL, lpd=-0.2 - 1e-5)
    assert compare(a, a) == [] and compare(a, b)[0].startswith("lpd")
    sure, unsure = (record(CELL, lpd=score) for score in (-0.2, -2.0))        # a probability of e^-2 may be off by 1e-6, its logarithm by 7e-6
    assert compare(unsure, record(CELL, lpd=-2.0 - 8e-6)) == [] and compare(unsure, record(CELL, lpd=-2.0 - 1e-5))[0].startswith("lpd")
    assert compare(sure, record(CELL, lpd=-0.2 - 2e-6)) == [] and compare(sure, record(CELL, lpd=-0.2 - 3e-6))[0].startswith("lpd")
    slack = Cell("iris", 40, "mle-network", 0)
    assert compare(record(slack), record(slack, lpd=-0.2 - 1e-5)) == []


def test_the_scores_of_a_long_climb_may_move_as_with_another_start_and_its_trace_may_not():
    cells = [Cell("iris", 40, "mle-network", s) for s in range(8)]
    stored = {c: record(c, lpd=-4.0 + 0.1 * c.seed) | {"trace": {"length": 2, "value": [-9.0, -5.0]}} for c in cells}
    first, slack = stored[cells[0]], slacks(cells[0], stored)
    assert compare(first, record(cells[0], lpd=-3.99) | {"trace": {"length": 2, "value": [-9.0, -5.001]}}, slack) == []
    assert compare(first, record(cells[0], lpd=-3.99) | {"trace": {"length": 2, "value": [-9.0, -5.01]}}, slack)[0].startswith("end of trace")
    assert compare(first, record(cells[0], lpd=0.0) | {"trace": first["trace"]}, slack)[0].startswith("lpd")
    climb = {c._replace(method="cavi"): record(c._replace(method="cavi"), lpd=-4.0 + 0.1 * c.seed) for c in cells}
    one = cells[0]._replace(method="cavi")
    assert compare(climb[one], record(one, lpd=-3.99), slacks(one, climb))[0].startswith("lpd")


def test_a_climb_is_compared_along_its_trace_and_a_sampler_at_its_end():
    trace = lambda *values: {"trace": {"length": 3, "value": list(values)}}
    climb = record(CELL) | trace(-9.0, -5.0, -4.0)
    assert compare(climb, record(CELL) | trace(-9.0, -5.0, -4.0)) == []
    assert compare(climb, record(CELL) | trace(-9.0, -5.1, -4.0)) == ["trace -5 -> -5.1"]
    assert "points of trace 3 -> 2" in compare(climb, record(CELL) | trace(-9.0, -4.0))
    cells = [Cell("iris", 25, "nuts", s) for s in range(8)]
    draws = {c: record(c) | trace(-9.0, -5.0, -4.0 + 0.1 * c.seed) for c in cells}
    first, slack = draws[cells[0]], slacks(cells[0], draws)
    assert compare(first, first | trace(-7.0, -3.0, -4.3), slack) == []
    assert compare(first, first | trace(-9.0, -5.0, -6.0), slack) == ["end of trace -4 -> -6"]


def test_a_sample_takes_one_cell_of_each_method_in_turn():
    stored = {Cell("iris", 25, m, s): record(Cell("iris", 25, m, s), 300.0 if m == "nuts" else 2.0) for m in SETTINGS for s in range(9)}
    picked = sample(stored, 10, 200.0, np.random.default_rng(0))
    assert len(set(picked)) == 10 and {c.method for c in picked[:5]} == set(SETTINGS) - {"nuts"}
    assert {c.method for c in sample(stored, 6, 400.0, np.random.default_rng(0))} == set(SETTINGS)
    assert sample({}, 6, 400.0, np.random.default_rng(0)) == []


def test_numbers_that_json_lacks_are_kept_as_text(tmp_path):
    assert [run.plain(x) for x in (0.123456789123, float("-inf"), float("nan"), None)] == [0.12345679, "-inf", "nan", None]
    lost = record(CELL, lpd=run.plain(float("-inf")))
    store.append(tmp_path, lost)
    assert report.value(store.read(tmp_path)[CELL], "lpd") == -np.inf
    assert report.summaries({CELL: lost, CELL._replace(seed=4): record(CELL)}, "lpd")["iris", 50, "cavi"][0] == -np.inf


def test_costs_are_steps_times_seconds():
    r = record(CELL, 2.0)                              # 10 steps, 4 of them to 95 %
    assert report.value(r, "seconds_per_step") == 0.2 and report.value(r, "seconds_to_converge") == pytest.approx(0.8)
    assert np.isnan(report.value(record(CELL, steps_decay=None), "seconds_to_converge"))


def test_a_decay_longer_than_its_run_is_censored():
    long = record(CELL, steps=10, steps_decay=10.1)
    assert report.is_censored(long) and not report.is_censored(record(CELL, steps=10, steps_decay=10.0))
    assert not report.is_censored(record(CELL, steps_decay=None))
    assert np.isnan(report.value(long, "steps_decay")) and np.isnan(report.value(long, "seconds_to_converge"))
    assert report.value(long, "steps") == 10
    cells = {CELL._replace(seed=s, method=m): record(CELL, steps=10, steps_decay=d)
             for m in ("bbvi", "gibbs", "cavi") for s, d in enumerate((4.0, 200.0, 6.0) if m != "cavi" else (4.0, 10.0))}
    assert report.censored(cells) == {("iris", 50, "bbvi"): (1, 3)}                            # a sampler climbs nothing
    found = report.summaries(cells, "steps_decay")
    assert found["iris", 50, "bbvi"][::2] == (5.0, 2) and found["iris", 50, "cavi"][::2] == (7.0, 2)
    none = report.summaries({CELL: long}, "steps_decay")
    assert none == {}


def test_records_are_json_without_surprises():
    known = set(plan())
    for path in sorted(studies.place("cells").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            r = json.loads(line)
            cell, made = store.checked(r, Cell), r["provenance"]
            assert cell in known and made["versions"]["numpy"] and made["command"].endswith(cell.key)
            assert r["setting"].items() >= options_of(cell).items()


def test_stored_results_are_small():
    """The grid of the paper is whole and does not grow; studies are added, and each has its own share."""
    size = {p: p.stat().st_size for p in store.RESULTS.rglob("*") if p.is_file()}
    grid = sum(n for p, n in size.items() if store.RESULTS / "studies" not in p.parents)
    assert grid < 10.5e6 and max(size.values()) < 1.25e6


def test_quick_cells_cover_every_method_and_all_of_their_seeds_are_stored():
    assert sorted(c.method for c in SMALL) == sorted(3 * list(SETTINGS))
    stored = studies.records("small")
    assert set(stored) == set(small_cells())
    assert {len([c for c in stored if c.method == m]) for m in ("bbvi", "gibbs", "nuts")} == {3 * DATA["quick"]["seeds"]}
    for cell, options in small_cells().items():
        assert stored[cell]["setting"].items() >= options.items() and stored[cell]["provenance"]["cpu_seconds"] <= 10


@pytest.mark.parametrize("cell", [pytest.param(c, id=c.key, marks=[pytest.mark.slow] * (i % 3 != 0 or c.method == "nuts")) for i, c in enumerate(SMALL)])
def test_a_quick_cell_run_again_is_what_was_stored(cell):
    stored = studies.records("small")
    again = harness.make("small", studies.study("small"), cell, stored)
    assert again["provenance"]["scoring_cpu_seconds"] > 0 and store.checked(again, Cell) == cell
    y = run.split(cell)[0].y[run.split(cell)[2]]
    assert store.log_p(again)[np.arange(len(y)), y].mean() == pytest.approx(again["metrics"]["lpd"], rel=1e-6)
    assert compare(stored[cell], again, slacks(cell, stored)) == []


def test_a_run_that_is_off_by_more_than_two_independent_runs_are_is_named():
    cells = [Cell("iris", 25, "bbvi", s) for s in range(8)]
    stored = {c: record(c, lpd=-0.3 + 0.01 * c.seed) for c in cells}
    assert len(siblings(cells[0], stored)) == 7
    slack = slacks(cells[0], stored)
    # the quantile of Student's law with 7 degrees that one draw of a thousand exceeds (5.408), from a table
    assert slack["lpd"] == pytest.approx(5.408 * np.sqrt(2 * 0.01**2 * 6.0), rel=1e-3)
    assert compare(stored[cells[0]], record(cells[0], lpd=-0.3 + 0.99 * slack["lpd"]), slack) == []
    assert compare(stored[cells[0]], record(cells[0], lpd=-0.3 + 1.01 * slack["lpd"]), slack)[0].startswith("lpd")
    assert compare(stored[cells[0]], record(cells[0], lpd=float("nan")), slack)


def test_the_law_of_variances_is_found_and_holds_its_promise():
    rng = np.random.default_rng(0)
    spread = np.sqrt(0.04 * 6 / rng.chisquare(6, size=4000))           # variances: 6 degrees around .04
    runs = rng.normal(size=(4000, 4)) * spread[:, None]
    nu0, s0 = prior_of_variances(runs.var(axis=1, ddof=1), np.full(4000, 3))
    assert nu0 == pytest.approx(6, rel=0.15) and s0 == pytest.approx(0.04, rel=0.05)
    rec = {Cell("iris", n, "gibbs", s): record(Cell("iris", n, "gibbs", s), lpd=-1 + 0.1 * runs[n, s]) for n in range(300) for s in range(4)}
    again = -1 + 0.1 * rng.normal(size=300) * spread[:300]
    limits = [slacks(Cell("iris", n, "gibbs", 0), rec)["lpd"] for n in range(0, 300, 10)]
    assert np.mean(np.abs(again[::10] + 1 - 0.1 * runs[:300:10, 0]) > limits) == 0
    assert np.mean(limits) < 0.1 * 0.2 * 12                             # eight standard deviations and not eighteen
    same = {c: r | {"metrics": r["metrics"] | {"lpd": -1.0}} for c, r in rec.items() if c.n_train == 7}
    assert slacks(Cell("iris", 7, "gibbs", 0), rec | same)["lpd"] > 0   # four seeds that agree by chance
    assert prior_of_variances([0.0, 1.0], [3, 3])[0] == 0


def test_metrics_of_a_study_are_compared_one_by_one_but_for_times():
    old = {"metrics": {"lpd": -1.0, "ranks": [1.0, 2.0], "steps": 30, "name": "a", "seconds": 3.0, "by": {"x": 1}}}
    new = {"metrics": old["metrics"] | {"seconds": 9.0, "brier": 0.1}}
    assert compare_metrics(old, new, 1e-6, ("seconds",)) == []
    nested = [{"metrics": {"by": {"1": [0.1 + shift, 0.2], "2": []}}} for shift in (0, 1e-7, 1e-5)]
    assert compare_metrics(*nested[:2], 1e-6) == [] != compare_metrics(nested[0], nested[2], 1e-6)
    for name, value in (("lpd", -1.001), ("ranks", [1.0, 2.1]), ("ranks", [1.0]), ("steps", 60), ("name", "b"), ("by", {"x": 2}), ("by", {"y": 1}), ("by", {}),
                        ("lpd", None)):
        assert [text.split()[0] for text in compare_metrics(old, {"metrics": new["metrics"] | {name: value}}, 1e-6, ("seconds",))] == [name]


def test_a_lone_nuts_cell_is_compared_with_the_spread_of_gibbs():
    gibbs = [Cell("iris", 25, "gibbs", s) for s in range(4)]
    stored = {c: record(c, lpd=-0.5 + 0.01 * c.seed) for c in gibbs}
    alone = Cell("iris", 25, "nuts", 0)
    stored[alone] = record(alone, lpd=-0.3)
    others = siblings(alone, stored)
    assert [r["cell"]["method"] for r in others] == ["gibbs"] * 4
    limit = slacks(alone, stored)["lpd"]
    assert limit == slacks(gibbs[0], stored)["lpd"] > 0
    assert compare(stored[alone], record(alone, lpd=-0.3 + 0.99 * limit), slacks(alone, stored)) == []
    assert compare(stored[alone], record(alone, lpd=-0.3 + 1.01 * limit), slacks(alone, stored))[0].startswith("lpd")
    twin = alone._replace(seed=1)
    assert siblings(alone, stored | {twin: record(twin)}) == [record(twin)]
    assert siblings(Cell("iris", 25, "bbvi", 0), stored) == [] and slacks(Cell("iris", 25, "bbvi", 0), stored) is None


def test_figure_shows_every_stored_point_and_names_its_seeds():
    plt = pytest.importorskip("matplotlib.pyplot")
    cells = {c: record(c, 2.0, lpd=-0.2 - 0.01 * c.seed) for c in
             [Cell("iris", n, "cavi", s) for n in (25, 50) for s in range(3)] + [Cell("iris", 50, "gibbs", 0)]}
    figure, axes = plt.subplots(2, 3, layout="constrained")
    assert figures.six_panels(cells, "iris", axes) is axes
    labels = [t.get_text() for t in figure.legends[0].get_texts()]
    assert labels == ["cavi (3 seeds)", "gibbs (1 seed)"]
    assert figures.seeds_label("bbvi", {50: 4, 100: 4, 200: 1, 400: 5, 800: 5, 1600: 4}) == "bbvi (4 seeds, 1 at 200, 5 at 400 and 800)"
    lines = [len(ax.containers) for ax in axes.ravel()]
    assert lines == [2, 2, 2, 1, 1, 2]                 # samplers climb nothing
    x, y = axes[0, 1].containers[0].lines[0].get_data()
    assert y == pytest.approx([0.21, 0.21]) and x == pytest.approx([25, 50], rel=0.1)
    plt.close(figure)


def test_a_line_of_the_figure_stops_where_a_size_is_not_stored():
    plt = pytest.importorskip("matplotlib.pyplot")
    cells = {c: record(c, 2.0) for c in [Cell("sonar", n, "bbvi", 0) for n in (8, 64, 128)]}
    ax = figures.panel(cells, "sonar", "accuracy")
    y = np.asarray(ax.lines[0].get_ydata())
    assert np.isfinite(y).tolist() == [n in (8, 64, 128) for n in sizes("sonar")]
    assert len(ax.containers[0].lines[0].get_ydata()) == 3
    plt.close(ax.figure)


def test_table_one_has_means_over_seeds_beside_the_paper_and_says_how_far_they_are():
    n = waic_size("sonar")
    cells = [Cell("sonar", n, "cavi", s) for s in range(4)] + [Cell("sonar", 8, "cavi", 0)]
    waics = (-0.10, -0.12, -0.14, -0.16, -9.0)
    stored = {c: record(c, waic=w, waic_se=0.03) for c, w in zip(cells, waics)}
    mean, error, sd, seeds = report.waic_cells(stored)["sonar", "cavi"]
    assert (mean, error, seeds) == (pytest.approx(-0.13), pytest.approx(0.03), 4)       # the small cell is not of the table
    lines = report.waic_table(stored)
    at = [i for i, line in enumerate(lines) if line.startswith("sonar")][0]
    assert "-0.130 +- 0.030 (4)" in lines[at] and "-0.1544" in lines[at + 1] and lines[at].split()[-3:] == ["-", "-", "-"]
    z = report.waic_agreement(stored)
    assert set(z) == {("sonar", "cavi")}
    assert z["sonar", "cavi"] == pytest.approx((-0.13 + 0.1544) / np.sqrt(0.03**2 + np.var(waics[:4], ddof=1) / 4))


def test_tables_by_size_count_what_is_stored_and_show_the_gaps():
    two = {Cell("iris", 50, m, s): record(Cell("iris", 50, m, s), accuracy=v)
           for m, vs in (("cavi", (0.8, 0.9)), ("bbvi", (0.5, 0.7))) for s, v in enumerate(vs)}
    one = Cell("iris", 100, "cavi", 0)
    records = {**two, one: record(one, accuracy=0.95), Cell("sonar", 8, "cavi", 0): record(Cell("sonar", 8, "cavi", 0))}
    done = {line.split()[0]: line.split()[1:] for line in figures.coverage(records, "iris")}
    assert done["rows"] == ["25", "50", "100"] and done["cavi"] == ["0/16", "2/16", "1/16"] and done["nuts"] == ["-", "-", "0/5"]
    lines = figures.size_table(records, "iris", "accuracy")
    assert [line.split() for line in lines] == [["accuracy", "25", "50", "100"], ["cavi", "-", "0.850", "0.950"], ["(0.071)"],
                                                ["bbvi", "-", "0.600", "-"], ["(0.141)"]]
    (n, gap, error), = figures.differences(records, "iris", "accuracy", "cavi", "bbvi")
    assert n == 50 and gap == pytest.approx(0.25) and error == pytest.approx(np.sqrt((0.005 + 0.02) / 2))
    for sign, ok, words in ((1, True, "holds"), (-1, False, "does not hold, fails at 50")):
        better, lines = figures.verdicts(records, "iris", "accuracy", sign, "bbvi")
        assert better == {50: ok} and lines[-1].endswith(f"all 1 sizes that both have: {words}")
        assert lines[1].split() == ["50", "rows", "+0.250", "(0.112)", "cavi" if ok else "bbvi"]
