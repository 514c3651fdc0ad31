"""Files and directories that survive a kill: write, sync, rename.

A directory `name` is prepared as `.name.<32 hex digits>.tmp` beside its place and renamed. The one
that it replaces is called `.name.<32 hex digits>.old` for the instant between the two renames.
A `.old` directory is therefore always whole; a `.tmp` directory never means anything to a reader.
"""

import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_BESIDE = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{32}\.(?P<suffix>tmp|old)")


class Beside(NamedTuple):
    """A directory of ours next to the place `name` that it is, or was, meant for."""

    path: Path
    name: str
    suffix: str


def write_file(path: Path, data: bytes | memoryview) -> None:
    """Create a file with the given content, on the disk when this returns.

    Raises
    ------
    OSError
        If it exists or cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_directory(path: Path) -> None:
    """Put the entries of a directory on the disk.

    Raises
    ------
    OSError
        If it cannot be opened or synced.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_directories(path: Path) -> None:
    """Put the entries of a directory and of all below it on the disk, the deepest first.

    Raises
    ------
    OSError
        If one of them cannot be opened or synced.
    """
    for folder, _, _ in os.walk(path, topdown=False):
        sync_directory(Path(folder))


def make_directory(path: Path) -> None:
    """Make a directory and its parents, on the disk when this returns.

    Raises
    ------
    OSError
        If one of them cannot be made.
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in reversed(missing):
        sync_directory(folder.parent)


def beside(path: Path, suffix: str) -> Path:
    """Return a fresh name next to `path`; the suffix is "tmp" or "old"."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}.{suffix}")


def find_beside(folder: Path) -> Iterator[Beside]:
    """Yield the temporary and replaced directories in a folder, none if there is no folder.

    Raises
    ------
    OSError
        If the folder cannot be listed.
    """
    try:
        entries = sorted(folder.iterdir())
    except FileNotFoundError:
        return
    for entry in entries:
        match = _BESIDE.fullmatch(entry.name)
        if match:
            yield Beside(entry, match["name"], match["suffix"])


def replaced(path: Path) -> list[Path]:
    """Return the `.old` directories of a place, the newest last.

    Raises
    ------
    OSError
        If the parent cannot be listed.
    """
    found = (item for item in find_beside(path.parent) if item.name == path.name)
    old = [item.path for item in found if item.suffix == "old"]
    return sorted(old, key=lambda item: item.stat().st_mtime_ns)


def discard(path: Path) -> None:
    """Delete a directory, a file or a link; killed at any instant it is whole or marked as ours.

    What cannot be deleted stays as a `.tmp` for a later sweep.

    Raises
    ------
    OSError
        If it cannot be renamed.
    """
    doomed = path
    match = _BESIDE.fullmatch(path.name)
    if match is None or match["suffix"] != "tmp":
        doomed = beside(path.with_name(match["name"]) if match else path, "tmp")
        os.rename(path, doomed)
    if doomed.is_dir() and not doomed.is_symlink():
        shutil.rmtree(doomed, ignore_errors=True)
    else:
        doomed.unlink(missing_ok=True)


def settle(path: Path) -> None:
    """Finish a replacement that was killed: the old one goes back if the place is empty.

    Raises
    ------
    OSError
        If something cannot be renamed.
    """
    old = replaced(path)
    if old and not os.path.lexists(path):
        os.rename(old.pop(), path)
        sync_directory(path.parent)
    for item in old:
        discard(item)


def replace(new: Path, path: Path) -> None:
    """Rename `new` to `path`, where there may be something already.

    A kill between the two renames leaves the place empty and the former content beside it as
    `.old`, where `replaced` finds it and `settle` puts it back.

    Raises
    ------
    OSError
        If something cannot be renamed; the former content is in its place then.
    """
    settle(path)
    if not os.path.lexists(path):
        os.rename(new, path)
        sync_directory(path.parent)
        return
    old = beside(path, "old")
    os.rename(path, old)
    try:
        os.rename(new, path)
    except BaseException:
        os.rename(old, path)
        raise
    sync_directory(path.parent)
    with suppress(OSError):  # the next writer tries again
        discard(old)
