"""Conditional mixture networks fitted by coordinate ascent: the package that the book builds."""

from importlib import import_module

__version__ = "0.2.0"

# the front door: name -> module that brings it on first use; the core needs numpy, scipy and autograd only
_HOMES = {"CMNClassifier": "use.classifier", "CMNRegressor": "beyond.regressor", "Priors": "network.simulate", "fit": "engineering.fit", "sweep": "network.cavi",
          "elbo": "network.elbo", "predict_proba": "engineering.quadrature", "sample_network": "network.simulate"}
# asked by the conformance kit
_DOORS = {"cmn_adapter": "conformance"}
_EXTRAS = {"sklearn": ("scikit-learn", "fit")}
__all__ = [*_HOMES, "__version__"]


def __getattr__(name):
    home = (_HOMES | _DOORS).get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{home}"), name)
    except ModuleNotFoundError as error:
        missing = (error.name or "").split(".")[0]
        if missing not in _EXTRAS:
            raise
        package, extra = _EXTRAS[missing]
        raise ImportError(f"{name} needs {package}, the extra {extra!r}: pip install 'cmn_literate[{extra}]'") from error


def __dir__():
    return sorted({*globals(), *__all__})
