"""Folders on a disk or in an object store, whose files are written atomically.

On a disk, a file is written as `.name.<32 hex digits>.tmp` in the same directory, synced and
renamed; no link is followed, and only regular files are read. In an object store, accessed through
fsspec, a file is one object, written by one PUT.
"""

import errno
import fcntl
import os
import re
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from sparsegp.data.storage import is_url, require_memory, store_of
from sparsegp.errors import DataError, StoreError, one_line
from sparsegp.fields import path_text

_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{32}\.tmp")
_SAFE = os.O_NOFOLLOW | os.O_NONBLOCK
"""Flags of `os.open` by which links are not followed, and FIFOs not waited for."""
_REASONS = {errno.ELOOP: "it is a link"} | dict.fromkeys(
    (errno.ENOTDIR, errno.EEXIST), "it, or what should hold it, is not a directory"
)


@dataclass(frozen=True)
class Directory:
    """A local directory, which is created with its first file or lock."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def sizes(self) -> dict[str, int]:
        """Return the sizes in bytes of all files by name, except unfinished ones."""
        found = {}
        with (
            store_errors("list", self),
            suppress(FileNotFoundError, NotADirectoryError),
            os.scandir(self.path) as entries,
        ):
            for entry in entries:
                with suppress(FileNotFoundError):
                    found[entry.name] = entry.stat(follow_symlinks=False).st_size
        return {name: size for name, size in found.items() if not _UNFINISHED.fullmatch(name)}

    def open(self, name: str) -> IO[bytes]:
        """Open a regular file for reading; raise a FileNotFoundError if there is none."""
        with store_errors("read", self.path / name, FileNotFoundError):
            return os.fdopen(_open_regular(self.path / name, os.O_RDONLY), "rb")

    @contextmanager
    def writing(self, name: str, new: bool = False, sync: bool = True) -> Iterator[IO[bytes]]:
        """Yield a file to write to, which is renamed at the end; with `sync` it is flushed to disk.

        `new` is ignored: only a `Bucket` needs it, since a directory is locked against others.
        """
        path, beside = self.path / name, self.path / f".{name}.{uuid4().hex}.tmp"
        with store_errors("write", path):
            if not path.is_symlink() and (path.is_char_device() or path.is_block_device()):
                raise OSError(errno.ENODEV, "it is a device")  # root could replace /dev/null
            self.path.mkdir(parents=True, exist_ok=True)
            try:
                with beside.open("xb") as file:
                    yield file
                    file.flush()
                    if sync:
                        os.fsync(file.fileno())
                beside.replace(path)
            finally:
                with suppress(OSError):
                    beside.unlink(missing_ok=True)
            if sync:
                _sync(self.path)

    def delete(self, name: str) -> None:
        """Delete a file."""
        with store_errors("delete", self.path / name):
            (self.path / name).unlink(missing_ok=True)

    def lock(self) -> int:
        """Lock the file `lock` by `flock` until the returned handle is closed or the process ends.

        Forked children share it. Unfinished files of killed writers are deleted.
        """
        path = self.path / "lock"
        with store_errors("write", path, remedy="use another directory"):
            self.path.mkdir(parents=True, exist_ok=True)
            _sync(self.path.parent)
            handle = _open_regular(path, os.O_RDWR | os.O_CREAT)
            try:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:  # perhaps by `holder` in another process, for an instant
                    time.sleep(0.1)
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                holder = os.read(handle, 100).decode(errors="replace").strip()
                os.close(handle)
                if not isinstance(error, BlockingIOError):
                    raise
                raise StoreError(
                    f"{path} is held by {holder or 'another process'}; wait for it or use another "
                    "directory"
                ) from None
            with suppress(OSError):  # a full disk does not matter here
                for name in filter(_UNFINISHED.fullmatch, os.listdir(self.path)):
                    os.unlink(self.path / name)
                os.ftruncate(handle, 0)
                os.write(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
            return handle

    def holder(self) -> str:
        """Return the holder of the lock, such as "process 5 on host"; "" if it is free."""
        with suppress(OSError, StoreError), self.open("lock") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return file.read(100).decode(errors="replace").strip() or "another process"
        return ""


@dataclass(frozen=True)
class Bucket:
    """A folder in an object store, given by its URL; it cannot be locked."""

    url: str

    def __str__(self) -> str:
        return one_line(self.url)

    def sizes(self) -> dict[str, int]:
        """Return the sizes in bytes of all objects by name."""
        with self._store("list") as (fs, path), suppress(FileNotFoundError):
            found = fs.find(path, maxdepth=1, detail=True)
            below = {name.removeprefix(f"{path}/"): found[name]["size"] for name in found}
            return {name: int(size) for name, size in below.items() if name not in {"", path}}
        return {}

    def open(self, name: str) -> IO[bytes]:
        """Fetch an object; raise a FileNotFoundError if there is none."""
        with self._store("read", name, FileNotFoundError) as (fs, path):
            require_memory(int(fs.info(path)["size"]), f"{self}/{name}")
            return BytesIO(fs.cat_file(path))

    @contextmanager
    def writing(self, name: str, new: bool = False, sync: bool = True) -> Iterator[IO[bytes]]:
        """Yield a file whose content is uploaded at the end; see `Directory.writing`.

        Raises a FileExistsError if the object must be `new` and another one exists.
        """
        file = BytesIO()
        yield file
        with self._store("write", name, FileExistsError) as (fs, path):
            content = file.getvalue()
            try:
                fs.pipe_file(path, content, mode="create" if new else "overwrite")
            except FileNotFoundError:
                raise StoreError(f"cannot write {self}: no such bucket; make it first") from None
            except Exception:
                if not (new and fs.exists(path)):
                    raise
                if fs.cat_file(path) != content:  # if equal, only the answer to this PUT was lost
                    raise FileExistsError(path) from None

    def delete(self, name: str) -> None:
        """Delete an object."""
        with self._store("delete", name) as (fs, path), suppress(FileNotFoundError):
            fs.rm_file(path)

    def holder(self) -> str:
        """Return "", as there is no lock."""
        return ""

    @contextmanager
    def _store(
        self, verb: str, name: str = "", *passing: type[Exception]
    ) -> Iterator[tuple[Any, str]]:
        """Yield the fsspec store of an object, and its path there; errors become a `StoreError`."""
        url = f"{self.url}/{name}".rstrip("/")
        with store_errors(verb, url, *passing, kind=Exception):
            fs, path = store_of(url)
            fs.invalidate_cache()
            yield fs, path


Folder = Directory | Bucket


def folder_of(path: str | os.PathLike[str]) -> Folder:
    """Return the folder that a path or a URL names; file://... is a path.

    Raises
    ------
    SettingsError
        If it is neither.
    StoreError
        If a URL contains characters that are special to fsspec.
    """
    text = re.sub(r"^(file|local):/+", "/", path_text("a run or a model", path))
    text = re.sub(r"^([a-z0-9]+:/)(?!/)", r"\1/", text)  # pathlib removes a slash from a URL
    if not is_url(text):
        return Directory(Path(text))
    if re.search(r"[*?\[\]\x00-\x1f]|::", text):
        raise StoreError(f"{text!r} must be a plain URL, without any of * ? [ ] ::")
    return Bucket(text.rstrip("/"))


def file_of(path: str | os.PathLike[str], name: str) -> tuple[Folder, str]:
    """Return folder and name of the file at a path, or of the file `name` in it if it is a folder.

    Links are followed, as the user named the path.
    """
    folder = folder_of(path)
    if isinstance(folder, Directory):
        real = folder.path.resolve()
        return (folder, name) if real.is_dir() else (Directory(real.parent), real.name)
    parent, _, last = folder.url.rpartition("/")
    return (folder, name) if folder.sizes() or parent.endswith("/") else (Bucket(parent), last)


@contextmanager
def store_errors(
    verb: str,
    place: object,
    *passing: type[Exception],
    kind: type[Exception] = OSError,
    remedy: str = "",
) -> Iterator[None]:
    """Turn errors of a `kind` into a `StoreError`; the libraries behind fsspec may raise any."""
    try:
        yield
    except kind as error:
        if isinstance(error, (StoreError, *passing)):
            raise
        reason = str(error)
        if isinstance(error, OSError) and error.errno:
            reason = _REASONS.get(error.errno) or error.strerror or reason
        elif not isinstance(error, DataError):
            reason = f"its store failed ({type(error).__name__}: {reason})"
        advice = f"; {remedy}" if remedy else ""
        raise StoreError(f"cannot {verb} {place}: {reason}{advice}") from None


def _open_regular(path: Path, flags: int) -> int:
    handle = os.open(path, flags | _SAFE, 0o644)
    status = os.fstat(handle)
    shared = status.st_nlink > 1 and flags & os.O_RDWR  # writing would change its other hard links
    if shared or not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise StoreError(f"{path} must be a regular file of its own, and is none")
    return handle


def _sync(path: Path) -> None:
    """Flush the entries of a directory to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
