"""What scikit-learn asks of an estimator besides fitting and predicting: options by name, a check of the data, a file."""

from dataclasses import asdict, fields, is_dataclass, replace

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from cmn_literate.inputs import PAPER, check_columns
from cmn_literate.storage import load_model, save_model


class Options(BaseEstimator):
    """An estimator whose option `priors` is a frozen dataclass, its fields options too."""

    @classmethod
    def paper(cls, **options):
        """The paper's model and settings, whatever is usual here; options replace some of them.   -> an estimator, not fitted"""
        return cls(**{**PAPER, **options})

    def get_params(self, deep=True):
        """Options by name; with deep those of the priors too, as priors__sigma0."""
        params = super().get_params(deep=False)
        nested = asdict(self.priors) if deep and is_dataclass(self.priors) else {}
        return params | {f"priors__{name}": value for name, value in nested.items()}

    def set_params(self, **params):
        """Change options by name, e.g. n_experts=3, priors__sigma0=2.0.   -> self"""
        nested = {name.removeprefix("priors__"): params.pop(name) for name in list(params) if name.startswith("priors__")}
        super().set_params(**params)
        if nested:
            known = [field.name for field in fields(self.priors)]
            if unknown := sorted(set(nested) - set(known)):
                raise ValueError(f"priors: expected {', '.join(known)}, got {', '.join(unknown)}")
            self.priors = replace(self.priors, **nested)
        return self

    def check_data(self, X, **others):
        """X (and y) as scikit-learn checks them, after check_columns."""
        check_columns(X)
        try:
            return validate_data(self, X, dtype=np.float64, order="C", **others)
        except OverflowError as error:
            raise ValueError(f"X: expected numbers that a float64 can hold, got a larger one ({error})") from None


class Estimator(ClassifierMixin, Options):
    """A classifier with a file of its own."""

    def save(self, path):
        """Write the fitted model to one file (.npz and JSON, no pickle)."""
        check_is_fitted(self)
        save_model(self, path)

    @classmethod
    def load(cls, path):
        """Read a model that save wrote; it predicts the same bits."""
        return load_model(cls, path)


class Regressor(RegressorMixin, Options):
    """A regressor of one or more numbers."""

    def __sklearn_tags__(self):
        """As scikit-learn asks for them: y may have several columns."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
