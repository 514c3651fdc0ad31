"""Base class of likelihoods with one latent value per class, and biases added to the means."""

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np

from sparsegp.errors import SettingsError
from sparsegp.likelihoods.base import Likelihood
from sparsegp.types import Doubles, Integers


class Biased(Likelihood):
    """A likelihood with biases; each subclass declares the field, in its own field order.

    Attributes
    ----------
    biases : tuple of float
        One per class; an empty tuple means zeros.
    """

    has_biases: ClassVar[bool] = True

    biases: tuple[float, ...]

    @classmethod
    def start(cls, n_classes: int, n_nodes: int = 12) -> Self:
        """Return the likelihood with biases of zero.

        Raises
        ------
        SettingsError
            If there are fewer than two classes.
        """
        likelihood = super().start(n_classes)
        return replace(likelihood, **likelihood._fields_of(np.zeros(n_classes)))

    def n_latent(self, n_classes: int) -> int:
        """Return K: there is one latent value per class."""
        return n_classes

    def decide(self, mean: Doubles, variance: Doubles) -> Integers:
        """Return the class of the largest mean plus bias, (n,), ignoring the variances."""
        return np.asarray(self._biased(mean).argmax(axis=1))

    @property
    def has_score_bounds(self) -> bool:
        """Whether all biases are zero: Z then depends on m / sqrt(1 + noise_precision s) alone."""
        return not any(self.biases)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of the biases."""
        return tuple(f"bias_{k}" for k in range(len(self.biases)))

    def parameters(self) -> Doubles:
        """Return the biases, (K,)."""
        return np.array(self.biases, dtype=np.float64)

    def _fields_of(self, values: Doubles) -> dict[str, Any]:
        return {"biases": tuple(values.tolist())}

    def _biased(self, mean: Doubles) -> Doubles:
        """Return means or latent values (..., K) with the biases added."""
        if self.biases and len(self.biases) != mean.shape[-1]:
            raise SettingsError(
                f"likelihood={self.name} has {len(self.biases)} biases, got latent values of "
                f"{mean.shape[-1]} classes; give one bias a class"
            )
        return np.asarray(mean + np.array(self.biases)) if any(self.biases) else mean
