"""The study of shared means: its plan is its protocol, and its verdicts count what they say."""
import numpy as np

from experiments import studies
from experiments.studies import shared_means as study
from experiments.studies.splits import SPLITS as SEEN


def scores(variant, gaps, dataset="iris", n=25):
    return {study.Cell("scores", dataset, n, variant, s): {"metrics": {"lpd": -1 + gap}} for s, gap in zip(study.SPLITS, gaps)}


def test_plan_is_the_protocol():
    cells = study.plan()
    assert len(set(cells)) == len(cells) == 8 * 2 * 4 * 8 + 2 * 4 * 6
    assert not set(range(SEEN)) & set(study.SPLITS)                             # fresh splits
    asked = [c.variant for c in cells[:3 * 8 * 2 * 4]]
    assert set(asked) == set(study.ASKED)                                       # the question first
    assert set(cells) == set(studies.records("shared_means"))


def test_differences_are_paired_by_split():
    records = scores("default", [0.0, 0.1, 0.2, 0.3]) | scores("shared", [0.1, 0.2, 0.3, 0.4]) | scores("scaled", [0.2, -0.2, 0.2, 0.2])
    (mean, error), = study.differences(records, "shared").values()
    np.testing.assert_allclose([mean, error], [0.1, 0.0], atol=1e-12)
    assert study.verdict(records, "shared") == (1, 0, 1) and study.verdict(records, "default", "shared") == (0, 1, 1)
    (mean, error), = study.differences(records, "scaled").values()
    np.testing.assert_allclose([mean, error], [-0.05, np.std([0.2, -0.3, 0.0, -0.1], ddof=1) / 2], rtol=1e-12)
    assert study.verdict(records, "scaled") == (0, 0, 1)


def test_variants_are_what_the_protocol_says():
    v0 = {v: study.model(v, "iris", 4, 3) for v in ("default", "scaled", "shared", "learned")}
    assert (v0["default"].priors.v0, v0["default"].method) == (10.0, "cavi")
    assert (v0["scaled"].priors.v0, v0["scaled"].priors.sigma0, v0["scaled"].method) == (2.0, 5 / 5**0.5, "cavi")
    assert v0["shared"].method == v0["learned"].method == "shared-means" and v0["shared"].priors.v0 == 10.0
    assert {m.max_sweeps for m in v0.values()} == {200}


def test_report_has_every_variant():
    lines = "\n".join(study.report(studies.records("shared_means")))
    assert all(v in lines for v in (*study.ASKED, *study.MORE)) and "of 16" in lines
