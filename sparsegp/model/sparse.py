"""A sparse model: the active rows, their sites and the posterior over their weights.

It holds no other training row.
"""

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.blas import limit_this_thread, single_threaded_blas
from sparsegp.kernels import Kernel
from sparsegp.likelihoods import Likelihood
from sparsegp.model.base import Model, require_shape
from sparsegp.posterior.base import ActiveRows, Calibration, PosteriorWeights
from sparsegp.posterior.predict import Posterior
from sparsegp.runtime.threads import usable_cpus
from sparsegp.state import from_arrays, to_arrays
from sparsegp.types import Doubles

GAIN = "weights.gain"


@dataclass(frozen=True, kw_only=True)
class SparseModel(Model, family="sparse"):
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

    active: ActiveRows
    weights: PosteriorWeights

    def __post_init__(self) -> None:
        with single_threaded_blas():  # the same bits on any number of processors
            posterior = Posterior.from_weights(self.active, self.weights)
        object.__setattr__(self, "_posterior", posterior)

    @property
    def posterior(self) -> Posterior:
        """The Gaussian posterior spanned by the active rows."""
        posterior: Posterior = object.__getattribute__(self, "_posterior")
        return posterior

    @property
    def n_features(self) -> int:
        """Number of input columns p."""
        return int(self.active.x.shape[1])

    @property
    def n_latent(self) -> int:
        """Latent values of a row: one, or one a class."""
        return int(self.active.site.shape[1])

    @property
    def kernels(self) -> Sequence[Kernel]:
        """One for all latent values, or one each."""
        return self.active.kernels

    @property
    def likelihood(self) -> Likelihood:
        """That of a label given its latent values."""
        likelihood: Likelihood = self.active.likelihood
        return likelihood

    @property
    def report(self) -> Mapping[str, Any]:
        """What happened while the posterior was made."""
        return {**self.weights.report, "jitter": self.posterior.jitter}

    @property
    def calibration(self) -> Calibration:
        """How latent values become probabilities."""
        return self.weights.calibration

    def _latent(self, X: Any) -> tuple[Doubles, Doubles]:
        with ThreadPoolExecutor(usable_cpus(), initializer=limit_this_thread) as executor:
            return self.posterior.latent(X, self._scaled, executor)

    def _log_probabilities(self, X: Any) -> Doubles:
        mean, variance = self._latent(X)
        temperature, weight = self.calibration.temperature, self.calibration.variance_weight
        return self.likelihood.tempered(temperature).log_probabilities(
            mean / temperature, weight * variance
        )

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return all fields as arrays; of the factors of the gain the triangles, in float32."""
        gain, weights = self.weights.gain, replace(self.weights, gain=None)
        arrays = to_arrays(replace(self, weights=weights))
        if gain is not None:
            triangle = np.tril_indices(len(gain[0]))
            arrays[GAIN] = np.stack([factor[triangle] for factor in gain]).astype(np.float32)
        return arrays

    @classmethod
    def _of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "SparseModel":
        if (packed := arrays.get(GAIN)) is None:
            return from_arrays(cls, arrays)
        count, size = packed.shape
        d = math.isqrt(2 * size)
        gain = np.zeros((count, d, d))
        gain[:, *np.tril_indices(d)] = packed
        return from_arrays(cls, {**arrays, GAIN: gain})

    def _check(self) -> None:
        active, weights = self.active, self.weights
        (d, p), n_latent, n_kernels = active.x.shape, self.n_latent, len(active.kernels)
        require_shape("x", active.x, "f", d, p)
        require_shape("site", active.site, "f", d, n_latent)
        require_shape("target", active.target, "biuf", d)
        require_shape("precision", active.precision, "f", d, n_kernels)
        parts = zip(weights.coefficients, active.members(), active.columns(), strict=True)
        for c, members, columns in parts:
            require_shape("coefficients", c, "f", len(members), columns.stop - columns.start)
        for factor in weights.gain or ():
            require_shape("gain", factor, "f", d, d)
            if not (np.diag(factor) > 0).all():
                raise ValueError("the diagonal of a gain must be positive")
        super()._check()
