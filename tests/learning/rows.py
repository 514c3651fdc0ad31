"""Rows of which some are active, and what the evidence needs of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsegp.ivm.evidence_rows import RowSums, pieces, row_sums
from sparsegp.learning.evidence import Evidence, Members, evidence
from sparsegp.learning.objective import Objective
from sparsegp.likelihoods.base import Likelihood


@dataclass
class Rows:
    """Training rows, of which some are active, for some classes, and some do not count."""

    X: np.ndarray
    target: np.ndarray
    active: np.ndarray
    counts: np.ndarray
    weights: np.ndarray | None = None
    places: Sequence[np.ndarray] | None = None

    def sum_rows(self, processes: Any, likelihood: Likelihood) -> list[RowSums]:
        counts, group = self.counts.copy(), 32
        counts[self.active] = False
        spare = pieces(len(self.X), group).bit_length()
        rows = self.X, self.target, counts, group
        return [row_sums(*rows, processes, likelihood, spare, self.weights)]

    @property
    def members(self) -> Members:
        places = [np.arange(len(self.active))] if self.places is None else self.places
        own = None if self.weights is None else self.weights[self.active]
        return Members(self.X[self.active], self.target[self.active], places, own)

    def evidence(self, kernels: Any, likelihood: Likelihood, sites: np.ndarray) -> Evidence:
        return evidence(kernels, likelihood, self.members, sites, self.sum_rows)

    def objective(self, kernels: Any, likelihood: Likelihood, **options: Any) -> Objective:
        return Objective(kernels, likelihood, self.members, self.sum_rows, **options)


def make_rows(
    numeric: bool, n: int = 100, d: int = 9, p: int = 3, seed: int = 0, **options: Any
) -> Rows:
    """Rows of a smooth function with noise; a fifth of them do not count."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    latent = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=n)
    target = latent if numeric else (latent > 0.2).astype(np.int64)
    active = rng.choice(n, d, replace=False)
    return Rows(X, target, active, rng.random(n) < 0.8, **options)
