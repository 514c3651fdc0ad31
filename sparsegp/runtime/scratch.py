"""Large arrays in files instead of memory, for inputs and stub matrices that memory cannot hold."""

import mmap
import os
import tempfile
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sparsegp.errors import StoreError


@dataclass(frozen=True)
class Scratch:
    """Allocates arrays in files of a directory.

    The files have no name and vanish with the process. Their whole size is reserved at once: a disk
    that is too small is an error here, not a crash in the middle of a run.

    Parameters
    ----------
    directory : str
        On a fast local disk of every machine that holds row blocks.
    """

    directory: str

    def __call__(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return an array of zeros.

        Raises
        ------
        StoreError
            If the directory cannot be written or has too little room.
        """
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        if size == 0:
            return np.zeros(shape, dtype=dtype)
        try:
            with tempfile.TemporaryFile(dir=self.directory, prefix="sparsegp-") as file:
                os.posix_fallocate(file.fileno(), 0, size)
                memory = mmap.mmap(file.fileno(), size)
        except OSError as error:
            raise StoreError(
                f"cannot reserve {size / 1e6:.0f} MB in {self.directory}: {error.strerror}; name "
                "another --scratch"
            ) from error
        return np.frombuffer(memory, dtype=dtype).reshape(shape)
