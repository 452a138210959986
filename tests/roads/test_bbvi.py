"""Black-box VI: the estimate and its slopes against plain loops and true Gamma paths, unbiasedness, the gap, and how a fit stops and resumes."""
import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracle import cmn, evidence, special
from problems import as_dict, problem
from scipy.special import gammainc, gammaincinv, gammaln

from cmn_literate.roads import bbvi
from cmn_literate.engineering.fit import fit as fit_cavi
from cmn_literate.engineering.elbo_gradients import best_tilts
from cmn_literate.engineering.gamma_draws import Noise, draw_noise
from cmn_literate.roads.bbvi import augmentation_gap, bound_and_grad, control_variate, fit_bbvi, score_products
from cmn_literate.roads.particles import free_of, pack_free, state_of, unpack_free
from cmn_literate.network.elbo import elbo
from cmn_literate.network.latents import Parameters
from cmn_literate.engineering.starts import complete_start
from cmn_literate.engineering.sums import make_rows
from cmn_literate.engineering.quadrature import predict_proba
from cmn_literate.network.simulate import Priors

PRIORS = Priors(v0=3.0, a0=2.5, b0=1.5, sigma0=2.0, sigma1=1.7)
# (N, d, K, L, h): ordinary; K = 1; L = 2 and h = 1; h > L-1; h < L-1 with d = 1; everything smallest; h = 4
SIZES = [(5, 3, 3, 3, 2), (4, 2, 1, 3, 2), (4, 2, 3, 2, 1), (3, 2, 2, 2, 3), (4, 1, 3, 4, 1), (1, 1, 1, 2, 1), (3, 2, 2, 5, 4)]
each_size = pytest.mark.parametrize("size", SIZES, ids=str)
both = pytest.mark.parametrize("objective", ["elbo", "augmented"])


def case(size, seed=0):
    """A random q of that size with its best tilts, data, and (K, h, L, d)."""
    N, d, K, L, h = size
    state, X, y, _ = problem((*size, False), seed)
    return state_of(free_of(state), X), X, y, (K, h, L, d)


def by_loops(state, noise, X, y, objective, tilts):
    """The estimate in plain loops over particles, rows, experts, sticks; the divergences from the oracle's bound.

    The noise holds quantiles in place of Gamma draws, so a draw moves with its shape as it really does."""
    s, K, L, h = state, state.parameters.M.shape[0], len(state.parameters.beta1_mu) + 1, state.parameters.M.shape[1]
    root, total, S = np.linalg.cholesky, 0.0, len(noise.g)
    log_two = np.log(2.0)
    for p in range(S):
        beta1 = [s.parameters.beta1_mu[l] + root(s.parameters.beta1_S[l]) @ noise.beta1[p, l] for l in range(L - 1)]
        beta0 = [s.parameters.beta0_mu[j] + root(s.parameters.beta0_S[j]) @ noise.beta0[p, j] for j in range(K - 1)]
        for n in range(len(y)):
            x0 = np.append(X[n], 1.0)
            for k in range(K):
                eps = noise.x1[p, :, k, n]
                x1 = s.local.mu[n, k] + root(s.local.Sigma[n, k]) @ eps
                value = 0.0
                coins = [(beta1[l] @ np.append(x1, 1.0), l, y[n], tilts.local.xi1[n, k, l]) for l in range(L - 1)]
                coins += [(beta0[j] @ x0, j, k, tilts.local.xi0[n, j]) for j in range(K - 1)]
                for psi, stick, label, xi in coins:
                    cost = np.logaddexp(psi / 2, -psi / 2)
                    if objective == "augmented":
                        theta = special.theta(float(xi))
                        cost = log_two + np.log(np.cosh(xi / 2)) + theta / 2 * (psi**2 - xi**2)
                    value += special.stick_kappa(stick, label) * psi - special.stick_b(stick, label) * cost
                for i in range(h):
                    tau = gammaincinv(s.parameters.a[k], noise.g[p, k, i]) / s.parameters.b[k, i]
                    row = s.parameters.M[k, i] + root(s.parameters.V[k]) @ noise.A[p, k, i] / tau**0.5
                    value += 0.5 * np.log(tau / (2 * np.pi)) - 0.5 * tau * (x1[i] - row @ x0)**2
                value += 0.5 * np.linalg.slogdet(2 * np.pi * np.e * s.local.Sigma[n, k])[1] - np.log(s.local.gamma[n, k])
                total += s.local.gamma[n, k] * value / S
    return total - divergences(s)


def divergences(s):
    """KL[q(Theta) || p(Theta)] by the textbook formulas, with solves and determinants of full matrices."""
    def gaussian(mu, S, P):
        return 0.5 * (np.trace(np.linalg.solve(P, S)) + mu @ np.linalg.solve(P, mu) - len(mu)
                      + np.linalg.slogdet(P)[1] - np.linalg.slogdet(S)[1])

    total = sum(gaussian(m, S, PRIORS.sigma1**2 * np.eye(len(m))) for m, S in zip(s.parameters.beta1_mu, s.parameters.beta1_S))
    total += sum(gaussian(m, S, PRIORS.sigma0**2 * np.eye(len(m))) for m, S in zip(s.parameters.beta0_mu, s.parameters.beta0_S))
    for M, V, a, b in zip(s.parameters.M, s.parameters.V, s.parameters.a, s.parameters.b):
        for m, rate in zip(M, b):
            # the mean over tau of the divergence of N(m, V / tau) from N(0, v0 / tau): linear in tau
            total += gaussian(m * (a / rate)**0.5, V, PRIORS.v0 * np.eye(len(m)))
            total += (a - PRIORS.a0) * digamma(a)
            total += gammaln(PRIORS.a0) - gammaln(a) + PRIORS.a0 * np.log(rate / PRIORS.b0) + a * (PRIORS.b0 / rate - 1)
    return total


def digamma(a, step=1e-4):
    """Slope of ln Gamma, extrapolated once."""
    slope = lambda e: (gammaln(a + e) - gammaln(a - e)) / (2 * e)
    return (4 * slope(step) - slope(2 * step)) / 3


@both
@each_size
def test_estimate_and_slopes_are_those_of_the_loops(size, objective):
    """The value, and its derivative along random directions by central differences with every Gamma draw at its quantile."""
    state, X, y, shapes = case(size)
    free, rng = free_of(state), np.random.default_rng(1)
    noise = draw_noise(free, 2, rng)
    value, slopes = bound_and_grad(free, noise, make_rows(X, y, shapes[2]), PRIORS, objective)
    other, by_autograd = bound_and_grad(free, noise, make_rows(X, y, shapes[2]), PRIORS, objective, gradient="autograd")
    largest = max(np.abs(field).max(initial=0) for field in slopes)
    assert_allclose(other, value, rtol=1e-12)
    for name, fast, plain in zip(slopes._fields, slopes, by_autograd):
        assert_allclose(fast, plain, rtol=1e-10, atol=1e-10 * largest, err_msg=name)
    quantiles = noise._replace(g=gammainc(state.parameters.a[:, None], noise.g))
    at = lambda vector: by_loops(state_of(unpack_free(vector, shapes, len(y)), X), quantiles, X, y, objective, state)
    vector, slopes = pack_free(free), pack_free(slopes)
    assert_allclose(value, at(vector), rtol=1e-8)
    for _ in range(4):
        way = rng.normal(size=len(vector))
        e = 1e-4
        near = [(at(vector + m * e * way) - at(vector - m * e * way)) / (2 * m * e) for m in (1, 2)]
        assert_allclose(slopes @ way, (4 * near[0] - near[1]) / 3, rtol=2e-6, atol=2e-6)


@each_size
def test_start_and_tilts(size):
    """There and back; the tilts of state_of are the best: no other tilt raises the oracle's bound."""
    state, X, y, shapes = case(size)
    again = state_of(unpack_free(pack_free(free_of(state)), shapes, len(y)), X)
    for field in cmn.FIELDS:
        assert_allclose(again.flat()[field], state.flat()[field], rtol=1e-9, atol=1e-11, err_msg=field)
    best = cmn.elbo(as_dict(state), X, y, PRIORS)
    assert_allclose(elbo(state, X, y, PRIORS), best, rtol=1e-9)
    for factor in (0.9, 1.1):
        for field in ("xi1", "xi0"):
            other = state.replace(**{field: state.flat()[field] * factor})
            assert cmn.elbo(as_dict(other), X, y, PRIORS) <= best + 1e-10


@pytest.mark.parametrize("size", SIZES[:2], ids=str)
def test_means_are_the_exact_bound_and_slope(size):
    """Through the draw and by the score function, against the closed form by differences: 5.5 standard errors in every coordinate."""
    state, X, y, shapes = case(size)
    free, rows, rng = free_of(state), make_rows(X, y, shapes[2]), np.random.default_rng(3)
    tilts, vector = best_tilts(free, rows), pack_free(free)
    closed = lambda v: elbo(state_of(unpack_free(v, shapes, len(y)), X), X, y, PRIORS)
    ways = rng.normal(size=(12, len(vector)))
    wanted = np.array([(closed(vector + 1e-5 * w) - closed(vector - 1e-5 * w)) / 2e-5 for w in ways])
    draws = [bound_and_grad(free, draw_noise(free, 16, rng), rows, PRIORS, "augmented") for _ in range(250)]
    values, slopes = np.array([v for v, _ in draws]), np.array([pack_free(g) for _, g in draws]) @ ways.T
    assert abs(values.mean() - closed(vector)) < 5 * values.std() / 250**0.5
    assert (abs(slopes.mean(0) - wanted) < 5.5 * slopes.std(0) / 250**0.5 + 1e-5).all()
    fh, h = score_products(free, draw_noise(free, 8000, rng), rows, PRIORS, tilts)
    fixed = fh - h * (fh * h).mean(0) / np.maximum((h * h).mean(0), 1e-300)           # 8000 draws: the bias of 1/8000 is hidden
    for sample in (fh, fixed):
        sample = sample @ ways.T
        assert (abs(sample.mean(0) - wanted) < 5.5 * sample.std(0) / 8000**0.5 + 1e-5).all()
    all_of_f = score_products(free, draw_noise(free, 8000, rng), rows, PRIORS, tilts, blanket=False)[0] @ ways.T
    assert (abs(all_of_f.mean(0) - wanted) < 5.5 * all_of_f.std(0) / 8000**0.5).all()


def test_all_of_f_is_ln_p_minus_ln_q():
    """The product without blankets, divided by its score, is one number per particle: the same in every coordinate, and right on average."""
    state, X, y, shapes = case(SIZES[0])
    free, rows = free_of(state), make_rows(X, y, shapes[2])
    fh, h = score_products(free, draw_noise(free, 4000, np.random.default_rng(4)), rows, PRIORS, best_tilts(free, rows), blanket=False)
    single = [0, len(free.beta1_mu.ravel()), h.shape[1] - 1]
    ratios = np.array([fh[:, c] / h[:, c] for c in single])
    assert_allclose(ratios[1], ratios[0], rtol=1e-6)
    assert_allclose(ratios[2], ratios[0], rtol=1e-6)
    assert abs(ratios[0].mean() - elbo(state, X, y, PRIORS)) < 5 * ratios[0].std() / 4000**0.5


def test_control_variate_is_exact_where_f_is_constant():
    h = np.random.default_rng(0).normal(size=(6, 3))
    h[:, 2] = 0
    left = control_variate(7.0 * h, h)
    assert_allclose(left, 0, atol=1e-12)


def test_gap_is_the_difference_of_the_bounds():
    for size in SIZES[:3]:
        state, X, y, shapes = case(size, seed=2)
        gap, error = augmentation_gap(state, X, y, 300, rng=1)
        rows, free = make_rows(X, y, shapes[2]), free_of(state)
        rng, pairs = np.random.default_rng(5), []
        for _ in range(100):
            noise = draw_noise(free, 40, rng)
            pairs.append([bound_and_grad(free, noise, rows, PRIORS, o)[0] for o in ("elbo", "augmented")])
        difference = np.diff(np.array(pairs)[:, ::-1])[:, 0]
        assert gap > 0 and abs(difference.mean() - gap) < 5 * (error + difference.std() / 100**0.5)
    assert augmentation_gap(state, X, y, 50, rng=1) == augmentation_gap(state, X, y, 50, rng=np.random.default_rng(1))


# ---- fits

def data(N=30, L=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 2))
    return X, (np.floor(1.5 * X[:, 0] + 0.3 * rng.normal(size=N)).astype(int)) % L


def fit(*args, **options):
    return fit_bbvi(*args, **{"n_experts": 2, "priors": PRIORS, "n_steps": 30, **options})


def assert_same(one, two):
    assert np.array_equal(one.elbo, two.elbo) and one.n_steps == two.n_steps and one.converged == two.converged
    for field in cmn.FIELDS:
        assert np.array_equal(one.state.flat()[field], two.state.flat()[field]), field


def test_it_starts_where_coordinate_ascent_starts():
    X, y = data()
    start = complete_start(X, y, 2, 2, 3, PRIORS, 4)
    result = fit(X, y, rng=4, n_steps=1, lr=1e-9)
    for field in [*Parameters._fields, "gamma", "mu", "Sigma"]:
        assert_allclose(result.state.flat()[field], start.flat()[field], atol=1e-6, err_msg=field)


@both
def test_a_fit_climbs_and_predicts(objective):
    X, y = data()
    result = fit(X, y, objective=objective, n_steps=300, lr=0.03)
    assert result.n_steps == len(result.elbo) == 300 and result.reason == "steps" and result.objective == objective
    assert result.elbo[-50:].mean() > result.elbo[:50].mean() + 5
    assert isinstance(result.parameters, Parameters)
    p = predict_proba(result.parameters, X)
    assert p.shape == (30, 3) and (p.argmax(1) == y).mean() > 0.6
    exact = elbo(result.state, X, y, PRIORS) + (augmentation_gap(result.state, X, y)[0] if objective == "elbo" else 0)
    assert abs(result.elbo[-50:].mean() - exact) < 3


def test_un_augmented_bound_stays_below_the_evidence_and_above_the_other():
    """Two rows, one input: the evidence by quasi Monte Carlo is above the climbed bound, which is above coordinate ascent's."""
    priors, X, y = Priors(v0=1.0, a0=3.0, b0=2.0, sigma0=1.0, sigma1=1.0), np.array([[0.5], [-1.0]]), np.array([0, 1])
    log_evidence, error = evidence.by_qmc(X, y, 2, 2, priors)
    ascent = fit_cavi(X, y, 2, priors=priors, max_sweeps=500, tol=1e-12)
    result = fit_bbvi(X, y, 2, priors=priors, n_steps=600, lr=0.002, start=ascent.state(X, y))
    gap, gap_error = augmentation_gap(result.state, X, y, 1000)
    bound = elbo(result.state, X, y, priors) + gap
    assert ascent.elbo[-1] < bound - 5 * gap_error and bound + 5 * gap_error < log_evidence + 5 * error


def test_coordinate_ascent_is_the_summit_of_the_augmented_bound():
    X, y = data(12, 2)
    ascent = fit_cavi(X, y, 2, priors=PRIORS, max_sweeps=5000, tol=1e-12)
    top = elbo(ascent.state(X, y), X, y, PRIORS)
    result = fit(X, y, objective="augmented", n_steps=400, start=ascent.state(X, y))
    assert top - 2 < elbo(result.state, X, y, PRIORS) < top + 1e-6


@both
def test_resumed_is_straight_through_bit_for_bit(objective, tmp_path):
    X, y = data()
    straight, file = fit(X, y, objective=objective, rng=7), tmp_path / "run.npz"
    seen = []

    def stop(done, value):
        seen.append((done, value))
        if done == 13:
            raise KeyboardInterrupt

    with pytest.warns(RuntimeWarning, match="interrupted"):
        cut = fit(X, y, objective=objective, rng=7, checkpoint=file, callback=stop)
    assert cut.n_steps == len(cut.elbo) == 13 and cut.reason == "interrupted" and not cut.converged
    assert seen == list(enumerate(cut.elbo, 1)) and np.array_equal(cut.elbo, straight.elbo[:13])
    assert_same(fit(X, y, objective=objective, rng=7, checkpoint=file), straight)
    assert_same(fit(X, y, objective=objective, rng=np.random.default_rng(7)), straight)
    assert not np.array_equal(fit(X, y, objective=objective, rng=8).elbo, straight.elbo)


@both
def test_a_fit_by_autograd_is_the_same_fit(objective):
    """Each step rounds differently, and AdaBelief divides by small numbers: a few steps agree to many digits."""
    X, y = data()
    fast, plain = (fit(X, y, objective=objective, n_steps=4, gradient=name) for name in ("fast", "autograd"))
    assert_allclose(plain.elbo, fast.elbo, rtol=1e-9)
    for field in cmn.FIELDS:
        assert_allclose(plain.state.flat()[field], fast.state.flat()[field], rtol=1e-6, atol=1e-8, err_msg=field)


@pytest.mark.parametrize("change", [{"n_particles": 4}, {"gradient": "autograd"}, {"objective": "augmented"}, {"lr": 0.01}, {"rng": 1}, {"priors": Priors()}, "X", "y"])
def test_a_checkpoint_of_another_run_is_refused(change, tmp_path):
    (X, y), file = data(), tmp_path / "run.npz"
    fit(X, y, n_steps=5, checkpoint=file)
    if change == "X":
        X = X + 1e-9
    elif change == "y":
        y = np.roll(y, 1)
    with pytest.raises(ValueError, match="checkpoint"):
        fit(X, y, n_steps=9, checkpoint=file, **(change if isinstance(change, dict) else {}))


def test_an_interrupt_before_the_first_step_goes_on_its_way(monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(bbvi, "bound_and_grad", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fit(*data())


def test_convergence_compares_the_last_two_tenths():
    flat, rising = np.zeros(100), np.arange(100.0)
    assert bbvi._settled(flat, 0.1) and not bbvi._settled(rising, 9.9) and bbvi._settled(rising, 10.1)
    assert not bbvi._settled(np.zeros(1), 1.0)


def test_empty_experts_and_single_ones():
    X, y = data()
    for n_experts in (1, 40):
        result = fit(X, y, n_experts=n_experts, n_steps=5)
        assert np.isfinite(result.elbo).all() and np.isfinite(predict_proba(result.parameters, X)).all()
    dead = complete_start(X, y, 2, 2, 3, PRIORS, 0)
    dead.local.gamma[:] = (1.0, 0.0)
    assert np.isfinite(fit(X, y, n_steps=5, start=dead).elbo).all()


X_OK, Y_OK = data()
START = complete_start(X_OK, Y_OK, 2, 2, 3, PRIORS, 0)
BAD = [({"X": X_OK[0]}, "X"), ({"X": np.where(X_OK > 2, np.nan, X_OK) * np.nan}, "X"), ({"X": X_OK[:0], "y": Y_OK[:0]}, "X"), ({"y": Y_OK[:-1]}, "y"),
       ({"y": Y_OK + 0.5}, "y"), ({"y": 0 * Y_OK}, "y"), ({"n_classes": 2}, "y"), ({"n_classes": 1}, "n_classes"), ({"n_experts": 0}, "n_experts"),
       ({"latent_dim": 0}, "latent_dim"), ({"priors": 3.0}, "priors"), ({"objective": "exact"}, "objective"), ({"n_particles": 0}, "n_particles"),
       ({"n_particles": 2.5}, "n_particles"), ({"n_steps": 0}, "n_steps"), ({"lr": -1.0}, "lr"), ({"rng": -1}, "rng"), ({"rng": "0"}, "rng"),
       ({"gradient": "slow"}, "gradient"), ({"tol": "1"}, "tol"), ({"tol": np.nan}, "tol"), ({"init": "zero"}, "init"), ({"lr": "1e-3"}, "lr"), ({"lr": None}, "lr"), ({"rng": True}, "rng"),
       ({"checkpoint": "missing/c.npz"}, "checkpoint"), ({"checkpoint": "."}, "checkpoint"), ({"start": 3}, "start"), ({"checkpoint_every": 0}, "checkpoint_every"),
       ({"start": complete_start(X_OK, Y_OK, 3, 2, 3, PRIORS, 0)}, "start"),
       *(({"start": START.replace(**{name: factor * START.flat()[name]})}, "start") for name, factor in (("V", -1), ("mu", np.nan)))]


@pytest.mark.parametrize("change, named", BAD, ids=[f"{named}-{i}" for i, (_, named) in enumerate(BAD)])
def test_bad_input_is_named(change, named):
    arguments = {"X": X_OK, "y": Y_OK, "n_experts": 2, "n_steps": 2, **change}
    with pytest.raises(ValueError, match=f"^{named}: "):
        fit_bbvi(arguments.pop("X"), arguments.pop("y"), **arguments)


def test_another_bound_is_refused():
    state, X, y, _ = case(SIZES[0])
    free = free_of(state)
    with pytest.raises(ValueError, match="^objective: expected"):
        bound_and_grad(free, draw_noise(free, 2, np.random.default_rng(0)), make_rows(X, y, len(state.parameters.beta1_mu) + 1), PRIORS, "augmentd")


@pytest.mark.parametrize("change, named", [(dict(rng=-1), "rng"), (dict(rng="a"), "rng"), (dict(y=Y_OK + 9), "y"), (dict(n_draws=1), "n_draws"),
                                           (dict(X=X_OK * np.nan), "X"), (dict(X=X_OK[:5], y=Y_OK[:5]), "state.gamma")])
def test_the_gap_names_bad_input(change, named):
    with pytest.raises(ValueError, match=f"^{named}: expected"):
        augmentation_gap(**{**dict(state=START, X=X_OK, y=Y_OK), **change})


def test_noise_is_what_it_says():
    state, X, y, shapes = case(SIZES[0])
    noise = draw_noise(free_of(state), 3, np.random.default_rng(0))
    assert isinstance(noise, Noise) and [v.shape for v in noise] == [(3, 2, 3), (3, 2, 4), (3, 3, 2, 4), (3, 2, 3, 5), (3, 3, 2)]
    assert (noise.g > 0).all()


@pytest.mark.slow
def test_twenty_thousand_steps_on_the_augmented_bound_end_just_below_the_summit():
    X, y = data(20, 2)
    ascent = fit_cavi(X, y, 2, priors=PRIORS, max_sweeps=20_000, tol=1e-12)
    result = fit_bbvi(X, y, 2, priors=PRIORS, objective="augmented", rng=0)
    value, top = elbo(result.state, X, y, PRIORS), elbo(ascent.state(X, y), X, y, PRIORS)
    assert top - 1 < value and result.n_steps == 20_000 and result.converged
