"""Target encoding: mean labels by level, for categories of many levels.

Indicators of the most frequent levels do not distinguish the others. A category that has others
therefore gets further columns, with the mean label of the rows of each level: the share of a class,
or the mean target. It is shrunk towards the overall mean (Micci-Barreca 2001, "A preprocessing
scheme for high-cardinality categorical attributes"). New rows get the mean of all training rows of
their level, and so do the training rows of a frequent level, on whose mean a single label has no
influence. The others get the mean of rows in other folds, since their own label is to be predicted.
The means of folds differ, if little, from those that new rows get. For a level of many rows the
normal scores of these values would lie far apart, with none of the training rows in between.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from sparsegp.data.blocks import compute_each
from sparsegp.data.encoding import MEAN, Column, Encoding
from sparsegp.data.frames import Frame, column_places, frame_names
from sparsegp.types import Doubles, Integers, Labels

MAX_CLASSES = 10
"""With more classes there is no target encoding: each category would get as many columns."""
FOLDS = 5
PRIOR_ROWS = 5.0
"""Number of rows that the overall mean stands for in that of a level; on four tables 20 was equally
good."""


FREQUENT = 100
"""Number of rows from which a level is frequent."""


def learn_means(
    encoding: Encoding,
    frame: Frame,
    source: str,
    classes: Labels | None,
    target: Doubles | Integers,
    scheduler: Any = None,
) -> tuple[Encoding, Doubles | None]:
    """Add columns of means to an encoding; also return those of the training rows, (n, columns).

    Means that the encoding already has are learnt anew. With more than `MAX_CLASSES` classes the
    encoding is unchanged.

    Parameters
    ----------
    encoding : Encoding
        Learnt from the frame.
    frame : Frame
        Training rows.
    source : str
        Where the rows come from, for messages.
    classes : array (K,) or None
        None for a regression.
    target : array (n,)
        Class codes, or targets of a regression.
    scheduler : str or callable, optional
        Dask scheduler.
    """
    names, values = [f"{MEAN}label"], np.asarray(target, np.float64)[:, np.newaxis]
    if classes is not None:
        if len(classes) > MAX_CLASSES:
            return encoding, None
        shown = range(int(len(classes) == 2), len(classes))
        names = [f"{MEAN}{classes[k]}" for k in shown]
        values = np.asarray(values == np.array(shown), np.float64)
    wide = [column for column in encoding.columns if column.has_many_levels]
    parts = compute_each(
        partial(_places, columns=wide, source=source), frame.parts, scheduler=scheduler
    )
    *places, digest = np.concatenate(parts).T
    _, early, row = np.unique(digest, return_index=True, return_inverse=True)
    fold = np.random.default_rng(0).permutation(len(row))[early[row]] % FOLDS  # also of its copies
    known, own = dict[str, Column](), []
    for column, place in zip(wide, places, strict=True):
        means, of_rows = _means(place, column.n_places, fold, values)
        n_bare = len(column.parts) - int(column.are_means.sum())
        flat, ends = tuple(means.ravel().tolist()), (*column.parts[:n_bare], *names)
        known[column.name] = replace(column, parts=ends, means=flat, note="")
        own.append(of_rows)
    columns = (known.get(column.name, column) for column in encoding.columns)
    return Encoding(tuple(columns)), np.concatenate(own, axis=1)


def _places(part: Any, columns: Sequence[Column], source: str) -> Integers:
    """Return the indices of the levels of some columns, and a digest of each row, (n, columns + 1).

    See `Column.places`.
    """
    import pandas as pd  # noqa: PLC0415 - slow to import

    at = column_places([column.name for column in columns], frame_names(part), source)
    each = (column.places(part.iloc[:, j]) for column, j in zip(columns, at, strict=True))
    digest = pd.util.hash_pandas_object(part, index=False).to_numpy().view(np.int64)
    return np.stack([*each, digest], axis=1)


def _means(
    place: Integers, n_places: int, fold: Integers, values: Doubles
) -> tuple[Doubles, Doubles]:
    """Return the mean of each level, (n_places, T), and those that the rows get, (n, T).

    Sums are taken in the order of the rows, so that they do not depend on the division into parts.
    """

    def by_fold(of_rows: Doubles | None) -> Doubles:
        found = np.bincount(place * FOLDS + fold, of_rows, minlength=n_places * FOLDS)
        return np.asarray(found.reshape(n_places, FOLDS), np.float64)

    counts, means, own = by_fold(None), [], []
    for value in values.T:
        sums = by_fold(value)
        means.append(_drawn(sums.sum(axis=1), counts.sum(axis=1)))
        others = (each.sum(axis=1, keepdims=True) - each for each in (sums, counts))
        is_frequent = counts.sum(axis=1, keepdims=True) >= FREQUENT
        found = np.where(is_frequent, means[-1][:, np.newaxis], _drawn(*others))
        own.append(found[place, fold])
    return np.stack(means, axis=1), np.stack(own, axis=1)


def _drawn(sums: Doubles, counts: Doubles) -> Doubles:
    """Return means from sums and counts (n_places, ...), shrunk towards the overall mean."""
    whole = sums.sum(axis=0) / np.maximum(counts.sum(axis=0), 1.0)
    return np.asarray((sums + PRIOR_ROWS * whole) / (counts + PRIOR_ROWS))
