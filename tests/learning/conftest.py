"""Rows dealt to blocks, the smallest runtime there is."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from sparsegp.ivm.evidence_rows import RowSums, pieces, row_sums
from sparsegp.kernels import Kernel
from sparsegp.learning.evidence import Evidence, Members, evidence
from sparsegp.learning.objective import Objective
from sparsegp.likelihoods.base import Likelihood

TILE = 16


@dataclass
class Rows:
    """Training rows, of which some are active and some do not count."""

    X: np.ndarray
    target: np.ndarray
    active: np.ndarray
    counts: np.ndarray
    unit: int = 2
    cuts: tuple[int, ...] = ()
    """Where blocks begin, in groups."""

    def padded(self, values: np.ndarray) -> np.ndarray:
        n_tiles = -(-len(values) // TILE)
        full = np.zeros((n_tiles * TILE, *values.shape[1:]), values.dtype)
        full[: len(values)] = values
        return full

    def sum_rows(self, processes: Any, likelihood: Likelihood) -> list[RowSums]:
        X, target, counts = map(self.padded, (self.X, self.target, self.counts))
        counts[self.active] = False
        group = self.unit * TILE
        ends = [0, *(cut * group for cut in self.cuts), len(X)]
        spare = pieces(len(self.X), group).bit_length()
        return [
            row_sums(X[some], target[some], counts[some], group, processes, likelihood, spare)
            for some in (slice(*pair) for pair in pairwise(ends))
        ]

    @property
    def members(self) -> Members:
        every = np.arange(len(self.active))
        return Members(self.X[self.active], self.target[self.active], [every])

    def evidence(
        self, kernel: Kernel, likelihood: Likelihood, sites: np.ndarray, by_sites: bool = True
    ) -> Evidence:
        return evidence([kernel], likelihood, self.members, sites, self.sum_rows, by_sites)

    def objective(self, kernel: Kernel, likelihood: Likelihood, **options: Any) -> Objective:
        return Objective([kernel], likelihood, self.members, self.sum_rows, **options)


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


def central(function: Any, at: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """Central differences of a function of an array of any shape."""
    units = np.eye(at.size).reshape(-1, *at.shape)
    ends = [(function(at + step * unit), function(at - step * unit)) for unit in units]
    return np.array([(up - down) / (2.0 * step) for up, down in ends]).reshape(at.shape)


@pytest.fixture(name="make_rows", scope="session")
def _make_rows() -> Any:
    return make_rows


@pytest.fixture(name="central", scope="session")
def _central() -> Any:
    return central
