"""The algorithm on one page, asked: this adapter loads the code of book/start/algorithm.ipynb and holds no formula of the model.

    python -m cmn_conformance run --adapter conformance/adapters/one_page.py

Its updates have the names and the arguments of the kit already, and so most of what follows is a list. What the page has no function for,
single terms of the bound and logarithms in far tails, it is not asked.
"""

import ast
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np

NAME, VERSION = "the algorithm on one page", "1"
PROFILE = {"inner": [1, 2, 3, 8], "order": ["canonical", "m-first"]}
NOTEBOOK = Path(__file__).resolve().parents[2] / "book/start/algorithm.ipynb"


def code(notebook=NOTEBOOK):
    """Sources of the page's code: the cells, without a marker or asides, that hold nothing but imports and functions."""
    cells = json.loads(Path(notebook).read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    return [source for source in sources if source.startswith("#| aside") or not source.startswith("#|")
            if all(isinstance(node, (ast.Import, ast.FunctionDef)) for node in ast.parse(source).body)]


def load_page(notebook=NOTEBOOK):
    """The page's functions as attributes."""
    names = {"__name__": "one_page"}
    for source in code(notebook):
        exec(compile(source, str(notebook), "exec"), names)
    return SimpleNamespace(**names)


page = load_page()

second_moment, mng_kl = page.second, page.kl_experts
update_x, update_omega1, update_omega0, update_z = page.update_x, page.update_omega1, page.update_omega0, page.update_z
update_beta1, update_beta0, update_experts = page.update_beta1, page.update_beta0, page.update_experts


def stick_counts(weights):
    return page.counts(weights)


def padded_second_moment(mu, S):
    return page.moments(mu, S)


def pg_mean(b, c):
    return b * page.theta(abs(c))


def stick_log_bound(psi, psi2, xi, b, kappa):
    return (kappa * psi - b * page.toss_cost(psi2, abs(xi))).sum(-1)


def gamma_mean_log(a, b):
    return page.digamma(a) - np.log(b)


def gaussian_kl(mu, S, sigma):
    return page.kl_gaussian(mu[None], S[None], sigma)[0]


def gate_logits(X, beta0_mu, beta0_S):
    return page.pad(X) @ beta0_mu.T, page.update_omega0(X, beta0_mu, beta0_S)["xi0"] ** 2


def output_logits(mu, Sigma, beta1_mu, beta1_S):
    return page.pad(mu) @ beta1_mu.T, page.update_omega1(mu, Sigma, beta1_mu, beta1_S)["xi1"] ** 2


def kl_beta1(beta1_mu, beta1_S, sigma1, **_):
    return page.kl_gaussian(beta1_mu, beta1_S, sigma1).sum()


def kl_beta0(beta0_mu, beta0_S, sigma0, **_):
    return page.kl_gaussian(beta0_mu, beta0_S, sigma0).sum()


def kl_experts(**s):
    return page.kl_experts(**s).sum()


def elbo(**s):
    return page.bound(**s)


def one_sweep(s, profile):
    """A sweep in the order of the profile."""
    if profile["order"] == "canonical":
        return page.sweep(s, profile["inner"])
    for update in (update_beta1, update_beta0, update_experts, *(update_x, update_omega1) * profile["inner"], update_omega0, update_z):
        s = s | update(**s)
    return s


def sweeps(n_sweeps, profile, **s):
    trace = []
    for _ in range(n_sweeps):
        s = one_sweep(s, profile)
        trace.append(page.bound(**s))
    return {**s, "elbo": np.array(trace)}


def moved(old, new):
    """How far a sweep moves a state: the residual of the suite's definition."""
    return max(np.max(np.abs(new[name] - old[name]) / (1 + np.abs(old[name])), initial=0.0)
               for name in ("beta1_mu", "beta0_mu", "M", "a", "b", "gamma"))


def stationarity(profile, **s):
    return moved(s, one_sweep(s, profile))


def converge(profile, **s):
    for _ in range(20_000):
        old, s = s, one_sweep(s, profile)
        if moved(old, s) < 1e-9:
            break
    return page.bound(**s), moved(s, one_sweep(s, profile))


def predict(X, **s):
    nodes = {1: 60, 2: 30}.get(s["M"].shape[1])
    if nodes is None:
        raise NotImplementedError("three latent dimensions or more would take a minute of nodes for six digits")
    return np.log(page.predict(X, s, nodes))
