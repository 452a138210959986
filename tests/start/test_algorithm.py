"""The algorithm on one page, taken from its chapter: an implementation of its own, held against the package sweep by sweep."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tangle import ROOT

from cmn_conformance import catalogue, runner
from cmn_conformance.process import LocalAdapter
from cmn_conformance.serve import load
from cmn_literate.engineering.fit import fit
from cmn_literate.engineering.quadrature import predict_proba
from cmn_literate.network import cavi, elbo
from cmn_literate.network.latents import Parameters
from cmn_literate.network.simulate import Priors

ADAPTER = load(str(ROOT / "conformance/adapters/one_page.py"))
PAGE = ADAPTER.page
OTHER = {"v0": 3.0, "a0": 2.5, "b0": 1.5, "sigma0": 2.0, "sigma1": 1.7}

# N, d, K, L, h, priors, inner, seed: ordinary; one expert; two classes; h > L-1; h < L-1; one input; smallest; no rows
PROBLEMS = {"ordinary": (60, 3, 3, 4, 3, {}, 1, 0), "other priors": (60, 3, 3, 4, 3, OTHER, 1, 1), "one expert": (30, 2, 1, 3, 2, OTHER, 1, 2),
            "two classes": (30, 2, 3, 2, 1, OTHER, 1, 3), "more latents": (25, 2, 2, 2, 3, OTHER, 1, 4), "fewer latents": (40, 2, 3, 5, 2, {}, 1, 5),
            "one input": (20, 1, 4, 3, 1, OTHER, 1, 6), "smallest": (3, 1, 1, 2, 1, {}, 1, 7), "inner passes": (40, 2, 3, 4, 3, OTHER, 3, 8),
            "no rows": (0, 2, 3, 3, 2, OTHER, 1, 9)}


def problem(name):
    """X, y, sizes (K, h, L), priors as a dict, inner, seed."""
    N, d, K, L, h, priors, inner, seed = PROBLEMS[name]
    rng = np.random.default_rng([seed, 77])
    X = rng.normal(size=(N, d))
    return X, rng.integers(0, L, N), (K, h, L), priors, inner, seed


def agree(got, want):
    assert_allclose(got, want, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_sweep_is_the_package_s(name):
    X, y, sizes, priors, inner, seed = problem(name)
    s, state = PAGE.start(X, y, *sizes, np.random.default_rng(seed), **priors), cavi.init_state(X, y, *sizes, Priors(**priors), seed)
    for field, value in state.parameters._asdict().items():
        np.testing.assert_array_equal(s[field], value)
    for _ in range(25):
        s, state = PAGE.sweep(s, inner), cavi.sweep(state, X, y, Priors(**priors), inner)
        for field, value in state.flat().items():
            assert np.shape(s[field]) == np.shape(value), field
            agree(s[field], value)
        agree(PAGE.bound(**s), elbo.elbo(state, X, y, Priors(**priors)))


@pytest.mark.parametrize("name", [name for name in PROBLEMS if name != "no rows"])
def test_fit_and_prediction_are_the_package_s(name):
    X, y, sizes, priors, _, seed = problem(name)
    s, trace = PAGE.fit(PAGE.start(X, y, *sizes, np.random.default_rng(seed), **priors), 60, 1e-3)
    fast = fit(X, y, *sizes, Priors(**priors), seed, "random", 60, 1e-3)
    agree(trace, fast.elbo)
    for field, value in fast.parameters._asdict().items():
        agree(s[field], value)
    new = np.concatenate([X[:10], np.random.default_rng(1).normal(size=(10, X.shape[1])) * 2])
    for nodes in (1, 2, 3, 6):
        p = PAGE.predict(new, s, nodes)
        assert np.abs(p - predict_proba(fast.parameters, new, method="gauss-hermite", n_nodes=nodes)).max() < 1e-10
        assert np.abs(p.sum(1) - 1).max() < 1e-12


def test_with_many_nodes_it_is_the_integral():
    """One latent dimension, where the package's own choice of nodes is good to 1e-6 at least."""
    X, y, sizes, priors, _, seed = problem("two classes")
    s, _ = PAGE.fit(PAGE.start(X, y, *sizes, np.random.default_rng(seed), **priors), 60)
    parameters = Parameters(*(s[f] for f in Parameters._fields))
    assert np.abs(PAGE.predict(X, s, 100) - predict_proba(parameters, X)).max() < 1e-6


def test_a_class_without_rows_and_an_expert_without_rows():
    """Empty classes and experts far from all rows, long runs included: still the same to ten digits."""
    X, y, sizes, priors, _, seed = problem("ordinary")
    y = np.minimum(y, 2)
    s, state = PAGE.start(X, y, *sizes, np.random.default_rng(3)), cavi.init_state(X, y, *sizes, Priors(), 3)
    far = np.zeros_like(s["beta0_mu"])
    far[0, -1] = -60.0
    s, state = s | {"beta0_mu": far}, state.replace(beta0_mu=far)
    for _ in range(100):
        s, state = PAGE.sweep(s), cavi.sweep(state, X, y, Priors())
    for field, value in state.flat().items():
        agree(s[field], value)


def test_it_is_little_more_than_a_hundred_lines_of_numpy():
    """What stands open, what is folded, and nothing imported but NumPy and math."""
    cells = ADAPTER.code()
    count = lambda source: sum(bool(line.strip()) and not line.startswith("#|") for line in source.splitlines())
    unfolded = sum(count(cell) for cell in cells if not cell.startswith("#|"))
    folded = sum(count(cell) for cell in cells if cell.startswith("#|"))
    assert (unfolded, folded) == (119, 36), "the first cell of the chapter says how many"
    found = {line for cell in cells for line in cell.splitlines() if line.startswith(("import", "from"))}
    assert found == {"import math", "import numpy as np"}


@pytest.mark.filterwarnings("error")
def test_the_kit_finds_nothing():
    """It answers all that it declares; the updates and the sweeps are complete but for the choices that it does not make."""
    out = runner.run(LocalAdapter(ADAPTER), catalogue.select({0, 1, 2, 3, 4, 6}), flags=catalogue.flags())
    assert runner.exit_code(out) == 0 and not out["problems"]
    passed = {level: sum(r["verdict"] == "passed" for r in out["results"] if r["level"] == level) for level in (0, 1, 2, 3, 4, 6)}
    assert passed == {0: 21, 1: 40, 2: 87, 3: 23, 4: 24, 6: 12}
    assert {r["kind"] for r in out["results"] if r["verdict"] == "skipped"} <= {"algorithm", "adapter", ""}


@pytest.mark.slow
def test_the_kit_finds_nothing_at_convergence():
    out = runner.run(LocalAdapter(ADAPTER), catalogue.select({5}), flags=catalogue.flags())
    assert runner.exit_code(out) == 0 and not out["problems"]
