"""Bundles in a store of objects: one appears whole or not at all, and nothing is renamed.

The files of a bundle are put under a name of their own, 32 hex digits, then `manifest.json` beside
that, which lists them:

    model/manifest.json
    model/<digits>/meta.json
    model/<digits>/arrays.zarr/...

So one put makes a bundle whole, or puts a new one in the place of another, and a reader asks for
nothing but what the manifest that it has read lists. What is not listed was never finished, or has
been replaced. Copied to a directory, it is a bundle there; a bundle of a directory that is copied
to a store, which has no such digits, is one as well.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from sparsegp.checkpoint.arrays import CHUNK_BYTES
from sparsegp.checkpoint.manifest import (
    ADVICE,
    FOLDER,
    MANIFEST,
    Entry,
    entry_of,
    parse_manifest,
    spell_manifest,
)
from sparsegp.checkpoint.places import StorePath
from sparsegp.data.storage import require_memory
from sparsegp.errors import DataError, StoreError


def put_bundle(place: StorePath, files: Iterable[tuple[str, bytes | memoryview]]) -> None:
    """Put the files of a bundle, at most a chunk or so of them at a time, and the manifest last.

    Raises
    ------
    StoreError
        If something cannot be put, or what is at the place is no bundle. What was there is still
        there then, unless all that failed was the answer to the last put.
    """
    former = _require_ours(place)
    folder, listed = uuid.uuid4().hex, dict[str, Entry]()
    try:
        for batch in _batches(files):
            named = {f"{folder}/{name}": content for name, content in batch.items()}
            listed |= {name: entry_of(content) for name, content in named.items()}
            place.put(named)
    except BaseException:
        with suppress(StoreError):  # what stays is swept by the next writer
            place.delete(listed)
        raise
    place.put({MANIFEST: spell_manifest(listed)})
    with suppress(StoreError):
        place.delete(former)


def fetch_bundle(place: StorePath, listed: Mapping[str, Entry]) -> dict[str, bytes]:
    """Return the contents of all files that a manifest lists, each of which was verified.

    Raises
    ------
    StoreError
        If one is missing, cannot be read or differs; it is named.
    """
    for name, entry in listed.items():
        if type(entry.size) is not int or entry.size < 0:
            raise StoreError(f"{place / MANIFEST} is altered: {name!r} has no size; {ADVICE}")
    try:
        require_memory(sum(entry.size for entry in listed.values()), str(place))
    except DataError as error:
        raise StoreError(str(error)) from None
    found = place.get({name: entry.size + 1 for name, entry in listed.items()})
    contents = {}
    for name, entry in listed.items():
        path, content = place / name, found[name]
        if content is None:
            raise StoreError(f"{path} is missing; {ADVICE}")
        _compare(path, len(content), entry)
        if entry_of(content) != entry:
            raise StoreError(f"{path} is altered: its SHA-256 differs; {ADVICE}")
        contents[name] = content
    return contents


def check_objects(place: StorePath, listed: Mapping[str, Entry]) -> None:
    """Check that all files are there and of the right size, by one listing.

    Raises
    ------
    StoreError
        If one is missing or of another size; it is named.
    """
    sizes = place.find()
    for name, entry in listed.items():
        if name not in sizes:
            raise StoreError(f"{place / name} is missing; {ADVICE}")
        _compare(place / name, sizes[name], entry)


def delete_bundle(place: StorePath) -> None:
    """Delete a bundle and what is left of others at its place, the manifest first.

    Raises
    ------
    StoreError
        If something cannot be deleted.
    """
    place.delete([MANIFEST])
    place.delete(place.find())


def sweep_objects(place: StorePath) -> bool:
    """Delete what writers that were killed have put; tell whether that was all there was.

    Nothing is deleted where the manifest cannot be read.

    Raises
    ------
    StoreError
        If something cannot be deleted.
    """
    there = place.find()
    listed = _listed(place) if MANIFEST in there else {}
    strays = [name for name in there if FOLDER.fullmatch(name.split("/")[0])]
    if listed is None or not strays:
        return False
    place.delete([name for name in strays if name not in listed])
    return not listed


def is_sealed(place: StorePath) -> bool:
    """Tell whether there is a bundle that was finished."""
    return (place / MANIFEST).is_file()


def _batches(files: Iterable[tuple[str, bytes | memoryview]]) -> Iterator[dict[str, bytes]]:
    """Yield files in groups of at least `CHUNK_BYTES`, as far as there are so many."""
    batch, size = dict[str, bytes](), 0
    for name, content in files:
        batch[name] = bytes(content)
        size += len(batch[name])
        if size >= CHUNK_BYTES:
            yield batch
            batch, size = {}, 0
    yield batch


def _require_ours(place: StorePath) -> list[str]:
    """Return the names of the files of the bundle that will be replaced.

    Raises
    ------
    StoreError
        If something else is there.
    """
    there = place.find()
    if MANIFEST in there:
        return [name for name in _listed(place) or () if name != MANIFEST]
    ours = (name.startswith("arrays.zarr/") or FOLDER.match(name) for name in there)
    if (there and not any(ours)) or place.is_file():
        raise StoreError(f"cannot write {place}: what is there is not a bundle; give another path")
    return []


def _listed(place: StorePath) -> dict[str, Entry] | None:
    """Return what the manifest lists, None if it is gone or altered."""
    try:
        return parse_manifest((place / MANIFEST).read_bytes(), place)
    except (FileNotFoundError, StoreError):
        return None


def _compare(path: StorePath, size: int, entry: Entry) -> None:
    if size != entry.size:
        raise StoreError(f"{path} is truncated or altered: not of {entry.size} bytes; {ADVICE}")
