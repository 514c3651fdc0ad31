"""Where the data of a pipeline come from: drawn, from the catalog, or files looked up by name."""

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparsegp.data import CATALOG, Dataset, nine_gaussians, open_dataset, table_from_arrays, toy
from sparsegp.errors import DataError
from sparsegp.registry import Registry
from sparsegp.reproduce.toml import Section

DATA_VARIABLE = "SPARSEGP_DATA"
"""Environment variable that names the data folder when `--data` does not."""

GENERATORS: Registry[Callable[..., Dataset]] = Registry("generator")
"""Data sets drawn anew for every data seed; parameters are those of the function."""


@GENERATORS.register("toy")
def draw_toy(seed: int, n_train: int = 1000, n_test: int = 2385) -> Dataset:
    """Draw the toy problem of Girolami & Rogers (2006), sec. 6.1; see `sparsegp.data.toy`."""
    return _toy(seed, n_train, n_test, apart=False)


@GENERATORS.register("toy-apart")
def draw_toy_apart(seed: int, n_train: int = 1000, n_test: int = 2385) -> Dataset:
    """Draw it with classes that do not overlap."""
    return _toy(seed, n_train, n_test, apart=True)


def _toy(seed: int, n_train: int, n_test: int, *, apart: bool) -> Dataset:
    train, test = toy(n_train, 2 * seed, apart=apart), toy(n_test, 2 * seed + 1, apart=apart)
    return Dataset(
        table_from_arrays(*train, f"toy (train, seed {seed})"),
        table_from_arrays(*test, f"toy (test, seed {seed})"),
    )


@GENERATORS.register("nine-gaussians")
def draw_nine_gaussians(seed: int, n_train: int = 500, n_test: int = 500) -> Dataset:
    """Draw the problem of Cseke & Csato (2005); see `sparsegp.data.nine_gaussians`."""
    return nine_gaussians(n_train, n_test, seed)


class Source(ABC):
    """Data of one kind, by the seed they are drawn with where they are drawn."""

    @property
    def seeded(self) -> bool:
        """Whether the data depend on the data seed."""
        return False

    @abstractmethod
    def to_json(self, seed: int | None) -> dict[str, Any]:
        """Return what the data depend on, as the pipeline names it."""

    @abstractmethod
    def load(self, folder: Path | None, seed: int | None) -> Dataset:
        """Return the training and test rows.

        Raises
        ------
        DataError
            If files are missing or cannot be read.
        """

    def digests(self, folder: Path | None) -> dict[str, str]:
        """Return digests of the files by name; none where there are no files."""
        del folder
        return {}


@dataclass(frozen=True)
class Drawn(Source):
    """A generator with its parameters.

    Parameters
    ----------
    name : str
        In `GENERATORS`.
    parameters : tuple of (str, int)
    """

    name: str
    parameters: tuple[tuple[str, int], ...] = ()

    @property
    def seeded(self) -> bool:
        """Whether the data depend on the data seed: they do."""
        return True

    def to_json(self, seed: int | None) -> dict[str, Any]:
        """Return name, parameters and seed."""
        return {"name": self.name, **dict(self.parameters), "seed": seed}

    def load(self, folder: Path | None, seed: int | None) -> Dataset:
        """Draw the rows."""
        del folder
        return GENERATORS[self.name](seed or 0, **dict(self.parameters))


@dataclass(frozen=True)
class Catalogued(Source):
    """A member of `CATALOG`."""

    name: str

    def to_json(self, seed: int | None) -> dict[str, Any]:
        """Return the name."""
        del seed
        return {"name": self.name}

    def load(self, folder: Path | None, seed: int | None) -> Dataset:
        """Return it."""
        del folder, seed
        return CATALOG[self.name]()


@dataclass(frozen=True)
class FileSet:
    """File names of one form of a data set.

    Parameters
    ----------
    train : str
    test : str or None
        If left out, the reader finds the test rows in, or beside, the training file.
    beside : tuple of str
        Further files that the reader takes.
    """

    train: str
    test: str | None = None
    beside: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """All of them."""
        return [self.train, *([self.test] if self.test else []), *self.beside]

    def find(self, folder: Path) -> dict[str, Path] | None:
        """Return the files by name if all are in the folder, packed or not; else None."""
        found = {}
        for name in self.names:
            plain = name.removesuffix(".gz")
            paths = [folder / name, folder / plain, folder / f"{plain}.gz"]
            path = next((path for path in paths if path.is_file()), None)
            if path is None:
                return None
            found[name] = path
        return found


@dataclass(frozen=True)
class Files(Source):
    """Files that the user has, in one of several forms.

    Parameters
    ----------
    sets : tuple of FileSet
        In order of preference.
    origin : str
        Where to get them, in words.
    pipeline : str
        Name of the pipeline's file, for messages.
    """

    sets: tuple[FileSet, ...]
    origin: str
    pipeline: str

    def to_json(self, seed: int | None) -> dict[str, Any]:
        """Return the names of the files."""
        del seed
        return {"files": [files.names for files in self.sets]}

    def load(self, folder: Path | None, seed: int | None) -> Dataset:
        """Read the first form that is complete."""
        del seed
        files, found = self._find(folder)
        dataset = open_dataset(found[files.train])
        if files.test is None:
            return dataset
        return Dataset(dataset.train, open_dataset(found[files.test]).train)

    def digests(self, folder: Path | None) -> dict[str, str]:
        """Return digests of the files that `load` would read, none if they are missing."""
        try:
            _, found = self._find(folder)
        except DataError:
            return {}
        return {path.name: _digest(path) for path in found.values()}

    def _find(self, folder: Path | None) -> tuple[FileSet, dict[str, Path]]:
        wanted = "; or ".join(" and ".join(files.names) for files in self.sets)
        needs = f"{self.pipeline} needs {wanted}, from {self.origin}"
        if folder is None:
            raise DataError(
                f"{needs}; put them into one folder and name it by --data DIR or {DATA_VARIABLE}"
            )
        if not folder.is_dir():
            raise DataError(f"{needs}; {folder}, named by --data or {DATA_VARIABLE}, is no folder")
        for files in self.sets:
            for place in (folder, folder / "raw"):
                found = files.find(place)
                if found is not None:
                    return files, found
        raise DataError(f"{needs}; they are neither in {folder} nor in {folder / 'raw'} (--data)")


def data_folder(given: str | os.PathLike[str] | None) -> Path | None:
    """Return the data folder: the given one, else that of `DATA_VARIABLE`, else None."""
    named = given or os.environ.get(DATA_VARIABLE)
    return Path(named).expanduser() if named else None


def read_source(section: Section) -> Source:
    """Read a data table of a pipeline: ``name`` with parameters, or ``files`` and ``origin``.

    Raises
    ------
    SettingsError
        If something is missing, unknown or of the wrong type.
    """
    if "files" in section:
        sets = tuple(_read_files(files) for files in section.sections("files"))
        if not sets:
            raise section.error("files", "must have at least one entry")
        source: Source = Files(sets, section.take("origin", str), Path(section.file).name)
    else:
        source = _read_named(section)
    section.done()
    return source


def _read_files(section: Section) -> FileSet:
    files = FileSet(
        section.take("train", str),
        section.maybe("test", str),
        tuple(section.take_list("beside", str, [])),
    )
    section.done()
    return files


def _read_named(section: Section) -> Source:
    name = section.take("name", str)
    if name in GENERATORS:
        given = [(key, section.maybe(key, int)) for key in ("n_train", "n_test")]
        return Drawn(name, tuple((key, value) for key, value in given if value is not None))
    if name in CATALOG:
        return Catalogued(name)
    known = ", ".join(sorted({*GENERATORS, *CATALOG}))
    raise section.error("name", f"is {name!r}; known: {known}; or give files and origin")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
