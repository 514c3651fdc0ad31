"""One row block: its rows, their stub matrices and marginals, and how an inclusion changes them.

Every method can be repeated: a batch that was applied is not applied again.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from sparsegp.ivm import features
from sparsegp.ivm.evidence_rows import Representation, RowSums, row_sums
from sparsegp.ivm.inclusions import Candidates, Inclusions
from sparsegp.ivm.rows import GROUP, TILE, BlockSettings, Rows
from sparsegp.ivm.verify import first_overtaken
from sparsegp.math.linalg import inverse_lower
from sparsegp.math.products import thin_times
from sparsegp.math.summation import snap
from sparsegp.selection.criteria import Marginals
from sparsegp.selection.lazy import Scores
from sparsegp.types import Booleans, Doubles, Floats, Integers


class RowBlock(Rows):
    """Consecutive rows and their state; every process has the same active set."""

    def __init__(
        self,
        settings: BlockSettings,
        X: Floats,
        target: Any,
        first_row: int,
        held_out: bool = False,
        aside: Booleans | None = None,
        transform: Callable[[Any], Floats] | None = None,
    ) -> None:
        super().__init__(settings, X, target, first_row, held_out, aside, transform)
        self.n_active = 0
        shape = (len(settings.kernels), self.n_tiles, settings.capacity, TILE)
        self.stub: Floats = settings.allocate(shape, self.X.dtype)
        self.scores = Scores(
            settings.criterion,
            settings.rule,
            self.scored_target,
            settings.n_latent,
            settings.lazy and len(settings.kernels) == 1,
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
            likelihood: Any = self.settings.likelihood
            every[rows][some], p[some] = likelihood.mean_gradient(
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

    # -- evidence ----------------------------------------------------------------------------------

    def evidence(self, representation: Representation, spare: int) -> RowSums | None:
        """Return what open rows add to the evidence (learning/evidence.py); None for held-out rows.

        Parameters are those of `evidence_rows.row_sums`.
        """
        self._require(len(representation.x))
        if self.held_out:
            return None
        return row_sums(self.X, self.target, self.open, self.settings.unit, representation, spare)
