"""Randomised greedy selection: fewer and fewer candidates, so that stub matrices stay small.

With a bound B on stub entries the candidates J shrink, |J| d <= B (SLH section 3.2). Every k
inclusions a size m' is found that holds until the end of the coming k; J loses its active rows, and
if it is still larger, a fraction rho of m' are the best by score and the others are drawn at random
from the rest. Rows that were dropped do not come back: to bring them to the present would cost as
much as to have kept them.

Which rows are kept must not depend on their partition into blocks. So three thresholds decide,
which the driver finds digit by digit from counts that the blocks send, and which any block can
apply again. Equal scores are told apart by the random number: a file sorted by class would
otherwise lose its last classes while nothing is known yet.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparsegp.errors import SettingsError
from sparsegp.ivm.criteria import mixed
from sparsegp.types import Booleans, Doubles, Floats, Integers

Words = NDArray[np.uint64]

DIGIT = 16
"""Bits of a threshold that are found by one message to the blocks."""


@dataclass(frozen=True)
class Bound:
    """How many stub entries there may be, and how candidates are thinned out.

    Parameters
    ----------
    entries : int
        B, of the candidates of all blocks and all processes.
    every : int
        k, inclusions between two thinnings.
    best : float
        rho, share of those kept that is kept by score.
    """

    entries: int
    every: int
    best: float

    def room(self, n_active: int, capacity: int) -> int:
        """Return the active rows before the next thinning."""
        return min((n_active // self.every + 1) * self.every, capacity)

    def size(self, room: int, n_processes: int) -> int:
        """Return m', the candidates that there may be with so many active rows."""
        return self.entries // (n_processes * room)

    def sizes(self, n_rows: int, capacity: int, n_processes: int) -> list[tuple[int, int, int]]:
        """Return active rows after a thinning and before the next, and candidates in between.

        All of n rows are candidates at first.
        """
        found, candidates = [], n_rows
        for start in range(0, capacity, self.every):
            room = self.room(start, capacity)
            candidates = min(candidates, self.size(room, n_processes))
            found.append((start, room, candidates))
            candidates -= room - start
        return found

    def for_run(self, n_rows: int, capacity: int, n_processes: int) -> "Bound | None":
        """Return the bound, or None where all rows can be kept to the end.

        Raises
        ------
        SettingsError
            If candidates would run out.
        """
        if n_rows * capacity * n_processes <= self.entries:
            return None
        starts = range(0, capacity, self.every)
        least = n_processes * max(self.room(d, capacity) * (capacity - d) for d in starts)
        if self.entries < least:
            raise SettingsError(
                f"stub_entries must be at least {least}, so that there are candidates for all "
                f"{capacity} inclusions, got {self.entries}; raise --stub-entries or "
                "--stub-memory, or lower --n-active"
            )
        return self


@dataclass(frozen=True)
class Keep:
    """Which candidates are kept, and until when.

    A row is kept if its score word exceeds `score`, or equals it and its random word is below
    `tie`, or its random word is below `other`.

    Attributes
    ----------
    start, room : int
        Active rows now, and before the next thinning.
    score, tie, other : int
        Thresholds; all rows are kept if the first is 0.
    """

    start: int
    room: int
    score: int = 0
    tie: int = 0
    other: int = 0


class Ranking:
    """Words by which rows are compared: greater scores and smaller random words go first.

    Parameters
    ----------
    scores : Doubles (n,)
        In units of the comparison.
    rows : Integers (n,)
        Row numbers in the whole data set.
    seed, n_active : int
        Key of the random words, which differ from row to row.
    """

    def __init__(self, scores: Doubles, rows: Integers, seed: int, n_active: int) -> None:
        self.order = ordered(scores)
        key = np.random.SeedSequence(seed, spawn_key=(n_active,)).generate_state(1, np.uint64)[0]
        self.random = mixed(rows.astype(np.uint64) ^ key)

    def best(self, score: int, tie: int) -> Booleans:
        """Return which rows are kept by score, (n,)."""
        order, at = self.order, np.uint64(score)
        return np.asarray((order > at) | ((order == at) & (self.random < np.uint64(tie))))

    def kept(self, keep: Keep) -> Booleans:
        """Return which rows are kept, (n,)."""
        return np.asarray(self.best(keep.score, keep.tie) | (self.random < np.uint64(keep.other)))

    def tally(self, found: Sequence[int], prefix: int, shift: int) -> Integers:
        """Return how often each digit at bit `shift` follows a prefix, (2^DIGIT,).

        Counted are the words among which the next threshold is, after those found already.
        """
        words: Words = ~self.order
        if len(found) == 1:
            words = self.random[self.order == np.uint64(found[0])]
        elif len(found) == 2:
            words = self.random[~self.best(found[0], found[1])]
        if shift + DIGIT < 64:
            words = words[words >> np.uint64(shift + DIGIT) == np.uint64(prefix)]
        digit = (words >> np.uint64(shift)) & np.uint64(2**DIGIT - 1)
        return np.bincount(digit.astype(np.int64), minlength=2**DIGIT)


def ordered(scores: Doubles) -> Words:
    """Return words that compare as the numbers do; those not a number are the greatest."""
    bits = (scores + 0.0).view(np.uint64)  # there is only one zero
    negative = bits >> np.uint64(63) == 1
    return np.asarray(np.where(negative, ~bits, bits | np.uint64(1 << 63)))


Tally = Callable[[Sequence[int], int, int], Integers]
"""From thresholds found, prefix and shift to the tally over all blocks."""


def thresholds(tally: Tally, most: int, best: int) -> tuple[int, int, int]:
    """Return score, tie and other of `Keep`, for more than `most` rows of which `best` by score."""
    inverse, rank = _nth(tally, (), best)
    score = inverse ^ (2**64 - 1)
    tie, _ = _nth(tally, (score,), rank)
    other, _ = _nth(tally, (score, tie), most - best)
    return score, tie, other


def _nth(tally: Tally, found: Sequence[int], n: int) -> tuple[int, int]:
    """Return the n-th smallest word, from 0, and its rank among the words equal to it."""
    prefix = 0
    for shift in range(64 - DIGIT, -1, -DIGIT):
        below = np.cumsum(tally(found, prefix, shift))
        digit = int(np.searchsorted(below, n, side="right"))
        n -= int(below[digit - 1]) if digit else 0
        prefix = prefix << DIGIT | digit
    return prefix, n


def pack(kept: Booleans, group: Integers, width: int) -> tuple[Integers, Booleans]:
    """Return the places of rows that are kept, in whole tiles, and which of them are no filling.

    Rows move up within their group only, and every group begins a tile: the place of a row in its
    tile, on which the rounding of some matrix products depends, is the same however groups are
    divided between blocks.

    Parameters
    ----------
    kept : Booleans (m,)
    group : Integers (m,)
        Of each row, ascending.
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
    """Copy stub columns of the rows at some places, ascending, into new tiles.

    Parameters
    ----------
    old, new : Floats (tiles, q, width)
    places : Integers (tiles * width,)
        Of the rows of `new` in `old`.
    step : int
        Tiles worked on at a time, so that temporaries stay small.
    """
    n_tiles, q, width = new.shape
    for start in range(0, n_tiles, step):
        index = places[start * width : (start + step) * width]
        first, last = index[0] // width, index[-1] // width + 1
        flat = old[first:last].swapaxes(0, 1).reshape(q, -1)
        new[start : start + step] = (
            flat[:, index - first * width].reshape(q, -1, width).swapaxes(0, 1)
        )
