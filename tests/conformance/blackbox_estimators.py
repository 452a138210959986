"""Estimators for the tests of level B: a right one, and what goes wrong with it, one bug each."""

import os
import time

import numpy as np
from blackbox_regressors import Evidence


def half_tanh(c):
    return np.where(c > 1e-6, np.tanh(c / 2) / (2 * np.maximum(c, 1e-6)), 0.25)


class Sticks:
    """Stick-breaking logistic regression by mean field (Polya-Gamma), with its bound; columns standardised."""
    cmn_promises = ("row_order", "units", "column_order", "label_names", "prior")
    centre = 0.0                                         # prior mean of the biases
    clip = None

    def __init__(self, sigma=2.0, max_iter=60, classes=None, random_state=None):
        self.sigma, self.max_iter, self.classes, self.random_state = sigma, max_iter, classes, random_state

    def names(self, y):
        return np.unique(y if self.classes is None else self.classes)

    def scaling(self, X):
        spread = X.std(0)
        return X.mean(0), np.where(spread > 0, spread, 1.0)

    def refuse(self, X, width):
        if not np.isfinite(X).all() or X.shape[1] != width:
            raise ValueError(f"X: expected {width} columns of finite numbers, got shape {X.shape}")

    def fit(self, X, y):
        self.refuse(X, X.shape[1])
        self.classes_, self.width = self.names(y), X.shape[1]
        self.mean, self.spread = self.scaling(X)
        P, index = self.padded(X), np.searchsorted(self.classes_, y)
        tossed = index[:, None] >= np.arange(len(self.classes_) - 1)
        self.solve(P, tossed.astype(float), (index[:, None] == np.arange(len(self.classes_) - 1)) - tossed / 2)
        return self

    def start(self, P, b):
        return np.zeros(b.shape)

    def solve(self, P, b, kappa):
        D, prior, self.trace_, xi = P.shape[1], np.zeros(P.shape[1]), [], self.start(P, b)
        prior[-1] = self.centre
        for _ in range(self.max_iter):
            precision = np.einsum("nj,nd,ne->jde", b * half_tanh(xi), P, P) + np.eye(D) / self.sigma**2
            self.S = np.linalg.inv(precision)
            self.m = np.einsum("jde,je->jd", self.S, kappa.T @ P + prior / self.sigma**2)
            xi = np.sqrt(np.einsum("nd,jde,ne->nj", P, self.S + self.m[:, :, None] * self.m[:, None], P))
            gain = (kappa * (P @ self.m.T) - b * np.logaddexp(xi / 2, -xi / 2)).sum()
            away = ((self.m - prior) ** 2).sum() + np.einsum("jdd->", self.S)
            self.kl = (away / self.sigma**2 - self.m.size + 2 * self.m.size * np.log(self.sigma) - np.linalg.slogdet(self.S)[1].sum()) / 2
            self.trace_.append(gain - self.kl)
        self.elbo_ = self.trace_[-1]

    def padded(self, X):
        return np.hstack([(X - self.mean) / self.spread, np.ones((len(X), 1))])

    def predict_proba(self, X):
        self.refuse(X, self.width)
        P = self.padded(X)
        nodes, weights = np.polynomial.hermite_e.hermegauss(30)
        psi = (P @ self.m.T)[..., None] + np.sqrt(np.einsum("nd,jde,ne->nj", P, self.S, P))[..., None] * nodes
        stop = (0.5 * (1 + np.tanh(psi / 2))) @ weights / weights.sum()
        ones = np.ones((len(X), 1))
        return np.hstack([stop, ones]) * np.cumprod(np.hstack([ones, 1 - stop]), 1)


BROKEN = {}


def breaks(check, verdict="failed", promises=(), **params):
    """Register a broken estimator under the check that must catch it."""
    def register(cls):
        cls.cmn_promises = tuple(promises)
        BROKEN[cls.__name__] = (cls, f"LB-{check}", verdict, params)
        return cls
    return register


def changed(change):
    """predict_proba with its result changed."""
    return lambda self, X: change(Sticks.predict_proba(self, X))


@breaks("shape")
class OneColumnForTwo(Sticks):
    predict_proba = changed(lambda p: p[:, 1:] if p.shape[1] == 2 else p)


@breaks("shape")
class ForgetsOneRow(Sticks):
    predict_proba = changed(lambda p: p[0] if len(p) == 1 else p)


@breaks("finite")
class LogOfZero(Sticks):
    predict_proba = changed(lambda p: np.where(p < 0.05, np.nan, p))


@breaks("range")
class Extrapolates(Sticks):
    predict_proba = changed(lambda p: 1 / p.shape[1] + 3 * (p - 1 / p.shape[1]))


@breaks("sum")
class OneVersusRest(Sticks):
    predict_proba = changed(lambda p: p**0.7)


@breaks("classes")
class ClassesAsTheyCome(Sticks):
    def fit(self, X, y):
        Sticks.fit(self, X, y)
        self.classes_ = np.array(list(dict.fromkeys(y.tolist())))
        return self


@breaks("columns")
class ColumnsAsTheyCome(Sticks):
    def fit(self, X, y):
        self.order = np.argsort(np.unique(y, return_index=True)[1])
        return Sticks.fit(self, X, y)

    def predict_proba(self, X):
        return Sticks.predict_proba(self, X)[:, self.order]


@breaks("alone")
class StandardisesQueries(Sticks):
    def predict_proba(self, X):
        return Sticks.predict_proba(self, X - X.mean(0) + self.mean if len(X) > 1 else X)


@breaks("query_order")
class SortsQueries(Sticks):
    def predict_proba(self, X):
        return Sticks.predict_proba(self, X[np.argsort(X[:, 0])])


@breaks("again")
class Learns(Sticks):
    def predict_proba(self, X):
        self.m = 0.9 * self.m
        return Sticks.predict_proba(self, X)


@breaks("seed")
class Unseeded(Sticks):
    def solve(self, *data):
        Sticks.solve(self, *data)
        self.m = self.m + np.random.default_rng().normal(0, 0.01, self.m.shape)


@breaks("data_kept")
class InPlace(Sticks):
    def fit(self, X, y):
        X -= X.mean(0)
        return Sticks.fit(self, X, y)


@breaks("refit")
class WarmStart(Sticks):
    def scaling(self, X):
        return (self.mean, self.spread) if hasattr(self, "mean") else Sticks.scaling(self, X)


@breaks("used")
class Frequencies(Sticks):
    predict_proba = changed(lambda p: np.full(p.shape, 1 / p.shape[1]))


@breaks("used")
class Mirrored(Sticks):
    predict_proba = changed(lambda p: p[:, ::-1])


@breaks("pickled", "warned")
class HoldsALambda(Sticks):
    def solve(self, *data):
        Sticks.solve(self, *data)
        self.link = lambda value: value


@breaks("float32", "warned")
class SixteenBits(Sticks):
    def padded(self, X):
        return Sticks.padded(self, np.round(X) if X.dtype == np.float32 else X)


@breaks("lengths", "warned")
class CutsToTheShorter(Sticks):
    def fit(self, X, y):
        return Sticks.fit(self, X[:len(y)], y)


@breaks("column_order", promises=["column_order"])
class FirstColumnShrinksLess(Sticks):
    def padded(self, X):
        return Sticks.padded(self, X) * np.append(np.arange(self.width, 0, -1), 1)


@breaks("eight_classes")
class SixtyFourRows(Sticks):
    def fit(self, X, y):
        self.classes = np.unique(y)
        return Sticks.fit(self, X[:64], y[:64])


@breaks("eight_classes")
class SixClasses(Sticks):
    def fit(self, X, y):
        return Sticks.fit(self, X, np.minimum(y, 5))


@breaks("large_inputs")
class SquaresInSixteenBits(Sticks):
    def predict_proba(self, X):
        with np.errstate(over="ignore", invalid="ignore"):
            norm = (X.astype(np.float16) ** 2).sum(1, keepdims=True).astype(float)
            return Sticks.predict_proba(self, X) * (norm + 1) / (norm + 1)


@breaks("far_query")
class ExpOverflows(Sticks):
    def predict_proba(self, X):
        with np.errstate(over="ignore", invalid="ignore"):
            e = np.exp(self.padded(X) @ self.m.T)
            e = np.hstack([e, np.ones((len(X), 1))])
            return e / e.sum(1, keepdims=True)


@breaks("nan", "warned")
class TakesNaN(Sticks):
    def refuse(self, X, width):
        X[np.isnan(X)] = 0.0


@breaks("widths", "warned")
class TakesAnyWidth(Sticks):
    def padded(self, X):
        return Sticks.padded(self, X[:, :self.width])

    def refuse(self, X, width):
        Sticks.refuse(self, X[:, :width], width)


@breaks("row_order", promises=["row_order"])
class FirstRowsCountMore(Sticks):
    def solve(self, P, b, kappa):
        weight = np.linspace(1.5, 0.5, len(P))[:, None]
        Sticks.solve(self, P, weight * b, weight * kappa)


@breaks("units", promises=["units"])
class RawColumns(Sticks):
    def scaling(self, X):
        return 0.0, 1.0


@breaks("label_names", promises=["label_names"])
class SortsNamesAsText(Sticks):
    def fit(self, X, y):
        return Sticks.fit(self, X, y.astype(str))


@breaks("class_order", promises=["class_order"])
class SticksHaveAnOrder(Sticks):
    pass


@breaks("bound_sign")
class LossForBound(Sticks):
    def solve(self, *data):
        Sticks.solve(self, *data)
        self.elbo_ = -self.elbo_


@breaks("labelings")
class MeanBound(Sticks):
    def solve(self, P, b, kappa):
        Sticks.solve(self, P, b, kappa)
        self.elbo_ /= len(P)


@breaks("labelings")
class NoDivergence(Sticks):
    def solve(self, *data):
        Sticks.solve(self, *data)
        self.elbo_ += self.kl


@breaks("one_row_sum", sigma=0.1)
class ForgetsLnTwo(Sticks):
    def solve(self, P, b, kappa):
        Sticks.solve(self, P, b, kappa)
        self.elbo_ += np.log(2) * b.sum()


@breaks("one_row", promises=["prior"], sigma=0.3)
class PriorOffCentre(Sticks):
    centre = 2.0


@breaks("one_row", promises=["prior=uniform"], sigma=0.1)
class SticksAreNotUniform(Sticks):
    pass


@breaks("trace")
class StaleTrace(Sticks):
    def solve(self, *data):
        Sticks.solve(self, *data)
        self.trace_[3] -= 1.0


@breaks("iterations")
class Wanders(Sticks):
    def solve(self, *data):
        Sticks.solve(self, *data)
        self.elbo_ -= 0.1 * self.max_iter


@breaks("score_of_bound")
class Tempered(Sticks):
    predict_proba = changed(lambda p: p**0.01 / (p**0.01).sum(1, keepdims=True))

    def solve(self, *data):
        Sticks.solve(self, *data)
        self.elbo_ += self.kl


@breaks("doubled", "warned")
class BoundPerRow(MeanBound):
    pass


@breaks("balance", promises=["calibration"])
class LeansToTheFirst(Sticks):
    predict_proba = changed(lambda p: p**np.array([0.3] + [1.5] * (p.shape[1] - 1)) / (p**np.array([0.3] + [1.5] * (p.shape[1] - 1))).sum(1, keepdims=True))


@breaks("surer_than_memory", promises=["calibration"])
class SurelyMirrored(Sticks):
    predict_proba = changed(lambda p: p[:, ::-1] ** 8 / (p**8).sum(1, keepdims=True))


@breaks("calibration", "warned", promises=["calibration"])
class TooSure(Sticks):
    predict_proba = changed(lambda p: p**8 / (p**8).sum(1, keepdims=True))


# ---- misbehaviour


class Crashes(Sticks):
    def fit(self, X, y):
        if len(y) == 160:
            os._exit(7)
        return Sticks.fit(self, X, y)


class Hangs(Sticks):
    def fit(self, X, y):
        while len(y) == 160:
            time.sleep(0.1)
        return Sticks.fit(self, X, y)


class Chatty(Sticks):
    def fit(self, X, y):
        print("fitting ...")
        return Sticks.fit(self, X, y)


class Both(Sticks):
    """Classifier and regressor, as a model that goes by the dtype of y."""
    def fit(self, X, y):
        if y.dtype == float:
            self.inner = Evidence().fit(X, y)
            return self
        return Sticks.fit(self, X, y)

    def predict(self, X, return_std=False):
        return self.inner.predict(X, return_std)

    def predict_density(self, X, y):
        return self.inner.predict_density(X, y)


def noisy_process():
    """A Gaussian process whose kernel has noise in it."""
    from sklearn.gaussian_process import GaussianProcessRegressor, kernels
    return GaussianProcessRegressor(kernels.ConstantKernel(10.0) * kernels.RBF(2.0) + kernels.WhiteKernel(0.3), normalize_y=True)


class NoProbabilities:
    def fit(self, X, y):
        return self


def made(sigma=1.0):
    """A factory."""
    return Sticks(sigma)
