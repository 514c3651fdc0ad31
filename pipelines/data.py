"""Data of cells: generated, from `sparsegp.data` or from files of data.toml; and views of them."""

import hashlib
import math
import re
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from inspect import signature
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.ndimage import gaussian_filter

from pipelines.mixture import Mixture
from sparsegp.data import CATALOG, Dataset, open_dataset, toy
from sparsegp.errors import DataError, SettingsError, SparseGPError
from sparsegp.types import Integers, Labels

Groups = Sequence[Sequence[Any]]

MANY = 2**31
"""Key of the random streams of views, combined with the seed."""


@dataclass(frozen=True)
class Data:
    """Training rows (n, p), an array or dask array, with labels (n,); and test rows likewise."""

    name: str
    X_train: Any
    y_train: Labels
    X_test: Any
    y_test: Labels

    def parted(self, train: Integers) -> "Data":
        """Split the training rows: those numbered in `train` stay, the others are the test rows."""
        X, y = self.X_train, self.y_train
        test = np.setdiff1d(np.arange(len(y)), train)
        return Data(self.name, X[train], y[train], X[test], y[test])


def against_rest(data: Data, seed: int, class_number: int | None = None) -> Data:
    """Return the task of one class against all others, by default that numbered by the seed."""
    classes, one = np.unique(data.y_train), seed if class_number is None else class_number
    if not 0 <= one < len(classes):
        raise ValueError(f"class {one} must be from 0 to {len(classes) - 1} for {data.name}")
    y_train, y_test = ((y == classes[one]).astype(int) for y in (data.y_train, data.y_test))
    return replace(data, name=f"{data.name}, {classes[one]}", y_train=y_train, y_test=y_test)


def sample(data: Data, seed: int, train_rows: int) -> Data:
    """Return the first `train_rows` training rows of a permutation by the seed, or all."""
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
    """Return a random split of all rows, determined by the seed.

    Parameters
    ----------
    data, seed, test_rows
    detrend : bool
        For regressions: replace the targets by the residuals of a linear least-squares fit to all
        rows, scaled to unit variance (SLH section 6.3).
    labels : sequence
        If any, only rows with these labels are kept in both parts.
    smooth : float
        Standard deviation in pixels of a Gaussian filter for square images, whose border pixels are
        repeated outside.
    """
    X, y = map(np.concatenate, ((data.X_train, data.X_test), (data.y_train, data.y_test)))
    if detrend:
        design = np.column_stack([np.ones(len(X)), X.astype(np.float64)])
        rest = y - design @ np.linalg.lstsq(design, y.astype(np.float64))[0]
        y = rest / rest.std()
    if smooth:
        images = X.reshape(len(X), *[math.isqrt(X.shape[1])] * 2)  # fails if not square
        X = gaussian_filter(images, (0.0, smooth, smooth), mode="nearest").reshape(X.shape)
    order = np.random.default_rng([seed, MANY]).permutation(len(X))
    test, train = order[:test_rows], np.sort(order[test_rows:])
    if labels:
        test, train = (part[np.isin(y[part], labels)] for part in (test, train))
    return Data(f"{data.name} (split {seed})", X[train], y[train], X[test], y[test])


def fold(data: Data, seed: int, folds: int) -> Data:
    """Return one split of a cross-validation: the rows of fold number `seed` are the test rows.

    The training rows are divided into folds at random, always in the same way.
    """
    if seed >= folds:
        raise SettingsError(f"there are {folds} folds, so seeds must be below {folds}, got {seed}")
    order = np.random.default_rng(MANY).permutation(len(data.y_train))
    return data.parted(np.setdiff1d(order, np.array_split(order, folds)[seed]))


def grouped(data: Data, seed: int, train_rows: int, classes: Groups, column: Groups = ()) -> Data:
    """Return a random split with `train_rows` rows of every label, and groups of labels as classes.

    Parameters
    ----------
    data, seed, train_rows
        Data whose training rows are split, random seed, and number of training rows per label.
    classes : sequence of sequences
        Groups of labels that form a class; the new label is the number of the group.
    column : sequence of sequences
        Groups of labels whose numbers become an additional input column, if any.
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
"""Functions of data, the seed of a cell and options, which return the data of the cell."""


def draw_toy(seed: int, n_train: int = 1000, n_test: int = 2385, apart: bool = False) -> Data:
    """Draw the toy problem of Girolami & Rogers (2006), sec. 6.1; see `sparsegp.data.toy`."""
    train, test = toy(n_train, 2 * seed, apart=apart), toy(n_test, 2 * seed + 1, apart=apart)
    return Data("toy", *train, *test)


def draw_gaussians(seed: int, n_train: int = 500, n_test: int = 500) -> Data:
    """Draw three classes of three Gaussians each in the plane (Cseke & Csato 2005, section 5).

    Means are uniform in [0, 10]^2 and covariances are I, which the paper does not state. All rows
    are whitened by mean and covariance of the training rows.
    """
    rng = np.random.default_rng(seed)
    means = rng.uniform(0.0, 10.0, size=(9, 2))
    labels = rng.permutation(np.repeat(np.arange(3), 3))
    which = rng.integers(0, 9, n_train + n_test)
    x = means[which] + rng.normal(size=(len(which), 2))
    centred = x - x[:n_train].mean(axis=0)
    root = np.linalg.cholesky(np.cov(x[:n_train].T))
    x, y = solve_triangular(root, centred.T, lower=True).T, labels[which]
    return Data("nine Gaussians", x[:n_train], y[:n_train], x[n_train:], y[n_train:])


def draw_mixture(seed: int, rows: int, columns: int, test_rows: int = 20000) -> Data:
    """Draw rows of `Mixture` into a zarr group in a folder that is deleted with the process."""
    store = Path(_folder().name) / f"{rows}-{columns}-{test_rows}-{seed}.zarr"
    if not store.exists():
        Mixture(columns, seed).write(store, rows, test_rows)
    return _data(store.name, open_dataset(store))


@cache
def _folder() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="sparsegp-rows-")


GENERATORS: dict[str, Callable[..., Data]] = {"toy": draw_toy, "mixture": draw_mixture}
GENERATORS["nine-gaussians"] = draw_gaussians
"""Functions of a seed and options, which generate a data set."""


@contextmanager
def errors_of(name: str) -> Iterator[None]:
    """Add the file and table whose values are at fault to the message of an error."""
    try:
        yield
    except SparseGPError as error:
        raise type(error)(f"{name}: {error}") from None
    except (TypeError, ValueError, AttributeError, KeyError, ImportError) as error:
        given = r".* got an unexpected keyword argument ('\w+')"
        reason = re.sub(given, r"there is no key \1; README.md names them all", str(error))
        raise SettingsError(f"{name}: {reason}") from error


@dataclass
class Source:
    """A table ``[data.NAME]`` of a pipeline.

    It contains `source`, a name in `GENERATORS`, in the catalog of `sparsegp.data` or in data.toml;
    the parameters of a generator; and tables named as in `VIEWS` with the parameters of a view.
    """

    name: str  # file and table, for messages
    table: Mapping[str, Any]

    def __post_init__(self) -> None:
        known, source = {*GENERATORS, *CATALOG, *_files()}, self.table["source"]
        if source not in known:
            raise ValueError(f"source is {source!r}; known: {', '.join(sorted(known))}")
        self.views = {key: value for key, value in self.table.items() if key in VIEWS}
        self.drawing = {k: v for k, v in self.table.items() if k not in {"source", *VIEWS}}
        signature(GENERATORS.get(source, lambda seed: seed)).bind(0, **self.drawing)
        for view, options in self.views.items():
            signature(VIEWS[view]).bind(None, 0, **options)

    def load(self, folder: Path | None, seed: int) -> Data:
        """Return the data of a cell with this seed, from files in a folder; require test rows."""
        source = self.table["source"]
        with errors_of(self.name):
            if source in GENERATORS:
                data = GENERATORS[source](seed, **self.drawing)
            elif source in CATALOG:
                data = _data(source, CATALOG[source]())
            else:
                files = _find(source, folder)
                dataset = open_dataset(files["train"])
                if "test" in files:  # a separate file
                    dataset = Dataset(dataset.train, open_dataset(files["test"]).train)
                data = _data(files["train"].name, dataset)
            for view, options in self.views.items():
                data = VIEWS[view](data, seed, **options)
            if not len(data.y_test):
                raise DataError(f"{data.name} has no test rows; give a view, such as split")
        return data

    def digests(self, folder: Path | None) -> dict[str, str]:
        """Return digests by name of the files that `load` would read; empty if they are missing."""
        try:
            found = _find(self.table["source"], folder)
        except (DataError, KeyError):
            return {}
        return {path.name: _digest(path, path.stat().st_mtime_ns) for path in found.values()}


def _data(name: str, dataset: Dataset) -> Data:
    """Return the tables of a dataset as arrays; inputs of a zarr group remain dask arrays."""
    tables = (dataset.train, dataset.test or dataset.train)
    X, X_test = (each.X if name.endswith(".zarr") else np.asarray(each.X) for each in tables)
    y, y_test = (np.asarray(each.y) for each in tables)
    n_test = 0 if dataset.test is None else len(y_test)
    return Data(name, X, y, X_test[:n_test], y_test[:n_test])


@cache
def _files() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("data.toml").read_text("utf-8"))


@cache
def _digest(path: Path, _changed: int) -> str:  # mtime, as the file may be replaced
    with path.open("rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()


def _find(name: str, folder: Path | None) -> dict[str, Path]:
    """Return the files of a data set in the first form of data.toml for which all exist."""
    forms, origin = _files()[name]["files"], _files()[name]["origin"]
    for form, inner in product(forms, [folder, folder / "raw"] if folder else []):
        plain = {key: inner / file.removesuffix(".gz") for key, file in form.items()}
        found = {k: p if p.is_file() else Path(f"{p}.gz") for k, p in plain.items()}
        if all(path.is_file() for path in found.values()):
            return found
    wanted = "; or ".join(" and ".join(form.values()) for form in forms)
    raise DataError(
        f"{name} needs {wanted}, from {origin}, in the folder that --data DIR or SPARSEGP_DATA "
        f"names, or its folder raw; there are none in {folder}"
    )
