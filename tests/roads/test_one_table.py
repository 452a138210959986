"""CMNClassifier with the methods of the later chapters: the same protocol, options, files, interrupts, checkpoints."""
import contextlib
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris

from cmn_literate import CMNClassifier
from cmn_literate.roads.bbvi import fit_bbvi
from cmn_literate.learners import LEARNERS, find_learner
from cmn_literate.engineering.sources import column_scale
from cmn_literate.roads.diagnostics import PosteriorDraws, predict_from_draws
from cmn_literate.roads.gibbs import gibbs
from cmn_literate.engineering.gradients import class_log_probs
from cmn_literate.roads.diagnostics import Sampled, worst_rhat
from cmn_literate.roads.one_table import training_log_likelihoods
from cmn_literate.roads.mle import fit_mle, network_log_probs
from cmn_literate.roads.posterior import sample_posterior
from cmn_literate.engineering.quadrature import predict_log_proba as predict_from_factors
from cmn_literate.network.simulate import Priors, Theta

X, Y = load_iris(return_X_y=True)
ROWS = np.arange(0, 150, 5)
NAMES = np.array(["setosa", "versicolor", "virginica"])
SMALL = {
    "mle": {"n_steps": 30},
    "map": {"n_steps": 30},
    "bbvi": {"n_steps": 20},
    "nuts": {"n_chains": 2, "n_warmup": 12, "n_draws": 6, "max_depth": 4},
    "gibbs": {"n_chains": 2, "n_warmup": 20, "n_draws": 20},
}


def model(method, **changes):
    options = {"n_experts": 3, "random_state": 5, "method": method, "method_options": SMALL[method], **changes}
    return CMNClassifier.paper(**options)


def fitted(method, **changes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model(method, **changes).fit(X[ROWS], NAMES[Y[ROWS]])


@pytest.fixture(scope="module")
def models():
    return {method: fitted(method) for method in SMALL}


def test_registry_names():
    assert set(LEARNERS) == {"auto", "cavi", "shared-means", "several", "structured", "deep", *SMALL, *(f"shared-{name}" for name in SMALL if name != "mle")}
    for name, options in SMALL.items():
        assert set(options) <= set(find_learner(name).options)


@pytest.mark.parametrize("method", SMALL)
def test_predictions_and_attributes(models, method):
    m = models[method]
    p = m.predict_proba(X)
    assert p.shape == (150, 3) and np.isfinite(p).all() and p.min() >= 0
    assert_allclose(p.sum(1), 1, rtol=1e-6)
    assert m.score(X, NAMES[Y]) > 0.6 and set(m.predict(X)) <= set(NAMES)
    assert np.isfinite(m.trace_).all() and len(m.trace_) > 0 and m.objective_ == pytest.approx(float(m.trace_[-1]))
    assert hasattr(m, "elbo_") == (method == "bbvi") and isinstance(m.converged_, bool)
    steps = {"mle": 30, "map": 30, "bbvi": 20, "nuts": 2 * 18, "gibbs": 40}[method]
    assert m.n_sweeps_ == steps == find_learner(method).steps(m)


@pytest.mark.parametrize("method", SMALL)
def test_equal_seeds_give_equal_bits(models, method):
    again = fitted(method)
    assert again.predict_proba(X).tobytes() == models[method].predict_proba(X).tobytes()
    other = fitted(method, random_state=6)
    assert other.predict_proba(X).tobytes() != models[method].predict_proba(X).tobytes()


@pytest.mark.parametrize("method", SMALL)
def test_a_saved_model_predicts_the_same_bits(models, method, tmp_path):
    models[method].save(tmp_path / "model.npz")
    back = CMNClassifier.load(tmp_path / "model.npz")
    assert back.predict_log_proba(X).tobytes() == models[method].predict_log_proba(X).tobytes()
    assert (back.n_sweeps_, back.converged_, back.method_options) == (models[method].n_sweeps_, models[method].converged_, SMALL[method])


@pytest.mark.parametrize("method", SMALL)
def test_the_estimator_is_a_thin_coat(models, method):
    """The same numbers from the pure functions, called by hand."""
    m = models[method]
    mean, scale = column_scale(X[ROWS])
    Z, Z_all = (X[ROWS] - mean) / scale, (X - mean) / scale
    rng = np.random.default_rng(5).spawn(1)[0]
    call = {"rng": rng, **SMALL[method]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if method in ("mle", "map"):
            run = fit_mle(Z, Y[ROWS], 3, n_classes=3, priors=Priors() if method == "map" else None, **call)
            log_p = class_log_probs(run.theta, Z_all, run.nodes)
        elif method == "bbvi":
            log_p = predict_from_factors(fit_bbvi(Z, Y[ROWS], 3, n_classes=3, **call).parameters, Z_all)
        elif method == "nuts":
            log_p = predict_from_draws(sample_posterior(Z, Y[ROWS], 3, n_classes=3, **call), Z_all)
        else:
            log_p = predict_from_draws(gibbs(Z, Y[ROWS], 3, n_classes=3, **call), Z_all)
    assert_allclose(m.predict_log_proba(X), log_p, rtol=1e-10, atol=1e-12)


def test_the_network_objective_predicts_with_the_network():
    m = fitted("mle", method_options={"n_steps": 30, "objective": "network"})
    Z = (X - m.mean_) / m.scale_
    assert_allclose(m.predict_log_proba(X), network_log_probs(m.fits_[0].theta, Z), rtol=1e-12)


@pytest.mark.parametrize("method", SMALL)
@pytest.mark.parametrize("options, message", [({"n_stepz": 3}, "method_options: expected .*n_"), ("fast", "method_options: expected a dict"),
                                              ({"checkpoint": "x.npz"}, "n_init=1")])
def test_options_are_validated(method, options, message):
    with pytest.raises(ValueError, match=message):
        model(method, method_options=options, n_init=2 if options == {"checkpoint": "x.npz"} else 1).fit(X[ROWS], Y[ROWS])


@pytest.mark.parametrize("method, bad, name", [("mle", {"n_steps": 0}, "n_steps"), ("mle", {"objective": "both"}, "objective"),
                                               ("map", {"lr": -1.0}, "lr"), ("bbvi", {"n_particles": 0}, "n_particles"),
                                               ("bbvi", {"objective": "iwae"}, "objective"), ("nuts", {"target": "all"}, "target"),
                                               ("nuts", {"n_chains": 1.5}, "n_chains"), ("gibbs", {"n_draws": 0}, "n_draws"),
                                               ("gibbs", {"thin": -1}, "thin"), ("gibbs", {"init": "zero"}, "init")])
def test_bad_values_of_options_name_the_option(method, bad, name):
    with pytest.raises(ValueError, match=f"{name}: expected"):
        model(method, method_options={**SMALL[method], **bad}).fit(X[ROWS], Y[ROWS])


@pytest.mark.parametrize("method", SMALL)
def test_a_checkpoint_is_written_and_belongs_to_its_problem(models, method, tmp_path):
    path = str(tmp_path / "run.npz")
    first = fitted(method, method_options={**SMALL[method], "checkpoint": path})
    assert (tmp_path / "run.npz").exists()
    assert first.predict_proba(X).tobytes() == models[method].predict_proba(X).tobytes()
    again = fitted(method, method_options={**SMALL[method], "checkpoint": path})         # all done already
    assert again.predict_proba(X).tobytes() == first.predict_proba(X).tobytes()
    with pytest.raises(ValueError, match="checkpoint"):
        model(method, method_options={**SMALL[method], "checkpoint": path}).fit(X[ROWS + 1], Y[ROWS + 1])


def test_factors_explain_themselves_and_draws_say_that_they_cannot(models):
    assert models["bbvi"].gate(X).shape == (150, 3) and models["bbvi"].experts_.weight.shape == (3,)
    assert models["bbvi"].uncertainty(X[:5], n_draws=8).total.shape == (5,)
    for method in ("mle", "map", "nuts", "gibbs"):
        with pytest.raises(AttributeError, match="keeps no factors of q"):
            models[method].gate(X)


def test_training_log_likelihoods(models):
    for method in ("mle", "map"):
        assert training_log_likelihoods(models[method], X[ROWS], NAMES[Y[ROWS]]) is None
    draws = models["gibbs"].fits_[0].draws
    table = training_log_likelihoods(models["gibbs"], X[ROWS], NAMES[Y[ROWS]], n_draws=40)
    assert table.shape == (40, 30)
    one = Theta(*(x[7] for x in draws.flatten()))
    Z = (X[ROWS] - models["gibbs"].mean_) / models["gibbs"].scale_
    from cmn_literate.engineering.nodes import latent_nodes
    by_hand = class_log_probs(one, Z, latent_nodes(draws.shapes))[np.arange(30), Y[ROWS]]
    assert_allclose(table[7], by_hand, rtol=1e-12)
    factors = training_log_likelihoods(models["bbvi"], X[ROWS], NAMES[Y[ROWS]], n_draws=300, rng=1)
    p = models["bbvi"].predict_proba(X[ROWS])[np.arange(30), Y[ROWS]]
    spread = np.exp(factors).std(0) / 300**0.5
    assert (np.abs(np.exp(factors).mean(0) - p) < 5 * spread + 1e-4).all()


@pytest.mark.parametrize("method", ["bbvi", "gibbs", "map"])
def test_labels_of_the_training_rows_are_checked(models, method):
    names = NAMES[Y[ROWS]]
    for y in (names[:, None], names[:10], np.append(names, names[:3]), names[0], Y[ROWS], np.where(ROWS > 20, names, "tulip"),
              np.ma.masked_array(names, ROWS > 20), [["setosa"], ["setosa", "virginica"]] * 15):
        with pytest.raises(ValueError, match="^y: expected"):
            training_log_likelihoods(models[method], X[ROWS], y)
    with pytest.raises(ValueError, match="^rng: expected"):
        training_log_likelihoods(models[method], X[ROWS], names, rng="seed")


@pytest.mark.parametrize("method", SMALL)
def test_a_checkpoint_that_cannot_be_written_is_refused_at_the_start(method, tmp_path):
    for path in (tmp_path / "missing" / "c.npz", tmp_path):
        with pytest.raises(ValueError, match="^checkpoint: expected"):
            model(method, method_options={**SMALL[method], "checkpoint": path}).fit(X[ROWS], Y[ROWS])


def test_worst_rhat_is_infinite_for_too_few_draws_and_large_for_split_chains(models):
    draws = models["gibbs"].fits_[0].draws
    few = PosteriorDraws(Theta(*(x[:, :3] for x in draws.theta)), draws.log_joint[:, :3])
    Z = (X[ROWS] - models["gibbs"].mean_) / models["gibbs"].scale_
    assert worst_rhat(few, Z) == np.inf
    log_joint = draws.log_joint + 100 * np.arange(2)[:, None]
    assert worst_rhat(PosteriorDraws(draws.theta, log_joint), Z) > 1.5
    still = Theta(*(np.repeat(x[:, :1], 20, axis=1) for x in draws.theta))
    assert worst_rhat(PosteriorDraws(still, np.repeat([[-5.0], [-6.0]], 20, axis=1)), Z) == np.inf     # two chains that never move
    assert worst_rhat(PosteriorDraws(Theta(*(x[:1] for x in still)), np.full((1, 20), -5.0)), Z) == np.inf
    assert worst_rhat(PosteriorDraws(draws.theta, np.full((2, 20), -5.0)), Z) == np.inf
    assert isinstance(models["gibbs"].fits_[0], Sampled) and models["gibbs"].fits_[0].rhat == worst_rhat(draws, Z)


def test_worst_rhat_refuses(models):
    draws = models["gibbs"].fits_[0].draws
    for bad in (None, "a", X[0], np.zeros((0, 4)), X[ROWS] * np.nan, np.ma.masked_array(X[ROWS], X[ROWS] > 5), [[1, 2, 3, 4], [5]]):
        with pytest.raises(ValueError, match="^X: expected"):
            worst_rhat(draws, bad)
    for n_rows in (0, None, True, 2.5, "3"):
        with pytest.raises(ValueError, match="^n_rows: expected"):
            worst_rhat(draws, X[ROWS], n_rows)


@pytest.mark.parametrize("method", SMALL)
def test_ctrl_c_is_raised_again_and_keeps_what_there_is(method, monkeypatch):
    """An interrupt in the progress callback, the way a user's arrives; what was reached is in the model."""
    @contextlib.contextmanager
    def bar(verbose, total, label, learner):
        def stop(done, value):
            if done >= {"nuts": 2 * (12 + 30), "gibbs": 60}.get(method, 7):
                raise KeyboardInterrupt
        yield stop

    monkeypatch.setattr("cmn_literate.engineering.runs.progress_bar", bar)
    more = {"n_draws": 400} if method in ("nuts", "gibbs") else {}
    m = model(method, method_options={**SMALL[method], **more})
    with pytest.warns(RuntimeWarning, match="interrupt"), pytest.raises(KeyboardInterrupt):
        m.fit(X[ROWS], Y[ROWS])
    assert not m.converged_ and m.n_sweeps_ < find_learner(method).steps(m)
    if more:
        assert 1 <= m.fits_[0].draws.n_draws < 400
    else:
        assert m.n_sweeps_ == 7
    assert_allclose(m.predict_proba(X).sum(1), 1, rtol=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", [None, "Generator", "RandomState"])
@pytest.mark.parametrize("method", [name for name in LEARNERS if name != "auto"])
def test_a_checkpoint_without_a_seed_is_resumed(method, seed, tmp_path, monkeypatch):
    """The generator from which the run began is in the file, so a second call goes on, whatever generator it would have begun with."""
    made = {"Generator": lambda: np.random.default_rng(np.random.default_rng().integers(2**40)),
            "RandomState": lambda: np.random.RandomState(np.random.default_rng().integers(2**30))}.get(seed, lambda: None)

    @contextlib.contextmanager
    def bar(verbose, total, label, learner):
        def stop(done, value):
            if calls is not None and done >= {"nuts": 30, "gibbs": 40}.get(method.removeprefix("shared-"), 3):
                calls.append(done)
                raise KeyboardInterrupt
        yield stop

    monkeypatch.setattr("cmn_literate.engineering.runs.progress_bar", bar)
    calls, options = [], {**SMALL.get(method.removeprefix("shared-"), {}), "checkpoint": tmp_path / "c.npz"}
    new = lambda: CMNClassifier.paper(n_experts=3, random_state=made(), method=method, method_options=options, max_sweeps=9, init="random")
    with pytest.raises(KeyboardInterrupt):
        new().fit(X[ROWS], Y[ROWS])
    assert calls and (tmp_path / "c.npz").exists()
    calls = None
    one, two = (new().fit(X[ROWS], Y[ROWS]) for _ in range(2))
    assert one.predict_proba(X).tobytes() == two.predict_proba(X).tobytes()
    with pytest.raises(ValueError, match="checkpoint: expected a run of this problem, seed and options"):
        new().set_params(random_state=3).fit(X[ROWS], Y[ROWS])
