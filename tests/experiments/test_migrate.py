"""The move of the records of 0.1: every number is found again, and a lost or changed one is noticed."""
import json
import os

import pytest

from experiments import migrate, store, studies
from experiments.grid import Cell
from experiments.run import thin_steps
from experiments.studies import restarts


def as_text(value):
    return json.loads(json.dumps(value))


@pytest.fixture
def old(tmp_path, monkeypatch):
    """A results/ folder of 0.1 with two cells, a file of rows, a file that another one contains, and the columns of the restarts."""
    monkeypatch.setattr(os, "fsync", lambda file: None)           # a thousand records, each of which would wait for the disk
    folder, head = tmp_path / "old", {"what": "runs", "command": "make results", "date": "2026-11-28", "versions": {"numpy": "2.4.6"}}
    for place in ("cells", "small"):
        (folder / place).mkdir(parents=True)
        for method in ("cavi", "gibbs"):
            lines = [{"cell": Cell("iris", 25, method, seed)._asdict(), "setting": {"method": method}, "metrics": {"lpd": -0.1 * seed - 0.3},
                      "objective": "ELBO", "trace": {"step": thin_steps(500).tolist(), "value": [-1.5] * len(thin_steps(500))}, "steps": 500,
                      "converged": False, "steps_decay": 40.5, "steps_within_1_nat": 180, "rhat": 1.02, "seconds": 0.5, "cpu_seconds": 0.4,
                      "seconds_per_step": 0.0008, "peak_mb": 90.1, "versions": {"numpy": "2.4.6"}, "date": "2026-11-28", "command": "run"}
                     for seed in range(2)]
            (folder / place / f"iris-{method}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    runs = [{"data": d, "seed": s, "n_train": 100, "accuracy": 0.9 + s / 100, "lpd": -0.2} for d in ("iris", "vehicle") for s in range(2)]
    files = {"classifier": head | {"sha256": {"iris": "abc"}, "doi": {"iris": "10"}, "runs": runs}, "vehicle": head | {"runs": runs[2:3]}}
    records = studies.records("restarts")
    tables = {name: v for name, v in restarts.tables(records).items() if name != "fits"}
    settings = {"max_sweeps": 500, "tol": 1e-6, "holdout": 0.2}
    files["restarts"] = head | {"fits": 1012, "cpu_seconds": 1496, "settings": settings, **tables}
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def change(path, edit):
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))


def test_nothing_but_the_form_changes(old, tmp_path, capsys):
    migrate.main(old, tmp_path / "new")
    said = capsys.readouterr().out
    assert said.endswith("nothing but the form changed\n")
    assert [line.split()[2:] for line in said.splitlines() if line.split()[:2] == ["classifier", "accuracy"]] == [["4", "3.62", "4", "3.62"]]
    cells = store.read(tmp_path / "new" / "cells")
    one = cells[Cell("iris", 25, "gibbs", 1)]
    assert len(cells) == 4 and one["metrics"]["lpd"] == -0.4 and one["metrics"]["steps"] == 500 and one["trace"]["length"] == 500
    found = store.read(tmp_path / "new/studies/classifier.jsonl", studies.study("classifier").Cell)
    assert found["iris", 1]["metrics"] == {"n_train": 100, "accuracy": 0.91, "lpd": -0.2} and found["iris", 0]["provenance"]["sha256"] == "abc"
    again = store.read(tmp_path / "new/studies/restarts.jsonl", restarts.Cell)
    assert restarts.tables(again) == restarts.tables(studies.records("restarts"))
    with pytest.raises(SystemExit, match="does not exist"):
        migrate.main(old, tmp_path / "new")


@pytest.mark.parametrize("name, edit, complaint", [
    ("vehicle", lambda c: c["runs"][0].update(lpd=-0.3), "vehicle.json"),
    ("restarts", lambda c: c["orders"]["iris"]["012"]["lpd"].pop(), "restarts: 7 entries for 8 fits"),
    ("restarts", lambda c: c["experts"]["iris"]["class-code"]["20"]["lpd"].__setitem__(0, -9.0), "two different records"),
    ("classifier", lambda c: c["runs"].append(c["runs"][0]), "classifier: a record changed")])
def test_what_would_be_lost_is_named(old, tmp_path, name, edit, complaint):
    change(old / f"{name}.json", edit)
    with pytest.raises(SystemExit, match=complaint):
        migrate.main(old, tmp_path / "new")


def test_a_trace_whose_steps_do_not_follow_is_refused(old, tmp_path):
    path = old / "cells/iris-cavi.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[1]["trace"]["step"][3] += 1
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(SystemExit, match="steps of its trace"):
        migrate.main(old, tmp_path / "new")
