"""The memory of a run, estimated before it begins: against peaks of processes, and what fits."""

import json
import logging
import re
import sys
from dataclasses import replace
from functools import partial

import distributed
import numpy as np
import pytest
import zarr

import sparsegp
from sparsegp.data import table_from_arrays
from sparsegp.errors import SettingsError, size
from sparsegp.fit import Training
from sparsegp.free_memory import FreeMemory, check, free_memory, remedies, shortage
from sparsegp.memory import Shape, estimate, rows_of_block
from sparsegp.runtime import open_runtime
from sparsegp.runtime.dask import DaskRuntime
from sparsegp.settings import DenseSettings, TrainSettings
from tests.processes import run_python

PEAKS = """
import json, os, sys
from sparsegp import train
from sparsegp.data import open_dataset
from sparsegp.runtime import open_runtime
def peak(pid):
    text = open(f"/proc/{pid}/status").read()
    return int(text.split("VmHWM:")[1].split()[0]) * 1024
if __name__ == "__main__":
    data, settings = open_dataset(sys.argv[1]), json.loads(sys.argv[3])
    with open_runtime(sys.argv[2]) as runtime:
        pids = runtime.run_in_workers(os.getpid)
        model = train(data.train, test=data.test, runtime=runtime, **settings)
        print(json.dumps([peak(pid) for pid in (os.getpid(), *pids)]))
"""
CHUNK = 4096
PANELS = {"panel": 64}
FEW = {"n_nodes": 6}  # which take time, and no memory of note
PLAIN = FEW | {"kernel": "50*rbf + 50*matern52"}
SHAPES = {
    "adf, panels": ((16000, 200, 4, 0), {"n_active": 64, "posterior": "adf"} | PANELS | PLAIN),
    "search, held-out rows": ((30000, 200, 5, 10000), {"n_active": 300} | PANELS | FEW),
    "many active rows": ((5000, 50, 3, 0), {"n_active": 1200} | PANELS | PLAIN),
    "double precision": ((30000, 200, 3, 0), {"n_active": 300, "precision": "float64"} | PLAIN),
    "kernel per class": ((16000, 200, 4, 0), {"n_active": 100, "kernel_per_class": True} | PLAIN),
    "regression": ((8000, 60, 0, 0), {"task": "regression", "n_active": 200, "major_steps": 1}),
    "pairs": ((6000, 400, 4, 0), {"active_per_class": True, "n_active": 60} | PLAIN),
    "bounded": (
        (40000, 100, 3, 0),
        {"n_active": 300, "posterior": "adf", "stub_entries": 4_000_000, "panel": 32} | PLAIN,
    ),
}
"""Rows, columns, classes, held-out rows; and settings. Regression has a search for a kernel too."""


def write(path, n, p, n_classes, n_test):
    """Write a zarr group of rows of which the column of their class tells."""
    rng, group = np.random.default_rng(0), zarr.open_group(path, mode="w")
    for part, rows in (("train", n), ("test", n_test)):
        X = rng.standard_normal((rows, p), dtype=np.float32)
        y = np.arange(rows) % (n_classes or rows or 1)
        X[np.arange(rows), y % p] += 2
        for name, values in (("X", X), ("y", y if n_classes else X[:, 0])):
            if rows:
                chunks = (min(CHUNK, rows), *values.shape[1:])
                group.create_array(f"{name}_{part}", data=values, chunks=chunks)


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_no_process_takes_more_than_its_estimate(name, tmp_path):
    runtime = "threads=2" if "search" in name else "workers=2"
    (n, p, n_classes, n_test), named = SHAPES[name]
    write(tmp_path / "rows.zarr", n, p, n_classes, n_test)
    script = tmp_path / "peaks.py"
    script.write_text(PEAKS)
    settings = TrainSettings.given(**named)
    named = {"kernel": settings.kernel, **named}
    done = run_python(script, tmp_path / "rows.zarr", runtime, json.dumps(named))
    driver, *workers = json.loads(done.stdout.splitlines()[-1])
    where = {"n_workers": 2} if workers else {"n_threads": 2}
    d = settings.rows_to_include(n)
    shape = Shape(n, p, n_classes, d, settings, n_test, itemsize=4, chunk_rows=5 * CHUNK, **where)
    found = estimate(shape)
    assert driver <= found["driver_bytes"] <= 2.5 * driver  # what libraries take differs
    for worker in workers:
        assert worker <= found["worker_bytes"] <= 2.5 * worker


# -- arrays of row blocks --------------------------------------------------------------------------

TASKS = {
    "one kernel": (4, {}),
    "a kernel a class": (4, {"sites": "moments", "kernel_per_class": True}),
    "two classes": (2, {"likelihood": "probit"}),
    "regression": (0, {"task": "regression"}),
    "bounded": (
        4,
        {"posterior": "adf", "stub_entries": 150_000, "shrink_every": 10, "precision": "float64"},
    ),
}


@pytest.mark.parametrize("task", TASKS)
def test_arrays_of_the_row_blocks(task):
    """While rows are included, and what a checkpoint holds of them."""
    n_classes, named = TASKS[task]
    n, d = (9000, 60) if task == "bounded" else (1100, 20)
    settings = TrainSettings.given(n_active=d, **named)
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n, 6)), np.arange(n) % (n_classes or n)
    with (
        open_runtime("threads=2") as runtime,
        Training(table_from_arrays(X, y), settings, runtime=runtime) as run,
    ):
        run.build()
        stub, of_blocks = 0, partial(runtime.map_blocks, "__getattribute__")
        for _ in run.include(d):
            stub = max(stub, sum(M.nbytes for b in of_blocks("stubs") for each in b for M in each))
        inputs = sum(X.nbytes for X in of_blocks("X"))
        saved = sum(array.nbytes for array in run.active.arrays().values())
    found = estimate(Shape(n, 6, n_classes, d, settings, n_threads=2))
    assert found["blocks"]["inputs"] == inputs
    assert stub <= found["blocks"]["stub"] <= 1.4 * stub
    assert 0.8 * saved <= found["checkpoint_bytes"] <= 1.5 * saved


def test_workers_share_the_rows():
    shape = Shape(131_072, 50, 5, 1000, TrainSettings())
    alone, shared = estimate(shape), estimate(replace(shape, n_workers=4))
    assert alone["worker_bytes"] == 0
    assert alone["total_bytes"] == alone["driver_bytes"]
    assert shared["blocks"]["stub"] == pytest.approx(alone["blocks"]["stub"] / 4, rel=0.01)
    assert shared["total_bytes"] == shared["driver_bytes"] + 4 * shared["worker_bytes"]
    assert shared["kernel_flops"] == alone["kernel_flops"] == pytest.approx(2 * 131_072 * 1000 * 50)
    assert shared["stub_flops"] == pytest.approx(131_072 * 1000**2)


@pytest.mark.parametrize(
    ("n", "workers", "wanted", "rows"),
    [(1000, 1, None, 1024), (1000, 2, None, 512), (20_000, 2, None, 5120), (99, 5, 300, 512)],
)
def test_rows_of_a_block(n, workers, wanted, rows):
    assert rows_of_block(n, workers, 1, wanted) == rows


# -- what does not fit -----------------------------------------------------------------------------

SHAPE = Shape(200_000, 50, 4, 1000, TrainSettings(n_active=1000), n_workers=4)
DRIVER = FreeMemory("this process", "laptop", 10**12)


def nodes(free, **named):
    return [DRIVER, *(FreeMemory(f"worker {i}", f"node {i}", free, **named) for i in range(4))]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"precision": "float64"},
        {"posterior": "adf"},
        {"posterior": "adf", "active_per_class": True, "sites": "moments"},
    ],
)
def test_what_is_advised_fits(options):
    """Each remedy, read as a user would, gives an estimate that is within the memory."""
    if "active_per_class" in options:
        options = {**options, "kernel_per_class": True, "criterion": "information"}
    shape = replace(SHAPE, settings=TrainSettings(n_active=1000, **options))
    available = nodes(int(0.8 * estimate(shape)["worker_bytes"]) - 160_000_000)

    def fits(other):
        return not shortage(other, available)

    assert "more memory on node 0, where" in shortage(shape, available)
    found = dict(text.split("=") for text in remedies(shape, fits))
    assert {"n_active", "scratch"} <= found.keys()
    assert ("precision" in found) == (options.get("precision") == "float64")
    number = int(found["n_active"])
    assert not fits(replace(shape, n_active=number + 1))
    assert fits(replace(shape, n_active=number))
    assert fits(replace(shape, scratch=True))
    if "precision" in found:
        assert fits(replace(shape, settings=replace(shape.settings, precision="float32")))


def test_memory_of_a_machine_and_of_a_process():
    need = estimate(SHAPE)["worker_bytes"]
    apart = nodes(need)
    together = [DRIVER, *(each._replace(machine="node") for each in apart[1:])]
    assert shortage(SHAPE, apart) == ""
    assert re.search(r"more memory on node, where .* are free", shortage(SHAPE, together))
    tight = nodes(10**12, own=int(0.4 * need))
    assert f"worker 0, which may have {size(0.4 * need)}" in shortage(SHAPE, tight)
    assert "this process, which may have" in shortage(SHAPE, [DRIVER._replace(own=10**6)])
    assert remedies(SHAPE, lambda other: False) == []


def test_what_cannot_fit_is_refused_and_what_may_not_warned_of(caplog):
    need = estimate(SHAPE)["worker_bytes"] - 184_000_000
    for share, outcome in ((1.01, ""), (0.95, "may take"), (0.4, "takes")):
        caplog.clear()
        if outcome == "takes":
            with pytest.raises(SettingsError, match=r"^this run takes .*; what would fit: n_ac"):
                check(SHAPE, nodes(int(share * need)))
        else:
            with caplog.at_level(logging.WARNING, "sparsegp"):
                check(SHAPE, nodes(int(share * need)))
        assert ("this run may take" in caplog.text) == (outcome == "may take")
    dense = Shape(10**6, 3, 3, 10**6, DenseSettings())
    with pytest.raises(SettingsError, match=r"what would fit: \d+ rows, or method=ivm"):
        check(dense, [DRIVER])


LIMITED = """
import resource, sys
from sparsegp.cli import main
import sparsegp.fit
text = open("/proc/self/status").read().split("VmData:")[1]
limit = int(text.split()[0]) * 1024 + int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
main()
"""
"""The program, which may take so many bytes more than its libraries have."""


def test_a_run_in_threads_is_refused_before_it_reads(tmp_path):
    """By the limit of the system on the memory of the process."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 3000)
    np.savez(tmp_path / "rows.npz", X=rng.standard_normal((3, 10))[y], y=y)
    words = ("train", "rows.npz", "--n-active", 2500, "--quiet")
    done = run_python("-c", LIMITED, 250_000_000, *words, code=2, cwd=tmp_path)
    warning, line = done.stderr.splitlines()
    assert "2997 of 3000 rows of rows.npz (X) have the inputs and the label of others" in warning
    found = re.match(r"error: this run takes .* in this process, .*; what .*--n-active (\d+)", line)
    assert found is not None, line
    assert 0 < int(found[1]) < 2500
    assert not (tmp_path / "sparsegp-run-rows").exists()


def test_a_container_has_less_memory_than_its_machine(tmp_path, monkeypatch):
    (tmp_path / "of-old").write_text("max\n")
    (tmp_path / "of-new").write_text("1073741824\n")
    files = [str(tmp_path / name) for name in ("no-file", "of-old", "of-new")]
    module = sys.modules[free_memory.__module__]
    monkeypatch.setattr(module, "CONTAINER", files[:2])
    assert free_memory().shared > 2**30
    monkeypatch.setattr(module, "CONTAINER", files)
    assert 0 < free_memory().shared < 2**30


@pytest.mark.slow
def test_workers_with_small_limits_refuse_a_run():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((3000, 10)), np.arange(3000) % 3
    options = {"memory_limit": "300MB", "processes": True, "threads_per_worker": 1}
    with (
        distributed.LocalCluster(n_workers=2, dashboard_address=None, **options) as cluster,
        distributed.Client(cluster, direct_to_workers=True, set_as_default=False) as client,
        DaskRuntime(client) as runtime,
    ):
        with pytest.raises(SettingsError, match=r"in worker tcp.*may have .* MB; what would fit"):
            sparsegp.train(X, y, n_active=2600, runtime=runtime)
        assert runtime.n_blocks == 0
        model = sparsegp.train(X, y, n_active=50, posterior="adf", runtime=runtime)
        assert len(model.rows) == 50


# -- arrays in files ------------------------------------------------------------------------------


@pytest.mark.slow
def test_data_larger_than_the_memory_it_is_given(tmp_path):
    n, p = 300_000, 128  # 154 MB of inputs, 307 MB of stub
    rng = np.random.default_rng(0)
    X = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.float32, (n, p))
    y = rng.integers(0, 2, n)
    for some in np.array_split(np.arange(n), 10):
        X[some] = rng.standard_normal((len(some), p), dtype=np.float32) + y[some, None]
    X.flush()
    np.save(tmp_path / "y.npy", y)
    words = ("train", tmp_path / "X.npy", "--n-active", 256, "--threads", 1, "--scaling", "none")
    words += ("--posterior", "adf", "--criterion", "random", "--kernel", "rbf(20)", "--quiet")
    words = ("-c", LIMITED, 450_000_000, *words, "--out", tmp_path / "run")
    refused = run_python(*words, code=2).stderr
    assert re.search(r"error: .*(may|would) fit: .*--scratch DIR", refused)
    run_python(*words, "--scratch", tmp_path)
    assert len(sparsegp.load(tmp_path / "run").rows) == 256
