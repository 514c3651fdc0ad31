"""Pipelines that compare how predictions respond to the kernel's parameters."""

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from sparsegp.errors import SettingsError
from sparsegp.reproduce import read_pipeline, reproduce
from sparsegp.training import train

TEXT = """
title = "response"
kind = "response"
[data]
name = "toy"
n_train = 30
n_test = 40
[train]
scaling = "none"
[[variants]]
name = "gibbs"
method = "gibbs(chains=1, burn_in=20, samples=20, thin=1, particles=0)"
columns = [0, 1]
log_length_scale = [-1.0, 1.0, 2]
log_deviation = [0.0, 2.0, 2]
[[variants]]
name = "variational"
method = "variational"
columns = [0, 1]
log_length_scale = [-1.0, 1.0, 2]
log_deviation = [0.0, 2.0, 2]
reference = "gibbs"
"""


def write(folder: Path, *changes: tuple[str, str]) -> Path:
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "response.toml"
    path.write_text(text)
    return path


def test_differences_from_the_reference(tmp_path: Path) -> None:
    path = write(tmp_path)
    outcome = reproduce(path, out=tmp_path / "out")
    points = {}
    for name in ("gibbs", "variational"):
        with (tmp_path / f"out/grid-{name}-0.csv").open() as file:
            points[name] = [{k: float(v) for k, v in row.items()} for row in csv.DictReader(file)]
    assert "log_evidence" in points["variational"][0]
    assert "log_evidence" not in points["gibbs"][0]
    told = {name: np.array([p["information"] for p in some]) for name, some in points.items()}
    away = told["variational"] - told["gibbs"]
    ours = {row.what: row.ours for row in outcome.rows if row.variant == "variational"}
    rms = "test information bits less the reference's, root mean square"
    assert ours[rms] == pytest.approx(np.sqrt(np.mean(away**2)))
    assert ours[rms.replace("root mean square", "least")] == pytest.approx(away.min())
    best = points["variational"][int(told["variational"].argmax())]
    assert ours["log length scale there"] == best["log_length_scale"]
    assert {row.ours for row in outcome.rows if row.variant == "gibbs" and row.what == rms} == {
        None
    }

    dataset = read_pipeline(path).cells[0].source.load(None, 0)
    assert dataset.test is not None
    X, new = np.asarray(dataset.train.X), np.asarray(dataset.test.X)
    kernel = f"{math.exp(4.0)!r}*rbf({math.exp(-1.0)!r})"
    model = train(X[:, :2], dataset.train.y, method="variational", kernel=kernel, scaling="none")
    wrong = model.predict(new[:, :2]) != np.asarray(dataset.test.y)
    (found,) = [
        p for p in points["variational"] if (p["log_length_scale"], p["log_deviation"]) == (-1, 2)
    ]
    assert found["error"] == pytest.approx(wrong.mean())
    assert found["log_evidence"] == pytest.approx(model.report["log_evidence"], abs=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('reference = "gibbs"', 'reference = "x"'), "has 'x' as the reference of variational"),
        (
            ('[0.0, 2.0, 2]\nreference = "gibbs"', '[0.0, 2.0, 3]\nreference = "gibbs"'),
            "the same data and grid",
        ),
        (("columns = [0, 1]", "columns = [-1]"), "columns must be numbers from 0 on, got"),
    ],
)
def test_refusals(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        read_pipeline(write(tmp_path, change))


def test_the_published_figures_read() -> None:
    folder = Path(__file__).parents[2] / "pipelines" / "girolami-rogers-2006"
    for name in ("figure3", "figure4"):
        assert len(read_pipeline(folder / f"{name}.toml").cells) == 3
