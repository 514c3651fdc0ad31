import gzip

import numpy as np
import pytest

from sparsegp.errors import DataError, SparseGPError
from sparsegp.reproduce import read_pipeline, reproduce
from sparsegp.reproduce.sources import Files, FileSet, data_folder

PIPELINE = """
title = "Files"
[data]
origin = "the moon"
[[data.files]]
train = "a.data.gz"
test = "b.data.gz"
[[data.files]]
train = "c.npz"
[train]
n_active = 10
kernel = "rbf(1)"
[[variants]]
name = "v"
"""


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    return X, (X[:, 0] > 0).astype(int)


@pytest.fixture
def pipeline(tmp_path):
    path = tmp_path / "files.toml"
    path.write_text(PIPELINE)
    return path


def write_text(path, X, y):
    lines = [
        ", ".join([*map(repr, map(float, x)), f"{label}."]) for x, label in zip(X, y, strict=True)
    ]
    text = "\n".join(lines) + "\n"
    if path.suffix == ".gz":
        with gzip.open(path, "wt") as file:
            file.write(text)
    else:
        path.write_text(text)


def test_shipped_pipelines_say_which_files_they_need(shipped, tmp_path):
    for path in shipped:
        for cell in read_pipeline(path).cells[:1]:
            source = cell.source
            if not isinstance(source, Files):
                continue
            with pytest.raises(SparseGPError) as caught:
                reproduce(path, out=tmp_path / path.stem)
            assert str(caught.value).startswith(f"{path.name} needs ")
            for files in source.sets:
                assert " and ".join(files.names) in str(caught.value)
            assert f"from {source.origin}; put them into one folder" in str(caught.value)
            assert "--data DIR or SPARSEGP_DATA" in str(caught.value)


def test_isolet_names_the_files_of_uci(shipped, tmp_path):
    path = next(path for path in shipped if path.stem == "isolet")
    with pytest.raises(DataError, match=r"isolet1\+2\+3\+4.data.gz and isolet5.data.gz.*UCI"):
        reproduce(path, data=tmp_path, out=tmp_path / "out")


@pytest.mark.parametrize("folder", [".", "raw"])
@pytest.mark.parametrize("ending", ["data.gz", "data"])
def test_text_files_in_the_folder_or_its_raw(pipeline, rows, tmp_path, folder, ending):
    (tmp_path / folder).mkdir(exist_ok=True)
    write_text(tmp_path / folder / f"a.{ending}", *rows)
    write_text(tmp_path / folder / f"b.{ending}", rows[0][:20], rows[1][:20])
    outcome = reproduce(pipeline, data=tmp_path, out=tmp_path / "out")
    assert outcome.run == ["v-0"]
    source = outcome.pipeline.cells[0].source
    dataset = source.load(tmp_path, None)
    assert (dataset.train.X.shape, dataset.test.X.shape) == ((60, 3), (20, 3))
    assert set(source.digests(tmp_path)) == {f"a.{ending}", f"b.{ending}"}


def test_second_form_and_environment_variable(pipeline, rows, tmp_path, monkeypatch):
    X, y = rows
    np.savez(tmp_path / "c.npz", X_train=X, y_train=y, X_test=X[:9], y_test=y[:9])
    monkeypatch.setenv("SPARSEGP_DATA", str(tmp_path))
    assert data_folder(None) == tmp_path
    dataset = read_pipeline(pipeline).cells[0].source.load(data_folder(None), None)
    assert dataset.test.X.shape == (9, 3)


def test_test_rows_are_needed(pipeline, rows, tmp_path):
    np.savez(tmp_path / "c.npz", X=rows[0], y=rows[1])
    with pytest.raises(DataError, match=r"c.npz \(X\) has no test rows; a pipeline needs them"):
        reproduce(pipeline, data=tmp_path, out=tmp_path / "out")


def test_folder_that_is_none_or_empty(pipeline, tmp_path):
    with pytest.raises(DataError, match=r"files.toml needs .*; .*nowhere, named by --data or"):
        reproduce(pipeline, data=tmp_path / "nowhere", out=tmp_path / "out")
    with pytest.raises(DataError, match=r"c.npz, from the moon; they are neither in .* nor in "):
        reproduce(pipeline, data=tmp_path, out=tmp_path / "out")


def test_changed_files_are_noticed_and_missing_ones_are_not_needed(pipeline, rows, tmp_path):
    X, y = rows
    data = tmp_path / "c.npz"
    np.savez(data, X_train=X, y_train=y, X_test=X, y_test=y)
    first = reproduce(pipeline, data=tmp_path, out=tmp_path / "out")
    assert first.run == ["v-0"]
    assert reproduce(pipeline, data=tmp_path, out=tmp_path / "out").run == []
    np.savez(data, X_train=X + 1, y_train=y, X_test=X, y_test=y)
    assert reproduce(pipeline, data=tmp_path, out=tmp_path / "out").run == ["v-0"]
    data.unlink()
    again = reproduce(pipeline, out=tmp_path / "out")
    assert (again.run, again.finished) == ([], ["v-0"])


def test_files_beside_must_be_there(tmp_path):
    (tmp_path / "images").write_text("x")
    files = FileSet("images", beside=("labels",))
    assert files.find(tmp_path) is None
    (tmp_path / "labels.gz").write_text("x")
    assert files.find(tmp_path) == {
        "images": tmp_path / "images",
        "labels": tmp_path / "labels.gz",
    }
