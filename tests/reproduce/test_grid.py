"""Pipelines that look at a method over a grid of kernels."""

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sparsegp.dense import Alone, Laplace, Mixture, Problem
from sparsegp.errors import Interrupted, SettingsError
from sparsegp.interrupt import StopRequest
from sparsegp.kernels import RBF
from sparsegp.likelihoods import Softmax
from sparsegp.report import NullProgress
from sparsegp.reproduce import read_pipeline, reproduce
from sparsegp.reproduce.kinds import Bench

TEXT = """
title = "grid"
kind = "grid"
[data]
name = "toy"
n_train = 45
n_test = 60
[train]
scaling = "none"
[[variants]]
name = "all"
method = "laplace"
log_length_scale = [0, 1.0, 2]
log_deviation = [-1.0, 3.0, 3]
[[published]]
variant = "all"
what = "highest log evidence"
value = -40
where = "nowhere"
"""


def write(folder: Path, *changes: tuple[str, str]) -> Path:
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "grid.toml"
    path.write_text(text)
    return path


def test_points_figures_and_pictures(tmp_path: Path) -> None:
    path = write(tmp_path)
    outcome = reproduce(path, out=tmp_path / "out")
    with (tmp_path / "out" / "grid-all-0.csv").open() as file:
        points = [{k: float(v) for k, v in row.items()} for row in csv.DictReader(file)]
    dataset = read_pipeline(path).cells[0].source.load(None, 0)
    assert dataset.test is not None
    x, new = np.asarray(dataset.train.X, np.float64), np.asarray(dataset.test.X, np.float64)
    y, y_new = np.asarray(dataset.train.y), np.asarray(dataset.test.y)
    classes, target = np.unique(y, return_inverse=True)
    expected = []
    for log_l in (0.0, 1.0):
        for log_s in (-1.0, 1.0, 3.0):
            kernel = math.exp(2 * log_s) * RBF(math.exp(log_l))
            fit = Laplace().fit(Problem(x, target, [kernel], Softmax(), 3), Alone())
            log_p = Mixture(fit.components, x).log_probabilities(new, 3)
            codes = np.searchsorted(classes, y_new)
            share = np.bincount(target) / len(target)
            told = np.log2(np.e) * log_p[np.arange(60), codes].mean()
            expected.append(
                {
                    "log_length_scale": log_l,
                    "log_deviation": log_s,
                    "log_evidence": fit.log_evidence,
                    "error": np.mean(log_p.argmax(axis=1) != codes),
                    "information": told - np.log2(share[codes]).mean(),
                }
            )
    for point, wanted in zip(points, expected, strict=True):
        assert point == pytest.approx(wanted, abs=1e-6)
    best = max(points, key=lambda point: point["log_evidence"])
    ours = {row.what: row.ours for row in outcome.rows}
    assert ours["highest log evidence"] == pytest.approx(best["log_evidence"])
    assert ours["log deviation there"] == best["log_deviation"]
    assert ours["test error % there"] == pytest.approx(100 * best["error"])
    least = min(point["error"] for point in points)
    assert ours["least test error %"] == pytest.approx(100 * least)
    assert (tmp_path / "out" / "grid-all-0.png").stat().st_size > 10_000
    assert not reproduce(path, out=tmp_path / "out").run


def test_an_interrupted_cell_goes_on(
    tmp_path: Path, stop_after: Callable[[int], StopRequest]
) -> None:
    pipeline = read_pipeline(write(tmp_path))
    cell = pipeline.cells[0]

    def bench(looks: int, folder: str) -> Bench:
        runs = tmp_path / folder
        return Bench(pipeline.path, None, runs, NullProgress(), stop_after(looks), 0)

    whole = pipeline.kind.run(cell, bench(10**9, "whole"))
    with pytest.raises(Interrupted):
        pipeline.kind.run(cell, bench(2, "parts"))
    kept = json.loads((tmp_path / "parts" / cell.run_name / "points.json").read_text())
    known = [index for index, point in enumerate(kept) if point is not None]
    assert 0 < len(known) < len(kept) == 6
    assert all(kept[index] == whole["points"][index] for index in known)
    assert pipeline.kind.run(cell, bench(10**9, "parts")) == whole


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("[0, 1.0, 2]", "[0, 1.0]"), "log_length_scale must be the least value, the greatest"),
        (
            ("[0, 1.0, 2]", "[0, 1.0, 2.0]"),
            "log_length_scale must be the least value, the greatest",
        ),
        (("[0, 1.0, 2]", "[1.0, 0, 2]"), "log_length_scale must be two values or more, rising"),
        (("[-1.0, 3.0, 3]", '"wide"'), "log_deviation must be a list"),
        (('"laplace"', '"gibbs"'), "must have a method with a log evidence, all has not"),
        (('name = "all"', 'name = "all"\nkernel = "rbf"'), "kernel is not known"),
    ],
)
def test_refusals(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        read_pipeline(write(tmp_path, change))
