"""Conditional mixture networks fitted by coordinate ascent: the package that the book builds."""

__version__ = "0.2.0"
__all__ = ["CMNClassifier", "__version__"]


def __getattr__(name):
    """Load the estimator on first use: the core needs numpy, scipy and autograd only."""
    if name == "cmn_adapter":                            # asked by the conformance kit
        from cmn_literate.conformance import cmn_adapter
        return cmn_adapter
    if name != "CMNClassifier":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from cmn_literate.use.classifier import CMNClassifier
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "sklearn":
            raise
        raise ImportError("CMNClassifier needs scikit-learn, the extra 'fit': pip install 'cmn_literate[fit]'") from error
    return CMNClassifier
