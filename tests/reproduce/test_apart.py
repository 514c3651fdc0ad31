"""Cells for which one thread is enough, side by side on the runtime in use."""

import json
from pathlib import Path
from typing import Any

import pytest

from sparsegp.errors import Interrupted, SparseGPError
from sparsegp.execution import Runtime, open_runtime
from sparsegp.interrupt import StopRequest
from sparsegp.report import NullProgress
from sparsegp.reproduce import apart, read_pipeline, reproduce
from sparsegp.reproduce.apart import run_apart, tasks_of
from sparsegp.reproduce.kinds import Bench

PIPELINE = """
title = "Small"
kind = "same-kernel"
seeds = [3, 4]
[data]
name = "toy"
n_train = 40
n_test = 30
[train]
kernel = "ard"
scaling = "standard"
[[variants]]
name = "gibbs"
method = "gibbs(chains=2, burn_in=5, samples=10, particles=0)"
kernel_method = "variational(importance=8, rounds=2)"
[[variants]]
name = "variational"
method = "variational"
kernel_method = "variational(importance=8, rounds=2)"
[[variants]]
name = "neighbours"
model = "neighbours"
neighbours = 5
"""
NAMES = [f"{name}-{seed}" for name in ("gibbs", "variational", "neighbours") for seed in (3, 4)]


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(PIPELINE)
    return path


def results(out: Path) -> dict[str, Any]:
    found = {path.stem: json.loads(path.read_text()) for path in (out / "cells").iterdir()}
    for cell in found.values():
        for point in cell["result"]["curve"]:
            point.pop("seconds", None)
    return found


def test_results_are_those_of_one_cell_after_the_other(pipeline: Path, tmp_path: Path) -> None:
    reproduce(pipeline, out=tmp_path / "alone")
    alone = results(tmp_path / "alone")
    assert sorted(alone) == sorted(NAMES)
    for name, where in {"threads": {"threads": 3}, "workers": {"workers": 2}}.items():
        outcome = reproduce(pipeline, out=tmp_path / name, **where)
        assert outcome.run == NAMES
        assert results(tmp_path / name) == alone
        runs = [path.name for path in (tmp_path / name / "runs").iterdir()]
        assert len(runs) == 2, runs  # one kernel for each seed, and nothing else


def test_cells_that_share_a_kernel_are_one_task(pipeline: Path) -> None:
    read = read_pipeline(pipeline)
    names = [[cell.name for cell in task] for task in tasks_of(read.kind, read.cells)]
    together = [["gibbs-3", "variational-3"], ["gibbs-4", "variational-4"]]
    assert names == [*together, ["neighbours-3"], ["neighbours-4"]]


class Stopped(StopRequest):
    """A stop is requested when the test says so."""

    now = False

    @property
    def requested(self) -> str:
        return "SIGTERM" if self.now else ""


@pytest.fixture
def threads() -> Any:
    with open_runtime(threads=2) as runtime:
        yield runtime


def test_a_stop_drops_what_has_not_ended(pipeline: Path, tmp_path: Path, threads: Runtime) -> None:
    read = read_pipeline(pipeline)
    stop = Stopped()
    bench = Bench(pipeline, None, tmp_path / "runs", NullProgress(), stop, 0, runtime=threads)
    tasks = tasks_of(read.kind, read.cells)
    going = run_apart(tasks, bench)
    ended = [next(going)[0].name, next(going)[0].name]
    assert ended in [[cell.name for cell in task] for task in tasks]
    stop.now = True
    with pytest.raises(Interrupted, match="SIGTERM"):
        next(going)


def test_where_the_folder_is_not_seen_runs_last_as_long_as_the_task(
    pipeline: Path, tmp_path: Path, threads: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apart, "write_text", lambda path, text: None)
    runs = tmp_path / "runs"
    read = read_pipeline(pipeline)
    bench = Bench(pipeline, None, runs, NullProgress(), StopRequest(), 0, runtime=threads)
    tasks = tasks_of(read.kind, read.cells)
    assert sorted(cell.name for cell, _ in run_apart(tasks, bench)) == sorted(NAMES)
    assert not runs.exists()


def test_a_cell_that_fails_says_why(pipeline: Path, tmp_path: Path) -> None:
    pipeline.write_text(PIPELINE.replace('kernel = "ard"', 'kernel = "ard(1, 2)"'))
    with pytest.raises(SparseGPError, match="2 length scales"):
        reproduce(pipeline, out=tmp_path / "out", threads=2)
