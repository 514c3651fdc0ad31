"""Learning curves are written exactly."""

import csv

import pytest

from sparsegp.errors import StoreError
from sparsegp.report import write_history
from sparsegp.report.history import curve

RECORDS = [
    {"n_active": 50, "seconds": 1.5, "train_error": 0.1},
    {"n_active": 100, "heldout_error": 1 / 3, "seconds": 2.5},
    {"n_active": 150, "heldout_error": 0.25},
]


def test_table(tmp_path):
    path = tmp_path / "history.csv"
    path.write_text("old")
    write_history(RECORDS, path)
    assert path.read_bytes().decode() == (
        "n_active,seconds,train_error,heldout_error\n"
        "50,1.5,0.1,\n"
        "100,2.5,,0.3333333333333333\n"
        "150,,,0.25\n"
    )
    with path.open(newline="") as file:
        assert float(list(csv.DictReader(file))[1]["heldout_error"]) == 1 / 3
    assert list(tmp_path.iterdir()) == [path]


def test_nothing(tmp_path):
    write_history([], tmp_path / "history.csv")
    assert (tmp_path / "history.csv").read_text().strip() == ""


def test_curves():
    rows, values = curve(RECORDS, "heldout_error")
    assert (rows.tolist(), values.tolist()) == ([100.0, 150.0], [1 / 3, 0.25])
    assert len(curve(RECORDS, "unknown")[0]) == 0


def test_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="is not a directory"):
        write_history(RECORDS, tmp_path / "file" / "history.csv")
