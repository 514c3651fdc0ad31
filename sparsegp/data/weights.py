"""Weights of rows and classes; duplicate rows are merged.

A row of weight w stands for w copies: its log likelihood is multiplied by w. So that this holds for
copies in the data as well, duplicate rows with the same label are merged into one row with the sum
of their weights, and rows of weight zero are left out. The fit, and its order of rows, are then the
same whether rows are weighted or repeated. Copies must not judge each other either: a model that
predicts the copy of a training row well says little about new rows.

In a table of few distinct inputs, such as sex, age group and class, rows repeat because there is
nothing else to observe, and new rows will repeat as well. Such rows are not merged, and counts of
them are repeated. Either their labels give them away, as those of copies agree; or their number
does, as columns of few values agree by chance.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsegp.data.blocks import compute_each, from_memory
from sparsegp.data.labels import encode, plain_text, tidy_labels
from sparsegp.data.table import MAX_REPEATED, WEIGHTS, Table, as_table
from sparsegp.errors import DataError, SettingsError, quoted
from sparsegp.lists import pairs_in
from sparsegp.math.hashing import hashes_of_rows, pieces_as_doubles
from sparsegp.types import Doubles, Integers

BALANCED = "balanced"
MIN_SHARE = 0.01
"""Classes with a smaller probability are dropped from a soft label."""
MAX_VALUES = 1 << 27
"""Maximum number of input values that are reordered in memory: 1 GiB of doubles."""
SEPARATE = 0.45
"""Least disagreement of the labels of separate rows with the same inputs, where all rows have 1.

Ten tables reduced to a few columns of few values had .5 to .8, or .15 to .4 with little noise. With
all rows twice or three times nine of them had at most .36, and with one class repeated .42; the one
of 24 different inputs kept its .7 to .9, as copies are few beside the rows there are anyway."""
SEPARATE_NUMBERS = 0.9
"""The same in a regression, where the same number twice is hardly a coincidence."""
BY_CHANCE = 0.4
"""Least share of pairs of equal rows that chance explains, if columns of few values repeat
(docs/benchmarks/studies.md)."""


def class_weights(text: str) -> dict[str, float]:
    """Parse the weights of classes, "a=2,b=0.5" or JSON; the keys are labels as text.

    A label with a comma must be in double quotes.

    Raises
    ------
    SettingsError
        If the text cannot be parsed, names a label twice, or a weight is out of range.
    """
    pairs = {} if text.startswith("{") else pairs_in(text)
    try:
        found = pairs or json.loads(text)
        weights = {str(label): float(weight) for label, weight in found.items()}
    except (AttributeError, OverflowError, RecursionError, TypeError, ValueError):
        weights = {"": -1.0}
    low, high = WEIGHTS
    within = (weight == 0.0 or low <= weight <= high for weight in weights.values())
    if not all(weights) or not all(within):
        raise SettingsError(
            f"class_weight must be {BALANCED} or labels with weights that are 0, or from {low:g} "
            f"to {high:g}, such as a=2,b=0.5, got {quoted(text)}"
        )
    return weights


def class_weight_text(given: Any) -> Any:
    """Convert a mapping, or series, of weights by labels to text; return anything else as it is."""
    if not hasattr(given, "items"):
        return given
    plain = {plain_text(label): weight for label, weight in given.items()}
    try:
        return json.dumps({label: float(weight) for label, weight in plain.items()})
    except (OverflowError, TypeError, ValueError):
        return json.dumps(plain, default=str)  # refused by `class_weights`


def effective_rows(
    table: Table,
    class_weight: str = "",
    scheduler: str | Callable[..., Any] | None = None,
    of_numbers: bool = False,
) -> Table:
    """Return the rows that a weighted fit uses: without duplicates, and with positive weights.

    If all weights are one after that, rows keep their order and have no weights. Rows which the
    labels (`SEPARATE`) or chance (`BY_CHANCE`) show to be separate observations keep their order
    too: those with whole weights are repeated, unless they become too many, and all have the
    weights of their classes. Other rows are sorted by a digest of their inputs, so that nothing
    depends on their original order, unless they are more than memory should hold twice
    (`MAX_VALUES`): these keep their order. Rows with the same inputs but other labels form one
    family, as copies do (`Table.origin`).

    Parameters
    ----------
    table : Table
        With labels; without weights, each row has weight one.
    class_weight : str
        "balanced", which gives all classes the same total weight; or a text for `class_weights`,
        whose numbers multiply the weights of the rows of each class, one for classes left out.
    scheduler : str or callable, optional
        Dask scheduler.
    of_numbers : bool
        Whether it is for a regression.

    Raises
    ------
    DataError, SettingsError
        If weights or labels cannot be used.
    """
    counts = np.ones(len(table.X)) if table.weights is None else table.weights
    table, counts = _positive(table, counts)
    factors = np.ones_like(counts)
    if class_weight:
        factors = _of_classes(table, counts, class_weight)
        counts = counts[factors > 0.0]
        table, factors = _positive(table, factors)
    if (counts * factors == 1.0).all() and not _has_copies(table, scheduler):
        return replace(table, weights=None)
    family, codes, totals, places = _groups(table, counts, scheduler)
    limit, least = (0, SEPARATE_NUMBERS) if of_numbers else (MAX_REPEATED, SEPARATE)
    size = np.bincount(family, totals)
    may_repeat = (counts == 1.0).all() or (counts.sum() <= limit and (counts % 1.0 == 0).all())
    may_repeat &= size[size > 1.0].sum() >= 0.5 * size.sum()  # most have the inputs of another row
    differ = may_repeat and _labels_differ(family, codes, totals, least)
    unclear = may_repeat and not differ and not of_numbers
    if differ or (unclear and _is_chance(table, codes, totals, places, scheduler)):
        rows = np.repeat(np.arange(len(counts)), counts.astype(np.int64))
        weights = None if (factors == 1.0).all() else factors[rows]
        return replace(_taken(table, rows, scheduler), weights=weights, repeats=True)
    totals = totals * factors[places]
    if (totals == 1.0).all():
        return replace(_taken(table, np.sort(places)), weights=None)
    if table.origin is not None:
        _, early, inverse = np.unique(table.origin[places], return_index=True, return_inverse=True)
        family = early[inverse]
    if table.X.size > MAX_VALUES:
        by_place = np.argsort(places)
        places, totals, family = places[by_place], totals[by_place], family[by_place]
    return replace(_taken(table, places, scheduler), weights=totals, origin=family)


def _has_copies(table: Table, scheduler: Any) -> bool:
    """Return whether some rows may have the same inputs; this is much faster than `_groups`."""
    each = compute_each(hashes_of_rows, table.X.to_delayed().ravel(), scheduler=scheduler)
    hashes = np.sort(np.concatenate(each))
    return bool((hashes[1:] == hashes[:-1]).any())


def _labels_differ(family: Integers, codes: Integers, counts: Doubles, least: float) -> bool:
    """Return whether labels of rows with the same inputs differ as those of separate observations.

    They then differ at least `least` times as often as those of any rows.
    """
    size = np.bincount(family, counts)
    alike = np.bincount(family, counts * (counts - 1.0))
    several = size > 1.0
    agreement = (alike[several] / (size * (size - 1.0))[several]).mean()
    by_chance = np.square(np.bincount(codes, counts) / counts.sum()).sum()
    return bool(by_chance < 1.0 and 1.0 - agreement >= least * (1.0 - by_chance))


def _is_chance(
    table: Table, codes: Integers, counts: Doubles, places: Integers, scheduler: Any
) -> bool:
    """Return whether chance explains how many rows have the same inputs and label.

    The expected number of such pairs is that for columns which are independent in each class. How
    often two rows agree in a column is estimated from pairs of rows that differ elsewhere: copies
    agree in all. So a single column tells nothing, and the answer is no. If all numbers of copies
    have a common divisor, the whole table was repeated. With more than `MAX_REPEATED` different
    rows the answer is no too.
    """
    if len(places) > MAX_REPEATED or np.gcd.reduce(counts.astype(np.int64)) > 1:
        return False
    order = np.argsort(places)
    X = table.X[places[order]].compute(scheduler=scheduler)
    codes, counts = codes[order], counts[order]
    total, pairs = np.bincount(codes, counts), float((counts * (counts - 1.0)).sum())
    own = np.bincount(codes, np.square(counts))
    expected = total * (total - 1.0)
    groups = np.arange(X.shape[1]) if table.encoding is None else table.encoding.groups
    for group in np.unique(groups):
        found, value = np.unique(X[:, groups == group], axis=0, return_inverse=True)
        cells = np.bincount(codes * len(found) + value, counts, len(total) * len(found))
        alike = np.square(cells.reshape(len(total), -1)).sum(axis=1) - own
        expected *= alike / np.maximum(np.square(total) - own, 1.0)
        if expected.sum() < BY_CHANCE * pairs:
            return False
    return True


def _groups(
    table: Table, weights: Doubles, scheduler: Any
) -> tuple[Integers, Integers, Doubles, Integers]:
    """Return the groups of rows with the same inputs and label, sorted by a digest of the inputs.

    They are described by the numbers of their inputs and of their labels, the sums of their
    weights, and their first rows, (g,) each.
    """
    each = compute_each(_digests, table.X.to_delayed().ravel(), scheduler=scheduler)
    digests, labels = np.concatenate(each), tidy_labels(table.y, table.source)
    if labels.dtype.kind == "O":
        labels = np.array([str(label) for label in labels.tolist()])
    codes = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    order = np.lexsort((weights, codes, digests[:, 1], digests[:, 0]))
    other_inputs = np.ones(len(order), dtype=bool)
    other_inputs[1:] = (np.diff(digests[order], axis=0) != 0).any(axis=1)
    first = np.flatnonzero(other_inputs | (np.diff(codes[order], prepend=-1) != 0))
    return (
        np.cumsum(other_inputs)[first] - 1,
        codes[order[first]],
        np.add.reduceat(weights[order], first),
        np.minimum.reduceat(order, first),
    )


def soft_labels(
    X: Any, P: ArrayLike, classes: ArrayLike | None = None, sample_weight: Any = None
) -> Table:
    """Return a table whose rows have class probabilities instead of a label.

    A row with probabilities p_k becomes one row per class k, with weight p_k. Classes with less
    than 1 % are dropped, and the weights of the others rescaled to sum to the weight of the row.
    A model can thus be trained on the predictions of another one (distillation), which should be
    made for rows that the other one was not trained on.

    Parameters
    ----------
    X : array-like (n, p)
        Inputs.
    P : array-like (n, K)
        Probabilities.
    classes : array-like (K,), optional
        Class labels; by default 0 to K - 1.
    sample_weight : array-like (n,), optional
        Weights of the rows.

    Raises
    ------
    DataError
        If probabilities are negative or not finite, or their shape does not match rows and classes.
    """
    share = np.array(P, dtype=np.float64, ndmin=1)
    labels = np.arange(share.shape[-1]) if classes is None else np.asarray(classes)
    if share.ndim != 2 or labels.shape != share.shape[1:] or len(labels) < 2:
        raise DataError(
            "soft labels must be probabilities (n, K) with K labels, two or more, got shapes "
            f"{share.shape} and {labels.shape}"
        )
    given = as_table(X, np.zeros(len(share)), sample_weight)
    table = given.learnt()
    bad = ~((share >= 0.0) & (share < np.inf)).all(axis=1) | ~(share.sum(axis=1) > 0.0)
    if bad.any():
        row = int(bad.argmax())
        raise DataError(
            "probabilities must be finite and not negative, and not all zero in a row, got "
            f"{share[row].tolist()} in row {row}"
        )
    share = share / share.sum(axis=1, keepdims=True)
    share[share < min(MIN_SHARE, 1.0 / len(labels))] = 0.0
    share /= share.sum(axis=1, keepdims=True)
    if table.weights is not None:
        share *= table.weights[:, np.newaxis]
    rows, codes = np.nonzero(share)
    kept = None if given.frame is None else given.frame.take(rows)
    probable = _taken(table, rows)
    return replace(probable, frame=kept, y=labels[codes], weights=share[rows, codes])


def without_weights(table: Table, column: str) -> Table:
    """Use a column, given by name or number, as row weights instead of as an input.

    Raises
    ------
    DataError
        If there is no such column, or its values are not weights.
    """
    names, p = table.names, table.X.shape[1]
    known = [*(names or map(str, range(p)))]
    if column not in known or p == 1:
        unnamed = ", which have no names" if names is None else ""
        raise DataError(
            f"weight_column must be one of {p} input columns of {table.source}{unnamed}, and not "
            f"the only one, got {quoted(column)}"
        )
    place = known.index(column)
    rows = table.columns([number for number in range(p) if number != place])
    try:
        weights = np.asarray(table.columns([place]).X)[:, 0]
        return replace(rows, weights=weights, weight_column=column)
    except DataError as error:
        raise DataError(
            f"column {quoted(column)} cannot be weights: {error}; or give another weight_column"
        ) from None


def _of_classes(table: Table, weights: Doubles, class_weight: str) -> Doubles:
    """Return the weight factor of each row by its label, (n,)."""
    classes, codes = encode(table.y, table.source)
    if class_weight == BALANCED:
        total = np.bincount(codes, weights)
        return np.asarray((total.sum() / (len(classes) * total))[codes])
    wanted, known = class_weights(class_weight), [str(label) for label in classes.tolist()]
    if unknown := sorted(wanted.keys() - known):
        raise SettingsError(
            f"class_weight must name classes of the rows; {table.source} has no label "
            f"{quoted(unknown[0])}: leave it out"
        )
    return np.array([wanted.get(label, 1.0) for label in known])[codes]


def _positive(table: Table, weights: Doubles) -> tuple[Table, Doubles]:
    """Return the rows of positive weight, and these weights."""
    kept = np.flatnonzero(weights > 0.0)
    if len(kept) == len(weights):
        return table, weights
    if not len(kept):
        raise DataError(f"weights must not be zero in all rows; those of {table.source} are")
    source = f"{table.source}, rows of weight above zero"
    return replace(_taken(table, kept), source=source), weights[kept]


def _taken(table: Table, rows: Integers, scheduler: Any = None) -> Table:
    """Return some rows of a table, without weights but with their row numbers in the source."""
    if np.array_equal(rows, np.arange(len(table.X))):
        return table
    X, ordered = table.X, bool((np.diff(rows) >= 0).all())
    return replace(
        table,
        X=X[rows] if ordered else from_memory(X.compute(scheduler=scheduler)[rows], table.source),
        y=None if table.y is None else table.y[rows],
        origin=None if table.origin is None else table.origin[rows],
        weights=None,
        rows=rows if table.rows is None else table.rows[rows],
    )


def _digests(block: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a digest of the values of each row as doubles, (n, 2)."""
    words = bytearray()
    for rows in pieces_as_doubles(block):
        words += b"".join(hashlib.blake2b(row, digest_size=16).digest() for row in rows)
    return np.frombuffer(bytes(words), dtype=np.uint64).reshape(-1, 2)
