"""Where data come from: drawn, ready in `sparsegp.data`, or files that data.toml names."""

import hashlib
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import signature
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from pipelines.mixture import Mixture
from pipelines.toml import errors_of, read_toml
from pipelines.views import VIEWS, Data
from sparsegp.data import CATALOG, Dataset, open_dataset, toy
from sparsegp.errors import DataError


def draw_toy(seed: int, n_train: int = 1000, n_test: int = 2385, apart: bool = False) -> Data:
    """Draw the toy problem of Girolami & Rogers (2006), sec. 6.1; see `sparsegp.data.toy`."""
    train, test = toy(n_train, 2 * seed, apart=apart), toy(n_test, 2 * seed + 1, apart=apart)
    return Data("toy", *train, *test)


def draw_gaussians(seed: int, n_train: int = 500, n_test: int = 500) -> Data:
    """Draw three classes of three Gaussians each in the plane (Cseke & Csato 2005, section 5).

    Means are even in [0, 10]^2, covariances I, which the paper does not tell. All rows are whitened
    by mean and covariance of the training rows.
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
    """Draw rows of `Mixture` into a zarr group in a folder that lasts as long as the process."""
    store = Path(_folder().name) / f"{rows}-{columns}-{test_rows}-{seed}.zarr"
    if not store.exists():
        Mixture(columns, seed).write(store, rows, test_rows)
    return _data(store.name, open_dataset(store))


@cache
def _folder() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="sparsegp-rows-")


GENERATORS: dict[str, Callable[..., Data]] = {"toy": draw_toy, "mixture": draw_mixture}
GENERATORS["nine-gaussians"] = draw_gaussians
"""Data sets drawn anew for every seed; parameters are those of the function."""


@dataclass(frozen=True)
class Source:
    """A table ``[data.NAME]`` of a pipeline.

    It has `source`, a name in `GENERATORS`, in the catalog of `sparsegp.data` or in data.toml; the
    parameters of a generator; those of a view, as a table that has its name in `VIEWS`.
    """

    name: str  # of the file and the table, for messages
    table: Mapping[str, Any]

    def __post_init__(self) -> None:
        known, source = {*GENERATORS, *CATALOG, *_files()}, self.table["source"]
        if source not in known:
            raise ValueError(f"source is {source!r}; known: {', '.join(sorted(known))}")
        views, drawing = self._parts()
        signature(GENERATORS.get(source, lambda seed: seed)).bind(0, **drawing)
        for view, options in views.items():
            signature(VIEWS[view]).bind(None, 0, **options)

    def _parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the views with their parameters, and those of the generator."""
        views = {key: value for key, value in self.table.items() if key in VIEWS}
        return views, {k: v for k, v in self.table.items() if k not in {"source", *VIEWS}}

    def load(self, folder: Path | None, seed: int) -> Data:
        """Return the rows of the cell with a seed, by files in a folder; there are test rows."""
        source, (views, drawing) = self.table["source"], self._parts()
        with errors_of(self.name):
            if source in GENERATORS:
                data = GENERATORS[source](seed, **drawing)
            elif source in CATALOG:
                data = _data(source, CATALOG[source]())
            else:
                files = _find(source, folder)
                dataset = open_dataset(files["train"])
                if "test" in files:  # rows in a file of their own
                    dataset = Dataset(dataset.train, open_dataset(files["test"]).train)
                data = _data(files["train"].name, dataset)
            for view, options in views.items():
                data = VIEWS[view](data, seed, **options)
            if not len(data.y_test):
                raise DataError(f"{data.name} has no test rows; give a view, such as split")
        return data

    def digests(self, folder: Path | None) -> dict[str, str]:
        """Return digests of the files that `load` would read, none if they are missing."""
        try:
            found = _find(self.table["source"], folder)
        except (DataError, KeyError):
            return {}
        return {path.name: _digest(path, path.stat().st_mtime_ns) for path in found.values()}


def _data(name: str, dataset: Dataset) -> Data:
    """Return tables as arrays, but for inputs in a zarr group; without test rows, none of them."""
    tables = (dataset.train, dataset.test or dataset.train)
    X, X_test = (each.X if name.endswith(".zarr") else np.asarray(each.X) for each in tables)
    y, y_test = (np.asarray(each.y) for each in tables)
    n_test = 0 if dataset.test is None else len(y_test)
    return Data(name, X, y, X_test[:n_test], y_test[:n_test])


@cache
def _files() -> dict[str, Any]:
    return read_toml(Path(__file__).with_name("data.toml"))


@cache
def _digest(path: Path, changed: int) -> str:
    del changed  # another file of that name
    with path.open("rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()


def _find(name: str, folder: Path | None) -> dict[str, Path]:
    """Return the files of the first form that is complete."""
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
