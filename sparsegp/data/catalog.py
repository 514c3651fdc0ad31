"""Built-in data sets, by name."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from sparsegp.data.table import Dataset, table_from_arrays
from sparsegp.types import Doubles, Integers


def digits() -> Dataset:
    """Return handwritten digits of 8 x 8 pixels, values 0..16: 1437 training and 360 test rows.

    They come with scikit-learn; the split is stratified and always the same.
    """
    from sklearn.datasets import load_digits  # noqa: PLC0415
    from sklearn.model_selection import train_test_split  # noqa: PLC0415

    X, y = load_digits(return_X_y=True)
    split: list[Any] = train_test_split(X, y, test_size=0.2, stratify=y, random_state=0)
    return _dataset("digits", train=split[::2], test=split[1::2])


def bundled(name: str) -> Dataset:
    """Return the iris (150 rows, 4 columns) or wine data (178 rows, 13 columns) of scikit-learn."""
    from sklearn import datasets  # noqa: PLC0415

    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return Dataset(table_from_arrays(X, y, name))


CATALOG: dict[str, Callable[[], Dataset]] = {
    "digits": digits,
    "iris": partial(bundled, "iris"),
    "toy": lambda: _dataset("toy", train=toy(1000, 0), test=toy(2385, 1)),  # as in sec. 6.3
    "wine": partial(bundled, "wine"),
}


def toy(n: int, seed: int, *, apart: bool = False) -> tuple[Doubles, Integers]:
    """Draw the toy problem of Girolami & Rogers (2006), sec. 6.1: X (n, 10), and labels 1 to 3.

    Classes are equally probable. In the plane of the first two columns, with r^2 = x1^2 + x2^2,
    class 1 is uniform on the ring 0.5 > r^2 > 0.1, class 2 on the ring 1.0 > r^2 > 0.6, and class 3
    is N(0, 0.01 I). The other eight columns are N(0, 1) for all classes.

    Parameters
    ----------
    n : int
        Number of rows.
    seed : int
        Random seed.
    apart : bool
        Redraw rows of class 3 with r^2 > 0.1, among those of the other classes, as the authors'
        program does. Then the classes do not overlap.
    """
    rng = np.random.default_rng([seed, n])
    y = rng.integers(1, 4, size=n)
    X = rng.standard_normal((n, 10))
    for label, (inner, outer) in {1: (0.1, 0.5), 2: (0.6, 1.0)}.items():
        rows = np.flatnonzero(y == label)
        X[rows, :2] = _ring(rng, len(rows), inner, outer)
    X[y == 3, :2] *= 0.1
    while apart and (far := (y == 3) & ((X[:, :2] ** 2).sum(axis=1) > 0.1)).any():
        X[far, :2] = 0.1 * rng.standard_normal((far.sum(), 2))
    return X, y


def _ring(rng: np.random.Generator, n: int, inner: float, outer: float) -> Doubles:
    """Draw n points uniformly from inner < r^2 < outer, by rejection from the enclosing square."""
    side = np.sqrt(outer)
    found = np.empty((0, 2))
    while len(found) < n:
        points = rng.uniform(-side, side, size=(4 * n, 2))
        squared = (points**2).sum(axis=1)
        found = np.concatenate([found, points[(inner < squared) & (squared < outer)]])
    return found[:n]


def _dataset(name: str, **parts: Any) -> Dataset:
    """Create a data set from `train` and `test` rows, each a pair (X, y)."""
    tables = (table_from_arrays(X, y, f"{name} ({part})") for part, (X, y) in parts.items())
    return Dataset(*tables)
