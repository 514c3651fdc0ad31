"""The scikit-learn estimator: `sparsegp.train` and `Model` behind `fit` and `predict`."""

import copy
import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from sparsegp.errors import Interrupted
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
from sparsegp.model import Model
from sparsegp.report import Progress
from sparsegp.settings import TrainSettings
from sparsegp.training import train
from sparsegp.types import Labels


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
    likelihood : str
        A name in `sparsegp.likelihoods.LIKELIHOODS`.
    sites : str
        How the likelihood of an active row becomes Gaussian: "variational" or "moments".
    active_per_class : bool
        An active set for every class, with sites "moments"; `n_active` then counts pairs of a row
        and a class.
    epsilon : float
        With sites "moments": least precision of the site of a row to be included.
    learn : str
        "none", or "evidence": kernel and likelihood by the evidence, for likelihoods of one latent
        value (two classes, or classes in an order).
    major_steps, minor_steps : int
        With `learn`: times that rows are selected anew, and line searches in between, at most.
    strategy : str
        With `learn`: what sites do between two selections, "constant", "hybrid" or "exact".
    hyperprior : str
        With `learn`: prior densities of what is learnt.
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
        likelihood: str = TrainSettings.likelihood,
        sites: str = TrainSettings.sites,
        active_per_class: bool = TrainSettings.active_per_class,
        epsilon: float = TrainSettings.epsilon,
        learn: str = TrainSettings.learn,
        major_steps: int = TrainSettings.major_steps,
        minor_steps: int = TrainSettings.minor_steps,
        strategy: str = TrainSettings.strategy,
        hyperprior: str = TrainSettings.hyperprior,
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
        self.likelihood = likelihood
        self.sites = sites
        self.active_per_class = active_per_class
        self.epsilon = epsilon
        self.learn = learn
        self.major_steps = major_steps
        self.minor_steps = minor_steps
        self.strategy = strategy
        self.hyperprior = hyperprior
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
        with computing(X, self.client):
            X, y = training_data(self, X, y)
            check_classification_targets(y)
            classes = np.unique(y)
            model = self._train(X, y, settings_of(self, X.shape[0]))
        return self._take(model, classes)

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
        mean, variance : array or lazy dask array (n, K)
            Columns in the order of `classes_`; as they are before `calibration`.
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
        with computing(X, self.client):
            predicted, y = computed(self.predict(X)), computed(y)
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))

    def _predicted(self, method: Callable[[Model, Any], Any], X: Any) -> Any:
        """Return what a method of the model predicts, one array or several."""
        check_is_fitted(self)
        with computing(X, self.client):
            rows = rows_to_predict(self, X)
        return chunked_as(rows, method(self.model_, rows))

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
        names = None if names is None else list(names)
        write(path, Stored(self.model_, parameters_of(self), self.classes_, names))

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
        stored = read(path)
        estimator = cls(**stored.parameters)
        estimator.n_features_in_ = stored.model.n_features
        if stored.feature_names is not None:
            estimator.feature_names_in_ = np.array(stored.feature_names, dtype=object)
        return estimator._take(stored.model, stored.classes)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "client": None, "_client": None}

    def __sklearn_clone__(self) -> Self:
        bare = copy.copy(self)  # without the client, which cannot be copied
        cloned: Self = super(SparseGPClassifier, bare).__sklearn_clone__()
        return cloned.set_params(client=self.client)  # type: ignore[no-any-return]
