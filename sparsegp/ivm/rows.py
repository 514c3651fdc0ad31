"""The rows of a block: inputs in tiles, labels, latent marginals, candidates and stub matrices.

Rows are held in tiles of 256, counted from row 0 of the whole data set, and every matrix product is
done tile by tile. The numbers in a tile therefore do not depend, to the last bit, on how tiles are
divided into blocks, workers or threads.

If stub entries are bounded, candidates are dropped during the selection (ivm/shrink.py), and the
remaining rows are packed into tiles of 64.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sparsegp.ivm.criteria import Criterion, Marginals
from sparsegp.ivm.evidence_rows import Process, RowSums, row_sums
from sparsegp.ivm.scores import quantise
from sparsegp.ivm.shrink import Bound, Keep, Ranking, move, pack
from sparsegp.kernels import Kernel, half_squared_norms
from sparsegp.likelihoods.base import Likelihood
from sparsegp.likelihoods.sites import SiteRule
from sparsegp.math.products import TILE
from sparsegp.types import Booleans, Doubles, Floats, Integers

GROUP = 16
"""Number of tiles processed at a time, so that temporaries stay in cache."""
NARROW = 64
"""Rows in a tile of bounded stub matrices, so that little memory is unused."""


@dataclass(frozen=True)
class BlockSettings:
    """Settings common to all row blocks of a run."""

    kernels: Sequence[Kernel]  # one for all latent values, or one for each
    rule: SiteRule  # the likelihood and its sites
    criterion: Criterion
    n_latent: int  # number of latent values per row
    capacity: int  # number of inclusions to provide memory for
    lazy: bool = True  # whether to evaluate only scores that can matter
    unit: int = 1  # number of tiles in a group; groups are never divided between blocks
    # maps shape and dtype to a new array for inputs or stub matrices
    allocate: Callable[[tuple[int, ...], DTypeLike], NDArray[Any]] = np.zeros
    bound: Bound | None = None  # limit on stub entries
    # row numbers that may be included, ascending; None: all but the validation rows
    candidates: Integers | None = None

    @property
    def likelihood(self) -> Likelihood:
        """Likelihood of the labels."""
        return self.rule.likelihood


@dataclass(frozen=True)
class MarginalMetrics:
    """Metrics of how well the current marginals predict a block's labels."""

    rows: int  # number of rows not dropped, whose marginals are up to date
    loss: float  # weighted sum of the likelihood's loss over these: errors or squared errors
    log_z: float  # sum of log predictive probabilities of labels; 0 unless the rows are held out
    labelled: int  # number of rows whose label is a known class, over which `log_z` is summed


class Block(ABC):
    """Block of consecutive rows and their state, which is determined by the inclusions so far.

    Calls are idempotent: changes that were applied before are not applied again.

    Parameters
    ----------
    settings : BlockSettings
    X : array (m, p)
        Inputs, scaled and in the working precision unless there is a transform.
    target : array (m,)
        Class codes, -1 for a label not seen in training; or targets in a regression.
    first_row : int
        Row number of the first row in the whole data set, a multiple of `TILE`.
    validation : Booleans (m,) or None
        Mask of the validation rows: never included, and in the all-data likelihood only on request.
        None: all rows are held out; their marginals are updated, but they take no part in training.
    weights : Doubles (m,), optional
        Factors on the log likelihoods of the rows.
    transform : callable, optional
        Maps rows of X to scaled inputs in the working precision.
    """

    def __init__(
        self,
        settings: BlockSettings,
        X: Floats,
        target: Any,
        first_row: int,
        validation: Booleans | None,
        weights: Doubles | None = None,
        transform: Callable[[Any], Floats] | None = None,
    ) -> None:
        if first_row % TILE:
            raise ValueError(f"first_row must be a multiple of {TILE}, got {first_row}")
        self.settings, self.held_out, self.n_rows = settings, validation is None, len(X)
        self.X = _tiled(X, transform, settings.allocate)  # (tiles * TILE, p)
        self.half_norms = half_squared_norms(self.X)
        self.first_row, padding = first_row, (0, len(self.X) - self.n_rows)
        kind = np.float64 if settings.likelihood.numeric else np.int64
        validation = np.zeros(self.n_rows, dtype=bool) if validation is None else validation
        self.labels = np.pad(np.asarray(target, kind), padding)
        self.validation = np.pad(validation, padding)
        self.weights = None if weights is None else np.pad(weights, padding, constant_values=1.0)
        self._begin()

    def _begin(self) -> None:
        """Set the state before any inclusion, with all rows held.

        `rows` (n_tiles * width,) holds the numbers of the rows that `target`, `weight`, `mean` and
        `variance` belong to; the masks `real` and `open` mark rows that are not padding, and
        candidates.
        """
        settings, padded = self.settings, len(self.X)
        self.width = TILE if settings.bound is None else NARROW
        self.group = GROUP * TILE // self.width  # tiles processed at a time
        self.n_tiles, self.moved = padded // self.width, False
        self.rows = np.arange(self.first_row, self.first_row + padded)
        self.real = np.arange(padded) < self.n_rows
        self.target, self.weight = self.labels, self.weights
        self.open = self.real & ~self.validation & (not self.held_out)
        if settings.candidates is not None:
            ends = np.searchsorted(settings.candidates, [self.first_row, self.rows[-1] + 1])
            self.open &= np.isin(self.rows, settings.candidates[slice(*ends)])
        self.mean = np.zeros((padded, settings.n_latent))
        diagonals = [kernel.diag(self.X) for kernel in settings.kernels]
        self.variance = np.stack(diagonals, axis=1).astype(np.float64)
        # panels of stub columns (n_tiles, columns, width), and number of columns, per process
        self.stubs: list[list[Floats]] = [[] for _ in settings.kernels]
        self.sizes = [0] * len(settings.kernels)
        self.n_active, self.room = 0, 0  # inclusions made so far, and with room for
        self._ranking: tuple[int, Ranking] | None = None

    def restart(self, kernels: Sequence[Kernel], rule: SiteRule) -> None:
        """Discard all inclusions, and set other kernels and another likelihood."""
        self.settings = replace(self.settings, kernels=kernels, rule=rule)
        self._begin()

    # -- for the driver and the posteriors ---------------------------------------------------------

    def marginal_metrics(self) -> MarginalMetrics:
        """Return the loss at the current marginals, and for held-out rows log probabilities."""
        rows, likelihood = self.real, self.settings.likelihood
        target, mean = self.target[rows], self.mean[rows]
        variance = np.maximum(self.variance[rows], 0.0)  # rounding can make it negative
        loss = likelihood.loss(mean, variance, target)
        if self.weight is not None:
            loss = loss * self.weight[rows]
        known = np.full(len(target), True) if likelihood.numeric else target >= 0
        total = 0.0
        if self.held_out and known.any():
            total = float(likelihood.log_z(mean[known], variance[known], target[known]).sum())
        return MarginalMetrics(len(target), float(loss.sum()), total, int(known.sum()))

    def validation_rows(self) -> tuple[Floats, NDArray[Any]]:
        """Return the scaled inputs and targets of the validation rows."""
        return self.X[self.validation], self.labels[self.validation]

    def labelled_rows(self, rows: Integers | None = None) -> tuple[Floats, NDArray[Any]]:
        """Return the scaled inputs and targets of all rows, or of those with the given numbers."""
        places = np.arange(self.n_rows) if rows is None else rows - self.first_row
        places = places[(places >= 0) & (places < self.n_rows)]
        return self.X[places], self.labels[places]

    def evidence(
        self, n_active: int, processes: Sequence[Process], likelihood: Likelihood, spare: int
    ) -> RowSums | None:
        """Return the evidence terms of candidates that are not active; None for held-out rows.

        See `evidence_rows.row_sums` for the parameters.
        """
        self._require(n_active)
        if self.held_out:
            return None
        counts = np.zeros(len(self.X), dtype=bool)
        counts[self.rows[self._without_sites()] - self.first_row] = True
        group = self.settings.unit * TILE
        data = self.X, self.labels, counts, group
        return row_sums(*data, processes, likelihood, spare, self.weights)

    def _without_sites(self) -> Booleans:
        """Return a mask of the candidates that are not active for any process."""
        return self.open

    def array(self, name: str, process: int = 0) -> Floats:
        """Return `stub` (d, m) of one process, `mean` (m, R) or `variance` (m, C).

        Entries of dropped rows are NaN.
        """
        kept = self.rows[self.real] - self.first_row
        if name == "stub":
            stub = np.full((self.sizes[process], self.n_rows), np.nan, dtype=self.X.dtype)
            for columns, panel in self._panels(process):
                flat = panel.swapaxes(0, 1).reshape(panel.shape[1], -1)
                stub[columns, kept] = flat[:, self.real]
            return stub
        values = {"mean": self.mean, "variance": self.variance}[name]
        of_all = np.full((self.n_rows, values.shape[1]), np.nan)
        of_all[kept] = values[self.real]
        return of_all

    # -- dropping candidates -----------------------------------------------------------------------

    @abstractmethod
    def _evaluate(self, index: Integers, marginals: Marginals) -> Doubles:
        """Return the scores of candidates by index, (len(index),)."""

    @abstractmethod
    def _reindex(self, places: Integers) -> None:
        """Take a subclass's own state of the rows from these places."""

    def _make_room(self, count: int) -> None:
        """Prepare for `count` more inclusions."""
        self.room += count

    def keep(self, keep: Keep) -> None:
        """Drop the candidates that are not kept, and make room for the next inclusions.

        Held-out rows are always kept.
        """
        if self.room >= keep.room:
            return  # the message was received before
        self._require(keep.start)
        if not self.held_out:
            kept = self.open.copy()
            if keep.score:
                kept[kept] = self.ranking(keep.start).kept(keep)
            if not np.array_equal(kept, self.real):
                self._drop_others(kept)
        self._ranking = None
        self._make_room(keep.room - keep.start)

    def ranking(self, n_active: int) -> Ranking:
        """Return the ranking of the candidates by their current scores."""
        self._require(n_active)
        if self._ranking is None or self._ranking[0] != n_active:
            open_, marginals = np.flatnonzero(self.open), self.marginals()
            scores = np.empty(len(open_))
            for start in range(0, len(open_), GROUP * TILE):
                part = slice(start, start + GROUP * TILE)
                scores[part] = self._evaluate(open_[part], marginals.take(open_[part]))
            seed = self.settings.criterion.seed
            ranking = Ranking.of(quantise(scores), self.rows[open_], seed, n_active)
            self._ranking = n_active, ranking
        return self._ranking[1]

    def _drop_others(self, kept: Booleans) -> None:
        """Drop all rows that are not kept."""
        group = (self.rows - self.first_row) // (self.settings.unit * TILE)
        places, self.real = pack(kept, group, self.width)
        for name in ("rows", "target", "mean", "variance"):
            setattr(self, name, getattr(self, name)[places])
        self.weight = None if self.weight is None else self.weight[places]
        self.open = self.real.copy()
        self.n_tiles, self.moved = len(places) // self.width, True
        for panels in self.stubs:
            for k, panel in enumerate(panels):
                panels[k] = self._allocate_panel(panel.shape[1])
                move(panel, panels[k], places, self.group)
        self._reindex(places)

    # -- addressing --------------------------------------------------------------------------------

    def marginals(self) -> Marginals:
        """Return the marginals of all rows that the block holds."""
        return Marginals(self.rows, self.target, self.mean, self.variance, self.weight)

    def _allocate_panel(self, columns: int) -> Floats:
        panel: Floats = self.settings.allocate((self.n_tiles, columns, self.width), self.X.dtype)
        return panel

    def _panels(self, process: int) -> Iterator[tuple[slice, Floats]]:
        """Yield the panels of a process: the slice of stub columns, and their entries."""
        start = 0
        for panel in self.stubs[process]:
            stop = min(start + panel.shape[1], self.sizes[process])
            if start < stop:
                yield slice(start, stop), panel[:, : stop - start]
            start = stop

    def _stub_rows(self, index: Integers, process: int) -> Floats:
        """Return the entries M[:, i] of the stub matrix for rows by index, (len(index), t)."""
        tile, place = np.divmod(index, self.width)
        stub = np.empty((len(index), self.sizes[process]), dtype=self.X.dtype)
        for columns, panel in self._panels(process):
            stub[:, columns] = panel[tile, :, place]
        return stub

    def _inputs(self, tiles: slice) -> tuple[Floats, Floats]:
        """Return the inputs in some tiles, (tiles, width, p), and |x|^2 / 2 of the rows."""
        index: slice | Integers = slice(tiles.start * self.width, tiles.stop * self.width)
        if self.moved:
            index = self.rows[index] - self.first_row
        X, half_norms = self.X[index], self.half_norms[index]
        return X.reshape(-1, self.width, X.shape[1]), half_norms.reshape(-1, self.width)

    def _contains(self, rows: Integers) -> Booleans:
        inside = (rows >= self.first_row) & (rows < self.first_row + self.n_rows)
        return np.asarray(inside & (not self.held_out))

    def _places(self, rows: Integers) -> Integers:
        """Return the indices of the rows that are in this block; none may have been dropped."""
        return np.searchsorted(self.rows, rows[self._contains(rows)])

    def _groups(self) -> Iterator[slice]:
        for start in range(0, self.n_tiles, self.group):
            yield slice(start, min(start + self.group, self.n_tiles))

    def _require(self, n_active: int) -> None:
        if self.n_active != n_active:
            raise RuntimeError(
                f"row block at {self.first_row} holds {self.n_active} inclusions, not {n_active}"
            )


def _tiled(
    X: Any,
    transform: Callable[[Any], Floats] | None,
    allocate: Callable[[tuple[int, ...], DTypeLike], NDArray[Any]],
) -> Floats:
    """Return the scaled rows, padded with zeros to whole tiles."""
    dtype = X.dtype if transform is None else transform(X[:1]).dtype
    tiled: Floats = allocate((-(-len(X) // TILE) * TILE, X.shape[1]), dtype)
    step = 4 * TILE  # small, because each thread retains the memory that it frees
    for start in range(0, len(X), step):
        part = X[start : start + step]
        tiled[start : start + len(part)] = part if transform is None else transform(part)
    return tiled
