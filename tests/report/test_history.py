"""Histories keep their records and write them exactly."""

import csv
import math

import numpy as np
import pytest

from sparsegp.errors import DataError, StoreError
from sparsegp.report import History

RECORDS = [
    {"n_active": 50, "seconds": 1.5, "train_error": 0.1},
    {"n_active": 100, "heldout_error": 1 / 3, "seconds": 2.5},
    {"n_active": 150, "train_error": None, "heldout_error": 0.25},
]


def test_columns_in_first_seen_order():
    assert History.from_records(RECORDS).columns == [
        "n_active",
        "seconds",
        "train_error",
        "heldout_error",
    ]


def test_csv(tmp_path):
    path = tmp_path / "history.csv"
    path.write_text("old")
    History.from_records(RECORDS).to_csv(path)
    assert path.read_bytes().decode() == (
        "n_active,seconds,train_error,heldout_error\n"
        "50,1.5,0.1,\n"
        "100,2.5,,0.3333333333333333\n"
        "150,,,0.25\n"
    )
    with path.open(newline="") as file:
        assert float(list(csv.DictReader(file))[1]["heldout_error"]) == 1 / 3
    assert list(tmp_path.iterdir()) == [path]


def test_values_become_plain_numbers(tmp_path):
    history = History()
    history.append(n_active=np.int64(3), error=np.float32(0.5))
    (record,) = history
    assert record == {"n_active": 3, "error": 0.5}
    assert [type(value) for value in record.values()] == [int, float]
    history.to_csv(tmp_path / "history.csv")
    assert (tmp_path / "history.csv").read_text() == "n_active,error\n3,0.5\n"


def test_records_round_trip():
    history = History.from_records(RECORDS)
    assert len(history) == 3
    assert list(History.from_records(history)) == list(history)
    assert history[-1] == {"n_active": 150, "heldout_error": 0.25}
    history[0]["n_active"] = 7
    assert history[0]["n_active"] == 50


def test_columns_and_curves():
    history = History.from_records(RECORDS)
    column = history.column("heldout_error")
    assert math.isnan(column[0])
    assert column[1:].tolist() == [1 / 3, 0.25]
    rows, values = history.curve("heldout_error")
    assert (rows.tolist(), values.tolist()) == ([100.0, 150.0], [1 / 3, 0.25])
    assert len(history.curve("unknown")[0]) == 0


def test_empty_history(tmp_path):
    History().to_csv(tmp_path / "history.csv")
    assert (tmp_path / "history.csv").read_text().strip() == ""


def test_values_that_are_no_numbers():
    with pytest.raises(DataError, match="must be numbers; kernel is 'rbf'"):
        History.from_records([{"kernel": "rbf"}])


def test_place_that_cannot_be_written(tmp_path):
    with pytest.raises(StoreError, match=r"cannot write the history to .*No such file"):
        History.from_records(RECORDS).to_csv(tmp_path / "missing" / "history.csv")
