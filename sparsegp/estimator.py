"""The scikit-learn estimator: `sparsegp.train` and `Model` behind `fit` and `predict`."""

import copy
import os
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from sparsegp.checkpoint import read_bundle, remove_bundle, write_bundle
from sparsegp.errors import Interrupted, SettingsError
from sparsegp.execution import Runtime
from sparsegp.execution.threads import ThreadRuntime, usable_cpus
from sparsegp.model import Model
from sparsegp.report import Progress
from sparsegp.settings import TrainSettings
from sparsegp.training import train
from sparsegp.types import Labels

KIND, VERSION = "sparsegp-estimator", 1
PARAMETER = {"seed": "random_state"}
"""Settings that are called otherwise in scikit-learn."""


class SparseGPClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc] # no types there
    """Sparse Gaussian process classifier: the informative vector machine, multinomial probit.

    A greedy selection chooses the active rows, which span the latent functions of all classes.
    NumPy arrays and data frames give NumPy arrays; dask arrays and dask data frames are fitted
    block by block and give lazy dask arrays.

    There is no `sample_weight`: a weight of 2 would have to give what a repeated row gives, and a
    selection of rows does not, as a row and its copy compete for a place among the active rows.

    Parameters
    ----------
    n_active : int, optional
        Rows to include; all there are where they are fewer (rows kept aside for `calibration` do
        not count). None is 1000, or all rows if they are fewer.
    kernel : str or Kernel
        A length scale left out is chosen from the data.
    kernel_per_class : bool
        One kernel for every class. The text may then name one kernel a class, separated by
        semicolons, in the order of `classes_`.
    criterion : str
        By which rows are selected; a name in `sparsegp.selection.criteria.CRITERIA`.
    posterior : str
        Posterior over the span of the active rows; a name in `sparsegp.posterior.POSTERIORS`.
    scaling : str
        Of the inputs: "auto", "standard", "range" or "none".
    precision : str
        Of inputs and stub matrices: "float32" or "float64".
    panel : int, optional
        Rows included between two scorings; 1 is the order of the paper. None is a number that suits
        the posterior.
    lookahead : int
        In the order of the paper: rows that are tried between two questions to the row blocks. The
        active rows do not depend on it.
    lazy : bool
        Evaluate only the scores that can matter. The active rows do not depend on it.
    tolerance : float
        Of the posterior "all": nats a row by which a round must raise the objective to go on.
    calibration : str
        Of the posterior "all": "learned" from rows kept aside, or "none".
    n_nodes : int
        Quadrature nodes.
    report_every : int
        Inclusions between two records of `history_`.
    random_state : int, RandomState instance or None
        Seed of whatever is random. Fits are the same again unless it is None or an instance.
    n_jobs : int, optional
        Threads of a fit that runs on no cluster. They stand in for those of BLAS, so None is not
        one but what ``OMP_NUM_THREADS`` says, and all usable processors where it says nothing; in a
        search run by joblib's processes that is their share. As elsewhere in scikit-learn, -1 is
        all usable processors and -2 all but one. Results do not depend on it.
    client : distributed.Client, optional
        Fit in the workers of this dask cluster. None is the current client of dask for data that
        are dask collections, and threads of this process for all others. It is shared by clones and
        left out of pickles.
    checkpoint_dir : path, optional
        Directory of the run, for checkpoints and the model. Fits have one each, so leave it out in
        a search or a cross-validation.
    resume : bool
        Go on with the run in `checkpoint_dir`, if there is one; it must have had the same data and
        settings.
    verbose : int
        Show progress on standard error if greater than 0.

    Attributes
    ----------
    classes_ : array (K,)
        Labels, sorted: the order of the columns of all predictions.
    active_indices_ : array (d,)
        Numbers of the active rows in the training data, in order of inclusion.
    kernel_ : str or list of str
        The kernel with all length scales filled in, which refer to scaled inputs; a list with one
        kernel a class if `kernel_per_class`.
    history_ : list of dict
        The learning curve of the selection: n_active, seconds, train_error.
    model_ : Model
    n_features_in_ : int
    feature_names_in_ : array (p,)
        Only if all columns of the training data have names.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sparsegp import SparseGPClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> SparseGPClassifier(n_active=50).fit(X, y).predict(X[:3])
    array([0, 0, 0])
    """

    def __init__(  # noqa: PLR0913 - scikit-learn wants every parameter by its name
        self,
        *,
        n_active: int | None = TrainSettings.n_active,
        kernel: Any = TrainSettings.kernel,
        kernel_per_class: bool = TrainSettings.kernel_per_class,
        criterion: str = TrainSettings.criterion,
        posterior: str = TrainSettings.posterior,
        scaling: str = TrainSettings.scaling,
        precision: str = TrainSettings.precision,
        panel: int | None = TrainSettings.panel,
        lookahead: int = TrainSettings.lookahead,
        lazy: bool = TrainSettings.lazy,
        tolerance: float = TrainSettings.tolerance,
        calibration: str = TrainSettings.calibration,
        n_nodes: int = TrainSettings.n_nodes,
        report_every: int = TrainSettings.report_every,
        random_state: Any = TrainSettings.seed,
        n_jobs: int | None = None,
        client: Any = None,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        resume: bool = False,
        verbose: int = 0,
    ) -> None:
        self.n_active = n_active
        self.kernel = kernel
        self.kernel_per_class = kernel_per_class
        self.criterion = criterion
        self.posterior = posterior
        self.scaling = scaling
        self.precision = precision
        self.panel = panel
        self.lookahead = lookahead
        self.lazy = lazy
        self.tolerance = tolerance
        self.calibration = calibration
        self.n_nodes = n_nodes
        self.report_every = report_every
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.client = client
        self.checkpoint_dir = checkpoint_dir
        self.resume = resume
        self.verbose = verbose

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
            Labels of any kind; a dask collection of labels is computed.

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
        with self._computing(X):
            if is_lazy(X):
                y = validate_data(self, y=None if y is None else np.asarray(y))
                X = self._lazy_rows(X, reset=True)
            else:
                X, y = validate_data(self, X, np.asarray(y) if is_lazy(y) else y)
            check_classification_targets(y)
            classes = np.unique(y)
            model = self._train(X, y, self._settings(X.shape[0]))
        return self._take(model, classes)

    def _settings(self, n: int) -> TrainSettings:
        """Return the settings of a fit to n rows; no more rows are to be included than can be."""
        given = self._parameters()
        seed = given.pop("random_state")
        if not isinstance(seed, int):
            seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        settings = TrainSettings(**given, seed=seed)
        if settings.n_active is None:
            return settings
        open_rows = n - settings.rows_aside(n)
        return replace(settings, n_active=min(settings.n_active, open_rows))

    def _parameters(self) -> dict[str, Any]:
        """Return the parameters on which results depend, as JSON can hold them."""
        names = [PARAMETER.get(field.name, field.name) for field in fields(TrainSettings)]
        return {name: _plain(getattr(self, name)) for name in names}

    def _train(self, X: Any, y: Labels, settings: TrainSettings) -> Model:
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
        kernels = [str(kernel) for kernel in model.active.kernels]
        per_class = bool(model.settings["kernel_per_class"])
        self.model_ = model
        self.classes_ = classes
        self.active_indices_ = model.rows
        self.kernel_ = kernels if per_class else kernels[0]
        self.history_ = [dict(record) for record in model.history]
        return self

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
        rows = self._rows(X)
        return _chunked_as(rows, self.model_.predict(rows).astype(self.classes_.dtype))

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
        rows = self._rows(X)
        return _chunked_as(rows, self.model_.predict_proba(rows))

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
        rows = self._rows(X)
        return _chunked_as(rows, self.model_.predict_log_proba(rows))

    def latent_mean_and_variance(self, X: Any) -> tuple[Any, Any]:
        """Return mean and variance of the latent functions at each row.

        Parameters
        ----------
        X : array-like, data frame, dask array or dask data frame (n, p)

        Returns
        -------
        mean, variance : array or lazy dask array (n, K)
            Columns in the order of `classes_`; as they are before `calibration`.
        """
        rows = self._rows(X)
        mean, variance = self.model_.latent_mean_and_variance(rows)
        return _chunked_as(rows, mean), _chunked_as(rows, variance)

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
        with self._computing(X):
            predicted, y = (np.asarray(v) if is_lazy(v) else v for v in (self.predict(X), y))
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))

    def _rows(self, X: Any) -> Any:
        """Return rows to predict as a NumPy array, or as a dask array with known chunks."""
        check_is_fitted(self)
        if not is_lazy(X):
            return validate_data(self, X, reset=False)
        with self._computing(X):
            return self._lazy_rows(X, reset=False)

    def _lazy_rows(self, X: Any, reset: bool) -> Any:
        """Check columns and their names; values are checked block by block when computed."""
        if X.ndim != 2:
            raise ValueError(f"Expected 2D array, got {X.ndim}D array instead: X is {X}")
        frame = hasattr(X, "to_dask_array")
        validate_data(self, X._meta if frame else X, skip_check_array=True, reset=reset)
        if frame:
            return X.to_dask_array(lengths=True)
        if any(np.isnan(size) for size in X.shape):
            return X.copy().compute_chunk_sizes()  # it would change the caller's array
        return X

    def _computing(self, X: Any) -> AbstractContextManager[Any]:
        """Return the context in which dask computes: that of the client, if there is one."""
        if self.client is None or not is_lazy(X):
            return nullcontext()
        context: AbstractContextManager[Any] = self.client.as_current()
        return context

    # -- copies ------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to a directory, without pickles and without training data.

        `sparsegp.load` and the command line read it as a model. A directory that was saved before
        is replaced.

        Parameters
        ----------
        path : path

        Raises
        ------
        NotFittedError
        StoreError
            If it cannot be written.
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        dtype = self.classes_.dtype
        parameters = self._parameters()
        if not isinstance(parameters["random_state"], int):
            parameters["random_state"] = self.model_.settings["seed"]
        meta = {
            "parameters": parameters,
            "classes_dtype": dtype.str if dtype.kind in "biufU" else "O",
            "feature_names": None if names is None else list(names),
        }
        place = Path(path)
        remove_bundle(place / "estimator")  # never beside another model than its own
        self.model_.save(place / "model")
        write_bundle(place / "estimator", meta, {}, kind=KIND, version=VERSION)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an estimator from a directory.

        Parameters
        ----------
        path : path
            What `save` wrote, or a model or run directory of `sparsegp.train` or the command line.

        Returns
        -------
        SparseGPClassifier
            Fitted. Where it computes and where it keeps checkpoints (`n_jobs`, `client`,
            `checkpoint_dir`, `resume`, `verbose`) are the defaults.

        Raises
        ------
        StoreError
            If there is none, or it was altered, or a newer version wrote it.
        """
        model, place = Model.load(path), Path(path) / "estimator"
        classes, names = model.classes, None
        if place.is_dir():
            meta = read_bundle(place, kind=KIND, versions={VERSION}).meta
            parameters, names = meta["parameters"], meta["feature_names"]
            classes = classes.astype(meta["classes_dtype"])
        else:
            known = TrainSettings.from_json(model.settings).to_json()
            parameters = {PARAMETER.get(name, name): value for name, value in known.items()}
        estimator = cls(**parameters)
        estimator.n_features_in_ = model.n_features
        if names is not None:
            estimator.feature_names_in_ = np.array(names, dtype=object)
        return estimator._take(model, classes)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "client": None, "_client": None}

    def __sklearn_clone__(self) -> Self:
        bare = copy.copy(self)  # without the client, which cannot be copied
        cloned: Self = super(SparseGPClassifier, bare).__sklearn_clone__()
        return cloned.set_params(client=self.client)  # type: ignore[no-any-return]


def n_threads(n_jobs: int | None) -> int:
    """Return the number of threads that `n_jobs` asks for; see `SparseGPClassifier`.

    Raises
    ------
    SettingsError
        If it is 0.
    """
    usable = usable_cpus()
    if n_jobs is None:
        allowed = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
        return max(1, min(usable, int(allowed))) if allowed.isdigit() else usable
    if n_jobs == 0:
        raise SettingsError("n_jobs must be None or not 0, got 0")
    return int(n_jobs) if n_jobs > 0 else max(1, usable + 1 + int(n_jobs))


def is_lazy(values: Any) -> bool:
    """Tell whether values are a dask collection, without a look at its graph."""
    return hasattr(values, "__dask_graph__")


def _chunked_as(rows: Any, predicted: Any) -> Any:
    """Return predictions with the row chunks of the inputs, so that they fit the labels."""
    return predicted.rechunk({0: rows.chunks[0]}) if is_lazy(predicted) else predicted


def _plain(value: Any) -> Any:
    """Return a parameter as JSON can hold it: NumPy scalars as Python's, kernels as their text."""
    if isinstance(value, np.generic):
        return value.item()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
