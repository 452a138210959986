"""The Gibbs sampler as a whole: what its chapter cannot afford to run, and what goes wrong around it."""
import warnings
from unittest import mock

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chi2, gamma, norm

from cmn_literate.roads import gibbs as module
from cmn_literate.roads.diagnostics import mcse_mean
from cmn_literate.roads.gibbs import GibbsState, gibbs, gibbs_sweep, start_state
from cmn_literate.ideas.logistic import sigmoid_normal
from cmn_literate.ideas.polya_gamma import pg_mean, pg_var
from cmn_literate.network.simulate import Priors, Theta, sample_data, sample_theta
from experiments.studies.baselines_gibbs import FAULTS, geweke, planted, sbc

pytest.importorskip("polyagamma", reason="polyagamma is not installed: nothing can be drawn")


# ---- the two tests of the study, shorter and on other sizes

def sbc_p(replicates, seed, bins=4):
    """p-values of chi-square tests of uniform ranks: |w|, gate slope, ln tau, logit."""
    ranks = sbc(replicates, seed, thin=3, warmup=20)
    counts = np.array([np.bincount(r * bins // 16, minlength=bins) for r in ranks.T])
    expected = replicates / bins
    return chi2.sf(((counts - expected) ** 2 / expected).sum(1), bins - 1)


def test_geweke_short():
    assert np.abs(geweke(600, seed=4, K=3, h=1, L=3, N=3, d=2)).max() < 4.5
    for name in ("missing prior", "wrong kappa", "wrong shape"):
        with planted(FAULTS[name]):
            assert np.abs(geweke(300, seed=0)).max() > 6, name


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [dict(K=2, h=2, L=3), dict(K=3, h=1, L=2, N=6), dict(K=2, h=3, L=2), dict(K=1, h=1, L=4),
                                   dict(K=4, h=2, L=4, N=2, d=2)], ids=str)
def test_geweke_long(sizes):
    assert np.abs(geweke(12_000, seed=5, **sizes)).max() < 4


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_calibration_by_simulation(fault):
    with planted(FAULTS[fault]):
        p = sbc_p(200 if fault == "none" else 60, seed=2).min()
    assert p > 1e-3 if fault == "none" else p < 1e-4, p


def paired(R, seed, K, h, L, d, N, priors):
    """Z of the change that one sweep makes to functions of a state drawn from the joint, R independent times."""
    rng, X, change = np.random.default_rng(seed), np.random.default_rng(0).normal(size=(N, d)), []

    def f(theta, z, x1):
        gate = np.bincount(z, minlength=K)[:-1] / N
        return np.concatenate([np.tanh(v).ravel() for v in (*theta[:3], x1)] + [np.log(theta.tau).ravel(), gate]
                              + [np.minimum(np.abs(v), 3).ravel() for v in (*theta[:3], x1)])

    for _ in range(R):
        theta = sample_theta(priors, K, h, L, d, rng)
        z, x1, y = sample_data(theta, X, rng)
        after = module.gibbs_sweep(GibbsState(theta, z, x1, None, None), X, y, priors, rng)
        change.append(f(after.theta, after.z, after.x1) - f(theta, z, x1))
    change = np.array(change)
    return change.mean(0) / np.maximum(change.std(0) / R**0.5, 1e-300)


def test_one_sweep_leaves_the_joint_alone():
    assert np.abs(paired(400, 1, K=3, h=2, L=3, d=2, N=5, priors=Priors(v0=2.0, a0=2.5, b0=1.5, sigma0=1.5, sigma1=1.2))).max() < 4.5


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(2, 1, 2, 1, 6), (1, 2, 3, 2, 4), (3, 3, 2, 1, 5), (5, 2, 4, 2, 3)], ids=str)
def test_one_sweep_leaves_the_joint_alone_long(sizes):
    K, h, L, d, N = sizes
    assert np.abs(paired(6000, 2, K, h, L, d, N, priors=Priors(v0=3.0, a0=1.7, b0=0.6, sigma0=1.5, sigma1=2.0))).max() < 4.5


# ---- an exact judge: weights on draws from the prior

X4 = np.array([[-1.5], [-0.5], [0.5], [1.5]])


def functions(theta, at):
    """p(0|x), ln tau_0, |w|, gate slope, and their squares; K = 2, h = 1, d = 1, L = 2."""
    beta1, beta0, A, tau = theta
    columns = []
    for x in at:
        gate = 1 / (1 + np.exp(-(beta0[:, 0, 0] * x + beta0[:, 0, 1])))
        mean = A[:, :, 0, 0] * x + A[:, :, 0, 1]
        stop = sigmoid_normal(beta1[:, 0, :1] * mean + beta1[:, 0, 1:], beta1[:, 0, :1] ** 2 / tau[:, :, 0], digits=6)
        columns.append(gate * stop[:, 0] + (1 - gate) * stop[:, 1])
    f = np.stack([*columns, np.log(tau[:, 0, 0]), np.abs(beta1[:, 0, 0]), beta0[:, 0, 0]], 1)
    return np.concatenate([f, f**2], 1)


def judge(X, y, priors, at, S, seed):
    """Posterior means of functions(theta, at) and standard errors by importance sampling from the prior."""
    rng = np.random.default_rng(seed)
    tau = rng.gamma(priors.a0, 1 / priors.b0, size=(S, 2, 1))
    A = rng.normal(size=(S, 2, 1, 2)) * np.sqrt(priors.v0 / tau)[..., None]
    beta0, beta1 = priors.sigma0 * rng.normal(size=(S, 1, 2)), priors.sigma1 * rng.normal(size=(S, 1, 2))
    f = functions(Theta(beta1, beta0, A, tau), [*X[:, 0], *at])
    p = f[:, :len(X)]
    weight = np.prod(np.where(y == 0, p, 1 - p), 1)
    weight /= weight.sum()
    mean = weight @ f
    return mean, np.sqrt(weight**2 @ (f - mean) ** 2)


@pytest.mark.parametrize("y, priors, draws", [
    pytest.param([0, 1, 1, 0], Priors(sigma0=2.0, sigma1=2.0), 400, id="short"),
    pytest.param([0, 1, 1, 0], Priors(sigma0=2.0, sigma1=2.0), 8000, id="long", marks=pytest.mark.slow),
    pytest.param([0, 0, 1, 0], Priors(), 12_000, id="paper", marks=pytest.mark.slow),
    pytest.param([1, 1, 1, 1], Priors(v0=1.0, a0=4.0, b0=0.5, sigma0=1.0, sigma1=3.0), 8000, id="one class", marks=pytest.mark.slow)])
def test_exact_judge(y, priors, draws):
    y, at = np.array(y), (-2.5, 1.0)
    exact, error = judge(X4, y, priors, at, 60_000 if draws < 1000 else 400_000, seed=0)
    run = gibbs(X4, y, n_experts=2, n_classes=2, priors=priors, n_chains=4, n_warmup=50 if draws < 1000 else 1000, n_draws=draws, rng=3)
    g = functions(run.flatten(), [*X4[:, 0], *at]).reshape(4, draws, -1)
    assert np.abs((g.mean((0, 1)) - exact) / np.hypot(error, mcse_mean(g))).max() < 5


# ---- the draws

@pytest.mark.slow
def test_library_draws_the_right_moments():
    """Half a million draws of PG(1, psi) for each of many tilts; the library's default answers 0.16 beyond 177."""
    rng, n = np.random.default_rng(1), 500_000
    for psi in (0.0, 1e-3, 0.3, 1.0, 1.9, 2.0, 2.5, 3.0, 4.0, 8.0, 15.0, 60.0, 170.0, 180.0, 700.0, 1e4, 1e9, 1e12):
        omega = module.draw_omega(np.ones(n, int), np.zeros((n, 1)), np.array([[0.0, psi]]), rng)[:, 0]
        mean, var = float(pg_mean(1.0, psi)), float(pg_var(1.0, psi)) if psi < 1e5 else None
        assert abs(omega.mean() - mean) < 4.5 * omega.std() / n**0.5 + 1e-12 * mean, psi
        if var:
            square = (omega - mean) ** 2
            assert abs(square.mean() - var) < 4.5 * square.std() / n**0.5, psi


def test_extreme_logits_come_back():
    beta = np.array([[0.0, 1e200], [0.0, -1e13]])
    omega = module.draw_omega(np.array([2, 0]), np.ones((2, 1)), beta, np.random.default_rng(0))
    assert (omega[0] > 0).all() and (omega[0] < 1e-11).all() and omega[1, 1] == 0


def test_library_missing_is_explained():
    with mock.patch.dict("sys.modules", {"polyagamma": None}), pytest.raises(ImportError, match="pip install polyagamma"):
        module.draw_omega(np.zeros(1, int), np.ones((1, 1)), np.ones((1, 2)), np.random.default_rng(0))


def problem(N=12, K=3, h=2, L=3, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, d))
    return X, sample_data(sample_theta(Priors(), K, h, L, d, rng), X, rng).y


@pytest.mark.parametrize("sizes", [dict(K=1, h=1, L=2, N=1, d=1), dict(K=1, h=3, L=2), dict(K=6, h=1, L=5, N=5), dict(K=2, h=4, L=3, d=1)], ids=str)
def test_odd_sizes(sizes):
    X, y = problem(**sizes)
    run = gibbs(X, y, sizes["K"], sizes["h"], sizes["L"], n_chains=1, n_warmup=3, n_draws=5)
    assert np.isfinite(run.phi).all() and np.isfinite(run.log_joint).all()
    assert run.shapes == (sizes["K"], sizes["h"], sizes["L"], X.shape[1])


def test_sweep_reads_parameters_and_latents_only():
    X, y = problem()
    state = start_state(X, y, (3, 2, 3), Priors(), np.random.default_rng(1))
    forgetful = GibbsState(state.theta, None, state.x1, None, None)
    kept = [v.copy() for v in (*state.theta, *state[1:])]
    a, b = (gibbs_sweep(s, X, y, Priors(), np.random.default_rng(2)) for s in (state, forgetful))
    for u, v in zip((*a.theta, *a[1:]), (*b.theta, *b[1:])):
        assert_array_equal(u, v)
    for u, v in zip((*state.theta, *state[1:]), kept):
        assert_array_equal(u, v)                                    # and nothing is overwritten
    assert_array_equal(a.omega0 > 0, np.arange(2) <= a.z[:, None])
    assert_array_equal(a.omega1 > 0, np.arange(2) <= y[:, None])


def test_each_regression_has_its_own_prior():
    X, y, draw = *problem(), module.draw_coefficients
    state, seen = start_state(X, y, (3, 2, 3), Priors(), np.random.default_rng(1)), []

    def note(choice, inputs, omega, sigma, rng, mean):
        seen.append((inputs.shape[1], sigma, inputs is X))
        return draw(choice, inputs, omega, sigma, rng, mean)

    with mock.patch.object(module, "draw_coefficients", note):
        gibbs_sweep(state, X, y, Priors(sigma0=0.5, sigma1=7.0), np.random.default_rng(2))
    assert sorted(seen) == [(2, 0.5, True), (2, 7.0, False)]


def test_complete_log_joint_is_the_sum_of_its_densities():
    X, y = problem()
    priors = Priors(v0=2.0, a0=1.5, b0=0.7, sigma0=3.0, sigma1=4.0)
    s = start_state(X, y, (3, 2, 3), priors, np.random.default_rng(1))
    (beta1, beta0, A, tau), total = s.theta, 0.0
    total += norm.logpdf(beta1, 0, 4).sum() + norm.logpdf(beta0, 0, 3).sum()
    total += norm.logpdf(A, 0, np.sqrt(2 / tau)[..., None]).sum()
    total += (gamma.logpdf(tau, 1.5, scale=1 / 0.7) + np.log(tau)).sum()              # density of ln tau
    for n, x in enumerate(X):
        k, x = s.z[n], np.append(x, 1.0)
        total += norm.logpdf(s.x1[n], A[k] @ x, tau[k] ** -0.5).sum()
        for beta, v, c in ((beta0, x, k), (beta1, np.append(s.x1[n], 1.0), y[n])):
            for j in range(min(c + 1, len(beta))):
                total -= np.logaddexp(0, -beta[j] @ v if j == c else beta[j] @ v)
    assert_allclose(module.complete_log_joint(s, X, y, priors), total, rtol=1e-12)


# ---- running, stopping, going on

PLAN = dict(n_experts=3, n_chains=2, n_warmup=20, thin=2, rng=5)


def test_jobs_do_not_matter():
    X, y = problem()
    one, two = (gibbs(X, y, n_draws=50, n_jobs=n, **PLAN) for n in (1, 2))
    assert_array_equal(one.phi, two.phi)
    assert_array_equal(one.stats["occupied"], two.stats["occupied"])
    assert not np.array_equal(one.phi[0], one.phi[1])
    other = gibbs(X, y, n_draws=10, **{**PLAN, "rng": 6})
    assert not np.array_equal(other.phi, one.phi[:, :10])
    again = gibbs(X, y, n_draws=10, **{**PLAN, "rng": np.random.default_rng(5)})
    assert_array_equal(again.phi, one.phi[:, :10])


def test_start_from_coordinate_ascent():
    X, y = problem(N=40)
    run = gibbs(X, y, n_draws=4, init="cavi", **PLAN)
    assert run.n_draws == 4 and not np.array_equal(run.phi, gibbs(X, y, n_draws=4, **PLAN).phi)


class Stop:
    """A callback that interrupts at its nth call and notes what it saw."""

    def __init__(self, when):
        self.when, self.seen = when, []

    def __call__(self, done, value):
        self.seen.append((done, value))
        if len(self.seen) == self.when:
            raise KeyboardInterrupt


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_interrupted_run_returns_what_there_is_and_goes_on(tmp_path, n_jobs):
    X, y = problem()
    straight = gibbs(X, y, n_draws=100, **PLAN)
    stop, path = Stop(3), tmp_path / "run.npz"
    with pytest.warns(RuntimeWarning, match="interrupted: 65 of 100 draws"):
        part = gibbs(X, y, n_draws=100, callback=stop, checkpoint=path, n_jobs=n_jobs, **PLAN)
    assert [done for done, _ in stop.seen] == [50, 100, 150]
    assert_array_equal(part.phi, straight.phi[:, :65])
    whole = gibbs(X, y, n_draws=100, checkpoint=path, n_jobs=n_jobs, **PLAN)
    assert_array_equal(whole.phi, straight.phi)
    assert_array_equal(whole.log_joint, straight.log_joint)
    assert_array_equal(whole.stats["occupied"], straight.stats["occupied"])
    assert list(tmp_path.iterdir()) == [path]


def test_interrupt_inside_a_segment_forgets_that_segment(tmp_path):
    X, y = problem()
    straight, calls = gibbs(X, y, n_draws=100, **PLAN), []

    def sweep(*args):
        calls.append(0)
        if len(calls) == 230:                       # third segment of the first chain: 2 * 100 + 30
            raise KeyboardInterrupt
        return gibbs_sweep(*args)

    path = tmp_path / "run.npz"
    with mock.patch.object(module, "gibbs_sweep", sweep), pytest.warns(RuntimeWarning, match="interrupted: 40 of 100"):
        part = gibbs(X, y, n_draws=100, checkpoint=path, **PLAN)
    assert_array_equal(part.phi, straight.phi[:, :40])
    assert_array_equal(gibbs(X, y, n_draws=100, checkpoint=path, **PLAN).phi, straight.phi)


def test_interrupt_before_the_first_draw_is_an_interrupt(tmp_path):
    X, y = problem()
    long_warmup = {**PLAN, "n_warmup": 200}
    path = tmp_path / "run.npz"
    with pytest.raises(KeyboardInterrupt):
        gibbs(X, y, n_draws=5, callback=Stop(1), checkpoint=path, **long_warmup)
    resumed = gibbs(X, y, n_draws=5, checkpoint=path, **long_warmup)
    assert_array_equal(resumed.phi, gibbs(X, y, n_draws=5, **long_warmup).phi)


def test_checkpoint_of_another_problem_is_refused(tmp_path):
    X, y = problem()
    path = tmp_path / "run.npz"
    gibbs(X, y, n_draws=20, checkpoint=path, checkpoint_every=50, **PLAN)
    before = path.read_bytes()
    others = [dict(rng=6), dict(n_warmup=21), dict(thin=1), dict(n_chains=3), dict(n_experts=4), dict(init="cavi"), dict(priors=Priors(v0=9.0))]
    for change in others:
        with pytest.raises(ValueError, match="checkpoint: expected a run of this problem"):
            gibbs(X, y, n_draws=20, checkpoint=path, **{**PLAN, **change})
    with pytest.raises(ValueError, match="checkpoint: expected a run of this problem"):
        gibbs(X + 1e-12, y, n_draws=20, checkpoint=path, **PLAN)
    with pytest.raises(ValueError, match="ask for more draws"):
        gibbs(X, y, n_draws=19, checkpoint=path, **PLAN)
    assert path.read_bytes() == before
    path.write_bytes(before[:len(before) // 2])
    with pytest.raises(ValueError, match="damaged"):
        gibbs(X, y, n_draws=20, checkpoint=path, **PLAN)


@pytest.mark.parametrize("bad, name", [
    (dict(n_chains=0), "n_chains"), (dict(n_warmup=-1), "n_warmup"), (dict(n_draws=0), "n_draws"), (dict(thin=1.5), "thin"),
    (dict(n_jobs=0), "n_jobs"), (dict(checkpoint_every=0), "checkpoint_every"), (dict(init="nuts"), "init"), (dict(priors=None), "priors"),
    (dict(checkpoint_every="a"), "checkpoint_every"), (dict(checkpoint="missing/c.npz"), "checkpoint"), (dict(checkpoint="."), "checkpoint"),
    (dict(rng=True), "rng"), (dict(rng=np.random.RandomState(0)), "rng"), (dict(rng="x"), "rng"), (dict(rng=-1), "rng"),
    (dict(rng=np.random.Generator(np.random.RandomState(0)._bit_generator)), "rng"), (dict(n_experts=0), "n_experts"), (dict(latent_dim=0), "latent_dim"), (dict(n_classes=1), "n_classes")])
def test_bad_argument_is_named(bad, name, monkeypatch):
    X, y = problem()
    monkeypatch.setattr("cmn_literate.roads.gibbs.gibbs_sweep", lambda *args: pytest.fail("a sweep was made"))
    with pytest.raises(ValueError, match=f"^{name}: expected"):
        gibbs(X, y, **{"n_draws": 2, "n_warmup": 0, **bad})


def test_bad_data_are_named():
    X, y = problem()
    for data, name in (((X[:, 0], y), "X"), ((X, y[:-1]), "y"), ((X, y + 0.5), "y"), ((np.where(X > 0, np.nan, X), y), "X"), ((X[:0], y[:0]), "X")):
        with pytest.raises(ValueError, match=f"^{name}: expected"):
            gibbs(*data, n_draws=2)


def test_no_warning_on_ordinary_data():
    X, y = problem(N=30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = gibbs(X, y, n_draws=30, **PLAN)
    assert run.stats["occupied"].min() >= 1 and run.stats["occupied"].max() <= 3
    assert_allclose(run.phi[..., -6:], np.log(run.theta.tau.reshape(2, 30, 6)))
