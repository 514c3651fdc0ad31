"""Classifier and regressor of the dense methods for scikit-learn."""

import os
from typing import Any

from sparsegp.dense import parse_method
from sparsegp.errors import SettingsError
from sparsegp.estimator.classes import Classifier
from sparsegp.estimator.noisy import Regressor
from sparsegp.estimator.parameters import named_settings
from sparsegp.likelihoods import LIKELIHOODS
from sparsegp.likelihoods.binary import Binary
from sparsegp.settings import DenseSettings


class DenseGPClassifier(Classifier):
    """Gaussian process classifier by a dense method: all rows at once, in O(n^3).

    For a few thousand rows. NumPy arrays and data frames give NumPy arrays; dask collections are
    read into memory, and give lazy dask arrays as predictions.

    Parameters
    ----------
    method : str
        A name in `sparsegp.dense.METHODS` for classes, with options in parentheses, such as
        "ep(damping=0.5)".
    kernel : str or Kernel
        A length scale left out is chosen from the data.
    kernel_per_class : bool
        One kernel for every class; the text may then name them all, separated by semicolons, in the
        order of `classes_`.
    likelihood : str
        One of the method's; the first that suits the number of classes if empty.
    learn : str
        "none"; "evidence": kernels of the highest marginal likelihood, times the hyperprior; "hmc":
        samples of them by hybrid Monte Carlo, over which predictions are averaged.
    steps : int
        Line searches of "evidence", at most; draws of each chain of "hmc".
    hyperprior : str
        With `learn`: prior densities of what is learnt.
    averaged : bool
        Whether probabilities are averaged over the latent posterior, or taken at its mean.
    scaling : str
        Of the inputs: "auto", "standard", "range" or "none".
    random_state : int, RandomState instance or None
        Seed of whatever is random. Fits are the same again unless it is None or an instance.
    n_jobs, client, checkpoint_dir, resume, verbose
        Where a fit computes, what it keeps and what it shows: see `SparseGPClassifier`.

    Attributes
    ----------
    classes_ : array (K,)
        Labels, sorted: the order of the columns of all predictions.
    active_indices_ : array (n,)
        Numbers of the rows that the model holds: all.
    kernel_ : str or list of str
        The kernel with all length scales filled in, or as it was learnt; length scales refer to
        scaled inputs. A list with one kernel a class if `kernel_per_class`.
    history_ : list of dict
        One record, of the end: n_active, seconds, train_error, train_nlpp.
    model_ : Model
    n_features_in_ : int
    feature_names_in_ : array (p,)
        Only if all columns of the training data have names.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sparsegp import DenseGPClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> DenseGPClassifier(method="variational").fit(X, y).predict(X[:3])
    array([0, 0, 0])
    """

    _settings_type = DenseSettings

    def __init__(  # noqa: PLR0913 - scikit-learn wants every parameter by its name
        self,
        *,
        method: str = DenseSettings.method,
        kernel: Any = DenseSettings.kernel,
        kernel_per_class: bool = DenseSettings.kernel_per_class,
        likelihood: str = DenseSettings.likelihood,
        learn: str = DenseSettings.learn,
        steps: int = DenseSettings.steps,
        hyperprior: str = DenseSettings.hyperprior,
        averaged: bool = DenseSettings.averaged,
        scaling: str = DenseSettings.scaling,
        random_state: Any = DenseSettings.seed,
        n_jobs: int | None = None,
        client: Any = None,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        resume: bool = False,
        verbose: int = 0,
    ) -> None:
        self.method = method
        self.kernel = kernel
        self.kernel_per_class = kernel_per_class
        self.likelihood = likelihood
        self.learn = learn
        self.steps = steps
        self.hyperprior = hyperprior
        self.averaged = averaged
        self.scaling = scaling
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.client = client
        self.checkpoint_dir = checkpoint_dir
        self.resume = resume
        self.verbose = verbose

    def _settings(self, n: int, n_classes: int) -> DenseSettings:
        return DenseSettings.given(task=self._task, **named_settings(self))

    @property
    def _two_classes(self) -> bool:
        try:
            names = [self.likelihood] if self.likelihood else parse_method(self.method).likelihoods
        except SettingsError:  # told of by fit
            return False
        return all(name in LIKELIHOODS and issubclass(LIKELIHOODS[name], Binary) for name in names)

    @property
    def _what(self) -> str:
        return f"likelihood={self.likelihood}" if self.likelihood else f"method={self.method}"


class DenseGPRegressor(Regressor):
    """Gaussian process regressor in closed form: all rows at once, in O(n^3).

    For a few thousand rows. Labels are standardised for training; predictions have their units.
    NumPy arrays and data frames give NumPy arrays; dask collections are read into memory, and give
    lazy dask arrays as predictions.

    Parameters
    ----------
    kernel : str or Kernel
        Where learning starts, for labels of variance one. A length scale left out is chosen from
        the data.
    likelihood : str
        "gaussian" with the noise variance where learning starts, for labels of variance one.
    learn : str
        "evidence": kernel and noise of the highest marginal likelihood, times the hyperprior;
        "none"; "hmc": samples of the kernel by hybrid Monte Carlo, over which predictions are
        averaged, with the noise as it is.
    steps : int
        Line searches of "evidence", at most; draws of each chain of "hmc".
    hyperprior : str
        With `learn`: prior densities of what is learnt. The default keeps the noise of labels that
        have none from vanishing; see `SparseGPRegressor`.
    scaling : str
        Of the inputs: "auto", "standard", "range" or "none".
    random_state : int, RandomState instance or None
        Seed of whatever is random. Fits are the same again unless it is None or an instance.
    n_jobs, client, checkpoint_dir, resume, verbose
        Where a fit computes, what it keeps and what it shows: see `SparseGPClassifier`.

    Attributes
    ----------
    active_indices_ : array (n,)
        Numbers of the rows that the model holds: all.
    kernel_ : str
        The kernel as it was learnt, of standardised labels; length scales refer to scaled inputs.
    noise_variance_ : float
        In squared units of the labels.
    history_ : list of dict
        One record, of the end: n_active, seconds, train_mse, train_nlpp.
    model_ : Model
    n_features_in_ : int
    feature_names_in_ : array (p,)
        Only if all columns of the training data have names.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sparsegp import DenseGPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> regressor = DenseGPRegressor().fit(X[:300], y[:300])
    >>> mean, std = regressor.predict(X[300:], return_std=True)
    >>> bool(regressor.score(X[300:], y[300:]) > 0.45)
    True
    """

    _settings_type = DenseSettings

    def __init__(  # noqa: PLR0913 - scikit-learn wants every parameter by its name
        self,
        *,
        kernel: Any = "1*rbf",
        likelihood: str = "gaussian(0.3)",
        learn: str = "evidence",
        steps: int = DenseSettings.steps,
        hyperprior: str = "1/noise: gamma(20, 0.02)",
        scaling: str = DenseSettings.scaling,
        random_state: Any = DenseSettings.seed,
        n_jobs: int | None = None,
        client: Any = None,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        resume: bool = False,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.likelihood = likelihood
        self.learn = learn
        self.steps = steps
        self.hyperprior = hyperprior
        self.scaling = scaling
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.client = client
        self.checkpoint_dir = checkpoint_dir
        self.resume = resume
        self.verbose = verbose

    def _settings(self, n: int, n_classes: int) -> DenseSettings:
        return DenseSettings.given(task=self._task, method="exact", **named_settings(self))
