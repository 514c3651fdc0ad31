"""Log evidences beside annealed importance sampling over a grid."""

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from sparsegp.dense import EP, Alone, Laplace, Problem
from sparsegp.errors import Interrupted, SettingsError
from sparsegp.interrupt import StopRequest
from sparsegp.kernels import RBF
from sparsegp.likelihoods import Probit
from sparsegp.report import NullProgress
from sparsegp.reproduce import read_pipeline, reproduce
from sparsegp.reproduce.kinds import Bench

TEXT = """
title = "annealed"
kind = "annealed"
[data]
origin = "nowhere"
[[data.files]]
train = "few.npz"
[train]
likelihood = "probit"
scaling = "none"
[[variants]]
name = "ep"
method = "ep"
runs = 40
temperatures = 10
log_length_scale = [-0.5, 0.5, 2]
log_deviation = [0.0, 1.0, 2]
"""
X = np.array([[-1.0], [-0.2], [0.3], [1.1]])
Y = np.array([0, 0, 1, 1])


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """A function that writes the pipeline with replacements and returns its path."""
    np.savez(tmp_path / "few.npz", X_train=X, y_train=Y, X_test=X, y_test=Y)

    def write(*changes: tuple[str, str]) -> Path:
        text = TEXT
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "annealed.toml"
        path.write_text(text)
        return path

    return write


def exact(log_l: float, log_s: float) -> float:
    """The probability of an orthant: a probit is the sign of the latent value with unit noise."""
    sign = 2.0 * Y - 1.0
    covariance = math.exp(2 * log_s) * RBF(math.exp(log_l))(X, X) + np.eye(4)
    normal = multivariate_normal(np.zeros(4), covariance * np.outer(sign, sign))
    return math.log(normal.cdf(np.zeros(4)))


def test_points_figures_and_picture(written: Callable[..., Path], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    outcome = reproduce(written(), data=tmp_path, out=tmp_path / "out")
    with (tmp_path / "out" / "annealed-ep-0.csv").open() as file:
        points = [{k: float(v) for k, v in row.items()} for row in csv.DictReader(file)]
    places = [(point["log_length_scale"], point["log_deviation"]) for point in points]
    assert places == [(-0.5, 0.0), (-0.5, 1.0), (0.5, 0.0), (0.5, 1.0)]
    for point, (log_l, log_s) in zip(points, places, strict=True):
        kernel = math.exp(2 * log_s) * RBF(math.exp(log_l))
        problem = Problem(X, Y, [kernel], Probit(), 1)
        assert point["method"] == pytest.approx(EP().fit(problem, Alone()).log_evidence)
        assert point["other method"] == pytest.approx(Laplace().fit(problem, Alone()).log_evidence)
        assert 0 < point["standard_error"] < 0.1
        assert abs(point["annealed"] - exact(log_l, log_s)) < 4 * point["standard_error"] + 1e-3
    ours = {row.what: row.ours for row in outcome.rows}
    best = max(points, key=lambda point: point["annealed"])
    assert ours["highest log marginal likelihood"] == pytest.approx(best["annealed"])
    assert ours["log deviation there"] == best["log_deviation"]
    away = np.array([point["other method"] - point["annealed"] for point in points])
    assert ours["other method less annealed, root mean square"] == pytest.approx(
        np.sqrt(np.mean(away**2))
    )
    assert ours["greatest standard error"] == max(point["standard_error"] for point in points)
    assert (tmp_path / "out" / "annealed-ep-0.png").stat().st_size > 10_000
    assert not reproduce(written(), data=tmp_path, out=tmp_path / "out").run


def test_an_interrupted_cell_goes_on(
    written: Callable[..., Path], tmp_path: Path, stop_after: Callable[[int], StopRequest]
) -> None:
    pipeline = read_pipeline(written())
    cell = pipeline.cells[0]

    def bench(looks: int, folder: str) -> Bench:
        runs = tmp_path / folder
        return Bench(pipeline.path, tmp_path, runs, NullProgress(), stop_after(looks), 0)

    whole = pipeline.kind.run(cell, bench(10**9, "whole"))
    with pytest.raises(Interrupted):
        pipeline.kind.run(cell, bench(2, "parts"))
    kept = json.loads((tmp_path / "parts" / cell.run_name / "points.json").read_text())
    known = [index for index, point in enumerate(kept) if point is not None]
    assert 0 < len(known) < len(kept) == 4
    assert all(kept[index] == whole["points"][index] for index in known)
    assert pipeline.kind.run(cell, bench(10**9, "parts")) == whole


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("runs = 40", "runs = 1"), "runs must be at least 2, got 1"),
        (("temperatures = 10", 'compared = "gibbs"'), "cannot be: it has no log evidence"),
        (("temperatures = 10", 'compared = "x"'), "cannot be: "),
        (('method = "ep"', 'method = "gibbs"'), "must have a method with a log evidence"),
    ],
)
def test_refusals(written: Callable[..., Path], change: tuple[str, str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        read_pipeline(written(change))
