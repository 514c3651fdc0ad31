"""Files by path, or by URL in a store of fsspec (s3, gs, memory, ...): sizes, bytes, errors.

Every process opens the store itself: the workers of a cluster read their own rows, with the
credentials and the endpoint of their own environment.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from sparsegp.errors import DataError, short

SMALL = 1 << 28
"""Bytes that every machine is assumed to have."""

PACKED = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zip": "zip", ".zst": "zstd"}
"""Ends of the names of compressed files, and what fsspec calls them."""

LONGEST_LINE = 1 << 26
"""Characters of a line of text."""

SPLIT = 24
"""Bytes that a character of a line takes while the line is split into fields."""

MOST_WRITTEN = 1 << 20
"""Bytes of a file that people write."""


def is_url(name: str) -> bool:
    """Return whether a file is in a store of fsspec; files of this machine are paths."""
    return "://" in name


def plain(name: str) -> str:
    """Return the path of a URL of this machine, file://...; other names unchanged."""
    return name.removeprefix("file://").removeprefix("local://")


def unpacked(name: str) -> str:
    """Return the name of a file without the end that says how it is compressed."""
    return next((name[: -len(end)] for end in PACKED if name.lower().endswith(end)), name)


def store_of(url: str) -> tuple[Any, str]:
    """Return the store of a URL or path, and the path in it.

    Raises
    ------
    DataError
        If its protocol is unknown.
    ImportError
        If it needs a package that is not installed.
    """
    from fsspec.core import url_to_fs  # noqa: PLC0415 - heavy
    from fsspec.implementations.local import LocalFileSystem  # noqa: PLC0415

    if not is_url(url):
        return LocalFileSystem(), url
    try:
        fs, path = url_to_fs(url)
    except ValueError as error:
        raise DataError(f"cannot read {url}: {error}") from None
    return fs, path


def size_of(name: str) -> int | None:
    """Return the bytes of a file, None where there is no such file; see `reading`."""
    with reading(name):
        fs, path = store_of(name)
        try:
            found = fs.info(path)
        except FileNotFoundError:
            return None
        return int(found["size"]) if found["type"] == "file" else None


@contextmanager
def opened(name: str) -> Iterator[Any]:
    """Open a file for reading bytes, unpacked where its name is of `PACKED`; see `reading`."""
    from fsspec.core import OpenFile  # noqa: PLC0415 - heavy

    packed = PACKED.get(name[len(unpacked(name)) :].lower())
    with reading(name), OpenFile(*store_of(name), "rb", packed) as file:
        yield file


def written_text(path: Path) -> str:
    """Return the text of a file that people write, such as that of a cluster or a pipeline.

    Raises
    ------
    OSError
        If it cannot be read, is no regular file or is too long; the reason is its `strerror`.
    UnicodeDecodeError
        If it is no text in UTF-8.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # waits for no FIFO
    with os.fdopen(handle, "rb") as file:
        regular = stat.S_ISREG(os.fstat(handle).st_mode)
        content = file.read(MOST_WRITTEN + 1) if regular else b""
    if not regular or len(content) > MOST_WRITTEN:
        raise OSError(errno.EINVAL, f"it must be a regular file of at most {MOST_WRITTEN} bytes")
    return content.decode()


def require_memory(size: int, name: str) -> None:
    """Raise a `DataError` if this process may not hold `size` bytes, those of the file `name`."""
    if size <= SMALL:
        return
    from distributed.system import MEMORY_LIMIT  # noqa: PLC0415 - heavy; knows containers

    if size > MEMORY_LIMIT:
        raise DataError(
            f"{name} would take at least {size / 1e9:.3g} GB of memory, and there are "
            f"{MEMORY_LIMIT / 1e9:.3g} GB; it is damaged, or too large for its format"
        )


class Lines:
    """The lines of a text that are not blank; for messages, it keeps the last one and its number.

    Parameters
    ----------
    file : file of text or bytes
    name : str
        For messages.
    weight : int
        Bytes of memory that a character takes once it is read; see `require_memory`.
    """

    def __init__(self, file: IO[Any], name: str, weight: int = 0) -> None:
        self.file, self.name, self.weight = file, name, weight
        self.number, self.size, self.last = 0, 0, ""

    def __iter__(self) -> Iterator[Any]:
        while line := self.read():
            if not line.isspace():
                yield line

    def read(self) -> Any:
        """Return the next line, blank or not; empty at the end."""
        self.last = self.file.readline(LONGEST_LINE)
        self.number, self.size = self.number + 1, self.size + len(self.last)
        if len(self.last) == LONGEST_LINE:
            raise DataError(f"{self.name}, line {self.number} is too long for a row")
        require_memory(max(self.weight * self.size, SPLIT * len(self.last)), self.name)
        return self.last


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turn whatever goes wrong while the file `name` is read into a `DataError` that names it.

    The libraries that read formats, and those behind fsspec, have errors without a base in common.
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
        FileNotFoundError: "no such bucket or object" if is_url(name) else "there is no such file",
        ImportError: f"a package is missing ({error}); install it, or the extra that needs it: "
        'pip install "sparsegp[parquet]", "sparsegp[s3]" or "sparsegp[gcs]"',
        MemoryError: "it asks for more memory than there is; it may be damaged",
    }
    for kind, reason in known.items():
        if isinstance(error, kind):
            return reason
    store = ", or its store failed" if is_url(name) else ""
    text = short(f"{type(error).__name__}: {error}".strip(), 300)
    return f"it is damaged, cut short or of another format{store} ({text})"
