"""Classifiers for scikit-learn."""

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from sparsegp.dense import parse_method
from sparsegp.errors import DataError, SettingsError, quoted
from sparsegp.estimator.base import GPEstimator
from sparsegp.estimator.parameters import documented_estimator
from sparsegp.estimator.rows import to_memory
from sparsegp.estimator.sparse import SparseEstimator, has_posterior_all
from sparsegp.fields import setting
from sparsegp.likelihoods import LIKELIHOODS
from sparsegp.model import Model
from sparsegp.settings import DenseSettings, TrainSettings
from sparsegp.types import Labels


@dataclass(kw_only=True, eq=False, repr=False)
class Classifier(ClassifierMixin, GPEstimator):  # type: ignore[misc] # no types there
    """Base of the classifiers."""

    likelihood: str | None = None

    _task: ClassVar[str] = "classification"
    score = GPEstimator.score

    @property
    def _likelihoods(self) -> tuple[str, ...]:
        """Names of the likelihoods that the parameters allow."""
        text = TrainSettings.likelihood if self.likelihood is None else str(self.likelihood)
        return (text.partition("(")[0].strip(),)

    @property
    def _two_classes(self) -> bool:
        """Whether only two classes are supported; False for unknown names: `fit` raises."""
        for name in self._likelihoods:
            if name not in LIKELIHOODS:
                return False
            with suppress(SettingsError):
                LIKELIHOODS[name].start(3)
                return False
        return True

    def _find_classes(self, y: Labels) -> Labels:
        classes = _distinct(y)
        check_classification_targets(y)
        return classes

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = not self._two_classes
        return tags

    def predict(self, X: Any) -> Any:
        """Return the most probable label of each row of X (n, p), as an array (n,)."""
        return self._predicted(Model.predict, X).astype(self.classes_.dtype)

    def predict_proba(self, X: Any) -> Any:
        """Return the class probabilities of each row of X (n, p), as an array (n, K).

        Its columns are in the order of `classes_`.
        """
        return self._predicted(Model.predict_proba, X)

    def predict_log_proba(self, X: Any) -> Any:
        """Return the log class probabilities of each row of X (n, p), (n, K).

        They are accurate for small probabilities too.
        """
        return self._predicted(Model.predict_log_proba, X)

    def latent_mean_and_variance(self, X: Any) -> tuple[Any, Any]:
        """Return mean and variance of the latent functions at each row of X (n, p), both (n, K).

        Both are (n, 1) for binary and ordinal likelihoods, which have one latent value. Neither
        includes `calibration`.
        """
        return self._predicted(Model.latent_mean_and_variance, X)  # type: ignore[no-any-return]


@documented_estimator
@dataclass(kw_only=True, eq=False, repr=False)
class SparseGPClassifier(SparseEstimator, Classifier):
    """Sparse Gaussian process classifier: the informative vector machine.

    Active rows (inducing points), chosen greedily, span the latent functions of all classes; if
    there are fewer than `n_active` rows, all are active. NumPy arrays and data frames give NumPy
    arrays; dask arrays and dask data frames are fitted block by block and give lazy dask arrays.
    Duplicate rows with the same label are merged into one weighted row.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sparsegp import SparseGPClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> SparseGPClassifier(n_active=50).fit(X, y).predict(X[:3])
    array([0, 0, 0])
    """

    kernel_per_class: bool | None = None
    metric: str = TrainSettings.metric
    sites: str | None = None
    learn: str = TrainSettings.learn
    hyperprior: str = TrainSettings.hyperprior
    precision: str = TrainSettings.precision
    calibration: str = TrainSettings.calibration
    class_weight: Any = setting(
        None,
        "Class weights: 'balanced', which gives all classes the same total weight, or a mapping "
        "or series from labels to weights, 1 if omitted.",
        kind="str or mapping",
        unset="no weights",
    )

    @available_if(has_posterior_all)  # type: ignore[untyped-decorator] # no types there
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> "SparseGPClassifier":
        """Update the fit, if any, with new rows only; see `sparsegp.update`.

        Available with ``posterior="all"``, the default. The first call chooses kernel and scaling,
        as `fit` does; later calls keep them. The active set grows up to `n_active`; after that, the
        rows that matter least to the posterior are replaced. The first rows are kept, and fitted
        again with those of later calls, until there are 300 different ones, 50 of every class, and
        10 per rare level of a category, but at most 10,000.

        Parameters
        ----------
        X, y
            New rows (n, p) and their labels (n,).
        classes : array-like (K,) or set, optional
            All labels that will ever occur; required by the first call.
        sample_weight : array-like (n,), optional
            As in `fit`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If the rows are unusable, a label is not among the classes, or the classes are missing
            or differ from earlier ones.
        """
        known = getattr(self, "classes_", None)
        given = known if classes is None else _distinct(classes)
        if given is None:
            raise SettingsError("the first call of partial_fit needs all labels: give classes")
        if known is not None and not np.array_equal(given, known):
            raise SettingsError(
                f"classes must be those of the fit before, {known.tolist()}, got "
                f"{given.tolist()}; leave them out"
            )
        return self._fit_in_parts(X, y, sample_weight, given if known is None else known)

    def _settings(self, n: int, n_classes: int) -> TrainSettings | DenseSettings:
        settings = super()._settings(n, n_classes)
        assert isinstance(settings, TrainSettings)
        is_open = self.kernel_per_class is None and settings.sites == "moments"
        if is_open and n_classes > 1 and not self._two_classes:
            several = settings.start_likelihood(n_classes).n_latent(n_classes) > 1
            return replace(settings, kernel_per_class=several)
        return settings


def _distinct(classes: Any) -> Labels:
    """Return the sorted labels given as classes, in the type that those of a fit have."""
    try:
        given = classes if hasattr(classes, "__array__") else [*classes]
        found: Labels = np.unique(to_memory(np.asarray(given)))
    except (DataError, TypeError):
        raise SettingsError(
            "labels must be all numbers or all words, and none missing, got "
            f"{quoted(classes)}; convert them"
        ) from None
    return found


@documented_estimator
@dataclass(kw_only=True, eq=False, repr=False)
class DenseGPClassifier(Classifier):
    """Gaussian process classifier by a dense method, which uses all rows, in O(n^3).

    Suitable for up to a few thousand rows. NumPy arrays and data frames give NumPy arrays; dask
    collections are read into memory, and predictions for them are lazy dask arrays.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sparsegp import DenseGPClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> DenseGPClassifier(method="variational").fit(X, y).predict(X[:3])
    array([0, 0, 0])
    """

    _settings_type = DenseSettings

    method: str = DenseSettings.method
    kernel: Any = DenseSettings.kernel
    kernel_per_class: bool = DenseSettings.kernel_per_class
    likelihood: str = DenseSettings.likelihood
    learn: str = DenseSettings.learn
    steps: int = DenseSettings.steps
    hyperprior: str = DenseSettings.hyperprior
    averaged: bool = DenseSettings.averaged

    @property
    def _likelihoods(self) -> tuple[str, ...]:
        given: Any = self.likelihood
        if given is not None and str(given):
            return super()._likelihoods
        try:
            return parse_method(str(self.method)).likelihoods
        except SettingsError:  # `fit` raises it
            return ("",)
