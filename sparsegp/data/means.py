"""Mean labels of the rare levels of a category, in place of codes if there are very many levels.

A kernel can tell levels with codes apart only if there are active rows of each, so codes fail with
very many levels. Mean labels need no active rows. New rows get the means of all training rows
(Micci-Barreca 2001, "A preprocessing scheme for high-cardinality categorical attributes"); a
training row gets those of the other folds, or it would see its own label. Only rare levels have
means: where a kernel knows the level, differences of its means reveal which fold has which labels.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from sparsegp.data.blocks import compute_each
from sparsegp.data.column import CODE_PARTS, FOLDS, MEAN, Column
from sparsegp.data.encoding import Encoding
from sparsegp.data.frames import Frame, frame_names, require_distinct
from sparsegp.data.labels import encode, plain_text
from sparsegp.data.targets import Numbers
from sparsegp.types import Booleans, Doubles, Integers, Labels

MANY_LEVELS, MANY_OF_NUMBERS, MOST_CLASSES = 100, 1000, 16
"""Numbers of rare levels above which they have means, for classes and in a regression; number of
classes above which they keep codes."""
AGREEING = 2.0
"""Agreement of labels of a level across folds, in standard errors, above which means are used."""
MOST_MEANS, PRIOR = 500_000, 1.0
"""Maximum number of means of a column; weight of the mean of all rows beside those of a level."""


@dataclass(frozen=True)
class Targets:
    """Labels of which means are computed.

    Parameters
    ----------
    y : array (n,) or (n, K)
        Labels, numbers if `is_regression`; or probabilities of `classes`.
    is_regression : bool
    classes : array (K,), optional
        All possible labels, if these rows may lack some.
    weights : Doubles (n,)
        Positive weights of the rows, which count relative to their mean.
    """

    y: Any
    is_regression: bool
    classes: Any
    weights: Doubles

    def values(self, source: str) -> tuple[list[str], Doubles]:
        """Return the parts of a column for means, and the values to be averaged, (n, q).

        These are standardised numbers, or indicators or probabilities of classes; of two classes,
        the second suffices. There are no parts for more than `MOST_CLASSES` classes.
        """
        if self.is_regression:
            return [MEAN], Numbers.of(self.y, source).encode(self.y, source)[:, np.newaxis]
        known, codes = self.classes, self.y
        if np.ndim(codes) != 2:
            known, codes = encode(codes, source, known)
        if len(known) > MOST_CLASSES:
            return [], np.empty(0)
        shares = codes[:, np.newaxis] == np.arange(len(known)) if codes.ndim == 1 else codes
        some = slice(int(len(known) == 2), None)
        parts = [f"{MEAN} of {plain_text(label)}" for label in known[some].tolist()]
        return parts, shares[:, some].astype(np.float64)


def learn_means(
    encoding: Encoding,
    frame: Frame,
    targets: Targets,
    source: str,
    ids: Labels | None = None,
    scheduler: Any = None,
) -> Encoding:
    """Return an encoding with means in place of codes where they are better.

    Codes stay if most rows of a level are alike or have one id, and so are in one fold: the other
    folds would have hardly any labels. They also stay if labels of the same level agree no more
    than by chance.

    Parameters
    ----------
    encoding : Encoding
        With codes.
    frame : Frame
        The training rows (n, p).
    targets : Targets
        Their labels and weights.
    source : str
        Where the rows come from, for messages.
    ids : array (n,), optional
        Rows with the same id share a fold.
    scheduler : str or callable, optional
        Dask scheduler.
    """
    many = MANY_OF_NUMBERS if targets.is_regression else MANY_LEVELS
    chosen = [c for c in encoding.columns if c.has_codes and len(c.rare) > many]
    parts, values = targets.values(source) if chosen else ([], np.empty(0))
    chosen = [c for c in chosen if len(parts) and len(c.rare) * len(parts) <= MOST_MEANS]
    if not chosen:
        return encoding
    weights = targets.weights / targets.weights.mean()
    folds = folds_of(encoding, frame, source, ids, scheduler=scheduler)
    each = (np.split(some, frame.starts[1:]) for some in (values, weights, folds))
    of_part = partial(_sums, chosen)
    found = compute_each(of_part, frame.parts, *each, scheduler=scheduler)
    new, overall = {}, np.average(values, axis=0, weights=weights)
    for column in chosen:
        sums = np.zeros((FOLDS, column.n_places, len(parts) + 3))
        for part in found:
            places, of_places = part[column.name]
            sums.reshape(-1, sums.shape[-1])[places] += of_places
        sums = sums[:, len(column.levels) : -2]
        agreement = agreement_of(sums[..., :-1], values, weights)
        if _share_with_others(sums[..., -1]) > 0.5 and agreement > AGREEING:
            means = _means(sums[..., :-2], overall).round(6).swapaxes(0, 1)
            of_levels = means.reshape(len(column.rare), -1).tolist()
            ends = (*column.parts[: -len(CODE_PARTS)], *parts)
            new[column.name] = replace(column, parts=ends, means=tuple(map(tuple, of_levels)))
    learnt = Encoding(tuple(new.get(c.name, c) for c in encoding.columns))
    require_distinct(learnt.names, f"{source}, once encoded,")
    return learnt


def folds_of(
    encoding: Encoding,
    frame: Frame,
    source: str,
    ids: Labels | None = None,
    counts: Booleans | None = None,
    scheduler: Any = None,
) -> Integers:
    """Return the fold of each training row, (n,); copies, and rows with the same id, share one.

    It is that of a hash of the row, or of the least hash of its id, so that neither the order of
    rows nor the spelling of ids matters.

    Parameters
    ----------
    encoding : Encoding
    frame : Frame
        The rows (n, p).
    source : str
        Where the rows come from, for messages.
    ids : array (n,), optional
    counts : Booleans (n,), optional
        Whether each row counts; the others do not decide the fold of their id.
    scheduler : str or callable, optional
        Dask scheduler.
    """
    of_part = partial(encoding.hashes_of, source=source)
    hashes = np.concatenate(compute_each(of_part, frame.parts, scheduler=scheduler))
    if ids is not None:
        known, of_id = np.unique(ids, return_inverse=True)
        least = np.full(len(known), np.iinfo(np.uint64).max)
        some = slice(None) if counts is None else counts
        np.minimum.at(least, of_id[some], hashes[some])
        hashes = least[of_id]
    return (hashes % np.uint64(FOLDS)).astype(np.int64)


def _sums(
    columns: Sequence[Column], part: Any, values: Doubles, weights: Doubles, fold: Integers
) -> dict[str, tuple[Integers, Doubles]]:
    """Return for each column the m occurring pairs of fold and place, and sums over their rows.

    Sums (m, q + 3) are of values (n, q) times weights (n,), of weights, their squares, and ones.
    """
    found, names = {}, frame_names(part)
    weight = weights[:, np.newaxis]
    each = np.column_stack([values * weight, weight, weight**2, np.ones(len(part))])
    for column in columns:
        places = column.places(part.iloc[:, names.index(column.name)])
        known, codes = np.unique(fold * column.n_places + places, return_inverse=True)
        sums = np.zeros((len(known), each.shape[1]))
        np.add.at(sums, codes, each)
        found[column.name] = known, sums
    return found


def _share_with_others(counts: Doubles) -> float:
    """Return the share of rows with rows of their level in other folds, among levels of several.

    `counts` (folds, levels) are numbers of rows.
    """
    total = counts.sum(axis=0)
    several = counts[:, total > 1.0]
    return float((several * (total[total > 1.0] > several)).sum() / max(several.sum(), 1.0))


def agreement_of(sums: Doubles, values: Doubles, weights: Doubles) -> float:
    """Return how far labels of the same level agree across folds, in standard errors.

    That is the sum of products of deviations from the overall mean in two folds, over all pairs of
    folds, levels and parts, divided by its standard deviation if labels do not depend on levels.

    Parameters
    ----------
    sums : Doubles (folds, levels, q + 2)
        Sums of values times weights, of weights, and of their squares.
    values : Doubles (n, q)
    weights : Doubles (n,)
    """
    overall = np.average(values, axis=0, weights=weights)
    deviations = sums[..., :-2] - sums[..., -2:-1] * overall

    def across(each: Doubles) -> float:
        return float(np.square(each.sum(axis=0)).sum() - np.square(each).sum())

    covariance = np.cov(values.T, aweights=weights)
    variance = 2.0 * across(sums[..., -1]) * float(np.square(covariance).sum())
    return across(deviations) / math.sqrt(variance) if variance > 0.0 else 0.0


def _means(sums: Doubles, overall: Doubles) -> Doubles:
    """Return means less the overall means: without each fold, then of all folds, (folds + 1, ...).

    `sums` (folds, levels, q + 1) are of values times weights, and of weights.
    """
    total = sums.sum(axis=0)
    some = np.concatenate([total - sums, total[np.newaxis]])
    means: Doubles = (some[..., :-1] + PRIOR * overall) / (some[..., -1:] + PRIOR) - overall
    return means
