"""Bundles: arrays and JSON in one place, which are written whole or not at all.

A bundle holds `arrays.zarr` (see `arrays`), `meta.json` and, written last, `manifest.json` with the
size and SHA-256 of every other file. Nothing is ever pickled. How it is put into a store of objects
says `objects`; a directory is filled and synced under a temporary name beside its place, then
renamed.

What a reader of a directory sees when the writer is killed: before the rename, what was there
before. A bundle that replaces another needs two renames; killed between them, the place is empty
and the former bundle, whole, lies beside it: `read_bundle` reads that one, the next `write_bundle`
or `sweep_bundle` puts it back. After the second rename, the new one. One writer at a time is
assumed; readers may be many and read again when the bundle is replaced under them.
"""

import json
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sparsegp.checkpoint.arrays import checked, decoded, encoded
from sparsegp.checkpoint.files import (
    beside,
    discard,
    find_beside,
    make_directory,
    replace,
    replaced,
    settle,
    sync_directories,
    sync_directory,
    write_file,
)
from sparsegp.checkpoint.manifest import (
    LARGEST,
    MANIFEST,
    entry_of,
    inner_folder,
    parse_manifest,
    shown,
    size_of,
    spell_manifest,
    verify_files,
)
from sparsegp.checkpoint.objects import (
    check_objects,
    delete_bundle,
    fetch_bundle,
    is_sealed,
    put_bundle,
    sweep_objects,
)
from sparsegp.checkpoint.places import Place, StorePath, place_of
from sparsegp.errors import StoreError

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = TypeVar("T")

ARRAYS = "arrays.zarr"
META = "meta.json"
_RESERVED = ("format", "format_version")
_ATTEMPTS = 5
_NO_ARRAYS = (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError)


@dataclass(frozen=True)
class Bundle:
    """The content of a bundle.

    Parameters
    ----------
    meta : dict
        The JSON content as it was given, tuples as lists.
    arrays : dict
        The arrays by name, in native byte order.
    version : int
        The format version that the bundle was written in.
    """

    meta: dict[str, Any]
    arrays: dict[str, "NDArray[Any]"]
    version: int


def write_bundle(
    path: Place,
    meta: Mapping[str, Any],
    arrays: Mapping[str, "NDArray[Any]"],
    *,
    kind: str,
    version: int,
) -> None:
    """Write a bundle, on the disk when this returns; another one at the same place is replaced.

    Parameters
    ----------
    path : Path or StorePath
        Its place; missing parents of a directory are made.
    meta : mapping
        JSON values, finite numbers only; not the keys `format` and `format_version`.
    arrays : mapping
        Numeric or bool arrays by name.
    kind, version : str, int
        What the bundle is, to be asked for again on reading.

    Raises
    ------
    StoreError
        If it cannot be written (full disk, no permission), or if something that is no bundle is at
        the place. What was there before is still there then.
    TypeError
        If an array is not numeric or `meta` is not JSON.
    ValueError
        If a name is not allowed or a number in `meta` is not finite.
    """
    path = _absolute(path)
    taken = [key for key in _RESERVED if key in meta]
    if taken:
        raise ValueError(f"meta must not hold the reserved keys {taken}")
    content = {"format": kind, "format_version": version, **meta}
    text = (json.dumps(content, indent=1, allow_nan=False) + "\n").encode()
    native = checked(arrays)
    if isinstance(path, StorePath):
        put_bundle(path, _files(text, native))
        return
    fresh = beside(path, "tmp")
    try:
        _refuse_foreign(path)
        make_directory(path.parent)
        _fill(fresh, text, native)
        replace(fresh, path)
    except StoreError:
        raise
    except OSError as error:
        _drop(fresh)
        reason = error.strerror or error
        raise StoreError(f"cannot write {path}: {reason}; free space or change the path") from error
    except BaseException:
        _drop(fresh)
        raise


def read_bundle(path: Place, *, kind: str, versions: Collection[int]) -> Bundle:
    """Load a bundle after every file of it was verified.

    Parameters
    ----------
    path : Path or StorePath
        Its place.
    kind : str
        What the bundle must be.
    versions : collection of int
        Format versions that the caller understands.

    Raises
    ------
    StoreError
        If there is none, if a file is missing, truncated or altered (it is named), leads out of the
        directory or is not what its reader expects, if the bundle is of another kind or of a format
        version that is not understood.
    """
    path = _absolute(path)
    for attempt in range(1, _ATTEMPTS + 1):
        seal = None
        try:
            place = _place(path)
            seal = _read(place, MANIFEST)
            bundle = _load(place, seal, kind, versions)
            if _seal_now(path) == seal:
                return bundle
        except StoreError:
            if attempt == _ATTEMPTS or _seal_now(path) == seal:
                raise
    raise StoreError(f"{path} was replaced {_ATTEMPTS} times while it was read; try again")


def is_bundle(path: Place) -> bool:
    """Tell whether there is a bundle at a place, or at least a directory; nothing is verified."""
    return is_sealed(path) if isinstance(path, StorePath) else path.is_dir()


def check_bundle(path: Place) -> None:
    """Check that every file of a bundle is there and of the right size, without reading them.

    Raises
    ------
    StoreError
        If the manifest is altered or a file is missing or truncated; it is named.
    """
    place = _absolute(path)
    listed = parse_manifest(_read(place, MANIFEST), place)
    if isinstance(place, StorePath):
        check_objects(place, listed)
    else:
        verify_files(place, listed, digests=False)


def remove_bundle(path: Place) -> None:
    """Delete a bundle; killed at any instant it is whole or gone for every reader.

    Raises
    ------
    StoreError
        If it cannot be removed.
    """
    path = _absolute(path)
    if isinstance(path, StorePath):
        delete_bundle(path)
        return
    try:
        for old in replaced(path):
            discard(old)
        if os.path.lexists(path):
            discard(path)
            sync_directory(path.parent)
    except OSError as error:
        raise StoreError(f"cannot remove {path}: {error.strerror or error}") from error


def sweep_bundle(path: Place) -> bool:
    """Remove what killed writers of this bundle left; no writer may be at work.

    Returns
    -------
    bool
        Whether files of a bundle are gone that was never finished, or had lost its manifest.

    Raises
    ------
    StoreError
        If something cannot be renamed or removed.
    """
    path = _absolute(path)
    if isinstance(path, StorePath):
        return sweep_objects(path)
    try:
        settle(path)
        for item in find_beside(path.parent):
            if item.name == path.name and item.suffix == "tmp":
                discard(item.path)
    except OSError as error:
        raise StoreError(f"cannot clean up beside {path}: {error.strerror or error}") from error
    return False


def _files(
    text: bytes, arrays: Mapping[str, "NDArray[Any]"]
) -> Iterator[tuple[str, bytes | memoryview]]:
    """Yield name and content of all files of a bundle but the manifest."""
    yield META, text
    for key, data in encoded(arrays):
        yield f"{ARRAYS}/{key}", data


def _fill(fresh: Path, text: bytes, arrays: Mapping[str, "NDArray[Any]"]) -> None:
    """Write and sync all files of a bundle, the manifest last."""
    fresh.mkdir()
    listed = {}
    for name, data in _files(text, arrays):
        listed[name] = entry_of(data)
        write_file(fresh / name, data)
    write_file(fresh / MANIFEST, spell_manifest(listed))
    sync_directories(fresh)


def _load(place: Place, seal: bytes, kind: str, versions: Collection[int]) -> Bundle:
    listed = parse_manifest(seal, place)
    folder, contents = inner_folder(listed), dict[str, bytes]()
    if isinstance(place, StorePath):
        contents = fetch_bundle(place, listed)
    else:
        verify_files(place, listed)
    meta_name, inside = f"{folder}{META}", f"{folder}{ARRAYS}/"
    try:
        raw = contents[meta_name] if isinstance(place, StorePath) else _read(place, meta_name)
        meta = json.loads(raw, parse_constant=_refuse_constant)
        found, version = (meta.pop(key) for key in _RESERVED)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StoreError(f"{place / meta_name} is not the description of a bundle") from error
    _check_format(place, (found, version), kind, versions)
    ours = {name: entry.size for name, entry in _below(inside, listed).items()}
    where = place / inside.rstrip("/")
    group = where if isinstance(where, Path) else _below(inside, contents)
    try:
        arrays = decoded(group, ours)
    except _NO_ARRAYS as error:
        raise StoreError(f"{where} cannot be read: {shown(error)}") from error
    return Bundle(meta, arrays, version)


def _below(folder: str, named: Mapping[str, T]) -> dict[str, T]:
    """Return what has a name in a folder, by its name there."""
    return {
        name.removeprefix(folder): value for name, value in named.items() if name.startswith(folder)
    }


def _check_format(
    place: Place, found: tuple[Any, Any], kind: str, versions: Collection[int]
) -> None:
    if found[0] != kind:
        raise StoreError(f"{place} must be a {kind}, but is a {shown(found[0])}; give another path")
    if type(found[1]) is int and found[1] in versions:
        return
    known = ", ".join(str(number) for number in sorted(versions))
    newer = isinstance(found[1], int) and found[1] > max(versions, default=0)
    advice = "upgrade sparsegp" if newer else "write it anew"
    raise StoreError(
        f"{place} has format version {shown(found[1])}, but only version {known} is understood; "
        f"{advice}"
    )


def _place(path: Place) -> Place:
    """Return where the bundle is: at its path, or beside it if a replacement was killed."""
    if isinstance(path, StorePath) or os.path.exists(path):
        return path
    try:
        old = replaced(path)
    except OSError:
        old = []
    if not old:
        raise StoreError(f"{path} does not exist; give the path of a bundle")
    return old[-1]


def _seal_now(path: Place) -> bytes | None:
    try:
        return _read(_place(path), MANIFEST)
    except StoreError:
        return None


def _read(bundle: Place, name: str) -> bytes:
    path = bundle / name
    try:
        if isinstance(bundle, StorePath):
            return path.read_bytes()
        size = size_of(bundle, name)
        if size > LARGEST:
            raise StoreError(f"{path} has {size} bytes, and is altered: at most {LARGEST} are read")
        return path.read_bytes()
    except StoreError:
        raise
    except FileNotFoundError as error:
        raise StoreError(f"{path} is missing: no bundle, or not a whole one") from error
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}") from error


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is no number of JSON")


def _refuse_foreign(path: Path) -> None:
    """Never replace a file or a directory of somebody else."""
    if not os.path.lexists(path):
        return
    if path.is_dir():
        names = {entry.name for entry in path.iterdir()}
        if not names or names & {MANIFEST, ARRAYS}:
            return
    raise StoreError(f"cannot write {path}: what is there is not a bundle; give another path")


def _drop(fresh: Path) -> None:
    if os.path.lexists(fresh):
        discard(fresh)


def _absolute(path: Place) -> Place:
    place = place_of(path)
    return place if isinstance(place, StorePath) else Path(os.path.abspath(place))
