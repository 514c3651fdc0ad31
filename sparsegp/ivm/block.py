"""One row block: its rows, their stub matrices and marginals, and how an inclusion changes them.

The recursion is that of ivm/reference.py, for many rows and inclusions at a time.
Every method can be repeated: a batch that was applied is not applied again.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from sparsegp.ivm import features
from sparsegp.ivm.criteria import Marginals
from sparsegp.ivm.evidence_rows import Representation, RowSums
from sparsegp.ivm.inclusions import Candidates, Inclusions
from sparsegp.ivm.rows import TILE
from sparsegp.ivm.scores import Scores
from sparsegp.ivm.thinning import ThinnedRows
from sparsegp.ivm.verify import first_overtaken
from sparsegp.math.linalg import inverse_lower
from sparsegp.math.products import thin_times
from sparsegp.math.summation import snap
from sparsegp.types import Doubles, Floats, Integers


class RowBlock(ThinnedRows):
    """Consecutive rows and their state; every process has the same active set."""

    def _begin(self) -> None:
        super()._begin()
        settings = self.settings
        self.stubs: list[Floats] = []  # panels of `room` columns, (C, tiles, columns, width) each
        if settings.bound is None:
            self._add_columns(settings.capacity)
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
        return first_overtaken(batch, self._marginals(), self.scores, open_, columns, self.group)

    def include(self, batch: Inclusions) -> None:
        """Apply a batch: new stub columns, variances and means (GR eq. 5.1-5.4)."""
        if self.n_active >= batch.stop:
            return  # a message that comes twice
        self._require(batch.start)
        columns = self._pending_columns(batch)
        stop, q = batch.start + batch.count, batch.count
        panel = self.stubs[-1]  # a batch does not go beyond it
        first = batch.start - (self.room - panel.shape[2])
        mean = self.mean.reshape(self.n_tiles, self.width, self.mean.shape[1])
        for tiles in self._groups():
            for c in range(len(self.settings.kernels)):
                new = columns[c, tiles]
                panel[c, tiles, first : first + q] = new[:, :q]
                wide = new.astype(np.float64)
                wide[:, q:] = 0.0
                change = np.matmul(wide.transpose(0, 2, 1), batch.step[c])
                if len(self.settings.kernels) == 1:
                    mean[tiles] += change
                else:
                    mean[tiles, :, c] += change[..., 0]
                variance = self.variance[:, c].reshape(self.n_tiles, self.width)
                variance[tiles] -= np.einsum("tqn,tqn->tn", wide, wide)
        self.open[self._local(batch.rows[:q])] = False
        self.n_active = stop

    def _columns(self, batch: Inclusions) -> Floats:
        """Return the stub columns of a batch, (C, tiles, q, width)."""
        t = batch.start
        shape = (len(self.settings.kernels), self.n_tiles, batch.slots, self.width)
        columns: Floats = np.empty(shape, dtype=self.X.dtype)
        for c, kernel in enumerate(self.settings.kernels):
            past = batch.factor[c, :, :t].astype(self.X.dtype)
            within = inverse_lower(batch.factor[c, :, t:]).astype(self.X.dtype)
            for tiles in self._groups():
                X, half_norms = self._inputs(tiles)
                residual = kernel(X, batch.x, half_norms).transpose(0, 2, 1)
                for these, panel in self._panels(t):
                    some = panel[c, tiles, : these.stop - these.start]
                    residual = residual - thin_times(past[:, these], some)
                np.matmul(within, residual, out=columns[c, tiles])
        return columns

    def _panels(self, t: int) -> Iterator[tuple[slice, Floats]]:
        """Yield the panels that hold the first t stub columns, and which of them each holds."""
        start = 0
        for panel in self.stubs:
            stop = min(start + panel.shape[2], t)
            if start < stop:
                yield slice(start, stop), panel
            start = stop

    def _add_columns(self, count: int) -> None:
        """Make room for more stub columns."""
        shape = (len(self.settings.kernels), self.n_tiles, count, self.width)
        self.stubs.append(self.settings.allocate(shape, self.X.dtype))
        super()._add_columns(count)

    def _pending_columns(self, batch: Inclusions) -> Floats:
        pending, self._pending = self._pending, None
        if pending is not None:
            same = pending[0].start == batch.start and np.array_equal(
                pending[0].rows[: batch.count], batch.rows[: batch.count]
            )
            if same:
                return pending[1]
        return self._columns(batch)

    # -- candidates that leave ---------------------------------------------------------------------

    def _evaluate(self, index: Integers, marginals: Marginals) -> Doubles:
        return self.scores.evaluate(index, marginals)

    def _follow(self, places: Integers) -> None:
        self.scores.hold(places)
        self._pending = None
        for k, panel in enumerate(self.stubs):
            self.stubs[k] = self._moved(panel, places)

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
        tile, place = index // self.width, index % self.width
        stub = [
            panel[:, tile, : these.stop - these.start, place]
            for these, panel in self._panels(self.n_active)
        ]
        empty = np.empty((len(index), len(self.settings.kernels), 0), dtype=self.X.dtype)
        local = self.rows[index] - self.first_row
        return Candidates(
            rows=self.rows[index],
            target=self.target[index],
            score=scores[self._holds(rows)],
            x=self.X[local // TILE, local % TILE],
            stub=np.concatenate([empty, *stub], axis=2).swapaxes(0, 1),
            mean=self.mean[index],
            variance=self.variance[index],
        )

    def array(self, name: str, process: int = 0) -> Floats:
        """Return `stub` (d, m) of one process, `mean` (m, K) or `variance` (m, C).

        They are not a number for rows that are no candidates any more.
        """
        if name != "stub":
            return self._of_all_rows({"mean": self.mean, "variance": self.variance}[name])
        stub = np.empty((self.n_active, self.n_rows), dtype=self.X.dtype)
        for these, panel in self._panels(self.n_active):
            some = panel[process, :, : these.stop - these.start].swapaxes(1, 2)
            stub[these] = self._of_all_rows(some.reshape(len(self.rows), some.shape[2])).T
        return stub

    # -- all-data posterior ------------------------------------------------------------------------

    def _stub(self, d: int) -> Floats:
        """Return the first d stub columns of all rows, (C, tiles, d, TILE): there is no bound."""
        (whole,) = self.stubs
        return whole[:, :, :d]

    def gram(self, n_active: int, quantum: float) -> Doubles | None:
        """Return M M^T of every process, (C, d, d); None for held-out rows."""
        self._require(n_active)
        if self.held_out:
            return None
        counts = self.real.reshape(self.n_tiles, TILE)
        return features.gram(self._stub(n_active), counts, self.settings.unit, quantum)

    def slope(
        self, n_active: int, coefficients: Doubles, joined: bool, value_unit: float, unit: float
    ) -> tuple[float, Doubles, Doubles] | None:
        """Return the sum of log Z at the means M^T c, and M p; None for held-out rows.

        Third comes log Z of the validation rows, unless they count.

        Parameters
        ----------
        n_active : int
        coefficients : Doubles (C, d, R)
        joined : bool
            Whether validation rows count.
        value_unit, unit : float
            Quanta of the two sums.
        """
        self._require(n_active)
        if self.held_out:
            return None
        counts = self.real
        validation = np.zeros_like(counts) if joined else self.validation
        every = np.empty(len(counts))

        def gradient(mean: Floats, rows: slice) -> Floats:
            some = slice(0, int(counts[rows].sum()))  # the last tile is filled up
            p = np.zeros_like(mean)
            likelihood: Any = self.settings.likelihood
            every[rows][some], p[some] = likelihood.mean_gradient(
                mean[some], self.target[rows][some]
            )
            p[validation[rows]] = 0
            return p

        stub = self._stub(n_active)
        pull = features.slope(stub, coefficients, gradient, self.settings.unit, unit)
        value = float(snap(every[counts & ~validation], value_unit).sum())
        return value, pull, every[validation]

    def rescore(self, coefficients: Doubles) -> None:
        """Score the rows, from now on, by M^T c of the first d inclusions; c (C, d, R)."""
        d = coefficients.shape[1]
        self._require(max(d, self.n_active))  # there may be more by now
        if not self.held_out:
            mean = features.means(self._stub(d), coefficients)
            self.scores.freeze(Marginals(self.rows, self.target, mean, np.zeros((len(mean), 1))))

    # -- evidence ----------------------------------------------------------------------------------

    def evidence(self, n_active: int, representation: Representation, spare: int) -> RowSums | None:
        """Return what open rows add to the evidence (learning/evidence.py); None for held-out rows.

        Parameters are those of `evidence_rows.row_sums`.
        """
        self._require(n_active)
        return self._row_sums(self.open, representation, spare)
