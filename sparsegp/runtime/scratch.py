"""Arrays in files, for inputs and stub matrices that do not fit into memory."""

import os
import tempfile
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sparsegp.errors import StoreError, size

MIN_SCRATCH_BYTES = 1 << 20
"""Number of bytes for which a scratch directory must have space."""


def zeros_in_file(directory: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Return an array of zeros in an unnamed file, which is deleted when the process ends.

    The whole size is reserved immediately, except on macOS, so a disk that is too small is an error
    here rather than a crash in the middle of a run.

    Parameters
    ----------
    directory : str
        It should be on a fast local disk of every machine that holds row blocks.
    shape, dtype
        As in `numpy.zeros`.

    Raises
    ------
    StoreError
        If the directory cannot be written or has too little space.
    """
    count = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    if count == 0:
        return np.zeros(shape, dtype=dtype)
    try:
        with tempfile.TemporaryFile(dir=directory, prefix="sparsegp-") as file:
            if hasattr(os, "posix_fallocate"):  # not on macOS
                os.posix_fallocate(file.fileno(), 0, count)
            return np.memmap(file, dtype, "r+", shape=shape).view(np.ndarray)
    except OSError as error:
        raise StoreError(
            f"cannot reserve {size(count)} in {directory}: {error.strerror}; name another `scratch`"
        ) from error


def require_space(directory: str, _: object = None) -> None:
    """Raise a `StoreError` if a directory cannot hold files; runs as a task in any process."""
    zeros_in_file(directory, (MIN_SCRATCH_BYTES,), np.uint8)
