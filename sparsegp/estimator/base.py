"""Base class of the estimators: fits, predictions, copies and files."""

import copy
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted

import sparsegp.estimator.parameters as params
import sparsegp.estimator.rows as inputs
from sparsegp.data import as_table, encode, encode_with
from sparsegp.data.labels import ROWS_PER_CLASS
from sparsegp.errors import Interrupted, SettingsError, StoreError
from sparsegp.fields import setting
from sparsegp.fit.api import fit
from sparsegp.fit.prepare import columns_of
from sparsegp.fit.run import RunOptions
from sparsegp.kernels import brief
from sparsegp.likelihoods import Gaussian
from sparsegp.model import DenseModel, Model, read_model
from sparsegp.settings import DenseSettings, Settings, TrainSettings, settings_given
from sparsegp.store import read_errors
from sparsegp.types import Doubles, Labels


@dataclass(kw_only=True, eq=False, repr=False)
class GPEstimator(BaseEstimator):  # type: ignore[misc] # no types there
    """Base of all estimators; subclasses are dataclasses of their parameters, and predict.

    Parameters that are settings have the names and descriptions of the settings.
    """

    scaling: str = Settings.scaling
    random_state: Any = setting(
        0,
        "Random seed. Fits are reproducible unless it is None or an instance.",
        kind="int, RandomState instance or None",
    )
    n_jobs: int | None = setting(
        None,
        "Number of threads of a fit that does not run on a cluster. They replace BLAS threads, so "
        "None means ``OMP_NUM_THREADS``, or all usable processors if that is not set; in a search "
        "run by joblib processes this is their share. As elsewhere in scikit-learn, -1 means all "
        "usable processors and -2 all but one. Results do not depend on it.",
        kind="int",
    )
    client: Any = setting(
        None,
        "Dask client whose workers run the fit. None means the current client for dask "
        "collections, and threads of this process for other data. Clones share it, pickles omit "
        "it.",
        kind="distributed.Client",
    )
    checkpoint_dir: str | os.PathLike[str] | None = setting(
        None,
        "Directory for checkpoints and the model. Each fit needs its own, so omit it in searches "
        "and cross-validation.",
        kind="path",
    )
    resume: bool = setting(
        False,
        "Continue the run in `checkpoint_dir`, if any; data and settings must be the same.",
        kind="bool",
    )
    verbose: int = setting(
        0, "Show progress on standard error, or in the notebook, if greater than 0.", kind="int"
    )

    _task: ClassVar[str]
    """Task of the settings: "classification" or "regression"."""
    _settings_type: ClassVar[type[TrainSettings] | type[DenseSettings]] = TrainSettings
    _fixed: ClassVar[Mapping[str, Any]] = {}
    """Settings with fixed values, which are not parameters."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the model to training data.

        Parameters
        ----------
        X : array-like, data frame, scipy sparse matrix, dask array or dask data frame (n, p)
            Real numbers; columns of a data frame may also hold missing values, booleans, categories
            and dates, see `sparsegp.data.table_from_frame`. Dask chunks of unknown size are counted
            first.
        y : array-like (n,)
            Labels of any kind for a classifier, real numbers for a regressor; a dask collection of
            labels is computed.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If the data are unusable, or a parameter is out of range.
        KeyboardInterrupt
            On SIGTERM, SIGHUP or Ctrl-C, after writing a checkpoint if there is a `checkpoint_dir`.
        """
        return self._fit(X, y)

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        known: Labels | None = None,
        again: bool = False,
        is_part: bool = False,
        groups: Any = None,
    ) -> Self:
        """Fit to training data; a fit `again` does not use the directory of checkpoints.

        All classes are `known`, sorted, or by default those of the rows. If these are only a part
        (`is_part`) of the rows to come, columns may have one value, or too many different ones.
        """
        (client, runtime), seen = self._place(X), copy.copy(self)  # a failed fit changes nothing
        with inputs.dask_context(X, self.client):
            X, y = inputs.training_data(seen, X, y)
            table = replace(as_table(X, y, sample_weight), is_part=is_part)
            if groups is not None:
                table = replace(table, beside={"": inputs.group_numbers(groups, len(y))})
            labels = y[table.counts > 0.0]
            if known is not None:
                labels = np.tile(known, ROWS_PER_CLASS)  # else these may be too many for classes
                table = replace(table, classes=encode(labels, "classes")[0])
            classes = self._find_classes(labels)
            settings = self._settings(table.most_rows, len(classes))
            kept: Any = {} if again else {"out": self.checkpoint_dir, "resume": self.resume}
            verbose = params.is_verbose(self.verbose)
            run = RunOptions(runtime=runtime, verbose=verbose, **kept)
            with self._in_own_words():
                model, _ = fit(table, None, settings, run)
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
            if hasattr(seen, name):
                setattr(self, name, getattr(seen, name))
        return self._set_fitted(model, classes, client)

    def _find_classes(self, y: Labels) -> Labels:
        """Return the sorted classes of validated labels; none in a regression."""
        return np.empty(0)

    def _settings(self, n: int, n_classes: int) -> TrainSettings | DenseSettings:
        """Return the settings of a fit to n rows, which limit the number of active rows."""
        named = {**self._fixed, **params.named_settings(self)}
        settings = self._settings_type.given(task=self._task, **named)
        return settings if isinstance(settings, DenseSettings) else settings.for_rows(n)

    @contextmanager
    def _in_own_words(self) -> Iterator[None]:
        """Raise a KeyboardInterrupt, as for Ctrl-C elsewhere, if the run was asked to stop.

        Errors about a former run name the parameters of an estimator, and those about the number of
        classes say what scikit-learn expects.
        """
        try:
            yield
        except (SettingsError, StoreError) as error:
            words = str(error).replace("with `overwrite=True` or in another", "in another")
            words = words.replace("another `out`", "another `checkpoint_dir`")
            if "exactly 2 classes" in words:
                words = f"Only binary classification is supported: {words}"
            if words == str(error):
                raise
            raise type(error)(words) from None
        except Interrupted as stop:  # not an error, after which a grid search would continue
            kept = "without a checkpoint_dir nothing was kept"
            if self.checkpoint_dir is not None:
                kept = f"continue from {self.checkpoint_dir} with resume=True"
            raise KeyboardInterrupt(f"the fit was stopped; {kept}") from stop

    def _place(self, X: Any) -> tuple[Any, Any]:
        """Return the client that runs a fit to X, if any, and the runtime."""
        client = self.client
        if client is None and inputs.is_lazy(X):
            from sparsegp.runtime.clusters import client_in_use  # noqa: PLC0415 - loads distributed

            client = client_in_use()
        return client, f"threads={params.n_threads(self.n_jobs)}" if client is None else client

    def _set_fitted(self, model: Model, classes: Labels, client: Any = None) -> Self:
        kernels = [*map(columns_of(model).text, model.kernels)]
        self.model_, self.client_ = model, client
        self.active_indices_, self.n_active_ = model.rows, len(model.rows)
        self.scaling_ = model.scaling.name
        self.kernel_ = kernels if model.settings["kernel_per_class"] else kernels[0]
        self.history_ = [dict(record) for record in model.history]
        if model.numbers is None:
            known, _ = encode_with(model.classes, classes)
            self.classes_ = classes[known >= 0]  # without those whose rows all have weight 0
        else:
            assert isinstance(model.likelihood, Gaussian)  # the only likelihood of regressions
            self.noise_variance_ = model.likelihood.noise_variance * model.numbers.scale**2
        return self

    @property
    def feature_relevances_(self) -> Doubles:
        """Relevance of each column, (p,); they sum to 1. See `Model.input_relevances`."""
        check_is_fitted(self)
        found: Doubles | None = self.model_.input_relevances
        if found is None:
            raise AttributeError(
                "feature_relevances_ needs a kernel with a length scale for every column, such as "
                f"'10*ard', or a metric, got {brief(str(self.model_.kernels[0]))!r}"
            )
        return found

    def _predicted(self, method: Callable[[Model, Any], Any], X: Any) -> Any:
        """Return what a method of the model predicts: arrays, lazy ones for dask collections."""
        check_is_fitted(self)
        with inputs.dask_context(X, self.client):
            X = inputs.rows_to_predict(self, X)
        return method(self.model_, X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of the predictions; for regression R^2.

        Parameters
        ----------
        X : array-like, data frame, dask array or dask data frame (n, p)
        y : array-like (n,)
            True labels; dask collections are computed.
        sample_weight : array-like (n,), optional
            Weights of the rows.
        """
        inputs.refuse_masks(y, sample_weight)
        with inputs.dask_context(X, self.client):
            predicted, y = map(inputs.to_memory, (self.predict(X), y))
        metric = r2_score if self._task == "regression" else accuracy_score
        return float(metric(y, predicted, sample_weight=sample_weight))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to one file, without pickles; it contains the active rows.

        `sparsegp.load` and the command line read it as a model. An earlier save is replaced.

        Parameters
        ----------
        path : path or URL
            The file; or an existing folder, in which `model.zarr.zip` is written.

        Raises
        ------
        NotFittedError
        StoreError
            If it cannot be written.
        """
        check_is_fitted(self)
        labels = getattr(self, "classes_", np.empty(0)).dtype
        names = getattr(self, "feature_names_in_", None)
        extra = {
            "parameters": params.parameters_of(self),
            "labels": labels.str if labels.kind in "biufU" else "O",
            "feature_names": None if names is None else list(names),
        }
        self.model_.save(path, extra)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an estimator from a file or folder, on a disk or in an object store.

        Parameters
        ----------
        path : path or URL
            Path given to `save`, or a model or run folder of `sparsegp.train` or the command line.

        Returns
        -------
        estimator
            Fitted. Parameters that do not affect results (`n_jobs`, `client`, `checkpoint_dir`,
            `resume`, `verbose`) have their defaults.

        Raises
        ------
        StoreError
            If there is none, it was altered, it was written by an incompatible version, or its task
            or method is not that of this estimator.
        """
        (model, extra), source = read_model(path), os.fspath(path)
        task = "regression" if model.is_regression else "classification"
        dense = isinstance(model, DenseModel)
        if (task, dense) != (cls._task, issubclass(cls._settings_type, DenseSettings)):
            method = "a dense method" if dense else "the informative vector machine"
            raise StoreError(
                f"{source} holds a {task} by {method}, which {cls.__name__} is not for; load it by "
                "another estimator, or by sparsegp.load"
            )
        with read_errors(source):
            columns = (model.names if model.encoding is None else model.encoding.all) or ()
            if extra is None:  # written by `sparsegp.train` or the command line
                are_numbers = all(name.isdecimal() for name in columns)
                extra = {
                    "parameters": params.parameters_from(settings_given(**model.settings), cls),
                    "labels": model.classes.dtype.str,
                    "feature_names": None if are_numbers else columns,
                }
            kept = params.result_parameters(cls)
            estimator = cls(**{k: v for k, v in extra["parameters"].items() if k in kept})
            if (names := extra["feature_names"]) is not None:
                estimator.feature_names_in_ = np.array(names, dtype=object)
            classes = model.classes.astype(np.dtype(extra["labels"]))
        estimator.n_features_in_ = len(columns) or model.n_features
        return estimator._set_fitted(model, classes)

    def __getstate__(self) -> dict[str, Any]:
        fitted = {"client_": None} if hasattr(self, "client_") else {}
        return {**super().__getstate__(), "client": None, **fitted}

    def __sklearn_clone__(self) -> Self:
        bare = copy.copy(self)  # without the client, which cannot be copied
        cloned: Self = super(GPEstimator, bare).__sklearn_clone__()
        return cloned.set_params(client=self.client)  # type: ignore[no-any-return]
