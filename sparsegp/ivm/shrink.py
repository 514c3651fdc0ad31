"""Randomised greedy selection: fewer and fewer candidates, so that stub matrices stay small.

With a bound B on stub entries the candidates J shrink, |J| d <= B (SLH section 3.2). Every k
inclusions a size m' is found that holds until the end of the coming k; J loses its active rows, and
if it is still larger, a fraction rho of m' are the best by score and the others are drawn at random
from the rest. Rows that left do not come back: to bring them to the present would cost as much as
to have kept them.

Who stays must not depend on how rows are dealt to blocks. So it is said by three thresholds, which
the driver finds digit by digit from counts that the blocks send, and which any block can apply
again. Equal scores are told apart by the random number: a file sorted by class would otherwise lose
its last classes when nothing is known yet.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.errors import SettingsError
from sparsegp.ivm.criteria import mixed
from sparsegp.types import Booleans, Doubles, Floats, Integers

Words = NDArray[np.uint64]

DIGIT = 16
"""Bits of a threshold that are found by one question to the blocks."""
FIRST_SHIFT = 64 - DIGIT


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
        """Return the active rows at the end of the block of inclusions that now begins."""
        return min((n_active // self.every + 1) * self.every, capacity)

    def size(self, room: int, n_processes: int) -> int:
        """Return m', the candidates that there may be with so many active rows."""
        return self.entries // (n_processes * room)

    def sizes(self, n_rows: int, capacity: int, n_processes: int) -> list[tuple[int, int, int]]:
        """Return start, end and candidates of every block of inclusions, for n open rows."""
        found, start, left = [], 0, n_rows
        while start < capacity:
            room = self.room(start, capacity)
            left = min(left, self.size(room, n_processes))
            found.append((start, room, left))
            start, left = room, left - (room - start)
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
        rooms = [(self.room(start, capacity), capacity - start) for start in starts]
        least = n_processes * max(room * left for room, left in rooms)
        if self.entries < least:
            raise SettingsError(
                f"stub_entries must be at least {least}, so that there are candidates for all "
                f"{capacity} inclusions, got {self.entries}; raise --stub-entries or "
                "--stub-memory, or lower --n-active"
            )
        return self


@dataclass(frozen=True)
class Keep:
    """Which candidates stay, and until when.

    A row stays if its word of the score exceeds `score`, or equals it and its random word is below
    `tie`, or its random word is below `other`.

    Attributes
    ----------
    start : int
        Active rows now.
    room : int
        Active rows at the end of the coming block of inclusions.
    score, tie, other : int
        Thresholds; all rows stay if the first is 0.
    """

    start: int
    room: int
    score: int = 0
    tie: int = 0
    other: int = 0

    @property
    def stop(self) -> int:
        """Active rows after it."""
        return self.start


def room(kept: Sequence[Keep]) -> int:
    """Return the inclusions for which the candidates last kept are there."""
    return kept[-1].room if kept else 0


def in_order(kept: Sequence[Keep], included: Mapping[int, Any]) -> list[tuple[str, tuple[Any]]]:
    """Return the messages to a new block, from what was included after so many inclusions each."""
    keeps = [(keep.start, 0, ("keep", (keep,))) for keep in kept]
    others = [(start, 1, ("include", (message,))) for start, message in included.items()]
    return [message for _, _, message in sorted([*keeps, *others], key=lambda step: step[:2])]


def kept_arrays(kept: Sequence[Keep]) -> dict[str, NDArray[np.uint64]]:
    """Return thinnings as an array, if there are any."""
    return {"kept": np.array([astuple(k) for k in kept], dtype=np.uint64)} if kept else {}


def kept_from(arrays: Mapping[str, NDArray[Any]]) -> list[Keep]:
    """Rebuild what `kept_arrays` returned."""
    return [Keep(*words) for words in arrays.get("kept", np.empty((0, 5))).tolist()]


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
        """Return who stays by score, (n,)."""
        order, at = self.order, np.uint64(score)
        return np.asarray((order > at) | ((order == at) & (self.random < np.uint64(tie))))

    def stay(self, keep: Keep) -> Booleans:
        """Return who stays, (n,)."""
        return np.asarray(self.best(keep.score, keep.tie) | (self.random < np.uint64(keep.other)))

    def words(self, found: Sequence[int]) -> Words:
        """Return the words among which the next threshold is, after those found already."""
        words: Words = ~self.order
        if len(found) == 1:
            words = self.random[self.order == np.uint64(found[0])]
        elif len(found) == 2:
            words = self.random[~self.best(found[0], found[1])]
        return words

    def tally(self, found: Sequence[int], prefix: int, shift: int) -> Integers:
        """Return how often each digit at a place follows a prefix, (2^DIGIT,)."""
        words = self.words(found)
        if shift < FIRST_SHIFT:
            words = words[words >> np.uint64(shift + DIGIT) == np.uint64(prefix)]
        digit = (words >> np.uint64(shift)) & np.uint64(2**DIGIT - 1)
        return np.bincount(digit.astype(np.int64), minlength=2**DIGIT)


def ordered(scores: Doubles) -> Words:
    """Return words that compare as the numbers do; those not a number are the greatest."""
    bits = (scores + 0.0).view(np.uint64)  # there is only one zero
    negative = bits >> np.uint64(63) == 1
    return np.asarray(np.where(negative, ~bits, bits | np.uint64(1 << 63)))


Ask = Callable[[Sequence[int], int, int], Integers]
"""From thresholds found, prefix and shift to the tally over all blocks."""


def thresholds(ask: Ask, most: int, best: int) -> tuple[int, int, int]:
    """Return score, tie and other of `Keep`, for more than `most` rows of which `best` by score."""
    inverse, left = _nth(ask, (), best)
    score = inverse ^ (2**64 - 1)
    tie, _ = _nth(ask, (score,), left)
    other, _ = _nth(ask, (score, tie), most - best)
    return score, tie, other


def _nth(ask: Ask, found: Sequence[int], n: int) -> tuple[int, int]:
    """Return the n-th smallest word, from 0, and how many equal ones go before it."""
    prefix = 0
    for shift in range(FIRST_SHIFT, -1, -DIGIT):
        below = np.cumsum(ask(found, prefix, shift))
        digit = int(np.searchsorted(below, n, side="right"))
        n -= int(below[digit - 1]) if digit else 0
        prefix = prefix << DIGIT | digit
    return prefix, n


def pack(stay: Booleans, group: Integers, width: int) -> tuple[Integers, Booleans]:
    """Return the places of rows that stay, in whole tiles, and which of them are no filling.

    Rows move up within their group only, and every group begins a tile: where a row stands in its
    tile, on which the rounding of some matrix products depends, is the same however groups are
    dealt to blocks.

    Parameters
    ----------
    stay : Booleans (m,)
    group : Integers (m,)
        Of each row, ascending.
    width : int
        Rows in a tile.
    """
    parts, real = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=bool)]
    kept = np.flatnonzero(stay)
    for some in np.split(kept, np.flatnonzero(np.diff(group[kept])) + 1):
        fill = -len(some) % width
        parts.append(np.concatenate([some, np.repeat(some[-1:], fill)]))
        real.append(np.arange(len(some) + fill) < len(some))
    return np.concatenate(parts), np.concatenate(real)


def move(old: Floats, new: Floats, places: Integers, step: int) -> None:
    """Copy stub columns of the rows at some places, ascending, to where they stand from now on.

    Parameters
    ----------
    old, new : Floats (C, tiles, q, width)
    places : Integers (tiles * width,)
        Of the rows of `new` in `old`.
    step : int
        Tiles worked on at a time, so that temporaries stay small.
    """
    n_processes, n_tiles, q, width = new.shape
    for start in range(0, n_tiles, step):
        tiles = slice(start, min(start + step, n_tiles))
        some = places[start * width : tiles.stop * width]
        first, last = some[0] // width, some[-1] // width + 1
        flat = old[:, first:last].swapaxes(1, 2).reshape(n_processes, q, -1)
        picked = flat[:, :, some - first * width].reshape(n_processes, q, -1, width)
        new[:, tiles] = picked.swapaxes(1, 2)
