"""Tasks made of other data: one class against the rest, random splits, folds, groups of classes."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter

from sparsegp.data import Dataset, Table, encode, encode_with, table_from_arrays
from sparsegp.data.numbers import as_numbers
from sparsegp.errors import DataError
from sparsegp.registry import Registry
from sparsegp.reproduce.sources import Source, read_source
from sparsegp.reproduce.toml import Section
from sparsegp.types import Booleans, Doubles, Floats

VIEWS: Registry[Callable[..., Dataset]] = Registry("view")
"""From a data set and the data seed of a cell to the task of that cell."""

MANY = 2**31


@VIEWS.register("against-rest")
def against_rest(dataset: Dataset, seed: int, class_number: int | None = None) -> Dataset:
    """Return the task to tell one class from all others.

    Parameters
    ----------
    dataset : Dataset
    seed : int
    class_number : int, optional
        Of the class, in the order of the labels; `seed` if left out.

    Raises
    ------
    DataError
        If there is no such class.
    """
    name, one = ("data seed", seed) if class_number is None else ("class_number", class_number)
    classes, codes = encode(dataset.train.y, dataset.train.source)
    if not 0 <= one < len(classes):
        raise DataError(
            f"{name} {one} must be the number of a class of {dataset.train.source}, from 0 to "
            f"{len(classes) - 1}"
        )

    def told(table: Table, codes: Any) -> Table:
        source = f"{table.source}, {classes[one]} against the rest"
        return Table(table.X, (codes == one).astype(np.int64), source)

    test = dataset.test
    if test is not None:
        test = told(test, encode_with(classes, test.y, test.source)[0])
    return Dataset(told(dataset.train, codes), test)


@VIEWS.register("split")
def split(
    dataset: Dataset,
    seed: int,
    test_rows: int,
    detrend: bool = False,
    labels: Sequence[Any] = (),
    smooth: float = 0.0,
) -> Dataset:
    """Return a random split of all rows, keyed by the seed.

    Parameters
    ----------
    dataset : Dataset
    seed : int
    test_rows : int
    detrend : bool
        For regressions: take the residuals of the least squares fit by a linear function to all
        rows, of variance one, in place of the labels (SLH section 6.3).
    labels : sequence
        Of both parts only the rows with these labels are kept, if any are named.
    smooth : float
        Width in pixels of a Gaussian by which square images are smoothed.

    Raises
    ------
    DataError
        If there are not so many rows, labels to detrend are no numbers, no row has a label, or
        images to smooth are not square.
    """
    parts = [table for table in (dataset.train, dataset.test) if table is not None]
    X = np.concatenate([np.asarray(table.X) for table in parts])
    y = np.concatenate([np.asarray(table.y) for table in parts])
    source = dataset.train.source
    if not 0 < test_rows < len(X):
        raise DataError(f"test_rows must be from 1 to {len(X) - 1} for {source}, got {test_rows}")
    if detrend:
        y = residuals(X, as_numbers(y, source))
    if smooth:
        X = smoothed(X, smooth, source)
    order = np.random.default_rng([seed, MANY]).permutation(len(X))
    test, train = order[:test_rows], np.sort(order[test_rows:])
    if labels:
        missing = [label for label in labels if not (y == label).any()]
        if missing:
            raise DataError(f"labels must be those of rows of {source}, got {missing}")
        test, train = (part[np.isin(y[part], list(labels))] for part in (test, train))
    return Dataset(
        table_from_arrays(X[train], y[train], f"{source} (train, split {seed})"),
        table_from_arrays(X[test], y[test], f"{source} (test, split {seed})"),
    )


@VIEWS.register("fold")
def fold(dataset: Dataset, seed: int, folds: int) -> Dataset:
    """Return one part of a cross-validation: the rows of fold number `seed` are the test rows.

    Parameters
    ----------
    dataset : Dataset
        Its training rows are dealt out at random, always in the same way.
    seed : int
    folds : int

    Raises
    ------
    DataError
        If there is no such fold, or there are fewer than two, or fewer rows than folds.
    """
    table, n = dataset.train, dataset.train.X.shape[0]
    if not 2 <= folds <= n:
        raise DataError(f"folds must be from 2 to {n} for {table.source}, got {folds}")
    if seed >= folds:
        raise DataError(f"data seed {seed} must be the number of a fold, from 0 to {folds - 1}")
    test = np.zeros(n, dtype=bool)
    test[np.array_split(np.random.default_rng(MANY).permutation(n), folds)[seed]] = True
    return _parted(table, np.asarray(table.y), ~test, f"fold {seed}")


@VIEWS.register("grouped")
def grouped(
    dataset: Dataset,
    seed: int,
    train_rows: int,
    classes: Sequence[Sequence[Any]],
    column: Sequence[Sequence[Any]] = (),
) -> Dataset:
    """Return a random split with so many training rows of every label, and groups as classes.

    Parameters
    ----------
    dataset : Dataset
        Its training rows are split.
    seed : int
    train_rows : int
        Of every label.
    classes : sequence of sequences
        The labels that make a class, each in one place; the new label is the place.
    column : sequence of sequences
        The same for one more column of the inputs, if any.

    Raises
    ------
    DataError
        If a label is not in just one place, or has no row for the test.
    """
    table = dataset.train
    labels, codes, counts = np.unique(np.asarray(table.y), return_inverse=True, return_counts=True)
    if not 0 < train_rows < counts.min():
        raise DataError(
            f"train_rows must be from 1 to {counts.min() - 1} for {table.source}, got {train_rows}"
        )
    if column:
        own = _places(labels, column, "column", table.source)[codes]
        X = np.concatenate([np.asarray(table.X), own[:, np.newaxis]], axis=1)
        table = table_from_arrays(X, table.y, table.source)
    rng, train = np.random.default_rng([seed, MANY]), np.zeros(len(codes), dtype=bool)
    for code in range(len(labels)):
        train[rng.permutation(np.flatnonzero(codes == code))[:train_rows]] = True
    y = _places(labels, classes, "classes", table.source)[codes]
    return _parted(table, y, train, f"split {seed}")


def _places(labels: Any, groups: Sequence[Sequence[Any]], name: str, source: str) -> Any:
    """Return the number of the group of each label, (K,)."""
    places = [[i for i, group in enumerate(groups) if label in group] for label in labels.tolist()]
    if any(len(place) != 1 for place in places) or sum(map(len, groups)) != len(labels):
        raise DataError(
            f"{name} must name each label of {source} once ({labels.tolist()}), got "
            f"{[list(group) for group in groups]}"
        )
    return np.array([place[0] for place in places])


def _parted(table: Table, y: Any, train: Booleans, name: str) -> Dataset:
    """Return rows as training rows, and the others as test rows."""
    X = np.asarray(table.X)
    return Dataset(
        table_from_arrays(X[train], y[train], f"{table.source} (train, {name})"),
        table_from_arrays(X[~train], y[~train], f"{table.source} (test, {name})"),
    )


def smoothed(X: Floats, width: float, source: str) -> Floats:
    """Return square images (n, p) convolved with a Gaussian; at edges their border goes on.

    Raises
    ------
    DataError
        If p is no square number.
    """
    side = math.isqrt(X.shape[1])
    if side * side != X.shape[1]:
        raise DataError(f"columns of {source} must be square images, got {X.shape[1]} columns")
    images = X.reshape(-1, side, side)
    return np.asarray(gaussian_filter(images, (0.0, width, width), mode="nearest")).reshape(X.shape)


def residuals(X: Doubles, y: Doubles) -> Doubles:
    """Return what a linear function with intercept leaves of y (n,), scaled to variance one."""
    design = np.column_stack([np.ones(len(X)), np.asarray(X, np.float64)])
    left = y - design @ np.linalg.lstsq(design, y)[0]
    return np.asarray(left / left.std())


@dataclass(frozen=True)
class Viewed(Source):
    """Data of another source, seen as the task of a data seed.

    Parameters
    ----------
    base : Source
    view : str
        Name in `VIEWS`.
    parameters : tuple of (str, object)
    """

    base: Source
    view: str
    parameters: tuple[tuple[str, Any], ...] = ()

    @property
    def seeded(self) -> bool:
        """Whether the task depends on the data seed: it does, unless its class is named."""
        return "class_number" not in dict(self.parameters)

    def to_json(self, seed: int | None) -> dict[str, Any]:
        """Return what the base and the view depend on."""
        return {
            **self.base.to_json(None),
            "view": self.view,
            **dict(self.parameters),
            "seed": seed,
        }

    def load(self, folder: Path | None, seed: int | None) -> Dataset:
        """Load the base and make the task."""
        return VIEWS[self.view](self.base.load(folder, None), seed or 0, **dict(self.parameters))

    def digests(self, folder: Path | None) -> dict[str, str]:
        """Return those of the base."""
        return self.base.digests(folder)


def read_viewed(section: Section) -> Source:
    """Read a data table of a pipeline, with the view that it may name.

    Raises
    ------
    SettingsError
        If something is missing, unknown or of the wrong type.
    """
    view = section.maybe("view", str)
    if view is None:
        return read_source(section)
    if view not in VIEWS:
        raise section.error("view", f"is {view!r}; known: {', '.join(VIEWS)}")
    parameters = PARAMETERS[view](section)
    return Viewed(read_source(section), view, tuple(parameters.items()))


def _of_class(section: Section) -> dict[str, Any]:
    number = section.maybe("class_number", int)
    return {} if number is None else {"class_number": number}


def _of_split(section: Section) -> dict[str, Any]:
    found: dict[str, Any] = {
        "test_rows": section.take("test_rows", int),
        "detrend": section.take("detrend", bool, False),
    }
    if "labels" in section:
        found["labels"] = tuple(section.take("labels", list))
    if "smooth" in section:
        found["smooth"] = section.take("smooth", float)
    return found


def _of_fold(section: Section) -> dict[str, Any]:
    return {"folds": section.take("folds", int)}


def _of_groups(section: Section) -> dict[str, Any]:
    names = [name for name in ("classes", "column") if name == "classes" or name in section]
    groups = {name: tuple(map(tuple, section.take_list(name, list))) for name in names}
    return {"train_rows": section.take("train_rows", int), **groups}


PARAMETERS: dict[str, Callable[[Section], dict[str, Any]]] = {
    "against-rest": _of_class,
    "split": _of_split,
    "fold": _of_fold,
    "grouped": _of_groups,
}
"""What is read of each view."""
