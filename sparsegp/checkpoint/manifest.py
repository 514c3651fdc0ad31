"""The list of the files of a bundle with their sizes and SHA-256 digests.

The list carries a digest of itself and has one spelling only: a reader spells it again from what it
lists and compares the bytes, so that no altered bit of the list passes either.

In a store of objects the files are in a folder beside the manifest (see `objects`).
"""

import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sparsegp.errors import StoreError

if TYPE_CHECKING:
    from sparsegp.checkpoint.places import Place

MANIFEST = "manifest.json"
ADVICE = "restore it from a copy or write it anew"
LARGEST = 1 << 28
"""Bytes of a manifest, or of other JSON, that are read."""

FOLDER = re.compile(r"[0-9a-f]{32}")
"""What the folder of the files of a bundle is called that was written in a store of objects."""

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


class Entry(NamedTuple):
    """What a file must be: its size in bytes and its SHA-256 in hexadecimal digits."""

    size: int
    sha256: str


def entry_of(data: bytes | memoryview) -> Entry:
    """Describe the content of a file."""
    return Entry(memoryview(data).nbytes, hashlib.sha256(data).hexdigest())


def spell_manifest(files: Mapping[str, Entry]) -> bytes:
    """Return the content of the manifest for files named relative to the bundle."""
    listed: dict[str, Any] = {name: files[name]._asdict() for name in sorted(files)}
    seal = hashlib.sha256(_dump(listed)).hexdigest()
    return _dump({"files": listed, "sha256": seal})


def parse_manifest(raw: bytes, bundle: "Place") -> dict[str, Entry]:
    """Read the content of a manifest.

    Raises
    ------
    StoreError
        If it is not, byte for byte, what `spell_manifest` writes, or names a file outside the
        bundle.
    """
    try:
        listed = json.loads(raw)["files"]
        files = {name: Entry(**entry) for name, entry in listed.items()}
        intact = spell_manifest(files) == raw
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        intact = False
    if not intact:
        raise StoreError(f"{bundle / MANIFEST} is altered or truncated; {ADVICE}")
    for name in files:
        if not all(_PART.fullmatch(part) for part in name.split("/")):
            raise StoreError(f"{bundle / MANIFEST} names a file outside its directory: {name!r}")
    return files


def inner_folder(files: Mapping[str, Entry]) -> str:
    """Return the beginning that the names of all files share: a folder and a slash, or nothing."""
    folders = {name.partition("/")[0] for name in files}
    folder = folders.pop() if len(folders) == 1 else ""
    return f"{folder}/" if FOLDER.fullmatch(folder) else ""


def verify_files(bundle: Path, files: Mapping[str, Entry], *, digests: bool = True) -> None:
    """Compare the files of a bundle with the manifest; files that it does not list are ignored.

    Parameters
    ----------
    digests : bool
        Read the files too, not only their sizes.

    Raises
    ------
    StoreError
        If one is missing, cannot be read or differs; it is named.
    """
    for name, entry in files.items():
        path = bundle / name
        try:
            size = size_of(bundle, name)
            if size != entry.size:
                raise StoreError(
                    f"{path} is truncated or altered: {size} bytes, not {entry.size}; {ADVICE}"
                )
            if digests and _digest(path) != entry.sha256:
                raise StoreError(f"{path} is altered: its SHA-256 differs; {ADVICE}")
        except FileNotFoundError as error:
            raise StoreError(f"{path} is missing; {ADVICE}") from error
        except StoreError:
            raise
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error.strerror or error}") from error


def size_of(bundle: Path, name: str) -> int:
    """Return the size of a file of a bundle, which must be there itself and no link to another.

    Raises
    ------
    StoreError
        If it is a link, is below one, or is no file.
    OSError
        If there is none.
    """
    path = bundle / name
    status = path.stat()
    if os.path.realpath(path) != os.path.join(os.path.realpath(bundle), name):
        raise StoreError(f"{path} is a link that may lead out of its directory; {ADVICE}")
    if not stat.S_ISREG(status.st_mode):
        raise StoreError(f"{path} is no file; {ADVICE}")
    return status.st_size


def shown(value: object) -> str:
    """Return a value that was read as a message may show it: on one line, of bounded length."""
    text = "".join(mark if mark.isprintable() else " " for mark in str(value))
    return text if len(text) <= 300 else f"{text[:297]}..."


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _dump(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, indent=1) + "\n").encode()
