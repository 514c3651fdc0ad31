"""Files that are wrong, or lie: each ends in one line that names the file and, where it can, the
line and the field; in little memory; and nothing in a file is ever run."""

import gzip
import json
import os
import pickle
import sys

import numpy as np
import pyarrow
import pytest
import zarr
from pyarrow import parquet

from sparsegp.data import open_dataset, storage
from sparsegp.data.blocks import from_function
from sparsegp.errors import DataError
from tests.data import files
from tests.runs import peak_memory

ROWS = 10**12


def refused(path, match, **options):
    """Check that a file cannot be opened and learnt, and that the message fits, and one line."""
    with pytest.raises(DataError, match=match) as caught:
        open_dataset(path, **options).train.learnt()
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 700


TEXTS = {
    "": "a.csv is empty",
    "\n \n": "a.csv is empty",
    "a,b,y\n": "no rows under its header",
    "1,2,0\n3,4,1\n5,1\n": "line 3 has 2 fields; 3 are",
    "# exported 2024\na;b;y\n1;2;u\n3;4;v\n": "line 1: '# exported 2024' must be .*; remove such",
    "#new\n# x, y\na,b,y\n1,2,u\n3,4,v\n": "line 1: '#new' must be column names or values",
    "sep=;\r\na;b;y\r\n1;2;u\r\n3;x;v\r\n4;5;u\r\n6;7;v\r\n": r"line 4 .*, column 'b': 'x' is",
    "sep=,\nReport,,\na,b,y\n1,2,u\n3,4,v\n": "line 2: 'Report' looks like a title; remove the",
    "sep=;\n# made by\na;y\n1;u\n": "line 2: '# made by' must be column names",
    "Report,\na,y\n1,u\n3,v\n": "line 1: 'Report' looks like a title; remove the lines above",
    "Report 2024,,,\na,b,c,y\n1,2,3,u\n4,5,6,v\n": "line 1: 'Report 2024' looks like a title",
    "1,2,x\n3,4,5,y\n": "line 2 has 4 fields; 3 are",
    "a,y\n1,2,0\n3,4,1\n": "line 2 has 3 fields; 2 are",
    "a,b,y\n1,2,u\n\n3,red,v\n4,5,u\n6,7,v\n": r"line 4 \(row 1\), column 'b': 'red' is not a",
    "a,b,a,y\n1,2,3,0\n": "name of its own; .*a.csv has 2 columns 'a': rename",
    "1,2,0\n1,2,1\n1,2,0\n3,4_0,1\n": "line 4 .row 3., column '1': '4_0' is not a number",
    "1,2,0\n1,2,1\n1,2,0\n0x10,4,1\n": "column '0': .0x10. is not a number",
    "1,2,0\n1,2,1\n1,2,0\n3,٣,1\n": "column '1': '٣' is not a number",
    "1,2,0\n" + "3" * 200_000 + ",1,1\n": "line 2: field larger than field limit",
    "a" * 200_000 + ",1,1\n": "line 1: field larger than field limit",
    "1,2,0\n3,4,\n": "line 2 .row 1., column '2': the label is missing",
    "1,2,a\n3,4,NA\n": "line 2 .row 1., column '2': the label is missing .'NA' stands for that",
    "1,2,0.5\n3,4,nan\n": "line 2 .row 1., column '2': the label is missing",
    "a,b,y\n1,2,u\n3,4,\n": "line 3 .row 1., column 'y': the label is missing",
    "1\n2\n": "has 1 column",
    "1\N{NO-BREAK SPACE}2\n3\N{NO-BREAK SPACE}4\n": "has 1 column, .* give their `delimiter`",
    "1,2\n3," + "l" * 300 + "\n": "labels of .*a.csv must be text, in UTF-8 of at most 200 bytes",
    "1,\0,0\n": "a.csv is not text, as it has NUL",
    # a row with a fault is no header
    "1.5,x2,0\n3,4,1\n5,6,0\n": "line 1: 'x2' is unlike .* `header` or `no_header`",
    "1,2?,3,yes\n4,5,6,no\n": r"line 1: '2\?' is unlike what is below .column 1,",
}

MANY = ",".join(f"a{n}" for n in range(24)) + "\n"
POINT = "a;b;y\n980;0,5;u\n1.980;0,7;v\n"


@pytest.mark.parametrize(
    ("text", "options", "match"),
    [
        *((text, {}, match) for text, match in TEXTS.items()),
        ("a,b,y\n1,2,0\n", {"label_column": "klass"}, "'klass'; its columns: a, b, y"),
        ("1,2,0\n1,2,0\n", {"label_column": "klass"}, "'klass'; it has no header"),
        ("1,2,0\n1,2,0\n", {"label_column": 3}, "label column 3;.* 0 to 2"),
        ("a,b,y\n1,2,0\n", {"label_column": -4}, "label column -4; its columns: a, b, y"),
        ("a,b,y\n1,2,0\n", {"label_column": "Y"}, "its columns: a, b, y .did you mean 'y'"),
        ("mean a,y\n1,0\n", {"drop": ["mean_a"]}, "its columns: mean a, y .did you mean 'mean a'"),
        ("a;b;y\n1;2;0\n", {"delimiter": ","}, "none is left as an input; .* `delimiter`"),
        (MANY, {"label_column": "z"}, r"a19, \.\.\. \(4 more\); give"),
        ("a,id,y\n1,,0\n", {"id_column": "id"}, "line 2 .row 0., .*the id is missing; .*id_col"),
        (
            POINT,
            {"decimal": ",", "kinds": "a=number"},
            "line 3 .row 1., .*'1.980' has a point, .* write a comma instead, or nothing",
        ),
        (POINT, {"decimal": ",", "n_features": 2}, "line 3 .row 1., column 'a': '1.980' has a po"),
        ("a,b,y\n1,2,0\n", {"names": ("a", "d")}, "missing: d; found: a, b, y"),
        ("1,2,0\n1,2,0\n", {"n_features": 5}, "takes 5 columns; .*a.csv has 2 and labels"),
        ("a\x1b[31m,b\x07,c\n1,2,x\n", {"label_column": "z"}, "its columns: a .31m, b , c"),
    ],
    ids=lambda each: repr(each)[:30],
)
def test_texts(text, options, match, tmp_path):
    (tmp_path / "a.csv").write_text(text)
    refused(tmp_path / "a.csv", match, **options)


X, Y = np.ones((3, 2)), np.ones(3)
ARRAYS = [
    ({"a": Y, "b": Y}, r"found: (a, b|nothing)"),
    ({"X_train": X, "X": Y}, "y_train.*found: X, X_train"),
    ({"X_train": X, "y_train": Y, "X_test": X}, "y_test"),
    ({"X_train": X, "y_train": Y, "X_test": X[:, :1], "y_test": Y}, "columns; .* 2 and .* has 1"),
    ({"X": X[:0], "y": Y[:0]}, "no rows"),
    ({"X": np.ones((3, 2, 2)), "y": Y}, r"two-dimensional.*\(3, 2, 2\)"),
    ({"X": X, "y": X}, r"each row.*\(3, 2\)"),
]


@pytest.mark.parametrize(("arrays", "match"), ARRAYS)
@pytest.mark.parametrize("name", ["a.npz", "a.zarr"])
def test_arrays(arrays, match, name, tmp_path):
    files.write_arrays(tmp_path / name, arrays)
    refused(tmp_path / name, match)


HEADER = bytes([0, 0, 8, 3])
FILES = [
    ("a.xyz", b"1,2\n", r"format of .*a\.xyz.*\.csv.*\.npz.*\.zarr"),
    ("a.csv.gz", b"1,2\n", "a.csv.gz"),
    ("a.csv.zip", files.zip_bytes({"a.csv": b"", "b.csv": b""}), r"one file, found \['a.csv', 'b"),
    ("a.npz", b"no archive", "a.npz"),
    ("X.npy", b"", "cannot read .*X.npy"),
    ("X.npy", files.npy_bytes(np.ones(3)), r"two-dimensional.*\(3,\)"),
    ("X.npy", files.npy_bytes(np.array([["1", "b"]])), "'1' in row 0, column 0"),
    ("X.npy", files.npy_that_declares((ROWS, 4)), "X.npy is cut short"),
    ("X.npy", files.npy_that_declares((4, 1), "<U0"), "X.npy must hold numbers"),
    ("a-images-idx3-ubyte", HEADER + b"\0\0\0\1" * 3 + bytes(9), "1 bytes, and there are 9"),
    ("a-images-idx3-ubyte", b"no images", "must begin with"),
    ("a-images-idx3-ubyte.gz", b"\0\0\x08\x01\0\0\0\x02" + bytes(2), "two-dimensional"),
    ("a-images-idx3-ubyte.gz", HEADER + b"\0\0\0\2" * 3 + bytes(7), "cut short"),
    ("a-images-idx3-ubyte.gz", HEADER + b"\0\x0f\xff\xff" * 3 + bytes(9), "gz would take"),
    ("a.parquet", b"PAR1", "a.parquet"),
]


@pytest.mark.parametrize(("name", "content", "match"), FILES)
def test_files(name, content, match, tmp_path):
    content = gzip.compress(content) if name.startswith("a-") and ".gz" in name else content
    (tmp_path / name).write_bytes(content)
    refused(tmp_path / name, match)


def test_places_that_hold_no_data(tmp_path):
    refused("nowhere.csv", "no such file 'nowhere.csv'; .*: digits, iris")
    refused(f"{tmp_path}/a.npy,{tmp_path}/b.npy", "no such pair")
    refused("x" * 5000, "x")
    refused(tmp_path, "is not known")
    (tmp_path / "b.csv").mkdir()
    refused(tmp_path / "b.csv", "it is a directory")
    os.mkfifo(tmp_path / "a.csv")
    refused(tmp_path / "a.csv", "neither a file nor a directory")
    refused("toy", "leave `label_column` and `drop` out", label_column="a", drop="b")
    refused("toy", "takes 3 columns; toy .* has 10", n_features=3)
    zarr.create_array(str(tmp_path / "b.zarr"), shape=(2, 2), dtype="f4")
    refused(tmp_path / "b.zarr", "single array")
    (tmp_path / "c.zarr").mkdir()
    refused(tmp_path / "c.zarr", "cannot read .*c.zarr")


def test_files_that_change_while_they_are_used(tmp_path, sample):
    np.save(tmp_path / "X.npy", sample[0])
    files.write_pair(f"{tmp_path}/a.zarr", *sample)
    npy, group = (open_dataset(tmp_path / name).train.X for name in ("X.npy", "a.zarr"))
    (tmp_path / "X.npy").write_bytes((tmp_path / "X.npy").read_bytes()[:300])
    (tmp_path / "a.zarr" / "X" / "c" / "0" / "0").write_bytes(b"broken")
    for X, name in ((npy, "X.npy"), (group, "a.zarr")):
        with pytest.raises(DataError, match=name):
            X.compute()
    X = from_function(lambda *given: np.ones((2, 2)), [2, 3], 2, np.dtype("f8"), "a.file")
    with pytest.raises(DataError, match=r"a\.file must be float64 of shape \(3, 2\)"):
        X.compute()


BOMBS = {
    "rows": ("a.csv.gz", b"0,0,1\n" * (1 << 21)),
    "one line": ("a.csv.gz", b"10,2" + b",10" * (1 << 20) + b"\n"),
    "labels": ("a.csv.gz", b"".join(b"0,%0199d\n" % i for i in range(1 << 15))),
    "images": ("a-images-idx3-ubyte.gz", files.idx_bytes(np.zeros((3000, 30, 30)))),
    "arrays": ("a.npz", files.zip_bytes({"X.npy": files.npy_bytes(np.zeros((1000, 1000)))})),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_what_is_packed_is_refused_before_it_takes_several_times_the_memory(
    kind, tmp_path, monkeypatch
):
    monkeypatch.setattr(storage, "SMALL", 1 << 16)
    monkeypatch.setattr("distributed.system.MEMORY_LIMIT", 1 << 21)
    name, content = BOMBS[kind]
    files.put(tmp_path / name, content)
    refused(tmp_path / name, "memory")  # imports are not to be counted
    line = content.find(b"\n") if kind == "one line" else 0
    with peak_memory() as held:
        refused(tmp_path / name, rf"{name}.* would take at least .* memory")
        assert held() < 4 * line + (8 << 20)


def group(folder, member, chunk, **metadata):
    """Write a group of X and y, with other metadata and another chunk of one of them."""
    files.write_pair(f"{folder}/a.zarr", np.ones((2, 2)), np.zeros(2), zarr_format=2)
    stored = json.loads((folder / "a.zarr" / member / ".zarray").read_text())
    stored |= {"compressor": None} | metadata
    (folder / "a.zarr" / member / ".zarray").write_text(json.dumps(stored))
    (folder / "a.zarr" / member / {"X": "0.0", "y": "0"}[member]).write_bytes(chunk)
    return folder / "a.zarr"


class Mark:
    """Unpickled, it makes a folder."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


PICKLES = [
    {"filters": [{"id": "pickle"}]},
    {"compressor": {"id": "pickle"}},
    {"dtype": "|O", "filters": [{"id": "vlen-utf8"}, {"id": "pickle"}]},
]


@pytest.mark.parametrize(
    ("member", "metadata", "match"),
    [
        ("X", {"shape": [ROWS, 2]}, "a.zarr"),
        ("X", {"chunks": [ROWS, 2]}, "a.zarr"),
        ("X", {"chunks": [0, 2]}, "a.zarr"),
        ("X", {"dtype": "<c16"}, "a.zarr"),
        ("y", {"shape": [ROWS]}, "a.zarr"),
        *((member, metadata, "pickle") for member in "Xy" for metadata in PICKLES),
    ],
    ids=str,
)
def test_metadata_of_zarr(member, metadata, match, tmp_path):
    chunk = pickle.dumps(Mark(tmp_path / "harm"))
    refused(group(tmp_path, member, chunk, **metadata), match)
    assert not (tmp_path / "harm").exists()


def test_shards_do_not_unpickle(tmp_path):
    folder = zarr.open_group(tmp_path / "a.zarr", mode="w")
    folder.create_array("X", data=np.ones((4, 2)), chunks=(1, 2), shards=(2, 2))
    metadata = json.loads((tmp_path / "a.zarr" / "X" / "zarr.json").read_text())
    metadata["codecs"][0]["configuration"]["codecs"].append({"name": "numcodecs.pickle"})
    (tmp_path / "a.zarr" / "X" / "zarr.json").write_text(json.dumps(metadata))
    refused(tmp_path / "a.zarr", "pickle")


def test_numpy_files_do_not_unpickle(tmp_path):
    marks = np.array([[Mark(tmp_path / "harm")]], dtype=object)
    np.savez(tmp_path / "a.npz", X=marks)
    np.save(tmp_path / "X.npy", marks)
    refused(tmp_path / "a.npz", "X in .*a.npz must hold numbers or strings")
    refused(tmp_path / "X.npy", "X.npy must hold numbers or strings")
    assert not (tmp_path / "harm").exists()


def test_parquet(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"kind": ["a", "b"], "u": [1, 2]}), path)
    refused(path, "'z'; its columns: kind, u", label_column="z")
    parquet.write_table(pyarrow.table({"u": np.ones(0), "v": np.ones(0)}), path)
    refused(path, "has no rows")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    refused(path, r"a.parquet: a package is missing .*; install it: pyarrow reads")
