"""A folder on a disk or in an object store, whose files appear whole or not at all.

On a disk a file is written beside its place as `.name.<32 hex digits>.tmp`, synced and renamed; no
link is followed, and nothing is read that is not a regular file. In a store, which is reached
through fsspec, a file is one object and one PUT.
"""

import errno
import json
import os
import re
import socket
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from sparsegp.data.storage import plain, require_memory, store_of
from sparsegp.errors import DataError, StoreError, one_line

LARGEST = 1 << 26
"""Bytes of a file that `Folder.read` reads at most."""

_URL = re.compile(r"([A-Za-z0-9+.-]+::)*[A-Za-z][A-Za-z0-9+.-]*:/")
_NOT_PLAIN = re.compile(r"[*?\[\]\x00-\x1f]|::")
_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{32}\.tmp")
_SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Flags by which no link is followed and no FIFO waited for."""


class Directory:
    """A directory of this machine; made by the first `write` or `lock`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    def __str__(self) -> str:
        return str(self.path)

    def sizes(self) -> dict[str, int]:
        """Return the bytes of all files by name, without unfinished ones."""
        found = {}
        with _failing("list", self.path), suppress(FileNotFoundError, NotADirectoryError):
            for entry in os.scandir(self.path):
                if not _UNFINISHED.fullmatch(entry.name):
                    with suppress(FileNotFoundError):
                        found[entry.name] = entry.stat(follow_symlinks=False).st_size
        return found

    def open(self, name: str) -> IO[bytes]:
        """Open a regular file for reading; FileNotFoundError if there is none."""
        path = self.path / name
        with _failing("read", path, FileNotFoundError):
            return os.fdopen(_open_regular(path, os.O_RDONLY), "rb")

    def write(
        self, name: str, fill: Callable[[IO[bytes]], object], new: bool = False, sync: bool = True
    ) -> None:
        """Write a file.

        Parameters
        ----------
        name : str
        fill : callable
            Is given the file to write to.
        new : bool
            For a `Bucket`; here the lock decides between two who try it at the same time.
        sync : bool
            Whether it has to be on the disk when this returns.
        """
        del new
        path, beside = self.path / name, self.path / f".{name}.{uuid4().hex}.tmp"
        with _failing("write", path):
            _make(self.path)
            if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
                raise StoreError(f"cannot write {path}: what is there is no regular file")
            try:
                with beside.open("xb") as file:
                    fill(file)
                    file.flush()
                    if sync:
                        os.fsync(file.fileno())
                beside.replace(path)
            except BaseException:
                with suppress(OSError):
                    beside.unlink(missing_ok=True)
                raise
            if sync:
                _sync(self.path)

    def delete(self, name: str) -> None:
        """Delete a file."""
        with _failing("delete", self.path / name):
            (self.path / name).unlink(missing_ok=True)

    def lock(self) -> None:
        """Take the `flock` of a file `lock`, which the system gives back when the process ends.

        Children made by a bare fork share it. What writers that were killed have left is deleted.
        """
        import fcntl  # noqa: PLC0415 - not on every system, and only needed to train

        path = self.path / "lock"
        with _failing("lock", path):
            _make(self.path)
            handle = _open_regular(path, os.O_RDWR | os.O_CREAT)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.read(handle, 100).decode(errors="replace").strip()
                os.close(handle)
                raise StoreError(
                    f"{path} is held by {holder or 'another process'}; wait for it or "
                    "use another directory"
                ) from None
            except OSError:
                os.close(handle)
                raise
            self._lock = handle
            with suppress(OSError):  # a full disk does not matter here
                os.ftruncate(handle, 0)
                os.write(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
            for entry in os.scandir(self.path):
                if _UNFINISHED.fullmatch(entry.name):
                    os.unlink(entry.path)

    def unlock(self) -> None:
        """Give the lock back; nothing happens if it is not held."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


class Bucket:
    """A folder in an object store, by its URL. It cannot be locked."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __str__(self) -> str:
        return one_line(self.url)

    def sizes(self) -> dict[str, int]:
        """Return the bytes of all objects by name."""
        with self._failing("list", "") as (fs, path), suppress(FileNotFoundError):
            found = fs.find(path, maxdepth=1, detail=True)
            start = f"{path}/"
            return {
                name.removeprefix(start): int(found[name]["size"])
                for name in found
                if name.startswith(start) and name != start
            }
        return {}

    def open(self, name: str) -> IO[bytes]:
        """Fetch an object; FileNotFoundError if there is none."""
        with self._failing("read", name, FileNotFoundError) as (fs, path):
            require_memory(int(fs.info(path)["size"]), f"{self}/{name}")
            return BytesIO(fs.cat_file(path))

    def write(
        self, name: str, fill: Callable[[IO[bytes]], object], new: bool = False, sync: bool = True
    ) -> None:
        """Put an object; FileExistsError if it is to be new and is there, see `Directory.write`."""
        del sync
        file = BytesIO()
        fill(file)
        content = file.getvalue()
        with self._failing("write", name, FileExistsError) as (fs, path):
            try:
                fs.pipe_file(path, content, mode="create" if new else "overwrite")
            except FileNotFoundError:
                raise StoreError(f"cannot write {self}: no such bucket; make it first") from None
            except Exception:
                if not (new and fs.exists(path)):
                    raise
                if fs.cat_file(path) != content:  # it is ours where only the answer was lost
                    raise FileExistsError(path) from None

    def delete(self, name: str) -> None:
        """Delete an object."""
        with self._failing("delete", name) as (fs, path), suppress(FileNotFoundError):
            fs.rm_file(path)

    def lock(self) -> None:
        """Do nothing: objects that are to be `new` keep two processes apart."""

    def unlock(self) -> None:
        """Do nothing."""

    @contextmanager
    def _failing(
        self, verb: str, name: str, *passing: type[Exception]
    ) -> Iterator[tuple[Any, str]]:
        """Yield the store and the path in it; turn errors but those passing into one line."""
        url = f"{self.url}/{name}" if name else self.url
        try:
            fs, path = store_of(url)
            fs.invalidate_cache()
            yield fs, path
        except StoreError:
            raise
        # the libraries behind fsspec have errors of their own, with no base in common
        except Exception as error:
            if isinstance(error, passing):
                raise
            known = isinstance(error, DataError)
            reason = str(error) if known else f"its store failed ({type(error).__name__}: {error})"
            reason = one_line(reason.replace(self.url, str(self)))
            raise StoreError(f"cannot {verb} {one_line(url)}: {reason}") from None


Folder = Directory | Bucket


def read(folder: Folder, name: str) -> bytes:
    """Return the content of a small file; FileNotFoundError if there is none."""
    with folder.open(name) as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise StoreError(f"{folder}/{name} must have at most {LARGEST} bytes; it is damaged")
    return content


def write_json(folder: Folder, name: str, content: Mapping[str, Any], **options: bool) -> None:
    """Write a JSON file; for the options see `Directory.write`."""
    text = json.dumps(content, indent=1, default=float).encode()
    folder.write(name, lambda file: file.write(text), **options)


def file_of(path: str | os.PathLike[str], name: str) -> tuple[Folder, str]:
    """Return folder and name of the file that a path names, or of the file `name` in that folder.

    Links to the file are followed, as it was named by the user.
    """
    folder = folder_of(path)
    if isinstance(folder, Directory):
        real = folder.path.resolve()
        return (folder, name) if real.is_dir() else (Directory(real.parent), real.name)
    parent, _, last = folder.url.rpartition("/")
    return (folder, name) if folder.sizes() or parent.endswith("/") else (Bucket(parent), last)


def folder_of(path: str | os.PathLike[str]) -> Folder:
    """Return the folder that a path or a URL names; file://... is a path.

    A URL that went through `pathlib.Path`, which takes one of its slashes, is understood.

    Raises
    ------
    StoreError
        If a URL has marks in it that have a meaning of their own to fsspec.
    """
    text = os.fspath(path)
    if not _URL.match(text):
        return Directory(Path(path))
    if "://" not in text:
        text = text.replace(":/", ":///" if text.startswith(("file:", "local:")) else "://", 1)
    if (local := plain(text)) != text:
        return Directory(Path(local))
    if _NOT_PLAIN.search(text):
        raise StoreError(f"{one_line(text)!r} must be a plain URL, without any of * ? [ ] ::")
    return Bucket(text.rstrip("/"))


@contextmanager
def _failing(verb: str, path: Path, *passing: type[Exception]) -> Iterator[None]:
    """Turn errors of the system but those passing into one line."""
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        if isinstance(error, passing):
            raise
        reasons = {errno.ELOOP: "it is a link", errno.ENOTDIR: f"{path.parent} is not a directory"}
        reasons[errno.EEXIST] = reasons[errno.ENOTDIR]
        reason = reasons.get(error.errno or 0, error.strerror or str(error))
        raise StoreError(f"cannot {verb} {path}: {reason}") from error


def _open_regular(path: Path, flags: int) -> int:
    handle = os.open(path, flags | _SAFE, 0o644)
    status = os.fstat(handle)
    shared = status.st_nlink > 1 and flags & os.O_RDWR  # it would be written under another name too
    if shared or not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise StoreError(f"{path} must be a regular file of its own, and is none")
    return handle


def _make(path: Path) -> None:
    """Make a directory and its parents, on the disk when this returns."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in reversed(missing):
        _sync(folder.parent)


def _sync(path: Path) -> None:
    """Put the entries of a directory on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
