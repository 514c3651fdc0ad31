"""Row blocks in a list, the smallest runtime there is, and data to select from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from sparsegp.ivm.active_set import ActiveSet
from sparsegp.ivm.block import RowBlock
from sparsegp.ivm.criteria import Criterion, Predictive
from sparsegp.ivm.greedy import Order, Selection
from sparsegp.ivm.rows import TILE, BlockSettings
from sparsegp.ivm.shrink import Bound
from sparsegp.kernels import Kernel, parse
from sparsegp.likelihoods.base import Likelihood
from sparsegp.likelihoods.multinomial_probit import MultinomialProbit
from sparsegp.likelihoods.sites import SiteRule
from tests.ivm.shrinking import BOUND, CASES, N_ACTIVE, N


@dataclass
class LocalBlocks:
    blocks: list[RowBlock]
    messages: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)

    def map_blocks(self, method: str, *args: Any) -> list[Any]:
        self.messages.append((method, args))
        return [getattr(block, method)(*args) for block in self.blocks]


@dataclass
class Problem:
    """A data set and how rows are to be selected from it."""

    X: np.ndarray
    target: np.ndarray
    kernels: Sequence[Kernel]
    n_active: int
    lookahead: int = 8
    panel: int = 1
    criterion: Criterion = field(default_factory=Predictive)
    n_nodes: int = 12
    lazy: bool = True
    n_blocks: int = 1
    runtime: Callable[[list[RowBlock]], Any] = LocalBlocks
    rule: SiteRule | None = None
    bound: Bound | None = None

    @property
    def n_classes(self) -> int:
        return int(self.target.max()) + 1

    @property
    def n_latent(self) -> int:
        likelihood: Likelihood = (self.rule or SiteRule()).likelihood
        return likelihood.n_latent(self.n_classes)

    @property
    def order(self) -> Order:
        return Order(lookahead=self.lookahead, panel=self.panel)

    @property
    def settings(self) -> BlockSettings:
        return BlockSettings(
            kernels=self.kernels,
            rule=self.rule or SiteRule(MultinomialProbit(self.n_nodes)),
            criterion=self.criterion,
            n_latent=self.n_latent,
            capacity=self.n_active,
            lazy=self.lazy,
            bound=self.bound,
        )

    def blocks(self) -> list[RowBlock]:
        """Return blocks without any inclusion, of whole tiles as equal as can be."""
        n_tiles = -(-len(self.X) // TILE)
        cuts = TILE * (np.arange(self.n_blocks + 1) * n_tiles // self.n_blocks)
        return [
            RowBlock(self.settings, self.X[start:stop], self.target[start:stop], int(start))
            for start, stop in pairwise(cuts)
        ]

    def begin(self, active: ActiveSet | None = None) -> Selection:
        """Return a selection, its blocks brought to the present by the messages of recovery."""
        runtime = self.runtime(self.blocks())
        selection = Selection(runtime, self.settings, self.order, active or ActiveSet())
        for method, args in selection.active.recovery():
            runtime.map_blocks(method, *args)
        return selection

    def finish(self, selection: Selection | None = None) -> Selection:
        selection = selection or self.begin()
        while len(selection.active) < self.n_active:
            if not selection.round(self.n_active):
                break
        return selection


def gather(selection: Selection, name: str, process: int = 0) -> np.ndarray:
    """Return a state array of all rows."""
    parts = selection.blocks.map_blocks("array", name, process)
    return np.concatenate(parts, axis=1 if name == "stub" else 0)


def rings(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two rings around a blob in the plane, and eight columns of noise (as GR section 6.1)."""
    rng = np.random.default_rng(seed)
    target = rng.integers(3, size=n)
    radius = np.choose(target, [0.3, 0.8, 1.3]) + 0.12 * rng.normal(size=n)
    angle = rng.uniform(0.0, 2.0 * np.pi, size=n)
    plane = radius[:, np.newaxis] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return np.hstack([2.0 * plane, 0.1 * rng.normal(size=(n, 8))]), target.astype(np.int64)


@pytest.fixture(name="problem", scope="session")
def _problem() -> type[Problem]:
    return Problem


@pytest.fixture(name="gather", scope="session")
def _gather() -> Callable[..., np.ndarray]:
    return gather


@pytest.fixture(name="local_blocks", scope="session")
def _local_blocks() -> type[LocalBlocks]:
    return LocalBlocks


@pytest.fixture(name="rings", scope="session")
def _rings() -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    return rings


@pytest.fixture(scope="session")
def digits() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    return X / 16.0, y.astype(np.int64)


@pytest.fixture
def make(problem, rings):
    """From a case of `shrinking` to the problem of selecting under the bound."""

    def make(case, bound=BOUND, n=N, n_active=N_ACTIVE, **changed):
        options = {**CASES[case], **changed}
        X, target = rings(n, seed=1)
        if "rule" in options:
            target = (target == 1).astype(np.int64)
        kernels = [parse(text) for text in options.pop("texts", ["3*rbf(1.5)"])]
        if bound is not None:
            bound = Bound(bound.entries * len(kernels), bound.every, bound.best)
        X = X.astype(options.pop("dtype", np.float32))
        return problem(X, target, kernels, n_active, bound=bound, **options)

    return make
