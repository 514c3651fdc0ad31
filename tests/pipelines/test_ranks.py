"""A comparison over data sets: ranks, wins, ratios, standard errors, and what is not finished."""

import io
import re
from itertools import product

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from pipelines.__main__ import main
from pipelines.data import Data, sample
from pipelines.table import compared, critical_difference, summarise

FEW = """
title = "Few tables"
picture = "ranks"
rivals = ["logistic"]
data.toy = { n_train = 80, n_test = 60, sample = { train_rows = 60 } }
data.iris = { seeds = 2, split = { test_rows = 50 } }
settings.n_active = 15
table.columns = ["test error %", "test NLPP, bounded", "test ECE"]
[methods]
ours = {}
logistic = { estimator = "sklearn.linear_model.LogisticRegression" }
never-run = { estimator = "sklearn.svm.SVC" }
"""


@pytest.mark.slow
def test_tables_beside_rivals(written, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = [str(written(text=FEW)), "--out", "here"]
    shown = CliRunner().invoke(main, [*options, "--cells", "*-[ol]*", "--csv", "csv"]).output
    assert "not finished: never-run (toy, iris)" in shown
    assert "6 of 9 cells finished" in shown
    folder = next((tmp_path / "here").iterdir())
    lines = (tmp_path / "csv" / f"{folder.name}.csv").read_text()
    assert re.search("^# versions: Python .*numpy", lines, re.M)
    assert re.search("^# kernels: .+", lines, re.M)
    assert "# not finished: never-run (toy, iris)\n" in lines
    assert re.search(r"# cost: [\d.e-]+ minutes, the longest cell [\d.e-]+ seconds\n", lines)
    table = pd.read_csv(io.StringIO(lines), comment="#", index_col=[0, 1, 2])
    metrics = ("test error %", "test NLPP, bounded", "test ECE")
    assert set(table.index) == {*product(("toy", "iris"), ("ours", "logistic"), metrics)}
    assert table["seeds"].to_dict() == {at: 1 + (at[0] == "iris") for at in table.index}
    assert (table.xs("test NLPP, bounded", level=2)["standard error"] > 0).all()
    kept = (folder / "cells.jsonl").read_text()
    page = CliRunner().invoke(main, [*options, "--report", "page"])
    assert page.exit_code == 0
    assert (folder / "cells.jsonl").read_text() == kept
    text = (tmp_path / "page" / "index.html").read_text()
    assert "on 2 of 2 data sets" in text
    assert text.count("<img") == 1


def test_summary_of_a_comparison():
    rng = np.random.default_rng(0)
    scores = {}
    for k in range(3):
        base = rng.uniform(1.0, 2.0, 50)
        scores[f"d{k}"] = pd.DataFrame({"a": base, "b": 2 * base, "c": base * (4 if k else 0.5)})
    found = summarise(scores, ["b", "c"])
    assert found["mean rank"].to_dict() == pytest.approx({"a": 4 / 3, "b": 7 / 3, "c": 7 / 3})
    assert found["wins"].to_dict() == {"a": 2, "b": 0, "c": 1}
    assert found["behind best of b, c"].to_dict() == {"a": 1, "b": 1, "c": 2}
    assert found.loc["b", "/ a"] == pytest.approx(2.0)
    assert found.loc["c", "/ a"] == pytest.approx(2.0)  # (.5 * 4 * 4)^(1/3)
    assert found.loc["a", "/ best of b, c"] == pytest.approx(0.5 ** (1 / 3))
    scores["d2"] = scores["d2"][["a"]]
    assert set(compared(scores)) == {"d0", "d1"}


def test_critical_difference_is_that_of_demsar():
    assert critical_difference(4, 14) == pytest.approx(2.569 * np.sqrt(20 / 84), abs=1e-3)


def test_sample_keeps_the_test_rows():
    X = np.arange(20.0)[:, np.newaxis]
    data = Data("t", X, np.arange(20), X[:3], np.arange(3))
    few, fewer = sample(data, 0, train_rows=8), sample(data, 0, train_rows=5)
    assert set(fewer.y_train) < set(few.y_train)
    assert few.X_test is data.X_test
    np.testing.assert_array_equal(few.X_train[:, 0], few.y_train)
    assert len(sample(data, 1, train_rows=100).y_train) == 20
