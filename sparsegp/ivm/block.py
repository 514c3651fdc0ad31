"""One row block: its rows, their stub matrices and marginals, and how an inclusion changes them.

Rows are held in tiles of 256, counted from row 0 of the whole data set, and every matrix product is
done tile by tile. The numbers in a tile therefore do not depend on how tiles are dealt to blocks,
workers or threads: results are the same to the last bit.

Every method can be repeated: a batch that was applied is not applied again.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sparsegp.ivm import features
from sparsegp.ivm.inclusions import Candidates, Inclusions
from sparsegp.ivm.verify import first_overtaken
from sparsegp.kernels import Kernel, half_squared_norms
from sparsegp.likelihoods.multinomial_probit import MultinomialProbit
from sparsegp.math.linalg import inverse_lower
from sparsegp.math.products import thin_times
from sparsegp.math.summation import snap
from sparsegp.selection.criteria import Criterion, Marginals
from sparsegp.selection.lazy import Scores
from sparsegp.types import Booleans, Doubles, Floats, Integers

TILE = 256
GROUP = 16
"""Tiles worked on at a time, so that temporaries stay in cache."""


@dataclass(frozen=True)
class BlockSettings:
    """What all row blocks of a run have in common.

    Attributes
    ----------
    kernels : sequence of Kernel
        One for all classes, or one a class.
    likelihood : MultinomialProbit
    criterion : Criterion
    n_classes : int
    capacity : int
        Active rows that the stub matrices have room for.
    lazy : bool
        Evaluate only those scores that can matter.
    unit : int
        Tiles that blocks do not divide.
    allocate : callable
        From shape and dtype to an array for inputs or stub matrices.
    """

    kernels: Sequence[Kernel]
    likelihood: MultinomialProbit
    criterion: Criterion
    n_classes: int
    capacity: int
    lazy: bool = True
    unit: int = 1
    allocate: Callable[[tuple[int, ...], DTypeLike], NDArray[Any]] = np.zeros


@dataclass(frozen=True)
class Standing:
    """How well the current means label the rows of a block.

    Attributes
    ----------
    rows : int
    errors : int
        Rows whose largest latent mean is not that of their class.
    log_z : float
        Sum of log predictive probabilities of the labels; only for held-out rows.
    labelled : int
        Rows whose label is a known class, over which `log_z` runs.
    """

    rows: int
    errors: int
    log_z: float
    labelled: int


class RowBlock:
    """Consecutive rows and their state.

    Parameters
    ----------
    settings : BlockSettings
    X : array (m, p)
        Inputs; scaled and in the working precision, unless there is a transform.
    target : Integers (m,)
        Class codes; -1 for a label that training has not seen.
    first_row : int
        Row number of the first row in the whole data set, a multiple of `TILE`.
    held_out : bool
        Rows that follow the training without taking part in it.
    aside : Booleans (m,), optional
        Rows kept aside: they are not included, and count in the all-data posterior only when told.
    transform : callable, optional
        Maps some rows of X to scaled inputs in the working precision.
    """

    def __init__(
        self,
        settings: BlockSettings,
        X: Floats,
        target: Integers,
        first_row: int,
        held_out: bool = False,
        aside: Booleans | None = None,
        transform: Callable[[Any], Floats] | None = None,
    ) -> None:
        if first_row % TILE:
            raise ValueError(f"first_row must be a multiple of {TILE}, got {first_row}")
        self.settings = settings
        self.held_out = held_out
        self.n_rows = len(X)
        self.X = _tiles(X, transform, settings.allocate)
        self.n_tiles = len(self.X)
        self.half_norms = half_squared_norms(self.X)
        padded = self.n_tiles * TILE
        self.rows = np.arange(first_row, first_row + padded)
        self.target = np.zeros(padded, dtype=np.int64)
        self.target[: self.n_rows] = target
        self.open = np.zeros(padded, dtype=bool)
        self.open[: self.n_rows] = not held_out
        self.aside = np.zeros(padded, dtype=bool)
        if aside is not None:
            self.aside[: self.n_rows] = aside
            self.open &= ~self.aside
        n_kernels = len(settings.kernels)
        self.n_active = 0
        shape = (n_kernels, self.n_tiles, settings.capacity, TILE)
        self.stub: Floats = settings.allocate(shape, self.X.dtype)
        self.mean = np.zeros((padded, settings.n_classes))
        self.variance = np.stack(
            [kernel.diag(self.X).reshape(padded) for kernel in settings.kernels], axis=1
        ).astype(np.float64)
        self.scores = Scores(
            settings.criterion,
            settings.likelihood,
            np.maximum(self.target, 0),
            settings.n_classes,
            settings.lazy and n_kernels == 1,
        )
        self._pending: tuple[Inclusions, Floats] | None = None

    # -- inclusion ---------------------------------------------------------------------------------

    def propose(self, batch: Inclusions, pool: Integers) -> int:
        """Return how many rows of the batch are the true winners as far as this block can tell.

        Parameters
        ----------
        batch : Inclusions
            Chosen among the candidates `pool` only.
        pool : Integers (c,)
            Rows that need no check.

        Returns
        -------
        int
            The first j > 0 before whose inclusion a row outside the pool scores better than
            `batch.rows[j]`, or `batch.count`.
        """
        if self.held_out:
            return batch.count
        self._require(batch.start)
        columns = self._columns(batch)
        self._pending = (batch, columns)
        open_ = self.open.copy()
        open_[self._local(pool)] = False
        return first_overtaken(batch, self._marginals(), self.scores, open_, columns, GROUP)

    def include(self, batch: Inclusions) -> None:
        """Apply a batch: new stub columns, variances and means (GR eq. 5.1-5.4)."""
        if self.n_active >= batch.stop:
            return  # a message that comes twice
        self._require(batch.start)
        columns = self._pending_columns(batch)
        stop, q = batch.start + batch.count, batch.count
        mean = self.mean.reshape(self.n_tiles, TILE, -1)
        for tiles in self._groups():
            for c in range(len(self.settings.kernels)):
                new = columns[c, tiles]
                self.stub[c, tiles, batch.start : stop] = new[:, :q]
                wide = new.astype(np.float64)
                wide[:, q:] = 0.0
                change = np.matmul(wide.transpose(0, 2, 1), batch.step[c])
                if len(self.settings.kernels) == 1:
                    mean[tiles] += change
                else:
                    mean[tiles, :, c] += change[..., 0]
                variance = self.variance[:, c].reshape(self.n_tiles, TILE)
                variance[tiles] -= np.einsum("tqn,tqn->tn", wide, wide)
        self.open[self._local(batch.rows[:q])] = False
        self.n_active = stop

    def _columns(self, batch: Inclusions) -> Floats:
        """Return the stub columns of a batch, (C, tiles, q, TILE)."""
        t = batch.start
        shape = (len(self.settings.kernels), self.n_tiles, batch.slots, TILE)
        columns: Floats = np.empty(shape, dtype=self.X.dtype)
        for c, kernel in enumerate(self.settings.kernels):
            past = batch.factor[c, :, :t].astype(self.X.dtype)
            within = inverse_lower(batch.factor[c, :, t:]).astype(self.X.dtype)
            for tiles in self._groups():
                residual = kernel(self.X[tiles], batch.x, self.half_norms[tiles]).transpose(0, 2, 1)
                if t:
                    residual = residual - thin_times(past, self.stub[c, tiles, :t])
                np.matmul(within, residual, out=columns[c, tiles])
        return columns

    def _pending_columns(self, batch: Inclusions) -> Floats:
        pending, self._pending = self._pending, None
        if pending is not None:
            same = pending[0].start == batch.start and np.array_equal(
                pending[0].rows[: batch.count], batch.rows[: batch.count]
            )
            if same:
                return pending[1]
        return self._columns(batch)

    def _require(self, n_active: int) -> None:
        if self.n_active != n_active:
            raise RuntimeError(
                f"row block at {self.rows[0]} holds {self.n_active} inclusions, not {n_active}"
            )

    # -- answers -----------------------------------------------------------------------------------

    def advance(
        self, batch: Inclusions | None, n_active: int, count: int
    ) -> tuple[Integers, Doubles, Candidates | None]:
        """Apply a batch and return the rows that now score best, and their scores.

        Parameters
        ----------
        batch : Inclusions or None
        n_active : int
            Active rows after it.
        count : int
            Rows wanted. If it is one, all that is needed to include it comes along.
        """
        if batch is not None:
            self.include(batch)
        self._require(n_active)
        index, scores = self.scores.top(self._marginals(), self.open, count)
        rows = self.rows[index]
        return rows, scores, self.gather(rows, scores) if count == 1 else None

    def gather(self, rows: Integers, scores: Doubles) -> Candidates:
        """Return what is needed to include those of the rows that are in this block."""
        index = self._local(rows)
        tile, place = index // TILE, index % TILE
        return Candidates(
            rows=self.rows[index],
            target=self.target[index],
            score=scores[self._holds(rows)],
            x=self.X[tile, place],
            stub=self.stub[:, tile, : self.n_active, place].swapaxes(0, 1),
            mean=self.mean[index],
            variance=self.variance[index],
        )

    def standing(self) -> Standing:
        """Return the errors of the current means, and log probabilities for held-out rows."""
        rows = slice(0, self.n_rows)
        target, mean = self.target[rows], self.mean[rows]
        errors = int(np.count_nonzero(mean.argmax(axis=1) != target))
        known = target >= 0
        total = 0.0
        if self.held_out and known.any():
            total = float(
                self.settings.likelihood.log_z(
                    mean[known], self.variance[rows][known], target[known]
                ).sum()
            )
        return Standing(self.n_rows, errors, total, int(known.sum()))

    def fingerprint(self) -> list[str]:
        """Return a digest of the inputs and labels of each tile."""
        target = self.target.reshape(self.n_tiles, TILE)
        return [
            hashlib.blake2b(x.tobytes() + codes.tobytes(), digest_size=8).hexdigest()
            for x, codes in zip(self.X, target, strict=True)
        ]

    def state_digest(self) -> str:
        """Return a digest of the marginals, to the last bit."""
        digest = hashlib.blake2b(self.mean.data, digest_size=16)
        digest.update(self.variance.data)
        return digest.hexdigest()

    def array(self, name: str, process: int = 0) -> Floats:
        """Return `stub` (d, m) of one process, `mean` (m, K) or `variance` (m, C)."""
        if name == "stub":
            stub = self.stub[process, :, : self.n_active].transpose(1, 0, 2)
            return stub.reshape(self.n_active, len(self.rows))[:, : self.n_rows]
        state: Any = {"mean": self.mean, "variance": self.variance}[name]
        return np.array(state[: self.n_rows])

    # -- all-data posterior ------------------------------------------------------------------------

    def gram(self, n_active: int, grain: float) -> Doubles | None:
        """Return M M^T of every process, (C, d, d); None for held-out rows."""
        self._require(n_active)
        if self.held_out:
            return None
        counts = (np.arange(len(self.rows)) < self.n_rows).reshape(self.n_tiles, TILE)
        return features.gram(self.stub[:, :, :n_active], counts, self.settings.unit, grain)

    def slope(
        self, n_active: int, coefficients: Doubles, joined: bool, value_grain: float, grain: float
    ) -> tuple[float, Doubles, Doubles] | None:
        """Return the sum of log Z at the means M^T c, and M p; None for held-out rows.

        Third comes log Z of the rows kept aside, unless they count.

        Parameters
        ----------
        n_active : int
        coefficients : Doubles (C, d, R)
        joined : bool
            Whether rows kept aside count.
        value_grain, grain : float
            Quanta of the two sums.
        """
        self._require(n_active)
        if self.held_out:
            return None
        counts = np.arange(len(self.rows)) < self.n_rows
        aside = np.zeros_like(counts) if joined else self.aside
        every = np.empty(len(counts))

        def gradient(mean: Floats, rows: slice) -> Floats:
            some = np.flatnonzero(counts[rows])
            p = np.zeros_like(mean)
            every[rows][some], p[some] = self.settings.likelihood.mean_gradient(
                mean[some], self.target[rows][some]
            )
            p[aside[rows]] = 0
            return p

        stub = self.stub[:, :, :n_active]
        pull = features.slope(stub, coefficients, gradient, grain)
        value = float(snap(every[counts & ~aside], value_grain).sum())
        return value, pull, every[aside]

    def rescore(self, coefficients: Doubles) -> None:
        """Score the rows, from now on, by M^T c of the first d inclusions; c (C, d, R)."""
        d = coefficients.shape[1]
        self._require(max(d, self.n_active))  # there may be more by now
        if not self.held_out:
            mean = features.means(self.stub[:, :, :d], coefficients)
            self.scores.freeze(Marginals(self.rows, self.target, mean, np.zeros((len(mean), 1))))

    def kept_aside(self) -> tuple[Floats, Integers]:
        """Return the scaled inputs and class codes of the rows kept aside."""
        index = np.flatnonzero(self.aside)
        return self.X[index // TILE, index % TILE], self.target[index]

    # -- addressing --------------------------------------------------------------------------------

    def _marginals(self) -> Marginals:
        return Marginals(self.rows, self.target, self.mean, self.variance)

    def _holds(self, rows: Integers) -> Booleans:
        first = self.rows[0]
        inside = (rows >= first) & (rows < first + self.n_rows)
        return np.asarray(inside & (not self.held_out))

    def _local(self, rows: Integers) -> Integers:
        return np.asarray(rows[self._holds(rows)] - self.rows[0])

    def _groups(self) -> Iterator[slice]:
        for start in range(0, self.n_tiles, GROUP):
            yield slice(start, min(start + GROUP, self.n_tiles))


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
