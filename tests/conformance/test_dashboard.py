"""The page of adapters side by side: letters, what is stored, and a check that can fail."""

import importlib.util
import json
from pathlib import Path

import pytest

from cmn_conformance import catalogue

ROOT = Path(__file__).resolve().parents[2]


def level(right, of, asked=None, inaccurate=0, wrong=0, number=0):
    return {"level": number, "asked": of if asked is None else asked, "right": right, "inaccurate": inaccurate, "wrong": wrong, "of": of}


@pytest.fixture
def dashboard(tmp_path, monkeypatch):
    """The module, with one stored run in a folder of its own."""
    found = importlib.util.spec_from_file_location("dashboard", ROOT / "conformance/dashboard.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    for name, value in (("ROOT", tmp_path), ("RESULTS", tmp_path / "results"), ("PAGE", tmp_path / "adapters.md")):
        monkeypatch.setattr(module, name, value)
    module.RESULTS.mkdir()
    suite = {key: catalogue.suite_info()[key] for key in ("version", "cases")}
    store(module, {"name": "plain", "file": "plain.c", "what": "C", "dtype": "f64", "suite": suite, "date": "2026-11-30", "seconds": 1.0, "adapter": "<plain>",
                   "version": "1", "language": "C99", "profile": {"gamma": "scale"}, "levels": [level(3, 5, 4, wrong=1), level(4, 4, number=1)],
                   "told": [{"id": "L0-a", "verdict": "failed", "reason": "it is <b>twice</b> the expected value"}]})
    return module


def store(module, entry, **changes):
    (module.RESULTS / f"{entry['name']}.json").write_text(json.dumps({**entry, **changes}))


@pytest.mark.parametrize(("counts", "letter"), [(level(5, 5), "R"), (level(4, 5, 4), "P"), (level(4, 5, inaccurate=1), "I"), (level(3, 5, inaccurate=1, wrong=1), "W"),
                                                (level(0, 5, 0), "-"), (level(4, 5, 5), "P"), (None, "-")])
def test_letter(dashboard, counts, letter):
    assert dashboard.grade(counts) == letter


def test_page_says_what_is_stored_and_escapes_what_an_adapter_says(dashboard):
    assert dashboard.main(["--page"]) == 0
    text = dashboard.PAGE.read_text()
    assert 'grade wrong">W</span> <span class="share">3/5' in text and 'grade right">R</span> <span class="share">4/4' in text and "gamma: scale" in text
    assert "&lt;plain&gt;" in text and "<plain>" not in text and "<b>twice" not in text
    assert not dashboard.main(["--check"])


def test_check_is_red_for_another_page_another_suite_and_a_stranger(dashboard, capsys):
    assert dashboard.main(["--check"]) and "is not the page of" in capsys.readouterr().out
    dashboard.main(["--page"])
    entry = json.loads((dashboard.RESULTS / "plain.json").read_text())
    store(dashboard, entry, seconds=2.0)
    assert dashboard.main(["--check"]) and "is not the page of" in capsys.readouterr().out
    store(dashboard, entry, suite={"version": "2020.01", "cases": 3})
    assert dashboard.main(["--check"]) and "of another suite than" in capsys.readouterr().out
    store(dashboard, {**entry, "name": "stranger"})
    with pytest.raises(SystemExit, match="stranger"):
        dashboard.main(["--check"])


@pytest.mark.parametrize(("profile", "cases", "stands"), [({}, 490, True), ({"expert_mean": ["zero", "shared"]}, 490, False), ({}, 489, False)])
def test_a_run_of_an_older_suite_stands_while_nothing_since_is_asked_of_it(dashboard, profile, cases, stands):
    entry = json.loads((dashboard.RESULTS / "plain.json").read_text())
    assert dashboard.up_to_date({**entry, "suite": {"version": "2026.12", "cases": cases}, "profile": profile}) == stands


def test_optional_suites_are_counted_by_themselves(dashboard):
    ids = [c.id for c in catalogue.cases() if catalogue.optional_suite(c.profile) == "shared means"][:3]
    results = [{"id": i, "verdict": verdict, "kind": kind} for i, verdict, kind in zip(["L0-pg_mean-moderate", *ids], ("passed", "passed", "failed", "skipped"), ("", "", "", "algorithm"))]
    assert dashboard.optional({"results": results}) == {"shared means": {"asked": 2, "right": 1, "inaccurate": 0, "wrong": 1, "of": 2}}
    assert dashboard.optional({"results": results[:1]}) == {} == dashboard.optional({"results": results[3:]})
    dashboard.main(["--page"])
    assert "**Shared means**, " in dashboard.PAGE.read_text() and "nobody right" in dashboard.PAGE.read_text()


def test_run_stores_a_file_and_keeps_what_cannot_run(dashboard, monkeypatch, capsys):
    before = (dashboard.RESULTS / "plain.json").read_text()
    monkeypatch.setattr(dashboard.shutil, "which", lambda name: None)
    assert dashboard.main(["plain", "python_loops"]) == 0
    said = capsys.readouterr().out
    assert "plain: kept as it is stored; absent here: cc" in said and (dashboard.RESULTS / "plain.json").read_text() == before
    run = json.loads((dashboard.RESULTS / "python_loops.json").read_text())
    assert run["suite"]["cases"] == catalogue.suite_info()["cases"] and {x["wrong"] for x in run["levels"]} == {0} and run["levels"][0]["right"] > 50
    with pytest.raises(SystemExit, match="no adapter fortran"):
        dashboard.main(["fortran"])


def test_every_adapter_is_asked():
    found = importlib.util.spec_from_file_location("dashboard", ROOT / "conformance/dashboard.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    files = {file.name for file in (ROOT / "conformance/adapters").iterdir() if file.suffix in {".py", ".mjs", ".c"}} - {"package_outputs.py"}      # a part of package.py
    assert files <= {a.file for a in module.ADAPTERS}
