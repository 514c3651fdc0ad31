"""Pipelines that compare dense methods with the kernel that one of them has learnt."""

import json
from pathlib import Path

import pytest

from sparsegp.data import table_from_arrays, toy
from sparsegp.errors import SettingsError
from sparsegp.reproduce import read_pipeline, reproduce
from sparsegp.training import train

PIPELINE = """
title = "Small"
paper = "Nobody (1900)"
kind = "same-kernel"
seeds = [3]
[data]
name = "toy"
n_train = 40
n_test = 30
[train]
kernel = "ard"
scaling = "standard"
[[variants]]
name = "laplace"
method = "laplace"
likelihood = "softmax"
kernel_method = "variational(importance=8, rounds=2)"
[[variants]]
name = "variational"
method = "variational"
kernel_method = "variational(importance=8, rounds=2)"
[report]
what = ["log evidence", "test error %", "test log likelihood, all rows"]
[[goals]]
variant = "laplace"
what = "test error %"
near = 50
within = 50
[[goals]]
variant = "variational"
what = "test error %"
near = 500
within = 50
"""


def test_all_methods_have_the_kernel_that_was_learnt(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(PIPELINE)
    outcome = reproduce(path, out=tmp_path / "out")
    assert len(outcome.run) == 2
    stored = [tmp_path / f"out/cells/{name}-3.json" for name in ("laplace", "variational")]
    laplace, variational = (json.loads(file.read_text())["result"] for file in stored)
    learnt = train(
        table_from_arrays(*toy(40, 6), "toy"),
        method="variational(importance=8, rounds=2)",
        kernel="ard",
        scaling="standard",
        seed=3,
    )
    assert laplace["kernels"] == variational["kernels"] == [str(learnt.kernels[0])]
    assert variational["model"]["log_evidence"] == pytest.approx(
        learnt.report["log_evidence"], abs=1e-5
    )
    assert laplace["model"]["nlpp"] != variational["model"]["nlpp"]
    assert len(list((tmp_path / "out/runs").glob("kernel-*"))) == 1  # learnt once
    lines = [line.split() for line in outcome.lines() if "all rows" in line]
    assert float(lines[-1][-1]) == pytest.approx(-30 * variational["model"]["nlpp"], rel=1e-2)
    aims = [row for row in outcome.rows if row.goal is not None]
    assert [row.goal_met for row in aims] == [True, False]
    assert aims[0].to_json()["goal_within"] == 50.0
    assert any(line.endswith("50 +- 50, met") for line in outcome.lines())
    assert any(line.endswith("500 +- 50, missed") for line in outcome.lines())


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("importance=8", "imports=8", "kernel_method is .* has no option imports"),
        ('method = "laplace"\nlikelihood = "softmax"', "n_active = 10", "compares dense methods"),
        ("within = 50", "within = -1", r"goals\[0\].within must not be negative, got -1"),
        ("within = 50", "", r"goals\[0\].within is missing"),
    ],
)
def test_what_does_not_fit_is_refused(old: str, new: str, match: str, tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(PIPELINE.replace(old, new).replace('"standard"', '"none"'))
    with pytest.raises(SettingsError, match=match):
        reproduce(path, out=tmp_path / "out")


def test_the_published_table_reads() -> None:
    folder = Path(__file__).parents[2] / "pipelines" / "girolami-rogers-2006"
    table = read_pipeline(folder / "table1.toml")
    assert len(table.cells) == 50 * 15
    assert len(table.goals) == 30
    assert len(read_pipeline(folder / "figure2.toml").cells) == 20
    assert len(read_pipeline(folder / "table2.toml").cells) == 20 * 15
