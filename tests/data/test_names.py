"""Columns are told by their names where they have any: reordered, or refused where some miss."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import sparsegp
from sparsegp.cli.program import program
from sparsegp.data import open_dataset
from sparsegp.errors import DataError

pandas = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 60)
    X = rng.standard_normal((60, 2)) + [[0.0, 3.0]] * y[:, np.newaxis] + [[0.0, 100.0]]
    return pandas.DataFrame({"age": X[:, 0], "income": X[:, 1], "label": y})


def test_data_frames(frame, tmp_path):
    X, turned = frame[["age", "income"]], frame[["income", "age"]]
    model = sparsegp.train(X, frame["label"], n_active=10, out=tmp_path / "run")
    expected = model.predict_proba(X)
    for one in (model, sparsegp.load(tmp_path / "run")):
        assert one.names == ("age", "income")
        for rows in (turned, turned.assign(other=1.0), X.to_numpy()):
            np.testing.assert_array_equal(one.predict_proba(rows), expected)
        with pytest.raises(DataError, match=r"X must have .* missing: income; found: age, size"):
            one.predict_proba(X.rename(columns={"income": "size"}))
    assert sparsegp.train(X.to_numpy(), frame["label"], n_active=10).names is None


def test_tables(tmp_path):
    (tmp_path / "a.csv").write_text("width,height,kind\n1,2,0\n3,4,1\n")
    table = open_dataset(tmp_path / "a.csv").train
    assert table.names == ("width", "height")
    assert open_dataset(tmp_path / "a.csv", n_features=3).train.names == ("width", "height", "kind")
    assert table.select(("height", "width")).X.compute().tolist() == [[2, 1], [4, 3]]
    with pytest.raises(DataError, match="missing: depth"):
        table.select(("height", "depth"))
    (tmp_path / "a.csv").write_text("1,2,0\n3,4,1\n")
    assert open_dataset(tmp_path / "a.csv").train.select(("height", "width")).names is None


def test_files(frame, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    columns = {"train": ["age", "income", "label"], "turned": ["income", "age", "label"]}
    for name, order in columns.items():
        frame[order].to_csv(f"{name}.csv", index=False)
    frame[["income", "age"]].to_csv("rows.csv", index=False)
    frame.rename(columns={"age": "x"}).to_csv("other.csv", index=False)

    def run(*words):
        done = CliRunner().invoke(program, [str(word) for word in words])
        return done.exit_code, done.stdout if "--json" in words else done.output

    code, text = run("train", "train.csv", "--test", "turned.csv", "--n-active", 10, "--out", "r")
    assert code == 0, text
    assert "age, income" in text  # what was taken for a header is said
    found = [json.loads(run("evaluate", "r", f"{each}.csv", "--json")[1]) for each in columns]
    assert found[0]["nlpp"] == found[1]["nlpp"]
    assert json.loads(run("inspect", "r", "--json")[1])["names"] == ["age", "income"]
    assert run("predict", "r", "rows.csv", "--out", "p.csv")[0] == 0
    assert run("predict", "r", "train.csv", "--out", "q.csv")[0] == 0
    p, q = (pandas.read_csv(f"{name}.csv")["p_1"] for name in "pq")
    np.testing.assert_array_equal(p, q)
    code, text = run("predict", "r", "other.csv", "--out", "s.csv")
    assert code == 2
    assert "missing: age" in text
