"""A dense model: all training rows, and a posterior of their latent values as a mixture."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sparsegp.dense import Component, Mixture
from sparsegp.dense.mixture import TILE
from sparsegp.kernels import Kernel
from sparsegp.likelihoods import Likelihood
from sparsegp.model.base import Model, require_shape
from sparsegp.types import Doubles


@dataclass(frozen=True, kw_only=True)
class DenseModel(Model, family="dense"):
    """A model of a dense method.

    Parameters
    ----------
    mixture : Mixture
        Scaled rows and the posterior of their latent values.
    log_evidence : float
        Log marginal likelihood in nats, as far as the method has one; nan otherwise.
    notes : mapping
        What happened on the way, plain JSON.
    **common
        See `Model`.
    """

    mixture: Mixture
    log_evidence: float = float("nan")
    notes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def _first(self) -> Component:
        return self.mixture.components[0]

    @property
    def n_features(self) -> int:
        """Number of input columns p."""
        return int(self.mixture.x.shape[1])

    @property
    def n_latent(self) -> int:
        """Latent values of a row: one, or one a class."""
        return int(self._first.coefficients.shape[2])

    @property
    def kernels(self) -> Sequence[Kernel]:
        """Those of the first component."""
        return self._first.kernels

    @property
    def likelihood(self) -> Likelihood:
        """That of the first component."""
        return self._first.likelihood

    @property
    def report(self) -> Mapping[str, Any]:
        """What happened while the posterior was made."""
        evidence = self.log_evidence
        components = {"components": len(self.mixture.components)}
        found = {} if np.isnan(evidence) else {"log_evidence": evidence}
        return {**found, **components, **self.notes}

    def _tiles(self, X: Any) -> list[Doubles]:
        """Return scaled rows, always `TILE` at a time: a row does not depend on its company."""
        tiles = []
        for start in range(0, len(X), TILE):
            some = X[start : start + TILE]
            tile = np.zeros((TILE, self.n_features))
            tile[: len(some)] = self._scaled(some)
            tiles.append(tile)
        return tiles

    def _latent(self, X: Any) -> tuple[Doubles, Doubles]:
        pairs = [self.mixture.latent(tile) for tile in self._tiles(X)]
        empty = np.empty((0, self.n_latent))
        means, variances = zip(*pairs, strict=True) if pairs else ((empty,), (empty,))
        return np.concatenate(means)[: len(X)], np.concatenate(variances)[: len(X)]

    def _log_probabilities(self, X: Any) -> Doubles:
        count = len(self.classes)
        parts = [self.mixture.log_probabilities(tile, count) for tile in self._tiles(X)]
        return np.concatenate([*parts, np.empty((0, count))])[: len(X)]

    def _check(self) -> None:
        (n, _), n_latent = self.mixture.x.shape, self.n_latent
        require_shape("x", self.mixture.x, "f", n, self.n_features)
        for each in self.mixture.components:
            samples = len(each.coefficients)
            require_shape("coefficients", each.coefficients, "f", max(1, samples), n, n_latent)
            ends = {
                "independent": [len(each.kernels)],
                "simplex": [n_latent],
                "full": [n_latent, n_latent],
                "projected": [n_latent + 1, n_latent],
            }
            if each.form not in ends or len(each.kernels) not in {1, n_latent}:
                raise ValueError(f"{len(each.kernels)} kernels, precisions of form {each.form!r}")
            require_shape("precision", each.precision, "f", n, *ends[each.form])
        super()._check()
