"""Pictures are written, and show what they are to show."""

import sys

import numpy as np
import pytest
from matplotlib.image import imread

from sparsegp.errors import SettingsError, StoreError
from sparsegp.report import evaluate, evaluation_pictures
from tests.report.test_metrics import random_case


def evaluation(n_classes, names=None):
    return evaluate(*random_case(n_classes), np.array(names or np.arange(n_classes)))


@pytest.mark.parametrize(("n_classes", "names"), [(2, ["$ a\x1b", "b_c$"]), (60, None)], ids=str)
def test_pictures(n_classes, names, tmp_path):
    found, relevances = evaluation(n_classes, names), {"a$": 0.6, "b": 0.4}
    paths = evaluation_pictures(found, tmp_path / "a" / "b", relevances, title="of the data")
    expected = "reliability.png error-reject.png confusion.png relevances.png"
    assert [path.name for path in paths] == expected.split()
    for path in paths:
        assert imread(path).std() > 0.01
        assert path.stat().st_size > 5000
        assert "of the data" in path.with_suffix(".svg").read_text()


def test_few_rows_and_unseen_labels(tmp_path):
    found = evaluate(np.log([[0.9, 0.1], [0.2, 0.8]]), np.array([-1, -1]), np.arange(2))
    assert len(evaluation_pictures(found, tmp_path)) == 3


def test_places_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot write .*reliability\.png"):
        evaluation_pictures(evaluation(3), tmp_path / "file")


def test_without_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(SettingsError, match="`pip install matplotlib`"):
        evaluation_pictures(evaluation(3), tmp_path / "new")
    assert not (tmp_path / "new").exists()
