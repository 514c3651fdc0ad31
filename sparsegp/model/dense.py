"""A dense model: all training rows, and a posterior of their latent values as a mixture."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sparsegp.dense import Component, Mixture
from sparsegp.dense.component import TILE
from sparsegp.dense.precisions import FORMS
from sparsegp.kernels import Kernel, parse
from sparsegp.likelihoods import Likelihood
from sparsegp.model.base import Model
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

    arrays: ClassVar[Mapping[str, str]] = {"x": "f d p"}

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
            tile[: len(some)] = self.scaling.apply(some)
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

    def _contents(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        components = self.mixture.components
        meta = {
            "components": [
                {
                    "kernels": [str(kernel) for kernel in component.kernels],
                    "likelihood": component.likelihood.to_json(),
                    "form": component.form,
                }
                for component in components
            ],
            "averaged": self.mixture.averaged,
            "log_evidence": None if np.isnan(self.log_evidence) else self.log_evidence,
            "notes": dict(self.notes),
        }
        arrays: dict[str, NDArray[Any]] = {"x": self.mixture.x}
        for i, component in enumerate(components):
            arrays[f"coefficients_{i}"] = component.coefficients
            arrays[f"precision_{i}"] = component.precision
        return meta, arrays

    @classmethod
    def _restored(
        cls, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], common: dict[str, Any]
    ) -> "DenseModel":
        components = [
            Component(
                [parse(text) for text in stored["kernels"]],
                Likelihood.from_json(stored["likelihood"]),
                arrays[f"coefficients_{i}"],
                FORMS[stored["form"]].name,
                arrays[f"precision_{i}"],
            )
            for i, stored in enumerate(meta["components"])
        ]
        evidence = float("nan") if meta["log_evidence"] is None else meta["log_evidence"]
        mixture = Mixture(components, arrays["x"], meta["averaged"])
        with threadpool_limits(1):
            return cls(mixture=mixture, log_evidence=evidence, notes=meta["notes"], **common)
