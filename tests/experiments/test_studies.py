"""Every study still runs: a cheap cell of each comes out as it is stored."""
import numpy as np
import pytest

from experiments import harness, store, studies
from experiments.compare import compare_metrics
from experiments.studies import baselines_gibbs, restarts, runtime


@pytest.mark.parametrize("name, cell", [
    ("baselines_bbvi", ("iris", "cavi", 0)), ("baselines_gibbs", ("speed", "4 x 1")), ("classifier", ("iris", 1)), ("maps", ("cavi",)),
    ("others", ("iris", 25, "mlp", 0)), ("splits", ("iris", 25, "ridge", 1, 0)), ("waic", ("iris", 100, "mle-network", 0)),
    ("others", ("iris", 25, "neighbours", 0)), ("others", ("iris", 25, "cmn-default", 0)),
    pytest.param("row_scores", ("waveform", 3840, "exact", 1), marks=pytest.mark.slow),
    ("passes", ("iris", "memoized axes", 0)), ("passes", ("iris", "stochastic 16 0.6", 0)), ("passes", ("iris", "stream 8", 0)),
    ("depth", ("iris", 50, "2 layers", 40)), pytest.param("row_scores", ("pinwheels", 400, "cavi", 5), marks=pytest.mark.slow),
    ("shared_means", ("scores", "iris", 25, "shared", 6)), ("runtime", ("run", "base", 0, "cavi", 0))])
def test_a_cell_comes_out_as_it_is_stored(name, cell, tmp_path):
    module, stored = studies.study(name), studies.records(name)
    cell = module.Cell(*cell)
    try:
        again = harness.make(name, module, cell, stored, models=tmp_path)
    except FileNotFoundError as error:
        pytest.skip(str(error).splitlines()[0])
    timed = getattr(module, "TIMED", ())
    assert set(stored[cell]["metrics"]) - set(timed) <= set(again["metrics"])
    assert compare_metrics(stored[cell], again, getattr(module, "TOLERANCE", 1e-6), timed) == []
    assert store.checked(again, module.Cell) == cell and again["provenance"]["cpu_seconds"] >= 0


@pytest.mark.slow
def test_averages_of_starts_come_out_of_nothing_as_they_are_stored(tmp_path):
    cell, place = restarts.Cell("averages", "iris", start="class-code"), tmp_path / "restarts.jsonl"
    todo = harness.stages(restarts, {}, [cell])
    assert [len(stage) for stage in todo] == [16, 1]
    assert harness.run_stages("restarts", restarts, todo, place) == (17, {}, 0)
    stored, again = studies.records("restarts"), store.read(place, restarts.Cell)
    for one in again:
        assert compare_metrics(stored[one], again[one], restarts.TOLERANCE) == []
    for size, values in stored[cell]["metrics"]["lpd"].items():
        assert again[cell]["metrics"]["lpd"][size] == pytest.approx(values, abs=1e-5)
    kept = again.pop(todo[0][0])
    del kept["log_p"]
    with pytest.raises(ValueError, match="has kept its forecasts"):
        restarts.run(cell, again | {todo[0][0]: kept})


@pytest.mark.parametrize("fault", [name for name in baselines_gibbs.FAULTS if name != "none"])
def test_a_planted_fault_changes_the_sampler(fault):
    right = baselines_gibbs.geweke(40, seed=0)
    with baselines_gibbs.planted(baselines_gibbs.FAULTS[fault]):
        wrong = baselines_gibbs.geweke(40, seed=0)
    assert np.isfinite(right).all() and not np.allclose(right, wrong)
    assert np.array_equal(right, baselines_gibbs.geweke(40, seed=0))       # and is gone again


def test_every_piece_of_a_sweep_is_in_the_package():
    with runtime.Stopwatch(runtime.PIECES) as watch:
        pass
    assert watch.missing == []


@pytest.mark.parametrize("method", runtime.METHODS)
def test_every_method_can_be_timed(method):
    step = runtime.stepper(method, {"N": 30, "d": 2, "K": 3, "h": 2, "L": 3})
    step()
    step()
