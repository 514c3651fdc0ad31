"""What classifiers share: labels, and predictions of their probabilities."""

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets

from sparsegp.errors import SettingsError
from sparsegp.estimator.base import GPEstimator
from sparsegp.model import Model
from sparsegp.types import Labels


class Classifier(ClassifierMixin, GPEstimator):  # type: ignore[misc] # no types there
    """A classifier behind `fit` and `predict`; a subclass names the parameters."""

    _task: ClassVar[str] = "classification"

    likelihood: str

    @property
    def _two_classes(self) -> bool:
        """Whether it is for two classes only."""
        return False

    @property
    def _what(self) -> str:
        """What sets the bound on the number of classes."""
        return f"likelihood={self.likelihood}"

    # -- fit ---------------------------------------------------------------------------------------

    def _find_classes(self, y: Labels) -> Labels:
        check_classification_targets(y)
        classes: Labels = np.unique(y)
        if self._two_classes and len(classes) > 2:
            raise SettingsError(
                f"Only binary classification is supported by {self._what}, got {len(classes)} "
                "classes; for more use another one"
            )
        return classes

    def _take(self, model: Model, classes: Labels) -> Self:
        self.classes_ = classes
        return super()._take(model, classes)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = not self._two_classes
        return tags

    # -- predictions -------------------------------------------------------------------------------

    def predict(self, X: Any) -> Any:
        """Return the most probable label of each row.

        Parameters
        ----------
        X : array-like, data frame, dask array or dask data frame (n, p)

        Returns
        -------
        array or lazy dask array (n,)
        """
        return self._predicted(Model.predict, X).astype(self.classes_.dtype)

    def predict_proba(self, X: Any) -> Any:
        """Return the class probabilities of each row.

        Parameters
        ----------
        X : array-like, data frame, dask array or dask data frame (n, p)

        Returns
        -------
        array or lazy dask array (n, K)
            Columns in the order of `classes_`.
        """
        return self._predicted(Model.predict_proba, X)

    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithms of the class probabilities of each row.

        Parameters
        ----------
        X : array-like, data frame, dask array or dask data frame (n, p)

        Returns
        -------
        array or lazy dask array (n, K)
            Columns in the order of `classes_`. Small probabilities are as accurate as large ones.
        """
        return self._predicted(Model.predict_log_proba, X)

    def latent_mean_and_variance(self, X: Any) -> tuple[Any, Any]:
        """Return mean and variance of the latent functions at each row.

        Parameters
        ----------
        X : array-like, data frame, dask array or dask data frame (n, p)

        Returns
        -------
        mean, variance : array or lazy dask array (n, K), or (n, 1)
            Columns in the order of `classes_`, or the one latent value of likelihoods of two
            classes or of classes in an order; as they are before `calibration`.
        """
        mean, variance = self._predicted(Model.latent_mean_and_variance, X)
        return mean, variance

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows whose most probable label is theirs.

        Parameters
        ----------
        X : array-like, data frame, dask array or dask data frame (n, p)
        y : array-like (n,)
            True labels; dask collections are computed.
        sample_weight : array-like (n,), optional
            Weights of the rows in the share.

        Returns
        -------
        float
        """
        return self._scored(accuracy_score, X, y, sample_weight)
