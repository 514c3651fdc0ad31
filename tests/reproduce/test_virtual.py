"""Pipelines that select twice, and the error of all c-against-rest models together."""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparsegp
from sparsegp.errors import SettingsError
from sparsegp.reproduce import read_pipeline, reproduce
from sparsegp.reproduce.kinds.virtual import overall

PIPELINE = """
kind = "virtual"
title = "three"
seeds = [{seeds}]
[data]
view = "against-rest"
origin = "here"
[[data.files]]
train = "three.npz"
[train]
likelihood = "probit"
learn = "evidence"
major_steps = 1
minor_steps = 2
calibration = "none"
[[variants]]
name = "shifted"
n_active = 40
first_n_active = 15
image = [3, 4]
[report]
what = ["test error %", "overall error %", "overall error %, without copies", "overall NLPP"]
[[published]]
variant = "shifted"
what = "test error %, class 1"
value = 0.5
where = "table 4, 1"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with 3x4 images of three classes."""
    rng = np.random.default_rng(7)
    y = rng.integers(0, 3, size=330)
    X = 0.7 * rng.standard_normal((330, 3, 4))
    X[np.arange(330), y, :] += 1.0
    X = X.reshape(330, 12)
    named = {"X_train": X[:250], "y_train": y[:250], "X_test": X[250:], "y_test": y[250:]}
    np.savez(tmp_path / "three.npz", **named)
    return tmp_path


def written(folder: Path, seeds: str = "0, 1, 2") -> Path:
    path = folder / "three.toml"
    path.write_text(PIPELINE.format(seeds=seeds))
    return path


def test_cells_are_two_runs_and_their_models_are_combined(folder: Path) -> None:
    outcome = reproduce(written(folder), data=folder, out=folder / "out")
    rows = {row.what: row for row in outcome.rows}
    arrays = np.load(folder / "three.npz")
    settings: dict[str, Any] = {"likelihood": "probit", "learn": "evidence", "calibration": "none"}
    wrong, p = [], []
    for number in range(3):
        y = (arrays["y_train"] == number).astype(int)
        steps = {"major_steps": 1, "minor_steps": 2, "n_active": 15, "seed": number}
        first = sparsegp.train(arrays["X_train"], y, **settings, **steps)
        table = sparsegp.virtual_rows(first, (arrays["X_train"], y), "shift", image=(3, 4))
        model = sparsegp.train(table, **sparsegp.same_settings(first, n_active=40))
        p.append(model.predict_proba(arrays["X_test"])[:, 1])
        wrong.append(100.0 * np.mean((p[-1] > 0.5) != (arrays["y_test"] == number)))
    assert rows["test error %"].values == pytest.approx(wrong)
    assert rows["test error %, class 1"].values == pytest.approx([wrong[1]])
    assert rows["test error %, class 1"].published is not None
    chosen = np.argmax(p, axis=0)
    assert rows["overall error %"].values == pytest.approx(
        [100.0 * np.mean(chosen != arrays["y_test"])]
    )
    own = np.array(p)[arrays["y_test"], np.arange(80)] / np.sum(p, axis=0)
    assert rows["overall NLPP"].values == pytest.approx([-np.mean(np.log(own))])
    assert len(rows["overall error %, without copies"].values) == 1
    cell = json.loads((folder / "out/cells/shifted-2.json").read_text())["result"]
    assert (cell["number"], cell["n_train"], cell["n_enlarged"]) == (2, 250, 250 + 4 * 15)
    assert not (folder / "out/runs").exists()


def test_no_overall_figure_without_all_classes(folder: Path) -> None:
    outcome = reproduce(written(folder, "0, 2"), data=folder, out=folder / "two")
    rows = {row.what: row for row in outcome.rows}
    assert len(rows["test error %"].values) == 2
    assert rows["overall error %"].values == ()
    assert rows["test error %, class 1"].values == ()
    one = reproduce(written(folder), data=folder, out=folder / "some", cells="shifted-1")
    rows = {row.what: row for row in one.rows}
    assert len(rows["test error %, class 1"].values) == 1
    assert rows["overall error %"].values == ()


def test_overall_figures_need_one_class_for_every_row() -> None:
    def figures(p: list[float], own: list[int]) -> dict[str, str]:
        return {
            "log_p": base64.b64encode(np.log(p).tobytes()).decode(),
            "own": base64.b64encode(np.packbits(own).tobytes()).decode(),
        }

    one, two = figures([0.9, 0.3, 0.2], [1, 1, 0]), figures([0.1, 0.6, 0.2], [0, 0, 1])
    found = overall([one, two])
    assert found is not None
    assert found["error"] == pytest.approx(2 / 3)  # the third is a tie, and goes to the first
    assert found["nlpp"] == pytest.approx(-np.mean(np.log([0.9, 1 / 3, 0.5])))
    assert overall([one, one]) is None
    assert overall([one]) is None
    assert overall([one, figures([0.1, 0.6], [0, 1])]) is None
    assert overall([one, {"error": 0.1}]) is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("first_n_active = 15", "", "first_n_active is missing; it is a whole number"),
        ("[3, 4]", "[3]", r"image must be height and width, got \[3\]"),
        ("class 1", "class 10", "what is 'test error %, class 10'; known: test error %, "),
    ],
)
def test_what_is_wrong_in_the_file_is_said(folder: Path, old: str, new: str, message: str) -> None:
    path = written(folder)
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(SettingsError, match=message):
        read_pipeline(path)
