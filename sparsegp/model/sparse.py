"""A sparse model: the active rows, their sites and the posterior over their weights.

It holds no other training row.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from numpy.typing import NDArray

from sparsegp.blas import limit_this_thread, single_threaded_blas
from sparsegp.data.weights import LEAST_SHARE
from sparsegp.errors import DataError
from sparsegp.model.base import Model
from sparsegp.posterior.base import ActiveRows, Calibration, PosteriorWeights
from sparsegp.posterior.predict import Posterior
from sparsegp.runtime.threads import usable_cpus
from sparsegp.types import Doubles, Floats, Integers


@dataclass(frozen=True, kw_only=True, repr=False)
class SparseModel(Model):
    """A model of the informative vector machine.

    Parameters
    ----------
    active : ActiveRows
        Kernels, likelihood and scaled active rows.
    weights : PosteriorWeights
        The posterior over their weights.
    **common
        See `Model`.
    """

    family: ClassVar[str] = "sparse"

    active: ActiveRows
    weights: PosteriorWeights

    def __post_init__(self) -> None:
        active, gain = self.active, self.weights.gain or ()
        sizes = [len(members) for members in active.members()]
        widths = [columns.stop - columns.start for columns in active.columns()]
        if (
            [c.shape for c in self.weights.coefficients] != [*zip(sizes, widths, strict=True)]
            or [factor.shape for factor in gain] not in ([], [(size, size) for size in sizes])
            or not all((np.diag(factor) > 0).all() for factor in gain)
            or (active.x.shape[1], active.site.shape[1]) != (self.n_features, self.n_latent)
        ):
            raise DataError("posterior weights, active rows, columns and classes must fit")
        super().__post_init__()

    @cached_property
    def posterior(self) -> Posterior:
        """The Gaussian posterior spanned by the active rows."""
        with single_threaded_blas():  # the same bits on any number of processors
            return Posterior.from_weights(self.active, self.weights)

    @property
    def _prior(self) -> ActiveRows:
        return self.active

    @property
    def _rows_held(self) -> Floats:
        return self.active.x

    @property
    def report(self) -> Mapping[str, Any]:
        """What happened while the posterior was made."""
        return {**self.weights.report, "jitter": self.posterior.jitter}

    @property
    def calibration(self) -> Calibration:
        """How latent values become probabilities."""
        return self.weights.calibration

    def taught(self) -> tuple[Integers, NDArray[Any], Doubles]:
        """Return what the model says of its active rows, for another one to learn from.

        Returns
        -------
        place : Integers (m,)
            Of an active row; once for every class that it is likely to be of.
        target : array (m,)
            Code of the class, or the mean in a regression, standardised.
        share : Doubles (m,)
            Probability of the class; those of a row sum to one.
        """
        x = np.asarray(self.active.x, dtype=np.float64)
        mean, variance = self.posterior.latent(x)
        if self.is_regression:
            return np.arange(len(x)), mean[:, 0], np.ones(len(x))
        share = np.exp(self._calibrated(mean, variance))
        share[share < min(LEAST_SHARE, 1.0 / len(self.classes))] = 0.0
        share /= share.sum(axis=1, keepdims=True)
        place, target = np.nonzero(share)
        return place, target, share[place, target]

    def _latent(self, X: Any) -> tuple[Doubles, Doubles]:
        with ThreadPoolExecutor(usable_cpus(), initializer=limit_this_thread) as executor:
            return self.posterior.latent(X, self._scaled, executor)

    def _log_probabilities(self, X: Any) -> Doubles:
        return self._calibrated(*self._latent(X))

    def _calibrated(self, mean: Doubles, variance: Doubles) -> Doubles:
        """Return log class probabilities, (n, K), of latent means and variances."""
        temperature, weight = self.calibration.temperature, self.calibration.variance_weight
        return self.likelihood.tempered(temperature).log_probabilities(
            mean / temperature, weight * variance
        )
