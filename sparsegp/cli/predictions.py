"""Files of predictions, written batch by batch beside their place and renamed when complete."""

import csv
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsegp.checkpoint import files
from sparsegp.errors import SettingsError, StoreError
from sparsegp.registry import Registry
from sparsegp.types import Labels

if TYPE_CHECKING:
    from sparsegp.model import Model

ZARR_CHUNK_ROWS = 65536


@dataclass(frozen=True)
class Layout:
    """What is written for a row.

    Attributes
    ----------
    classes : Labels (K,)
        None in a regression.
    columns : mapping
        Of each array of numbers (m, c), the names of its columns.
    marks : sequence of str
        Arrays (m,) of true or false.
    """

    classes: Labels
    columns: Mapping[str, Sequence[str]]
    marks: Sequence[str]

    @classmethod
    def of(cls, model: "Model", latent: bool, rejects: bool) -> "Layout":
        """Return what a model predicts, with latent values or rejections if they are wanted."""
        names = [str(label) for label in model.classes.tolist()]
        if model.is_regression:
            columns = {"variance": ["variance"]}
        else:
            columns = {"probabilities": [f"p_{name}" for name in names]}
        if latent:
            each = [f"_{name}" for name in names] if model.n_latent > 1 else [""]
            prefix = "latent_" if model.n_latent == 1 else ""
            for kind in ("mean", "variance"):
                columns[f"latent_{kind}"] = [f"{prefix}{kind}{name}" for name in each]
        return cls(model.classes, columns, ["rejected"] if rejects else [])

    @property
    def label_dtype(self) -> np.dtype[Any]:
        """What a label is: a class, or a number in a regression."""
        return self.classes.dtype


class Writer(ABC):
    """Takes predictions of consecutive rows.

    Parameters
    ----------
    path : Path
        To be created.
    layout : Layout
    rows : int
        Rows in all.
    """

    def __init__(self, path: Path, layout: Layout, rows: int) -> None:
        self.path, self.layout, self.rows = path, layout, rows

    @abstractmethod
    def write(self, first: int, found: dict[str, Any]) -> None:
        """Write `labels`, marks (m,) and the arrays (m, c) of the rows from `first` on."""

    @abstractmethod
    def close(self) -> None:
        """Complete the file."""

    def abandon(self) -> None:  # noqa: B027 - most have nothing to let go of
        """Let go of the file, which is of no use."""


WRITERS: Registry[type[Writer]] = Registry("format of predictions")


@WRITERS.register(".csv")
class CsvWriter(Writer):
    """A line for every row; numbers are exact."""

    def __init__(self, path: Path, layout: Layout, rows: int) -> None:
        super().__init__(path, layout, rows)
        self._file = path.open("x", newline="", encoding="utf-8")
        self._csv = csv.writer(self._file, lineterminator="\n")
        columns = [column for names in layout.columns.values() for column in names]
        self._csv.writerow(["row", "label", *columns, *layout.marks])

    def write(self, first: int, found: dict[str, Any]) -> None:
        """Write lines."""
        numbers = np.concatenate([found[name] for name in self.layout.columns], axis=1).tolist()
        labels = found["labels"].tolist()
        marks = [[int(found[name][i]) for name in self.layout.marks] for i in range(len(labels))]
        self._csv.writerows(
            [first + i, label, *values, *marked]
            for i, (label, values, marked) in enumerate(zip(labels, numbers, marks, strict=True))
        )

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def abandon(self) -> None:
        """Close the file, written or not."""
        with suppress(OSError):
            self._file.close()


@WRITERS.register(".npz")
class NpzWriter(Writer):
    """An archive of arrays, collected in memory."""

    def __init__(self, path: Path, layout: Layout, rows: int) -> None:
        super().__init__(path, layout, rows)
        self._parts: list[dict[str, Any]] = []

    def write(self, first: int, found: dict[str, Any]) -> None:
        """Keep the rows."""
        del first
        self._parts.append(found)

    def close(self) -> None:
        """Write the archive."""
        arrays: dict[str, Any] = {
            name: np.concatenate([part[name] for part in self._parts])
            for name in ("labels", *self.layout.columns, *self.layout.marks)
        }
        if len(self.layout.classes):
            arrays["classes"] = self.layout.classes
        with self.path.open("xb") as file:
            np.savez(file, **arrays)


@WRITERS.register(".zarr")
class ZarrWriter(Writer):
    """A zarr group."""

    def __init__(self, path: Path, layout: Layout, rows: int) -> None:
        import zarr

        super().__init__(path, layout, rows)
        self._group: Any = zarr.open_group(str(path), mode="w")
        if len(layout.classes):
            self._create("classes", layout.label_dtype, layout.classes.shape)[:] = layout.classes
        self._arrays = {"labels": self._create("labels", layout.label_dtype, (rows,))}
        for name, columns in layout.columns.items():
            shape = (rows, len(columns))
            self._arrays[name] = self._create(name, np.dtype(np.float64), shape)
        for name in layout.marks:
            self._arrays[name] = self._create(name, np.dtype(np.bool_), (rows,))

    def _create(self, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
        chunks = (min(shape[0], ZARR_CHUNK_ROWS), *shape[1:])
        kind = str if dtype.kind == "U" else dtype
        return self._group.create_array(name, shape=shape, chunks=chunks, dtype=kind)

    def write(self, first: int, found: dict[str, Any]) -> None:
        """Write rows of every array."""
        for name, array in self._arrays.items():
            array[first : first + len(found[name])] = found[name]

    def close(self) -> None:
        """Do nothing: every chunk is written."""


def check_target(path: Path, force: bool) -> None:
    """Check that predictions can go to a path, before any of them is made.

    Raises
    ------
    SettingsError
        If the format is unknown, or something is there that is not to be replaced.
    StoreError
        If there is no such directory.
    """
    if path.suffix.lower() not in WRITERS:
        raise SettingsError(
            f"cannot tell the format of {str(path)!r}; its name must end in {', '.join(WRITERS)}"
        )
    if not path.parent.is_dir():
        raise StoreError(f"there is no directory {path.parent} for {path.name}; make it first")
    if not path.exists():
        return
    if not force:
        raise SettingsError(f"{path} exists; choose another --out, or replace it by --force")
    directory = path.suffix.lower() == ".zarr"
    if path.is_dir() != directory or (directory and not (path / "zarr.json").is_file()):
        raise SettingsError(f"{path} is no file of predictions; choose another --out")


DROP_ATTEMPTS, STAYS_AWAY, DROP_PAUSE = 50, 3, 0.02
"""How often to look whether what was deleted is gone, how often in a row, and seconds between."""


@contextmanager
def writing(path: Path, layout: Layout, rows: int) -> Iterator[Writer]:
    """Open a writer; what it wrote appears at the path when all went well, else nothing does.

    Raises
    ------
    StoreError
        If it cannot be written.
    """
    path = path.absolute()
    fresh = files.beside(path, "tmp")
    with ExitStack() as stack:
        stack.callback(_drop, fresh)
        try:
            writer = WRITERS[path.suffix.lower()](fresh, layout, rows)
            stack.callback(writer.abandon)
            yield writer
            writer.close()
            files.replace(fresh, path)
        except OSError as error:
            if isinstance(error, StoreError):
                raise
            reason = error.strerror or error
            raise StoreError(f"cannot write {path}: {reason}; free space or change --out") from None


def _drop(fresh: Path) -> None:
    """Delete what was begun, as often as it comes back.

    A chunk of zarr that cannot be written does not keep those that are written beside it from
    coming after.
    """
    if not fresh.exists():
        return
    gone = 0
    for _ in range(DROP_ATTEMPTS):
        if fresh.exists():
            files.discard(fresh)
            gone = 0
        elif (gone := gone + 1) == STAYS_AWAY:
            return
        time.sleep(DROP_PAUSE)
