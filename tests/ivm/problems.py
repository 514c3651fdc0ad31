"""Row blocks in a list, the smallest runtime there is, and selections of every kind."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from sparsegp.ivm.active_set import ActiveSet
from sparsegp.ivm.block import RowBlock
from sparsegp.ivm.criteria import Criterion, Entropy, Information, Predictive, Random
from sparsegp.ivm.greedy import Order, Selection
from sparsegp.ivm.pairs import PairBlock, PairSelection, PairSet
from sparsegp.ivm.rows import BlockSettings
from sparsegp.ivm.shrink import Bound
from sparsegp.kernels import Kernel, parse
from sparsegp.likelihoods.multinomial_probit import MultinomialProbit
from sparsegp.likelihoods.probit import Probit
from sparsegp.likelihoods.sites import SiteRule
from sparsegp.math.products import TILE


@dataclass
class LocalBlocks:
    blocks: list[Any]

    def map_blocks(self, method: str, *args: Any) -> list[Any]:
        return [getattr(block, method)(*args) for block in self.blocks]


@dataclass
class Problem:
    """A data set and how rows, or pairs of a row and a class, are to be selected from it."""

    X: np.ndarray
    target: np.ndarray
    texts: Sequence[str]
    n_active: int
    lookahead: int = 8
    panel: int = 1
    criterion: Criterion = field(default_factory=Predictive)
    lazy: bool = True
    n_blocks: int = 1
    runtime: Callable[[list[Any]], Any] = LocalBlocks
    rule: SiteRule = field(default_factory=lambda: SiteRule(MultinomialProbit()))
    bound: Bound | None = None
    pairs: bool = False
    validation: np.ndarray | None = None

    @cached_property
    def kernels(self) -> list[Kernel]:
        return [parse(text) for text in self.texts]

    @property
    def settings(self) -> BlockSettings:
        return BlockSettings(
            kernels=self.kernels,
            rule=self.rule,
            criterion=self.criterion,
            n_latent=self.rule.likelihood.n_latent(int(self.target.max()) + 1),
            capacity=self.n_active,
            lazy=self.lazy,
            bound=self.bound,
        )

    def blocks(self) -> list[Any]:
        """Return blocks without any inclusion, of whole tiles as equal as can be."""
        n_tiles, block = -(-len(self.X) // TILE), PairBlock if self.pairs else RowBlock
        cuts = TILE * (np.arange(self.n_blocks + 1) * n_tiles // self.n_blocks)
        validation = np.zeros(len(self.X), bool) if self.validation is None else self.validation
        return [
            block(self.settings, self.X[i:j], self.target[i:j], int(i), validation=validation[i:j])
            for i, j in pairwise(cuts)
        ]

    def begin(self, active: ActiveSet | PairSet | None = None) -> Any:
        """Return a selection, its blocks brought to the present by the messages of recovery."""
        runtime, selection = self.runtime(self.blocks()), None
        if self.pairs:
            selection = PairSelection(runtime, self.settings, active or PairSet())
        else:
            order = Order(lookahead=self.lookahead, panel=self.panel)
            selection = Selection(runtime, self.settings, order, active or ActiveSet())
        for method, args in selection.active.recovery():
            runtime.map_blocks(method, *args)
        return selection

    def finish(self, selection: Any = None, least: int | None = None) -> Any:
        """Go on to the end, or to the first batch with which there are enough rows."""
        selection = selection or self.begin()
        while len(selection.active) < (least or self.n_active) and selection.round(self.n_active):
            pass
        return selection


class Dense:
    """Means and covariances of all rows of a problem, included one by one by rank-one updates."""

    def __init__(self, run: Problem) -> None:
        self.likelihood, self.target = run.rule.likelihood, run.target
        self.covariance = [kernel(run.X, run.X) for kernel in run.kernels]
        self.mean = np.zeros((len(run.X), len(run.kernels)))

    @property
    def variance(self) -> np.ndarray:
        return np.stack([each.diagonal() for each in self.covariance], axis=1)

    def moments(self) -> Any:
        return self.likelihood.moments(self.mean, self.variance, self.target)

    def gains(self) -> tuple[np.ndarray, np.ndarray]:
        """Falls of the entropy, and D[N(h', a') || N(h, a)], by the formulas for two normals."""
        found, a = self.moments(), self.variance
        after = a - a**2 * found.curvature
        fall = 0.5 * np.log(a / after)
        return fall, fall + 0.5 * (after / a - 1.0 + a * found.slope**2)

    def include(self, i: int, processes: Sequence[int]) -> None:
        found = self.moments()
        for c in processes:
            column = self.covariance[c][:, i].copy()
            self.mean[:, c] += column * found.slope[i, c]
            self.covariance[c] -= found.curvature[i, c] * np.outer(column, column)


def gather(selection: Any, name: str, process: int = 0) -> np.ndarray:
    parts = selection.blocks.map_blocks("array", name, process)
    return np.concatenate(parts, axis=1 if name == "stub" else 0)


def bits(selection: Any) -> list[bytes]:
    """Return the numbers of all rows: what inclusions and thinnings have made of them."""
    stubs = [("stub", c) for c in range(len(selection.settings.kernels))]
    return [gather(selection, *of).tobytes() for of in (("mean",), ("variance",), *stubs)]


def candidates(selection: Any) -> np.ndarray:
    return np.concatenate([block.rows[block.open] for block in selection.blocks.blocks])


def rings(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two rings around a blob in the plane, and eight columns of noise (as GR section 6.1)."""
    rng = np.random.default_rng(seed)
    target = rng.integers(3, size=n)
    radius = np.choose(target, [0.3, 0.8, 1.3]) + 0.12 * rng.normal(size=n)
    angle = rng.uniform(0.0, 2.0 * np.pi, size=n)
    plane = radius[:, np.newaxis] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return np.hstack([2.0 * plane, 0.1 * rng.normal(size=(n, 8))]), target.astype(np.int64)


def on_rings(
    n: int, texts: Sequence[str], n_active: int, *how: Any, seed: int = 0, **options: Any
) -> Problem:
    return Problem(*rings(n, seed), texts, n_active, *how, **options)


N, N_ACTIVE, EVERY = 4 * TILE - 9, 24, 6
BOUND = Bound(entries=4800, every=EVERY, best=0.5)
"""Of 1015 rows 800, 400, 266 and 200 may be candidates between the four thinnings."""

PER_CLASS = ["3*rbf(1.5)", "matern32(1.0) + 0.2", "linear + 2*rbf(2.0)"]
KINDS = {
    "shared": ["3*rbf(1.2) + 0.2*linear"],
    "per class": ["3*rbf(1.2)", "matern32(1.0) + 0.2", "2*rbf(2.0) + 0.1*linear"],
}
kinds = pytest.mark.parametrize("texts", KINDS.values(), ids=KINDS)
PROBIT, MOMENTS = (SiteRule(each, "moments", 1e-8) for each in (Probit(), MultinomialProbit()))
CASES: dict[str, dict[str, Any]] = {
    "one by one": {"lookahead": 1},
    "all scores": {"lazy": False},
    "panel": {"panel": 8},
    "random": {"lookahead": 16, "criterion": Random(5)},
    "information": {"criterion": Information(), "rule": PROBIT, "dtype": np.float64},
    "per class": {"texts": PER_CLASS},
    "pairs": {"texts": PER_CLASS, "criterion": Information(), "rule": MOMENTS, "pairs": True},
    "bounded": {"bound": BOUND},
    "bounded, double": {"bound": BOUND, "lookahead": 1, "dtype": np.float64},
    "bounded, panel": {"bound": BOUND, "panel": 4, "criterion": Entropy(), "rule": PROBIT},
    "bounded, per class": {"bound": BOUND, "texts": PER_CLASS, "panel": 4},
    "bounded, pairs": {
        "bound": BOUND,
        "texts": PER_CLASS,
        "criterion": Entropy(),
        "rule": MOMENTS,
        "pairs": True,
    },
}


def case(name: str, n: int = N, n_active: int = N_ACTIVE, **changed: Any) -> Problem:
    """Return a case of `CASES`, on rows of uneven norm: later pivots can be larger."""
    options = {**CASES[name], **changed}
    X, target = rings(n, seed=1)
    X *= np.exp(0.5 * np.random.default_rng(4).normal(size=(n, 1)))
    if options.get("rule") is PROBIT:
        target = (target == 1).astype(np.int64)
    texts = options.pop("texts", ["3*rbf(1.5) + 0.1*linear"])
    return Problem(X.astype(options.pop("dtype", np.float32)), target, texts, n_active, **options)
