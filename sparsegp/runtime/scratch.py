"""Large arrays in files instead of memory, for inputs and stub matrices that memory cannot hold."""

import os
import tempfile
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sparsegp.errors import StoreError, size

LEAST = 1 << 20
"""Bytes that a directory must be able to take."""


def zeros_in_file(directory: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Return an array of zeros in a file, which has no name and vanishes with the process.

    Its whole size is reserved at once: a disk that is too small is an error here, not a crash in
    the middle of a run.

    Parameters
    ----------
    directory : str
        On a fast local disk of every machine that holds row blocks.
    shape, dtype
        As those of `numpy.zeros`.

    Raises
    ------
    StoreError
        If the directory cannot be written or has too little room.
    """
    count = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    if count == 0:
        return np.zeros(shape, dtype=dtype)
    try:
        with tempfile.TemporaryFile(dir=directory, prefix="sparsegp-") as file:
            os.posix_fallocate(file.fileno(), 0, count)
            return np.memmap(file, dtype, "r+", shape=shape).view(np.ndarray)
    except OSError as error:
        raise StoreError(
            f"cannot reserve {size(count)} in {directory}: {error.strerror}; name another `scratch`"
        ) from error


def require_room_in(directory: str, _: object = None) -> None:
    """Refuse by a `StoreError` a directory that no files can be kept in; a task of any process."""
    zeros_in_file(directory, (LEAST,), np.uint8)
