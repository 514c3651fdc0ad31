"""A dense model: all training rows, and a mixture as the posterior of their latent values."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from sparsegp.dense import Component, Mixture
from sparsegp.dense.mixture import TILE
from sparsegp.errors import DataError
from sparsegp.model.base import Model
from sparsegp.types import Doubles


@dataclass(frozen=True, kw_only=True, repr=False)
class DenseModel(Model):
    """A model of a dense method, with further fields besides those of `Model`."""

    family: ClassVar[str] = "dense"

    mixture: Mixture  # scaled rows and the posterior of their latent values
    notes: Mapping[str, Any] = field(default_factory=dict)
    """Diagnostics as plain JSON; the log evidence if the method has one."""

    def __post_init__(self) -> None:
        shape = (*self.mixture.x.shape[1:], self._samples[0].coefficients.shape[2])
        if shape != (self.n_features, self.n_latent):
            raise DataError("posterior, columns and classes must fit")
        super().__post_init__()

    @property
    def _samples(self) -> Sequence[Component]:
        return self.mixture.components

    @property
    def _stored_rows(self) -> Doubles:
        return self.mixture.x

    @property
    def report(self) -> Mapping[str, Any]:
        """Diagnostics of the computation of the posterior."""
        return {"components": len(self.mixture.components), **self.notes}

    def _tiles(self, X: Any) -> Iterator[Doubles]:
        """Yield scaled rows, always `TILE` at a time, so that rows do not affect each other."""
        for start in range(0, len(X), TILE):
            some = X[start : start + TILE]
            yield self._scaled(np.pad(some, ((0, TILE - len(some)), (0, 0))))

    def _latent(self, X: Any) -> tuple[Doubles, Doubles]:
        pairs = (self.mixture.latent(tile) for tile in self._tiles(X))
        mean, variance = (np.concatenate(parts)[: len(X)] for parts in zip(*pairs, strict=True))
        return mean, variance

    def _log_probabilities(self, X: Any) -> Doubles:
        count = len(self.classes)
        parts = [self.mixture.log_probabilities(tile, count) for tile in self._tiles(X)]
        return np.concatenate(parts)[: len(X)]
