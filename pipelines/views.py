"""Tasks made of data: one class against the rest, random splits, folds, groups of classes."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter

from sparsegp.types import Doubles, Integers, Labels

Groups = Sequence[Sequence[Any]]

MANY = 2**31
"""Key of the random streams of views."""


@dataclass(frozen=True)
class Data:
    """Training rows (n, p), an array or dask array, and labels (n,); the same of test rows."""

    name: str
    X_train: Any
    y_train: Labels
    X_test: Any
    y_test: Labels

    @property
    def label_shares(self) -> Doubles:
        """The share in the training rows of the label of each test row that has one."""
        classes, counts = np.unique(self.y_train, return_counts=True)
        known = self.y_test[np.isin(self.y_test, classes)]
        return np.asarray(counts[np.searchsorted(classes, known)] / counts.sum())

    def parted(self, train: Integers) -> "Data":
        """Return some of the training rows, by their numbers, and the others as test rows."""
        X, y = self.X_train, self.y_train
        test = np.setdiff1d(np.arange(len(y)), train)
        return Data(self.name, X[train], y[train], X[test], y[test])


def against_rest(data: Data, seed: int, class_number: int | None = None) -> Data:
    """Return the task to tell a class from all others: that of a number, by default the seed's."""
    classes, one = np.unique(data.y_train), seed if class_number is None else class_number
    if not 0 <= one < len(classes):
        raise ValueError(f"class {one} must be from 0 to {len(classes) - 1} for {data.name}")
    y_train, y_test = ((y == classes[one]).astype(int) for y in (data.y_train, data.y_test))
    return replace(data, name=f"{data.name}, {classes[one]}", y_train=y_train, y_test=y_test)


def sample(data: Data, seed: int, train_rows: int) -> Data:
    """Return so many training rows, the first ones of a permutation keyed by the seed, or all."""
    order = np.random.default_rng([seed, MANY]).permutation(len(data.y_train))
    rows = np.sort(order[:train_rows])
    return replace(data, X_train=data.X_train[rows], y_train=data.y_train[rows])


def split(
    data: Data,
    seed: int,
    test_rows: int,
    detrend: bool = False,
    labels: Sequence[Any] = (),
    smooth: float = 0.0,
) -> Data:
    """Return a random split of all rows, keyed by the seed.

    Parameters
    ----------
    data, seed, test_rows
    detrend : bool
        For regressions: take the residuals of the least squares fit by a linear function to all
        rows, of variance one, in place of the labels (SLH section 6.3).
    labels : sequence
        Of both parts only the rows with these labels are kept, if any are named.
    smooth : float
        Width in pixels of a Gaussian by which square images are smoothed; at edges their border
        goes on.
    """
    X = np.concatenate([data.X_train, data.X_test])
    y = np.concatenate([data.y_train, data.y_test])
    if detrend:
        design = np.column_stack([np.ones(len(X)), X.astype(np.float64)])
        rest = y - design @ np.linalg.lstsq(design, y.astype(np.float64))[0]
        y = rest / rest.std()
    if smooth:
        images = X.reshape(len(X), *[math.isqrt(X.shape[1])] * 2)  # refuses what is not square
        X = gaussian_filter(images, (0.0, smooth, smooth), mode="nearest").reshape(X.shape)
    order = np.random.default_rng([seed, MANY]).permutation(len(X))
    test, train = order[:test_rows], np.sort(order[test_rows:])
    if labels:
        test, train = (part[np.isin(y[part], labels)] for part in (test, train))
    return Data(f"{data.name} (split {seed})", X[train], y[train], X[test], y[test])


def fold(data: Data, seed: int, folds: int) -> Data:
    """Return one part of a cross-validation: the rows of fold number `seed` are the test rows.

    The training rows are divided at random, always in the same way.
    """
    n = len(data.y_train)
    test = np.array_split(np.random.default_rng(MANY).permutation(n), folds)[seed]
    return data.parted(np.setdiff1d(np.arange(n), test))


def grouped(data: Data, seed: int, train_rows: int, classes: Groups, column: Groups = ()) -> Data:
    """Return a random split with so many training rows of every label, and groups as classes.

    Parameters
    ----------
    data, seed, train_rows
        Whose training rows are split, by what key, and how many there are then of every label.
    classes : sequence of sequences
        The labels that make a class, each in one group; the new label is the group's number.
    column : sequence of sequences
        The same for one more column of the inputs, if any.
    """
    labels, codes = np.unique(data.y_train, return_inverse=True)
    numbers = []
    for groups in filter(len, (classes, column)):
        of_label = {label: i for i, group in enumerate(groups) for label in group}
        numbers.append(np.array([of_label[label] for label in labels.tolist()])[codes])
    X = np.column_stack([data.X_train, *numbers[1:]])
    rng = np.random.default_rng([seed, MANY])
    train = [rng.permutation(np.flatnonzero(codes == k))[:train_rows] for k in range(len(labels))]
    return replace(data, X_train=X, y_train=numbers[0]).parted(np.sort(np.concatenate(train)))


VIEWS: dict[str, Callable[..., Data]] = {
    view.__name__: view for view in (against_rest, sample, split, fold, grouped)
}
"""From data and the seed of a cell to the task of that cell; parameters are the function's."""
