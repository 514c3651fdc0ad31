"""Mean labels of the levels of categories with very many, in place of their codes.

A kernel tells levels with codes apart if there is an active row of each, so codes fail where there
are more levels than active rows. Mean labels need none. New rows get those of all training rows
(Micci-Barreca 2001, "A preprocessing scheme for high-cardinality categorical attributes"); a
training row those of the rows in other folds, or it would see its own label. Only rare levels have
them: where a kernel knows the level, differences of its means tell which fold has which labels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from sparsegp.data.blocks import compute_each
from sparsegp.data.column import CODE_PARTS, MEAN, Column
from sparsegp.data.encoding import Encoding
from sparsegp.data.frames import Frame, column_places, frame_names
from sparsegp.data.labels import plain_text
from sparsegp.types import Doubles, Integers, Labels

MANY_LEVELS, MOST_CLASSES = 1000, 16
"""Number of rare levels above which they have means; of classes above which they keep codes."""
FOLDS, PRIOR = 5, 1.0
"""Number of folds, and weight of the mean of all rows beside the rows of a level."""


@dataclass(frozen=True)
class Targets:
    """What means are computed of: indicators of classes, or standardised numbers, (n, q)."""

    values: Doubles
    parts: tuple[str, ...]

    @classmethod
    def of_classes(cls, classes: Labels, codes: Integers) -> "Targets":
        """Create an indicator of each class."""
        parts = tuple(f"{MEAN} of {plain_text(label)}" for label in classes.tolist())
        return cls((codes[:, np.newaxis] == np.arange(len(classes))).astype(np.float64), parts)

    @property
    def usual(self) -> tuple[str, ...]:
        """The parts that a column gets: of two classes the second says all."""
        return self.parts[1:] if len(self.parts) == 2 else self.parts

    def named(self, parts: Sequence[str]) -> Doubles:
        """Return the values of some parts, (n, len(parts)); zeros for a class without rows."""
        each = dict(zip(self.parts, self.values.T, strict=True))
        return np.column_stack([each.get(part, np.zeros(len(self.values))) for part in parts])


@dataclass(frozen=True)
class OtherFolds:
    """Means for training rows: tables (folds, places of a column, q) by its name."""

    encoding: Encoding
    tables: Mapping[str, Doubles]
    source: str

    def __call__(self, part: Any, column: Column, series: Any) -> Doubles:
        """Return the means of a column for the rows of a part of the training rows, (n, q)."""
        fold = _folds(self.encoding, part, self.source)
        means: Doubles = self.tables[column.name][fold, column.places(series)]
        return means


def learn_means(
    encoding: Encoding, frame: Frame, targets: Targets, source: str, scheduler: Any = None
) -> tuple[Encoding, OtherFolds | None]:
    """Return an encoding with means where they are better than codes, and those of training rows.

    Parameters
    ----------
    encoding : Encoding
        If it has means already, these are kept, and only those of training rows are computed.
    frame : Frame
        The training rows.
    targets : Targets (n, q)
    source : str
        Where the rows come from, for messages.
    scheduler : str or callable, optional
        Dask scheduler.
    """
    chosen, are_new = _chosen(encoding)
    if are_new and len(targets.parts) > MOST_CLASSES:
        return encoding, None
    parts = targets.usual if are_new else chosen[0].parts[-len(chosen[0].means[0]) :]
    values = targets.named(parts)
    of_part = partial(_sums, encoding, chosen, values, source)
    starts = [slice(at, at + n) for at, n in zip(frame.starts, frame.lengths, strict=True)]
    found = compute_each(of_part, frame.parts, starts, scheduler=scheduler)
    sums = {c.name: sum(part[c.name] for part in found) for c in chosen}
    tables = {c.name: _means(sums[c.name], values.mean(axis=0), c) for c in chosen}
    if are_new:
        new = {c.name: _with_means(c, parts, tables[c.name][-1]) for c in chosen}
        encoding = Encoding(tuple(new.get(c.name, c) for c in encoding.columns))
    return encoding, OtherFolds(encoding, tables, source)


def needs_means(encoding: Encoding) -> bool:
    """Return whether a column has means, or so many rare levels that they are better than codes."""
    return bool(_chosen(encoding)[0])


def _chosen(encoding: Encoding) -> tuple[list[Column], bool]:
    """Return the columns that have means or should have them, and whether these are new."""
    known = [c for c in encoding.columns if c.means]
    many = [c for c in encoding.columns if c.has_codes and len(c.rare) > MANY_LEVELS]
    return (known, False) if known else (many, True)


def _folds(encoding: Encoding, part: Any, source: str) -> Integers:
    """Return the fold of each row, (n,), by a hash of its inputs, so that copies share one."""
    from pandas.util import hash_pandas_object  # noqa: PLC0415 - slow to import

    some = part.iloc[:, column_places(encoding.inputs, frame_names(part), source)]
    return (np.asarray(hash_pandas_object(some, index=False)) % FOLDS).astype(np.int64)


def _sums(
    encoding: Encoding,
    columns: Sequence[Column],
    values: Doubles,
    source: str,
    part: Any,
    rows: slice,
) -> dict[str, Doubles]:
    """Return sums of targets, and numbers of rows, by column: (folds, places, q + 1)."""
    found, fold, names = {}, _folds(encoding, part, source), frame_names(part)
    each = np.column_stack([values[rows], np.ones(len(part))])
    for column in columns:
        places = column.places(part.iloc[:, names.index(column.name)])
        sums = np.zeros((FOLDS, column.n_places, each.shape[1]))
        np.add.at(sums, (fold, places), each)
        found[column.name] = sums
    return found


def _means(sums: Doubles, overall: Doubles, column: Column) -> Doubles:
    """Return deviations from the overall means, (folds + 1, places, q): without each fold, of all.

    They are zero for levels that are frequent, were not seen, or are missing.
    """
    total = sums.sum(axis=0)
    some = np.concatenate([total - sums, total[np.newaxis]])
    means = (some[..., :-1] + PRIOR * overall) / (some[..., -1:] + PRIOR) - overall
    means[:, : len(column.levels)] = means[:, -2:] = 0.0
    return means


def _with_means(column: Column, parts: tuple[str, ...], means: Doubles) -> Column:
    of_rare = means[len(column.levels) : -2].round(6).tolist()
    return replace(
        column, parts=(*column.parts[: -len(CODE_PARTS)], *parts), means=tuple(map(tuple, of_rare))
    )
