"""What is particular to each format, and every way in which a file can be wrong."""

import gzip
import sys

import numpy as np
import pytest
import zarr

from sparsegp.data import open_dataset
from sparsegp.errors import DataError
from tests.data.files import idx_bytes


@pytest.fixture
def text(tmp_path):
    def write(content, name="a.csv"):
        (tmp_path / name).write_bytes(content.encode())
        return tmp_path / name

    return write


class TestSource:
    def test_missing_file(self):
        with pytest.raises(
            DataError, match=r"no such file 'nowhere.csv'; DATA is a file or one of: digits, iris"
        ):
            open_dataset("nowhere.csv")

    def test_unknown_suffix(self, text):
        with pytest.raises(DataError, match=r"a\.xyz' is not known.*\.csv.*\.npz.*\.zarr"):
            open_dataset(text("1,2\n", "a.xyz"))

    def test_directory(self, tmp_path):
        with pytest.raises(DataError, match="is not known"):
            open_dataset(tmp_path)
        (tmp_path / "b.csv").mkdir()
        with pytest.raises(DataError, match="it is a directory"):
            open_dataset(tmp_path / "b.csv")

    def test_catalog(self):
        assert open_dataset("digits").train.X.shape == (1437, 64)
        with pytest.raises(DataError, match="leave the label column 'a' out"):
            open_dataset("toy", label_column="a")
        with pytest.raises(DataError, match=r"the model takes 3 columns; toy .* has 10"):
            open_dataset("toy", n_features=3)


class TestText:
    def test_header_and_label_by_name(self, text):
        path = text('width,"kind",height\n1,a,2\n3,b,4\n')
        table = open_dataset(path, label_column="kind").train
        assert table.y.tolist() == ["a", "b"]
        assert table.X.compute().tolist() == [[1, 2], [3, 4]]

    @pytest.mark.parametrize("column", [1, -2, "1"])
    def test_label_by_number(self, text, column):
        table = open_dataset(text("1,a,2\n3,b,4\n"), label_column=column).train
        assert table.y.tolist() == ["a", "b"]
        assert table.X.compute().tolist() == [[1, 2], [3, 4]]

    def test_a_text_label_is_no_header(self, text):
        assert open_dataset(text("1,2,yes\n3,4,no\n")).train.y.tolist() == ["yes", "no"]

    def test_label_named_in_a_header_of_numbers(self, text):
        table = open_dataset(text("0,1,kind\n5,6,7\n8,9,7\n"), label_column="kind").train
        assert table.X.compute().tolist() == [[5, 6], [8, 9]]

    def test_whole_labels_with_a_point(self, text):
        table = open_dataset(text("0.5, 1.\n1.5, 12.\n")).train
        assert table.y.dtype == np.int64
        assert table.y.tolist() == [1, 12]

    def test_blank_lines_windows_ends_and_byte_order_mark(self, text):
        table = open_dataset(text("\ufeff\r\na,b,y\r\n\r\n1,2,0\r\n\r\n3,4,1\r\n\r\n")).train
        assert table.X.compute().tolist() == [[1, 2], [3, 4]]
        assert table.y.tolist() == [0, 1]

    def test_nan_and_infinity_parse(self, text):
        found = open_dataset(text("nan,inf,0\n-inf,1,1\n")).train.X.compute()
        np.testing.assert_array_equal(found, [[np.nan, np.inf], [-np.inf, 1]])

    def test_hash_is_text(self, text):
        assert open_dataset(text("1,#a\n2,b\n")).train.y.tolist() == ["#a", "b"]

    def test_label_names_with_other_delimiters(self, text):
        assert open_dataset(text("1,2,a;b\n3,4,c\n")).train.y.tolist() == ["a;b", "c"]

    def test_unlabelled_with_header(self, text):
        table = open_dataset(text("a,b\n1,2\n3,4\n"), n_features=2).train
        assert table.y is None
        assert table.X.compute().tolist() == [[1, 2], [3, 4]]
        assert open_dataset(text("1\n2\n"), n_features=1).train.X.shape == (2, 1)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("", r"a\.csv is empty"),
            ("\n \n", r"a\.csv is empty"),
            ("a,b,y\n", "has no rows under its header, 'a,b,y'"),
            ("1,2,0\n3,4,1\n5,1\n", r"a\.csv, line 3 has 2 fields; 3 are expected"),
            ("1,2,0\n3,4,5,1\n", r"line 2 has 4 fields; 3 are expected"),
            ("1,2,x\n3,4,5,y\n", r"line 2 has 4 fields; 3 are expected"),
            ("a,b,y\n1,2,0\n\n3,red,1\n", r"line 4: field 2 \('b'\) is 'red', where a number"),
            ("1,2,0\n3,?,1\n", r"line 2: field 2 is '\?', where a number is expected"),
            ("1,2,0\n3,,1\n", r"line 2: field 2 is empty"),
            ("1,2,0\n3,4,\n", r"line 2: field 3 is empty"),
            ("a,b,y\n1,2,u\n3,4,\n", r"line 3: field 3 \('y'\) is empty"),
            ("1\n2\n", "has 1 column; at least one of numbers and one of labels"),
        ],
    )
    def test_faults_are_placed(self, text, content, message):
        with pytest.raises(DataError, match=message):
            open_dataset(text(content))

    @pytest.mark.parametrize(
        ("content", "column", "message"),
        [
            ("a,b,y\n1,2,0\n", "klass", "no label column 'klass'; its columns: a, b, y"),
            ("1,2,0\n1,2,0\n", "klass", "no label column 'klass'; it has no header; .* 0 to 2"),
            ("1,2,0\n1,2,0\n", 3, r"has 3 columns; label column 3 is not one of 0..2 or -3..-1"),
            ("a,b,y\n1,2,0\n", -4, r"has 3 columns \(a, b, y\); label column -4"),
        ],
    )
    def test_unknown_label_column(self, text, content, column, message):
        with pytest.raises(DataError, match=message):
            open_dataset(text(content), label_column=column)

    def test_columns_that_do_not_fit_the_model(self, text):
        with pytest.raises(DataError, match=r"takes 5 columns; .*a\.csv has 3, .* 5 nor.* 6"):
            open_dataset(text("1,2,0\n1,2,0\n"), n_features=5)

    def test_what_is_not_gzip(self, text):
        with pytest.raises(DataError, match=r"cannot read .*a\.csv\.gz: it is damaged"):
            open_dataset(text("1,2\n", "a.csv.gz"))

    def test_gzip_cut_short(self, tmp_path):
        lines = "".join(f"{i},{i * i},1\n" for i in range(50000)).encode()
        (tmp_path / "a.csv.gz").write_bytes(gzip.compress(lines)[:-2000])
        with pytest.raises(DataError, match=r"cannot read .*a\.csv\.gz: .*cut short"):
            open_dataset(tmp_path / "a.csv.gz")

    def test_bytes_that_are_no_text(self, tmp_path):
        (tmp_path / "a.csv").write_bytes(b"1,2,\xe9\n")
        with pytest.raises(DataError, match=r"cannot read .*a\.csv.*utf-8"):
            open_dataset(tmp_path / "a.csv")


class TestNpz:
    def test_split(self, tmp_path, sample):
        X, y = sample
        path = tmp_path / "a.npz"
        np.savez(path, X_train=X, y_train=y, X_test=X[:5], y_test=y[:5, None], other=y)
        dataset = open_dataset(path)
        assert "a.npz (X_test)" in dataset.test.source
        np.testing.assert_array_equal(dataset.test.X.compute(), X[:5])
        np.testing.assert_array_equal(dataset.test.y, y[:5])

    def test_inputs_alone(self, tmp_path, sample):
        np.savez(tmp_path / "a.npz", X=sample[0])
        assert open_dataset(tmp_path / "a.npz").train.y is None

    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            ({"a": np.ones(3), "b": np.ones(3)}, "must hold X and y, .*; found: a, b"),
            ({"X_train": np.ones((3, 2)), "X": np.ones(3)}, "X_train but not y_train; found: X,"),
            (
                {"X_train": np.ones((3, 2)), "y_train": np.ones(3), "X_test": np.ones((3, 2))},
                "X_test but not y_test",
            ),
            ({"X": np.ones((3, 2)), "y": np.ones(4)}, r"a\.npz \(X\) has 3 rows and 4 labels"),
            ({"X": np.ones((0, 2)), "y": np.ones(0)}, "has no rows"),
            ({"X": np.ones((3, 0)), "y": np.ones(3)}, "has no columns"),
            ({"X": np.ones((3, 2, 2)), "y": np.ones(3)}, r"two-dimensional.*\(3, 2, 2\)"),
            ({"X": np.ones((3, 2)), "y": np.ones((3, 2))}, r"one for each row.*\(3, 2\)"),
            ({"X": np.ones((3, 2)) * 1j, "y": np.ones(3)}, "real numbers; .* holds complex128"),
            ({"X": np.array([["1", "b"]]), "y": np.ones(1)}, "has '1' in row 0, column 0"),
        ],
    )
    def test_wrong_arrays(self, tmp_path, arrays, message):
        np.savez(tmp_path / "a.npz", **arrays)
        with pytest.raises(DataError, match=message):
            open_dataset(tmp_path / "a.npz")

    def test_different_columns_in_the_test_rows(self, tmp_path):
        ones, y = np.ones((3, 2)), np.ones(3)
        np.savez(tmp_path / "a.npz", X_train=ones, y_train=y, X_test=np.ones((3, 4)), y_test=y)
        with pytest.raises(DataError, match=r"same columns; .* has 2 and .* has 4"):
            open_dataset(tmp_path / "a.npz")

    def test_objects_are_refused(self, tmp_path):
        path = tmp_path / "a.npz"
        np.savez(path, X=np.ones((2, 2)), y=np.array(["a", None], dtype=object))
        with pytest.raises(DataError, match=r"y in .*a\.npz is an array of Python objects"):
            open_dataset(path)

    def test_other_files(self, tmp_path, text):
        with pytest.raises(DataError, match=r"cannot read .*a\.npz"):
            open_dataset(text("no archive", "a.npz"))
        with (tmp_path / "a.npz").open("wb") as file:
            np.save(file, np.ones(3))
        with pytest.raises(DataError, match="a single array"):
            open_dataset(tmp_path / "a.npz")


class TestNpy:
    def test_pair(self, tmp_path, sample):
        X, y = sample
        np.save(tmp_path / "in.npy", np.asfortranarray(X))
        np.save(tmp_path / "out.npy", y)
        table = open_dataset(f"{tmp_path}/in.npy, {tmp_path}/out.npy").train
        np.testing.assert_array_equal(table.X.compute(), X)
        np.testing.assert_array_equal(table.y, y)
        with pytest.raises(DataError, match=r"no such file '.*no\.npy'; a pair"):
            open_dataset(f"{tmp_path}/in.npy,{tmp_path}/no.npy")
        with pytest.raises(DataError, match=r"given as X\.npy,y\.npy"):
            open_dataset(f"{tmp_path}/in.npy,{tmp_path}/in.npy,{tmp_path}/in.npy")

    def test_split_beside(self, tmp_path, sample):
        X, y = sample
        for name, array in {"X_train": X, "y_train": y, "X_test": X[:5], "y_test": y[:5]}.items():
            np.save(tmp_path / f"{name}.npy", array)
        dataset = open_dataset(tmp_path / "X_train.npy")
        np.testing.assert_array_equal(dataset.train.y, y)
        np.testing.assert_array_equal(dataset.test.X.compute(), X[:5])
        assert open_dataset(tmp_path / "X_test.npy").test is None
        (tmp_path / "y_test.npy").unlink()
        assert open_dataset(tmp_path / "X_train.npy").test is None

    def test_no_labels(self, tmp_path, sample):
        np.save(tmp_path / "X.npy", sample[0])
        np.save(tmp_path / "rows.npy", sample[0])
        assert open_dataset(tmp_path / "X.npy").train.y is None
        assert open_dataset(tmp_path / "rows.npy").train.y is None

    def test_wrong_arrays(self, tmp_path):
        np.save(tmp_path / "X.npy", np.ones((0, 3)))
        with pytest.raises(DataError, match=r"X\.npy has no rows"):
            open_dataset(tmp_path / "X.npy")
        np.save(tmp_path / "X.npy", np.ones(3))
        with pytest.raises(DataError, match=r"two-dimensional.*\(3,\)"):
            open_dataset(tmp_path / "X.npy")
        np.save(tmp_path / "X.npy", np.array([[1, None]], dtype=object))
        with pytest.raises(DataError, match=r"X\.npy is an array of Python objects"):
            open_dataset(tmp_path / "X.npy")
        with (tmp_path / "X.npy").open("wb") as file:
            np.savez(file, X=np.ones((2, 2)))
        with pytest.raises(DataError, match=r"archive of arrays; call it \.npz"):
            open_dataset(tmp_path / "X.npy")
        (tmp_path / "X.npy").write_bytes(b"")
        with pytest.raises(DataError, match=r"cannot read .*X\.npy"):
            open_dataset(tmp_path / "X.npy")

    def test_file_cut_short_after_opening(self, tmp_path, sample):
        path = tmp_path / "X.npy"
        np.save(path, sample[0])
        X = open_dataset(path).train.X
        path.write_bytes(path.read_bytes()[:300])
        with pytest.raises(DataError, match=r"cannot read .*X\.npy"):
            X.compute()


class TestSvmlight:
    def test_missing_columns_follow_the_model(self, text):
        path = text("1 1:2 3:4\n-1 2:1\n", "a.svm")
        table = open_dataset(path, n_features=5).train
        assert table.X.compute().tolist() == [[2, 0, 4, 0, 0], [0, 1, 0, 0, 0]]
        assert table.y.tolist() == [1, -1]

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("1 1:2\n1 a:3\n", "a.svm, line 2: .*found '1 a:3'"),
            ("1 1:2\nred 1:3\n", "a.svm, line 2: .*found 'red 1:3'"),
            ("", "has no"),
        ],
    )
    def test_faults_are_placed(self, text, content, message):
        with pytest.raises(DataError, match=message):
            open_dataset(text(content, "a.svm"))


class TestIdx:
    @pytest.fixture
    def images(self, tmp_path):
        rng = np.random.default_rng(0)
        for part, n in {"train": 9, "t10k": 4}.items():
            X, y = rng.integers(0, 256, (n, 2, 3)), rng.integers(0, 10, n)
            (tmp_path / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx_bytes(X)))
            (tmp_path / f"{part}-labels-idx1-ubyte").write_bytes(idx_bytes(y))
        return tmp_path / "train-images-idx3-ubyte.gz"

    def test_split(self, images):
        dataset = open_dataset(images)
        assert dataset.train.X.shape == (9, 6)
        assert dataset.train.X.dtype == np.uint8
        assert dataset.test.X.shape == (4, 6)
        assert dataset.test.y.shape == (4,)
        (images.parent / "t10k-labels-idx1-ubyte").unlink()
        assert open_dataset(images).test is None
        (images.parent / "train-labels-idx1-ubyte").unlink()
        assert open_dataset(images).train.y is None

    def test_labels_alone_are_refused(self, images):
        with pytest.raises(DataError, match="holds labels; give the file of images"):
            open_dataset(images.parent / "train-labels-idx1-ubyte")

    def test_wrong_magic(self, images):
        images.write_bytes(gzip.compress(b"\0\0\x08\x01" + bytes(20)))
        with pytest.raises(DataError, match="must begin with the bytes 00000803, it has 00000801"):
            open_dataset(images)

    @pytest.mark.parametrize("keep", [3, 10, 30])
    def test_cut_short(self, images, keep):
        content = gzip.decompress(images.read_bytes())[:keep]
        path = images.with_name("train-images-idx3-ubyte")
        for name, data in {images: gzip.compress(content), path: content}.items():
            name.write_bytes(data)
            with pytest.raises(DataError, match=r"train-images-idx3-ubyte.*(is cut short|begin)"):
                open_dataset(name)

    def test_too_long_and_labels_that_do_not_match(self, images):
        labels = images.parent / "train-labels-idx1-ubyte"
        labels.write_bytes(labels.read_bytes() + b"\0")
        with pytest.raises(DataError, match="labels-idx1-ubyte is too long: 17 bytes"):
            open_dataset(images)
        labels.write_bytes(idx_bytes(np.zeros(5)))
        with pytest.raises(DataError, match="has 9 rows and 5 labels"):
            open_dataset(images)


class TestZarr:
    def test_split_and_missing_chunks(self, tmp_path):
        group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
        for part, n in {"train": 11, "test": 3}.items():
            group.create_array(f"X_{part}", shape=(n, 4), chunks=(2, 3), dtype="f4")
            group.create_array(f"y_{part}", shape=(n,), chunks=(5,), dtype="i8")[:] = np.arange(n)
        dataset = open_dataset(tmp_path / "a.zarr")
        assert dataset.train.X.numblocks == (1, 1)
        assert dataset.test.X.compute().tolist() == [[0] * 4] * 3
        assert dataset.train.y.tolist() == list(range(11))
        (tmp_path / "a.zarr").rename(tmp_path / "b")
        assert open_dataset(tmp_path / "b").train.X.shape == (11, 4)

    def test_wrong_groups(self, tmp_path):
        group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
        group.create_array("Z", shape=(2,), dtype="f4")
        with pytest.raises(DataError, match=r"a\.zarr must hold X and y, .*found: Z"):
            open_dataset(tmp_path / "a.zarr")
        zarr.create_array(str(tmp_path / "b.zarr"), shape=(2, 2), dtype="f4")
        with pytest.raises(DataError, match=r"b\.zarr is a single array"):
            open_dataset(tmp_path / "b.zarr")
        (tmp_path / "c.zarr").mkdir()
        with pytest.raises(DataError, match=r"cannot read .*c\.zarr"):
            open_dataset(tmp_path / "c.zarr")

    def test_damaged_chunk(self, tmp_path):
        group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
        group.create_array("X", shape=(4, 2), chunks=(4, 2), dtype="f4")[:] = 1.0
        X = open_dataset(tmp_path / "a.zarr").train.X
        (tmp_path / "a.zarr" / "X" / "c" / "0" / "0").write_bytes(b"broken")
        with pytest.raises((DataError, RuntimeError), match=r"."):
            X.compute()


class TestParquet:
    @pytest.fixture
    def write(self, tmp_path):
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")

        def table(columns):
            parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
            return tmp_path / "a.parquet"

        return table

    def test_label_by_name_and_missing_numbers(self, write):
        path = write({"kind": ["a", "b"], "u": [1, None], "v": [True, False]})
        table = open_dataset(path, label_column="kind").train
        assert table.y.tolist() == ["a", "b"]
        np.testing.assert_array_equal(table.X.compute(), [[1, 1], [np.nan, 0]])

    def test_wrong_columns(self, write):
        path = write({"kind": ["a", "b"], "u": [1, 2]})
        with pytest.raises(DataError, match=r"'kind' of .*a\.parquet holds string"):
            open_dataset(path)
        with pytest.raises(DataError, match="no label column 'z'; its columns: kind, u"):
            open_dataset(path, label_column="z")
        with pytest.raises(DataError, match="has no rows"):
            open_dataset(write({"u": np.ones(0), "v": np.ones(0)}))

    def test_without_pyarrow(self, text, monkeypatch):
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
        with pytest.raises(DataError, match=r'pip install "sparsegp\[parquet\]"'):
            open_dataset(text("PAR1", "a.parquet"))
