"""The checks of level B that are asked of regressors alone.  Each takes a blackbox.RegressorLab and gives comparisons.

A forecast is given by what the estimator has: mean, standard deviation, quantiles, density, distribution function. Who has a mean and a standard
deviation and no more is taken at the normal density with them.
"""

from functools import partial
from statistics import NormalDist
from types import SimpleNamespace

import numpy as np

from cmn_conformance import blackbox_checks
from cmn_conformance.blackbox import LEVELS
from cmn_conformance.blackbox_checks import fitted, same
from cmn_conformance.blackbox_data import line
from cmn_conformance.calibration import SETS, TEST, TRAIN, draw_measured
from cmn_conformance.judged import NotAsked, at_most, holds, near
from cmn_conformance.process import Trouble
from cmn_conformance.values import encode

CHECKS = []
check = partial(blackbox_checks.check, op="forecast", kinds=("regressor",), into=CHECKS)
GRID = np.sinh(np.linspace(-12, 12, 1601)) / 8           # in standard deviations of y: steps of 0.002 in the middle, 1e4 at the ends
SHARE, MOMENT = 0.005, 0.03                              # what an integral by this grid may be off: a density may have corners
ENOUGH = {0.5: 0.35, 0.9: 0.75}                          # least cover of an interval on a line with normal noise
NORMAL = NormalDist()


def has(lab, *parts):
    """NotAsked if the estimator lacks one of these parts."""
    lacking = [part for part in parts if part not in lab.can["gives"]]
    if lacking:
        raise NotAsked("forecast", f"gives no {lacking[0]}")


def log_densities(lab, answer, y, number=0, ending=""):
    """(n, values) at the values that were asked, or with the ending "_of_truth" (n,); normal with mean and std, where there is no density."""
    parts = answer.parts[number]
    if f"log_density{ending}" in parts:
        return parts[f"log_density{ending}"]
    with np.errstate(divide="ignore", invalid="ignore"):
        if f"density{ending}" in parts:
            return np.log(parts[f"density{ending}"])
        has(lab, "std")
        t = (y - parts["mean"]) / parts["std"]
        return -0.5 * t**2 - np.log(parts["std"]) - 0.5 * np.log(2 * np.pi)


def on_grid(lab):
    """Values, weights of their integral, densities and distribution functions (4, values) of the first four queries of the base fit."""
    if not {"density", "log_density"} & set(lab.can["gives"]):
        raise NotAsked("forecast", "gives no density")
    X, y, query = lab.data()
    values = np.mean(y) + np.std(y) * GRID
    answer = lab.ask(X, y, query[:4], at=encode(values))
    density = np.exp(log_densities(lab, answer, values))
    return values, np.gradient(values), density, answer.parts[0]


@check("shape", "eq-reg-predict", "one mean, standard deviation and row of quantiles per query, one density per query and value")
def shape(lab):
    X, y, query = lab.data()
    for n in (17, 1):
        parts = lab.raw(X, y, query[:n]).parts[0]
        for name, wanted in lab.shapes(n, y, {}).items():
            yield holds(f"{name}_{n}", parts[name].shape == wanted, f"{name} has shape {parts[name].shape}, expected {wanted}")


@check("positive", "eq-reg-moments", "standard deviations above 0, densities at least 0, distribution functions between 0 and 1")
def positive(lab):
    parts = fitted(lab)[0].parts[0]
    if not {"std", "density", "cdf"} & set(parts):
        raise NotAsked("forecast", "gives no std, density or cdf")
    for name, found in parts.items():
        if name == "std":
            yield holds(name, (found > 0).all(), f"the smallest is {found.min():.3g}")
        if name in ("density", "cdf"):
            yield at_most(f"minus_{name}", -found, 0.0, 0.0, "a negative one")
        if name == "cdf":
            yield at_most(name, found, 1.0, 1e-12)


# ---- one forecast, said in several ways

@check("density_integral", "eq-reg-mixture", "the density integrates to one over y (in the unit of y, not of a standardised one)")
def integral(lab):
    _, step, density, _ = on_grid(lab)
    yield near("integral", density @ step, np.ones(4), SHARE, "the density does not integrate to one")


@check("density_moments", "eq-reg-moments", "mean and standard deviation are those of the density")
def moments(lab):
    has(lab, "mean")
    values, step, density, parts = on_grid(lab)
    mass = density * step / (density @ step)[:, None]
    mean = mass @ values
    std = np.sqrt((mass * (values - mean[:, None]) ** 2).sum(1))
    yield near("mean", parts["mean"], mean, MOMENT * std, "not the mean of the density")
    if "std" in parts and np.isfinite(parts["std"]).all():
        yield near("std", parts["std"], std, MOMENT * std, "not the standard deviation of the density")


@check("density_log", "eq-reg-mixture", "the logarithm of the density is its logarithm")
def logarithm(lab):
    has(lab, "density", "log_density")
    parts = fitted(lab)[0].parts[0]
    size = lab.sizes(lab.data()[1])["density"]
    yield near("exp_log_density", np.exp(parts["log_density"]), parts["density"], 1e-6 * size)


@check("quantiles_rise", "eq-reg-quantile", "quantiles rise with their level")
def rise(lab):
    has(lab, "quantiles")
    falls = -np.diff(fitted(lab)[0].parts[0]["quantiles"], axis=1)
    yield at_most("fall", falls, 0.0, 1e-9 * lab.sizes(lab.data()[1])["quantiles"], "a quantile below one of a lower level")


@check("quantiles_of_density", "eq-reg-quantile", "below a quantile lies the share of its level, by density and distribution function")
def shares(lab):
    has(lab, "quantiles")
    values, step, density, parts = on_grid(lab)
    below = np.cumsum(density * step, 1) - 0.5 * density * step
    levels = np.tile(LEVELS, (4, 1))
    found = np.array([np.interp(q, values, share) for q, share in zip(parts["quantiles"], below)])
    yield near("share_by_density", found, levels, 2 * SHARE, "another share lies below the quantile")


@check("quantiles_of_moments", "eq-reg-moments", "Cantelli: a quantile of level p lies between mean - std sqrt((1-p)/p) and mean + std sqrt(p/(1-p)), "
       "whatever the distribution")
def cantelli(lab):
    has(lab, "quantiles", "std")
    parts, p = fitted(lab)[0].parts[0], np.array(LEVELS)
    off = (parts["quantiles"] - parts["mean"][:, None]) / parts["std"][:, None]
    yield at_most("above", off, np.tile(np.sqrt(p / (1 - p)), (len(off), 1)), 1e-6, "no distribution with this mean and std has a quantile so high")
    yield at_most("below", -off, np.tile(np.sqrt((1 - p) / p), (len(off), 1)), 1e-6, "no distribution with this mean and std has a quantile so low")


@check("cdf", "eq-reg-mixture", "the distribution function rises with y, from 0 to 1, as the density or the normal of mean and std says")
def distribution(lab):
    has(lab, "cdf")
    X, y, query = lab.data()
    values = np.mean(y) + np.std(y) * GRID[::8]
    parts = lab.ask(X, y, query[:4], at=encode(values)).parts[0]
    yield at_most("fall", -np.diff(parts["cdf"], axis=1), 0.0, 1e-9, "it falls")
    yield near("ends", parts["cdf"][:, [0, -1]], np.tile([0.0, 1.0], (4, 1)), SHARE)
    if "density" in parts or "log_density" in parts:
        fine, step, density, _ = on_grid(lab)
        below = np.cumsum(density * step, 1) - 0.5 * density * step
        yield near("by_density", parts["cdf"], below[:, ::8], 2 * SHARE, "not the integral of the density")


# ---- what a forecast is worth

def pinball(q, levels, y):
    off = y[:, None] - q
    return float(np.mean(np.maximum(levels * off, (levels - 1) * off)))


def beats_the_constant(lab, X, y, query, truth, by):
    """Comparisons: the mean log score is `by` above that of the training y's normal; of quantiles alone the pinball loss is below 0.7 of theirs."""
    answer = lab.ask(X, y, query, truth=encode(truth))
    if {"density", "log_density", "std"} & set(answer.parts[0]):
        score = np.maximum(log_densities(lab, answer, truth, ending="_of_truth"), -1e6).mean()
        t = (truth - np.mean(y)) / np.std(y)
        constant = np.mean(-0.5 * t**2 - np.log(np.std(y)) - 0.5 * np.log(2 * np.pi))
        yield at_most("minus_log_score", -score, -constant - by, 0.0, f"not {by} nats better than one normal for all rows")
    else:
        levels = np.array(LEVELS)
        loss = pinball(answer.parts[0]["quantiles"], levels, truth)
        constant = pinball(np.tile(np.quantile(y, levels), (len(truth), 1)), levels, truth)
        yield at_most("pinball_loss", loss, 0.7 * constant, 0.0, "not much better than the quantiles of y for all rows")


@check("used", "eq-lpd", "a line with a tenth of noise: the mean log score of new rows is half a nat better than that of one normal for all")
def used(lab):
    rng = lab.rng(5)
    (X, y), (query, truth) = line(rng, 60), line(rng, 60)
    yield from beats_the_constant(lab, X, y, query, truth, 0.5)


@check("all_rows", "eq-lpd", "160 rows of a bend, sorted by the first column: none of them is left out")
def all_rows(lab):
    rng = lab.rng(6)
    X = np.sort(rng.uniform(-2, 2, size=160))
    columns = lambda x: np.stack([x, rng.normal(size=len(x))], 1)
    height = lambda x: 3 * np.where(x > 0, x, -0.2 * x) + 0.3 * rng.normal(size=len(x))
    y, query = height(X), rng.uniform(1, 2, size=40)
    yield from beats_the_constant(lab, columns(X), y, columns(query), height(query), 0.0)


def inside(lab, answer, truth, levels):
    """{level: which truths lie in the central interval}."""
    parts, out = answer.parts[0], {}
    for level in levels:
        low = 0.5 - level / 2
        if "quantiles" in parts:
            q = parts["quantiles"][:, [LEVELS.index(0.05), LEVELS.index(0.95)] if level > 0.5 else [LEVELS.index(0.25), LEVELS.index(0.75)]]
            out[level] = (q[:, 0] <= truth) & (truth <= q[:, 1])
        elif "cdf_of_truth" in parts:
            out[level] = np.abs(parts["cdf_of_truth"] - 0.5) <= level / 2
        else:
            has(lab, "std")
            out[level] = np.abs(truth - parts["mean"]) <= -NORMAL.inv_cdf(low) * parts["std"]
    return out


def below(parts, truth):
    """Which truths lie below the middle of the forecast."""
    return truth < (parts["quantiles"][:, LEVELS.index(0.5)] if "quantiles" in parts else parts["mean"])


def coverage(lab, draw, key, sets, rows, new):
    """Cover of the 50 and 90 % intervals over data sets, its standard error, and the share below the middle; remembered by the lab."""
    if key not in lab.known:
        rng, cover, under = lab.rng(10), {0.5: [], 0.9: []}, []
        for _ in range(sets):
            X, y = draw(rng, rows + new)
            answer = lab.ask(X[:rows], y[:rows], X[rows:], truth=encode(y[rows:]))
            for level, hit in inside(lab, answer, y[rows:], cover).items():
                cover[level].append(hit.mean())
            under.append(below(answer.parts[0], y[rows:]).mean())
        error = lambda values: float(np.std(values, ddof=1) / np.sqrt(sets))
        lab.known[key] = SimpleNamespace(cover={level: float(np.mean(found)) for level, found in cover.items()},
                                         error={level: error(found) for level, found in cover.items()}, under=float(np.mean(under)),
                                         under_error=error(under))
    return lab.known[key]


@check("covers", "eq-reg-predict", "a line with normal noise, 4 data sets: the 90 % interval covers three quarters of new rows at least, the 50 % interval a third")
def covers(lab):
    found = coverage(lab, line, "lines", 4, 80, 200)
    for level, least in ENOUGH.items():
        yield at_most(f"least_minus_cover_{round(100 * level)}", least - found.cover[level], 0.0, 0.0,
                      f"the {round(100 * level)} % intervals cover {100 * found.cover[level]:.0f} %: too sure")


@check("narrows", "eq-reg-predict", "a line with normal noise: the 50 % interval does not cover nine tenths of new rows")
def narrows(lab):
    found = coverage(lab, line, "lines", 4, 80, 200)
    yield at_most("cover_50", found.cover[0.5], 0.9, 0.0, "intervals so wide say nothing")


@check("balance", "eq-reg-family", "data drawn from the prior: y -> -y is a symmetry of it, so the share of new rows below the middle of the forecast averages "
       "to a half; the tolerance is 6 standard errors over data sets", "calibration")
def balance(lab):
    found = coverage(lab, draw_measured, "networks", SETS, TRAIN, TEST)
    yield near("below_the_middle", found.under, 0.5, 6 * found.under_error)


@check("calibration", "eq-reg-predict", "a warning only: on data drawn from the prior the 50 and 90 % intervals of the exact forecast cover these shares; a mean field is "
       "too narrow. The tolerance is 6 standard errors over data sets, binomial ones where these are smaller, and 0.03", "calibration", grade="warned")
def calibration(lab):
    found = coverage(lab, draw_measured, "networks", SETS, TRAIN, TEST)
    for level, cover in found.cover.items():
        binomial = np.sqrt(level * (1 - level) / (SETS * TEST))
        yield near(f"cover_{round(100 * level)}", cover, level, 6 * max(found.error[level], binomial) + 0.03)


# ---- odd data

def told_or_sane(lab, name, *question):
    """A forecast without NaN, or a ValueError."""
    try:
        answer = lab.raw(*question)
    except Trouble as trouble:
        if trouble.kind != "errored":
            raise
        said = str(trouble).partition(":")[0]
        return holds(name, said == "ValueError", f"expected a forecast or a ValueError, got {trouble}")
    bad = [part for part, found in answer.parts[0].items() if np.isnan(found).any()]
    return holds(name, not bad, f"NaN in {', '.join(bad)}: expected numbers or a ValueError")


@check("degenerate", "eq-data", "a constant column, a constant y, one row: a forecast without NaN, or a ValueError")
def degenerate(lab):
    X, y, query = lab.data()
    flat = X * [1.0, 0.0] + [0.0, 3.0]
    yield told_or_sane(lab, "constant_column", flat, y, query)
    yield told_or_sane(lab, "constant_target", X, np.full(len(y), 2.0), query)
    yield told_or_sane(lab, "one_row", X[:1], y[:1], query)


# ---- promises

@check("y_units", "eq-reg-mixture", "y in another unit and shifted: mean and quantiles go with it, std by its scale, densities against it", "y_units", op="fit")
def y_units(lab):
    X, y, query = lab.data()
    for name, scale, shift in (("scaled", 64.0, 0.0), ("shifted", 1.0, 32.0), ("small", 2.0**-10, -1.0)):
        def expected(parts, scale=scale, shift=shift):
            place = {part: scale * found + (shift if np.ndim(found) else 0.0) for part, found in parts.items() if part in ("mean", "quantiles")}
            rest = {"std": lambda v: scale * v, "density": lambda v: v / scale, "cdf": lambda v: v,
                    "log_density": lambda v: v - np.log(scale) * (np.ndim(v) > 0)}
            return {**{part: rest[part](found) for part, found in parts.items() if part in rest}, **place}
        yield from same(lab, name, X, scale * y + shift, query, expected, bound=False)
