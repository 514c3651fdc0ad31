"""Randomised greedy selection: candidates are dropped, so that stub matrices stay small.

With a bound B on stub entries the candidates J must satisfy |J| d <= B (SLH section 3.2). Every k
inclusions J is reduced to the size m' that satisfies this for the next k inclusions. Active rows
leave J first; if it is still larger, a fraction rho of m' is kept by score and the others are drawn
at random from the rest. Dropped rows do not come back: updating them would cost as much as keeping
them.

Which rows are kept must not depend on the partition into blocks. It is decided by three thresholds,
which the driver computes from the scores of all candidates and any block can apply again. Random
numbers break ties: otherwise a file sorted by class would lose its last classes at the start, when
all scores are equal.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sparsegp.errors import SettingsError
from sparsegp.math.hashing import mixed
from sparsegp.types import Booleans, Doubles, Floats, Integers

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Bound:
    """Limit on stub entries, and how candidates are thinned out."""

    entries: int  # B, over the candidates of all blocks, with one stub column per inclusion
    every: int  # k, the number of inclusions between two thinnings
    best: float  # rho, the fraction of the kept candidates that is chosen by score

    def room(self, n_active: int, capacity: int) -> int:
        """Return the number of active rows at the next thinning."""
        return min((n_active // self.every + 1) * self.every, capacity)

    def size(self, room: int) -> int:
        """Return m', the maximum number of candidates with `room` active rows."""
        return self.entries // room

    def sizes(self, n_rows: int, capacity: int) -> list[tuple[int, int, int]]:
        """Return, per thinning, the active rows at it and at the next, and the candidates kept.

        Initially all n rows are candidates.
        """
        found, candidates = [], n_rows
        for start in range(0, capacity, self.every):
            room = self.room(start, capacity)
            candidates = min(candidates, self.size(room))
            found.append((start, room, candidates))
            candidates -= room - start
        return found

    def for_run(self, n_rows: int, capacity: int, n_columns: int) -> "Bound | None":
        """Return the bound for `n_columns` stub columns per inclusion; None if all rows fit.

        Raises
        ------
        SettingsError
            If candidates would run out.
        """
        if n_rows * capacity * n_columns <= self.entries:
            return None
        starts = range(0, capacity, self.every)
        least = n_columns * max(self.room(d, capacity) * (capacity - d) for d in starts)
        if self.entries < least:
            raise SettingsError(
                f"stub_entries must be at least {least}, so that there are candidates for all "
                f"{capacity} inclusions, got {self.entries}; raise stub_entries, "
                "or lower n_active"
            )
        return replace(self, entries=self.entries // n_columns)


@dataclass(frozen=True)
class Keep:
    """A thinning: which candidates are kept, and until when.

    A row is kept if its score word exceeds `score`, or equals it and its random word is below
    `tie`, or its random word is below `other`. All candidates are kept if `score` is 0.
    """

    start: int  # number of active rows now
    room: int  # and at the next thinning
    score: int = 0
    tie: int = 0
    other: int = 0


@dataclass(frozen=True)
class Ranking:
    """Words by which candidates are ranked: higher scores and smaller random words come first."""

    score: Words  # (n,)
    random: Words  # (n,)

    @classmethod
    def of(cls, scores: Doubles, rows: Integers, seed: int, n_active: int) -> "Ranking":
        """Return the ranking of rows with the given scores.

        Parameters
        ----------
        scores : Doubles (n,)
            In units of `ROUNDING_UNIT`.
        rows : Integers (n,)
            Row numbers in the whole data set.
        seed, n_active : int
            Keys of the random words, which differ from row to row.
        """
        key = np.random.SeedSequence(seed, spawn_key=(n_active,)).generate_state(1, np.uint64)[0]
        return cls(ordered(scores), mixed(rows.astype(np.uint64) ^ key))

    @classmethod
    def joined(cls, parts: Sequence["Ranking"]) -> "Ranking":
        """Return the joint ranking of the rows of several blocks."""
        score = np.concatenate([part.score for part in parts])
        return cls(score, np.concatenate([part.random for part in parts]))

    def best(self, score: int, tie: int) -> Booleans:
        """Return a mask of the rows that are kept by score, (n,)."""
        equal = (self.score == np.uint64(score)) & (self.random < np.uint64(tie))
        return np.asarray((self.score > np.uint64(score)) | equal)

    def kept(self, keep: Keep) -> Booleans:
        """Return a mask of the rows that are kept, (n,)."""
        return np.asarray(self.best(keep.score, keep.tie) | (self.random < np.uint64(keep.other)))

    def thresholds(self, most: int, best: int) -> tuple[int, int, int]:
        """Return score, tie and other of the `Keep` of `most` of these rows, `best` by score.

        There must be more than `most` rows.
        """
        score = 2**64 - 1 - _nth(~self.score, best)
        larger, equal = self.score > np.uint64(score), self.score == np.uint64(score)
        tie = _nth(self.random[equal], best - int(larger.sum()))
        return score, tie, _nth(self.random[~self.best(score, tie)], most - best)


def _nth(words: Words, n: int) -> int:
    """Return the n-th smallest word, counted from 0."""
    return int(np.partition(words, n)[n])


def ordered(scores: Doubles) -> Words:
    """Return words in the order of the numbers; NaN comes last, or first if its sign bit is set."""
    bits = (scores + 0.0).view(np.uint64)  # makes -0.0 equal to 0.0
    negative = bits >> np.uint64(63) == 1
    return np.asarray(np.where(negative, ~bits, bits | np.uint64(1 << 63)))


def pack(kept: Booleans, group: Integers, width: int) -> tuple[Integers, Booleans]:
    """Return the places of the kept rows, padded to whole tiles, and a mask of the real ones.

    Rows move only within their group, and every group starts a new tile. The place of a row in its
    tile, on which the rounding of some matrix products depends, is thus the same however groups are
    divided between blocks.

    Parameters
    ----------
    kept : Booleans (m,)
    group : Integers (m,)
        Group of each row, ascending.
    width : int
        Rows in a tile.
    """
    places, real = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=bool)]
    index = np.flatnonzero(kept)
    for part in np.split(index, np.flatnonzero(np.diff(group[index])) + 1):
        fill = -len(part) % width
        places.append(np.concatenate([part, np.repeat(part[-1:], fill)]))
        real.append(np.arange(len(part) + fill) < len(part))
    return np.concatenate(places), np.concatenate(real)


def move(old: Floats, new: Floats, places: Integers, step: int) -> None:
    """Copy the stub columns of rows at ascending places into new tiles.

    Parameters
    ----------
    old, new : Floats (tiles, q, width)
    places : Integers (tiles * width,)
        Place in `old` of each row of `new`.
    step : int
        Number of tiles processed at a time, so that temporaries stay small.
    """
    n_tiles, q, width = new.shape
    for start in range(0, n_tiles, step):
        index = places[start * width : (start + step) * width]
        first, last = index[0] // width, index[-1] // width + 1
        flat = old[first:last].swapaxes(0, 1).reshape(q, -1)
        new[start : start + step] = (
            flat[:, index - first * width].reshape(q, -1, width).swapaxes(0, 1)
        )
