"""Row blocks with one active set for all processes.

The recursion of tests/ivm/reference.py, for many rows and inclusions at a time.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.ivm import features
from sparsegp.ivm.active_set import Inclusions, OfferedRows
from sparsegp.ivm.criteria import Marginals
from sparsegp.ivm.rows import Block
from sparsegp.ivm.scores import Scores, rounding_error
from sparsegp.ivm.verify import first_overtaken
from sparsegp.math.linalg import inverse_lower
from sparsegp.math.products import TILE, matmul_few_rows
from sparsegp.math.subnormals import drop_tiny, rounded
from sparsegp.math.summation import snap
from sparsegp.types import Doubles, Floats, Integers


class RowBlock(Block):
    """Block of consecutive rows and their state, with one active set for all processes."""

    def _begin(self) -> None:
        super()._begin()
        settings = self.settings
        if settings.bound is None:
            self._make_room(settings.capacity)
        lazy = settings.lazy and len(settings.kernels) == 1
        rounding = rounding_error(self.variance.astype(self.X.dtype))
        of = settings.criterion, settings.rule, self.target, settings.n_latent
        self.scores = Scores(*of, rounding, lazy)
        self._pending: tuple[Inclusions, list[Floats]] | None = None
        self._part: tuple[list[Floats], list[list[Floats]]] | None = None

    def _make_room(self, count: int) -> None:
        super()._make_room(count)
        for panels in self.stubs:
            panels.append(self._allocate_panel(count))

    def _evaluate(self, index: Integers, marginals: Marginals) -> Doubles:
        return self.scores.evaluate(index, marginals)

    def _reindex(self, places: Integers) -> None:
        self.scores.take(places)
        self._pending = None

    # -- inclusion ---------------------------------------------------------------------------------

    def propose(self, batch: Inclusions, pool: Integers) -> int:
        """Return how many rows of the batch are in greedy order, as far as this block can tell.

        Parameters
        ----------
        batch : Inclusions
            Chosen from the candidates `pool` only.
        pool : Integers (c,)
            Rows that need no check, since the driver compared them.

        Returns
        -------
        int
            The first j > 0 for which a row outside the pool scores better than `batch.rows[j]`
            just before its inclusion, or `batch.count`.
        """
        if self.held_out:
            return batch.count
        self._require(batch.start)
        columns = self._columns(batch)
        self._pending = (batch, columns)
        open_ = self.open.copy()
        open_[self._places(pool)] = False
        return first_overtaken(batch, self.marginals(), self.scores, open_, columns, self.group)

    def include(self, batch: Inclusions) -> None:
        """Apply a batch: new stub columns, variances and means (GR eq. 5.1-5.4)."""
        if self.n_active >= batch.stop:
            return  # the message was received before
        self._require(batch.start)
        columns, q, width = self._pending_columns(batch), batch.count, batch.step.shape[2]
        mean = self.mean.reshape(self.n_tiles, self.width, self.mean.shape[1])
        variance = self.variance.reshape(self.n_tiles, self.width, len(columns))
        for c, panels in enumerate(self.stubs):
            panel = panels[-1]  # a batch never straddles panels
            first = batch.start - (self.room - panel.shape[1])
            own, step = slice(c * width, (c + 1) * width), batch.padded_rows(batch.step[c])
            for tiles in self._groups():
                panel[tiles, first : first + q] = columns[c][tiles, :q]  # M, eq. 5.3
                mu = columns[c][tiles].astype(np.float64)
                mu[:, q:] = 0.0
                mean[tiles, :, own] += np.matmul(mu.transpose(0, 2, 1), step)  # eq. 5.4
                variance[tiles, :, c] -= np.einsum("tqn,tqn->tn", mu, mu)  # eq. 5.2
        self.open[self._places(batch.rows)] = False
        self.n_active, self.sizes = batch.stop, [batch.stop] * len(columns)

    def _columns(self, batch: Inclusions) -> list[Floats]:
        """Return the stub columns of a batch, (tiles, slots, width) for each process."""
        t, dtype = batch.start, self.X.dtype
        x, found = batch.padded_rows(batch.x), []
        for c, kernel in enumerate(self.settings.kernels):
            factor = batch.padded_factor(c)
            past = rounded(factor[:, :t], dtype)
            within = rounded(inverse_lower(factor[:, t:]), dtype)
            columns = np.empty((self.n_tiles, batch.slots, self.width), dtype=dtype)
            for tiles in self._groups():
                X, half_norms = self._inputs(tiles)
                sigma = kernel(X, x, half_norms).transpose(0, 2, 1)
                for these, panel in self._panels(c):
                    sigma -= np.matmul(past[:, these], panel[tiles])  # eq. 5.1
                drop_tiny(np.matmul(within, drop_tiny(sigma), out=columns[tiles]))
            found.append(columns)
        return found

    def _pending_columns(self, batch: Inclusions) -> list[Floats]:
        """Return the stub columns of a batch, reusing those computed when it was proposed."""
        pending, self._pending = self._pending, None
        if pending is not None:
            proposed, columns = pending
            same_rows = np.array_equal(proposed.rows[: batch.count], batch.rows)
            if proposed.start == batch.start and same_rows:
                return columns
        return self._columns(batch)

    # -- candidates --------------------------------------------------------------------------------

    def advance(
        self, batch: Inclusions | None, n_active: int, count: int
    ) -> tuple[Integers, Doubles]:
        """Apply a batch, if any, and return the best candidates for the next one.

        After the batch there are `n_active` active rows.

        Returns
        -------
        rows : Integers (m,)
            The `count` candidates with the best scores, or all if there are fewer.
        scores : Doubles (m,)
            In units of `ROUNDING_UNIT`.
        """
        if batch is not None:
            self.include(batch)
        self._require(n_active)
        index, scores = self.scores.top(self.marginals(), self.open, count)
        return self.rows[index], scores

    def gather(self, rows: Integers, scores: Doubles) -> OfferedRows:
        """Return the data needed to include those rows that are in this block."""
        index = self._places(rows)
        x, score = self.X[self.rows[index] - self.first_row], scores[self._contains(rows)]
        stub = np.stack([self._stub_rows(index, c) for c in range(len(self.stubs))])
        return OfferedRows(self.marginals().take(index), score, x, stub)

    # -- all-data posterior ------------------------------------------------------------------------

    def _stub(self, d: int) -> list[Floats]:
        """Return the first d stub columns of all rows, (tiles, d, TILE) for each process."""
        return [whole[:, :d] for (whole,) in self.stubs]  # a single panel, as there is no bound

    def gram(self, n_active: int, quantum: float) -> Doubles | None:
        """Return the weighted M M^T of each process, (C, d, d); None for held-out rows."""
        self._require(n_active)
        if self.held_out:
            return None
        unit = self.settings.unit
        return features.gram(self._stub(n_active), self.real, unit, quantum, self.weights)

    def slope(
        self,
        n_active: int,
        coefficients: Doubles,
        joined: bool,
        columns: int,
        value_unit: float,
        unit: float,
    ) -> tuple[float, Doubles, Doubles] | None:
        """Return the sum of log Z at the means M^T c, and M p; None for held-out rows.

        Log Z and its gradient p are multiplied by the row weights. The third result is the
        unweighted log Z of the validation rows, empty if these count.

        Parameters
        ----------
        n_active : int
        coefficients : Doubles (C, d, R)
        joined : bool
            Whether validation rows count.
        columns : int
            Number of leading rows of each tile that count; the third result uses all.
        value_unit, unit : float
            Quanta to which the terms of the two sums are rounded.
        """
        self._require(n_active)
        if self.held_out:
            return None
        whole, likelihood = columns == TILE, self.settings.likelihood
        stub, group = self._stub(n_active), self.settings.unit
        if whole:
            self._part = None
        elif self._part is None:  # kept between iterations
            self._part = (
                [features.first_columns(M, group, columns) for M in stub],
                list(features.chosen_columns(stub, group, self.validation)),
            )

        def tiled(values: NDArray[Any]) -> NDArray[Any]:
            tiles = values.reshape(-1, TILE)
            return tiles if whole else features.first_columns(tiles, group, columns)

        target, real, counts = tiled(self.target), tiled(self.real), tiled(~self.validation)
        weights = None if self.weights is None else tiled(self.weights)
        log_z = np.zeros(real.shape)

        def gradient(mean: Floats, tiles: slice) -> Floats:
            some = slice(0, int(real[tiles].sum()))  # the last tile is padded
            p, found = np.zeros_like(mean), log_z[tiles].reshape(-1)
            found[some], p[some] = likelihood.mean_gradient(mean[some], target[tiles].ravel()[some])
            if not joined:
                p[~counts[tiles].ravel()] = 0
            if weights is not None:
                p *= weights[tiles].reshape(-1, 1)
            return p

        M, together = (stub, group) if self._part is None else (self._part[0], 1)
        pull = features.slope(M, coefficients, gradient, together, unit)
        terms = log_z if weights is None else log_z * weights
        value = float(snap(terms[real & (joined | counts)], value_unit).sum())
        if self._part is None:
            return value, pull, log_z[~counts & (not joined)]
        c = coefficients.transpose(0, 2, 1).astype(stub[0].dtype)
        parts = [np.concatenate([*map(matmul_few_rows, c, own)]) for own in self._part[1]]
        mean = np.concatenate(parts, axis=1).T
        return value, pull, likelihood.mean_gradient(mean, self.target[self.validation])[0]
