"""The study of the four scores called WAIC: its draws of latent vectors, and its Monte Carlo errors."""
import numpy as np
import pytest

from cmn_literate.engineering.nodes import latent_nodes
from cmn_literate.network.latents import Local
from cmn_literate.network.simulate import Priors, sample_theta
from cmn_literate.roads.likelihood import log_likelihood
from cmn_literate.use.metrics import waic as waic_of
from experiments import studies
from experiments.studies import waic


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(3)
    theta = sample_theta(Priors(v0=1.0, a0=4.0, b0=3.0, sigma0=1.0, sigma1=1.0), 3, 2, 3, 2, rng)
    return theta, rng.normal(size=(6, 2)), np.arange(6) % 3


def test_latent_vectors_that_have_seen_the_label(problem):
    """E[1 / p(y | x_1)] over x_1 given y and Theta is 1 / p(y | x, Theta), by Bayes' rule."""
    theta, X, y = problem
    rng, inverse = np.random.default_rng(0), []
    for _ in range(4000):
        x1, missed = waic.draw_latents(theta, X, y, rng)
        assert missed == 0
        inverse.append(np.exp(-waic.seen_log_probs(theta, x1, y)))
    mean, error = np.mean(inverse, 0), np.std(inverse, axis=0) / np.sqrt(len(inverse))
    want = np.exp(-log_likelihood(theta, X, y, latent_nodes((3, 2, 3, 2))))
    assert (np.abs(mean - want) < 4 * error + 1e-3 * want).all()


def test_a_row_that_keeps_nothing_looks_at_every_expert(problem, monkeypatch):
    """Most of the gate is on the first expert, whose latent vectors do not give the class; the third, hardly ever chosen, does."""
    theta, X, _ = problem
    A = np.zeros_like(theta.A)
    A[:, 0, -1] = 50.0, 50.0, -50.0
    rare = theta._replace(A=A, beta0=np.array([[0.0, 0.0, 12.0], [0.0, 0.0, 0.0]]), beta1=np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]),
                          tau=np.ones_like(theta.tau))
    monkeypatch.setattr(waic, "CHUNKS", 2)
    x1, missed = waic.draw_latents(rare, X, np.full(6, 2), np.random.default_rng(0))
    assert missed == 6 and (x1[:, 0] < -40).all() and (waic.seen_log_probs(rare, x1, np.full(6, 2)) > -1e-6).all()


def test_draws_of_the_local_factors_have_their_moments():
    rng = np.random.default_rng(1)
    gamma, mu = np.array([[0.3, 0.7]]), np.array([[[0.0, 1.0], [2.0, -1.0]]])
    Sigma = np.array([[[[1.0, 0.3], [0.3, 0.5]], [[0.2, 0.0], [0.0, 0.1]]]])
    draws = np.concatenate([waic.draw_q_latents(Local(gamma, mu, Sigma, None, None), rng) for _ in range(20_000)])
    mean = gamma[0] @ mu[0]
    assert draws.mean(0) == pytest.approx(mean, abs=0.03)
    second = sum(g * (S + np.outer(m - mean, m - mean)) for g, S, m in zip(gamma[0], Sigma[0], mu[0]))
    assert np.cov(draws.T) == pytest.approx(second, abs=0.05)


def test_summary_is_the_waic_of_all_draws_and_its_error_that_of_repeating_it():
    rng, made = np.random.default_rng(2), []
    for _ in range(200):
        log_lik = -1 + 0.3 * rng.normal(size=(8, 50, 5))
        made.append(waic.summary("m", log_lik))
    values = np.array([m["m"] for m in made])
    assert made[-1]["m"] == pytest.approx(waic_of(log_lik).elpd / 5)
    assert np.median([m["m_mc"] for m in made]) == pytest.approx(values.std(), rel=0.25)


def test_the_stored_scores_stand_in_the_order_that_they_must():
    """Under CAVI's narrow q a latent vector that knows the label scores the label better; a penalty is not negative."""
    records = studies.records("waic")
    assert {cell.method for cell in records} >= {"cavi", "mle-network"} and len(records) >= 8
    for cell, record in records.items():
        m = record["metrics"]
        if cell.method == "mle-network":
            assert m["train_lpd_twice"] < m["train_lpd"] <= 0
            continue
        assert min(m["marginal_penalty"], m["conditional_penalty"]) > 0 and m["train_lpd"] > m["marginal"] and m["share_not_kept"] < 1e-3
        if cell.method == "cavi":
            assert m["conditional"] > m["marginal"] and m["conditional_q"] > m["conditional"] - 5 * m["conditional_mc"]
