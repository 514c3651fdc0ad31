"""What classifier and regressor share: how they are fitted, asked, copied and kept on disk."""

import copy
import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sparsegp.errors import Interrupted, StoreError
from sparsegp.estimator.parameters import n_threads, parameters_of, settings_of
from sparsegp.estimator.rows import (
    chunked_as,
    computed,
    computing,
    is_lazy,
    rows_to_predict,
    training_data,
)
from sparsegp.estimator.stored import Stored, read, write
from sparsegp.execution import Runtime
from sparsegp.execution.threads import ThreadRuntime
from sparsegp.model import DenseModel, Model
from sparsegp.report import Progress
from sparsegp.settings import DenseSettings, TrainSettings
from sparsegp.training import train
from sparsegp.types import Labels


class GPEstimator(BaseEstimator):  # type: ignore[misc] # no types there
    """A trained model behind `fit`; a subclass names the parameters, and predicts.

    Its parameters are fields of its settings, of which it may leave out those that mean nothing to
    it, and `n_jobs`, `client`, `checkpoint_dir`, `resume` and `verbose`.
    """

    _task: ClassVar[str]
    """A task of `settings_given`."""
    _settings_type: ClassVar[type[TrainSettings] | type[DenseSettings]] = TrainSettings

    n_jobs: int | None
    client: Any
    checkpoint_dir: str | os.PathLike[str] | None
    resume: bool
    verbose: int

    @property
    def client_(self) -> Any:
        """The dask client that the fit used; None if it ran in threads or in another process.

        Raises
        ------
        NotFittedError
        """
        check_is_fitted(self)
        return getattr(self, "_client", None)

    # -- fit ---------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to training data.

        Parameters
        ----------
        X : array-like, data frame, dask array or dask data frame (n, p)
            Real numbers. Chunks of a dask collection whose sizes are unknown are counted first.
        y : array-like (n,)
            Labels of any kind for a classifier, real numbers for a regressor; a dask collection of
            labels is computed.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If the data cannot be learnt from, or a parameter is out of range.
        KeyboardInterrupt
            On SIGTERM or Ctrl-C, after a checkpoint was written if there is a `checkpoint_dir`.
        """
        self._client = self._find_client(X)
        with computing(X, self.client):
            X, y = training_data(self, X, y, numeric=self._task == "regression")
            classes = self._find_classes(y)
            settings = self._settings(X.shape[0], len(classes))
            model = self._train(X, y, settings)
        return self._take(model, classes)

    def _find_classes(self, y: Labels) -> Labels:
        """Return the classes among checked labels, sorted; none in a regression."""
        return np.empty(0)

    def _settings(self, n: int, n_classes: int) -> TrainSettings | DenseSettings:
        """Return the settings of a fit to n rows."""
        return settings_of(self, self._task, n, n_classes)

    def _train(self, X: Any, y: Labels, settings: TrainSettings | DenseSettings) -> Model:
        with ExitStack() as stack:
            try:
                return train(
                    X,
                    y,
                    out=self.checkpoint_dir,
                    resume=self.resume,
                    runtime=stack.enter_context(self._runtime()),
                    progress=stack.enter_context(Progress()) if self.verbose > 0 else None,
                    **settings.to_json(),
                )
            except Interrupted as stop:  # no failed fit, which a search would count and go on
                kept = self.checkpoint_dir is not None
                raise KeyboardInterrupt(
                    f"the fit was stopped; go on from {self.checkpoint_dir} with resume=True"
                    if kept
                    else "the fit was stopped; without a checkpoint_dir nothing was kept"
                ) from stop

    def _find_client(self, X: Any) -> Any:
        if self.client is not None or not is_lazy(X):
            return self.client
        from sparsegp.execution.clusters import client_in_use  # noqa: PLC0415 - loads distributed

        return client_in_use()

    def _runtime(self) -> Runtime:
        if self._client is None:
            return ThreadRuntime(n_threads(self.n_jobs))
        from sparsegp.execution.dask import DaskRuntime  # noqa: PLC0415 - loads distributed

        return DaskRuntime(self._client)

    def _take(self, model: Model, classes: Labels) -> Self:
        """Keep what was fitted."""
        kernels = [str(kernel) for kernel in model.kernels]
        per_class = bool(model.settings["kernel_per_class"])
        self.model_ = model
        self.active_indices_ = model.rows
        self.kernel_ = kernels if per_class else kernels[0]
        self.history_ = [dict(record) for record in model.history]
        return self

    # -- predictions -------------------------------------------------------------------------------

    def _predicted(self, method: Callable[[Model, Any], Any], X: Any) -> Any:
        """Return what a method of the model predicts, one array or several."""
        check_is_fitted(self)
        with computing(X, self.client):
            rows = rows_to_predict(self, X)
        return chunked_as(rows, method(self.model_, rows))

    def _scored(self, metric: Callable[..., float], X: Any, y: Any, sample_weight: Any) -> float:
        """Return a metric of labels and predictions."""
        with computing(X, self.client):
            predicted, y = computed(self.predict(X)), computed(y)
        return float(metric(y, predicted, sample_weight=sample_weight))

    # -- copies ------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to a directory, without pickles and without training data.

        `sparsegp.load` and the command line read it as a model. A directory that was saved before
        is replaced.

        Parameters
        ----------
        path : path or URL

        Raises
        ------
        NotFittedError
        StoreError
            If it cannot be written.
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        names = None if names is None else list(names)
        classes = getattr(self, "classes_", np.empty(0))
        write(path, Stored(self.model_, parameters_of(self), classes, names))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an estimator from a directory or a store.

        Parameters
        ----------
        path : path or URL
            What `save` wrote, or a model or run directory of `sparsegp.train` or the command line.

        Returns
        -------
        estimator
            Fitted. Where it computes and where it keeps checkpoints (`n_jobs`, `client`,
            `checkpoint_dir`, `resume`, `verbose`) are the defaults.

        Raises
        ------
        StoreError
            If there is none, or it was altered, or a newer version wrote it, or it is a regression
            where this is a classifier, or the other way round.
        """
        stored = read(path)
        task = "regression" if stored.model.is_regression else "classification"
        if task != cls._task:
            raise StoreError(
                f"{cls.__name__} is for {cls._task}, but {os.fspath(path)} holds a {task}; load it "
                "by the other estimator, or by sparsegp.load"
            )
        dense = isinstance(stored.model, DenseModel)
        if dense != issubclass(cls._settings_type, DenseSettings):
            other = "a dense method" if dense else "the informative vector machine"
            raise StoreError(
                f"{os.fspath(path)} holds a model of {other}, which {cls.__name__} is not for; "
                "load it by the other estimator, or by sparsegp.load"
            )
        names = set(cls._get_param_names())
        estimator = cls(**{name: stored.parameters[name] for name in names & {*stored.parameters}})
        estimator.n_features_in_ = stored.model.n_features
        if stored.feature_names is not None:
            estimator.feature_names_in_ = np.array(stored.feature_names, dtype=object)
        return estimator._take(stored.model, stored.classes)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "client": None, "_client": None}

    def __sklearn_clone__(self) -> Self:
        bare = copy.copy(self)  # without the client, which cannot be copied
        cloned: Self = super(GPEstimator, bare).__sklearn_clone__()
        return cloned.set_params(client=self.client)  # type: ignore[no-any-return]
