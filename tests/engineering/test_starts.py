"""Regions that a start cuts out: few where rows are few, and such as a gate can draw."""
import numpy as np
import pytest
from scipy.optimize import linprog

from cmn_literate import CMNClassifier
from cmn_literate.engineering.starts import cluster_labels, few_regions, hyperplane_labels, init_parameters, soften, standard_columns
from cmn_literate.network.simulate import Priors


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal(size=(53, 3)) * [1e4, 1.0, 1e-4] - 3


def test_few_regions():
    assert [few_regions(n, 7, 10) for n in (0, 6, 7, 20, 21, 70, 700)] == [1, 1, 1, 2, 3, 10, 10]


@pytest.mark.parametrize("R", [1, 2, 6, 53])
def test_hyperplanes_cut_regions_of_one_size(X, R):
    label = hyperplane_labels(X, R, np.random.default_rng(R))
    sizes = np.bincount(label, minlength=R)
    assert len(sizes) == R and np.ptp(sizes) <= 1
    rows = np.column_stack([standard_columns(X), np.ones(53)])
    for j in range(R - 1):                                          # region j against all later ones
        side = np.where(label == j, 1.0, -1.0)[label >= j]
        assert linprog(np.zeros(4), A_ub=-side[:, None] * rows[label >= j], b_ub=-np.ones(len(side)), bounds=(None, None)).success


def test_directions_favour_no_column(X):
    found = np.zeros(3)                      # the column along which two regions differ most, whatever its unit
    for seed in range(400):
        label = hyperplane_labels(X, 2, np.random.default_rng(seed))
        Z = standard_columns(X)
        found[np.abs(Z[label == 0].mean(0) - Z[label == 1].mean(0)).argmax()] += 1
    assert ((found - 400 / 3) ** 2 / (400 / 3)).sum() < 13.8        # chi2, 2 degrees: 1 in 1,000
    np.testing.assert_array_equal(hyperplane_labels(X, 4, np.random.default_rng(1)), hyperplane_labels(5 * X + 2, 4, np.random.default_rng(1)))
    constant = standard_columns(np.column_stack([X, np.full(53, 7.0)]))
    assert not constant[:, 3].any()
    np.testing.assert_allclose(constant[:, :3].std(0), 1, rtol=1e-12)


@pytest.mark.parametrize("method, draw, R", [("class-code", cluster_labels, 5), ("few-clusters", cluster_labels, 3), ("hyperplanes", hyperplane_labels, 3)])
def test_a_start_learns_the_regions_of_its_name(method, draw, R):
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(17, 4)), rng.integers(0, 2, 17)         # 17 rows, 5 coefficients: 3 regions
    p = init_parameters(X, y, 5, 1, 2, Priors(), np.random.default_rng(3), method)
    label = draw(X, R, np.random.default_rng(3))
    np.testing.assert_allclose(2 * (p.a - 2.0), soften(label, 5).sum(0), rtol=1e-12)


def test_the_estimator_takes_the_starts_and_names_what_it_refuses():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(40, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0, "a", "b")
    for init in ("hyperplanes", "few-clusters"):
        est = CMNClassifier.paper(n_experts=4, init=init, n_init=3, max_sweeps=20, random_state=0).fit(X, y)
        assert len(est.fits_) == 3 and np.isfinite(est.predict_log_proba(X)).all()
        assert np.ptp([fit.elbo[0] for fit in est.fits_]) > 0
    with pytest.raises(ValueError, match='init.*hyperplanes.*got .lines.'):
        CMNClassifier.paper(init="lines").fit(X, y)
    with pytest.raises(ValueError, match='method: expected "class-code", "few-clusters", "hyperplanes", "random" or "prior"'):
        init_parameters(X, np.zeros(40, int), 2, 1, 2, Priors(), rng, "lines")
