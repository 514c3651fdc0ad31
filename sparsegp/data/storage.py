"""Files by path, or by URL in a store of fsspec (s3, gs, memory, ...): sizes, bytes, errors.

Whoever needs bytes opens the store itself: the workers of a cluster read their own rows, with the
credentials and the endpoint that their environment names.
"""

import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, cast
from zipfile import BadZipFile

from sparsegp.errors import DataError

EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs"}
"""The extra of this package that a protocol needs."""

LARGEST_JSON = 1 << 24
"""Bytes of metadata that are read."""

PIECE = 1 << 20
"""Bytes that are unpacked at a time."""


class Version(NamedTuple):
    """Size in bytes, and what tells one version of a file from another."""

    size: int
    stamp: str


def is_url(name: str) -> bool:
    """Tell whether a file is in a store of fsspec; those of this machine are paths."""
    return "://" in name


def plain(name: str) -> str:
    """Return the path that a URL of this machine, file://..., stands for; others as they are."""
    for protocol in ("file://", "local://"):
        name = name.removeprefix(protocol)
    return name


def sibling(name: str, other: str) -> str:
    """Return the file called `other` in the folder of a file."""
    folder, slash, _ = name.rpartition("/")
    return f"{folder}{slash}{other}"


def version(name: str) -> Version:
    """Return size and stamp of a file.

    Raises
    ------
    DataError
        If there is none, or the store cannot be reached.
    """
    with reading(name):
        if not is_url(name):
            status = os.stat(name)
            return Version(status.st_size, str(status.st_mtime_ns))
        fs, path = store_of(name)
        return Version(int(fs.info(path)["size"]), str(fs.checksum(path)))


def is_file(name: str) -> bool:
    """Tell whether there is such a file.

    Raises
    ------
    DataError
        If the store cannot be asked.
    """
    if not is_url(name):
        return Path(name).is_file()
    with reading(name):
        fs, path = store_of(name)
        try:
            return bool(fs.info(path)["type"] == "file")
        except FileNotFoundError:
            return False


def open_plain(name: str) -> IO[bytes]:
    """Open a file for reading bytes at any place; of a store, only those asked for are fetched."""
    if not is_url(name):
        return Path(name).open("rb")
    fs, path = store_of(name)
    return cast("IO[bytes]", fs.open(path, "rb"))


def read_range(name: str, start: int, stop: int) -> bytes:
    """Read bytes start..stop-1 of a file, of one in a store by one request."""
    if not is_url(name):
        with Path(name).open("rb") as file:
            file.seek(start)
            return file.read(stop - start)
    fs, path = store_of(name)
    return bytes(fs.cat_file(path, start=start, end=stop))


def read_json(name: str) -> Any:
    """Return the content of a JSON file.

    Raises
    ------
    DataError
        If it is not there, is no JSON, is nested too deeply, or is larger than metadata ever are.
    """
    size = version(name).size
    if size > LARGEST_JSON:
        raise DataError(f"{name} has {size} bytes; metadata of at most {LARGEST_JSON} are read")
    with reading(name):
        try:
            return json.loads(read_range(name, 0, size))
        except (ValueError, RecursionError) as error:
            raise DataError(f"{name} is damaged, it is no JSON ({said(error)})") from None


def entries(name: str) -> list[str]:
    """Return the names of what is in a folder.

    Raises
    ------
    DataError
        If it cannot be listed.
    """
    with reading(name):
        if not is_url(name):
            return sorted(os.listdir(name))
        fs, path = store_of(name)
        found = fs.ls(path, detail=False)
        return sorted({each.rstrip("/").rpartition("/")[2] for each in found})


def read_whole(file: IO[bytes], size: int, name: str) -> bytearray:
    """Read up to `size` bytes; memory grows with what is there, not with what was declared.

    Raises
    ------
    DataError
        If so much cannot be held in the memory of this machine.
    """
    require_memory(size, name)
    content = bytearray()
    while len(content) < size:
        piece = file.read(min(PIECE, size - len(content)))
        if not piece:
            break
        content += piece
    return content


def require_memory(size: int, name: str) -> None:
    """Refuse what is to be held in memory, if this machine has not so much.

    Raises
    ------
    DataError
    """
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if size > there:
        raise DataError(
            f"{name} declares {size / 1e9:.3g} GB that would have to be held in memory, and there "
            f"are {there / 1e9:.3g} GB; the file is damaged, or too large for its format"
        )


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turn whatever goes wrong while the file `name` is read into a `DataError` that names it."""
    try:
        yield
    except DataError:
        raise
    except PermissionError:
        raise DataError(f"cannot read {name}: no permission") from None
    except IsADirectoryError:
        raise DataError(f"cannot read {name}: it is a directory") from None
    except FileNotFoundError:
        what = "no such bucket or object" if is_url(name) else "it is not there"
        raise DataError(f"cannot read {name}: {what}") from None
    except MemoryError:
        raise DataError(
            f"cannot read {name}: it asks for more memory than there is; it may be damaged"
        ) from None
    except (
        EOFError,
        KeyError,
        NotImplementedError,
        OSError,
        ValueError,
        BadZipFile,
        zlib.error,
    ) as error:
        raise DataError(
            f"cannot read {name}: it is damaged, cut short or of another format ({said(error)})"
        ) from None
    except Exception as error:
        if not is_url(name):
            raise
        # the libraries behind fsspec have errors of their own, with no base in common
        raise DataError(f"cannot read {name}: its store failed ({said(error)})") from None


def require_protocol(url: str) -> None:
    """Refuse a URL whose protocol is unknown, or needs a package that is not installed.

    Raises
    ------
    DataError
    """
    store_of(url)


def store_of(url: str) -> tuple[Any, str]:
    """Return the store of a URL, and the path in it.

    Raises
    ------
    DataError
        If its protocol is unknown, or needs a package that is not installed.
    """
    from fsspec.core import url_to_fs  # noqa: PLC0415 - only where there is a URL

    protocol = url.partition("://")[0].rpartition("::")[2]
    try:
        fs, path = url_to_fs(url)
    except ImportError as error:
        extra = EXTRAS.get(protocol)
        how = f'install it by pip install "sparsegp[{extra}]"' if extra else str(error)
        raise DataError(f"{protocol}:// needs a package that is not installed; {how}") from None
    except ValueError as error:
        raise DataError(f"cannot read {url}: {error}") from None
    return fs, path


def printable(text: str) -> str:
    """Return text from a file as a message may show it: on one line, without control characters."""
    shown = "".join(mark if mark.isprintable() else " " for mark in text)
    return shown if len(shown) <= 400 else f"{shown[:397]}..."


def said(error: Exception) -> str:
    """Return in one line what an error of a library says."""
    return printable(f"{type(error).__name__}: {error}".strip())
