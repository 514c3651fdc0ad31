"""Files that lie: sizes that are not there, code in place of data, ways out of a folder."""

import gzip
import json
import os
import pickle
import struct
import zipfile

import numpy as np
import pytest
import zarr

from sparsegp.data import open_dataset, summarise
from sparsegp.data.blocks import from_function, row_blocks
from sparsegp.errors import DataError

ROWS = 10**12


def npy(shape, dtype="<f8", values=b""):
    header = repr({"descr": dtype, "fortran_order": False, "shape": shape}) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + values


@pytest.fixture
def group(tmp_path):
    """A function that writes a group of X and y, with other metadata, and returns its folder."""

    def write(member="X", chunk=None, **metadata):
        for name, values in {"X": np.ones((2, 2)), "y": np.array([0.0, 1.0])}.items():
            folder = tmp_path / "a.zarr" / name
            folder.mkdir(parents=True)
            stored = {"zarr_format": 2, "shape": values.shape, "chunks": values.shape}
            stored |= {"dtype": "<f8", "compressor": None, "fill_value": 0, "order": "C"}
            stored |= {"filters": None}
            content = values.tobytes()
            if name == member:
                stored |= metadata
                content = content if chunk is None else chunk
            (folder / ".zarray").write_text(json.dumps(stored))
            (folder / ".".join("0" * values.ndim)).write_bytes(content)
        (tmp_path / "a.zarr" / ".zgroup").write_text('{"zarr_format": 2}')
        return tmp_path / "a.zarr"

    return write


class TestSizes:
    def test_npy(self, tmp_path):
        (tmp_path / "X.npy").write_bytes(npy((ROWS, 4), values=bytes(64)))
        with pytest.raises(
            DataError, match=r"X\.npy: it is cut short or damaged, float64 of shape"
        ):
            open_dataset(tmp_path / "X.npy")

    def test_npy_labels_of_no_size(self, tmp_path):
        np.save(tmp_path / "X.npy", np.ones((2, 2)))
        (tmp_path / "y.npy").write_bytes(npy((ROWS,), "<U0"))
        with pytest.raises(
            DataError, match=r"y\.npy must hold numbers or strings; it declares <U0"
        ):
            open_dataset(tmp_path / "X.npy")

    def test_npz_whose_directory_agrees(self, tmp_path):
        path = tmp_path / "a.npz"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("X.npy", npy((10**8, 4), values=bytes(64)))
        size = struct.pack("<L", len(npy((10**8, 4), values=bytes(64))))
        content = path.read_bytes()
        path.write_bytes(content.replace(size, struct.pack("<L", 2**32 - 2)))
        with pytest.raises(DataError, match=r"cannot read (X in )?.*a\.npz"):
            open_dataset(path)

    def test_idx(self, tmp_path):
        path = tmp_path / "a-images-idx3-ubyte.gz"
        path.write_bytes(gzip.compress(bytes([0, 0, 8, 3]) + b"\0\x0f\xff\xff" * 3 + bytes(99)))
        with pytest.raises(DataError, match=r"idx3-ubyte\.gz (declares .* GB|is cut short)"):
            open_dataset(path)
        path.write_bytes(gzip.compress(bytes([0, 0, 8, 3]) + b"\0\0\0\1" * 3 + bytes(1 << 24)))
        with pytest.raises(DataError, match=r"is too long: 17 bytes are expected"):
            open_dataset(path)

    @pytest.mark.parametrize(
        ("metadata", "message"),
        [
            ({"shape": [ROWS, 2]}, r"every row needs one label|more than \d+ blocks"),
            ({"shape": [ROWS, ROWS]}, r"a\.zarr \(X\) (has|must be read in blocks)"),
            ({"chunks": [ROWS, 2]}, r"a chunk of .*a\.zarr \(X\) has the shape"),
            ({"chunks": [0, 2]}, r"a chunk of .*a\.zarr \(X\) has the shape"),
            ({"shape": [2.0, 2]}, r"a\.zarr \(X\): its metadata are damaged"),
            ({"shape": None}, r"a\.zarr \(X\): its metadata are damaged"),
        ],
        ids=str,
    )
    def test_zarr(self, group, metadata, message):
        with pytest.raises(DataError, match=message):
            open_dataset(group(**metadata))

    def test_zarr_labels(self, group):
        with pytest.raises(
            DataError, match=r"every row needs one label; .* shape \(1000000000000,"
        ):
            open_dataset(group("y", shape=[ROWS]))

    def test_metadata_that_are_too_large_or_too_deep(self, group):
        path = group()
        (path / "X" / ".zarray").write_text("[" * 100_000)
        with pytest.raises(DataError, match=r"X/\.zarray is damaged, it is no JSON"):
            open_dataset(path)
        with (path / "X" / ".zarray").open("wb") as file:
            file.truncate(1 << 40)
        with pytest.raises(DataError, match=r"X/\.zarray has \d+ bytes; metadata of at most"):
            open_dataset(path)

    def test_svmlight(self, tmp_path):
        (tmp_path / "a.svm").write_text(f"1 {2**31 - 1}:1\n2 1:1\n")
        with pytest.raises(DataError, match=r"a\.svm must be read in blocks of 1 rows"):
            open_dataset(tmp_path / "a.svm")
        (tmp_path / "a.svm").write_text(f"1 {2**70}:1\n")
        with pytest.raises(DataError, match=r"a\.svm, line 1: "):
            open_dataset(tmp_path / "a.svm")

    def test_tables(self):
        assert len(row_blocks(10**8, 784, "X")) < 20_000
        with pytest.raises(DataError, match="X has 1000000000000 rows of 4 columns, more than"):
            row_blocks(ROWS, 4, "X")

    def test_blocks_that_are_not_what_was_declared(self):
        X = from_function(np.ones, [((3, 2),), ((2, 2),)], [3, 3], 2, "f8", "a.file")
        with pytest.raises(
            DataError, match=r"a block of a\.file must be float64 of shape \(3, 2\)"
        ):
            X.compute()


class Mark:
    """Unpickled, it makes a folder."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


class TestCode:
    @pytest.mark.parametrize(
        "metadata",
        [
            {"filters": [{"id": "pickle"}]},
            {"compressor": {"id": "pickle"}},
            {"dtype": "|O", "filters": [{"id": "vlen-utf8"}, {"id": "pickle"}]},
            {"dtype": "|O", "filters": [{"id": "vlen-utf8"}], "compressor": {"id": "pickle"}},
        ],
        ids=str,
    )
    @pytest.mark.parametrize("member", ["X", "y"])
    def test_zarr(self, group, tmp_path, metadata, member):
        harm = tmp_path / "harm"
        path = group(member, pickle.dumps(Mark(harm)), **metadata)
        with pytest.raises(DataError, match=r"is coded by pickle, which is not read"):
            open_dataset(path)
        assert not harm.exists()

    def test_zarr_in_shards(self, tmp_path):
        path = tmp_path / "a.zarr"
        zarr.open_group(path, mode="w").create_array(
            "X", data=np.ones((4, 2)), chunks=(1, 2), shards=(2, 2)
        )
        metadata = json.loads((path / "X" / "zarr.json").read_text())
        metadata["codecs"][0]["configuration"]["codecs"].append({"name": "numcodecs.pickle"})
        (path / "X" / "zarr.json").write_text(json.dumps(metadata))
        with pytest.raises(DataError, match=r"is coded by pickle, which is not read"):
            open_dataset(path)

    def test_npz(self, tmp_path):
        harm = tmp_path / "harm"
        np.savez(tmp_path / "a.npz", X=np.array([[Mark(harm)]], dtype=object))
        with pytest.raises(DataError, match=r"X in .* is an array of Python objects"):
            open_dataset(tmp_path / "a.npz")
        assert not harm.exists()


class TestPlaces:
    @pytest.mark.parametrize("what", ["chunk", "metadata", "array"])
    def test_links_that_lead_out_of_a_group(self, group, tmp_path, what):
        path = group()
        name = {"chunk": "X/0.0", "metadata": "X/.zarray", "array": "X"}[what]
        (path / name).rename(tmp_path / "elsewhere")
        (path / name).symlink_to(tmp_path / "elsewhere")
        with pytest.raises(DataError, match=r"a\.zarr/X/.* leads out of its folder"):
            open_dataset(path).train.X.compute()

    def test_a_group_that_is_a_link_is_read(self, group, tmp_path):
        (tmp_path / "b.zarr").symlink_to(group())
        assert open_dataset(tmp_path / "b.zarr").train.X.compute().tolist() == [[1, 1], [1, 1]]

    def test_what_is_no_file(self, tmp_path):
        os.mkfifo(tmp_path / "a.csv")
        with pytest.raises(DataError, match=r"a\.csv is neither a file nor a directory"):
            open_dataset(tmp_path / "a.csv")

    def test_a_chunk_that_is_no_file(self, group):
        path = group()
        (path / "X" / "0.0").unlink()
        os.mkfifo(path / "X" / "0.0")
        with pytest.raises(DataError, match=r"X/0\.0 is no file"):
            open_dataset(path).train.X.compute()


class TestOther:
    def test_archives_that_numpy_never_writes(self, tmp_path):
        with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_LZMA) as archive:
            archive.writestr("X.npy", npy((2, 1), values=bytes(16)))
        with pytest.raises(DataError, match=r"X in .*a\.npz: it is encrypted, or packed"):
            open_dataset(tmp_path / "a.npz")

    def test_fields_that_are_too_long(self, tmp_path):
        (tmp_path / "a.csv").write_text("1,2\n" + "a" * 140_000 + ",b\n")
        with pytest.raises(DataError, match=r"a\.csv.*field larger than field limit"):
            open_dataset(tmp_path / "a.csv")

    def test_messages_are_printable(self, tmp_path):
        (tmp_path / "a.csv").write_text("a\x1b[31m,b\x07,c\n1,2,x\n3,4,y\n")
        with pytest.raises(DataError, match="no label column 'z'; its columns: a ") as caught:
            open_dataset(tmp_path / "a.csv", label_column="z")
        assert str(caught.value).isprintable()

    def test_the_smallest_numbers_are_summarised(self, tmp_path):
        np.save(tmp_path / "X.npy", np.array([[0.0, 1.0], [5e-324, 1.0]]))
        X = open_dataset(tmp_path / "X.npy").train.X
        assert np.isfinite(summarise(X, "X").mean).all()
