"""The rows of a block: inputs in tiles, labels, latent marginals, and what is told about them.

Rows are held in tiles of 256, counted from row 0 of the whole data set, and every matrix product is
done tile by tile. The numbers in a tile therefore do not depend on how tiles are dealt to blocks,
workers or threads: results are the same to the last bit.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sparsegp.ivm.criteria import Criterion, Marginals
from sparsegp.ivm.evidence_rows import Representation, RowSums, row_sums
from sparsegp.ivm.shrink import Bound
from sparsegp.kernels import Kernel, half_squared_norms
from sparsegp.likelihoods.base import Likelihood
from sparsegp.likelihoods.sites import SiteRule
from sparsegp.types import Booleans, Floats, Integers

TILE = 256
GROUP = 16
"""Tiles worked on at a time, so that temporaries stay in cache."""
NARROW = 64
"""Rows in a tile of the stub matrices where candidates get fewer, so that little is left empty."""


@dataclass(frozen=True)
class BlockSettings:
    """What all row blocks of a run have in common.

    Attributes
    ----------
    kernels : sequence of Kernel
        One for all latent values, or one for each.
    rule : SiteRule
        The likelihood and its sites.
    criterion : Criterion
    n_latent : int
        Latent values of a row.
    capacity : int
        Active rows that the stub matrices have room for.
    lazy : bool
        Evaluate only those scores that can matter.
    unit : int
        Tiles that blocks do not divide.
    allocate : callable
        From shape and dtype to an array for inputs or stub matrices.
    bound : Bound, optional
        Of the stub entries: candidates then get fewer as the selection goes.
    """

    kernels: Sequence[Kernel]
    rule: SiteRule
    criterion: Criterion
    n_latent: int
    capacity: int
    lazy: bool = True
    unit: int = 1
    allocate: Callable[[tuple[int, ...], DTypeLike], NDArray[Any]] = np.zeros
    bound: Bound | None = None

    @property
    def likelihood(self) -> Likelihood:
        """The likelihood of the labels."""
        return self.rule.likelihood


@dataclass(frozen=True)
class MarginalMetrics:
    """How well the current marginals tell the labels of the rows of a block.

    Attributes
    ----------
    rows : int
        Rows whose marginals are those of the present: without those that are no candidates any
        more.
    loss : float
        Sum over these rows of what the likelihood counts: errors, or squared errors.
    log_z : float
        Sum of log predictive probabilities of the labels; only for held-out rows.
    labelled : int
        Those of them whose label is a known class, over which `log_z` runs.
    """

    rows: int
    loss: float
    log_z: float
    labelled: int


class Rows:
    """Consecutive rows and their marginals, before any inclusion.

    Parameters
    ----------
    settings : BlockSettings
    X : array (m, p)
        Inputs; scaled and in the working precision, unless there is a transform.
    target : array (m,)
        Class codes, -1 for a label that training has not seen; or numbers.
    first_row : int
        Row number of the first row in the whole data set, a multiple of `TILE`.
    held_out : bool
        Rows that follow the training without taking part in it.
    validation : Booleans (m,), optional
        Validation rows: they are not included, and count in the all-data posterior only when told.
    transform : callable, optional
        Maps some rows of X to scaled inputs in the working precision.
    """

    def __init__(
        self,
        settings: BlockSettings,
        X: Floats,
        target: Any,
        first_row: int,
        held_out: bool = False,
        validation: Booleans | None = None,
        transform: Callable[[Any], Floats] | None = None,
    ) -> None:
        if first_row % TILE:
            raise ValueError(f"first_row must be a multiple of {TILE}, got {first_row}")
        self.settings = settings
        self.held_out = held_out
        self.n_rows = len(X)
        self.X = _tiles(X, transform, settings.allocate)
        self.half_norms = half_squared_norms(self.X)
        self.first_row, padded = first_row, len(self.X) * TILE
        numeric = settings.likelihood.numeric
        self.labels = np.zeros(padded, dtype=np.float64 if numeric else np.int64)
        self.labels[: self.n_rows] = target
        self.validation = np.zeros(padded, dtype=bool)
        if validation is not None:
            self.validation[: self.n_rows] = validation
        self._begin()

    def _begin(self) -> None:
        """Set the state before any inclusion: that of all rows."""
        settings, padded = self.settings, len(self.labels)
        self.width = TILE if settings.bound is None else NARROW
        self.group = GROUP * TILE // self.width  # tiles worked on at a time
        self.n_tiles, self.moved = padded // self.width, False
        self.rows = np.arange(self.first_row, self.first_row + padded)
        self.real = np.arange(padded) < self.n_rows
        self.target = self.labels
        self.scored_target = self._codes()
        self.open = self.real & ~self.validation & (not self.held_out)
        self.mean = np.zeros((padded, settings.n_latent))
        self.variance = np.stack(
            [kernel.diag(self.X).reshape(padded) for kernel in settings.kernels], axis=1
        ).astype(np.float64)

    def restart(self, kernels: Sequence[Kernel], rule: SiteRule) -> None:
        """Forget all inclusions, and go on with other kernels and another likelihood."""
        self.settings = replace(self.settings, kernels=kernels, rule=rule)
        self._begin()

    def marginal_metrics(self) -> MarginalMetrics:
        """Return the loss of the current marginals, and log probabilities for held-out rows."""
        rows, likelihood = self.real, self.settings.likelihood
        target, mean = self.target[rows], self.mean[rows]
        variance = np.maximum(self.variance[rows], 0.0)  # it may be lost by rounding
        loss = float(likelihood.loss(mean, variance, target).sum())
        known = np.full(len(target), True) if likelihood.numeric else target >= 0
        total = 0.0
        if self.held_out and known.any():
            total = float(likelihood.log_z(mean[known], variance[known], target[known]).sum())
        return MarginalMetrics(len(target), loss, total, int(known.sum()))

    def fingerprint(self) -> list[str]:
        """Return a digest of the inputs and labels of each tile."""
        target = self.labels.reshape(-1, TILE)
        return [
            hashlib.blake2b(x.tobytes() + codes.tobytes(), digest_size=8).hexdigest()
            for x, codes in zip(self.X, target, strict=True)
        ]

    def state_digest(self) -> str:
        """Return a digest of the marginals, to the last bit."""
        digest = hashlib.blake2b(self.mean.data, digest_size=16)
        digest.update(self.variance.data)
        return digest.hexdigest()

    def validation_rows(self) -> tuple[Floats, NDArray[Any]]:
        """Return the scaled inputs and targets of the validation rows."""
        index = np.flatnonzero(self.validation)
        return self.X[index // TILE, index % TILE], self.labels[index]

    def _row_sums(
        self, counts: Booleans, representation: Representation, spare: int
    ) -> RowSums | None:
        """Return what those of the rows held that count add to the evidence; None if held out."""
        if self.held_out:
            return None
        every = np.zeros(len(self.labels), dtype=bool)
        every[self.rows[counts] - self.first_row] = True
        return row_sums(self.X, self.labels, every, self.settings.unit, representation, spare)

    # -- addressing --------------------------------------------------------------------------------

    def _marginals(self) -> Marginals:
        return Marginals(self.rows, self.target, self.mean, self.variance)

    def _holds(self, rows: Integers) -> Booleans:
        inside = (rows >= self.first_row) & (rows < self.first_row + self.n_rows)
        return np.asarray(inside & (not self.held_out))

    def _local(self, rows: Integers) -> Integers:
        """Return where those rows of the block stand that are held; none of them has left."""
        return np.searchsorted(self.rows, rows[self._holds(rows)])

    def _groups(self) -> Iterator[slice]:
        for start in range(0, self.n_tiles, self.group):
            yield slice(start, min(start + self.group, self.n_tiles))

    def _codes(self) -> NDArray[Any]:
        """Return the targets, unknown classes as the first one."""
        return self.target if self.settings.likelihood.numeric else np.maximum(self.target, 0)


def _tiles(
    X: Any,
    transform: Callable[[Any], Floats] | None,
    allocate: Callable[[tuple[int, ...], DTypeLike], NDArray[Any]],
) -> Floats:
    """Return the rows in tiles, (tiles, TILE, p), the last one filled up with zeros."""
    n_tiles = -(-len(X) // TILE)
    dtype = X.dtype if transform is None else transform(X[:1]).dtype
    flat: Floats = allocate((n_tiles * TILE, X.shape[1]), dtype)
    step = 4 * TILE  # small, because what is freed stays with the thread that freed it
    for start in range(0, len(X), step):
        some = X[start : start + step]
        flat[start : start + len(some)] = some if transform is None else transform(some)
    return flat.reshape(n_tiles, TILE, X.shape[1])
