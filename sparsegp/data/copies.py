"""Duplicate rows: merged into one row with weight, or kept as separate observations.

A row of weight w stands for w copies. So that this also holds for copies in the data, duplicate
rows with the same label are merged into one row with the sum of their weights, and rows of weight
zero are left out. The fit, including its order of rows, is then the same whether rows are weighted
or repeated. Nor must copies validate each other: that a model predicts the copy of a training row
well says little about new rows.

In a table with few distinct inputs, such as sex, age group and class, rows repeat because nothing
else was observed, and new rows will repeat as well. Such rows are not merged, and a row whose
weight is a count is repeated. They are recognised by their labels, as those of copies agree, or by
their number, as columns of few values agree by chance or allow few different rows.
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegp.data.blocks import compute_each
from sparsegp.data.labels import tidy_labels
from sparsegp.data.table import MAX_REPEATED, Table
from sparsegp.data.weights import taken, weighted
from sparsegp.math.hashing import hashes_of_rows, pieces_as_doubles
from sparsegp.types import Doubles, Integers

MAX_VALUES = 1 << 27
"""Maximum number of input values that are reordered in memory: 1 GiB of doubles."""
SEPARATE = 0.45
"""Least disagreement of labels of separate rows with the same inputs; that of any two rows is 1.

Ten tables reduced to a few columns of few values had .5 to .8, or .15 to .4 with little noise. With
all rows twice or three times, nine of them had at most .36, and .42 with one class repeated; the
one with 24 different inputs kept its .7 to .9, as copies are few beside its other equal rows."""
SEPARATE_NUMBERS = 0.9
"""The same in a regression, where two equal numbers are hardly a coincidence."""
CHANCE, MIN_ORIGINALS = 0.01, 20
"""Probability below which a common divisor is no coincidence; fewest rows that may have been
repeated: fewer are rather a design with equally many observations of each combination."""
CROWDED = 10
"""Least number of rows per possible combination of values that shows rows to be separate."""
BY_CHANCE = 0.4, 0.6
"""Least shares of the pairs of equal rows that chance must explain, in each class or in all rows,
for rows to be separate (docs/benchmarks/studies.md)."""


class Groups:
    """Groups of rows of a table with the same inputs and label, by a digest of the inputs."""

    def __init__(self, table: Table, scheduler: Any) -> None:
        each = compute_each(_digests, table.X.to_delayed().ravel(), scheduler=scheduler)
        digests, labels = np.concatenate(each), tidy_labels(table.y, table.source)
        if labels.dtype.kind == "O":
            labels = np.array([str(label) for label in labels.tolist()])
        codes = np.unique(labels, return_inverse=True)[1].astype(np.int64)
        order = np.lexsort((codes, digests[:, 1], digests[:, 0]))  # equal rows keep theirs
        are_other = np.ones(len(order), dtype=bool)
        are_other[1:] = (np.diff(digests[order], axis=0) != 0).any(axis=1)
        starts = np.flatnonzero(are_other | (np.diff(codes[order], prepend=-1) != 0))
        self.first = order[starts]  # first row of each group, (g,)
        self.inputs = np.cumsum(are_other)[starts] - 1  # code of its inputs,
        self.label = codes[self.first]  # and of its label
        self.of_row = np.empty_like(order)  # group of each row, (n,)
        self.of_row[order] = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(order)))

    def sums(self, weights: Doubles) -> Doubles:
        """Return the sum of the weights in each group, (g,), whatever the order of the rows."""
        order = np.lexsort((weights, self.of_row))
        starts = np.searchsorted(self.of_row[order], np.arange(len(self.first)))
        return np.asarray(np.add.reduceat(weights[order], starts))


def effective_rows(
    table: Table,
    class_weight: str = "",
    scheduler: str | Callable[..., Any] | None = None,
    is_regression: bool = False,
) -> Table:
    """Return the rows that a weighted fit uses: without duplicates, and with positive weights.

    If all weights are then one, rows keep their order and have no weights. Rows that labels
    (`SEPARATE`) or chance (`BY_CHANCE`) show to be separate observations also keep their order:
    those with whole weights are repeated, unless they become too many, and all have the weights of
    their classes; where a table or class was repeated as a whole (`CHANCE`), each observation is
    kept once, with the weight of all its copies. Other rows are sorted by a digest of their inputs,
    so that nothing depends on their original order, unless they have too many values to be held in
    memory twice (`MAX_VALUES`). Rows with the same inputs but different labels form one family, as
    copies do (`Table.origin`).

    Parameters
    ----------
    table : Table
        With labels.
    class_weight : str
        See `weights.weighted`.
    scheduler : str or callable, optional
        Dask scheduler.
    is_regression : bool
        Whether it is for a regression.

    Raises
    ------
    DataError, SettingsError
        If weights or labels cannot be used.
    """
    table, counts, factors = weighted(table, class_weight)
    if (counts * factors == 1.0).all() and not _has_copies(table, scheduler):
        return replace(table, weights=None)
    groups = Groups(table, scheduler)
    found = _observations(table, groups, counts, is_regression, scheduler)
    if found is None:
        return _merged(table, groups, groups.sums(counts) * factors[groups.first], scheduler)
    rows, weights = found[0], found[1] * factors[found[0]]
    known = None if (weights == 1.0).all() else weights
    return replace(taken(table, rows, scheduler), weights=known, repeats=True)


def _merged(table: Table, groups: Groups, weights: Doubles, scheduler: Any) -> Table:
    """Return one row for each group; `weights` are (g,)."""
    family, places = groups.inputs, groups.first
    if (weights == 1.0).all():
        return replace(taken(table, np.sort(places)), weights=None)
    if table.origin is not None:
        _, early, inverse = np.unique(table.origin[places], return_index=True, return_inverse=True)
        family = early[inverse]
    if table.X.size > MAX_VALUES:
        by_place = np.argsort(places)
        places, weights, family = places[by_place], weights[by_place], family[by_place]
    return replace(taken(table, places, scheduler), weights=weights, origin=family)


def _observations(
    table: Table, groups: Groups, counts: Doubles, is_regression: bool, scheduler: Any
) -> tuple[Integers, Doubles] | None:
    """Return rows that are separate observations, and their weights, (m,); None if they are not.

    A row of whole weight counts as that many observations, unless they are too many. Where all rows
    of a class were repeated r times, one in r is kept, with weight r, as copies would validate each
    other.
    """
    n, limit = len(counts), 0 if is_regression else MAX_REPEATED
    if not ((counts == 1.0).all() or (counts.sum() <= limit and (counts % 1.0 == 0).all())):
        return None
    size = groups.sums(counts)
    repeats = np.ones(len(size), np.int64)
    if (counts == counts[0]).all():  # else weights are numbers of observations
        repeats = _repeats(groups, size, is_regression)
    if not _are_separate(table, groups, size / repeats, is_regression, scheduler):
        return None
    rows = np.repeat(np.arange(n), counts.astype(np.int64))
    of_row = groups.of_row[rows]
    kept = rank_in_group(of_row) % repeats[of_row] == 0
    return rows[kept], repeats[of_row[kept]].astype(np.float64)


def _repeats(groups: Groups, size: Doubles, is_regression: bool) -> Integers:
    """Return how often the rows of each group were repeated, with the table or their class, (g,).

    `size` (g,) are the numbers of equal rows.
    """
    n_classes = 0 if is_regression else int(groups.label.max()) + 1
    whole = _divisor(size, 1 + n_classes)
    found = np.full(len(size), whole)
    for each in range(n_classes):
        own = groups.label == each
        found[own] *= _divisor(size[own] / whole, 1 + n_classes)
    return found


def _divisor(size: Doubles, n_tests: int) -> int:
    """Return the common divisor of numbers of equal rows, or 1 if it may be a coincidence.

    The probability that g numbers have one of at least d is about d^(1 - g) / (g - 1).
    """
    found, g = int(np.gcd.reduce(size.astype(np.int64))), len(size)
    is_round = found % 10 == 0  # as rounded counts are
    if found == 1 or g == 1 or is_round or size.sum() < MIN_ORIGINALS * found:
        return 1
    return found if n_tests * found ** (1.0 - g) / (g - 1) < CHANCE else 1


def _are_separate(
    table: Table, groups: Groups, size: Doubles, is_regression: bool, scheduler: Any
) -> bool:
    """Return whether equal rows, counted by `size` (g,), are separate observations."""
    each = np.bincount(groups.inputs, size)
    if each[each > 1.0].sum() < 0.5 * each.sum():  # most are unlike all others
        return False
    if _labels_differ(groups, size, SEPARATE_NUMBERS if is_regression else SEPARATE):
        return True
    return not is_regression and _is_chance(table, groups, size, scheduler)


def _labels_differ(groups: Groups, counts: Doubles, least: float) -> bool:
    """Return whether labels of rows with the same inputs differ as those of separate observations.

    These differ at least `least` times as often as the labels of any two rows.
    """
    size = np.bincount(groups.inputs, counts)
    alike = np.bincount(groups.inputs, counts * (counts - 1.0))
    several = size > 1.0
    agreement = (alike[several] / (size * (size - 1.0))[several]).mean()
    by_chance = np.square(np.bincount(groups.label, counts) / counts.sum()).sum()
    return bool(by_chance < 1.0 and 1.0 - agreement >= least * (1.0 - by_chance))


def _is_chance(table: Table, groups: Groups, size: Doubles, scheduler: Any) -> bool:
    """Return whether chance explains how many rows have the same inputs.

    It does if the columns allow far fewer different inputs than there are rows, or if independent
    columns would give about as many pairs of equal rows, in each class or in all rows. With more
    than `MAX_REPEATED` different rows the answer is no.
    """
    if len(groups.first) > MAX_REPEATED:
        return False
    order = np.argsort(groups.first)
    X = table.X[groups.first[order]].compute(scheduler=scheduler)
    of_inputs = groups.inputs[order]
    label, counts = groups.label[order], size[order]
    columns = np.arange(X.shape[1]) if table.encoding is None else table.encoding.groups
    found = [
        np.unique(X[:, columns == column], axis=0, return_inverse=True)[1]
        for column in np.unique(columns)
    ]
    if CROWDED * math.prod(int(values.max()) + 1 for values in found) <= counts.sum():
        return True
    _, one = np.unique(of_inputs, return_index=True)
    each, of_each = [values[one] for values in found], np.bincount(of_inputs, weights=counts)
    in_class, in_all = BY_CHANCE
    return (
        _share_by_chance(found, label, counts) >= in_class
        or _share_by_chance(each, np.zeros_like(one), of_each.astype(np.float64)) >= in_all
    )


def _share_by_chance(columns: Sequence[Integers], label: Integers, counts: Doubles) -> float:
    """Return the expected number of pairs of equal rows, divided by their actual number.

    Columns are taken as independent in each class. How often two rows agree in one is estimated
    from pairs that differ somewhere, as copies agree in all; a single column thus proves nothing.

    Parameters
    ----------
    columns : sequence of Integers (g,)
        Codes from 0 for the values of each column, in groups of equal rows.
    label : Integers (g,)
    counts : Doubles (g,)
        Numbers of rows.
    """
    total, own = np.bincount(label, counts), np.bincount(label, np.square(counts))
    expected = total * (total - 1.0)
    for values in columns:
        n = int(values.max()) + 1
        cells = np.bincount(label * n + values, counts, len(total) * n)
        alike = np.square(cells.reshape(len(total), n)).sum(axis=1) - own
        expected *= alike / np.maximum(np.square(total) - own, 1.0)
    return float(expected.sum() / (counts * (counts - 1.0)).sum())


def rank_in_group(groups: Integers) -> Integers:
    """Return for each row the number of rows of its group before it, (n,)."""
    by_group = np.argsort(groups, kind="stable")
    ordered, rank = groups[by_group], np.empty_like(by_group)
    rank[by_group] = np.arange(len(groups)) - np.searchsorted(ordered, ordered)
    return rank


def _has_copies(table: Table, scheduler: Any) -> bool:
    """Return whether any rows may have the same inputs; this is much faster than `Groups`."""
    each = compute_each(hashes_of_rows, table.X.to_delayed().ravel(), scheduler=scheduler)
    hashes = np.sort(np.concatenate(each))
    return bool((hashes[1:] == hashes[:-1]).any())


def _digests(block: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a digest of the values of each row as doubles, (n, 2)."""
    words = bytearray()
    for rows in pieces_as_doubles(block):
        words += b"".join(hashlib.blake2b(row, digest_size=16).digest() for row in rows)
    return np.frombuffer(bytes(words), dtype=np.uint64).reshape(-1, 2)
