"""Regressors for the tests of level B: a right one, and what goes wrong with it, one bug each."""

import numpy as np
from scipy.special import ndtr, ndtri


class Evidence:
    """Bayesian line: prior precision and noise by evidence and a weak prior (EM, which never lowers their sum), everything in standard deviations; normal forecasts."""
    cmn_promises = ("row_order", "units", "column_order", "y_units")

    def __init__(self, max_iter=40, random_state=None):
        self.max_iter, self.random_state = max_iter, random_state

    def refuse(self, X, width):
        if X.ndim != 2 or X.shape[1] != width or not np.isfinite(X).all():
            raise ValueError(f"X: expected {width} columns of finite numbers, got shape {X.shape}")

    def paired(self, X, y):
        if y.shape != (len(X),) or not np.isfinite(y).all():
            raise ValueError(f"y: expected {len(X)} finite numbers, got shape {y.shape}")

    def scaling(self, values):
        spread = values.std(0)
        return values.mean(0), np.where(spread > 0, spread, 1.0)

    def fit(self, X, y):
        self.refuse(X, X.shape[1])
        self.paired(X, y)
        self.width = X.shape[1]
        X, y = X.astype(float), y.astype(float)
        self.centre, self.spread = self.scaling(X)
        self.level, self.unit = self.scaling(y)
        self.solve(self.padded(X), (y - self.level) / self.unit)
        return self

    def padded(self, X):
        return np.hstack([(X - self.centre) / self.spread, np.ones((len(X), 1))])

    def solve(self, P, t):
        N, D = P.shape
        alpha, beta, self.trace_ = 1.0, 1.0, []
        for _ in range(self.max_iter):
            S = np.linalg.inv(alpha * np.eye(D) + beta * P.T @ P)
            m = beta * S @ P.T @ t
            C = np.eye(N) / beta + P @ P.T / alpha
            self.trace_.append(-0.5 * (np.linalg.slogdet(C)[1] + t @ np.linalg.solve(C, t) + N * np.log(2 * np.pi)
                                      - np.log(alpha * beta) + alpha + 1e-3 * beta))
            alpha = (D + 1) / (m @ m + np.trace(S) + 1)
            beta = (N + 1) / (np.sum((t - P @ m) ** 2) + np.trace(S @ P.T @ P) + 1e-3)
        self.m, self.S, self.noise, self.elbo_ = m, S, 1 / beta, self.trace_[-1]

    def forecast(self, X):
        """Mean and standard deviation, both of the new y."""
        self.refuse(X, self.width)
        P = self.padded(X.astype(float))
        return self.level + self.unit * (P @ self.m), self.unit * np.sqrt(self.variance(P))

    def variance(self, P):
        return self.noise + np.einsum("nd,de,ne->n", P, self.S, P)

    def predict(self, X, return_std=False):
        mean, std = self.forecast(X)
        return (mean, std) if return_std else mean

    def predict_density(self, X, y, log=False):
        mean, std = self.forecast(X)
        found = -0.5 * ((y - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi)
        return found if log else np.exp(found)

    def predict_cdf(self, X, y):
        mean, std = self.forecast(X)
        return ndtr((y - mean) / std)

    def predict_quantiles(self, X, levels):
        mean, std = self.forecast(X)
        return mean[:, None] + std[:, None] * ndtri(levels)


BROKEN = {}


def breaks(check, verdict="failed", promises=(), **params):
    """Register a broken regressor under the check that must catch it."""
    def register(cls):
        cls.cmn_promises = tuple(promises)
        BROKEN[cls.__name__] = (cls, f"LB-{check}", verdict, params)
        return cls
    return register


@breaks("shape")
class ColumnForVector(Evidence):
    def predict(self, X, return_std=False):
        mean, std = self.forecast(X)
        return (mean[:, None], std) if return_std else mean[:, None]


@breaks("shape")
class QuantilesByLevel(Evidence):
    def predict_quantiles(self, X, levels):
        return Evidence.predict_quantiles(self, X, levels).T


@breaks("shape")
class ForgetsOneRow(Evidence):
    def forecast(self, X):
        return tuple(part.squeeze() if len(part) > 1 else part[0] for part in Evidence.forecast(self, X))

    def predict_quantiles(self, X, levels):
        mean, std = Evidence.forecast(self, X)
        return mean[:, None] + std[:, None] * ndtri(levels)


@breaks("finite")
class RootOfNegative(Evidence):
    def variance(self, P):
        with np.errstate(invalid="ignore"):
            return np.where(P[:, 0] > 1, np.nan, Evidence.variance(self, P))


@breaks("positive")
class NoWidth(Evidence):
    """A kernel's variance that cancels: 0 where the row is near the middle."""
    def predict(self, X, return_std=False):
        mean, std = self.forecast(X)
        return (mean, np.where(np.abs(X[:, 0]) < 0.5, 0.0, std)) if return_std else mean


@breaks("positive")
class CdfAboveOne(Evidence):
    def predict_cdf(self, X, y):
        return 1.01 * Evidence.predict_cdf(self, X, y)


@breaks("alone")
class StandardisesQueries(Evidence):
    def padded(self, X):
        return Evidence.padded(self, X - X.mean(0) + self.centre if len(X) == 17 else X)


@breaks("query_order")
class SortsQueries(Evidence):
    def forecast(self, X):
        return Evidence.forecast(self, X[np.argsort(X[:, 0], kind="stable")])


@breaks("again")
class Learns(Evidence):
    def predict(self, X, return_std=False):
        self.m = 0.9 * self.m
        return Evidence.predict(self, X, return_std)


@breaks("again")
class SampledQuantiles(Evidence):
    """A forecast by draws that are new at each call."""
    def predict_quantiles(self, X, levels):
        mean, std = self.forecast(X)
        draws = mean[:, None] + std[:, None] * np.random.default_rng().normal(size=(len(X), 1000))
        return np.quantile(draws, levels, axis=1).T


@breaks("seed")
class Unseeded(Evidence):
    def solve(self, *data):
        Evidence.solve(self, *data)
        self.m = self.m + np.random.default_rng().normal(0, 0.01, self.m.shape)


@breaks("data_kept")
class ScalesTargetInPlace(Evidence):
    def fit(self, X, y):
        Evidence.fit(self, X, y)
        y -= y.mean()
        return self


@breaks("data_kept")
class ScalesQueryInPlace(Evidence):
    def predict(self, X, return_std=False):
        found = Evidence.predict(self, X, return_std)
        X -= self.centre
        return found


@breaks("refit")
class WarmStart(Evidence):
    def scaling(self, values):
        found = Evidence.scaling(self, values)
        if values.ndim == 1:
            self.first = getattr(self, "first", found)
            return self.first
        return found


@breaks("pickled", "warned")
class HoldsALambda(Evidence):
    def solve(self, *data):
        Evidence.solve(self, *data)
        self.link = lambda value: value


@breaks("pickled", "warned")
class ForgetsWhenPickled(Evidence):
    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if name not in ("level", "unit")}

    def __setstate__(self, state):
        vars(self).update(state, level=0.0, unit=1.0)


@breaks("float32", "warned")
class Sixteen(Evidence):
    def fit(self, X, y):
        if X.dtype == np.float32:
            y = y.astype(np.float16) // 1
        return Evidence.fit(self, X, y)


@breaks("used")
class OneNormalForAll(Evidence):
    def solve(self, P, t):
        Evidence.solve(self, P, t)
        self.m, self.noise = 0 * self.m, 1.0


@breaks("used")
class WrongSign(Evidence):
    def solve(self, P, t):
        Evidence.solve(self, -P, t)


@breaks("all_rows")
class SixtyFourRows(Evidence):
    def fit(self, X, y):
        return Evidence.fit(self, X[:64], y[:64])


@breaks("covers")
class NoNoise(Evidence):
    """The standard deviation of the mean for that of y."""
    def variance(self, P):
        return np.einsum("nd,de,ne->n", P, self.S, P)


@breaks("covers")
class VarianceForWidth(Evidence):
    def variance(self, P):
        return Evidence.variance(self, P) ** 2


@breaks("narrows")
class WidthOfTheTarget(Evidence):
    def variance(self, P):
        return np.ones(len(P))


@breaks("large_inputs")
class SquaresInSixteenBits(Evidence):
    def padded(self, X):
        with np.errstate(over="ignore", invalid="ignore"):
            norm = (X.astype(np.float16) ** 2).sum(1, keepdims=True).astype(float)
            return Evidence.padded(self, X) * (norm + 1) / (norm + 1)


@breaks("far_query")
class Weights(Evidence):
    """A mean of training targets by kernel weights, all of which underflow far away."""
    def fit(self, X, y):
        self.rows, self.targets = X.copy(), y.copy()
        return Evidence.fit(self, X, y)

    def forecast(self, X):
        std = Evidence.forecast(self, X)[1]
        with np.errstate(invalid="ignore", over="ignore"):
            w = np.exp(-0.5 * ((X[:, None] - self.rows) ** 2).sum(-1))
            return (w @ self.targets) / w.sum(1), std


@breaks("nan", "warned")
class TakesNaN(Evidence):
    def refuse(self, X, width):
        pass


@breaks("nan", "warned")
class TakesInfiniteTargets(Evidence):
    def paired(self, X, y):
        y[~np.isfinite(y)] = 0.0


@breaks("widths", "warned")
class TakesAnyWidth(Evidence):
    def padded(self, X):
        return Evidence.padded(self, X[:, :self.width])

    def refuse(self, X, width):
        Evidence.refuse(self, X[:, :width], width)


@breaks("lengths", "warned")
class CutsToTheShorter(Evidence):
    def fit(self, X, y):
        return Evidence.fit(self, X[:len(y)], y)


@breaks("degenerate")
class DividesByZero(Evidence):
    def scaling(self, values):
        return values.mean(0), values.std(0)

    def padded(self, X):
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.nan_to_num(Evidence.padded(self, X))


@breaks("degenerate")
class LosesARow(Evidence):
    """A split that holds out a row, from one row: an index that is not there."""
    def fit(self, X, y):
        if len(y) == 1:
            y[len(y)]
        return Evidence.fit(self, X, y)


@breaks("density_integral")
class DensityOfTheStandardised(Evidence):
    def predict_density(self, X, y, log=False):
        found = Evidence.predict_density(self, X, y, True) + np.log(self.unit)
        return found if log else np.exp(found)


@breaks("density_integral")
class NoConstant(Evidence):
    def predict_density(self, X, y, log=False):
        found = Evidence.predict_density(self, X, y, True) + 0.5 * np.log(2 * np.pi)
        return found if log else np.exp(found)


@breaks("density_moments")
class WidthInStandardUnits(Evidence):
    def predict(self, X, return_std=False):
        mean, std = self.forecast(X)
        return (mean, std / self.unit) if return_std else mean


@breaks("density_moments")
class MeanWithoutLevel(Evidence):
    def predict(self, X, return_std=False):
        mean, std = self.forecast(X)
        return (mean - self.level, std) if return_std else mean - self.level


@breaks("density_log")
class LogOfTen(Evidence):
    def predict_density(self, X, y, log=False):
        found = Evidence.predict_density(self, X, y, log)
        return found / np.log(10) if log else found


@breaks("quantiles_rise")
class UpperForLower(Evidence):
    def predict_quantiles(self, X, levels):
        return Evidence.predict_quantiles(self, X, 1 - np.asarray(levels))


@breaks("quantiles_rise")
class QuantilesCross(Evidence):
    """One regression for each level."""
    def predict_quantiles(self, X, levels):
        return Evidence.predict_quantiles(self, X, levels) + 2 * np.sin(7 * X[:, :1] * np.arange(len(levels)))


@breaks("quantiles_of_density")
class QuantilesOfTheMean(Evidence):
    def predict_quantiles(self, X, levels):
        P = self.padded(X)
        std = self.unit * np.sqrt(np.einsum("nd,de,ne->n", P, self.S, P))
        return self.forecast(X)[0][:, None] + std[:, None] * ndtri(levels)


@breaks("quantiles_of_density")
class PercentForShare(Evidence):
    """Levels of the two-sided interval for one-sided ones."""
    def predict_quantiles(self, X, levels):
        return Evidence.predict_quantiles(self, X, 0.5 + 0.5 * (np.asarray(levels) - 0.5))


@breaks("quantiles_of_moments")
class QuantilesOfAnotherUnit(Evidence):
    def predict_quantiles(self, X, levels):
        return (Evidence.predict_quantiles(self, X, levels) - self.level) / self.unit


@breaks("cdf")
class SurvivalForCdf(Evidence):
    def predict_cdf(self, X, y):
        return 1 - Evidence.predict_cdf(self, X, y)


@breaks("cdf")
class CdfOfVariance(Evidence):
    def predict_cdf(self, X, y):
        mean, std = self.forecast(X)
        return ndtr((y - mean) / std**2)


@breaks("trace")
class StaleTrace(Evidence):
    def solve(self, *data):
        Evidence.solve(self, *data)
        self.trace_[3] -= 10.0


@breaks("iterations")
class Wanders(Evidence):
    def solve(self, *data):
        Evidence.solve(self, *data)
        self.elbo_ -= 5.0 * self.max_iter


@breaks("row_order", promises=["row_order"])
class FirstRowsCountMore(Evidence):
    def solve(self, P, t):
        weight = np.linspace(1.2, 0.8, len(t))
        Evidence.solve(self, P * weight[:, None], t * weight)


@breaks("units", promises=["units"])
class RawColumns(Evidence):
    def scaling(self, values):
        return Evidence.scaling(self, values) if values.ndim == 1 else (0.0, 1.0)


@breaks("column_order", promises=["column_order"])
class FirstColumnShrinksLess(Evidence):
    def padded(self, X):
        return Evidence.padded(self, X) * np.append(np.arange(self.width, 0, -1), 1)


@breaks("y_units", promises=["y_units"])
class AbsolutePrior(Evidence):
    def scaling(self, values):
        return Evidence.scaling(self, values) if values.ndim == 2 else (values.mean(), 1.0)


@breaks("balance", promises=["calibration"])
class LeansUp(Evidence):
    def forecast(self, X):
        mean, std = Evidence.forecast(self, X)
        return mean + std, std


@breaks("calibration", "warned", promises=["calibration"])
class TooSure(NoNoise):
    pass


# ---- those that give less

class WidthOnly:
    """predict(X, return_std=True), as many libraries have it."""
    def __init__(self, max_iter=40):
        self.inner = Evidence(max_iter)

    def fit(self, X, y):
        self.inner.fit(X, y)
        return self

    def predict(self, X, return_std=False):
        return self.inner.predict(X, return_std)


class QuantilesOnly(WidthOnly):
    predict = None

    def quantiles(self, X, levels):
        return self.inner.predict_quantiles(X, levels)


class LogDensityOnly(WidthOnly):
    predict = None

    def log_density(self, X, y):
        return self.inner.predict_density(X, y, log=True)


class PointOnly(WidthOnly):
    def predict(self, X):
        return self.inner.predict(X)
