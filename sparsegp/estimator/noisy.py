"""What regressors share: labels with Gaussian noise, and predictions of them."""

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from sparsegp.estimator.base import GPEstimator
from sparsegp.likelihoods import Gaussian
from sparsegp.model import Model
from sparsegp.types import Labels


class Regressor(RegressorMixin, GPEstimator):  # type: ignore[misc] # no types there
    """A regressor behind `fit` and `predict`; a subclass names the parameters."""

    _task: ClassVar[str] = "regression"

    def _take(self, model: Model, classes: Labels) -> Self:
        likelihood, numbers = model.likelihood, model.numbers
        assert isinstance(likelihood, Gaussian)  # the one likelihood of this task
        assert numbers is not None
        self.noise_variance_ = likelihood.noise_variance * numbers.scale**2
        return super()._take(model, classes)

    # -- predictions -------------------------------------------------------------------------------

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the mean of the label of each row.

        Parameters
        ----------
        X : array-like, data frame, dask array or dask data frame (n, p)
        return_std : bool
            Whether to return the standard deviations of the labels, noise included, too.

        Returns
        -------
        mean : array or lazy dask array (n,)
        std : array or lazy dask array (n,)
            Only if `return_std`.
        """
        mean, variance = self._predicted(Model.predictive_mean_and_variance, X)
        return (mean, np.sqrt(variance)) if return_std else mean

    def latent_mean_and_variance(self, X: Any) -> tuple[Any, Any]:
        """Return mean and variance of the latent function, without noise, at each row.

        Parameters
        ----------
        X : array-like, data frame, dask array or dask data frame (n, p)

        Returns
        -------
        mean, variance : array or lazy dask array (n,)
            In units of the labels, and their square.
        """
        mean, variance = self._predicted(Model.latent_mean_and_variance, X)
        return mean[:, 0], variance[:, 0]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R^2, the share of the labels' variance that the means explain.

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
        return self._scored(r2_score, X, y, sample_weight)
