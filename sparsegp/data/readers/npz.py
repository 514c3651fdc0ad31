"""Reader of .npz archives. Members are compressed as a whole, so they are read into memory."""

import zipfile
from typing import Any

from numpy.typing import NDArray

from sparsegp.data.readers.array_header import read_header
from sparsegp.data.readers.base import Request, reader
from sparsegp.data.readers.members import dataset_from_members
from sparsegp.data.storage import open_plain, read_whole, reading
from sparsegp.data.table import Dataset, Table, table_from_arrays
from sparsegp.errors import DataError

ENCRYPTED = 1
"""Flag of a member that needs a password."""

PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


@reader(".npz", magic=b"PK\x03\x04")
def read_npz(name: str, request: Request) -> Dataset:
    """Read `X, y` or `X_train, y_train[, X_test, y_test]`; nothing is ever unpickled.

    Raises
    ------
    DataError
        If the archive is damaged, lacks arrays, or holds Python objects in place of numbers.
    """
    with reading(name), open_plain(name) as file:
        if file.read(6) == b"\x93NUMPY":
            raise DataError(f"{name} is a single array, no archive of arrays; call it .npy")
        with zipfile.ZipFile(file) as archive:

            def table(X: str, y: str | None) -> Table:
                labels = None if y is None else _member(archive, y, name)
                return table_from_arrays(_member(archive, X, name), labels, f"{name} ({X})")

            members = archive.namelist()
            arrays = [each.removesuffix(".npy") for each in members if each.endswith(".npy")]
            return dataset_from_members(arrays, table, name)


def _member(archive: zipfile.ZipFile, member: str, name: str) -> NDArray[Any]:
    """Unpack an array, as far as its bytes go: sizes in the archive may be wrong."""
    info = archive.getinfo(f"{member}.npy")
    source = f"{member} in {name}"
    if info.flag_bits & ENCRYPTED or info.compress_type not in PACKED:
        raise DataError(f"cannot read {source}: it is encrypted, or packed as numpy never does")
    with archive.open(info) as file:
        header = read_header(file, source, info.file_size)
        content = read_whole(file, header.nbytes, source)
        rest = file.read(1)  # at the end the checksum is compared
    if len(content) != header.nbytes or rest:
        raise DataError(f"cannot read {source}: it must have {header.nbytes} bytes of values")
    return header.array(content)
