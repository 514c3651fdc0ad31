"""Opening of data sets: built-in ones by name, and files in any format that has a reader.

A reader is a function of a file name and a description of the columns; to add one, write such a
function and enter it in `FORMATS`.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from sparsegp.data.catalog import CATALOG
from sparsegp.data.readers.arrays import read_idx, read_npy, read_npz, read_zarr
from sparsegp.data.readers.columns import Columns
from sparsegp.data.readers.parquet import read_parquet
from sparsegp.data.readers.text import read_text
from sparsegp.data.storage import is_url, plain, reading, store_of, unpacked
from sparsegp.data.table import Dataset
from sparsegp.errors import DataError

Reader = Callable[[str, Columns], Dataset]

COLUMNAR: dict[str, Reader] = {
    **dict.fromkeys((".csv", ".dat", ".data", ".tab", ".tsv", ".txt"), read_text),
    ".parquet": read_parquet,
}
"""Readers of formats in which the label is one of the columns, by file name suffix."""

FORMATS: dict[str, Reader] = {
    **COLUMNAR,
    "idx3-ubyte": read_idx,
    ".npy": read_npy,
    ".npz": read_npz,
    ".zarr": read_zarr,
}


def open_dataset(source: str | Path, **given: Any) -> Dataset:
    """Open a data set; rows are read lazily where the format allows it.

    Parameters
    ----------
    source : str or path
        Name of a built-in data set, a file, a pair of files "X.npy,y.npy", a zarr directory, or
        their URL in object storage: s3://..., gs://..., or any other that fsspec supports. The
        suffix determines the format.
    **given
        Description of the columns: parameters of `sparsegp.data.readers.columns.Columns`, such
        as ``label_column="income"``, ``kinds={"city": "category"}`` or ``drop=["id"]``.

    Returns
    -------
    Dataset

    Raises
    ------
    DataError
        If there is no such data set, or it cannot be read or used for training.
    """
    name, ending, columns = str(source), "", Columns.of(**given)
    if name in CATALOG:
        dataset = CATALOG[name]()
    else:
        name = _located(name)
        first = unpacked(name.split(",", maxsplit=1)[0].rstrip("/").lower())
        ending = next(filter(first.endswith, FORMATS), "")
        if not ending:
            raise DataError(
                f"the format of {name!r} is not known; names must end in one of: "
                f"{', '.join(FORMATS)} (text and IDX files may be compressed, with .gz, .bz2, .xz "
                "or .zip at the end); save a spreadsheet as CSV"
            )
        dataset = FORMATS[ending](name, replace(columns, called=columns.called or name))
    if columns.given and ending not in COLUMNAR:
        raise DataError(
            f"{name} stores its labels apart from its columns, which have no names; leave "
            f"{' and '.join(f'`{each}`' for each in columns.given)} out"
        )
    table, n_features = dataset.train, columns.n_features
    if columns.names and (table.names or ())[: len(columns.names)] == tuple(columns.names):
        return dataset  # without the columns that the model leaves out
    if n_features is not None and table.X.shape[1] not in columns.widths:
        beside = " and labels" if ending in COLUMNAR and table.y is not None else ""
        raise DataError(
            f"the model takes {n_features} columns; {table.source} has {table.X.shape[1]}{beside}"
        )
    return dataset


def _located(source: str) -> str:
    """Return the source as its reader expects it; raise a `DataError` if there is none."""
    if is_url(source):
        source = ",".join(plain(part.strip()) for part in source.split(","))
    with reading(source):
        if is_url(source):
            store_of(source.split(",", maxsplit=1)[0])  # raises if it cannot be read
            return source
        path = Path(source).expanduser()
        if path.is_dir() or path.is_file():
            return str(path)
        if path.exists():
            raise DataError(f"{source} is neither a file nor a directory")
    if "," in source:
        return source
    names = ", ".join(CATALOG)
    raise DataError(f"no such file {source!r}; DATA is a file or one of: {names}")
