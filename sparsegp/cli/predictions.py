"""Files of predictions, written under a temporary name and renamed when complete.

A format is one function, which takes the predictions batch by batch.
"""

import csv
import gzip
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TextIO

import numpy as np

from sparsegp.data.frames import is_number
from sparsegp.data.storage import plain
from sparsegp.errors import SettingsError, StoreError, visible
from sparsegp.model import Model
from sparsegp.store import store_errors
from sparsegp.types import Labels

PREDICTIONS = "sparsegp predictions"
"""Attribute of zarr groups of predictions."""
Batches = Iterator[dict[str, Any]]
"""Arrays by name for each batch of rows, in the order in which they are written: `labels` and
others (m,), and those with several columns (m, c)."""


def predicted(
    model: Model, rows: Iterable[tuple[Any, Any]], wanted: dict[str, Any], count: Counter[str]
) -> Batches:
    """Yield the arrays to write for each batch of rows, and count the rows.

    Ids come first; their name gets the prefix `id_` if it is that of another column.
    """
    for X, ids in rows:
        count["rows"] += len(X)
        found = dict[str, Any]()
        if model.is_regression:
            found["labels"], variance = model.predictive_mean_and_variance(X)
            found["variance"] = variance[:, np.newaxis]
        else:
            logs = model.predict_log_proba(X)
            found["labels"] = model.classes[logs.argmax(axis=1)]
            found["probabilities"] = np.exp(logs)
        if wanted["latent"]:
            found["latent_mean"], found["latent_variance"] = model.latent_mean_and_variance(X)
        if wanted["set"] is not None:
            found["set"] = model.predict_set(X, wanted["set"])
        rejected, below, novel = [], wanted["reject_below"], wanted["reject_novel"]
        if below is not None:
            rejected.append(found["probabilities"].max(axis=1) < below)
        if wanted["novelty"] or novel is not None:
            novelty = model.novelty(X)
            if wanted["novelty"]:
                found["novelty"] = novelty
            rejected += [] if novel is None else [novelty >= novel]
        if rejected:
            found["rejected"] = np.any(rejected, axis=0)
            count["rejected"] += int(found["rejected"].sum())
        ((names, _),) = written_columns(iter([found]), model.classes)
        # names in files of any format; the last two are arguments of `numpy.savez`
        taken = {*names, *found, "classes", "file", "allow_pickle"}
        yield {"id_" * (name in taken) + name: each for name, each in ids.items()} | found


def written_columns(batches: Batches, classes: Labels) -> Iterator[tuple[list[str], list[Any]]]:
    """Yield the names and values (m,) of the columns of each batch; the first has row numbers."""
    row = 0
    for found in batches:
        names, columns = ["row"], [np.arange(row, row := row + len(found["labels"]))]
        for name, array in found.items():
            if array.ndim == 1 or array.shape[1] == 1:
                names.append("label" if name == "labels" else name)
            else:
                prefix = "p" if name == "probabilities" else name.removeprefix("latent_")
                names += [f"{prefix}_{label}" for label in classes.tolist()]
            columns += [*array.T] if array.ndim == 2 else [array]
        yield names, columns


def harmless(text: str) -> str:
    """Escape control characters, and put ' before what a spreadsheet would take for a formula."""
    text = visible(text)
    is_formula = text.startswith(("=", "+", "-", "@")) and not is_number(text)
    return f"'{text}" if is_formula else text


def write_csv(path: Path, classes: Labels, batches: Batches) -> None:
    """Write a line for every row, with tabs or compressed if the name says so; numbers are exact.

    Compressed files contain no name and no time, so that equal predictions give the same bytes.
    """
    with open(path, "xb") as raw:
        name = path.name.lower()
        is_packed = name.endswith(".gz")
        delimiter = "\t" if name.removesuffix(".gz").endswith(".tsv") else ","
        file: Any = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if is_packed else raw
        with TextIOWrapper(file, "utf-8", newline="") as text:
            write_lines(text, classes, batches, delimiter)


def write_lines(file: TextIO, classes: Labels, batches: Batches, delimiter: str = ",") -> None:
    """Write a line for every row to an open file, batch by batch."""
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    for number, (names, columns) in enumerate(written_columns(batches, classes)):
        if not number:
            writer.writerow(map(harmless, names))
        cells: list[Any] = []
        for name, values in zip(names, columns, strict=True):
            is_mark = values.dtype == np.bool_ and name != "label"
            plain = (values.astype(int) if is_mark else values).tolist()
            cells.append(plain if values.dtype.kind != "U" else map(harmless, plain))
        writer.writerows(zip(*cells, strict=True))
        file.flush()


def write_parquet(path: Path, classes: Labels, batches: Batches) -> None:
    """Write the columns of a .csv with labels and names unchanged, a row group per batch."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    named = written_columns(batches, classes)
    tables = (pa.table(list(map(pa.array, columns)), names) for names, columns in named)
    first = next(tables)
    with ParquetWriter(path, first.schema) as writer:
        for table in chain([first], tables):
            writer.write_table(table)


def write_npz(path: Path, classes: Labels, batches: Batches) -> None:
    """Write an archive of arrays, which are collected in memory."""
    parts = list(batches)
    arrays = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    if len(classes):
        arrays["classes"] = classes
    np.savez(path, allow_pickle=False, **arrays)


def write_zarr(path: Path, classes: Labels, batches: Batches) -> None:
    """Write a zarr group, one chunk per batch."""
    import zarr

    group: Any = zarr.open_group(str(path), mode="w", attributes={PREDICTIONS: True})

    def append(name: str, values: Any) -> None:
        name = name.replace("/", "_").strip(".") or "id"  # names in zarr are paths
        if name not in group:
            kind = str if values.dtype.kind == "U" else values.dtype
            shape, chunks = (0, *values.shape[1:]), (max(len(values), 1), *values.shape[1:])
            group.create_array(name, shape=shape, chunks=chunks, dtype=kind)
        group[name].append(values)

    if len(classes):
        append("classes", classes)
    for found in batches:
        for name, values in found.items():
            append(name, values)


WRITERS: dict[str, Callable[[Path, Labels, Batches], None]] = {
    **dict.fromkeys((".csv", ".csv.gz", ".tsv", ".tsv.gz"), write_csv),
    ".parquet": write_parquet,
    ".npz": write_npz,
    ".zarr": write_zarr,
}


def writer_of(path: Path) -> Callable[[Path, Labels, Batches], None]:
    """Return the function that writes the format named by the suffix of a file.

    Raises
    ------
    SettingsError
        If the format is unknown.
    """
    for ending, writer in WRITERS.items():
        if path.name.lower().endswith(ending):
            return writer
    raise SettingsError(
        f"cannot tell the format of {str(path)!r}; its name must end in {', '.join(WRITERS)}, "
        "or be - for standard output"
    )


def check_target(path: Path, overwrite: bool, data: str) -> None:
    """Check that predictions of `data` can be written to a path, before they are computed.

    Raises
    ------
    SettingsError
        If the format is unknown, or the path exists and is not to be replaced, or holds the data.
    StoreError
        If its directory does not exist.
    """
    writer = writer_of(path)
    if writer is write_parquet and find_spec("pyarrow") is None:
        raise SettingsError("pyarrow, which writes .parquet, is missing; install sparsegp[parquet]")
    with store_errors("write", path, remedy="choose another --out"):
        if not path.parent.is_dir():
            raise StoreError(f"there is no directory {path.parent} for {path.name}; make it first")
        if path.exists() and not overwrite:
            raise SettingsError(
                f"{path} exists; choose another --out, or replace it by --overwrite"
            )
        parts = [Path(plain(part.strip())).expanduser() for part in data.split(",")]
        if path.exists() and any(part.exists() and path.samefile(part) for part in parts):
            raise SettingsError(f"{path} holds the rows to predict; choose another --out")
        is_other = not _holds_predictions(path) if path.is_dir() else writer is write_zarr
        if is_other and path.exists():
            raise SettingsError(f"{path} does not hold such predictions; choose another --out")


def _holds_predictions(path: Path) -> bool:
    try:
        return PREDICTIONS in json.loads((path / "zarr.json").read_text("utf-8"))["attributes"]
    except (FileNotFoundError, KeyError, TypeError, ValueError, RecursionError):
        return False


def write(path: Path, classes: Labels, batches: Batches) -> None:
    """Write predictions atomically: the path only changes if everything succeeds.

    Parameters
    ----------
    path : Path
    classes : Labels (K,)
        Empty for a regression.
    batches : iterator

    Raises
    ------
    StoreError
        If they cannot be written.
    """
    path = path.absolute()
    with (
        store_errors("write", path, remedy="free space or change --out"),
        TemporaryDirectory(prefix=f".{path.name[:99]}-", dir=path.parent) as folder,
    ):
        fresh = Path(folder, path.name)
        writer_of(path)(fresh, classes, batches)
        if path.is_dir():
            shutil.rmtree(path)
        os.replace(fresh, path)
