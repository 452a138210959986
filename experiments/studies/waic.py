"""The four scores that go by the name of WAIC, of the same fits on the same training rows.

marginal      WAIC of p(y_n | x_n, Theta), the latent vector integrated out: what "elpd_waic / N" of the network means
conditional   WAIC of p(y_n | x_1n, Theta) with x_1n drawn anew for every draw of Theta, given y_n and Theta: what comes out when a program
              keeps the latent vectors of its draws and asks for the likelihood of what it sees below them
conditional_q of CAVI: the same with x_1n from q(x_1n, z_n), which knows y_n but not the draw of Theta
train_lpd     mean log predictive of the training rows, no penalty; train_lpd_twice: of a point, normalised twice
A row that is predicted from a latent vector that has seen its label scores far too well: Merkle, Furr and Rabe-Hesketh (2019).
"""

import warnings

import numpy as np

from experiments.grid import Cell, waic_size
from experiments.report import PAPER_WAIC
from experiments.run import fit, plain, split
from experiments.tables import Table

TOLERANCE = 1e-3
BATCHES, EACH = 8, 100                                   # CAVI's draws; a sampler's chains are its batches, of EACH_CHAIN
EACH_CHAIN = 200
CHUNK, CHUNKS, EVERY = 64, 100, 2000                     # proposals a row at a time, and how often; of every expert for a row that kept none


def plan():
    """The two sets where a latent vector can be drawn in a moment."""
    return [Cell(d, waic_size(d), m, s) for m, seeds in (("cavi", 4), ("mle-network", 2), ("gibbs", 1), ("nuts", 1)) for d in ("sonar", "iris") for s in range(seeds)]


def seen_log_probs(theta, x1, y):
    """ln p(y_n | x_1n, beta_1); x1 (..., N, h), y (N,) -> (..., N) nats."""
    from cmn_literate.ideas.stick_breaking import stick_log_probs

    log_p = stick_log_probs(x1 @ theta.beta1[:, :-1].T + theta.beta1[:, -1])
    return log_p[..., np.arange(len(y)), y]


def draw_latents(theta, X, y, rng):
    """x_1n given y_n and Theta, by rejection: a draw of (z_n, x_1n) given x_n is kept with probability p(y_n | x_1n).

    theta of one draw, X (N,d), y (N,) -> (N,h), number of rows that kept nothing in CHUNK * CHUNKS proposals.  These choose one of EVERY
    proposals from each expert, however rare, in proportion to the expert's probability times p(y_n | x_1n).
    """
    from cmn_literate.ideas.expfam import pad
    from cmn_literate.ideas.stick_breaking import stick_log_probs

    log_gate = stick_log_probs(pad(X) @ theta.beta0.T)
    cuts = np.cumsum(np.exp(log_gate), axis=1)[:, :-1]
    mean, spread = np.einsum("kid,nd->nki", theta.A, pad(X)), 1 / np.sqrt(theta.tau)
    found, left = np.empty((len(X), theta.A.shape[1])), np.arange(len(X))
    for _ in range(CHUNKS):
        z = (rng.random((CHUNK, len(left), 1)) >= cuts[left]).sum(-1)
        x1 = mean[left, z] + spread[z] * rng.normal(size=(CHUNK, len(left), found.shape[1]))
        kept = np.log(rng.random(z.shape)) < seen_log_probs(theta, x1, y[left])
        done = kept.any(0)
        found[left[done]] = x1[kept.argmax(0)[done], np.flatnonzero(done)]
        left = left[~done]
        if not len(left):
            break
    for n in left:
        x1 = mean[n] + spread * rng.normal(size=(EVERY, *spread.shape))                             # (EVERY, K, h)
        weight = log_gate[n] + seen_log_probs(theta, x1[:, :, None], y[[n]])[..., 0]
        found[n] = x1.reshape(-1, x1.shape[-1])[np.argmax(weight + rng.gumbel(size=weight.shape))]
    return found, len(left)


def draw_q_latents(local, rng):
    """x_1n from q(x_1n, z_n) of fitted local factors.   -> (N,h)"""
    z = (rng.random((len(local.gamma), 1)) >= np.cumsum(local.gamma, axis=1)[:, :-1]).sum(1)
    rows = np.arange(len(z))
    root = np.linalg.cholesky(local.Sigma[rows, z])
    return local.mu[rows, z] + np.einsum("nij,nj->ni", root, rng.normal(size=local.mu[rows, z].shape))


def batches_of(result, rng):
    """PosteriorDraws of a fit: of q in BATCHES of EACH, of a sampler so many of each chain, evenly spread."""
    from cmn_literate.network.predict import sample_parameters
    from cmn_literate.network.simulate import Theta
    from cmn_literate.roads.diagnostics import PosteriorDraws

    if hasattr(result, "draws"):
        length = result.draws.n_draws
        count = min(EACH_CHAIN, length)
        at = (np.arange(count) * length + length // 2) // count
        theta = Theta(*(x[:, at] for x in result.draws.theta))
    else:
        theta = Theta(*(x.reshape(BATCHES, EACH, *x.shape[1:]) for x in sample_parameters(result.parameters, rng, BATCHES * EACH)))
    return PosteriorDraws(theta, np.zeros(theta.tau.shape[:2]))


def summary(name, log_lik):
    """WAIC per row of log likelihoods (batches, draws, N), its penalty, its error over rows, and its Monte Carlo error.

    The last is that of the jackknife which leaves out one batch at a time: independent draws of q, or a whole chain.
    """
    from cmn_literate.use.metrics import waic

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")                  # rows over the limit are counted
        whole, n, m = waic(log_lik), log_lik.shape[-1], len(log_lik)
        parts = np.array([waic(np.delete(log_lik, b, axis=0)).elpd / n for b in range(m)])
    error = np.sqrt((m - 1) / m * ((parts - parts.mean()) ** 2).sum())
    return {name: whole.elpd / n, f"{name}_mc": error, f"{name}_se": whole.se / n, f"{name}_penalty": whole.p_rows.mean(),
            f"{name}_bad_rows": int((whole.p_rows > 0.4).sum())}


def scores_of(result, Z, y, rng):
    """The scores of a fitted q or of a sampler's draws, on its training rows."""
    from cmn_literate.network.simulate import Theta
    from cmn_literate.engineering.nodes import latent_nodes
    from cmn_literate.roads.diagnostics import pointwise_log_likelihood

    draws = batches_of(result, rng)
    nodes = latent_nodes(draws.shapes, 256 if min(draws.shapes[1], draws.shapes[2] - 1) > 2 else None, rng=0)
    flat, shape, lost = draws.flatten(), (draws.n_chains, draws.n_draws, len(y)), 0
    each = [Theta(*(x[s] for x in flat)) for s in range(len(flat.tau))]
    given = []
    for theta in each:
        x1, missed = draw_latents(theta, Z, y, rng)
        given.append(seen_log_probs(theta, x1, y))
        lost += missed
    found = summary("marginal", pointwise_log_likelihood(draws, Z, y, nodes)) | summary("conditional", np.reshape(given, shape))
    found |= {"draws": len(each), "share_not_kept": lost / (len(each) * len(y))}
    if not hasattr(result, "draws"):
        local = result.state(Z, y).local
        found |= summary("conditional_q", np.reshape([seen_log_probs(theta, draw_q_latents(local, rng), y) for theta in each], shape))
    return found


def run(cell, records=None, data_home=None, models=None):
    from cmn_literate.roads.mle import softmax_twice
    from cmn_literate.use.metrics import log_scores

    data, train, test = split(cell, data_home)
    model = fit(cell, data, train, models=models)
    codes = np.searchsorted(model.classes_, data.y[train])
    log_p = model.predict_log_proba(data.X[train])
    metrics = {"lpd": log_scores(data.y[test], model.predict_log_proba(data.X[test]), log=True).mean()}
    metrics["train_lpd"] = log_p[np.arange(len(codes)), codes].mean()
    result = model.fits_[0]
    if hasattr(result, "theta"):
        metrics["train_lpd_twice"] = softmax_twice(log_p)[np.arange(len(codes)), codes].mean()
    else:
        metrics |= scores_of(result, model.inputs(data.X[train]), codes, np.random.default_rng([7, cell.seed]))
    return {"setting": {"method": model.method, **(model.method_options or {})}, "metrics": {k: plain(v) for k, v in metrics.items()},
            "provenance": {"sha256": data.sha256}}


SCORES = ("marginal", "conditional", "conditional_q", "train_lpd", "train_lpd_twice", "lpd")
TITLES = {"marginal": "marginal WAIC", "conditional": "conditional WAIC", "conditional_q": "conditional, x_1 from q", "train_lpd": "training log score",
          "train_lpd_twice": "normalised twice", "lpd": "test log score"}


def means(records):
    """{(dataset, method): {score: (mean over seeds, error, seeds)}}

    The error of a WAIC is its Monte Carlo error: over seeds where there are two or more, start and draws together, else the jackknife's.
    """
    groups, out = {}, {}
    for cell, record in records.items():
        groups.setdefault((cell.dataset, cell.method), []).append(record["metrics"])
    for key, found in groups.items():
        out[key] = {}
        for name in SCORES:
            values = [m[name] for m in found if m.get(name) is not None]
            if values:
                several = len(values) > 1
                error = np.std(values, ddof=1) / np.sqrt(len(values)) if several else found[0].get(f"{name}_mc", np.nan)
                out[key][name] = float(np.mean(values)), float(error), len(values)
    return out


def table(records, datasets=None, digits=3):
    """A Table: what the paper prints for a set and a method, and every score that it may be, ± Monte Carlo error."""
    found, rows = means(records), []
    for dataset in PAPER_WAIC if datasets is None else datasets:
        for method, printed in (("cavi", "cavi"), ("mle-network", "mle"), ("gibbs", None), ("nuts", "nuts")):
            if scores := found.get((dataset, method)):
                row = [dataset, method, f"{PAPER_WAIC[dataset][printed]:.4f}" if printed else None]
                for name in SCORES:
                    mean, error, _ = scores.get(name, (np.nan, np.nan, 0))
                    row.append(None if np.isnan(mean) else f"{mean:.{digits}f}" + ("" if np.isnan(error) else f" ± {error:.{digits}f}"))
                rows.append(row)
    return Table(["data", "method", "the paper", *(TITLES[name] for name in SCORES)], rows, "ll" + "r" * (1 + len(SCORES)),
                 "Four scores that are called WAIC, nats per row, of the same fits")


def report(records):
    """Lines of the table."""
    return repr(table(records)).splitlines()
