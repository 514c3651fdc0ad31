"""Small valid files of every format of data, and the strategies that damage them."""

import gzip
import io
import json
import struct
import tempfile
import warnings
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import zarr
from hypothesis import strategies as st

from tests.data.files import idx_bytes
from tests.fuzz.damage import NASTY, NUMBERS, altered_folder, cut_and_flipped

Files = dict[str, bytes | None]
"""Contents by relative path; None is a link that leads elsewhere."""

X = np.arange(24.0).reshape(8, 3)
LABELS = {
    "whole": np.arange(8) % 3,
    "text": np.array(["a", "bé", "c"])[np.arange(8) % 3],
    "bytes": np.array([b"a", b"b", b"c"])[np.arange(8) % 3],
    "double": (np.arange(8) % 3) / 2,
}


def npy_bytes(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def npy_with_header(header: str, values: bytes, version: int = 1) -> bytes:
    text = header.encode("latin1", "replace") + b"\n"
    size = struct.pack("<H", len(text) & 0xFFFF) if version == 1 else struct.pack("<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + size + text + values


DESCRIPTIONS = ["<f8", ">i4", "|O", "|V8", "<U2000000000", "<U0", "|S3", "<M8[s]", "<f2", "<c16"]


@st.composite
def npy(draw: st.DrawFn) -> bytes:
    kind = draw(st.sampled_from(["bytes", "bytes", "header"]))
    array = draw(st.sampled_from([X, np.asfortranarray(X), *LABELS.values()]))
    if kind == "bytes":
        return draw(cut_and_flipped(npy_bytes(array)))
    sizes = st.sampled_from([*NUMBERS, -1, 8, 3, "8", None, 1.5, True, 10**30])
    shape = tuple(draw(st.lists(sizes, max_size=3)))
    header = {
        "descr": draw(st.sampled_from([*DESCRIPTIONS, [("a", "<f8")], 5, "x" * 500])),
        "fortran_order": draw(st.sampled_from([False, True, None, "no"])),
        "shape": draw(st.sampled_from([shape, shape, 5, (8, 3), [8, 3]])),
    }
    text = draw(st.sampled_from([repr(header), repr(header), "(" * 9000, "-" * 9000 + "1", "8L"]))
    return npy_with_header(text, X.tobytes(), draw(st.sampled_from([1, 2, 3, 9])))


NAMES = ["X", "y", "X_train", "y_train", "X_test", "../X", "/X", "X/../X", "y\0", ""]


@st.composite
def npz(draw: st.DrawFn) -> bytes:
    arrays = {"X": npy_bytes(X), "y": npy_bytes(draw(st.sampled_from(list(LABELS.values()))))}
    kind = draw(st.sampled_from(["bytes", "bytes", "members", "names"]))
    if kind == "members":
        arrays[draw(st.sampled_from(["X", "y"]))] = draw(npy())
    elif kind == "names":
        arrays = {draw(st.sampled_from(NAMES)): content for content in arrays.values()}
    file = io.BytesIO()
    packing = draw(st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA]))
    with zipfile.ZipFile(file, "w", packing) as archive:
        for name, content in arrays.items():
            archive.writestr(f"{name}.npy", content)
    content = file.getvalue()
    return draw(cut_and_flipped(content)) if kind == "bytes" else content


IDX = {
    "a-images-idx3-ubyte": idx_bytes(np.arange(24).reshape(4, 2, 3)),
    "a-labels-idx1-ubyte": idx_bytes(np.arange(4) % 2),
}


@st.composite
def idx(draw: st.DrawFn) -> Files:
    files = dict(IDX)
    name = draw(st.sampled_from(sorted(files)))
    files[name] = draw(cut_and_flipped(files[name]))
    if draw(st.booleans()):
        files = {f"{key}.gz": gzip.compress(content) for key, content in files.items()}
        if draw(st.booleans()):
            files[f"{name}.gz"] = draw(cut_and_flipped(files[f"{name}.gz"]))
    return dict(files)


CSV = [
    "a,b,kind\n1,2.5,x\n3,-4e3,y\n5,6,x\n",
    "1;2;0\n3;4;1\n5;6;0\n",
    "1 2 u\n3 4 v\n",
    '"a","b c"\n1,"x, y"\n2,z\n',
]
PIECES = ["1", "-2.5e3", "nan", "inf", "1e999", "9" * 25, "9" * 400, "9" * 5000, "1_0", "0x1", "٣"]
PIECES += ["a", '"', '""', '"a', ",", ";", "\t", " ", "\n", "\r", "\r\n", "\0", "é", "#", "\ufeff"]
PIECES += ["a" * 140_000, "'", "1,2,3\n", "1e30", "True", "-0", "1.0", "\uff11"]


@st.composite
def text(draw: st.DrawFn) -> bytes:
    if draw(st.booleans()):
        return draw(cut_and_flipped(draw(st.sampled_from(CSV)).encode()))
    return "".join(draw(st.lists(st.sampled_from(PIECES), max_size=30))).encode()


SPARSE = ["1", "-1", "0", ":", "1:2", "2:nan", "3:1e999", "qid:1", "qid:", "#", "\n", " ", "0:1"]
SPARSE += ["99999999999:1", f"{2**31}:1", f"{2**63}:1", "-1:1", "a:1", "1:a", "1,2", "\0", "1e300"]


@st.composite
def svmlight(draw: st.DrawFn) -> bytes:
    if draw(st.booleans()):
        return draw(cut_and_flipped(b"1 1:2 3:4.5\n-1 2:1e3\n1 1:1 2:1 3:1 # end\n"))
    return " ".join(draw(st.lists(st.sampled_from(SPARSE), max_size=25))).encode()


@cache
def parquet_bytes(packing: str) -> bytes:
    columns = {"a": X[:, 0], "b": np.arange(8), "c": X[:, 1].astype("f4"), "kind": LABELS["text"]}
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), file, row_group_size=3, compression=packing)
    return file.getvalue()


@st.composite
def parquet(draw: st.DrawFn) -> bytes:
    packing = draw(st.sampled_from(["none", "snappy", "zstd", "gzip"]))
    return draw(cut_and_flipped(parquet_bytes(packing)))


@cache
def zarr_files(kind: str) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"):
        group = zarr.open_group(folder, mode="w", zarr_format=2 if kind == "two" else 3)
        shards: dict[str, Any] = {"shards": (4, 3)} if kind == "shards" else {}
        group.create_array("X", data=X, chunks=(2, 3), **shards)
        y = LABELS["text"] if kind == "text" else LABELS["whole"]
        group.create_array("y", data=y, chunks=(5,))
        if kind == "consolidated":
            zarr.consolidate_metadata(folder)
        root = Path(folder)
        return {
            str(file.relative_to(root)): file.read_bytes()
            for file in sorted(root.rglob("*"))
            if file.is_file()
        }


@st.composite
def zarr_group(draw: st.DrawFn) -> Files:
    kind = draw(st.sampled_from(["plain", "two", "shards", "text"]))
    files = zarr_files(kind)
    if draw(st.integers(0, 2)):
        return draw(altered_folder(files))
    name = draw(st.sampled_from(sorted(each for each in files if "X/" in each or "y/" in each)))
    if not name.endswith(("zarr.json", ".zarray")):
        return dict(files)
    stored = json.loads(files[name])
    key = draw(st.sampled_from(sorted(stored)))
    stored[key] = draw(st.sampled_from(NASTY))
    return {**files, name: json.dumps(stored).encode()}


def npz_bytes() -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, X=X, y=LABELS["text"])
    return file.getvalue()


def whole(kind: str) -> Any:
    """Return an undamaged file, or the files of a folder."""
    makers: dict[str, Any] = {
        "npy": lambda: npy_bytes(X),
        "npz": npz_bytes,
        "idx": lambda: dict(IDX),
        "text": CSV[0].encode,
        "svmlight": lambda: b"1 1:2 3:4.5\n-1 2:1e3\n",
        "parquet": lambda: parquet_bytes("snappy"),
        "zarr": lambda: dict(zarr_files("plain")),
    }
    return makers[kind]()


FORMATS: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
    "npy": ("X.npy", npy()),
    "npz": ("a.npz", npz()),
    "idx": ("", idx()),
    "text": ("a.csv", text()),
    "svmlight": ("a.svm", svmlight()),
    "parquet": ("a.parquet", parquet()),
    "zarr": ("a.zarr", zarr_group()),
}
"""Name of the file, or of the folder of the files, and its contents."""
