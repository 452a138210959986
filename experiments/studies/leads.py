"""The hints that led to new defaults, measured again on rows that they had not seen.

Protocol, written before the first record.
    Question    About thirty variants had been scored on four splits of eleven pairs (set, size), and the best of them, listed here, were picked
                by these same scores.  What is left of their gains on other splits of the same pairs, and of the two that looked worse?
    Candidates  Those of the study of defaults that were among the hints: paper (the base), ridge, shared (scaled priors and a learned mean), few
                clusters x 4, hyperplanes x 4, mix, tempered (20 to 1).  And those that were not asked there:
                gibbs: the sampler of the paper's model with the grid's settings, 4 chains of 500 draws.  paper x 4: four class codes, averaged.
                scaled: v0 = 10 / D, sigma0 = 5 / sqrt(D), and no learned mean.  largest bound: v0 and sigma0 by the maximum of the bound among
                v0 = 10, 1, .1, .01 and sigma0 = 5, 1.6, .5, its time that of all twelve fits.  cold: every row counts three times.
    Rows        The eleven pairs, splits 30 to 33, which no study has seen; at most the first 250 test rows.
    Fits        Experts and latent dimension of the grid, at most 200 sweeps, tol 1e-6.
    Criterion   Log score less that of paper on the same split; mean and standard error over the splits, at each pair and in the mean over pairs.
A record holds all candidates on one split of one pair; lists are in the order of CANDIDATES.
"""
import time

import numpy as np

from experiments.grid import DATA, SETTINGS, experts
from experiments.run import estimator
from experiments.studies import defaults
from experiments.tables import Table

BEGUN = False
TOLERANCE = 2e-3
TIMED = defaults.TIMED
SPLITS, TEST_ROWS = range(30, 34), 250
PAIRS = (("pinwheels", 50), ("pinwheels", 400), ("iris", 25), ("waveform", 60), ("waveform", 240), ("wdbc", 25), ("wdbc", 100), ("sonar", 32),
         ("sonar", 128), ("vehicle", 20), ("vehicle", 160))
ASKED = ("paper", "ridge", "shared", "few clusters x 4", "hyperplanes x 4", "mix", "tempered")
CANDIDATES = {name: defaults.CANDIDATES[name] for name in ASKED} | {
    "gibbs": (("gibbs", "cavi", 0),), "paper x 4": tuple(("paper", "class-code", s) for s in range(4)),
    "scaled": (("scaled", "class-code", 0),), "largest bound": (("largest", "class-code", 0),), "cold": (("cold", "class-code", 0),)}
GRID = [(v0, sigma0) for v0 in (10.0, 1.0, 0.1, 0.01) for sigma0 in (5.0, 1.6, 0.5)]
# mean gains over these pairs on the four splits where the hints were found and picked, hundredths of a nat
FIRST_SEEN = {"ridge": 7.9, "shared": 11.4, "few clusters x 4": 10.5, "hyperplanes x 4": 11.6, "mix": 13.1, "tempered": 4.7, "gibbs": 13.7,
              "paper x 4": 1.6, "scaled": 8.3, "largest bound": -15.4, "cold": -1.6}
Cell = defaults.Cell


def plan():
    """A split of all pairs at a time."""
    return [Cell(d, n, s) for s in SPLITS for d, n in PAIRS]


def fit_one(name, Z, y, L, K):
    """A fit of (model, start, seed).   -> its result, which has .parameters, .elbo, .converged"""
    from cmn_literate.beyond.shared_means import scaled_priors
    from cmn_literate.engineering.fit import fit
    from cmn_literate.network.simulate import Priors

    (model, start, seed), priors = name, Priors(**DATA["priors"])
    setting = {"n_experts": K, "n_classes": L, "rng": seed, "init": start, "max_sweeps": defaults.SWEEPS}
    if model == "scaled":
        return fit(Z, y, priors=scaled_priors(priors, Z.shape[1] + 1), **setting)
    if model == "cold":
        return fit(Z, y, priors=priors, sample_weight=np.full(len(y), 3.0), **setting)
    if model == "largest":
        grid = [priors(v0=v0, sigma0=sigma0) for v0, sigma0 in GRID]
        return max((fit(Z, y, priors=some, **setting) for some in grid), key=lambda found: found.elbo[-1])
    return defaults.fit_one(name, Z, y, L, K)


def run(cell, records=None, data_home=None, models=None):
    """All fits of a cell, and the scores of the candidates."""
    Z, y, Z_new, truth, origin = defaults.rows_of(cell, data_home)
    Z_new, truth = Z_new[:TEST_ROWS], truth[:TEST_ROWS]
    L, K = int(max(y.max(), truth.max())) + 1, experts(cell.dataset)

    def sampled():
        """The sampler in the place of a fit."""
        clock = time.process_time()
        model = estimator(cell.dataset, "gibbs", SETTINGS["gibbs"].options, 0, classes=np.arange(L)).fit(Z, y)
        middle = time.process_time()
        return model.predict_log_proba(Z_new), 0.0, False, middle - clock, time.process_time() - middle

    one = defaults.maker(Z, y, Z_new, L, K, cell.dataset, fit_one)
    return {"setting": {"max_sweeps": defaults.SWEEPS}, "provenance": {"sha256": origin},
            "metrics": defaults.compare(CANDIDATES, lambda name: sampled() if name[0] == "gibbs" else one(name), truth)}


# ---- reading the records

def numbers(records, name="lpd"):
    """(splits, pairs, candidates) of a score on the splits that have all pairs."""
    return defaults.scores(records, name, PAIRS, SPLITS, CANDIDATES)


def gains(records, candidate):
    """Mean gain over paper, its standard error over splits, and both for each pair."""
    return defaults.gains(numbers(records), candidate, names=CANDIDATES)


def with_error(gain, error, digits):
    """A gain in hundredths with its error; -inf alone where a label that came had been given the probability 0."""
    return f"{100 * gain:+.{digits}f} ± {100 * error:.{digits}f}" if np.isfinite(gain) else "-inf"


def lead_table(records):
    """A Table: gain of every candidate over paper at every pair and in the mean, with accuracy, calibration and time over all pairs."""
    values, spent = numbers(records), sum(numbers(records, name) for name in TIMED).mean((0, 1))
    others, rows = [numbers(records, name).mean((0, 1)) for name in ("accuracy", "ece")], []
    for i, candidate in enumerate(CANDIDATES):
        with np.errstate(invalid="ignore"):                  # a forecast of probability 0 has no error bar
            mean, error, each, errors = gains(records, candidate)
        cells = [with_error(g, e, 0) for g, e in zip(each, errors)] + [with_error(mean, error, 1), f"{FIRST_SEEN.get(candidate, 0):+.1f}"]
        if candidate == "paper":
            cells = [f"{v:.2f}" for v in values[..., i].mean(0)] + [f"{values[..., i].mean():.3f}", "-"]
        rows.append(["paper, nats" if candidate == "paper" else candidate, *cells, *(f"{v[i]:.3f}" for v in others), f"{spent[i] / spent[0]:.1f}"])
    return Table(["candidate", *(f"{d} {n}" for d, n in PAIRS), "mean", "first seen", "accuracy", "ECE", "time"], rows, "l" + "r" * (len(PAIRS) + 5),
                 f"Log score less that of paper, in hundredths of a nat, ± standard error over {len(values)} splits")


def report(records):
    """Lines: how far it is, and with two whole splits the table."""
    yield f"{len(records)} of {len(plan())} cells"
    if len(numbers(records)) > 1:
        yield from repr(lead_table(records)).splitlines()
