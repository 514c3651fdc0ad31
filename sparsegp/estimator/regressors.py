"""Regressors for scikit-learn: targets with Gaussian noise."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.metaestimators import available_if

from sparsegp.estimator.base import GPEstimator
from sparsegp.estimator.parameters import documented_estimator
from sparsegp.estimator.sparse import SparseEstimator, has_posterior_all
from sparsegp.fields import setting
from sparsegp.model import Model
from sparsegp.settings import DenseSettings
from sparsegp.settings.base import LEARNT


@dataclass(kw_only=True, eq=False, repr=False)
class Regressor(RegressorMixin, GPEstimator):  # type: ignore[misc] # no types there
    """Base of the regressors."""

    _task: ClassVar[str] = "regression"
    score = GPEstimator.score

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the predictive mean of the target of each row.

        Parameters
        ----------
        X : array-like, data frame, dask array or dask data frame (n, p)
        return_std : bool
            Whether to return the predictive standard deviations too, noise included.

        Returns
        -------
        mean : array or lazy dask array (n,)
        std : array or lazy dask array (n,)
            Only if `return_std`.
        """
        mean, variance = self._predicted(Model.predictive_mean_and_variance, X)
        return (mean, np.sqrt(variance)) if return_std else mean

    def latent_mean_and_variance(self, X: Any) -> tuple[Any, Any]:
        """Return mean and variance of the latent function, without noise, at each row of X (n, p).

        Both are (n,), in units of the targets and in squared units.
        """
        mean, variance = self._predicted(Model.latent_mean_and_variance, X)
        return mean[:, 0], variance[:, 0]


@documented_estimator
@dataclass(kw_only=True, eq=False, repr=False)
class SparseGPRegressor(SparseEstimator, Regressor):
    """Sparse Gaussian process regressor: the informative vector machine with Gaussian noise.

    Active rows (inducing points), chosen greedily, span the latent function; its posterior uses all
    rows. Kernel, scaling and number of active rows are chosen on held-out training rows, unless a
    `kernel` is given; its variance and that of the noise are chosen by leave-one-out predictions.
    With ``learn="evidence"`` kernel and noise variance are learnt instead, by maximising the
    marginal likelihood of all rows, from the given values for targets of unit variance; the
    posterior then uses the active rows only. From a much smaller noise variance, learning may end
    with each row explaining only itself; kernels with many length scales, such as "1*ard", benefit
    from more major steps, such as 15. If all rows are active, this is exact Gaussian process
    regression. Targets are standardised for training; predictions have their original units.

    NumPy arrays and data frames give NumPy arrays; dask arrays and dask data frames are fitted
    block by block and give lazy dask arrays. Duplicate rows with the same target are merged into
    one weighted row.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sparsegp import SparseGPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> regressor = SparseGPRegressor(n_active=50).fit(X[:300], y[:300])
    >>> mean, std = regressor.predict(X[300:], return_std=True)
    >>> bool(regressor.score(X[300:], y[300:]) > 0.45)
    True
    """

    likelihood: str | None = setting(
        None,
        "gaussian, perhaps with the noise variance that learning starts from, for labels of unit "
        "variance.",
        unset="gaussian, with a noise variance that is chosen or learnt",
    )
    learn: str | None = None
    hyperprior: str | None = None
    major_steps: int | None = None
    precision: str = "float64"

    @available_if(has_posterior_all)  # type: ignore[untyped-decorator] # no types there
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> "SparseGPRegressor":
        """Update the fit, if any, with new rows only; see `sparsegp.update`.

        Available with ``posterior="all"``, the default. The first call chooses kernel and scaling,
        as `fit` does, and the units of the targets; later calls keep them, and with fewer than 300
        new rows the noise variance too. The active set grows up to `n_active`; after that, the rows
        that matter least to the posterior are replaced. The first rows are kept, and fitted again
        with those of later calls, until there are 300 different ones, 50 of them with targets
        other than the most frequent one, and 10 per rare level of a category, but at most 10,000.

        Parameters
        ----------
        X, y
            New rows (n, p) and their targets (n,).
        sample_weight : array-like (n,), optional
            As in `fit`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If the rows are unusable.
        """
        return self._fit_in_parts(X, y, sample_weight)


@documented_estimator
@dataclass(kw_only=True, eq=False, repr=False)
class DenseGPRegressor(Regressor):
    """Exact Gaussian process regressor, which uses all rows, in O(n^3).

    Suitable for up to a few thousand rows. Targets are standardised for training; predictions have
    their original units. NumPy arrays and data frames give NumPy arrays; dask collections are read
    into memory, and predictions for them are lazy dask arrays.

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

    kernel: Any = LEARNT["kernel"]
    likelihood: str = setting(
        LEARNT["likelihood"],
        "gaussian, with the initial noise variance, for labels of unit variance.",
    )
    learn: str = LEARNT["learn"]
    hyperprior: str = LEARNT["hyperprior"]
    steps: int = DenseSettings.steps

    _settings_type = DenseSettings
    _fixed: ClassVar[Mapping[str, Any]] = {"method": "exact"}
