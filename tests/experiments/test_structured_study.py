"""The study of leaner posteriors: its plan is its protocol, its tables say what the records do, and small cells repeat."""
import numpy as np
import pytest

from cmn_literate.beyond.structured import COEFFICIENTS, LATENT_POSTERIORS
from experiments import studies
from experiments.studies import structured as study


def cells(part, dataset, size, variant, values, name="lpd"):
    return {study.Cell(part, dataset, size, variant, s): {"metrics": {name: v}} for s, v in zip(study.SPLITS if part == "scores" else study.DRAWS, values)}


def test_plan_is_the_protocol():
    plan = study.plan()
    assert len(set(plan)) == len(plan) == 6 + 2 * 4 * (8 + 8) + 2 * 4 + (4 * 8 + 4 * 4) * 4 + 4 * 2
    assert set(study.VARIANTS) == set(LATENT_POSTERIORS) and {"diagonal-output", "diagonal-inputs"} < set(COEFFICIENTS)
    stored = studies.records("structured")
    assert set(stored) <= set(plan)
    assert all(v in "\n".join(study.report(stored)) for v in study.VARIANTS)


def test_losses_are_paired_and_the_verdict_is_by_the_rule():
    records = cells("many", "blobs", 33, "full", [0.0, 0.1, 0.2, 0.3]) | cells("many", "blobs", 33, "shared", [0.0, 0.0, 0.2, 0.2])
    np.testing.assert_allclose(study.losses(records, "many", "blobs", 33, "shared", "lpd"), (0.05, np.std([0, 0.1, 0, 0.1], ddof=1) / 2))
    assert study.losses(records, "many", "blobs", 33, "diagonal", "lpd") is None
    stored = studies.records("structured")
    for v in study.VARIANTS[1:]:
        times, bound, lpd, worse, pairs = study.verdict(stored, v)
        seconds = stored[study.Cell("time", "normal", 32, "all", 0)]["metrics"]["seconds"]
        assert times == seconds["full"] / seconds[v] and 0 <= worse <= pairs <= (8 if v in study.OF_NUMBERS else 4)
        row = next(row for row in study.verdict_table(stored).rows if row[0] == v)
        assert row[-1] == ("yes" if times >= 8 and max(bound, lpd) <= 0.02 else "no") or np.isnan(bound) and times >= 8


@pytest.mark.parametrize("variant", ["full", "mean-field-diagonal"])
def test_a_cell_repeats(variant):
    cell = study.Cell("scores", "iris", study.sizes_of("iris")[1], variant, study.SPLITS[0])
    again, stored = study.run(cell), studies.records("structured")[cell]
    for name, value in stored["metrics"].items():
        np.testing.assert_allclose(again["metrics"][name], value, rtol=2e-3, atol=1e-6, err_msg=name)


def test_time_has_every_variant():
    found = study.timed(2, 60, 3, rounds=1)["metrics"]
    assert all(set(found[name]) == set(study.VARIANTS) and min(found[name].values()) > 0 for name in ("seconds", "peak", "kept"))
    assert found["kept"]["mean-field"] < found["kept"]["full"] < found["kept"]["class-shared"]
