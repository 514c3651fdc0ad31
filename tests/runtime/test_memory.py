"""No process takes more than 15 % above what is promised; what cannot fit is refused."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from sparsegp.data.blocks import row_blocks
from sparsegp.estimate import Estimate, estimate
from sparsegp.settings import TrainSettings
from tests.processes import ROOT, environment

MARGIN = 1.15
CHUNK = 4096

SHAPES: dict[str, tuple[tuple[int, int, int, int], dict[str, Any]]] = {
    "adf, panels": ((40000, 200, 5, 0), {"n_active": 128, "panel": 64, "posterior": "adf"}),
    "all": ((60000, 200, 10, 0), {"n_active": 400}),
    "all, held-out rows": ((30000, 200, 5, 10000), {"n_active": 300, "panel": 64}),
    "active": ((60000, 200, 5, 0), {"n_active": 400, "posterior": "active"}),
    "adf, one by one": ((60000, 200, 5, 0), {"n_active": 300, "posterior": "adf"}),
    "many active rows": ((8000, 50, 3, 0), {"n_active": 1500, "panel": 64}),
    "double precision": ((30000, 200, 3, 0), {"n_active": 300, "precision": "float64"}),
    "kernel per class": ((20000, 100, 5, 0), {"n_active": 150, "kernel_per_class": True}),
    "probit": ((60000, 100, 2, 0), {"likelihood": "probit", "n_active": 300}),
    "regression": ((40000, 100, 0, 0), {"task": "regression", "n_active": 300}),
    "pairs": ((20000, 400, 5, 0), {"active_per_class": True, "n_active": 80, "n_nodes": 6}),
    "bounded": (
        (40000, 100, 3, 0),
        {"n_active": 300, "posterior": "adf", "stub_entries": 4_000_000, "panel": 32},
    ),
}
QUICK = "adf, panels"


def write(path: Path, n: int, p: int, n_classes: int, n_test: int) -> None:
    """Write a zarr group of rows of which the column of their class tells."""
    rng, group = np.random.default_rng(0), zarr.open_group(path, mode="w")
    for part, rows in (("train", n), ("test", n_test)):
        X = rng.standard_normal((rows, p), dtype=np.float32)
        y = np.arange(rows) % (n_classes or rows or 1)
        X[np.arange(rows), y % p] += 2
        for name, values in (("X", X), ("y", y if n_classes else X[:, 0])):
            if rows:
                shape = (min(CHUNK, rows), *values.shape[1:])
                array = group.create_array(
                    f"{name}_{part}", shape=values.shape, chunks=shape, dtype=values.dtype
                )
                array[:] = values


def run(store: Path, settings: dict[str, Any], scratch: Path | None = None) -> Any:
    """Return the peaks of a run with two workers in processes of its own."""
    where = None if scratch is None else str(scratch)
    spec = {"n_workers": 2, "settings": settings, "scratch": where}
    done = subprocess.run(
        [sys.executable, "-m", "tests.runtime.peaks", str(store), json.dumps(spec)],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def promised(
    sizes: tuple[int, int, int, int], named: dict[str, Any], scratch: bool = False
) -> Estimate:
    n, p, n_classes, n_test = sizes
    settings = TrainSettings.given(**named)
    return estimate(
        n,
        p,
        n_classes,
        settings.rows_to_include(n),
        settings,
        2,
        n_test,
        source_itemsize=4,
        chunk_rows=row_blocks(n, p, "rows", CHUNK)[0],
        scratch=scratch,
    )


@pytest.mark.parametrize(
    "name", [QUICK, *(pytest.param(x, marks=pytest.mark.slow) for x in SHAPES if x != QUICK)]
)
def test_processes_keep_to_what_is_promised(name: str, tmp_path: Path) -> None:
    """From reading to predicting; the interpreter is less than half of it in most of them."""
    sizes, settings = SHAPES[name]
    write(tmp_path / "rows.zarr", *sizes)
    found, told = run(tmp_path / "rows.zarr", settings), promised(sizes, settings)
    print(f"{name}: {max(found['workers']) / told.worker_bytes:.2f}", end=" ")
    print(
        f"of {told.worker_bytes / 1e6:.0f} MB, {found['driver'] / told.driver_bytes:.2f}", end=" "
    )
    print(f"of {told.driver_bytes / 1e6:.0f} MB")
    assert max(found["workers"]) <= MARGIN * told.worker_bytes
    assert found["driver"] <= MARGIN * told.driver_bytes


@pytest.mark.slow
def test_scratch_files_take_no_private_memory(tmp_path: Path) -> None:
    sizes, settings = (60000, 200, 5, 0), {"n_active": 400}
    write(tmp_path / "rows.zarr", *sizes)
    found = run(tmp_path / "rows.zarr", settings, tmp_path)
    told, without = promised(sizes, settings, scratch=True), promised(sizes, settings)
    assert max(found["private"]) <= MARGIN * told.worker_bytes < without.worker_bytes
