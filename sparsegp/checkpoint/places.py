"""Where runs, checkpoints and models are: in a directory, or in a store of objects under a URL.

A `StorePath` has what is asked of a `pathlib.Path` by those who read, under the same names. Who
writes must know the difference: an object appears whole or not at all, and there are no renames.
"""

import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from sparsegp.checkpoint.manifest import LARGEST
from sparsegp.data.storage import plain, said, store_of
from sparsegp.errors import DataError, StoreError

_URL = re.compile(r"([A-Za-z0-9+.-]+::)*[A-Za-z][A-Za-z0-9+.-]+:/")
_NOT_A_NAME = re.compile(r"[*?\[\]\x00-\x1f]|::")


@dataclass(frozen=True)
class StorePath:
    """A place in a store of fsspec.

    Whatever else goes wrong than that there is no such object is a `StoreError` of one line.
    Listings are never taken from a cache.

    Parameters
    ----------
    url : str
        Without a slash at its end.
    """

    url: str

    def __str__(self) -> str:
        return self.url

    def __fspath__(self) -> str:
        return self.url

    def __truediv__(self, name: str) -> "StorePath":
        return StorePath(f"{self.url}/{name}")

    @property
    def name(self) -> str:
        """The last part."""
        return self.url.rpartition("/")[2]

    def exists(self) -> bool:
        """Tell whether there is such an object, or one below."""
        return self._type() is not None

    def is_file(self) -> bool:
        """Tell whether there is such an object."""
        return self._type() == "file"

    def is_dir(self) -> bool:
        """Tell whether there are objects below."""
        return self._type() == "directory"

    def mkdir(self, parents: bool = False, exist_ok: bool = False) -> None:
        """Do nothing: a store of objects has no folders to be made."""

    def find(self) -> dict[str, int]:
        """Return the sizes of all objects below, by their names relative to this place."""
        with self._asking("list") as (fs, path):
            try:
                found = fs.find(path, detail=True)
            except FileNotFoundError:
                return {}
            start = f"{path}/"
            sizes = {name: entry["size"] for name, entry in found.items()}
            inside = (name for name in sorted(sizes) if name.startswith(start) and name != start)
            return {name.removeprefix(start): int(sizes[name]) for name in inside}

    def iterdir(self) -> "list[StorePath]":
        """Return what is directly below."""
        return [self / name for name in dict.fromkeys(each.split("/")[0] for each in self.find())]

    def glob(self, pattern: str) -> "list[StorePath]":
        """Return the objects directly below whose names match."""
        names = (name for name in self.find() if "/" not in name and fnmatchcase(name, pattern))
        return [self / name for name in names]

    def read_bytes(self, limit: int = LARGEST) -> bytes:
        """Return the content of an object.

        Raises
        ------
        FileNotFoundError
            If there is none.
        StoreError
            If it is larger than the limit.
        """
        content = self.get({"": limit + 1})[""]
        if content is None:
            raise FileNotFoundError(2, "no such bucket or object", self.url)
        if len(content) > limit:
            raise StoreError(f"{self} is altered: at most {limit} bytes are read")
        return content

    def read_text(self) -> str:
        """Return the content of an object as text."""
        return self.read_bytes().decode()

    def get(self, limits: Mapping[str, int]) -> "dict[str, bytes | None]":
        """Return the first bytes of objects below, side by side; None for one that is missing.

        Parameters
        ----------
        limits : mapping
            The most bytes that are wanted, more than 0, by name; "" is this place itself.
        """
        with self._asking("read") as (fs, path):
            paths = [f"{path}/{name}" if name else path for name in limits]
            zeros = [0] * len(paths)
            found = fs.cat_ranges(paths, zeros, list(limits.values()), on_error="return")
        for name, content in zip(limits, found, strict=True):
            if isinstance(content, Exception) and not isinstance(content, FileNotFoundError):
                with (self / name if name else self)._asking("read"):
                    raise content
        held = (None if isinstance(each, Exception) else bytes(each) for each in found)
        return dict(zip(limits, held, strict=True))

    def write_bytes(self, content: bytes) -> None:
        """Put an object, which replaces one of its name."""
        self.put({"": content})

    def put(self, contents: Mapping[str, bytes]) -> None:
        """Put objects below, side by side; "" is this place itself."""
        with self._asking("write") as (fs, path):
            try:
                fs.pipe({f"{path}/{name}" if name else path: c for name, c in contents.items()})
            except FileNotFoundError:
                raise StoreError(f"cannot write {self}: no such bucket; make it first") from None

    def create(self, content: bytes) -> None:
        """Put an object where there is none.

        A store that can do so decides between two who try it at the same time. Where it cannot, the
        later one may win, and neither is told.

        Raises
        ------
        StoreError
            If there is one, or nothing can be written.
        """
        with self._asking("write") as (fs, path):
            try:
                fs.pipe_file(path, content, mode="create")
            except FileNotFoundError:
                raise StoreError(f"cannot write {self}: no such bucket; make it first") from None

    def delete(self, names: Collection[str]) -> None:
        """Delete objects below; those that are gone already do not matter."""
        with self._asking("delete") as (fs, path):
            there = self.find()
            doomed = [f"{path}/{name}" for name in names if name in there]
            if doomed:
                fs.rm(doomed)

    def _type(self) -> str | None:
        with self._asking("read") as (fs, path):
            try:
                return str(fs.info(path)["type"])
            except FileNotFoundError:
                return None

    @contextmanager
    def _asking(self, verb: str) -> Iterator[tuple[Any, str]]:
        """Yield the store and the path in it, and turn what goes wrong into one line."""
        try:
            fs, path = store_of(self.url)
            fs.invalidate_cache()
            yield fs, path
        except StoreError:
            raise
        except DataError as error:
            raise StoreError(str(error)) from None
        except PermissionError:
            raise StoreError(f"cannot {verb} {self}: no permission") from None
        # the libraries behind fsspec have errors of their own, with no base in common
        except Exception as error:
            raise StoreError(f"cannot {verb} {self}: its store failed ({said(error)})") from None


Place = Path | StorePath


def place_of(path: str | os.PathLike[str]) -> Place:
    """Return the place that a path or a URL names; file://... is a path.

    A URL that went through `pathlib.Path`, which takes one of its slashes, is understood.

    Raises
    ------
    StoreError
        If a URL has marks in it that have a meaning of their own to fsspec.
    """
    text = os.fspath(path)
    if not _URL.match(text):
        return Path(path)
    if "://" not in text:
        text = text.replace(":/", ":///" if text.startswith(("file:", "local:")) else "://", 1)
    if (local := plain(text)) != text:
        return Path(local)
    if _NOT_A_NAME.search(text):
        raise StoreError(f"{text!r} must be a plain URL, without any of * ? [ ] ::")
    return StorePath(text.rstrip("/"))


def folder_bytes(folder: Place) -> int:
    """Return the bytes of the files in a folder and below."""
    if isinstance(folder, StorePath):
        return sum(folder.find().values())
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
