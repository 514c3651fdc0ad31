"""Rows of which some leave as the selection goes: what a block does when candidates get fewer.

Who stays is decided by thresholds (ivm/shrink.py), which every block applies to its own rows.
"""

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from sparsegp.ivm.criteria import Marginals
from sparsegp.ivm.rows import GROUP, TILE, Rows
from sparsegp.ivm.scores import quantise
from sparsegp.ivm.shrink import Keep, Ranking, move, pack
from sparsegp.types import Booleans, Doubles, Floats, Integers


class ThinnedRows(Rows):
    """Rows that take part in a selection; `open` are the candidates.

    Attributes
    ----------
    n_active : int
        Inclusions so far.
    room : int
        Inclusions up to which the candidates held may go on.
    """

    def _begin(self) -> None:
        super()._begin()
        self.n_active, self.room = 0, 0
        self._ranking: tuple[int, Ranking] | None = None

    @abstractmethod
    def _evaluate(self, index: Integers, marginals: Marginals) -> Doubles:
        """Return the scores of some candidates, (len(index),)."""

    @abstractmethod
    def _follow(self, places: Integers) -> None:
        """Move what else is held of the rows to where they stand from now on."""

    def _add_columns(self, count: int) -> None:
        """Make room for more inclusions."""
        self.room += count

    def keep(self, keep: Keep) -> None:
        """Let go of the candidates that do not stay, and make room for the coming inclusions.

        Held-out rows follow the selection: all of them stay.
        """
        if self.room >= keep.room:
            return  # a message that comes twice
        self._require(keep.start)
        if not self.held_out:
            stay = self.open.copy()
            if keep.score:
                stay[stay] = self._rank().stay(keep)
            if not np.array_equal(stay, self.real):
                self._hold(stay)
        self._ranking = None
        self._add_columns(keep.room - keep.start)

    def count(self, n_active: int) -> int:
        """Return how many candidates there are."""
        self._require(n_active)
        return int(self.open.sum())

    def tally(self, n_active: int, found: Sequence[int], prefix: int, shift: int) -> Integers:
        """Return what a threshold of `Keep` is found from: see `Ranking.tally`."""
        self._require(n_active)
        return self._rank().tally(found, prefix, shift)

    def _rank(self) -> Ranking:
        """Return the ranking of the candidates by their scores of the present."""
        if self._ranking is None or self._ranking[0] != self.n_active:
            open_, marginals = np.flatnonzero(self.open), self._marginals()
            scores = np.empty(len(open_))
            for start in range(0, len(open_), GROUP * TILE):
                some = slice(start, start + GROUP * TILE)
                scores[some] = self._evaluate(open_[some], marginals.take(open_[some]))
            seed = self.settings.criterion.seed
            ranking = Ranking(quantise(scores), self.rows[open_], seed, self.n_active)
            self._ranking = self.n_active, ranking
        return self._ranking[1]

    def _hold(self, stay: Booleans) -> None:
        """Go on with some of the rows alone."""
        group = (self.rows - self.first_row) // (self.settings.unit * TILE)
        places, self.real = pack(stay, group, self.width)
        for name in ("rows", "target", "scored_target", "mean", "variance"):
            setattr(self, name, getattr(self, name)[places])
        self.open = self.real.copy()
        self.n_tiles, self.moved = len(places) // self.width, True
        self._follow(places)

    def _moved(self, stub: Floats, places: Integers) -> Floats:
        """Return stub columns (C, tiles, q, width) of the rows at some places."""
        moved: Floats = self.settings.allocate(
            (len(stub), self.n_tiles, *stub.shape[2:]), stub.dtype
        )
        move(stub, moved, places, self.group)
        return moved

    def _inputs(self, tiles: slice) -> tuple[Floats, Floats]:
        """Return the inputs in some tiles, (tiles, width, p), and |x|^2 / 2 of them."""
        X, half_norms = self.X.reshape(-1, self.X.shape[2]), self.half_norms.reshape(-1)
        index: slice | Integers = slice(tiles.start * self.width, tiles.stop * self.width)
        if self.moved:
            index = self.rows[index] - self.first_row
        shape = (-1, self.width)
        return X[index].reshape(*shape, X.shape[1]), half_norms[index].reshape(shape)

    def _of_all_rows(self, values: Floats) -> Floats:
        """Return values (m, q) of the rows held, not a number for those that have left, (n, q)."""
        every = np.full((self.n_rows, values.shape[1]), np.nan, dtype=values.dtype)
        every[self.rows[self.real] - self.first_row] = values[self.real]
        return every

    def _require(self, n_active: int) -> None:
        if self.n_active != n_active:
            raise RuntimeError(
                f"row block at {self.first_row} holds {self.n_active} inclusions, not {n_active}"
            )
