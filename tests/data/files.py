"""Small files of every format, for tests of data."""

import gzip
import io
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import fsspec
import numpy as np
import pyarrow
import zarr
from pyarrow import parquet


def put(url: Any, content: bytes) -> None:
    """Write a file, compressed where its name ends in .gz."""
    with fsspec.open(str(url), "wb") as file:
        file.write(gzip.compress(content) if str(url).endswith(".gz") else content)


def zip_bytes(members: dict[str, bytes], compression: int = ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with ZipFile(file, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def npy_bytes(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def npy_that_declares(shape: Any, dtype: Any = "<f8", values: bytes = bytes(64)) -> bytes:
    header = repr({"descr": dtype, "fortran_order": False, "shape": shape})
    text = header.encode("latin1", "replace") + b"\n"
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(text) & 0xFFFF) + text + values


def idx_bytes(array: Any) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return header + array.astype(np.uint8).tobytes()


def write_arrays(url: Any, arrays: dict[str, Any], **options: Any) -> None:
    """Write named arrays: into an archive, a group, or files beside each other."""
    url = str(url)
    if url.endswith(".npz"):
        file = io.BytesIO()
        np.savez_compressed(file, **arrays)
        put(url, file.getvalue())
    elif url.endswith(".zarr"):
        group = zarr.open_group(url.removeprefix("file://"), mode="w", **options)
        for name, array in arrays.items():
            chunks = (max(7, len(array) // 20), *array.shape[1:])
            group.create_array(name, data=array, chunks=chunks)
    else:
        first = next(iter(arrays))
        for name, array in arrays.items():
            put(url.replace(f"{first}.npy", f"{name}.npy"), npy_bytes(array))


def write_pair(url: str, X: Any, y: Any, **options: Any) -> None:
    write_arrays(url, {"X": X, "y": y}, **options)


def write_text(delimiter: str) -> Callable[[str, Any, Any], None]:
    def write(url: str, X: Any, y: Any) -> None:
        rows = zip(X.tolist(), y.tolist(), strict=True)
        lines = [delimiter.join([*map(repr, row), f"{label}\n"]) for row, label in rows]
        put(url, "".join(lines).encode())

    return write


def write_idx(url: str, X: Any, y: Any) -> None:
    put(url, idx_bytes(X.reshape(len(X), 2, -1)))
    put(url.replace("images", "labels").replace("idx3", "idx1"), idx_bytes(y))


def write_parquet(url: str, X: Any, y: Any) -> None:
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])} | {"label": y}
    with fsspec.open(url, "wb") as file:
        parquet.write_table(pyarrow.table(columns), file, row_group_size=8)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by their relative paths."""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


@contextmanager
def untouched(folder: Path) -> Iterator[None]:
    """Check that a folder stays as it is, but for who used it."""

    def kept() -> dict[str, bytes]:
        return {k: v for k, v in contents(folder).items() if not k.endswith("lock")}

    before = kept()
    yield
    assert kept() == before
