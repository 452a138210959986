"""The harness of the experiments: the plan, records that survive a crash, many cells side by side, the command."""
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from cmn_literate.datasets import SPLITS, training_sizes
from cmn_literate.experiments import command, report, run, store
from cmn_literate.experiments.grid import DATASETS, SEEDS, SETTINGS, Cell, plan, sizes

CELL = Cell("iris", 50, "cavi", 3)


def record(cell, seconds=2.0, **metrics):
    return {"cell": cell._asdict(), "metrics": {"accuracy": 0.9, "lpd": -0.2, "ece": 0.05, **metrics}, "seconds": seconds,
            "cpu_seconds": seconds, "steps": 10, "steps_decay": 4.0, "steps_within_1_nat": 7}


def test_plan_holds_every_cavi_cell_first_and_no_cell_twice():
    cells = plan()
    assert len(set(cells)) == len(cells)
    cavi = [Cell(d, n, "cavi", s) for d in DATASETS for n in training_sizes(d) for s in SEEDS]
    assert cells[:len(cavi)] == cavi and len(SEEDS) == 16
    assert {c.method for c in cells} == set(SETTINGS) and {c.dataset for c in cells} == set(DATASETS) <= set(SPLITS)
    for dataset in DATASETS:
        for method in ("gibbs", "mle-exact", "bbvi"):
            assert len({c.seed for c in cells if (c.dataset, c.method, c.n_train) == (dataset, method, sizes(dataset)[-1])}) >= 4
        assert any(c.method == "nuts" for c in cells if c.dataset == dataset)


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
    assert set(store.read(tmp_path, said.append)) == {CELL}
    assert len(said) == 1 and "line 2" in said[0] and path.name in said[0]
    store.append(tmp_path, record(CELL._replace(seed=5)))
    assert set(store.read(tmp_path, said.append)) == {CELL, CELL._replace(seed=5)}


def test_many_cells_side_by_side_keep_what_is_done_and_name_what_failed(tmp_path, monkeypatch):
    def fake(cell, **options):
        if cell.seed == 2:
            raise ValueError("seed: unlucky")
        return record(cell, metrics_pid=os.getpid())

    monkeypatch.setattr(run, "run_cell", fake)
    cells = [CELL._replace(seed=s) for s in range(5)]
    done, failed, left = run.run_many(cells, lambda r: store.append(tmp_path, r), jobs=2)
    assert (done, left) == (4, 0) and failed == {cells[2]: "ValueError: seed: unlucky"}
    found = store.read(tmp_path)
    assert set(found) == set(cells) - {cells[2]}
    pids = {r["metrics"]["metrics_pid"] for r in found.values()}
    assert len(pids) == 4 and os.getpid() not in pids  # a process of its own for each cell


def test_an_exhausted_budget_starts_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "run_cell", lambda cell, **options: record(cell))
    done, failed, left = run.run_many([CELL], lambda r: store.append(tmp_path, r), budget=1e-9)
    assert (done, failed, left) == (0, {}, 1)


def test_thinned_traces_keep_both_ends():
    trace = np.linspace(-5, -1, 12345)
    steps, values = run.thin(trace)
    assert len(steps) <= 200 and steps[0] == 1 and steps[-1] == 12345 and values[0] == -5 and values[-1] == -1
    assert run.thin([-3.0, -2.0]) == ([1, 2], [-3.0, -2.0]) and run.thin([]) == ([], [])


def test_estimates_come_from_the_nearest_stored_cells():
    near, far = CELL._replace(n_train=100), CELL._replace(n_train=5)
    stored = {near: record(near, 8.0), near._replace(seed=9): record(near, 4.0), far: record(far, 50.0)}
    assert report.estimate(CELL, stored) == pytest.approx(3.0)
    assert report.estimate(CELL._replace(method="gibbs"), stored) > 0


def test_summaries_are_means_over_seeds():
    stored = {CELL._replace(seed=s): record(CELL._replace(seed=s), lpd=v) for s, v in enumerate((-1.0, -2.0, float("nan")))}
    mean, sd, seeds = report.summaries(stored, "lpd")["iris", 50, "cavi"]
    assert (mean, seeds) == (-1.5, 2) and sd == pytest.approx(0.5 ** 0.5)
    table = "\n".join(report.score_table(stored))
    assert "-1.5000 (0.7071,  2)" in table and "iris" in table
    assert any(line.startswith("cavi") and " 720 " in line for line in report.progress_table(stored))


def cli(*args, **options):
    return subprocess.run([sys.executable, "-m", "cmn_literate", "experiments", *args], text=True, capture_output=True, timeout=120,
                          **options)


def test_dry_run_prints_the_plan_and_stores_nothing(tmp_path):
    store.append(tmp_path, record(CELL))
    out = cli("run", "--dry-run", "--dataset", "iris", "--method", "cavi", "--seeds", "4", "--folder", str(tmp_path))
    assert out.returncode == 0 and f"{4 * len(sizes('iris'))} cells, 1 of them stored" in out.stdout
    assert "iris/100/cavi/3" in out.stdout and CELL.key not in out.stdout
    assert [p.name for p in tmp_path.iterdir()] == ["iris-cavi.jsonl"]


@pytest.mark.parametrize("text", ["iris/40/cavi", "iris/forty/cavi/0", "irises/40/cavi/0", "iris/40/annealing/0"])
def test_a_cell_that_does_not_exist_is_refused(text, tmp_path):
    out = cli("run", "--only", text, "--folder", str(tmp_path))
    assert out.returncode == 2 and "expected" in out.stderr and text in out.stderr


def test_comparison_of_a_repeated_run():
    a, b = record(CELL), record(CELL, lpd=-0.2 - 1e-5)
    assert command.compare(a, a) == [] and command.compare(a, b)[0].startswith("lpd")
    slack = Cell("iris", 40, "mle-network", 0)
    assert command.compare(record(slack), record(slack, lpd=-0.2 - 1e-5)) == []


def test_records_are_json_without_surprises():
    for path in sorted(store.Path("results/cells").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            r = json.loads(line)
            assert store.record_cell(r) in plan() and r["versions"]["numpy"] and r["command"].endswith(store.record_cell(r).key)
