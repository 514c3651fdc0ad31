"""Hashes of integers and of rows."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

PIECE = 1 << 14
"""Number of values converted to doubles at a time, so that temporaries stay in cache."""
STEP = np.uint64(0xD1342543DE82EF95)
"""Odd offset between columns, so that equal values in different columns hash differently."""


def mixed(key: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the SplitMix64 finaliser of each key, a bijection of 64-bit words."""
    z = key * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


def hashes_of_rows(X: NDArray[np.generic]) -> NDArray[np.uint64]:
    """Return a hash of the values of each row as doubles, (n,); equal rows have equal hashes."""
    offsets = np.arange(X.shape[1], dtype=np.uint64) * STEP
    pieces = (mixed(rows.view(np.uint64) + offsets) for rows in pieces_as_doubles(X))
    sums = [words.sum(axis=1, dtype=np.uint64) for words in pieces]
    return np.concatenate([np.empty(0, np.uint64), *sums])


def first_places(keys: NDArray[Any]) -> NDArray[np.intp]:
    """Return where each of the values first occurs, ascending."""
    return np.sort(np.unique(keys, return_index=True)[1])


def pieces_as_doubles(X: NDArray[np.generic]) -> Iterator[NDArray[np.float64]]:
    """Yield a few rows at a time as contiguous doubles, with -0.0 replaced by 0.0."""
    n = max(PIECE // max(X.shape[1], 1), 1)
    for start in range(0, len(X), n):
        yield np.ascontiguousarray(X[start : start + n], dtype=np.float64) + 0.0
