"""What a fitted estimator says of rows: probabilities of classes, or a forecast of a number.  The names that level B looks for stand here."""

import inspect

import numpy as np

from cmn_conformance.values import decode

LOG_DENSITIES = ("predict_log_density", "log_density", "predict_logpdf", "logpdf")
DENSITIES = ("predict_density", "density", "predict_pdf", "pdf")
QUANTILES = ("predict_quantiles", "predict_quantile", "quantiles", "quantile")
CDFS = ("predict_cdf", "cdf")


def method(made, names):
    """The first of the methods that is there, or None."""
    return next((getattr(made, name) for name in names if callable(getattr(made, name, None))), None)


def takes(function, name):
    """Whether a function has an argument of this name."""
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


class Probabilities:
    """A classifier."""
    kind = "classifier"
    missing = "fit and predict_proba"

    @staticmethod
    def absent(made):
        return [name for name in ("fit", "predict_proba") if not callable(getattr(made, name, None))]

    @staticmethod
    def gives(made):
        return ["proba"]

    @staticmethod
    def target(y):
        return np.array(y)

    @staticmethod
    def table(made, X, ask):
        """{"proba": (n, classes)}"""
        return {"proba": np.asarray(made.predict_proba(X))}


class Forecast:
    """A regressor that says how sure it is."""
    kind = "regressor"
    missing = "fit and predict(X, return_std=True), a density or quantiles"

    @staticmethod
    def absent(made):
        if not callable(getattr(made, "fit", None)):
            return ["fit"]
        return [] if set(Forecast.gives(made)) - {"mean"} else ["predict(X, return_std=True), density and quantiles"]

    @staticmethod
    def gives(made):
        """What it can be asked: of mean, std, density, log_density, cdf, quantiles."""
        predict, out = getattr(made, "predict", None), []
        if callable(predict):
            last = made.steps[-1][1] if isinstance(getattr(made, "steps", None), list) else made
            out += ["mean"] + ["std"] * takes(getattr(last, "predict", predict), "return_std")
        density = method(made, DENSITIES)
        out += ["density"] * (density is not None) + ["log_density"] * (takes(density, "log") or method(made, LOG_DENSITIES) is not None)
        out += ["cdf"] * (method(made, CDFS) is not None)
        return out + ["quantiles"] * (method(made, QUANTILES) is not None or callable(predict) and takes(predict, "quantiles"))

    @staticmethod
    def target(y):
        return decode(y).astype(float)

    @staticmethod
    def log_density(made):
        """A function of X and y."""
        found = method(made, LOG_DENSITIES)
        density = method(made, DENSITIES)
        return found if found is not None else lambda X, y: density(X, y, log=True)

    @staticmethod
    def table(made, X, ask):
        """Mean and std (n,), quantiles (n, levels), and density, log_density, cdf (n, values): at each of ask["at"], or (n,) at ask["truth"]."""
        can, out = Forecast.gives(made), {}
        if "std" in can:
            out["mean"], out["std"] = (np.asarray(part) for part in made.predict(X, return_std=True))
        elif "mean" in can:
            out["mean"] = np.asarray(made.predict(X))
        if "quantiles" in can:
            found = method(made, QUANTILES)
            levels = np.array(ask["levels"])
            out["quantiles"] = np.asarray(found(X, levels) if found is not None else made.predict(X, quantiles=ask["levels"]))
        at = decode(ask["at"]).astype(X.dtype)
        rows, values = np.repeat(X, len(at), axis=0), np.tile(at, len(X))
        for name, function in (("density", method(made, DENSITIES)), ("log_density", Forecast.log_density(made)), ("cdf", method(made, CDFS))):
            if name in can:
                found = np.asarray(function(rows, values))
                out[name] = found.reshape(len(X), len(at)) if found.shape == values.shape else found
                if "truth" in ask:
                    out[f"{name}_of_truth"] = np.asarray(function(X, decode(ask["truth"]).astype(X.dtype)))
        return out


KINDS = {reader.kind: reader for reader in (Probabilities, Forecast)}


def reader_of(made, kind=None):
    """What reads this estimator; TypeError says what it lacks.  A classifier, if it can be either."""
    readers = [KINDS[kind]] if kind else list(KINDS.values())
    for reader in readers:
        if not reader.absent(made):
            return reader
    raise TypeError(f"expected an estimator with {', or '.join(reader.missing for reader in readers)}, got {type(made).__name__} without "
                    + " and ".join(", ".join(reader.absent(made)) for reader in readers))
