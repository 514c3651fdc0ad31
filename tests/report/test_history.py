"""Learning curves are written exactly."""

import csv

import pytest

from sparsegp.errors import StoreError
from sparsegp.report import write_history

RECORDS = [
    {"n_active": 50, "seconds": 1.5, "train_error": 0.1},
    {"n_active": 100, "heldout_error": 1 / 3, "seconds": 2.5},
    {"n_active": 150, "heldout_error": 0.25},
]


def test_table(tmp_path):
    path = tmp_path / "history.csv"
    path.write_text("old")
    write_history(RECORDS, path)
    with path.open(newline="") as file:
        found = list(csv.DictReader(file))
    assert list(found[0]) == ["n_active", "seconds", "train_error", "heldout_error"]
    known = [{name: float(text) for name, text in row.items() if text} for row in found]
    assert known == RECORDS
    assert list(tmp_path.iterdir()) == [path]
    write_history([], path)
    assert path.read_text().strip() == ""


def test_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="is not a directory"):
        write_history(RECORDS, tmp_path / "file" / "history.csv")
