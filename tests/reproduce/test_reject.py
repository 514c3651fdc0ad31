"""Error-reject curves."""

import csv
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sparsegp.report import rejecting
from sparsegp.reproduce import read_pipeline, reproduce
from sparsegp.reproduce.judge import Rows
from sparsegp.reproduce.kinds.reject import ERROR, INFORMATION, curves_of

TEXT = """
title = "Rejects"
kind = "reject"
seeds = [0, 1]
[data]
name = "toy"
n_train = 60
n_test = 50
[train]
method = "laplace"
likelihood = "softmax"
kernel = "10*ard(0.5, 0.5, 9, 9, 9, 9, 9, 9, 9, 9)"
scaling = "none"
[[variants]]
name = "laplace"
[[variants]]
name = "near"
model = "probabilistic-neighbour"
[[variants]]
name = "five"
model = "neighbours"
neighbours = 5
"""


def test_means_of_the_rows_kept_by_brute_force() -> None:
    rng = np.random.default_rng(3)
    certainty, values = rng.integers(0, 12, size=40) / 12, rng.normal(size=40)
    rejected, means = rejecting(certainty, values)
    bars = np.unique(certainty)
    assert_allclose(rejected, [np.mean(certainty < bar) for bar in bars])
    assert_allclose(means, [values[certainty >= bar].mean() for bar in bars])


def test_curves_figures_and_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path, out = tmp_path / "rejects.toml", tmp_path / "out"
    path.write_text(TEXT)
    outcome = reproduce(path, out=out)
    rows = {(row.variant, row.what): row for row in outcome.rows}
    assert (out / "reject.png").stat().st_size > 10_000
    with (out / "reject.csv").open() as file:
        points = list(csv.DictReader(file))
    curves = {
        (variant, what): np.array(
            [
                (float(point["rejected"]), float(point["mean"]))
                for point in points
                if (point["variant"], point["what"]) == (variant, what)
            ]
        )
        for variant in ("laplace", "near", "five")
        for what in (ERROR, INFORMATION)
    }
    for variant in ("laplace", "near"):
        for what, total in ((ERROR, "test error %"), (INFORMATION, "test information bits")):
            curve = curves[variant, what]
            assert curve[0, 0] == 0
            assert curve[0, 1] == pytest.approx(rows[variant, total].ours, abs=0.02)
            assert (1 - curve[-1, 0]) * 100 > 19  # rows of both seeds
    least = rows["laplace", "test error %, with 10 % rejected"]
    assert least.ours < rows["laplace", "test error %"].ours
    assert len(curves["near", ERROR]) > 30  # by the distance, not by the one probability
    assert curves["five", ERROR].tolist() == [[0.0, rows["five", "test error %"].ours]]
    assert not len(curves["five", INFORMATION])
    assert rows["five", "test information bits, with 10 % rejected"].ours is None


def test_figures_after_rejection() -> None:
    rows = Rows(np.arange(10.0), np.arange(10) != 0, np.arange(10.0))
    kind = read_kind()
    result = {"rows": rows.to_json()}
    assert kind.figure(result, "test error %, with 10 % rejected", 0) == 0.0
    assert kind.figure(result, "test error %, with 5 % rejected", 0) == pytest.approx(10.0)
    assert kind.figure(result, "test information bits, with 20 % rejected", 0) == 5.5
    both = curves_of([result, result])
    assert_allclose(both[ERROR][0], np.arange(10) / 10)


def read_kind():  # type: ignore[no-untyped-def]
    from sparsegp.reproduce.kinds import KINDS  # noqa: PLC0415

    return KINDS["reject"]


def test_shipped_pipeline(shipped: list[Path]) -> None:
    path = next(path for path in shipped if path.stem == "figure310")
    pipeline = read_pipeline(path)
    assert {cell.options.get("model") for cell in pipeline.cells} == {
        None,
        "tuned-logistic",
        "tuned-svc",
        "probabilistic-neighbour",
    }
    assert len({cell.source for cell in pipeline.cells}) == 1
