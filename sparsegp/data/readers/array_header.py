"""The header of a .npy file, read before anything is made of the sizes that it declares."""

import ast
import math
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from sparsegp.errors import DataError

KINDS = "biufcSU"
"""Kinds of dtype that are read: numbers and strings."""


LONGEST = 10_000
"""Bytes of a header, as numpy has it."""

BAD_HEADERS = (
    *(ValueError, TypeError, KeyError, IndexError, SyntaxError),
    *(RecursionError, MemoryError),  # what the parser says of text that is nested too deeply
)


@dataclass(frozen=True)
class Header:
    """What the header says.

    Parameters
    ----------
    shape : tuple of int
    dtype : dtype
    fortran : bool
        The first index runs fastest.
    offset : int
        Where the values begin, in bytes.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool
    offset: int

    @property
    def nbytes(self) -> int:
        """Bytes of the values."""
        return math.prod(self.shape) * self.dtype.itemsize

    def array(self, content: bytes | bytearray) -> NDArray[Any]:
        """Return the array whose values are these bytes, without a copy."""
        order = "F" if self.fortran else "C"
        return np.frombuffer(content, self.dtype).reshape(self.shape, order=order)  # type: ignore[call-overload, no-any-return]


def read_header(file: IO[bytes], name: str, size: int) -> Header:
    """Read the header of an array of numbers or strings; the file stands at its values then.

    Parameters
    ----------
    file : file of bytes
        At its beginning.
    name : str
        For messages.
    size : int
        Bytes of the file.

    Raises
    ------
    DataError
        If it is no such header, or the file is too short for what it declares.
    """
    try:
        shape, fortran, dtype = _parsed(file)
    except BAD_HEADERS as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"cannot read {name}: its header is damaged ({reason})") from None
    if dtype.hasobject:
        raise DataError(
            f"{name} is an array of Python objects, which is not read because it could run code; "
            f"store numbers or strings, for example with .astype(float) or .astype(str)"
        )
    if dtype.kind not in KINDS or not dtype.itemsize:
        raise DataError(
            f"{name} must hold numbers or strings; it declares {dtype} of shape {shape}"
        )
    header = Header(shape, dtype, fortran, file.tell())
    if header.offset + header.nbytes > size:
        raise DataError(
            f"cannot read {name}: it is cut short or damaged, {dtype} of shape {shape} take "
            f"{header.offset + header.nbytes} bytes and it has {size}"
        )
    return header


def _parsed(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = npy.read_magic(file)
    if version not in {(1, 0), (2, 0)}:  # the only other one is for records
        raise ValueError(f"format version {version} is not for numbers or strings")
    length = int.from_bytes(file.read(2 * version[0]), "little")
    if length > LONGEST:
        raise ValueError(f"it takes {length} bytes, more than {LONGEST}")
    stored = ast.literal_eval(file.read(length).decode("latin1"))
    shape, fortran = stored["shape"], stored["fortran_order"]
    sizes = isinstance(shape, tuple) and all(type(size) is int and size >= 0 for size in shape)
    if not (sizes and type(fortran) is bool):
        raise ValueError(f"no shape: {shape!r}, {fortran!r}")
    return shape, fortran, npy.descr_to_dtype(stored["descr"])
