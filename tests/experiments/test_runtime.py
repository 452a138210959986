"""The study of run times: turns and medians, own times, and records that cover its plan."""
import pytest

from experiments import studies
from experiments.studies import runtime


class Clock:
    """A clock that functions push forward."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def takes(self, *seconds):
        """A function that takes these seconds in turn."""
        waits = [seconds[i % len(seconds)] for i in range(10_000)]

        def work():
            self.now += waits.pop(0)
        return work


def test_methods_take_turns_and_a_slow_call_does_not_count():
    clock, calls = Clock(), []
    plain = {"a": clock.takes(1.0), "b": clock.takes(3.0, 3.0, 90.0, 3.0, 3.0)}
    functions = {name: lambda name=name: (calls.append(name), plain[name]()) for name in plain}
    seconds, rounds = runtime.median_times(functions, seconds=0.0, rounds=(5, 9), clock=clock)
    assert seconds == {"a": 1.0, "b": 3.0} and rounds == 5
    assert calls == ["a", "a", "b", "b"] + ["a", "b"] * 5                # warm-up, then turns


def test_quick_functions_are_called_often_per_turn():
    clock = Clock()
    seconds, rounds = runtime.median_times({"a": clock.takes(0.001)}, seconds=1.0, rounds=(1, 3), clock=clock)
    assert seconds == {"a": pytest.approx(0.001)} and rounds == 3
    assert clock.now == pytest.approx(0.002 + 3 * 10 * 0.001)


def test_passes_are_merged_by_the_median():
    passes = [{"rounds": 2, "seconds": {"a": t}} for t in (3.0, 1.0, 2.0)]
    assert runtime.merge(passes) == {"rounds": 6, "seconds": {"a": [1.0, 2.0, 3.0]}}


def test_stopwatch_gives_every_piece_its_own_time(monkeypatch):
    from cmn_literate.engineering import sums
    from cmn_literate.network import cavi

    clock = Clock()
    monkeypatch.setattr(sums, "gate_rows", clock.takes(2.0))
    monkeypatch.setattr(sums, "collect", lambda: (clock.takes(5.0)(), sums.gate_rows()))
    pieces = {"sums": ("engineering.sums", ("collect",)), "gate": ("engineering.sums", ("gate_rows",)), "gone": ("network.cavi", ("not_there",))}
    before = sums.collect
    with runtime.Stopwatch(pieces, clock) as watch:
        sums.collect()
        sums.gate_rows()
    assert watch.seconds == {"sums": 5.0, "gate": 4.0, "gone": 0.0}
    assert watch.missing == ["not_there"] and not hasattr(cavi, "not_there")
    assert sums.collect is before


def test_what_is_stored_is_whole():
    points = {(p["axis"], p["value"]): p for p in studies.rows("runtime", part="point")}
    assert set(points) == {(axis, value) for axis, values in runtime.AXES.items() for value in values}
    for (axis, value), p in points.items():
        assert p["sizes"] == runtime.sizes_at(axis, value)
        assert list(p["seconds"]) == list(runtime.METHODS)
        assert all(0 < low <= middle <= high for low, middle, high in p["seconds"].values())
    assert [(r["method"], r["axis"], r["turn"]) for r in studies.rows("runtime", part="run")] == runtime.RUNS
    profiles = studies.rows("runtime", part="profile")
    assert [(p["change"], p["sizes"]) for p in profiles] == [runtime.changed(text) for text in runtime.PROFILES]
    assert all(sum(p["pieces"].values()) <= p["seconds"] for p in profiles)


def test_a_point_is_the_sum_of_its_passes(monkeypatch):
    monkeypatch.setattr(runtime, "stepper", lambda method, sizes: (method, sizes))
    monkeypatch.setattr(runtime, "median_times", lambda functions: ({m: float(len(m)) for m in functions}, 4))
    cell = runtime.Cell("point", "d", 4)
    records = {one: runtime.run(one, {}) for one in runtime.needs(cell)}
    made = runtime.run(cell, records)
    assert len(records) == 3 and made["metrics"]["rounds"] == 12 and made["setting"]["sizes"] == runtime.sizes_at("d", 4)
    assert made["metrics"]["seconds"] == {m: [len(m)] * 3 for m in runtime.METHODS}


def test_along_h_the_classes_follow():
    assert runtime.sizes_at("h", 8) == {**runtime.BASE, "h": 8, "L": 9}
    assert runtime.sizes_at("h alone", 8) == {**runtime.BASE, "h": 8}
    assert runtime.sizes_at("base", 0) == runtime.BASE
