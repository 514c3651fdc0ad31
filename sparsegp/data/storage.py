"""Access to files by path, or by URL through fsspec (s3, gs, memory, ...): sizes, bytes, errors.

Every process opens the store itself: the workers of a cluster read their own rows, with the
credentials and the endpoint of their own environment.
"""

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from zipfile import ZipFile

from sparsegp.errors import DataError, quoted, short

SMALL = 1 << 28
"""Bytes of memory that every machine is assumed to have."""
PACKED = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zip": "zip"}
"""Suffixes of compressed files, and the names of their formats in fsspec."""


def is_url(name: str) -> bool:
    """Return whether a file is given by URL rather than by path."""
    return "://" in name


def absolute(name: str) -> str:
    """Return an absolute path for workers, whose working directory may differ; a URL is kept."""
    return name if is_url(name) else os.path.abspath(name)


def plain(name: str) -> str:
    """Return the path of a local URL, file://...; other names are returned unchanged."""
    return name.removeprefix("file://").removeprefix("local://")


def unpacked(name: str) -> str:
    """Return a file name without its compression suffix."""
    return next((name[: -len(end)] for end in PACKED if name.lower().endswith(end)), name)


def store_of(url: str) -> tuple[Any, str]:
    """Return the fsspec file system of a URL or path, and the path in it.

    Raises
    ------
    DataError
        If its protocol is unknown.
    ImportError
        If it needs a package that is not installed.
    """
    from fsspec.core import url_to_fs  # noqa: PLC0415 - heavy
    from fsspec.implementations.local import LocalFileSystem  # noqa: PLC0415

    try:
        return url_to_fs(url) if is_url(url) else (LocalFileSystem(), url)
    except ValueError as error:
        raise DataError(f"cannot read {url}: {error}") from None


def size_of(name: str) -> int | None:
    """Return the size of a file in bytes, None if there is no such file; see `reading`."""
    with reading(name):
        fs, path = store_of(name)
        try:
            found = fs.info(path)
        except FileNotFoundError:
            return None
        return int(found["size"]) if found["type"] == "file" else None


@contextmanager
def opened(name: str) -> Iterator[Any]:
    """Open a file for reading bytes, decompressed according to its suffix; see `reading`."""
    from fsspec.core import OpenFile  # noqa: PLC0415 - heavy

    packed = PACKED.get(name[len(unpacked(name)) :].lower())
    if packed == "zip":
        with reading(name), OpenFile(*store_of(name)) as file, ZipFile(file) as archive:
            names = [each.filename for each in archive.infolist() if not each.is_dir()]
            found = [each for each in names if not each.startswith("__MACOSX/")]
            if len(found) != 1:
                raise DataError(f"{name} must hold one file, found {quoted(found)}")
            with archive.open(found[0]) as content:
                yield Unpacked(content, name)
        return
    with reading(name), OpenFile(*store_of(name), "rb", packed) as file:
        yield file if packed is None else Unpacked(file, name)


class Unpacked(io.BufferedIOBase):
    """Decompressed content of a file, limited by memory: a small file may become a huge one."""

    def __init__(self, file: Any, name: str) -> None:
        self.file, self.name, self.count = file, name, 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """Return up to `size` more bytes."""
        content: bytes = self.file.read(size)
        self.count += len(content)
        require_memory(self.count, self.name)
        return content

    read1 = read


def require_memory(size: int, name: str) -> None:
    """Raise a `DataError` if `size` bytes, for the file `name`, exceed the memory limit."""
    if size <= SMALL:
        return
    from distributed.system import MEMORY_LIMIT  # noqa: PLC0415 - heavy; knows containers

    if size > MEMORY_LIMIT:
        raise DataError(
            f"{name} would take at least {size / 1e9:.3g} GB of memory, and there are "
            f"{MEMORY_LIMIT / 1e9:.3g} GB; it is damaged, or too large for its format"
        )


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turn any exception while the file `name` is read into a `DataError` that names it.

    The exceptions of the libraries that read formats, or that fsspec uses, share no base class.
    """
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        raise DataError(f"cannot read {short(name, 300)}: {_reason(error, name)}") from None


def _reason(error: Exception, name: str) -> str:
    known = {
        PermissionError: "no permission",
        IsADirectoryError: "it is a directory",
        FileNotFoundError: "no such bucket or object, or its store does not answer"
        if is_url(name)
        else "there is no such file",
        ImportError: f"a package is missing ({error}); install it: pyarrow reads Parquet files, "
        "s3fs s3://, gcsfs gs://",
        MemoryError: "it asks for more memory than there is; it may be damaged",
    }
    for kind, reason in known.items():
        if isinstance(error, kind):
            return reason
    store = ", or its store failed" if is_url(name) else ""
    text = short(f"{type(error).__name__}: {error}".strip(), 300)
    return f"it is damaged, cut short or of another format{store} ({text})"
